//! Cost of one port: request, scheduling, decoding, JSON line; and libibmad's cost of the same
//! decoding. In one process on one core.
//!
//!     cargo bench --bench codec                          (--no-default-features: without libibmad)
//!
//! If valgrind is installed, the benchmark first counts the instructions with callgrind. Unlike
//! times they do not depend on the load of the machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::process::Command;

use divan::{Bencher, black_box};
use ibnet::mad::exchange::{Completion, Outcome};
use ibnet::mad::header::METHOD_GET_RESP;
use ibnet::mad::pma::{Bits, CLASS_PORT_INFO, Capabilities, Data, Sampling, data_mut};
use ibnet::mad::smp::{CLASS_SUBN_LID_ROUTED, NODE_INFO, NodeInfo, PORT_INFO, PortInfo};
use ibnet::mad::{MAD_LEN, Mad, pma};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine};
use ibnet::sweep::port_record::{PortIdentity, PortRecord};
use ibnet::time::Instant;
use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::attributes::{Field, Group};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Tid};
use ibnet_record::{LinkSource, Status};

/// Option `--slots N`: sweeps N slots without measuring, for callgrind.
const SLOTS: &str = "--slots";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == SLOTS) {
        let mut sweep = CompleteSweep::new();
        (0..args[at + 1].parse().expect("a number")).for_each(|_| sweep.slot());
        return;
    }
    if args.iter().any(|arg| arg == "--bench") {
        print_instructions();
    }
    divan::main();
}

/// Prints the instructions per MAD, from the difference between 120 and 20 slots.
fn print_instructions() {
    let count = |slots: u64| -> Option<u64> {
        let this = std::env::current_exe().ok()?;
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(this)
            .args([SLOTS, &slots.to_string()]);
        let output = valgrind.output().ok()?.stderr;
        let output = String::from_utf8_lossy(&output);
        output
            .lines()
            .find_map(|line| line.split_once("Collected : "))?
            .1
            .trim()
            .parse()
            .ok()
    };
    let mads = 100 * u64::from(PORTS) * Group::DEFAULT.len() as u64;
    match (count(20), count(120)) {
        (Some(some), Some(more)) => println!(
            "callgrind: {} instructions per MAD, from the request to the line, including the generation of replies\n",
            (more - some) / mads
        ),
        _ => println!("callgrind: SKIPPED, valgrind is not installed\n"),
    }
}

const PORTS: u8 = 150;
const SWITCH: Guid = Guid(0x20_0006);
/// 64-bit traffic counters, and error counters only in PortCounters, so that both groups are
/// decoded.
const CAPABILITIES: Capabilities = Capabilities {
    mask: 0x1300,
    mask2: 0,
    option_mask: None,
};
const SECOND: u64 = 1_000_000_000;

/// Returns an engine with a switch of 150 ports after discovery and one slot, at the first second.
fn engine(groups: &[Group]) -> Engine {
    let plan = DevicePlan {
        guid: SWITCH,
        lid: Lid(1),
        kind: NodeKind::Switch,
        ports: (1..=PORTS).map(PortNum).collect(),
    };
    let mut engine = Engine::new(
        &[plan],
        Config {
            groups: groups.into(),
            ..Config::default()
        },
        1,
    );
    engine.start_discovery(Instant::ZERO, Instant::from_nanos(SECOND));
    answer_all(&mut engine, Instant::ZERO);
    slot(&mut engine, 1);
    let sample = engine.sample(0);
    assert_eq!(
        (sample.status, sample.verified, sample.mads),
        (Status::Ok, true, groups.len() as u32),
        "the port is not swept completely"
    );
    engine
}

/// Sweeps all ports at one instant.
fn slot(engine: &mut Engine, second: u64) {
    let now = Instant::from_nanos(second * SECOND);
    engine.start_slot(
        now,
        Instant::from_nanos(u64::MAX),
        Instant::from_nanos(u64::MAX),
    );
    answer_all(engine, now);
}

/// Answers every request at once: identity, capabilities, and large counters that grow from second
/// to second.
fn answer_all(engine: &mut Engine, now: Instant) {
    let counters = 0x12 + (now.as_nanos() / SECOND % 2) as u8;
    let mut mad: Mad = [0; MAD_LEN];
    while let Some((target, tid)) = engine.poll_transmit(now, &mut mad) {
        mad[3] = METHOD_GET_RESP;
        let (class, attribute) = (mad[1], u16::from_be_bytes([mad[16], mad[17]]));
        let data = data_mut(&mut mad);
        if (class, attribute) == (CLASS_SUBN_LID_ROUTED, NODE_INFO) {
            let kind = Some(NodeKind::Switch);
            NodeInfo {
                kind,
                port_guid: SWITCH,
                vendor_id: 0x2c9,
                device_id: 0xd2f0,
                ..NodeInfo::default()
            }
            .emit(data);
        } else if (class, attribute) == (CLASS_SUBN_LID_ROUTED, PORT_INFO) {
            PortInfo::of_rate(&LinkRate::new("4x", "HDR"), PortInfo::ACTIVE).emit(data);
        } else if attribute == CLASS_PORT_INFO.id {
            CAPABILITIES.emit(data);
        } else {
            // The octets after both select fields. Only the low halves differ, so that the rate is
            // plausible.
            data[4..].fill(0x12);
            data[12..16].fill(counters);
            data[20..24].fill(counters);
            if attribute == PORT_SAMPLES_CONTROL.id {
                Sampling {
                    tick: 7,
                    option_mask: u64::MAX,
                }
                .emit(data);
            }
        }
        engine.handle_completion(
            &Completion {
                tid,
                outcome: Outcome::Reply {
                    slid: target.lid,
                    len: MAD_LEN,
                },
            },
            &mad,
            now,
        );
    }
    while engine.poll_event().is_some() {}
}

#[divan::bench]
fn encode_a_request(bencher: Bencher<'_, '_>) {
    let mut mad: Mad = [0; MAD_LEN];
    bencher.bench_local(|| {
        black_box(pma::Query {
            attribute: 0x1d,
            port: Some(PortNum(7)),
        })
        .emit(Tid(1), black_box(&mut mad));
    });
}

/// Requests, scheduling and checks of replies for a slot of 150 ports. Divide by the number of
/// MADs.
#[divan::bench]
fn schedule_150_ports(bencher: Bencher<'_, '_>) {
    let mut engine = engine(&Group::DEFAULT);
    bencher
        .counter(divan::counter::ItemsCount::new(PORTS))
        .bench_local(|| slot(&mut engine, 1));
}

/// A port with a reading of one slot and replies of the next, so that rates can be computed.
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
    // Counters are smaller in even seconds.
    slot(&mut engine, 2);
    first.take(&columns, 2, &engine.sample(0));
    slot(&mut engine, 3);
    Prepared {
        engine,
        columns,
        first,
        identity: identity(),
    }
}

fn identity() -> PortIdentity {
    let peer = Some((Guid(0x10_0001), PortNum(1), "node00001 mlx5_0".to_owned()));
    let (lid, node) = (Lid(4), "rack0-leaf0".to_owned());
    let (link, link_source) = (LinkRate::new("4x", "HDR"), LinkSource::Live);
    let (mtu, vls) = (Some(4096), Some(4));
    PortIdentity {
        guid: SWITCH,
        port: PortNum(1),
        lid,
        node,
        kind: NodeKind::Switch,
        hops: Some(1),
        peer,
        link,
        link_source,
        mtu,
        vls,
        limits: None,
    }
}

/// All replies of a port, compared with the slot before.
fn decode(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let Prepared {
        engine,
        columns,
        first,
        ..
    } = prepared(groups);
    bencher
        .with_inputs(|| first.clone())
        .bench_local_refs(|reading| reading.take(&columns, 3, black_box(&engine.sample(0))));
}

fn line(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let Prepared {
        engine,
        columns,
        mut first,
        identity,
    } = prepared(groups);
    let sample = engine.sample(0);
    first.take(&columns, 3, &sample);
    assert!(
        first.resets.is_empty() && first.rates.xmit_gbps.is_some_and(|gbps| gbps > 0.0),
        "the record has no rates"
    );
    let record = PortRecord {
        ts: SECOND,
        slot: 3,
        sampler: "node00001",
        is_secondary: false,
        identity: &identity,
        sample: &sample,
        reading: &first,
        columns: &columns,
    };
    let mut line = Vec::with_capacity(1 << 14);
    ibnet_record::write(&record, &mut line);
    let octets = divan::counter::BytesCount::new(line.len());
    bencher.counter(octets).bench_local(|| {
        line.clear();
        ibnet_record::write(black_box(&record), &mut line);
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

/// Returns the counters of a group that the records of this switch have.
fn shown(group: Group) -> impl Iterator<Item = &'static Field> {
    let wider = move |field| {
        group
            .wider(field)
            .is_some_and(|(_, wide)| CAPABILITIES.have(wide.needs))
    };
    group
        .attribute()
        .counters()
        .filter(move |field| CAPABILITIES.have(field.needs) && !wider(field))
}

/// Reads all values of a record and does nothing else, for comparison with libibmad.
fn values(bencher: Bencher<'_, '_>, groups: &[Group]) {
    let engine = engine(groups);
    let sample = engine.sample(0);
    let answer = |place| *sample.answer(place).expect("every group has an answer").1;
    let replies: Vec<(Data, Vec<&Field>)> = groups
        .iter()
        .enumerate()
        .map(|(place, group)| (answer(place), shown(*group).collect()))
        .collect();
    let mut ours: Vec<u64> = Vec::with_capacity(1024);
    bencher.bench_local(|| {
        ours.clear();
        for (data, fields) in black_box(&replies) {
            ours.extend(
                fields
                    .iter()
                    .flat_map(|field| (0..field.len).map(|index| field.raw(data, index))),
            );
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

/// libibmad on the same octets: one call for each value of the record. The numbers of the fields
/// are looked up before.
#[cfg(feature = "umad")]
mod libibmad {
    use ibnet::mad::libibmad::{FieldReader, Reply, field_readers};

    use super::*;

    fn values(bencher: Bencher<'_, '_>, groups: &[Group]) {
        let Prepared {
            engine,
            columns,
            mut first,
            ..
        } = prepared(groups);
        let sample = engine.sample(0);
        first.take(&columns, 3, &sample);
        let ours: Vec<u64> = first
            .counters(&columns)
            .flat_map(|(_, raws)| raws)
            .copied()
            .collect();
        let reply = |(place, group): (usize, &Group)| -> (Reply, Vec<FieldReader>) {
            let all = field_readers(group.attribute()).into_iter();
            let readers = all
                .filter(|reader| shown(*group).any(|field| field.name == reader.field.name))
                .collect();
            let mut mad = [0; MAD_LEN];
            *data_mut(&mut mad) = *sample.answer(place).expect("every group has an answer").1;
            (Reply::new(&mad), readers)
        };
        let replies: Vec<_> = groups.iter().enumerate().map(reply).collect();
        let mut theirs = Vec::with_capacity(1024);
        let mut read = || {
            theirs.clear();
            for (reply, readers) in black_box(&replies) {
                theirs.extend(readers.iter().map(|reader| reader.read(reply)));
            }
            theirs.len()
        };
        bencher.bench_local(&mut read);
        assert_eq!(theirs, ours, "libibmad reads other values");
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

/// A sweep from the request to the line.
struct CompleteSweep {
    engine: Engine,
    columns: Columns,
    readings: Vec<Reading>,
    identity: PortIdentity,
    lines: Vec<u8>,
    second: u64,
}

impl CompleteSweep {
    fn new() -> Self {
        let Prepared {
            engine,
            columns,
            first,
            identity,
        } = prepared(&Group::DEFAULT);
        let (readings, lines) = (
            vec![first; usize::from(PORTS)],
            Vec::with_capacity(4096 * usize::from(PORTS)),
        );
        Self {
            engine,
            columns,
            readings,
            identity,
            lines,
            second: 2,
        }
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
                is_secondary: false,
                identity: &self.identity,
                sample: &sample,
                reading,
                columns: &self.columns,
            };
            ibnet_record::write(&record, &mut self.lines);
        }
    }
}

#[divan::bench]
fn all_of_150_ports(bencher: Bencher<'_, '_>) {
    let mut sweep = CompleteSweep::new();
    bencher
        .counter(divan::counter::ItemsCount::new(PORTS))
        .bench_local(|| sweep.slot());
}
