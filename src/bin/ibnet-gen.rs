//! `ibnet-gen`: gives every port of a fabric to exactly one sampler.
//!
//! Arguments in, library calls, files and exit code out. `ibnet-gen anonymise` rewrites a net file instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ibnet::assignments::{Assignments, Header, sha256_hex};
use ibnet::cli::{self, InputError, OutputError, Staged};
use ibnet::partition::report::Detail;
use ibnet::partition::{self, HostsError, Plan, PlanError, Report, Request, hosts, rails};
use ibnet::topology::anonymise::anonymise;
use ibnet::topology::name_map::{NameMap, NameMapError};
use ibnet::topology::{NetFile, NetFileError, net_file};
use ibnet::types::{Guid, Printable};
use miette::Diagnostic;

/// Gives every port of an InfiniBand fabric to exactly one sampler, near it and not too many to any.
#[derive(Debug, Parser)]
#[command(name = "ibnet-gen", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// What `ibnetdiscover -p` or `ibnetdiscover` printed; `-` is standard input. More than one: files of one subnet are merged, subnets are planned
    /// one by one
    #[arg(long, value_name = "FILE|-", required = true)]
    net: Vec<PathBuf>,
    /// Names of nodes by node GUID, as rdma-core's tools read them; they stand in for those of the net file
    #[arg(long, value_name = "FILE|-")]
    node_name_map: Option<PathBuf>,
    #[command(flatten)]
    samplers: Samplers,
    /// Where a sampler sits whose node description does not begin with its name: the GUID of its port (may be repeated)
    #[arg(long, value_name = "HOST=0x...", value_parser = host_and_guid)]
    sampler_guid: Vec<(String, Guid)>,
    /// The most ports of one sampler
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    cap: u32,
    /// Sample the aggregation nodes of SHARP, too
    #[arg(long)]
    sample_sharp: bool,
    /// Write the whole report here; the one on standard error is cut to a few lines of each kind
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The assignments file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
}

/// What else there is to do than to plan.
#[derive(Debug, Subcommand)]
enum Command {
    Anonymise(Anonymise),
}

/// Rewrite a net file without the site's names and GUIDs, so that it can be sent to somebody
///
/// Each line is written anew in the format that it had; the result is planned like the original. Left out are comments and what cannot be read. LIDs,
/// ports, links, speeds and device ids stay as they are.
#[derive(Debug, clap::Args)]
struct Anonymise {
    /// What `ibnetdiscover -p` or `ibnetdiscover` printed; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    net: PathBuf,
    /// The rewritten file; `-` is standard output
    #[arg(short, long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
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
}

const EXAMPLES: &str = "\
Examples:
  ibnetdiscover -p > fabric.p
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o assignments.toml
  ibnet-gen --net fabric.p --samplers-file samplers.txt --cap 200 -o a.toml
  ibnet-gen --net fabric.p --samplers mgmt --sampler-guid mgmt=0x0002c9030045fd01
  ibnet-gen --net rail0.p --net rail1.p --samplers 'node[001-016]' -o plan.toml
  ibnet-gen anonymise --net fabric.p -o nameless.p

A sampler is found by the first word of its adapter's node description. Routers,
the aggregation nodes of SHARP (but with --sample-sharp) and devices without a LID
are left out; the report on standard error counts them.

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
    Names(#[from] NameMapError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hosts(#[from] HostsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Output(#[from] OutputError),
    #[error("{net}: {error}")]
    #[diagnostic(forward(error))]
    InSubnet { net: String, error: PlanError },
    #[error("{net}: none of the samplers has a port in this subnet")]
    #[diagnostic(help("no other sampler reaches it: add a host of it to the samplers, or leave the file out"))]
    NoSampler { net: String },
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
        None => run(&args),
        Some(Command::Anonymise(args)) => args.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => cli::fail(&failure),
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    args.check_files()?;
    let files = args.net.iter().map(|path| Ok((cli::name_of(path), cli::read(path)?))).collect::<Result<Vec<_>, InputError>>()?;
    let nets = args.read(&files)?;
    // Told before any sampler is looked for: where nothing is linked none is found either.
    for net in &nets {
        partition::something_to_sample(&net.fabric).map_err(|error| in_subnet(&nets, net, error))?;
    }
    let fabrics: Vec<_> = nets.iter().map(|net| &net.fabric).collect();
    let samplers = rails::locate(&args.samplers.read()?, &args.sampler_guid, &fabrics)?;
    let mut plans = Vec::with_capacity(nets.len());
    for (net, samplers) in nets.iter().zip(samplers) {
        if samplers.is_empty() {
            return Err(Failure::NoSampler { net: net.name() });
        }
        let plan = partition::plan(&Request { fabric: &net.fabric, samplers, cap: args.cap });
        plans.push((net, plan.map_err(|error| in_subnet(&nets, net, error))?));
    }
    let assignments = match &plans[..] {
        [(net, plan)] => Assignments::of(plan, &net.fabric),
        plans => {
            Assignments::of_subnets(subnet_names(&nets).into_iter().zip(plans.iter().map(|(net, plan)| Assignments::of(plan, &net.fabric))))
        }
    };
    let header = Header { sources: files.iter().map(|(name, bytes)| (name.clone(), sha256_hex(bytes))).collect(), command: command() };

    let toml = assignments.to_toml(&header);
    let report = |detail| {
        let of_subnet = |(net, plan): &(&NetFile, Plan)| Report { name: &net.name(), net, plan, detail }.to_string();
        plans.iter().map(of_subnet).collect::<Vec<_>>().join("\n")
    };
    let whole = report(Detail::Full);
    let staged_report = args.report.as_deref().map(|path| Staged::new(path, whole.as_bytes())).transpose()?;
    let staged = Staged::new(&args.output, toml.as_bytes())?;
    cli::note(&report(Detail::Brief));
    staged_report.map_or(Ok(()), Staged::commit)?;
    staged.commit()?;
    if !cli::is_dash(&args.output) {
        cli::note(&format!("written   {}\n", Printable(&args.output.display().to_string())));
    }
    Ok(())
}

/// Which of several subnets could not be planned.
fn in_subnet(nets: &[NetFile], net: &NetFile, error: PlanError) -> Failure {
    if nets.len() == 1 { Failure::Plan(error) } else { Failure::InSubnet { net: net.name(), error } }
}

/// What the subnets are called in the plan: their first file without its path and its ending, unless two would be called the same.
fn subnet_names(nets: &[NetFile]) -> Vec<String> {
    let stem = |name: &str| Path::new(name).file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let names: Vec<_> = nets.iter().map(NetFile::first_name).collect();
    let short: BTreeSet<_> = names.iter().map(|name| stem(name)).collect();
    if short.len() == names.len() { names.into_iter().map(stem).collect() } else { names.into_iter().map(str::to_owned).collect() }
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
    /// One net file a subnet, with all that the arguments say of them.
    fn read(&self, files: &[(String, Vec<u8>)]) -> Result<Vec<NetFile>, Failure> {
        let mut nets = net_file::parse_all(files)?;
        if self.sample_sharp {
            nets.iter_mut().for_each(|net| net.fabric.sample_aggregation_nodes());
        }
        if let Some(path) = &self.node_name_map {
            NameMap::parse(&cli::read(path)?, &cli::name_of(path))?.apply(&mut nets);
        }
        Ok(nets)
    }

    /// No file is read and written, or used twice: a slip that would cost the net file.
    fn check_files(&self) -> Result<(), Failure> {
        let others = [("--node-name-map", &self.node_name_map), ("--samplers-file", &self.samplers.samplers_file)];
        let others = others.into_iter().filter_map(|(name, path)| path.as_ref().map(|path| (name, path)));
        let read = self.net.iter().map(|path| (NET, path)).chain(others);
        let written = self.report.iter().map(|path| ("--report", path)).chain([("--output", &self.output)]);
        all_differ(&read.collect::<Vec<_>>(), &written.collect::<Vec<_>>())
    }
}

impl Anonymise {
    fn run(&self) -> Result<(), Failure> {
        all_differ(&[(NET, &self.net)], &[("--output", &self.output)])?;
        let text = anonymise(&cli::read(&self.net)?, &cli::name_of(&self.net))?;
        Ok(Staged::new(&self.output, text.as_bytes())?.commit()?)
    }
}

const NET: &str = "--net";

/// Whether no two of these paths lead to one file. Standard input can be read once; standard input and output are two things.
fn all_differ(read: &[(&'static str, &PathBuf)], written: &[(&'static str, &PathBuf)]) -> Result<(), Failure> {
    let known = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    let files: Vec<_> = read.iter().map(|file| (file, true)).chain(written.iter().map(|file| (file, false))).collect();
    for (at, ((second, path), is_read)) in files.iter().enumerate() {
        for ((first, other), other_is_read) in &files[..at] {
            let same = match cli::is_dash(path) || cli::is_dash(other) {
                true => path == other && is_read == other_is_read,
                false => path == other && !path.exists() || known(path).is_some_and(|path| Some(path) == known(other)),
            };
            if same {
                return Err(Failure::SameFile { path: path.to_path_buf(), first, second });
            }
        }
    }
    Ok(())
}

fn host_and_guid(text: &str) -> Result<(String, Guid), String> {
    let (host, guid) = text.split_once('=').ok_or("expected HOST=0x and 16 hexadecimal digits")?;
    Ok((host.to_owned(), guid.parse().map_err(|error: ibnet::types::ParseError| error.to_string())?))
}

/// The command as it was typed, so that it can be given again.
fn command() -> String {
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
    let quoted = |text: String| if plain(&text) { text } else { format!("'{}'", text.replace('\'', r"'\''")) };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("ibnet-gen".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
