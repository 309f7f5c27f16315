//! What an attribute is made of: fields, each a run of bits with a name and a unit.

use std::fmt;

use super::Data;

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
    /// Bits of one value: 1 to 64, or 128 for a GID, of which only the lower half, a GUID, is read as a number.
    pub width: u8,
    /// Values: 1, or how many SLs, VLs or lanes there are.
    pub len: u8,
    /// What it counts; `None` for what is only there to ask with.
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
    /// Blocks of forward error correction.
    Blocks,
    /// Symbols of forward error correction.
    Symbols,
    /// A counter whose unit no public source tells.
    Unknown,
    /// No counter: how the agent is set, or what it has.
    Setting,
}

/// A capability that gates an attribute or a field (IBA vol. 1, 16.1.3.1 and 16.1.3.2; see [`Capabilities`](super::Capabilities)).
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
    /// This bit of PortSamplesControl.OptionMask.
    Option(u8),
    /// OptionMask bit 28, or CapabilityMask bit 14, which says more of the same.
    ExtendedSpeeds,
    /// A port whose FEC is no Reed-Solomon code, or an agent without CapabilityMask bit 14.
    OtherFec,
    /// CapabilityMask bit 14, and a port whose FEC is a Reed-Solomon code.
    RsFec,
}

impl fmt::Display for Unit {
    /// The unit of a record's values, which are octets where the wire counts words.
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
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that a record shows.
    pub fn counters(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| field.unit.is_some())
    }
}

impl Field {
    /// A field that is no counter.
    pub(crate) const fn new(name: &'static str, json: &'static str, first_bit: u16, width: u8) -> Self {
        Self { name, json, first_bit, width, len: 1, unit: None, needs: Needs::Nothing }
    }

    /// Makes it an array of values side by side, one for each SL, VL or lane.
    pub(crate) const fn array(mut self, len: u8) -> Self {
        self.len = len;
        self
    }

    /// Makes it a counter, which a record shows.
    pub(crate) const fn counts(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Makes it a setting, which a record shows.
    pub(crate) const fn setting(self) -> Self {
        self.counts(Unit::Setting)
    }

    /// Makes it mean something only where an agent is capable of it.
    pub(crate) const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// All ones of this width: where a counter of fewer than 64 bits stops.
    pub const fn all_ones(&self) -> u64 {
        if self.width < 64 { u64::MAX >> (64 - self.width) } else { u64::MAX }
    }

    /// Whether it counts, so that it only grows until it is cleared.
    pub const fn is_counter(&self) -> bool {
        !matches!(self.unit, None | Some(Unit::Setting))
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
        self.is_counter() && self.width < 64 && raw == self.all_ones()
    }

    /// The octet and the bit in it where the value at `index` begins.
    fn place(&self, index: u8) -> (usize, usize) {
        assert!(index < self.len, "{} has {} values", self.name, self.len);
        let bit = usize::from(self.first_bit) + usize::from(index) * usize::from(self.width);
        (bit / 8, bit % 8)
    }
}
