//! Tests that drive the engine MAD by MAD. [`simulated_fabric`] drives it on the simulated fabric.

use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

use super::groups::Learned;
use super::*;
use crate::mad::MAD_LEN;
use crate::mad::exchange::Local;
use crate::mad::header::{Header, METHOD_GET_RESP, MadStatus};
use crate::mad::pma::{self, Capabilities, Sampling};
use crate::mad::sa::Gid;
use crate::mad::smp::{self, NodeInfo};

mod cadence;
mod forwarding;
mod identity;
mod path_queries;
mod peers;
mod periodic_checks;
mod physical;
mod random_faults;
mod redirects;
mod simulated_fabric;
mod smp_limit;
mod smp_ways;
mod state_tables;
mod subnet_managers;
mod transport_loss;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// An engine that the test drives MAD by MAD.
struct Bench {
    engine: Engine,
    now: Instant,
    /// Requests in the order of sending.
    sent: Vec<(Target, Mad)>,
    events: Vec<Event>,
}

impl Bench {
    /// Starts a slot with two groups and two devices: a switch at LID 1 with ports 1 and 2, and an
    /// adapter at LID 2 with port 1.
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            groups: [Group::Extended, Group::Base].into(),
            ..Config::default()
        };
        change(&mut config);
        let switch = device(1, NodeKind::Switch, &[1, 2]);
        let mut engine = Engine::new(&[switch, device(2, NodeKind::Hca, &[1])], config, 7);
        set_known(&mut engine, 0xffff);
        engine.start_slot(
            Instant::ZERO,
            Instant::ZERO + 900 * MS,
            Instant::ZERO + 950 * MS,
        );
        Self::of(engine)
    }

    /// Drives this engine from time zero.
    fn of(engine: Engine) -> Self {
        let mut bench = Self {
            engine,
            now: Instant::ZERO,
            sent: Vec::new(),
            events: Vec::new(),
        };
        bench.poll();
        bench
    }

    /// Collects the requests that are due, and the events.
    fn poll(&mut self) {
        let mut mad = [0xa5; MAD_LEN];
        while let Some((target, _)) = self.engine.poll_transmit(self.now, &mut mad) {
            self.sent.push((target, mad));
        }
        self.events
            .extend(std::iter::from_fn(|| self.engine.poll_event()));
    }

    /// Delivers the reply to the n-th request, after `change`. The reply repeats the request.
    fn reply(&mut self, n: usize, change: impl FnOnce(&mut Mad, &mut Lid)) {
        let (target, mut mad) = self.sent[n];
        let (mut slid, tid) = (target.lid, Header::parse(&mad).tid);
        mad[3] = METHOD_GET_RESP;
        change(&mut mad, &mut slid);
        let completion = Completion {
            tid: Tid(Header::parse(&mad).tid.0),
            outcome: Outcome::Reply { slid, len: MAD_LEN },
        };
        assert!(completion.tid == tid || mad[12..16] != self.sent[n].1[12..16]);
        self.engine.handle_completion(&completion, &mad, self.now);
        self.poll();
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.handle_timeout(self.now);
        self.poll();
    }

    /// Returns LID, octet 65 (PortSelect) and attribute of each request.
    fn requests(&self) -> Vec<(u16, u8, u16)> {
        self.sent
            .iter()
            .map(|(target, mad)| (target.lid.0, mad[65], Header::parse(mad).attribute))
            .collect()
    }

    /// Returns the status of a port that is settled.
    fn status(&self, port: usize) -> Option<Status> {
        self.events
            .contains(&Event::Port(port))
            .then(|| self.engine.sample(port).status)
    }
}

/// Makes a valid reply: the octets of the request, or the NodeInfo of the planned device.
fn valid(mad: &mut Mad, slid: &mut Lid) {
    let header = Header::parse(mad);
    if (header.class, header.attribute) == (smp::CLASS_SUBN_LID_ROUTED, smp::NODE_INFO) {
        NodeInfo {
            port_guid: Guid(slid.0.into()),
            ..NodeInfo::default()
        }
        .emit(pma::data_mut(mad));
    }
}

/// Returns a device whose GUID is its LID.
fn device(lid: u16, kind: NodeKind, ports: &[u8]) -> DevicePlan {
    DevicePlan {
        guid: Guid(lid.into()),
        lid: Lid(lid),
        kind,
        ports: ports.iter().map(|num| PortNum(*num)).collect(),
    }
}

/// Makes the capabilities of all devices known and their identity checks not due.
fn set_known(engine: &mut Engine, mask: u16) {
    let groups = engine.config.groups.clone();
    for device in &mut engine.devices {
        device.groups.learn(
            Capabilities {
                mask,
                mask2: 0,
                option_mask: None,
            },
            &groups,
        );
        device.groups.learn_sampling(
            Sampling {
                tick: 7,
                option_mask: u64::MAX,
            },
            &groups,
        );
        device.identity.schedule(Instant::from_nanos(u64::MAX));
    }
}

/// Returns a bench with a subnet manager at LID 5, between two slots.
fn with_manager(change: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::new(|config| {
        config.groups = [Group::Base].into();
        change(config);
    });
    bench.engine.set_local(Local {
        lid: Lid(9),
        sm_lid: Lid(5),
        sm_sl: 0,
        gid: Gid::default(),
        ..Local::default()
    });
    bench.engine.close(bench.now);
    bench.poll();
    (bench.now, bench.events) = (Instant::ZERO + SECOND, Vec::new());
    bench.sent.clear();
    bench
}

impl Bench {
    /// Starts a slot.
    fn start(&mut self) {
        self.engine
            .start_slot(self.now, self.now + 900 * MS, self.now + 950 * MS);
        self.poll();
    }

    /// Returns the number of the last request for an attribute to a LID.
    fn last(&self, lid: u16, attribute: u16) -> usize {
        self.requests()
            .iter()
            .rposition(|(to, _, what)| (*to, *what) == (lid, attribute))
            .expect("the request was sent")
    }
}

/// Writes the NodeInfo of a device that is not in the plan.
fn other_device(mad: &mut Mad, _: &mut Lid) {
    NodeInfo {
        port_guid: Guid(77),
        ..NodeInfo::default()
    }
    .emit(pma_data(mad));
}

/// Returns the attribute of a MAD.
fn pma_data(mad: &mut Mad) -> &mut pma::Data {
    pma::data_mut(mad)
}

#[test]
fn device_has_one_mad_in_flight_and_its_ports_are_queried_in_order() {
    let mut bench = Bench::new(|_| {});
    assert_eq!(bench.requests(), [(1, 1, 0x1d), (2, 1, 0x1d)]);
    for n in 0..6 {
        bench.reply(n, valid);
    }
    let switch: Vec<_> = bench
        .requests()
        .into_iter()
        .filter(|(lid, ..)| *lid == 1)
        .collect();
    assert_eq!(
        switch,
        [(1, 1, 0x1d), (1, 1, 0x12), (1, 2, 0x1d), (1, 2, 0x12)]
    );
    assert_eq!(
        (0..3).map(|port| bench.status(port)).collect::<Vec<_>>(),
        [Some(Status::Ok); 3]
    );
    assert_eq!(bench.events.last(), Some(&Event::SlotDone));
    assert_eq!(
        (bench.engine.stats().mads_sent, bench.engine.stats().total()),
        (6, 3)
    );
}

#[test]
fn no_request_is_sent_after_ask_until_when_replies_are_handled_before_timeouts() {
    let mut bench = Bench::new(|_| {});
    // The process was stopped for three seconds.
    bench.now += 3 * SECOND;
    bench.reply(0, valid);
    bench.reply(1, valid);
    assert_eq!(bench.sent.len(), 2);
    assert_eq!(bench.events.last(), Some(&Event::SlotDone));
    assert_eq!(
        (0..3).map(|port| bench.status(port)).collect::<Vec<_>>(),
        [Some(Status::Skipped); 3]
    );
}

#[test]
fn window_of_one_sends_one_mad_at_a_time() {
    let mut bench = Bench::new(|config| config.window = 1);
    for n in 0..6 {
        assert_eq!(bench.sent.len(), n + 1);
        bench.reply(n, valid);
    }
    assert_eq!(bench.requests()[..2], [(1, 1, 0x1d), (1, 1, 0x12)]);
    assert_eq!(bench.events.last(), Some(&Event::SlotDone));
}

#[test]
fn late_reply_counts_as_late_and_keeps_its_data() {
    let mut bench = Bench::new(|_| {});
    bench.pass(6 * MS);
    assert_eq!(
        bench.requests()[2..],
        [(1, 2, 0x1d)],
        "the switch goes on with its next port, the adapter has only one"
    );
    assert_eq!(bench.status(2), None, "the grace period has not ended");
    bench.pass(10 * MS);
    bench.reply(1, |mad, _| mad[64 + 15] = 9);
    assert_eq!(bench.status(2), Some(Status::Late));
    let sample = bench.engine.sample(2);
    let (at, data) = sample.answer(0).expect("the reply came");
    assert_eq!(
        (at, data[15], sample.at),
        (Instant::ZERO + 16 * MS, 9, Instant::ZERO + 16 * MS)
    );
    assert!(sample.answer(1).is_none(), "the skipped group is absent");
    assert_eq!(bench.engine.stats().mads_late, 1);
}

#[test]
fn silent_device_gets_no_requests_until_it_answers() {
    let mut bench = Bench::new(|config| config.silence = 1);
    bench.pass(5 * MS);
    assert_eq!(bench.sent.len(), 2, "port 2 of the switch is not requested");
    bench.pass(MS);
    bench.reply(0, valid);
    assert_eq!(bench.status(0), Some(Status::Late));
    assert_eq!(
        bench.requests()[2..],
        [(1, 2, 0x1d)],
        "the device answered, so it is queried again"
    );
    bench.pass(60 * MS);
    assert_eq!(bench.status(1), Some(Status::Timeout));
    assert_eq!(bench.status(2), Some(Status::Timeout));
}

#[test]
fn dead_device_delays_the_slot_only_by_timeouts_and_is_reported_once() {
    let mut bench = Bench::new(|config| config.silence = 2);
    for _ in 0..13 {
        bench.pass(5 * MS);
    }
    assert_eq!(
        (bench.status(0), bench.status(1), bench.status(2)),
        (
            Some(Status::Timeout),
            Some(Status::Timeout),
            Some(Status::Timeout)
        )
    );
    assert_eq!(
        bench.engine.stats().duration(),
        10 * MS,
        "the slot lasts until the last timeout, not until the end of the grace period"
    );
    assert!(bench.events.contains(&Event::Unreachable(0)));
    assert!(
        !bench.events.contains(&Event::Unreachable(1)),
        "one MAD may be lost"
    );
    // In the next slot the device is queried last, and is reachable as soon as it answers.
    bench.engine.start_slot(
        Instant::ZERO + SECOND,
        Instant::ZERO + 2 * SECOND,
        Instant::ZERO + 2 * SECOND,
    );
    (bench.now, bench.events) = (Instant::ZERO + SECOND, Vec::new());
    bench.sent.clear();
    bench.poll();
    answer_except(&mut bench, 0, 0);
    assert!(
        bench.events.contains(&Event::Reachable(0)) && !bench.events.contains(&Event::Reachable(1))
    );
}

#[test]
fn unqueried_ports_of_a_silent_device_are_unreachable() {
    let mut bench = Bench::new(|config| config.silence = 1);
    bench.pass(60 * MS);
    assert_eq!(
        (bench.status(0), bench.status(1)),
        (Some(Status::Timeout), Some(Status::Unreachable))
    );
    assert_eq!(bench.engine.sample(1).mads, 0);
}

#[test]
fn rejected_replies_are_counted_by_kind_and_settle_nothing() {
    let mut bench = Bench::new(|_| {});
    bench.reply(1, |_, slid| *slid = Lid(99));
    bench.reply(1, |mad, _| mad[12] ^= 0x55);
    assert_eq!(
        (
            bench.engine.stats().rejected.foreign,
            bench.engine.stats().rejected.total()
        ),
        (2, 2)
    );
    bench.reply(1, |mad, _| mad[17] = 0x12);
    bench.reply(1, |mad, _| mad[65] = 2);
    bench.reply(1, |mad, _| mad[1] = 0x81);
    assert_eq!(
        (bench.engine.stats().rejected.malformed(), bench.sent.len()),
        (3, 2)
    );
    bench.reply(1, valid);
    bench.reply(1, valid);
    assert_eq!(bench.engine.stats().rejected.duplicate, 1);
    assert_eq!(bench.sent.len(), 3, "the valid reply counts once");
}

#[test]
fn port_with_only_rejected_replies_is_a_bad_reply() {
    let mut bench = Bench::new(|_| {});
    bench.reply(1, |mad, _| mad[65] = 2);
    bench.pass(60 * MS);
    assert_eq!(bench.status(2), Some(Status::BadReply));
}

#[test]
fn reply_after_the_grace_period_is_counted_and_ignored() {
    let mut bench = Bench::new(|_| {});
    bench.pass(60 * MS);
    let before = bench.sent.len();
    bench.reply(1, valid);
    assert_eq!(
        (bench.engine.stats().mads_late, bench.sent.len()),
        (1, before)
    );
    assert!(bench.engine.sample(2).answer(0).is_none());
}

#[test]
fn refused_group_is_not_requested_again() {
    let mut bench = Bench::new(|_| {});
    bench.reply(0, |mad, _| mad[5] = 0x0c);
    assert!(bench.events.contains(&Event::GroupUnsupported {
        device: 0,
        group: Group::Extended
    }));
    assert_eq!(bench.requests().last(), Some(&(1, 1, 0x12)));
    bench.reply(2, valid);
    assert_eq!(bench.requests().last(), Some(&(1, 2, 0x12)));
    bench.reply(3, valid);
    assert_eq!(bench.status(0), Some(Status::Ok));
}

/// Answers all requests from number `from` on, except those for one attribute.
fn answer_except(bench: &mut Bench, from: usize, silent: u16) {
    let mut n = from;
    while n < bench.sent.len() {
        if bench.requests()[n].2 != silent {
            bench.reply(n, valid);
        }
        n += 1;
    }
}

#[test]
fn group_that_is_never_answered_is_disabled_and_probed_again_later() {
    let mut bench = Bench::new(|config| config.groups = [Group::Extended, Group::XmtDisc].into());
    let disabled = |bench: &Bench| {
        bench.events.contains(&Event::GroupUnsupported {
            device: 0,
            group: Group::XmtDisc,
        })
    };
    let is_requested = |bench: &Bench, from: usize| {
        bench.requests()[from..]
            .iter()
            .any(|(lid, _, attribute)| (*lid, *attribute) == (1, 0x16))
    };
    for slot in 0..4 {
        assert!(
            !disabled(&bench),
            "two failed requests per slot are too few after {slot} slots"
        );
        bench.now = Instant::from_nanos(slot * 1_000_000_000);
        bench
            .engine
            .start_slot(bench.now, bench.now + 900 * MS, bench.now + 950 * MS);
        let from = bench.sent.len();
        bench.poll();
        for _ in 0..4 {
            answer_except(&mut bench, from, 0x16);
            bench.pass(5 * MS);
        }
        bench.pass(60 * MS);
    }
    assert!(disabled(&bench), "the switch answered other groups");
    for (second, expected) in [(10, false), (700, true)] {
        bench.now = Instant::from_nanos(second * 1_000_000_000);
        bench
            .engine
            .start_slot(bench.now, bench.now + 900 * MS, bench.now + 950 * MS);
        let from = bench.sent.len();
        bench.poll();
        answer_except(&mut bench, from, 0);
        assert_eq!(is_requested(&bench, from), expected, "after {second} s");
    }
}

#[test]
fn error_status_is_reported_for_its_port() {
    let mut bench = Bench::new(|_| {});
    bench.reply(1, |mad, _| mad[5] = 0x1c);
    bench.reply(2, valid);
    assert_eq!(bench.status(2), Some(Status::MadError));
    assert_eq!(
        bench.engine.sample(2).mad_status,
        Some(MadStatus::INVALID_VALUE)
    );
    assert!(bench.engine.sample(2).answer(1).is_some());
}

#[test]
fn busy_agent_is_queried_again_for_capabilities() {
    let mut engine = Engine::new(&[device(1, NodeKind::Hca, &[1])], Config::default(), 7);
    set_known(&mut engine, 0);
    engine.devices[0].groups.capabilities = Learned::Unknown;
    engine.start_discovery(Instant::ZERO, Instant::ZERO + SECOND);
    let mut bench = Bench::of(engine);
    bench.reply(0, |mad, _| mad[5] = 0x01);
    assert_eq!(bench.requests(), [(1, 0, 0x01), (1, 0, 0x01)]);
    bench.reply(1, |mad, _| {
        Capabilities {
            mask: 0x1200,
            mask2: 0,
            option_mask: None,
        }
        .emit(pma::data_mut(mad));
    });
    assert_eq!(
        (
            bench.events,
            bench
                .engine
                .sample(0)
                .capabilities
                .map(|capabilities| capabilities.mask)
        ),
        (vec![Event::DiscoveryDone], Some(0x1200))
    );
}

#[test]
fn refused_port_counters_are_requested_again() {
    let mut bench = Bench::new(|config| config.groups = [Group::Base].into());
    bench.reply(1, |mad, _| mad[5] = 0x0c);
    assert_eq!(
        (bench.status(2), bench.engine.sample(2).unsupported),
        (Some(Status::MadError), 0)
    );
}

#[test]
fn time_of_receipt_decides_whether_a_reply_is_late() {
    let mut bench = Bench::new(|config| config.groups = [Group::Base].into());
    bench.now += 20 * MS;
    bench.reply(1, valid);
    assert_eq!(
        (bench.status(2), bench.engine.stats().mads_late),
        (Some(Status::Late), 1)
    );
}

#[test]
fn capabilities_are_queried_again_after_a_device_was_unreachable() {
    let config = Config {
        groups: [Group::Extended].into(),
        silence: 1,
        ..Config::default()
    };
    let mut engine = Engine::new(&[device(2, NodeKind::Hca, &[1])], config, 7);
    set_known(&mut engine, 0x1200);
    let mut bench = Bench::of(engine);
    let mut slot = |second: u64, answers: bool| {
        bench.now = Instant::from_nanos(second * 1_000_000_000);
        bench
            .engine
            .start_slot(bench.now, bench.now + 900 * MS, bench.now + 950 * MS);
        let before = bench.sent.len();
        bench.poll();
        if answers {
            answer_except(&mut bench, before, 0);
        } else {
            bench.pass(60 * MS);
        }
        let known = bench.engine.sample(0).capabilities.is_some();
        assert!(
            known || second > 2,
            "the records of a slot need the capabilities of that slot"
        );
        bench.requests().split_off(before)
    };
    assert_eq!(slot(1, false), [(2, 1, 0x1d)]);
    assert_eq!(
        slot(2, true)[..1],
        [(2, 0, smp::NODE_INFO)],
        "another device may answer"
    );
    assert_eq!(slot(3, true)[0], (2, 0, 0x01), "ClassPortInfo");
}

#[test]
fn send_error_affects_only_its_port() {
    let mut bench = Bench::new(|_| {});
    let tid = Header::parse(&bench.sent[0].1).tid;
    bench.engine.handle_completion(
        &Completion {
            tid,
            outcome: Outcome::SendFailed(22),
        },
        &[0; MAD_LEN],
        bench.now,
    );
    bench.poll();
    assert_eq!(bench.status(0), Some(Status::SendError));
    assert_eq!(bench.requests().last(), Some(&(1, 2, 0x1d)));
}

#[test]
fn end_of_the_slot_settles_every_port() {
    let mut bench = Bench::new(|config| config.grace = 10 * SECOND);
    bench.reply(0, valid);
    bench.pass(900 * MS);
    assert_eq!(
        (bench.sent.len(), bench.status(0), bench.status(1)),
        (3, None, Some(Status::Skipped))
    );
    bench.pass(50 * MS);
    assert_eq!(
        (bench.status(0), bench.status(2)),
        (Some(Status::Timeout), Some(Status::Timeout))
    );
    assert_eq!(bench.events.last(), Some(&Event::SlotDone));
}

#[test]
fn stop_sends_no_requests_and_accepts_replies_in_flight() {
    let mut bench = Bench::new(|_| {});
    bench.engine.stop(bench.now, SECOND);
    bench.poll();
    assert_eq!(
        (
            bench.sent.len(),
            bench.status(0),
            bench.status(1),
            bench.status(2)
        ),
        (2, None, Some(Status::Skipped), None)
    );
    bench.reply(1, valid);
    assert_eq!(
        bench.status(2),
        Some(Status::Skipped),
        "one of its groups was not requested"
    );
    assert!(
        bench.engine.sample(2).answer(0).is_some(),
        "the reply is kept"
    );
    bench.pass(50 * MS);
    assert_eq!(
        (bench.status(0), bench.events.last()),
        (Some(Status::Timeout), Some(&Event::SlotDone))
    );
    assert_eq!(bench.sent.len(), 2);
}

#[test]
fn stop_waits_no_longer_than_its_limit() {
    let mut bench = Bench::new(|config| config.grace = 10 * SECOND);
    bench.engine.stop(bench.now, 100 * MS);
    bench.pass(99 * MS);
    assert_ne!(bench.events.last(), Some(&Event::SlotDone));
    bench.pass(MS);
    assert_eq!(
        (bench.status(0), bench.events.last()),
        (Some(Status::Timeout), Some(&Event::SlotDone))
    );
}

#[test]
fn close_settles_every_port_at_once() {
    let mut bench = Bench::new(|_| {});
    bench.reply(0, valid);
    bench.engine.close(bench.now);
    bench.poll();
    // No request counts as lost, because no timeout has passed.
    assert_eq!(
        (bench.status(0), bench.status(1), bench.status(2)),
        (
            Some(Status::Skipped),
            Some(Status::Skipped),
            Some(Status::Skipped)
        )
    );
    assert!(
        bench.engine.sample(0).answer(0).is_some(),
        "the reply is kept"
    );
    assert_eq!(bench.events.last(), Some(&Event::SlotDone));
}
