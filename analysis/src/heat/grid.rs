//! The numbers behind a heat map: cells, their range, and fewer of them where there is less room.

use std::str::FromStr;

use super::order::{By, Group, Name};
use ibnet::types::ParseError;
use crate::metric::Metric;

/// What is known of a place and a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell {
    /// The mean.
    Value(f64),
    /// It was asked and did not answer.
    Dead,
    /// It answered, and the value is not known: after a gap or a reset, or the device does not have it.
    Unknown,
    /// There is no record.
    Absent,
}

/// All cells: rows in the order of the topology, columns in that of time.
#[derive(Clone, PartialEq, Debug)]
pub struct Grid {
    /// When the first column begins, in nanoseconds since 1970.
    pub start_ns: u64,
    /// How long each is.
    pub step_ns: u64,
    /// How many.
    pub columns: usize,
    /// What a row is.
    pub by: By,
    /// What each is called.
    pub rows: Vec<Name>,
    /// One for each metric.
    pub panels: Vec<Panel>,
}

/// The cells of one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What it is.
    pub metric: Metric,
    /// By row, then by column.
    pub cells: Vec<Vec<Cell>>,
}

/// Which values get the first and the last colour.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Range {
    /// From 0 to the mean plus the mean absolute deviation, as in Aguilar's thesis (2015): outliers do not darken all others.
    #[default]
    MeanDeviation,
    /// From 0 to that percentile of all values.
    Percentile(f64),
    /// These, in the unit of the metric.
    Fixed(f64, f64),
}

impl Panel {
    /// Puts the ports of each row together; of ports that have a value, those without one do not matter.
    pub fn new(metric: Metric, by: By, groups: &[Group], row: impl Fn(usize) -> Vec<Cell>) -> Self {
        let is_sum = metric.is_additive() && matches!(by, By::Switch | By::Host);
        let join = |rows: Vec<Vec<Cell>>| {
            let joined = rows.into_iter().reduce(|mut joined, more| {
                joined.iter_mut().zip(more).for_each(|(cell, more)| *cell = cell.join(more, if is_sum { |a, b| a + b } else { f64::max }));
                joined
            });
            joined.unwrap_or_default()
        };
        Self { cells: groups.iter().map(|group| join(group.members.iter().map(|member| row(*member)).collect())).collect(), metric }
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flatten().filter_map(|cell| if let Cell::Value(value) = cell { Some(*value) } else { None })
    }

    /// How many cells are like that one, whatever its value.
    pub fn count(&self, like: Cell) -> usize {
        let kind = std::mem::discriminant(&like);
        self.cells.iter().flatten().filter(|cell| std::mem::discriminant(*cell) == kind).count()
    }

    /// The hottest cell: its value, its row and its column. The first of several.
    pub fn hottest(&self) -> Option<(f64, usize, usize)> {
        let cells =
            self.cells.iter().enumerate().flat_map(|(row, cells)| cells.iter().enumerate().map(move |(column, cell)| (row, column, cell)));
        let values = cells.filter_map(|(row, column, cell)| if let Cell::Value(value) = cell { Some((*value, row, column)) } else { None });
        values.reduce(|hottest, next| if next.0 > hottest.0 { next } else { hottest })
    }
}

impl Cell {
    fn join(self, other: Self, of: fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => Self::Value(of(a, b)),
            (value @ Self::Value(_), _) | (_, value @ Self::Value(_)) => value,
            // Whoever answered for one of its ports is not dead.
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Dead, _) | (_, Self::Dead) => Self::Dead,
            (Self::Absent, Self::Absent) => Self::Absent,
        }
    }
}

impl Grid {
    /// When the last column ends, in nanoseconds since 1970.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.step_ns.saturating_mul(self.columns as u64))
    }

    /// At most so many rows and columns: neighbours are joined, and the greatest value of them stands for all.
    pub fn at_most(&self, rows: usize, columns: usize) -> Self {
        let (tall, wide) = (self.rows.len().div_ceil(rows.max(1)).max(1), self.columns.div_ceil(columns.max(1)).max(1));
        let join = |cells: &[Cell]| cells.iter().copied().reduce(|a, b| a.join(b, f64::max)).unwrap_or(Cell::Absent);
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
            [first, .., last] => Name { row: format!("{} … {}", first.row, last.row), block: first.block.clone() },
            [] => Name { row: String::new(), block: String::new() },
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
    /// The least and the greatest value that have a colour of their own; never equal.
    pub fn of(&self, panel: &Panel) -> (f64, f64) {
        let (low, high) = match *self {
            Self::Fixed(low, high) => (low, high),
            Self::MeanDeviation => (0.0, mean_and_deviation(panel)),
            Self::Percentile(percent) => (0.0, percentile(panel.values().collect(), percent)),
        };
        if high > low { (low, high) } else { (low, low + 1.0) }
    }

    /// How it was chosen, for people.
    pub fn title(&self) -> String {
        match self {
            Self::MeanDeviation => "up to mean + mean absolute deviation".to_owned(),
            Self::Percentile(percent) => format!("up to percentile {percent}"),
            Self::Fixed(..) => "as asked".to_owned(),
        }
    }
}

/// The mean plus the mean absolute deviation from it; 0 without values.
fn mean_and_deviation(panel: &Panel) -> f64 {
    let count = panel.values().count().max(1) as f64;
    let mean = panel.values().sum::<f64>() / count;
    mean + panel.values().map(|value| (value - mean).abs()).sum::<f64>() / count
}

/// The least value that so many percent of the values do not exceed; 0 without values.
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

    fn name(row: &str) -> Name {
        Name { row: row.to_owned(), block: String::new() }
    }

    fn panel(cells: Vec<Vec<Cell>>) -> Panel {
        Panel { metric: "xmit_gbps".parse().unwrap(), cells }
    }

    use Cell::{Absent, Dead, Unknown, Value};

    #[test]
    fn ranges_of_few_values() {
        // The mean of 0, 0, 2, 10 is 3, their distances from it are 3, 3, 1, 7: 3.5 in the mean.
        let panel = panel(vec![vec![Value(0.0), Value(2.0), Dead], vec![Value(10.0), Absent, Value(0.0)]]);
        assert_eq!(Range::MeanDeviation.of(&panel), (0.0, 6.5));
        assert_eq!(Range::Percentile(75.0).of(&panel), (0.0, 2.0));
        assert_eq!(Range::Percentile(100.0).of(&panel), (0.0, 10.0));
        assert_eq!("1..4".parse::<Range>().unwrap().of(&panel), (1.0, 4.0));
        assert_eq!((panel.hottest(), panel.count(Dead), panel.count(Value(0.0))), (Some((10.0, 1, 0)), 1, 4));
    }

    #[test]
    fn nothing_but_zeros_has_a_range_too() {
        assert_eq!(Range::MeanDeviation.of(&panel(vec![vec![Value(0.0), Unknown]])), (0.0, 1.0));
        assert_eq!(Range::Percentile(50.0).of(&panel(vec![vec![Dead]])), (0.0, 1.0));
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "5", "5..1", "1..1", "0..nan", "percentile:101", "percentile:x", "0..inf"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_of_a_switch_are_summed_and_of_a_link_the_greater_counts() {
        let groups = [Group { name: name("s"), members: vec![0, 1, 2] }];
        let rows = [vec![Value(1.0), Dead, Absent], vec![Value(2.0), Unknown, Absent], vec![Dead, Absent, Unknown]];
        let cells = |by| Panel::new("xmit_gbps".parse().unwrap(), by, &groups, |row| rows[row].clone()).cells;
        assert_eq!(cells(By::Switch), [[Value(3.0), Unknown, Unknown]]);
        assert_eq!(cells(By::Link), [[Value(2.0), Unknown, Unknown]]);
        let shares = Panel::new("xmit_blocked".parse().unwrap(), By::Switch, &groups, |row| rows[row].clone());
        assert_eq!(shares.cells, [[Value(2.0), Unknown, Unknown]]);
    }

    #[test]
    fn where_there_is_less_room_the_hottest_counts() {
        let cells = vec![vec![Value(1.0), Value(4.0), Dead], vec![Value(2.0), Absent, Absent], vec![Absent, Absent, Unknown]];
        let rows = ["a", "b", "c"].map(name).to_vec();
        let grid = Grid { start_ns: 5, step_ns: 10, columns: 3, by: By::Port, rows, panels: vec![panel(cells)] };
        let small = grid.at_most(2, 2);
        assert_eq!(
            (small.step_ns, small.columns, small.panels[0].cells.clone()),
            (20, 2, vec![vec![Value(4.0), Dead], vec![Absent, Unknown]])
        );
        assert_eq!(small.rows.iter().map(|name| name.row.as_str()).collect::<Vec<_>>(), ["a … b", "c"]);
        assert_eq!(grid.at_most(9, 9), grid);
    }
}
