//! Means of the values of a port for each *bin*, a time interval that is usually 1 s long at first.
//! If there are too many bins, their length is doubled (2 s, 4 s, ...).

use super::Mean;
use crate::input::run::Measured;
use crate::record::Interval;

const SECOND: u64 = 1_000_000_000;

/// Means of a port for each bin.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeBins {
    /// Bins in the order of their numbers.
    bins: Vec<(u64, TimeBin)>,
    /// A bin is `shortest_ns` << `shift` long.
    shift: u32,
    shortest_ns: u64,
    most: usize,
}

impl Default for TimeBins {
    /// No bins at all.
    fn default() -> Self {
        Self::new(0)
    }
}

/// Means of a port over one bin.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct TimeBin {
    /// Data transmitted, in Gb/s.
    pub xmit: Mean,
    /// Data received, in Gb/s.
    pub rcv: Mean,
    /// Data transmitted, as a share of the data rate of the link, 0 to 1.
    pub xmit_utilization: Mean,
    /// Data received, as a share of the data rate of the link, 0 to 1.
    pub rcv_utilization: Mean,
    /// Share of the time in which the port had data to send and no credit, 0 to 1.
    pub blocked: Mean,
    /// Whether the link was down in a part of the bin.
    pub has_down: bool,
}

impl TimeBins {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            bins: Vec::new(),
            shift: 0,
            shortest_ns: SECOND,
            most,
        }
    }

    /// Sets the length of the bins at first, in nanoseconds.
    pub(super) fn of(self, shortest_ns: u64) -> Self {
        Self {
            shortest_ns,
            ..self
        }
    }

    /// Returns the length of a bin in nanoseconds.
    pub const fn width_ns(&self) -> u64 {
        match 1_u64.checked_shl(self.shift) {
            Some(factor) => self.shortest_ns.saturating_mul(factor),
            None => u64::MAX,
        }
    }

    /// Returns how often the length was doubled.
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// Iterates over the bins with values. The number of a bin is its start divided by
    /// [`Self::width_ns`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, &TimeBin)> {
        self.bins.iter().map(|(number, bin)| (*number, bin))
    }

    /// Returns the bin of this number.
    pub fn get(&self, number: u64) -> Option<&TimeBin> {
        // Most ports have a bin of each number.
        let first = self.bins.first()?.0;
        let expected = usize::try_from(number.checked_sub(first)?).ok()?;
        let is_it = |(found, _): &&(u64, TimeBin)| *found == number;
        if let Some((_, bin)) = self.bins.get(expected).filter(is_it) {
            return Some(bin);
        }
        self.bins
            .binary_search_by_key(&number, |(number, _)| *number)
            .ok()
            .map(|index| &self.bins[index].1)
    }

    /// Adds the rates of a record to all bins that overlap its time.
    #[inline]
    pub(super) fn add(&mut self, measured: &Measured) {
        if self.most > 0 && !self.add_to_last(measured) {
            self.add_rates(measured);
        }
    }

    /// Adds a time in which the link was down.
    pub(super) fn add_down(&mut self, time: Interval) {
        if self.most > 0 {
            self.add_over(Some(time), |bin, _| bin.has_down = true);
        }
    }

    /// Fast path for most records: adds the rates of a record if its time lies in the last bin, or
    /// in the last one and a new one after it. Otherwise changes nothing and returns false.
    fn add_to_last(&mut self, rates: &Measured) -> bool {
        let times = rates.times;
        let (width_ns, most, count) = (self.width_ns(), self.most, self.bins.len());
        let Some((number, last)) = self.bins.last_mut() else {
            return false;
        };
        let start = number.saturating_mul(width_ns);
        let end = start.saturating_add(width_ns);
        let all = |is_true: &dyn Fn(&Interval) -> bool| times.iter().flatten().all(is_true);
        if !all(&|time| start <= time.from() && time.length_ns() / width_ns < most as u64) {
            return false;
        }
        if all(&|time| time.to() <= end) {
            last.add_rates(rates, times.map(|time| time.map(Interval::length_ns)));
            return true;
        }
        if count >= most || !all(&|time| time.to() <= end.saturating_add(width_ns)) {
            return false;
        }
        // Length of the part of a time in each of the two bins; empty parts do not count.
        let part = |from: u64, to: u64| to.checked_sub(from).filter(|length_ns| *length_ns > 0);
        last.add_rates(
            rates,
            times.map(|time| time.and_then(|time| part(time.from(), time.to().min(end)))),
        );
        let mut next = TimeBin::default();
        next.add_rates(
            rates,
            times.map(|time| time.and_then(|time| part(time.from().max(end), time.to()))),
        );
        let number = *number + 1;
        self.bins.push((number, next));
        true
    }

    fn add_rates(&mut self, rates: &Measured) {
        let [data, blocked] = rates.times;
        self.add_over(data, |bin, time_ns| bin.add_data(rates, time_ns));
        self.add_over(blocked, |bin, time_ns| {
            bin.blocked.add(rates.blocked, time_ns);
        });
    }

    fn add_over(&mut self, time: Option<Interval>, add: impl Fn(&mut TimeBin, u64)) {
        let Some(time) = time else { return };
        let most = self.most;
        while time.length_ns() / self.width_ns() >= most as u64 {
            self.widen_to(self.shift + 1);
        }
        for (number, part) in time.split(self.width_ns()) {
            let index = match self
                .bins
                .binary_search_by_key(&number, |(number, _)| *number)
            {
                Ok(index) => index,
                Err(index) => {
                    self.bins.insert(index, (number, TimeBin::default()));
                    index
                }
            };
            add(&mut self.bins[index].1, part.length_ns());
        }
        while self.bins.len() > most {
            self.widen_to(self.shift + 1);
        }
    }

    /// Widens the bins to the first length << `shift`, unless they are wider already.
    pub fn widen_to(&mut self, shift: u32) {
        let by = shift.saturating_sub(self.shift);
        if by == 0 {
            return;
        }
        self.shift = shift;
        let bins = std::mem::take(&mut self.bins);
        for (number, bin) in bins {
            let number = number.checked_shr(by).unwrap_or(0);
            match self.bins.last_mut() {
                Some((last, sum)) if *last == number => sum.merge(bin),
                _ => self.bins.push((number, bin)),
            }
        }
    }
}

impl TimeBin {
    /// Adds the rates of a record over its whole time.
    #[inline]
    pub(super) fn add(&mut self, rates: &Measured) {
        self.add_rates(rates, rates.times.map(|time| time.map(Interval::length_ns)));
    }

    fn add_rates(&mut self, rates: &Measured, [data_ns, blocked_ns]: [Option<u64>; 2]) {
        if let Some(time_ns) = data_ns {
            self.add_data(rates, time_ns);
        }
        if let Some(time_ns) = blocked_ns {
            self.blocked.add(rates.blocked, time_ns);
        }
    }

    fn add_data(&mut self, rates: &Measured, time_ns: u64) {
        let means = [
            &mut self.xmit,
            &mut self.rcv,
            &mut self.xmit_utilization,
            &mut self.rcv_utilization,
        ];
        means
            .into_iter()
            .zip(rates.data)
            .for_each(|(mean, rate)| mean.add(rate, time_ns));
    }

    fn merge(&mut self, later: Self) {
        self.xmit.merge(later.xmit);
        self.rcv.merge(later.rcv);
        self.xmit_utilization.merge(later.xmit_utilization);
        self.rcv_utilization.merge(later.rcv_utilization);
        self.blocked.merge(later.blocked);
        self.has_down |= later.has_down;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::port;
    use crate::record::Record;

    /// Returns the bins of records: time, length of the interval, Gb/s.
    fn bins(records: &[(u64, u64, f64)], most: usize) -> TimeBins {
        let mut bins = TimeBins::new(most);
        for (ts, dt_ns, gbps) in records {
            let rest = [
                ("ts", (*ts).into()),
                ("dt_ns", (*dt_ns).into()),
                ("xmit_gbps", (*gbps).into()),
                ("xmit_blocked", (gbps / 100.0).into()),
            ];
            let line = port(0, (1, 1), "leaf", (2, 1, "n"), &rest);
            let Record::Port(port) =
                Record::parse(line.as_bytes(), crate::record::Type::Port).expect("a record")
            else {
                panic!("a port")
            };
            bins.add(&Measured::of(&port));
        }
        bins
    }

    fn octets(bins: &TimeBins) -> Vec<(u64, f64)> {
        bins.iter()
            .map(|(number, bin)| (number, bin.xmit.octets()))
            .collect()
    }

    #[test]
    fn value_is_split_over_the_intervals_that_it_overlaps() {
        let bins = bins(&[(2 * SECOND + SECOND / 4, SECOND, 8.0)], 10);
        assert_eq!(octets(&bins), [(1, 0.75e9), (2, 0.25e9)]);
        assert_eq!(bins.get(2).and_then(|bin| bin.xmit.mean()), Some(8.0));
        assert_eq!(bins.get(1).map(|bin| bin.blocked.seconds()), Some(0.75));
    }

    #[test]
    fn intervals_double_when_there_are_too_many() {
        let records: Vec<_> = (1..=10)
            .map(|number| (number * SECOND, SECOND, (number - 1) as f64))
            .collect();
        let bins = bins(&records, 4);
        let means: Vec<_> = bins
            .iter()
            .map(|(number, bin)| (number, bin.xmit.mean()))
            .collect();
        // 0 to 3, 4 to 7, 8 and 9.
        assert_eq!(
            (bins.width_ns(), means),
            (
                4 * SECOND,
                vec![(0, Some(1.5)), (1, Some(5.5)), (2, Some(8.5))]
            )
        );
    }

    #[test]
    fn long_interval_and_late_time_need_no_more_memory() {
        const DAY: u64 = 86_400 * SECOND;
        let bins = bins(
            &[
                (DAY, DAY, 1.0),
                (u64::MAX, SECOND, 1.0),
                (u64::MAX - SECOND, SECOND, 1.0),
            ],
            1,
        );
        assert_eq!(octets(&bins).len(), 1);
        assert!(
            (bins.iter().map(|(_, bin)| bin.xmit.octets()).sum::<f64>() - 86_402.0 * 0.125e9).abs()
                < 1.0
        );
    }

    proptest! {
        /// The short way of most records has exactly the values of the long one.
        #[test]
        fn last_bins_get_the_values_of_any_bins(
            start in SECOND..1 << 60,
            records in prop::collection::vec((SECOND / 20..3 * SECOND, 0_u64..2 * SECOND, 0.0..100.0_f64), 1..60),
            most in 1_usize..20,
        ) {
            let (mut single, mut run, mut ts) = (TimeBins::new(most), TimeBins::new(most), start);
            for (dt_ns, gap_ns, gbps) in records {
                ts += gap_ns + dt_ns;
                let times = [Some(dt_ns), (gap_ns > SECOND / 2).then_some(dt_ns + gap_ns)].map(|dt_ns| Interval::ending_at(ts, dt_ns));
                let rates = Measured { ts, slot: 0, sampler: 1, rtt_ns: 0, lengths_ns: (None, None), times, data: [gbps, 0.0, gbps / 100.0, f64::NAN], blocked: gbps / 200.0, bytes: [None; 2] };
                single.add_rates(&rates);
                run.add(&rates);
                prop_assert_eq!(format!("{single:?}"), format!("{run:?}"));
            }
        }

        /// 10 Hz, 1 Hz and 0.2 Hz.
        #[test]
        fn bins_add_up_to_the_whole(
            start in SECOND..1 << 60,
            step in prop::sample::select(vec![SECOND / 10, SECOND, 5 * SECOND]),
            values in prop::collection::vec(0.0..100.0_f64, 1..60),
            most in 1_usize..40,
        ) {
            let records: Vec<_> = (1..).zip(&values).map(|(number, gbps)| (start + number * step, step, *gbps)).collect();
            let bins = bins(&records, most);
            let whole: f64 = values.iter().map(|gbps| gbps * step as f64 / 8.0).sum();
            prop_assert!((bins.iter().map(|(_, bin)| bin.xmit.octets()).sum::<f64>() - whole).abs() <= whole * 1e-12);
            prop_assert_eq!(bins.iter().map(|(_, bin)| bin.xmit.time_ns).sum::<u64>(), step * values.len() as u64);
            prop_assert!(bins.iter().count() <= most);
        }
    }
}
