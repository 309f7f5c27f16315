//! Reads values that are older than the records in memory from an archive.
//!
//! The code of `ibnet-view` reads the archive, limited to the columns and hosts that a query needs.
//! The records in memory continue those of the archive as one sequence: last counter readings and
//! the records of two samplers are joined across the border.

use std::path::PathBuf;
use std::sync::Once;

use ibnet_analysis::hosts::{Hosts, host_of};
use ibnet_analysis::input::Fold;
use ibnet_analysis::input::continued::{self, Later};
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::{Record, Type};
use ibnet_store::archive;
use ibnet_store::hour::Hour;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use rustc_hash::FxHashSet;

use crate::query::error::ApiError;

/// An archive. Its folder may be created later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
}

impl Archive {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn exists(&self) -> bool {
        archive::Archive::open(&self.folder).is_some()
    }

    /// Returns the start of the oldest hour with records or their one-minute means, in nanoseconds
    /// since 1970. `None` if the archive has neither.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let archive = archive::Archive::open(&self.folder)?;
        let first = |table| archive.first_hour(table).ok().flatten();
        [TableName::Ports, TableName::PortsMinute]
            .into_iter()
            .filter_map(first)
            .map(Hour::start)
            .min()
    }

    /// Folds the records of a time range: first those of the archive, then those in memory.
    pub(crate) fn read<F: Fold>(
        &self,
        empty: F,
        range: (u64, u64),
        later: &dyn Later,
    ) -> Result<F, ApiError> {
        let (fold, notes) =
            continued::read_and_continue(&self.folder, range, &empty, later).map_err(failed)?;
        if notes.without_checksums > 0 {
            static NOTED: Once = Once::new();
            NOTED.call_once(|| {
                tracing::info!(folder = %self.folder.display(), "files of the archive have no checksums, so damage to them can remain undetected");
            });
        }
        Ok(fold)
    }

    /// Returns the times of the events of a time range, in nanoseconds since 1970.
    pub(crate) fn event_times(&self, (from, to): (u64, u64)) -> Result<FxHashSet<u64>, ApiError> {
        let mut times = FxHashSet::default();
        let Some(archive) = archive::Archive::open(&self.folder) else {
            return Ok(times);
        };
        let is_time: Vec<bool> = TableName::Events
            .schema()
            .columns
            .iter()
            .map(|column| column.name == "ts")
            .collect();
        for (_, path) in archive
            .files(TableName::Events)
            .map_err(failed)?
            .iter()
            .filter(|(hour, _)| hour.end() > from && hour.start() < to)
        {
            let file = ArchiveFile::open(path).map_err(failed)?;
            for group in 0..file.groups() {
                let table = file.read(group, &is_time).map_err(failed)?;
                times.extend((0..table.len()).map(|row| table.ts(row)));
            }
        }
        Ok(times)
    }
}

fn failed(error: impl std::fmt::Display) -> ApiError {
    ApiError::failed(format!("cannot read the archive: {error}"))
}

/// Passes only the records of one port on to a fold.
#[derive(Clone, Debug)]
pub(crate) struct OfPort<F> {
    key: PortKey,
    hosts: Hosts,
    fields: Vec<String>,
    pub(crate) fold: F,
}

impl<F> OfPort<F> {
    /// Creates a fold for a port of this node. `None` if the name of the node is not a host name.
    pub(crate) fn new(key: PortKey, node: &str, fields: Vec<String>, fold: F) -> Option<Self> {
        Some(Self {
            key,
            hosts: Hosts::parse(host_of(node)).ok()?,
            fields,
            fold,
        })
    }
}

impl<F: Fold> Fold for OfPort<F> {
    fn uses(&self, kind: Type) -> bool {
        self.fold.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.fold.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(self.fields.clone())
    }

    fn hosts(&self) -> Option<&Hosts> {
        Some(&self.hosts)
    }

    fn add(&mut self, record: &Record<'_>) {
        if matches!(record, Record::Port(port) if port.key() == self.key) {
            self.fold.add(record);
        }
    }

    fn merge(&mut self, other: Self) {
        self.fold.merge(other.fold);
    }
}

/// Fields of port records that every value needs.
pub(crate) const FIELDS: [&str; 4] = ["status", "mads", "rtt_ns", "saturated"];

pub(crate) fn fields<'m>(
    metrics: impl IntoIterator<Item = &'m ibnet_analysis::metric::Metric>,
) -> Vec<String> {
    let of_metrics = metrics
        .into_iter()
        .flat_map(ibnet_analysis::metric::Metric::fields);
    FIELDS
        .iter()
        .map(ToString::to_string)
        .chain(of_metrics)
        .collect()
}
