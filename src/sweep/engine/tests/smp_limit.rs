//! SMPs in flight on a subnet whose devices drop SMPs.

use super::*;
use crate::sweep::smp_limit::MAX_SMPS;

/// Returns the slot of 400 adapters, all of which have to be verified.
fn bench() -> Bench {
    let config = Config {
        groups: [Group::Base].into(),
        window: 200,
        ..Config::default()
    };
    let devices: Vec<_> = (1..=400)
        .map(|lid| device(lid, NodeKind::Hca, &[1]))
        .collect();
    let mut engine = Engine::new(&devices, config, 7);
    set_known(&mut engine, 0xffff);
    // The second half of the devices has no check.
    engine.devices[..200]
        .iter_mut()
        .for_each(|device| device.identity.schedule(Instant::ZERO));
    engine.start_slot(
        Instant::ZERO,
        Instant::ZERO + 900 * MS,
        Instant::ZERO + 950 * MS,
    );
    Bench::of(engine)
}

/// Returns the numbers of SMPs and of other MADs that were sent.
fn sent(bench: &Bench) -> (usize, usize) {
    let smps = bench
        .sent
        .iter()
        .filter(|(target, _)| target.qp == 0)
        .count();
    (smps, bench.sent.len() - smps)
}

#[test]
fn silent_smps_are_limited_and_other_queries_do_not_wait() {
    let mut bench = bench();
    let mut sent_at = Vec::new();
    for ms in 0..400 {
        let (smps, _) = sent(&bench);
        sent_at.resize(smps, ms);
        let held = sent_at.iter().filter(|at| **at + 50 > ms).count();
        assert!(held <= MAX_SMPS, "{held} SMPs at {ms} ms");
        // Queries for counters are answered at once.
        for n in 0..bench.sent.len() {
            if bench.sent[n].0.qp == 1 && Header::parse(&bench.sent[n].1).tid != Tid(0) {
                bench.reply(n, valid);
            }
        }
        if ms == 5 {
            assert!(
                sent(&bench).1 >= 200,
                "the devices without a check are queried: {:?}",
                sent(&bench)
            );
        }
        // The engine is not called again and again while all devices wait.
        if let Some(timeout) = bench.engine.poll_timeout() {
            assert!(
                timeout > bench.now || bench.engine.inflight.pending() > 0 || held == 0,
                "{timeout:?} at {ms} ms"
            );
        }
        bench.pass(MS);
    }
    assert!(
        sent(&bench).0 >= 200,
        "each device with a check is verified: {:?}",
        sent(&bench)
    );
}

#[test]
fn answered_smps_are_not_limited() {
    let mut bench = bench();
    let mut n = 0;
    while n < bench.sent.len() {
        bench.reply(n, valid);
        n += 1;
    }
    // NodeInfo and PortInfo of the first half, counters of all.
    assert_eq!(sent(&bench), (400, 400));
}
