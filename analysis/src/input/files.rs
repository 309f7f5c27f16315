//! The files of an input: their names, order and decompression.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ibnet_record::limits::read_line;

use super::limits;
use crate::error::AnalysisError;
use crate::path;
use crate::record::{Head, Record, Type};

/// First bytes of a file compressed by zstd (RFC 8878, 3.1.1).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The decompressed text of a file.
pub(crate) type Text = Box<dyn Read + Send>;

/// What the first lines of a file show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FirstLines {
    /// Time of the first record. `None` without a record.
    pub(crate) ts: Option<u64>,
    /// Longest `interval_ns` of the `start` records.
    pub(crate) interval_ns: Option<u64>,
}

/// Suffix of a file that another process is still writing or compressing.
const PARTIAL: &str = ".part";

/// Expands an argument: the file of this name if there is one, otherwise a pattern. A pattern
/// matches unfinished files only if it contains their suffix.
pub(crate) fn expand(pattern: &Path) -> Result<Vec<PathBuf>, AnalysisError> {
    let text = pattern.to_string_lossy();
    if path::is_stdin(pattern) || pattern.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![pattern.to_owned()]);
    }
    let found = glob::glob(&text).map_err(|error| AnalysisError::Pattern {
        pattern: text.clone().into_owned(),
        why: error.msg.to_owned(),
    })?;
    let is_partial = |path: &Path| {
        path.extension().is_some_and(|found| found == "part") && !text.ends_with(PARTIAL)
    };
    let files: Vec<PathBuf> = found
        .filter_map(Result::ok)
        .filter(|path| !path.is_dir() && !is_partial(path))
        .collect();
    if files.is_empty() {
        Err(AnalysisError::NoFile {
            pattern: text.into_owned(),
        })
    } else {
        Ok(files)
    }
}

/// Returns whether a file can be read only once: standard input, a named pipe, a device.
pub(crate) fn is_pipe(file: &Path) -> bool {
    path::is_stdin(file) || fs::metadata(file).is_ok_and(|file| !file.is_file())
}

/// Reads the first lines of a file that can be read again.
pub(crate) fn first_lines(file: &Path) -> FirstLines {
    let mut found = FirstLines::default();
    if is_pipe(file) {
        return found;
    }
    let Ok((text, _)) = open(file) else {
        return found;
    };
    for line in BufReader::new(text)
        .take(limits::HEAD as u64)
        .split(b'\n')
        .take(limits::HEAD_LINES)
        .map_while(Result::ok)
    {
        let line = line.trim_ascii();
        let Ok(head) = Head::of(line) else { continue };
        found.ts = found.ts.or(Some(head.ts));
        if head.kind == Some(Type::Start)
            && let Ok(Record::Start(start)) = Record::parse(line, Type::Start)
        {
            found.interval_ns = found.interval_ns.max(Some(start.interval_ns));
        }
    }
    found
}

/// Opens a file, decompresses it if necessary, and counts the bytes read from the disk.
pub(crate) fn open(path: &Path) -> io::Result<(Text, Arc<AtomicU64>)> {
    let file: Text = if path::is_stdin(path) {
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path)?)
    };
    let done = Arc::new(AtomicU64::new(0));
    let mut counted = Counted {
        inner: file,
        done: Arc::clone(&done),
    };
    let mut magic = Vec::new();
    counted
        .by_ref()
        .take(ZSTD.len() as u64)
        .read_to_end(&mut magic)?;
    let is_compressed = magic == ZSTD;
    let whole = io::Cursor::new(magic).chain(counted);
    Ok((
        if is_compressed {
            Box::new(zstd::Decoder::new(whole)?)
        } else {
            Box::new(whole)
        },
        done,
    ))
}

/// Returns whether a file that can be read again is compressed.
pub(super) fn is_compressed(path: &Path) -> io::Result<bool> {
    let mut magic = Vec::new();
    File::open(path)?
        .take(ZSTD.len() as u64)
        .read_to_end(&mut magic)?;
    Ok(magic == ZSTD)
}

struct Counted {
    inner: Text,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.done.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The lines of a file, one after the other.
pub(crate) struct Lines {
    text: BufReader<Text>,
    /// Whether the compressed data ended in the middle of a frame.
    pub(crate) is_cut: bool,
}

impl Lines {
    pub(crate) fn open(file: &Path) -> io::Result<Self> {
        Ok(Self {
            text: BufReader::new(open(file)?.0),
            is_cut: false,
        })
    }

    /// Reads the next line without its line feed. Returns false at the end of the file. A line
    /// longer than [`LINE`](ibnet_record::limits::LINE) is cut to that length, and its remainder is
    /// skipped.
    pub(crate) fn read(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        match read_line(&mut self.text, line) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(false)
            }
            read => read,
        }
    }
}
