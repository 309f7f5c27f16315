//! The statistic that summarizes the values of a link in the time range.

use std::fmt;
use std::str::FromStr;

use ibnet_record::types::Printable;

use crate::cell::Cell;

/// A statistic of the values of all slots, weighted by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stat {
    /// The mean.
    #[default]
    Mean,
    /// The max of all slots.
    Peak,
    /// A percentile, in thousandths: 950 is the 95th percentile.
    Percentile(u16),
}

impl Stat {
    /// Summarizes cells of equal length. Returns `None` without a value. If a cell is a lower
    /// bound, so is the result.
    pub fn of_cells(self, cells: &[Cell]) -> Option<Cell> {
        let mut values: Vec<f64> = cells.iter().filter_map(Cell::value).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let value = match self {
            Self::Mean => (count > 0).then(|| values.iter().sum::<f64>() / count as f64),
            Self::Peak => values.last().copied(),
            // The smallest value such that this share of all values is not larger.
            Self::Percentile(thousandths) => values
                .get((count * usize::from(thousandths)).div_ceil(1000).max(1) - 1)
                .copied(),
        }?;
        let bounds = cells
            .iter()
            .filter(|cell| matches!(cell, Cell::AtLeast { .. }));
        Some(match bounds.count() {
            0 => Cell::Value(value),
            bounds => Cell::AtLeast {
                value,
                covered: 1.0 - bounds as f64 / count as f64,
            },
        })
    }
}

/// Error for a text that is not a statistic.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "cannot read the statistic `{}`; write mean, peak or a percentile from p0.1 to p99.9, such as p95",
    Printable(found)
)]
pub struct StatError {
    /// The text.
    found: String,
}

impl FromStr for Stat {
    type Err = StatError;

    fn from_str(text: &str) -> Result<Self, StatError> {
        let percentile = || {
            let number = text
                .strip_prefix('p')
                .filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))?;
            let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
            let tenths: u16 = if tenths.len() == 1 {
                tenths.parse().ok()?
            } else {
                return None;
            };
            let thousandths = whole
                .parse::<u16>()
                .ok()?
                .checked_mul(10)?
                .checked_add(tenths)?;
            (1..1000)
                .contains(&thousandths)
                .then_some(Self::Percentile(thousandths))
        };
        match text {
            "mean" => Ok(Self::Mean),
            "peak" => Ok(Self::Peak),
            _ => percentile().ok_or_else(|| StatError {
                found: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Peak => f.write_str("peak"),
            Self::Percentile(thousandths) if thousandths % 10 == 0 => {
                write!(f, "p{}", thousandths / 10)
            }
            Self::Percentile(thousandths) => {
                write!(f, "p{}.{}", thousandths / 10, thousandths % 10)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_without_a_value_do_not_count() {
        let cells = [3.0, 1.0, 2.0, 6.0].map(Cell::Value);
        let of = |stat: &str, cells: &[Cell]| {
            stat.parse::<Stat>()
                .ok()
                .and_then(|stat| stat.of_cells(cells))
        };
        for (stat, expected) in [("mean", 3.0), ("peak", 6.0), ("p50", 2.0), ("p75", 3.0)] {
            assert_eq!(of(stat, &cells), Some(Cell::Value(expected)), "{stat}");
        }
        let bound = Cell::at_least(8.0, 0.5, Cell::Unknown);
        let partly = [Cell::NoAnswer, Cell::Value(2.0), bound];
        assert_eq!(of("mean", &partly).and_then(|cell| cell.value()), Some(5.0));
        assert!(matches!(of("p1", &partly), Some(Cell::AtLeast { .. })));
        assert_eq!(of("peak", &[Cell::NoRecord]), None);
    }

    #[test]
    fn statistics_are_parsed_and_printed() {
        for (text, stat) in [
            ("mean", Stat::Mean),
            ("peak", Stat::Peak),
            ("p95", Stat::Percentile(950)),
            ("p99.9", Stat::Percentile(999)),
            ("p5", Stat::Percentile(50)),
        ] {
            assert_eq!(text.parse(), Ok(stat));
            assert_eq!(stat.to_string(), text);
        }
        for text in [
            "", "p", "p0", "p100", "p-1", "p+5", "p9.", "p9.99", "95", "max", "p99999", "p.5",
        ] {
            assert!(text.parse::<Stat>().is_err(), "{text}");
        }
    }
}
