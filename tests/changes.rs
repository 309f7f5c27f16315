//! A sweep in real time, on a simulated fabric that changes under it: what the lines say of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::Sampler;
use ibnet::mad::pma::Group;
use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::sink::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::record::line::{self, Event, Line, Port};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet::types::{LinkRate, NodeKind, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
}

fn find(fabric: &Fabric, host: &str) -> DeviceId {
    fabric.iter().find(|(_, device)| device.host() == host).expect("in the fabric").0
}

/// Sweeps so many slots, all of the fabric; before the slot after each, `meddle` is called with how many there were.
fn swept(slots: u64, groups: &[Group], meddle: impl FnMut(u64, &mut SimFabric)) -> Vec<Line> {
    swept_on(SimFabric::new(fabric(), Options::default()), slots, groups, meddle)
}

fn swept_on(sim: SimFabric, slots: u64, groups: &[Group], mut meddle: impl FnMut(u64, &mut SimFabric)) -> Vec<Line> {
    let sim = Arc::new(Mutex::new(sim));
    let (outlet, lines) = Destination::memory();
    let settings = DriverSettings {
        sampler: "here".to_owned(),
        ca: "sim".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(60),
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(slots),
        assignments_sha256: None,
        engine: Config { groups: groups.into(), identity_every: Duration::from_millis(600), ..Config::default() },
    };
    let plan = SweepPlan::new(&Sampler::everything(&fabric(), "here").0);
    let driver = Driver::new(plan, settings, SimTransport::new(Arc::clone(&sim)), SystemClock::start(), outlet, 1);
    let mut text = String::new();
    driver
        .run(&Control::default(), |report| {
            text += &lines.text();
            meddle(report.done, &mut sim.lock().expect("nobody panics with it"));
        })
        .expect("nothing is lost");
    text += &lines.text();
    text.lines().map(|text| line::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))).collect()
}

fn of_host<'a>(lines: &'a [Line], host: &'a str) -> impl Iterator<Item = &'a Port> {
    let ports = lines.iter().filter_map(|line| if let Line::Port(port) = line { Some(&**port) } else { None });
    ports.filter(move |port| port.node.split(' ').next() == Some(host))
}

fn events<'a>(lines: &'a [Line], kind: &'a str) -> Vec<&'a Event> {
    lines
        .iter()
        .filter_map(|line| if let Line::Event(event) = line { Some(event) } else { None })
        .filter(|event| event.event == kind)
        .collect()
}

#[test]
fn hosts_that_swap_their_lids_are_told_withheld_and_found() {
    let fabric = fabric();
    let (one, other) = (find(&fabric, "node00002"), find(&fabric, "node00005"));
    let lines = swept(40, &[Group::Extended], |done, sim| {
        if done == 12 {
            sim.swap_lids(one, other);
        }
    });
    assert_eq!((events(&lines, "wrong_device").len(), events(&lines, "lid_change").len()), (2, 2));
    for (host, id, lid) in [("node00002", one, fabric.device(other).lid), ("node00005", other, fabric.device(one).lid)] {
        let found = events(&lines, "wrong_device").into_iter().find(|event| event.guid == Some(fabric.device(id).guid)).expect("told");
        let records: Vec<_> = of_host(&lines, host).collect();
        let in_that_slot = records.iter().find(|port| port.slot == found.slot).expect("every port has a record in every slot");
        assert_eq!((in_that_slot.status.as_str(), in_that_slot.counters.len()), ("wrong_device", 0));
        let after: Vec<_> = records.iter().filter(|port| port.slot > found.slot).collect();
        assert!(after.iter().all(|port| port.status == "wrong_device" || (port.lid, port.identity.as_str()) == (lid, "ok")), "{after:?}");
        assert!(after.iter().any(|port| port.status == "ok" && port.xmit_gbps.is_some()), "{after:?}");
        // What it counts now is no continuation of what the other counted under its name.
        assert!(!events(&lines, "reset").iter().any(|event| event.guid == found.guid && event.slot > found.slot));
    }
}

#[test]
fn a_link_that_degrades_goes_down_and_comes_back_is_told() {
    let leaf = find(&fabric(), "leaf01");
    let port = fabric().device(leaf).linked().next().expect("linked").0.num;
    let edr = PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE);
    let lines = swept(60, &[Group::Extended], |done, sim| match done {
        5 => sim.set_link(leaf, port, PortInfo::of_rate(&LinkRate::new("1x", "EDR"), PortInfo::ACTIVE)),
        22 => sim.set_link(leaf, port, PortInfo { state: 1, ..PortInfo::default() }),
        40 => sim.set_link(leaf, port, edr),
        _ => {}
    });
    let told = |kind| events(&lines, kind).iter().map(|event| (event.port, event.detail.clone())).collect::<Vec<_>>();
    let change = |detail: &str| (Some(port), detail.to_owned());
    assert_eq!(told("link_change"), [change("from 4xEDR to 1xEDR"), change("from 1xEDR to 4xEDR")]);
    assert_eq!((told("link_down"), told("link_up")), (vec![change("down")], vec![change("active")]));
    let slow = of_host(&lines, "leaf01").filter(|record| record.port == port && record.link == "1xEDR" && record.xmit_gbps > Some(0.5));
    for record in slow {
        let share = record.xmit_gbps.expect("just looked") / 25.0;
        assert!((record.xmit_utilization.expect("both are known") - share).abs() < 1e-5, "of the rate of now: {record:?}");
    }
}

#[test]
fn the_share_of_time_blocked_is_that_of_the_simulated_wait() {
    // All send to one: what the leaf with three of them passes on has to wait.
    let incast = Incast::onto_last_server(&fabric(), 5, Instant::ZERO, Duration::from_secs(3600)).expect("six hosts");
    let sim = SimFabric::with_traffic(fabric(), Options::default(), Traffic::incast(&fabric(), 1, &incast));
    let lines = swept_on(sim, 30, &[Group::Extended, Group::Base], |_, _| {});
    let ports: Vec<&Port> = lines.iter().filter_map(|line| if let Line::Port(port) = line { Some(&**port) } else { None }).collect();
    let mut blocked = 0;
    for port in ports.iter().filter(|port| port.kind == NodeKind::Switch) {
        let before = ports.iter().find(|before| (before.guid, before.port, before.slot + 1) == (port.guid, port.port, port.slot));
        let (Some(share), Some(before), Some(dt)) = (port.xmit_blocked, before, port.dt_ns) else { continue };
        let ticks = |port: &Port| port.counter("port_xmit_wait_ticks").expect("every switch here has it");
        // A tick of these switches is the time of 8 octets of the whole port; 4xEDR has 12.5 of them a nanosecond.
        let expected = (ticks(port) - ticks(before)) as f64 * 8.0 / 12.5 / dt as f64;
        assert!((share - expected.min(1.0)).abs() < 1e-5, "{share} instead of {expected}");
        blocked += usize::from(share > 0.0);
    }
    assert!(blocked > 0, "no port waited, so nothing was shown");
    assert!(ports.iter().any(|port| port.kind == NodeKind::Hca && port.xmit_blocked.is_some()), "adapters tell too");
}

#[test]
fn all_groups_fit_into_a_line_and_what_a_device_has_not_is_absent() {
    let lines = swept(6, &Group::ALL, |_, _| {});
    let last = of_host(&lines, "leaf01").last().expect("swept");
    let line::Value::Many(by_sl) = &last.counters["port_xmit_data_sl_bytes"] else { panic!("an array: {last:?}") };
    // All of the traffic rides SL 0; that MAD was answered later, and its words stick at the end of 32 bits.
    let all = last.counter("port_xmit_data_bytes").expect("every switch has it").min(0xffff_ffff * 4);
    assert!(by_sl.len() == 16 && by_sl[0] >= all && by_sl[1..].iter().all(|octets| *octets == 0), "{by_sl:?} of {all}");
    assert!(last.counters.contains_key("fec_correctable_block_counter_lane") && !last.counters.contains_key("port_vl_op_packets"));
    let host = of_host(&lines, "node00002").last().expect("swept");
    assert!(!host.counters.contains_key("port_xmit_data_sl_bytes") && host.counters.contains_key("option_mask"));
}
