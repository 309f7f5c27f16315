//! Continues the records of an archive with records in memory, as one sequence.
//!
//! The state of each port carries over from its last record in the archive: the last readings of
//! its counters, the time that other samplers describe, and the records that wait for another
//! sampler. The result is therefore the same as if all records were in the archive.

use std::path::Path;

use ibnet_record::types::PortNum;
use rayon::prelude::*;

use super::archive::Archives;
use super::archive_files::{ArchiveFiles, ArchiveNotes};
use super::key::Key;
use super::selection::Selection;
use super::shard::Shard;
use super::{Fold, fold_streams, limits, merged};
use crate::error::AnalysisError;
use crate::ports::PortKey;
use crate::record::{Record, Type};

/// Records in memory, which continue those of an archive.
pub trait Later: Sync {
    /// Returns the ports with records.
    fn ports(&self) -> Vec<PortKey>;

    /// Calls `add` once with the records of a port, in any order. Records that are not later than
    /// the last one of this port in the archive are ignored.
    fn records(&self, key: PortKey, add: &mut dyn FnMut(Vec<Record<'_>>));

    /// Returns the events of ports and devices that are not in the archive, in any order.
    fn events(&self) -> Vec<Record<'_>>;
}

/// Folds the records of an archive, and then those in memory. `from` and `to` are the time range,
/// as in [`Inputs`](super::Inputs). Also returns what was unusual about the archive files.
///
/// # Errors
/// Returns an error if a file of the archive is unreadable.
pub fn read_and_continue<F: Fold>(
    archive: &Path,
    (from, to): (u64, u64),
    empty: &F,
    later: &dyn Later,
) -> Result<(F, ArchiveNotes), AnalysisError> {
    let mut files = ArchiveFiles::starts(std::iter::once(archive))?;
    let reach_ns =
        limits::REACH_NS.max(files.longest_interval_ns()?.unwrap_or(0).saturating_mul(4));
    let selection = Selection::new(empty, Some(from), Some(to), reach_ns);
    files.select(&selection)?;
    let mut archives = Archives::new(files, 0);
    archives.allow_minutes(empty, &selection);
    let add_later = |shards: &mut [Shard<F>]| add_later(shards, later, &selection);
    let shards = fold_streams(
        &mut [],
        &mut archives,
        empty,
        &selection,
        &|_| {},
        &add_later,
    )?;
    Ok((merged(shards.unwrap_or_default(), empty), archives.notes))
}

fn add_later<F: Fold>(shards: &mut [Shard<F>], later: &dyn Later, selection: &Selection) {
    let mut ports: Vec<Vec<PortKey>> = vec![Vec::new(); shards.len()];
    later
        .ports()
        .into_iter()
        .for_each(|key| ports[Key::of_port(key.0, key.1).shard()].push(key));
    let mut events: Vec<Vec<Record<'_>>> = vec![Vec::new(); shards.len()];
    for record in later.events() {
        let Record::Event(event) = &record else {
            continue;
        };
        if let Some(guid) = event
            .guid
            .filter(|_| selection.needs(Type::Event, event.ts))
        {
            // All events of a device belong to the shard of its ports.
            events[Key::of_port(guid, PortNum(0)).shard()].push(record);
        }
    }
    shards
        .par_iter_mut()
        .zip(ports)
        .zip(events)
        .for_each(|((shard, mut ports), mut events)| {
            ports.sort_unstable();
            for key in ports {
                let is_of_port =
                    |record: &mut Record<'_>| place(record) == (Some(key.0), Some(key.1));
                let mut of_port: Vec<Record<'_>> = events.extract_if(.., is_of_port).collect();
                later.records(key, &mut |records| {
                    // The records of both sources live as long as this call.
                    let all = records.into_iter().chain(of_port.drain(..)).collect();
                    shard.continue_port(Key::of_port(key.0, key.1), all, selection);
                });
            }
            // These events belong to no port.
            events.sort_by_key(|record| {
                if let Record::Event(event) = record {
                    event.ts
                } else {
                    0
                }
            });
            events.iter().for_each(|record| shard.fold.add(record));
        });
}

/// Returns the device and the port of an event.
fn place(record: &Record<'_>) -> (Option<ibnet_record::types::Guid>, Option<PortNum>) {
    if let Record::Event(event) = record {
        (event.guid, event.port)
    } else {
        (None, None)
    }
}
