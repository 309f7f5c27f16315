//! `ibnet-sweep status`: the condition of all samplers, from a NATS server or from `ibnet-hub`.

use std::path::PathBuf;

use ibnet::assignments::{Assignments, Sampler};
use ibnet::cli;
use ibnet::config::{Config, Plan, Raw};
use ibnet::output::{Destination, NatsOptions};
use ibnet_record::Role;

use super::clock::wall_clock;
use super::failure::Failure;
use super::flags::Flags;
use super::receiving::Receiving;

mod hub;
#[cfg(feature = "nats")]
mod nats;
mod row;
mod show;

/// Show the condition of all samplers: the age of the last slot, answers, lost records
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// NATS server with JetStream (nats://HOST:4222), or ibnet-hub (http://HOST:8080)
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Configuration file: its first NATS output has the server, and `assignments` the plan
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Plan, a file or nats://HOST:4222/BUCKET/KEY: samplers of the plan that sent nothing are
    /// shown too
    #[arg(long, value_name = "FILE|URL")]
    assignments: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ibnet-sweep status -c /etc/ibnet/ibnet.toml
  ibnet-sweep status --from nats://admin1:4222 --assignments plan.toml
  ibnet-sweep status --from http://127.0.0.1:8080 --json | jq '.rows[] | select(.state != \"ok\")'

The source is read once. NATS needs a stream with the subjects of the samplers.
A hub on another host needs a tunnel: ssh -L 8080:127.0.0.1:8080 HOST

States:
  ok           the last slot is complete
  incomplete   ports did not answer in the last slot, or records were lost
  silent       no slot for three intervals (two seconds at least)
  never heard  the plan has the sampler, and the source has no slot of it

Exit codes: 0 all samplers are ok; 1 the source cannot be read; 2 the arguments
are wrong; 3 a sampler is not ok, or there is none.";

/// Exit code: at least one sampler is not ok.
const FOUND: u8 = 3;

/// Where the condition of the samplers is read.
enum Source {
    Hub(String),
    Nats(Box<NatsOptions>),
}

impl Args {
    /// Takes over the configuration file that is given before the command. Returns false if there
    /// are other flags before it.
    pub(super) fn take_flags(&mut self, before: &Flags) -> bool {
        let Some(config) = before.only_config() else {
            return false;
        };
        let is_twice = config.is_some() && self.config.is_some();
        self.config = self.config.take().or(config);
        !is_twice
    }

    /// Returns the source, and the plan.
    fn read(&self) -> Result<(Source, Option<NamedPlan>), Failure> {
        let mut raw = self
            .config
            .as_deref()
            .map(Raw::read)
            .transpose()?
            .unwrap_or_default();
        raw.assignments = self.assignments.clone().unwrap_or(raw.assignments);
        // Only the outputs and the plan are needed. The net file that is set here is never read.
        raw.sampler.clear();
        raw.net = if raw.assignments.is_empty() {
            "-".to_owned()
        } else {
            String::new()
        };
        let config = raw.check()?;
        let plan = NamedPlan::read(&config)?;
        let output = config
            .outputs
            .into_iter()
            .find_map(|output| match output.to {
                Destination::Nats(options) => Some(options),
                _ => None,
            });
        let source = match &self.from {
            None => Source::Nats(Box::new(output.ok_or(Failure::NoSource)?)),
            Some(from) if from.starts_with("http://") => Source::Hub(from.clone()),
            Some(from) if from.starts_with("nats://") || from.starts_with("tls://") => {
                // User and certificates come from the configuration.
                Source::Nats(Box::new(NatsOptions {
                    server: from.clone(),
                    ..output.unwrap_or_default()
                }))
            }
            Some(from) => return Err(Failure::WrongSource { from: from.clone() }),
        };
        Ok((source, plan))
    }
}

/// The samplers of the plan, with its name.
struct NamedPlan {
    /// Path, or address and revision.
    name: String,
    /// Names and roles of the samplers.
    samplers: Vec<(String, String)>,
}

impl NamedPlan {
    fn read(config: &Config) -> Result<Option<Self>, Failure> {
        let (name, loaded) = match &config.plan {
            Plan::Net(_) => return Ok(None),
            Plan::Assignments(path) => (path.display().to_string(), Assignments::read(path)?),
            Plan::Published(store) => {
                let plan = Receiving::start(store)?.newest()?;
                let loaded = Assignments::parse_file(&plan.octets, &plan.name)?;
                (plan.name, loaded)
            }
        };
        let named = |sampler: Sampler| {
            (
                sampler.host,
                sampler.role.unwrap_or_else(|| Role::Primary.to_string()),
            )
        };
        let samplers = loaded.assignments.samplers.into_iter().map(named).collect();
        Ok(Some(Self { name, samplers }))
    }
}

/// Prints the condition of all samplers.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let (source, plan) = args.read()?;
    let mut rows = match source {
        Source::Hub(url) => hub::read(&url)?,
        #[cfg(feature = "nats")]
        Source::Nats(options) => nats::read_all(&options)?,
        #[cfg(not(feature = "nats"))]
        Source::Nats(options) => {
            return Err(Failure::NoNats {
                from: options.shown_server(),
            });
        }
    };
    row::add_missing(&mut rows, plan.as_ref().map_or(&[], |plan| &plan.samplers));
    let now = wall_clock();
    rows.sort_by(|one, other| one.key().cmp(&other.key()));
    let plan = plan.map(|plan| plan.name);
    let text = if args.json {
        show::json(&rows, now, plan.as_deref())
    } else {
        show::text(&rows, now, plan.as_deref())
    };
    cli::print(text.as_bytes()).map_err(Failure::Stdout)?;
    let is_ok = !rows.is_empty() && rows.iter().all(|row| row.state(now) == row::State::Ok);
    Ok(if is_ok { 0 } else { FOUND })
}
