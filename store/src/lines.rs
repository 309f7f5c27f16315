//! Writes the rows of a table as lines.

use std::collections::BTreeMap;

use ibnet_record::{Presence, text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::column::Column;
use crate::schema::Kind;
use crate::table::Table;

/// The column [`EXTRA`](crate::schema::EXTRA), with everything that has no column.
#[derive(Debug, Default, Deserialize)]
struct Extra<'a> {
    #[serde(borrow, default)]
    fields: BTreeMap<String, &'a RawValue>,
    #[serde(default)]
    absent: Vec<String>,
}

impl Table {
    /// Returns a row as a line without a line feed. Fields are in the order of the columns,
    /// followed by those without a column. Columns that were not read are left out. So is every
    /// field without a value if the column that distinguishes null from absent was not read.
    pub fn line(&self, row: usize) -> Vec<u8> {
        let mut line = Vec::with_capacity(1536);
        self.write_line(row, &mut line);
        line
    }

    /// Appends the row as a line without a line feed.
    pub fn write_line(&self, row: usize, line: &mut Vec<u8>) {
        let schema = self.schema();
        let (knows_absent, extra) = match self.column(schema.extra()) {
            Column::Text(texts) if texts.ids.len() > row => (true, texts.get(row)),
            _ => (false, None),
        };
        let extra: Option<Extra<'_>> = extra.and_then(|text| serde_json::from_str(text).ok());
        line.push(b'{');
        if let Some(kind) = self.name().kind() {
            put_key("type", line);
            put_text(kind.as_str(), line);
        }
        for (index, column) in schema
            .columns
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != schema.extra())
        {
            let values = self.column(index);
            if values.len() <= row {
                continue;
            }
            if extra.as_ref().is_some_and(|extra| extra.has(column.name)) {
                continue;
            }
            let presence = if knows_absent {
                column.presence
            } else {
                Presence::Optional
            };
            put(column.name, values, column.kind, presence, row, line);
        }
        for (name, raw) in extra.into_iter().flat_map(|extra| extra.fields) {
            put_key(&name, line);
            line.extend_from_slice(raw.get().as_bytes());
        }
        line.push(b'}');
    }
}

impl Extra<'_> {
    /// Returns whether the column of a field does not have its value.
    fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name) || self.absent.iter().any(|absent| absent == name)
    }
}

/// Writes a field, unless it is absent.
fn put(
    name: &str,
    column: &Column,
    kind: Kind,
    presence: Presence,
    row: usize,
    line: &mut Vec<u8>,
) {
    let begin = line.len();
    put_key(name, line);
    let has_value = match column {
        Column::Integer(integers) => integers.get(row).map(|value| match kind {
            Kind::Signed(_) => put_number(&value.cast_signed(), line),
            _ => put_number(&value, line),
        }),
        Column::Float(values) => Some(values[row])
            .filter(|value| !value.is_nan())
            .map(|value| put_number(&value, line)),
        Column::Text(texts) => texts.get(row).map(|text| match kind {
            Kind::Texts => put_texts(text, line),
            _ => put_text(text, line),
        }),
        Column::List(lists) => lists.get(row).map(|list| put_number(&list, line)),
    };
    match has_value {
        Some(()) => {}
        None if presence == Presence::Always => line.extend_from_slice(b"null"),
        None => line.truncate(begin),
    }
}

fn put_key(name: &str, line: &mut Vec<u8>) {
    if !line.ends_with(b"{") {
        line.push(b',');
    }
    put_text(name, line);
    line.push(b':');
}

/// Writes numbers. This cannot fail, because a `Vec` accepts all bytes.
fn put_number(value: &impl Serialize, line: &mut Vec<u8>) {
    let _ = serde_json::to_writer(line, value);
}

/// Writes a list of strings from its JSON.
fn put_texts(json: &str, line: &mut Vec<u8>) {
    let list: Vec<String> = serde_json::from_str(json).unwrap_or_default();
    let _ = list.serialize(&mut text::compact(line));
}

fn put_text(value: &str, line: &mut Vec<u8>) {
    let is_plain = |octet: u8| matches!(octet, b' '..=b'~') && octet != b'"' && octet != b'\\';
    if value.bytes().all(is_plain) {
        line.push(b'"');
        line.extend_from_slice(value.as_bytes());
        line.push(b'"');
    } else {
        let _ = value.serialize(&mut text::compact(line));
    }
}
