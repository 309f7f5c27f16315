//! The main loop of a sweep. It handles the workers (one thread for each HCA port), the outputs
//! and the signals, and reports lost records at the end.
//!
//! After a signal the workers close their slot, and the outputs write the waiting records. The
//! drain time limits both; it begins at the signal, and a second signal ends it. Records that are
//! not written by then are counted and reported, and the exit code is 4.

use std::sync::Arc;
use std::time::Duration;

use ibnet::cli::{self, Progress};
use ibnet::mad::transport::Transport;
use ibnet::output::{End, Finished, Kind, Running, Writer};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep_until, timeout};

use super::failure::Failure;
use super::supervisor::{NewWorker, Reload, Supervisor};

/// Time between two checks of the files. They are polled, because inotify does not report changes
/// on network file systems.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Min time that the workers get to close their slot, even if the drain time is shorter. Workers
/// need 0.3 s, and more on a busy host.
const CLOSE_SLOT: Duration = Duration::from_secs(4);

/// The tokio runtime, and the signals that stop the sweep.
pub(super) struct Service {
    runtime: Runtime,
    signals: cli::Signals,
}

/// Why the main loop ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// All workers have ended by themselves.
    Ended,
    /// The reader of the only output has closed its pipe.
    ReaderGone,
    /// SIGINT or SIGTERM.
    Signal,
}

impl Service {
    /// Starts to catch signals. This must be called before the first record is written, because a
    /// reader of the records may send a signal as soon as it has one.
    pub(super) fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::Threads)?;
        let signals = runtime
            .block_on(async { cli::Signals::new() })
            .map_err(Failure::Threads)?;
        Ok(Self { runtime, signals })
    }

    /// Runs the workers and the outputs on their own threads. Returns after all workers have
    /// ended, after a signal, or after the reader of the only output has closed its pipe. If one
    /// worker fails, all others end too.
    ///
    /// # Errors
    /// Returns the first failure of a worker, or else the number of records that were not written
    /// to a file, to standard output or to NATS.
    pub(super) fn run<T: Transport + Send + 'static>(
        mut self,
        workers: Vec<NewWorker<T>>,
        writers: Vec<Writer>,
        bar: &Progress,
        reload: Option<Reload<T>>,
        drain: Duration,
    ) -> Result<(), Failure> {
        let outputs = Outputs::start(writers)?;
        // Without reloads, SIGHUP ends the program, as it does by default.
        let hangups = || {
            if reload.is_some() {
                cli::Hangups::new()
            } else {
                Ok(cli::Hangups::none())
            }
        };
        let mut hangups = self
            .runtime
            .block_on(async { hangups() })
            .map_err(Failure::Threads)?;
        let (events, mut received) = unbounded_channel();
        let (loads, mut loaded) = unbounded_channel();
        let mut supervisor = Supervisor::new(events, loads, bar.clone(), reload);
        workers
            .into_iter()
            .try_for_each(|worker| supervisor.start(worker))?;
        self.runtime.block_on(async {
            let mut look = Instant::now() + LOOK_EVERY;
            let stop = loop {
                if supervisor.has_ended() {
                    break Stop::Ended;
                }
                tokio::select! {
                    Some(event) = received.recv() => supervisor.handle(event),
                    Some(event) = loaded.recv() => supervisor.handle_load(event),
                    () = outputs.reader_gone.notified() => {
                        tracing::debug!("reader of standard output closed the pipe");
                        break Stop::ReaderGone;
                    }
                    signal = self.signals.next() => {
                        tracing::info!(signal, "stopping");
                        break Stop::Signal;
                    }
                    () = hangups.next() => supervisor.reload("SIGHUP"),
                    () = sleep_until(look) => {
                        supervisor.check_files();
                        look = Instant::now() + LOOK_EVERY;
                    }
                }
            };
            let (end, time_of_workers) = (Instant::now(), drain.max(CLOSE_SLOT));
            if stop != Stop::Ended {
                supervisor.stop();
            }
            let stopped = async {
                while !supervisor.has_ended()
                    && let Some(event) = received.recv().await
                {
                    supervisor.handle(event);
                }
            };
            // The branches are polled in order. If no worker is left, a signal is therefore handled
            // later, as one for the outputs.
            let again = tokio::select! {
                biased;
                _ = timeout(time_of_workers, stopped) => false,
                signal = self.signals.next() => {
                    tracing::warn!(signal, "a second signal arrived; ending without the results of the running slot");
                    true
                }
            };
            let closed = closed(stop, again, supervisor.has_ended(), time_of_workers);
            let result = supervisor.finish();
            let finished = if again {
                outputs.finish().await
            } else {
                outputs.drain(stop, end, drain, &mut self.signals).await
            };
            let written = report(finished);
            // Only one error can be returned, so the other one is logged.
            match (result.and(closed), written) {
                (Err(failure), Err(other)) => {
                    tracing::error!(error = %other, "cannot write all records");
                    Err(failure)
                }
                (result, written) => result.and(written),
            }
        })
    }
}

/// The running outputs.
struct Outputs {
    running: Running,
    /// Notified when the reader of the only output has closed its pipe.
    reader_gone: Arc<Notify>,
    /// Notified when the thread of an output has ended.
    ended: Arc<Notify>,
}

/// Wakes a waiter when it is dropped.
#[derive(Clone)]
struct WakeOnDrop(Arc<Notify>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Outputs {
    fn start(writers: Vec<Writer>) -> Result<Self, Failure> {
        let (reader_gone, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        // If there are other outputs, the sweep continues when one has ended.
        let is_only = writers.len() == 1;
        let on_end = {
            // Each thread drops its clone after it has stored its result, even after a panic.
            let (reader_gone, wake) = (Arc::clone(&reader_gone), WakeOnDrop(Arc::clone(&ended)));
            move |finished: &Finished| {
                let _ = &wake;
                if finished.end == End::ReaderGone && is_only {
                    reader_gone.notify_one();
                }
            }
        };
        let running = Running::start(writers, on_end).map_err(Failure::Threads)?;
        Ok(Self {
            running,
            reader_gone,
            ended,
        })
    }

    /// Waits until all outputs have written their records, and returns their results.
    ///
    /// After a signal the wait ends with the drain time, or at the next signal. At a normal end,
    /// files and standard output have no deadline until a signal comes, whereas sockets and NATS
    /// have the drain time, counted from `end`.
    async fn drain(
        self,
        stop: Stop,
        end: Instant,
        drain: Duration,
        signals: &mut cli::Signals,
    ) -> Vec<Finished> {
        // The deadline of all outputs.
        let mut deadline = (stop != Stop::Ended).then_some(end + drain);
        let mut waits_for_remote = true;
        let mut has_signal = stop == Stop::Signal;
        while !self
            .running
            .has_ended(|kind| waits_for_remote || is_local(kind))
        {
            tokio::select! {
                () = self.ended.notified() => {}
                () = sleep_until(deadline.unwrap_or(end)), if deadline.is_some() => break,
                () = sleep_until(end + drain), if waits_for_remote => {
                    waits_for_remote = false;
                    self.running.abandon(|kind| !is_local(kind));
                }
                signal = signals.next() => {
                    if std::mem::replace(&mut has_signal, true) {
                        tracing::warn!(signal, "another signal arrived; ending, and records that are not yet written are lost");
                        break;
                    }
                    tracing::info!(signal, "stopping");
                    deadline.get_or_insert_with(|| Instant::now() + drain);
                }
            }
        }
        self.finish().await
    }

    /// Ends all outputs and returns their results.
    async fn finish(self) -> Vec<Finished> {
        let running = self.running;
        tokio::task::spawn_blocking(move || running.finish(Duration::ZERO))
            .await
            .unwrap_or_default()
    }
}

/// Returns an error if the workers did not close their slot. If the reader of the only output is
/// gone, this is not an error, because nothing reads the records.
fn closed(stop: Stop, again: bool, has_ended: bool, time: Duration) -> Result<(), Failure> {
    match stop {
        _ if has_ended => Ok(()),
        Stop::Ended | Stop::ReaderGone => Ok(()),
        Stop::Signal if again => Err(Failure::SecondSignal),
        Stop::Signal => Err(Failure::WorkerHangs {
            time: humantime::format_duration(time).to_string(),
        }),
    }
}

/// Returns whether an output has no time limit at a normal end. A slow reader of a pipe is not a
/// fault, but a disconnected server or socket reader may never come back.
fn is_local(kind: Kind) -> bool {
    matches!(kind, Kind::Stdout | Kind::File)
}

/// Logs the outputs that lost records. Returns an error if an output is among them that must not
/// lose records.
fn report(finished: Vec<Finished>) -> Result<(), Failure> {
    let has_lost = |finished: &&Finished| finished.dropped > 0 && finished.end != End::ReaderGone;
    for Finished {
        name,
        kind,
        dropped,
        error,
        ..
    } in finished.iter().filter(has_lost)
    {
        tracing::warn!(output = ?name, %kind, dropped, error, "the output did not accept all records; the dropped ones are lost");
    }
    let failed: Vec<_> = finished
        .iter()
        .filter(|finished| finished.is_failure())
        .collect();
    if failed.iter().any(|finished| finished.end == End::Crashed) {
        return Err(Failure::Crashed);
    }
    if failed.is_empty() {
        return Ok(());
    }
    let shown = |finished: &&Finished| match &finished.error {
        Some(error) => format!("{} (last error: {error})", finished.name),
        None => finished.name.clone(),
    };
    let names = failed.iter().map(shown).collect::<Vec<_>>().join(", ");
    Err(Failure::Dropped {
        dropped: failed.iter().map(|finished| finished.dropped).sum(),
        names,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_slot_is_an_error_with_its_own_cause_after_a_signal_only() {
        let closed =
            |stop, again, has_ended| closed(stop, again, has_ended, Duration::from_secs(4));
        assert!(matches!(
            closed(Stop::Signal, true, false),
            Err(Failure::SecondSignal)
        ));
        assert!(
            matches!(closed(Stop::Signal, false, false), Err(Failure::WorkerHangs { time }) if time == "4s")
        );
        assert!(
            [false, true]
                .into_iter()
                .all(|again| closed(Stop::ReaderGone, again, false).is_ok())
        );
        assert!(
            closed(Stop::Signal, true, true).is_ok() && closed(Stop::Ended, false, true).is_ok()
        );
    }
}
