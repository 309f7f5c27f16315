//! Threads, and the signals that end them: one thread for the MADs of each lane, one for the lines of all; signals are waited for here.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet::cli::{self, Progress};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::metrics::Lane;
use ibnet::sink::{Ended, Writer};
use ibnet::sweep::driver::{Control, Driver, SlotReport};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

use super::Failure;

/// After a stop the threads have this long to end; then the program ends without them.
const STOP_BUDGET: Duration = Duration::from_millis(900);

/// After a stop the process has this long to end, its exit handlers included.
#[cfg(feature = "umad")]
const LAST_RESORT: Duration = Duration::from_millis(980);

/// A driver that is to run, the CPU that it keeps to, and where its slots are shown.
pub(super) struct Job<T> {
    pub(super) driver: Driver<T>,
    pub(super) cpu: Option<usize>,
    pub(super) metrics: Option<Lane>,
}

/// Threads, and the signals that end them.
pub(super) struct Service {
    runtime: Runtime,
    signals: cli::Signals,
}

impl Service {
    /// Signals are waited for from now on: before the first line is written, as who reads it may send one at once.
    pub(super) fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        let signals = runtime.block_on(async { cli::Signals::new() }).map_err(Failure::Runtime)?;
        Ok(Self { runtime, signals })
    }

    /// Runs drivers and writer on threads of their own, until all have ended; or until a signal comes, or nobody reads the output any more, and
    /// then for [`STOP_BUDGET`] at most: a sender may stand still inside a write, and so may the writer. A driver that fails ends the others.
    pub(super) fn run<T: Transport + Send + 'static>(
        mut self,
        jobs: Vec<Job<T>>,
        writer: Option<Writer>,
        bar: &Progress,
    ) -> Result<(), Failure> {
        let (control, reader_gone) = (Arc::new(Control::default()), Arc::new(Notify::new()));
        let (written, writer_done) = oneshot::channel();
        let for_writer = Arc::clone(&reader_gone);
        spawn("writer".to_owned(), move || {
            let ended = writer.map_or(Ended::Complete, Writer::run);
            if ended == Ended::ReaderGone {
                for_writer.notify_one();
            }
            let _ = written.send(ended);
        })?;
        let running: Vec<_> = jobs.into_iter().enumerate().map(|(lane, job)| job.start(lane, &control, bar)).collect::<Result<_, _>>()?;
        self.runtime.block_on(async {
            let all = async {
                let mut result = Ok(());
                for driven in running {
                    result = result.and(driven.await.map_err(|_| Failure::Crashed).flatten());
                }
                bar.finish();
                // The drivers' outlets are gone with them: the writer writes what is left, and ends.
                match writer_done.await.map_err(|_| Failure::Crashed)? {
                    Ended::Untold { lines } => result.and(Err(Failure::Unwritten { lines })),
                    Ended::Complete | Ended::ReaderGone => result,
                }
            };
            tokio::pin!(all);
            tokio::select! {
                result = &mut all => return result,
                () = reader_gone.notified() => tracing::debug!("nobody reads standard output any more"),
                signal = self.signals.next() => tracing::info!(signal, "stopping"),
            }
            control.stop();
            #[cfg(feature = "umad")]
            spawn("last-resort".to_owned(), || {
                // The exit handlers of what stands in for the kernel may wait for ever.
                thread::sleep(LAST_RESORT);
                ibnet::mad::transport::umad::end_process(0);
            })?;
            tokio::time::timeout(STOP_BUDGET, all).await.unwrap_or_else(|_| {
                tracing::warn!("the sender or the output stands still; ending without what is left");
                Ok(())
            })
        })
    }
}

impl<T: Transport + Send + 'static> Job<T> {
    /// Starts it on a thread of its own; how it ended comes through what is returned.
    fn start(mut self, lane: usize, control: &Arc<Control>, bar: &Progress) -> Result<oneshot::Receiver<Result<(), Failure>>, Failure> {
        let (driven, done) = oneshot::channel();
        let (control, bar) = (Arc::clone(control), bar.clone());
        spawn(format!("mads-{lane}"), move || {
            let pinned = self.cpu.map_or(Ok(()), |cpu| pin(cpu).map_err(|source| Failure::Pin { cpu, source }));
            let watch = |report: SlotReport<'_>| {
                if let Some(lane) = &mut self.metrics {
                    lane.publish(report);
                }
                bar.advance();
            };
            let sweep = || self.driver.run(&control, watch).map_err(|error: TransportError| Failure::Lost(error));
            let result = pinned.and_then(|()| sweep());
            if result.is_err() {
                control.stop();
            }
            let _ = driven.send(result);
        })?;
        Ok(done)
    }
}

/// Keeps this thread on a CPU.
fn pin(cpu: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &only)?)
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new().name(name).spawn(work).map(|_| ()).map_err(Failure::Runtime)
}
