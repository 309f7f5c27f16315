//! `ibnet-view`: tables and pictures of the records of `ibnet-sweep`. Each command has its own
//! file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ibnet::cli::{self, InputError, OutputError};
use ibnet::topology::NetFileError;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::errors::ThresholdError;
use ibnet_analysis::host_metrics::HostMetricsError;
use ibnet_analysis::job::source::SourceError;
use ibnet_analysis::job::source::ask::AskError;
use ibnet_analysis::job::table::TableError;
use ibnet_analysis::routes::RoutesError;
use ibnet_record::types::Printable;
use ibnet_store::error::StoreError;
use ibnet_view::draw::DrawError;
use miette::Diagnostic;

mod common;
mod congestion;
mod errors;
mod format;
mod groups;
mod health;
mod heatmap;
mod host_metrics;
mod import;
mod inventory;
mod job;
mod job_runs;
mod job_source;
mod jobs;
mod latency;
mod links;
mod map;
mod marks;
mod pack;
mod path;
mod prevalence;
mod replay;
mod routes_of;
mod routing;
mod selection;
mod sweeps;

/// Show recordings of ibnet-sweep: tables and pictures that explain congestion
#[derive(Debug, Parser)]
#[command(name = "ibnet-view", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Congestion(congestion::Args),
    Heatmap(heatmap::Args),
    Latency(latency::Args),
    Errors(errors::Args),
    Health(health::Args),
    Inventory(inventory::Args),
    Import(import::Args),
    Job(job::Args),
    Jobs(jobs::Args),
    Links(links::Args),
    Map(map::Args),
    Pack(pack::Args),
    Path(path::Args),
    Prevalence(prevalence::Args),
    Replay(replay::Args),
    Routing(routing::Args),
    Sweeps(sweeps::Args),
}

const EXAMPLES: &str = "\
Examples:
  ibnet-view heatmap 'lines/*.jsonl' --metric xmit_gbps,xmit_blocked -o heat.png
  ibnet-view latency 'lines/*.jsonl' -o latency.svg
  ibnet-view sweeps 'lines/*.jsonl'                  durations and completeness of sweeps
  ibnet-view errors lines/*.jsonl --from -1h         errors of the last hour
  ibnet-view health archive --from -1d               cables to clean or to replace
  ibnet-view inventory archive --from -1h            modules and their serial numbers
  ibnet-view links lines/*.jsonl --by blocked        links with the longest waits
  ibnet-view links lines/*.jsonl --tree              congestion trees
  ibnet-view prevalence archive --by hour            hours in which ports wait
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' -o job.svg
  ibnet-view job lines/*.jsonl --slurm 4711          asks Slurm for nodes and times
  ibnet-view jobs --keep jobs.jsonl                 keeps a table of all jobs
  ibnet-view import 'store/ibnet/*' -o old.jsonl    old recordings of LDMS
  ibnet-view map lines/*.jsonl -o map.svg
  ibnet-view pack 'lines/*.jsonl*' -o archive       records as Parquet files
  ibnet-view path node001 node042 lines/*.jsonl --routes routes.txt
  ibnet-view routing --routes routes.txt --net net.p
  ibnet-view replay lines/*.jsonl.zst --speed 10 -o - | consumer

FILES are the files of `ibnet-sweep -o FILE`, from any number of samplers, plain or
compressed by zstd, and the folders of `ibnet-view pack`. A pattern in quotes is expanded;
`-` is standard input. Lines that are not records are skipped and counted. Every command
has its own --help.

Exit codes: 0 success; 1 wrong input; 2 wrong arguments; 3 `errors --check` or
`health --check` or `routing --check` found a fault.";

/// Exit code for a malformed argument.
const USAGE: u8 = 2;

/// An error with exit code 1 or 2.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum Failure {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Analysis(#[from] AnalysisError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Draw(#[from] DrawError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Threshold(#[from] ThresholdError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Jobs(#[from] SourceError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Ask(#[from] AskError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    JobTable(#[from] TableError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Routes(#[from] RoutesError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    HostMetrics(#[from] HostMetricsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error("cannot write {}: it is also an input", Printable(&path.display().to_string()))]
    #[diagnostic(help("give another name with -o FILE; nothing was written"))]
    OverInput { path: PathBuf },
    #[error("cannot draw the map into {}: the map is an SVG picture", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "give a name that ends in .svg; `rsvg-convert map.svg -o map.png` converts it"
    ))]
    SvgOnly { path: PathBuf },
    #[error("cannot write JSON or CSV to {}: this is the name of a picture", Printable(&path.display().to_string()))]
    #[diagnostic(help(
        "give a name that ends in .json or .csv, or omit --format to draw the picture; nothing was written"
    ))]
    NotAPicture { path: PathBuf },
    #[error("cannot use --host-metrics without a picture")]
    #[diagnostic(help(
        "give -o FILE.svg or FILE.png; `--format json` has the values of one job, and `ibnet-view heatmap --by host --format json` those of all hosts"
    ))]
    HostMetricsWithoutPicture,
    #[error("cannot use --bin for one job")]
    #[diagnostic(help("give --steps, or omit --bin; --bin is for --all and --group"))]
    BinOfOneJob,
    #[error("cannot estimate the traffic between hosts: there are too many pairs of hosts")]
    #[diagnostic(help("give a shorter time with --from and --to"))]
    TooManyPairs,
    #[error("cannot find a path: no record has a device {}", Printable(name))]
    #[diagnostic(help(
        "give a host name, which is the first word of a node description, a whole node description in quotes, or a port GUID"
    ))]
    NoDevice { name: String },
    #[error("cannot follow the path from {from} to {to}: {why}")]
    #[diagnostic(help(
        "give forwarding tables and records of the same time, and the files of all samplers; `ibnet-view routing` checks all tables"
    ))]
    NoPath {
        from: String,
        to: String,
        why: String,
    },
    #[error("cannot use --by group: no group was given")]
    #[diagnostic(help("give groups, such as `--group 'storage=oss*,mds*'`"))]
    NoGroup,
    #[error("cannot draw {}: the name does not end in .svg or .png", Printable(&path.display().to_string()))]
    #[diagnostic(help("give -o FILE.svg or FILE.png; nothing was written"))]
    NotPictureName { path: PathBuf },
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match &args.command {
        Command::Congestion(args) => congestion::run(args),
        Command::Heatmap(args) => heatmap::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Errors(args) => {
            return errors::run(args).unwrap_or_else(|failure| failure.report());
        }
        Command::Health(args) => {
            return health::run(args).unwrap_or_else(|failure| failure.report());
        }
        Command::Inventory(args) => inventory::run(args),
        Command::Import(args) => import::run(args),
        Command::Job(args) => job::run(args),
        Command::Jobs(args) => jobs::run(args),
        Command::Links(args) => links::run(args),
        Command::Map(args) => map::run(args),
        Command::Pack(args) => pack::run(args),
        Command::Path(args) => path::run(args),
        Command::Prevalence(args) => prevalence::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Routing(args) => {
            return routing::run(args).unwrap_or_else(|failure| failure.report());
        }
        Command::Sweeps(args) => sweeps::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

impl Failure {
    /// Reports the error and returns the exit code: 2 for a malformed argument, otherwise 1.
    fn report(&self) -> ExitCode {
        let failed = cli::fail(self);
        match self {
            Self::HostMetricsWithoutPicture
            | Self::BinOfOneJob
            | Self::NoGroup
            | Self::Threshold(_)
            | Self::SvgOnly { .. }
            | Self::NotAPicture { .. }
            | Self::NotPictureName { .. } => ExitCode::from(USAGE),
            // A metric that does not exist is a wrong argument, although only reading the records
            // shows that it does not exist.
            Self::Analysis(AnalysisError::Metric { .. }) => ExitCode::from(USAGE),
            Self::HostMetrics(HostMetricsError::Url { .. }) => ExitCode::from(USAGE),
            Self::Analysis(
                AnalysisError::Time { .. }
                | AnalysisError::Hosts { .. }
                | AnalysisError::Pattern { .. },
            ) => ExitCode::from(USAGE),
            _ => failed,
        }
    }
}
