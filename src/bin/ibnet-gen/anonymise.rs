//! `ibnet-gen anonymise`: rewrites a net file without the names of the site.

use std::path::PathBuf;

use ibnet::cli::Staged;
use ibnet::topology::anonymise::anonymise;

use super::files::{self, Use};
use super::{Failure, NET, discover};

/// Rewrite a net file without the site's names and GUIDs, so that it can be published
///
/// Each line keeps its format, and the result gives the same plan as the original. Comments and
/// unreadable lines are removed. LIDs, ports, links, speeds and device ids do not change.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Net file; `-` is standard input; umad, or umad:NAME:PORT, discovers the fabric now
    #[arg(long, value_name = "FILE|-|umad")]
    net: PathBuf,
    /// Rewritten file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    files::check(&[
        (NET, &args.net, Use::Read),
        ("--output", &args.output, Use::Write),
    ])?;
    let (name, bytes) = discover::net(&args.net)?;
    let text = anonymise(&bytes, &name)?;
    Ok(Staged::new(&args.output, text.as_bytes())?.commit()?)
}
