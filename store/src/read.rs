//! Reads the files of an archive.

use std::fs::File;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibnet_record::Presence;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;
use rayon::prelude::*;

use crate::checksums::{self, Checksums, End};
use crate::column::Column;
use crate::decode::Chunk;
use crate::error::StoreError;
use crate::hour::Hour;
use crate::layout;
use crate::schema::{ColumnSpec, TableName, VERSION};
use crate::section::Place;
use crate::table::{Sum, Table};
use crate::write::keys;

/// A file of the archive.
#[derive(Debug)]
pub struct ArchiveFile {
    path: PathBuf,
    file: Arc<File>,
    metadata: ParquetMetaData,
    /// `None` for a file of an earlier version.
    checksums: Option<Arc<Checksums>>,
    name: TableName,
    sum: Sum,
    of: Option<Sum>,
    /// For each column of the schema: its index in the file.
    leaves: Vec<Option<usize>>,
}

impl ArchiveFile {
    /// Opens a file and reads its metadata.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is torn, or is not a file of an archive.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|source| StoreError::Read {
            path: path.to_owned(),
            source,
        })?;
        // Page encoding statistics take a large part of the time, and no reader uses them.
        let options = ParquetMetaDataOptions::new()
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let end = End::read(&file).map_err(StoreError::damaged(path))?;
        let metadata =
            ParquetMetaDataReader::decode_metadata_with_options(&end.footer, Some(&options))
                .map_err(StoreError::damaged(path))?;
        checksums::check_ranges(&metadata, end.columns).map_err(StoreError::damaged(path))?;
        let checksums = end
            .list
            .map(|list| Checksums::new(list, &metadata))
            .transpose()
            .map_err(StoreError::damaged(path))?;
        let value = |key: &str| {
            let all = metadata
                .file_metadata()
                .key_value_metadata()
                .into_iter()
                .flatten();
            all.into_iter()
                .find(|pair| pair.key == key)
                .and_then(|pair| pair.value.as_deref())
        };
        let foreign = |why: &str| StoreError::Foreign {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let version: u32 = value(keys::SCHEMA)
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| foreign("no version of the schema"))?;
        if version > VERSION {
            return Err(StoreError::Later {
                path: path.to_owned(),
                what: format!("schema {version}"),
            });
        }
        let name = value(keys::TABLE)
            .and_then(|name| TableName::every().find(|table| table.as_str() == name));
        let name = name.ok_or_else(|| foreign("no name of the table"))?;
        if checksums.is_none() && value(keys::CHECKSUMS).is_some() {
            return Err(StoreError::damaged(path)(checksums::damaged(
                "the checksums are missing",
            )));
        }
        let sum = || {
            let hash = u64::from_str_radix(value(keys::SUM)?, 16).ok()?;
            Some(Sum {
                rows: value(keys::ROWS)?.parse().ok()?,
                hash,
            })
        };
        let sum = sum().ok_or_else(|| foreign("no sum of the rows"))?;
        let of = value(keys::OF).and_then(|of| {
            let (rows, hash) = of.split_once(' ')?;
            Some(Sum {
                rows: rows.parse().ok()?,
                hash: u64::from_str_radix(hash, 16).ok()?,
            })
        });
        let all = metadata.file_metadata().schema_descr().columns();
        let is_named = |leaf: &ColumnDescPtr, column: &str| {
            leaf.path()
                .parts()
                .first()
                .is_some_and(|name| name == column)
        };
        // Files of this version have the columns at the indices of the schema.
        let leaf = |(index, column): (usize, &ColumnSpec)| match all.get(index) {
            Some(leaf) if is_named(leaf, column.name) => Some(index),
            _ => all.iter().position(|leaf| is_named(leaf, column.name)),
        };
        let leaves: Vec<Option<usize>> =
            name.schema().columns.iter().enumerate().map(leaf).collect();
        let missing = name
            .schema()
            .columns
            .iter()
            .zip(&leaves)
            .find(|(column, leaf)| column.presence == Presence::Required && leaf.is_none());
        if let Some((ColumnSpec { name, .. }, _)) = missing {
            return Err(foreign(&format!("no column `{name}`")));
        }
        let is_of_type = |(column, leaf): &(&ColumnSpec, &Option<usize>)| {
            leaf.is_none_or(|leaf| layout::is_of_type(column, &all[leaf]))
        };
        if let Some((ColumnSpec { name, .. }, _)) = name
            .schema()
            .columns
            .iter()
            .zip(&leaves)
            .find(|column| !is_of_type(column))
        {
            return Err(foreign(&format!("column `{name}` has another type")));
        }
        let checksums = checksums.map(Arc::new);
        let opened = Self {
            path: path.to_owned(),
            file: Arc::new(file),
            name,
            sum,
            of,
            leaves,
            metadata,
            checksums,
        };
        opened
            .misplaced()
            .map_or(Ok(()), |why| Err(foreign(&why)))?;
        Ok(opened)
    }

    /// Returns why the file does not belong into its folders `TABLE/date=DATE/hour=HOUR`, for
    /// example after a copy from another hour. Outside of such folders, as while it is written, a
    /// file is never misplaced.
    fn misplaced(&self) -> Option<String> {
        let folders: Vec<&str> = self
            .path
            .ancestors()
            .skip(1)
            .take(3)
            .map(|folder| folder.file_name()?.to_str())
            .collect::<Option<_>>()?;
        let [hour, date, table] = folders[..] else {
            return None;
        };
        let hour = Hour::parse(date, hour)?;
        if table != self.name.as_str() {
            return Some(format!("it has the table `{}`", self.name.as_str()));
        }
        let times = (0..self.groups())
            .filter_map(|group| self.times(group))
            .flat_map(|(first, last)| [first, last]);
        let other = times.map(Hour::of).find(|found| *found != hour)?;
        Some(format!("it has records of {other}"))
    }

    /// Returns the table to which the file belongs.
    pub const fn name(&self) -> TableName {
        self.name
    }

    /// Returns the row count and checksum that the writer stored.
    pub const fn sum(&self) -> Sum {
        self.sum
    }

    /// Returns the row count and checksum of the `ports` rows from which the table was computed.
    pub const fn of(&self) -> Option<Sum> {
        self.of
    }

    /// Returns the number of row groups.
    pub fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the number of rows of a row group.
    pub fn rows(&self, group: usize) -> usize {
        usize::try_from(self.metadata.row_group(group).num_rows()).unwrap_or(0)
    }

    /// Returns whether reading detects damage to the file. A file of an earlier version has
    /// no checksums.
    pub const fn has_checksums(&self) -> bool {
        self.checksums.is_some()
    }

    /// Returns the names of columns that this version does not have. They are not read.
    pub fn unknown_columns(&self) -> impl Iterator<Item = &str> {
        let schema = self.name.schema();
        let all = self.metadata.file_metadata().schema_descr().columns();
        let names = all.iter().filter_map(|leaf| leaf.path().parts().first());
        names
            .map(String::as_str)
            .filter(|name| schema.index(name).is_none())
    }

    /// Returns the compressed size of each column in bytes.
    pub fn sizes(&self) -> Vec<(&'static str, u64)> {
        let size = |leaf: &Option<usize>| {
            let of_group = |group: usize| {
                leaf.map_or(0, |leaf| {
                    self.metadata
                        .row_group(group)
                        .column(leaf)
                        .compressed_size()
                })
            };
            (0..self.groups())
                .map(of_group)
                .sum::<i64>()
                .cast_unsigned()
        };
        self.name
            .schema()
            .columns
            .iter()
            .zip(&self.leaves)
            .map(|(column, leaf)| (column.name, size(leaf)))
            .collect()
    }

    /// Returns the earliest and the latest time of a row group, if the file has these statistics.
    pub fn times(&self, group: usize) -> Option<(u64, u64)> {
        let leaf = (*self.leaves.get(self.name.schema().index("ts")?)?)?;
        match self.metadata.row_group(group).column(leaf).statistics()? {
            Statistics::Int64(range) => Some((
                range.min_opt()?.cast_unsigned(),
                range.max_opt()?.cast_unsigned(),
            )),
            _ => None,
        }
    }

    /// Returns the max of an unsigned column in a row group, if the file has this statistic. It is
    /// 0 if no row has a value.
    pub fn largest(&self, group: usize, column: &str) -> Option<u64> {
        let leaf = (*self.leaves.get(self.name.schema().index(column)?)?)?;
        let statistics = self.metadata.row_group(group).column(leaf).statistics()?;
        match statistics {
            _ if statistics.null_count_opt() == Some(self.rows(group) as u64) => Some(0),
            Statistics::Int64(range) => Some(range.max_opt()?.cast_unsigned()),
            _ => None,
        }
    }

    /// Returns the first and the last GUID of a row group, if the file has these statistics.
    pub fn guids(&self, group: usize) -> Option<(&str, &str)> {
        let leaf = (*self.leaves.get(self.name.schema().index("guid")?)?)?;
        match self.metadata.row_group(group).column(leaf).statistics()? {
            Statistics::ByteArray(range) => Some((
                std::str::from_utf8(range.min_bytes_opt()?).ok()?,
                std::str::from_utf8(range.max_bytes_opt()?).ok()?,
            )),
            _ => None,
        }
    }

    /// Reads a row group. `columns` has a flag for each column of the schema; columns without the
    /// flag stay empty.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged.
    pub fn read(&self, group: usize, columns: &[bool]) -> Result<Table, StoreError> {
        self.read_columns(group, columns, self.rows(group), |chunk| chunk.read())
    }

    /// Reads some rows of a row group. The ranges are sorted and do not overlap. If there are few
    /// of them, only the pages with these rows are read and decoded.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged.
    pub fn read_rows(
        &self,
        group: usize,
        columns: &[bool],
        ranges: &[Range<usize>],
    ) -> Result<Table, StoreError> {
        /// More ranges touch nearly all pages, and then decoding whole columns is faster.
        const FEW: usize = 8;
        if ranges.len() > FEW {
            let rows: Vec<u32> = ranges
                .iter()
                .cloned()
                .flatten()
                .map(|row| row as u32)
                .collect();
            return self.read_columns(group, columns, rows.len(), |chunk| chunk.pick(&rows));
        }
        let rows = ranges.iter().map(ExactSizeIterator::len).sum();
        self.read_columns(group, columns, rows, |chunk| chunk.read_rows(ranges))
    }

    fn read_columns(
        &self,
        group: usize,
        columns: &[bool],
        rows: usize,
        read: impl Fn(&Chunk<'_>) -> ParquetResult<Column> + Sync,
    ) -> Result<Table, StoreError> {
        let mut table = Table::new(self.name);
        table.rows = rows;
        let specs = &self.name.schema().columns;
        let selected = table
            .columns
            .par_iter_mut()
            .enumerate()
            .filter(|(index, _)| columns.get(*index).is_some_and(|read| *read));
        let done: ParquetResult<()> = selected.try_for_each(|(index, column)| {
            let Some(leaf) = self.leaves[index] else {
                return Ok(());
            };
            *column = self.guarded(|| read(&self.chunk(group, leaf, &specs[index])))?;
            if column.len() == rows {
                Ok(())
            } else {
                Err(ParquetError::General(
                    "a column has too few rows".to_owned(),
                ))
            }
        });
        done.map_err(StoreError::damaged(&self.path))?;
        Ok(table)
    }

    /// Runs a decoder. For a file without checksums, a panic becomes an error, because the decoders
    /// of the crate `parquet` panic on some damaged bytes.
    fn guarded<T>(&self, decode: impl FnOnce() -> ParquetResult<T>) -> ParquetResult<T> {
        if self.has_checksums() {
            return decode();
        }
        let panicked = |_| Err(checksums::damaged("its pages cannot be decoded"));
        panic::catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(panicked)
    }

    fn chunk<'a>(&'a self, group: usize, leaf: usize, spec: &'a ColumnSpec) -> Chunk<'a> {
        let metadata = self.metadata.row_group(group).column(leaf);
        let (start, length) = metadata.byte_range();
        // All row groups have the same columns.
        let number = group * self.metadata.file_metadata().schema_descr().num_columns() + leaf;
        let checksums = self
            .checksums
            .as_ref()
            .map(|checksums| (Arc::clone(checksums), checksums.first(number)));
        Chunk {
            place: Place {
                file: Arc::clone(&self.file),
                start,
                length,
                checksums,
            },
            metadata,
            spec,
            rows: self.rows(group),
        }
    }

    /// Returns the distinct strings in a column of a row group, or `None` if the column has no
    /// dictionary. Reads only the dictionary.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged.
    pub fn dictionary(
        &self,
        group: usize,
        column: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let Some(index) = self.name.schema().index(column) else {
            return Ok(None);
        };
        let Some(leaf) = self.leaves[index] else {
            return Ok(None);
        };
        self.guarded(|| {
            self.chunk(group, leaf, &self.name.schema().columns[index])
                .dictionary()
        })
        .map_err(StoreError::damaged(&self.path))
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged.
    pub fn read_all(&self) -> Result<Table, StoreError> {
        let columns = vec![true; self.name.schema().columns.len()];
        let mut all = Table::new(self.name);
        for group in 0..self.groups() {
            let mut table = self.read(group, &columns)?;
            table.seal();
            let rows: Vec<u32> = (0..table.len() as u32).collect();
            all.append(&table, &rows);
        }
        Ok(all)
    }

    /// Reads the whole file and compares its rows with the checksum in its metadata.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or has other rows.
    pub fn verify(&self) -> Result<Sum, StoreError> {
        let columns = vec![true; self.name.schema().columns.len()];
        let mut found = Sum::default();
        for group in 0..self.groups() {
            let mut table = self.read(group, &columns)?;
            table.seal();
            found += table.sum();
        }
        self.check(found).map(|()| found)
    }

    /// Compares the checksum of all rows with the one in the metadata.
    pub(crate) fn check(&self, found: Sum) -> Result<(), StoreError> {
        if found == self.sum {
            return Ok(());
        }
        let shown = |sum: Sum| format!("{} rows with the sum {:016x}", sum.rows, sum.hash);
        Err(StoreError::Different {
            path: self.path.clone(),
            found: shown(found),
            expected: shown(self.sum),
        })
    }
}
