//! Vendor-specific attributes of subnet management. They are requested like PortInfo, by LID
//! ([`smp::Query`](crate::mad::smp::Query)).
//!
//! The positions of the link speeds are those of libibmad and opensm, and a test compares them with
//! libibmad. The other positions are from headers of other tools; no test compares them, and no
//! value was compared with hardware.

use ibnet_record::attributes::Field;

use crate::mad::pma::{Bits, Data};
use crate::mad::smp::text;

/// AttributeID of ExtendedPortInfo. The modifier is the number of the port.
pub const EXTENDED_PORT_INFO: u16 = 0xff90;
/// AttributeID of AdaptiveRoutingInfo.
pub const ADAPTIVE_ROUTING_INFO: u16 = 0xff20;
/// AttributeID of ChassisInfo.
pub const CHASSIS_INFO: u16 = 0xff18;

/// What ibnet reads of ExtendedPortInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExtendedPortInfo {
    /// Whether the link has the speed FDR10. PortInfo reports QDR for such a link.
    pub is_fdr10: bool,
    /// Why the device or the subnet manager judged the port unhealthy: 1 none, 2 credit watchdog,
    /// 3 symmetry, 4 raw BER, 5 effective BER, 6 symbol BER, 8 contain and drain. 0 if the device
    /// does not report it.
    pub unhealthy_reason: u8,
    /// What is behind the port: 1 aggregation node, 2 router, 3 gateway, 0 none of these.
    pub special_port_type: u8,
}

/// What ibnet reads of AdaptiveRoutingInfo of a switch. The layout is that of headers of other
/// tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdaptiveRouting {
    /// Whether the switch selects ports adaptively.
    pub is_enabled: bool,
    /// Number of the last group of ports in use.
    pub group_top: u16,
    /// SLs whose packets are routed adaptively, one bit each. All, if the switch does not select
    /// by SL.
    pub sl_mask: u16,
}

const AR_BY_SL: Field = Field::new("BySLEnabled", "by_sl_enabled", 3, 1).not_compared();
const AR_ENABLED: Field = Field::new("AREnabled", "ar_enabled", 31, 1).not_compared();
const AR_GROUP_TOP: Field = Field::new("GroupTop", "group_top", 40, 12).not_compared();
const AR_SL_MASK: Field = Field::new("SLMask", "sl_mask", 64, 16).not_compared();

impl AdaptiveRouting {
    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        let is_by_sl = AR_BY_SL.raw(data, 0) != 0;
        Self {
            is_enabled: AR_ENABLED.raw(data, 0) != 0,
            group_top: AR_GROUP_TOP.raw(data, 0) as u16,
            sl_mask: if is_by_sl {
                AR_SL_MASK.raw(data, 0) as u16
            } else {
                u16::MAX
            },
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        AR_BY_SL.set_raw(data, 0, u64::from(self.sl_mask != u16::MAX));
        AR_ENABLED.set_raw(data, 0, u64::from(self.is_enabled));
        AR_GROUP_TOP.set_raw(data, 0, self.group_top.into());
        AR_SL_MASK.set_raw(data, 0, self.sl_mask.into());
    }
}

const SPEED_ACTIVE: Field = Field::new("MlnxLinkSpeedActive", "speed_active", 120, 8);
const UNHEALTHY_REASON: Field =
    Field::new("UnhealthyReason", "unhealthy_reason", 48, 8).not_compared();
const SPECIAL_PORT_TYPE: Field =
    Field::new("SpecialPortType", "special_port_type", 380, 4).not_compared();

/// The fields of ExtendedPortInfo.
pub static EXTENDED_PORT_INFO_FIELDS: [Field; 10] = [
    Field::new("IsSharpNode", "is_sharp_node", 1, 1).not_compared(),
    Field::new("PortRecovered", "port_recovered", 3, 1).not_compared(),
    Field::new("StateChangeEnable", "state_change_enable", 24, 8),
    Field::new("IsUtilizationEnabled", "is_utilization_enabled", 37, 1).not_compared(),
    Field::new("BandwidthUtilization", "bandwidth_utilization", 38, 10).not_compared(),
    UNHEALTHY_REASON,
    Field::new("MlnxLinkSpeedSupported", "speed_supported", 56, 8),
    Field::new("MlnxLinkSpeedEnabled", "speed_enabled", 88, 8),
    SPEED_ACTIVE,
    SPECIAL_PORT_TYPE,
];

/// Bit of the link speeds.
const FDR10: u64 = 1;

impl ExtendedPortInfo {
    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        Self {
            is_fdr10: SPEED_ACTIVE.raw(data, 0) & FDR10 != 0,
            unhealthy_reason: UNHEALTHY_REASON.raw(data, 0) as u8,
            special_port_type: SPECIAL_PORT_TYPE.raw(data, 0) as u8,
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        SPEED_ACTIVE.set_raw(data, 0, self.is_fdr10.into());
        UNHEALTHY_REASON.set_raw(data, 0, self.unhealthy_reason.into());
        SPECIAL_PORT_TYPE.set_raw(data, 0, self.special_port_type.into());
    }
}

/// Returns the serial number in ChassisInfo, which all devices in one box have.
pub fn chassis_serial(chassis_info: &Data) -> String {
    text(&chassis_info[4..20])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        (data[6], data[15], data[47]) = (5, 1, 2);
        let info = ExtendedPortInfo {
            is_fdr10: true,
            unhealthy_reason: 5,
            special_port_type: 2,
        };
        assert_eq!(ExtendedPortInfo::parse(&data), info);
        let mut written = [0; DATA_LEN];
        info.emit(&mut written);
        assert_eq!(written, data);
        data[4..10].copy_from_slice(b"MT2113");
        data[10..20].fill(0);
        assert_eq!(chassis_serial(&data), "MT2113");
    }
}
