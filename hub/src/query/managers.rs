//! Derives the subnet managers from the events of the samplers.
//!
//! An event `sm` has the GUID and the LID of a subnet manager, with its state and priority as text.
//! An event `sm_change` reports another master. An event `local_change` of an older sampler has
//! only the LID of the subnet manager that serves the sampler.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, Lid};
use serde::Serialize;

use crate::events::{EventRow, Filter};
use crate::live::topology::Topology;
use crate::state::Hub;

/// Events about subnet managers.
const EVENTS: [&str; 3] = ["sm", "sm_change", "local_change"];

/// A subnet manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct ManagerRow {
    pub(crate) guid: Option<Guid>,
    pub(crate) lid: Option<Lid>,
    /// Node description, if the topology has the device.
    pub(crate) node: Option<String>,
    /// State in lower case, such as `master` or `standby`.
    pub(crate) state: Option<String>,
    pub(crate) priority: Option<u64>,
    /// ActCount, which counts its sweeps and changes of the subnet.
    pub(crate) act_count: Option<u64>,
    /// Whether the subnet manager answers and a port still names it.
    pub(crate) is_present: bool,
    /// Whether it is the master according to the newest event.
    pub(crate) is_master: bool,
    /// Times of the newest event with its state, and of its first event.
    pub(crate) since_ns: u64,
    pub(crate) first_ns: u64,
    /// Sampler of the newest event.
    pub(crate) sampler: String,
}

/// The subnet managers and their events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Managers {
    /// Subnet managers. The master comes first.
    pub(crate) rows: Vec<ManagerRow>,
    /// Number of changes of the master.
    pub(crate) changes: usize,
    /// Events, newest first.
    pub(crate) events: Vec<EventRow>,
}

/// Returns the subnet managers that the events of a time range name.
pub(crate) fn find(hub: &Hub, (from, to): (u64, u64)) -> Managers {
    let state = hub.read();
    let names = EVENTS.iter().map(|name| (*name).to_owned()).collect();
    let events = state.events(&Filter {
        from,
        to,
        names,
        guid: None,
        port: None,
        limit: usize::MAX,
    });
    of(events, &state.topology)
}

/// A subnet manager is identified by its GUID, or by its LID if no event has its GUID.
type Key = (Option<Guid>, Option<Lid>);

fn of(events: Vec<EventRow>, topology: &Topology) -> Managers {
    // Newest first, so older entries do not replace the GUID of a LID.
    let mut guids: BTreeMap<Lid, Guid> = BTreeMap::new();
    for event in &events {
        if let (Some(lid), Some(guid)) = (event.lid, event.guid) {
            guids.entry(lid).or_insert(guid);
        }
    }
    let mut managers: BTreeMap<Key, ManagerRow> = BTreeMap::new();
    let (mut master, mut changes) = (None, 0);
    for event in events.iter().rev() {
        let (guid, lid) = match &*event.event {
            "local_change" => {
                let lid = number_after(&event.detail, "subnet manager at LID")
                    .and_then(|lid| u16::try_from(lid).ok())
                    .map(Lid);
                (lid.and_then(|lid| guids.get(&lid).copied()), lid)
            }
            _ => (event.guid, event.lid),
        };
        if guid.is_none() && lid.is_none() {
            continue;
        }
        let key = if guid.is_some() {
            (guid, None)
        } else {
            (None, lid)
        };
        let row = managers.entry(key).or_insert_with(|| ManagerRow {
            guid,
            lid,
            node: None,
            state: None,
            priority: None,
            act_count: None,
            is_present: true,
            is_master: false,
            since_ns: event.ts,
            first_ns: event.ts,
            sampler: String::new(),
        });
        let before = row.clone();
        (row.lid, row.sampler) = (lid.or(row.lid), event.sampler.clone());
        row.is_present = !["does not answer", "no port names"]
            .iter()
            .any(|text| event.detail.contains(text));
        if event.event == "sm" {
            row.state = state_in(&event.detail).or_else(|| row.state.take());
            row.priority = number_after(&event.detail, "priority").or(row.priority);
            row.act_count = number_after(&event.detail, "activity").or(row.act_count);
        } else {
            row.state = Some("master".to_owned());
        }
        if (&before.state, before.is_present) != (&row.state, row.is_present) {
            row.since_ns = event.ts;
        }
        let is_master = row.is_present && row.state.as_deref() == Some("master");
        if is_master && master != Some(key) {
            // Several samplers can report the same change, which counts once.
            changes += usize::from(master.is_some());
            master = Some(key);
        }
    }
    let mut rows: Vec<ManagerRow> = managers
        .into_iter()
        .map(|(key, row)| {
            let device = topology.devices.iter().find(|device| {
                row.guid
                    .map_or(device.lid == row.lid, |guid| device.guid == guid)
            });
            ManagerRow {
                node: device.map(|device| device.node.clone()),
                is_master: master == Some(key) && row.is_present,
                ..row
            }
        })
        .collect();
    rows.sort_by_key(|row| {
        (
            !row.is_master,
            !row.is_present,
            std::cmp::Reverse(row.priority),
            row.lid,
        )
    });
    Managers {
        rows,
        changes,
        events,
    }
}

/// Returns the first word of the details if it is a state (IBA specification, SMInfo.SMState).
fn state_in(detail: &str) -> Option<String> {
    let word = detail.split([',', ' ', ';']).next()?.to_lowercase();
    ["master", "standby", "discovering", "not_active", "inactive"]
        .contains(&&*word)
        .then_some(word)
}

/// Returns the number that follows some words.
fn number_after(detail: &str, words: &str) -> Option<u64> {
    let (_, rest) = detail.split_once(words)?;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ts: u64, name: &str, guid: Option<u64>, lid: Option<u16>, detail: &str) -> EventRow {
        let row = EventRow::of_hub(ts, name, detail.to_owned());
        EventRow {
            guid: guid.map(Guid),
            lid: lid.map(Lid),
            sampler: "s1".to_owned(),
            ..row
        }
    }

    #[test]
    fn failover_makes_another_subnet_manager_the_master() {
        let mut events = vec![
            event(1, "sm", Some(7), Some(1), "master, priority 14"),
            event(2, "sm", Some(8), Some(2), "standby, priority 5"),
            event(
                10,
                "sm",
                Some(7),
                Some(1),
                "master, priority 14; it does not answer any more",
            ),
            event(
                12,
                "sm_change",
                Some(8),
                Some(2),
                "0x8 at LID 2 is the master in place of 0x7 at LID 1",
            ),
            event(13, "sm", Some(8), Some(2), "master, priority 5"),
        ];
        events.reverse();
        let found = of(events, &Topology::default());
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| {
                (
                    row.guid,
                    row.is_master,
                    row.is_present,
                    row.priority,
                    row.since_ns,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (Some(Guid(8)), true, true, Some(5), 12),
                (Some(Guid(7)), false, false, Some(14), 10)
            ]
        );
        assert_eq!((found.changes, found.events.len()), (1, 5));
    }

    #[test]
    fn one_failover_that_several_samplers_report_is_one_change() {
        let detail =
            "this host is at LID 5, the subnet manager at LID 2: every device is asked who it is";
        let mut events = vec![
            event(1, "sm", Some(7), Some(1), "master, priority 14"),
            event(2, "sm", Some(8), Some(2), "standby, priority 5"),
            event(10, "local_change", None, None, detail),
            event(
                11,
                "sm",
                Some(7),
                Some(1),
                "master, priority 14; it does not answer any more",
            ),
            event(
                12,
                "sm_change",
                Some(8),
                Some(2),
                "0x8 at LID 2 is the master in place of 0x7 at LID 1",
            ),
            event(13, "local_change", None, None, detail),
            event(
                14,
                "sm_change",
                Some(8),
                Some(2),
                "0x8 at LID 2 is the master in place of 0x7 at LID 1",
            ),
            event(15, "sm", Some(8), Some(2), "master, priority 5"),
        ];
        events.reverse();
        let found = of(events, &Topology::default());
        let rows: Vec<_> = found
            .rows
            .iter()
            .map(|row| (row.guid, row.is_master, row.is_present, row.since_ns))
            .collect();
        assert_eq!(
            rows,
            [
                (Some(Guid(8)), true, true, 10),
                (Some(Guid(7)), false, false, 11)
            ]
        );
        assert_eq!(found.changes, 1);
    }

    #[test]
    fn older_samplers_report_the_lid_only() {
        let detail =
            "this host is at LID 9, the subnet manager at LID 3: every device is asked who it is";
        let found = of(
            vec![
                event(1, "local_change", None, None, detail),
                event(2, "local_change", None, None, "unknown"),
            ],
            &Topology::default(),
        );
        assert_eq!(
            found
                .rows
                .iter()
                .map(|row| (row.lid, row.is_master))
                .collect::<Vec<_>>(),
            [(Some(Lid(3)), true)]
        );
    }
}
