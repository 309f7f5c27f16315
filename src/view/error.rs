//! Why nothing can be shown.

use std::io;

use miette::Diagnostic;

use crate::types::Printable;

/// What was wrong with the input, or with what was asked of it.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ViewError {
    /// No such file, or no permission, or damaged while it was read.
    #[error("{}: cannot be read", Printable(name))]
    #[diagnostic(help("give files that you may read, whole if they are compressed, or `-` for standard input"))]
    Read {
        /// The file.
        name: String,
        /// What the operating system or zstd said.
        #[source]
        source: io::Error,
    },
    /// A pattern that stands for no file.
    #[error("{}: no file has such a name", Printable(pattern))]
    #[diagnostic(help("give the files that `ibnet-sweep -o FILE` wrote, each by its name or by a pattern such as `lines/*.jsonl`"))]
    NoFile {
        /// The pattern.
        pattern: String,
    },
    /// A pattern that cannot be read.
    #[error("{}: is no pattern of file names: {why}", Printable(pattern))]
    #[diagnostic(help("`*` stands for any characters, `?` for one, `[ab]` for one of these; a file of just that name needs no pattern"))]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file without a single record.
    #[error("{}: there is no record in it{}", Printable(name), first(why.as_deref()))]
    #[diagnostic(help("give what `ibnet-sweep` wrote: JSON lines that begin with `{{\"type\":`, plain or compressed by zstd"))]
    NoRecord {
        /// The file.
        name: String,
        /// What is wrong with its first line; `None` if it has none.
        why: Option<String>,
    },
    /// A moment that is none.
    #[error("`{}` is no time that can be read", Printable(text))]
    #[diagnostic(help(
        "write `2026-11-21 12:00` (here), `2026-11-21T12:00:00Z`, `12:00` (today), seconds since 1970, `-10m` (before now) or `now`"
    ))]
    Time {
        /// What stood there.
        text: String,
    },
}

fn first(why: Option<&str>) -> String {
    why.map_or_else(|| ", it is empty".to_owned(), |why| format!("; its first line: {}", Printable(why)))
}
