//! `--nodes` and `--slurm`: the hosts of a job, and its time.

use std::collections::BTreeMap;

use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::ports::{PortKey, PortSummary};
use ibnet_record::types::Printable;

use crate::Failure;
use crate::job_source::JobSource;

#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Only these hosts, such as `node[001-024]`: the first words of node descriptions
    #[arg(long, value_name = "HOSTLIST", conflicts_with = "slurm")]
    nodes: Option<String>,
    /// Only the hosts and the time of this job of Slurm or PBS
    #[arg(long, visible_alias = "job", value_name = "JOBID")]
    slurm: Option<String>,
    #[command(flatten)]
    source: JobSource,
}

/// The selected hosts.
pub(crate) struct Selected {
    pub(crate) hosts: Hosts,
    /// Text for captions: the job ID or the host list.
    pub(crate) title: String,
}

impl Selection {
    /// Returns all jobs of `--slurm-file`, or none without this option.
    pub(crate) fn jobs_of_file(&self) -> Result<Vec<JobRun>, Failure> {
        self.source.of_file()
    }

    /// Returns the selected hosts, or `None` for all hosts. If the inputs have no time range, the
    /// time of the job becomes their time range.
    pub(crate) fn apply(&self, inputs: &mut Inputs) -> Result<Option<Selected>, Failure> {
        if let Some(nodes) = &self.nodes {
            return Ok(Some(Selected {
                hosts: Hosts::parse(nodes)?,
                title: Printable(nodes).to_string(),
            }));
        }
        let Some(id) = &self.slurm else {
            return Ok(None);
        };
        let job = self.source.job(id)?;
        limit_to(inputs, &job);
        let title = format!("job {} on {}", Printable(id), Printable(&job.nodes));
        Ok(Some(Selected {
            hosts: job.hosts,
            title,
        }))
    }
}

/// Sets the time range of the inputs to the time of a job, unless it is set already.
pub(crate) fn limit_to(inputs: &mut Inputs, job: &JobRun) {
    inputs.from = inputs.from.or(job.from);
    inputs.to = inputs.to.or(job.to);
}

/// Returns the error for hosts without a recorded port. `title` is their text for messages.
pub(crate) fn no_port_of(title: &str) -> AnalysisError {
    let help = "a host name is the first word of a node description; check the number of digits, and give the files of all samplers";
    AnalysisError::Nothing {
        what: format!("no record of a port of {title}"),
        help: help.to_owned(),
    }
}

impl Selected {
    /// Returns an error if no recorded port belongs to the selected hosts.
    pub(crate) fn check(
        &self,
        ports: &BTreeMap<PortKey, PortSummary>,
    ) -> Result<(), AnalysisError> {
        let is_selected = |port: &PortSummary| {
            self.hosts.contains_node(&port.node) || self.hosts.contains_node(&port.peer_name)
        };
        if ports.values().any(is_selected) {
            Ok(())
        } else {
            Err(no_port_of(&self.title))
        }
    }
}
