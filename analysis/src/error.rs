//! Errors in reading and evaluating records.

use std::io;

use ibnet_record::types::Printable;
use ibnet_store::error::StoreError;
use miette::Diagnostic;

/// A fault of the input or of an argument.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum AnalysisError {
    /// A file that does not exist, is not readable, or has damaged compressed data.
    #[error("cannot read {}", Printable(name))]
    #[diagnostic(help(
        "give readable files; compressed files must be complete; `-` is standard input"
    ))]
    Read {
        /// Path of the file.
        name: String,
        /// The error of the operating system or of zstd.
        #[source]
        source: io::Error,
    },
    /// A folder that is not an archive.
    #[error(
        "cannot read {}: it is a folder without the tables of an archive",
        Printable(name)
    )]
    #[diagnostic(help(
        "give the folder of `ibnet-view pack -o`, or the files of a folder by a pattern such as `lines/*.jsonl`"
    ))]
    NotAnArchive {
        /// Path of the folder.
        name: String,
    },
    /// A fault of an archive.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Archive(#[from] StoreError),
    /// A file name pattern without a matching file.
    #[error("cannot find a file: no file matches {}", Printable(pattern))]
    #[diagnostic(help(
        "give files written by `ibnet-sweep -o FILE`, by name or by a pattern such as `lines/*.jsonl`"
    ))]
    NoFile {
        /// The pattern.
        pattern: String,
    },
    /// A malformed file name pattern.
    #[error("cannot read the file name pattern {}: {why}", Printable(pattern))]
    #[diagnostic(help(
        "`*` matches any characters, `?` one character, `[ab]` one of those listed; an existing file needs no pattern"
    ))]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The syntax error.
        why: String,
    },
    /// A file without a single record.
    #[error("cannot use {}: it has no record{}", Printable(name), first(why.as_deref()))]
    #[diagnostic(help(
        "give files written by `ibnet-sweep`: JSON lines that begin with `{{\"type\":`, plain or compressed by zstd"
    ))]
    NoRecord {
        /// Path of the file.
        name: String,
        /// What is wrong with the first line. `None` if the file is empty.
        why: Option<String>,
    },
    /// An argument that is not a point in time.
    #[error("cannot read `{}` as a time", Printable(text))]
    #[diagnostic(help(
        "write `2026-11-21 12:00` (local), `2026-11-21T12:00:00Z`, `12:00` (today), seconds since 1970, `-10m` (before now) or `now`"
    ))]
    Time {
        /// The argument.
        text: String,
    },
    /// An argument that is not a host list.
    #[error("cannot read `{}` as a host list: {why}", Printable(text))]
    #[diagnostic(help("write names and ranges, separated by commas: `node[001-012],admin1`"))]
    Hosts {
        /// The argument.
        text: String,
        /// The syntax error.
        why: String,
    },
    /// A line of a truth file that is not the truth about a second.
    #[error("cannot read {}:{line}: {source}", Printable(name))]
    #[diagnostic(help("give a file NAME.truth.jsonl that `ibnet-truth` wrote"))]
    Truth {
        /// Name of the file.
        name: String,
        /// Number of the line.
        line: usize,
        /// The error of its syntax.
        source: serde_json::Error,
    },
    /// Records of a time that is too long for a comparison with the truth.
    #[error("cannot compare with the truth: the records are evaluated in parts of {seconds} s")]
    #[diagnostic(help("the truth is known for each second: give at most 64 s (--from, --to)"))]
    LongTruth {
        /// Length of a part in seconds.
        seconds: u64,
    },
    /// A metric that is in no record, although a counter group has it.
    #[error("cannot show `{}`: no record has this counter", Printable(name))]
    #[diagnostic(help(
        "sweep its counter group: `ibnet-sweep --groups extended,base,xmtdisc,rcverr,{group}`"
    ))]
    NotRecorded {
        /// Name of the metric.
        name: String,
        /// Counter group.
        group: &'static str,
    },
    /// A metric that does not exist, or that cannot be shown with these rows.
    #[error("cannot show `{}`: {why}", Printable(name))]
    #[diagnostic(help("{help}"))]
    Metric {
        /// Name of the metric.
        name: String,
        /// The fault.
        why: String,
        /// The remedy.
        help: String,
    },
    /// A selection for which the input has no data.
    #[error("cannot evaluate the records: {what}")]
    #[diagnostic(help("{help}"))]
    Nothing {
        /// The missing data.
        what: String,
        /// The remedy.
        help: String,
    },
}

fn first(why: Option<&str>) -> String {
    why.map_or_else(
        || " (it is empty)".to_owned(),
        |why| format!(" (first line: {})", Printable(why)),
    )
}
