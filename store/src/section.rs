//! The octets of one column of a row group.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// A column of a row group that is read at once.
pub(crate) struct Section {
    /// Offset of the first octet in the file.
    start: u64,
    octets: Bytes,
}

/// A column of a row group of which only some pages are read.
pub(crate) struct Pages {
    file: Arc<File>,
    end: u64,
}

/// Reads the header of a page.
pub(crate) struct Header {
    file: Arc<File>,
    offset: u64,
    octets: Bytes,
}

/// Octets that are read for the header of a page. Most headers are shorter.
const HEADER: usize = 256;

fn failed(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

fn outside() -> ParquetError {
    ParquetError::EOF("a page is outside of its column".to_owned())
}

impl Section {
    /// Reads `length` octets from `start`.
    pub(crate) fn read(file: &File, (start, length): (u64, u64)) -> Result<Self> {
        // A damaged file can have any length here.
        let is_inside = file.metadata().map_err(failed)?.len().checked_sub(start).is_some_and(|rest| length <= rest);
        let length = usize::try_from(length).ok().filter(|_| is_inside).ok_or_else(outside)?;
        let mut octets = vec![0; length];
        file.read_exact_at(&mut octets, start).map_err(failed)?;
        Ok(Self { start, octets: octets.into() })
    }

    fn from(&self, offset: u64) -> Result<Bytes> {
        let start = offset.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        start.filter(|start| *start <= self.octets.len()).map(|start| self.octets.slice(start..)).ok_or_else(outside)
    }
}

impl Length for Section {
    fn len(&self) -> u64 {
        self.start + self.octets.len() as u64
    }
}

impl ChunkReader for Section {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let rest = self.from(start)?;
        if length > rest.len() { Err(outside()) } else { Ok(rest.slice(..length)) }
    }
}

impl Pages {
    /// Returns the pages of a column with `length` octets from `start`.
    pub(crate) fn new(file: &Arc<File>, (start, length): (u64, u64)) -> Self {
        Self { file: Arc::clone(file), end: start.saturating_add(length) }
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.end
    }
}

impl ChunkReader for Pages {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header> {
        Ok(Header { file: Arc::clone(&self.file), offset: start, octets: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.saturating_add(length as u64) > self.end {
            return Err(outside());
        }
        Ok(Section::read(&self.file, (start, length as u64))?.octets)
    }
}

impl Read for Header {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.octets.is_empty() {
            let mut octets = vec![0; HEADER];
            let read = self.file.read_at(&mut octets, self.offset)?;
            octets.truncate(read);
            self.offset += read as u64;
            self.octets = octets.into();
        }
        let length = self.octets.len().min(into.len());
        self.octets.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}
