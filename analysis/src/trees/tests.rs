use ibnet_record::types::{Guid, PortNum};

use super::*;
use crate::fixtures::{CORE, LEAF, SERVER, fold, incast_lines, link, port};
use crate::job::run::JobRun;
use crate::ports::Ports;
use crate::routes::Routes;

fn trees(lines: &[String]) -> Trees {
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), lines);
    Trees::find(&ports.finish(), &devices, Limits::default())
}

fn key(guid: u64, port: u8) -> PortKey {
    (Guid(guid), PortNum(port))
}

#[test]
fn full_port_is_the_root_of_the_ports_that_wait_for_it() {
    let found = trees(&incast_lines());
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause, tree.seconds))
            .collect::<Vec<_>>(),
        [(key(CORE, 2), RootCause::Full, 2.0)]
    );
    let branches: Vec<_> = found.trees[0]
        .branches
        .iter()
        .map(|(key, branch)| (*key, branch.next, branch.depth, branch.blocked_seconds))
        .collect();
    let up = key(LEAF, 9);
    assert_eq!(
        branches,
        [
            (up, key(CORE, 2), 1, 1.0),
            (key(0x101, 1), up, 2, 1.5),
            (key(0x102, 1), up, 2, 1.5)
        ]
    );
    assert_eq!((found.trees[0].held_up_seconds, found.seconds), (4.0, 2.0));
    assert!(found.circles.is_empty());
}

/// Returns the records of an incast. Each interval has two shares of its time: in the first one the
/// senders are blocked, in the second one the port to the server is full.
fn partial_incast(shares: &[(f64, f64)]) -> Vec<String> {
    let idle = (0.0, 0.0);
    let mut lines = Vec::new();
    for (slot, (blocked, full)) in (1..).zip(shares) {
        for host in 1..=2 {
            lines.extend(link(
                slot,
                (0x100 + host, 1, "n mlx5_0"),
                (LEAF, host as u8, "leaf"),
                (0.2, 0.75 * blocked),
                idle,
            ));
        }
        lines.extend(link(
            slot,
            (LEAF, 9, "leaf"),
            (CORE, 1, "core"),
            (0.4, 0.5 * blocked),
            idle,
        ));
        lines.extend(link(
            slot,
            (CORE, 2, "core"),
            (SERVER, 1, "oss1 mlx5_0"),
            (0.2 + 0.8 * full, 0.0),
            idle,
        ));
    }
    lines
}

#[test]
fn congestion_that_begins_within_an_interval_has_the_root_of_the_next_one() {
    let found = trees(&partial_incast(
        &[0.0, 0.6, 1.0, 1.0, 0.3, 0.0].map(|share| (share, share)),
    ));
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause, tree.seconds))
            .collect::<Vec<_>>(),
        [(key(CORE, 2), RootCause::Full, 4.0)]
    );
    let host = found.trees[0].branches[&key(0x101, 1)];
    assert!((host.blocked_seconds - 0.75 * 2.9).abs() < 1e-9, "{host:?}");
    assert_eq!(
        (
            found.trees[0].used_peak,
            found.rows()[0].xmit_utilization_peak
        ),
        (1.0, 1.0)
    );
    assert!(found.circles.is_empty());
}

/// In the second interval, a host waits whose uplink does not wait. Its root in the first interval
/// is then a root already.
#[test]
fn root_of_the_interval_before_counts_once() {
    const LEAF2: u64 = 0x50;
    let idle = (0.0, 0.0);
    let mut lines = Vec::new();
    for slot in 1..=2 {
        let second = slot == 2;
        lines.extend(link(
            slot,
            (0x101, 1, "n1"),
            (LEAF, 1, "leaf"),
            (0.2, 0.5),
            idle,
        ));
        lines.extend(link(
            slot,
            (0x301, 1, "n2"),
            (LEAF2, 1, "leaf2"),
            (0.2, 0.5),
            idle,
        ));
        lines.extend(link(
            slot,
            (LEAF, 9, "leaf"),
            (CORE, 1, "core"),
            (0.2, 0.5),
            idle,
        ));
        lines.extend(link(
            slot,
            (LEAF2, 9, "leaf2"),
            (CORE, 4, "core"),
            (0.2, if second { 0.0 } else { 0.5 }),
            idle,
        ));
        lines.extend(link(
            slot,
            (CORE, 2, "core"),
            (SERVER, 1, "oss1"),
            (0.99, 0.0),
            idle,
        ));
        lines.extend(link(
            slot,
            (CORE, 3, "core"),
            (SERVER + 1, 1, "oss2"),
            (if second { 0.99 } else { 0.2 }, 0.0),
            idle,
        ));
    }
    let found = trees(&lines);
    let tree = |root| {
        found
            .trees
            .iter()
            .find(|tree| tree.root == root)
            .expect("a tree")
    };
    // In the second interval, a host and an uplink wait for both roots.
    assert_eq!(
        (
            tree(key(CORE, 2)).held_up_seconds,
            tree(key(CORE, 3)).held_up_seconds
        ),
        (2.0 + 0.5, 0.5)
    );
}

#[test]
fn burst_without_a_full_interval_has_a_root_of_low_confidence() {
    let found = trees(&partial_incast(
        &[0.0, 0.6, 0.3, 0.0].map(|share| (share, share)),
    ));
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause, tree.confidence()))
            .collect::<Vec<_>>(),
        [(key(CORE, 2), RootCause::Full, Some(Confidence::Low))]
    );
}

#[test]
fn port_that_was_used_for_less_time_than_others_waited_is_no_root() {
    let found = trees(&partial_incast(&[(0.0, 0.0), (0.6, 0.0), (1.0, 1.0)]));
    let roots: Vec<_> = found
        .trees
        .iter()
        .map(|tree| (tree.root, tree.cause, tree.seconds))
        .collect();
    assert_eq!(
        roots,
        [
            (key(CORE, 2), RootCause::Full, 1.0),
            (key(LEAF, 9), RootCause::Unclear, 1.0)
        ]
    );
}

/// A leaf switch sends to a core switch that stops answering. From then on, its records have no
/// rates, and the port of the leaf switch that leads to it waits.
#[test]
fn device_that_does_not_answer_is_the_cause() {
    let dead = |slot: u64, status: &str| {
        let rest = [
            ("status", status.into()),
            ("dt_ns", serde_json::Value::Null),
            ("xmit_utilization", serde_json::Value::Null),
            ("xmit_blocked", serde_json::Value::Null),
        ];
        port(slot, (CORE, 1), "core", (LEAF, 9, "leaf"), &rest)
    };
    let mut lines = link(
        1,
        (LEAF, 9, "leaf"),
        (CORE, 1, "core"),
        (0.3, 0.0),
        (0.0, 0.0),
    )
    .to_vec();
    lines.extend(link(
        1,
        (0x101, 1, "n1"),
        (LEAF, 1, "leaf"),
        (0.3, 0.0),
        (0.0, 0.0),
    ));
    for slot in 2..=4 {
        let [leaf, _] = link(
            slot,
            (LEAF, 9, "leaf"),
            (CORE, 1, "core"),
            (0.0, 1.0),
            (0.0, 0.0),
        );
        lines.extend([
            leaf,
            dead(slot, if slot == 2 { "timeout" } else { "unreachable" }),
        ]);
        lines.extend(link(
            slot,
            (0x101, 1, "n1"),
            (LEAF, 1, "leaf"),
            (0.0, 0.9),
            (0.0, 0.0),
        ));
    }
    let found = trees(&lines);
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause))
            .collect::<Vec<_>>(),
        [(key(LEAF, 9), RootCause::Unreachable)]
    );
    assert_eq!(
        (found.trees[0].seconds, found.trees[0].branches.len()),
        (3.0, 1)
    );
    let row = serde_json::to_value(&found.rows()[0]).expect("a row");
    assert_eq!(
        (&row["why"], &row["to"]["node"]),
        (&"unreachable".into(), &"core".into())
    );
}

#[test]
fn root_without_records_is_found_by_what_its_peer_received() {
    let core = format!("\"guid\":\"{}\"", Guid(CORE));
    let lines: Vec<String> = incast_lines()
        .into_iter()
        .filter(|line| !line.contains(&core))
        .collect();
    let found = trees(&lines);
    let roots: Vec<_> = found
        .rows()
        .iter()
        .map(|row| (row.root.to_string(), row.why, row.host_ports))
        .collect();
    assert_eq!(roots, [("core port 2".to_owned(), RootCause::Full, 2)]);
    assert_eq!(
        found.peer(key(CORE, 2)).map(|peer| peer.guid),
        Some(Guid(SERVER))
    );
}

/// The core switch forwards packets, but does not answer. What the server receives shows the root,
/// also in the intervals in which the congestion begins and ends.
#[test]
fn root_of_a_silent_device_comes_before_the_cause_unreachable() {
    let core = format!("\"guid\":\"{}\"", Guid(CORE));
    let mut lines = partial_incast(&[0.0, 0.6, 1.0, 0.4, 0.0].map(|share| (share, share)));
    lines.retain(|line| !line.contains(&core));
    let silent = [
        ("status", "unreachable".into()),
        ("dt_ns", serde_json::Value::Null),
    ];
    lines.extend((1..=5).map(|slot| port(slot, (CORE, 1), "core", (LEAF, 9, "leaf"), &silent)));
    let found = trees(&lines);
    let roots: Vec<_> = found
        .trees
        .iter()
        .map(|tree| (tree.root, tree.cause, tree.seconds))
        .collect();
    assert_eq!(roots, [(key(CORE, 2), RootCause::Full, 3.0)]);
}

#[test]
fn trees_are_selected_by_their_hosts() {
    for (hosts, count) in [("oss1", 0), ("n", 1), ("far", 0), ("core", 1)] {
        let mut found = trees(&incast_lines());
        found.retain_hosts(&Hosts::parse(hosts).expect("a host list"));
        assert_eq!(found.trees.len(), count, "{hosts}");
    }
}

#[test]
fn slow_host_is_a_root() {
    let idle = (0.0, 0.0);
    let mut lines = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
    lines.extend(link(
        1,
        (LEAF, 2, "leaf"),
        (SERVER, 1, "slow"),
        (0.2, 0.7),
        idle,
    ));
    let found = trees(&lines);
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause))
            .collect::<Vec<_>>(),
        [(key(LEAF, 2), RootCause::SlowHost)]
    );
    assert_eq!(
        found.trees[0].branches.keys().collect::<Vec<_>>(),
        [&key(0x101, 1)]
    );
}

#[test]
fn unknown_roots_and_circles_are_reported() {
    let idle = (0.0, 0.0);
    let found = trees(&link(
        1,
        (LEAF, 1, "leaf"),
        (CORE, 1, "core"),
        (0.2, 0.6),
        idle,
    ));
    assert_eq!(
        found
            .trees
            .iter()
            .map(|tree| (tree.root, tree.cause))
            .collect::<Vec<_>>(),
        [(key(LEAF, 1), RootCause::Unclear)]
    );
    // A root for which no port waits is one that waits itself.
    let root = &found.trees[0];
    assert!(root.branches.is_empty() && root.blocked_seconds > 0.5);
    let ring = [(1, 2), (2, 3), (3, 1)]
        .map(|(from, to)| link(1, (from, 1, "s"), (to, 2, "s"), (0.2, 0.6), idle))
        .concat();
    let found = trees(&ring);
    assert_eq!((found.trees.len(), found.circles.len()), (0, 3));
}

#[test]
fn without_congestion_there_is_no_tree() {
    let busy = link(
        1,
        (0x101, 1, "n1"),
        (LEAF, 1, "leaf"),
        (0.99, 0.0),
        (0.99, 0.0),
    );
    let found = trees(&busy);
    assert!(found.trees.is_empty() && found.circles.is_empty());
}

#[test]
fn row_has_the_root_and_its_victims() {
    let rows = trees(&incast_lines()).rows();
    let json = serde_json::to_value(&rows[0]).expect("a row");
    assert_eq!(
        (&json["root"]["node"], &json["why"], &json["seconds"]),
        (&"core".into(), &"full".into(), &2.0.into())
    );
    assert_eq!(rows[0].until_ns - rows[0].since_ns, 2_000_000_000);
    assert_eq!(
        (
            rows[0].host_ports,
            rows[0].switch_ports,
            rows[0].xmit_utilization,
            rows[0].blocked
        ),
        (2, 1, 0.99, 0.0)
    );
    let victims: Vec<_> = rows[0]
        .victims
        .iter()
        .map(|victim| (victim.port.to_string(), victim.waits_for.to_string()))
        .collect();
    assert_eq!(
        victims[0],
        ("leaf port 9".to_owned(), "core port 2".to_owned())
    );
    assert_eq!(json["victims"][0]["blocked_seconds"], 1.0);
}

/// Compares [`incast_lines`], which have a root in the seconds 0 and 1, with a truth.
fn compared(truth: &[serde_json::Value], runs: &[JobRun]) -> Vec<truth::ScoreRow> {
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &incast_lines());
    let text: String = truth.iter().map(|line| format!("{line}\n")).collect();
    let truth = truth::read(text.as_bytes(), "x.truth.jsonl").expect("a truth");
    truth::compare(&truth, &ports.finish(), &devices, Limits::default(), runs).expect("seconds")
}

fn second(second: u64, roots: &[PortKey], waiting: &[PortKey]) -> serde_json::Value {
    let ports = |keys: &[PortKey]| -> Vec<_> {
        let port = |(guid, port): &PortKey| serde_json::json!({"guid": guid, "port": port});
        keys.iter().map(port).collect()
    };
    serde_json::json!({"from": second * 1_000_000_000, "roots": ports(roots), "waiting": ports(waiting)})
}

#[test]
fn roots_are_compared_with_the_truth_by_port_and_second() {
    let (root, up, host) = (key(CORE, 2), key(LEAF, 9), key(0x101, 1));
    let rows = compared(
        &[
            second(0, &[root], &[up, host, key(0x102, 1)]),
            // One root and no port that waits are not found, and one port does not wait in truth.
            second(1, &[root, up], &[up, host]),
            // A second without records.
            second(5, &[root], &[up]),
            second(7, &[], &[]),
        ],
        &[],
    );
    let row = &rows[0];
    assert_eq!(
        (row.method, row.true_roots, row.found, row.false_roots),
        ("congestion trees", 4, 2, 0)
    );
    assert_eq!(
        (row.precision, row.recall, row.f1),
        (Some(1.0), Some(0.5), Some(2.0 / 3.0))
    );
    let jaccard = row.jaccard.expect("not all are quiet");
    assert!(
        (jaccard - (1.0 + 2.0 / 3.0) / 3.0).abs() < 1e-9,
        "{jaccard}"
    );
    // A host waits longest, and is no root.
    assert_eq!(
        (rows[5].found, rows[5].false_roots, rows[5].jaccard),
        (0, 2, None)
    );
}

#[test]
fn begin_and_end_of_a_root_are_compared_with_the_truth() {
    let roots = [key(CORE, 2)];
    let truth = |seconds: &[u64]| -> Vec<_> {
        let is_root = |number| usize::from(seconds.contains(&number));
        (0..4)
            .map(|number| second(number, &roots[..is_root(number)], &[]))
            .collect()
    };
    let errors = |seconds: &[u64]| {
        let row = &compared(&truth(seconds), &[])[0];
        (
            row.begin_error_median,
            row.begin_error_p95,
            row.end_error_median,
            row.end_error_p95,
        )
    };
    assert_eq!(errors(&[0, 1]), (Some(0), Some(0), Some(0), Some(0)));
    // Found from 0 to 1.
    assert_eq!(errors(&[1, 2, 3]), (Some(1), Some(1), Some(2), Some(2)));
    // No second in common.
    assert_eq!(errors(&[3]), (None, None, None, None));
}

#[test]
fn jobs_that_cause_and_suffer_are_compared_with_the_truth() {
    const SECOND: u64 = 1_000_000_000;
    let run = |id, nodes| JobRun::new(id, nodes, Some(0), Some(4 * SECOND)).expect("a job");
    let runs = [run("storm", "n"), run("idle", "far")];
    let labels = |number: u64, causes: bool, slowdown: f64| {
        let mut labels = second(number, &[key(CORE, 2)], &[]);
        labels["jobs"] = serde_json::json!([
            {"name": "storm", "slowdown": 1.0, "causes": causes, "victim": false},
            {"name": "idle", "slowdown": slowdown, "causes": false, "victim": slowdown > 1.25},
            {"name": "unknown", "slowdown": 9.0, "causes": true, "victim": false},
        ]);
        labels
    };
    // The hosts of the storm wait for the root, and send to it; the idle job waits for nobody.
    let row = &compared(&[labels(0, true, 1.0), labels(1, false, 2.0)], &runs)[0];
    assert_eq!(
        (row.cause_precision, row.cause_recall),
        (Some(0.5), Some(1.0))
    );
    assert_eq!((row.victim_precision, row.victim_recall), (None, Some(0.0)));
    assert_eq!(compared(&[labels(0, true, 1.0)], &[])[0].cause_recall, None);
    // With a job on the host to which the root leads, this job is the cause.
    let runs = [run("storm", "n"), run("idle", "oss1*")];
    let row = &compared(&[labels(0, true, 1.0)], &runs)[0];
    assert_eq!(
        (row.cause_precision, row.cause_recall),
        (Some(0.0), Some(0.0))
    );
}

/// Two bursts of a tenth of a second in each second.
#[test]
fn short_intervals_find_roots_that_a_second_hides() {
    let idle = (0.0, 0.0);
    let of_slot = |slot: u64| {
        let burst = |load| {
            if slot.is_multiple_of(5) {
                load
            } else {
                (0.1, 0.0)
            }
        };
        let host = link(
            slot,
            (0x101, 1, "n1"),
            (LEAF, 1, "leaf"),
            burst((0.2, 0.7)),
            idle,
        );
        let root = link(
            slot,
            (LEAF, 2, "leaf"),
            (SERVER, 1, "oss1"),
            burst((1.0, 0.0)),
            idle,
        );
        [host, root].concat()
    };
    let lines: Vec<String> = (1..=30).flat_map(of_slot).collect();
    let tenths = lines.iter().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).expect("a record");
        line["ts"] = (line["slot"].as_u64().expect("a slot") * 100_000_000).into();
        line["dt_ns"] = 100_000_000.into();
        line.to_string()
    });
    let lines: Vec<String> = tenths.collect();
    let labels = second(1, &[key(LEAF, 2)], &[key(0x101, 1)]).to_string();
    let truth = truth::read(labels.as_bytes(), "x.truth.jsonl").expect("a truth");
    let found = |length_ns| {
        let ports = Ports::with_bins(64).with_bins_of(length_ns);
        let (ports, devices) = fold((ports, Devices::default()), &lines);
        let limits = Limits::default();
        let rows = truth::compare(&truth, &ports.finish(), &devices, limits, &[]).expect("seconds");
        (rows[0].found, rows[0].jaccard)
    };
    assert_eq!(found(1_000_000_000).0, 0);
    assert_eq!(found(100_000_000), (1, Some(1.0)));
}

#[test]
fn root_in_a_quiet_second_is_false() {
    let rows = compared(&[second(0, &[], &[]), second(1, &[], &[])], &[]);
    let row = &rows[0];
    assert_eq!((row.false_roots, row.false_in_quiet), (2, 2));
    assert_eq!(
        (row.precision, row.recall, row.jaccard),
        (Some(0.0), None, None)
    );
}

#[test]
fn truth_that_cannot_be_compared_is_refused() {
    let error =
        truth::read(&b"{\"from\":0,\"roots\":[],\"waiting\":[]}\nx\n"[..], "a").unwrap_err();
    assert!(error.to_string().starts_with("cannot read a:2:"), "{error}");
    // The records of so long a time are in bins of two seconds.
    let lines = partial_incast(&[(0.5, 1.0); 100]);
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
    let error = truth::compare(&[], &ports.finish(), &devices, Limits::default(), &[]).unwrap_err();
    assert!(error.to_string().contains("parts of 2 s"), "{error}");
}

/// Two incasts onto one port with a pause between them.
#[test]
fn tree_that_ended_and_begins_again_is_another_region() {
    const SECOND: u64 = 1_000_000_000;
    let shares = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0].map(|share| (share, share));
    let (ports, devices) = fold(
        (Ports::with_bins(64), Devices::default()),
        &partial_incast(&shares),
    );
    let ports = ports.finish();
    let run = |id: &str, hosts: &str, (from, to): (u64, u64)| {
        JobRun::new(id, hosts, Some(from), Some(to)).expect("a host list")
    };
    let runs = [
        run("7", "n", (0, 4 * SECOND)),
        run("8", "m", (0, 9 * SECOND)),
    ];
    let regions = Trees::find_regions(&ports, &devices, Limits::default()).regions(&runs, None);
    let found: Vec<_> = regions
        .iter()
        .map(|row| {
            let jobs: Vec<_> = row.jobs.iter().map(|job| (&*job.job, job.causes)).collect();
            let seconds = (row.until_ns - row.since_ns) / SECOND;
            (&*row.region, seconds, row.host_ports, jobs)
        })
        .collect();
    // Job 7 had ended when the second one began; job 8 has other hosts.
    assert_eq!(
        found,
        [
            ("core/2@0", 2, 2, vec![("7", true)]),
            ("core/2@6", 1, 2, vec![])
        ]
    );
    assert_eq!(
        Trees::find(&ports, &devices, Limits::default()).trees.len(),
        1
    );
}

#[test]
fn region_that_goes_on_in_later_records_is_the_same() {
    let shares = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0].map(|share| (share, share));
    let mut lines = partial_incast(&shares);
    let slot = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a record");
        line["slot"].as_u64().expect("a slot")
    };
    let regions_of = |lines: &[String], parts: &[(u64, u64)]| {
        let mut regions = Trees::no_regions();
        for (from, to) in parts {
            let is_in_part = |line: &&String| (*from..*to).contains(&slot(line));
            let lines: Vec<_> = lines.iter().filter(is_in_part).cloned().collect();
            let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
            let limits = Limits::default();
            Trees::find_and_continue(&ports.finish(), &devices, limits, &mut [&mut regions]);
        }
        regions.regions(&[], None)
    };
    let whole = regions_of(&lines, &[(1, 11)]);
    let names: Vec<_> = whole.iter().map(|row| &*row.region).collect();
    assert_eq!(names, ["core/2@0", "core/2@9"]);
    // The parts can overlap.
    let parts = [(1, 3), (3, 5), (4, 9), (8, 11)];
    assert_eq!(regions_of(&lines, &parts), whole);
    for line in lines.iter_mut().filter(|line| slot(line) > 8) {
        *line = line.replace("\"core\"", "\"new\"");
    }
    let named = regions_of(&lines, &parts).into_iter().map(|row| row.region);
    assert_eq!(named.collect::<Vec<_>>(), names, "a known name stays");
}

#[test]
fn regions_are_forgotten_after_their_end() {
    let shares = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0].map(|share| (share, share));
    let lines = partial_incast(&shares);
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
    let found = Trees::find_regions(&ports.finish(), &devices, Limits::default());
    let left = |ns, most| {
        let mut regions = found.clone();
        regions.forget_before(ns, most);
        let names = regions.trees.iter().map(|tree| regions.region_name(tree));
        names.collect::<Vec<_>>()
    };
    assert_eq!(left(0, 100).len(), 2);
    assert_eq!(left(2_000_000_000, 100), ["core/2@5"]);
    // Each has three waiting ports.
    assert_eq!(left(0, 7), ["core/2@5"]);
}

/// All packets that wait at the port to a host are for this host.
#[test]
fn job_on_the_host_to_which_a_root_leads_causes_it() {
    let lines = partial_incast(&[(1.0, 1.0); 2]);
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
    let run = |id: &str, hosts: &str| JobRun::new(id, hosts, None, None).expect("a host list");
    let found = Trees::find_regions(&ports.finish(), &devices, Limits::default());
    let jobs_of = |runs: &[JobRun]| {
        let rows = found.regions(runs, None);
        let jobs = rows[0].jobs.iter();
        jobs.map(|job| (job.job.clone(), job.causes, job.host_ports))
            .collect::<Vec<_>>()
    };
    assert_eq!(jobs_of(&[run("7", "n")]), [("7".to_owned(), true, 2)]);
    assert_eq!(
        jobs_of(&[run("7", "n"), run("9", "oss1")]),
        [("7".to_owned(), false, 2), ("9".to_owned(), true, 0)]
    );
}

/// In an incast that does not change, the ports on the way always have packets. Only the port to
/// the server is a root.
#[test]
fn port_that_passes_congestion_on_is_no_root_although_it_always_has_packets() {
    let idle = (0.0, 0.0);
    let host = |port: u8| (0x100 + u64::from(port), 1, "n");
    let mut lines = Vec::new();
    for port in 1..=4 {
        let blocked = (0.17, 0.83);
        lines.extend(link(1, host(port), (LEAF, port, "leaf"), blocked, idle));
    }
    let up = (0.7, 0.3);
    lines.extend(link(1, (LEAF, 9, "leaf"), (CORE, 1, "core"), up, idle));
    let other = (0.3, 0.7);
    lines.extend(link(1, (0x201, 1, "m"), (CORE, 3, "core"), other, idle));
    let server = (SERVER, 1, "oss1");
    lines.extend(link(1, (CORE, 2, "core"), server, (1.0, 0.0), idle));
    let roots = roots_of(&trees(&lines));
    assert_eq!(roots, [(key(CORE, 2), Some(Confidence::High))]);
}

/// Returns the roots, each with its confidence.
fn roots_of(found: &Trees) -> Vec<(PortKey, Option<Confidence>)> {
    let root = |tree: &Tree| (tree.root, tree.confidence());
    found.trees.iter().map(root).collect()
}

/// Two links in series are nearly full: the root is the second one, if it carries more.
#[test]
fn root_is_followed_to_the_link_that_carries_more() {
    let idle = (0.0, 0.0);
    let roots_with = |core: f64| {
        let server = (SERVER, 1, "oss1");
        let mut lines = link(1, (0x101, 1, "n"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
        let up = (0.85, 0.06);
        lines.extend(link(1, (LEAF, 9, "leaf"), (CORE, 1, "core"), up, idle));
        lines.extend(link(1, (CORE, 2, "core"), server, (core, 0.0), idle));
        roots_of(&trees(&lines))
    };
    assert_eq!(roots_with(0.97), [(key(CORE, 2), Some(Confidence::High))]);
    // Both: the first one is full itself.
    let (leaf, core) = (
        (key(LEAF, 9), Some(Confidence::Medium)),
        (key(CORE, 2), Some(Confidence::High)),
    );
    let mut found = roots_with(0.88);
    found.sort_unstable();
    assert_eq!(found, [leaf, core]);
}

/// What the server sends through another port says nothing about its receiving port.
#[test]
fn port_to_a_host_with_two_ports_is_a_sure_root() {
    let idle = (0.0, 0.0);
    let mut lines = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
    let received = (0.8, 0.0);
    lines.extend(link(
        1,
        (LEAF, 2, "leaf"),
        (SERVER, 1, "oss1"),
        received,
        idle,
    ));
    let sent = (0.95, 0.0);
    lines.extend(link(1, (SERVER, 2, "oss1"), (CORE, 3, "core"), sent, idle));
    let roots = roots_of(&trees(&lines));
    assert_eq!(roots, [(key(LEAF, 2), Some(Confidence::High))]);
}

/// A host with two ports does not forward packets from one to the other.
#[test]
fn host_is_no_switch() {
    let idle = (0.0, 0.0);
    let mut lines = link(1, (LEAF, 2, "leaf"), (SERVER, 1, "oss1"), (0.2, 0.7), idle).to_vec();
    lines.extend(link(
        1,
        (SERVER, 2, "oss1"),
        (LEAF, 3, "leaf"),
        (0.95, 0.0),
        idle,
    ));
    lines.extend(link(
        1,
        (0x101, 1, "n1"),
        (LEAF, 1, "leaf"),
        (0.2, 0.6),
        idle,
    ));
    let found = trees(&lines);
    let roots: Vec<_> = found
        .trees
        .iter()
        .map(|tree| (tree.root, tree.cause))
        .collect();
    assert_eq!(roots, [(key(LEAF, 2), RootCause::SlowHost)]);
}

/// Two spine switches lead to the server's leaf switch. The routes take one of them only.
#[test]
fn root_that_the_routes_overload_has_other_ways() {
    const LEAF2: u64 = 5;
    let idle = (0.0, 0.0);
    let mut lines = Vec::new();
    for host in 1..=2 {
        lines.extend(link(
            1,
            (0x100 + host, 1, "n"),
            (LEAF, host as u8, "leaf"),
            (0.5, 0.5),
            idle,
        ));
    }
    for (spine, name, used) in [(3, "spine3", 0.98), (4, "spine4", 0.1)] {
        let up = (LEAF, spine as u8, "leaf");
        lines.extend(link(1, up, (spine, 1, name), (used, 0.0), idle));
        let down = (LEAF2, spine as u8, "leaf2");
        lines.extend(link(1, (spine, 2, name), down, (used, 0.0), idle));
    }
    lines.extend(link(
        1,
        (LEAF2, 1, "leaf2"),
        (SERVER, 1, "oss1"),
        (0.5, 0.0),
        idle,
    ));
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
    let ports = ports.finish();
    let table = |switch: u64, port: u8| {
        format!(
            "Unicast lids of switch Lid 1 guid {} (s):\n0x0009 {port}\n",
            Guid(switch)
        )
    };
    // LID 8 is another host of the second leaf switch, which the routes lead over the other spine.
    let text = [
        table(LEAF, 3) + "0x0008 4\n",
        table(3, 2),
        table(4, 2),
        table(LEAF2, 1),
    ]
    .concat();
    let routes = Routes::parse(&text, "routes").expect("routes");
    let found = Trees::find_regions(&ports, &devices, Limits::default());
    let rows = found.regions(&[], Some((&routes, &ports)));
    let ways: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.root.to_string(),
                row.other_ways,
                row.other_ways_utilization,
            )
        })
        .collect();
    assert_eq!(ways, [("leaf port 3".to_owned(), Some(1), Some(0.1))]);
}

#[test]
fn port_waits_only_for_ports_on_its_paths_if_the_routes_are_known() {
    const LEAF2: u64 = 5;
    const OTHER: u64 = 0x103;
    let idle = (0.0, 0.0);
    let leads = |from: (u64, u8, &'static str), to: (u64, u8, &'static str), load| {
        link(1, from, to, load, idle)
    };
    let lines = [
        leads((0x101, 1, "n1"), (LEAF, 1, "leaf"), idle),
        leads((LEAF, 3, "leaf"), (3, 1, "spine3"), idle),
        leads((LEAF, 4, "leaf"), (4, 1, "spine4"), idle),
        leads((3, 2, "spine3"), (LEAF2, 3, "leaf2"), (0.5, 0.5)),
        leads((4, 2, "spine4"), (LEAF2, 4, "leaf2"), (0.5, 0.5)),
        leads((LEAF2, 1, "leaf2"), (SERVER, 1, "oss1"), (0.98, 0.0)),
        leads((LEAF2, 2, "leaf2"), (OTHER, 1, "n3"), (0.3, 0.0)),
    ]
    .concat();
    let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &lines);
    let ports = ports.finish();
    // The paths to the server lead over spine 3, and those to the other host over spine 4.
    let table = |switch: u64, to_server: u8, to_other: u8| {
        format!(
            "Unicast lids of switch Lid 1 guid {} (s):\n0x0009 {to_server} : (portguid {}: '')\n\
             0x0008 {to_other} : (portguid {}: '')\n0x0007 1 : (portguid {}: '')\n",
            Guid(switch),
            Guid(SERVER),
            Guid(OTHER),
            Guid(0x101)
        )
    };
    let tables = [
        table(LEAF, 3, 4),
        table(3, 2, 255),
        table(4, 255, 2),
        table(LEAF2, 1, 2),
    ];
    let routes = Routes::parse(&tables.concat(), "routes").expect("routes");
    let onward = Onward::of_records(&ports, &routes);
    let waiting = |routes| {
        let limits = Limits {
            routes,
            ..Limits::default()
        };
        let found = Trees::find(&ports, &devices, limits);
        let root = (Guid(LEAF2), PortNum(1));
        let tree = found.trees.into_iter().find(|tree| tree.root == root);
        let branches = tree.expect("a tree").branches.into_keys();
        branches
            .map(|(guid, port)| (guid.0, port.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(waiting(None), [(3, 2), (4, 2)]);
    assert_eq!(waiting(Some(&onward)), [(3, 2)]);
}
