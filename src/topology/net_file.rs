//! Reads net files in both formats of `ibnetdiscover`: one file, or several files of one or more
//! subnets.
//!
//! 1. The content decides on the format.
//! 2. A faulty line is skipped, and a [`Remark`] reports its number. A file is refused only if it
//!    has no valid line.
//! 3. [`NetFile::remarks`] has an entry for every line that gives no port.
//! 4. Files of one subnet are merged. Files of different subnets stay separate, because LIDs are
//!    unique only within a subnet, and no HCA port reaches another subnet. Two files belong to one
//!    subnet if a port has the same GUID and the same LID in both files; a port that is only the
//!    peer in a line counts too. If they share GUIDs but no pair of GUID and LID, one of them is
//!    outdated, and both are refused.
//! 5. If merged files disagree, the file that was given first wins. A later file can add ports,
//!    and properties that only its format has.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ibnet_record::count::count;
use ibnet_record::limits;
use ibnet_record::types::{Guid, Lid};
use miette::Diagnostic;

use super::lines::{Draft, End, Key, Line, assemble};
use super::{Fabric, LinePosition, Remark, ports_lines, rails, topology_report};

/// The net files of one subnet.
#[derive(Clone, Debug, Default)]
pub struct NetFile {
    /// Names of all given files, indexed by [`LinePosition::file`].
    pub names: Vec<String>,
    /// Indices of the files that describe this subnet, ascending.
    pub files: Vec<u16>,
    /// The fabric that the files describe.
    pub fabric: Fabric,
    /// Remarks about lines, in the order of files and lines.
    pub remarks: Vec<Remark>,
    /// Remarks about whole files.
    pub notes: Vec<String>,
    /// Number of lines that describe a port, linked or not.
    pub port_lines: usize,
    /// Number of lines that describe a linked port.
    pub linked_lines: usize,
}

/// Reason why a net file is refused.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum NetFileError {
    /// The file cannot be read from the disk.
    #[error("cannot read the net file {}", path.display())]
    #[diagnostic(help(
        "give the path of a file that `ibnet-gen discover` or `ibnetdiscover` wrote; with ibnet-gen and ibnet-sweep, umad discovers the fabric"
    ))]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is empty.
    #[error("cannot use {name} as a net file: the file is empty")]
    #[diagnostic(help("run `ibnet-gen discover -o FILE` on a host of the fabric"))]
    Empty {
        /// The file.
        name: String,
    },
    /// The file has no line of a net file.
    #[error(
        "cannot use {name} as a net file: none of its {lines} lines is a line of a net file (line {line}: {found})"
    )]
    #[diagnostic(help(
        "a line looks like: SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\nrun `ibnet-gen discover -o FILE` on a host of the fabric, or `ibnetdiscover > FILE` for the plain format"
    ))]
    NothingReadable {
        /// The file.
        name: String,
        /// Number of the first line that cannot be parsed.
        line: u32,
        /// Description of that line.
        found: String,
        /// Number of lines.
        lines: usize,
    },
    /// The file has more lines than any fabric.
    #[error(
        "cannot use {name} as a net file: it has more than {} lines (found {lines})",
        limits::NET_FILE_LINES
    )]
    #[diagnostic(help(
        "give one output of `ibnetdiscover`: the file of the largest possible fabric has about 600,000 lines"
    ))]
    TooLong {
        /// The file.
        name: String,
        /// Number of lines.
        lines: usize,
    },
    /// Two files contradict each other.
    #[error("cannot merge {name} with {earlier}: {} of both have other LIDs in each file, and none has the same", count(*ports, "port"))]
    #[diagnostic(help(
        "a restarted subnet manager may assign new LIDs: give the newer file only. If the files describe two fabrics, both use GUID {guid}: plan each fabric alone"
    ))]
    OtherLids {
        /// The file that was given later.
        name: String,
        /// The file that was given earlier.
        earlier: String,
        /// Number of ports in both files.
        ports: usize,
        /// GUID of one of these ports.
        guid: Guid,
    },
}

/// Format of a net file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// The ports report: output of `ibnetdiscover -p`.
    PortsReport,
    /// The plain format: output of `ibnetdiscover` without `-p`.
    Topology,
}

/// Reads a net file of either format.
///
/// # Errors
/// Returns the errors of [`parse`], and an error if the file cannot be read.
pub fn read(path: &Path) -> Result<NetFile, NetFileError> {
    let bytes = limits::read_file(path, limits::NET_FILE).map_err(|source| NetFileError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(&bytes, &path.display().to_string())
}

/// Parses a net file of either format. Messages name the file `name`.
///
/// Replaces bytes that are not UTF-8. They can occur only in names, which identify no device.
///
/// # Errors
/// Returns an error if no line can be parsed: the file is empty, or has another format.
pub fn parse(bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    let text = text_of(bytes);
    parse_text(Format::of(&text), &text, name)
}

/// Parses a file of a known format.
pub(super) fn parse_as(format: Format, bytes: &[u8], name: &str) -> Result<NetFile, NetFileError> {
    parse_text(format, &text_of(bytes), name)
}

fn parse_text(format: Format, text: &str, name: &str) -> Result<NetFile, NetFileError> {
    let draft = format.draft(text, 0, name)?;
    let mut net = merge(vec![name.to_owned()], vec![(0, draft)]);
    check_rails(std::slice::from_mut(&mut net));
    Ok(net)
}

/// Parses several files, each with its name, into one [`NetFile`] for each subnet, in the order of
/// their first files.
///
/// # Errors
/// Returns an error if a file has no valid line, or if two files share ports but have different
/// LIDs for all of them.
pub fn parse_all(files: &[(String, Vec<u8>)]) -> Result<Vec<NetFile>, NetFileError> {
    let texts: Vec<_> = files.iter().map(|(_, bytes)| text_of(bytes)).collect();
    let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    let mut subnets: Vec<Subnet<'_>> = Vec::new();
    for (file, (text, name)) in (0..).zip(texts.iter().zip(&names)) {
        let draft = Format::of(text).draft(text, file, name)?;
        // A single file has no other file to compare with, so its ports are not stored.
        let ends: BTreeMap<Key, Lid> = match files {
            [_] => BTreeMap::new(),
            _ => ends(&draft).map(|end| (end.key(), end.lid)).collect(),
        };
        let mut joined = Subnet {
            drafts: Vec::new(),
            ends,
        };
        // A file may join two subnets that were separate until now.
        let mut others = Vec::new();
        for subnet in subnets {
            match subnet.shared(&joined.ends) {
                Shared::Nothing => others.push(subnet),
                Shared::Lids => {
                    joined.drafts.extend(subnet.drafts);
                    joined.ends.extend(subnet.ends);
                }
                Shared::GuidsOnly { count, guid } => {
                    let earlier = subnet
                        .drafts
                        .iter()
                        .map(|(file, _)| &*names[usize::from(*file)])
                        .collect::<Vec<_>>()
                        .join(", ");
                    return Err(NetFileError::OtherLids {
                        name: name.clone(),
                        earlier,
                        ports: count,
                        guid,
                    });
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
    let mut nets: Vec<_> = subnets
        .into_iter()
        .map(|subnet| merge(names.clone(), subnet.drafts))
        .collect();
    check_rails(&mut nets);
    Ok(nets)
}

/// The files of one subnet, and the LIDs of all ports in them.
struct Subnet<'a> {
    drafts: Vec<(u16, Draft<'a>)>,
    ends: BTreeMap<Key, Lid>,
}

/// Ports that two files have in common.
enum Shared {
    Nothing,
    /// At least one shared port has the same LID in both files.
    Lids,
    /// The files share ports, but each of these ports has different LIDs in the two files.
    GuidsOnly {
        count: usize,
        guid: Guid,
    },
}

impl Subnet<'_> {
    fn shared(&self, others: &BTreeMap<Key, Lid>) -> Shared {
        let known = others.iter().filter(|(_, lid)| lid.is_unicast());
        let pairs: Vec<_> = known
            .filter_map(|(key, lid)| {
                Some((key, lid, self.ends.get(key).filter(|lid| lid.is_unicast())?))
            })
            .collect();
        match pairs.first() {
            None => Shared::Nothing,
            Some(_) if pairs.iter().any(|(_, here, there)| here == there) => Shared::Lids,
            Some(((guid, _), ..)) => Shared::GuidsOnly {
                count: pairs.len(),
                guid: *guid,
            },
        }
    }
}

/// Returns the ports that the lines name: the port of each line, and its peer if it has one.
fn ends<'a>(draft: &'a Draft<'_>) -> impl Iterator<Item = End> + 'a {
    draft
        .lines
        .iter()
        .flat_map(|line| [Some(line.end), line.peer])
        .flatten()
}

/// Adds a remark for each port that is cabled to another rail.
fn check_rails(nets: &mut [NetFile]) {
    let fabrics: Vec<_> = nets.iter().map(|net| &net.fabric).collect();
    for (net, remark) in rails::check(&fabrics) {
        nets[net].remarks.push(remark);
    }
    for NetFile { remarks, .. } in nets {
        remarks.sort_by_key(|remark| (remark.file, remark.line, remark.kind));
    }
}

fn merge(names: Vec<String>, drafts: Vec<(u16, Draft<'_>)>) -> NetFile {
    let files: Vec<_> = drafts.iter().map(|(file, _)| *file).collect();
    let (mut lines, mut remarks): (Vec<Line<'_>>, _) = (Vec::new(), Vec::new());
    for (_, draft) in drafts {
        lines.extend(draft.lines);
        remarks.extend(draft.remarks);
    }
    let notes = overlaps(&names, &lines);
    let (port_lines, linked_lines) = (
        lines.len(),
        lines.iter().filter(|line| line.peer.is_some()).count(),
    );
    let fabric = assemble(lines, &mut remarks);
    NetFile {
        names,
        files,
        fabric,
        remarks,
        notes,
        port_lines,
        linked_lines,
    }
}

/// Returns a note for each file after the first one, with the number of ports that this file adds.
fn overlaps(names: &[String], lines: &[Line<'_>]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut notes = Vec::new();
    let of_files = || lines.chunk_by(|a, b| a.position.file == b.position.file);
    if of_files().nth(1).is_none() {
        return notes;
    }
    for of_file in of_files() {
        let before = known.len();
        known.extend(of_file.iter().map(|line| (line.end.guid, line.end.port)));
        let new = known.len() - before;
        if before > 0 {
            let name = &names[usize::from(of_file[0].position.file)];
            notes.push(format!(
                "{name}: {} that no earlier file has; merged, because the files share ports",
                count(new, "port")
            ));
        }
    }
    notes
}

pub(super) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

impl Format {
    /// Returns the format of the first line that belongs to one format only.
    pub(super) fn of(text: &str) -> Self {
        let format = |line: &str| {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if topology_report::is_line(line) {
                Some(Self::Topology)
            } else {
                ports_lines::is_line(line).then_some(Self::PortsReport)
            }
        };
        text.lines().find_map(format).unwrap_or(Self::PortsReport)
    }

    pub(super) fn draft<'a>(
        self,
        text: &'a str,
        file: u16,
        name: &str,
    ) -> Result<Draft<'a>, NetFileError> {
        let name = name.to_owned();
        if text.trim().is_empty() {
            return Err(NetFileError::Empty { name });
        }
        // A line needs about five times its length in memory.
        let lines = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        if lines > limits::NET_FILE_LINES {
            return Err(NetFileError::TooLong { name, lines });
        }
        let draft = match self {
            Self::PortsReport => ports_lines::draft(text, file),
            // A file in the plain format has no port if the fabric has no link.
            Self::Topology => return Ok(topology_report::draft(text, file)),
        };
        if draft.lines.is_empty() {
            let (line, found) = draft.remarks.first().map_or((1, String::new()), |remark| {
                (remark.line, remark.text.clone())
            });
            let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
            return Err(NetFileError::NothingReadable {
                name,
                line,
                found,
                lines,
            });
        }
        Ok(draft)
    }
}

impl NetFile {
    /// Returns the names of the files that describe this subnet, separated by commas.
    pub fn name(&self) -> String {
        let names: Vec<_> = self
            .files
            .iter()
            .filter_map(|file| self.names.get(usize::from(*file)))
            .map(String::as_str)
            .collect();
        names.join(", ")
    }

    /// Returns the name of the first file that describes this subnet.
    pub fn first_name(&self) -> &str {
        self.files
            .first()
            .and_then(|file| self.names.get(usize::from(*file)))
            .map_or("", String::as_str)
    }

    /// Returns a position as text: `line 7`, or `b.p:7` if this subnet has several files. The file
    /// name in it is not escaped.
    pub fn position(&self, LinePosition { file, line }: LinePosition) -> String {
        match self.names.get(usize::from(file)) {
            Some(name) if self.files.len() > 1 => format!("{name}:{line}"),
            _ => format!("line {line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::RemarkKind;

    const LEAF: &str = "SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\n";
    const HOST: &str = "CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )\n";
    const PLAIN: &str = "devid=0x1003\ncaguid=0x100000\nCa\t2 \"H-0000000000100000\"\t\t# \"node1 mlx5_0\"\n\
                         [1](100001) \t\"S-0000000000200006\"[1]\t\t# lid 17 lmc 0 \"leaf0\" lid 4 4xEDR\n";

    fn read(files: &[&str]) -> Result<Vec<NetFile>, NetFileError> {
        let named = (1..)
            .zip(files)
            .map(|(number, text)| (format!("{number}.p"), text.as_bytes().to_vec()));
        parse_all(&named.collect::<Vec<_>>())
    }

    /// Returns another rail: the same LIDs, other GUIDs.
    fn other_rail(text: &str) -> String {
        text.replace("0x0000000000", "0x0000000007")
    }

    #[test]
    fn parts_of_one_subnet_are_merged() {
        let nets = read(&[LEAF, HOST]).unwrap();
        let [net] = &nets[..] else { panic!("{nets:?}") };
        assert_eq!(
            (
                net.remarks.as_slice(),
                net.fabric.linked_ports(),
                net.name()
            ),
            (&[][..], 2, "1.p, 2.p".to_owned())
        );
        assert_eq!(
            net.notes,
            ["2.p: 1 port that no earlier file has; merged, because the files share ports"]
        );
        let host = &net.fabric.devices()[0];
        assert_eq!(net.position(host.ports[0].position()), "2.p:1");
        // A repeated file adds nothing. A file of the other format adds properties of nodes.
        let nets = read(&[&[LEAF, HOST].concat(), HOST, PLAIN]).unwrap();
        let [net] = &nets[..] else { panic!("{nets:?}") };
        assert_eq!(
            (net.remarks.as_slice(), net.fabric.linked_ports()),
            (&[][..], 2)
        );
        assert_eq!(
            (
                net.fabric.devices()[0].node.guid,
                net.fabric.devices()[0].node.device_id
            ),
            (Some(Guid(0x10_0000)), Some(0x1003))
        );
    }

    #[test]
    fn rails_with_equal_lids_stay_separate() {
        let one = [LEAF, HOST].concat();
        let nets = read(&[&one, &other_rail(&one)]).unwrap();
        assert_eq!(
            nets.iter()
                .map(|net| (net.name(), net.fabric.linked_ports(), net.remarks.len()))
                .collect::<Vec<_>>(),
            [("1.p".to_owned(), 2, 0), ("2.p".to_owned(), 2, 0)]
        );
        assert_eq!(
            nets[1].position(nets[1].fabric.devices()[0].ports[0].position()),
            "line 2"
        );
    }

    #[test]
    fn one_file_may_join_two() {
        let far = LEAF
            .replace("0x0000000000100001", "0x0000000000300001")
            .replace("CA    17", "CA    19")
            .replace(
                "SW     4  1 0x0000000000200006",
                "SW     5  1 0x0000000000200009",
            );
        assert_eq!(read(&[LEAF, &far]).unwrap().len(), 2);
        let between = "SW     4  2 0x0000000000200006 4x EDR - SW     5  2 0x0000000000200009 ( 'leaf0' - 'leaf1' )\n";
        let nets = read(&[LEAF, &other_rail(LEAF), &far, between]).unwrap();
        assert_eq!(
            nets.iter().map(NetFile::name).collect::<Vec<_>>(),
            ["1.p, 3.p, 4.p", "2.p"]
        );
    }

    #[test]
    fn outdated_file_is_refused_and_changed_file_is_reported() {
        let moved = [LEAF, HOST]
            .concat()
            .replace("CA    17", "CA    18")
            .replace("SW     4", "SW     5");
        let error = read(&[LEAF, &moved]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot merge 2.p with 1.p: 2 ports of both have other LIDs in each file, and none has the same"
        );
        let one_moved = [LEAF, HOST].concat().replace("CA    17", "CA    18");
        let nets = read(&[&[LEAF, HOST].concat(), &one_moved]).unwrap();
        assert_eq!(
            nets[0]
                .remarks
                .iter()
                .map(|remark| (remark.file, remark.line, remark.kind))
                .collect::<Vec<_>>(),
            [(1, 1, RemarkKind::Repeated), (1, 2, RemarkKind::Repeated)]
        );
    }
}
