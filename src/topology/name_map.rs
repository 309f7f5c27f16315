//! Names that an administrator gave to nodes: the file of `--node-name-map`, as rdma-core's tools and opensm read it.
//!
//! The grammar is that of `util/node_name_map.c` in rdma-core, which nobody would guess:
//!
//! - A GUID is a number as C's `strtoull` reads it: hexadecimal after `0x`, octal after another `0`, else decimal. A blank, `#` or the end follows.
//! - The name is what follows up to the next `"` or `#`, the first of these left out: so quotes are optional, a `#` within them ends the name, and
//!   `0x1 # text` gives the name ` text`. Blanks at its end belong to it. Nothing is cleaned.
//! - Of two entries for a GUID the first stands. Empty lines and lines that begin with `#` are nothing.
//!
//! It is more forgiving in three things: a line that cannot be read is named and passed over (the tools drop the whole map), lines may be longer than 255
//! octets, and a carriage return at the end is none of the name.
//!
//! The key is the node GUID, which `ibnetdiscover -p` does not tell. Where it is not known the port GUID is looked up: that of a switch is mostly its node
//! GUID, that of an adapter's first port often. GUIDs are unique, so what is found is right.

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;

use super::lines::shorten;
use super::names::bounded;
use super::{Device, NetFile};
use crate::types::Guid;

/// Names by node GUID.
#[derive(Clone, Debug, Default)]
pub struct NameMap {
    name: String,
    names: BTreeMap<Guid, String>,
    remarks: Vec<(u32, String)>,
}

/// Why a name map is of no use.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{name}:{line}: {found}; none of the file's {lines} lines is one of a node-name map")]
#[diagnostic(help("a line looks like: 0x0002c9030045fd01 \"leaf01\""))]
pub struct NameMapError {
    /// The file.
    pub name: String,
    /// The first line that could not be read.
    pub line: u32,
    /// What is wrong with it.
    pub found: String,
    /// How many lines there are that should be entries.
    pub lines: usize,
}

/// The most of a line that the tools read at once.
const LINE_OF_THE_TOOLS: usize = 255;

impl NameMap {
    /// Reads a map; `name` is the file's in messages. An empty one is a map without names.
    ///
    /// # Errors
    /// When there are lines and none of them can be read.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, NameMapError> {
        let mut map = Self { name: name.to_owned(), ..Self::default() };
        let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        let (mut lines, mut first_wrong) = (0, None);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.strip_suffix('\r').unwrap_or(line).trim_start_matches(is_space);
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
            Some((line, found)) if map.names.is_empty() => Err(NameMapError { name: name.to_owned(), line, found, lines }),
            _ => Ok(map),
        }
    }

    fn entry(&mut self, line: &str, number: u32) -> Result<(), String> {
        let (guid, rest) = strtoull(line)?;
        if !(rest.is_empty() || rest.starts_with(is_space) || rest.starts_with('#')) {
            return Err(format!("a blank was expected after the GUID, there is {:?}", shorten(rest)));
        }
        let mut remark = |text: String| self.remarks.push((number, text));
        if line.len() > LINE_OF_THE_TOOLS {
            remark(format!("the line has more than {LINE_OF_THE_TOOLS} octets: rdma-core's tools take the rest for another one"));
        }
        if line.starts_with('0') && !line[1..].starts_with(['x', 'X']) && line.len() - rest.len() > 8 {
            remark("the GUID begins with 0 and is read as octal: should 0x stand before it?".to_owned());
        }
        let rest = rest.trim_start_matches(is_space);
        let token = rest.trim_start_matches(['"', '#']);
        let end = token.find(['"', '#']).unwrap_or(token.len());
        if rest.starts_with('"') && token[end..].starts_with('#') {
            remark("a # ends the name, within quotes, too".to_owned());
        }
        if end == 0 {
            return Err("no name stands after the GUID".to_owned());
        }
        let name = bounded(&token[..end]);
        match self.names.get(&guid) {
            Some(first) if *first != name => remark(format!("{guid} has a name already, which stands")),
            Some(_) => {}
            None => _ = self.names.insert(guid, name),
        }
        Ok(())
    }

    /// How many nodes it names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What is wrong with single lines: their numbers, from 1, and what was found.
    pub fn remarks(&self) -> &[(u32, String)] {
        &self.remarks
    }

    /// Gives the nodes of these subnets the names that they have here, as devices and as peers; what came of it is told in [`NetFile::notes`] of the
    /// first of them.
    pub fn apply(&self, nets: &mut [NetFile]) {
        let (mut used, mut without_node) = (BTreeSet::new(), false);
        for net in &mut *nets {
            let names: Vec<_> = net.fabric.devices().iter().map(|device| self.of(device)).collect();
            used.extend(names.iter().flatten().map(|(guid, _)| *guid));
            without_node |= net.fabric.devices().iter().any(|device| device.node.guid.is_none());
            let names: Vec<_> = names.into_iter().map(|found| found.map(|(_, name)| name)).collect();
            net.fabric.rename(&names, |guid| self.names.get(&guid).cloned());
        }
        let Some(first) = nets.first_mut() else { return };
        let by_port = "; not all lines tell the node GUID, by which the map goes: the plain output of `ibnetdiscover` does";
        let hint = if without_node && used.len() < self.len() { by_port } else { "" };
        first.notes.push(format!("{}: {} of {} names are of nodes here{hint}", self.name, used.len(), self.len()));
        first.notes.extend(self.remarks.iter().map(|(line, found)| format!("{}:{line}: {found}", self.name)));
    }

    fn of(&self, device: &Device) -> Option<(Guid, &str)> {
        let guid = device.node.guid.unwrap_or(device.guid);
        self.names.get(&guid).map(|name| (guid, &**name))
    }
}

/// As C's `isspace`.
fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// A number as C's `strtoull` reads it with base 0, and what follows it. One of more than 64 bits is none.
fn strtoull(text: &str) -> Result<(Guid, &str), String> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let hex =
        digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, radix) = match hex {
        Some(rest) => (rest, 16),
        None => (digits, if digits.starts_with('0') { 8 } else { 10 }),
    };
    let (number, rest) = digits.split_at(digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len()));
    if number.is_empty() {
        return Err(format!("{:?} is not a GUID (0x and hexadecimal digits)", shorten(text)));
    }
    let guid = u64::from_str_radix(number, radix).map_err(|_| format!("{:?} has more than 64 bits", shorten(number)))?;
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
        read(text).names.into_iter().next().map(|(guid, name)| (guid.0, name))
    }

    fn told(text: &str) -> Vec<u32> {
        read(text).remarks.iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn a_name_is_what_strtok_makes_of_the_rest() {
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
            assert_eq!(name(line), Some((0x8_f104_0041_1a08, expected.to_owned())), "{line:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_line_by_line_and_the_rest_stands() {
        let text = "# a map\n\n0x1 \"one\"\n0008f10400411a08 \"octal\"\nleaf1 \"none\"\n0x2\"two\"\n0x3\n0x4 \"\"\n0x1 \"other\"\n0x1 \"one\"\n\
                    0x10000000000000000 \"long\"\n0x \"x\"\n0x5 \"five\"\n";
        assert_eq!(told(text), [4, 5, 6, 7, 8, 9, 11, 12]);
        assert_eq!(read(text).names.values().collect::<Vec<_>>(), ["one", "five"]);
        assert_eq!(told("0x1 \"a # b\"\n0002000000000001 \"octal\"\n"), [1, 2]);
        assert_eq!(told(&format!("0x1 \"{}\"", "x".repeat(300))), [1]);
        assert!(read("").is_empty() && read("# nothing\n").is_empty());
        let error = NameMap::parse(b"leaf1\nleaf2 x\n", "names").unwrap_err();
        assert!(error.to_string().starts_with("names:1: \"leaf1\" is not a GUID") && error.lines == 2, "{error}");
    }

    #[test]
    fn the_key_is_the_node_guid_or_else_the_port_guid() {
        const MAP: &str = "0x24be05ffff980030 \"zeus mlx4_0\"\n0xf4521403001165a0 \"leaf-5\"\n0x99 \"nobody\"\n";
        let named = |bytes: &[u8]| {
            let mut nets = [net_file::parse(bytes, "net").unwrap()];
            read(MAP).apply(&mut nets);
            let [net] = nets;
            let devices = net.fabric.devices();
            let hosts = devices.iter().filter(|device| device.host() == "zeus").count();
            let switches = devices.iter().filter(|device| device.name == "leaf-5").count();
            let peers = devices.iter().flat_map(Device::linked).filter(|(_, peer)| peer.name == "leaf-5").count();
            (hosts, switches, peers, net.notes[0].clone())
        };
        let (hosts, switches, peers, note) = named(include_bytes!("../../tests/data/fabrics/loginoff-fdr10-qdr.topo"));
        assert_eq!((hosts, switches, peers, note.as_str()), (1, 1, 32, "names: 2 of 3 names are of nodes here"));
        let (hosts, switches, peers, note) = named(include_bytes!("../../tests/data/fabrics/loginoff-fdr10-qdr.reconstructed.p"));
        assert_eq!((hosts, switches, peers), (0, 1, 32));
        assert!(note.starts_with("names: 1 of 3 names are of nodes here; not all lines tell the node GUID"), "{note}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            let _ = NameMap::parse(&bytes, "x");
        }

        #[test]
        fn numbers_are_read_as_they_are_written(number: u64) {
            for text in [format!("{number:#x} \"n\""), format!("0{number:o} n"), format!("{number} n")] {
                proptest::prop_assert_eq!(name(&text), Some((number, "n".to_owned())));
            }
        }
    }
}
