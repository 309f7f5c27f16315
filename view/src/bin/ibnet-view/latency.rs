//! `ibnet-view latency`: how long answers take.

use std::path::PathBuf;

use ibnet::cli::{self, OutputError, Staged};
use ibnet::types::Printable;
use ibnet_view::draw::{Format, render};
use ibnet_view::error::ViewError;
use ibnet_view::input::{self, Inputs, Told};
use ibnet_view::latency::picture::LatencyPicture;
use ibnet_view::latency::{Latencies, Latency, text};
use ibnet_view::when::Zone;

use crate::Failure;
use crate::common::{self, Recorded};

/// Tell how long answers take, as distributions: by kind of device, by distance, by sampler; what changed between two recordings
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// An earlier recording, a file or a pattern in quotes: tell by how much FILES differ from it
    #[arg(long, value_name = "BEFORE")]
    compare: Option<PathBuf>,
    /// Draw the distributions too
    #[arg(short, long, value_name = "FILE.svg|.png", value_parser = common::picture)]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Round trips of single MADs are taken from the `histogram` records, which are
written once a minute; distances and the least of each port from the port records.

Examples:
  ibnet-view latency 'lines/*.jsonl'
  ibnet-view latency lines/*.jsonl.zst --from -1h -o latency.svg
  ibnet-view latency --compare before.jsonl after.jsonl -o firmware.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (after, told) = read(&inputs)?;
    let zone = Zone::here();
    let (shown, picture) = match &args.compare {
        None => (text::show(&after), LatencyPicture::of(&after, &when(&told, &zone))),
        Some(pattern) => {
            let files = Inputs::new(std::slice::from_ref(pattern))?.files;
            let compared = Inputs { files, ..inputs };
            common::refuse_input(&compared, args.output.as_ref())?;
            let (before, told_before) = read(&compared)?;
            let when = format!("{}; then {}", when(&told_before, &zone), when(&told, &zone));
            (text::compare(&before, &after), LatencyPicture::compared(&before, &after, &when))
        }
    };
    if let Some(path) = &args.output {
        let bytes = render(&picture, Format::of(path).unwrap_or(Format::Svg))?;
        Staged::new(path, &bytes)?.commit()?;
        cli::note(&format!("written   {}\n", Printable(&path.display().to_string())));
    }
    cli::print(shown.as_bytes()).map_err(|source| OutputError { path: "standard output".into(), source })?;
    Ok(())
}

fn read(inputs: &Inputs) -> Result<(Latencies, Told), ViewError> {
    let (latency, told) = input::read(inputs, &Latency::default())?;
    common::tell(&told);
    if latency.undecoded > 0 {
        cli::note(&format!("skipped   {} histogram records cannot be decoded\n", latency.undecoded));
    }
    Ok((latency.finish()?, told))
}

/// From when to when, and the time zone.
fn when(told: &Told, zone: &Zone) -> String {
    let (from, to) = told.span.unwrap_or_default();
    let show = |ns| zone.show(ns, "%Y-%m-%d %H:%M:%S");
    format!("{} to {} ({})", show(from), show(to), zone.name(from))
}
