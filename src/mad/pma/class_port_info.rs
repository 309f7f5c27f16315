//! ClassPortInfo (attribute 0x0001, IBA vol. 1, 13.4.8.1 and 16.1.3.1): 72 octets. Mandatory, has no PortSelect.
//!
//! CapabilityMask says which optional parts of the other attributes mean anything on this agent. What it does not claim is
//! absent from a record, never zero.

use super::{Attribute, Data, Field, Needs};

/// The attribute, as far as it is used: the fields of redirection and of traps are not declared yet.
pub static CLASS_PORT_INFO: Attribute = Attribute {
    id: 0x0001,
    name: "ClassPortInfo",
    section: "16.1.3.1",
    needs: Needs::Nothing,
    fields: &[
        Field::new("BaseVersion", "base_version", 0, 8),
        Field::new("ClassVersion", "class_version", 8, 8),
        CAPABILITY_MASK,
        CAPABILITY_MASK2,
        Field::new("RespTimeVal", "resp_time_val", 59, 5),
    ],
};

const CAPABILITY_MASK: Field = Field::new("CapabilityMask", "capability_mask", 16, 16);
const CAPABILITY_MASK2: Field = Field::new("CapabilityMask2", "capability_mask2", 32, 27);

/// What an agent says that it can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// CapabilityMask, bit n of IBA's numbering is `1 << n`.
    pub mask: u16,
    /// CapabilityMask2, likewise.
    pub mask2: u32,
}

impl Capabilities {
    /// CapabilityMask: PortSelect 0xFF reads all ports at once.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// CapabilityMask: 64-bit counters, with unicast and multicast packets.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// CapabilityMask: 64-bit counters without them.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// CapabilityMask: PortXmitWait in PortCounters.
    pub const XMIT_WAIT: u16 = 1 << 12;
    /// CapabilityMask: QP1Dropped in PortCounters.
    pub const QP1_DROPPED: u16 = 1 << 15;
    /// CapabilityMask2: 64-bit error counters.
    pub const ADDITIONAL_EXTENDED: u32 = 1 << 1;

    /// Reads them from the attribute.
    pub fn parse(data: &Data) -> Self {
        Self { mask: CAPABILITY_MASK.raw(data, 0) as u16, mask2: CAPABILITY_MASK2.raw(data, 0) as u32 }
    }

    /// Writes them into the attribute.
    pub fn emit(&self, data: &mut Data) {
        CAPABILITY_MASK.set_raw(data, 0, self.mask.into());
        CAPABILITY_MASK2.set_raw(data, 0, self.mask2.into());
    }

    /// Whether what is gated so is there.
    pub const fn have(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::ExtendedWidth => self.mask & (Self::EXTENDED_WIDTH | Self::EXTENDED_WIDTH_NO_IETF) != 0,
            Needs::ExtendedWidthUnicast => self.mask & Self::EXTENDED_WIDTH != 0,
            Needs::XmitWait => self.mask & Self::XMIT_WAIT != 0,
            Needs::Qp1Dropped => self.mask & Self::QP1_DROPPED != 0,
            Needs::ExtendedErrors => self.mask2 & Self::ADDITIONAL_EXTENDED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn masks_are_read_from_their_octets() {
        let mut data = [0; DATA_LEN];
        // As ibsim's switches answer: AllPortSelect, IsExtendedWidthSupported, PortXmitWait; RespTimeVal 18.
        data[..8].copy_from_slice(&[1, 1, 0x13, 0x00, 0, 0, 0, 18]);
        let capabilities = Capabilities::parse(&data);
        assert_eq!(capabilities, Capabilities { mask: 0x1300, mask2: 0 });
        assert!(capabilities.have(Needs::ExtendedWidthUnicast) && capabilities.have(Needs::XmitWait));
        assert!(!capabilities.have(Needs::Qp1Dropped) && !capabilities.have(Needs::ExtendedErrors));
        // Bit 1 of CapabilityMask2 is 0x40 of octet 7.
        data[7] = 0x40 | 18;
        assert!(Capabilities::parse(&data).have(Needs::ExtendedErrors));
    }

    #[test]
    fn emit_is_the_inverse_and_spares_its_neighbours() {
        let mut data = [0xa5; DATA_LEN];
        let capabilities = Capabilities { mask: 0x9201, mask2: 0x0012_3456 };
        capabilities.emit(&mut data);
        assert_eq!(Capabilities::parse(&data), capabilities);
        assert_eq!((data[1], data[7] & 0x1f, data[8]), (0xa5, 0x05, 0xa5));
    }
}
