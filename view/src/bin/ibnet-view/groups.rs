//! `--group`: groups of hosts, such as storage targets.

use std::path::Path;

use ibnet::cli::{self, OutputError};
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::groups::traffic::GroupTraffic;
use ibnet_analysis::groups::{Group, Groups};
use ibnet_analysis::input::Inputs;
use ibnet_analysis::job::all::{AllJobs, JobList};
use ibnet_analysis::job::marks::Mark;
use ibnet_analysis::when::Zone;
use ibnet_view::draw::{self, render};
use ibnet_view::{document, picture, text};

use crate::Failure;
use crate::common;
use crate::format::{self, Format};
use crate::host_metrics::{self, HostArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct GroupArgs {
    /// Group of hosts, such as `storage=oss*,mds*`: a name and a host list. Repeatable
    #[arg(long = "group", value_name = "NAME=HOSTLIST")]
    groups: Vec<Group>,
}

impl GroupArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn groups(&self) -> Result<Groups, AnalysisError> {
        Groups::new(self.groups.clone())
    }
}

/// Result of `job --group`.
pub(crate) struct Report<'a> {
    pub(crate) groups: &'a Groups,
    /// Jobs that are named as senders.
    pub(crate) jobs: JobList,
    pub(crate) bin_ns: Option<u64>,
    pub(crate) format: Format,
    pub(crate) output: Option<&'a Path>,
    pub(crate) hosts: &'a HostArgs,
    pub(crate) marks: Vec<Mark>,
}

impl Report<'_> {
    /// Reads the records, and writes the traffic of each group.
    pub(crate) fn write(self, inputs: &Inputs) -> Result<(), Failure> {
        let zone = Zone::local();
        let empty = AllJobs::new(self.jobs, self.bin_ns).with_marks(self.marks.clone());
        let (all, summary) = common::read(inputs, &empty)?;
        let (time_range, span) = (common::time_range(&summary)?, common::span(&summary)?);
        let flows = all.flows()?;
        let traffic: Vec<GroupTraffic> = self
            .groups
            .iter()
            .map(|group| GroupTraffic::of(group, &flows))
            .collect();
        if traffic.iter().all(|group| group.targets.is_empty()) {
            let help = "a host name is the first word of a node description; check the patterns, and give the files of all samplers";
            let what = format!("no record of a port of {}", self.groups.title());
            return Err(AnalysisError::Nothing {
                what,
                help: help.to_owned(),
            }
            .into());
        }
        if let Format::Document(document) = self.format {
            return document.write(span, &traffic, self.output);
        }
        if let Some(path) = self.output {
            let is_json = path
                .extension()
                .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
            let bytes = if is_json {
                document::to_json(span, &traffic).map_err(|source| OutputError {
                    path: path.to_owned(),
                    source,
                })?
            } else {
                let hosts = traffic
                    .iter()
                    .flat_map(|group| &group.targets)
                    .map(|target| target.host.clone());
                let picture = host_metrics::below(
                    self.hosts,
                    picture::groups::of_groups(&traffic, &zone)
                        .trimmed(span)
                        .with_marks(&self.marks),
                    hosts,
                )?;
                render(
                    &picture,
                    draw::Format::of(path).unwrap_or(draw::Format::Svg),
                )?
            };
            format::write(&bytes, Some(path))?;
        }
        Ok(cli::print_line(&format!(
            "{time_range}{}",
            text::groups::report(&traffic).trim_end()
        ))?)
    }
}
