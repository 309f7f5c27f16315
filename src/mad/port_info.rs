//! The fields of PortInfo that `ibnet-sweep query --portinfo` prints (IBA vol. 1, 14.2.5.6), and
//! the meaning of their values.

use ibnet_record::attributes::Field;

use super::pma::{Bits, Data};

/// A field: its name in `smpquery`, its position, and its meaning.
#[derive(Clone, Copy, Debug)]
pub struct PrintedField {
    /// Position in the attribute. The name is that of `smpquery portinfo`.
    pub field: Field,
    /// Name in libibmad.
    pub libibmad: &'static str,
    /// Meaning of the value.
    meaning: Meaning,
}

/// Meaning of a value.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Number,
    State,
    PhysicalState,
    /// A set of widths, one bit for each.
    Widths,
    /// A set of speeds of SDR, DDR and QDR, one bit for each.
    Speeds,
    /// A set of speeds of FDR and later, one bit for each.
    ExtendedSpeeds,
    /// One of the speeds of FDR and later. 0 means one of SDR, DDR and QDR.
    ExtendedSpeed,
    Mtu,
    /// Number of data VLs.
    Vls,
}

const fn field(
    name: &'static str,
    libibmad: &'static str,
    first_bit: u16,
    width: u8,
    meaning: Meaning,
) -> PrintedField {
    PrintedField {
        field: Field::new(name, "", first_bit, width),
        libibmad,
        meaning,
    }
}

/// The printed fields, in the order of `smpquery portinfo`.
pub static PRINTED: [PrintedField; 25] = [
    field("Lid", "IB_PORT_LID_F", 128, 16, Meaning::Number),
    field("SMLid", "IB_PORT_SMLID_F", 144, 16, Meaning::Number),
    field(
        "LinkWidthEnabled",
        "IB_PORT_LINK_WIDTH_ENABLED_F",
        232,
        8,
        Meaning::Widths,
    ),
    field(
        "LinkWidthSupported",
        "IB_PORT_LINK_WIDTH_SUPPORTED_F",
        240,
        8,
        Meaning::Widths,
    ),
    field(
        "LinkWidthActive",
        "IB_PORT_LINK_WIDTH_ACTIVE_F",
        248,
        8,
        Meaning::Widths,
    ),
    field(
        "LinkSpeedSupported",
        "IB_PORT_LINK_SPEED_SUPPORTED_F",
        256,
        4,
        Meaning::Speeds,
    ),
    field("LinkState", "IB_PORT_STATE_F", 260, 4, Meaning::State),
    field(
        "PhysLinkState",
        "IB_PORT_PHYS_STATE_F",
        264,
        4,
        Meaning::PhysicalState,
    ),
    field(
        "LinkSpeedActive",
        "IB_PORT_LINK_SPEED_ACTIVE_F",
        280,
        4,
        Meaning::Speeds,
    ),
    field(
        "LinkSpeedEnabled",
        "IB_PORT_LINK_SPEED_ENABLED_F",
        284,
        4,
        Meaning::Speeds,
    ),
    field(
        "NeighborMTU",
        "IB_PORT_NEIGHBOR_MTU_F",
        288,
        4,
        Meaning::Mtu,
    ),
    field("VLCap", "IB_PORT_VL_CAP_F", 296, 4, Meaning::Vls),
    field(
        "VLHighLimit",
        "IB_PORT_VL_HIGH_LIMIT_F",
        304,
        8,
        Meaning::Number,
    ),
    field("MtuCap", "IB_PORT_MTU_CAP_F", 332, 4, Meaning::Mtu),
    field(
        "VLStallCount",
        "IB_PORT_VL_STALL_COUNT_F",
        336,
        3,
        Meaning::Number,
    ),
    field("HoqLife", "IB_PORT_HOQ_LIFE_F", 339, 5, Meaning::Number),
    field("OperVLs", "IB_PORT_OPER_VLS_F", 344, 4, Meaning::Vls),
    field(
        "MkeyViolations",
        "IB_PORT_MKEY_VIOL_F",
        352,
        16,
        Meaning::Number,
    ),
    field(
        "PkeyViolations",
        "IB_PORT_PKEY_VIOL_F",
        368,
        16,
        Meaning::Number,
    ),
    field(
        "QkeyViolations",
        "IB_PORT_QKEY_VIOL_F",
        384,
        16,
        Meaning::Number,
    ),
    field(
        "LocalPhysErr",
        "IB_PORT_LOCAL_PHYS_ERR_F",
        424,
        4,
        Meaning::Number,
    ),
    field(
        "OverrunErr",
        "IB_PORT_OVERRUN_ERR_F",
        428,
        4,
        Meaning::Number,
    ),
    field(
        "LinkSpeedExtActive",
        "IB_PORT_LINK_SPEED_EXT_ACTIVE_F",
        496,
        4,
        Meaning::ExtendedSpeed,
    ),
    field(
        "LinkSpeedExtSupported",
        "IB_PORT_LINK_SPEED_EXT_SUPPORTED_F",
        500,
        4,
        Meaning::ExtendedSpeeds,
    ),
    field(
        "LinkSpeedExtEnabled",
        "IB_PORT_LINK_SPEED_EXT_ENABLED_F",
        507,
        5,
        Meaning::ExtendedSpeeds,
    ),
];

impl PrintedField {
    /// Returns whether the field is valid only with the capability for extended speeds.
    pub fn is_of_extended_speeds(&self) -> bool {
        matches!(
            self.meaning,
            Meaning::ExtendedSpeeds | Meaning::ExtendedSpeed
        )
    }

    /// Returns the value for people, as `smpquery` prints it.
    pub fn text(&self, data: &Data) -> String {
        let raw = self.field.raw(data, 0);
        match self.meaning {
            Meaning::Number => raw.to_string(),
            Meaning::State => one(raw, &["", "Down", "Initialize", "Armed", "Active"]),
            Meaning::PhysicalState => one(
                raw,
                &[
                    "",
                    "Sleep",
                    "Polling",
                    "Disabled",
                    "PortConfigurationTraining",
                    "LinkUp",
                    "LinkErrorRecovery",
                    "Phy Test",
                ],
            ),
            Meaning::Widths => set(raw, &["1X", "4X", "8X", "12X", "2X"]),
            Meaning::Speeds => set(raw, &["2.5 Gbps", "5.0 Gbps", "10.0 Gbps"]),
            Meaning::ExtendedSpeed if raw == 0 => "No Extended Speed".to_owned(),
            Meaning::ExtendedSpeeds if raw == 0 => "0".to_owned(),
            Meaning::ExtendedSpeeds | Meaning::ExtendedSpeed => set(
                raw,
                &[
                    "14.0625 Gbps",
                    "25.78125 Gbps",
                    "53.125 Gbps",
                    "106.25 Gbps",
                ],
            ),
            Meaning::Mtu => one(raw, &["", "256", "512", "1024", "2048", "4096"]),
            Meaning::Vls => one(raw, &["", "VL0", "VL0-1", "VL0-3", "VL0-7", "VL0-14"]),
        }
    }
}

/// Returns the name of a code.
fn one(code: u64, words: &[&str]) -> String {
    let word = usize::try_from(code)
        .ok()
        .and_then(|code| words.get(code))
        .filter(|word| !word.is_empty());
    word.map_or_else(|| format!("undefined ({code})"), |word| (*word).to_owned())
}

/// Returns the names of the bits that are set.
fn set(bits: u64, words: &[&str]) -> String {
    if bits == 0 || bits >> words.len() != 0 {
        return format!("undefined ({bits})");
    }
    let named: Vec<&str> = words
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, word)| *word)
        .collect();
    named.join(" or ")
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::LinkRate;

    use super::*;
    use crate::mad::pma::DATA_LEN;
    use crate::mad::smp::PortInfo;

    #[test]
    fn values_have_the_words_of_smpquery() {
        let mut data = [0; DATA_LEN];
        PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE).emit(&mut data);
        (data[37], data[46]) = (0, 0xff);
        let text = |name: &str| {
            PRINTED
                .iter()
                .find(|printed| printed.field.name == name)
                .expect("it is there")
                .text(&data)
        };
        assert_eq!(
            (text("LinkState"), text("LinkWidthActive")),
            ("Active".to_owned(), "4X".to_owned())
        );
        assert_eq!(
            (text("LinkSpeedActive"), text("LinkSpeedExtActive")),
            ("10.0 Gbps".to_owned(), "25.78125 Gbps".to_owned())
        );
        assert_eq!(
            (text("PkeyViolations"), text("VLCap")),
            ("65280".to_owned(), "undefined (0)".to_owned())
        );
        assert_eq!(
            (set(3, &["1X", "4X"]), set(4, &["1X", "4X"])),
            ("1X or 4X".to_owned(), "undefined (4)".to_owned())
        );
    }
}
