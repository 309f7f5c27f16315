//! `ibnet-gen`: assigns every port of a fabric to exactly one sampler.
//!
//! The program parses the arguments, calls the library and writes the files. Its subcommands
//! suggest sampler hosts, publish plans, compare the cabling with its plan, and remove the names
//! of a site from net files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use ibnet::assignments::{Assignments, AssignmentsError, Header, sha256_hex};
use ibnet::cabling::PlanError as PlannedCablingError;
use ibnet::cli::{self, InputError, OutputError, Staged};
use ibnet::config::ConfigError;
use ibnet::discovery::DiscoveryError;
use ibnet::distribution::DistributionError;
use ibnet::partition::formats::adopt::AdoptError;
use ibnet::partition::formats::ldms::LidFileError;
use ibnet::partition::hosts::Origin;
use ibnet::partition::report::facts::Facts;
use ibnet::partition::report::json;
use ibnet::partition::report::picture::Picture;
use ibnet::partition::report::sections::Sections;
use ibnet::partition::report::suggest::SuggestError;
use ibnet::partition::report::text::{Detail, Report};
use ibnet::partition::{self, HostsError, Plan, PlanError, Request, WeightsError, hosts, rails};
use ibnet::topology::name_map::{NameMap, NameMapError};
use ibnet::topology::{NetFile, NetFileError, net_file};
use ibnet_record::limits;
use ibnet_record::types::{Guid, Printable};
use miette::Diagnostic;

use files::{Named, Use};
use plan_options::PlanArgs;
use publish::PublishArgs;

mod anonymise;
mod cabling;
mod cost;
mod discover;
mod files;
mod ldms;
mod plan_options;
mod publish;
mod suggest;
mod topology;

/// Assigns every linked port of an InfiniBand fabric to exactly one nearby sampler
#[derive(Debug, Parser)]
#[command(name = "ibnet-gen", version, after_help = EXAMPLES)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Net file: output of `ibnet-gen discover`, or of `ibnetdiscover` with or without `-p`; `-` is
    /// standard input; umad, or umad:NAME:PORT, discovers the fabric now. May be repeated: files
    /// of one subnet are merged, and each subnet gets its own plan
    #[arg(long, value_name = "FILE|-|umad", required = true)]
    net: Vec<PathBuf>,
    /// Node name map of rdma-core; its names replace those of the net file
    #[arg(long, value_name = "FILE|-")]
    node_name_map: Option<PathBuf>,
    #[command(flatten)]
    samplers: Samplers,
    /// Port GUID of a sampler host whose node description does not begin with its host name (may be
    /// repeated)
    #[arg(long, value_name = "HOST=0x...", value_parser = host_and_guid)]
    sampler_guid: Vec<(String, Guid)>,
    /// Largest number of ports of a sampler
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CAP, value_parser = clap::value_parser!(u32).range(1..))]
    cap: u32,
    /// Also sample the aggregation nodes of SHARP
    #[arg(long)]
    sample_sharp: bool,
    #[command(flatten)]
    options: PlanArgs,
    /// Write the complete report to FILE, as JSON if its name ends in .json. Standard error gets
    /// only a few lines of each kind
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Draw the plan as FILE.svg, for a browser
    #[arg(long, value_name = "FILE.svg", value_parser = drawing)]
    graph: Option<PathBuf>,
    /// Format of the output: toml for the assignments file, ldms for the lid files of the LDMS
    /// sampler `ibnet`. Each sampler gets a lid file OUTPUT.HOST.conf
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Toml)]
    format: Format,
    /// Assignments file to write; `-` is standard output [default: -, or none with --publish]
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<PathBuf>,
    #[command(flatten)]
    publish: PublishArgs,
}

/// Other uses of a net file.
#[derive(Debug, Subcommand)]
enum Command {
    Suggest(suggest::Args),
    Anonymise(anonymise::Args),
    Cabling(cabling::Args),
    Discover(discover::Args),
    Publish(publish::Args),
    Topology(topology::Args),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Samplers {
    /// Sampler hosts: `node[001-012],admin1`. A host can name the HCA and its port that send:
    /// `admin1:mlx5_1:1`
    #[arg(long, value_name = "HOSTLIST")]
    samplers: Option<String>,
    /// File with a host or host list on each line; `#` starts a comment; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    samplers_file: Option<PathBuf>,
    /// Keep the assignments in these lid files of the LDMS sampler `ibnet`. The host of a file is
    /// HOST, or else the host in the file or in its name PREFIX.HOST.conf
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
  ibnet-gen discover -o fabric.p
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o assignments.toml
  ibnet-gen --net fabric.p --samplers-file samplers.txt --cap 200 -o a.toml
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o a.toml --report a.json
  ibnet-gen --net fabric.p --samplers 'node[001-008]' -o plan.toml --graph plan.svg
  ibnet-gen suggest --net fabric.p
  ibnet-gen --net new.p --samplers 'node[001-009]' --previous a.toml -o a.toml
  ibnet-gen --net rail0.p --net rail1.p --samplers 'node[001-016]' -o plan.toml
  ibnet-gen --net fabric.p --samplers 'node[001-008]' --publish nats://admin1:4222
  ibnet-gen publish plan.toml --to nats://admin1:4222
  ibnet-gen anonymise --net fabric.p -o nameless.p
  ibnet-gen --net fabric.p --from-ldms /etc/ldms/lids.*.conf --cap 400 -o a.toml
  ibnet-gen --net fabric.p --samplers 'node[001-008]' --format ldms -o lids
  ibnet-gen --net fabric.p --samplers mgmt --sampler-guid mgmt=0x0002c9030045fd01

A sampler is found by the first word of its node description. Routers, aggregation
nodes of SHARP (unless --sample-sharp is given) and devices without a LID are left
out; the report on standard error counts them.

Exit codes: 0 success; 1 wrong input, nothing was written; 2 wrong arguments.";

/// An error that ends the program.
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
    Cabling(#[from] PlannedCablingError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Discovery(#[from] DiscoveryError),
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
    #[error(transparent)]
    #[diagnostic(transparent)]
    Weights(#[from] WeightsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Previous(#[from] AssignmentsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Distribution(#[from] DistributionError),
    #[error("cannot publish lid files: ibnet-sweep reads assignments files only")]
    #[diagnostic(help("give --format toml, or omit --publish"))]
    OnlyAssignments,
    #[error("cannot write lid files: LDMS has one role only, and --redundancy 2 needs two")]
    #[diagnostic(help("give --format toml, or omit --redundancy"))]
    OneRole,
    #[error("cannot write a topology: no host is cabled to a switch")]
    #[diagnostic(help("check --hosts and --storage, and give the net file of the hosts"))]
    NoHost,
    #[error("{net}: {error}")]
    #[diagnostic(forward(error))]
    InSubnet { net: String, error: PlanError },
    #[error("cannot plan {net}: no sampler has a port in this subnet")]
    #[diagnostic(help(
        "only hosts of this subnet can sample it: add a host of it to the samplers, or omit the file"
    ))]
    NoSampler { net: String },
    #[error("cannot use {argument}: there are {subnets} subnets, not one")]
    #[diagnostic(help(
        "give the net files of one subnet, and run the program once for each subnet"
    ))]
    OneSubnet {
        argument: &'static str,
        subnets: usize,
    },
    #[error("cannot use {}: it is given for {first} and for {second}", path.display())]
    #[diagnostic(help("give each its own file"))]
    SameFile {
        path: PathBuf,
        first: &'static str,
        second: &'static str,
    },
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    let done = match &args.command {
        Some(Command::Suggest(args)) => suggest::run(args),
        Some(Command::Anonymise(args)) => anonymise::run(args),
        Some(Command::Cabling(args)) => return ended(cabling::run(args)),
        Some(Command::Discover(args)) => discover::run(args),
        Some(Command::Publish(args)) => publish::run(args),
        Some(Command::Topology(args)) => topology::run(args),
        None => run(&args),
    };
    ended(done.map(|()| ExitCode::SUCCESS))
}

/// Returns the exit code of a command, and prints its error.
fn ended(done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| {
        cli::fail(&failure);
        ExitCode::from(failure.exit_code())
    })
}

impl Failure {
    /// Returns the exit code: 2 for a wrong argument, 1 for everything else.
    fn exit_code(&self) -> u8 {
        use HostsError::{Empty, Syntax, TooMany, Twice};
        match self {
            Self::Hosts(
                Empty { origin }
                | Syntax { origin, .. }
                | TooMany { origin, .. }
                | Twice { origin, .. },
            ) if *origin == Origin::Argument => 2,
            Self::OneRole
            | Self::OnlyAssignments
            | Self::Distribution(DistributionError::Address { .. }) => 2,
            _ => 1,
        }
    }
}

/// A subnet with its plan.
struct Subnet {
    /// Name of the subnet in the plan. `None` if it is the only subnet.
    name: Option<String>,
    net: NetFile,
    plan: Plan,
    facts: Facts,
    /// Report of the repairs to lid files, or empty.
    repairs: String,
}

fn run(args: &Args) -> Result<(), Failure> {
    // --previous is checked here and not together with the output, which may replace the previous
    // plan because that plan has been read by then.
    let previous = args
        .options
        .previous
        .iter()
        .map(|path| ("--previous", &**path, Use::Read));
    files::check(&args.files().into_iter().chain(previous).collect::<Vec<_>>())?;
    if args.format == Format::Ldms && args.options.redundancy > 1 {
        return Err(Failure::OneRole);
    }
    if args.format == Format::Ldms && args.publish.is_set() {
        return Err(Failure::OnlyAssignments);
    }
    let files = args
        .net
        .iter()
        .map(|path| discover::net(path))
        .collect::<Result<Vec<_>, Failure>>()?;
    let subnets = args.planned(args.read(&files)?)?;
    let header = Header {
        sources: files
            .iter()
            .map(|(name, bytes)| (name.clone(), sha256_hex(bytes)))
            .collect(),
        command: command(),
    };

    let output = args.output();
    let mut plans = match args.format {
        Format::Toml => vec![(output.to_owned(), assignments(&subnets).to_toml(&header))],
        Format::Ldms => subnets
            .iter()
            .flat_map(|subnet| ldms::files(&subnet.plan, &subnet.net.fabric, &subnet.path(output)))
            .collect(),
    };
    // Without -o, a published plan is not written to a file.
    let published = plans
        .first()
        .map(|(_, text)| text.clone())
        .filter(|_| args.publish.is_set());
    if published.is_some() && args.output.is_none() {
        plans.clear();
    }
    let pictures: Vec<_> = args
        .graph
        .iter()
        .flat_map(|path| {
            subnets
                .iter()
                .map(|of| (of.picture_path(path), of.picture()))
        })
        .collect();
    let written = plans
        .iter()
        .map(|(path, _)| ("--output", &**path, Use::Write));
    let written = written.chain(
        pictures
            .iter()
            .map(|(path, _)| ("--graph", &**path, Use::Write)),
    );
    files::check(
        &args
            .inputs()
            .into_iter()
            .chain(args.reports())
            .chain(written)
            .collect::<Vec<_>>(),
    )?;
    let report = |detail| {
        subnets
            .iter()
            .map(|of| of.report(detail))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let full_report = args
        .report
        .as_deref()
        .map(|path| match ends_in(path, "json") {
            true => (
                path.to_owned(),
                json::to_json(
                    subnets.iter().map(|of| &of.facts),
                    &header.sources,
                    &header.command,
                ),
            ),
            false => (path.to_owned(), report(Detail::Full)),
        });
    // All files are staged first, because that can fail. The plan is then replaced last.
    let all = full_report.iter().chain(&pictures).chain(&plans);
    let staged: Vec<_> = all
        .map(|(path, text)| Staged::new(path, text.as_bytes()))
        .collect::<Result<_, _>>()?;
    cli::note(&report(Detail::Brief));
    // If the server does not accept the plan, no file is replaced.
    published.map_or(Ok(()), |text| args.publish.publish(&text))?;
    staged.into_iter().try_for_each(Staged::commit)?;
    if let Some((first, _)) = plans.first().filter(|(path, _)| !cli::is_dash(path)) {
        let more = if plans.len() > 1 {
            format!(" and {} more", plans.len() - 1)
        } else {
            String::new()
        };
        cli::note(&format!(
            "written   {}{more}\n",
            Printable(&first.display().to_string())
        ));
    }
    if args.format == Format::Ldms {
        let written: Vec<&Path> = plans.iter().map(|(path, _)| &**path).collect();
        for path in ldms::outdated(output, &written) {
            let name = path.display().to_string();
            cli::note(&format!(
                "outdated  {}: not in this plan, remove it or its ports are queried twice\n",
                Printable(&name)
            ));
        }
    }
    Ok(())
}

/// Combines the assignments of all subnets.
fn assignments(subnets: &[Subnet]) -> Assignments {
    let of = |subnet: &Subnet| partition::assignments_of(&subnet.plan, &subnet.net.fabric);
    match subnets {
        [only] => of(only),
        several => partition::assignments_of_subnets(
            several
                .iter()
                .map(|subnet| (subnet.name.clone().unwrap_or_default(), of(subnet))),
        ),
    }
}

impl Subnet {
    /// Returns the path of an output for this subnet only.
    fn path(&self, path: &Path) -> PathBuf {
        match &self.name {
            Some(subnet) if !cli::is_dash(path) => {
                PathBuf::from(format!("{}.{}", path.display(), subnet.replace('/', "_")))
            }
            _ => path.to_owned(),
        }
    }

    /// Returns the path of a picture, such as `plan.svg` or `plan.rail0.svg`.
    fn picture_path(&self, path: &Path) -> PathBuf {
        let extension = path.extension().unwrap_or_default();
        match &self.name {
            Some(_) => PathBuf::from(format!(
                "{}.{}",
                self.path(&path.with_extension("")).display(),
                extension.display()
            )),
            None => path.to_owned(),
        }
    }

    fn picture(&self) -> String {
        Picture::of(&self.net.fabric, &self.plan, &self.net.name()).to_svg()
    }

    fn report(&self, detail: Detail) -> String {
        let sections = Sections {
            plan: &self.plan,
            max_lines: detail.lines(),
        };
        format!(
            "{}{sections}{}",
            Report {
                name: &self.net.name(),
                facts: &self.facts,
                detail
            },
            self.repairs
        )
    }
}

impl Samplers {
    fn read(&self) -> Result<Vec<hosts::SamplerSpec>, Failure> {
        match (&self.samplers, &self.samplers_file) {
            (_, Some(path)) => {
                let bytes = cli::read(path, limits::HOST_FILE)?;
                Ok(hosts::parse_file(
                    &String::from_utf8_lossy(&bytes),
                    &cli::name_of(path),
                )?)
            }
            (list, None) => Ok(hosts::parse_list(list.as_deref().unwrap_or_default())?),
        }
    }
}

impl Args {
    /// Parses the net files, which gives one result per subnet, and applies the node name map.
    fn read(&self, files: &[(String, Vec<u8>)]) -> Result<Vec<NetFile>, Failure> {
        let mut nets = net_file::parse_all(files)?;
        if self.sample_sharp {
            nets.iter_mut()
                .for_each(|net| net.fabric.sample_aggregation_nodes());
        }
        if let Some(path) = &self.node_name_map {
            NameMap::parse(&cli::read(path, limits::HOST_FILE)?, &cli::name_of(path))?
                .apply(&mut nets);
        }
        Ok(nets)
    }

    /// Makes the plan of each subnet.
    fn planned(&self, nets: Vec<NetFile>) -> Result<Vec<Subnet>, Failure> {
        let count = nets.len();
        let in_subnet = |net: &NetFile, error| {
            if count == 1 {
                Failure::Plan(error)
            } else {
                Failure::InSubnet {
                    net: net.name(),
                    error,
                }
            }
        };
        // Without links, no sampler would be found either. The missing links are reported first,
        // because that error is clearer.
        for net in &nets {
            partition::something_to_sample(&net.fabric).map_err(|error| in_subnet(net, error))?;
        }
        let names = subnet_names(&nets);
        let mut plans = Vec::with_capacity(count);
        if self.samplers.from_ldms.is_empty() {
            let fabrics: Vec<_> = nets.iter().map(|net| &net.fabric).collect();
            let samplers = rails::locate(&self.samplers.read()?, &self.sampler_guid, &fabrics)?;
            let (weights, previous) = (self.options.weights(&fabrics)?, self.options.previous()?);
            for ((net, samplers), name) in nets.iter().zip(samplers).zip(&names) {
                if samplers.is_empty() {
                    return Err(Failure::NoSampler { net: net.name() });
                }
                let previous = previous
                    .as_ref()
                    .map(|previous| partition::previous_of(previous, (count > 1).then_some(name)));
                let options = self.options.options(weights.as_ref(), previous.as_ref());
                let plan = partition::plan_with(
                    &Request {
                        fabric: &net.fabric,
                        samplers,
                        cap: self.cap,
                    },
                    &options,
                );
                plans.push((plan.map_err(|error| in_subnet(net, error))?, String::new()));
            }
        } else {
            let [net] = &nets[..] else {
                return Err(Failure::OneSubnet {
                    argument: "--from-ldms",
                    subnets: count,
                });
            };
            let adopted = ldms::adopted(
                &self.samplers.from_ldms,
                &self.sampler_guid,
                &net.fabric,
                self.cap,
            )?;
            plans.push((adopted.plan, adopted.repairs.to_string()));
        }
        let planned = |((net, (plan, repairs)), name): ((NetFile, (Plan, String)), String)| {
            let name = (count > 1).then_some(name);
            let facts = Facts {
                subnet: name.clone(),
                ..Facts::of(&net, &plan)
            };
            Subnet {
                name,
                facts,
                net,
                plan,
                repairs,
            }
        };
        Ok(nets
            .into_iter()
            .zip(plans)
            .zip(names)
            .map(planned)
            .collect())
    }

    fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or_else(|| Path::new("-"))
    }

    /// Returns all files of the arguments except the output, which is many files in the LDMS
    /// format.
    fn files(&self) -> Vec<Named<'_>> {
        let graph = self
            .graph
            .iter()
            .map(|path| ("--graph", &**path, Use::Write));
        self.inputs()
            .into_iter()
            .chain(self.reports())
            .chain(graph)
            .collect()
    }

    fn inputs(&self) -> Vec<Named<'_>> {
        let mut files: Vec<Named<'_>> = self
            .net
            .iter()
            .map(|path| (NET, &**path, Use::Read))
            .collect();
        files.extend(
            self.node_name_map
                .iter()
                .map(|path| ("--node-name-map", &**path, Use::Read)),
        );
        files.extend(
            self.samplers
                .samplers_file
                .iter()
                .map(|path| ("--samplers-file", &**path, Use::Read)),
        );
        files.extend(
            self.options
                .weights
                .iter()
                .map(|path| ("--weights", &**path, Use::Read)),
        );
        files.extend(
            self.samplers
                .from_ldms
                .iter()
                .map(|source| ("--from-ldms", &*source.path, Use::Read)),
        );
        files
    }

    fn reports(&self) -> impl Iterator<Item = Named<'_>> {
        self.report
            .iter()
            .map(|path| ("--report", &**path, Use::Write))
    }
}

const NET: &str = "--net";

/// Max number of ports of a sampler without `--cap`.
const DEFAULT_CAP: u32 = 150;

/// Returns the names of the subnets in the plan: the stem of each subnet's first file, or the
/// full file name if two stems are equal.
fn subnet_names(nets: &[NetFile]) -> Vec<String> {
    let stem = |name: &str| {
        Path::new(name).file_stem().map_or_else(
            || name.to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    };
    let names: Vec<_> = nets.iter().map(NetFile::first_name).collect();
    let short: BTreeSet<_> = names.iter().map(|name| stem(name)).collect();
    if short.len() == names.len() {
        names.into_iter().map(stem).collect()
    } else {
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Parses the path of a picture.
fn drawing(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if ends_in(&path, "svg") {
        Ok(path)
    } else {
        Err("the name must end in .svg".to_owned())
    }
}

fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension()
        .is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn host_and_guid(text: &str) -> Result<(String, Guid), String> {
    let (host, guid) = text
        .split_once('=')
        .ok_or("expected HOST=0x and 16 hexadecimal digits")?;
    Ok((
        host.to_owned(),
        guid.parse()
            .map_err(|error: ibnet_record::types::ParseError| error.to_string())?,
    ))
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
    if plain {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the command line of this process, quoted for a shell.
fn command() -> String {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("ibnet-gen".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
