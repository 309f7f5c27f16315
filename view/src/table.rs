//! Tables as a terminal shows them: no lines, columns two blanks apart, nothing behind the last word.

use comfy_table::{CellAlignment, Table, presets};

/// An empty one.
pub(super) fn new() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

/// Its text without a final line feed; the columns `right` are aligned to the right.
pub(super) fn show(mut table: Table, right: &[usize]) -> String {
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
