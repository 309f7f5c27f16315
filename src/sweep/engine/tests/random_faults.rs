//! Random faults at the same time: exchanged LIDs, devices that die, move, get slow or require
//! keys, lost and duplicate MADs. The tests check the rules during the faults, and that the sweep
//! recovers soon afterwards.

use std::sync::{Arc, Mutex};

use ibnet_record::attributes::Group;
use ibnet_record::types::{Lid, NodeKind, PortNum};
use proptest::prelude::*;

use super::super::*;
use super::{MS, SECOND};
use crate::mad::pma::Bits;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::sweep::cadence::Cadence;
use crate::sweep::driver::{Clock, EngineLoop, Parts};
use crate::sweep::schedule::close_at;
use crate::sweep::virtual_sweep::{VirtualClock, VirtualTransport, all_linked_ports};
use crate::topology::{DeviceId, Fabric, ports_report, synthetic};

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 4,
    spines: 2,
    trunk: 1,
    radix: 8,
};

fn tree() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// A sweep in virtual time, whose engine is checked after every MAD.
struct FaultySweep {
    engine: Engine,
    transport: Duplicating,
    clock: VirtualClock,
    events: Vec<Event>,
}

/// A transport that delivers some replies twice.
struct Duplicating {
    transport: VirtualTransport,
    rng: fastrand::Rng,
    /// Share of replies that are delivered twice, 0 to 1.
    share: f64,
    /// Second copy of the last reply.
    copy: Option<(Completion, Mad)>,
}

impl Transport for Duplicating {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.transport.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        if let Some((completion, reply)) = self.copy.take() {
            *mad = reply;
            return Ok(Some(completion));
        }
        let completion = self.transport.recv(mad, wait, now)?;
        self.copy = completion
            .filter(|_| self.rng.f64() < self.share)
            .map(|completion| (completion, *mad));
        Ok(completion)
    }

    fn locator(&self) -> Locator {
        self.transport.locator()
    }
}

impl EngineLoop for FaultySweep {
    type Transport = Duplicating;
    type Clock = VirtualClock;

    fn parts(&mut self) -> Parts<'_, Duplicating, VirtualClock> {
        Parts {
            engine: &mut self.engine,
            transport: &mut self.transport,
            clock: &self.clock,
        }
    }

    fn on_event(&mut self, event: Event) {
        self.events.push(event);
    }

    fn on_send_error(&mut self, error: TransportError) {
        panic!("a simulated fabric takes every MAD: {error}");
    }

    fn on_transport_lost(&mut self, error: TransportError) {
        panic!("a simulated fabric is never lost: {error}");
    }

    fn on_sent(&mut self) {
        let mut waiting: Vec<u32> = self.engine.inflight.waiting().map(|of| of.device).collect();
        assert!(waiting.len() <= self.engine.config.window);
        waiting.sort_unstable();
        let all = waiting.len();
        waiting.dedup();
        assert_eq!(waiting.len(), all, "one MAD a device");
        assert!(
            self.engine
                .devices
                .iter()
                .all(|device| device.flight.unanswered() <= u16::from(self.engine.config.silence))
        );
    }
}

impl FaultySweep {
    fn discover(&mut self) {
        self.run_discovery(30 * SECOND);
        assert_eq!(
            std::mem::take(&mut self.events).last(),
            Some(&Event::DiscoveryDone)
        );
    }

    fn slot(&mut self, interval: Duration) {
        let start = self.clock.now();
        self.run_slot(start, interval);
        assert!(self.clock.now() <= close_at(start, interval));
        let events = std::mem::take(&mut self.events);
        assert_eq!(events.last(), Some(&Event::SlotDone));
        let mut settled = vec![0; self.engine.ports()];
        events.iter().for_each(|event| {
            if let Event::Port(port) = event {
                settled[*port] += 1;
            }
        });
        assert!(
            settled.iter().all(|times| *times == 1),
            "every port exactly once"
        );
        let mut counts = [0; Status::ALL.len()];
        (0..settled.len()).for_each(|port| counts[self.engine.sample(port).status as usize] += 1);
        assert_eq!(counts, self.engine.stats().ports);
        self.clock.advance_to(start + interval);
    }
}

/// Returns whether PortXmitData of a port's sample is that of the port itself: the counter 100 us
/// before the reply, at the reply, or between them.
fn is_own(sweep: &FaultySweep, sim: &SimFabric, id: DeviceId, num: PortNum, port: usize) -> bool {
    let sample = sweep.engine.sample(port);
    let Some((at, octets)) = sample.answer(0) else {
        return false;
    };
    let sent = Group::Extended
        .attribute()
        .field("PortXmitData")
        .expect("declared")
        .raw(octets, 0);
    let words = |back: u64| {
        sim.counters(id, num, Instant::from_nanos(at.as_nanos() - back))
            .map_or(0, |counters| counters.xmit_words)
    };
    (words(100_000)..=words(0)).contains(&sent)
}

fn sweep_with_faults(seed: u64, loss: f64, few: bool, path_sl: bool, window: usize, short: bool) {
    let fabric = tree();
    let mut rng = fastrand::Rng::with_seed(seed);
    let sim = Arc::new(Mutex::new(SimFabric::new(
        tree(),
        Options {
            seed,
            loss,
            ..Options::default()
        },
    )));
    let lock = || sim.lock().expect("no thread panicked");
    let manager = lock().manager().expect("the fabric has a subnet manager");
    let mut plan = all_linked_ports(&fabric);
    if few {
        plan.retain(|device| device.kind == NodeKind::Hca);
        plan.truncate(4);
        plan.remove(0);
    }
    let ids: Vec<DeviceId> = fabric
        .iter()
        .map(|(id, _)| id)
        .filter(|id| *id != manager)
        .collect();
    // PortCountersExtended stays in every slot: the test compares its counters.
    let cadence = if seed.is_multiple_of(3) {
        Cadence::EVERY_SLOT
    } else {
        Cadence::new((1..=20).map(|place| 1 + place / 2).collect(), 3, 5)
    };
    let forwarding = seed.is_multiple_of(2);
    let config = Config {
        window,
        path_sl,
        cadence,
        state_tables: !seed.is_multiple_of(3),
        forwarding,
        groups: Group::ALL[..if seed.is_multiple_of(2) { 4 } else { 20 }].into(),
        ..Config::default()
    };
    let mut engine = Engine::new(&plan, config, seed);
    for _ in 0..rng.usize(0..4) {
        lock().drop_attribute(
            ids[rng.usize(0..ids.len())],
            [0x10, 0x15, 0x16, 0x10][rng.usize(0..4)],
        );
    }
    let clock = VirtualClock::default();
    let transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), seed);
    engine.set_local(transport.local());
    let transport = Duplicating {
        transport,
        rng: fastrand::Rng::with_seed(!seed),
        share: 0.05,
        copy: None,
    };
    let mut sweep = FaultySweep {
        engine,
        transport,
        clock,
        events: Vec::new(),
    };
    sweep.discover();
    let mut keys = vec![];
    let mut free = 3000;
    for _ in 0..60 {
        for _ in 0..rng.usize(0..3) {
            let (one, other) = (ids[rng.usize(0..ids.len())], ids[rng.usize(0..ids.len())]);
            let mut sim = lock();
            match rng.u32(0..11) {
                0..3 => sim.swap_lids(one, other),
                3 => {
                    free += 1;
                    sim.move_lid(one, Lid(free));
                }
                4 | 5 => sim.set_dead(one, true),
                6 | 7 => sim.set_dead(one, false),
                8 => sim.set_service(one, Duration::from_micros(rng.u64(1..70_000))),
                9 => sim.set_service(one, 30 * Duration::from_micros(1)),
                10 if rng.u32(0..4) == 0 && keys.len() < 2 => {
                    keys.push(one);
                    sim.demand_m_key(one);
                }
                _ => {
                    let port = rng.usize(0..sweep.engine.ports());
                    sweep.engine.verify(port);
                }
            }
        }
        sweep.slot(if short { 70 * MS } else { SECOND });
    }
    ids.iter().for_each(|id| {
        lock().set_dead(*id, false);
        lock().set_service(*id, 30 * Duration::from_micros(1));
    });
    lock().set_loss(0.0);
    sweep.transport.share = 0.0;
    // A group that was disabled because its device was very slow is probed again after ten minutes.
    let calm = if sweep
        .engine
        .devices
        .iter()
        .any(|device| device.groups.unsupported() != 0)
    {
        770
    } else {
        150
    };
    (0..calm).for_each(|_| sweep.slot(SECOND));
    let mut port = 0;
    for (index, device) in plan.iter().enumerate() {
        let (id, _) = fabric
            .iter()
            .find(|(_, of)| of.guid == device.guid)
            .expect("planned");
        for num in &device.ports {
            let sample = sweep.engine.sample(port);
            let why = format!(
                "seed {seed}: device {index} {:?} {:?} at {:?}, is at {:?}",
                (sample.status, &sweep.engine.devices[index].groups),
                sweep.engine.devices[index].identity,
                sweep.engine.lid(index),
                lock().lid(id)
            );
            if !keys.contains(&id) {
                assert_eq!(sample.status, Status::Ok, "{why}");
                assert!(
                    sample.verified && is_own(&sweep, &lock(), id, *num, port),
                    "{why}"
                );
            }
            port += 1;
        }
    }
    // Forwarding tables are read faster for a minute after a change. The last change can be late: a
    // device is looked for less and less often, so its new LID is found up to two minutes later.
    let mut slots = 0;
    while sweep.engine.forwarding.is_early(sweep.clock.now()) {
        assert!(slots < 180, "seed {seed}: the higher rate does not end");
        sweep.slot(SECOND);
        slots += 1;
    }
    // Failed checks are not repeated in every slot: each is sent once a minute.
    let checks = |sweep: &FaultySweep| {
        let counters: u32 = (0..sweep.engine.ports())
            .map(|port| sweep.engine.sample(port).mads)
            .sum();
        sweep.engine.stats().mads_sent - u64::from(counters)
    };
    let sent: u64 = (0..60)
        .map(|_| {
            sweep.slot(SECOND);
            checks(&sweep)
        })
        .sum();
    // The forwarding tables have a limit of their own.
    let switches = plan
        .iter()
        .filter(|device| device.kind == NodeKind::Switch)
        .count();
    let tables = usize::from(forwarding) * 60 * ROUTES_RATE as usize * switches;
    let limit = 12 * plan.len() + 2 * 2 * sweep.engine.ports() + 20 * plan.len() + tables;
    assert!(
        sent as usize <= limit,
        "seed {seed}: {sent} checks a minute, limit {limit}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_port_recovers_after_random_faults(seed in any::<u64>(), loss in 0.0..0.6f64, few: bool, path_sl: bool, window in 1usize..40, short: bool) {
        sweep_with_faults(seed, loss, few, path_sl, window, short);
    }
}
