//! The distributions of a recording, in groups.

use std::collections::BTreeMap;

use ibnet_record::types::Guid;

use super::bins::Bins;
use super::distribution::Distribution;
use super::grouping::{By, Named, Separation};
use super::modes::{self, Mode};
use crate::error::AnalysisError;

/// What the values of a set of distributions are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Each value is the round-trip time of a MAD.
    SingleMads,
    /// Each value is the mean over the MADs of a port in a slot.
    PortMeans,
}

/// All distributions of a recording. The timer cost (the min time for one reading of the clock)
/// is already subtracted from the values.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// All values.
    pub all: Distribution,
    /// What the values are.
    pub source: Source,
    /// Values by device kind.
    pub kinds: Vec<Named>,
    /// Values by distance.
    pub hops: Vec<Named>,
    /// Values by sampler.
    pub samplers: Vec<Named>,
    /// Values by device.
    pub devices: Vec<Named>,
    /// What the values by distance and by device are.
    pub device_source: Source,
    /// Shortest single round-trip time of each device, that is, without queues on the path. Empty
    /// if the records have neither `rtt_min_ns` nor `service` histograms.
    pub least: Distribution,
    /// Whether `least` comes from `rtt_min_ns`. Values from `service` histograms are rounded to 3
    /// to 6 %.
    pub has_exact_least: bool,
    /// Durations of compound queries: all MADs of a port in a slot.
    pub compound: Distribution,
    /// Timer cost of each sampler in nanoseconds, which is subtracted from all values.
    pub clocks: BTreeMap<String, u64>,
    /// Values of one source, for all groupings.
    joint: Parts,
}

/// The modes of a recording and their causes.
#[derive(Clone, Debug)]
pub struct ModeReport {
    /// Modes of all values.
    pub modes: Vec<Mode>,
    /// All groupings with at least two groups in the records, best first. Empty if there is only
    /// one mode.
    pub separations: Vec<Separation>,
}

/// Values of one source, in groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    kinds: BTreeMap<String, Distribution>,
    hops: BTreeMap<Hops, Distribution>,
    samplers: BTreeMap<String, Distribution>,
    devices: BTreeMap<Guid, Distribution>,
}

/// Number of switches on the path to a device, including the device itself. Unknown numbers are
/// sorted last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Hops {
    Known(u16),
    Unknown,
}

impl Hops {
    fn name(self) -> String {
        match self {
            Self::Known(1) => "1 hop".to_owned(),
            Self::Known(hops) => format!("{hops} hops"),
            Self::Unknown => "unknown distance".to_owned(),
        }
    }
}

impl Parts {
    /// Adds values of a sampler for which the devices are unknown.
    pub(super) fn add_kind(&mut self, kind: &str, sampler: &str, values: &Distribution) {
        self.kinds.entry(kind.to_owned()).or_default().merge(values);
        self.samplers
            .entry(sampler.to_owned())
            .or_default()
            .merge(values);
    }

    pub(super) fn add_device(
        &mut self,
        guid: Guid,
        (kind, hops): (&str, Option<u16>),
        sampler: &str,
        values: &Distribution,
    ) {
        self.add_kind(kind, sampler, values);
        self.hops
            .entry(hops.map_or(Hops::Unknown, Hops::Known))
            .or_default()
            .merge(values);
        self.devices.entry(guid).or_default().merge(values);
    }

    fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    fn all(&self) -> Distribution {
        let mut all = Distribution::default();
        self.kinds.values().for_each(|values| all.merge(values));
        all
    }

    fn of(&self, by: By) -> Vec<&Distribution> {
        match by {
            By::Kind => self.kinds.values().collect(),
            By::Hops => self.hops.values().collect(),
            By::Sampler => self.samplers.values().collect(),
            By::Device => self.devices.values().collect(),
        }
    }
}

impl Latencies {
    /// Chooses the source of the values: single MADs if there are histograms, otherwise means.
    /// `name` returns the name of a device.
    pub(super) fn of(
        [rtt, service, means]: [Parts; 3],
        name: impl Fn(Guid) -> String,
    ) -> Result<Self, AnalysisError> {
        let has_single = !(rtt.is_empty() && service.is_empty());
        let joint = if !service.is_empty() {
            service
        } else if !rtt.is_empty() {
            rtt.clone()
        } else {
            means.clone()
        };
        if joint.is_empty() {
            let help = "give records of ports that answered, and check --from and --to".to_owned();
            return Err(AnalysisError::Nothing {
                what: "no round-trip time in the time range".to_owned(),
                help,
            });
        }
        // Histograms by kind have a higher resolution than those by device.
        let fine = if rtt.is_empty() { &joint } else { &rtt };
        let (by_device, device_source) = if has_single && !joint.devices.is_empty() {
            (&joint, Source::SingleMads)
        } else {
            (&means, Source::PortMeans)
        };
        let texts = |groups: &BTreeMap<String, Distribution>| {
            groups
                .iter()
                .map(|(name, values)| named(name.clone(), None, values))
                .collect()
        };
        Ok(Self {
            all: fine.all(),
            source: if has_single {
                Source::SingleMads
            } else {
                Source::PortMeans
            },
            kinds: texts(&fine.kinds),
            samplers: texts(&fine.samplers),
            hops: by_device
                .hops
                .iter()
                .map(|(hops, values)| named(hops.name(), None, values))
                .collect(),
            devices: by_device
                .devices
                .iter()
                .map(|(guid, values)| named(name(*guid), Some(*guid), values))
                .collect(),
            device_source,
            least: Distribution::default(),
            has_exact_least: false,
            compound: Distribution::default(),
            clocks: BTreeMap::new(),
            joint,
        })
    }

    /// Returns the groups of a grouping.
    pub fn groups(&self, by: By) -> &[Named] {
        match by {
            By::Kind => &self.kinds,
            By::Hops => &self.hops,
            By::Sampler => &self.samplers,
            By::Device => &self.devices,
        }
    }

    /// Returns the modes of all values, and how well each grouping separates them.
    pub fn modes(&self, bins: Bins) -> ModeReport {
        let modes = modes::modes(&self.all, bins);
        let mut separations = Vec::new();
        if modes.len() > 1 {
            let groupings = By::ALL
                .map(|by| (by, self.joint.of(by)))
                .into_iter()
                .filter(|(_, groups)| groups.len() > 1);
            separations.extend(groupings.map(|(by, groups)| Separation::of(by, &groups, &modes)));
            separations.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        ModeReport { modes, separations }
    }
}

fn named(name: String, guid: Option<Guid>, values: &Distribution) -> Named {
    Named {
        name,
        guid,
        values: values.clone(),
    }
}
