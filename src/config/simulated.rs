//! The key `simulate` and the table `[simulated]`: a fabric that is simulated in the process of
//! the sweep.

use std::path::PathBuf;
use std::time::Duration;

use ibnet_record::physical::MAX_PLANES;
use serde::{Deserialize, Serialize};

use super::error::{value, value_among};
use super::{ConfigError, duration};
use crate::mad::transport::sim;
use crate::mad::transport::sim::storms::{Storm, StormHosts, StormKind, StormOrder};
use crate::mad::transport::sim::traffic::{Incast, Traffic};
use crate::time::Instant;
use crate::topology::{DeviceId, Fabric};

/// Max number of senders in the scenario `incast`.
const INCAST_SENDERS: usize = 32;

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
    /// Number of links between switches that are down during the scenario.
    pub links_down: usize,
    /// Whether devices answer SMPs by LID.
    pub smps_by_lid: bool,
    /// Number of planes of each port.
    pub planes: u8,
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
            links_down: 0,
            smps_by_lid: true,
            planes: 1,
            seed: 1,
        }
    }
}

ibnet_record::words! {
    /// The traffic of a simulated fabric.
    pub enum Scenario {
        /// Parallel jobs of 8 to 48 hosts, and hosts that write to a few servers.
        Jobs = "jobs",
        /// Jobs with little traffic, and up to 32 hosts that send to one server at full rate.
        Incast = "incast",
        /// Jobs with little traffic, and the hosts of two leaf switches that send to each other by
        /// IPoIB.
        IpoibFlood = "ipoib_flood",
        /// Jobs with little traffic, and up to 32 clients that write to storage servers by NFS over
        /// IPoIB.
        NfsStorm = "nfs_storm",
        /// First [`Self::IpoibFlood`], then [`Self::NfsStorm`], with a pause of half their length.
        Storms = "storms",
    }
}

ibnet_record::words! {
    /// Devices of a simulated fabric that have all counters in PortCountersExtended
    /// (CapabilityMask2 bit 1). Other devices have PortXmitWait only in PortCounters.
    pub enum WideCounters {
        /// Switches only.
        Switches = "switches",
        /// All devices.
        All = "all",
        /// No device.
        None = "none",
    }
}

/// A simulated fabric: the key `simulate` and the checked table `[simulated]`.
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
    /// Number of links between switches that are down during the scenario.
    pub links_down: usize,
    /// Whether devices answer SMPs by LID.
    pub smps_by_lid: bool,
    /// Number of planes of each port.
    pub planes: u8,
    /// Seed of all random values.
    pub seed: u64,
}

impl Simulation {
    /// Returns the options of the simulated fabric.
    pub fn options(&self) -> sim::Options {
        sim::Options {
            loss: self.loss,
            wide_switches: self.wide_counters != WideCounters::None,
            wide_adapters: self.wide_counters == WideCounters::All,
            smps_by_lid: self.smps_by_lid,
            planes: self.planes,
            seed: self.seed,
            ..sim::Options::default()
        }
    }

    /// Returns the incast of the scenario `incast`, which happens once. Returns `None` for other
    /// scenarios, and for a fabric with only two hosts.
    pub fn incast(&self, fabric: &Fabric) -> Option<Incast> {
        if self.scenario != Scenario::Incast {
            return None;
        }
        // In a fabric with fewer hosts, the number of senders is halved until it fits.
        let senders = std::iter::successors(Some(INCAST_SENDERS), |senders| Some(senders / 2))
            .take_while(|senders| *senders > 1);
        senders
            .filter_map(|senders| {
                Incast::onto_last_server(fabric, senders, Instant::ZERO + self.start, self.length)
            })
            .next()
    }

    /// Returns the storms of a scenario with storms. Returns `None` for other scenarios, and for
    /// a fabric that is too small.
    pub fn storms(&self, fabric: &Fabric) -> Option<Vec<Storm>> {
        let order = match self.scenario {
            Scenario::IpoibFlood => StormOrder::Only(StormKind::IpoibFlood),
            Scenario::NfsStorm => StormOrder::Only(StormKind::NfsStorm),
            Scenario::Storms => StormOrder::FloodThenStorm,
            Scenario::Jobs | Scenario::Incast => return None,
        };
        order.storms(fabric, Instant::ZERO + self.start, self.length)
    }

    /// Returns the traffic of the scenario, with this incast or these storms. Returns `None` if
    /// the scenario needs one that is `None`.
    pub fn traffic(
        &self,
        fabric: &Fabric,
        incast: Option<&Incast>,
        storms: Option<&[Storm]>,
    ) -> Option<Traffic> {
        match (self.scenario, incast, storms) {
            (Scenario::Jobs, ..) => Some(Traffic::jobs(fabric, self.seed)),
            (_, Some(incast), _) => Some(Traffic::incast(fabric, self.seed, incast)),
            (_, None, Some(storms)) => Some(StormHosts::with_traffic(fabric, self.seed, storms).1),
            (_, None, None) => None,
        }
    }

    /// Returns the devices that do not answer.
    ///
    /// # Errors
    /// Returns the first name that no device has.
    pub fn dead_devices(&self, fabric: &Fabric) -> Result<Vec<DeviceId>, String> {
        let mut dead = Vec::new();
        for name in &self.dead {
            let before = dead.len();
            dead.extend(
                fabric
                    .iter()
                    .filter(|(_, device)| device.name == *name || device.host() == name)
                    .map(|(id, _)| id),
            );
            if dead.len() == before {
                return Err(name.clone());
            }
        }
        Ok(dead)
    }
}

impl Simulated {
    /// Checks the table. `net` is the path of the net file.
    ///
    /// # Errors
    /// Returns an error for the first invalid value.
    pub(super) fn check(&self, net: PathBuf) -> Result<Simulation, ConfigError> {
        const LONGEST: Duration = Duration::from_secs(24 * 3600);
        let scenario = Scenario::ALL
            .into_iter()
            .find(|scenario| scenario.as_str() == self.scenario)
            .ok_or_else(|| {
                let names = Scenario::ALL.map(Scenario::as_str);
                value_among(
                    "simulated.scenario",
                    &self.scenario,
                    &format!("one of the scenarios {}", names.join(", ")),
                    &names,
                )
            })?;
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(value("simulated.loss", &self.loss, "a share from 0 to 1"));
        }
        if !(1..=MAX_PLANES).contains(&self.planes) {
            let expected = format!("a number from 1 to {MAX_PLANES}");
            return Err(value("simulated.planes", &self.planes, &expected));
        }
        let wide = WideCounters::ALL
            .into_iter()
            .find(|wide| wide.as_str() == self.wide_counters);
        let wide_counters = wide.ok_or_else(|| {
            let names = WideCounters::ALL.map(WideCounters::as_str);
            value_among(
                "simulated.wide_counters",
                &self.wide_counters,
                "one of switches, all, none",
                &names,
            )
        })?;
        Ok(Simulation {
            net,
            scenario,
            start: duration(
                "simulated.scenario_start",
                &self.scenario_start,
                Duration::ZERO,
                LONGEST,
            )?,
            length: duration(
                "simulated.scenario_length",
                &self.scenario_length,
                Duration::ZERO,
                LONGEST,
            )?,
            loss: self.loss,
            wide_counters,
            dead: self.dead.clone(),
            links_down: self.links_down,
            smps_by_lid: self.smps_by_lid,
            planes: self.planes,
            seed: self.seed,
        })
    }
}
