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
pub fn fold_port<'a, F: Fold>(records: Vec<Record<'a>>, from: Option<u64>, to: Option<u64>, fold: &mut F) {
    let selection = Selection::new(fold, from, to, limits::REACH_NS);
    let (mut edges, mut dropped, mut span) = (Edges::default(), Dropped::default(), None);
    fold_sorted(records, PortMerge::<Port<'a>>::default(), &selection, &mut dropped, fold, &mut |fold, record| {
        put(fold, &mut span, &mut edges, record, &selection);
    });
}

/// Folds the last records of a port behind those that `merge` has. `put_record` gets each port record
/// that is final, and the fold.
pub(super) fn fold_sorted<'a, F: Fold>(
    mut records: Vec<Record<'a>>,
    mut merge: PortMerge<Port<'a>>,
    selection: &Selection,
    dropped: &mut Dropped,
    fold: &mut F,
    put_record: &mut dyn FnMut(&mut F, &mut Record<'_>),
) {
    records.retain(|record| {
        let (kind, ts) = head(record);
        selection.needs(kind, ts)
    });
    records.sort_by_cached_key(|record| (head(record).1, identity(record)));
    records.dedup_by(|later, earlier| head(later).1 == head(earlier).1 && is_copy(earlier, later));
    for mut record in records {
        if let Record::Port(_) = record {
            merge.add(&mut record, Port::clone, selection.uses_counters, dropped, &mut |record| put_record(fold, record));
        } else {
            fold.add(&record);
        }
    }
    merge.finish(selection.uses_counters, dropped, &mut |record| put_record(fold, record));
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
