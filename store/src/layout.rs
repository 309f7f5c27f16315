//! The columns of a table in Parquet: physical types and encodings.

use std::sync::Arc;

use ibnet_record::Presence;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::Result;
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::schema::types::{ColumnDescriptor, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::schema::{ColumnSpec, Kind, Schema};

/// Rows of a row group. A reader that needs one port reads a part of one row group for each hour.
pub(crate) const ROW_GROUP: usize = 1 << 18;

/// Rows of a page. A reader that needs one port decodes whole pages.
const PAGE_ROWS: usize = 1 << 14;

/// Compression level of zstd. Higher levels save 2 % of the size and take twice the time.
const ZSTD_LEVEL: i32 = 3;

/// Decimals of a [`Kind::Decimal`], as the records have.
const DECIMALS: i32 = 6;

/// Digits of a [`Kind::Decimal`]: any number with 18 digits fits into 64 bits.
const PRECISION: i32 = 18;

/// Returns the type of a file.
pub(crate) fn file_type(schema: &Schema) -> Result<TypePtr> {
    let fields = schema
        .columns
        .iter()
        .map(|column| field(column).map(Arc::new))
        .collect::<Result<_>>()?;
    Ok(Arc::new(
        Type::group_type_builder("record")
            .with_fields(fields)
            .build()?,
    ))
}

/// Returns the descriptors of all columns. Each column has one leaf.
pub(crate) fn descriptors(schema: &Schema) -> Result<SchemaDescPtr> {
    Ok(Arc::new(SchemaDescriptor::new(file_type(schema)?)))
}

fn field(column: &ColumnSpec) -> Result<Type> {
    let repetition = if column.presence == Presence::Required {
        Repetition::REQUIRED
    } else {
        Repetition::OPTIONAL
    };
    match column.kind {
        Kind::Integers | Kind::Texts => {
            let element = leaf(
                "element",
                if column.kind == Kind::Texts {
                    Kind::Text
                } else {
                    Kind::Unsigned(64)
                },
                Repetition::REQUIRED,
            )?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            let whole = Type::group_type_builder(column.name)
                .with_repetition(repetition)
                .with_logical_type(Some(LogicalType::List));
            whole.with_fields(vec![Arc::new(list)]).build()
        }
        kind => leaf(column.name, kind, repetition),
    }
}

/// Returns whether a column of a file has the type of a column of a table. The decoders rely
/// on this.
pub(crate) fn is_of_type(column: &ColumnSpec, leaf: &ColumnDescriptor) -> bool {
    let (physical, depth) = match column.kind {
        Kind::Unsigned(..=32) | Kind::Signed(..=32) => (Physical::INT32, 0),
        Kind::Unsigned(_) | Kind::Signed(_) | Kind::Decimal => (Physical::INT64, 0),
        Kind::Text => (Physical::BYTE_ARRAY, 0),
        Kind::Integers => (Physical::INT64, 1),
        Kind::Texts => (Physical::BYTE_ARRAY, 1),
    };
    let optional = i16::from(column.presence != Presence::Required);
    (
        leaf.physical_type(),
        leaf.max_def_level(),
        leaf.max_rep_level(),
    ) == (physical, depth + optional, depth)
}

fn leaf(name: &str, kind: Kind, repetition: Repetition) -> Result<Type> {
    let (physical, logical) = match kind {
        Kind::Unsigned(bits @ ..=32) => (
            Physical::INT32,
            Some(LogicalType::integer(bits.cast_signed(), false)),
        ),
        Kind::Unsigned(bits) => (
            Physical::INT64,
            Some(LogicalType::integer(bits.cast_signed(), false)),
        ),
        Kind::Signed(bits @ ..=32) => (
            Physical::INT32,
            Some(LogicalType::integer(bits.cast_signed(), true)),
        ),
        Kind::Signed(bits) => (
            Physical::INT64,
            Some(LogicalType::integer(bits.cast_signed(), true)),
        ),
        Kind::Decimal => (
            Physical::INT64,
            Some(LogicalType::decimal(DECIMALS, PRECISION)),
        ),
        Kind::Text | Kind::Texts | Kind::Integers => {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        }
    };
    let leaf = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical);
    // The builder compares these two numbers with those of the logical type.
    if kind == Kind::Decimal {
        leaf.with_scale(DECIMALS).with_precision(PRECISION).build()
    } else {
        leaf.build()
    }
}

/// How the values of a column vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variation {
    /// Few different values.
    Few,
    /// Values that differ from row to row.
    Many,
    /// All rows have the same value or none.
    None,
}

/// Returns the writer settings of one column.
pub(crate) fn properties(kind: Kind, variation: Variation) -> Result<WriterPropertiesPtr> {
    let builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        // The offset index would lie between the columns and the footer, where the checksums are.
        .set_offset_index_disabled(true)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_write_batch_size(PAGE_ROWS)
        .set_data_page_row_count_limit(if variation == Variation::None {
            ROW_GROUP
        } else {
            PAGE_ROWS
        })
        .set_created_by(concat!("ibnet ", env!("CARGO_PKG_VERSION")).to_owned());
    let builder = match (kind, variation) {
        (Kind::Text | Kind::Texts, _) | (_, Variation::Few | Variation::None) => builder
            .set_dictionary_enabled(true)
            .set_dictionary_page_size_limit(8 << 20),
        (_, Variation::Many) => builder
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::DELTA_BINARY_PACKED),
    };
    Ok(Arc::new(builder.build()))
}
