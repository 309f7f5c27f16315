//! Links of a large fabric that go down and come up at random times, in virtual time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ibnet::mad::Mad;
use ibnet::mad::directed::CLASS_SUBN_DIRECTED_ROUTE;
use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::Header;
use ibnet::mad::smp::{CLASS_SUBN_LID_ROUTED, PortInfo};
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::driver::Clock;
use ibnet::sweep::engine::{Config, DevicePlan, Event};
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualSweep, VirtualTransport, all_linked_ports};
use ibnet::time::Instant;
use ibnet::topology::synthetic::Blueprint;
use ibnet::topology::{DeviceId, Fabric, ports_report};
use ibnet_record::types::{LinkRate, NodeKind, PortNum};
use rayon::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

/// A sweep of a fabric at 1 Hz.
pub(super) struct Links {
    pub(super) fabric: Fabric,
    /// Number of samplers, which share the devices.
    pub(super) samplers: usize,
    pub(super) seconds: u64,
    /// Share of requests that are lost.
    pub(super) loss: f64,
    /// Whether each linked port of a switch goes down once and comes up 3 to 30 s later.
    pub(super) changes: bool,
    pub(super) config: Config,
}

/// What the samplers have found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) changes: usize,
    /// Time from each change to the end of its confirmation, ascending.
    pub(super) delays: Vec<Duration>,
    /// Number of changes by the number of slots from that of the change to that of the event.
    pub(super) slots: [usize; 4],
    /// Number of events without a change.
    pub(super) false_events: usize,
    /// Number of downs that LinkDownedCounter had and the simulator had not.
    pub(super) false_downs: u64,
    /// SMPs to switches in all slots, confirmations included.
    pub(super) smps: u64,
    pub(super) switches: usize,
    pub(super) ports: usize,
}

/// A change of a link: time, port of the plan, the port itself, and whether it comes up.
type Change = (Instant, usize, (DeviceId, PortNum), bool);

/// A sender that changes links at their times, and counts the SMPs to switches.
struct Cutting {
    inner: VirtualTransport,
    sim: Arc<Mutex<SimFabric>>,
    changes: VecDeque<Change>,
    switches: Vec<u16>,
    smps: Arc<AtomicU64>,
}

impl Transport for Cutting {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        while self.changes.front().is_some_and(|change| change.0 <= now) {
            let Some((_, _, (id, port), up)) = self.changes.pop_front() else {
                break;
            };
            let info = if up {
                PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE)
            } else {
                PortInfo {
                    state: PortInfo::DOWN,
                    ..PortInfo::default()
                }
            };
            let mut sim = self.sim.lock().unwrap_or_else(PoisonError::into_inner);
            sim.set_link(id, port, info);
        }
        let class = Header::parse(mad).class;
        let is_smp = [CLASS_SUBN_LID_ROUTED, CLASS_SUBN_DIRECTED_ROUTE].contains(&class);
        if is_smp && self.switches.contains(&target.lid.0) {
            self.smps.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        self.inner.recv(mad, wait, now)
    }

    fn locator(&self) -> Locator {
        self.inner.locator()
    }
}

impl Links {
    pub(super) fn sweep(&self) -> Found {
        let plan = all_linked_ports(&self.fabric);
        let share = |sampler: usize| -> Vec<DevicePlan> {
            plan.iter()
                .skip(sampler)
                .step_by(self.samplers)
                .cloned()
                .collect()
        };
        let samplers: Vec<usize> = (0..self.samplers).collect();
        let founds: Vec<Found> = samplers
            .par_chunks(self.samplers.div_ceil(4 * rayon::current_num_threads()))
            .map(|samplers| {
                let options = Options {
                    loss: self.loss,
                    seed: samplers[0] as u64,
                    ..Options::default()
                };
                let fabric = self.fabric.clone();
                let sim = SimFabric::with_traffic(fabric, options, Traffic::none());
                let sim = Arc::new(Mutex::new(sim));
                let found = samplers.iter().map(|sampler| {
                    self.sweep_share(&share(*sampler), Arc::clone(&sim), *sampler as u64)
                });
                found.fold(Found::default(), Found::plus)
            })
            .collect();
        let mut all = founds.into_iter().fold(Found::default(), Found::plus);
        all.delays.sort_unstable();
        all
    }

    fn sweep_share(&self, plan: &[DevicePlan], sim: Arc<Mutex<SimFabric>>, seed: u64) -> Found {
        let clock = VirtualClock::default();
        let transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), seed);
        let local = transport.local();
        let is_switch = |device: &&DevicePlan| device.kind == NodeKind::Switch;
        let switches: Vec<u16> = plan
            .iter()
            .filter(is_switch)
            .map(|device| device.lid.0)
            .collect();
        let smps = Arc::new(AtomicU64::new(0));
        // The discovery takes less than a second.
        let start = Instant::ZERO + 2 * SECOND;
        let changes = if self.changes {
            self.changes(plan, start, seed)
        } else {
            VecDeque::new()
        };
        let mut found = Found {
            changes: changes.len(),
            switches: switches.len(),
            ports: plan.iter().map(|device| device.ports.len()).sum(),
            ..Found::default()
        };
        let mut waiting = changes.clone();
        let transport = Cutting {
            inner: transport,
            sim,
            changes,
            switches,
            smps: Arc::clone(&smps),
        };
        let config = self.config.clone();
        let columns = Columns::new(&config.groups);
        let mut sweep = VirtualSweep::with_transport(transport, clock.clone(), plan, config, seed);
        sweep.engine.set_local(local);
        sweep.discover();
        sweep.wait_until(start);
        smps.store(0, Ordering::Relaxed);
        let mut up = vec![true; found.ports];
        let mut readings: Vec<_> = up.iter().map(|_| Reading::new(&columns)).collect();
        let mut linked = Vec::new();
        for slot in 0..self.seconds {
            let begin = start + SECOND * slot as u32;
            sweep.run_slot(begin, SECOND, |event| {
                if let Event::Link(port) = event {
                    linked.push((port, clock.now()));
                }
            });
            for (port, at) in linked.drain(..) {
                let link = sweep.engine.link(port).expect("an event reported it").0;
                let is_up = link.state == PortInfo::ACTIVE;
                if std::mem::replace(&mut up[port], is_up) == is_up {
                    continue;
                }
                let change = waiting
                    .iter()
                    .position(|change| (change.1, change.3) == (port, is_up));
                match change.and_then(|place| waiting.remove(place)) {
                    Some((changed, ..)) if changed <= at => {
                        found.delays.push(at - changed);
                        let slots = slot - (changed - start).as_secs();
                        found.slots[slots.min(3) as usize] += 1;
                    }
                    _ => found.false_events += 1,
                }
            }
            if !self.changes {
                for (port, reading) in readings.iter_mut().enumerate() {
                    reading.take(&columns, slot, &sweep.engine.sample(port));
                    found.false_downs += reading.downs.unwrap_or(0);
                }
            }
            sweep.wait_until(begin + SECOND);
        }
        found.smps = smps.load(Ordering::Relaxed);
        found
    }

    /// Returns the changes of the links of all switches, in the order of their times.
    fn changes(&self, plan: &[DevicePlan], start: Instant, seed: u64) -> VecDeque<Change> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let ports = plan
            .iter()
            .flat_map(|device| device.ports.iter().map(move |num| (device, num)));
        let mut changes = Vec::new();
        for (port, (device, num)) in ports.enumerate() {
            if device.kind != NodeKind::Switch {
                continue;
            }
            let id = self.fabric.find(device.guid, *num).expect("of this fabric");
            let length = Duration::from_nanos(rng.u64(3_000_000_000..30_000_000_000));
            let last = SECOND * (self.seconds - 34) as u32;
            let down = start + Duration::from_nanos(rng.u64(0..last.as_nanos() as u64));
            changes.push((down, port, (id, *num), false));
            changes.push((down + length, port, (id, *num), true));
        }
        changes.sort_unstable_by_key(|change| (change.0, change.1));
        changes.into()
    }
}

impl Found {
    fn plus(mut self, other: Self) -> Self {
        self.delays.extend(other.delays);
        self.slots
            .iter_mut()
            .zip(other.slots)
            .for_each(|(sum, more)| *sum += more);
        self.changes += other.changes;
        self.false_events += other.false_events;
        self.false_downs += other.false_downs;
        self.smps += other.smps;
        self.switches += other.switches;
        self.ports += other.ports;
        self
    }

    /// Checks that each change was known in the next slot, or, with lost requests, one slot later,
    /// and that the SMPs are few.
    ///
    /// # Panics
    /// Panics if not.
    pub(super) fn check(&self, of: &Links) {
        let [same, next, later, _] = self.slots;
        let summary = || Self {
            delays: Vec::new(),
            ..*self
        };
        let all_known = same + next + later == self.changes && (of.loss > 0.0 || later == 0);
        assert!(all_known, "{:?}", summary());
        assert_eq!(
            (self.false_events, self.false_downs),
            (0, 0),
            "{:?}",
            summary()
        );
        let in_time = self.changes == 0 || of.loss > 0.0 || self.within_a_second() >= 0.99;
        assert!(in_time, "{}", self.within_a_second());
        assert!(self.smps_per_switch(of.seconds) <= 2.0, "{:?}", summary());
    }

    /// Returns the share of the changes that were known within a second.
    pub(super) fn within_a_second(&self) -> f64 {
        let known = self.delays.partition_point(|delay| *delay <= SECOND);
        known as f64 / self.changes.max(1) as f64
    }

    /// Returns the mean number of SMPs for each switch and second, without one PortInfo for each
    /// change.
    pub(super) fn smps_per_switch(&self, seconds: u64) -> f64 {
        (self.smps - self.delays.len() as u64) as f64 / self.switches as f64 / seconds as f64
    }
}

/// Returns a fabric of three tiers of switches with an even number of ports. A pod has half as many
/// leaf switches and spines, and each leaf switch as many hosts. It has three cables for each host:
/// 60,000 with 40 ports and 50 pods.
pub(super) fn three_tiers(radix: usize, pods: usize) -> Fabric {
    let half = radix / 2;
    let mut plan = Blueprint::new("EDR");
    // A group of core switches for each place of a spine in its pod.
    let cores: Vec<Vec<_>> = (1..=half)
        .map(|group| {
            (1..=(pods * half).div_ceil(radix))
                .map(|n| plan.switch(&format!("core{group:02}-{n:02}"), radix))
                .collect()
        })
        .collect();
    let mut hosts = 0;
    for pod in 0..pods {
        let spines: Vec<_> = (1..=half)
            .map(|n| plan.switch(&format!("spine{pod}-{n:02}"), radix))
            .collect();
        for (spine, cores) in spines.iter().zip(&cores) {
            for up in 0..half {
                let cable = pod * half + up;
                let core = (cores[cable % cores.len()], 1 + cable / cores.len());
                plan.cable((*spine, half + 1 + up), core);
            }
        }
        for n in 1..=half {
            let leaf = plan.switch(&format!("leaf{pod}-{n:02}"), radix);
            for (place, spine) in spines.iter().enumerate() {
                plan.cable((leaf, half + 1 + place), (*spine, n));
            }
            for port in 1..=half {
                hosts += 1;
                let adapter = plan.adapter(&format!("node{hosts:05} mlx5_0"), 1);
                plan.cable((adapter, 1), (leaf, port));
            }
        }
    }
    ports_report::parse(plan.ports_report().as_bytes(), "three tiers")
        .expect("valid ports report")
        .fabric
}
