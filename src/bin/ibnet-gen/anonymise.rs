//! `ibnet-gen anonymise`: a net file that can be sent to somebody.

use std::path::PathBuf;

use ibnet::cli::{self, Staged};
use ibnet::topology::anonymise::anonymise;

use super::files::{self, Use};
use super::{Failure, NET};

/// Rewrite a net file without the site's names and GUIDs, so that it can be sent to somebody
///
/// Each line is written anew in the format that it had; the result is planned like the original. Left out are comments and what cannot be read. LIDs,
/// ports, links, speeds and device ids stay as they are.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What `ibnetdiscover -p` or `ibnetdiscover` printed; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    net: PathBuf,
    /// The rewritten file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    files::check(&[(NET, &args.net, Use::Read), ("--output", &args.output, Use::Write)])?;
    let text = anonymise(&cli::read(&args.net)?, &cli::name_of(&args.net))?;
    Ok(Staged::new(&args.output, text.as_bytes())?.commit()?)
}
