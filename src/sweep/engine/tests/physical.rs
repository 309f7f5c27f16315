//! Reads of the physical layer on the simulated fabric, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ibnet_record::physical::PhysicalKind;
use ibnet_record::registers::Page;
use ibnet_record::types::LinkRate;

use super::*;
use crate::mad::smp::PortInfo;
use crate::mad::transport::sim::{Firmware, Options, SimFabric};
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::synthetic::FatTree;
use crate::topology::{DeviceId, Fabric, ports_report};

/// Two leaf switches with eight hosts each, and two spine switches.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 8,
    spines: 2,
    trunk: 2,
    radix: 16,
};

struct Sweep {
    fabric: Fabric,
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    ports: usize,
    interval: Duration,
}

impl Sweep {
    fn new(physical: Option<PhysicalConfig>, firmware: Firmware) -> Self {
        let fabric = ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
            .unwrap()
            .fabric;
        let options = Options {
            jitter: 0.0,
            ..Options::default()
        };
        let mut sim = SimFabric::new(fabric.clone(), options);
        for (id, _) in fabric.iter() {
            sim.set_firmware(id, firmware);
        }
        let sim = Arc::new(Mutex::new(sim));
        let plan = all_linked_ports(&fabric);
        let config = Config {
            physical,
            ..Config::default()
        };
        let mut sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, 7);
        sweep.discover();
        let ports = plan.iter().map(|device| device.ports.len()).sum();
        Self {
            fabric,
            sim,
            sweep,
            ports,
            interval: SECOND,
        }
    }

    fn switch(&self) -> DeviceId {
        let mut devices = self.fabric.iter();
        let found = devices.find(|(_, device)| device.kind == NodeKind::Switch);
        found.expect("a switch").0
    }

    /// Runs slots. Returns the readings, and the events about the physical layer.
    fn run(&mut self, slots: u64) -> (Vec<PhysicalReading>, Vec<Event>) {
        let (mut readings, mut events) = (Vec::new(), Vec::new());
        for _ in 0..slots {
            events.extend(self.sweep.slot(self.interval));
            let ok = self.sweep.engine.stats().count(Status::Ok) as usize;
            assert_eq!(ok, self.ports, "the counters of all ports are read");
            readings.extend(std::iter::from_fn(|| self.sweep.engine.take_physical()));
        }
        events.retain(|event| {
            matches!(
                event,
                Event::PhysicalUnsupported { .. }
                    | Event::PhysicalLate { .. }
                    | Event::KeyDemanded { .. }
            )
        });
        (readings, events)
    }
}

/// A budget with which the readings of a small fabric are never late.
fn ample() -> Option<PhysicalConfig> {
    Some(PhysicalConfig {
        budget_ppm: 300_000,
        ..PhysicalConfig::default()
    })
}

#[test]
fn every_port_is_read_in_its_time() {
    let mut sweep = Sweep::new(ample(), Firmware::Reliable);
    let (readings, events) = sweep.run(600);
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for reading in &readings {
        times
            .entry((reading.kind, reading.port))
            .or_default()
            .push(reading.since);
    }
    for port in 0..sweep.ports {
        assert!(times[&(PhysicalKind::Phy, port)].len() >= 9, "{times:?}");
        assert_eq!(times[&(PhysicalKind::Module, port)].len(), 2);
    }
    assert_eq!(times[&(PhysicalKind::Phy, 0)][0], None);
    let late = readings
        .iter()
        .filter(|reading| reading.kind == PhysicalKind::Phy)
        .filter_map(|reading| reading.since)
        .filter(|since| *since > 125 * SECOND);
    assert_eq!(late.count(), 0);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::PhysicalLate { .. })),
        "{events:?}"
    );
}

#[test]
fn counters_are_read_at_the_same_times_as_without_the_physical_layer() {
    let run = |physical| {
        let mut sweep = Sweep::new(physical, Firmware::Usual);
        let mut slot = || {
            sweep.sweep.slot(SECOND);
            let engine = &sweep.sweep.engine;
            let times: Vec<_> = (0..sweep.ports)
                .map(|port| engine.sample(port).rtt)
                .collect();
            (engine.stats().duration(), times)
        };
        (0..120).map(|_| slot()).collect::<Vec<_>>()
    };
    assert_eq!(run(ample()), run(None));
}

#[test]
fn requests_are_at_most_the_configured_share() {
    let config = Some(PhysicalConfig::default());
    let mut sweep = Sweep::new(config, Firmware::Reliable);
    sweep.run(10);
    let (mut all, mut physical, mut most) = (0, 0, 0);
    for _ in 0..300 {
        sweep.sweep.slot(SECOND);
        all += sweep.sweep.engine.stats().mads_sent;
        let sent = sweep.sweep.engine.physical_sent();
        (physical, most) = (physical + sent, most.max(sent));
    }
    let share = physical as f64 / all as f64;
    assert!((0.02..=0.03).contains(&share), "{share}");
    assert!(
        most as f64 <= 0.06 * all as f64 / 300.0 + 1.0,
        "{most} in one slot"
    );
}

#[test]
fn too_small_budget_is_reported_once_and_ends_no_reading() {
    let config = Some(PhysicalConfig {
        budget_ppm: 0,
        ..PhysicalConfig::default()
    });
    let mut sweep = Sweep::new(config, Firmware::Reliable);
    let (readings, events) = sweep.run(1200);
    let late = |event: &&Event| {
        matches!(
            event,
            Event::PhysicalLate {
                kind: PhysicalKind::Phy,
                is_late: true,
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(late).count(), 1, "{events:?}");
    let ports: std::collections::BTreeSet<_> =
        readings.iter().map(|reading| reading.port).collect();
    assert_eq!(ports.len(), sweep.ports);
}

#[test]
fn refused_page_is_reported_once_and_tried_again_after_an_hour() {
    let mut sweep = Sweep::new(ample(), Firmware::Reliable);
    let switch = sweep.switch();
    let set = |sweep: &Sweep, firmware| sweep.sim.lock().unwrap().set_firmware(switch, firmware);
    set(&sweep, Firmware::Without(Page::Module));
    sweep.interval = 10 * SECOND;
    let (_, events) = sweep.run(70);
    let is_module = |event: &&Event| {
        matches!(
            event,
            Event::PhysicalUnsupported {
                lacking: Lacking::Page(Page::Module),
                ..
            }
        )
    };
    assert_eq!(events.iter().filter(is_module).count(), 1, "{events:?}");
    set(&sweep, Firmware::Reliable);
    let (readings, events) = sweep.run(360);
    assert_eq!(events.iter().filter(is_module).count(), 0);
    let of_modules = |reading: &&PhysicalReading| reading.kind == PhysicalKind::Module;
    let again: std::collections::BTreeSet<_> = readings
        .iter()
        .filter(of_modules)
        .map(|reading| reading.port)
        .collect();
    assert_eq!(again.len(), sweep.ports);
}

#[test]
fn silent_device_and_one_with_a_key_are_reported() {
    for (firmware, expected) in [
        (Firmware::Silent, "silent"),
        (Firmware::WithKey, "key"),
        (Firmware::WithoutRegisters, "registers"),
    ] {
        let mut sweep = Sweep::new(ample(), Firmware::Reliable);
        let switch = sweep.switch();
        sweep.sim.lock().unwrap().set_firmware(switch, firmware);
        let (readings, events) = sweep.run(400);
        let kinds: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::PhysicalUnsupported {
                    lacking: Lacking::Silent,
                    ..
                } => Some("silent"),
                Event::PhysicalUnsupported {
                    lacking: Lacking::Registers,
                    ..
                } => Some("registers"),
                Event::KeyDemanded {
                    key: Key::Vendor, ..
                } => Some("key"),
                _ => None,
            })
            .collect();
        assert_eq!(kinds, [expected]);
        let switch_port = readings.iter().filter(|reading| {
            sweep
                .sweep
                .engine
                .node_info(reading.device)
                .is_some_and(|info| info.port_guid == sweep.fabric.device(switch).guid)
        });
        assert_eq!(switch_port.count(), 0);
    }
}

#[test]
fn changed_link_is_read_soon() {
    let mut sweep = Sweep::new(ample(), Firmware::Reliable);
    sweep.run(120);
    let switch = sweep.switch();
    let num = sweep.fabric.device(switch).ports[0].num;
    let down = PortInfo {
        state: PortInfo::DOWN,
        ..PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE)
    };
    sweep.sim.lock().unwrap().set_link(switch, num, down);
    let is_of_port = |sweep: &Sweep, reading: &PhysicalReading| {
        let guid = sweep
            .sweep
            .engine
            .node_info(reading.device)
            .map(|info| info.port_guid);
        guid == Some(sweep.fabric.device(switch).guid) && reading.kind == PhysicalKind::Module
    };
    // All modules were read within the first minute.
    let mut found = 0;
    for _ in 0..90 {
        sweep.sweep.slot(SECOND);
        while let Some(reading) = sweep.sweep.engine.take_physical() {
            found += usize::from(is_of_port(&sweep, &reading));
        }
    }
    assert_eq!(found, 1);
}
