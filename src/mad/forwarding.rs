//! How a switch forwards packets, as far as IBA defines it: SwitchInfo, the linear forwarding table
//! and the mapping of service levels to virtual lanes (IBA vol. 1, 14.2.5.4, 14.2.5.10, 14.2.5.8).
//!
//! The requests are those of [`smp`](super::smp). The modifier of a request for the table is the
//! number of the block.

use ibnet_record::attributes::Field;
use ibnet_record::types::{Lid, PortNum};

use super::pma::{Bits, Data};

/// AttributeID of SwitchInfo.
pub const SWITCH_INFO: u16 = 0x0012;
/// AttributeID of SLtoVLMappingTable: see [`sl_to_vl_modifier`].
pub const SL_TO_VL: u16 = 0x0017;
/// AttributeID of LinearForwardingTable: one octet for each LID of a block, the number of the port
/// through which the switch forwards to this LID.
pub const LINEAR_FORWARDING_TABLE: u16 = 0x0019;

/// LIDs of a block of the linear forwarding table.
pub const BLOCK_LIDS: u16 = 64;

/// A block of the linear forwarding table: the port of each LID.
pub type Block = [u8; BLOCK_LIDS as usize];

/// Max number of blocks of the linear forwarding table.
pub const MAX_BLOCKS: usize = (Lid::MAX_UNICAST.0 / BLOCK_LIDS + 1) as usize;

/// Port number in the table for a LID to which the switch has no route.
pub const NO_ROUTE: u8 = 255;

/// The fields of SwitchInfo that ibnet uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchInfo {
    /// LinearFDBCap: number of entries that the linear table can have.
    pub linear_cap: u16,
    /// LinearFDBTop: the largest LID that the switch forwards.
    pub linear_top: u16,
}

const LINEAR_CAP: Field = Field::new("LinearFDBCap", "linear_fdb_cap", 0, 16);
const LINEAR_TOP: Field = Field::new("LinearFDBTop", "linear_fdb_top", 48, 16);

/// The fields of the attribute that [`SwitchInfo`] contains.
pub static SWITCH_INFO_FIELDS: [Field; 2] = [LINEAR_CAP, LINEAR_TOP];

impl SwitchInfo {
    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        Self {
            linear_cap: LINEAR_CAP.raw(data, 0) as u16,
            linear_top: LINEAR_TOP.raw(data, 0) as u16,
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        LINEAR_CAP.set_raw(data, 0, self.linear_cap.into());
        LINEAR_TOP.set_raw(data, 0, self.linear_top.into());
    }

    /// Returns the number of blocks that have a LID up to LinearFDBTop.
    pub fn blocks(&self) -> u16 {
        self.linear_top.min(Lid::MAX_UNICAST.0) / BLOCK_LIDS + 1
    }
}

/// Returns the block of a reply.
pub fn block_of(data: &Data) -> Block {
    std::array::from_fn(|place| data[place])
}

/// Returns the modifier of the request for the mapping of packets that a switch receives at the
/// port `from` and sends at the port `to`.
pub fn sl_to_vl_modifier(from: PortNum, to: PortNum) -> u32 {
    u32::from(from.0) << 8 | u32::from(to.0)
}

/// Returns the mapping: the VL of each SL, four bits each, with SL 0 in the highest bits.
pub fn sl_to_vl(data: &Data) -> u64 {
    data[..8]
        .iter()
        .fold(0, |all, octet| all << 8 | u64::from(*octet))
}

/// Returns the VL of each SL in a mapping.
pub fn vls(mapping: u64) -> [u8; 16] {
    std::array::from_fn(|sl| (mapping >> (60 - 4 * sl) & 0xf) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn switch_info_is_parsed_from_its_octets() {
        let mut data = [0xff; DATA_LEN];
        data[..8].copy_from_slice(&[0xc0, 0, 0, 0, 0x40, 0, 0x01, 0x40]);
        let info = SwitchInfo::parse(&data);
        assert_eq!((info.linear_cap, info.linear_top), (0xc000, 0x140));
        assert_eq!(info.blocks(), 6);
        let of_top = |linear_top| SwitchInfo { linear_top, ..info }.blocks();
        assert_eq!(
            [0, 63, 64, 0xffff].map(of_top),
            [1, 1, 2, MAX_BLOCKS as u16]
        );
        let mut written = [0; DATA_LEN];
        info.emit(&mut written);
        assert_eq!(SwitchInfo::parse(&written), info);
    }

    #[test]
    fn sl_0_is_in_the_first_nibble() {
        let mut data = [0xff; DATA_LEN];
        data[..8].copy_from_slice(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(vls(sl_to_vl(&data)), std::array::from_fn(|sl| sl as u8));
        assert_eq!(sl_to_vl_modifier(PortNum(3), PortNum(36)), 0x324);
    }
}
