//! Decides which rotated files are removed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of files that one closing may remove because of their age, even if there are few files.
const FEW_FILES: usize = 2;

/// Limits of the rotated files of one output. `None` means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Max number of files.
    pub(super) count: Option<usize>,
    /// Max age, counted from the rotation.
    pub(super) age: Option<Duration>,
    /// Max size of all files together, in bytes.
    pub(super) total: Option<u64>,
}

/// A rotated file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotated {
    /// Size in bytes.
    pub(super) octets: u64,
    /// Time of the last record.
    pub(super) modified: SystemTime,
}

/// How many files to remove, counted from the oldest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Outdated {
    /// Number of files to remove now.
    pub(super) now: usize,
    /// Number of further files that are too old and will be removed later.
    pub(super) later: usize,
}

impl Limits {
    /// Returns how many files to remove. If a file was just closed, `closed` is the time of the
    /// wall clock, in nanoseconds since 1970; without it, the age limit is not applied. Because
    /// the clock can be wrong, each closing removes only some files for their age: at most a
    /// tenth of all files, or two if that is more.
    pub(super) fn outdated(self, files: &[Rotated], closed: Option<u64>) -> Outdated {
        let by_count = self
            .count
            .map_or(0, |most| files.len().saturating_sub(most));
        let by_age = self
            .age
            .zip(closed)
            .map_or(0, |(age, clock)| old(files, age, clock));
        let by_total = self.total.map_or(0, |most| {
            let mut kept = 0_u64;
            // Keeps the newest files as long as they fit.
            let fits = |file: &&Rotated| {
                kept = kept.saturating_add(file.octets);
                kept <= most
            };
            files.len() - files.iter().rev().take_while(fits).count()
        });
        let now = by_count
            .max(by_total)
            .max(by_age.min(FEW_FILES.max(files.len() / 10)));
        Outdated {
            now,
            later: by_age.saturating_sub(now),
        }
    }
}

/// Returns the number of files that are too old. Their age counts from the newest file that is not
/// in the future, so a wrong clock alone makes no file old. Files in the future have no age,
/// because the clock may have been set back.
fn old(files: &[Rotated], age: Duration, clock: u64) -> usize {
    let clock = UNIX_EPOCH + Duration::from_nanos(clock);
    let newest = files
        .iter()
        .map(|file| file.modified)
        .filter(|modified| *modified <= clock)
        .max();
    let is_old = |file: &&Rotated| {
        newest.is_some_and(|now| {
            now.duration_since(file.modified)
                .is_ok_and(|passed| passed > age)
        })
    };
    files.iter().take_while(is_old).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_261_017_000_000_000;

    /// Returns files with these sizes. The last file was closed now, the one before it an hour ago,
    /// and so on.
    fn files(octets: &[u64]) -> Vec<Rotated> {
        let hours = (0..octets.len() as u64).rev();
        let at = |hours| UNIX_EPOCH + Duration::from_nanos(NOW) - Duration::from_secs(3600 * hours);
        octets
            .iter()
            .zip(hours)
            .map(|(octets, hours)| Rotated {
                octets: *octets,
                modified: at(hours),
            })
            .collect()
    }

    fn aged(minutes: u64) -> Limits {
        Limits {
            age: Some(Duration::from_secs(60 * minutes)),
            ..Limits::default()
        }
    }

    #[test]
    fn each_limit_removes_the_oldest_files() {
        let files = files(&[10, 20, 30, 40]);
        let outdated = |limits: Limits| limits.outdated(&files, Some(NOW)).now;
        assert_eq!(outdated(Limits::default()), 0);
        assert_eq!(
            outdated(Limits {
                count: Some(3),
                ..Limits::default()
            }),
            1
        );
        assert_eq!(
            outdated(Limits {
                count: Some(9),
                ..Limits::default()
            }),
            0
        );
        for (minutes, removed) in [(90, 2), (150, 1), (300, 0)] {
            assert_eq!(outdated(aged(minutes)), removed, "{minutes} minutes");
        }
        for (total, removed) in [(39, 4), (40, 3), (69, 3), (70, 2), (99, 1), (100, 0)] {
            assert_eq!(
                outdated(Limits {
                    total: Some(total),
                    ..Limits::default()
                }),
                removed,
                "{total} octets"
            );
        }
        // The strictest limit decides.
        assert_eq!(
            outdated(Limits {
                count: Some(3),
                total: Some(99),
                ..aged(90)
            }),
            2
        );
        assert_eq!(
            outdated(Limits {
                count: Some(1),
                total: Some(99),
                ..aged(90)
            }),
            3
        );
    }

    #[test]
    fn age_removes_a_tenth_of_the_files_at_a_closing() {
        for (number, now, later) in [(4, 2, 1), (15, 2, 12), (100, 10, 89)] {
            assert_eq!(
                aged(30).outdated(&files(&vec![1; number]), Some(NOW)),
                Outdated { now, later },
                "{number} files"
            );
        }
        // After a compression, which is no closing, only the other limits count.
        assert_eq!(
            aged(30).outdated(&files(&[1; 30]), None),
            Outdated::default()
        );
        assert_eq!(
            Limits {
                count: Some(9),
                ..aged(30)
            }
            .outdated(&files(&[1; 30]), None),
            Outdated { now: 21, later: 0 }
        );
        // Files beyond the other limits are removed at once.
        assert_eq!(
            Limits {
                total: Some(5),
                ..aged(30)
            }
            .outdated(&files(&[1; 30]), Some(NOW)),
            Outdated { now: 25, later: 4 }
        );
    }

    #[test]
    fn clock_that_was_set_forward_removes_nothing_before_a_file_is_closed_with_it() {
        let day = Some(NOW + 86_400_000_000_000);
        assert_eq!(
            aged(300).outdated(&files(&[1; 5]), day),
            Outdated::default()
        );
    }

    #[test]
    fn clock_that_was_set_back_removes_nothing_by_age() {
        assert_eq!(
            aged(1).outdated(&files(&[1, 1]), Some(NOW - 86_400_000_000_000)),
            Outdated::default()
        );
    }
}
