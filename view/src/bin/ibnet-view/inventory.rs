//! `ibnet-view inventory`: switches and modules.

use std::path::PathBuf;

use ibnet_analysis::health::inventory::Inventory;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::health;

/// List switches and modules: type, firmware, serial number, length, temperature
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Format of the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Needs the records `module` and `sensors`: set `enabled = true` in [physical] of ibnet.toml.
Both ends of a cable have the same serial number. If they do not, the first lines name the
ports: the cables are not where the net file has them. Fans that are too slow are named too.

Examples:
  ibnet-view inventory archive --from -1h
  ibnet-view inventory archive --from -1h --format csv -o inventory.csv";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (inventory, summary) = common::read(&inputs, &Inventory::default())?;
    let rows = inventory.rows();
    if rows.is_empty() {
        return Err(health::nothing("module").into());
    }
    match args.format {
        Format::Document(document) => {
            document.write(common::span(&summary)?, &rows, args.output.as_deref())
        }
        Format::Text => {
            let report = common::time_range(&summary)? + "\n" + &text::health::inventory(&rows);
            format::write(report.as_bytes(), args.output.as_deref())
        }
    }
}
