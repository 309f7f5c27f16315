//! `ibnet-hub`: the live view of a fabric.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ibnet::cli;
use ibnet_hub::program::{self, Settings};

/// Show a fabric live in a browser
#[derive(Debug, Parser)]
#[command(name = "ibnet-hub", version)]
struct Args {
    /// Source of records: tcp://host:port, unix:///path, file:PATTERN, nats://host:port/subject, or - for standard input
    #[arg(long, value_name = "URL")]
    input: Vec<String>,
    /// Net file of the fabric: shows ports that no sampler queries
    #[arg(long, value_name = "FILE")]
    net: Option<PathBuf>,
    /// Address of the page
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Time for which all records are kept in memory
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = humantime::parse_duration)]
    recent: Duration,
}

fn main() -> ExitCode {
    let args: Args = match cli::arguments() {
        Ok(args) => args,
        Err(code) => return code,
    };
    cli::log_to_stderr();
    let settings = Settings {
        inputs: args.input,
        net: args.net,
        listen: args.listen,
        recent: args.recent,
        recent_max: 1 << 30,
        history: Duration::from_secs(86_400),
        history_max: 256 << 20,
        fabric: String::new(),
    };
    let result = program::run(&settings, |url| {
        // If standard output is closed, the log still has the address.
        let _ = cli::print_line(url);
        tracing::info!(%url, "serving");
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => cli::fail(&error),
    }
}
