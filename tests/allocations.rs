//! Nothing is allocated for a MAD once all buffers have their size: not to ask, not to match, not to decode, not to write the line.

use allocation_counter::measure;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::header::METHOD_GET_RESP;
use ibnet::mad::pma::{CLASS_PORT_INFO, Capabilities, PORT_SAMPLES_CONTROL, Sampling, data_mut};
use ibnet::mad::smp::{CLASS_SUBN_LID_ROUTED, NODE_INFO, NodeInfo};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::record::{self, LinkSource, PortIdentity, PortRecord};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine};
use ibnet::sweep::sample::Status;
use ibnet::time::Instant;
use ibnet::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Tid};

const SECOND: u64 = 1_000_000_000;

/// Leaf switches of 36 ports, with their hosts; a device's GUID is its LID.
fn plan() -> Vec<DevicePlan> {
    let device =
        |lid: u16, kind, ports: u8| DevicePlan { guid: Guid(lid.into()), lid: Lid(lid), kind, ports: (1..=ports).map(PortNum).collect() };
    let switches = (1..=3).map(|lid| device(lid, NodeKind::Switch, 36));
    switches.chain((10..55).map(|lid| device(lid, NodeKind::Hca, 1))).collect()
}

/// Makes a reply of a request; every fifth is not answered if so wished.
fn answer(mad: &mut Mad, target: &Target, slot: u64) {
    mad[3] = METHOD_GET_RESP;
    let (class, attribute) = (mad[1], u16::from_be_bytes([mad[16], mad[17]]));
    match (class, attribute) {
        (CLASS_SUBN_LID_ROUTED, NODE_INFO) => {
            NodeInfo { port_guid: Guid(target.lid.0.into()), ..NodeInfo::default() }.emit(data_mut(mad));
        }
        (CLASS_SUBN_LID_ROUTED, _) => {}
        (_, id) if id == CLASS_PORT_INFO.id => Capabilities { mask: 0x1300, mask2: 0, option_mask: None }.emit(data_mut(mad)),
        (_, id) if id == PORT_SAMPLES_CONTROL.id => Sampling { tick: 7, option_mask: u64::MAX }.emit(data_mut(mad)),
        _ => mad[70..136].fill(slot as u8),
    }
}

/// A sampler that has all of its buffers.
struct Sampler {
    engine: Engine,
    columns: Columns,
    readings: Vec<Reading>,
    identity: PortIdentity,
    lines: Vec<u8>,
    /// What is under way, and is not allocated anew.
    sent: Vec<(Target, Tid, Mad)>,
    /// One in so many MADs is not answered.
    loss: Option<usize>,
}

impl Sampler {
    fn new(loss: Option<usize>) -> Self {
        let config = Config::default();
        let columns = Columns::new(&config.groups);
        let engine = Engine::new(&plan(), config, 1);
        let identity = PortIdentity {
            guid: Guid(1),
            port: PortNum(1),
            lid: Lid(1),
            node: "leaf01".to_owned(),
            kind: NodeKind::Switch,
            hops: Some(1),
            peer: Some((Guid(2), PortNum(1), "node00001 mlx5_0".to_owned())),
            link: LinkRate::new("4x", "EDR"),
            link_source: LinkSource::Live,
        };
        let readings = (0..engine.ports()).map(|_| Reading::new(&columns)).collect();
        let mut sampler =
            Self { engine, columns, readings, identity, lines: Vec::with_capacity(1 << 20), sent: Vec::with_capacity(256), loss };
        sampler.engine.start_discovery(Instant::ZERO, Instant::from_nanos(SECOND));
        sampler.run(Instant::ZERO, 0);
        sampler
    }

    /// Answers what was sent, and lets time pass when nothing else happens.
    fn run(&mut self, mut now: Instant, slot: u64) {
        let mut count = 0;
        loop {
            let mut mad = [0; MAD_LEN];
            while let Some((target, tid)) = self.engine.poll_transmit(now, &mut mad) {
                self.sent.push((target, tid, mad));
            }
            while self.engine.poll_event().is_some() {}
            let Some(timeout) = self.engine.poll_timeout() else { return };
            if let Some((target, tid, mut mad)) = self.sent.pop() {
                count += 1;
                if self.loss.is_none_or(|loss| count % loss != 0) {
                    answer(&mut mad, &target, slot);
                    let outcome = Outcome::Reply { slid: target.lid, len: MAD_LEN };
                    self.engine.handle_completion(&Completion { tid, outcome }, &mad, now);
                }
            } else {
                now = timeout;
                self.engine.handle_timeout(now);
            }
        }
    }

    fn slot(&mut self, number: u64) {
        let start = Instant::from_nanos(number * SECOND);
        let at = |share: u64| Instant::from_nanos(number * SECOND + SECOND / 100 * share);
        self.engine.start_slot(start, at(90), at(95));
        self.run(start, number);
        self.lines.clear();
        for (port, reading) in self.readings.iter_mut().enumerate() {
            let sample = self.engine.sample(port);
            reading.take(&self.columns, number, &sample);
            let (identity, columns) = (&self.identity, &self.columns);
            let record = PortRecord { ts: number, slot: number, sampler: "here", identity, sample: &sample, reading, columns };
            record::write(&record, &mut self.lines);
        }
    }
}

#[test]
fn a_slot_allocates_nothing() {
    let mut sampler = Sampler::new(None);
    sampler.slot(1);
    assert_eq!(sampler.engine.stats().count(Status::Ok) as usize, sampler.engine.ports());
    let counted = measure(|| (2..50).for_each(|number| sampler.slot(number)));
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert!(sampler.lines.len() > 100_000, "lines were written");
}

#[test]
fn a_slot_with_losses_allocates_nothing() {
    let mut sampler = Sampler::new(Some(7));
    // What was never asked at once before finds its room in the first of them.
    (1..5).for_each(|number| sampler.slot(number));
    let counted = measure(|| (5..50).for_each(|number| sampler.slot(number)));
    assert!(sampler.engine.stats().count(Status::Timeout) > 0, "something was lost");
    assert_eq!(counted.count_total, 0, "{counted:?}");
}
