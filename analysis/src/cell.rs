//! A cell: the value of one row in one column of time, which can be missing, and the one rule for
//! sums of such values.
//!
//! Heat maps, the steps and bins of jobs, groups of hosts and host metrics all add up values of
//! ports or hosts, although some of these values can be missing. A sum is a
//! [`Value`](Cell::Value) only if all of its members have one; otherwise it is
//! [`AtLeast`](Cell::AtLeast), with the share of the members whose value is known.

/// The value of a row in a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell {
    /// Mean of the values.
    Value(f64),
    /// Sum or max of the known values, because some ports of the row or counters of the metric
    /// lack a value.
    AtLeast {
        /// Lower bound of the value.
        value: f64,
        /// Share of the members whose value is known, 0 to 1.
        covered: f64,
    },
    /// A counter increased, but its rate is unknown, and no other value is above 0. Only metrics
    /// that [show this](crate::metric::Metric::shows_increases) have it.
    Increase,
    /// The device did not answer, or another device answered at its LID.
    NoAnswer,
    /// The port carries nothing: its link is down, so it was not queried, or the job did not run.
    Down,
    /// The value is unknown because of a gap, a reset, a device without the counter, a reply with
    /// an error, or a query that the sampler could not send.
    Unknown,
    /// There is no record.
    NoRecord,
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Unknown, Self::Value)
    }
}

impl Cell {
    /// Returns the value, or its lower bound.
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Value(value) | Self::AtLeast { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Returns the share of the value that is known, 0 to 1. It is 1 for [`Cell::Down`], which
    /// has no value to know.
    pub const fn covered(&self) -> f64 {
        match self {
            Self::Value(_) | Self::Down => 1.0,
            Self::AtLeast { covered, .. } => *covered,
            _ => 0.0,
        }
    }

    /// Returns the value times a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Value(value) => Self::Value(value * factor),
            Self::AtLeast { value, covered } => Self::AtLeast {
                value: value * factor,
                covered,
            },
            other => other,
        }
    }

    /// Returns the cell of a lower bound, or `state` if the bound is 0, because "at least 0" means
    /// nothing.
    pub(crate) fn at_least(value: f64, covered: f64, state: Self) -> Self {
        if value > 0.0 {
            Self::AtLeast { value, covered }
        } else {
            state
        }
    }

    /// Returns the state of a sum of two cells without a value.
    pub(crate) fn first(self, other: Self) -> Self {
        // The first one wins. One port that answered is enough, so the row counts as answered.
        const ORDER: [Cell; 4] = [Cell::Increase, Cell::Unknown, Cell::NoAnswer, Cell::Down];
        ORDER
            .into_iter()
            .find(|state| *state == self || *state == other)
            .unwrap_or(Self::NoRecord)
    }

    /// Returns the cell to draw where two neighbouring cells share one pixel: the one with the
    /// larger value.
    pub(crate) fn larger(self, other: Self) -> Self {
        match (self.value(), other.value()) {
            (Some(a), Some(b)) if b > a => other,
            (Some(a), _) if other == Self::Increase => Self::at_least(a, 0.0, other),
            (Some(_), _) => self,
            (None, Some(_)) => other.larger(self),
            (None, None) => self.first(other),
        }
    }
}

/// Combines the cells of several members, such as ports, to their sum or max. If a member lacks
/// its value, the result is a lower bound. A link that is down carries nothing, so it lacks
/// nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joined {
    value: Option<f64>,
    has_increase: bool,
    members: f64,
    known: f64,
    /// State of the members without a value.
    state: Option<Cell>,
}

impl Joined {
    /// Adds the cell of a member. `of` combines two values: their sum or their max.
    pub fn add(&mut self, cell: Cell, of: fn(f64, f64) -> f64) {
        self.members += 1.0;
        self.known += cell.covered();
        self.has_increase |= cell == Cell::Increase;
        match cell.value() {
            Some(value) => self.value = Some(self.value.map_or(value, |sum| of(sum, value))),
            None => self.state = Some(self.state.map_or(cell, |state| state.first(cell))),
        }
    }

    /// Returns the cell of all members, or `empty` if there are none.
    pub fn cell_or(self, empty: Cell) -> Cell {
        if self.members > 0.0 {
            self.cell()
        } else {
            empty
        }
    }

    /// Returns the share of the members whose value is known, 0 to 1.
    pub fn covered(&self) -> f64 {
        self.known / self.members.max(1.0)
    }

    /// Returns the value and its known share in the form of the JSON output: see [`columns`].
    pub fn column(self) -> (Option<f64>, Option<f64>) {
        let cell = self.cell();
        (cell.value(), (cell != Cell::Down).then(|| self.covered()))
    }

    /// Returns the cell of all members.
    pub fn cell(self) -> Cell {
        let covered = self.covered();
        match self.value {
            Some(value) if self.has_increase => Cell::at_least(value, covered, Cell::Increase),
            Some(value) if self.known >= self.members => Cell::Value(value),
            Some(value) => Cell::at_least(value, covered, Cell::Unknown),
            None => self.state.unwrap_or(Cell::NoRecord),
        }
    }
}

/// Combines the rows of several members column by column. The result has at least `columns`
/// columns.
pub fn joined(
    columns: usize,
    rows: impl IntoIterator<Item = impl AsRef<[Cell]>>,
    of: fn(f64, f64) -> f64,
) -> Vec<Cell> {
    let mut all = vec![Joined::default(); columns];
    for row in rows {
        let row = row.as_ref();
        all.resize(row.len().max(all.len()), Joined::default());
        all.iter_mut()
            .zip(row)
            .for_each(|(joined, cell)| joined.add(*cell, of));
    }
    all.into_iter().map(Joined::cell).collect()
}

/// Adds up the rows of several members column by column, as [`joined`] does.
pub fn sum(columns: usize, rows: impl IntoIterator<Item = impl AsRef<[Cell]>>) -> Vec<Cell> {
    joined(columns, rows, |a, b| a + b)
}

/// Returns the values of a row and their known shares, as the JSON output has them. Both are null
/// for [`Cell::Down`], where there is nothing to know; a value is also null if nothing is known, or
/// only that it is at least 0.
pub fn columns(cells: &[Cell]) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
    let value = |cell: &Cell| {
        cell.value()
            .filter(|value| *value > 0.0 || cell.covered() >= 1.0)
    };
    cells
        .iter()
        .map(|cell| (value(cell), (*cell != Cell::Down).then(|| cell.covered())))
        .unzip()
}

/// Builds a row from its values and known shares: the inverse of [`columns`].
pub fn cells(values: &[Option<f64>], covered: &[Option<f64>]) -> Vec<Cell> {
    let cell = |(value, covered): (&Option<f64>, &Option<f64>)| match (*value, *covered) {
        (_, None) => Cell::Down,
        (Some(value), Some(covered)) if covered < 1.0 => Cell::AtLeast { value, covered },
        (value, _) => value.into(),
    };
    values.iter().zip(covered).map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::Cell::{AtLeast, Down, Increase, NoAnswer, NoRecord, Unknown, Value};
    use super::*;

    #[test]
    fn sum_is_a_value_only_with_the_values_of_all_ports() {
        let added = |cells: &[Cell]| sum(1, cells.iter().map(|cell| [*cell]))[0];
        assert_eq!(
            added(&[Value(1.0), Value(2.0), Down]),
            Value(3.0),
            "a link that is down carries nothing"
        );
        for lacking in [NoAnswer, Unknown, NoRecord] {
            assert_eq!(
                added(&[Value(1.0), lacking]),
                AtLeast {
                    value: 1.0,
                    covered: 0.5
                }
            );
        }
        assert_eq!(
            added(&[
                AtLeast {
                    value: 1.0,
                    covered: 0.0
                },
                Value(2.0)
            ]),
            AtLeast {
                value: 3.0,
                covered: 0.5
            }
        );
        assert_eq!(
            added(&[
                AtLeast {
                    value: 1.0,
                    covered: 0.5
                },
                Value(2.0)
            ]),
            AtLeast {
                value: 3.0,
                covered: 0.75
            }
        );
        assert_eq!(added(&[Unknown, Down]), Unknown, "not nothing");
        for lacking in [
            NoAnswer,
            Unknown,
            NoRecord,
            AtLeast {
                value: 0.0,
                covered: 0.5,
            },
        ] {
            assert_eq!(
                added(&[Value(0.0), lacking]),
                Unknown,
                "at least 0 says nothing"
            );
        }
        assert_eq!(added(&[Value(0.0), Increase]), Increase, "not 0");
        assert_eq!(
            added(&[Value(2.0), Increase]),
            AtLeast {
                value: 2.0,
                covered: 0.5
            }
        );
        assert_eq!(
            [
                added(&[NoAnswer, Increase]),
                added(&[Down, NoAnswer]),
                added(&[NoRecord, Down])
            ],
            [Increase, NoAnswer, Down]
        );
    }
}
