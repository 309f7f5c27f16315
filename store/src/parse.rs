//! Parses lines into tables. Nothing of a line is lost: fields without a column go to the
//! column [`EXTRA`](crate::schema::EXTRA).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ibnet_record::Presence;
use ibnet_record::reader::Head;
use ibnet_record::types::Guid;
use serde::de::{Deserialize, Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::column::{Column, Texts, millionths};
use crate::hour::Hour;
use crate::schema::{Kind, TableName};
use crate::table::Table;

/// Rows of several lines, by table and hour.
#[derive(Debug, Default)]
pub struct Batch {
    /// Tables with at least one row.
    pub tables: BTreeMap<(TableName, Hour), Table>,
    /// Lines that are not records: index of the line in the text, from 0, and what is wrong
    /// with it.
    pub invalid: Vec<(usize, String)>,
    /// Number of lines, without blank ones.
    pub lines: u64,
}

impl Batch {
    /// Parses whole lines.
    pub fn parse(text: &[u8]) -> Self {
        let mut batch = Self::default();
        for (number, line) in text.split(|octet| *octet == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            batch.lines += 1;
            if let Err(error) = batch.add(line) {
                batch.invalid.push((number, error.to_string()));
            }
        }
        batch.tables.retain(|_, table| !table.is_empty());
        batch.tables.iter_mut().for_each(|(_, table)| table.seal());
        batch
    }

    fn add(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        let head = Head::of(line)?;
        let text = std::str::from_utf8(line).map_err(serde_json::Error::custom)?;
        if i64::try_from(head.ts).is_err() {
            return Err(serde_json::Error::custom("its time is after the year 2262"));
        }
        let (name, hour) = (TableName::of(head.kind), Hour::of(head.ts));
        self.tables
            .entry((name, hour))
            .or_insert_with(|| Table::new(name))
            .push_line(text)
    }
}

impl Table {
    /// Appends a line whose type is that of this table.
    ///
    /// # Errors
    /// Returns an error if the line is not a JSON object, or lacks a field of the key. The table is
    /// then unchanged.
    pub fn push_line(&mut self, line: &str) -> Result<(), serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(line);
        let added = json.deserialize_map(Fields(self)).and_then(|()| json.end());
        if added.is_err() {
            let rows = self.rows;
            self.columns
                .iter_mut()
                .filter(|column| column.len() > rows)
                .for_each(Column::pop);
        } else {
            self.rows += 1;
        }
        added
    }
}

/// Adds the fields of an object to the next row of a table.
struct Fields<'t>(&'t mut Table);

/// Everything in a line that has no column.
#[derive(Default)]
struct Extra<'de> {
    fields: Vec<(Cow<'de, str>, &'de str)>,
}

/// A key, borrowed from the line if it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Strings)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(table) = self;
        let (schema, row) = (table.schema(), table.rows);
        let has_type_column = table.name().kind().is_none();
        let mut extra = Extra::default();
        // Lines usually have their fields in the order of the columns.
        let mut next = 0;
        while let Some(Key(name)) = map.next_key()? {
            let raw = map.next_value::<&RawValue>()?.get();
            if name == "type" && !has_type_column {
                continue;
            }
            let is_next = |index: &usize| {
                schema
                    .columns
                    .get(*index)
                    .is_some_and(|column| column.name == name)
            };
            let Some(index) = Some(next)
                .filter(is_next)
                .or_else(|| schema.index(&name))
                .filter(|index| *index != schema.extra())
            else {
                extra.put(name, raw);
                continue;
            };
            next = index + 1;
            let column = &mut table.columns[index];
            if column.len() > row {
                // A repeated key: the last one counts, as for other readers. Only for required
                // fields is this an error, because the first `ts` has already decided to which hour
                // the line belongs.
                if schema.columns[index].presence == Presence::Required {
                    return Err(A::Error::custom(format_args!("it has `{name}` twice")));
                }
                column.pop();
                extra.remove(&name);
            }
            column.fill(row);
            if !put(
                column,
                schema.columns[index].kind,
                schema.columns[index].presence,
                raw,
            ) {
                column.fill(row + 1);
                extra.put(name, raw);
            }
        }
        let is_missing = |index: &usize| table.columns[*index].len() <= row;
        for (index, column) in schema
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.presence == Presence::Required)
        {
            if is_missing(&index) || extra.fields.iter().any(|(name, _)| name == column.name) {
                return Err(A::Error::missing_field(column.name));
            }
        }
        // Every reader rejects a port record without a valid GUID.
        if table.name() == TableName::Ports
            && let Some(guid) = table.texts("guid").and_then(|guids| guids.get(row))
            && let Err(error) = guid.parse::<Guid>()
        {
            return Err(A::Error::custom(error));
        }
        let absent = schema
            .columns
            .iter()
            .enumerate()
            .filter(|(index, column)| column.presence == Presence::Always && is_missing(index));
        let absent: Vec<&str> = absent.map(|(_, column)| column.name).collect();
        if let Some(text) = extra.text(&absent).map_err(A::Error::custom)?
            && let Column::Text(texts) = &mut table.columns[schema.extra()]
        {
            texts.ids.fill(Texts::NONE, row);
            texts.push(Some(&text));
        }
        Ok(())
    }
}

impl<'de> Extra<'de> {
    fn put(&mut self, name: Cow<'de, str>, raw: &'de str) {
        self.remove(&name);
        self.fields.push((name, raw));
    }

    fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| known != name);
    }

    /// Returns the value of the column: an object with the fields that have no column, and the
    /// names of the fields that the line lacks.
    fn text(&self, absent: &[&str]) -> Result<Option<String>, serde_json::Error> {
        if self.fields.is_empty() && absent.is_empty() {
            return Ok(None);
        }
        let mut members = Vec::new();
        if !self.fields.is_empty() {
            let field = |(name, raw): &(Cow<'_, str>, &str)| {
                Ok(format!("{}:{raw}", serde_json::to_string(name)?))
            };
            let fields: Vec<String> = self
                .fields
                .iter()
                .map(field)
                .collect::<Result<_, serde_json::Error>>()?;
            members.push(format!("\"fields\":{{{}}}", fields.join(",")));
        }
        if !absent.is_empty() {
            members.push(format!("\"absent\":{}", serde_json::to_string(absent)?));
        }
        Ok(Some(format!("{{{}}}", members.join(","))))
    }
}

/// Adds a JSON value to a column. Returns false if the column cannot represent the value.
fn put(column: &mut Column, kind: Kind, presence: Presence, raw: &str) -> bool {
    if raw == "null" {
        let rows = column.len() + 1;
        if presence == Presence::Always {
            column.fill(rows);
        }
        return presence == Presence::Always;
    }
    match (column, kind) {
        (Column::Integer(integers), Kind::Unsigned(bits)) => {
            let value = unsigned(raw.as_bytes()).filter(|value| bits == 64 || value >> bits == 0);
            value.is_some_and(|value| {
                integers.push(Some(value));
                true
            })
        }
        (Column::Integer(integers), Kind::Signed(bits)) => {
            let value =
                signed(raw.as_bytes()).filter(|value| bits == 64 || i32::try_from(*value).is_ok());
            value.is_some_and(|value| {
                integers.push(Some(value.cast_unsigned()));
                true
            })
        }
        (Column::Float(values), _) => decimal(raw).is_some_and(|value| {
            values.push(value);
            true
        }),
        (Column::Text(texts), Kind::Texts) => {
            let list = serde_json::from_str::<Vec<String>>(raw)
                .and_then(|list| serde_json::to_string(&list));
            list.is_ok_and(|list| {
                texts.push(Some(&list));
                true
            })
        }
        (Column::Text(texts), _) => text(raw).is_some_and(|text| {
            texts.push(Some(&text));
            true
        }),
        (Column::List(lists), _) => integers(raw).is_some_and(|list| {
            lists.push(Some(&list));
            true
        }),
        (Column::Integer(_), _) => false,
    }
}

/// Parses an integer that is written in its shortest form.
fn unsigned(raw: &[u8]) -> Option<u64> {
    let (first, rest) = raw.split_first()?;
    if *first == b'0' && !rest.is_empty() {
        return None;
    }
    raw.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            None
        } else {
            value.checked_mul(10)?.checked_add(u64::from(digit))
        }
    })
}

fn signed(raw: &[u8]) -> Option<i64> {
    match raw.strip_prefix(b"-") {
        Some(digits) => unsigned(digits)
            .filter(|value| *value > 0)
            .and_then(|value| 0_i64.checked_sub_unsigned(value)),
        None => unsigned(raw).and_then(|value| value.try_into().ok()),
    }
}

/// Parses a number that equals a number with six decimals, as a 64-bit floating-point number.
fn decimal(raw: &str) -> Option<f64> {
    // Serde has checked the syntax already, but `f64::from_str` also accepts `inf` and `nan`.
    let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    raw.parse()
        .ok()
        .filter(|value| is_number && millionths(*value).is_some())
}

fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

fn integers(raw: &str) -> Option<Vec<u64>> {
    let inner = raw.strip_prefix('[')?.strip_suffix(']')?.trim_ascii();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner
        .split(',')
        .map(|value| unsigned(value.trim_ascii().as_bytes()))
        .collect()
}
