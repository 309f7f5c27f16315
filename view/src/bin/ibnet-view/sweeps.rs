//! `ibnet-view sweeps`: durations of sweeps and compound queries.

use std::path::PathBuf;

use ibnet_analysis::sweeps::Sweeps;
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
  ibnet-view sweeps lines/*.jsonl --format json";

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
        return document.write(span, &report.rows, output);
    }
    if let Some(format) = picture {
        let picture = SweepPicture::new(&report, zone.clone(), &common::format_span(span, &zone));
        format::write(&render(&picture, format)?, output)?;
    }
    format::write(
        (common::time_range(&summary)? + "\n" + &text::sweeps::report(&report)).as_bytes(),
        None,
    )
}
