//! Reads one file in chunks of whole lines, and finds the time of each line.
//!
//! The lines of a file are in time order, apart from deviations up to [`Stream::slack_ns`]. If a
//! file is not, it is read again through an index of its lines that is sorted by time.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::files::{self, FirstLines, Text};
use super::key::Key;
use super::limits;
use super::rows::PortRows;
use super::selection::Selection;
use crate::record::{Head, Type};

/// Whole lines of a file, or rows of an archive.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Index of the file.
    pub(super) file: usize,
    pub(super) bytes: Vec<u8>,
    /// Rows of an archive. The chunk then has no lines.
    pub(super) rows: Option<Arc<PortRows>>,
    /// Number of the first line, from 1.
    pub(super) first_line: u64,
    /// Start and line number of each line of a sorted file. Empty if the file was in time order.
    pub(super) numbers: Vec<(u32, u32)>,
    /// Number of line feeds before each block of [`Self::BLOCK`] bytes, counted at the first use.
    pub(super) line_feeds: OnceLock<Vec<u64>>,
    /// Latest time of the selected lines.
    pub(super) latest: u64,
}

/// A line or row that was selected.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRef {
    pub(super) ts: u64,
    pub(super) key: Key,
    pub(super) kind: Type,
    /// Number of the chunk, which is set when the chunk is stored.
    pub(super) chunk: u32,
    /// Offset of the line in the chunk, or index of the row.
    pub(super) start: u32,
    pub(super) length: u32,
}

/// Counts of the lines of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// All lines, including blank ones.
    pub(super) lines: u64,
    pub(super) blank: u64,
    pub(super) invalid: u64,
    /// Number and fault of the first invalid line.
    pub(super) first_invalid: Option<(u64, String)>,
    /// Earliest and latest time of the records within the selected time range.
    pub(super) span: Option<(u64, u64)>,
}

/// A file in progress.
pub(super) struct Stream {
    pub(super) path: PathBuf,
    file: usize,
    source: Source,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    /// Whether the line in `rest` is too long. The remainder of such a line is skipped.
    too_long: bool,
    /// Number of bytes of a too long line that the last chunk lacks. They follow the first bytes
    /// of the line.
    skipped: u64,
    /// Time of the first record.
    first_ts: u64,
    /// Latest time of the lines so far; before the first line, the time of the first record.
    high: u64,
    /// Time by which the last chunk advanced `high`, in nanoseconds.
    pub(super) reached_ns: u64,
    slack_ns: u64,
    done: Arc<AtomicU64>,
    pub(super) tally: Tally,
    /// Whether the compressed data ended in the middle of a frame.
    pub(super) is_cut: bool,
    /// Whether a line was older than [`Self::slack_ns`] allows.
    pub(super) is_disordered: bool,
}

enum Source {
    Unopened,
    InOrder(Text),
    Sorted {
        file: File,
        index: Vec<Entry>,
        next: usize,
    },
    Ended,
}

/// A line of a sorted file.
#[derive(Clone, Copy)]
struct Entry {
    ts: u64,
    offset: u64,
    length: u32,
    number: u32,
}

impl Chunk {
    const BLOCK: usize = 4096;

    /// Returns a line without its line feed.
    pub(super) fn line(&self, line: &LineRef) -> &[u8] {
        &self.bytes[line.start as usize..][..line.length as usize]
    }

    /// Returns the number of a line in its file, from 1.
    pub(super) fn number(&self, line: &LineRef) -> u64 {
        if self.rows.is_some() {
            return u64::from(line.start) + 1;
        }
        match self
            .numbers
            .partition_point(|(start, _)| *start <= line.start)
        {
            0 => self.first_line + self.line_feeds_before(line.start as usize),
            after => u64::from(self.numbers[after - 1].1),
        }
    }

    /// Returns the number of line feeds before an offset. The block counts keep this fast even in
    /// a chunk of only invalid lines.
    fn line_feeds_before(&self, end: usize) -> u64 {
        let count = |octets: &[u8]| memchr::memchr_iter(b'\n', octets).count() as u64;
        let before = self.line_feeds.get_or_init(|| {
            let sum =
                |sum: &mut u64, block: &[u8]| Some(std::mem::replace(sum, *sum + count(block)));
            self.bytes.chunks(Self::BLOCK).scan(0, sum).collect()
        });
        let block = end / Self::BLOCK;
        match before.get(block) {
            Some(before) => before + count(&self.bytes[block * Self::BLOCK..end]),
            None => count(&self.bytes[..end]),
        }
    }
}

impl Stream {
    pub(super) fn new(file: usize, path: PathBuf, first: FirstLines) -> Self {
        Self {
            path,
            file,
            source: Source::Unopened,
            rest: Vec::new(),
            too_long: false,
            skipped: 0,
            first_ts: first.ts.unwrap_or(0),
            high: first.ts.unwrap_or(0),
            reached_ns: 0,
            slack_ns: limits::DISORDER_NS.max(first.interval_ns.unwrap_or(0).saturating_mul(2)),
            done: Arc::default(),
            tally: Tally::default(),
            is_cut: false,
            is_disordered: false,
        }
    }

    /// Returns a time that no further line of the file precedes. Returns `None` at the end of the
    /// file.
    pub(super) fn watermark(&self) -> Option<u64> {
        (!matches!(self.source, Source::Ended)).then(|| self.high.saturating_sub(self.slack_ns))
    }

    /// Returns the bytes that were read from the disk.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Reads whole lines, at least `size` bytes unless the file ends.
    pub(super) fn read(
        &mut self,
        size: usize,
        selection: &Selection,
    ) -> io::Result<(Chunk, Vec<LineRef>)> {
        if matches!(self.source, Source::Unopened) {
            self.open()?;
        }
        let mut chunk = Chunk {
            file: self.file,
            first_line: self.tally.lines + 1,
            ..Chunk::default()
        };
        let is_last = match &mut self.source {
            Source::InOrder(_) => self.fill(size, &mut chunk.bytes)?,
            Source::Sorted { file, index, next } => {
                fill_sorted(file, index, next, size, &mut chunk)?
            }
            Source::Unopened | Source::Ended => true,
        };
        let lines = self.index(&mut chunk, selection);
        if is_last {
            self.source = Source::Ended;
        }
        Ok((chunk, lines))
    }

    fn open(&mut self) -> io::Result<()> {
        if files::is_pipe(&self.path) {
            // A pipe can be read only once, but its lines may have to be sorted.
            let file = self.spool()?;
            self.sort(file)?;
            return Ok(());
        }
        let (text, done) = files::open(&self.path)?;
        (self.source, self.done) = (Source::InOrder(text), done);
        Ok(())
    }

    /// Prepares the file to be read again, sorted if its lines are not in time order.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        if let Source::Sorted { index, next, .. } = &mut self.source {
            (*next, self.tally.span) = (0, None);
            self.high = index.first().map_or(0, |entry| entry.ts);
            return Ok(());
        }
        let was_disordered = std::mem::take(&mut self.is_disordered);
        let file = if files::is_compressed(&self.path)? {
            self.spool()?
        } else {
            File::open(&self.path)?
        };
        if !self.sort(file)? && !was_disordered {
            (self.source, self.tally) = (Source::Unopened, Tally::default());
            (self.high, self.reached_ns) = (self.first_ts, 0);
        }
        Ok(())
    }

    /// Copies the decompressed text to an unnamed temporary file.
    fn spool(&mut self) -> io::Result<File> {
        let (mut text, done) = files::open(&self.path)?;
        self.done = done;
        let mut file = tempfile::tempfile()?;
        match io::copy(&mut text, &mut file) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.is_cut = true,
            copied => drop(copied?),
        }
        file.rewind()?;
        Ok(file)
    }

    /// Builds the index of a file and sorts it by time. Returns whether a line was older than an
    /// earlier line by more than [`Self::slack_ns`].
    fn sort(&mut self, file: File) -> io::Result<bool> {
        (self.tally, self.rest, self.too_long) = (Tally::default(), Vec::new(), false);
        let (mut index, mut offset, mut high, mut is_disordered) = (Vec::new(), 0, 0_u64, false);
        self.source = Source::InOrder(Box::new(file.try_clone()?));
        let mut bytes = Vec::new();
        loop {
            let is_last = self.fill(limits::CHUNK, &mut bytes)?;
            for_each_line(&bytes, |start, line| {
                self.tally.lines += 1;
                if line.trim_ascii().is_empty() {
                    self.tally.blank += 1;
                    return;
                }
                match Head::of(line.trim_ascii()) {
                    Ok(head) => {
                        is_disordered |= head.ts < high.saturating_sub(self.slack_ns);
                        high = high.max(head.ts);
                        index.push(Entry {
                            ts: head.ts,
                            offset: offset
                                + start as u64
                                + if start > 0 { self.skipped } else { 0 },
                            length: line.len() as u32,
                            number: u32::try_from(self.tally.lines).unwrap_or(u32::MAX),
                        });
                    }
                    Err(error) => self.tally.add_invalid(self.tally.lines, &error),
                }
            });
            offset += bytes.len() as u64 + self.skipped;
            if is_last {
                break;
            }
        }
        index.sort_by_key(|entry| entry.ts);
        // A file without a line ends immediately.
        self.high = index.first().map_or(0, |entry| entry.ts);
        self.source = Source::Sorted {
            file,
            index,
            next: 0,
        };
        Ok(is_disordered)
    }

    /// Reads whole lines. Returns true at the end of the file.
    fn fill(&mut self, size: usize, bytes: &mut Vec<u8>) -> io::Result<bool> {
        /// Number of bytes of a too long line that are kept for the error message.
        const KEPT: usize = 64;
        let Source::InOrder(text) = &mut self.source else {
            return Ok(true);
        };
        self.skipped = 0;
        bytes.clear();
        bytes.append(&mut self.rest);
        loop {
            let before = bytes.len();
            let read = match text.by_ref().take(size as u64).read_to_end(bytes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_cut = true;
                    bytes.len() - before
                }
                read => read?,
            };
            if self.too_long {
                let end = memchr::memchr(b'\n', &bytes[before..]);
                self.skipped += end.unwrap_or(bytes.len() - before) as u64;
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
            if bytes.len() > limits::LINE {
                self.skipped += (bytes.len() - KEPT) as u64;
                bytes.truncate(KEPT);
                self.too_long = true;
            }
        }
    }

    /// Returns the selected lines of a chunk, and counts all of them.
    fn index(&mut self, chunk: &mut Chunk, selection: &Selection) -> Vec<LineRef> {
        let is_sorted = matches!(self.source, Source::Sorted { .. });
        let (mut lines, mut latest, before) = (Vec::new(), 0, self.high);
        let mut high = self.high;
        for_each_line(&chunk.bytes, |start, line| {
            let trimmed = line.trim_ascii();
            // The lines of a sorted file were counted while it was sorted.
            self.tally.lines += u64::from(!is_sorted);
            if trimmed.is_empty() {
                self.tally.blank += 1;
                return;
            }
            let start = (start + (trimmed.as_ptr() as usize - line.as_ptr() as usize)) as u32;
            let parsed = Head::of(trimmed).and_then(|head| {
                let Some(kind) = head.kind else {
                    return Ok(None);
                };
                let is_needed = selection.needs(kind, head.ts);
                let key = if is_needed {
                    Some(Key::of(trimmed, kind)?)
                } else {
                    None
                };
                Ok(Some((head.ts, kind, key)))
            });
            match parsed {
                Ok(Some((ts, kind, key))) => {
                    self.is_disordered |= !is_sorted && ts < high.saturating_sub(self.slack_ns);
                    high = high.max(ts);
                    if kind != Type::Start && selection.contains(ts) {
                        self.tally.span = joined(self.tally.span, Some((ts, ts)));
                    }
                    if let Some(key) = key {
                        latest = latest.max(ts);
                        lines.push(LineRef {
                            ts,
                            key,
                            kind,
                            chunk: 0,
                            start,
                            length: trimmed.len() as u32,
                        });
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let number = chunk.number(&LineRef {
                        ts: 0,
                        key: Key::default(),
                        kind: Type::Start,
                        chunk: 0,
                        start,
                        length: 0,
                    });
                    self.tally.add_invalid(number, &error);
                }
            }
        });
        (self.high, self.reached_ns, chunk.latest) = (high, high - before, latest);
        lines
    }
}

impl Tally {
    pub(super) fn add_invalid(&mut self, number: u64, error: &serde_json::Error) {
        self.invalid += 1;
        self.first_invalid
            .get_or_insert_with(|| (number, error.to_string()));
    }
}

/// Returns the shortest time range that covers both.
pub(super) fn joined(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// Reads lines of a sorted file. Returns true after the last one.
fn fill_sorted(
    file: &File,
    index: &[Entry],
    next: &mut usize,
    size: usize,
    chunk: &mut Chunk,
) -> io::Result<bool> {
    while *next < index.len() && chunk.bytes.len() < size {
        let first = index[*next];
        let mut end = first.offset;
        let start = chunk.bytes.len();
        // Adjacent lines are read at once.
        while let Some(entry) = index
            .get(*next)
            .filter(|entry| entry.offset == end && start + (end - first.offset) as usize <= size)
        {
            chunk.numbers.push((
                (start + (entry.offset - first.offset) as usize) as u32,
                entry.number,
            ));
            end = entry.offset + u64::from(entry.length) + 1;
            *next += 1;
        }
        chunk
            .bytes
            .resize(start + (end - 1 - first.offset) as usize, 0);
        file.read_exact_at(&mut chunk.bytes[start..], first.offset)?;
        chunk.bytes.push(b'\n');
    }
    Ok(*next == index.len())
}

/// Calls `each` with the start and the text of each line.
fn for_each_line(bytes: &[u8], mut each: impl FnMut(usize, &[u8])) {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', bytes)
        .chain((!bytes.is_empty() && !bytes.ends_with(b"\n")).then_some(bytes.len()));
    for end in ends {
        each(start, &bytes[start..end]);
        start = end + 1;
    }
}
