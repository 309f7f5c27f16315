//! Recorded lines, any number of gigabytes of them.
//!
//! A file is read in chunks of whole lines. Each chunk is folded by whichever thread is free, from the empty state, and the folds are merged in
//! the order of the chunks: so what comes out does not depend on how many threads there are, and memory is bounded by the chunks under way and
//! by what the fold keeps.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::error::ViewError;
use super::record::{Head, Record, Type};
use ibnet::cli::{self, Progress};

/// What is made of records, one after the other.
pub trait Fold: Clone + Send {
    /// Whether records of that type matter; others are counted, not read.
    fn wants(&self, _kind: Type) -> bool {
        true
    }

    /// Whether the counters of port records matter; without them reading is faster.
    fn wants_counters(&self) -> bool {
        true
    }

    /// Takes a record.
    fn take(&mut self, record: &Record<'_>);

    /// Takes all that was made of the records that stand after ours: later lines of the same file, or another file's.
    fn merge(&mut self, later: Self);
}

/// What to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// Each once; `-` is standard input. They are read in the order of their first lines.
    pub files: Vec<PathBuf>,
    /// No record before this instant, in nanoseconds since 1970; `start` records always count.
    pub from: Option<u64>,
    /// None at or after this one.
    pub to: Option<u64>,
}

/// How the reading went.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// Lines that are not blank.
    pub lines: u64,
    /// Those of them that are no records.
    pub bad: u64,
    /// The first of these.
    pub first_bad: Option<BadLine>,
    /// The first and the last instant of the records that were within the given times, `start` records apart.
    pub span: Option<(u64, u64)>,
}

/// A line that is no record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadLine {
    /// Its file.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Octets that a thread takes at a time.
const CHUNK: usize = 4 << 20;

/// A longer line is no record: they have at most 16 KiB.
const LONGEST: usize = 1 << 20;

/// Below so many octets nobody has to wait.
const LONG_WORK: u64 = 64 << 20;

/// What a file begins with that zstd compressed (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

impl Inputs {
    /// The files that the arguments of a command stand for: a name that exists is itself, any other is a pattern.
    ///
    /// # Errors
    /// When a pattern is none, or stands for no file.
    pub fn new(patterns: &[PathBuf]) -> Result<Self, ViewError> {
        let mut files = Vec::new();
        let mut known = Vec::new();
        for pattern in patterns {
            for file in expand(pattern)? {
                // Given twice, or matched by two patterns, it would count twice.
                let real = fs::canonicalize(&file).unwrap_or_else(|_| file.clone());
                if !known.contains(&real) {
                    known.push(real);
                    files.push(file);
                }
            }
        }
        Ok(Self { files, from: None, to: None })
    }

    fn has(&self, ts: u64) -> bool {
        self.from.is_none_or(|from| ts >= from) && self.to.is_none_or(|to| ts < to)
    }

    /// The files by the times of their first records: what was rotated is put together again, whatever it is called.
    pub(super) fn in_order(&self) -> Vec<PathBuf> {
        let mut files = self.files.clone();
        // What is no regular file can be read only once, and comes last. What cannot be read comes first, and is told then.
        files.sort_by_cached_key(|file| {
            if fs::metadata(file).is_ok_and(|file| !file.is_file()) || cli::is_dash(file) { u64::MAX } else { first_ts(file).unwrap_or(0) }
        });
        files
    }
}

fn expand(pattern: &Path) -> Result<Vec<PathBuf>, ViewError> {
    let text = pattern.to_string_lossy();
    if cli::is_dash(pattern) || pattern.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![pattern.to_owned()]);
    }
    let found = glob::glob(&text).map_err(|error| ViewError::Pattern { pattern: text.clone().into_owned(), why: error.msg.to_owned() })?;
    let files: Vec<PathBuf> = found.filter_map(Result::ok).filter(|path| !path.is_dir()).collect();
    if files.is_empty() { Err(ViewError::NoFile { pattern: text.into_owned() }) } else { Ok(files) }
}

/// The time of the first record among the first lines.
fn first_ts(file: &Path) -> Option<u64> {
    const LOOK: usize = 16;
    let lines = BufReader::new(open(file).ok()?.0).take(LONGEST as u64).split(b'\n').take(LOOK);
    lines.map_while(Result::ok).find_map(|line| Head::of(line.trim_ascii()).ok()).map(|head| head.ts)
}

/// The text of a file, in order.
pub(super) type Lines = BufReader<Box<dyn Read + Send>>;

/// All lines of a file without their line feeds.
pub(super) fn lines(file: &Path) -> io::Result<io::Split<Lines>> {
    Ok(BufReader::new(open(file)?.0).split(b'\n'))
}

/// A file as it was before it was compressed, and how many octets of it were read from the disk.
fn open(path: &Path) -> io::Result<(Box<dyn Read + Send>, Arc<AtomicU64>)> {
    let done = Arc::new(AtomicU64::new(0));
    let file: Box<dyn Read + Send> = if cli::is_dash(path) { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
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
/// When a file cannot be read, or has no record at all.
pub fn read<F: Fold>(inputs: &Inputs, empty: &F) -> Result<(F, Told), ViewError> {
    let files = inputs.in_order();
    let feed = Mutex::new(Feed::new(&files));
    let merged =
        Mutex::new(Merged { fold: empty.clone(), tallies: vec![Tally::default(); files.len()], next: 0, waiting: BTreeMap::new() });
    // Each of the threads holds one chunk; as many again may wait for their turn to be merged.
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
            let tally = take_lines(&chunk.bytes, inputs, &mut fold);
            let mut merged = locked(&merged);
            // Whoever has the next one goes on, so this ends.
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
    locked(&feed).bar.finish();
    if let Some(error) = locked(&failure).take() {
        return Err(error);
    }
    let merged = merged.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((merged.fold, told(&files, merged.tallies)?))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of the lines of a chunk or of a file.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// All, blank ones too.
    lines: u64,
    blank: u64,
    bad: u64,
    first_bad: Option<(u64, String)>,
    span: Option<(u64, u64)>,
}

impl Tally {
    fn merge(&mut self, later: Self) {
        if self.first_bad.is_none() {
            self.first_bad = later.first_bad.map(|(line, why)| (self.lines + line, why));
        }
        self.lines += later.lines;
        self.blank += later.blank;
        self.bad += later.bad;
        self.span = joined(self.span, later.span);
    }
}

fn joined(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// The sum over the files.
fn told(files: &[PathBuf], tallies: Vec<Tally>) -> Result<Told, ViewError> {
    let mut told = Told::default();
    for (file, tally) in files.iter().zip(tallies) {
        let lines = tally.lines - tally.blank;
        if tally.bad == lines {
            return Err(ViewError::NoRecord { name: cli::name_of(file), why: tally.first_bad.map(|(_, why)| why) });
        }
        told.lines += lines;
        told.bad += tally.bad;
        told.span = joined(told.span, tally.span);
        if told.first_bad.is_none() {
            told.first_bad = tally.first_bad.map(|(line, why)| BadLine { file: cli::name_of(file), line, why });
        }
    }
    Ok(told)
}

fn take_lines<F: Fold>(bytes: &[u8], inputs: &Inputs, fold: &mut F) -> Tally {
    let mut tally = Tally::default();
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes).chain((!bytes.ends_with(b"\n")).then_some(bytes.len()));
    for end in ends {
        let line = bytes[start..end].trim_ascii();
        start = end + 1;
        tally.lines += 1;
        if line.is_empty() {
            tally.blank += 1;
        } else if let Err(error) = take_line(line, inputs, fold, &mut tally) {
            tally.bad += 1;
            tally.first_bad.get_or_insert_with(|| (tally.lines, error.to_string()));
        }
    }
    tally
}

fn take_line<F: Fold>(line: &[u8], inputs: &Inputs, fold: &mut F, tally: &mut Tally) -> Result<(), serde_json::Error> {
    let head = Head::of(line)?;
    let Some(kind) = head.kind else { return Ok(()) };
    let is_within = kind == Type::Start || inputs.has(head.ts);
    if is_within && fold.wants(kind) {
        let is_brief = kind == Type::Port && !fold.wants_counters();
        fold.take(&if is_brief { Record::parse_without_counters(line)? } else { Record::parse(line, kind)? });
    }
    if is_within && kind != Type::Start {
        tally.span = joined(tally.span, Some((head.ts, head.ts)));
    }
    Ok(())
}

/// The folds so far, in the order of their chunks.
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
    /// Of the next chunk.
    file: usize,
    number: u64,
    open: Option<Open>,
    bar: Progress,
    /// Octets of the files that were read to their ends.
    done: u64,
}

struct Open {
    reader: Box<dyn Read + Send>,
    done: Arc<AtomicU64>,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    /// Whether that line is so long that the rest of it is passed over.
    too_long: bool,
}

impl<'a> Feed<'a> {
    fn new(files: &'a [PathBuf]) -> Self {
        let octets: u64 = files.iter().filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum();
        let bar = if octets >= LONG_WORK { Progress::new(octets >> 20, "MiB") } else { Progress::hidden() };
        Self { files, file: 0, number: 0, open: None, bar, done: 0 }
    }

    /// The next chunk; false after the last.
    fn next(&mut self, chunk: &mut Chunk) -> Result<bool, ViewError> {
        while let Some(path) = self.files.get(self.file) {
            let failed = |source| ViewError::Read { name: cli::name_of(path), source };
            let open = match &mut self.open {
                Some(open) => open,
                closed => {
                    let (reader, done) = open(path).map_err(failed)?;
                    closed.insert(Open { reader, done, rest: Vec::new(), too_long: false })
                }
            };
            let is_last = open.fill(&mut chunk.bytes).map_err(failed)?;
            chunk.file = self.file;
            chunk.number = self.number;
            let done = open.done.load(Ordering::Relaxed);
            self.bar.set((self.done + done) >> 20);
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

impl Open {
    /// Reads whole lines; true when nothing follows.
    fn fill(&mut self, bytes: &mut Vec<u8>) -> io::Result<bool> {
        /// What is kept of a line that is too long: enough to be told of.
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

    /// What came, in its order.
    #[derive(Clone, PartialEq, Debug, Default)]
    struct Seen(Vec<u64>);

    impl Fold for Seen {
        fn wants(&self, kind: Type) -> bool {
            kind != Type::Event
        }

        fn take(&mut self, record: &Record<'_>) {
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

    fn seen(inputs: &Inputs) -> Result<(Vec<u64>, Told), ViewError> {
        read(inputs, &Seen::default()).map(|(seen, told)| (seen.0, told))
    }

    #[test]
    fn files_are_read_by_their_times_whole_whatever_the_number_of_threads() {
        let dir = tempfile::tempdir().unwrap();
        // A line a hundred octets, so several chunks.
        let count = 3 * CHUNK as u64 / 60;
        let text: String = (10..10 + count).map(port).collect();
        assert!(text.len() > 2 * CHUNK);
        let young = file(dir.path(), "a.jsonl", text.as_bytes());
        let old = file(dir.path(), "b.jsonl.zst", &zstd::encode_all((port(1) + &port(2)).as_bytes(), 0).unwrap());
        let inputs = Inputs::new(&[young, old]).unwrap();
        let all: Vec<u64> = [1, 2].into_iter().chain(10..10 + count).collect();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let (seen, told) = pool.install(|| seen(&inputs)).unwrap();
            assert!(seen == all, "{threads} threads");
            assert_eq!((told.lines, told.bad, told.span), (count + 2, 0, Some((1, 9 + count))));
        }
    }

    #[test]
    fn bad_lines_are_counted_and_the_first_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("{{\"type\":\"port\",\"x\":\"{}\"}}\n", "x".repeat(LONGEST + CHUNK));
        let text = format!("{}\r\n\nnonsense\n{}{long}{}{{\"type\":\"po", port(1).trim_end(), port(2), port(3));
        let later = "{\"type\":\"weather\",\"ts\":9}\n{\"type\":\"event\",\"ts\":8,\"not\":\"looked at\"}\n";
        let inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes()), file(dir.path(), "b", later.as_bytes())]).unwrap();
        let (seen, told) = seen(&inputs).unwrap();
        assert_eq!((seen, told.lines, told.bad), (vec![1, 2, 3], 8, 3));
        let bad = told.first_bad.unwrap();
        assert!(bad.file.ends_with("/a") && bad.line == 3, "{bad:?}");
    }

    #[test]
    fn times_choose_and_the_heads_of_streams_always_count() {
        let dir = tempfile::tempdir().unwrap();
        let start = "{\"type\":\"start\",\"ts\":1,\"sampler\":\"a\",\"interval_ns\":1}\n";
        let text = [start.to_owned(), port(2), port(3), port(4)].concat();
        let mut inputs = Inputs::new(&[file(dir.path(), "a", text.as_bytes())]).unwrap();
        (inputs.from, inputs.to) = (Some(3), Some(4));
        let (seen, told) = seen(&inputs).unwrap();
        assert_eq!((seen, told.lines, told.span), (vec![0, 3], 4, Some((3, 3))));
    }

    #[test]
    fn patterns_are_files_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (file(dir.path(), "a.jsonl", b""), file(dir.path(), "b[1].jsonl", b""));
        let all = dir.path().join("*.jsonl");
        assert_eq!(Inputs::new(&[b.clone(), all]).unwrap().files, [b, a]);
        assert!(matches!(Inputs::new(&[dir.path().join("*.zst")]), Err(ViewError::NoFile { .. })));
        assert!(matches!(Inputs::new(&[dir.path().join("[")]), Err(ViewError::Pattern { .. })));
    }

    #[test]
    fn a_file_without_a_record_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for (text, told) in [("", "it is empty"), ("\n\n", "it is empty"), ("<html>\n", "its first line: expected value")] {
            let inputs = Inputs::new(&[file(dir.path(), "a", port(1).as_bytes()), file(dir.path(), "b", text.as_bytes())]).unwrap();
            let error = seen(&inputs).unwrap_err().to_string();
            assert!(error.contains("/b: there is no record in it") && error.contains(told), "{error}");
        }
        assert!(matches!(seen(&Inputs { files: vec![dir.path().join("none")], ..Inputs::default() }), Err(ViewError::Read { .. })));
        let cut = &zstd::encode_all(port(1).repeat(1000).as_bytes(), 0).unwrap()[..20];
        assert!(matches!(seen(&Inputs::new(&[file(dir.path(), "c", cut)]).unwrap()), Err(ViewError::Read { .. })));
    }
}
