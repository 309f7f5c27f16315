//! Keeps the events of the samplers and of the hub.

use std::collections::VecDeque;

use ibnet_analysis::record::{Event, Record};
use ibnet_record::types::{Guid, Lid, PortNum};
use serde::Serialize;

/// Largest number of events.
const MAX: usize = 100_000;

/// Largest size of all events in bytes.
const MAX_OCTETS: usize = 64 << 20;

/// Number of newest events among which a copy is searched, because two inputs can carry the
/// same event.
const COPIES: usize = 256;

/// An event in an answer of the API.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct EventRow {
    /// Time in nanoseconds since 1970.
    pub(crate) ts: u64,
    /// Slot of the sampler. 0 for an event of the hub.
    pub(crate) slot: u64,
    /// Name of the sampler, or `hub`.
    pub(crate) sampler: String,
    /// Role of the sampler.
    pub(crate) role: String,
    /// Name of the event.
    pub(crate) event: String,
    /// Port GUID of the device. `None` for an event of the sampler.
    pub(crate) guid: Option<Guid>,
    /// Port number. `None` except for an event of a port.
    pub(crate) port: Option<PortNum>,
    /// LID of the device. `None` if the event has none.
    pub(crate) lid: Option<Lid>,
    /// Node description, if the topology has the device, or the sampler that an event of the hub
    /// is about.
    pub(crate) node: Option<String>,
    /// Details as text.
    pub(crate) detail: String,
    /// Name of the region of congestion that began or ended. `None` for any other event.
    pub(crate) region: Option<String>,
    /// Whether the event shows a fault.
    pub(crate) severe: bool,
}

/// Events that show a fault.
const SEVERE: [&str; 17] = [
    "archive_behind",
    "archive_failed",
    "input_lost",
    "input_refused",
    "jobs_lost",
    "key_demanded",
    "lines_lost",
    "link_down",
    "link_flapped",
    "no_route",
    "sampler_silent",
    "send_error",
    "sm_change",
    "umad_lost",
    "unreachable",
    "wrong_clock",
    "wrong_device",
];

/// All events in the order of arrival, each with the time from which its age counts, and their
/// total size in bytes.
#[derive(Debug, Default)]
pub(crate) struct Events(VecDeque<(u64, EventRow)>, usize);

/// Events that are selected.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Names of events. All events if it is empty.
    pub(crate) names: Vec<String>,
    pub(crate) guid: Option<Guid>,
    pub(crate) port: Option<PortNum>,
    pub(crate) limit: usize,
}

impl Filter {
    /// Returns the filter that selects all events.
    pub(crate) const fn all() -> Self {
        Self {
            from: 0,
            to: u64::MAX,
            names: Vec::new(),
            guid: None,
            port: None,
            limit: usize::MAX,
        }
    }
}

impl EventRow {
    pub(crate) fn of(event: &Event<'_>) -> Self {
        Self {
            ts: event.ts,
            slot: event.slot,
            sampler: event.sampler.to_string(),
            role: event.role.to_string(),
            event: event.event.to_string(),
            guid: event.guid,
            port: event.port,
            lid: event.lid,
            node: None,
            detail: event.detail.to_string(),
            region: None,
            severe: SEVERE.contains(&&*event.event),
        }
    }

    pub(crate) fn of_hub(ts: u64, event: &str, detail: String) -> Self {
        Self {
            ts,
            slot: 0,
            sampler: "hub".to_owned(),
            role: String::new(),
            event: event.to_owned(),
            guid: None,
            port: None,
            lid: None,
            node: None,
            detail,
            region: None,
            severe: SEVERE.contains(&event),
        }
    }

    /// Returns an event of the hub with the sampler that it is about.
    pub(crate) fn about(self, sampler: &str) -> Self {
        Self {
            node: Some(sampler.to_owned()),
            ..self
        }
    }

    fn octets(&self) -> usize {
        size_of::<(u64, Self)>()
            + self.sampler.len()
            + self.role.len()
            + self.event.len()
            + self.node.as_ref().map_or(0, String::len)
            + self.detail.len()
            + self.region.as_ref().map_or(0, String::len)
    }

    /// Returns the record of the event, for a fold.
    fn record(&self) -> Record<'_> {
        Record::Event(Event {
            ts: self.ts,
            slot: self.slot,
            sampler: self.sampler.as_str().into(),
            role: self.role.as_str().into(),
            event: self.event.as_str().into(),
            guid: self.guid,
            port: self.port,
            lid: self.lid,
            detail: self.detail.as_str().into(),
            ..Event::default()
        })
    }
}

impl Events {
    /// Adds an event, unless it is a copy.
    pub(crate) fn add(&mut self, row: EventRow) {
        self.add_at(row.ts, row);
    }

    /// Adds an event of a sampler with a wrong clock. Its age counts from `now`.
    pub(crate) fn add_at(&mut self, now: u64, row: EventRow) {
        if self
            .0
            .iter()
            .rev()
            .take(COPIES)
            .any(|(_, known)| *known == row)
        {
            return;
        }
        self.1 += row.octets();
        while self.0.len() >= MAX || self.1 > MAX_OCTETS {
            let Some((_, oldest)) = self.0.pop_front() else {
                break;
            };
            self.1 -= oldest.octets();
        }
        self.0.push_back((now, row));
    }

    pub(crate) fn drop_before(&mut self, before: u64) {
        let Self(rows, octets) = self;
        rows.retain(|(ts, row)| {
            let is_kept = *ts >= before;
            *octets -= if is_kept { 0 } else { row.octets() };
            is_kept
        });
    }

    /// Returns the selected events, newest first.
    pub(crate) fn select(&self, filter: &Filter) -> Vec<EventRow> {
        let is_selected = |row: &&EventRow| {
            (filter.from..=filter.to).contains(&row.ts)
                && (filter.names.is_empty() || filter.names.contains(&row.event))
                && filter.guid.is_none_or(|guid| row.guid == Some(guid))
                && (filter.port.is_none() || row.port.is_none() || row.port == filter.port)
        };
        let mut rows: Vec<&EventRow> = self
            .0
            .iter()
            .map(|(_, row)| row)
            .filter(is_selected)
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.ts));
        rows.truncate(filter.limit);
        rows.into_iter().cloned().collect()
    }
}

/// Returns whether a record is an event of a whole device.
pub(crate) fn is_of_device(record: &Record<'_>) -> bool {
    matches!(record, Record::Event(event) if event.guid.is_some() && event.port.is_none())
}

/// Returns the records of events, for a fold.
pub(crate) fn records(rows: &[EventRow]) -> impl Iterator<Item = Record<'_>> {
    rows.iter()
        .filter(|row| row.guid.is_some())
        .map(EventRow::record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ts: u64, event: &str, guid: u64) -> EventRow {
        EventRow {
            guid: Some(Guid(guid)),
            ..EventRow::of_hub(ts, event, String::new())
        }
    }

    #[test]
    fn copies_are_dropped_and_the_newest_come_first() {
        let mut events = Events::default();
        for (ts, event) in [
            (1, "link_down"),
            (3, "link_up"),
            (1, "link_down"),
            (2, "reset"),
        ] {
            events.add(row(ts, event, 7));
        }
        let filter = Filter {
            from: 0,
            to: u64::MAX,
            names: Vec::new(),
            guid: None,
            port: None,
            limit: 2,
        };
        let names = |filter: &Filter| {
            events
                .select(filter)
                .iter()
                .map(|row| row.event.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&filter), ["link_up", "reset"]);
        assert_eq!(
            names(&Filter {
                names: vec!["link_down".to_owned()],
                ..filter.clone()
            }),
            ["link_down"]
        );
        assert!(
            names(&Filter {
                guid: Some(Guid(8)),
                ..filter.clone()
            })
            .is_empty()
        );
        assert!(names(&Filter { from: 4, ..filter }).is_empty());
        assert!(
            events.select(&Filter {
                from: 0,
                to: 1,
                names: Vec::new(),
                guid: None,
                port: None,
                limit: 9
            })[0]
                .severe
        );
    }
}
