//! The engine while there is no way to the fabric: what is told of ports, and what is not told of devices.

use proptest::prelude::*;

use super::*;

const EIO: i32 = 5;

impl ByHand {
    fn lose_way(&mut self) {
        self.engine.lose_way(EIO, self.now);
        self.fail_all();
    }

    /// Nothing that is to be sent can be; tells how much that was.
    fn fail_all(&mut self) -> usize {
        let (mut mad, mut count) = ([0; MAD_LEN], 0);
        while let Some((_, tid)) = self.engine.poll_transmit(self.now, &mut mad) {
            let completion = Completion { tid, outcome: Outcome::SendFailed(EIO) };
            self.engine.handle_completion(&completion, &mad, self.now);
            count += 1;
        }
        self.events.extend(std::iter::from_fn(|| self.engine.poll_event()));
        count
    }

    fn start_slot(&mut self) {
        self.now += SECOND;
        self.events.clear();
        self.sent.clear();
        self.engine.start_slot(self.now, self.now + 900 * MS, self.now + 950 * MS);
    }

    /// Each port told once, and no device of anything.
    #[track_caller]
    fn check_told(&self) {
        let ports: Vec<_> = (0..3).map(|port| self.events.iter().filter(|event| **event == Event::Port(port)).count()).collect();
        assert_eq!((ports, self.events.len(), self.events.last()), (vec![1; 3], 4, Some(&Event::SlotDone)), "{:?}", self.events);
    }
}

#[test]
fn what_is_under_way_is_lost_with_the_way_and_nobody_is_blamed() {
    let mut hand = ByHand::new(|_| {});
    // The first of each has expired, the switch's second port is under way.
    hand.pass(6 * MS);
    hand.lose_way();
    hand.check_told();
    assert_eq!((0..3).map(|port| hand.status(port)).collect::<Vec<_>>(), [Some(Status::SendError); 3]);
    let samples: Vec<_> = (0..3).map(|port| (hand.engine.sample(port).errno, hand.engine.sample(port).mads)).collect();
    assert_eq!(samples, [(Some(EIO), 1); 3]);
    assert_eq!(hand.engine.poll_timeout(), None, "nothing is waited for");
}

#[test]
fn a_device_that_was_left_alone_is_not_blamed_either() {
    let mut hand = ByHand::new(|config| (config.silence, config.groups) = (1, vec![Group::Base]));
    hand.pass(6 * MS);
    hand.lose_way();
    hand.check_told();
    assert_eq!((0..3).map(|port| hand.status(port)).collect::<Vec<_>>(), [Some(Status::SendError); 3]);
}

#[test]
fn slots_without_a_way_end_at_once_and_afterwards_all_are_asked_who_they_are() {
    let mut hand = ByHand::new(|_| {});
    hand.lose_way();
    for _ in 0..3 {
        hand.start_slot();
        let count = hand.fail_all();
        assert!(count <= 3, "{count}: one MAD a port is enough to know");
        hand.check_told();
        assert_eq!((0..3).map(|port| hand.status(port)).collect::<Vec<_>>(), [Some(Status::SendError); 3]);
        assert_eq!((hand.engine.stats().mads_sent, hand.engine.poll_timeout()), (0, None));
    }
    hand.engine.find_way(3);
    hand.start_slot();
    hand.poll();
    assert_eq!(hand.asked(), [(1, 0, smp::NODE_INFO), (2, 0, smp::NODE_INFO)]);
    let mut answered = 0;
    while answered < hand.sent.len() {
        hand.reply(answered, fine);
        answered += 1;
    }
    let counters = hand.sent.iter().find(|(_, mad)| Header::parse(mad).class == pma::CLASS_PERF_MGT).expect("they go on");
    assert_eq!(counters.0.pkey_index, 3);
}

#[test]
fn a_discovery_without_a_way_ends() {
    let mut engine = Engine::new(&[device(1, NodeKind::Switch, &[1, 2]), device(2, NodeKind::Hca, &[1])], Config::default(), 7);
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut hand = ByHand { engine, now: Instant::ZERO, sent: Vec::new(), events: Vec::new() };
    hand.poll();
    hand.lose_way();
    assert_eq!(hand.events, [Event::DiscoveryDone]);
}

proptest! {
    /// Whenever it is lost: every port is told once, and nothing is waited for.
    #[test]
    fn the_slot_is_told_whenever_the_way_is_lost(steps in proptest::collection::vec((0u64..12, any::<prop::sample::Index>()), 0..30)) {
        let mut hand = ByHand::new(|_| {});
        for (millis, index) in steps {
            if millis > 8 {
                hand.reply(index.index(hand.sent.len()), fine);
            } else {
                hand.pass(Duration::from_millis(millis));
            }
        }
        hand.lose_way();
        for port in 0..3 {
            prop_assert_eq!(hand.events.iter().filter(|event| **event == Event::Port(port)).count(), 1);
        }
        prop_assert_eq!((hand.events.iter().filter(|event| **event == Event::SlotDone).count(), hand.engine.poll_timeout()), (1, None));
    }
}
