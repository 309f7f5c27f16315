//! Watches the state of a link, and finds *flaps*: the link went down and came up again between two
//! reads of its state.
//!
//! LinkDownedCounter counts a flap, but also each down that the state has shown and an event has
//! reported. The difference of the two is the number of flaps, as soon as the state, read after
//! the counter, shows an active link: without this read, the link may be down now, and the next
//! slot reports it.

use crate::time::Instant;

/// The state of one link and the downs that no event has reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkWatch {
    /// Whether the link was active when its state was last read.
    is_up: bool,
    /// Counted downs, less those that the state has shown.
    unreported: i64,
    /// Time of the last reading that counted downs.
    counted_at: Instant,
    /// Number of readings of the counter since the link came up.
    readings: u8,
}

impl LinkWatch {
    /// Creates a link that is active, so a link that is down is reported at the start.
    pub(super) const fn new() -> Self {
        Self {
            is_up: true,
            unreported: 0,
            counted_at: Instant::ZERO,
            readings: 0,
        }
    }

    /// Stores the state of the link. Returns whether it has changed.
    pub(super) fn set_up(&mut self, is_up: bool) -> bool {
        let has_changed = std::mem::replace(&mut self.is_up, is_up) != is_up;
        if has_changed {
            self.unreported -= i64::from(!is_up);
            self.readings = 0;
        }
        has_changed
    }

    /// Returns the number of flaps before a state that was read at this time.
    pub(super) fn take_flaps(&mut self, state_read_at: Option<Instant>) -> Option<i64> {
        let is_known = self.is_up
            && self.unreported > 0
            && state_read_at.is_some_and(|at| at > self.counted_at);
        is_known.then(|| std::mem::take(&mut self.unreported))
    }

    /// Adds the downs that a reading has counted.
    pub(super) fn count(&mut self, downs: u64, at: Instant) {
        self.unreported = self.unreported.saturating_add_unsigned(downs);
        if downs > 0 {
            self.counted_at = at;
        }
        if self.is_up {
            self.readings = self.readings.saturating_add(1);
            if self.readings > 1 {
                // The device does not count downs such as the last one, for example those that an
                // administrator has caused.
                self.unreported = self.unreported.max(0);
            }
        }
    }

    /// Forgets all counted downs, because the counter was cleared or is that of another port.
    pub(super) fn forget(&mut self) {
        self.unreported = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn flap_counts_once_the_link_was_read_as_active_after_it() {
        let mut link = LinkWatch::new();
        link.count(2, at(1));
        assert_eq!(link.take_flaps(Some(at(0))), None);
        assert_eq!(link.take_flaps(None), None);
        assert_eq!(link.take_flaps(Some(at(2))), Some(2));
        assert_eq!(link.take_flaps(Some(at(3))), None);
    }

    #[test]
    fn down_that_the_state_shows_is_no_flap_in_either_order() {
        let mut link = LinkWatch::new();
        // First the counter, then the state.
        link.count(1, at(1));
        assert!(link.set_up(false));
        assert!(link.set_up(true) && !link.set_up(true));
        link.count(0, at(3));
        assert_eq!(link.take_flaps(Some(at(4))), None);
        // First the state, then the counter, which has a flap in addition.
        assert!(link.set_up(false) && link.set_up(true));
        link.count(2, at(5));
        assert_eq!(link.take_flaps(Some(at(6))), Some(1));
    }

    #[test]
    fn down_that_is_never_counted_hides_no_later_flap() {
        let mut link = LinkWatch::new();
        assert!(link.set_up(false) && link.set_up(true));
        link.count(0, at(1));
        link.count(0, at(2));
        link.count(1, at(3));
        assert_eq!(link.take_flaps(Some(at(4))), Some(1));
    }

    #[test]
    fn cleared_counter_is_forgotten() {
        let mut link = LinkWatch::new();
        link.count(1, at(1));
        link.forget();
        assert_eq!(link.take_flaps(Some(at(2))), None);
    }
}
