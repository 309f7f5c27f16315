//! The engine by hand, MAD by MAD; on the simulated fabric in [`simulated_fabric`].

use super::groups::Known;
use super::*;
use crate::mad::MAD_LEN;
use crate::mad::header::{Header, METHOD_GET_RESP, MadStatus};
use crate::mad::pma::{self, Capabilities, Sampling};
use crate::mad::smp::{self, NodeInfo};

mod identity;
mod periodic_checks;
mod random_faults;
mod simulated_fabric;
mod transport_loss;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// An engine that is driven by hand; what it sent is here by TID.
struct ByHand {
    engine: Engine,
    now: Instant,
    sent: Vec<(Target, Mad)>,
    events: Vec<Event>,
}

impl ByHand {
    /// Two devices: a switch at LID 1 with ports 1 and 2, an adapter at LID 2 with port 1; two groups. A slot has started.
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config { groups: vec![Group::Extended, Group::Base], ..Config::default() };
        change(&mut config);
        let switch = device(1, NodeKind::Switch, &[1, 2]);
        let mut engine = Engine::new(&[switch, device(2, NodeKind::Hca, &[1])], config, 7);
        know(&mut engine, 0xffff);
        engine.start_slot(Instant::ZERO, Instant::ZERO + 900 * MS, Instant::ZERO + 950 * MS);
        let mut by_hand = Self { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
        by_hand.poll();
        by_hand
    }

    fn poll(&mut self) {
        let mut mad = [0xa5; MAD_LEN];
        while let Some((target, _)) = self.engine.poll_transmit(self.now, &mut mad) {
            self.sent.push((target, mad));
        }
        self.events.extend(std::iter::from_fn(|| self.engine.poll_event()));
    }

    /// Delivers the reply to the n-th MAD sent, changed at will.
    fn reply(&mut self, n: usize, change: impl FnOnce(&mut Mad, &mut Lid)) {
        let (target, mut mad) = self.sent[n];
        let (mut slid, tid) = (target.lid, Header::parse(&mad).tid);
        mad[3] = METHOD_GET_RESP;
        change(&mut mad, &mut slid);
        let completion = Completion { tid: Tid(Header::parse(&mad).tid.0), outcome: Outcome::Reply { slid, len: MAD_LEN } };
        assert!(completion.tid == tid || mad[12..16] != self.sent[n].1[12..16]);
        self.engine.handle_completion(&completion, &mad, self.now);
        self.poll();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.handle_timeout(self.now);
        self.poll();
    }

    fn asked(&self) -> Vec<(u16, u8, u16)> {
        self.sent.iter().map(|(target, mad)| (target.lid.0, mad[65], Header::parse(mad).attribute)).collect()
    }

    fn status(&self, port: usize) -> Option<Status> {
        self.events.contains(&Event::Port(port)).then(|| self.engine.sample(port).status)
    }
}

/// As it was asked; NodeInfo of the device that should be there.
fn fine(mad: &mut Mad, slid: &mut Lid) {
    let header = Header::parse(mad);
    if (header.class, header.attribute) == (smp::CLASS_SUBN_LID_ROUTED, smp::NODE_INFO) {
        NodeInfo { port_guid: Guid(slid.0.into()), ..NodeInfo::default() }.emit(pma::data_mut(mad));
    }
}

/// A device whose GUID is its LID.
fn device(lid: u16, kind: NodeKind, ports: &[u8]) -> DevicePlan {
    DevicePlan { guid: Guid(lid.into()), lid: Lid(lid), kind, ports: ports.iter().map(|num| PortNum(*num)).collect() }
}

/// Makes an engine know of all of its devices what they have, and not wonder who they are.
fn know(engine: &mut Engine, mask: u16) {
    let groups = engine.config.groups.clone();
    for device in &mut engine.devices {
        device.groups.learn(Capabilities { mask, mask2: 0, option_mask: None }, &groups);
        device.groups.learn_sampling(Sampling { tick: 7, option_mask: u64::MAX }, &groups);
        device.who.due = Instant::from_nanos(u64::MAX);
    }
}

#[test]
fn one_a_device_and_all_of_a_port_before_the_next() {
    let mut hand = ByHand::new(|_| {});
    assert_eq!(hand.asked(), [(1, 1, 0x1d), (2, 1, 0x1d)]);
    for n in 0..6 {
        hand.reply(n, fine);
    }
    let switch: Vec<_> = hand.asked().into_iter().filter(|(lid, ..)| *lid == 1).collect();
    assert_eq!(switch, [(1, 1, 0x1d), (1, 1, 0x12), (1, 2, 0x1d), (1, 2, 0x12)]);
    assert_eq!((0..3).map(|port| hand.status(port)).collect::<Vec<_>>(), [Some(Status::Ok); 3]);
    assert_eq!(hand.events.last(), Some(&Event::SlotDone));
    assert_eq!((hand.engine.stats().mads_sent, hand.engine.stats().total()), (6, 3));
}

#[test]
fn nothing_is_asked_after_the_end_of_asking_although_replies_are_read_before_time_passes() {
    let mut hand = ByHand::new(|_| {});
    // As after a stall.
    hand.now += 3 * SECOND;
    hand.reply(0, fine);
    hand.reply(1, fine);
    assert_eq!(hand.sent.len(), 2);
    assert_eq!(hand.events.last(), Some(&Event::SlotDone));
    assert_eq!((0..3).map(|port| hand.status(port)).collect::<Vec<_>>(), [Some(Status::Skipped); 3]);
}

#[test]
fn a_window_of_one_is_serial() {
    let mut hand = ByHand::new(|config| config.window = 1);
    for n in 0..6 {
        assert_eq!(hand.sent.len(), n + 1);
        hand.reply(n, fine);
    }
    assert_eq!(hand.asked()[..2], [(1, 1, 0x1d), (1, 1, 0x12)]);
    assert_eq!(hand.events.last(), Some(&Event::SlotDone));
}

#[test]
fn a_reply_after_the_deadline_is_late_and_its_data_is_there() {
    let mut hand = ByHand::new(|_| {});
    hand.pass(6 * MS);
    assert_eq!(hand.asked()[2..], [(1, 2, 0x1d)], "the switch goes on with its next port, the adapter has no other");
    assert_eq!(hand.status(2), None, "its grace is not over");
    hand.pass(10 * MS);
    hand.reply(1, |mad, _| mad[64 + 15] = 9);
    assert_eq!(hand.status(2), Some(Status::Late));
    let sample = hand.engine.sample(2);
    let (at, data) = sample.answer(0).expect("it came");
    assert_eq!((at, data[15], sample.at), (Instant::ZERO + 16 * MS, 9, Instant::ZERO + 16 * MS));
    assert!(sample.answer(1).is_none(), "the group that was skipped is absent");
    assert_eq!(hand.engine.stats().mads_late, 1);
}

#[test]
fn a_silent_device_is_left_alone_until_it_answers() {
    let mut hand = ByHand::new(|config| config.silence = 1);
    hand.pass(5 * MS);
    assert_eq!(hand.sent.len(), 2, "port 2 of the switch is not asked");
    hand.pass(MS);
    hand.reply(0, fine);
    assert_eq!(hand.status(0), Some(Status::Late));
    assert_eq!(hand.asked()[2..], [(1, 2, 0x1d)], "it answered, so it is asked again");
    hand.pass(60 * MS);
    assert_eq!(hand.status(1), Some(Status::Timeout));
    assert_eq!(hand.status(2), Some(Status::Timeout));
}

#[test]
fn a_dead_device_costs_three_deadlines_and_says_so_once() {
    let mut hand = ByHand::new(|config| config.silence = 2);
    for _ in 0..13 {
        hand.pass(5 * MS);
    }
    assert_eq!((hand.status(0), hand.status(1), hand.status(2)), (Some(Status::Timeout), Some(Status::Timeout), Some(Status::Timeout)));
    assert_eq!(hand.engine.stats().duration(), 10 * MS, "the slot lasts until the last deadline, not until the end of the grace");
    assert!(hand.events.contains(&Event::Unreachable(0)));
    assert!(!hand.events.contains(&Event::Unreachable(1)), "one MAD may get lost");
    // It comes last in the next slot, and is reachable as soon as it answers.
    hand.engine.start_slot(Instant::ZERO + SECOND, Instant::ZERO + 2 * SECOND, Instant::ZERO + 2 * SECOND);
    (hand.now, hand.events) = (Instant::ZERO + SECOND, Vec::new());
    hand.sent.clear();
    hand.poll();
    answer_but(&mut hand, 0, 0);
    assert!(hand.events.contains(&Event::Reachable(0)) && !hand.events.contains(&Event::Reachable(1)));
}

#[test]
fn ports_of_a_silent_device_that_were_not_asked_are_unreachable() {
    let mut hand = ByHand::new(|config| config.silence = 1);
    hand.pass(60 * MS);
    assert_eq!((hand.status(0), hand.status(1)), (Some(Status::Timeout), Some(Status::Unreachable)));
    assert_eq!(hand.engine.sample(1).mads, 0);
}

#[test]
fn replies_that_do_not_fit_are_counted_apart_and_settle_nothing() {
    let mut hand = ByHand::new(|_| {});
    hand.reply(1, |_, slid| *slid = Lid(99));
    hand.reply(1, |mad, _| mad[12] ^= 0x55);
    assert_eq!((hand.engine.stats().rejected.foreign, hand.engine.stats().rejected.total()), (2, 2));
    hand.reply(1, |mad, _| mad[17] = 0x12);
    hand.reply(1, |mad, _| mad[65] = 2);
    hand.reply(1, |mad, _| mad[1] = 0x81);
    assert_eq!((hand.engine.stats().rejected.malformed(), hand.sent.len()), (3, 2));
    hand.reply(1, fine);
    hand.reply(1, fine);
    assert_eq!(hand.engine.stats().rejected.duplicate, 1);
    assert_eq!(hand.sent.len(), 3, "the true reply was taken, once");
}

#[test]
fn only_replies_that_do_not_fit_make_a_bad_reply() {
    let mut hand = ByHand::new(|_| {});
    hand.reply(1, |mad, _| mad[65] = 2);
    hand.pass(60 * MS);
    assert_eq!(hand.status(2), Some(Status::BadReply));
}

#[test]
fn a_reply_after_the_grace_is_late_and_nobody_s() {
    let mut hand = ByHand::new(|_| {});
    hand.pass(60 * MS);
    let before = hand.sent.len();
    hand.reply(1, fine);
    assert_eq!((hand.engine.stats().mads_late, hand.sent.len()), (1, before));
    assert!(hand.engine.sample(2).answer(0).is_none());
}

#[test]
fn an_attribute_that_is_not_there_is_not_asked_for_again() {
    let mut hand = ByHand::new(|_| {});
    hand.reply(0, |mad, _| mad[5] = 0x0c);
    assert!(hand.events.contains(&Event::GroupUnsupported { device: 0, group: Group::Extended }));
    assert_eq!(hand.asked().last(), Some(&(1, 1, 0x12)));
    hand.reply(2, fine);
    assert_eq!(hand.asked().last(), Some(&(1, 2, 0x12)));
    hand.reply(3, fine);
    assert_eq!(hand.status(0), Some(Status::Ok));
}

/// Answers all that was sent from `from` on, but for one attribute.
fn answer_but(hand: &mut ByHand, from: usize, silent: u16) {
    let mut n = from;
    while n < hand.sent.len() {
        if hand.asked()[n].2 != silent {
            hand.reply(n, fine);
        }
        n += 1;
    }
}

#[test]
fn a_group_that_is_never_answered_is_set_aside_and_tried_again_later() {
    let mut hand = ByHand::new(|config| config.groups = vec![Group::Extended, Group::XmtDisc]);
    let set_aside = |hand: &ByHand| hand.events.contains(&Event::GroupUnsupported { device: 0, group: Group::XmtDisc });
    let asks = |hand: &ByHand, from: usize| hand.asked()[from..].iter().any(|(lid, _, attribute)| (*lid, *attribute) == (1, 0x16));
    for slot in 0..4 {
        assert!(!set_aside(&hand), "two tries a slot are not enough after {slot} slots");
        hand.now = Instant::from_nanos(slot * 1_000_000_000);
        hand.engine.start_slot(hand.now, hand.now + 900 * MS, hand.now + 950 * MS);
        let from = hand.sent.len();
        hand.poll();
        for _ in 0..4 {
            answer_but(&mut hand, from, 0x16);
            hand.pass(5 * MS);
        }
        hand.pass(60 * MS);
    }
    assert!(set_aside(&hand), "the switch answered others");
    for (second, asked) in [(10, false), (700, true)] {
        hand.now = Instant::from_nanos(second * 1_000_000_000);
        hand.engine.start_slot(hand.now, hand.now + 900 * MS, hand.now + 950 * MS);
        let from = hand.sent.len();
        hand.poll();
        answer_but(&mut hand, from, 0);
        assert_eq!(asks(&hand, from), asked, "after {second} s");
    }
}

#[test]
fn another_error_status_is_the_port_s() {
    let mut hand = ByHand::new(|_| {});
    hand.reply(1, |mad, _| mad[5] = 0x1c);
    hand.reply(2, fine);
    assert_eq!(hand.status(2), Some(Status::MadError));
    assert_eq!(hand.engine.sample(2).mad_status, Some(MadStatus::INVALID_VALUE));
    assert!(hand.engine.sample(2).answer(1).is_some());
}

#[test]
fn a_busy_agent_is_asked_again_what_it_can_do() {
    let mut engine = Engine::new(&[device(1, NodeKind::Hca, &[1])], Config::default(), 7);
    know(&mut engine, 0);
    engine.devices[0].groups.capabilities = Known::Not;
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut hand = ByHand { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
    hand.poll();
    hand.reply(0, |mad, _| mad[5] = 0x01);
    assert_eq!(hand.asked(), [(1, 0, 0x01), (1, 0, 0x01)]);
    hand.reply(1, |mad, _| Capabilities { mask: 0x1200, mask2: 0, option_mask: None }.emit(pma::data_mut(mad)));
    assert_eq!(
        (hand.events, hand.engine.sample(0).capabilities.map(|capabilities| capabilities.mask)),
        (vec![Event::DiscoveryDone], Some(0x1200))
    );
}

#[test]
fn port_counters_are_mandatory_and_asked_for_again() {
    let mut hand = ByHand::new(|config| config.groups = vec![Group::Base]);
    hand.reply(1, |mad, _| mad[5] = 0x0c);
    assert_eq!((hand.status(2), hand.engine.sample(2).unsupported), (Some(Status::MadError), 0));
}

#[test]
fn a_reply_is_judged_by_when_it_was_received() {
    let mut hand = ByHand::new(|config| config.groups = vec![Group::Base]);
    hand.now += 20 * MS;
    hand.reply(1, fine);
    assert_eq!((hand.status(2), hand.engine.stats().mads_late), (Some(Status::Late), 1));
}

#[test]
fn a_device_that_was_away_is_asked_anew_what_it_has() {
    let config = Config { groups: vec![Group::Extended], silence: 1, ..Config::default() };
    let mut engine = Engine::new(&[device(2, NodeKind::Hca, &[1])], config, 7);
    know(&mut engine, 0x1200);
    let mut hand = ByHand { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
    let mut slot = |second: u64, answers: bool| {
        hand.now = Instant::from_nanos(second * 1_000_000_000);
        hand.engine.start_slot(hand.now, hand.now + 900 * MS, hand.now + 950 * MS);
        let before = hand.sent.len();
        hand.poll();
        if answers {
            answer_but(&mut hand, before, 0);
        } else {
            hand.pass(60 * MS);
        }
        let known = hand.engine.sample(0).capabilities.is_some();
        assert!(known || second > 2, "the records of a slot are made after it, by what was known in it");
        hand.asked().split_off(before)
    };
    assert_eq!(slot(1, false), [(2, 1, 0x1d)]);
    assert_eq!(slot(2, true)[..1], [(2, 0, smp::NODE_INFO)], "it may be another by now");
    assert_eq!(slot(3, true)[0], (2, 0, 0x01), "ClassPortInfo");
}

#[test]
fn what_cannot_be_sent_costs_its_port_only() {
    let mut hand = ByHand::new(|_| {});
    let tid = Header::parse(&hand.sent[0].1).tid;
    hand.engine.handle_completion(&Completion { tid, outcome: Outcome::SendFailed(22) }, &[0; MAD_LEN], hand.now);
    hand.poll();
    assert_eq!(hand.status(0), Some(Status::SendError));
    assert_eq!(hand.asked().last(), Some(&(1, 2, 0x1d)));
}

#[test]
fn the_end_of_a_slot_settles_everything() {
    let mut hand = ByHand::new(|config| config.grace = 10 * SECOND);
    hand.reply(0, fine);
    hand.pass(900 * MS);
    assert_eq!((hand.sent.len(), hand.status(0), hand.status(1)), (3, None, Some(Status::Skipped)));
    hand.pass(50 * MS);
    assert_eq!((hand.status(0), hand.status(2)), (Some(Status::Timeout), Some(Status::Timeout)));
    assert_eq!(hand.events.last(), Some(&Event::SlotDone));
}

#[test]
fn a_clean_stop_asks_nothing_more_and_takes_what_is_under_way() {
    let mut hand = ByHand::new(|_| {});
    hand.engine.stop(hand.now, SECOND);
    hand.poll();
    assert_eq!((hand.sent.len(), hand.status(0), hand.status(1), hand.status(2)), (2, None, Some(Status::Skipped), None));
    hand.reply(1, fine);
    assert_eq!(hand.status(2), Some(Status::Skipped), "one of its groups was not asked");
    assert!(hand.engine.sample(2).answer(0).is_some(), "what came is kept");
    hand.pass(50 * MS);
    assert_eq!((hand.status(0), hand.events.last()), (Some(Status::Timeout), Some(&Event::SlotDone)));
    assert_eq!(hand.sent.len(), 2);
}

#[test]
fn a_stop_does_not_wait_for_a_grace_that_is_too_long() {
    let mut hand = ByHand::new(|config| config.grace = 10 * SECOND);
    hand.engine.stop(hand.now, 100 * MS);
    hand.pass(99 * MS);
    assert_ne!(hand.events.last(), Some(&Event::SlotDone));
    hand.pass(MS);
    assert_eq!((hand.status(0), hand.events.last()), (Some(Status::Timeout), Some(&Event::SlotDone)));
}

#[test]
fn a_slot_that_is_closed_settles_at_once() {
    let mut hand = ByHand::new(|_| {});
    hand.reply(0, fine);
    hand.engine.close(hand.now);
    hand.poll();
    // None of them is lost: their deadlines have not passed.
    assert_eq!((hand.status(0), hand.status(1), hand.status(2)), (Some(Status::Skipped), Some(Status::Skipped), Some(Status::Skipped)));
    assert!(hand.engine.sample(0).answer(0).is_some(), "what came is kept");
    assert_eq!(hand.events.last(), Some(&Event::SlotDone));
}
