//! PortCounters (attribute 0x0012, IBA vol. 1, 16.1.3.5): 44 octets. Every agent has it.
//!
//! A counter stops when all of its bits are one. The traffic counters have 32 bits and count words
//! of 4 bytes, so at the full rate of an EDR link they reach their max after 1.4 s. ibnet
//! therefore reads traffic from [PortCountersExtended](super::port_counters_extended) if the agent
//! has it.

use super::{Attribute, Field, Needs, Unit};

/// The attribute.
///
/// QP1Dropped is at wire bits 160 to 175, according to the structures of opensm and rdma-core, and
/// to CapabilityMask bit 15. libibmad 44.0 reads it 16 bits later, at the position of VL15Dropped,
/// because the entry for `IB_PC_QP1_DROP_F` in its table lacks the macro that orders bits.
pub static PORT_COUNTERS: Attribute = Attribute {
    id: 0x0012,
    name: "PortCounters",
    section: "16.1.3.5",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("SymbolErrorCounter", "symbol_error_counter", 32, 16).counts(Unit::Events),
        Field::new(
            "LinkErrorRecoveryCounter",
            "link_error_recovery_counter",
            48,
            8,
        )
        .counts(Unit::Events),
        Field::new("LinkDownedCounter", "link_downed_counter", 56, 8).counts(Unit::Events),
        Field::new("PortRcvErrors", "port_rcv_errors", 64, 16).counts(Unit::Packets),
        Field::new(
            "PortRcvRemotePhysicalErrors",
            "port_rcv_remote_physical_errors",
            80,
            16,
        )
        .counts(Unit::Packets),
        Field::new(
            "PortRcvSwitchRelayErrors",
            "port_rcv_switch_relay_errors",
            96,
            16,
        )
        .counts(Unit::Packets),
        Field::new("PortXmitDiscards", "port_xmit_discards", 112, 16).counts(Unit::Packets),
        Field::new(
            "PortXmitConstraintErrors",
            "port_xmit_constraint_errors",
            128,
            8,
        )
        .counts(Unit::Packets),
        Field::new(
            "PortRcvConstraintErrors",
            "port_rcv_constraint_errors",
            136,
            8,
        )
        .counts(Unit::Packets),
        Field::new("CounterSelect2", "counter_select2", 144, 8),
        Field::new(
            "LocalLinkIntegrityErrors",
            "local_link_integrity_errors",
            152,
            4,
        )
        .counts(Unit::Events),
        Field::new(
            "ExcessiveBufferOverrunErrors",
            "excessive_buffer_overrun_errors",
            156,
            4,
        )
        .counts(Unit::Events),
        Field::new("QP1Dropped", "qp1_dropped", 160, 16)
            .counts(Unit::Packets)
            .needs(Needs::Qp1Dropped),
        Field::new("VL15Dropped", "vl15_dropped", 176, 16).counts(Unit::Packets),
        Field::new("PortXmitData", "port_xmit_data_bytes", 192, 32).counts(Unit::Words),
        Field::new("PortRcvData", "port_rcv_data_bytes", 224, 32).counts(Unit::Words),
        Field::new("PortXmitPkts", "port_xmit_pkts", 256, 32).counts(Unit::Packets),
        Field::new("PortRcvPkts", "port_rcv_pkts", 288, 32).counts(Unit::Packets),
        Field::new("PortXmitWait", "port_xmit_wait_ticks", 320, 32)
            .counts(Unit::Ticks)
            .needs(Needs::XmitWait),
    ],
};
