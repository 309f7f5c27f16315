//! `--nodes` and `--slurm`: the hosts of a job, and its time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ibnet::cli::{self, InputError};
use ibnet::limits;
use ibnet::types::Printable;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::slurm::{self, SlurmError};
use ibnet_analysis::ports::{PortKey, PortSummary};
use ibnet_analysis::when::Zone;

use crate::Failure;

#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only these hosts, such as `node[001-024]`: the first words of node descriptions
    #[arg(long, value_name = "HOSTLIST", conflicts_with = "slurm")]
    nodes: Option<String>,
    /// Only the hosts and the time of this Slurm job, which are taken from --slurm-file
    #[arg(long, value_name = "JOBID", requires = "slurm_file")]
    slurm: Option<String>,
    /// Output of `sacct -P -X --format=JobID,State,Start,End,NodeList` or `squeue -o '%i|%T|%N|%S'`
    #[arg(long, value_name = "FILE|-", requires = "slurm")]
    slurm_file: Option<PathBuf>,
}

/// The selected hosts.
pub(crate) struct Selected {
    pub(crate) hosts: Hosts,
    /// Text for captions: the job or the host list.
    pub(crate) title: String,
}

impl Selection {
    /// Returns the selected hosts, or `None` for all hosts. If the inputs have no time range, the
    /// time of the job becomes their time range.
    pub(crate) fn apply(&self, inputs: &mut Inputs) -> Result<Option<Selected>, Failure> {
        if let Some(nodes) = &self.nodes {
            return Ok(Some(Selected { hosts: Hosts::parse(nodes)?, title: Printable(nodes).to_string() }));
        }
        let (Some(id), Some(file)) = (&self.slurm, &self.slurm_file) else { return Ok(None) };
        let job = SlurmFile::read(file)?.job(id)?;
        limit_to(inputs, &job);
        let title = format!("job {} on {}", Printable(id), Printable(&job.nodes));
        Ok(Some(Selected { hosts: job.hosts, title }))
    }
}

/// Sets the time range of the inputs to the time of a job, unless it is set already.
pub(crate) fn limit_to(inputs: &mut Inputs, job: &JobRun) {
    inputs.from = inputs.from.or(job.from);
    inputs.to = inputs.to.or(job.to);
}

/// The text output of Slurm. Its times are in the local zone.
pub(crate) struct SlurmFile {
    name: String,
    text: String,
}

impl SlurmFile {
    pub(crate) fn read(file: &Path) -> Result<Self, InputError> {
        Ok(Self { name: cli::name_of(file), text: String::from_utf8_lossy(&cli::read(file, limits::SLURM)?).into_owned() })
    }

    /// Returns the job with this ID.
    pub(crate) fn job(&self, id: &str) -> Result<JobRun, SlurmError> {
        slurm::find(&self.text, &self.name, id, &Zone::local())
    }

    /// Returns all jobs with nodes and a start.
    pub(crate) fn jobs(&self) -> Result<Vec<JobRun>, SlurmError> {
        slurm::all(&self.text, &self.name, &Zone::local())
    }
}

/// Returns the error for hosts without a recorded port. `title` is their text for messages.
pub(crate) fn no_port_of(title: &str) -> AnalysisError {
    let help = "a host name is the first word of a node description; check the number of digits, and give the files of all samplers";
    AnalysisError::Nothing { what: format!("no record of a port of {title}"), help: help.to_owned() }
}

impl Selected {
    /// Returns an error if no recorded port belongs to the selected hosts.
    pub(crate) fn check(&self, ports: &BTreeMap<PortKey, PortSummary>) -> Result<(), AnalysisError> {
        let is_selected = |port: &PortSummary| self.hosts.contains_node(&port.node) || self.hosts.contains_node(&port.peer_name);
        if ports.values().any(is_selected) { Ok(()) } else { Err(no_port_of(&self.title)) }
    }
}
