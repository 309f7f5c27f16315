//! The physical layer in the records of a sweep, in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::output::Destination;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::engine::{Config, PhysicalConfig};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::topology::{ports_report, synthetic};
use ibnet_record::physical::Value;
use ibnet_record::strict::{self, Line, Physical};
use ibnet_record::types::{Guid, PortNum};

const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 4,
    hosts: 10,
    spines: 2,
    trunk: 2,
    radix: 20,
};

/// GUID and port number.
type Port = (Guid, PortNum);

/// Runs a sweep of 200 slots of a second with a large budget, and returns its records of the
/// physical layer, and the end of each port's cable.
fn sweep() -> (Vec<Physical>, BTreeMap<Port, Port>) {
    let report = TREE.blueprint().ports_report();
    let fabric = ports_report::parse(report.as_bytes(), "tree")
        .expect("valid ports report")
        .fabric;
    let cables = fabric.devices().iter().flat_map(|device| {
        let linked = device.linked();
        linked.map(|(port, peer)| ((device.guid, port.num), (peer.guid, peer.port)))
    });
    let cables = cables.collect();
    let plan = SweepPlan::new(&ibnet::partition::whole_fabric(&fabric, "here").0);
    let clock = VirtualClock::default();
    clock.set_wall_offset(1_795_000_000_123_456_789);
    let sim = Arc::new(Mutex::new(SimFabric::new(fabric, Options::default())));
    let engine = Config {
        physical: Some(PhysicalConfig {
            budget_ppm: 300_000,
            ..PhysicalConfig::default()
        }),
        ..Config::default()
    };
    let settings = DriverSettings {
        sweeps: Some(200),
        ..DriverSettings::simulated("here", Duration::from_secs(1), engine)
    };
    let (outlet, lines) = Destination::memory();
    let transport = VirtualTransport::new(sim, clock.clone(), 1);
    let mut records = Vec::new();
    Driver::new(plan, settings, transport, clock, outlet, 1)
        .run(&Control::default(), |_| {
            for line in lines.text().lines() {
                match strict::parse(line).unwrap_or_else(|error| panic!("{error}: {line}")) {
                    Line::Physical(record) => records.push(record),
                    Line::Port(port) => assert_eq!(port.status, "ok", "{line}"),
                    _ => {}
                }
            }
        })
        .expect("nothing is lost");
    (records, cables)
}

fn text(record: &Physical, name: &str) -> Option<String> {
    match record.values.get(name)? {
        Value::Text(text) => Some(text.clone()),
        other => panic!("{name}: {other:?}"),
    }
}

fn number(record: &Physical, name: &str) -> Option<u64> {
    match record.values.get(name)? {
        Value::Integer(number) => Some(*number),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn records_have_the_times_and_the_modules_of_all_links() {
    let (records, cables) = sweep();
    let mut serials = BTreeMap::new();
    let mut readings: BTreeMap<_, Vec<&Physical>> = BTreeMap::new();
    for record in &records {
        let key = record.head.port.map(|port| (record.head.guid, port));
        match (&*record.head.kind, key) {
            ("module", Some(key)) => {
                serials.insert(key, text(record, "vendor_sn").expect("one page"));
            }
            ("phy", Some(key)) => readings.entry(key).or_default().push(record),
            ("sensors", None) => {}
            other => panic!("{other:?}"),
        }
    }
    // One request in a hundred is not answered, so a few modules are missing.
    assert!(
        serials.len() * 10 > cables.len() * 9,
        "{} modules",
        serials.len()
    );
    for (here, there) in &cables {
        if let (Some(here), Some(there)) = (serials.get(here), serials.get(there)) {
            assert_eq!(here, there);
        }
        let of_port = &readings[here];
        assert!(of_port.len() >= 3, "{} records", of_port.len());
        for pair in of_port.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            assert_eq!(after.head.dt_ns, Some(after.head.ts - before.head.ts));
            let bits = [before, after].map(|record| number(record, "phy_received_bits"));
            assert!(bits[0] < bits[1] || bits.contains(&None), "{bits:?}");
        }
        assert_eq!(of_port[0].head.dt_ns, None);
    }
    let sensors = records
        .iter()
        .filter(|record| record.head.kind == "sensors");
    assert!(
        sensors.count() >= 5 * 6,
        "sensors of six switches each 30 s"
    );
}
