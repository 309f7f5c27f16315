//! Runs a sampler for four hours of virtual time, with losses and dead devices. Its memory use at
//! the end is the same as after 20 minutes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allocation_counter::measure;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::Config;
use ibnet::sweep::port_record::{PortIdentity, PortRecord};
use ibnet::sweep::virtual_sweep::{self, VirtualSweep};
use ibnet::topology::DeviceId;
use ibnet::topology::ports_report;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::types::{LinkRate, NodeKind, PortNum};
use ibnet_record::{LinkSource, Status};

const SECOND: Duration = Duration::from_secs(1);
/// Slots between two dead devices.
const PERIOD: u64 = 1200;

/// 4 linked ports: a host on a leaf under a spine. Small, because the run has 14,400 slots.
const TREE: FatTree = FatTree {
    leaves: 1,
    hosts: 1,
    spines: 1,
    trunk: 1,
    radix: 4,
};

struct Day {
    fabric: Arc<Mutex<SimFabric>>,
    sweep: VirtualSweep,
    columns: Columns,
    readings: Vec<Reading>,
    identity: PortIdentity,
    records: Vec<u8>,
    /// Slots that have run.
    slots: u64,
    /// Octets of their records.
    octets: u64,
    timeouts: u64,
}

impl Day {
    fn new() -> Self {
        let net = ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "net.p")
            .expect("our own");
        let plan = virtual_sweep::all_linked_ports(&net.fabric);
        let fabric = Arc::new(Mutex::new(SimFabric::new(
            net.fabric,
            Options {
                loss: 0.01,
                ..Options::default()
            },
        )));
        let config = Config::default();
        let columns = Columns::new(&config.groups);
        let mut sweep = VirtualSweep::new(Arc::clone(&fabric), &plan, config, 1);
        sweep.discover();
        let readings = (0..sweep.engine.ports())
            .map(|_| Reading::new(&columns))
            .collect();
        let identity = PortIdentity {
            guid: plan[0].guid,
            port: PortNum(1),
            lid: plan[0].lid,
            node: "leaf01".to_owned(),
            kind: NodeKind::Switch,
            hops: Some(1),
            peer: None,
            link: LinkRate::new("4x", "EDR"),
            link_source: LinkSource::Live,
            mtu: Some(4096),
            vls: Some(4),
            limits: None,
        };
        let records = Vec::with_capacity(1 << 18);
        Self {
            fabric,
            sweep,
            columns,
            readings,
            identity,
            records,
            slots: 0,
            octets: 0,
            timeouts: 0,
        }
    }

    /// Runs a slot. In the middle of each period one device is dead for a minute, another one each
    /// time.
    fn slot(&mut self) {
        let second = self.slots % PERIOD;
        if second == 600 || second == 660 {
            let device = DeviceId((self.slots / PERIOD % 3) as u32);
            self.fabric
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .set_dead(device, second == 600);
        }
        self.sweep.slot(SECOND);
        self.records.clear();
        for (port, reading) in self.readings.iter_mut().enumerate() {
            let sample = self.sweep.engine.sample(port);
            reading.take(&self.columns, self.slots, &sample);
            self.timeouts += u64::from(sample.status == Status::Timeout);
            let (slot, identity, columns) = (self.slots, &self.identity, &self.columns);
            ibnet_record::write(
                &PortRecord {
                    ts: slot,
                    slot,
                    sampler: "here",
                    is_secondary: false,
                    identity,
                    sample: &sample,
                    reading,
                    columns,
                },
                &mut self.records,
            );
        }
        self.octets += self.records.len() as u64;
        self.slots += 1;
    }

    fn periods(&mut self, periods: u64) {
        (0..periods * PERIOD).for_each(|_| self.slot());
    }
}

#[test]
fn memory_use_of_four_hours_equals_that_of_twenty_minutes() {
    let mut day = Day::new();
    // After three periods each device was dead once.
    day.periods(3);
    let largest_in_a_period = measure(|| day.periods(1)).bytes_max;
    let rest = measure(|| day.periods(8));
    println!(
        "{} slots, {} MB of records; largest additional memory: {} octets in one period, {} in 8",
        day.slots,
        day.octets >> 20,
        largest_in_a_period,
        rest.bytes_max
    );
    assert_eq!(day.slots, 12 * PERIOD);
    assert!(
        day.octets > 33 << 20 && day.timeouts > 11 * 60,
        "{} octets, {} timeouts",
        day.octets,
        day.timeouts
    );
    // Less than an octet for each of the 9,600 slots.
    assert!(rest.bytes_current.unsigned_abs() < 9600, "{rest:?}");
    assert!(
        rest.bytes_max < largest_in_a_period + 9600,
        "{rest:?} after {largest_in_a_period}"
    );
}
