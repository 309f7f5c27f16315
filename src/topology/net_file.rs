//! The door for net files: either format of `ibnetdiscover`, told apart by content; one file, or several of one or more subnets.
//!
//! 1. A line that cannot be read is a [`Remark`] with its number; it never sinks the file. Only a file in which nothing can be read is refused.
//! 2. Nothing is lost silently: [`NetFile::remarks`] names each line that did not become a port as it stands.
//! 3. Several files are merged if they belong to one subnet, and kept apart if not: LIDs are unique within a subnet only, and no sampler reaches
//!    another one. Two files belong to one subnet if they know a port by the same GUID and the same LID, be it as somebody's peer. If they know
//!    ports by the same GUIDs, but none by the same LID, one of them is out of date: they are refused.
//! 4. Of merged files the earlier one stands where they disagree; the later one may add ports, and what only its format tells.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::Serialize;

use super::lines::{Draft, End, Key, Line, assemble};
use super::{Fabric, Place, ports_report, topology_report};
use crate::types::{Guid, Lid};

/// The net files of one subnet as they were read.
#[derive(Clone, Debug, Default)]
pub struct NetFile {
    /// The names of all files that were given, by [`Place::file`].
    pub names: Vec<String>,
    /// Those of them that tell of this subnet, ascending.
    pub files: Vec<u16>,
    /// What they tell.
    pub fabric: Fabric,
    /// What a person should know of them, in the order of files and lines.
    pub remarks: Vec<Remark>,
    /// What a person should know beyond single lines.
    pub notes: Vec<String>,
    /// Lines that told of a port, linked or not.
    pub port_lines: usize,
    /// Lines that told of a linked port.
    pub linked_lines: usize,
}

/// Something about one line that a person should know.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Remark {
    /// The index of the file in [`NetFile::names`].
    pub file: u16,
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
    /// Both ends are ports of one device.
    Loop,
}

impl RemarkKind {
    /// All kinds, those that lose a port first.
    pub const ALL: [Self; 7] =
        [Self::Unreadable, Self::Repeated, Self::DuplicateLid, Self::OneSided, Self::Contradiction, Self::Loop, Self::AmbiguousName];

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
            Self::Loop => "cabled to itself",
        }
    }
}

/// Why a net file cannot be used at all.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum NetFileError {
    /// It could not be read from the disk.
    #[error("{}: cannot be read", path.display())]
    #[diagnostic(help("give the path of a file that `ibnetdiscover` or `ibnetdiscover -p` wrote"))]
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
    /// No line of it is a line of a net file.
    #[error("{name}:{line}: {found}; none of the file's {lines} lines is one of a net file")]
    #[diagnostic(help(
        "a line looks like: SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\nrun `ibnetdiscover -p > FILE` on a host of the fabric, or `ibnetdiscover > FILE` for the plain format"
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
    /// Two files that cannot both be true.
    #[error("{name}: knows {} of {earlier} under another LID, and none under the same", ports(*count))]
    #[diagnostic(help(
        "LIDs change when a subnet manager assigns them anew: give the newer file only. If these are two fabrics, a GUID is used in both ({guid}): plan them one by one"
    ))]
    OtherLids {
        /// The later file.
        name: String,
        /// The earlier one.
        earlier: String,
        /// How many ports both know.
        count: usize,
        /// The GUID of one of them.
        guid: Guid,
    },
}

fn ports(count: usize) -> String {
    if count == 1 { "1 port".to_owned() } else { format!("{count} ports") }
}

/// The two formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// `ibnetdiscover -p`.
    PortsReport,
    /// `ibnetdiscover`.
    Topology,
}

/// Reads a net file of either format.
///
/// # Errors
/// As [`parse`], and when the file cannot be read.
pub fn read(path: &Path) -> Result<NetFile, NetFileError> {
    let bytes = std::fs::read(path).map_err(|source| NetFileError::Io { path: path.to_owned(), source })?;
    parse(&bytes, &path.display().to_string())
}

/// Reads the bytes of a net file of either format; `name` is the file's in messages.
///
/// Bytes that are not UTF-8 can only stand in names and are replaced: a name identifies nothing.
///
/// # Errors
/// When nothing can be read: an empty file, another format, something else altogether.
pub fn parse(bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    let text = text_of(bytes);
    parse_text(Format::of(&text), &text, name)
}

/// Reads a file of a format that is known.
pub(super) fn parse_as(format: Format, bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    parse_text(format, &text_of(bytes), name)
}

fn parse_text(format: Format, text: &str, name: &str) -> Result<NetFile, NetFileError> {
    let draft = format.draft(text, 0, name)?;
    Ok(merge(vec![name.to_owned()], vec![(0, draft)]))
}

/// Reads several files, each with its name, into one [`NetFile`] a subnet, in the order of their first files.
///
/// # Errors
/// When there is a file in which nothing can be read.
pub fn parse_all(files: &[(String, Vec<u8>)]) -> Result<Vec<NetFile>, NetFileError> {
    let texts: Vec<_> = files.iter().map(|(_, bytes)| text_of(bytes)).collect();
    let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    let mut subnets: Vec<Subnet<'_>> = Vec::new();
    for (file, (text, name)) in (0..).zip(texts.iter().zip(&names)) {
        let draft = Format::of(text).draft(text, file, name)?;
        let ends: BTreeMap<Key, Lid> = ends(&draft).map(|end| (end.key(), end.lid)).collect();
        let mut joined = Subnet { drafts: Vec::new(), ends };
        // One file may turn out to be what joins two.
        let mut others = Vec::new();
        for subnet in subnets {
            match subnet.shared(&joined.ends) {
                Shared::Nothing => others.push(subnet),
                Shared::Lids => {
                    joined.drafts.extend(subnet.drafts);
                    joined.ends.extend(subnet.ends);
                }
                Shared::GuidsOnly { count, guid } => {
                    let earlier = subnet.drafts.iter().map(|(file, _)| &*names[usize::from(*file)]).collect::<Vec<_>>().join(", ");
                    return Err(NetFileError::OtherLids { name: name.clone(), earlier, count, guid });
                }
            }
        }
        joined.drafts.push((file, draft));
        others.push(joined);
        subnets = others;
    }
    for subnet in &mut subnets {
        subnet.drafts.sort_by_key(|(file, _)| *file);
    }
    subnets.sort_by_key(|subnet| subnet.drafts.first().map(|(file, _)| *file));
    Ok(subnets.into_iter().map(|subnet| merge(names.clone(), subnet.drafts)).collect())
}

/// Files that belong together, and the LIDs of all ports that they know.
struct Subnet<'a> {
    drafts: Vec<(u16, Draft<'a>)>,
    ends: BTreeMap<Key, Lid>,
}

/// What two files have in common.
enum Shared {
    Nothing,
    /// Ports under the same LIDs.
    Lids,
    /// Ports, but each under another LID.
    GuidsOnly {
        count: usize,
        guid: Guid,
    },
}

impl Subnet<'_> {
    fn shared(&self, others: &BTreeMap<Key, Lid>) -> Shared {
        let known = others.iter().filter(|(_, lid)| lid.is_unicast());
        let pairs: Vec<_> = known.filter_map(|(key, lid)| Some((key, lid, self.ends.get(key).filter(|lid| lid.is_unicast())?))).collect();
        match pairs.first() {
            None => Shared::Nothing,
            Some(_) if pairs.iter().any(|(_, here, there)| here == there) => Shared::Lids,
            Some(((guid, _), ..)) => Shared::GuidsOnly { count: pairs.len(), guid: *guid },
        }
    }
}

/// Both ends of all lines.
fn ends<'a>(draft: &'a Draft<'_>) -> impl Iterator<Item = End> + 'a {
    draft.lines.iter().flat_map(|line| [Some(line.end), line.peer]).flatten()
}

fn merge(names: Vec<String>, drafts: Vec<(u16, Draft<'_>)>) -> NetFile {
    let files: Vec<_> = drafts.iter().map(|(file, _)| *file).collect();
    let (mut lines, mut remarks): (Vec<Line<'_>>, _) = (Vec::new(), Vec::new());
    for (_, draft) in drafts {
        lines.extend(draft.lines);
        remarks.extend(draft.remarks);
    }
    let notes = overlaps(&names, &lines);
    let (port_lines, linked_lines) = (lines.len(), lines.iter().filter(|line| line.peer.is_some()).count());
    let fabric = assemble(lines, &mut remarks);
    remarks.sort_by_key(|remark| (remark.file, remark.line, remark.kind));
    NetFile { names, files, fabric, remarks, notes, port_lines, linked_lines }
}

/// What each further file adds.
fn overlaps(names: &[String], lines: &[Line<'_>]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut notes = Vec::new();
    for of_file in lines.chunk_by(|a, b| a.place.file == b.place.file) {
        let before = known.len();
        known.extend(of_file.iter().map(|line| (line.end.guid, line.end.port)));
        let new = known.len() - before;
        if before > 0 {
            let name = &names[usize::from(of_file[0].place.file)];
            notes.push(format!("{name}: {} that no earlier file tells of; merged, as they know each other", ports(new)));
        }
    }
    notes
}

pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

impl Format {
    /// What the first line tells that can be of one format only.
    pub(super) fn of(text: &str) -> Self {
        let tells = |line: &str| {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if topology_report::is_line(line) { Some(Self::Topology) } else { ports_report::is_line(line).then_some(Self::PortsReport) }
        };
        text.lines().find_map(tells).unwrap_or(Self::PortsReport)
    }

    pub(super) fn draft<'a>(self, text: &'a str, file: u16, name: &str) -> Result<Draft<'a>, NetFileError> {
        let name = name.to_owned();
        if text.trim().is_empty() {
            return Err(NetFileError::Empty { name });
        }
        let draft = match self {
            Self::PortsReport => ports_report::draft(text, file),
            // A plain topology without any port is one, of a fabric without a link.
            Self::Topology => return Ok(topology_report::draft(text, file)),
        };
        if draft.lines.is_empty() {
            let (line, found) = draft.remarks.first().map_or((1, String::new()), |remark| (remark.line, remark.text.clone()));
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            return Err(NetFileError::NothingReadable { name, line, found, lines });
        }
        Ok(draft)
    }
}

impl NetFile {
    /// The names of the files that tell of this subnet.
    pub fn name(&self) -> String {
        let names: Vec<_> = self.files.iter().filter_map(|file| self.names.get(usize::from(*file))).map(String::as_str).collect();
        names.join(", ")
    }

    /// The name of the first of them.
    pub fn first_name(&self) -> &str {
        self.files.first().and_then(|file| self.names.get(usize::from(*file))).map_or("", String::as_str)
    }

    /// Where something stands, for people: `line 7`, or `b.p:7` if this subnet has more than one file. The name of a file is not escaped.
    pub fn place(&self, Place { file, line }: Place) -> String {
        match self.names.get(usize::from(file)) {
            Some(name) if self.files.len() > 1 => format!("{name}:{line}"),
            _ => format!("line {line}"),
        }
    }
}

impl Remark {
    pub(super) fn new(Place { file, line }: Place, kind: RemarkKind, text: String) -> Self {
        Self { file, line, kind, text }
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        Place { file: self.file, line: self.line }
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

    const LEAF: &str = "SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\n";
    const HOST: &str = "CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )\n";
    const PLAIN: &str = "devid=0x1003\ncaguid=0x100000\nCa\t2 \"H-0000000000100000\"\t\t# \"node1 mlx5_0\"\n\
                         [1](100001) \t\"S-0000000000200006\"[1]\t\t# lid 17 lmc 0 \"leaf0\" lid 4 4xEDR\n";

    fn read(files: &[&str]) -> Result<Vec<NetFile>, NetFileError> {
        let named = (1..).zip(files).map(|(number, text)| (format!("{number}.p"), text.as_bytes().to_vec()));
        parse_all(&named.collect::<Vec<_>>())
    }

    /// Another rail: the same LIDs, other GUIDs.
    fn other_rail(text: &str) -> String {
        text.replace("0x0000000000", "0x0000000007")
    }

    #[test]
    fn parts_of_one_subnet_are_merged() {
        let nets = read(&[LEAF, HOST]).unwrap();
        let [net] = &nets[..] else { panic!("{nets:?}") };
        assert_eq!((net.remarks.as_slice(), net.fabric.linked_ports(), net.name()), (&[][..], 2, "1.p, 2.p".to_owned()));
        assert_eq!(net.notes, ["2.p: 1 port that no earlier file tells of; merged, as they know each other"]);
        let host = &net.fabric.devices()[0];
        assert_eq!(net.place(host.ports[0].place()), "2.p:1");
        // The same again is no news; what only the other format tells is taken.
        let nets = read(&[&[LEAF, HOST].concat(), HOST, PLAIN]).unwrap();
        let [net] = &nets[..] else { panic!("{nets:?}") };
        assert_eq!((net.remarks.as_slice(), net.fabric.linked_ports()), (&[][..], 2));
        assert_eq!((net.fabric.devices()[0].node.guid, net.fabric.devices()[0].node.device_id), (Some(Guid(0x10_0000)), Some(0x1003)));
    }

    #[test]
    fn rails_are_kept_apart_though_their_lids_are_the_same() {
        let one = [LEAF, HOST].concat();
        let nets = read(&[&one, &other_rail(&one)]).unwrap();
        assert_eq!(
            nets.iter().map(|net| (net.name(), net.fabric.linked_ports(), net.remarks.len())).collect::<Vec<_>>(),
            [("1.p".to_owned(), 2, 0), ("2.p".to_owned(), 2, 0)]
        );
        assert_eq!(nets[1].place(nets[1].fabric.devices()[0].ports[0].place()), "line 2");
    }

    #[test]
    fn one_file_may_join_two() {
        let far = LEAF
            .replace("0x0000000000100001", "0x0000000000300001")
            .replace("CA    17", "CA    19")
            .replace("SW     4  1 0x0000000000200006", "SW     5  1 0x0000000000200009");
        assert_eq!(read(&[LEAF, &far]).unwrap().len(), 2);
        let between = "SW     4  2 0x0000000000200006 4x EDR - SW     5  2 0x0000000000200009 ( 'leaf0' - 'leaf1' )\n";
        let nets = read(&[LEAF, &other_rail(LEAF), &far, between]).unwrap();
        assert_eq!(nets.iter().map(NetFile::name).collect::<Vec<_>>(), ["1.p, 3.p, 4.p", "2.p"]);
    }

    #[test]
    fn an_outdated_file_is_refused_and_a_changed_one_is_told() {
        let moved = [LEAF, HOST].concat().replace("CA    17", "CA    18").replace("SW     4", "SW     5");
        let error = read(&[LEAF, &moved]).unwrap_err();
        assert_eq!(error.to_string(), "2.p: knows 2 ports of 1.p under another LID, and none under the same");
        let one_moved = [LEAF, HOST].concat().replace("CA    17", "CA    18");
        let nets = read(&[&[LEAF, HOST].concat(), &one_moved]).unwrap();
        assert_eq!(
            nets[0].remarks.iter().map(|remark| (remark.file, remark.line, remark.kind)).collect::<Vec<_>>(),
            [(1, 1, RemarkKind::Repeated), (1, 2, RemarkKind::Repeated)]
        );
    }
}
