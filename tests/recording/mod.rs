//! Records of a simulated fabric in virtual time. The same recording is the same text on each machine:
//! no slot is missed and no reply is late, unless the test wants it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::{Assignments, Sampler};
use ibnet::config::{Config, Raw};
use ibnet::mad::transport::sim::SimFabric;
use ibnet::mad::transport::sim::faults::Faults;
use ibnet::output::Destination;
use ibnet::partition::whole_fabric;
use ibnet::sweep::driver::{Clock, Control, Driver, DriverSettings};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{Pause, VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::Fabric;

/// What is recorded, and what goes wrong.
pub(crate) struct Recording<'a> {
    /// The configuration of `ibnet-sweep`, without the key `simulate`.
    pub(crate) config: &'a str,
    /// The plan. Without one, the sampler `here` has all ports.
    pub(crate) plan: Option<&'a str>,
    /// Number of slots of each sampler.
    pub(crate) slots: u64,
    /// Time at which the fabric and its scenario start, in nanoseconds since 1970.
    pub(crate) fabric_ns: u64,
    /// Time from the start of the fabric to that of the samplers.
    pub(crate) start: Duration,
    /// Faults of replies.
    pub(crate) faults: Faults,
    pub(crate) stops: &'a Stops<'a>,
}

/// Returns when the sampler of a host stands still after a number of slots, as a process that gets no
/// processor: the time from the start of its next slot, and the length in intervals.
pub(crate) type Stops<'a> = dyn Fn(&str, u64) -> Option<(Duration, f64)> + 'a;

impl Recording<'_> {
    /// Returns the name of each sampler host with its records.
    pub(crate) fn lines(&self, fabric: &Fabric) -> Vec<(String, String)> {
        let config = Raw::parse(&format!("simulate = \"net.p\"\n{}", self.config), Path::new("ibnet.toml")).unwrap().check().unwrap();
        let samplers = match self.plan {
            None => vec![whole_fabric(fabric, "here").0],
            Some(plan) => Assignments::parse_file(plan.as_bytes(), "plan.toml").unwrap().assignments.samplers,
        };
        let mut hosts: Vec<&str> = samplers.iter().map(|sampler| &*sampler.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let of_host = |host: &str| {
            let blocks = samplers.iter().zip(1..).filter(|(sampler, _)| sampler.host == host);
            let mut batches: Vec<(Instant, String)> =
                blocks.flat_map(|(sampler, seed)| self.sweep(fabric, &config, sampler, seed)).collect();
            // The workers of a sampler write into one file, each after its slots.
            batches.sort_by_key(|(at, _)| *at);
            batches.into_iter().map(|(_, text)| text).collect()
        };
        hosts.into_iter().map(|host| (host.to_owned(), of_host(host))).collect()
    }

    /// Sweeps the ports of a sampler, and returns the records of each slot with the time at which they
    /// are written.
    fn sweep(&self, fabric: &Fabric, config: &Config, sampler: &Sampler, seed: u64) -> Vec<(Instant, String)> {
        let clock = VirtualClock::default();
        clock.set_wall_offset(self.fabric_ns.try_into().unwrap());
        clock.advance_to(Instant::ZERO + self.start);
        let sim = Arc::new(Mutex::new(simulated(fabric, config, seed)));
        let mut transport = VirtualTransport::new(sim, clock.clone(), seed);
        *transport.faults_mut() = self.faults;
        let interval = config.interval;
        let settings = DriverSettings {
            is_secondary: sampler.is_secondary(),
            offset: interval.mul_f64(sampler.offset.unwrap_or(0.0)),
            sweeps: Some(self.slots),
            ..DriverSettings::simulated(&sampler.host, interval, config.engine.clone())
        };
        let (outlet, lines) = Destination::memory();
        let (offset, mut batches) = (settings.offset, Vec::new());
        let driver = Driver::new(SweepPlan::new(sampler), settings, transport, clock.clone(), outlet, seed);
        let ended = driver.run(&Control::default(), |report| {
            batches.push((clock.now(), lines.text()));
            if let Some((into_slot, intervals)) = (self.stops)(&sampler.host, report.done) {
                let slot = Instant::from_nanos(interval.as_nanos() as u64 * (report.slot + 1) - self.fabric_ns);
                clock.pause(Pause { from: slot + offset + into_slot, time: interval.mul_f64(intervals), lossy: false });
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
    let traffic = simulation.traffic(fabric, simulation.incast(fabric).as_ref(), simulation.storms(fabric).as_deref()).unwrap();
    let mut options = simulation.options();
    options.seed = options.seed * 1000 + seed;
    let mut simulated = SimFabric::with_traffic(fabric.clone(), options, traffic);
    simulation.dead_devices(fabric).unwrap().into_iter().for_each(|id| simulated.set_dead(id, true));
    simulated
}
