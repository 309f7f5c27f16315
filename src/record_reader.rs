//! The records as the view reads them: fast, and patient with later versions.
//!
//! What is not known here is passed over, as `docs/records.md` asks of readers; the strict mirrors are in
//! [`sweep::record::line`](crate::sweep::record::line). Texts are borrowed from the line wherever they have no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::types::{Guid, NodeKind, PortNum};

/// A line of a stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Record<'a> {
    /// The head of a stream.
    Start(Start<'a>),
    /// One port in one slot.
    Port(Port<'a>),
    /// The end of a slot.
    Sweep(Sweep<'a>),
    /// A distribution.
    Histogram(Histogram<'a>),
    /// Something that happened.
    Event(Event<'a>),
}

/// Which type of record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is described at the record of its name")]
pub enum Type {
    Start,
    Port,
    Sweep,
    Histogram,
    Event,
}

/// See [`sweep::record::Start`](crate::sweep::record::Start).
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Start<'a> {
    pub ts: u64,
    #[serde(borrow)]
    pub sampler: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    #[serde(borrow, default)]
    pub ca: Cow<'a, str>,
    pub ca_port: Option<PortNum>,
    pub interval_ns: u64,
    pub ports: Option<u64>,
    pub clock_ns: Option<u64>,
}

/// See [`sweep::record::PortRecord`](crate::sweep::record::PortRecord).
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Port<'a> {
    pub ts: u64,
    pub slot: u64,
    pub sampler: Cow<'a, str>,
    pub guid: Guid,
    pub port: PortNum,
    pub lid: u16,
    pub node: Cow<'a, str>,
    /// Null for a kind that this version does not know.
    pub kind: Option<NodeKind>,
    pub hops: Option<u16>,
    pub peer_guid: Option<Guid>,
    pub peer_port: Option<PortNum>,
    pub peer: Option<Cow<'a, str>>,
    pub link: Cow<'a, str>,
    pub status: Cow<'a, str>,
    pub rtt_ns: u64,
    pub mads: u64,
    pub saturated: Vec<Cow<'a, str>>,
    pub dt_ns: Option<u64>,
    pub xmit_gbps: Option<f64>,
    pub rcv_gbps: Option<f64>,
    pub xmit_utilization: Option<f64>,
    pub rcv_utilization: Option<f64>,
    pub xmit_blocked: Option<f64>,
    /// All other fields that are numbers, in their order.
    pub counters: Vec<(&'a str, Value)>,
}

/// What a counter has: one value, or one for each SL, VL or lane.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// One.
    One(u64),
    /// By SL, VL or lane.
    Many(Vec<u64>),
    /// What no counter of this version has: a fraction, or less than nothing.
    Real(f64),
    /// No number.
    Other,
}

/// See [`sweep::record::SweepRecord`](crate::sweep::record::SweepRecord).
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Sweep<'a> {
    pub ts: u64,
    pub slot: u64,
    #[serde(borrow)]
    pub sampler: Cow<'a, str>,
    #[serde(borrow, default)]
    pub ca: Cow<'a, str>,
    pub ca_port: Option<PortNum>,
    pub duration_ns: u64,
    #[serde(default)]
    pub ports: u64,
    #[serde(default)]
    pub ok: u64,
    #[serde(default)]
    pub slots_missed: u64,
    #[serde(default)]
    pub lines_lost: u64,
    pub rtt_p50_ns: Option<u64>,
    pub rtt_p99_ns: Option<u64>,
    pub rtt_max_ns: Option<u64>,
}

/// See [`sweep::record::HistogramRecord`](crate::sweep::record::HistogramRecord).
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Histogram<'a> {
    pub ts: u64,
    #[serde(borrow)]
    pub sampler: Cow<'a, str>,
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub device_kind: Option<Cow<'a, str>>,
    pub guid: Option<Guid>,
    pub hops: Option<u16>,
    pub mean_ns: Option<u64>,
    pub count: u64,
    #[serde(borrow)]
    pub v2: Cow<'a, str>,
}

/// See [`sweep::record::EventRecord`](crate::sweep::record::EventRecord).
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[expect(missing_docs, reason = "each is described where it is written")]
pub struct Event<'a> {
    pub ts: u64,
    pub slot: u64,
    #[serde(borrow)]
    pub sampler: Cow<'a, str>,
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    pub guid: Option<Guid>,
    pub port: Option<PortNum>,
    #[serde(borrow, default)]
    pub detail: Cow<'a, str>,
}

/// What stands at the head of every line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Which record; `None` for one that this version does not know.
    pub kind: Option<Type>,
    /// When, in nanoseconds since 1970.
    pub ts: u64,
}

impl Head {
    /// Reads no more of a line than it must.
    ///
    /// # Errors
    /// When it is no record.
    pub fn of(line: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(serde::Deserialize)]
        struct Slow<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            ts: u64,
        }
        if let Some(head) = Self::of_written(line) {
            return Ok(head);
        }
        let Slow { r#type, ts } = serde_json::from_slice(line)?;
        Ok(Self { kind: Type::named(r#type.as_bytes()), ts })
    }

    /// As our own programs write it: `{"type":"port","ts":1,`, and closed at the end.
    pub fn of_written(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"type":""#).filter(|rest| rest.ends_with(b"}"))?;
        let (kind, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
        let rest = rest.strip_prefix(br#"","ts":"#)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ts = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        matches!(rest.get(digits), Some(b',' | b'}')).then_some(Self { kind: Type::named(kind), ts })
    }
}

impl Type {
    fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"start" => Some(Self::Start),
            b"port" => Some(Self::Port),
            b"sweep" => Some(Self::Sweep),
            b"histogram" => Some(Self::Histogram),
            b"event" => Some(Self::Event),
            _ => None,
        }
    }
}

impl<'a> Record<'a> {
    /// Reads a line that has this head.
    ///
    /// # Errors
    /// When it is no record of that type.
    pub fn parse(line: &'a [u8], kind: Type) -> Result<Self, serde_json::Error> {
        let text = text_of(line)?;
        Ok(match kind {
            Type::Start => Self::Start(serde_json::from_str(text)?),
            Type::Port => Self::Port(serde_json::from_str(text)?),
            Type::Sweep => Self::Sweep(serde_json::from_str(text)?),
            Type::Histogram => Self::Histogram(serde_json::from_str(text)?),
            Type::Event => Self::Event(serde_json::from_str(text)?),
        })
    }

    /// Reads a port record but for its counters, which is faster.
    ///
    /// # Errors
    /// When it is no port record.
    pub fn parse_without_counters(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        use serde::Deserializer as _;
        let mut json = serde_json::Deserializer::from_str(text_of(line)?);
        let port = json.deserialize_map(PortVisitor { counters: false })?;
        json.end()?;
        Ok(Self::Port(port))
    }
}

/// Characters are checked at once, which is faster than text by text.
fn text_of(line: &[u8]) -> Result<&str, serde_json::Error> {
    std::str::from_utf8(line).map_err(serde_json::Error::custom)
}

impl Port<'_> {
    /// What it is known by.
    pub fn key(&self) -> (Guid, PortNum) {
        (self.guid, self.port)
    }

    /// A counter that has one value, if it answered.
    pub fn counter(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::One(value) => Some(*value),
            _ => None,
        }
    }

    /// A counter of one or many values, if it answered.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.counters.iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Whether a counter is full: it is at least what it says.
    pub fn is_saturated(&self, name: &str) -> bool {
        self.saturated.iter().any(|full| full == name)
    }

    /// Whether the port's device answered in this slot, in time or late.
    pub fn answered(&self) -> bool {
        matches!(&*self.status, "ok" | "late")
    }
}

impl<'de> Deserialize<'de> for Port<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PortVisitor { counters: true })
    }
}

struct PortVisitor {
    counters: bool,
}

impl<'de> Visitor<'de> for PortVisitor {
    type Value = Port<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Port<'de>, A::Error> {
        let (mut ts, mut guid, mut number) = (None, None, None);
        let mut port = empty_port(self.counters);
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                "ts" => ts = Some(map.next_value()?),
                "slot" => port.slot = map.next_value()?,
                "sampler" => port.sampler = map.next_value::<Text<'_>>()?.0,
                "guid" => guid = Some(map.next_value::<ShortGuid>()?.0),
                "port" => number = Some(map.next_value()?),
                "lid" => port.lid = map.next_value()?,
                "node" => port.node = map.next_value::<Text<'_>>()?.0,
                "kind" => port.kind = kind_of(&map.next_value::<Text<'_>>()?.0),
                "hops" => port.hops = map.next_value()?,
                "peer_guid" => port.peer_guid = map.next_value::<Option<ShortGuid>>()?.map(|guid| guid.0),
                "peer_port" => port.peer_port = map.next_value()?,
                "peer" => port.peer = map.next_value::<Option<Text<'_>>>()?.map(|text| text.0),
                "link" => port.link = map.next_value::<Text<'_>>()?.0,
                "status" => port.status = map.next_value::<Text<'_>>()?.0,
                "rtt_ns" => port.rtt_ns = map.next_value()?,
                "mads" => port.mads = map.next_value()?,
                "saturated" => port.saturated = map.next_value::<Vec<Text<'_>>>()?.into_iter().map(|text| text.0).collect(),
                "dt_ns" => port.dt_ns = map.next_value()?,
                "xmit_gbps" => port.xmit_gbps = map.next_value()?,
                "rcv_gbps" => port.rcv_gbps = map.next_value()?,
                "xmit_utilization" => port.xmit_utilization = map.next_value()?,
                "rcv_utilization" => port.rcv_utilization = map.next_value()?,
                "xmit_blocked" => port.xmit_blocked = map.next_value()?,
                _ if !self.counters => drop(map.next_value::<IgnoredAny>()?),
                "type" | "link_source" | "identity" => drop(map.next_value::<IgnoredAny>()?),
                _ => match (map.next_value()?, key) {
                    (Value::Other, _) | (_, Cow::Owned(_)) => {}
                    (value, Cow::Borrowed(name)) => port.counters.push((name, value)),
                },
            }
        }
        port.ts = ts.ok_or_else(|| A::Error::missing_field("ts"))?;
        port.guid = guid.ok_or_else(|| A::Error::missing_field("guid"))?;
        port.port = number.ok_or_else(|| A::Error::missing_field("port"))?;
        Ok(port)
    }
}

/// One whose fields are yet to come.
fn empty_port<'a>(counters: bool) -> Port<'a> {
    /// The default groups have 36.
    const COUNTERS: usize = 40;
    Port {
        ts: 0,
        slot: 0,
        sampler: Cow::Borrowed(""),
        guid: Guid(0),
        port: PortNum(0),
        lid: 0,
        node: Cow::Borrowed(""),
        kind: None,
        hops: None,
        peer_guid: None,
        peer_port: None,
        peer: None,
        link: Cow::Borrowed(""),
        status: Cow::Borrowed(""),
        rtt_ns: 0,
        mads: 0,
        saturated: Vec::new(),
        dt_ns: None,
        xmit_gbps: None,
        rcv_gbps: None,
        xmit_utilization: None,
        rcv_utilization: None,
        xmit_blocked: None,
        counters: Vec::with_capacity(if counters { COUNTERS } else { 0 }),
    }
}

fn kind_of(word: &str) -> Option<NodeKind> {
    [NodeKind::Switch, NodeKind::Hca, NodeKind::Router].into_iter().find(|kind| kind.as_str() == word)
}

/// A text, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Texts)
    }
}

/// A GUID, read without a copy of its text.
struct ShortGuid(Guid);

impl<'de> Deserialize<'de> for ShortGuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
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
        f.write_str("any value")
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
        let (mut values, mut are_numbers) = (Vec::new(), true);
        while let Some(value) = seq.next_element()? {
            match value {
                Value::One(value) => values.push(value),
                _ => are_numbers = false,
            }
        }
        Ok(if are_numbers { Value::Many(values) } else { Value::Other })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str = r#"{"type":"port","ts":7,"slot":3,"sampler":"a","guid":"0x00000000000000ab","port":2,"lid":9,"node":"n\u001b","kind":"switch","hops":null,"peer_guid":"0x0000000000000001","peer_port":4,"peer":"p","link":"4xEDR","link_source":"live","status":"ok","rtt_ns":5,"mads":1,"identity":"ok","port_xmit_pkts":18446744073709551615,"port_vl_op_packets":[1,2],"saturated":["port_rcv_errors"],"dt_ns":1,"xmit_gbps":1.5,"rcv_gbps":0,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":null}"#;

    fn port(line: &str) -> Port<'_> {
        let head = Head::of(line.as_bytes()).unwrap();
        assert_eq!(head.kind, Some(Type::Port));
        let Record::Port(port) = Record::parse(line.as_bytes(), Type::Port).unwrap() else { panic!("a port") };
        assert_eq!(head.ts, port.ts);
        port
    }

    #[test]
    fn a_port_is_read() {
        let port = port(PORT);
        assert_eq!((port.key(), port.lid, port.kind), ((Guid(0xab), PortNum(2)), 9, Some(NodeKind::Switch)));
        assert_eq!((&*port.node, port.hops, port.peer_guid), ("n\u{1b}", None, Some(Guid(1))));
        assert_eq!((port.xmit_gbps, port.rcv_gbps, port.xmit_blocked), (Some(1.5), Some(0.0), None));
        assert_eq!(port.counter("port_xmit_pkts"), Some(u64::MAX), "no float has that many digits");
        assert_eq!(port.value("port_vl_op_packets"), Some(&Value::Many(vec![1, 2])));
        assert!(port.is_saturated("port_rcv_errors") && !port.is_saturated("port_xmit_pkts"));
    }

    #[test]
    fn a_port_is_the_same_without_its_counters() {
        let Record::Port(brief) = Record::parse_without_counters(PORT.as_bytes()).unwrap() else { panic!("a port") };
        assert_eq!(brief, Port { counters: Vec::new(), ..port(PORT) });
        assert!(Record::parse_without_counters(&PORT.as_bytes()[..PORT.len() - 1]).is_err());
        assert!(Record::parse_without_counters([PORT.as_bytes(), b"}"].concat().as_slice()).is_err());
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let later = PORT.replace(r#""mads":1"#, r#""mads":1,"new":{"a":[{}]},"newer":["x",null],"newest":true,"minus":-1,"why":"so""#);
        assert_eq!(port(&later).counters.len(), port(PORT).counters.len() + 1);
        assert_eq!(port(&later).value("minus"), Some(&Value::Real(-1.0)));
        assert_eq!(port(&later.replace("switch", "gateway")).kind, None);
        assert_eq!(Head::of(br#"{"type":"weather","ts":1,"x":{}}"#).unwrap(), Head { kind: None, ts: 1 });
    }

    #[test]
    fn another_layout_is_read_too() {
        let spaced = PORT.replace(r#""type":"port","#, "").replace(r#"{"ts":7"#, r#"{ "ts": 7, "type" : "port""#);
        assert_eq!(port(&spaced), port(PORT));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for line in ["", "{}", "[]", r#"{"type":"port"}"#, r#"{"type":"port","ts":1"#, r#"{"type":"port","ts":-1}"#] {
            assert!(Head::of(line.as_bytes()).is_err(), "{line}");
        }
        for line in [
            r#"{"type":"port","ts":1}"#,
            &PORT.replace("0x0", "0x"),
            &PORT.replace("\"lid\":9", "\"lid\":x"),
            "{\"type\":\"port\",\"ts\":1,\"node\":\"\u{e9}}",
        ] {
            assert!(Record::parse(line.as_bytes(), Type::Port).is_err(), "{line}");
        }
    }
}
