//! `ibnet-view congestion`: how often the roots of congestion are right.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::ValueEnum;
use ibnet_analysis::devices::Devices;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::trees::{Limits, truth};
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::job_source::JobSource;

/// Compare the roots and victims of congestion with the truth of a model
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Files with the truth about the recording, of `ibnet-truth`
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    truth: Vec<PathBuf>,
    #[command(flatten)]
    source: JobSource,
    /// Length of the intervals of the search
    #[arg(long, value_enum, default_value_t)]
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
The first method is the search of `links --tree`; the others are simpler ones, and the regions
of Monet. The figures of jobs need --slurm-file.

Example:
  ibnet-truth incast --seeds 1,2 -o truth
  ibnet-view congestion truth/incast-?.jsonl --truth truth/incast-?.truth.jsonl";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let mut truth = Vec::new();
    for path in &args.truth {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| AnalysisError::Read {
            name: name.clone(),
            source,
        })?;
        truth.extend(truth::read(BufReader::new(file), &name)?);
    }
    let jobs = args.source.of_file()?;
    let of_second = match args.interval {
        Interval::Second => 1,
        Interval::Tenth => 10,
    };
    // The intervals with labels, and some for readings that are too late.
    let bins = of_second * truth.len() + common::INTERVALS;
    let ports = Ports::with_bins(bins).with_bins_of(1_000_000_000 / of_second as u64);
    let empty = (ports, Devices::default());
    let ((ports, devices), summary) = common::read(&inputs, &empty)?;
    let limits = Limits {
        waits: args.waits,
        full: args.full,
    };
    let rows = truth::compare(&truth, &ports.finish(), &devices, limits, &jobs)?;
    let output = args.output.as_deref();
    match args.format {
        Format::Text => {
            let report = common::time_range(&summary)? + &text::truth::report(&rows);
            format::write(report.as_bytes(), output)
        }
        Format::Document(document) => document.write(common::span(&summary)?, &rows, output),
    }
}
