//! Decides which rotated files are removed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limits of the rotated files of one output. A limit that is `None` keeps everything.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Largest number of files.
    pub(super) count: Option<usize>,
    /// Largest age, counted from the rotation.
    pub(super) age: Option<Duration>,
    /// Largest size of all files together, in octets.
    pub(super) total: Option<u64>,
}

/// A rotated file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotated {
    /// Size in octets.
    pub(super) octets: u64,
    /// Time of the last record.
    pub(super) modified: SystemTime,
}

impl Limits {
    /// Returns how many files are removed from the begin of a list that starts with the oldest file.
    /// `now` is the time of the wall clock, in nanoseconds since 1970.
    pub(super) fn outdated(self, files: &[Rotated], now: u64) -> usize {
        let by_count = self.count.map_or(0, |most| files.len().saturating_sub(most));
        let by_age = self.age.map_or(0, |age| {
            let now = UNIX_EPOCH + Duration::from_nanos(now);
            // A file from the future has no age: the wall clock was set back.
            let is_old = |file: &&Rotated| now.duration_since(file.modified).is_ok_and(|passed| passed > age);
            files.iter().take_while(is_old).count()
        });
        let by_total = self.total.map_or(0, |most| {
            let mut kept = 0_u64;
            // The newest files are kept as long as they fit.
            let fits = |file: &&Rotated| {
                kept = kept.saturating_add(file.octets);
                kept <= most
            };
            files.len() - files.iter().rev().take_while(fits).count()
        });
        by_count.max(by_age).max(by_total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_261_017_000_000_000;

    /// Returns files with these sizes. The last file is one hour old, the one before it two hours, and
    /// so on.
    fn files(octets: &[u64]) -> Vec<Rotated> {
        let hours = (1..=octets.len() as u64).rev();
        let at = |hours| UNIX_EPOCH + Duration::from_nanos(NOW) - Duration::from_secs(3600 * hours);
        octets.iter().zip(hours).map(|(octets, hours)| Rotated { octets: *octets, modified: at(hours) }).collect()
    }

    #[test]
    fn each_limit_removes_the_oldest_files() {
        let files = files(&[10, 20, 30, 40]);
        let outdated = |limits: Limits| limits.outdated(&files, NOW);
        assert_eq!(outdated(Limits::default()), 0);
        assert_eq!(outdated(Limits { count: Some(3), ..Limits::default() }), 1);
        assert_eq!(outdated(Limits { count: Some(9), ..Limits::default() }), 0);
        for (minutes, removed) in [(30, 4), (90, 3), (150, 2), (300, 0)] {
            assert_eq!(
                outdated(Limits { age: Some(Duration::from_secs(60 * minutes)), ..Limits::default() }),
                removed,
                "{minutes} minutes"
            );
        }
        for (total, removed) in [(39, 4), (40, 3), (69, 3), (70, 2), (99, 1), (100, 0)] {
            assert_eq!(outdated(Limits { total: Some(total), ..Limits::default() }), removed, "{total} octets");
        }
        // The strictest limit decides.
        assert_eq!(outdated(Limits { count: Some(3), age: Some(Duration::from_secs(9000)), total: Some(99) }), 2);
    }

    #[test]
    fn clock_that_was_set_back_removes_nothing_by_age() {
        let limits = Limits { age: Some(Duration::from_secs(1)), ..Limits::default() };
        assert_eq!(limits.outdated(&files(&[1, 1]), NOW - 86_400_000_000_000), 0);
    }
}
