//! Adds panels of host metrics to a picture over time, each metric stacked by host or by job.

use ibnet_analysis::cell::{Cell, Joined};
use ibnet_analysis::heat;
use ibnet_analysis::heat::grid::Grid;
use ibnet_analysis::host_metrics::panels::Columns;
use ibnet_analysis::job::all::{JobTotal, JobsTraffic};

use super::job::NO_JOB;
use super::timeline::{Panel, Series, Timeline, largest};

impl Timeline {
    /// Returns the time axis, for host metrics.
    pub const fn columns(&self) -> Columns {
        Columns {
            start_ns: self.start_ns,
            step_ns: self.step_ns,
            count: self.steps,
        }
    }

    /// Appends a panel for each host metric, stacked by host. `hosts` has the time axis of
    /// this picture.
    #[must_use]
    pub fn with_hosts(mut self, hosts: &Grid) -> Self {
        for panel in &hosts.panels {
            let rows = hosts.rows.iter().zip(&panel.cells);
            let mut series: Vec<(String, Vec<Cell>)> = rows
                .map(|(row, cells)| (row.row.clone(), cells.clone()))
                .collect();
            series.retain(|(_, cells)| cells.iter().any(|cell| cell.value().is_some()));
            let sum = |cells: &[Cell]| cells.iter().filter_map(Cell::value).sum::<f64>();
            series.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
            self.panels
                .push(below(hosts, panel, "host", largest(series, "hosts")));
        }
        self
    }

    /// Appends a panel for each host metric, stacked by job. A job gets the columns whose middle is
    /// within its time. If several jobs use a host at the same time, each gets an equal part.
    #[must_use]
    pub fn with_hosts_by_job(mut self, hosts: &Grid, traffic: &JobsTraffic) -> Self {
        let jobs: Vec<&JobTotal> = traffic
            .jobs
            .iter()
            .filter(|job| job.job.is_some())
            .collect();
        for panel in &hosts.panels {
            let mut of_jobs = vec![vec![Joined::default(); hosts.columns]; jobs.len()];
            let mut rest = vec![Joined::default(); hosts.columns];
            for (row, cells) in hosts.rows.iter().zip(&panel.cells) {
                let is_node = |job: &JobTotal| {
                    row.id
                        .node
                        .as_ref()
                        .is_some_and(|host| job.nodes.iter().any(|node| node.host == *host))
                };
                let own: Vec<usize> = (0..jobs.len())
                    .filter(|index| is_node(jobs[*index]))
                    .collect();
                if cells.iter().all(|cell| cell.value().is_none()) {
                    continue;
                }
                for (column, cell) in cells.iter().enumerate() {
                    let middle = hosts.start_ns + hosts.step_ns * column as u64 + hosts.step_ns / 2;
                    let runs = |index: &&usize| {
                        let job = jobs[**index];
                        job.start_ns.is_none_or(|start| start <= middle)
                            && job.end_ns.is_none_or(|end| middle < end)
                    };
                    let running: Vec<usize> = own.iter().filter(runs).copied().collect();
                    let part = cell.times(1.0 / running.len().max(1) as f64);
                    running
                        .iter()
                        .for_each(|index| of_jobs[*index][column].add(part, |a, b| a + b));
                    if running.is_empty() {
                        rest[column].add(part, |a, b| a + b);
                    }
                }
            }
            let name = |job: &&JobTotal| format!("job {}", job.job.as_deref().unwrap_or_default());
            // A job without a host in a column did not run there.
            let cells = |sums: Vec<Joined>| {
                sums.into_iter()
                    .map(|sum| sum.cell_or(Cell::Down))
                    .collect::<Vec<_>>()
            };
            let mut stacked = largest(
                jobs.iter()
                    .map(name)
                    .zip(of_jobs.into_iter().map(cells))
                    .collect(),
                "jobs",
            );
            stacked.push(Series {
                name: "no job".to_owned(),
                color: NO_JOB,
                values: cells(rest),
            });
            self.panels.push(below(hosts, panel, "job", stacked));
        }
        self
    }
}

/// Returns the panel of a host metric. A host without data is missing in the stack, so the heading
/// counts the hosts with data.
fn below(hosts: &Grid, panel: &heat::grid::Panel, by: &str, stacked: Vec<Series>) -> Panel {
    let known = panel
        .cells
        .iter()
        .filter(|cells| cells.iter().any(|cell| cell.value().is_some()))
        .count();
    let title = format!(
        "{}, by {by} ({known} of {} hosts have data)",
        panel.metric.title(),
        hosts.rows.len()
    );
    Panel {
        title,
        unit: panel.metric.unit(),
        most: None,
        stacked,
        curves: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::heat::order::{RowId, RowKind, RowLabel};
    use ibnet_analysis::job::all::{AllJobs, JobList};
    use ibnet_analysis::job::run::JobRun;
    use ibnet_analysis::metric::{Metric, Unit};
    use ibnet_analysis::when::Zone;

    use super::*;
    use crate::fixtures::{fold, job_lines};
    use crate::picture::job::of_all;

    #[test]
    fn host_metrics_are_divided_among_the_jobs_of_their_time() {
        let jobs = [
            JobRun::new("7", "n1", Some(0), Some(1_000_000_000)).unwrap(),
            JobRun::new("8", "n1", Some(0), None).unwrap(),
        ];
        let traffic = fold(AllJobs::new(JobList::new(&jobs), None), &job_lines(true))
            .finish(None)
            .unwrap();
        let picture = of_all(&traffic, None, &Zone::utc());
        let Columns {
            start_ns,
            step_ns,
            count,
        } = picture.columns();
        assert_eq!((start_ns, step_ns, count), (0, 1_000_000_000, 2));
        let row = |host: &str| RowLabel {
            id: RowId {
                node: Some(host.to_owned()),
                ..RowId::default()
            },
            ..RowLabel::new(host)
        };
        let cells = vec![
            vec![Cell::Value(6.0), Cell::Value(4.0)],
            vec![Cell::NoRecord, Cell::Value(1.0)],
        ];
        let metric = Metric::of_hosts("nfs", "NFS", Unit::PerSecond);
        let panels = vec![heat::grid::Panel {
            metric,
            summed: 1,
            full: None,
            ports: Vec::new(),
            cells,
        }];
        let hosts = Grid {
            start_ns,
            step_ns,
            columns: count,
            by: RowKind::Host,
            rows: vec![row("n1"), row("n3")],
            panels,
        };
        let picture = picture.with_hosts_by_job(&hosts, &traffic);
        let panel = picture.panels.last().unwrap();
        let series: Vec<_> = panel
            .stacked
            .iter()
            .map(|series| (&*series.name, series.values.clone()))
            .collect();
        assert_eq!(panel.title, "NFS, by job (2 of 2 hosts have data)");
        for expected in [
            ("job 7", vec![Cell::Value(3.0), Cell::Down]),
            ("job 8", vec![Cell::Value(3.0), Cell::Value(4.0)]),
            ("no job", vec![Cell::NoRecord, Cell::Value(1.0)]),
        ] {
            assert!(series.contains(&expected), "{series:?}");
        }
    }
}
