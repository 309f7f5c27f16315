//! ClassPortInfo (attribute 0x0001, IBA vol. 1, 13.4.8.1 and 16.1.3.1): the capabilities of an
//! agent. Every agent has this attribute, which has 72 octets and no PortSelect.
//!
//! CapabilityMask shows which optional parts of other attributes the agent has. Counters of a part
//! that the agent lacks are left out of the records; they never appear as zero.

use ibnet_record::attributes::{Attribute, Field, Group, Needs};
use ibnet_record::types::{Lid, NodeKind};

use super::{Bits, Data};

/// The attribute.
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
        // A GID has 128 bits: a subnet prefix and a GUID.
        Field::new("RedirectGID", "redirect_gid", 64, 128),
        Field::new("RedirectTC", "redirect_tc", 192, 8),
        REDIRECT_SL,
        Field::new("RedirectFL", "redirect_fl", 204, 20),
        REDIRECT_LID,
        REDIRECT_PKEY,
        REDIRECT_QP,
        REDIRECT_QKEY,
        Field::new("TrapGID", "trap_gid", 320, 128),
        Field::new("TrapTC", "trap_tc", 448, 8),
        Field::new("TrapSL", "trap_sl", 456, 4),
        Field::new("TrapFL", "trap_fl", 460, 20),
        Field::new("TrapLID", "trap_lid", 480, 16),
        Field::new("TrapPKey", "trap_pkey", 496, 16),
        Field::new("TrapHL", "trap_hl", 512, 8),
        Field::new("TrapQP", "trap_qp", 520, 24),
        Field::new("TrapQKey", "trap_qkey", 544, 32),
    ],
};

const CAPABILITY_MASK: Field = Field::new("CapabilityMask", "capability_mask", 16, 16);
const CAPABILITY_MASK2: Field = Field::new("CapabilityMask2", "capability_mask2", 32, 27);
const REDIRECT_SL: Field = Field::new("RedirectSL", "redirect_sl", 200, 4);
const REDIRECT_LID: Field = Field::new("RedirectLID", "redirect_lid", 224, 16);
const REDIRECT_PKEY: Field = Field::new("RedirectPKey", "redirect_pkey", 240, 16);
const REDIRECT_QP: Field = Field::new("RedirectQP", "redirect_qp", 264, 24);
const REDIRECT_QKEY: Field = Field::new("RedirectQKey", "redirect_qkey", 288, 32);

/// The capabilities that an agent reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// CapabilityMask. Bit n in IBA is `1 << n`.
    pub mask: u16,
    /// CapabilityMask2. Bit n in IBA is `1 << n`.
    pub mask2: u32,
    /// OptionMask of PortSamplesControl. Bit n in IBA is `1 << n`. `None` if the agent did not
    /// report it.
    pub option_mask: Option<u64>,
}

/// A redirection (MAD status 0x0002): the address of the agent that answers in place of the
/// queried one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// LID of the agent.
    pub lid: Lid,
    /// Queue pair of the agent.
    pub qp: u32,
    /// Key of the queue pair.
    pub qkey: u32,
    /// Service level to the agent.
    pub sl: u8,
    /// P_Key of the partition in which the agent answers.
    pub pkey: u16,
}

impl Redirect {
    /// Parses the attribute. Returns `None` if it has no unicast LID: such a redirection leads by
    /// a GID to another subnet, and ibnet does not query other subnets.
    pub fn parse(data: &Data) -> Option<Self> {
        let lid = Lid(REDIRECT_LID.raw(data, 0) as u16);
        lid.is_unicast().then(|| Self {
            lid,
            qp: REDIRECT_QP.raw(data, 0) as u32,
            qkey: REDIRECT_QKEY.raw(data, 0) as u32,
            sl: REDIRECT_SL.raw(data, 0) as u8,
            pkey: REDIRECT_PKEY.raw(data, 0) as u16,
        })
    }

    /// Writes the redirection into the attribute.
    pub fn emit(&self, data: &mut Data) {
        REDIRECT_LID.set_raw(data, 0, self.lid.0.into());
        REDIRECT_QP.set_raw(data, 0, self.qp.into());
        REDIRECT_QKEY.set_raw(data, 0, self.qkey.into());
        REDIRECT_SL.set_raw(data, 0, self.sl.into());
        REDIRECT_PKEY.set_raw(data, 0, self.pkey.into());
    }
}

impl Capabilities {
    /// CapabilityMask bit: PortSelect 0xFF reads all ports at once.
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// CapabilityMask: 64-bit counters, with unicast and multicast packets.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// CapabilityMask: 64-bit counters without unicast and multicast packets.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// CapabilityMask: PortXmitWait in PortCounters.
    pub const XMIT_WAIT: u16 = 1 << 12;
    /// CapabilityMask: the layout of PortExtendedSpeedsCounters for Reed-Solomon codes.
    pub const RS_FEC: u16 = 1 << 14;
    /// CapabilityMask: QP1Dropped in PortCounters.
    pub const QP1_DROPPED: u16 = 1 << 15;
    /// CapabilityMask2: the agent may require a PM_Key.
    pub const PM_KEY: u32 = 1;
    /// CapabilityMask2: 64-bit error counters.
    pub const ADDITIONAL_EXTENDED: u32 = 1 << 1;

    /// OptionMask: PortExtendedSpeedsCounters.
    const EXTENDED_SPEEDS: u8 = 28;

    /// Parses both masks of the attribute. OptionMask is in another attribute, PortSamplesControl.
    pub fn parse(data: &Data) -> Self {
        Self {
            mask: CAPABILITY_MASK.raw(data, 0) as u16,
            mask2: CAPABILITY_MASK2.raw(data, 0) as u32,
            option_mask: None,
        }
    }

    /// Writes the masks into the attribute.
    pub fn emit(&self, data: &mut Data) {
        CAPABILITY_MASK.set_raw(data, 0, self.mask.into());
        CAPABILITY_MASK2.set_raw(data, 0, self.mask2.into());
    }

    /// Returns whether the capabilities include `needs`. Without OptionMask, options count as
    /// present until the agent refuses them. `OtherFec` is always included, because the FEC of a
    /// port is not a capability of the agent.
    pub const fn have(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::ExtendedWidth => {
                self.mask & (Self::EXTENDED_WIDTH | Self::EXTENDED_WIDTH_NO_IETF) != 0
            }
            Needs::ExtendedWidthUnicast => self.mask & Self::EXTENDED_WIDTH != 0,
            Needs::XmitWait => self.mask & Self::XMIT_WAIT != 0,
            Needs::Qp1Dropped => self.mask & Self::QP1_DROPPED != 0,
            Needs::ExtendedErrors => self.mask2 & Self::ADDITIONAL_EXTENDED != 0,
            Needs::Option(bit) => self.option(bit),
            Needs::ExtendedSpeeds => {
                self.option(Self::EXTENDED_SPEEDS) || self.mask & Self::RS_FEC != 0
            }
            Needs::OtherFec => true,
            Needs::RsFec => self.mask & Self::RS_FEC != 0,
        }
    }

    /// Returns whether the agent of such a node has the attribute of a group and at least one field
    /// of it.
    pub fn support(self, group: Group, kind: NodeKind) -> bool {
        (!group.is_of_switches() || kind == NodeKind::Switch)
            && self.have(group.attribute().needs)
            && group.fields().any(|field| self.have(field.needs))
    }

    /// Returns whether a group is not needed. This is the case if the agent has each counter of
    /// this group, with more bits, in another one of `groups`.
    pub fn supersede(self, group: Group, groups: &[Group]) -> bool {
        let mut counters = group
            .attribute()
            .counters()
            .filter(|field| self.have(field.needs));
        counters.all(|field| {
            let wider = group.wider(field).filter(|(wide, _)| groups.contains(wide));
            wider.is_some_and(|(wide, counter)| {
                self.have(wide.attribute().needs) && self.have(counter.needs)
            })
        })
    }

    const fn option(&self, bit: u8) -> bool {
        match self.option_mask {
            Some(mask) => mask >> bit & 1 == 1,
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn masks_are_parsed_from_their_octets() {
        let mut data = [0; DATA_LEN];
        // The reply of ibsim's switches has the bits AllPortSelect, IsExtendedWidthSupported and
        // PortXmitWait, and RespTimeVal 18.
        data[..8].copy_from_slice(&[1, 1, 0x13, 0x00, 0, 0, 0, 18]);
        let capabilities = Capabilities::parse(&data);
        assert_eq!(
            capabilities,
            Capabilities {
                mask: 0x1300,
                mask2: 0,
                option_mask: None
            }
        );
        assert!(
            capabilities.have(Needs::ExtendedWidthUnicast) && capabilities.have(Needs::XmitWait)
        );
        assert!(!capabilities.have(Needs::Qp1Dropped) && !capabilities.have(Needs::ExtendedErrors));
        // Bit 1 of CapabilityMask2 is 0x40 of octet 7.
        data[7] = 0x40 | 18;
        assert!(Capabilities::parse(&data).have(Needs::ExtendedErrors));
    }

    #[test]
    fn emit_is_the_inverse_of_parse_and_keeps_other_bits() {
        let mut data = [0xa5; DATA_LEN];
        let capabilities = Capabilities {
            mask: 0x9201,
            mask2: 0x0012_3456,
            option_mask: None,
        };
        capabilities.emit(&mut data);
        assert_eq!(Capabilities::parse(&data), capabilities);
        assert_eq!((data[1], data[7] & 0x1f, data[8]), (0xa5, 0x05, 0xa5));
    }

    #[test]
    fn redirect_is_parsed_from_its_octets() {
        let mut data = [0; DATA_LEN];
        data[25..40].copy_from_slice(&[
            0x3f, 0, 0, 0x01, 0x02, 0x80, 0x01, 0xee, 0, 0, 5, 0x80, 1, 0, 0,
        ]);
        let redirect = Redirect {
            lid: Lid(0x0102),
            qp: 5,
            qkey: 0x8001_0000,
            sl: 3,
            pkey: 0x8001,
        };
        assert_eq!(Redirect::parse(&data), Some(redirect));
        let mut written = [0; DATA_LEN];
        redirect.emit(&mut written);
        assert_eq!(Redirect::parse(&written), Some(redirect));
        assert_eq!(Redirect::parse(&[0; DATA_LEN]), None);
    }

    #[test]
    fn group_without_its_option_mask_bit_is_not_supported() {
        let capabilities = |option_mask| Capabilities {
            mask: 0x1600,
            mask2: 0,
            option_mask,
        };
        let supported =
            |group: Group, option_mask| capabilities(option_mask).support(group, NodeKind::Switch);
        assert!(
            supported(Group::RcvErr, None)
                && supported(Group::RcvErr, Some(1 << 11))
                && !supported(Group::RcvErr, Some(1 << 12))
        );
        assert!(supported(Group::RcvSl, Some(1 << 56)) && !supported(Group::RcvSl, Some(1 << 55)));
        assert!(
            supported(Group::ExtendedSpeeds, Some(1 << 28))
                && !supported(Group::ExtendedSpeeds, Some(0))
        );
        for mandatory in [Group::Base, Group::Extended, Group::SmplCtl] {
            assert!(supported(mandatory, Some(0)), "{mandatory}");
        }
        assert!(
            !capabilities(None).support(Group::SwPortVlCong, NodeKind::Hca)
                && supported(Group::SwPortVlCong, None)
        );
    }
}
