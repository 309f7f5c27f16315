//! `ibnet-gen suggest`: suggests sampler hosts.
//!
//! Standard output has the host list only, so that another command can use it. Standard error has
//! the explanation.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::limits;
use ibnet::partition::hosts;
use ibnet::partition::report::facts::Facts;
use ibnet::partition::report::suggest::{self, SuggestOptions, Suggested};
use ibnet::partition::report::text::{Detail, Report};
use ibnet::topology::{Fabric, net_file};
use ibnet::types::Printable;

use crate::{Failure, quoted};

/// Suggest as few sampler hosts as possible: one per leaf switch, spread over the tree
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Output of `ibnetdiscover`, with or without `-p`; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    net: PathBuf,
    /// Largest number of ports of a sampler
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    cap: u32,
    /// Number of hosts [default: as few as the cap allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Choose from these hosts only
    #[arg(long, value_name = "HOSTLIST")]
    among: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen suggest --net fabric.p
  ibnet-gen suggest --net fabric.p --cap 200 --count 12
  ibnet-gen suggest --net fabric.p --among 'admin[1-4],io[01-16]'
  ibnet-gen --net fabric.p --samplers \"$(ibnet-gen suggest --net fabric.p)\" -o plan.toml

The host list goes to standard output, in the notation of --samplers; the plan and
the explanation go to standard error. Verified: these hosts can cover the fabric.";

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = cli::name_of(&args.net);
    let bytes = cli::read(&args.net, limits::NET_FILE)?;
    let net = net_file::parse(&bytes, &name)?;
    let among = args.among.as_deref().map(|list| among(list, &net.fabric)).transpose()?;
    let options = SuggestOptions { cap: args.cap, count: args.count.map(|count| count as usize), among };
    let suggested = suggest::suggest(&net.fabric, &options)?;
    let report = Report { name: &name, facts: &Facts::of(&net, &suggested.plan), detail: Detail::Brief };
    cli::note(&format!("{report}{}", explained(&suggested, args)));
    cli::print_line(&suggested.list)?;
    Ok(())
}

/// Returns the names of the hosts of a list. Returns an error if one of them is not in the fabric.
fn among(list: &str, fabric: &Fabric) -> Result<BTreeSet<String>, Failure> {
    let hosts = hosts::locate(&hosts::parse_list(list)?, &[], fabric)?;
    Ok(hosts.into_iter().map(|host| host.name).collect())
}

/// Returns the explanation of a suggestion and the next command.
fn explained(suggested: &Suggested, args: &Args) -> String {
    const MAX_HOSTS: usize = 40;
    let Suggested { list, at_least, plan, switches, unnamable } = suggested;
    let (samplers, cap) = (plan.shares.len(), plan.cap);
    let mut text = format!("\nsamplers  {samplers} with a cap of {cap} ports (lower bound {at_least})\n");
    // Writing to a String does not fail.
    for (share, switch) in plan.shares.iter().zip(switches).take(MAX_HOSTS) {
        let _ = writeln!(text, "            {} (on {})", share.host, Printable(switch));
    }
    if samplers > MAX_HOSTS {
        let _ = writeln!(text, "            and {} more", samplers - MAX_HOSTS);
    }
    if *unnamable > 0 {
        let _ = writeln!(text, "note      skipped host names: {unnamable} (shared by several hosts, or not possible in a host list)");
    }
    let net = if cli::is_dash(&args.net) { Path::new("FILE") } else { &args.net };
    let cap = if cap == 150 { String::new() } else { format!(" --cap {cap}") };
    let net = quoted(&net.to_string_lossy());
    let _ = writeln!(text, "next      ibnet-gen --net {}{cap} --samplers {} -o plan.toml", Printable(&net), quoted(list));
    text
}
