//! Which jobs cause a root and which are victims, by the counters, compared with the truth.

use std::collections::BTreeMap;

use ibnet_record::types::NodeKind;
use serde::Deserialize;

use super::super::regions;
use super::{Counts, Second};
use crate::correlation::spearman;
use crate::job::run::JobRun;
use crate::ports::{PortKey, PortSummary};

/// The truth about a job in a second.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct JobTruth {
    name: String,
    slowdown: f64,
    causes: bool,
    victim: bool,
}

/// The jobs with the HCA ports of their hosts.
pub(super) struct Jobs<'a> {
    runs: Vec<(&'a JobRun, Vec<PortKey>)>,
    ports: &'a BTreeMap<PortKey, PortSummary>,
}

/// How often the jobs that cause and suffer were found.
#[derive(Default)]
pub(super) struct JobCounts {
    pub(super) causes: Counts,
    pub(super) victims: Counts,
    /// Blocked share and slowdown of jobs that cause no root.
    slowed: Vec<(f64, f64)>,
}

impl<'a> Jobs<'a> {
    pub(super) fn new(runs: &'a [JobRun], ports: &'a BTreeMap<PortKey, PortSummary>) -> Self {
        let of_run = |run: &JobRun| {
            let has = |port: &PortSummary| {
                port.kind == Some(NodeKind::Hca) && run.hosts.contains_node(&port.node)
            };
            ports
                .iter()
                .filter(|(_, port)| has(port))
                .map(|(key, _)| *key)
                .collect()
        };
        let runs = runs.iter().map(|run| (run, of_run(run))).collect();
        Self { runs, ports }
    }
}

impl JobCounts {
    /// Compares the jobs of a second. `span_ns` is its begin and end in nanoseconds since 1970.
    pub(super) fn add(
        &mut self,
        truth: &[JobTruth],
        second: &Second,
        jobs: &Jobs<'_>,
        (from, to): (u64, u64),
        waits: f64,
    ) {
        let parts = second.parts();
        for job in truth {
            let runs = || jobs.runs.iter().filter(|(run, _)| run.is_during(from, to));
            let Some((_, ports)) = runs().find(|(run, _)| run.id == job.name) else {
                continue;
            };
            let causes = second.roots.keys().any(|root| {
                let of = |ports: &mut dyn Iterator<Item = &PortKey>| -> f64 {
                    ports.filter_map(|port| parts.get(&(*root, *port))).sum()
                };
                let all = of(&mut jobs.runs.iter().flat_map(|(_, ports)| ports));
                let sent: f64 = ports
                    .iter()
                    .filter(|port| parts.contains_key(&(*root, **port)))
                    .map(|port| second.load(*port).used)
                    .sum();
                let waited = of(&mut ports.iter()) / all.max(f64::MIN_POSITIVE);
                let sent = sent / second.load(*root).used.max(f64::MIN_POSITIVE);
                let to = jobs.ports.get(root).and_then(|port| port.peer);
                let receives = |ports: &[PortKey]| to.is_some_and(|to| ports.contains(&to));
                let has_receiver = runs().any(|(_, ports)| receives(ports));
                regions::causes(has_receiver.then(|| receives(ports)), waited, sent)
            });
            // A job waits as long as the one of its ports that waits longest.
            let blocked = ports.iter().map(|port| second.load(*port).blocked);
            let blocked = blocked.fold(0.0, f64::max);
            self.causes.add_one(job.causes, causes);
            self.victims.add_one(job.victim, !causes && blocked > waits);
            if !job.causes {
                self.slowed.push((blocked, job.slowdown));
            }
        }
    }

    /// Returns Spearman's rank correlation of the blocked share with the slowdown.
    pub(super) fn correlation(&self) -> Option<f64> {
        spearman(&self.slowed)
    }
}
