//! Everything at once, at random: LIDs that are exchanged, devices that die, that move, that are
//! slow or want keys, MADs that are lost or come twice. What must hold meanwhile, and that all is
//! well again soon after.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::super::*;
use super::{MS, SECOND};
use crate::mad::MAD_LEN;
use crate::mad::pma::Group;
use crate::mad::transport::sim::{Client, Options, SimFabric};
use crate::sweep::rehearsal::whole;
use crate::topology::{DeviceId, Fabric, ports_report, synthetic};
use crate::types::{Lid, NodeKind, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree { leaves: 2, hosts: 4, spines: 2, trunk: 1, radix: 8 };

fn tree() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
}

struct Shaken {
    engine: Engine,
    client: Client,
    now: Instant,
    rng: fastrand::Rng,
    /// How often a reply comes twice.
    twice: f64,
}

impl Shaken {
    fn run(&mut self) -> Vec<Event> {
        let (mut events, mut mad) = (Vec::new(), [0; MAD_LEN]);
        loop {
            while let Some((target, _)) = self.engine.poll_transmit(self.now, &mut mad) {
                self.client.send(&target, &mad, self.now);
                let mut waiting: Vec<u32> = self.engine.inflight.waiting().map(|of| of.device).collect();
                assert!(waiting.len() <= self.engine.config.window);
                waiting.sort_unstable();
                let all = waiting.len();
                waiting.dedup();
                assert_eq!(waiting.len(), all, "one MAD a device");
                assert!(self.engine.devices.iter().all(|device| device.flight.unanswered() <= u16::from(self.engine.config.silence)));
            }
            events.extend(std::iter::from_fn(|| self.engine.poll_event()));
            let Some(timeout) = self.engine.poll_timeout() else { return events };
            self.now = self.client.next_due().map_or(timeout, |due| due.min(timeout)).max(self.now);
            while let Some((completion, reply)) = self.client.take_due(self.now) {
                let times = 1 + u32::from(self.rng.f64() < self.twice);
                (0..times).for_each(|_| self.engine.handle_completion(&completion, &reply, self.now));
            }
            self.engine.handle_timeout(self.now);
        }
    }

    fn slot(&mut self, interval: Duration) {
        let start = self.now;
        self.engine.start_slot(start, start + interval.mul_f64(0.9), start + interval.mul_f64(0.95));
        let events = self.run();
        assert!(self.now <= start + interval.mul_f64(0.95));
        assert_eq!(events.last(), Some(&Event::SlotDone));
        let mut told = vec![0; self.engine.ports()];
        events.iter().for_each(|event| {
            if let Event::Port(port) = event {
                told[*port] += 1;
            }
        });
        assert!(told.iter().all(|times| *times == 1), "every port exactly once");
        let mut counts = [0; Status::ALL.len()];
        (0..told.len()).for_each(|port| counts[self.engine.sample(port).status as usize] += 1);
        assert_eq!(counts, self.engine.stats().ports);
        self.now = start + interval;
    }
}

/// PortXmitData of a port's sample lies between what its own device sent when the slot began and
/// when it ended.
fn is_own(shaken: &Shaken, sim: &SimFabric, id: DeviceId, num: PortNum, port: usize) -> bool {
    let sample = shaken.engine.sample(port);
    let Some((at, octets)) = sample.answer(0) else { return false };
    let sent = Group::Extended.attribute().field("PortXmitData").expect("declared").raw(octets, 0);
    let words = |back: u64| sim.counters(id, num, Instant::from_nanos(at.as_nanos() - back)).map_or(0, |counters| counters.xmit_words);
    (words(100_000)..=words(0)).contains(&sent)
}

fn shake(seed: u64, loss: f64, few: bool, path_sl: bool, window: usize, short: bool) {
    let fabric = tree();
    let mut rng = fastrand::Rng::with_seed(seed);
    let sim = Arc::new(Mutex::new(SimFabric::new(tree(), Options { seed, loss, ..Options::default() })));
    let lock = || sim.lock().expect("nobody panics with it");
    let manager = lock().manager().expect("there is one");
    let mut plan = whole(&fabric);
    if few {
        plan.retain(|device| device.kind == NodeKind::Hca);
        plan.truncate(4);
        plan.remove(0);
    }
    let ids: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(|id| *id != manager).collect();
    let config = Config { window, path_sl, groups: Group::ALL[..if seed.is_multiple_of(2) { 4 } else { 20 }].into(), ..Config::default() };
    let mut engine = Engine::new(&plan, config, seed);
    for _ in 0..rng.usize(0..4) {
        lock().drop_attribute(ids[rng.usize(0..ids.len())], [0x10, 0x15, 0x16, 0x10][rng.usize(0..4)]);
    }
    let client = Client::new(Arc::clone(&sim));
    engine.set_local(client.local());
    let mut shaken = Shaken { engine, client, now: Instant::ZERO, rng: fastrand::Rng::with_seed(!seed), twice: 0.05 };
    shaken.engine.start_discovery(shaken.now, shaken.now + 30 * SECOND);
    assert_eq!(shaken.run().last(), Some(&Event::DiscoveryDone));
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
                    let port = rng.usize(0..shaken.engine.ports());
                    shaken.engine.verify(port);
                }
            }
        }
        shaken.slot(if short { 70 * MS } else { SECOND });
    }
    ids.iter().for_each(|id| {
        lock().set_dead(*id, false);
        lock().set_service(*id, 30 * Duration::from_micros(1));
    });
    lock().set_loss(0.0);
    shaken.twice = 0.0;
    // What was set aside, because a device was slower than all patience, is probed again after ten
    // minutes.
    let calm = if shaken.engine.devices.iter().any(|device| device.groups.unsupported() != 0) { 770 } else { 150 };
    (0..calm).for_each(|_| shaken.slot(SECOND));
    let mut port = 0;
    for (index, device) in plan.iter().enumerate() {
        let (id, _) = fabric.iter().find(|(_, of)| of.guid == device.guid).expect("planned");
        for num in &device.ports {
            let sample = shaken.engine.sample(port);
            let why = format!(
                "seed {seed}: device {index} {:?} {:?} at {:?}, is at {:?}",
                (sample.status, &shaken.engine.devices[index].groups),
                shaken.engine.devices[index].identity,
                shaken.engine.lid(index),
                lock().lid(id)
            );
            if !keys.contains(&id) {
                assert_eq!(sample.status, Status::Ok, "{why}");
                assert!(sample.verified && is_own(&shaken, &lock(), id, *num, port), "{why}");
            }
            port += 1;
        }
    }
    // Nothing is asked in vain for ever: the checks of a minute, once each.
    let asked = |shaken: &Shaken| {
        let counters: u32 = (0..shaken.engine.ports()).map(|port| shaken.engine.sample(port).mads).sum();
        shaken.engine.stats().mads_sent - u64::from(counters)
    };
    let chores: u64 = (0..60)
        .map(|_| {
            shaken.slot(SECOND);
            asked(&shaken)
        })
        .sum();
    let most = 12 * plan.len() + 2 * 2 * shaken.engine.ports() + 20 * plan.len();
    assert!(chores as usize <= most, "seed {seed}: {chores} chores a minute, of {most}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_is_well_again(seed in any::<u64>(), loss in 0.0..0.6f64, few: bool, path_sl: bool, window in 1usize..40, short: bool) {
        shake(seed, loss, few, path_sl, window, short);
    }
}
