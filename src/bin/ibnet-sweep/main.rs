//! `ibnet-sweep`: asks every assigned port for its counters once a slot and writes a JSON line of each.
//!
//! Arguments in, library calls, lines and exit code out. The MADs are sent by one plain thread; the lines are written by another; signals are
//! waited for here. `ibnet-sweep query` looks at one port instead.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use ibnet::assignments::AssignmentsError;
use ibnet::cli::{self, Progress};
use ibnet::config::{self, Ca, Config, ConfigError, Outputs, Plan as Source, Raw, Sl};
use ibnet::mad::transport::sim::SimTransport;
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::UmadTransport;
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::metrics::Metrics;
use ibnet::sink::{self, Destination, Outlet, SinkError};
use ibnet::sweep::driver::{Driver, DriverSettings, SystemClock};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::record::line::{self, Line};
use ibnet::topology::NetFileError;
use ibnet::types::{Lid, PortNum};
use ibnet::view;
use miette::Diagnostic;

use self::lanes::Lane;
use self::reload::{Identity, Prepare, Setup, Start, Watch};
use self::service::{Job, Reload, Service};

mod check;
mod lanes;
mod metrics;
mod query;
mod reload;
mod service;
mod systemd;

/// Asks every assigned port for its counters once a slot and writes a JSON line of each.
#[derive(Debug, Parser)]
#[command(name = "ibnet-sweep", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
    /// End after so many slots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sweeps: Option<u64>,
    /// Sweep one slot and print it as a table
    #[arg(long, conflicts_with_all = ["sweeps", "output"])]
    once: bool,
    /// Print the configuration that results, with the origin of each value, and end
    #[arg(long)]
    print_config: bool,
}

// Not a doc comment: clap would print it in the place of the program's. What a sweep and its check have in common.
#[derive(Clone, Debug, clap::Args)]
struct Flags {
    /// Configuration; every flag below overrides its key
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What ibnet-gen wrote
    #[arg(long, value_name = "FILE")]
    assignments: Option<String>,
    /// Which sampler of it this is [default: this host's short name]
    #[arg(long, value_name = "HOST")]
    sampler: Option<String>,
    /// What `ibnetdiscover` or `ibnetdiscover -p` printed: sweep all of it from here
    #[arg(long, value_name = "FILE")]
    net: Option<String>,
    /// Sweep the fabric of this net file simulated in this process, without InfiniBand
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Time between two slots [default: 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Groups of counters, of those in ibnet.toml.example, or all [default: extended,base,xmtdisc,rcverr]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Option<Vec<String>>,
    /// MADs in flight, never more than one to a device [default: 32]
    #[arg(long, value_name = "N")]
    window: Option<usize>,
    /// Deadline of a MAD [default: 5ms]
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// How long after sending a late reply still counts [default: 50ms]
    #[arg(long, value_name = "TIME")]
    grace: Option<String>,
    /// HCA that sends; several, with commas or given again, share the devices [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]", value_delimiter = ',')]
    ca: Option<Vec<String>>,
    /// Service level, or the path record's [default: 0]
    #[arg(long, value_name = "N|path")]
    sl: Option<String>,
    /// P_Key [default: 0xffff]
    #[arg(long, value_name = "HEX")]
    pkey: Option<String>,
    /// Where the lines go; a file is appended to [default: -]
    #[arg(short, long, value_name = "FILE|-")]
    output: Option<String>,
}

/// What else there is to do than to sweep.
#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Query(query::Args),
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep --assignments assignments.toml -o /var/log/ibnet/lines.jsonl
  ibnet-sweep --net fabric.p --sweeps 10 | jq 'select(.type == \"sweep\")'
  ibnet-sweep --simulate fabric.p --once
  ibnet-sweep -c ibnet.toml --print-config
  ibnet-sweep check -c ibnet.toml
  ibnet-sweep query 23 1

The log goes to standard error; RUST_LOG=ibnet=debug tells of each slot.

Exit codes: 0 done, or stopped by SIGINT or SIGTERM; 1 the input or the
environment is wrong; 2 the arguments are wrong.";

/// Whatever ends the program with exit code 1.
#[derive(Debug, thiserror::Error, Diagnostic)]
enum Failure {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Assignments(#[from] AssignmentsError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Sink(#[from] SinkError),
    #[cfg(feature = "umad")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Umad(#[from] ibnet::mad::transport::umad::UmadError),
    #[cfg(not(feature = "umad"))]
    #[error("this ibnet-sweep was built without InfiniBand")]
    #[diagnostic(help("build it with the feature `umad` (the default), or try --simulate FILE"))]
    NoUmad,
    #[error("ca: the assignments give this host ports of several subnets, and an HCA port reaches one")]
    #[diagnostic(help("leave --ca out: the assignments name an HCA for each; or sweep one of them with --sampler: {known}"))]
    SeveralSubnets { known: String },
    #[error("{source_name}: no linked port in it: nothing to sweep")]
    #[diagnostic(help("run `ibnetdiscover -p` on a host whose link is up"))]
    NothingLinked { source_name: String },
    #[error("simulated.dead: there is no device {name:?} in {net}")]
    #[diagnostic(help("give a node's whole name, or its first word, as it stands in the net file"))]
    NoSuchDevice { name: String, net: String },
    #[error("LID {lid} does not answer")]
    #[diagnostic(help(
        "is it the LID of a switch or an adapter that is up (`ibnetdiscover -p` lists them), and is there a way to it? A slow one may need --timeout 2s"
    ))]
    NoAnswer { lid: Lid },
    #[error("LID {lid} says who it is, but nothing of its performance management")]
    #[diagnostic(help(
        "those MADs need a P_Key of its partition (--pkey) and a service level that leads there (--sl); or the device wants a PM_Key"
    ))]
    NoAgent { lid: Lid },
    #[error("LID {lid} answered none of the groups for port {port}")]
    #[diagnostic(help("has the device that port? The notes above say what it said of each group; every device has the group base"))]
    NoGroup { lid: Lid, port: PortNum },
    #[error("LID {lid} does not say who it is (NodeInfo), and a record is nothing without its GUID")]
    #[diagnostic(help("ask without --json to see the counters; a device that wants an M_Key answers no subnet management"))]
    Nameless { lid: Lid },
    #[error("the way to the fabric was lost")]
    #[diagnostic(help("is the HCA still there (`ibstat`)? Start ibnet-sweep again once it is"))]
    Lost(#[source] TransportError),
    #[error("standard output cannot be written")]
    #[diagnostic(help("is there room where it goes to?"))]
    Stdout(#[source] std::io::Error),
    #[error("the last {lines} lines could not be written")]
    #[diagnostic(help("is there room on the disk? is the server there? What stands above says what failed"))]
    Unwritten { lines: u64 },
    #[error("{output}: is the {input} too; nothing was written")]
    #[diagnostic(help("give the records a file of their own with -o FILE"))]
    OverInput { output: String, input: &'static str },
    #[error("a part of the program ended early; this is a mistake in ibnet")]
    #[diagnostic(help("please report it, with what stands above"))]
    Crashed,
    #[error("cpus: a thread cannot be kept on CPU {cpu}")]
    #[diagnostic(help("give CPUs that this process may use (`nproc` counts them, `taskset -p $$` shows them), or none"))]
    Pin {
        cpu: usize,
        #[source]
        source: std::io::Error,
    },
    #[error("{key}: only a start can change it")]
    #[diagnostic(help("start ibnet-sweep again: systemctl restart ibnet-sweep"))]
    NeedsStart { key: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Metrics(#[from] ibnet::metrics::ServerError),
    #[error("the program's threads could not be started")]
    Runtime(#[source] std::io::Error),
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    cli::log_to_stderr();
    let done = match &args.command {
        None => run(&args).map(|()| ExitCode::SUCCESS),
        Some(Command::Check(args)) => check::run(args),
        Some(Command::Query(args)) => query::run(args).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(failure) => {
            let code = cli::fail(&failure);
            // A value that was given as an argument is a wrong argument.
            let gave = match &args.command {
                None => args.flags.gave(&failure),
                Some(Command::Check(_)) => false,
                Some(Command::Query(args)) => args.gave(&failure),
            };
            if gave { ExitCode::from(USAGE) } else { code }
        }
    }
}

/// The exit code for wrong arguments.
const USAGE: u8 = 2;

fn run(args: &Args) -> Result<(), Failure> {
    if args.print_config {
        return args.flags.print();
    }
    let setup = Setup::load(&args.flags)?;
    if let Some(fabric) = lanes::simulated(&setup.config)? {
        let prepare = move |_: &Config, lane: &Lane, settings| {
            let (ca, ca_port) = lanes::simulated_name(&lane.ca);
            let (plan, settings) = (SweepPlan::new(&lane.share), DriverSettings { ca, ca_port, ..settings });
            let transport = SimTransport::new(Arc::clone(&fabric));
            Ok(Box::new(move |outlet| Driver::new(plan, settings, transport, SystemClock::start(), outlet, cli::random_seed())) as Start<_>)
        };
        return sweep(args, setup, Box::new(prepare));
    }
    #[cfg(feature = "umad")]
    {
        let once = args.once;
        let prepare = move |config: &Config, lane: &Lane, mut settings: DriverSettings| {
            let (port, pkey_index) = lanes::hca_port(config, &lane.ca)?;
            let transport = UmadTransport::open(&port)?;
            (settings.ca, settings.ca_port, settings.engine.pkey_index) = (port.ca.clone(), port.port, pkey_index);
            settings.engine.pkey_table.clone_from(&port.pkeys);
            let (plan, pkey) = (SweepPlan::new(&lane.share), config.pkey);
            Ok(Box::new(move |outlet| {
                let driver = Driver::new(plan, settings, transport, SystemClock::start(), outlet, cli::random_seed());
                // Who wants to see one slot wants to see what is wrong.
                if once { driver } else { driver.reconnecting(lanes::reopen(port, pkey)) }
            }) as Start<_>)
        };
        sweep(args, setup, Box::new(prepare))
    }
    #[cfg(not(feature = "umad"))]
    Err(Failure::NoUmad)
}

impl Flags {
    /// The keys that were given here.
    fn given(&self) -> Vec<&'static str> {
        let flags = [
            ("assignments", self.assignments.is_some()),
            ("sampler", self.sampler.is_some()),
            ("net", self.net.is_some()),
            ("simulate", self.simulate.is_some()),
            ("interval", self.interval.is_some()),
            ("groups", self.groups.is_some()),
            ("window", self.window.is_some()),
            ("timeout", self.timeout.is_some()),
            ("grace", self.grace.is_some()),
            ("ca", self.ca.is_some()),
            ("sl", self.sl.is_some()),
            ("pkey", self.pkey.is_some()),
            ("output", self.output.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
    }

    /// Whether the value that is wrong was given here.
    fn gave(&self, failure: &Failure) -> bool {
        matches!(failure, Failure::Config(ConfigError::Value { key, .. }) if self.given().contains(key))
    }

    /// What results of the file and of what was given here.
    fn config(&self) -> Result<Config, ConfigError> {
        let placed = |error: ConfigError| match (&error, &self.config) {
            (ConfigError::Value { key, .. }, Some(path)) if !self.given().contains(key) => error.placed(path),
            _ => error,
        };
        self.raw()?.check().map_err(placed)
    }

    /// Prints that, if it can be used; with nothing to sweep in it, it is shown all the same.
    fn print(&self) -> Result<(), Failure> {
        if let Err(ConfigError::NothingToSweep) = self.config() {
            // What else there is shall be right.
            Self { net: Some("-".to_owned()), ..self.clone() }.config()?;
            cli::note("note: nothing says yet which ports to sweep\n");
        } else {
            self.config()?;
        }
        let file = self.config.as_deref().map(|path| (std::fs::read_to_string(path).unwrap_or_default(), path.display().to_string()));
        let file = file.as_ref().map(|(text, name)| (text.as_str(), name.as_str()));
        cli::print(config::show(&self.raw()?, file, &self.given()).as_bytes()).map_err(Failure::Stdout)
    }

    /// Refuses to append records to a file that is read.
    fn check_output(&self, config: &Config) -> Result<(), Failure> {
        let (net, assignments) = match &config.plan {
            Source::Net(path) => (Some(path), None),
            Source::Assignments(path) => (None, Some(path)),
        };
        let inputs = [
            ("net file", net),
            ("assignments file", assignments),
            ("simulated net file", config.simulate.as_ref()),
            ("configuration", self.config.as_ref()),
        ];
        for output in &config.outputs {
            let Destination::File(sink::FileOptions { path: output, .. }) = &output.to else { continue };
            let same = |path: &PathBuf| path.canonicalize().ok().is_some_and(|path| output.canonicalize().ok() == Some(path));
            if let Some((input, _)) = inputs.into_iter().find(|(_, path)| path.is_some_and(same)) {
                return Err(Failure::OverInput { output: output.display().to_string(), input });
            }
        }
        Ok(())
    }

    /// The file, with the flags over it.
    fn raw(&self) -> Result<Raw, ConfigError> {
        let mut raw = self.config.as_deref().map(Raw::read).transpose()?.unwrap_or_default();
        let texts = [
            (&self.assignments, &mut raw.assignments),
            (&self.sampler, &mut raw.sampler),
            (&self.net, &mut raw.net),
            (&self.simulate, &mut raw.simulate),
            (&self.interval, &mut raw.interval),
            (&self.timeout, &mut raw.timeout),
            (&self.grace, &mut raw.grace),
            (&self.pkey, &mut raw.pkey),
        ];
        for (flag, key) in texts {
            if let Some(flag) = flag {
                key.clone_from(flag);
            }
        }
        if let Some(groups) = &self.groups {
            raw.groups.clone_from(groups);
        }
        if let Some(cas) = &self.ca {
            raw.ca = Ca::Many(cas.clone());
        }
        if let Some(output) = &self.output {
            raw.output = Outputs::Short(output.clone());
        }
        if let Some(window) = self.window {
            raw.window = window;
        }
        if let Some(sl) = &self.sl {
            raw.sl = Sl::Word(sl.clone());
        }
        Ok(raw)
    }
}

/// Sweeps all lanes into the output, or one slot of each into a table.
fn sweep<T: Transport + Send + 'static>(args: &Args, setup: Setup, prepare: Prepare<T>) -> Result<(), Failure> {
    let (aligned, sweeps) = if args.once { (false, Some(1)) } else { (true, args.sweeps) };
    let lanes = setup.lanes(|settings| DriverSettings { aligned, sweeps, ..settings });
    let slots = args.sweeps.map(|sweeps| sweeps * lanes.len() as u64);
    let prepared = lanes.into_iter().map(|lane| Ok((lane.prepare(&setup.config, &prepare)?, lane)));
    let prepared: Vec<_> = prepared.collect::<Result<_, Failure>>()?;
    let service = Service::new()?;
    let jobs = |outlet: &Outlet, metrics: Option<&Arc<Metrics>>| {
        let job = |(start, lane): (Start<T>, Identity)| Job { driver: start(outlet.clone()), lane, metrics: metrics.map(Metrics::lane) };
        prepared.into_iter().map(job).collect::<Vec<_>>()
    };
    if args.once {
        let (outlet, lines) = Destination::memory();
        let jobs = jobs(&outlet, None);
        drop(outlet);
        service.run(jobs, Vec::new(), &Progress::hidden(), None)?;
        return print_table(&lines.text());
    }
    let config = &setup.config;
    let metrics = metrics::serve(config, setup.work.peers.clone())?;
    let (outlet, writers) = sink::open(&config.outputs)?;
    // A bar among lines on one terminal would spoil both.
    let alone = config.outputs.iter().all(|output| output.to != Destination::Stdout) || !std::io::stdout().is_terminal();
    let bar = slots.filter(|_| alone).map_or_else(Progress::hidden, |slots| Progress::new(slots, "slots"));
    let jobs = jobs(&outlet, metrics.as_ref());
    // What ends by itself is soon started again.
    let reload = args.sweeps.is_none().then(|| {
        let (flags, watch) = (args.flags.clone(), Watch::new(setup.files(&args.flags)));
        Reload { flags, setup, prepare, outlet, watch, metrics }
    });
    service.run(jobs, writers, &bar, reload)
}

/// Prints the ports of a slot, and the sum of it.
fn print_table(lines: &str) -> Result<(), Failure> {
    let (mut ports, mut sweeps) = (Vec::new(), Vec::new());
    for line in lines.lines().filter_map(|text| line::parse(text).ok()) {
        match line {
            Line::Port(port) => ports.push(*port),
            Line::Sweep(record) => sweeps.push(record),
            Line::Start(_) | Line::Histogram(_) | Line::Event(_) => {}
        }
    }
    ports.sort_by(|a, b| (&a.node, a.guid, a.port).cmp(&(&b.node, b.guid, b.port)));
    cli::print(view::once::show(&ports, &sweeps).as_bytes()).map_err(Failure::Stdout)
}
