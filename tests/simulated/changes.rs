//! Records of a sweep in virtual time on a simulated fabric that changes during the sweep.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::output::Destination;
use ibnet::partition::whole_fabric;
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet_record::attributes::Group;
use ibnet_record::count::count;
use ibnet_record::strict::{self, Event, Line, Port};
use ibnet_record::types::{LinkRate, NodeKind, PortNum};

/// Wall clock at time zero, in nanoseconds since 1970.
const WALL: i64 = 1_795_000_000_123_456_789;

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("the format of this crate")
        .fabric
}

fn find(fabric: &Fabric, host: &str) -> DeviceId {
    fabric
        .iter()
        .find(|(_, device)| device.host() == host)
        .expect("in the fabric")
        .0
}

/// Sweeps the whole fabric for `slots` slots. After each slot `change` gets the number of completed
/// slots and the fabric.
fn swept(slots: u64, groups: &[Group], change: impl FnMut(u64, &mut SimFabric)) -> Vec<Line> {
    swept_on(
        SimFabric::new(fabric(), crate::options()),
        slots,
        groups,
        change,
    )
}

fn swept_on(
    sim: SimFabric,
    slots: u64,
    groups: &[Group],
    change: impl FnMut(u64, &mut SimFabric),
) -> Vec<Line> {
    let engine = Config {
        groups: groups.into(),
        identity_every: Duration::from_millis(600),
        ..crate::config()
    };
    swept_with(sim, slots, (engine, Duration::from_millis(60)), change)
}

fn swept_with(
    sim: SimFabric,
    slots: u64,
    (engine, interval): (Config, Duration),
    mut change: impl FnMut(u64, &mut SimFabric),
) -> Vec<Line> {
    let (sim, clock) = (Arc::new(Mutex::new(sim)), VirtualClock::default());
    clock.set_wall_offset(WALL);
    let (outlet, lines) = Destination::memory();
    let settings = DriverSettings {
        sweeps: Some(slots),
        ..DriverSettings::simulated("here", interval, engine)
    };
    let plan = SweepPlan::new(&whole_fabric(&fabric(), "here").0);
    let transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), 1);
    let driver = Driver::new(plan, settings, transport, clock, outlet, 1);
    let mut text = String::new();
    driver
        .run(&Control::default(), |report| {
            text += &lines.text();
            change(
                report.done,
                &mut sim.lock().expect("no thread panicked with the lock"),
            );
        })
        .expect("no record is lost");
    text += &lines.text();
    text.lines()
        .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")))
        .collect()
}

fn of_host<'a>(lines: &'a [Line], host: &'a str) -> impl Iterator<Item = &'a Port> {
    let ports = lines.iter().filter_map(|line| {
        if let Line::Port(port) = line {
            Some(&**port)
        } else {
            None
        }
    });
    ports.filter(move |port| port.node.split(' ').next() == Some(host))
}

fn events<'a>(lines: &'a [Line], kind: &'a str) -> Vec<&'a Event> {
    lines
        .iter()
        .filter_map(|line| {
            if let Line::Event(event) = line {
                Some(event)
            } else {
                None
            }
        })
        .filter(|event| event.event == kind)
        .collect()
}

#[test]
fn swapped_lids_are_reported_and_followed() {
    crate::on_both_fabrics(|| {
        let fabric = fabric();
        let (one, other) = (find(&fabric, "node00002"), find(&fabric, "node00005"));
        let lines = swept(40, &[Group::Extended], |done, sim| {
            if done == 12 {
                sim.swap_lids(one, other);
            }
        });
        assert_eq!(
            (
                events(&lines, "wrong_device").len(),
                events(&lines, "lid_change").len()
            ),
            // By a route, the first device itself says its new LID.
            (if crate::by_routes() { 1 } else { 2 }, 2)
        );
        for (host, id, lid) in [
            ("node00002", one, fabric.device(other).lid),
            ("node00005", other, fabric.device(one).lid),
        ] {
            let found = ["wrong_device", "lid_change"]
                .into_iter()
                .flat_map(|kind| events(&lines, kind))
                .find(|event| event.guid == Some(fabric.device(id).guid))
                .expect("an event");
            let records: Vec<_> = of_host(&lines, host).collect();
            let in_that_slot = records
                .iter()
                .find(|port| port.slot == found.slot)
                .expect("every port has a record in every slot");
            assert_eq!(
                (in_that_slot.status.as_str(), in_that_slot.counters.len()),
                ("wrong_device", 0)
            );
            let after: Vec<_> = records
                .iter()
                .filter(|port| port.slot > found.slot)
                .collect();
            assert!(
                after.iter().all(|port| port.status == "wrong_device"
                    || (port.lid, port.identity.as_str()) == (lid, "ok")),
                "{after:?}"
            );
            assert!(
                after
                    .iter()
                    .any(|port| port.status == "ok" && port.xmit_gbps.is_some()),
                "{after:?}"
            );
            // The counters of the other device under this name are not compared with the new ones.
            assert!(
                !events(&lines, "reset")
                    .iter()
                    .any(|event| event.guid == found.guid && event.slot > found.slot)
            );
        }
    });
}

#[test]
fn link_changes_are_reported() {
    crate::on_both_fabrics(|| {
        let leaf = find(&fabric(), "leaf01");
        let port = fabric().device(leaf).linked().next().expect("linked").0.num;
        let edr = PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE);
        let lines = swept(70, &[Group::Extended], |done, sim| match done {
            5 => sim.set_link(
                leaf,
                port,
                PortInfo::of_rate(&LinkRate::new("1x", "EDR"), PortInfo::ACTIVE),
            ),
            22 => sim.set_link(
                leaf,
                port,
                PortInfo {
                    state: 1,
                    ..PortInfo::default()
                },
            ),
            40 => sim.set_link(leaf, port, edr),
            50 => sim.set_link(
                leaf,
                port,
                PortInfo {
                    neighbor_mtu: 4,
                    operational_vls: 1,
                    ..edr
                },
            ),
            _ => {}
        });
        let found = |kind| {
            events(&lines, kind)
                .iter()
                .map(|event| (event.port, event.detail.clone()))
                .collect::<Vec<_>>()
        };
        let change = |detail: &str| (Some(port), detail.to_owned());
        let changes = [
            "from 4xEDR to 1xEDR",
            "from 1xEDR to 4xEDR",
            "MTU from 4096 to 2048, data VLs from 4 to 1",
        ]
        .map(change);
        assert_eq!(found("link_change"), changes);
        let last = events(&lines, "link_change")
            .last()
            .expect("counted above")
            .slot;
        let (before, after): (Vec<&Port>, Vec<&Port>) = of_host(&lines, "leaf01")
            // PortInfo is read after the counters. So the record of a slot can be older than the event.
            .filter(|record| {
                record.port == port && record.link_source == "live" && record.slot != last
            })
            .partition(|record| record.slot < last);
        assert!(
            before
                .iter()
                .all(|record| (record.mtu, record.vls) == (Some(4096), Some(4))),
            "{before:?}"
        );
        assert!(
            after
                .iter()
                .all(|record| (record.mtu, record.vls) == (Some(2048), Some(1))),
            "{after:?}"
        );
        assert!(!before.is_empty() && !after.is_empty());
        assert_eq!(
            (found("link_down"), found("link_up")),
            (vec![change("down")], vec![change("active")])
        );
        let slow = of_host(&lines, "leaf01").filter(|record| {
            record.port == port && record.link == "1xEDR" && record.xmit_gbps > Some(0.5)
        });
        for record in slow {
            let share = record.xmit_gbps.expect("checked above") / 25.0;
            assert!(
                (record.xmit_utilization.expect("rate and link are known") - share).abs() < 1e-5,
                "share of the current rate: {record:?}"
            );
        }
    });
}

/// Returns the numbers of the slots, from that of the first record, in which a port of `leaf01` had
/// each event about its link, and those in which its status was `down`. `change` gets the number of
/// completed slots of one second.
fn link_events(
    (state_tables, has_table): (bool, bool),
    mut change: impl FnMut(u64, &mut dyn FnMut(u8)),
) -> (Vec<(u64, String, String)>, Vec<u64>) {
    let leaf = find(&fabric(), "leaf01");
    let port = fabric().device(leaf).linked().next().expect("linked").0.num;
    let mut sim = SimFabric::new(fabric(), crate::options());
    if !has_table {
        let zero = PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE);
        sim.set_link(leaf, PortNum(0), zero);
    }
    let engine = Config {
        groups: [Group::Extended].into(),
        cadence: Cadence::new(Vec::new(), 1, 10),
        state_tables,
        ..crate::config()
    };
    let lines = swept_with(sim, 90, (engine, Duration::from_secs(1)), |done, sim| {
        change(done, &mut |state| {
            let rate = LinkRate::new("4x", "EDR");
            sim.set_link(leaf, port, PortInfo::of_rate(&rate, state));
        });
    });
    let ports = || of_host(&lines, "leaf01").filter(|record| record.port == port);
    let first = ports().next().expect("swept").slot;
    let is_found = |event: &&Event| event.port == Some(port);
    let found = ["link_down", "link_up", "link_flapped"]
        .into_iter()
        .flat_map(|kind| events(&lines, kind))
        .filter(is_found)
        .map(|event| {
            (
                event.slot - first,
                event.event.clone(),
                event.detail.clone(),
            )
        });
    let is_down = |record: &&Port| record.status == "down";
    let down = ports().filter(is_down).map(|record| record.slot - first);
    (found.collect(), down.collect())
}

#[test]
fn change_of_a_link_is_an_event_and_a_status_in_its_slot() {
    crate::on_both_fabrics(|| {
        let (found, down) = link_events((true, true), |done, set| match done {
            20 => set(PortInfo::DOWN),
            23 => set(PortInfo::ACTIVE),
            _ => {}
        });
        let event = |slot, event: &str, detail: &str| (slot, event.to_owned(), detail.to_owned());
        let expected = [
            event(20, "link_down", "down"),
            event(23, "link_up", "active"),
        ];
        assert_eq!((found, down), (expected.to_vec(), vec![20, 21, 22]));
    });
}

#[test]
fn flaps_between_two_reads_of_the_state_are_counted() {
    let flap = |done: u64, set: &mut dyn FnMut(u8)| {
        // The link goes down twice between two slots, and then once for two slots with a flap.
        match done {
            20 => (0..2).for_each(|_| {
                set(PortInfo::DOWN);
                set(PortInfo::ACTIVE);
            }),
            30 => set(PortInfo::DOWN),
            32 => [PortInfo::ACTIVE, PortInfo::DOWN, PortInfo::ACTIVE]
                .into_iter()
                .for_each(set),
            _ => {}
        }
    };
    let flaps = |of: (bool, bool)| -> Vec<(u64, String)> {
        let (found, _) = link_events(of, flap);
        let flapped = found
            .into_iter()
            .filter(|(_, event, _)| event == "link_flapped");
        flapped.map(|(slot, _, detail)| (slot, detail)).collect()
    };
    let found = |slot, times| {
        (
            slot,
            format!("{} between two reads of the state", count(times, "time")),
        )
    };
    assert_eq!(flaps((true, true)), [found(21, 2), found(33, 1)]);
    // PortInfo replaces the table: it is read in the slot after that in which the counter has grown.
    for without in [(true, false), (false, true)] {
        assert_eq!(flaps(without), [found(21, 2), found(34, 1)], "{without:?}");
    }
}

#[test]
fn blocked_share_equals_the_simulated_wait() {
    // All hosts send to one: the ports of the leaf with three senders have to wait.
    let incast = Incast::onto_last_server(&fabric(), 5, Instant::ZERO, Duration::from_secs(3600))
        .expect("six hosts");
    let sim = SimFabric::with_traffic(
        fabric(),
        crate::options(),
        Traffic::incast(&fabric(), 1, &incast),
    );
    let lines = swept_on(sim, 30, &[Group::Extended, Group::Base], |_, _| {});
    let ports: Vec<&Port> = lines
        .iter()
        .filter_map(|line| {
            if let Line::Port(port) = line {
                Some(&**port)
            } else {
                None
            }
        })
        .collect();
    let mut blocked = 0;
    for port in ports
        .iter()
        .filter(|port| port.kind == Some(NodeKind::Switch))
    {
        let before = ports.iter().find(|before| {
            (before.guid, before.port, before.slot + 1) == (port.guid, port.port, port.slot)
        });
        let (Some(share), Some(before), Some(dt)) = (port.xmit_blocked, before, port.dt_ns) else {
            continue;
        };
        let ticks = |port: &Port| {
            port.counter("port_xmit_wait_ticks")
                .expect("every switch here has the counter")
        };
        // A tick of these switches is the time of 8 octets. 4xEDR transfers 12.5 octets per
        // nanosecond.
        let expected = (ticks(port) - ticks(before)) as f64 * 8.0 / 12.5 / dt as f64;
        assert!(
            (share - expected.min(1.0)).abs() < 1e-5,
            "{share} instead of {expected}"
        );
        blocked += usize::from(share > 0.0);
    }
    assert!(blocked > 0, "no port waited: the test shows nothing");
    assert!(
        ports
            .iter()
            .any(|port| port.kind == Some(NodeKind::Hca) && port.xmit_blocked.is_some()),
        "HCA ports have the share as well"
    );
}

#[test]
fn record_has_all_groups_that_the_device_supports() {
    let lines = swept(6, &Group::ALL, |_, _| {});
    let last = of_host(&lines, "leaf01").last().expect("swept");
    let strict::Value::Many(by_sl) = &last.counters["port_xmit_data_sl_bytes"] else {
        panic!("an array: {last:?}")
    };
    // The traffic uses SL 0 and 1. The MAD of the SL counters is answered later.
    let all = last
        .counter("port_xmit_data_bytes")
        .expect("every switch has the counter");
    assert!(
        by_sl.len() == 16
            && by_sl[0] + by_sl[1] >= all
            && by_sl[2..].iter().all(|octets| *octets == 0),
        "{by_sl:?} of {all}"
    );
    assert!(
        last.counters
            .contains_key("fec_correctable_block_counter_lane")
            && !last.counters.contains_key("port_vl_op_packets")
    );
    let host = of_host(&lines, "node00002").last().expect("swept");
    assert!(
        !host.counters.contains_key("port_xmit_data_sl_bytes")
            && host.counters.contains_key("option_mask")
    );
}
