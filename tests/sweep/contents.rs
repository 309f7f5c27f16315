//! The contents of the records.

use std::collections::BTreeSet;
use std::fs;

use ibnet::assignments::{Assignments, sha256_hex};
use ibnet::topology::synthetic::FatTree;
use ibnet_record::attributes::Group;
use ibnet_record::is_dt_slots_field;
use ibnet_record::strict::{self, Line, Port};
use ibnet_record::types::NodeKind;

use crate::program::{GEN, run, run_program, swept, swept_until};
use crate::stream::{Key, Slot, Stream, known};
use crate::{links, small, with_net};

const THREE: [&str; 8] = [
    "--net",
    "net.p",
    "--simulate",
    "net.p",
    "--interval",
    "100ms",
    "--sweeps",
    "3",
];

/// A sweep in whose discovery every device answers: a reply counts although the machine is busy.
const PATIENT: [&str; 6] = [
    "--simulate",
    "net.p",
    "--timeout",
    "100ms",
    "--grace",
    "10s",
];

#[test]
fn every_linked_port_has_one_record_a_slot() {
    let dir = small();
    let ports: BTreeSet<Key> = links(&dir).into_keys().collect();
    assert_eq!(ports.len(), 20);
    let stream = swept(&dir, &THREE);
    assert_eq!(stream.slots.len(), 3);
    stream.assert_covers(&ports);
    let start = &stream.start;
    assert_eq!(
        (
            start.schema,
            start.ca.as_str(),
            start.interval_ns,
            start.file_seq
        ),
        (1, "sim", 100_000_000, 0)
    );
    assert_eq!(
        (start.groups.join(","), &start.assignments_sha256),
        ("extended,base,xmtdisc,rcverr".to_owned(), &None)
    );
    assert!(start.pid > 0 && start.slot == start.ts / start.interval_ns);
    assert!(stream.slots[0].sweep.slot > start.slot);
    // Every device, and every kind of device, has a histogram if one of its ports answered.
    let answered = stream
        .slots
        .iter()
        .flat_map(|slot| slot.ports.values())
        .filter(|port| port.rtt_ns > 0);
    let (devices, kinds): (BTreeSet<_>, BTreeSet<_>) = answered
        .map(|port| (port.guid, port.kind.unwrap().as_str()))
        .unzip();
    let of_all = stream
        .histograms
        .iter()
        .filter(|histogram| histogram.guid.is_none());
    let found: Vec<_> = of_all
        .map(|histogram| (histogram.kind.as_str(), histogram.device_kind.as_deref()))
        .collect();
    let expected = [
        ("rtt", Some("switch")),
        ("rtt", Some("hca")),
        ("sweep", None),
        ("clock", None),
    ];
    assert!(
        expected
            .iter()
            .filter(|kind| found.contains(kind))
            .eq(&found),
        "{found:?} are in another order"
    );
    assert!(
        found.contains(&expected[2])
            && kinds
                .iter()
                .all(|kind| found.contains(&("rtt", Some(kind)))),
        "{found:?} of {kinds:?}"
    );
    assert_eq!(
        stream
            .histograms
            .iter()
            .find(|histogram| histogram.kind == "sweep")
            .unwrap()
            .count,
        3
    );
    let of_devices: BTreeSet<_> = stream
        .histograms
        .iter()
        .filter_map(|histogram| histogram.guid)
        .collect();
    assert!(
        of_devices.is_superset(&devices),
        "{of_devices:?} of {devices:?}"
    );
}

#[test]
fn records_agree_with_the_net_file_and_with_the_port() {
    let dir = small();
    let peers = links(&dir);
    let stream = swept(
        &dir,
        &[
            &PATIENT[..],
            &["--net", "net.p", "--interval", "100ms", "--sweeps", "3"],
        ]
        .concat(),
    );
    for port in stream.slots.iter().flat_map(|slot| slot.ports.values()) {
        let peer = (port.peer_guid.unwrap(), port.peer_port.unwrap());
        assert_eq!(peers[&(port.guid, port.port)], peer, "{port:?}");
        assert_eq!(
            (
                port.link.as_str(),
                port.link_source.as_str(),
                port.identity.as_str()
            ),
            ("4xEDR", "live", "ok")
        );
        let is_host = port.node.ends_with(" mlx5_0");
        assert_eq!(
            port.kind,
            Some(if is_host {
                NodeKind::Hca
            } else {
                NodeKind::Switch
            })
        );
    }
}

/// Returns a directory with a fabric of large jobs, so that there is traffic from the start.
fn with_traffic() -> tempfile::TempDir {
    let tree = FatTree {
        leaves: 4,
        hosts: 12,
        spines: 4,
        trunk: 1,
        radix: 16,
    };
    with_net(tree.blueprint().ports_report().as_bytes())
}

/// Returns the number of slots whose ports were all answered, with the slot before.
fn answered_pairs(stream: &Stream) -> usize {
    stream
        .slots
        .windows(2)
        .filter(|pair| pair.iter().all(Slot::is_answered))
        .count()
}

#[test]
fn one_end_of_a_link_receives_what_the_other_sends() {
    let dir = with_traffic();
    let peers = links(&dir);
    let read = |slot: &Slot, key: Key, name: &str| slot.ports[&key].counter(name);
    // The traffic pauses.
    let has_moved = |stream: &Stream| {
        let received = |slot: &Slot| {
            peers
                .keys()
                .filter_map(|port| read(slot, *port, "port_rcv_data_bytes"))
                .sum::<u64>()
        };
        stream.slots.windows(2).any(|pair| {
            pair.iter().all(Slot::is_answered) && received(&pair[0]) < received(&pair[1])
        })
    };
    let enough = |stream: &Stream| answered_pairs(stream) >= 3 && has_moved(stream);
    let stream = swept_until(
        &dir,
        &["--simulate", "net.p", "--interval", "200ms"],
        enough,
    );
    let (mut compared, mut moved) = (0, 0);
    for (here, there) in &peers {
        for names in [
            ["port_xmit_data_bytes", "port_rcv_data_bytes"],
            ["port_xmit_pkts", "port_rcv_pkts"],
        ] {
            // Packets sent here before a slot are received there before the next slot, and vice
            // versa.
            for pair in stream.slots.windows(2) {
                let [sent, received] = [&pair[0], &pair[1]]
                    .map(|slot| (read(slot, *here, names[0]), read(slot, *there, names[1])));
                let ((Some(sent), Some(came)), (Some(sent_then), Some(came_then))) =
                    (sent, received)
                else {
                    continue;
                };
                assert!(
                    sent <= sent_then && came <= came_then,
                    "a counter decreased: {here:?} {names:?}"
                );
                assert!(
                    sent <= came_then && came <= sent_then,
                    "{here:?} sent {sent}, then {sent_then}; {there:?} had {came}, {came_then}"
                );
                compared += 1;
                moved += came_then - came;
            }
        }
    }
    assert!(
        compared >= 3 * 2 * peers.len() && moved > 0,
        "{compared} pairs, {moved} moved"
    );
}

/// Compares the rates with the counters. Returns the number of rates above 0.
fn busy_rates(stream: &Stream) -> usize {
    let mut busy = 0;
    for pair in stream.slots.windows(2) {
        for (key, port) in &pair[1].ports {
            let before = &pair[0].ports[key];
            let bytes = |port: &Port| port.counter("port_xmit_data_bytes");
            let (Some(dt), Some(gbps), Some(from), Some(to)) =
                (port.dt_ns, port.xmit_gbps, bytes(before), bytes(port))
            else {
                continue;
            };
            let expected = (to - from) as f64 * 8.0 / dt as f64;
            assert!(
                (gbps - expected).abs() <= 1e-6,
                "{gbps} instead of {expected}"
            );
            // 4x EDR carries 100 Gb/s of data.
            let share = port.xmit_utilization.unwrap();
            assert!(
                (share - gbps / 100.0).abs() <= 2e-6 && share >= 0.0,
                "{port:?}"
            );
            // The counters were read at some time before the end of the round trip.
            let longest = (dt + before.rtt_ns) as f64 / dt as f64;
            assert!(share <= 1.01 * longest, "{port:?} after {before:?}");
            busy += usize::from(gbps > 0.0);
        }
    }
    busy
}

#[test]
fn rates_are_the_differences_of_counters() {
    let dir = with_traffic();
    // The traffic pauses, and a slot after a missed one has no rates.
    let enough = |stream: &Stream| answered_pairs(stream) >= 2 && busy_rates(stream) > 0;
    let stream = swept_until(
        &dir,
        &["--simulate", "net.p", "--interval", "200ms"],
        enough,
    );
    assert!(busy_rates(&stream) > 0);
    assert!(
        stream.slots[0]
            .ports
            .values()
            .all(|port| port.dt_ns.is_none() && port.xmit_gbps.is_none()),
        "the first slot has no rates"
    );
}

#[test]
fn only_the_ports_of_the_plan_are_swept() {
    let dir = small();
    let made = run_program(
        GEN,
        dir.path(),
        &[
            "--net",
            "net.p",
            "--samplers",
            "node00001,node00004",
            "--cap",
            "12",
            "-o",
            "plan.toml",
        ],
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    let plan = Assignments::read(&dir.path().join("plan.toml")).unwrap();
    let mut all = BTreeSet::new();
    for sampler in &plan.assignments.samplers {
        let ports: BTreeSet<Key> = sampler
            .devices
            .iter()
            .flat_map(|device| device.ports.iter().map(|port| (device.guid, port.num)))
            .collect();
        let args = [
            "--assignments",
            "plan.toml",
            "--sampler",
            &sampler.host,
            "--simulate",
            "net.p",
            "--interval",
            "100ms",
            "--sweeps",
            "1",
        ];
        let stream = swept(&dir, &args);
        stream.assert_covers(&ports);
        assert_eq!(stream.start.sampler, sampler.host);
        assert_eq!(
            stream.start.assignments_sha256.as_deref(),
            Some(&*sha256_hex(
                &fs::read(dir.path().join("plan.toml")).unwrap()
            ))
        );
        assert!(
            ports.iter().all(|port| all.insert(*port)),
            "a port is swept twice"
        );
    }
    assert_eq!(
        (plan.assignments.samplers.len(), all),
        (2, links(&dir).into_keys().collect())
    );
}

#[test]
fn timeout_and_unreachable_ports_are_distinguished() {
    let dir = small();
    fs::write(
        dir.path().join("ibnet.toml"),
        "simulate = \"net.p\"\ngrace = \"20ms\"\n[simulated]\ndead = [\"leaf01\", \"node00005\"]\n",
    )
    .unwrap();
    let is_dead = |port: &&Port| ["leaf01", "node00005 mlx5_0"].contains(&port.node.as_str());
    // On a busy machine, a port of a live device can be without an answer, or a slot can be over
    // before all ports were queried.
    let is_whole = |slot: &Slot| {
        slot.ports
            .values()
            .filter(|port| !is_dead(port))
            .all(|port| ["ok", "late"].contains(&&*port.status))
            && slot.count(&["skipped"]) == 0
    };
    let whole = |stream: &Stream| stream.slots.iter().filter(|slot| is_whole(slot)).count();
    let stream = swept_until(
        &dir,
        &["-c", "ibnet.toml", "--interval", "400ms"],
        |stream| whole(stream) >= 2,
    );
    for slot in stream.slots.iter().filter(|slot| is_whole(slot)) {
        let of = |host: &str, status: &str| {
            slot.ports
                .values()
                .filter(|port| port.node.split(' ').next() == Some(host) && port.status == status)
                .count()
        };
        // A device is unreachable after three MADs without a reply: the identity check, and one for
        // each of two ports.
        assert_eq!(
            [
                of("leaf01", "timeout"),
                of("leaf01", "unreachable"),
                of("node00005", "timeout")
            ],
            [2, 3, 1],
            "{:?}",
            slot.sweep
        );
        assert_eq!((slot.sweep.timeout, slot.sweep.unreachable), (3, 3));
    }
    let dead: BTreeSet<_> = stream.slots[0]
        .ports
        .values()
        .filter(is_dead)
        .map(|port| port.guid)
        .collect();
    let of = |name: &str| {
        stream
            .events
            .iter()
            .filter(|event| event.event == name)
            .map(|event| event.guid.unwrap())
            .collect::<BTreeSet<_>>()
    };
    let (lost, found) = (of("unreachable"), of("reachable"));
    assert!(
        lost.is_superset(&dead) && found.is_disjoint(&dead),
        "{lost:?}, then {found:?}"
    );
    // A live device that was taken for dead answers in the whole slots.
    assert!(
        lost.difference(&dead)
            .all(|guid| found.contains(guid) || !is_whole(stream.slots.last().unwrap())),
        "{lost:?}, then {found:?}"
    );
}

#[test]
fn lost_mads_are_timeouts() {
    let dir = small();
    let config = |loss: &str| {
        fs::write(
            dir.path().join("ibnet.toml"),
            format!("grace = \"20ms\"\n[simulated]\nloss = {loss}\n"),
        )
        .unwrap();
    };
    let args = [
        "-c",
        "ibnet.toml",
        "--simulate",
        "net.p",
        "--interval",
        "400ms",
    ];
    config("0.5");
    let is_read = |stream: &Stream| {
        stream
            .slots
            .iter()
            .any(|slot| slot.ports.values().any(|port| !port.counters.is_empty()))
    };
    let some = swept_until(&dir, &args, |stream| {
        stream.slots.len() >= 2 && is_read(stream)
    });
    for slot in some
        .slots
        .iter()
        .filter(|slot| slot.count(&["skipped"]) == 0)
    {
        assert!(slot.sweep.timeout > 0, "half of all MADs are lost");
    }
    config("1.0");
    let is_whole = |slot: &&Slot| slot.count(&["skipped"]) == 0;
    let none = swept_until(&dir, &args, |stream| {
        stream.slots.iter().filter(is_whole).count() >= 2
    });
    for slot in none.slots.iter().filter(is_whole) {
        // 6 hosts with one port, 2 leaves with 5, 2 spines with 2.
        assert_eq!(
            (slot.sweep.timeout, slot.sweep.unreachable),
            (6 + 4 + 4, 6),
            "{:?}",
            slot.sweep
        );
    }
    for slot in &none.slots {
        assert_eq!(
            (
                slot.sweep.rtt_p50_ns,
                slot.sweep.rtt_max_ns,
                slot.sweep.mads_late
            ),
            (None, None, 0)
        );
        assert!(slot.ports.values().all(|port| port.counters.is_empty()));
    }
    assert!(
        none.histograms
            .iter()
            .all(|histogram| ["sweep", "clock"].contains(&&*histogram.kind)),
        "there are no round trips"
    );
}

#[test]
fn groups_select_the_counters() {
    let dir = small();
    for (groups, listed, attributes) in [
        ("base", "base", &["PortCounters"][..]),
        ("extended", "extended", &["PortCountersExtended"]),
        (
            "xmtdisc,extended",
            "xmtdisc,extended",
            &["PortXmitDiscardDetails", "PortCountersExtended"],
        ),
        // The attributes of these switches. PortCountersExtended has all counters of PortCounters,
        // and the switches do not count opcodes.
        (
            "all",
            &*Group::ALL.map(Group::as_str).join(","),
            &[
                "PortCountersExtended",
                "PortXmitDiscardDetails",
                "PortRcvErrorDetails",
                "PortXmitDataSL",
                "PortRcvDataSL",
                "PortExtendedSpeedsCounters",
                "PortFlowCtlCounters",
                "PortVLXmitFlowCtlUpdateErrors",
                "PortVLXmitWaitCounters",
                "SwPortVLCongestion",
                "PortRcvConCtrl",
                "PortSLRcvFECN",
                "PortSLRcvBECN",
                "PortXmitConCtrl",
                "PortVLXmitTimeCong",
                "PortSamplesControl",
            ],
        ),
    ] {
        let args = [&PATIENT[..], &["--interval", "100ms", "--groups", groups]].concat();
        let stream = swept_until(&dir, &args, |stream| {
            stream.slots.iter().any(Slot::is_answered)
        });
        assert_eq!(stream.start.groups.join(","), listed);
        let allowed: BTreeSet<_> = attributes
            .iter()
            .flat_map(|attribute| known(Some(attribute)))
            .collect();
        let switches = stream
            .slots
            .iter()
            .flat_map(|slot| slot.ports.values())
            .filter(|port| port.kind == Some(NodeKind::Switch));
        let found: BTreeSet<_> = switches
            .flat_map(|port| port.counters.keys().map(String::as_str))
            .filter(|name| !is_dt_slots_field(name))
            .collect();
        assert!(
            found.is_subset(&allowed),
            "{groups}: {:?}",
            found.difference(&allowed)
        );
        for attribute in attributes {
            assert!(
                !found.is_disjoint(&known(Some(attribute))),
                "{groups}: no counter of {attribute}"
            );
        }
    }
}

#[test]
fn plain_topology_and_ports_report_give_the_same_sweep() {
    let swept = |file: &[u8]| {
        let dir = with_net(file);
        let run = run(
            &dir,
            &[
                "--simulate",
                "net.p",
                "--net",
                "net.p",
                "--sweeps",
                "1",
                "--interval",
                "300ms",
            ],
        );
        assert_eq!(run.code, 0, "{}", run.stderr);
        let ports = run
            .stdout
            .lines()
            .map(|text| strict::parse(text).unwrap())
            .filter_map(|line| match line {
                Line::Port(port) => Some((
                    port.guid,
                    port.port,
                    port.lid,
                    port.node,
                    port.peer_guid,
                    port.peer_port,
                    port.peer,
                    port.link,
                )),
                _ => None,
            });
        let mut ports: Vec<_> = ports.collect();
        ports.sort();
        ports
    };
    let plain = swept(include_bytes!("../data/fabrics/loginoff-fdr10-qdr.topo"));
    assert_eq!(
        plain,
        swept(include_bytes!(
            "../data/fabrics/loginoff-fdr10-qdr.reconstructed.p"
        ))
    );
    assert!(plain.len() > 300);
}
