//! `ibnet-view map`: the topology, coloured by how much of each link is used.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet_view::input;
use ibnet_view::links;
use ibnet_view::map::Map;
use ibnet_view::ports::Ports;
use ibnet_view::trees::{Limits, Trees};

use crate::Failure;
use crate::common::{self, Recorded};

/// Draw the topology, its links coloured and widened by how much of them is used
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Draw each host by itself; otherwise a strip at its switch stands for them
    #[arg(long)]
    hosts: bool,
    /// Where to
    #[arg(short, long, value_name = "FILE.svg")]
    output: PathBuf,
}

const EXAMPLES: &str = "\
The topology is that of the lines: every port tells its peer. The colour is the mean
over the time, of the greater direction; roots are those of `links --tree`; pointing at anything in a browser tells more.

Examples:
  ibnet-view map lines/*.jsonl -o map.svg
  ibnet-view map lines/*.jsonl --from 12:00 --to 12:01 --hosts -o map.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, Some(&args.output))?;
    let (ports, told) = input::read(&inputs, &Ports::with_bins(common::PARTS))?;
    common::tell(&told);
    let ports = ports.seen();
    let map = Map::of(&links::of(&ports), common::when(&told)?.trim_end()).with_roots(&Trees::find(&ports, Limits::default()));
    let svg = map.to_svg(args.hosts);
    if cli::is_dash(&args.output) {
        return Ok(cli::print_line(svg.trim_end())?);
    }
    Ok(Staged::new(&args.output, svg.as_bytes())?.commit()?)
}
