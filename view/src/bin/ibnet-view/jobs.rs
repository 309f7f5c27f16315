//! `ibnet-view jobs`: lists jobs, and keeps a table of them.

use std::path::PathBuf;

use ibnet::cli;
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::table::{Changes, JobTable};
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;
use ibnet_view::text;

use crate::Failure;
use crate::common;
use crate::format::Format;
use crate::job_source::JobSource;

/// By default, jobs are requested from this long before the present on.
const DAY_NS: u64 = 24 * 3_600_000_000_000;

/// With a table, jobs are requested again from this long before its newest listing on.
const BEHIND_NS: u64 = 900_000_000_000;

/// List the jobs of Slurm or PBS, and keep them in a table
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: JobSource,
    /// Add the jobs to this table. The table keeps jobs that Slurm or PBS forgets
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Start of the time range; same formats as in other commands [default: one day ago, or the
    /// newest listing of the table]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End of the time range [default: now]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Leave out the users of the jobs
    #[arg(long)]
    hide_users: bool,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
The table is a file of JSON lines that only grows. Other commands and ibnet-hub read it:
--slurm-file jobs.jsonl. A timer that runs `ibnet-view jobs --keep` every minute keeps
every job of more than a minute, also without accounting in Slurm.

Examples:
  ibnet-view jobs                                    jobs of the last day
  ibnet-view jobs --keep /var/lib/ibnet/jobs.jsonl --hide-users
  ibnet-view jobs --scheduler pbs --keep jobs.jsonl
  ibnet-view jobs --slurm-file jobs.jsonl --from -7d --format csv
  sacct --json -a -S now-30days | ibnet-view jobs --slurm-file - --keep jobs.jsonl";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (zone, now) = (Zone::local(), common::now());
    let instant = |text: &Option<String>| {
        text.as_deref()
            .map(|text| zone.parse(text, now))
            .transpose()
    };
    let (from, to) = (instant(&args.from)?, instant(&args.to)?);
    let listed = match &args.keep {
        Some(path) if path.exists() => JobTable::read(path)?.listed(),
        _ => None,
    };
    let is_all_of_file = args.source.has_file() && from.is_none();
    // Accounting can lag some minutes behind.
    let listed = listed.map(|listed| listed.saturating_sub(BEHIND_NS));
    let of_source = if is_all_of_file {
        0
    } else {
        listed.unwrap_or_else(|| now.saturating_sub(DAY_NS))
    };
    let from = from.unwrap_or(of_source);
    let mut listing = args.source.jobs(from, to)?;
    let is_in_range = |run: &JobRun| run.is_during(from, to.unwrap_or(u64::MAX));
    listing.runs.retain(is_in_range);
    // If the range has an end, a job can be missing in the listing although it has not ended.
    listing.is_complete &= to.is_none();
    if args.hide_users {
        listing.runs.iter_mut().for_each(|run| run.user = None);
    }
    let kept = args
        .keep
        .as_ref()
        .map(|path| JobTable::keep(path, &listing).map(|kept| (path, kept)))
        .transpose()?;
    match (args.format, kept) {
        (Format::Document(document), _) => {
            let rows: Vec<_> = listing.runs.iter().map(JobRun::row).collect();
            document.write((from, to.unwrap_or(now)), &rows, args.output.as_deref())
        }
        (Format::Text, Some((path, (table, Changes { new, updated })))) => {
            let (name, all) = (
                Printable(&path.display().to_string()).to_string(),
                table.runs().count(),
            );
            Ok(cli::print_line(&format!(
                "{name}: {new} new runs, {updated} updated, {all} in all"
            ))?)
        }
        (Format::Text, None) => {
            let report = text::jobs::report(&listing.runs, &zone);
            crate::format::write(report.as_bytes(), args.output.as_deref())
        }
    }
}
