//! Tests of identity, links and counter groups: on the simulated fabric, and MAD by MAD where the
//! octets of a reply matter.

use std::sync::{Arc, Mutex};

use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

use super::super::state::Identity;
use super::super::*;
use super::{
    Bench, MS, SECOND, answer_except, device, other_device, pma_data, valid, with_manager,
};
use crate::mad::exchange::Local;
use crate::mad::pma::{Bits, Capabilities};
use crate::mad::sa::PathRecord;
use crate::mad::smp::{self, PortInfo};
use crate::mad::transport::sim::agent::Counters;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::virtual_sweep::{VirtualSweep, all_linked_ports};
use crate::topology::{DeviceId, Fabric, ports_report, synthetic};

mod moved_devices;

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 4,
    spines: 2,
    trunk: 1,
    radix: 8,
};

fn fabric_of(tree: &synthetic::FatTree) -> Fabric {
    ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// A sweep of a small fat tree after its discovery, and its simulated fabric.
pub(super) struct Sweep {
    pub(super) virtual_sweep: VirtualSweep,
    pub(super) sim: Arc<Mutex<SimFabric>>,
    pub(super) fabric: Fabric,
    pub(super) events: Vec<Event>,
}

impl Sweep {
    pub(super) fn new(
        config: Config,
        options: Options,
        change: impl FnOnce(&mut SimFabric),
    ) -> Self {
        Self::of(&TREE, config, options, change)
    }

    pub(super) fn of(
        tree: &synthetic::FatTree,
        config: Config,
        options: Options,
        change: impl FnOnce(&mut SimFabric),
    ) -> Self {
        let fabric = fabric_of(tree);
        let mut sim = SimFabric::new(fabric.clone(), options);
        change(&mut sim);
        let sim = Arc::new(Mutex::new(sim));
        let mut virtual_sweep =
            VirtualSweep::new(Arc::clone(&sim), &all_linked_ports(&fabric), config, 7);
        let events = virtual_sweep.discover();
        Self {
            virtual_sweep,
            sim,
            fabric,
            events,
        }
    }

    pub(super) fn plain() -> Self {
        Self::new(Config::default(), Options::default(), |_| {})
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut SimFabric)) {
        change(&mut self.sim.lock().expect("no thread panicked"));
    }

    pub(super) fn slot(&mut self) -> &[Event] {
        self.events = self.virtual_sweep.slot(SECOND);
        &self.events
    }

    /// Runs a slot and returns its number of MADs.
    pub(super) fn mads(&mut self) -> u64 {
        self.slot();
        self.virtual_sweep.engine.stats().mads_sent
    }

    /// Returns the device of this name: its place in the fabric and in the plan.
    pub(super) fn find(&self, name: &str) -> (DeviceId, usize) {
        let id = self
            .fabric
            .iter()
            .find(|(_, device)| device.host() == name)
            .expect("in the fabric")
            .0;
        let guid = self.fabric.device(id).guid;
        (
            id,
            all_linked_ports(&self.fabric)
                .iter()
                .position(|device| device.guid == guid)
                .expect("in the plan"),
        )
    }

    /// Returns the index of a device's first port.
    pub(super) fn port(&self, device: usize) -> usize {
        all_linked_ports(&self.fabric)[..device]
            .iter()
            .map(|device| device.ports.len())
            .sum()
    }

    /// Returns PortXmitData of a host's sample and its time, or `None` if the sample has none.
    fn sent(&self, device: usize) -> Option<(Instant, u64)> {
        let sample = self.virtual_sweep.engine.sample(self.port(device));
        let (at, octets) = sample.answer(0)?;
        Some((
            at,
            Group::Extended
                .attribute()
                .field("PortXmitData")
                .expect("declared")
                .raw(octets, 0),
        ))
    }

    pub(super) fn status(&self, device: usize) -> Status {
        self.virtual_sweep.engine.sample(self.port(device)).status
    }
}

fn words(sim: &SimFabric, id: DeviceId, at: Instant) -> u64 {
    sim.counters(id, PortNum(1), at)
        .map_or(0, |Counters { xmit_words, .. }| xmit_words)
}

/// Two hosts that exchange their LIDs.
struct HostPair {
    ids: [DeviceId; 2],
    /// Places in the plan.
    places: [usize; 2],
}

impl HostPair {
    fn new(sweep: &Sweep) -> Self {
        let found = ["node00002", "node00007"].map(|name| sweep.find(name));
        Self {
            ids: found.map(|(id, _)| id),
            places: found.map(|(_, place)| place),
        }
    }

    /// Returns whether a sample of the last slot holds the counters of the other host. A reply is
    /// served 2 us before it is received.
    fn are_mixed_up(&self, sweep: &Sweep) -> bool {
        let sim = sweep.sim.lock().expect("no thread panicked");
        let shows = |place: usize, id: DeviceId| {
            sweep.sent(place).is_some_and(|(at, sent)| {
                let then = |back: u64| words(&sim, id, Instant::from_nanos(at.as_nanos() - back));
                (then(2_100)..=then(0)).contains(&sent)
            })
        };
        let other = [
            shows(self.places[0], self.ids[1]),
            shows(self.places[1], self.ids[0]),
        ];
        let own = [
            shows(self.places[0], self.ids[0]),
            shows(self.places[1], self.ids[1]),
        ];
        other.into_iter().zip(own).any(|(other, own)| other && !own)
    }
}

#[test]
fn every_device_is_verified_before_the_first_slot() {
    let mut sweep = Sweep::plain();
    assert_eq!(
        sweep
            .events
            .iter()
            .filter(|event| matches!(event, Event::Link(_)))
            .count(),
        sweep.virtual_sweep.engine.ports()
    );
    sweep.slot();
    for port in 0..sweep.virtual_sweep.engine.ports() {
        let sample = sweep.virtual_sweep.engine.sample(port);
        assert!(sample.verified && sample.status == Status::Ok && sample.tick.is_some());
    }
}

#[test]
fn swapped_lids_are_detected_and_no_later_slot_mixes_up_the_counters() {
    let mut sweep = Sweep::plain();
    let two = HostPair::new(&sweep);
    // Both hosts have sent traffic by then, and different amounts.
    for _ in 0..40 {
        sweep.slot();
        assert!(!two.are_mixed_up(&sweep));
    }
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let (mut mixed_up, mut found) = (Vec::new(), [None; 2]);
    for slot in 0..70 {
        sweep.slot();
        for (place, found) in two.places.iter().zip(&mut found) {
            if sweep
                .events
                .iter()
                .any(|event| matches!(event, Event::WrongDevice { device, .. } if device == place))
            {
                *found = Some(slot);
                assert_eq!(sweep.status(*place), Status::WrongDevice);
                assert!(sweep.sent(*place).is_none(), "its data is withheld");
            }
        }
        if two.are_mixed_up(&sweep) {
            mixed_up.push(slot);
        }
    }
    let found = found.map(|slot| slot.expect("each device is verified once a minute"));
    assert!(!mixed_up.is_empty(), "the swap had an effect");
    assert!(
        mixed_up
            .iter()
            .all(|slot| slot < found.iter().max().expect("two")),
        "{mixed_up:?} after {found:?}"
    );
    for (place, other) in [(two.places[0], two.ids[1]), (two.places[1], two.ids[0])] {
        assert_eq!(sweep.status(place), Status::Ok);
        assert_eq!(
            sweep.virtual_sweep.engine.lid(place),
            sweep.fabric.device(other).lid,
            "the device is queried at its new LID"
        );
    }
}

#[test]
fn change_of_the_local_or_the_sm_lid_verifies_every_device_at_once() {
    for change in [
        |local: &mut Local| local.lid = Lid(999),
        |local: &mut Local| local.sm_lid = Lid(999),
    ] {
        let mut sweep = Sweep::plain();
        let two = HostPair::new(&sweep);
        sweep.slot();
        let mut local = sweep.virtual_sweep.local();
        assert!(
            !sweep.virtual_sweep.engine.set_local(local),
            "nothing has changed"
        );
        sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
        change(&mut local);
        assert!(sweep.virtual_sweep.engine.set_local(local));
        sweep.slot();
        for place in two.places {
            assert!(sweep.events.iter().any(
                |event| matches!(event, Event::WrongDevice { device, .. } if *device == place)
            ));
            assert!(
                sweep.sent(place).is_none(),
                "the data of the same slot is withheld too"
            );
        }
    }
}

#[test]
fn device_with_implausible_data_is_verified_in_the_next_slot() {
    let mut sweep = Sweep::plain();
    let two = HostPair::new(&sweep);
    sweep.slot();
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let port = sweep.port(two.places[0]);
    sweep.virtual_sweep.engine.verify(port);
    sweep.slot();
    let changed = Event::LidChange {
        device: two.places[0],
        from: sweep.fabric.device(two.ids[0]).lid,
        to: sweep.fabric.device(two.ids[1]).lid,
    };
    assert!(
        sweep.events.contains(&changed),
        "the path record has the LID: {:?}",
        sweep.events
    );
    sweep.slot();
    assert_eq!(sweep.status(two.places[0]), Status::Ok);
}

#[test]
fn device_found_at_the_lid_of_another_is_verified_at_its_own_lid() {
    for manager_answers in [true, false] {
        let mut sweep = Sweep::plain();
        let two = HostPair::new(&sweep);
        sweep.slot();
        sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
        sweep.change(|sim| {
            sim.set_dead(
                sim.manager().expect("the fabric has a subnet manager"),
                !manager_answers,
            );
        });
        sweep.virtual_sweep.engine.verify(sweep.port(two.places[0]));
        sweep.slot();
        sweep.slot();
        let other = Event::WrongDevice {
            device: two.places[1],
            found: sweep.fabric.device(two.ids[0]).guid,
        };
        assert!(sweep.events.contains(&other), "{:?}", sweep.events);
        assert!(sweep.sent(two.places[1]).is_none(), "its data is withheld");
    }
}

#[test]
fn device_whose_lid_was_given_to_another_is_verified() {
    let mut sweep = Sweep::plain();
    let ((id, _), (victim, place)) = (sweep.find("node00003"), sweep.find("node00006"));
    sweep.slot();
    let (lid, away) = (sweep.fabric.device(victim).lid, Lid(4000));
    sweep.change(|sim| {
        sim.move_lid(victim, away);
        sim.move_lid(id, lid);
    });
    // No device answers at the LID of the first host: only the subnet manager knows the new LID.
    let found = (0..6).any(|_| {
        sweep
            .slot()
            .iter()
            .any(|event| matches!(event, Event::WrongDevice { device, .. } if *device == place))
    });
    assert!(found, "{:?}", sweep.events);
}

#[test]
fn silent_device_is_found_at_its_new_lid() {
    let mut sweep = Sweep::plain();
    let (id, place) = sweep.find("node00003");
    sweep.slot();
    sweep.change(|sim| sim.move_lid(id, Lid(4000)));
    sweep.slot();
    assert_eq!(sweep.status(place), Status::Timeout);
    let found = (0..5).any(|_| {
        sweep
            .slot()
            .iter()
            .any(|event| matches!(event, Event::LidChange { to: Lid(4000), .. }))
    });
    assert!(found, "the path record has the LID");
    sweep.slot();
    assert_eq!(
        (sweep.status(place), sweep.virtual_sweep.engine.lid(place)),
        (Status::Ok, Lid(4000))
    );
}

#[test]
fn wrong_device_stays_wrong_while_the_subnet_manager_is_silent() {
    let mut sweep = Sweep::plain();
    let two = HostPair::new(&sweep);
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    sweep.change(|sim| {
        sim.set_dead(
            sim.manager().expect("the fabric has a subnet manager"),
            true,
        );
    });
    for _ in 0..2 {
        sweep.virtual_sweep.engine.verify(sweep.port(two.places[0]));
        sweep.slot();
    }
    for _ in 0..30 {
        sweep.slot();
        assert_eq!(
            (sweep.status(two.places[0]), sweep.sent(two.places[0])),
            (Status::WrongDevice, None)
        );
    }
    let engine = &sweep.virtual_sweep.engine;
    assert_eq!(
        (
            engine.stats().total(),
            engine.stats().count(Status::WrongDevice)
        ),
        (engine.ports() as u32, 2)
    );
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let back = (0..12).any(|_| sweep.slot().contains(&Event::RightDevice(two.places[0])));
    assert!(back, "the device is verified again");
}

#[test]
fn device_with_an_m_key_is_reported_once_unverified_and_has_counters() {
    let mut reports = 0;
    let mut sweep = Sweep::new(Config::default(), Options::default(), |sim| {
        let id = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.host() == "node00004")
            .expect("in the fabric")
            .0;
        sim.demand_m_key(id);
    });
    let (_, place) = sweep.find("node00004");
    reports += sweep
        .events
        .iter()
        .filter(|event| {
            **event
                == Event::KeyDemanded {
                    device: place,
                    key: Key::M,
                }
        })
        .count();
    for _ in 0..130 {
        sweep.slot();
        reports += sweep
            .events
            .iter()
            .filter(|event| matches!(event, Event::KeyDemanded { .. }))
            .count();
        let sample = sweep.virtual_sweep.engine.sample(sweep.port(place));
        assert!(
            !sample.verified && [Status::Ok, Status::Late].contains(&sample.status),
            "{:?}",
            sample.status
        );
        assert_eq!(sample.tick, None, "the type of the device is not known");
    }
    assert_eq!(reports, 1);
}

#[test]
fn device_with_a_pm_key_is_reported_once() {
    let mut sweep = Sweep::new(Config::default(), Options::default(), |sim| {
        let id = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.host() == "node00004")
            .expect("in the fabric")
            .0;
        sim.capabilities_mut(id).mask2 |= Capabilities::PM_KEY;
        [0x12, 0x1d, 0x15, 0x16]
            .into_iter()
            .for_each(|attribute| sim.drop_attribute(id, attribute));
    });
    let (_, place) = sweep.find("node00004");
    let mut reports = 0;
    for _ in 0..20 {
        reports += sweep
            .slot()
            .iter()
            .filter(|event| {
                **event
                    == Event::KeyDemanded {
                        device: place,
                        key: Key::Pm,
                    }
            })
            .count();
    }
    assert_eq!(reports, 1);
}

#[test]
fn links_follow_port_info() {
    let config = Config {
        identity_every: 5 * SECOND,
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let (id, place) = sweep.find("leaf01");
    let port = sweep.port(place) + 1;
    let rate = |sweep: &Sweep| {
        sweep
            .virtual_sweep
            .engine
            .link(port)
            .map(|(info, mask)| (info.rate(mask).to_string(), info.state))
    };
    assert_eq!(rate(&sweep), Some(("4xEDR".to_owned(), PortInfo::ACTIVE)));
    let num = all_linked_ports(&sweep.fabric)[place].ports[1];
    sweep.change(|sim| {
        sim.set_link(
            id,
            num,
            PortInfo::of_rate(&LinkRate::new("1x", "SDR"), PortInfo::ACTIVE),
        );
    });
    let events = (0..6)
        .filter(|_| sweep.slot().contains(&Event::Link(port)))
        .count();
    assert_eq!(
        (events, rate(&sweep)),
        (1, Some(("1xSDR".to_owned(), PortInfo::ACTIVE)))
    );
    sweep.change(|sim| {
        sim.set_link(
            id,
            num,
            PortInfo {
                state: 1,
                ..PortInfo::default()
            },
        );
    });
    let events = (0..6)
        .filter(|_| sweep.slot().contains(&Event::Link(port)))
        .count();
    assert_eq!(
        (
            events,
            sweep
                .virtual_sweep
                .engine
                .link(port)
                .map(|(info, _)| info.state)
        ),
        (1, Some(1))
    );
}

/// Returns how often an attribute was requested at a LID.
fn count_requests(bench: &Bench, lid: u16, attribute: u16) -> usize {
    bench
        .requests()
        .iter()
        .filter(|(of, _, what)| (*of, *what) == (lid, attribute))
        .count()
}

#[test]
fn group_without_a_bit_in_option_mask_is_not_requested() {
    let config = Config {
        groups: Group::ALL.into(),
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let (_, host) = sweep.find("node00002");
    sweep.slot();
    let sample = sweep.virtual_sweep.engine.sample(sweep.port(host));
    let had: Vec<&str> = (0..Group::ALL.len())
        .filter(|place| sample.answer(*place).is_some())
        .map(|place| Group::ALL[place].as_str())
        .collect();
    assert_eq!(
        had,
        ["extended", "base", "xmtdisc", "rcverr", "smplctl"],
        "a simulated adapter has no other group"
    );
    assert_eq!((sample.mads, sample.status), (5, Status::Ok));
    assert!(
        !sweep
            .events
            .iter()
            .any(|event| matches!(event, Event::GroupUnsupported { .. }))
    );
}

#[test]
fn forced_group_is_requested_of_every_device() {
    let config = Config {
        groups: [Group::Extended, Group::RcvSl].into(),
        force_groups: vec![Group::RcvSl],
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |sim| {
        let hosts: Vec<_> = sim.fabric().iter().map(|(id, _)| id).collect();
        hosts
            .into_iter()
            .for_each(|id| sim.capabilities_mut(id).option_mask = Some(0));
    });
    sweep.slot();
    let (_, host) = sweep.find("node00002");
    assert_eq!(
        sweep.virtual_sweep.engine.sample(sweep.port(host)).mads,
        2,
        "the group is requested although OptionMask does not have it"
    );
}

#[test]
fn without_option_mask_groups_are_probed_and_a_silent_one_is_disabled_for_ten_minutes() {
    let config = Config {
        groups: [Group::Extended, Group::XmtDisc, Group::RcvErr].into(),
        ..Config::default()
    };
    let mut sweep = Sweep::new(config, Options::default(), |sim| {
        let id = sim
            .fabric()
            .iter()
            .find(|(_, device)| device.host() == "node00002")
            .expect("in the fabric")
            .0;
        sim.drop_attribute(id, 0x10);
        sim.drop_attribute(id, 0x15);
    });
    let (_, place) = sweep.find("node00002");
    let disabled = Event::GroupUnsupported {
        device: place,
        group: Group::RcvErr,
    };
    assert_eq!(
        sweep
            .events
            .iter()
            .filter(|event| **event == disabled)
            .count(),
        1,
        "{:?}",
        sweep.events
    );
    let mut probes = 0;
    for slot in 0..650 {
        let before = sweep.virtual_sweep.engine.stats().mads_sent;
        sweep.slot();
        assert!(
            !sweep.events.contains(&disabled),
            "the group is reported once"
        );
        let sample = sweep.virtual_sweep.engine.sample(sweep.port(place));
        assert!(
            sample.status == Status::Ok && sample.mads == 2,
            "slot {slot}: {:?}",
            sample.status
        );
        assert!(sample.answer(1).is_some() && sample.answer(2).is_none());
        // Other checks send fewer MADs.
        probes += usize::from(sweep.virtual_sweep.engine.stats().mads_sent > before + 20);
    }
    assert!(probes <= 1);
}

#[test]
fn lost_replies_never_make_a_group_unsupported() {
    for seed in 0..4 {
        let options = Options {
            loss: 0.6,
            seed,
            ..Options::default()
        };
        let mut sweep = Sweep::new(Config::default(), options, |_| {});
        let mut seen = vec![0u32; sweep.virtual_sweep.engine.ports()];
        for _ in 0..800 {
            sweep.slot();
            for (port, seen) in seen.iter_mut().enumerate() {
                let sample = sweep.virtual_sweep.engine.sample(port);
                (0..4)
                    .filter(|group| sample.answer(*group).is_some())
                    .for_each(|group| *seen |= 1 << group);
            }
        }
        // PortCounters are not requested of the switches.
        assert!(
            seen.iter().all(|groups| groups & 0b1101 == 0b1101),
            "seed {seed}: {seen:?}"
        );
    }
}

#[test]
fn late_node_info_of_another_device_withholds_earlier_data() {
    let mut bench = Bench::new(|config| config.groups = [Group::Base].into());
    bench.engine.verify(2);
    bench.engine.start_slot(
        Instant::ZERO + SECOND,
        Instant::ZERO + 2 * SECOND,
        Instant::ZERO + 2 * SECOND,
    );
    (bench.now, bench.events) = (Instant::ZERO + SECOND, Vec::new());
    let from = bench.sent.len();
    bench.poll();
    assert_eq!(bench.requests()[from + 1], (2, 0, smp::NODE_INFO));
    bench.pass(6 * MS);
    let requested = bench
        .requests()
        .iter()
        .rposition(|request| *request == (2, 1, 0x12))
        .expect("the counters do not wait for NodeInfo");
    bench.reply(requested, valid);
    assert_eq!(bench.status(2), Some(Status::Ok));
    bench.reply(from + 1, |mad, _| {
        smp::NodeInfo {
            port_guid: Guid(77),
            ..smp::NodeInfo::default()
        }
        .emit(pma_data(mad));
    });
    assert_eq!(
        bench.events.last(),
        Some(&Event::WrongDevice {
            device: 1,
            found: Guid(77)
        })
    );
    let sample = bench.engine.sample(2);
    assert_eq!(
        (sample.status, sample.answer(0)),
        (Status::WrongDevice, None)
    );
    assert_eq!(
        (
            bench.engine.stats().count(Status::Ok),
            bench.engine.stats().count(Status::WrongDevice)
        ),
        (0, 1)
    );
    // The rest of the slot is not affected.
    answer_except(&mut bench, from, 0);
    assert_eq!(bench.engine.stats().total(), 3);
}

#[test]
fn transport_without_an_smp_agent_still_sweeps_counters() {
    let config = Config {
        groups: [Group::Base].into(),
        ..Config::default()
    };
    let mut engine = Engine::new(&[device(1, NodeKind::Hca, &[1])], config, 7);
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut bench = Bench::of(engine);
    let mut n = 0;
    while n < bench.sent.len() {
        let (target, mad) = bench.sent[n];
        if target.qp == 0 {
            let tid = crate::mad::header::Header::parse(&mad).tid;
            let completion = Completion {
                tid,
                outcome: Outcome::NoAgent,
            };
            bench.engine.handle_completion(&completion, &mad, bench.now);
            bench.poll();
        } else {
            bench.reply(n, valid);
        }
        n += 1;
    }
    assert_eq!(
        (bench.events.last(), bench.engine.stats().send_errors),
        (Some(&Event::DiscoveryDone), 0)
    );
    assert_eq!(
        count_requests(&bench, 1, smp::NODE_INFO),
        1,
        "NodeInfo is not sent again"
    );
}
