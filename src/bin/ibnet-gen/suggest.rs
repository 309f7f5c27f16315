//! `ibnet-gen suggest`: suggests sampler hosts.
//!
//! Only the host list is written to standard output, so that another command can use it. The
//! explanation is written to standard error.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use ibnet::assignments::sha256_hex;
use ibnet::cli::{self, Staged};
use ibnet::cost::PlanCost;
use ibnet::partition::hosts;
use ibnet::partition::report::facts::Facts;
use ibnet::partition::report::json;
use ibnet::partition::report::suggest::{self, SuggestOptions, Suggested};
use ibnet::partition::report::text::{Detail, Report};
use ibnet::topology::{Fabric, net_file};
use ibnet_record::types::Printable;

use crate::cost::{CostArgs, Described};
use crate::files::{self, Named, Use};
use crate::{DEFAULT_CAP, Failure, discover, plan_options, quoted};

/// Suggest as few sampler hosts as possible: one per leaf switch, spread over the tree
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Net file; `-` is standard input; umad, or umad:NAME:PORT, discovers the fabric now
    #[arg(long, value_name = "FILE|-|umad")]
    net: PathBuf,
    /// Largest number of ports of a sampler [default: 150, or fewer at a high --rate]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cap: Option<u32>,
    /// Number of hosts [default: as few as the cap allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Choose from these hosts only
    #[arg(long, value_name = "HOSTLIST")]
    among: Option<String>,
    #[command(flatten)]
    cost: CostArgs,
    /// Records of ibnet-sweep with measured times of the devices, for the time of a sweep (may be
    /// repeated)
    #[arg(long, value_name = "FILE|-")]
    weights: Vec<PathBuf>,
    /// Write the complete report to FILE, as JSON if its name ends in .json
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen suggest --net fabric.p
  ibnet-gen suggest --net fabric.p --cap 200 --count 12
  ibnet-gen suggest --net fabric.p --rate 10
  ibnet-gen suggest --net fabric.p --among 'admin[1-2]' --count 2 --cap 6000
  ibnet-gen suggest --net fabric.p --among 'admin[1-4],io[01-16]'
  ibnet-gen --net fabric.p --samplers \"$(ibnet-gen suggest --net fabric.p)\" -o plan.toml

The host list goes to standard output, in the notation of --samplers; the plan and
the explanation go to standard error. Verified: these hosts can cover the fabric.
The expected time of a sweep is a cautious estimate; docs/planning.md explains it.";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    files::check(&args.files())?;
    let (name, bytes) = discover::net(&args.net)?;
    let net = net_file::parse(&bytes, &name)?;
    let sweep = args.cost.sweep()?;
    let among = args
        .among
        .as_deref()
        .map(|list| among(list, &net.fabric))
        .transpose()?;
    let weights = plan_options::weights(&args.weights, &[&net.fabric])?;
    let cap = args.cap.unwrap_or_else(|| sweep.default_cap(&net.fabric));
    let options = SuggestOptions {
        cap,
        count: args.count.map(|count| count as usize),
        among,
    };
    let suggested = suggest::suggest(&net.fabric, &options)?;
    let cost = sweep.cost_of(&net.fabric, &suggested.plan, weights.as_ref());
    let facts = Facts {
        cost: Some(cost.clone()),
        ..Facts::of(&net, &suggested.plan)
    };
    let text = |detail| {
        format!(
            "{}{}",
            Report {
                name: &name,
                facts: &facts,
                detail
            },
            explained(&suggested, &cost, args)
        )
    };
    if let Some(path) = &args.report {
        let report = match crate::ends_in(path, "json") {
            true => json::to_json(
                [&facts],
                &[(name.clone(), sha256_hex(&bytes))],
                &crate::command(),
            ),
            false => text(Detail::Full),
        };
        Staged::new(path, report.as_bytes())?.commit()?;
    }
    cli::note(&text(Detail::Brief));
    cli::print_line(&suggested.list)?;
    Ok(())
}

/// Returns the host names of a list. Returns an error if one of them is not in the fabric.
fn among(list: &str, fabric: &Fabric) -> Result<BTreeSet<String>, Failure> {
    let hosts = hosts::locate(&hosts::parse_list(list)?, &[], fabric)?;
    Ok(hosts.into_iter().map(|host| host.name).collect())
}

/// Explains a suggestion, and shows the next command.
fn explained(suggested: &Suggested, cost: &PlanCost, args: &Args) -> String {
    let Suggested {
        list,
        at_least,
        plan,
        switches,
        unnamable,
    } = suggested;
    let (samplers, cap) = (plan.shares.len(), plan.cap);
    let mut text =
        format!("\nsamplers  {samplers} with a cap of {cap} ports (lower bound {at_least})\n");
    let _ = write!(
        text,
        "{}",
        Described {
            cost,
            plan,
            switches
        }
    );
    if args.cap.is_none() && cap < DEFAULT_CAP {
        let _ = writeln!(
            text,
            "note      the cap is below {DEFAULT_CAP}: at this rate, one sampler has the time for {} ports (a larger switch still has one sampler)",
            cost.largest_cap_ports
        );
    }
    let _ = writeln!(text, "failure   {}", of_a_failure(cost));
    let is_free = args.cap.is_none() && args.count.is_none() && args.among.is_none();
    if let Some(pairs) = cost
        .fewest_hosts_in_pairs()
        .filter(|pairs| is_free && (*pairs as usize) < samplers)
    {
        let _ = writeln!(
            text,
            "choice    prefer {pairs} hosts that run no jobs, on different leaf switches: with --cap {} --redundancy 2, the failure of one loses no port; else the {samplers} hosts above",
            cost.largest_cap_ports
        );
    }
    if *unnamable > 0 {
        let _ = writeln!(
            text,
            "note      skipped host names: {unnamable} (shared by several hosts, or not possible in a host list)"
        );
    }
    let net = if cli::is_dash(&args.net) {
        Path::new("FILE")
    } else {
        &args.net
    };
    let cap = if cap == DEFAULT_CAP {
        String::new()
    } else {
        format!(" --cap {cap}")
    };
    let net = quoted(&net.to_string_lossy());
    let _ = writeln!(
        text,
        "next      ibnet-gen --net {}{cap} --samplers {} -o plan.toml",
        Printable(&net),
        quoted(list)
    );
    text
}

/// Describes the consequences if one host fails.
fn of_a_failure(cost: &PlanCost) -> String {
    let (all, most) = (cost.total.ports, cost.most_ports());
    let share = 100.0 * f64::from(most) / f64::from(all.max(1));
    let digits = usize::from(share < 9.95);
    format!(
        "if one host fails, up to {most} of {all} ports ({share:.digits$} %) have no records until it runs again or the plan changes; with --redundancy 2, none"
    )
}

impl Args {
    fn files(&self) -> Vec<Named<'_>> {
        let weights = self
            .weights
            .iter()
            .map(|path| ("--weights", &**path, Use::Read));
        let report = self
            .report
            .iter()
            .map(|path| ("--report", &**path, Use::Write));
        [("--net", &*self.net, Use::Read)]
            .into_iter()
            .chain(weights)
            .chain(report)
            .collect()
    }
}
