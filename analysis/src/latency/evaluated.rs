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

/// Widths of the buckets of the histograms that a recording has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Resolution {
    /// Number of buckets from a power of two to the next one, at most: 16 are buckets of 3 to 6 %.
    pub per_octave: u64,
    /// Min width of a bucket in nanoseconds.
    pub unit_ns: u64,
}

impl Resolution {
    /// Returns the lower resolution of two.
    #[must_use]
    pub fn coarser(self, other: Self) -> Self {
        Self {
            per_octave: self.per_octave.min(other.per_octave),
            unit_ns: self.unit_ns.max(other.unit_ns),
        }
    }
}

/// All distributions of a recording. The timer cost (the min time for one reading of the clock)
/// is already subtracted from the values.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// All values.
    pub all: Distribution,
    /// What the values are.
    pub source: Source,
    /// What the values of the groupings are, except those by kind and by sampler.
    pub device_source: Source,
    /// The groups of each grouping.
    groups: BTreeMap<By, Vec<Named>>,
    /// Shortest single round-trip time of each device, that is, without queues on the path. Empty
    /// if the records have neither `rtt_min_ns` nor `service` histograms.
    pub least: Distribution,
    /// Whether `least` comes from `rtt_min_ns`. Values from `service` histograms are rounded.
    pub has_exact_least: bool,
    /// Shortest single round-trip time of each device in each minute.
    pub minima: Distribution,
    /// Durations of compound queries: all MADs of a port in a slot.
    pub compound: Distribution,
    /// Times of single readings of the clock.
    pub timer: Distribution,
    /// Lowest resolution of the histograms by kind and of those by device.
    pub resolutions: [Option<Resolution>; 2],
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

/// A group of a grouping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Key {
    /// Number of switches on the path to a device, including the device itself.
    Hops(u16),
    Text(String),
    Guid(Guid),
    /// A sampler and a switch.
    Path(String, Guid),
    Unknown,
}

impl Key {
    /// Returns the name of the group, and the GUID if it is one.
    fn named(&self, by: By, name: &impl Fn(By, Guid) -> String) -> (String, Option<Guid>) {
        match self {
            Self::Hops(1) => ("1 hop".to_owned(), None),
            Self::Hops(hops) => (format!("{hops} hops"), None),
            Self::Text(text) => (text.clone(), None),
            Self::Guid(guid) => (name(by, *guid), Some(*guid)),
            Self::Path(sampler, switch) => {
                (format!("{sampler} -> {}", name(By::Switch, *switch)), None)
            }
            Self::Unknown if by == By::Hops => ("unknown distance".to_owned(), None),
            Self::Unknown => (format!("unknown {by}"), None),
        }
    }
}

/// Values of one source, in groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(BTreeMap<By, BTreeMap<Key, Distribution>>);

impl Parts {
    /// Adds values to a group of each grouping.
    pub(super) fn add(&mut self, keys: impl IntoIterator<Item = (By, Key)>, values: &Distribution) {
        for (by, key) in keys {
            let groups = self.0.entry(by).or_default();
            groups.entry(key).or_default().merge(values);
        }
    }

    fn all(&self) -> Distribution {
        let mut all = Distribution::default();
        self.of(By::Kind).for_each(|(_, values)| all.merge(values));
        all
    }

    fn of(&self, by: By) -> impl Iterator<Item = (&Key, &Distribution)> {
        self.0.get(&by).into_iter().flatten()
    }
}

impl Latencies {
    /// Chooses the source of the values: single MADs if there are histograms, otherwise means.
    /// `name` returns the name of a device or a chassis.
    pub(super) fn of(
        [rtt, service, means]: [Parts; 3],
        name: impl Fn(By, Guid) -> String,
    ) -> Result<Self, AnalysisError> {
        let has_single = !(rtt.0.is_empty() && service.0.is_empty());
        let joint = if !service.0.is_empty() {
            service
        } else if !rtt.0.is_empty() {
            rtt.clone()
        } else {
            means.clone()
        };
        if joint.0.is_empty() {
            let help = "give records of ports that answered, and check --from and --to".to_owned();
            return Err(AnalysisError::Nothing {
                what: "no round-trip time in the time range".to_owned(),
                help,
            });
        }
        // Histograms by kind have as many values as those by device, or more.
        let fine = if rtt.0.is_empty() { &joint } else { &rtt };
        let has_devices = joint.0.contains_key(&By::Device);
        let (by_device, device_source) = if has_single && has_devices {
            (&joint, Source::SingleMads)
        } else {
            (&means, Source::PortMeans)
        };
        let groups = By::ALL.map(|by| {
            let parts = match by {
                By::Kind | By::Sampler => fine,
                _ => by_device,
            };
            // A grouping without any known group, such as the models without histograms, is left
            // out.
            let is_known = by == By::Hops || parts.of(by).any(|(key, _)| *key != Key::Unknown);
            let groups = parts.of(by).filter(|_| is_known);
            let named = groups.map(|(key, values)| {
                let (name, guid) = key.named(by, &name);
                Named {
                    name,
                    guid,
                    values: values.clone(),
                }
            });
            (by, named.collect())
        });
        Ok(Self {
            all: fine.all(),
            source: if has_single {
                Source::SingleMads
            } else {
                Source::PortMeans
            },
            device_source,
            groups: groups.into(),
            least: Distribution::default(),
            has_exact_least: false,
            minima: Distribution::default(),
            compound: Distribution::default(),
            timer: Distribution::default(),
            resolutions: [None; 2],
            clocks: BTreeMap::new(),
            joint,
        })
    }

    /// Returns the groups of a grouping.
    pub fn groups(&self, by: By) -> &[Named] {
        self.groups.get(&by).map_or(&[], Vec::as_slice)
    }

    /// Returns the groupings with few groups, for tables. The models are left out if each kind of
    /// device has one, because their values are then those of the kinds.
    pub fn tabulated(&self) -> impl Iterator<Item = By> + use<> {
        let has_models = self.groups(By::Model).len() > self.groups(By::Kind).len();
        [By::Kind, By::Model, By::Hops, By::Sampler]
            .into_iter()
            .filter(move |by| has_models || *by != By::Model)
    }

    /// Returns the modes of all values, and how well each grouping separates them.
    pub fn modes(&self, bins: Bins) -> ModeReport {
        let modes = modes::modes(&self.all, bins);
        let mut separations = Vec::new();
        if modes.len() > 1 {
            let groupings = By::ALL
                .map(|by| {
                    (
                        by,
                        self.joint
                            .of(by)
                            .map(|(_, values)| values)
                            .collect::<Vec<_>>(),
                    )
                })
                .into_iter()
                .filter(|(_, groups)| groups.len() > 1);
            separations.extend(groupings.map(|(by, groups)| Separation::of(by, &groups, &modes)));
            separations.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        ModeReport { modes, separations }
    }
}
