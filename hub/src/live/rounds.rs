//! Decides when the frame of a slot is complete.
//!
//! Each sampler ends a slot with a `sweep` record. Samplers end the same slot at different moments,
//! because their clocks differ and their records take different times. The *lag* of a sampler is
//! the time from the first end of a slot to its own. A frame waits for all active samplers of the
//! primary role, but at most for the max lag of their last slots plus half an interval. After that
//! it is sent as a *partial* frame, and sent again once the slow sampler has ended the slot. A
//! sampler that is silent for three intervals is not active.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{LONGEST_LAG, most_slots};

/// Max time for which a frame waits for a sampler that is slower than before.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Min time after which a silent sampler is not active.
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

/// Index of a sampler in the list of samplers.
pub(crate) type SamplerId = usize;

/// The slots that the samplers have ended.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Last slot of each sampler of the primary role.
    ended: BTreeMap<SamplerId, Ended>,
    /// Time of the first end of each of the last slots.
    first: BTreeMap<u64, Duration>,
    emitted: Option<u64>,
    /// Whether the last frame was partial.
    is_partial: bool,
    /// Length of a slot.
    interval: Duration,
}

/// The last slot of a sampler.
#[derive(Clone, Copy, Debug)]
struct Ended {
    slot: u64,
    /// Arrival of its `sweep` record.
    at: Duration,
    lag: Duration,
}

/// A frame that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) slot: u64,
    /// Whether an active sampler has not ended the slot.
    pub(crate) is_partial: bool,
}

impl Rounds {
    /// Reports that a sampler has ended a slot. `now` is monotonic.
    pub(crate) fn end(&mut self, sampler: SamplerId, slot: u64, now: Duration, interval: Duration) {
        self.set_interval(interval);
        match self.ended.get_mut(&sampler) {
            // A copy of the record, for example from a second input.
            Some(last) if last.slot == slot => last.at = now,
            _ => {
                let first = *self.first.entry(slot).or_insert(now);
                self.ended.insert(
                    sampler,
                    Ended {
                        slot,
                        at: now,
                        lag: now.saturating_sub(first),
                    },
                );
            }
        }
    }

    /// Ignores a sampler with a wrong clock, whose slots belong to another time. The slots of the
    /// others decide which frame is next.
    pub(crate) fn forget(&mut self, sampler: SamplerId) {
        if self.ended.remove(&sampler).is_some() {
            *self = Self {
                ended: std::mem::take(&mut self.ended),
                interval: self.interval,
                ..Self::default()
            };
        }
    }

    /// Returns the slot of the last frame, or 0.
    pub(crate) fn shown(&self) -> u64 {
        self.emitted.unwrap_or(0)
    }

    /// Returns the frame that is due at `now`.
    pub(crate) fn due(&mut self, now: Duration, interval: Duration) -> Option<Due> {
        self.set_interval(interval);
        let (silence, most) = ((interval * 3).max(SHORTEST_SILENCE), most_slots(interval));
        let active = || {
            self.ended
                .values()
                .filter(|ended| now.saturating_sub(ended.at) < silence)
        };
        let highest = active().map(|ended| ended.slot).max()?;
        // A sampler that is far behind reads old files, or its clock is wrong.
        let in_step =
            || active().filter(|ended| ended.lag <= LONGEST_LAG && highest - ended.slot <= most);
        let lowest = in_step().map(|ended| ended.slot).min().unwrap_or(highest);
        let lag = in_step().map(|ended| ended.lag).max().unwrap_or_default();
        self.first
            .retain(|slot, _| *slot <= highest && highest - slot <= most);
        // All clocks were set back.
        self.emitted = self
            .emitted
            .filter(|emitted| emitted.saturating_sub(highest) <= most);
        if self.is_partial && Some(lowest) == self.emitted {
            self.is_partial = false;
            return Some(Due {
                slot: lowest,
                is_partial: false,
            });
        }
        let is_new = |slot: u64| self.emitted.is_none_or(|emitted| emitted < slot);
        let longest = lag + (interval / 2).min(LONGEST_WAIT);
        let late = || {
            self.first
                .iter()
                .rev()
                .find(|(slot, first)| is_new(**slot) && now.saturating_sub(**first) >= longest)
        };
        let (slot, is_partial) = if is_new(lowest) {
            (lowest, false)
        } else {
            (*late()?.0, true)
        };
        (self.emitted, self.is_partial) = (Some(slot), is_partial);
        Some(Due { slot, is_partial })
    }

    /// Starts again if the interval changes, because slots of another length have other numbers.
    fn set_interval(&mut self, interval: Duration) {
        if interval != self.interval {
            *self = Self {
                interval,
                ..Self::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn due(rounds: &mut Rounds, now: Duration) -> Option<u64> {
        rounds.due(now, SECOND).map(|due| due.slot)
    }

    #[test]
    fn slot_is_complete_when_all_samplers_have_ended_it() {
        let mut rounds = Rounds::default();
        rounds.end(0, 10, ms(0), SECOND);
        assert_eq!(
            due(&mut rounds, ms(1)),
            Some(10),
            "only one sampler is known"
        );
        rounds.end(1, 10, ms(5), SECOND);
        assert_eq!(due(&mut rounds, ms(6)), None, "the frame was emitted");
        rounds.end(0, 11, ms(1000), SECOND);
        assert_eq!(due(&mut rounds, ms(1100)), None);
        rounds.end(1, 11, ms(1200), SECOND);
        assert_eq!(
            rounds.due(ms(1200), SECOND),
            Some(Due {
                slot: 11,
                is_partial: false
            })
        );
        assert_eq!(due(&mut rounds, ms(1900)), None);
    }

    #[test]
    fn slow_sampler_delays_a_frame_by_half_an_interval() {
        let mut rounds = Rounds::default();
        for sampler in 0..2 {
            rounds.end(sampler, 10, ms(0), SECOND);
        }
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        rounds.end(0, 11, ms(1000), SECOND);
        assert_eq!(due(&mut rounds, ms(1499)), None);
        assert_eq!(
            rounds.due(ms(1500), SECOND),
            Some(Due {
                slot: 11,
                is_partial: true
            })
        );
        assert_eq!(due(&mut rounds, ms(1550)), None);
        rounds.end(1, 11, ms(1600), SECOND);
        assert_eq!(
            rounds.due(ms(1600), SECOND),
            Some(Due {
                slot: 11,
                is_partial: false
            }),
            "the whole frame is sent again"
        );
        assert_eq!(due(&mut rounds, ms(1700)), None);
    }

    #[test]
    fn silent_sampler_delays_no_frame_after_three_intervals() {
        let mut rounds = Rounds::default();
        for sampler in 0..2 {
            rounds.end(sampler, 10, ms(0), SECOND);
        }
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        for slot in 11..=13 {
            rounds.end(0, slot, ms((slot - 10) * 1000), SECOND);
            assert_eq!(
                due(&mut rounds, ms((slot - 10) * 1000 + 1)),
                (slot == 13).then_some(13),
                "slot {slot}"
            );
            due(&mut rounds, ms((slot - 10) * 1000 + 600));
        }
    }

    #[test]
    fn missing_slots_have_no_frame() {
        let mut rounds = Rounds::default();
        rounds.end(0, 10, ms(0), SECOND);
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        rounds.end(0, 14, ms(4000), SECOND);
        assert_eq!(due(&mut rounds, ms(4000)), Some(14));
    }

    #[test]
    fn restart_with_lower_slots_goes_on() {
        let mut rounds = Rounds::default();
        rounds.end(0, 1000, ms(0), SECOND);
        assert_eq!(due(&mut rounds, ms(0)), Some(1000));
        rounds.end(0, 100, ms(9000), SECOND);
        assert_eq!(due(&mut rounds, ms(9000)), Some(100));
    }

    /// Lets three samplers end slots for 30 s, each with its lag behind the first, and looks every
    /// 10 ms. Returns the frames.
    fn frames(lags: [Duration; 3], interval: Duration) -> Vec<Due> {
        let (mut rounds, mut frames) = (Rounds::default(), Vec::new());
        for now in (0..30_000).step_by(10).map(ms) {
            for (sampler, lag) in lags.into_iter().enumerate() {
                let ends = now
                    .checked_sub(lag)
                    .filter(|of_sampler| of_sampler.as_nanos().is_multiple_of(interval.as_nanos()));
                if let Some(of_sampler) = ends {
                    rounds.end(
                        sampler,
                        1000 + (of_sampler.as_nanos() / interval.as_nanos()) as u64,
                        now,
                        interval,
                    );
                }
                frames.extend(rounds.due(now, interval));
            }
        }
        frames
    }

    #[test]
    fn frames_are_complete_whatever_the_lags_of_right_clocks() {
        for interval in [SECOND, SECOND / 10] {
            for lags in [
                [0, 0, 350],
                [0, 0, 500],
                [0, 900, 900],
                [0, 1200, 1200],
                [0, 0, 1900],
                [0, 1990, 3980],
            ] {
                let frames = frames(lags.map(ms), interval);
                // The lags are known after the first slots.
                let settled: Vec<_> = frames
                    .iter()
                    .skip_while(|due| due.slot < 1000 + (10_000 / interval.as_millis()) as u64)
                    .collect();
                assert!(settled.iter().all(|due| !due.is_partial), "{lags:?}");
                assert!(
                    settled.is_sorted_by(|one, other| one.slot + 1 == other.slot),
                    "{lags:?}: each slot once"
                );
                assert!(
                    settled.len() as u128 >= 15_000 / interval.as_millis(),
                    "{lags:?}: {}",
                    settled.len()
                );
            }
        }
    }

    #[test]
    fn sampler_with_a_lag_that_ends_delays_no_frame_after_three_intervals() {
        let mut rounds = Rounds::default();
        for slot in 10..20 {
            rounds.end(0, slot, ms(slot * 1000), SECOND);
            if slot < 15 {
                rounds.end(1, slot, ms(slot * 1000 + 900), SECOND);
            }
            let found: Vec<_> = (0..10)
                .filter_map(|step| rounds.due(ms(slot * 1000 + 900 + step * 10), SECOND))
                .collect();
            if slot >= 18 {
                assert_eq!(
                    found,
                    [Due {
                        slot,
                        is_partial: false
                    }]
                );
            }
        }
    }
}
