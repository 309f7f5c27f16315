//! The causes of lost packets: PortRcvErrorDetails (attribute 0x0015, IBA vol. 1, 16.1.4.1) and
//! PortXmitDiscardDetails (0x0016, 16.1.4.2). Both are optional. Their counters break down
//! PortRcvErrors and PortXmitDiscards by cause.

use super::{Attribute, Field, Needs, Unit};

/// Causes of errors of received packets: 16 octets.
pub static PORT_RCV_ERROR_DETAILS: Attribute = Attribute {
    id: 0x0015,
    name: "PortRcvErrorDetails",
    section: "16.1.4.1",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new(
            "PortLocalPhysicalErrors",
            "port_local_physical_errors",
            32,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(6)),
        Field::new(
            "PortMalformedPktErrors",
            "port_malformed_packet_errors",
            48,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(7)),
        Field::new(
            "PortBufferOverrunErrors",
            "port_buffer_overrun_errors",
            64,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(8)),
        Field::new("PortDLIDMappingErrors", "port_dlid_mapping_errors", 80, 16)
            .counts(Unit::Packets)
            .needs(Needs::Option(9)),
        Field::new("PortVLMappingErrors", "port_vl_mapping_errors", 96, 16)
            .counts(Unit::Packets)
            .needs(Needs::Option(10)),
        Field::new("PortLoopingErrors", "port_looping_errors", 112, 16)
            .counts(Unit::Packets)
            .needs(Needs::Option(11)),
    ],
};

/// Causes of discarded packets: 12 octets.
pub static PORT_XMIT_DISCARD_DETAILS: Attribute = Attribute {
    id: 0x0016,
    name: "PortXmitDiscardDetails",
    section: "16.1.4.2",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("PortInactiveDiscards", "port_inactive_discards", 32, 16)
            .counts(Unit::Packets)
            .needs(Needs::Option(12)),
        Field::new(
            "PortNeighborMTUDiscards",
            "port_neighbor_mtu_discards",
            48,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(13)),
        Field::new(
            "PortSwLifetimeLimitDiscards",
            "port_sw_lifetime_limit_discards",
            64,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(14)),
        Field::new(
            "PortSwHOQLifetimeLimitDiscards",
            "port_sw_hoq_lifetime_limit_discards",
            80,
            16,
        )
        .counts(Unit::Packets)
        .needs(Needs::Option(15)),
    ],
};
