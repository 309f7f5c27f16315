//! Counters with one value for each virtual lane (VL), all optional: PortVLOpPackets (attribute
//! 0x0019, IBA vol. 1, 16.1.4.5), PortVLOpData (0x001A, 16.1.4.6), PortVLXmitFlowCtlUpdateErrors
//! (0x001B, 16.1.4.7), and PortVLXmitWaitCounters (0x001C, 16.1.4.8).
//!
//! Each counter is an array of 16 values, indexed by the VL. The counters have few bits:
//! PortVLXmitWait, for example, has 16 and is saturated after some microseconds of congestion.

use super::{Attribute, Field, Needs, Unit};

/// Packets of one opcode: 36 octets. The request selects the opcode; ibnet requests opcode 0.
pub static PORT_VL_OP_PACKETS: Attribute = Attribute {
    id: 0x0019,
    name: "PortVLOpPackets",
    section: "16.1.4.5",
    needs: Needs::Nothing,
    fields: &[
        Field::new("OpCode", "opcode", 0, 8),
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortVLOpPackets", "port_vl_op_packets", 32, 16)
            .array(16)
            .counts(Unit::Packets)
            .needs(Needs::Option(20)),
    ],
};

/// Data of one opcode: 68 octets. The request selects the opcode; ibnet requests opcode 0. The
/// title of the attribute mentions kilobytes, but no public source confirms this unit, so ibnet
/// does not convert the value.
pub static PORT_VL_OP_DATA: Attribute = Attribute {
    id: 0x001a,
    name: "PortVLOpData",
    section: "16.1.4.6",
    needs: Needs::Nothing,
    fields: &[
        Field::new("OpCode", "opcode", 0, 8),
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortVLOpData", "port_vl_op_data", 32, 32)
            .array(16)
            .counts(Unit::Unknown)
            .needs(Needs::Option(21)),
    ],
};

/// Errors of flow control updates: 8 octets, with two bits for each VL. VL 0 is in the highest
/// bits of the first octet; libibmad, python-rdma and opa-ff agree on this order.
pub static PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS: Attribute = Attribute {
    id: 0x001b,
    name: "PortVLXmitFlowCtlUpdateErrors",
    section: "16.1.4.7",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new(
            "PortVLXmitFlowCtlUpdateErrors",
            "port_vl_xmit_flow_ctl_update_errors",
            32,
            2,
        )
        .array(16)
        .counts(Unit::Events)
        .needs(Needs::Option(22)),
    ],
};

/// PortXmitWait for each VL: 36 octets.
pub static PORT_VL_XMIT_WAIT_COUNTERS: Attribute = Attribute {
    id: 0x001c,
    name: "PortVLXmitWaitCounters",
    section: "16.1.4.8",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortVLXmitWait", "port_vl_xmit_wait_ticks", 32, 16)
            .array(16)
            .counts(Unit::Ticks)
            .needs(Needs::Option(23)),
    ],
};
