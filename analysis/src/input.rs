//! Reads recorded lines of any total size.
//!
//! A file is read in chunks of whole lines. A *fold* is the evaluation of lines into a state. A
//! free thread folds one chunk, starting from the empty state. Then the states are merged in the
//! order of the chunks. So the result does not depend on the number of threads. The memory depends
//! on the number of chunks in work and on the size of the state.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::AnalysisError;
use crate::path;
use crate::record::{Head, Record, Type};

/// A state that is built from records one after the other.
pub trait Fold: Clone + Send {
    /// Returns whether the fold uses records of this type. Records of other types are counted but
    /// not parsed.
    fn uses(&self, _kind: Type) -> bool {
        true
    }

    /// Returns whether the fold uses the counters of port records. Without counters, parsing is
    /// faster.
    fn uses_counters(&self) -> bool {
        true
    }

    /// Adds one record.
    fn add(&mut self, record: &Record<'_>);

    /// Merges the state of later records: later lines of the same file, or another file.
    fn merge(&mut self, later: Self);
}

/// The files to read and the time range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// The files, each once. `-` is standard input. They are read in the order of their first
    /// records.
    pub files: Vec<PathBuf>,
    /// Start of the time range in nanoseconds since 1970. Records at this time are included.
    /// `start` records are always used.
    pub from: Option<u64>,
    /// End of the time range in nanoseconds since 1970. Records at this time are not included.
    /// `start` records are always used.
    pub to: Option<u64>,
}

/// Counts of a finished reading.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadSummary {
    /// Number of lines that are not blank.
    pub lines: u64,
    /// Number of lines that are not records.
    pub invalid: u64,
    /// The first line that is not a record.
    pub first_invalid: Option<InvalidLine>,
    /// Earliest and latest `ts` of the records within the time range, without `start` records.
    pub span: Option<(u64, u64)>,
}

/// A line that is not a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidLine {
    /// Path of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// The parse error.
    pub why: String,
}

/// Octets that a thread reads at a time.
const CHUNK: usize = 4 << 20;

/// Longest line that is parsed, in octets. A record has at most 16 KiB.
const LONGEST: usize = 1 << 20;

/// First octets of a file compressed by zstd (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

impl Inputs {
    /// Expands the arguments of a command. The name of an existing file is that file; any other
    /// argument is a pattern.
    ///
    /// # Errors
    /// Returns an error if a pattern is malformed or matches no file.
    pub fn new(patterns: &[PathBuf]) -> Result<Self, AnalysisError> {
        let mut files = Vec::new();
        let mut known = Vec::new();
        for pattern in patterns {
            for file in expand(pattern)? {
                // A file that is given twice, or matches two patterns, would count twice.
                let real = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
                if !known.contains(&real) {
                    known.push(real);
                    files.push(file);
                }
            }
        }
        Ok(Self { files, from: None, to: None })
    }

    fn contains(&self, ts: u64) -> bool {
        self.from.is_none_or(|from| ts >= from) && self.to.is_none_or(|to| ts < to)
    }

    /// Returns the files in the order of their first records. So rotated files are in the right
    /// order, whatever their names are.
    pub(crate) fn in_order(&self) -> Vec<PathBuf> {
        let mut files = self.files.clone();
        // Pipes can be read only once and come last. Unreadable files come first and fail then.
        files.sort_by_cached_key(|file| {
            let is_pipe = fs::metadata(file).is_ok_and(|file| !file.is_file()) || path::is_stdin(file);
            if is_pipe { u64::MAX } else { first_ts(file).unwrap_or(0) }
        });
        files
    }
}

fn expand(pattern: &Path) -> Result<Vec<PathBuf>, AnalysisError> {
    let text = pattern.to_string_lossy();
    if path::is_stdin(pattern) || pattern.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![pattern.to_owned()]);
    }
    let found =
        glob::glob(&text).map_err(|error| AnalysisError::Pattern { pattern: text.clone().into_owned(), why: error.msg.to_owned() })?;
    let files: Vec<PathBuf> = found.filter_map(Result::ok).filter(|path| !path.is_dir()).collect();
    if files.is_empty() { Err(AnalysisError::NoFile { pattern: text.into_owned() }) } else { Ok(files) }
}

/// Returns the `ts` of the first record among the first 16 lines.
fn first_ts(file: &Path) -> Option<u64> {
    const LOOK: usize = 16;
    let lines = BufReader::new(open(file).ok()?.0).take(LONGEST as u64).split(b'\n').take(LOOK);
    lines.map_while(Result::ok).find_map(|line| Head::of(line.trim_ascii()).ok()).map(|head| head.ts)
}

/// The decompressed text of a file.
pub(crate) type Lines = BufReader<Box<dyn Read + Send>>;

/// Returns all lines of a file without their line feeds.
pub(crate) fn lines(file: &Path) -> io::Result<io::Split<Lines>> {
    Ok(BufReader::new(open(file)?.0).split(b'\n'))
}

/// Opens a file, decompresses it if necessary, and counts the octets read from the disk.
fn open(path: &Path) -> io::Result<(Box<dyn Read + Send>, Arc<AtomicU64>)> {
    let done = Arc::new(AtomicU64::new(0));
    let file: Box<dyn Read + Send> = if path::is_stdin(path) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let mut counted = Counted { inner: file, done: Arc::clone(&done) };
    let mut magic = Vec::new();
    counted.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
    let is_compressed = magic == ZSTD;
    let whole = io::Cursor::new(magic).chain(counted);
    Ok((if is_compressed { Box::new(zstd::Decoder::new(whole)?) } else { Box::new(whole) }, done))
}

struct Counted {
    inner: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Folds all records of the inputs.
///
/// # Errors
/// Returns an error if a file is unreadable or has no record.
pub fn read<F: Fold>(inputs: &Inputs, empty: &F) -> Result<(F, ReadSummary), AnalysisError> {
    read_with_progress(inputs, empty, &|_, _| {})
}

/// Folds all records of the inputs. Calls `progress` after each chunk with the octets that were
/// read so far and with the size of all files in octets.
///
/// # Errors
/// Returns an error if a file is unreadable or has no record.
pub fn read_with_progress<F: Fold>(
    inputs: &Inputs,
    empty: &F,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(F, ReadSummary), AnalysisError> {
    let files = inputs.in_order();
    let feed = Mutex::new(Feed::new(&files, progress));
    let merged =
        Mutex::new(Merged { fold: empty.clone(), tallies: vec![Tally::default(); files.len()], next: 0, waiting: BTreeMap::new() });
    // Each thread holds one chunk; the same number of folded chunks may wait to be merged.
    let threads = rayon::current_num_threads();
    let (room, failed) = (Condvar::new(), AtomicBool::new(false));
    let failure = Mutex::new(None);
    let work = |empty: &F| {
        let mut chunk = Chunk::default();
        while !failed.load(Ordering::Relaxed) {
            match locked(&feed).next(&mut chunk) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    *locked(&failure) = Some(error);
                    room.notify_all();
                    break;
                }
            }
            let mut fold = empty.clone();
            let tally = add_lines(&chunk.bytes, inputs, &mut fold);
            let mut merged = locked(&merged);
            // The thread with the next chunk never waits, so this loop ends.
            while chunk.number > merged.next && merged.waiting.len() >= threads && !failed.load(Ordering::Relaxed) {
                merged = room.wait(merged).unwrap_or_else(PoisonError::into_inner);
            }
            merged.put(chunk.number, chunk.file, fold, tally);
            room.notify_all();
        }
    };
    rayon::in_place_scope(|scope| {
        for _ in 0..threads {
            let (work, empty) = (&work, empty.clone());
            scope.spawn(move |_| work(&empty));
        }
    });
    if let Some(error) = locked(&failure).take() {
        return Err(error);
    }
    let merged = merged.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((merged.fold, summary(&files, merged.tallies)?))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts of the lines of a chunk or of a file.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// All lines, including blank ones.
    lines: u64,
    blank: u64,
    invalid: u64,
    first_invalid: Option<(u64, String)>,
    span: Option<(u64, u64)>,
}

impl Tally {
    fn merge(&mut self, later: Self) {
        if self.first_invalid.is_none() {
            self.first_invalid = later.first_invalid.map(|(line, why)| (self.lines + line, why));
        }
        self.lines += later.lines;
        self.blank += later.blank;
        self.invalid += later.invalid;
        self.span = joined(self.span, later.span);
    }
}

fn joined(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// Sums the counts of all files.
fn summary(files: &[PathBuf], tallies: Vec<Tally>) -> Result<ReadSummary, AnalysisError> {
    let mut summary = ReadSummary::default();
    for (file, tally) in files.iter().zip(tallies) {
        let lines = tally.lines - tally.blank;
        if tally.invalid == lines {
            return Err(AnalysisError::NoRecord { name: path::display_name(file), why: tally.first_invalid.map(|(_, why)| why) });
        }
        summary.lines += lines;
        summary.invalid += tally.invalid;
        summary.span = joined(summary.span, tally.span);
        if summary.first_invalid.is_none() {
            summary.first_invalid = tally.first_invalid.map(|(line, why)| InvalidLine { file: path::display_name(file), line, why });
        }
    }
    Ok(summary)
}

fn add_lines<F: Fold>(bytes: &[u8], inputs: &Inputs, fold: &mut F) -> Tally {
    let mut tally = Tally::default();
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes).chain((!bytes.ends_with(b"\n")).then_some(bytes.len()));
    for end in ends {
        let line = bytes[start..end].trim_ascii();
        start = end + 1;
        tally.lines += 1;
        if line.is_empty() {
            tally.blank += 1;
        } else if let Err(error) = add_line(line, inputs, fold, &mut tally) {
            tally.invalid += 1;
            tally.first_invalid.get_or_insert_with(|| (tally.lines, error.to_string()));
        }
    }
    tally
}

fn add_line<F: Fold>(line: &[u8], inputs: &Inputs, fold: &mut F, tally: &mut Tally) -> Result<(), serde_json::Error> {
    let head = Head::of(line)?;
    let Some(kind) = head.kind else { return Ok(()) };
    let is_within = kind == Type::Start || inputs.contains(head.ts);
    if is_within && fold.uses(kind) {
        let is_brief = kind == Type::Port && !fold.uses_counters();
        fold.add(&if is_brief { Record::parse_without_counters(line)? } else { Record::parse(line, kind)? });
    }
    if is_within && kind != Type::Start {
        tally.span = joined(tally.span, Some((head.ts, head.ts)));
    }
    Ok(())
}

/// The merged folds, and those that wait for an earlier chunk.
struct Merged<F> {
    fold: F,
    tallies: Vec<Tally>,
    next: u64,
    waiting: BTreeMap<u64, (usize, F, Tally)>,
}

impl<F: Fold> Merged<F> {
    fn put(&mut self, number: u64, file: usize, fold: F, tally: Tally) {
        self.waiting.insert(number, (file, fold, tally));
        while let Some((file, fold, tally)) = self.waiting.remove(&self.next) {
            self.fold.merge(fold);
            self.tallies[file].merge(tally);
            self.next += 1;
        }
    }
}

/// Whole lines of one file.
#[derive(Default)]
struct Chunk {
    number: u64,
    file: usize,
    bytes: Vec<u8>,
}

/// Cuts the files into chunks.
struct Feed<'a> {
    files: &'a [PathBuf],
    /// Index of the file of the next chunk.
    file: usize,
    /// Number of the next chunk.
    number: u64,
    open: Option<OpenFile>,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Octets of the files that were read completely.
    done: u64,
    /// Octets of all files.
    total: u64,
}

struct OpenFile {
    reader: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    /// Whether that line is too long: its remainder is skipped.
    too_long: bool,
}

impl<'a> Feed<'a> {
    fn new(files: &'a [PathBuf], progress: &'a (dyn Fn(u64, u64) + Sync)) -> Self {
        let total = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum();
        Self { files, file: 0, number: 0, open: None, progress, done: 0, total }
    }

    /// Reads the next chunk. Returns false after the last one.
    fn next(&mut self, chunk: &mut Chunk) -> Result<bool, AnalysisError> {
        while let Some(path) = self.files.get(self.file) {
            let failed = |source| AnalysisError::Read { name: path::display_name(path), source };
            let open = match &mut self.open {
                Some(open) => open,
                closed => {
                    let (reader, done) = open(path).map_err(failed)?;
                    closed.insert(OpenFile { reader, done, rest: Vec::new(), too_long: false })
                }
            };
            let is_last = open.fill(&mut chunk.bytes).map_err(failed)?;
            chunk.file = self.file;
            chunk.number = self.number;
            let done = open.done.load(Ordering::Relaxed);
            (self.progress)(self.done + done, self.total);
            if is_last {
                (self.open, self.done, self.file) = (None, self.done + done, self.file + 1);
            }
            if !chunk.bytes.is_empty() {
                self.number += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl OpenFile {
    /// Reads whole lines. Returns true at the end of the file.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        /// Octets of a line that is too long that are kept for an error message.
        const KEPT: usize = 64;
        bytes.clear();
        bytes.append(&mut self.rest);
        loop {
            let before = bytes.len();
            let read = self.reader.by_ref().take(CHUNK as u64).read_to_end(bytes)?;
            if self.too_long {
                let end = memchr::memchr(b'\n', &bytes[before..]);
                bytes.drain(before..end.map_or(bytes.len(), |end| before + end));
                self.too_long = end.is_none();
            }
            if read == 0 {
                return Ok(true);
            }
            if let Some(last) = memchr::memrchr(b'\n', bytes) {
                self.rest.extend_from_slice(&bytes[last + 1..]);
                bytes.truncate(last + 1);
                return Ok(false);
            }
            if bytes.len() > LONGEST {
                bytes.truncate(KEPT);
                self.too_long = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The times of the records in the order of arrival; 0 for a `start` record.
    #[derive(Clone, PartialEq, Debug, Default)]
    struct Times(Vec<u64>);

    impl Fold for Times {
        fn uses(&self, kind: Type) -> bool {
            kind != Type::Event
        }

        fn add(&mut self, record: &Record<'_>) {
            match record {
                Record::Port(port) => self.0.push(port.ts),
                Record::Start(_) => self.0.push(0),
                other => panic!("{other:?}"),
            }
        }

        fn merge(&mut self, later: Self) {
            self.0.extend(later.0);
        }
    }

    fn port(ts: u64) -> String {
        format!("{{\"type\":\"port\",\"ts\":{ts},\"guid\":\"0x0000000000000001\",\"port\":1}}\n")
    }

    fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = dir.join(name);
        File::create(&path).unwrap().write_all(bytes).unwrap();
        path
    }

    fn times(inputs: &Inputs) -> Result<(Vec<u64>, ReadSummary), AnalysisError> {
        read(inputs, &Times::default()).map(|(times, summary)| (times.0, summary))
    }

    #[test]
    fn files_are_merged_by_time_with_any_number_of_threads() {
        let dir = tempfile::tempdir().unwrap();
        // More than two chunks.
        let count = 3 * CHUNK as u64 / 60;
        let text: String = (10..10 + count).map(port).collect();
        assert!(text.len() > 2 * CHUNK);
        let young = file(dir.path(), "a.jsonl", text.as_bytes());
        let old = file(dir.path(), "b.jsonl.zst", &zstd::encode_all((port(1) + &port(2)).as_bytes(), 0).unwrap());
        let inputs = Inputs::new(&[young, old]).unwrap();
        let all: Vec<u64> = [1, 2].into_iter().chain(10..10 + count).collect();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (times, summary) = pool.install(|| times(&inputs)).unwrap();
            assert!(times == all, "{threads} threads");
            assert_eq!((summary.lines, summary.invalid, summary.span), (count + 2, 0, Some((1, 9 + count))));
        }
    }

    #[test]
    fn invalid_lines_are_counted_and_the_first_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("{{\"type\":\"port\",\"x\":\"{}\"}}\n", "x".repeat(LONGEST + CHUNK));
        let text = format!("{}\r\n\nnonsense\n{}{long}{}{{\"type\":\"po", port(1).trim_end(), port(2), port(3));
        let later = "{\"type\":\"weather\",\"ts\":9}\n{\"type\":\"event\",\"ts\":8,\"not\":\"looked at\"}\n";
        let inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes()), file(dir.path(), "b", later.as_bytes())]).unwrap();
        let (times, summary) = times(&inputs).unwrap();
        assert_eq!((times, summary.lines, summary.invalid), (vec![1, 2, 3], 8, 3));
        let invalid = summary.first_invalid.unwrap();
        assert!(invalid.file.ends_with("/a") && invalid.line == 3, "{invalid:?}");
    }

    #[test]
    fn time_range_selects_records_and_keeps_start_records() {
        let dir = tempfile::tempdir().unwrap();
        let start = "{\"type\":\"start\",\"ts\":1,\"sampler\":\"a\",\"interval_ns\":1}\n";
        let text = [start.to_owned(), port(2), port(3), port(4)].concat();
        let mut inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
        (inputs.from, inputs.to) = (Some(3), Some(4));
        let (times, summary) = times(&inputs).unwrap();
        assert_eq!((times, summary.lines, summary.span), (vec![0, 3], 4, Some((3, 3))));
    }

    #[test]
    fn patterns_expand_to_each_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (file(dir.path(), "a.jsonl", b""), file(dir.path(), "b[1].jsonl", b""));
        let all = dir.path().join("*.jsonl");
        assert_eq!(Inputs::new(&[b.clone(), all]).unwrap().files, [b, a]);
        assert!(matches!(Inputs::new(&[dir.path().join("*.zst")]), Err(AnalysisError::NoFile { .. })));
        assert!(matches!(Inputs::new(&[dir.path().join("[")]), Err(AnalysisError::Pattern { .. })));
    }

    #[test]
    fn file_without_a_record_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for (text, reason) in [("", "it is empty"), ("\n\n", "it is empty"), ("<html>\n", "first line: expected value")] {
            let inputs = Inputs::new(&[file(dir.path(), "a", port(1).as_bytes()), file(dir.path(), "b", text.as_bytes())]).unwrap();
            let error = times(&inputs).unwrap_err().to_string();
            assert!(error.contains("/b: it has no record") && error.contains(reason), "{error}");
        }
        assert!(matches!(times(&Inputs { files: vec![dir.path().join("none")], ..Inputs::default() }), Err(AnalysisError::Read { .. })));
        let cut = &zstd::encode_all(port(1).repeat(1000).as_bytes(), 0).unwrap()[..20];
        assert!(matches!(times(&Inputs::new(&[file(dir.path(), "c", cut)]).unwrap()), Err(AnalysisError::Read { .. })));
    }
}
