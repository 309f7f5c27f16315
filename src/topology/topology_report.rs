//! Parses lines of the plain format of `ibnetdiscover` (without `-p`).
//!
//! The format is that of `dump_topology()` in rdma-core's `infiniband-diags/ibnetdiscover.c`: one
//! paragraph for each node, one line for each linked port.
//!
//! ```text
//! vendid=0x2c9
//! devid=0xcb20
//! sysimgguid=0xe41d2d030003e470
//! switchguid=0xe41d2d030003e470(e41d2d030003e470)   node GUID (port GUID), no leading zeros
//! Switch  36 "S-e41d2d030003e470"  # "leaf0" enhanced port 0 lid 4 lmc 0
//! [1]  "H-0002c903003421b0"[2](2c903003421b2)  # "node1 HCA-1" lid 3 4xEDR
//!
//! caguid=0x2c903003421b0
//! Ca  2 "H-0002c903003421b0"  # "node1 HCA-1"
//! [2](2c903003421b2)  "S-e41d2d030003e470"[1]  # lid 3 lmc 0 "leaf0" lid 4 4xEDR
//! ```
//!
//! 1. The format lists only linked ports. Each line that begins with `[` gives a port, or a
//!    [`Remark`] with the line number.
//! 2. A line identifies the other end of a link by its node GUID. The port GUID of a switch is in
//!    the paragraph of the switch, which can come later in the file.
//! 3. A name is the text from the first to the last `"` of the comment. Names are not escaped, and
//!    no other `"` follows the name.
//! 4. Width and speed form one word: `2xNDR`, `?????`.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, ParseError, PortNum};

use super::lines::{Draft, End, Line, number, port, rate, shorten};
use super::names::RawName;
use super::{LinePosition, Node, Remark, RemarkKind};

/// Parses all lines.
pub(super) fn draft(text: &str, file: u16) -> Draft<'_> {
    let mut reader = Reader::default();
    for (number, line) in (1..).zip(text.lines()) {
        let position = LinePosition { file, line: number };
        if let Err(error) = reader.line(line.strip_suffix('\r').unwrap_or(line), position) {
            reader.remarks.push(Remark::new(
                position,
                RemarkKind::Unreadable,
                error.to_string(),
            ));
        }
    }
    reader.finish()
}

/// Returns the start of a line that ends the previous paragraph, or `None` for other lines. Even
/// if the rest of the line is faulty, the ports after it do not belong to the previous node.
pub(super) fn opening(line: &str) -> Option<&'static str> {
    let word = line
        .split_inclusive([' ', '\t', '='])
        .next()
        .unwrap_or_default();
    ["vendid=", "Switch ", "Ca ", "Rt "]
        .into_iter()
        .find(|start| start.trim_end() == word.trim_end())
}

/// Start of the first line of the format.
pub(super) const HEADING: &str = "# Topology file:";

/// Returns whether a line can belong only to a file in the plain format.
pub(super) fn is_line(line: &str) -> bool {
    let piece = Piece::parse(line)
        .ok()
        .filter(|piece| !matches!(piece, Piece::Nothing | Piece::Port(_)));
    line.starts_with(HEADING) || piece.is_some()
}

/// One parsed line, which [`draft`] converts to a port and [`anonymise`](super::anonymise) prints.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// A comment, a heading or an empty line.
    Nothing,
    VendorId(u32),
    DeviceId(u32),
    SystemImage(Guid),
    /// The node GUID of an HCA or a router.
    NodeGuid(NodeKind, Guid),
    /// The node GUID of a switch and its port GUID.
    SwitchGuid(Guid, Option<Guid>),
    Header(Header<'a>),
    Port(PortLine<'a>),
}

/// The line of a node: `Switch 36 "S-guid" # "name" base port 0 lid 6 lmc 0`, or `Ca 2 "H-guid" #
/// "name"`.
#[derive(Debug)]
pub(super) struct Header<'a> {
    pub(super) id: Id,
    pub(super) ports: u8,
    pub(super) name: &'a str,
    /// LID of a switch, or 0 for other nodes.
    pub(super) lid: Lid,
}

/// The line of a port: `[1](guid) "S-guid"[6](guid) # lid 16 lmc 1 "name" lid 3 4xSDR`. The GUIDs
/// and the first LID are absent if the node is a switch.
#[derive(Debug)]
pub(super) struct PortLine<'a> {
    pub(super) port: PortNum,
    pub(super) guid: Option<Guid>,
    pub(super) lid: Option<Lid>,
    pub(super) peer: Id,
    pub(super) peer_port: PortNum,
    pub(super) peer_guid: Option<Guid>,
    pub(super) peer_name: Option<&'a str>,
    pub(super) peer_lid: Option<Lid>,
    pub(super) rate: LinkRate,
}

/// Identifier of a node: `"S-0008f10400410015"`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    pub(super) kind: NodeKind,
    pub(super) guid: Guid,
}

/// The node of the current paragraph.
#[derive(Clone, Copy)]
struct Current<'a> {
    kind: NodeKind,
    node: Node,
    /// Port GUID and LID of a switch.
    switch: (Guid, Lid),
    name: &'a str,
}

/// A port whose peer has no port GUID yet.
struct Open<'a> {
    position: LinePosition,
    end: End,
    node: Node,
    name: &'a str,
    line: PortLine<'a>,
}

#[derive(Default)]
struct Reader<'a> {
    /// Properties from the lines before the line of the next node.
    facts: Node,
    port_guid: Option<Guid>,
    current: Option<Current<'a>>,
    open: Vec<Open<'a>>,
    /// Port GUIDs of switches, HCA ports and router ports, by node GUID and port number, which is
    /// 0 for a switch.
    port_guids: BTreeMap<(Guid, PortNum), Guid>,
    remarks: Vec<Remark>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str, position: LinePosition) -> Result<(), ParseError> {
        match Piece::parse(line) {
            Ok(Piece::Nothing) => {}
            Ok(Piece::VendorId(id)) => {
                self.next_node();
                self.facts.vendor_id = Some(id);
            }
            Ok(Piece::DeviceId(id)) => self.facts.device_id = Some(id),
            Ok(Piece::SystemImage(guid)) => self.facts.system_image = Some(guid),
            Ok(Piece::NodeGuid(_, guid)) => self.facts.guid = Some(guid),
            Ok(Piece::SwitchGuid(guid, port)) => {
                (self.facts.guid, self.port_guid) = (Some(guid), port);
            }
            Ok(Piece::Header(header)) => self.node(&header),
            Ok(Piece::Port(port)) => self.port(line, port, position)?,
            Err(error) => {
                if opening(line).is_some() {
                    self.next_node();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends the paragraph of the current node.
    fn next_node(&mut self) {
        (self.facts, self.port_guid, self.current) = (Node::default(), None, None);
    }

    fn node(&mut self, header: &Header<'a>) {
        let Header {
            id,
            ports,
            name,
            lid,
        } = *header;
        // If the lines before the header name another node GUID, they belong to another node.
        let own = self.facts.guid.is_none_or(|guid| guid == id.guid);
        let (facts, port_guid) = if own {
            (self.facts, self.port_guid)
        } else {
            (Node::default(), None)
        };
        let node = Node {
            guid: Some(id.guid),
            ports: Some(ports),
            ..facts
        };
        let port_guid = port_guid.unwrap_or(id.guid);
        if id.kind == NodeKind::Switch {
            self.port_guids.insert((id.guid, PortNum(0)), port_guid);
        }
        self.next_node();
        self.current = Some(Current {
            kind: id.kind,
            node,
            switch: (port_guid, lid),
            name,
        });
    }

    fn port(
        &mut self,
        text: &str,
        line: PortLine<'a>,
        position: LinePosition,
    ) -> Result<(), ParseError> {
        let Some(Current {
            kind,
            node,
            switch,
            name,
        }) = self.current
        else {
            return Err(ParseError::new(
                shorten(text),
                "a port below a valid line of its node",
            ));
        };
        let (guid, lid) = match kind {
            NodeKind::Switch => switch,
            _ => {
                let guid = line.guid.ok_or_else(|| {
                    ParseError::new(shorten(text), "a port with its GUID in parentheses")
                })?;
                self.port_guids
                    .insert((node.guid.unwrap_or(guid), line.port), guid);
                (
                    guid,
                    line.lid.ok_or_else(|| {
                        ParseError::new(shorten(text), "a port with `lid` and its LID after the #")
                    })?,
                )
            }
        };
        self.open.push(Open {
            position,
            end: End {
                kind,
                lid,
                port: line.port,
                guid,
            },
            node,
            name,
            line,
        });
        Ok(())
    }

    fn finish(self) -> Draft<'a> {
        let Self {
            open,
            port_guids,
            remarks,
            ..
        } = self;
        let line = |open: Open<'a>| {
            let Open {
                position,
                end,
                node,
                name,
                line:
                    PortLine {
                        peer,
                        peer_port,
                        peer_guid,
                        peer_name,
                        peer_lid,
                        rate,
                        ..
                    },
            } = open;
            let port = if peer.kind == NodeKind::Switch {
                PortNum(0)
            } else {
                peer_port
            };
            let known = port_guids.get(&(peer.guid, port)).copied();
            // A switch without a paragraph has no known port GUID. Its node GUID is used, because
            // the two are equal on most switches.
            let guid = peer_guid.or(known).unwrap_or(peer.guid);
            let peer = End {
                kind: peer.kind,
                lid: peer_lid.unwrap_or_default(),
                port: peer_port,
                guid,
            };
            Line {
                position,
                end,
                node,
                rate,
                peer: Some(peer),
                names: RawName::Separate(name, peer_name),
            }
        };
        Draft {
            lines: open.into_iter().map(line).collect(),
            remarks,
        }
    }
}

impl<'a> Piece<'a> {
    pub(super) fn parse(line: &'a str) -> Result<Self, ParseError> {
        // A text such as `# Chassis 1` may follow the value.
        let value = |text: &'a str| text.split(['\t', ' ']).next().unwrap_or_default();
        let hex = |text| hex(value(text));
        let short = |text| {
            u32::try_from(hex(text)?)
                .map_err(|_| ParseError::new(shorten(text), "an id of 32 bits at most"))
        };
        Ok(
            if line.trim().is_empty() || line.starts_with('#') || is_heading(line) {
                Self::Nothing
            } else if line.starts_with('[') {
                Self::Port(PortLine::parse(line)?)
            } else if let Some(id) = line.strip_prefix("vendid=") {
                Self::VendorId(short(id)?)
            } else if let Some(id) = line.strip_prefix("devid=") {
                Self::DeviceId(short(id)?)
            } else if let Some(guid) = line.strip_prefix("sysimgguid=") {
                Self::SystemImage(Guid(hex(guid)?))
            } else if let Some(guid) = line.strip_prefix("switchguid=") {
                let guid = value(guid);
                let (node, port) = guid.split_once('(').unwrap_or((guid, ""));
                Self::SwitchGuid(
                    Guid(hex(node)?),
                    port.strip_suffix(')').map(digits).transpose()?.map(Guid),
                )
            } else if let Some(guid) = line.strip_prefix("caguid=") {
                Self::NodeGuid(NodeKind::Hca, Guid(hex(guid)?))
            } else if let Some(guid) = line.strip_prefix("rtguid=") {
                Self::NodeGuid(NodeKind::Router, Guid(hex(guid)?))
            } else {
                Self::Header(Header::parse(line)?)
            },
        )
    }
}

impl<'a> PortLine<'a> {
    fn parse(line: &'a str) -> Result<Self, ParseError> {
        let mut rest = line;
        let port = bracketed(&mut rest)?;
        let guid = parenthesised(&mut rest)?;
        let peer = Id::parse(&mut rest)?;
        let peer_port = bracketed(&mut rest)?;
        let peer_guid = parenthesised(&mut rest)?;
        let comment = rest.trim_start().strip_prefix('#').unwrap_or_default();
        let (before, peer_name, after) = match quoted(comment) {
            Some((before, name, after)) => (before, Some(name), after),
            // The line was cut within the name or before it.
            None => (comment.split('"').next().unwrap_or_default(), None, ""),
        };
        let (lid, peer_lid, rate) = (lid_in(before)?, lid_in(after)?, rate_in(after));
        Ok(Self {
            port,
            guid,
            lid,
            peer,
            peer_port,
            peer_guid,
            peer_name,
            peer_lid,
            rate,
        })
    }
}

impl<'a> Header<'a> {
    fn parse(line: &'a str) -> Result<Self, ParseError> {
        const EXPECTED: &str = "a line of a plain topology (Switch, Ca, Rt, [port], ...guid=)";
        let wrong = || ParseError::new(shorten(line), EXPECTED);
        let (_, rest) = line
            .split_once([' ', '\t'])
            .filter(|(word, _)| ["Switch", "Ca", "Rt"].contains(word))
            .ok_or_else(wrong)?;
        let (ports, mut rest) = rest
            .trim_start()
            .split_once([' ', '\t'])
            .ok_or_else(wrong)?;
        // Port numbers end at 254.
        let ports = number(ports, "a number of ports from 0 to 254", 0..=254)? as u8;
        let id = Id::parse(&mut rest)?;
        let comment = rest.trim_start().strip_prefix('#').ok_or_else(wrong)?;
        let (_, name, tail) = quoted(comment)
            .ok_or_else(|| ParseError::new(shorten(comment), "a name in double quotes"))?;
        let lid = match id.kind {
            NodeKind::Switch => lid_in(tail)?.ok_or_else(|| {
                ParseError::new(shorten(tail), "`port 0 lid` and the switch's LID")
            })?,
            _ => Lid(0),
        };
        Ok(Self {
            id,
            ports,
            name,
            lid,
        })
    }
}

impl Id {
    fn parse(rest: &mut &str) -> Result<Self, ParseError> {
        let wrong = |text: &str| {
            ParseError::new(
                shorten(text),
                "a node such as \"S-0008f10400410015\" (S, H or R and its GUID)",
            )
        };
        let text = rest.trim_start();
        let (id, after) = text
            .strip_prefix('"')
            .and_then(|text| text.split_once('"'))
            .ok_or_else(|| wrong(text))?;
        let (letter, guid) = id.split_once('-').ok_or_else(|| wrong(id))?;
        let kind = match letter {
            "S" => NodeKind::Switch,
            "H" => NodeKind::Hca,
            "R" => NodeKind::Router,
            _ => return Err(wrong(id)),
        };
        // An identifier of another length is the name of a simulated node, not a GUID.
        if guid.len() != 16 {
            return Err(wrong(id));
        }
        *rest = after;
        Ok(Self {
            kind,
            guid: Guid(digits(guid).map_err(|_| wrong(id))?),
        })
    }
}

/// Splits a comment at its first and its last `"`.
fn quoted(comment: &str) -> Option<(&str, &str, &str)> {
    let (first, last) = comment
        .find('"')
        .zip(comment.rfind('"'))
        .filter(|(first, last)| first < last)?;
    Some((
        &comment[..first],
        &comment[first + 1..last],
        &comment[last + 1..],
    ))
}

/// Parses `[12]`, and skips a following `[ext 3]`, which is the number printed on a chassis.
fn bracketed(rest: &mut &str) -> Result<PortNum, ParseError> {
    let wrong = |text: &str| ParseError::new(shorten(text), "a port number in brackets");
    let (num, mut after) = rest
        .strip_prefix('[')
        .and_then(|text| text.split_once(']'))
        .ok_or_else(|| wrong(rest))?;
    if let Some((_, behind)) = after
        .strip_prefix("[ext")
        .and_then(|text| text.split_once(']'))
    {
        after = behind;
    }
    *rest = after;
    port(num)
}

/// Parses `(8f10403960985)` if it is present.
fn parenthesised(rest: &mut &str) -> Result<Option<Guid>, ParseError> {
    let Some(text) = rest.trim_start().strip_prefix('(') else {
        return Ok(None);
    };
    let (guid, after) = text
        .split_once(')')
        .ok_or_else(|| ParseError::new(shorten(text), "a port GUID in parentheses"))?;
    *rest = after;
    Ok(Some(Guid(digits(guid)?)))
}

/// Returns the LID after the word `lid`.
fn lid_in(text: &str) -> Result<Option<Lid>, ParseError> {
    const EXPECTED: &str = "a LID from 0 to 49151";
    let mut words = text
        .split_ascii_whitespace()
        .skip_while(|word| *word != "lid")
        .skip(1);
    let lid = words
        .next()
        .map(|word| number(word, EXPECTED, 0..=u64::from(Lid::MAX_UNICAST.0)))
        .transpose()?;
    Ok(lid.map(|lid| Lid(lid as u16)))
}

/// Returns width and speed after the LID. If the line was cut there, both are unknown, but the
/// port still counts as linked.
fn rate_in(text: &str) -> LinkRate {
    let word = text
        .split_ascii_whitespace()
        .skip_while(|word| *word != "lid")
        .nth(2)
        .unwrap_or_default();
    let width = if word.starts_with("??") {
        2
    } else {
        word.find('x').map_or(0, |x| x + 1)
    };
    rate(&word[..width], &word[width..]).unwrap_or_else(|_| LinkRate::new("??", "???"))
}

/// Returns whether a line is one of the headings that `-g` adds.
fn is_heading(line: &str) -> bool {
    line.starts_with("Chassis ")
        || [
            "Non-Chassis Nodes",
            "Spine Nodes",
            "Line Nodes",
            "Chassis Switches",
            "Chassis CAs",
        ]
        .contains(&line.trim())
}

/// Parses `0x` and up to sixteen hexadecimal digits.
fn hex(text: &str) -> Result<u64, ParseError> {
    text.strip_prefix("0x")
        .ok_or(())
        .and_then(|text| digits(text).map_err(|_| ()))
        .map_err(|()| ParseError::new(shorten(text), "0x and hexadecimal digits"))
}

/// Parses up to sixteen hexadecimal digits.
fn digits(text: &str) -> Result<u64, ParseError> {
    let wrong = || ParseError::new(shorten(text), "hexadecimal digits, sixteen at most");
    if text.is_empty() || text.len() > 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u64::from_str_radix(text, 16).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::net_file::{self, NetFile};

    const LEAF: &str = "vendid=0x2c9\ndevid=0xcb20\nsysimgguid=0xe41d2d030003e470\t\t# Chassis 1\nswitchguid=0xe41d2d030003e470(e41d2d030003e471)\n\
                        Switch\t36 \"S-e41d2d030003e470\"\t\t# \"leaf0 # \"A\"\" enhanced port 0 lid 4 lmc 0\n\
                        [1]\t\"H-0002c903003421b0\"[2](2c903003421b2) \t\t# \"node1 HCA-1\" lid 3 4xEDR\n";
    const HOST: &str = "vendid=0x2c9\ndevid=0x1003\nsysimgguid=0x2c903003421b3\ncaguid=0x2c903003421b0\n\
                        Ca\t2 \"H-0002c903003421b0\"\t\t# \"node1 HCA-1\"\n\
                        [2](2c903003421b2) \t\"S-e41d2d030003e470\"[1]\t\t# lid 3 lmc 1 \"leaf0 # \"A\"\" lid 4 2xNDR\n";

    fn read(text: &str) -> NetFile {
        net_file::parse(text.as_bytes(), "net.topo").unwrap()
    }

    fn remarks(text: &str) -> Vec<(u32, RemarkKind)> {
        read(text)
            .remarks
            .iter()
            .map(|remark| (remark.line, remark.kind))
            .collect()
    }

    #[test]
    fn both_paragraphs_of_a_link_are_parsed() {
        // The paragraph with the port GUID of a switch may follow the first line that needs it.
        for text in [
            format!("{LEAF}\n{HOST}"),
            format!("# Topology file: generated on now\n#\n\nNon-Chassis Nodes\n{HOST}\n{LEAF}"),
        ] {
            let file = read(&text);
            assert_eq!(file.remarks, []);
            let (adapter, switch) = (&file.fabric.devices()[0], &file.fabric.devices()[1]);
            assert_eq!(
                (adapter.guid, adapter.lid, adapter.kind),
                (Guid(0x2_c903_0034_21b2), Lid(3), NodeKind::Hca)
            );
            assert_eq!(
                (switch.guid, switch.lid, switch.kind),
                (Guid(0xe41d_2d03_0003_e471), Lid(4), NodeKind::Switch)
            );
            assert_eq!(
                (adapter.name.as_str(), switch.name.as_str()),
                ("node1 HCA-1", "leaf0 # \"A\"")
            );
            let (port, peer) = adapter.linked().next().unwrap();
            assert_eq!(
                (
                    port.num,
                    port.rate.to_string(),
                    peer.guid,
                    peer.port,
                    peer.lid
                ),
                (
                    PortNum(2),
                    "2xNDR".to_owned(),
                    switch.guid,
                    PortNum(1),
                    Lid(4)
                )
            );
            assert_eq!(peer.name, switch.name);
            let node = Node {
                guid: Some(Guid(0x2_c903_0034_21b0)),
                system_image: Some(Guid(0x2_c903_0034_21b3)),
                vendor_id: Some(0x2c9),
                device_id: Some(0x1003),
                ports: Some(2),
            };
            assert_eq!(adapter.node, node);
            assert_eq!(
                (switch.node.guid, switch.node.ports),
                (Some(Guid(0xe41d_2d03_0003_e470)), Some(36))
            );
        }
    }

    #[test]
    fn unknown_and_cut_rates_do_not_unlink_a_port() {
        for (rate, expected) in [
            ("?????", "?????"),
            ("4x???", "4x???"),
            ("??EDR", "??EDR"),
            ("12xGDR", "12xGDR"),
            ("4x", "?????"),
            ("", "?????"),
        ] {
            let file = read(&format!("{LEAF}\n{HOST}").replace("4xEDR", rate));
            assert_eq!(
                (file.remarks.len(), file.fabric.linked_ports()),
                (0, 2),
                "{rate}"
            );
            assert_eq!(file.fabric.devices()[1].ports[0].rate.to_string(), expected);
        }
    }

    #[test]
    fn additions_of_other_options_are_skipped() {
        let extended = LEAF
            .replace("[1]\t", "[1][ext 12]\t")
            .replace("4xEDR", "4xEDR s=32 w=2 v=");
        let file = read(&format!(
            "Chassis 1 (guid 0x2c9)\n\n# Spine Nodes\n{extended}\n{}",
            HOST.replace("[1]\t", "[1][ext 12]\t")
        ));
        assert_eq!(
            (file.remarks.as_slice(), file.fabric.linked_ports()),
            (&[][..], 2)
        );
        let two_adapters = "caguid=0x10\nCa\t1 \"H-0000000000000010\"\t\t# \"a\" (scp)\n\
                            [1](11) \t\"H-0000000000000020\"[1] (21) \t\t# lid 1 lmc 0 \"b\" lid 2 4xHDR\n\n\
                            rtguid=0x20\nRt\t1 \"R-0000000000000020\"\t\t# \"b\"\n\
                            [1](21) \t\"H-0000000000000010\"[1] (11) \t\t# lid 2 lmc 0 \"a\" lid 1 4xHDR\n";
        let file = read(two_adapters);
        assert_eq!(
            (file.remarks.as_slice(), file.fabric.linked_ports()),
            (&[][..], 2)
        );
        assert_eq!(file.fabric.devices()[1].kind, NodeKind::Router);
    }

    #[test]
    fn noise_within_a_paragraph_loses_no_port() {
        let noise = "src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out\n";
        let text = format!(
            "{noise}{}{noise}[1]\t",
            LEAF.replace("[1]\t", &format!("{noise}[1]\t"))
        );
        let file = read(&format!("{text}\n\n{HOST}"));
        assert_eq!(file.fabric.linked_ports(), 2);
        assert!(
            file.remarks
                .iter()
                .all(|remark| remark.kind == RemarkKind::Unreadable)
        );
        assert_eq!(
            file.remarks
                .iter()
                .map(|remark| remark.line)
                .collect::<Vec<_>>(),
            [1, 7, 9, 10]
        );
    }

    #[test]
    fn ports_below_a_faulty_node_go_to_no_other_node() {
        let broken = HOST.replace(
            "\"H-0002c903003421b0\"\t\t# \"node1",
            "\"H-0002c90\"\t\t# \"node1",
        );
        assert_eq!(
            remarks(&format!("{LEAF}{broken}")),
            [
                (6, RemarkKind::OneSided),
                (11, RemarkKind::Unreadable),
                (12, RemarkKind::Unreadable)
            ]
        );
        // The same without the lines of properties above the node.
        assert_eq!(
            remarks(&format!(
                "{LEAF}Ca\t2 \"H-\n[2](2c903003421b2) \t\"S-e41d2d030003e470\"[1]\t\t# lid 3"
            ))
            .len(),
            3
        );
    }

    #[test]
    fn cut_file_keeps_its_complete_lines() {
        let whole = format!("{LEAF}\n{HOST}");
        for cut in 0..whole.len() {
            if let Ok(file) = net_file::parse(&whole.as_bytes()[..cut], "cut") {
                let ports = whole[..cut]
                    .lines()
                    .filter(|line| line.starts_with('['))
                    .count();
                let lost = file
                    .remarks
                    .iter()
                    .filter(|remark| remark.kind == RemarkKind::Unreadable)
                    .count();
                assert!(file.port_lines + lost >= ports, "{cut}");
            }
        }
        assert_eq!(
            read(LEAF)
                .remarks
                .iter()
                .map(|remark| remark.kind)
                .collect::<Vec<_>>(),
            [RemarkKind::OneSided]
        );
    }

    #[test]
    fn carriage_returns_change_nothing() {
        let text = format!("{LEAF}\n{HOST}");
        assert_eq!(
            read(&text.replace('\n', "\r\n")).fabric.devices(),
            read(&text).fabric.devices()
        );
    }

    #[test]
    fn fabric_without_a_link_is_valid() {
        let file = read(
            "# Topology file: generated on now\ncaguid=0x10\nCa\t1 \"H-0000000000000010\"\t\t# \"a\"\n",
        );
        assert_eq!((file.port_lines, file.remarks.len()), (0, 0));
    }

    proptest::proptest! {
        /// Replaces one character of a valid file: each line of a port becomes a port or a remark,
        /// unless it becomes a comment.
        #[test]
        fn no_port_is_lost_without_a_remark(at in 0usize..700, with in "[ -~\u{e9}\r\t]") {
            let mut text: Vec<char> = format!("{LEAF}\n{HOST}").chars().collect();
            let at = at % text.len();
            let is_comment = with == "#" && (at == 0 || text[at - 1] == '\n');
            if text[at] != '\n' && !is_comment {
                text.splice(at..=at, with.chars());
                let text: String = text.iter().collect();
                let file = read(&text);
                let lost = file.remarks.iter().filter(|remark| remark.kind.loses_a_port()).count();
                let ports: usize = file.fabric.devices().iter().map(|device| device.ports.len()).sum();
                proptest::prop_assert!(ports + lost >= 2, "{}", text);
            }
        }
    }
}
