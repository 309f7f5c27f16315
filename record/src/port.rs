//! The fields of a `port` record. One list contains them all. The struct, its writer, its reader
//! and the description of the fields for other programs are generated from this list.
//!
//! The counters are in the middle of the line, each as a separate field. With the derive macros of
//! serde, such fields need `flatten`, which stores the whole record in a buffer. It is several
//! times slower than the visitor in this file.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::value::{FieldType, FieldValue, Kind};
use crate::types::{Guid, Lid, NodeKind, PortNum};

/// Counters of a port record that can be written into its JSON object.
pub trait WriteCounters {
    /// Writes one entry for each counter.
    ///
    /// # Errors
    /// Returns the errors of the serializer.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Counters of a port record that can be read from its JSON object.
pub trait ReadCounters<'de>: Sized {
    /// Returns an empty set of counters. If `will_read` is false, the caller will add no counter.
    fn empty(will_read: bool) -> Self;

    /// Reads the value of a field that is not one of the fixed fields.
    ///
    /// # Errors
    /// Returns an error if the value is rejected.
    fn read<A: MapAccess<'de>>(&mut self, name: Cow<'de, str>, map: &mut A)
    -> Result<(), A::Error>;
}

/// A field value that can be missing in the line.
pub trait Optional {
    /// Returns whether the field is written.
    fn is_present(&self) -> bool;
}

/// A field value that can be read from a JSON object.
pub(super) trait Read<'de>: Sized {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error>;
}

/// What a line has if a field has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// The field always has a value. A reader rejects a line without it.
    Required,
    /// The field is null. If a line lacks the field, a reader uses the default value.
    Always,
    /// The field is absent.
    Optional,
}

/// When the value of a field changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The field belongs to one slot.
    Slot,
    /// Never: the field identifies the port or the sampler.
    Key,
    /// With the device or its link. A change makes a row of the table `devices`.
    Link,
    /// Seldom.
    Rare,
}

/// Generates the struct, `Serialize`, the visitor and [`PortField`] from the list of fields.
///
/// Each field in the list begins with its [`Presence`] and its [`Change`], or with `flat` for the
/// counters.
macro_rules! port_fields {
    ($( $(#[doc = $doc:literal])* $presence:ident $change:ident $field:ident: $type:ty, )*) => {
        /// One port in one slot: all fields in the order of the line.
        ///
        /// `Text` and `Link` are strings, `Counters` is a set of counters, `Names` a list of
        /// strings.
        #[derive(Clone, PartialEq, Debug)]
        pub struct PortFields<Text, Counters, Names = Vec<Text>, Link = Text> {
            $( $(#[doc = $doc])* pub $field: $type, )*
        }

        /// A field of a `port` record.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[expect(non_camel_case_types, reason = "a field has one name everywhere")]
        pub enum PortField {
            $( $(#[doc = $doc])* $field, )*
        }

        impl PortField {
            /// All fields in the order of the line.
            pub const ALL: &[Self] = &[$( Self::$field ),*];

            /// Returns all fields except the counters.
            pub fn fixed() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(|field| *field != Self::counters)
            }

            /// Returns the field with this name. Counters are not fields here.
            pub fn named(name: &str) -> Option<Self> {
                Self::fixed().find(|field| field.name() == name)
            }

            /// Returns the name.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$field => stringify!($field), )*
                }
            }

            /// Returns its meaning: sentences for `docs/records.md`.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$field => concat!($($doc),*).trim_ascii(), )*
                }
            }

            /// Returns the type of the values, or `None` for the counters.
            pub const fn kind(self) -> Option<Kind> {
                type Text = Cow<'static, str>;
                type Names = Vec<Text>;
                type Link = Text;
                match self {
                    $( Self::$field => port_fields!(@kind $presence $type), )*
                }
            }

            /// Returns what a line has if the field has no value.
            pub const fn presence(self) -> Presence {
                match self {
                    $( Self::$field => port_fields!(@presence $presence), )*
                }
            }

            /// Returns when the value changes.
            pub const fn change(self) -> Change {
                match self {
                    $( Self::$field => port_fields!(@change $change), )*
                }
            }
        }

        impl<'a, Counters> PortFields<Cow<'a, str>, Counters> {
            /// Returns a record without values.
            pub fn without_values(counters: Counters) -> Self {
                Self { $( $field: port_fields!(@default $presence counters), )* }
            }

            /// Returns the value of a field. The counters have no single value.
            pub fn get(&self, field: PortField) -> FieldValue<'_> {
                match field {
                    $( PortField::$field => port_fields!(@value $presence self $field), )*
                }
            }

            /// Sets a field. If its type does not have the value, the field gets no value.
            pub fn set(&mut self, field: PortField, value: FieldValue<'a>) {
                match field {
                    $( PortField::$field => port_fields!(@set $presence self $field value), )*
                }
            }
        }

        impl<Text, Counters, Names, Link> Serialize for PortFields<Text, Counters, Names, Link>
        where
            Text: Serialize,
            Counters: WriteCounters,
            Names: Serialize + Optional,
            Link: Serialize,
        {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", "port")?;
                $( port_fields!(@write $presence map self $field); )*
                map.end()
            }
        }

        impl<'de, Text, Counters> PortVisitor<Text, Counters>
        where
            Text: Default + Read<'de>,
            Option<Text>: Read<'de>,
            Vec<Text>: Read<'de>,
            Counters: ReadCounters<'de>,
        {
            fn read_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PortFields<Text, Counters>, A::Error> {
                let counters = Counters::empty(self.with_counters);
                let mut port = PortFields { $( $field: port_fields!(@default $presence counters), )* };
                let mut missing = REQUIRED;
                while let Some(Borrowed(key)) = map.next_key()? {
                    let name = &*key;
                    $( port_fields!(@read $presence name map port missing $field); )*
                    if name == "type" || !self.with_counters {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        port.counters.read(key, &mut map)?;
                    }
                }
                match missing.into_iter().flatten().next() {
                    Some(field) => Err(A::Error::missing_field(field)),
                    None => Ok(port),
                }
            }
        }
    };
    (@write required $map:ident $self:ident $field:ident) => { $map.serialize_entry(stringify!($field), &$self.$field)? };
    (@write always $map:ident $self:ident $field:ident) => { $map.serialize_entry(stringify!($field), &$self.$field)? };
    (@write optional $map:ident $self:ident $field:ident) => {
        if $self.$field.is_present() {
            $map.serialize_entry(stringify!($field), &$self.$field)?;
        }
    };
    (@write flat $map:ident $self:ident $field:ident) => { $self.$field.write(&mut $map)? };
    (@default flat $counters:ident) => { $counters };
    (@default $presence:ident $counters:ident) => { Default::default() };
    (@kind flat $type:ty) => { None };
    (@kind $presence:ident $type:ty) => { Some(<$type as FieldType<'static>>::KIND) };
    (@presence required) => { Presence::Required };
    (@presence always) => { Presence::Always };
    (@presence $presence:ident) => { Presence::Optional };
    (@change key) => { Change::Key };
    (@change link) => { Change::Link };
    (@change rare) => { Change::Rare };
    (@change slot) => { Change::Slot };
    (@value flat $self:ident $field:ident) => { FieldValue::Null };
    (@value $presence:ident $self:ident $field:ident) => { FieldType::value(&$self.$field) };
    (@set flat $self:ident $field:ident $value:ident) => { () };
    (@set $presence:ident $self:ident $field:ident $value:ident) => {
        $self.$field = FieldType::of($value).unwrap_or_default()
    };
    (@read required $name:ident $map:ident $port:ident $missing:ident $field:ident) => {
        if $name == stringify!($field) {
            $port.$field = Read::read(&mut $map)?;
            $missing.iter_mut().filter(|field| **field == Some(stringify!($field))).for_each(|field| *field = None);
            continue;
        }
    };
    (@read flat $name:ident $map:ident $port:ident $missing:ident $field:ident) => {};
    (@read $presence:ident $name:ident $map:ident $port:ident $missing:ident $field:ident) => {
        if $name == stringify!($field) {
            $port.$field = Read::read(&mut $map)?;
            continue;
        }
    };
}

/// The fields that every line must have.
const REQUIRED: [Option<&str>; 3] = [Some("ts"), Some("guid"), Some("port")];

port_fields! {
    /// Time of the last reply of the port, or the time at which its result was complete without a
    /// reply.
    required slot ts: u64,
    /// Number of the slot: its start divided by `interval_ns`, rounded down; equal on all samplers.
    always slot slot: u64,
    /// Name of the sampler that wrote the record.
    always key sampler: Text,
    /// `secondary` in the records of the second sampler of a port. Absent in those of the first
    /// one.
    optional key role: Option<Text>,
    /// Port GUID, `0x` and 16 digits; for a switch the GUID of its port 0, the same for all its
    /// ports.
    required key guid: Guid,
    /// Port number.
    required key port: PortNum,
    /// LID to which the queries are sent; changes with a `lid_change` event.
    always link lid: Lid,
    /// Name of the device in the plan or the net file.
    always link node: Text,
    /// `switch`, `hca` or `router`.
    always link kind: Option<NodeKind>,
    /// Distance from the sampler by the plan: 0 for the HCA of the sampler host, 1 for its switch;
    /// null if it is not known.
    always rare hops: Option<u16>,
    /// Port GUID of the peer by the plan; null if it is not known.
    always link peer_guid: Option<Guid>,
    /// Port number of the peer; null if it is not known.
    always link peer_port: Option<PortNum>,
    /// Name of the peer; null if it is not known.
    always link peer: Option<Text>,
    /// Width and [speed](#link-rates), such as `4xEDR`; `??` and `???` if unknown. While a link is
    /// down: its last value.
    always link link: Link,
    /// Source of `link`: `live` (PortInfo, IBA vol. 1, 14.2.5.6), or `file` (the net file) as long
    /// as PortInfo was not read. `imported`: `ibnet-view import` made the record from a recording
    /// that does not have the link.
    always rare link_source: Text,
    /// MTU of the link: NeighborMTU of PortInfo, 256 to 4096. While a link is down: its last value.
    /// Absent as long as PortInfo was not read.
    optional link mtu: Option<u16>,
    /// Number of data VLs of the link: OperationalVLs of PortInfo, 1, 2, 4, 8 or 15 (the VLs are
    /// numbered from 0). While a link is down: its last value. Absent as long as PortInfo was not
    /// read.
    optional link vls: Option<u8>,
    /// Largest MTU of the port: MTUCap of PortInfo. This and the next seven fields are only in the
    /// first record after each reading of PortInfo, about once a minute.
    optional slot mtu_cap: Option<u16>,
    /// Number of data VLs that the port has: VLCap.
    optional slot vl_cap: Option<u8>,
    /// Share of the high-priority table in the arbitration of VLs: VLHighLimit, in units of
    /// 4096 bytes. 255: no limit; 0: one packet.
    optional slot vl_high_limit: Option<u8>,
    /// Number of packets in a row that the port drops for HOQLife before it drops all packets of
    /// the VL for 8 times HOQLife: VLStallCount. 0: it never does.
    optional slot vl_stall_count: Option<u8>,
    /// Longest time for which a packet waits at the head of the queue of a VL before the switch
    /// drops it: HOQLife, as the exponent n of 4.096 us x 2^n. From 20 on: without a limit.
    optional slot hoq_life: Option<u8>,
    /// Packets with a wrong M_Key: M_KeyViolations. A switch counts wrong M_Keys and Q_Keys in
    /// port 0 only.
    optional slot mkey_violations: Option<u16>,
    /// Packets with a wrong P_Key: P_KeyViolations. Stops at 65535, as the other two do.
    optional slot pkey_violations: Option<u16>,
    /// Packets with a wrong Q_Key: Q_KeyViolations.
    optional slot qkey_violations: Option<u16>,
    /// [Result of the queries](#status).
    always slot status: Text,
    /// Sum of the round-trip times of the accepted replies.
    always slot rtt_ns: u64,
    /// Shortest of these round-trip times; null without a reply.
    always slot rtt_min_ns: Option<u64>,
    /// Number of counter queries that were sent.
    always slot mads: u64,
    /// Status of the last reply that reported an error (IBA vol. 1, 13.4.7). Absent if there was
    /// none. "Optional attribute not supported" is not an error here.
    optional slot mad_status: Option<u16>,
    /// Errno of the last query that could not be sent, or that was in flight when the HCA
    /// disappeared. Absent if there was none.
    optional slot errno: Option<i32>,
    /// `ok`: at the last check, about once a minute, NodeInfo (IBA vol. 1, 14.2.5.3) reported this
    /// GUID at this LID. `unverified`: NodeInfo was not answered, or reported another GUID.
    always rare identity: Text,
    /// Counters by name, as the device reported them.
    flat slot counters: Counters,
    /// Names of the [saturated counters](#saturated-counters). Absent if there are none.
    optional slot saturated: Names,
    /// With [`clear`](#totals-by-service-level), max number of bytes that the counters of
    /// each service level lack from now on in each direction, because ibnet cleared them after this
    /// reading. Absent if none was cleared, or if the agent did not confirm it.
    optional slot clear_lost_bytes: Option<u64>,
    /// Time between the two readings from which the rates are computed; null if there is no rate.
    always slot dt_ns: Option<u64>,
    /// [Derived value](#derived-values): data sent; null if it cannot be computed.
    always slot xmit_gbps: Option<f64>,
    /// Data received; null if it cannot be computed.
    always slot rcv_gbps: Option<f64>,
    /// Utilization, sending; null if it cannot be computed.
    always slot xmit_utilization: Option<f64>,
    /// Utilization, receiving; null if it cannot be computed.
    always slot rcv_utilization: Option<f64>,
    /// Share of the time in which the port was blocked; null if it cannot be computed.
    always slot xmit_blocked: Option<f64>,
    /// Time over which `xmit_blocked` is computed. Absent if it is equal to `dt_ns`, and if
    /// `xmit_blocked` is null.
    optional slot xmit_blocked_dt_ns: Option<u64>,
}

impl PortField {
    /// Returns the unit of the values.
    pub fn unit(self) -> Option<&'static str> {
        match self.name() {
            "mads" => Some("MADs"),
            "mtu" | "mtu_cap" | "clear_lost_bytes" => Some("bytes"),
            name if name.ends_with("_ns") => Some("ns"),
            name if name.ends_with("_gbps") => Some("10^9 bit/s"),
            name if name.ends_with("_utilization") || name.ends_with("_blocked") => {
                Some("share of 1")
            }
            _ => None,
        }
    }
}

impl<Text, Counters, Names, Link> PortFields<Text, Counters, Names, Link> {
    /// Returns the key of the port.
    pub fn key(&self) -> (Guid, PortNum) {
        (self.guid, self.port)
    }
}

impl<T> Optional for Option<T> {
    fn is_present(&self) -> bool {
        self.is_some()
    }
}

impl<T> Optional for Vec<T> {
    fn is_present(&self) -> bool {
        !self.is_empty()
    }
}

/// Reads a port record. Reading is faster without counters.
pub(super) struct PortVisitor<Text, Counters> {
    with_counters: bool,
    types: PhantomData<(Text, Counters)>,
}

impl<Text, Counters> PortVisitor<Text, Counters> {
    pub(super) fn new(with_counters: bool) -> Self {
        Self {
            with_counters,
            types: PhantomData,
        }
    }
}

impl<'de, Text, Counters> Visitor<'de> for PortVisitor<Text, Counters>
where
    Text: Default + Read<'de>,
    Option<Text>: Read<'de>,
    Vec<Text>: Read<'de>,
    Counters: ReadCounters<'de>,
{
    type Value = PortFields<Text, Counters>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port record")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        self.read_map(map)
    }
}

impl<'de, Text, Counters> Deserialize<'de> for PortFields<Text, Counters>
where
    Text: Default + Read<'de>,
    Option<Text>: Read<'de>,
    Vec<Text>: Read<'de>,
    Counters: ReadCounters<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PortVisitor::new(true))
    }
}

/// A string, borrowed from the line if it has no escapes.
struct Borrowed<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Borrowed<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = Borrowed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Borrowed<'de>, E> {
                Ok(Borrowed(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Borrowed<'de>, E> {
                Ok(Borrowed(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Strings)
    }
}

/// A GUID, read without a copy of its text.
struct BorrowedGuid(Guid);

impl<'de> Deserialize<'de> for BorrowedGuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Borrowed(text) = Borrowed::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// Implements [`Read`] by [`Deserialize`].
macro_rules! read_by_deserialize {
    ($($type:ty)*) => {
        $(
            impl<'de> Read<'de> for $type {
                fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
                    map.next_value()
                }
            }
        )*
    };
}

read_by_deserialize!(u64 PortNum Lid Option<u64> Option<u16> Option<u8> Option<i32> Option<f64> Option<PortNum> String Option<String> Vec<String>);

impl<'de> Read<'de> for Cow<'de, str> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map.next_value::<Borrowed<'_>>()?.0)
    }
}

impl<'de> Read<'de> for Option<Cow<'de, str>> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map.next_value::<Option<Borrowed<'_>>>()?.map(|text| text.0))
    }
}

impl<'de> Read<'de> for Vec<Cow<'de, str>> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map
            .next_value::<Vec<Borrowed<'_>>>()?
            .into_iter()
            .map(|text| text.0)
            .collect())
    }
}

impl<'de> Read<'de> for Guid {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map.next_value::<BorrowedGuid>()?.0)
    }
}

impl<'de> Read<'de> for Option<Guid> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        Ok(map.next_value::<Option<BorrowedGuid>>()?.map(|guid| guid.0))
    }
}

/// Reads a kind that this version does not have as `None`.
impl<'de> Read<'de> for Option<NodeKind> {
    fn read<A: MapAccess<'de>>(map: &mut A) -> Result<Self, A::Error> {
        let Borrowed(word) = map.next_value()?;
        Ok(NodeKind::named(&word))
    }
}
