//! A heat map on a terminal: two rows a line by half blocks, in 24-bit colours; without colours in five shades.

use super::grid::{Cell, Grid, Panel, Range};
use super::picture::cell_color;
use crate::draw::axis;
use crate::when::Zone;

/// The most that a terminal shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Characters a line.
    pub columns: usize,
    /// Lines of a panel.
    pub lines: usize,
    /// Whether it has colours.
    pub colors: bool,
}

/// From the least value to the greatest.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The lines of a heat map, each with its line feed.
pub fn show(grid: &Grid, range: &Range, zone: &Zone, room: Room) -> String {
    let ranges: Vec<_> = grid.panels.iter().map(|panel| range.of(panel)).collect();
    let rows_a_line = if room.colors { 2 } else { 1 };
    let longest = |grid: &Grid| grid.rows.iter().map(|name| name.row.chars().count()).max().unwrap_or(0);
    let short = grid.at_most(room.lines.max(1) * rows_a_line, grid.columns);
    let label = longest(&short).min(room.columns / 3);
    let grid = short.at_most(short.rows.len(), room.columns.saturating_sub(label + 1).max(1));
    let mut text = String::new();
    for (panel, range) in grid.panels.iter().zip(ranges) {
        let unit = panel.metric.unit();
        text += &format!("{} ({unit}), colours from {} to {}\n", panel.metric.name(), axis::number(range.0), axis::number(range.1));
        for (line, rows) in panel.cells.chunks(rows_a_line).enumerate() {
            let name: String = grid.rows[line * rows_a_line].row.chars().take(label).collect();
            text += &format!("{name:label$} {}\n", if room.colors { halves(rows, range) } else { shades(&rows[0], range) });
        }
    }
    let end = grid.end_ns();
    let (from, to) = (zone.show(grid.start_ns, "%Y-%m-%d %H:%M:%S"), zone.show(end, "%H:%M:%S"));
    text += &format!(
        "{from} to {to} ({}), {} a column; x no answer, ? not known\n",
        zone.name(grid.start_ns),
        axis::nanos(grid.step_ns as f64)
    );
    text
}

/// One or two rows in colours: the upper half of a character and its ground. What is no value is a letter on no ground.
fn halves(rows: &[Vec<Cell>], range: (f64, f64)) -> String {
    let mut line = String::new();
    for (column, upper) in rows[0].iter().enumerate() {
        let lower = rows.get(1).map_or(Cell::Absent, |row| row[column]);
        match (letter(*upper), letter(lower)) {
            (None, None) => {
                let ((r, g, b), (x, y, z)) = (cell_color(*upper, range, (0, 0)), cell_color(lower, range, (0, 0)));
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

fn shades(row: &[Cell], (low, high): (f64, f64)) -> String {
    let shade = |value: f64| {
        let place = ((value - low) / (high - low)).clamp(0.0, 1.0) * (SHADES.len() - 1) as f64;
        SHADES[place.round() as usize]
    };
    row.iter().map(|cell| letter(*cell).unwrap_or_else(|| if let Cell::Value(value) = cell { shade(*value) } else { ' ' })).collect()
}

/// What stands for something else than a value.
fn letter(cell: Cell) -> Option<char> {
    match cell {
        Cell::Value(_) => None,
        Cell::Dead => Some('x'),
        Cell::Unknown => Some('?'),
        Cell::Absent => Some(' '),
    }
}

/// The numbers behind the picture, a line a metric.
pub fn told(panel: &Panel, grid: &Grid, range: &Range, zone: &Zone) -> String {
    let cells = panel.cells.iter().map(Vec::len).sum::<usize>().max(1);
    let (low, high) = range.of(panel);
    let values = panel.count(Cell::Value(0.0));
    let mean = panel.values().sum::<f64>() / values.max(1) as f64;
    let share = |like| 100.0 * panel.count(like) as f64 / cells as f64;
    let hottest = panel.hottest().map_or_else(String::new, |(value, row, column)| {
        let when = zone.show(grid.start_ns + column as u64 * grid.step_ns, "%Y-%m-%d %H:%M:%S");
        format!(", most {} at {}, {when}", axis::number(value), grid.rows[row].row)
    });
    format!(
        "{}: mean {} {}{hottest}; colours from {} to {}; of {cells} cells {:.1} % no answer, {:.1} % not known, {:.1} % no record\n",
        panel.metric.name(),
        axis::number(mean),
        panel.metric.unit(),
        axis::number(low),
        axis::number(high),
        share(Cell::Dead),
        share(Cell::Unknown),
        share(Cell::Absent),
    )
}

#[cfg(test)]
mod tests {
    use super::super::order::{By, Name};
    use super::*;

    fn grid() -> Grid {
        let name = |row: &str| Name { row: row.to_owned(), block: String::new() };
        let cells = vec![
            vec![Cell::Value(0.0), Cell::Value(2.0), Cell::Dead],
            vec![Cell::Value(4.0), Cell::Unknown, Cell::Absent],
            vec![Cell::Value(1.0), Cell::Absent, Cell::Absent],
        ];
        let rows = ["a/1", "b/1", "c/1"].map(name).to_vec();
        let panels = vec![Panel { metric: "xmit_gbps".parse().unwrap(), cells }];
        Grid { start_ns: 1_795_262_400_000_000_000, step_ns: 1_000_000_000, columns: 3, by: By::Port, rows, panels }
    }

    #[test]
    fn shades_stand_for_values_and_letters_for_all_else() {
        let text = show(&grid(), &Range::Fixed(0.0, 4.0), &Zone::utc(), Room { columns: 80, lines: 24, colors: false });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..4], ["xmit_gbps (Gb/s), colours from 0 to 4", "a/1 ·▒x", "b/1 █? ", "c/1 ░  "]);
        assert!(lines[4].starts_with("2026-11-21 12:00:00 to 12:00:03 (UTC), 1 s a column"), "{}", lines[4]);
    }

    #[test]
    fn two_rows_are_a_line_of_half_blocks() {
        let text = show(&grid(), &Range::Fixed(0.0, 4.0), &Zone::utc(), Room { columns: 80, lines: 24, colors: true });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[1].starts_with("a/1 \u{1b}[38;2;68;1;84;48;2;253;231;37m▀\u{1b}[0m\u{1b}[38;2;33;145;140m▀\u{1b}[0mx"),
            "{:?}",
            lines[1]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_room() {
        let mut wide = grid();
        wide.columns = 500;
        wide.panels[0].cells.iter_mut().for_each(|row| row.resize(500, Cell::Value(1.0)));
        let text = show(&wide, &Range::default(), &Zone::utc(), Room { columns: 40, lines: 2, colors: false });
        let rows: Vec<_> = text.lines().skip(1).take(2).collect();
        assert!(rows.iter().all(|line| line.chars().count() <= 40), "{rows:?}");
    }

    #[test]
    fn the_numbers_are_told() {
        let grid = grid();
        let told = told(&grid.panels[0], &grid, &Range::default(), &Zone::utc());
        assert_eq!(
            told,
            "xmit_gbps: mean 1.75 Gb/s, most 4 at b/1, 2026-11-21 12:00:00; colours from 0 to 3; of 9 cells 11.1 % no answer, 11.1 % not known, 33.3 % no record\n"
        );
    }
}
