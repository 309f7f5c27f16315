//! Port records from the rows of an archive.

use std::borrow::Cow;
use std::ops::Range;

use ibnet::types::{Guid, Lid, NodeKind, PortNum};
use ibnet_store::column::{Column, Integers, Texts};
use ibnet_store::error::StoreError;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::key::Key;
use super::varied::{changes, varied};
use crate::hosts::Hosts;
use crate::record::{Port, ReadPort, Value};

/// Rows of a row group with port records.
#[derive(Debug)]
pub(super) struct PortRows {
    table: Table,
    at: Columns,
    /// Values of the texts that are no texts in a record, by the numbers of the texts.
    guids: Vec<Option<Guid>>,
    peer_guids: Vec<Option<Guid>>,
    kinds: Vec<Option<NodeKind>>,
    /// Numbers of the counter columns that have values.
    counters: Vec<usize>,
    /// Counters that differ between rows: the place among `counters` and the number of the column.
    /// `None` if a row lacks a counter, or has a list of values.
    varied: Option<Vec<(usize, usize)>>,
    /// Numbers of the rows of which a text or the port differs from the row before, in order.
    changes: Vec<usize>,
    /// Numbers of the other columns whose rows have different values.
    integers: Vec<(usize, SetInteger)>,
    floats: Vec<(usize, SetFloat)>,
    /// Whether a row has fields without a column.
    has_unknown: bool,
}

/// Sets a field of a record.
type SetInteger = fn(&mut Port<'_>, Option<u64>);
type SetFloat = fn(&mut Port<'_>, Option<f64>);

const INTEGERS: [(&str, SetInteger); 13] = [
    ("slot", |port, slot| port.slot = slot.unwrap_or(0)),
    ("lid", |port, lid| port.lid = Lid(small(lid).unwrap_or(0))),
    ("hops", |port, hops| port.hops = small(hops)),
    ("peer_port", |port, number| port.peer_port = tiny(number).map(PortNum)),
    ("mtu", |port, mtu| port.mtu = small(mtu)),
    ("vls", |port, vls| port.vls = tiny(vls)),
    ("rtt_ns", |port, rtt_ns| port.rtt_ns = rtt_ns.unwrap_or(0)),
    ("rtt_min_ns", |port, rtt_min_ns| port.rtt_min_ns = rtt_min_ns),
    ("mads", |port, mads| port.mads = mads.unwrap_or(0)),
    ("mad_status", |port, status| port.mad_status = small(status)),
    ("errno", |port, errno| port.errno = errno.and_then(|errno| i32::try_from(errno.cast_signed()).ok())),
    ("dt_ns", |port, dt_ns| port.dt_ns = dt_ns),
    ("xmit_blocked_dt_ns", |port, dt_ns| port.xmit_blocked_dt_ns = dt_ns),
];

const FLOATS: [(&str, SetFloat); 5] = [
    ("xmit_gbps", |port, value| port.xmit_gbps = value),
    ("rcv_gbps", |port, value| port.rcv_gbps = value),
    ("xmit_utilization", |port, value| port.xmit_utilization = value),
    ("rcv_utilization", |port, value| port.rcv_utilization = value),
    ("xmit_blocked", |port, value| port.xmit_blocked = value),
];

fn small(value: Option<u64>) -> Option<u16> {
    value.and_then(|value| u16::try_from(value).ok())
}

fn tiny(value: Option<u64>) -> Option<u8> {
    value.and_then(|value| u8::try_from(value).ok())
}

/// Numbers of the columns. `ports` and `ports_1m` have the same columns in the same places, and
/// `ports_1m` has more columns after them.
#[derive(Clone, Copy, Debug)]
struct Columns {
    ts: usize,
    slot: usize,
    sampler: usize,
    role: usize,
    guid: usize,
    port: usize,
    lid: usize,
    node: usize,
    kind: usize,
    hops: usize,
    peer_guid: usize,
    peer_port: usize,
    peer: usize,
    link: usize,
    link_source: usize,
    mtu: usize,
    vls: usize,
    status: usize,
    rtt_ns: usize,
    rtt_min_ns: usize,
    mads: usize,
    mad_status: usize,
    errno: usize,
    identity: usize,
    saturated: usize,
    dt_ns: usize,
    xmit_gbps: usize,
    rcv_gbps: usize,
    xmit_utilization: usize,
    rcv_utilization: usize,
    xmit_blocked: usize,
    xmit_blocked_dt_ns: usize,
}

impl Columns {
    fn new() -> Self {
        let at = |name: &str| TableName::Ports.schema().index(name).unwrap_or(0);
        Self {
            ts: at("ts"),
            slot: at("slot"),
            sampler: at("sampler"),
            role: at("role"),
            guid: at("guid"),
            port: at("port"),
            lid: at("lid"),
            node: at("node"),
            kind: at("kind"),
            hops: at("hops"),
            peer_guid: at("peer_guid"),
            peer_port: at("peer_port"),
            peer: at("peer"),
            link: at("link"),
            link_source: at("link_source"),
            mtu: at("mtu"),
            vls: at("vls"),
            status: at("status"),
            rtt_ns: at("rtt_ns"),
            rtt_min_ns: at("rtt_min_ns"),
            mads: at("mads"),
            mad_status: at("mad_status"),
            errno: at("errno"),
            identity: at("identity"),
            saturated: at("saturated"),
            dt_ns: at("dt_ns"),
            xmit_gbps: at("xmit_gbps"),
            rcv_gbps: at("rcv_gbps"),
            xmit_utilization: at("xmit_utilization"),
            rcv_utilization: at("rcv_utilization"),
            xmit_blocked: at("xmit_blocked"),
            xmit_blocked_dt_ns: at("xmit_blocked_dt_ns"),
        }
    }

    /// Returns whether a column is a counter: the columns from `identity` to `saturated`.
    const fn is_counter(&self, index: usize) -> bool {
        self.identity < index && index < self.saturated
    }
}

/// Fields that the merging of several samplers uses.
const MERGED: [&str; 10] = ["ts", "slot", "sampler", "role", "guid", "port", "status", "dt_ns", "xmit_blocked", "xmit_blocked_dt_ns"];

/// Field that the merging uses if the fold uses counters.
const MERGED_WITH_COUNTERS: &str = "rtt_ns";

/// Fields that show to which host a port belongs.
const NAMES: [&str; 2] = ["node", "peer"];

/// Returns a mark for each column that a fold needs. `fields` are the names of its fields; `None`
/// means all of them.
pub(super) fn columns(table: TableName, with_counters: bool, fields: Option<&[String]>) -> Vec<bool> {
    let at = Columns::new();
    let is_needed = |(index, name): (usize, &str)| {
        let is_merged = MERGED.contains(&name) || (with_counters && name == MERGED_WITH_COUNTERS);
        let is_named = fields.is_none_or(|names| is_merged || names.iter().any(|field| field == name));
        is_named && (with_counters || !at.is_counter(index))
    };
    table.schema().columns.iter().enumerate().map(|(index, column)| is_needed((index, column.name))).collect()
}

/// Returns all rows of the ports of a row group that belong to one of the hosts, or are linked to one
/// of them, in at least one row.
///
/// # Errors
/// Returns an error if the file cannot be read or is damaged.
pub(super) fn of_hosts(file: &ArchiveFile, group: usize, hosts: &Hosts) -> Result<Vec<Range<usize>>, StoreError> {
    // Most row groups have none of the names, which their dictionaries show.
    let mut has_host = false;
    for name in NAMES {
        let names = file.dictionary(group, name)?;
        has_host |= names.is_none_or(|names| names.iter().any(|name| hosts.contains_node(name)));
    }
    if !has_host {
        return Ok(Vec::new());
    }
    let is_read = |name: &str| NAMES.contains(&name) || name == "guid" || name == "port";
    let columns: Vec<bool> = file.name().schema().columns.iter().map(|column| is_read(column.name)).collect();
    let table = file.read(group, &columns)?;
    let texts = NAMES.map(|name| table.texts(name).filter(|texts| !texts.ids.is_empty()));
    let known = texts.map(|texts| texts.map(|texts| texts.list().iter().map(|name| hosts.contains_node(name)).collect::<Vec<_>>()));
    let is_host = |row: usize| {
        texts.iter().zip(&known).any(|(texts, known)| {
            let id = texts.and_then(|texts| texts.ids.get(row)).map(|id| id as usize);
            known.as_ref().zip(id).is_some_and(|(known, id)| known.get(id).is_some_and(|is_host| *is_host))
        })
    };
    let (guids, ports) = (table.texts("guid"), table.integers("port"));
    let port = |row: usize| (guids.and_then(|guids| guids.ids.get(row)), ports.and_then(|ports| ports.get(row)));
    let mut ranges = Vec::new();
    let (mut start, mut is_selected) = (0, is_host(0));
    // Between two of these rows, all rows have the same port and the same names.
    for row in changes(&table, Columns::new().port).into_iter().chain([table.len()]) {
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
        let at = Columns::new();
        let guids = |column: usize| match table.column(column) {
            Column::Text(texts) => texts.list().iter().map(|text| text.parse().ok()).collect(),
            _ => Vec::new(),
        };
        let kind = |text: &str| [NodeKind::Switch, NodeKind::Hca, NodeKind::Router].into_iter().find(|kind| kind.as_str() == text);
        let kinds = match table.column(at.kind) {
            Column::Text(texts) => texts.list().iter().map(|text| kind(text)).collect(),
            _ => Vec::new(),
        };
        let has_values = |index: &usize| at.is_counter(*index) && !table.column(*index).is_blank();
        let counters: Vec<usize> = (0..table.schema().columns.len()).filter(has_values).collect();
        let varied = varied(&table, &counters);
        let changes = changes(&table, at.port);
        let schema = table.schema();
        let index = |name: &str| schema.index(name).unwrap_or(0);
        // A column with a single value needs no update.
        let is_each = |(column, _): &(usize, SetInteger)| matches!(table.column(*column), Column::Integer(Integers::Each { .. }));
        let integers = INTEGERS.map(|(name, set)| (index(name), set)).into_iter().filter(is_each).collect();
        let floats = FLOATS.map(|(name, set)| (index(name), set)).into_iter().filter(|(column, _)| !table.column(*column).is_blank());
        let floats = floats.collect();
        let has_unknown = !table.column(schema.extra()).is_blank();
        let (guids, peer_guids) = (guids(at.guid), guids(at.peer_guid));
        Self { integers, floats, has_unknown, at, guids, peer_guids, kinds, counters, varied, changes, table }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn ts(&self, row: usize) -> u64 {
        self.integer(self.at.ts, row).unwrap_or(0)
    }

    /// Returns the key of a row, or `None` if its GUID is malformed.
    pub(super) fn key(&self, row: usize) -> Option<Key> {
        let guid = self.id(self.at.guid, row).and_then(|id| *self.guids.get(id)?)?;
        Some(Key::of_port(guid, self.port(row)))
    }

    /// Returns whether two rows belong to one port and one sampler.
    fn is_same_port(&self, a: usize, b: usize) -> bool {
        let Columns { guid, port, sampler, .. } = self.at;
        self.id(guid, a) == self.id(guid, b) && self.integer(port, a) == self.integer(port, b) && self.id(sampler, a) == self.id(sampler, b)
    }

    /// Returns the row as a line.
    pub(super) fn line(&self, row: usize) -> Vec<u8> {
        self.table.line(row)
    }

    /// Returns the number of the next row after `row` with another text or port, or the number of rows.
    /// [`update`](Self::update) makes the record of any row before it from the record of `row`. A row
    /// of a table with unknown fields has no such rows.
    pub(super) fn next_change(&self, row: usize) -> usize {
        if self.has_unknown {
            return row + 1;
        }
        let next = self.changes.partition_point(|change| *change <= row);
        self.changes.get(next).copied().unwrap_or(self.len())
    }

    /// Returns consecutive rows of one port and one sampler.
    pub(super) fn of_ports(&self) -> impl Iterator<Item = Range<usize>> {
        let is_other = |row: &usize| !self.is_same_port(row - 1, *row);
        let starts = self.changes.iter().copied().filter(is_other).chain([self.len()]);
        starts.scan(0, |start, end| Some(std::mem::replace(start, end)..end)).filter(|rows| !rows.is_empty())
    }

    /// Returns whether the rows are one-minute means.
    pub(super) fn are_minutes(&self) -> bool {
        self.table.name() == TableName::PortsMinute
    }

    /// Returns the times of all rows, or `None` if all rows have the same time.
    pub(super) fn times(&self) -> Option<&[u64]> {
        match self.table.column(self.at.ts) {
            Column::Integer(Integers::Each { values, present: None }) => Some(values),
            _ => None,
        }
    }

    /// Returns the numbers of a column, or `None` if the column was not read or has other values.
    pub(super) fn integers(&self, name: &str) -> Option<&Integers> {
        self.table.integers(name).filter(|_| self.is_read(name))
    }

    /// Returns the numbers of a column, or `None` if the column was not read or has other values.
    pub(super) fn floats(&self, name: &str) -> Option<&[f64]> {
        self.table.floats(name).filter(|_| self.is_read(name))
    }

    fn is_read(&self, name: &str) -> bool {
        self.table.schema().index(name).is_some_and(|index| self.table.column(index).len() == self.table.len())
    }

    /// Makes the record of a row from the record of a row with the same texts.
    pub(super) fn update<'a>(&'a self, port: &mut Port<'a>, row: usize) {
        port.ts = self.ts(row);
        self.integers.iter().for_each(|(column, set)| set(port, self.integer(*column, row)));
        self.floats.iter().for_each(|(column, set)| set(port, self.float(*column, row)));
        let Some(varied) = self.varied.as_ref().filter(|_| port.counters.len() == self.counters.len()) else {
            port.counters.clear();
            port.counters.extend(self.values(row));
            return;
        };
        for (place, column) in varied {
            if let Some(value) = self.integer(*column, row) {
                port.counters[*place].1 = Value::One(value);
            }
        }
    }

    /// Returns the record of a row.
    ///
    /// # Errors
    /// Returns an error if a value cannot have been measured.
    pub(super) fn record(&self, row: usize) -> Result<Port<'_>, serde_json::Error> {
        let Self { at, .. } = self;
        let text = |column| Cow::Borrowed(self.text(column, row).unwrap_or_default());
        let optional = |column| self.text(column, row).map(Cow::Borrowed);
        let id = |column| self.id(column, row);
        let small = |column| small(self.integer(column, row));
        let mut fields = ReadPort {
            ts: self.ts(row),
            slot: self.integer(at.slot, row).unwrap_or(0),
            sampler: text(at.sampler),
            role: optional(at.role),
            guid: id(at.guid).and_then(|id| *self.guids.get(id)?).unwrap_or_default(),
            port: self.port(row),
            lid: Lid(small(at.lid).unwrap_or(0)),
            node: text(at.node),
            kind: id(at.kind).and_then(|id| *self.kinds.get(id)?),
            hops: small(at.hops),
            peer_guid: id(at.peer_guid).and_then(|id| *self.peer_guids.get(id)?),
            peer_port: tiny(self.integer(at.peer_port, row)).map(PortNum),
            peer: optional(at.peer),
            link: text(at.link),
            link_source: text(at.link_source),
            mtu: small(at.mtu),
            vls: tiny(self.integer(at.vls, row)),
            status: text(at.status),
            rtt_ns: self.integer(at.rtt_ns, row).unwrap_or(0),
            rtt_min_ns: self.integer(at.rtt_min_ns, row),
            mads: self.integer(at.mads, row).unwrap_or(0),
            mad_status: small(at.mad_status),
            errno: self.integer(at.errno, row).and_then(|errno| i32::try_from(errno.cast_signed()).ok()),
            identity: text(at.identity),
            counters: self.values(row).collect(),
            saturated: self.text(at.saturated, row).map(list).unwrap_or_default(),
            dt_ns: self.integer(at.dt_ns, row),
            xmit_gbps: self.float(at.xmit_gbps, row),
            rcv_gbps: self.float(at.rcv_gbps, row),
            xmit_utilization: self.float(at.xmit_utilization, row),
            rcv_utilization: self.float(at.rcv_utilization, row),
            xmit_blocked: self.float(at.xmit_blocked, row),
            xmit_blocked_dt_ns: self.integer(at.xmit_blocked_dt_ns, row),
        };
        if let Some(extra) = self.text(self.table.schema().extra(), row) {
            add_unknown(extra, &mut fields);
        }
        Port::new(fields)
    }

    fn values(&self, row: usize) -> impl Iterator<Item = (&str, Value)> {
        let value = move |index: &usize| {
            let name = self.table.schema().columns[*index].name;
            match self.table.column(*index) {
                Column::Integer(integers) => integers.get(row).map(|value| (name, Value::One(value))),
                Column::List(lists) => lists.get(row).map(|list| (name, Value::Many(list.to_vec()))),
                _ => None,
            }
        };
        self.counters.iter().filter_map(value)
    }

    fn port(&self, row: usize) -> PortNum {
        PortNum(tiny(self.integer(self.at.port, row)).unwrap_or(0))
    }

    fn integer(&self, column: usize, row: usize) -> Option<u64> {
        match self.table.column(column) {
            Column::Integer(integers) => integers.get(row),
            _ => None,
        }
    }

    fn float(&self, column: usize, row: usize) -> Option<f64> {
        match self.table.column(column) {
            Column::Float(values) => values.get(row).copied().filter(|value| !value.is_nan()),
            _ => None,
        }
    }

    fn text(&self, column: usize, row: usize) -> Option<&str> {
        match self.table.column(column) {
            Column::Text(texts) => texts.text(texts.ids.get(row)?),
            _ => None,
        }
    }

    /// Returns the number of a text among the texts of its column.
    fn id(&self, column: usize, row: usize) -> Option<usize> {
        match self.table.column(column) {
            Column::Text(texts) => texts.ids.get(row).filter(|id| *id != Texts::NONE).map(|id| id as usize),
            _ => None,
        }
    }
}

fn list(json: &str) -> Vec<Cow<'_, str>> {
    serde_json::from_str::<Vec<String>>(json).unwrap_or_default().into_iter().map(Cow::Owned).collect()
}

/// Adds the numbers of fields that have no column.
fn add_unknown<'a>(extra: &'a str, port: &mut ReadPort<'a>) {
    #[derive(serde::Deserialize)]
    struct Extra<'a> {
        #[serde(borrow, default)]
        fields: FxHashMap<&'a str, &'a RawValue>,
    }
    let Ok(Extra { fields }) = serde_json::from_str(extra) else { return };
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    for (name, raw) in fields {
        match (name, serde_json::from_str(raw.get())) {
            // Earlier versions had no columns for these fields.
            ("mtu", Ok(Value::One(mtu))) => port.mtu = small(Some(mtu)),
            ("vls", Ok(Value::One(vls))) => port.vls = tiny(Some(vls)),
            (_, Ok(Value::Other) | Err(_)) => {}
            (_, Ok(value)) => port.counters.push((name, value)),
        }
    }
}
