//! The values at the first and the last colour of a heat map.

use std::str::FromStr;

use ibnet_record::types::ParseError;

use super::grid::Panel;
use crate::metric::Unit;

/// How the values of the first and the last colour are chosen.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Range {
    /// A range that suits the metric: 0 to the full link for data rates, 0 to 1 for shares,
    /// [`Range::Log`] for errors, and [`Range::Largest`] for all other metrics.
    #[default]
    Auto,
    /// From 0 to the mean plus the mean absolute deviation, as in Aguilar's thesis (2015), so
    /// that outliers do not give all other values the same colour.
    MeanDeviation,
    /// From 0 to the max.
    Largest,
    /// From the min above 0 to the max, on a logarithmic scale. Only 0 has the first colour.
    Log,
    /// From 0 to this percentile of all values.
    Percentile(f64),
    /// Two given values, in the unit of the metric.
    Fixed(f64, f64),
}

/// The values of the first and the last colour.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ColorRange {
    /// Value of the first colour, or, in a logarithmic range, the min above 0.
    pub low: f64,
    /// Value of the last colour, greater than `low`.
    pub high: f64,
    /// Whether the colour follows the logarithm of the value.
    pub is_log: bool,
    /// Where the range comes from.
    pub origin: Origin,
}

/// Where a range comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Origin {
    /// The upper limit of the metric: a full link, or the whole time.
    Full,
    /// The min and the max of the values.
    Largest,
    /// Mean plus mean absolute deviation.
    MeanDeviation,
    /// Percentile of all values.
    Percentile(f64),
    /// Argument of the user.
    Given,
}

/// Position of the min above 0 in a logarithmic range, 0 to 1, where the colour is visibly
/// different from that of 0.
const FIRST_OF_LOG: f64 = 0.2;

impl Range {
    /// Returns the range for a panel.
    pub fn of(&self, panel: &Panel) -> ColorRange {
        let linear = |low, high, origin| {
            let high = if high > low { high } else { low + 1.0 };
            ColorRange {
                low,
                high,
                is_log: false,
                origin,
            }
        };
        let largest = || panel.values().fold(0.0, f64::max);
        match *self {
            Self::Auto => match panel.metric.unit() {
                Unit::ShareOfLink | Unit::ShareOfTime => linear(0.0, 1.0, Origin::Full),
                Unit::Gbps | Unit::OctetsPerSecond if panel.full.is_some() => {
                    linear(0.0, panel.full.unwrap_or(0.0), Origin::Full)
                }
                _ if panel.metric.counts_errors() => Self::Log.of(panel),
                _ => linear(0.0, largest(), Origin::Largest),
            },
            Self::Fixed(low, high) => linear(low, high, Origin::Given),
            Self::MeanDeviation => linear(0.0, mean_and_deviation(panel), Origin::MeanDeviation),
            Self::Percentile(percent) => linear(
                0.0,
                percentile(panel.values().collect(), percent),
                Origin::Percentile(percent),
            ),
            Self::Largest => linear(0.0, largest(), Origin::Largest),
            Self::Log => {
                let Some(least) = panel.values().filter(|value| *value > 0.0).reduce(f64::min)
                else {
                    return linear(0.0, largest(), Origin::Largest);
                };
                let high = largest();
                // A single value gets the last colour.
                let low = if high > least { least } else { high / 10.0 };
                ColorRange {
                    low,
                    high,
                    is_log: true,
                    origin: Origin::Largest,
                }
            }
        }
    }
}

impl ColorRange {
    /// Returns the position of a value in the colour range, 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        let share = if !self.is_log {
            (value - self.low) / (self.high - self.low)
        } else if value > 0.0 {
            FIRST_OF_LOG
                + (1.0 - FIRST_OF_LOG)
                    * ((value / self.low).ln() / (self.high / self.low).ln()).max(0.0)
        } else {
            0.0
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns the value at a position in the colour range: the inverse of [`Self::share`].
    pub fn value(&self, share: f64) -> f64 {
        if !self.is_log {
            self.low + share * (self.high - self.low)
        } else if share >= FIRST_OF_LOG {
            self.low * (self.high / self.low).powf((share - FIRST_OF_LOG) / (1.0 - FIRST_OF_LOG))
        } else {
            0.0
        }
    }
}

/// Returns the sum of the mean and the mean absolute deviation, or 0 without values.
fn mean_and_deviation(panel: &Panel) -> f64 {
    let count = panel.values().count().max(1) as f64;
    let mean = panel.values().sum::<f64>() / count;
    mean + panel
        .values()
        .map(|value| (value - mean).abs())
        .sum::<f64>()
        / count
}

/// Returns a percentile: the min value such that at least `percent` of the values are not larger.
/// Returns 0 without values.
fn percentile(mut values: Vec<f64>, percent: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values
        .get(place.clamp(1, values.len().max(1)) - 1)
        .copied()
        .unwrap_or(0.0)
}

impl FromStr for Range {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            ParseError::new(
                text,
                "auto, mean, max, log, percentile:99 or a range such as 0..100",
            )
        };
        let number = |text: &str| {
            text.trim()
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite())
        };
        match text {
            "auto" => return Ok(Self::Auto),
            "mean" => return Ok(Self::MeanDeviation),
            "max" => return Ok(Self::Largest),
            "log" => return Ok(Self::Log),
            _ => {}
        }
        if let Some(percent) = text.strip_prefix("percentile:") {
            return number(percent)
                .filter(|percent| (0.0..=100.0).contains(percent))
                .map(Self::Percentile)
                .ok_or_else(wrong);
        }
        let (low, high) = text.split_once("..").ok_or_else(wrong)?;
        let (low, high) = number(low).zip(number(high)).ok_or_else(wrong)?;
        if low < high {
            Ok(Self::Fixed(low, high))
        } else {
            Err(wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Cell::{self, NoAnswer, NoRecord, Unknown, Value};
    use super::*;

    fn panel_of(metric: &str, full: Option<f64>, cells: Vec<Vec<Cell>>) -> Panel {
        Panel {
            metric: metric.parse().unwrap(),
            summed: 1,
            full,
            ports: Vec::new(),
            cells,
        }
    }

    fn panel(cells: Vec<Vec<Cell>>) -> Panel {
        panel_of("xmit_gbps", Some(100.0), cells)
    }

    fn ends(range: Range, panel: &Panel) -> (f64, f64) {
        let ColorRange { low, high, .. } = range.of(panel);
        (low, high)
    }

    #[test]
    fn ranges_of_a_few_values_are_exact() {
        // 0, 0, 2, 10: the mean is 3, the deviations are 3, 3, 1, 7, and their mean is 3.5.
        let panel = panel(vec![
            vec![Value(0.0), Value(2.0), NoAnswer],
            vec![Value(10.0), NoRecord, Value(0.0)],
        ]);
        assert_eq!(ends(Range::MeanDeviation, &panel), (0.0, 6.5));
        assert_eq!(ends(Range::Percentile(75.0), &panel), (0.0, 2.0));
        assert_eq!(ends(Range::Percentile(100.0), &panel), (0.0, 10.0));
        assert_eq!(ends(Range::Largest, &panel), (0.0, 10.0));
        assert_eq!(ends(Range::Log, &panel), (2.0, 10.0));
        assert_eq!(ends("1..4".parse().unwrap(), &panel), (1.0, 4.0));
        assert_eq!(
            (
                panel.largest(),
                panel.count(NoAnswer),
                panel.count(Value(0.0))
            ),
            (Some((10.0, 1, 0)), 1, 4)
        );
    }

    #[test]
    fn default_range_shows_a_full_link_as_full() {
        let cells = vec![vec![Value(0.25), Value(0.5)]];
        for (metric, full, expected) in [
            ("xmit_utilization", None, (0.0, 1.0)),
            ("xmit_blocked", None, (0.0, 1.0)),
            ("xmit_gbps", Some(100.0), (0.0, 100.0)),
            ("xmit_gbps", None, (0.0, 0.5)),
            ("port_xmit_data_bytes", Some(12.5e9), (0.0, 12.5e9)),
            ("port_xmit_wait_ticks", None, (0.0, 0.5)),
            ("rtt_ns", None, (0.0, 0.5)),
        ] {
            assert_eq!(
                ends(Range::default(), &panel_of(metric, full, cells.clone())),
                expected,
                "{metric}"
            );
        }
    }

    #[test]
    fn every_error_differs_from_none_and_no_error_saturates() {
        let panel = panel_of(
            "errors",
            None,
            vec![vec![Value(0.0), Value(0.05), Value(3000.0), Unknown]],
        );
        let range = Range::default().of(&panel);
        assert!(range.is_log && range.share(0.0) == 0.0 && range.share(0.05) >= FIRST_OF_LOG);
        assert!((range.share(3000.0) - 1.0).abs() < 1e-9 && range.share(1000.0) < 1.0);
        for value in [0.0, 0.05, 1.0, 3000.0] {
            assert!(
                (range.value(range.share(value)) - value).abs() < 1e-9 * value.max(1.0),
                "{value}"
            );
        }
        let quiet = panel_of("errors", None, vec![vec![Value(0.0)]]);
        assert_eq!(ends(Range::default(), &quiet), (0.0, 1.0));
        let once = panel_of("errors", None, vec![vec![Value(0.0), Value(2.0)]]);
        assert_eq!(Range::default().of(&once).share(2.0), 1.0);
    }

    #[test]
    fn range_is_never_empty() {
        assert_eq!(
            ends(
                Range::MeanDeviation,
                &panel(vec![vec![Value(0.0), Unknown]])
            ),
            (0.0, 1.0)
        );
        assert_eq!(
            ends(Range::Percentile(50.0), &panel(vec![vec![NoAnswer]])),
            (0.0, 1.0)
        );
        assert_eq!(ends(Range::Log, &panel(vec![vec![NoAnswer]])), (0.0, 1.0));
    }

    #[test]
    fn malformed_range_is_rejected() {
        for text in [
            "",
            "5",
            "5..1",
            "1..1",
            "0..nan",
            "percentile:101",
            "percentile:x",
            "0..inf",
            "Auto",
        ] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }
}
