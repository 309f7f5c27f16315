//! Panels of host metrics in a picture over time: each metric stacked by host.

use ibnet_analysis::heat::grid::{Cell, Grid};
use ibnet_analysis::host_metrics::panels::Columns;

use super::timeline::{Panel, Timeline, largest};

impl Timeline {
    /// Returns the time axis, for host metrics.
    pub const fn columns(&self) -> Columns {
        Columns { start_ns: self.start_ns, step_ns: self.step_ns, count: self.steps }
    }

    /// Appends a panel for each host metric. `hosts` has the time axis of this picture.
    #[must_use]
    pub fn with_hosts(mut self, hosts: &Grid) -> Self {
        for panel in &hosts.panels {
            let value = |cell: &Cell| if let Cell::Value(value) = cell { Some(*value) } else { None };
            let rows = hosts.rows.iter().zip(&panel.cells);
            let mut series: Vec<(String, Vec<Option<f64>>)> =
                rows.map(|(row, cells)| (row.row.clone(), cells.iter().map(value).collect())).collect();
            series.retain(|(_, values)| values.iter().any(Option::is_some));
            let sum = |values: &[Option<f64>]| values.iter().flatten().sum::<f64>();
            series.sort_by(|a, b| sum(&b.1).total_cmp(&sum(&a.1)));
            // A host without data has no part of the stack, so the heading counts these hosts.
            let title = format!("{}, by host ({} of {} hosts have data)", panel.metric.title(), series.len(), hosts.rows.len());
            let stacked = largest(series, "hosts");
            self.panels.push(Panel { title, unit: panel.metric.unit(), most: None, stacked, curves: Vec::new() });
        }
        self
    }
}
