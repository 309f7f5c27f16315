//! `ibnet-view links`: the links that matter most, and congestion trees.

use ibnet::cli;
use ibnet_view::input;
use ibnet_view::links::{self, By};
use ibnet_view::ports::Ports;
use ibnet_view::trees::{Limits, Trees};

use crate::Failure;
use crate::common::{self, Recorded};

/// Links by how much they are used, how long they wait, how many errors they have; congestion trees
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// How many links, or how many trees
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// By what they are put in order
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Find who holds up whom: roots of congestion and their victims
    #[arg(long, conflicts_with = "by")]
    tree: bool,
    /// A port waits if it is blocked for more than this share of a time
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().waits, requires = "tree", value_parser = common::share)]
    waits: f64,
    /// A port is full if more than this share of what its link carries is used
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().full, requires = "tree", value_parser = common::share)]
    full: f64,
}

const EXAMPLES: &str = "\
One end of a link transmits what the other receives: links on which that is not so, by
more than the times of the readings explain, are flagged and listed.

A congestion tree begins at a port that is full and does not wait. What leads to it
waits: the ports whose other end is that port's switch, the ports that lead to these,
and so on, to the hosts that want to send. It is looked for in each part of the time by
itself (in up to 64 parts), and only where both ends' names and neighbours are in the
lines. Counters do not tell who waits for whom within a switch: a port that waits there
may wait for any port of it that is full or waits, and is counted to each.

Examples:
  ibnet-view links lines/*.jsonl --top 10
  ibnet-view links lines/*.jsonl --top 10 --by blocked --from -10m
  ibnet-view links lines/*.jsonl --tree";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (ports, told) = input::read(&args.recorded.inputs()?, &Ports::with_bins(if args.tree { common::PARTS } else { 1 }))?;
    common::tell(&told);
    let ports = ports.seen();
    let text = if args.tree {
        Trees::find(&ports, Limits { waits: args.waits, full: args.full }).told(args.top)
    } else {
        links::told(&links::of(&ports), args.by, args.top)
    };
    Ok(cli::print_line(&format!("{}{}", common::when(&told)?, text.trim_end()))?)
}
