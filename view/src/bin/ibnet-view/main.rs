//! `ibnet-view`: pictures and tables of what `ibnet-sweep` recorded.
//!
//! Arguments in, library calls, files and exit code out; a file a command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ibnet::cli::{self, InputError, OutputError};
use ibnet::types::Printable;
use ibnet_view::error::ViewError;
use ibnet_view::errors::ThresholdError;
use ibnet_view::job::slurm::SlurmError;
use miette::Diagnostic;

mod common;
mod errors;
mod heatmap;
mod job;
mod latency;
mod links;
mod map;
mod replay;

/// Shows what ibnet-sweep recorded: pictures and tables that explain congestion.
#[derive(Debug, Parser)]
#[command(name = "ibnet-view", version, after_help = EXAMPLES, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Heatmap(heatmap::Args),
    Latency(latency::Args),
    Errors(errors::Args),
    Job(job::Args),
    Links(links::Args),
    Map(map::Args),
    Replay(replay::Args),
}

const EXAMPLES: &str = "\
Examples:
  ibnet-view heatmap 'lines/*.jsonl' --metric xmit_gbps,xmit_blocked -o heat.png
  ibnet-view latency 'lines/*.jsonl' -o latency.svg
  ibnet-view errors lines/*.jsonl --from -1h         what went wrong in the last hour
  ibnet-view links lines/*.jsonl --by blocked        where it is tight
  ibnet-view links lines/*.jsonl --tree              who holds up whom
  ibnet-view job lines/*.jsonl --nodes 'node[001-024]' -o job.svg
  ibnet-view map lines/*.jsonl -o map.svg
  ibnet-view replay lines/*.jsonl.zst --speed 10 -o - | consumer

FILES are what `ibnet-sweep -o FILE` wrote, of any number of samplers, plain or
compressed by zstd; a pattern in quotes is expanded, `-` is standard input. A line
that is no record is skipped and counted. Every command has its own --help.

Exit codes: 0 done; 1 the input is wrong; 2 the arguments are wrong.";

/// Whatever ends the program with exit code 1.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum Failure {
    #[error(transparent)]
    #[diagnostic(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Threshold(#[from] ThresholdError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Slurm(#[from] SlurmError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error("{}: is read too; nothing was written", Printable(&path.display().to_string()))]
    #[diagnostic(help("give what is written a name of its own with -o FILE"))]
    OverInput { path: PathBuf },
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match &args.command {
        Command::Heatmap(args) => heatmap::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Errors(args) => errors::run(args),
        Command::Job(args) => job::run(args),
        Command::Links(args) => links::run(args),
        Command::Map(args) => map::run(args),
        Command::Replay(args) => replay::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => cli::fail(&failure),
    }
}
