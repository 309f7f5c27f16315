//! `ibnet-gen`: gives every port of a fabric to exactly one sampler.
//!
//! Arguments in, library calls, files and exit code out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ibnet::assignments::{Assignments, Header, sha256_hex};
use ibnet::cli::{self, InputError, OutputError, Staged};
use ibnet::partition::adopt::AdoptError;
use ibnet::partition::facts::Facts;
use ibnet::partition::ldms::LidFileError;
use ibnet::partition::picture::Picture;
use ibnet::partition::report::Detail;
use ibnet::partition::suggest::SuggestError;
use ibnet::partition::{self, HostsError, Plan, PlanError, Report, Request, hosts};
use ibnet::topology::{Fabric, NetFileError, ports_report};
use ibnet::types::{Guid, Printable};
use miette::Diagnostic;

use files::{Named, Use};

mod files;
mod ldms;
mod suggest;

/// Gives every port of an InfiniBand fabric to exactly one sampler, near it and not too many to any.
#[derive(Debug, Parser)]
#[command(name = "ibnet-gen", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What `ibnetdiscover -p` printed; `-` is standard input
    #[arg(long, value_name = "FILE|-", required = true)]
    net: Option<PathBuf>,
    #[command(flatten)]
    samplers: Samplers,
    /// Where a sampler sits whose node description does not begin with its name: the GUID of its port (may be repeated)
    #[arg(long, value_name = "HOST=0x...", value_parser = host_and_guid)]
    sampler_guid: Vec<(String, Guid)>,
    /// The most ports of one sampler
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    cap: u32,
    /// Write the whole report here, as JSON if the name ends in .json; the one on standard error is cut to a few lines of each kind
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Draw who samples what: FILE.svg for a browser, FILE.dot for Graphviz
    #[arg(long, value_name = "FILE.svg|FILE.dot", value_parser = drawing)]
    graph: Option<PathBuf>,
    /// What to write: our assignments, or the lid files of the LDMS sampler `ibnet`, one a sampler, OUTPUT.HOST.conf
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Toml)]
    format: Format,
    /// The assignments file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

/// What else there is to do than to plan.
#[derive(Debug, Subcommand)]
enum Command {
    Suggest(suggest::Args),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Samplers {
    /// Hosts that sample: `node[001-012],admin1`, each with an adapter and its port if need be, `admin1:mlx5_1:1`
    #[arg(long, value_name = "HOSTLIST")]
    samplers: Option<String>,
    /// A file with such a host or list on each line, `#` begins a comment; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    samplers_file: Option<PathBuf>,
    /// Lid files of the LDMS sampler `ibnet`: keep who samples what there. Whose a file is stands in it, in its name PREFIX.HOST.conf, or here
    #[arg(long, value_name = "[HOST=]FILE", num_args = 1.., value_parser = ldms::source)]
    from_ldms: Vec<ldms::Source>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Toml,
    Ldms,
}

const EXAMPLES: &str = "\
Examples:
  ibnetdiscover -p > fabric.p
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o assignments.toml
  ibnet-gen --net fabric.p --samplers-file samplers.txt --cap 200 -o a.toml
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o a.toml --report a.json
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o plan.toml --graph plan.svg
  ibnet-gen suggest --net fabric.p
  ibnet-gen --net fabric.p --from-ldms /etc/ldms/lids.*.conf --cap 400 -o a.toml
  ibnet-gen --net fabric.p --samplers 'node[001-008]' --format ldms -o lids
  ibnet-gen --net fabric.p --samplers mgmt --sampler-guid mgmt=0x0002c9030045fd01

A sampler is found by the first word of its adapter's node description. Routers,
the aggregation nodes of SHARP and devices without a LID are left out; the report
on standard error counts them.

Exit codes: 0 done; 1 the input is wrong, nothing was written; 2 the arguments
are wrong.";

/// Whatever ends the program with exit code 1.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum Failure {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Suggest(#[from] SuggestError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    LidFile(#[from] LidFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Adopt(#[from] AdoptError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error("{}: is given for {first} and for {second}", path.display())]
    #[diagnostic(help("give each its own file"))]
    SameFile { path: PathBuf, first: &'static str, second: &'static str },
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match &args.command {
        Some(Command::Suggest(args)) => suggest::run(args),
        None => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => cli::fail(&failure),
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    files::check(&args.files())?;
    let name = cli::name_of(args.net());
    let bytes = cli::read(args.net())?;
    let net = ports_report::parse(&bytes, &name)?;
    let (plan, mended) = args.plan(&net.fabric)?;
    let header = Header { sources: vec![(name.clone(), sha256_hex(&bytes))], command: command() };

    let facts = Facts::of(&net, &plan);
    let report = Report { name: &name, facts: &facts, detail: Detail::Full };
    let plans = match args.format {
        Format::Toml => vec![(args.output.clone(), Assignments::of(&plan, &net.fabric).to_toml(&header))],
        Format::Ldms => ldms::files(&plan, &net.fabric, &args.output),
    };
    let written = plans.iter().map(|(path, _)| ("--output", &**path, Use::Write));
    files::check(&args.files().into_iter().chain(written).collect::<Vec<_>>())?;
    let told = args.report.as_deref().map(|path| match ends_in(path, "json") {
        true => (path.to_owned(), facts.to_json(&header.sources, &header.command)),
        false => (path.to_owned(), format!("{report}{mended}")),
    });
    let drawn = args.graph.as_deref().map(|path| (path.to_owned(), draw(path, &Picture::of(&net.fabric, &plan, &name))));
    // All that can fail comes first, and the plan stands in its place when the rest does.
    let all = told.iter().chain(&drawn).chain(&plans);
    let staged: Vec<_> = all.map(|(path, text)| Staged::new(path, text.as_bytes())).collect::<Result<_, _>>()?;
    cli::note(&format!("{}{mended}", Report { detail: Detail::Brief, ..report }));
    staged.into_iter().try_for_each(Staged::commit)?;
    if let Some((first, _)) = plans.first().filter(|(path, _)| !cli::is_dash(path)) {
        let more = if plans.len() > 1 { format!(" and {} more", plans.len() - 1) } else { String::new() };
        cli::note(&format!("written   {}{more}\n", Printable(&first.display().to_string())));
    }
    Ok(())
}

impl Samplers {
    fn read(&self) -> Result<Vec<hosts::Wanted>, Failure> {
        match (&self.samplers, &self.samplers_file) {
            (_, Some(path)) => {
                let bytes = cli::read(path)?;
                Ok(hosts::parse_file(&String::from_utf8_lossy(&bytes), &cli::name_of(path))?)
            }
            (list, None) => Ok(hosts::parse_list(list.as_deref().unwrap_or_default())?),
        }
    }
}

impl Args {
    fn net(&self) -> &Path {
        // It is demanded wherever there is no subcommand.
        self.net.as_deref().unwrap_or_else(|| Path::new("-"))
    }

    /// Who samples what, and what was mended in the lid files if there were some.
    fn plan(&self, fabric: &Fabric) -> Result<(Plan, String), Failure> {
        // Told before any sampler is looked for: where nothing is linked none is found either.
        partition::something_to_sample(fabric)?;
        if !self.samplers.from_ldms.is_empty() {
            let adopted = ldms::adopted(&self.samplers.from_ldms, &self.sampler_guid, fabric, self.cap)?;
            return Ok((adopted.plan, adopted.mended.to_string()));
        }
        let samplers = hosts::locate(&self.samplers.read()?, &self.sampler_guid, fabric)?;
        Ok((partition::plan(&Request { fabric, samplers, cap: self.cap })?, String::new()))
    }

    /// All files that the arguments name, but for the output: in the format of LDMS it is many.
    fn files(&self) -> Vec<Named<'_>> {
        let mut files = vec![("--net", self.net(), Use::Read)];
        files.extend(self.samplers.samplers_file.iter().map(|path| ("--samplers-file", &**path, Use::Read)));
        files.extend(self.samplers.from_ldms.iter().map(|source| ("--from-ldms", &*source.path, Use::Read)));
        files.extend(self.report.iter().map(|path| ("--report", &**path, Use::Write)));
        files.extend(self.graph.iter().map(|path| ("--graph", &**path, Use::Write)));
        files
    }
}

fn draw(path: &Path, picture: &Picture) -> String {
    if ends_in(path, "svg") { picture.to_svg() } else { picture.to_dot() }
}

/// The name of a picture tells its format.
fn drawing(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let known = ["svg", "dot", "gv"].iter().any(|extension| ends_in(&path, extension));
    if known { Ok(path) } else { Err("the name must end in .svg (for a browser) or .dot (for Graphviz)".to_owned()) }
}

fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn host_and_guid(text: &str) -> Result<(String, Guid), String> {
    let (host, guid) = text.split_once('=').ok_or("expected HOST=0x and 16 hexadecimal digits")?;
    Ok((host.to_owned(), guid.parse().map_err(|error: ibnet::types::ParseError| error.to_string())?))
}

/// A word as a shell takes it.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The command as it was typed, so that it can be given again.
fn command() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("ibnet-gen".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
