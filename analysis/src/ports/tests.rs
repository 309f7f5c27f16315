//! Lines made by hand, for all that is made of [`Ports`].

use super::*;
use crate::input::Fold;
use crate::record::Head;

/// A port's line; `rest` are more fields, or others of the same names.
pub(crate) fn port(
    slot: u64,
    (guid, number): (u64, u8),
    node: &str,
    peer: (u64, u8, &str),
    rest: &[(&str, serde_json::Value)],
) -> String {
    let kind = if guid < 0x100 { "switch" } else { "hca" };
    let mut line = serde_json::json!({
        "type": "port", "ts": slot * 1_000_000_000 + 500, "slot": slot, "sampler": "s1", "guid": Guid(guid).to_string(), "port": number, "lid": 1,
        "node": node, "kind": kind, "hops": 1, "peer_guid": Guid(peer.0).to_string(), "peer_port": peer.1, "peer": peer.2, "link": "4xEDR",
        "link_source": "live", "status": "ok", "rtt_ns": 0, "mads": 1, "identity": "ok", "dt_ns": 1_000_000_000, "xmit_gbps": 0.0, "rcv_gbps": 0.0,
        "xmit_utilization": 0.0, "rcv_utilization": 0.0, "xmit_blocked": 0.0,
    });
    rest.iter().for_each(|(name, value)| line[*name] = value.clone());
    line.to_string()
}

/// An event's line.
pub(crate) fn event(slot: u64, (guid, number): (u64, u8), event: &str, detail: &str) -> String {
    let line = serde_json::json!({
        "type": "event", "ts": slot * 1_000_000_000 + 400, "slot": slot, "sampler": "s1", "ca": "sim", "ca_port": 1, "event": event,
        "guid": Guid(guid).to_string(), "port": number, "lid": 1, "detail": detail,
    });
    line.to_string()
}

/// What is made of lines.
pub(crate) fn fold<F: Fold>(mut fold: F, lines: &[String]) -> F {
    for line in lines {
        let kind = Head::of(line.as_bytes()).expect("a record").kind.expect("a known one");
        fold.take(&Record::parse(line.as_bytes(), kind).expect("a record"));
    }
    fold
}

fn lines() -> Vec<String> {
    let moved = |slot: u64, (gbps, dt): (f64, u64), errors: u64| {
        let rest = [
            ("xmit_gbps", gbps.into()),
            ("xmit_utilization", (gbps / 100.0).into()),
            ("dt_ns", dt.into()),
            ("port_rcv_errors", errors.into()),
        ];
        port(slot, (1, 2), "leaf", (0x101, 1, "n1 mlx5_0"), &rest)
    };
    vec![
        moved(1, (10.0, 1_000_000_000), 5),
        event(2, (1, 2), "link_change", "from 4xHDR to 4xEDR"),
        moved(2, (40.0, 3_000_000_000), 9),
        event(3, (1, 2), "link_down", "down"),
        event(3, (7, 7), "link_down", "down"),
        moved(4, (10.0, 1_000_000_000), 2),
    ]
}

#[test]
fn means_are_over_time_and_what_was_before_is_remembered() {
    let seen = fold(Ports::with_bins(4), &lines()).seen();
    assert_eq!(seen.keys().collect::<Vec<_>>(), [&(Guid(1), PortNum(2))], "what only an event tells of is left out");
    let seen = &seen[&(Guid(1), PortNum(2))];
    // (10 x 1 s + 40 x 3 s + 10 x 1 s) / 5 s
    assert_eq!((seen.all.xmit.mean(), seen.all.xmit.peak(), seen.all.xmit_used.mean()), (Some(28.0), Some(40.0), Some(0.28)));
    assert_eq!((&*seen.node, seen.peer, &*seen.peer_name), ("leaf", Some((Guid(0x101), PortNum(1))), "n1 mlx5_0"));
    assert_eq!((&*seen.link, &*seen.fastest, seen.gbps()), ("4xEDR", "4xHDR", Some(100.0)));
    assert_eq!((seen.changes.downs, seen.changes.links, seen.changes.is_down()), (1, 1, true));
    // From 5 to 9, cleared, and up to 2.
    assert_eq!((seen.error_sum(), seen.errors[5].map(|moved| moved.at_least)), (6, Some(true)));
    assert_eq!((seen.records, seen.seconds()), ((3, 3), 3.0));
}

#[test]
fn parts_merge_to_the_whole() {
    let lines = lines();
    let whole = fold(Ports::with_bins(4), &lines).seen();
    for cut in 0..=lines.len() {
        let mut first = fold(Ports::with_bins(4), &lines[..cut]);
        first.merge(fold(Ports::with_bins(4), &lines[cut..]));
        assert_eq!(first.seen(), whole, "cut at {cut}");
    }
}

#[test]
fn two_samplers_of_one_port_are_kept_apart() {
    let of = |sampler: &str, slot, errors: u64| {
        let rest = [("sampler", sampler.into()), ("port_rcv_errors", errors.into())];
        port(slot, (1, 2), "leaf", (0x101, 1, "n1"), &rest)
    };
    let lines = [of("a", 1, 10), of("a", 2, 12), of("a", 3, 14), of("b", 1, 11), of("b", 2, 13)];
    let seen = fold(Ports::with_bins(4), &lines).seen();
    let seen = &seen[&(Guid(1), PortNum(2))];
    assert_eq!((&*seen.sampler, seen.error_sum(), seen.errors[5].map(|moved| moved.at_least)), ("a", 4, Some(false)));
}

#[test]
fn details_are_not_counted_twice() {
    for (place, name) in ERRORS.iter().enumerate() {
        let is_detail = DETAILS.iter().any(|range| range.contains(&place));
        let of_a_group = [
            "port_local",
            "port_malformed",
            "port_buffer",
            "port_dlid",
            "port_vl",
            "port_looping",
            "port_inactive",
            "port_neigh",
            "port_sw",
        ];
        assert_eq!(is_detail, of_a_group.iter().any(|start| name.starts_with(start)), "{name}");
    }
}
