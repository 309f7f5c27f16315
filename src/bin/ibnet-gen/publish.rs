//! Publishes a plan on a NATS server: `ibnet-gen publish`, or `--publish` for a new plan.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibnet::assignments::{Assignments, with_time};
use ibnet::cli;
use ibnet::config;
use ibnet::distribution::{DistributionError, PlanStore};
use ibnet::output::NatsOptions;
use ibnet_record::limits;

use crate::Failure;

/// Max time until the first slot.
const LONGEST_LEAD: Duration = Duration::from_secs(3600);

/// Publish a plan on a NATS server, for samplers with `assignments = "nats://HOST:4222"`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Assignments file, written by `ibnet-gen -o FILE`; `-` is standard input
    #[arg(value_name = "FILE|-")]
    plan: PathBuf,
    /// Address of the plan: nats://HOST:4222/BUCKET/KEY, or tls://. Without bucket and key, they
    /// are `ibnet` and `plan`
    #[arg(long, value_name = "URL")]
    to: String,
    /// Time from now to the first slot of the plan, rounded up to a whole second of UTC. All
    /// samplers change to the plan in this slot
    #[arg(long = "in", value_name = "TIME", default_value = "10s", value_parser = lead)]
    lead: Duration,
    /// Configuration of ibnet-sweep: its table `plan_server` has the user and the certificates
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-gen publish plan.toml --to nats://admin1:4222
  ibnet-gen publish plan.toml --to tls://nats1:4222,nats2:4222/fabric1/plan --in 1m
  ibnet-gen publish /etc/ibnet/plan.toml --to nats://admin1:4222 -c /etc/ibnet/publish.toml

The samplers need some seconds to prepare: a sampler that is not ready changes to
the plan as soon as it is. The bucket is created if it does not exist; it keeps
the last 16 plans (`nats kv history ibnet plan`).";

/// The flags for publishing a new plan.
#[derive(Debug, clap::Args)]
pub(crate) struct PublishArgs {
    /// Publish the plan on a NATS server: nats://HOST:4222/BUCKET/KEY [default bucket and key:
    /// ibnet/plan]. Then the plan goes to a file only with -o
    #[arg(long, value_name = "URL")]
    publish: Option<String>,
    /// Time from now to the first slot of the published plan, rounded up to a whole second of UTC
    /// [default: 10s]
    #[arg(long, value_name = "TIME", requires = "publish", value_parser = lead)]
    publish_in: Option<Duration>,
    /// Configuration of ibnet-sweep: its table `plan_server` has the user and the certificates
    #[arg(long, value_name = "FILE", requires = "publish")]
    publish_config: Option<PathBuf>,
}

/// Default of `--publish-in` and `--in`.
const LEAD: Duration = Duration::from_secs(10);

impl PublishArgs {
    /// Returns whether the plan is published.
    pub(crate) fn is_set(&self) -> bool {
        self.publish.is_some()
    }

    /// Publishes the plan, if a server is given.
    pub(crate) fn publish(&self, text: &str) -> Result<(), Failure> {
        let Some(address) = &self.publish else {
            return Ok(());
        };
        publish(
            address,
            self.publish_config.as_deref(),
            self.publish_in.unwrap_or(LEAD),
            text,
            "the plan",
        )
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = cli::name_of(&args.plan);
    let octets = cli::read(&args.plan, limits::PLAN)?;
    // This checks the file, and ensures that its text is UTF-8.
    Assignments::parse_file(&octets, &name)?;
    publish(
        &args.to,
        args.config.as_deref(),
        args.lead,
        &String::from_utf8_lossy(&octets),
        &name,
    )
}

/// Publishes a valid plan, after adding the time of its first slot.
fn publish(
    address: &str,
    config: Option<&Path>,
    lead: Duration,
    text: &str,
    name: &str,
) -> Result<(), Failure> {
    let invalid = || DistributionError::Address {
        found: NatsOptions {
            server: address.to_owned(),
            ..NatsOptions::default()
        }
        .shown_server(),
    };
    let store = PlanStore::parse(address).ok_or_else(invalid)?;
    let access = config
        .map(config::Raw::read)
        .transpose()?
        .unwrap_or_default()
        .plan_server
        .check()?;
    let store = PlanStore {
        server: NatsOptions {
            server: store.server.server,
            ..access
        },
        ..store
    };
    let at = now().saturating_add(lead);
    let at = Duration::from_secs(at.as_secs() + u64::from(at.subsec_nanos() > 0));
    let at_ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    let text = with_time(text, at_ns);
    if Assignments::parse(&text, name)?.at != Some(at_ns) {
        return Err(DistributionError::NoPlaceForTime {
            name: name.to_owned(),
        }
        .into());
    }
    let revision = store_plan(&store, &text)?;
    cli::note(&format!(
        "published {store} revision {revision}, first slot at {}\n",
        humantime::format_rfc3339(UNIX_EPOCH + at)
    ));
    Ok(())
}

#[cfg(feature = "nats")]
fn store_plan(store: &PlanStore, text: &str) -> Result<u64, DistributionError> {
    ibnet::distribution::publish(store, text)
}

#[cfg(not(feature = "nats"))]
fn store_plan(store: &PlanStore, _text: &str) -> Result<u64, DistributionError> {
    Err(DistributionError::NoNats {
        store: store.to_string(),
    })
}

/// Returns the time since 1970 (UTC).
#[expect(
    clippy::disallowed_methods,
    reason = "the first slot is at a time from now"
)]
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn lead(text: &str) -> Result<Duration, String> {
    let lead = humantime::parse_duration(text)
        .ok()
        .filter(|lead| *lead <= LONGEST_LEAD);
    lead.ok_or_else(|| "expected a time from 0s to 1h, such as 10s".to_owned())
}
