//! PortExtendedSpeedsCounters (attribute 0x001F, IBA vol. 1, 16.1.4 since release 1.3). It counts
//! the errors of links with 64b/66b coding and forward error correction (FEC). The attribute is
//! optional.
//!
//! The attribute has two layouts, called *views*. A link with a Reed-Solomon code uses the second
//! view. In this view, the octets of the lanes have another meaning. Two conditions identify such a
//! link: CapabilityMask bit 14 of the agent is set, and FECModeActive of PortInfoExtended is 2 or
//! 4. In both views, CounterSelect has 64 bits and begins at octet 8.

use super::{Attribute, Field, Needs, Unit};

/// The view for links without FEC, or with any FEC except a Reed-Solomon code. 140 octets.
pub static PORT_EXTENDED_SPEEDS_COUNTERS: Attribute = Attribute {
    id: 0x001f,
    name: "PortExtendedSpeedsCounters",
    section: SECTION,
    needs: Needs::ExtendedSpeeds,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        SYNC_HEADER_ERRORS,
        UNKNOWN_BLOCKS,
        Field::new(
            "ErrorDetectionCounterLane",
            "error_detection_counter_lane",
            160,
            16,
        )
        .array(12)
        .counts(Unit::Events)
        .needs(Needs::OtherFec),
        Field::new(
            "FECCorrectableBlockCtrLane",
            "fec_correctable_block_counter_lane",
            352,
            32,
        )
        .array(12)
        .counts(Unit::Blocks)
        .needs(Needs::OtherFec),
        Field::new(
            "FECUncorrectableBlockCtrLane",
            "fec_uncorrectable_block_counter_lane",
            736,
            32,
        )
        .array(12)
        .counts(Unit::Blocks)
        .needs(Needs::OtherFec),
    ],
};

/// The view for links with a Reed-Solomon code. 152 octets.
pub static PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC: Attribute = Attribute {
    id: 0x001f,
    name: "PortExtendedSpeedsCountersRSFEC",
    section: SECTION,
    needs: Needs::ExtendedSpeeds,
    fields: &[
        PORT_SELECT,
        COUNTER_SELECT,
        SYNC_HEADER_ERRORS,
        UNKNOWN_BLOCKS,
        Field::new(
            "FECCorrectableSymbolCtrLane",
            "fec_correctable_symbol_counter_lane",
            352,
            32,
        )
        .array(12)
        .counts(Unit::Symbols)
        .needs(Needs::RsFec),
        Field::new(
            "PortFECCorrectableBlockCtr",
            "port_fec_correctable_block_counter",
            1120,
            32,
        )
        .counts(Unit::Blocks)
        .needs(Needs::RsFec),
        Field::new(
            "PortFECUncorrectableBlockCtr",
            "port_fec_uncorrectable_block_counter",
            1152,
            32,
        )
        .counts(Unit::Blocks)
        .needs(Needs::RsFec),
        Field::new(
            "PortFECCorrectedSymbolCtr",
            "port_fec_corrected_symbol_counter",
            1184,
            32,
        )
        .counts(Unit::Symbols)
        .needs(Needs::RsFec),
    ],
};

const SECTION: &str = "16.1.4";
const PORT_SELECT: Field = Field::new("PortSelect", "port_select", 8, 8);
const COUNTER_SELECT: Field = Field::new("CounterSelect", "counter_select", 64, 64);
const SYNC_HEADER_ERRORS: Field = Field::new(
    "SyncHeaderErrorCounter",
    "sync_header_error_counter",
    128,
    16,
)
.counts(Unit::Events);
const UNKNOWN_BLOCKS: Field =
    Field::new("UnknownBlockCounter", "unknown_block_counter", 144, 16).counts(Unit::Events);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

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
