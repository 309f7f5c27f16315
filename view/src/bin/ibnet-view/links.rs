//! `ibnet-view links`: table of links, and congestion trees.

use std::path::PathBuf;

use clap::ValueEnum;
use ibnet_analysis::links::{self, Link, LinkOrder};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::trees::{Limits, Trees};
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};

/// List links by utilization, blocked time or errors; find congestion trees
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Number of links, or of trees
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Order of the links
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
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, value_name = "text|json|csv")]
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
}

impl From<By> for LinkOrder {
    fn from(by: By) -> Self {
        match by {
            By::Utilization => Self::Utilization,
            By::Blocked => Self::Blocked,
            By::Errors => Self::Errors,
        }
    }
}

const EXAMPLES: &str = "\
Both ends of a link count its traffic. Links whose ends differ by more than the times of
the readings explain are flagged and listed.

A congestion tree begins at its root: a port that is full and does not wait. The ports
that lead to its switch wait for it. The ports that lead to these wait for them, and so
on, up to the sending hosts. The search uses up to 64 intervals of time, one by one. It
needs the records of both ends. Counters do not show which output an input waits for, so
a waiting port counts for each port of the next switch that is full or waits.

Examples:
  ibnet-view links lines/*.jsonl --top 10
  ibnet-view links lines/*.jsonl --top 10 --by blocked --from -10m
  ibnet-view links lines/*.jsonl --tree";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (ports, summary) = common::read(&inputs, &Ports::with_bins(if args.tree { common::INTERVALS } else { 1 }))?;
    let (ports, span, output) = (ports.finish(), common::span(&summary)?, args.output.as_deref());
    let report = if args.tree {
        let trees = Trees::find(&ports, Limits { waits: args.waits, full: args.full });
        match args.format {
            Format::Text => text::trees::report(&trees, args.top),
            Format::Document(document) => {
                let rows: Vec<_> = trees.rows().into_iter().take(args.top).collect();
                return document.write(span, &rows, output);
            }
        }
    } else {
        let links = links::find(&ports);
        match args.format {
            Format::Text => text::links::report(&links, args.by.into(), args.top),
            Format::Document(document) => {
                let rows: Vec<_> = links::sorted(&links, args.by.into()).iter().take(args.top).map(Link::row).collect();
                return document.write(span, &rows, output);
            }
        }
    };
    format::write((common::time_range(&summary)? + &report).as_bytes(), output)
}
