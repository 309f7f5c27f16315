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
//! [`Routes`] also folds the `routes` records of a sweep. Each block of a table replaces the older
//! one, so the result has the tables at the end of the time range.
//!
//! Only the base LID of a port is used. With an LMC above 0, traffic to the other LIDs of a port
//! can take other paths.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, Lid, PortNum, Printable};
use miette::Diagnostic;

use crate::input::{Fold, Inputs};
use crate::record::{Record, Type};

/// Max unicast LID (InfiniBand Architecture Specification, volume 1, section 4.1.3).
const MAX_LID: usize = 0xbfff;

/// Max number of switches whose records are read.
const MAX_SWITCHES: usize = 16_384;

/// Forwarding tables of switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Routes {
    /// For each switch, the port of each LID.
    tables: BTreeMap<Guid, BTreeMap<u16, PortNum>>,
    /// LIDs of the ports that the file lists by GUID.
    lids: BTreeMap<Guid, Lid>,
}

/// Fault of a file with forwarding tables.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum RoutesError {
    /// The text has no forwarding table.
    #[error(
        "cannot read routes from {}: it has no forwarding table",
        Printable(name)
    )]
    #[diagnostic(help(
        "give the output of `dump_fts`, the file ibdiagnet2.fdbs of ibdiagnet, or records of a sweep \
         with `[routes]` of that time"
    ))]
    None {
        /// Name of the file.
        name: String,
    },
    /// A line is malformed.
    #[error(
        "cannot read routes at {}:{line}: {what} (found `{}`)",
        Printable(name),
        Printable(found)
    )]
    #[diagnostic(help(
        "give the output of `dump_fts`, or the file ibdiagnet2.fdbs of ibdiagnet, without changes"
    ))]
    Line {
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
    /// Parses forwarding tables. `name` is the name of the file.
    ///
    /// # Errors
    /// Returns an error if a line of a table is malformed, or if there is no table.
    pub fn parse(text: &str, name: &str) -> Result<Self, RoutesError> {
        let mut routes = Self::default();
        let mut table: Option<Guid> = None;
        for (index, line) in text.lines().enumerate() {
            let wrong = |what| RoutesError::Line {
                name: name.to_owned(),
                line: index + 1,
                what,
                found: line.to_owned(),
            };
            if let Some(guid) = head(line) {
                let guid = guid.ok_or_else(|| wrong("expected the GUID of a switch"))?;
                routes.tables.entry(guid).or_default();
                table = Some(guid);
            } else if line.trim_start().starts_with("0x") {
                let switch = table
                    .ok_or_else(|| wrong("expected a line with the GUID of a switch first"))?;
                let (lid, port) = entry(line).ok_or_else(|| wrong("expected a LID and a port"))?;
                if let Some(port) = port {
                    routes.tables.entry(switch).or_default().insert(lid, port);
                }
                if let Some(guid) = destination(line) {
                    routes.lids.entry(guid).or_insert(Lid(lid));
                }
            }
        }
        routes.not_empty(name)
    }

    /// Returns the inputs whose records have all tables of a time range: a sweep repeats them
    /// within an hour.
    #[must_use]
    pub fn inputs(mut inputs: Inputs) -> Inputs {
        const REPEATED_NS: u64 = 3_600_000_000_000;
        inputs.from = inputs.from.map(|from| from.saturating_sub(REPEATED_NS));
        inputs
    }

    /// Returns these tables.
    ///
    /// # Errors
    /// Returns an error if there is no table. `name` is the name of the file or archive.
    pub fn not_empty(self, name: &str) -> Result<Self, RoutesError> {
        if self.tables.is_empty() {
            let name = name.to_owned();
            return Err(RoutesError::None { name });
        }
        Ok(self)
    }

    /// Returns the port through which a switch sends to a LID.
    pub fn port(&self, switch: Guid, lid: Lid) -> Option<PortNum> {
        self.tables.get(&switch)?.get(&lid.0).copied()
    }

    /// Returns the LIDs in the table of a switch, each with its port.
    pub fn entries(&self, switch: Guid) -> impl Iterator<Item = (Lid, PortNum)> {
        let table = self.tables.get(&switch).into_iter().flatten();
        table.map(|(lid, port)| (Lid(*lid), *port))
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
        drop(table.split_off(&top.saturating_add(1)));
        for (lid, port) in (first..=top.min(MAX_LID as u16)).zip(ports) {
            match *port {
                u8::MAX => table.remove(&lid),
                port => table.insert(lid, PortNum(port)),
            };
        }
    }

    fn merge(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.lids.extend(other.lids);
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
fn entry(line: &str) -> Option<(u16, Option<PortNum>)> {
    let mut words = line.split([' ', ':', '\t']).filter(|word| !word.is_empty());
    let lid = u16::from_str_radix(words.next()?.strip_prefix("0x")?, 16)
        .ok()
        .filter(|lid| usize::from(*lid) <= MAX_LID && *lid > 0)?;
    let port = words.next()?;
    if port.eq_ignore_ascii_case("unreachable") {
        return Some((lid, None));
    }
    let port: u8 = port.parse().ok()?;
    Some((lid, (port < u8::MAX).then_some(PortNum(port))))
}

/// Returns the port GUID of the destination, as `dump_fts` writes it.
fn destination(line: &str) -> Option<Guid> {
    let (_, rest) = line.split_once("portguid ")?;
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
        assert!(routes.not_empty("x").is_ok() && Routes::default().not_empty("x").is_err());
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
    fn malformed_table_is_reported_with_its_line() {
        assert_eq!(
            Routes::parse("nothing\n", "f"),
            Err(RoutesError::None {
                name: "f".to_owned()
            })
        );
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
