//! Writes tables as Parquet files.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use ibnet_record::Presence;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;
use rayon::prelude::*;

use crate::checksums;
use crate::column::{Column, Integers, Texts, millionths};
use crate::layout::{self, ROW_GROUP, Variation};
use crate::schema::{Kind, TableName, VERSION};
use crate::table::{Sum, Table};

/// Metadata keys of a file.
pub(crate) mod keys {
    /// Version of the schema.
    pub(crate) const SCHEMA: &str = "ibnet.schema";
    /// Name of the table.
    pub(crate) const TABLE: &str = "ibnet.table";
    /// Row count.
    pub(crate) const ROWS: &str = "ibnet.rows";
    /// Sum of the hashes of all rows, as 16 hexadecimal digits.
    pub(crate) const SUM: &str = "ibnet.sum";
    /// Row count and checksum of the `ports` rows from which a table was derived.
    pub(crate) const OF: &str = "ibnet.of";
    /// Algorithm of the checksums before the footer. Files of earlier versions have none.
    pub(crate) const CHECKSUMS: &str = "ibnet.checksums";
}

/// A file in progress.
pub struct FileWriter<W: Write + Send> {
    name: TableName,
    descriptors: SchemaDescPtr,
    file: SerializedFileWriter<Output<W>>,
    /// Checksums of the columns.
    checksums: Vec<u32>,
    sum: Sum,
    of: Option<Sum>,
}

/// An encoded and compressed row group: the bytes of each column with their checksums.
type Encoded = Vec<(Bytes, Vec<u32>, ColumnCloseResult)>;

/// Holds the footer back, because its checksum is written before it.
struct Output<W> {
    output: W,
    footer: Option<Vec<u8>>,
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.footer {
            Some(footer) => footer.write(octets),
            None => self.output.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl<W: Write + Send> FileWriter<W> {
    /// Starts a file.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn new(output: W, name: TableName) -> Result<Self> {
        let schema = name.schema();
        let index = |column: &str| {
            schema.index(column).map(|index| SortingColumn {
                column_idx: index as i32,
                descending: false,
                nulls_first: false,
            })
        };
        let sorting = match name {
            name if name.is_by_port() => ["guid", "port", "sampler", "ts"]
                .iter()
                .filter_map(|column| index(column))
                .collect(),
            _ => index("ts").into_iter().collect(),
        };
        let properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_sorting_columns(Some(sorting))
            .set_offset_index_disabled(true)
            .set_created_by(concat!("ibnet ", env!("CARGO_PKG_VERSION")).to_owned());
        let file = SerializedFileWriter::new(
            Output {
                output,
                footer: None,
            },
            layout::file_type(schema)?,
            Arc::new(properties.build()),
        )?;
        Ok(Self {
            name,
            descriptors: layout::descriptors(schema)?,
            file,
            checksums: Vec::new(),
            sum: Sum::default(),
            of: None,
        })
    }

    /// Writes rows of a table in the given order.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn write(&mut self, table: &Table, order: &[u32]) -> Result<()> {
        let hashes = table.hashes();
        let hash = order
            .iter()
            .fold(0_u64, |sum, row| sum.wrapping_add(hashes[*row as usize]));
        self.sum += Sum {
            rows: order.len() as u64,
            hash,
        };
        let groups = table.groups(order, ROW_GROUP);
        // Only a few row groups are encoded at a time, because each of them takes memory.
        for some in groups.chunks(rayon::current_num_threads().max(1)) {
            let encoded: Vec<Result<Encoded>> = some
                .par_iter()
                .map(|rows| encode(&self.descriptors, table, rows))
                .collect();
            for columns in encoded {
                let mut group = self.file.next_row_group()?;
                for (octets, checksums, close) in columns? {
                    self.checksums.extend(checksums);
                    group.append_column(&octets, close)?;
                }
                group.close()?;
            }
        }
        Ok(())
    }

    /// Sets the row count and checksum of the `ports` rows from which this table was derived.
    pub fn set_of(&mut self, of: Sum) {
        self.of = Some(of);
    }

    /// Writes the metadata, and returns the output with the row count and checksum.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn finish(mut self) -> Result<(W, Sum)> {
        let Self { name, sum, of, .. } = self;
        if let Some(Sum { rows, hash }) = of {
            self.file.append_key_value_metadata(KeyValue::new(
                keys::OF.to_owned(),
                format!("{rows} {hash:016x}"),
            ));
        }
        for (key, value) in [
            (keys::SCHEMA, VERSION.to_string()),
            (keys::TABLE, name.as_str().to_owned()),
            (keys::ROWS, sum.rows.to_string()),
            (keys::SUM, format!("{:016x}", sum.hash)),
            (keys::CHECKSUMS, "crc32".to_owned()),
        ] {
            self.file
                .append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        // Everything from here on is the footer.
        self.file.flush()?;
        self.file.inner_mut().footer = Some(Vec::new());
        let Output { mut output, footer } = self.file.into_inner()?;
        let footer = footer.unwrap_or_default();
        output.write_all(&checksums::before_footer(&self.checksums, &footer))?;
        output.write_all(&footer)?;
        Ok((output, sum))
    }
}

fn encode(descriptors: &SchemaDescPtr, table: &Table, rows: &[u32]) -> Result<Encoded> {
    let specs = &table.schema().columns;
    let columns = (0..specs.len()).into_par_iter().map(|index| {
        let (kind, column) = (specs[index].kind, table.column(index));
        let is_required = specs[index].presence == Presence::Required;
        let properties = layout::properties(kind, variation(column, rows))?;
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let mut writer = get_column_writer(descriptors.column(index), properties, pages);
        write_column(&mut writer, column, kind, is_required, rows)?;
        let close = writer.close()?;
        let octets = Bytes::from(sink.into_inner()?);
        let checksums = checksums::of_column(&octets);
        Ok((octets, checksums, close))
    });
    columns.collect()
}

/// Returns how the values of a column vary. Only the first rows are checked.
fn variation(column: &Column, rows: &[u32]) -> Variation {
    /// Number of rows that are checked.
    const SAMPLE: usize = 4096;
    if column.is_blank() || matches!(column, Column::Integer(Integers::Same { .. })) {
        return Variation::None;
    }
    // The sample is spread over the whole row group, because neighbouring rows belong to one port.
    let step = (rows.len() / SAMPLE).max(1);
    let sample = rows.iter().step_by(step).map(|row| *row as usize);
    let mut seen: rustc_hash::FxHashSet<u64> = rustc_hash::FxHashSet::default();
    match column {
        Column::Integer(integers) => seen.extend(sample.filter_map(|row| integers.get(row))),
        Column::Float(values) => seen.extend(sample.map(|row| values[row].to_bits())),
        Column::Text(_) | Column::List(_) => return Variation::Many,
    }
    if seen.len() * 16 <= SAMPLE.min(rows.len()) {
        Variation::Few
    } else {
        Variation::Many
    }
}

fn write_column(
    writer: &mut ColumnWriter<'_>,
    column: &Column,
    kind: Kind,
    is_required: bool,
    rows: &[u32],
) -> Result<()> {
    let rows = || rows.iter().map(|row| *row as usize);
    match (writer, column) {
        (ColumnWriter::Int32ColumnWriter(writer), Column::Integer(integers)) => {
            let (values, levels) = present(
                rows().map(|row| integers.get(row).map(|value| value as u32 as i32)),
                is_required,
            );
            writer.write_batch(&values, levels.as_deref(), None)?;
        }
        (ColumnWriter::Int64ColumnWriter(writer), Column::Integer(integers)) => {
            let (values, levels) = present(
                rows().map(|row| integers.get(row).map(u64::cast_signed)),
                is_required,
            );
            writer.write_batch(&values, levels.as_deref(), None)?;
        }
        (ColumnWriter::Int64ColumnWriter(writer), Column::Float(values)) => {
            let (values, levels) = present(rows().map(|row| millionths(values[row])), is_required);
            writer.write_batch(&values, levels.as_deref(), None)?;
        }
        (ColumnWriter::Int64ColumnWriter(writer), Column::List(lists)) => {
            let mut nested = Nested::default();
            rows().for_each(|row| {
                nested.push(
                    lists
                        .get(row)
                        .map(|list| list.iter().map(|value| value.cast_signed())),
                );
            });
            writer.write_batch(
                &nested.values,
                Some(&nested.definition),
                Some(&nested.repetition),
            )?;
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Column::Text(texts))
            if kind == Kind::Texts =>
        {
            // In memory, a list of strings is an id of its JSON, so each distinct list is
            // parsed once.
            let parse = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap_or_default();
            let lists: Vec<Vec<ByteArray>> = texts
                .list()
                .iter()
                .map(|text| {
                    parse(text)
                        .into_iter()
                        .map(|text| ByteArray::from(text.into_bytes()))
                        .collect()
                })
                .collect();
            let mut nested = Nested::default();
            let ids = texts.ids.all();
            rows().for_each(|row| {
                nested.push(
                    lists
                        .get(ids[row] as usize)
                        .map(|list| list.iter().cloned()),
                );
            });
            writer.write_batch(
                &nested.values,
                Some(&nested.definition),
                Some(&nested.repetition),
            )?;
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), Column::Text(texts)) => {
            let all: Vec<ByteArray> = texts
                .list()
                .iter()
                .map(|text| ByteArray::from(text.as_bytes().to_vec()))
                .collect();
            let ids = texts.ids.all();
            let text = |row: usize| {
                Some(ids[row])
                    .filter(|id| *id != Texts::NONE)
                    .and_then(|id| all.get(id as usize).cloned())
            };
            let (values, levels) = present(rows().map(text), is_required);
            writer.write_batch(&values, levels.as_deref(), None)?;
        }
        _ => {
            return Err(ParquetError::General(
                "a column has another type than its schema".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Returns the existing values, and the definition level of each row: 1 for a row with a value. A
/// required column has no levels.
fn present<T>(
    rows: impl Iterator<Item = Option<T>>,
    is_required: bool,
) -> (Vec<T>, Option<Vec<i16>>) {
    let mut values = Vec::with_capacity(rows.size_hint().0);
    if is_required {
        values.extend(rows.flatten());
        return (values, None);
    }
    let mut levels = Vec::with_capacity(rows.size_hint().0);
    for value in rows {
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, Some(levels))
}

/// Values of lists with their levels. The definition level is 0 without a list, 1 for an empty list
/// and 2 for a value; the repetition level is 0 for the first value of a row.
struct Nested<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            definition: Vec::new(),
            repetition: Vec::new(),
        }
    }
}

impl<T> Nested<T> {
    fn push(&mut self, list: Option<impl Iterator<Item = T>>) {
        let before = self.values.len();
        let is_list = list.is_some();
        self.values.extend(list.into_iter().flatten());
        let added = self.values.len() - before;
        self.definition.extend(if added > 0 {
            vec![2; added]
        } else {
            vec![i16::from(is_list)]
        });
        self.repetition.push(0);
        self.repetition
            .extend(std::iter::repeat_n(1, added.saturating_sub(1)));
    }
}
