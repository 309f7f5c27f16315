//! The key `simulate` and the table `[simulated]`: a fabric that the process of the sweep
//! simulates.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::{value, value_among};
use super::{ConfigError, duration};

/// The table `[simulated]` as in the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulated {
    /// Name of the [`Scenario`].
    pub scenario: String,
    /// Time from the start of the program to the start of the scenario.
    pub scenario_start: String,
    /// Duration of the scenario.
    pub scenario_length: String,
    /// Share of requests that are lost, 0 to 1.
    pub loss: f64,
    /// Name of the [`WideCounters`].
    pub wide_counters: String,
    /// Names of devices that do not answer.
    pub dead: Vec<String>,
    /// Seed of all random values.
    pub seed: u64,
}

impl Default for Simulated {
    fn default() -> Self {
        Self {
            scenario: Scenario::Jobs.as_str().to_owned(),
            scenario_start: "5s".to_owned(),
            scenario_length: "10s".to_owned(),
            loss: 0.0,
            wide_counters: WideCounters::Switches.as_str().to_owned(),
            dead: Vec::new(),
            seed: 1,
        }
    }
}

/// The traffic of a simulated fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Parallel jobs of 8 to 48 hosts, and hosts that write to a few servers.
    Jobs,
    /// Jobs with little traffic, and up to 32 hosts that send to one server at full rate.
    Incast,
    /// Jobs with little traffic, and the hosts of two leaf switches that send to each other by
    /// IPoIB.
    IpoibFlood,
    /// Jobs with little traffic, and up to 32 clients that write to storage servers by NFS over
    /// IPoIB.
    NfsStorm,
    /// First [`Self::IpoibFlood`], then [`Self::NfsStorm`], with a pause of half their length.
    Storms,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 5] = [Self::Jobs, Self::Incast, Self::IpoibFlood, Self::NfsStorm, Self::Storms];

    /// Returns the name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Incast => "incast",
            Self::IpoibFlood => "ipoib_flood",
            Self::NfsStorm => "nfs_storm",
            Self::Storms => "storms",
        }
    }
}

/// Devices of a simulated fabric that have all counters in PortCountersExtended (CapabilityMask2
/// bit 1). The other devices have PortXmitWait in PortCounters only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WideCounters {
    /// Switches only.
    Switches,
    /// All devices.
    All,
    /// No device.
    None,
}

impl WideCounters {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Switches, Self::All, Self::None];

    /// Returns the name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Switches => "switches",
            Self::All => "all",
            Self::None => "none",
        }
    }
}

/// A simulated fabric: the values of the key `simulate` and of the checked table `[simulated]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// Path of the net file of the fabric.
    pub net: PathBuf,
    /// The traffic.
    pub scenario: Scenario,
    /// Time from the start of the program to the start of the scenario.
    pub start: Duration,
    /// Duration of the scenario.
    pub length: Duration,
    /// Share of requests that are lost, 0 to 1.
    pub loss: f64,
    /// Devices that have all counters in PortCountersExtended.
    pub wide_counters: WideCounters,
    /// Names of devices that do not answer: the whole node description or its first word.
    pub dead: Vec<String>,
    /// Seed of all random values.
    pub seed: u64,
}

impl Simulated {
    /// Checks the table. `net` is the path of the net file.
    ///
    /// # Errors
    /// Returns an error for the first invalid value.
    pub(super) fn check(&self, net: PathBuf) -> Result<Simulation, ConfigError> {
        const LONGEST: Duration = Duration::from_secs(24 * 3600);
        let scenario = Scenario::ALL.into_iter().find(|scenario| scenario.as_str() == self.scenario).ok_or_else(|| {
            let names = Scenario::ALL.map(Scenario::as_str);
            value_among("simulated.scenario", &self.scenario, &format!("one of the scenarios {}", names.join(", ")), &names)
        })?;
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(value("simulated.loss", &self.loss, "a share from 0 to 1"));
        }
        let wide = WideCounters::ALL.into_iter().find(|wide| wide.as_str() == self.wide_counters);
        let wide_counters = wide.ok_or_else(|| {
            let names = WideCounters::ALL.map(WideCounters::as_str);
            value_among("simulated.wide_counters", &self.wide_counters, "one of switches, all, none", &names)
        })?;
        Ok(Simulation {
            net,
            scenario,
            start: duration("simulated.scenario_start", &self.scenario_start, Duration::ZERO, LONGEST)?,
            length: duration("simulated.scenario_length", &self.scenario_length, Duration::ZERO, LONGEST)?,
            loss: self.loss,
            wide_counters,
            dead: self.dead.clone(),
            seed: self.seed,
        })
    }
}
