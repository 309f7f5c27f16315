//! PortCountersExtended (attribute 0x001D, IBA vol. 1, 16.1.4.11): 184 octets. It is optional; an
//! agent with CapabilityMask bit 9 or 10 has it.
//!
//! The first 72 octets are traffic counters, of which those of unicast and multicast packets are
//! valid only with CapabilityMask bit 9. The other counters are the error counters of PortCounters
//! with 64 bits; they are valid only with CapabilityMask2 bit 1.

use super::{Attribute, Field, Needs, Unit};

/// The attribute.
pub static PORT_COUNTERS_EXTENDED: Attribute = Attribute {
    id: 0x001d,
    name: "PortCountersExtended",
    section: "16.1.4.11",
    needs: Needs::ExtendedWidth,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("CounterSelect2", "counter_select2", 32, 32),
        Field::new("PortXmitData", "port_xmit_data_bytes", 64, 64).counts(Unit::Words),
        Field::new("PortRcvData", "port_rcv_data_bytes", 128, 64).counts(Unit::Words),
        Field::new("PortXmitPkts", "port_xmit_pkts", 192, 64).counts(Unit::Packets),
        Field::new("PortRcvPkts", "port_rcv_pkts", 256, 64).counts(Unit::Packets),
        Field::new("PortUnicastXmitPkts", "port_unicast_xmit_pkts", 320, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedWidthUnicast),
        Field::new("PortUnicastRcvPkts", "port_unicast_rcv_pkts", 384, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedWidthUnicast),
        Field::new("PortMulticastXmitPkts", "port_multicast_xmit_pkts", 448, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedWidthUnicast),
        Field::new("PortMulticastRcvPkts", "port_multicast_rcv_pkts", 512, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedWidthUnicast),
        Field::new("SymbolErrorCounter", "symbol_error_counter", 576, 64)
            .counts(Unit::Events)
            .needs(Needs::ExtendedErrors),
        Field::new(
            "LinkErrorRecoveryCounter",
            "link_error_recovery_counter",
            640,
            64,
        )
        .counts(Unit::Events)
        .needs(Needs::ExtendedErrors),
        Field::new("LinkDownedCounter", "link_downed_counter", 704, 64)
            .counts(Unit::Events)
            .needs(Needs::ExtendedErrors),
        Field::new("PortRcvErrors", "port_rcv_errors", 768, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedErrors),
        Field::new(
            "PortRcvRemotePhysicalErrors",
            "port_rcv_remote_physical_errors",
            832,
            64,
        )
        .counts(Unit::Packets)
        .needs(Needs::ExtendedErrors),
        Field::new(
            "PortRcvSwitchRelayErrors",
            "port_rcv_switch_relay_errors",
            896,
            64,
        )
        .counts(Unit::Packets)
        .needs(Needs::ExtendedErrors),
        Field::new("PortXmitDiscards", "port_xmit_discards", 960, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedErrors),
        Field::new(
            "PortXmitConstraintErrors",
            "port_xmit_constraint_errors",
            1024,
            64,
        )
        .counts(Unit::Packets)
        .needs(Needs::ExtendedErrors),
        Field::new(
            "PortRcvConstraintErrors",
            "port_rcv_constraint_errors",
            1088,
            64,
        )
        .counts(Unit::Packets)
        .needs(Needs::ExtendedErrors),
        Field::new(
            "LocalLinkIntegrityErrors",
            "local_link_integrity_errors",
            1152,
            64,
        )
        .counts(Unit::Events)
        .needs(Needs::ExtendedErrors),
        Field::new(
            "ExcessiveBufferOverrunErrors",
            "excessive_buffer_overrun_errors",
            1216,
            64,
        )
        .counts(Unit::Events)
        .needs(Needs::ExtendedErrors),
        Field::new("VL15Dropped", "vl15_dropped", 1280, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedErrors),
        Field::new("PortXmitWait", "port_xmit_wait_ticks", 1344, 64)
            .counts(Unit::Ticks)
            .needs(Needs::ExtendedErrors),
        Field::new("QP1Dropped", "qp1_dropped", 1408, 64)
            .counts(Unit::Packets)
            .needs(Needs::ExtendedErrors),
    ],
};
