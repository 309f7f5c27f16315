//! Draws heat maps on a terminal. With 24-bit colours, one line of text shows two rows, because a
//! half block fills only half of a character. Without colours, each cell has one of five shades.

use ibnet_analysis::heat::grid::{Cell, Grid, Panel};
use ibnet_analysis::heat::range::{ColorRange, Range};
use ibnet_analysis::when::Zone;

use crate::draw::axis;
use crate::picture::heat::{cell_color, notes};

/// Size and colours of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminalSize {
    /// Characters per line.
    pub columns: usize,
    /// Lines per panel.
    pub lines: usize,
    /// Whether the terminal shows colours.
    pub colors: bool,
}

/// Shades from the smallest to the largest value.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Returns the lines of a heat map.
pub fn show(grid: &Grid, range: &Range, zone: &Zone, size: TerminalSize) -> String {
    let ranges: Vec<_> = grid.panels.iter().map(|panel| range.of(panel)).collect();
    let rows_a_line = if size.colors { 2 } else { 1 };
    let longest = |grid: &Grid| {
        grid.rows
            .iter()
            .map(|name| name.row.chars().count())
            .max()
            .unwrap_or(0)
    };
    let short = grid.at_most(size.lines.max(1) * rows_a_line, grid.columns);
    let label = longest(&short).min(size.columns / 3);
    let grid = short.at_most(
        short.rows.len(),
        size.columns.saturating_sub(label + 1).max(1),
    );
    let mut text = String::new();
    for (panel, range) in grid.panels.iter().zip(ranges) {
        text += &format!(
            "{}{}; {}\n",
            panel.metric.name(),
            notes(panel, grid.by),
            axis::colours(&range, panel.metric.unit())
        );
        for (line, rows) in panel.cells.chunks(rows_a_line).enumerate() {
            let name: String = grid.rows[line * rows_a_line]
                .row
                .chars()
                .take(label)
                .collect();
            text += &format!(
                "{name:label$} {}\n",
                if size.colors {
                    halves(rows, &range)
                } else {
                    shades(&rows[0], &range)
                }
            );
        }
    }
    let end = grid.end_ns();
    let (from, to) = (
        zone.format(grid.start_ns, "%Y-%m-%d %H:%M:%S"),
        zone.format(end, "%H:%M:%S"),
    );
    text += &format!(
        "{from} to {to} ({}), {} per column; x no answer, - link down, ? unknown{}\n",
        zone.name(grid.start_ns),
        axis::nanos(grid.step_ns as f64),
        if grid
            .panels
            .iter()
            .any(|panel| panel.count(Cell::Increase) > 0)
        {
            ", ! increase, rate unknown"
        } else {
            ""
        },
    );
    text
}

/// Formats one or two rows in colours: the upper half of a character has the foreground
/// colour, the lower half the background colour. A cell without a value is shown as a letter
/// without a background.
fn halves(rows: &[Vec<Cell>], range: &ColorRange) -> String {
    let mut line = String::new();
    for (column, upper) in rows[0].iter().enumerate() {
        let lower = rows.get(1).map_or(Cell::NoRecord, |row| row[column]);
        match (letter(*upper), letter(lower)) {
            (None, None) => {
                let ((r, g, b), (x, y, z)) = (
                    cell_color(*upper, range, (0, 0)),
                    cell_color(lower, range, (0, 0)),
                );
                line += &format!("\u{1b}[38;2;{r};{g};{b};48;2;{x};{y};{z}m▀\u{1b}[0m");
            }
            (None, Some(_)) => {
                let (r, g, b) = cell_color(*upper, range, (0, 0));
                line += &format!("\u{1b}[38;2;{r};{g};{b}m▀\u{1b}[0m");
            }
            (Some(_), None) => {
                let (r, g, b) = cell_color(lower, range, (0, 0));
                line += &format!("\u{1b}[38;2;{r};{g};{b}m▄\u{1b}[0m");
            }
            (Some(upper), Some(lower)) => line.push(if upper == ' ' { lower } else { upper }),
        }
    }
    line
}

fn shades(row: &[Cell], range: &ColorRange) -> String {
    let shade =
        |value: f64| SHADES[(range.share(value) * (SHADES.len() - 1) as f64).round() as usize];
    row.iter()
        .map(|cell| letter(*cell).unwrap_or_else(|| cell.value().map_or(' ', shade)))
        .collect()
}

/// Returns the letter of a cell without a value.
fn letter(cell: Cell) -> Option<char> {
    match cell {
        Cell::Value(_) | Cell::AtLeast { .. } => None,
        Cell::Increase => Some('!'),
        Cell::NoAnswer => Some('x'),
        Cell::Down => Some('-'),
        Cell::Unknown => Some('?'),
        Cell::NoRecord => Some(' '),
    }
}

/// Summarizes a panel in one line: mean, max, and the shares of cells without a value. Kinds of
/// cells that do not occur are left out.
pub fn summary(panel: &Panel, grid: &Grid, zone: &Zone) -> String {
    let cells = panel.cells.iter().map(Vec::len).sum::<usize>().max(1);
    let unit = panel.metric.unit();
    let values = panel.values().count();
    let mean = panel.values().sum::<f64>() / values.max(1) as f64;
    let max = panel
        .largest()
        .map_or_else(String::new, |(value, row, column)| {
            let when = zone.format(
                grid.start_ns + column as u64 * grid.step_ns,
                "%Y-%m-%d %H:%M:%S",
            );
            format!(
                ", max {} at {}, {when}",
                axis::quantity(value, unit),
                grid.rows[row].row
            )
        });
    let missing: Vec<String> = [
        (Cell::NoAnswer, "no answer"),
        (Cell::Down, "link down"),
        (Cell::Increase, "increase, rate unknown"),
        (Cell::Unknown, "unknown"),
        (Cell::NoRecord, "no record"),
    ]
    .into_iter()
    .filter_map(|(like, what)| match panel.count(like) {
        0 => None,
        count => Some(format!(
            "{:.1} % {what}",
            100.0 * count as f64 / cells as f64
        )),
    })
    .collect();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("; of {cells} cells {}", missing.join(", "))
    };
    format!(
        "{}{}: mean {}{max}{missing}\n",
        panel.metric.name(),
        notes(panel, grid.by),
        axis::quantity(mean, unit),
    )
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::heat::order::{RowKind, RowLabel};

    use super::*;

    fn grid() -> Grid {
        let name = |row: &str| RowLabel::new(row);
        let cells = vec![
            vec![Cell::Value(0.0), Cell::Value(2.0), Cell::NoAnswer],
            vec![Cell::Value(4.0), Cell::Unknown, Cell::NoRecord],
            vec![Cell::Value(1.0), Cell::NoRecord, Cell::NoRecord],
        ];
        let rows = ["a/1", "b/1", "c/1"].map(name).to_vec();
        let panels = vec![Panel {
            metric: "xmit_gbps".parse().unwrap(),
            summed: 1,
            full: Some(5.0),
            ports: Vec::new(),
            cells,
        }];
        Grid {
            start_ns: 1_795_262_400_000_000_000,
            step_ns: 1_000_000_000,
            columns: 3,
            by: RowKind::Port,
            rows,
            panels,
        }
    }

    #[test]
    fn values_are_shades_and_other_cells_are_letters() {
        let text = show(
            &grid(),
            &Range::Fixed(0.0, 4.0),
            &Zone::utc(),
            TerminalSize {
                columns: 80,
                lines: 24,
                colors: false,
            },
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "xmit_gbps; colours: 0 Gb/s to 4 Gb/s, as given",
                "a/1 ·▒x",
                "b/1 █? ",
                "c/1 ░  "
            ]
        );
        assert!(
            lines[4].starts_with("2026-11-21 12:00:00 to 12:00:03 (UTC), 1 s per column"),
            "{}",
            lines[4]
        );
    }

    #[test]
    fn two_rows_share_a_line_of_half_blocks() {
        let text = show(
            &grid(),
            &Range::Fixed(0.0, 4.0),
            &Zone::utc(),
            TerminalSize {
                columns: 80,
                lines: 24,
                colors: true,
            },
        );
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[1].starts_with("a/1 \u{1b}[38;2;68;1;84;48;2;253;231;37m▀\u{1b}[0m\u{1b}[38;2;33;145;140m▀\u{1b}[0mx"),
            "{:?}",
            lines[1]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut wide = grid();
        wide.columns = 500;
        wide.panels[0]
            .cells
            .iter_mut()
            .for_each(|row| row.resize(500, Cell::Value(1.0)));
        let text = show(
            &wide,
            &Range::default(),
            &Zone::utc(),
            TerminalSize {
                columns: 40,
                lines: 2,
                colors: false,
            },
        );
        let rows: Vec<_> = text.lines().skip(1).take(2).collect();
        assert!(
            rows.iter().all(|line| line.chars().count() <= 40),
            "{rows:?}"
        );
    }

    #[test]
    fn summary_has_mean_max_and_shares() {
        let grid = grid();
        let summary = summary(&grid.panels[0], &grid, &Zone::utc());
        assert_eq!(
            summary,
            "xmit_gbps: mean 1.75 Gb/s, max 4 Gb/s at b/1, 2026-11-21 12:00:00; of 9 cells 11.1 % no answer, 11.1 % unknown, 33.3 % no record\n"
        );
    }
}
