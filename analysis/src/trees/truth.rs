//! Compares the roots that a search finds with the true ones of a model.
//!
//! The truth is known for each second: which ports were roots, and which ports waited. A method
//! that finds roots is right about a second and a port if both say so. Seconds without a root and
//! a waiting port are quiet; there, each root that a method finds is false.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use ibnet_record::types::{Guid, PortNum};
use serde::{Deserialize, Serialize};

use super::search::Snapshot;
use super::{Limits, RootCause, for_each_snapshot};
use crate::devices::Devices;
use crate::error::AnalysisError;
use crate::ports::{PortKey, PortSummary, with_equal_bins};
use crate::rows::Row;

/// The truth about one second, as `ibnet-truth` writes it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Truth {
    /// Its begin, in nanoseconds since 1970.
    from: u64,
    roots: Vec<Labelled>,
    waiting: Vec<Labelled>,
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
}

/// The methods that are compared, and whether they find waiting ports.
const METHODS: [(&str, bool); 3] = [
    ("congestion trees", true),
    ("full links", false),
    ("most blocked port", false),
];

/// Counts of a method.
#[derive(Clone, Default)]
struct Counts {
    true_roots: u64,
    found: u64,
    false_roots: u64,
    false_in_quiet: u64,
    jaccard: f64,
    seconds: u64,
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

/// Compares the methods with the truth.
///
/// # Errors
/// Returns an error if the values of the ports are not known for each second.
pub fn compare(
    truth: &[Truth],
    ports: &BTreeMap<PortKey, PortSummary>,
    devices: &Devices,
    limits: Limits,
) -> Result<Vec<ScoreRow>, AnalysisError> {
    const SECOND: u64 = 1_000_000_000;
    let ports = with_equal_bins(ports);
    if let Some(width) = ports
        .values()
        .map(|port| port.bins.width_ns())
        .find(|width| *width > SECOND)
    {
        return Err(AnalysisError::LongTruth {
            seconds: width / SECOND,
        });
    }
    let mut truth: BTreeMap<u64, &Truth> =
        truth.iter().map(|one| (one.from / SECOND, one)).collect();
    let mut counts = vec![Counts::default(); METHODS.len()];
    for_each_snapshot(&ports, SECOND, devices, limits, |snapshot| {
        // Seconds without labels do not count: the recording can be longer.
        if let Some(truth) = truth.remove(&snapshot.number) {
            let methods = [
                trees(snapshot),
                full_links(snapshot, 0.9),
                most_blocked(snapshot, limits.waits),
            ];
            for (counts, (roots, waiting)) in counts.iter_mut().zip(methods) {
                counts.add(truth, &roots, waiting.as_ref());
            }
        }
    });
    // In the seconds without readings, nothing was found.
    let none = BTreeSet::new();
    for truth in truth.into_values() {
        for (counts, (_, finds_waiting)) in counts.iter_mut().zip(METHODS) {
            counts.add(truth, &none, finds_waiting.then_some(&none));
        }
    }
    Ok(METHODS
        .into_iter()
        .zip(counts)
        .map(|((method, _), counts)| counts.row(method))
        .collect())
}

/// Roots and, where a method finds them, waiting ports.
type Found = (BTreeSet<PortKey>, Option<BTreeSet<PortKey>>);

fn trees(snapshot: &Snapshot) -> Found {
    // A tree of unknown cause names no root.
    let roots = snapshot.roots.keys();
    let roots = roots.filter(|(_, cause)| *cause != RootCause::Unclear);
    let roots = roots.map(|(port, _)| *port).collect();
    (roots, Some(snapshot.waiting().collect()))
}

/// Every link that is used by more than the limit of a full one.
fn full_links(snapshot: &Snapshot, limit: f64) -> Found {
    let full = snapshot.loads().filter(|(_, load)| load.used > limit);
    (full.map(|(key, _)| key).collect(), None)
}

/// The port with the largest share of blocked time, if it waits.
fn most_blocked(snapshot: &Snapshot, limit: f64) -> Found {
    let most = snapshot
        .loads()
        .max_by(|(_, a), (_, b)| a.blocked.total_cmp(&b.blocked));
    let most = most.filter(|(_, load)| load.blocked > limit);
    (most.map(|(key, _)| key).into_iter().collect(), None)
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
    ];
}

impl Counts {
    fn add(
        &mut self,
        truth: &Truth,
        roots: &BTreeSet<PortKey>,
        waiting: Option<&BTreeSet<PortKey>>,
    ) {
        let keys = |labelled: &[Labelled]| -> BTreeSet<PortKey> {
            labelled.iter().map(|one| (one.guid, one.port)).collect()
        };
        let (true_roots, true_waiting) = (keys(&truth.roots), keys(&truth.waiting));
        let found = true_roots.intersection(roots).count();
        let wrong = (roots.len() - found) as u64;
        self.true_roots += true_roots.len() as u64;
        self.found += found as u64;
        self.false_roots += wrong;
        if true_roots.is_empty() && true_waiting.is_empty() {
            self.false_in_quiet += wrong;
        } else if let Some(waiting) = waiting {
            let both = true_waiting.intersection(waiting).count() as f64;
            let any = true_waiting.union(waiting).count();
            // A root can be true although no port waits long enough to be listed.
            self.jaccard += if any == 0 { 1.0 } else { both / any as f64 };
            self.seconds += 1;
        }
    }

    fn row(&self, method: &'static str) -> ScoreRow {
        let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        let precision = share(self.found, self.found + self.false_roots);
        let recall = share(self.found, self.true_roots);
        let f1 = precision.zip(recall).map(|(precision, recall)| {
            2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE)
        });
        let jaccard = (self.seconds > 0).then(|| self.jaccard / self.seconds as f64);
        let Self {
            true_roots,
            found,
            false_roots,
            false_in_quiet,
            ..
        } = *self;
        ScoreRow {
            method,
            true_roots,
            found,
            false_roots,
            false_in_quiet,
            precision,
            recall,
            f1,
            jaccard,
        }
    }
}
