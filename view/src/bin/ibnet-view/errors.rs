//! `ibnet-view errors`: what is not right with links and ports.

use ibnet::cli;
use ibnet_view::errors::{Errors, Thresholds};
use ibnet_view::input;
use ibnet_view::ports::Ports;

use crate::Failure;
use crate::common::{self, Recorded};

/// Links that are down, degraded or flapping, and ports whose error counters moved
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Show a counter if it moved by more than N; names as in the records or as perfquery has them, or `all`
    #[arg(long = "threshold", value_name = "NAME=N")]
    thresholds: Vec<String>,
}

const EXAMPLES: &str = "\
Only what moved in the time of the input counts, not what a counter held before. The
thresholds are 0, but for port_rcv_switch_relay_errors 100: switches count there what
they refuse by design. A link is degraded if it is slower than it was, or than it
should be by the net file; it flaps if it went down twice.

Examples:
  ibnet-view errors lines/*.jsonl
  ibnet-view errors lines/*.jsonl --from -1h --threshold symbol_error_counter=10
  ibnet-view errors lines/*.jsonl --threshold all=100 --threshold LinkDowned=0";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut thresholds = Thresholds::default();
    args.thresholds.iter().try_for_each(|text| thresholds.set(text))?;
    let (ports, told) = input::read(&args.recorded.inputs()?, &Ports::with_bins(1))?;
    common::tell(&told);
    let ports = ports.seen();
    Ok(cli::print_line(&format!("{}{}", common::when(&told)?, Errors::of(&ports, &thresholds).told().trim_end()))?)
}
