//! Compresses the records of one sampler about one port, and reads them back.
//!
//! A chunk has up to [`ROWS`] records, column by column. Fields that rarely change, such as the
//! name of the node and its peer, form the *identity* of the chunk and are stored once; when one of
//! them changes, a new chunk begins. Reading a record back returns the same record, with two
//! exceptions: unknown fields are lost if their value is neither a non-negative integer nor a
//! non-empty array of them, and counters and statuses with new names are lost once the table of
//! names is full.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use ibnet_analysis::record::{Port, ReadPort, Value};
use ibnet_record::schema::Kind;
use ibnet_record::types::{Guid, PortNum};
use ibnet_record::{Change, FieldValue, PortField, Role, is_dt_slots_field};
use rustc_hash::FxHashSet;

use super::column::{Order, Values, code_of, value_of};
use super::names::Names;
use super::table::{Key, Packed, Table};

/// Max number of records in a chunk.
pub(crate) const ROWS: u32 = 60;

/// Returns the fields that differ between the records of a chunk, in the order of the columns.
fn fields() -> impl ExactSizeIterator<Item = PortField> {
    static FIELDS: LazyLock<Vec<PortField>> = LazyLock::new(|| {
        let all = PortField::fixed();
        all.filter(|field| field.change() == Change::Slot).collect()
    });
    FIELDS.iter().copied()
}

/// Returns the fields of the identity, which a chunk stores once.
fn shared() -> impl Iterator<Item = PortField> {
    static SHARED: LazyLock<Vec<PortField>> = LazyLock::new(|| {
        let all = PortField::fixed();
        let is_shared = |field: &PortField| matches!(field.change(), Change::Link | Change::Rare);
        all.filter(is_shared).collect()
    });
    SHARED.iter().copied()
}

fn order(key: Key) -> Order {
    if [PortField::ts, PortField::slot]
        .map(|field| Key::field(field as u16))
        .contains(&key)
    {
        Order::Even
    } else {
        Order::Same
    }
}

/// Returns the number that stands for a value in a column.
fn code(value: FieldValue<'_>, names: &mut Arc<Names>) -> Option<u64> {
    match value {
        FieldValue::Null => None,
        FieldValue::Integer(value) => Some(value),
        FieldValue::Float(value) => Some(code_of(value)),
        FieldValue::Guid(guid) => Some(guid.0),
        FieldValue::Text(text) => Names::number(names, &text).map(u64::from),
        FieldValue::Texts(texts) if texts.is_empty() => None,
        FieldValue::Texts(texts) => Names::number(names, &texts.join(",")).map(u64::from),
    }
}

/// Returns the value that a number in a column stands for.
fn value(field: PortField, code: u64, names: &Names) -> FieldValue<'_> {
    let text = || u16::try_from(code).map_or("", |number| names.text(number));
    match field.kind() {
        Some(Kind::Float) => FieldValue::Float(value_of(code)),
        Some(Kind::Text) => FieldValue::Text(text().into()),
        Some(Kind::Texts) => FieldValue::Texts(text().split(',').map(Cow::Borrowed).collect()),
        _ => FieldValue::Integer(code),
    }
}

/// Returns a record that has only the fields of the identity.
fn identity(port: &ReadPort<'_>) -> ReadPort<'static> {
    let mut identity = ReadPort::without_values(Vec::new());
    shared().for_each(|field| identity.set(field, port.get(field).into_owned()));
    identity
}

/// The newest records, which are not compact yet.
#[derive(Clone, Debug)]
pub(crate) struct OpenChunk {
    identity: Arc<ReadPort<'static>>,
    /// Size of the identity in bytes. 0 if a closed chunk counts it.
    identity_octets: usize,
    table: Table,
    span: Option<(u64, u64)>,
    last_ts: u64,
}

/// Compact records.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    identity: Arc<ReadPort<'static>>,
    /// Size of the identity in bytes. 0 if an earlier chunk of the port counts it.
    identity_octets: usize,
    packed: Packed,
    /// Min and max `ts`.
    pub(crate) span: (u64, u64),
}

/// Counters to read back.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// All counters.
    All,
    /// The counters with these names, and the slots since the last reading of each counter group.
    Named(FxHashSet<String>),
}

impl Wanted {
    pub(crate) fn named(counters: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::Named(counters.into_iter().map(Into::into).collect())
    }
}

impl OpenChunk {
    pub(crate) fn new(port: &ReadPort<'_>) -> Self {
        let identity = identity(port);
        let octets = |field| {
            if let FieldValue::Text(text) = identity.get(field) {
                text.len()
            } else {
                0
            }
        };
        let identity_octets = size_of_val(&identity) + shared().map(octets).sum::<usize>();
        Self {
            identity_octets,
            identity: Arc::new(identity),
            table: Table::default(),
            span: None,
            last_ts: 0,
        }
    }

    /// Returns whether a record has the identity of the chunk.
    pub(crate) fn is_of(&self, port: &ReadPort<'_>) -> bool {
        shared().all(|field| self.identity.get(field) == port.get(field))
    }

    pub(crate) const fn rows(&self) -> u32 {
        self.table.rows()
    }

    pub(crate) fn octets(&self) -> usize {
        self.table.octets() + self.identity_octets
    }

    pub(crate) const fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// Adds a record. Its identity must be the one of the chunk. Counters with new names are left
    /// out if the table of names is full.
    pub(crate) fn add(&mut self, port: &ReadPort<'_>, names: &mut Arc<Names>) {
        let since = port.ts.wrapping_sub(self.last_ts);
        let mut hint = 0;
        for field in fields() {
            let code = match field {
                // Usually 0.
                PortField::dt_ns => port.dt_ns.map(|dt_ns| dt_ns.wrapping_sub(since)),
                _ => code(port.get(field), names),
            };
            let key = Key::field(field as u16);
            hint = self.table.put(hint, key, order(key), code) + 1;
        }
        for (name, value) in &port.counters {
            // The counters of a port have the same order in each record.
            let expected = self
                .table
                .key(hint)
                .and_then(Key::as_counter)
                .map(|(number, _)| number);
            let number = match expected.filter(|number| names.text(*number) == *name) {
                Some(number) => number,
                None => match Names::number(names, name) {
                    Some(number) => number,
                    None => continue,
                },
            };
            match value {
                Value::One(value) => {
                    hint =
                        self.table
                            .put(hint, Key::counter(number, None), Order::Same, Some(*value))
                            + 1;
                }
                Value::Many(values) => {
                    for (element, value) in (0..u16::MAX).zip(values) {
                        hint = self.table.put(
                            hint,
                            Key::counter(number, Some(element)),
                            Order::Same,
                            Some(*value),
                        ) + 1;
                    }
                }
                Value::Real(_) | Value::Other => {}
            }
        }
        self.table.end_row();
        self.last_ts = port.ts;
        let (from, to) = self.span.unwrap_or((port.ts, port.ts));
        self.span = Some((from.min(port.ts), to.max(port.ts)));
    }

    /// Returns the compact form, or `None` without records.
    pub(crate) fn pack(&self) -> Option<Chunk> {
        Some(Chunk {
            identity: Arc::clone(&self.identity),
            identity_octets: 0,
            packed: self.table.pack(),
            span: self.span?,
        })
    }

    /// Returns the compact form and removes the records, but keeps the columns and their memory.
    /// Returns `None` without records.
    pub(crate) fn close(&mut self) -> Option<Chunk> {
        let span = self.span.take()?;
        self.last_ts = 0;
        let identity_octets = std::mem::take(&mut self.identity_octets);
        Some(Chunk {
            identity: Arc::clone(&self.identity),
            identity_octets,
            packed: self.table.close(),
            span,
        })
    }
}

impl OpenChunk {
    pub(crate) fn release(&mut self) {
        self.table = Table::default();
    }
}

impl Chunk {
    /// Returns the size on the heap in bytes. Of the chunks that share an identity, only the first
    /// counts it.
    pub(crate) fn octets(&self) -> usize {
        size_of::<Self>() + self.packed.octets() + self.identity_octets
    }

    /// Appends the records since a time, in nanoseconds since 1970, to a list. `make` makes an
    /// element of the list.
    pub(crate) fn read<'a, R>(
        &'a self,
        of: Of<'a>,
        names: &'a Names,
        (wanted, since): (&Wanted, u64),
        make: impl Fn(Port<'a>) -> R,
        to: &mut Vec<R>,
    ) {
        // The elements of an array are next to each other.
        let mut last = (None, true);
        let is_wanted = |key: Key| {
            let name = key.as_counter().map(|(name, _)| name);
            if last.0 != name {
                let is_wanted = |name| match wanted {
                    Wanted::All => true,
                    Wanted::Named(wanted) => wanted.contains(name) || is_dt_slots_field(name),
                };
                let text = name.map(|name| names.text(name));
                last = (name, text.is_none_or(is_wanted));
            }
            last.1
        };
        let mut columns = self.packed.columns(order, is_wanted);
        // Fields always come first, in their order.
        let place_of_ts = fields().position(|field| field == PortField::ts);
        let Some(place_of_ts) = place_of_ts.filter(|_| columns.len() >= fields().len()) else {
            return;
        };
        let mut counters = columns.split_off(fields().len());
        let mut codes: Vec<Option<u64>> = Vec::with_capacity(columns.len());
        let mut last_ts = 0_u64;
        let mut same = ReadPort {
            sampler: Cow::Borrowed(of.sampler),
            role: of
                .is_secondary
                .then_some(Cow::Borrowed(Role::Secondary.as_str())),
            guid: of.guid,
            port: of.port,
            ..ReadPort::without_values(Vec::new())
        };
        shared().for_each(|field| same.set(field, self.identity.get(field)));
        for row in 0..self.packed.rows {
            codes.clear();
            codes.extend(columns.iter_mut().map(|(_, values)| values.next_value()));
            let ts = codes[place_of_ts].unwrap_or(0);
            let before = std::mem::replace(&mut last_ts, ts);
            // Making a record costs more than reading its numbers.
            if ts < since {
                for (_, values) in &mut counters {
                    values.next_value();
                }
                continue;
            }
            let mut port = same.clone();
            port.counters = read_counters(&mut counters, names);
            for (field, code) in fields().zip(&codes) {
                if let Some(code) = *code {
                    port.set(field, value(field, code, names));
                }
            }
            let passed = port.ts.wrapping_sub(before);
            port.dt_ns = port.dt_ns.map(|dt_ns| dt_ns.wrapping_add(passed));
            // Those that follow are usually not older.
            to.reserve((self.packed.rows - row) as usize);
            // The values were checked when the record was added.
            if let Ok(port) = Port::new(port) {
                to.push(make(port));
            }
        }
    }
}

/// Reads the counters of the next record.
fn read_counters<'a>(columns: &mut [(Key, Values<'_>)], names: &'a Names) -> Vec<(&'a str, Value)> {
    let mut counters: Vec<(&str, Value)> = Vec::with_capacity(columns.len().min(64));
    for (key, values) in columns {
        let (Some(value), Some((name, element))) = (values.next_value(), key.as_counter()) else {
            continue;
        };
        let name = names.text(name);
        if element.is_none() {
            counters.push((name, Value::One(value)));
            continue;
        }
        match counters.iter_mut().rev().find(|(known, _)| *known == name) {
            Some((_, Value::Many(values))) => values.push(value),
            _ => counters.push((name, Value::Many(vec![value]))),
        }
    }
    counters
}

/// Fields that all chunks of one sampler and port share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) sampler: &'a str,
    pub(crate) is_secondary: bool,
    pub(crate) guid: Guid,
    pub(crate) port: PortNum,
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::record::{Record, Type};

    use super::*;

    const LINE: &str = r#"{"type":"port","ts":TS,"slot":SLOT,"sampler":"s1","role":"secondary","guid":"0x00000000000000ab","port":2,"lid":9,"node":"n\u001b","kind":"switch","hops":3,"peer_guid":"0x0000000000000001","peer_port":4,"peer":"p","link":"4xEDR","link_source":"live","mtu":4096,"vls":4,"status":"ok","rtt_ns":51234,"rtt_min_ns":40000,"mads":3,"mad_status":28,"errno":-5,"identity":"ok","port_xmit_data_bytes":BYTES,"port_xmit_pkts":18446744073709551615,"port_vl_op_packets":[1,2,BYTES],"saturated":["port_xmit_pkts","port_rcv_errors"],"dt_ns":1000000123,"xmit_gbps":1.234567,"rcv_gbps":0,"xmit_utilization":0.012346,"rcv_utilization":null,"xmit_blocked":0.333333333333,"xmit_blocked_dt_ns":5000000000}"#;

    fn line(number: u64) -> String {
        let ts = 1_700_000_000_000_000_000 + number * 1_000_000_123;
        LINE.replace("TS", &ts.to_string())
            .replace("SLOT", &(1_700_000_000 + number).to_string())
            .replace("BYTES", &(number * 7).to_string())
    }

    fn parsed(line: &str) -> Port<'_> {
        let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else {
            panic!("a port record")
        };
        port
    }

    fn read_back(lines: &[String], wanted: &Wanted, check: impl FnOnce(Vec<Port<'_>>)) -> usize {
        let mut names = Arc::default();
        let mut open = OpenChunk::new(&parsed(&lines[0]));
        lines
            .iter()
            .for_each(|line| open.add(&parsed(line), &mut names));
        let chunk = open.pack().expect("records");
        let mut read = Vec::new();
        chunk.read(
            Of {
                sampler: "s1",
                is_secondary: true,
                guid: Guid(0xab),
                port: PortNum(2),
            },
            &names,
            (wanted, 0),
            |port| port,
            &mut read,
        );
        check(read);
        chunk.octets()
    }

    #[test]
    fn each_identity_counts_once() {
        let mut names = Arc::default();
        let named = |number: u64, name: &str| line(number).replace("n\\u001b", &name.repeat(1000));
        let octets = [named(0, "a"), named(1, "b")].map(|text| {
            let mut open = OpenChunk::new(&parsed(&text));
            let mut close = || {
                open.add(&parsed(&text), &mut names);
                open.close().expect("a record").octets()
            };
            [close(), close()]
        });
        for [first, second] in octets {
            assert!(
                first > 1000 + second && second < 1000,
                "{first} and {second}"
            );
        }
    }

    #[test]
    fn records_are_read_as_they_were_added() {
        let mut lines: Vec<String> = (0..30).map(line).collect();
        // A reset, a record without an answer, a new counter, and a shorter array.
        lines.push(line(2));
        lines.push(
            line(40)
                .replace(r#""dt_ns":1000000123"#, r#""dt_ns":null"#)
                .replace(r#""status":"ok""#, r#""status":"timeout""#),
        );
        lines.push(line(41).replace(r#""saturated":["#, r#""port_rcv_errors":3,"saturated":["#));
        lines.push(
            line(42)
                .replace("[1,2,", "[")
                .replace(r#""port_xmit_data_bytes":294,"#, ""),
        );
        let octets = read_back(&lines, &Wanted::All, |read| {
            let expected: Vec<_> = lines.iter().map(|line| parsed(line)).collect();
            // The answer about a port is tested with the fields that the line lacks.
            let is_null = |field: &PortField| {
                LINE.contains(&format!("\"{}\":", field.name()))
                    && expected[0].get(*field) == FieldValue::Null
            };
            assert_eq!(
                PortField::fixed().filter(is_null).collect::<Vec<_>>(),
                [PortField::rcv_utilization]
            );
            for (read, expected) in read.iter().zip(&expected) {
                let mut counters = read.counters.clone();
                counters.sort_by_key(|(name, _)| *name);
                let mut wanted = expected.counters.clone();
                wanted.sort_by_key(|(name, _)| *name);
                assert_eq!(counters, wanted);
                for field in PortField::fixed() {
                    assert_eq!(read.get(field), expected.get(field), "{}", field.name());
                }
                assert_eq!(
                    (read.time, read.blocked_time),
                    (expected.time, expected.blocked_time)
                );
            }
            assert_eq!(read.len(), expected.len());
        });
        assert!(
            octets < lines.iter().map(String::len).sum::<usize>() / 20,
            "{octets}"
        );
    }

    #[test]
    fn counters_that_are_not_wanted_are_left_out() {
        let lines: Vec<String> = (0..3).map(line).collect();
        read_back(&lines, &Wanted::named(["port_vl_op_packets"]), |read| {
            assert_eq!(
                read[2].counters,
                [("port_vl_op_packets", Value::Many(vec![1, 2, 14]))]
            );
        });
        read_back(&lines, &Wanted::Named(FxHashSet::default()), |read| {
            assert!(read.iter().all(|port| port.counters.is_empty()));
        });
    }
}
