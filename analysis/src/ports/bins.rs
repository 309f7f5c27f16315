//! What a port did, time by time: bins of a second, or of two, four, eight seconds and so on, so that there are never more than so many.

use super::Mean;
use crate::record::Port;

const SECOND: u64 = 1_000_000_000;

/// A port's course.
#[derive(Clone, PartialEq, Debug)]
pub struct Bins {
    /// Ascending by their numbers.
    bins: Vec<(u64, Bin)>,
    /// A bin is a second times two to the power of this.
    shift: u32,
    most: usize,
}

/// What a port did in a part of the time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bin {
    /// Transmitted, in Gb/s.
    pub xmit: Mean,
    /// Received, in Gb/s.
    pub rcv: Mean,
    /// Transmitted, as a share of what the link carries.
    pub xmit_used: Mean,
    /// Received, likewise.
    pub rcv_used: Mean,
    /// The share of time for which it had something to send and sent nothing.
    pub blocked: Mean,
}

impl Bins {
    pub(super) const fn new(most: usize) -> Self {
        Self { bins: Vec::new(), shift: 0, most }
    }

    /// How long a bin is, in nanoseconds.
    pub const fn width_ns(&self) -> u64 {
        SECOND << self.shift
    }

    /// How often that was doubled.
    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// The bins that have anything: the number of each is its beginning / [`Self::width_ns`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Bin)> {
        self.bins.iter().map(|(number, bin)| (*number, bin))
    }

    /// The bin of this number.
    pub fn get(&self, number: u64) -> Option<&Bin> {
        self.bins.binary_search_by_key(&number, |(number, _)| *number).ok().map(|place| &self.bins[place].1)
    }

    pub(super) fn take(&mut self, port: &Port<'_>) {
        let dt = port.dt_ns.unwrap_or(0);
        let mut bin = Bin::default();
        bin.take(port, dt);
        // The time before the reading is meant: it counts to where its middle is.
        self.add((port.ts.saturating_sub(dt / 2) / SECOND) >> self.shift, bin);
    }

    fn add(&mut self, number: u64, bin: Bin) {
        match self.bins.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(place) => self.bins[place].1.merge(bin),
            Err(place) => self.bins.insert(place, (number, bin)),
        }
        while self.bins.len() > self.most.max(1) {
            self.widen_to(self.shift + 1);
        }
    }

    pub(super) fn merge(&mut self, mut later: Self) {
        let shift = self.shift.max(later.shift);
        self.widen_to(shift);
        later.widen_to(shift);
        // Adding may widen ours further.
        later.bins.into_iter().for_each(|(number, bin)| self.add(number >> (self.shift - shift), bin));
    }

    /// Makes the bins so wide, if they are not.
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

impl Bin {
    pub(super) fn take(&mut self, port: &Port<'_>, dt: u64) {
        self.xmit.take(port.xmit_gbps, dt);
        self.rcv.take(port.rcv_gbps, dt);
        self.xmit_used.take(port.xmit_utilization, dt);
        self.rcv_used.take(port.rcv_utilization, dt);
        // Without a time of its own it counts for next to nothing.
        self.blocked.take(port.xmit_blocked, dt.max(1));
    }

    pub(super) fn merge(&mut self, later: Self) {
        self.xmit.merge(later.xmit);
        self.rcv.merge(later.rcv);
        self.xmit_used.merge(later.xmit_used);
        self.rcv_used.merge(later.rcv_used);
        self.blocked.merge(later.blocked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(gbps: f64) -> Bin {
        let mut bin = Bin::default();
        bin.xmit.take(Some(gbps), SECOND);
        bin
    }

    fn bins(numbers: impl Iterator<Item = u64>, most: usize) -> Bins {
        let mut bins = Bins::new(most);
        numbers.for_each(|number| bins.add(number >> bins.shift, bin(number as f64)));
        bins
    }

    #[test]
    fn bins_double_when_there_are_too_many() {
        let bins = bins(0..10, 4);
        let means: Vec<_> = bins.iter().map(|(number, bin)| (number, bin.xmit.mean())).collect();
        // 0 to 3, 4 to 7, 8 and 9.
        assert_eq!((bins.width_ns(), means), (4 * SECOND, vec![(0, Some(1.5)), (1, Some(5.5)), (2, Some(8.5))]));
        assert_eq!(bins.get(1).and_then(|bin| bin.xmit.mean()), Some(5.5));
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let whole = bins(100..170, 8);
        for cut in [101, 130, 131, 169] {
            let mut first = bins(100..cut, 8);
            first.merge(bins(cut..170, 8));
            assert_eq!(first, whole, "cut at {cut}");
        }
    }
}
