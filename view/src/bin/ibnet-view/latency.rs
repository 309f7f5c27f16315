//! `ibnet-view latency`: round-trip times.

use std::path::PathBuf;

use ibnet::cli::{self, OutputError, Staged};
use ibnet::types::Printable;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::{Inputs, ReadSummary};
use ibnet_analysis::latency::{Latencies, Latency};
use ibnet_analysis::when::Zone;
use ibnet_view::draw::{Format, render};
use ibnet_view::picture::latency::LatencyPicture;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};

/// Report round-trip times by device kind, distance and sampler; compare two
/// recordings
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Earlier recording, as a file or a pattern in quotes. The command reports the difference
    /// between this recording and FILES
    #[arg(long, value_name = "BEFORE")]
    compare: Option<PathBuf>,
    /// Also draw the distributions
    #[arg(short, long, value_name = "FILE.svg|.png", value_parser = common::picture)]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Times of single MADs are in the `histogram` records, which are written once a minute.
Distances and the smallest value of each port come from the port records.

Examples:
  ibnet-view latency 'lines/*.jsonl'
  ibnet-view latency lines/*.jsonl.zst --from -1h -o latency.svg
  ibnet-view latency --compare before.jsonl after.jsonl -o firmware.svg";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (after, summary) = read(&inputs)?;
    let zone = Zone::local();
    let when = |summary: &ReadSummary| common::format_span(summary.span.unwrap_or_default(), &zone);
    let (report, picture) = match &args.compare {
        None => (text::latency::report(&after), LatencyPicture::of(&after, &when(&summary))),
        Some(pattern) => {
            let files = Inputs::new(std::slice::from_ref(pattern))?.files;
            let compared = Inputs { files, ..inputs };
            common::refuse_input(&compared, args.output.as_ref())?;
            let (before, summary_before) = read(&compared)?;
            let when = format!("{}; then {}", when(&summary_before), when(&summary));
            (text::latency::compare(&before, &after), LatencyPicture::compared(&before, &after, &when))
        }
    };
    if let Some(path) = &args.output {
        let bytes = render(&picture, Format::of(path).unwrap_or(Format::Svg))?;
        Staged::new(path, &bytes)?.commit()?;
        cli::note(&format!("written   {}\n", Printable(&path.display().to_string())));
    }
    cli::print(report.as_bytes()).map_err(|source| OutputError { path: "standard output".into(), source })?;
    Ok(())
}

fn read(inputs: &Inputs) -> Result<(Latencies, ReadSummary), AnalysisError> {
    let (latency, summary) = common::read(inputs, &Latency::default())?;
    if latency.undecoded > 0 {
        cli::note(&format!("skipped   {} histogram records cannot be decoded\n", latency.undecoded));
    }
    Ok((latency.finish()?, summary))
}
