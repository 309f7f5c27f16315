//! Records of a simulated fabric in virtual time, with the disturbances of a loaded machine at fixed
//! times. The same recording is the same text on each machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::{Assignments, Sampler};
use ibnet::config::{Config, Raw};
use ibnet::mad::transport::sim::faults::Faults;
use ibnet::mad::transport::sim::traffic::{Incast, Traffic};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::output::Destination;
use ibnet::partition::whole_fabric;
use ibnet::sweep::driver::{Clock, Control, Driver, DriverSettings};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{Pause, VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::Fabric;
use ibnet::types::PortNum;

/// Wall clock at virtual time zero, in nanoseconds since 1970: 2026-11-18T10:13:20Z.
const WALL: i64 = 1_795_000_400_000_000_000;

/// Senders of the incast.
const SENDERS: usize = 8;

/// A time in which a sampler stands still, as a process that gets no processor.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    /// Host of the sampler.
    pub(crate) host: &'static str,
    /// Number of slots after which the sampler stops.
    pub(crate) after: u64,
    /// Time from the start of the next slot to the stop, in microseconds. A stop within a slot leaves
    /// ports without a query (`skipped`) or replies that come too late.
    pub(crate) into_slot_us: u64,
    /// Length of the stop, in intervals.
    pub(crate) intervals: f64,
}

/// What is recorded: a configuration of `ibnet-sweep` with the scenario `incast`, a plan, and the
/// disturbances.
pub(crate) struct Recording<'a> {
    pub(crate) config: &'a str,
    pub(crate) plan: &'a str,
    pub(crate) slots: u64,
    /// Virtual time at which all samplers start.
    pub(crate) start: Duration,
    pub(crate) stops: &'a [Stop],
    pub(crate) faults: Faults,
}

impl Recording<'_> {
    /// Writes the records of each sampler into a file of this folder.
    pub(crate) fn write(&self, fabric: &Fabric, folder: &Path) {
        fs::create_dir_all(folder).unwrap();
        let config = Raw::parse(self.config, Path::new("ibnet.toml")).unwrap().check().unwrap();
        let samplers = match self.plan {
            "" => vec![whole_fabric(fabric, "here").0],
            plan => Assignments::parse_file(plan.as_bytes(), "plan.toml").unwrap().assignments.samplers,
        };
        let mut hosts: Vec<&str> = samplers.iter().map(|sampler| &*sampler.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            let blocks = samplers.iter().zip(1..).filter(|(sampler, _)| sampler.host == host);
            let mut batches: Vec<(Instant, String)> =
                blocks.flat_map(|(sampler, seed)| self.sweep(fabric, &config, sampler, seed)).collect();
            // The workers of a sampler write into one file, each after its slots.
            batches.sort_by_key(|(at, _)| *at);
            let text: String = batches.into_iter().map(|(_, text)| text).collect();
            fs::write(folder.join(format!("{host}.jsonl")), text).unwrap();
        }
    }

    /// Sweeps the ports of a sampler, and returns the records of each slot with the time at which they
    /// are written.
    fn sweep(&self, fabric: &Fabric, config: &Config, sampler: &Sampler, seed: u64) -> Vec<(Instant, String)> {
        let clock = VirtualClock::default();
        clock.set_wall_offset(WALL);
        clock.advance_to(Instant::ZERO + self.start);
        let sim = Arc::new(Mutex::new(simulated(fabric, config, seed)));
        let mut transport = VirtualTransport::new(sim, clock.clone(), seed);
        *transport.faults_mut() = self.faults;
        let settings = DriverSettings {
            sampler: sampler.host.clone(),
            ca: "sim".to_owned(),
            ca_port: PortNum(1),
            is_secondary: sampler.is_secondary(),
            interval: config.interval,
            offset: config.interval.mul_f64(sampler.offset.unwrap_or(0.0)),
            aligned: true,
            sweeps: Some(self.slots),
            assignments_sha256: None,
            engine: config.engine.clone(),
        };
        let (outlet, lines) = Destination::memory();
        let (offset, mut batches) = (settings.offset, Vec::new());
        let driver = Driver::new(SweepPlan::new(sampler), settings, transport, clock.clone(), outlet, seed);
        let ended = driver.run(&Control::default(), |report| {
            batches.push((clock.now(), lines.text()));
            for stop in self.stops.iter().filter(|stop| stop.host == sampler.host && stop.after == report.done) {
                let slot = config.interval.as_nanos() as u64 * (report.slot + 1) - WALL as u64;
                let from = Instant::from_nanos(slot) + offset + Duration::from_micros(stop.into_slot_us);
                clock.pause(Pause { from, time: config.interval.mul_f64(stop.intervals), lossy: false });
            }
        });
        ended.unwrap();
        batches.push((clock.now(), lines.text()));
        batches
    }
}

/// Returns the fabric with the traffic of the configuration. Samplers have fabrics of their own with
/// the same traffic, so that their records do not depend on each other.
fn simulated(fabric: &Fabric, config: &Config, seed: u64) -> SimFabric {
    let simulation = config.simulation.as_ref().unwrap();
    let incast = Incast::onto_last_server(fabric, SENDERS, Instant::ZERO + simulation.start, simulation.length).unwrap();
    let traffic = Traffic::incast(fabric, simulation.seed, &incast);
    let options = Options { seed: simulation.seed * 1000 + seed, loss: simulation.loss, ..Options::default() };
    let mut simulated = SimFabric::with_traffic(fabric.clone(), options, traffic);
    let is_dead = |name: &str| simulation.dead.iter().any(|dead| dead == name);
    let dead: Vec<_> = fabric.iter().filter(|(_, device)| is_dead(device.host())).map(|(id, _)| id).collect();
    assert_eq!(dead.len(), simulation.dead.len(), "each name is one device");
    dead.into_iter().for_each(|id| simulated.set_dead(id, true));
    simulated
}

/// Returns what the records of some files contain: statuses and events with their counts, for a test
/// that must not pass on a recording without disturbances.
pub(crate) fn contents(files: &[std::path::PathBuf]) -> String {
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for line in files.iter().flat_map(|file| super::lines(file)) {
        let record = super::value(&line);
        for field in ["status", "event"] {
            if let Some(name) = record[field].as_str() {
                *counts.entry(format!("{field} {name}")).or_default() += 1;
            }
        }
        *counts.entry("slots_missed".to_owned()).or_default() += record["slots_missed"].as_u64().unwrap_or(0);
    }
    counts.iter().fold(String::new(), |mut text, (name, count)| {
        let _ = write!(text, "{name} = {count}; ");
        text
    })
}
