//! The cells of one port and one metric while records are added.

use ibnet_record::Says;

use crate::cell::Cell;
use crate::record::{Interval, Port};

#[derive(Clone, Debug, Default)]
pub(crate) struct Track {
    start: u64,
    cells: Vec<Sum>,
}

/// The state of a metric in a time interval.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    Value(f64),
    /// A part of a value, to be added to another part that covers the same time.
    Addition(f64),
    /// The value is a sum that lacks some counters of the metric.
    Partial,
    /// An error counter increased at an unknown time.
    Increase,
    /// The value is unknown: the port answered without it, or was not queried.
    Unknown,
    /// The link of the port is down.
    Down,
    NoAnswer,
}

/// A column shows the state of a record only if it contains at least this share of the record's
/// time, or of the column length if that is shorter. The reason is that slots rarely begin where
/// a column begins, so a slot can end shortly after the start of a column. If the port did not
/// answer in the rest of this column, the column must not show the value of that slot.
const MIN_SHARE: f64 = 0.125;

/// Sum of the values over the time of a column.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Sum {
    /// Values times nanoseconds.
    sum: f64,
    /// Nanoseconds with a value.
    value_ns: u64,
    /// The states that the column shows, as bits.
    states: u8,
}

const VALUE: u8 = 1;
const UNKNOWN: u8 = 2;
const DOWN: u8 = 4;
const NO_ANSWER: u8 = 8;
const PARTIAL: u8 = 16;
const INCREASE: u8 = 32;

impl State {
    /// Returns the state of a record that has no value of the metric.
    pub(crate) fn without_value(port: &Port<'_>) -> Self {
        match port.says() {
            Says::Silent => Self::NoAnswer,
            Says::Down => Self::Down,
            Says::Answers | Says::Nothing => Self::Unknown,
        }
    }
}

impl Track {
    pub(crate) fn at(&mut self, column: u64) -> &mut Sum {
        if self.cells.is_empty() {
            self.start = column;
        }
        if column < self.start {
            let missing = (self.start - column) as usize;
            self.cells
                .splice(..0, std::iter::repeat_n(Sum::default(), missing));
            self.start = column;
        }
        let index = (column - self.start) as usize;
        if index >= self.cells.len() {
            self.cells.resize(index + 1, Sum::default());
        }
        &mut self.cells[index]
    }

    /// Joins each `ratio` columns into one.
    pub(crate) fn coarsen(&mut self, ratio: u64) {
        let fine = std::mem::take(self);
        for (column, cell) in (fine.start..).zip(fine.cells) {
            self.at(column / ratio).add(cell);
        }
    }

    /// Returns all columns of the heat map, including empty ones.
    pub(crate) fn row(&self, first: u64, columns: usize) -> Vec<Cell> {
        let cell = |column: u64| {
            let index = usize::try_from(column.checked_sub(self.start)?).ok()?;
            self.cells.get(index).map(|sum| sum.cell())
        };
        (first..)
            .take(columns)
            .map(|column| cell(column).unwrap_or(Cell::NoRecord))
            .collect()
    }
}

impl Sum {
    /// Adds a part of the time of a record. `most_ns` is the longest part that a column can
    /// contain.
    pub(crate) fn put(&mut self, state: State, part: Interval, most_ns: u64) {
        let is_shown = part.length_ns() as f64 >= most_ns as f64 * MIN_SHARE;
        if let State::Value(value) | State::Addition(value) = state {
            self.sum += value * part.length_ns() as f64;
        }
        if let State::Value(_) = state {
            self.value_ns = self.value_ns.saturating_add(part.length_ns());
        }
        // A sum that lacks counters in any part of a column is only a lower bound.
        if is_shown || matches!(state, State::Partial) {
            self.states |= match state {
                State::Value(_) => VALUE,
                State::Addition(_) => 0,
                State::Partial => PARTIAL,
                State::Increase => INCREASE,
                State::Unknown => UNKNOWN,
                State::Down => DOWN,
                State::NoAnswer => NO_ANSWER,
            };
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.value_ns = self.value_ns.saturating_add(other.value_ns);
        self.states |= other.states;
    }

    /// Returns the mean over the time with a value.
    fn cell(&self) -> Cell {
        let has = |state: u8| self.states & state > 0;
        let mean = has(VALUE).then(|| self.sum / self.value_ns as f64);
        match mean {
            Some(value) if has(INCREASE) => Cell::at_least(value, 0.0, Cell::Increase),
            Some(value) if has(PARTIAL) => Cell::at_least(value, 0.0, Cell::Unknown),
            Some(value) => Cell::Value(value),
            None if has(NO_ANSWER) => Cell::NoAnswer,
            None if has(DOWN) => Cell::Down,
            None if has(INCREASE) => Cell::Increase,
            None if has(UNKNOWN) => Cell::Unknown,
            None => Cell::NoRecord,
        }
    }
}
