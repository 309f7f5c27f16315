//! Subnet management, class 0x01, routed by LID (IBA vol. 1, 14.2). ibnet sends only Get requests,
//! which read the identity of a device and the state of its links.
//!
//! Besides the directed routes of [`directed`](super::directed), these are the only MADs of ibnet
//! that use queue pair 0 and VL15, which is unreliable and has no flow control. A device that
//! requires an M_Key drops these MADs without a reply.
//!
//! The attribute begins at octet 64 of the MAD, as in performance management, and has 64 octets.
//! Its fields are declared in tables of the same type as in [`pma`](super::pma).

use ibnet_record::attributes::Field;
use ibnet_record::types::{
    DATA_VLS, Guid, Lid, LinkRate, MTUS, NodeKind, PortLimits, PortNum, Tid,
};

use super::Mad;
use super::header::{Header, METHOD_GET, MadStatus};
use super::pma::{Bits, Data};

/// The management class, routed by LID.
pub const CLASS_SUBN_LID_ROUTED: u8 = 0x01;
/// Version of the class.
pub const CLASS_VERSION: u8 = 1;

/// AttributeID of NodeDescription: 64 octets of untrusted text.
pub const NODE_DESCRIPTION: u16 = 0x0010;
/// AttributeID of NodeInfo: the identity of a device.
pub const NODE_INFO: u16 = 0x0011;
/// AttributeID of PortInfo: the state of a port.
pub const PORT_INFO: u16 = 0x0015;
/// AttributeID of PortInfoExtended: error correction and other properties of a port.
pub const PORT_INFO_EXTENDED: u16 = 0x0033;
/// AttributeID of SwitchPortStateTable: the states of up to 128 ports of a switch.
pub const SWITCH_PORT_STATE_TABLE: u16 = 0x0034;

/// A request for one attribute, and for one port or block if the attribute has several.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Query {
    /// AttributeID.
    pub attribute: u16,
    /// AttributeModifier: the number of the port for an attribute of a port, the number of the
    /// block for a table, and 0 for any other attribute.
    pub modifier: u32,
}

impl Query {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_SUBN_LID_ROUTED,
            class_version: CLASS_VERSION,
            method: METHOD_GET,
            status: MadStatus::OK,
            tid,
            attribute: self.attribute,
            modifier: self.modifier,
        };
        header.emit(mad);
    }
}

/// NodeInfo (IBA vol. 1, 14.2.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeInfo {
    /// Kind of the node. `None` for a type that IBA does not define.
    pub kind: Option<NodeKind>,
    /// Number of ports.
    pub ports: u8,
    /// System image GUID, common to all nodes of one system.
    pub system_guid: Guid,
    /// Node GUID.
    pub node_guid: Guid,
    /// GUID of the port that answered. For a switch it is the GUID of port 0.
    pub port_guid: Guid,
    /// Device ID, assigned by the vendor.
    pub device_id: u16,
    /// Revision of the device, assigned by the vendor.
    pub revision: u32,
    /// Vendor ID, 24 bits.
    pub vendor_id: u32,
    /// Number of the port that received the request.
    pub local_port: PortNum,
}

const NODE_TYPE: Field = Field::new("NodeType", "node_type", 16, 8);
const NUM_PORTS: Field = Field::new("NumPorts", "num_ports", 24, 8);
const SYSTEM_GUID: Field = Field::new("SystemImageGUID", "system_image_guid", 32, 64);
const NODE_GUID: Field = Field::new("NodeGUID", "node_guid", 96, 64);
const PORT_GUID: Field = Field::new("PortGUID", "port_guid", 160, 64);
const DEVICE_ID: Field = Field::new("DeviceID", "device_id", 240, 16);
const REVISION: Field = Field::new("Revision", "revision", 256, 32);
const LOCAL_PORT: Field = Field::new("LocalPortNum", "local_port_num", 288, 8);
const VENDOR_ID: Field = Field::new("VendorID", "vendor_id", 296, 24);

/// The fields of the attribute that [`NodeInfo`] contains.
pub static NODE_INFO_FIELDS: [Field; 9] = [
    NODE_TYPE,
    NUM_PORTS,
    SYSTEM_GUID,
    NODE_GUID,
    PORT_GUID,
    DEVICE_ID,
    REVISION,
    LOCAL_PORT,
    VENDOR_ID,
];

impl NodeInfo {
    /// Returns the number of the port whose PortInfo has the LID of the device.
    pub fn base_port(&self) -> PortNum {
        match self.kind {
            Some(NodeKind::Switch) => PortNum(0),
            _ => self.local_port,
        }
    }

    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        let raw = |field: Field| field.raw(data, 0);
        Self {
            kind: match raw(NODE_TYPE) {
                1 => Some(NodeKind::Hca),
                2 => Some(NodeKind::Switch),
                3 => Some(NodeKind::Router),
                _ => None,
            },
            ports: raw(NUM_PORTS) as u8,
            system_guid: Guid(raw(SYSTEM_GUID)),
            node_guid: Guid(raw(NODE_GUID)),
            port_guid: Guid(raw(PORT_GUID)),
            device_id: raw(DEVICE_ID) as u16,
            revision: raw(REVISION) as u32,
            vendor_id: raw(VENDOR_ID) as u32,
            local_port: PortNum(raw(LOCAL_PORT) as u8),
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        let kind = match self.kind {
            Some(NodeKind::Hca) => 1,
            Some(NodeKind::Switch) => 2,
            Some(NodeKind::Router) => 3,
            None => 0,
        };
        // BaseVersion and ClassVersion.
        (data[0], data[1]) = (1, 1);
        for (field, value) in [
            (NODE_TYPE, kind),
            (NUM_PORTS, self.ports.into()),
            (SYSTEM_GUID, self.system_guid.0),
            (NODE_GUID, self.node_guid.0),
            (PORT_GUID, self.port_guid.0),
            (DEVICE_ID, self.device_id.into()),
            (REVISION, self.revision.into()),
            (VENDOR_ID, self.vendor_id.into()),
            (LOCAL_PORT, self.local_port.0.into()),
        ] {
            field.set_raw(data, 0, value);
        }
    }
}

/// Returns the base LID of a port from its PortInfo.
pub fn base_lid(data: &Data) -> Lid {
    Lid(PORT_LID.raw(data, 0) as u16)
}

/// Returns the text of NodeDescription up to its first zero byte. Replaces bytes that are not
/// UTF-8.
pub fn node_description(data: &Data) -> String {
    text(&data[..64])
}

/// Returns a text up to its first zero byte. Replaces bytes that are not UTF-8.
pub(super) fn text(octets: &[u8]) -> String {
    let end = octets.iter().position(|octet| *octet == 0);
    String::from_utf8_lossy(&octets[..end.unwrap_or(octets.len())]).into_owned()
}

/// The fields of PortInfo that ibnet uses (IBA vol. 1, 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortInfo {
    /// MasterSMLID: LID of the master subnet manager. On a switch it is valid only in port 0.
    pub master_sm_lid: Lid,
    /// CapabilityMask. On a switch only the mask of port 0 is valid.
    pub capability_mask: u32,
    /// LinkWidthActive: 1, 2, 4, 8, 16 for 1x, 4x, 8x, 12x, 2x.
    pub width: u8,
    /// CapabilityMask2. On a switch only the mask of port 0 is valid.
    pub capability_mask2: u16,
    /// PortState: 1 down, 2 initialising, 3 armed, 4 active.
    pub state: u8,
    /// LinkSpeedActive: 1, 2, 4 for SDR, DDR, QDR. FDR10 also has the value 4.
    pub speed: u8,
    /// LinkSpeedExtActive: 1, 2, 4, 8 for FDR, EDR, HDR, NDR.
    pub speed_ext: u8,
    /// LinkSpeedExtActive2: 1 for XDR.
    pub speed_ext2: u8,
    /// NeighborMTU: 1 to 5 for the MTUs in [`MTUS`].
    pub neighbor_mtu: u8,
    /// OperationalVLs: 1 to 5 for the numbers in [`DATA_VLS`].
    pub operational_vls: u8,
    /// What the port can do beyond its link, and its counts of wrong keys.
    pub limits: PortLimits,
}

const MASTER_SM_LID: Field = Field::new("MasterSMLID", "master_sm_lid", 144, 16);
const CAPABILITY_MASK: Field = Field::new("CapabilityMask", "capability_mask", 160, 32);
const WIDTH_ACTIVE: Field = Field::new("LinkWidthActive", "link_width_active", 248, 8);
const PORT_STATE: Field = Field::new("PortState", "port_state", 260, 4);
const SPEED_ACTIVE: Field = Field::new("LinkSpeedActive", "link_speed_active", 280, 4);
const NEIGHBOR_MTU: Field = Field::new("NeighborMTU", "neighbor_mtu", 288, 4);
const OPERATIONAL_VLS: Field = Field::new("OperationalVLs", "operational_vls", 344, 4);
const VL_CAP: Field = Field::new("VLCap", "vl_cap", 296, 4);
const VL_HIGH_LIMIT: Field = Field::new("VLHighLimit", "vl_high_limit", 304, 8);
const MTU_CAP: Field = Field::new("MtuCap", "mtu_cap", 332, 4);
const VL_STALL_COUNT: Field = Field::new("VLStallCount", "vl_stall_count", 336, 3);
const HOQ_LIFE: Field = Field::new("HoqLife", "hoq_life", 339, 5);
const KEY_VIOLATIONS: [Field; 3] = [
    Field::new("MkeyViolations", "mkey_violations", 352, 16),
    Field::new("PkeyViolations", "pkey_violations", 368, 16),
    Field::new("QkeyViolations", "qkey_violations", 384, 16),
];
const SPEED_EXT2_ACTIVE: Field =
    Field::new("LinkSpeedExtActive2", "link_speed_ext_active2", 449, 2);
const CAPABILITY_MASK2: Field = Field::new("CapabilityMask2", "capability_mask2", 480, 16);
const SPEED_EXT_ACTIVE: Field = Field::new("LinkSpeedExtActive", "link_speed_ext_active", 496, 4);

/// Base LID of a port ([`base_lid`]). On a switch only that of port 0 is valid.
pub const PORT_LID: Field = Field::new("LID", "lid", 128, 16);
/// PortPhysicalState.
pub const PHYSICAL_STATE: Field = Field::new("PortPhysicalState", "physical_state", 264, 4);
/// PortPhysicalState of a port with a working cable, whether or not its link carries data.
pub const LINK_UP: u64 = 5;
/// PortPhysicalState of a port that looks for the other end of a cable.
pub const POLLING: u64 = 2;

/// The fields of the attribute that [`PortInfo`] contains.
pub static PORT_INFO_FIELDS: [Field; 18] = [
    MASTER_SM_LID,
    CAPABILITY_MASK,
    WIDTH_ACTIVE,
    PORT_STATE,
    SPEED_ACTIVE,
    NEIGHBOR_MTU,
    VL_CAP,
    VL_HIGH_LIMIT,
    MTU_CAP,
    VL_STALL_COUNT,
    HOQ_LIFE,
    OPERATIONAL_VLS,
    KEY_VIOLATIONS[0],
    KEY_VIOLATIONS[1],
    KEY_VIOLATIONS[2],
    SPEED_EXT2_ACTIVE,
    CAPABILITY_MASK2,
    SPEED_EXT_ACTIVE,
];

/// Bit of PortInfo.CapabilityMask: LinkSpeedExtActive is valid.
pub const IS_EXTENDED_SPEEDS_SUPPORTED: u32 = 1 << 14;
/// Bit of PortInfo.CapabilityMask: CapabilityMask2 and LinkSpeedExtActive2 are valid.
pub const IS_CAPABILITY_MASK2_SUPPORTED: u32 = 1 << 15;
/// Bit of PortInfo.CapabilityMask2: the switch has SwitchPortStateTable.
pub const IS_SWITCH_PORT_STATE_TABLE_SUPPORTED: u16 = 1 << 3;

impl PortInfo {
    /// PortState of a link that carries data.
    pub const ACTIVE: u8 = 4;
    /// PortState: down.
    pub const DOWN: u8 = 1;

    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        let raw = |field: Field| field.raw(data, 0) as u8;
        Self {
            master_sm_lid: Lid(MASTER_SM_LID.raw(data, 0) as u16),
            capability_mask: CAPABILITY_MASK.raw(data, 0) as u32,
            capability_mask2: CAPABILITY_MASK2.raw(data, 0) as u16,
            width: raw(WIDTH_ACTIVE),
            state: raw(PORT_STATE),
            speed: raw(SPEED_ACTIVE),
            speed_ext: raw(SPEED_EXT_ACTIVE),
            speed_ext2: raw(SPEED_EXT2_ACTIVE),
            neighbor_mtu: raw(NEIGHBOR_MTU),
            operational_vls: raw(OPERATIONAL_VLS),
            limits: PortLimits {
                mtu_cap: by_code(raw(MTU_CAP), &MTUS),
                vl_cap: by_code(raw(VL_CAP), &DATA_VLS),
                vl_high_limit: raw(VL_HIGH_LIMIT),
                vl_stall_count: raw(VL_STALL_COUNT),
                hoq_life: raw(HOQ_LIFE),
                key_violations: KEY_VIOLATIONS.map(|field| field.raw(data, 0) as u16),
            },
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        MASTER_SM_LID.set_raw(data, 0, self.master_sm_lid.0.into());
        CAPABILITY_MASK.set_raw(data, 0, self.capability_mask.into());
        CAPABILITY_MASK2.set_raw(data, 0, self.capability_mask2.into());
        let rest = [
            (WIDTH_ACTIVE, self.width),
            (PORT_STATE, self.state),
            (SPEED_ACTIVE, self.speed),
            (SPEED_EXT_ACTIVE, self.speed_ext),
            (SPEED_EXT2_ACTIVE, self.speed_ext2),
            (NEIGHBOR_MTU, self.neighbor_mtu),
            (OPERATIONAL_VLS, self.operational_vls),
            (MTU_CAP, code_of(self.limits.mtu_cap, &MTUS)),
            (VL_CAP, code_of(self.limits.vl_cap, &DATA_VLS)),
            (VL_HIGH_LIMIT, self.limits.vl_high_limit),
            (VL_STALL_COUNT, self.limits.vl_stall_count),
            (HOQ_LIFE, self.limits.hoq_life),
        ];
        rest.into_iter()
            .for_each(|(field, value)| field.set_raw(data, 0, value.into()));
        KEY_VIOLATIONS
            .into_iter()
            .zip(self.limits.key_violations)
            .for_each(|(field, value)| field.set_raw(data, 0, value.into()));
    }

    /// Returns whether the switch whose port 0 this is has SwitchPortStateTable.
    pub fn has_state_table(&self) -> bool {
        self.capability_mask & IS_CAPABILITY_MASK2_SUPPORTED != 0
            && self.capability_mask2 & IS_SWITCH_PORT_STATE_TABLE_SUPPORTED != 0
    }

    /// Returns width and speed as `ibnetdiscover` prints them. `capability_mask` is the
    /// CapabilityMask of the port, or of port 0 of its switch; it decides which of the three speed
    /// fields is valid.
    ///
    /// FDR10 appears as QDR, because only an attribute of the vendor distinguishes the two.
    pub fn rate(&self, capability_mask: u32) -> LinkRate {
        let width = match self.width {
            1 => "1x",
            2 => "4x",
            4 => "8x",
            8 => "12x",
            16 => "2x",
            _ => "??",
        };
        let extended = if capability_mask & IS_EXTENDED_SPEEDS_SUPPORTED != 0 {
            self.speed_ext
        } else {
            0
        };
        let extended2 = if capability_mask & IS_CAPABILITY_MASK2_SUPPORTED != 0 {
            self.speed_ext2
        } else {
            0
        };
        let speed = match (extended2, extended, self.speed) {
            (1, ..) => "XDR",
            (0, 8, _) => "NDR",
            (0, 4, _) => "HDR",
            (0, 2, _) => "EDR",
            (0, 1, _) => "FDR",
            (0, 0, 4) => "QDR",
            (0, 0, 2) => "DDR",
            (0, 0, 1) => "SDR",
            _ => "???",
        };
        LinkRate::new(width, speed)
    }

    /// Returns the max packet payload that the port may send on its link, in bytes, or `None` for
    /// a reserved code.
    pub fn mtu(&self) -> Option<u16> {
        by_code(self.neighbor_mtu, &MTUS)
    }

    /// Returns the number of data VLs that the port uses on its link, or `None` for a reserved
    /// code.
    pub fn data_vls(&self) -> Option<u8> {
        by_code(self.operational_vls, &DATA_VLS)
    }

    /// Returns the codes of a rate, and a CapabilityMask that makes them valid. The code of an
    /// unknown word is 0. The MTU is 4096 bytes and the data VLs are VL0 to VL3, as on most links
    /// to an HCA.
    pub fn of_rate(rate: &LinkRate, state: u8) -> Self {
        let width = match &*rate.width {
            "1x" => 1,
            "4x" => 2,
            "8x" => 4,
            "12x" => 8,
            "2x" => 16,
            _ => 0,
        };
        let (speed, speed_ext, speed_ext2) = match &*rate.speed {
            "SDR" => (1, 0, 0),
            "DDR" => (2, 0, 0),
            "QDR" | "FDR10" => (4, 0, 0),
            "FDR" => (4, 1, 0),
            "EDR" => (4, 2, 0),
            "HDR" => (4, 4, 0),
            "NDR" => (4, 8, 0),
            "XDR" => (4, 0, 1),
            _ => (0, 0, 0),
        };
        let capability_mask = IS_EXTENDED_SPEEDS_SUPPORTED | IS_CAPABILITY_MASK2_SUPPORTED;
        let (neighbor_mtu, operational_vls) = (5, 3);
        // The port itself could use VL0 to VL7, and drops a packet that waited for 1.07 s.
        let limits = PortLimits {
            mtu_cap: Some(4096),
            vl_cap: Some(8),
            vl_stall_count: 7,
            hoq_life: 18,
            ..PortLimits::default()
        };
        Self {
            master_sm_lid: Lid(0),
            capability_mask,
            capability_mask2: 0,
            width,
            state,
            speed,
            speed_ext,
            speed_ext2,
            neighbor_mtu,
            operational_vls,
            limits,
        }
    }
}

/// Returns the value of a code. The first value has code 1.
fn by_code<T: Copy>(code: u8, values: &[T]) -> Option<T> {
    values.get(usize::from(code).checked_sub(1)?).copied()
}

/// Returns the code of a value, 0 for none.
fn code_of<T: PartialEq>(value: Option<T>, values: &[T]) -> u8 {
    let place = value.and_then(|value| values.iter().position(|each| *each == value));
    place.map_or(0, |place| place as u8 + 1)
}

/// PortState of each port of a block of SwitchPortStateTable (IBA vol. 1, 14.2.5.20). The first of
/// two ports is in the upper half of an octet. Block 0 has the ports 0 to 127, block 1 the others.
/// Values are those of PortInfo, because requests of ibnet do not set the bit of the modifier that
/// permits others.
pub const PORT_STATES: Field = Field::new("PortState", "port_state", 0, 4).array(128);

/// PortInfoExtended.FECModeActive.
pub const FEC_MODE_ACTIVE: Field = Field::new("FECModeActive", "fec_mode_active", 32, 16);

/// Returns whether a port uses a Reed-Solomon code as its FEC, which mode 2 or 4 in
/// PortInfoExtended indicates (the rule of perfquery).
pub fn is_rs_fec(data: &Data) -> bool {
    matches!(FEC_MODE_ACTIVE.raw(data, 0), 2 | 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;
    use crate::mad::{MAD_LEN, pma};

    #[test]
    fn request_overwrites_the_whole_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        Query {
            attribute: PORT_INFO,
            modifier: 36,
        }
        .emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0x15, 0, 0, 0, 0, 0, 36,
        ]);
        assert_eq!(mad, expected);
    }

    #[test]
    fn node_info_is_parsed_from_its_octets() {
        let mut data = [0xff; DATA_LEN];
        data[..40].copy_from_slice(&[
            1, 1, 2, 40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0,
            32, 0xd2, 0xf0, 0, 0, 0, 0xa0, 7, 0x00, 0x02, 0xc9,
        ]);
        let info = NodeInfo {
            kind: Some(NodeKind::Switch),
            ports: 40,
            system_guid: Guid(1),
            node_guid: Guid(2),
            port_guid: Guid(3),
            device_id: 0xd2f0,
            revision: 0xa0,
            vendor_id: 0x2c9,
            local_port: PortNum(7),
        };
        assert_eq!(NodeInfo::parse(&data), info);
        let mut written = [0; DATA_LEN];
        info.emit(&mut written);
        assert_eq!(NodeInfo::parse(&written), info);
    }

    #[test]
    fn every_rate_but_fdr10_is_kept_in_port_info() {
        for width in ["1x", "2x", "4x", "8x", "12x"] {
            for speed in [
                "SDR", "DDR", "QDR", "FDR", "EDR", "HDR", "NDR", "XDR", "???",
            ] {
                let rate = LinkRate::new(width, speed);
                let mut data = [0; DATA_LEN];
                PortInfo::of_rate(&rate, PortInfo::ACTIVE).emit(&mut data);
                let read = PortInfo::parse(&data);
                assert_eq!(
                    (read.rate(read.capability_mask), read.state),
                    (rate, PortInfo::ACTIVE)
                );
            }
        }
        let fdr10 = PortInfo::of_rate(&LinkRate::new("4x", "FDR10"), 4);
        assert_eq!(fdr10.rate(0).to_string(), "4xQDR");
    }

    #[test]
    fn extended_speed_is_valid_only_with_its_capability_bit() {
        let edr = PortInfo::of_rate(&LinkRate::new("4x", "EDR"), 4);
        assert_eq!(edr.rate(0).to_string(), "4xQDR");
        assert_eq!(edr.rate(IS_EXTENDED_SPEEDS_SUPPORTED).to_string(), "4xEDR");
    }

    #[test]
    fn port_info_is_parsed_from_its_octets() {
        let mut data = [0xa5; DATA_LEN];
        data[18..24].copy_from_slice(&[0, 4, 0, 0, 0xc0, 0]);
        (data[31], data[32], data[35], data[56], data[62]) = (2, 0x54, 0x47, 0x80, 0x2f);
        (data[36], data[43]) = (0x5a, 0x4a);
        data[37..43].copy_from_slice(&[0x3a, 9, 0xa5, 0xa5, 0xa4, 7 << 5 | 18]);
        data[44..50].copy_from_slice(&[1, 2, 0, 3, 0, 0]);
        data[60..62].copy_from_slice(&[0x04, 0x08]);
        let info = PortInfo {
            master_sm_lid: Lid(4),
            capability_mask: 0xc000,
            capability_mask2: 0x0408,
            width: 2,
            state: 4,
            speed: 4,
            speed_ext: 2,
            speed_ext2: 0,
            neighbor_mtu: 5,
            operational_vls: 4,
            limits: PortLimits {
                mtu_cap: Some(2048),
                vl_cap: Some(4),
                vl_high_limit: 9,
                vl_stall_count: 7,
                hoq_life: 18,
                key_violations: [0x102, 3, 0],
            },
        };
        assert_eq!(PortInfo::parse(&data), info);
        assert_eq!(info.rate(info.capability_mask).to_string(), "4xEDR");
        assert_eq!((info.mtu(), info.data_vls()), (Some(4096), Some(8)));
        assert!(info.has_state_table());
        let without = |capability_mask, capability_mask2| PortInfo {
            capability_mask,
            capability_mask2,
            ..info
        };
        assert!(!without(0x4000, 0x0408).has_state_table());
        assert!(!without(0xc000, 0x0400).has_state_table());
        let mut written = [0; DATA_LEN];
        info.emit(&mut written);
        assert_eq!(PortInfo::parse(&written), info);
        data[4..6].copy_from_slice(&[0, 4]);
        assert!(is_rs_fec(&data));
    }

    #[test]
    fn port_states_have_four_bits_each() {
        let mut data = [0xff; DATA_LEN];
        (data[0], data[18], data[63]) = (0x14, 0x21, 0x43);
        let states = [0, 1, 36, 37, 126, 127].map(|port| PORT_STATES.raw(&data, port));
        assert_eq!(states, [1, 4, 2, 1, 4, 3]);
    }

    #[test]
    fn reserved_codes_of_mtu_and_vls_have_no_value() {
        let read = |code| {
            let info = PortInfo {
                neighbor_mtu: code,
                operational_vls: code,
                ..PortInfo::default()
            };
            (info.mtu(), info.data_vls())
        };
        let defined = [(256, 1), (512, 2), (1024, 4), (2048, 8), (4096, 15)]
            .map(|(mtu, vls)| (Some(mtu), Some(vls)));
        assert_eq!([1, 2, 3, 4, 5].map(read), defined);
        assert_eq!([0, 6, 15].map(read), [(None, None); 3]);
    }

    #[test]
    fn description_ends_at_its_first_zero_and_may_not_be_utf_8() {
        let mut mad = [0; MAD_LEN];
        let data = pma::data_mut(&mut mad);
        data[..8].copy_from_slice(b"node1\xff\x00x");
        assert_eq!(node_description(data), "node1\u{fffd}");
        data[..64].fill(b'"');
        assert_eq!(node_description(data), "\"".repeat(64));
    }
}
