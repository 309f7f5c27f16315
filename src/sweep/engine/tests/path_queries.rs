//! Tests of the queries to the subnet manager for path records.

use ibnet_record::attributes::Group;
use ibnet_record::types::{Guid, Lid, NodeKind};

use super::super::*;
use super::{Bench, MS, SECOND, device, set_known};
use crate::mad::exchange::Local;
use crate::mad::header::{Header, MadStatus};
use crate::mad::sa::{self, Gid, PathRecord};

/// LID of the subnet manager.
const MANAGER: Lid = Lid(100);

/// LID of the subnet manager that replaces it.
const OTHER_MANAGER: Lid = Lid(101);

/// Service level of the path to a device.
fn path_sl(guid: u64) -> u8 {
    1 + (guid % 7) as u8
}

/// Returns the location of the sender, with the subnet manager at this LID.
fn local(sm_lid: Lid) -> Local {
    Local {
        lid: Lid(99),
        sm_lid,
        sm_sl: 1,
        gid: Gid {
            prefix: 0xfe80_0000_0000_0000,
            guid: Guid(99),
        },
        ..Local::default()
    }
}

/// Starts a discovery of this number of adapters with `sl = "path"`. Everything but the paths is
/// known.
fn discovery(devices: u16) -> Bench {
    let config = Config {
        groups: [Group::Base].into(),
        path_sl: true,
        ..Config::default()
    };
    let plan: Vec<_> = (1..=devices)
        .map(|lid| device(lid, NodeKind::Hca, &[1]))
        .collect();
    let mut engine = Engine::new(&plan, config, 7);
    set_known(&mut engine, 0);
    engine.set_local(local(MANAGER));
    engine.start_discovery(Instant::ZERO, Instant::ZERO + 10 * SECOND);
    Bench::of(engine)
}

/// Returns the GUID of the device of a path query.
fn queried(mad: &Mad) -> u64 {
    assert_eq!(Header::parse(mad).class, sa::CLASS_SUBN_ADM);
    sa::Query::parse(mad).destination.guid.0
}

impl Bench {
    /// Answers the n-th request with the path record of its device.
    fn reply_path(&mut self, n: usize) {
        let guid = queried(&self.sent[n].1);
        self.reply(n, |mad, _| {
            PathRecord {
                dlid: Lid(guid as u16),
                sl: path_sl(guid),
            }
            .emit(mad);
        });
    }

    /// Lets time pass to the end of the phase and answers every path query, except those for which
    /// `lost` is true. Its arguments are the GUID of the device and the number of the try. Returns
    /// the time of each query.
    fn run(&mut self, lost: impl Fn(u64, usize) -> bool) -> Vec<(u64, Instant)> {
        let mut queries: Vec<(u64, Instant)> = Vec::new();
        loop {
            while queries.len() < self.sent.len() {
                let n = queries.len();
                let guid = queried(&self.sent[n].1);
                queries.push((guid, self.now));
                let tries = queries.iter().filter(|(of, _)| *of == guid).count();
                if !lost(guid, tries) {
                    self.now += MS;
                    self.reply_path(n);
                }
            }
            let Some(timeout) = self.engine.poll_timeout() else {
                return queries;
            };
            self.pass(timeout.max(self.now) - self.now);
        }
    }

    /// Returns the service levels of the devices, as requests to their agents use them.
    fn sls(&self) -> Vec<u8> {
        self.engine
            .devices
            .iter()
            .map(|device| device.path.sl(0))
            .collect()
    }
}

#[test]
fn service_level_comes_from_the_path_record() {
    let mut bench = discovery(2);
    for n in 0..2 {
        assert_eq!(
            (bench.sent.len(), bench.sent[n].0.lid, bench.sent[n].0.sl),
            (n + 1, MANAGER, 1),
            "one query at a time"
        );
        bench.reply_path(n);
    }
    assert_eq!(bench.events, [Event::DiscoveryDone]);
    bench.now = Instant::ZERO + SECOND;
    bench
        .engine
        .start_slot(bench.now, bench.now + SECOND, bench.now + SECOND);
    bench.poll();
    let targets: Vec<_> = bench.sent[2..]
        .iter()
        .map(|(target, _)| (target.lid.0, target.sl, target.qp))
        .collect();
    assert_eq!(targets, [(1, path_sl(1), 1), (2, path_sl(2), 1)]);
}

#[test]
fn one_lost_reply_delays_only_its_own_device() {
    for lost in 1..=5 {
        let mut bench = discovery(5);
        let queries = bench.run(|guid, tries| guid == lost && tries == 1);
        assert_eq!(bench.events, [Event::DiscoveryDone]);
        assert_eq!(
            bench.engine.devices_without_path(),
            0,
            "every device has a path record after the discovery"
        );
        assert_eq!(bench.sls(), (1..=5).map(path_sl).collect::<Vec<_>>());
        let others = queries
            .iter()
            .filter(|(guid, _)| *guid != lost)
            .map(|(_, at)| *at)
            .max()
            .expect("four other devices");
        assert!(others <= Instant::ZERO + 260 * MS, "{queries:?}");
        let times: Vec<_> = queries
            .iter()
            .filter(|(guid, _)| *guid == lost)
            .map(|(_, at)| *at)
            .collect();
        assert_eq!(
            (times.len(), times[1] - times[0]),
            (2, SECOND + 250 * MS),
            "{queries:?}"
        );
    }
}

#[test]
fn device_whose_replies_are_lost_falls_back_after_three_tries_and_is_queried_again_later() {
    let mut bench = discovery(5);
    let queries = bench.run(|guid, _| guid == 3);
    assert_eq!(bench.events, [Event::DiscoveryDone]);
    assert_eq!(
        (
            queries.iter().filter(|(guid, _)| *guid == 3).count(),
            bench.engine.devices_without_path()
        ),
        (3, 1)
    );
    assert_eq!(bench.sls()[2], 0, "the configured service level");
    let given_up = bench.now;
    let mut queried_again = None;
    for second in 1..=20 {
        bench.now = given_up + second * SECOND;
        let before = bench.sent.len();
        bench
            .engine
            .start_slot(bench.now, bench.now + 900 * MS, bench.now + 950 * MS);
        bench.poll();
        if let Some(n) = (before..bench.sent.len()).find(|n| bench.sent[*n].0.lid == MANAGER) {
            bench.reply_path(n);
            queried_again = Some(second);
            break;
        }
        bench.engine.close(bench.now);
    }
    assert_eq!((queried_again, bench.sls()[2]), (Some(10), path_sl(3)));
}

#[test]
fn late_reply_counts_and_does_not_delay_other_devices() {
    let mut bench = discovery(3);
    bench.pass(250 * MS);
    assert_eq!(
        bench
            .sent
            .iter()
            .map(|(_, mad)| queried(mad))
            .collect::<Vec<_>>(),
        [1, 2],
        "the next query does not wait longer"
    );
    bench.pass(50 * MS);
    bench.reply_path(0);
    assert_eq!(bench.sls()[0], path_sl(1));
    assert_eq!(
        bench.sent.len(),
        2,
        "the second query still waits for its reply"
    );
    bench.reply_path(1);
    bench.reply_path(2);
    assert_eq!(
        (bench.sls(), bench.events.last()),
        ((1..=3).map(path_sl).collect(), Some(&Event::DiscoveryDone))
    );
}

#[test]
fn silent_subnet_manager_gets_three_queries_and_ends_the_discovery() {
    let mut bench = discovery(50);
    let queries = bench.run(|_, _| true);
    assert_eq!(queries.len(), 3);
    assert_eq!(
        (bench.events.last(), bench.now),
        (Some(&Event::DiscoveryDone), Instant::ZERO + 1500 * MS)
    );
    assert_eq!(bench.engine.devices_without_path(), 50);
}

#[test]
fn subnet_manager_that_is_still_silent_gets_one_query_at_a_time() {
    let mut bench = discovery(50);
    bench.run(|_, _| true);
    bench.now += 10 * SECOND;
    let before = bench.sent.len();
    bench
        .engine
        .start_discovery(bench.now, bench.now + 10 * SECOND);
    bench.poll();
    bench.pass(250 * MS);
    assert_eq!(bench.sent.len(), before + 1);
    bench.pass(750 * MS);
    assert_eq!(
        (bench.sent.len(), bench.events.last()),
        (before + 1, Some(&Event::DiscoveryDone)),
        "all queries are dropped"
    );
    bench.now += 10 * SECOND;
    bench
        .engine
        .start_discovery(bench.now, bench.now + 10 * SECOND);
    bench.poll();
    for n in before + 1..before + 51 {
        bench.reply_path(n);
    }
    assert_eq!(bench.engine.devices_without_path(), 0);
}

/// Loses all queries, applies `change`, and asserts that one lost reply in the next discovery
/// delays only its own device.
#[track_caller]
fn assert_silence_is_forgotten(change: impl FnOnce(&mut Bench)) {
    let mut bench = discovery(5);
    bench.run(|_, _| true);
    bench.sent.clear();
    change(&mut bench);
    // The identity checks that follow the change are not of interest here.
    set_known(&mut bench.engine, 0);
    bench
        .engine
        .start_discovery(bench.now, bench.now + 10 * SECOND);
    bench.poll();
    let queries = bench.run(|guid, tries| guid == 1 && tries == 1);
    assert_eq!(
        (queries.len(), bench.engine.devices_without_path()),
        (6, 0),
        "{queries:?}"
    );
}

#[test]
fn new_subnet_manager_does_not_count_as_silent() {
    assert_silence_is_forgotten(|bench| assert!(bench.engine.set_local(local(OTHER_MANAGER))));
}

#[test]
fn subnet_manager_does_not_count_as_silent_after_a_reconnection() {
    assert_silence_is_forgotten(|bench| {
        bench.engine.transport_lost(5, bench.now);
        bench.engine.transport_restored(0, Vec::new());
    });
}

#[test]
fn queries_lost_at_the_former_subnet_manager_do_not_count_against_the_new_one() {
    let mut bench = discovery(5);
    bench.pass(250 * MS);
    bench.pass(250 * MS);
    assert!(bench.engine.set_local(local(OTHER_MANAGER)));
    // Three queries are lost with the former subnet manager, and the first one to the new one.
    let queries = bench.run(|guid, tries| guid <= 4 && tries == 1);
    let lids: Vec<_> = bench.sent.iter().map(|(target, _)| target.lid).collect();
    assert_eq!(
        (
            &lids[..3],
            lids[3..].iter().all(|lid| *lid == OTHER_MANAGER)
        ),
        (&[MANAGER; 3][..], true)
    );
    assert_eq!(
        (queries.len(), bench.engine.devices_without_path()),
        (9, 0),
        "{queries:?}"
    );
}

/// Answers the n-th request with the status "busy".
fn reply_busy(bench: &mut Bench, n: usize) {
    bench.reply(n, |mad, _| {
        mad[4..6].copy_from_slice(&MadStatus::BUSY.0.to_be_bytes());
    });
}

#[test]
fn query_to_a_busy_subnet_manager_is_sent_again_after_a_pause() {
    let mut bench = discovery(5);
    reply_busy(&mut bench, 0);
    for n in 1..5 {
        assert_eq!(
            (queried(&bench.sent[n].1), bench.now),
            (1 + n as u64, Instant::ZERO),
            "the other devices do not wait"
        );
        bench.reply_path(n);
    }
    assert_eq!(
        (bench.sent.len(), bench.engine.poll_timeout()),
        (5, Some(Instant::ZERO + 250 * MS))
    );
    bench.pass(250 * MS);
    assert_eq!((bench.sent.len(), queried(&bench.sent[5].1)), (6, 1));
    bench.reply_path(5);
    assert_eq!(
        (bench.engine.devices_without_path(), &bench.events[..]),
        (0, &[Event::DiscoveryDone][..])
    );
}

#[test]
fn busy_subnet_manager_does_not_count_as_silent_and_gets_three_queries_a_device() {
    let mut bench = discovery(5);
    let mut answered = 0;
    while let Some(timeout) = bench.engine.poll_timeout() {
        while answered < bench.sent.len() {
            answered += 1;
            reply_busy(&mut bench, answered - 1);
        }
        if bench.events.is_empty() {
            bench.pass(timeout.max(bench.now) - bench.now);
        }
    }
    assert_eq!(
        (bench.sent.len(), bench.now),
        (15, Instant::ZERO + 1250 * MS)
    );
    assert_eq!(
        (bench.events.last(), bench.engine.devices_without_path()),
        (Some(&Event::DiscoveryDone), 5)
    );
}

#[test]
fn no_path_query_is_sent_again_after_a_stop() {
    let mut bench = discovery(3);
    bench.engine.stop(bench.now, 2 * SECOND);
    let sent = bench.sent.len();
    for _ in 0..30 {
        bench.pass(100 * MS);
    }
    assert_eq!(
        (bench.sent.len(), bench.events.last()),
        (sent, Some(&Event::DiscoveryDone))
    );
}
