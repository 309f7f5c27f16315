//! `ibnet-hub`: the live view of a fabric in a browser.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ibnet::cli::{self, LevelFilter};
use ibnet_hub::config::{Raw, RawInput};
use ibnet_hub::error::HubError;
use ibnet_hub::program;

/// Show a fabric live in a browser: congestion, links, errors, the last minutes and hours
#[derive(Debug, Parser)]
#[command(name = "ibnet-hub", version, after_help = EXAMPLES)]
struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Source of records, any number of times: tcp://host:port, unix:///path, file:PATTERN,
    /// nats://host:port/subject, or - for standard input
    #[arg(long, value_name = "URL")]
    input: Vec<String>,
    /// Net file of the fabric: also show ports that no sampler queries
    #[arg(long, value_name = "FILE")]
    net: Option<String>,
    /// Address of the page [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Time for which all records are kept in memory [default: 15m]
    #[arg(long, value_name = "TIME")]
    recent: Option<String>,
    /// Archive: pack what the hub gathers into this folder, and read it for the time before the
    /// records in memory
    #[arg(long, value_name = "DIR")]
    archive: Option<String>,
    /// Jobs: a file, or `slurm` or `pbs` to ask the resource manager once a minute
    #[arg(long, value_name = "FILE")]
    jobs: Option<String>,
    /// Group of hosts, such as `storage=oss*,mds*`: a name and a host list. Repeatable
    #[arg(long = "group", value_name = "NAME=HOSTLIST")]
    groups: Vec<String>,
    /// Simulate the fabric of a net file and its samplers in this process
    #[arg(long, value_name = "FILE")]
    simulate: Option<String>,
    /// Traffic of the simulated fabric: jobs or incast [default: incast]
    #[arg(long, value_name = "NAME", requires = "simulate")]
    scenario: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-hub --simulate fabric.p
  ibnet-hub --input tcp://node00001:9331 --input tcp://node00025:9331
  ibnet-hub --input 'file:/var/log/ibnet/lines*.jsonl*' --net fabric.p
  ibnet-sweep --net fabric.p | ibnet-hub --input -
  ibnet-hub -c /etc/ibnet/ibnet-hub.toml

The address of the page goes to standard output, the log to standard error.
docs/hub.md describes the web page and the HTTP API.

Exit codes:
  0  stopped by SIGINT or SIGTERM
  1  the input or the environment is wrong
  2  the arguments are wrong
  4  a thread of the hub has panicked";

/// Exit code: a thread of the hub has panicked.
const PANICKED: u8 = 4;

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    cli::log_to_stderr(LevelFilter::INFO);
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = cli::fail(&error);
            if matches!(error, HubError::Panicked { .. }) {
                ExitCode::from(PANICKED)
            } else {
                code
            }
        }
    }
}

fn run(args: Args) -> Result<(), HubError> {
    let mut raw = args
        .config
        .as_deref()
        .map(Raw::read)
        .transpose()?
        .unwrap_or_default();
    raw.inputs.extend(args.input.into_iter().map(RawInput::Url));
    raw.groups.extend(args.groups);
    let flags = [
        (&mut raw.net, args.net),
        (&mut raw.listen, args.listen),
        (&mut raw.recent, args.recent),
        (&mut raw.archive, args.archive),
        (&mut raw.jobs, args.jobs),
        (&mut raw.simulate, args.simulate),
        (&mut raw.simulated.scenario, args.scenario),
    ];
    for (key, flag) in flags {
        if let Some(value) = flag {
            *key = value;
        }
    }
    program::run(&raw.check()?, |url| {
        tracing::info!(%url, "serving the web page and the API");
        // If standard output is closed, the log still has the address.
        let _ = cli::print_line(url);
    })
}
