//! `ibnet-sweep`: asks every assigned port for its counters once a slot and writes a JSON line of each.
//!
//! Arguments in, library calls, lines and exit code out. The MADs are sent by one plain thread; the lines are written by another; signals are
//! waited for here. `ibnet-sweep query` looks at one port instead.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use ibnet::cli::{self, Progress};
use ibnet::config::Config;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::SimTransport;
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::UmadTransport;
use ibnet::metrics::Metrics;
use ibnet::sink::{self, Destination, Outlet};
use ibnet::sweep::driver::{Driver, Settings};
use ibnet::sweep::plan::Plan;
use ibnet::sweep::record::line::{self, Line};

use self::failure::Failure;
use self::flags::Flags;
use self::reload::{Identity, Prepare, Setup, Start, Watch};
use self::service::{Job, Reload, Service};
use self::workers::Lane;

mod check;
mod failure;
mod flags;
mod metrics;
mod once;
mod query;
mod reload;
mod service;
mod systemd;
mod table;
mod workers;

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
    if let Some(fabric) = workers::simulated(&setup.config)? {
        let prepare = move |_: &Config, lane: &Lane, settings| {
            let (ca, ca_port) = workers::simulated_name(&lane.ca);
            let (plan, settings) = (Plan::new(&lane.share), Settings { ca, ca_port, ..settings });
            let transport = SimTransport::new(Arc::clone(&fabric));
            Ok(Box::new(move |outlet| Driver::new(plan, settings, transport, outlet, cli::random_seed())) as Start<_>)
        };
        return sweep(args, setup, Box::new(prepare));
    }
    #[cfg(feature = "umad")]
    {
        let once = args.once;
        let prepare = move |config: &Config, lane: &Lane, mut settings: Settings| {
            let (port, pkey_index) = workers::hca_port(config, &lane.ca)?;
            let transport = UmadTransport::open(&port)?;
            (settings.ca, settings.ca_port, settings.engine.pkey_index) = (port.ca.clone(), port.port, pkey_index);
            let (plan, pkey) = (Plan::new(&lane.share), config.pkey);
            Ok(Box::new(move |outlet| {
                let driver = Driver::new(plan, settings, transport, outlet, cli::random_seed());
                // Who wants to see one slot wants to see what is wrong.
                if once { driver } else { driver.reopening(workers::reopen(port, pkey)) }
            }) as Start<_>)
        };
        sweep(args, setup, Box::new(prepare))
    }
    #[cfg(not(feature = "umad"))]
    Err(Failure::NoUmad)
}

/// Sweeps all lanes into the output, or one slot of each into a table.
fn sweep<T: Transport + Send + 'static>(args: &Args, setup: Setup, prepare: Prepare<T>) -> Result<(), Failure> {
    let (aligned, sweeps) = if args.once { (false, Some(1)) } else { (true, args.sweeps) };
    let lanes = setup.lanes(|settings| Settings { aligned, sweeps, ..settings });
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
    cli::print(once::show(&ports, &sweeps).as_bytes()).map_err(Failure::Stdout)
}
