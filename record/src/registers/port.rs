//! Other registers of a port: PRTL (0x5014), PPLM (0x5023), PPCR (0x504C) and PMAOS (0x5012).

use super::{NANOSECONDS, Register, Select, at, code, select};

/// PRTL: round-trip latency of the cable.
///
/// The latency is `round_trip_latency` x `latency_res` ns, with an error of up to
/// `latency_accuracy_ns`. It is 0xFFFFFF while the port is down, and 0 without `rtt_support`. The
/// values of both ends give the length of the cable.
pub static PRTL: Register = Register {
    id: 0x5014,
    name: "PRTL",
    layout: "prtl",
    request: &[
        (select("plane_ind", 0, 8, 4).not_compared(), Select::Plane),
        (select("pnat", 0, 14, 2).not_compared(), Select::Constant(1)),
        (select("local_port", 0, 16, 8).not_compared(), Select::Port),
    ],
    fields: &[
        code("rtt_support", 0, 31, 1).not_compared(),
        code("latency_res", 0x04, 16, 4).not_compared(),
        at("latency_accuracy", "latency_accuracy_ns", 0x04, 0, 8)
            .counts(NANOSECONDS)
            .not_compared(),
        at("local_phy_latency", "local_phy_latency_ns", 0x08, 0, 16)
            .counts(NANOSECONDS)
            .not_compared(),
        at(
            "local_mod_dp_latency",
            "local_module_latency_ns",
            0x0c,
            0,
            16,
        )
        .counts(NANOSECONDS)
        .not_compared(),
        code("round_trip_latency", 0x10, 0, 24).not_compared(),
    ],
};

/// Returns the measured latency of a cable in both directions, in nanoseconds. `integer` returns a
/// value of [`PRTL`] by its name. `None` if the device does not measure it, or if the port is down.
pub fn round_trip_ns(integer: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    const DOWN: u64 = 0xff_ffff;
    let latency = integer("round_trip_latency").filter(|latency| *latency != DOWN)?;
    (integer("rtt_support")? == 1).then_some(latency * integer("latency_res")?)
}

/// The kinds of error correction (FEC), by their bits in `fec_mode_active` of [`PPLM`].
static FECS: [(u32, &str); 13] = [
    (0, "none"),
    (1, "Fire code"),
    (2, "RS(528,514)"),
    (3, "RS(271,257)"),
    (6, "RS(544,514) interleaved"),
    (7, "RS(544,514)"),
    (9, "RS(272,257+1)"),
    (10, "RS(272,257+1) interleaved"),
    (11, "RS(544,514) interleaved with PLR"),
    (12, "RS(544,514) with PLR"),
    (13, "RS(271,257) with PLR"),
    (14, "RS(272,257+1) with PLR"),
    (15, "RS(272,257+1) interleaved with PLR"),
];

/// Returns the name of a FEC by its bit in `fec_mode_active`.
pub fn fec_name(bit: u32) -> String {
    let found = FECS.iter().find(|(known, _)| *known == bit);
    found.map_or_else(|| format!("number {bit}"), |(_, name)| (*name).to_owned())
}

/// PPLM: FEC of the link. `fec_mode_active` is a set of bits with one bit: see [`fec_name`].
pub static PPLM: Register = Register {
    id: 0x5023,
    name: "PPLM",
    layout: "pplm",
    request: &[
        (select("plane_ind", 0, 4, 4).not_compared(), Select::Plane),
        (select("pnat", 0, 14, 2), Select::Constant(1)),
        (select("local_port", 0, 16, 8), Select::Port),
    ],
    fields: &[code("fec_mode_active", 0x0c, 0, 24)],
};

/// PPCR: planes of a port (XDR).
///
/// `num_of_planes` is 0 for a port without planes. A device without this register has no such
/// ports: `mlxlink` of mstflint takes it so, too. Only switches have `aggregated_port` and `plane`,
/// which other devices see in HierarchyInfo; 0 is none. The port number is that of the chip.
pub static PPCR: Register = Register {
    id: 0x504c,
    name: "PPCR",
    layout: "ppcr",
    request: &[(select("local_port", 0, 16, 8).not_compared(), Select::Port)],
    fields: &[
        code("aggregated_port", 0x08, 0, 8).not_compared(),
        at("plane", "port_plane", 0x08, 16, 3)
            .setting()
            .not_compared(),
        at("num_of_planes", "planes", 0x0c, 0, 8)
            .setting()
            .not_compared(),
        at("p_type", "planes_type", 0x0c, 16, 3)
            .setting()
            .not_compared(),
    ],
};

/// PMAOS: state of a module.
///
/// `oper_status`: 0 initializing, 1 plugged, 2 unplugged, 3 error. `error_type` is valid in state
/// 3. A request selects a module, and not a port.
pub static PMAOS: Register = Register {
    id: 0x5012,
    name: "PMAOS",
    layout: "pmaos",
    request: &[
        (select("module", 0, 16, 8), Select::Item),
        (select("slot_index", 0, 24, 4), Select::Slot),
    ],
    fields: &[
        code("admin_status", 0, 8, 4),
        code("oper_status", 0, 0, 4),
        code("operational_notification", 0x04, 16, 4),
        code("error_type", 0x04, 8, 5).not_compared(),
    ],
};
