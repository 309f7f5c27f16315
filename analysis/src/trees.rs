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
use crate::rows::Row;

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
    /// Time during which the tree existed, in seconds.
    pub seconds: f64,
    /// Mean share of the data rate that the root used, 0 to 1.
    pub xmit_utilization: f64,
    /// Share of the time in which the root itself was blocked, 0 to 1.
    pub blocked: f64,
    /// Sum of the blocked times of all ports of the tree, including the root, in seconds. If a port
    /// may have waited for several roots, each root gets an equal part.
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
        "seconds",
        "xmit_utilization",
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

    /// Keeps the trees of these hosts: those with a root, its peer, or a victim that belongs to one of
    /// them.
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

    /// Returns the rows of the JSON output.
    pub fn rows(&self) -> Vec<TreeRow> {
        self.trees.iter().map(|tree| self.row(tree)).collect()
    }

    fn row(&self, tree: &Tree) -> TreeRow {
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
            link: self.labels.get(&tree.root).map_or_else(String::new, |label| label.link.to_string()),
            why: tree.cause,
            seconds: tree.seconds,
            xmit_utilization: tree.used_seconds / tree.seconds,
            blocked: tree.blocked_seconds / tree.seconds,
            held_up_seconds: tree.held_up_seconds,
            host_ports,
            switch_ports: victims.len() - host_ports,
            victims,
        }
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
mod tests {
    use super::*;
    use crate::fixtures::{fold, port};
    use crate::ports::Ports;

    const LEAF: u64 = 1;
    const CORE: u64 = 2;
    const SERVER: u64 = 0x200;

    /// Returns records of both ends of a link in a slot, with utilization and blocked share of each
    /// direction.
    fn link(slot: u64, one: (u64, u8, &str), other: (u64, u8, &str), out: (f64, f64), back: (f64, f64)) -> [String; 2] {
        let rest = |load: (f64, f64)| [("xmit_utilization", load.0.into()), ("xmit_blocked", load.1.into())];
        [port(slot, (one.0, one.1), one.2, other, &rest(out)), port(slot, (other.0, other.1), other.2, (one.0, one.1, one.2), &rest(back))]
    }

    /// Returns the records of a small fabric: two hosts on a leaf switch; the leaf switch, a server
    /// and a third host on a core switch. In slots 1 and 2 the server gets more traffic than its
    /// link carries.
    fn incast() -> Vec<String> {
        let idle = (0.0, 0.0);
        let mut lines = Vec::new();
        for slot in 1..=4 {
            let when = |load: (f64, f64)| if slot <= 2 { load } else { (0.3, 0.0) };
            for host in 1..=2 {
                lines.extend(link(slot, (0x100 + host, 1, "n mlx5_0"), (LEAF, host as u8, "leaf"), when((0.25, 0.75)), idle));
            }
            lines.extend(link(slot, (LEAF, 9, "leaf"), (CORE, 1, "core"), when((0.5, 0.5)), idle));
            lines.extend(link(slot, (0x103, 1, "far mlx5_0"), (CORE, 3, "core"), (0.97, 0.0), idle));
            lines.extend(link(slot, (CORE, 2, "core"), (SERVER, 1, "oss1\u{1b} mlx5_0"), when((0.99, 0.0)), idle));
        }
        lines
    }

    fn trees(lines: &[String]) -> Trees {
        Trees::find(&fold(Ports::with_bins(64), lines).finish(), Limits::default())
    }

    fn key(guid: u64, port: u8) -> PortKey {
        (Guid(guid), PortNum(port))
    }

    #[test]
    fn full_port_is_the_root_of_the_ports_that_wait_for_it() {
        let found = trees(&incast());
        assert_eq!(
            found.trees.iter().map(|tree| (tree.root, tree.cause, tree.seconds)).collect::<Vec<_>>(),
            [(key(CORE, 2), RootCause::Full, 2.0)]
        );
        let branches: Vec<_> =
            found.trees[0].branches.iter().map(|(key, branch)| (*key, branch.next, branch.depth, branch.blocked_seconds)).collect();
        let up = key(LEAF, 9);
        assert_eq!(branches, [(up, key(CORE, 2), 1, 1.0), (key(0x101, 1), up, 2, 1.5), (key(0x102, 1), up, 2, 1.5)]);
        assert_eq!((found.trees[0].held_up_seconds, found.seconds), (4.0, 2.0));
        assert!(found.circles.is_empty());
    }

    #[test]
    fn trees_are_selected_by_their_hosts() {
        for (hosts, count) in [("oss1", 0), ("n", 1), ("far", 0), ("core", 1)] {
            let mut found = trees(&incast());
            found.retain_hosts(&Hosts::parse(hosts).expect("a host list"));
            assert_eq!(found.trees.len(), count, "{hosts}");
        }
    }

    #[test]
    fn slow_host_is_a_root() {
        let idle = (0.0, 0.0);
        let mut lines = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.2, 0.6), idle).to_vec();
        lines.extend(link(1, (LEAF, 2, "leaf"), (SERVER, 1, "slow"), (0.2, 0.7), idle));
        let found = trees(&lines);
        assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.cause)).collect::<Vec<_>>(), [(key(LEAF, 2), RootCause::SlowHost)]);
        assert_eq!(found.trees[0].branches.keys().collect::<Vec<_>>(), [&key(0x101, 1)]);
    }

    #[test]
    fn unknown_roots_and_circles_are_reported() {
        let idle = (0.0, 0.0);
        let found = trees(&link(1, (LEAF, 1, "leaf"), (CORE, 1, "core"), (0.2, 0.6), idle));
        assert_eq!(found.trees.iter().map(|tree| (tree.root, tree.cause)).collect::<Vec<_>>(), [(key(LEAF, 1), RootCause::Unclear)]);
        let ring = [(1, 2), (2, 3), (3, 1)].map(|(from, to)| link(1, (from, 1, "s"), (to, 2, "s"), (0.2, 0.6), idle)).concat();
        let found = trees(&ring);
        assert_eq!((found.trees.len(), found.circles.len()), (0, 3));
    }

    #[test]
    fn without_congestion_there_is_no_tree() {
        let busy = link(1, (0x101, 1, "n1"), (LEAF, 1, "leaf"), (0.99, 0.0), (0.99, 0.0));
        let found = trees(&busy);
        assert!(found.trees.is_empty() && found.circles.is_empty());
    }

    #[test]
    fn row_has_the_root_and_its_victims() {
        let rows = trees(&incast()).rows();
        let json = serde_json::to_value(&rows[0]).expect("a row");
        assert_eq!((&json["root"]["node"], &json["why"], &json["seconds"]), (&"core".into(), &"full".into(), &2.0.into()));
        assert_eq!((rows[0].host_ports, rows[0].switch_ports, rows[0].xmit_utilization, rows[0].blocked), (2, 1, 0.99, 0.0));
        let victims: Vec<_> = rows[0].victims.iter().map(|victim| (victim.port.to_string(), victim.waits_for.to_string())).collect();
        assert_eq!(victims[0], ("leaf port 9".to_owned(), "core port 2".to_owned()));
        assert_eq!(json["victims"][0]["blocked_seconds"], 1.0);
    }
}
