//! `ibnet-view errors`: link faults and error counters.

use std::path::PathBuf;

use ibnet_analysis::errors::{Errors, Thresholds};
use ibnet_analysis::ports::Ports;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};

/// List links that are down, degraded or flapping, and ports whose error counters increased
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Show a counter if its increase exceeds N; NAME as in the records or in perfquery, or `all`
    #[arg(long = "threshold", value_name = "NAME=N")]
    thresholds: Vec<String>,
    /// Format of the result
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "text|json|csv")]
    format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Only increases within the time range count, not the values from before. All thresholds
are 0, except 100 for port_rcv_switch_relay_errors: switches count there the packets
that they discard by design. A link is degraded if it is slower than before, or slower
than in the net file. It is flapping if it went down twice.

Examples:
  ibnet-view errors lines/*.jsonl
  ibnet-view errors lines/*.jsonl --from -1h --threshold symbol_error_counter=10
  ibnet-view errors lines/*.jsonl --threshold all=100 --threshold LinkDowned=0";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut thresholds = Thresholds::default();
    args.thresholds.iter().try_for_each(|text| thresholds.set(text))?;
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (ports, summary) = common::read(&inputs, &Ports::with_bins(1))?;
    let ports = ports.finish();
    let errors = Errors::find(&ports, &thresholds);
    match args.format {
        Format::Document(document) => document.write(common::span(&summary)?, &errors.rows(), args.output.as_deref()),
        Format::Text => {
            let report = common::time_range(&summary)? + &text::errors::report(&errors);
            format::write(report.as_bytes(), args.output.as_deref())
        }
    }
}
