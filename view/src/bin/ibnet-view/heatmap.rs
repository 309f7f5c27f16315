//! `ibnet-view heatmap`: a metric by place and time.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ibnet::cli::{self, OutputError, Signals, Staged};
use ibnet_view::draw::{Format, render};
use ibnet_view::error::ViewError;
use ibnet_view::heat::Heat;
use ibnet_view::heat::grid::{Grid, Range};
use ibnet_view::heat::order::By;
use ibnet_view::heat::picture::HeatPicture;
use ibnet_view::heat::terminal::{self, Room};
use ibnet_view::hosts::Hosts;
use ibnet_view::input;
use ibnet_view::metric::Metric;
use ibnet_view::when::Zone;

use crate::Failure;
use crate::common::{self, Recorded};

/// Draw where and when: time from left to right, ports, links, switches or hosts below each other, a metric as colour
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// What to show: xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, rtt_ns, errors (of all kinds), or the rate of any counter
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', default_value = "xmit_gbps")]
    metric: Vec<Metric>,
    /// What a row is: port, link (the greater of its ends), switch or host (rates summed, shares of the worst port)
    #[arg(long, value_name = "WHAT", default_value_t = By::Port)]
    by: By,
    /// Only ports of these hosts, and those that face them: `node[001-012],admin1`
    #[arg(long, value_name = "HOSTLIST")]
    nodes: Option<String>,
    /// What the colours reach to: mean (plus mean absolute deviation), percentile:99, or 0..100 in the unit of the metric
    #[arg(long, value_name = "RANGE", default_value = "mean", allow_hyphen_values = true)]
    range: Range,
    /// The picture
    #[arg(short, long, value_name = "FILE.png|.svg", value_parser = common::picture, required_unless_present = "terminal")]
    output: Option<PathBuf>,
    /// Draw on this terminal, in half blocks; NO_COLOR makes shades of it
    #[arg(long)]
    terminal: bool,
    /// Draw anew whenever the files have grown, every so many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "5", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    follow: Option<u64>,
}

const EXAMPLES: &str = "\
Striped: the port did not answer. Grey: it answered, the value is not known (after
a gap or a reset, or the device has no such counter). White: there is no record.
The numbers behind the picture are told on standard error.

Examples:
  ibnet-view heatmap 'lines/*.jsonl' -o heat.png
  ibnet-view heatmap lines/* -m xmit_gbps,xmit_blocked --by link -o heat.svg
  ibnet-view heatmap lines/* -m errors --by switch --from -1h -o errors.png
  ibnet-view heatmap lines/* -m port_xmit_wait_ticks --nodes 'node[001-032]' --terminal
  ibnet-view heatmap lines/* -m xmit_utilization --range 0..1 --follow -o now.png";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match args.follow {
        None => draw(args),
        Some(seconds) => follow(args, Duration::from_secs(seconds)),
    }
}

fn draw(args: &Args) -> Result<(), Failure> {
    let hosts = args.nodes.as_deref().map(Hosts::parse).transpose()?;
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (heat, told) = input::read(&inputs, &Heat::new(args.metric.clone(), hosts))?;
    common::tell(&told);
    let (grid, zone) = (heat.finish(args.by)?, Zone::here());
    if args.terminal {
        show(args, &grid, &zone)?;
    }
    let Some(path) = &args.output else { return Ok(()) };
    let picture = HeatPicture::new(&grid, &args.range, zone.clone());
    let bytes = render(&picture, Format::of(path).unwrap_or(Format::Png))?;
    Staged::new(path, &bytes)?.commit()?;
    for panel in &grid.panels {
        cli::note(&terminal::told(panel, &grid, &args.range, &zone));
    }
    cli::note(&format!("written   {}\n", ibnet::types::Printable(&path.display().to_string())));
    Ok(())
}

fn show(args: &Args, grid: &Grid, zone: &Zone) -> Result<(), Failure> {
    let (columns, lines) = terminal_size::terminal_size().map_or((100, 40), |(width, height)| (width.0.into(), height.0.into()));
    let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A line above and below each panel, and one for the prompt.
    let lines = (usize::max(lines, 8) - 2) / args.metric.len().max(1) - 1;
    let is_redrawn = args.follow.is_some() && io::stdout().is_terminal();
    let clear = if is_redrawn { "\u{1b}[H\u{1b}[2J" } else { "" };
    let text = terminal::show(grid, &args.range, zone, Room { columns, lines, colors });
    cli::print(format!("{clear}{text}").as_bytes()).map_err(|source| OutputError { path: "standard output".into(), source })?;
    Ok(())
}

/// Draws whenever a file has changed, until a signal comes.
fn follow(args: &Args, pause: Duration) -> Result<(), Failure> {
    let failed = |source| OutputError { path: "the clock of --follow".into(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(failed)?;
        let mut before = None;
        loop {
            let now = state(&args.recorded.inputs()?.files);
            if before.as_ref() != Some(&now) {
                match draw(args) {
                    // A sweep that has only just begun.
                    Err(Failure::View(ViewError::Nothing { .. })) => {}
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

/// Whatever changes when lines are written.
fn state(files: &[PathBuf]) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let of = |path: &Path| std::fs::metadata(path).map_or((0, None), |metadata| (metadata.len(), metadata.modified().ok()));
    files.iter().map(|file| (file.clone(), of(file).0, of(file).1)).collect()
}
