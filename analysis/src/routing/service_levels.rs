//! The service level (SL) of each pair of hosts, and the virtual lane (VL) of each service level on
//! each link: files of OpenSM. The virtual lanes can also come from records.
//!
//! - `opensm-sl2vl.dump`: a heading `Switch 0x..., base LID 4, "name"`, and lines
//!   `1   2   : 0  1  2 ...` with the port by which a packet comes, the port by which it leaves,
//!   and the VL of each of the 16 SLs.
//! - `opensm-path-records.dump`: a heading `Channel Adapter 0x..., base LID 1, "name", port 1` with
//!   the port GUID of the sender, and lines `0x0004 : 0  : 4   : 3` with the LID of the receiver,
//!   the SL, the MTU and the rate.

use std::io::BufRead;
use std::path::Path;

use ibnet_record::types::{Guid, Lid, PortNum};
use rustc_hash::FxHashMap;

use crate::routes::{MOST, Routes, RoutesError, TableFile, each_line, open, port_of, read_tables};

/// Number of service levels, and of virtual lanes.
pub(super) const LEVELS: usize = 16;

/// Max number of pairs of ports whose lanes are read from records: those of 10,000 switches with 40
/// ports.
const MAX_PAIRS: usize = 1 << 24;

/// The service level of each pair of a sender and a LID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathSls(Routes);

/// The virtual lanes of switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlToVl {
    /// The VL of each SL, by the switch, the port by which a packet comes, and the port by which
    /// it leaves.
    tables: FxHashMap<(Guid, PortNum, PortNum), [u8; LEVELS]>,
}

impl PathSls {
    /// Reads `opensm-path-records.dump`, or standard input for `-`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if a line is malformed, or if there is none.
    pub fn read(path: &Path) -> Result<Self, RoutesError> {
        open(path, TableFile::PathSls, Self::read_from)
    }

    /// Parses the text of such a file. `name` is the name of the file.
    ///
    /// # Errors
    /// Returns an error if a line is malformed, or if there is none.
    pub fn parse(text: &str, name: &str) -> Result<Self, RoutesError> {
        Self::read_from(&mut text.as_bytes(), name)
    }

    fn read_from(text: &mut dyn BufRead, name: &str) -> Result<Self, RoutesError> {
        read_tables(text, (TableFile::PathSls, name), heading, MOST).map(Self)
    }

    /// Returns the service levels of a sender, in the form that [`Self::in_table`] reads.
    pub(super) fn of(&self, sender: Guid) -> Option<&[u8]> {
        self.0.table(sender)
    }

    /// Returns the service level of packets to a LID.
    pub(super) fn in_table(table: &[u8], lid: Lid) -> Option<u8> {
        let sl = port_of(table, lid)?.0;
        (usize::from(sl) < LEVELS).then_some(sl)
    }
}

impl SlToVl {
    /// Reads `opensm-sl2vl.dump`, or standard input for `-`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, if a line is malformed, or if there is none.
    pub fn read(path: &Path) -> Result<Self, RoutesError> {
        open(path, TableFile::SlToVl, Self::read_from)
    }

    /// Parses the text of such a file. `name` is the name of the file.
    ///
    /// # Errors
    /// Returns an error if a line is malformed, or if there is none.
    pub fn parse(text: &str, name: &str) -> Result<Self, RoutesError> {
        Self::read_from(&mut text.as_bytes(), name)
    }

    fn read_from(text: &mut dyn BufRead, name: &str) -> Result<Self, RoutesError> {
        let file = TableFile::SlToVl;
        let (mut tables, mut switch) = (FxHashMap::default(), None);
        each_line(text, (file, name), MOST.0, |number, line| {
            let line = String::from_utf8_lossy(line);
            let wrong = |what| RoutesError::Line {
                file,
                name: name.to_owned(),
                line: number,
                what,
                found: line.clone().into_owned(),
            };
            if let Some(guid) = heading(&line) {
                switch = Some(guid.ok_or_else(|| wrong("expected a GUID"))?);
            } else if line.starts_with(|first: char| first.is_ascii_digit()) {
                let guid = switch.ok_or_else(|| wrong("expected a line with a GUID first"))?;
                let row = row(&line).ok_or_else(|| wrong("expected two ports and 16 lanes"))?;
                tables.insert((guid, row.0, row.1), row.2);
            }
            Ok(())
        })?;
        if tables.is_empty() {
            let name = name.to_owned();
            return Err(RoutesError::None { file, name });
        }
        Ok(Self { tables })
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Sets the lanes of a switch and of the ports by which a packet comes and leaves. Faulty lanes
    /// and those of too many ports are left out.
    pub(super) fn insert(&mut self, key: (Guid, PortNum, PortNum), lanes: [u8; LEVELS]) {
        let is_valid = lanes.iter().all(|lane| usize::from(*lane) < LEVELS);
        if is_valid && (self.tables.len() < MAX_PAIRS || self.tables.contains_key(&key)) {
            self.tables.insert(key, lanes);
        }
    }

    /// Adds newer lanes.
    pub(super) fn merge(&mut self, newer: Self) {
        self.tables.extend(newer.tables);
    }

    /// Returns the virtual lanes of a pair of ports of a switch.
    pub(super) fn lanes(&self, switch: Guid, from: PortNum, to: PortNum) -> Option<&[u8; LEVELS]> {
        self.tables.get(&(switch, from, to))
    }
}

/// Returns the GUID in a heading: `Some(None)` for a heading without a GUID, `None` for any other
/// line.
fn heading(line: &str) -> Option<Option<Guid>> {
    let kinds = ["Channel Adapter ", "Switch ", "Router "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    Some(rest.split(',').next().unwrap_or_default().parse().ok())
}

fn row(line: &str) -> Option<(PortNum, PortNum, [u8; LEVELS])> {
    let (ports, lanes) = line.split_once(':')?;
    let mut ports = ports.split_whitespace().map(str::parse);
    let (from, to) = (ports.next()?.ok()?, ports.next()?.ok()?);
    let lanes: Option<Vec<u8>> = lanes
        .split_whitespace()
        .map(|lane| lane.parse().ok().filter(|lane| usize::from(*lane) < LEVELS))
        .collect();
    Some((PortNum(from), PortNum(to), lanes?.try_into().ok()?))
}
