//! When slots start: where the wall clock passes a multiple of the interval, on all samplers in the same instant.
//!
//! The wall clock is read once a slot; all waiting is by the monotonic one. A slot that could not start in time is missed, never caught up. A wall
//! clock that is set shows as slot numbers that do not follow from the time that has passed. Reads no clock: it is told both.

use std::time::Duration;

use crate::time::Instant;

/// A slot that could not start by then is missed, as a share of the interval.
const LATEST_START: f64 = 0.3;

/// A slot sends requests for this share of the interval.
const ASK_UNTIL: f64 = 0.9;

/// A slot ends after this share of the interval at the latest.
const CLOSE_AT: f64 = 0.95;

/// The slots of a sampler.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval: Duration,
    offset: Duration,
    last: Option<SlotStart>,
    /// No slot before this one.
    first: u64,
}

/// A slot, and when it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotStart {
    /// Its start divided by the interval: the same on all samplers.
    pub number: u64,
    /// On the monotonic clock.
    pub start: Instant,
}

/// What to do about a slot now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Wait for so long.
    Wait(Duration),
    /// Start it.
    Start,
    /// It is too late: wait for the next one.
    Missed,
}

/// What lies between a slot and the one before it that ran.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Gap {
    /// Slots that should have started meanwhile.
    pub missed: u64,
    /// By how many seconds the wall clock was set, about; 0 if it was not.
    pub stepped: f64,
}

impl Schedule {
    /// Slots of this interval, each by so much after the multiple.
    pub fn new(interval: Duration, offset: Duration) -> Self {
        Self { interval, offset, last: None, first: 0 }
    }

    /// The slot of an instant, by what the wall clock says then: nanoseconds since 1970.
    pub fn number(&self, wall: u64) -> u64 {
        wall.saturating_sub(nanos(self.offset)) / nanos(self.interval).max(1)
    }

    /// Goes on where another left: with this slot, and if it cannot be had, it is missed.
    pub fn begin_with(&mut self, slot: u64) {
        self.first = slot;
    }

    /// The first slot that starts at this instant of the wall clock or later.
    pub fn at_or_after(&self, wall: u64) -> u64 {
        wall.saturating_sub(nanos(self.offset)).div_ceil(nanos(self.interval).max(1))
    }

    /// When a slot starts, by the wall clock.
    pub fn start(&self, slot: u64) -> u64 {
        slot.saturating_mul(nanos(self.interval)).saturating_add(nanos(self.offset))
    }

    /// The first slot after `now`, when the wall clock says `wall`.
    pub fn next(&self, wall: u64, now: Instant) -> SlotStart {
        let (interval, wall) = (nanos(self.interval).max(1), wall.saturating_sub(nanos(self.offset)));
        let number = if self.last.is_some() { wall / interval + 1 } else { (wall / interval + 1).max(self.first) };
        SlotStart { number, start: now + Duration::from_nanos(number * interval - wall) }
    }

    /// Whether it is time.
    pub fn verdict(&self, slot: SlotStart, now: Instant) -> Verdict {
        if now >= slot.start + self.interval.mul_f64(LATEST_START) {
            Verdict::Missed
        } else if now >= slot.start {
            Verdict::Start
        } else {
            Verdict::Wait(slot.start - now)
        }
    }

    /// Takes note that a slot runs, and tells what lies between it and the last one.
    pub fn begin(&mut self, slot: SlotStart) -> Gap {
        let Some(last) = self.last.replace(slot) else {
            let missed = if self.first > 0 { slot.number.saturating_sub(self.first) } else { 0 };
            return Gap { missed, ..Gap::default() };
        };
        let passed = (slot.start - last.start).as_secs_f64() / self.interval.as_secs_f64();
        let missed = (passed.round() as u64).saturating_sub(1);
        let expected = last.number + 1 + missed;
        Gap { missed, stepped: (slot.number as f64 - expected as f64) * self.interval.as_secs_f64() }
    }
}

/// Returns when a slot stops to send requests: after 90 % of the interval.
pub fn ask_until(start: Instant, interval: Duration) -> Instant {
    start + interval.mul_f64(ASK_UNTIL)
}

/// Returns when a slot ends at the latest: after 95 % of the interval.
pub fn close_at(start: Instant, interval: Duration) -> Instant {
    start + interval.mul_f64(CLOSE_AT)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: i64 = 3600;

    /// A host: what its wall clock says is its monotonic time and this much more.
    struct Host {
        schedule: Schedule,
        now: Instant,
        ahead: i64,
    }

    impl Host {
        fn new(interval: Duration, offset: Duration) -> Self {
            Self { schedule: Schedule::new(interval, offset), now: Instant::from_nanos(123_456_789), ahead: 1_795_000_000 * SECOND as i64 }
        }

        /// Waits for a slot as a driver does, looking again at least every `step`, and starts it.
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
    fn slots_start_at_multiples_of_the_interval_and_follow_one_another() {
        for offset in [Duration::ZERO, Duration::from_millis(50)] {
            let mut host = Host::new(Duration::from_millis(100), offset);
            let (first, _) = host.slot(STEP);
            let wall = first.start.as_nanos() as i64 + host.ahead;
            assert_eq!(wall as u64 - offset.as_nanos() as u64, first.number * 100_000_000);
            for next in 1..100 {
                let (slot, gap) = host.slot(STEP);
                assert_eq!((slot.number, gap), (first.number + next, Gap::default()));
            }
        }
    }

    #[test]
    fn what_stood_still_is_missed_and_never_caught_up() {
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        let (first, _) = host.slot(STEP);
        host.pass(Duration::from_millis(3_100));
        let (slot, gap) = host.slot(STEP);
        // It woke 0.1 s into a slot, which it did not wait for: that one is missed too.
        assert_eq!((slot.number, gap), (first.number + 4, Gap { missed: 3, stepped: 0.0 }));
        assert_eq!(host.slot(STEP).1, Gap::default());
    }

    #[test]
    fn a_wall_clock_that_is_set_by_an_hour_misses_nothing_and_is_told() {
        for hours in [1, -1] {
            let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
            let (first, _) = host.slot(STEP);
            host.ahead += hours * HOUR * SECOND as i64;
            let (slot, gap) = host.slot(STEP);
            assert_eq!(slot.number as i64, first.number as i64 + 1 + hours * HOUR);
            assert_eq!(gap, Gap { missed: 0, stepped: (hours * HOUR) as f64 });
            assert_eq!(slot.start - first.start, Duration::from_secs(1), "the rhythm goes on");
            assert_eq!(host.slot(STEP).1, Gap::default());
        }
    }

    #[test]
    fn a_leap_second_that_is_smeared_is_no_step() {
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        host.slot(STEP);
        for _ in 0..1000 {
            host.ahead -= 1_000_000;
            assert_eq!(host.slot(STEP).1.missed, 0);
        }
    }

    #[test]
    fn a_host_that_was_suspended_for_hours_starts_one_slot() {
        // The monotonic clock stood still meanwhile: it looks like a step of the wall clock.
        let mut host = Host::new(Duration::from_secs(1), Duration::ZERO);
        host.slot(STEP);
        host.ahead += 8 * HOUR * SECOND as i64;
        let (_, gap) = host.slot(STEP);
        assert_eq!(gap, Gap { missed: 0, stepped: (8 * HOUR) as f64 });
        // Or it went on.
        host.pass(Duration::from_secs(8 * 3600));
        assert_eq!(host.slot(STEP).1, Gap { missed: 8 * 3600, stepped: 0.0 });
        assert_eq!(host.slot(STEP).1, Gap::default());
    }

    #[test]
    fn one_takes_over_from_another_at_a_slot_and_none_is_lost_or_there_twice() {
        for (interval, offset) in [(1000, 0), (1000, 500), (100, 0), (2500, 0)] {
            let schedule = |first| {
                let mut schedule = Schedule::new(Duration::from_millis(interval), Duration::from_millis(offset));
                schedule.begin_with(first);
                schedule
            };
            for wall in (10 * SECOND..16 * SECOND).step_by(70_000_000) {
                let border = schedule(0).at_or_after(wall);
                let start = schedule(0).start(border);
                assert!(start >= wall && start - wall < interval * 1_000_000, "{start} {wall}");
                assert_eq!(schedule(0).number(start), border);
                // Whoever looks earlier waits for it, whoever looks later tells that it was missed.
                let mut early = schedule(border);
                let slot = early.next(wall - 3 * SECOND, Instant::from_nanos(SECOND));
                assert_eq!((slot.number, slot.start.as_nanos()), (border, SECOND + 3 * SECOND + (start - wall)));
                assert_eq!((early.begin(slot), early.next(start, slot.start).number), (Gap::default(), border + 1));
                let mut late = schedule(border);
                let slot = late.next(start + 1, Instant::ZERO);
                assert_eq!((slot.number, late.begin(slot).missed), (border + 1, 1));
            }
        }
    }

    #[test]
    fn whoever_looks_too_late_waits_for_the_next() {
        let schedule = Schedule::new(Duration::from_secs(1), Duration::ZERO);
        let slot = schedule.next(10 * SECOND + 1, Instant::ZERO);
        assert_eq!((slot.number, slot.start.as_nanos()), (11, SECOND - 1));
        let at = |nanos| schedule.verdict(slot, Instant::from_nanos(nanos));
        assert_eq!(at(0), Verdict::Wait(Duration::from_nanos(SECOND - 1)));
        assert_eq!([at(SECOND - 1), at(SECOND + SECOND / 4)], [Verdict::Start; 2]);
        assert_eq!(at(SECOND + SECOND / 3), Verdict::Missed);
    }
}
