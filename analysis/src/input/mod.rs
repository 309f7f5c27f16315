//! Reads recordings of any total size, and merges the recordings of all samplers in time.
//!
//! All files are read together, in chunks of whole lines, at the same pace through the recorded
//! time. The lines of a port are sorted by time and merged (`merge`): copies are dropped, and
//! intervals of different samplers are shortened until they do not overlap. The order of the
//! files and of their lines therefore does not matter. Ports are divided into a fixed number of
//! shards, which are folded in parallel, so the result does not depend on the number of threads
//! either. `limits` lists the limits of memory.

use std::fmt;
use std::path::PathBuf;

use ibnet_record::types::Printable;
use rayon::prelude::*;

use crate::error::AnalysisError;
use crate::hosts::Hosts;
use crate::path;
use crate::record::{Record, Type};

mod archive;
mod archive_files;
pub(crate) mod archive_lines;
pub mod blocks;
mod bounds;
pub mod continued;
mod edge;
pub(crate) mod files;
mod key;
pub(crate) mod limits;
pub mod memory;
mod merge;
mod rows;
pub mod run;
mod selection;
mod shard;
mod stream;
mod varied;

use self::archive::Archives;
use self::archive_files::ArchiveFiles;
pub use self::archive_files::ArchiveNotes;
use self::merge::Dropped;
use self::run::Run;
use self::selection::Selection;
use self::shard::{Chunks, Shard, ShardCounts};
use self::stream::{Stream, joined};

/// A state that is built from records one after the other.
///
/// All records and events of a port go to one state, in time order and without copies. Their
/// [`time`](crate::record::Port::time)s are cut to the selected time range, and the times of
/// different samplers do not overlap. Records without a port go to one state for each type, also
/// in time order and without copies.
pub trait Fold: Clone + Send {
    /// Returns whether the fold uses records of this type. Other types are counted but not
    /// parsed.
    fn uses(&self, _kind: Type) -> bool {
        true
    }

    /// Returns whether the fold uses the counters of port records; parsing is faster without
    /// them. With counters, the fold also gets records with
    /// [`is_edge`](crate::record::Port::is_edge) at the edges of the selected time range.
    fn uses_counters(&self) -> bool {
        true
    }

    /// Returns the names of the port record fields that the fold uses, or `None` for all of them.
    /// If the record comes from an archive, its other fields have default values, except those
    /// that show when and by which sampler the port was queried.
    fn fields(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the hosts whose ports, and the peers of these ports, the fold uses; `None` for all
    /// ports. Records of other ports are then not read from an archive.
    fn hosts(&self) -> Option<&Hosts> {
        None
    }

    /// Returns whether the fold can do without times shorter than a minute if the records cover
    /// `length_ns`. It then gets one-minute means from an archive.
    fn takes_minutes(&self, _length_ns: u64) -> bool {
        false
    }

    /// Returns whether the fold implements [`add_run`](Self::add_run).
    fn takes_runs(&self) -> bool {
        false
    }

    /// Adds many records of a port at once, with the same result as [`add`](Self::add) for each
    /// of them.
    fn add_run(&mut self, _run: &Run<'_>) {}

    /// Returns whether the fold evaluates the queries of each sampler instead of the ports. It
    /// then also gets records whose time another record describes; only copies are dropped.
    fn uses_every_query(&self) -> bool {
        false
    }

    /// Adds one record.
    fn add(&mut self, record: &Record<'_>);

    /// Merges a state that was built from other ports.
    fn merge(&mut self, other: Self);
}

/// The files to read and the time range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// Files and archives, each once. `-` is standard input; a folder is an archive.
    pub files: Vec<PathBuf>,
    /// Start of the time range in nanoseconds since 1970, inclusive. `start` records are used
    /// whatever their time.
    pub from: Option<u64>,
    /// End of the time range in nanoseconds since 1970, exclusive. `start` records are used
    /// whatever their time.
    pub to: Option<u64>,
}

/// Counts of a finished reading.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadSummary {
    /// Number of lines that are not blank.
    pub lines: u64,
    /// Number of lines that are no records.
    pub invalid: u64,
    /// The first line that is no record.
    pub first_invalid: Option<InvalidLine>,
    /// Number of records that are copies of another record.
    pub copies: u64,
    /// Number of port records whose whole time the records of another sampler describe.
    pub covered: u64,
    /// Files that were not read completely.
    pub incomplete: Vec<IncompleteFile>,
    /// Number of archive hours that were read as one-minute means, and number of all archive
    /// hours with port records.
    pub minute_hours: (u64, u64),
    /// What was unusual about the archive files.
    pub archive: ArchiveNotes,
    /// Time within the time range that the records describe, without `start` records: start and
    /// end in nanoseconds since 1970.
    pub span: Option<(u64, u64)>,
}

/// A line that is no record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidLine {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// The parse error.
    pub why: String,
}

/// A file that was not read completely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncompleteFile {
    /// Path of the file.
    pub file: String,
    /// Fault of the file.
    pub fault: FileFault,
}

/// A fault of a file. It is only a warning, because other files have records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileFault {
    /// The compressed data ends in the middle of a frame.
    Cut,
    /// The file has no record. The value is what is wrong with its first line, or `None` if it is
    /// empty.
    NoRecord(Option<String>),
}

impl fmt::Display for IncompleteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = Printable(&self.file);
        match &self.fault {
            FileFault::Cut => write!(
                f,
                "{file}: the compressed data is cut off; the lines before the cut were read"
            ),
            FileFault::NoRecord(None) => write!(f, "{file}: it has no record (it is empty)"),
            FileFault::NoRecord(Some(why)) => write!(
                f,
                "{file}: it has no record (first line: {})",
                Printable(why)
            ),
        }
    }
}

impl Inputs {
    /// Expands the arguments of a command: an argument is the file of this name if there is one,
    /// otherwise a pattern.
    ///
    /// # Errors
    /// Returns an error if a pattern is malformed or matches no file.
    pub fn new(patterns: &[PathBuf]) -> Result<Self, AnalysisError> {
        let mut files = Vec::new();
        let mut known = rustc_hash::FxHashSet::default();
        for pattern in patterns {
            for file in files::expand(pattern)? {
                // A file that is given twice or matches two patterns is read once.
                if known.insert(std::fs::canonicalize(&file).unwrap_or_else(|_| file.clone())) {
                    files.push(file);
                }
            }
        }
        Ok(Self {
            files,
            from: None,
            to: None,
        })
    }

    /// Returns the size in bytes of all files, and of those archive hours that the time range
    /// needs. Pipes and unreadable files count as 0.
    pub fn size(&self) -> u64 {
        let (first, last) = (
            self.from.unwrap_or(0).saturating_sub(limits::REACH_NS),
            self.to.unwrap_or(u64::MAX).saturating_add(limits::REACH_NS),
        );
        let archive = |path: &PathBuf| {
            let mut files = ArchiveFiles::starts(std::iter::once(path.as_path())).ok()?;
            files.add_between(first, last).ok()?;
            Some(files.size())
        };
        let file = |path: &PathBuf| {
            if path.is_dir() {
                archive(path)
            } else {
                Some(std::fs::metadata(path).ok()?.len())
            }
        };
        self.files.iter().filter_map(file).sum()
    }
}

/// Folds all records of the inputs.
///
/// # Errors
/// Returns an error if a file is unreadable, or if no file has a record.
pub fn read<F: Fold>(inputs: &Inputs, empty: &F) -> Result<(F, ReadSummary), AnalysisError> {
    read_with_progress(inputs, empty, &|_, _| {})
}

/// Folds all records of the inputs. Calls `progress` from time to time with the bytes read so far
/// and the size of all files in bytes.
///
/// # Errors
/// Returns an error if a file is unreadable, or if no file has a record.
pub fn read_with_progress<F: Fold>(
    inputs: &Inputs,
    empty: &F,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(F, ReadSummary), AnalysisError> {
    let (folders, paths): (Vec<&PathBuf>, Vec<&PathBuf>) =
        inputs.files.iter().partition(|file| file.is_dir());
    let mut files = ArchiveFiles::starts(folders.into_iter().map(PathBuf::as_path))?;
    let first: Vec<files::FirstLines> = paths.iter().map(|file| files::first_lines(file)).collect();
    let longest_ns = first
        .iter()
        .filter_map(|first| first.interval_ns)
        .max()
        .max(files.longest_interval_ns()?)
        .unwrap_or(0);
    let reach_ns = limits::REACH_NS.max(longest_ns.saturating_mul(4));
    let selection = Selection::new(empty, inputs.from, inputs.to, reach_ns);
    let streams = paths
        .iter()
        .zip(first)
        .enumerate()
        .map(|(number, (path, first))| Stream::new(number, (*path).clone(), first));
    let mut streams: Vec<Stream> = streams.collect();
    files.select(&selection)?;
    let total = files.size()
        + paths
            .iter()
            .filter_map(|path| std::fs::metadata(path).ok())
            .map(|file| file.len())
            .sum::<u64>();
    let mut archives = Archives::new(files, paths.len());
    archives.allow_minutes(empty, &selection);
    let mut left = archives.clone();
    let shards = match fold_streams(
        &mut streams,
        &mut left,
        empty,
        &selection,
        &|done| progress(done, total),
        &|_| {},
    )? {
        Some(shards) => shards,
        None => {
            // At least one file is not in time order. All such files are found and sorted, and
            // then the reading starts again.
            streams.par_iter_mut().try_for_each(|stream| {
                stream
                    .restart()
                    .map_err(|source| unreadable(stream, source))
            })?;
            left = archives;
            let shards = fold_streams(
                &mut streams,
                &mut left,
                empty,
                &selection,
                &|done| progress(done, total),
                &|_| {},
            )?;
            shards.ok_or_else(|| changed(&streams))?
        }
    };
    let mut shards = shards;
    let counts = shards
        .iter_mut()
        .map(|shard| std::mem::take(&mut shard.counts))
        .collect();
    // Archive files outside the time range were not opened, and can have records.
    let has_record = selection.is_range && !left.files.is_empty();
    Ok((
        merged(shards, empty),
        summary(streams, left, counts, has_record)?,
    ))
}

fn merged<F: Fold>(shards: Vec<Shard<F>>, empty: &F) -> F {
    let all = shards
        .into_iter()
        .map(|shard| shard.fold)
        .reduce(|mut all, fold| {
            all.merge(fold);
            all
        });
    all.unwrap_or_else(|| empty.clone())
}

/// Returns the error for a file that was in time order when it was checked, but is no longer.
fn changed(streams: &[Stream]) -> AnalysisError {
    let stream = streams.iter().find(|stream| stream.is_disordered);
    let name = stream
        .map(|stream| path::display_name(&stream.path))
        .unwrap_or_default();
    AnalysisError::Read {
        name,
        source: std::io::Error::other("the file changed while it was read"),
    }
}

fn unreadable(stream: &Stream, source: std::io::Error) -> AnalysisError {
    AnalysisError::Read {
        name: path::display_name(&stream.path),
        source,
    }
}

/// Folds all streams and archives. Returns `None` if a stream is not in time order. Calls
/// `add_later` before the last waiting records of secondaries are used.
fn fold_streams<F: Fold>(
    streams: &mut [Stream],
    archives: &mut Archives,
    empty: &F,
    selection: &Selection,
    progress: &(dyn Fn(u64) + Sync),
    add_later: &dyn Fn(&mut [Shard<F>]),
) -> Result<Option<Vec<Shard<F>>>, AnalysisError> {
    let mut shards: Vec<Shard<F>> = (0..limits::SHARDS)
        .map(|_| Shard::new(empty.clone()))
        .collect();
    let mut chunks = Chunks::default();
    loop {
        // All lines before this time have been read, so they can be folded while the next chunks
        // are read.
        let before = streams.iter().filter_map(Stream::watermark).min();
        if let Some(start) = archives
            .watermark()
            .filter(|start| before.is_none_or(|before| *start <= before))
        {
            shards
                .par_iter_mut()
                .for_each(|shard| shard.fold_before(Some(start), &chunks, selection));
            chunks.free(start);
            archives.fold_hour(&mut shards, &mut chunks, selection, |shards, end| {
                before.is_some_and(|before| before < end)
                    || shards.iter().any(|shard| shard.waits_before(end))
            })?;
            progress(streams.iter().map(Stream::done).sum::<u64>() + archives.done);
            continue;
        }
        let before = [before, archives.watermark()].into_iter().flatten().min();
        let fold = || {
            shards
                .par_iter_mut()
                .for_each(|shard| shard.fold_before(before, &chunks, selection));
        };
        let (read, ()) = rayon::join(|| read_round(streams, selection), fold);
        progress(streams.iter().map(Stream::done).sum::<u64>() + archives.done);
        let Some(before) = before else { break };
        chunks.free(before);
        for (chunk, lines) in read? {
            if lines.is_empty() {
                continue;
            }
            let number = chunks.put(chunk);
            lines.into_iter().for_each(|line| {
                shards[line.key.shard()].put(stream::LineRef {
                    chunk: number,
                    ..line
                });
            });
        }
        if streams.iter().any(|stream| stream.is_disordered) {
            return Ok(None);
        }
    }
    add_later(&mut shards);
    shards
        .par_iter_mut()
        .for_each(|shard| shard.finish(selection));
    Ok(Some(shards))
}

/// Reads a chunk of each stream that is behind the others.
fn read_round(
    streams: &mut [Stream],
    selection: &Selection,
) -> Result<Vec<(stream::Chunk, Vec<stream::LineRef>)>, AnalysisError> {
    let Some(last) = streams
        .iter()
        .filter(|stream| stream.watermark().is_some())
        .min_by_key(|stream| stream.watermark())
    else {
        return Ok(Vec::new());
    };
    // Streams that would soon be behind are read too.
    let behind = last
        .watermark()
        .map(|watermark| watermark.saturating_add(last.reached_ns / 2));
    let mut chosen: Vec<&mut Stream> = streams
        .iter_mut()
        .filter(|stream| {
            stream
                .watermark()
                .is_some_and(|watermark| Some(watermark) <= behind)
        })
        .collect();
    let size = (limits::ROUND / chosen.len().max(1)).clamp(limits::SMALL_CHUNK, limits::CHUNK);
    chosen
        .par_iter_mut()
        .map(|stream| {
            stream
                .read(size, selection)
                .map_err(|source| unreadable(stream, source))
        })
        .collect()
}

/// Sums the counts of all files and shards. `has_record` is true if files that were not opened
/// can have records.
fn summary(
    streams: Vec<Stream>,
    archives: Archives,
    counts: Vec<ShardCounts>,
    mut has_record: bool,
) -> Result<ReadSummary, AnalysisError> {
    let mut summary = ReadSummary {
        minute_hours: archives.minute_hours,
        archive: archives.notes.clone(),
        ..ReadSummary::default()
    };
    for ShardCounts {
        dropped: Dropped { copies, covered },
        span,
        ..
    } in &counts
    {
        (summary.copies, summary.covered) = (summary.copies + copies, summary.covered + covered);
        summary.span = joined(summary.span, *span);
    }
    let files = streams.into_iter().enumerate().map(
        |(
            number,
            Stream {
                path,
                tally,
                is_cut,
                ..
            },
        )| (number, path, tally, is_cut),
    );
    let all = files.chain(
        archives
            .into_tallies()
            .map(|(number, path, tally)| (number, path, tally, false)),
    );
    for (number, path, tally, is_cut) in all {
        let file = path::display_name(&path);
        let (mut invalid, mut first_invalid) = (tally.invalid, tally.first_invalid);
        for (count, line, why) in counts
            .iter()
            .filter_map(|counts| counts.invalid.get(&number))
        {
            invalid += count;
            if first_invalid.as_ref().is_none_or(|(first, _)| line < first) {
                first_invalid = Some((*line, why.clone()));
            }
        }
        let lines = tally.lines - tally.blank;
        summary.lines += lines;
        summary.invalid += invalid;
        summary.span = joined(summary.span, tally.span);
        if is_cut {
            summary.incomplete.push(IncompleteFile {
                file: file.clone(),
                fault: FileFault::Cut,
            });
        }
        if invalid == lines {
            let why = first_invalid.as_ref().map(|(_, why)| why.clone());
            summary.incomplete.push(IncompleteFile {
                file: file.clone(),
                fault: FileFault::NoRecord(why),
            });
        } else {
            has_record = true;
        }
        if summary.first_invalid.is_none() {
            summary.first_invalid =
                first_invalid.map(|(line, why)| InvalidLine { file, line, why });
        }
    }
    if has_record {
        return Ok(summary);
    }
    let fault =
        summary
            .incomplete
            .into_iter()
            .find_map(|IncompleteFile { file, fault }| match fault {
                FileFault::NoRecord(why) => Some((file, why)),
                FileFault::Cut => None,
            });
    let (name, why) = fault.unwrap_or_default();
    Err(AnalysisError::NoRecord { name, why })
}

#[cfg(test)]
mod tests;
