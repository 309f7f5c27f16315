//! The values of a heat map: cells, their value range, and their reduction to fewer rows and
//! columns.

use std::str::FromStr;

use ibnet::types::ParseError;

use super::order::{RowGroup, RowKind, RowLabel};
use crate::metric::Metric;

/// The value of a row in a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell {
    /// Mean of the values.
    Value(f64),
    /// The port was queried and did not answer.
    NoAnswer,
    /// The port answered, but the value is not known. Reasons: a gap, a reset, or a device without
    /// the counter.
    Unknown,
    /// There is no record.
    NoRecord,
}

/// All cells. Rows are in the order of the topology, columns in the order of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// Start of the first column in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a column in nanoseconds.
    pub step_ns: u64,
    /// Number of columns.
    pub columns: usize,
    /// Kind of the rows.
    pub by: RowKind,
    /// Labels of the rows.
    pub rows: Vec<RowLabel>,
    /// One panel for each metric.
    pub panels: Vec<Panel>,
}

/// The cells of one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// The metric.
    pub metric: Metric,
    /// Cells by row, then by column.
    pub cells: Vec<Vec<Cell>>,
}

/// Choice of the values of the first and the last colour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Range {
    /// From 0 to the mean plus the mean absolute deviation, as in Aguilar's thesis (2015). With
    /// this range, outliers do not give all other values the same colour.
    #[default]
    MeanDeviation,
    /// From 0 to this percentile of all values.
    Percentile(f64),
    /// These two values, in the unit of the metric.
    Fixed(f64, f64),
}

impl Panel {
    /// Joins the ports of each row. Cells without a value do not change a cell with a value.
    pub fn new(metric: Metric, by: RowKind, groups: &[RowGroup], row: impl Fn(usize) -> Vec<Cell>) -> Self {
        let is_sum = metric.is_additive() && matches!(by, RowKind::Switch | RowKind::Host);
        let join = |rows: Vec<Vec<Cell>>| {
            let joined = rows.into_iter().reduce(|mut joined, more| {
                joined.iter_mut().zip(more).for_each(|(cell, more)| *cell = cell.join(more, if is_sum { |a, b| a + b } else { f64::max }));
                joined
            });
            joined.unwrap_or_default()
        };
        Self { cells: groups.iter().map(|group| join(group.members.iter().map(|member| row(*member)).collect())).collect(), metric }
    }

    /// Returns all values.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flatten().filter_map(|cell| if let Cell::Value(value) = cell { Some(*value) } else { None })
    }

    /// Counts the cells of the same kind as `like`. The value of `like` is ignored.
    pub fn count(&self, like: Cell) -> usize {
        let kind = std::mem::discriminant(&like);
        self.cells.iter().flatten().filter(|cell| std::mem::discriminant(*cell) == kind).count()
    }

    /// Returns the largest value with its row and column. If several are equal, returns the first
    /// one.
    pub fn largest(&self) -> Option<(f64, usize, usize)> {
        let cells =
            self.cells.iter().enumerate().flat_map(|(row, cells)| cells.iter().enumerate().map(move |(column, cell)| (row, column, cell)));
        let values = cells.filter_map(|(row, column, cell)| if let Cell::Value(value) = cell { Some((*value, row, column)) } else { None });
        values.reduce(|largest, next| if next.0 > largest.0 { next } else { largest })
    }
}

impl Cell {
    fn join(self, other: Self, of: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => Self::Value(of(a, b)),
            (value @ Self::Value(_), _) | (_, value @ Self::Value(_)) => value,
            // One port that answered is enough for the row.
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::NoAnswer, _) | (_, Self::NoAnswer) => Self::NoAnswer,
            (Self::NoRecord, Self::NoRecord) => Self::NoRecord,
        }
    }
}

impl Grid {
    /// Returns the end of the last column in nanoseconds since 1970.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.step_ns.saturating_mul(self.columns as u64))
    }

    /// Joins neighbouring rows and columns so that at most `rows` and `columns` remain. A joined
    /// cell has the largest value of its parts.
    pub fn at_most(&self, rows: usize, columns: usize) -> Self {
        let (tall, wide) = (self.rows.len().div_ceil(rows.max(1)).max(1), self.columns.div_ceil(columns.max(1)).max(1));
        let join = |cells: &[Cell]| cells.iter().copied().reduce(|a, b| a.join(b, f64::max)).unwrap_or(Cell::NoRecord);
        let narrow = |cells: &Vec<Cell>| cells.chunks(wide).map(join).collect::<Vec<_>>();
        let shrink = |panel: &Panel| {
            let narrowed: Vec<_> = panel.cells.iter().map(narrow).collect();
            let low = narrowed.chunks(tall).map(|rows| {
                (0..rows.first().map_or(0, Vec::len)).map(|column| join(&rows.iter().map(|row| row[column]).collect::<Vec<_>>())).collect()
            });
            Panel { metric: panel.metric.clone(), cells: low.collect() }
        };
        let names = self.rows.chunks(tall).map(|names| match names {
            [name] => name.clone(),
            [first, .., last] => RowLabel { row: format!("{} … {}", first.row, last.row), block: first.block.clone() },
            [] => RowLabel { row: String::new(), block: String::new() },
        });
        Self {
            start_ns: self.start_ns,
            step_ns: self.step_ns * wide as u64,
            columns: self.columns.div_ceil(wide),
            by: self.by,
            rows: names.collect(),
            panels: self.panels.iter().map(shrink).collect(),
        }
    }
}

impl Range {
    /// Returns the values of the first and the last colour; they are never equal.
    pub fn of(&self, panel: &Panel) -> (f64, f64) {
        let (low, high) = match *self {
            Self::Fixed(low, high) => (low, high),
            Self::MeanDeviation => (0.0, mean_and_deviation(panel)),
            Self::Percentile(percent) => (0.0, percentile(panel.values().collect(), percent)),
        };
        if high > low { (low, high) } else { (low, low + 1.0) }
    }

    /// Describes the choice, for captions.
    pub fn title(&self) -> String {
        match self {
            Self::MeanDeviation => "up to mean + mean absolute deviation".to_owned(),
            Self::Percentile(percent) => format!("up to percentile {percent}"),
            Self::Fixed(..) => "as given".to_owned(),
        }
    }
}

/// Returns the mean plus the mean absolute deviation from it, 0 without values.
fn mean_and_deviation(panel: &Panel) -> f64 {
    let count = panel.values().count().max(1) as f64;
    let mean = panel.values().sum::<f64>() / count;
    mean + panel.values().map(|value| (value - mean).abs()).sum::<f64>() / count
}

/// Returns the smallest value that at least `percent` of the values do not exceed. Returns 0
/// without values.
fn percentile(mut values: Vec<f64>, percent: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (values.len() as f64 * percent / 100.0).ceil() as usize;
    values.get(place.clamp(1, values.len().max(1)) - 1).copied().unwrap_or(0.0)
}

impl FromStr for Range {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new(text, "mean, percentile:99 or a range such as 0..100");
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        if text == "mean" {
            return Ok(Self::MeanDeviation);
        }
        if let Some(percent) = text.strip_prefix("percentile:") {
            return number(percent).filter(|percent| (0.0..=100.0).contains(percent)).map(Self::Percentile).ok_or_else(wrong);
        }
        let (low, high) = text.split_once("..").ok_or_else(wrong)?;
        let (low, high) = number(low).zip(number(high)).ok_or_else(wrong)?;
        if low < high { Ok(Self::Fixed(low, high)) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(row: &str) -> RowLabel {
        RowLabel { row: row.to_owned(), block: String::new() }
    }

    fn panel(cells: Vec<Vec<Cell>>) -> Panel {
        Panel { metric: "xmit_gbps".parse().unwrap(), cells }
    }

    use Cell::{NoAnswer, NoRecord, Unknown, Value};

    #[test]
    fn ranges_of_a_few_values_are_exact() {
        // 0, 0, 2, 10: the mean is 3, the deviations are 3, 3, 1, 7, and their mean is 3.5.
        let panel = panel(vec![vec![Value(0.0), Value(2.0), NoAnswer], vec![Value(10.0), NoRecord, Value(0.0)]]);
        assert_eq!(Range::MeanDeviation.of(&panel), (0.0, 6.5));
        assert_eq!(Range::Percentile(75.0).of(&panel), (0.0, 2.0));
        assert_eq!(Range::Percentile(100.0).of(&panel), (0.0, 10.0));
        assert_eq!("1..4".parse::<Range>().unwrap().of(&panel), (1.0, 4.0));
        assert_eq!((panel.largest(), panel.count(NoAnswer), panel.count(Value(0.0))), (Some((10.0, 1, 0)), 1, 4));
    }

    #[test]
    fn range_is_never_empty() {
        assert_eq!(Range::MeanDeviation.of(&panel(vec![vec![Value(0.0), Unknown]])), (0.0, 1.0));
        assert_eq!(Range::Percentile(50.0).of(&panel(vec![vec![NoAnswer]])), (0.0, 1.0));
    }

    #[test]
    fn malformed_range_is_rejected() {
        for text in ["", "5", "5..1", "1..1", "0..nan", "percentile:101", "percentile:x", "0..inf"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_of_a_switch_are_summed_and_a_link_has_the_larger_one() {
        let groups = [RowGroup { name: name("s"), members: vec![0, 1, 2] }];
        let rows = [vec![Value(1.0), NoAnswer, NoRecord], vec![Value(2.0), Unknown, NoRecord], vec![NoAnswer, NoRecord, Unknown]];
        let cells = |by| Panel::new("xmit_gbps".parse().unwrap(), by, &groups, |row| rows[row].clone()).cells;
        assert_eq!(cells(RowKind::Switch), [[Value(3.0), Unknown, Unknown]]);
        assert_eq!(cells(RowKind::Link), [[Value(2.0), Unknown, Unknown]]);
        let shares = Panel::new("xmit_blocked".parse().unwrap(), RowKind::Switch, &groups, |row| rows[row].clone());
        assert_eq!(shares.cells, [[Value(2.0), Unknown, Unknown]]);
    }

    #[test]
    fn reduced_grid_keeps_the_largest_values() {
        let cells = vec![vec![Value(1.0), Value(4.0), NoAnswer], vec![Value(2.0), NoRecord, NoRecord], vec![NoRecord, NoRecord, Unknown]];
        let rows = ["a", "b", "c"].map(name).to_vec();
        let grid = Grid { start_ns: 5, step_ns: 10, columns: 3, by: RowKind::Port, rows, panels: vec![panel(cells)] };
        let small = grid.at_most(2, 2);
        assert_eq!(
            (small.step_ns, small.columns, small.panels[0].cells.clone()),
            (20, 2, vec![vec![Value(4.0), NoAnswer], vec![NoRecord, Unknown]])
        );
        assert_eq!(small.rows.iter().map(|name| name.row.as_str()).collect::<Vec<_>>(), ["a … b", "c"]);
        assert_eq!(grid.at_most(9, 9), grid);
    }
}
