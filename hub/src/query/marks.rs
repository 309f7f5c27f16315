//! The marks of the timeline, which show what happened and when.

use ibnet_record::types::{Guid, PortNum};
use serde::Serialize;

use crate::events::EventRow;
use crate::kinds;

/// Max number of marks. Severe marks are kept first, then the newest ones.
const MAX: usize = 500;

/// Events without a mark, because they are frequent and show no change of the fabric.
const HIDDEN: [&str; 5] = [
    "group_unsupported",
    "physical_unsupported",
    "window_halved",
    "window_restored",
    "implausible",
];

/// A mark of the timeline.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Mark {
    /// Time in nanoseconds since 1970.
    pub(crate) ts: u64,
    /// `link`, `device`, `sampler` or `event`.
    pub(crate) kind: &'static str,
    /// Name of the event and details.
    pub(crate) text: String,
    pub(crate) guid: Option<Guid>,
    pub(crate) port: Option<PortNum>,
    /// Whether the event shows a fault.
    pub(crate) severe: bool,
}

/// Returns the marks of events, oldest first.
pub(crate) fn of(events: Vec<EventRow>) -> Vec<Mark> {
    let mut marks: Vec<Mark> = events
        .into_iter()
        .filter(|event| !HIDDEN.contains(&event.event.as_str()))
        .map(Mark::of)
        .collect();
    marks.sort_by_key(|mark| (std::cmp::Reverse(mark.severe), std::cmp::Reverse(mark.ts)));
    marks.truncate(MAX);
    marks.sort_by_key(|mark| mark.ts);
    marks
}

impl Mark {
    fn of(event: EventRow) -> Self {
        let kind = match kinds::of(&event.event) {
            Some("links") => "link",
            Some("devices" | "sm") => "device",
            Some("samplers") => "sampler",
            _ => "event",
        };
        let node = event
            .node
            .as_deref()
            .map(|node| format!(" {node}"))
            .unwrap_or_default();
        let port = event
            .port
            .map(|port| format!(" port {port}"))
            .unwrap_or_default();
        let detail = if event.detail.is_empty() {
            String::new()
        } else {
            format!(": {}", event.detail)
        };
        let text = format!("{}{node}{port}{detail}", event.event);
        Self {
            ts: event.ts,
            kind,
            text,
            guid: event.guid,
            port: event.port,
            severe: event.severe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severe_marks_are_kept() {
        let mut events: Vec<_> = (0..MAX as u64 + 100)
            .map(|ts| EventRow::of_hub(ts, "reset", String::new()))
            .collect();
        events[0] = EventRow {
            node: Some("leaf".to_owned()),
            port: Some(PortNum(7)),
            ..EventRow::of_hub(0, "link_down", "x".to_owned())
        };
        events[1].event = "window_halved".to_owned();
        let marks = of(events);
        assert_eq!(
            (
                marks.len(),
                marks[0].kind,
                marks[0].text.as_str(),
                marks[1].ts
            ),
            (MAX, "link", "link_down leaf port 7: x", 101)
        );
    }

    #[test]
    fn kind_of_a_mark_follows_the_kind_of_its_event() {
        let names = [
            "peer_changed",
            "trap",
            "traps",
            "sm",
            "sm_change",
            "reset",
            "new_event",
        ];
        let events = (0..)
            .zip(names)
            .map(|(ts, name)| EventRow::of_hub(ts, name, String::new()))
            .collect();
        let kinds: Vec<_> = of(events).iter().map(|mark| mark.kind).collect();
        assert_eq!(
            kinds,
            [
                "link", "device", "sampler", "device", "device", "event", "event"
            ]
        );
    }
}
