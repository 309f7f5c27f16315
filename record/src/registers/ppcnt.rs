//! PPCNT (register 0x5008): counters of the physical layer of a port.
//!
//! A request has a bit `clr`, which clears counters even with the method Get. The tables have no
//! such field, so ibnet cannot set it.
//!
//! A counter of 64 bits, or of 32, is reset by a reboot of the device, and by other tools that
//! clear it: `time_since_last_clear` decreases then.

use super::{
    Field, MILLISECONDS, Register, SECONDS, Select, Unit, at, code, count, select, time, wide,
};

const ID: u16 = 0x5008;
const NAME: &str = "PPCNT";
/// Octet at which the counters begin.
const SET: u16 = 8;

/// The fields of a request for one group.
const fn request(group: u8) -> [(Field, Select); 4] {
    [
        (select("grp", 0, 0, 6), Select::Constant(group)),
        // The port number is that of InfiniBand, and not that of the chip.
        (select("pnat", 0, 14, 2), Select::Constant(1)),
        (select("local_port", 0, 16, 8), Select::Port),
        (select("plane_ind", 4, 8, 4).not_compared(), Select::Plane),
    ]
}

/// Time since the counters of the group were cleared.
const SINCE_CLEAR: Field = Field::new(
    "time_since_last_clear",
    "time_since_last_clear_ms",
    8 * SET,
    64,
)
.counts(MILLISECONDS);

/// Group 0x16: bit errors and bit error ratios (BER).
///
/// - `phy_corrected_bits` / `phy_received_bits` over a time is the exact BER before FEC. The
///   ratios of the device have one digit.
/// - `phy_symbol_errors` counts the bits that were wrong after FEC and PLR, and
///   `phy_effective_errors` those that were wrong after FEC.
/// - `fc_zero_hist` is the first empty bin of [`FEC_HISTOGRAM`].
/// - Only HCAs have `time_since_last_link_up` and `port_up_time`: since the link came up, and since
///   the device was reset. They are 0 in a firmware that does not measure them.
pub static BER: Register = Register {
    id: ID,
    name: NAME,
    layout: "phys_layer_stat_cntrs",
    request: &request(0x16),
    fields: &[
        SINCE_CLEAR,
        wide("phy_received_bits", SET + 0x08, Unit::Bits),
        wide("phy_symbol_errors", SET + 0x10, Unit::Events),
        wide("phy_corrected_bits", SET + 0x18, Unit::Bits),
        wide("phy_raw_errors_lane", SET + 0x20, Unit::Events).array(8),
        code("fc_zero_hist", SET + 0x60, 16, 10).not_compared(),
        code("raw_ber_magnitude", SET + 0x60, 8, 8),
        code("raw_ber_coef", SET + 0x60, 0, 4),
        code("estimated_effective_ber_magnitude", SET + 0x64, 24, 8).not_compared(),
        code("estimated_effective_ber_coef_float", SET + 0x64, 20, 4).not_compared(),
        code("estimated_effective_ber_coef", SET + 0x64, 16, 4).not_compared(),
        code("effective_ber_magnitude", SET + 0x64, 8, 8),
        code("effective_ber_coef", SET + 0x64, 0, 4),
        code("ucr_ber_magnitude", SET + 0x68, 24, 8).not_compared(),
        code("ucr_ber_coef_float", SET + 0x68, 20, 4).not_compared(),
        code("ucr_ber_coef", SET + 0x68, 16, 4).not_compared(),
        code("symbol_ber_magnitude", SET + 0x68, 8, 8),
        code("symbol_ber_coef", SET + 0x68, 0, 4),
        code("raw_ber_magnitude_lane", SET + 0x6c, 24, 8)
            .array(8)
            .stride(16)
            .not_compared(),
        code("raw_ber_coef_lane", SET + 0x6c, 16, 4)
            .array(8)
            .stride(16)
            .not_compared(),
        wide("phy_effective_errors", SET + 0x7c, Unit::Events),
        up("time_since_last_link_up", "time_since_last_link_up_s", 0x94),
        up("port_up_time", "port_up_time_s", 0x98),
    ],
};

/// Time in which the port was active. The device counts 128 ms.
const fn up(name: &'static str, json: &'static str, octet: u16) -> Field {
    time(name, json, SET + octet, Unit::Measure("s", 128, 1000)).not_compared()
}

/// Group 0x12: forward error correction, and how often the link went down.
///
/// `link_down_events` counts those that this end caused without intention. The end of the page is
/// in the second block of the register.
pub static FEC: Register = Register {
    id: ID,
    name: NAME,
    layout: "phys_layer_cntrs",
    request: &request(0x12),
    fields: &[
        SINCE_CLEAR,
        wide("symbol_errors", SET + 0x08, Unit::Events),
        wide("rs_fec_corrected_blocks", SET + 0x78, Unit::Blocks),
        wide("rs_fec_uncorrectable_blocks", SET + 0x80, Unit::Blocks),
        wide("rs_fec_no_errors_blocks", SET + 0x88, Unit::Blocks),
        wide("rs_fec_corrected_symbols_total", SET + 0x98, Unit::Symbols),
        wide("rs_fec_corrected_symbols_lane", SET + 0xa0, Unit::Symbols).array(4),
        count("link_down_events", SET + 0xc0, Unit::Events).not_compared(),
        count("successful_recovery_events", SET + 0xc4, Unit::Events).not_compared(),
        wide("rs_fec_corrected_symbols_lane4", SET + 0xc8, Unit::Symbols).array(4),
        count("unintentional_link_down_events", SET + 0xf0, Unit::Events).not_compared(),
        count("intentional_link_down_events", SET + 0xf4, Unit::Events).not_compared(),
    ],
};

/// Group 0x1A: recoveries, in which the two ends of a link train it again without a link down.
///
/// There are four kinds, from the mildest to the most severe: logic, SerDes, transmitter of the
/// module off, and module off.
pub static RECOVERY: Register = Register {
    id: ID,
    name: NAME,
    layout: "ppcnt_recovery_counters",
    request: &request(0x1a),
    fields: &[
        count("total_successful_recovery_events", SET, Unit::Events).not_compared(),
        count("unintentional_link_down_events", SET + 0x04, Unit::Events).not_compared(),
        count("intentional_link_down_events", SET + 0x08, Unit::Events).not_compared(),
        last(
            "time_in_last_host_logical_recovery",
            "last_logical_recovery_ms",
            0x0c,
        ),
        last(
            "time_in_last_host_serdes_feq_recovery",
            "last_serdes_recovery_ms",
            0x10,
        ),
        last(
            "time_in_last_module_tx_disable_recovery",
            "last_tx_disable_recovery_ms",
            0x14,
        ),
        last(
            "time_in_last_module_datapath_full_toggle_recovery",
            "last_toggle_recovery_ms",
            0x18,
        ),
        last(
            "total_time_in_host_logical_recovery",
            "logical_recovery_ms",
            0x1c,
        ),
        last(
            "total_time_in_host_serdes_feq_recovery",
            "serdes_recovery_ms",
            0x20,
        ),
        last(
            "total_time_in_module_tx_disable_recovery",
            "tx_disable_recovery_ms",
            0x24,
        ),
        last(
            "total_time_in_module_datapath_full_toggle_recovery",
            "toggle_recovery_ms",
            0x28,
        ),
        kind(
            "total_host_logical_recovery_count",
            "logical_recoveries",
            0x2c,
        ),
        kind(
            "total_host_serdes_feq_recovery_count",
            "serdes_recoveries",
            0x30,
        ),
        kind(
            "total_module_tx_disable_recovery_count",
            "tx_disable_recoveries",
            0x34,
        ),
        kind(
            "total_module_datapath_full_toggle_recovery_count",
            "toggle_recoveries",
            0x38,
        ),
        kind(
            "total_host_logical_succesful_recovery_count",
            "logical_recoveries_done",
            0x3c,
        ),
        kind(
            "total_host_serdes_feq_succesful_recovery_count",
            "serdes_recoveries_done",
            0x40,
        ),
        kind(
            "total_module_tx_disable_succesful_recovery_count",
            "tx_disable_recoveries_done",
            0x44,
        ),
        kind(
            "total_module_datapath_full_toggle_succesful_recovery_count",
            "toggle_recoveries_done",
            0x48,
        ),
        time(
            "time_since_last_recovery",
            "time_since_last_recovery_s",
            SET + 0x4c,
            SECONDS,
        )
        .not_compared(),
        last(
            "last_successful_recovery_time",
            "last_successful_recovery_ms",
            0x60,
        ),
        last(
            "total_successful_recovery_time",
            "successful_recovery_ms",
            0x64,
        ),
        wide(
            "last_rs_fec_uncorrectable_during_recovery",
            SET + 0x6c,
            Unit::Blocks,
        )
        .not_compared(),
        wide(
            "total_rs_fec_uncorrectable_during_recovery",
            SET + 0x74,
            Unit::Blocks,
        )
        .not_compared(),
    ],
};

const fn last(name: &'static str, json: &'static str, octet: u16) -> Field {
    time(name, json, SET + octet, MILLISECONDS).not_compared()
}

const fn kind(name: &'static str, json: &'static str, octet: u16) -> Field {
    at(name, json, SET + octet, 0, 32)
        .counts(Unit::Events)
        .not_compared()
}

/// Group 0x22: retransmission by the physical layer (PLR).
///
/// `plr_codes_loss` is the lost bandwidth: its value / 1e10 is the share of the link's bandwidth.
/// The database of mstflint 4.21 has another counter, `hi_retransmission_rate`, at this position.
pub static PLR: Register = Register {
    id: ID,
    name: NAME,
    layout: "ppcnt_plr_counters",
    request: &request(0x22),
    fields: &[
        wide("plr_rcv_codes", SET, Unit::Codewords),
        wide("plr_rcv_code_err", SET + 0x08, Unit::Codewords),
        wide("plr_rcv_uncorrectable_code", SET + 0x10, Unit::Codewords),
        wide("plr_xmit_codes", SET + 0x18, Unit::Codewords),
        wide("plr_xmit_retry_codes", SET + 0x20, Unit::Codewords),
        wide("plr_xmit_retry_events", SET + 0x28, Unit::Events),
        wide("plr_sync_events", SET + 0x30, Unit::Events),
        wide("plr_codes_loss", SET + 0x38, Unit::Setting).not_compared(),
        wide(
            "plr_xmit_retry_events_within_t_sec_max",
            SET + 0x40,
            Unit::Setting,
        ),
        wide("plr_rcv_good_codes", SET + 0x54, Unit::Codewords).not_compared(),
        wide("plr_tx_codes_loss", SET + 0x5c, Unit::Setting).not_compared(),
    ],
};

/// Group 0x23: number of FEC blocks by number of wrong symbols. The first bin has the blocks
/// without errors. Register PPHCR, which ibnet does not read, has the ranges of the bins. The
/// database of mstflint 4.21 has the first 16 bins.
pub static FEC_HISTOGRAM: Register = Register {
    id: ID,
    name: NAME,
    layout: "ppcnt_rs_fec_histograms_counters",
    request: &request(0x23),
    fields: &[wide("hist", SET, Unit::Blocks).array(21).not_compared()],
};

/// Group 0x21: the 64-bit counters of IBA, of a plane or of the whole port. The names in records
/// are those of `port` records.
pub static PLANE_COUNTERS: Register = Register {
    id: ID,
    name: NAME,
    layout: "IB_long_portcntrs_attribute_grp_data",
    request: &request(0x21),
    fields: &[
        at("plane_ind", "plane", 4, 8, 4).setting().not_compared(),
        wide("symbol_error_counter", SET, Unit::Events),
        wide("link_error_recovery_counter", SET + 0x08, Unit::Events),
        wide("link_downed_counter", SET + 0x10, Unit::Events),
        wide("port_rcv_errors", SET + 0x18, Unit::Packets),
        wide("port_rcv_remote_physical_errors", SET + 0x20, Unit::Packets),
        wide("port_rcv_switch_relay_errors", SET + 0x28, Unit::Packets),
        wide("port_xmit_discards", SET + 0x30, Unit::Packets),
        wide("port_xmit_constraint_errors", SET + 0x38, Unit::Packets),
        wide("port_rcv_constraint_errors", SET + 0x40, Unit::Packets),
        wide("local_link_integrity_errors", SET + 0x48, Unit::Events),
        wide("excessive_buffer_overrun_errors", SET + 0x50, Unit::Events),
        ours("vl_15_dropped", "vl15_dropped", 0x58, Unit::Packets),
        ours("port_xmit_data", "port_xmit_data_bytes", 0x60, Unit::Words),
        ours("port_rcv_data", "port_rcv_data_bytes", 0x68, Unit::Words),
        wide("port_xmit_pkts", SET + 0x70, Unit::Packets),
        wide("port_rcv_pkts", SET + 0x78, Unit::Packets),
        ours("port_xmit_wait", "port_xmit_wait_ticks", 0x80, Unit::Ticks),
    ],
};

/// A counter whose name in records is not that of the register database.
const fn ours(name: &'static str, json: &'static str, octet: u16, unit: Unit) -> Field {
    Field::new(name, json, 8 * (SET + octet), 64).counts(unit)
}
