//! `ibnet-view errors`: devices that do not answer, link faults and error counters.

use std::path::PathBuf;
use std::process::ExitCode;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::errors::{Errors, Thresholds};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::when::Zone;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::selection::Selection;

/// List devices that do not answer, links that are down, degraded or flapping, and ports whose
/// error counters increased
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    #[command(flatten)]
    selection: Selection,
    /// Show a counter if its increase exceeds N; NAME as in the records or in perfquery, or `all`
    #[arg(long = "threshold", value_name = "NAME=N")]
    thresholds: Vec<String>,
    /// Exit with code 3 if a device, a link or a counter is listed
    #[arg(long)]
    check: bool,
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

/// Exit code of --check if something is wrong.
pub(crate) const FOUND: u8 = 3;

const EXAMPLES: &str = "\
Devices that do not answer come first. A device is not listed if it is connected through
such a device only: it is behind that device. Link faults at such devices are counted,
not listed.

Only increases within the time range count, not the values from before. All thresholds
are 0, except 100 for port_rcv_switch_relay_errors: switches count there the packets
that they discard by design. A link is degraded if it is slower than before, or slower
than in the net file. It is flapping if it went down twice.

With --nodes or --slurm: only these hosts, the devices and links next to them, and devices
that do not answer and separate one of them from the fabric.

Examples:
  ibnet-view errors lines/*.jsonl
  ibnet-view errors lines/*.jsonl --from -1h --threshold symbol_error_counter=10
  ibnet-view errors lines/*.jsonl --nodes 'node[001-024]'
  ibnet-view errors lines/*.jsonl --threshold all=100 --threshold LinkDowned=0
  ibnet-view errors lines/*.jsonl --from -10m --check --format json -o faults.json";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut thresholds = Thresholds::default();
    args.thresholds
        .iter()
        .try_for_each(|text| thresholds.set(text))?;
    let mut inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let selected = args.selection.apply(&mut inputs)?;
    let ((ports, devices), summary) =
        common::read(&inputs, &(Ports::for_errors(), Devices::default()))?;
    let ports = ports.finish();
    if let Some(selected) = &selected {
        selected.check(&ports)?;
    }
    let errors = Errors::find(
        &ports,
        &devices,
        &thresholds,
        selected.as_ref().map(|selected| &selected.hosts),
    );
    match args.format {
        Format::Document(document) => document.write(
            common::span(&summary)?,
            &errors.rows(),
            args.output.as_deref(),
        )?,
        Format::Text => {
            let report = text::errors::report(
                &errors,
                common::time_range(&summary)?.trim_end(),
                &Zone::local(),
            );
            format::write(report.as_bytes(), args.output.as_deref())?;
        }
    }
    Ok(if args.check && !errors.is_empty() {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}
