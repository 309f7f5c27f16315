//! Congestion trees: which port makes which other ports wait.
//!
//! A port *waits* (is *blocked*) if it has data to send and no credit from its peer. The peer has
//! no buffer space: its input buffer is full of packets, and these packets wait for an output port
//! of the same switch. There are two cases. Either the output port also waits, for the same reason.
//! Or it sends at the full rate of its link, and is the *root* of the tree. So the search starts at
//! each port that is full and does not wait. From there it follows the waiting ports back from
//! switch to switch. A port that waits for an HCA is also a root, because the host receives its
//! packets too slowly.
//!
//! Congestion changes over time. So the search runs for each interval separately, and the results
//! are summed for each root.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ibnet::types::{Guid, NodeKind, PortNum};
use serde::Serialize;

use crate::hosts::Hosts;
use crate::ports::bins::TimeBin;
use crate::ports::{PortKey, PortName, PortSummary, with_equal_bins};

mod rows;

pub use rows::{TreeRow, VictimRow};

/// Limits that define congestion.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// A port counts as waiting if it is blocked for more than this share of an interval, 0 to 1.
    pub waits: f64,
    /// A port counts as full if it uses more than this share of the data rate of its link, 0 to 1.
    pub full: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { waits: 0.1, full: 0.9 }
    }
}

/// All congestion trees of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Trees {
    /// The trees, sorted by the time for which they blocked ports, longest first.
    pub trees: Vec<Tree>,
    /// Ports that waited for each other in a circle without a root. The value is the time for which
    /// the port waited, in seconds.
    pub circles: BTreeMap<PortKey, f64>,
    /// Time during which at least one port waited, in seconds.
    pub seconds: f64,
    labels: BTreeMap<PortKey, PortLabel>,
}

/// A root and the ports that waited for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// The port where the congestion begins.
    pub root: PortKey,
    /// Cause of the tree.
    pub cause: RootCause,
    /// Time during which the tree existed, in seconds.
    pub seconds: f64,
    /// Time that the link would need at its full data rate for the data that the root sent during
    /// `seconds`, in seconds. It is the sum of utilization x duration of the intervals.
    pub used_seconds: f64,
    /// Time for which the root itself was blocked, in seconds.
    pub blocked_seconds: f64,
    /// Sum of the blocked times of all ports of the tree, including the root, in seconds. If a port
    /// may have waited for several roots, each root gets an equal part.
    pub held_up_seconds: f64,
    /// The waiting ports.
    pub branches: BTreeMap<PortKey, Branch>,
}

/// Cause of a tree: the reason why a port is its root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RootCause {
    /// The port sends at the full rate of its link.
    Full,
    /// The port waits for an HCA that receives its packets too slowly.
    SlowHost,
    /// The port waits for a switch, but no recorded port of that switch is full or waits.
    Unclear,
}

/// A port that waited in a tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Branch {
    /// The port for which this port waited: the next one on the path to the root.
    pub next: PortKey,
    /// Number of links to the root.
    pub depth: usize,
    /// Time for which the port belonged to the tree, in seconds.
    pub seconds: f64,
    /// Time for which the port was blocked, in seconds.
    pub blocked_seconds: f64,
    /// Time that the link would need at its full data rate for the data that the port sent during
    /// `seconds`, in seconds. It is the sum of utilization x duration of the intervals.
    pub used_seconds: f64,
}

/// Name and link of a port.
#[derive(Clone, PartialEq, Debug)]
struct PortLabel {
    node: Box<str>,
    is_host: bool,
    peer: Option<PortName>,
    link: Box<str>,
}

/// Load of a port in one interval of time.
#[derive(Clone, Copy)]
struct PortLoad {
    peer: PortKey,
    leads_to_host: bool,
    used: f64,
    blocked: f64,
    seconds: f64,
}

impl Trees {
    /// Finds all trees. The input must have been read in several time intervals, because the search
    /// runs for each interval.
    pub fn find(ports: &BTreeMap<PortKey, PortSummary>, limits: Limits) -> Self {
        let labels = ports.iter().map(|(key, port)| (*key, PortLabel::of(port))).collect();
        let mut found = Self { trees: Vec::new(), circles: BTreeMap::new(), seconds: 0.0, labels };
        let mut trees: BTreeMap<(PortKey, RootCause), Tree> = BTreeMap::new();
        let ports = with_equal_bins(ports);
        let intervals: BTreeSet<u64> = ports.values().flat_map(|port| port.bins.iter().map(|(number, _)| number)).collect();
        for interval in intervals {
            let loads: BTreeMap<PortKey, PortLoad> =
                ports.iter().filter_map(|(key, port)| Some((*key, PortLoad::of(port, &ports, interval)?))).collect();
            let seconds = loads.values().map(|load| load.seconds).fold(0.0, f64::max);
            found.seconds += if found.search(&loads, limits, &mut trees) { seconds } else { 0.0 };
        }
        found.trees = trees.into_values().collect();
        // Trees of equal weight stay in the order of their GUIDs.
        found.trees.sort_by(|a, b| b.held_up_seconds.total_cmp(&a.held_up_seconds));
        found
    }

    /// Searches one interval of time. Returns whether any port waited.
    fn search(&mut self, loads: &BTreeMap<PortKey, PortLoad>, limits: Limits, trees: &mut BTreeMap<(PortKey, RootCause), Tree>) -> bool {
        let waits = |load: &PortLoad| load.blocked > limits.waits;
        let full = |load: &PortLoad| load.used > limits.full && !waits(load);
        // The waiting ports, grouped by the device at the other end of their links.
        let mut waiting: BTreeMap<Guid, Vec<PortKey>> = BTreeMap::new();
        for (key, load) in loads.iter().filter(|(_, load)| waits(load)) {
            waiting.entry(load.peer.0).or_default().push(*key);
        }
        // The possible roots of each waiting port.
        let mut explained: BTreeMap<PortKey, Vec<(PortKey, RootCause)>> = BTreeMap::new();
        let mut grow = |root: PortKey, cause: RootCause, explained: &mut BTreeMap<PortKey, Vec<(PortKey, RootCause)>>| {
            let load = &loads[&root];
            let tree = trees.entry((root, cause)).or_insert_with(|| Tree::new(root, cause));
            tree.seconds += load.seconds;
            tree.used_seconds += load.used * load.seconds;
            tree.blocked_seconds += load.blocked * load.seconds;
            let mut queue = VecDeque::from([(root, 0)]);
            let mut reached = BTreeSet::from([root]);
            while let Some((next, depth)) = queue.pop_front() {
                explained.entry(next).or_default().push((root, cause));
                for key in waiting.get(&next.0).into_iter().flatten() {
                    // A packet does not leave a switch through the port where it came in.
                    if loads[key].peer != next && reached.insert(*key) {
                        tree.add(*key, next, depth + 1, &loads[key]);
                        queue.push_back((*key, depth + 1));
                    }
                }
            }
        };
        for (key, load) in loads {
            // A full port is a root only if another port waits for it.
            let has_victim = || waiting.get(&key.0).is_some_and(|waiting| waiting.iter().any(|one| loads[one].peer != *key));
            if waits(load) && load.leads_to_host {
                grow(*key, RootCause::SlowHost, &mut explained);
            } else if full(load) && has_victim() {
                grow(*key, RootCause::Full, &mut explained);
            }
        }
        // Some waiting ports belong to no tree yet. Such a port becomes a root of unknown cause if
        // no other port of the switch at the other end of its link waits or is full.
        let is_busy = |guid: Guid, except: PortKey| {
            let of_device = loads.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)));
            of_device.into_iter().any(|(key, load)| *key != except && (waits(load) || full(load)))
        };
        let ends: Vec<PortKey> = waiting
            .values()
            .flatten()
            .copied()
            .filter(|key| !explained.contains_key(key) && !is_busy(loads[key].peer.0, loads[key].peer))
            .collect();
        ends.into_iter().for_each(|key| grow(key, RootCause::Unclear, &mut explained));
        for key in waiting.values().flatten().filter(|key| !explained.contains_key(key)) {
            *self.circles.entry(*key).or_default() += loads[key].seconds;
        }
        for (key, roots) in &explained {
            let part = loads[key].blocked * loads[key].seconds / roots.len() as f64;
            for root in roots {
                if let Some(tree) = trees.get_mut(root) {
                    tree.held_up_seconds += part;
                }
            }
        }
        !waiting.is_empty()
    }

    /// Keeps the trees of these hosts. A tree is kept if its root, the peer of its root or one of
    /// its victims belongs to one of the hosts.
    pub fn retain_hosts(&mut self, hosts: &Hosts) {
        let labels = &self.labels;
        let node = |key: &PortKey| labels.get(key).is_some_and(|label| hosts.contains_node(&label.node));
        let peer =
            |key: &PortKey| labels.get(key).and_then(|label| label.peer.as_ref()).is_some_and(|peer| hosts.contains_node(&peer.node));
        self.trees.retain(|tree| node(&tree.root) || peer(&tree.root) || tree.branches.keys().any(node));
        self.circles.retain(|key, _| node(key));
    }

    /// Returns the name of a port.
    pub fn name(&self, key: PortKey) -> PortName {
        PortName::new(self.labels.get(&key).map_or("", |label| &label.node), key)
    }

    /// Returns the name of the peer of a port, or `None` if the peer is not known.
    pub fn peer(&self, key: PortKey) -> Option<PortName> {
        self.labels.get(&key).and_then(|label| label.peer.clone())
    }

    /// Returns whether the port belongs to an HCA.
    pub fn is_host(&self, key: PortKey) -> bool {
        self.labels.get(&key).is_some_and(|label| label.is_host)
    }
}

impl Tree {
    const fn new(root: PortKey, cause: RootCause) -> Self {
        Self { root, cause, seconds: 0.0, used_seconds: 0.0, blocked_seconds: 0.0, held_up_seconds: 0.0, branches: BTreeMap::new() }
    }

    fn add(&mut self, key: PortKey, next: PortKey, depth: usize, load: &PortLoad) {
        let branch = self.branches.entry(key).or_insert(Branch { next, depth, seconds: 0.0, blocked_seconds: 0.0, used_seconds: 0.0 });
        branch.seconds += load.seconds;
        branch.blocked_seconds += load.blocked * load.seconds;
        branch.used_seconds += load.used * load.seconds;
    }
}

impl PortLoad {
    fn of(port: &PortSummary, ports: &BTreeMap<PortKey, PortSummary>, interval: u64) -> Option<Self> {
        let (peer, bin) = (port.peer?, port.bins.get(interval)?);
        let other = ports.get(&peer);
        let received = |bin: &TimeBin| bin.rcv_utilization.mean();
        let used = bin.xmit_utilization.mean().or_else(|| received(other?.bins.get(interval)?)).unwrap_or(0.0);
        let seconds = bin.xmit_utilization.seconds().max(bin.blocked.seconds());
        let leads_to_host = other.and_then(|other| other.kind) == Some(NodeKind::Hca);
        Some(Self { peer, leads_to_host, used, blocked: bin.blocked.mean().unwrap_or(0.0), seconds })
    }
}

impl PortLabel {
    fn of(port: &PortSummary) -> Self {
        Self { node: port.node.clone(), is_host: port.kind == Some(NodeKind::Hca), peer: port.peer_port(), link: port.link.clone() }
    }
}

#[cfg(test)]
mod tests;
