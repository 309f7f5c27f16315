//! Jobs that wait for their packets before they go on, and random background traffic.

use std::ops::Range;

use fastrand::Rng;

use crate::fabric::{Fabric, Host};
use crate::network::{Happened, Network, PACKET, Packet, Settings};

/// The job of background packets.
pub const BACKGROUND: u16 = u16::MAX;

/// To whom the ranks of a job send in an iteration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// To the rank at a distance, which is the same for all ranks and random for each iteration.
    Shift,
    /// To the same number of random ranks each.
    Random(usize),
    /// Rank `r` to the host at position `r`, modulo the length of the list.
    Given(Vec<Host>),
}

/// A job. In each iteration, it sends messages, waits until all have arrived, and computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Name in the labels.
    pub name: String,
    /// One host for each rank.
    pub hosts: Vec<Host>,
    /// Its messages.
    pub pattern: Pattern,
    /// Packets of a message.
    pub packets: u32,
    /// Ticks for which it computes.
    pub compute: u64,
    /// Virtual lane of its packets.
    pub lane: u8,
    /// When it starts, and after which time it begins no further iteration.
    pub span: Range<u64>,
}

/// Messages between random hosts, at random times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Background {
    /// Share of its link that each host uses.
    pub load: f64,
    /// Packets of a message.
    pub packets: u32,
}

/// All traffic of a scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Traffic {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The noise.
    pub background: Option<Background>,
    /// Hosts that take packets out of their buffers more slowly from a time on: the time, the host,
    /// and the ticks for a packet (`None`: it takes none).
    pub drains: Vec<(u64, Host, Option<u64>)>,
}

/// The state of a job that runs.
#[derive(Clone, Debug)]
struct Running {
    random: Rng,
    outstanding: u32,
    began: u64,
    /// Begin and end of the iterations that ended.
    iterations: Vec<Range<u64>>,
}

/// A network with its traffic.
pub struct Run<'a> {
    /// The network.
    pub network: Network<'a>,
    traffic: &'a Traffic,
    hosts: u16,
    jobs: Vec<Running>,
    noise: Rng,
}

impl<'a> Run<'a> {
    /// Prepares a run. Equal seeds give equal runs.
    pub fn new(fabric: &'a Fabric, settings: Settings, traffic: &'a Traffic, seed: u64) -> Self {
        let mut network = Network::new(fabric, settings);
        let hosts = u16::try_from(fabric.hosts.len()).unwrap_or(u16::MAX);
        // Each job has random numbers of its own, so that it does the same if it runs alone.
        let jobs = traffic.jobs.iter().zip(1..).map(|(job, number)| Running {
            random: Rng::with_seed(seed.wrapping_mul(1009).wrapping_add(number)),
            outstanding: 0,
            began: job.span.start,
            iterations: Vec::new(),
        });
        let jobs: Vec<_> = jobs.collect();
        for (job, token) in traffic.jobs.iter().zip(0..) {
            network.set_timer(job.span.start, token);
        }
        let mut run = Self {
            network,
            traffic,
            hosts,
            noise: Rng::with_seed(seed),
            jobs,
        };
        for (change, token) in traffic.drains.iter().zip(run.first_drain()..) {
            run.network.set_timer(change.0, token);
        }
        if traffic.background.is_some() {
            (0..run.hosts).for_each(|host| run.plan_noise(host));
        }
        run
    }

    /// Lets time pass until this tick.
    pub fn run_until(&mut self, end: u64) {
        while let Some(happened) = self.network.run_until(end) {
            match happened {
                Happened::Delivered(packet) => self.delivered(packet),
                Happened::Timer(token) => self.timer(token),
            }
        }
    }

    /// Returns the mean duration of the iterations of a job in this time, in ticks, each weighted
    /// with the part of the time for which it ran; `None` if there was none. The one that still
    /// runs counts with its duration until now.
    pub fn duration(&self, job: usize, time: Range<u64>) -> Option<f64> {
        let running = &self.jobs[job];
        let open = (running.outstanding > 0).then(|| running.began..self.network.now());
        // From the newest one back.
        let iterations = open
            .into_iter()
            .chain(running.iterations.iter().rev().cloned());
        let (mut sum, mut weights) = (0.0, 0.0);
        for iteration in iterations.take_while(|iteration| iteration.end > time.start) {
            let common = iteration.start.max(time.start)..iteration.end.min(time.end);
            let weight = common.end.saturating_sub(common.start) as f64;
            sum += weight * (iteration.end - iteration.start) as f64;
            weights += weight;
        }
        (weights > 0.0).then(|| sum / weights)
    }

    /// Timers have the numbers of the jobs, then of the drains, then of the hosts.
    fn first_drain(&self) -> u32 {
        self.traffic.jobs.len() as u32
    }

    fn first_noise(&self) -> u32 {
        self.first_drain() + self.traffic.drains.len() as u32
    }

    fn timer(&mut self, token: u32) {
        if token < self.first_drain() {
            self.begin_iteration(token as usize);
        } else if token < self.first_noise() {
            let (_, host, ticks) = self.traffic.drains[(token - self.first_drain()) as usize];
            self.network.set_drain(host, ticks);
        } else {
            self.make_noise((token - self.first_noise()) as u16);
        }
    }

    fn begin_iteration(&mut self, index: usize) {
        let job = &self.traffic.jobs[index];
        let now = self.network.now();
        if now >= job.span.end {
            return;
        }
        let running = &mut self.jobs[index];
        running.began = now;
        let ranks = job.hosts.len();
        let distance = running.random.usize(1..ranks.max(2));
        let mut messages = Vec::new();
        for (rank, from) in job.hosts.iter().enumerate() {
            match &job.pattern {
                Pattern::Shift => messages.push((*from, job.hosts[(rank + distance) % ranks])),
                Pattern::Random(others) => messages.extend((0..*others).map(|_| {
                    (
                        *from,
                        job.hosts[(rank + running.random.usize(1..ranks.max(2))) % ranks],
                    )
                })),
                Pattern::Given(hosts) => messages.push((*from, hosts[rank % hosts.len()])),
            }
        }
        running.outstanding = messages.len() as u32 * job.packets;
        for (from, to) in messages {
            let packet = Packet {
                to,
                job: index as u16,
                lane: job.lane,
            };
            self.network.send(from, packet, job.packets);
        }
    }

    fn delivered(&mut self, packet: Packet) {
        let Some(running) = self.jobs.get_mut(usize::from(packet.job)) else {
            return;
        };
        running.outstanding -= 1;
        if running.outstanding == 0 {
            running.iterations.push(running.began..self.network.now());
            let compute = self.traffic.jobs[usize::from(packet.job)].compute;
            self.network.set_timer(compute, packet.job.into());
        }
    }

    fn plan_noise(&mut self, host: u16) {
        if let Some(Background { load, packets }) = self.traffic.background {
            let mean = (u64::from(packets) * PACKET) as f64 / load;
            let ticks = -(1.0 - self.noise.f64()).ln() * mean;
            self.network
                .set_timer(ticks as u64, self.first_noise() + u32::from(host));
        }
    }

    fn make_noise(&mut self, from: u16) {
        if let Some(Background { packets, .. }) = self.traffic.background {
            let to = (from + self.noise.u16(1..self.hosts)) % self.hosts;
            self.network.send(
                from,
                Packet {
                    to,
                    job: BACKGROUND,
                    lane: 0,
                },
                packets,
            );
            self.plan_noise(from);
        }
    }
}
