//! `ibnet-view heatmap`: metrics by port and time.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ibnet::cli::{self, OutputError, Signals, Staged};
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::grid::Grid;
use ibnet_analysis::heat::marks;
use ibnet_analysis::heat::order::{RowKind, RowLabel, RowOrder};
use ibnet_analysis::heat::range::Range;
use ibnet_analysis::host_metrics::panels::{self, Columns};
use ibnet_analysis::host_metrics::{self, HostMetrics};
use ibnet_analysis::hosts::{HostNames, Hosts};
use ibnet_analysis::input::Inputs;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::metric::Metric;
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;
use ibnet_view::draw::render;
use ibnet_view::picture::heat::HeatPicture;
use ibnet_view::terminal::{self, TerminalSize};

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::groups::GroupArgs;
use crate::host_metrics::{HostArgs, row_of_host};
use crate::job_source::JobSource;
use crate::marks::MarkArgs;

/// Draw metrics as colours, by time and by port, link, switch or host
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Metric: xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns (all
    /// MADs of a port in a slot), rtt_mean_ns (mean per MAD), blocked_ns_per_byte (blocked time per
    /// byte sent), errors (all kinds), or a counter for its rate. An array of counters is summed;
    /// NAME[3] is one element of it
    #[arg(
        short,
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "xmit_gbps"
    )]
    metric: Vec<Metric>,
    /// Kind of the rows: port, link (the larger value of its two ends), switch or host (for rates
    /// the sum of their ports, for other metrics the largest value), sl or vl (counters by service
    /// level or virtual lane, summed over all ports), or group (the hosts of each --group)
    #[arg(long, value_name = "WHAT", default_value_t = RowKind::Port)]
    by: RowKind,
    /// Only ports of these hosts and the ports linked to them: `node[001-012],admin1` or `oss*`
    #[arg(long, value_name = "HOSTLIST")]
    nodes: Option<String>,
    /// Only the N rows with the largest means of the first metric
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// Order of the rows: topology, name, or value (largest mean of the first metric first)
    #[arg(long, value_name = "ORDER", default_value_t = RowOrder::Topology)]
    sort: RowOrder,
    /// Values of the first and last colour: auto, mean (from 0 to the mean plus the mean absolute
    /// deviation), max (from 0 to the largest value), log (logarithmic), percentile:99, or a range
    /// such as 0..100 in the unit of the metric. auto is a full link for rates of data, 0 to 1 for
    /// shares, log for errors, and max for other metrics
    #[arg(
        long,
        value_name = "RANGE",
        default_value = "auto",
        allow_hyphen_values = true
    )]
    range: Range,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    host_metrics: HostArgs,
    /// Outline this job of Slurm or PBS. Without this option, all jobs of --slurm-file are outlined
    #[arg(long, visible_alias = "job", value_name = "JOBID")]
    slurm: Option<String>,
    #[command(flatten)]
    source: JobSource,
    #[command(flatten)]
    marks: MarkArgs,
    /// Largest size of the picture in pixels, if its texts fit. Rows and columns without room are
    /// merged
    #[arg(long, value_name = "WIDTHxHEIGHT", value_parser = size)]
    size: Option<(u32, u32)>,
    /// Format of the result: `text` draws the picture, `json` and `csv` write the value and the
    /// state of each cell
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Picture file (.png or .svg). With json and csv: the file, instead of standard output
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["terminal", "format"], required_if_eq("format", "text"))]
    output: Option<PathBuf>,
    /// Draw on this terminal with half blocks; NO_COLOR selects grey shades
    #[arg(long, conflicts_with = "format")]
    terminal: bool,
    /// Write a file for each hour or day of the time range, in the local time zone (TZ); the time
    /// becomes a part of its name, such as `heat-2026-11-27.png`
    #[arg(long, value_enum, value_name = "hour|day", hide_possible_values = true, requires = "output", conflicts_with_all = ["terminal", "follow"])]
    each: Option<Each>,
    /// Draw again when the files have grown; check every SECONDS (default 5)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    follow: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Each {
    Hour,
    Day,
}

const EXAMPLES: &str = "\
Striped: the port did not answer. Dark grey: its link is down. Grey: the value is not
known (after a gap or a reset, or the device lacks the counter). White: there is no
record. Dots: at least this value, because a port or a counter of the sum has none.
Orange: errors or waits of a virtual lane increased, but the rate is unknown. Mean, largest value and shares of these cells are printed on standard error.

Examples:
  ibnet-view heatmap 'lines/*.jsonl' -o heat.png
  ibnet-view heatmap lines/* -m xmit_gbps,xmit_blocked --by link -o heat.svg
  ibnet-view heatmap lines/* -m errors --by switch --from -1h -o errors.png
  ibnet-view heatmap lines/* -m port_xmit_wait_ticks --nodes 'node[001-032]' --terminal
  ibnet-view heatmap lines/* -m xmit_blocked --top 40 --sort value -o blocked.png
  ibnet-view heatmap lines/* -m port_xmit_data_sl_bytes --by sl -o levels.png
  ibnet-view heatmap lines/* --slurm-file jobs.txt --by host -o jobs.png
  ibnet-view heatmap lines/* -m xmit_utilization --follow -o now.png
  ibnet-view heatmap archive -m xmit_blocked --by switch --each day -o blocked.png
  ibnet-view heatmap lines/* -m xmit_blocked --host-metrics http://prometheus:9090 -o h.png
  ibnet-view heatmap lines/* -m xmit_blocked --format csv -o blocked.csv";

/// Parses width and height in pixels. The limits keep the picture's memory below a few hundred
/// megabytes.
fn size(text: &str) -> Result<(u32, u32), String> {
    const LIMITS: std::ops::RangeInclusive<u32> = 500..=10_000;
    let sides = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let fits = |(width, height): &(u32, u32)| LIMITS.contains(width) && LIMITS.contains(height);
    sides.filter(fits).ok_or_else(|| {
        "expected WIDTHxHEIGHT in pixels, each from 500 to 10000, such as 1600x1200".to_owned()
    })
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match (args.follow, args.each) {
        (Some(seconds), _) => follow(args, Duration::from_secs(seconds)),
        (None, Some(each)) => draw_each(args, each),
        (None, None) => draw(args, &args.recorded.inputs()?, args.output.as_ref()),
    }
}

/// Draws each hour or day with records.
fn draw_each(args: &Args, each: Each) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    let (zone, span) = (Zone::local(), common::span_of(&inputs)?);
    let (form, next): (_, fn(&Zone, u64) -> Option<u64>) = match each {
        // The clock shows an hour twice when summer time ends, so the offset is a part of the name.
        Each::Hour => ("%Y-%m-%dT%H%z", Zone::next_hour),
        Each::Day => ("%Y-%m-%d", Zone::next_day),
    };
    let mut last = Ok(());
    let mut has_drawn = false;
    for (from, part) in common::parts(&inputs, span, |from| next(&zone, from)) {
        let name = |path: &PathBuf| {
            let mut name = path.file_stem().unwrap_or_default().to_owned();
            name.push(format!("-{}", zone.format(from, form)));
            let named = path.with_file_name(name);
            path.extension().map_or_else(
                || named.clone(),
                |extension| named.with_added_extension(extension),
            )
        };
        match draw(args, &part, args.output.as_ref().map(name).as_ref()) {
            // Nothing was recorded in this hour or day.
            Err(nothing @ Failure::Analysis(AnalysisError::Nothing { .. })) => last = Err(nothing),
            done => {
                done?;
                has_drawn = true;
            }
        }
    }
    if has_drawn { Ok(()) } else { last }
}

fn draw(args: &Args, inputs: &Inputs, output: Option<&PathBuf>) -> Result<(), Failure> {
    let picture = if args.format == Format::Text {
        format::of_picture(output.map(PathBuf::as_path))?
    } else {
        None
    };
    let groups = args.group.groups()?;
    let hosts = match &args.nodes {
        Some(nodes) => Some(Hosts::parse(nodes)?),
        None if args.by == RowKind::Group => None,
        None => groups.hosts()?,
    };
    if args.by == RowKind::Group && groups.is_empty() {
        return Err(Failure::NoGroup);
    }
    common::refuse_input(inputs, output)?;
    let empty = match args.by {
        by @ (RowKind::Sl | RowKind::Vl) => HeatMap::by_element(&args.metric, hosts, by)?,
        _ => HeatMap::new(args.metric.clone(), hosts).with_groups(groups),
    };
    let zone = Zone::local();
    let (jobs, phases) = (jobs(args)?, args.marks.read()?.unwrap_or_default());
    let (heat, summary) = common::read(inputs, &empty)?;
    let hosts = heat.host_rows();
    let grid = heat
        .finish(args.by)?
        .arranged(args.sort, args.top.map(|top| top as usize));
    let of_hosts = of_hosts(args, &grid, hosts)?;
    if let Format::Document(document) = args.format {
        let rows: Vec<_> = std::iter::once(&grid)
            .chain(&of_hosts)
            .flat_map(Grid::heat_rows)
            .collect();
        return document.write(common::span(&summary)?, &rows, output.map(PathBuf::as_path));
    }
    if args.terminal {
        show(args, &grid, of_hosts.as_ref(), &zone)?;
    }
    let Some((path, format)) = output.zip(picture) else {
        return Ok(());
    };
    let picture = HeatPicture::new(
        &grid,
        of_hosts.as_ref(),
        &args.range,
        zone.clone(),
        args.size,
    );
    let picture = picture.with_jobs(|grid| marks::marks(grid, &jobs, &phases));
    let bytes = render(&picture, format)?;
    Staged::new(path, &bytes)?.commit()?;
    for grid in std::iter::once(&grid).chain(&of_hosts) {
        for panel in &grid.panels {
            cli::note(&terminal::summary(panel, grid, &zone));
        }
    }
    cli::note(&format!(
        "written   {}\n",
        Printable(&path.display().to_string())
    ));
    Ok(())
}

/// Returns the heat map of host metrics on the time axis of `grid`. Its rows are the hosts of the
/// rows of `grid`. Hosts without any host metric have a row only if the rows of `grid` are hosts.
fn of_hosts(args: &Args, grid: &Grid, hosts: Vec<RowLabel>) -> Result<Option<Grid>, Failure> {
    let drawn: BTreeSet<&str> = grid
        .rows
        .iter()
        .flat_map(|row| &row.hosts)
        .map(String::as_str)
        .collect();
    let is_drawn =
        |row: &RowLabel| drawn.is_empty() || row.hosts.iter().any(|host| drawn.contains(&**host));
    let mut rows: Vec<RowLabel> = if args.by == RowKind::Host {
        grid.rows.clone()
    } else {
        hosts.into_iter().filter(is_drawn).collect()
    };
    // Hosts whose HCAs are not swept appear only as peers of switch ports.
    let known: BTreeSet<String> = rows.iter().filter_map(|row| row.id.node.clone()).collect();
    let peers = drawn
        .into_iter()
        .filter(|host| args.by != RowKind::Host && !known.contains(*host));
    rows.extend(peers.map(|host| RowLabel {
        hosts: vec![host.to_owned()],
        ..row_of_host(host)
    }));
    let names = HostNames::new(rows.iter().filter_map(|row| row.id.node.clone()));
    let range = host_metrics::Range {
        from: grid.start_ns,
        to: grid.end_ns(),
    };
    let Some(HostMetrics { metrics, .. }) = args.host_metrics.load(&names, range)? else {
        return Ok(None);
    };
    let rows = if args.by == RowKind::Host {
        rows
    } else {
        panels::with_values(&metrics, rows)
    };
    let columns = Columns {
        start_ns: grid.start_ns,
        step_ns: grid.step_ns,
        count: grid.columns,
    };
    Ok(Some(panels::grid(&metrics, rows, columns)))
}

fn jobs(args: &Args) -> Result<Vec<JobRun>, Failure> {
    Ok(match &args.slurm {
        Some(id) => vec![args.source.job(id)?],
        None if args.source.has_file() => args.source.jobs(0, None)?.runs,
        None => Vec::new(),
    })
}

fn show(args: &Args, grid: &Grid, of_hosts: Option<&Grid>, zone: &Zone) -> Result<(), Failure> {
    let (columns, lines) = terminal_size::terminal_size().map_or((100, 40), |(width, height)| {
        (width.0.into(), height.0.into())
    });
    let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // Each panel has a heading, and the time range is below the last panel. One line is kept for
    // the prompt.
    let panels = args.metric.len() + of_hosts.map_or(0, |grid| grid.panels.len());
    let lines = ((usize::max(lines, 8) - 2) / panels.max(1))
        .saturating_sub(1)
        .max(1);
    let is_redrawn = args.follow.is_some() && io::stdout().is_terminal();
    let clear = if is_redrawn { "\u{1b}[H\u{1b}[2J" } else { "" };
    let size = TerminalSize {
        columns,
        lines,
        colors,
    };
    let text: String = std::iter::once(grid)
        .chain(of_hosts)
        .map(|grid| terminal::show(grid, &args.range, zone, size))
        .collect();
    cli::print(format!("{clear}{text}").as_bytes()).map_err(|source| OutputError {
        path: "standard output".into(),
        source,
    })?;
    Ok(())
}

/// Draws after each change of a file, until a signal arrives.
fn follow(args: &Args, pause: Duration) -> Result<(), Failure> {
    let failed = |source| OutputError {
        path: "the clock of --follow".into(),
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(failed)?;
        let mut before = None;
        loop {
            let now = state(&args.recorded.inputs()?.files);
            if before.as_ref() != Some(&now) {
                match draw(args, &args.recorded.inputs()?, args.output.as_ref()) {
                    // The sweep has not written a port record yet.
                    Err(Failure::Analysis(AnalysisError::Nothing { .. })) => {}
                    done => done?,
                }
                before = Some(now);
            }
            tokio::select! {
                _ = signals.next() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        }
    })
}

/// Returns size and modification time of each file. Either changes when lines are written.
fn state(files: &[PathBuf]) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let of = |path: &Path| {
        std::fs::metadata(path).map_or((0, None), |metadata| {
            (metadata.len(), metadata.modified().ok())
        })
    };
    files
        .iter()
        .map(|file| (file.clone(), of(file).0, of(file).1))
        .collect()
}
