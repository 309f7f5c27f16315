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
    /// What each job sends in its seconds, by the number of its run.
    sent: BTreeMap<usize, Vec<Sent>>,
}

/// What a job sends in a second.
struct Sent {
    /// Mean of the used shares of its HCA ports.
    used: f64,
    /// Its slowdown, unless it causes a root.
    slowdown: Option<f64>,
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
            let is_it = |run: &JobRun| run.id == job.name && run.is_during(from, to);
            let Some(number) = jobs.runs.iter().position(|(run, _)| is_it(run)) else {
                continue;
            };
            let ports = &jobs.runs[number].1;
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
            let loads = ports.iter().filter_map(|port| second.loads.get(port));
            let used: Vec<f64> = loads.map(|load| load.used).collect();
            if !used.is_empty() {
                self.sent.entry(number).or_default().push(Sent {
                    used: used.iter().sum::<f64>() / used.len() as f64,
                    slowdown: (!job.causes).then_some(job.slowdown),
                });
            }
        }
    }

    /// Returns Spearman's rank correlation of the blocked share with the slowdown.
    pub(super) fn correlation(&self) -> Option<f64> {
        spearman(&self.slowed)
    }

    /// Returns Spearman's rank correlation with the slowdown of how much less a job sends than in
    /// its busiest second.
    pub(super) fn less_sent_correlation(&self) -> Option<f64> {
        let of_job = |seconds: &Vec<Sent>| {
            let most = seconds.iter().map(|sent| sent.used).fold(0.0, f64::max);
            let less = move |sent: &Sent| Some((1.0 - sent.used / most, sent.slowdown?));
            seconds.iter().filter_map(less).collect::<Vec<_>>()
        };
        let jobs = self
            .sent
            .values()
            .filter(|seconds| seconds.iter().any(|sent| sent.used > 0.0));
        spearman(&jobs.flat_map(of_job).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_is_compared_with_its_own_busiest_second() {
        let sent = |used, slowdown| Sent { used, slowdown };
        let of = |seconds: [Vec<Sent>; 2]| {
            let counts = JobCounts {
                sent: seconds.into_iter().enumerate().collect(),
                ..JobCounts::default()
            };
            counts.less_sent_correlation()
        };
        let large = || vec![sent(0.8, Some(1.0)), sent(0.4, Some(2.0))];
        // In its busiest second it causes a root, so that its slowdown does not count.
        let small = vec![sent(0.2, None), sent(0.05, Some(4.0)), sent(0.1, Some(2.0))];
        assert_eq!(of([large(), small]), Some(1.0));
        let other = vec![sent(0.2, Some(4.0)), sent(0.1, Some(1.0))];
        let correlation = of([large(), other]).expect("pairs");
        assert!(correlation < 0.0, "{correlation}");
        assert_eq!(of([vec![sent(0.0, Some(1.0))], Vec::new()]), None);
    }
}
