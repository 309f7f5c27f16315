//! Who answers, where it is, and what it has: on the simulated fabric, and by hand where a reply matters octet by octet.

use std::sync::{Arc, Mutex};

use super::super::*;
use super::{ByHand, MS, SECOND, answer_but, device, fine, know};
use crate::mad::exchange::Local;
use crate::mad::pma::Capabilities;
use crate::mad::sa::{Gid, PathRecord};
use crate::mad::smp::{self, PortInfo};
use crate::mad::transport::sim::agent::Counters;
use crate::mad::transport::sim::{Options, SimFabric};
use crate::sweep::rehearsal::{Rehearsal, whole};
use crate::topology::{DeviceId, Fabric, ports_report, synthetic};
use crate::types::LinkRate;

mod moved_devices;

const TREE: synthetic::FatTree = synthetic::FatTree { leaves: 2, hosts: 4, spines: 2, trunk: 1, radix: 8 };

fn tree() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric
}

/// A sweep of a small tree, discovered; with the simulated fabric to be meddled with.
pub(super) struct Sweep {
    pub(super) rehearsal: Rehearsal,
    sim: Arc<Mutex<SimFabric>>,
    fabric: Fabric,
    events: Vec<Event>,
}

impl Sweep {
    pub(super) fn new(config: Config, options: Options, change: impl FnOnce(&mut SimFabric)) -> Self {
        let fabric = tree();
        let mut sim = SimFabric::new(tree(), options);
        change(&mut sim);
        let sim = Arc::new(Mutex::new(sim));
        let mut rehearsal = Rehearsal::new(Arc::clone(&sim), &whole(&fabric), config, 7);
        let events = rehearsal.discover();
        Self { rehearsal, sim, fabric, events }
    }

    pub(super) fn plain() -> Self {
        Self::new(Config::default(), Options::default(), |_| {})
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut SimFabric)) {
        change(&mut self.sim.lock().expect("nobody panics with it"));
    }

    pub(super) fn slot(&mut self) -> &[Event] {
        self.events = self.rehearsal.slot(SECOND);
        &self.events
    }

    /// How many MADs a slot takes.
    pub(super) fn mads(&mut self) -> u64 {
        self.slot();
        self.rehearsal.engine.stats().mads_sent
    }

    /// The device of that name in the fabric, and its place in the plan.
    pub(super) fn find(&self, name: &str) -> (DeviceId, usize) {
        let id = self.fabric.iter().find(|(_, device)| device.host() == name).expect("in the fabric").0;
        let guid = self.fabric.device(id).guid;
        (id, whole(&self.fabric).iter().position(|device| device.guid == guid).expect("in the plan"))
    }

    /// The first port of a device, counted through all devices.
    fn port(&self, device: usize) -> usize {
        whole(&self.fabric)[..device].iter().map(|device| device.ports.len()).sum()
    }

    /// What the sample of a host says that it sent, in words, and when; `None` if it says nothing.
    fn sent(&self, device: usize) -> Option<(Instant, u64)> {
        let sample = self.rehearsal.engine.sample(self.port(device));
        let (at, octets) = sample.answer(0)?;
        Some((at, Group::Extended.attribute().field("PortXmitData").expect("declared").raw(octets, 0)))
    }

    pub(super) fn status(&self, device: usize) -> Status {
        self.rehearsal.engine.sample(self.port(device)).status
    }
}

fn words(sim: &SimFabric, id: DeviceId, at: Instant) -> u64 {
    sim.counters(id, PortNum(1), at).map_or(0, |Counters { xmit_words, .. }| xmit_words)
}

/// Two hosts, their places in the plan, and whether each shows the other's counters in the last slot.
struct Two {
    ids: [DeviceId; 2],
    places: [usize; 2],
}

impl Two {
    fn new(sweep: &Sweep) -> Self {
        let found = ["node00002", "node00007"].map(|name| sweep.find(name));
        Self { ids: found.map(|(id, _)| id), places: found.map(|(_, place)| place) }
    }

    /// Whether any of them shows what the other one sent. A reply is served 2 us before it is back.
    fn show_each_other(&self, sweep: &Sweep) -> bool {
        let sim = sweep.sim.lock().expect("nobody panics with it");
        let shows = |place: usize, id: DeviceId| {
            sweep.sent(place).is_some_and(|(at, sent)| {
                let then = |back: u64| words(&sim, id, Instant::from_nanos(at.as_nanos() - back));
                (then(2_100)..=then(0)).contains(&sent)
            })
        };
        let strangers = [shows(self.places[0], self.ids[1]), shows(self.places[1], self.ids[0])];
        let own = [shows(self.places[0], self.ids[0]), shows(self.places[1], self.ids[1])];
        strangers.into_iter().zip(own).any(|(stranger, own)| stranger && !own)
    }
}

#[test]
fn everybody_is_asked_who_it_is_before_the_first_slot() {
    let mut sweep = Sweep::plain();
    assert_eq!(sweep.events.iter().filter(|event| matches!(event, Event::Link(_))).count(), sweep.rehearsal.engine.ports());
    sweep.slot();
    for port in 0..sweep.rehearsal.engine.ports() {
        let sample = sweep.rehearsal.engine.sample(port);
        assert!(sample.verified && sample.status == Status::Ok && sample.tick.is_some());
    }
}

#[test]
fn two_hosts_that_swap_their_lids_are_found_and_no_slot_after_that_shows_the_other_s_counters() {
    let mut sweep = Sweep::plain();
    let two = Two::new(&sweep);
    // Long enough for both to have sent something, and not the same.
    for _ in 0..40 {
        sweep.slot();
        assert!(!two.show_each_other(&sweep));
    }
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let (mut strange, mut found) = (Vec::new(), [None; 2]);
    for slot in 0..70 {
        sweep.slot();
        for (place, found) in two.places.iter().zip(&mut found) {
            if sweep.events.iter().any(|event| matches!(event, Event::WrongDevice { device, .. } if device == place)) {
                *found = Some(slot);
                assert_eq!(sweep.status(*place), Status::WrongDevice);
                assert!(sweep.sent(*place).is_none(), "its data is withheld");
            }
        }
        if two.show_each_other(&sweep) {
            strange.push(slot);
        }
    }
    let found = found.map(|slot| slot.expect("each is asked once a minute"));
    assert!(!strange.is_empty(), "nothing could have been found");
    assert!(strange.iter().all(|slot| slot < found.iter().max().expect("two")), "{strange:?} after {found:?}");
    for (place, other) in [(two.places[0], two.ids[1]), (two.places[1], two.ids[0])] {
        assert_eq!(sweep.status(place), Status::Ok);
        assert_eq!(sweep.rehearsal.engine.lid(place), sweep.fabric.device(other).lid, "it is asked where it is now");
    }
}

#[test]
fn a_change_of_the_local_lid_or_of_the_subnet_manager_s_asks_everybody_at_once() {
    for change in [|local: &mut Local| local.lid = Lid(999), |local: &mut Local| local.sm_lid = Lid(999)] {
        let mut sweep = Sweep::plain();
        let two = Two::new(&sweep);
        sweep.slot();
        let mut local = sweep.rehearsal.local();
        assert!(!sweep.rehearsal.engine.set_local(local), "nothing changed");
        sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
        change(&mut local);
        assert!(sweep.rehearsal.engine.set_local(local));
        sweep.slot();
        for place in two.places {
            assert!(sweep.events.iter().any(|event| matches!(event, Event::WrongDevice { device, .. } if *device == place)));
            assert!(sweep.sent(place).is_none(), "not even in the slot in which it is found");
        }
    }
}

#[test]
fn a_doubt_is_settled_in_the_next_slot() {
    let mut sweep = Sweep::plain();
    let two = Two::new(&sweep);
    sweep.slot();
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let port = sweep.port(two.places[0]);
    sweep.rehearsal.engine.doubt(port);
    sweep.slot();
    let changed =
        Event::LidChange { device: two.places[0], from: sweep.fabric.device(two.ids[0]).lid, to: sweep.fabric.device(two.ids[1]).lid };
    assert!(sweep.events.contains(&changed), "the subnet manager knew where it is: {:?}", sweep.events);
    sweep.slot();
    assert_eq!(sweep.status(two.places[0]), Status::Ok);
}

#[test]
fn one_that_is_found_elsewhere_is_doubted_where_it_was() {
    for manager_knows in [true, false] {
        let mut sweep = Sweep::plain();
        let two = Two::new(&sweep);
        sweep.slot();
        sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
        sweep.change(|sim| sim.set_dead(sim.manager().expect("there is one"), !manager_knows));
        sweep.rehearsal.engine.doubt(sweep.port(two.places[0]));
        sweep.slot();
        sweep.slot();
        let other = Event::WrongDevice { device: two.places[1], found: sweep.fabric.device(two.ids[0]).guid };
        assert!(sweep.events.contains(&other), "{:?}", sweep.events);
        assert!(sweep.sent(two.places[1]).is_none(), "its data is withheld");
    }
}

#[test]
fn a_host_that_has_taken_another_s_place_has_that_one_doubted() {
    let mut sweep = Sweep::plain();
    let ((id, _), (victim, place)) = (sweep.find("node00003"), sweep.find("node00006"));
    sweep.slot();
    let (lid, away) = (sweep.fabric.device(victim).lid, Lid(4000));
    sweep.change(|sim| {
        sim.move_lid(victim, away);
        sim.move_lid(id, lid);
    });
    // Nothing answers where the first one was: only the subnet manager can tell where it is.
    let found = (0..6).any(|_| sweep.slot().iter().any(|event| matches!(event, Event::WrongDevice { device, .. } if *device == place)));
    assert!(found, "{:?}", sweep.events);
}

#[test]
fn a_host_that_is_at_another_lid_is_sought_when_it_does_not_answer() {
    let mut sweep = Sweep::plain();
    let (id, place) = sweep.find("node00003");
    sweep.slot();
    sweep.change(|sim| sim.move_lid(id, Lid(4000)));
    sweep.slot();
    assert_eq!(sweep.status(place), Status::Timeout);
    let found = (0..5).any(|_| sweep.slot().iter().any(|event| matches!(event, Event::LidChange { to: Lid(4000), .. })));
    assert!(found, "the subnet manager knows where it is");
    sweep.slot();
    assert_eq!((sweep.status(place), sweep.rehearsal.engine.lid(place)), (Status::Ok, Lid(4000)));
}

#[test]
fn a_stranger_stays_one_while_the_subnet_manager_knows_no_better() {
    let mut sweep = Sweep::plain();
    let two = Two::new(&sweep);
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    sweep.change(|sim| sim.set_dead(sim.manager().expect("there is one"), true));
    for _ in 0..2 {
        sweep.rehearsal.engine.doubt(sweep.port(two.places[0]));
        sweep.slot();
    }
    for _ in 0..30 {
        sweep.slot();
        assert_eq!((sweep.status(two.places[0]), sweep.sent(two.places[0])), (Status::WrongDevice, None));
    }
    let engine = &sweep.rehearsal.engine;
    assert_eq!((engine.stats().total(), engine.stats().count(Status::WrongDevice)), (engine.ports() as u32, 2));
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    let back = (0..12).any(|_| sweep.slot().contains(&Event::RightDevice(two.places[0])));
    assert!(back, "it is looked at again");
}

#[test]
fn one_that_wants_an_m_key_is_named_and_not_verified_and_gives_its_counters() {
    let mut named = 0;
    let mut sweep = Sweep::new(Config::default(), Options::default(), |sim| {
        let id = sim.fabric().iter().find(|(_, device)| device.host() == "node00004").expect("in the fabric").0;
        sim.demand_m_key(id);
    });
    let (_, place) = sweep.find("node00004");
    named += sweep.events.iter().filter(|event| **event == Event::KeyDemanded { device: place, key: Key::M }).count();
    for _ in 0..130 {
        sweep.slot();
        named += sweep.events.iter().filter(|event| matches!(event, Event::KeyDemanded { .. })).count();
        let sample = sweep.rehearsal.engine.sample(sweep.port(place));
        assert!(!sample.verified && [Status::Ok, Status::Late].contains(&sample.status), "{:?}", sample.status);
        assert_eq!(sample.tick, None, "its family is not known");
    }
    assert_eq!(named, 1);
}

#[test]
fn one_that_wants_a_pm_key_is_named() {
    let mut sweep = Sweep::new(Config::default(), Options::default(), |sim| {
        let id = sim.fabric().iter().find(|(_, device)| device.host() == "node00004").expect("in the fabric").0;
        sim.capabilities_mut(id).mask2 |= Capabilities::PM_KEY;
        [0x12, 0x1d, 0x15, 0x16].into_iter().for_each(|attribute| sim.drop_attribute(id, attribute));
    });
    let (_, place) = sweep.find("node00004");
    let mut named = 0;
    for _ in 0..20 {
        named += sweep.slot().iter().filter(|event| **event == Event::KeyDemanded { device: place, key: Key::Pm }).count();
    }
    assert_eq!(named, 1);
}

#[test]
fn links_are_as_they_are_now() {
    let config = Config { identity_every: 5 * SECOND, ..Config::default() };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let (id, place) = sweep.find("leaf01");
    let port = sweep.port(place) + 1;
    let rate = |sweep: &Sweep| sweep.rehearsal.engine.link(port).map(|(info, mask)| (info.rate(mask).to_string(), info.state));
    assert_eq!(rate(&sweep), Some(("4xEDR".to_owned(), PortInfo::ACTIVE)));
    let num = whole(&sweep.fabric)[place].ports[1];
    sweep.change(|sim| sim.set_link(id, num, PortInfo::of_rate(&LinkRate::new("1x", "SDR"), PortInfo::ACTIVE)));
    let told = (0..6).filter(|_| sweep.slot().contains(&Event::Link(port))).count();
    assert_eq!((told, rate(&sweep)), (1, Some(("1xSDR".to_owned(), PortInfo::ACTIVE))));
    sweep.change(|sim| sim.set_link(id, num, PortInfo { state: 1, ..PortInfo::default() }));
    let told = (0..6).filter(|_| sweep.slot().contains(&Event::Link(port))).count();
    assert_eq!((told, sweep.rehearsal.engine.link(port).map(|(info, _)| info.state)), (1, Some(1)));
}

#[test]
fn a_redirection_is_followed_once_and_remembered() {
    let mut sweep = Sweep::plain();
    let (from, place) = sweep.find("node00002");
    let (to, _) = sweep.find("node00003");
    sweep.change(|sim| sim.redirect(from, to));
    sweep.slot();
    let lid = sweep.fabric.device(to).lid;
    assert!(sweep.events.contains(&Event::Redirected { device: place, to: lid }));
    assert_eq!(sweep.status(place), Status::Ok);
    let asked = sweep.rehearsal.engine.stats().mads_sent;
    let again = sweep.slot().iter().any(|event| matches!(event, Event::Redirected { .. }));
    assert!(!again && sweep.status(place) == Status::Ok);
    assert_eq!(sweep.rehearsal.engine.stats().mads_sent, asked - 1, "it is asked for at the right place at once");
    // A second redirection is an error, not a journey.
    sweep.change(|sim| sim.redirect(to, from));
    sweep.slot();
    assert_eq!(sweep.status(place), Status::MadError);
}

/// How often each attribute was asked of a LID.
fn asked_of(hand: &ByHand, lid: u16, attribute: u16) -> usize {
    hand.asked().iter().filter(|(of, _, what)| (*of, *what) == (lid, attribute)).count()
}

#[test]
fn what_option_mask_does_not_name_is_not_asked() {
    let config = Config { groups: Group::ALL.to_vec(), ..Config::default() };
    let mut sweep = Sweep::new(config, Options::default(), |_| {});
    let (_, host) = sweep.find("node00002");
    sweep.slot();
    let sample = sweep.rehearsal.engine.sample(sweep.port(host));
    let had: Vec<&str> =
        (0..Group::ALL.len()).filter(|place| sample.answer(*place).is_some()).map(|place| Group::ALL[place].as_str()).collect();
    assert_eq!(had, ["extended", "base", "xmtdisc", "rcverr", "smplctl"], "an adapter here has nothing else");
    assert_eq!((sample.mads, sample.status), (5, Status::Ok));
    assert!(!sweep.events.iter().any(|event| matches!(event, Event::GroupUnsupported { .. })));
}

#[test]
fn a_group_can_be_forced() {
    let config = Config { groups: vec![Group::Extended, Group::RcvSl], force_groups: vec![Group::RcvSl], ..Config::default() };
    let mut sweep = Sweep::new(config, Options::default(), |sim| {
        let hosts: Vec<_> = sim.fabric().iter().map(|(id, _)| id).collect();
        hosts.into_iter().for_each(|id| sim.capabilities_mut(id).option_mask = Some(0));
    });
    sweep.slot();
    let (_, host) = sweep.find("node00002");
    assert_eq!(sweep.rehearsal.engine.sample(sweep.port(host)).mads, 2, "it is asked though the device says that it has it not");
}

#[test]
fn without_option_mask_each_group_is_probed_and_what_never_answers_is_set_aside_for_ten_minutes() {
    let config = Config { groups: vec![Group::Extended, Group::XmtDisc, Group::RcvErr], ..Config::default() };
    let mut sweep = Sweep::new(config, Options::default(), |sim| {
        let id = sim.fabric().iter().find(|(_, device)| device.host() == "node00002").expect("in the fabric").0;
        sim.drop_attribute(id, 0x10);
        sim.drop_attribute(id, 0x15);
    });
    let (_, place) = sweep.find("node00002");
    let aside = Event::GroupUnsupported { device: place, group: Group::RcvErr };
    assert_eq!(sweep.events.iter().filter(|event| **event == aside).count(), 1, "{:?}", sweep.events);
    let mut probes = 0;
    for slot in 0..650 {
        let before = sweep.rehearsal.engine.stats().mads_sent;
        sweep.slot();
        assert!(!sweep.events.contains(&aside), "it is told once");
        let sample = sweep.rehearsal.engine.sample(sweep.port(place));
        assert!(sample.status == Status::Ok && sample.mads == 2, "slot {slot}: {:?}", sample.status);
        assert!(sample.answer(1).is_some() && sample.answer(2).is_none());
        // Identity checks and the question for OptionMask are others' business.
        probes += usize::from(sweep.rehearsal.engine.stats().mads_sent > before + 20);
    }
    assert!(probes <= 1);
}

#[test]
fn lost_answers_never_mean_that_something_is_not_there() {
    for seed in 0..6 {
        let options = Options { loss: 0.6, seed, ..Options::default() };
        let mut sweep = Sweep::new(Config::default(), options, |_| {});
        let mut seen = vec![0u32; sweep.rehearsal.engine.ports()];
        for _ in 0..1500 {
            sweep.slot();
            for (port, seen) in seen.iter_mut().enumerate() {
                let sample = sweep.rehearsal.engine.sample(port);
                (0..4).filter(|group| sample.answer(*group).is_some()).for_each(|group| *seen |= 1 << group);
            }
        }
        // Switches have base in extended.
        assert!(seen.iter().all(|groups| groups & 0b1101 == 0b1101), "seed {seed}: {seen:?}");
    }
}

#[test]
fn the_service_level_is_the_path_record_s() {
    let config = Config { groups: vec![Group::Base], path_sl: true, ..Config::default() };
    let mut engine = Engine::new(&[device(1, NodeKind::Hca, &[1]), device(2, NodeKind::Hca, &[1])], config, 7);
    know(&mut engine, 0);
    let gid = |guid| Gid { prefix: 0xfe80_0000_0000_0000, guid: Guid(guid) };
    engine.set_local(Local { lid: Lid(9), sm_lid: Lid(5), sm_sl: 1, gid: gid(9) });
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut hand = ByHand { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
    hand.poll();
    for (n, sl) in [(0, 3), (1, 4)] {
        assert_eq!((hand.sent.len(), hand.sent[n].0.lid, hand.sent[n].0.sl), (n + 1, Lid(5), 1), "one question at a time");
        hand.reply(n, |mad, _| PathRecord { dlid: Lid(n as u16 + 1), sl }.emit(mad));
    }
    assert_eq!(hand.events, [Event::DiscoveryDone]);
    hand.engine.start_slot(Instant::ZERO + SECOND, Instant::ZERO + 2 * SECOND, Instant::ZERO + 2 * SECOND);
    hand.now = Instant::ZERO + SECOND;
    hand.poll();
    assert_eq!(hand.sent[2..].iter().map(|(target, _)| (target.lid.0, target.sl, target.qp)).collect::<Vec<_>>(), [(1, 3, 1), (2, 4, 1)]);
}

#[test]
fn an_answer_about_who_it_is_that_comes_late_withholds_what_came_before_it() {
    let mut hand = ByHand::new(|config| config.groups = vec![Group::Base]);
    hand.engine.doubt(2);
    hand.engine.start_slot(Instant::ZERO + SECOND, Instant::ZERO + 2 * SECOND, Instant::ZERO + 2 * SECOND);
    (hand.now, hand.events) = (Instant::ZERO + SECOND, Vec::new());
    let from = hand.sent.len();
    hand.poll();
    assert_eq!(hand.asked()[from + 1], (2, 0, smp::NODE_INFO));
    hand.pass(6 * MS);
    let asked = hand.asked().iter().rposition(|asked| *asked == (2, 1, 0x12)).expect("the counters do not wait for it");
    hand.reply(asked, fine);
    assert_eq!(hand.status(2), Some(Status::Ok));
    hand.reply(from + 1, |mad, _| smp::NodeInfo { port_guid: Guid(77), ..smp::NodeInfo::default() }.emit(pma_data(mad)));
    assert_eq!(hand.events.last(), Some(&Event::WrongDevice { device: 1, found: Guid(77) }));
    let sample = hand.engine.sample(2);
    assert_eq!((sample.status, sample.answer(0)), (Status::WrongDevice, None));
    assert_eq!((hand.engine.stats().count(Status::Ok), hand.engine.stats().count(Status::WrongDevice)), (0, 1));
    // The rest of the slot is as if nothing had been.
    answer_but(&mut hand, from, 0);
    assert_eq!(hand.engine.stats().total(), 3);
}

fn pma_data(mad: &mut Mad) -> &mut crate::mad::pma::Data {
    crate::mad::pma::data_mut(mad)
}

#[test]
fn a_transport_without_an_agent_for_subnet_management_still_brings_counters() {
    let config = Config { groups: vec![Group::Base], ..Config::default() };
    let mut engine = Engine::new(&[device(1, NodeKind::Hca, &[1])], config, 7);
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut hand = ByHand { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
    hand.poll();
    let mut n = 0;
    while n < hand.sent.len() {
        let (target, mad) = hand.sent[n];
        if target.qp == 0 {
            let tid = crate::mad::header::Header::parse(&mad).tid;
            let completion = Completion { tid, outcome: Outcome::SendFailed(crate::mad::exchange::NO_AGENT) };
            hand.engine.handle_completion(&completion, &mad, hand.now);
            hand.poll();
        } else {
            hand.reply(n, fine);
        }
        n += 1;
    }
    assert_eq!((hand.events.last(), hand.engine.stats().send_errors), (Some(&Event::DiscoveryDone), 0));
    assert_eq!(asked_of(&hand, 1, smp::NODE_INFO), 1, "it is not tried again");
}
