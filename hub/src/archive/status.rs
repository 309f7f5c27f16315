//! The condition of the packing, as `health` reports it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// The condition of the packing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Status {
    /// Folder of the archive.
    pub(crate) folder: String,
    /// Time in nanoseconds since 1970; all lines that arrived before it are in the archive. `None`
    /// before the first run.
    pub(crate) packed_ns: Option<u64>,
    /// Duration of the last run in nanoseconds.
    pub(crate) duration_ns: Option<u64>,
    /// Number of records that were added since the hub started.
    pub(crate) added: u64,
    /// Number of records that the archive already had.
    pub(crate) copies: u64,
    /// Number of lines that are not records.
    pub(crate) malformed: u64,
    /// Number of damaged frames of the spool: batches of lines that are lost for the archive.
    pub(crate) damaged: u64,
    /// Number of records that were not added, because retention had removed their hour.
    pub(crate) expired: u64,
    /// Number of files that retention removed, because of their age or the size of their table.
    pub(crate) files_removed: u64,
    /// Number of rows that were written into the archive, including rewritten ones.
    pub(crate) written: u64,
    /// Size of the spool in bytes: the lines that wait to be packed.
    pub(crate) spool_octets: u64,
    /// Max size of the spool in bytes, from the configuration.
    pub(crate) spool_max_octets: u64,
    /// Free space of the disk of the archive in bytes. `None` if it is not known.
    pub(crate) free_octets: Option<u64>,
    /// Number of lines that could not be added to the spool.
    pub(crate) lines_lost: u64,
    /// Why the spool does not accept lines, why the last run failed, or why lines wait too long.
    pub(crate) error: Option<String>,
    #[serde(skip)]
    faults: Faults,
}

/// The faults of the [parts](Part) of the archive that do not work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Faults {
    spool: Option<String>,
    packing: Option<String>,
    /// Faults of the readers of files and of streams, by their names.
    readers: BTreeMap<String, String>,
    backlog: Option<String>,
}

/// A part of the packing that can fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Writing lines to the spool.
    Spool,
    /// Packing the spool into the archive.
    Packing,
    /// Waiting lines, and free space on the disk.
    Backlog,
}

/// The condition, shared by the threads.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Status>);

impl Shared {
    pub(crate) fn new(folder: String) -> Self {
        Self(Mutex::new(Status {
            folder,
            ..Status::default()
        }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Status> {
        // After a panic of another thread, the numbers are still valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Status {
    /// Returns the faults of the spool, of the packing, of the readers and of the backlog.
    pub(crate) fn faults(&self) -> [Option<String>; 4] {
        let Faults {
            spool,
            packing,
            readers,
            backlog,
        } = &self.faults;
        [
            spool.clone(),
            packing.clone(),
            readers.values().next().cloned(),
            backlog.clone(),
        ]
    }

    pub(crate) fn set_fault(&mut self, part: Part, fault: Option<String>) {
        match part {
            Part::Spool => self.faults.spool = fault,
            Part::Packing => self.faults.packing = fault,
            Part::Backlog => self.faults.backlog = fault,
        }
        self.error = self.faults().into_iter().flatten().next();
    }

    /// Sets or clears the fault of a reader. A stream reader is named by its consumer, a file
    /// reader by the path of its positions.
    pub(crate) fn set_reader_fault(&mut self, name: &str, fault: Option<String>) {
        match fault {
            Some(fault) => drop(self.faults.readers.insert(name.to_owned(), fault)),
            None => drop(self.faults.readers.remove(name)),
        }
        self.error = self.faults().into_iter().flatten().next();
    }
}

/// Returns the text of an error with its causes and its remedy.
pub(crate) fn with_help(error: &dyn miette::Diagnostic) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    match error.help() {
        Some(help) => format!("{text}; {help}"),
        None => text,
    }
}
