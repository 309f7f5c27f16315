//! Starts and stops the hub.

use std::sync::Arc;
use std::time::Duration;

use ibnet::cli::Signals;
use ibnet::metrics::{Secrets, Users as TokensFile};
use ibnet::topology::net_file;
use ibnet_analysis::groups::Groups;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::alerts;
use crate::archive::spool::Spool;
use crate::archive::status::{Part, Shared, with_help};
use crate::archive::{Archive, packing, source};
use crate::audit::Audit;
use crate::config::{Config, ConfigError, JobSource, Packing};
use crate::error::HubError;
use crate::http::{routes, server};
use crate::ingest::{self, Clock};
use crate::input::{self, Input, Sender};
use crate::jobs;
use crate::simulate::Prepared;
use crate::state::Hub;
use crate::store::Limits;
use crate::threads::Threads;
use crate::users::Users;
use crate::verdicts;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs the hub until a signal stops it. Calls `ready` with the URL of the web page.
///
/// # Errors
/// Returns an error if the hub cannot start, or if one of its threads has panicked.
pub fn run(config: &Config, ready: impl FnOnce(&str)) -> Result<(), HubError> {
    let inputs = config
        .inputs
        .iter()
        .map(|input| parse_input(input.url()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut simulated = config
        .simulate
        .as_ref()
        .map(|(net, simulated)| Prepared::read(net, simulated, "1s"))
        .transpose()?;
    if inputs.is_empty() && simulated.is_none() {
        return Err(HubError::NoInput);
    }
    let limits = Limits {
        recent_ns: nanos(config.recent),
        recent_max: config.recent_max,
        minutes_ns: nanos(config.history),
        minutes_max: config.history_max,
    };
    let secrets =
        Secrets::read(&config.access).map_err(|error| HubError::Secrets(Box::new(error)))?;
    let users = config
        .tokens_file
        .as_deref()
        .map(|path| TokensFile::new("users.", path))
        .transpose()
        .map_err(|error| HubError::Secrets(Box::new(error)))?;
    let scheme = if secrets.tls().is_some() {
        "https"
    } else {
        "http"
    };
    let mut names: Vec<Arc<str>> = inputs
        .iter()
        .map(|input| input.to_string().into())
        .collect();
    if let Some(simulated) = &simulated {
        tracing::info!(
            samplers = simulated.samplers().count(),
            "simulating a fabric"
        );
        names.push("simulated".into());
    }
    let spool = config.packing.as_ref().map(open_spool);
    let storage = simulated
        .as_ref()
        .and_then(Prepared::storage)
        .filter(|_| config.groups.is_empty());
    let groups = match storage {
        Some(storage) => Groups::new(vec![storage.clone()]).map_err(ConfigError::from)?,
        None => config.groups.clone(),
    };
    let hub = Hub::new(config.fabric.clone(), simulated.is_some(), limits, &names)
        .with_every(config.every)
        .with_archive(config.archive.clone().map(Archive::new))
        .with_packing(spool.as_ref().map(|(status, _)| Arc::clone(status)))
        .with_groups(groups)
        .with_routes(config.routes.clone())
        .with_cabling(config.cabling.clone())
        .with_marks(config.marks.clone())
        .with_posted_marks(config.posted_marks.clone())
        .with_users(Users::new(
            users,
            config.proxy.clone(),
            Audit::new(config.audit.clone()),
        ));
    let hub = Arc::new(hub);
    let pages = names.iter().zip(&config.inputs);
    let pages = pages.filter_map(|(name, input)| Some((Arc::clone(name), input.page()?.into())));
    hub.write().samplers.pages = pages.collect();
    if let Some(net) = &config.net {
        hub.write().add_fabric(&net_file::read(net)?.fabric);
    }
    let listen = config.access.listen;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(HubError::Thread)?;
    let server = runtime
        .block_on(server::Server::bind(listen, secrets))
        .map_err(|source| HubError::Listen { listen, source })?;
    let signals = runtime
        .block_on(async { Signals::new() })
        .map_err(HubError::Thread)?;
    let (mut senders, messages) = input::queue(names.len());
    let clock = Clock::start();
    let (threads, panics) = Threads::new();
    let of_thread = Arc::clone(&hub);
    threads
        .start("records", move || ingest::run(&of_thread, &messages, clock))
        .map_err(HubError::Thread)?;
    let source = match &config.jobs {
        Some(JobSource::File(path)) => Some(jobs::source::Source::File(path.clone())),
        Some(JobSource::Manager(manager)) => Some(jobs::source::Source::Manager(*manager)),
        None => simulated
            .as_mut()
            .map(|simulated| jobs::source::Source::Simulated(simulated.take_jobs())),
    };
    if let Some(source) = source {
        jobs::source::start(Arc::clone(&hub), source, config.hide_users, &threads)
            .map_err(HubError::Thread)?;
    }
    if let Some(path) = &config.verdicts {
        verdicts::start(&hub, path.clone(), &threads).map_err(HubError::Thread)?;
    }
    let alerts = alerts::start(Arc::clone(&hub), config.alerts.clone(), clock, &threads)
        .map_err(HubError::Thread)?;
    let spool = spool.and_then(|(status, spool)| Some((status, spool?)));
    if let (Some(packing), Some((status, spool))) = (&config.packing, &spool) {
        packing::start(
            Arc::clone(&hub),
            packing.clone(),
            Arc::clone(spool),
            Arc::clone(status),
            clock,
            &threads,
        )?;
        for input in &inputs {
            source::start(input, Arc::clone(spool), &packing.consumer, &threads)
                .map_err(HubError::Thread)?;
        }
    }
    // Inputs that keep their lines have a reader of their own for the archive.
    let archived = |sender: Sender, keeps_lines: bool| match &spool {
        Some((_, spool)) if !keeps_lines => sender.with_spool(Arc::clone(spool)),
        _ => sender,
    };
    if let Some((simulated, sender)) =
        simulated.and_then(|simulated| Some((simulated, senders.pop()?)))
    {
        simulated
            .start(archived(sender, false), &threads)
            .map_err(HubError::Thread)?;
    }
    for (input, sender) in inputs.into_iter().zip(senders) {
        let sender = archived(sender, input.keeps_lines());
        input::start(
            input,
            sender,
            input::Options {
                recent: config.recent,
            },
            &threads,
        )
        .map_err(HubError::Thread)?;
    }
    ready(&format!("{scheme}://{}", server.address()));
    let ended = runtime.block_on(serve(Arc::clone(&hub), server, signals, panics));
    if let Some(path) = &config.verdicts {
        verdicts::save(&hub, path);
    }
    if let Some(file) = alerts {
        file.save(&hub);
    }
    ended
}

/// Serves the web page until a signal or the panic of a thread.
async fn serve(
    hub: Arc<Hub>,
    server: server::Server,
    mut signals: Signals,
    mut panics: UnboundedReceiver<HubError>,
) -> Result<(), HubError> {
    let access = server.access();
    tokio::select! {
        () = server.serve(routes::router(hub, access)) => Ok(()),
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            Ok(())
        }
        Some(panic) = panics.recv() => Err(panic),
    }
}

/// Opens the spool of the archive. If that fails, the hub still runs, and reports the fault.
fn open_spool(packing: &Packing) -> (Arc<Shared>, Option<Arc<Spool>>) {
    let status = Arc::new(Shared::new(packing.archive.display().to_string()));
    match Spool::open(&packing.archive, packing.spool_max, Arc::clone(&status)) {
        Ok(spool) => (status, Some(Arc::new(spool))),
        Err(error) => {
            let text = with_help(&error);
            tracing::warn!(error = ?text, "cannot pack into the archive; it is only read, and new records are not kept");
            status.lock().set_fault(Part::Spool, Some(text));
            (status, None)
        }
    }
}

fn parse_input(text: &str) -> Result<Input, HubError> {
    let input = text
        .parse()
        .map_err(|error: ibnet_record::types::ParseError| HubError::Input {
            found: error.found,
            expected: error.expected,
        })?;
    match input {
        Input::Nats(_) if cfg!(not(feature = "nats")) => Err(HubError::NoNats {
            input: Input::to_string(&input),
        }),
        input => Ok(input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::settings;
    use crate::state::tests;

    #[test]
    fn panic_of_a_thread_ends_the_hub() {
        let settings = settings();
        let secrets = Secrets::read(&settings).expect("no files");
        let limits = Limits {
            recent_ns: 1,
            recent_max: 1,
            minutes_ns: 1,
            minutes_max: 1,
        };
        let (threads, panics) = Threads::new();
        threads.start("input-0", || {}).expect("started");
        threads
            .start("records", || panic!("a panic of this test"))
            .expect("started");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let ended = runtime.block_on(async {
            let server = server::Server::bind(settings.listen, secrets)
                .await
                .expect("bound");
            serve(
                Arc::new(tests::new(limits)),
                server,
                Signals::new().expect("signals"),
                panics,
            )
            .await
        });
        assert_eq!(
            ended.map_err(|error| error.to_string()),
            Err("cannot continue: the thread records has panicked".to_owned())
        );
    }
}
