//! Why nothing can be shown.

use std::io;

use miette::Diagnostic;

use ibnet::types::Printable;

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
    /// Not a list of hosts.
    #[error("`{}` is no host list: {why}", Printable(text))]
    #[diagnostic(help("write names and ranges with commas between: `node[001-012],admin1`"))]
    Hosts {
        /// What stood there.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A counter that no record has.
    #[error("no record has a counter `{}`", Printable(name))]
    #[diagnostic(help("{}", nearest.as_ref().map_or_else(
        || "a counter is there only if its group was asked: see the groups of `ibnet-sweep --groups`".to_owned(),
        |name| format!("did you mean `{}`? A counter is there only if its group was asked", Printable(name))
    )))]
    Counter {
        /// The name.
        name: String,
        /// The one most like it.
        nearest: Option<String>,
    },
    /// Nothing is left to be shown.
    #[error("there is nothing to show: {what}")]
    #[diagnostic(help("{help}"))]
    Nothing {
        /// What is missing.
        what: String,
        /// What to do.
        help: String,
    },
    /// A picture that could not be drawn.
    #[error("the picture cannot be drawn: {why}")]
    #[diagnostic(help("give fewer ports with --nodes or a shorter time with --from and --to"))]
    Draw {
        /// What went wrong.
        why: String,
    },
}

fn first(why: Option<&str>) -> String {
    why.map_or_else(|| ", it is empty".to_owned(), |why| format!("; its first line: {}", Printable(why)))
}
