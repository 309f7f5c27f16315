//! Counters of congestion control, all optional:
//!
//! - SwPortVLCongestion (attribute 0x0030, IBA vol. 1, 16.1.4.9);
//! - PortRcvConCtrl (0x0031), PortSLRcvFECN (0x0032), PortSLRcvBECN (0x0033), PortXmitConCtrl
//!   (0x0034) and PortVLXmitTimeCong (0x0035), from annex A10 about congestion control.

use super::{Attribute, Field, Needs, Unit};

const SECTION: &str = "A10";

/// Packets that a switch port discarded because of congestion, for each VL: 36 octets, in switches
/// only.
pub static SW_PORT_VL_CONGESTION: Attribute = Attribute {
    id: 0x0030,
    name: "SwPortVLCongestion",
    section: "16.1.4.9",
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("SWPortVLCongestion", "sw_port_vl_congestion", 32, 16)
            .array(16)
            .counts(Unit::Packets)
            .needs(Needs::Option(48)),
    ],
};

/// Packets received with the FECN or the BECN bit: 12 octets.
pub static PORT_RCV_CON_CTRL: Attribute = Attribute {
    id: 0x0031,
    name: "PortRcvConCtrl",
    section: SECTION,
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("PortPktRcvFECN", "port_pkt_rcv_fecn", 32, 32)
            .counts(Unit::Packets)
            .needs(Needs::Option(49)),
        Field::new("PortPktRcvBECN", "port_pkt_rcv_becn", 64, 32)
            .counts(Unit::Packets)
            .needs(Needs::Option(50)),
    ],
};

/// Packets received with the FECN bit, for each SL: 68 octets.
pub static PORT_SL_RCV_FECN: Attribute = Attribute {
    id: 0x0032,
    name: "PortSLRcvFECN",
    section: SECTION,
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("PortSLRcvFECN", "port_sl_rcv_fecn", 32, 32)
            .array(16)
            .counts(Unit::Packets)
            .needs(Needs::Option(51)),
    ],
};

/// Packets received with the BECN bit, for each SL: 68 octets.
pub static PORT_SL_RCV_BECN: Attribute = Attribute {
    id: 0x0033,
    name: "PortSLRcvBECN",
    section: SECTION,
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("PortSLRcvBECN", "port_sl_rcv_becn", 32, 32)
            .array(16)
            .counts(Unit::Packets)
            .needs(Needs::Option(52)),
    ],
};

/// Time in which a port was congested: 8 octets. No public source states the unit.
pub static PORT_XMIT_CON_CTRL: Attribute = Attribute {
    id: 0x0034,
    name: "PortXmitConCtrl",
    section: SECTION,
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("PortXmitTimeCong", "port_xmit_time_cong", 32, 32)
            .counts(Unit::Unknown)
            .needs(Needs::Option(53)),
    ],
};

/// Time in which a port was congested, for each VL except VL 15: 64 octets. No public source
/// states the unit.
pub static PORT_VL_XMIT_TIME_CONG: Attribute = Attribute {
    id: 0x0035,
    name: "PortVLXmitTimeCong",
    section: SECTION,
    needs: Needs::Nothing,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        Field::new("PortVLXmitTimeCong", "port_vl_xmit_time_cong", 32, 32)
            .array(15)
            .counts(Unit::Unknown)
            .needs(Needs::Option(54)),
    ],
};

const PORT_SELECT: Field = Field::new("PortSelect", "port_select", 8, 8);
const COUNTER_SELECT: Field = Field::new("CounterSelect", "counter_select", 16, 16);
