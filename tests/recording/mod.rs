//! Records of a simulated fabric in virtual time. The same recording is the same text on each
//! machine: no slot is missed and no reply is late, unless the test wants it.

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
use ibnet::topology::{DeviceId, Fabric};

/// What is recorded, and what goes wrong.
pub(crate) struct Recording<'a> {
    /// The configuration of `ibnet-sweep`, without the key `simulate`.
    pub(crate) config: &'a str,
    /// The plans. Each but the last one has an equal part of the slots, and a change of the plan
    /// misses no slot. Without a plan, the sampler `here` has all ports.
    pub(crate) plans: &'a [String],
    /// Number of slots of each sampler.
    pub(crate) slots: u64,
    /// Time at which the fabric and its scenario start, in nanoseconds since 1970.
    pub(crate) fabric_ns: u64,
    /// Time from the start of the fabric to that of the samplers.
    pub(crate) start: Duration,
    /// Faults of replies.
    pub(crate) faults: Faults,
    pub(crate) disturbed: &'a Disturbances<'a>,
}

/// What happens to a sampler, or in its fabric, between two slots.
#[derive(Clone, Copy, Default)]
pub(crate) struct Disturbance {
    /// The sampler stands still, as a process that gets no processor: the time from the start of
    /// its next slot, and the length in intervals.
    pub(crate) stop: Option<(Duration, f64)>,
    /// The wall clock is set by these nanoseconds.
    pub(crate) clock_step_ns: i64,
    /// Devices that stop (`false`) or resume answering.
    pub(crate) answers: &'static [(&'static str, bool)],
}

/// Returns what happens after a sampler host has run this number of slots. The slots of an earlier
/// plan count as run.
pub(crate) type Disturbances<'a> = dyn Fn(&str, u64) -> Disturbance + 'a;

/// One driver of a recording: the ports of a sampler in one plan.
struct Part {
    sampler: Sampler,
    seed: u64,
    /// Number of the first slot, counted from the first one of the recording. Those of a later plan
    /// take over from a running driver.
    from: u64,
    /// Number of the first slot that it does not run; none for the last plan.
    until: Option<u64>,
}

impl Recording<'_> {
    /// Returns the name of each sampler host with its records.
    pub(crate) fn lines(&self, fabric: &Fabric) -> Vec<(String, String)> {
        let config = Raw::parse(
            &format!("simulate = \"net.p\"\n{}", self.config),
            Path::new("ibnet.toml"),
        )
        .unwrap()
        .check()
        .unwrap();
        let parse = |plan: &String| {
            Assignments::parse_file(plan.as_bytes(), "plan.toml")
                .unwrap()
                .assignments
                .samplers
        };
        let plans = match self.plans {
            [] => vec![vec![whole_fabric(fabric, "here").0]],
            plans => plans.iter().map(parse).collect(),
        };
        let (each, last) = (self.slots / plans.len() as u64, plans.len() as u64 - 1);
        let of_plan = |(samplers, number): (Vec<Sampler>, u64)| {
            samplers.into_iter().map(move |sampler| {
                (
                    sampler,
                    number * each,
                    (number < last).then_some((number + 1) * each),
                )
            })
        };
        let parts: Vec<Part> = plans
            .into_iter()
            .zip(0..)
            .flat_map(of_plan)
            .zip(1..)
            .map(|((sampler, from, until), seed)| Part {
                sampler,
                seed,
                from,
                until,
            })
            .collect();
        let mut hosts: Vec<&str> = parts.iter().map(|part| &*part.sampler.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let of_host = |host: &str| {
            let mut batches: Vec<(Instant, String)> = parts
                .iter()
                .filter(|part| part.sampler.host == host)
                .flat_map(|part| self.sweep(fabric, &config, part))
                .collect();
            // The workers of a sampler write into one file, each after its slots.
            batches.sort_by_key(|(at, _)| *at);
            batches.into_iter().map(|(_, text)| text).collect()
        };
        hosts
            .into_iter()
            .map(|host| (host.to_owned(), of_host(host)))
            .collect()
    }

    /// Sweeps the ports of a sampler, and returns the records of each slot with the time at which
    /// they are written.
    fn sweep(&self, fabric: &Fabric, config: &Config, part: &Part) -> Vec<(Instant, String)> {
        let (Part { sampler, seed, .. }, interval) = (part, config.interval);
        let clock = VirtualClock::default();
        let mut wall_offset: i64 = self.fabric_ns.try_into().unwrap();
        clock.set_wall_offset(wall_offset);
        // A driver that takes over discovers its devices in the two slots before.
        clock.advance_to(
            Instant::ZERO
                + self.start
                + interval * u32::try_from(part.from.saturating_sub(2)).unwrap(),
        );
        let sim = Arc::new(Mutex::new(simulated(fabric, config, *seed)));
        let mut transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), *seed);
        *transport.faults_mut() = self.faults;
        let settings = DriverSettings {
            is_secondary: sampler.is_secondary(),
            offset: interval.mul_f64(sampler.offset.unwrap_or(0.0)),
            sweeps: part.until.is_none().then_some(self.slots - part.from),
            ..DriverSettings::simulated(&sampler.host, interval, config.engine.clone())
        };
        let (outlet, lines) = Destination::memory();
        let (offset, mut batches) = (settings.offset, Vec::new());
        let period = interval.as_nanos() as u64;
        let first = (self.fabric_ns + self.start.as_nanos() as u64).div_ceil(period);
        let control = match part.from {
            0 => Arc::new(Control::default()),
            from => {
                let held = Arc::new(Control::held(None));
                let ready = Arc::clone(&held);
                held.on_ready(move || ready.begin_with(first + from));
                held
            }
        };
        if let Some(until) = part.until {
            control.leave_before(first + until);
        }
        let driver = Driver::new(
            SweepPlan::new(sampler),
            settings,
            transport,
            clock.clone(),
            outlet,
            *seed,
        );
        let ended = driver.run(&control, |report| {
            batches.push((clock.now(), lines.text()));
            let next = Instant::from_nanos(
                period * (report.slot + 1) - u64::try_from(wall_offset).unwrap(),
            );
            let Disturbance {
                stop,
                clock_step_ns,
                answers,
            } = (self.disturbed)(&sampler.host, part.from + report.done);
            if let Some((into_slot, intervals)) = stop {
                clock.pause(Pause {
                    from: next + offset + into_slot,
                    time: interval.mul_f64(intervals),
                    lossy: false,
                });
            }
            wall_offset += clock_step_ns;
            clock.set_wall_offset(wall_offset);
            for (name, answers) in answers {
                sim.lock().unwrap().set_dead(device(fabric, name), !answers);
            }
        });
        ended.unwrap();
        batches.push((clock.now(), lines.text()));
        batches
    }
}

/// Returns the device whose name has this first word.
fn device(fabric: &Fabric, name: &str) -> DeviceId {
    fabric
        .iter()
        .find(|(_, device)| device.host() == name)
        .unwrap()
        .0
}

/// Returns the fabric with the traffic of the configuration. Samplers have fabrics of their own
/// with the same traffic, so that their records do not depend on each other.
fn simulated(fabric: &Fabric, config: &Config, seed: u64) -> SimFabric {
    let simulation = config.simulation.as_ref().unwrap();
    let traffic = simulation
        .traffic(
            fabric,
            simulation.incast(fabric).as_ref(),
            simulation.storms(fabric).as_deref(),
        )
        .unwrap();
    let mut options = simulation.options();
    options.seed = options.seed * 1000 + seed;
    let mut simulated = SimFabric::with_traffic(fabric.clone(), options, traffic);
    simulation
        .dead_devices(fabric)
        .unwrap()
        .into_iter()
        .for_each(|id| simulated.set_dead(id, true));
    simulated
}
