//! `ibnet-sweep`: queries the counters of every assigned port once per slot, and writes them as
//! JSON lines. A slot is one numbered interval, one second by default.
//!
//! Each HCA port has a thread that sends the MADs, and each output has a thread that writes the
//! records, while the main thread waits for signals. The other commands are:
//!
//! | command | task |
//! |---|---|
//! | `check` | tests everything that a sweep needs |
//! | `query` | queries one port |
//! | `verify` | compares ibnet with libibmad |
//! | `status` | shows the condition of all samplers |
//! | `collect` | writes the records of a NATS server to files |
//! | `schema` | prints the types of the fields of the records |

use std::io::IsTerminal;
#[cfg(feature = "umad")]
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use ibnet::cli::{self, Progress};
use ibnet::config::Config;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::SimTransport;
#[cfg(feature = "umad")]
use ibnet::mad::transport::umad::{self, UmadTransport};
use ibnet::metrics::Metrics;
use ibnet::output::{self, Destination};
use ibnet::sweep::driver::{Driver, DriverSettings, Opened, SlotReport, SystemClock};

use self::failure::Failure;
use self::flags::{DEFAULT_CONFIG, Flags};
use self::once::OneSlot;
use self::reload::{MakeDriver, Prepare, Setup};
use self::service::Service;
use self::streams::Streams;
use self::summary::Summary;
use self::supervisor::{Applied, MakeObservers, NewWorker, Observer, Reload};
use self::watch::{Reader, Stamped};
use self::workers::Share;

mod check;
mod clock;
#[cfg(feature = "nats")]
mod collect;
mod cpu;
mod failure;
mod flags;
mod loader;
mod metrics;
mod once;
#[cfg(feature = "nats")]
mod only_stream;
#[cfg(feature = "nats")]
mod payload;
mod query;
mod receiving;
mod reload;
mod schema;
mod service;
mod simulation;
mod status;
mod streams;
mod summary;
mod supervisor;
mod systemd;
mod table;
mod verify;
mod watch;
mod workers;

/// Query the counters of every assigned port once per slot (one second by default), and write them
/// as JSON lines
#[derive(Debug, Parser)]
#[command(name = "ibnet-sweep", version, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: Flags,
    /// Stop after N slots. A newer plan or configuration is not read
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    sweeps: Option<u64>,
    /// Query each port once, print the result as a table, and stop
    #[arg(long, conflicts_with_all = ["sweeps", "output", "summary"])]
    once: bool,
    /// At the end, print a summary to standard error: durations, MADs per second, the busiest links
    #[arg(long)]
    summary: bool,
    /// Print the configuration in use with the origin of each value, and exit
    #[arg(long)]
    print_config: bool,
    /// Log more: each slot, and with -vv each MAD. RUST_LOG overrides this
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Log errors only
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

impl Args {
    /// Returns the level of the log.
    fn level(&self) -> cli::LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => cli::LevelFilter::ERROR,
            (false, 0) => cli::LevelFilter::INFO,
            (false, 1) => cli::LevelFilter::DEBUG,
            (false, _) => cli::LevelFilter::TRACE,
        }
    }

    /// Moves the flags before a command to the command, so that `ibnet-sweep -c FILE check` is
    /// the same as `ibnet-sweep check -c FILE`.
    fn with_flags_of_command(mut self) -> Result<Self, clap::Error> {
        let conflict = |text: &str| Err(Self::command().error(ErrorKind::ArgumentConflict, text));
        let is_sweep = self.sweeps.is_some() || self.once || self.summary || self.print_config;
        if self.command.is_some() && is_sweep {
            return conflict(
                "a command cannot be used with --sweeps, --once, --summary or --print-config",
            );
        }
        let is_valid = match &mut self.command {
            None => {
                let has_input = self.flags.use_default_config(Path::new(DEFAULT_CONFIG));
                if self.once && !has_input {
                    self.flags.use_fabric();
                }
                true
            }
            Some(Command::Check(check)) => check.take_flags(&self.flags),
            Some(Command::Query(query)) => query.take_flags(&self.flags),
            Some(Command::Schema(_)) => self.flags.only_config() == Some(None),
            Some(Command::Verify(verify)) => verify.take_flags(&self.flags),
            Some(Command::Status(status)) => status.take_flags(&self.flags),
            #[cfg(feature = "nats")]
            Some(Command::Collect(collect)) => collect.take_flags(&self.flags),
        };
        if !is_valid {
            return conflict(
                "a flag before a command is also given after it, or is no flag of the command",
            );
        }
        Ok(self)
    }
}

/// Commands other than a sweep.
#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Query(query::Args),
    Schema(schema::Args),
    Verify(verify::Args),
    Status(status::Args),
    #[cfg(feature = "nats")]
    Collect(collect::Args),
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep --once --net umad
  ibnet-sweep --assignments assignments.toml -o /var/log/ibnet/lines.jsonl
  ibnet-sweep --net fabric.p --sweeps 10 | jq 'select(.type == \"sweep\")'
  ibnet-sweep --simulate fabric.p --once
  ibnet-sweep --simulate fabric.p --scenario incast --sweeps 20 --summary -o out/
  ibnet-sweep --simulate fabric.p --assignments plan.toml --sampler all -o out/
  ibnet-sweep -c ibnet.toml --print-config
  ibnet-sweep check -c ibnet.toml
  ibnet-sweep query 23 1
  ibnet-sweep schema --format polars > ibnet_schema.py
  ibnet-sweep verify --net fabric.p --report verify.json
  ibnet-sweep status --from nats://admin1:4222 --assignments plan.toml

--sampler all sweeps all samplers of the plan on one simulated fabric. With
-o DIR/ each sampler writes its own file DIR/SAMPLER.jsonl; any other output
gets the records of all samplers.

Without -c, --assignments, --net and --simulate, the configuration is
/etc/ibnet/ibnet.toml if this file exists. Otherwise --once discovers the fabric.

The log goes to standard error; RUST_LOG=ibnet=debug logs each slot.

Exit codes:
  0  done, or stopped by SIGINT or SIGTERM
  1  the input or the environment is wrong
  2  the arguments are wrong
  3  verify found a difference, or status found a fault
  4  records for a file, standard output or NATS were dropped at the end,
     or a worker failed";

/// Exit code: the arguments are wrong.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let args = match cli::arguments().and_then(|args: Args| {
        args.with_flags_of_command()
            .map_err(|error| cli::wrong_arguments(&error))
    }) {
        Ok(args) => args,
        Err(code) => return code,
    };
    cli::log_to_stderr(args.level());
    let code = work(&args);
    end(code)
}

/// Runs the command, and returns the exit code.
fn work(args: &Args) -> u8 {
    let result = match &args.command {
        None => run(args).map(|()| 0),
        Some(Command::Check(args)) => check::run(args),
        Some(Command::Query(args)) => query::run(args).map(|()| 0),
        Some(Command::Schema(args)) => schema::run(args).map(|()| 0),
        Some(Command::Verify(args)) => verify::run(args),
        Some(Command::Status(args)) => status::run(args),
        #[cfg(feature = "nats")]
        Some(Command::Collect(args)) => collect::run(args).map(|()| 0),
    };
    let failure = match result {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    cli::fail(&failure);
    let is_argument = match &args.command {
        None => args.flags.gave(&failure),
        Some(Command::Check(_) | Command::Schema(_) | Command::Status(_)) => false,
        #[cfg(feature = "nats")]
        Some(Command::Collect(_)) => false,
        Some(Command::Query(args)) => args.gave(&failure),
        Some(Command::Verify(args)) => args.gave(&failure),
    };
    if is_argument {
        USAGE
    } else {
        failure.exit_code()
    }
}

/// Ends the process when all work is done, although threads may still use libibumad.
///
/// ibsim replaces system calls by a preloaded library. The exit handler of this library
/// disconnects from the simulator, and frees what a thread with an open port still needs, so the
/// ports are closed first. The handler can hang, because it waits for a reply of the simulator
/// and for a lock that a worker in a blocking write holds; the process then ends without it.
#[cfg(feature = "umad")]
fn end(code: u8) -> ExitCode {
    /// Max time for closing the ports and for the exit handlers.
    const LONGEST: std::time::Duration = std::time::Duration::from_millis(500);
    // If standard output cannot be written, the error was reported at the write that failed.
    let _ = std::io::stdout().flush();
    let end = move || {
        std::thread::sleep(LONGEST);
        umad::end_process(code.into());
    };
    // If the thread cannot be started, nothing is lost: only the exit handlers of ibsim may hang.
    let _ = std::thread::Builder::new()
        .name("exit".to_owned())
        .spawn(end);
    umad::wait_until_closed(LONGEST);
    ExitCode::from(code)
}

/// Ends the process.
#[cfg(not(feature = "umad"))]
fn end(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Runs a sweep.
fn run(args: &Args) -> Result<(), Failure> {
    if args.print_config {
        return args.flags.print();
    }
    let mut reader = Reader::default();
    let mut setup = Setup::load(&args.flags, &mut reader)?;
    setup.work = setup.work.present()?;
    setup.work.keep_copy();
    let read = reader.into_read();
    if setup.config.has_secret()
        && let Err(error) = cli::forbid_core_dumps()
    {
        tracing::warn!(%error, "cannot disable core dumps; a core dump would contain the passwords of this process");
    }
    if let Some(fabric) = simulation::build(&setup.config)? {
        let once = args.once;
        let prepare = move |config: &Config, share: &Share, settings| {
            let (ca, ca_port) = simulation::hca_name(&share.ca);
            let (plan, settings) = (
                share.plan(),
                DriverSettings {
                    ca,
                    ca_port,
                    ..settings
                },
            );
            let transport = SimTransport::new(Arc::clone(&fabric)).of_host(&share.block.host);
            let traps = (config.traps && !once).then(|| Arc::clone(&fabric));
            Ok(Box::new(move |outlet| {
                let driver = Driver::new(
                    plan,
                    settings,
                    transport,
                    SystemClock::start(),
                    outlet,
                    cli::random_seed(),
                );
                let Some(fabric) = traps else { return driver };
                driver.with_traps(cli::random_seed(), move || {
                    let transport = SimTransport::for_reports(Arc::clone(&fabric));
                    Ok(Opened {
                        transport,
                        hca: None,
                        pkey_index: 0,
                        pkey_table: Vec::new(),
                    })
                })
            }) as MakeDriver<_>)
        };
        return sweep(args, setup, read, Arc::new(prepare));
    }
    #[cfg(feature = "umad")]
    {
        let once = args.once;
        let prepare = move |config: &Config, share: &Share, mut settings: DriverSettings| {
            let (port, pkey_index) = workers::hca_port(config, &share.ca)?;
            let transport = UmadTransport::open(&port)?;
            (settings.ca, settings.ca_port, settings.engine.pkey_index) =
                (port.ca.clone(), port.port, pkey_index);
            settings.engine.pkey_table.clone_from(&port.pkeys);
            let (plan, pkey) = (share.plan(), config.pkey);
            let traps = config.traps && !once;
            Ok(Box::new(move |outlet| {
                let driver = Driver::new(
                    plan,
                    settings,
                    transport,
                    SystemClock::start(),
                    outlet,
                    cli::random_seed(),
                );
                // With only one slot, a lost connection is an error, because the sweep must not
                // wait until it is restored.
                let driver = if traps {
                    driver.with_traps(
                        cli::random_seed(),
                        workers::open_for_reports(port.clone(), pkey),
                    )
                } else {
                    driver
                };
                if once {
                    driver
                } else {
                    driver
                        .reconnecting(workers::reopen(port, pkey))
                        .watching(workers::watch_devices)
                }
            }) as MakeDriver<_>)
        };
        sweep(args, setup, read, Arc::new(prepare))
    }
    #[cfg(not(feature = "umad"))]
    Err(Failure::NoUmad)
}

/// Sweeps with all workers, whose records go to the outputs. With `--once`, one slot is printed
/// as a table instead.
fn sweep<T: Transport + Send + 'static>(
    args: &Args,
    setup: Setup,
    read: Vec<Stamped>,
    prepare: Prepare<T>,
) -> Result<(), Failure> {
    let (aligned, sweeps) = if args.once {
        (false, Some(1))
    } else {
        (true, args.sweeps)
    };
    let workers = setup.workers(|settings| DriverSettings {
        aligned,
        sweeps,
        ..settings
    });
    let slots = args.sweeps.map(|sweeps| sweeps * workers.len() as u64);
    let prepared = workers
        .into_iter()
        .map(|worker| Ok((worker.prepare(&setup.config, &prepare)?, worker)));
    let prepared: Vec<_> = prepared.collect::<Result<_, Failure>>()?;
    let service = Service::new()?;
    let start = |streams: &Streams, observers: &MakeObservers| {
        let worker = |(make_driver, setup): (MakeDriver<T>, _)| {
            let setup: reload::WorkerSetup = setup;
            let outlet = streams.outlet(&setup.settings().sampler)?;
            Ok(NewWorker {
                make_driver,
                outlet,
                setup,
                observers: observers(),
            })
        };
        prepared
            .into_iter()
            .map(worker)
            .collect::<Result<Vec<_>, Failure>>()
    };
    let config = &setup.config;
    if args.once {
        // Standard output is opened only to detect that it is closed.
        drop(output::open(&[Destination::Stdout.into()])?);
        let (table, observers) = shared_observer(OneSlot::add);
        let workers = start(&Streams::none()?, &observers)?;
        service.run(workers, Vec::new(), &Progress::hidden(), None, config.drain)?;
        let table = std::mem::take(&mut *table.lock().unwrap_or_else(PoisonError::into_inner));
        return cli::print(table.show().as_bytes()).map_err(Failure::Stdout);
    }
    let metrics = metrics::serve(config, setup.work.peers.clone())?;
    let (streams, writers) = Streams::open(&config.outputs, &setup.work.hosts())?;
    // The progress bar is hidden if records go to the same terminal.
    let is_bar_alone = config
        .outputs
        .iter()
        .all(|output| output.to != Destination::Stdout)
        || !std::io::stdout().is_terminal();
    let bar = slots
        .filter(|_| is_bar_alone)
        .map_or_else(Progress::hidden, |slots| Progress::new(slots, "slots"));
    let (summary, summarize) = shared_observer(Summary::add);
    let observers = observers(metrics.clone(), args.summary.then_some(summarize));
    let workers = start(&streams, &observers)?;
    let drain = config.drain;
    // A sweep of a fixed number of slots needs no reload.
    let reload = args.sweeps.is_none().then(|| Reload {
        flags: args.flags.clone(),
        prepare,
        read,
        running: Applied {
            raw: setup.raw,
            streams,
            metrics,
            observers,
        },
    });
    let result = service.run(workers, writers, &bar, reload, drain);
    if args.summary {
        cli::note(
            &summary
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .to_string(),
        );
    }
    result
}

/// Creates a value that collects the slots of all workers. Also returns a function that makes the
/// observers which add slots to this value.
fn shared_observer<V: Default + Send + 'static>(
    add: fn(&mut V, SlotReport<'_>),
) -> (Arc<Mutex<V>>, MakeObservers) {
    let value = Arc::new(Mutex::new(V::default()));
    let shared = Arc::clone(&value);
    let make = move || {
        let value = Arc::clone(&shared);
        let observe = move |report: SlotReport<'_>| {
            add(
                &mut value.lock().unwrap_or_else(PoisonError::into_inner),
                report,
            );
        };
        vec![Box::new(observe) as Observer]
    };
    (value, Box::new(make))
}

/// Returns a function that makes the observers of a worker: the metrics, and `others`.
fn observers(metrics: Option<Arc<Metrics>>, others: Option<MakeObservers>) -> MakeObservers {
    Box::new(move || {
        let mut observers = others.as_ref().map(|make| make()).unwrap_or_default();
        observers.extend(metrics.as_ref().map(|metrics| {
            let mut publisher = metrics.worker();
            Box::new(move |report: SlotReport<'_>| publisher.publish(report)) as Observer
        }));
        observers
    })
}
