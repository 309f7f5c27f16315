//! Table of how often methods found the true roots of congestion.

use ibnet_analysis::trees::truth::ScoreRow;

use super::table;

/// Writes a row for each method.
pub fn report(rows: &[ScoreRow]) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let mut table = table::new();
    table.set_header([
        "method",
        "roots",
        "found",
        "false",
        "quiet",
        "precision",
        "recall",
        "F1",
        "Jaccard",
    ]);
    for row in rows {
        table.add_row([
            row.method.to_owned(),
            row.true_roots.to_string(),
            row.found.to_string(),
            row.false_roots.to_string(),
            row.false_in_quiet.to_string(),
            number(row.precision),
            number(row.recall),
            number(row.f1),
            number(row.jaccard),
        ]);
    }
    let numbers: Vec<usize> = (1..9).collect();
    "Roots of congestion, by port and second, compared with the truth\n\n".to_owned()
        + &table::to_text(table, &numbers)
        + "\n"
}
