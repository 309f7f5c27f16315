//! The way to the fabric, and how it is found again when it is lost: a driver that is reloaded, a HCA that is reset.
//!
//! Closing and opening may stand still inside the kernel, so a thread of its own does both, one try after another. No slot waits for it, and no stop.
//! The time between two tries doubles; a way that is lost again soon after it was back goes on where the last tries ended. Reads no clock: it is told.

use std::error::Error;
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::mad::Mad;
use crate::mad::exchange::{Completion, Local, Target};
use crate::mad::transport::{Transport, TransportError};
use crate::time::Instant;

/// A way that was opened.
#[derive(Debug)]
pub struct Opened<T> {
    /// It.
    pub transport: T,
    /// Where our P_Key is in the port's table now.
    pub pkey_index: u16,
    /// P_Key table of the port, by index.
    pub pkey_table: Vec<u16>,
}

/// Why it could not be opened, for the log.
pub type OpenError = Box<dyn Error + Send + Sync>;

/// What one try to open it gave.
type Tried<T> = Result<Opened<T>, OpenError>;

/// Starts a try, after the old way was closed; what it gives comes through the channel.
type Start<T> = Box<dyn Fn(Option<T>) -> io::Result<Receiver<Tried<T>>> + Send>;

/// Before the first try, and the most between two.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A way, or the tries to find it again.
pub(super) struct Lifeline<T> {
    way: Way<T>,
    start: Option<Start<T>>,
    /// Before the next try.
    backoff: Duration,
}

enum Way<T> {
    There { transport: T, since: Instant },
    Lost { errno: i32, since: Instant, next: Try<T> },
}

enum Try<T> {
    /// Not before then. What is left of the old way is closed with it.
    Later {
        at: Instant,
        old: Option<T>,
    },
    Now(Receiver<Tried<T>>),
}

/// It was found again.
pub(super) struct Back {
    /// How long after it was lost.
    pub(super) after: Duration,
    pub(super) pkey_index: u16,
    pub(super) pkey_table: Vec<u16>,
}

impl<T: Transport> Lifeline<T> {
    /// One that is never found again.
    pub(super) fn new(transport: T) -> Self {
        Self { way: Way::There { transport, since: Instant::ZERO }, start: None, backoff: FIRST_WAIT }
    }

    /// Whether there is a way to find it again.
    pub(super) fn can_reopen(&self) -> bool {
        self.start.is_some()
    }

    /// The errno with which it was lost, if it is.
    pub(super) fn lost(&self) -> Option<i32> {
        match &self.way {
            Way::There { .. } => None,
            Way::Lost { errno, .. } => Some(*errno),
        }
    }

    pub(super) fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        match &mut self.way {
            Way::There { transport, .. } => transport.send(target, mad, now),
            Way::Lost { errno, .. } => Err(TransportError::new("umad_send", *errno)),
        }
    }

    /// Where there is no way, time passes all the same.
    pub(super) fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError> {
        match &mut self.way {
            Way::There { transport, .. } => transport.recv(mad, wait, now),
            Way::Lost { .. } => {
                thread::sleep(wait);
                Ok(None)
            }
        }
    }

    pub(super) fn local(&mut self) -> Option<Local> {
        match &mut self.way {
            Way::There { transport, .. } => transport.local(),
            Way::Lost { .. } => None,
        }
    }

    /// It is lost from now on.
    pub(super) fn lose(&mut self, errno: i32, now: Instant) {
        let lost = Way::Lost { errno, since: now, next: Try::Later { at: now, old: None } };
        match std::mem::replace(&mut self.way, lost) {
            Way::There { transport, since } => {
                if now - since >= LONGEST_BACKOFF {
                    self.backoff = FIRST_WAIT;
                }
                self.try_later(now, Some(transport));
            }
            lost @ Way::Lost { .. } => self.way = lost,
        }
    }

    /// Starts the next try if it is time, and takes what the last one gave.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Back> {
        let (Way::Lost { since, next, .. }, Some(start)) = (&mut self.way, &self.start) else { return None };
        let tried = match next {
            Try::Later { at, .. } if now < *at => return None,
            Try::Later { old, .. } => match start(old.take()) {
                Ok(coming) => {
                    *next = Try::Now(coming);
                    return None;
                }
                Err(error) => Err(error.into()),
            },
            Try::Now(coming) => match coming.try_recv() {
                Ok(tried) => tried,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err("the thread that opens it has ended".into()),
            },
        };
        match tried {
            Ok(Opened { transport, pkey_index, pkey_table }) => {
                let after = now - *since;
                self.way = Way::There { transport, since: now };
                Some(Back { after, pkey_index, pkey_table })
            }
            Err(error) => {
                tracing::debug!(%error, "the way to the fabric is not back yet");
                self.try_later(now, None);
                None
            }
        }
    }

    fn try_later(&mut self, now: Instant, old: Option<T>) {
        if let Way::Lost { next, .. } = &mut self.way {
            *next = Try::Later { at: now + self.backoff, old };
            self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        }
    }
}

impl<T: Send + 'static> Lifeline<T> {
    /// Finds it again by `open`, each time on a thread of its own.
    pub(super) fn reopen_by(&mut self, open: impl Fn() -> Tried<T> + Clone + Send + 'static) {
        self.start = Some(Box::new(move |old| {
            let (tell, coming) = sync_channel(1);
            let open = open.clone();
            thread::Builder::new().name("open".to_owned()).spawn(move || {
                drop(old);
                // Nobody waits for it any more once the sweep has ended.
                let _ = tell.send(open());
            })?;
            Ok(coming)
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const EIO: i32 = 5;

    /// A way that only counts how many of it were closed.
    struct Counted(Arc<AtomicU32>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Transport for Counted {
        fn send(&mut self, _target: &Target, _mad: &Mad, _now: Instant) -> Result<(), TransportError> {
            Ok(())
        }

        fn recv(&mut self, _mad: &mut Mad, _wait: Duration, _now: Instant) -> Result<Option<Completion>, TransportError> {
            Ok(None)
        }

        fn local(&mut self) -> Option<Local> {
            None
        }
    }

    /// A lifeline whose tries fail until so many were made, and how many there were, and how many ways were closed.
    fn lifeline(back_at: u32) -> (Lifeline<Counted>, Arc<AtomicU32>, Arc<AtomicU32>) {
        let (tries, closed) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
        let mut lifeline = Lifeline::new(Counted(Arc::clone(&closed)));
        let (count, counted) = (Arc::clone(&tries), Arc::clone(&closed));
        lifeline.reopen_by(move || {
            if count.fetch_add(1, Ordering::Relaxed) + 1 < back_at {
                return Err("not yet".into());
            }
            Ok(Opened { transport: Counted(Arc::clone(&counted)), pkey_index: 3, pkey_table: Vec::new() })
        });
        (lifeline, tries, closed)
    }

    impl Lifeline<Counted> {
        /// Polls at this instant until the try that it may start has given what it gives.
        fn poll_through(&mut self, now: Instant) -> Option<Back> {
            loop {
                let back = self.poll(now);
                if back.is_some() || !matches!(&self.way, Way::Lost { next: Try::Now(_), .. }) {
                    return back;
                }
                thread::yield_now();
            }
        }
    }

    #[test]
    fn tries_become_rare_and_never_spin() {
        let (mut lifeline, tries, closed) = lifeline(u32::MAX);
        lifeline.lose(EIO, Instant::ZERO);
        let mut at = Vec::new();
        for step in 0..60_000 {
            let before = tries.load(Ordering::Relaxed);
            assert!(lifeline.poll_through(Instant::ZERO + step * MS).is_none());
            at.extend((tries.load(Ordering::Relaxed) > before).then_some(step));
        }
        assert_eq!(at, [100, 300, 700, 1500, 3100, 6300, 12_700, 22_700, 32_700, 42_700, 52_700]);
        assert_eq!((closed.load(Ordering::Relaxed), lifeline.lost()), (1, Some(EIO)));
    }

    #[test]
    fn one_that_comes_back_says_after_how_long() {
        let (mut lifeline, _, closed) = lifeline(2);
        let lost = Instant::from_nanos(7_000_000_000);
        lifeline.lose(EIO, lost);
        assert!(lifeline.poll_through(lost + 100 * MS).is_none());
        let back = lifeline.poll_through(lost + 300 * MS).expect("the second try");
        assert_eq!((back.after, back.pkey_index, lifeline.lost()), (300 * MS, 3, None));
        assert_eq!(closed.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn one_that_flaps_is_tried_as_rarely_as_one_that_is_away_and_a_steady_one_is_not() {
        let (mut lifeline, tries, _) = lifeline(0);
        let mut now = Instant::ZERO;
        for _ in 0..60_000 {
            if lifeline.lost().is_none() {
                lifeline.lose(EIO, now);
            }
            lifeline.poll_through(now);
            now += MS;
        }
        let count = tries.load(Ordering::Relaxed);
        assert!((8..=12).contains(&count), "{count}");
        while lifeline.lost().is_some() {
            lifeline.poll_through(now);
            now += MS;
        }
        now += LONGEST_BACKOFF;
        lifeline.lose(EIO, now);
        assert!(lifeline.poll_through(now + FIRST_WAIT).is_some(), "at once again");
    }

    #[test]
    fn a_try_that_stands_still_is_waited_for_by_nobody() {
        let (mut lifeline, _, _) = lifeline(0);
        let (release, stuck) = sync_channel::<()>(0);
        let stuck = Arc::new(std::sync::Mutex::new(stuck));
        let tries = Arc::<AtomicU32>::default();
        let count = Arc::clone(&tries);
        lifeline.reopen_by(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stuck.lock().map(|stuck| stuck.recv());
            Err("too late".into())
        });
        lifeline.lose(EIO, Instant::ZERO);
        for step in 0..100_000 {
            assert!(lifeline.poll(Instant::ZERO + step * MS).is_none());
        }
        assert!(tries.load(Ordering::Relaxed) <= 1);
        drop(release);
    }

    #[test]
    fn a_try_that_panics_is_one_that_failed() {
        let (mut lifeline, _, _) = lifeline(0);
        lifeline.reopen_by(|| panic!("on purpose"));
        lifeline.lose(EIO, Instant::ZERO);
        assert!(lifeline.poll_through(Instant::ZERO + FIRST_WAIT).is_none());
        assert!(matches!(&lifeline.way, Way::Lost { next: Try::Later { old: None, .. }, .. }));
    }
}
