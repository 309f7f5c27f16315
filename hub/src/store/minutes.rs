//! Means and maxima of each minute, for the time before the full records.
//!
//! The rates of a record count in each minute that its interval overlaps, weighted by the time of
//! the overlap. A minute is complete one minute after its end; later records do not change it.

use std::collections::VecDeque;

use ibnet_analysis::record::{Interval, Port};

use super::column::{Order, code_of, value_of};
use super::table::{Key, Packed, Table};

/// Length of a minute in nanoseconds.
pub(crate) const MINUTE_NS: u64 = 60_000_000_000;

/// Metrics that are kept, in the order of [`Minute::values`].
pub(crate) const METRICS: [&str; 5] = ["xmit_gbps", "rcv_gbps", "xmit_utilization", "rcv_utilization", "xmit_blocked"];

/// Largest number of minutes in one compact table.
const ROWS: u32 = 60;

const NUMBER: Key = Key::field(0);

/// Mean and maximum of each metric in one minute.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Minute {
    /// Start of the minute divided by its length.
    pub(crate) number: u64,
    /// Mean and maximum of each of [`METRICS`].
    pub(crate) values: [Option<(f64, f64)>; METRICS.len()],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sum: f64,
    time_ns: u64,
    max: f64,
}

/// A minute that is not complete: the sums of the primary and of the secondary sampler.
#[derive(Clone, Debug)]
struct OpenMinute {
    number: u64,
    sums: [[Sum; METRICS.len()]; 2],
}

/// The minutes of one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Minutes {
    open: Vec<OpenMinute>,
    /// Number of the next minute that can be written.
    next: u64,
    table: Table,
    /// Numbers of the first and the last minute of each compact table.
    packed: VecDeque<(u64, u64, Packed)>,
    first: u64,
}

impl Minutes {
    /// Adds the rates of a record. Returns the octets that a new compact table needs.
    pub(crate) fn add(&mut self, port: &Port<'_>) -> usize {
        let role = usize::from(port.is_secondary());
        let data = [port.xmit_gbps, port.rcv_gbps, port.xmit_utilization, port.rcv_utilization];
        for (metric, value) in data.into_iter().enumerate() {
            self.add_value(role, metric, value, port.time);
        }
        self.add_value(role, data.len(), port.xmit_blocked, port.blocked_time);
        let complete = (port.ts / MINUTE_NS).saturating_sub(1);
        let mut octets = 0;
        while let Some(place) = self.open.iter().position(|minute| minute.number < complete) {
            let minute = self.open.remove(place);
            octets += self.write(&minute);
        }
        octets
    }

    fn add_value(&mut self, role: usize, metric: usize, value: Option<f64>, time: Option<Interval>) {
        let (Some(value), Some(time)) = (value, time) else { return };
        for (number, part) in time.split(MINUTE_NS) {
            if number < self.next {
                continue;
            }
            let place = match self.open.binary_search_by_key(&number, |minute| minute.number) {
                Ok(place) => place,
                Err(place) => {
                    self.open.insert(place, OpenMinute { number, sums: Default::default() });
                    place
                }
            };
            let sum = &mut self.open[place].sums[role][metric];
            sum.sum += value * part.length_ns() as f64;
            sum.time_ns += part.length_ns();
            sum.max = sum.max.max(value);
        }
    }

    fn write(&mut self, minute: &OpenMinute) -> usize {
        self.next = minute.number + 1;
        let row = minute.finish();
        if self.table.rows() == 0 {
            self.first = row.number;
        }
        self.table.put(0, NUMBER, Order::Even, Some(row.number));
        for (index, value) in row.values.iter().enumerate() {
            let rounded = |value: f64| code_of((value * 1e6).round() / 1e6);
            self.table.put(2 * index + 1, key(index, false), Order::Same, value.map(|(mean, _)| rounded(mean)));
            self.table.put(2 * index + 2, key(index, true), Order::Same, value.map(|(_, max)| rounded(max)));
        }
        self.table.end_row();
        if self.table.rows() < ROWS {
            return 0;
        }
        let packed = self.table.close();
        let octets = packed.octets();
        self.packed.push_back((self.first, row.number, packed));
        octets
    }

    /// Returns the minutes from `from` to `to`, as times in nanoseconds.
    pub(crate) fn read(&self, from: u64, to: u64) -> Vec<Minute> {
        let (from, to) = (from / MINUTE_NS, to / MINUTE_NS);
        let mut minutes = Vec::new();
        let written = self.packed.iter().filter(|(first, last, _)| *first <= to && *last >= from).map(|(.., packed)| packed);
        written.for_each(|packed| read(packed, &mut minutes));
        if self.table.rows() > 0 {
            read(&self.table.pack(), &mut minutes);
        }
        minutes.extend(self.open.iter().map(OpenMinute::finish));
        minutes.retain(|minute| (from..=to).contains(&minute.number));
        minutes
    }

    /// Removes the compact tables that end before `before`, a time in nanoseconds. Returns their
    /// octets.
    pub(crate) fn drop_before(&mut self, before: u64) -> usize {
        let mut octets = 0;
        while let Some((.., packed)) = self.packed.front().filter(|(_, last, _)| (*last + 1).saturating_mul(MINUTE_NS) <= before) {
            octets += packed.octets();
            self.packed.pop_front();
        }
        if self.table.rows() > 0 && self.next.saturating_mul(MINUTE_NS) <= before {
            self.table.close();
        }
        self.open.retain(|minute| (minute.number + 1).saturating_mul(MINUTE_NS) > before);
        octets
    }

    /// Returns the start of the first minute in nanoseconds since 1970.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let packed = self.packed.front().map(|(first, ..)| *first);
        let written = packed.or_else(|| (self.table.rows() > 0).then_some(self.first));
        let first = written.or_else(|| self.open.first().map(|minute| minute.number));
        first.map(|number| number * MINUTE_NS)
    }
}

fn key(metric: usize, is_max: bool) -> Key {
    Key::field((2 * metric + 1 + usize::from(is_max)) as u16)
}

fn read(packed: &Packed, to: &mut Vec<Minute>) {
    let mut columns = packed.columns(|key| if key == NUMBER { Order::Even } else { Order::Same }, |_| true);
    for _ in 0..packed.rows {
        let mut values = columns.iter_mut().map(|(_, values)| values.next_value());
        let number = values.next().flatten().unwrap_or_default();
        let mut next = || values.next().flatten().map(value_of);
        let values = std::array::from_fn(|_| next().zip(next()));
        to.push(Minute { number, values });
    }
}

impl OpenMinute {
    /// Returns the values of the primary sampler. The secondary sampler fills in where the primary
    /// has none.
    fn finish(&self) -> Minute {
        let mean = |sum: &Sum| (sum.time_ns > 0).then(|| (sum.sum / sum.time_ns as f64, sum.max));
        let [primary, secondary] = &self.sums;
        Minute { number: self.number, values: std::array::from_fn(|metric| mean(&primary[metric]).or_else(|| mean(&secondary[metric]))) }
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::record::{Record, Type};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn add(minutes: &mut Minutes, second: u64, role: &str, gbps: f64) {
        let line = format!(
            r#"{{"type":"port","ts":{},"slot":{second},"sampler":"s","role":"{role}","guid":"0x0000000000000001","port":1,"status":"ok","dt_ns":{SECOND},"xmit_gbps":{gbps}}}"#,
            second * SECOND
        );
        let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else { panic!("a port record") };
        minutes.add(&port);
    }

    fn xmit(minutes: &Minutes) -> Vec<(u64, Option<(f64, f64)>)> {
        minutes.read(0, u64::MAX).iter().map(|minute| (minute.number, minute.values[0])).collect()
    }

    #[test]
    fn each_minute_has_its_mean_and_maximum() {
        let mut minutes = Minutes::default();
        for second in 6001..=6240 {
            add(&mut minutes, second, "primary", (second % 60) as f64);
        }
        // The interval of second 6060 ends at the border of the minute.
        assert_eq!(xmit(&minutes), (100..104).map(|number| (number, Some((29.5, 59.0)))).collect::<Vec<_>>());
    }

    #[test]
    fn secondary_fills_minutes_without_the_primary() {
        let mut minutes = Minutes::default();
        for second in 6001..=6240 {
            add(&mut minutes, second, "secondary", 2.0);
            if second <= 6060 {
                add(&mut minutes, second, "primary", 1.0);
            }
        }
        let expected: Vec<_> = [1.0, 2.0, 2.0, 2.0].into_iter().zip(100..).map(|(value, number)| (number, Some((value, value)))).collect();
        assert_eq!(xmit(&minutes), expected);
    }

    #[test]
    fn complete_minutes_do_not_change_and_old_ones_are_dropped() {
        let mut minutes = Minutes::default();
        for minute in 1..=200 {
            add(&mut minutes, minute * 60, "primary", 1.0);
        }
        add(&mut minutes, 60, "primary", 9.0);
        assert_eq!((xmit(&minutes).len(), xmit(&minutes)[0].1, minutes.first_ns()), (200, Some((1.0, 1.0)), Some(0)));
        assert!(minutes.drop_before(100 * MINUTE_NS) > 0);
        assert_eq!(minutes.first_ns(), Some(60 * MINUTE_NS), "a table of 60 minutes is dropped as a whole");
    }

    #[test]
    fn record_of_the_largest_time_is_kept() {
        let mut minutes = Minutes::default();
        add(&mut minutes, u64::MAX / SECOND, "primary", 1.0);
        assert_eq!(minutes.drop_before(100 * MINUTE_NS), 0);
        assert_eq!(minutes.first_ns().map(|first| first / MINUTE_NS), Some(u64::MAX / SECOND / 60));
    }
}
