//! A section: panels with the same rows, which are ports or other rows of the fabric, or hosts with
//! host metrics. All sections of a picture have the same columns.

use ibnet_analysis::heat::grid::{Grid, Panel};
use ibnet_analysis::heat::marks::JobMark;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::heat::range::{ColorRange, Range};

use super::rows::Labels;
use super::{AXIS, HEADING, MAX_NAMES, MAX_ROWS, READABLE, TALL, USUAL};
use crate::draw::axis;
use crate::text::count;

/// Panels with the same rows.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) grid: Grid,
    pub(super) ranges: Vec<ColorRange>,
    /// Number of rows merged into one, because the picture has fewer pixels than rows.
    joined: usize,
    /// Height of a row in pixels.
    pub(super) high: u32,
    pub(super) labels: Labels,
    pub(super) jobs: Vec<JobMark>,
}

impl Section {
    /// Merges rows until each panel has at most `room` pixels. Without `room`, the height depends
    /// on the number of `panels` in the whole picture.
    pub(super) fn new(grid: &Grid, range: &Range, panels: usize, room: Option<usize>) -> Self {
        // A merged cell has the max of its cells, so the colour range is computed from all values
        // before merging.
        let ranges: Vec<ColorRange> = grid.panels.iter().map(|panel| range.of(panel)).collect();
        let most_rows = room.unwrap_or(MAX_ROWS / panels).max(1);
        let joined = grid.rows.len().div_ceil(most_rows).max(1);
        let grid = grid.at_most(most_rows, grid.columns);
        let rows = grid.rows.len().max(1);
        let high = match room {
            Some(_) => most_rows / rows,
            None => (USUAL / panels / rows).clamp(
                if rows <= MAX_NAMES {
                    READABLE as usize + 1
                } else {
                    1
                },
                20,
            ),
        };
        let high = high.max(1) as u32;
        Self {
            ranges,
            joined,
            high,
            labels: Labels::of(&grid, high),
            jobs: Vec::new(),
            grid,
        }
    }

    pub(super) fn narrowed(self, columns: usize) -> Self {
        Self {
            grid: self.grid.at_most(self.grid.rows.len(), columns),
            ..self
        }
    }

    /// Returns the height of the cells of a panel.
    pub(super) fn height(&self) -> i32 {
        self.grid.rows.len() as i32 * self.high as i32
    }

    /// Returns the space above the cells of a panel. It contains the heading and, above a tall
    /// panel, a time axis.
    pub(super) fn above(&self) -> i32 {
        HEADING + if self.height() >= TALL { AXIS } else { 0 }
    }

    /// Returns the height of a panel with its heading and its time axes.
    pub(super) fn whole(&self) -> i32 {
        self.above() + self.height() + AXIS
    }

    /// Returns whether the metrics are metrics of hosts from other sources than the records.
    pub(super) fn is_of_hosts(&self) -> bool {
        self.grid
            .panels
            .iter()
            .any(|panel| panel.metric.is_of_hosts())
    }

    /// Describes the rows: `968 ports`.
    pub(super) fn describe(&self) -> String {
        let kind = row_kind(self.grid.by);
        let rows = if self.joined > 1 {
            format!(
                "{} rows, each with the largest value of {} {kind}s",
                self.grid.rows.len(),
                self.joined
            )
        } else {
            count(self.grid.rows.len(), kind)
        };
        if self.grid.by.is_element() {
            format!("{rows}, each the sum of all ports")
        } else {
            rows
        }
    }

    /// Returns the titles of the metrics and the kind of the rows: `data sent, by port`.
    pub(super) fn title(&self) -> String {
        let metrics: Vec<_> = self
            .grid
            .panels
            .iter()
            .map(|panel| panel.metric.title())
            .collect();
        format!("{}, by {}", metrics.join(" / "), row_kind(self.grid.by))
    }

    /// Returns the marks of the colour bars of all panels.
    pub(super) fn marks(&self) -> impl Iterator<Item = (f64, String)> {
        let of = |(range, panel): (&ColorRange, &Panel)| {
            axis::color_marks(range, panel.metric.unit(), 10)
        };
        self.ranges.iter().zip(&self.grid.panels).flat_map(of)
    }
}

/// Returns the word for a row.
fn row_kind(by: RowKind) -> &'static str {
    match by {
        RowKind::Port => "port",
        RowKind::Link => "link",
        RowKind::Switch => "switch",
        RowKind::Host => "host",
        RowKind::Sl => "service level",
        RowKind::Vl => "virtual lane",
        RowKind::Group => "group",
        RowKind::Hour => "hour",
    }
}
