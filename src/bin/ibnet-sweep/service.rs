//! Threads, and who looks after them: one thread for the MADs of each lane, one for each place where lines go. Signals, changed files and the service manager are
//! minded here.
//!
//! A reload makes new drivers beside the old ones. While those still sweep, the new ones ask their devices who they are; then all change at one border
//! between slots, so that none is lost or run twice. A lane of which nothing changed goes on as it is, with the readings that rates need.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet::cli::{self, Progress};
use ibnet::mad::transport::Transport;
use ibnet::metrics::{Lane, Metrics};
use ibnet::sink::{Ended, Hurry, Outlet, Writer};
use ibnet::sweep::driver::{Control, Driver, Notice, SlotReport};
use ibnet::sweep::schedule::Schedule;
use ibnet::types::Printable;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use super::reload::{Identity, Prepare, Setup, Watch};
use super::systemd::Manager;
use super::{Failure, Flags};

/// After a stop the threads have this long to end; then the program ends without them.
const STOP_BUDGET: Duration = Duration::from_millis(900);

/// After a stop the process has this long to end, its exit handlers included.
#[cfg(feature = "umad")]
const LAST_RESORT: Duration = Duration::from_millis(980);

/// Between two looks at files that may have changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Between two looks at drivers that prepare themselves to take over.
const PREPARED_EVERY: Duration = Duration::from_millis(20);

/// Drivers change at a border at least so far ahead, so that all see it in time.
const AHEAD: u64 = 50_000_000;

/// Octets of an event's detail.
const LONGEST_DETAIL: usize = 512;

/// A driver that is to run, which lane it is, and where its slots are shown.
pub(super) struct Job<T> {
    pub(super) driver: Driver<T>,
    pub(super) lane: Identity,
    pub(super) metrics: Option<Lane>,
}

/// What a reload needs.
pub(super) struct Reload<T> {
    pub(super) flags: Flags,
    pub(super) setup: Setup,
    pub(super) prepare: Prepare<T>,
    pub(super) outlet: Outlet,
    pub(super) watch: Watch,
    pub(super) metrics: Option<Arc<Metrics>>,
}

/// Threads, and the signals that end them.
pub(super) struct Service {
    runtime: Runtime,
    signals: cli::Signals,
}

/// What a driver's thread says.
enum Said {
    Slot { lane: u64 },
    Ended { lane: u64, result: Result<(), Failure> },
}

/// A driver on its thread.
struct Running {
    lane: u64,
    identity: Identity,
    control: Arc<Control>,
    /// Slots that it ended.
    slots: u64,
    /// Whether it ended one since the service manager was told.
    beat: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Sweeping,
    /// It sweeps until those that come are ready.
    Replaced,
    /// It takes over when all of those that come are ready.
    Coming,
    /// It was told when to end.
    Leaving,
}

impl Service {
    /// Signals are waited for from now on: before the first line is written, as who reads it may send one at once.
    pub(super) fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        let signals = runtime.block_on(async { cli::Signals::new() }).map_err(Failure::Runtime)?;
        Ok(Self { runtime, signals })
    }

    /// Runs drivers and writers on threads of their own, until all have ended; or until a signal comes, or nobody reads the only output any more, and
    /// then for [`STOP_BUDGET`] at most: a sender may stand still inside a write, and so may a writer. A driver that fails ends the others.
    pub(super) fn run<T: Transport + Send + 'static>(
        mut self,
        jobs: Vec<Job<T>>,
        writers: Vec<Writer>,
        bar: &Progress,
        reload: Option<Reload<T>>,
    ) -> Result<(), Failure> {
        let reader_gone = Arc::new(Notify::new());
        let (written, mut written_all) = unbounded_channel();
        // If somebody reads the others, the sweep goes on.
        let mut to_end = writers.len();
        let is_only = to_end == 1;
        let hurries: Vec<_> = writers.iter().map(Writer::hurry).collect();
        for (number, writer) in writers.into_iter().enumerate() {
            let (written, reader_gone) = (written.clone(), Arc::clone(&reader_gone));
            spawn(format!("writer-{number}"), move || {
                let ended = writer.run();
                if ended == Ended::ReaderGone && is_only {
                    reader_gone.notify_one();
                }
                let _ = written.send(ended);
            })?;
        }
        drop(written);
        // What ends by itself ends by this signal, too.
        let hangups = || if reload.is_some() { cli::Hangups::new() } else { Ok(cli::Hangups::none()) };
        let mut hangups = self.runtime.block_on(async { hangups() }).map_err(Failure::Runtime)?;
        let (told, mut said) = unbounded_channel();
        let mut crew = Crew {
            running: Vec::new(),
            next: 0,
            told,
            bar: bar.clone(),
            result: Ok(()),
            manager: Manager::new(),
            reload,
            detail: String::new(),
        };
        jobs.into_iter().try_for_each(|job| crew.start(job, Control::default(), Phase::Sweeping))?;
        self.runtime.block_on(async {
            let mut look = Instant::now() + LOOK_EVERY;
            while !crew.running.is_empty() {
                tokio::select! {
                    Some(said) = said.recv() => crew.hear(said),
                    () = reader_gone.notified() => {
                        tracing::debug!("nobody reads standard output any more");
                        break;
                    }
                    signal = self.signals.next() => {
                        tracing::info!(signal, "stopping");
                        break;
                    }
                    () = hangups.next() => crew.reload("SIGHUP"),
                    () = tokio::time::sleep_until(look) => {
                        crew.look();
                        look = Instant::now() + LOOK_EVERY;
                    }
                }
                if crew.is_changing() {
                    look = look.min(Instant::now() + PREPARED_EVERY);
                }
            }
            let stopping = !crew.running.is_empty();
            if stopping {
                crew.stop();
            }
            let rest = async {
                let result = crew.end(said).await;
                // The outlets are gone with the crew: the writers write what is left, and end.
                let mut lines = 0;
                while let Some(ended) = written_all.recv().await {
                    to_end -= 1;
                    lines += if let Ended::Untold { lines } = ended { lines } else { 0 };
                }
                match lines {
                    _ if to_end > 0 => Err(Failure::Crashed),
                    0 => result,
                    _ => result.and(Err(Failure::Unwritten { lines })),
                }
            };
            tokio::pin!(rest);
            if !stopping {
                tokio::select! {
                    result = &mut rest => return result,
                    signal = self.signals.next() => tracing::info!(signal, "stopping"),
                }
            }
            hurries.iter().for_each(Hurry::hurry);
            #[cfg(feature = "umad")]
            spawn("last-resort".to_owned(), || {
                // The exit handlers of what stands in for the kernel may wait for ever.
                thread::sleep(LAST_RESORT);
                ibnet::mad::transport::umad::end_process(0);
            })?;
            tokio::time::timeout(STOP_BUDGET, rest).await.unwrap_or_else(|_| {
                tracing::warn!("the sender or the output stands still; ending without what is left");
                Ok(())
            })
        })
    }
}

/// All drivers that run, and what is to be known to make others.
struct Crew<T> {
    running: Vec<Running>,
    /// The number of the next thread.
    next: u64,
    told: UnboundedSender<Said>,
    bar: Progress,
    /// The first failure.
    result: Result<(), Failure>,
    manager: Manager,
    reload: Option<Reload<T>>,
    /// What is to be told of the reload that is under way.
    detail: String,
}

impl<T: Transport + Send + 'static> Crew<T> {
    /// Starts a driver on a thread of its own.
    fn start(&mut self, Job { driver, lane: identity, mut metrics }: Job<T>, control: Control, phase: Phase) -> Result<(), Failure> {
        let (lane, control) = (self.next, Arc::new(control));
        self.next += 1;
        self.manager.expect_slots_every(identity.settings().interval);
        let (cpu, bar, told, steered) = (identity.cpu(), self.bar.clone(), self.told.clone(), Arc::clone(&control));
        spawn(format!("mads-{lane}"), move || {
            let mut ending = Ending { lane, told: told.clone(), result: Err(Failure::Crashed) };
            let pinned = cpu.map_or(Ok(()), |cpu| pin(cpu).map_err(|source| Failure::Pin { cpu, source }));
            let watch = |report: SlotReport<'_>| {
                if let Some(metrics) = &mut metrics {
                    metrics.publish(report);
                }
                bar.advance();
                let _ = told.send(Said::Slot { lane });
            };
            ending.result = pinned.and_then(|()| driver.run(&steered, watch).map_err(Failure::Lost));
        })?;
        self.running.push(Running { lane, identity, control, slots: 0, beat: false, phase });
        Ok(())
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Slot { lane } => {
                let of_lane = |running: &&mut Running| running.lane == lane;
                if let Some(running) = self.running.iter_mut().find(of_lane) {
                    (running.slots, running.beat) = (running.slots + 1, true);
                }
            }
            Said::Ended { lane, result } => self.bury(lane, result),
        }
        let sweeps = |running: &&Running| matches!(running.phase, Phase::Sweeping | Phase::Replaced);
        if self.running.iter().filter(sweeps).all(|running| running.beat) {
            self.running.iter_mut().for_each(|running| running.beat = false);
            self.manager.beat();
        }
        self.greet();
    }

    fn status(&self) -> String {
        let ports: u32 = self.running.iter().map(|running| running.identity.ports()).sum();
        format!("{ports} ports in each slot, by {} HCA port{}", self.running.len(), if self.running.len() == 1 { "" } else { "s" })
    }

    /// Takes note that a driver ended. One that fails ends the others, unless it was still to take over from them.
    fn bury(&mut self, lane: u64, result: Result<(), Failure>) {
        let Some(place) = self.running.iter().position(|running| running.lane == lane) else { return };
        let gone = self.running.remove(place);
        match result {
            Ok(()) => {}
            Err(failure) if gone.phase == Phase::Coming => self.refuse(&failure),
            Err(failure) => {
                self.running.iter().for_each(|running| running.control.stop());
                self.result = std::mem::replace(&mut self.result, Ok(())).and(Err(failure));
            }
        }
    }

    /// Looks whether files changed, or those that are to take over are ready.
    fn look(&mut self) {
        if self.is_changing() {
            self.change();
        } else if self.reload.as_mut().is_some_and(|reload| reload.watch.is_changed()) {
            self.reload("a file changed");
        }
    }

    /// Whether drivers are to change, or are about to.
    fn is_changing(&self) -> bool {
        self.running.iter().any(|running| running.phase != Phase::Sweeping)
    }

    /// Reads all anew. If it is of any use, new drivers prepare themselves; what is of none is told, and nothing changes.
    fn reload(&mut self, why: &str) {
        let Some(mut reload) = self.reload.take() else { return };
        if self.is_changing() {
            // One after the other: the files are looked at again.
            reload.watch.forget();
        } else {
            tracing::info!(why, "configuration and assignments are read anew");
            self.manager.reloading();
            reload.watch.take();
            match self.replace(&mut reload) {
                Ok(()) => self.change(),
                Err(failure) => self.refuse(&failure),
            }
        }
        self.reload = Some(reload);
    }

    /// Starts the drivers of what is new, beside those that they replace.
    fn replace(&mut self, reload: &mut Reload<T>) -> Result<(), Failure> {
        let setup = Setup::load(&reload.flags)?;
        setup.follows(&reload.setup)?;
        let (mut same, mut new) = (Vec::new(), Vec::new());
        for lane in setup.lanes(|settings| settings) {
            match self.running.iter().find(|running| running.identity.is_same(&lane)) {
                Some(running) => same.push((running.lane, lane)),
                None => {
                    lane.cpu().map_or(Ok(()), try_pin)?;
                    new.push((lane.prepare(&setup.config, &reload.prepare)?, lane));
                }
            }
        }
        // From here on nothing is refused any more.
        let ports: u32 = same.iter().map(|(_, lane)| lane.ports()).chain(new.iter().map(|(_, lane)| lane.ports())).sum();
        let sha256 = setup.work.sha256().map(|sha256| format!(", assignments with SHA-256 {sha256}")).unwrap_or_default();
        self.detail =
            cut(format!("taken: {ports} ports{sha256}; HCA ports that go on as before: {}, that begin anew: {}", same.len(), new.len()));
        for running in &mut self.running {
            match same.iter().find(|(lane, _)| *lane == running.lane) {
                Some((_, lane)) => {
                    let sha256 = lane.settings().assignments_sha256.clone();
                    if sha256 != running.identity.settings().assignments_sha256 {
                        running.control.notify(Notice::Assignments(sha256));
                    }
                    running.identity = lane.clone();
                }
                None => running.phase = Phase::Replaced,
            }
        }
        for (start, lane) in new {
            let counts_alike = |running: &&Running| running.phase == Phase::Replaced && running.identity.counts_slots_like(&lane);
            let before = self.running.iter().find(counts_alike).map(|running| Arc::clone(&running.control));
            let metrics = reload.metrics.as_ref().map(Metrics::lane);
            self.start(Job { driver: start(reload.outlet.clone()), lane, metrics }, Control::held(before), Phase::Coming)?;
        }
        if let Some(metrics) = &reload.metrics {
            metrics.set_peers(setup.work.peers.clone());
        }
        reload.watch.files(setup.files(&reload.flags));
        reload.setup = setup;
        Ok(())
    }

    /// Lets those that are replaced end, and those that come begin, at one border between slots, once all are ready.
    fn change(&mut self) {
        let of = |phase| move |running: &&Running| running.phase == phase;
        if !self.running.iter().filter(of(Phase::Coming)).all(|running| running.control.is_ready()) {
            return;
        }
        let first = self.running.iter().find(of(Phase::Replaced)).or_else(|| self.running.iter().find(of(Phase::Coming)));
        if let Some(schedule) = first.map(|running| running.schedule()) {
            let border = schedule.start(schedule.at_or_after(wall_clock() + AHEAD));
            for running in &mut self.running {
                let slot = running.schedule().at_or_after(border);
                match running.phase {
                    Phase::Replaced => {
                        running.control.leave_before(slot);
                        running.phase = Phase::Leaving;
                    }
                    Phase::Coming => {
                        running.control.begin_with(slot);
                        running.phase = Phase::Sweeping;
                    }
                    Phase::Sweeping | Phase::Leaving => {}
                }
            }
        } else if self.detail.is_empty() {
            // They were told already, and only wait for their border.
            return;
        }
        let detail = std::mem::take(&mut self.detail);
        if !detail.is_empty() {
            tracing::info!("reload {detail}");
            self.tell(&detail);
        }
        self.greet();
    }

    /// Tells why all stays as it is.
    fn refuse(&mut self, failure: &Failure) {
        let detail = cut(format!("refused, all goes on as before: {}", one_line(failure)));
        tracing::warn!("reload {}", Printable(&detail));
        for running in &mut self.running {
            match running.phase {
                Phase::Coming => running.control.stop(),
                Phase::Replaced => running.phase = Phase::Sweeping,
                Phase::Sweeping | Phase::Leaving => {}
            }
        }
        self.detail.clear();
        self.tell(&detail);
        self.greet();
    }

    /// Has the first of those that stay tell of a reload.
    fn tell(&self, detail: &str) {
        if let Some(first) = self.running.iter().find(|running| running.phase == Phase::Sweeping) {
            first.control.notify(Notice::Reload(detail.to_owned()));
        }
    }

    /// Tells the service manager that all sweep, if they do.
    fn greet(&mut self) {
        let is_settled = |running: &Running| running.phase == Phase::Sweeping && running.slots > 0;
        if !self.running.is_empty() && self.running.iter().all(is_settled) {
            self.manager.ready(&self.status());
        }
    }

    fn stop(&mut self) {
        self.manager.stopping();
        self.running.iter().for_each(|running| running.control.stop());
    }

    /// Waits until all have ended.
    async fn end(mut self, mut said: UnboundedReceiver<Said>) -> Result<(), Failure> {
        while !self.running.is_empty()
            && let Some(said) = said.recv().await
        {
            self.hear(said);
        }
        self.bar.finish();
        self.result
    }
}

impl Running {
    fn schedule(&self) -> Schedule {
        let settings = self.identity.settings();
        Schedule::new(settings.interval, settings.offset)
    }
}

/// Tells how a thread ended, also if it panicked.
struct Ending {
    lane: u64,
    told: UnboundedSender<Said>,
    result: Result<(), Failure>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        let _ = self.told.send(Said::Ended { lane: self.lane, result });
    }
}

/// A failure with its causes, for an event.
fn one_line(failure: &Failure) -> String {
    let mut line = failure.to_string();
    let mut source = std::error::Error::source(failure);
    while let Some(cause) = source {
        line.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    line.lines().collect::<Vec<_>>().join(" ")
}

/// As much of a detail as an event has room for.
fn cut(mut detail: String) -> String {
    if detail.len() > LONGEST_DETAIL {
        let end = (0..=LONGEST_DETAIL).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
        detail.truncate(end);
        detail.push('\u{2026}');
    }
    detail
}

/// Nanoseconds since 1970: where slots begin is what the drivers, who wait for it by clocks of their own, agree upon.
#[expect(clippy::disallowed_methods, reason = "programs read clocks")]
fn wall_clock() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether a thread can be kept on a CPU: found out by one that ends at once.
fn try_pin(cpu: usize) -> Result<(), Failure> {
    let tried = thread::spawn(move || pin(cpu)).join().map_err(|_| Failure::Crashed)?;
    tried.map_err(|source| Failure::Pin { cpu, source })
}

/// Keeps this thread on a CPU.
fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    // `None`: this thread.
    Ok(sched_setaffinity(None, &only)?)
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new().name(name).spawn(work).map(|_| ()).map_err(Failure::Runtime)
}
