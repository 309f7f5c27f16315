//! `ibnet-gen cabling`: compares the cables of the fabric with the cabling as planned.

use std::path::PathBuf;
use std::process::ExitCode;

use ibnet::cabling::{Modules, Plan, compare, report};
use ibnet::cli::{self, Staged};
use ibnet::topology::net_file;
use ibnet_record::limits;

use super::files::{self, Named, Use};
use super::{Failure, NET, discover};

/// Compare the cables of the fabric with the cabling as planned, and list the steps that correct it
///
/// Kinds of findings: missing, wrong rail (or plane), swapped, wrong device, wrong port, wrong
/// speed (slower than planned), wrong part, wrong length, and unplanned. The steps have the
/// smallest possible number.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Cabling as planned: an NDT file of UFM, a CSV file with column names, a .topo file of ibdm,
    /// or a net file of an accepted day (may be repeated)
    #[arg(long, value_name = "FILE", required = true)]
    planned: Vec<PathBuf>,
    /// Net file; `-` is standard input; umad, or umad:NAME:PORT, discovers the fabric now (may be
    /// repeated, for several subnets)
    #[arg(long, value_name = "FILE|-|umad", default_value = "umad")]
    net: Vec<PathBuf>,
    /// JSON lines with `module` records of ibnet-sweep, for part numbers, lengths and serial
    /// numbers of cables (may be repeated)
    #[arg(long, value_name = "FILE")]
    modules: Vec<PathBuf>,
    /// Exit with code 3 if a cable is not as planned, or a line of the plan was not compared
    #[arg(long)]
    check: bool,
    /// Format of the result
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "text|json|csv"
    )]
    format: Format,
    /// File to write; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Csv,
}

/// Exit code of --check if something is wrong.
const FOUND: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  ibnet-gen cabling --planned accepted.p
  ibnet-gen cabling --planned switches.csv --planned hosts.csv --net fabric.p
  ibnet-gen cabling --planned plan.csv --net fabric.p --modules modules.jsonl
  ibnet-gen cabling --planned accepted.p --check --format json -o cabling.json

Ports are written as 21, P21, `Port 21`, `mlx5_0`, `mlx5_0/2`, or `Blade 16_Port 2/20`
for ASIC 2 of board 16 of a director. Devices are written as GUID, node description, host
name or system name. docs/cabling.md has the columns and the rules.

Exit codes: 0 success; 1 wrong input; 2 wrong arguments; 3 --check found a difference.";

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    files::check(&args.files())?;
    let mut plan = Plan::default();
    for path in &args.planned {
        let bytes = cli::read(path, limits::NET_FILE)?;
        plan.add(&bytes, &cli::name_of(path))?;
    }
    let files: Vec<_> = args
        .net
        .iter()
        .map(|path| discover::net(path))
        .collect::<Result<_, _>>()?;
    let nets = net_file::parse_all(&files)?;
    let mut modules = Modules::default();
    for path in &args.modules {
        modules.add(&cli::read(path, limits::NET_FILE)?);
    }
    if modules.is_empty() && !args.modules.is_empty() {
        let files = names(args.modules.iter().map(|path| cli::name_of(path)));
        plan.remarks.push(format!(
            "{files}: there is no `module` record, so parts and lengths are not compared"
        ));
    }
    let comparison = compare(&plan, &nets, &modules);
    let result = match args.format {
        Format::Text => report::Text {
            comparison: &comparison,
            plan: &names(args.planned.iter().map(|path| cli::name_of(path))),
            fabric: &names(files.iter().map(|(name, _)| name.clone())),
        }
        .to_string(),
        Format::Json => report::to_json(&comparison, &super::command()),
        Format::Csv => report::to_csv(&comparison),
    };
    Staged::new(&args.output, result.as_bytes())?.commit()?;
    Ok(match args.check && !comparison.is_right() {
        true => ExitCode::from(FOUND),
        false => ExitCode::SUCCESS,
    })
}

fn names(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

impl Args {
    fn files(&self) -> Vec<Named<'_>> {
        let planned = self
            .planned
            .iter()
            .map(|path| ("--planned", &**path, Use::Read));
        let net = self.net.iter().map(|path| (NET, &**path, Use::Read));
        let modules = self
            .modules
            .iter()
            .map(|path| ("--modules", &**path, Use::Read));
        let output = ("--output", &*self.output, Use::Write);
        planned.chain(net).chain(modules).chain([output]).collect()
    }
}
