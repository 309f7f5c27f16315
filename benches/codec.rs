//! What one port costs us: request, scheduling, decoding, its JSON line. Four groups, all in this process and on one core.
//!
//!     cargo bench --bench codec --no-default-features

use divan::{Bencher, black_box};
use ibnet::mad::exchange::{Completion, Outcome};
use ibnet::mad::header::METHOD_GET_RESP;
use ibnet::mad::pma::{CLASS_PORT_INFO, Capabilities, Group, Query, data_mut};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine, Event};
use ibnet::sweep::record::{self, LinkSource, PortIdentity, PortRecord};
use ibnet::time::Instant;
use ibnet::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Tid};

fn main() {
    divan::main();
}

const PORTS: u8 = 150;

/// An engine with a switch of 150 ports, whose capabilities are known.
fn engine() -> Engine {
    let plan = DevicePlan { guid: Guid(0x20_0006), lid: Lid(1), kind: NodeKind::Switch, ports: (1..=PORTS).map(PortNum).collect() };
    let mut engine = Engine::new(&[plan], Config::default(), 1);
    let end = Instant::from_nanos(u64::MAX);
    engine.start_discovery(Instant::ZERO, end);
    answer_all(&mut engine);
    engine
}

fn slot(engine: &mut Engine) {
    engine.start_slot(Instant::ZERO, Instant::from_nanos(u64::MAX), Instant::from_nanos(u64::MAX));
    answer_all(engine);
}

/// Answers every request at once: with all capabilities, or with counters that are not zero.
fn answer_all(engine: &mut Engine) {
    let mut mad: Mad = [0; MAD_LEN];
    while let Some((target, tid)) = engine.poll_transmit(Instant::ZERO, &mut mad) {
        mad[3] = METHOD_GET_RESP;
        if mad[17] == CLASS_PORT_INFO.id as u8 {
            Capabilities { mask: 0x1300, mask2: 0, option_mask: None }.emit(data_mut(&mut mad));
        } else {
            mad[70..136].fill(0x12);
        }
        engine.handle_completion(&Completion { tid, outcome: Outcome::Reply { slid: target.lid, len: MAD_LEN } }, &mad, Instant::ZERO);
    }
    while engine.poll_event().is_some() {}
}

#[divan::bench]
fn encode_a_request(bencher: Bencher<'_, '_>) {
    let mut mad: Mad = [0; MAD_LEN];
    bencher.bench_local(|| black_box(Query { attribute: 0x1d, port: Some(PortNum(7)) }).emit(Tid(1), black_box(&mut mad)));
}

/// The requests, the bookkeeping and the check of the replies; a slot of 150 ports, so divide.
#[divan::bench]
fn schedule_150_ports(bencher: Bencher<'_, '_>) {
    let mut engine = engine();
    bencher.counter(divan::counter::ItemsCount::new(PORTS)).bench_local(|| slot(&mut engine));
}

fn sampled() -> (Engine, Columns, PortIdentity) {
    let mut engine = engine();
    slot(&mut engine);
    let peer = Some((Guid(0x10_0001), PortNum(1), "node00001 mlx5_0".to_owned()));
    let (guid, lid, node) = (Guid(0x20_0006), Lid(4), "rack0-leaf0".to_owned());
    let (link, link_source) = (LinkRate::new("4x", "EDR"), LinkSource::Live);
    let identity = PortIdentity { guid, port: PortNum(1), lid, node, kind: NodeKind::Switch, peer, link, link_source };
    (engine, Columns::new(&Group::DEFAULT), identity)
}

#[divan::bench]
fn decode_a_port(bencher: Bencher<'_, '_>) {
    let (engine, columns, _) = sampled();
    let mut reading = Reading::new(&columns);
    let mut slot = 0;
    bencher.bench_local(|| {
        slot += 1;
        reading.take(&columns, slot, black_box(&engine.sample(0)));
    });
}

#[divan::bench]
fn write_a_line(bencher: Bencher<'_, '_>) {
    let (engine, columns, identity) = sampled();
    let mut reading = Reading::new(&columns);
    let sample = engine.sample(0);
    reading.take(&columns, 1, &sample);
    let record =
        PortRecord { ts: 1, slot: 1, sampler: "node00001", identity: &identity, sample: &sample, reading: &reading, columns: &columns };
    let mut line = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        line.clear();
        record::write(black_box(&record), &mut line);
    });
}

/// All of it: from the request to the line.
#[divan::bench]
fn all_of_150_ports(bencher: Bencher<'_, '_>) {
    let (mut engine, columns, identity) = sampled();
    let mut readings = vec![Reading::new(&columns); usize::from(PORTS)];
    let mut lines = Vec::with_capacity(4096 * usize::from(PORTS));
    let mut number = 0;
    bencher.counter(divan::counter::ItemsCount::new(PORTS)).bench_local(|| {
        number += 1;
        lines.clear();
        slot(&mut engine);
        for (port, reading) in readings.iter_mut().enumerate() {
            let sample = engine.sample(port);
            reading.take(&columns, number, &sample);
            let record =
                PortRecord { ts: 1, slot: number, sampler: "node00001", identity: &identity, sample: &sample, reading, columns: &columns };
            record::write(&record, &mut lines);
        }
    });
    assert!(!matches!(engine.poll_event(), Some(Event::SlotDone)));
}
