//! Decides when the frame of a slot is complete.
//!
//! Each sampler ends a slot with a `sweep` record. A slot is complete when all active samplers of
//! the primary role have ended it. If one of them is slower than the others, the frame does not wait
//! for it longer than half an interval: it is sent as a *partial* frame, and sent again when the slow
//! sampler has ended the slot. A sampler that is silent for three intervals is not active.

use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time in which a frame waits for the slowest sampler.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Shortest time after which a silent sampler is not active.
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

/// Identifier of a sampler: the index in the list of samplers.
pub(crate) type SamplerId = usize;

/// The slots that the samplers have ended.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Last slot and time of its arrival for each sampler of the primary role.
    ended: BTreeMap<SamplerId, (u64, Duration)>,
    /// The first slot that is not emitted, and the arrival of its first `sweep` record.
    waiting: Option<(u64, Duration)>,
    emitted: Option<u64>,
    /// Whether the last frame was partial.
    is_partial: bool,
}

/// A frame that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    pub(crate) slot: u64,
    /// Whether an active sampler has not ended the slot.
    pub(crate) is_partial: bool,
}

impl Rounds {
    /// A sampler has ended a slot. `now` is a time that does not decrease.
    pub(crate) fn end(&mut self, sampler: SamplerId, slot: u64, now: Duration) {
        let last = self.ended.entry(sampler).or_insert((slot, now));
        // A lower slot follows a restart with another clock.
        *last = (slot, now);
        match self.waiting {
            Some((waiting, _)) if waiting <= slot => {}
            _ if self.emitted.is_some_and(|emitted| slot <= emitted && emitted - slot < 64) => {}
            _ => self.waiting = Some((slot, now)),
        }
    }

    /// A sampler has a wrong clock: its slots are those of another time. The slots of the others decide
    /// which frame is next.
    pub(crate) fn forget(&mut self, sampler: SamplerId) {
        if self.ended.remove(&sampler).is_some() {
            *self = Self { ended: std::mem::take(&mut self.ended), ..Self::default() };
        }
    }

    /// Returns the frame that is due at `now`.
    pub(crate) fn due(&mut self, now: Duration, interval: Duration) -> Option<Due> {
        let silence = (interval * 3).max(SHORTEST_SILENCE);
        let active = || self.ended.values().filter(|(_, at)| now.saturating_sub(*at) < silence).map(|(slot, _)| *slot);
        let highest = active().max()?;
        // A sampler whose slots are far behind reads old files, or has another clock.
        let lowest = active().filter(|slot| highest - slot < 64).min()?;
        if self.is_partial && Some(lowest) == self.emitted {
            self.is_partial = false;
            return Some(Due { slot: lowest, is_partial: false });
        }
        let (waiting, since) = self.waiting?;
        let is_late = now.saturating_sub(since) >= (interval / 2).min(LONGEST_WAIT);
        let (slot, is_partial) = match (lowest >= waiting, is_late) {
            (true, _) => (lowest, false),
            (false, true) => (highest, true),
            (false, false) => return None,
        };
        (self.emitted, self.is_partial) = (Some(slot), is_partial);
        self.waiting = (highest > slot).then_some((slot + 1, now));
        Some(Due { slot, is_partial })
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
        rounds.end(0, 10, ms(0));
        assert_eq!(due(&mut rounds, ms(1)), Some(10), "only one sampler is known");
        rounds.end(1, 10, ms(5));
        assert_eq!(due(&mut rounds, ms(6)), None, "the frame was emitted");
        rounds.end(0, 11, ms(1000));
        assert_eq!(due(&mut rounds, ms(1100)), None);
        rounds.end(1, 11, ms(1200));
        assert_eq!(rounds.due(ms(1200), SECOND), Some(Due { slot: 11, is_partial: false }));
        assert_eq!(due(&mut rounds, ms(1900)), None);
    }

    #[test]
    fn slow_sampler_delays_a_frame_by_half_an_interval() {
        let mut rounds = Rounds::default();
        for sampler in 0..2 {
            rounds.end(sampler, 10, ms(0));
        }
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        rounds.end(0, 11, ms(1000));
        assert_eq!(due(&mut rounds, ms(1499)), None);
        assert_eq!(rounds.due(ms(1500), SECOND), Some(Due { slot: 11, is_partial: true }));
        assert_eq!(due(&mut rounds, ms(1550)), None);
        rounds.end(1, 11, ms(1600));
        assert_eq!(rounds.due(ms(1600), SECOND), Some(Due { slot: 11, is_partial: false }), "the whole frame is sent again");
        assert_eq!(due(&mut rounds, ms(1700)), None);
    }

    #[test]
    fn silent_sampler_delays_no_frame_after_three_intervals() {
        let mut rounds = Rounds::default();
        for sampler in 0..2 {
            rounds.end(sampler, 10, ms(0));
        }
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        for slot in 11..=13 {
            rounds.end(0, slot, ms((slot - 10) * 1000));
            assert_eq!(due(&mut rounds, ms((slot - 10) * 1000 + 1)), (slot == 13).then_some(13), "slot {slot}");
            due(&mut rounds, ms((slot - 10) * 1000 + 600));
        }
    }

    #[test]
    fn missing_slots_have_no_frame() {
        let mut rounds = Rounds::default();
        rounds.end(0, 10, ms(0));
        assert_eq!(due(&mut rounds, ms(0)), Some(10));
        rounds.end(0, 14, ms(4000));
        assert_eq!(due(&mut rounds, ms(4000)), Some(14));
    }

    #[test]
    fn restart_with_lower_slots_goes_on() {
        let mut rounds = Rounds::default();
        rounds.end(0, 1000, ms(0));
        assert_eq!(due(&mut rounds, ms(0)), Some(1000));
        rounds.end(0, 100, ms(9000));
        assert_eq!(due(&mut rounds, ms(9000)), Some(100));
    }
}
