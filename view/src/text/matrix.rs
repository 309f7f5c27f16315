//! Report on the traffic between hosts.

use std::fmt::{self, Write};

use ibnet_analysis::job::sharing::{Matrix, Square};
use ibnet_record::types::Printable;

use super::job::octets;
use super::table;

/// Largest number of senders in the square table, and of rows of the list of cells.
const MAX_ENDS: usize = 6;
const MAX_CELLS: usize = 24;

/// Writes the estimates as a square table, if they fit, and the largest cells with their bounds.
pub fn report(matrix: &Matrix) -> String {
    let mut text = String::new();
    let (cells, what) = matrix.brief();
    // Writing to a `String` cannot fail.
    let _ = write_square(&mut text, &cells, what)
        .and_then(|()| write_cells(&mut text, &cells))
        .and_then(|()| writeln!(text, "\n{}", matrix.worth()));
    text
}

fn name(name: &str) -> String {
    Printable(name).to_string()
}

fn write_square(text: &mut String, matrix: &Matrix, what: &str) -> fmt::Result {
    let Square { names, bytes } = matrix.square();
    if names.len() > MAX_ENDS {
        let ends = matrix.ends();
        return writeln!(
            text,
            "{ends} {what} of the job; -o FILE.svg draws all pairs"
        );
    }
    let mut table = table::new();
    let heading = std::iter::once("GB, from \\ to".to_owned());
    table.set_header(heading.chain(names.iter().map(|to| name(to))));
    for (from, bytes) in names.iter().zip(&bytes) {
        let cells = bytes.iter().map(|bytes| match bytes.is_nan() {
            true => "-".to_owned(),
            false => format!("{:.3}", bytes / 1e9),
        });
        table.add_row(std::iter::once(name(from)).chain(cells));
    }
    let right: Vec<usize> = (1..=names.len()).collect();
    writeln!(text, "{}", table::to_text(table, &right))
}

fn write_cells(text: &mut String, matrix: &Matrix) -> fmt::Result {
    let mut table = table::new();
    table.set_header(["from", "to", "at least", "estimate", "at most"]);
    for cell in matrix.cells.iter().take(MAX_CELLS) {
        table.add_row([
            name(&cell.from),
            name(&cell.to),
            octets(cell.least_bytes),
            octets(cell.estimate_bytes),
            octets(cell.most_bytes),
        ]);
    }
    writeln!(text, "\n{}", table::to_text(table, &[2, 3, 4]))?;
    let more = matrix.cells.len().saturating_sub(MAX_CELLS);
    if more > 0 {
        writeln!(text, "and {more} more with less (--format json)")?;
    }
    Ok(())
}
