//! A clock for simulated time, which advances only when its driver waits.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::sweep::driver::{BackgroundJob, Clock, Latest, Pacing, Wake, WallTime};
use crate::time::Instant;

/// Virtual time, shared by all clones of the clock.
///
/// Waiting takes no time, because the clock jumps to the end of the wait. Background jobs run
/// immediately, and their results are available after the time that
/// [`set_job_time`](Self::set_job_time) sets.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Monotonic time in nanoseconds.
    now: AtomicU64,
    /// Difference of the wall clock from the monotonic clock in nanoseconds.
    wall_offset: AtomicI64,
    /// Nanoseconds that a job takes.
    job_time: AtomicU64,
    pause: Mutex<Option<Pause>>,
    /// Number of pauses so far in which replies were lost.
    lossy_pauses: AtomicU64,
}

/// A pause of the whole host, in which nothing is sent or read and no timeout is handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Start of the pause. It begins when the clock reaches or passes this instant.
    pub from: Instant,
    /// Length of the pause on the monotonic clock: 0 if this clock stands still during the pause.
    pub time: Duration,
    /// Whether all replies in transit are lost, as on a host that was suspended.
    pub lossy: bool,
}

impl VirtualClock {
    /// Sets the wall clock: its difference from the monotonic clock, in nanoseconds since 1970.
    pub fn set_wall_offset(&self, nanos: i64) {
        self.0.wall_offset.store(nanos, Ordering::Relaxed);
    }

    /// Sets the time that later [jobs](Clock::start) and runs of a [repeated job](Clock::repeat)
    /// take. It is zero at first.
    pub fn set_job_time(&self, time: Duration) {
        self.0.job_time.store(nanos(time), Ordering::Relaxed);
    }

    /// Pauses the host when the clock reaches the start of the pause.
    pub fn pause(&self, pause: Pause) {
        *self.0.pause.lock().unwrap_or_else(PoisonError::into_inner) = Some(pause);
    }

    /// Moves the clock to this instant or, if the host pauses there, to the end of the pause. The
    /// clock never goes back.
    pub fn advance_to(&self, instant: Instant) {
        let mut now = self.now().max(instant);
        let mut pause = self.0.pause.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Pause { from, time, lossy }) = pause.take_if(|pause| pause.from <= now) {
            now = now.max(from + time);
            self.0
                .lossy_pauses
                .fetch_add(u64::from(lossy), Ordering::Relaxed);
        }
        self.0.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn job_time(&self) -> Duration {
        Duration::from_nanos(self.0.job_time.load(Ordering::Relaxed))
    }

    /// Returns the number of pauses so far in which replies were lost.
    pub(super) fn lossy_pauses(&self) -> u64 {
        self.0.lossy_pauses.load(Ordering::Relaxed)
    }
}

impl Clock for VirtualClock {
    const PACING: Pacing = Pacing::VIRTUAL_TIME;

    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.now.load(Ordering::Relaxed))
    }

    fn read_wall(&self) -> WallTime {
        let at = self.now();
        WallTime {
            at,
            unix_ns: at
                .as_nanos()
                .saturating_add_signed(self.0.wall_offset.load(Ordering::Relaxed)),
        }
    }

    fn read_cost(&self, _each: impl FnMut(u64)) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, time: Duration) {
        self.advance_to(self.now() + time);
    }

    /// Jumps to the end of the wait. A wait without an end waits for `wake` in real time, and the
    /// virtual clock stands still.
    fn wait(&self, wake: &Wake, seen: u64, until: Option<Instant>) {
        match until {
            Some(until) if wake.count() == seen => self.advance_to(until),
            Some(_) => {}
            None => wake.wait(seen, None),
        }
    }

    fn start<R: Send + 'static>(
        &self,
        _name: &str,
        _wake: &Arc<Wake>,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> io::Result<BackgroundJob<R>> {
        let (sender, result) = sync_channel(1);
        // This cannot fail: the channel is empty, and its receiver exists.
        let _ = sender.send(job());
        Ok(BackgroundJob::new(result, self.now() + self.job_time()))
    }

    fn repeat<R: Send + 'static>(
        &self,
        _name: &str,
        period: Duration,
        mut job: impl FnMut() -> R + Send + 'static,
    ) -> io::Result<Latest<R>> {
        let clock = self.clone();
        let mut due = self.now() + period;
        let mut running = None;
        Ok(Box::new(move || {
            let now = clock.now();
            if running.is_none() && now >= due {
                running = Some((now + clock.job_time(), job()));
            }
            let (ended, result) = running.take_if(|(ends, _)| now >= *ends)?;
            due = ended + period;
            Some(result)
        }))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::driver::JobState;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pause_begins_where_the_clock_passes_its_start() {
        let clock = VirtualClock::default();
        clock.pause(Pause {
            from: Instant::ZERO + 5 * SECOND,
            time: 10 * SECOND,
            lossy: true,
        });
        clock.sleep(4 * SECOND);
        assert_eq!(
            (clock.now(), clock.lossy_pauses()),
            (Instant::ZERO + 4 * SECOND, 0)
        );
        clock.sleep(2 * SECOND);
        assert_eq!(
            (clock.now(), clock.lossy_pauses()),
            (Instant::ZERO + 15 * SECOND, 1)
        );
        clock.sleep(SECOND);
        assert_eq!(clock.now(), Instant::ZERO + 16 * SECOND, "once only");
    }

    #[test]
    fn wall_clock_can_be_set_while_the_monotonic_clock_goes_on() {
        let clock = VirtualClock::default();
        clock.set_wall_offset(100);
        clock.advance_to(Instant::from_nanos(7));
        assert_eq!(
            clock.read_wall(),
            WallTime {
                at: Instant::from_nanos(7),
                unix_ns: 107
            }
        );
        clock.set_wall_offset(-5);
        assert_eq!(
            (clock.read_wall().unix_ns, clock.now()),
            (2, Instant::from_nanos(7))
        );
    }

    #[test]
    fn wait_ends_early_only_if_it_was_woken() {
        let (clock, wake) = (VirtualClock::default(), Wake::default());
        let until = Instant::ZERO + SECOND;
        wake.raise();
        clock.wait(&wake, 0, Some(until));
        assert_eq!(clock.now(), Instant::ZERO);
        clock.wait(&wake, 1, Some(until));
        assert_eq!(clock.now(), until);
    }

    #[test]
    fn job_ends_after_the_time_of_a_job() {
        let (clock, wake) = (VirtualClock::default(), Arc::new(Wake::default()));
        clock.set_job_time(SECOND);
        let mut job = clock
            .start("job", &wake, || 7)
            .expect("no thread is needed");
        assert!(matches!(job.poll(clock.now()), JobState::Running));
        clock.sleep(SECOND);
        assert!(matches!(job.poll(clock.now()), JobState::Done(7)));
    }

    #[test]
    fn repeated_job_runs_once_a_period() {
        let clock = VirtualClock::default();
        let mut count = 0;
        let mut latest = clock
            .repeat("job", SECOND, move || {
                count += 1;
                count
            })
            .expect("no thread is needed");
        let results: Vec<_> = (0..8)
            .map(|_| (clock.sleep(SECOND / 2), latest()).1)
            .collect();
        assert_eq!(
            results,
            [None, Some(1), None, Some(2), None, Some(3), None, Some(4)]
        );
        clock.set_job_time(SECOND);
        let results: Vec<_> = (0..8)
            .map(|_| (clock.sleep(SECOND / 2), latest()).1)
            .collect();
        assert_eq!(
            results,
            [None, None, None, Some(5), None, None, None, Some(6)]
        );
    }
}
