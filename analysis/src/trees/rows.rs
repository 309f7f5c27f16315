//! The rows of congestion trees in the JSON and CSV output.

use serde::Serialize;

use super::{Branch, Confidence, RootCause, Tree, Trees};
use crate::ports::{PortKey, PortName};
use crate::rows::Row;

/// A congestion tree in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TreeRow {
    /// The port where the congestion begins.
    pub root: PortName,
    /// The port at the other end of the root's link.
    pub to: Option<PortName>,
    /// Width and speed of the root's link, such as `4xEDR`.
    pub link: String,
    /// Cause of the tree.
    pub why: RootCause,
    /// How surely the port is the root; null for a cause that the model of `docs/congestion.md`
    /// does not have.
    pub confidence: Option<Confidence>,
    /// Max number of other ports with records of the device at the end of the root's link. If the
    /// cause is unclear, the root is perhaps one of those without records.
    pub ports_beyond: usize,
    /// Start of the first interval of the tree, in nanoseconds since 1970.
    pub since_ns: u64,
    /// End of the last interval of the tree, in nanoseconds since 1970.
    pub until_ns: u64,
    /// Time during which the tree existed, in seconds.
    pub seconds: f64,
    /// Mean share of the data rate that the root used, 0 to 1.
    pub xmit_utilization: f64,
    /// Max share of the data rate that the root used in an interval, 0 to 1.
    pub xmit_utilization_peak: f64,
    /// Share of the time in which the root itself was blocked, 0 to 1.
    pub blocked: f64,
    /// Blocked time of all ports of the tree, including the root, in seconds. If a port may have
    /// waited for several roots, each root gets an equal part.
    pub held_up_seconds: f64,
    /// Number of HCA ports that waited.
    pub host_ports: usize,
    /// Number of switch ports that waited.
    pub switch_ports: usize,
    /// The ports that waited.
    pub victims: Vec<VictimRow>,
}

impl Row for TreeRow {
    const COLUMNS: &'static [&'static str] = &[
        "root_guid",
        "root_port",
        "root_node",
        "to_guid",
        "to_port",
        "to_node",
        "link",
        "why",
        "confidence",
        "ports_beyond",
        "since_ns",
        "until_ns",
        "seconds",
        "xmit_utilization",
        "xmit_utilization_peak",
        "blocked",
        "held_up_seconds",
        "host_ports",
        "switch_ports",
        "victims_guid",
        "victims_port",
        "victims_node",
        "victims_to_guid",
        "victims_to_port",
        "victims_to_node",
        "victims_is_host",
        "victims_waits_for_guid",
        "victims_waits_for_port",
        "victims_waits_for_node",
        "victims_depth",
        "victims_seconds",
        "victims_blocked_seconds",
        "victims_used_seconds",
    ];
}

/// A port that waited, in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VictimRow {
    /// The port.
    #[serde(flatten)]
    pub port: PortName,
    /// The port at the other end of its link.
    pub to: Option<PortName>,
    /// Whether the port belongs to an HCA.
    pub is_host: bool,
    /// The port for which this port waited: the next one on the path to the root.
    pub waits_for: PortName,
    /// Number of links to the root.
    pub depth: usize,
    /// Time for which the port belonged to the tree, in seconds.
    pub seconds: f64,
    /// Time for which the port was blocked, in seconds.
    pub blocked_seconds: f64,
    /// Time that the link would need at its full data rate for what the port sent during
    /// `seconds`, in seconds: the sum of utilization x duration of the intervals.
    pub used_seconds: f64,
}

impl Trees {
    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<TreeRow> {
        self.trees.iter().map(|tree| self.row(tree)).collect()
    }

    /// Returns the row of a tree.
    pub fn row(&self, tree: &Tree) -> TreeRow {
        let victim = |(key, branch): (&PortKey, &Branch)| VictimRow {
            port: self.name(*key),
            to: self.peer(*key),
            is_host: self.is_host(*key),
            waits_for: self.name(branch.next),
            depth: branch.depth,
            seconds: branch.seconds,
            blocked_seconds: branch.blocked_seconds,
            used_seconds: branch.used_seconds,
        };
        let victims: Vec<VictimRow> = tree.branches.iter().map(victim).collect();
        let host_ports = victims.iter().filter(|victim| victim.is_host).count();
        TreeRow {
            root: self.name(tree.root),
            to: self.peer(tree.root),
            link: self
                .labels
                .get(&tree.root)
                .map_or_else(String::new, |label| label.link.to_string()),
            why: tree.cause,
            confidence: tree.confidence(),
            ports_beyond: tree.ports_beyond,
            since_ns: tree.span_ns.0,
            until_ns: tree.span_ns.1,
            seconds: tree.seconds,
            xmit_utilization: tree.used_seconds / tree.seconds,
            xmit_utilization_peak: tree.used_peak,
            blocked: tree.blocked_seconds / tree.seconds,
            held_up_seconds: tree.held_up_seconds,
            host_ports,
            switch_ports: victims.len() - host_ports,
            victims,
        }
    }
}
