//! Reads of the physical layer on the simulated fabric, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ibnet_record::physical::PhysicalKind;
use ibnet_record::registers::Page;
use ibnet_record::types::LinkRate;

use super::*;
use crate::mad::smp::PortInfo;
use crate::mad::transport::sim::{Firmware, Options, SimFabric};
use crate::sweep::engine::physical::Lateness;
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
        Self::with_planes(physical, firmware, 1)
    }

    fn with_planes(physical: Option<PhysicalConfig>, firmware: Firmware, planes: u8) -> Self {
        let fabric = ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
            .unwrap()
            .fabric;
        let options = Options {
            jitter: 0.0,
            planes,
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

    /// Reads why the links of all ports went down.
    fn explain_all(&mut self) {
        let now = self.sweep.now();
        for port in 0..self.ports {
            self.sweep.engine.read_link_down(port, now);
        }
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
        assert!(times[&(PhysicalKind::Phy, port)].len() >= 19, "{times:?}");
        assert_eq!(times[&(PhysicalKind::Module, port)].len(), 2);
    }
    assert_eq!(times[&(PhysicalKind::Phy, 0)][0], None);
    let late = readings
        .iter()
        .filter(|reading| reading.kind == PhysicalKind::Phy)
        .filter_map(|reading| reading.since)
        .filter(|since| *since > 65 * SECOND);
    assert_eq!(late.count(), 0);
    let of_port = readings
        .iter()
        .filter(|reading| (reading.kind, reading.port) == (PhysicalKind::Phy, 0));
    let pages = of_port.map(|reading| reading.images().map(|(page, _)| page).collect::<Vec<_>>());
    // The switches of this fabric have no retransmission.
    let (bits, all) = (
        vec![Page::Ber],
        vec![Page::Ber, Page::Fec, Page::FecHistogram],
    );
    let first = [all.clone(), vec![Page::LinkDown]].concat();
    let between = || vec![bits.clone(); 3];
    let expected = [vec![first], between(), vec![all]].concat();
    assert_eq!(pages.take(5).collect::<Vec<_>>(), expected);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::PhysicalLate { .. })),
        "{events:?}"
    );
}

#[test]
fn sensors_and_fans_that_a_switch_lists_are_read_and_an_hca_has_its_chip_and_firmware() {
    let mut sweep = Sweep::new(ample(), Firmware::Reliable);
    let (readings, events) = sweep.run(400);
    assert!(events.iter().all(lacks_plr), "{events:?}");
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for reading in readings {
        if reading.kind != PhysicalKind::Sensors {
            continue;
        }
        *counts.entry(reading.device).or_default() += 1;
        let pages: Vec<Page> = reading.images().map(|(page, _)| page).collect();
        let items = reading.items().iter();
        let items: Vec<_> = items.map(|item| (item.is_fan, item.number)).collect();
        let guid = sweep
            .sweep
            .engine
            .node_info(reading.device)
            .unwrap()
            .port_guid;
        let device = sweep
            .fabric
            .devices()
            .iter()
            .find(|device| device.guid == guid);
        if device.unwrap().kind == NodeKind::Switch {
            let sensors = (1..4).map(|sensor| (false, sensor));
            let fans = (0..8).map(|fan| (true, fan));
            assert_eq!(items, sensors.chain(fans).collect::<Vec<_>>());
            // The speeds of the fans are no page of their own.
            assert_eq!(pages, PhysicalKind::Sensors.pages()[..6]);
        } else {
            assert_eq!((pages, items.len()), (vec![Page::Sensor, Page::Device], 0));
        }
    }
    let switches = counts.values().filter(|count| **count >= 6).count();
    let hcas = counts.values().filter(|count| **count == 2).count();
    assert_eq!((switches, hcas), (4, 16), "{counts:?}");
}

#[test]
fn sensor_that_is_refused_is_left_out_and_the_others_stay() {
    let mut sweep = Sweep::new(ample(), Firmware::Reliable);
    let switch = sweep.switch();
    let firmware = Firmware::WithoutItem(Page::Sensor, 2);
    sweep.sim.lock().unwrap().set_firmware(switch, firmware);
    let (readings, events) = sweep.run(200);
    assert!(events.iter().all(lacks_plr), "{events:?}");
    let guid = sweep.fabric.device(switch).guid;
    let of_switch = readings.iter().filter(|reading| {
        let info = sweep.sweep.engine.node_info(reading.device);
        reading.kind == PhysicalKind::Sensors && info.is_some_and(|info| info.port_guid == guid)
    });
    let values: Vec<_> = of_switch
        .map(|reading| crate::sweep::physical_record::listed(reading.images(), reading.items()))
        .collect();
    assert!(values.len() >= 3);
    for values in values {
        let names = values.iter().find(|(name, _)| *name == "sensor_numbers");
        assert_eq!(names.unwrap().1.integers(), Some(&[0, 1, 3][..]));
    }
}

#[test]
fn counters_are_read_at_the_same_times_as_without_the_physical_layer() {
    let run = |physical| {
        let mut sweep = Sweep::new(physical, Firmware::Usual);
        let mut slot = |number| {
            if number == 60 {
                sweep.explain_all();
            }
            sweep.sweep.slot(SECOND);
            let engine = &sweep.sweep.engine;
            let times: Vec<_> = (0..sweep.ports)
                .map(|port| engine.sample(port).rtt)
                .collect();
            (engine.stats().duration(), times)
        };
        (0..120).map(&mut slot).collect::<Vec<_>>()
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
fn first_readings_of_all_kinds_are_not_reported_as_late() {
    // Enough for all readings of this fabric, in which a switch has only eight hosts.
    let config = Some(PhysicalConfig {
        budget_ppm: 45_000,
        ..PhysicalConfig::default()
    });
    let mut sweep = Sweep::new(config, Firmware::Reliable);
    let (readings, events) = sweep.run(600);
    // The first modules and sensors take the budget of the second readings of ports.
    let is_slow = |reading: &PhysicalReading| {
        reading.kind == PhysicalKind::Phy && reading.since.is_some_and(|since| since > 60 * SECOND)
    };
    assert!(readings.iter().any(is_slow));
    let late: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, Event::PhysicalLate { .. }))
        .collect();
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn lateness_of_some_devices_is_one_event_until_all_are_in_time() {
    let mut lateness = Lateness::default();
    let every = 30 * SECOND;
    let mut events = Vec::new();
    for second in 0..1000_u32 {
        // Every other reading is in time. From 500 s on, all are.
        let late = if second < 500 && second % 2 == 0 {
            40
        } else {
            0
        };
        let now = Instant::ZERO + second * SECOND;
        if let Some(is_late) = lateness.note(late * SECOND, every, now) {
            events.push((second, is_late));
        }
    }
    assert_eq!(events, [(60, true), (559, false)]);
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

/// Returns whether an event reports that a device has no PLR. No device of the tree has.
fn lacks_plr(event: &Event) -> bool {
    matches!(
        event,
        Event::PhysicalUnsupported {
            lacking: Lacking::Page(Page::Plr),
            ..
        }
    )
}

#[test]
fn every_plane_of_a_port_is_read_in_one_go_and_a_port_stays_one_port() {
    let config = ample().map(|config| PhysicalConfig {
        every: [120, 300, 30, 60].map(Duration::from_secs),
        ..config
    });
    let mut sweep = Sweep::with_planes(config, Firmware::Reliable, 4);
    let (readings, events) = sweep.run(300);
    assert!(events.iter().all(lacks_plr), "{events:?}");
    let mut times: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let of_planes = readings
        .iter()
        .filter(|reading| reading.kind == PhysicalKind::Planes);
    for reading in of_planes {
        let values = crate::sweep::physical_record::values(reading.images());
        assert_eq!(values.integer("planes"), Some(4));
        let plane = values.integer("plane").unwrap();
        assert!(values.integer("phy_mngr_fsm_state").is_some());
        assert!(values.integer("port_xmit_data_bytes").is_some());
        times
            .entry((reading.port, plane))
            .or_default()
            .push((reading.at, reading.since));
    }
    assert_eq!(times.len(), 4 * sweep.ports);
    for port in 0..sweep.ports {
        let planes = [1, 2, 3, 4].map(|plane| &times[&(port, plane)]);
        assert!(planes[0].len() >= 4 && planes[0][0].1.is_none());
        for (index, first) in planes[0].iter().enumerate() {
            let later = planes.map(|of_plane| of_plane[index].0 - first.0);
            assert!(later.is_sorted() && later[3] < 2 * SECOND, "{later:?}");
        }
        for pair in planes[3].windows(2) {
            assert_eq!(pair[1].1, Some(pair[1].0 - pair[0].0));
        }
    }
}

#[test]
fn planes_keep_the_mean_of_the_budget() {
    let config = Some(PhysicalConfig {
        every: [60, 300, 30, 20].map(Duration::from_secs),
        ..PhysicalConfig::default()
    });
    let mut sweep = Sweep::with_planes(config, Firmware::Reliable, 4);
    let (mut all, mut physical) = (0, 0);
    for _ in 0..200 {
        sweep.sweep.slot(SECOND);
        all += sweep.sweep.engine.stats().mads_sent;
        physical += sweep.sweep.engine.physical_sent();
    }
    // The last readings, of which there are at most four, may have exceeded the limit.
    let limit = 0.03 * all as f64 + 4.0 * 9.0;
    assert!(physical as f64 <= limit, "{physical} of {all}");
    assert!(physical > 400, "{physical} of {all}");
}

#[test]
fn a_device_without_planes_is_asked_once_and_reports_nothing() {
    let often = Some(PhysicalConfig {
        every: [86_400, 86_400, 86_400, 10].map(Duration::from_secs),
        bit_errors_every: Duration::from_secs(86_400),
        budget_ppm: 300_000,
        ..PhysicalConfig::default()
    });
    // Without the register, and with a port of no planes.
    for planes in [1, 0] {
        let mut sweep = Sweep::with_planes(often, Firmware::Reliable, planes);
        let (readings, events) = sweep.run(100);
        assert!(events.iter().all(lacks_plr), "{events:?}");
        let is_of_planes = |reading: &&PhysicalReading| reading.kind == PhysicalKind::Planes;
        assert_eq!(readings.iter().filter(is_of_planes).count(), 0);
        for _ in 0..100 {
            sweep.sweep.slot(SECOND);
            assert_eq!(sweep.sweep.engine.physical_sent(), 0);
        }
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

#[test]
fn reasons_exceed_the_budget_for_ten_seconds_in_a_minute() {
    let config = PhysicalConfig {
        budget_ppm: 0,
        ..PhysicalConfig::default()
    };
    let mut sweep = Sweep::new(Some(config), Firmware::Reliable);
    sweep.run(100);
    let mut beyond = Vec::new();
    // Links that go down all the time, and seldom.
    for (slots, every) in [(120, 1), (200, 70)] {
        for slot in 0..slots {
            if slot % every == 0 {
                sweep.explain_all();
            }
            sweep.sweep.slot(SECOND);
            beyond.push(sweep.sweep.engine.physical_sent() > 2);
        }
    }
    let burst = |from: usize| {
        beyond[from..from + 60]
            .iter()
            .filter(|beyond| **beyond)
            .count()
    };
    assert_eq!([0, 60].map(burst), [10, 10], "{beyond:?}");
    assert_eq!([120, 180, 250].map(burst), [1, 1, 1], "{beyond:?}");
}

#[test]
fn default_times_keep_the_default_budget_at_three_mads_a_port() {
    let config = PhysicalConfig::default();
    for (ports, is_switch) in [(1, false), (36, true), (40, true), (64, true)] {
        let needed = config.requests_per_second(ports, is_switch);
        let allowed = 3.0 * f64::from(ports) * f64::from(config.budget_ppm) / 1e6;
        assert!(needed <= allowed, "{ports}: {needed} of {allowed}");
    }
    // Bit errors each 30 s, four other pages each two minutes; the module, the FEC, the latency and
    // two pages of the HCA each five minutes.
    let of_port = config.requests_per_second(1, false);
    assert!(
        (of_port - (8.0 / 120.0 + 5.0 / 300.0)).abs() < 1e-9,
        "{of_port}"
    );
    let rare = PhysicalConfig {
        bit_errors_every: Duration::from_secs(3600),
        ..config
    };
    let of_port = rare.requests_per_second(1, false);
    assert!(
        (of_port - (5.0 / 120.0 + 5.0 / 300.0)).abs() < 1e-9,
        "{of_port}"
    );
}
