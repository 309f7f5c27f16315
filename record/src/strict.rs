//! The strict reader. It accepts exactly the records that this version writes.
//!
//! An unknown field, a missing field or an unknown word is an error. Tests use this reader to check
//! that `docs/records.md` describes everything that is written. Programs that read records of other
//! versions use [`reader`](super::reader).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::sync::LazyLock;

use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Error, Value as Json};

use super::physical::{PhysicalKind, PhysicalRecord, ReadValues};
use super::port::{PortFields, ReadCounters, WriteCounters};
use super::{EventName, HistogramKind, Identity, LinkSource, Role, RoutesTable, fields, physical};
use crate::attributes::Group;
use crate::status::Status;
use crate::types::{DATA_VLS, MTUS};

/// A record of any type.
#[derive(Clone, PartialEq, Debug)]
pub enum Line {
    /// First record of a stream.
    Start(Start),
    /// One port in one slot.
    Port(Box<Port>),
    /// Sums of a slot.
    Sweep(Sweep),
    /// Distribution of durations.
    Histogram(Histogram),
    /// Event.
    Event(Event),
    /// The physical layer of a port, of its module or of a switch.
    Physical(Physical),
    /// Part of a forwarding table.
    Routes(Routes),
}

/// A `start` record.
pub type Start = fields::Start<String>;

/// A `port` record with its counters by name.
pub type Port = PortFields<String, BTreeMap<String, Value>>;

/// A `sweep` record.
pub type Sweep = fields::SweepRecord<String>;

/// A `histogram` record.
pub type Histogram = fields::HistogramRecord<String>;

/// An `event` record.
pub type Event = fields::EventRecord<String>;

/// A `routes` record.
pub type Routes = fields::RoutesRecord<String>;

/// A `phy`, `module` or `sensors` record.
pub type Physical = PhysicalRecord<String, ReadValues>;

/// Value of a counter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A single value.
    One(u64),
    /// One value for each SL, VL or lane.
    Many(Vec<u64>),
}

impl Port {
    /// Returns a counter that has a single value, or `None` if the record does not have it.
    pub fn counter(&self, name: &str) -> Option<u64> {
        match self.counters.get(name) {
            Some(Value::One(value)) => Some(*value),
            _ => None,
        }
    }
}

impl<'de> ReadCounters<'de> for BTreeMap<String, Value> {
    fn empty(_: bool) -> Self {
        Self::new()
    }

    fn read<A: MapAccess<'de>>(
        &mut self,
        name: Cow<'de, str>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let Some(declared) = values_of(&name) else {
            return Err(A::Error::custom(format_args!("unknown field `{name}`")));
        };
        let value = map.next_value()?;
        let found = if let Value::Many(values) = &value {
            values.len()
        } else {
            1
        };
        if found != declared {
            return Err(A::Error::custom(format_args!(
                "`{name}` has {found} values, expected {declared}"
            )));
        }
        self.insert(name.into_owned(), value);
        Ok(())
    }
}

impl WriteCounters for BTreeMap<String, Value> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.iter()
            .try_for_each(|(name, value)| map.serialize_entry(name, value))
    }
}

/// Returns the number of values of a counter, or `None` if no group has it.
fn values_of(name: &str) -> Option<usize> {
    static DECLARED: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
        let fields = Group::ALL.into_iter().flat_map(Group::fields);
        let counters = fields.map(|field| (field.json, usize::from(field.len)));
        counters
            .chain(Group::ALL.map(|group| (group.dt_slots_field(), 1)))
            .collect()
    });
    DECLARED.get(name).copied()
}

/// Reads a record.
///
/// # Errors
/// Returns an error if this version does not write such a record.
pub fn parse(line: &str) -> Result<Line, Error> {
    let found: Fields = serde_json::from_str(line)?;
    match found.0.get("type").and_then(Json::as_str) {
        Some("start") => {
            let record: Start = exact(line, &found)?;
            word("role", Role::named, &record.role)?;
            present("mads_per_slot", record.mads_per_slot)?;
            present("clock_ns", record.clock_ns)?;
            Ok(Line::Start(record))
        }
        Some("port") => {
            let record: Port = exact(line, &found)?;
            if let Some(role) = &record.role {
                word(
                    "role of a port",
                    |role| Role::named(role).filter(|role| *role == Role::Secondary),
                    role,
                )?;
            }
            word("status", Status::named, &record.status)?;
            word("link source", LinkSource::named, &record.link_source)?;
            word("identity", Identity::named, &record.identity)?;
            number("MTU", record.mtu, &MTUS)?;
            number("number of VLs", record.vls, &DATA_VLS)?;
            number("MTU", record.mtu_cap, &MTUS)?;
            number("number of VLs", record.vl_cap, &DATA_VLS)?;
            present("kind", record.kind)?;
            Ok(Line::Port(Box::new(record)))
        }
        Some("sweep") => {
            let record: Sweep = exact(line, &found)?;
            word("role", Role::named, &record.role)?;
            Ok(Line::Sweep(record))
        }
        Some("histogram") => {
            let record: Histogram = exact(line, &found)?;
            word("role", Role::named, &record.role)?;
            word("histogram", HistogramKind::named, &record.kind)?;
            present("clock_ns", record.clock_ns)?;
            present("mean_ns", record.mean_ns)?;
            Ok(Line::Histogram(record))
        }
        Some("event") => {
            let record: Event = exact(line, &found)?;
            word("role", Role::named, &record.role)?;
            word("event", EventName::named, &record.event)?;
            Ok(Line::Event(record))
        }
        Some("routes") => {
            let record: Routes = exact(line, &found)?;
            word("table", RoutesTable::named, &record.table)?;
            Ok(Line::Routes(record))
        }
        Some(other) => {
            let Some(kind) = PhysicalKind::named(other) else {
                return Err(Error::custom(format_args!("unknown record `{other}`")));
            };
            let record: Physical = exact(line, &found)?;
            let known = physical::columns(kind);
            let is_known = |name: &String| known.iter().any(|known| known.name == name);
            match record.values.keys().find(|name| !is_known(name)) {
                Some(name) => Err(Error::custom(format_args!("unknown field `{name}`"))),
                None => Ok(Line::Physical(record)),
            }
        }
        None => Err(Error::missing_field("type")),
    }
}

/// Rejects a word that has no variant.
fn word<T>(what: &str, named: impl Fn(&str) -> Option<T>, word: &str) -> Result<(), Error> {
    named(word).map_or_else(
        || Err(Error::custom(format_args!("unknown {what} `{word}`"))),
        |_| Ok(()),
    )
}

/// Rejects a number that is not in the list.
fn number<T: PartialEq + Display>(
    what: &str,
    number: Option<T>,
    numbers: &[T],
) -> Result<(), Error> {
    let unknown = number.filter(|number| !numbers.contains(number));
    unknown.map_or(Ok(()), |number| {
        Err(Error::custom(format_args!("unknown {what} {number}")))
    })
}

/// Returns an error if a field is missing or null that this version always writes. The tolerant
/// reader accepts lines without it.
fn present<T>(field: &'static str, value: Option<T>) -> Result<(), Error> {
    value.map(drop).ok_or_else(|| Error::missing_field(field))
}

/// Reads a record and checks that writing it again gives the same fields with the same values.
fn exact<T: DeserializeOwned + Serialize>(line: &str, found: &Fields) -> Result<T, Error> {
    let record: T = serde_json::from_str(line)?;
    let written = serde_json::to_value(&record)?;
    let written = written
        .as_object()
        .ok_or_else(|| Error::custom("a record is a JSON object"))?;
    for (name, value) in &found.0 {
        match written.get(name) {
            Some(expected) if expected == value => {}
            Some(expected) => {
                return Err(Error::custom(format_args!(
                    "`{name}` is {value}, expected {expected}"
                )));
            }
            None => return Err(Error::custom(format_args!("unknown field `{name}`"))),
        }
    }
    match written.keys().find(|name| !found.0.contains_key(*name)) {
        Some(name) => Err(Error::custom(format_args!("missing field `{name}`"))),
        None => Ok(record),
    }
}

/// The fields of a JSON object. A field may occur only once.
struct Fields(BTreeMap<String, Json>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a record")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Json>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    fields.insert(name, value);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"type":"event","ts":1,"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","event":"reset","guid":null,"port":null,"lid":null,"detail":""}"#;

    const PORT: &str = r#"{"type":"port","ts":7,"slot":3,"sampler":"a","role":"secondary","guid":"0x00000000000000ab","port":2,"lid":9,"node":"n\u001b","kind":"switch","hops":null,"peer_guid":"0x0000000000000001","peer_port":4,"peer":"p","link":"4xEDR","link_source":"live","mtu":4096,"vls":8,"status":"ok","rtt_ns":5,"rtt_min_ns":4,"mads":1,"mad_status":4,"errno":-1,"identity":"ok","port_xmit_pkts":18446744073709551615,"saturated":["port_rcv_errors"],"dt_ns":1,"xmit_gbps":1.5,"rcv_gbps":0.0,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":0.5,"xmit_blocked_dt_ns":2}"#;

    /// Checks that the line is rejected with this message after a change.
    #[track_caller]
    fn rejected(line: &str, from: &str, to: &str, message: &str) {
        let changed = line.replace(from, to);
        assert_ne!(changed, line);
        let error = parse(&changed)
            .expect_err("the line is not one of this version")
            .to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn unknown_words_and_fields_are_rejected() {
        assert!(parse(EVENT).is_ok());
        rejected(EVENT, "reset", "resett", "unknown event `resett`");
        rejected(EVENT, "primary", "first", "unknown role `first`");
        rejected(
            EVENT,
            "\"detail\"",
            "\"details\"",
            "unknown field `details`",
        );
        rejected(
            EVENT,
            "\"event\",\"ts",
            "\"evnt\",\"ts",
            "unknown record `evnt`",
        );
        rejected(EVENT, "\"type\":\"event\",", "", "missing field `type`");
        rejected(EVENT, "\"guid\":null,", "", "missing field `guid`");
        rejected(
            EVENT,
            "\"slot\":1",
            "\"slot\":1,\"slot\":1",
            "duplicate field `slot`",
        );
    }

    #[test]
    fn port_record_is_read_with_its_counters() {
        let Ok(Line::Port(port)) = parse(PORT) else {
            panic!("{:?}", parse(PORT))
        };
        assert_eq!(
            (port.counter("port_xmit_pkts"), port.mad_status, port.errno),
            (Some(u64::MAX), Some(4), Some(-1))
        );
        assert_eq!((port.mtu, port.vls), (Some(4096), Some(8)));
        assert_eq!(
            (&*port.node, &port.saturated[..]),
            ("n\u{1b}", &["port_rcv_errors".to_owned()][..])
        );
    }

    #[test]
    fn port_record_is_rejected_unless_every_field_is_as_written() {
        rejected(PORT, "\"live\"", "\"guess\"", "unknown link source `guess`");
        rejected(PORT, "\"mtu\":4096", "\"mtu\":1500", "unknown MTU 1500");
        rejected(PORT, "\"vls\":8", "\"vls\":9", "unknown number of VLs 9");
        rejected(PORT, "\"mtu\":4096", "\"mtu\":null", "`mtu`");
        assert!(
            parse(&PORT.replace(",\"mtu\":4096,\"vls\":8", "")).is_ok(),
            "PortInfo was not read"
        );
        rejected(PORT, "\"switch\"", "\"gateway\"", "`kind` is \"gateway\"");
        rejected(
            PORT,
            "\"secondary\"",
            "\"primary\"",
            "unknown role of a port `primary`",
        );
        rejected(PORT, "\"rtt_min_ns\":4,", "", "missing field `rtt_min_ns`");
        rejected(
            PORT,
            "\"ok\",\"rtt",
            "\"fine\",\"rtt",
            "unknown status `fine`",
        );
        rejected(
            PORT,
            "port_xmit_pkts",
            "port_xmit_pkt",
            "unknown field `port_xmit_pkt`",
        );
        rejected(
            PORT,
            "18446744073709551615",
            "[1,2]",
            "`port_xmit_pkts` has 2 values, expected 1",
        );
        rejected(
            PORT,
            "[\"port_rcv_errors\"]",
            "[]",
            "unknown field `saturated`",
        );
        rejected(PORT, ",\"dt_ns\":1", "", "missing field `dt_ns`");
        rejected(
            PORT,
            "\"rcv_gbps\":0.0",
            "\"rcv_gbps\":0",
            "`rcv_gbps` is 0, expected 0.0",
        );
        rejected(PORT, "0x00000000000000ab", "0xab", "");
    }
}
