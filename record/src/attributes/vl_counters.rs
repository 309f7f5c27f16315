//! Counters with one value for each virtual lane (VL), all optional: PortVLOpPackets (attribute
//! 0x0019, IBA vol. 1, 16.1.4.5), PortVLOpData (0x001A, 16.1.4.6), PortVLXmitFlowCtlUpdateErrors
//! (0x001B, 16.1.4.7), and PortVLXmitWaitCounters (0x001C, 16.1.4.8).
//!
//! Each counter is an array of 16 values, and the index is the VL. The counters have few bits. For
//! example, a PortVLXmitWait has 16 bits and is saturated after some microseconds of congestion.

use super::{Attribute, Field, Needs, Unit};

/// Packets of one opcode. The request selects the opcode, and ibnet requests opcode 0. The
/// attribute has 36 octets.
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

/// Data of one opcode. The request selects the opcode, and ibnet requests opcode 0. The attribute
/// has 68 octets. The title of the attribute mentions kilobytes, but no public source confirms this
/// unit. ibnet does not convert the value.
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

/// Errors of flow control updates: 8 octets, with two bits for each VL. VL 0 is in the highest bits
/// of the first octet. libibmad, python-rdma and opa-ff agree on this order.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    fn values(attribute: &Attribute, data: &[u8; DATA_LEN]) -> Vec<u64> {
        attribute
            .counters()
            .flat_map(|field| (0..field.len).map(|index| field.raw(data, index)))
            .collect()
    }

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        // Each octet holds its own position.
        (0..)
            .zip(&mut data)
            .for_each(|(place, octet)| *octet = place);
        let words: Vec<u64> = (0..16).map(|vl| (4 + 2 * vl) << 8 | (5 + 2 * vl)).collect();
        assert_eq!(values(&PORT_VL_OP_PACKETS, &data), words);
        assert_eq!(values(&PORT_VL_XMIT_WAIT_COUNTERS, &data), words);
        assert_eq!(
            values(&PORT_VL_OP_DATA, &data)[..2],
            [0x0405_0607, 0x0809_0a0b]
        );
        assert_eq!(values(&PORT_VL_OP_DATA, &data)[15], 0x4041_4243);
        // 0x04 is 00 01 00 00: VL 1 has the value 1.
        assert_eq!(
            values(&PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS, &data),
            [0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 2, 0, 0, 1, 3].map(|n: u64| n)
        );
    }

    #[test]
    fn two_bit_counter_is_saturated_at_three() {
        let field = &PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS.fields[2];
        assert!(field.is_saturated(3) && !field.is_saturated(2));
        let mut data = [0xff; DATA_LEN];
        field.set_raw(&mut data, 5, 1);
        assert_eq!(data[4..7], [0xff, 0b1101_1111, 0xff]);
    }
}
