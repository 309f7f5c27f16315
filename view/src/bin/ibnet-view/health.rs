//! `ibnet-view health`: the condition of links, and which of them need a person.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::health::verdict::Verdict;
use ibnet_analysis::health::{Health, Keeps};
use ibnet_analysis::when::Zone;
use ibnet_view::draw::{self, render};
use ibnet_view::picture::health::HealthPicture;
use ibnet_view::text;

use crate::Failure;
use crate::common::{self, Recorded};
use crate::format::{self, Format};
use crate::job_source::JobFile;

/// List links to clean, to replace or to watch, worst first: port, rule, serial number
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    recorded: Recorded,
    /// Rule of the verdicts; `pdr` lists which ports NVIDIA's PDR plugin would isolate
    #[arg(long, value_enum, default_value_t)]
    rule: By,
    #[command(flatten)]
    jobs: JobFile,
    /// Exit with code 3 if a link is listed
    #[arg(long)]
    check: bool,
    /// Format of the result; json and csv have a row for each end of a link, also of good ones
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write the result to a file instead of standard output. A name that ends in .svg or .png:
    /// draw the bit errors over time, and FEC blocks by their wrong symbols, of the worst links
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
enum By {
    /// That of ibnet
    #[default]
    Ibnet,
    /// The published rule of the PDR plugin of UFM
    Pdr,
}

/// Exit code of --check if a link is listed.
const FOUND: u8 = 3;

const EXAMPLES: &str = "\
Needs the records `phy` and `module`: set `enabled = true` in [physical] of ibnet.toml.
The verdicts were compared with a simulated fabric, and not with real devices.

  good     no rule applies
  watch    a rule applies, but no fault, or less than 125 minutes were seen
  clean    one end has a fault: clean the connectors and plug them in again
  replace  both ends have a fault, or a fault came back after 126 good minutes

Faults: the lower end of the 95 % interval of the errors after FEC or after retransmission
exceeds NVIDIA's limit for errors, two link downs in 24 hours, two bursts of bit errors in
24 hours. Not faults: the limit for warnings is exceeded, one link down, one lane has 100
times the bit errors of the others, a module has more than 70 C or became 10 C warmer,
one plane (XDR) is down, or carries 10 % less than the others over 60 s above 5 % of use.

Examples:
  ibnet-view health lines/*.jsonl
  ibnet-view health archive --from -1d --check
  ibnet-view health archive --from -1d --jobs-file jobs.jsonl    jobs on these links
  ibnet-view health archive --from -1d -o health.svg
  ibnet-view health archive --from -1d --rule pdr
  ibnet-view health archive --from -1d --format json -o health.json";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let inputs = args.recorded.inputs()?;
    common::refuse_input(&inputs, args.output.as_ref())?;
    let output = args.output.as_deref();
    let picture = output
        .filter(|_| (args.format, args.rule) == (Format::Text, By::Ibnet))
        .and_then(draw::Format::of);
    let keeps = match (args.rule, picture) {
        (By::Pdr, _) => Keeps::Polls,
        (By::Ibnet, Some(_)) => Keeps::Courses,
        (By::Ibnet, None) => Keeps::Verdicts,
    };
    let (health, summary) = common::read(&inputs, &Health::keeping(keeps))?;
    let (span, zone) = (common::span(&summary)?, Zone::local());
    let rows = health.rows(&args.jobs.jobs()?, span.1);
    if rows.is_empty() {
        return Err(nothing("phy").into());
    }
    if args.rule == By::Pdr {
        let decisions = health.pdr();
        match args.format {
            Format::Document(document) => document.write(span, &decisions, output)?,
            Format::Text => {
                let report = common::time_range(&summary)? + &text::health::pdr(&decisions, &zone);
                format::write(report.as_bytes(), output)?;
            }
        }
        let is_listed = args.check && !decisions.is_empty();
        return Ok(ExitCode::from(if is_listed { FOUND } else { 0 }));
    }
    match args.format {
        Format::Document(document) => document.write(span, &rows, output)?,
        Format::Text => {
            let report = common::time_range(&summary)? + &text::health::report(&rows, &zone);
            if let Some(format) = picture {
                let when = common::format_span(span, &zone);
                let picture = HealthPicture::new(&health, &rows, span, zone, &when);
                format::write(&render(&picture, format)?, output)?;
            }
            format::write(report.as_bytes(), output.filter(|_| picture.is_none()))?;
        }
    }
    let is_listed = rows.iter().any(|row| row.verdict != Verdict::Good);
    Ok(if args.check && is_listed {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

/// Returns the error for an input without the records of the physical layer.
pub(crate) fn nothing(kind: &str) -> AnalysisError {
    AnalysisError::Nothing {
        what: format!("no `{kind}` record in the time range"),
        help: "set `enabled = true` in [physical] of ibnet.toml, and check --from and --to"
            .to_owned(),
    }
}
