//! PortOpRcvCounters (attribute 0x0017, IBA vol. 1, 16.1.4.3), which counts received packets of
//! one opcode, and PortFlowCtlCounters (0x0018, 16.1.4.4), which counts flow control packets. Both
//! are optional.

use super::{Attribute, Field, Needs, Unit};

/// Packets and data of the opcode in the request: 12 octets. ibnet requests opcode 0, like
/// perfquery.
///
/// PortOpRcvData probably counts words. No public source states the unit, so ibnet does not convert
/// the value.
pub static PORT_OP_RCV_COUNTERS: Attribute = Attribute {
    id: 0x0017,
    name: "PortOpRcvCounters",
    section: "16.1.4.3",
    needs: Needs::Nothing,
    fields: &[
        Field::new("OpCode", "opcode", 0, 8),
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortOpRcvPkts", "port_op_rcv_pkts", 32, 32)
            .counts(Unit::Packets)
            .needs(Needs::Option(16)),
        Field::new("PortOpRcvData", "port_op_rcv_data", 64, 32)
            .counts(Unit::Unknown)
            .needs(Needs::Option(17)),
    ],
};

/// Flow control packets: 12 octets.
pub static PORT_FLOW_CTL_COUNTERS: Attribute = Attribute {
    id: 0x0018,
    name: "PortFlowCtlCounters",
    section: "16.1.4.4",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortXmitFlowPkts", "port_xmit_flow_pkts", 32, 32)
            .counts(Unit::Packets)
            .needs(Needs::Option(18)),
        Field::new("PortRcvFlowPkts", "port_rcv_flow_pkts", 64, 32)
            .counts(Unit::Packets)
            .needs(Needs::Option(19)),
    ],
};
