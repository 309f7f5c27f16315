//! Starts and stops the hub.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ibnet::cli::Signals;
use ibnet::metrics::Secrets;
use ibnet::topology::net_file;
use ibnet_analysis::groups::Groups;

use crate::archive::Archive;
use crate::config::{Config, ConfigError, JobSource};
use crate::error::HubError;
use crate::http::{routes, server};
use crate::ingest::{self, Clock};
use crate::input::{self, Input};
use crate::jobs;
use crate::jobs::source::Source;
use crate::simulate::Prepared;
use crate::state::Hub;
use crate::store::Limits;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs the hub until a signal stops it. Calls `ready` with the URL of the page.
///
/// # Errors
/// Returns an error if the hub cannot start.
pub fn run(config: &Config, ready: impl FnOnce(&str)) -> Result<(), HubError> {
    let inputs = config.inputs.iter().map(|text| parse_input(text)).collect::<Result<Vec<_>, _>>()?;
    let mut simulated = config.simulate.as_ref().map(|(net, simulated)| Prepared::read(net, simulated, "1s")).transpose()?;
    if inputs.is_empty() && simulated.is_none() {
        return Err(HubError::NoInput);
    }
    let limits = Limits {
        recent_ns: nanos(config.recent),
        recent_max: config.recent_max,
        minutes_ns: nanos(config.history),
        minutes_max: config.history_max,
    };
    let secrets = Secrets::read(&config.access).map_err(|error| HubError::Secrets(Box::new(error)))?;
    let scheme = if secrets.tls().is_some() { "https" } else { "http" };
    let mut names: Vec<Arc<str>> = inputs.iter().map(|input| input.to_string().into()).collect();
    if let Some(simulated) = &simulated {
        tracing::info!(samplers = simulated.samplers().count(), "simulating a fabric");
        names.push("simulated".into());
    }
    let storage = simulated.as_ref().and_then(Prepared::storage).filter(|_| config.groups.is_empty());
    let groups = match storage {
        Some(storage) => Groups::new(vec![storage.clone()]).map_err(ConfigError::from)?,
        None => config.groups.clone(),
    };
    let hub = Hub::new(config.fabric.clone(), simulated.is_some(), limits, &names)
        .with_archive(config.archive.clone().map(Archive::new))
        .with_groups(groups);
    let hub = Arc::new(hub);
    if let Some(net) = &config.net {
        hub.write().add_fabric(&net_file::read(net)?.fabric);
    }
    let listen = config.access.listen;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HubError::Thread)?;
    let server = runtime.block_on(server::Server::bind(listen, secrets)).map_err(|source| HubError::Listen { listen, source })?;
    let (mut senders, messages) = input::queue(names.len());
    let clock = Clock::start();
    let of_thread = Arc::clone(&hub);
    thread::Builder::new().name("records".to_owned()).spawn(move || ingest::run(&of_thread, &messages, clock)).map_err(HubError::Thread)?;
    let source = match &config.jobs {
        Some(JobSource::File(path)) => Some(Source::File(path.clone())),
        Some(JobSource::Manager(manager)) => Some(Source::Manager(*manager)),
        None => simulated.as_mut().map(|simulated| Source::Simulated(simulated.take_jobs())),
    };
    if let Some(source) = source {
        jobs::source::start(Arc::clone(&hub), source, config.hide_users).map_err(HubError::Thread)?;
    }
    if let Some((simulated, sender)) = simulated.and_then(|simulated| Some((simulated, senders.pop()?))) {
        simulated.start(sender).map_err(HubError::Thread)?;
    }
    for (input, sender) in inputs.into_iter().zip(senders) {
        input::start(input, sender, input::Options { recent: config.recent }).map_err(HubError::Thread)?;
    }
    ready(&format!("{scheme}://{}", server.address()));
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(HubError::Thread)?;
        let access = server.access();
        tokio::select! {
            () = server.serve(routes::router(hub, access)) => {}
            signal = signals.next() => tracing::info!(signal, "stopping"),
        }
        Ok(())
    })
}

fn parse_input(text: &str) -> Result<Input, HubError> {
    let input = text.parse().map_err(|error: ibnet::types::ParseError| HubError::Input { found: error.found, expected: error.expected })?;
    match input {
        Input::Nats(_) if cfg!(not(feature = "nats")) => Err(HubError::NoNats { input: Input::to_string(&input) }),
        input => Ok(input),
    }
}
