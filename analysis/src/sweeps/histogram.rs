//! Histograms of the durations of sweeps and of compound queries.

use serde::Serialize;

use super::SweepReport;
use crate::latency::bins::{Bins, Counted};
use crate::latency::distribution::Distribution;
use crate::rows::Row;

/// Bins of the durations of sweeps, and bins of those of compound queries.
pub type BinsOf = (Bins, Bins);

/// Series with the same bins.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Bins with a width.
    pub bins: Bins,
    /// Names of the series with their bins that have values.
    pub series: Vec<(&'static str, Vec<Counted>)>,
}

/// A bin of a histogram. This is a row of the JSON output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BinRow {
    /// `sweep`, `decode`, `total` or `query`.
    pub what: &'static str,
    /// Kind of the devices. Null if this is not `query`.
    pub kind: Option<&'static str>,
    /// The bin.
    #[serde(flatten)]
    pub bin: Counted,
}

impl Row for BinRow {
    const COLUMNS: &'static [&'static str] = &["what", "kind", "start_ns", "end_ns", "count"];
}

impl Histogram {
    fn new<'a>(
        bins: Bins,
        all: &Distribution,
        series: impl Iterator<Item = (&'static str, &'a Distribution)>,
    ) -> Self {
        let bins = bins.with_width(all);
        Self {
            bins,
            series: series
                .map(|(name, values)| (name, bins.counts(values)))
                .collect(),
        }
    }
}

impl SweepReport {
    /// Returns the histogram of sweep, decode and total, and that of compound queries by kind.
    pub fn histograms(&self, (sweeps, queries): BinsOf) -> [Histogram; 2] {
        let mut all = Distribution::default();
        self.compound.values().for_each(|values| all.merge(values));
        let kinds = self.compound.iter().map(|(kind, values)| (*kind, values));
        [
            Histogram::new(sweeps, &self.sweep, self.parts().into_iter()),
            Histogram::new(queries, &all, kinds),
        ]
    }

    /// Returns the bins of all histograms as rows.
    pub fn bin_rows(&self, bins: BinsOf) -> Vec<BinRow> {
        let mut rows = Vec::new();
        for (histogram, is_query) in self.histograms(bins).into_iter().zip([false, true]) {
            for (name, bins) in histogram.series {
                let (what, kind) = if is_query {
                    ("query", Some(name))
                } else {
                    (name, None)
                };
                rows.extend(bins.into_iter().map(|bin| BinRow { what, kind, bin }));
            }
        }
        rows
    }
}
