//! Records of the small fabric in virtual time. No slot is missed and no reply is late, whatever the
//! machine does, and the records can have any time.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::config::{Raw, Scenario, WideCounters};
use ibnet::mad::transport::sim::storms::{StormHosts, StormOrder};
use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::output::Destination;
use ibnet::partition;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::net_file;
use ibnet::types::PortNum;

/// Start of the records of a test that needs no certain time, in nanoseconds since 1970: a whole
/// minute in the year 2096. ClickHouse removes records that are older than 30 days.
pub(crate) const START_NS: u64 = 4_000_000_020_000_000_000;

/// Records slots of the fabric in `net.p`, as `ibnet-sweep` with this configuration does. The fabric
/// and its scenario start at `start_ns`, in nanoseconds since 1970. Returns the lines, and writes them
/// to `lines.jsonl`.
pub(crate) fn record(dir: &Path, config: &str, slots: u64, start_ns: u64) -> String {
    let path = Path::new("ibnet.toml");
    let config = Raw::parse(&format!("simulate = \"net.p\"\n{config}"), path).unwrap().check().unwrap();
    let simulation = config.simulation.unwrap();
    let fabric = net_file::read(&dir.join(simulation.net)).unwrap().fabric;
    let traffic = match simulation.scenario {
        Scenario::Jobs => Traffic::jobs(&fabric, simulation.seed),
        Scenario::Storms => {
            let storms = StormOrder::FloodThenStorm.storms(&fabric, Instant::ZERO + simulation.start, simulation.length).unwrap();
            StormHosts::with_traffic(&fabric, simulation.seed, &storms).1
        }
        other => panic!("no test uses the scenario {other:?}"),
    };
    let plan = SweepPlan::new(&partition::whole_fabric(&fabric, "here").0);
    let options = Options {
        wide_switches: simulation.wide_counters != WideCounters::None,
        wide_adapters: simulation.wide_counters == WideCounters::All,
        seed: simulation.seed,
        ..Options::default()
    };
    let mut sim = SimFabric::with_traffic(fabric, options, traffic);
    let is_dead = |host: &str| simulation.dead.iter().any(|name| name == host);
    let dead: Vec<_> = sim.fabric().iter().filter(|(_, device)| is_dead(device.host())).map(|(id, _)| id).collect();
    assert_eq!(dead.len(), simulation.dead.len());
    dead.into_iter().for_each(|id| sim.set_dead(id, true));
    let clock = VirtualClock::default();
    clock.set_wall_offset(start_ns.try_into().unwrap());
    let transport = VirtualTransport::new(Arc::new(Mutex::new(sim)), clock.clone(), simulation.seed);
    let settings = DriverSettings {
        sampler: "here".to_owned(),
        ca: "sim".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: config.interval,
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(slots),
        assignments_sha256: None,
        engine: config.engine,
    };
    let (outlet, lines) = Destination::memory();
    let mut text = String::new();
    let driver = Driver::new(plan, settings, transport, clock, outlet, simulation.seed);
    driver.run(&Control::default(), |_| text += &lines.text()).unwrap();
    text += &lines.text();
    fs::write(dir.join("lines.jsonl"), &text).unwrap();
    text
}
