//! PDDR (register 0x5031): states of a port, the reason why its link went down, and its module.

use super::{Field, MILLISECONDS, Register, Select, Unit, at, code, select, text, time};

const ID: u16 = 0x5031;
const NAME: &str = "PDDR";
/// Octet at which the page begins.
const PAGE: u16 = 8;

/// The fields of a request for one page.
const fn request(page: u8) -> [(Field, Select); 5] {
    [
        // The port number is that of InfiniBand, and not that of the chip.
        (select("pnat", 0, 14, 2), Select::Constant(1)),
        (select("local_port", 0, 16, 8), Select::Port),
        (select("plane_ind", 0, 8, 4).not_compared(), Select::Plane),
        (select("page_select", 4, 0, 8), Select::Constant(page)),
        // The module's light power is in microwatts, and not in dBm. The bits change nothing on
        // the device: they choose the unit of this reply.
        (select("module_info_ext", 4, 29, 2), Select::Constant(1)),
    ]
}

/// Page 0: state of the port.
///
/// `phy_mngr_fsm_state`: 0 disabled, 1 open, 2 polling, 3 active, 4 close, 5 up, 7 sleep,
/// 8 receiver disabled, 9 receiver detection, 10 recovery, 11 negotiation, 12 training.
pub static OPERATION: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_operation_info_page",
    request: &request(0),
    fields: &[
        at("plane_ind", "plane", 0, 8, 4).setting().not_compared(),
        code("proto_active", PAGE, 20, 4),
        code("phy_mngr_fsm_state", PAGE + 0x04, 24, 8),
        code("ib_phy_fsm_state", PAGE + 0x04, 8, 8),
        code("phy_manager_link_enabled", PAGE + 0x08, 0, 32),
        code("core_to_phy_link_enabled", PAGE + 0x0c, 0, 32),
        code("cable_proto_cap", PAGE + 0x10, 0, 32),
        code("link_active", PAGE + 0x14, 0, 32),
        code("loopback_mode", PAGE + 0x18, 0, 12),
        code("fec_mode_active", PAGE + 0x1c, 16, 16),
        code("fec_mode_request", PAGE + 0x1c, 0, 16),
    ],
};

/// Page 1: what prevents the link, as a code and a text.
///
/// `status_opcode`: 0 no problem, 1 closed by a command, 2 to 4 negotiation, 5 to 8 training,
/// 15, 17, 42, 48, 49, 52 bad signal, 70 bit errors, 128 in process, 1024 no module,
/// 1027 unreadable module, 1029 unsupported module, 1030 temperature, 1032 power budget,
/// 1042 module fault. The text continues in the second block of the register.
pub static TROUBLESHOOTING: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_troubleshooting_page",
    request: &request(1),
    fields: &[
        code("status_opcode", PAGE + 0x04, 0, 32),
        text("status_message", PAGE + 0x0c, 236),
    ],
};

/// Page 2: negotiation with the other end.
pub static PHY: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_phy_info_page",
    request: &request(2),
    fields: &[
        code("remote_device_type", PAGE, 24, 8),
        code("port_notifications", PAGE, 0, 8),
        code("num_of_negotiation_attempts", PAGE + 0x04, 16, 16),
        code("ib_revision", PAGE + 0x04, 8, 8),
        code("lp_ib_revision", PAGE + 0x04, 0, 8),
        code("hw_link_phy_state", PAGE + 0x08, 24, 8),
        code("phy_manager_disable_mask", PAGE + 0x08, 0, 24).not_compared(),
        code("pcs_phy_state", PAGE + 0x0c, 0, 32),
        code("lp_proto_enabled", PAGE + 0x10, 0, 32),
        code("lp_fec_mode_support", PAGE + 0x14, 16, 16),
        code("lp_fec_mode_request", PAGE + 0x14, 0, 16),
        code("ib_last_link_down_reason", PAGE + 0x18, 0, 32),
    ],
};

/// Returns the length of a cable in meters, from `cable_length` and `cable_identifier`. `None` if the
/// length is not known, or if the cable can be separated from the module. In modules with CMIS, bits
/// 6 and 7 are a multiplier: 0.1, 1, 10 or 100 m.
pub fn cable_length_m(length: u64, identifier: Option<u64>) -> Option<f64> {
    /// From this identifier on, modules have CMIS: QSFP-DD, QSFP with CMIS, OSFP.
    const CMIS: u64 = 6;
    let length = u8::try_from(length).ok().filter(|length| *length > 0)?;
    Some(match identifier {
        Some(CMIS..) => f64::from(length & 0x3f) * 10_f64.powi(i32::from(length >> 6)) / 10.0,
        _ => f64::from(length),
    })
}

/// Page 3: the module in the cage. The firmware caches it, so the request does not disturb the
/// module. The page ends within the first block of the register.
///
/// - `cable_length` is in metres, in the form of [`cable_length_m`].
/// - `tx_bias_lane` has to be multiplied by 2 to the power of `tx_bias_scaling_factor`.
/// - The thresholds of power and bias current have no public unit.
pub static MODULE: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_module_info",
    request: &request(3),
    fields: &[
        code("cable_technology", PAGE, 24, 8),
        code("cable_breakout", PAGE, 16, 8),
        code("cable_type", PAGE + 0x04, 28, 4),
        code("cable_vendor", PAGE + 0x04, 24, 4),
        code("cable_length", PAGE + 0x04, 16, 8),
        code("cable_identifier", PAGE + 0x04, 8, 8),
        code("cable_power_class", PAGE + 0x04, 0, 8),
        code("max_power", PAGE + 0x08, 24, 8),
        text("vendor_name", PAGE + 0x14, 16),
        text("vendor_pn", PAGE + 0x24, 16),
        text("vendor_rev", PAGE + 0x34, 4),
        code("fw_version", PAGE + 0x38, 0, 32),
        text("vendor_sn", PAGE + 0x3c, 16),
        lane("temperature", "temperature_c", 0x4c, 16, MODULE_TEMPERATURE),
        lane("voltage", "voltage_v", 0x4c, 0, MODULE_VOLTAGE),
        lane("rx_power_lane", "rx_power_uw", 0x50, 16, MICROWATTS).array(8),
        lane("tx_power_lane", "tx_power_uw", 0x60, 16, MICROWATTS).array(8),
        lane(
            "tx_bias_lane",
            "tx_bias_unscaled_ma",
            0x70,
            16,
            MILLIAMPERES,
        )
        .array(8),
        lane(
            "temperature_high_th",
            "temperature_high_c",
            0x80,
            16,
            MODULE_TEMPERATURE,
        ),
        lane(
            "temperature_low_th",
            "temperature_low_c",
            0x80,
            0,
            MODULE_TEMPERATURE,
        ),
        lane(
            "voltage_high_th",
            "voltage_high_v",
            0x84,
            16,
            MODULE_VOLTAGE,
        ),
        lane("voltage_low_th", "voltage_low_v", 0x84, 0, MODULE_VOLTAGE),
        code("rx_power_high_th", PAGE + 0x88, 16, 16),
        code("rx_power_low_th", PAGE + 0x88, 0, 16),
        code("tx_power_high_th", PAGE + 0x8c, 16, 16),
        code("tx_power_low_th", PAGE + 0x8c, 0, 16),
        code("tx_bias_high_th", PAGE + 0x90, 16, 16),
        code("tx_bias_low_th", PAGE + 0x90, 0, 16),
        code("module_st", PAGE + 0x94, 29, 3),
        code("rx_power_type", PAGE + 0x94, 28, 1),
        lane("wavelength", "wavelength_nm", 0x94, 0, NANOMETRES),
        code("tx_bias_scaling_factor", PAGE + 0x98, 10, 2).not_compared(),
        code("ib_compliance_code", PAGE + 0x98, 0, 10).not_compared(),
        code("ib_width", PAGE + 0x9c, 0, 6),
        code("monitor_cap_mask", PAGE + 0x9c, 8, 8),
        text("date_code", PAGE + 0xb0, 8),
        code("connector_type", PAGE + 0xb8, 24, 8),
        code("vendor_oui", PAGE + 0xb8, 0, 24),
        code("rx_output_valid", PAGE + 0xbc, 0, 8),
    ],
};

const MODULE_TEMPERATURE: Unit = Unit::Celsius(256);
const MODULE_VOLTAGE: Unit = Unit::Measure("V", 1, 10_000);
const MICROWATTS: Unit = Unit::Measure("uW", 1, 1);
const MILLIAMPERES: Unit = Unit::Measure("mA", 2, 1000);
const NANOMETRES: Unit = Unit::Measure("nm", 1, 1);

/// A measured value of the module, or the first one of an array. It has 16 bits.
const fn lane(name: &'static str, json: &'static str, octet: u16, low: u16, unit: Unit) -> Field {
    at(name, json, PAGE + octet, low, 16).counts(unit)
}

/// Page 6: why the link went down.
///
/// - `down_blame`: 0 unknown, 1 this end, 2 the other end. `down_intent`: 1 with intention,
///   2 without.
/// - `local_reason_opcode` and `remote_reason_opcode`: a number of
///   [`REASONS`](super::link_down::REASONS).
/// - `e2e_reason_opcode` is the reason of this end, or that of the other end plus 100.
pub static LINK_DOWN: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_link_down_info_page",
    request: &request(6),
    fields: &[
        code("down_intent", PAGE, 4, 4).not_compared(),
        code("down_blame", PAGE, 0, 4),
        code("recovery_entry_reason", PAGE + 0x04, 16, 8).not_compared(),
        code("local_reason_opcode", PAGE + 0x04, 0, 8),
        code("remote_reason_opcode", PAGE + 0x08, 0, 8),
        code("last_recovery_state", PAGE + 0x0c, 20, 4).not_compared(),
        code("l1_failure_reason", PAGE + 0x0c, 16, 4).not_compared(),
        code("ts1_opcode", PAGE + 0x0c, 12, 4).not_compared(),
        code("e2e_reason_opcode", PAGE + 0x0c, 0, 8),
        code("last_raw_ber_coef", PAGE + 0x10, 24, 4),
        code("last_raw_ber_magnitude", PAGE + 0x10, 16, 8),
        at(
            "num_of_symbol_ber_alarms",
            "symbol_ber_alarms",
            PAGE + 0x10,
            0,
            16,
        )
        .counts(Unit::Events)
        .not_compared(),
        at(
            "num_of_eff_ber_alarms",
            "eff_ber_alarms",
            PAGE + 0x18,
            16,
            16,
        )
        .counts(Unit::Events)
        .not_compared(),
        at(
            "num_of_raw_ber_alarms",
            "raw_ber_alarms",
            PAGE + 0x18,
            0,
            16,
        )
        .counts(Unit::Events),
        time(
            "time_to_link_down_to_disable",
            "time_to_disable_ms",
            PAGE + 0x1c,
            MILLISECONDS,
        ),
        time(
            "time_to_link_down_to_rx_loss",
            "time_to_rx_loss_ms",
            PAGE + 0x20,
            MILLISECONDS,
        ),
        code("last_eff_ber_coef", PAGE + 0x24, 24, 4).not_compared(),
        code("last_eff_ber_magnitude", PAGE + 0x24, 16, 8).not_compared(),
        code("last_symbol_ber_coef", PAGE + 0x2c, 24, 4).not_compared(),
        code("last_symbol_ber_magnitude", PAGE + 0x2c, 16, 8).not_compared(),
        at("hi_ser_counter", "hi_ser_events", PAGE + 0x30, 0, 8)
            .counts(Unit::Events)
            .not_compared(),
        code("pcs_phy_state_latched", PAGE + 0x34, 0, 32).not_compared(),
    ],
};

/// Page 8: how long the link took to come up.
pub static LINK_UP: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_link_up_info_page",
    request: &request(8),
    fields: &[
        code("up_reason_pwr", PAGE, 16, 4),
        code("up_reason_drv", PAGE, 8, 4),
        code("up_reason_mng", PAGE, 0, 4),
        time(
            "time_to_link_up",
            "time_to_link_up_ms",
            PAGE + 0x04,
            MILLISECONDS,
        ),
        code("fast_link_up_status", PAGE + 0x08, 0, 4),
        time(
            "time_to_link_up_phy_up_to_active",
            "phy_up_to_active_ms",
            PAGE + 0x0c,
            MILLISECONDS,
        ),
        time(
            "time_to_link_up_sd_to_phy_up",
            "signal_to_phy_up_ms",
            PAGE + 0x10,
            MILLISECONDS,
        ),
        time(
            "time_to_link_up_disable_to_sd",
            "disabled_to_signal_ms",
            PAGE + 0x14,
            MILLISECONDS,
        ),
        time(
            "time_logical_init_to_active",
            "init_to_active_ms",
            PAGE + 0x24,
            MILLISECONDS,
        )
        .not_compared(),
    ],
};

/// Page 11: the port at the other end. `partner_id_lsb` has the lower 24 bits of its GUID.
/// `info_supported_mask` has bit 0 if the port is valid, and bit 2 if the GUID is valid.
pub static PARTNER: Register = Register {
    id: ID,
    name: NAME,
    layout: "pddr_link_partner_info",
    request: &request(11),
    fields: &[
        code("info_supported_mask", PAGE, 0, 16).not_compared(),
        code("partner_local_port", PAGE + 0x04, 0, 10).not_compared(),
        code("partner_module_type", PAGE + 0x08, 0, 4).not_compared(),
        code("partner_id_lsb", PAGE + 0x10, 0, 24).not_compared(),
    ],
};

#[cfg(test)]
mod tests {
    use super::cable_length_m;

    #[test]
    fn length_of_a_cmis_cable_has_a_power_of_ten() {
        const OSFP: Option<u64> = Some(8);
        assert_eq!(cable_length_m(30, Some(0)), Some(30.0));
        assert_eq!(cable_length_m(0x42, None), Some(66.0));
        assert_eq!(cable_length_m(3, OSFP), Some(0.3));
        assert_eq!(cable_length_m(1 << 6 | 30, OSFP), Some(30.0));
        assert_eq!(cable_length_m(2 << 6 | 15, OSFP), Some(150.0));
        assert_eq!(cable_length_m(3 << 6 | 2, OSFP), Some(200.0));
        assert_eq!(cable_length_m(0, Some(0)), None, "not known");
    }
}
