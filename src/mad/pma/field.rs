//! The parts of an attribute: fields, each a run of bits with a name and a unit.

use std::fmt;

use super::Data;

/// An attribute: a table of fields.
#[derive(Debug)]
pub struct Attribute {
    /// AttributeID.
    pub id: u16,
    /// IBA's name.
    pub name: &'static str,
    /// Section in the InfiniBand Architecture Specification, vol. 1.
    pub section: &'static str,
    /// Capability without which an agent does not have the attribute.
    pub needs: Needs,
    /// Fields in the order of the wire.
    pub fields: &'static [Field],
}

/// A run of bits of an attribute, or an array of adjacent runs.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// IBA's name (libibmad's name where they differ).
    pub name: &'static str,
    /// Name in records: snake case, ending in the unit unless that is packets or events.
    pub json: &'static str,
    /// First wire bit.
    pub first_bit: u16,
    /// Bits of one value: 1 to 64, or 128 for a GID, of which only the lower half, a GUID, is read
    /// as a number.
    pub width: u8,
    /// Number of values: 1, or the number of SLs, VLs or lanes.
    pub len: u8,
    /// Unit of a counter or a setting; `None` for a field that a record does not have.
    pub unit: Option<Unit>,
    /// Capability without which the field has no meaning.
    pub needs: Needs,
}

/// Unit of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Words of 4 octets on the wire, octets in a record.
    Words,
    /// Packets.
    Packets,
    /// Events.
    Events,
    /// Ticks of PortSamplesControl in which the port had data to send and sent nothing.
    Ticks,
    /// Blocks of forward error correction.
    Blocks,
    /// Symbols of forward error correction.
    Symbols,
    /// A counter whose unit is in no public source.
    Unknown,
    /// Not a counter: a setting or a property of the agent.
    Setting,
}

/// A capability that an attribute or a field needs (IBA vol. 1, 16.1.3.1 and 16.1.3.2; see
/// [`Capabilities`](super::Capabilities)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needs {
    /// None.
    Nothing,
    /// CapabilityMask bit 9 or 10: 64-bit counters.
    ExtendedWidth,
    /// CapabilityMask bit 9: 64-bit counters, including unicast and multicast packets.
    ExtendedWidthUnicast,
    /// CapabilityMask bit 12: PortXmitWait.
    XmitWait,
    /// CapabilityMask bit 15: QP1Dropped.
    Qp1Dropped,
    /// CapabilityMask2 bit 1: 64-bit error counters.
    ExtendedErrors,
    /// This bit of PortSamplesControl.OptionMask.
    Option(u8),
    /// OptionMask bit 28, or CapabilityMask bit 14, which implies it.
    ExtendedSpeeds,
    /// A port whose FEC is not a Reed-Solomon code, or an agent without CapabilityMask bit 14.
    OtherFec,
    /// CapabilityMask bit 14, and a port whose FEC is a Reed-Solomon code.
    RsFec,
}

impl fmt::Display for Unit {
    /// Prints the unit of values in records, which are octets where the wire counts words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Words => "octets",
            Self::Packets => "packets",
            Self::Events => "events",
            Self::Ticks => "ticks",
            Self::Blocks => "FEC blocks",
            Self::Symbols => "FEC symbols",
            Self::Unknown => "not public",
            Self::Setting => "setting",
        })
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "always",
            Self::ExtendedWidth => "CapabilityMask bit 9 or 10",
            Self::ExtendedWidthUnicast => "CapabilityMask bit 9",
            Self::XmitWait => "CapabilityMask bit 12",
            Self::Qp1Dropped => "CapabilityMask bit 15",
            Self::ExtendedErrors => "CapabilityMask2 bit 1",
            Self::Option(bit) => return write!(f, "OptionMask bit {bit}"),
            Self::ExtendedSpeeds => "OptionMask bit 28 or CapabilityMask bit 14",
            Self::OtherFec => "no CapabilityMask bit 14, or FEC that is no Reed-Solomon code",
            Self::RsFec => "CapabilityMask bit 14, and FEC that is a Reed-Solomon code",
        })
    }
}

impl Attribute {
    /// Returns the field with this IBA name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the fields that a record can have.
    pub fn counters(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| field.unit.is_some())
    }
}

impl Field {
    /// Creates a field that is not in records.
    pub(crate) const fn new(name: &'static str, json: &'static str, first_bit: u16, width: u8) -> Self {
        Self { name, json, first_bit, width, len: 1, unit: None, needs: Needs::Nothing }
    }

    /// Makes the field an array of adjacent values, one for each SL, VL or lane.
    pub(crate) const fn array(mut self, len: u8) -> Self {
        self.len = len;
        self
    }

    /// Makes the field a counter, which is in records.
    pub(crate) const fn counts(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Makes the field a setting, which is in records.
    pub(crate) const fn setting(self) -> Self {
        self.counts(Unit::Setting)
    }

    /// Makes the field need a capability.
    pub(crate) const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Returns all ones of this width: the value at which a counter of fewer than 64 bits stops.
    pub const fn all_ones(&self) -> u64 {
        if self.width < 64 { u64::MAX >> (64 - self.width) } else { u64::MAX }
    }

    /// Returns whether the field is a counter, which only grows until it is cleared.
    pub const fn is_counter(&self) -> bool {
        !matches!(self.unit, None | Some(Unit::Setting))
    }

    /// Returns the factor from a value on the wire to a value in a record.
    pub const fn factor(&self) -> u64 {
        match self.unit {
            Some(Unit::Words) => 4,
            _ => 1,
        }
    }

    /// Returns the bits of the value at `index`, which is 0 unless the field is an array.
    ///
    /// # Panics
    /// If `index` is not below [`Field::len`].
    pub fn raw(&self, data: &Data, index: u8) -> u64 {
        let (octet, shift) = self.place(index);
        match (self.width, shift) {
            (8, 0) => u64::from(data[octet]),
            (16, 0) => data[octet..].first_chunk().map_or(0, |octets| u16::from_be_bytes(*octets).into()),
            (32, 0) => data[octet..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets).into()),
            (64, 0) => data[octet..].first_chunk().map_or(0, |octets| u64::from_be_bytes(*octets)),
            _ => {
                let bits = shift + usize::from(self.width);
                let window = data[octet..octet + bits.div_ceil(8)].iter().fold(0u128, |value, octet| value << 8 | u128::from(*octet));
                (window >> (bits.next_multiple_of(8) - bits)) as u64 & self.all_ones()
            }
        }
    }

    /// Writes the bits of the value at `index`. Other bits stay. A value that is too large is
    /// written as all ones, like a saturated counter.
    ///
    /// # Panics
    /// If `index` is not below [`Field::len`].
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

    /// Returns the value in the unit of records: octets where the wire counts words. Stops at the
    /// largest 64-bit number.
    pub fn value(&self, raw: u64) -> u64 {
        raw.saturating_mul(self.factor())
    }

    /// Returns whether the value means "at least": a counter of fewer than 64 bits at all ones.
    pub const fn is_saturated(&self, raw: u64) -> bool {
        self.is_counter() && self.width < 64 && raw == self.all_ones()
    }

    /// Returns the octet, and the bit in it, at which the value at `index` begins.
    fn place(&self, index: u8) -> (usize, usize) {
        assert!(index < self.len, "{} has {} values", self.name, self.len);
        let bit = usize::from(self.first_bit) + usize::from(index) * usize::from(self.width);
        (bit / 8, bit % 8)
    }
}
