//! `ibnet-view latency`: round-trip times.

use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::{Inputs, ReadSummary};
use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::compare::{self, Recording};
use ibnet_analysis::latency::{Latencies, Latency};
use ibnet_analysis::when::Zone;
use ibnet_view::draw::render;
use ibnet_view::picture::latency::LatencyPicture;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};

/// Report round-trip times by device kind, distance, sampler and device; compare
/// recordings
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Compare FILES with this recording: a file or a pattern in quotes, with a name. May be given
    /// several times; shifts and distances are relative to the first recording
    #[arg(long, value_name = "NAME=FILES", value_parser = compared)]
    compare: Vec<Compared>,
    /// Name of FILES in a comparison
    #[arg(long, value_name = "NAME", default_value = "FILES")]
    name: String,
    /// Scale and bins of the densities, on which modes are searched: log, log:N with N bins per
    /// decade, fixed or fixed:WIDTH such as fixed:5us
    #[arg(long, value_name = "log[:N]|fixed[:WIDTH]", default_value = "log")]
    bins: Bins,
    /// Draw the number of values in each bin, on a logarithmic axis and up to the longest time,
    /// instead of densities; with json and csv, a row for each bin
    #[arg(long)]
    counts: bool,
    /// Number of devices in the list of the largest shifts of a comparison
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Format of the result; json and csv have a row for each group, and all devices
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// With text: also draw the distributions, as .svg or .png. With json and csv: the file,
    /// instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A recording with which FILES are compared.
#[derive(Clone, Debug)]
struct Compared {
    name: String,
    files: PathBuf,
}

const EXAMPLES: &str = "\
Times of single MADs are in the `histogram` records, which are written once a minute and
at the end. Without them the values are means over the MADs of a port in a slot. The
timer cost is subtracted from all times.

The text names the modes and the grouping that separates them best.

Examples:
  ibnet-view latency 'lines/*.jsonl'
  ibnet-view latency lines/*.jsonl.zst --from -1h -o latency.svg --bins fixed:5us
  ibnet-view latency lines/*.jsonl --counts --bins fixed:5us -o counts.svg
  ibnet-view latency after.jsonl --compare before=before.jsonl -o firmware.svg
  ibnet-view latency wed/* --name wed --compare 'mon=mon/*' --compare 'tue=tue/*'
  ibnet-view latency lines/*.jsonl --format csv -o latency.csv";

/// Parses `NAME=FILES`. An existing file needs no name.
fn compared(text: &str) -> Result<Compared, String> {
    let stem = |path: &Path| {
        path.file_stem().map_or_else(
            || text.to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    };
    match text.split_once('=').filter(|_| !Path::new(text).exists()) {
        Some(("", _) | (_, "")) => Err("expected NAME=FILES".to_owned()),
        Some((name, files)) => Ok(Compared {
            name: name.to_owned(),
            files: files.into(),
        }),
        None => Ok(Compared {
            name: stem(Path::new(text)),
            files: text.into(),
        }),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let output = args.output.as_deref();
    let picture_format = if args.format == Format::Text {
        format::of_picture(output)?
    } else {
        None
    };
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let mut recordings = Vec::new();
    let mut whole: Option<(u64, u64)> = None;
    let mut times = Vec::new();
    let zone = Zone::local();
    let of_files = (args.name.clone(), inputs.clone());
    let compared = args.compare.iter().map(|Compared { name, files }| {
        let files = Inputs::new(std::slice::from_ref(files))?.files;
        Ok((
            name.clone(),
            Inputs {
                files,
                ..inputs.clone()
            },
        ))
    });
    for recording in compared.chain([Ok(of_files)]) {
        let (name, inputs): (String, Inputs) = recording.map_err(Failure::Analysis)?;
        common::refuse_input(&inputs, args.output.as_ref())?;
        let (latencies, summary) = read(&inputs)?;
        let span = common::span(&summary)?;
        whole = Some(whole.map_or(span, |whole| (whole.0.min(span.0), whole.1.max(span.1))));
        times.push((name.clone(), common::format_span(span, &zone)));
        recordings.push(Recording { name, latencies });
    }
    let span = whole.unwrap_or_default();
    if let Format::Document(document) = args.format
        && args.counts
    {
        return document.write(span, &compare::bin_rows(&recordings, args.bins), output);
    }
    let (report, picture) = match &recordings[..] {
        [single] => {
            if let Format::Document(document) = args.format {
                return document.write(span, &single.latencies.rows(args.bins), output);
            }
            let when = common::format_span(span, &zone);
            let report = format!(
                "{when}\n\n{}",
                text::latency::report(&single.latencies, args.bins)
            );
            (
                report,
                LatencyPicture::of(&single.latencies, args.bins, args.counts, &when),
            )
        }
        all => {
            if let Format::Document(document) = args.format {
                return document.write(span, &compare::rows(all, args.bins), output);
            }
            let times: Vec<String> = times
                .iter()
                .map(|(name, when)| format!("{name}: {when}"))
                .collect();
            let report = format!(
                "{}\n\n{}",
                times.join("\n"),
                text::compare::report(all, args.bins, args.top)
            );
            let when = if all.len() > 2 {
                common::format_span(span, &zone)
            } else {
                times.join("; ")
            };
            let picture = LatencyPicture::compared(all, args.bins, args.counts, &when);
            (report, picture)
        }
    };
    if let Some(format) = picture_format {
        format::write(&render(&picture, format)?, output)?;
    }
    format::write(report.as_bytes(), None)
}

fn read(inputs: &Inputs) -> Result<(Latencies, ReadSummary), AnalysisError> {
    let (latency, summary) = common::read(inputs, &Latency::default())?;
    if latency.undecoded > 0 {
        cli::note(&format!(
            "skipped   {} histogram records cannot be decoded\n",
            latency.undecoded
        ));
    }
    Ok((latency.finish()?, summary))
}
