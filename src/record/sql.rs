//! The columns of `port` records in the SQL of `packaging/clickhouse` and `docs/outputs.md`, which
//! are made from the table of fields.

use std::borrow::Cow;

use super::port::{PortField, PortFields};
use super::value::{FieldValue, Kind};
use crate::mad::pma::Group;

/// Counter groups whose counters have columns: the default ones, and data by service level.
const GROUPS: [Group; 6] = [
    Group::Extended,
    Group::Base,
    Group::XmtDisc,
    Group::RcvErr,
    Group::XmtSl,
    Group::RcvSl,
];

/// Greatest length of a line.
const WIDTH: usize = 100;

/// A column. `ts` has another place in each table.
struct Column {
    name: &'static str,
    kind: Kind,
    /// Whether a line can lack the value. A text is then empty.
    is_nullable: bool,
    is_counter: bool,
}

/// Returns the lists of columns, by the names in their marks.
pub(super) fn lists() -> [(&'static str, String); 4] {
    let columns = columns();
    let list =
        |item: &dyn Fn(&Column) -> String| filled(&columns.iter().map(item).collect::<Vec<_>>());
    [
        ("table", list(&|column| stored(column))),
        ("stream", list(&|column| streamed(column))),
        ("stream to table", list(&|column| selected(column))),
        (
            "file",
            list(&|column| format!("{}: '{}'", column.name, duckdb(column))),
        ),
    ]
}

fn columns() -> Vec<Column> {
    let empty = PortFields::<Cow<'_, str>, ()>::without_values(());
    let mut columns = Vec::new();
    for field in PortField::ALL.iter().copied() {
        match field.kind() {
            _ if field == PortField::ts => {}
            Some(kind) => columns.push(Column {
                name: field.name(),
                // A port has few MADs.
                kind: if field == PortField::mads {
                    Kind::Unsigned(32)
                } else {
                    kind
                },
                is_nullable: empty.get(field) == FieldValue::Null,
                is_counter: false,
            }),
            None => columns.extend(counters()),
        }
    }
    columns
}

/// Returns each counter once, and the slots since the last reading of each group.
fn counters() -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for field in GROUPS.into_iter().flat_map(Group::fields) {
        if columns.iter().all(|column| column.name != field.json) {
            columns.push(Column {
                name: field.json,
                kind: if field.len > 1 {
                    Kind::Integers
                } else {
                    Kind::Unsigned(64)
                },
                is_nullable: true,
                is_counter: true,
            });
        }
    }
    columns.extend(GROUPS.map(|group| Column {
        name: group.dt_slots_field(),
        kind: Kind::Unsigned(32),
        is_nullable: true,
        is_counter: false,
    }));
    columns
}

/// Returns the type in ClickHouse.
fn clickhouse(column: &Column) -> String {
    let number = |name: String| {
        if column.is_nullable {
            format!("Nullable({name})")
        } else {
            name
        }
    };
    match column.kind {
        Kind::Unsigned(bits) => number(format!("UInt{bits}")),
        Kind::Signed => number("Int32".to_owned()),
        Kind::Float => number("Float64".to_owned()),
        // A device without a link has no peer, and a record without an identity has the text ''.
        Kind::Text if column.name.starts_with("peer") => {
            "LowCardinality(Nullable(String))".to_owned()
        }
        Kind::Text => "LowCardinality(String)".to_owned(),
        Kind::Integers => "Array(UInt64)".to_owned(),
        Kind::Texts => "Array(LowCardinality(String))".to_owned(),
    }
}

/// Returns the column of a table of ClickHouse.
fn stored(column: &Column) -> String {
    let Column { name, kind, .. } = column;
    let rest = match kind {
        _ if *name == "role" => " DEFAULT 'primary'",
        _ if *name == "slot" => " CODEC(DoubleDelta, ZSTD)",
        Kind::Unsigned(64) if column.is_counter => " CODEC(Delta, ZSTD)",
        Kind::Unsigned(64) => " CODEC(T64, ZSTD)",
        Kind::Float | Kind::Integers => " CODEC(ZSTD)",
        _ => "",
    };
    format!("{name} {}{rest}", clickhouse(column))
}

/// Returns the column of a table of ClickHouse that has the records of all types.
fn streamed(column: &Column) -> String {
    let name = column.name;
    match name {
        "role" => format!("{name} String DEFAULT 'primary'"),
        _ if is_of_port(name) => format!("{name} Nullable({})", clickhouse(column))
            .replace("LowCardinality(String)", "String"),
        _ => format!("{name} {}", clickhouse(column)),
    }
}

/// Returns the value of a column for the table of ports.
fn selected(column: &Column) -> String {
    let name = column.name;
    if is_of_port(name) {
        format!("assumeNotNull({name}) AS {name}")
    } else {
        name.to_owned()
    }
}

/// Returns whether records of other types can have a field without a value, and those of ports
/// cannot.
fn is_of_port(name: &str) -> bool {
    ["guid", "port", "lid"].contains(&name)
}

/// Returns the type in DuckDB.
fn duckdb(column: &Column) -> &'static str {
    match column.kind {
        Kind::Unsigned(8) => "UTINYINT",
        Kind::Unsigned(16) => "USMALLINT",
        Kind::Unsigned(32) => "UINTEGER",
        Kind::Unsigned(_) => "UBIGINT",
        Kind::Signed => "INTEGER",
        Kind::Float => "DOUBLE",
        Kind::Text => "VARCHAR",
        Kind::Integers => "UBIGINT[]",
        Kind::Texts => "VARCHAR[]",
    }
}

/// Returns the items with commas between them, as indented lines.
fn filled(items: &[String]) -> String {
    let mut text = String::new();
    let mut length = WIDTH;
    for (index, item) in items.iter().enumerate() {
        let comma = if index + 1 < items.len() { "," } else { "" };
        if length + item.len() + comma.len() + 1 > WIDTH {
            text += if text.is_empty() { "  " } else { "\n  " };
            length = 2;
        } else {
            text.push(' ');
            length += 1;
        }
        text += item;
        text += comma;
        length += item.len() + comma.len();
    }
    text + "\n"
}
