//! Packs the spool into the archive, on a thread of its own.
//!
//! A run begins shortly after a period ends, such as every full ten minutes, so that late lines of
//! the period are part of it. It also begins when the hub starts and finds files of an earlier
//! hub, and when the spool is half full. A failed run is repeated.
//!
//! A run packs a limited number of lines, and the pause after it is at least as long as the run,
//! so packing takes at most half of a core. The thread has a low priority because the web page
//! comes first. If lines wait too long, the pauses and the low priority are dropped until the
//! spool is packed.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet_store::error::StoreError;
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::retain::{self, Removed};
use miette::Diagnostic;

use super::spool::{self, Oldest, Spool, SpoolError};
use super::status::{Part, Shared, with_help};
use crate::config::Packing;
use crate::error::HubError;
use crate::events::EventRow;
use crate::ingest::Clock;
use crate::state::Hub;
use crate::threads::Threads;

/// Time between two checks of what is due.
const TICK: Duration = Duration::from_secs(1);

/// Interval at which lines are made durable. A hub that is killed loses no lines, and a host that
/// loses power loses those since the last time. Files and JetStream are then read again.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// Pause before a failed run is repeated.
const PAUSE: Duration = Duration::from_secs(30);

/// Max number of rows in memory. More rows go to staged files. A row takes about 300 bytes.
const MAX_ROWS: usize = 1 << 19;

/// Bytes of the spool that one run packs: about five million records.
const RUN: u64 = 512 << 20;

/// Nice value of a run, because the web page comes first. At 15, programs of low priority, such as
/// compilers, left nearly no time for packing.
const NICE: i32 = 10;

/// Time beyond one period for which lines may wait before the runs go on without pauses and at the
/// usual priority.
const BEHIND: Duration = Duration::from_secs(120);

/// Time beyond two periods for which lines may wait before this is reported as a fault.
const FAULT: Duration = Duration::from_secs(300);

/// Free disk space below which a fault is reported.
const MIN_FREE: u64 = 1 << 30;

/// Parts of the packing, each with the event of its fault.
const PARTS: [(&str, &str); 4] = [
    ("spool", "archive_failed"),
    ("packing", "archive_failed"),
    ("reader", "archive_failed"),
    ("backlog", "archive_behind"),
];

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

/// Starts the threads.
///
/// # Errors
/// Returns an error if a thread cannot be started.
pub(crate) fn start(
    hub: Arc<Hub>,
    packing: Packing,
    spool: Arc<Spool>,
    status: Arc<Shared>,
    clock: Clock,
    threads: &Threads,
) -> Result<(), HubError> {
    let lower = |_| {
        // Without the permission, the thread keeps the usual priority.
        let _ = rustix::process::setpriority_process(None, NICE);
    };
    // The steps of a run use one thread at a time. There are two threads because a thread cannot
    // raise its priority again.
    let pool = || {
        rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(|_| "pack".to_owned())
    };
    let failed = |error| HubError::Thread(std::io::Error::other(error));
    let pools = Pools {
        low: pool().start_handler(lower).build().map_err(failed)?,
        usual: pool().build().map_err(failed)?,
    };
    let (of_thread, of_status) = (Arc::clone(&spool), Arc::clone(&status));
    let sync = move || loop {
        thread::sleep(SYNC_EVERY);
        if let Err(error) = of_thread.sync() {
            of_status
                .lock()
                .set_fault(Part::Spool, Some(with_help(&error)));
        }
    };
    threads.start("spool", sync).map_err(HubError::Thread)?;
    let mut work = Work {
        pools: Some(pools),
        ..Work::new(hub, packing, spool, status, clock)
    };
    threads
        .start("packing", move || work.run())
        .map_err(HubError::Thread)
}

/// Threads for the steps of a run.
struct Pools {
    low: rayon::ThreadPool,
    usual: rayon::ThreadPool,
}

/// State of the packing thread.
pub(super) struct Work {
    hub: Arc<Hub>,
    packing: Packing,
    spool: Arc<Spool>,
    status: Arc<Shared>,
    clock: Clock,
    /// Whether each part failed at the last check.
    is_failing: [bool; PARTS.len()],
    /// Bytes of the spool that one run packs.
    run: u64,
    /// `None`: the steps of a run use the caller's thread.
    pools: Option<Pools>,
}

impl Work {
    pub(super) const fn new(
        hub: Arc<Hub>,
        packing: Packing,
        spool: Arc<Spool>,
        status: Arc<Shared>,
        clock: Clock,
    ) -> Self {
        Self {
            hub,
            packing,
            spool,
            status,
            clock,
            is_failing: [false; PARTS.len()],
            run: RUN,
            pools: None,
        }
    }

    /// Sets how many bytes of the spool one run packs.
    #[cfg(test)]
    pub(super) fn with_run(self, octets: u64) -> Self {
        Self {
            run: octets,
            ..self
        }
    }

    fn run(&mut self) {
        // Files of an earlier hub are packed at once.
        let (mut due, mut is_done) = (Duration::ZERO, true);
        loop {
            let now = self.clock.now();
            if now.monotonic >= due || (is_done && self.is_urgent(now.wall_ns)) {
                let result = self.pack(now.wall_ns);
                is_done = result.is_ok();
                let is_all = *result.as_ref().unwrap_or(&true);
                self.status
                    .lock()
                    .set_fault(Part::Packing, result.err().map(|error| with_help(&error)));
                let begin = now.monotonic;
                let now = self.clock.now();
                let next = until_next(now.wall_ns, self.packing.every);
                let pause = if is_done {
                    pause(now.monotonic.saturating_sub(begin), next, is_all)
                } else {
                    PAUSE.min(next)
                };
                due = now.monotonic + pause;
            }
            self.check(self.clock.now().wall_ns);
            self.report();
            thread::sleep(TICK);
        }
    }

    /// Returns whether the spool is half full or lines have waited too long.
    fn is_urgent(&self, now_ns: u64) -> bool {
        self.spool.is_half_full() || self.waiting(now_ns) > self.packing.every + BEHIND
    }

    /// Runs one step of a run. Lines can become urgent during a run, so each step chooses
    /// its priority.
    fn step<R: Send>(&self, step: impl FnOnce() -> R + Send) -> R {
        match &self.pools {
            Some(pools) if self.is_urgent(self.clock.now().wall_ns) => pools.usual.install(step),
            Some(pools) => pools.low.install(step),
            None => step(),
        }
    }

    /// Returns how long the oldest complete file of the spool has waited.
    fn waiting(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(
            self.spool
                .waiting_since()
                .map_or(0, |since| now_ns.saturating_sub(since)),
        )
    }

    /// Packs the oldest files of the spool, and removes the oldest hours of the archive. Returns
    /// whether all lines are packed.
    pub(super) fn pack(&self, now_ns: u64) -> Result<bool, PackError> {
        let begin = self.clock.now().monotonic;
        let Oldest { files, is_all } = self.spool.oldest(self.run)?;
        let packed_ns = if is_all {
            Some(now_ns)
        } else {
            files.last().and_then(|path| spool::written_ns(path))
        };
        if !files.is_empty() {
            let packed = self.pack_files(&files)?;
            let mut status = self.status.lock();
            status.added += packed.added.values().sum::<u64>();
            status.copies += packed.copies;
            status.expired += packed.expired;
            status.written += packed.written;
        }
        if !self.packing.keep.is_empty() && !files.is_empty() {
            let removed = retain::retain(&self.packing.archive, &self.packing.keep, now_ns, false)?;
            for Removed { table, left, .. } in removed.iter().filter(|removed| removed.left > 0) {
                tracing::warn!(
                    table = table.as_str(),
                    hours = left,
                    "retention wants to remove many hours of the archive at once, so it removes only the oldest ones in each run; check the clock of this host"
                );
            }
            self.status.lock().files_removed +=
                removed.iter().map(|removed| removed.files).sum::<u64>();
        }
        let duration = self.clock.now().monotonic.saturating_sub(begin);
        let mut status = self.status.lock();
        status.packed_ns = packed_ns.or(status.packed_ns);
        status.duration_ns = u64::try_from(duration.as_nanos()).ok();
        Ok(is_all)
    }

    /// Checks how long lines wait, and the free space on the disk.
    pub(super) fn check(&self, now_ns: u64) {
        let waiting = self.waiting(now_ns);
        let free = rustix::fs::statvfs(self.spool.folder())
            .ok()
            .map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        let is_half_full = self.spool.is_half_full();
        let mut status = self.status.lock();
        status.free_octets = free;
        let gib = |octets: u64| octets as f64 / f64::from(1 << 30);
        let fault = if waiting > 2 * self.packing.every + FAULT || is_half_full {
            let waiting = humantime::format_duration(Duration::from_secs(waiting.as_secs()));
            let (octets, most) = (gib(status.spool_octets), gib(status.spool_max_octets));
            Some(format!(
                "packing is slower than the records arrive: lines wait for {waiting} in the spool (found {octets:.1} GiB, limit {most:.1} GiB); \
                 free a core for the hub, query fewer counters, or pack on another host (docs/scaling.md)"
            ))
        } else {
            free.filter(|free| *free < MIN_FREE).map(|free| {
                format!(
                    "the disk of the archive is nearly full (found {:.2} GiB); free space, or set archive_keep_age or archive_keep_total",
                    gib(free)
                )
            })
        };
        status.set_fault(Part::Backlog, fault);
    }

    fn pack_files(&self, files: &[PathBuf]) -> Result<Packed, PackError> {
        let mut packer = Packer::new(&self.packing.archive, PackOptions { verify: true })?
            .with_most_rows(MAX_ROWS);
        let (mut whole, mut damaged, mut malformed) = (Vec::new(), Vec::new(), 0);
        for path in files {
            let mut lines = self.spool.lines(path)?;
            while let Some(text) = lines.read() {
                malformed += self.step(|| {
                    let batch = Batch::parse(&text);
                    let malformed = batch.invalid.len() as u64;
                    packer.add(batch).map(|()| malformed)
                })?;
            }
            if lines.torn > 0 {
                tracing::warn!(
                    file = %path.display(), octets = lines.torn,
                    "the last frame of the spool is incomplete, as after a loss of power or a fault of the disk; its lines are lost for the archive"
                );
            }
            match lines.damaged {
                0 => whole.push(path.clone()),
                frames => damaged.push((path, frames)),
            }
        }
        let packed = self.step(|| packer.finish(&|_, _| {}))?;
        self.status.lock().malformed += malformed;
        self.spool.remove(&whole)?;
        for (path, frames) in damaged {
            self.status.lock().damaged += frames;
            let aside = self.spool.set_aside(path)?;
            tracing::warn!(
                file = %aside.display(), frames,
                "a file of the spool is damaged; the lines of its damaged frames are lost for the archive, the file is kept; check the disk"
            );
        }
        Ok(packed)
    }

    /// Reports parts that have begun to fail or to work again.
    pub(super) fn report(&mut self) {
        let faults = self.status.lock().faults();
        for (((name, event), fault), was_failing) in
            PARTS.into_iter().zip(faults).zip(&mut self.is_failing)
        {
            let is_failing = fault.is_some();
            if is_failing == std::mem::replace(was_failing, is_failing) {
                continue;
            }
            let wall_ns = self.clock.now().wall_ns;
            let row = match fault {
                Some(fault) => {
                    tracing::warn!(part = name, error = ?fault, "a part of the archive does not work; see the error and the page Samplers");
                    EventRow::of_hub(wall_ns, event, fault)
                }
                None => {
                    tracing::info!(part = name, "this part of the archive works again");
                    EventRow::of_hub(wall_ns, "archive_back", format!("the {name} works again"))
                }
            };
            self.hub.write().events.add(row);
        }
    }
}

/// Returns the pause after a run, so that packing takes at most half of the time. If no lines are
/// left, the pause lasts up to the next period.
fn pause(duration: Duration, next: Duration, is_all: bool) -> Duration {
    if is_all { next.max(duration) } else { duration }
}

/// Returns the time until the next run: a tenth of the period, at most a minute, after the
/// period ends.
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
    fn packing_takes_at_most_half_of_the_time() {
        let seconds = |duration, next, is_all| {
            pause(
                Duration::from_secs(duration),
                Duration::from_secs(next),
                is_all,
            )
            .as_secs()
        };
        assert_eq!(
            [
                seconds(3, 10, true),
                seconds(30, 10, true),
                seconds(3, 10, false)
            ],
            [10, 30, 3]
        );
    }

    #[test]
    fn run_begins_shortly_after_a_full_period() {
        let next = |second: u64, every: u64| {
            until_next(
                (36_000 + second) * 1_000_000_000,
                Duration::from_secs(every),
            )
            .as_secs()
        };
        assert_eq!(
            [
                next(0, 600),
                next(59, 600),
                next(60, 600),
                next(600, 600),
                next(661, 600)
            ],
            [60, 1, 600, 60, 599]
        );
        assert_eq!(
            [next(3600, 3600), next(3660, 3600), next(10, 10)],
            [60, 3600, 1]
        );
    }
}
