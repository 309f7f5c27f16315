//! Removes the names and GUIDs of a site from a net file, so that the site can publish it.
//!
//! No line is copied: each line is printed again from its parsed content, in the same format.
//! LIDs, ports, links, widths, speeds, vendor and device IDs stay, and so do the number and the
//! order of the lines. Unreadable lines and comments lose their text.
//!
//! The new names and GUIDs are numbers in the order of the originals, so they reveal nothing about
//! them, and each run gives the same result. Because the order does not change, `ibnet-gen` makes
//! the same plan from the result as from the original.
//!
//! - GUIDs that are close to each other keep their distance: those of a node and its ports, and
//!   those of a switch and its aggregation node.
//! - The first word in the name of an HCA is its host, which becomes `host0001`. A second word
//!   such as `mlx5_0` or `HCA-1` stays; any other becomes `ca0001`. Further words are removed.
//! - An aggregation node keeps the two words that identify it. A switch becomes `switch0001`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ibnet_record::types::{Guid, LinkRate, NodeKind};

use super::lines::{End, Line};
use super::names::{self, Separated};
use super::net_file::{Format, NetFileError, text_of};
use super::sharp;
use super::topology_report::{HEADING, Header, Id, Piece, PortLine, opening};

/// Returns an anonymous copy of a net file in its format. Messages name the file `name`.
///
/// # Errors
/// Returns an error if no line of the file can be parsed.
pub fn anonymise(bytes: &[u8], name: &str) -> Result<String, NetFileError> {
    let text = text_of(bytes);
    match Format::of(&text) {
        Format::PortsReport => {
            let draft = Format::PortsReport.draft(&text, 0, name)?;
            let separated = names::separate(draft.lines.iter().map(Line::names));
            Ok(of_ports_report(&text, &draft.lines, &separated))
        }
        Format::Topology => Ok(of_topology(&text)),
    }
}

/// Text that replaces a line that cannot be parsed.
const UNREADABLE: &str = "(a line that could not be read)";

fn of_ports_report(text: &str, lines: &[Line<'_>], separated: &[Separated]) -> String {
    let mut seen = Seen::default();
    for (line, names) in lines.iter().zip(separated) {
        seen.guid(line.end.guid);
        seen.name(line.end.kind, &names.own);
        if let Some(peer) = line.peer {
            seen.guid(peer.guid);
            seen.name(peer.kind, &names.peer);
        }
    }
    let substitutes = seen.substitutes();
    let mut lines = lines.iter().zip(separated).peekable();
    let mut out = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.lines()) {
        match lines.next_if(|(line, _)| line.position.line == number) {
            Some((line, names)) => substitutes.port_line(line, names, &mut out),
            None if line.trim().is_empty() => {}
            None => out.push_str(UNREADABLE),
        }
        out.push('\n');
    }
    out
}

fn of_topology(text: &str) -> String {
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .map(|line| (line, Piece::parse(line).ok()))
        .collect();
    let mut seen = Seen::default();
    for piece in lines.iter().filter_map(|(_, piece)| piece.as_ref()) {
        seen.piece(piece);
    }
    let substitutes = seen.substitutes();
    let mut out = String::with_capacity(text.len());
    for (line, piece) in &lines {
        match piece {
            Some(piece) => substitutes.piece(line, piece, &mut out),
            None => {
                out.push_str(opening(line).unwrap_or_default());
                out.push_str(UNREADABLE);
            }
        }
        out.push('\n');
    }
    out
}

/// The substitutes of the devices of a fabric, for other documents than a net file.
pub struct StandIns(Substitutes);

impl StandIns {
    /// Creates the substitutes of these devices, given by kind, GUID and name. The devices of a
    /// net file and their peers get the names and GUIDs that [`anonymise`] gives them.
    pub fn new<'a>(devices: impl IntoIterator<Item = (NodeKind, Guid, &'a str)>) -> Self {
        let mut seen = Seen::default();
        for (kind, guid, name) in devices {
            seen.guid(guid);
            seen.name(kind, name);
        }
        Self(seen.substitutes())
    }

    /// Returns the substitute of a GUID. An unknown GUID becomes 0.
    pub fn guid(&self, guid: Guid) -> Guid {
        self.0.guid(guid)
    }

    /// Returns the substitute of a name. An unknown name becomes empty.
    pub fn name(&self, kind: NodeKind, name: &str) -> String {
        self.0.name(kind, name).trim().to_owned()
    }
}

/// The names and GUIDs to replace.
#[derive(Default)]
struct Seen {
    guids: BTreeSet<u64>,
    switches: BTreeSet<String>,
    routers: BTreeSet<String>,
    hosts: BTreeSet<String>,
    adapters: BTreeSet<String>,
}

impl Seen {
    fn guid(&mut self, guid: Guid) {
        self.guids.insert(guid.0);
    }

    fn name(&mut self, kind: NodeKind, name: &str) {
        let mut words = name.split_whitespace().map(str::to_owned);
        match kind {
            NodeKind::Switch if !name.trim().is_empty() => {
                _ = self.switches.insert(name.to_owned());
            }
            NodeKind::Router if !name.trim().is_empty() => _ = self.routers.insert(name.to_owned()),
            NodeKind::Hca => {
                self.hosts.extend(words.next());
                self.adapters.extend(
                    words
                        .next()
                        .filter(|word| !is_adapter(word) && !name.contains(sharp::NAME)),
                );
            }
            NodeKind::Switch | NodeKind::Router => {}
        }
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        match piece {
            Piece::Nothing | Piece::VendorId(_) | Piece::DeviceId(_) => {}
            Piece::SystemImage(guid) | Piece::NodeGuid(_, guid) => self.guid(*guid),
            Piece::SwitchGuid(node, port) => {
                self.guid(*node);
                port.map(|port| self.guid(port));
            }
            Piece::Header(Header { id, name, .. }) => {
                self.guid(id.guid);
                self.name(id.kind, name);
            }
            Piece::Port(PortLine {
                guid,
                peer,
                peer_guid,
                peer_name,
                ..
            }) => {
                [*guid, Some(peer.guid), *peer_guid]
                    .into_iter()
                    .flatten()
                    .for_each(|guid| self.guid(guid));
                self.name(peer.kind, peer_name.unwrap_or_default());
            }
        }
    }

    fn substitutes(self) -> Substitutes {
        Substitutes {
            guids: guids(&self.guids),
            switches: numbered(self.switches, "switch"),
            routers: numbered(self.routers, "router"),
            hosts: numbered(self.hosts, "host"),
            adapters: numbered(self.adapters, "ca"),
        }
    }
}

/// The substitutes of names and GUIDs.
struct Substitutes {
    guids: BTreeMap<u64, u64>,
    switches: BTreeMap<String, String>,
    routers: BTreeMap<String, String>,
    hosts: BTreeMap<String, String>,
    adapters: BTreeMap<String, String>,
}

/// Max difference between two GUIDs that belong together. The GUID of an aggregation node differs
/// by 8 or 16 from that of its switch, and the GUIDs of ports are slightly larger than that of
/// their node.
const CLOSE: u64 = 32;

/// Numbers the groups of GUIDs that are close to each other, and keeps the differences within a
/// group.
fn guids(originals: &BTreeSet<u64>) -> BTreeMap<u64, u64> {
    // Locally administered GUIDs, marked by a bit of IEEE EUI-64, which no vendor uses.
    const FIRST: u64 = 0x0200_0000_0000_0000;
    const BETWEEN: u64 = 0x100;
    let (mut previous, mut stand_in) = (None, FIRST);
    let mut number = |original: &u64| {
        // GUID 0 means "not set" and is not replaced.
        if *original == 0 {
            return (0, 0);
        }
        let step = previous.map(|previous| original - previous);
        stand_in = match step {
            Some(step) if step <= CLOSE => stand_in + step,
            _ => ((stand_in + CLOSE) / BETWEEN + 1) * BETWEEN,
        };
        previous = Some(*original);
        (*original, stand_in)
    };
    originals.iter().map(&mut number).collect()
}

/// Returns substitutes that sort like the originals, all with the same number of digits.
fn numbered(originals: BTreeSet<String>, what: &str) -> BTreeMap<String, String> {
    let digits = originals.len().to_string().len().max(4);
    (1..)
        .zip(originals)
        .map(|(number, original)| (original, format!("{what}{number:0digits$}")))
        .collect()
}

/// Returns whether a word identifies an HCA of a host, such as `mlx5_0`, `HCA-1` or `hfi1_0`, and
/// therefore contains no private name.
fn is_adapter(word: &str) -> bool {
    const FAMILIES: [&str; 8] = [
        "mlx4_", "mlx5_", "mthca", "qib", "hfi1_", "ipath", "HCA-", "ibp",
    ];
    let number = FAMILIES.iter().find_map(|family| word.strip_prefix(family));
    number.is_some_and(|number| {
        (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns width and speed. Unknown words come from the file and may contain anything, so they are
/// replaced by the symbols for "unknown".
fn rate(rate: &LinkRate) -> (&str, &str) {
    const WIDTHS: [&str; 5] = ["1x", "2x", "4x", "8x", "12x"];
    const SPEEDS: [&str; 9] = [
        "SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR",
    ];
    let known = |word: &'static str, words: &[&'static str], found: &str| {
        words
            .iter()
            .find(|word| **word == found)
            .copied()
            .unwrap_or(word)
    };
    (
        known("??", &WIDTHS, &rate.width),
        known("???", &SPEEDS, &rate.speed),
    )
}

impl Substitutes {
    fn guid(&self, guid: Guid) -> Guid {
        Guid(self.guids.get(&guid.0).copied().unwrap_or_default())
    }

    fn name(&self, kind: NodeKind, name: &str) -> String {
        let of = |names: &BTreeMap<String, String>, name: &str| {
            names.get(name).cloned().unwrap_or_default()
        };
        match kind {
            NodeKind::Switch => of(&self.switches, name),
            NodeKind::Router => of(&self.routers, name),
            NodeKind::Hca => {
                let mut words = name.split_whitespace();
                let host = of(&self.hosts, words.next().unwrap_or_default());
                match words.next() {
                    _ if name.contains(sharp::NAME) => format!("{host} {}", sharp::NAME),
                    Some(adapter) if is_adapter(adapter) => format!("{host} {adapter}"),
                    Some(other) => format!("{host} {}", of(&self.adapters, other)),
                    None => host,
                }
            }
        }
    }

    /// Prints a line like `ibnetdiscover -p`.
    fn port_line(&self, line: &Line<'_>, names: &Separated, out: &mut String) {
        let end = |end: End| {
            let kind = match end.kind {
                NodeKind::Switch => "SW",
                NodeKind::Hca => "CA",
                NodeKind::Router => "RT",
            };
            format!(
                "{kind} {:5} {:2} {}",
                end.lid.0,
                end.port.0,
                self.guid(end.guid)
            )
        };
        let (width, speed) = rate(&line.rate);
        let own = self.name(line.end.kind, &names.own);
        // Writing to a String cannot fail.
        let _ = match line.peer {
            Some(peer) => {
                write!(
                    out,
                    "{} {width} {speed} - {} ( '{own}' - '{}' )",
                    end(line.end),
                    end(peer),
                    self.name(peer.kind, &names.peer)
                )
            }
            None => write!(out, "{} {width} {speed}{:36}'{own}'", end(line.end), ""),
        };
    }

    /// Prints a line like `ibnetdiscover`.
    fn piece(&self, line: &str, piece: &Piece<'_>, out: &mut String) {
        let id = |Id { kind, guid }: Id| {
            let letter = match kind {
                NodeKind::Switch => 'S',
                NodeKind::Hca => 'H',
                NodeKind::Router => 'R',
            };
            format!("\"{letter}-{:016x}\"", self.guid(guid).0)
        };
        let in_parentheses = |guid: Option<Guid>| {
            guid.map(|guid| format!("({:x})", self.guid(guid).0))
                .unwrap_or_default()
        };
        // Writing to a String cannot fail.
        let _ = match piece {
            // This line may be the only one that shows the format.
            Piece::Nothing if line.starts_with(HEADING) => write!(out, "{HEADING} without names"),
            Piece::Nothing if line.starts_with('#') => write!(out, "#"),
            Piece::Nothing => Ok(()),
            Piece::VendorId(number) => write!(out, "vendid={number:#x}"),
            Piece::DeviceId(number) => write!(out, "devid={number:#x}"),
            Piece::SystemImage(guid) => write!(out, "sysimgguid={:#x}", self.guid(*guid).0),
            Piece::NodeGuid(NodeKind::Router, guid) => {
                write!(out, "rtguid={:#x}", self.guid(*guid).0)
            }
            Piece::NodeGuid(_, guid) => write!(out, "caguid={:#x}", self.guid(*guid).0),
            Piece::SwitchGuid(node, port) => write!(
                out,
                "switchguid={:#x}{}",
                self.guid(*node).0,
                in_parentheses(*port)
            ),
            Piece::Header(Header {
                id: node,
                ports,
                name,
                lid,
            }) => {
                let name = self.name(node.kind, name);
                let (word, tail) = match node.kind {
                    NodeKind::Switch => ("Switch", format!(" enhanced port 0 lid {lid} lmc 0")),
                    NodeKind::Hca => ("Ca", String::new()),
                    NodeKind::Router => ("Rt", String::new()),
                };
                write!(out, "{word}\t{ports} {}\t\t# \"{name}\"{tail}", id(*node))
            }
            Piece::Port(PortLine {
                port,
                guid,
                lid,
                peer,
                peer_port,
                peer_guid,
                peer_name,
                peer_lid,
                rate: link,
            }) => {
                let own = lid
                    .map(|lid| format!(" lid {lid} lmc 0"))
                    .unwrap_or_default();
                let far = peer_name
                    .map(|name| format!(" \"{}\"", self.name(peer.kind, name)))
                    .unwrap_or_default();
                let rest = peer_lid
                    .map(|lid| format!(" lid {lid} {}{}", rate(link).0, rate(link).1))
                    .unwrap_or_default();
                let (own_guid, peer_guid) = (in_parentheses(*guid), in_parentheses(*peer_guid));
                write!(
                    out,
                    "[{port}]{own_guid}\t{}[{peer_port}]{peer_guid}\t\t#{own}{far}{rest}",
                    id(*peer)
                )
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::net_file::{self, NetFile};

    const PLAIN: &[u8] = include_bytes!("../../tests/data/fabrics/loginoff-fdr10-qdr.topo");
    const REPORT: &[u8] =
        include_bytes!("../../tests/data/fabrics/loginoff-fdr10-qdr.reconstructed.p");
    const LOOPS: &[u8] = include_bytes!("../../tests/data/fabrics/ibtopotool-3.topo");
    const SHARP: &[u8] = include_bytes!("../../tests/data/fabrics/treydock-test2.p");

    fn read(bytes: &[u8]) -> NetFile {
        net_file::parse(bytes, "net").unwrap()
    }

    #[test]
    fn stand_ins_of_a_fabric_are_those_of_its_net_file() {
        let (original, anonymous) = (
            read(REPORT),
            read(anonymise(REPORT, "net").unwrap().as_bytes()),
        );
        let devices = original.fabric.devices();
        let peers = devices
            .iter()
            .flat_map(|device| device.linked())
            .map(|(_, peer)| (peer.kind, peer.guid, &*peer.name));
        let stand_ins = StandIns::new(
            devices
                .iter()
                .map(|device| (device.kind, device.guid, &*device.name))
                .chain(peers),
        );
        let by_stand_ins: Vec<_> = devices
            .iter()
            .map(|device| {
                (
                    stand_ins.guid(device.guid),
                    stand_ins.name(device.kind, &device.name),
                )
            })
            .collect();
        let by_file: Vec<_> = anonymous
            .fabric
            .devices()
            .iter()
            .map(|device| (device.guid, device.name.clone()))
            .collect();
        assert_eq!(by_stand_ins, by_file);
    }

    /// Returns all properties that a plan depends on, with names and GUIDs as ranks.
    fn shape(net: &NetFile) -> Vec<String> {
        let devices = net.fabric.devices();
        let rank = |guid: Guid| devices.iter().position(|device| device.guid == guid);
        let mut hosts: Vec<_> = devices
            .iter()
            .filter(|device| device.kind == NodeKind::Hca)
            .map(|device| device.host())
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        let describe = |device: &crate::topology::Device| {
            let ports = device.ports.iter().map(|port| {
                let peer = port
                    .peer
                    .as_ref()
                    .map(|peer| (rank(peer.guid), peer.lid, peer.port, peer.kind));
                (
                    port.num,
                    port.line,
                    port.rate.data_gbps().map(|rate| rate as u64),
                    peer,
                )
            });
            let host = hosts
                .iter()
                .position(|host| device.kind == NodeKind::Hca && *host == device.host());
            let node = (
                device.node.guid.map(|node| device.guid.0 - node.0),
                device.node.device_id,
                device.node.ports,
            );
            let is_sharp = net.fabric.is_aggregation_node(device);
            format!(
                "{:?} {} {host:?} {node:?} {is_sharp} {:?}",
                device.lid,
                device.kind,
                ports.collect::<Vec<_>>()
            )
        };
        let remarks = net
            .remarks
            .iter()
            .map(|remark| format!("{} {:?}", remark.line, remark.kind));
        devices.iter().map(describe).chain(remarks).collect()
    }

    #[test]
    fn shape_stays_and_names_and_guids_are_removed() {
        for bytes in [PLAIN, REPORT, LOOPS, SHARP] {
            let original = read(bytes);
            let text = anonymise(bytes, "net").unwrap();
            assert_eq!(shape(&read(text.as_bytes())), shape(&original), "{text}");
            for device in original.fabric.devices() {
                for guid in [
                    Some(device.guid),
                    device.node.guid,
                    device.node.system_image,
                ]
                .into_iter()
                .flatten()
                {
                    assert!(!text.contains(&format!("{:x}", guid.0)), "{guid}");
                }
                assert!(!text.contains(device.host()), "{}", device.name);
            }
            // Substitutes are replaced by themselves.
            assert_eq!(anonymise(text.as_bytes(), "net").unwrap(), text);
        }
    }

    #[test]
    fn hca_identifier_stays_and_other_words_are_removed() {
        let line = |lid: u16, name: &str| {
            format!(
                "CA {lid:5}  1 0x{lid:016x} 4x EDR                                    '{name}'\n"
            )
        };
        let text = [
            line(100, "zeus mlx5_0"),
            line(200, "ares mlx5_1 of Anna"),
            line(300, "zeus Annas-card"),
            line(400, "zeus Aggregation Node"),
        ]
        .concat();
        let names: Vec<_> = read(anonymise(text.as_bytes(), "net").unwrap().as_bytes())
            .fabric
            .devices()
            .iter()
            .map(|device| device.name.clone())
            .collect();
        assert_eq!(
            names,
            [
                "host0002 mlx5_0",
                "host0001 mlx5_1",
                "host0002 ca0001",
                "host0002 Aggregation Node"
            ]
        );
    }

    #[test]
    fn comments_and_noise_are_removed() {
        let secret = "ibwarn: on the-secret-host\n";
        let text = [
            secret,
            &String::from_utf8_lossy(PLAIN),
            "# the-secret-host\n",
            secret,
        ]
        .concat();
        let written = anonymise(text.as_bytes(), "net").unwrap();
        assert!(
            !written.contains("secret") && !written.contains("24be05"),
            "{written}"
        );
        assert_eq!(written.lines().count(), text.lines().count());
    }

    /// A fuzzer found this case.
    #[test]
    fn unreadable_line_changes_neither_format_nor_node() {
        let port = "[1](11) \t\"S-0000000000000020\"[1]\t\t# lid 3 lmc 0 \"b\" lid 2 4xHDR\n";
        let broken_node =
            format!("Ca\t1 \"H-0000000000000010\"\t\t# \"a\"\n{port}Ca\t1 \"H-00\n{port}");
        let broken_facts =
            format!("Ca\t1 \"H-0000000000000010\"\t\t# \"a\"\n{port}vendid=0xx\n{port}");
        let heading_only = format!("# Topology file: of Zeus\n{port}");
        let not_even_guids = "caguid=0x-1\nSW     4  2 0x0000000000200006 4x SDR                                    'a'\n".to_owned();
        for text in [broken_node, broken_facts, heading_only, not_even_guids] {
            let written = anonymise(text.as_bytes(), "net").unwrap();
            assert_eq!(
                shape(&read(written.as_bytes())),
                shape(&read(text.as_bytes())),
                "{written}"
            );
        }
    }

    proptest! {
        #[test]
        fn distances_and_order_of_guids_stay(originals in prop::collection::btree_set(prop_oneof![1..500_u64, any::<u64>()], 1..50)) {
            let numbers = guids(&originals);
            let pairs: Vec<_> = numbers.iter().collect();
            for pair in pairs.windows(2) {
                let (before, after) = (pair[1].0 - pair[0].0, pair[1].1.wrapping_sub(*pair[0].1));
                prop_assert!(*pair[0].0 == 0 || pair[1].1 > pair[0].1);
                let as_it_was = if before <= CLOSE { after == before } else { after > CLOSE };
                prop_assert!(*pair[0].0 == 0 || as_it_was);
            }
        }

        #[test]
        fn any_bytes_are_rewritten_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = anonymise(&bytes, "net");
        }
    }
}
