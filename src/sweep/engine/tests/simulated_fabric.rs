//! Tests of the engine on the simulated fabric, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ibnet_record::types::{Lid, NodeKind};
use proptest::prelude::*;

use super::super::*;
use super::{MS, SECOND};
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::sweep::window::Change;
use crate::topology::{Fabric, ports_report, synthetic};

fn stria() -> Fabric {
    ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
        .expect("valid ports report")
        .fabric
}

fn start(options: Options, config: Config, change: impl FnOnce(&mut SimFabric)) -> VirtualSweep {
    let plan = all_linked_ports(&stria());
    let mut sim = SimFabric::new(stria(), options);
    change(&mut sim);
    let mut sweep = VirtualSweep::new(Arc::new(Mutex::new(sim)), &plan, config, 42);
    assert!(sweep.discover().contains(&Event::DiscoveryDone));
    sweep
}

/// Returns the number of ports by status in the last slot, after checking that every port was
/// settled exactly once.
fn statuses(sweep: &VirtualSweep, events: &[Event]) -> BTreeMap<Status, usize> {
    let mut settled = vec![0; sweep.engine.ports()];
    let mut counts = BTreeMap::new();
    for event in events {
        if let Event::Port(port) = event {
            settled[*port] += 1;
            *counts.entry(sweep.engine.sample(*port).status).or_default() += 1;
        }
    }
    assert!(
        settled.iter().all(|times| *times == 1),
        "every port exactly once"
    );
    assert_eq!(events.last(), Some(&Event::SlotDone));
    counts
}

#[test]
fn slot_on_a_healthy_fabric_lasts_as_long_as_the_slowest_device() {
    let options = Options {
        jitter: 0.0,
        ..Options::default()
    };
    let mut sweep = start(
        options,
        Config {
            window: 64,
            ..Config::default()
        },
        |_| {},
    );
    let events = sweep.slot(SECOND);
    assert_eq!(
        statuses(&sweep, &events),
        BTreeMap::from([(Status::Ok, 968)])
    );
    // PortCountersExtended of the switches has all counters of PortCounters, so PortCounters are
    // not requested for their 652 ports.
    assert_eq!(sweep.engine.stats().mads_sent, 652 * 3 + 316 * 4);
    // A leaf has 36 ports of 3 MADs at 54 us each, including the flight time.
    assert_eq!(
        sweep.engine.stats().duration(),
        Duration::from_micros(36 * 3 * 54)
    );
}

#[test]
fn dead_leaf_affects_only_its_own_ports_and_delays_the_slot_by_three_timeouts() {
    let mut healthy = start(Options::default(), Config::default(), |_| {});
    healthy.slot(SECOND);
    let mut sweep = start(Options::default(), Config::default(), |sim| {
        let leaf = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.name == "leaf03")
            .expect("in the fabric")
            .0;
        sim.set_dead(leaf, true);
    });
    for _ in 0..3 {
        let events = sweep.slot(SECOND);
        let counts = statuses(&sweep, &events);
        assert_eq!(
            (counts[&Status::Ok], counts.values().sum::<usize>()),
            (968 - 36, 968),
            "{counts:?}"
        );
        let bound = healthy.engine.stats().duration() + 15 * MS;
        assert!(
            sweep.engine.stats().duration() <= bound,
            "{:?} > {bound:?}",
            sweep.engine.stats().duration()
        );
    }
}

#[test]
fn ports_of_a_slow_switch_are_late_and_have_data() {
    let mut sweep = start(Options::default(), Config::default(), |sim| {
        let leaf = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.name == "leaf03")
            .expect("in the fabric")
            .0;
        sim.set_service(leaf, 8 * MS);
    });
    let events = sweep.slot(SECOND);
    assert_eq!(
        statuses(&sweep, &events),
        BTreeMap::from([(Status::Ok, 968 - 36), (Status::Late, 36)])
    );
}

#[test]
fn lost_mads_affect_only_their_own_ports() {
    let mut sweep = start(
        Options {
            loss: 0.01,
            ..Options::default()
        },
        Config::default(),
        |_| {},
    );
    let events = sweep.slot(SECOND);
    let counts = statuses(&sweep, &events);
    assert!(
        counts[&Status::Ok] > 900 && counts[&Status::Timeout] > 5,
        "{counts:?}"
    );
    assert!(
        counts
            .keys()
            .all(|status| [Status::Ok, Status::Timeout].contains(status)),
        "{counts:?}"
    );
}

#[test]
fn short_slot_skips_the_remaining_ports() {
    let mut sweep = start(
        Options::default(),
        Config {
            window: 1,
            ..Config::default()
        },
        |_| {},
    );
    let events = sweep.slot(20 * MS);
    let counts = statuses(&sweep, &events);
    assert!(
        counts[&Status::Ok] > 0 && counts[&Status::Skipped] > 500,
        "{counts:?}"
    );
}

#[test]
fn skipped_ports_come_first_in_the_next_slot() {
    let mut sweep = start(
        Options::default(),
        Config {
            window: 1,
            ..Config::default()
        },
        |_| {},
    );
    let mut reached = vec![false; sweep.engine.ports()];
    // 3220 MADs of about 50 us each take 160 ms; a slot requests counters for 18 ms.
    for _ in 0..20 {
        let events = sweep.slot(20 * MS);
        statuses(&sweep, &events);
        (0..reached.len())
            .for_each(|port| reached[port] |= sweep.engine.sample(port).status == Status::Ok);
    }
    assert_eq!(
        reached.iter().filter(|reached| !**reached).count(),
        0,
        "ports that were never queried"
    );
}

#[test]
fn slowest_device_is_queried_first_once_it_was_measured() {
    let options = Options {
        jitter: 0.0,
        ..Options::default()
    };
    let mut sweep = start(
        options,
        Config {
            window: 4,
            ..Config::default()
        },
        |sim| {
            let slow = sim
                .fabric()
                .iter()
                .find(|(_, device)| device.host() == "node00100")
                .expect("in the fabric")
                .0;
            sim.set_service(slow, Duration::from_micros(2_500));
        },
    );
    // A host with one port and four MADs of 2.5 ms takes longer than a leaf with 36 ports and three
    // MADs of 50 us each. If the host were queried last, the slot would take longer.
    let total = 652 * 3 * 54 + 315 * 4 * 29;
    let durations: Vec<_> = (0..4)
        .map(|_| (sweep.slot(SECOND).len(), sweep.engine.stats().duration()).1)
        .collect();
    let bound = Duration::from_micros(total / 4) + 10 * MS;
    assert!(
        durations.iter().all(|duration| *duration < bound),
        "{durations:?} of {bound:?}"
    );
    let engine = &sweep.engine;
    let first: Vec<Lid> = engine.order[..22]
        .iter()
        .map(|index| engine.devices[*index as usize].path.lid)
        .collect();
    let slow = stria()
        .iter()
        .find(|(_, device)| device.host() == "node00100")
        .expect("in the fabric")
        .1
        .lid;
    assert!(first.contains(&slow), "{first:?}");
}

#[test]
fn limit_of_mads_per_second_is_kept() {
    let config = Config {
        max_mads_per_second: 1000,
        ..Config::default()
    };
    let mut sweep = start(Options::default(), config, |_| {});
    for _ in 0..3 {
        let events = sweep.slot(SECOND);
        let counts = statuses(&sweep, &events);
        let sent = sweep.engine.stats().mads_sent;
        assert!((890..=910).contains(&sent), "{sent} MADs in 0.9 s");
        assert!(counts[&Status::Skipped] > 600, "{counts:?}");
    }
}

#[test]
fn window_is_halved_while_replies_are_late_and_grows_again() {
    let sim = Arc::new(Mutex::new(SimFabric::new(stria(), Options::default())));
    let mut sweep = VirtualSweep::new(
        Arc::clone(&sim),
        &all_linked_ports(&stria()),
        Config::default(),
        42,
    );
    sweep.discover();
    let serve_in = |time: Duration| {
        let mut sim = sim.lock().expect("no thread panicked");
        let hosts: Vec<_> = sim
            .fabric()
            .iter()
            .filter(|(_, device)| device.kind == NodeKind::Hca)
            .map(|(id, _)| id)
            .collect();
        hosts.into_iter().for_each(|id| sim.set_service(id, time));
    };
    let mut changes = |slots: usize| -> Vec<Change> {
        let events = (0..slots)
            .flat_map(|_| sweep.slot(SECOND))
            .collect::<Vec<_>>();
        events
            .into_iter()
            .filter_map(|event| {
                if let Event::Window(change) = event {
                    Some(change)
                } else {
                    None
                }
            })
            .collect()
    };
    assert_eq!(changes(5), []);
    serve_in(6 * MS);
    assert_eq!(changes(3), [Change { from: 32, to: 16 }]);
    serve_in(Duration::from_micros(25));
    assert_eq!(changes(20).last().map(|change| change.to), Some(32));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any loss, and any dead or slow devices: every port is settled exactly once per slot, and the
    /// slot ends in time. No sample has data of another slot.
    #[test]
    fn every_port_is_settled_exactly_once(seed in any::<u64>(), loss in 0.0..1.0f64, dead in 0.0..0.5f64, slow in 0.0..0.5f64, window in 1usize..200) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut sweep = start(Options { seed, loss, ..Options::default() }, Config { window, ..Config::default() }, |sim| {
            let ids: Vec<_> = sim.fabric().iter().map(|(id, _)| id).collect();
            for id in ids {
                sim.set_dead(id, rng.f64() < dead);
                if rng.f64() < slow {
                    sim.set_service(id, Duration::from_micros(rng.u64(1..30_000)));
                }
            }
        });
        for _ in 0..2 {
            let start = sweep.now();
            let events = sweep.slot(200 * MS);
            statuses(&sweep, &events);
            let stats = sweep.engine.stats();
            prop_assert!(stats.duration() <= 190 * MS);
            for port in 0..sweep.engine.ports() {
                let sample = sweep.engine.sample(port);
                let answers = (0..4).filter_map(|group| sample.answer(group));
                prop_assert!(answers.clone().all(|(at, _)| at >= start));
                let answers = answers.count();
                if sample.status == Status::Ok {
                    // Optional groups are not requested before they are known to be present.
                    prop_assert!(answers >= 1 && sample.mads as usize == answers);
                }
                prop_assert!(answers <= sample.mads as usize);
            }
        }
    }
}
