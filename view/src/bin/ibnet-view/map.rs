//! `ibnet-view map`: map of the fabric with the utilization of its links.

use std::path::PathBuf;

use ibnet_analysis::links::{self, Link, LinkOrder};
use ibnet_analysis::map::Map;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_view::picture;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};

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
    /// Format of the result: `text` draws the picture, `json` and `csv` write the links
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "text|json|csv")]
    format: Format,
    /// Picture file; optional with json and csv, whose default is standard output
    #[arg(short, long, value_name = "FILE|-", required_unless_present = "format")]
    output: Option<PathBuf>,
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
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (ports, summary) = common::read(&inputs, &Ports::with_bins(common::INTERVALS))?;
    let ports = ports.finish();
    let links = links::find(&ports);
    if let Format::Document(document) = args.format {
        let rows: Vec<_> = links::sorted(&links, LinkOrder::Utilization).iter().map(Link::row).collect();
        return document.write(common::span(&summary)?, &rows, args.output.as_deref());
    }
    let trees = Trees::find(&ports, Limits::default());
    let map = Map::of(&links, common::time_range(&summary)?.trim_end()).with_roots(&trees);
    format::write(picture::map::to_svg(&map, args.hosts).as_bytes(), args.output.as_deref())
}
