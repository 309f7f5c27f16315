//! Reads a file as blocks of whole lines, without parsing them.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::{self, Text};
use super::limits;

/// A file in blocks of whole lines.
pub struct Blocks {
    text: Text,
    done: Arc<AtomicU64>,
    /// The beginning of a line whose end has not been read.
    rest: Vec<u8>,
    next_line: u64,
    is_at_end: bool,
    /// Whether the compressed data ended in the middle of a frame.
    pub is_cut: bool,
}

/// Whole lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The lines. Only the last line of a file can lack its line feed.
    pub text: Vec<u8>,
    /// Number of the first line in the file, from 1.
    pub first_line: u64,
}

impl Blocks {
    /// Opens a file, plain or compressed by zstd. `-` is standard input.
    ///
    /// # Errors
    /// Returns the error of the operating system or of zstd.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (text, done) = files::open(path)?;
        Ok(Self {
            text,
            done,
            rest: Vec::new(),
            next_line: 1,
            is_at_end: false,
            is_cut: false,
        })
    }

    /// Returns the number of bytes that were read from the disk.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Reads the next block. Returns `None` at the end of the file. A line that is too long for a
    /// record is split: its beginning ends this block, its remainder opens the next one, and
    /// neither is a record.
    ///
    /// # Errors
    /// Returns the error of the operating system or of zstd.
    pub fn read(&mut self) -> io::Result<Option<Block>> {
        if self.is_at_end {
            return Ok(None);
        }
        let mut text = std::mem::take(&mut self.rest);
        loop {
            let before = text.len();
            let read = match self
                .text
                .by_ref()
                .take(limits::CHUNK as u64)
                .read_to_end(&mut text)
            {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.is_cut = true;
                    text.len() - before
                }
                read => read?,
            };
            self.is_at_end = read == 0 || self.is_cut;
            if let Some(end) = memchr::memrchr(b'\n', &text).filter(|_| !self.is_at_end) {
                self.rest.extend_from_slice(&text[end + 1..]);
                text.truncate(end + 1);
                break;
            }
            if self.is_at_end || text.len() > limits::LINE {
                break;
            }
        }
        let first_line = self.next_line;
        self.next_line += memchr::memchr_iter(b'\n', &text).count() as u64;
        Ok((!text.is_empty()).then_some(Block { text, first_line }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_whole_lines_and_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let line = [vec![b'x'; limits::CHUNK / 3], b"\n".to_vec()].concat();
        std::fs::write(&path, [line.repeat(7), b"torn".to_vec()].concat()).unwrap();
        let mut blocks = Blocks::open(&path).unwrap();
        let (mut lines, mut all) = (1, Vec::new());
        while let Some(block) = blocks.read().unwrap() {
            assert_eq!(block.first_line, lines);
            lines += block.text.iter().filter(|octet| **octet == b'\n').count() as u64;
            all.extend(block.text);
        }
        assert_eq!((lines, all), (8, std::fs::read(&path).unwrap()));
        assert!(!blocks.is_cut && blocks.done() == 7 * line.len() as u64 + 4);
    }
}
