//! `--slurm-file` and `--scheduler`: where jobs come from.

use std::path::PathBuf;

use clap::ValueEnum;
use ibnet::cli;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::source;
use ibnet_analysis::job::source::ask::{Ask, Manager};
use ibnet_analysis::job::table::Listing;
use ibnet_analysis::when::Zone;
use ibnet_record::limits;

use crate::Failure;
use crate::common;

#[derive(Debug, clap::Args)]
pub(crate) struct JobFile {
    /// File with jobs: text or JSON of sacct or squeue, JSON of qstat, CSV with
    /// job,user,nodes,start,end,state, or a job table
    #[arg(long, visible_alias = "jobs-file", value_name = "FILE|-")]
    slurm_file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct JobSource {
    #[command(flatten)]
    file: JobFile,
    /// Resource manager that is asked for jobs if no file is given
    #[arg(long, value_enum, default_value_t, conflicts_with = "slurm_file")]
    scheduler: Scheduler,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum Scheduler {
    /// sacct and squeue
    #[default]
    Slurm,
    /// qstat
    Pbs,
}

impl JobFile {
    /// Returns all jobs of the file, or none without this option.
    pub(crate) fn jobs(&self) -> Result<Vec<JobRun>, Failure> {
        match self.text()? {
            Some((text, name)) => Ok(source::all(&text, &name, &Zone::local())?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the content and the name of the file.
    fn text(&self) -> Result<Option<(String, String)>, Failure> {
        let Some(file) = &self.slurm_file else {
            return Ok(None);
        };
        let text = cli::read(file, limits::SLURM)?;
        Ok(Some((
            String::from_utf8_lossy(&text).into_owned(),
            cli::name_of(file),
        )))
    }
}

impl JobSource {
    pub(crate) const fn has_file(&self) -> bool {
        self.file.slurm_file.is_some()
    }

    /// Returns all jobs of `--slurm-file`, or none without this option.
    pub(crate) fn of_file(&self) -> Result<Vec<JobRun>, Failure> {
        self.file.jobs()
    }

    /// Returns the newest run of the job with this ID.
    pub(crate) fn job(&self, id: &str) -> Result<JobRun, Failure> {
        match self.file.text()? {
            Some((text, name)) => Ok(source::find(&text, &name, id, &Zone::local())?),
            None => Ok(self.ask().job(id)?),
        }
    }

    /// Returns the newest run of the job with this ID, and the other jobs that ran at the same
    /// time. If one of the other jobs is malformed, they are an error instead of a list.
    pub(crate) fn job_and_others(
        &self,
        id: &str,
    ) -> Result<(JobRun, Result<Vec<JobRun>, Failure>), Failure> {
        let zone = Zone::local();
        let (run, all) = match self.file.text()? {
            Some((text, name)) => (
                source::find(&text, &name, id, &zone)?,
                source::all(&text, &name, &zone).map_err(Failure::from),
            ),
            None => {
                let at = common::now();
                let run = self.ask().job(id)?;
                // This is a second query: in the first one, a command that hangs can use up the
                // time limit, although squeue lists the job.
                let all = self.ask().jobs(run.from.unwrap_or(at), run.to, at);
                (run, all.map(|listing| listing.runs).map_err(Failure::from))
            }
        };
        Ok((run, all))
    }

    /// Returns all jobs that ran in a time range, in nanoseconds since 1970. From a file, it
    /// returns all jobs.
    pub(crate) fn jobs(&self, from: u64, to: Option<u64>) -> Result<Listing, Failure> {
        let at = common::now();
        match self.file.text()? {
            Some((text, name)) => Ok(Listing {
                runs: source::all(&text, &name, &Zone::local())?,
                at,
                is_complete: false,
            }),
            None => Ok(self.ask().jobs(from, to, at)?),
        }
    }

    fn ask(&self) -> Ask {
        Ask::new(match self.scheduler {
            Scheduler::Slurm => Manager::Slurm,
            Scheduler::Pbs => Manager::Pbs,
        })
    }
}
