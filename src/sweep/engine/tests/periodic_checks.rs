//! Periodic checks, and devices that do not answer them.

use ibnet_record::types::Lid;

use super::super::*;
use super::SECOND;
use super::identity::Sweep;
use crate::mad::exchange::Local;
use crate::mad::transport::sim::Options;

/// Returns the number of MADs for checks in each slot.
fn checks(sweep: &mut Sweep, slots: usize) -> Vec<u64> {
    let usual = (0..10).map(|_| sweep.mads()).min().expect("ten slots");
    (0..slots).map(|_| sweep.mads() - usual).collect()
}

#[test]
fn checks_are_spread_over_the_slots_even_after_all_devices_were_verified_at_once() {
    let config = Config {
        identity_every: 30 * SECOND,
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let spread = |checks: &[u64]| checks.iter().filter(|mads| **mads > 0).count();
    let before = checks(&mut sweep, 60);
    // 12 devices, each in its own slot, in each of two rounds.
    assert_eq!(spread(&before), 24, "{before:?}");
    let local = Local {
        sm_lid: Lid(999),
        ..sweep.virtual_sweep.local()
    };
    assert!(sweep.virtual_sweep.engine.set_local(local));
    let at_once = sweep.mads();
    assert!(
        at_once > 12 + before.iter().copied().max().expect("not empty"),
        "all devices are verified in one slot"
    );
    let after = checks(&mut sweep, 60);
    assert_eq!(spread(&after), 24, "{after:?}");
}

#[test]
fn device_whose_agent_is_silent_is_reported_unreachable_once() {
    let mut sweep = Sweep::plain();
    let (id, place) = sweep.find("node00003");
    sweep.slot();
    sweep.change(|sim| {
        [0x01, 0x10, 0x12, 0x15, 0x16, 0x1d]
            .into_iter()
            .for_each(|attribute| sim.drop_attribute(id, attribute));
    });
    let mut reported = Vec::new();
    for _ in 0..60 {
        reported.extend(
            sweep
                .slot()
                .iter()
                .filter(|event| matches!(event, Event::Unreachable(_) | Event::Reachable(_)))
                .copied(),
        );
        assert_eq!(sweep.status(place), Status::Timeout);
    }
    assert_eq!(
        reported,
        [Event::Unreachable(place)],
        "NodeInfo alone does not make a device reachable"
    );
}

#[test]
fn silent_subnet_manager_does_not_delay_the_discovery() {
    let config = Config {
        path_sl: true,
        ..Config::default()
    };
    let sweep = Sweep::new(config, Options::default(), |sim| {
        let manager = sim.manager().expect("there is one");
        sim.set_dead(manager, true);
    });
    // Three lost queries show that the subnet manager is silent.
    assert!(
        sweep.virtual_sweep.now() < Instant::ZERO + 2 * SECOND,
        "{:?}",
        sweep.virtual_sweep.now()
    );
}

#[test]
fn switch_that_ignores_port_info_does_not_delay_its_counters() {
    let config = Config {
        identity_every: 10 * SECOND,
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let (id, place) = sweep.find("leaf01");
    sweep.change(|sim| sim.drop_port_info(id));
    for _ in 0..30 {
        sweep.slot();
        assert!([Status::Ok, Status::Late].contains(&sweep.status(place)));
        assert!(
            sweep.virtual_sweep.engine.stats().duration() < Duration::from_millis(80),
            "{:?}",
            sweep.virtual_sweep.engine.stats().duration()
        );
    }
}
