//! The types of fields in SQL, and the columns of `port` records in the SQL of
//! `packaging/clickhouse` and `packaging/duckdb`, which are made from the table of fields.

use std::borrow::Cow;

use super::port::{PortField, PortFields};
use super::reader::Type;
use super::schema;
use super::value::{FieldValue, Kind};
use crate::attributes::Group;

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
    /// Whether a line can lack the number.
    is_nullable: bool,
    is_counter: bool,
}

/// Returns the type of a field in DuckDB.
pub const fn duckdb(kind: Kind) -> &'static str {
    match kind {
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

/// Returns the type of a field in ClickHouse. `text` is that of a text.
pub fn clickhouse(kind: Kind, text: &str, is_nullable: bool) -> String {
    let name = match kind {
        Kind::Unsigned(bits) => format!("UInt{bits}"),
        Kind::Signed => "Int32".to_owned(),
        Kind::Float => "Float64".to_owned(),
        Kind::Text => return text.to_owned(),
        // Lists cannot be null: a missing list is empty.
        Kind::Integers => return "Array(UInt64)".to_owned(),
        Kind::Texts => return format!("Array({text})"),
    };
    if is_nullable {
        format!("Nullable({name})")
    } else {
        name
    }
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
            list(&|column| format!("{}: '{}'", column.name, duckdb(column.kind))),
        ),
    ]
}

fn columns() -> Vec<Column> {
    let empty = PortFields::<Cow<'_, str>, ()>::without_values(());
    let counters: Vec<_> = GROUPS
        .into_iter()
        .flat_map(|group| group.fields().map(|field| field.json))
        .collect();
    let slots = GROUPS.map(Group::dt_slots_field);
    let column = |schema::Field { name, kind, .. }| {
        let field = PortField::named(name);
        let is_counter = counters.contains(&name);
        let is_kept = field.is_some_and(|field| field != PortField::ts);
        (is_kept || is_counter || slots.contains(&name)).then(|| Column {
            name,
            // A port has few MADs.
            kind: if field == Some(PortField::mads) {
                Kind::Unsigned(32)
            } else {
                kind
            },
            is_nullable: field.is_none_or(|field| empty.get(field) == FieldValue::Null),
            is_counter,
        })
    };
    schema::fields(Type::Port)
        .into_iter()
        .filter_map(column)
        .collect()
}

/// Returns the type of a column in ClickHouse.
fn typed(column: &Column) -> String {
    // A device without a link has no peer, and a record without an identity has the text ''.
    let text = if column.name.starts_with("peer") {
        "LowCardinality(Nullable(String))"
    } else {
        "LowCardinality(String)"
    };
    clickhouse(column.kind, text, column.is_nullable)
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
    format!("{name} {}{rest}", typed(column))
}

/// Returns the column of a table of ClickHouse that has the records of all types.
fn streamed(column: &Column) -> String {
    let name = column.name;
    match name {
        "role" => format!("{name} String DEFAULT 'primary'"),
        _ if is_of_port(name) => format!("{name} Nullable({})", typed(column))
            .replace("LowCardinality(String)", "String"),
        _ => format!("{name} {}", typed(column)),
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
