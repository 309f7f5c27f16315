//! Reads the records of a sweep, and checks the rules that every stream follows.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::is_dt_slots_field;
use ibnet_record::strict::{self, Line, Port, Start, Sweep};
use ibnet_record::types::{Guid, PortNum};

pub(crate) type Key = (Guid, PortNum);

/// The records of one start.
pub(crate) struct Stream {
    pub(crate) start: Start,
    pub(crate) slots: Vec<Slot>,
    pub(crate) events: Vec<strict::Event>,
    pub(crate) histograms: Vec<strict::Histogram>,
}

/// The records of a slot.
pub(crate) struct Slot {
    pub(crate) sweep: Sweep,
    pub(crate) ports: BTreeMap<Key, Port>,
}

impl Slot {
    /// Returns the number of ports with one of these statuses.
    pub(crate) fn count(&self, statuses: &[&str]) -> usize {
        self.ports
            .values()
            .filter(|port| statuses.contains(&port.status.as_str()))
            .count()
    }

    #[track_caller]
    fn check(&self, start: &Start) {
        let Self { sweep, ports } = self;
        let sums = [
            sweep.ok,
            sweep.late,
            sweep.timeout,
            sweep.unreachable,
            sweep.skipped,
            sweep.down,
            sweep.errors,
        ];
        let counts = ["ok", "late", "timeout", "unreachable", "skipped", "down"]
            .map(|status| self.count(&[status]) as u32);
        assert_eq!(sums[..6], counts, "{sweep:?}");
        assert_eq!(
            (sums.iter().sum(), ports.len()),
            (sweep.ports, start.ports),
            "{sweep:?}"
        );
        assert!(sweep.mads_sent >= ports.values().map(|port| port.mads).sum());
        let begin = sweep.slot * start.interval_ns;
        let names = known(None);
        for port in ports.values() {
            assert_eq!(
                (port.slot, &port.sampler, &sweep.sampler),
                (sweep.slot, &start.sampler, &start.sampler)
            );
            assert!(
                (begin..=sweep.ts).contains(&port.ts),
                "{port:?} is not in {sweep:?}"
            );
            assert!(
                port.status != "ok"
                    || port.mads > 0 && port.rtt_ns > 0 && !port.counters.is_empty(),
                "{port:?}"
            );
            assert!(
                !["unreachable", "down"].contains(&port.status.as_str())
                    || port.mads == 0 && port.counters.is_empty(),
                "{port:?}"
            );
            assert!(
                port.rtt_min_ns.is_none_or(|least| least <= port.rtt_ns)
                    && (port.rtt_min_ns.is_some() == (port.rtt_ns > 0)),
                "{port:?}"
            );
            assert_eq!(
                port.role.as_deref().unwrap_or("primary"),
                sweep.role,
                "{port:?}"
            );
            let unknown: Vec<_> = port
                .counters
                .keys()
                .filter(|name| !names.contains(name.as_str()) && !is_dt_slots_field(name))
                .collect();
            assert!(unknown.is_empty(), "{unknown:?} are in no row of the table");
        }
        // If every reply came, the last one gives the start of the slot: a multiple of the
        // interval, exactly. The last reply may be one to a query of a device or of the subnet
        // manager.
        if self.is_answered() {
            let last = ports.values().map(|port| port.ts).max().unwrap();
            assert!(
                last - begin <= sweep.duration_ns,
                "{last} is after {sweep:?}"
            );
            let of_ports: u64 = ports.values().map(|port| port.mads).sum();
            assert!(
                last - begin == sweep.duration_ns || sweep.mads_sent > of_ports,
                "{last} is not the end of {sweep:?}"
            );
        }
    }

    /// Returns whether all ports were answered, in time or late.
    pub(crate) fn is_answered(&self) -> bool {
        self.count(&["ok", "late"]) == self.ports.len()
    }
}

impl Stream {
    /// Reads all records of one start and checks:
    ///
    /// 1. every line is a whole, flat record with its type first, shorter than 4 KiB;
    /// 2. the first record is `start`, and no other is;
    /// 3. a slot consists of its ports, each once, and its `sweep` record, whose sums are right;
    /// 4. slot numbers are consecutive except for missed slots; no port is read before its slot
    ///    begins;
    /// 5. counters have the names of the table; a port without an answer has none.
    #[track_caller]
    pub(crate) fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is torn");
        let mut lines = text.lines().map(record);
        let Some(Line::Start(start)) = lines.next() else {
            panic!("the first line is no start: {text:.200}")
        };
        let mut stream = Self {
            start,
            slots: Vec::new(),
            events: Vec::new(),
            histograms: Vec::new(),
        };
        let mut ports = BTreeMap::new();
        for line in lines {
            match line {
                Line::Start(again) => panic!("another start: {again:?}"),
                Line::Event(event) => stream.events.push(event),
                Line::Histogram(histogram) => stream.histograms.push(histogram),
                read @ (Line::Physical(_) | Line::Routes(_)) => panic!("it is off: {read:?}"),
                Line::Port(port) => {
                    let before = ports.insert((port.guid, port.port), *port);
                    assert_eq!(before, None, "a port twice in a slot");
                }
                Line::Sweep(sweep) => stream.slots.push(Slot {
                    sweep,
                    ports: std::mem::take(&mut ports),
                }),
            }
        }
        assert!(ports.is_empty(), "a slot was not closed");
        stream
            .slots
            .iter()
            .for_each(|slot| slot.check(&stream.start));
        for pair in stream.slots.windows(2) {
            let [before, after] = pair else {
                unreachable!("a window of two")
            };
            assert_eq!(
                after.sweep.slot,
                before.sweep.slot + 1 + after.sweep.slots_missed,
                "slots are consecutive"
            );
        }
        stream
    }

    /// Asserts that every slot has exactly these ports.
    #[track_caller]
    pub(crate) fn assert_covers(&self, ports: &BTreeSet<Key>) {
        assert_eq!(self.start.ports, ports.len());
        for slot in &self.slots {
            assert_eq!(
                slot.ports.keys().copied().collect::<BTreeSet<_>>(),
                *ports,
                "slot {}",
                slot.sweep.slot
            );
        }
    }
}

/// Parses a record after checking the form of its line.
#[track_caller]
pub(crate) fn record(line: &str) -> Line {
    assert!(
        line.len() < 4096 && line.starts_with("{\"type\":\""),
        "{line}"
    );
    let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    assert!(
        value.values().all(|value| !value.is_object()),
        "not flat: {line}"
    );
    strict::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Returns the names of the counters in the table, optionally of one attribute only.
pub(crate) fn known(attribute: Option<&str>) -> BTreeSet<&'static str> {
    let rows = include_str!("../data/pma-fields.tsv")
        .lines()
        .skip(1)
        .map(|row| row.split('\t').collect::<Vec<_>>());
    rows.filter(|row| attribute.is_none_or(|attribute| row[1] == attribute))
        .map(|row| row[6])
        .collect()
}
