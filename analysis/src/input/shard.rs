//! A shard: a fixed part of all ports. It sorts the lines of each of its ports and folds the
//! records.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Fold;
use super::bounds::Bounds;
use super::edge::Edges;
use super::key::Key;
use super::merge::{Dropped, KeptLine, PortMerge, Source};
use super::rows::PortRows;
use super::run::Run;
use super::selection::Selection;
use super::stream::{Chunk, LineRef, joined};
use crate::record::{Port, Record, Type};

/// A shard of all ports, and the fold of their records.
pub(super) struct Shard<F> {
    pub(super) fold: F,
    /// Lines that have not been folded.
    waiting: Vec<LineRef>,
    ports: FxHashMap<Key, PortState>,
    bounds: Bounds,
    pub(super) counts: ShardCounts,
}

/// Consecutive rows of an archive with one key and one sampler, in time order.
#[derive(Clone, Debug)]
pub(super) struct KeyRows {
    pub(super) key: Key,
    pub(super) of: Arc<PortRows>,
    pub(super) rows: Range<usize>,
    /// Index of the file.
    pub(super) file: usize,
}

#[derive(Debug, Default)]
struct PortState {
    merge: PortMerge<KeptLine>,
    edges: Edges,
}

#[derive(Debug, Default)]
pub(super) struct ShardCounts {
    pub(super) dropped: Dropped,
    pub(super) invalid: Invalid,
    /// Earliest start and latest end of the intervals within the selected time range.
    pub(super) span: Option<(u64, u64)>,
}

/// The chunks in memory, by their numbers.
#[derive(Default)]
pub(super) struct Chunks(Vec<Option<Chunk>>);

impl Chunks {
    /// Keeps a chunk and returns its number.
    pub(super) fn put(&mut self, chunk: Chunk) -> u32 {
        let free = self
            .0
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.0.len());
        if free == self.0.len() {
            self.0.push(None);
        }
        self.0[free] = Some(chunk);
        free as u32
    }

    /// Drops the chunks that contain only lines older than `before`.
    pub(super) fn free(&mut self, before: u64) {
        self.0
            .iter_mut()
            .filter(|chunk| chunk.as_ref().is_some_and(|chunk| chunk.latest < before))
            .for_each(|chunk| *chunk = None);
    }

    fn source(&self, line: &LineRef) -> Option<(&Chunk, Source<'_>)> {
        let chunk = self.0.get(line.chunk as usize)?.as_ref()?;
        let source = match &chunk.rows {
            Some(rows) => Source::Row(rows, line.start as usize),
            None => Source::Line(chunk.line(line)),
        };
        Some((chunk, source))
    }
}

impl<F: Fold> Shard<F> {
    pub(super) fn new(fold: F) -> Self {
        Self {
            fold,
            waiting: Vec::new(),
            ports: FxHashMap::default(),
            bounds: Bounds::default(),
            counts: ShardCounts::default(),
        }
    }

    pub(super) fn put(&mut self, line: LineRef) {
        self.waiting.push(line);
    }

    /// Folds all lines that are older than `before`, or all lines if `before` is `None`.
    pub(super) fn fold_before(
        &mut self,
        before: Option<u64>,
        chunks: &Chunks,
        selection: &Selection,
    ) {
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
        let mut ports: Vec<(Key, PortState)> =
            std::mem::take(&mut self.ports).into_iter().collect();
        ports.sort_unstable_by_key(|(key, _)| *key);
        for (
            _,
            PortState {
                mut merge,
                mut edges,
            },
        ) in ports
        {
            let Self { fold, counts, .. } = self;
            let ShardCounts { dropped, span, .. } = counts;
            merge.finish(dropped, &mut |record| {
                put(fold, span, &mut edges, record, selection);
            });
        }
    }

    /// Folds records of a port that continue those so far, and then its last waiting records.
    /// Records that are not later than those so far are ignored.
    pub(super) fn continue_port(
        &mut self,
        key: Key,
        mut records: Vec<Record<'_>>,
        selection: &Selection,
    ) {
        let Self {
            fold,
            ports,
            counts,
            ..
        } = self;
        let ShardCounts { dropped, span, .. } = counts;
        let PortState { merge, mut edges } = ports.remove(&key).unwrap_or_default();
        if let Some(last) = merge.last_ts() {
            records.retain(|record| !matches!(record, Record::Port(port) if port.ts <= last));
        }
        let merge = merge.borrowed();
        fold_sorted(
            records,
            merge,
            selection,
            dropped,
            fold,
            &mut |fold, record| put(fold, span, &mut edges, record, selection),
        );
    }

    /// Returns whether a line older than `time` is waiting.
    pub(super) fn waits_before(&self, time: u64) -> bool {
        self.waiting.iter().any(|line| line.ts < time)
    }

    /// Folds archive rows, which are sorted by key, together with the lines of these keys.
    pub(super) fn fold_runs(
        &mut self,
        runs: &[KeyRows],
        lines: &mut FxHashMap<Key, Vec<LineRef>>,
        chunks: &Chunks,
        selection: &Selection,
    ) {
        for of_key in runs.chunk_by(|a, b| a.key == b.key) {
            let key = of_key[0].key;
            let others = lines.remove(&key).unwrap_or_default();
            match of_key {
                [run] if others.is_empty() && !selection.uses_every_query => {
                    self.fold_run(run, selection);
                }
                _ => self.fold_mixed(of_key, others, chunks, selection),
            }
        }
    }

    /// Folds lines of one key.
    pub(super) fn fold_lines(
        &mut self,
        lines: Vec<LineRef>,
        chunks: &Chunks,
        selection: &Selection,
    ) {
        self.fold_mixed(&[], lines, chunks, selection);
    }

    /// Folds rows of one sampler, which are in time order.
    fn fold_run(&mut self, run: &KeyRows, selection: &Selection) {
        let Self {
            fold,
            ports,
            counts,
            bounds,
            ..
        } = self;
        let ShardCounts {
            dropped,
            span,
            invalid,
        } = counts;
        // All rows have the same port and sampler, so checking one of them is enough.
        let record = |row: usize| Some((row, Record::Port(run.of.record(row).ok()?)));
        let first = run.rows.clone().find_map(record);
        if let Some(Err(limit)) = first
            .as_ref()
            .map(|(_, first)| bounds.check(run.key, first))
        {
            run.rows
                .clone()
                .for_each(|row| add_invalid(invalid, run.file, row as u64 + 1, &limit));
            return;
        }
        let PortState { merge, edges } = ports.entry(run.key).or_default();
        // Most fields of a port change rarely, so a record is made by updating that of the row
        // before.
        let (mut last, mut before, mut change) = (None, None, run.rows.start);
        if let Some((row, first)) = first.filter(|(row, _)| *row == change) {
            (last, change) = (Some(first), run.of.next_change(row));
        }
        // The next row, and the first row at which a run may be tried.
        let (mut next, mut start) = (run.rows.start, run.rows.start);
        while next < run.rows.end {
            let row = next;
            next += 1;
            if let Some(Record::Port(port)) = &last
                && selection.takes_runs
                && row >= start
                && before == Some(port.ts)
                && !port.is_secondary()
                && merge.is_only(&port.sampler)
                && edges.is_past_start()
            {
                let end = if row < change {
                    change.min(run.rows.end)
                } else {
                    row
                };
                if let Some((records, ends)) = Run::new(&run.of, row..end, port, selection)
                    && ends
                        .span
                        .is_none_or(|(start, _)| merge.is_after_others(start))
                {
                    fold.add_run(&records);
                    if selection.is_range && selection.uses_counters {
                        edges.add_run(&records);
                    }
                    merge.continue_after(ends.covered, ends.before, ends.last, port.answered());
                    *span = joined(*span, ends.span);
                    (before, next) = (Some(ends.last.0), records.rows().end);
                    (last, change) = (None, next);
                    continue;
                }
                if row < end {
                    // After each failure, the distance to the next attempt doubles, so failures
                    // cost little.
                    start = row + (row - run.rows.start).max(16);
                }
            }
            let updated = match &mut last {
                Some(Record::Port(port)) if row < change => {
                    run.of.update(port, row);
                    port.check()
                }
                _ => {
                    change = run.of.next_change(row);
                    run.of
                        .record(row)
                        .map(|port| last = Some(Record::Port(port)))
                }
            };
            if let Err(error) = updated {
                add_invalid(invalid, run.file, row as u64 + 1, &error);
                last = None;
                continue;
            }
            let ts = run.of.ts(row);
            if before.replace(ts) == Some(ts) {
                dropped.copies += 1;
                continue;
            }
            if let Some(record) = &mut last {
                let source = Source::Row(&run.of, row);
                merge.add(
                    record,
                    |_| source.keep(selection.uses_counters),
                    dropped,
                    &mut |record| {
                        put(fold, span, edges, record, selection);
                    },
                );
            }
        }
    }

    fn fold_mixed(
        &mut self,
        runs: &[KeyRows],
        lines: Vec<LineRef>,
        chunks: &Chunks,
        selection: &Selection,
    ) {
        enum From<'r> {
            Row(&'r KeyRows, usize),
            Line(LineRef),
        }
        let rows = runs.iter().flat_map(|run| {
            run.rows
                .clone()
                .map(move |row| (run.of.ts(row), From::Row(run, row)))
        });
        let mut all: Vec<(u64, From<'_>)> = rows
            .chain(lines.into_iter().map(|line| (line.ts, From::Line(line))))
            .collect();
        all.sort_by_key(|(ts, _)| *ts);
        for at_once in all.chunk_by(|a, b| a.0 == b.0) {
            let mut records = Vec::with_capacity(at_once.len());
            for (_, from) in at_once {
                match from {
                    From::Row(run, row) => match run.of.record(*row) {
                        Ok(port) => {
                            let record = Record::Port(port);
                            match self.bounds.check(run.key, &record) {
                                Ok(()) => {
                                    records.push((run.key, record, Source::Row(&run.of, *row)));
                                }
                                Err(limit) => add_invalid(
                                    &mut self.counts.invalid,
                                    run.file,
                                    *row as u64 + 1,
                                    &limit,
                                ),
                            }
                        }
                        Err(error) => {
                            add_invalid(
                                &mut self.counts.invalid,
                                run.file,
                                *row as u64 + 1,
                                &error,
                            );
                        }
                    },
                    From::Line(line) => records.extend(self.parse(line, chunks, selection)),
                }
            }
            self.add_records(records, selection);
        }
    }

    /// Parses a line or a row, and counts it if it is invalid.
    fn parse<'c>(
        &mut self,
        line: &LineRef,
        chunks: &'c Chunks,
        selection: &Selection,
    ) -> Option<(Key, Record<'c>, Source<'c>)> {
        let (chunk, source) = chunks.source(line)?;
        let is_brief = line.kind == Type::Port && !selection.uses_counters;
        let parsed = match source {
            Source::Row(rows, row) => rows.record(row).map(Record::Port),
            Source::Line(text) if is_brief => Record::parse_without_counters(text),
            Source::Line(text) => Record::parse(text, line.kind),
        };
        match parsed {
            Ok(record) => match self.bounds.check(line.key, &record) {
                Ok(()) => Some((line.key, record, source)),
                Err(limit) => {
                    add_invalid(
                        &mut self.counts.invalid,
                        chunk.file,
                        chunk.number(line),
                        &limit,
                    );
                    None
                }
            },
            Err(error) => {
                add_invalid(
                    &mut self.counts.invalid,
                    chunk.file,
                    chunk.number(line),
                    &error,
                );
                None
            }
        }
    }

    /// Folds the lines of one key and one point in time.
    fn add(&mut self, lines: &[LineRef], chunks: &Chunks, selection: &Selection) {
        let mut records = Vec::with_capacity(lines.len());
        lines
            .iter()
            .for_each(|line| records.extend(self.parse(line, chunks, selection)));
        self.add_records(records, selection);
    }

    /// Folds the records of one key and one point in time.
    fn add_records(
        &mut self,
        mut records: Vec<(Key, Record<'_>, Source<'_>)>,
        selection: &Selection,
    ) {
        if records.len() > 1 {
            // The order of the input must not matter. A minute's last record can have the same
            // time as the mean of that minute; the record counts.
            records.sort_by_cached_key(|(_, record, source)| {
                (identity(record), source.is_minute(), source.line())
            });
            let before = records.len();
            records.dedup_by(|(_, later, _), (_, earlier, _)| is_copy(earlier, later));
            self.counts.dropped.copies += (before - records.len()) as u64;
        }
        let Self {
            fold,
            ports,
            counts,
            ..
        } = self;
        let ShardCounts { dropped, span, .. } = counts;
        for (key, record, source) in records {
            match record {
                Record::Port(port) if selection.uses_every_query => {
                    if selection.contains(port.ts) {
                        let time = port
                            .time
                            .and_then(|time| time.within(selection.from, selection.to));
                        *span = joined(*span, time.map(|time| (time.from(), time.to())));
                        fold.add(&Record::Port(port));
                    }
                }
                mut record @ Record::Port(_) => {
                    let PortState { merge, edges } = ports.entry(key).or_default();
                    let keep = |_: &_| source.keep(selection.uses_counters);
                    merge.add(&mut record, keep, dropped, &mut |record| {
                        put(fold, span, edges, record, selection);
                    });
                }
                record => fold.add(&record),
            }
        }
    }
}

/// Cuts a record to the selected time range and folds it.
pub(super) fn put<F: Fold>(
    fold: &mut F,
    span: &mut Option<(u64, u64)>,
    edges: &mut Edges,
    record: &mut Record<'_>,
    selection: &Selection,
) {
    let mut add = |record: &mut Record<'_>| {
        let Record::Port(port) = &*record else { return };
        for time in [port.time, port.blocked_time].into_iter().flatten() {
            *span = joined(*span, Some((time.from(), time.to())));
        }
        fold.add(record);
    };
    if selection.is_range {
        edges.cut(record, selection, &mut add);
    } else {
        add(record);
    }
}

/// Folds the last records of a port, which continue those in `merge`. `put_record` gets each
/// final port record, and the fold.
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
    // Records of the same time are rare, and their texts cost more than the sort.
    let texts = |a: &Record<'_>, b: &Record<'_>| identity(a).cmp(&identity(b));
    records.sort_by(|a, b| head(a).1.cmp(&head(b).1).then_with(|| texts(a, b)));
    records.dedup_by(|later, earlier| head(later).1 == head(earlier).1 && is_copy(earlier, later));
    for record in &mut records {
        if let Record::Port(_) = record {
            merge.add(record, Port::clone, dropped, &mut |record| {
                put_record(fold, record);
            });
        } else {
            fold.add(record);
        }
    }
    merge.finish(dropped, &mut |record| {
        put_record(fold, record);
    });
}

/// Returns the type and the time of a record.
fn head(record: &Record<'_>) -> (Type, u64) {
    match record {
        Record::Start(record) => (Type::Start, record.ts),
        Record::Port(record) => (Type::Port, record.ts),
        Record::Sweep(record) => (Type::Sweep, record.ts),
        Record::Histogram(record) => (Type::Histogram, record.ts),
        Record::Event(record) => (Type::Event, record.ts),
        Record::Physical(record) => (record.kind(), record.head.ts),
        Record::Routes(record) => (Type::Routes, record.ts),
    }
}

/// Returns the text by which records of the same time are sorted. Copies have equal texts.
pub(super) fn identity(record: &Record<'_>) -> String {
    match record {
        Record::Port(port) => format!("{} {}", u8::from(port.is_secondary()), port.sampler),
        record => format!("{record:?}"),
    }
}

/// Returns whether two records of the same time and key are copies.
pub(super) fn is_copy(a: &Record<'_>, b: &Record<'_>) -> bool {
    match (a, b) {
        (Record::Port(a), Record::Port(b)) => a.sampler == b.sampler,
        (a, b) => a == b,
    }
}

/// For each file, the number of invalid lines, and the line number and fault of the first one.
type Invalid = FxHashMap<usize, (u64, u64, String)>;

fn add_invalid(invalid: &mut Invalid, file: usize, number: u64, error: &dyn std::fmt::Display) {
    let (count, first, why) = invalid
        .entry(file)
        .or_insert_with(|| (0, number, error.to_string()));
    *count += 1;
    if number < *first {
        (*first, *why) = (number, error.to_string());
    }
}
