//! Means of the values of a port by interval of time. The length of an interval is at first 1 s. It
//! is doubled (2 s, 4 s, ...) until the number of intervals is within its limit.

use super::Mean;
use crate::record::Port;

const SECOND: u64 = 1_000_000_000;

/// Means of a port by interval of time.
#[derive(Clone, PartialEq, Debug)]
pub struct TimeBins {
    /// Intervals in the order of their numbers.
    bins: Vec<(u64, TimeBin)>,
    /// The length of an interval is 1 s << `shift`.
    shift: u32,
    most: usize,
}

/// Means of a port over an interval of time.
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
}

impl TimeBins {
    pub(super) const fn new(most: usize) -> Self {
        Self { bins: Vec::new(), shift: 0, most }
    }

    /// Returns the length of an interval in nanoseconds.
    pub const fn width_ns(&self) -> u64 {
        SECOND << self.shift
    }

    /// Returns the number of times that the length was doubled.
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the intervals with values. Their number is the start divided by [`Self::width_ns`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, &TimeBin)> {
        self.bins.iter().map(|(number, bin)| (*number, bin))
    }

    /// Returns the interval of this number.
    pub fn get(&self, number: u64) -> Option<&TimeBin> {
        self.bins.binary_search_by_key(&number, |(number, _)| *number).ok().map(|index| &self.bins[index].1)
    }

    pub(super) fn add(&mut self, port: &Port<'_>) {
        let dt = port.dt_ns.unwrap_or(0);
        let mut bin = TimeBin::default();
        bin.add(port, dt);
        // The record describes the time before it. The middle of that time selects the interval.
        self.add_bin((port.ts.saturating_sub(dt / 2) / SECOND) >> self.shift, bin);
    }

    fn add_bin(&mut self, number: u64, bin: TimeBin) {
        match self.bins.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(index) => self.bins[index].1.merge(bin),
            Err(index) => self.bins.insert(index, (number, bin)),
        }
        while self.bins.len() > self.most.max(1) {
            self.widen_to(self.shift + 1);
        }
    }

    pub(super) fn merge(&mut self, mut later: Self) {
        let shift = self.shift.max(later.shift);
        self.widen_to(shift);
        later.widen_to(shift);
        // `add_bin` may widen these intervals further.
        later.bins.into_iter().for_each(|(number, bin)| self.add_bin(number >> (self.shift - shift), bin));
    }

    /// Widens the intervals to 1 s << `shift`, unless they are wider already.
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
    pub(super) fn add(&mut self, port: &Port<'_>, dt: u64) {
        self.xmit.add(port.xmit_gbps, dt);
        self.rcv.add(port.rcv_gbps, dt);
        self.xmit_utilization.add(port.xmit_utilization, dt);
        self.rcv_utilization.add(port.rcv_utilization, dt);
        // Without `dt_ns` the value gets the smallest possible weight.
        self.blocked.add(port.xmit_blocked, dt.max(1));
    }

    pub(super) fn merge(&mut self, later: Self) {
        self.xmit.merge(later.xmit);
        self.rcv.merge(later.rcv);
        self.xmit_utilization.merge(later.xmit_utilization);
        self.rcv_utilization.merge(later.rcv_utilization);
        self.blocked.merge(later.blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(gbps: f64) -> TimeBin {
        let mut bin = TimeBin::default();
        bin.xmit.add(Some(gbps), SECOND);
        bin
    }

    fn bins(numbers: impl Iterator<Item = u64>, most: usize) -> TimeBins {
        let mut bins = TimeBins::new(most);
        numbers.for_each(|number| bins.add_bin(number >> bins.shift, bin(number as f64)));
        bins
    }

    #[test]
    fn intervals_double_when_there_are_too_many() {
        let bins = bins(0..10, 4);
        let means: Vec<_> = bins.iter().map(|(number, bin)| (number, bin.xmit.mean())).collect();
        // 0 to 3, 4 to 7, 8 and 9.
        assert_eq!((bins.width_ns(), means), (4 * SECOND, vec![(0, Some(1.5)), (1, Some(5.5)), (2, Some(8.5))]));
        assert_eq!(bins.get(1).and_then(|bin| bin.xmit.mean()), Some(5.5));
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let whole = bins(100..170, 8);
        for cut in [101, 130, 131, 169] {
            let mut first = bins(100..cut, 8);
            first.merge(bins(cut..170, 8));
            assert_eq!(first, whole, "cut at {cut}");
        }
    }
}
