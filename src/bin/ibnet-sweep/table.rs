//! Tables for a terminal: no lines, two blanks between columns, and no blanks at the end of a row.

use comfy_table::{CellAlignment, Table, presets};

/// Returns an empty table.
pub(super) fn new() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Formats a table without a final line feed. The columns in `right` are right-aligned.
pub(super) fn show(mut table: Table, right: &[usize]) -> String {
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}
