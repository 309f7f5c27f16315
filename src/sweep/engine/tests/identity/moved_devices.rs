//! Devices that are elsewhere than thought, and answers that come when they are of no use any more.

use super::*;

/// A sweep of some devices of the tree only.
fn few(names: &[&str], config: Config, change: impl FnOnce(&mut SimFabric)) -> Sweep {
    let fabric = tree();
    let mut sim = SimFabric::new(tree(), Options::default());
    change(&mut sim);
    let sim = Arc::new(Mutex::new(sim));
    let is_named = |device: &DevicePlan| fabric.iter().any(|(_, of)| of.guid == device.guid && names.contains(&of.host()));
    let plan: Vec<_> = whole(&fabric).into_iter().filter(is_named).collect();
    let mut rehearsal = Rehearsal::new(Arc::clone(&sim), &plan, config, 7);
    let events = rehearsal.discover();
    Sweep { rehearsal, sim, fabric, events }
}

fn id_of(sim: &SimFabric, name: &str) -> DeviceId {
    sim.fabric().iter().find(|(_, device)| device.host() == name).expect("in the fabric").0
}

#[test]
fn devices_are_sought_though_every_single_one_is_another() {
    let mut sweep = few(&["node00002", "node00007"], Config::default(), |_| {});
    sweep.slot();
    let two = Two::new(&sweep);
    sweep.change(|sim| sim.swap_lids(two.ids[0], two.ids[1]));
    (0..2).for_each(|port| sweep.rehearsal.engine.doubt(port));
    for _ in 0..3 {
        sweep.slot();
    }
    for device in 0..2 {
        assert_eq!(sweep.rehearsal.engine.sample(device).status, Status::Ok);
    }
}

#[test]
fn nobody_is_asked_in_vain_for_ever() {
    let mut sweep = few(&["node00004"], Config::default(), |sim| sim.demand_m_key(id_of(sim, "node00004")));
    let mut more = 0;
    for _ in 0..200 {
        sweep.slot();
        let engine = &sweep.rehearsal.engine;
        assert_eq!(engine.sample(0).status, Status::Ok);
        more += engine.stats().mads_sent - u64::from(engine.sample(0).mads);
    }
    assert!(more <= 3 * 4, "three times a minute: {more}");
}

#[test]
fn what_was_set_aside_is_probed_once_in_ten_minutes() {
    let config = Config { groups: vec![Group::Extended, Group::RcvErr], ..Config::default() };
    let mut sweep = few(&["node00002"], config, |sim| {
        let id = id_of(sim, "node00002");
        sim.drop_attribute(id, 0x10);
        sim.drop_attribute(id, 0x15);
    });
    let mut more = 0;
    for _ in 0..900 {
        sweep.slot();
        more += sweep.rehearsal.engine.stats().mads_sent - 1;
    }
    // NodeInfo, PortInfo and PortSamplesControl a minute, and one probe.
    assert!(more <= 3 * 16 + 1, "{more}");
}

/// Both devices by hand, in a slot, with a subnet manager at LID 5.
fn with_manager(change: impl FnOnce(&mut Config)) -> ByHand {
    let mut hand = ByHand::new(|config| {
        config.groups = vec![Group::Base];
        change(config);
    });
    hand.engine.set_local(Local { lid: Lid(9), sm_lid: Lid(5), sm_sl: 0, gid: Gid::default() });
    hand.engine.close(hand.now);
    hand.poll();
    (hand.now, hand.events) = (Instant::ZERO + SECOND, Vec::new());
    hand.sent.clear();
    hand
}

impl ByHand {
    fn start(&mut self) {
        self.engine.start_slot(self.now, self.now + 900 * MS, self.now + 950 * MS);
        self.poll();
    }

    /// The last MAD of that attribute to that LID.
    fn last(&self, lid: u16, attribute: u16) -> usize {
        self.asked().iter().rposition(|(to, _, what)| (*to, *what) == (lid, attribute)).expect("asked")
    }
}

fn stranger(mad: &mut Mad, _: &mut Lid) {
    smp::NodeInfo { port_guid: Guid(77), ..smp::NodeInfo::default() }.emit(pma_data(mad));
}

fn at_lid_3(mad: &mut Mad, _: &mut Lid) {
    PathRecord { dlid: Lid(3), sl: 0 }.emit(mad);
}

#[test]
fn a_device_that_is_found_while_it_waits_for_the_window_is_asked_one_thing_at_a_time() {
    let mut hand = with_manager(|config| config.window = 1);
    hand.engine.config.path_sl = true;
    hand.engine.devices.iter_mut().for_each(|device| device.who.due = Instant::ZERO);
    hand.engine.start_discovery(hand.now, hand.now + 30 * SECOND);
    hand.poll();
    // The subnet manager is asked for both; the switch has the window.
    let first = hand.sent.iter().position(|(target, _)| target.lid == Lid(5)).expect("asked");
    hand.reply(first, |mad, _| PathRecord { dlid: Lid(1), sl: 0 }.emit(mad));
    let second = hand.sent.iter().rposition(|(target, _)| target.lid == Lid(5)).expect("asked");
    assert_ne!(first, second);
    hand.reply(second, at_lid_3);
    hand.engine.window = Window::new(8, false);
    hand.poll();
    let to_it = hand.sent.iter().filter(|(target, _)| target.lid == Lid(3)).count();
    assert_eq!((to_it, hand.engine.inflight.waiting().filter(|of| of.device == 1).count()), (1, 1));
}

#[test]
fn a_discovery_goes_on_with_a_device_that_is_found_after_it_was_given_up() {
    let mut hand = with_manager(|_| {});
    hand.engine.config.path_sl = true;
    hand.engine.devices[1].groups.forget();
    hand.engine.devices[1].who.due = Instant::ZERO;
    hand.engine.start_discovery(hand.now, hand.now + 30 * SECOND);
    hand.poll();
    let first = hand.last(5, 0x35);
    (0..40).for_each(|_| hand.pass(5 * MS));
    hand.reply(first, |mad, _| PathRecord { dlid: Lid(1), sl: 0 }.emit(mad));
    let second = hand.last(5, 0x35);
    assert_ne!(first, second);
    hand.reply(second, at_lid_3);
    let asked = hand.last(3, smp::NODE_INFO);
    hand.reply(asked, |mad, _| smp::NodeInfo { port_guid: Guid(2), ..smp::NodeInfo::default() }.emit(pma_data(mad)));
    for _ in 0..100 {
        hand.pass(5 * MS);
    }
    assert_eq!(hand.events.last(), Some(&Event::DiscoveryDone));
}

#[test]
fn what_a_stranger_says_late_is_not_believed_of_the_device_that_was_found_elsewhere() {
    let mut hand = with_manager(|_| {});
    hand.engine.devices[1].groups.forget();
    hand.engine.devices[1].who.due = Instant::ZERO;
    hand.start();
    hand.pass(6 * MS);
    let (can_do, who) = (hand.last(2, 1), hand.last(2, smp::NODE_INFO));
    hand.reply(who, stranger);
    let path = hand.last(5, 0x35);
    hand.reply(path, at_lid_3);
    // ClassPortInfo was asked of the LID at which the stranger is.
    hand.reply(can_do, |mad, _| Capabilities { mask: 0x1234, mask2: 0, option_mask: None }.emit(pma_data(mad)));
    assert_eq!(hand.engine.devices[1].groups.capabilities, groups::Known::Not);
    let there = hand.last(3, smp::NODE_INFO);
    hand.reply(there, |mad, _| smp::NodeInfo { port_guid: Guid(2), ..smp::NodeInfo::default() }.emit(pma_data(mad)));
    assert!(hand.events.contains(&Event::LidChange { device: 1, from: Lid(2), to: Lid(3) }));
}

#[test]
fn a_stranger_s_late_name_does_not_follow_a_device_to_its_new_lid() {
    let mut hand = with_manager(|_| {});
    hand.engine.devices[1].who.due = Instant::ZERO;
    hand.engine.devices[1].was_silent = true;
    hand.start();
    hand.pass(6 * MS);
    let (who, path) = (hand.last(2, smp::NODE_INFO), hand.last(5, 0x35));
    hand.reply(path, at_lid_3);
    hand.reply(who, stranger);
    assert!(!hand.events.iter().any(|event| matches!(event, Event::WrongDevice { .. })));
    hand.pass(6 * MS);
    let there = hand.last(3, smp::NODE_INFO);
    hand.reply(there, |mad, _| smp::NodeInfo { port_guid: Guid(2), ..smp::NodeInfo::default() }.emit(pma_data(mad)));
    assert!(hand.events.contains(&Event::LidChange { device: 1, from: Lid(2), to: Lid(3) }));
}

#[test]
fn where_a_stranger_redirected_to_is_forgotten() {
    let mut hand = with_manager(|_| {});
    hand.start();
    hand.reply(1, |mad, _| {
        mad[5] = 2;
        crate::mad::pma::class_port_info::Redirect { lid: Lid(40), qp: 1, qkey: 0, sl: 0, pkey: 0xffff }.emit(pma_data(mad));
    });
    assert_eq!(hand.sent.last().map(|(target, _)| target.lid), Some(Lid(40)));
    hand.engine.close(hand.now);
    hand.now += SECOND;
    hand.engine.doubt(2);
    hand.start();
    let who = hand.last(2, smp::NODE_INFO);
    hand.reply(who, stranger);
    assert_eq!(hand.engine.devices[1].redirect, None);
}

#[test]
fn a_redirection_that_comes_late_is_followed_at_once() {
    let mut hand = with_manager(|_| {});
    hand.start();
    hand.pass(6 * MS);
    hand.reply(1, |mad, _| {
        mad[5] = 2;
        crate::mad::pma::class_port_info::Redirect { lid: Lid(40), qp: 1, qkey: 0, sl: 0, pkey: 0xffff }.emit(pma_data(mad));
    });
    assert_eq!(hand.sent.last().map(|(target, _)| target.lid), Some(Lid(40)));
    let last = hand.sent.len() - 1;
    hand.reply(last, fine);
    assert!(matches!(hand.status(2), Some(Status::Ok | Status::Late)));
}

#[test]
fn a_redirection_after_the_end_of_asking_is_not_followed_in_this_slot() {
    let mut hand = with_manager(|_| {});
    hand.now += 890 * MS;
    hand.engine.start_slot(hand.now, hand.now + 2 * MS, hand.now + 60 * MS);
    hand.poll();
    hand.pass(3 * MS);
    let sent = hand.sent.len();
    hand.reply(1, |mad, _| {
        mad[5] = 2;
        crate::mad::pma::class_port_info::Redirect { lid: Lid(40), qp: 1, qkey: 0, sl: 0, pkey: 0xffff }.emit(pma_data(mad));
    });
    assert_eq!((hand.sent.len(), hand.status(2)), (sent, Some(Status::Skipped)));
}

#[test]
fn the_links_of_a_switch_are_told_only_once_it_is_known_which_of_its_speeds_count() {
    let mut hand = with_manager(|config| config.identity_every = SECOND);
    let name = |mad: &mut Mad, lid: &mut Lid| {
        fine(mad, lid);
        let header = crate::mad::header::Header::parse(mad);
        if (header.class, header.attribute) == (smp::CLASS_SUBN_LID_ROUTED, smp::PORT_INFO) {
            let mask = if header.modifier == 0 { smp::IS_EXTENDED_SPEEDS_SUPPORTED } else { 0 };
            PortInfo { capability_mask: mask, ..PortInfo::of_rate(&LinkRate::new("4x", "EDR"), PortInfo::ACTIVE) }.emit(pma_data(mad));
        }
    };
    for lost in [true, false] {
        let mut n = hand.sent.len();
        (0..2).for_each(|device| hand.engine.devices[device].who.due = Instant::ZERO);
        hand.start();
        while n < hand.sent.len() {
            let mad = &hand.sent[n].1;
            if lost && mad[1] == 1 && mad[17] == 0x15 && mad[23] == 0 {
                hand.pass(6 * MS);
            } else {
                hand.reply(n, name);
            }
            n += 1;
        }
        hand.pass(60 * MS);
        assert_eq!(hand.events.last(), Some(&Event::SlotDone));
        let rate = hand.engine.link(0).map(|(info, mask)| info.rate(mask).to_string());
        assert!(rate.as_deref() != Some("4xQDR"), "not known");
        assert_eq!(hand.events.contains(&Event::Link(0)), !lost);
        hand.now += SECOND;
    }
    assert_eq!(hand.engine.link(0).map(|(info, mask)| info.rate(mask).to_string()).as_deref(), Some("4xEDR"));
}

#[test]
fn without_an_agent_for_subnet_management_a_device_is_believed_where_the_subnet_manager_says_that_it_is() {
    let mut hand = with_manager(|_| {});
    hand.engine.smp_off = true;
    hand.engine.devices[1].was_silent = true;
    hand.start();
    let path = hand.last(5, 0x35);
    hand.reply(path, at_lid_3);
    hand.engine.close(hand.now);
    hand.now += SECOND;
    hand.start();
    let there = hand.last(3, 0x12);
    hand.events.clear();
    hand.reply(there, fine);
    assert_eq!(hand.status(2), Some(Status::Ok));
}

#[test]
fn one_that_was_away_and_does_not_say_who_it_is_is_not_verified() {
    let mut hand = with_manager(|_| {});
    hand.engine.devices[1].who.identity = Identity::Right;
    hand.engine.devices[1].was_silent = true;
    hand.start();
    hand.pass(6 * MS);
    let counters = hand.last(2, 0x12);
    hand.reply(counters, fine);
    assert_eq!((hand.status(2), hand.engine.sample(2).verified), (Some(Status::Ok), false));
}

#[test]
fn one_that_does_not_say_who_it_is_is_sought_too() {
    let mut sweep = few(&["node00002", "node00004"], Config::default(), |sim| sim.demand_m_key(id_of(sim, "node00007")));
    sweep.slot();
    let two = sweep.find("node00002").0;
    let lid = sweep.fabric.device(two).lid;
    // At its LID is now one that wants a key.
    sweep.change(|sim| sim.swap_lids(two, id_of(sim, "node00007")));
    assert!((0..70).any(|_| sweep.slot().iter().any(|event| matches!(event, Event::LidChange { from, .. } if *from == lid))));
    sweep.slot();
    assert!(sweep.rehearsal.engine.sample(0).verified);
}

#[test]
fn one_that_wants_a_key_is_believed_again_once_the_stranger_at_its_lid_has_gone() {
    let mut sweep = few(&["node00004"], Config::default(), |sim| sim.demand_m_key(id_of(sim, "node00004")));
    let (id, stranger) = (sweep.find("node00004").0, id_of(&sweep.sim.lock().expect("nobody panics with it"), "node00007"));
    sweep.change(|sim| sim.move_lid(stranger, Lid(4000)));
    sweep.change(|sim| sim.swap_lids(id, stranger));
    sweep.change(|sim| sim.set_dead(sim.manager().expect("there is one"), true));
    assert!((0..70).any(|_| sweep.slot().iter().any(|event| matches!(event, Event::WrongDevice { .. }))));
    sweep.change(|sim| sim.swap_lids(id, stranger));
    sweep.change(|sim| sim.set_dead(sim.manager().expect("there is one"), false));
    (0..70).for_each(|_| {
        sweep.slot();
    });
    let sample = sweep.rehearsal.engine.sample(0);
    assert_eq!((sample.status, sample.verified), (Status::Ok, false));
}
