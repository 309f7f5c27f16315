//! Tests of the states of a switch's ports, on the simulated fabric in virtual time.

use std::sync::{Arc, Mutex};

use super::super::*;
use super::SECOND;
use crate::mad::smp::PortInfo;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::cadence::Cadence;
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::{DeviceId, ports_report, synthetic};

/// A sweep of two leaf switches with three hosts each and a spine. A port whose link is down is
/// queried once in ten slots.
struct Bench {
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    leaf: DeviceId,
}

impl Bench {
    fn new(change: impl FnOnce(&mut SimFabric)) -> Self {
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
        let mut sim = SimFabric::new(fabric, Options::default());
        change(&mut sim);
        let sim = Arc::new(Mutex::new(sim));
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
    let mut bench = Bench::new(|_| {});
    assert_eq!(bench.slot(), (4, Status::Ok, false));
    bench.set_state(1);
    assert_eq!(bench.slot(), (1, Status::Down, true));
    assert_eq!(bench.slot(), (1, Status::Down, false));
    bench.set_state(2);
    assert_eq!(bench.slot(), (2, Status::Ok, true));
    bench.set_state(4);
    assert_eq!(bench.slot(), (4, Status::Ok, true));
}
