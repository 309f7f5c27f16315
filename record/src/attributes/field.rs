//! The fields of an attribute or a register. A field is a run of bits with a name and, if records
//! have it, a unit.

use std::fmt;

/// An attribute: a table of fields.
#[derive(Debug)]
pub struct Attribute {
    /// AttributeID.
    pub id: u16,
    /// IBA's name.
    pub name: &'static str,
    /// Section in the InfiniBand Architecture Specification, vol. 1.
    pub section: &'static str,
    /// Capability that an agent needs to have the attribute.
    pub needs: Needs,
    /// Fields in the order of the wire.
    pub fields: &'static [Field],
}

/// A field is a run of bits in an attribute or a register, or an array of runs of the same width.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name in the IBA specification, or in libibmad if the two differ. For a register, the
    /// name in the register database of mstflint.
    pub name: &'static str,
    /// Name in records, in snake case. It ends with the unit, unless the unit is packets or
    /// events.
    pub json: &'static str,
    /// First wire bit: 0 is the most significant bit of the first octet of the attribute or the
    /// register.
    pub first_bit: u16,
    /// Bits of one value: 1 to 64, or 128 for a GID, of which only the lower half, the GUID, is
    /// read as a number.
    pub width: u8,
    /// Number of values: 1, or the number of SLs, VLs, lanes, sensors or characters.
    pub len: u8,
    /// Bits from one value of an array to the next one.
    pub stride: u8,
    /// Unit of the value. `None` if records do not have the field.
    pub unit: Option<Unit>,
    /// Capability that an agent needs for the field to be valid.
    pub needs: Needs,
    /// Whether a test compares the position with that of another implementation.
    pub is_compared: bool,
}

/// Unit of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Data: words of 4 bytes in the MAD, bytes in a record.
    Words,
    /// Packets.
    Packets,
    /// Events.
    Events,
    /// Ticks (see PortSamplesControl) in which the port had data to send and sent nothing.
    Ticks,
    /// Blocks of forward error correction.
    Blocks,
    /// Symbols of forward error correction.
    Symbols,
    /// Bits on the link.
    Bits,
    /// Codewords of the physical layer's retransmission (PLR).
    Codewords,
    /// No public source gives the unit of this counter.
    Unknown,
    /// Not a counter, but a setting, a state or a property of the device.
    Setting,
    /// One character of a text.
    Text,
    /// Temperature: a signed number of the given fractions of a degree Celsius.
    Celsius(u16),
    /// A measured number: the unit, and the factor and divisor that convert the number to it.
    Measure(&'static str, u16, u16),
}

/// A capability that an attribute or a field needs (IBA vol. 1, 16.1.3.1 and 16.1.3.2). An agent
/// reports its capabilities in ClassPortInfo and PortSamplesControl.
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
    /// The bit with this number of PortSamplesControl.OptionMask.
    Option(u8),
    /// OptionMask bit 28, or CapabilityMask bit 14.
    ExtendedSpeeds,
    /// The FEC of the port is not a Reed-Solomon code, or the agent lacks CapabilityMask bit 14.
    OtherFec,
    /// CapabilityMask bit 14, and the FEC of the port is a Reed-Solomon code.
    RsFec,
}

impl fmt::Display for Unit {
    /// Prints the unit that values have in records, which is bytes for words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Words => "bytes",
            Self::Packets => "packets",
            Self::Events => "events",
            Self::Ticks => "ticks",
            Self::Blocks => "FEC blocks",
            Self::Symbols => "FEC symbols",
            Self::Bits => "bits",
            Self::Codewords => "codewords",
            Self::Unknown => "not public",
            Self::Setting => "setting",
            Self::Text => "text",
            Self::Celsius(_) => "C",
            Self::Measure(unit, ..) => unit,
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
    pub const fn new(name: &'static str, json: &'static str, first_bit: u16, width: u8) -> Self {
        Self {
            name,
            json,
            first_bit,
            width,
            len: 1,
            stride: width,
            unit: None,
            needs: Needs::Nothing,
            is_compared: true,
        }
    }

    /// Makes the field an array of adjacent values, one for each SL, VL, lane or character.
    pub const fn array(mut self, len: u8) -> Self {
        self.len = len;
        self
    }

    /// Sets the bits from one value of an array to the next one.
    pub const fn stride(mut self, bits: u8) -> Self {
        self.stride = bits;
        self
    }

    /// Marks a position that no other implementation confirms.
    pub const fn not_compared(mut self) -> Self {
        self.is_compared = false;
        self
    }

    /// Gives the field a unit. Records have such a field.
    pub const fn counts(mut self, unit: Unit) -> Self {
        self.unit = Some(unit);
        self
    }

    /// Makes the field a setting, which records have.
    pub const fn setting(self) -> Self {
        self.counts(Unit::Setting)
    }

    /// Makes the field need a capability.
    pub const fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    /// Returns the max value of this width (all bits one). A counter of fewer than 64 bits stops
    /// there.
    pub const fn all_ones(&self) -> u64 {
        if self.width < 64 {
            u64::MAX >> (64 - self.width)
        } else {
            u64::MAX
        }
    }

    /// Returns whether the field is a counter, which only grows until it is cleared.
    pub const fn is_counter(&self) -> bool {
        !matches!(
            self.unit,
            None | Some(Unit::Setting | Unit::Text | Unit::Celsius(_) | Unit::Measure(..))
        )
    }

    /// Returns the first wire bit behind the field.
    pub const fn end_bit(&self) -> u16 {
        self.first_bit + (self.len as u16 - 1) * self.stride as u16 + self.width as u16
    }

    /// Returns the factor between the value in the MAD and the value in a record: 4 for words,
    /// otherwise 1.
    pub const fn factor(&self) -> u64 {
        match self.unit {
            Some(Unit::Words) => 4,
            _ => 1,
        }
    }

    /// Converts a value of the MAD to the unit of records: words become bytes. A result that does
    /// not fit into 64 bits becomes the max 64-bit number.
    pub fn value(&self, raw: u64) -> u64 {
        raw.saturating_mul(self.factor())
    }

    /// Converts a value of the MAD to a number in its unit, with a sign and a fraction where the
    /// unit has them.
    pub fn number(&self, raw: u64) -> f64 {
        match self.unit {
            Some(Unit::Celsius(per)) => {
                let unused = 64 - u32::from(self.width.min(64));
                ((raw << unused).cast_signed() >> unused) as f64 / f64::from(per)
            }
            Some(Unit::Measure(_, factor, divisor)) => {
                raw as f64 * f64::from(factor) / f64::from(divisor)
            }
            _ => self.value(raw) as f64,
        }
    }

    /// Returns whether the counter is saturated: it has fewer than 64 bits and all of them are
    /// one, so its true value is this value or larger.
    pub const fn is_saturated(&self, raw: u64) -> bool {
        self.is_counter() && self.width < 64 && raw == self.all_ones()
    }
}
