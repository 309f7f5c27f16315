//! The scenarios, and the run of one of them.

use std::io::{self, Write};

use fastrand::Rng;
use ibnet_record::types::NodeKind;

use crate::fabric::{Fabric, FatTree, Host, Way};
use crate::labels::{Observer, SlotTruth};
use crate::network::{PACKET, Queueing, Settings};
use crate::records::{SECOND, Sampler, start, time_of};
use crate::traffic::{Background, Job, Pattern, Run, Traffic};

/// The fabric of all scenarios: 336 hosts in three tiers. Each leaf switch has twelve hosts and
/// eight cables to spine switches.
pub const FABRIC: FatTree = FatTree {
    pods: 4,
    leaves: 7,
    hosts: 12,
    spines: 8,
    cores: 6,
};

/// Length of a scenario in ticks. The congestion begins and ends within it.
pub const LENGTH: u64 = 30 * SECOND;

/// When the cause of the congestion begins and ends.
const STORM: std::ops::Range<u64> = 5 * SECOND..25 * SECOND;

/// Looks at the queues in a second.
const SAMPLES: u64 = 500;

/// What happens in the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Jobs that hardly wait.
    Quiet,
    /// 48 hosts send to one.
    Incast,
    /// This number of hosts receive from eight hosts each.
    Roots(usize),
    /// The routes of seven senders in a pod lead over one cable of a spine switch.
    Spine,
    /// A host of a job takes a tenth of what its link can bring.
    SlowHost,
    /// A host takes nothing at all for five seconds.
    StuckHost,
    /// The target of an incast changes every four seconds.
    Moving,
    /// An incast, and traffic between random hosts.
    Noise,
    /// Incasts of a fifth of a second, one in each second.
    Bursts,
}

impl Scenario {
    /// All scenarios with their names.
    pub const ALL: [(&'static str, Self); 11] = [
        ("quiet", Self::Quiet),
        ("incast", Self::Incast),
        ("roots-2", Self::Roots(2)),
        ("roots-4", Self::Roots(4)),
        ("roots-16", Self::Roots(16)),
        ("spine", Self::Spine),
        ("slow-host", Self::SlowHost),
        ("stuck-host", Self::StuckHost),
        ("moving", Self::Moving),
        ("noise", Self::Noise),
        ("bursts", Self::Bursts),
    ];

    /// Returns its traffic. Where the hosts of the jobs are depends on the seed.
    pub fn traffic(self, seed: u64) -> Traffic {
        let mut places = Places::new(seed);
        let mut traffic = Traffic::default();
        let mut random = Rng::with_seed(seed);
        for (name, hosts) in [("solver", 64), ("climate", 48), ("genome", 32)] {
            let pattern = Pattern::Shift;
            let (packets, compute) = (30, SECOND * 3 / 50);
            let hosts = places.take(hosts);
            // Not all at once, and not in step.
            let (name, span) = (name.to_owned(), random.u64(0..SECOND / 10)..LENGTH);
            traffic.jobs.push(Job {
                name,
                hosts,
                pattern,
                packets,
                compute,
                lane: 0,
                span,
            });
        }
        let storm = |name: &str, hosts: Vec<Host>, to, span| Job {
            name: name.to_owned(),
            packets: 800 / hosts.len() as u32,
            hosts,
            pattern: Pattern::Given(to),
            compute: 0,
            lane: 0,
            span,
        };
        match self {
            Self::Quiet => {}
            Self::Incast | Self::Noise => {
                let server = places.take(1);
                traffic
                    .jobs
                    .push(storm("storage", places.take(48), server, STORM));
                if self == Self::Noise {
                    traffic.background = Some(Background {
                        load: 0.1,
                        packets: 4,
                    });
                }
            }
            Self::Roots(roots) => traffic.jobs.extend((0..roots).map(|root| {
                let server = places.take(1);
                storm(&format!("storage-{root}"), places.take(8), server, STORM)
            })),
            Self::Spine => {
                let (from, to) = one_cable(seed);
                traffic.jobs.push(storm("exchange", from, to, STORM));
            }
            Self::SlowHost | Self::StuckHost => {
                let slow = traffic.jobs[0].hosts[0];
                let (ticks, end) = match self {
                    Self::SlowHost => (Some(10 * PACKET), STORM.end),
                    _ => (None, STORM.start + 5 * SECOND),
                };
                traffic.drains = vec![(STORM.start, slow, ticks), (end, slow, Some(0))];
            }
            Self::Moving => {
                let hosts = places.take(48);
                for (part, begin) in STORM.step_by(4 * SECOND as usize).enumerate() {
                    let span = begin..begin + 4 * SECOND;
                    let server = places.take(1);
                    let name = format!("storage-{part}");
                    traffic.jobs.push(storm(&name, hosts.clone(), server, span));
                }
            }
            Self::Bursts => {
                let server = places.take(1);
                let mut job = storm("storage", places.take(40), server, STORM);
                (job.packets, job.compute) = (10, SECOND * 4 / 5);
                traffic.jobs.push(job);
            }
        }
        traffic
    }
}

/// Hosts in groups of four at random places, each for one job.
struct Places(Vec<Host>);

impl Places {
    fn new(seed: u64) -> Self {
        let hosts = FABRIC.pods * FABRIC.leaves * FABRIC.hosts;
        let mut groups: Vec<Host> = (0..hosts / 4).map(|group| group as Host).collect();
        Rng::with_seed(seed).shuffle(&mut groups);
        Self(
            groups
                .into_iter()
                .flat_map(|group| (0..4).map(move |host| 4 * group + host))
                .collect(),
        )
    }

    fn take(&mut self, hosts: usize) -> Vec<Host> {
        self.0.split_off(self.0.len() - hosts)
    }
}

/// Returns a sender on each leaf switch of a pod, and as many receivers in other pods to which the
/// static routes take the same cable of the same spine switch.
fn one_cable(seed: u64) -> (Vec<Host>, Vec<Host>) {
    let FatTree {
        pods,
        leaves,
        hosts,
        spines,
        cores,
    } = FABRIC;
    let mut random = Rng::with_seed(seed);
    let pod = random.usize(0..pods);
    let cable = random.usize(0..spines * cores);
    let in_pod = |host: usize| host / (leaves * hosts) == pod;
    let from = (0..leaves).map(|leaf| (pod * leaves + leaf) * hosts + random.usize(0..hosts));
    let from = from.map(|host| host as Host).collect();
    let to = (0..pods * leaves * hosts)
        .filter(|host| !in_pod(*host) && host % (spines * cores) == cable)
        .map(|host| host as Host);
    (from, to.collect())
}

/// How a scenario is run and recorded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Conditions {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Whether the switches choose the way up by their queues.
    pub adaptive: bool,
    /// Length of a slot in ticks.
    pub slot: u64,
    /// Share of the readings that are lost.
    pub loss: f64,
}

/// Writes the static forwarding tables of the fabric, in the form of `dump_fts`.
///
/// # Errors
/// Returns the errors of the output.
pub fn write_routes(output: &mut impl Write) -> io::Result<()> {
    let fabric = Fabric::fat_tree(FABRIC);
    let nodes = fabric.nodes.iter().enumerate();
    for (index, switch) in nodes.filter(|(_, node)| node.kind == NodeKind::Switch) {
        let (lid, guid, name) = (index + 1, switch.guid, &switch.name);
        writeln!(
            output,
            "Unicast lids of switch Lid {lid} guid {guid} ({name}):"
        )?;
        for (host, node) in (0..).zip(&fabric.hosts) {
            let port = match fabric.way(index, host) {
                Way::Down(port) => port,
                Way::Up(ports, position) => ports[position],
            };
            let guid = fabric.nodes[*node].guid;
            let (lid, port) = (node + 1, port + 1);
            writeln!(
                output,
                "{lid:#06x} {port:03} : (Channel Adapter portguid {guid}: '')"
            )?;
        }
    }
    Ok(())
}

/// Runs a scenario. Writes the records, and returns the truth about each second.
///
/// # Errors
/// Returns the errors of the output.
pub fn run(
    scenario: Scenario,
    conditions: Conditions,
    output: impl Write,
) -> io::Result<Vec<SlotTruth>> {
    let Conditions {
        seed,
        adaptive,
        slot,
        loss,
    } = conditions;
    let fabric = Fabric::fat_tree(FABRIC);
    let settings = Settings {
        buffer: 8,
        queueing: Queueing::ByOutput,
        adaptive,
    };
    let traffic = scenario.traffic(seed);
    let alone = durations_alone(&fabric, settings, &traffic, seed);
    let names: Vec<_> = traffic.jobs.iter().map(|job| job.name.clone()).collect();
    let mut run = Run::new(&fabric, settings, &traffic, seed);
    let mut sampler = Sampler::new(output, &fabric, slot, loss, seed);
    let (mut observer, mut truth) = (Observer::default(), Vec::new());
    for second in (0..LENGTH).step_by(SECOND as usize) {
        let step = SECOND / SAMPLES;
        let end = second + SECOND;
        let looks = (second + step / 2..end)
            .step_by(step as usize)
            .map(|at| (at, None));
        let mut times: Vec<_> = looks.collect();
        for begin in (second..end).step_by(slot as usize) {
            let readings = sampler.plan(begin, &fabric);
            times.extend(readings.into_iter().map(|(at, node)| (at, Some(node))));
        }
        times.sort_unstable();
        for (at, node) in times {
            run.run_until(at);
            match node {
                Some(node) => sampler.read(node, &fabric, &run.network)?,
                None => observer.sample(&fabric, &run.network),
            }
        }
        run.run_until(end);
        truth.push(observer.finish(
            time_of(second, seed)..time_of(end, seed),
            &fabric,
            &run.network,
            &names,
        ));
    }
    // The duration of an iteration is known after its end.
    let slots = truth.into_iter().zip((0..).step_by(SECOND as usize));
    let slots = slots.map(|((mut truth, in_slot), begin)| {
        let jobs = in_slot
            .iter()
            .zip(&names)
            .enumerate()
            .filter_map(|(job, (what, name))| {
                Some(what.label(
                    name,
                    run.duration(job, begin..begin + SECOND)? / alone[job]?,
                ))
            });
        truth.jobs = jobs.collect();
        truth
    });
    Ok(slots.collect())
}

/// Writes the jobs of a scenario as a CSV file with the columns that resource managers have.
///
/// # Errors
/// Returns the errors of the output.
pub fn write_jobs(scenario: Scenario, seed: u64, mut output: impl Write) -> io::Result<()> {
    let fabric = Fabric::fat_tree(FABRIC);
    writeln!(output, "job,user,nodes,start,end,state")?;
    for job in scenario.traffic(seed).jobs {
        let name = |host: &Host| &*fabric.nodes[fabric.hosts[usize::from(*host)]].name;
        let nodes: Vec<_> = job.hosts.iter().map(name).collect();
        // Whole seconds, so that the second in which a job starts is its own.
        let [from, to] = [job.span.start / SECOND, job.span.end.div_ceil(SECOND)];
        let [from, to] = [from, to].map(|second| start(seed) + second);
        let (name, nodes) = (job.name, nodes.join(","));
        writeln!(output, "{name},,\"{nodes}\",{from},{to},completed")?;
    }
    Ok(())
}

/// Returns the mean duration of an iteration of each job, if it has the fabric for itself and all
/// hosts are fast.
fn durations_alone(
    fabric: &Fabric,
    settings: Settings,
    traffic: &Traffic,
    seed: u64,
) -> Vec<Option<f64>> {
    (0..traffic.jobs.len())
        .map(|job| {
            // The other jobs stay in the list, so that this one has the same random numbers.
            let mut jobs = traffic.jobs.clone();
            let others = jobs
                .iter_mut()
                .enumerate()
                .filter(|(other, _)| *other != job);
            others.for_each(|(_, other)| other.span = 0..0);
            let traffic = Traffic {
                jobs,
                background: None,
                drains: Vec::new(),
            };
            let span = &traffic.jobs[job].span;
            let end = span.end.min(span.start + 10 * SECOND);
            let mut run = Run::new(fabric, settings, &traffic, seed);
            run.run_until(end);
            run.duration(job, span.start..end)
        })
        .collect()
}
