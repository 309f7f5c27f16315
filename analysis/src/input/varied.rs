//! Finds the rows and columns of an archive whose values differ from the row before.

use ibnet_store::column::{Column, Integers};
use ibnet_store::table::Table;

/// Returns the index in `counters` and the column of each counter that differs between rows.
/// Returns `None` if a row lacks a counter, or has an array.
pub(super) fn varied(table: &Table, counters: &[usize]) -> Option<Vec<(usize, usize)>> {
    let mut varied = Vec::new();
    for (place, column) in counters.iter().enumerate() {
        match table.column(*column) {
            Column::Integer(Integers::Same { value: Some(_), .. }) => {}
            Column::Integer(Integers::Each { present: None, .. }) => varied.push((place, *column)),
            _ => return None,
        }
    }
    Some(varied)
}

/// Returns the rows in which a string or the port differs from the row before. `port` is the
/// index of the port column.
pub(super) fn changes(table: &Table, port: usize) -> Vec<usize> {
    let mut changes = Vec::new();
    for index in 0..table.schema().columns.len() {
        match table.column(index) {
            Column::Text(texts) => {
                changes.extend(texts.ids.runs().skip(1).map(|(rows, _)| rows.start));
            }
            Column::Integer(Integers::Each { values, .. }) if index == port => {
                add_changes(values, &mut changes);
            }
            _ => {}
        }
    }
    changes.sort_unstable();
    changes.dedup();
    changes
}

fn add_changes(values: &[u64], changes: &mut Vec<usize>) {
    /// Number of values that are compared at a time, because nearly all of them are equal.
    const AT_ONCE: usize = 64;
    for start in (1..values.len()).step_by(AT_ONCE) {
        let end = (start + AT_ONCE).min(values.len());
        let (some, before) = (&values[start..end], &values[start - 1..end - 1]);
        if some != before {
            changes.extend((start..end).filter(|row| values[*row] != values[row - 1]));
        }
    }
}
