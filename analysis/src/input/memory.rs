//! Folds records that are already in memory, by the same rules as records from files.

use super::Fold;
use super::edge::Edges;
use super::limits;
use super::merge::{Dropped, PortMerge};
use super::selection::Selection;
use super::shard::{identity, is_copy, put};
use crate::record::{Port, Record, Type};

/// Folds all records and events of one port. They can be in any order, and of any number of
/// samplers. `from` and `to` are the time range, as in [`Inputs`](super::Inputs).
///
/// The fold gets what it would get if the records were read from files with
/// [`read`](super::read). Records up to [`REACH_NS`] before and after the time range determine the
/// counters at its edges, so they belong to `records`.
pub fn fold_port<'a, F: Fold>(mut records: Vec<Record<'a>>, from: Option<u64>, to: Option<u64>, fold: &mut F) {
    let selection = Selection::new(fold, from, to, limits::REACH_NS);
    records.retain(|record| {
        let (kind, ts) = head(record);
        selection.needs(kind, ts)
    });
    records.sort_by_cached_key(|record| (head(record).1, identity(record)));
    records.dedup_by(|later, earlier| head(later).1 == head(earlier).1 && is_copy(earlier, later));
    let (mut merge, mut edges, mut dropped, mut span) = (PortMerge::<Port<'a>>::default(), Edges::default(), Dropped::default(), None);
    for record in records {
        match record {
            Record::Port(port) => {
                let mut put = |port: Port<'_>| put(fold, &mut span, &mut edges, port, &selection);
                merge.add(port, Port::clone, selection.uses_counters, &mut dropped, &mut put);
            }
            record => fold.add(&record),
        }
    }
    merge.finish(selection.uses_counters, &mut dropped, &mut |port| put(fold, &mut span, &mut edges, port, &selection));
}

/// Time in nanoseconds before and after a time range in which records determine the counters at
/// the edges of the range.
pub const REACH_NS: u64 = limits::REACH_NS;

fn head(record: &Record<'_>) -> (Type, u64) {
    match record {
        Record::Start(record) => (Type::Start, record.ts),
        Record::Port(record) => (Type::Port, record.ts),
        Record::Sweep(record) => (Type::Sweep, record.ts),
        Record::Histogram(record) => (Type::Histogram, record.ts),
        Record::Event(record) => (Type::Event, record.ts),
    }
}
