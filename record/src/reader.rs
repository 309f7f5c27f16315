//! The tolerant reader. It is fast, and can read records of other versions.
//!
//! This reader skips unknown fields and accepts missing ones. `docs/records.md` requires this of
//! readers. The other reader, [`strict`](super::strict), rejects lines with unknown or missing
//! fields. The strings of a port record are borrowed from the line unless they contain escapes.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

pub use super::interval::Interval;
use super::physical::{PhysicalKind, PhysicalRecord, ReadValues};
use super::port::{PortFields, PortVisitor, ReadCounters};
use super::{Role, fields};
use crate::status::{Says, Status};
use crate::types::{Guid, PortNum};

/// A record of any type.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all records are port records: a box would cost an allocation for each of them"
)]
pub enum Record<'a> {
    /// First record of a stream.
    Start(Start<'a>),
    /// One port in one slot.
    Port(Port<'a>),
    /// Sums of a slot.
    Sweep(Sweep<'a>),
    /// Distribution of durations.
    Histogram(Histogram<'a>),
    /// Event.
    Event(Event<'a>),
    /// The physical layer of a port, of its module or of a switch.
    Physical(Box<Physical<'a>>),
    /// Part of a forwarding table.
    Routes(Routes<'a>),
}

/// A `start` record.
pub type Start<'a> = fields::Start<Cow<'a, str>>;

/// The fields of a `port` record with its counters in the order of the line.
pub type ReadPort<'a> = PortFields<Cow<'a, str>, Vec<(&'a str, Value)>>;

/// A `port` record and the time that it describes. Its fields are those of [`PortFields`].
///
/// If two recordings contain the same port, their records can describe overlapping times. A reader
/// that merges recordings shortens the times, so that they do not overlap.
#[derive(Clone, PartialEq, Debug)]
pub struct Port<'a> {
    fields: ReadPort<'a>,
    /// The time that the rates of sent and received data describe. `None` without these rates.
    pub time: Option<Interval>,
    /// The time that `xmit_blocked` describes. `None` without this value.
    pub blocked_time: Option<Interval>,
    /// Whether the record is at an edge of the selected time range. Such a record has only
    /// counters. It does not count as a record of the port.
    pub is_edge: bool,
    /// For counters that were interpolated at an edge: whether a reply was lost between the two
    /// readings. Their rate is then not known. False for the last counters of a minute. `None` for
    /// other counters that were read.
    pub has_gap: Option<bool>,
}

/// A `sweep` record.
pub type Sweep<'a> = fields::SweepRecord<Cow<'a, str>>;

/// A `histogram` record.
pub type Histogram<'a> = fields::HistogramRecord<Cow<'a, str>>;

/// An `event` record.
pub type Event<'a> = fields::EventRecord<Cow<'a, str>>;

/// A `routes` record.
pub type Routes<'a> = fields::RoutesRecord<Cow<'a, str>>;

/// A `phy`, `module`, `sensors` or `planes` record.
pub type Physical<'a> = PhysicalRecord<Cow<'a, str>, ReadValues>;

words! {
    /// Type of a record.
    pub enum Type {
        /// First record of a stream.
        Start = "start",
        /// One port in one slot.
        Port = "port",
        /// Sums of a slot.
        Sweep = "sweep",
        /// Distribution of durations.
        Histogram = "histogram",
        /// Event.
        Event = "event",
        /// Physical layer of a port.
        Phy = "phy",
        /// Module of a port.
        Module = "module",
        /// Sensors of a switch.
        Sensors = "sensors",
        /// One plane of a port.
        Planes = "planes",
        /// Part of a forwarding table.
        Routes = "routes",
    }
}

impl Physical<'_> {
    /// Returns the type of the record.
    pub fn kind(&self) -> Type {
        Type::named(&self.head.kind).unwrap_or(Type::Phy)
    }
}

impl From<PhysicalKind> for Type {
    fn from(kind: PhysicalKind) -> Self {
        match kind {
            PhysicalKind::Phy => Self::Phy,
            PhysicalKind::Module => Self::Module,
            PhysicalKind::Sensors => Self::Sensors,
            PhysicalKind::Planes => Self::Planes,
        }
    }
}

/// Value of a field that is not one of the fixed fields.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A single counter value.
    One(u64),
    /// One counter value for each SL, VL or lane.
    Many(Vec<u64>),
    /// A negative or fractional number, which no counter of this version has.
    Real(f64),
    /// Any other value. Such fields are not kept.
    Other,
}

/// Largest values that a port record can have. A record with a larger, negative or infinite value
/// is malformed. A single such value would make every sum and every picture useless.
pub mod limits {
    /// Gb/s. The engine writes at most 4800: twice the data rate of 12xXDR.
    pub const GBPS: f64 = 10_000.0;
    /// Share of the data rate of the link. The engine writes at most 2.
    pub const UTILIZATION: f64 = 4.0;
    /// Nanoseconds between two readings: one day.
    pub const INTERVAL_NS: u64 = 86_400_000_000_000;
}

/// First fields of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Type of the record. `None` for a type that this version does not have.
    pub kind: Option<Type>,
    /// Time of the record, in nanoseconds since 1970 (UTC).
    pub ts: u64,
    /// Number of the slot, if it follows the time. `None` in any other layout.
    pub slot: Option<u64>,
}

impl Head {
    /// Reads type and time of a line, and skips the other fields.
    ///
    /// # Errors
    /// Returns an error if the line is not a JSON object with `type` and `ts`.
    pub fn of(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct AnyOrder<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            ts: u64,
        }
        if let Some(head) = Self::of_written(line) {
            return Ok(head);
        }
        let AnyOrder { r#type, ts } = serde_json::from_slice(line)?;
        Ok(Self {
            kind: Type::named(&r#type),
            ts,
            slot: None,
        })
    }

    /// Reads a line in the layout of ibnet-sweep, `{"type":"port","ts":1,...}`. Returns `None` for
    /// any other layout.
    ///
    /// Only the beginning and the last character are checked.
    pub fn of_written(line: &[u8]) -> Option<Self> {
        let rest = line
            .strip_prefix(br#"{"type":""#)
            .filter(|rest| rest.ends_with(b"}"))?;
        let (kind, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let (ts, rest) = number(rest.strip_prefix(br#"","ts":"#)?)?;
        let slot = rest.strip_prefix(br#","slot":"#).and_then(number);
        Some(Self {
            kind: std::str::from_utf8(kind).ok().and_then(Type::named),
            ts,
            slot: slot.map(|(slot, _)| slot),
        })
    }
}

/// Reads a number that is followed by another field or by the end, and returns the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    matches!(text.get(digits), Some(b',' | b'}')).then_some((number, &text[digits..]))
}

/// First fields of a port record. They are sufficient to sort the records of all ports without
/// parsing the other fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortHead {
    /// Port GUID.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
}

impl PortHead {
    /// Reads the key of a port record.
    ///
    /// # Errors
    /// Returns an error if the line has no `guid` or no `port`.
    pub fn of(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct AnyOrder {
            guid: Guid,
            port: PortNum,
        }
        if let Some(head) = Self::of_written(line) {
            return Ok(head);
        }
        let AnyOrder { guid, port } = serde_json::from_slice(line)?;
        Ok(Self { guid, port })
    }

    /// Reads a line in the layout of ibnet-sweep: `guid` and `port` follow the first strings.
    /// Returns `None` for any other layout.
    fn of_written(line: &[u8]) -> Option<Self> {
        /// Octets in which the key is expected.
        const HEAD: usize = 256;
        const DIGITS: usize = 18;
        let head = &line[..line.len().min(HEAD)];
        let key = br#","guid":""#;
        let at = memchr::memmem::find(head, key)? + key.len();
        let (guid, rest) = head.get(at..)?.split_at_checked(DIGITS)?;
        let rest = rest.strip_prefix(br#"","port":"#)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let port = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        Some(Self {
            guid: std::str::from_utf8(guid).ok()?.parse().ok()?,
            port: PortNum(port),
        })
    }
}

impl<'a> Record<'a> {
    /// Reads a line of this type.
    ///
    /// # Errors
    /// Returns an error if the line is not a record of this type.
    pub fn parse(line: &'a [u8], kind: Type) -> Result<Self, serde_json::Error> {
        let text = utf8(line)?;
        Ok(match kind {
            Type::Start => Self::Start(serde_json::from_str(text)?),
            Type::Port => Self::Port(Port::new(serde_json::from_str(text)?)?),
            Type::Sweep => Self::Sweep(serde_json::from_str(text)?),
            Type::Histogram => Self::Histogram(serde_json::from_str(text)?),
            Type::Event => Self::Event(serde_json::from_str(text)?),
            Type::Phy | Type::Module | Type::Sensors | Type::Planes => {
                Self::Physical(serde_json::from_str(text)?)
            }
            Type::Routes => Self::Routes(serde_json::from_str(text)?),
        })
    }

    /// Reads a port record without its counters. This is faster than [`parse`](Self::parse).
    ///
    /// # Errors
    /// Returns an error if the line is not a port record.
    pub fn parse_without_counters(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut json = serde_json::Deserializer::from_str(utf8(line)?);
        let port = json.deserialize_map(PortVisitor::new(false))?;
        json.end()?;
        Ok(Self::Port(Port::new(port)?))
    }
}

/// Checks the whole line for UTF-8 at once. This is faster than a check of each string.
fn utf8(line: &[u8]) -> Result<&str, serde_json::Error> {
    std::str::from_utf8(line).map_err(serde_json::Error::custom)
}

impl<'a> Deref for Port<'a> {
    type Target = ReadPort<'a>;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl DerefMut for Port<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.fields
    }
}

impl<'a> Port<'a> {
    /// Checks the values of a record and determines the time that it describes.
    ///
    /// # Errors
    /// Returns an error if a value cannot have been measured: see [`limits`].
    pub fn new(fields: ReadPort<'a>) -> Result<Self, serde_json::Error> {
        let mut port = Self {
            time: None,
            blocked_time: None,
            is_edge: false,
            has_gap: None,
            fields,
        };
        port.check()?;
        Ok(port)
    }

    /// Checks the values after a change of the fields, and determines the time that the record
    /// describes.
    ///
    /// # Errors
    /// Returns an error if a value cannot have been measured: see [`limits`].
    pub fn check(&mut self) -> Result<(), serde_json::Error> {
        let Self { fields, .. } = self;
        let rates = [fields.xmit_gbps, fields.rcv_gbps].map(|value| (value, limits::GBPS));
        let shares = [fields.xmit_utilization, fields.rcv_utilization]
            .map(|value| (value, limits::UTILIZATION));
        let all = rates
            .into_iter()
            .chain(shares)
            .chain([(fields.xmit_blocked, 1.0)]);
        for (value, most) in all.filter_map(|(value, most)| Some((value?, most))) {
            // The range excludes NaN.
            if !(0.0..=most).contains(&value) {
                return Err(serde_json::Error::custom(format_args!(
                    "a rate is {value:e}, outside of 0 to {most}"
                )));
            }
        }
        for length in [fields.dt_ns, fields.xmit_blocked_dt_ns]
            .into_iter()
            .flatten()
        {
            if length > limits::INTERVAL_NS {
                return Err(serde_json::Error::custom(format_args!(
                    "an interval has {length} ns, more than a day"
                )));
            }
        }
        let blocked_dt_ns = fields
            .xmit_blocked
            .and_then(|_| fields.xmit_blocked_dt_ns.or(fields.dt_ns));
        self.time = Interval::ending_at(fields.ts, fields.dt_ns);
        self.blocked_time = Interval::ending_at(fields.ts, blocked_dt_ns);
        Ok(())
    }

    /// Returns whether the second sampler of the port wrote the record.
    pub fn is_secondary(&self) -> bool {
        self.role.as_deref().and_then(Role::named) == Some(Role::Secondary)
    }

    /// Returns a counter that has a single value, or `None` if the record does not have it.
    pub fn counter(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::One(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a counter, or `None` if the record does not have it.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.counters
            .iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// Returns whether a counter is saturated: its true value is at least the recorded one.
    pub fn is_saturated(&self, name: &str) -> bool {
        self.saturated.iter().any(|saturated| saturated == name)
    }

    /// Returns whether the device replied in this slot, in time or late.
    pub fn answered(&self) -> bool {
        self.status().is_some_and(Status::is_answered)
    }

    /// Returns the status, or `None` for a status that this version does not have.
    pub fn status(&self) -> Option<Status> {
        Status::named(&self.status)
    }

    /// Returns what the record says about the device.
    pub fn says(&self) -> Says {
        self.status().map_or(Says::Nothing, Status::says)
    }
}

impl<'de> ReadCounters<'de> for Vec<(&'de str, Value)> {
    fn empty(will_read: bool) -> Self {
        /// The default groups have 36 counters.
        const COUNTERS: usize = 40;
        Self::with_capacity(if will_read { COUNTERS } else { 0 })
    }

    fn read<A: MapAccess<'de>>(
        &mut self,
        name: Cow<'de, str>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match (map.next_value()?, name) {
            (Value::Other, _) | (_, Cow::Owned(_)) => {}
            (value, Cow::Borrowed(name)) => self.push((name, value)),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::One(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Real(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Real(value))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        /// Service levels, and data VLs with VL 15. A list that grows is allocated several times.
        const ELEMENTS: usize = 16;
        let (mut values, mut are_numbers) = (Vec::with_capacity(ELEMENTS), true);
        while let Some(value) = seq.next_element()? {
            match value {
                Value::One(value) => values.push(value),
                _ => are_numbers = false,
            }
        }
        Ok(if are_numbers {
            Value::Many(values)
        } else {
            Value::Other
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Lid, NodeKind};

    const PORT: &str = r#"{"type":"port","ts":7,"slot":3,"sampler":"a","role":"secondary","guid":"0x00000000000000ab","port":2,"lid":9,"node":"n\u001b","kind":"switch","hops":null,"peer_guid":"0x0000000000000001","peer_port":4,"peer":"p","link":"4xEDR","link_source":"live","status":"ok","rtt_ns":5,"rtt_min_ns":4,"mads":1,"identity":"ok","port_xmit_pkts":18446744073709551615,"port_vl_op_packets":[1,2],"saturated":["port_rcv_errors"],"dt_ns":1,"xmit_gbps":1.5,"rcv_gbps":0,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":0.5,"xmit_blocked_dt_ns":2}"#;

    fn port(line: &str) -> Port<'_> {
        let head = Head::of(line.as_bytes()).unwrap();
        assert_eq!(head.kind, Some(Type::Port));
        let Record::Port(port) = Record::parse(line.as_bytes(), Type::Port).unwrap() else {
            panic!("a port")
        };
        // In another layout, the head has no slot.
        let slot = Head::of_written(line.as_bytes()).map(|_| port.slot);
        assert_eq!((head.ts, head.slot), (port.ts, slot));
        port
    }

    #[test]
    fn port_record_is_read() {
        let port = port(PORT);
        assert_eq!(
            (port.key(), port.lid, port.kind),
            ((Guid(0xab), PortNum(2)), Lid(9), Some(NodeKind::Switch))
        );
        assert_eq!(
            (&*port.node, port.hops, port.peer_guid),
            ("n\u{1b}", None, Some(Guid(1)))
        );
        assert_eq!(
            (port.xmit_gbps, port.rcv_gbps, port.xmit_blocked),
            (Some(1.5), Some(0.0), Some(0.5))
        );
        assert_eq!(
            (
                port.role.as_deref(),
                port.rtt_min_ns,
                port.xmit_blocked_dt_ns
            ),
            (Some("secondary"), Some(4), Some(2))
        );
        assert_eq!(
            port.counter("port_xmit_pkts"),
            Some(u64::MAX),
            "u64 is read without rounding"
        );
        assert_eq!(
            port.value("port_vl_op_packets"),
            Some(&Value::Many(vec![1, 2]))
        );
        assert!(port.is_saturated("port_rcv_errors") && !port.is_saturated("port_xmit_pkts"));
    }

    #[test]
    fn key_of_a_port_is_read_in_any_layout() {
        let expected = PortHead {
            guid: Guid(0xab),
            port: PortNum(2),
        };
        for line in [
            PORT.to_owned(),
            PORT.replace("\":", "\": "),
            r#"{"port":2,"guid":"0x00000000000000ab"}"#.to_owned(),
        ] {
            assert_eq!(PortHead::of(line.as_bytes()).unwrap(), expected, "{line}");
        }
        assert!(PortHead::of(br#"{"type":"port","ts":1}"#).is_err());
    }

    #[test]
    fn port_record_without_counters_has_the_same_fixed_fields() {
        let Record::Port(brief) = Record::parse_without_counters(PORT.as_bytes()).unwrap() else {
            panic!("a port")
        };
        let mut whole = port(PORT);
        whole.counters.clear();
        assert_eq!(brief, whole);
        assert!(Record::parse_without_counters(&PORT.as_bytes()[..PORT.len() - 1]).is_err());
        assert!(
            Record::parse_without_counters([PORT.as_bytes(), b"}"].concat().as_slice()).is_err()
        );
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let later = PORT.replace(
            r#""mads":1"#,
            r#""mads":1,"new":{"a":[{}]},"newer":["x",null],"newest":true,"minus":-1,"why":"so""#,
        );
        assert_eq!(port(&later).counters.len(), port(PORT).counters.len() + 1);
        assert_eq!(port(&later).value("minus"), Some(&Value::Real(-1.0)));
        assert_eq!(port(&later.replace("switch", "gateway")).kind, None);
        assert_eq!(
            Head::of(br#"{"type":"weather","ts":1,"x":{}}"#).unwrap(),
            Head {
                kind: None,
                ts: 1,
                slot: None
            }
        );
    }

    #[test]
    fn records_of_earlier_versions_lack_some_fields() {
        let earlier = PORT
            .replace(r#""role":"secondary","#, "")
            .replace(r#""rtt_min_ns":4,"#, "")
            .replace(r#","xmit_blocked_dt_ns":2"#, "");
        let mut expected = port(PORT);
        (
            expected.role,
            expected.rtt_min_ns,
            expected.xmit_blocked_dt_ns,
        ) = (None, None, None);
        expected.blocked_time = expected.time;
        assert_eq!(port(&earlier), expected);
    }

    #[test]
    fn blanks_and_another_order_are_accepted() {
        let spaced = PORT
            .replace(r#""type":"port","#, "")
            .replace(r#"{"ts":7"#, r#"{ "ts": 7, "type" : "port""#);
        assert_eq!(port(&spaced), port(PORT));
    }

    #[test]
    fn values_that_cannot_be_measured_are_rejected() {
        for (found, written) in [
            (r#""xmit_gbps":1.5"#, r#""xmit_gbps":1e308"#),
            (r#""xmit_gbps":1.5"#, r#""xmit_gbps":1e999"#),
            (r#""rcv_gbps":0"#, r#""rcv_gbps":-1"#),
            (r#""xmit_utilization":null"#, r#""xmit_utilization":5"#),
            (r#""xmit_blocked":0.5"#, r#""xmit_blocked":1.5"#),
            (r#""dt_ns":1"#, r#""dt_ns":18446744073709551615"#),
            (
                r#""xmit_blocked_dt_ns":2"#,
                r#""xmit_blocked_dt_ns":86400000000001"#,
            ),
        ] {
            let line = PORT.replace(found, written);
            assert!(
                line != PORT && Record::parse(line.as_bytes(), Type::Port).is_err(),
                "{written}"
            );
        }
    }

    #[test]
    fn times_of_data_and_of_blocked_share_end_with_the_record() {
        let port = port(PORT);
        assert_eq!(
            (port.time, port.blocked_time),
            (Interval::new(6, 7), Interval::new(5, 7))
        );
        assert!(port.is_secondary() && !port.is_edge);
    }

    #[test]
    fn other_lines_are_rejected() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"type":"port"}"#,
            r#"{"type":"port","ts":1"#,
            r#"{"type":"port","ts":-1}"#,
        ] {
            assert!(Head::of(line.as_bytes()).is_err(), "{line}");
        }
        for line in [
            r#"{"type":"port","ts":1}"#,
            &PORT.replace("0x0", "0x"),
            &PORT.replace("\"lid\":9", "\"lid\":x"),
            "{\"type\":\"port\",\"ts\":1,\"node\":\"\u{e9}}",
        ] {
            assert!(
                Record::parse(line.as_bytes(), Type::Port).is_err(),
                "{line}"
            );
        }
    }
}
