//! Decodes a column of a row group.

use std::ops::Range;
use std::sync::Arc;

use ibnet_record::Presence;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use crate::column::{Bits, Column, Integers, Lists, Texts, of_millionths};
use crate::ids::Ids;
use crate::numbers::Numbers;
use crate::pages::ColumnPages;
use crate::schema::{ColumnSpec, Kind};
use crate::section::{Pages, Place, Section};
use crate::{dictionary, numbers};

/// A column of a row group.
pub(crate) struct Chunk<'a> {
    pub(crate) place: Place,
    pub(crate) metadata: &'a ColumnChunkMetaData,
    pub(crate) spec: &'a ColumnSpec,
    /// Number of rows of the row group.
    pub(crate) rows: usize,
}

impl Chunk<'_> {
    /// Returns the values of all rows.
    pub(crate) fn read(&self) -> Result<Column> {
        let Self {
            metadata,
            spec: &ColumnSpec { kind, presence, .. },
            rows,
            ..
        } = *self;
        if let Some(column) = self.without_pages(rows) {
            return Ok(column);
        }
        let source = Arc::new(Section::read(&self.place)?);
        let open = || {
            Ok::<_, ParquetError>(Box::new(ColumnPages::new(
                Arc::clone(&source),
                metadata,
                rows,
            )?))
        };
        let is_required = presence == Presence::Required;
        match kind {
            Kind::Text => {
                if let Some(texts) = dictionary::texts(&mut *open()?, rows, is_required)? {
                    return Ok(Column::Text(texts));
                }
            }
            Kind::Unsigned(bits) | Kind::Signed(bits) => {
                let physical = if bits <= 32 { Type::INT32 } else { Type::INT64 };
                if let Some(numbers) = numbers::read(&mut *open()?, rows, is_required, physical)? {
                    return Ok(Column::Integer(integers(numbers, kind, rows)));
                }
            }
            Kind::Decimal => {
                if let Some(numbers) = numbers::read(&mut *open()?, rows, is_required, Type::INT64)?
                {
                    return Ok(Column::Float(decimals(&numbers, rows)));
                }
            }
            Kind::Integers | Kind::Texts => {}
        }
        self.decode(open()?, std::slice::from_ref(&(0..rows)))
    }

    /// Returns the values of some rows. Pages without one of these rows are not read.
    pub(crate) fn read_rows(&self, ranges: &[Range<usize>]) -> Result<Column> {
        let count = ranges.iter().map(ExactSizeIterator::len).sum();
        if let Some(column) = self.without_pages(count) {
            return Ok(column);
        }
        let source = Arc::new(Pages::new(self.place.clone()));
        self.decode(
            Box::new(ColumnPages::new(source, self.metadata, self.rows)?),
            ranges,
        )
    }

    /// Returns the values of rows that are spread over nearly all pages, so the whole column
    /// is decoded.
    pub(crate) fn pick(&self, rows: &[u32]) -> Result<Column> {
        if let Some(column) = self.without_pages(rows.len()) {
            return Ok(column);
        }
        let mut picked = Column::new(self.spec.kind);
        picked.append(&self.read()?, rows);
        Ok(picked)
    }

    /// Returns all strings of the column, or `None` if the column has no dictionary.
    pub(crate) fn dictionary(&self) -> Result<Option<Vec<String>>> {
        if let Some(Column::Text(texts)) = self.without_pages(1) {
            return Ok(Some(texts.list().iter().map(ToString::to_string).collect()));
        }
        let is_complete = |encoding| {
            matches!(
                encoding,
                Encoding::PLAIN
                    | Encoding::RLE
                    | Encoding::RLE_DICTIONARY
                    | Encoding::PLAIN_DICTIONARY
            )
        };
        if self.spec.kind != Kind::Text || !self.metadata.encodings().all(is_complete) {
            return Ok(None);
        }
        let source = Arc::new(Pages::new(self.place.clone()));
        let mut pages = ColumnPages::new(source, self.metadata, self.rows)?;
        match pages.get_next_page()? {
            Some(Page::DictionaryPage {
                buf, num_values, ..
            }) => {
                let mut all = Vec::with_capacity(num_values as usize);
                dictionary::entries(&buf, num_values, |text| all.push(text.to_owned()))?;
                Ok(Some(all))
            }
            _ => Ok(None),
        }
    }

    /// Returns the values of `count` rows if the metadata alone determines them.
    fn without_pages(&self, count: usize) -> Option<Column> {
        let ColumnSpec { kind, presence, .. } = *self.spec;
        // An empty list is a value, although it counts as null in the statistics.
        let missing = match kind {
            Kind::Integers | Kind::Texts => self
                .metadata
                .definition_level_histogram()
                .and_then(|levels| levels.get(0))
                .map(i64::cast_unsigned),
            _ => self
                .metadata
                .statistics()
                .and_then(Statistics::null_count_opt),
        };
        if missing == Some(self.rows as u64) && presence != Presence::Required {
            let mut column = Column::new(kind);
            column.fill(count);
            return Some(column);
        }
        constant(self.metadata, kind, count)
    }

    /// Decodes columns of all types and encodings.
    fn decode(&self, pages: Box<dyn PageReader>, ranges: &[Range<usize>]) -> Result<Column> {
        let ColumnSpec { kind, presence, .. } = *self.spec;
        let is_required = presence == Presence::Required;
        let rows = ranges.iter().map(ExactSizeIterator::len).sum();
        Ok(match kind {
            Kind::Unsigned(..=32) | Kind::Signed(..=32) => {
                let (values, levels, _) = self.values::<Int32Type>(pages, ranges)?;
                let values = values
                    .into_iter()
                    .map(|value| u64::from(value.cast_unsigned()))
                    .collect();
                Column::Integer(integers(
                    Numbers {
                        values,
                        present: runs(&levels),
                    },
                    kind,
                    rows,
                ))
            }
            Kind::Unsigned(_) | Kind::Signed(_) | Kind::Decimal => {
                let (values, levels, _) = self.values::<Int64Type>(pages, ranges)?;
                let values = values.into_iter().map(i64::cast_unsigned).collect();
                let numbers = Numbers {
                    values,
                    present: runs(&levels),
                };
                if kind == Kind::Decimal {
                    Column::Float(decimals(&numbers, rows))
                } else {
                    Column::Integer(integers(numbers, kind, rows))
                }
            }
            Kind::Text => {
                let (values, levels, _) = self.values::<ByteArrayType>(pages, ranges)?;
                Column::Text(texts(&values, &levels, is_required, rows)?)
            }
            Kind::Integers => {
                let mut lists = Lists::default();
                self.nested::<Int64Type>(pages, ranges, |list| {
                    let list: Option<Vec<u64>> =
                        list.map(|list| list.iter().map(|value| value.cast_unsigned()).collect());
                    lists.push(list.as_deref());
                    Ok(())
                })?;
                Column::List(lists)
            }
            Kind::Texts => {
                let mut texts = Texts::default();
                self.nested::<ByteArrayType>(pages, ranges, |list| {
                    let json = |list: &[ByteArray]| -> Result<String> {
                        let list: Vec<&str> =
                            list.iter().map(ByteArray::as_utf8).collect::<Result<_>>()?;
                        serde_json::to_string(&list)
                            .map_err(|error| ParquetError::General(error.to_string()))
                    };
                    texts.push(list.map(json).transpose()?.as_deref());
                    Ok(())
                })?;
                Column::Text(texts)
            }
        })
    }

    /// Returns the values, the definition levels and the repetition levels of some rows.
    fn values<T: DataType>(
        &self,
        pages: Box<dyn PageReader>,
        ranges: &[Range<usize>],
    ) -> Result<Leveled<T::T>> {
        let descriptor = self.metadata.column_descr_ptr();
        let (has_definition, has_repetition) = (
            descriptor.max_def_level() > 0,
            descriptor.max_rep_level() > 0,
        );
        let mut reader = ColumnReaderImpl::<T>::new(descriptor, pages);
        let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
        let mut row = 0;
        let too_few = || ParquetError::EOF("a column has too few rows".to_owned());
        for range in ranges {
            let skipped = range.start.checked_sub(row).ok_or_else(too_few)?;
            if reader.skip_records(skipped)? != skipped {
                return Err(too_few());
            }
            row = range.start;
            while row < range.end {
                let levels = (
                    has_definition.then_some(&mut definition),
                    has_repetition.then_some(&mut repetition),
                );
                let (records, _, _) =
                    reader.read_records(range.end - row, levels.0, levels.1, &mut values)?;
                if records == 0 {
                    return Err(too_few());
                }
                row += records;
            }
        }
        Ok((values, definition, repetition))
    }

    /// Reads a column of lists, and calls `each` with every row's list.
    fn nested<T: DataType>(
        &self,
        pages: Box<dyn PageReader>,
        ranges: &[Range<usize>],
        mut each: impl FnMut(Option<&[T::T]>) -> Result<()>,
    ) -> Result<()> {
        let (values, definition, repetition) = self.values::<T>(pages, ranges)?;
        let (mut level, mut start) = (0, 0);
        while level < definition.len() {
            let next = (level + 1..definition.len())
                .find(|next| repetition[*next] == 0)
                .unwrap_or(definition.len());
            let count = definition[level..next]
                .iter()
                .filter(|level| **level == 2)
                .count();
            let list = values
                .get(start..start + count)
                .ok_or_else(|| ParquetError::EOF("a list has too few values".to_owned()))?;
            each((definition[level] > 0).then_some(list))?;
            (level, start) = (next, start + count);
        }
        Ok(())
    }
}

/// Values, definition levels and repetition levels.
type Leveled<T> = (Vec<T>, Vec<i16>, Vec<i16>);

/// Returns the column if the statistics show that all rows have the same value.
fn constant(chunk: &ColumnChunkMetaData, kind: Kind, rows: usize) -> Option<Column> {
    let statistics = chunk
        .statistics()
        .filter(|statistics| statistics.null_count_opt() == Some(0))?;
    let is_exact = statistics.min_is_exact()
        && statistics.max_is_exact()
        && statistics.min_bytes_opt()? == statistics.max_bytes_opt()?;
    match (statistics, kind) {
        _ if !is_exact => None,
        (Statistics::Int32(range), Kind::Unsigned(_)) => {
            same(u64::from(range.min_opt()?.cast_unsigned()), rows)
        }
        (Statistics::Int32(range), Kind::Signed(_)) => {
            same(i64::from(*range.min_opt()?).cast_unsigned(), rows)
        }
        (Statistics::Int64(range), Kind::Unsigned(_) | Kind::Signed(_)) => {
            same(range.min_opt()?.cast_unsigned(), rows)
        }
        (Statistics::ByteArray(range), Kind::Text) => {
            let mut texts = Texts::default();
            let id = texts.intern(std::str::from_utf8(range.min_bytes_opt()?).ok()?);
            texts.ids = Ids::same(id, rows);
            Some(Column::Text(texts))
        }
        _ => None,
    }
}

fn same(value: u64, rows: usize) -> Option<Column> {
    Some(Column::Integer(Integers::Same {
        value: Some(value),
        rows,
    }))
}

/// Returns runs of rows with and without a value, with their lengths.
fn runs(levels: &[i16]) -> Vec<(bool, usize)> {
    if levels.iter().all(|level| *level == 1) {
        return Vec::new();
    }
    levels
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0] == 1, run.len()))
        .collect()
}

fn integers(mut numbers: Numbers, kind: Kind, rows: usize) -> Integers {
    if matches!(kind, Kind::Signed(..=32)) {
        numbers
            .values
            .iter_mut()
            .for_each(|value| *value = i64::from(*value as u32 as i32).cast_unsigned());
    }
    let Numbers { values, present } = numbers;
    if present.is_empty() {
        return match values.first() {
            Some(first) if values.iter().all(|value| value == first) => Integers::Same {
                value: Some(*first),
                rows,
            },
            _ => Integers::Each {
                values,
                present: None,
            },
        };
    }
    let mut all = Vec::with_capacity(rows);
    let (mut bits, mut rest) = (Bits::default(), &values[..]);
    for (is_present, length) in present {
        let start = all.len();
        if is_present {
            let (some, after) = rest.split_at(length.min(rest.len()));
            all.extend_from_slice(some);
            rest = after;
        }
        all.resize(start + length, 0);
        bits.extend(start..start + length, is_present);
    }
    Integers::Each {
        values: all,
        present: Some(bits),
    }
}

fn decimals(Numbers { values, present }: &Numbers, rows: usize) -> Vec<f64> {
    let decimal = |number: &u64| of_millionths(number.cast_signed());
    if present.is_empty() {
        return values.iter().map(decimal).collect();
    }
    let mut all = Vec::with_capacity(rows);
    let mut rest = &values[..];
    for (is_present, length) in present {
        if *is_present {
            let (some, after) = rest.split_at((*length).min(rest.len()));
            all.extend(some.iter().map(decimal));
            rest = after;
        } else {
            all.resize(all.len() + length, f64::NAN);
        }
    }
    all
}

fn texts(values: &[ByteArray], levels: &[i16], is_required: bool, rows: usize) -> Result<Texts> {
    let mut texts = Texts::default();
    // Equal strings of a dictionary share one address, which is cheaper to compare.
    let mut last: Option<(*const u8, usize, u32)> = None;
    let mut values = values.iter();
    let is_present = |row: usize| is_required || levels.get(row) == Some(&1);
    for row in 0..rows {
        let Some(value) = is_present(row).then(|| values.next()).flatten() else {
            texts.ids.push(Texts::NONE);
            continue;
        };
        let data = value.data();
        let id = match last {
            Some((start, length, id)) if start == data.as_ptr() && length == data.len() => id,
            _ => texts.intern(value.as_utf8()?),
        };
        last = Some((data.as_ptr(), data.len(), id));
        texts.ids.push(id);
    }
    Ok(texts)
}
