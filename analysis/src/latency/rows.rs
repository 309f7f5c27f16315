//! The rows of distributions in the JSON output.

use ibnet_record::types::Guid;
use serde::Serialize;

use super::bins::{Bins, Counted};
use super::distribution::{Distribution, Moments};
use super::evaluated::Latencies;
use super::fit::{Excess, LogNormal};
use super::grouping::By;
use super::modes;
use crate::rows::Row;

/// A distribution in the JSON output. Times are in nanoseconds, with the timer cost (the min time
/// for one reading of the clock) subtracted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LatencyRow {
    /// Name of the recording. Null without a comparison.
    pub recording: Option<String>,
    /// `kind`, `model`, `hops`, `switch`, `chassis`, `sampler`, `path` or `device`. Null for `all`,
    /// `least of each device`, `least of each device and minute`, `compound query of a port` and
    /// `timer cost`.
    pub by: Option<By>,
    /// `all`, the name of a group, or one of the names without a grouping.
    pub name: String,
    /// GUID of the device, the switch or the chassis. Null for all other rows.
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
    /// Mean minus the min of the values.
    pub excess_mean_ns: f64,
    /// Root mean square of the values minus their min.
    pub excess_rms_ns: f64,
    /// Third moment about the min, divided by the third power of `excess_rms_ns`.
    pub excess_third: f64,
    /// Fourth moment about the min, divided by the fourth power of `excess_rms_ns`.
    pub excess_fourth: f64,
    /// Median of the log-normal distribution that is fitted to the values minus their min. Null,
    /// as the other two, if there is no fit.
    pub fit_median_ns: Option<f64>,
    /// Standard deviation of the natural logarithm in this fit.
    pub fit_sigma: Option<f64>,
    /// Error of the fit: its Kolmogorov-Smirnov distance from the values, 0 to 1.
    pub fit_distance: Option<f64>,
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
        "excess_mean_ns",
        "excess_rms_ns",
        "excess_third",
        "excess_fourth",
        "fit_median_ns",
        "fit_sigma",
        "fit_distance",
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
        let excess = Excess::of(values.moments(), values.least() as f64);
        let fit = LogNormal::of(values);
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
            excess_mean_ns: excess.mean,
            excess_rms_ns: excess.rms,
            excess_third: excess.third,
            excess_fourth: excess.fourth,
            fit_median_ns: fit.map(|fit| fit.median),
            fit_sigma: fit.map(|fit| fit.sigma),
            fit_distance: fit.map(|fit| fit.distance(values)),
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

/// Name of the row with the shortest single round-trip time of each device in each minute.
pub const MINIMA: &str = "least of each device and minute";

/// Name of the row with the times of single readings of the clock.
pub const TIMER: &str = "timer cost";

/// Name of the row with the compound queries.
pub const COMPOUND: &str = "compound query of a port";

/// A bin of a distribution. This is a row of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LatencyBin {
    /// Name of the recording. Null without a comparison.
    pub recording: Option<String>,
    /// Grouping, as in [`LatencyRow`].
    pub by: Option<By>,
    /// Name of the group, as in [`LatencyRow`].
    pub name: String,
    /// GUID of the device. Null for all other rows.
    pub guid: Option<Guid>,
    /// The bin.
    #[serde(flatten)]
    pub bin: Counted,
}

impl Row for LatencyBin {
    const COLUMNS: &'static [&'static str] = &[
        "recording",
        "by",
        "name",
        "guid",
        "start_ns",
        "end_ns",
        "count",
    ];
}

impl Latencies {
    /// Returns all distributions with their grouping, name and GUID.
    pub(super) fn distributions(&self) -> Vec<(Option<By>, &str, Option<Guid>, &Distribution)> {
        let mut all = vec![(None, "all", None, &self.all)];
        for by in By::ALL {
            let groups = self.groups(by).iter();
            all.extend(groups.map(|group| (Some(by), &*group.name, group.guid, &group.values)));
        }
        let others = [
            (LEAST, &self.least),
            (MINIMA, &self.minima),
            (COMPOUND, &self.compound),
            (TIMER, &self.timer),
        ];
        let others = others.into_iter().filter(|(_, values)| !values.is_empty());
        all.extend(others.map(|(name, values)| (None, name, None, values)));
        all
    }

    /// Returns the rows of the JSON output: all values, the values by each grouping, the shortest
    /// round-trip times and the compound queries.
    pub fn rows(&self, bins: Bins) -> Vec<LatencyRow> {
        let all = self.distributions().into_iter();
        all.map(|(by, name, guid, values)| LatencyRow {
            guid,
            ..LatencyRow::of(by, name, values, bins)
        })
        .collect()
    }
}
