//! The mean of a minute, and of any other bin of time.
//!
//! The archive, the memory of the hub and the columns of a picture have means of minutes. All of
//! them add the same parts of the time of a record ([`in_minutes`]) to a [`Mean`], so a minute has
//! one mean, wherever it is read.

use super::interval::Interval;
use super::slots::time_in_bins;

/// Length of a minute in nanoseconds.
pub const MINUTE_NS: u64 = 60_000_000_000;

/// Returns the time for which a value counts in minutes: the slots whose end lies in `time` if a
/// minute consists of whole slots. So the record of slot *s* that describes one slot counts in the
/// minute of slot *s* - 1. [`Interval::split`] gives each minute its share.
pub fn in_minutes(time: Interval, slot_ns: Option<u64>) -> Option<Interval> {
    time_in_bins(time, slot_ns, MINUTE_NS)
}

/// The mean of values, weighted by time, and the largest of them.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    /// Values times nanoseconds.
    sum: f64,
    time_ns: u64,
    max: Option<f64>,
}

impl Mean {
    /// Adds a part of the time of a value. A value can itself be a mean with its largest value.
    pub fn add(&mut self, part: Interval, mean: f64, max: f64) {
        self.sum += mean * part.length_ns() as f64;
        self.time_ns = self.time_ns.saturating_add(part.length_ns());
        self.max = Some(self.max.map_or(max, |known| known.max(max)));
    }

    /// Adds another part of a value whose time was added.
    pub fn raise(&mut self, part: Interval, value: f64) {
        self.sum += value * part.length_ns() as f64;
        self.max = self.max.map(|max| max + value);
    }

    /// Returns the mean, or `None` without a value.
    pub fn mean(&self) -> Option<f64> {
        (self.time_ns > 0).then(|| self.sum / self.time_ns as f64)
    }

    /// Returns the largest value.
    pub const fn max(&self) -> Option<f64> {
        self.max
    }

    /// Returns the time of all values in nanoseconds.
    pub const fn time_ns(&self) -> u64 {
        self.time_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the seconds from a minute's start that a time counts for, by minute.
    fn counted(from: u64, to: u64, slot_ns: Option<u64>) -> Vec<(u64, u64)> {
        let time = Interval::new(from, to).and_then(|time| in_minutes(time, slot_ns));
        time.iter()
            .flat_map(|time| time.split(MINUTE_NS))
            .map(|(minute, part)| (minute, part.length_ns() / 1_000_000))
            .collect()
    }

    #[test]
    fn record_counts_in_the_minutes_of_its_slots() {
        let (at, late) = (600 * SECOND, 7_000_000);
        let slot = Some(SECOND);
        assert_eq!(counted(at - SECOND + late, at + late, slot), [(9, 1000)]);
        assert_eq!(counted(at + late, at + SECOND + late, slot), [(10, 1000)]);
        let gap = counted(at - 3 * SECOND + late, at + 2 * SECOND, slot);
        assert_eq!(gap, [(9, 3000), (10, 2000)]);
        // The readings of a secondary are half a slot later.
        let half = SECOND / 2;
        assert_eq!(counted(at - half, at + half, slot), [(9, 1000)]);
        // A minute does not consist of whole slots.
        let seven = Some(7 * SECOND);
        assert_eq!(counted(at - half, at + late, seven), [(9, 500), (10, 7)]);
        assert_eq!(counted(at - half, at + late, None), [(9, 500), (10, 7)]);
    }

    #[test]
    fn mean_is_weighted_by_time() {
        let part = |from, to| Interval::new(from, to).unwrap();
        let mut mean = Mean::default();
        assert_eq!((mean.mean(), mean.max()), (None, None));
        mean.add(part(0, 10), 1.0, 3.0);
        mean.add(part(20, 50), 5.0, 5.0);
        mean.raise(part(20, 30), 4.0);
        assert_eq!((mean.mean(), mean.max()), (Some(5.0), Some(9.0)));
        assert_eq!(mean.time_ns(), 40);
    }
}
