//! Pages of a column, decompressed with one zstd context for each thread.
//!
//! The page reader of the crate `parquet` creates two zstd contexts for each column of a row group.
//! Each of them checks the processor features, which is slow in a virtual machine: it took more
//! than half of the time of reading one port over a day. This module therefore decompresses the
//! pages itself and hands them to that reader as if they had never been compressed. The
//! [checksums](crate::checksums) are compared earlier, when the bytes are read.

use std::cell::RefCell;
use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use zstd::bulk::Decompressor;

/// The pages of a column of a row group.
pub(crate) struct ColumnPages<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    is_compressed: bool,
    /// Max size of a page in bytes.
    most: u64,
}

impl<R: ChunkReader> ColumnPages<R> {
    /// Returns the pages of a column with `rows` rows.
    pub(crate) fn new(source: Arc<R>, metadata: &ColumnChunkMetaData, rows: usize) -> Result<Self> {
        let most = u64::try_from(metadata.uncompressed_size()).unwrap_or(0);
        let is_compressed = matches!(metadata.compression(), Compression::ZSTD(_));
        let pages = if is_compressed {
            let compressed = metadata
                .clone()
                .into_builder()
                .set_compression(Compression::UNCOMPRESSED)
                .build()?;
            SerializedPageReader::new(source, &compressed, rows, None)?
        } else {
            SerializedPageReader::new(source, metadata, rows, None)?
        };
        Ok(Self {
            pages,
            is_compressed,
            most,
        })
    }

    fn decompressed(&self, mut page: Page) -> Result<Page> {
        if self.is_compressed {
            match &mut page {
                Page::DataPageV2 {
                    is_compressed: false,
                    ..
                } => {}
                // The levels of a version 2 page are not compressed.
                Page::DataPageV2 {
                    buf,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    ..
                } => {
                    *buf = decompress(
                        buf,
                        u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len),
                        self.most,
                    )?;
                }
                Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                    *buf = decompress(buf, 0, self.most)?;
                }
            }
        }
        Ok(page)
    }
}

/// Decompresses everything after the first `first` bytes, and returns both parts together.
fn decompress(octets: &Bytes, first: u64, most: u64) -> Result<Bytes> {
    thread_local! {
        static CONTEXT: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let damaged =
        || ParquetError::General("a page is not compressed by zstd, or is too long".to_owned());
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    let (levels, frame) = octets.split_at_checked(first).ok_or_else(damaged)?;
    if frame.is_empty() {
        return Ok(octets.clone());
    }
    let size = zstd::zstd_safe::get_frame_content_size(frame)
        .ok()
        .flatten()
        .filter(|size| *size <= most)
        .ok_or_else(damaged)?;
    let size = usize::try_from(size).map_err(|_| damaged())?;
    let mut all = Vec::with_capacity(first + size);
    all.extend_from_slice(levels);
    let mut target = Cursor::new(&mut all);
    target.set_position(first as u64);
    let written = CONTEXT.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            None => context.insert(Decompressor::new()?),
        };
        context.decompress_to_buffer(frame, &mut target)
    })?;
    if written == size && all.len() == first + size {
        Ok(all.into())
    } else {
        Err(damaged())
    }
}

impl<R: ChunkReader> Iterator for ColumnPages<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<R: ChunkReader> PageReader for ColumnPages<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages
            .get_next_page()?
            .map(|page| self.decompressed(page))
            .transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_before_the_compressed_ones_are_kept() {
        let text = b"0123456789".repeat(1000);
        let frame = zstd::bulk::compress(&text, 1).unwrap();
        let page = Bytes::from([b"levels", &frame[..]].concat());
        let all = [b"levels", &text[..]].concat();
        assert_eq!(decompress(&page, 6, 10_000).unwrap(), all);
        assert_eq!(
            decompress(&page.slice(..6), 6, 10_000).unwrap(),
            &b"levels"[..]
        );
    }

    #[test]
    fn damaged_page_is_an_error() {
        let frame = Bytes::from(zstd::bulk::compress(&[7; 10_000], 1).unwrap());
        assert!(
            decompress(&frame, 0, 9_999).is_err(),
            "longer than the column"
        );
        assert!(decompress(&frame, frame.len() as u64 + 1, 10_000).is_err());
        for length in 1..frame.len() {
            assert!(
                decompress(&frame.slice(..length), 0, 10_000).is_err(),
                "{length} octets"
            );
        }
    }
}
