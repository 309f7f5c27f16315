//! The finished values of a heat map, and their reduction to fewer rows and columns.

use super::order::{RowGroup, RowKind, RowLabel, RowOrder, natural};
pub use crate::cell::Cell;
use crate::cell::joined;
use crate::metric::Metric;

/// All cells, with rows in the order of the topology and columns in time order.
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
    /// Number of elements, if the metric is the sum over an array of counters; otherwise 1.
    pub summed: usize,
    /// Value of a row whose links are fully used, or the max over the rows if it differs between
    /// them. `None` if the data rate of the link does not limit the metric, or if no data rate is
    /// known.
    pub full: Option<f64>,
    /// For each row, the number of its ports, and of those that have the counter of the metric.
    /// Empty for metrics of hosts.
    pub ports: Vec<(usize, usize)>,
    /// Cells by row, then by column.
    pub cells: Vec<Vec<Cell>>,
}

impl Panel {
    /// Creates a panel by combining the cells of the ports of each row. `gbps` is the data rate
    /// of a port's link. `row` returns the cells of a port, and whether it has the counter of the
    /// metric. Ports without the counter are left out of their row, unless no port of the row has
    /// it.
    pub fn new(
        metric: Metric,
        by: RowKind,
        groups: &[RowGroup],
        gbps: impl Fn(usize) -> Option<f64>,
        row: impl Fn(usize) -> (Vec<Cell>, bool),
    ) -> Self {
        let is_sum = metric.is_additive() && by.is_sum();
        let of: fn(f64, f64) -> f64 = if is_sum { |a, b| a + b } else { f64::max };
        let mut ports = Vec::with_capacity(groups.len());
        let mut join = |group: &RowGroup| {
            let (all, mut with) = (group.members.len(), 0);
            let own = group
                .members
                .iter()
                .map(|member| row(*member))
                .filter(|(_, has)| *has)
                .inspect(|_| with += 1);
            let cells = joined(0, own.map(|(cells, _)| cells), of);
            ports.push((all, with));
            if with > 0 {
                cells
            } else {
                joined(0, group.members.iter().map(|member| row(*member).0), of)
            }
        };
        let cells = groups.iter().map(&mut join).collect();
        let full_row = |group: &RowGroup| {
            group
                .members
                .iter()
                .filter_map(|member| metric.of_full_link(gbps(*member)?))
                .reduce(of)
        };
        let full = groups.iter().filter_map(full_row).reduce(f64::max);
        Self {
            cells,
            ports,
            summed: 1,
            full,
            metric,
        }
    }

    /// Returns all values, including lower bounds.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flatten().filter_map(Cell::value)
    }

    /// Counts the cells of the same kind as `like`, whatever their values are.
    pub fn count(&self, like: Cell) -> usize {
        let kind = std::mem::discriminant(&like);
        self.cells
            .iter()
            .flatten()
            .filter(|cell| std::mem::discriminant(*cell) == kind)
            .count()
    }

    /// Returns the max value with its row and column, or the first one of equal values.
    pub fn largest(&self) -> Option<(f64, usize, usize)> {
        let cells = self.cells.iter().enumerate().flat_map(|(row, cells)| {
            cells
                .iter()
                .enumerate()
                .map(move |(column, cell)| (row, column, cell))
        });
        let values = cells.filter_map(|(row, column, cell)| Some((cell.value()?, row, column)));
        values.reduce(|largest, next| if next.0 > largest.0 { next } else { largest })
    }
}

impl Grid {
    /// Returns the end of the last column in nanoseconds since 1970.
    pub fn end_ns(&self) -> u64 {
        self.start_ns
            .saturating_add(self.step_ns.saturating_mul(self.columns as u64))
    }

    /// Returns the rows in another order. With `top`, only this number of rows remains: those
    /// with the largest means of the first metric over time.
    pub fn arranged(mut self, order: RowOrder, top: Option<usize>) -> Self {
        let mean = |row: &Vec<Cell>| {
            let values = row.iter().filter_map(Cell::value);
            let (sum, count) =
                values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
            if count > 0 {
                sum / f64::from(count)
            } else {
                f64::NEG_INFINITY
            }
        };
        let means: Vec<f64> = self
            .panels
            .first()
            .map_or_else(Vec::new, |panel| panel.cells.iter().map(mean).collect());
        let by_value = |a: &usize, b: &usize| means[*b].total_cmp(&means[*a]);
        let mut rows: Vec<usize> = (0..means.len()).collect();
        if let Some(top) = top.filter(|top| *top < rows.len()) {
            // The sort is stable, so equal rows stay in the order of the topology.
            rows.sort_by(by_value);
            rows.truncate(top);
            rows.sort_unstable();
        }
        match order {
            RowOrder::Topology => {}
            RowOrder::Name => rows.sort_by_cached_key(|row| natural(&self.rows[*row].row)),
            RowOrder::Value => rows.sort_by(by_value),
        }
        if rows.iter().copied().eq(0..means.len()) {
            return self;
        }
        self.rows = rows.iter().map(|row| self.rows[*row].clone()).collect();
        for panel in &mut self.panels {
            panel.cells = rows.iter().map(|row| panel.cells[*row].clone()).collect();
            panel.ports = rows
                .iter()
                .filter_map(|row| panel.ports.get(*row).copied())
                .collect();
        }
        self
    }

    /// Joins neighbouring rows and columns until at most `rows` and `columns` remain. A joined
    /// cell has the max of its parts.
    pub fn at_most(&self, rows: usize, columns: usize) -> Self {
        let (tall, wide) = (
            self.rows.len().div_ceil(rows.max(1)).max(1),
            self.columns.div_ceil(columns.max(1)).max(1),
        );
        let join = |cells: &[Cell]| {
            cells
                .iter()
                .copied()
                .reduce(Cell::larger)
                .unwrap_or(Cell::NoRecord)
        };
        let narrow = |cells: &Vec<Cell>| cells.chunks(wide).map(join).collect::<Vec<_>>();
        let shrink = |panel: &Panel| {
            let narrowed: Vec<_> = panel.cells.iter().map(narrow).collect();
            let low = narrowed.chunks(tall).map(|rows| {
                (0..rows.first().map_or(0, Vec::len))
                    .map(|column| join(&rows.iter().map(|row| row[column]).collect::<Vec<_>>()))
                    .collect()
            });
            let sum = |rows: &[(usize, usize)]| {
                rows.iter()
                    .fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
            };
            let ports = panel.ports.chunks(tall).map(sum).collect();
            Panel {
                metric: panel.metric.clone(),
                cells: low.collect(),
                ports,
                ..*panel
            }
        };
        let names = self.rows.chunks(tall).map(|names| match names {
            [name] => name.clone(),
            [first, .., last] => {
                let hosts = names
                    .iter()
                    .flat_map(|name| name.hosts.iter().cloned())
                    .collect();
                RowLabel {
                    block: first.block.clone(),
                    hosts,
                    ..RowLabel::new(format!("{} … {}", first.row, last.row))
                }
            }
            [] => RowLabel::new(""),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn name(row: &str) -> RowLabel {
        RowLabel::new(row)
    }

    fn panel(cells: Vec<Vec<Cell>>) -> Panel {
        Panel {
            metric: "xmit_gbps".parse().unwrap(),
            summed: 1,
            full: None,
            ports: Vec::new(),
            cells,
        }
    }

    use Cell::{AtLeast, NoAnswer, NoRecord, Unknown, Value};

    #[test]
    fn rates_of_a_switch_are_summed_and_a_link_has_the_larger_one() {
        let groups = [RowGroup {
            name: name("s"),
            members: vec![0, 1, 2],
        }];
        let rows = [
            vec![Value(1.0), NoAnswer, NoRecord],
            vec![Value(2.0), Unknown, NoRecord],
            vec![NoAnswer, NoRecord, Unknown],
        ];
        let gbps = |row| (row != 2).then_some(100.0);
        let cells = |by| {
            Panel::new("xmit_gbps".parse().unwrap(), by, &groups, gbps, |row| {
                (rows[row].clone(), true)
            })
            .cells
        };
        let at_least = |value| AtLeast {
            value,
            covered: 2.0 / 3.0,
        };
        assert_eq!(cells(RowKind::Switch), [[at_least(3.0), Unknown, Unknown]]);
        assert_eq!(cells(RowKind::Link), [[at_least(2.0), Unknown, Unknown]]);
        let shares = Panel::new(
            "xmit_blocked".parse().unwrap(),
            RowKind::Switch,
            &groups,
            gbps,
            |row| (rows[row].clone(), true),
        );
        let full = |metric: &str, by| {
            Panel::new(metric.parse().unwrap(), by, &groups, gbps, |row| {
                (rows[row].clone(), true)
            })
            .full
        };
        assert_eq!(
            [
                full("xmit_gbps", RowKind::Switch),
                full("xmit_gbps", RowKind::Link)
            ],
            [Some(200.0), Some(100.0)]
        );
        assert_eq!(
            [
                full("port_xmit_data_bytes", RowKind::Link),
                full("errors", RowKind::Link)
            ],
            [Some(12.5e9), None]
        );
        assert_eq!(shares.cells, [[at_least(2.0), Unknown, Unknown]]);
    }

    #[test]
    fn reduced_grid_keeps_the_largest_values() {
        let cells = vec![
            vec![Value(1.0), Value(4.0), NoAnswer],
            vec![Value(2.0), NoRecord, NoRecord],
            vec![NoRecord, NoRecord, Unknown],
        ];
        let rows = ["a", "b", "c"].map(name).to_vec();
        let grid = Grid {
            start_ns: 5,
            step_ns: 10,
            columns: 3,
            by: RowKind::Port,
            rows,
            panels: vec![panel(cells)],
        };
        let small = grid.at_most(2, 2);
        assert_eq!(
            (small.step_ns, small.columns, small.panels[0].cells.clone()),
            (
                20,
                2,
                vec![vec![Value(4.0), NoAnswer], vec![NoRecord, Unknown]]
            )
        );
        assert_eq!(
            small
                .rows
                .iter()
                .map(|name| name.row.as_str())
                .collect::<Vec<_>>(),
            ["a … b", "c"]
        );
        assert_eq!(grid.at_most(9, 9), grid);
    }

    #[test]
    fn rows_are_ordered_by_value_or_name_and_limited_to_the_largest() {
        let cells = vec![
            vec![Value(1.0), Value(3.0)],
            vec![NoAnswer, NoRecord],
            vec![Value(9.0), Unknown],
            vec![Value(2.0), Value(2.0)],
        ];
        let rows = ["p10", "p9", "p2", "a"].map(name).to_vec();
        let grid = Grid {
            start_ns: 5,
            step_ns: 10,
            columns: 2,
            by: RowKind::Port,
            rows,
            panels: vec![panel(cells)],
        };
        let names = |order, top| {
            grid.clone()
                .arranged(order, top)
                .rows
                .into_iter()
                .map(|name| name.row)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(RowOrder::Topology, None), ["p10", "p9", "p2", "a"]);
        assert_eq!(names(RowOrder::Name, None), ["a", "p2", "p9", "p10"]);
        assert_eq!(
            names(RowOrder::Value, None),
            ["p2", "p10", "a", "p9"],
            "rows without a value are last"
        );
        assert_eq!(names(RowOrder::Topology, Some(2)), ["p10", "p2"]);
        assert_eq!(names(RowOrder::Value, Some(9)), ["p2", "p10", "a", "p9"]);
        assert_eq!(
            grid.clone().arranged(RowOrder::Value, Some(1)).panels[0].cells,
            [[Value(9.0), Unknown]]
        );
    }
}
