//! Two limits of the sending rate: the *window* is the max number of MADs in flight at once, and
//! the *pace* is the max number of MADs per second.
//!
//! 1. **The window adapts.** The engine counts the MADs that expire although their device answers
//!    other MADs. If their share is larger than usual, a queue on the path is full, in a switch or
//!    in this host. The window is then halved and keeps this size for some slots; after that it
//!    grows in each slot by a sixteenth of the configured window.
//! 2. **The usual share** of expired MADs starts with the share of the first slot and follows the
//!    current share slowly. Neither a fabric that always loses one MAD in ten nor a single slow
//!    switch can therefore reduce the window.
//! 3. **The pace** allows only small bursts of MADs, so that the driver can read replies between
//!    them.

use std::time::Duration;

use crate::time::Instant;

/// The window of a sampler.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    configured: usize,
    now: usize,
    /// Share of MADs that usually expire. `None` before the first slot.
    usual: Option<f64>,
    /// Number of further slots in which the window does not change.
    rest: u32,
}

/// A change of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Previous size.
    pub from: usize,
    /// New size.
    pub to: usize,
}

/// Margin above the usual share: the window is halved if the share of expired MADs exceeds this
/// value plus twice the usual share.
const MORE_THAN_USUAL: f64 = 0.02;

/// Min number of expired MADs in a slot for the window to be halved.
const FEWEST_EXPIRED: u64 = 4;

/// Weight of the newest slot in the usual share.
const WEIGHT: f64 = 1.0 / 8.0;

/// Number of slots for which a halved window does not change.
const REST: u32 = 4;

impl Window {
    /// Creates a window of `configured` MADs.
    pub fn new(configured: usize) -> Self {
        Self {
            configured,
            now: configured,
            usual: None,
            rest: 0,
        }
    }

    /// Returns the number of MADs that may be in flight now.
    pub fn now(&self) -> usize {
        self.now
    }

    /// Adapts the window after a slot. `sent` is the number of MADs sent to devices that answered,
    /// and `expired` counts those of them that expired. Returns a change if the window was halved
    /// or has its configured size again.
    pub fn adapt(&mut self, sent: u64, expired: u64) -> Option<Change> {
        if sent == 0 {
            return None;
        }
        let share = expired as f64 / sent as f64;
        let usual = *self.usual.get_or_insert(share);
        self.usual = Some(usual + (share - usual) * WEIGHT);
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let from = self.now;
        if expired >= FEWEST_EXPIRED && share > 2.0 * usual + MORE_THAN_USUAL {
            (self.now, self.rest) = ((from / 2).max(1), REST);
        } else {
            self.now = (from + self.configured.div_ceil(16)).min(self.configured);
        }
        let is_reported = self.now < from || self.now == self.configured && from < self.configured;
        is_reported.then_some(Change { from, to: self.now })
    }
}

/// A limit of MADs per second.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Average time between two MADs. It is zero if there is no limit.
    spacing: Duration,
    /// Time at which the next MAD is sent if all MADs have the average spacing.
    due: Instant,
}

/// Number of MADs that may be sent at once after a pause.
const BURST: u32 = 8;

impl Pace {
    /// Creates a limit of MADs per second. 0 means no limit.
    pub fn new(most_per_second: u32) -> Self {
        let spacing = if most_per_second == 0 {
            Duration::ZERO
        } else {
            Duration::from_secs(1) / most_per_second
        };
        Self {
            spacing,
            due: Instant::ZERO,
        }
    }

    /// Returns the earliest time for the next MAD. This time can be in the past.
    pub fn next(&self) -> Instant {
        Instant::from_nanos(
            self.due
                .as_nanos()
                .saturating_sub(nanos(self.spacing * (BURST - 1))),
        )
    }

    /// Records that a MAD is sent.
    pub fn sent(&mut self, now: Instant) {
        self.due = self.due.max(now) + self.spacing;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_halved_when_more_mads_expire_than_usual_and_grows_again() {
        let mut window = Window::new(32);
        assert_eq!(
            [window.adapt(1000, 0), window.adapt(1000, 3)],
            [None; 2],
            "too few to halve the window"
        );
        assert_eq!(window.adapt(1000, 100), Some(Change { from: 32, to: 16 }));
        let grown: Vec<_> = (0..12).map(|_| window.adapt(1000, 0)).collect();
        assert_eq!(grown[..11], [None; 11]);
        assert_eq!(
            (grown[11], window.now()),
            (Some(Change { from: 30, to: 32 }), 32)
        );
        assert_eq!(window.adapt(1000, 0), None);
    }

    #[test]
    fn window_is_never_zero() {
        let mut window = Window::new(8);
        for slot in 0..60 {
            window.adapt(1000, if slot % 5 == 0 { 1000 } else { 0 });
            assert!((1..=8).contains(&window.now()));
        }
    }

    #[test]
    fn usual_losses_keep_the_window_and_new_losses_halve_it_once() {
        let mut window = Window::new(32);
        assert!((0..100).all(|_| window.adapt(1000, 100).is_none()));
        assert_eq!(window.now(), 32, "one in ten is always lost");
        assert_eq!(window.adapt(1000, 400).map(|change| change.to), Some(16));
        let mut window = Window::new(32);
        window.adapt(1000, 0);
        // Here a switch becomes slow and stays slow.
        let halved = (0..100)
            .filter_map(|_| window.adapt(1000, 60))
            .filter(|change| change.to < change.from)
            .count();
        assert_eq!((halved, window.now()), (1, 32));
    }

    #[test]
    fn no_second_has_more_mads_than_the_limit_and_a_burst() {
        let mut pace = Pace::new(1000);
        let (mut now, mut sent) = (Instant::ZERO + Duration::from_secs(5), Vec::new());
        while sent.len() < 5000 {
            now = now.max(pace.next());
            pace.sent(now);
            sent.push(now);
        }
        assert_eq!(sent[..8], [sent[0]; 8], "a burst is sent at once");
        for (place, at) in sent.iter().enumerate() {
            let within = sent[place..]
                .iter()
                .take_while(|later| **later - *at < Duration::from_secs(1))
                .count();
            assert!(within <= 1000 + BURST as usize, "{within} from {at:?}");
        }
        let mut free = Pace::new(0);
        (0..100).for_each(|_| free.sent(now));
        assert!(free.next() <= now);
    }
}
