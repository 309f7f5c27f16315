//! Compares the roots that a search finds with the true ones of a model.
//!
//! The truth is known for each second: which ports were roots, and which ports waited. A method
//! that finds roots is right about a second and a port if both say so. Seconds without a root and
//! a waiting port are quiet; there, each root that a method finds is false.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use ibnet_record::types::{Guid, NodeKind, PortNum};
use serde::{Deserialize, Serialize};

use self::jobs::{JobCounts, JobTruth, Jobs};
use super::monet::{self, Link};
use super::search::Snapshot;
use super::{Limits, RootCause, for_each_snapshot};
use crate::devices::Devices;
use crate::error::AnalysisError;
use crate::job::run::JobRun;
use crate::ports::{PortKey, PortSummary, with_equal_bins};
use crate::rows::Row;

mod jobs;

const SECOND: u64 = 1_000_000_000;

/// The method "full links" takes a port as a root if it used more than this share of its data rate.
const FULL_LINK: f64 = 0.9;

/// The truth about one second, as `ibnet-truth` writes it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Truth {
    /// Its begin, in nanoseconds since 1970.
    from: u64,
    roots: Vec<Labelled>,
    waiting: Vec<Labelled>,
    #[serde(default)]
    jobs: Vec<JobTruth>,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
struct Labelled {
    guid: Guid,
    port: PortNum,
}

/// How often a method was right.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ScoreRow {
    /// The method.
    pub method: &'static str,
    /// Pairs of a port and a second that are true roots.
    pub true_roots: u64,
    /// Those that the method found.
    pub found: u64,
    /// Pairs that the method found although they are no true roots.
    pub false_roots: u64,
    /// Those of them in quiet seconds.
    pub false_in_quiet: u64,
    /// Share of the found roots that are true; null if none was found.
    pub precision: Option<f64>,
    /// Share of the true roots that were found; null if there is none.
    pub recall: Option<f64>,
    /// Harmonic mean of precision and recall; null if one of them is.
    pub f1: Option<f64>,
    /// Ports that wait both in truth and by the method, divided by those that wait in one of them:
    /// the mean over the seconds that are not quiet (Jaccard index). Null if all are quiet, and
    /// for a method that finds no waiting ports.
    pub jaccard: Option<f64>,
    /// Error of the begin of a true root whose seconds overlap with those of a found one, in
    /// seconds: median. Null if there is none.
    pub begin_error_median: Option<u64>,
    /// 95th percentile.
    pub begin_error_p95: Option<u64>,
    /// Error of its end, in seconds: median.
    pub end_error_median: Option<u64>,
    /// 95th percentile.
    pub end_error_p95: Option<u64>,
    /// Share of the pairs of a job and a second, of those in which the job causes a root by the
    /// method, that are true. This and the fields below are null without jobs, and for a method
    /// that does not say which ports wait for a root.
    pub cause_precision: Option<f64>,
    /// Share of the true ones that were found.
    pub cause_recall: Option<f64>,
    /// The same for jobs that are victims.
    pub victim_precision: Option<f64>,
    /// Share of the true victims that were found.
    pub victim_recall: Option<f64>,
    /// Rank correlation (Spearman) of the blocked share of the most blocked HCA port of a job in a
    /// second with its slowdown, over the jobs that cause no root in truth.
    pub rank_correlation: Option<f64>,
    /// The same for how much less a job sends than in its busiest second.
    pub less_sent_correlation: Option<f64>,
}

/// The methods that are compared.
const METHODS: [&str; 6] = [
    "congestion trees",
    "Monet's regions",
    "Monet's regions, tuned",
    "full links",
    "fullest link",
    "most XmitWait",
];

/// Those thresholds of Monet's regions that have the largest F1 on the tuning seeds, as a mean over
/// the scenarios (docs/congestion.md).
const TUNED: monet::Thresholds = monet::Thresholds {
    enters: 0.4,
    joins: 0.3,
    size: 1,
    ..monet::PUBLISHED
};

/// How often pairs of something and a second were found.
#[derive(Clone, Copy, Default)]
struct Counts {
    all: u64,
    found: u64,
    wrong: u64,
}

/// What is known about a method so far.
#[derive(Default)]
struct Judged {
    roots: Counts,
    false_in_quiet: u64,
    jaccard: f64,
    seconds: u64,
    /// Seconds in which each port was found.
    times: BTreeMap<PortKey, BTreeSet<u64>>,
}

/// The loads of a second, and the roots with the ports that wait for them.
#[derive(Default)]
struct Second {
    /// Means over the second.
    loads: BTreeMap<PortKey, Load>,
    /// The share of the second in which the ports waited for each root. A root that waits is one
    /// of them.
    roots: BTreeMap<PortKey, BTreeMap<PortKey, f64>>,
}

#[derive(Clone, Copy, Default)]
struct Load {
    used: f64,
    blocked: f64,
}

/// Reads the truth, one JSON object in each line. `name` is the name of the file.
///
/// # Errors
/// Returns an error if the file is not readable or a line is not such an object.
pub fn read(lines: impl BufRead, name: &str) -> Result<Vec<Truth>, AnalysisError> {
    let line = |(index, line): (usize, std::io::Result<String>)| {
        let line = line.map_err(|source| AnalysisError::Read {
            name: name.to_owned(),
            source,
        })?;
        serde_json::from_str(&line).map_err(|source| AnalysisError::Truth {
            name: name.to_owned(),
            line: index + 1,
            source,
        })
    };
    lines.lines().enumerate().map(line).collect()
}

/// Compares the methods with the truth. `runs` has the jobs.
///
/// # Errors
/// Returns an error if the values of the ports are not known for each second.
pub fn compare(
    truth: &[Truth],
    ports: &BTreeMap<PortKey, PortSummary>,
    devices: &Devices,
    limits: Limits<'_>,
    runs: &[JobRun],
) -> Result<Vec<ScoreRow>, AnalysisError> {
    let ports = with_equal_bins(ports);
    let widths = ports.values().map(|port| port.bins.width_ns());
    let width = widths.max().unwrap_or(SECOND);
    if width > SECOND {
        return Err(AnalysisError::LongTruth {
            seconds: width / SECOND,
        });
    }
    let truth: BTreeMap<u64, &Truth> = truth.iter().map(|one| (one.from / SECOND, one)).collect();
    // Seconds without labels do not count: the recording can be longer. In those without readings,
    // nothing is found.
    let mut seconds: BTreeMap<u64, Second> = truth
        .keys()
        .map(|number| (*number, Second::default()))
        .collect();
    for_each_snapshot(&ports, width, devices, limits, |snapshot| {
        if let Some(second) = seconds.get_mut(&(snapshot.number * width / SECOND)) {
            second.add(snapshot, width as f64 / SECOND as f64);
        }
    });
    for second in seconds.values_mut() {
        let is_root =
            |waited: &BTreeMap<PortKey, f64>| waited.values().any(|share| *share > limits.waits);
        second.roots.retain(|_, waited| is_root(waited));
    }
    let mut judged: Vec<_> = METHODS.iter().map(|_| Judged::default()).collect();
    let jobs = Jobs::new(runs, &ports);
    let mut job_counts = JobCounts::default();
    for (number, second) in &seconds {
        let methods = second.methods(&ports, limits);
        for (judged, (roots, waiting)) in judged.iter_mut().zip(methods) {
            judged.add(*number, truth[number], &roots, waiting.as_ref());
        }
        let span = (number * SECOND, (number + 1) * SECOND);
        job_counts.add(&truth[number].jobs, second, &jobs, span, limits.waits);
    }
    let mut true_times: BTreeMap<PortKey, BTreeSet<u64>> = BTreeMap::new();
    for (number, truth) in &truth {
        for root in keys(&truth.roots) {
            true_times.entry(root).or_default().insert(*number);
        }
    }
    let mut rows: Vec<ScoreRow> = METHODS
        .into_iter()
        .zip(&judged)
        .map(|(method, judged)| judged.row(method, &true_times))
        .collect();
    if !runs.is_empty() {
        job_counts.fill(&mut rows[0]);
    }
    Ok(rows)
}

/// Roots and, where a method finds them, waiting ports.
type Found = (BTreeSet<PortKey>, Option<BTreeSet<PortKey>>);

impl Second {
    /// Adds an interval that is this part of the second.
    fn add(&mut self, snapshot: &Snapshot<'_>, part: f64) {
        let loads: BTreeMap<_, _> = snapshot.loads().collect();
        for (key, load) in &loads {
            let sum = self.loads.entry(*key).or_default();
            sum.used += part * load.used;
            sum.blocked += part * load.blocked;
        }
        // A tree of unknown cause names no root.
        let roots = snapshot.roots.iter();
        for ((root, _), waiting) in roots.filter(|((_, cause), _)| *cause != RootCause::Unclear) {
            let waited = self.roots.entry(snapshot.key(*root)).or_default();
            for place in waiting.iter().map(|waiting| waiting.port).chain([*root]) {
                let port = snapshot.key(place);
                *waited.entry(port).or_default() += part * loads[&port].blocked;
            }
        }
    }

    fn load(&self, port: PortKey) -> Load {
        self.loads.get(&port).copied().unwrap_or_default()
    }

    /// Returns for which part of the second each port waited for each root. If it may have waited
    /// for several roots, each gets an equal part.
    fn parts(&self) -> BTreeMap<(PortKey, PortKey), f64> {
        let mut roots_of: BTreeMap<PortKey, f64> = BTreeMap::new();
        for port in self.roots.values().flat_map(BTreeMap::keys) {
            *roots_of.entry(*port).or_default() += 1.0;
        }
        let mut parts = BTreeMap::new();
        for (root, waited) in &self.roots {
            let part = |(port, share): (&PortKey, &f64)| ((*root, *port), share / roots_of[port]);
            parts.extend(waited.iter().map(part));
        }
        parts
    }

    /// Returns what each of the methods finds.
    fn methods(
        &self,
        ports: &BTreeMap<PortKey, PortSummary>,
        limits: Limits<'_>,
    ) -> [Found; METHODS.len()] {
        let is_host = |key| ports.get(&key).and_then(|port| port.kind) == Some(NodeKind::Hca);
        let link = |(key, load): (&PortKey, &Load)| {
            let peer = ports.get(key)?.peer?;
            Some(Link {
                port: *key,
                peer,
                leads_to_host: is_host(peer),
                used: load.used,
                blocked: load.blocked,
            })
        };
        let links: Vec<Link> = self.loads.iter().filter_map(link).collect();
        let regions = |thresholds| {
            let regions = monet::regions(&links, thresholds);
            let roots = regions.iter().map(|region| region.root).collect();
            let ports = regions
                .iter()
                .flat_map(|region| region.ports.iter().copied());
            (roots, Some(ports.collect()))
        };
        let full = self.loads.iter().filter(|(_, load)| load.used > FULL_LINK);
        let waiting = self
            .loads
            .iter()
            .filter(|(_, load)| load.blocked > limits.waits);
        let waiting: BTreeSet<PortKey> = waiting.map(|(key, _)| *key).collect();
        // The port with the largest value, in a second in which a port waits.
        let largest = |value: fn(&Load) -> f64| {
            let ports = self.loads.iter().filter(|_| !waiting.is_empty());
            let most = ports.max_by(|(_, a), (_, b)| value(a).total_cmp(&value(b)));
            (most.map(|(key, _)| *key).into_iter().collect(), None)
        };
        [
            (self.roots.keys().copied().collect(), Some(waiting.clone())),
            regions(monet::PUBLISHED),
            regions(TUNED),
            (full.map(|(key, _)| *key).collect(), None),
            largest(|load| load.used),
            largest(|load| load.blocked),
        ]
    }
}

impl Row for ScoreRow {
    const COLUMNS: &'static [&'static str] = &[
        "method",
        "true_roots",
        "found",
        "false_roots",
        "false_in_quiet",
        "precision",
        "recall",
        "f1",
        "jaccard",
        "begin_error_median",
        "begin_error_p95",
        "end_error_median",
        "end_error_p95",
        "cause_precision",
        "cause_recall",
        "victim_precision",
        "victim_recall",
        "rank_correlation",
        "less_sent_correlation",
    ];
}

fn keys(labelled: &[Labelled]) -> BTreeSet<PortKey> {
    labelled.iter().map(|one| (one.guid, one.port)).collect()
}

impl Counts {
    fn add_one(&mut self, is_true: bool, is_found: bool) {
        self.all += u64::from(is_true);
        self.found += u64::from(is_true && is_found);
        self.wrong += u64::from(!is_true && is_found);
    }

    fn precision(self) -> Option<f64> {
        share(self.found, self.found + self.wrong)
    }

    fn recall(self) -> Option<f64> {
        share(self.found, self.all)
    }
}

fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

impl Judged {
    fn add(
        &mut self,
        number: u64,
        truth: &Truth,
        roots: &BTreeSet<PortKey>,
        waiting: Option<&BTreeSet<PortKey>>,
    ) {
        let (true_roots, true_waiting) = (keys(&truth.roots), keys(&truth.waiting));
        for root in true_roots.union(roots) {
            self.roots
                .add_one(true_roots.contains(root), roots.contains(root));
        }
        for root in roots {
            self.times.entry(*root).or_default().insert(number);
        }
        if true_roots.is_empty() && true_waiting.is_empty() {
            self.false_in_quiet += roots.len() as u64;
        } else if let Some(waiting) = waiting {
            let both = true_waiting.intersection(waiting).count() as f64;
            let any = true_waiting.union(waiting).count();
            // A root can be true although no port waits long enough to be listed.
            self.jaccard += if any == 0 { 1.0 } else { both / any as f64 };
            self.seconds += 1;
        }
    }

    fn row(&self, method: &'static str, true_times: &BTreeMap<PortKey, BTreeSet<u64>>) -> ScoreRow {
        let Counts { all, found, wrong } = self.roots;
        let (precision, recall) = (self.roots.precision(), self.roots.recall());
        let f1 = precision.zip(recall).map(|(precision, recall)| {
            2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE)
        });
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        for (port, times) in true_times {
            let found = self.times.get(port).map(runs_of).unwrap_or_default();
            for (from, to) in runs_of(times) {
                let overlap = |run: &&(u64, u64)| run.0 <= to && run.1 >= from;
                let mut overlapping = found.iter().filter(overlap);
                if let Some(first) = overlapping.next() {
                    let last = overlapping.next_back().unwrap_or(first);
                    begins.push(first.0.abs_diff(from));
                    ends.push(last.1.abs_diff(to));
                }
            }
        }
        ScoreRow {
            method,
            true_roots: all,
            found,
            false_roots: wrong,
            false_in_quiet: self.false_in_quiet,
            precision,
            recall,
            f1,
            jaccard: (self.seconds > 0).then(|| self.jaccard / self.seconds as f64),
            begin_error_median: percentile(&mut begins, 50),
            begin_error_p95: percentile(&mut begins, 95),
            end_error_median: percentile(&mut ends, 50),
            end_error_p95: percentile(&mut ends, 95),
            cause_precision: None,
            cause_recall: None,
            victim_precision: None,
            victim_recall: None,
            rank_correlation: None,
            less_sent_correlation: None,
        }
    }
}

/// Returns the first and last of the numbers that follow one another.
fn runs_of(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    runs
}

/// Returns the smallest value that this percentage of the values does not exceed.
fn percentile(values: &mut [u64], percent: usize) -> Option<u64> {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied()
}

impl JobCounts {
    fn fill(&self, row: &mut ScoreRow) {
        (row.cause_precision, row.cause_recall) = (self.causes.precision(), self.causes.recall());
        (row.victim_precision, row.victim_recall) =
            (self.victims.precision(), self.victims.recall());
        row.rank_correlation = self.correlation();
        row.less_sent_correlation = self.less_sent_correlation();
    }
}
