//! How many MADs may be under way, and how fast they may follow one another.
//!
//! 1. **The window adapts.** When more MADs than usual expire of devices that answer others, something on the way is full: a switch, a link, or this
//!    host's own queue. Then the window is halved and left so for some slots, to see whether that helps; then it grows again by a sixteenth of what is
//!    configured a slot.
//! 2. **What is usual** is remembered: what the first slot brought, and then slowly what is. A fabric that always loses one MAD in ten, or one switch that is
//!    slow, is no reason to ask everybody one by one.
//! 3. **The pace** is a ceiling of MADs a second, with a small burst, so that replies are read in between.

use std::time::Duration;

use crate::time::Instant;

/// The window, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    configured: usize,
    adaptive: bool,
    now: usize,
    /// The share of MADs that usually expire; none before the first slot.
    usual: Option<f64>,
    /// Slots for which it is left as it is.
    rest: u32,
}

/// The window changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// What it was.
    pub from: usize,
    /// What it is.
    pub to: usize,
}

/// So much more than usual is a reason: a share of the MADs, and so many of them at least.
const MORE_THAN_USUAL: f64 = 0.02;
const AT_LEAST: u64 = 4;

/// How fast what is usual follows what is.
const FOLLOWS: f64 = 1.0 / 8.0;

/// For how many slots a window that was halved is left so.
const REST: u32 = 4;

impl Window {
    /// A window of so many MADs, which may become smaller if it is adaptive.
    pub fn new(configured: usize, adaptive: bool) -> Self {
        Self { configured, adaptive, now: configured, usual: None, rest: 0 }
    }

    /// MADs that may be under way.
    pub fn now(&self) -> usize {
        self.now
    }

    /// Takes what a slot brought: MADs sent to devices that answered any, and those of them that expired. Tells of the window's being halved, and of its
    /// being what is configured again.
    pub fn adapt(&mut self, sent: u64, expired: u64) -> Option<Change> {
        if !self.adaptive || sent == 0 {
            return None;
        }
        let share = expired as f64 / sent as f64;
        let usual = *self.usual.get_or_insert(share);
        self.usual = Some(usual + (share - usual) * FOLLOWS);
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let from = self.now;
        if expired >= AT_LEAST && share > 2.0 * usual + MORE_THAN_USUAL {
            (self.now, self.rest) = ((from / 2).max(1), REST);
        } else {
            self.now = (from + self.configured.div_ceil(16)).min(self.configured);
        }
        let told = self.now < from || self.now == self.configured && from < self.configured;
        told.then_some(Change { from, to: self.now })
    }
}

/// A ceiling of MADs a second; none unless it is said.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two MADs on average; zero without a ceiling.
    spacing: Duration,
    /// When the next one would be due if all before had kept to the pace.
    due: Instant,
}

/// MADs that may follow at once on a pause.
const BURST: u32 = 8;

impl Pace {
    /// At most so many a second; any number if 0.
    pub fn new(most_per_second: u32) -> Self {
        let spacing = if most_per_second == 0 { Duration::ZERO } else { Duration::from_secs(1) / most_per_second };
        Self { spacing, due: Instant::ZERO }
    }

    /// When the next MAD may go; now or earlier if it may go now.
    pub fn next(&self) -> Instant {
        Instant::from_nanos(self.due.as_nanos().saturating_sub(nanos(self.spacing * (BURST - 1))))
    }

    /// A MAD goes.
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
    fn it_is_halved_when_more_expires_than_usual_and_grows_again() {
        let mut window = Window::new(32, true);
        assert_eq!([window.adapt(1000, 0), window.adapt(1000, 3)], [None; 2], "a few are nothing");
        assert_eq!(window.adapt(1000, 100), Some(Change { from: 32, to: 16 }));
        let grown: Vec<_> = (0..12).map(|_| window.adapt(1000, 0)).collect();
        assert_eq!(grown[..11], [None; 11]);
        assert_eq!((grown[11], window.now()), (Some(Change { from: 30, to: 32 }), 32));
        assert_eq!(window.adapt(1000, 0), None);
    }

    #[test]
    fn it_never_closes() {
        let mut window = Window::new(8, true);
        for slot in 0..60 {
            window.adapt(1000, if slot % 5 == 0 { 1000 } else { 0 });
            assert!((1..=8).contains(&window.now()));
        }
    }

    #[test]
    fn what_is_usual_is_no_reason_and_what_becomes_usual_is_one_once() {
        let mut window = Window::new(32, true);
        assert!((0..100).all(|_| window.adapt(1000, 100).is_none()));
        assert_eq!(window.now(), 32, "one in ten is lost always");
        assert_eq!(window.adapt(1000, 400).map(|change| change.to), Some(16));
        let mut window = Window::new(32, true);
        window.adapt(1000, 0);
        // A switch becomes slow, and stays so.
        let halved = (0..100).filter_map(|_| window.adapt(1000, 60)).filter(|change| change.to < change.from).count();
        assert_eq!((halved, window.now()), (1, 32));
    }

    #[test]
    fn what_is_not_adaptive_stays() {
        let mut window = Window::new(32, false);
        assert_eq!((window.adapt(1000, 1000), window.now()), (None, 32));
    }

    #[test]
    fn no_second_has_more_mads_than_the_ceiling_and_a_burst() {
        let mut pace = Pace::new(1000);
        let (mut now, mut sent) = (Instant::ZERO + Duration::from_secs(5), Vec::new());
        while sent.len() < 5000 {
            now = now.max(pace.next());
            pace.sent(now);
            sent.push(now);
        }
        assert_eq!(sent[..8], [sent[0]; 8], "a burst goes at once");
        for (place, at) in sent.iter().enumerate() {
            let within = sent[place..].iter().take_while(|later| **later - *at < Duration::from_secs(1)).count();
            assert!(within <= 1000 + BURST as usize, "{within} from {at:?}");
        }
        let mut free = Pace::new(0);
        (0..100).for_each(|_| free.sent(now));
        assert!(free.next() <= now);
    }
}
