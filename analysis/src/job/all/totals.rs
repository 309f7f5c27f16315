//! The results: the traffic of each job, the traffic without a job, and the traffic into selected
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::list::Window;
use crate::cell::{Cell, Joined, columns};
use crate::job::imbalance::Imbalance;
use crate::job::marks::Phase;
use crate::job::{Known, blocked_ns_per_byte};
use crate::ports::carried::{Flow, Kind};
use crate::rows::Row;

/// Traffic of all jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct JobsTraffic {
    /// Start of the first bin in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Number of bins.
    pub bins: usize,
    /// Start of the first and end of the last interval of the records in nanoseconds since 1970.
    pub recorded_ns: (u64, u64),
    /// Jobs with records, the one that injected most first. The last entry is the traffic without
    /// a job.
    pub jobs: Vec<JobTotal>,
    /// Data rate that all hosts injected, in Gb/s.
    pub total: Vec<Cell>,
    /// Data rates from the switch ports into the selected nodes in Gb/s, largest first.
    pub into: Vec<PortRate>,
    /// Phases of an application, with the traffic of all hosts. Empty without marks.
    pub phases: Vec<Phase>,
}

/// Traffic of one job while it ran.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobTotal {
    /// Job ID. Null for the traffic without a job.
    pub job: Option<String>,
    /// Start of the job in nanoseconds since 1970. Null for the traffic without a job.
    pub start_ns: Option<u64>,
    /// End of the job in nanoseconds since 1970. Null while it runs.
    pub end_ns: Option<u64>,
    /// Bytes that all nodes sent.
    pub injected_bytes: f64,
    /// Bytes that all nodes received.
    pub ejected_bytes: f64,
    /// Time in which the bytes are known, in seconds: the mean of the nodes.
    pub covered_seconds: f64,
    /// Time for which the ports of all nodes were blocked, summed over the ports, in seconds.
    pub blocked_seconds: f64,
    /// Time in which the blocked time is known, in seconds: the mean of the nodes.
    pub blocked_covered_seconds: f64,
    /// Blocked time per byte sent, in nanoseconds. Null without traffic.
    pub blocked_ns_per_byte: Option<f64>,
    /// How unevenly the nodes sent.
    pub imbalance: Imbalance,
    /// Hosts with at least one recorded port, by name.
    pub nodes: Vec<NodeTotal>,
    /// Names of hosts without records.
    pub missing: Vec<String>,
    /// Data rate that all nodes sent in each bin, in Gb/s. It is a lower bound where
    /// `injected_covered` is below 1, and null where nothing is known.
    pub injected_gbps: Vec<Option<f64>>,
    /// Share of the ports whose data rate is known in each bin, 0 to 1. Null where the job did
    /// not run.
    pub injected_covered: Vec<Option<f64>>,
    /// Phases of an application in the time of the job, with its traffic. Absent without marks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

impl Row for JobTotal {
    const COLUMNS: &'static [&'static str] = &[
        "job",
        "start_ns",
        "end_ns",
        "injected_bytes",
        "ejected_bytes",
        "covered_seconds",
        "blocked_seconds",
        "blocked_covered_seconds",
        "blocked_ns_per_byte",
        "imbalance_max_to_mean",
        "imbalance_variation",
        "imbalance_gini",
        "nodes_host",
        "nodes_ports",
        "nodes_injected_bytes",
        "nodes_ejected_bytes",
        "nodes_covered_seconds",
        "nodes_blocked_seconds",
        "nodes_blocked_covered_seconds",
    ];
}

impl JobTotal {
    /// Returns the recorded time of the job in seconds. `recorded_ns` is the time range of all
    /// records.
    pub fn recorded_seconds(&self, (from, to): (u64, u64)) -> f64 {
        let (from, to) = (
            self.start_ns.unwrap_or(0).max(from),
            self.end_ns.unwrap_or(u64::MAX).min(to),
        );
        to.saturating_sub(from) as f64 / 1e9
    }

    /// Returns the times that are known, if they are not the whole time. `recorded_ns` is the
    /// time range of all records.
    pub fn known(&self, recorded_ns: (u64, u64)) -> Option<Known> {
        Known::of(
            self.covered_seconds,
            self.blocked_covered_seconds,
            self.recorded_seconds(recorded_ns),
        )
    }

    /// Adds the traffic of a later time range with bins of the same length. `gap` is the number
    /// of bins between the two ranges.
    pub fn extend(&mut self, later: Self, gap: usize) {
        let mut nodes: BTreeMap<String, NodeTotal> = self
            .nodes
            .drain(..)
            .map(|node| (node.host.clone(), node))
            .collect();
        for node in later.nodes {
            let own = nodes.entry(node.host.clone()).or_insert_with(|| NodeTotal {
                host: node.host,
                ..NodeTotal::default()
            });
            own.ports = own.ports.max(node.ports);
            own.injected_bytes += node.injected_bytes;
            own.ejected_bytes += node.ejected_bytes;
            own.covered_seconds += node.covered_seconds;
            own.sent_seconds += node.sent_seconds;
            own.blocked_seconds += node.blocked_seconds;
            own.blocked_covered_seconds += node.blocked_covered_seconds;
        }
        self.nodes = nodes.into_values().collect();
        (self.start_ns, self.end_ns) = (later.start_ns, later.end_ns);
        self.injected_bytes += later.injected_bytes;
        self.ejected_bytes += later.ejected_bytes;
        self.covered_seconds += later.covered_seconds;
        self.blocked_seconds += later.blocked_seconds;
        self.blocked_covered_seconds += later.blocked_covered_seconds;
        self.blocked_ns_per_byte = wait_of(&self.nodes);
        self.imbalance = Imbalance::of(self.nodes.iter().map(|node| node.injected_bytes));
        self.missing.retain(|host| later.missing.contains(host));
        self.injected_gbps.extend(std::iter::repeat_n(None, gap));
        self.injected_gbps.extend(later.injected_gbps);
        self.injected_covered
            .extend(std::iter::repeat_n(Some(0.0), gap));
        self.injected_covered.extend(later.injected_covered);
    }
}

/// Traffic of a host while the job ran.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct NodeTotal {
    /// Name of the host.
    pub host: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Bytes that the host sent.
    pub injected_bytes: f64,
    /// Bytes that the host received.
    pub ejected_bytes: f64,
    /// Time in which the bytes are known, in seconds: the mean of the ports, for the direction
    /// with less time.
    pub covered_seconds: f64,
    /// Time in which the sent bytes are known, in seconds.
    #[serde(skip)]
    pub(crate) sent_seconds: f64,
    /// Time for which the ports were blocked, summed over the ports, in seconds.
    pub blocked_seconds: f64,
    /// Time in which the blocked time is known, in seconds: the mean of the ports.
    pub blocked_covered_seconds: f64,
}

/// Data rate through a port over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PortRate {
    /// The port and the host behind it.
    pub port: String,
    /// Data rate in each bin, in Gb/s. It is a lower bound where `covered` is below 1, and null
    /// where nothing is known.
    pub gbps: Vec<Option<f64>>,
    /// Share of the bin in which the data rate is known, 0 to 1.
    pub covered: Vec<Option<f64>>,
}

impl PortRate {
    pub(crate) fn new(port: String, cells: &[Cell]) -> Self {
        let (gbps, covered) = columns(cells);
        Self {
            port,
            gbps,
            covered,
        }
    }

    /// Sorts rates, largest first.
    pub(crate) fn sort(rates: &mut [Self]) {
        let total = |rate: &Self| rate.gbps.iter().flatten().sum::<f64>();
        rates.sort_by(|a, b| {
            total(b)
                .total_cmp(&total(a))
                .then_with(|| a.port.cmp(&b.port))
        });
    }
}

/// Sums of a job.
pub(super) struct Builder {
    /// For each host, the number of its ports and their traffic.
    pub(super) nodes: BTreeMap<String, (usize, Flow)>,
    injected: Vec<Joined>,
}

/// Returns the blocked time per byte that the nodes sent, in nanoseconds.
fn wait_of(nodes: &[NodeTotal]) -> Option<f64> {
    let sum = |value: fn(&NodeTotal) -> f64| nodes.iter().map(value).sum::<f64>();
    blocked_ns_per_byte(
        (
            sum(|node| node.blocked_seconds),
            sum(|node| node.blocked_covered_seconds),
        ),
        (
            sum(|node| node.injected_bytes),
            sum(|node| node.sent_seconds),
        ),
    )
}

impl Builder {
    pub(super) fn new(bins: usize) -> Self {
        Self {
            nodes: BTreeMap::new(),
            injected: vec![Joined::default(); bins],
        }
    }

    pub(super) fn add_rates(&mut self, cells: &[Cell]) {
        self.injected
            .iter_mut()
            .zip(cells)
            .for_each(|(sum, cell)| sum.add(*cell, |a, b| a + b));
    }

    /// Adds a port with its traffic while the job ran.
    pub(super) fn add(&mut self, host: &str, flow: Flow) {
        let (ports, total) = self.nodes.entry(host.to_owned()).or_default();
        *ports += 1;
        total.add(flow);
    }

    /// Returns the results of the job with this `window`, or of the traffic without a job if it
    /// is `None`.
    pub(super) fn finish(self, window: Option<&Window>) -> JobTotal {
        let node = |(host, (ports, flow)): (String, (usize, Flow))| {
            let of_ports = ports as f64;
            NodeTotal {
                host,
                ports,
                injected_bytes: flow.sent(),
                ejected_bytes: flow.received(),
                covered_seconds: flow.covered_seconds() / of_ports,
                sent_seconds: flow.seconds(Kind::Sent) / of_ports,
                blocked_seconds: flow.of(Kind::Blocked).sum,
                blocked_covered_seconds: flow.seconds(Kind::Blocked) / of_ports,
            }
        };
        let nodes: Vec<NodeTotal> = self.nodes.into_iter().map(node).collect();
        let mean = |value: fn(&NodeTotal) -> f64| {
            nodes.iter().map(value).sum::<f64>() / nodes.len().max(1) as f64
        };
        let found: BTreeSet<String> = nodes.iter().map(|node| node.host.to_lowercase()).collect();
        let sum = |value: fn(&NodeTotal) -> f64| nodes.iter().map(value).sum::<f64>();
        let (injected_gbps, injected_covered) =
            self.injected.into_iter().map(Joined::column).unzip();
        let hosts = window.iter().flat_map(|window| &window.hosts);
        JobTotal {
            job: window.map(|window| window.id.clone()),
            start_ns: window.map(|window| window.from),
            end_ns: window.map(|window| window.to).filter(|to| *to < u64::MAX),
            injected_bytes: sum(|node| node.injected_bytes),
            ejected_bytes: sum(|node| node.ejected_bytes),
            covered_seconds: mean(|node| node.covered_seconds),
            blocked_seconds: sum(|node| node.blocked_seconds),
            blocked_covered_seconds: mean(|node| node.blocked_covered_seconds),
            blocked_ns_per_byte: wait_of(&nodes),
            imbalance: Imbalance::of(nodes.iter().map(|node| node.injected_bytes)),
            missing: hosts
                .filter(|host| !found.contains(&host.to_lowercase()))
                .cloned()
                .collect(),
            injected_gbps,
            injected_covered,
            phases: Vec::new(),
            nodes,
        }
    }
}
