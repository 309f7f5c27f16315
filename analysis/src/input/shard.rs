//! A part of all ports: sorts the lines of each port and folds its records.

use rustc_hash::FxHashMap;

use super::Fold;
use super::bounds::Bounds;
use super::edge::Edges;
use super::merge::{Dropped, PortMerge};
use super::selection::Selection;
use super::stream::{Chunk, Key, LineRef, joined};
use crate::record::{Port, Record, Type};

/// A part of all ports, and the fold of their records.
pub(super) struct Shard<F> {
    pub(super) fold: F,
    /// Lines that are not folded yet.
    waiting: Vec<LineRef>,
    ports: FxHashMap<Key, PortState>,
    bounds: Bounds,
    pub(super) counts: ShardCounts,
}

#[derive(Debug, Default)]
struct PortState {
    merge: PortMerge<Box<[u8]>>,
    edges: Edges,
}

/// Counts of a part.
#[derive(Debug, Default)]
pub(super) struct ShardCounts {
    pub(super) dropped: Dropped,
    /// For each file: number of invalid lines, and line number and fault of the first one.
    pub(super) invalid: FxHashMap<usize, (u64, u64, String)>,
    /// Earliest start and latest end of the intervals within the selected time.
    pub(super) span: Option<(u64, u64)>,
}

/// The chunks in memory by their numbers.
#[derive(Default)]
pub(super) struct Chunks(Vec<Option<Chunk>>);

impl Chunks {
    /// Keeps a chunk and returns its number.
    pub(super) fn put(&mut self, chunk: Chunk) -> u32 {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(chunk);
        free as u32
    }

    /// Drops the chunks that contain only lines older than `before`.
    pub(super) fn free(&mut self, before: u64) {
        self.0.iter_mut().filter(|chunk| chunk.as_ref().is_some_and(|chunk| chunk.latest < before)).for_each(|chunk| *chunk = None);
    }

    fn line(&self, line: &LineRef) -> Option<(&Chunk, &[u8])> {
        let chunk = self.0.get(line.chunk as usize)?.as_ref()?;
        Some((chunk, chunk.line(line)))
    }
}

impl<F: Fold> Shard<F> {
    pub(super) fn new(fold: F) -> Self {
        Self { fold, waiting: Vec::new(), ports: FxHashMap::default(), bounds: Bounds::default(), counts: ShardCounts::default() }
    }

    pub(super) fn put(&mut self, line: LineRef) {
        self.waiting.push(line);
    }

    /// Folds all lines that are older than `before`. If `before` is `None`, folds all lines.
    pub(super) fn fold_before(&mut self, before: Option<u64>, chunks: &Chunks, selection: &Selection) {
        let is_ready = |line: &LineRef| before.is_none_or(|before| line.ts < before);
        let mut ready: Vec<LineRef> = self.waiting.extract_if(.., |line| is_ready(line)).collect();
        ready.sort_unstable_by_key(|line| (line.key, line.ts));
        for of_key in ready.chunk_by(|a, b| a.key == b.key) {
            for at_once in of_key.chunk_by(|a, b| a.ts == b.ts) {
                self.add(at_once, chunks, selection);
            }
        }
    }

    /// Folds the records that still wait for a record of another sampler.
    pub(super) fn finish(&mut self, selection: &Selection) {
        let mut ports: Vec<(Key, PortState)> = std::mem::take(&mut self.ports).into_iter().collect();
        ports.sort_unstable_by_key(|(key, _)| *key);
        for (_, PortState { mut merge, mut edges }) in ports {
            let Self { fold, counts, .. } = self;
            let ShardCounts { dropped, span, .. } = counts;
            merge.finish(selection.uses_counters, dropped, &mut |port| put(fold, span, &mut edges, port, selection));
        }
    }

    /// Folds the lines of one key and one point in time.
    fn add(&mut self, lines: &[LineRef], chunks: &Chunks, selection: &Selection) {
        let mut records: Vec<(Record<'_>, &[u8])> = Vec::with_capacity(lines.len());
        for line in lines {
            let Some((chunk, text)) = chunks.line(line) else { continue };
            let is_brief = line.kind == Type::Port && !selection.uses_counters;
            match if is_brief { Record::parse_without_counters(text) } else { Record::parse(text, line.kind) } {
                Ok(record) => match self.bounds.check(line.key, &record) {
                    Ok(()) => records.push((record, text)),
                    Err(limit) => self.counts.add_invalid(chunk.file, chunk.number(line), &limit),
                },
                Err(error) => self.counts.add_invalid(chunk.file, chunk.number(line), &error),
            }
        }
        if records.len() > 1 {
            // The result must not depend on the order of the input.
            records.sort_by_cached_key(|(record, text)| (identity(record), *text));
            let before = records.len();
            records.dedup_by(|(later, _), (earlier, _)| is_copy(earlier, later));
            self.counts.dropped.copies += (before - records.len()) as u64;
        }
        let Self { fold, ports, counts, .. } = self;
        let ShardCounts { dropped, span, .. } = counts;
        for (record, text) in records {
            match record {
                Record::Port(port) if selection.uses_every_query => {
                    if selection.contains(port.ts) {
                        let time = port.time.and_then(|time| time.within(selection.from, selection.to));
                        *span = joined(*span, time.map(|time| (time.from(), time.to())));
                        fold.add(&Record::Port(port));
                    }
                }
                Record::Port(port) => {
                    let PortState { merge, edges } = ports.entry(lines[0].key).or_default();
                    merge.add(port, |_| text.into(), selection.uses_counters, dropped, &mut |port| put(fold, span, edges, port, selection));
                }
                record => fold.add(&record),
            }
        }
    }
}

/// Cuts a record to the selected time and folds it.
pub(super) fn put<F: Fold>(fold: &mut F, span: &mut Option<(u64, u64)>, edges: &mut Edges, port: Port<'_>, selection: &Selection) {
    let mut add = |port: Port<'_>| {
        for time in [port.time, port.blocked_time].into_iter().flatten() {
            *span = joined(*span, Some((time.from(), time.to())));
        }
        fold.add(&Record::Port(port));
    };
    if selection.is_range {
        edges.cut(port, selection, &mut add);
    } else {
        add(port);
    }
}

/// Returns the text by which records of one time are sorted. Copies have equal texts.
pub(super) fn identity(record: &Record<'_>) -> String {
    match record {
        Record::Port(port) => format!("{} {}", u8::from(port.is_secondary()), port.sampler),
        record => format!("{record:?}"),
    }
}

/// Returns whether two records of one time and one key are the same record.
pub(super) fn is_copy(a: &Record<'_>, b: &Record<'_>) -> bool {
    match (a, b) {
        (Record::Port(a), Record::Port(b)) => a.sampler == b.sampler,
        (a, b) => a == b,
    }
}

impl ShardCounts {
    fn add_invalid(&mut self, file: usize, number: u64, error: &dyn std::fmt::Display) {
        let (count, first, why) = self.invalid.entry(file).or_insert_with(|| (0, number, error.to_string()));
        *count += 1;
        if number < *first {
            (*first, *why) = (number, error.to_string());
        }
    }
}
