//! Writes tables without lines. Columns are two blanks apart, and a line has no blanks at its end.

use comfy_table::{CellAlignment, Table, presets};

pub(super) fn new() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Formats a table without a final line feed. The columns `right` are aligned to the right.
pub(super) fn to_text(mut table: Table, right: &[usize]) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}
