//! Values from before the records in memory: those of an archive that `ibnet-view pack` writes.
//!
//! The archive is read by the code of `ibnet-view`, with the columns and the hosts that a query needs.
//! So values of the archive are equal to those of the same records in memory.

use std::path::PathBuf;

use ibnet_analysis::hosts::{Hosts, host_of};
use ibnet_analysis::input::{self, Fold, Inputs};
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::{Record, Type};
use ibnet_store::archive;
use ibnet_store::schema::TableName;

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

    /// Returns the start of the oldest hour, in nanoseconds since 1970. `None` without any.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        let files = archive::Archive::open(&self.folder)?.files(TableName::Ports).ok()?;
        files.iter().map(|(hour, _)| hour.start()).min()
    }

    /// Folds the records of a time range. The result is `empty` without an archive.
    pub(crate) fn read<F: Fold>(&self, empty: F, from: u64, to: u64) -> Result<F, ApiError> {
        if from >= to || archive::Archive::open(&self.folder).is_none() {
            return Ok(empty);
        }
        let inputs = Inputs { files: vec![self.folder.clone()], from: Some(from), to: Some(to) };
        let read = input::read(&inputs, &empty).map_err(|error| ApiError::failed(format!("cannot read the archive: {error}")))?;
        Ok(read.0)
    }
}

/// Gives the records of one port to a fold.
#[derive(Clone, Debug)]
pub(crate) struct OfPort<F> {
    key: PortKey,
    hosts: Hosts,
    fields: Vec<String>,
    pub(crate) fold: F,
}

impl<F> OfPort<F> {
    /// Creates a fold for a port of this node. `None` if the name of the node is no host name.
    pub(crate) fn new(key: PortKey, node: &str, fields: Vec<String>, fold: F) -> Option<Self> {
        Some(Self { key, hosts: Hosts::parse(host_of(node)).ok()?, fields, fold })
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

/// Returns the fields that metrics need.
pub(crate) fn fields<'m>(metrics: impl IntoIterator<Item = &'m ibnet_analysis::metric::Metric>) -> Vec<String> {
    let of_metrics = metrics.into_iter().flat_map(ibnet_analysis::metric::Metric::fields);
    FIELDS.iter().map(ToString::to_string).chain(of_metrics).collect()
}
