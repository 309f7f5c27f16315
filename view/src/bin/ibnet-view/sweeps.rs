//! `ibnet-view sweeps`: durations of sweeps and compound queries.

use std::path::PathBuf;

use ibnet_analysis::sweeps::Sweeps;
use ibnet_analysis::sweeps::histogram::BinsOf;
use ibnet_analysis::when::Zone;
use ibnet_view::draw::render;
use ibnet_view::picture::sweeps::SweepPicture;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};

/// Report how long sweeps, decoding and compound queries take; completeness and lost records of
/// each sampler
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Draw histograms with counts instead of cumulative shares; with json and csv, a row for each
    /// bin. Bins: log, fixed or fixed:WIDTH; after a comma, those of compound queries
    #[arg(long, value_name = "BINS[,BINS]", value_parser = bins)]
    bins: Option<BinsOf>,
    /// Format of the result; json and csv have a row for each HCA port of a sampler
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// With text: also draw the durations over time and their distributions. With json and csv: the
    /// file, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
A compound query is all MADs of a port in a slot.

Examples:
  ibnet-view sweeps 'lines/*.jsonl'
  ibnet-view sweeps lines/*.jsonl --from -1h -o sweeps.svg
  ibnet-view sweeps lines/*.jsonl --bins fixed:10ms,fixed:50us -o histograms.svg
  ibnet-view sweeps lines/*.jsonl --format json";

/// Parses the bins of sweeps and those of compound queries. One text stands for both.
fn bins(text: &str) -> Result<BinsOf, String> {
    let (sweeps, queries) = text.split_once(',').unwrap_or((text, text));
    Ok((sweeps.parse()?, queries.parse()?))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (inputs, output) = (args.recorded.inputs()?, args.output.as_deref());
    let picture = if args.format == Format::Text {
        format::of_picture(output)?
    } else {
        None
    };
    common::refuse_input(&inputs, args.output.as_ref())?;
    let (sweeps, summary) = common::read(&inputs, &Sweeps::default())?;
    let (report, span, zone) = (sweeps.finish()?, common::span(&summary)?, Zone::local());
    if let Format::Document(document) = args.format {
        return match args.bins {
            Some(bins) => document.write(span, &report.bin_rows(bins), output),
            None => document.write(span, &report.rows, output),
        };
    }
    if let Some(format) = picture {
        let when = common::format_span(span, &zone);
        let picture = SweepPicture::new(&report, args.bins, zone, &when);
        format::write(&render(&picture, format)?, output)?;
    }
    format::write(
        (common::time_range(&summary)? + "\n" + &text::sweeps::report(&report)).as_bytes(),
        None,
    )
}
