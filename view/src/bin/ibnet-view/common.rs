//! What all commands share: the lines, and from when to when.

use std::path::PathBuf;
use std::time::SystemTime;

use ibnet::cli;
use ibnet::types::Printable;
use ibnet_view::draw::Format;
use ibnet_view::error::ViewError;
use ibnet_view::input::{BadLine, Inputs, Told};
use ibnet_view::when::Zone;

use crate::Failure;

/// Parts of the time in which congestion trees are looked for, at most.
pub(crate) const PARTS: usize = 64;

#[derive(Debug, clap::Args)]
pub(crate) struct Recorded {
    /// Recorded lines: files, patterns in quotes, `-` for standard input; plain or compressed by zstd
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// Not what was before: `2026-11-21 12:00`, RFC 3339, seconds since 1970, `-10m` (before now), `now`
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Not what came then or after: likewise
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
}

impl Recorded {
    /// What to read; times without a zone are of this machine's.
    pub(crate) fn inputs(&self) -> Result<Inputs, ViewError> {
        let (zone, now) = (Zone::here(), now());
        let instant = |text: &Option<String>| text.as_deref().map(|text| zone.parse(text, now)).transpose();
        Ok(Inputs { from: instant(&self.from)?, to: instant(&self.to)?, ..Inputs::new(&self.files)? })
    }
}

/// Refuses to write into a file that is read: it would be lost, or never end.
pub(crate) fn refuse_input(inputs: &Inputs, output: Option<&PathBuf>) -> Result<(), Failure> {
    let known = |path: &PathBuf| path.canonicalize().ok().filter(|path| path.is_file());
    match output.and_then(known) {
        Some(path) if inputs.files.iter().any(|input| known(input).as_ref() == Some(&path)) => Err(Failure::OverInput { path }),
        _ => Ok(()),
    }
}

/// The name of a picture tells its format.
pub(crate) fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if Format::of(&path).is_some() { Ok(path) } else { Err("the name must end in .png or .svg".to_owned()) }
}

/// A line above a table: from when to when it is.
///
/// # Errors
/// When nothing was recorded in that time: that is not the same as that all is well.
pub(crate) fn when(told: &Told) -> Result<String, ViewError> {
    let Some((from, to)) = told.span else {
        let help = "the files are of another time: leave --from and --to out to see all of them".to_owned();
        return Err(ViewError::Nothing { what: "nothing was recorded in that time".to_owned(), help });
    };
    let zone = Zone::here();
    let show = |ns| zone.show(ns, "%Y-%m-%d %H:%M:%S");
    Ok(format!("{} to {} ({})\n", show(from), show(to), zone.name(from)))
}

/// Nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "times such as -10m are of now")]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Says on standard error what was skipped, if anything was.
pub(crate) fn tell(told: &Told) {
    if let Some(BadLine { file, line, why }) = &told.first_bad {
        let (file, why) = (Printable(file), Printable(why));
        cli::note(&format!("skipped   {} of {} lines are no records; the first is {file}:{line}: {why}\n", told.bad, told.lines));
    }
}

/// Reads a share of 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
