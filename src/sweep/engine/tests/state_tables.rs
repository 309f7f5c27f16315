//! Tests of the states of a switch's ports: MAD by MAD, and on the simulated fabric in virtual time.

use std::sync::{Arc, Mutex};

use ibnet_record::attributes::Group;
use ibnet_record::types::{Lid, NodeKind};

use super::super::state::Identity;
use super::super::*;
use super::{Bench, MS, SECOND, device, set_known, valid};
use crate::mad::header::Header;
use crate::mad::pma;
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::cadence::Cadence;
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::{DeviceId, ports_report, synthetic};

/// Returns a bench in whose slot the switch, at LID 1 with ports 1 and 2, has a table of states. Its
/// ports are active.
fn with_table(ports: u8) -> Bench {
    let plan = [
        device(1, NodeKind::Switch, &[1, 2]),
        device(2, NodeKind::Hca, &[1]),
    ];
    let config = Config {
        groups: [Group::Base].into(),
        state_tables: true,
        ..Config::default()
    };
    let mut engine = Engine::new(&plan, config, 7);
    set_known(&mut engine, 0);
    let info = NodeInfo {
        ports,
        ..NodeInfo::default()
    };
    engine.devices[0].identity.identity = Identity::Verified(info);
    engine.devices[0].state_table.is_supported = true;
    let active = PortInfo {
        state: PortInfo::ACTIVE,
        ..PortInfo::default()
    };
    engine
        .ports
        .iter_mut()
        .for_each(|port| port.link = Some(active));
    start(&mut engine, Instant::ZERO);
    Bench::of(engine)
}

fn start(engine: &mut Engine, at: Instant) {
    engine.start_slot(at, at + 900 * MS, at + 950 * MS);
}

/// Returns the LID, the attribute and the modifier of the requests from the n-th on.
fn requests(bench: &Bench, first: usize) -> Vec<(u16, u16, u8)> {
    let of = |(target, mad): &(Target, Mad)| {
        let header = Header::parse(mad);
        let is_smp = header.class == smp::CLASS_SUBN_LID_ROUTED;
        (
            target.lid.0,
            header.attribute,
            if is_smp { mad[23] } else { 0 },
        )
    };
    bench.sent[first..].iter().map(of).collect()
}

/// Makes a table or PortInfo in which port 1 and port 2 have these states.
fn states(one: u8, two: u8) -> impl FnOnce(&mut Mad, &mut Lid) {
    move |mad, _| {
        let port = mad[23];
        let is_table = Header::parse(mad).attribute == smp::SWITCH_PORT_STATE_TABLE;
        let data = pma::data_mut(mad);
        if is_table {
            (data[0], data[1]) = (0x40 | one, two << 4);
        } else {
            let state = if port == 1 { one } else { two };
            PortInfo {
                state,
                ..PortInfo::default()
            }
            .emit(data);
        }
    }
}

const TABLE: u16 = smp::SWITCH_PORT_STATE_TABLE;

#[test]
fn table_comes_before_all_counters_and_at_most_once_a_second() {
    let mut bench = with_table(36);
    assert_eq!(requests(&bench, 0), [(1, TABLE, 0), (2, 0x12, 0)]);
    bench.reply(0, states(4, 4));
    assert_eq!(requests(&bench, 2), [(1, 0x12, 0)]);
    for (ms, wanted) in [
        (900, vec![(1, 0x12, 0), (2, 0x12, 0)]),
        (1000, vec![(1, TABLE, 0), (2, 0x12, 0)]),
    ] {
        bench.now = Instant::ZERO + ms * MS;
        start(&mut bench.engine, bench.now);
        let first = bench.sent.len();
        bench.poll();
        assert_eq!(requests(&bench, first), wanted, "after {ms} ms");
    }
}

#[test]
fn change_is_confirmed_by_port_info_of_the_port_before_the_counters() {
    let mut bench = with_table(36);
    bench.reply(0, states(4, 1));
    assert_eq!(requests(&bench, 2), [(1, smp::PORT_INFO, 2)]);
    assert!(!bench.events.contains(&Event::Link(1)));
    bench.engine.devices[0].links.switch_mask = Some(0);
    bench.reply(2, states(4, 1));
    assert!(bench.events.contains(&Event::Link(1)));
    assert_eq!(requests(&bench, 3), [(1, 0x12, 0)]);
}

#[test]
fn value_that_port_info_does_not_confirm_is_not_asked_again() {
    let mut bench = with_table(36);
    for second in 0..3 {
        let first = bench.sent.len() - 2;
        bench.reply(first, states(4, 1));
        let asked = if second == 0 {
            (1, smp::PORT_INFO, 2)
        } else {
            (1, 0x12, 0)
        };
        assert_eq!(requests(&bench, first + 2), [asked], "second {second}");
        if second == 0 {
            bench.reply(first + 2, states(4, 4));
        }
        bench.now = Instant::ZERO + (second + 1) * SECOND;
        start(&mut bench.engine, bench.now);
        bench.poll();
    }
}

#[test]
fn lost_table_is_requested_again_once_the_switch_has_answered_counters() {
    let mut bench = with_table(36);
    bench.pass(6 * MS);
    assert_eq!(requests(&bench, 2), [(1, 0x12, 0)]);
    bench.reply(2, valid);
    assert_eq!(requests(&bench, 3), [(1, TABLE, 0)]);
    bench.reply(3, states(1, 4));
    assert_eq!(requests(&bench, 4), [(1, smp::PORT_INFO, 1)]);
}

#[test]
fn large_switch_has_two_blocks_and_a_refusal_ends_the_reads() {
    let mut bench = with_table(144);
    bench.reply(0, states(4, 4));
    assert_eq!(requests(&bench, 2), [(1, TABLE, 1)]);
    bench.reply(2, |mad, _| mad[5] = 0x0c);
    bench.now = Instant::ZERO + SECOND;
    start(&mut bench.engine, bench.now);
    let first = bench.sent.len();
    bench.poll();
    assert_eq!(requests(&bench, first), [(1, 0x12, 0), (2, 0x12, 0)]);
}

/// A sweep of two leaf switches with three hosts each and a spine. A port whose link is down is
/// queried once in ten slots.
struct Tree {
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    leaf: DeviceId,
}

impl Tree {
    fn new() -> Self {
        let tree = synthetic::FatTree {
            leaves: 2,
            hosts: 3,
            spines: 1,
            trunk: 1,
            radix: 8,
        };
        let report = tree.blueprint().ports_report();
        let fabric = ports_report::parse(report.as_bytes(), "tree")
            .expect("valid")
            .fabric;
        let plan = all_linked_ports(&fabric);
        let leaf = fabric
            .iter()
            .find(|(_, device)| device.name == "leaf01")
            .expect("a leaf")
            .0;
        let sim = Arc::new(Mutex::new(SimFabric::new(fabric, Options::default())));
        let config = Config {
            state_tables: true,
            cadence: Cadence::new(Vec::new(), 1, 10),
            ..Config::default()
        };
        let mut sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, 42);
        sweep.discover();
        sweep.slot(SECOND);
        Self { sim, sweep, leaf }
    }

    fn set_state(&mut self, state: u8) {
        let mut sim = self.sim.lock().expect("no panic");
        let num = sim
            .fabric()
            .device(self.leaf)
            .linked()
            .next()
            .expect("linked")
            .0
            .num;
        let info = PortInfo {
            state,
            ..PortInfo::default()
        };
        sim.set_link(self.leaf, num, info);
    }

    /// Returns the state and the status of the port in the next slot, and whether its link has
    /// changed in it.
    fn slot(&mut self) -> (u8, Status, bool) {
        let events = self.sweep.slot(SECOND);
        let guid = self
            .sim
            .lock()
            .expect("no panic")
            .fabric()
            .device(self.leaf)
            .guid;
        let is_leaf = |device: &Device| device.identity.expected == guid;
        let device = self
            .sweep
            .engine
            .devices
            .iter()
            .find(|device| is_leaf(device));
        let port = device.expect("planned").ports.start as usize;
        let (link, _) = self.sweep.engine.link(port).expect("known");
        (
            link.state,
            self.sweep.engine.sample(port).status,
            events.contains(&Event::Link(port)),
        )
    }
}

#[test]
fn change_of_a_link_is_known_in_its_slot() {
    let mut tree = Tree::new();
    assert_eq!(tree.slot(), (4, Status::Ok, false));
    tree.set_state(1);
    assert_eq!(tree.slot(), (1, Status::Down, true));
    assert_eq!(tree.slot(), (1, Status::Down, false));
    tree.set_state(2);
    assert_eq!(tree.slot(), (2, Status::Ok, true));
    tree.set_state(4);
    assert_eq!(tree.slot(), (4, Status::Ok, true));
}
