//! `ibnet-view map`: map of the fabric with the utilization of its links.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet_analysis::links;
use ibnet_analysis::map::Map;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_view::picture;

use crate::Failure;
use crate::common::{self, Recorded};

/// Draw the topology as a map. The colour and the width of a link show its utilization
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Draw a box for each host. Without this flag, a strip in the box of a switch represents its
    /// hosts
    #[arg(long)]
    hosts: bool,
    /// Picture file
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
The topology comes from the records, which name the peer of each port. The colour is the
mean over the time range, of the direction with more traffic. The roots are those of
`links --tree`. In a browser, hover over a link or a switch for details.

Examples:
  ibnet-view map lines/*.jsonl -o map.svg
  ibnet-view map lines/*.jsonl --from 12:00 --to 12:01 --hosts -o map.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, Some(&args.output))?;
    let (ports, summary) = common::read(&inputs, &Ports::with_bins(common::INTERVALS))?;
    let ports = ports.finish();
    let trees = Trees::find(&ports, Limits::default());
    let map = Map::of(&links::find(&ports), common::time_range(&summary)?.trim_end()).with_roots(&trees);
    let svg = picture::map::to_svg(&map, args.hosts);
    if cli::is_dash(&args.output) {
        return Ok(cli::print_line(svg.trim_end())?);
    }
    Ok(Staged::new(&args.output, svg.as_bytes())?.commit()?)
}
