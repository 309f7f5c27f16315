//! `ibnet-view prevalence`: how often, where and at what cost ports wait.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use ibnet_analysis::devices::Devices;
use ibnet_analysis::heat::range::Range;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::Inputs;
use ibnet_analysis::ports::Ports;
use ibnet_analysis::prevalence::roots::Roots;
use ibnet_analysis::prevalence::{self, Prevalence};
use ibnet_analysis::trees::Limits;
use ibnet_analysis::when::Zone;
use ibnet_view::picture::heat::HeatPicture;
use ibnet_view::{draw, text};

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::selection::{self, Selected, Selection};

/// List how often, where and at what cost ports wait: by link, switch, host, hour, weekday or root
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    #[command(flatten)]
    selection: Selection,
    /// Time counts if a port is blocked for more than this share of an interval
    #[arg(long, value_name = "SHARE", default_value_t = Limits::default().waits, value_parser = common::share)]
    limit: f64,
    /// Kind of the rows
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Number of links, leaf switches, hosts or roots
    #[arg(long, value_name = "N", default_value = "20", value_parser = common::at_least_one)]
    top: NonZeroUsize,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Write the result to a file instead of standard output. A file .png or .svg is a calendar:
    /// the hours of each day, over all ports
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum By {
    /// Each direction of a link
    #[default]
    Link,
    /// Leaf switches: ports to their hosts, and ports of these hosts
    Leaf,
    /// Hosts: their ports, and the switch ports to them
    Host,
    /// Hours of the day in the local time zone (TZ), over all ports
    Hour,
    /// Weekdays in the local time zone (TZ), over all ports
    Weekday,
    /// Ports where congestion begins, with the jobs of --slurm-file that waited for them
    Root,
}

const EXAMPLES: &str = "\
above: share of the known time in which a port was blocked for more than --limit.
covered: share of the time range that is known; unknown time does not count as free.
blocked, blocked s: mean blocked share, and blocked time of all ports of the row in seconds.
s/GB: blocked seconds per 10^9 bytes sent. The sending port is the one that waits.

--by root searches the congestion trees of each hour, as `links --tree` does, so an archive is
read once and files once for each hour. Counters do not show which root a port waits for; if
several are possible, each gets an equal part of the time.

Over more than two days, an archive is read as one-minute means. The mean, the max and the
95th percentile of a minute bound the time above the limit, so `above` is a range; the rows
are in the order of its middle. --from and --to within two days read the slots.

Examples:
  ibnet-view prevalence lines/*.jsonl
  ibnet-view prevalence archive --by leaf --top 10
  ibnet-view prevalence archive --by hour --from 2026-11-01 --to 2026-12-01
  ibnet-view prevalence archive --by weekday --nodes 'node[001-024]'
  ibnet-view prevalence archive --by root --slurm-file jobs.csv
  ibnet-view prevalence archive --from 2026-01-01 -o calendar.png
  ibnet-view prevalence lines/*.jsonl --by host --limit 0.5 --format csv -o hosts.csv";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let selected = args.selection.apply(&mut inputs)?;
    let hosts = selected.as_ref().map(|selected| selected.hosts.clone());
    let by = match args.by {
        By::Link => prevalence::By::Link,
        By::Leaf => prevalence::By::Leaf,
        By::Host => prevalence::By::Host,
        By::Hour => prevalence::By::Hour,
        By::Weekday => prevalence::By::Weekday,
        By::Root => return roots(args, &inputs, hosts),
    };
    let empty = Prevalence::new(args.limit, Zone::local(), hosts);
    let (waits, summary) = common::read(&inputs, &empty)?;
    if let Some(Selected { title, .. }) = selected.filter(|_| waits.is_empty()) {
        return Err(selection::no_port_of(&title).into());
    }
    let span = common::span(&summary)?;
    let mut rows = waits.rows(by, span);
    let all = rows.len();
    if !matches!(args.by, By::Hour | By::Weekday) {
        rows.truncate(args.top.get());
    }
    let output = args.output.as_deref();
    let picture = output.and_then(draw::Format::of);
    match (args.format, picture) {
        (Format::Document(document), _) => document.write(span, &rows, output),
        (Format::Text, Some(picture)) => {
            let grid = waits.calendar(span);
            let calendar = HeatPicture::new(&grid, None, &Range::Largest, Zone::local(), None);
            format::write(&draw::render(&calendar, picture)?, output)
        }
        (Format::Text, None) => {
            let report = text::prevalence::report(&rows, by, all);
            format::write((common::time_range(&summary)? + &report).as_bytes(), output)
        }
    }
}

/// Lists the roots, from the trees of each hour.
fn roots(args: &Args, inputs: &Inputs, hosts: Option<Hosts>) -> Result<(), Failure> {
    let limits = Limits {
        waits: args.limit,
        ..Limits::default()
    };
    let output = args.output.as_deref();
    if let Some(path) = output.filter(|path| draw::Format::of(path).is_some()) {
        return Err(Failure::NotAPicture {
            path: path.to_owned(),
        });
    }
    let mut roots = Roots::new(limits, hosts, args.selection.jobs_of_file()?);
    let empty = (Ports::with_bins(common::INTERVALS), Devices::default());
    let summary = common::read_hours(inputs, &empty, |(ports, devices)| {
        roots.add(&ports.finish(), &devices);
    })?;
    let span = common::span(&summary)?;
    let mut rows = roots.rows((span.1 - span.0) as f64 / 1e9);
    let all = rows.len();
    rows.truncate(args.top.get());
    match args.format {
        Format::Document(document) => document.write(span, &rows, output),
        Format::Text => {
            let report = text::prevalence::roots(&rows, all);
            format::write((common::time_range(&summary)? + &report).as_bytes(), output)
        }
    }
}
