//! Monotonic time that starts at zero.
//!
//! This module has no `now()`: the engine and the simulated fabric take an [`Instant`] as an
//! argument, so a test can simulate a day in a second. Only `sweep::driver` and the programs read
//! clocks.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// An instant, in nanoseconds since zero. Zero is the start of a program or of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// Time zero.
    pub const ZERO: Self = Self(0);

    /// Returns the instant `nanos` nanoseconds after zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since zero.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. The sum saturates after 584 years.
    fn add(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time since `other`, or zero if `other` is later.
    fn sub(self, other: Self) -> Duration {
        self.saturating_since(other)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_never_negative() {
        let early = Instant::from_nanos(10);
        let late = early + Duration::from_nanos(5);
        assert_eq!(late - early, Duration::from_nanos(5));
        assert_eq!(early - late, Duration::ZERO);
    }

    #[test]
    fn sum_saturates() {
        assert_eq!(
            Instant::from_nanos(u64::MAX) + Duration::from_secs(1),
            Instant::from_nanos(u64::MAX)
        );
    }
}
