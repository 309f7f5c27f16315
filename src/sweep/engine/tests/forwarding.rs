//! Reads of forwarding tables on the simulated fabric, in virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ibnet_record::types::{Lid, LinkRate};

use super::*;
use crate::mad::forwarding::{Block, NO_ROUTE, vls};
use crate::mad::sm_info::{SmInfo, SmState};
use crate::mad::smp::PortInfo;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::synthetic::FatTree;
use crate::topology::{DeviceId, Fabric, ports_report};

/// Two leaf switches with 31 hosts each, and two spine switches: 66 LIDs, which are two blocks.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 31,
    spines: 2,
    trunk: 2,
    radix: 36,
};

struct Sweep {
    fabric: Fabric,
    sim: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    ports: usize,
    /// The newest block of each switch, with the time at which it was reported.
    blocks: BTreeMap<(usize, u16), (Instant, Block)>,
    readings: Vec<ForwardingReading>,
    events: Vec<Event>,
    interval: Duration,
}

impl Sweep {
    fn new(change: impl FnOnce(&mut SimFabric)) -> Self {
        let fabric = ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
            .unwrap()
            .fabric;
        let options = Options {
            jitter: 0.0,
            ..Options::default()
        };
        let mut sim = SimFabric::new(fabric.clone(), options);
        change(&mut sim);
        let sim = Arc::new(Mutex::new(sim));
        let plan = all_linked_ports(&fabric);
        let config = Config {
            forwarding: true,
            managers_every: Some(2 * SECOND),
            identity_every: 4 * SECOND,
            ..Config::default()
        };
        let mut sweep = VirtualSweep::new(Arc::clone(&sim), &plan, config, 7);
        sweep.discover();
        let ports = plan.iter().map(|device| device.ports.len()).sum();
        Self {
            fabric,
            sim,
            sweep,
            ports,
            blocks: BTreeMap::new(),
            readings: Vec::new(),
            events: Vec::new(),
            interval: SECOND,
        }
    }

    fn switches(&self) -> Vec<DeviceId> {
        let switches = self.fabric.iter();
        let switches = switches.filter(|(_, device)| device.kind == NodeKind::Switch);
        switches.map(|(id, _)| id).collect()
    }

    /// Returns the index of a switch in the plan.
    fn place(&self, id: DeviceId) -> usize {
        let guid = self.fabric.device(id).guid;
        let mut plan = all_linked_ports(&self.fabric).into_iter();
        plan.position(|device| device.guid == guid).unwrap()
    }

    /// Runs slots. All counters are read in each of them.
    fn run(&mut self, slots: u64) {
        for _ in 0..slots {
            self.slot();
            let ok = self.sweep.engine.stats().count(Status::Ok) as usize;
            assert_eq!(ok, self.ports, "the counters of all ports are read");
        }
    }

    fn slot(&mut self) {
        let events = self.sweep.slot(self.interval);
        self.events.extend(events.into_iter().filter(|event| {
            matches!(
                event,
                Event::RoutesChanged { .. } | Event::LidChange { .. } | Event::WrongDevice { .. }
            )
        }));
        while let Some(reading) = self.sweep.engine.take_forwarding() {
            if let Table::Linear { block, ports, .. } = reading.table {
                self.blocks
                    .insert((reading.device, block), (reading.at, ports));
            }
            self.readings.push(reading);
        }
    }

    /// Returns whether the blocks are the tables of the fabric.
    fn is_complete(&self) -> bool {
        let sim = self.sim.lock().unwrap();
        let top = (1..).map(Lid).take(66);
        let is_known = |id: DeviceId| {
            let place = self.place(id);
            top.clone().all(|lid| {
                let block = self.blocks.get(&(place, lid.0 / 64));
                block.is_some_and(|(_, ports)| ports[usize::from(lid.0 % 64)] == sim.route(id, lid))
            })
        };
        self.switches().into_iter().all(is_known)
    }

    fn rounds(&self, place: usize) -> Vec<(Instant, Option<u32>)> {
        let of_switch = self.readings.iter().filter(|read| read.device == place);
        let changed = |read: &ForwardingReading| match read.table {
            Table::Round { changed, .. } => Some((read.at, changed)),
            _ => None,
        };
        of_switch.filter_map(changed).collect()
    }

    fn changed(&self) -> Vec<(usize, u32)> {
        let changed = self.events.iter().filter_map(|event| match event {
            Event::RoutesChanged { device, entries } => Some((*device, *entries)),
            _ => None,
        });
        changed.collect()
    }
}

#[test]
fn tables_are_those_of_the_fabric_and_are_reported_once_in_half_an_hour() {
    let mut sweep = Sweep::new(|_| {});
    // SwitchInfo, two blocks and AdaptiveRoutingInfo, two a second.
    sweep.run(3);
    assert!(sweep.is_complete());
    sweep.interval = 5 * SECOND;
    let blocks = |sweep: &Sweep| {
        let linear = |read: &&ForwardingReading| matches!(read.table, Table::Linear { .. });
        sweep.readings.iter().filter(linear).count()
    };
    assert_eq!(blocks(&sweep), 4 * 2);
    sweep.run(340);
    assert_eq!(blocks(&sweep), 4 * 2, "nothing has changed");
    sweep.run(40);
    assert_eq!(blocks(&sweep), 4 * 4, "they are reported again");
    let rounds = sweep.rounds(sweep.place(sweep.switches()[0]));
    assert_eq!(rounds[0].1, None, "of the first round");
    assert!(rounds[1..].iter().all(|(_, changed)| *changed == Some(0)));
    let minutes = rounds.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(minutes.clone().all(|time| time < 75 * SECOND), "{rounds:?}");
    assert!(minutes.skip(1).all(|time| time > 50 * SECOND), "{rounds:?}");
    assert_eq!(sweep.changed(), []);
}

#[test]
fn mapping_of_sls_is_reported_for_each_port() {
    let mut sweep = Sweep::new(|_| {});
    sweep.interval = 5 * SECOND;
    sweep.run(240);
    let mut ports: BTreeMap<usize, BTreeSet<u8>> = BTreeMap::new();
    for read in &sweep.readings {
        if let Table::SlToVl { to, from, mapping } = read.table {
            assert!(ports.entry(read.device).or_default().insert(to.0), "once");
            assert_eq!(vls(mapping)[..6], [0, 1, 2, 3, 0, 1]);
            let count: u32 = from.iter().map(|word| word.count_ones()).sum();
            let place = read.device;
            let linked = all_linked_ports(&sweep.fabric)[place].ports.len();
            assert_eq!(count as usize, linked + 1, "all ports and port 0");
        }
    }
    for id in sweep.switches() {
        let linked = all_linked_ports(&sweep.fabric)[sweep.place(id)].ports.len();
        assert_eq!(ports[&sweep.place(id)].len(), linked + 1);
    }
}

#[test]
fn changed_route_is_known_within_a_round() {
    let mut sweep = Sweep::new(|_| {});
    sweep.run(10);
    let leaf = sweep.switches()[0];
    let (place, lid) = (sweep.place(leaf), Lid(65));
    sweep.sim.lock().unwrap().set_route(leaf, lid, NO_ROUTE);
    sweep.run(62);
    assert!(sweep.is_complete());
    assert_eq!(sweep.changed(), [(place, 1)]);
}

#[test]
fn changed_route_is_known_within_seconds_after_a_change_of_a_link() {
    let mut sweep = Sweep::new(|_| {});
    sweep.run(20);
    let spine = *sweep.switches().last().unwrap();
    let port = sweep.fabric.device(spine).linked().next().unwrap().0.num;
    let down = PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::DOWN);
    sweep.sim.lock().unwrap().set_link(spine, port, down);
    let is_down = |sweep: &Sweep| {
        let links = (0..sweep.ports).filter_map(|port| sweep.sweep.engine.link(port));
        links
            .filter(|(link, _)| link.state == PortInfo::DOWN)
            .count()
            > 0
    };
    while !is_down(&sweep) {
        sweep.slot();
    }
    // The subnet manager changes the tables of another switch a few seconds later.
    sweep.slot();
    sweep.slot();
    let leaf = sweep.switches()[0];
    sweep.sim.lock().unwrap().set_route(leaf, Lid(3), 9);
    for _ in 0..8 {
        sweep.slot();
    }
    assert!(sweep.is_complete());
    assert_eq!(sweep.changed(), [(sweep.place(leaf), 1)]);
}

#[test]
fn table_that_changes_between_two_blocks_is_whole_after_a_round_without_a_change() {
    let mut sweep = Sweep::new(|_| {});
    sweep.run(10);
    let leaf = sweep.switches()[0];
    let place = sweep.place(leaf);
    // Both blocks change, and the second one changes again after it was read.
    for lid in [3, 65] {
        sweep.sim.lock().unwrap().set_route(leaf, Lid(lid), 21);
    }
    while sweep.blocks[&(place, 1)].1[1] != 21 {
        sweep.run(1);
    }
    sweep.sim.lock().unwrap().set_route(leaf, Lid(66), 20);
    sweep.sim.lock().unwrap().set_route(leaf, Lid(4), 20);
    sweep.run(20);
    assert!(sweep.is_complete());
    let rounds = sweep.rounds(place);
    let changed: Vec<u32> = rounds.iter().filter_map(|(_, changed)| *changed).collect();
    assert_eq!(changed.iter().sum::<u32>(), 4, "{changed:?}");
    assert_eq!(changed.last(), Some(&0), "the table is whole");
}

#[test]
fn tables_of_switches_that_exchange_their_lids_are_not_mixed() {
    let mut sweep = Sweep::new(|_| {});
    sweep.run(10);
    let (leaf, other) = (sweep.switches()[0], sweep.switches()[1]);
    let before = sweep.blocks.clone();
    sweep.sim.lock().unwrap().swap_lids(leaf, other);
    for _ in 0..70 {
        sweep.slot();
        for (key, (_, ports)) in &sweep.blocks {
            // A LID that has moved has another port; everything else stays.
            let differs = ports.iter().zip(&before[key].1).filter(|(a, b)| a != b);
            assert!(differs.count() <= 2, "the table of another switch");
        }
    }
    assert!(sweep.is_complete());
    let moved = sweep
        .events
        .iter()
        .filter(|event| matches!(event, Event::LidChange { .. }));
    assert_eq!(moved.count(), 2);
}

#[test]
fn slow_switch_delays_neither_counters_nor_the_other_tables() {
    let mut sweep = Sweep::new(|_| {});
    let slow = sweep.switches()[0];
    let place = sweep.place(slow);
    let attributes = 300 * MS;
    sweep.sim.lock().unwrap().set_smp_service(slow, attributes);
    for _ in 0..60 {
        sweep.slot();
        let lasted = sweep.sweep.engine.stats().duration();
        assert!(lasted < 100 * MS, "{lasted:?}");
    }
    assert!(sweep.is_complete(), "its table is read too");
    assert!(!sweep.rounds(place).is_empty());
}

/// Sets what a host says as a subnet manager.
fn set_manager(sweep: &Sweep, host: usize, state: SmState, priority: u8) {
    let hosts = sweep.fabric.iter();
    let mut hosts = hosts.filter(|(_, device)| device.kind == NodeKind::Hca);
    let (id, device) = hosts.nth(host).unwrap();
    let info = SmInfo {
        guid: device.guid,
        act_count: 5,
        priority,
        state,
    };
    sweep.sim.lock().unwrap().set_subnet_manager(id, Some(info));
}

#[test]
fn rounds_are_early_after_news_about_links_and_subnet_managers() {
    type News = (&'static str, fn(&mut Sweep));
    let news: [News; 5] = [
        ("none", |_| {}),
        ("all LIDs can have changed", |sweep| {
            sweep.sweep.engine.verify_all();
        }),
        ("trap of a link", |sweep| {
            sweep.sweep.engine.read_links_at(Lid(1));
        }),
        ("changed manager", |sweep| {
            set_manager(sweep, 7, SmState::Standby, 4);
        }),
        ("new master", |sweep| {
            let first = sweep.sim.lock().unwrap().manager().unwrap();
            sweep.sim.lock().unwrap().set_dead(first, true);
            set_manager(sweep, 9, SmState::Master, 4);
        }),
    ];
    let rounds = news.map(|(name, news)| {
        let mut sweep = Sweep::new(|_| {});
        set_manager(&sweep, 7, SmState::Standby, 3);
        (0..90).for_each(|_| sweep.slot());
        news(&mut sweep);
        sweep.readings.clear();
        (0..40).for_each(|_| sweep.slot());
        (name, sweep.rounds(sweep.place(sweep.switches()[0])).len())
    });
    // A round begins every 5 s instead of every 60 s.
    assert!(rounds[0].1 <= 1, "{rounds:?}");
    let is_early = |(_, rounds): &(&str, usize)| (6..=9).contains(rounds);
    assert!(rounds[1..].iter().all(is_early), "{rounds:?}");
}

#[test]
fn early_reads_are_five_times_as_fast() {
    let mut sweep = Sweep::new(|_| {});
    sweep.run(90);
    let leaf = sweep.switches()[0];
    let place = sweep.place(leaf);
    for lid in [3, 65] {
        sweep.sim.lock().unwrap().set_route(leaf, Lid(lid), 21);
    }
    sweep.sweep.engine.verify_all();
    sweep.readings.clear();
    sweep.interval = 20 * MS;
    while sweep.rounds(place).is_empty() {
        sweep.slot();
    }
    // The first block, the second one, and the settings of adaptive routing end the round.
    let (end, _) = sweep.rounds(place)[0];
    let lasted = end - sweep.blocks[&(place, 0)].0;
    assert!(
        (160 * MS..=260 * MS).contains(&lasted),
        "{lasted:?}, two requests at 10 a second"
    );
}
