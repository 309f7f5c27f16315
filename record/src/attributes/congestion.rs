//! Counters of congestion control, all optional:
//!
//! - SwPortVLCongestion (attribute 0x0030, IBA vol. 1, 16.1.4.9);
//! - PortRcvConCtrl (0x0031), PortSLRcvFECN (0x0032), PortSLRcvBECN (0x0033), PortXmitConCtrl
//!   (0x0034) and PortVLXmitTimeCong (0x0035), from annex A10 about congestion control.

use super::{Attribute, Field, Needs, Unit};

const SECTION: &str = "A10";

/// Packets that a switch port discarded because of congestion, for each VL. 36 octets. Only
/// switches have this attribute.
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

/// Time in which a port was congested, for each VL except VL 15. 64 octets. No public source states
/// the unit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        (0..)
            .zip(&mut data)
            .for_each(|(place, octet)| *octet = place);
        let values = |attribute: &Attribute| -> Vec<u64> {
            attribute
                .counters()
                .flat_map(|field| (0..field.len).map(|index| field.raw(&data, index)))
                .collect()
        };
        assert_eq!(
            (
                values(&SW_PORT_VL_CONGESTION)[0],
                values(&SW_PORT_VL_CONGESTION)[15]
            ),
            (0x0405, 0x2223)
        );
        assert_eq!(values(&PORT_RCV_CON_CTRL), [0x0405_0607, 0x0809_0a0b]);
        for attribute in [&PORT_SL_RCV_FECN, &PORT_SL_RCV_BECN] {
            assert_eq!(
                (values(attribute)[0], values(attribute)[15]),
                (0x0405_0607, 0x4041_4243)
            );
        }
        assert_eq!(values(&PORT_XMIT_CON_CTRL), [0x0405_0607]);
        assert_eq!(
            (
                values(&PORT_VL_XMIT_TIME_CONG).len(),
                values(&PORT_VL_XMIT_TIME_CONG)[14]
            ),
            (15, 0x3c3d_3e3f)
        );
    }
}
