//! Performance management, class 0x04 (IBA vol. 1, 16.1): counters of ports, read with Get.
//!
//! Each [`Attribute`] is declared once, as a table of [`Field`]s: bits on the wire, name, unit. The table drives decoding,
//! encoding, the names in the records, and the test against `tests/data/pma-fields.tsv`.
//!
//! - The attribute lies at octet 64 of the MAD, 192 octets of it. "Wire bits" count from 0, the most significant bit of its
//!   first octet; every field is one run of bits, most significant first.
//! - A counter of data counts **words** of 4 octets. [`Field::value`] is the only place that makes octets of them.
//! - All counters but the 64-bit ones stop at all ones of their own width: then the value means "at least".
//! - One agent answers for all ports of a switch, under the switch's LID and a PortSelect from 1. An HCA port answers for itself.
//!
//! | file | attributes |
//! |---|---|
//! | [`class_port_info`] | 0x01 ClassPortInfo: what an agent can do |
//! | [`port_counters`] | 0x12 PortCounters: the mandatory 32-bit ones |
//! | [`port_counters_extended`] | 0x1D PortCountersExtended: 64 bits |
//! | [`error_details`] | 0x15 PortRcvErrorDetails, 0x16 PortXmitDiscardDetails |

use std::fmt;
use std::str::FromStr;

use super::header::{HEADER_LEN, Header, METHOD_GET, METHOD_GET_RESP, MadStatus};
use super::{MAD_LEN, Mad};
use crate::types::{ParseError, PortNum, Tid};

pub mod class_port_info;
pub mod error_details;
pub mod port_counters;
pub mod port_counters_extended;

pub use class_port_info::{CLASS_PORT_INFO, Capabilities};

/// The class.
pub const CLASS_PERF_MGT: u8 = 0x04;
/// Its version.
pub const CLASS_VERSION: u8 = 1;
/// Where the attribute begins in a MAD of this class.
pub const DATA_OFFSET: usize = 64;
/// Octets of the attribute.
pub const DATA_LEN: usize = MAD_LEN - DATA_OFFSET;

/// The octets of an attribute.
pub type Data = [u8; DATA_LEN];

/// An attribute: a table of fields.
#[derive(Debug)]
pub struct Attribute {
    /// AttributeID.
    pub id: u16,
    /// IBA's name.
    pub name: &'static str,
    /// Where it stands in the InfiniBand Architecture Specification, vol. 1.
    pub section: &'static str,
    /// What an agent must be capable of to have it at all.
    pub needs: Needs,
    /// In the order of the wire.
    pub fields: &'static [Field],
}

/// A run of bits of an attribute, or an array of such runs side by side.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// IBA's name (libibmad's, where the two differ).
    pub name: &'static str,
    /// The name in records: snake case, with the unit at its end where it is not packets or events.
    pub json: &'static str,
    /// The first wire bit.
    pub first_bit: u16,
    /// Bits of one value, 1 to 64.
    pub width: u8,
    /// Values: 1, or how many SLs, VLs or lanes there are.
    pub len: u8,
    /// What it counts; `None` for what is no counter.
    pub unit: Option<Unit>,
    /// What an agent must be capable of for the field to mean anything.
    pub needs: Needs,
}

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Words of 4 octets on the wire, octets in a record.
    Words,
    /// Packets.
    Packets,
    /// Events.
    Events,
    /// Ticks of PortSamplesControl, during which there was data to send and nothing was sent.
    Ticks,
}

/// A capability that gates an attribute or a field (IBA vol. 1, 16.1.3.1; see [`Capabilities`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Always there.
    Nothing,
    /// CapabilityMask bit 9 or 10: 64-bit counters.
    ExtendedWidth,
    /// CapabilityMask bit 9: unicast and multicast packets among them.
    ExtendedWidthUnicast,
    /// CapabilityMask bit 12.
    XmitWait,
    /// CapabilityMask bit 15.
    Qp1Dropped,
    /// CapabilityMask2 bit 1: 64-bit error counters.
    ExtendedErrors,
}

/// A set of counters by the name that perfquery and LDMS use; one attribute each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// PortCounters, 0x12.
    Base,
    /// PortCountersExtended, 0x1D.
    Extended,
    /// PortXmitDiscardDetails, 0x16.
    XmtDisc,
    /// PortRcvErrorDetails, 0x15.
    RcvErr,
}

/// A request for one attribute of one port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// AttributeID.
    pub attribute: u16,
    /// PortSelect; `None` for ClassPortInfo, which has none.
    pub port: Option<PortNum>,
}

/// Why a MAD is no answer to a query. Allocates nothing: it happens once a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadReply {
    /// Not 256 octets.
    #[error("{0} octets instead of 256")]
    Length(usize),
    /// Another management class, or a version of it that is not ours.
    #[error("class {class:#04x} version {version} instead of 0x04 version 1")]
    Class {
        /// As it came.
        class: u8,
        /// As it came.
        version: u8,
    },
    /// No response.
    #[error("method {0:#04x} instead of GetResp")]
    Method(u8),
    /// Another attribute.
    #[error("attribute {0:#06x} instead of the one asked for")]
    Attribute(u16),
    /// Another port.
    #[error("PortSelect {0} instead of the one asked for")]
    PortSelect(u8),
    /// A true answer that says no.
    #[error("status {0}")]
    Status(MadStatus),
}

impl Query {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_PERF_MGT,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: self.attribute,
            modifier: 0,
        };
        header.emit(mad);
        if let Some(port) = self.port {
            mad[DATA_OFFSET + PORT_SELECT_OCTET] = port.0;
        }
    }

    /// The attribute that a reply carries, if the reply answers this query. The transaction and the sender are the engine's to check.
    ///
    /// # Errors
    /// [`BadReply::Status`] if the agent refused; any other if this is no answer to this query at all.
    pub fn answer<'a>(&self, mad: &'a Mad, len: usize) -> Result<&'a Data, BadReply> {
        if len != MAD_LEN {
            return Err(BadReply::Length(len));
        }
        let header = Header::parse(mad);
        if (header.class, header.class_version) != (CLASS_PERF_MGT, CLASS_VERSION) {
            return Err(BadReply::Class { class: header.class, version: header.class_version });
        }
        if header.method != METHOD_GET_RESP {
            return Err(BadReply::Method(header.method));
        }
        if header.attribute != self.attribute {
            return Err(BadReply::Attribute(header.attribute));
        }
        if !header.status.is_ok() {
            return Err(BadReply::Status(header.status));
        }
        let data = data(mad);
        match self.port {
            Some(port) if data[PORT_SELECT_OCTET] != port.0 => Err(BadReply::PortSelect(data[PORT_SELECT_OCTET])),
            _ => Ok(data),
        }
    }
}

const _: () = assert!(HEADER_LEN <= DATA_OFFSET);

/// PortSelect stands at the same place in every attribute that has it.
const PORT_SELECT_OCTET: usize = 1;

/// The attribute's octets of a MAD.
pub fn data(mad: &Mad) -> &Data {
    mad.last_chunk().expect("a MAD is longer than its data area")
}

/// The attribute's octets of a MAD, to be written.
pub fn data_mut(mad: &mut Mad) -> &mut Data {
    mad.last_chunk_mut().expect("a MAD is longer than its data area")
}

impl Attribute {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that count something.
    pub fn counters(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| field.unit.is_some())
    }
}

impl Field {
    /// A field that is no counter.
    pub(crate) const fn new(name: &'static str, json: &'static str, first_bit: u16, width: u8) -> Self {
        Self { name, json, first_bit, width, len: 1, unit: None, needs: Needs::Nothing }
    }

    /// Makes it a counter.
    pub(crate) const fn counts(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Makes it mean something only where an agent is capable of it.
    pub(crate) const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// All ones of this width: where a counter of fewer than 64 bits stops.
    pub const fn all_ones(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// What a value of the wire is multiplied with in a record.
    pub const fn factor(&self) -> u64 {
        match self.unit {
            Some(Unit::Words) => 4,
            _ => 1,
        }
    }

    /// The bits as they came, of the value at `index` (0 unless it is an array).
    ///
    /// # Panics
    /// If the index is not below [`Field::len`].
    pub fn raw(&self, data: &Data, index: u8) -> u64 {
        let (octet, shift) = self.place(index);
        match (self.width, shift) {
            (8, 0) => u64::from(data[octet]),
            (16, 0) => u64::from(u16::from_be_bytes([data[octet], data[octet + 1]])),
            (32, 0) => u64::from(u32::from_be_bytes([data[octet], data[octet + 1], data[octet + 2], data[octet + 3]])),
            (64, 0) => data[octet..].first_chunk().map_or(0, |octets| u64::from_be_bytes(*octets)),
            _ => {
                let bits = shift + usize::from(self.width);
                let window = data[octet..octet + bits.div_ceil(8)].iter().fold(0u128, |value, octet| value << 8 | u128::from(*octet));
                (window >> (bits.next_multiple_of(8) - bits)) as u64 & self.all_ones()
            }
        }
    }

    /// Writes the bits of the value at `index`; those around it stay. A value that does not fit is written as all ones, as a
    /// counter that is full would be.
    ///
    /// # Panics
    /// If the index is not below [`Field::len`].
    pub fn set_raw(&self, data: &mut Data, index: u8, value: u64) {
        let (octet, shift) = self.place(index);
        let bits = shift + usize::from(self.width);
        let octets = &mut data[octet..octet + bits.div_ceil(8)];
        let below = bits.next_multiple_of(8) - bits;
        let window = octets.iter().fold(0u128, |value, octet| value << 8 | u128::from(*octet));
        let mask = u128::from(self.all_ones()) << below;
        let window = window & !mask | u128::from(value.min(self.all_ones())) << below;
        for (octet, place) in octets.iter_mut().rev().zip(0..) {
            *octet = (window >> (8 * place)) as u8;
        }
    }

    /// The value in the unit of the records: octets where the wire counts words. Stops at the end of 64 bits.
    pub fn value(&self, raw: u64) -> u64 {
        raw.saturating_mul(self.factor())
    }

    /// Whether these bits mean "at least": a counter of fewer than 64 bits at all ones.
    pub const fn is_saturated(&self, raw: u64) -> bool {
        self.unit.is_some() && self.width < 64 && raw == self.all_ones()
    }

    /// The octet and the bit in it where the value at `index` begins.
    fn place(&self, index: u8) -> (usize, usize) {
        assert!(index < self.len, "{} has {} values", self.name, self.len);
        let bit = usize::from(self.first_bit) + usize::from(index) * usize::from(self.width);
        (bit / 8, bit % 8)
    }
}

impl Group {
    /// All that this version reads, in the order in which they are asked for by default: first what matters most.
    pub const ALL: [Self; 4] = [Self::Extended, Self::Base, Self::XmtDisc, Self::RcvErr];

    /// The names of groups that perfquery knows and this version does not read yet.
    pub const NOT_YET: [&'static str; 16] = [
        "xmtsl",
        "rcvsl",
        "extended_speeds",
        "oprcvcounters",
        "flowctlcounters",
        "vloppackets",
        "vlopdata",
        "vlxmitflowctlerrors",
        "vlxmitcounters",
        "swportvlcong",
        "rcvcc",
        "slrcvfecn",
        "slrcvbecn",
        "xmitcc",
        "vlxmittimecc",
        "smplctl",
    ];

    /// Its attribute.
    pub const fn attribute(self) -> &'static Attribute {
        match self {
            Self::Base => &port_counters::PORT_COUNTERS,
            Self::Extended => &port_counters_extended::PORT_COUNTERS_EXTENDED,
            Self::XmtDisc => &error_details::PORT_XMIT_DISCARD_DETAILS,
            Self::RcvErr => &error_details::PORT_RCV_ERROR_DETAILS,
        }
    }

    /// The same counter in 64 bits, and the group that has it.
    pub fn wider(self, field: &Field) -> Option<(Self, &'static Field)> {
        let wide = Self::Extended;
        let twin = wide.attribute().counters().find(|twin| twin.json == field.json)?;
        (self != wide).then_some((wide, twin))
    }

    /// Whether an agent that can do this has every counter of this group wider in another one of `groups`.
    pub fn is_superseded(self, groups: &[Self], capabilities: Capabilities) -> bool {
        let mut counters = self.attribute().counters().filter(|field| capabilities.have(field.needs));
        counters.all(|field| {
            let wider = self.wider(field).filter(|(wide, _)| groups.contains(wide));
            wider.is_some_and(|(wide, twin)| capabilities.have(wide.attribute().needs) && capabilities.have(twin.needs))
        })
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Extended => "extended",
            Self::XmtDisc => "xmtdisc",
            Self::RcvErr => "rcverr",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let found = Self::ALL.into_iter().find(|group| group.as_str() == text);
        found.ok_or_else(|| {
            let expected = if Self::NOT_YET.contains(&text) {
                "read by this version, which has the groups extended, base, xmtdisc, rcverr"
            } else {
                "a group of counters (extended, base, xmtdisc, rcverr or all)"
            };
            ParseError::new(text, expected)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every attribute that is declared, each once.
    fn attributes() -> impl Iterator<Item = &'static Attribute> {
        Group::ALL.into_iter().map(Group::attribute).chain([&CLASS_PORT_INFO])
    }

    /// Field, first bit, width, name in records, index, factor.
    type Row = (&'static str, u16, u8, &'static str, Option<u8>, u64);

    /// The rows of `pma-fields.tsv` for an attribute.
    fn rows(id: u16) -> Vec<Row> {
        let table = include_str!("../../../tests/data/pma-fields.tsv");
        let cells = table.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
        cells
            .filter(|row| row[0].eq_ignore_ascii_case(&format!("{id:#06x}")))
            .map(|row| {
                let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{row:?}"));
                let index = (!row[7].is_empty()).then(|| number(row[7]) as u8);
                (row[3], number(row[4]) as u16, number(row[5]) as u8, row[6], index, number(row[8]))
            })
            .collect()
    }

    #[test]
    fn every_field_stands_where_the_reference_measured_it() {
        for attribute in attributes() {
            let expected = rows(attribute.id);
            assert!(!expected.is_empty(), "{} has no row in the reference", attribute.name);
            let declared: Vec<_> = attribute.fields.iter().map(|f| (f.name, f.first_bit, f.width, f.json, None, f.factor())).collect();
            let mut in_wire_order = expected;
            in_wire_order.sort_by_key(|row| row.1);
            if attribute.id == CLASS_PORT_INFO.id {
                // Only a part of it is declared.
                in_wire_order.retain(|row| attribute.field(row.0).is_some());
            }
            assert_eq!(declared, in_wire_order, "{}", attribute.name);
        }
    }

    #[test]
    fn a_request_covers_a_dirty_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        Query { attribute: 0x1d, port: Some(PortNum(7)) }.emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[1, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x1d, 0, 0, 0, 0, 0, 0]);
        expected[65] = 7;
        assert_eq!(mad, expected);
    }

    #[test]
    fn a_reply_is_taken_only_if_all_of_it_fits() {
        let query = Query { attribute: 0x12, port: Some(PortNum(3)) };
        let mut good = [0; MAD_LEN];
        query.emit(Tid(1), &mut good);
        good[3] = METHOD_GET_RESP;
        assert!(query.answer(&good, MAD_LEN).is_ok());
        assert_eq!(query.answer(&good, 24), Err(BadReply::Length(24)));
        let with = |at: usize, octet: u8| {
            let mut mad = good;
            mad[at] = octet;
            query.answer(&mad, MAD_LEN).expect_err("one octet is wrong")
        };
        assert_eq!(with(1, 0x03), BadReply::Class { class: 3, version: 1 });
        assert_eq!(with(2, 2), BadReply::Class { class: 4, version: 2 });
        assert_eq!(with(3, 0x01), BadReply::Method(1));
        assert_eq!(with(5, 0x0c), BadReply::Status(MadStatus::UNSUPPORTED_ATTRIBUTE));
        assert_eq!(with(17, 0x1d), BadReply::Attribute(0x1d));
        assert_eq!(with(65, 4), BadReply::PortSelect(4));
    }

    #[test]
    fn groups_are_named_as_perfquery_names_them() {
        for group in Group::ALL {
            assert_eq!(group.to_string().parse(), Ok(group));
        }
        let not_yet = "vlopdata".parse::<Group>().expect_err("not read yet").to_string();
        assert!(not_yet.contains("by this version"), "{not_yet}");
    }

    proptest! {
        /// What is written is read again, its neighbours stay as they were, and a value that is too large sticks at all ones.
        #[test]
        fn fields_round_trip_in_dirty_buffers(data in prop::array::uniform32(any::<u8>()), value in any::<u64>(), pick in any::<prop::sample::Index>()) {
            let mut octets: Data = [0; DATA_LEN];
            octets.iter_mut().zip(data.iter().cycle()).for_each(|(octet, noise)| *octet = *noise);
            let fields: Vec<&Field> = attributes().flat_map(|attribute| attribute.fields).filter(|field| field.width <= 64).collect();
            let field = fields[pick.index(fields.len())];
            let before = octets;
            let value = value >> (value % 64);
            field.set_raw(&mut octets, 0, value);
            prop_assert_eq!(field.raw(&octets, 0), value.min(field.all_ones()));
            field.set_raw(&mut octets, 0, field.raw(&before, 0));
            prop_assert_eq!(octets, before);
        }

        #[test]
        fn no_octets_make_the_check_of_a_reply_panic(noise in prop::collection::vec(any::<u8>(), MAD_LEN), len in 0usize..400) {
            let mad: Mad = noise.try_into().expect("as long as a MAD");
            let _ = Query { attribute: 0x12, port: Some(PortNum(1)) }.answer(&mad, len);
        }
    }
}
