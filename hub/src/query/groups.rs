//! Computes the traffic into and out of groups of hosts, such as storage targets.
//!
//! All numbers come from [`GroupTraffic`], so they equal those of `ibnet-view job --group` for the
//! same records and bins.

use std::collections::BTreeSet;
use std::sync::Arc;

use ibnet_analysis::groups::Group;
use ibnet_analysis::groups::traffic::GroupTraffic;
use ibnet_analysis::hosts::host_of;
use ibnet_analysis::input::continued::Later;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::job::all::flows::Flows;
use ibnet_analysis::job::all::{AllJobs, JobList};
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::ports::{DATA_COUNTERS, PortKey};
use ibnet_record::types::{NodeKind, Printable};
use serde::Serialize;

use crate::live::topology::{Topology, TopologyPort};
use crate::query::error::ApiError;
use crate::query::evaluated::MAX_RECORDS;
use crate::query::memory::Memory;
use crate::query::passes::LastPasses;
use crate::state::Hub;
use crate::store::chunk::Wanted;

/// Default length of the time range.
const USUAL_NS: u64 = 300_000_000_000;

/// Number of intervals for which requests without a time range get the same answer.
const STEP: u64 = 5;

/// Max number of bins, and of the bins of all ports together. A bin of a port needs about 80 bytes.
const MAX_BINS: u64 = 360;
const MAX_VALUES: u64 = 1_000_000;

/// Lengths of a bin to choose from, in intervals.
const BINS: [u64; 12] = [1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 21_600];

/// Largest number of senders in an answer.
const MAX_SENDERS: usize = 100;

/// Number of passes that are kept.
const KEPT: usize = 2;

/// A group with its hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct GroupRow {
    group: String,
    /// Host list of the configuration.
    hosts: String,
    /// Names of the hosts of the group in the topology.
    nodes: Vec<String>,
    /// Names in the host list that the topology does not have.
    unknown: Vec<String>,
}

impl GroupRow {
    fn of(group: &Group, topology: &Topology) -> Self {
        let is_own = |port: &&TopologyPort| {
            port.kind != Some(NodeKind::Switch) && group.hosts.contains_node(&port.node)
        };
        let nodes: BTreeSet<&str> = topology
            .ports
            .iter()
            .filter(is_own)
            .map(|port| host_of(&port.node))
            .collect();
        let unknown = group
            .hosts
            .iter()
            .filter(|name| !nodes.contains(name))
            .map(str::to_owned)
            .collect();
        Self {
            group: group.name.clone(),
            hosts: group.text.clone(),
            nodes: nodes.into_iter().map(str::to_owned).collect(),
            unknown,
        }
    }
}

/// Returns the groups in the order of the configuration.
pub(crate) fn list(hub: &Hub) -> Vec<GroupRow> {
    let topology = Arc::clone(&hub.read().topology);
    hub.groups
        .iter()
        .map(|group| GroupRow::of(group, &topology))
        .collect()
}

/// A group with its traffic.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct GroupAnswer {
    /// Start and end of the time range.
    from_ns: u64,
    to_ns: u64,
    hosts: String,
    nodes: Vec<String>,
    unknown: Vec<String>,
    /// Number of senders before the list is shortened.
    sender_count: usize,
    #[serde(flatten)]
    traffic: GroupTraffic,
}

/// Returns one group. `range` is the time range, or `None` for the last five minutes.
pub(crate) fn one(
    hub: &Hub,
    passes: &Passes,
    name: &str,
    range: Option<(u64, u64)>,
) -> Result<GroupAnswer, ApiError> {
    let missing = || {
        ApiError::missing(format!(
            "there is no group {}; /api/v1/groups lists all groups",
            Printable(name)
        ))
    };
    let group = hub
        .groups
        .iter()
        .find(|group| group.name == name)
        .ok_or_else(missing)?;
    let pass = passes.find(hub, range.unwrap_or_else(|| usual_range(hub)))?;
    let mut traffic = GroupTraffic::of(group, &pass.flows);
    let sender_count = traffic.senders.len();
    traffic.senders.truncate(MAX_SENDERS);
    let topology = Arc::clone(&hub.read().topology);
    let GroupRow {
        hosts,
        nodes,
        unknown,
        ..
    } = GroupRow::of(group, &topology);
    Ok(GroupAnswer {
        from_ns: pass.range.0,
        to_ns: pass.range.1,
        hosts,
        nodes,
        unknown,
        sender_count,
        traffic,
    })
}

/// Returns the last five minutes, or less if they have too many records. The newest slot is left
/// out, because more of its records can arrive. The end is a multiple of [`STEP`] intervals, so all
/// requests within this time share one pass.
fn usual_range(hub: &Hub) -> (u64, u64) {
    let state = hub.read();
    let interval_ns = state.samplers.interval_ns().max(1);
    let most_ns =
        (MAX_RECORDS / state.topology.ports.len().max(1) as u64).saturating_mul(interval_ns);
    let to = (state.newest_ns() / interval_ns).saturating_sub(1) / STEP * STEP * interval_ns;
    (to.saturating_sub(USUAL_NS.min(most_ns)), to)
}

/// The traffic of all host ports in a time range.
#[derive(Debug)]
struct Pass {
    /// The part of the requested time range that the records can cover.
    range: (u64, u64),
    flows: Flows,
}

/// The last passes over the records, shared by all groups.
#[derive(Debug, Default)]
pub(crate) struct Passes(LastPasses<Pass, KEPT>);

impl Passes {
    /// Returns the pass over a time range.
    fn find(&self, hub: &Hub, asked: (u64, u64)) -> Result<Arc<Pass>, ApiError> {
        let revision = hub.read().revision();
        self.0.find((asked, revision), || Pass::over(hub, asked))
    }
}

impl Pass {
    /// Reads the records of a time range. If the range begins before the oldest record in memory,
    /// the records of the archive come first.
    fn over(hub: &Hub, asked: (u64, u64)) -> Result<Self, ApiError> {
        let (jobs, keys, interval_ns, first) = {
            let state = hub.read();
            let jobs: Vec<JobRun> = state
                .jobs
                .within(asked.0, asked.1)
                .map(|known| known.run.clone())
                .collect();
            (
                jobs,
                host_ports(&state.topology),
                state.samplers.interval_ns().max(1),
                state.store.first_ts().unwrap_or(0),
            )
        };
        let archive = hub
            .archive
            .as_ref()
            .filter(|archive| asked.0.saturating_sub(REACH_NS) < first && archive.exists());
        let range = (
            if archive.is_some() {
                asked.0
            } else {
                asked.0.max(first).min(asked.1)
            },
            asked.1,
        );
        let intervals = (range.1 - range.0).div_ceil(interval_ns);
        if intervals.saturating_mul(keys.len() as u64) > MAX_RECORDS {
            return Err(ApiError::wrong(format!(
                "the time range has more than {MAX_RECORDS} records; give a shorter one"
            )));
        }
        let bin_ns = bin_intervals(intervals, keys.len() as u64) * interval_ns;
        let mut fold = AllJobs::new(JobList::new(&jobs), Some(bin_ns));
        let memory = Memory {
            hub,
            keys,
            wanted: Wanted::named(DATA_COUNTERS),
            events: Vec::new(),
            range,
        };
        match archive {
            Some(archive) => fold = archive.read(fold, range, &memory)?,
            None => {
                for key in &memory.keys {
                    memory.records(*key, &mut |records| {
                        fold_port(records, Some(range.0), Some(range.1), &mut fold);
                    });
                }
            }
        }
        let none = |_| {
            ApiError::missing(
                "there is no rate of a host port in the time range; give a time with records",
            )
        };
        Ok(Self {
            range,
            flows: fold.flows().map_err(none)?,
        })
    }
}

/// Returns the length of a bin in intervals that lets the bins of all ports fit into memory.
fn bin_intervals(intervals: u64, ports: u64) -> u64 {
    let most = MAX_BINS.min(MAX_VALUES / ports.max(1)).max(1);
    BINS.into_iter()
        .find(|length| intervals.div_ceil(*length) <= most)
        .unwrap_or_else(|| intervals.div_ceil(most))
}

/// Returns the ports of all hosts, and the switch ports at the other end of their links.
fn host_ports(topology: &Topology) -> Vec<PortKey> {
    let is_switch = |port: &TopologyPort| port.kind == Some(NodeKind::Switch);
    let peer = |port: &TopologyPort| port.peer.and_then(|peer| topology.ports.get(peer as usize));
    let is_wanted = |port: &&TopologyPort| !is_switch(port) || !peer(port).is_some_and(is_switch);
    topology
        .ports
        .iter()
        .filter(is_wanted)
        .map(|port| (port.guid, port.port))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ibnet_analysis::groups::Groups;
    use ibnet_analysis::input::{self, Inputs};

    use super::*;
    use crate::query::tests::{add_jobs, hub, lines};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn traffic_equals_that_of_the_analysis_of_files() {
        let lines = lines();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines.jsonl");
        fs::write(&path, lines.join("\n")).expect("written");
        let group: Group = "storage=node10[3-4],gone".parse().expect("a group");
        let hub = hub(&[lines.join("\n") + "\n"])
            .with_groups(Groups::new(vec![group.clone()]).expect("one group"));
        add_jobs(&hub);
        let jobs: Vec<JobRun> = hub
            .read()
            .jobs
            .within(0, u64::MAX)
            .map(|known| known.run.clone())
            .collect();
        let (passes, last) = (Passes::default(), hub.read().newest_ns() / SECOND);
        for (from, to) in [(last - 150, last - 3), (last - 90, last - 30)] {
            let range = (from * SECOND, to * SECOND);
            let inputs = Inputs {
                files: vec![path.clone()],
                from: Some(range.0),
                to: Some(range.1),
            };
            let (fold, _) = input::read(&inputs, &AllJobs::new(JobList::new(&jobs), Some(SECOND)))
                .expect("read");
            let expected = GroupTraffic::of(&group, &fold.flows().expect("records"));
            let found = one(&hub, &passes, "storage", Some(range)).expect("a group");
            assert_eq!(found.traffic, expected);
            assert!(
                expected.in_bytes > 0.0
                    && expected
                        .senders
                        .iter()
                        .any(|sender| sender.job.as_deref() == Some("7")),
                "{expected:?}"
            );
        }
        assert_eq!(
            list(&hub),
            [GroupRow {
                group: "storage".to_owned(),
                hosts: "node10[3-4],gone".to_owned(),
                nodes: vec!["node103".to_owned(), "node104".to_owned()],
                unknown: vec!["gone".to_owned()],
            }]
        );
        assert_eq!(
            one(&hub, &passes, "x", None)
                .expect_err("no such group")
                .status
                .as_u16(),
            404
        );
        assert_eq!(
            one(&hub, &passes, "storage", Some((1, 2)))
                .expect_err("no records")
                .status
                .as_u16(),
            404
        );
    }

    #[test]
    fn usual_range_ends_before_the_newest_slot() {
        let hub = hub(&[lines().join("\n") + "\n"]);
        let last = hub.read().newest_ns() / SECOND;
        let to = (last - 1) / STEP * STEP;
        assert!(
            to < last && to + STEP >= last,
            "the newest slot is left out"
        );
        assert_eq!(usual_range(&hub), ((to - 300) * SECOND, to * SECOND));
    }

    #[test]
    fn bins_of_all_ports_are_bounded() {
        for (intervals, ports, length) in [
            (300, 1936, 1),
            (0, 1, 1),
            (361, 10, 2),
            (300, 40_000, 20),
            (86_400, 100, 300),
            (10_000_000, 1, 27_778),
        ] {
            assert_eq!(
                bin_intervals(intervals, ports),
                length,
                "{intervals} intervals of {ports} ports"
            );
        }
    }
}
