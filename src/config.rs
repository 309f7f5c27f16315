//! The configuration of `ibnet-sweep`. [`Raw`] has the values as in the file, and [`Config`] the
//! checked values.
//!
//! `ibnet.toml.example` lists every key with its unit and default; a test compares this file with
//! [`Raw::default`]. A flag of the program overrides the key of the same name, and [`Raw::check`]
//! checks the values after the flags have been applied.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ibnet_record::types::HcaName;
use serde::{Deserialize, Serialize};

use self::error::{value, value_among};
use self::examples::KEYS;
use crate::distribution::PlanStore;
use crate::metrics;
use crate::output::{Destination, Output};
use crate::sweep::cadence::Cadence;
use crate::sweep::engine::{self, SmpWay};

mod error;
mod examples;
mod explain;
mod file;
mod groups;
mod keys;
mod nats_access;
mod output;
mod physical;
mod plan_server;
mod scalars;
mod simulated;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use examples::{Keys, SIMULATED};
pub use file::{FileError, parse, read, text};
pub use keys::show;
pub use output::{Outputs, Table as OutputTable};
pub use physical::Physical;
pub use plan_server::PlanServer;
pub use scalars::{Ca, Sl};
pub use simulated::{Scenario, Simulated, Simulation, WideCounters};

/// The value of `sampler` that selects all samplers of a plan.
pub const ALL_SAMPLERS: &str = "all";

/// Time between two queries of a port whose link is down.
const DOWN_EVERY: Duration = Duration::from_secs(10);

/// The configuration as in the file.
///
/// Durations are text such as `5ms`. An empty string means "not set".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raw {
    /// Path of the assignments file, or address of a published one.
    pub assignments: String,
    /// Path of a net file. If it is set, this host sweeps the whole fabric without a plan.
    pub net: String,
    /// Name of this sampler in the assignments file, or [`ALL_SAMPLERS`].
    pub sampler: String,
    /// Time between two slots, such as `1s`.
    pub interval: String,
    /// Counter groups with their cadences, as `NAME` or `NAME/CADENCE`.
    #[serde(deserialize_with = "groups::read")]
    pub groups: Vec<String>,
    /// Cadence of PortCounters in slots, for devices that have PortXmitWait only in PortCounters.
    pub wait_every: u32,
    /// Groups that are queried on every device, regardless of its capabilities.
    pub force_groups: Vec<String>,
    /// Groups whose counters are cleared.
    pub clear: Vec<String>,
    /// Time between two identity checks of a device.
    pub identity: String,
    /// The way of SMPs: `auto`, `lid` or `directed`.
    pub smp: String,
    /// Whether the device at the other end of each switch cable is verified.
    pub peers: bool,
    /// Max number of MADs in flight.
    pub window: usize,
    /// Max number of MADs per second. 0 means no limit.
    pub max_mads_per_second: u32,
    /// Time after which a MAD frees its place in the window.
    pub timeout: String,
    /// Time during which a late reply is still accepted.
    pub grace: String,
    /// HCA ports that send.
    pub ca: Ca,
    /// CPUs of the threads that send, the first one for the first HCA port, and so on.
    pub cpus: Vec<usize>,
    /// Service level, or `path` for that of the path record to each device.
    pub sl: Sl,
    /// P_Key.
    pub pkey: String,
    /// Whether the sampler subscribes to traps of the subnet manager.
    pub traps: bool,
    /// Destinations of the records.
    pub output: Outputs,
    /// How long outputs may write the waiting records after a stop signal.
    pub drain: String,
    /// Path of the net file of a simulated fabric.
    pub simulate: String,
    /// Behaviour of the simulated fabric.
    pub simulated: Simulated,
    /// Address and access control of the metrics.
    pub metrics: metrics::Raw,
    /// Access to the NATS server of a published plan.
    pub plan_server: PlanServer,
    /// Reads of the states of links.
    pub links: Links,
    /// Reads of forwarding tables.
    pub routes: Routes,
    /// Reads of the physical layer.
    pub physical: Physical,
}

/// The table `[links]` as in the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Whether the states of all ports of a switch are read in each slot.
    pub state: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self { state: true }
    }
}

/// The table `[routes]` as in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Routes {
    /// Whether the forwarding tables of switches are read.
    pub enabled: bool,
}

impl Default for Raw {
    fn default() -> Self {
        let engine = engine::Config::default();
        let text = |duration| humantime::format_duration(duration).to_string();
        Self {
            assignments: String::new(),
            net: String::new(),
            sampler: String::new(),
            interval: "1s".to_owned(),
            groups: DEFAULT_GROUPS.map(str::to_owned).into(),
            wait_every: 1,
            force_groups: Vec::new(),
            clear: Vec::new(),
            identity: text(engine.identity_every),
            smp: SMP_WAYS[0].0.to_owned(),
            peers: false,
            window: engine.window,
            max_mads_per_second: engine.max_mads_per_second,
            timeout: text(engine.timeout),
            grace: text(engine.grace),
            ca: Ca::One(String::new()),
            cpus: Vec::new(),
            sl: Sl::Number(engine.sl),
            pkey: "0xffff".to_owned(),
            traps: false,
            output: Outputs::default(),
            drain: "4s".to_owned(),
            simulate: String::new(),
            simulated: Simulated::default(),
            metrics: metrics::Raw::default(),
            plan_server: PlanServer::default(),
            links: Links::default(),
            routes: Routes::default(),
            physical: Physical::default(),
        }
    }
}

/// The values of `smp`, with the default first.
const SMP_WAYS: [(&str, SmpWay); 3] = [
    ("auto", SmpWay::Auto),
    ("lid", SmpWay::Lid),
    ("directed", SmpWay::Directed),
];

/// Default of `groups`: traffic is queried in every slot, errors at most once a second.
const DEFAULT_GROUPS: [&str; 4] = ["extended", "base/1s", "xmtdisc/1s", "rcverr/1s"];

/// Where the list of ports to sweep comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Plan {
    /// An assignments file: sweep the ports of this sampler.
    Assignments(PathBuf),
    /// A published plan, which is an assignments file in the key-value store of a NATS server.
    Published(Box<PlanStore>),
    /// A net file: sweep all of its linked ports.
    Net(PathBuf),
}

/// A checked configuration: all values are valid and consistent.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Where the list of ports to sweep comes from.
    pub plan: Plan,
    /// Name of this sampler, or [`ALL_SAMPLERS`]. `None` for the short name of this host.
    pub sampler: Option<String>,
    /// Time between two slots.
    pub interval: Duration,
    /// Settings of the engine. The P_Key index is set later, when the HCA port is known.
    pub engine: engine::Config,
    /// HCA ports that send, without duplicates. If it is empty, the HCA ports of the assignments
    /// file are used or, if it has none, the only active port.
    pub cas: Vec<HcaName>,
    /// CPUs of the threads that send: the first HCA port uses the first CPU, and so on. If it is
    /// empty, the threads run on any CPU.
    pub cpus: Vec<usize>,
    /// P_Key.
    pub pkey: u16,
    /// Whether the sampler subscribes to traps of the subnet manager.
    pub traps: bool,
    /// Destinations of the records.
    pub outputs: Vec<Output>,
    /// How long outputs may write the waiting records after a stop signal.
    pub drain: Duration,
    /// Address and access control of the metrics. `None` if no metrics are served.
    pub metrics: Option<metrics::Settings>,
    /// The simulated fabric that is swept, or `None` for a real one.
    pub simulation: Option<Simulation>,
}

impl Config {
    /// Returns whether this process sweeps for all samplers of the plan.
    pub fn is_for_all_samplers(&self) -> bool {
        self.sampler.as_deref() == Some(ALL_SAMPLERS)
    }

    /// Returns whether the program keeps a password, a token or a private key in memory.
    pub fn has_secret(&self) -> bool {
        let of_plan = matches!(&self.plan, Plan::Published(store) if store.server.has_secret());
        let of_metrics = self
            .metrics
            .as_ref()
            .is_some_and(|metrics| metrics.password_file.is_some() || metrics.tls.is_some());
        let has_secret = |output: &Output| matches!(&output.to, Destination::Nats(options) if options.has_secret());
        of_plan || of_metrics || self.outputs.iter().any(has_secret)
    }
}

impl Raw {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not valid TOML, or has an unknown key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Ok(read(path, &KEYS)?)
    }

    /// Parses the text of a file. `path` is the name of the file in messages.
    ///
    /// # Errors
    /// Returns an error if the text is not valid TOML, or has an unknown key.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Ok(parse(text, path, &KEYS)?)
    }

    /// Checks all values.
    ///
    /// # Errors
    /// Returns an error for the first invalid value.
    pub fn check(&self) -> Result<Config, ConfigError> {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        let simulate = path(&self.simulate);
        let plan = match (path(&self.assignments), path(&self.net)) {
            (Some(_), None) => self.plan_server.plan(&self.assignments)?,
            (None, Some(net)) => Plan::Net(net),
            (Some(assignments), Some(_)) => {
                return Err(value(
                    "net",
                    &self.net,
                    &format!(
                        "no net file, because assignments is set to {}",
                        assignments.display()
                    ),
                ));
            }
            (None, None) => Plan::Net(simulate.clone().ok_or(ConfigError::NothingToSweep)?),
        };
        self.check_sampler(&plan)?;
        let interval = duration(
            "interval",
            &self.interval,
            Duration::from_millis(10),
            Duration::from_secs(3600),
        )?;
        let deadline = duration(
            "timeout",
            &self.timeout,
            Duration::from_micros(100),
            interval,
        )?;
        let grace = duration("grace", &self.grace, deadline, Duration::from_secs(10))?;
        let (groups, cadences) = groups::with_cadences(&self.groups, interval)?;
        let clearing = groups::cleared(&self.clear, &groups, interval)?;
        // The table `[simulated]` must be valid even if no fabric is simulated.
        let simulated = self.simulated.check(simulate.clone().unwrap_or_default())?;
        Ok(Config {
            plan,
            sampler: (!self.sampler.is_empty()).then(|| self.sampler.clone()),
            interval,
            engine: engine::Config {
                window: self.window()?,
                max_mads_per_second: self.max_mads_per_second,
                timeout: deadline,
                grace,
                groups: groups.into(),
                cadence: Cadence::new(
                    cadences,
                    self.wait_every()?,
                    groups::in_slots(DOWN_EVERY, interval),
                ),
                force_groups: groups::without_cadences("force_groups", &self.force_groups)?,
                clearing,
                identity_every: duration(
                    "identity",
                    &self.identity,
                    Duration::from_secs(1),
                    Duration::from_secs(24 * 3600),
                )?,
                smp: self.smp_way()?,
                state_tables: self.links.state,
                verify_peers: self.peers,
                managers_every: Some(engine::MANAGERS_EVERY),
                forwarding: self.routes.enabled,
                physical: self.physical.check()?,
                sl: self.sl.number()?,
                path_sl: self.sl.is_path(),
                ..engine::Config::default()
            },
            cas: self.ca.names()?,
            cpus: self.cpus.clone(),
            pkey: self.pkey()?,
            traps: self.traps,
            outputs: self.output.check()?,
            drain: duration(
                "drain",
                &self.drain,
                Duration::ZERO,
                Duration::from_secs(600),
            )?,
            metrics: self.metrics.check()?,
            simulation: simulate.map(|_| simulated),
        })
    }

    /// Rejects `sampler = "all"` unless there is a plan and a simulated fabric.
    fn check_sampler(&self, plan: &Plan) -> Result<(), ConfigError> {
        let expected = match plan {
            _ if self.sampler != ALL_SAMPLERS => return Ok(()),
            Plan::Net(_) => "the name of a sampler; all samplers need a plan (--assignments FILE)",
            Plan::Assignments(_) | Plan::Published(_) if self.simulate.is_empty() => {
                "the name of one sampler; all samplers can be swept on a simulated fabric only (--simulate FILE)"
            }
            Plan::Assignments(_) | Plan::Published(_) => return Ok(()),
        };
        Err(value("sampler", &self.sampler, expected))
    }

    fn smp_way(&self) -> Result<SmpWay, ConfigError> {
        let named = SMP_WAYS.iter().find(|(name, _)| *name == self.smp);
        named.map(|(_, way)| *way).ok_or_else(|| {
            let names = SMP_WAYS.map(|(name, _)| name);
            value_among("smp", &self.smp, "one of auto, lid, directed", &names)
        })
    }

    fn wait_every(&self) -> Result<u32, ConfigError> {
        let is_valid = (1..=groups::MAX_EVERY).contains(&self.wait_every);
        is_valid.then_some(self.wait_every).ok_or_else(|| {
            value(
                "wait_every",
                &self.wait_every,
                "a number of slots from 1 to 1000000",
            )
        })
    }

    fn window(&self) -> Result<usize, ConfigError> {
        (1..=MAX_WINDOW)
            .contains(&self.window)
            .then_some(self.window)
            .ok_or_else(|| value("window", &self.window, "a number from 1 to 128"))
    }

    fn pkey(&self) -> Result<u16, ConfigError> {
        let digits = self.pkey.strip_prefix("0x").unwrap_or(&self.pkey);
        u16::from_str_radix(digits, 16)
            .ok()
            .filter(|pkey| pkey & 0x7fff != 0)
            .ok_or_else(|| value("pkey", &self.pkey, "a P_Key such as 0xffff"))
    }
}

/// Max value of `window`: the send queue of a port's QP1 has 128 entries.
const MAX_WINDOW: usize = 128;

/// Parses a duration within bounds.
fn duration(
    key: &'static str,
    text: &str,
    min: Duration,
    max: Duration,
) -> Result<Duration, ConfigError> {
    let show = humantime::format_duration;
    let parsed = humantime::parse_duration(text)
        .map_err(|_| value(key, &text, "a duration such as 1s or 5ms"))?;
    let expected = || format!("a duration from {} to {}", show(min), show(max));
    if (min..=max).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(value(key, &text, &expected()))
    }
}
