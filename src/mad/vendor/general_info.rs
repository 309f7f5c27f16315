//! GeneralInfo (attribute 0x0017): chip, firmware, and which attributes the agent has.

use ibnet_record::attributes::{Field, Unit};

use super::DATA_OFFSET;
use crate::mad::Mad;
use crate::mad::pma::Bits;

/// AttributeID.
pub const GENERAL_INFO: u16 = 0x0017;

/// What a device reports about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GeneralInfo {
    /// Device ID, assigned by the vendor.
    pub device_id: u16,
    /// Revision of the chip.
    pub hw_revision: u16,
    /// Seconds since the device started.
    pub uptime_s: u32,
    /// Firmware version. Devices since ConnectX-3 and Switch-IB report it in wide fields.
    pub firmware: (u32, u32, u32),
    /// Identifier of the firmware's parameter set: ASCII, filled up with zeros.
    pub psid: [u8; 16],
    /// Attributes of the agent. Bit n is bit n % 32 of the word n / 32.
    pub capabilities: [u32; 4],
}

const HW_REVISION: Field = Field::new("HWRevision", "hw_revision", 0, 16);
const DEVICE_ID: Field = Field::new("DeviceID", "device_id", 16, 16);
const UPTIME: Field = Field::new("UpTime", "uptime_s", 224, 32);
const MAJOR: Field = Field::new("FWMajor", "fw_major", 264, 8);
const MINOR: Field = Field::new("FWMinor", "fw_minor", 272, 8);
const SUB_MINOR: Field = Field::new("FWSubMinor", "fw_sub_minor", 280, 8);
const PSID: Field = Field::new("PSID", "psid", 384, 8)
    .array(16)
    .counts(Unit::Text);
const EXTENDED_MAJOR: Field = Field::new("ExtMajor", "ext_major", 544, 32);
const EXTENDED_MINOR: Field = Field::new("ExtMinor", "ext_minor", 576, 32);
const EXTENDED_SUB_MINOR: Field = Field::new("ExtSubMinor", "ext_sub_minor", 608, 32);
const CAPABILITIES: Field = Field::new("CapabilityMask", "capability_mask", 1024, 32).array(4);

impl GeneralInfo {
    /// Bit of the capabilities: the agent has AccessRegisterGMP.
    const REGISTERS: u32 = 1 << 20;

    /// Parses the attribute of a reply.
    pub fn parse(mad: &Mad) -> Self {
        let data = &mad[DATA_OFFSET..];
        let raw = |field: Field| field.raw(data, 0) as u32;
        let wide = (
            raw(EXTENDED_MAJOR),
            raw(EXTENDED_MINOR),
            raw(EXTENDED_SUB_MINOR),
        );
        let narrow = (raw(MAJOR), raw(MINOR), raw(SUB_MINOR));
        Self {
            device_id: raw(DEVICE_ID) as u16,
            hw_revision: raw(HW_REVISION) as u16,
            uptime_s: raw(UPTIME),
            firmware: if wide == (0, 0, 0) { narrow } else { wide },
            psid: std::array::from_fn(|index| PSID.raw(data, index as u8) as u8),
            capabilities: std::array::from_fn(|index| CAPABILITIES.raw(data, index as u8) as u32),
        }
    }

    /// Writes the attribute into a reply.
    pub fn emit(&self, mad: &mut Mad) {
        let data = &mut mad[DATA_OFFSET..];
        let (major, minor, sub_minor) = self.firmware;
        for (field, value) in [
            (DEVICE_ID, self.device_id.into()),
            (HW_REVISION, self.hw_revision.into()),
            (UPTIME, self.uptime_s),
            (EXTENDED_MAJOR, major),
            (EXTENDED_MINOR, minor),
            (EXTENDED_SUB_MINOR, sub_minor),
        ] {
            field.set_raw(data, 0, value.into());
        }
        for (octet, index) in self.psid.iter().zip(0..) {
            PSID.set_raw(data, index, (*octet).into());
        }
        for (mask, index) in self.capabilities.iter().zip(0..) {
            CAPABILITIES.set_raw(data, index, (*mask).into());
        }
    }

    /// Returns the version of the firmware as text, such as `31.2012.4036`.
    pub fn firmware_version(&self) -> String {
        let (major, minor, sub_minor) = self.firmware;
        format!("{major}.{minor}.{sub_minor}")
    }

    /// Returns whether the agent has AccessRegisterGMP.
    pub const fn has_registers(&self) -> bool {
        self.capabilities[0] & Self::REGISTERS != 0
    }

    /// Makes the agent have AccessRegisterGMP.
    pub const fn with_registers(mut self) -> Self {
        self.capabilities[0] |= Self::REGISTERS;
        self
    }
}
