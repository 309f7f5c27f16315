//! `ibnet-view import`: recordings of LDMS as records.

use std::path::PathBuf;

use ibnet::cli::{self, OutputError};
use ibnet_analysis::import;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::when;
use ibnet_record::types::Printable;

use crate::Failure;
use crate::common;
use crate::replay;

/// Convert files of the LDMS store_csv into records, so that old recordings can be drawn
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of store_csv with the metrics of ibnet, opa2, ibmad or sysclassib: names, or patterns
    /// in quotes
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// Time between two samples [default: the median in each file]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    interval: Option<u64>,
    /// File to append to; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
Counters stay counters, and data rates are computed from them. A store has neither
peers nor speeds of links, so utilization, blocked time, trees and maps are not known.
GUIDs are made from the names of the devices.

Examples:
  ibnet-view import 'store/ibnet/*' -o old.jsonl
  ibnet-view heatmap old.jsonl -m xmit_gbps,port_xmit_wait_ticks --by host -o old.png
  ibnet-view import store/sysclassib/* -o - | zstd > old.jsonl.zst";

fn interval(text: &str) -> Result<u64, String> {
    let interval = when::nanos(text).filter(|ns| *ns >= 1_000_000);
    interval.ok_or_else(|| "expected a duration of at least 1ms, such as 1s".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = Inputs::new(&args.files)?;
    common::refuse_input(&inputs, Some(&args.output))?;
    let failed = |source| OutputError {
        path: args.output.clone(),
        source,
    };
    let mut output = replay::open(&args.output).map_err(failed)?;
    for file in &inputs.files {
        let (mut line, mut written) = (Vec::new(), Ok(()));
        let done = import::import(file, args.interval, |record| {
            line.clear();
            ibnet_record::write(record, &mut line);
            if written.is_ok() {
                written = output.write_all(&line);
            }
        })?;
        written.map_err(failed)?;
        let name = Printable(&file.display().to_string()).to_string();
        let import::Imported {
            records,
            ports,
            left_out,
        } = done;
        cli::note(&format!(
            "imported  {records} records of {ports} ports from {name}\n"
        ));
        if left_out > 0 {
            cli::note(&format!(
                "left out  {left_out} samples within one interval of another one (--interval)\n"
            ));
        }
    }
    Ok(output.flush().map_err(failed)?)
}
