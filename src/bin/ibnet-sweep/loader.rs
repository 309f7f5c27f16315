//! Reads files and opens HCA ports on separate threads while the sweep runs.
//!
//! A file system or a device can block for any time: a network file system without its server, a
//! FIFO without a writer, an HCA during its reset. The main thread, which handles signals and the
//! watchdog, therefore never accesses them. One thread checks the states of the files, and each
//! reload has its own thread, which reads the files and opens the HCA ports of new workers.
//!
//! A reload that does not end within [`PATIENCE`] is reported as hanging, but the sweep goes on,
//! and the result is used if it comes later. If the files change in the meantime, another reload
//! starts, and the result of the older one is dropped.

use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;

use ibnet::config::Raw;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::cpu::check_cpu;
use super::failure::Failure;
use super::flags::Flags;
use super::reload::{MakeDriver, Prepare, Setup, WorkerSetup};
use super::watch::{self, Input, Reader, Stage, Stamped, Watch};

/// Time after which a reload is reported as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Max number of reloads that hang, because each of them occupies a thread.
const MAX_HANGING: usize = 4;

/// A result of one of the threads.
pub(super) enum LoadEvent<T> {
    /// The current states of the inputs.
    Looked(Vec<Stamped>),
    /// A reload has ended.
    Loaded {
        number: u64,
        read: Vec<Stamped>,
        result: Box<Result<Loaded<T>, Failure>>,
    },
}

/// Everything that a reload has read and opened.
pub(super) struct Loaded<T> {
    pub(super) setup: Setup,
    /// Workers that continue: id of the worker, and its new setup.
    pub(super) same: Vec<(u64, WorkerSetup)>,
    /// Workers to be started.
    pub(super) new: Vec<(WorkerSetup, MakeDriver<T>)>,
}

/// The sweep that a reload changes.
pub(super) struct Running {
    pub(super) raw: Raw,
    /// The running workers: id and setup.
    pub(super) workers: Vec<(u64, WorkerSetup)>,
}

/// A reload that has not ended.
struct Pending {
    number: u64,
    started: Instant,
    stage: Stage,
    /// Whether the log has reported that the reload hangs.
    hangs: bool,
    /// Whether the log has reported that another reload was requested meanwhile.
    is_requested_again: bool,
}

/// Starts the threads and keeps the states of the files.
pub(super) struct Loader<T> {
    flags: Flags,
    prepare: Prepare<T>,
    watch: Watch,
    events: UnboundedSender<LoadEvent<T>>,
    /// Requests to the thread that checks the files. `None` before the first request.
    looks: Option<SyncSender<Vec<Input>>>,
    pending: Option<Pending>,
    /// Whether another reload was requested while one was under way.
    is_requested: bool,
    /// Number of the next reload, counted from the start of the program.
    next: u64,
    /// Number of reloads that hang and whose results will be dropped.
    hanging: usize,
}

impl<T: Send + 'static> Loader<T> {
    /// Creates a loader. `read` lists the files that were read at the start.
    pub(super) fn new(
        flags: Flags,
        prepare: Prepare<T>,
        read: Vec<Stamped>,
        events: UnboundedSender<LoadEvent<T>>,
    ) -> Self {
        Self {
            flags,
            prepare,
            watch: Watch::new(read),
            events,
            looks: None,
            pending: None,
            is_requested: false,
            next: 0,
            hanging: 0,
        }
    }

    /// Requests the states of the files. Does nothing while an earlier request is unanswered.
    pub(super) fn look(&mut self) {
        let looks = match self.looks.take() {
            Some(looks) => looks,
            None => match start_looking(self.events.clone()) {
                Ok(looks) => looks,
                // The next call tries again.
                Err(error) => {
                    return tracing::warn!(%error, "cannot look for changed files; trying again");
                }
            },
        };
        // The channel is full while the thread has not answered the previous request.
        let _ = looks.try_send(self.watch.inputs());
        self.looks = Some(looks);
    }

    /// Returns whether a reload must start, given these states of the files.
    pub(super) fn must_start(&mut self, now: Vec<Stamped>) -> bool {
        let is_changed = self.watch.is_changed(now);
        match &self.pending {
            None => is_changed || self.is_requested,
            Some(pending) => is_changed && pending.hangs && self.hanging < MAX_HANGING,
        }
    }

    /// Returns whether a reload is under way.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Makes another reload start after the current one. If the current one hangs, returns its
    /// operation, but only the first time.
    pub(super) fn start_again(&mut self) -> Option<String> {
        self.is_requested = true;
        let pending = self.pending.as_mut().filter(|pending| pending.hangs)?;
        (!std::mem::replace(&mut pending.is_requested_again, true)).then(|| pending.stage.get())
    }

    /// Starts a reload.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(super) fn start(&mut self, running: Running) -> Result<(), Failure> {
        let (reader, number) = (Reader::for_reload(self.watch.receiving()), self.next);
        self.hanging += usize::from(self.pending.take().is_some());
        self.next += 1;
        self.is_requested = false;
        self.watch.begin();
        let stage = reader.stage.clone();
        let (flags, prepare, events) = (
            self.flags.clone(),
            Prepare::clone(&self.prepare),
            self.events.clone(),
        );
        let load = move || {
            let mut report = Report {
                number,
                reader,
                result: Err(Failure::Crashed),
                events,
            };
            report.result = load(&flags, &prepare, &running, &mut report.reader);
        };
        thread::Builder::new()
            .name("reload".to_owned())
            .spawn(load)
            .map_err(Failure::Threads)?;
        self.pending = Some(Pending {
            number,
            started: Instant::now(),
            stage,
            hangs: false,
            is_requested_again: false,
        });
        Ok(())
    }

    /// Takes the result of a reload. Returns it, unless a newer reload has started.
    pub(super) fn take(
        &mut self,
        number: u64,
        read: Vec<Stamped>,
        result: Result<Loaded<T>, Failure>,
    ) -> Option<Result<Loaded<T>, Failure>> {
        if self
            .pending
            .as_ref()
            .is_none_or(|pending| pending.number != number)
        {
            self.hanging = self.hanging.saturating_sub(1);
            drop_elsewhere(result);
            return None;
        }
        self.pending = None;
        self.watch.end(read, result.is_ok());
        Some(result)
    }

    /// Returns the operation of a reload that hangs, once per reload.
    pub(super) fn report_hanging(&mut self) -> Option<String> {
        let pending = self
            .pending
            .as_mut()
            .filter(|pending| pending.started.elapsed() >= PATIENCE)?;
        (!std::mem::replace(&mut pending.hangs, true)).then(|| pending.stage.get())
    }
}

/// Reads the files, and opens the HCA ports of the workers whose setup is new.
fn load<T>(
    flags: &Flags,
    prepare: &Prepare<T>,
    running: &Running,
    reader: &mut Reader,
) -> Result<Loaded<T>, Failure> {
    let mut setup = Setup::load(flags, reader)?;
    setup.check_change_from(&running.raw)?;
    // A new plan may omit this host, but a new name of the sampler must be in the plan.
    if setup.raw.sampler != running.raw.sampler {
        setup.work = setup.work.present()?;
    }
    let (mut same, mut new) = (Vec::new(), Vec::new());
    for worker in setup.workers(|settings| settings) {
        match running
            .workers
            .iter()
            .find(|(_, other)| other.is_same_as(&worker))
        {
            Some((number, _)) => same.push((*number, worker)),
            None => {
                reader.stage.set(format!(
                    "opening the HCA port of {}",
                    worker.settings().sampler
                ));
                worker.cpu().map_or(Ok(()), check_cpu)?;
                let make_driver = worker.prepare(&setup.config, prepare)?;
                new.push((worker, make_driver));
            }
        }
    }
    setup.work.keep_copy();
    Ok(Loaded { setup, same, new })
}

/// Reports the end of a reload, even if its thread panics.
struct Report<T> {
    number: u64,
    reader: Reader,
    result: Result<Loaded<T>, Failure>,
    events: UnboundedSender<LoadEvent<T>>,
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Err(Failure::Crashed));
        let read = std::mem::take(&mut self.reader).into_read();
        // The receiver exists as long as the program runs.
        let _ = self.events.send(LoadEvent::Loaded {
            number: self.number,
            read,
            result: Box::new(result),
        });
    }
}

/// Starts the thread that checks the files.
fn start_looking<T: Send + 'static>(
    events: UnboundedSender<LoadEvent<T>>,
) -> std::io::Result<SyncSender<Vec<Input>>> {
    let (requests, received) = mpsc::sync_channel::<Vec<Input>>(1);
    let look = move || {
        for inputs in received {
            // The receiver exists as long as the program runs.
            let _ = events.send(LoadEvent::Looked(watch::look(inputs)));
        }
    };
    thread::Builder::new().name("look".to_owned()).spawn(look)?;
    Ok(requests)
}

/// Drops a value on a separate thread, because closing an HCA port can block.
pub(super) fn drop_elsewhere<V: Send + 'static>(value: V) {
    // If no thread can be started, the value is dropped here.
    let _ = thread::Builder::new()
        .name("close".to_owned())
        .spawn(move || drop(value));
}
