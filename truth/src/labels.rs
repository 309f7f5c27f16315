//! The truth about each slot: which queues were full, who waited for them, and which jobs caused
//! and suffered it.
//!
//! All of it comes from the queues and credits of the model. Nothing here reads a counter or the
//! rate of a port.
//!
//! At equal distances in time, each port that waits is followed to its *root*. The buffer that
//! gives it no credit is full; most packets in it wait for one output port. If this output waits
//! for credits too, the search goes on there. Otherwise it is the root: packets queue before it,
//! although it sends. A port that waits for a host is a root, because the host takes too few
//! packets out of its buffer. This is the difference between a root and a victim in the congestion
//! control of InfiniBand (IBA vol. 1, annex A10): both have a queue, and only the root has credits.
//!
//! Credits come and go with each packet. A port that waited for others in a good part of a *window*
//! of 50 ms is no root in this window: what waits for it waits for its roots.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ibnet_record::types::{Guid, NodeKind};
use serde::{Deserialize, Serialize};

use crate::fabric::Fabric;
use crate::network::Network;

/// A port waits in a slot if it had packets and no credits for more than this share of the slot. A
/// port is a root in a slot if another one waited for it for more than this share.
pub const WAITS: f64 = 0.1;

/// A job causes a root if it sent more than this share of the packets that queued before it.
pub const CAUSES: f64 = 0.1;

/// A job suffers in a slot if its iterations took more than this many times as long as alone, and
/// some of its packets were at ports without credits in more than the share [`WAITS`] of the slot.
pub const SUFFERS: f64 = 1.25;

/// Why a port is a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// More packets come than the link can send.
    Full,
    /// The host at its end takes too few packets.
    SlowHost,
}

/// The truth about one slot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SlotTruth {
    /// Begin of the slot, in nanoseconds since 1970.
    pub from: u64,
    /// End of the slot, in nanoseconds since 1970.
    pub to: u64,
    /// The roots, the one with most waiting ports first.
    pub roots: Vec<RootTruth>,
    /// The ports that waited.
    pub waiting: Vec<WaitingTruth>,
    /// The jobs that ran.
    pub jobs: Vec<JobTruth>,
}

/// A root.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RootTruth {
    /// Device of the port.
    pub guid: Guid,
    /// Number of the port.
    pub port: u8,
    /// Why it is a root.
    pub cause: Cause,
    /// For how many slots, in sum, ports waited for it.
    pub waited: f64,
    /// Shares of the jobs in the packets that queued before it.
    pub jobs: BTreeMap<String, f64>,
}

/// A port that waited.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WaitingTruth {
    /// Device of the port.
    pub guid: Guid,
    /// Number of the port.
    pub port: u8,
    /// Share of the slot.
    pub share: f64,
}

/// What happened to a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobTruth {
    /// Its name.
    pub name: String,
    /// Duration of its iterations, as a multiple of the duration if it runs alone.
    pub slowdown: f64,
    /// Whether it caused a root.
    pub causes: bool,
    /// Whether it suffered, and caused no root.
    pub victim: bool,
}

/// What the queues say about a job in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct JobInSlot {
    /// Whether it caused a root.
    pub causes: bool,
    /// Whether its packets waited, while there was a root.
    pub waits: bool,
}

impl JobInSlot {
    /// Returns the label, once the slowdown is known.
    pub fn label(self, name: &str, slowdown: f64) -> JobTruth {
        let Self { causes, waits } = self;
        let victim = slowdown > SUFFERS && waits && !causes;
        JobTruth {
            name: name.to_owned(),
            slowdown,
            causes,
            victim,
        }
    }
}

/// Samples of a window.
const WINDOW: u32 = 25;

/// Follows waiting ports to their roots.
#[derive(Default)]
pub struct Observer {
    samples: u32,
    slot: Waits,
    window: Waits,
    /// For each root and port: the number of samples in which the port waited for it, in the
    /// window.
    blamed: BTreeMap<(usize, usize), f64>,
    /// The same in the windows of the slot that have ended.
    waited: BTreeMap<usize, BTreeMap<usize, f64>>,
    /// Packets that queued before each root, by job.
    queued: BTreeMap<usize, BTreeMap<u16, u32>>,
    /// For each job: the number of samples in which its packets were at ports without credits.
    held: BTreeMap<u16, u32>,
}

/// For how long each port waits.
#[derive(Default)]
struct Waits {
    begin: u64,
    /// Ticks for which each port had waited at the begin.
    before: Vec<u64>,
}

impl Waits {
    /// Returns the share of the time since the begin in which each port waited, and begins again.
    fn restart(&mut self, network: &Network<'_>) -> Vec<f64> {
        let now: Vec<_> = network.all_totals().map(|totals| totals.waited).collect();
        self.before.resize(now.len(), 0);
        let ticks = network.now() - std::mem::replace(&mut self.begin, network.now());
        let before = std::mem::replace(&mut self.before, now);
        let both = self.before.iter().zip(before);
        both.map(|(now, before)| (now - before) as f64 / ticks.max(1) as f64)
            .collect()
    }
}

impl Observer {
    /// Looks at all ports.
    pub fn sample(&mut self, fabric: &Fabric, network: &Network<'_>) {
        self.samples += 1;
        let mut held = BTreeSet::new();
        for port in (0..fabric.ports.len()).filter(|port| network.waits(*port)) {
            if let Some(lane) = network.lanes_without_credit(port).next() {
                let root = root_of(fabric, network, port, lane);
                *self.blamed.entry((root, port)).or_default() += 1.0;
                // Once for each sample and waiting port: a root weighs as much as it hurts.
                let queued = self.queued.entry(root).or_default();
                network.for_each_waiting(root, |packet| {
                    *queued.entry(packet.job).or_default() += 1;
                });
                network.for_each_waiting(port, |packet| {
                    held.insert(packet.job);
                });
            }
        }
        for job in held {
            *self.held.entry(job).or_default() += 1;
        }
        if self.samples.is_multiple_of(WINDOW) {
            self.end_window(network);
        }
    }

    fn end_window(&mut self, network: &Network<'_>) {
        let waits = self.window.restart(network);
        let mut waited = BTreeMap::<usize, BTreeMap<usize, f64>>::new();
        for ((root, port), count) in std::mem::take(&mut self.blamed) {
            waited.entry(root).or_default().insert(port, count);
        }
        // Each victim is taken out once, so this ends.
        let victims: Vec<_> = waited
            .iter()
            .filter(|(root, ports)| waits[**root] > WAITS && !ports.contains_key(root))
            .map(|(victim, _)| *victim)
            .collect();
        for victim in victims {
            let own: Vec<_> = waited
                .iter()
                .filter_map(|(root, ports)| Some((*root, *ports.get(&victim)?)))
                .collect();
            let all: f64 = own.iter().map(|(_, count)| count).sum();
            if all > 0.0 {
                for (port, count) in waited.remove(&victim).unwrap_or_default() {
                    for (root, part) in &own {
                        *waited.entry(*root).or_default().entry(port).or_default() +=
                            count * part / all;
                    }
                }
            }
        }
        for (root, ports) in waited {
            let sums = self.waited.entry(root).or_default();
            for (port, count) in ports {
                *sums.entry(port).or_default() += count;
            }
        }
    }

    /// Ends a slot that had this time. Returns the truth about it, still without its jobs, and what
    /// happened to each of the jobs, which have these names.
    pub fn finish(
        &mut self,
        time: Range<u64>,
        fabric: &Fabric,
        network: &Network<'_>,
        names: &[String],
    ) -> (SlotTruth, Vec<JobInSlot>) {
        let waits = self.slot.restart(network);
        self.blamed.clear();
        let samples = f64::from(std::mem::take(&mut self.samples).max(1));
        let waited = std::mem::take(&mut self.waited);
        let queued = std::mem::take(&mut self.queued);
        let held = std::mem::take(&mut self.held);
        let label = |port: usize| {
            let node = &fabric.nodes[fabric.ports[port].node];
            (
                node.guid,
                u8::try_from(fabric.index_at_node(port) + 1).unwrap_or(u8::MAX),
            )
        };
        let is_waiting = |port: &usize| waits[*port] > WAITS;
        let mut roots = Vec::new();
        let mut jobs = vec![JobInSlot::default(); names.len()];
        let is_root =
            |ports: &BTreeMap<usize, f64>| ports.values().any(|count| *count > WAITS * samples);
        for (root, ports) in waited.into_iter().filter(|(_, ports)| is_root(ports)) {
            let waited = ports.values().sum::<f64>() / samples;
            let (guid, port) = label(root);
            let peer = fabric.ports[fabric.ports[root].peer].node;
            let is_slow = fabric.nodes[peer].kind != NodeKind::Switch && is_waiting(&root);
            let counts = &queued[&root];
            let all = counts.values().sum::<u32>().max(1);
            let mut parts = BTreeMap::new();
            for (job, count) in counts {
                let part = f64::from(*count) / f64::from(all);
                if let Some(name) = names.get(usize::from(*job)) {
                    jobs[usize::from(*job)].causes |= part > CAUSES;
                    parts.insert(name.clone(), part);
                }
            }
            let cause = if is_slow {
                Cause::SlowHost
            } else {
                Cause::Full
            };
            roots.push(RootTruth {
                guid,
                port,
                cause,
                waited,
                jobs: parts,
            });
        }
        for (job, _) in held
            .iter()
            .filter(|(_, count)| f64::from(**count) > WAITS * samples)
        {
            if let Some(job) = jobs.get_mut(usize::from(*job)) {
                job.waits = !roots.is_empty();
            }
        }
        roots.sort_by(|a: &RootTruth, b| b.waited.total_cmp(&a.waited));
        let waiting = (0..waits.len()).filter(is_waiting).map(|port| {
            let share = waits[port];
            let (guid, port) = label(port);
            WaitingTruth { guid, port, share }
        });
        let truth = SlotTruth {
            from: time.start,
            to: time.end,
            waiting: waiting.collect(),
            jobs: Vec::new(),
            roots,
        };
        (truth, jobs)
    }
}

/// Returns the root for which a port waits in a lane.
fn root_of(fabric: &Fabric, network: &Network<'_>, port: usize, lane: usize) -> usize {
    let mut at = port;
    // A cycle of waiting ports has no root; the search ends where it has seen every port.
    for _ in 0..fabric.ports.len() {
        let input = fabric.ports[at].peer;
        if fabric.nodes[fabric.ports[input].node].kind != NodeKind::Switch {
            return at;
        }
        // With equal numbers, the port with the smaller index.
        let most = network
            .buffered(input, lane)
            .max_by_key(|(output, count)| (*count, usize::MAX - output));
        let Some((output, _)) = most else { return at };
        at = output;
        if !network
            .lanes_without_credit(output)
            .any(|blocked| blocked == lane)
        {
            return at;
        }
    }
    at
}
