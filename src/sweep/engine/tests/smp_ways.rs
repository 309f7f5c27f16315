//! Tests of SMPs by directed routes, on a simulated fabric that does not answer SMPs by LID.

use std::sync::Arc;

use ibnet_record::types::Lid;

use super::identity::Sweep;
use super::*;
use crate::mad::smp::PortInfo;
use crate::mad::transport::sim::Options;
use crate::sweep::virtual_sweep::all_linked_ports;
use crate::topology::synthetic::FatTree;
use crate::topology::{DeviceId, Port};

/// Returns the options of a planarized fabric.
fn no_lids() -> Options {
    Options {
        smps_by_lid: false,
        ..Options::default()
    }
}

/// Number of devices of the tree.
const DEVICES: usize = 12;

fn config(smp: SmpWay) -> Config {
    Config {
        smp,
        identity_every: SECOND,
        ..Config::default()
    }
}

fn sweep(smp: SmpWay) -> Sweep {
    Sweep::new(config(smp), no_lids(), |_| {})
}

fn slots(sweep: &mut Sweep, count: u32) {
    for _ in 0..count {
        sweep.slot();
    }
}

/// Returns the number of ports of verified devices in the last slot.
fn verified(sweep: &Sweep) -> usize {
    let engine = &sweep.virtual_sweep.engine;
    (0..engine.ports())
        .filter(|port| engine.sample(*port).verified)
        .count()
}

fn by_route(by_route: usize) -> SmpWays {
    SmpWays {
        by_route,
        ..SmpWays::default()
    }
}

#[test]
fn devices_links_and_subnet_managers_are_read_by_routes() {
    let config = Config {
        managers_every: Some(SECOND),
        state_tables: true,
        ..config(SmpWay::Directed)
    };
    let mut sweep = Sweep::new(config, no_lids(), |_| {});
    sweep.slot();
    sweep.slot();
    let engine = &sweep.virtual_sweep.engine;
    assert_eq!(verified(&sweep), engine.ports());
    assert!((0..engine.ports()).all(|port| engine.link(port).is_some()));
    assert!((0..engine.ports()).any(|port| engine.state_read_at(port) > engine.state_read_at(0)));
    assert_eq!(engine.subnet_managers().count(), 1);
    assert_eq!(engine.smp_ways(), by_route(DEVICES));
}

#[test]
fn without_smps_by_lid_nothing_is_verified_by_lid() {
    let mut sweep = sweep(SmpWay::Lid);
    sweep.slot();
    assert_eq!(verified(&sweep), 0);
    assert_eq!(sweep.virtual_sweep.engine.smp_ways(), SmpWays::default());
}

#[test]
fn auto_finds_the_way_that_is_answered_and_keeps_it() {
    let (mut auto, mut directed) = (sweep(SmpWay::Auto), sweep(SmpWay::Directed));
    slots(&mut auto, 5);
    assert_eq!(verified(&auto), auto.virtual_sweep.engine.ports());
    assert_eq!(auto.virtual_sweep.engine.smp_ways(), by_route(DEVICES));
    slots(&mut directed, 5);
    let of_ten = |sweep: &mut Sweep| (0..10).map(|_| sweep.mads()).sum::<u64>();
    assert_eq!(of_ten(&mut auto), of_ten(&mut directed));
    let mut by_lid = Sweep::new(config(SmpWay::Auto), Options::default(), |_| {});
    by_lid.slot();
    let ways = by_lid.virtual_sweep.engine.smp_ways();
    assert_eq!((ways.by_lid, ways.by_route), (DEVICES, 0));
}

#[test]
fn requests_that_are_given_up_late_are_no_failures_of_the_next_way() {
    // The start repeats NodeInfo many times before the first request is given up.
    let config = Config {
        grace: Duration::from_millis(50),
        ..config(SmpWay::Auto)
    };
    let mut sweep = Sweep::new(config, no_lids(), |_| {});
    slots(&mut sweep, 2);
    let engine = &sweep.virtual_sweep.engine;
    assert_eq!(engine.smp_ways(), by_route(DEVICES));
    assert_eq!(verified(&sweep), engine.ports());
}

#[test]
fn another_route_leads_around_a_dead_switch() {
    for smp in [SmpWay::Directed, SmpWay::Auto] {
        let mut sweep = sweep(smp);
        slots(&mut sweep, 5);
        let ports = sweep.virtual_sweep.engine.ports();
        assert_eq!(verified(&sweep), ports);
        for spine in ["spine01", "spine02"] {
            let (id, _) = sweep.find(spine);
            let of_spine = sweep.fabric.device(id).linked_ports();
            sweep.change(|sim| sim.set_dead(id, true));
            for _ in 0..12 {
                let is_lost = |event: &Event| matches!(event, Event::NoRoute(_));
                assert!(
                    !sweep.slot().iter().any(is_lost),
                    "a dead device is no lost route"
                );
            }
            assert_eq!(
                verified(&sweep),
                ports - of_spine,
                "{smp:?} without {spine}"
            );
            sweep.change(|sim| sim.set_dead(id, false));
            slots(&mut sweep, 12);
            assert_eq!(verified(&sweep), ports, "{smp:?} with {spine}");
        }
    }
}

#[test]
fn device_itself_says_its_new_lid() {
    let mut sweep = sweep(SmpWay::Directed);
    sweep.slot();
    let hosts = ["node00002", "node00007"].map(|host| sweep.find(host));
    let lids = hosts.map(|(_, device)| sweep.virtual_sweep.engine.lid(device));
    sweep.change(|sim| sim.swap_lids(hosts[0].0, hosts[1].0));
    let mut events = Vec::new();
    for _ in 0..3 {
        events.extend_from_slice(sweep.slot());
    }
    for (place, (_, device)) in hosts.into_iter().enumerate() {
        let (from, to) = (lids[place], lids[1 - place]);
        assert!(events.contains(&Event::LidChange { device, from, to }));
        assert_eq!(sweep.status(device), Status::Ok);
    }
    let is_silent = |event: &Event| matches!(event, Event::Unreachable(_));
    assert!(!events.iter().any(is_silent));
    assert_eq!(verified(&sweep), sweep.virtual_sweep.engine.ports());
}

/// A route shows nothing about the LID of a device that is no longer at its end.
#[test]
fn other_device_at_the_end_of_a_route_is_no_wrong_device() {
    let mut sweep = sweep(SmpWay::Directed);
    sweep.slot();
    let ports = sweep.virtual_sweep.engine.ports();
    let (leaf, _) = sweep.find("leaf02");
    let (host, moved) = sweep.find("node00007");
    let at =
        |of: &Port| of.peer.as_ref().map(|peer| peer.guid) == Some(sweep.fabric.device(host).guid);
    let port = sweep.fabric.device(leaf).ports.iter().find(|of| at(of));
    let port = port.expect("a cable").num;
    let (other, _) = sweep.find("node00002");
    sweep.change(|sim| sim.set_peer(leaf, port, Some((other, PortNum(1)))));
    for _ in 0..12 {
        let events = sweep.slot();
        let is_wrong = |event: &Event| matches!(event, Event::WrongDevice { .. });
        assert!(!events.iter().any(is_wrong), "{events:?}");
    }
    assert_eq!(verified(&sweep), ports - 1);
    assert_eq!(sweep.status(moved), Status::Ok);
    sweep.change(|sim| sim.set_peer(leaf, port, Some((host, PortNum(1)))));
    slots(&mut sweep, 12);
    assert_eq!(verified(&sweep), ports);
}

#[test]
fn lid_of_a_dead_device_that_another_one_has_now_is_not_used() {
    let mut sweep = sweep(SmpWay::Directed);
    sweep.slot();
    let [(dead, device), (moved, other)] = ["node00002", "node00007"].map(|host| sweep.find(host));
    let lid = sweep.virtual_sweep.engine.lid(device);
    let found = sweep.fabric.device(moved).guid;
    sweep.change(|sim| {
        sim.set_dead(dead, true);
        sim.move_lid(dead, Lid(0xbff0));
        sim.move_lid(moved, lid);
    });
    let mut events = Vec::new();
    for _ in 0..4 {
        events.extend_from_slice(sweep.slot());
    }
    assert!(events.contains(&Event::WrongDevice { device, found }));
    assert_eq!(sweep.status(device), Status::WrongDevice);
    assert_eq!(sweep.status(other), Status::Ok);
}

#[test]
fn without_cables_no_smp_is_sent_by_routes() {
    let mut bench = Bench::new(|config| config.smp = SmpWay::Directed);
    bench.engine.set_local(Local::default());
    for n in 0..12 {
        if n < bench.sent.len() {
            bench.reply(n, valid);
        }
    }
    let of_pma = |mad: &Mad| Header::parse(mad).class == pma::CLASS_PERF_MGT;
    assert!(!bench.sent.is_empty() && bench.sent.iter().all(|(_, mad)| of_pma(mad)));
    assert_eq!(bench.engine.smp_ways().unknown, 2);
}

/// Verifies devices and links only once an hour, like a sweep that relies on traps and tables.
fn rare(state_tables: bool) -> Sweep {
    let config = Config {
        identity_every: 3600 * SECOND,
        state_tables,
        ..config(SmpWay::Directed)
    };
    Sweep::new(config, no_lids(), |_| {})
}

/// Returns both ends of the cable between a leaf and a spine switch.
fn cable_of(sweep: &Sweep, leaf: &str, spine: &str) -> [(DeviceId, PortNum); 2] {
    let [leaf, spine] = [leaf, spine].map(|name| sweep.find(name).0);
    let guid = sweep.fabric.device(spine).guid;
    let ports = &sweep.fabric.device(leaf).ports;
    let port = ports
        .iter()
        .find(|port| port.peer.as_ref().is_some_and(|peer| peer.guid == guid));
    let port = port.expect("a cable");
    let peer = port.peer.as_ref().expect("a cable");
    [(leaf, port.num), (spine, peer.port)]
}

#[test]
fn lost_request_moves_a_device_to_another_route_in_the_same_slot() {
    for state_tables in [false, true] {
        let mut sweep = rare(state_tables);
        slots(&mut sweep, 2);
        let (_, spine) = sweep.find("spine01");
        let lid = sweep.virtual_sweep.engine.lid(spine);
        let ends = cable_of(&sweep, "leaf01", "spine01");
        let ports = sweep.virtual_sweep.engine.ports();
        sweep.change(|sim| {
            ends.iter()
                .for_each(|(id, port)| sim.set_peer(*id, *port, None));
        });
        if !state_tables {
            sweep.virtual_sweep.engine.read_links_at(lid);
        }
        let before = sweep.virtual_sweep.engine.devices[spine].way.route();
        slots(&mut sweep, 2);
        let device = &sweep.virtual_sweep.engine.devices[spine];
        assert!(device.way.route() != before && !device.identity.is_querying());
        assert_eq!(verified(&sweep), ports, "{state_tables}");
    }
}

/// A change is seen, the device is verified, and the change is read again: in different slots.
#[test]
fn change_behind_a_cut_cable_is_one_event_if_devices_are_slow_and_slots_short() {
    for (delay, length) in (0..32)
        .step_by(4)
        .flat_map(|delay| [100, 150, 200].map(|length| (delay, length)))
    {
        let mut sweep = rare(false);
        slots(&mut sweep, 2);
        let (id, spine) = sweep.find("spine01");
        let lid = sweep.virtual_sweep.engine.lid(spine);
        let ends = cable_of(&sweep, "leaf01", "spine01");
        let port = sweep.port(spine) + usize::from(ends[1].1.0) - 1;
        let (info, _) = sweep.virtual_sweep.engine.link(port).expect("read");
        sweep.change(|sim| {
            ends.iter()
                .for_each(|(id, port)| sim.set_peer(*id, *port, None));
            let state = PortInfo::DOWN;
            sim.set_link(id, ends[1].1, PortInfo { state, ..info });
            sim.set_smp_service(id, delay * MS);
        });
        sweep.virtual_sweep.engine.read_links_at(lid);
        let mut events = Vec::new();
        for _ in 0..20 {
            let of_slot = sweep.virtual_sweep.slot(length * MS);
            events.extend(
                of_slot
                    .into_iter()
                    .filter(|event| matches!(event, Event::Link(_))),
            );
        }
        assert_eq!(events, [Event::Link(port)], "{delay} ms of {length} ms");
    }
}

/// The cable of a route is cut after some links were read.
#[test]
fn links_are_read_if_the_route_breaks_while_they_are_read() {
    let mut cuts = 0;
    for (delay, nth) in (0..24).flat_map(|delay| [0, 1, 2].map(|nth| (delay, nth))) {
        let mut sweep = rare(false);
        slots(&mut sweep, 2);
        let [(id, spine), (other, leaf)] = ["spine01", "leaf02"].map(|name| sweep.find(name));
        let ends = cable_of(&sweep, "leaf01", "spine01");
        // New states of another switch are the times of the cut.
        let first = sweep.port(leaf);
        let (info, _) = sweep.virtual_sweep.engine.link(first).expect("read");
        sweep.change(|sim| {
            sim.set_smp_service(id, delay * MS / 4);
            for port in &sweep.fabric.device(other).ports {
                let state = PortInfo::DOWN;
                sim.set_link(other, port.num, PortInfo { state, ..info });
            }
        });
        for device in [spine, leaf] {
            let engine = &mut sweep.virtual_sweep.engine;
            let lid = engine.lid(device);
            engine.read_links_at(lid);
        }
        let (sim, mut seen) = (Arc::clone(&sweep.sim), 0);
        let start = sweep.virtual_sweep.now();
        sweep.virtual_sweep.run_slot(start, SECOND, |event| {
            if matches!(event, Event::Link(_)) {
                if seen == nth {
                    let mut sim = sim.lock().expect("no thread panicked");
                    ends.iter()
                        .for_each(|(id, port)| sim.set_peer(*id, *port, None));
                    cuts += 1;
                }
                seen += 1;
            }
        });
        sweep.virtual_sweep.wait_until(start + SECOND);
        slots(&mut sweep, 3);
        let engine = &sweep.virtual_sweep.engine;
        let ports = engine.devices[spine].ports.clone();
        let is_read = |port: u32| engine.ports[port as usize].state_read_at >= Some(start);
        let unread: Vec<u32> = ports.filter(|port| !is_read(*port)).collect();
        assert!(unread.is_empty(), "{delay}, after {nth} links: {unread:?}");
    }
    assert!(cuts > 24, "{cuts} cuts");
}

/// Exchanges the far ends of two cables, or puts them back.
fn exchange(sweep: &Sweep, [one, other]: [[(DeviceId, PortNum); 2]; 2], is_back: bool) {
    let pairs = if is_back {
        [one, other]
    } else {
        [[one[0], other[1]], [other[0], one[1]]]
    };
    sweep.change(|sim| {
        for [a, b] in pairs {
            sim.set_peer(a.0, a.1, Some(b));
            sim.set_peer(b.0, b.1, Some(a));
        }
    });
}

#[test]
fn exchanged_cables_between_switches_are_four_events_and_routes_follow_them() {
    let tree = FatTree {
        leaves: 3,
        hosts: 2,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    // The identity of a switch is verified before or after its peers.
    let config = Config {
        identity_every: 5 * SECOND,
        ..config(SmpWay::Directed)
    };
    let mut sweep = Sweep::of(&tree, config, no_lids(), |_| {});
    let plan = all_linked_ports(&sweep.fabric);
    let peers = plan.iter().flat_map(|device| {
        let id = sweep.fabric.find(device.guid, device.ports[0]);
        let id = id.expect("in the fabric");
        let ports = &sweep.fabric.device(id).ports;
        let linked = ports.iter().filter_map(|port| port.peer.as_ref());
        linked.map(|peer| Some((peer.guid, peer.port)))
    });
    sweep
        .virtual_sweep
        .engine
        .verify_peers(peers.collect::<Vec<_>>());
    slots(&mut sweep, 3);
    let ports = sweep.virtual_sweep.engine.ports();
    for pair in [
        ["leaf01", "leaf02"],
        ["leaf02", "leaf03"],
        ["leaf01", "leaf03"],
    ] {
        let cables = [(pair[0], "spine01"), (pair[1], "spine02")];
        let cables = cables.map(|(leaf, spine)| cable_of(&sweep, leaf, spine));
        for is_back in [false, true] {
            exchange(&sweep, cables, is_back);
            let mut events = Vec::new();
            for _ in 0..41 {
                let all = sweep.slot().iter();
                events
                    .extend(all.filter(|event| !matches!(event, Event::Port(_) | Event::SlotDone)));
            }
            let is_peer = |event: &Event| matches!(event, Event::Peer { .. });
            assert!(
                events.len() == 4 && events.iter().all(is_peer),
                "{pair:?} {is_back} {events:?}"
            );
            assert_eq!(verified(&sweep), ports, "{pair:?} {is_back}");
        }
    }
}

#[test]
fn device_without_a_route_is_one_event_and_is_found_again() {
    let mut sweep = sweep(SmpWay::Directed);
    slots(&mut sweep, 2);
    let cables = [("leaf01", "spine01"), ("leaf02", "spine02")];
    let cables = cables.map(|(leaf, spine)| cable_of(&sweep, leaf, spine));
    let ports = sweep.virtual_sweep.engine.ports();
    let lost = |sweep: &mut Sweep| {
        let mut events = Vec::new();
        for _ in 0..20 {
            events.extend_from_slice(sweep.slot());
        }
        events.retain(|event| !matches!(event, Event::Port(_) | Event::SlotDone));
        events
    };
    // One leaf and one spine switch, and the other two, are islands now.
    exchange(&sweep, cables, false);
    let mut events = lost(&mut sweep);
    let of_island = verified(&sweep);
    assert!((1..ports).contains(&of_island));
    events.sort_unstable_by_key(|event| format!("{event:?}"));
    let all = events.len();
    events.dedup();
    let is_lost = |event: &Event| matches!(event, Event::NoRoute(_));
    // Leaf, spine and four hosts.
    assert!(
        all == 6 && events.len() == 6 && events.iter().all(is_lost),
        "{events:?}"
    );
    exchange(&sweep, cables, true);
    assert_eq!(lost(&mut sweep), []);
    assert_eq!(verified(&sweep), ports);
}
