//! Means and maxima of each minute, for the time before the full records.
//!
//! The rates of a record count in the minutes of its slots, as in the archive: see
//! [`ibnet_record::minute`]. A minute is complete one minute after its end, when the last records
//! had no part in it. It is then written, and later records do not change it. Minutes are written
//! in any order, because records can be late and the clock of a sampler can be set back. After a
//! step back, the minutes of the time that has not come yet are dropped, so that they do not hide
//! the right ones. So are those that have values of before and after the step.

use ibnet_analysis::record::{Interval, Port};
use ibnet_record::minute::{MINUTE_NS, Mean, in_minutes};
use ibnet_record::slots::counted_interval;

use super::column::{Order, code_of, value_of};
use super::table::{Key, Packed, Table};

/// Metrics that are kept, in the order of [`Minute::values`].
pub(crate) const METRICS: [&str; 5] = [
    "xmit_gbps",
    "rcv_gbps",
    "xmit_utilization",
    "rcv_utilization",
    "xmit_blocked",
];

/// Number of minutes in one compact table.
const HOUR: u64 = 60;

/// Number of records without a part in a minute after which it is complete. Late records of a
/// second sampler come between those of the first one.
const QUIET: u64 = 8;

/// Largest number of minutes that are not written. A record can describe a whole day.
const MAX_OPEN: usize = 16;

const NUMBER: Key = Key::field(0);

/// Mean and maximum of each metric in one minute.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Minute {
    /// Start of the minute divided by its length.
    pub(crate) number: u64,
    /// Mean and maximum of each of [`METRICS`].
    pub(crate) values: [Option<(f64, f64)>; METRICS.len()],
}

/// A minute that is not complete: the means of the primary and of the secondary sampler.
#[derive(Clone, Debug)]
struct OpenMinute {
    number: u64,
    means: [[Mean; METRICS.len()]; 2],
    /// Largest end of a part for each of the means.
    ends: [[u64; METRICS.len()]; 2],
    /// Number of the last record with a part in it.
    heard: u64,
    /// Whether a part does not end after those before it.
    goes_back: bool,
}

/// An hour with its minutes that are written.
#[derive(Clone, Copy, Debug, Default)]
struct Hour {
    /// Start of the hour divided by its length.
    number: u64,
    /// Bit *n* is set if minute *n* is written.
    written: u64,
}

/// The minutes of one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Minutes {
    open: Vec<OpenMinute>,
    /// Number of records.
    records: u64,
    /// The hour of the last minute that was written.
    hour: Hour,
    table: Table,
    /// The other hours, oldest first.
    packed: Vec<(Hour, Packed)>,
}

impl Hour {
    fn has(self, minute: u64) -> bool {
        self.number == minute / HOUR && self.written >> (minute % HOUR) & 1 == 1
    }

    /// Returns the number of the first minute. There must be one.
    const fn first(self) -> u64 {
        self.number * HOUR + self.written.trailing_zeros() as u64
    }

    /// Returns the number of the last minute. There must be one.
    const fn last(self) -> u64 {
        self.number * HOUR + self.written.ilog2() as u64
    }

    const fn ends_before(self, ns: u64) -> bool {
        (self.number + 1).saturating_mul(HOUR * MINUTE_NS) <= ns
    }
}

impl Minutes {
    /// Adds the rates of a record. `octets` is the size of all compact tables.
    pub(crate) fn add(&mut self, port: &Port<'_>, octets: &mut usize) {
        self.records += 1;
        let role = usize::from(port.is_secondary());
        let data = [
            port.xmit_gbps,
            port.rcv_gbps,
            port.xmit_utilization,
            port.rcv_utilization,
        ];
        let slot_ns = counted_interval(port.ts, port.slot, port.dt_ns, port.xmit_blocked_dt_ns);
        let counted = |time: Interval| in_minutes(time, slot_ns);
        let time = port.time.and_then(counted);
        for (metric, value) in data.into_iter().enumerate() {
            self.add_value(role, metric, value, time);
        }
        let blocked_time = port.blocked_time.and_then(counted);
        self.add_value(role, data.len(), port.xmit_blocked, blocked_time);
        let complete = (port.ts / MINUTE_NS).saturating_sub(1);
        while let Some(place) = self.due(complete) {
            let minute = self.open.remove(place);
            self.write(&minute.finish(), octets);
        }
    }

    /// Returns the place of a minute that must be written.
    fn due(&self, complete: u64) -> Option<usize> {
        let is_due =
            |minute: &OpenMinute| minute.number < complete && self.records - minute.heard >= QUIET;
        let oldest = || {
            self.open
                .iter()
                .enumerate()
                .min_by_key(|(_, minute)| minute.heard)
                .map(|(place, _)| place)
        };
        self.open
            .iter()
            .position(is_due)
            .or_else(|| oldest().filter(|_| self.open.len() > MAX_OPEN))
    }

    fn add_value(
        &mut self,
        role: usize,
        metric: usize,
        value: Option<f64>,
        time: Option<Interval>,
    ) {
        let (Some(value), Some(time)) = (value, time) else {
            return;
        };
        for (number, part) in time.split(MINUTE_NS) {
            let place = match self
                .open
                .binary_search_by_key(&number, |minute| minute.number)
            {
                Ok(place) => place,
                Err(_) if self.is_written(number) => continue,
                Err(place) => {
                    self.open.insert(
                        place,
                        OpenMinute {
                            number,
                            means: Default::default(),
                            ends: Default::default(),
                            heard: 0,
                            goes_back: false,
                        },
                    );
                    place
                }
            };
            let minute = &mut self.open[place];
            minute.heard = self.records;
            let end = &mut minute.ends[role][metric];
            minute.goes_back |= part.to() <= *end;
            *end = part.to().max(*end);
            minute.means[role][metric].add(part, value, value);
        }
    }

    /// Returns the place of a compact hour.
    fn find(&self, hour: u64) -> Option<usize> {
        self.packed
            .binary_search_by_key(&hour, |(hour, _)| hour.number)
            .ok()
    }

    fn is_written(&self, minute: u64) -> bool {
        self.hour.has(minute)
            || self
                .find(minute / HOUR)
                .is_some_and(|place| self.packed[place].0.has(minute))
    }

    fn write(&mut self, minute: &Minute, octets: &mut usize) {
        let hour = minute.number / HOUR;
        if self.table.rows() == 0 || self.hour.number != hour {
            self.close(octets);
            self.hour.number = hour;
            if let Some(place) = self.find(hour) {
                let (_, packed) = self.packed.remove(place);
                *octets -= size(&packed);
                rows(&packed).iter().for_each(|minute| self.put(minute));
            }
        }
        self.put(minute);
    }

    fn put(&mut self, minute: &Minute) {
        self.hour.written |= 1 << (minute.number % HOUR);
        self.table.put(0, NUMBER, Order::Even, Some(minute.number));
        for (index, value) in minute.values.iter().enumerate() {
            let rounded = |value: f64| code_of((value * 1e6).round() / 1e6);
            self.table.put(
                2 * index + 1,
                key(index, false),
                Order::Same,
                value.map(|(mean, _)| rounded(mean)),
            );
            self.table.put(
                2 * index + 2,
                key(index, true),
                Order::Same,
                value.map(|(_, max)| rounded(max)),
            );
        }
        self.table.end_row();
    }

    /// Makes the hour of the table compact.
    fn close(&mut self, octets: &mut usize) {
        let hour = std::mem::take(&mut self.hour);
        if self.table.rows() > 0 {
            let packed = self.table.close();
            *octets += size(&packed);
            let place = self
                .packed
                .partition_point(|(other, _)| other.number < hour.number);
            self.packed.insert(place, (hour, packed));
        }
    }

    /// Returns the minutes from `from` to `to`, as times in nanoseconds.
    pub(crate) fn read(&self, from: u64, to: u64) -> Vec<Minute> {
        let (from, to) = (from / MINUTE_NS, to / MINUTE_NS);
        let hours = from / HOUR..=to / HOUR;
        let packed = self
            .packed
            .iter()
            .filter(|(hour, _)| hours.contains(&hour.number));
        let mut minutes: Vec<Minute> = packed.flat_map(|(_, packed)| rows(packed)).collect();
        if self.table.rows() > 0 {
            minutes.extend(rows(&self.table.pack()));
        }
        minutes.extend(self.open.iter().map(OpenMinute::finish));
        minutes.retain(|minute| (from..=to).contains(&minute.number));
        minutes.sort_unstable_by_key(|minute| minute.number);
        minutes
    }

    /// Removes the hours that end before `before`, a time in nanoseconds. `octets` is the size of
    /// all compact tables.
    pub(crate) fn drop_before(&mut self, before: u64, octets: &mut usize) {
        let count = self
            .packed
            .partition_point(|(hour, _)| hour.ends_before(before));
        *octets -= self
            .packed
            .drain(..count)
            .map(|(_, packed)| size(&packed))
            .sum::<usize>();
        if self.table.rows() > 0 && self.hour.ends_before(before) {
            self.table.close();
            self.hour = Hour::default();
        }
        self.open
            .retain(|minute| (minute.number + 1).saturating_mul(MINUTE_NS) > before);
    }

    /// Removes the minutes of the time after `newest`, the newest record of all right clocks in
    /// nanoseconds. A minute that is written must have ended before. If `newest` was set back, the
    /// minutes with values of before and after the step are removed, too.
    pub(crate) fn drop_after(&mut self, newest: u64, is_set_back: bool, octets: &mut usize) {
        let now = newest / MINUTE_NS;
        self.open
            .retain(|minute| minute.number <= now && !(is_set_back && minute.goes_back));
        let is_wrong = |hour: Hour| hour.written > 0 && hour.last() >= now;
        if !is_wrong(self.hour) && !self.packed.last().is_some_and(|(hour, _)| is_wrong(*hour)) {
            return;
        }
        self.close(octets);
        while let Some((_, packed)) = self.packed.pop_if(|(hour, _)| is_wrong(*hour)) {
            *octets -= size(&packed);
            // Only the oldest one of these hours has right minutes too.
            rows(&packed)
                .iter()
                .filter(|minute| minute.number < now)
                .for_each(|minute| self.write(minute, octets));
        }
    }

    /// Returns the start of the first minute in nanoseconds since 1970.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let packed = self.packed.first().map(|(hour, _)| hour.first());
        let written = (self.table.rows() > 0).then(|| self.hour.first());
        let open = self.open.first().map(|minute| minute.number);
        [packed, written, open]
            .into_iter()
            .flatten()
            .min()
            .map(|number| number * MINUTE_NS)
    }
}

fn key(metric: usize, is_max: bool) -> Key {
    Key::field((2 * metric + 1 + usize::from(is_max)) as u16)
}

/// Returns the octets of a compact hour.
fn size(packed: &Packed) -> usize {
    size_of::<(Hour, Packed)>() + packed.octets()
}

fn rows(packed: &Packed) -> Vec<Minute> {
    let mut columns = packed.columns(
        |key| {
            if key == NUMBER {
                Order::Even
            } else {
                Order::Same
            }
        },
        |_| true,
    );
    let row = |_| {
        let mut values = columns.iter_mut().map(|(_, values)| values.next_value());
        let number = values.next().flatten().unwrap_or_default();
        let mut next = || values.next().flatten().map(value_of);
        Minute {
            number,
            values: std::array::from_fn(|_| next().zip(next())),
        }
    };
    (0..packed.rows).map(row).collect()
}

impl OpenMinute {
    /// Returns the values of the primary sampler. The secondary sampler fills in where the primary
    /// has none.
    fn finish(&self) -> Minute {
        let of = |mean: &Mean| mean.mean().zip(mean.max());
        let [primary, secondary] = &self.means;
        Minute {
            number: self.number,
            values: std::array::from_fn(|metric| {
                of(&primary[metric]).or_else(|| of(&secondary[metric]))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::record::{Record, Type};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn add(minutes: &mut Minutes, octets: &mut usize, second: u64, role: &str, gbps: f64) {
        let line = format!(
            r#"{{"type":"port","ts":{},"slot":{second},"sampler":"s","role":"{role}","guid":"0x0000000000000001","port":1,"status":"ok","dt_ns":{SECOND},"xmit_gbps":{gbps}}}"#,
            second * SECOND
        );
        let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else {
            panic!("a port record")
        };
        minutes.add(&port, octets);
    }

    fn xmit(minutes: &Minutes) -> Vec<(u64, Option<(f64, f64)>)> {
        minutes
            .read(0, u64::MAX)
            .iter()
            .map(|minute| (minute.number, minute.values[0]))
            .collect()
    }

    #[test]
    fn each_minute_has_its_mean_and_maximum() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for second in 6001..=6240 {
            add(
                &mut minutes,
                &mut octets,
                second,
                "primary",
                (second % 60) as f64,
            );
        }
        // The interval of second 6060 ends at the border of the minute.
        assert_eq!(
            xmit(&minutes),
            (100..104)
                .map(|number| (number, Some((29.5, 59.0))))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn secondary_fills_minutes_without_the_primary() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for second in 6001..=6240 {
            add(&mut minutes, &mut octets, second, "secondary", 2.0);
            if second <= 6060 {
                add(&mut minutes, &mut octets, second, "primary", 1.0);
            }
        }
        let expected: Vec<_> = [1.0, 2.0, 2.0, 2.0]
            .into_iter()
            .zip(100..)
            .map(|(value, number)| (number, Some((value, value))))
            .collect();
        assert_eq!(xmit(&minutes), expected);
    }

    #[test]
    fn complete_minutes_do_not_change_and_old_ones_are_dropped() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for minute in 1..=200 {
            add(&mut minutes, &mut octets, minute * 60, "primary", 1.0);
        }
        add(&mut minutes, &mut octets, 60, "primary", 9.0);
        assert_eq!(
            (
                xmit(&minutes).len(),
                xmit(&minutes)[0].1,
                minutes.first_ns()
            ),
            (200, Some((1.0, 1.0)), Some(0))
        );
        let before = octets;
        minutes.drop_before(100 * MINUTE_NS, &mut octets);
        assert!(0 < octets && octets < before, "{octets} of {before}");
        assert_eq!(
            minutes.first_ns(),
            Some(60 * MINUTE_NS),
            "a table of 60 minutes is dropped as a whole"
        );
    }

    #[test]
    fn record_of_the_largest_time_is_kept() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        add(&mut minutes, &mut octets, u64::MAX / SECOND, "primary", 1.0);
        minutes.drop_before(100 * MINUTE_NS, &mut octets);
        assert_eq!(
            minutes.first_ns().map(|first| first / MINUTE_NS),
            Some(u64::MAX / SECOND / 60)
        );
    }

    #[test]
    fn minutes_are_written_in_any_order() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for minute in (300..420).chain(100..170).chain(200..300) {
            (1..=60).for_each(|second| {
                add(
                    &mut minutes,
                    &mut octets,
                    minute * 60 + second,
                    "primary",
                    minute as f64,
                );
            });
        }
        let numbers = (100..170).chain(200..420);
        assert_eq!(
            xmit(&minutes),
            numbers
                .map(|minute| (minute, Some((minute as f64, minute as f64))))
                .collect::<Vec<_>>()
        );
        // Each hour has one table, and the last one is not compact.
        assert_eq!(
            (minutes.packed.len(), minutes.first_ns()),
            (5, Some(100 * MINUTE_NS))
        );
        minutes.drop_before(u64::MAX, &mut octets);
        assert_eq!((octets, minutes.first_ns()), (0, None));
    }

    #[test]
    fn late_records_between_others_are_in_one_mean() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for second in 1..=180 {
            add(&mut minutes, &mut octets, 60_000 + second, "primary", 1.0);
            add(
                &mut minutes,
                &mut octets,
                6000 + second,
                "secondary",
                second.div_ceil(60) as f64,
            );
        }
        assert_eq!(
            xmit(&minutes)[..3],
            [1.0, 2.0, 3.0].map(|mean| (99 + mean as u64, Some((mean, mean))))
        );
    }

    #[test]
    fn minutes_of_the_future_are_dropped() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        for minute in (100..130).chain(133..300) {
            (1..=60).for_each(|second| {
                add(
                    &mut minutes,
                    &mut octets,
                    minute * 60 + second,
                    "primary",
                    9.0,
                );
            });
        }
        // The clock was set back to minute 130. Minute 135 has been written by the wrong clock.
        minutes.drop_after(135 * MINUTE_NS + SECOND, false, &mut octets);
        assert_eq!(xmit(&minutes).last().map(|(number, _)| *number), Some(134));
        (130 * 60 + 1..140 * 60)
            .for_each(|second| add(&mut minutes, &mut octets, second, "primary", 1.0));
        let means: Vec<_> = xmit(&minutes)
            .iter()
            .map(|(number, value)| (*number, value.map(|(mean, _)| mean)))
            .collect();
        let expected = |minute| {
            (
                minute,
                Some(if (130..133).contains(&minute) || minute > 134 {
                    1.0
                } else {
                    9.0
                }),
            )
        };
        assert_eq!(means, (100..140).map(expected).collect::<Vec<_>>());
        minutes.drop_before(u64::MAX, &mut octets);
        assert_eq!(octets, 0);
    }

    #[test]
    fn hostile_times_open_few_minutes() {
        let (mut minutes, mut octets) = (Minutes::default(), 0);
        (1..1000)
            .rev()
            .for_each(|minute| add(&mut minutes, &mut octets, minute * 60, "primary", 1.0));
        assert_eq!((minutes.open.len(), xmit(&minutes).len()), (MAX_OPEN, 999));
    }
}
