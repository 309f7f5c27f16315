//! PortExtendedSpeedsCounters (attribute 0x001F, IBA vol. 1, 16.1.4 since release 1.3), an
//! optional attribute that counts the errors of links with 64b/66b coding and forward error
//! correction (FEC).
//!
//! The attribute has two layouts, called *views*, in which the octets of the lanes have different
//! meanings. The second view is for links with a Reed-Solomon code: CapabilityMask bit 14 of the
//! agent is set, and FECModeActive of PortInfoExtended is 2 or 4. In both views, CounterSelect has
//! 64 bits and begins at octet 8.

use super::{Attribute, Field, Needs, Unit};

/// The view for links without FEC, or with an FEC that is not a Reed-Solomon code: 140 octets.
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

/// The view for links with a Reed-Solomon code: 152 octets.
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
