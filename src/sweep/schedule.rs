//! Computes the start times of slots. A slot starts when the wall clock reaches a multiple of the
//! interval, so it starts at the same time on all samplers.
//!
//! The driver reads the wall clock once per slot and uses the monotonic clock for all waits. A
//! slot that could not start in time is *missed* and never repeated. If the wall clock is set, the
//! slot numbers no longer match the elapsed time, and this module detects the step. It reads no
//! clock: both times are arguments.

use std::time::Duration;

use crate::time::Instant;

/// A slot that has not started after this share of the interval is missed.
const LATEST_START: f64 = 0.3;

/// Share of the interval during which a slot sends requests.
const ASK_UNTIL: f64 = 0.9;

/// Share of the interval after which a slot ends at the latest.
const CLOSE_AT: f64 = 0.95;

/// The slots of a sampler.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval: Duration,
    offset: Duration,
    /// Last slot that has begun.
    last: Option<SlotStart>,
    /// Min number of the first slot.
    first: Option<u64>,
}

/// Number and start of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotStart {
    /// Start of the slot on the wall clock, divided by the interval. All samplers use the same
    /// number.
    pub number: u64,
    /// Start of the slot on the monotonic clock.
    pub start: Instant,
}

/// Decision about a slot at an instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Wait for this time.
    Wait(Duration),
    /// Start the slot.
    Start,
    /// The slot is missed. Wait for the next one.
    Missed,
}

/// Missed slots and clock steps between a slot and the slot that ran before it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Gap {
    /// Slots that could not start in time.
    pub missed: u64,
    /// Approximate number of seconds by which the wall clock was set, or 0 if it was not set.
    pub stepped: f64,
}

impl Schedule {
    /// Creates a schedule of slots with this interval. Each slot starts `offset` after a multiple
    /// of the interval.
    pub fn new(interval: Duration, offset: Duration) -> Self {
        Self {
            interval,
            offset,
            last: None,
            first: None,
        }
    }

    /// Returns the number of the slot at a time of the wall clock, in nanoseconds since 1970.
    pub fn number(&self, wall: u64) -> u64 {
        wall.saturating_sub(nanos(self.offset)) / nanos(self.interval).max(1)
    }

    /// Sets the first slot of this schedule. The driver that this one replaces runs the slots
    /// before it. If it is too late to start this slot, the slot counts as missed.
    pub fn begin_with(&mut self, slot: u64) {
        self.first = Some(slot);
    }

    /// Returns the first slot that starts at this time of the wall clock or later.
    pub fn at_or_after(&self, wall: u64) -> u64 {
        wall.saturating_sub(nanos(self.offset))
            .div_ceil(nanos(self.interval).max(1))
    }

    /// Returns the start of a slot on the wall clock, in nanoseconds since 1970.
    pub fn start(&self, slot: u64) -> u64 {
        slot.saturating_mul(nanos(self.interval))
            .saturating_add(nanos(self.offset))
    }

    /// Returns the first slot after `now`. `wall` is the wall clock at `now`.
    pub fn next(&self, wall: u64, now: Instant) -> SlotStart {
        let (interval, wall) = (
            nanos(self.interval).max(1),
            wall.saturating_sub(nanos(self.offset)),
        );
        let next = wall / interval + 1;
        let number = if self.last.is_some() {
            next
        } else {
            next.max(self.first.unwrap_or(0))
        };
        SlotStart {
            number,
            start: now + Duration::from_nanos(number * interval - wall),
        }
    }

    /// Decides what to do with a slot at this instant.
    pub fn verdict(&self, slot: SlotStart, now: Instant) -> Verdict {
        if now >= slot.start + self.interval.mul_f64(LATEST_START) {
            Verdict::Missed
        } else if now >= slot.start {
            Verdict::Start
        } else {
            Verdict::Wait(slot.start - now)
        }
    }

    /// Records that a slot begins. Returns the gap since the last slot.
    pub fn begin(&mut self, slot: SlotStart) -> Gap {
        let Some(last) = self.last.replace(slot) else {
            let missed = self
                .first
                .map_or(0, |first| slot.number.saturating_sub(first));
            return Gap {
                missed,
                ..Gap::default()
            };
        };
        let passed = (slot.start - last.start).as_secs_f64() / self.interval.as_secs_f64();
        let missed = (passed.round() as u64).saturating_sub(1);
        let expected = last.number + 1 + missed;
        Gap {
            missed,
            stepped: (slot.number as f64 - expected as f64) * self.interval.as_secs_f64(),
        }
    }
}

/// Returns the time at which a slot stops requesting counters: after 90 % of the interval.
pub fn ask_until(start: Instant, interval: Duration) -> Instant {
    start + interval.mul_f64(ASK_UNTIL)
}

/// Returns the latest end of a slot: after 95 % of the interval.
pub fn close_at(start: Instant, interval: Duration) -> Instant {
    start + interval.mul_f64(CLOSE_AT)
}

/// Returns a duration in nanoseconds, or `u64::MAX` if it is longer.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: i64 = 3600;

    /// A host with two clocks.
    struct Host {
        schedule: Schedule,
        now: Instant,
        /// Difference of the wall clock from the monotonic clock, in nanoseconds.
        ahead: i64,
    }

    impl Host {
        fn new(interval: Duration, offset: Duration) -> Self {
            Self {
                schedule: Schedule::new(interval, offset),
                now: Instant::from_nanos(123_456_789),
                ahead: 1_795_000_000 * SECOND as i64,
            }
        }

        /// Waits for a slot in steps of at most `step`, and starts it.
        fn slot(&mut self, step: Duration) -> (SlotStart, Gap) {
            loop {
                let wall = (self.now.as_nanos() as i64 + self.ahead) as u64;
                let slot = self.schedule.next(wall, self.now);
                loop {
                    match self.schedule.verdict(slot, self.now) {
                        Verdict::Start => return (slot, self.schedule.begin(slot)),
                        Verdict::Missed => break,
                        Verdict::Wait(wait) => self.now += wait.min(step),
                    }
                }
            }
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }
    }

    const STEP: Duration = Duration::from_millis(20);

    #[test]
    fn slots_start_at_multiples_of_the_interval_without_gaps() {
        for offset in [Duration::ZERO, Duration::from_millis(50)] {
            let mut host = Host::new(Duration::from_millis(100), offset);
            let (first, _) = host.slot(STEP);
            let wall = first.start.as_nanos() as i64 + host.ahead;
            assert_eq!(
                wall as u64 - offset.as_nanos() as u64,
                first.number * 100_000_000
            );
            for next in 1..100 {
                let (slot, gap) = host.slot(STEP);
                assert_eq!((slot.number, gap), (first.number + next, Gap::default()));
            }
        }
    }

    #[test]
    fn slots_of_a_stall_are_missed_and_never_caught_up() {
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        let (first, _) = host.slot(STEP);
        host.pass(Duration::from_millis(3_100));
        let (slot, gap) = host.slot(STEP);
        // The stall ended 0.1 s after the start of a slot. This slot is missed too.
        assert_eq!(
            (slot.number, gap),
            (
                first.number + 4,
                Gap {
                    missed: 3,
                    stepped: 0.0
                }
            )
        );
        assert_eq!(host.slot(STEP).1, Gap::default());
    }

    #[test]
    fn wall_clock_set_by_an_hour_is_reported_and_misses_no_slot() {
        for hours in [1, -1] {
            let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
            let (first, _) = host.slot(STEP);
            host.ahead += hours * HOUR * SECOND as i64;
            let (slot, gap) = host.slot(STEP);
            assert_eq!(slot.number as i64, first.number as i64 + 1 + hours * HOUR);
            assert_eq!(
                gap,
                Gap {
                    missed: 0,
                    stepped: (hours * HOUR) as f64
                }
            );
            assert_eq!(
                slot.start - first.start,
                Duration::from_secs(1),
                "slots keep their distance"
            );
            assert_eq!(host.slot(STEP).1, Gap::default());
        }
    }

    #[test]
    fn smeared_leap_second_misses_no_slot() {
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        host.slot(STEP);
        for _ in 0..1000 {
            host.ahead -= 1_000_000;
            assert_eq!(host.slot(STEP).1.missed, 0);
        }
    }

    #[test]
    fn host_that_was_suspended_for_hours_starts_one_slot() {
        // If the monotonic clock stands still during a suspension, the suspension looks like a step
        // of the wall clock.
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        host.slot(STEP);
        host.ahead += 8 * HOUR * SECOND as i64;
        let (_, gap) = host.slot(STEP);
        assert_eq!(
            gap,
            Gap {
                missed: 0,
                stepped: (8 * HOUR) as f64
            }
        );
        // If the monotonic clock continues during a suspension, slots are missed.
        host.pass(Duration::from_secs(8 * 3600));
        assert_eq!(
            host.slot(STEP).1,
            Gap {
                missed: 8 * 3600,
                stepped: 0.0
            }
        );
        assert_eq!(host.slot(STEP).1, Gap::default());
    }

    #[test]
    fn handover_at_a_slot_loses_none_and_runs_none_twice() {
        for (interval, offset) in [(1000, 0), (1000, 500), (100, 0), (2500, 0)] {
            let schedule = |first| {
                let mut schedule = Schedule::new(
                    Duration::from_millis(interval),
                    Duration::from_millis(offset),
                );
                schedule.begin_with(first);
                schedule
            };
            for wall in (10 * SECOND..16 * SECOND).step_by(70_000_000) {
                let border = schedule(0).at_or_after(wall);
                let start = schedule(0).start(border);
                assert!(
                    start >= wall && start - wall < interval * 1_000_000,
                    "{start} {wall}"
                );
                assert_eq!(schedule(0).number(start), border);
                // A sampler that is early waits for the slot. A sampler that is late reports the
                // slot as missed.
                let mut early = schedule(border);
                let slot = early.next(wall - 3 * SECOND, Instant::from_nanos(SECOND));
                assert_eq!(
                    (slot.number, slot.start.as_nanos()),
                    (border, SECOND + 3 * SECOND + (start - wall))
                );
                assert_eq!(
                    (early.begin(slot), early.next(start, slot.start).number),
                    (Gap::default(), border + 1)
                );
                let mut late = schedule(border);
                let slot = late.next(start + 1, Instant::ZERO);
                assert_eq!((slot.number, late.begin(slot).missed), (border + 1, 1));
            }
        }
    }

    #[test]
    fn slot_that_is_too_late_is_missed() {
        let schedule = Schedule::new(Duration::from_secs(1), Duration::ZERO);
        let slot = schedule.next(10 * SECOND + 1, Instant::ZERO);
        assert_eq!((slot.number, slot.start.as_nanos()), (11, SECOND - 1));
        let at = |nanos| schedule.verdict(slot, Instant::from_nanos(nanos));
        assert_eq!(at(0), Verdict::Wait(Duration::from_nanos(SECOND - 1)));
        assert_eq!(
            [at(SECOND - 1), at(SECOND + SECOND / 4)],
            [Verdict::Start; 2]
        );
        assert_eq!(at(SECOND + SECOND / 3), Verdict::Missed);
    }
}
