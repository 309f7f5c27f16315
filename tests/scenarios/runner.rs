//! Runs a scenario: engine, simulated fabric and wall clock in virtual time, slot by slot as in the
//! driver.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ibnet::mad::pma::{Bits, Data};
use ibnet::mad::transport::sim::agent::Counters;
use ibnet::mad::transport::sim::faults::{Defect, Faults, Forgery, ReceiveQueue};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::sweep::driver::Clock;
use ibnet::sweep::engine::{Config, DevicePlan, Event};
use ibnet::sweep::sample::Sample;
use ibnet::sweep::schedule::{Gap, Schedule, SlotStart, Verdict};
use ibnet::sweep::stats::{Rejected, SlotStats};
use ibnet::sweep::virtual_sweep::{Pause, VirtualSweep, all_linked_ports};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet_record::Status;
use ibnet_record::attributes::Group;
use ibnet_record::types::{NodeKind, PortNum};

use super::scenario::{self, Devices, Expected, Fault, FaultKind, Scenario};

/// Wall clock at time zero: an instant in 2026 that is not the start of a slot.
const WALL: i64 = 1_795_000_000_123_456_789;

struct Runner {
    scenario: Scenario,
    fabric: Fabric,
    options: Options,
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    /// Device and number of each port, in the order of the engine.
    ports: Vec<(DeviceId, PortNum)>,
    schedule: Schedule,
    /// Difference of the wall clock from the monotonic clock, in nanoseconds.
    wall_offset: i64,
}

/// Runs a scenario, and returns the outcome of each slot.
///
/// # Panics
/// If a port does not have exactly one record in a slot, or a record has the data of another port.
pub(super) fn run(scenario: Scenario) -> Vec<Expected> {
    let mut runner = Runner::new(scenario);
    runner.apply_faults(0);
    assert_eq!(runner.sweep.discover().last(), Some(&Event::DiscoveryDone));
    (1..=runner.scenario.engine.slots)
        .map(|slot| runner.slot(slot))
        .collect()
}

impl Runner {
    fn new(scenario: Scenario) -> Self {
        let blueprint = scenario
            .fabric
            .tree
            .as_ref()
            .map_or_else(synthetic::stria, |tree| {
                let scenario::Tree {
                    leaves,
                    hosts,
                    spines,
                    radix,
                } = *tree;
                synthetic::FatTree {
                    leaves,
                    hosts,
                    spines,
                    trunk: 1,
                    radix,
                }
                .blueprint()
            });
        let read = || {
            ports_report::parse(blueprint.ports_report().as_bytes(), "scenario")
                .expect("valid ports report")
                .fabric
        };
        let fabric = read();
        let options = Options {
            seed: scenario.fabric.seed,
            jitter: scenario.fabric.jitter,
            ..Options::default()
        };
        let engine = &scenario.engine;
        let config = Config {
            window: engine.window,
            timeout: Duration::from_millis(engine.deadline_ms),
            grace: Duration::from_millis(engine.grace_ms),
            ..Config::default()
        };
        let plan = all_linked_ports(&fabric);
        let sim = Arc::new(Mutex::new(SimFabric::new(read(), options.clone())));
        let sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, scenario.fabric.seed);
        sweep.clock().set_wall_offset(WALL);
        Self {
            ports: ports(&fabric, &plan),
            schedule: Schedule::new(Duration::from_millis(engine.interval_ms), Duration::ZERO),
            wall_offset: WALL,
            sweep,
            sim,
            options,
            fabric,
            scenario,
        }
    }

    fn slot(&mut self, number: u64) -> Expected {
        self.apply_faults(number);
        let interval = Duration::from_millis(self.scenario.engine.interval_ms);
        let slot = self.wait();
        let Gap { missed, stepped } = self.schedule.begin(slot);
        let suspended = self.pause(number, slot.start);
        let events = self.sweep.slot_since(slot.start, interval);
        self.check(slot.start, &events);
        // The next reading of the wall clock includes the time of the suspension.
        self.set_wall_clock(suspended);
        outcome(
            number,
            self.sweep.engine.stats(),
            missed,
            stepped.round() as i64,
        )
    }

    /// Waits for the next slot, as a driver does.
    fn wait(&mut self) -> SlotStart {
        loop {
            let wall = self.sweep.clock().read_wall();
            let slot = self.schedule.next(wall.unix_ns, wall.at);
            self.sweep.wait_until(slot.start);
            match self.schedule.verdict(slot, self.sweep.now()) {
                Verdict::Start => return slot,
                Verdict::Missed => {}
                Verdict::Wait(_) => unreachable!("the wait is over"),
            }
        }
    }

    /// Sets the wall clock ahead by nanoseconds, which may be negative.
    fn set_wall_clock(&mut self, by: i64) {
        self.wall_offset += by;
        self.sweep.clock().set_wall_offset(self.wall_offset);
    }

    /// Begins the faults that begin with this slot, and ends those that end.
    fn apply_faults(&mut self, slot: u64) {
        let faults = std::mem::take(&mut self.scenario.faults);
        for Fault { from, until, what } in &faults {
            if *until == Some(slot) {
                self.set(what, false);
            }
            if *from == slot {
                self.set(what, true);
            }
        }
        self.scenario.faults = faults;
    }

    fn set(&mut self, what: &FaultKind, on: bool) {
        match what {
            FaultKind::Dead(devices) => self
                .devices(devices)
                .into_iter()
                .for_each(|id| self.sim().set_dead(id, on)),
            FaultKind::Slow { which, service_us } => {
                for id in self.devices(which) {
                    let is_switch = self.fabric.device(id).kind == NodeKind::Switch;
                    let normal = if is_switch {
                        self.options.switch_service
                    } else {
                        self.options.adapter_service
                    };
                    self.sim().set_service(
                        id,
                        if on {
                            Duration::from_micros(*service_us)
                        } else {
                            normal
                        },
                    );
                }
            }
            FaultKind::Loss(share) => self.sim().set_loss(if on { *share } else { 0.0 }),
            FaultKind::WallClock { by_s } => self.set_wall_clock(by_s * 1_000_000_000),
            FaultKind::Stall { .. } | FaultKind::Suspended { .. } => {}
            FaultKind::Delay { .. }
            | FaultKind::Duplicates(_)
            | FaultKind::Forged { .. }
            | FaultKind::Room { .. } => {
                set_reply_fault(self.sweep.faults_mut(), what, on);
            }
        }
    }

    /// Pauses the host in this slot, if the scenario has a pause. Returns the nanoseconds by which
    /// the wall clock advances while the monotonic clock is stopped.
    fn pause(&mut self, number: u64, start: Instant) -> i64 {
        let at = |ms: f64| start + Duration::from_secs_f64(ms / 1e3);
        let pause = self
            .scenario
            .faults
            .iter()
            .filter(|fault| fault.from == number)
            .find_map(|fault| match fault.what {
                FaultKind::Stall { at_ms, for_s } => Some((
                    Pause {
                        from: at(at_ms),
                        time: Duration::from_secs(for_s),
                        lossy: false,
                    },
                    0,
                )),
                FaultKind::Suspended { at_ms, for_s } => Some((
                    Pause {
                        from: at(at_ms),
                        time: Duration::ZERO,
                        lossy: true,
                    },
                    for_s,
                )),
                _ => None,
            });
        let Some((pause, wall_s)) = pause else {
            return 0;
        };
        self.sweep.pause(pause);
        (wall_s * 1_000_000_000) as i64
    }

    fn sim(&self) -> MutexGuard<'_, SimFabric> {
        self.sim.lock().expect("no panic while it is locked")
    }

    /// Returns the devices of a fault. A share of the hosts is spread over all hosts but that of
    /// the subnet manager.
    fn devices(&self, devices: &Devices) -> Vec<DeviceId> {
        let manager = self.sim().manager();
        match devices {
            Devices::Names(names) => {
                let find = |name| {
                    self.fabric
                        .iter()
                        .find(|(_, device)| device.host() == name)
                        .map(|(id, _)| id)
                };
                names
                    .iter()
                    .map(|name| find(name).unwrap_or_else(|| panic!("no device is called {name}")))
                    .collect()
            }
            Devices::Hosts(share) => {
                let hosts = self
                    .fabric
                    .iter()
                    .filter(|(id, device)| device.kind == NodeKind::Hca && Some(*id) != manager);
                let every = (1.0 / share).round() as usize;
                hosts
                    .map(|(id, _)| id)
                    .skip(every / 2)
                    .step_by(every)
                    .collect()
            }
        }
    }

    /// Asserts the rules of every slot: each port has exactly one event, and only its own counters.
    fn check(&self, start: Instant, events: &[Event]) {
        assert_eq!(events.last(), Some(&Event::SlotDone));
        let mut settled = vec![0; self.ports.len()];
        for event in events {
            if let Event::Port(port) = event {
                settled[*port] += 1;
            }
        }
        assert!(
            settled.iter().all(|times| *times == 1),
            "every port exactly once"
        );
        let sim = self.sim();
        for (port, (id, num)) in self.ports.iter().enumerate() {
            let sample = self.sweep.engine.sample(port);
            assert!(
                sample.status != Status::Ok || sample.answer(0).is_some(),
                "ok without data"
            );
            for (place, group) in sample.groups().iter().enumerate() {
                let Some((at, data)) = sample.answer(place) else {
                    continue;
                };
                assert!(at >= start, "an answer of another slot");
                let since = start.max(Instant::from_nanos(
                    at.as_nanos().saturating_sub(sample.rtt.as_nanos() as u64),
                ));
                let [before, after] = [since, at]
                    .map(|at| sim.counters(*id, *num, at).expect("a port of the fabric"));
                let own = is_between(*group, data, before, after);
                assert!(
                    own,
                    "{group:?} of port {num} of {} is another's: {}",
                    self.fabric.device(*id).name,
                    describe(&sample)
                );
            }
        }
    }
}

fn describe(sample: &Sample<'_>) -> String {
    format!(
        "{} at {:?}, {} MADs of {:?}",
        sample.status, sample.at, sample.mads, sample.rtt
    )
}

/// Returns whether the counters of an attribute lie between two readings of their port.
fn is_between(group: Group, data: &Data, before: Counters, after: Counters) -> bool {
    let raw = |name| {
        group
            .attribute()
            .field(name)
            .map_or(0, |field| field.raw(data, 0))
    };
    let within = |name, of: fn(&Counters) -> u64| (of(&before)..=of(&after)).contains(&raw(name));
    match group {
        Group::Extended => {
            within("PortXmitData", |counters| counters.xmit_words)
                && within("PortRcvData", |counters| counters.rcv_words)
                && within("PortXmitPkts", |counters| counters.xmit_packets)
                && within("PortRcvPkts", |counters| counters.rcv_packets)
        }
        // These counters stop at their maximum.
        Group::Base => within("PortXmitWait", |counters| {
            counters.xmit_wait.min(u64::from(u32::MAX))
        }),
        // The simulated fabric does not count in the other groups.
        _ => data[4..].iter().all(|octet| *octet == 0),
    }
}

fn set_reply_fault(faults: &mut Faults, what: &FaultKind, on: bool) {
    match what {
        FaultKind::Delay { share, by_ms } => {
            (faults.delayed, faults.delay) = if on {
                (*share, Duration::from_secs_f64(by_ms / 1e3))
            } else {
                (0.0, Duration::ZERO)
            };
        }
        FaultKind::Duplicates(share) => faults.duplicated = if on { *share } else { 0.0 },
        FaultKind::Forged {
            share,
            wrong,
            instead,
        } => {
            let defect = match wrong {
                scenario::Wrong::Sender => Defect::Sender,
                scenario::Wrong::Attribute => Defect::Attribute,
                scenario::Wrong::Length => Defect::Length,
            };
            faults.forged = on.then_some(Forgery {
                share: *share,
                defect,
                instead: *instead,
            });
        }
        FaultKind::Room { most, within_us } => {
            faults.receive_queue = on.then_some(ReceiveQueue {
                capacity: *most,
                within: Duration::from_micros(*within_us),
            });
        }
        _ => {}
    }
}

fn ports(fabric: &Fabric, plan: &[DevicePlan]) -> Vec<(DeviceId, PortNum)> {
    let of = |device: &DevicePlan| {
        let id = fabric
            .find(device.guid, device.ports[0])
            .expect("the plan was made of this fabric");
        device
            .ports
            .iter()
            .map(move |num| (id, *num))
            .collect::<Vec<_>>()
    };
    plan.iter().flat_map(of).collect()
}

fn outcome(slot: u64, stats: &SlotStats, missed: u64, stepped_s: i64) -> Expected {
    let Rejected {
        duplicate,
        foreign,
        length,
        class,
        attribute,
        port,
    } = stats.rejected;
    let reasons = [
        ("duplicate", duplicate),
        ("foreign", foreign),
        ("length", length),
        ("class", class),
        ("attribute", attribute),
        ("port", port),
    ];
    let rejected = reasons
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(reason, count)| (reason.to_owned(), count))
        .collect();
    let ports = Status::ALL
        .into_iter()
        .map(|status| (status.as_str().to_owned(), stats.count(status)));
    Expected {
        slots: [slot, slot],
        longest_ms: (stats.duration().as_secs_f64() * 1e5).round() / 1e2,
        ports: ports
            .filter(|(_, count)| *count > 0)
            .collect::<BTreeMap<_, _>>(),
        rejected,
        mads_late: stats.mads_late,
        missed,
        stepped_s,
    }
}
