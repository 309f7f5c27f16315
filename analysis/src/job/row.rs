//! The row of a job in the JSON and CSV output.

use serde::Serialize;

use super::all::PortRate;
use super::compare::Comparison;
use super::imbalance::Imbalance;
use super::marks::Phase;
use super::run::JobRun;
use super::sharing::Sharing;
use super::{Job, Leaf, LocalTraffic, Node, Step, Uplink, mean};
use crate::heat::rows::HeatRow;
use crate::host_metrics::panels::Columns;
use crate::rows::Row;

/// A job. In CSV output each node has its own line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobRow<'a> {
    /// Job ID. Null if only the nodes were given.
    pub job: Option<&'a str>,
    /// Name of the job. Null if unknown.
    pub name: Option<&'a str>,
    /// State of the job in lower case. Null if unknown.
    pub state: Option<&'a str>,
    /// Start of the job in nanoseconds since 1970. Null if unknown.
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
    pub nodes: &'a [Node],
    /// Names of hosts without records.
    pub missing: &'a [String],
    /// Traffic that stayed on the leaf switches.
    pub stays: LocalTraffic,
    /// Leaf switches of the job.
    pub leaves: &'a [Leaf],
    /// Links from the leaf switches to other switches, the one with most traffic of the job
    /// first.
    pub uplinks: &'a [Uplink],
    /// Length of a step in nanoseconds.
    pub step_ns: u64,
    /// Traffic of all nodes over time.
    pub steps: &'a [Step],
    /// Data rates from the switch ports into the nodes for each step, largest first.
    pub into: &'a [PortRate],
    /// The jobs that shared links with the job, and the congestion that held it up. Null if only
    /// the nodes were given.
    pub sharing: Option<&'a Sharing>,
    /// Run time against blocked time over all runs. Null except in the first row of several runs.
    pub comparison: Option<Comparison>,
    /// Phases of the application. Null without marks.
    pub phases: Option<&'a [Phase]>,
    /// Metrics of the job's hosts in the steps, one row for each metric and host. Null without a
    /// source of host metrics.
    pub host_metrics: Option<Vec<HeatRow<'a>>>,
}

impl Row for JobRow<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "job",
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
        "nodes_blocked",
        "nodes_blocked_peak",
        "nodes_blocked_seconds",
        "nodes_blocked_covered_seconds",
    ];
}

impl Job {
    /// Returns the steps as columns of a time axis, without gaps.
    pub fn columns(&self) -> Columns {
        let (first, last) = (
            self.steps.first().map_or(0, |step| step.ts),
            self.steps.last().map_or(0, |step| step.ts),
        );
        let step_ns = self.step_ns.max(1);
        Columns {
            start_ns: first,
            step_ns,
            count: ((last - first) / step_ns) as usize + usize::from(!self.steps.is_empty()),
        }
    }

    /// Returns the time in which the bytes are known, in seconds: the mean of the nodes.
    pub fn covered_seconds(&self) -> f64 {
        mean(
            &self
                .nodes
                .iter()
                .map(|node| node.covered_seconds)
                .collect::<Vec<_>>(),
        )
        .unwrap_or(0.0)
    }

    /// Returns the time in which the blocked time is known, in seconds: the mean of the nodes.
    pub fn blocked_covered_seconds(&self) -> f64 {
        mean(
            &self
                .nodes
                .iter()
                .map(|node| node.blocked_covered_seconds)
                .collect::<Vec<_>>(),
        )
        .unwrap_or(0.0)
    }

    /// Returns the row of the job without `sharing` and `host_metrics`. `id` is its job ID, and
    /// `run` gives its name, state and times, if known.
    pub fn row<'a>(&'a self, id: Option<&'a str>, run: Option<&'a JobRun>) -> JobRow<'a> {
        let sum = |value: fn(&Node) -> f64| self.nodes.iter().map(value).sum();
        JobRow {
            job: id,
            name: run.and_then(|run| run.name.as_deref()),
            state: run.map(|run| &*run.state).filter(|state| !state.is_empty()),
            start_ns: run.and_then(|run| run.from),
            end_ns: run.and_then(|run| run.to),
            injected_bytes: sum(|node| node.injected_bytes),
            ejected_bytes: sum(|node| node.ejected_bytes),
            covered_seconds: self.covered_seconds(),
            blocked_seconds: sum(|node| node.blocked_seconds),
            blocked_covered_seconds: self.blocked_covered_seconds(),
            nodes: &self.nodes,
            missing: &self.missing,
            stays: self.stays,
            leaves: &self.leaves,
            uplinks: &self.uplinks,
            step_ns: self.step_ns,
            steps: &self.steps,
            into: &self.into,
            blocked_ns_per_byte: self.blocked_ns_per_byte,
            imbalance: self.imbalance,
            sharing: None,
            comparison: None,
            phases: None,
            host_metrics: None,
        }
    }
}
