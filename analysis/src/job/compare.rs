//! Tests whether the runs of a program that were blocked longer also took longer.

use serde::Serialize;

use super::Job;
use super::run::JobRun;
use crate::correlation::RankTest;

/// Min part of the run time for which the blocked time is known, 0 to 1.
const KNOWN: f64 = 0.8;

/// Run time against blocked time, over several runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Number of runs that were compared.
    pub runs: usize,
    /// These runs.
    #[serde(skip)]
    pub points: Vec<Point>,
    /// Number of runs that were left out: their start or end is not known, they failed, or their
    /// blocked time is known for less than 80 % of their time.
    pub left_out: usize,
    /// Whether the runs had different numbers of nodes, so that their times are hardly comparable.
    pub has_other_nodes: bool,
    /// Run time against the blocked time of a node in the whole run, in seconds; the part of the
    /// run for which it is known counts for the rest. A longer run has more time to be blocked.
    /// Null with fewer than three runs, or without a difference between them.
    pub blocked_seconds: Option<RankTest>,
    /// Run time against the blocked time for each byte, in the same form.
    pub blocked_ns_per_byte: Option<RankTest>,
}

/// A run that was compared.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// Job ID.
    pub run: String,
    /// Run time in seconds.
    pub seconds: f64,
    /// Blocked time of a node in the whole run, in seconds.
    pub blocked_seconds: f64,
}

impl Comparison {
    /// Compares runs.
    pub fn of<'a>(runs: impl IntoIterator<Item = (&'a JobRun, &'a Job)>) -> Self {
        let runs: Vec<_> = runs.into_iter().collect();
        let used: Vec<(Point, &Job)> = runs
            .iter()
            .filter_map(|(run, job)| Some((point(run, job)?, *job)))
            .collect();
        let test = |value: fn(&Point, &Job) -> Option<f64>| {
            let pair = |(point, job): &(Point, &Job)| Some((point.seconds, value(point, job)?));
            RankTest::of(&used.iter().map(pair).collect::<Option<Vec<_>>>()?)
        };
        Self {
            runs: used.len(),
            left_out: runs.len() - used.len(),
            has_other_nodes: used
                .windows(2)
                .any(|two| two[0].1.nodes.len() != two[1].1.nodes.len()),
            blocked_seconds: test(|point, _| Some(point.blocked_seconds)),
            blocked_ns_per_byte: test(|_, job| job.blocked_ns_per_byte),
            points: used.into_iter().map(|(point, _)| point).collect(),
        }
    }
}

/// Returns the times of a run, if it can be compared.
fn point(run: &JobRun, job: &Job) -> Option<Point> {
    let seconds = run.to?.checked_sub(run.from?)? as f64 / 1e9;
    let is_whole = !run.to_is_lower_bound && matches!(&*run.state, "" | "completed");
    let known = job.blocked_covered_seconds();
    let sum: f64 = job.nodes.iter().map(|node| node.blocked_seconds).sum();
    (is_whole && known >= KNOWN * seconds).then(|| Point {
        run: run.id.clone(),
        seconds,
        blocked_seconds: sum / job.nodes.len() as f64 * seconds / known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, job_lines};
    use crate::ports::Ports;

    #[test]
    fn whole_runs_are_tested_and_others_are_left_out() {
        let lines = fold(Ports::with_bins(8), &job_lines(true)).finish();
        let run = |id: u32, state: &str| {
            let to = Some(1_000_000_000 + u64::from(id) * 100_000_000);
            let run = JobRun::new(&id.to_string(), "n1,n2", Some(0), to).unwrap();
            let mut job = Job::of(&lines, &run.hosts);
            job.nodes[0].blocked_seconds = f64::from(id);
            job.blocked_ns_per_byte = Some(10.0 - f64::from(id));
            let state = state.to_owned();
            (JobRun { state, ..run }, job)
        };
        let mut runs: Vec<_> = (1..=5).map(|id| run(id, "completed")).collect();
        runs.extend([run(6, "failed"), run(7, "running")]);
        let mut lower_bound = run(8, "");
        lower_bound.0.to_is_lower_bound = true;
        // The records end long before the run.
        let mut unknown = run(9, "");
        unknown.0.to = Some(100_000_000_000);
        runs.extend([lower_bound, unknown]);
        let compared = Comparison::of(runs.iter().map(|(run, job)| (run, job)));
        assert_eq!((compared.runs, compared.left_out), (5, 4));
        let [time, byte] = [compared.blocked_seconds, compared.blocked_ns_per_byte];
        assert_eq!(
            [time, byte].map(|test| test.map(|test| test.rho.round())),
            [Some(1.0), Some(-1.0)]
        );
        assert!(!compared.has_other_nodes);
    }
}
