//! The jobs of a time range with their hosts and times.

use std::collections::BTreeSet;

use ibnet_record::interval::Interval;
use rustc_hash::FxHashMap;

use crate::job::run::JobRun;

/// Index of a job. `None` for traffic without a job.
pub(super) type Owner = Option<u32>;

/// The jobs of a time range with their hosts.
#[derive(Clone, Debug)]
pub struct JobList {
    pub(super) jobs: Vec<Window>,
    /// Indices of the jobs of each host, by its name in lower case.
    by_host: FxHashMap<String, Vec<u32>>,
}

/// A job with its time and its hosts.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) id: String,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Host names as Slurm writes them.
    pub(super) hosts: BTreeSet<String>,
}

impl JobList {
    /// Creates the list of jobs in this order.
    pub fn new(jobs: &[JobRun]) -> Self {
        let mut list = Self {
            jobs: Vec::new(),
            by_host: FxHashMap::default(),
        };
        for (index, job) in (0_u32..).zip(jobs) {
            let hosts: BTreeSet<String> = job.hosts.iter().map(str::to_owned).collect();
            for host in &hosts {
                list.by_host
                    .entry(host.to_lowercase())
                    .or_default()
                    .push(index);
            }
            list.jobs.push(Window {
                id: job.id.clone(),
                from: job.from.unwrap_or(0),
                to: job.to.unwrap_or(u64::MAX),
                hosts,
            });
        }
        list
    }

    /// Returns the jobs that ran on a host for at least half of an interval, or, if there is
    /// none, the job that ran for the longest part of it.
    pub(crate) fn during(&self, host: &str, interval: Interval) -> Vec<u32> {
        let all = self.by_host.get(&host.to_lowercase()).into_iter().flatten();
        let ran = all.filter_map(|index| {
            let Window { from, to, .. } = self.jobs[*index as usize];
            Some((interval.within(from, to)?.length_ns(), *index))
        });
        let ran: Vec<(u64, u32)> = ran.collect();
        let mut most: Vec<u32> = ran
            .iter()
            .filter(|(ns, _)| ns * 2 >= interval.length_ns())
            .map(|(_, index)| *index)
            .collect();
        if most.is_empty() {
            most.extend(ran.iter().max().map(|(_, index)| *index));
        }
        most.sort_unstable();
        most
    }

    pub(crate) fn id(&self, index: u32) -> &str {
        &self.jobs[index as usize].id
    }

    /// Splits an interval of a host at the starts and ends of its jobs. Returns each part once
    /// for each owner, with the share that belongs to this owner: if several jobs ran at the same
    /// time, each owns an equal share.
    pub(super) fn split(&self, host: &str, interval: Interval) -> Vec<(Owner, Interval, f64)> {
        let none = vec![(None, interval, 1.0)];
        let Some(all) = self.by_host.get(&host.to_lowercase()) else {
            return none;
        };
        let jobs: Vec<(u32, Interval)> = all
            .iter()
            .filter_map(|index| {
                let Window { from, to, .. } = self.jobs[*index as usize];
                Some((*index, interval.within(from, to)?))
            })
            .collect();
        if jobs.is_empty() {
            return none;
        }
        let mut edges: Vec<u64> = jobs
            .iter()
            .flat_map(|(_, part)| [part.from(), part.to()])
            .collect();
        edges.extend([interval.from(), interval.to()]);
        edges.sort_unstable();
        edges.dedup();
        let mut parts = Vec::new();
        for part in edges
            .windows(2)
            .filter_map(|edge| interval.within(edge[0], edge[1]))
        {
            let owners: Vec<u32> = jobs
                .iter()
                .filter(|(_, job)| job.within(part.from(), part.to()).is_some())
                .map(|(index, _)| *index)
                .collect();
            if owners.is_empty() {
                parts.push((None, part, 1.0));
            }
            parts.extend(
                owners
                    .iter()
                    .map(|owner| (Some(*owner), part, 1.0 / owners.len() as f64)),
            );
        }
        parts
    }
}
