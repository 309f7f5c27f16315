//! Arguments and checks that several commands share.

use std::fs::Metadata;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use ibnet::cli::{self, Progress};
use ibnet_analysis::error::AnalysisError;
use ibnet_analysis::input::{
    self, ArchiveNotes, Fold, IncompleteFile, Inputs, InvalidLine, ReadSummary,
};
use ibnet_analysis::record::{Record, Type};
use ibnet_analysis::when::Zone;
use ibnet_record::types::Printable;

use crate::Failure;

/// Max number of time intervals in which congestion trees are searched.
pub(crate) const INTERVALS: usize = 64;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Input size in bytes from which a progress bar is shown.
const SLOW_TO_READ: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Recorded {
    /// Files with records of ibnet-sweep, plain or compressed with zstd, and archives of
    /// ibnet-view pack: names, patterns in quotes, or `-` for standard input
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// Start of the time range (a record at this time is included): `2026-11-21 12:00`, RFC 3339,
    /// seconds since 1970, `-10m` (before now), `now`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End of the time range (a record at this time is not included); same formats as --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
}

impl Recorded {
    /// Returns the files and the time range. Times without a zone are local.
    pub(crate) fn inputs(&self) -> Result<Inputs, AnalysisError> {
        let (zone, now) = (Zone::local(), now());
        let instant = |text: &Option<String>| {
            text.as_deref()
                .map(|text| zone.parse(text, now))
                .transpose()
        };
        Ok(Inputs {
            from: instant(&self.from)?,
            to: instant(&self.to)?,
            ..Inputs::new(&self.files)?
        })
    }
}

/// Reads the inputs with a progress bar, and reports on standard error what was left out.
pub(crate) fn read<F: Fold>(inputs: &Inputs, empty: &F) -> Result<(F, ReadSummary), AnalysisError> {
    let read = read_quietly(inputs, empty);
    if let Ok((_, ReadSummary { span: None, .. })) = &read
        && (inputs.from.is_some() || inputs.to.is_some())
    {
        return Err(outside(inputs));
    }
    if let Ok((_, summary)) = &read {
        note_summary(summary);
    }
    read
}

/// Reads the inputs with a progress bar only. The time range can be without records.
pub(crate) fn read_quietly<F: Fold>(
    inputs: &Inputs,
    empty: &F,
) -> Result<(F, ReadSummary), AnalysisError> {
    let bar = bar(inputs.size());
    let read = input::read_with_progress(inputs, empty, &|done, _| bar.set(done >> 20));
    bar.finish();
    read
}

/// Returns whether all inputs can be read a second time. A pipe cannot.
pub(crate) fn can_read_again(inputs: &Inputs) -> bool {
    let mut files = inputs.files.iter();
    files.all(|file| file.is_file() || file.is_dir())
}

/// Returns a progress bar for inputs of this size in bytes. Small inputs have no bar.
pub(crate) fn bar(total: u64) -> Progress {
    if total >= SLOW_TO_READ {
        Progress::new(total >> 20, "MiB")
    } else {
        Progress::hidden()
    }
}

/// Reports on standard error what was left out of the input.
fn note_summary(summary: &ReadSummary) {
    let ReadSummary {
        lines,
        invalid,
        first_invalid,
        copies,
        covered,
        incomplete,
        minute_hours,
        archive,
        ..
    } = summary;
    if let Some(InvalidLine { file, line, why }) = first_invalid {
        let (file, why) = (Printable(file), Printable(why));
        cli::note(&format!(
            "skipped   {invalid} of {lines} lines are not records; the first is {file}:{line}: {why}\n"
        ));
    }
    if *copies > 0 {
        cli::note(&format!(
            "copies    {copies} of {lines} records are copies of other records; each counts once\n"
        ));
    }
    if *covered > 0 {
        cli::note(&format!(
            "covered   {covered} of {lines} records describe a time that another sampler describes; each time counts once\n"
        ));
    }
    if let (minutes @ 1.., hours) = minute_hours {
        cli::note(&format!(
            "minutes   one-minute means of the archive (ports_1m) were read for {minutes} of {hours} hours\n"
        ));
    }
    note_archive(archive);
    incomplete.iter().for_each(note_incomplete);
}

/// Reports anything unusual about archive files on standard error.
pub(crate) fn note_archive(
    ArchiveNotes {
        without_checksums,
        unknown_columns,
    }: &ArchiveNotes,
) {
    if *without_checksums > 0 {
        cli::note(&format!(
            "unchecked {without_checksums} files of the archive have no checksums, so damage to them is not always detected; \
             `ibnet-view replay ARCHIVE --speed 0 --keep-times | ibnet-view pack - -o NEW` writes an archive with checksums\n"
        ));
    }
    if !unknown_columns.is_empty() {
        let names = unknown_columns
            .iter()
            .map(|name| Printable(name).to_string())
            .collect::<Vec<_>>()
            .join(", ");
        cli::note(&format!(
            "ignored   {} columns of the archive that this version does not have: {names}\n",
            unknown_columns.len()
        ));
    }
}

/// Reports on standard error that a file was not read completely.
pub(crate) fn note_incomplete(file: &IncompleteFile) {
    cli::note(&format!("warning   {file}\n"));
}

/// Returns the error for a time range without records. It shows which time the input covers, and
/// the gap in which the range lies.
fn outside(inputs: &Inputs) -> AnalysisError {
    let is_readable = can_read_again(inputs);
    let span = |from, to| {
        let other = Inputs {
            from,
            to,
            ..inputs.clone()
        };
        is_readable
            .then(|| input::read(&other, &Nothing).ok()?.1.span)
            .flatten()
    };
    let before = inputs.from.and_then(|from| span(None, Some(from)));
    let after = inputs.to.and_then(|to| span(Some(to), None));
    let (zone, form) = (Zone::local(), "%Y-%m-%d %H:%M:%S");
    let help = match (before, after) {
        (Some((from, end)), Some((start, to))) => {
            let gap = [end, start].map(|ns| zone.format(ns, form));
            let all = format_span((from, to), &zone);
            format!(
                "the records are from {all}, but there are none from {} to {}; change or omit --from and --to",
                gap[0], gap[1]
            )
        }
        (Some(span), None) | (None, Some(span)) => {
            format!(
                "the records are from {}; change or omit --from and --to",
                format_span(span, &zone)
            )
        }
        (None, None) => {
            "the files cover another time; omit --from and --to to see all of it".to_owned()
        }
    };
    AnalysisError::Nothing {
        what: format!("no record in the time range{}", bounds(inputs)),
        help,
    }
}

/// Formats the bounds of a time range: ` from 2026-11-28 12:00:00 to ...`. Empty without bounds.
pub(crate) fn bounds(inputs: &Inputs) -> String {
    let zone = Zone::local();
    let bound = |name: &str, ns: Option<u64>| {
        ns.map(|ns| format!(" {name} {}", zone.format(ns, "%Y-%m-%d %H:%M:%S")))
    };
    let bounds = [bound("from", inputs.from), bound("to", inputs.to)];
    bounds.into_iter().flatten().collect()
}

/// Returns the time range of the records before they are read, in nanoseconds since 1970.
pub(crate) fn span_of(inputs: &Inputs) -> Result<(u64, u64), AnalysisError> {
    span(&survey(inputs)?)
}

/// Reads each part of the time, of at most an hour, and passes its result to `each`. Returns the
/// time range of all records. Files are read once for each hour, an archive only once.
pub(crate) fn read_hours<F: Fold>(
    inputs: &Inputs,
    empty: &F,
    mut each: impl FnMut(F),
) -> Result<ReadSummary, AnalysisError> {
    let summary = survey(inputs)?;
    note_summary(&summary);
    let (start, end) = span(&summary)?;
    let bar = Progress::new((end - start).div_ceil(HOUR_NS), "hours");
    for (from, part) in parts(inputs, (start, end), |from| from.checked_add(HOUR_NS)) {
        bar.set((from - start) / HOUR_NS);
        each(input::read(&part, empty)?.0);
    }
    bar.finish();
    Ok(summary)
}

/// Divides a time range into parts. Returns the start of each part, and its inputs. `next` returns
/// the end of the part with a time. The first record describes a time before it, and the last
/// record is included, so the first and the last part have no bounds of their own there.
pub(crate) fn parts(
    inputs: &Inputs,
    (start, end): (u64, u64),
    next: impl Fn(u64) -> Option<u64>,
) -> impl Iterator<Item = (u64, Inputs)> {
    let starts = std::iter::successors(Some(start), move |from| {
        next(*from).filter(|next| *next <= end)
    });
    let mut starts = starts.peekable();
    std::iter::from_fn(move || {
        let from = starts.next()?;
        let part = Inputs {
            from: if from == start {
                inputs.from
            } else {
                Some(from)
            },
            to: starts.peek().copied().or(inputs.to),
            ..inputs.clone()
        };
        Some((from, part))
    })
}

/// Reads the inputs for what can be said about all of them. They are read again later, which a pipe
/// does not permit.
fn survey(inputs: &Inputs) -> Result<ReadSummary, AnalysisError> {
    if !can_read_again(inputs) {
        let help = "give --from TIME, or read files instead of a pipe".to_owned();
        return Err(AnalysisError::Nothing {
            what: "the time of the records is not known before they are read".to_owned(),
            help,
        });
    }
    Ok(input::read(inputs, &Nothing)?.1)
}

/// A fold that uses no records. Reading then gives only the times of the records.
#[derive(Clone)]
struct Nothing;

impl Fold for Nothing {
    fn uses(&self, _: Type) -> bool {
        false
    }

    fn add(&mut self, _: &Record<'_>) {}

    fn merge(&mut self, _: Self) {}
}

/// Rejects an output file that is also an input, even under another name. It would overwrite the
/// input, or make it grow without end.
pub(crate) fn refuse_input(inputs: &Inputs, output: Option<&PathBuf>) -> Result<(), Failure> {
    // Two names of one file, such as hard links, have the same device and inode.
    let known = |path: &PathBuf| {
        path.metadata()
            .ok()
            .filter(Metadata::is_file)
            .map(|file| (file.dev(), file.ino()))
    };
    match output.and_then(|output| Some((output, known(output)?))) {
        Some((output, file)) if inputs.files.iter().any(|input| known(input) == Some(file)) => {
            Err(Failure::OverInput {
                path: output.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Returns the time range of the records, in nanoseconds since 1970.
///
/// # Errors
/// Returns an error if the time range has no records. Without records, nothing shows whether there
/// were faults.
pub(crate) fn span(summary: &ReadSummary) -> Result<(u64, u64), AnalysisError> {
    let help =
        || "give files written by `ibnet-sweep` that have more than `start` records".to_owned();
    summary.span.ok_or_else(|| AnalysisError::Nothing {
        what: "no record with a time".to_owned(),
        help: help(),
    })
}

/// Formats the time range of the records. The text is the first line of every table.
///
/// # Errors
/// Returns an error if the time range has no records.
pub(crate) fn time_range(summary: &ReadSummary) -> Result<String, AnalysisError> {
    Ok(format_span(span(summary)?, &Zone::local()) + "\n")
}

/// Formats two points in time and the time zone.
pub(crate) fn format_span((from, to): (u64, u64), zone: &Zone) -> String {
    let format = |ns| zone.format(ns, "%Y-%m-%d %H:%M:%S");
    format!("{} to {} ({})", format(from), format(to), zone.name(from))
}

/// Returns the current time in nanoseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "times such as -10m are relative to now"
)]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Parses a number from 1.
pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "expected a number from 1".to_owned())
}

/// Parses a share, 0 to 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
