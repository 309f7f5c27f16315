//! The reader of `ibnetdiscover -p`.
//!
//! The format is that of `dump_ports_report()` in rdma-core's `infiniband-diags/ibnetdiscover.c`: a line a port, no header,
//!
//! ```text
//! "%2s %5d %2d 0x%016x %s %s"  then either  " - %2s %5d %2d 0x%016x ( '%s' - '%s' )"  or  36 blanks and "'%s'"
//!  type lid port guid width speed             type  lid port guid     own      remote                    own name
//! ```
//!
//! 1. A port has a link if ` - ` and a peer are there, and for no other reason: `???` may stand on a linked port.
//! 2. Columns are not fixed: a port number above 99 moves them. Words are read, not columns.
//! 3. A line that cannot be read is a [`Remark`] with its number; it never sinks the file. Only a file in which no line can be
//!    read is refused.
//! 4. Nothing is lost silently: [`NetFile::remarks`] names each line that did not become a port as it stands.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::Serialize;

use super::names::{self, RawName};
use super::{Device, Fabric, Peer, Port};
use crate::types::{Guid, Lid, LinkRate, NodeKind, ParseError, PortNum};

/// A net file as it was read.
#[derive(Clone, Debug)]
pub struct NetFile {
    /// What the file tells.
    pub fabric: Fabric,
    /// What a person should know of the file, in the order of its lines.
    pub remarks: Vec<Remark>,
    /// Lines that told of a port, linked or not.
    pub port_lines: usize,
    /// Lines that told of a linked port.
    pub linked_lines: usize,
}

/// Something about one line that a person should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// The line's number, from 1.
    pub line: u32,
    /// What it is.
    pub kind: RemarkKind,
    /// What was found, in words.
    pub text: String,
}

/// What a [`Remark`] is about; the first three mean that the line gave no port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// The line could not be read.
    Unreadable,
    /// The line repeats an earlier one, or contradicts it; the earlier one stands.
    Repeated,
    /// Another device had this LID already; the earlier one stands.
    DuplicateLid,
    /// The names of the two ends could not be told apart; they are kept as they stand.
    AmbiguousName,
    /// The other end has a line of its own that tells otherwise.
    Contradiction,
    /// The other end has no line of its own: the file may have been cut.
    OneSided,
}

impl RemarkKind {
    /// All kinds, those that lose a port first.
    pub const ALL: [Self; 6] =
        [Self::Unreadable, Self::Repeated, Self::DuplicateLid, Self::OneSided, Self::Contradiction, Self::AmbiguousName];

    /// Whether such a line gave no port.
    pub const fn loses_a_port(self) -> bool {
        matches!(self, Self::Unreadable | Self::Repeated | Self::DuplicateLid)
    }

    /// The heading of such remarks in a report.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Repeated => "repeated",
            Self::DuplicateLid => "LID used twice",
            Self::AmbiguousName => "ambiguous name",
            Self::Contradiction => "ends disagree",
            Self::OneSided => "other end missing",
        }
    }
}

/// Why a net file cannot be used at all.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum NetFileError {
    /// It could not be read from the disk.
    #[error("{}: cannot be read", path.display())]
    #[diagnostic(help("give the path of a file that `ibnetdiscover -p` wrote"))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("{name}: the file is empty")]
    #[diagnostic(help(
        "run `ibnetdiscover -p > FILE` on a host of the fabric; it prints nothing when it finds no port or may not open the HCA"
    ))]
    Empty {
        /// The file.
        name: String,
    },
    /// It is the other format of `ibnetdiscover`.
    #[error("{name}:{line}: this is the plain topology of `ibnetdiscover`, the ports report was expected")]
    #[diagnostic(help("run `ibnetdiscover -p > FILE`: the plain format is not read yet"))]
    PlainTopology {
        /// The file.
        name: String,
        /// The line that tells it.
        line: u32,
    },
    /// No line of it is a line of a ports report.
    #[error("{name}:{line}: {found}; none of the file's {lines} lines is a line of a ports report")]
    #[diagnostic(help(
        "a line looks like: SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\nrun `ibnetdiscover -p > FILE` on a host of the fabric"
    ))]
    NothingReadable {
        /// The file.
        name: String,
        /// The first line that could not be read.
        line: u32,
        /// What was found in it.
        found: String,
        /// How many lines there are.
        lines: usize,
    },
}

/// Reads a ports report from a file.
///
/// # Errors
/// As [`parse`], and when the file cannot be read.
pub fn read(path: &Path) -> Result<NetFile, NetFileError> {
    let bytes = std::fs::read(path).map_err(|source| NetFileError::Io { path: path.to_owned(), source })?;
    parse(&bytes, &path.display().to_string())
}

/// Reads a ports report; `name` is the file's in messages.
///
/// Bytes that are not UTF-8 can only stand in names and are replaced: a name identifies nothing.
///
/// # Errors
/// When no line can be read: an empty file, another format, something else altogether.
pub fn parse(bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    if text.trim().is_empty() {
        return Err(NetFileError::Empty { name: name.to_owned() });
    }
    let mut lines = Vec::new();
    let mut remarks = Vec::new();
    let mut total = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.trim().is_empty() {
            continue;
        }
        total += 1;
        match Line::parse(line, number) {
            Ok(line) => lines.push(line),
            Err(error) => remarks.push(Remark { line: number, kind: RemarkKind::Unreadable, text: error.to_string() }),
        }
    }
    if lines.is_empty() {
        return Err(nothing_readable(&text, name, &remarks, total));
    }
    let (port_lines, linked_lines) = (lines.len(), lines.iter().filter(|line| line.peer.is_some()).count());
    let fabric = assemble(lines, &mut remarks);
    remarks.sort_by_key(|remark| (remark.line, remark.kind));
    Ok(NetFile { fabric, remarks, port_lines, linked_lines })
}

fn nothing_readable(text: &str, name: &str, remarks: &[Remark], lines: usize) -> NetFileError {
    let plain =
        |line: &str| ["vendid=", "switchguid=", "caguid=", "rtguid=", "# Topology file:"].iter().any(|start| line.starts_with(start));
    if let Some((number, _)) = (1..).zip(text.lines()).find(|(_, line)| plain(line)) {
        return NetFileError::PlainTopology { name: name.to_owned(), line: number };
    }
    let (line, found) = remarks.first().map_or((1, String::new()), |remark| (remark.line, remark.text.clone()));
    NetFileError::NothingReadable { name: name.to_owned(), line, found, lines }
}

/// One line, taken apart but for its names.
struct Line<'a> {
    number: u32,
    end: End,
    rate: LinkRate,
    peer: Option<End>,
    names: RawName<'a>,
}

/// One end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    kind: NodeKind,
    lid: Lid,
    port: PortNum,
    guid: Guid,
}

/// A width or a speed is a short word, and goes into every record of its port.
const LONGEST_WORD: usize = 16;

impl<'a> Line<'a> {
    fn parse(line: &'a str, number: u32) -> Result<Self, ParseError> {
        let mut words = Words(line);
        let end = End::parse(&mut words)?;
        let width = words.next("a link width such as 4x")?;
        if !width.ends_with('x') && width != "??" || width.len() > LONGEST_WORD {
            return Err(ParseError::new(shorten(width), "a link width such as 4x"));
        }
        let speed = words.next("a link speed such as EDR")?;
        if speed.len() > LONGEST_WORD {
            return Err(ParseError::new(shorten(speed), "a link speed such as EDR"));
        }
        let rate = LinkRate::new(width, speed);
        let rest = words.0.trim_start();
        let Some(rest) = rest.strip_prefix("- ") else {
            let names =
                RawName::alone(rest).ok_or_else(|| ParseError::new(shorten(rest), "a name in single quotes, or ` - ` and a peer"))?;
            return Ok(Self { number, end, rate, peer: None, names });
        };
        let mut words = Words(rest);
        let peer = End::parse(&mut words)?;
        Ok(Self { number, end, rate, peer: Some(peer), names: RawName::pair(words.0) })
    }
}

impl End {
    fn parse(words: &mut Words<'_>) -> Result<Self, ParseError> {
        let kind = match words.next("a node type (SW, CA or RT)")? {
            "SW" => NodeKind::Switch,
            "CA" => NodeKind::Hca,
            "RT" => NodeKind::Router,
            other => return Err(ParseError::new(shorten(other), "a node type (SW, CA or RT)")),
        };
        let lid = words.number("a LID from 0 to 49151", 0..=u64::from(Lid::MAX_UNICAST.0))?;
        let port = words.number("a port number from 1 to 254", 1..=254)?;
        let guid = words.next("a GUID (0x and 16 hexadecimal digits)")?.parse()?;
        Ok(Self { kind, lid: Lid(lid as u16), port: PortNum(port as u8), guid })
    }
}

/// The words of a line that were not read yet.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn next(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        let rest = self.0.trim_start_matches(' ');
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        if word.is_empty() { Err(ParseError::new("the end of the line", expected)) } else { Ok(word) }
    }

    fn number(&mut self, expected: &'static str, range: std::ops::RangeInclusive<u64>) -> Result<u64, ParseError> {
        let word = self.next(expected)?;
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = word.parse().ok().filter(|number| digits && range.contains(number));
        number.ok_or_else(|| ParseError::new(shorten(word), expected))
    }
}

/// A text that goes into a message: not a whole binary file.
fn shorten(text: &str) -> String {
    const MOST: usize = 48;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST).chain(['…']).collect() }
}

/// Makes devices of lines: names settled, repetitions and contradictions named.
fn assemble(lines: Vec<Line<'_>>, remarks: &mut Vec<Remark>) -> Fabric {
    let settled =
        names::settle(lines.iter().map(|line| names::Entry { own: line.end.guid, peer: line.peer.map(|peer| peer.guid), raw: line.names }));
    let mut devices: BTreeMap<(Guid, PortNum), Device> = BTreeMap::new();
    let mut seen: BTreeMap<(Guid, PortNum), (u32, Option<End>)> = BTreeMap::new();
    let mut lids: BTreeMap<Lid, (Guid, PortNum)> = BTreeMap::new();
    for (line, names) in lines.into_iter().zip(settled) {
        let Line { number, end, rate, peer, .. } = line;
        let mut remark = |kind, text| remarks.push(Remark { line: number, kind, text });
        if let Some((first, other)) = seen.get(&(end.guid, end.port)) {
            let how = if *other == peer { "is the same as line" } else { "has another peer in line" };
            remark(RemarkKind::Repeated, format!("port {} of {} {how} {first}, which stands", end.port, end.guid));
            continue;
        }
        // A switch answers for all of its ports; each port of an HCA is a device.
        let key = (end.guid, if end.kind == NodeKind::Switch { PortNum(0) } else { end.port });
        if end.lid != Lid(0) {
            let holder = *lids.entry(end.lid).or_insert(key);
            if holder != key {
                remark(RemarkKind::DuplicateLid, format!("LID {} of {} is already that of {}, which stands", end.lid, end.guid, holder.0));
                continue;
            }
        }
        if names.ambiguous {
            remark(RemarkKind::AmbiguousName, format!("the names of both ends cannot be told apart in {}", shorten(&names.own)));
        }
        let device = match devices.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Device { guid: end.guid, lid: end.lid, kind: end.kind, name: names.own, ports: Vec::new() })
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        if (device.kind, device.lid) != (end.kind, end.lid) {
            let text =
                format!("{} was {} with LID {} before, is {} with LID {} here", end.guid, device.kind, device.lid, end.kind, end.lid);
            remark(RemarkKind::Contradiction, text);
        }
        seen.insert((end.guid, end.port), (number, peer));
        let peer = peer.map(|peer| Peer { guid: peer.guid, lid: peer.lid, port: peer.port, kind: peer.kind, name: names.peer });
        device.ports.push(Port { num: end.port, rate, peer, line: number });
    }
    let fabric = Fabric::new(devices.into_values().collect());
    compare_ends(&fabric, remarks);
    fabric
}

/// Names the links of which the other end tells nothing, or something else.
fn compare_ends(fabric: &Fabric, remarks: &mut Vec<Remark>) {
    for device in fabric.devices() {
        for (port, peer) in device.linked() {
            let other = fabric.find(peer.guid, peer.port).and_then(|id| fabric.device(id).port(peer.port));
            let (kind, what) = match other.map(|other| other.peer.as_ref()) {
                Some(Some(back)) if (back.guid, back.port) == (device.guid, port.num) => continue,
                Some(Some(back)) => {
                    (RemarkKind::Contradiction, format!("is linked to port {} of {} by its own line", back.port, back.guid))
                }
                Some(None) => (RemarkKind::Contradiction, "has no link by its own line".to_owned()),
                None => (RemarkKind::OneSided, "has no line of its own".to_owned()),
            };
            let text = format!("the peer of port {} of {}, port {} of {}, {what}", port.num, device.guid, peer.port, peer.guid);
            remarks.push(Remark { line: port.line, kind, text });
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.kind.as_str(), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = "SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )";
    const HOST: &str = "CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )";
    const DOWN: &str = "SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'";

    fn read(lines: &[&str]) -> NetFile {
        parse(lines.join("\n").as_bytes(), "net.p").expect("readable")
    }

    fn kinds(file: &NetFile) -> Vec<(u32, RemarkKind)> {
        file.remarks.iter().map(|remark| (remark.line, remark.kind)).collect()
    }

    #[test]
    fn a_link_and_a_port_without_one() {
        let file = read(&[LEAF, DOWN, HOST]);
        assert_eq!(file.remarks, []);
        assert_eq!((file.port_lines, file.linked_lines, file.fabric.linked_ports()), (3, 2, 2));
        let leaf = file.fabric.device(file.fabric.find(Guid(0x20_0006), PortNum(2)).expect("the switch"));
        assert_eq!((leaf.name.as_str(), leaf.lid, leaf.ports.len()), ("leaf0", Lid(4), 2));
        let (port, peer) = leaf.linked().next().expect("port 1");
        assert_eq!((port.num, port.rate.to_string(), peer.name.as_str()), (PortNum(1), "4xEDR".to_owned(), "node1 mlx5_0"));
    }

    #[test]
    fn a_word_that_is_too_long_is_no_speed() {
        let file = read(&[LEAF, &HOST.replace("4x EDR", &format!("4x {}", "E".repeat(1000)))]);
        assert!(matches!(&file.remarks[..], [_, remark] if remark.line == 2 && remark.to_string().len() < 200), "{:?}", file.remarks);
    }

    #[test]
    fn an_unknown_speed_does_not_unlink_a_port() {
        let file = read(&[&LEAF.replace("4x EDR", "4x ???"), &HOST.replace("4x EDR", "?? ???")]);
        assert_eq!(file.fabric.linked_ports(), 2);
    }

    #[test]
    fn three_digit_ports_and_single_blanks_move_the_columns() {
        let file = read(&[
            "SW    24 1 0x946dae0300618c82 4x SDR                                    '5FB0406-spine-IB01 '",
            &LEAF.replace("  1 0x0000000000200006", " 149 0x0000000000200006"),
        ]);
        let names: Vec<_> = file.fabric.devices().iter().map(|device| (device.name.as_str(), device.ports[0].num.0)).collect();
        assert_eq!(names, [("leaf0", 149), ("5FB0406-spine-IB01 ", 1)]);
    }

    #[test]
    fn lines_that_cannot_be_read_are_named_and_sink_nothing() {
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
        let lines: Vec<_> = kinds(&file).iter().map(|(line, kind)| (*line, *kind)).collect();
        assert_eq!(lines, [1, 2, 4, 5, 6, 7].map(|line| (line, RemarkKind::Unreadable)));
        assert_eq!(file.fabric.linked_ports(), 2);
    }

    #[test]
    fn carriage_returns_and_blank_lines_are_nothing() {
        assert_eq!(read(&[&format!("\u{feff}{LEAF}"), HOST]).remarks, []);
        let file = read(&[&format!("{LEAF}\r"), "\r", &format!("{DOWN}\r"), &format!("{HOST}\r"), ""]);
        assert_eq!((file.remarks.len(), file.fabric.linked_ports()), (0, 2));
        assert_eq!(file.fabric.devices()[0].name, "node1 mlx5_0");
    }

    #[test]
    fn a_line_cut_within_its_names_is_still_a_link() {
        let file = read(&[HOST, &LEAF[..LEAF.len() - 8]]);
        assert_eq!((file.linked_lines, file.fabric.linked_ports()), (2, 2));
    }

    #[test]
    fn repeated_contradicting_and_one_sided_lines_are_named() {
        let elsewhere = LEAF.replace("CA    17  1 0x0000000000100001", "CA    18  1 0x0000000000100002");
        assert_eq!(kinds(&read(&[LEAF, HOST, LEAF])), [(3, RemarkKind::Repeated)]);
        assert_eq!(kinds(&read(&[LEAF, HOST, &elsewhere])), [(3, RemarkKind::Repeated)]);
        assert_eq!(kinds(&read(&[LEAF])), [(1, RemarkKind::OneSided)]);
        assert_eq!(kinds(&read(&[&elsewhere, HOST])), [(1, RemarkKind::OneSided), (2, RemarkKind::Contradiction)]);
    }

    #[test]
    fn the_second_holder_of_a_lid_is_refused() {
        let thief = "CA    17  1 0x0000000000100009 4x EDR - SW     4  9 0x0000000000200006 ( 'node9 mlx5_0' - 'leaf0' )";
        let file = read(&[LEAF, HOST, thief]);
        assert_eq!(kinds(&file), [(3, RemarkKind::DuplicateLid)]);
        assert_eq!(file.fabric.devices().len(), 2);
    }

    #[test]
    fn what_is_no_ports_report_is_refused_with_a_reason() {
        assert!(matches!(parse(b"", "x"), Err(NetFileError::Empty { .. })));
        assert!(matches!(parse(b"\n\r\n", "x"), Err(NetFileError::Empty { .. })));
        assert!(matches!(parse(&[0, 159, 146, 150, 10, 255, 0], "x"), Err(NetFileError::NothingReadable { line: 1, .. })));
        let plain = b"#\n# Topology file: generated on Tue Jun  5 14:15:10 2007\n#\nvendid=0x8f1\n";
        assert!(matches!(parse(plain, "x"), Err(NetFileError::PlainTopology { line: 2, .. })));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = parse(&bytes, "x");
        }

        /// Whatever is done to single characters of a good file: each line becomes a port or a remark.
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
