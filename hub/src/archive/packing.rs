//! The thread that packs the spool into the archive.
//!
//! A run begins when a period ends, such as every full ten minutes, and a short time later, so that
//! late lines of the period are part of it. It also begins at the start of the hub, if an earlier hub
//! left files, and when the spool is half full. A run that fails is repeated.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet_store::error::StoreError;
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::retain;
use miette::Diagnostic;

use super::spool::{Lines, Spool, SpoolError};
use super::status::{Part, Shared, with_help};
use crate::config::Packing;
use crate::error::HubError;
use crate::events::EventRow;
use crate::ingest::Clock;
use crate::state::Hub;

/// Time between two looks at what is due.
const TICK: Duration = Duration::from_secs(1);

/// Time after which lines are durable. A hub that is killed loses none of them, a host without power
/// those of this time. Files and JetStream are then read again.
const SYNC_EVERY: u32 = 5;

/// Pause before a run that failed is repeated.
const PAUSE: Duration = Duration::from_secs(30);

/// Rows in memory. More rows wait in files. A row takes about 300 octets.
const MOST_ROWS: usize = 1 << 19;

/// Priority of the thread: the page comes first.
const NICE: i32 = 15;

/// Why a run failed.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub(crate) enum PackError {
    /// The spool cannot be read or changed.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Spool(#[from] SpoolError),
    /// The archive cannot be read or written.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Store(#[from] StoreError),
}

/// Starts the thread.
///
/// # Errors
/// Returns an error if the thread cannot be started.
pub(crate) fn start(hub: Arc<Hub>, packing: Packing, spool: Arc<Spool>, status: Arc<Shared>, clock: Clock) -> Result<(), HubError> {
    let lower = |_| {
        // Without the right to do this, the thread has the usual priority.
        let _ = rustix::process::setpriority_process(None, NICE);
    };
    // All steps of a run use this one thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "pack".to_owned()).start_handler(lower).build();
    let pool = pool.map_err(|error| HubError::Thread(std::io::Error::other(error)))?;
    let mut work = Work::new(hub, packing, spool, status, clock);
    thread::Builder::new().name("packing".to_owned()).spawn(move || work.run(&pool)).map(drop).map_err(HubError::Thread)
}

/// What the thread does.
pub(super) struct Work {
    hub: Arc<Hub>,
    packing: Packing,
    spool: Arc<Spool>,
    status: Arc<Shared>,
    clock: Clock,
    /// Whether the spool and the packing failed at the last look.
    is_failing: [bool; 2],
}

impl Work {
    pub(super) const fn new(hub: Arc<Hub>, packing: Packing, spool: Arc<Spool>, status: Arc<Shared>, clock: Clock) -> Self {
        Self { hub, packing, spool, status, clock, is_failing: [false; 2] }
    }

    fn run(&mut self, pool: &rayon::ThreadPool) {
        // What an earlier hub left is packed at once.
        let (mut due, mut is_done) = (Duration::ZERO, true);
        for tick in 0_u32.. {
            if tick % SYNC_EVERY == 0
                && let Err(error) = self.spool.sync()
            {
                self.status.lock().set_fault(Part::Spool, Some(with_help(&error)));
            }
            let now = self.clock.now();
            if now.monotonic >= due || (is_done && self.spool.is_half_full()) {
                let result = pool.install(|| self.pack(now.wall_ns));
                is_done = result.is_ok();
                self.status.lock().set_fault(Part::Packing, result.err().map(|error| with_help(&error)));
                let now = self.clock.now();
                let next = until_next(now.wall_ns, self.packing.every);
                due = now.monotonic + if is_done { next } else { PAUSE.min(next) };
            }
            self.report();
            thread::sleep(TICK);
        }
    }

    /// Packs the files of the spool, and removes the oldest hours of the archive.
    pub(super) fn pack(&self, now_ns: u64) -> Result<(), PackError> {
        let begin = self.clock.now().monotonic;
        let files = self.spool.close()?;
        if !files.is_empty() {
            let packed = self.pack_files(&files)?;
            let mut status = self.status.lock();
            status.added += packed.added.values().sum::<u64>();
            status.copies += packed.copies;
            status.expired += packed.expired;
        }
        if !self.packing.keep.is_empty() && !files.is_empty() {
            let removed = retain::retain(&self.packing.archive, &self.packing.keep, now_ns)?;
            self.status.lock().files_removed += removed.iter().map(|removed| removed.files).sum::<u64>();
        }
        let duration = self.clock.now().monotonic.saturating_sub(begin);
        let mut status = self.status.lock();
        status.packed_ns = Some(now_ns);
        status.duration_ns = u64::try_from(duration.as_nanos()).ok();
        Ok(())
    }

    fn pack_files(&self, files: &[PathBuf]) -> Result<Packed, PackError> {
        let mut packer = Packer::new(&self.packing.archive, PackOptions { verify: true })?.with_most_rows(MOST_ROWS);
        let (mut whole, mut damaged, mut malformed) = (Vec::new(), Vec::new(), 0);
        for path in files {
            let mut lines = Lines::open(path)?;
            while let Some(text) = lines.read() {
                let batch = Batch::parse(&text);
                malformed += batch.invalid.len() as u64;
                packer.add(batch)?;
            }
            match lines.fault {
                None => whole.push(path.clone()),
                Some(error) => damaged.push((path, error)),
            }
        }
        let packed = packer.finish(&|_, _| {})?;
        self.status.lock().malformed += malformed;
        self.spool.remove(&whole)?;
        for (path, error) in damaged {
            let aside = self.spool.set_aside(path)?;
            tracing::warn!(file = %aside.display(), %error, "a file of the spool is damaged; its readable lines are packed, the file is kept");
        }
        Ok(packed)
    }

    /// Reports parts that began to fail or work again.
    pub(super) fn report(&mut self) {
        let faults = self.status.lock().faults();
        for ((name, fault), was_failing) in ["spool", "packing"].into_iter().zip(faults).zip(&mut self.is_failing) {
            let is_failing = fault.is_some();
            if is_failing == std::mem::replace(was_failing, is_failing) {
                continue;
            }
            let wall_ns = self.clock.now().wall_ns;
            let row = match fault {
                Some(fault) => {
                    tracing::warn!(part = name, error = ?fault, "cannot archive records, trying again");
                    EventRow::of_hub(wall_ns, "archive_failed", fault)
                }
                None => {
                    tracing::info!(part = name, "archiving records again");
                    EventRow::of_hub(wall_ns, "archive_back", format!("the {name} works again"))
                }
            };
            self.hub.write().events.add(row);
        }
    }
}

/// Returns the time to the next run: a tenth of the period, at most a minute, after its end.
fn until_next(wall_ns: u64, every: Duration) -> Duration {
    let every_ns = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1);
    let late_ns = (every_ns / 10).min(60_000_000_000);
    let passed = wall_ns.saturating_sub(late_ns) % every_ns;
    Duration::from_nanos(every_ns - passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_begins_shortly_after_a_full_period() {
        let next = |second: u64, every: u64| until_next((36_000 + second) * 1_000_000_000, Duration::from_secs(every)).as_secs();
        assert_eq!([next(0, 600), next(59, 600), next(60, 600), next(600, 600), next(661, 600)], [60, 1, 600, 60, 599]);
        assert_eq!([next(3600, 3600), next(3660, 3600), next(10, 10)], [60, 3600, 1]);
    }
}
