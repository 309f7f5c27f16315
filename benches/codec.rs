//! What one port costs us: request, scheduling, decoding, its JSON line; and what libibmad takes to decode the same. All in this process and on one
//! core.
//!
//!     cargo bench --bench codec                          (--no-default-features: without libibmad)
//!
//! Before that, if valgrind is installed, its callgrind counts the instructions of all of it: those do not depend on the machine's mood.

#![expect(clippy::print_stdout, reason = "that is what a benchmark is for")]

use std::process::Command;

use divan::{Bencher, black_box};
use ibnet::mad::exchange::{Completion, Outcome};
use ibnet::mad::header::METHOD_GET_RESP;
use ibnet::mad::pma::{CLASS_PORT_INFO, Capabilities, Data, Field, Group, PORT_SAMPLES_CONTROL, Query, Sampling, data_mut};
use ibnet::mad::smp::{CLASS_SUBN_LID_ROUTED, NODE_INFO, NodeInfo, PORT_INFO, PortInfo};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine};
use ibnet::sweep::record::{self, LinkSource, PortIdentity, PortRecord};
use ibnet::sweep::sample::Status;
use ibnet::time::Instant;
use ibnet::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Tid};

/// With it, and a number, so many slots are swept and nothing is measured.
const SLOTS: &str = "--slots";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == SLOTS) {
        let mut whole = Whole::new();
        (0..args[at + 1].parse().expect("a number")).for_each(|_| whole.slot());
        return;
    }
    if args.iter().any(|arg| arg == "--bench") {
        tell_instructions();
    }
    divan::main();
}

/// What a MAD costs in instructions: of 100 slots more.
fn tell_instructions() {
    let count = |slots: u64| -> Option<u64> {
        let this = std::env::current_exe().ok()?;
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(this).args([SLOTS, &slots.to_string()]);
        let said = valgrind.output().ok()?.stderr;
        let said = String::from_utf8_lossy(&said);
        said.lines().find_map(|line| line.split_once("Collected : "))?.1.trim().parse().ok()
    };
    let mads = 100 * u64::from(PORTS) * Group::DEFAULT.len() as u64;
    match (count(20), count(120)) {
        (Some(some), Some(more)) => println!(
            "callgrind: {} instructions a MAD, from the request to the line, making up the replies included\n",
            (more - some) / mads
        ),
        _ => println!("callgrind: not counted, as valgrind is not installed\n"),
    }
}

const PORTS: u8 = 150;
const SWITCH: Guid = Guid(0x20_0006);
/// 64-bit traffic, error counters of PortCounters: both are decoded.
const CAPABILITIES: Capabilities = Capabilities { mask: 0x1300, mask2: 0, option_mask: None };
const SECOND: u64 = 1_000_000_000;

/// An engine with a switch of 150 ports that knows all of it and has swept it once, at the first second.
fn engine(groups: &[Group]) -> Engine {
    let plan = DevicePlan { guid: SWITCH, lid: Lid(1), kind: NodeKind::Switch, ports: (1..=PORTS).map(PortNum).collect() };
    let mut engine = Engine::new(&[plan], Config { groups: groups.into(), ..Config::default() }, 1);
    engine.start_discovery(Instant::ZERO, Instant::from_nanos(SECOND));
    answer_all(&mut engine, Instant::ZERO);
    slot(&mut engine, 1);
    let sample = engine.sample(0);
    assert_eq!((sample.status, sample.verified, sample.mads), (Status::Ok, true, groups.len() as u32), "it is swept as a real one is");
    engine
}

/// Sweeps all ports at once, at that second.
fn slot(engine: &mut Engine, second: u64) {
    let now = Instant::from_nanos(second * SECOND);
    engine.start_slot(now, Instant::from_nanos(u64::MAX), Instant::from_nanos(u64::MAX));
    answer_all(engine, now);
}

/// Answers every request at once: who it is, what it can do, and counters that are large and grow from second to second.
fn answer_all(engine: &mut Engine, now: Instant) {
    let counters = 0x12 + (now.as_nanos() / SECOND % 2) as u8;
    let mut mad: Mad = [0; MAD_LEN];
    while let Some((target, tid)) = engine.poll_transmit(now, &mut mad) {
        mad[3] = METHOD_GET_RESP;
        let (class, attribute) = (mad[1], u16::from_be_bytes([mad[16], mad[17]]));
        let data = data_mut(&mut mad);
        if (class, attribute) == (CLASS_SUBN_LID_ROUTED, NODE_INFO) {
            let kind = Some(NodeKind::Switch);
            NodeInfo { kind, port_guid: SWITCH, vendor_id: 0x2c9, device_id: 0xd2f0, ..NodeInfo::default() }.emit(data);
        } else if (class, attribute) == (CLASS_SUBN_LID_ROUTED, PORT_INFO) {
            PortInfo::of_rate(&LinkRate::new("4x", "HDR"), PortInfo::ACTIVE).emit(data);
        } else if attribute == CLASS_PORT_INFO.id {
            CAPABILITIES.emit(data);
        } else {
            // Behind both selects; only the low halves differ, so that it is no more than a link carries.
            data[4..].fill(0x12);
            data[12..16].fill(counters);
            data[20..24].fill(counters);
            if attribute == PORT_SAMPLES_CONTROL.id {
                Sampling { tick: 7, option_mask: u64::MAX }.emit(data);
            }
        }
        engine.handle_completion(&Completion { tid, outcome: Outcome::Reply { slid: target.lid, len: MAD_LEN } }, &mad, now);
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
    let mut engine = engine(&Group::DEFAULT);
    bencher.counter(divan::counter::ItemsCount::new(PORTS)).bench_local(|| slot(&mut engine, 1));
}

/// A port that was read in a first slot and is read in a second, so that rates follow.
struct Prepared {
    engine: Engine,
    columns: Columns,
    first: Reading,
    identity: PortIdentity,
}

fn prepared(groups: &[Group]) -> Prepared {
    let mut engine = engine(groups);
    let columns = Columns::new(groups);
    let mut first = Reading::new(&columns);
    // The second is even, and its counters smaller.
    slot(&mut engine, 2);
    first.take(&columns, 2, &engine.sample(0));
    slot(&mut engine, 3);
    Prepared { engine, columns, first, identity: identity() }
}

fn identity() -> PortIdentity {
    let peer = Some((Guid(0x10_0001), PortNum(1), "node00001 mlx5_0".to_owned()));
    let (lid, node) = (Lid(4), "rack0-leaf0".to_owned());
    let (link, link_source) = (LinkRate::new("4x", "HDR"), LinkSource::Live);
    PortIdentity { guid: SWITCH, port: PortNum(1), lid, node, kind: NodeKind::Switch, hops: Some(1), peer, link, link_source }
}

/// All replies of a port, compared with the slot before.
fn decode(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let Prepared { engine, columns, first, .. } = prepared(groups);
    bencher.with_inputs(|| first.clone()).bench_local_refs(|reading| reading.take(&columns, 3, black_box(&engine.sample(0))));
}

fn line(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let Prepared { engine, columns, mut first, identity } = prepared(groups);
    let sample = engine.sample(0);
    first.take(&columns, 3, &sample);
    assert!(first.resets.is_empty() && first.rates.xmit_gbps.is_some_and(|gbps| gbps > 0.0), "it has rates");
    let record =
        PortRecord { ts: SECOND, slot: 3, sampler: "node00001", identity: &identity, sample: &sample, reading: &first, columns: &columns };
    let mut line = Vec::with_capacity(1 << 14);
    record::write(&record, &mut line);
    let octets = divan::counter::BytesCount::new(line.len());
    bencher.counter(octets).bench_local(|| {
        line.clear();
        record::write(black_box(&record), &mut line);
    });
}

#[divan::bench]
fn decode_4_groups(bencher: Bencher<'_, '_>) {
    decode(bencher, &Group::DEFAULT);
}

#[divan::bench]
fn decode_20_groups(bencher: Bencher<'_, '_>) {
    decode(bencher, &Group::ALL);
}

#[divan::bench]
fn line_of_4_groups(bencher: Bencher<'_, '_>) {
    line(bencher, &Group::DEFAULT);
}

#[divan::bench]
fn line_of_20_groups(bencher: Bencher<'_, '_>) {
    line(bencher, &Group::ALL);
}

/// The counters of a group that the records of this switch show.
fn shown(group: Group) -> impl Iterator<Item = &'static Field> {
    let wider = move |field| group.wider(field).is_some_and(|(_, wide)| CAPABILITIES.have(wide.needs));
    group.attribute().counters().filter(move |field| CAPABILITIES.have(field.needs) && !wider(field))
}

/// The bits of all values that a record shows and nothing else: what libibmad does, too.
fn values(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let engine = engine(groups);
    let sample = engine.sample(0);
    let answer = |place| *sample.answer(place).expect("all are answered").1;
    let replies: Vec<(Data, Vec<&Field>)> =
        groups.iter().enumerate().map(|(place, group)| (answer(place), shown(*group).collect())).collect();
    let mut ours: Vec<u64> = Vec::with_capacity(1024);
    bencher.bench_local(|| {
        ours.clear();
        for (data, fields) in black_box(&replies) {
            ours.extend(fields.iter().flat_map(|field| (0..field.len).map(|index| field.raw(data, index))));
        }
    });
}

#[divan::bench]
fn values_of_4_groups(bencher: Bencher<'_, '_>) {
    values(bencher, &Group::DEFAULT);
}

#[divan::bench]
fn values_of_20_groups(bencher: Bencher<'_, '_>) {
    values(bencher, &Group::ALL);
}

/// libibmad on the same octets: a call for each value that the record shows, with the fields' numbers at hand.
#[cfg(feature = "umad")]
mod libibmad {
    use ibnet::mad::transport::umad::libibmad::{Octets, Twin, twins};

    use super::*;

    fn values(bencher: Bencher<'_, '_>, groups: &[Group]) {
        let Prepared { engine, columns, mut first, .. } = prepared(groups);
        let sample = engine.sample(0);
        first.take(&columns, 3, &sample);
        let ours: Vec<u64> = first.counters(&columns).flat_map(|(_, raws)| raws).copied().collect();
        let reply = |(place, group): (usize, &Group)| -> (Octets, Vec<Twin>) {
            let all = twins(include_str!("../tests/data/pma-fields.tsv"), group.attribute());
            let twins = all.into_iter().filter(|twin| shown(*group).any(|field| field.name == twin.field.name)).collect();
            (Octets::new(sample.answer(place).expect("all are answered").1), twins)
        };
        let replies: Vec<_> = groups.iter().enumerate().map(reply).collect();
        let mut theirs = Vec::with_capacity(1024);
        let mut read = || {
            theirs.clear();
            for (octets, twins) in black_box(&replies) {
                theirs.extend(twins.iter().map(|twin| twin.read(octets)));
            }
            theirs.len()
        };
        bencher.bench_local(&mut read);
        assert_eq!(theirs, ours, "both read the same");
    }

    #[divan::bench]
    fn values_of_4_groups(bencher: Bencher<'_, '_>) {
        values(bencher, &Group::DEFAULT);
    }

    #[divan::bench]
    fn values_of_20_groups(bencher: Bencher<'_, '_>) {
        values(bencher, &Group::ALL);
    }
}

/// All of it: from the request to the line.
struct Whole {
    engine: Engine,
    columns: Columns,
    readings: Vec<Reading>,
    identity: PortIdentity,
    lines: Vec<u8>,
    second: u64,
}

impl Whole {
    fn new() -> Self {
        let Prepared { engine, columns, first, identity } = prepared(&Group::DEFAULT);
        let (readings, lines) = (vec![first; usize::from(PORTS)], Vec::with_capacity(4096 * usize::from(PORTS)));
        Self { engine, columns, readings, identity, lines, second: 2 }
    }

    fn slot(&mut self) {
        self.second += 1;
        self.lines.clear();
        slot(&mut self.engine, self.second);
        for (port, reading) in self.readings.iter_mut().enumerate() {
            let sample = self.engine.sample(port);
            reading.take(&self.columns, self.second, &sample);
            let record = PortRecord {
                ts: SECOND,
                slot: self.second,
                sampler: "node00001",
                identity: &self.identity,
                sample: &sample,
                reading,
                columns: &self.columns,
            };
            record::write(&record, &mut self.lines);
        }
    }
}

#[divan::bench]
fn all_of_150_ports(bencher: Bencher<'_, '_>) {
    let mut whole = Whole::new();
    bencher.counter(divan::counter::ItemsCount::new(PORTS)).bench_local(|| whole.slot());
}
