//! The cells of one port and metric while records are added.

use super::grid::Cell;
use crate::record::Port;

/// Consecutive cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    start: u64,
    cells: Vec<Sum>,
}

/// What is known of a metric over a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Value(f64),
    /// The port answered, and the value is not known.
    Unknown,
    NoAnswer,
}

/// Sum over the parts of the column's time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Sum {
    /// Values times nanoseconds.
    sum: f64,
    /// Nanoseconds with a value.
    value_ns: u64,
    /// Seconds without an answer.
    no_answer: f32,
    /// Seconds in which the value is not known.
    unknown: f32,
}

impl State {
    /// Returns the state of a record that has no value of the metric.
    pub(super) fn without_value(port: &Port<'_>) -> Self {
        if port.answered() { Self::Unknown } else { Self::NoAnswer }
    }
}

impl Track {
    /// Returns the cell of a column.
    pub(super) fn at(&mut self, column: u64) -> &mut Sum {
        if self.cells.is_empty() {
            self.start = column;
        }
        if column < self.start {
            let missing = (self.start - column) as usize;
            self.cells.splice(..0, std::iter::repeat_n(Sum::default(), missing));
            self.start = column;
        }
        let index = (column - self.start) as usize;
        if index >= self.cells.len() {
            self.cells.resize(index + 1, Sum::default());
        }
        &mut self.cells[index]
    }

    /// Joins `ratio` columns into one.
    pub(super) fn coarsen(&mut self, ratio: u64) {
        let fine = std::mem::take(self);
        for (column, cell) in (fine.start..).zip(fine.cells) {
            self.at(column / ratio).add(cell);
        }
    }

    /// Returns all columns of the heat map, including empty ones.
    pub(super) fn row(&self, first: u64, columns: usize) -> Vec<Cell> {
        let cell = |column: u64| {
            let index = usize::try_from(column.checked_sub(self.start)?).ok()?;
            self.cells.get(index).map(|sum| sum.cell())
        };
        (first..).take(columns).map(|column| cell(column).unwrap_or(Cell::NoRecord)).collect()
    }
}

impl Sum {
    /// Adds a part of the column's time.
    pub(super) fn put(&mut self, state: State, time_ns: u64) {
        match state {
            State::Value(value) => {
                self.sum += value * time_ns as f64;
                self.value_ns = self.value_ns.saturating_add(time_ns);
            }
            State::Unknown => self.unknown += time_ns as f32 / 1e9,
            State::NoAnswer => self.no_answer += time_ns as f32 / 1e9,
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.value_ns = self.value_ns.saturating_add(other.value_ns);
        self.no_answer += other.no_answer;
        self.unknown += other.unknown;
    }

    /// Returns the mean over the time with a value. If this time is less than an eighth of the time
    /// without an answer, or of the time in which the value is not known, the cell has no value: a
    /// slot that begins shortly after the start of a column must not give its value to a column in
    /// which the port did not answer.
    fn cell(&self) -> Cell {
        const SHARE: f64 = 0.125;
        let without = self.no_answer.max(self.unknown);
        match self {
            Self { value_ns: 1.., .. } if self.value_ns as f64 / 1e9 >= f64::from(without) * SHARE => {
                Cell::Value(self.sum / self.value_ns as f64)
            }
            _ if without == 0.0 => Cell::NoRecord,
            _ if self.no_answer >= self.unknown => Cell::NoAnswer,
            _ => Cell::Unknown,
        }
    }
}
