//! After all buffers have their final size, the MAD path allocates no memory. The MAD path is the
//! sending, matching and decoding of MADs, and the writing of records.

use std::time::Duration;

use allocation_counter::measure;
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::header::METHOD_GET_RESP;
use ibnet::mad::pma::{CLASS_PORT_INFO, Capabilities, Sampling, data_mut};
use ibnet::mad::smp::{
    CLASS_SUBN_LID_ROUTED, IS_CAPABILITY_MASK2_SUPPORTED, IS_SWITCH_PORT_STATE_TABLE_SUPPORTED,
    NODE_INFO, NodeInfo, PORT_INFO, PortInfo, SWITCH_PORT_STATE_TABLE,
};
use ibnet::mad::transport::{Locator, Transport, TransportError};
use ibnet::mad::vendor::general_info::GENERAL_INFO;
use ibnet::mad::vendor::{CLASS_VENDOR, GeneralInfo};
use ibnet::mad::{MAD_LEN, Mad, header::Header};
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::driver::Clock;
use ibnet::sweep::engine::{Config, DevicePlan, PhysicalConfig};
use ibnet::sweep::port_record::{PortIdentity, PortRecord};
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualSweep};
use ibnet::time::Instant;
use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};
use ibnet_record::{LinkSource, Status};

const SECOND: Duration = Duration::from_secs(1);

/// Returns leaf switches of 36 ports, and hosts. The GUID of a device is its LID.
fn plan() -> Vec<DevicePlan> {
    let device = |lid: u16, kind, ports: u8| DevicePlan {
        guid: Guid(lid.into()),
        lid: Lid(lid),
        kind,
        ports: (1..=ports).map(PortNum).collect(),
    };
    let switches = (1..=3).map(|lid| device(lid, NodeKind::Switch, 36));
    switches
        .chain((10..55).map(|lid| device(lid, NodeKind::Hca, 1)))
        .collect()
}

/// Replaces a request by its reply. Counters grow with time.
fn answer(mad: &mut Mad, lid: Lid, now: Instant) {
    mad[3] = METHOD_GET_RESP;
    let (class, attribute) = (mad[1], u16::from_be_bytes([mad[16], mad[17]]));
    match (class, attribute) {
        (CLASS_SUBN_LID_ROUTED, NODE_INFO) => {
            NodeInfo {
                port_guid: Guid(lid.0.into()),
                vendor_id: 0x2c9,
                ..NodeInfo::default()
            }
            .emit(data_mut(mad));
        }
        (CLASS_SUBN_LID_ROUTED, PORT_INFO) => {
            PortInfo {
                state: state_at(now),
                capability_mask: IS_CAPABILITY_MASK2_SUPPORTED,
                capability_mask2: IS_SWITCH_PORT_STATE_TABLE_SUPPORTED,
                ..PortInfo::default()
            }
            .emit(data_mut(mad));
        }
        (CLASS_SUBN_LID_ROUTED, SWITCH_PORT_STATE_TABLE) => {
            data_mut(mad).fill(state_at(now) << 4 | state_at(now));
        }
        (CLASS_SUBN_LID_ROUTED, _) => {}
        (CLASS_VENDOR, GENERAL_INFO) => GeneralInfo::default().with_registers().emit(mad),
        // The reply to a request for a register repeats the request.
        (CLASS_VENDOR, _) => {}
        (_, id) if id == CLASS_PORT_INFO.id => Capabilities {
            mask: 0x1300,
            mask2: 0,
            option_mask: None,
        }
        .emit(data_mut(mad)),
        (_, id) if id == PORT_SAMPLES_CONTROL.id => Sampling {
            tick: 7,
            option_mask: u64::MAX,
        }
        .emit(data_mut(mad)),
        _ => mad[70..136].fill(now.as_secs_f64() as u8),
    }
}

/// Returns the state of all links: they are down for ten seconds.
fn state_at(now: Instant) -> u8 {
    if (20..30).contains(&(now.as_nanos() / 1_000_000_000)) {
        PortInfo::DOWN
    } else {
        PortInfo::ACTIVE
    }
}

/// A transport that answers at once, and allocates nothing after its first window of MADs.
struct Answering {
    clock: VirtualClock,
    sent: Vec<(Lid, Mad)>,
    /// One in this number of MADs is not answered.
    loss: Option<usize>,
    received: usize,
}

impl Transport for Answering {
    fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
        self.sent.push((target.lid, *mad));
        Ok(())
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        while let Some((slid, request)) = self.sent.pop() {
            self.received += 1;
            if self
                .loss
                .is_none_or(|loss| !self.received.is_multiple_of(loss))
            {
                *mad = request;
                answer(mad, slid, now);
                let outcome = Outcome::Reply { slid, len: MAD_LEN };
                return Ok(Some(Completion {
                    tid: Header::parse(mad).tid,
                    outcome,
                }));
            }
        }
        self.clock.sleep(wait);
        Ok(None)
    }

    fn locator(&self) -> Locator {
        Box::new(|| None)
    }
}

/// A sampler with all of its buffers.
struct Sampler {
    sweep: VirtualSweep<Answering>,
    columns: Columns,
    readings: Vec<Reading>,
    identity: PortIdentity,
    records: Vec<u8>,
}

impl Sampler {
    fn new(loss: Option<usize>, cadence: Cadence) -> Self {
        let config = Config {
            cadence,
            state_tables: true,
            forwarding: true,
            physical: Some(PhysicalConfig::default()),
            ..Config::default()
        };
        let columns = Columns::new(&config.groups);
        let clock = VirtualClock::default();
        let transport = Answering {
            clock: clock.clone(),
            sent: Vec::with_capacity(256),
            loss,
            received: 0,
        };
        let mut sweep = VirtualSweep::with_transport(transport, clock, &plan(), config, 1);
        sweep.discover();
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
            mtu: Some(4096),
            vls: Some(4),
            limits: None,
        };
        let readings = (0..sweep.engine.ports())
            .map(|_| Reading::new(&columns))
            .collect();
        Self {
            sweep,
            columns,
            readings,
            identity,
            records: Vec::with_capacity(1 << 20),
        }
    }

    /// Runs a slot and writes the record of each port.
    fn slot(&mut self, number: u64) {
        let start = Instant::ZERO + SECOND * number as u32;
        self.sweep.wait_until(start);
        self.sweep.run_slot(start, SECOND, |_| {});
        self.records.clear();
        for (port, reading) in self.readings.iter_mut().enumerate() {
            let sample = self.sweep.engine.sample(port);
            reading.take(&self.columns, number, &sample);
            let (identity, columns) = (&self.identity, &self.columns);
            let record = PortRecord {
                ts: number,
                slot: number,
                sampler: "here",
                is_secondary: false,
                identity,
                sample: &sample,
                reading,
                columns,
            };
            ibnet_record::write(&record, &mut self.records);
        }
    }

    fn count(&self, status: Status) -> usize {
        self.sweep.engine.stats().count(status) as usize
    }
}

#[test]
fn slot_allocates_nothing() {
    let mut sampler = Sampler::new(None, Cadence::EVERY_SLOT);
    // The size of the forwarding tables is known only after the first requests for them.
    (1..5).for_each(|number| sampler.slot(number));
    assert_eq!(sampler.count(Status::Ok), sampler.readings.len());
    let counted = measure(|| (5..50).for_each(|number| sampler.slot(number)));
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert!(sampler.records.len() > 100_000, "records were written");
    assert!(
        sampler.sweep.engine.take_physical().is_some(),
        "registers were read"
    );
    assert!(sampler.sweep.engine.take_forwarding().is_some());
}

#[test]
fn slot_with_losses_allocates_nothing() {
    let mut sampler = Sampler::new(Some(7), Cadence::EVERY_SLOT);
    // Buffers for lost MADs reach their size in the first slots.
    (1..5).for_each(|number| sampler.slot(number));
    let counted = measure(|| (5..50).for_each(|number| sampler.slot(number)));
    assert!(sampler.count(Status::Timeout) > 0, "MADs were lost");
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

#[test]
fn slot_with_cadences_allocates_nothing() {
    for loss in [None, Some(7)] {
        let mut sampler = Sampler::new(loss, Cadence::new(vec![1, 3, 10, 10], 3, 5));
        (1..12).for_each(|number| sampler.slot(number));
        let counted = measure(|| (12..50).for_each(|number| sampler.slot(number)));
        assert_eq!(counted.count_total, 0, "{counted:?}");
        let mads = sampler.sweep.engine.stats().mads_sent as usize;
        assert!(
            mads < 3 * sampler.readings.len(),
            "{mads} MADs: not all groups in every slot"
        );
    }
}
