//! Prints one group of one port in the format of `perfquery`.
//!
//! The output is a heading, followed by one line per field: the name, dots up to a fixed column,
//! and the value as in the MAD, so data counters are in words of 4 bytes.
//!
//! `tests/ibsim/query.rs` compares the output with `perfquery` line by line. The only difference
//! is QP1Dropped, for which `perfquery` prints the bytes of VL15Dropped.

use std::fmt::Write;

use ibnet_record::attributes::extended_speeds::PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC;
use ibnet_record::attributes::{Attribute, Field, Group, Needs};
use ibnet_record::types::{Lid, PortNum};

use crate::mad::pma::{Bits, Capabilities, Data};

/// Column of the values, counted from 0.
const COLUMN: usize = 33;

/// Port whose counters are printed, with the properties on which their meaning depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) lid: Lid,
    pub(super) port: PortNum,
    /// Capabilities of the device. `None` if the device refused ClassPortInfo.
    pub(super) capabilities: Option<Capabilities>,
    /// Whether the port's FEC is a Reed-Solomon code. `None` if unknown.
    pub(super) rs_fec: Option<bool>,
}

/// Appends a group: its heading and its fields.
pub(super) fn group(group: Group, source: &Source, data: &Data, text: &mut String) {
    let view = view(group, source);
    heading(group, view, source, text);
    for field in fields(group, view, source) {
        for index in 0..field.len {
            // perfquery prints zero for a device that does not count PortXmitWait.
            let is_zero = field.needs == Needs::XmitWait
                && source
                    .capabilities
                    .is_some_and(|known| !known.have(Needs::XmitWait));
            line(
                field,
                index,
                if is_zero { 0 } else { field.raw(data, index) },
                text,
            );
        }
    }
}

/// Returns the layout for decoding the bytes of a group.
fn view(group: Group, source: &Source) -> &'static Attribute {
    let is_rs_fec = source.rs_fec == Some(true)
        && source
            .capabilities
            .is_some_and(|known| known.have(Needs::RsFec));
    group
        .other_view()
        .filter(|_| is_rs_fec)
        .unwrap_or_else(|| group.attribute())
}

fn heading(group: Group, view: &Attribute, source: &Source, text: &mut String) {
    let Source {
        lid,
        port,
        capabilities,
        ..
    } = source;
    let what = match group {
        Group::Extended => "Port extended counters",
        Group::Base => "Port counters",
        Group::SmplCtl => "PortSamplesControl",
        _ if std::ptr::eq(view, &PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC) => {
            "PortExtendedSpeedsCounters with RS-FEC Active counters"
        }
        _ => &format!("{} counters", view.name),
    };
    let masks = match (group, capabilities) {
        (Group::Extended, Some(known)) => format!(
            " (CapMask: 0x{:02X} CapMask2: 0x{:07X})",
            known.mask, known.mask2
        ),
        (Group::Base, Some(known)) => format!(" (CapMask: 0x{:02X})", known.mask),
        _ => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "# {what}: Lid {lid} port {port}{masks}");
}

/// Returns the fields of a layout that are printed, in their order.
fn fields(group: Group, view: &'static Attribute, source: &Source) -> Vec<&'static Field> {
    // OpCode is not printed, because it only repeats the request. In PortSamplesControl, however,
    // it is a setting of the agent.
    let mut fields: Vec<&Field> = view
        .fields
        .iter()
        .filter(|field| group == Group::SmplCtl || field.name != "OpCode")
        .collect();
    let known = source.capabilities.unwrap_or_default();
    match group {
        Group::Extended => {
            // CounterSelect2 belongs to the error counters, which come after the traffic counters.
            let is_of_errors = |field: &&Field| {
                field.needs == Needs::ExtendedErrors || field.name == "CounterSelect2"
            };
            let (errors, traffic): (Vec<&Field>, Vec<&Field>) =
                fields.into_iter().partition(is_of_errors);
            fields = traffic
                .into_iter()
                .filter(|field| known.have(field.needs))
                .collect();
            if known.have(Needs::ExtendedErrors) {
                fields.extend(errors);
            }
        }
        // The meaning of the lane counters depends on the FEC.
        Group::ExtendedSpeeds if known.have(Needs::RsFec) && source.rs_fec.is_none() => {
            fields.retain(|field| field.needs != Needs::OtherFec);
        }
        _ => {}
    }
    fields
}

fn line(field: &Field, index: u8, raw: u64, text: &mut String) {
    let name = if field.len > 1 {
        format!("{}{index}:", field.name)
    } else {
        format!("{}:", field.name)
    };
    let _ = if is_in_hex(field) {
        let digits = 2 * usize::from(field.width.div_ceil(8));
        writeln!(text, "{name:.<COLUMN$}0x{raw:0digits$x}")
    } else {
        writeln!(text, "{name:.<COLUMN$}{raw}")
    };
}

/// Returns whether a field is printed in hexadecimal, as masks, selects and codes are. PortSelect
/// is a port number and therefore decimal.
fn is_in_hex(field: &Field) -> bool {
    let codes = ["OpCode", "Tick", "Tag"];
    field.name.contains("Mask")
        || field.name.starts_with("CounterSelect")
        || codes.contains(&field.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    const ALL: Capabilities = Capabilities {
        mask: 0xffff,
        mask2: 0x7ff_ffff,
        option_mask: None,
    };
    /// Capabilities of ibsim's switches.
    const SWITCH: Capabilities = Capabilities {
        mask: 0x1300,
        mask2: 0,
        option_mask: None,
    };

    fn source(capabilities: Capabilities) -> Source {
        Source {
            lid: Lid(4),
            port: PortNum(5),
            capabilities: Some(capabilities),
            rs_fec: None,
        }
    }

    /// Returns octets with PortSelect 5 and these values.
    fn data(view: &Attribute, values: &[(&str, u8, u64)]) -> Data {
        let mut data = [0; DATA_LEN];
        for (name, index, value) in [("PortSelect", 0, 5)].iter().chain(values) {
            view.field(name)
                .expect("declared")
                .set_raw(&mut data, *index, *value);
        }
        data
    }

    fn printed(of: Group, source: &Source, data: &Data) -> Vec<String> {
        let mut text = String::new();
        group(of, source, data, &mut text);
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the names before the dots.
    fn names(lines: &[String]) -> Vec<&str> {
        lines[1..]
            .iter()
            .map(|line| line.split(':').next().expect("there is a first"))
            .collect()
    }

    #[test]
    fn extended_counters_are_in_words_and_errors_follow_with_their_select() {
        let octets = data(
            Group::Extended.attribute(),
            &[
                ("PortXmitData", 0, u64::MAX),
                ("PortRcvData", 0, 7),
                ("CounterSelect2", 0, 0xa5),
            ],
        );
        let lines = printed(Group::Extended, &source(SWITCH), &octets);
        assert_eq!(
            lines[..5],
            [
                "# Port extended counters: Lid 4 port 5 (CapMask: 0x1300 CapMask2: 0x0000000)",
                "PortSelect:......................5",
                "CounterSelect:...................0x0000",
                "PortXmitData:....................18446744073709551615",
                "PortRcvData:.....................7",
            ]
        );
        assert_eq!(
            (lines.len(), lines.last().map(String::as_str)),
            (11, Some("PortMulticastRcvPkts:............0"))
        );
        let lines = printed(Group::Extended, &source(ALL), &octets);
        assert_eq!(
            lines[0],
            "# Port extended counters: Lid 4 port 5 (CapMask: 0xFFFF CapMask2: 0x7FFFFFF)"
        );
        assert_eq!(
            (lines[11].as_str(), lines.len()),
            ("CounterSelect2:..................0x000000a5", 26)
        );
        assert_eq!(
            (names(&lines)[11], names(&lines)[24]),
            ("SymbolErrorCounter", "QP1Dropped")
        );
        // Bit 10 without bit 9, CapabilityMask2 without bit 1.
        assert_eq!(
            printed(
                Group::Extended,
                &source(Capabilities {
                    mask: 0x400,
                    ..SWITCH
                }),
                &octets
            )
            .len(),
            7
        );
    }

    #[test]
    fn port_xmit_wait_is_zero_if_the_device_does_not_count_it() {
        let octets = data(
            Group::Base.attribute(),
            &[
                ("PortXmitWait", 0, 9),
                ("QP1Dropped", 0, 3),
                ("VL15Dropped", 0, 4),
            ],
        );
        let lines = printed(Group::Base, &source(SWITCH), &octets);
        assert_eq!(
            (lines[0].as_str(), lines.len()),
            ("# Port counters: Lid 4 port 5 (CapMask: 0x1300)", 22)
        );
        assert_eq!(lines[12], "CounterSelect2:..................0x00");
        assert_eq!(
            lines[15..17],
            [
                "QP1Dropped:......................3",
                "VL15Dropped:.....................4"
            ]
        );
        assert_eq!(lines[21], "PortXmitWait:....................9");
        let lines = printed(Group::Base, &source(Capabilities::default()), &octets);
        assert_eq!(
            (lines[0].as_str(), lines[21].as_str()),
            (
                "# Port counters: Lid 4 port 5 (CapMask: 0x00)",
                "PortXmitWait:....................0"
            )
        );
        let unknown = Source {
            capabilities: None,
            ..source(SWITCH)
        };
        let lines = printed(Group::Base, &unknown, &octets);
        assert_eq!(
            (lines[0].as_str(), lines[21].as_str()),
            (
                "# Port counters: Lid 4 port 5",
                "PortXmitWait:....................9"
            )
        );
    }

    #[test]
    fn array_elements_are_numbered_and_op_code_is_left_out() {
        let octets = data(
            Group::VlXmitFlowCtlErrors.attribute(),
            &[("PortVLXmitFlowCtlUpdateErrors", 10, 3)],
        );
        let lines = printed(Group::VlXmitFlowCtlErrors, &source(SWITCH), &octets);
        assert_eq!(
            lines[0],
            "# PortVLXmitFlowCtlUpdateErrors counters: Lid 4 port 5"
        );
        assert_eq!(
            (lines[12].as_str(), lines[13].as_str()),
            (
                "PortVLXmitFlowCtlUpdateErrors9:..0",
                "PortVLXmitFlowCtlUpdateErrors10:.3"
            )
        );
        let octets = data(Group::VlOpPackets.attribute(), &[("OpCode", 0, 6)]);
        assert_eq!(
            names(&printed(Group::VlOpPackets, &source(SWITCH), &octets))[..3],
            ["PortSelect", "CounterSelect", "PortVLOpPackets0"]
        );
        let lines = printed(
            Group::XmtSl,
            &source(SWITCH),
            &data(Group::XmtSl.attribute(), &[("XmtDataSL", 15, 16)]),
        );
        assert_eq!(
            (lines[0].as_str(), lines[18].as_str()),
            (
                "# PortXmitDataSL counters: Lid 4 port 5",
                "XmtDataSL15:.....................16"
            )
        );
    }

    #[test]
    fn hexadecimal_settings_are_as_wide_as_their_octets() {
        let set = [
            ("OpCode", 0, 9),
            ("Tick", 0, 7),
            ("CounterMasks1to9", 0, 0x712_3456),
            ("OptionMask", 0, 1 << 55),
            ("SampleStatus", 0, 1),
        ];
        let lines = printed(
            Group::SmplCtl,
            &source(SWITCH),
            &data(Group::SmplCtl.attribute(), &set),
        );
        assert_eq!(
            lines[..11],
            [
                "# PortSamplesControl: Lid 4 port 5",
                "OpCode:..........................0x09",
                "PortSelect:......................5",
                "Tick:............................0x07",
                "CounterWidth:....................0",
                "CounterMask0:....................0x00",
                "CounterMasks1to9:................0x07123456",
                "CounterMasks10to14:..............0x0000",
                "SampleMechanisms:................0",
                "SampleStatus:....................1",
                "OptionMask:......................0x0080000000000000",
            ]
        );
        assert_eq!(
            (lines.len(), lines[29].as_str(), lines[15].as_str()),
            (
                31,
                "CounterSelect14:.................0x0000",
                "CounterSelect0:..................0x0000"
            )
        );
    }

    #[test]
    fn lane_counters_are_printed_only_if_the_fec_is_known() {
        let octets = data(
            Group::ExtendedSpeeds.attribute(),
            &[("FECCorrectableBlockCtrLane", 11, 5)],
        );
        let with = |rs_fec| {
            printed(
                Group::ExtendedSpeeds,
                &Source {
                    rs_fec,
                    ..source(ALL)
                },
                &octets,
            )
        };
        let (plain, rs) = (with(Some(false)), with(Some(true)));
        assert_eq!(
            (plain[0].as_str(), plain.len()),
            ("# PortExtendedSpeedsCounters counters: Lid 4 port 5", 41)
        );
        assert_eq!(
            plain[2],
            "CounterSelect:...................0x0000000000000000"
        );
        assert_eq!(plain[28], "FECCorrectableBlockCtrLane11:....5");
        assert_eq!(
            (rs[0].as_str(), rs.len()),
            (
                "# PortExtendedSpeedsCounters with RS-FEC Active counters: Lid 4 port 5",
                20
            )
        );
        assert_eq!(rs[16], "FECCorrectableSymbolCtrLane11:...5");
        assert_eq!(
            names(&with(None)),
            [
                "PortSelect",
                "CounterSelect",
                "SyncHeaderErrorCounter",
                "UnknownBlockCounter"
            ]
        );
        // On a device without the layout for RS-FEC, the octets have only one meaning.
        assert_eq!(
            printed(Group::ExtendedSpeeds, &source(SWITCH), &octets).len(),
            41
        );
    }

    #[test]
    fn every_name_is_shorter_than_the_value_column() {
        for of in Group::ALL {
            for rs_fec in [Some(false), Some(true)] {
                let lines = printed(
                    of,
                    &Source {
                        rs_fec,
                        ..source(ALL)
                    },
                    &[0; DATA_LEN],
                );
                let value = |line: &String| {
                    line.find(":.").is_some_and(|colon| colon < COLUMN)
                        && line.as_bytes()[COLUMN].is_ascii_digit()
                };
                assert!(
                    lines[1..]
                        .iter()
                        .all(|line| value(line) && line.as_bytes()[COLUMN - 1] == b'.'),
                    "{of}: {lines:#?}"
                );
            }
        }
    }
}
