//! The transport of a driver, and the attempts to open it again after a loss. A transport is lost,
//! for example, when an administrator reloads the kernel driver or resets the HCA.
//!
//! Closing and opening a device can block inside the kernel, so both run as [jobs of the
//! clock](Clock::start); neither a slot nor a stop waits for them. A lost transport is closed at
//! once. An attempt to open it again starts in two cases:
//!
//! - A device has appeared or changed (see [`Reconnect::watch_by`]). The backoff then starts again
//!   at 100 ms.
//! - The backoff has passed. It is 100 ms after the loss and doubles with each attempt, up to 1 s.
//!   If the transport is lost again within 10 s after it was opened, the backoff continues to
//!   double, up to 10 s; otherwise it starts again at 100 ms.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ibnet_record::types::PortNum;

use super::clock::{BackgroundJob, Clock, JobState};
use super::wake::Wake;
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Local, Target};
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::time::Instant;

/// A transport that was opened again.
#[derive(Debug)]
pub struct Opened<T> {
    /// The transport.
    pub transport: T,
    /// Name and port of the HCA that was opened, because an HCA may come back under another name.
    /// `None` if they cannot change.
    pub hca: Option<(String, PortNum)>,
    /// Index of the configured P_Key in the port's table.
    pub pkey_index: u16,
    /// P_Key table of the port, by index.
    pub pkey_table: Vec<u16>,
}

/// The reason why a transport could not be opened.
pub type OpenError = Box<dyn Error + Send + Sync>;

/// A transport that was opened, and the location of its port if it could be read.
pub(super) struct Located<T> {
    opened: Opened<T>,
    local: Option<Local>,
}

/// The outcome of one attempt.
type Attempt<T> = Result<Located<T>, OpenError>;

/// Function that starts an attempt.
type StartAttempt<T> = Box<dyn Fn(&Arc<Wake>) -> io::Result<BackgroundJob<Attempt<T>>> + Send>;

/// Function that closes a transport without blocking the caller.
type Close<T> = Box<dyn Fn(T) + Send>;

/// Function that returns whether a device has appeared or changed since the last call. It never
/// blocks. Dropping it ends the watch.
pub type Changes = Box<dyn FnMut() -> bool + Send>;

/// Function that starts a watch for devices. The watch raises the wake at each change.
type StartWatch = Box<dyn Fn(&Arc<Wake>) -> io::Result<Changes> + Send>;

/// Time from the loss of a transport to the first attempt.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);

/// Max time from a failed attempt to the next one.
const LONGEST_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Max time from the loss of a transport to the first attempt. It applies if the transport is lost
/// repeatedly, each time soon after it was opened.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A transport, or the attempts to open it again.
pub(super) struct Reconnect<T, C> {
    connection: Connection<T>,
    start_attempt: Option<StartAttempt<T>>,
    close: Option<Close<T>>,
    start_watch: Option<StartWatch>,
    /// The watch for devices, while the transport is lost.
    changes: Option<Changes>,
    /// Time until the next attempt.
    backoff: Duration,
    clock: C,
}

enum Connection<T> {
    Open {
        transport: T,
        since: Instant,
    },
    Lost {
        errno: i32,
        since: Instant,
        attempt: AttemptState<T>,
    },
}

enum AttemptState<T> {
    /// The next attempt starts at this time.
    Due(Instant),
    Running(BackgroundJob<Attempt<T>>),
}

/// The transport was opened again.
pub(super) struct Reconnected {
    /// Time since the transport was lost.
    pub(super) after: Duration,
    pub(super) hca: Option<(String, PortNum)>,
    pub(super) pkey_index: u16,
    pub(super) pkey_table: Vec<u16>,
    /// Location of the port. `None` if it could not be read.
    pub(super) local: Option<Local>,
}

impl<T: Transport, C: Clock> Reconnect<T, C> {
    /// Creates a transport that is not opened again after a loss.
    pub(super) fn new(transport: T, clock: C) -> Self {
        let connection = Connection::Open {
            transport,
            since: Instant::ZERO,
        };
        Self {
            connection,
            start_attempt: None,
            close: None,
            start_watch: None,
            changes: None,
            backoff: FIRST_BACKOFF,
            clock,
        }
    }

    /// Makes [`poll`](Self::poll) open a lost transport again with `open`.
    pub(super) fn open_by(
        &mut self,
        open: impl Fn() -> Result<Opened<T>, OpenError> + Clone + Send + 'static,
    ) where
        T: Send + 'static,
        C: Send + 'static,
    {
        let clock = self.clock.clone();
        self.start_attempt = Some(Box::new(move |wake| {
            let open = open.clone();
            clock.start("open", wake, move || {
                let opened = open()?;
                Ok(Located {
                    local: opened.transport.locator()(),
                    opened,
                })
            })
        }));
        let clock = self.clock.clone();
        self.close = Some(Box::new(move |transport| {
            // Nothing waits for the end of this job. If no thread can be started, the transport is
            // closed here.
            if let Err(error) = clock.start("close", &Arc::default(), move || drop(transport)) {
                tracing::debug!(%error, "cannot start a thread that closes the transport");
            }
        }));
    }

    /// Watches for devices while the transport is lost. `start` starts the watch.
    pub(super) fn watch_by(
        &mut self,
        start: impl Fn(&Arc<Wake>) -> io::Result<Changes> + Send + 'static,
    ) {
        self.start_watch = Some(Box::new(start));
    }

    /// Returns whether a lost transport is opened again.
    pub(super) fn can_reopen(&self) -> bool {
        self.start_attempt.is_some()
    }

    /// Returns whether the transport is lost.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.connection, Connection::Lost { .. })
    }

    /// Returns when the transport was opened, or `None` while it is lost.
    pub(super) fn open_since(&self) -> Option<Instant> {
        match self.connection {
            Connection::Open { since, .. } => Some(since),
            Connection::Lost { .. } => None,
        }
    }

    /// Marks the transport as lost, with the errno that sends return until it is open again.
    pub(super) fn lose(&mut self, errno: i32, now: Instant) {
        let attempt = AttemptState::Due(now);
        match std::mem::replace(
            &mut self.connection,
            Connection::Lost {
                errno,
                since: now,
                attempt,
            },
        ) {
            Connection::Open { transport, since } => {
                if now - since >= LONGEST_BACKOFF {
                    self.backoff = FIRST_BACKOFF;
                }
                self.try_later(now, LONGEST_BACKOFF);
                if let Some(close) = &self.close {
                    close(transport);
                }
            }
            lost @ Connection::Lost { .. } => self.connection = lost,
        }
    }

    /// Starts the next attempt when it is due, and takes the result of the last one. Raises `wake`
    /// when an attempt has ended. Never blocks.
    pub(super) fn poll(&mut self, now: Instant, wake: &Arc<Wake>) -> Option<Reconnected> {
        self.take_changes(now, wake);
        let (Connection::Lost { since, attempt, .. }, Some(start)) =
            (&mut self.connection, &self.start_attempt)
        else {
            return None;
        };
        if let AttemptState::Due(at) = attempt {
            if now < *at {
                return None;
            }
            match start(wake) {
                Ok(job) => *attempt = AttemptState::Running(job),
                Err(error) => return self.failed(&error.into(), now),
            }
        }
        let AttemptState::Running(job) = attempt else {
            return None;
        };
        match job.poll(now) {
            JobState::Running => None,
            JobState::Panicked => self.failed(&"the attempt has panicked".into(), now),
            JobState::Done(Err(error)) => self.failed(&error, now),
            JobState::Done(Ok(Located {
                opened:
                    Opened {
                        transport,
                        hca,
                        pkey_index,
                        pkey_table,
                    },
                local,
            })) => {
                let after = now - *since;
                self.connection = Connection::Open {
                    transport,
                    since: now,
                };
                self.changes = None;
                Some(Reconnected {
                    after,
                    hca,
                    pkey_index,
                    pkey_table,
                    local,
                })
            }
        }
    }

    /// Returns the time at which [`poll`](Self::poll) must be called next, or `None` if the
    /// transport is open or no call is needed before `wake` is raised.
    pub(super) fn next_poll(&mut self, now: Instant) -> Option<Instant> {
        match &mut self.connection {
            Connection::Lost {
                attempt: AttemptState::Due(at),
                ..
            } if self.start_attempt.is_some() => Some(*at),
            Connection::Lost {
                attempt: AttemptState::Running(job),
                ..
            } => Some(job.ready_at()).filter(|at| *at > now),
            Connection::Open { .. } | Connection::Lost { .. } => None,
        }
    }

    fn failed(&mut self, error: &OpenError, now: Instant) -> Option<Reconnected> {
        tracing::debug!(%error, "cannot open the transport yet");
        self.try_later(now, LONGEST_AFTER_FAILURE);
        None
    }

    /// Starts the watch for devices if the transport is lost. If a device has changed, starts the
    /// next attempt at once or, if an attempt is running, 100 ms after it.
    fn take_changes(&mut self, now: Instant, wake: &Arc<Wake>) {
        let Connection::Lost { attempt, .. } = &mut self.connection else {
            return;
        };
        if self.changes.is_none()
            && let Some(start) = self.start_watch.take()
        {
            match start(wake) {
                Ok(changes) => {
                    self.changes = Some(changes);
                    self.start_watch = Some(start);
                }
                // The attempts continue without a watch, which is not started again.
                Err(error) => {
                    tracing::warn!(%error, "cannot watch for devices, so an HCA that comes back is found up to a second later");
                }
            }
        }
        if self.changes.as_mut().is_some_and(|changed| changed()) {
            self.backoff = FIRST_BACKOFF;
            if let AttemptState::Due(at) = attempt {
                *at = now;
            }
        }
    }

    /// Schedules the next attempt, at most `longest` from now.
    fn try_later(&mut self, now: Instant, longest: Duration) {
        if let Connection::Lost { attempt, .. } = &mut self.connection {
            *attempt = AttemptState::Due(now + self.backoff.min(longest));
            self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
        }
    }
}

/// While the transport is lost, sends fail, and waits for replies end at their timeouts.
impl<T: Transport, C: Clock> Transport for Reconnect<T, C> {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        match &mut self.connection {
            Connection::Open { transport, .. } => transport.send(target, mad, now),
            Connection::Lost { errno, .. } => Err(TransportError::new("umad_send", *errno)),
        }
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        match &mut self.connection {
            Connection::Open { transport, .. } => transport.recv(mad, wait, now),
            Connection::Lost { .. } => {
                self.clock.sleep(wait);
                Ok(None)
            }
        }
    }

    fn locator(&self) -> Locator {
        match &self.connection {
            Connection::Open { transport, .. } => transport.locator(),
            Connection::Lost { .. } => Box::new(|| None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use rustix::io::Errno;

    use super::super::clock::SystemClock;
    use super::*;
    use crate::sweep::virtual_sweep::VirtualClock;

    const MS: Duration = Duration::from_millis(1);
    const EIO: i32 = Errno::IO.raw_os_error();

    /// A transport that counts the closed transports of its type.
    struct Counted(Arc<AtomicU32>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Transport for Counted {
        fn send(
            &mut self,
            _target: &Target,
            _mad: &Mad,
            _now: Instant,
        ) -> Result<(), TransportError> {
            Ok(())
        }

        fn recv(
            &mut self,
            _mad: &mut Mad,
            _wait: Duration,
            _now: Instant,
        ) -> Result<Option<Completion>, TransportError> {
            Ok(None)
        }

        fn locator(&self) -> Locator {
            Box::new(|| None)
        }
    }

    /// A connection in virtual time, with counts of attempts and closed transports.
    struct Fixture {
        reconnect: Reconnect<Counted, VirtualClock>,
        clock: VirtualClock,
        wake: Arc<Wake>,
        attempts: Arc<AtomicU32>,
        closed: Arc<AtomicU32>,
    }

    impl Fixture {
        /// Returns a connection. The first successful attempt has this number, counted from 1.
        fn new(first_success: u32) -> Self {
            let (attempts, closed) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
            let clock = VirtualClock::default();
            let mut reconnect = Reconnect::new(Counted(Arc::clone(&closed)), clock.clone());
            let (count, counted) = (Arc::clone(&attempts), Arc::clone(&closed));
            reconnect.open_by(move || {
                if count.fetch_add(1, Ordering::Relaxed) + 1 < first_success {
                    return Err("not yet".into());
                }
                Ok(Opened {
                    transport: Counted(Arc::clone(&counted)),
                    hca: None,
                    pkey_index: 3,
                    pkey_table: Vec::new(),
                })
            });
            Self {
                reconnect,
                clock,
                wake: Arc::default(),
                attempts,
                closed,
            }
        }

        fn lose(&mut self) {
            self.reconnect.lose(EIO, self.clock.now());
        }

        /// Polls after this time.
        fn poll_after(&mut self, time: Duration) -> Option<Reconnected> {
            self.clock.sleep(time);
            self.reconnect.poll(self.clock.now(), &self.wake)
        }

        fn attempts(&self) -> u32 {
            self.attempts.load(Ordering::Relaxed)
        }

        fn closed(&self) -> u32 {
            self.closed.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn time_between_failed_attempts_doubles_up_to_one_second() {
        let mut fixture = Fixture::new(u32::MAX);
        fixture.lose();
        assert_eq!(fixture.closed(), 1, "a lost transport is closed at once");
        let mut at = Vec::new();
        for step in 1..5000 {
            let before = fixture.attempts();
            assert!(fixture.poll_after(MS).is_none());
            at.extend((fixture.attempts() > before).then_some(step));
        }
        assert_eq!(at, [100, 300, 700, 1500, 2500, 3500, 4500]);
        assert_eq!((fixture.closed(), fixture.reconnect.is_lost()), (1, true));
    }

    #[test]
    fn next_poll_is_the_start_of_the_next_attempt() {
        let mut fixture = Fixture::new(2);
        assert_eq!(
            fixture.reconnect.next_poll(fixture.clock.now()),
            None,
            "nothing is lost"
        );
        fixture.lose();
        let mut polls = Vec::new();
        while let Some(at) = fixture.reconnect.next_poll(fixture.clock.now()) {
            polls.push(at.as_nanos() / 1_000_000);
            fixture.poll_after(at - fixture.clock.now());
        }
        assert_eq!(
            (polls, fixture.reconnect.is_lost()),
            (vec![100, 300], false)
        );
    }

    #[test]
    fn reconnection_reports_how_long_the_transport_was_lost() {
        let mut fixture = Fixture::new(2);
        fixture.clock.sleep(7000 * MS);
        fixture.lose();
        assert!(fixture.poll_after(100 * MS).is_none());
        let reconnected = fixture.poll_after(200 * MS).expect("the second attempt");
        assert_eq!(
            (
                reconnected.after,
                reconnected.pkey_index,
                fixture.reconnect.is_lost()
            ),
            (300 * MS, 3, false)
        );
        assert_eq!(fixture.closed(), 1);
    }

    #[test]
    fn unstable_transport_is_opened_at_growing_intervals() {
        let mut fixture = Fixture::new(0);
        for _ in 0..60_000 {
            if !fixture.reconnect.is_lost() {
                fixture.lose();
            }
            fixture.poll_after(MS);
        }
        assert!(
            (8..=12).contains(&fixture.attempts()),
            "{}",
            fixture.attempts()
        );
        while fixture.reconnect.is_lost() {
            fixture.poll_after(MS);
        }
        fixture.clock.sleep(LONGEST_BACKOFF);
        fixture.lose();
        assert!(
            fixture.poll_after(FIRST_BACKOFF).is_some(),
            "the first attempt comes early again"
        );
    }

    #[test]
    fn slow_attempt_is_the_only_one_and_its_result_is_used() {
        let mut fixture = Fixture::new(0);
        fixture.clock.set_job_time(60_000 * MS);
        fixture.lose();
        for _ in 0..60_099 {
            assert!(fixture.poll_after(MS).is_none());
        }
        assert_eq!(fixture.attempts(), 1);
        assert!(
            fixture.poll_after(MS).is_some(),
            "100 ms until the attempt, and 60 s for it"
        );
    }

    #[test]
    fn device_that_appears_is_opened_at_once() {
        let mut fixture = Fixture::new(4);
        let changed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&changed);
        fixture.reconnect.watch_by(move |_| {
            let seen = Arc::clone(&seen);
            Ok(Box::new(move || seen.swap(false, Ordering::Relaxed)))
        });
        fixture.lose();
        for _ in 0..50 {
            assert!(fixture.poll_after(MS).is_none());
        }
        assert_eq!(fixture.attempts(), 0);
        // The device appears before udev has set its group, so the first attempt fails.
        changed.store(true, Ordering::Relaxed);
        assert!(fixture.poll_after(MS).is_none());
        assert_eq!(
            (
                fixture.attempts(),
                fixture.reconnect.next_poll(fixture.clock.now())
            ),
            (1, Some(fixture.clock.now() + FIRST_BACKOFF))
        );
        changed.store(true, Ordering::Relaxed);
        assert!(fixture.poll_after(MS).is_none());
        assert_eq!(fixture.attempts(), 2, "its group has changed");
        // After a change of a device, the waiting times start again.
        assert!(fixture.poll_after(99 * MS).is_none());
        assert_eq!(fixture.attempts(), 2);
        assert!(fixture.poll_after(MS).is_none());
        assert!(fixture.poll_after(200 * MS).is_some());
    }

    #[test]
    fn missing_watch_leaves_the_attempts() {
        let mut fixture = Fixture::new(2);
        fixture.reconnect.watch_by(|_| Err(Errno::MFILE.into()));
        fixture.lose();
        assert!(fixture.poll_after(100 * MS).is_none());
        assert!(fixture.poll_after(200 * MS).is_some());
    }

    #[test]
    fn attempt_that_panics_counts_as_failed() {
        let clock = SystemClock::start();
        let mut reconnect = Reconnect::new(Counted(Arc::default()), clock);
        reconnect.open_by(|| panic!("on purpose"));
        reconnect.lose(EIO, Instant::ZERO);
        let wake = Arc::default();
        let due = Instant::ZERO + FIRST_BACKOFF;
        assert!(reconnect.poll(due, &wake).is_none());
        clock.wait(&wake, 0, None);
        assert!(reconnect.poll(due, &wake).is_none());
        assert_eq!(
            reconnect.next_poll(due),
            Some(due + 2 * FIRST_BACKOFF),
            "the next attempt"
        );
    }
}
