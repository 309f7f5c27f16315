//! SMInfo of subnet managers on the simulated fabric: first sight, a standby, failovers, silence.

use ibnet_record::types::Guid;

use super::super::*;
use super::SECOND;
use super::identity::Sweep;
use crate::mad::sm_info::{SmInfo, SmState};
use crate::mad::transport::sim::{Options, SimFabric};
use crate::topology::DeviceId;

/// Host of the first master: the first HCA of the fabric.
const FIRST: &str = "node00001";
const SECOND_HOST: &str = "node00005";

fn sweep(change: impl FnOnce(&mut SimFabric)) -> Sweep {
    let config = Config {
        managers_every: Some(2 * SECOND),
        identity_every: 4 * SECOND,
        ..Config::default()
    };
    Sweep::new(config, Options::default(), change)
}

fn info(guid: Guid, state: SmState, priority: u8) -> Option<SmInfo> {
    Some(SmInfo {
        guid,
        act_count: 5,
        priority,
        state,
    })
}

/// Runs slots and returns the events about subnet managers.
fn events(sweep: &mut Sweep, slots: usize) -> Vec<Event> {
    let is_about_managers = |event: &Event| {
        matches!(
            event,
            Event::SubnetManager(_) | Event::SubnetManagerGone(_) | Event::MasterChange { .. }
        )
    };
    (0..slots)
        .flat_map(|_| sweep.slot().to_vec())
        .filter(is_about_managers)
        .collect()
}

fn guid(sweep: &Sweep, id: DeviceId) -> Guid {
    sweep.fabric.device(id).guid
}

fn states(sweep: &Sweep) -> Vec<(Guid, SmState, bool)> {
    let mut states: Vec<_> = sweep
        .virtual_sweep
        .engine
        .subnet_managers()
        .map(|manager| (manager.info.guid, manager.info.state, manager.is_answering))
        .collect();
    states.sort_unstable();
    states
}

#[test]
fn master_and_standby_are_reported_once() {
    let mut sweep = sweep(|_| {});
    let ((first, _), (other, _)) = (sweep.find(FIRST), sweep.find(SECOND_HOST));
    let (a, b) = (guid(&sweep, first), guid(&sweep, other));
    sweep.change(|sim| sim.set_subnet_manager(other, info(b, SmState::Standby, 3)));
    let seen = events(&mut sweep, 12);
    let [Event::SubnetManager(master), Event::SubnetManager(standby)] = seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(
        (master.info.guid, master.info.state, master.info.priority),
        (a, SmState::Master, 14)
    );
    assert_eq!(
        (standby.info.guid, standby.info.state, standby.info.priority),
        (b, SmState::Standby, 3)
    );
    assert_eq!(
        states(&sweep),
        [(a, SmState::Master, true), (b, SmState::Standby, true)]
    );
    // A growing ActCount is no change.
    sweep.change(|sim| {
        sim.set_subnet_manager(
            other,
            info(b, SmState::Standby, 3).map(|info| SmInfo {
                act_count: 6,
                ..info
            }),
        );
    });
    assert_eq!(events(&mut sweep, 6), []);
    assert!(
        sweep
            .virtual_sweep
            .engine
            .subnet_managers()
            .any(|manager| manager.info.act_count == 6)
    );
    sweep.change(|sim| sim.set_subnet_manager(other, info(b, SmState::Standby, 4)));
    let seen = events(&mut sweep, 6);
    assert!(
        matches!(seen[..], [Event::SubnetManager(changed)] if changed.info.priority == 4),
        "{seen:?}"
    );
    // Its port has no IsSM any more.
    sweep.change(|sim| sim.set_subnet_manager(other, None));
    let seen = events(&mut sweep, 12);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::SubnetManagerGone(gone) if gone.info.guid == b)),
        "{seen:?}"
    );
    assert_eq!(
        (states(&sweep), sweep.virtual_sweep.engine.master_changes()),
        (vec![(a, SmState::Master, true)], 0)
    );
}

#[test]
fn failover_is_reported_with_the_old_and_the_new_master() {
    let mut sweep = sweep(|_| {});
    let ((first, _), (other, _)) = (sweep.find(FIRST), sweep.find(SECOND_HOST));
    let (a, b) = (guid(&sweep, first), guid(&sweep, other));
    sweep.change(|sim| sim.set_subnet_manager(other, info(b, SmState::Standby, 3)));
    events(&mut sweep, 12);
    // The host of the master dies, and the standby takes over. The LID of the manager of the
    // sending port stays the old one: the change is learned from PortInfo and SMInfo alone.
    sweep.change(|sim| {
        sim.set_dead(first, true);
        sim.set_subnet_manager(other, info(b, SmState::Master, 3));
    });
    let seen = events(&mut sweep, 8);
    let changes: Vec<_> = seen
        .iter()
        .filter(|event| matches!(event, Event::MasterChange { .. }))
        .collect();
    assert!(
        matches!(changes[..], [Event::MasterChange { from, to }] if (from.guid, to.guid) == (a, b)),
        "{seen:?}"
    );
    let is_silence = |event: &Event| matches!(event, Event::SubnetManager(manager) if manager.info.guid == a && !manager.is_answering);
    assert!(seen.iter().any(is_silence), "{seen:?}");
    assert_eq!(sweep.virtual_sweep.engine.master_changes(), 1);
    assert!(states(&sweep).contains(&(b, SmState::Master, true)));
}

#[test]
fn queries_of_managers_delay_no_counters() {
    let mut plain = Sweep::plain();
    let mut with = sweep(|_| {});
    for _ in 0..6 {
        plain.slot();
        with.slot();
        let [one, other] = [&plain, &with].map(|sweep| sweep.virtual_sweep.engine.stats());
        assert_eq!(one.count(Status::Ok), other.count(Status::Ok));
    }
    // A host without a subnet manager refuses the query. Nothing was seen, so nothing is reported.
    let mut silent = sweep(|sim| {
        let manager = sim.manager().expect("there is one");
        sim.set_subnet_manager(manager, None);
    });
    assert_eq!(
        (events(&mut silent, 12), states(&silent)),
        (Vec::new(), Vec::new())
    );
}
