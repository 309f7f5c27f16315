//! Congestion trees: which port makes which other ports wait.
//!
//! A port *waits* (is *blocked*) if it has data to send but no credit from its peer. The peer has
//! no buffer space, because its input buffer is full of packets that wait for an output port of
//! the same switch. Either this output port also waits, for the same reason, or it sends nearly at
//! the full rate of its link and is the *root* of the tree. The search therefore starts at each
//! port that is full while no port after it uses more, and follows the waiting ports back from
//! switch to switch. A port that waits for an HCA is also a root, because the host receives its
//! packets too slowly, and so is a port that waits for a device that does not answer.
//!
//! Congestion changes over time, so the search runs for each interval separately, and the results
//! are summed for each root. Congestion that is shorter than an interval fills no port on average;
//! there, the search follows the waiting ports over the busiest ones.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::NodeKind;
use serde::Serialize;

use self::search::{Explained, Places, PortLoad, Snapshot, Waiting};
use crate::devices::Devices;
use crate::hosts::Hosts;
use crate::ports::{PortKey, PortName, PortSummary, with_equal_bins};
use crate::routing::Onward;

mod monet;
mod regions;
mod rows;
mod search;
pub mod truth;
mod ways;

pub use regions::{RegionJob, RegionRow};
pub use rows::{TreeRow, VictimRow};

/// Limits that define congestion, and what is known about the paths of packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits<'a> {
    /// A port counts as waiting if it is blocked for more than this share of an interval, 0 to 1.
    pub waits: f64,
    /// A port counts as full if it uses more than this share of the data rate of its link, 0 to 1.
    pub full: f64,
    /// Which ports follow each other on paths. A port waits only for ports that follow it. `None`
    /// if the routes are unknown or adaptive: then each port of the next switch can follow.
    pub routes: Option<&'a Onward>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Self {
            waits: 0.1,
            full: 0.75,
            routes: None,
        }
    }
}

/// All congestion trees of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Trees {
    /// The trees, with the one that blocked ports for the longest time first.
    pub trees: Vec<Tree>,
    /// Ports that waited for each other in a circle without a root, each with the time for which
    /// it waited, in seconds.
    pub circles: BTreeMap<PortKey, f64>,
    /// Time during which at least one port waited, in seconds.
    pub seconds: f64,
    /// Length of the intervals in nanoseconds. Shorter congestion can be missed.
    pub interval_ns: u64,
    /// Names and links of the ports in the trees.
    labels: BTreeMap<PortKey, PortLabel>,
    /// A tree that is not in more than this number of intervals has ended, and its root begins
    /// another one. `None` for one tree for each root.
    gap: Option<u64>,
    /// The trees that can go on, while intervals are searched.
    open: BTreeMap<(PortKey, RootCause), Tree>,
    /// End of the last interval that was searched, in nanoseconds since 1970.
    until_ns: u64,
}

/// A root and the ports that waited for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Tree {
    /// The port where the congestion begins.
    pub root: PortKey,
    /// Cause of the tree.
    pub cause: RootCause,
    /// Start of the first and end of the last interval of the tree, in nanoseconds since 1970.
    pub span_ns: (u64, u64),
    /// Time during which the tree existed, in seconds.
    pub seconds: f64,
    /// Time that the link would need at its full data rate for what the root sent during
    /// `seconds`, in seconds: the sum of utilization x duration of the intervals.
    pub used_seconds: f64,
    /// Max share of its data rate that the root used in an interval, 0 to 1.
    pub used_peak: f64,
    /// Time for which the root itself was blocked, in seconds.
    pub blocked_seconds: f64,
    /// Blocked time of all ports of the tree, including the root, in seconds. If a port may have
    /// waited for several roots, each root gets an equal part.
    pub held_up_seconds: f64,
    /// The part of `seconds` with each confidence.
    pub sure_seconds: BTreeMap<Confidence, f64>,
    /// Max number of other ports with records of the device at the end of the root's link, in an
    /// interval. If the cause is unclear, the root is perhaps one of those without records.
    pub ports_beyond: usize,
    /// The waiting ports.
    pub branches: BTreeMap<PortKey, Branch>,
}

/// Cause of a tree: why a port is its root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RootCause {
    /// More packets come to the port than its link carries.
    Full,
    /// The port waits for an HCA that receives its packets too slowly.
    SlowHost,
    /// The port waits for a device that does not answer.
    Unreachable,
    /// The port waits for a switch, but no recorded port of that switch is full or waits.
    Unclear,
}

/// How surely a port is the root. `docs/congestion.md` says how often each is right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The port had packets for a part of the interval only: the congestion was short.
    Low,
    /// The port is full but itself blocked, or it always had packets.
    Medium,
    /// The port is full and hardly blocked, or it waits for a host.
    High,
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
    /// Time that the link would need at its full data rate for what the port sent during
    /// `seconds`, in seconds: the sum of utilization x duration of the intervals.
    pub used_seconds: f64,
}

/// Waiting of a port for a root in an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wait {
    /// The root, and why it is one.
    pub root: (PortKey, RootCause),
    /// The waiting port.
    pub port: PortKey,
    /// Start and end of the interval in nanoseconds since 1970.
    pub span_ns: (u64, u64),
    /// Blocked time in seconds. If the port may have waited for several roots, each root gets an
    /// equal part.
    pub seconds: f64,
}

/// Name and link of a port.
#[derive(Clone, PartialEq, Debug)]
struct PortLabel {
    node: Box<str>,
    is_host: bool,
    peer: Option<PortName>,
    link: Box<str>,
}

impl Trees {
    /// Finds all trees. The search runs for each interval, so the input must have been read in
    /// several intervals. `devices` shows which devices did not answer.
    pub fn find(
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits<'_>,
    ) -> Self {
        Self::find_each(ports, devices, limits, |_| {})
    }

    /// Finds all trees as [`Self::find`] does, and passes each waiting of a port to `each`.
    pub fn find_each(
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits<'_>,
        each: impl FnMut(Wait),
    ) -> Self {
        let mut found = Self::new(None);
        Self::search(ports, devices, limits, &mut [&mut found], each);
        found
    }

    const fn new(gap: Option<u64>) -> Self {
        Self {
            trees: Vec::new(),
            circles: BTreeMap::new(),
            seconds: 0.0,
            interval_ns: 0,
            labels: BTreeMap::new(),
            gap,
            open: BTreeMap::new(),
            until_ns: 0,
        }
    }

    /// Searches each interval once, and adds what it shows to all of `into` that do not know the
    /// interval yet.
    fn search(
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits<'_>,
        into: &mut [&mut Self],
        mut each: impl FnMut(Wait),
    ) {
        let with_bins = with_equal_bins(ports);
        let widths = with_bins.values().map(|port| port.bins.width_ns());
        let interval_ns = widths.max().unwrap_or(0);
        for found in &mut *into {
            found.interval_ns = interval_ns;
            found.trees.sort_by_key(|tree| tree.span_ns.1);
            for tree in std::mem::take(&mut found.trees) {
                let earlier = found.open.insert((tree.root, tree.cause), tree);
                found.trees.extend(earlier);
            }
        }
        for_each_snapshot(&with_bins, interval_ns, devices, limits, |snapshot| {
            for found in &mut *into {
                found.add(snapshot, &mut each);
            }
        });
        for found in into {
            found
                .trees
                .extend(std::mem::take(&mut found.open).into_values());
            // The sort is stable, so trees of equal weight stay in the order of their GUIDs.
            found
                .trees
                .sort_by(|a, b| b.held_up_seconds.total_cmp(&a.held_up_seconds));
            found.label(ports);
        }
    }

    /// Takes the names of the ports in the trees. A known name stays.
    fn label(&mut self, ports: &BTreeMap<PortKey, PortSummary>) {
        let mut known = std::mem::take(&mut self.labels);
        let in_trees = self.trees.iter().flat_map(|tree| {
            let branches = tree.branches.keys().copied();
            branches.chain([tree.root])
        });
        let mut without_records = BTreeSet::new();
        for key in in_trees.chain(self.circles.keys().copied()) {
            // A port is in many trees.
            if self.labels.contains_key(&key) {
                continue;
            }
            let label = known.remove(&key);
            match label.or_else(|| ports.get(&key).map(PortLabel::of)) {
                Some(label) => drop(self.labels.insert(key, label)),
                None => drop(without_records.insert(key)),
            }
        }
        if without_records.is_empty() {
            return;
        }
        for (key, port) in ports {
            if let Some(peer) = port.peer.filter(|peer| without_records.contains(peer)) {
                self.labels.insert(peer, PortLabel::of_peer(*key, port));
            }
        }
    }

    /// Adds the trees of an interval.
    fn add(&mut self, snapshot: &Snapshot<'_>, each: &mut impl FnMut(Wait)) {
        let from = snapshot.number.saturating_mul(self.interval_ns);
        if from < self.until_ns {
            return;
        }
        self.until_ns = from.saturating_add(self.interval_ns);
        if let Some(gap) = self.gap {
            let last = from.saturating_sub(gap.saturating_mul(self.interval_ns));
            let ended = self.open.extract_if(.., |_, tree| tree.span_ns.1 < last);
            self.trees.extend(ended.map(|(_, tree)| tree));
        }
        if snapshot.is_congested() {
            self.seconds += snapshot.seconds();
        }
        for ((root, cause), waiting) in &snapshot.roots {
            let key = snapshot.key(*root);
            let tree = self
                .open
                .entry((key, *cause))
                .or_insert_with(|| Tree::new(key, *cause));
            tree.extend(snapshot.number, self.interval_ns);
            tree.add(snapshot.load(*root), snapshot.confidence((*root, *cause)));
            tree.ports_beyond = tree.ports_beyond.max(snapshot.ports_beyond(*root));
            waiting
                .iter()
                .for_each(|waiting| tree.add_branch(waiting, snapshot));
        }
        for place in snapshot.open() {
            let seconds = self.circles.entry(snapshot.key(place)).or_default();
            *seconds += snapshot.load(place).seconds;
        }
        for (place, roots) in &snapshot.explained {
            let load = snapshot.load(*place);
            let part = load.blocked * load.seconds / roots.len() as f64;
            for (root, cause) in roots {
                let root = (snapshot.key(*root), *cause);
                if let Some(tree) = self.open.get_mut(&root) {
                    tree.held_up_seconds += part;
                    each(Wait {
                        root,
                        port: snapshot.key(*place),
                        span_ns: (from, self.until_ns),
                        seconds: part,
                    });
                }
            }
        }
    }

    /// Keeps only the trees whose root, peer of the root or one of the victims belongs to one of
    /// these hosts.
    pub fn retain_hosts(&mut self, hosts: &Hosts) {
        let labels = &self.labels;
        let node = |key: &PortKey| {
            labels
                .get(key)
                .is_some_and(|label| hosts.contains_node(&label.node))
        };
        let peer = |key: &PortKey| {
            labels
                .get(key)
                .and_then(|label| label.peer.as_ref())
                .is_some_and(|peer| hosts.contains_node(&peer.node))
        };
        self.trees
            .retain(|tree| node(&tree.root) || peer(&tree.root) || tree.branches.keys().any(node));
        self.circles.retain(|key, _| node(key));
    }

    /// Returns the name of a port.
    pub fn name(&self, key: PortKey) -> PortName {
        PortName::new(self.labels.get(&key).map_or("", |label| &label.node), key)
    }

    /// Returns the name of the peer of a port, or `None` if the peer is unknown.
    pub fn peer(&self, key: PortKey) -> Option<PortName> {
        self.labels.get(&key).and_then(|label| label.peer.clone())
    }

    /// Returns whether the port belongs to an HCA.
    pub fn is_host(&self, key: PortKey) -> bool {
        self.labels.get(&key).is_some_and(|label| label.is_host)
    }
}

/// Searches each interval for roots, in the order of time. The ports have bins of equal length.
fn for_each_snapshot(
    ports: &BTreeMap<PortKey, PortSummary>,
    interval_ns: u64,
    devices: &Devices,
    limits: Limits<'_>,
    mut each: impl FnMut(&Snapshot<'_>),
) {
    let numbers: BTreeSet<u64> = ports
        .values()
        .flat_map(|port| port.bins.iter().map(|(number, _)| number))
        .collect();
    let places = Places::new(ports);
    let mut snapshots = numbers
        .into_iter()
        .map(|number| Snapshot::of((number, interval_ns), &places, devices, limits))
        .peekable();
    let mut before: Option<(u64, Explained)> = None;
    while let Some(mut snapshot) = snapshots.next() {
        let number = snapshot.number;
        let before_it = before
            .as_ref()
            .filter(|(before, _)| before + 1 == number)
            .map(|(_, silent)| silent);
        let after_it = snapshots
            .peek()
            .filter(|after| after.number == number + 1)
            .map(|after| &after.silent);
        snapshot.complete([before_it, after_it]);
        each(&snapshot);
        before = Some((number, snapshot.silent));
    }
}

impl Tree {
    const fn new(root: PortKey, cause: RootCause) -> Self {
        Self {
            root,
            cause,
            span_ns: (u64::MAX, 0),
            seconds: 0.0,
            used_seconds: 0.0,
            used_peak: 0.0,
            blocked_seconds: 0.0,
            held_up_seconds: 0.0,
            sure_seconds: BTreeMap::new(),
            ports_beyond: 0,
            branches: BTreeMap::new(),
        }
    }

    /// Extends the time of the tree by an interval.
    fn extend(&mut self, number: u64, interval_ns: u64) {
        let from = number.saturating_mul(interval_ns);
        self.span_ns = (
            self.span_ns.0.min(from),
            self.span_ns.1.max(from.saturating_add(interval_ns)),
        );
    }

    /// Returns how surely the port is the root: the confidence of the longest time. `None`
    /// for a cause that the model of `docs/congestion.md` does not have.
    pub fn confidence(&self) -> Option<Confidence> {
        let longest = self.sure_seconds.iter().max_by(|a, b| a.1.total_cmp(b.1));
        longest.map(|(confidence, _)| *confidence)
    }

    /// Adds an interval of the root.
    fn add(&mut self, root: &PortLoad, confidence: Option<Confidence>) {
        self.seconds += root.seconds;
        if let Some(confidence) = confidence {
            *self.sure_seconds.entry(confidence).or_default() += root.seconds;
        }
        self.used_seconds += root.used * root.seconds;
        self.used_peak = self.used_peak.max(root.used);
        self.blocked_seconds += root.blocked * root.seconds;
    }

    fn add_branch(&mut self, waiting: &Waiting, snapshot: &Snapshot<'_>) {
        let load = snapshot.load(waiting.port);
        let key = snapshot.key(waiting.port);
        let branch = self.branches.entry(key).or_insert_with(|| Branch {
            next: snapshot.key(waiting.next),
            depth: waiting.depth,
            seconds: 0.0,
            blocked_seconds: 0.0,
            used_seconds: 0.0,
        });
        branch.seconds += load.seconds;
        branch.blocked_seconds += load.blocked * load.seconds;
        branch.used_seconds += load.used * load.seconds;
    }
}

impl PortLabel {
    fn of(port: &PortSummary) -> Self {
        Self {
            node: port.node.clone(),
            is_host: port.kind == Some(NodeKind::Hca),
            peer: port.peer_port(),
            link: port.link.clone(),
        }
    }

    /// Returns the label of a peer that has no records.
    fn of_peer(key: PortKey, port: &PortSummary) -> Self {
        Self {
            node: port.peer_name.clone(),
            is_host: false,
            peer: Some(PortName::new(&port.node, key)),
            link: port.link.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
