//! `ibnet-view map`: map of the fabric with the utilization of its links.

use std::path::PathBuf;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::heat::range::Range;
use ibnet_analysis::links::{self, Link, LinkOrder};
use ibnet_analysis::map::Map;
use ibnet_analysis::metric::Metric;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::shares::Distributions;
use ibnet_analysis::stat::Stat;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_view::{draw, picture};

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::groups::GroupArgs;
use crate::selection::{Selected, Selection};

/// Draw the topology as a map. The colour and the width of a link show its utilization, or any
/// other metric
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    group: GroupArgs,
    /// Statistic of utilization and blocked time over the time range: mean, peak, or a percentile
    /// of the slots
    #[arg(long, value_name = "mean|peak|pNN", default_value_t)]
    stat: Stat,
    /// Metric of the colours: one of `heatmap --metric`, such as port_xmit_data_bytes or errors.
    /// Without this option, the utilization of the direction with more traffic
    #[arg(short, long, value_name = "NAME", conflicts_with = "format")]
    metric: Option<Metric>,
    /// Values of the first and last colour, as in `heatmap --range`: auto, mean, max, log,
    /// percentile:99, or a range such as 0..100 in the unit of the metric. `max` shows light
    /// traffic, which is invisible on the scale of a full link
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "auto",
        allow_hyphen_values = true
    )]
    range: Range,
    /// Draw a box for each host. Without this flag, a strip in the box of a switch represents its
    /// hosts
    #[arg(long)]
    hosts: bool,
    /// Format of the result: `text` draws the picture, `json` and `csv` write the links
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
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
  ibnet-view map lines/*.jsonl -m port_xmit_data_bytes --range max -o broadcast.svg
  ibnet-view map lines/*.jsonl --from 12:00 --to 12:01 --hosts -o map.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = args.output.as_deref().filter(|path| {
        args.format == Format::Text && draw::Format::of(path) == Some(draw::Format::Png)
    }) {
        return Err(Failure::SvgOnly {
            path: path.to_owned(),
        });
    }
    let mut inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let selected = match args.selection.apply(&mut inputs)? {
        Some(selected) => Some(selected),
        None => {
            let groups = args.group.groups()?;
            groups.hosts()?.map(|hosts| Selected {
                hosts,
                title: groups.title(),
            })
        }
    };
    let empty = (
        Ports::with_bins(common::INTERVALS),
        (
            Devices::default(),
            (
                Distributions::for_stat(args.stat),
                HeatMap::new(args.metric.iter().cloned().collect(), None),
            ),
        ),
    );
    let ((ports, (devices, (distributions, heat))), summary) = common::read(&inputs, &empty)?;
    let ports = ports.finish();
    if let Some(selected) = &selected {
        selected.check(&ports)?;
    }
    let links = links::find_by(&ports, args.stat, &distributions);
    if let Format::Document(document) = args.format {
        let is_selected = |link: &&Link| {
            selected
                .as_ref()
                .is_none_or(|selected| link.is_at(&selected.hosts))
        };
        let rows: Vec<_> = links::sorted(&links, LinkOrder::Utilization)
            .iter()
            .filter(is_selected)
            .map(|link| link.row(args.stat))
            .collect();
        return document.write(common::span(&summary)?, &rows, args.output.as_deref());
    }
    let mut trees = Trees::find(&ports, &devices, Limits::default());
    if let Some(Selected { hosts, .. }) = &selected {
        // Only the roots that held up these hosts are marked.
        trees.retain_hosts(hosts);
    }
    let mut map = Map::of(&links, common::time_range(&summary)?.trim_end())
        .with_stat(args.stat)
        .with_roots(&trees)
        .with_devices(&devices);
    if args.metric.is_some() {
        map = map.with_metric(&heat.finish(RowKind::Port)?);
    }
    map = map.with_range(args.range);
    if let Some(Selected { hosts, title }) = &selected {
        map = map.with_job(hosts, &trees, title);
    }
    format::write(
        picture::map::to_svg(&map, args.hosts).as_bytes(),
        args.output.as_deref(),
    )
}
