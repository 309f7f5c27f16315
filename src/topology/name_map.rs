//! Reads the names that an administrator assigned to nodes, from the file of `--node-name-map`,
//! which the tools of rdma-core and opensm read too.
//!
//! The grammar is that of `util/node_name_map.c` in rdma-core:
//!
//! - A GUID is a number as C's `strtoull` parses it: hexadecimal after `0x`, octal after a `0`
//!   without `x`, and otherwise decimal. A blank, `#` or the end of the line follows.
//! - The name is the text up to the next `"` or `#`, without leading `"` and `#`. Quotes are
//!   therefore optional, a `#` within quotes ends the name, and `0x1 # text` gives the name `
//!   text`. Trailing blanks belong to the name. No character is replaced.
//! - If a GUID has several entries, the first one counts. Empty lines and lines that begin with
//!   `#` are skipped.
//!
//! This parser is more tolerant than the tools in three points: it reports and skips a faulty
//! line, where the tools ignore the whole map; lines may be longer than 255 bytes; and a carriage
//! return at the end of a line does not belong to the name.
//!
//! The key of an entry is the node GUID, which `ibnetdiscover -p` does not print. If a node GUID
//! is unknown, this module uses the port GUID, which equals the node GUID on most switches and
//! often on the first port of an HCA. GUIDs are unique, so an entry that is found by a port GUID
//! belongs to the right node.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::Guid;
use miette::Diagnostic;

use super::lines::shorten;
use super::names::bounded;
use super::{Device, NetFile};

/// A map from node GUIDs to names.
#[derive(Clone, Debug, Default)]
pub struct NameMap {
    name: String,
    names: BTreeMap<Guid, String>,
    remarks: Vec<(u32, String)>,
}

/// Reason why a name map is refused.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error(
    "cannot use {name} as a node-name map: none of its {lines} lines is an entry (line {line}: {found})"
)]
#[diagnostic(help("a line looks like: 0x0002c9030045fd01 \"leaf01\""))]
pub struct NameMapError {
    /// Name of the file.
    pub name: String,
    /// Number of the first faulty line.
    pub line: u32,
    /// Description of the fault.
    pub found: String,
    /// Number of lines that are neither empty nor comments.
    pub lines: usize,
}

/// Max length of a line that rdma-core's tools read at once, in bytes.
const LONGEST_TOOL_LINE: usize = 255;

impl NameMap {
    /// Parses a map. Messages name the file `name`. An empty file is a map without names.
    ///
    /// # Errors
    /// Returns an error if the file has lines and none of them is an entry.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, NameMapError> {
        let mut map = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let (mut lines, mut first_wrong) = (0, None);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line
                .strip_suffix('\r')
                .unwrap_or(line)
                .trim_start_matches(is_space);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            lines += 1;
            if let Err(found) = map.entry(line, number) {
                first_wrong.get_or_insert_with(|| (number, found.clone()));
                map.remarks.push((number, found));
            }
        }
        match first_wrong {
            Some((line, found)) if map.names.is_empty() => Err(NameMapError {
                name: name.to_owned(),
                line,
                found,
                lines,
            }),
            _ => Ok(map),
        }
    }

    fn entry(&mut self, line: &str, number: u32) -> Result<(), String> {
        let (guid, rest) = strtoull(line)?;
        if !(rest.is_empty() || rest.starts_with(is_space) || rest.starts_with('#')) {
            return Err(format!(
                "a blank must follow the GUID (found {:?})",
                shorten(rest)
            ));
        }
        let mut remark = |text: String| self.remarks.push((number, text));
        if line.len() > LONGEST_TOOL_LINE {
            remark(format!(
                "the line has more than {LONGEST_TOOL_LINE} octets: rdma-core's tools read the rest as another line"
            ));
        }
        if line.starts_with('0')
            && !line[1..].starts_with(['x', 'X'])
            && line.len() - rest.len() > 8
        {
            remark("the GUID begins with 0 and is parsed as octal; is 0x missing?".to_owned());
        }
        let rest = rest.trim_start_matches(is_space);
        let token = rest.trim_start_matches(['"', '#']);
        let end = token.find(['"', '#']).unwrap_or(token.len());
        if rest.starts_with('"') && token[end..].starts_with('#') {
            remark("the # ends the name, although it is within quotes".to_owned());
        }
        if end == 0 {
            return Err("the name is missing after the GUID".to_owned());
        }
        let name = bounded(&token[..end]);
        match self.names.get(&guid) {
            Some(first) if *first != name => remark(format!(
                "{guid} has a name in an earlier line, which counts"
            )),
            Some(_) => {}
            None => _ = self.names.insert(guid, name),
        }
        Ok(())
    }

    /// Returns the number of nodes with a name.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether the map has no names.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the remarks about lines, each with its line number, from 1.
    pub fn remarks(&self) -> &[(u32, String)] {
        &self.remarks
    }

    /// Renames the nodes of these subnets, also as peers of other ports. Adds a summary and the
    /// remarks to [`NetFile::notes`] of the first subnet.
    pub fn apply(&self, nets: &mut [NetFile]) {
        let (mut used, mut without_node) = (BTreeSet::new(), false);
        for net in &mut *nets {
            let names: Vec<_> = net
                .fabric
                .devices()
                .iter()
                .map(|device| self.of(device))
                .collect();
            used.extend(names.iter().flatten().map(|(guid, _)| *guid));
            without_node |= net
                .fabric
                .devices()
                .iter()
                .any(|device| device.node.guid.is_none());
            let names: Vec<_> = names
                .into_iter()
                .map(|found| found.map(|(_, name)| name))
                .collect();
            net.fabric
                .rename(&names, |guid| self.names.get(&guid).cloned());
        }
        let Some(first) = nets.first_mut() else {
            return;
        };
        let by_port = "; the map needs node GUIDs, and some lines have none: the plain output of `ibnetdiscover` has all";
        let hint = if without_node && used.len() < self.len() {
            by_port
        } else {
            ""
        };
        first.notes.push(format!(
            "{}: {} of {} names belong to nodes of this fabric{hint}",
            self.name,
            used.len(),
            self.len()
        ));
        first.notes.extend(
            self.remarks
                .iter()
                .map(|(line, found)| format!("{}:{line}: {found}", self.name)),
        );
    }

    fn of(&self, device: &Device) -> Option<(Guid, &str)> {
        let guid = device.node.guid.unwrap_or(device.guid);
        self.names.get(&guid).map(|name| (guid, &**name))
    }
}

/// Returns whether C's `isspace` accepts the character.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// Parses a number like C's `strtoull` with base 0. Returns the number and the rest of the text,
/// or an error for a number of more than 64 bits.
fn strtoull(text: &str) -> Result<(Guid, &str), String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, radix) = match hex {
        Some(rest) => (rest, 16),
        None => (digits, if digits.starts_with('0') { 8 } else { 10 }),
    };
    let (number, rest) = digits.split_at(
        digits
            .find(|c: char| !c.is_digit(radix))
            .unwrap_or(digits.len()),
    );
    if number.is_empty() {
        return Err(format!(
            "{:?} is not a GUID (0x and hexadecimal digits)",
            shorten(text)
        ));
    }
    let guid = u64::from_str_radix(number, radix)
        .map_err(|_| format!("{:?} has more than 64 bits", shorten(number)))?;
    Ok((Guid(guid), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::net_file;

    fn read(text: &str) -> NameMap {
        NameMap::parse(text.as_bytes(), "names").unwrap()
    }

    fn name(text: &str) -> Option<(u64, String)> {
        read(text)
            .names
            .into_iter()
            .next()
            .map(|(guid, name)| (guid.0, name))
    }

    fn remark_lines(text: &str) -> Vec<u32> {
        read(text).remarks.iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn name_is_parsed_like_strtok_in_rdma_core() {
        for (line, expected) in [
            ("0x8f10400411a08 \"leaf 1\"", "leaf 1"),
            ("  0x8f10400411a08\t\"leaf 1\"  # comment", "leaf 1"),
            ("0x8f10400411a08 leaf 1", "leaf 1"),
            ("0x8f10400411a08 leaf 1  ", "leaf 1  "),
            ("0x8f10400411a08 leaf 1 # comment", "leaf 1 "),
            ("0x8f10400411a08 leaf\r", "leaf"),
            ("0x8f10400411a08 # text", " text"),
            ("0x8f10400411a08#text", "text"),
            ("0x8f10400411a08 \"# 7\"", " 7"),
            ("0x8f10400411a08 \"leaf # 7\"", "leaf "),
            ("0x8f10400411a08 \"\"#\"x", "x"),
            ("0X8F10400411A08 \"Zürich \u{1b}[2J\"", "Zürich \u{1b}[2J"),
            ("2516799300114952 'leaf'", "'leaf'"),
            ("0107420200020215010 leaf", "leaf"),
        ] {
            assert_eq!(
                name(line),
                Some((0x8_f104_0041_1a08, expected.to_owned())),
                "{line:?}"
            );
        }
    }

    #[test]
    fn faulty_lines_are_reported_and_skipped() {
        let text = "# a map\n\n0x1 \"one\"\n0008f10400411a08 \"octal\"\nleaf1 \"none\"\n0x2\"two\"\n0x3\n0x4 \"\"\n0x1 \"other\"\n0x1 \"one\"\n\
                    0x10000000000000000 \"long\"\n0x \"x\"\n0x5 \"five\"\n";
        assert_eq!(remark_lines(text), [4, 5, 6, 7, 8, 9, 11, 12]);
        assert_eq!(
            read(text).names.values().collect::<Vec<_>>(),
            ["one", "five"]
        );
        assert_eq!(
            remark_lines("0x1 \"a # b\"\n0002000000000001 \"octal\"\n"),
            [1, 2]
        );
        assert_eq!(remark_lines(&format!("0x1 \"{}\"", "x".repeat(300))), [1]);
        assert!(read("").is_empty() && read("# nothing\n").is_empty());
        let error = NameMap::parse(b"leaf1\nleaf2 x\n", "names").unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("(line 1: \"leaf1\" is not a GUID (0x and hexadecimal digits))")
                && error.lines == 2,
            "{error}"
        );
    }

    #[test]
    fn key_is_the_node_guid_or_else_the_port_guid() {
        const MAP: &str =
            "0x24be05ffff980030 \"zeus mlx4_0\"\n0xf4521403001165a0 \"leaf-5\"\n0x99 \"nobody\"\n";
        let named = |bytes: &[u8]| {
            let mut nets = [net_file::parse(bytes, "net").unwrap()];
            read(MAP).apply(&mut nets);
            let [net] = nets;
            let devices = net.fabric.devices();
            let hosts = devices
                .iter()
                .filter(|device| device.host() == "zeus")
                .count();
            let switches = devices
                .iter()
                .filter(|device| device.name == "leaf-5")
                .count();
            let peers = devices
                .iter()
                .flat_map(Device::linked)
                .filter(|(_, peer)| peer.name == "leaf-5")
                .count();
            (hosts, switches, peers, net.notes[0].clone())
        };
        let (hosts, switches, peers, note) = named(include_bytes!(
            "../../tests/data/fabrics/loginoff-fdr10-qdr.topo"
        ));
        assert_eq!(
            (hosts, switches, peers, note.as_str()),
            (
                1,
                1,
                32,
                "names: 2 of 3 names belong to nodes of this fabric"
            )
        );
        let (hosts, switches, peers, note) = named(include_bytes!(
            "../../tests/data/fabrics/loginoff-fdr10-qdr.reconstructed.p"
        ));
        assert_eq!((hosts, switches, peers), (0, 1, 32));
        assert!(
            note.starts_with(
                "names: 1 of 3 names belong to nodes of this fabric; the map needs node GUIDs"
            ),
            "{note}"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = NameMap::parse(&bytes, "x");
        }

        #[test]
        fn numbers_are_parsed_in_all_bases(number: u64) {
            for text in [format!("{number:#x} \"n\""), format!("0{number:o} n"), format!("{number} n")] {
                proptest::prop_assert_eq!(name(&text), Some((number, "n".to_owned())));
            }
        }
    }
}
