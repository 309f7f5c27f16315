//! Tests of SMPs by directed routes, on a simulated fabric that does not answer SMPs by LID.

use ibnet_record::types::Lid;

use super::identity::Sweep;
use super::*;
use crate::mad::transport::sim::Options;
use crate::topology::Port;

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
            slots(&mut sweep, 12);
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
