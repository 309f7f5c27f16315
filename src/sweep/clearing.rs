//! When the counters by service level are cleared, and how many bytes clearing can lose.
//!
//! These counters have 32 bits and stop at their max, so a fast link fills them within a second.
//! With the key `clear`, the engine clears them in time, and the records have totals that continue.
//!
//! 1. **Threshold.** A counter is cleared after a reading in which it could no longer take the data
//!    of two more slots at the full rate of the link. If two slots fill more than the counter has,
//!    it is cleared once it has reached a sixteenth of its max.
//! 2. **Exact totals.** Until the next reading, a counter takes what is left above the threshold.
//!    [`exact_share`] is the load up to which it cannot become full.
//! 3. **Loss.** What passes between the reading and the clearing is in no total. It is at most what
//!    the link carries from the sending of the Get to the reply to the Set.
//! 4. **Unknown outcome.** A Set without a reply is not repeated. The next reading shows whether
//!    the counter was cleared: see [`Outcome`].

use std::time::Duration;

use ibnet_record::attributes::{Field, Group};
use ibnet_record::types::LinkRate;

use crate::mad::pma::{Bits, Clearable, Data};

/// Which counters a sampler clears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clearing {
    /// The counters.
    pub of: Vec<Clearable>,
    /// Time from one slot to the next.
    pub interval: Duration,
}

/// Clearing of some counters of an array after their reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cleared {
    /// The service levels, one bit each.
    pub select: u16,
    /// Time from the sending of the Get to the reply to the Set. `None` without a reply, so it is
    /// unknown whether the counters were cleared.
    pub took: Option<Duration>,
}

/// What a reading shows about an earlier Set without a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The counter decreased: the Set has cleared it.
    Cleared,
    /// The counter did not decrease, and the link cannot have filled it again so far.
    NotCleared,
    /// Both are possible.
    Unknown,
}

impl Clearing {
    /// Clears the counters of these groups. Returns `None` without groups.
    ///
    /// # Errors
    /// Returns a group that ibnet never clears.
    pub fn of_groups(groups: &[Group], interval: Duration) -> Result<Option<Self>, Group> {
        let counters = groups
            .iter()
            .map(|group| Clearable::of(*group).ok_or(*group));
        let of = counters.collect::<Result<Vec<_>, _>>()?;
        Ok((!of.is_empty()).then_some(Self { of, interval }))
    }
}

/// Share of its max below which a counter is never cleared.
const NEVER_BELOW: f64 = 1.0 / 16.0;

/// Returns the words of 4 bytes that a link carries in a time. A link of unknown speed counts as
/// the fastest one.
fn words(gbps: Option<f64>, time: Duration) -> f64 {
    gbps.unwrap_or(LinkRate::FASTEST_GBPS) * 1e9 / 32.0 * time.as_secs_f64()
}

/// Returns the value from which a counter is cleared. `every` is the time between two readings.
fn threshold(counter: &Field, gbps: Option<f64>, every: Duration) -> u64 {
    let max = counter.all_ones() as f64;
    (max - 2.0 * words(gbps, every)).max(max * NEVER_BELOW) as u64
}

/// Returns the load up to which the totals are exact, as a share of the data rate of the link. It
/// is 1 if the counters cannot become full at any load.
pub fn exact_share(counter: &Field, gbps: f64, every: Duration) -> f64 {
    let left = counter.all_ones() - threshold(counter, Some(gbps), every);
    (left as f64 / words(Some(gbps), every)).min(1.0)
}

/// Returns the counters of a reply that have reached the threshold, as a CounterSelect.
pub fn select(of: Clearable, data: &Data, gbps: Option<f64>, every: Duration) -> u16 {
    let counter = of.counters();
    let threshold = threshold(counter, gbps, every);
    (0..counter.len)
        .filter(|sl| counter.raw(data, *sl) >= threshold)
        .fold(0, |select, sl| select | 1 << sl)
}

/// Returns the max number of bytes that each cleared counter can have lost in this time.
pub fn lost_bytes(gbps: Option<f64>, took: Duration) -> u64 {
    (words(gbps, took) * 4.0).ceil() as u64
}

impl Outcome {
    /// Compares two readings of a counter, in words, with this time between them.
    pub fn of(before: u64, after: u64, gbps: Option<f64>, elapsed: Duration) -> Self {
        if after < before {
            Self::Cleared
        } else if words(gbps, elapsed) < before as f64 {
            Self::NotCleared
        } else {
            Self::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn counters_are_cleared_before_two_slots_can_fill_them() {
        let counter = Clearable::XmtSl.counters();
        let at = |gbps, millis| threshold(counter, gbps, Duration::from_millis(millis));
        // 100 Gb/s are 3,125,000,000 words per second.
        assert_eq!(at(Some(100.0), 100), u64::from(u32::MAX) - 625_000_000);
        assert_eq!(at(Some(100.0), 1000), 268_435_455, "a sixteenth");
        assert_eq!(at(None, 100), 268_435_455, "may be the fastest link");
        let mut data = [0; DATA_LEN];
        for (sl, words) in [(0, 268_435_455), (3, 268_435_454), (15, u64::MAX)] {
            counter.set_raw(&mut data, sl, words);
        }
        let second = Duration::from_secs(1);
        assert_eq!(select(Clearable::XmtSl, &data, Some(100.0), second), 0x8001);
    }

    #[test]
    fn outcome_is_known_unless_the_link_could_have_filled_the_counter_again() {
        let of = |before, after, millis| {
            Outcome::of(before, after, Some(100.0), Duration::from_millis(millis))
        };
        assert_eq!(of(1_000_000_000, 999_999_999, 100), Outcome::Cleared);
        assert_eq!(of(1_000_000_000, 1_000_000_000, 100), Outcome::NotCleared);
        assert_eq!(of(1_000_000_000, 1_000_000_000, 1000), Outcome::Unknown);
    }

    #[test]
    fn documented_loads_are_exact() {
        let mut table = String::new();
        for speed in ["SDR", "DDR", "QDR", "FDR", "EDR", "HDR", "NDR", "XDR"] {
            let gbps = LinkRate::new("4x", speed).data_gbps().expect("known");
            table += &format!("| 4x{speed} |");
            for millis in [5000, 1000, 500, 250, 100] {
                let every = Duration::from_millis(millis);
                let share = exact_share(Clearable::XmtSl.counters(), gbps, every);
                table += &format!(" {} % |", (share * 100.0).floor());
            }
            table += "\n";
        }
        let page = include_str!("../../docs/records.md");
        let (_, rest) = page.split_once("<!-- exact: begin -->\n").expect("a mark");
        let (found, _) = rest.split_once("<!-- exact: end -->").expect("a mark");
        let rows: Vec<_> = found.split_inclusive('\n').skip(2).collect();
        assert_eq!(rows.concat(), table);
    }

    #[test]
    fn loss_is_what_the_link_carries_at_most() {
        // 200 Gb/s are 25,000 bytes per microsecond.
        let lost = lost_bytes(Some(200.0), Duration::from_micros(100));
        assert!((2_500_000..=2_500_001).contains(&lost), "{lost}");
    }
}
