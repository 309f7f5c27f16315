//! Reads forwarding tables, which give the port through which a switch forwards to each LID.
//!
//! [`Routes::parse`] reads these forms, also mixed in one file:
//!
//! - `dump_fts` of infiniband-diags: a heading `Unicast lids [...] of switch Lid 4 guid 0x...
//!   (name):`, and lines `0x0001 007 : (Channel Adapter portguid 0x...: 'node01')`. The text
//!   after the colon maps the LID to a port GUID. In `opensm-lfts.dump` of OpenSM, `#` stands for
//!   the colon.
//! - `ibdiagnet2.fdbs` of ibdiagnet, and `opensm.fdbs` of OpenSM: a heading `dump_ucast_routes:
//!   Switch 0x...`, and lines `0x0001 : 007  : 01   : yes`.
//!
//! Only the base LID of a port is used. With an LMC above 0, traffic to the other LIDs of a port
//! can take other paths.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use ibnet_record::limits;
use ibnet_record::types::{Guid, Lid, PortNum, Printable};
use miette::Diagnostic;

use crate::input::{Fold, Inputs};
use crate::path;
use crate::record::{Record, Type};

/// Entry of a LID without a route.
const NO_ROUTE: u8 = u8::MAX;

/// Max size of a file, and of all its tables in memory, in octets: those of 20,000 switches with
/// every LID.
pub(crate) const MOST: (u64, usize) = (limits::ROUTES, 1 << 30);

/// Max number of switches whose records are read.
const MAX_SWITCHES: usize = 16_384;

/// Forwarding tables of switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routes {
    /// For each switch, the port of each LID up to the last one with a route, or [`NO_ROUTE`]. The
    /// tables of 1,500 switches and 38,000 LIDs have 57 MB.
    tables: BTreeMap<Guid, Vec<u8>>,
    /// LIDs of the ports that the file lists by GUID.
    lids: BTreeMap<Guid, Lid>,
}

/// A kind of file with tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableFile {
    /// Forwarding tables.
    Routes,
    /// The service level of each path.
    PathSls,
    /// The virtual lane of each service level, for each pair of ports of a switch.
    SlToVl,
}

impl TableFile {
    const fn title(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::PathSls => "the service levels of paths",
            Self::SlToVl => "tables of virtual lanes",
        }
    }

    const fn files(self) -> &'static str {
        match self {
            Self::Routes => {
                "the output of `dump_fts`, the file ibdiagnet2.fdbs of ibdiagnet, or the records of \
                 a sweep with `[routes]`"
            }
            Self::PathSls => "the file opensm-path-records.dump of OpenSM",
            Self::SlToVl => "the file opensm-sl2vl.dump of OpenSM",
        }
    }
}

/// Fault of a file with tables.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum RoutesError {
    /// The text has no table.
    #[error("cannot read {} from {}: it has no table", file.title(), Printable(name))]
    #[diagnostic(help("give {}", file.files()))]
    None {
        /// Kind of the file.
        file: TableFile,
        /// Name of the file.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read {} from {}", file.title(), Printable(name))]
    #[diagnostic(help("give the path of a file that you may read, or `-` for standard input"))]
    Read {
        /// Kind of the file.
        file: TableFile,
        /// Name of the file.
        name: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The tables are larger than those of any fabric.
    #[error(
        "cannot read {} from {}: it has more than {} GiB, or its tables more than {} GiB",
        file.title(),
        Printable(name),
        MOST.0 >> 30,
        MOST.1 >> 30
    )]
    #[diagnostic(help("check the path: the tables of 1,500 switches and 38,000 LIDs have 57 MB"))]
    TooLarge {
        /// Kind of the file.
        file: TableFile,
        /// Name of the file.
        name: String,
    },
    /// A line is malformed.
    #[error(
        "cannot read {} at {}:{line}: {what} (found `{}`)",
        file.title(),
        Printable(name),
        Printable(found)
    )]
    #[diagnostic(help("give {}, without changes", file.files()))]
    Line {
        /// Kind of the file.
        file: TableFile,
        /// Name of the file.
        name: String,
        /// Line number, from 1.
        line: usize,
        /// The fault.
        what: &'static str,
        /// The text.
        found: String,
    },
}

impl Routes {
    /// Reads a file with forwarding tables, or standard input for `-`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if a line of a table is malformed, or if there
    /// is no table.
    pub fn read(path: &Path) -> Result<Self, RoutesError> {
        open(path, TableFile::Routes, Self::read_from)
    }

    /// Parses forwarding tables. `name` is the name of the file.
    ///
    /// # Errors
    /// Returns an error if a line of a table is malformed, or if there is no table.
    pub fn parse(text: &str, name: &str) -> Result<Self, RoutesError> {
        Self::read_from(&mut text.as_bytes(), name)
    }

    fn read_from(text: &mut dyn BufRead, name: &str) -> Result<Self, RoutesError> {
        read_tables(text, (TableFile::Routes, name), head, MOST)
    }

    /// Returns the inputs whose records have all tables of a time range: a sweep repeats them
    /// within an hour.
    #[must_use]
    pub fn inputs(mut inputs: Inputs) -> Inputs {
        const REPEATED_NS: u64 = 3_600_000_000_000;
        inputs.from = inputs.from.map(|from| from.saturating_sub(REPEATED_NS));
        inputs
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the port through which a switch sends to a LID.
    pub fn port(&self, switch: Guid, lid: Lid) -> Option<PortNum> {
        port_of(self.table(switch)?, lid)
    }

    /// Returns the table of a switch: the port of each LID, in the form that [`port_of`] reads.
    pub fn table(&self, switch: Guid) -> Option<&[u8]> {
        self.tables.get(&switch).map(Vec::as_slice)
    }

    /// Returns the LIDs in the table of a switch, each with its port.
    pub fn entries(&self, switch: Guid) -> impl Iterator<Item = (Lid, PortNum)> {
        let table = self.table(switch).unwrap_or_default();
        (0..=u16::MAX)
            .map(Lid)
            .take(table.len())
            .filter_map(|lid| Some((lid, port_of(table, lid)?)))
    }

    /// Returns the LID of a port, if the file has it.
    pub fn lid(&self, guid: Guid) -> Option<Lid> {
        self.lids.get(&guid).copied()
    }

    /// Returns the switches with a table.
    pub fn switches(&self) -> impl Iterator<Item = Guid> {
        self.tables.keys().copied()
    }
}

impl Fold for Routes {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Routes
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Routes(record) = record else {
            return;
        };
        let (Some(top), Some(first), Some(ports)) = (record.top, record.first_lid, &record.ports)
        else {
            return;
        };
        if self.tables.len() >= MAX_SWITCHES && !self.tables.contains_key(&record.guid) {
            return;
        }
        let table = self.tables.entry(record.guid).or_default();
        // An entry above LinearFDBTop is not valid any more.
        let len = usize::from(top.min(Lid::MAX_UNICAST.0)) + 1;
        table.resize(len, NO_ROUTE);
        let block = table.iter_mut().skip(usize::from(first));
        block.zip(ports).for_each(|(entry, port)| *entry = *port);
    }

    fn merge(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.lids.extend(other.lids);
    }
}

/// Returns the port of a LID in a table of [`Routes::table`], or `None` without a route.
pub fn port_of(table: &[u8], lid: Lid) -> Option<PortNum> {
    let port = table.get(usize::from(lid.0));
    port.filter(|port| **port != NO_ROUTE)
        .map(|port| PortNum(*port))
}

/// Opens a file with tables, or standard input for `-`, and passes it and its name to `read`.
pub(crate) fn open<T>(
    path: &Path,
    file: TableFile,
    read: impl FnOnce(&mut dyn BufRead, &str) -> Result<T, RoutesError>,
) -> Result<T, RoutesError> {
    let name = path::display_name(path);
    let opened: io::Result<Box<dyn Read>> = if path::is_stdin(path) {
        Ok(Box::new(io::stdin().lock()))
    } else {
        File::open(path).map(|file| Box::new(file) as _)
    };
    match opened {
        Ok(text) => read(&mut BufReader::with_capacity(1 << 20, text), &name),
        Err(source) => Err(RoutesError::Read { file, name, source }),
    }
}

/// Passes each line of a text and its number, from 1, to `each`. `most` is the max number of
/// octets.
pub(crate) fn each_line(
    text: &mut dyn BufRead,
    (file, name): (TableFile, &str),
    most: u64,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), RoutesError>,
) -> Result<(), RoutesError> {
    let name = || name.to_owned();
    let (mut text, mut line) = (text.take(most), Vec::new());
    for number in 1.. {
        match limits::read_line(&mut text, &mut line) {
            Ok(true) => each(number, &line)?,
            Ok(false) => break,
            Err(source) => {
                return Err(RoutesError::Read {
                    file,
                    name: name(),
                    source,
                });
            }
        }
    }
    if text.limit() == 0 {
        Err(RoutesError::TooLarge { file, name: name() })
    } else {
        Ok(())
    }
}

/// Reads tables with one number for each LID. `head` returns the GUID in the heading of a table:
/// `Some(None)` for a heading without a GUID, `None` for any other line.
pub(crate) fn read_tables(
    text: &mut dyn BufRead,
    (file, name): (TableFile, &str),
    head: impl Fn(&str) -> Option<Option<Guid>>,
    most: (u64, usize),
) -> Result<Routes, RoutesError> {
    let mut routes = Routes::default();
    // The table that is being read, and its GUID.
    let mut table: Option<(Guid, Vec<u8>)> = None;
    // The destinations of the first table are those of all tables.
    let mut is_known = vec![false; usize::from(u16::MAX) + 1];
    let mut octets = 0;
    each_line(text, (file, name), most.0, |number, line| {
        let wrong = |what| RoutesError::Line {
            file,
            name: name.to_owned(),
            line: number,
            what,
            found: String::from_utf8_lossy(line).into_owned(),
        };
        if line.trim_ascii_start().starts_with(b"0x") {
            let (_, table) = table
                .as_mut()
                .ok_or_else(|| wrong("expected a line with a GUID first"))?;
            let (lid, value) = entry(line).ok_or_else(|| wrong("expected a LID and a number"))?;
            let (place, before) = (usize::from(lid), table.len());
            if let Some(PortNum(value)) = value {
                if before <= place {
                    table.resize(place + 1, NO_ROUTE);
                    octets += table.len() - before;
                }
                table[place] = value;
            }
            if !is_known[place]
                && let Some(guid) = destination(line)
            {
                is_known[place] = true;
                routes.lids.entry(guid).or_insert(Lid(lid));
            }
        } else if let Some(guid) = head(&String::from_utf8_lossy(line)) {
            let guid = guid.ok_or_else(|| wrong("expected a GUID"))?;
            routes.tables.extend(table.take());
            table = Some((guid, routes.tables.remove(&guid).unwrap_or_default()));
        }
        if octets > most.1 {
            let name = name.to_owned();
            return Err(RoutesError::TooLarge { file, name });
        }
        Ok(())
    })?;
    routes.tables.extend(table);
    if routes.tables.is_empty() {
        let name = name.to_owned();
        Err(RoutesError::None { file, name })
    } else {
        Ok(routes)
    }
}

/// Returns the GUID in the heading of a table: `Some(None)` for a heading without a GUID, `None`
/// for any other line.
fn head(line: &str) -> Option<Option<Guid>> {
    let after = |word: &str| {
        line.split_once(word).map(|(_, rest)| {
            rest.split([' ', ',', '('])
                .next()
                .unwrap_or_default()
                .parse()
                .ok()
        })
    };
    if line.contains("ucast_routes: Switch ") {
        after("Switch ")
    } else if line.starts_with("Unicast lids ") {
        after(" guid ")
    } else {
        None
    }
}

/// Returns the LID and the port of a table line. The port is `None` if the LID is unreachable.
fn entry(line: &[u8]) -> Option<(u16, Option<PortNum>)> {
    let mut words = line
        .split(|byte| b" :\t".contains(byte))
        .filter(|word| !word.is_empty())
        .map(|word| str::from_utf8(word).unwrap_or_default());
    let lid = u16::from_str_radix(words.next()?.strip_prefix("0x")?, 16)
        .ok()
        .filter(|lid| Lid(*lid).is_unicast())?;
    let port = words.next()?;
    if port.eq_ignore_ascii_case("unreachable") {
        return Some((lid, None));
    }
    let port: u8 = port.parse().ok()?;
    Some((lid, (port < NO_ROUTE).then_some(PortNum(port))))
}

/// Returns the port GUID of the destination, as `dump_fts` writes it.
fn destination(line: &[u8]) -> Option<Guid> {
    let text = String::from_utf8_lossy(line);
    let (_, rest) = text.split_once("portguid ")?;
    rest.split([':', ' ', ')']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_alike() {
        let dump_fts = "Unicast lids [0x0-0x5] of switch Lid 4 guid 0x0000000000200006 (leaf (1)):\n  Lid  Out   Destination\n       Port     Info \n\
                        0x0001 007 : (Channel Adapter portguid 0x0000000000100001: 'node01')\n\
                        0x0004 000 : (Switch portguid 0x0000000000200006: 'leaf')\n2 valid lids dumped \n";
        let fdbs = "osm_ucast_mgr_dump_ucast_routes: Switch 0x0000000000200006\nLID    : Port : Hops : Optimal\n\
                    0x0001 : 007  : 01   : yes\n0x0002 : UNREACHABLE\n0x0004 : 000  : 00   : yes\n";
        let (one, other) = (
            Routes::parse(dump_fts, "f").unwrap(),
            Routes::parse(fdbs, "f").unwrap(),
        );
        assert_eq!(one.tables, other.tables);
        assert_eq!(one.port(Guid(0x20_0006), Lid(1)), Some(PortNum(7)));
        assert_eq!(
            (one.lid(Guid(0x10_0001)), other.lid(Guid(0x10_0001))),
            (Some(Lid(1)), None)
        );
    }

    #[test]
    fn recorded_tables_of_one_fabric_agree() {
        let read = |name: &str| {
            let text = std::fs::read_to_string(format!(
                "{}/../tests/data/routes/{name}",
                env!("CARGO_MANIFEST_DIR")
            ))
            .unwrap();
            Routes::parse(&text, name).unwrap()
        };
        let (dump, fdbs, lfts) = (
            read("dump_fts.txt"),
            read("opensm.fdbs"),
            read("opensm-lfts.dump"),
        );
        assert_eq!(dump.switches().count(), 6);
        assert_eq!((&dump.tables, &dump.lids), (&lfts.tables, &lfts.lids));
        assert_eq!(dump.tables, fdbs.tables);
        assert_eq!(dump.lid(Guid(0x10_0003)), Some(Lid(5)));
    }

    #[test]
    fn records_give_the_tables_of_the_end_of_the_time() {
        let record = |ts: u64, top: u16, first_lid: u16, ports: &[u8]| {
            let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
            format!(
                r#"{{"type":"routes","ts":{ts},"guid":"0x0000000000000009","table":"linear","top":{top},"first_lid":{first_lid},"ports":[{}]}}"#,
                ports.join(",")
            )
        };
        let mut routes = Routes::default();
        for line in [
            record(1, 67, 0, &[255, 7, 8]),
            record(1, 67, 64, &[1, 2, 3, 4]),
            r#"{"type":"routes","ts":2,"guid":"0x0000000000000009","table":"round","top":67,"changed":0}"#.to_owned(),
            record(3, 65, 64, &[1, 255]),
        ] {
            routes.add(&Record::parse(line.as_bytes(), Type::Routes).unwrap());
        }
        let found: Vec<_> = routes.entries(Guid(9)).collect();
        let expected = [(1, 7), (2, 8), (64, 1)].map(|(lid, port)| (Lid(lid), PortNum(port)));
        assert_eq!(found, expected);
    }

    #[test]
    fn tables_of_more_switches_than_any_fabric_has_are_skipped() {
        let mut routes = Routes::default();
        for guid in 0..MAX_SWITCHES as u64 + 9 {
            routes.add(&Record::Routes(crate::record::Routes {
                guid: Guid(guid),
                top: Some(1),
                first_lid: Some(0),
                ports: Some(vec![255, 1]),
                ..Default::default()
            }));
        }
        assert_eq!(routes.switches().count(), MAX_SWITCHES);
    }

    #[test]
    fn tables_beyond_the_limit_are_refused() {
        let text = "ucast_routes: Switch 0x0000000000000001\n0x03ff : 001 : 00 : yes\n\
                    ucast_routes: Switch 0x0000000000000002\n0x03ff : 001 : 00 : yes\n";
        let read = |octets, tables| {
            let file = (TableFile::Routes, "f");
            read_tables(&mut text.as_bytes(), file, head, (octets, tables))
        };
        let octets = text.len() as u64 + 1;
        assert!(read(octets, 2048).is_ok());
        let too_large = |read| matches!(read, Err(RoutesError::TooLarge { .. }));
        assert!(too_large(read(octets, 2047)));
        assert!(too_large(read(octets - 1, 2048)));
        let mut endless = BufReader::new(io::repeat(0));
        let file = (TableFile::Routes, "f");
        assert!(too_large(read_tables(
            &mut endless,
            file,
            head,
            (1 << 22, 1)
        )));
    }

    #[test]
    fn malformed_table_is_reported_with_its_line() {
        assert!(matches!(
            Routes::parse("nothing\n", "f"),
            Err(RoutesError::None { .. })
        ));
        for text in [
            "x\n0x0001 : 007\n",
            "Unicast lids [0x0-0x5] of switch Lid 4 guid x:\n",
            "ucast_routes: Switch 0x1\n0xffff 1\n",
        ] {
            assert!(
                matches!(Routes::parse(text, "f"), Err(RoutesError::Line { .. })),
                "{text}"
            );
        }
    }
}
