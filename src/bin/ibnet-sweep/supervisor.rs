//! The workers of a sweep: their threads, their reports, and their replacement at a reload. A
//! worker sends and receives MADs through one HCA port.
//!
//! A reload starts new workers beside the old ones, and the new workers discover their devices
//! while the old ones still sweep. All workers then change at the same slot border (those of
//! secondaries one slot later), so no slot is lost or runs twice. A worker whose setup is unchanged
//! continues, and keeps the readings from which it computes rates. If the new plan does not contain
//! this host, the workers end between two slots, and the program waits for a plan that contains it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use ibnet::cli::Progress;
use ibnet::config::Raw;
use ibnet::mad::transport::Transport;
use ibnet::metrics::{Metrics, Peers};
use ibnet::output::Outlet;
use ibnet::sweep::driver::{Control, Notice, SlotReport};
use ibnet::sweep::schedule::Schedule;
use ibnet_record::count::count;
use ibnet_record::types::Printable;
use tokio::sync::mpsc::UnboundedSender;

use super::clock::wall_clock;
use super::cpu::pin;
use super::failure::Failure;
use super::flags::Flags;
use super::loader::{LoadEvent, Loaded, Loader, Running, drop_elsewhere};
use super::reload::{MakeDriver, Prepare, WorkerSetup};
use super::streams::Streams;
use super::systemd::Manager;
use super::watch::Stamped;

/// A plan whose time is further ahead than this waits, and a newer plan can still replace it. The
/// slot border is set this long before the time, so that a busy main thread does not delay the
/// change.
const SET_BORDER: Duration = Duration::from_secs(3);

/// Min time from setting a slot border until the old workers are replaced at it, so that all
/// workers receive the border in time.
const CHANGE_AHEAD: Duration = Duration::from_millis(50);

/// Max length of an event's detail in bytes.
const MAX_DETAIL: usize = 512;

/// Receives the report of each slot, on the thread of the worker.
pub(super) type Observer = Box<dyn FnMut(SlotReport<'_>) + Send>;

/// A worker that is to be started.
pub(super) struct NewWorker<T> {
    pub(super) make_driver: MakeDriver<T>,
    pub(super) outlet: Outlet,
    pub(super) setup: WorkerSetup,
    pub(super) observers: Vec<Observer>,
}

/// Makes the observers of a new worker.
pub(super) type MakeObservers = Box<dyn Fn() -> Vec<Observer>>;

/// State that a reload needs.
pub(super) struct Reload<T> {
    pub(super) flags: Flags,
    pub(super) prepare: Prepare<T>,
    /// The files that were read at the start, with their states.
    pub(super) read: Vec<Stamped>,
    pub(super) running: Applied,
}

/// The configuration in use, and what is needed to apply a new one.
pub(super) struct Applied {
    pub(super) raw: Raw,
    pub(super) streams: Streams,
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) observers: MakeObservers,
}

/// A report of a worker's thread.
pub(super) enum WorkerEvent {
    /// The worker has discovered its devices.
    Ready,
    /// The worker has ended a slot.
    Slot { worker: u64 },
    /// The thread has ended.
    Ended {
        worker: u64,
        result: Result<(), Failure>,
    },
}

/// A running worker.
struct Worker {
    number: u64,
    setup: WorkerSetup,
    control: Arc<Control>,
    /// Number of slots that the worker has finished.
    slots: u64,
    /// Whether the worker has finished a slot since the last report to the service manager.
    is_alive: bool,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Sweeping,
    /// The worker sweeps until its successors are ready.
    Replaced,
    /// The worker prepares, and starts to sweep when all new workers are ready.
    Preparing,
    /// The worker sweeps until a fixed slot, and then ends.
    Leaving,
}

/// A prepared change of workers, which takes place at a slot border.
struct Change {
    /// Detail of the `reload` event.
    detail: String,
    /// Start of the plan's first slot, in nanoseconds since 1970. 0 means as soon as possible.
    at: u64,
    /// Whether the log has reported that the change waits for its time.
    is_announced: bool,
    /// Workers that continue: id of the worker, and its new setup.
    same: Vec<(u64, WorkerSetup)>,
    /// Peers of the plan's links, for the metrics.
    peers: Peers,
}

/// All workers, and what is needed to start more.
pub(super) struct Supervisor<T> {
    workers: Vec<Worker>,
    /// Id of the next worker.
    next: u64,
    events: UnboundedSender<WorkerEvent>,
    bar: Progress,
    /// The first failure.
    result: Result<(), Failure>,
    manager: Manager,
    reload: Option<(Loader<T>, Applied)>,
    /// The change of workers that is prepared, if there is one.
    change: Option<Change>,
    /// Why no worker sweeps, although the program was not stopped.
    waiting: Option<String>,
}

impl<T: Transport + Send + 'static> Supervisor<T> {
    pub(super) fn new(
        events: UnboundedSender<WorkerEvent>,
        loads: UnboundedSender<LoadEvent<T>>,
        bar: Progress,
        reload: Option<Reload<T>>,
    ) -> Self {
        let reload = reload.map(
            |Reload {
                 flags,
                 prepare,
                 read,
                 running,
             }| (Loader::new(flags, prepare, read, loads), running),
        );
        let manager = Manager::new();
        Self {
            workers: Vec::new(),
            next: 0,
            events,
            bar,
            result: Ok(()),
            manager,
            reload,
            change: None,
            waiting: None,
        }
    }

    /// Returns whether all workers have ended, and no others will be started.
    pub(super) fn has_ended(&self) -> bool {
        self.workers.is_empty() && self.waiting.is_none()
    }

    /// Starts a worker that sweeps immediately.
    pub(super) fn start(&mut self, worker: NewWorker<T>) -> Result<(), Failure> {
        self.spawn(worker, Control::default(), Phase::Sweeping)
    }

    fn spawn(
        &mut self,
        worker: NewWorker<T>,
        control: Control,
        phase: Phase,
    ) -> Result<(), Failure> {
        let NewWorker {
            make_driver,
            outlet,
            setup,
            mut observers,
        } = worker;
        let (number, control) = (self.next, Arc::new(control));
        self.next += 1;
        self.manager.expect_slots_every(setup.settings().interval);
        if phase == Phase::Preparing {
            let events = self.events.clone();
            control.on_ready(move || drop(events.send(WorkerEvent::Ready)));
        }
        let (cpu, bar, events, of_thread) = (
            setup.cpu(),
            self.bar.clone(),
            self.events.clone(),
            Arc::clone(&control),
        );
        spawn_thread(format!("mads-{number}"), move || {
            let mut end = EndReport {
                worker: number,
                events: events.clone(),
                result: Err(Failure::Crashed),
            };
            // The driver starts its own thread, which must not inherit the CPU of this one.
            let driver = make_driver(outlet);
            let pinned = cpu.map_or(Ok(()), |cpu| {
                pin(cpu).map_err(|source| Failure::Pin { cpu, source })
            });
            let observe = |report: SlotReport<'_>| {
                observers.iter_mut().for_each(|observer| observer(report));
                bar.advance();
                // The receiver exists as long as the program runs.
                let _ = events.send(WorkerEvent::Slot { worker: number });
            };
            end.result = pinned.and_then(|()| {
                driver
                    .run(&of_thread, observe)
                    .map_err(Failure::WorkerFailed)
            });
        })?;
        self.workers.push(Worker {
            number,
            setup,
            control,
            slots: 0,
            is_alive: false,
            phase,
        });
        Ok(())
    }

    /// Handles the report of a worker.
    pub(super) fn handle(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready => {}
            WorkerEvent::Slot { worker } => {
                if let Some(worker) = self.workers.iter_mut().find(|other| other.number == worker) {
                    worker.slots += 1;
                    worker.is_alive = true;
                }
            }
            WorkerEvent::Ended { worker, result } => self.remove(worker, result),
        }
        if self.change.is_some() {
            self.switch_over();
        }
        let sweeps = |worker: &&Worker| matches!(worker.phase, Phase::Sweeping | Phase::Replaced);
        if self
            .workers
            .iter()
            .filter(sweeps)
            .all(|worker| worker.is_alive)
        {
            self.workers
                .iter_mut()
                .for_each(|worker| worker.is_alive = false);
            self.manager.alive();
        }
        self.report_ready();
    }

    /// Removes a worker that has ended. If it failed, all other workers are stopped, unless the
    /// failed one was still preparing.
    fn remove(&mut self, number: u64, result: Result<(), Failure>) {
        let Some(place) = self
            .workers
            .iter()
            .position(|worker| worker.number == number)
        else {
            return;
        };
        let ended = self.workers.remove(place);
        match result {
            Ok(()) => {}
            Err(failure) if ended.phase == Phase::Preparing => self.reject_reload(&failure),
            Err(failure) => {
                self.waiting = None;
                self.workers.iter().for_each(|worker| worker.control.stop());
                self.result = std::mem::replace(&mut self.result, Ok(())).and(Err(failure));
            }
        }
    }

    /// Requests a check of the files, and reports a reload that hangs. Must be called once per
    /// second.
    pub(super) fn check_files(&mut self) {
        if !self
            .workers
            .iter()
            .any(|worker| matches!(worker.phase, Phase::Sweeping | Phase::Replaced))
        {
            // No slot ends while no worker sweeps, so this reports that the program is alive.
            self.manager.alive();
        }
        if self.change.is_some() {
            self.switch_over();
        }
        let Some((loader, _)) = &mut self.reload else {
            return;
        };
        loader.look();
        if let Some(operation) = loader.report_hanging() {
            let detail = format!("hangs, nothing has changed: {operation} has not ended");
            self.report(&detail);
            self.manager.ready(&format!(
                "{}; a reload hangs: {}",
                self.status(),
                Printable(&operation)
            ));
        }
    }

    /// Handles the result of a thread that checks or reads the files.
    pub(super) fn handle_load(&mut self, event: LoadEvent<T>) {
        let Some((loader, _)) = &mut self.reload else {
            return;
        };
        match event {
            LoadEvent::Looked(now) => {
                if loader.must_start(now) {
                    match self.waits_until() {
                        // The next check of the files starts the reload.
                        Some(at) => self.reject_reload(&Failure::Superseded { at: utc(at) }),
                        None if self.is_changing() => {}
                        None => self.start_reload("a file or the published plan changed"),
                    }
                }
            }
            LoadEvent::Loaded {
                number,
                read,
                result,
            } => {
                let Some(result) = loader.take(number, read, *result) else {
                    return;
                };
                // This replaces the status of a reload that hung.
                self.manager.reloading();
                match result.and_then(|loaded| self.replace_workers(loaded)) {
                    Ok(()) => self.switch_over(),
                    Err(failure) => self.reject_reload(&failure),
                }
            }
        }
    }

    /// Returns whether workers are being replaced.
    fn is_changing(&self) -> bool {
        self.change.is_some()
            || self
                .workers
                .iter()
                .any(|worker| worker.phase != Phase::Sweeping)
    }

    /// Returns the time of the first slot of a plan that waits for it.
    fn waits_until(&self) -> Option<u64> {
        let border = wall_clock().saturating_add(nanos(SET_BORDER));
        self.change
            .as_ref()
            .map(|change| change.at)
            .filter(|at| *at > border)
    }

    /// Reads the files again, or after the current reload if there is one.
    pub(super) fn reload(&mut self, reason: &str) {
        let is_changing = self.is_changing();
        let Some((loader, _)) = &mut self.reload else {
            return;
        };
        if !is_changing && !loader.is_pending() {
            return self.start_reload(reason);
        }
        tracing::info!(
            reason,
            "a reload is running; the files are read once more after it"
        );
        if let Some(operation) = loader.start_again() {
            self.report(&format!(
                "requested again, but the last one hangs: {operation} has not ended"
            ));
        }
    }

    /// Starts a thread that reads the files and opens the HCA ports of new workers.
    fn start_reload(&mut self, reason: &str) {
        let Some((loader, applied)) = &mut self.reload else {
            return;
        };
        tracing::info!(reason, "reloading configuration and plan");
        self.manager.reloading();
        let workers = self
            .workers
            .iter()
            .map(|worker| (worker.number, worker.setup.clone()))
            .collect();
        if let Err(failure) = loader.start(Running {
            raw: applied.raw.clone(),
            workers,
        }) {
            self.reject_reload(&failure);
        }
    }

    /// Starts the workers whose setup is new, beside those that they will replace.
    fn replace_workers(&mut self, loaded: Loaded<T>) -> Result<(), Failure> {
        let Some((_, applied)) = &mut self.reload else {
            return Ok(());
        };
        let Loaded { setup, same, new } = loaded;
        let outlets: Result<Vec<_>, _> = new
            .iter()
            .map(|(worker, _)| applied.streams.outlet(&worker.settings().sampler))
            .collect();
        let outlets = match outlets {
            Ok(outlets) => outlets,
            Err(failure) => {
                drop_elsewhere(new);
                return Err(failure);
            }
        };
        let ports: u32 = same
            .iter()
            .map(|(_, worker)| worker.ports())
            .chain(new.iter().map(|(worker, _)| worker.ports()))
            .sum();
        let sha256 = setup
            .work
            .sha256()
            .map(|sha256| format!(", assignments with SHA-256 {sha256}"))
            .unwrap_or_default();
        let mut detail = format!(
            "taken: {ports} ports{sha256}; HCA ports that go on as before: {}, that begin anew: {}",
            same.len(),
            new.len()
        );
        if same.is_empty() && new.is_empty() {
            let reason = setup.work.absent.as_ref().map_or_else(
                || "the assignments have no sampler".to_owned(),
                ToString::to_string,
            );
            detail = format!("stopped, waiting for assignments that name this sampler: {reason}");
            self.waiting = Some(format!(
                "waiting for assignments that name this sampler: {reason}"
            ));
        }
        for worker in &mut self.workers {
            if !same.iter().any(|(number, _)| *number == worker.number) {
                worker.phase = Phase::Replaced;
            }
        }
        let at = setup.work.at.unwrap_or(0);
        self.change = Some(Change {
            detail,
            at,
            is_announced: false,
            same,
            peers: setup.work.peers,
        });
        let observers: Vec<_> = new.iter().map(|_| (applied.observers)()).collect();
        for (((worker, make_driver), outlet), observers) in
            new.into_iter().zip(outlets).zip(observers)
        {
            let replaced = self
                .workers
                .iter()
                .filter(|worker| worker.phase == Phase::Replaced);
            let place = worker.predecessor(replaced.clone().map(|worker| &worker.setup));
            let predecessor = place
                .and_then(|place| replaced.clone().nth(place))
                .map(|worker| Arc::clone(&worker.control));
            self.spawn(
                NewWorker {
                    make_driver,
                    outlet,
                    setup: worker,
                    observers,
                },
                Control::held(predecessor),
                Phase::Preparing,
            )?;
        }
        if let Some((_, applied)) = &mut self.reload {
            applied.raw = setup.raw;
        }
        Ok(())
    }

    /// If all new workers are ready and the time of the plan has come, ends the old workers and
    /// starts the new ones at one slot border.
    fn switch_over(&mut self) {
        let has_phase = |phase| move |worker: &&Worker| worker.phase == phase;
        if !self
            .workers
            .iter()
            .filter(has_phase(Phase::Preparing))
            .all(|worker| worker.control.is_ready())
        {
            return;
        }
        if let Some(at) = self.waits_until() {
            return self.announce(at);
        }
        let Some(Change {
            detail,
            at,
            same,
            peers,
            ..
        }) = self.change.take()
        else {
            return;
        };
        let now = wall_clock();
        let late = Duration::from_nanos(now.saturating_sub(at));
        let detail = cut(match at {
            0 => detail,
            at if late.is_zero() => format!("{detail}; first slot at {}", utc(at)),
            at => format!(
                "{detail}; {:.1} s after the time of its first slot, {}",
                late.as_secs_f64(),
                utc(at)
            ),
        });
        // A worker that may leave ends at once if its slot has ended, so it gets the event before
        // that.
        let all_leave = self
            .workers
            .iter()
            .all(|worker| worker.phase == Phase::Replaced);
        if all_leave {
            self.notify_reload(0, &detail);
        }
        let first = self
            .workers
            .iter()
            .find(has_phase(Phase::Replaced))
            .or_else(|| self.workers.iter().find(has_phase(Phase::Preparing)));
        let interval = first
            .or_else(|| self.workers.first())
            .map(|worker| worker.setup.settings().interval)
            .unwrap_or_default();
        // A slot that is shifted by an offset has the number of the slot that starts at the border.
        let numbers = Schedule::new(interval, Duration::ZERO);
        let border =
            numbers.start(numbers.at_or_after(at.max(now.saturating_add(nanos(CHANGE_AHEAD)))));
        for worker in &mut self.workers {
            let slot = worker.setup.settings().first_slot_of_change(border);
            match worker.phase {
                Phase::Replaced => {
                    worker.control.leave_before(slot);
                    worker.phase = Phase::Leaving;
                }
                Phase::Preparing => {
                    worker.control.begin_with(slot);
                    worker.phase = Phase::Sweeping;
                    self.waiting = None;
                }
                Phase::Sweeping => worker.go_on(slot, &same),
                Phase::Leaving => {}
            }
        }
        if let Some(metrics) = self
            .reload
            .as_ref()
            .and_then(|(_, applied)| applied.metrics.as_ref())
        {
            metrics.set_peers(peers);
        }
        tracing::info!(
            detail = Printable(&detail).to_string(),
            "configuration and plan are reloaded"
        );
        if !all_leave {
            self.notify_reload(border, &detail);
        }
        self.report_ready();
    }

    /// Logs that a plan waits for the time of its first slot.
    fn announce(&mut self, at: u64) {
        let Some(change) = self.change.as_mut().filter(|change| !change.is_announced) else {
            return;
        };
        change.is_announced = true;
        tracing::info!(
            first_slot = utc(at),
            "a new plan is ready and waits for its first slot"
        );
        self.manager
            .ready(&format!("{}; a new plan from {}", self.status(), utc(at)));
    }

    /// Ends the new workers, keeps the old ones, and reports the reason.
    fn reject_reload(&mut self, failure: &Failure) {
        for worker in &mut self.workers {
            match worker.phase {
                Phase::Preparing => worker.control.stop(),
                Phase::Replaced => worker.phase = Phase::Sweeping,
                Phase::Sweeping | Phase::Leaving => {}
            }
        }
        self.change = None;
        self.report(&format!(
            "refused, nothing has changed: {}",
            failure.one_line()
        ));
        self.report_ready();
    }

    /// Logs what is wrong with a reload, and writes a `reload` event.
    fn report(&self, detail: &str) {
        let detail = cut(detail.to_owned());
        tracing::warn!(
            detail = Printable(&detail).to_string(),
            "the reload had no effect; the old configuration and plan stay in use"
        );
        self.notify_reload(0, &detail);
    }

    /// Makes one worker write a `reload` event: the first one that continues writes it before its
    /// first slot at or after a border (in nanoseconds since 1970). If none continues, the first
    /// worker writes it before it ends.
    fn notify_reload(&self, border: u64, detail: &str) {
        let continues = |worker: &&Worker| worker.phase == Phase::Sweeping;
        if let Some(first) = self
            .workers
            .iter()
            .find(continues)
            .or_else(|| self.workers.first())
        {
            first.control.notify_before(
                first.setup.settings().first_slot_of_change(border),
                Notice::Reload(detail.to_owned()),
            );
        }
    }

    /// Reports `ready` to the service manager when all workers sweep, or when the program waits
    /// for another plan.
    fn report_ready(&mut self) {
        let is_loading = self
            .reload
            .as_ref()
            .is_some_and(|(loader, _)| loader.is_pending());
        let has_swept = |worker: &Worker| worker.phase == Phase::Sweeping && worker.slots > 0;
        if !is_loading && !self.has_ended() && self.workers.iter().all(has_swept) {
            self.manager.ready(&self.status());
        }
    }

    /// Returns the status for the service manager: what the program does, or why it does nothing.
    fn status(&self) -> String {
        if let (true, Some(reason)) = (self.workers.is_empty(), &self.waiting) {
            return Printable(reason).to_string();
        }
        let ports: u32 = self.workers.iter().map(|worker| worker.setup.ports()).sum();
        format!(
            "{} in each slot, by {}",
            count(ports, "port"),
            count(self.workers.len(), "HCA port")
        )
    }

    /// Stops all workers. Each worker finishes its current slot first.
    pub(super) fn stop(&mut self) {
        self.waiting = None;
        self.manager.stopping();
        self.workers.iter().for_each(|worker| worker.control.stop());
    }

    /// Returns the first failure. Drops the outlets of the workers that have ended.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.bar.finish();
        self.result
    }
}

impl Worker {
    /// Applies the setup of a new plan, which is the same for this worker, from this slot on.
    fn go_on(&mut self, slot: u64, same: &[(u64, WorkerSetup)]) {
        let Some((_, setup)) = same.iter().find(|(number, _)| *number == self.number) else {
            return;
        };
        let sha256 = setup.settings().assignments_sha256.clone();
        if sha256 != self.setup.settings().assignments_sha256 {
            self.control
                .notify_before(slot, Notice::Assignments(sha256));
        }
        self.setup = setup.clone();
    }
}

/// Reports the end of a worker's thread, even if the thread panics.
struct EndReport {
    worker: u64,
    events: UnboundedSender<WorkerEvent>,
    result: Result<(), Failure>,
}

impl Drop for EndReport {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        let _ = self.events.send(WorkerEvent::Ended {
            worker: self.worker,
            result,
        });
    }
}

/// Shortens a detail to at most [`MAX_DETAIL`] bytes.
fn cut(mut detail: String) -> String {
    if detail.len() > MAX_DETAIL {
        let end = (0..=MAX_DETAIL)
            .rev()
            .find(|end| detail.is_char_boundary(*end))
            .unwrap_or(0);
        detail.truncate(end);
        detail.push('\u{2026}');
    }
    detail
}

/// Formats a time, given in nanoseconds since 1970.
fn utc(at: u64) -> String {
    humantime::format_rfc3339(UNIX_EPOCH + Duration::from_nanos(at)).to_string()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn spawn_thread(name: String, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new()
        .name(name)
        .spawn(work)
        .map(|_| ())
        .map_err(Failure::Threads)
}
