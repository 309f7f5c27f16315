//! The bytes of one column of a row group, compared with their checksums.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::checksums::{Checksums, failed};
use crate::error::io_error;

/// Where the bytes of a column are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) file: Arc<File>,
    /// Offset of the first byte in the file.
    pub(crate) start: u64,
    /// Number of bytes. All of them are in the file.
    pub(crate) length: u64,
    /// Checksums of the file, and the index of the first one of this column.
    pub(crate) checksums: Option<(Arc<Checksums>, usize)>,
}

/// A column of a row group that is read at once.
pub(crate) struct Section {
    /// Offset of the first byte in the file.
    start: u64,
    octets: Bytes,
}

/// A column of a row group of which only some pages are read.
pub(crate) struct Pages(Place);

/// Reads the header of a page.
pub(crate) struct Header {
    place: Place,
    offset: u64,
    octets: Bytes,
}

/// Bytes that are read for a page header. Most headers are shorter.
const HEADER: u64 = 256;

fn outside() -> ParquetError {
    ParquetError::EOF("a page is outside of its column".to_owned())
}

impl Place {
    const fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Reads at least `length` bytes from `start`; with checksums, it reads to the end of the
    /// last block.
    fn read(&self, start: u64, length: u64) -> Result<Bytes> {
        let offset = start.checked_sub(self.start).ok_or_else(outside)?;
        let end = offset
            .checked_add(length)
            .filter(|end| *end <= self.length)
            .ok_or_else(outside)?;
        let block = self
            .checksums
            .as_ref()
            .map_or(1, |(checksums, _)| checksums.block);
        let (from, to) = (
            offset - offset % block,
            end.next_multiple_of(block).min(self.length),
        );
        let mut octets = vec![0; usize::try_from(to - from).map_err(|_| outside())?];
        self.file
            .read_exact_at(&mut octets, self.start + from)
            .map_err(failed)?;
        if let Some((checksums, first)) = &self.checksums {
            checksums.check(first.saturating_add((from / block) as usize), &octets)?;
        }
        Ok(Bytes::from(octets).slice((offset - from) as usize..))
    }
}

impl Section {
    pub(crate) fn read(place: &Place) -> Result<Self> {
        Ok(Self {
            start: place.start,
            octets: place.read(place.start, place.length)?,
        })
    }

    fn from(&self, offset: u64) -> Result<Bytes> {
        let start = offset
            .checked_sub(self.start)
            .and_then(|start| usize::try_from(start).ok());
        start
            .filter(|start| *start <= self.octets.len())
            .map(|start| self.octets.slice(start..))
            .ok_or_else(outside)
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
        if length > rest.len() {
            Err(outside())
        } else {
            Ok(rest.slice(..length))
        }
    }
}

impl Pages {
    /// Returns the pages of a column.
    pub(crate) const fn new(place: Place) -> Self {
        Self(place)
    }
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.0.end()
    }
}

impl ChunkReader for Pages {
    type T = Header;

    fn get_read(&self, start: u64) -> Result<Header> {
        Ok(Header {
            place: self.0.clone(),
            offset: start,
            octets: Bytes::new(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(self.0.read(start, length as u64)?.slice(..length))
    }
}

impl Read for Header {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.octets.is_empty() {
            let rest = self.place.end().saturating_sub(self.offset);
            self.octets = self
                .place
                .read(self.offset, rest.min(HEADER))
                .map_err(io_error)?;
            self.offset += self.octets.len() as u64;
        }
        let length = self.octets.len().min(into.len());
        self.octets.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}
