//! Port records from the rows of an archive.

use std::borrow::Cow;

use ibnet::types::{Guid, Lid, NodeKind, PortNum};
use ibnet_store::column::{Column, Integers, Texts};
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::key::Key;
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
    /// Numbers of the text columns whose rows have different texts.
    texts: Vec<usize>,
    /// Numbers of the other columns whose rows have different values.
    integers: Vec<(usize, SetInteger)>,
    floats: Vec<(usize, SetFloat)>,
    /// Whether a row has fields without a column.
    has_unknown: bool,
}

/// Sets a field of a record.
type SetInteger = fn(&mut Port<'_>, Option<u64>);
type SetFloat = fn(&mut Port<'_>, Option<f64>);

const INTEGERS: [(&str, SetInteger); 11] = [
    ("slot", |port, slot| port.slot = slot.unwrap_or(0)),
    ("lid", |port, lid| port.lid = Lid(small(lid).unwrap_or(0))),
    ("hops", |port, hops| port.hops = small(hops)),
    ("peer_port", |port, number| port.peer_port = small(number).and_then(|number| u8::try_from(number).ok()).map(PortNum)),
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

/// Numbers of the columns.
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
const MERGED: [&str; 11] =
    ["ts", "slot", "sampler", "role", "guid", "port", "status", "rtt_ns", "dt_ns", "xmit_blocked", "xmit_blocked_dt_ns"];

/// Returns a mark for each column that a fold needs. `fields` are the names of its fields; `None`
/// means all of them.
pub(super) fn columns(with_counters: bool, fields: Option<&[String]>) -> Vec<bool> {
    let at = Columns::new();
    let is_needed = |(index, name): (usize, &str)| {
        let is_named = fields.is_none_or(|names| MERGED.contains(&name) || names.iter().any(|field| field == name));
        is_named && (with_counters || !at.is_counter(index))
    };
    TableName::Ports.schema().columns.iter().enumerate().map(|(index, column)| is_needed((index, column.name))).collect()
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
        let counters = (0..table.schema().columns.len()).filter(has_values).collect();
        let is_varied = |index: &usize| match table.column(*index) {
            Column::Text(texts) => texts.ids.first().is_some_and(|first| texts.ids.iter().any(|id| id != first)),
            _ => false,
        };
        let texts = (0..table.schema().columns.len()).filter(is_varied).collect();
        let schema = table.schema();
        let index = |name: &str| schema.index(name).unwrap_or(0);
        // A column with a single value needs no update.
        let is_each = |(column, _): &(usize, SetInteger)| matches!(table.column(*column), Column::Integer(Integers::Each { .. }));
        let integers = INTEGERS.map(|(name, set)| (index(name), set)).into_iter().filter(is_each).collect();
        let floats = FLOATS.map(|(name, set)| (index(name), set)).into_iter().filter(|(column, _)| !table.column(*column).is_blank());
        let floats = floats.collect();
        let has_unknown = !table.column(schema.extra()).is_blank();
        let (guids, peer_guids) = (guids(at.guid), guids(at.peer_guid));
        Self { integers, floats, has_unknown, at, guids, peer_guids, kinds, counters, texts, table }
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
    pub(super) fn is_same_port(&self, a: usize, b: usize) -> bool {
        let Columns { guid, port, sampler, .. } = self.at;
        self.id(guid, a) == self.id(guid, b) && self.integer(port, a) == self.integer(port, b) && self.id(sampler, a) == self.id(sampler, b)
    }

    /// Returns the row as a line.
    pub(super) fn line(&self, row: usize) -> Vec<u8> {
        self.table.line(row)
    }

    /// Returns whether two rows have the same texts, so that [`update`](Self::update) makes the record
    /// of one from that of the other. Rows with unknown fields are never the same.
    pub(super) fn has_same_texts(&self, a: usize, b: usize) -> bool {
        let is_same = |column: &usize| match self.table.column(*column) {
            Column::Text(texts) => texts.ids.get(a) == texts.ids.get(b),
            _ => false,
        };
        !self.has_unknown && self.texts.iter().all(is_same)
    }

    /// Makes the record of a row from the record of a row with the same texts.
    pub(super) fn update<'a>(&'a self, port: &mut Port<'a>, row: usize) {
        port.ts = self.ts(row);
        self.integers.iter().for_each(|(column, set)| set(port, self.integer(*column, row)));
        self.floats.iter().for_each(|(column, set)| set(port, self.float(*column, row)));
        port.counters.clear();
        port.counters.extend(self.values(row));
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
            peer_port: small(at.peer_port).and_then(|port| u8::try_from(port).ok()).map(PortNum),
            peer: optional(at.peer),
            link: text(at.link),
            link_source: text(at.link_source),
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
        PortNum(self.integer(self.at.port, row).and_then(|port| u8::try_from(port).ok()).unwrap_or(0))
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
            Column::Text(texts) => texts.text(*texts.ids.get(row)?),
            _ => None,
        }
    }

    /// Returns the number of a text among the texts of its column.
    fn id(&self, column: usize, row: usize) -> Option<usize> {
        match self.table.column(column) {
            Column::Text(texts) => texts.ids.get(row).filter(|id| **id != Texts::NONE).map(|id| *id as usize),
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
        match serde_json::from_str(raw.get()) {
            Ok(Value::Other) | Err(_) => {}
            Ok(value) => port.counters.push((name, value)),
        }
    }
}
