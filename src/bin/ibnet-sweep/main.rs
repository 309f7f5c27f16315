//! `ibnet-sweep`: asks every assigned port for its counters once a slot and writes a JSON line of each.
//!
//! Arguments in, library calls, lines and exit code out. The MADs are sent by one plain thread; the lines are written by another; signals are
//! waited for here. `ibnet-sweep query` looks at one port instead.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clap::{Parser, Subcommand};
use ibnet::assignments::{Assignments, AssignmentsError, Sampler};
use ibnet::cli::{self, Progress};
use ibnet::config::{Config, ConfigError, Plan as Source, Raw, Sl};
use ibnet::mad::transport::sim::{self, SimFabric, SimTransport};
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::{HcaPort, UmadTransport, ports};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::sink::{Destination, Ended, Outlet, SinkError, Writer};
use ibnet::sweep::driver::{Control, Driver, Settings};
#[cfg(feature = "umad")]
use ibnet::sweep::driver::{OpenError, Opened};
use ibnet::sweep::plan::Plan;
use ibnet::sweep::record::line::{self, Line};
use ibnet::topology::{DeviceId, NetFile, NetFileError, net_file};
use ibnet::types::{HcaName, Lid, PortNum, Printable};
use ibnet::view;
use miette::Diagnostic;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};

mod query;

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
    /// What `ibnetdiscover` or `ibnetdiscover -p` printed: sweep all of it from here
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
    /// HCA that sends [default: the only active InfiniBand port]
    #[arg(long, value_name = "NAME[:PORT]")]
    ca: Option<String>,
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
    let Work { sampler, sha256 } = Work::load(&config)?;
    let mut ca = config.ca.clone();
    // What is said here comes before what the assignments file says.
    if ca.ca.is_none() {
        ca.ca.clone_from(&sampler.ca);
        ca.port = sampler.ca_port;
    }
    let way = Way::find(&config, ca)?;
    let (ca, ca_port) = way.name();
    let mut engine = config.engine.clone();
    engine.pkey_index = way.pkey_index(&config)?;
    let settings = Settings {
        sampler: sampler.host.clone(),
        ca,
        ca_port,
        interval: config.interval,
        offset: config.interval.mul_f64(sampler.offset.unwrap_or(0.0)),
        aligned: !args.once,
        sweeps: if args.once { Some(1) } else { args.sweeps },
        assignments_sha256: sha256,
        engine,
    };
    let plan = Plan::new(&sampler);
    match way {
        Way::Simulated(fabric) => sweep(args, &config, settings, |settings, outlet| {
            Driver::new(plan, settings, SimTransport::new(fabric), outlet, cli::random_seed())
        }),
        #[cfg(feature = "umad")]
        Way::Hca(port) => {
            let transport = UmadTransport::open(&port)?;
            let once = args.once;
            sweep(args, &config, settings, |settings, outlet| {
                let driver = Driver::new(plan, settings, transport, outlet, cli::random_seed());
                // Who wants to see one slot wants to see what is wrong.
                if once { driver } else { driver.reopening(reopen(port, config.pkey)) }
            })
        }
    }
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
            (&self.ca, &mut raw.ca),
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
        if let Some(window) = self.window {
            raw.window = window;
        }
        if let Some(sl) = &self.sl {
            raw.sl = Sl::Word(sl.clone());
        }
        Ok(raw)
    }
}

/// What is to be swept, by whom.
struct Work {
    sampler: Sampler,
    sha256: Option<String>,
}

impl Work {
    fn load(config: &Config) -> Result<Self, Failure> {
        let host = config.sampler.clone().unwrap_or_else(cli::short_host_name);
        match &config.plan {
            Source::Assignments(path) => {
                let loaded = Assignments::read(path)?;
                let sampler = loaded.assignments.sampler(&host)?.clone();
                Ok(Self { sampler, sha256: Some(loaded.sha256) })
            }
            Source::Net(path) => {
                let net = read_net(path)?;
                let (sampler, left_out) = Sampler::everything(&net.fabric, &host);
                if !left_out.is_empty() {
                    tracing::info!(devices = left_out.len(), "left out: routers, aggregation nodes, devices without a LID");
                }
                let source_name = path.display().to_string();
                if sampler.port_count == 0 { Err(Failure::NothingLinked { source_name }) } else { Ok(Self { sampler, sha256: None }) }
            }
        }
    }
}

/// Reads a net file; what a person should know of it goes to the log.
fn read_net(path: &std::path::Path) -> Result<NetFile, NetFileError> {
    let net = net_file::read(path)?;
    let name = path.display().to_string();
    let mut counts = std::collections::BTreeMap::new();
    for remark in &net.remarks {
        *counts.entry(remark.kind).or_insert(0) += 1;
        tracing::debug!("{}: {}", Printable(&name), Printable(&remark.to_string()));
    }
    for (kind, lines) in counts {
        tracing::warn!(lines, "{}: {} (RUST_LOG=ibnet=debug names them)", Printable(&name), kind.as_str());
    }
    Ok(net)
}

/// The way to the fabric.
enum Way {
    Simulated(Arc<Mutex<SimFabric>>),
    #[cfg(feature = "umad")]
    Hca(HcaPort),
}

impl Way {
    #[cfg_attr(not(feature = "umad"), expect(unused_variables, reason = "there are no adapters"))]
    fn find(config: &Config, ca: HcaName) -> Result<Self, Failure> {
        if let Some(path) = &config.simulate {
            let net = read_net(path)?;
            let options = sim::Options { loss: config.simulated.loss, seed: config.simulated.seed, ..sim::Options::default() };
            let mut fabric = SimFabric::new(net.fabric, options);
            for name in &config.simulated.dead {
                let named: Vec<DeviceId> =
                    fabric.fabric().iter().filter(|(_, device)| device.name == *name || device.host() == name).map(|(id, _)| id).collect();
                if named.is_empty() {
                    return Err(Failure::NoSuchDevice { name: name.clone(), net: path.display().to_string() });
                }
                named.into_iter().for_each(|id| fabric.set_dead(id, true));
            }
            return Ok(Self::Simulated(Arc::new(Mutex::new(fabric))));
        }
        #[cfg(feature = "umad")]
        {
            let port = ports::find(&ca)?;
            if config.pkey & 0x8000 == 0 {
                tracing::warn!(pkey = format!("{:#06x}", config.pkey), "this is a limited member's P_Key: only full members answer it");
            }
            if port.sm_lid.0 == 0 {
                tracing::warn!(%port, "no subnet manager is known here; LIDs may not lead anywhere");
            }
            Ok(Self::Hca(port))
        }
        #[cfg(not(feature = "umad"))]
        Err(Failure::NoUmad)
    }

    fn name(&self) -> (String, PortNum) {
        match self {
            Self::Simulated(_) => ("sim".to_owned(), PortNum(1)),
            #[cfg(feature = "umad")]
            Self::Hca(port) => (port.ca.clone(), port.port),
        }
    }

    #[cfg_attr(not(feature = "umad"), expect(unused_variables, clippy::unnecessary_wraps, reason = "there is no table of keys"))]
    fn pkey_index(&self, config: &Config) -> Result<u16, Failure> {
        match self {
            Self::Simulated(_) => Ok(0),
            #[cfg(feature = "umad")]
            Self::Hca(port) => Ok(port.pkey_index(config.pkey)?),
        }
    }
}

/// Opens the same port again, once it is active and has our P_Key.
#[cfg(feature = "umad")]
fn reopen(port: HcaPort, pkey: u16) -> impl Fn() -> Result<Opened<UmadTransport>, OpenError> + Clone + Send + 'static {
    let name = HcaName { ca: Some(port.ca), port: Some(port.port) };
    move || {
        let port = ports::find(&name)?;
        Ok(Opened { pkey_index: port.pkey_index(pkey)?, transport: UmadTransport::open(&port)? })
    }
}

/// After a stop the threads have this long to end; then the program ends without them.
const STOP_BUDGET: Duration = Duration::from_millis(900);

/// After a stop the process has this long to end, its exit handlers included.
#[cfg(feature = "umad")]
const LAST_RESORT: Duration = Duration::from_millis(980);

/// Sweeps into the output, or one slot into a table.
fn sweep<T: Transport + Send + 'static>(
    args: &Args,
    config: &Config,
    settings: Settings,
    driver: impl FnOnce(Settings, Outlet) -> Driver<T>,
) -> Result<(), Failure> {
    if args.once {
        let (outlet, lines) = Destination::memory();
        Service::new()?.run(driver(settings, outlet), None, Progress::hidden())?;
        return print_table(&lines.text());
    }
    let service = Service::new()?;
    let (outlet, writer) = config.output.open()?;
    // A bar among lines on one terminal would spoil both.
    let alone = config.output != Destination::Stdout || !std::io::stdout().is_terminal();
    let bar = args.sweeps.filter(|_| alone).map_or_else(Progress::hidden, |sweeps| Progress::new(sweeps, "slots"));
    service.run(driver(settings, outlet), Some(writer), bar)
}

/// Prints the ports of a slot, and the slot.
fn print_table(lines: &str) -> Result<(), Failure> {
    let (mut ports, mut sweep) = (Vec::new(), None);
    for line in lines.lines().filter_map(|text| line::parse(text).ok()) {
        match line {
            Line::Port(port) => ports.push(*port),
            Line::Sweep(record) => sweep = Some(record),
            Line::Start(_) | Line::Histogram(_) | Line::Event(_) => {}
        }
    }
    ports.sort_by(|a, b| (&a.node, a.guid, a.port).cmp(&(&b.node, b.guid, b.port)));
    cli::print(view::once::show(&ports, sweep.as_ref()).as_bytes()).map_err(Failure::Stdout)
}

/// Threads, and the signals that end them.
struct Service {
    runtime: Runtime,
    signals: cli::Signals,
}

impl Service {
    /// Signals are waited for from now on: before the first line is written, as who reads it may send one at once.
    fn new() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
        let signals = runtime.block_on(async { cli::Signals::new() }).map_err(Failure::Runtime)?;
        Ok(Self { runtime, signals })
    }

    /// Runs driver and writer on threads of their own, until both have ended; or until a signal comes, or nobody reads the output any more, and
    /// then for [`STOP_BUDGET`] at most: the sender may stand still inside a write, and so may the writer.
    fn run<T: Transport + Send + 'static>(mut self, driver: Driver<T>, writer: Option<Writer>, bar: Progress) -> Result<(), Failure> {
        let (control, reader_gone) = (Arc::new(Control::default()), Arc::new(Notify::new()));
        let (driven, driver_done) = oneshot::channel();
        let (written, writer_done) = oneshot::channel();
        let for_writer = Arc::clone(&reader_gone);
        spawn("writer", move || {
            let ended = writer.map_or(Ended::Complete, Writer::run);
            if ended == Ended::ReaderGone {
                for_writer.notify_one();
            }
            let _ = written.send(ended);
        })?;
        let for_driver = Arc::clone(&control);
        spawn("mads", move || {
            let result = driver.run(&for_driver, |report| bar.set(report.done));
            bar.finish();
            let _ = driven.send(result);
        })?;
        self.runtime.block_on(async {
            let both = async {
                let result = driver_done.await.map_err(|_| Failure::Crashed)?.map_err(Failure::Lost);
                // The driver's outlet is gone with it: the writer writes what is left, and ends.
                match writer_done.await.map_err(|_| Failure::Crashed)? {
                    Ended::Untold { lines } => result.and(Err(Failure::Unwritten { lines })),
                    Ended::Complete | Ended::ReaderGone => result,
                }
            };
            tokio::pin!(both);
            tokio::select! {
                result = &mut both => return result,
                () = reader_gone.notified() => tracing::debug!("nobody reads standard output any more"),
                signal = self.signals.next() => tracing::info!(signal, "stopping"),
            }
            control.stop();
            #[cfg(feature = "umad")]
            spawn("last-resort", || {
                // The exit handlers of what stands in for the kernel may wait for ever.
                thread::sleep(LAST_RESORT);
                ibnet::mad::transport::umad::end_process(0);
            })?;
            tokio::time::timeout(STOP_BUDGET, both).await.unwrap_or_else(|_| {
                tracing::warn!("the sender or the output stands still; ending without what is left");
                Ok(())
            })
        })
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(|_| ()).map_err(Failure::Runtime)
}
