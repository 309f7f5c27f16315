//! Lines of `ibnetdiscover -p`.
//!
//! The format is that of `dump_ports_report()` in rdma-core's `infiniband-diags/ibnetdiscover.c`:
//! one line for each port, without a header.
//!
//! ```text
//! "%2s %5d %2d 0x%016x %s %s"               type, LID, port, GUID, width, speed
//! " - %2s %5d %2d 0x%016x ( '%s' - '%s' )"    the same of the peer; own name, peer's name
//! ```
//!
//! For a port without a link, the second part is replaced by 36 blanks and the port's own name as
//! `'%s'`.
//!
//! 1. A port is linked if ` - ` and a peer follow. The speed does not decide this, because a
//!    linked port can have the speed `???`.
//! 2. The parser splits words, not columns, because a port number above 99 shifts the columns.
//! 3. A faulty line becomes a [`Remark`] with its number, and the other lines are parsed. Only a
//!    file without any valid line is refused.
//! 4. Every line that gives no port has a remark.

use ibnet_record::types::{NodeKind, ParseError};

use super::lines::{Draft, End, Line, Words, rate, shorten};
use super::names::RawName;
use super::{LinePosition, Node, Remark, RemarkKind};

/// Parses all lines.
pub(super) fn draft(text: &str, file: u16) -> Draft<'_> {
    let mut draft = Draft::default();
    for (number, line) in (1..).zip(text.lines()) {
        let position = LinePosition { file, line: number };
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim().is_empty() {
            continue;
        }
        match Line::of_port(line, position) {
            Ok(line) => draft.lines.push(line),
            Err(error) => draft.remarks.push(Remark::new(
                position,
                RemarkKind::Unreadable,
                error.to_string(),
            )),
        }
    }
    draft
}

/// Returns whether a line belongs to a ports report.
pub(super) fn is_line(line: &str) -> bool {
    Line::of_port(line, LinePosition::default()).is_ok()
}

impl<'a> Line<'a> {
    fn of_port(line: &'a str, position: LinePosition) -> Result<Self, ParseError> {
        let mut words = Words(line);
        let end = End::parse(&mut words)?;
        let width = words.next("a link width such as 4x")?;
        let rate = rate(width, words.next("a link speed such as EDR")?)?;
        let rest = words.0.trim_start();
        let (peer, names) = match rest.strip_prefix("- ") {
            Some(rest) => {
                let mut words = Words(rest);
                (Some(End::parse(&mut words)?), RawName::pair(words.0))
            }
            None => {
                let wrong = || {
                    ParseError::new(
                        shorten(rest),
                        "a name in single quotes, or ` - ` and a peer",
                    )
                };
                (None, RawName::alone(rest).ok_or_else(wrong)?)
            }
        };
        Ok(Self {
            position,
            end,
            node: Node::default(),
            rate,
            peer,
            names,
        })
    }
}

impl End {
    fn parse(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let kind = match words.next("a node type (SW, CA or RT)")? {
            "SW" => NodeKind::Switch,
            "CA" => NodeKind::Hca,
            "RT" => NodeKind::Router,
            other => {
                return Err(ParseError::new(
                    shorten(other),
                    "a node type (SW, CA or RT)",
                ));
            }
        };
        let (lid, port) = (words.lid()?, words.port()?);
        let guid = words
            .next("a GUID (0x and 16 hexadecimal digits)")?
            .parse()?;
        Ok(Self {
            kind,
            lid,
            port,
            guid,
        })
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::{Guid, Lid, PortNum};

    use super::*;
    use crate::topology::ports_report::{NetFile, NetFileError, parse};

    const LEAF: &str = "SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )";
    const HOST: &str = "CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )";
    const DOWN: &str =
        "SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'";

    fn read(lines: &[&str]) -> NetFile {
        parse(lines.join("\n").as_bytes(), "net.p").expect("readable")
    }

    fn kinds(file: &NetFile) -> Vec<(u32, RemarkKind)> {
        file.remarks
            .iter()
            .map(|remark| (remark.line, remark.kind))
            .collect()
    }

    #[test]
    fn linked_and_unlinked_ports_are_parsed() {
        let file = read(&[LEAF, DOWN, HOST]);
        assert_eq!(file.remarks, []);
        assert_eq!(
            (
                file.port_lines,
                file.linked_lines,
                file.fabric.linked_ports()
            ),
            (3, 2, 2)
        );
        let leaf = file.fabric.device(
            file.fabric
                .find(Guid(0x20_0006), PortNum(2))
                .expect("the switch"),
        );
        assert_eq!(
            (leaf.name.as_str(), leaf.lid, leaf.ports.len()),
            ("leaf0", Lid(4), 2)
        );
        let (port, peer) = leaf.linked().next().expect("port 1");
        assert_eq!(
            (port.num, port.rate.to_string(), peer.name.as_str()),
            (PortNum(1), "4xEDR".to_owned(), "node1 mlx5_0")
        );
    }

    #[test]
    fn overlong_word_is_not_a_speed() {
        let file = read(&[
            LEAF,
            &HOST.replace("4x EDR", &format!("4x {}", "E".repeat(1000))),
        ]);
        assert!(
            matches!(&file.remarks[..], [_, remark] if remark.line == 2 && remark.to_string().len() < 200),
            "{:?}",
            file.remarks
        );
    }

    #[test]
    fn unknown_speed_does_not_unlink_a_port() {
        let file = read(&[
            &LEAF.replace("4x EDR", "4x ???"),
            &HOST.replace("4x EDR", "?? ???"),
        ]);
        assert_eq!(file.fabric.linked_ports(), 2);
    }

    #[test]
    fn three_digit_ports_and_single_blanks_move_the_columns() {
        let file = read(&[
            "SW    24 1 0x946dae0300618c82 4x SDR                                    '5FB0406-spine-IB01 '",
            &LEAF.replace("  1 0x0000000000200006", " 149 0x0000000000200006"),
        ]);
        let names: Vec<_> = file
            .fabric
            .devices()
            .iter()
            .map(|device| (device.name.as_str(), device.ports[0].num.0))
            .collect();
        assert_eq!(names, [("leaf0", 149), ("5FB0406-spine-IB01 ", 1)]);
    }

    #[test]
    fn faulty_lines_are_reported_and_skipped() {
        let file = read(&[
            "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1,3)",
            "src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,17 Attr 0xff90:1) bad status 110; Connection timed out",
            LEAF,
            "SW   479 22 0x0002c9020040f161 4x QDR                                   Infiniscale-IV Mellanox Technologies",
            "SW     4  0 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )",
            "SW 65536  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )",
            "SW     4  3 0x0000000000200006 4x EDR - CA    17  1 0x00000000001",
            HOST,
        ]);
        let lines: Vec<_> = kinds(&file)
            .iter()
            .map(|(line, kind)| (*line, *kind))
            .collect();
        assert_eq!(
            lines,
            [1, 2, 4, 5, 6, 7].map(|line| (line, RemarkKind::Unreadable))
        );
        assert_eq!(file.fabric.linked_ports(), 2);
    }

    #[test]
    fn carriage_returns_and_blank_lines_are_ignored() {
        assert_eq!(read(&[&format!("\u{feff}{LEAF}"), HOST]).remarks, []);
        let file = read(&[
            &format!("{LEAF}\r"),
            "\r",
            &format!("{DOWN}\r"),
            &format!("{HOST}\r"),
            "",
        ]);
        assert_eq!((file.remarks.len(), file.fabric.linked_ports()), (0, 2));
        assert_eq!(file.fabric.devices()[0].name, "node1 mlx5_0");
    }

    #[test]
    fn line_cut_within_its_names_is_still_a_link() {
        let file = read(&[HOST, &LEAF[..LEAF.len() - 8]]);
        assert_eq!((file.linked_lines, file.fabric.linked_ports()), (2, 2));
    }

    #[test]
    fn other_formats_are_refused_with_a_reason() {
        assert!(matches!(parse(b"", "x"), Err(NetFileError::Empty { .. })));
        assert!(matches!(
            parse(b"\n\r\n", "x"),
            Err(NetFileError::Empty { .. })
        ));
        assert!(matches!(
            parse(&[0, 159, 146, 150, 10, 255, 0], "x"),
            Err(NetFileError::NothingReadable { line: 1, .. })
        ));
        let plain = b"#\n# Topology file: generated on Tue Jun  5 14:15:10 2007\n#\nvendid=0x8f1\n";
        assert!(matches!(
            parse(plain, "x"),
            Err(NetFileError::NothingReadable { line: 1, .. })
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = parse(&bytes, "x");
        }

        /// Replaces one character of a valid file: each line becomes a port or a remark.
        #[test]
        fn no_port_is_lost_without_a_remark(at in 0usize..300, with in "[ -~\u{e9}\r]") {
            let mut text: Vec<char> = [LEAF, DOWN, HOST].join("\n").chars().collect();
            let at = at % text.len();
            if text[at] != '\n' {
                text.splice(at..=at, with.chars());
                let file = parse(text.iter().collect::<String>().as_bytes(), "x").expect("two good lines are left");
                let lost = file.remarks.iter().filter(|remark| remark.kind.loses_a_port()).count();
                let ports: usize = file.fabric.devices().iter().map(|device| device.ports.len()).sum();
                proptest::prop_assert_eq!(ports + lost, 3);
            }
        }
    }
}
