//! Tables of how often methods found the true roots of congestion, and the jobs.

use ibnet_analysis::trees::truth::ScoreRow;

use super::table;

/// Writes a row for each method, and a line about the jobs.
pub fn report(rows: &[ScoreRow]) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
    let seconds = |[median, p95]: [Option<u64>; 2]| match (median, p95) {
        (Some(median), Some(p95)) => format!("{median} / {p95} s"),
        _ => "-".to_owned(),
    };
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
        "begin",
        "end",
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
            seconds([row.begin_error_median, row.begin_error_p95]),
            seconds([row.end_error_median, row.end_error_p95]),
        ]);
    }
    let numbers: Vec<usize> = (1..11).collect();
    let mut text = "Roots of congestion, by port and second, compared with the truth\n\
                    begin, end: error (median / 95th percentile)\n\n"
        .to_owned()
        + &table::to_text(table, &numbers)
        + "\n";
    for row in rows.iter().filter(|row| row.cause_recall.is_some()) {
        text += &format!(
            "\nJobs, by {} and second:\n  cause a root   precision {}, recall {}\n  \
             victims        precision {}, recall {}\n  \
             rank correlation with the slowdown: blocked share {}, less sent {}\n",
            row.method,
            number(row.cause_precision),
            number(row.cause_recall),
            number(row.victim_precision),
            number(row.victim_recall),
            number(row.rank_correlation),
            number(row.less_sent_correlation),
        );
    }
    text
}
