//! Checksums over the bytes of a file; every read is compared with them.
//!
//! Parquet has optional checksums of pages, but they do not cover the page headers and the footer,
//! and the writer of the crate `parquet` does not write them. A file therefore has its own list,
//! placed between the last column and the footer, where other readers skip it:
//!
//! ```text
//! PAR1 | columns | CRC-32 of each block | length of a block | number of blocks | CRC-32
//!      | `ibnetcrc` | footer | length | PAR1
//! ```
//!
//! All numbers are unsigned 32-bit integers, little endian. A block is a piece of one column of one
//! row group, in the order of the footer; the last block of a column can be shorter. The CRC-32
//! after the two numbers covers the list, the two numbers, and everything from the footer on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{Buf, Bytes};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{FooterTail, ParquetMetaData};

/// Size of a block in bytes. A reader that needs a few pages also reads the rest of their blocks.
const BLOCK: usize = 1 << 14;

/// Marks the end of the list.
const TAG: &[u8; 8] = b"ibnetcrc";

/// Size of the two numbers, their CRC-32 and the tag in bytes.
const HEAD: usize = 3 * size_of::<u32>() + TAG.len();

/// Size of what follows the footer in bytes: its length and the magic number of the format.
const TAIL: usize = 8;

/// Returns the checksums of a column of a row group.
pub(crate) fn of_column(octets: &[u8]) -> Vec<u32> {
    octets.chunks(BLOCK).map(crc32fast::hash).collect()
}

/// Returns the bytes that come before a footer. `sums` are the checksums of all columns. `footer`
/// includes its length and the magic number of the format.
pub(crate) fn before_footer(sums: &[u32], footer: &[u8]) -> Vec<u8> {
    let mut octets: Vec<u8> = sums
        .iter()
        .chain(&[BLOCK as u32, sums.len() as u32])
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let crc = crc_of(&octets, footer);
    octets.extend_from_slice(&crc.to_le_bytes());
    octets.extend_from_slice(TAG);
    octets
}

fn crc_of(list: &[u8], footer: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(list);
    crc.update(footer);
    crc.finalize()
}

pub(crate) fn failed(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// The end of a file.
pub(crate) struct End {
    /// The footer without its length.
    pub(crate) footer: Bytes,
    /// Size of what comes before the checksums, which is the columns, in bytes.
    pub(crate) columns: u64,
    /// `None` if the file has no checksums.
    pub(crate) list: Option<List>,
}

/// The list of checksums of a file.
pub(crate) struct List {
    block: u64,
    sums: Vec<u32>,
}

/// The checksums of each column.
#[derive(Debug)]
pub(crate) struct Checksums {
    /// Size of a block in bytes.
    pub(crate) block: u64,
    sums: Vec<u32>,
    /// For each column of each row group: index of its first checksum.
    firsts: Vec<u32>,
}

impl End {
    /// Reads the end of a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a Parquet file, or if the checksum of
    /// the footer is wrong.
    pub(crate) fn read(file: &File) -> Result<Self> {
        let cut = || ParquetError::EOF("the file is shorter than its footer".to_owned());
        let length = file.metadata().map_err(failed)?.len();
        let mut tail = [0; TAIL];
        let end = length.checked_sub(TAIL as u64).ok_or_else(cut)?;
        file.read_exact_at(&mut tail, end).map_err(failed)?;
        let tail = FooterTail::try_new(&tail)?;
        let start = end
            .checked_sub(tail.metadata_length() as u64)
            .ok_or_else(cut)?;
        let from = start.saturating_sub(HEAD as u64);
        let mut octets = vec![0; (length - from) as usize];
        file.read_exact_at(&mut octets, from).map_err(failed)?;
        let octets = Bytes::from(octets);
        let head = octets.slice(..(start - from) as usize);
        let footer = octets.slice((start - from) as usize..);
        let only = footer.slice(..footer.len() - TAIL);
        let Some(mut head) = Some(head).filter(|head| head.len() == HEAD && head.ends_with(TAG))
        else {
            return Ok(Self {
                footer: only,
                columns: start,
                list: None,
            });
        };
        let (block, count, crc) = (head.get_u32_le(), head.get_u32_le(), head.get_u32_le());
        let size = u64::from(count) * size_of::<u32>() as u64;
        let columns = from
            .checked_sub(size)
            .ok_or_else(|| damaged("the number of checksums is wrong"))?;
        // The list and the two numbers after it.
        let mut list = vec![0; size as usize + 2 * size_of::<u32>()];
        file.read_exact_at(&mut list, columns).map_err(failed)?;
        if crc_of(&list, &footer) != crc || block == 0 {
            return Err(damaged("the checksum of the footer is wrong"));
        }
        let mut list = Bytes::from(list);
        let sums = (0..count).map(|_| list.get_u32_le()).collect();
        Ok(Self {
            footer: only,
            columns,
            list: Some(List {
                block: block.into(),
                sums,
            }),
        })
    }
}

impl Checksums {
    /// Assigns a list of checksums to the columns of a file.
    ///
    /// # Errors
    /// Returns an error if there are fewer or more of them than the columns have blocks.
    pub(crate) fn new(List { block, sums }: List, metadata: &ParquetMetaData) -> Result<Self> {
        let mut count = 0;
        let mut firsts = Vec::new();
        for column in metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns())
        {
            firsts.push(count as u32);
            count += column.byte_range().1.div_ceil(block);
        }
        if count == sums.len() as u64 {
            Ok(Self {
                block,
                sums,
                firsts,
            })
        } else {
            Err(damaged("the number of checksums is wrong"))
        }
    }

    /// Returns the index of the first checksum of a column. `number` is the index of the column
    /// among those of all row groups.
    pub(crate) fn first(&self, number: usize) -> usize {
        self.firsts
            .get(number)
            .map_or(usize::MAX, |first| *first as usize)
    }

    /// Compares consecutive blocks with their checksums, which start at the index `first`.
    ///
    /// # Errors
    /// Returns an error if a checksum is wrong.
    pub(crate) fn check(&self, first: usize, octets: &[u8]) -> Result<()> {
        let sums = self.sums.get(first..).unwrap_or_default().iter();
        let mut sums = sums.copied().map(Some).chain(std::iter::repeat(None));
        let is_right = octets
            .chunks(self.block as usize)
            .all(|block| sums.next().flatten() == Some(crc32fast::hash(block)));
        if is_right {
            Ok(())
        } else {
            Err(damaged("the checksum of a column is wrong"))
        }
    }
}

/// Checks that all columns lie before the checksums.
///
/// # Errors
/// Returns an error if the footer has an offset outside of that range.
pub(crate) fn check_ranges(metadata: &ParquetMetaData, end: u64) -> Result<()> {
    let is_inside = |start: i64, length: i64| {
        let (start, length) = (u64::try_from(start).ok()?, u64::try_from(length).ok()?);
        start
            .checked_add(length)
            .filter(|column_end| *column_end <= end)
    };
    let mut columns = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns());
    let all = columns.all(|column| {
        let start = column
            .dictionary_page_offset()
            .unwrap_or_else(|| column.data_page_offset());
        is_inside(start, column.compressed_size()).is_some()
    });
    if all {
        Ok(())
    } else {
        Err(damaged("a column is outside of the file"))
    }
}

pub(crate) fn damaged(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}
