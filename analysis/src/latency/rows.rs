//! The rows of distributions in the JSON output.

use ibnet_record::types::Guid;
use serde::Serialize;

use super::bins::Bins;
use super::distribution::{Distribution, Moments};
use super::evaluated::Latencies;
use super::grouping::{By, Named};
use super::modes;
use crate::rows::Row;

/// A distribution in the JSON output. Times are in nanoseconds, with the timer cost (the min time
/// for one reading of the clock) subtracted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LatencyRow {
    /// Name of the recording. Null without a comparison.
    pub recording: Option<String>,
    /// `kind`, `hops`, `sampler` or `device`. Null for `all`, `least of each device` and
    /// `compound query of a port`.
    pub by: Option<By>,
    /// `all`, a device kind, a distance, a sampler, the name of a device, `least of each device` or
    /// `compound query of a port`.
    pub name: String,
    /// GUID of the device. Null for all other rows.
    pub guid: Option<Guid>,
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation, with the number of values as the divisor.
    pub sd_ns: f64,
    /// Skewness: 0 for a symmetric distribution.
    pub skew: f64,
    /// Kurtosis: 3 for a normal distribution.
    pub kurtosis: f64,
    /// Positions of the modes, ascending.
    pub modes: Vec<f64>,
    /// Min of the values.
    pub min_ns: u64,
    /// 1st percentile.
    pub p1_ns: u64,
    /// 25th percentile.
    pub p25_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile.
    pub p75_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Max of the values.
    pub max_ns: u64,
    /// Median minus the median of the first recording. Null without a comparison.
    pub shift_ns: Option<f64>,
    /// Kolmogorov-Smirnov distance from the first recording, 0 to 1. Null without a comparison.
    pub distance: Option<f64>,
}

impl Row for LatencyRow {
    const COLUMNS: &'static [&'static str] = &[
        "recording",
        "by",
        "name",
        "guid",
        "count",
        "mean_ns",
        "sd_ns",
        "skew",
        "kurtosis",
        "modes",
        "min_ns",
        "p1_ns",
        "p25_ns",
        "p50_ns",
        "p75_ns",
        "p90_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "shift_ns",
        "distance",
    ];
}

impl LatencyRow {
    /// Evaluates a distribution. Modes are searched on the scale of `bins`.
    pub fn of(by: Option<By>, name: &str, values: &Distribution, bins: Bins) -> Self {
        let Moments {
            mean,
            deviation,
            skewness,
            kurtosis,
        } = values.moments();
        Self {
            recording: None,
            by,
            name: name.to_owned(),
            guid: None,
            count: values.count(),
            mean_ns: mean,
            sd_ns: deviation,
            skew: skewness,
            kurtosis,
            modes: modes::modes(values, bins)
                .into_iter()
                .map(|mode| mode.at.round())
                .collect(),
            min_ns: values.least(),
            p1_ns: values.percentile(1.0),
            p25_ns: values.percentile(25.0),
            p50_ns: values.percentile(50.0),
            p75_ns: values.percentile(75.0),
            p90_ns: values.percentile(90.0),
            p99_ns: values.percentile(99.0),
            p999_ns: values.percentile(99.9),
            max_ns: values.greatest(),
            shift_ns: None,
            distance: None,
        }
    }
}

/// Name of the row with the shortest single round-trip time of each device.
pub const LEAST: &str = "least of each device";

/// Name of the row with the compound queries.
pub const COMPOUND: &str = "compound query of a port";

impl Latencies {
    /// Returns the rows of the JSON output: all values, the values by kind, distance, sampler and
    /// device, the shortest round-trip times and the compound queries.
    pub fn rows(&self, bins: Bins) -> Vec<LatencyRow> {
        let mut rows = vec![LatencyRow::of(None, "all", &self.all, bins)];
        for by in By::ALL {
            let row = |group: &Named| LatencyRow {
                guid: group.guid,
                ..LatencyRow::of(Some(by), &group.name, &group.values, bins)
            };
            rows.extend(self.groups(by).iter().map(row));
        }
        for (name, values) in [(LEAST, &self.least), (COMPOUND, &self.compound)] {
            if !values.is_empty() {
                rows.push(LatencyRow::of(None, name, values, bins));
            }
        }
        rows
    }
}
