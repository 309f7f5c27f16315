//! Processes the lines of net files in both formats, and builds devices from them.
//!
//! [`ports_lines`](super::ports_lines) and [`topology_report`](super::topology_report) parse the
//! lines. This module then separates the names of the two ends of each link, and reports repeated
//! lines, contradictions and LIDs that two devices share. At the end it builds the devices.

use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;

use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, ParseError, PortNum};
use rustc_hash::FxHashMap;

use super::names::{self, RawName};
use super::{Device, Fabric, LinePosition, Node, Peer, Port, Remark, RemarkKind};

/// The parsed lines of one file.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    /// Lines that describe a port.
    pub(super) lines: Vec<Line<'a>>,
    /// Remarks about lines that cannot be parsed.
    pub(super) remarks: Vec<Remark>,
}

/// One parsed line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) position: LinePosition,
    pub(super) end: End,
    pub(super) node: Node,
    pub(super) rate: LinkRate,
    pub(super) peer: Option<End>,
    pub(super) names: RawName<'a>,
}

impl<'a> Line<'a> {
    /// Returns the GUIDs and the unseparated names of both ends.
    pub(super) fn names(&self) -> names::Entry<'a> {
        names::Entry {
            own: self.end.guid,
            peer: self.peer.map(|peer| peer.guid),
            raw: self.names,
        }
    }
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct End {
    pub(super) kind: NodeKind,
    pub(super) lid: Lid,
    pub(super) port: PortNum,
    pub(super) guid: Guid,
}

/// Key of a device. A switch with all of its ports is one device. Each port of an HCA is a device.
pub(super) type Key = (Guid, PortNum);

impl End {
    pub(super) fn key(&self) -> Key {
        (
            self.guid,
            if self.kind == NodeKind::Switch {
                PortNum(0)
            } else {
                self.port
            },
        )
    }
}

/// Max length of a width or speed in bytes. It is limited because every record of the port has
/// both.
const LONGEST_WORD: usize = 16;

/// Parses a width and a speed of a link as `ibnetdiscover` prints them.
pub(super) fn rate(width: &str, speed: &str) -> Result<LinkRate, ParseError> {
    if !width.ends_with('x') && width != "??" || width.len() > LONGEST_WORD {
        return Err(ParseError::new(shorten(width), "a link width such as 4x"));
    }
    if speed.is_empty() || speed.len() > LONGEST_WORD {
        return Err(ParseError::new(shorten(speed), "a link speed such as EDR"));
    }
    Ok(LinkRate::new(width, speed))
}

/// The words of a line that are not parsed yet.
pub(super) struct Words<'a>(pub(super) &'a str);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        let rest = self.0.trim_start_matches(' ');
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        if word.is_empty() {
            Err(ParseError::new("the end of the line", expected))
        } else {
            Ok(word)
        }
    }

    pub(super) fn lid(&mut self) -> Result<Lid, ParseError> {
        number(self.next(A_LID)?, A_LID, 0..=u64::from(Lid::MAX_UNICAST.0))
            .map(|lid| Lid(lid as u16))
    }

    pub(super) fn port(&mut self) -> Result<PortNum, ParseError> {
        port(self.next(A_PORT)?)
    }
}

const A_LID: &str = "a LID from 0 to 49151";
const A_PORT: &str = "a port number from 1 to 254";

pub(super) fn port(word: &str) -> Result<PortNum, ParseError> {
    number(word, A_PORT, 1..=254).map(|port| PortNum(port as u8))
}

/// Parses a number of decimal digits.
pub(super) fn number(
    word: &str,
    expected: &'static str,
    range: RangeInclusive<u64>,
) -> Result<u64, ParseError> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number = word
        .parse()
        .ok()
        .filter(|number| digits && range.contains(number));
    number.ok_or_else(|| ParseError::new(shorten(word), expected))
}

/// Shortens a text for a message, which could otherwise contain a whole binary file.
pub(super) fn shorten(text: &str) -> String {
    const MAX: usize = 48;
    if text.chars().count() <= MAX {
        text.to_owned()
    } else {
        text.chars().take(MAX).chain(['…']).collect()
    }
}

/// The line of a port that is used: the first one.
struct Seen {
    position: LinePosition,
    lid: Lid,
    peer: Option<End>,
}

/// Builds the devices of one subnet. If several lines describe a port, the first one is used.
pub(super) fn assemble(lines: Vec<Line<'_>>, remarks: &mut Vec<Remark>) -> Fabric {
    let separated = names::separate(lines.iter().map(Line::names));
    // `Fabric::new` sorts the devices.
    let mut devices: FxHashMap<Key, Device> = FxHashMap::default();
    let mut seen: FxHashMap<Key, Seen> = FxHashMap::default();
    let mut lids: FxHashMap<Lid, Key> = FxHashMap::default();
    for (line, names) in lines.into_iter().zip(separated) {
        let Line {
            position,
            end,
            node,
            rate,
            peer,
            ..
        } = line;
        let mut remark = |kind, text| remarks.push(Remark::new(position, kind, text));
        if let Some(first) = seen.get(&(end.guid, end.port)) {
            let there = first.position;
            let how = match (first.peer == peer, first.lid == end.lid) {
                (true, true) => "is the same as",
                (true, false) => "has another LID in",
                (false, _) => "has another peer in",
            };
            // Two files may overlap, so equal lines of a port in two files are no fault.
            if there.file == position.file || first.peer != peer || first.lid != end.lid {
                let whose = if there.file == position.file {
                    ""
                } else {
                    " of an earlier file"
                };
                let text = format!(
                    "port {} of {} {how} line {}{whose}, which counts",
                    end.port, end.guid, there.line
                );
                remark(RemarkKind::Repeated, text);
            }
            if let Some(device) = devices.get_mut(&end.key()) {
                device.node.complete(node);
            }
            continue;
        }
        let key = end.key();
        if end.lid != Lid(0) {
            let holder = *lids.entry(end.lid).or_insert(key);
            if holder != key {
                remark(
                    RemarkKind::DuplicateLid,
                    format!(
                        "LID {} of {} already belongs to {}, which keeps it",
                        end.lid, end.guid, holder.0
                    ),
                );
                continue;
            }
        }
        if names.ambiguous {
            remark(
                RemarkKind::AmbiguousName,
                format!(
                    "cannot separate the names of both ends in {}",
                    shorten(&names.own)
                ),
            );
        }
        let device = match devices.entry(key) {
            Entry::Vacant(entry) => entry.insert(Device {
                guid: end.guid,
                lid: end.lid,
                kind: end.kind,
                name: names.own,
                node,
                ports: Vec::new(),
            }),
            Entry::Occupied(entry) => entry.into_mut(),
        };
        if (device.kind, device.lid) != (end.kind, end.lid) {
            let text = format!(
                "{} was {} with LID {} in an earlier line, and is {} with LID {} here",
                end.guid, device.kind, device.lid, end.kind, end.lid
            );
            remark(RemarkKind::Contradiction, text);
        }
        device.node.complete(node);
        seen.insert(
            (end.guid, end.port),
            Seen {
                position,
                lid: end.lid,
                peer,
            },
        );
        let peer = peer.map(|peer| Peer {
            guid: peer.guid,
            lid: peer.lid,
            port: peer.port,
            kind: peer.kind,
            name: names.peer,
        });
        device.ports.push(Port {
            num: end.port,
            rate,
            peer,
            line: position.line,
            file: position.file,
        });
    }
    let fabric = Fabric::new(devices.into_values().collect());
    compare_ends(&fabric, remarks);
    fabric
}

/// Checks both ends of each link. Reports a link if the other end has no line or another peer, or
/// if both ends belong to one device.
fn compare_ends(fabric: &Fabric, remarks: &mut Vec<Remark>) {
    for device in fabric.devices() {
        for (port, peer) in device.linked() {
            let mut remark = |kind, text| remarks.push(Remark::new(port.position(), kind, text));
            let (own, far) = (
                format!("port {} of {}", port.num, device.guid),
                format!("port {} of {}", peer.port, peer.guid),
            );
            if peer.guid == device.guid
                && (device.kind == NodeKind::Switch || peer.port == port.num)
            {
                remark(
                    RemarkKind::Loop,
                    format!("{own} is cabled to port {} of the same device", peer.port),
                );
            }
            let other = fabric
                .find(peer.guid, peer.port)
                .and_then(|id| fabric.device(id).port(peer.port));
            let (kind, what) = match other.map(|other| other.peer.as_ref()) {
                Some(Some(back)) if (back.guid, back.port) == (device.guid, port.num) => continue,
                Some(Some(back)) => (
                    RemarkKind::Contradiction,
                    format!(
                        "has port {} of {} as its peer in its own line",
                        back.port, back.guid
                    ),
                ),
                Some(None) => (
                    RemarkKind::Contradiction,
                    "has no link in its own line".to_owned(),
                ),
                None => (RemarkKind::OneSided, "has no line of its own".to_owned()),
            };
            remark(kind, format!("the peer of {own}, {far}, {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::ports_report::parse;

    const LEAF: &str = "SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )";
    const HOST: &str = "CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )";

    fn kinds(lines: &[&str]) -> Vec<(u32, RemarkKind)> {
        let file = parse(lines.join("\n").as_bytes(), "net.p").expect("readable");
        file.remarks
            .iter()
            .map(|remark| (remark.line, remark.kind))
            .collect()
    }

    #[test]
    fn repeated_contradicting_and_one_sided_lines_are_reported() {
        let elsewhere = LEAF.replace(
            "CA    17  1 0x0000000000100001",
            "CA    18  1 0x0000000000100002",
        );
        assert_eq!(kinds(&[LEAF, HOST, LEAF]), [(3, RemarkKind::Repeated)]);
        assert_eq!(
            kinds(&[LEAF, HOST, &elsewhere]),
            [(3, RemarkKind::Repeated)]
        );
        assert_eq!(kinds(&[LEAF]), [(1, RemarkKind::OneSided)]);
        assert_eq!(
            kinds(&[&elsewhere, HOST]),
            [(1, RemarkKind::OneSided), (2, RemarkKind::Contradiction)]
        );
    }

    #[test]
    fn cable_to_the_same_device_is_reported_and_its_ports_are_linked() {
        let cable = |from: u8, to: u8| {
            format!(
                "SW     4 {from:2} 0x0000000000200006 4x EDR - SW     4 {to:2} 0x0000000000200006 ( 'leaf0' - 'leaf0' )"
            )
        };
        assert_eq!(
            kinds(&[&cable(7, 8), &cable(8, 7)]),
            [(1, RemarkKind::Loop), (2, RemarkKind::Loop)]
        );
        // A port that is its own peer.
        assert_eq!(kinds(&[&cable(9, 9)]), [(1, RemarkKind::Loop)]);
        let file =
            parse([cable(7, 8), cable(8, 7)].join("\n").as_bytes(), "net.p").expect("readable");
        assert_eq!(file.fabric.linked_ports(), 2);
    }

    #[test]
    fn second_device_with_a_lid_is_refused() {
        let second = "CA    17  1 0x0000000000100009 4x EDR - SW     4  9 0x0000000000200006 ( 'node9 mlx5_0' - 'leaf0' )";
        assert_eq!(
            kinds(&[LEAF, HOST, second]),
            [(3, RemarkKind::DuplicateLid)]
        );
    }
}
