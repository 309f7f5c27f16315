//! `ibnet-view job`: the traffic of a job.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet::types::Printable;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::job::Job;
use ibnet_analysis::job::slurm::{self, SlurmJob};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::when::Zone;
use ibnet_view::{picture, text};

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::Format;

/// Report the traffic of a job and the time for which it was blocked
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Nodes of the job, such as `node[001-024]`: the first words of node descriptions
    #[arg(long, value_name = "HOSTLIST", required_unless_present = "slurm", conflicts_with = "slurm")]
    nodes: Option<String>,
    /// Slurm job; its nodes and times are taken from --slurm-file
    #[arg(long, value_name = "JOBID", requires = "slurm_file")]
    slurm: Option<String>,
    /// Output of `sacct -P -X --format=JobID,State,Start,End,NodeList` or `squeue -o '%i|%T|%N|%S'`
    #[arg(long, value_name = "FILE|-")]
    slurm_file: Option<PathBuf>,
    /// Largest number of time steps
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    steps: u16,
    /// Format of the result
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "text|json|csv")]
    format: Format,
    /// Also write a picture of the job over time, or all values as JSON. With --format json or csv:
    /// file of the result
    #[arg(short, long, value_name = "FILE.svg|FILE.json")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Port counters have no destinations. So the traffic that stays on a leaf switch and the
job's part of a link are estimates; the report explains them. ibnet-view does not call
Slurm, it reads the text output of sacct or squeue. Their times are local times.

Examples:
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' --from 12:00 --to 12:30
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' -o job.svg
  sacct -P -X --format=JobID,State,Start,End,NodeList -j 4711 |
    ibnet-view job lines/*.jsonl --slurm 4711 --slurm-file - -o job.json";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let zone = Zone::local();
    let found = match (&args.slurm, &args.slurm_file) {
        (Some(id), Some(file)) => {
            let text = cli::read(file)?;
            slurm::find(&String::from_utf8_lossy(&text), &cli::name_of(file), id, &zone)?
        }
        _ => SlurmJob { nodes: args.nodes.clone().unwrap_or_default(), from: None, to: None },
    };
    let names: Vec<String> = Hosts::parse(&found.nodes)?.iter().map(str::to_owned).collect();
    let mut inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    inputs.from = inputs.from.or(found.from);
    inputs.to = inputs.to.or(found.to);
    let (ports, summary) = common::read(&inputs, &Ports::with_bins(usize::from(args.steps)))?;
    let time_range = common::time_range(&summary)?;
    let job = Job::of(&ports.finish(), &names);
    if job.nodes.is_empty() {
        let what = format!("no record of a port of {}", Printable(&found.nodes));
        let help = "a host name is the first word of a node description; check the number of digits, and give the files of all samplers"
            .to_owned();
        return Err(AnalysisError::Nothing { what, help }.into());
    }
    if let Format::Document(document) = args.format {
        return document.write(common::span(&summary)?, &[job.row(args.slurm.as_deref())], args.output.as_deref());
    }
    if let Some(path) = &args.output {
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let title = match &args.slurm {
            Some(id) => format!("Job {} on {}", Printable(id), Printable(&found.nodes)),
            None => format!("Traffic of {}", Printable(&found.nodes)),
        };
        let text = if is_json { job.to_json() } else { picture::job::to_svg(&job, &title, &zone) };
        Staged::new(path, text.as_bytes())?.commit()?;
    }
    Ok(cli::print_line(&format!("{time_range}{}", text::job::report(&job).trim_end()))?)
}
