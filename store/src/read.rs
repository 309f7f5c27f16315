//! Reads the files of an archive.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use rayon::prelude::*;

use crate::column::{Column, Integers, Lists, Texts, of_millionths};
use crate::dictionary;
use crate::error::StoreError;
use crate::schema::{Empty, Kind, TableName, VERSION};
use crate::table::{Sum, Table};
use crate::write::keys;

/// A file of the archive.
#[derive(Debug)]
pub struct ArchiveFile {
    path: PathBuf,
    file: File,
    metadata: ParquetMetaData,
    name: TableName,
    sum: Sum,
    /// For each column of the schema: its place in the file.
    leaves: Vec<Option<usize>>,
}

impl ArchiveFile {
    /// Opens a file and reads its metadata.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is torn, or is not a file of an archive.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|source| StoreError::Read { path: path.to_owned(), source })?;
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
        let metadata = reader.parse_and_finish(&file).map_err(StoreError::damaged(path))?;
        let value = |key: &str| {
            let all = metadata.file_metadata().key_value_metadata().into_iter().flatten();
            all.into_iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref())
        };
        let foreign = |why: &str| StoreError::Foreign { path: path.to_owned(), why: why.to_owned() };
        let version: u32 =
            value(keys::SCHEMA).and_then(|version| version.parse().ok()).ok_or_else(|| foreign("no version of the schema"))?;
        if version > VERSION {
            return Err(StoreError::Later { path: path.to_owned(), what: format!("schema {version}") });
        }
        let name = value(keys::TABLE).and_then(|name| TableName::ALL.into_iter().find(|table| table.as_str() == name));
        let name = name.ok_or_else(|| foreign("no name of the table"))?;
        let sum = || {
            let hash = u64::from_str_radix(value(keys::SUM)?, 16).ok()?;
            Some(Sum { rows: value(keys::ROWS)?.parse().ok()?, hash })
        };
        let sum = sum().ok_or_else(|| foreign("no sum of the rows"))?;
        let leaf = |column: &str| {
            let all = metadata.file_metadata().schema_descr().columns();
            all.iter().position(|leaf| leaf.path().parts().first().is_some_and(|name| name == column))
        };
        let leaves = name.schema().columns.iter().map(|column| leaf(column.name)).collect();
        Ok(Self { path: path.to_owned(), file, name, sum, leaves, metadata })
    }

    /// Returns the table of which the file is a part.
    pub const fn name(&self) -> TableName {
        self.name
    }

    /// Returns the number of rows and their sum as they were written.
    pub const fn sum(&self) -> Sum {
        self.sum
    }

    /// Returns the number of row groups.
    pub fn groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns the number of rows of a row group.
    pub fn rows(&self, group: usize) -> usize {
        usize::try_from(self.metadata.row_group(group).num_rows()).unwrap_or(0)
    }

    /// Returns the name of a column that this version does not have.
    pub fn unknown_column(&self) -> Option<String> {
        let schema = self.name.schema();
        let all = self.metadata.file_metadata().schema_descr().columns();
        let names = all.iter().filter_map(|leaf| leaf.path().parts().first());
        names.into_iter().find(|name| schema.index(name).is_none()).cloned()
    }

    /// Returns the compressed size of each column in octets.
    pub fn sizes(&self) -> Vec<(&'static str, u64)> {
        let size = |leaf: &Option<usize>| {
            let of_group = |group: usize| leaf.map_or(0, |leaf| self.metadata.row_group(group).column(leaf).compressed_size());
            (0..self.groups()).map(of_group).sum::<i64>().cast_unsigned()
        };
        self.name.schema().columns.iter().zip(&self.leaves).map(|(column, leaf)| (column.name, size(leaf))).collect()
    }

    /// Returns the earliest and the latest time of a row group, if the file has it.
    pub fn times(&self, group: usize) -> Option<(u64, u64)> {
        let leaf = (*self.leaves.get(self.name.schema().index("ts")?)?)?;
        match self.metadata.row_group(group).column(leaf).statistics()? {
            Statistics::Int64(range) => Some((range.min_opt()?.cast_unsigned(), range.max_opt()?.cast_unsigned())),
            _ => None,
        }
    }

    /// Returns the first and the last GUID of a row group, if the file has it.
    pub fn guids(&self, group: usize) -> Option<(&str, &str)> {
        let leaf = (*self.leaves.get(self.name.schema().index("guid")?)?)?;
        match self.metadata.row_group(group).column(leaf).statistics()? {
            Statistics::ByteArray(range) => {
                Some((std::str::from_utf8(range.min_bytes_opt()?).ok()?, std::str::from_utf8(range.max_bytes_opt()?).ok()?))
            }
            _ => None,
        }
    }

    /// Reads a row group. `columns` has a mark for each column of the schema; the other columns stay
    /// empty.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged.
    pub fn read(&self, group: usize, columns: &[bool]) -> Result<Table, StoreError> {
        let rows = self.rows(group);
        let mut table = Table::new(self.name);
        table.rows = rows;
        let specs = &self.name.schema().columns;
        let read = table.columns.par_iter_mut().enumerate().filter(|(index, _)| columns.get(*index).is_some_and(|read| *read));
        let done: ParquetResult<()> = read.try_for_each(|(index, column)| {
            let Some(leaf) = self.leaves[index] else { return Ok(()) };
            let chunk = self.metadata.row_group(group).column(leaf);
            *column = self.read_column(chunk, specs[index].kind, specs[index].empty, rows)?;
            if column.len() == rows { Ok(()) } else { Err(ParquetError::General("a column has too few rows".to_owned())) }
        });
        done.map_err(StoreError::damaged(&self.path))?;
        Ok(table)
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

    /// Reads the whole file and compares its rows with the sum in its metadata.
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

    /// Compares the sum of all rows with the sum in the metadata.
    pub(crate) fn check(&self, found: Sum) -> Result<(), StoreError> {
        if found == self.sum {
            return Ok(());
        }
        let shown = |sum: Sum| format!("{} rows with the sum {:016x}", sum.rows, sum.hash);
        Err(StoreError::Different { path: self.path.clone(), found: shown(found), expected: shown(self.sum) })
    }

    fn read_column(&self, chunk: &ColumnChunkMetaData, kind: Kind, empty: Empty, rows: usize) -> ParquetResult<Column> {
        // A column without a value needs no reading. An empty list is a value, although it counts as
        // null in the statistics.
        let missing = match kind {
            Kind::Integers | Kind::Texts => chunk.definition_level_histogram().and_then(|levels| levels.get(0)).map(i64::cast_unsigned),
            _ => chunk.statistics().and_then(Statistics::null_count_opt),
        };
        if missing == Some(rows as u64) && empty != Empty::Never {
            let mut column = Column::new(kind);
            column.fill(rows);
            return Ok(column);
        }
        if let Some(column) = constant(chunk, kind, rows) {
            return Ok(column);
        }
        let (start, length) = chunk.byte_range();
        let mut octets = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read_exact_at(&mut octets, start).map_err(|error| ParquetError::External(Box::new(error)))?;
        let source = Arc::new(Section { start, octets: octets.into() });
        let open = || Ok::<_, ParquetError>(Box::new(SerializedPageReader::new(Arc::clone(&source), chunk, rows, None)?));
        if kind == Kind::Text
            && let Some(texts) = dictionary::texts(&mut *open()?, rows, empty == Empty::Never)?
        {
            return Ok(Column::Text(texts));
        }
        let pages: Box<dyn PageReader> = open()?;
        let is_required = empty == Empty::Never;
        Ok(match kind {
            Kind::Unsigned(..=32) | Kind::Signed(..=32) => {
                let extend = |value: &i32| {
                    if matches!(kind, Kind::Signed(_)) { i64::from(*value).cast_unsigned() } else { u64::from(value.cast_unsigned()) }
                };
                Column::Integer(integers::<Int32Type>(chunk, pages, rows, is_required, extend)?)
            }
            Kind::Unsigned(_) | Kind::Signed(_) => {
                Column::Integer(integers::<Int64Type>(chunk, pages, rows, is_required, |value| value.cast_unsigned())?)
            }
            Kind::Decimal => {
                let (values, levels) = flat::<Int64Type>(chunk, pages, rows, is_required)?;
                let mut values = values.into_iter().map(of_millionths);
                let mut next = || values.next().unwrap_or(f64::NAN);
                Column::Float(match levels {
                    Some(levels) => levels.iter().map(|level| if *level == 1 { next() } else { f64::NAN }).collect(),
                    None => values.collect(),
                })
            }
            Kind::Text => Column::Text(texts(chunk, pages, rows, is_required)?),
            Kind::Integers => {
                let mut lists = Lists::default();
                nested::<Int64Type>(chunk, pages, rows, |list| {
                    let list: Option<Vec<u64>> = list.map(|list| list.iter().map(|value| value.cast_unsigned()).collect());
                    lists.push(list.as_deref());
                    Ok(())
                })?;
                Column::List(lists)
            }
            Kind::Texts => {
                let mut texts = Texts::default();
                nested::<ByteArrayType>(chunk, pages, rows, |list| {
                    let json = |list: &[parquet::data_type::ByteArray]| -> ParquetResult<String> {
                        let list: Vec<&str> = list.iter().map(|text| text.as_utf8()).collect::<ParquetResult<_>>()?;
                        serde_json::to_string(&list).map_err(|error| ParquetError::General(error.to_string()))
                    };
                    texts.push(list.map(json).transpose()?.as_deref());
                    Ok(())
                })?;
                Column::Text(texts)
            }
        })
    }
}

/// Returns the column if the statistics show that all rows have the same value.
fn constant(chunk: &ColumnChunkMetaData, kind: Kind, rows: usize) -> Option<Column> {
    let statistics = chunk.statistics().filter(|statistics| statistics.null_count_opt() == Some(0))?;
    let is_exact = statistics.min_is_exact() && statistics.max_is_exact() && statistics.min_bytes_opt()? == statistics.max_bytes_opt()?;
    match (statistics, kind) {
        _ if !is_exact => None,
        (Statistics::Int32(range), Kind::Unsigned(_)) => same(u64::from(range.min_opt()?.cast_unsigned()), rows),
        (Statistics::Int32(range), Kind::Signed(_)) => same(i64::from(*range.min_opt()?).cast_unsigned(), rows),
        (Statistics::Int64(range), Kind::Unsigned(_) | Kind::Signed(_)) => same(range.min_opt()?.cast_unsigned(), rows),
        (Statistics::ByteArray(range), Kind::Text) => {
            let mut texts = Texts::default();
            let id = texts.intern(std::str::from_utf8(range.min_bytes_opt()?).ok()?);
            texts.ids = vec![id; rows];
            Some(Column::Text(texts))
        }
        _ => None,
    }
}

fn same(value: u64, rows: usize) -> Option<Column> {
    Some(Column::Integer(Integers::Same { value: Some(value), rows }))
}

/// The octets of one column of a row group.
struct Section {
    /// Offset of the first octet in the file.
    start: u64,
    octets: Bytes,
}

impl Section {
    fn from(&self, offset: u64) -> ParquetResult<Bytes> {
        let start = offset.checked_sub(self.start).and_then(|start| usize::try_from(start).ok());
        match start.filter(|start| *start <= self.octets.len()) {
            Some(start) => Ok(self.octets.slice(start..)),
            None => Err(ParquetError::EOF("a page is outside of its column".to_owned())),
        }
    }
}

impl Length for Section {
    fn len(&self) -> u64 {
        self.start + self.octets.len() as u64
    }
}

impl ChunkReader for Section {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let rest = self.from(start)?;
        if length > rest.len() {
            return Err(ParquetError::EOF("a page is longer than its column".to_owned()));
        }
        Ok(rest.slice(..length))
    }
}

/// Reads a column without lists: its values, and 1 or 0 for each row with or without a value.
/// Without levels, every row has a value.
type Flat<T> = (Vec<T>, Option<Vec<i16>>);

fn flat<T: DataType>(chunk: &ColumnChunkMetaData, pages: Box<dyn PageReader>, rows: usize, is_required: bool) -> ParquetResult<Flat<T::T>> {
    let mut reader = ColumnReaderImpl::<T>::new(chunk.column_descr_ptr(), pages);
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::with_capacity(if is_required { 0 } else { rows }));
    let mut read = 0;
    while read < rows {
        let (records, _, _) = reader.read_records(rows - read, (!is_required).then_some(&mut levels), None, &mut values)?;
        if records == 0 {
            break;
        }
        read += records;
    }
    if read != rows || (!is_required && levels.len() != rows) {
        return Err(ParquetError::EOF("a column has too few rows".to_owned()));
    }
    let is_full = is_required || values.len() == rows;
    Ok((values, (!is_full).then_some(levels)))
}

fn integers<T: DataType>(
    chunk: &ColumnChunkMetaData,
    pages: Box<dyn PageReader>,
    rows: usize,
    is_required: bool,
    extend: impl Fn(&T::T) -> u64,
) -> ParquetResult<Integers> {
    let (values, levels) = flat::<T>(chunk, pages, rows, is_required)?;
    let first = values.first().map(&extend);
    let Some(levels) = levels else {
        if let Some(first) = first.filter(|first| values.iter().all(|value| extend(value) == *first)) {
            return Ok(Integers::Same { value: Some(first), rows });
        }
        return Ok(Integers::Each { values: values.iter().map(extend).collect(), present: None });
    };
    let mut values = values.iter().map(extend);
    let mut integers = Integers::Same { value: None, rows: 0 };
    levels.iter().for_each(|level| integers.push(if *level == 1 { values.next() } else { None }));
    Ok(integers)
}

fn texts(chunk: &ColumnChunkMetaData, pages: Box<dyn PageReader>, rows: usize, is_required: bool) -> ParquetResult<Texts> {
    let (values, levels) = flat::<ByteArrayType>(chunk, pages, rows, is_required)?;
    let mut texts = Texts::default();
    // Equal texts of a dictionary have the same address.
    let mut last: Option<(*const u8, usize, u32)> = None;
    let mut values = values.iter();
    let mut push = |texts: &mut Texts, has_value: bool| -> ParquetResult<()> {
        let Some(value) = (if has_value { values.next() } else { None }) else {
            texts.ids.push(Texts::NONE);
            return Ok(());
        };
        let data = value.data();
        let id = match last {
            Some((start, length, id)) if start == data.as_ptr() && length == data.len() => id,
            _ => texts.intern(value.as_utf8()?),
        };
        last = Some((data.as_ptr(), data.len(), id));
        texts.ids.push(id);
        Ok(())
    };
    match levels {
        Some(levels) => levels.iter().try_for_each(|level| push(&mut texts, *level == 1))?,
        None => (0..rows).try_for_each(|_| push(&mut texts, true))?,
    }
    Ok(texts)
}

/// Reads a column of lists, and calls `each` with the list of each row.
fn nested<T: DataType>(
    chunk: &ColumnChunkMetaData,
    pages: Box<dyn PageReader>,
    rows: usize,
    mut each: impl FnMut(Option<&[T::T]>) -> ParquetResult<()>,
) -> ParquetResult<()> {
    let mut reader = ColumnReaderImpl::<T>::new(chunk.column_descr_ptr(), pages);
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, _, _) = reader.read_records(rows - read, Some(&mut definition), Some(&mut repetition), &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF("a column has too few rows".to_owned()));
        }
        read += records;
    }
    let (mut level, mut start) = (0, 0);
    while level < definition.len() {
        let next = (level + 1..definition.len()).find(|next| repetition[*next] == 0).unwrap_or(definition.len());
        let count = definition[level..next].iter().filter(|level| **level == 2).count();
        let list = values.get(start..start + count).ok_or_else(|| ParquetError::EOF("a list has too few values".to_owned()))?;
        each((definition[level] > 0).then_some(list))?;
        (level, start) = (next, start + count);
    }
    Ok(())
}
