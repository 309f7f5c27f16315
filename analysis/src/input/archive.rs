//! Folds the archives among the inputs, one hour after the other.
//!
//! If no lines of an hour are waiting, the rows of its ports are folded directly, a few row
//! groups at a time. Otherwise all rows of the hour join the lines and wait with them.
//!
//! Instead of the records of an hour, its one-minute means are read if retention removed the
//! records, or if the fold needs no shorter times.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use ibnet_store::hour::Hour;
use ibnet_store::part::Part;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::Fold;
use super::archive_files::{ArchiveFiles, ArchiveNotes};
use super::key::Key;
use super::rows::{self, PortRows};
use super::selection::Selection;
use super::shard::{Chunks, KeyRows, Shard};
use super::stream::{Chunk, LineRef, Tally, joined};
use crate::error::AnalysisError;
use crate::record::Type;

/// The hours of all archives.
#[derive(Clone, Debug, Default)]
pub(super) struct Archives {
    pub(super) files: ArchiveFiles,
    /// Whether the fold needs no times shorter than a minute.
    is_coarse: bool,
    /// Number of hours that were read as one-minute means, and number of all hours with ports.
    pub(super) minute_hours: (u64, u64),
    /// Index of the first archive file among all files.
    first_file: usize,
    /// Bytes of the hours that were read.
    pub(super) done: u64,
    /// Counts of each file that was opened.
    tallies: BTreeMap<usize, Tally>,
    /// What was unusual about these files.
    pub(super) notes: ArchiveNotes,
}

impl Archives {
    /// Prepares the archives. `first_file` is the number of other files.
    pub(super) fn new(files: ArchiveFiles, first_file: usize) -> Self {
        Self {
            files,
            first_file,
            ..Self::default()
        }
    }

    /// Permits one-minute means if the fold needs no shorter times over the whole time of the
    /// archives.
    pub(super) fn allow_minutes<F: Fold>(&mut self, fold: &F, selection: &Selection) {
        let hours = &self.files.hours;
        let first = hours
            .first_key_value()
            .map(|(hour, _)| hour.start().max(selection.from));
        let last = hours
            .last_key_value()
            .map(|(hour, _)| hour.end().min(selection.to));
        self.is_coarse = first
            .zip(last)
            .is_some_and(|(first, last)| last > first && fold.takes_minutes(last - first));
    }

    /// Returns path and counts of each file that was opened.
    pub(super) fn into_tallies(self) -> impl Iterator<Item = (usize, PathBuf, Tally)> {
        let Self {
            files,
            tallies,
            first_file,
            ..
        } = self;
        tallies
            .into_iter()
            .map(move |(number, tally)| (first_file + number, files.all[number].1.clone(), tally))
    }

    /// Returns the start of the next hour. All rows that follow are at this time or later.
    pub(super) fn watermark(&self) -> Option<u64> {
        self.files
            .hours
            .first_key_value()
            .map(|(hour, _)| hour.start())
    }

    /// Folds the rows of the next hour. If `waits` returns true for the end of the hour, lines of
    /// this hour are waiting, and the rows wait with them.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read.
    pub(super) fn fold_hour<F: Fold>(
        &mut self,
        shards: &mut [Shard<F>],
        chunks: &mut Chunks,
        selection: &Selection,
        waits: impl FnOnce(&[Shard<F>], u64) -> bool,
    ) -> Result<(), AnalysisError> {
        self.files.open_ahead(self.is_coarse);
        let Some((hour, numbers)) = self.files.hours.pop_first() else {
            return Ok(());
        };
        let waits = waits(shards, hour.end());
        self.done += numbers
            .iter()
            .map(|number| self.files.size_of(*number))
            .sum::<u64>();
        let mut lines = Vec::new();
        for number in &numbers {
            if let Some(kind) = self.files.all[*number]
                .0
                .kind()
                .filter(|kind| *kind != Type::Port)
            {
                lines.extend(self.lines_of(*number, kind, chunks, selection)?);
            }
        }
        let is_of_ports = |number: &usize| {
            matches!(
                self.files.all[*number].0,
                TableName::Ports | TableName::PortsMinute
            )
        };
        let ports: Vec<usize> = numbers.iter().copied().filter(is_of_ports).collect();
        for number in &ports {
            if !waits
                && self.is_coarse
                && let Some(path) = self.files.current_minutes(*number)
            {
                self.files.all[*number] = (TableName::PortsMinute, path);
            }
        }
        let is_minutes = |number: &usize| self.files.all[*number].0 == TableName::PortsMinute;
        let (minutes, hours) = self.minute_hours;
        self.minute_hours = (
            minutes + u64::from(ports.iter().any(is_minutes)),
            hours + u64::from(!ports.is_empty()),
        );
        if waits {
            for number in ports {
                let (file, groups) = self.select(number, Type::Port, selection)?;
                for rows in read_ports(&file, &groups, selection)? {
                    lines.extend(wait(rows, self.first_file + number, chunks, selection));
                }
            }
            lines
                .into_iter()
                .for_each(|line| shards[line.key.shard()].put(line));
        } else {
            for (ports, end) in self.steps(hour, ports) {
                let (ready, later) = lines.into_iter().partition(|line| line.ts < end);
                lines = later;
                self.fold_directly(&ports, ready, shards, chunks, selection)?;
            }
            chunks.free(hour.end());
        }
        Ok(())
    }

    /// Splits the files of an hour into steps. The parts of an hour cover different times, so the
    /// parts of one archive are folded one after the other. Returns the files of each step, and
    /// the time at which the next step begins.
    fn steps(&self, hour: Hour, ports: Vec<usize>) -> Vec<(Vec<usize>, u64)> {
        // The root of an archive is four levels above: table, date, hour, file.
        let part_of = |number: &usize| {
            let (table, file) = &self.files.all[*number];
            Some((
                Part::of(*table, hour, file)?,
                file.ancestors().nth(4)?,
                *number,
            ))
        };
        let parts: Option<Vec<_>> = ports.iter().map(part_of).collect();
        match parts {
            Some(mut parts)
                if parts.len() > 1 && parts.iter().all(|(_, root, _)| *root == parts[0].1) =>
            {
                parts.sort_unstable();
                let ends = parts
                    .iter()
                    .skip(1)
                    .map(|(part, ..)| part.start())
                    .chain([u64::MAX]);
                parts
                    .iter()
                    .zip(ends)
                    .map(|((.., number), end)| (vec![*number], end))
                    .collect()
            }
            _ => vec![(ports, u64::MAX)],
        }
    }

    /// Folds the rows of an hour, or of a part of it, for which no lines are waiting.
    fn fold_directly<F: Fold>(
        &mut self,
        ports: &[usize],
        lines: Vec<LineRef>,
        shards: &mut [Shard<F>],
        chunks: &Chunks,
        selection: &Selection,
    ) -> Result<(), AnalysisError> {
        let mut by_key: Vec<FxHashMap<Key, Vec<LineRef>>> =
            vec![FxHashMap::default(); shards.len()];
        lines.into_iter().for_each(|line| {
            by_key[line.key.shard()]
                .entry(line.key)
                .or_default()
                .push(line);
        });
        // Several files can have rows of the same port, and then all of them are needed at once.
        let is_alone = ports.len() == 1;
        let mut runs: Vec<Vec<KeyRows>> = vec![Vec::new(); shards.len()];
        for number in ports {
            let (file, groups) = self.select(*number, Type::Port, selection)?;
            // While one batch is folded, the next one is decoded: one row group for each thread.
            let mut some = groups.chunks(rayon::current_num_threads().max(1));
            let mut read = || {
                some.next()
                    .map(|some| read_ports(&file, some, selection))
                    .transpose()
            };
            let mut next = read()?;
            while let Some(rows) = next {
                for rows in rows {
                    let of_rows = runs_of(&Arc::new(rows), self.first_file + number, selection);
                    of_rows
                        .into_iter()
                        .for_each(|run| runs[run.key.shard()].push(run));
                }
                let fold = || {
                    if is_alone {
                        fold_runs(shards, &mut runs, &mut by_key, chunks, selection, true);
                    }
                };
                let (following, ()) = rayon::join(&mut read, fold);
                next = following?;
            }
        }
        fold_runs(shards, &mut runs, &mut by_key, chunks, selection, false);
        shards
            .par_iter_mut()
            .zip(by_key)
            .for_each(|(shard, lines)| {
                let mut lines: Vec<_> = lines.into_iter().collect();
                lines.sort_unstable_by_key(|(key, _)| *key);
                lines
                    .into_iter()
                    .for_each(|(_, lines)| shard.fold_lines(lines, chunks, selection));
            });
        Ok(())
    }

    /// Opens a file, counts its rows, and returns the row groups that can have selected records.
    fn select(
        &mut self,
        number: usize,
        kind: Type,
        selection: &Selection,
    ) -> Result<(Arc<ArchiveFile>, Vec<usize>), AnalysisError> {
        let file = self.files.open(&self.files.all[number].1)?;
        self.notes.add(&file);
        let tally = self.tallies.entry(number).or_default();
        let mut groups = Vec::new();
        for group in 0..file.groups() {
            tally.lines += file.rows(group) as u64;
            let times = file.times(group);
            if kind != Type::Start {
                tally.span = joined(tally.span, span(&file, group, times, selection)?);
            }
            if times.is_none_or(|(first, last)| selection.needs_any(kind, first, last)) {
                groups.push(group);
            }
        }
        Ok((file, groups))
    }

    /// Reads the selected rows of a small table as lines.
    fn lines_of(
        &mut self,
        number: usize,
        kind: Type,
        chunks: &mut Chunks,
        selection: &Selection,
    ) -> Result<Vec<LineRef>, AnalysisError> {
        let (file, groups) = self.select(number, kind, selection)?;
        let columns = vec![true; file.name().schema().columns.len()];
        let mut chunk = Chunk {
            file: self.first_file + number,
            ..Chunk::default()
        };
        let mut lines = Vec::new();
        for group in groups {
            let table = file.read(group, &columns)?;
            for row in 0..table.len() {
                let (ts, start) = (table.ts(row), chunk.bytes.len());
                if !selection.needs(kind, ts) {
                    continue;
                }
                table.write_line(row, &mut chunk.bytes);
                let length = chunk.bytes.len() - start;
                match Key::of(&chunk.bytes[start..], kind) {
                    Ok(key) => lines.push(LineRef {
                        ts,
                        key,
                        kind,
                        chunk: 0,
                        start: start as u32,
                        length: length as u32,
                    }),
                    Err(error) => self
                        .tallies
                        .entry(number)
                        .or_default()
                        .add_invalid(row as u64 + 1, &error),
                }
                chunk.bytes.push(b'\n');
                chunk.latest = chunk.latest.max(ts);
            }
        }
        Ok(stored(chunk, lines, chunks))
    }
}

/// Returns the earliest and the latest selected time of a row group.
fn span(
    file: &ArchiveFile,
    group: usize,
    times: Option<(u64, u64)>,
    selection: &Selection,
) -> Result<Option<(u64, u64)>, AnalysisError> {
    if let Some((first, last)) = times {
        if selection.contains(first) && selection.contains(last) {
            return Ok(times);
        }
        if last < selection.from || first >= selection.to {
            return Ok(None);
        }
    }
    let columns: Vec<bool> = file
        .name()
        .schema()
        .columns
        .iter()
        .map(|column| column.name == "ts")
        .collect();
    let table = file.read(group, &columns)?;
    let selected = (0..table.len())
        .map(|row| table.ts(row))
        .filter(|ts| selection.contains(*ts));
    Ok(selected.fold(None, |span, ts| joined(span, Some((ts, ts)))))
}

/// Reads row groups of the table `ports`.
fn read_ports(
    file: &ArchiveFile,
    groups: &[usize],
    selection: &Selection,
) -> Result<Vec<PortRows>, AnalysisError> {
    let columns = rows::columns(
        file.name(),
        selection.uses_counters,
        selection.fields.as_deref(),
    );
    let read = |group: &usize| {
        let rows = match &selection.hosts {
            Some(hosts) => Some(rows::of_hosts(file, *group, hosts)?),
            None => of_times(file, *group, selection)?,
        };
        Ok(match rows {
            Some(rows) => file.read_rows(*group, &columns, &rows)?,
            None => file.read(*group, &columns)?,
        })
    };
    groups
        .par_iter()
        .map(|group| read(group).map(PortRows::new))
        .collect()
}

/// Returns the rows of a row group whose times are needed, or `None` for all of them. In the
/// hours just before and after the time range, only few rows are.
fn of_times(
    file: &ArchiveFile,
    group: usize,
    selection: &Selection,
) -> Result<Option<Vec<Range<usize>>>, AnalysisError> {
    let longest_ns = file
        .largest(group, "dt_ns")
        .zip(file.largest(group, "xmit_blocked_dt_ns"))
        .map(|(data, blocked)| data.max(blocked));
    let needed = selection.port_times(longest_ns);
    if file
        .times(group)
        .is_none_or(|(first, last)| needed.contains(&first) && needed.contains(&last))
    {
        return Ok(None);
    }
    let columns: Vec<bool> = file
        .name()
        .schema()
        .columns
        .iter()
        .map(|column| column.name == "ts")
        .collect();
    let table = file.read(group, &columns)?;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in (0..table.len()).filter(|row| needed.contains(&table.ts(*row))) {
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    Ok(Some(ranges))
}

/// Adds the rows of an hour to the waiting lines.
fn wait(rows: PortRows, file: usize, chunks: &mut Chunks, selection: &Selection) -> Vec<LineRef> {
    let selected = (0..rows.len()).filter(|row| selection.needs(Type::Port, rows.ts(*row)));
    let line = |row: usize| {
        Some(LineRef {
            ts: rows.ts(row),
            key: rows.key(row)?,
            kind: Type::Port,
            chunk: 0,
            start: row as u32,
            length: 0,
        })
    };
    let lines: Vec<LineRef> = selected.filter_map(line).collect();
    let latest = lines.iter().map(|line| line.ts).max().unwrap_or(0);
    stored(
        Chunk {
            file,
            rows: Some(Arc::new(rows)),
            latest,
            ..Chunk::default()
        },
        lines,
        chunks,
    )
}

/// Stores a chunk, and sets its number in its lines.
fn stored(chunk: Chunk, lines: Vec<LineRef>, chunks: &mut Chunks) -> Vec<LineRef> {
    if lines.is_empty() {
        return lines;
    }
    let number = chunks.put(chunk);
    lines
        .into_iter()
        .map(|line| LineRef {
            chunk: number,
            ..line
        })
        .collect()
}

/// Splits rows where the port or the sampler changes, or where the time decreases.
fn runs_of(rows: &Arc<PortRows>, file: usize, selection: &Selection) -> Vec<KeyRows> {
    let mut runs = Vec::new();
    for of_port in rows.of_ports() {
        let Some(key) = rows.key(of_port.start) else {
            continue;
        };
        let mut from = of_port.start;
        while from < of_port.end {
            // Archives are in time order, so nearly always all rows of the port are one run.
            let some = from..of_port.end;
            let end = match rows.times().map(|times| &times[some.clone()]) {
                Some(times) if !times.is_sorted() => some
                    .clone()
                    .skip(1)
                    .find(|row| rows.ts(row - 1) > rows.ts(*row))
                    .unwrap_or(of_port.end),
                _ => of_port.end,
            };
            // The times of a run never decrease, so the needed rows are consecutive.
            let first = (from..end).find(|row| selection.needs(Type::Port, rows.ts(*row)));
            let last = (from..end).rfind(|row| selection.needs(Type::Port, rows.ts(*row)));
            if let (Some(first), Some(last)) = (first, last) {
                runs.push(KeyRows {
                    key,
                    of: Arc::clone(rows),
                    rows: first..last + 1,
                    file,
                });
            }
            from = end;
        }
    }
    runs
}

/// Folds runs in parallel. If more rows follow, the runs of the last key are kept, because the
/// next rows can belong to the same port.
fn fold_runs<F: Fold>(
    shards: &mut [Shard<F>],
    runs: &mut [Vec<KeyRows>],
    lines: &mut [FxHashMap<Key, Vec<LineRef>>],
    chunks: &Chunks,
    selection: &Selection,
    more_follow: bool,
) {
    let last = runs
        .iter()
        .filter_map(|runs| runs.iter().map(|run| run.key).max())
        .max()
        .filter(|_| more_follow);
    shards
        .par_iter_mut()
        .zip(runs)
        .zip(lines)
        .for_each(|((shard, runs), lines)| {
            let kept: Vec<KeyRows> = runs.extract_if(.., |run| Some(run.key) == last).collect();
            runs.sort_by_key(|run| run.key);
            shard.fold_runs(runs, lines, chunks, selection);
            *runs = kept;
        });
}
