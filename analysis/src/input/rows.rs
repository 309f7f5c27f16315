//! Builds port records from the rows of an archive.

use std::borrow::Cow;
use std::ops::Range;

use ibnet_record::schema::Kind;
use ibnet_record::types::{Guid, PortNum};
use ibnet_record::{FieldValue, PortField};
use ibnet_store::column::{Column, Integers, Texts};
use ibnet_store::error::StoreError;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::{COUNTERS, DT_SLOTS, MINUTE_RATES, TableName, column_of};
use ibnet_store::table::Table;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::key::Key;
use super::varied::{changes, varied};
use crate::hosts::Hosts;
use crate::record::{Port, ReadPort, Value};

/// Rows of a row group of the table `ports`.
#[derive(Debug)]
pub(super) struct PortRows {
    table: Table,
    /// The parsed GUIDs by their dictionary ids.
    guids: Vec<Option<Guid>>,
    /// Indices of the counter columns that have values.
    counters: Vec<usize>,
    /// Indices of the `GROUP_dt_slots` columns that have values. Only few rows have one.
    slots: Vec<usize>,
    /// Indices of the columns with the max and the percentile of the rates of a minute.
    peaks: Vec<usize>,
    /// Counters that differ between rows: the index in `counters` and the index of the column.
    /// `None` if a row lacks a counter, or has an array.
    varied: Option<Vec<(usize, usize)>>,
    /// Rows in which a string or the port differs from the row before, in ascending order.
    changes: Vec<usize>,
    /// The other fields with values, with the indices of their columns.
    fields: Vec<(PortField, usize)>,
    /// Those of them that are numbers and differ between rows.
    numbers: Vec<(PortField, usize)>,
    /// Whether any row has fields that have no column.
    has_unknown: bool,
}

/// Fields that merging several samplers needs.
const MERGED: [PortField; 10] = [
    PortField::ts,
    PortField::slot,
    PortField::sampler,
    PortField::role,
    PortField::guid,
    PortField::port,
    PortField::status,
    PortField::dt_ns,
    PortField::xmit_blocked,
    PortField::xmit_blocked_dt_ns,
];

/// Field that merging needs if the fold uses counters.
const MERGED_WITH_COUNTERS: PortField = PortField::rtt_ns;

/// Fields that contain the name of a host.
const NAMES: [&str; 2] = [PortField::node.name(), PortField::peer.name()];

/// Returns for each column whether a fold needs it. `fields` are the fields that the fold uses;
/// `None` means all of them.
pub(super) fn columns(
    table: TableName,
    with_counters: bool,
    fields: Option<&[String]>,
) -> Vec<bool> {
    let is_needed = |(index, name): (usize, &str)| {
        let is_merged = MERGED.map(column_of).contains(&index)
            || (with_counters && index == column_of(MERGED_WITH_COUNTERS));
        let is_named =
            fields.is_none_or(|names| is_merged || names.iter().any(|field| field == name));
        if COUNTERS.contains(&index) || DT_SLOTS.contains(&index) {
            with_counters && (is_named || DT_SLOTS.contains(&index))
        } else {
            is_named
        }
    };
    table
        .schema()
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| is_needed((index, column.name)))
        .collect()
}

/// Returns the rows of those ports in a row group that belong to one of the hosts, or are linked
/// to one, in at least one row.
///
/// # Errors
/// Returns an error if the file cannot be read or is damaged.
pub(super) fn of_hosts(
    file: &ArchiveFile,
    group: usize,
    hosts: &Hosts,
) -> Result<Vec<Range<usize>>, StoreError> {
    // The dictionaries show that most row groups have none of the names.
    let mut has_host = false;
    for name in NAMES {
        let names = file.dictionary(group, name)?;
        has_host |= names.is_none_or(|names| names.iter().any(|name| hosts.contains_node(name)));
    }
    if !has_host {
        return Ok(Vec::new());
    }
    let is_read = |name: &str| NAMES.contains(&name) || name == "guid" || name == "port";
    let columns: Vec<bool> = file
        .name()
        .schema()
        .columns
        .iter()
        .map(|column| is_read(column.name))
        .collect();
    let table = file.read(group, &columns)?;
    let texts = NAMES.map(|name| table.texts(name).filter(|texts| !texts.ids.is_empty()));
    let known = texts.map(|texts| {
        texts.map(|texts| {
            texts
                .list()
                .iter()
                .map(|name| hosts.contains_node(name))
                .collect::<Vec<_>>()
        })
    });
    let is_host = |row: usize| {
        texts.iter().zip(&known).any(|(texts, known)| {
            let id = texts
                .and_then(|texts| texts.ids.get(row))
                .map(|id| id as usize);
            known
                .as_ref()
                .zip(id)
                .is_some_and(|(known, id)| known.get(id).is_some_and(|is_host| *is_host))
        })
    };
    let (guids, ports) = (table.texts("guid"), table.integers("port"));
    let port = |row: usize| {
        (
            guids.and_then(|guids| guids.ids.get(row)),
            ports.and_then(|ports| ports.get(row)),
        )
    };
    let mut ranges = Vec::new();
    let (mut start, mut is_selected) = (0, is_host(0));
    // From one of these rows to the next, the port and the names stay the same.
    for row in changes(&table, column_of(PortField::port))
        .into_iter()
        .chain([table.len()])
    {
        if row == table.len() || port(row) != port(row - 1) {
            if is_selected {
                ranges.push(start..row);
            }
            (start, is_selected) = (row, false);
        }
        is_selected |= is_host(row);
    }
    Ok(ranges)
}

impl PortRows {
    /// Prepares rows of the table `ports`.
    pub(super) fn new(table: Table) -> Self {
        let guids = match table.column(column_of(PortField::guid)) {
            Column::Text(texts) => texts.list().iter().map(|text| text.parse().ok()).collect(),
            _ => Vec::new(),
        };
        let [counters, mut slots] = [COUNTERS.clone(), DT_SLOTS.clone()].map(|columns| {
            let with_values = columns.filter(|index| !table.column(*index).is_blank());
            with_values.collect::<Vec<_>>()
        });
        if table.name() == TableName::PortsMinute {
            // They would be those of the last record in each minute.
            slots.clear();
        }
        let varied = varied(&table, &counters);
        let changes = changes(&table, column_of(PortField::port));
        let fields: Vec<(PortField, usize)> = PortField::fixed()
            .map(|field| (field, column_of(field)))
            .filter(|(_, column)| !table.column(*column).is_blank())
            .collect();
        // A column with one value needs no update.
        let is_varied = |(_, column): &(PortField, usize)| match table.column(*column) {
            Column::Integer(integers) => matches!(integers, Integers::Each { .. }),
            column => matches!(column, Column::Float(_)),
        };
        let numbers = fields.iter().copied().filter(is_varied).collect();
        let has_unknown = !table.column(table.schema().extra()).is_blank();
        let peaks = MINUTE_RATES.iter().flat_map(|[_, peaks @ ..]| peaks);
        let peaks = peaks.filter_map(|name| table.schema().index(name));
        let peaks = peaks.filter(|index| !table.column(*index).is_blank());
        Self {
            peaks: peaks.collect(),
            fields,
            numbers,
            has_unknown,
            guids,
            counters,
            slots,
            varied,
            changes,
            table,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn ts(&self, row: usize) -> u64 {
        self.integer(column_of(PortField::ts), row).unwrap_or(0)
    }

    /// Returns the key of a row, or `None` if its GUID is malformed.
    pub(super) fn key(&self, row: usize) -> Option<Key> {
        let guid = self
            .id(PortField::guid, row)
            .and_then(|id| *self.guids.get(id)?)?;
        let port = self
            .integer(column_of(PortField::port), row)
            .and_then(|port| port.try_into().ok());
        Some(Key::of_port(guid, PortNum(port.unwrap_or(0))))
    }

    /// Returns whether two rows belong to one port and one sampler.
    fn is_same_port(&self, a: usize, b: usize) -> bool {
        let port = |row| self.integer(column_of(PortField::port), row);
        [PortField::guid, PortField::sampler]
            .iter()
            .all(|field| self.id(*field, a) == self.id(*field, b))
            && port(a) == port(b)
    }

    pub(super) fn line(&self, row: usize) -> Vec<u8> {
        self.table.line(row)
    }

    /// Returns the next row after `row` in which a string or the port differs, or the number of
    /// rows. For all rows before it, [`update`](Self::update) can make the record from that of
    /// `row`. If the table has unknown fields, this is always the next row.
    pub(super) fn next_change(&self, row: usize) -> usize {
        if self.has_unknown {
            return row + 1;
        }
        let next = self.changes.partition_point(|change| *change <= row);
        self.changes.get(next).copied().unwrap_or(self.len())
    }

    /// Iterates over consecutive rows of one port and one sampler.
    pub(super) fn of_ports(&self) -> impl Iterator<Item = Range<usize>> {
        let is_other = |row: &usize| !self.is_same_port(row - 1, *row);
        let starts = self
            .changes
            .iter()
            .copied()
            .filter(is_other)
            .chain([self.len()]);
        starts
            .scan(0, |start, end| Some(std::mem::replace(start, end)..end))
            .filter(|rows| !rows.is_empty())
    }

    /// Returns whether the rows are one-minute means.
    pub(super) fn are_minutes(&self) -> bool {
        self.table.name() == TableName::PortsMinute
    }

    /// Returns the times of all rows, or `None` if they are all equal.
    pub(super) fn times(&self) -> Option<&[u64]> {
        match self.table.column(column_of(PortField::ts)) {
            Column::Integer(Integers::Each {
                values,
                present: None,
            }) => Some(values),
            _ => None,
        }
    }

    /// Returns the values of a column, or `None` if it was not read or has another type.
    pub(super) fn integers(&self, name: &str) -> Option<&Integers> {
        self.table.integers(name).filter(|_| self.is_read(name))
    }

    /// Returns the values of a column, or `None` if it was not read or has another type.
    pub(super) fn floats(&self, name: &str) -> Option<&[f64]> {
        self.table.floats(name).filter(|_| self.is_read(name))
    }

    fn is_read(&self, name: &str) -> bool {
        self.table
            .schema()
            .index(name)
            .is_some_and(|index| self.table.column(index).len() == self.table.len())
    }

    /// Turns the record of an earlier row with the same strings into the record of this row.
    pub(super) fn update<'a>(&'a self, port: &mut Port<'a>, row: usize) {
        for (field, column) in &self.numbers {
            port.set(*field, self.number(*column, row));
        }
        let Some(varied) = self
            .varied
            .as_ref()
            .filter(|_| port.counters.len() >= self.counters.len())
        else {
            port.counters.clear();
            port.counters.extend(self.values(row));
            return;
        };
        port.counters.truncate(self.counters.len());
        for (place, column) in varied {
            if let Some(value) = self.integer(*column, row) {
                port.counters[*place].1 = Value::One(value);
            }
        }
        let stated = self.slots.iter().filter_map(|column| {
            let name = self.table.schema().columns[*column].name;
            Some((name, Value::One(self.integer(*column, row)?)))
        });
        port.counters.extend(stated);
        port.counters.extend(self.peaks(row));
    }

    /// Returns the max and the percentile of the rates of a minute.
    fn peaks(&self, row: usize) -> impl Iterator<Item = (&str, Value)> {
        self.peaks.iter().filter_map(move |index| {
            let name = self.table.schema().columns[*index].name;
            match self.number(*index, row) {
                FieldValue::Float(value) => Some((name, Value::Real(value))),
                _ => None,
            }
        })
    }

    /// Returns the record of a row.
    ///
    /// # Errors
    /// Returns an error if a value cannot have been measured.
    pub(super) fn record(&self, row: usize) -> Result<Port<'_>, serde_json::Error> {
        let mut fields = ReadPort::without_values(self.values(row).collect());
        for (field, column) in &self.fields {
            fields.set(*field, self.value(*field, *column, row));
        }
        if let Some(extra) = self.text(self.table.schema().extra(), row) {
            add_unknown(extra, &mut fields);
        }
        let mut port = Port::new(fields)?;
        // The previous reading is that of the minute before.
        port.has_gap = self.are_minutes().then_some(false);
        Ok(port)
    }

    fn values(&self, row: usize) -> impl Iterator<Item = (&str, Value)> {
        let value = move |index: &usize| {
            let name = self.table.schema().columns[*index].name;
            match self.table.column(*index) {
                Column::Integer(integers) => {
                    integers.get(row).map(|value| (name, Value::One(value)))
                }
                Column::List(lists) => lists
                    .get(row)
                    .map(|list| (name, Value::Many(list.to_vec()))),
                _ => None,
            }
        };
        let counters = self.counters.iter().chain(&self.slots);
        counters.filter_map(value).chain(self.peaks(row))
    }

    /// Returns the value of a field that is not a counter.
    fn value(&self, field: PortField, column: usize, row: usize) -> FieldValue<'_> {
        match (self.text(column, row), field.kind()) {
            (Some(text), Some(Kind::Texts)) => FieldValue::Texts(list(text)),
            (Some(text), _) => FieldValue::Text(text.into()),
            (None, _) => self.number(column, row),
        }
    }

    fn number(&self, column: usize, row: usize) -> FieldValue<'static> {
        match self.table.column(column) {
            Column::Integer(integers) => integers
                .get(row)
                .map_or(FieldValue::Null, FieldValue::Integer),
            Column::Float(values) => match values.get(row) {
                Some(value) if !value.is_nan() => FieldValue::Float(*value),
                _ => FieldValue::Null,
            },
            Column::Text(_) | Column::List(_) => FieldValue::Null,
        }
    }

    fn integer(&self, column: usize, row: usize) -> Option<u64> {
        match self.table.column(column) {
            Column::Integer(integers) => integers.get(row),
            _ => None,
        }
    }

    fn text(&self, column: usize, row: usize) -> Option<&str> {
        match self.table.column(column) {
            Column::Text(texts) => texts.text(texts.ids.get(row)?),
            _ => None,
        }
    }

    /// Returns the dictionary id of a string.
    fn id(&self, field: PortField, row: usize) -> Option<usize> {
        match self.table.column(column_of(field)) {
            Column::Text(texts) => texts
                .ids
                .get(row)
                .filter(|id| *id != Texts::NONE)
                .map(|id| id as usize),
            _ => None,
        }
    }
}

fn list(json: &str) -> Vec<Cow<'_, str>> {
    serde_json::from_str::<Vec<String>>(json)
        .unwrap_or_default()
        .into_iter()
        .map(Cow::Owned)
        .collect()
}

/// Adds the fields that have no column, if they are numbers.
fn add_unknown<'a>(extra: &'a str, port: &mut ReadPort<'a>) {
    #[derive(serde::Deserialize)]
    struct Extra<'a> {
        #[serde(borrow, default)]
        fields: FxHashMap<&'a str, &'a RawValue>,
    }
    let Ok(Extra { fields }) = serde_json::from_str(extra) else {
        return;
    };
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    for (name, raw) in fields {
        match (name, serde_json::from_str(raw.get())) {
            // The version that wrote the archive did not have the field.
            (name, Ok(Value::One(value))) if let Some(field) = PortField::named(name) => {
                port.set(field, FieldValue::Integer(value));
            }
            (_, Ok(Value::Other) | Err(_)) => {}
            (_, Ok(value)) => port.counters.push((name, value)),
        }
    }
}
