//! The time of a driver. A driver gets its time through the trait [`Clock`]; [`SystemClock`] is
//! the only part of the library that reads the clocks of the operating system.
//!
//! The programs use [`SystemClock`]. Tests use
//! [`VirtualClock`](crate::sweep::virtual_sweep::VirtualClock), where waiting takes no time. A
//! clock also runs the work beside the thread of the driver, such as opening a transport or
//! reading the LID of the port: in simulated time this work must end at a defined time, so that
//! two runs give the same result.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant as SystemInstant, SystemTime, UNIX_EPOCH};

use super::wake::Wake;
use crate::time::Instant;

/// Source of time for a driver.
pub trait Clock: Clone {
    /// Limits for the loop of the driver. They decide when the loop switches between sending MADs,
    /// reading replies and handling timeouts.
    const PACING: Pacing;

    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Reads the wall clock and the monotonic clock at the same instant.
    fn read_wall(&self) -> WallTime;

    /// Measures the timer cost: the shortest time that a call of [`now`](Self::now) takes. `each`
    /// gets the time that each measured call took, in nanoseconds.
    fn read_cost(&self, each: impl FnMut(u64)) -> Duration;

    /// Waits for this duration.
    fn sleep(&self, time: Duration);

    /// Waits until `until`, or without a limit if it is `None`. Returns early if `wake` has been
    /// raised more than `seen` times.
    fn wait(&self, wake: &Wake, seen: u64, until: Option<Instant>);

    /// Runs `job` without blocking the caller, and raises `wake` when the job has ended.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    fn start<R: Send + 'static>(
        &self,
        name: &str,
        wake: &Arc<Wake>,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<BackgroundJob<R>>;

    /// Runs `job` once in every `period` without blocking the caller, until the result is dropped.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    fn repeat<R: Send + 'static>(
        &self,
        name: &str,
        period: Duration,
        job: impl FnMut() -> R + Send + 'static,
    ) -> io::Result<Latest<R>>;
}

/// Limits for the loop of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pacing {
    /// Number of MADs that are sent in a row before replies are read.
    pub sends: u32,
    /// Number of replies that are read in a row before MADs are sent again.
    pub replies: u32,
    /// Number of replies that are read before timeouts are handled. Between these replies, MADs
    /// are sent.
    pub replies_before_timeouts: u32,
    /// Max wait for a reply. During this time, the driver checks only the transport.
    pub longest_wait: Duration,
}

impl Pacing {
    /// Sending and reading alternate. A reply is therefore read before a whole window is sent, and
    /// a free place in the window is used before all replies are read.
    pub const REAL_TIME: Self = Self {
        sends: 8,
        replies: 1,
        replies_before_timeouts: 64,
        longest_wait: Duration::from_millis(20),
    };

    /// In virtual time, no time passes between sending and reading, so there are no limits.
    pub const VIRTUAL_TIME: Self = Self {
        sends: u32::MAX,
        replies: u32::MAX,
        replies_before_timeouts: u32::MAX,
        longest_wait: Duration::MAX,
    };
}

/// A reading of the wall clock, with the monotonic time of the reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WallTime {
    /// Monotonic time of the reading.
    pub at: Instant,
    /// Wall clock in nanoseconds since 1970.
    pub unix_ns: u64,
}

impl WallTime {
    /// Converts a monotonic instant to nanoseconds since 1970, relative to this reading.
    pub fn of(&self, instant: Instant) -> u64 {
        match instant.as_nanos().checked_sub(self.at.as_nanos()) {
            Some(after) => self.unix_ns.saturating_add(after),
            None => self
                .unix_ns
                .saturating_sub(self.at.as_nanos() - instant.as_nanos()),
        }
    }
}

/// Handle to work that was started by [`Clock::start`].
#[derive(Debug)]
pub struct BackgroundJob<R> {
    result: Receiver<R>,
    /// Earliest instant at which the result is returned.
    ready_at: Instant,
}

/// State of a [`BackgroundJob`].
#[derive(Debug)]
pub enum JobState<R> {
    /// The job still runs.
    Running,
    /// The job has ended with this result.
    Done(R),
    /// The job has panicked.
    Panicked,
}

impl<R> BackgroundJob<R> {
    /// Creates the handle of a job. The result arrives through `result` and is not returned before
    /// `ready_at`.
    pub(crate) fn new(result: Receiver<R>, ready_at: Instant) -> Self {
        Self { result, ready_at }
    }

    /// Returns the earliest instant at which the result can be available.
    pub fn ready_at(&self) -> Instant {
        self.ready_at
    }

    /// Returns the state of the job without waiting.
    pub fn poll(&mut self, now: Instant) -> JobState<R> {
        if now < self.ready_at {
            return JobState::Running;
        }
        match self.result.try_recv() {
            Ok(result) => JobState::Done(result),
            Err(TryRecvError::Empty) => JobState::Running,
            Err(TryRecvError::Disconnected) => JobState::Panicked,
        }
    }
}

/// Function that returns the newest result of a repeated job. It returns each result only once and
/// never blocks. Dropping the function ends the job.
pub type Latest<R> = Box<dyn FnMut() -> Option<R> + Send>;

/// The clocks of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    zero: SystemInstant,
}

/// Max number of readings of both clocks until two readings are close together.
const READINGS: u32 = 5;

/// Two readings of both clocks that are at most this far apart count as one instant.
const CLOSE_READINGS: Duration = Duration::from_micros(20);

/// Number of tries to read the clock without an interruption. Together they take about 30 us.
const TRIES_FOR_COST: u32 = 100;

/// Number of readings in a row in each try. It gives a mean in nanoseconds even if the clock has
/// ticks of some tens of nanoseconds.
const READINGS_IN_A_TRY: usize = 10;

/// Returns the timer cost: the mean time of a reading in the shortest of several tries. A longer
/// try was interrupted or waited for memory. `each` gets the time of each reading in nanoseconds.
fn least_cost(now: impl Fn() -> Instant, mut each: impl FnMut(u64)) -> Duration {
    let one_try = |_| {
        let mut times = [Instant::ZERO; READINGS_IN_A_TRY + 1];
        times.fill_with(&now);
        times
            .windows(2)
            .for_each(|pair| each(pair[1].as_nanos().saturating_sub(pair[0].as_nanos())));
        times[READINGS_IN_A_TRY] - times[0]
    };
    let shortest = (0..TRIES_FOR_COST).map(one_try).min().unwrap_or_default();
    shortest / READINGS_IN_A_TRY as u32
}

impl SystemClock {
    /// Returns the clock of this process. Its zero is the first call in the process, so drivers
    /// that replace each other, and a simulated fabric that they share, have the same zero.
    #[expect(clippy::disallowed_methods, reason = "clocks are read here")]
    pub fn start() -> Self {
        static ZERO: OnceLock<SystemInstant> = OnceLock::new();
        Self {
            zero: *ZERO.get_or_init(SystemInstant::now),
        }
    }
}

impl Clock for SystemClock {
    const PACING: Pacing = Pacing::REAL_TIME;

    #[expect(clippy::disallowed_methods, reason = "clocks are read here")]
    fn now(&self) -> Instant {
        let elapsed = SystemInstant::now().saturating_duration_since(self.zero);
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "clocks are read here")]
    fn read_wall(&self) -> WallTime {
        let mut reading = WallTime::default();
        // If the thread is interrupted between the readings, both clocks are read again.
        for _ in 0..READINGS {
            let before = self.now();
            let since_1970 = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            reading = WallTime {
                at: self.now(),
                unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
            };
            if reading.at - before < CLOSE_READINGS {
                break;
            }
        }
        reading
    }

    fn read_cost(&self, each: impl FnMut(u64)) -> Duration {
        least_cost(|| self.now(), each)
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }

    fn wait(&self, wake: &Wake, seen: u64, until: Option<Instant>) {
        wake.wait(seen, until.map(|until| until - self.now()));
    }

    fn start<R: Send + 'static>(
        &self,
        name: &str,
        wake: &Arc<Wake>,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<BackgroundJob<R>> {
        let (sender, result) = sync_channel(1);
        let wake = RaiseOnDrop(Arc::clone(wake));
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // `_wake` is dropped after the sender, even in a panic, so a driver that wakes
                // finds either the result or a closed channel.
                let _wake = wake;
                let sender = sender;
                // Sending fails only if the driver has ended.
                let _ = sender.send(job());
            })?;
        Ok(BackgroundJob::new(result, Instant::ZERO))
    }

    fn repeat<R: Send + 'static>(
        &self,
        name: &str,
        period: Duration,
        mut job: impl FnMut() -> R + Send + 'static,
    ) -> io::Result<Latest<R>> {
        let mailbox = Arc::new(Mailbox::default());
        let shared = Arc::clone(&mailbox);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while shared.wait(period) {
                    let result = job();
                    shared.lock().latest = Some(result);
                }
            })?;
        let reader = Reader(mailbox);
        Ok(Box::new(move || match reader.0.state.try_lock() {
            Ok(mut state) => state.latest.take(),
            Err(TryLockError::Poisoned(state)) => state.into_inner().latest.take(),
            Err(TryLockError::WouldBlock) => None,
        }))
    }
}

/// Raises a [`Wake`] when a thread ends, even by a panic.
struct RaiseOnDrop(Arc<Wake>);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// State shared by the thread of a repeated job and its reader.
struct Mailbox<R> {
    state: Mutex<MailboxState<R>>,
    changed: Condvar,
}

struct MailboxState<R> {
    latest: Option<R>,
    has_ended: bool,
}

impl<R> Default for Mailbox<R> {
    fn default() -> Self {
        Self {
            state: Mutex::new(MailboxState {
                latest: None,
                has_ended: false,
            }),
            changed: Condvar::new(),
        }
    }
}

impl<R> Mailbox<R> {
    fn lock(&self) -> MutexGuard<'_, MailboxState<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this duration. Returns false as soon as the reader is dropped.
    fn wait(&self, time: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), time, |state| !state.has_ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.has_ended
    }
}

/// Ends the thread when it is dropped.
struct Reader<R>(Arc<Mailbox<R>>);

impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    use super::*;

    /// Time after which a hanging test fails.
    const LIMIT: Duration = Duration::from_secs(600);

    #[test]
    fn wall_time_converts_instants_before_and_after_the_reading() {
        let reading = WallTime {
            at: Instant::from_nanos(100),
            unix_ns: 1_000,
        };
        assert_eq!(
            [70, 100, 130].map(|nanos| reading.of(Instant::from_nanos(nanos))),
            [970, 1_000, 1_030]
        );
    }

    #[test]
    fn timer_cost_is_that_of_the_readings_without_interruption() {
        let (time, readings) = (Cell::new(0_u64), Cell::new(0_u64));
        let read = |interrupted_every: u64, tick: u64| {
            move |time: &Cell<u64>, readings: &Cell<u64>| {
                readings.set(readings.get() + 1);
                let is_interrupted = readings.get().is_multiple_of(interrupted_every);
                time.set(time.get() + 25 + if is_interrupted { 1_000_000 } else { 0 });
                Instant::from_nanos(time.get() / tick * tick)
            }
        };
        let (fine, coarse) = (read(37, 1), read(37, 40));
        let mut each = Vec::new();
        assert_eq!(
            least_cost(|| fine(&time, &readings), |ns| each.push(ns)),
            Duration::from_nanos(25),
            "interruptions do not count"
        );
        let interrupted = each.iter().filter(|ns| **ns == 1_000_025).count();
        let others = each.iter().filter(|ns| **ns == 25).count();
        assert_eq!((each.len(), interrupted + others), (1_000, 1_000));
        assert!((25..=30).contains(&interrupted), "{interrupted}: one of 37");
        let cost = least_cost(|| coarse(&time, &readings), |_| {}).as_nanos();
        assert!(
            (20..=30).contains(&cost),
            "{cost}: a clock with ticks of 40 ns"
        );
    }

    #[test]
    fn job_that_blocks_does_not_block_its_driver() {
        let (clock, wake) = (SystemClock::start(), Arc::new(Wake::default()));
        let (release, blocked) = channel::<()>();
        let (begun, has_begun) = channel();
        let mut job = clock
            .start("job", &wake, move || {
                begun.send(()).expect("the test waits");
                blocked.recv_timeout(LIMIT)
            })
            .expect("a thread");
        has_begun.recv_timeout(LIMIT).expect("the job runs");
        assert!(matches!(job.poll(clock.now()), JobState::Running));
        let seen = wake.count();
        release.send(()).expect("the job waits");
        clock.wait(&wake, seen, Some(clock.now() + LIMIT));
        assert!(matches!(job.poll(clock.now()), JobState::Done(Ok(()))));
    }

    #[test]
    fn panic_of_a_job_is_reported_and_wakes_the_driver() {
        let (clock, wake) = (SystemClock::start(), Arc::new(Wake::default()));
        let mut job = clock
            .start("job", &wake, || panic!("on purpose"))
            .expect("a thread");
        clock.wait(&wake, 0, Some(clock.now() + LIMIT));
        let progress: JobState<()> = job.poll(clock.now());
        assert!(matches!(progress, JobState::Panicked));
    }

    #[test]
    fn repeated_job_ends_with_its_reader() {
        let (results, ended) = channel::<()>();
        let (begun, has_begun) = channel();
        let mut latest = SystemClock::start()
            .repeat("job", Duration::from_millis(1), move || {
                let _kept_until_the_thread_ends = &results;
                let _ = begun.send(());
                7
            })
            .expect("a thread");
        has_begun.recv_timeout(LIMIT).expect("the job runs");
        // A second run has begun, so the result of the first run is available.
        has_begun.recv_timeout(LIMIT).expect("the job runs again");
        let found = (0..).find_map(|_| latest()).expect("endless");
        assert_eq!(found, 7);
        drop(latest);
        assert!(
            ended
                .recv_timeout(LIMIT)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
