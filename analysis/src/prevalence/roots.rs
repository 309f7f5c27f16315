//! Roots of congestion over a long time, and the jobs that waited for them.
//!
//! The search for trees has a limited number of intervals, so it runs for each part of the time,
//! and the results are added.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ratio;
use crate::devices::Devices;
use crate::hosts::Hosts;
use crate::job::run::JobRun;
use crate::ports::{PortKey, PortName, PortSummary};
use crate::rows::Row;
use crate::trees::{Limits, RootCause, Trees};

/// The roots so far.
#[derive(Clone, Debug)]
pub struct Roots {
    limits: Limits<'static>,
    hosts: Option<Hosts>,
    jobs: Vec<JobRun>,
    by_root: BTreeMap<(PortKey, RootCause), Root>,
}

#[derive(Clone, Debug)]
struct Root {
    root: PortName,
    to: Option<PortName>,
    seconds: f64,
    held_up_seconds: f64,
    host_ports: BTreeSet<PortKey>,
    /// Blocked time of the HCA ports of each job, in seconds.
    waited: BTreeMap<usize, f64>,
}

/// A root in the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RootRow {
    /// The port where the congestion begins.
    pub root: PortName,
    /// The port at the other end of the root's link.
    pub to: Option<PortName>,
    /// Cause of the congestion.
    pub why: RootCause,
    /// Time during which other ports waited for the root, in seconds.
    pub seconds: f64,
    /// Share of the time range in which other ports waited for the root, 0 to 1.
    pub share: Option<f64>,
    /// Blocked time of all ports that waited, including the root, in seconds. If a port may have
    /// waited for several roots, each root gets an equal part.
    pub held_up_seconds: f64,
    /// Number of HCA ports that waited.
    pub host_ports: usize,
    /// The jobs that waited, with the longest blocked time first. Empty without jobs.
    pub jobs: Vec<RootJobRow>,
}

/// A job that waited for a root.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RootJobRow {
    /// Job ID.
    pub job: String,
    /// User of the job. Null if hidden or unknown.
    pub user: Option<String>,
    /// Blocked time of the HCA ports of the job because of the root, in seconds.
    pub waited_seconds: f64,
}

impl Row for RootRow {
    const COLUMNS: &'static [&'static str] = &[
        "root_guid",
        "root_port",
        "root_node",
        "to_guid",
        "to_port",
        "to_node",
        "why",
        "seconds",
        "share",
        "held_up_seconds",
        "host_ports",
        "jobs_job",
        "jobs_user",
        "jobs_waited_seconds",
    ];
}

impl Roots {
    /// Creates an empty state. With `hosts`, only roots for which one of these hosts waited, or
    /// that belong to one of them, are evaluated. `jobs` are the jobs whose waiting is added up.
    pub const fn new(limits: Limits<'static>, hosts: Option<Hosts>, jobs: Vec<JobRun>) -> Self {
        Self {
            limits,
            hosts,
            jobs,
            by_root: BTreeMap::new(),
        }
    }

    /// Adds the trees of a part of the time.
    pub fn add(&mut self, ports: &BTreeMap<PortKey, PortSummary>, devices: &Devices) {
        let mut waits = Vec::new();
        let mut trees = Trees::find_each(ports, devices, self.limits, |wait| waits.push(wait));
        if let Some(hosts) = &self.hosts {
            trees.retain_hosts(hosts);
        }
        for tree in trees.trees.iter().filter(|tree| !tree.branches.is_empty()) {
            let root = self
                .by_root
                .entry((tree.root, tree.cause))
                .or_insert_with(|| Root {
                    root: trees.name(tree.root),
                    to: trees.peer(tree.root),
                    seconds: 0.0,
                    held_up_seconds: 0.0,
                    host_ports: BTreeSet::new(),
                    waited: BTreeMap::new(),
                });
            root.seconds += tree.seconds;
            root.held_up_seconds += tree.held_up_seconds;
            let of_hosts = tree.branches.keys().filter(|key| trees.is_host(**key));
            root.host_ports.extend(of_hosts);
        }
        let mut of_port: BTreeMap<PortKey, Vec<usize>> = BTreeMap::new();
        for wait in waits.iter().filter(|wait| trees.is_host(wait.port)) {
            let Some(root) = self.by_root.get_mut(&wait.root) else {
                continue;
            };
            let jobs = of_port.entry(wait.port).or_insert_with(|| {
                let node = trees.name(wait.port).node;
                let has_node = |index: &usize| self.jobs[*index].hosts.contains_node(&node);
                (0..self.jobs.len()).filter(has_node).collect()
            });
            let (from, to) = wait.span_ns;
            for index in jobs
                .iter()
                .filter(|index| self.jobs[**index].is_during(from, to))
            {
                *root.waited.entry(*index).or_default() += wait.seconds;
            }
        }
    }

    /// Returns the roots for which ports waited longest, longest first. `seconds` is the length of
    /// the time range.
    pub fn rows(&self, seconds: f64) -> Vec<RootRow> {
        let row = |((_, why), root): (&(PortKey, RootCause), &Root)| {
            let job = |(index, waited_seconds): (&usize, &f64)| RootJobRow {
                job: self.jobs[*index].id.clone(),
                user: self.jobs[*index].user.clone(),
                waited_seconds: *waited_seconds,
            };
            let mut jobs: Vec<_> = root.waited.iter().map(job).collect();
            jobs.sort_by(|a, b| b.waited_seconds.total_cmp(&a.waited_seconds));
            RootRow {
                root: root.root.clone(),
                to: root.to.clone(),
                why: *why,
                seconds: root.seconds,
                share: ratio(root.seconds, seconds).map(|share| share.min(1.0)),
                held_up_seconds: root.held_up_seconds,
                host_ports: root.host_ports.len(),
                jobs,
            }
        };
        let mut rows: Vec<_> = self.by_root.iter().map(row).collect();
        rows.sort_by(|a, b| b.held_up_seconds.total_cmp(&a.held_up_seconds));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, incast_lines};
    use crate::ports::Ports;

    #[test]
    fn roots_have_the_jobs_that_waited_for_them() {
        const SECOND: u64 = 1_000_000_000;
        let job = |id, nodes, from: u64, to: u64| {
            JobRun::new(id, nodes, Some(from * SECOND), Some(to * SECOND)).expect("a job")
        };
        // The hosts wait in the first two of four seconds.
        let jobs = vec![
            job("first", "n", 0, 1),
            job("all", "n", 0, 9),
            job("late", "n", 2, 9),
            job("elsewhere", "far", 0, 9),
        ];
        let mut roots = Roots::new(Limits::default(), None, jobs);
        let (ports, devices) = fold((Ports::with_bins(64), Devices::default()), &incast_lines());
        let ports = ports.finish();
        roots.add(&ports, &devices);
        let rows = roots.rows(4.0);
        let [row] = &rows[..] else {
            panic!("one root: {rows:?}")
        };
        assert_eq!(
            (row.why, row.seconds, row.share),
            (RootCause::Full, 2.0, Some(0.5))
        );
        // Two hosts and the port of the leaf switch.
        assert_eq!((row.held_up_seconds, row.host_ports), (4.0, 2));
        let waited: Vec<_> = row
            .jobs
            .iter()
            .map(|job| (&*job.job, job.waited_seconds))
            .collect();
        assert_eq!(waited, [("all", 3.0), ("first", 1.5)]);
        // A second part of the time adds to the first one.
        roots.add(&ports, &devices);
        assert_eq!(roots.rows(8.0)[0].held_up_seconds, 8.0);
        let elsewhere = Hosts::parse("x").expect("a list");
        let mut none = Roots::new(Limits::default(), Some(elsewhere), Vec::new());
        none.add(&ports, &devices);
        assert_eq!(none.rows(4.0), []);
    }
}
