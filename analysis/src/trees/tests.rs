use super::*;
use crate::fixtures::{fold, port};
use crate::ports::Ports;

const LEAF: u64 = 1;
const CORE: u64 = 2;
const SERVER: u64 = 0x200;

/// Returns records of both ends of a link in a slot, with utilization and blocked share of each
/// direction.
fn link(slot: u64, one: (u64, u8, &str), other: (u64, u8, &str), out: (f64, f64), back: (f64, f64)) -> [String; 2] {
    let rest = |load: (f64, f64)| [("xmit_utilization", load.0.into()), ("xmit_blocked", load.1.into())];
    [port(slot, (one.0, one.1), one.2, other, &rest(out)), port(slot, (other.0, other.1), other.2, (one.0, one.1, one.2), &rest(back))]
}

/// Returns the records of a small fabric. A leaf switch has two hosts. A core switch is linked
/// to the leaf switch, a server and a third host. In slots 1 and 2 the server gets more traffic
/// than its link carries.
fn incast() -> Vec<String> {
    let idle = (0.0, 0.0);
    let mut lines = Vec::new();
    for slot in 1..=4 {
        let when = |load: (f64, f64)| if slot <= 2 { load } else { (0.3, 0.0) };
        for host in 1..=2 {
            lines.extend(link(slot, (0x100 + host, 1, "n mlx5_0"), (LEAF, host as u8, "leaf"), when((0.25, 0.75)), idle));
        }
        lines.extend(link(slot, (LEAF, 9, "leaf"), (CORE, 1, "core"), when((0.5, 0.5)), idle));
        lines.extend(link(slot, (0x103, 1, "far mlx5_0"), (CORE, 3, "core"), (0.97, 0.0), idle));
        lines.extend(link(slot, (CORE, 2, "core"), (SERVER, 1, "oss1\u{1b} mlx5_0"), when((0.99, 0.0)), idle));
    }
    lines
}

fn trees(lines: &[String]) -> Trees {
    Trees::find(&fold(Ports::with_bins(64), lines).finish(), Limits::default())
}

fn key(guid: u64, port: u8) -> PortKey {
    (Guid(guid), PortNum(port))
}

#[test]
fn full_port_is_the_root_of_the_ports_that_wait_for_it() {
    let found = trees(&incast());
    assert_eq!(
        found.trees.iter().map(|tree| (tree.root, tree.cause, tree.seconds)).collect::<Vec<_>>(),
        [(key(CORE, 2), RootCause::Full, 2.0)]
    );
    let branches: Vec<_> =
        found.trees[0].branches.iter().map(|(key, branch)| (*key, branch.next, branch.depth, branch.blocked_seconds)).collect();
    let up = key(LEAF, 9);
    assert_eq!(branches, [(up, key(CORE, 2), 1, 1.0), (key(0x101, 1), up, 2, 1.5), (key(0x102, 1), up, 2, 1.5)]);
    assert_eq!((found.trees[0].held_up_seconds, found.seconds), (4.0, 2.0));
    assert!(found.circles.is_empty());
}

#[test]
fn trees_are_selected_by_their_hosts() {
    for (hosts, count) in [("oss1", 0), ("n", 1), ("far", 0), ("core", 1)] {
        let mut found = trees(&incast());
        found.retain_hosts(&Hosts::parse(hosts).expect("a host list"));
        assert_eq!(found.trees.len(), count, "{hosts}");
    }
}

#[test]
fn slow_host_is_a_root() {
    let idle = (0.0, 0.0);
    let mut lines = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
    lines.extend(link(1, (LEAF, 2, "leaf"), (SERVER, 1, "slow"), (0.2, 0.7), idle));
    let found = trees(&lines);
    assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.cause)).collect::<Vec<_>>(), [(key(LEAF, 2), RootCause::SlowHost)]);
    assert_eq!(found.trees[0].branches.keys().collect::<Vec<_>>(), [&key(0x101, 1)]);
}

#[test]
fn unknown_roots_and_circles_are_reported() {
    let idle = (0.0, 0.0);
    let found = trees(&link(1, (LEAF, 1, "leaf"), (CORE, 1, "core"), (0.2, 0.6), idle));
    assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.cause)).collect::<Vec<_>>(), [(key(LEAF, 1), RootCause::Unclear)]);
    let ring = [(1, 2), (2, 3), (3, 1)].map(|(from, to)| link(1, (from, 1, "s"), (to, 2, "s"), (0.2, 0.6), idle)).concat();
    let found = trees(&ring);
    assert_eq!((found.trees.len(), found.circles.len()), (0, 3));
}

#[test]
fn without_congestion_there_is_no_tree() {
    let busy = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.99, 0.0), (0.99, 0.0));
    let found = trees(&busy);
    assert!(found.trees.is_empty() && found.circles.is_empty());
}

#[test]
fn row_has_the_root_and_its_victims() {
    let rows = trees(&incast()).rows();
    let json = serde_json::to_value(&rows[0]).expect("a row");
    assert_eq!((&json["root"]["node"], &json["why"], &json["seconds"]), (&"core".into(), &"full".into(), &2.0.into()));
    assert_eq!((rows[0].host_ports, rows[0].switch_ports, rows[0].xmit_utilization, rows[0].blocked), (2, 1, 0.99, 0.0));
    let victims: Vec<_> = rows[0].victims.iter().map(|victim| (victim.port.to_string(), victim.waits_for.to_string())).collect();
    assert_eq!(victims[0], ("leaf port 9".to_owned(), "core port 2".to_owned()));
    assert_eq!(json["victims"][0]["blocked_seconds"], 1.0);
}
