//! Finds the rows and times of jobs in a heat map.

use std::ops::Range;

use super::grid::Grid;
use crate::job::marks::Mark;
use crate::job::run::JobRun;

/// The outline of a job or of a phase of an application: its rows and times.
#[derive(Clone, PartialEq, Debug)]
pub struct JobMark {
    /// `job 4711`, or the name of a phase; not escaped.
    pub label: String,
    /// Consecutive rows with a host of the job or the phase.
    pub rows: Vec<Range<usize>>,
    /// Start and end, in columns from the start of the heat map. Both are within the heat map.
    pub columns: (f64, f64),
}

/// Returns the marks of the jobs and phases that have rows in the heat map and ran in its time.
pub fn marks(grid: &Grid, jobs: &[JobRun], phases: &[Mark]) -> Vec<JobMark> {
    let of_jobs = jobs.iter().map(|job| {
        let has = |host: &str| job.hosts.contains_node(host);
        mark(grid, format!("job {}", job.id), (job.from, job.to), &has)
    });
    let of_phases = phases.iter().map(|phase| {
        let has = |host: &str| phase.contains(host);
        mark(grid, phase.name.clone(), (Some(phase.from), phase.to), &has)
    });
    of_jobs.chain(of_phases).flatten().collect()
}

fn mark(
    grid: &Grid,
    label: String,
    (from, to): (Option<u64>, Option<u64>),
    has: &dyn Fn(&str) -> bool,
) -> Option<JobMark> {
    let column = |ns: u64| {
        (ns.saturating_sub(grid.start_ns) as f64 / grid.step_ns.max(1) as f64)
            .min(grid.columns as f64)
    };
    let columns = (
        from.map_or(0.0, column),
        to.map_or(grid.columns as f64, column),
    );
    let mut rows: Vec<Range<usize>> = Vec::new();
    for (row, _) in grid
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.hosts.iter().any(|host| has(host)))
    {
        match rows.last_mut() {
            Some(last) if last.end == row => last.end = row + 1,
            _ => rows.push(row..row + 1),
        }
    }
    (columns.1 > columns.0 && !rows.is_empty()).then_some(JobMark {
        label,
        rows,
        columns,
    })
}

#[cfg(test)]
mod tests {
    use super::super::order::{RowKind, RowLabel};
    use super::*;

    #[test]
    fn job_has_the_rows_of_its_hosts_and_its_part_of_the_time() {
        let row = |hosts: &[&str]| RowLabel {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..RowLabel::new("row")
        };
        let rows = vec![
            row(&["n1"]),
            row(&["n1", "n2"]),
            row(&[]),
            row(&["n2"]),
            row(&["n3"]),
        ];
        let grid = Grid {
            start_ns: 1000,
            step_ns: 100,
            columns: 10,
            by: RowKind::Port,
            rows,
            panels: Vec::new(),
        };
        let job = |id: &str, nodes: &str, from, to| JobRun::new(id, nodes, from, to).unwrap();
        let jobs = [
            job("1", "n[1-2]", Some(1150), Some(1300)),
            job("2", "n3", Some(0), None),
            job("3", "n9", None, None),
            job("4", "n3", Some(0), Some(1000)),
        ];
        let phase = Mark {
            name: "write".to_owned(),
            hosts: None,
            from: 1200,
            to: None,
            value: None,
        };
        let mark = |job: &str, rows: &[(usize, usize)], columns| JobMark {
            label: job.to_owned(),
            rows: rows.iter().map(|(start, end)| *start..*end).collect(),
            columns,
        };
        assert_eq!(
            marks(&grid, &jobs, &[phase]),
            [
                mark("job 1", &[(0, 2), (3, 4)], (1.5, 3.0)),
                mark("job 2", &[(4, 5)], (0.0, 10.0)),
                mark("write", &[(0, 2), (3, 5)], (2.0, 10.0))
            ]
        );
    }
}
