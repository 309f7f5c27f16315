//! The one place of the library that reads clocks.

use std::sync::OnceLock;
use std::time::{Duration, Instant as SystemInstant, SystemTime, UNIX_EPOCH};

use crate::time::Instant;

/// Monotonic time since the program's start, and what the wall clock said at one instant of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    zero: SystemInstant,
    /// When the wall clock was read last.
    pub(super) anchor: Instant,
    wall_at_anchor: u64,
}

/// How often both clocks are read at most until the readings are close, and how close that is.
const READINGS: u32 = 5;
const CLOSE_READINGS: Duration = Duration::from_micros(20);

/// Enough for a mean to the nanosecond; they take 30 us or so.
const READINGS_FOR_COST: u32 = 1000;

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    pub(super) fn start() -> Self {
        // One for all drivers of a process: what they share, such as a simulated fabric, is told times that go on when one takes over from another.
        static ZERO: OnceLock<SystemInstant> = OnceLock::new();
        let mut clock = Self { zero: *ZERO.get_or_init(SystemInstant::now), anchor: Instant::ZERO, wall_at_anchor: 0 };
        clock.read_wall();
        clock
    }

    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    pub(super) fn now(&self) -> Instant {
        let elapsed = SystemInstant::now().saturating_duration_since(self.zero);
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// What reading the monotonic clock takes: the mean of many readings. Confidence (Settlemyer et al.) tells it beside its measurements likewise.
    pub(super) fn cost(&self) -> Duration {
        let begin = self.now();
        (1..READINGS_FOR_COST).for_each(|_| {
            std::hint::black_box(self.now());
        });
        (self.now() - begin) / READINGS_FOR_COST
    }

    /// Reads the wall clock: nanoseconds since 1970.
    #[expect(clippy::disallowed_methods, reason = "this is where clocks are read")]
    pub(super) fn read_wall(&mut self) -> u64 {
        // Both clocks shall mean the same instant: if something came between the readings, they are read again.
        for _ in 0..READINGS {
            let before = self.now();
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.anchor = self.now();
            self.wall_at_anchor = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
            if self.anchor - before < CLOSE_READINGS {
                break;
            }
        }
        self.wall_at_anchor
    }

    /// An instant in nanoseconds since 1970, by the wall clock's last reading.
    pub(super) fn wall(&self, at: Instant) -> u64 {
        match at.as_nanos().checked_sub(self.anchor.as_nanos()) {
            Some(after) => self.wall_at_anchor.saturating_add(after),
            None => self.wall_at_anchor.saturating_sub(self.anchor.as_nanos() - at.as_nanos()),
        }
    }
}
