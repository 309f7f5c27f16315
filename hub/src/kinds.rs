//! Event kinds: the filter of the web page, and the marks of the timeline.

use std::collections::BTreeMap;

/// Event kinds with the names of their events. `docs/records.md` explains the events of samplers,
/// and `docs/hub.md` those of the hub. An event can have several kinds, of which the first is the
/// main one. Events of the last kind are part of normal operation, and need no attention.
const KINDS: [(&str, &[&str]); 6] = [
    (
        "links",
        &[
            "link_down",
            "link_down_reason",
            "link_up",
            "link_flapped",
            "link_change",
            "peer_changed",
            "congestion_began",
            "congestion_ended",
        ],
    ),
    (
        "devices",
        &[
            "unreachable",
            "reachable",
            "wrong_device",
            "right_device",
            "lid_change",
            "group_unsupported",
            "physical_unsupported",
            "redirected",
            "routes_changed",
            "key_demanded",
            "no_route",
            "trap",
        ],
    ),
    (
        "counters",
        &["reset", "implausible", "clear", "clear_refused"],
    ),
    (
        "samplers",
        &[
            "send_error",
            "umad_lost",
            "umad_back",
            "local_change",
            "window_halved",
            "window_restored",
            "physical_late",
            "physical_on_time",
            "traps",
            "slot_missed",
            "clock_step",
            "reload",
            "socket_restored",
            "lines_lost",
            "sampler_silent",
            "sampler_back",
            "wrong_clock",
            "right_clock",
            "input_lost",
            "input_refused",
            "input_back",
            "jobs_lost",
            "jobs_back",
            "archive_failed",
            "archive_behind",
            "archive_back",
        ],
    ),
    ("sm", &["sm", "sm_change", "local_change", "trap", "traps"]),
    (
        "routine",
        &[
            "group_unsupported",
            "physical_unsupported",
            "redirected",
            "routes_changed",
            "local_change",
            "window_halved",
            "window_restored",
            "traps",
            "reload",
            "socket_restored",
            "sm",
        ],
    ),
];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(kind, _)| *kind)
}

/// Returns all kinds with their events.
pub(crate) fn all() -> BTreeMap<&'static str, &'static [&'static str]> {
    KINDS.into_iter().collect()
}

/// Returns the events of a kind. `None` if there is no such kind.
pub(crate) fn events_of(kind: &str) -> Option<&'static [&'static str]> {
    KINDS
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, events)| *events)
}

/// Returns the main kind of an event, or `None` for an unknown event of a newer sampler.
pub(crate) fn of(event: &str) -> Option<&'static str> {
    KINDS
        .iter()
        .find(|(_, events)| events.contains(&event))
        .map(|(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const RECORDS: &str = include_str!("../../docs/records.md");

    #[test]
    fn every_event_of_the_documentation_has_a_kind() {
        let table = RECORDS
            .lines()
            .skip_while(|line| !line.starts_with("| event | "))
            .take_while(|line| line.starts_with('|'));
        let described: BTreeSet<&str> = table
            .filter_map(|line| {
                line.strip_prefix("| `")?
                    .split_once('`')
                    .map(|(name, _)| name)
            })
            .collect();
        assert!(
            described.contains("peer_changed") && described.len() > 20,
            "{described:?}"
        );
        let without: Vec<&&str> = described.iter().filter(|name| of(name).is_none()).collect();
        assert!(without.is_empty(), "{without:?}");
        let of_hub = [
            "sampler_silent",
            "sampler_back",
            "wrong_clock",
            "right_clock",
            "input_lost",
            "input_refused",
            "input_back",
            "jobs_lost",
            "jobs_back",
            "archive_failed",
            "archive_behind",
            "archive_back",
            "congestion_began",
            "congestion_ended",
        ];
        let unknown: Vec<_> = KINDS
            .iter()
            .flat_map(|(_, events)| *events)
            .filter(|name| !described.contains(**name) && !of_hub.contains(name))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn event_with_several_kinds_has_a_main_one() {
        assert_eq!(
            [of("trap"), of("traps"), of("sm_change"), of("x")],
            [Some("devices"), Some("samplers"), Some("sm"), None]
        );
        assert!(
            events_of("sm").is_some_and(|events| events.contains(&"trap"))
                && events_of("x").is_none()
        );
    }
}
