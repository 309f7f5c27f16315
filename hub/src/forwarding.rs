//! Keeps the newest forwarding tables that samplers have sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ibnet_analysis::input::Fold;
use ibnet_analysis::record::{self, Record};
use ibnet_analysis::routes::Routes;
use ibnet_record::RoutesTable;
use ibnet_record::types::{Guid, Lid};
use serde::Serialize;

/// Max size of all tables in bytes. Those of 1,500 switches and 38,000 LIDs have 57 MB.
const MOST: usize = 256 << 20;

/// Max number of switches.
const MAX_SWITCHES: usize = 16_384;

/// Number of LIDs of a block, and of blocks of a table.
const BLOCK: u16 = 64;
const BLOCKS: usize = (Lid::MAX_UNICAST.0 / BLOCK) as usize + 1;

/// The newest tables, and which of them are complete.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Readers take a reference, so a change copies the tables only while one of them works.
    routes: Arc<Routes>,
    switches: BTreeMap<Guid, Seen>,
    /// Switches whose table does not fit.
    left_out: BTreeSet<Guid>,
    octets: usize,
}

/// What is known about the table of a switch.
#[derive(Clone, Debug)]
struct Seen {
    /// Time of the newest record, in nanoseconds since 1970.
    ts: u64,
    /// Largest LID of the table.
    top: u16,
    /// Blocks that were read, one bit each.
    blocks: [u64; BLOCKS.div_ceil(64)],
    /// Whether entries have changed since the last round.
    is_changing: bool,
}

/// How complete the tables are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Condition {
    /// Number of switches with a table.
    pub(crate) switches: usize,
    /// Switches of which a part of the table was not read yet.
    pub(crate) partial: Vec<Guid>,
    /// Switches whose table has changed since the last complete reading of it.
    pub(crate) changing: Vec<Guid>,
    /// Switches whose table, or its newest part, does not fit into 256 MiB.
    pub(crate) left_out: Vec<Guid>,
    /// Time of the newest record, in nanoseconds since 1970. Null for the tables of a file.
    pub(crate) newest_ns: Option<u64>,
}

impl Tables {
    /// Adds a record. Returns whether there was room for it.
    pub(crate) fn add(&mut self, record: &record::Routes<'_>) -> bool {
        let Some(top) = record.top.map(|top| top.min(Lid::MAX_UNICAST.0)) else {
            return true;
        };
        let known = self.switches.get(&record.guid);
        // A replay does not replace a newer table.
        if known.is_some_and(|known| record.ts < known.ts) {
            return true;
        }
        if record.table == RoutesTable::Round.as_str() {
            if let Some(known) = self.switches.get_mut(&record.guid) {
                (known.ts, known.is_changing) = (record.ts, record.changed.is_some_and(|n| n > 0));
            }
            return true;
        }
        let (Some(first), Some(ports)) = (record.first_lid, &record.ports) else {
            return true;
        };
        let before = known.map_or(0, |known| usize::from(known.top) + 1);
        let octets = self.octets - before + usize::from(top) + 1;
        if octets > MOST || (known.is_none() && self.switches.len() >= MAX_SWITCHES) {
            if self.left_out.len() < MAX_SWITCHES {
                self.left_out.insert(record.guid);
            }
            return false;
        }
        self.left_out.remove(&record.guid);
        self.octets = octets;
        let seen = self.switches.entry(record.guid).or_insert_with(|| Seen {
            ts: 0,
            top,
            blocks: [0; BLOCKS.div_ceil(64)],
            is_changing: false,
        });
        let block = usize::from(first / BLOCK);
        let table = self.routes.table(record.guid).unwrap_or_default();
        let place = usize::from(first);
        let old = table.get(place..(place + ports.len()).min(table.len()));
        let was_read = seen.has(block);
        (seen.ts, seen.top) = (record.ts, top);
        if was_read
            && old == ports.get(..old.map_or(0, <[u8]>::len))
            && before == usize::from(top) + 1
        {
            return true;
        }
        seen.is_changing |= was_read;
        if let Some(word) = seen.blocks.get_mut(block / 64) {
            *word |= 1 << (block % 64);
        }
        Arc::make_mut(&mut self.routes).add(&Record::Routes(record.clone()));
        true
    }

    /// Returns the tables. `None` without any.
    pub(crate) fn routes(&self) -> Option<Arc<Routes>> {
        (!self.switches.is_empty()).then(|| Arc::clone(&self.routes))
    }

    /// Returns the size of all tables in bytes.
    pub(crate) const fn octets(&self) -> usize {
        self.octets
    }

    pub(crate) fn condition(&self) -> Condition {
        let with = |is_it: fn(&Seen) -> bool| {
            let found = self.switches.iter().filter(move |(_, seen)| is_it(seen));
            found.map(|(guid, _)| *guid).collect()
        };
        Condition {
            switches: self.switches.len(),
            partial: with(|seen| !seen.is_complete()),
            changing: with(|seen| seen.is_changing),
            left_out: self.left_out.iter().copied().collect(),
            newest_ns: self.switches.values().map(|seen| seen.ts).max(),
        }
    }
}

impl Seen {
    fn has(&self, block: usize) -> bool {
        let word = self.blocks.get(block / 64);
        word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    fn is_complete(&self) -> bool {
        (0..=usize::from(self.top / BLOCK)).all(|block| self.has(block))
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::PortNum;

    use super::*;

    fn linear(guid: u64, ts: u64, top: u16, first: u16, ports: &[u8]) -> record::Routes<'static> {
        record::Routes {
            ts,
            guid: Guid(guid),
            table: RoutesTable::Linear.as_str().into(),
            top: Some(top),
            first_lid: Some(first),
            ports: Some(ports.to_vec()),
            ..Default::default()
        }
    }

    fn round(guid: u64, ts: u64, top: u16, changed: Option<u32>) -> record::Routes<'static> {
        record::Routes {
            ts,
            guid: Guid(guid),
            table: RoutesTable::Round.as_str().into(),
            top: Some(top),
            changed,
            ..Default::default()
        }
    }

    #[test]
    fn table_is_complete_once_all_blocks_were_read() {
        let mut tables = Tables::default();
        assert!(tables.routes().is_none());
        assert!(tables.add(&linear(1, 5, 70, 64, &[3; 7])));
        assert_eq!(tables.condition().partial, [Guid(1)]);
        assert!(tables.add(&round(1, 6, 70, None)));
        assert_eq!(tables.condition().partial, [Guid(1)]);
        assert!(tables.add(&linear(1, 7, 70, 0, &[2; 64])));
        let condition = tables.condition();
        assert_eq!((condition.switches, condition.newest_ns), (1, Some(7)));
        assert!(condition.partial.is_empty() && condition.changing.is_empty());
        let port = |lid| {
            tables
                .routes()
                .and_then(|routes| routes.port(Guid(1), Lid(lid)))
        };
        assert_eq!((port(63), port(70)), (Some(PortNum(2)), Some(PortNum(3))));
        assert_eq!(tables.octets(), 71);
    }

    #[test]
    fn changed_table_is_settled_by_a_round_without_a_change() {
        let mut tables = Tables::default();
        tables.add(&linear(1, 5, 3, 0, &[255, 1, 2, 3]));
        let reader = tables.routes().expect("a table");
        tables.add(&linear(1, 6, 3, 0, &[255, 1, 2, 3]));
        assert!(tables.condition().changing.is_empty(), "a repetition");
        tables.add(&linear(1, 7, 3, 0, &[255, 1, 2, 4]));
        assert_eq!(tables.condition().changing, [Guid(1)]);
        tables.add(&round(1, 8, 3, Some(1)));
        assert_eq!(tables.condition().changing, [Guid(1)]);
        tables.add(&round(1, 9, 3, Some(0)));
        assert!(tables.condition().changing.is_empty());
        // A replay of an older table changes nothing, and a reader keeps its tables.
        tables.add(&linear(1, 4, 3, 0, &[255, 9, 9, 9]));
        let port = |routes: &Routes| routes.port(Guid(1), Lid(3));
        let routes = tables.routes().expect("a table");
        assert_eq!(
            (port(&reader), port(&routes)),
            (Some(PortNum(3)), Some(PortNum(4)))
        );
    }

    #[test]
    fn tables_have_a_limit() {
        let mut tables = Tables::default();
        let all = MOST / (usize::from(Lid::MAX_UNICAST.0) + 1);
        for guid in 0..all as u64 {
            assert!(tables.add(&linear(guid, 1, u16::MAX, 0, &[1])));
        }
        assert!(!tables.add(&linear(u64::MAX, 1, u16::MAX, 0, &[1])));
        assert_eq!(tables.condition().left_out, [Guid(u64::MAX)]);
        assert!(
            tables.add(&linear(0, 2, 3, 0, &[1])),
            "a smaller table fits"
        );
        assert!(tables.octets() <= MOST);
        assert!(tables.add(&linear(u64::MAX, 2, 3, 0, &[1])));
        assert!(tables.condition().left_out.is_empty());
    }
}
