//! `ibnet-gen suggest`: which hosts would do as samplers.
//!
//! Standard output has the list and nothing else, so that it can stand in another command; standard error says why these.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ibnet::cli;
use ibnet::partition::report::facts::Facts;
use ibnet::partition::hosts;
use ibnet::partition::report::text::{Detail, Report};
use ibnet::partition::report::suggest::{self, Suggested, Wish};
use ibnet::topology::{Fabric, net_file};
use ibnet::types::Printable;

use crate::{Failure, quoted};

/// Says how many samplers are needed at least and which hosts they had best be: one a leaf switch, spread over the tree
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What `ibnetdiscover -p` or `ibnetdiscover` printed; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    net: PathBuf,
    /// The most ports of one sampler
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    cap: u32,
    /// Pick so many hosts [default: as few as the cap allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Choose among these hosts only
    #[arg(long, value_name = "HOSTLIST")]
    among: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen suggest --net fabric.p
  ibnet-gen suggest --net fabric.p --cap 200 --count 12
  ibnet-gen suggest --net fabric.p --among 'admin[1-4],io[01-16]'
  ibnet-gen --net fabric.p --samplers \"$(ibnet-gen suggest --net fabric.p)\" -o plan.toml

The list of hosts goes to standard output, in the form that --samplers takes; who
gets what, and why these, to standard error. With these hosts and this cap there
is a plan: it was made.";

/// Suggests.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = cli::name_of(&args.net);
    let bytes = cli::read(&args.net)?;
    let net = net_file::parse(&bytes, &name)?;
    let among = args.among.as_deref().map(|list| among(list, &net.fabric)).transpose()?;
    let wish = Wish { cap: args.cap, count: args.count.map(|count| count as usize), among };
    let suggested = suggest::suggest(&net.fabric, &wish)?;
    let report = Report { name: &name, facts: &Facts::of(&net, &suggested.plan), detail: Detail::Brief };
    cli::note(&format!("{report}{}", explained(&suggested, args)));
    cli::print_line(&suggested.list)?;
    Ok(())
}

/// The names of these hosts, all of which are in the fabric.
fn among(list: &str, fabric: &Fabric) -> Result<BTreeSet<String>, Failure> {
    let hosts = hosts::locate(&hosts::parse_list(list)?, &[], fabric)?;
    Ok(hosts.into_iter().map(|host| host.name).collect())
}

/// Why these hosts, and what to do with them.
fn explained(suggested: &Suggested, args: &Args) -> String {
    const MOST: usize = 40;
    let Suggested { list, at_least, plan, switches, unnamable } = suggested;
    let (samplers, cap) = (plan.shares.len(), plan.cap);
    let mut text = format!("\nsamplers  {samplers}, at most {cap} ports each; fewer than {at_least} could not hold all ports\n");
    // Writing to a String does not fail.
    for (share, switch) in plan.shares.iter().zip(switches).take(MOST) {
        let _ = writeln!(text, "            {} (on {})", share.host, Printable(switch));
    }
    if samplers > MOST {
        let _ = writeln!(text, "            and {} more", samplers - MOST);
    }
    if *unnamable > 0 {
        let _ = writeln!(text, "note      {unnamable} host names were passed over: several hosts share one, or no host list can hold it");
    }
    let net = if cli::is_dash(&args.net) { Path::new("FILE") } else { &args.net };
    let cap = if cap == 150 { String::new() } else { format!(" --cap {cap}") };
    let net = quoted(&net.to_string_lossy());
    let _ = writeln!(text, "next      ibnet-gen --net {}{cap} --samplers {} -o plan.toml", Printable(&net), quoted(list));
    text
}
