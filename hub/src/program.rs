//! Starts and stops the hub.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet::cli::Signals;
use ibnet::topology::{NetFileError, net_file};
use miette::Diagnostic;

use crate::http::{routes, server};
use crate::ingest::{self, Clock};
use crate::input::{self, Input};
use crate::state::Hub;
use crate::store::Limits;

/// Why the hub cannot run.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum HubError {
    /// The URL of an input is wrong.
    #[error("cannot use the input {found:?}: expected {expected}")]
    #[diagnostic(help("give `--input` once for each input, for example --input tcp://node00001:9000"))]
    Input {
        /// The URL.
        found: String,
        /// The forms of URLs.
        expected: &'static str,
    },
    /// There is no input.
    #[error("cannot start: there is no input")]
    #[diagnostic(help("give `--input URL` or `--simulate FILE`, or set `inputs` in the configuration"))]
    NoInput,
    /// The net file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Net(#[from] NetFileError),
    /// The address cannot be bound.
    #[error("cannot listen on {listen}")]
    #[diagnostic(help(
        "another program may use the address (see `ss -ltnp`), or the address does not belong to this host; give a free address with `--listen`"
    ))]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A thread or the runtime cannot be started.
    #[error("cannot start a thread")]
    #[diagnostic(help("check the limits of the user: `ulimit -u`, TasksMax= of the unit"))]
    Thread(#[source] io::Error),
}

/// What the hub does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URLs of the inputs.
    pub inputs: Vec<String>,
    /// Net file of the fabric.
    pub net: Option<PathBuf>,
    /// Address of the server.
    pub listen: SocketAddr,
    /// Time for which all records are kept.
    pub recent: Duration,
    /// Largest size of these records in octets.
    pub recent_max: usize,
    /// Time for which the means of minutes are kept.
    pub history: Duration,
    /// Largest size of these means in octets.
    pub history_max: usize,
    /// Name of the fabric on the page.
    pub fabric: String,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs the hub until a signal stops it. Calls `ready` with the URL of the page.
///
/// # Errors
/// Returns an error if the hub cannot start.
pub fn run(settings: &Settings, ready: impl FnOnce(&str)) -> Result<(), HubError> {
    let inputs = settings.inputs.iter().map(|text| parse_input(text)).collect::<Result<Vec<_>, _>>()?;
    if inputs.is_empty() {
        return Err(HubError::NoInput);
    }
    let limits = Limits {
        recent_ns: nanos(settings.recent),
        recent_max: settings.recent_max,
        minutes_ns: nanos(settings.history),
        minutes_max: settings.history_max,
    };
    let names: Vec<Arc<str>> = inputs.iter().map(|input| input.to_string().into()).collect();
    let hub = Arc::new(Hub::new(settings.fabric.clone(), limits, &names));
    if let Some(net) = &settings.net {
        hub.write().add_fabric(&net_file::read(net)?.fabric);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HubError::Thread)?;
    let failed = |source| HubError::Listen { listen: settings.listen, source };
    let server = runtime.block_on(server::Server::bind(settings.listen)).map_err(failed)?;
    let (senders, messages) = input::queue(inputs.len());
    let clock = Clock::start();
    let of_thread = Arc::clone(&hub);
    thread::Builder::new().name("records".to_owned()).spawn(move || ingest::run(&of_thread, &messages, clock)).map_err(HubError::Thread)?;
    for (input, sender) in inputs.into_iter().zip(senders) {
        input::start(input, sender, input::Options { recent: settings.recent }).map_err(HubError::Thread)?;
    }
    ready(&format!("http://{}", server.address()));
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(HubError::Thread)?;
        tokio::select! {
            () = server.serve(routes::router(hub)) => {}
            signal = signals.next() => tracing::info!(signal, "stopping"),
        }
        Ok(())
    })
}

fn parse_input(text: &str) -> Result<Input, HubError> {
    text.parse().map_err(|error: ibnet::types::ParseError| HubError::Input { found: error.found, expected: error.expected })
}
