//! Regions of congestion: each tree for as long as it lasts, with the jobs that wait in it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::ways::other_ways;
use super::{Confidence, Limits, RootCause, Tree, Trees};
use crate::devices::Devices;
use crate::job::run::JobRun;
use crate::ports::{PortKey, PortName, PortSummary};
use crate::routes::Routes;
use crate::rows::Row;

/// A tree has ended if it is not in more than this number of intervals.
const GAP: u64 = 2;

/// A job causes a root if its part is larger than this share: its part of the time for which HCA
/// ports waited for the root, and what it sends compared with what the root sends.
const CAUSES: f64 = 0.1;

/// Returns whether a job causes a root, by these parts. If the root leads to a host on which jobs
/// run, `receives` says whether this job does: what waits there is for this host, so these jobs
/// cause the root and no others.
pub(super) fn causes(receives: Option<bool>, waited: f64, sent: f64) -> bool {
    receives.unwrap_or(waited > CAUSES && sent > CAUSES)
}

/// A region in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RegionRow {
    /// Its name: node and port of the root, and the second of the begin since 1970.
    pub region: String,
    /// The port where the congestion begins.
    pub root: PortName,
    /// The port at the other end of the root's link.
    pub to: Option<PortName>,
    /// Cause of the region.
    pub why: RootCause,
    /// How surely the port is the root; null for a cause that the model of `docs/congestion.md`
    /// does not have.
    pub confidence: Option<Confidence>,
    /// Max number of other ports with records of the device at the end of the root's link.
    pub ports_beyond: usize,
    /// Number of other ports of the root's switch that lead to the same host over as many links;
    /// null without routes, or if there are none.
    pub other_ways: Option<usize>,
    /// Mean share of their data rates that they used, 0 to 1. If it is much smaller than that of
    /// the root, the routes cause the congestion.
    pub other_ways_utilization: Option<f64>,
    /// Start of the first interval, in nanoseconds since 1970.
    pub since_ns: u64,
    /// End of the last interval, in nanoseconds since 1970.
    pub until_ns: u64,
    /// Mean share of the data rate that the root used, 0 to 1.
    pub xmit_utilization: f64,
    /// Blocked time of all ports of the region, in seconds. If a port may have waited for several
    /// roots, each root gets an equal part.
    pub held_up_seconds: f64,
    /// Number of HCA ports that waited.
    pub host_ports: usize,
    /// Number of switch ports that waited.
    pub switch_ports: usize,
    /// The jobs that cause the congestion or whose HCA ports waited, the one with the longest
    /// blocked time first.
    pub jobs: Vec<RegionJob>,
}

/// A job in a region.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RegionJob {
    /// Job ID.
    pub job: String,
    /// Whether the job causes the congestion: it runs on the host to which the root leads or, if
    /// none does, it sends a good part of what the root sends.
    pub causes: bool,
    /// Number of its HCA ports that waited.
    pub host_ports: usize,
    /// Blocked time of these ports, in seconds.
    pub blocked_seconds: f64,
    /// What these ports sent, as a share of what the root sent; an upper bound of their part of
    /// it, and possibly more than 1.
    pub share: f64,
}

impl Row for RegionRow {
    const COLUMNS: &'static [&'static str] = &[
        "region",
        "root_guid",
        "root_port",
        "root_node",
        "to_guid",
        "to_port",
        "to_node",
        "why",
        "confidence",
        "ports_beyond",
        "other_ways",
        "other_ways_utilization",
        "since_ns",
        "until_ns",
        "xmit_utilization",
        "held_up_seconds",
        "host_ports",
        "switch_ports",
        "jobs_job",
        "jobs_causes",
        "jobs_host_ports",
        "jobs_blocked_seconds",
        "jobs_share",
    ];
}

impl Trees {
    /// Finds all regions: as [`Self::find`], but a root whose tree ended and begins again has
    /// another tree.
    pub fn find_regions(
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits<'_>,
    ) -> Self {
        let mut regions = Self::no_regions();
        Self::search(ports, devices, limits, &mut [&mut regions], |_| {});
        regions
    }

    /// Returns regions to which later intervals can be added.
    pub const fn no_regions() -> Self {
        Self::new(Some(GAP))
    }

    /// Finds all trees, and continues all of `regions` by the same search with the intervals that
    /// are later than theirs. A region that goes on keeps its begin, and so its name.
    pub fn find_and_continue(
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits<'_>,
        regions: &mut [&mut Self],
    ) -> Self {
        let mut found = Self::new(None);
        let mut into = vec![&mut found];
        into.extend(regions.iter_mut().map(|regions| &mut **regions));
        Self::search(ports, devices, limits, &mut into, |_| {});
        found
    }

    /// Drops the regions that ended before a time in nanoseconds since 1970, and those that ended
    /// first until all have at most `most` waiting ports together.
    pub fn forget_before(&mut self, ns: u64, most: usize) {
        self.circles.clear();
        self.trees.sort_by_key(|tree| Reverse(tree.span_ns.1));
        let mut size = 0;
        self.trees.retain(|tree| {
            size += 1 + tree.branches.len();
            tree.span_ns.1 >= ns && size <= most
        });
    }

    /// Adds those regions of others in a time range that overlap with none of these of the same
    /// root, and drops the regions outside this range, which is in nanoseconds since 1970.
    pub fn complete(&mut self, others: Self, (from, to): (u64, u64)) {
        let overlaps = |tree: &Tree, (from, to)| tree.span_ns.0 < to && tree.span_ns.1 > from;
        self.trees.retain(|tree| overlaps(tree, (from, to)));
        let own = self.by_root();
        let is_new = |other: &Tree| {
            let mut own = own.get(&(other.root, other.cause)).into_iter().flatten();
            !own.any(|own| overlaps(own, other.span_ns))
        };
        let new: Vec<Tree> = others.trees.into_iter().filter(is_new).collect();
        self.trees.extend(new);
        for (key, label) in others.labels {
            self.labels.entry(key).or_insert(label);
        }
    }

    /// Returns the regions of each root, in their order. A large fabric has thousands of both.
    pub fn by_root(&self) -> BTreeMap<(PortKey, RootCause), Vec<&Tree>> {
        let mut found = BTreeMap::<_, Vec<_>>::new();
        for tree in &self.trees {
            let of_root = found.entry((tree.root, tree.cause)).or_default();
            of_root.push(tree);
        }
        found
    }

    /// Returns whether a region cannot go on: its root was none in too many intervals.
    pub fn has_ended(&self, tree: &Tree) -> bool {
        let gap_ns = GAP.saturating_mul(self.interval_ns);
        tree.span_ns.1.saturating_add(gap_ns) < self.until_ns
    }

    /// Returns the name of a region: node and port of its root, and the second of its begin.
    pub fn region_name(&self, tree: &Tree) -> String {
        let root = self.name(tree.root);
        let second = tree.span_ns.0 / 1_000_000_000;
        format!("{}/{}@{second}", root.node, root.port)
    }

    /// Returns the rows of the regions, with the jobs among these runs. `routes` has the forwarding
    /// tables, if they are known, and the ports of the search.
    pub fn regions(
        &self,
        runs: &[JobRun],
        routes: Option<(&Routes, &BTreeMap<PortKey, PortSummary>)>,
    ) -> Vec<RegionRow> {
        let trees = self.trees.iter();
        trees.map(|tree| self.region(tree, runs, routes)).collect()
    }

    /// Returns the row of one region.
    pub fn region(
        &self,
        tree: &Tree,
        runs: &[JobRun],
        routes: Option<(&Routes, &BTreeMap<PortKey, PortSummary>)>,
    ) -> RegionRow {
        let row = self.row(tree);
        let ways =
            routes.and_then(|(routes, ports)| other_ways(tree.root, tree.span_ns, ports, routes));
        let ways = ways.filter(|_| tree.cause == RootCause::Full);
        RegionRow {
            region: self.region_name(tree),
            root: row.root,
            to: row.to,
            why: row.why,
            confidence: row.confidence,
            ports_beyond: row.ports_beyond,
            other_ways: ways.map(|(ports, _)| ports),
            other_ways_utilization: ways.map(|(_, used)| used),
            since_ns: row.since_ns,
            until_ns: row.until_ns,
            xmit_utilization: row.xmit_utilization,
            held_up_seconds: row.held_up_seconds,
            host_ports: row.host_ports,
            switch_ports: row.switch_ports,
            jobs: self.jobs(tree, runs),
        }
    }

    fn jobs(&self, tree: &Tree, runs: &[JobRun]) -> Vec<RegionJob> {
        let hosts = tree.branches.iter().filter(|(key, _)| self.is_host(**key));
        let all: f64 = hosts
            .clone()
            .map(|(_, branch)| branch.blocked_seconds)
            .sum();
        let (from, to) = tree.span_ns;
        let runs = || runs.iter().filter(|run| run.is_during(from, to));
        let peer = self.peer(tree.root);
        let receives = |run: &JobRun| {
            let peer = peer.as_ref();
            peer.is_some_and(|peer| run.hosts.contains_node(&peer.node))
        };
        let has_receiver = runs().any(receives);
        let job = |run: &JobRun| {
            let is_own = |key: &PortKey| {
                let label = self.labels.get(key);
                label.is_some_and(|label| run.hosts.contains_node(&label.node))
            };
            let own = hosts.clone().filter(|(key, _)| is_own(key));
            let blocked_seconds: f64 = own.clone().map(|(_, own)| own.blocked_seconds).sum();
            let used_seconds: f64 = own.clone().map(|(_, own)| own.used_seconds).sum();
            let share = used_seconds / tree.used_seconds.max(f64::MIN_POSITIVE);
            let waited = blocked_seconds / all.max(f64::MIN_POSITIVE);
            RegionJob {
                job: run.id.clone(),
                causes: causes(has_receiver.then(|| receives(run)), waited, share),
                host_ports: own.count(),
                blocked_seconds,
                share,
            }
        };
        let is_shown = |job: &RegionJob| job.host_ports > 0 || job.causes;
        let mut jobs: Vec<_> = runs().map(job).filter(is_shown).collect();
        jobs.sort_by(|a, b| b.blocked_seconds.total_cmp(&a.blocked_seconds));
        jobs
    }
}
