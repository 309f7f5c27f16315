//! The readings of all sources, and the values between them.
//!
//! The value of a counter between two readings is its increase per second. The value of a gauge
//! is that of a reading, from the reading before up to this one. Three rules keep the values
//! true:
//!
//! 1. If a counter decreased, it was reset, and its value between the two readings is unknown.
//!    The same rule holds for port counters.
//! 2. If the time between two readings is longer than [`LONGEST`] times the usual time, there is
//!    a gap, and the value is unknown.
//! 3. Where a source has no readings there is no value. It is never taken as 0.

use std::collections::{BTreeMap, BTreeSet};

use super::{Piece, Range};
use crate::record::Interval;

/// Max time between two readings without a gap, as a multiple of the usual time. It tolerates one
/// lost reading.
const LONGEST: f64 = 2.5;

/// What the values of a series mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// The value only increases, until a reset.
    Counter,
    /// The value at a moment.
    Gauge,
    /// A mean over this time before the reading, in nanoseconds.
    Mean(u64),
}

impl Kind {
    /// Guesses the kind of a metric from its name: those of counters end in `_total`.
    pub(super) fn of(metric: &str) -> Self {
        if metric.ends_with("_total") {
            Self::Counter
        } else {
            Self::Gauge
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SeriesKey {
    /// Host as the records name it.
    pub(super) host: String,
    pub(super) metric: String,
    /// Labels by name, without those of the host.
    pub(super) labels: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) kind: Kind,
    /// The source and the target of the readings. Readings from other targets are copies.
    origin: String,
    /// Time in nanoseconds since 1970, and value.
    values: BTreeMap<u64, f64>,
}

#[derive(Debug, Default)]
pub(super) struct Readings {
    pub(super) series: BTreeMap<SeriesKey, Series>,
    /// Host names in the sources that are not in the records.
    pub(super) strangers: BTreeSet<String>,
    /// Names of the metrics in the files, whether requested or not.
    pub(super) known: BTreeSet<String>,
    /// Number of readings that another target has too.
    pub(super) copies: u64,
}

impl Readings {
    /// Adds a reading. The first target of a series is used; readings from others count as
    /// copies.
    pub(super) fn add(
        &mut self,
        key: &SeriesKey,
        kind: Kind,
        origin: &str,
        (ts, value): (u64, f64),
    ) {
        if !value.is_finite() {
            return;
        }
        match self.series.get_mut(key) {
            Some(series) if series.origin == origin => drop(series.values.insert(ts, value)),
            Some(_) => self.copies += 1,
            None => {
                let series = Series {
                    kind,
                    origin: origin.to_owned(),
                    values: BTreeMap::from([(ts, value)]),
                };
                self.series.insert(key.clone(), series);
            }
        }
    }

    /// Returns for each metric the usual time between two readings: the median over all its
    /// series.
    pub(super) fn usual_ns(&self) -> BTreeMap<&str, u64> {
        let mut distances: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (key, series) in &self.series {
            distances
                .entry(&key.metric)
                .or_default()
                .extend(series.distances());
        }
        let median = |mut distances: Vec<u64>| {
            let middle = distances.len() / 2;
            (!distances.is_empty()).then(|| *distances.select_nth_unstable(middle).1)
        };
        distances
            .into_iter()
            .filter_map(|(metric, distances)| Some((metric, median(distances)?)))
            .collect()
    }
}

impl Series {
    fn distances(&self) -> impl Iterator<Item = u64> {
        self.values
            .keys()
            .zip(self.values.keys().skip(1))
            .map(|(before, after)| after - before)
    }

    /// Returns the values between the readings. `usual_ns` is the usual time between two readings.
    pub(super) fn pieces(&self, usual_ns: u64, range: Range) -> Vec<Piece> {
        let longest = (usual_ns as f64 * LONGEST) as u64;
        let mut pieces = Vec::new();
        let mut put = |from: u64, to: u64, value: Option<f64>| {
            let time = Interval::new(from, to).and_then(|time| time.within(range.from, range.to));
            pieces.extend(time.map(|time| Piece { time, value }));
        };
        if let (Kind::Gauge, Some((ts, value))) = (self.kind, self.values.first_key_value()) {
            put(ts.saturating_sub(usual_ns), *ts, Some(*value));
        }
        if let Kind::Mean(length) = self.kind {
            self.values
                .iter()
                .for_each(|(ts, value)| put(ts.saturating_sub(length), *ts, Some(*value)));
            return pieces;
        }
        for ((before_ts, before), (ts, value)) in self.values.iter().zip(self.values.iter().skip(1))
        {
            let is_gap = ts - before_ts > longest;
            match self.kind {
                Kind::Gauge if is_gap => {
                    let from = ts.saturating_sub(usual_ns);
                    put(*before_ts, from, None);
                    put(from, *ts, Some(*value));
                }
                Kind::Gauge => put(*before_ts, *ts, Some(*value)),
                _ if is_gap || value < before => put(*before_ts, *ts, None),
                _ => put(
                    *before_ts,
                    *ts,
                    Some((value - before) * 1e9 / (ts - before_ts) as f64),
                ),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pieces(kind: Kind, values: &[(u64, f64)]) -> Vec<(u64, u64, Option<f64>)> {
        let key = SeriesKey {
            host: "n1".to_owned(),
            metric: "m".to_owned(),
            labels: Vec::new(),
        };
        let mut readings = Readings::default();
        for (seconds, value) in values {
            readings.add(&key, kind, "file", (seconds * SECOND, *value));
        }
        let usual = readings.usual_ns()["m"];
        let pieces = readings.series[&key].pieces(
            usual,
            Range {
                from: 0,
                to: 100 * SECOND,
            },
        );
        pieces
            .into_iter()
            .map(|piece| {
                (
                    piece.time.from() / SECOND,
                    piece.time.to() / SECOND,
                    piece.value,
                )
            })
            .collect()
    }

    #[test]
    fn counter_has_a_rate_except_after_a_reset_and_over_a_gap() {
        let values = [
            (10, 0.0),
            (11, 5.0),
            (12, 9.0),
            (13, 3.0),
            (14, 4.0),
            (16, 8.0),
            (20, 20.0),
            (21, 21.0),
        ];
        assert_eq!(
            pieces(Kind::Counter, &values),
            [
                (10, 11, Some(5.0)),
                (11, 12, Some(4.0)),
                (12, 13, None),
                (13, 14, Some(1.0)),
                (14, 16, Some(2.0)),
                (16, 20, None),
                (20, 21, Some(1.0)),
            ]
        );
    }

    #[test]
    fn gauge_has_the_value_of_the_reading_at_its_end() {
        assert_eq!(
            pieces(Kind::Gauge, &[(10, 7.0), (11, 5.0), (12, 5.0), (16, 1.0)]),
            [
                (9, 10, Some(7.0)),
                (10, 11, Some(5.0)),
                (11, 12, Some(5.0)),
                (12, 15, None),
                (15, 16, Some(1.0))
            ]
        );
        assert_eq!(
            pieces(Kind::Mean(2 * SECOND), &[(10, 7.0), (12, 5.0)]),
            [(8, 10, Some(7.0)), (10, 12, Some(5.0))]
        );
    }

    #[test]
    fn second_target_of_a_series_is_a_copy() {
        let key = SeriesKey {
            host: "n1".to_owned(),
            metric: "m_total".to_owned(),
            labels: Vec::new(),
        };
        let mut readings = Readings::default();
        for (origin, ts, value) in [
            ("a", 1, 1.0),
            ("b", 1, 500.0),
            ("a", 2, f64::NAN),
            ("a", 3, 2.0),
        ] {
            readings.add(&key, Kind::of(&key.metric), origin, (ts, value));
        }
        assert_eq!(
            (
                readings.copies,
                readings.series[&key].values.len(),
                readings.series[&key].kind
            ),
            (1, 2, Kind::Counter)
        );
    }
}
