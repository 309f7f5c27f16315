//! `ibnet-view job`: the traffic of a job.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet::types::Printable;
use ibnet_view::error::ViewError;
use ibnet_view::hosts::Hosts;
use ibnet_view::input;
use ibnet_view::job::Job;
use ibnet_view::job::slurm::{self, SlurmJob};
use ibnet_view::ports::Ports;
use ibnet_view::when::Zone;

use crate::Failure;
use crate::common::{self, Recorded};

/// What a job's nodes sent and received, what stayed on their switches, which links it loaded, how long it waited
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// The job's nodes, such as `node[001-024]`: first words of node descriptions
    #[arg(long, value_name = "HOSTLIST", required_unless_present = "slurm", conflicts_with = "slurm")]
    nodes: Option<String>,
    /// A job of Slurm: its nodes and times are looked up in --slurm-file
    #[arg(long, value_name = "JOBID", requires = "slurm_file")]
    slurm: Option<String>,
    /// What `sacct -P -X --format=JobID,State,Start,End,NodeList` or `squeue -o '%i|%T|%N|%S'` printed
    #[arg(long, value_name = "FILE|-")]
    slurm_file: Option<PathBuf>,
    /// At most so many steps of time
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    steps: u16,
    /// Also write the course as a picture, or all of it as JSON
    #[arg(short, long, value_name = "FILE.svg|FILE.json")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Port counters do not tell destinations: what stays on a leaf switch, and what of a link is
the job's, are estimates, the first with bounds; the report says how they are made.
Slurm is not asked, its plain text is read; times are of this machine's zone, as Slurm's.

Examples:
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' --from 12:00 --to 12:30
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' -o job.svg
  sacct -P -X --format=JobID,State,Start,End,NodeList -j 4711 |
    ibnet-view job lines/*.jsonl --slurm 4711 --slurm-file - -o job.json";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let zone = Zone::here();
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
    let (ports, told) = input::read(&inputs, &Ports::with_bins(usize::from(args.steps)))?;
    common::tell(&told);
    let when = common::when(&told)?;
    let job = Job::of(&ports.seen(), &names);
    if job.nodes.is_empty() {
        let what = format!("no port of {} is in the lines", Printable(&found.nodes));
        let help = "a host is the first word of its node description: are all digits there, and all samplers' files given?".to_owned();
        return Err(ViewError::Nothing { what, help }.into());
    }
    if let Some(path) = &args.output {
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let title = match &args.slurm {
            Some(id) => format!("Job {} on {}", Printable(id), Printable(&found.nodes)),
            None => format!("Traffic of {}", Printable(&found.nodes)),
        };
        let text = if is_json { job.to_json() } else { job.to_svg(&title, &zone) };
        Staged::new(path, text.as_bytes())?.commit()?;
    }
    Ok(cli::print_line(&format!("{}{}", when, job.told().trim_end()))?)
}
