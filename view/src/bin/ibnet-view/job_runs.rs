//! Evaluates one run of a job: its traffic, the jobs on the same links, and what held it up.

use ibnet_analysis::devices::Devices;
use ibnet_analysis::input::{Inputs, ReadSummary};
use ibnet_analysis::job::Job;
use ibnet_analysis::job::all::JobList;
use ibnet_analysis::job::marks::{self, Mark, Phase};
use ibnet_analysis::job::row::JobRow;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::sharing::{Matrix, Shares, Sharing, equal_bins};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::trees::{Limits, Trees};

use crate::Failure;
use crate::common;
use crate::routes_of::{RoutesOf, note_missing};
use crate::selection;

/// A run with its results.
pub(crate) struct Evaluated {
    pub(crate) run: JobRun,
    pub(crate) job: Job,
    /// `None` without marks.
    pub(crate) phases: Option<Vec<Phase>>,
    /// `None` if only nodes were given.
    pub(crate) sharing: Option<Sharing>,
    /// `None` without routes.
    pub(crate) matrix: Option<Matrix>,
    pub(crate) summary: ReadSummary,
}

/// Evaluates a run. `others` has the other jobs of that time, or `None` if they are unknown.
pub(crate) fn evaluate(
    inputs: &Inputs,
    run: JobRun,
    others: Option<&[JobRun]>,
    routes: &RoutesOf,
    steps: u16,
    marks: Option<&[Mark]>,
) -> Result<Evaluated, Failure> {
    let mut inputs = inputs.clone();
    selection::limit_to(&mut inputs, &run);
    let empty = (Ports::for_jobs(usize::from(steps)), Devices::default());
    let ((ports, devices), summary) = common::read(&inputs, &empty)?;
    let ports = ports.finish();
    let job = Job::of(&ports, &run.hosts);
    let phases = marks.map(|marks| marks::phases(&ports, &run.hosts, marks));
    let routes = match others {
        Some(_) => routes.within(&inputs)?,
        None => None,
    };
    let routes = routes.as_deref();
    routes.inspect(|routes| note_missing(&ports, routes));
    let shared = others.map(|others| {
        let is_other = |other: &&JobRun| (&other.id, other.from) != (&run.id, run.from);
        let all: Vec<JobRun> = [&run]
            .into_iter()
            .chain(others.iter().filter(is_other))
            .cloned()
            .collect();
        let ports = equal_bins(&ports);
        let trees = Trees::find(&ports, &devices, Limits::default());
        let shares = Shares::of(&ports, &JobList::new(&all), routes);
        (
            shares.for_job(0, &run.hosts, &trees),
            shares.matrix(&run.hosts),
        )
    });
    let (sharing, matrix) = shared.unzip();
    Ok(Evaluated {
        run,
        job,
        phases,
        sharing,
        matrix: matrix.flatten(),
        summary,
    })
}

impl Evaluated {
    /// Returns the row of the run. `id` is the ID of the job, if known.
    pub(crate) fn row<'a>(&'a self, id: Option<&'a str>) -> JobRow<'a> {
        JobRow {
            sharing: self.sharing.as_ref(),
            phases: self.phases.as_deref(),
            ..self.job.row(id, Some(&self.run))
        }
    }
}
