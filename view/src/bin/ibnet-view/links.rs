//! `ibnet-view links`: table of links, rails, and congestion trees.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use ibnet_analysis::devices::Devices;
use ibnet_analysis::job::rails;
use ibnet_analysis::links::{self, LinkOrder};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::shares::Distributions;
use ibnet_analysis::stat::Stat;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_analysis::when::Zone;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::selection::{Selected, Selection};

/// List links by utilization, blocked time or errors, or the rails of a job; find congestion trees
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    #[command(flatten)]
    selection: Selection,
    /// Number of links, of leaf switches for each rail, or of trees
    #[arg(long, value_name = "N", default_value = "20", value_parser = common::at_least_one)]
    top: NonZeroUsize,
    /// Statistic of utilization and blocked time over the time range: mean, peak, or a percentile
    /// of the slots
    #[arg(
        long,
        value_name = "mean|peak|pNN",
        default_value_t,
        conflicts_with = "tree"
    )]
    stat: Stat,
    /// Order of the links, or `rail`: the traffic by rail and leaf switch, and slower rails
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Find congestion trees: their roots and victims
    #[arg(long, conflicts_with = "by")]
    tree: bool,
    /// A port counts as waiting if it is blocked for more than this share of an interval
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().waits, requires = "tree", value_parser = common::share)]
    waits: f64,
    /// A port counts as full if its utilization exceeds this share
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().full, requires = "tree", value_parser = common::share)]
    full: f64,
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

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum By {
    /// Used share of the data rate
    #[default]
    Utilization,
    /// Share of the time in which a port was blocked
    Blocked,
    /// Errors of both ends
    Errors,
    /// The HCAs of the hosts, by their names
    Rail,
}

impl By {
    /// Returns the order of the links, or `None` for rails.
    const fn order(self) -> Option<LinkOrder> {
        match self {
            Self::Utilization => Some(LinkOrder::Utilization),
            Self::Blocked => Some(LinkOrder::Blocked),
            Self::Errors => Some(LinkOrder::Errors),
            Self::Rail => None,
        }
    }
}

/// Max number of steps of time in which slower rails are searched.
const STEPS: usize = 240;

const EXAMPLES: &str = "\
Both ends of a link count its traffic. Links whose ends differ by more than the times of
the readings explain are flagged and listed.

A congestion tree begins at its root: a port that is full and does not wait. The ports
that lead to its switch wait for it. The ports that lead to these wait for them, and so
on, up to the sending hosts. The search uses up to 64 intervals of time, one by one. It
needs the records of both ends. Counters do not show which output an input waits for, so
a waiting port counts for each port of the next switch that is full or waits.

A rail is the name of an HCA within its host, such as mlx5_3. With --by rail, a rail is
listed as slower if its ports sent less than before, compared with the other rails, or if
a switch port waits for one of its hosts. The time range is divided into up to 240 steps.

With --nodes or --slurm: only the links at these hosts, or the trees in which they wait.
A percentile is the share that was not exceeded for this part of the time.

Examples:
  ibnet-view links lines/*.jsonl --top 10
  ibnet-view links lines/*.jsonl --top 10 --by blocked --from -10m
  ibnet-view links lines/*.jsonl --stat p95 --nodes 'node[001-024]'
  ibnet-view links lines/*.jsonl --by rail --slurm 4711
  ibnet-view links lines/*.jsonl --tree
  ibnet-view links lines/*.jsonl --tree --format json -o trees.json";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let selected = args.selection.apply(&mut inputs)?;
    let order = args.by.order();
    let empty = (
        match order {
            None => Ports::for_jobs(STEPS),
            Some(_) if args.tree => Ports::with_bins(common::INTERVALS),
            Some(_) => Ports::with_bins(0),
        },
        (Devices::default(), Distributions::for_stat(args.stat)),
    );
    let ((ports, (devices, distributions)), summary) = common::read(&inputs, &empty)?;
    let (ports, span, output) = (
        ports.finish(),
        common::span(&summary)?,
        args.output.as_deref(),
    );
    if let Some(selected) = &selected {
        selected.check(&ports)?;
    }
    let limits = Limits {
        waits: args.waits,
        full: args.full,
        ..Limits::default()
    };
    let report = if args.tree {
        let mut trees = Trees::find(&ports, &devices, limits);
        if let Some(Selected { hosts, .. }) = &selected {
            trees.retain_hosts(hosts);
        }
        match args.format {
            Format::Text => text::trees::report(&trees, args.top.get()),
            Format::Document(document) => {
                let rows: Vec<_> = trees.rows().into_iter().take(args.top.get()).collect();
                return document.write(span, &rows, output);
            }
        }
    } else if let Some(order) = order {
        let mut links = links::find_by(&ports, args.stat, &distributions);
        links.retain(|link| {
            selected
                .as_ref()
                .is_none_or(|selected| link.is_at(&selected.hosts))
        });
        match args.format {
            Format::Text => text::links::report(&links, order, args.stat, args.top.get()),
            Format::Document(document) => {
                let sorted = links::sorted(&links, order);
                let rows: Vec<_> = sorted
                    .iter()
                    .take(args.top.get())
                    .map(|link| link.row(args.stat))
                    .collect();
                return document.write(span, &rows, output);
            }
        }
    } else {
        let rails = rails::find(&ports, selected.as_ref().map(|selected| &selected.hosts));
        match args.format {
            Format::Text => text::rails::report(&rails, args.top.get(), &Zone::local()),
            Format::Document(document) => return document.write(span, &rails, output),
        }
    };
    format::write((common::time_range(&summary)? + &report).as_bytes(), output)
}
