//! `ibnet-sweep schema`: the types of the fields of the records, for other programs.

use std::fmt::Write;

use ibnet::cli;
use ibnet_record::reader::Type;
use ibnet_record::schema::{self, Field, Kind};
use ibnet_record::sql;
use serde_json::{Map, Value, json};

use super::failure::Failure;

/// Print the types of the fields of the records, for programs that read them
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Format of the output
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Format,
    /// Type of the records
    #[arg(long = "type", value_name = "TYPE", value_enum, default_value_t = Record::Port)]
    record: Record,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    /// JSON Schema, draft 2020-12
    JsonSchema,
    /// Python source with SCHEMA for `polars.read_ndjson`
    Polars,
    /// Columns for the argument `columns` of DuckDB's `read_json`
    Duckdb,
    /// Structure for ClickHouse's `file` and `CREATE TABLE`
    Clickhouse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Record {
    Port,
    Sweep,
    Event,
    Histogram,
    Start,
    Phy,
    Module,
    Sensors,
    Planes,
    Routes,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep schema --format polars > ibnet_schema.py
  ibnet-sweep schema --format duckdb --type sweep
  ibnet-sweep schema --format clickhouse
  ibnet-sweep schema --format json-schema

A file of records has lines of all types: select those of one type by the column
`type`. docs/recipes.md has complete examples.";

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let of = match args.record {
        Record::Port => Type::Port,
        Record::Sweep => Type::Sweep,
        Record::Event => Type::Event,
        Record::Histogram => Type::Histogram,
        Record::Start => Type::Start,
        Record::Phy => Type::Phy,
        Record::Module => Type::Module,
        Record::Sensors => Type::Sensors,
        Record::Planes => Type::Planes,
        Record::Routes => Type::Routes,
    };
    let fields = schema::fields(of);
    let text = match args.format {
        Format::JsonSchema => json_schema(&fields, of.as_str()),
        Format::Polars => polars(&fields),
        Format::Duckdb => duckdb(&fields),
        Format::Clickhouse => clickhouse(&fields),
    };
    cli::print_line(&text)?;
    Ok(())
}

fn json_schema(fields: &[Field], name: &str) -> String {
    let of = |field: &Field| match field.kind {
        Kind::Unsigned(bits) => {
            json!({ "type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX >> (64 - bits) })
        }
        Kind::Signed => json!({ "type": ["integer", "null"] }),
        Kind::Float => json!({ "type": ["number", "null"] }),
        Kind::Text => json!({ "type": ["string", "null"] }),
        Kind::Integers => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": 0, "maximum": u64::MAX } })
        }
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
    };
    let mut properties: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), of(field)))
        .collect();
    properties.insert("type".to_owned(), json!({ "const": name }));
    let document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("ibnet {name} record"),
        "type": "object",
        "properties": properties,
        "required": ["type", "ts"],
    });
    serde_json::to_string_pretty(&document).unwrap_or_default()
}

/// Formats each field and joins the results.
fn joined(fields: &[Field], separator: &str, text: impl Fn(&Field) -> String) -> String {
    fields.iter().map(text).collect::<Vec<_>>().join(separator)
}

fn polars(fields: &[Field]) -> String {
    let of = |field: &Field| {
        let kind = match field.kind {
            Kind::Unsigned(64) => "pl.UInt64".to_owned(),
            // The reader of polars 2.1 panics at integers of 8 and 16 bits.
            Kind::Unsigned(_) => "pl.UInt32".to_owned(),
            Kind::Signed => "pl.Int32".to_owned(),
            Kind::Float => "pl.Float64".to_owned(),
            Kind::Text => "pl.String".to_owned(),
            Kind::Integers => "pl.List(pl.UInt64)".to_owned(),
            Kind::Texts => "pl.List(pl.String)".to_owned(),
        };
        format!("    \"{}\": {kind},", field.name)
    };
    let mut text = String::from("import polars as pl\n\nSCHEMA = {\n");
    let _ = write!(text, "{}\n}}", joined(fields, "\n", of));
    text
}

fn duckdb(fields: &[Field]) -> String {
    let of = |field: &Field| format!("\"{}\": '{}'", field.name, sql::duckdb(field.kind));
    format!("{{{}}}", joined(fields, ", ", of))
}

fn clickhouse(fields: &[Field]) -> String {
    let of = |field: &Field| {
        let text = match field.kind {
            Kind::Texts => "String",
            _ => "Nullable(String)",
        };
        format!("{} {}", field.name, sql::clickhouse(field.kind, text, true))
    };
    joined(fields, ", ", of)
}
