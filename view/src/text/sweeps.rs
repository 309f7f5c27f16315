//! Writes the durations of sweeps and compound queries, the completeness, and the lost records.

use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::sweeps::{Summary, SweepReport};
use ibnet_record::types::Printable;

use super::{latency, percent, table};
use crate::draw::axis::nanos;

/// Largest number of samplers in the table.
const MAX_SAMPLERS: usize = 100;

/// Writes three tables: the samplers, the durations of sweeps, and the compound queries.
pub fn report(report: &SweepReport) -> String {
    let mut text = samplers(report) + "\n\n";
    let mut table = table::new();
    table.set_header([
        "all samplers",
        "slots",
        "min",
        "mean",
        "sd",
        "p50",
        "p99",
        "max",
    ]);
    for (name, values) in report.parts() {
        table.add_row(duration(name, values));
    }
    text += &(table::to_text(table, &[1, 2, 3, 4, 5, 6, 7]) + "\n\n");
    if report.compound.is_empty() {
        text += "Compound queries: not known; the input has no port records with answers.\n";
        return text + NOTE;
    }
    let mut table = table::new();
    table.set_header([
        "compound query",
        "count",
        "min",
        "mean",
        "sd",
        "p50",
        "p99",
        "max",
    ]);
    let mut all = Distribution::default();
    for (kind, values) in &report.compound {
        all.merge(values);
        table.add_row(duration(kind, values));
    }
    if report.compound.len() > 1 {
        table.add_row(duration("all", &all));
    }
    text += &(table::to_text(table, &[1, 2, 3, 4, 5, 6, 7]) + "\n\n");
    text + NOTE
        + &latency::timer_cost(
            report.clocks.values().copied(),
            "each MAD of the compound queries",
        )
}

const NOTE: &str = "\
Sweep: from the start of a slot to its last reply or expiry. Decode: time spent on decoding
afterwards. Total: both. Compound query: all MADs of a port in a slot, one after the other.
Complete: share of the ports with an active link that answered, in the slots that ran.
";

/// Writes the condition of each sampler. JSON and CSV have all statistics of each of them; here they
/// are in the second table, for all samplers together, so that a line fits 80 columns.
fn samplers(report: &SweepReport) -> String {
    let mut table = table::new();
    table.set_header([
        "sampler",
        "slots",
        "missed",
        "complete",
        "lost",
        "sweep mean",
        "max",
        "decode mean",
        "max",
    ]);
    for row in report.rows.iter().take(MAX_SAMPLERS) {
        let mut cells = vec![
            Printable(&report.name(row)).to_string(),
            row.slots.to_string(),
            row.missed.to_string(),
        ];
        cells.extend([percent(Some(row.complete)), row.lost.to_string()]);
        for Summary { mean, max, .. } in [row.duration_ns, row.decode_ns] {
            cells.extend([nanos(mean), nanos(max as f64)]);
        }
        table.add_row(cells);
    }
    let text = table::to_text(table, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let more = report.rows.len().saturating_sub(MAX_SAMPLERS);
    if more > 0 {
        format!("{text}\nand {more} more samplers")
    } else {
        text
    }
}

fn duration(name: &str, values: &Distribution) -> Vec<String> {
    let Summary {
        count,
        min,
        mean,
        max,
        sd,
    } = Summary::of(values);
    let [p50, p99] = [50.0, 99.0].map(|percent| nanos(values.percentile(percent) as f64));
    vec![
        name.to_owned(),
        count.to_string(),
        nanos(min as f64),
        nanos(mean),
        nanos(sd),
        p50,
        p99,
        nanos(max as f64),
    ]
}
