//! The engine while the transport is lost: every port gets a status, and the loss is not counted
//! against any device.

use proptest::prelude::*;

use super::*;

const EIO: i32 = 5;

impl Bench {
    fn lose_transport(&mut self) {
        self.engine.transport_lost(EIO, self.now);
        self.fail_all();
    }

    /// Fails every send and returns the number of sends.
    fn fail_all(&mut self) -> usize {
        let (mut mad, mut count) = ([0; MAD_LEN], 0);
        while let Some((_, tid)) = self.engine.poll_transmit(self.now, &mut mad) {
            let completion = Completion {
                tid,
                outcome: Outcome::SendFailed(EIO),
            };
            self.engine.handle_completion(&completion, &mad, self.now);
            count += 1;
        }
        self.events
            .extend(std::iter::from_fn(|| self.engine.poll_event()));
        count
    }

    fn start_slot(&mut self) {
        self.now += SECOND;
        self.events.clear();
        self.sent.clear();
        self.engine
            .start_slot(self.now, self.now + 900 * MS, self.now + 950 * MS);
    }

    /// Checks that each port was settled once, and that no device was reported.
    #[track_caller]
    fn check_events(&self) {
        let ports: Vec<_> = (0..3)
            .map(|port| {
                self.events
                    .iter()
                    .filter(|event| **event == Event::Port(port))
                    .count()
            })
            .collect();
        assert_eq!(
            (ports, self.events.len(), self.events.last()),
            (vec![1; 3], 4, Some(&Event::SlotDone)),
            "{:?}",
            self.events
        );
    }
}

#[test]
fn requests_in_flight_become_send_errors_and_no_device_is_reported() {
    let mut bench = Bench::new(|_| {});
    // The first request of each device has expired, the switch's second port is in flight.
    bench.pass(6 * MS);
    bench.lose_transport();
    bench.check_events();
    assert_eq!(
        (0..3).map(|port| bench.status(port)).collect::<Vec<_>>(),
        [Some(Status::SendError); 3]
    );
    let samples: Vec<_> = (0..3)
        .map(|port| {
            (
                bench.engine.sample(port).errno,
                bench.engine.sample(port).mads,
            )
        })
        .collect();
    assert_eq!(samples, [(Some(EIO), 1); 3]);
    assert_eq!(bench.engine.poll_timeout(), None, "the engine is idle");
}

#[test]
fn silent_device_is_not_reported_either() {
    let mut bench =
        Bench::new(|config| (config.silence, config.groups) = (1, [Group::Base].into()));
    bench.pass(6 * MS);
    bench.lose_transport();
    bench.check_events();
    assert_eq!(
        (0..3).map(|port| bench.status(port)).collect::<Vec<_>>(),
        [Some(Status::SendError); 3]
    );
}

#[test]
fn slots_without_transport_end_at_once_and_then_all_devices_are_verified() {
    let mut bench = Bench::new(|_| {});
    bench.lose_transport();
    for _ in 0..3 {
        bench.start_slot();
        let count = bench.fail_all();
        assert!(count <= 3, "{count}: one MAD per port shows the loss");
        bench.check_events();
        assert_eq!(
            (0..3).map(|port| bench.status(port)).collect::<Vec<_>>(),
            [Some(Status::SendError); 3]
        );
        assert_eq!(
            (bench.engine.stats().mads_sent, bench.engine.poll_timeout()),
            (0, None)
        );
    }
    bench.engine.transport_restored(3, Vec::new());
    bench.start_slot();
    bench.poll();
    assert_eq!(
        bench.requests(),
        [(1, 0, smp::NODE_INFO), (2, 0, smp::NODE_INFO)]
    );
    let mut answered = 0;
    while answered < bench.sent.len() {
        bench.reply(answered, valid);
        answered += 1;
    }
    let counters = bench
        .sent
        .iter()
        .find(|(_, mad)| Header::parse(mad).class == pma::CLASS_PERF_MGT)
        .expect("the slot goes on");
    assert_eq!(counters.0.pkey_index, 3);
}

#[test]
fn discovery_without_transport_ends() {
    let mut engine = Engine::new(
        &[
            device(1, NodeKind::Switch, &[1, 2]),
            device(2, NodeKind::Hca, &[1]),
        ],
        Config::default(),
        7,
    );
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut bench = Bench::of(engine);
    bench.lose_transport();
    assert_eq!(bench.events, [Event::DiscoveryDone]);
}

proptest! {
    /// The transport may be lost at any time: every port is settled once and the slot ends.
    #[test]
    fn every_port_is_settled_once_when_the_transport_is_lost_at_any_time(steps in proptest::collection::vec((0u64..12, any::<prop::sample::Index>()), 0..30)) {
        let mut bench = Bench::new(|_| {});
        for (millis, index) in steps {
            if millis > 8 {
                bench.reply(index.index(bench.sent.len()), valid);
            } else {
                bench.pass(Duration::from_millis(millis));
            }
        }
        bench.lose_transport();
        for port in 0..3 {
            prop_assert_eq!(bench.events.iter().filter(|event| **event == Event::Port(port)).count(), 1);
        }
        prop_assert_eq!((bench.events.iter().filter(|event| **event == Event::SlotDone).count(), bench.engine.poll_timeout()), (1, None));
    }
}
