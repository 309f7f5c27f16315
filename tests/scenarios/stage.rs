//! Plays a story: engine, simulated fabric and a wall clock in virtual time, slot by slot as the driver does it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ibnet::mad::pma::{Data, Group};
use ibnet::mad::transport::sim::agent::Counters;
use ibnet::mad::transport::sim::faults::{Faults, Forgery, Room, Wrong};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::sweep::engine::{Config, DevicePlan, Event};
use ibnet::sweep::rehearsal::{Pause, Rehearsal, whole};
use ibnet::sweep::sample::{Sample, Status};
use ibnet::sweep::schedule::{Gap, Schedule, Slot, Verdict};
use ibnet::sweep::stats::{Rejected, SlotStats};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet::types::{NodeKind, PortNum};

use super::story::{self, Expected, Fault, Story, What, Which};

/// What the wall clock says at the zero of time: a moment in 2026, not at the start of a slot.
const WALL: i64 = 1_795_000_000_123_456_789;

struct Stage {
    story: Story,
    fabric: Fabric,
    options: Options,
    sim: Arc<Mutex<SimFabric>>,
    rehearsal: Rehearsal,
    /// The device and number of each port, as the engine counts them.
    ports: Vec<(DeviceId, PortNum)>,
    schedule: Schedule,
    /// What the wall clock says is the monotonic time and this much more, in nanoseconds.
    ahead: i64,
}

/// What came of each slot.
///
/// # Panics
/// Where something happened that must not, whatever goes wrong: a port that was told not once, or data that is not its own.
pub(super) fn play(story: Story) -> Vec<Expected> {
    let mut stage = Stage::new(story);
    stage.change(0);
    assert_eq!(stage.rehearsal.discover().last(), Some(&Event::DiscoveryDone));
    (1..=stage.story.engine.slots).map(|slot| stage.slot(slot)).collect()
}

impl Stage {
    fn new(story: Story) -> Self {
        let blueprint = story.fabric.tree.as_ref().map_or_else(synthetic::stria, |tree| {
            let story::Tree { leaves, hosts, spines, radix } = *tree;
            synthetic::FatTree { leaves, hosts, spines, trunk: 1, radix }.blueprint()
        });
        let read = || ports_report::parse(blueprint.ports_report().as_bytes(), "story").expect("our own format").fabric;
        let fabric = read();
        let options = Options { seed: story.fabric.seed, jitter: story.fabric.jitter, ..Options::default() };
        let engine = &story.engine;
        let config = Config {
            window: engine.window,
            timeout: Duration::from_millis(engine.deadline_ms),
            grace: Duration::from_millis(engine.grace_ms),
            ..Config::default()
        };
        let plan = whole(&fabric);
        let sim = Arc::new(Mutex::new(SimFabric::new(read(), options.clone())));
        Self {
            ports: ports(&fabric, &plan),
            rehearsal: Rehearsal::new(Arc::clone(&sim), &plan, config, story.fabric.seed),
            schedule: Schedule::new(Duration::from_millis(engine.interval_ms), Duration::ZERO),
            ahead: WALL,
            sim,
            options,
            fabric,
            story,
        }
    }

    fn slot(&mut self, number: u64) -> Expected {
        self.change(number);
        let interval = Duration::from_millis(self.story.engine.interval_ms);
        let slot = self.wait();
        let Gap { missed, stepped } = self.schedule.begin(slot);
        let suspended = self.befall(number, slot.start);
        let events = self.rehearsal.slot_since(slot.start, interval);
        self.check(slot.start, &events);
        // Known to who reads the wall clock the next time.
        self.ahead += suspended;
        found(number, self.rehearsal.engine.stats(), missed, stepped.round() as i64)
    }

    /// Waits for the next slot, as a driver does.
    fn wait(&mut self) -> Slot {
        loop {
            let now = self.rehearsal.now();
            let wall = (now.as_nanos() as i64 + self.ahead) as u64;
            let slot = self.schedule.next(wall, now);
            self.rehearsal.wait_until(slot.start);
            match self.schedule.verdict(slot, self.rehearsal.now()) {
                Verdict::Start => return slot,
                Verdict::Missed => {}
                Verdict::Wait(_) => unreachable!("it was waited for"),
            }
        }
    }

    /// Lets faults begin that begin with this slot, and end that end.
    fn change(&mut self, slot: u64) {
        let faults = std::mem::take(&mut self.story.faults);
        for Fault { from, until, what } in &faults {
            if *until == Some(slot) {
                self.set(what, false);
            }
            if *from == slot {
                self.set(what, true);
            }
        }
        self.story.faults = faults;
    }

    fn set(&mut self, what: &What, on: bool) {
        match what {
            What::Dead(which) => self.which(which).into_iter().for_each(|id| self.sim().set_dead(id, on)),
            What::Slow { which, service_us } => {
                for id in self.which(which) {
                    let is_switch = self.fabric.device(id).kind == NodeKind::Switch;
                    let usual = if is_switch { self.options.switch_service } else { self.options.adapter_service };
                    self.sim().set_service(id, if on { Duration::from_micros(*service_us) } else { usual });
                }
            }
            What::Loss(share) => self.sim().set_loss(if on { *share } else { 0.0 }),
            What::WallClock { by_s } => self.ahead += by_s * 1_000_000_000,
            What::Stall { .. } | What::Suspended { .. } => {}
            What::Delay { .. } | What::Duplicates(_) | What::Forged { .. } | What::Room { .. } => {
                reply_fault(self.rehearsal.faults_mut(), what, on);
            }
        }
    }

    /// Lets the host stand still in this slot, if it does. Tells by how much its wall clock is ahead afterwards, in nanoseconds.
    fn befall(&mut self, number: u64, start: Instant) -> i64 {
        let at = |ms: f64| start + Duration::from_secs_f64(ms / 1e3);
        match self.story.faults.iter().filter(|fault| fault.from == number).find_map(|fault| match fault.what {
            What::Stall { at_ms, for_s } => Some((Pause { from: at(at_ms), time: Duration::from_secs(for_s), lossy: false }, 0)),
            What::Suspended { at_ms, for_s } => Some((Pause { from: at(at_ms), time: Duration::ZERO, lossy: true }, for_s)),
            _ => None,
        }) {
            Some((pause, ahead_s)) => {
                self.rehearsal.pause(pause);
                (ahead_s * 1_000_000_000) as i64
            }
            None => 0,
        }
    }

    fn sim(&self) -> MutexGuard<'_, SimFabric> {
        self.sim.lock().expect("nobody panics with it")
    }

    /// Devices; a share of the hosts is spread over all of them, and spares that of the subnet manager.
    fn which(&self, which: &Which) -> Vec<DeviceId> {
        let manager = self.sim().manager();
        match which {
            Which::Names(names) => {
                let find = |name| self.fabric.iter().find(|(_, device)| device.host() == name).map(|(id, _)| id);
                names.iter().map(|name| find(name).unwrap_or_else(|| panic!("there is no {name}"))).collect()
            }
            Which::Hosts(share) => {
                let hosts = self.fabric.iter().filter(|(id, device)| device.kind == NodeKind::Hca && Some(*id) != manager);
                let every = (1.0 / share).round() as usize;
                hosts.map(|(id, _)| id).skip(every / 2).step_by(every).collect()
            }
        }
    }

    /// What holds in every slot: each port is told exactly once, and shows nobody's counters but its own.
    fn check(&self, start: Instant, events: &[Event]) {
        assert_eq!(events.last(), Some(&Event::SlotDone));
        let mut told = vec![0; self.ports.len()];
        for event in events {
            if let Event::Port(port) = event {
                told[*port] += 1;
            }
        }
        assert!(told.iter().all(|times| *times == 1), "every port exactly once");
        let sim = self.sim();
        for (port, (id, num)) in self.ports.iter().enumerate() {
            let sample = self.rehearsal.engine.sample(port);
            assert!(sample.status != Status::Ok || sample.answer(0).is_some(), "ok without data");
            for (place, group) in sample.groups().iter().enumerate() {
                let Some((at, data)) = sample.answer(place) else { continue };
                assert!(at >= start, "an answer of another slot");
                let since = start.max(Instant::from_nanos(at.as_nanos().saturating_sub(sample.rtt.as_nanos() as u64)));
                let [before, after] = [since, at].map(|at| sim.counters(*id, *num, at).expect("a port of the fabric"));
                let own = is_between(*group, data, before, after);
                assert!(own, "{group:?} of port {num} of {} is another's: {}", self.fabric.device(*id).name, shown(&sample));
            }
        }
    }
}

fn shown(sample: &Sample<'_>) -> String {
    format!("{} at {:?}, {} MADs of {:?}", sample.status, sample.at, sample.mads, sample.rtt)
}

/// Whether an attribute has what its port counted between these two.
fn is_between(group: Group, data: &Data, before: Counters, after: Counters) -> bool {
    let raw = |name| group.attribute().field(name).map_or(0, |field| field.raw(data, 0));
    let within = |name, of: fn(&Counters) -> u64| (of(&before)..=of(&after)).contains(&raw(name));
    match group {
        Group::Extended => {
            within("PortXmitData", |counters| counters.xmit_words)
                && within("PortRcvData", |counters| counters.rcv_words)
                && within("PortXmitPkts", |counters| counters.xmit_packets)
                && within("PortRcvPkts", |counters| counters.rcv_packets)
        }
        // These fill up at all ones.
        Group::Base => within("PortXmitWait", |counters| counters.xmit_wait.min(u64::from(u32::MAX))),
        // Nobody here counts anything in those.
        _ => data[4..].iter().all(|octet| *octet == 0),
    }
}

fn reply_fault(faults: &mut Faults, what: &What, on: bool) {
    match what {
        What::Delay { share, by_ms } => {
            (faults.delayed, faults.delay) = if on { (*share, Duration::from_secs_f64(by_ms / 1e3)) } else { (0.0, Duration::ZERO) };
        }
        What::Duplicates(share) => faults.duplicated = if on { *share } else { 0.0 },
        What::Forged { share, wrong, instead } => {
            let wrong = match wrong {
                story::Wrong::Sender => Wrong::Sender,
                story::Wrong::Attribute => Wrong::Attribute,
                story::Wrong::Length => Wrong::Length,
            };
            faults.forged = on.then_some(Forgery { share: *share, wrong, instead: *instead });
        }
        What::Room { most, within_us } => faults.room = on.then_some(Room { most: *most, within: Duration::from_micros(*within_us) }),
        _ => {}
    }
}

fn ports(fabric: &Fabric, plan: &[DevicePlan]) -> Vec<(DeviceId, PortNum)> {
    let of = |device: &DevicePlan| {
        let id = fabric.find(device.guid, device.ports[0]).expect("planned from it");
        device.ports.iter().map(move |num| (id, *num)).collect::<Vec<_>>()
    };
    plan.iter().flat_map(of).collect()
}

fn found(slot: u64, stats: &SlotStats, missed: u64, stepped_s: i64) -> Expected {
    let Rejected { duplicate, foreign, length, class, attribute, port } = stats.rejected;
    let reasons =
        [("duplicate", duplicate), ("foreign", foreign), ("length", length), ("class", class), ("attribute", attribute), ("port", port)];
    let rejected = reasons.into_iter().filter(|(_, count)| *count > 0).map(|(reason, count)| (reason.to_owned(), count)).collect();
    let ports = Status::ALL.into_iter().map(|status| (status.as_str().to_owned(), stats.count(status)));
    Expected {
        slots: [slot, slot],
        longest_ms: (stats.duration().as_secs_f64() * 1e5).round() / 1e2,
        ports: ports.filter(|(_, count)| *count > 0).collect::<BTreeMap<_, _>>(),
        rejected,
        mads_late: stats.mads_late,
        missed,
        stepped_s,
    }
}
