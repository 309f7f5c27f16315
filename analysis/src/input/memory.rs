//! Folds records that are already in memory, by the same rules as records from files.

use super::Fold;
use super::edge::Edges;
use super::limits;
use super::merge::{Dropped, PortMerge};
use super::selection::Selection;
use super::shard::{fold_sorted, put};
use crate::record::{Port, Record};

/// Folds all records and events of one port, in any order and from any number of samplers. `from`
/// and `to` are the time range, as in [`Inputs`](super::Inputs).
///
/// The fold gets the same records as if [`read`](super::read) had read them from files. Records
/// up to [`REACH_NS`] before and after the time range determine the counters at its edges, so
/// `records` must contain them.
pub fn fold_port<'a, F: Fold>(
    records: Vec<Record<'a>>,
    from: Option<u64>,
    to: Option<u64>,
    fold: &mut F,
) {
    let selection = Selection::of_records(fold, from, to, limits::REACH_NS);
    let (mut edges, mut dropped, mut span) = (Edges::default(), Dropped::default(), None);
    fold_sorted(
        records,
        PortMerge::<Port<'a>>::default(),
        &selection,
        &mut dropped,
        fold,
        &mut |fold, record| {
            put(fold, &mut span, &mut edges, record, &selection);
        },
    );
}

/// Time in nanoseconds before and after a time range in which records determine the counters at
/// the edges of the range.
pub const REACH_NS: u64 = limits::REACH_NS;
