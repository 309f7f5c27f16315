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
use ibnet::config::{Ca, Config, ConfigError, Plan as Source, Raw, Sl};
use ibnet::mad::transport::sim::SimTransport;
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::UmadTransport;
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::metrics::{Metrics, Peers};
use ibnet::sink::{Destination, Outlet, SinkError};
use ibnet::sweep::driver::{Driver, Settings};
use ibnet::sweep::plan::Plan;
use ibnet::sweep::record::line::{self, Line};
use ibnet::topology::NetFileError;
use ibnet::types::{Lid, PortNum};
use ibnet::view;
use miette::Diagnostic;

use self::lanes::{Lane, Work};
use self::service::{Job, Service};

mod lanes;
mod metrics;
mod query;
mod service;

/// Asks every assigned port for its counters once a slot and writes a JSON line of each.
#[derive(Debug, Parser)]
#[command(name = "ibnet-sweep", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration; every flag below overrides its key
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What ibnet-gen wrote
    #[arg(long, value_name = "FILE")]
    assignments: Option<String>,
    /// Which sampler of it this is [default: this host's short name]
    #[arg(long, value_name = "HOST")]
    sampler: Option<String>,
    /// What `ibnetdiscover -p` printed: sweep all of it from here
    #[arg(long, value_name = "FILE")]
    net: Option<String>,
    /// Sweep the fabric of this net file simulated in this process, without InfiniBand
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Time between two slots [default: 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// End after so many slots
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sweeps: Option<u64>,
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
    /// Sweep one slot and print it as a table
    #[arg(long, conflicts_with_all = ["sweeps", "output"])]
    once: bool,
    /// Print the configuration that results, and end
    #[arg(long)]
    print_config: bool,
}

/// What else there is to do than to sweep.
#[derive(Debug, Subcommand)]
enum Command {
    Query(query::Args),
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep --assignments assignments.toml -o /var/log/ibnet/lines.jsonl
  ibnet-sweep --net fabric.p --sweeps 10 | jq 'select(.type == \"sweep\")'
  ibnet-sweep --simulate fabric.p --once
  ibnet-sweep -c ibnet.toml --print-config
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
    #[diagnostic(help("is there room on the disk? What stands above says what failed"))]
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
        None => run(&args),
        Some(Command::Query(args)) => query::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = cli::fail(&failure);
            // A value that was given as an argument is a wrong argument.
            if args.gave(&failure) { ExitCode::from(USAGE) } else { code }
        }
    }
}

/// The exit code for wrong arguments.
const USAGE: u8 = 2;

fn run(args: &Args) -> Result<(), Failure> {
    let raw = args.raw()?;
    if args.print_config {
        return cli::print(toml::to_string(&raw).unwrap_or_default().as_bytes()).map_err(Failure::Stdout);
    }
    let config = raw.check()?;
    args.check_output(&config)?;
    let work = Work::load(&config)?;
    let lanes = work.lanes(&config);
    let settings = |lane: &Lane, (ca, ca_port): (String, PortNum)| {
        let (aligned, sweeps) = if args.once { (false, Some(1)) } else { (true, args.sweeps) };
        Settings { ca, ca_port, aligned, sweeps, ..work.settings(lane, &config) }
    };
    if let Some(fabric) = lanes::simulated(&config)? {
        let start = |lane: &Lane| {
            let (plan, settings) = (Plan::new(&lane.share), settings(lane, lanes::simulated_name(&lane.ca)));
            let transport = SimTransport::new(Arc::clone(&fabric));
            Ok(move |outlet| Driver::new(plan, settings, transport, outlet, cli::random_seed()))
        };
        return sweep(args, &config, work.peers.clone(), lanes.iter().map(start).collect::<Result<_, Failure>>()?);
    }
    #[cfg(feature = "umad")]
    {
        let start = |lane: &Lane| {
            let (port, pkey_index) = lanes::hca_port(&config, &lane.ca)?;
            let transport = UmadTransport::open(&port)?;
            let mut settings = settings(lane, (port.ca.clone(), port.port));
            settings.engine.pkey_index = pkey_index;
            let (plan, once, pkey) = (Plan::new(&lane.share), args.once, config.pkey);
            Ok(move |outlet| {
                let driver = Driver::new(plan, settings, transport, outlet, cli::random_seed());
                // Who wants to see one slot wants to see what is wrong.
                if once { driver } else { driver.reopening(lanes::reopen(port, pkey)) }
            })
        };
        sweep(args, &config, work.peers.clone(), lanes.iter().map(start).collect::<Result<_, Failure>>()?)
    }
    #[cfg(not(feature = "umad"))]
    Err(Failure::NoUmad)
}

impl Args {
    /// Whether the value that is wrong was given here.
    fn gave(&self, failure: &Failure) -> bool {
        if let Some(Command::Query(args)) = &self.command {
            return args.gave(failure);
        }
        let Failure::Config(ConfigError::Value { key, .. }) = failure else { return false };
        match *key {
            "interval" => self.interval.is_some(),
            "groups" => self.groups.is_some(),
            "window" => self.window.is_some(),
            "timeout" => self.timeout.is_some(),
            "grace" => self.grace.is_some(),
            "ca" => self.ca.is_some(),
            "sl" => self.sl.is_some(),
            "pkey" => self.pkey.is_some(),
            _ => false,
        }
    }

    /// Refuses to append records to a file that is read.
    fn check_output(&self, config: &Config) -> Result<(), Failure> {
        let Destination::File(output) = &config.output else { return Ok(()) };
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
        let same = |path: &PathBuf| path.canonicalize().ok().is_some_and(|path| output.canonicalize().ok() == Some(path));
        match inputs.into_iter().find(|(_, path)| path.is_some_and(same)) {
            Some((input, _)) => Err(Failure::OverInput { output: output.display().to_string(), input }),
            None => Ok(()),
        }
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
            (&self.output, &mut raw.output),
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
fn sweep<T, D>(args: &Args, config: &Config, peers: Peers, lanes: Vec<D>) -> Result<(), Failure>
where
    T: Transport + Send + 'static,
    D: FnOnce(Outlet) -> Driver<T>,
{
    // Fewer CPUs than lanes are shared.
    let cpu = |lane: usize| (!config.cpus.is_empty()).then(|| config.cpus[lane % config.cpus.len()]);
    let slots = args.sweeps.map(|sweeps| sweeps * lanes.len() as u64);
    let service = Service::new()?;
    let jobs = |outlet: Outlet, metrics: Option<Arc<Metrics>>| {
        let job = |(lane, driver): (usize, D)| {
            let metrics = metrics.as_ref().map(Metrics::lane);
            Job { driver: driver(outlet.clone()), cpu: cpu(lane), metrics }
        };
        lanes.into_iter().enumerate().map(job).collect::<Vec<_>>()
    };
    if args.once {
        let (outlet, lines) = Destination::memory();
        service.run(jobs(outlet, None), None, &Progress::hidden())?;
        return print_table(&lines.text());
    }
    let metrics = metrics::serve(config, peers)?;
    let (outlet, writer) = config.output.open()?;
    // A bar among lines on one terminal would spoil both.
    let alone = config.output != Destination::Stdout || !std::io::stdout().is_terminal();
    let bar = slots.filter(|_| alone).map_or_else(Progress::hidden, |slots| Progress::new(slots, "slots"));
    service.run(jobs(outlet, metrics), Some(writer), &bar)
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
