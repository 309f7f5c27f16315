//! `ibnet-view congestion`: the regions of congestion, and how often their roots are right.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use ibnet_analysis::devices::Devices;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::routes::Routes;
use ibnet_analysis::routing::Onward;
use ibnet_analysis::trees::{Limits, Trees, truth};
use ibnet_analysis::when::Zone;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::job_source::JobFile;
use crate::routes_of::{RoutesOf, note_missing};

/// List the regions of congestion: root, cause, time, waiting ports, and the jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Compare the roots and victims with the truth about the recording, in files of `ibnet-truth`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    truth: Vec<PathBuf>,
    /// Number of regions
    #[arg(long, value_name = "N", default_value = "10", conflicts_with = "truth")]
    top: NonZeroUsize,
    #[command(flatten)]
    jobs: JobFile,
    /// Forwarding tables: output of dump_fts, ibdiagnet2.fdbs, the dumps of opensm, or lines
    /// (.jsonl) or archives with `routes` records, whose tables of that time are used; also
    /// patterns. Repeatable. With them, a port waits only for ports on the same paths, and each
    /// root says whether other ports lead to the same host, and how much they were used. Not for
    /// adaptive routing
    #[arg(long, value_name = "FILE|FOLDER|-")]
    routes: Vec<PathBuf>,
    /// Length of the intervals of the search with --truth
    #[arg(long, value_enum, default_value_t, requires = "truth")]
    interval: Interval,
    /// A port counts as waiting if it is blocked for more than this share of an interval
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().waits, value_parser = common::share)]
    waits: f64,
    /// A port counts as full if its utilization exceeds this share
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().full, value_parser = common::share)]
    full: f64,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Interval {
    /// One second
    #[default]
    #[value(name = "1s")]
    Second,
    /// A tenth of a second
    #[value(name = "100ms")]
    Tenth,
}

const EXAMPLES: &str = "\
A region is a congestion tree for as long as it lasts; its name is its root and the second of its
begin. The jobs need --slurm-file: a job causes a region whose root leads to one of its hosts. If
the root leads to no host of a job, a job causes it if its waiting hosts send more than a tenth of
what the root sends. The others suffer. Causes are often missed: see docs/congestion.md.
With --truth, the first method is the search of `links --tree`; the others are simpler ones, and the
regions of Monet.

Examples:
  ibnet-view congestion lines/*.jsonl --slurm-file jobs.csv
  ibnet-view congestion truth/incast-?.jsonl --truth truth/incast-?.truth.jsonl";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let limits = Limits {
        waits: args.waits,
        full: args.full,
        routes: None,
    };
    let is_given = !args.routes.is_empty();
    let routes = is_given.then(|| RoutesOf::open(&args.routes)).transpose()?;
    let routes = routes.as_ref().map(|routes| routes.within(&inputs));
    let routes = routes.transpose()?.flatten();
    if args.truth.is_empty() {
        list(args, &inputs, limits, routes.as_deref())
    } else {
        compare(args, &inputs, limits, routes.as_deref())
    }
}

/// Lists the regions.
fn list(
    args: &Args,
    inputs: &Inputs,
    limits: Limits<'_>,
    routes: Option<&Routes>,
) -> Result<(), Failure> {
    let jobs = args.jobs.jobs()?;
    let empty = (Ports::with_bins(common::INTERVALS), Devices::default());
    let ((ports, devices), summary) = common::read(inputs, &empty)?;
    let ports = ports.finish();
    routes.inspect(|routes| note_missing(&ports, routes));
    let onward = routes.map(|routes| Onward::of_records(&ports, routes));
    let limits = Limits {
        routes: onward.as_ref(),
        ..limits
    };
    let routes = routes.map(|routes| (routes, &ports));
    let mut regions = Trees::find_regions(&ports, &devices, limits).regions(&jobs, routes);
    let (top, output) = (args.top.get(), args.output.as_deref());
    match args.format {
        Format::Text => {
            let report = text::regions::report(&regions, top, &Zone::local());
            format::write((common::time_range(&summary)? + &report).as_bytes(), output)
        }
        Format::Document(document) => {
            regions.truncate(top);
            document.write(common::span(&summary)?, &regions, output)
        }
    }
}

/// Compares what is found with the truth.
fn compare(
    args: &Args,
    inputs: &Inputs,
    limits: Limits<'_>,
    routes: Option<&Routes>,
) -> Result<(), Failure> {
    let mut truth = Vec::new();
    for path in &args.truth {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| AnalysisError::Read {
            name: name.clone(),
            source,
        })?;
        truth.extend(truth::read(BufReader::new(file), &name)?);
    }
    let jobs = args.jobs.jobs()?;
    let of_second = match args.interval {
        Interval::Second => 1,
        Interval::Tenth => 10,
    };
    // The intervals with labels, and some for readings that are too late.
    let bins = of_second * truth.len() + common::INTERVALS;
    let ports = Ports::with_bins(bins).with_bins_of(1_000_000_000 / of_second as u64);
    let ((ports, devices), summary) = common::read(inputs, &(ports, Devices::default()))?;
    let ports = ports.finish();
    let onward = routes.map(|routes| Onward::of_records(&ports, routes));
    let limits = Limits {
        routes: onward.as_ref(),
        ..limits
    };
    let rows = truth::compare(&truth, &ports, &devices, limits, &jobs)?;
    let output = args.output.as_deref();
    match args.format {
        Format::Text => {
            let report = common::time_range(&summary)? + &text::truth::report(&rows);
            format::write(report.as_bytes(), output)
        }
        Format::Document(document) => document.write(common::span(&summary)?, &rows, output),
    }
}
