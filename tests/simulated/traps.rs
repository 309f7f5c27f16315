//! The subscription to traps: a driver, its thread for traps, and the subnet manager of the
//! simulated fabric.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::smp::PortInfo;
use ibnet::mad::transport::sim::{SimFabric, SimTransport};
use ibnet::output::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings, Opened, SystemClock};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::topology::synthetic::FatTree;
use ibnet::topology::{Fabric, ports_report};
use ibnet_record::strict::{self, Event, Line};
use ibnet_record::types::NodeKind;

/// Number of slots after which a hanging test fails: ten minutes. It is not a limit of speed.
const SLOTS: u64 = 6000;

fn fabric() -> Fabric {
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    ports_report::parse(tree.blueprint().ports_report().as_bytes(), "net.p")
        .unwrap()
        .fabric
}

/// Sweeps with a subscription until an event satisfies `is_last`. Calls `on_slot` after each slot.
/// Returns the events.
fn sweep(
    sim: &Arc<Mutex<SimFabric>>,
    mut on_slot: impl FnMut(u64, &mut SimFabric),
    is_last: impl Fn(&Event) -> bool,
) -> Vec<Event> {
    let (sampler, _) = ibnet::partition::whole_fabric(&fabric(), "node00001");
    // Without traps, the links are read again after an hour.
    let engine = Config {
        identity_every: Duration::from_secs(3600),
        ..crate::config()
    };
    let settings = DriverSettings {
        sweeps: Some(SLOTS),
        ..DriverSettings::simulated("node00001", Duration::from_millis(100), engine)
    };
    let (outlet, lines) = Destination::memory();
    let mut events: Vec<Event> = Vec::new();
    let reports = Arc::clone(sim);
    let open = move || {
        let transport = SimTransport::for_reports(Arc::clone(&reports));
        Ok(Opened {
            transport,
            hca: None,
            pkey_index: 0,
            pkey_table: Vec::new(),
        })
    };
    let control = Control::default();
    let transport = SimTransport::new(Arc::clone(sim));
    let driver = Driver::new(
        SweepPlan::new(&sampler),
        settings,
        transport,
        SystemClock::start(),
        outlet,
        1,
    )
    .with_traps(2, open);
    driver
        .run(&control, |report| {
            on_slot(report.slot, &mut sim.lock().unwrap());
            let text = lines.text();
            let parsed = text.lines().map(|line| strict::parse(line).unwrap());
            events.extend(parsed.filter_map(|line| {
                if let Line::Event(event) = line {
                    Some(event)
                } else {
                    None
                }
            }));
            if events.iter().any(&is_last) {
                control.stop();
            }
        })
        .unwrap();
    events
}

#[test]
fn link_that_goes_down_is_known_in_the_next_slots() {
    crate::on_both_fabrics(|| {
        let sim = Arc::new(Mutex::new(SimFabric::new(fabric(), crate::options())));
        let leaf = fabric()
            .iter()
            .find(|(_, device)| device.kind == NodeKind::Switch && device.name == "leaf01")
            .unwrap()
            .0;
        let guid = fabric().device(leaf).guid;
        let port = fabric().device(leaf).linked().next().unwrap().0.num;
        let mut changed_in = None;
        let on_slot = |slot, sim: &mut SimFabric| {
            if changed_in.is_none() && sim.subscribed().len() == 2 {
                sim.set_link(
                    leaf,
                    port,
                    PortInfo {
                        state: PortInfo::DOWN,
                        ..PortInfo::default()
                    },
                );
                changed_in = Some(slot);
            }
        };
        let events = sweep(&sim, on_slot, |event| event.event == "link_down");
        let of = |name: &str| {
            events
                .iter()
                .find(|event| event.event == name)
                .unwrap_or_else(|| panic!("no {name} in {events:?}"))
        };
        assert!(
            of("traps").detail.contains("forwards traps 128 and 144"),
            "{events:?}"
        );
        assert_eq!((of("trap").guid, of("trap").port), (Some(guid), None));
        assert_eq!(
            (of("link_down").guid, of("link_down").port),
            (Some(guid), Some(port))
        );
        assert!(of("link_down").slot > changed_in.unwrap(), "{events:?}");
        assert!(
            sim.lock().unwrap().subscribed().is_empty(),
            "the subscription is withdrawn at the end"
        );
    });
}

#[test]
fn refusal_is_an_event_with_the_reason() {
    let sim = Arc::new(Mutex::new(SimFabric::new(fabric(), crate::options())));
    sim.lock().unwrap().refuse_subscriptions();
    let events = sweep(&sim, |_, _| {}, |event| event.event == "traps");
    let refusals: Vec<&Event> = events
        .iter()
        .filter(|event| event.event == "traps")
        .collect();
    assert!(
        refusals.len() == 1 && refusals[0].detail.contains("refused with status"),
        "{events:?}"
    );
    assert!(sim.lock().unwrap().subscribed().is_empty());
}
