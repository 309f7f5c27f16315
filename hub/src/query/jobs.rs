//! Returns jobs with their traffic, and one job with its links and its neighbours.
//!
//! The totals of a job are added up while it runs ([`crate::jobs::settle`]). Links, neighbours and
//! congestion trees come from the records of a time range. Port counters do not show which job sent
//! a packet, so the job shares of a link's traffic are the estimates of [`ibnet_analysis::job`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ibnet_analysis::hosts::{Hosts, host_of};
use ibnet_analysis::job::all::{JobList, JobTotal, NodeTotal};
use ibnet_analysis::job::imbalance::Imbalance;
use ibnet_analysis::job::marks::{self, Mark, PhaseSum};
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::sharing::{Matrix, Shares, equal_bins};
use ibnet_analysis::job::{Job, Uplink};
use ibnet_analysis::links;
use ibnet_analysis::ports::{PortKey, PortName, PortSummary};
use ibnet_analysis::trees::{RootCause, Tree};
use ibnet_record::types::Guid;
use serde::Serialize;

use crate::jobs::Known;
use crate::jobs::settle::{BIN_NS, keys_of};
use crate::query::error::ApiError;
use crate::query::evaluated::{Evaluated, Evaluations, MAX_RECORDS};
use crate::query::phases::{self, MarkRow, Wanted};
use crate::state::Hub;

/// Default time range of a job's links: its last minute.
const USUAL_NS: u64 = 60_000_000_000;

/// Max number of neighbours, links and congestion trees in the answer.
const MAX_ROWS: usize = 100;

/// Max number of other jobs that are compared with a job.
const MAX_NEIGHBOURS: usize = 500;

/// A job with its traffic. Sums are null without records.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct JobRow {
    job: String,
    name: Option<String>,
    user: Option<String>,
    state: String,
    /// Host list of the source.
    nodes: String,
    node_count: usize,
    start_ns: u64,
    end_ns: Option<u64>,
    /// Whether the job ended at an unknown time after `end_ns`.
    end_is_lower_bound: bool,
    /// Start and end of the time whose traffic is in the sums.
    traffic_from_ns: Option<u64>,
    traffic_to_ns: Option<u64>,
    injected_bytes: Option<f64>,
    ejected_bytes: Option<f64>,
    /// Times in seconds: the traffic is known in `covered_seconds`, and the blocked time in
    /// `blocked_covered_seconds`. `blocked_seconds` is the blocked time of the nodes' ports, summed
    /// over the ports.
    covered_seconds: Option<f64>,
    blocked_seconds: Option<f64>,
    blocked_covered_seconds: Option<f64>,
    /// Blocked share of the known time, as a mean over all ports.
    blocked: Option<f64>,
    /// Blocked time for each byte sent, in nanoseconds.
    blocked_ns_per_byte: Option<f64>,
    imbalance: Imbalance,
    /// Nodes with records. Present only in the answer about one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<NodeTotal>>,
    /// Names of the nodes without records. Present only in the answer about one job.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<Vec<String>>,
}

/// Which jobs a list has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Filter {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) id: Option<String>,
    /// Text that the ID, a name, the user or the host list must contain.
    pub(crate) text: String,
    /// Whether the job runs.
    pub(crate) is_running: Option<bool>,
    pub(crate) limit: usize,
}

impl JobRow {
    fn of(known: &Known, has_nodes: bool) -> Self {
        let (run, total) = (&known.run, known.total.as_ref());
        let blocked = |total: &JobTotal| {
            let known = total
                .nodes
                .iter()
                .map(|node| node.ports as f64 * node.blocked_covered_seconds)
                .sum::<f64>();
            (known > 0.0).then(|| total.blocked_seconds / known)
        };
        Self {
            job: run.id.clone(),
            name: run.name.clone(),
            user: run.user.clone(),
            state: run.state.clone(),
            nodes: run.nodes.clone(),
            node_count: run.hosts.iter().count(),
            start_ns: known.start_ns(),
            end_ns: run.to,
            end_is_lower_bound: run.to_is_lower_bound,
            traffic_from_ns: total.map(|_| known.traffic_from_ns),
            traffic_to_ns: total.map(|_| known.traffic_to_ns),
            injected_bytes: total.map(|total| total.injected_bytes),
            ejected_bytes: total.map(|total| total.ejected_bytes),
            covered_seconds: total.map(|total| total.covered_seconds),
            blocked_seconds: total.map(|total| total.blocked_seconds),
            blocked_covered_seconds: total.map(|total| total.blocked_covered_seconds),
            blocked: total.and_then(blocked),
            blocked_ns_per_byte: total.and_then(|total| total.blocked_ns_per_byte),
            imbalance: total.map(|total| total.imbalance).unwrap_or_default(),
            hosts: has_nodes.then(|| total.map(|total| total.nodes.clone()).unwrap_or_default()),
            missing: has_nodes.then(|| match total {
                Some(total) => total.missing.clone(),
                None => run.hosts.iter().map(str::to_owned).collect(),
            }),
        }
    }
}

/// Returns the matching jobs, the one that started last first.
pub(crate) fn list(hub: &Hub, filter: &Filter) -> Vec<JobRow> {
    let text = filter.text.to_lowercase();
    let has_text = |run: &JobRun| {
        let fields = [
            Some(&run.id),
            run.name.as_ref(),
            run.user.as_ref(),
            Some(&run.nodes),
        ];
        let is_host = || {
            run.hosts
                .iter()
                .any(|host| host.eq_ignore_ascii_case(&text))
        };
        text.is_empty()
            || fields
                .into_iter()
                .flatten()
                .any(|field| field.to_lowercase().contains(&text))
            || is_host()
    };
    let is_wanted = |known: &&Known| {
        known.ran_within(filter.from, filter.to)
            && filter.id.as_ref().is_none_or(|id| known.run.id == *id)
            && filter
                .is_running
                .is_none_or(|is_running| known.run.to.is_none() == is_running)
            && has_text(&known.run)
    };
    let state = hub.read();
    let found = state
        .jobs
        .newest_first()
        .into_iter()
        .filter(is_wanted)
        .take(filter.limit);
    found
        .map(|known| JobRow::of(known, filter.id.is_some()))
        .collect()
}

/// One job with its links and its neighbours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct JobAnswer {
    #[serde(flatten)]
    row: JobRow,
    /// Data rate that all nodes sent in each bin, in Gb/s: the mean over the recorded time in which
    /// the job ran. A lower bound where `injected_covered` is below 1. Null where nothing is known.
    injected_gbps: Vec<Option<f64>>,
    /// Share of the ports whose data rate is known in each bin, 0 to 1: 0 for a bin without
    /// records. Null where the job did not run.
    injected_covered: Vec<Option<f64>>,
    /// Start of the first bin, and length of a bin.
    bins_from_ns: Option<u64>,
    bin_ns: u64,
    /// Marks with nodes of the job in the time of the bins, the first start first.
    marks: Vec<MarkRow>,
    /// Why the marks cannot be read.
    marks_error: Option<String>,
    /// Start and end of the time range of the fields below.
    links_from_ns: u64,
    links_to_ns: u64,
    /// Increase of the error counters of the links of each node with records, by its name in lower
    /// case.
    node_errors: BTreeMap<String, u64>,
    /// The phases of the marks, added up by name, in the order of their first starts.
    phases: Vec<PhaseSum>,
    /// Links from the leaf switches of the job to other switches. The link with the most traffic of
    /// the job comes first.
    uplinks: Vec<UplinkRow>,
    /// Jobs at the same leaf switches in the time of the job. The job with the most traffic on
    /// these links in the time range comes first.
    neighbours: Vec<Neighbour>,
    /// Congestion trees in which nodes of the job waited. The tree that held up the job longest
    /// comes first.
    trees: Vec<JobTree>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct UplinkRow {
    /// Port of the leaf switch.
    from: PortName,
    /// Port at the other end.
    to: Option<PortName>,
    up_gbps: f64,
    down_gbps: f64,
    used: Option<f64>,
    blocked: Option<f64>,
    /// Estimated rate of the job in Gb/s.
    job_up_gbps: f64,
    job_down_gbps: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct Neighbour {
    job: String,
    name: Option<String>,
    user: Option<String>,
    state: String,
    node_count: usize,
    start_ns: u64,
    end_ns: Option<u64>,
    /// Number of leaf switches that both jobs use, and of the neighbour's ports and nodes at them.
    leaves: usize,
    ports: usize,
    nodes: usize,
    /// Estimated rate of the neighbour on these links in Gb/s: the mean over the time range, 0 if
    /// it did not run then.
    up_gbps: f64,
    down_gbps: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
struct JobTree {
    root: PortName,
    to: Option<PortName>,
    why: RootCause,
    seconds: f64,
    /// Number of the job's HCA ports that waited, and of all HCA ports that waited.
    job_ports: usize,
    host_ports: usize,
    /// Time in seconds for which the job's ports were blocked in the tree, summed over the ports.
    job_blocked_seconds: f64,
}

/// A job, a time range within it, and the other jobs of that time.
struct Selected {
    known: Known,
    range: (u64, u64),
    others: Vec<JobRun>,
    /// The other jobs of the whole run that started last.
    during: Vec<JobRun>,
}

impl Selected {
    /// Finds a job. `range` is the time range, or `None` for the last minute of the job.
    fn find(hub: &Hub, id: &str, range: Option<(u64, u64)>) -> Result<Self, ApiError> {
        let state = hub.read();
        let known = state.jobs.find(id).ok_or_else(|| missing(id))?.clone();
        let interval_ns = state.samplers.interval_ns().max(1);
        let last = state.newest_ns() / interval_ns * interval_ns;
        let end = known.run.to.map_or(last, |end| end.min(last)) / interval_ns * interval_ns;
        let ports = state.store.keys().len().max(1) as u64;
        let most_ns = (MAX_RECORDS / ports).saturating_mul(interval_ns);
        let (from, to) = range.unwrap_or_else(|| (end.saturating_sub(USUAL_NS.min(most_ns)), end));
        let from = from
            .max(known.start_ns() / interval_ns * interval_ns)
            .max(state.store.first_ts().unwrap_or(0));
        let range = (from.min(to), to);
        let is_other =
            |other: &&Known| other.run.id != known.run.id || other.run.from != known.run.from;
        let others: Vec<JobRun> = state
            .jobs
            .within(range.0, range.1)
            .filter(is_other)
            .map(|other| other.run.clone())
            .collect();
        let end = known.run.to.unwrap_or(u64::MAX).max(range.1);
        let mut during: Vec<JobRun> = state
            .jobs
            .within(known.start_ns().min(range.0), end)
            .filter(is_other)
            .map(|other| other.run.clone())
            .collect();
        during.sort_by_key(|run| {
            let is_within = run.from.is_none_or(|from| from < range.1)
                && run.to.is_none_or(|end| end > range.0);
            (!is_within, Reverse(run.from))
        });
        during.truncate(MAX_NEIGHBOURS);
        Ok(Self {
            known,
            range,
            others,
            during,
        })
    }
}

/// Returns one job. `range` is the time range of its links, or `None` for its last minute.
pub(crate) fn one(
    hub: &Hub,
    evaluations: &Evaluations,
    id: &str,
    range: Option<(u64, u64)>,
) -> Result<JobAnswer, ApiError> {
    let Selected {
        known,
        range,
        during,
        ..
    } = Selected::find(hub, id, range)?;
    let mut answer = JobAnswer {
        row: JobRow::of(&known, true),
        injected_gbps: known
            .total
            .as_ref()
            .map(|total| total.injected_gbps.clone())
            .unwrap_or_default(),
        injected_covered: known
            .total
            .as_ref()
            .map(|total| total.injected_covered.clone())
            .unwrap_or_default(),
        bins_from_ns: known.total.as_ref().map(|_| known.bins_from_ns),
        bin_ns: BIN_NS,
        marks: Vec::new(),
        marks_error: None,
        phases: Vec::new(),
        links_from_ns: range.0,
        links_to_ns: range.1,
        node_errors: BTreeMap::new(),
        uplinks: Vec::new(),
        neighbours: Vec::new(),
        trees: Vec::new(),
    };
    let time = (
        known.start_ns().min(range.0),
        known.run.to.unwrap_or(u64::MAX),
    );
    let marks = match phases::of_file(hub, time) {
        None => Vec::new(),
        Some(Ok(marks)) => marks,
        Some(Err(error)) => {
            answer.marks_error = Some(error);
            Vec::new()
        }
    };
    let is_own = |mark: &Mark| known.run.hosts.iter().any(|host| mark.contains(host));
    let wanted = Wanted {
        range: time,
        jobs: 0,
        is_wanted: &is_own,
    };
    (answer.marks, _) = phases::rows(hub, &wanted);
    // Of a job that ended before the oldest record, only the totals exist.
    if range.0 < range.1 {
        let found = evaluations.find(hub, range)?;
        let own = Traffic::of(hub, &found, &known.run.hosts);
        answer.node_errors = own.node_errors(&known.run.hosts);
        answer.uplinks = own.uplinks();
        answer.neighbours = own.neighbours(&during, range);
        answer.trees = trees(hub, &found, &known.run.hosts);
        let mut phases = marks::phases(found.ports(), &known.run.hosts, &marks);
        phases.retain(|phase| phase.covered_seconds > 0.0 || phase.blocked_covered_seconds > 0.0);
        answer.phases = marks::by_name(&phases);
    }
    Ok(answer)
}

/// What the nodes of a job sent to each other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct MatrixAnswer {
    from_ns: u64,
    to_ns: u64,
    /// What the ends of the cells are: `hosts` or `leaf switches`.
    ends: &'static str,
    /// `None` without an estimate.
    matrix: Option<MatrixRow>,
    /// Reason why there is no estimate.
    reason: Option<String>,
}

/// An estimate, and what it is worth.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct MatrixRow {
    #[serde(flatten)]
    matrix: Matrix,
    worth: String,
}

/// Reasons why there is no estimate.
const NO_RECORDS: &str = "the records of this time are gone; select a later time";
const TOO_MANY: &str = "more than a million pairs of hosts can exchange data; select a time with \
                        fewer hosts without a job";

/// Returns the traffic between the nodes of a job. `range` is as for [`one`].
pub(crate) fn matrix(
    hub: &Hub,
    evaluations: &Evaluations,
    id: &str,
    range: Option<(u64, u64)>,
) -> Result<MatrixAnswer, ApiError> {
    let selected = Selected::find(hub, id, range)?;
    let Selected {
        known,
        range,
        others,
        ..
    } = selected;
    // After the job, the same hosts carry the traffic of others.
    let range = (
        range.0,
        known.run.to.map_or(range.1, |end| end.min(range.1)),
    );
    let routes = match hub.forwarding() {
        Ok(_) if range.0 >= range.1 => Err(NO_RECORDS.to_owned()),
        routes => routes,
    };
    let mut found = MatrixAnswer {
        from_ns: range.0,
        to_ns: range.1,
        ends: "hosts",
        matrix: None,
        reason: None,
    };
    match routes {
        Err(reason) => found.reason = Some(reason),
        Ok((routes, condition)) => {
            let evaluated = evaluations.find(hub, range)?;
            let ports = equal_bins(evaluated.ports());
            let hosts = known.run.hosts.clone();
            let all: Vec<JobRun> = [known.run].into_iter().chain(others).collect();
            let shares = Shares::of(&ports, &JobList::new(&all), Some(&routes));
            match shares.matrix(&hosts) {
                None => found.reason = Some(TOO_MANY.to_owned()),
                Some(matrix) => {
                    let mut worth = matrix.worth().replace('\n', " ");
                    let partial = condition.partial.len();
                    if partial > 0 {
                        let _ = write!(
                            worth,
                            " The forwarding tables of {partial} of {} switches were not read to \
                             their end yet.",
                            condition.switches
                        );
                    }
                    let (matrix, ends) = matrix.brief();
                    let matrix = matrix.with_others_joined();
                    (found.matrix, found.ends) = (Some(MatrixRow { matrix, worth }), ends);
                }
            }
        }
    }
    Ok(found)
}

pub(crate) fn missing(id: &str) -> ApiError {
    ApiError::missing(format!(
        "there is no job {}; /api/v1/jobs lists all jobs",
        ibnet_record::types::Printable(id)
    ))
}

/// The traffic of a job and of the leaf switches of its nodes.
struct Traffic {
    /// All ports of the leaf switches, and the other ends of their links.
    ports: BTreeMap<PortKey, PortSummary>,
    job: Job,
}

impl Traffic {
    fn of(hub: &Hub, found: &Evaluated, hosts: &Hosts) -> Self {
        let names: BTreeSet<String> = hosts.iter().map(str::to_lowercase).collect();
        let topology = hub.read().topology.clone();
        // The other end of a host's link is a leaf switch.
        let leaves: BTreeSet<Guid> = keys_of(&topology, &names)
            .into_iter()
            .map(|(guid, _)| guid)
            .collect();
        let is_near = |(key, port): &(&PortKey, &PortSummary)| {
            leaves.contains(&key.0) || port.peer.is_some_and(|peer| leaves.contains(&peer.0))
        };
        let ports: BTreeMap<_, _> = found
            .ports()
            .iter()
            .filter(is_near)
            .map(|(key, port)| (*key, port.clone()))
            .collect();
        let job = Job::of(&ports, hosts);
        Self { ports, job }
    }

    fn uplinks(&self) -> Vec<UplinkRow> {
        let names: BTreeMap<String, (&PortKey, &PortSummary)> = self
            .ports
            .iter()
            .map(|(key, port)| (PortName::new(&port.node, *key).to_string(), (key, port)))
            .collect();
        let row = |link: &Uplink| {
            let (key, port) = names.get(&link.port)?;
            Some(UplinkRow {
                from: PortName::new(&port.node, **key),
                to: port.peer_port(),
                up_gbps: link.up_gbps,
                down_gbps: link.down_gbps,
                used: link.used,
                blocked: link.blocked,
                job_up_gbps: link.job_up_gbps,
                job_down_gbps: link.job_down_gbps,
            })
        };
        self.job
            .uplinks
            .iter()
            .filter_map(row)
            .take(MAX_ROWS)
            .collect()
    }

    fn node_errors(&self, hosts: &Hosts) -> BTreeMap<String, u64> {
        let mut errors = BTreeMap::new();
        for link in links::find(&self.ports) {
            let own = |end: &&links::End| hosts.contains_node(&end.port.node);
            if let Some(end) = link.ends.iter().find(own) {
                *errors
                    .entry(host_of(&end.port.node).to_lowercase())
                    .or_default() += link.errors;
            }
        }
        errors
    }

    fn neighbours(&self, others: &[JobRun], range: (u64, u64)) -> Vec<Neighbour> {
        let leaves: BTreeSet<Guid> = self.job.leaves.iter().map(|leaf| leaf.guid).collect();
        let (from, to) = range;
        let neighbour = |run: &JobRun| {
            let other = Job::of(&self.ports, &run.hosts);
            // Before the start and after the end, the ports carry traffic of other jobs.
            let ran_ns = run
                .to
                .unwrap_or(to)
                .min(to)
                .saturating_sub(run.from.unwrap_or(from).max(from));
            let part = ran_ns as f64 / (to - from) as f64;
            let shared: Vec<_> = other
                .leaves
                .iter()
                .filter(|leaf| leaves.contains(&leaf.guid))
                .collect();
            let ports = shared.iter().map(|leaf| leaf.job_ports).sum();
            let is_here = |guid: Guid| shared.iter().any(|leaf| leaf.guid == guid);
            let names = self.ports.iter().flat_map(|(key, port)| {
                let own = port.peer.filter(|peer| is_here(peer.0)).map(|_| &port.node);
                own.into_iter()
                    .chain(is_here(key.0).then_some(&port.peer_name))
            });
            let nodes: BTreeSet<String> = names
                .filter(|name| run.hosts.contains_node(name))
                .map(|name| host_of(name).to_lowercase())
                .collect();
            let is_shared =
                |link: &&Uplink| self.job.uplinks.iter().any(|own| own.port == link.port);
            let rates = other
                .uplinks
                .iter()
                .filter(is_shared)
                .fold((0.0, 0.0), |sum, link| {
                    (sum.0 + link.job_up_gbps, sum.1 + link.job_down_gbps)
                });
            (ports > 0).then(|| Neighbour {
                job: run.id.clone(),
                name: run.name.clone(),
                user: run.user.clone(),
                state: run.state.clone(),
                node_count: run.hosts.iter().count(),
                start_ns: run.from.unwrap_or(0),
                end_ns: run.to,
                leaves: shared.len(),
                ports,
                nodes: nodes.len(),
                up_gbps: part * rates.0,
                down_gbps: part * rates.1,
            })
        };
        let mut rows: Vec<Neighbour> = others.iter().filter_map(neighbour).collect();
        rows.sort_by(|a, b| (b.up_gbps + b.down_gbps).total_cmp(&(a.up_gbps + a.down_gbps)));
        rows.truncate(MAX_ROWS);
        rows
    }
}

fn trees(hub: &Hub, found: &Evaluated, hosts: &Hosts) -> Vec<JobTree> {
    let trees = &found.congestion(hub).trees;
    let is_own = |key: &PortKey| hosts.contains_node(&trees.name(*key).node);
    let row = |tree: &Tree| {
        let of_hosts = || tree.branches.iter().filter(|(key, _)| trees.is_host(**key));
        let own: Vec<f64> = of_hosts()
            .filter(|(key, _)| is_own(key))
            .map(|(_, branch)| branch.blocked_seconds)
            .collect();
        (!own.is_empty()).then(|| JobTree {
            root: trees.name(tree.root),
            to: trees.peer(tree.root),
            why: tree.cause,
            seconds: tree.seconds,
            job_ports: own.len(),
            host_ports: of_hosts().count(),
            job_blocked_seconds: own.iter().sum(),
        })
    };
    let mut rows: Vec<JobTree> = trees.trees.iter().filter_map(row).collect();
    rows.sort_by(|a, b| b.job_blocked_seconds.total_cmp(&a.job_blocked_seconds));
    rows.truncate(MAX_ROWS);
    rows
}
