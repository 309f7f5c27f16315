//! Two drivers hand their ports over in virtual time: every slot runs once, or is counted as
//! missed.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ibnet::assignments::Sampler;
use ibnet::mad::transport::sim::SimFabric;
use ibnet::output::{Destination, Lines};
use ibnet::partition::{PlanOptions, Request, assignments_of, hosts, plan_with, whole_fabric};
use ibnet::sweep::driver::{Clock, Control, Driver, DriverSettings, Notice};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{Pause, VirtualClock, VirtualTransport};
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

const INTERVAL: Duration = Duration::from_millis(100);

/// Wall clock at time zero, in nanoseconds since 1970.
const WALL: i64 = 1_795_000_000_123_456_789;

/// Time after which a hanging test fails.
const LIMIT: Duration = Duration::from_secs(600);

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// Returns a driver of the whole fabric, its clock and its records.
fn driver(
    sim: &Arc<Mutex<SimFabric>>,
    sweeps: Option<u64>,
) -> (Driver<VirtualTransport, VirtualClock>, VirtualClock, Lines) {
    driver_of(
        &whole_fabric(&fabric(), "here").0,
        sim,
        DriverSettings {
            sweeps,
            ..settings()
        },
    )
}

fn settings() -> DriverSettings {
    DriverSettings::simulated("here", INTERVAL, crate::config())
}

fn driver_of(
    sampler: &Sampler,
    sim: &Arc<Mutex<SimFabric>>,
    settings: DriverSettings,
) -> (Driver<VirtualTransport, VirtualClock>, VirtualClock, Lines) {
    let clock = VirtualClock::default();
    clock.set_wall_offset(WALL);
    let (outlet, lines) = Destination::memory();
    let transport = VirtualTransport::new(Arc::clone(sim), clock.clone(), 1);
    (
        Driver::new(
            SweepPlan::new(sampler),
            settings,
            transport,
            clock.clone(),
            outlet,
            1,
        ),
        clock,
        lines,
    )
}

fn simulated() -> Arc<Mutex<SimFabric>> {
    Arc::new(Mutex::new(SimFabric::new(fabric(), crate::options())))
}

/// Returns the slots of the `sweep` records, each with the slots missed before it.
fn sweeps(text: &str) -> Vec<(u64, u64)> {
    let records = text
        .lines()
        .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")));
    records
        .filter_map(|line| {
            if let Line::Sweep(sweep) = line {
                Some((sweep.slot, sweep.slots_missed))
            } else {
                None
            }
        })
        .collect()
}

/// Lets an old driver run three slots. The old driver then has to end before a slot, `after` slots
/// later, and pauses for `pause`. A new driver begins with that slot. Returns the slot, and the
/// records of both drivers.
fn hand_over(after: u64, pause: Duration) -> (u64, String, String) {
    let sim = simulated();
    let (old, old_clock, old_lines) = driver(&sim, None);
    let (new, new_clock, new_lines) = driver(&sim, Some(3));
    let old_control = Arc::new(Control::default());
    let new_control = Arc::new(Control::held(Some(Arc::clone(&old_control))));
    let mut border = 0;
    old.run(&old_control, |report| {
        if report.done == 3 {
            border = report.slot + after;
            old_control.leave_before(border);
            new_clock.advance_to(old_clock.now());
            old_clock.pause(Pause {
                from: old_clock.now(),
                time: pause,
                lossy: false,
            });
        }
    })
    .expect("nothing is lost");
    let for_ready = Arc::clone(&new_control);
    new_control.on_ready(move || for_ready.begin_with(border));
    new.run(&new_control, |_| {}).expect("nothing is lost");
    (border, old_lines.text(), new_lines.text())
}

#[test]
fn every_slot_runs_once() {
    let (border, old, new) = hand_over(3, Duration::ZERO);
    let slots = |text| {
        sweeps(text)
            .into_iter()
            .map(|(slot, _)| slot)
            .collect::<Vec<_>>()
    };
    assert_eq!(slots(&old), (border - 5..border).collect::<Vec<_>>());
    assert_eq!(slots(&new), (border..border + 3).collect::<Vec<_>>());
    assert!(
        sweeps(&new)
            .iter()
            .chain(&sweeps(&old))
            .all(|(_, missed)| *missed == 0)
    );
    let Ok(Line::Start(start)) = strict::parse(new.lines().next().expect("records")) else {
        panic!("{new}")
    };
    assert_eq!(
        start.slot, border,
        "a held driver writes nothing before its first slot"
    );
}

#[test]
fn new_driver_reports_the_slots_that_the_old_one_missed_at_its_end() {
    let (border, old, new) = hand_over(3, 4 * INTERVAL);
    assert_eq!(
        sweeps(&old).last(),
        Some(&(border - 3, 0)),
        "two slots were missed"
    );
    assert_eq!(
        sweeps(&new),
        [(border, 2), (border + 1, 0), (border + 2, 0)]
    );
}

#[test]
fn new_driver_that_is_late_begins_with_the_next_slot_and_reports_the_gap() {
    let sim = simulated();
    let (new, clock, lines) = driver(&sim, Some(2));
    let control = Control::held(None);
    // Time zero is 23 ms after the start of a slot, so that the first slot starts after 77 ms.
    let first = WALL as u64 / 100_000_000 + 1;
    control.begin_with(first);
    clock.advance_to(clock.now() + 3 * INTERVAL / 2);
    new.run(&control, |_| {}).expect("nothing is lost");
    assert_eq!(sweeps(&lines.text()), [(first + 1, 1), (first + 2, 0)]);
}

#[test]
fn stop_ends_a_driver_that_is_held() {
    let (held, _, lines) = driver(&simulated(), None);
    let control = Arc::new(Control::held(None));
    let (ready, is_ready) = channel();
    control.on_ready(move || ready.send(()).expect("the test waits"));
    let (ended, has_ended) = channel();
    thread::spawn({
        let control = Arc::clone(&control);
        move || ended.send(held.run(&control, |_| {}))
    });
    is_ready.recv_timeout(LIMIT).expect("the discovery ends");
    assert!(control.is_ready());
    control.stop();
    has_ended
        .recv_timeout(LIMIT)
        .expect("the stop wakes it")
        .expect("nothing is lost");
    assert_eq!(lines.text(), "");
}

#[test]
fn notices_are_written_between_two_slots() {
    let (driver, _, lines) = driver(&simulated(), Some(3));
    let control = Control::default();
    driver
        .run(&control, |report| {
            if report.done == 1 {
                control.notify(Notice::Reload("a detail".to_owned()));
                control.notify(Notice::Assignments(Some("abc".to_owned())));
            }
        })
        .expect("nothing is lost");
    let text = lines.text();
    let records: Vec<_> = text
        .lines()
        .map(|text| strict::parse(text).expect("a record"))
        .collect();
    let place = |is: &dyn Fn(&Line) -> bool| records.iter().position(is).expect("it was written");
    let reload = place(
        &|line| matches!(line, Line::Event(event) if (event.event.as_str(), event.detail.as_str()) == ("reload", "a detail")),
    );
    let start = place(
        &|line| matches!(line, Line::Start(start) if start.assignments_sha256.as_deref() == Some("abc")),
    );
    let sweeps: Vec<usize> = (0..records.len())
        .filter(|place| matches!(records[*place], Line::Sweep(_)))
        .collect();
    assert!(
        sweeps[0] < reload && reload < start && start < sweeps[1],
        "{sweeps:?}, {reload}, {start}"
    );
}

/// Returns the samplers of a plan with two samplers for each port.
fn redundant(hosts: &str) -> Vec<Sampler> {
    let fabric = fabric();
    let samplers = hosts::locate(&hosts::parse_list(hosts).expect("names"), &[], &fabric)
        .expect("in the fabric");
    let options = PlanOptions {
        redundant: true,
        ..PlanOptions::default()
    };
    let plan = plan_with(
        &Request {
            fabric: &fabric,
            samplers,
            cap: 150,
        },
        &options,
    )
    .expect("enough samplers");
    assignments_of(&plan, &fabric).samplers
}

/// All samplers change to another plan at one time, and each of them begins anew.
#[test]
fn every_port_with_two_samplers_has_a_rate_in_every_slot_of_a_plan_change() {
    const SLOTS: u64 = 5;
    /// Roles of the samplers that have a record of a port (`true` for the secondary), and whether
    /// the record has a rate.
    type BySlot = BTreeMap<u64, Vec<(bool, bool)>>;

    let first = WALL as u64 / INTERVAL.as_nanos() as u64 + 1;
    let border = first + SLOTS;
    let mut found: BTreeMap<(Guid, PortNum), BySlot> = BTreeMap::new();
    for (plan, is_old) in [
        (redundant("node00001,node00004"), true),
        (redundant("node00002,node00005"), false),
    ] {
        for sampler in plan {
            let settings = DriverSettings {
                is_secondary: sampler.is_secondary(),
                offset: INTERVAL.mul_f64(sampler.offset.unwrap_or(0.0)),
                sweeps: (!is_old).then_some(SLOTS),
                ..settings()
            };
            let change = settings.first_slot_of_change(border * INTERVAL.as_nanos() as u64);
            let control = if is_old {
                Control::default()
            } else {
                Control::held(None)
            };
            if is_old {
                control.leave_before(change);
            } else {
                control.begin_with(change);
            }
            let (driver, _, lines) = driver_of(&sampler, &simulated(), settings);
            driver.run(&control, |_| {}).expect("nothing is lost");
            for line in lines.text().lines() {
                let Line::Port(port) = strict::parse(line).expect("a record") else {
                    continue;
                };
                let records = found
                    .entry((port.guid, port.port))
                    .or_default()
                    .entry(port.slot)
                    .or_default();
                records.push((sampler.is_secondary(), port.xmit_gbps.is_some()));
            }
        }
    }
    assert_eq!(found.len(), 20, "linked ports");
    for (port, slots) in found {
        for slot in first + 1..border + SLOTS {
            let mut records = slots.get(&slot).cloned().unwrap_or_default();
            records.sort_unstable();
            assert_eq!(
                records
                    .iter()
                    .map(|(is_secondary, _)| *is_secondary)
                    .collect::<Vec<_>>(),
                [false, true],
                "{port:?} in slot {slot}"
            );
            assert!(
                records.iter().any(|(_, has_rate)| *has_rate),
                "{port:?} has no rate in slot {slot} of {border}"
            );
        }
    }
}
