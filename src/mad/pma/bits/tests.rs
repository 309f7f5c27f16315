//! The tables of all attributes read their fields from the right octets.

mod port_counters {
    use ibnet_record::attributes::port_counters::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        data[4..44].copy_from_slice(&[
            0x01, 0x02, 3, 4, 0x00, 0x05, 0x00, 0x06, 0x00, 0x07, 0x00, 0x08, 9, 10, 0, 0xbc, 0x0d,
            0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 0x15, 0, 0, 0, 0x16, 0, 0, 0, 0x17,
            0xff, 0xff, 0xff, 0xff,
        ]);
        let value = |name| {
            PORT_COUNTERS
                .field(name)
                .map(|field| field.value(field.raw(&data, 0)))
                .expect("declared")
        };
        assert_eq!(value("SymbolErrorCounter"), 0x0102);
        assert_eq!(
            (
                value("LinkErrorRecoveryCounter"),
                value("LinkDownedCounter")
            ),
            (3, 4)
        );
        assert_eq!(
            (
                value("LocalLinkIntegrityErrors"),
                value("ExcessiveBufferOverrunErrors")
            ),
            (0xb, 0xc)
        );
        assert_eq!(
            (value("QP1Dropped"), value("VL15Dropped")),
            (0x0d0e, 0x0f10)
        );
        // Field::value converts words to octets.
        assert_eq!(
            (value("PortXmitData"), value("PortRcvData")),
            (0x1112_1314 * 4, 0x15 * 4)
        );
        let wait = PORT_COUNTERS.field("PortXmitWait").expect("declared");
        assert!(wait.is_saturated(wait.raw(&data, 0)));
    }
}

mod port_counters_extended {
    use ibnet_record::attributes::port_counters_extended::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        data[8..16].copy_from_slice(&0x0000_0001_0000_0002_u64.to_be_bytes());
        data[72..80].copy_from_slice(&7_u64.to_be_bytes());
        data[176..184].copy_from_slice(&u64::MAX.to_be_bytes());
        let field = |name| PORT_COUNTERS_EXTENDED.field(name).expect("declared");
        let value = |name| field(name).value(field(name).raw(&data, 0));
        assert_eq!(value("PortXmitData"), 0x0000_0004_0000_0008);
        assert_eq!(value("SymbolErrorCounter"), 7);
        assert_eq!(value("QP1Dropped"), u64::MAX);
        assert!(
            !field("QP1Dropped").is_saturated(u64::MAX),
            "whether 64-bit counters stop is not known, nor does it matter"
        );
    }

    #[test]
    fn conversion_to_octets_stops_at_64_bits() {
        let field = PORT_COUNTERS_EXTENDED
            .field("PortXmitData")
            .expect("declared");
        assert_eq!(field.value(u64::MAX), u64::MAX);
    }
}

mod error_details {
    use ibnet_record::attributes::Attribute;
    use ibnet_record::attributes::error_details::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        data[4..16].copy_from_slice(&[0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0xff, 0xff]);
        let values = |attribute: &Attribute| {
            attribute
                .counters()
                .map(|field| field.raw(&data, 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&PORT_RCV_ERROR_DETAILS), [1, 2, 3, 4, 5, 0xffff]);
        assert_eq!(values(&PORT_XMIT_DISCARD_DETAILS), [1, 2, 3, 4]);
    }
}

mod extended_speeds {
    use ibnet_record::attributes::Attribute;
    use ibnet_record::attributes::extended_speeds::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_of_both_views_are_decoded_from_their_octets() {
        let mut data = [0xa5; DATA_LEN];
        data[16..24].copy_from_slice(&[0x01, 0x02, 0xff, 0xff, 0x03, 0x04, 0x05, 0x06]);
        data[44..52].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2]);
        data[88..96].copy_from_slice(&[0, 0, 0, 12, 0, 0, 0, 13]);
        data[136..152].copy_from_slice(&[
            0, 0, 0, 24, 0, 0, 0, 31, 0, 0, 0, 32, 0xff, 0xff, 0xff, 0xff,
        ]);
        let raw = |attribute: &Attribute, name, index| {
            attribute
                .field(name)
                .map(|field| field.raw(&data, index))
                .expect("declared")
        };
        let (plain, rs_fec) = (
            &PORT_EXTENDED_SPEEDS_COUNTERS,
            &PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC,
        );
        for view in [plain, rs_fec] {
            assert_eq!(
                (
                    raw(view, "SyncHeaderErrorCounter", 0),
                    raw(view, "UnknownBlockCounter", 0)
                ),
                (0x0102, 0xffff)
            );
        }
        assert_eq!(
            (
                raw(plain, "ErrorDetectionCounterLane", 0),
                raw(plain, "ErrorDetectionCounterLane", 1)
            ),
            (0x0304, 0x0506)
        );
        assert_eq!(
            (
                raw(plain, "FECCorrectableBlockCtrLane", 1),
                raw(plain, "FECCorrectableBlockCtrLane", 11)
            ),
            (2, 12)
        );
        assert_eq!(
            (
                raw(plain, "FECUncorrectableBlockCtrLane", 0),
                raw(plain, "FECUncorrectableBlockCtrLane", 11)
            ),
            (13, 24)
        );
        assert_eq!(
            (
                raw(rs_fec, "FECCorrectableSymbolCtrLane", 0),
                raw(rs_fec, "FECCorrectableSymbolCtrLane", 11)
            ),
            (1, 12)
        );
        assert_eq!(
            (
                raw(rs_fec, "PortFECCorrectableBlockCtr", 0),
                raw(rs_fec, "PortFECUncorrectableBlockCtr", 0)
            ),
            (31, 32)
        );
        let last = rs_fec.field("PortFECCorrectedSymbolCtr").expect("declared");
        assert!(last.is_saturated(last.raw(&data, 0)));
    }
}

mod flow_control {
    use ibnet_record::attributes::Attribute;
    use ibnet_record::attributes::flow_control::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        data[..12].copy_from_slice(&[6, 1, 0xff, 0xff, 0, 0, 1, 2, 0xff, 0xff, 0xff, 0xff]);
        let values = |attribute: &Attribute| {
            attribute
                .counters()
                .map(|field| field.raw(&data, 0))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&PORT_OP_RCV_COUNTERS), [0x0102, 0xffff_ffff]);
        assert_eq!(values(&PORT_FLOW_CTL_COUNTERS), [0x0102, 0xffff_ffff]);
        assert_eq!(
            PORT_OP_RCV_COUNTERS
                .field("OpCode")
                .map(|field| field.raw(&data, 0)),
            Some(6)
        );
    }
}

mod sl_data {
    use ibnet_record::attributes::sl_data::*;

    use crate::mad::pma::{Bits, DATA_LEN};

    #[test]
    fn fields_are_decoded_and_words_become_octets() {
        let mut data = [0xff; DATA_LEN];
        data[4..12].copy_from_slice(&[0, 0, 0, 1, 0x40, 0, 0, 0]);
        data[64..68].copy_from_slice(&[0, 0, 1, 0]);
        for attribute in [&PORT_XMIT_DATA_SL, &PORT_RCV_DATA_SL] {
            let field = attribute.counters().next().expect("it has one");
            let value = |index| field.value(field.raw(&data, index));
            assert_eq!((value(0), value(1), value(15)), (4, 1 << 32, 1024));
            assert!(field.is_saturated(field.raw(&data, 2)));
            assert_eq!(value(2), 0xffff_ffff * 4);
        }
    }
}

mod vl_counters {
    use ibnet_record::attributes::Attribute;
    use ibnet_record::attributes::vl_counters::*;

    use crate::mad::pma::{Bits, DATA_LEN};

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

mod congestion {
    use ibnet_record::attributes::Attribute;
    use ibnet_record::attributes::congestion::*;

    use crate::mad::pma::{Bits, DATA_LEN};

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
