//! Verification of peers on the simulated fabric, in virtual time.

use std::sync::{Arc, Mutex};

use super::*;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::routes::End;
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::synthetic::FatTree;
use crate::topology::{DeviceId, Fabric, ports_report};

/// Two leaf switches with three hosts each, and one spine switch: 4 links between switches.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 1,
    trunk: 2,
    radix: 8,
};

/// Ports of switches: 6 to hosts, and both ends of 4 links.
const SWITCH_PORTS: u64 = 14;

struct Sweep {
    fabric: Fabric,
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    ports: Vec<(DeviceId, PortNum)>,
}

impl Sweep {
    fn new(verify: bool) -> Self {
        let fabric = ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
            .unwrap()
            .fabric;
        let sim = Arc::new(Mutex::new(SimFabric::new(
            fabric.clone(),
            Options::default(),
        )));
        let plan = all_linked_ports(&fabric);
        let config = Config {
            identity_every: 10 * SECOND,
            ..Config::default()
        };
        let mut sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, 7);
        let ports: Vec<_> = plan
            .iter()
            .flat_map(|device| {
                device
                    .ports
                    .iter()
                    .map(|port| (fabric.find(device.guid, device.ports[0]).unwrap(), *port))
            })
            .collect();
        if verify {
            let peers = ports.iter().map(|(id, port)| {
                fabric
                    .device(*id)
                    .port(*port)?
                    .peer
                    .as_ref()
                    .map(|peer| (peer.guid, peer.port))
            });
            sweep.engine.verify_peers(peers.collect::<Vec<_>>());
        }
        sweep.discover();
        Self {
            fabric,
            sim,
            sweep,
            ports,
        }
    }

    fn named(&self, name: &str) -> DeviceId {
        self.fabric
            .iter()
            .find(|(_, device)| device.host() == name)
            .unwrap()
            .0
    }

    /// Returns the switch port to which a host is connected.
    fn port_of(&self, host: &str) -> (usize, End) {
        let device = self.fabric.device(self.named(host));
        let peer = device.ports[0].peer.as_ref().unwrap();
        let switch = self.fabric.find(peer.guid, peer.port).unwrap();
        (
            self.ports
                .iter()
                .position(|port| *port == (switch, peer.port))
                .unwrap(),
            (device.guid, device.ports[0].num),
        )
    }

    /// Runs slots. Returns the events about peers, and checks that every port is `ok`.
    fn run(&mut self, slots: u32) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..slots {
            events.extend(self.sweep.slot(SECOND));
            assert_eq!(
                self.sweep.engine.stats().count(Status::Ok) as usize,
                self.ports.len()
            );
        }
        events.retain(|event| !matches!(event, Event::Port(_) | Event::SlotDone | Event::Link(_)));
        events
    }
}

#[test]
fn each_peer_of_a_switch_is_verified_once_a_round() {
    let mads = |verify| {
        let mut sweep = Sweep::new(verify);
        let before = sweep.sim.lock().unwrap().mads();
        assert_eq!(sweep.run(30), []);
        sweep.sim.lock().unwrap().mads() - before
    };
    assert_eq!(mads(true) - mads(false), 3 * SWITCH_PORTS);
}

#[test]
fn moved_cable_is_reported_once_and_when_it_is_back() {
    let mut sweep = Sweep::new(true);
    assert_eq!(sweep.run(1), []);
    let ((port, host), (_, other)) = (sweep.port_of("node00001"), sweep.port_of("node00002"));
    let (id, num) = sweep.ports[port];
    let connect = |sweep: &Sweep, name: &str| {
        let peer = sweep.named(name);
        sweep
            .sim
            .lock()
            .unwrap()
            .set_peer(id, num, Some((peer, PortNum(1))));
    };
    connect(&sweep, "node00002");
    assert_eq!(sweep.run(31), [Event::Peer { port, found: other }]);
    connect(&sweep, "node00001");
    assert_eq!(sweep.run(31), [Event::Peer { port, found: host }]);
}

#[test]
fn silent_peer_delays_no_counters_and_is_not_the_fault_of_the_switch() {
    let mut sweep = Sweep::new(true);
    let (port, _) = sweep.port_of("node00001");
    let (id, num) = sweep.ports[port];
    sweep.sim.lock().unwrap().set_peer(id, num, None);
    let ended: Vec<_> = (0..200)
        .map(|_| {
            assert_eq!(sweep.run(1), []);
            sweep.sweep.engine.stats().duration()
        })
        .collect();
    let silent = ended.iter().max().unwrap();
    let mut whole = Sweep::new(true);
    let answered = (0..200).map(|_| {
        assert_eq!(whole.run(1), []);
        whole.sweep.engine.stats().duration()
    });
    assert!(*silent < answered.max().unwrap() + MS, "{silent:?}");
    // Three rounds, then each tenth of 17 further rounds.
    assert_eq!(sweep.sweep.engine.peers.failures_of(port), 20);
}

#[test]
fn missing_agent_for_directed_routes_stops_only_the_verification_of_peers() {
    let mut bench = Bench::new(|_| {});
    bench
        .engine
        .verify_peers([Some((Guid(2), PortNum(1))), None, None]);
    bench.engine.verify_all();
    let is_directed = |mad: &Mad| Header::parse(mad).class == 0x81;
    for slot in 1..4_u64 {
        let mut n = bench.sent.len();
        bench.now = Instant::ZERO + SECOND * slot as u32;
        bench
            .engine
            .start_slot(bench.now, bench.now + 900 * MS, bench.now + 950 * MS);
        bench.poll();
        while n < bench.sent.len() {
            if is_directed(&bench.sent[n].1) {
                let tid = Header::parse(&bench.sent[n].1).tid;
                bench.engine.handle_completion(
                    &Completion {
                        tid,
                        outcome: Outcome::NoAgent,
                    },
                    &[0; MAD_LEN],
                    bench.now,
                );
                bench.poll();
            } else {
                bench.reply(n, valid);
            }
            n += 1;
        }
    }
    assert_eq!(
        bench
            .sent
            .iter()
            .filter(|(_, mad)| is_directed(mad))
            .count(),
        1
    );
    assert!(!bench.engine.no_smp_agent);
    // The slot of the bench, and three slots.
    assert_eq!(
        bench
            .events
            .iter()
            .filter(|event| **event == Event::SlotDone)
            .count(),
        4
    );
}
