//! The table `[physical]`: reads of the physical layer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::value;
use super::{ConfigError, duration};
use crate::sweep::engine::PhysicalConfig;

/// The table `[physical]` as in the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Physical {
    /// Whether the physical layer is read.
    pub enabled: bool,
    /// Time between two readings of all registers of a port.
    pub every: String,
    /// Time between two readings of the bit errors of a port.
    pub bit_errors_every: String,
    /// Time between two readings of a module.
    pub modules_every: String,
    /// Time between two readings of the sensors of a switch.
    pub sensors_every: String,
    /// Time between two readings of the planes of a port that has several.
    pub planes_every: String,
    /// Max share of the MADs of this sampler.
    pub budget: f64,
    /// Time for which a reply is awaited.
    pub timeout: String,
}

impl Default for Physical {
    fn default() -> Self {
        let engine = PhysicalConfig::default();
        let text = |duration| humantime::format_duration(duration).to_string();
        let [every, modules_every, sensors_every, planes_every] = engine.every.map(text);
        Self {
            enabled: false,
            every,
            bit_errors_every: text(engine.bit_errors_every),
            modules_every,
            sensors_every,
            planes_every,
            budget: f64::from(engine.budget_ppm) / PPM,
            timeout: text(engine.timeout),
        }
    }
}

const PPM: f64 = 1e6;

/// Shortest and longest time between two readings.
const EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(86_400)];

impl Physical {
    /// Checks the values. Returns `None` if the physical layer is not read.
    pub(super) fn check(&self) -> Result<Option<PhysicalConfig>, ConfigError> {
        if !(0.0..=1.0).contains(&self.budget) {
            let expected = "a share from 0 to 1, such as 0.03";
            return Err(value("physical.budget", &self.budget, expected));
        }
        let every = |key, text| duration(key, text, EVERY[0], EVERY[1]);
        let config = PhysicalConfig {
            every: [
                every("physical.every", &self.every)?,
                every("physical.modules_every", &self.modules_every)?,
                every("physical.sensors_every", &self.sensors_every)?,
                every("physical.planes_every", &self.planes_every)?,
            ],
            bit_errors_every: every("physical.bit_errors_every", &self.bit_errors_every)?,
            budget_ppm: (self.budget * PPM).round() as u32,
            timeout: duration(
                "physical.timeout",
                &self.timeout,
                Duration::from_millis(20),
                Duration::from_secs(10),
            )?,
        };
        Ok(self.enabled.then_some(config))
    }
}
