//! Keeps the jobs of the cluster, with the traffic of their nodes.
//!
//! A source lists the current jobs from time to time. The table keeps a job after the source has
//! dropped it. The traffic of a job is added up while it runs ([`settle`]), so it remains known
//! when its records are gone.
//!
//! | module | contents |
//! |---|---|
//! | [`source`] | where jobs come from: a file, a resource manager, or the simulation |
//! | [`settle`] | adds the traffic of a time range to the jobs |

use std::collections::{BTreeMap, BTreeSet};

use ibnet_analysis::job::all::JobTotal;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::table::Listing;
use serde::Serialize;

pub(crate) mod settle;
pub(crate) mod source;

/// Max number of jobs, and max number of nodes of all jobs together.
const MAX_JOBS: usize = 20_000;
const MAX_NODES: usize = 500_000;

/// Max number of bins in which the data rate of a job is kept.
const MAX_BINS: usize = 720;

/// A job with its traffic.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) run: JobRun,
    /// Traffic from `traffic_from_ns` to `traffic_to_ns`. `None` without records.
    pub(crate) total: Option<JobTotal>,
    pub(crate) traffic_from_ns: u64,
    pub(crate) traffic_to_ns: u64,
    /// Start of the first bin of `total.injected_gbps`.
    pub(crate) bins_from_ns: u64,
}

/// The condition of the source.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct SourceState {
    /// Description of the source. `None` if the configuration has no source.
    pub(crate) source: Option<String>,
    /// Time for which the last listing is valid, in nanoseconds since 1970.
    pub(crate) read_ns: Option<u64>,
    /// Why the last attempt failed.
    pub(crate) error: Option<String>,
    /// End of the time whose traffic is in the totals, in nanoseconds since 1970.
    pub(crate) settled_ns: Option<u64>,
}

/// ID and start of a job. A restarted job keeps its ID.
type Key = (String, u64);

/// The table of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    table: BTreeMap<Key, Known>,
    pub(crate) source: SourceState,
}

impl Known {
    fn new(run: JobRun) -> Self {
        Self {
            run,
            total: None,
            traffic_from_ns: 0,
            traffic_to_ns: 0,
            bins_from_ns: 0,
        }
    }

    fn key(&self) -> Key {
        (self.run.id.clone(), self.start_ns())
    }

    /// Returns the start in nanoseconds since 1970.
    pub(crate) fn start_ns(&self) -> u64 {
        self.run.from.unwrap_or(0)
    }

    /// Returns whether the job ran at a time between `from` and `to`.
    pub(crate) fn ran_within(&self, from: u64, to: u64) -> bool {
        self.start_ns() < to && self.run.to.is_none_or(|end| end > from)
    }

    /// Adds the traffic from `from` to `to`. `start` is the start of the first bin of the traffic.
    fn add(&mut self, total: JobTotal, (from, to): (u64, u64), start: u64, bin_ns: u64) {
        match &mut self.total {
            None => {
                (self.traffic_from_ns, self.bins_from_ns) = (from.max(self.start_ns()), start);
                self.total = Some(total);
            }
            Some(known) => {
                let end = self.bins_from_ns + known.injected_gbps.len() as u64 * bin_ns;
                let gap = (start.saturating_sub(end) / bin_ns).min(MAX_BINS as u64);
                known.extend(total, gap as usize);
            }
        }
        self.traffic_to_ns = self.run.to.map_or(to, |end| end.min(to));
        if let Some(total) = &mut self.total {
            let excess = total.injected_gbps.len().saturating_sub(MAX_BINS);
            total.injected_gbps.drain(..excess);
            total.injected_covered.drain(..excess);
            self.bins_from_ns += excess as u64 * bin_ns;
        }
    }
}

impl Jobs {
    /// Takes a listing of the source. A running job that is missing in a complete listing ended
    /// after the listing before.
    pub(crate) fn update(
        &mut self,
        Listing {
            runs,
            at: read_ns,
            is_complete,
        }: Listing,
    ) {
        let before = self.source.read_ns;
        let mut reported = BTreeSet::new();
        for run in runs {
            let Some(from) = run.from else { continue };
            let key = (run.id.clone(), from);
            reported.insert(key.clone());
            match self.table.get_mut(&key) {
                // An older listing does not replace the end of a job.
                Some(known)
                    if run.to.is_none()
                        && known.run.to.is_some()
                        && !known.run.to_is_lower_bound => {}
                Some(known) => known.run = run,
                None => drop(self.table.insert(key, Known::new(run))),
            }
        }
        for (key, known) in &mut self.table {
            if is_complete && known.run.to.is_none() && !reported.contains(key) {
                known.run.to = Some(before.unwrap_or(0).max(key.1));
                known.run.to_is_lower_bound = true;
                "ended".clone_into(&mut known.run.state);
            }
        }
        (self.source.read_ns, self.source.error) = (Some(read_ns), None);
        self.bound();
    }

    /// Removes the jobs that ended first, until the table is within its limits.
    fn bound(&mut self) {
        let nodes = |known: &Known| known.run.hosts.iter().count();
        let mut all: usize = self.table.values().map(nodes).sum();
        if self.table.len() <= MAX_JOBS && all <= MAX_NODES {
            return;
        }
        let mut order: Vec<(u64, Key, usize)> = self
            .table
            .values()
            .map(|known| (known.run.to.unwrap_or(u64::MAX), known.key(), nodes(known)))
            .collect();
        order.sort_unstable();
        for (_, key, nodes) in order {
            if self.table.len() <= MAX_JOBS && all <= MAX_NODES {
                break;
            }
            self.table.remove(&key);
            all -= nodes;
        }
    }

    pub(crate) fn drop_before(&mut self, before: u64) {
        self.table
            .retain(|_, known| known.run.to.is_none_or(|end| end >= before));
    }

    /// Returns all jobs, the one that started last first.
    pub(crate) fn newest_first(&self) -> Vec<&Known> {
        let mut all: Vec<&Known> = self.table.values().collect();
        all.sort_by(|a, b| (b.start_ns(), &b.run.id).cmp(&(a.start_ns(), &a.run.id)));
        all
    }

    /// Returns the last run of a job.
    pub(crate) fn find(&self, id: &str) -> Option<&Known> {
        self.table
            .range((id.to_owned(), 0)..=(id.to_owned(), u64::MAX))
            .next_back()
            .map(|(_, known)| known)
    }

    /// Returns the jobs that ran between `from` and `to`.
    pub(crate) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Known> {
        self.table
            .values()
            .filter(move |known| known.ran_within(from, to))
    }

    /// Returns the number of running jobs, and of all jobs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (
            self.table
                .values()
                .filter(|known| known.run.to.is_none())
                .count(),
            self.table.len(),
        )
    }

    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.table.values().map(Known::start_ns).min()
    }

    fn of_total(&mut self, total: &JobTotal) -> Option<&mut Known> {
        self.table.get_mut(&(total.job.clone()?, total.start_ns?))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a run. Times are in seconds.
    pub(crate) fn job(id: &str, nodes: &str, start: u64, end: Option<u64>) -> JobRun {
        const SECOND: u64 = 1_000_000_000;
        let run = JobRun::new(id, nodes, Some(start * SECOND), end.map(|end| end * SECOND))
            .expect("a host list");
        let state = if end.is_some() {
            "completed"
        } else {
            "running"
        };
        JobRun {
            user: Some("user01".to_owned()),
            state: state.to_owned(),
            ..run
        }
    }

    pub(crate) fn listing(runs: Vec<JobRun>, at: u64) -> Listing {
        Listing {
            runs,
            at,
            is_complete: true,
        }
    }

    #[test]
    fn job_that_is_no_longer_reported_has_ended() {
        let mut jobs = Jobs::default();
        jobs.update(listing(
            vec![job("1", "n1", 10, None), job("2", "n2", 20, None)],
            30_000_000_000,
        ));
        jobs.update(listing(vec![job("2", "n2", 20, Some(35))], 40_000_000_000));
        let ends: Vec<_> = jobs
            .newest_first()
            .iter()
            .map(|known| (known.run.id.clone(), known.run.to))
            .collect();
        assert_eq!(
            ends,
            [
                ("2".to_owned(), Some(35_000_000_000)),
                ("1".to_owned(), Some(30_000_000_000))
            ]
        );
        jobs.update(listing(Vec::new(), 50_000_000_000));
        assert_eq!(
            jobs.find("1").and_then(|known| known.run.to),
            Some(30_000_000_000),
            "the last time with it"
        );
        assert_eq!(jobs.within(32_000_000_000, 60_000_000_000).count(), 1);
        jobs.drop_before(31_000_000_000);
        assert!(jobs.find("1").is_none() && jobs.find("2").is_some());
    }

    #[test]
    fn job_that_was_started_again_is_another_row() {
        let mut jobs = Jobs::default();
        jobs.update(listing(vec![job("7", "n1", 10, None)], 20_000_000_000));
        jobs.update(listing(vec![job("7", "n2", 30, None)], 40_000_000_000));
        assert_eq!(jobs.newest_first().len(), 2);
        assert_eq!(
            jobs.find("7").map(|known| known.run.nodes.as_str()),
            Some("n2")
        );
    }

    #[test]
    fn table_drops_the_jobs_that_ended_first() {
        let mut jobs = Jobs::default();
        let all = (0..MAX_JOBS as u64 + 5)
            .map(|number| job(&number.to_string(), "n1", 1, Some(2 + number)))
            .collect();
        jobs.update(listing(all, 1));
        assert_eq!(
            (
                jobs.newest_first().len(),
                jobs.find("4").is_none(),
                jobs.find("5").is_some()
            ),
            (MAX_JOBS, true, true)
        );
        jobs.update(listing(vec![job("a", "n[1-90000]", 9, None)], 2));
        let large: Vec<_> = (0..7)
            .map(|number| job(&format!("b{number}"), "n[1-90000]", 9, Some(10 + number)))
            .collect();
        jobs.update(listing(large, 3));
        let nodes: usize = jobs
            .newest_first()
            .iter()
            .map(|known| known.run.hosts.iter().count())
            .sum();
        assert!(
            nodes <= MAX_NODES && jobs.find("b6").is_some() && jobs.find("b0").is_none(),
            "{nodes}"
        );
    }
}
