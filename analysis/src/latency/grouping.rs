//! Groups of values, and how well each grouping separates the modes of a distribution.

use std::fmt;

use ibnet_record::types::Guid;
use serde::{Serialize, Serializer};

use super::distribution::Distribution;
use super::modes::Mode;

/// Property by which values are grouped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum By {
    /// Kind of the device.
    Kind,
    /// Vendor and device ID of the device.
    Model,
    /// Distance of the device from the sampler.
    Hops,
    /// The switch, or the switch to which the HCA is connected.
    Switch,
    /// The chassis of this switch: switches with the same SystemImageGUID.
    Chassis,
    /// The sampler that measured.
    Sampler,
    /// The sampler and the switch.
    Path,
    /// The device.
    Device,
}

impl By {
    /// All groupings, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Kind,
        Self::Model,
        Self::Hops,
        Self::Switch,
        Self::Chassis,
        Self::Sampler,
        Self::Path,
        Self::Device,
    ];

    /// Returns the name in tables and in the JSON output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Model => "model",
            Self::Hops => "hops",
            Self::Switch => "switch",
            Self::Chassis => "chassis",
            Self::Sampler => "sampler",
            Self::Path => "path",
            Self::Device => "device",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for By {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Values of one group.
#[derive(Clone, Debug)]
pub struct Named {
    /// Name of the group: a device kind, a distance, a sampler, or the name of a device.
    pub name: String,
    /// GUID of the device, the switch or the chassis. `None` for other groups.
    pub guid: Option<Guid>,
    /// Durations in nanoseconds.
    pub values: Distribution,
}

/// How well a grouping separates the modes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Separation {
    /// The grouping.
    pub by: By,
    /// Number of groups.
    pub groups: usize,
    /// How much the uncertainty about the mode of a value shrinks if its group is known, as a
    /// share from 0 to 1.
    pub explained: f64,
    /// [`explained`](Self::explained) minus [`COST`] for each doubling of the number of groups.
    pub score: f64,
}

/// Reduction of the score for each doubling of the number of groups. A finer grouping (devices
/// instead of device kinds) always explains at least as much, so it would always win without this
/// reduction.
pub const COST: f64 = 0.02;

/// Min score of a grouping that counts as separating the modes.
pub const MIN_SCORE: f64 = 0.1;

impl Separation {
    /// Evaluates a grouping by Theil's uncertainty coefficient, I(mode; group) / H(mode) (H. Theil,
    /// 1970; W. H. Press et al., "Numerical Recipes", section 14.4). The mutual information is
    /// corrected for the number of values (G. A. Miller, 1955).
    pub fn of(by: By, groups: &[&Distribution], modes: &[Mode]) -> Self {
        let counts: Vec<Vec<f64>> = groups
            .iter()
            .map(|values| {
                modes
                    .iter()
                    .map(|mode| values.between(mode.from, mode.to))
                    .collect()
            })
            .collect();
        let all: f64 = counts.iter().flatten().sum();
        let entropy = |counts: &[f64]| {
            let sum: f64 = counts.iter().sum();
            counts
                .iter()
                .filter(|count| **count > 0.0)
                .map(|count| -count / sum * (count / sum).ln())
                .sum::<f64>()
        };
        let columns: Vec<f64> = (0..modes.len())
            .map(|mode| counts.iter().map(|row| row[mode]).sum())
            .collect();
        let uncertainty = entropy(&columns);
        let rest: f64 = counts
            .iter()
            .map(|row| row.iter().sum::<f64>() / all * entropy(row))
            .sum();
        let used = counts
            .iter()
            .filter(|row| row.iter().sum::<f64>() > 0.0)
            .count();
        let bias = (used.max(1) - 1) as f64 * (modes.len().max(1) - 1) as f64 / (2.0 * all);
        let explained = if uncertainty > 0.0 {
            ((uncertainty - rest - bias) / uncertainty).clamp(0.0, 1.0)
        } else {
            0.0
        };
        Self {
            by,
            groups: used,
            explained,
            score: explained - COST * (used.max(1) as f64).log2(),
        }
    }
}

/// Returns up to three groups that have the most values from `from` to `to`, with their shares of
/// these values, in descending order.
pub fn largest(groups: &[Named], from: f64, to: f64) -> Vec<(&str, f64)> {
    const MAX: usize = 3;
    let mut counts: Vec<(&str, f64)> = groups
        .iter()
        .map(|group| (group.name.as_str(), group.values.between(from, to)))
        .collect();
    let all: f64 = counts.iter().map(|(_, count)| count).sum();
    counts.retain(|(_, count)| *count > 0.0);
    counts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    counts.truncate(MAX);
    counts
        .iter()
        .map(|(name, count)| (*name, count / all))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::distribution::of;
    use super::*;

    fn modes() -> [Mode; 2] {
        [
            Mode {
                at: 10.0,
                from: 0.0,
                to: 50.0,
                share: 0.5,
            },
            Mode {
                at: 90.0,
                from: 50.0,
                to: f64::INFINITY,
                share: 0.5,
            },
        ]
    }

    #[test]
    fn uncertainty_coefficients_are_exact() {
        let all_of = |groups: &[Distribution]| {
            Separation::of(By::Kind, &groups.iter().collect::<Vec<_>>(), &modes())
        };
        // Each group is in one mode.
        let pure = all_of(&[of((0..1000).map(|_| 10)), of((0..1000).map(|_| 90))]);
        assert!(
            (pure.explained - 1.0).abs() < 1e-3
                && (pure.score - pure.explained + 0.02).abs() < 1e-9,
            "{pure:?}"
        );
        // Each group is in both modes.
        let mixed = all_of(&[
            of((0..1000).map(|value| 10 + value % 2 * 80)),
            of((0..1000).map(|value| 10 + value % 2 * 80)),
        ]);
        assert_eq!(mixed.explained, 0.0, "{mixed:?}");
        // 90 % and 10 %: 1 - H(0.1) / ln 2 = 0.531.
        let group = |other: u64| {
            of((0..1000).map(move |value| {
                if (value < 100) == (other == 1) {
                    90
                } else {
                    10
                }
            }))
        };
        let most = all_of(&[group(0), group(1)]);
        assert!((most.explained - 0.531).abs() < 1e-3, "{most:?}");
        assert_eq!(all_of(&[]).explained, 0.0);
    }

    #[test]
    fn largest_groups_come_first() {
        let named = |name: &str, count: u64| Named {
            name: name.to_owned(),
            guid: None,
            values: of((0..count).map(|_| 10)),
        };
        let groups = [named("a", 1), named("b", 7), named("c", 2), named("d", 0)];
        assert_eq!(
            largest(&groups, 0.0, 50.0),
            [("b", 0.7), ("c", 0.2), ("a", 0.1)]
        );
        assert_eq!(largest(&groups, 50.0, 60.0), []);
    }
}
