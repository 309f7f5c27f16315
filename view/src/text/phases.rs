//! Report on the phases of an application.

use ibnet_analysis::job::marks::{self, Phase};
use ibnet_record::types::Printable;

use super::job::octets;
use super::table;
use crate::draw::axis;

/// Largest number of phases in the table.
const MAX: usize = 32;

/// Writes a table of the phases, in the order of their first starts. Phases with the same name are
/// added up. Without phases, the text is empty.
pub fn report(phases: &[Phase]) -> String {
    if phases.is_empty() {
        return String::new();
    }
    let sums = marks::by_name(phases);
    let mut table = table::new();
    table.set_header([
        "phase", "times", "seconds", "injected", "ejected", "blocked", "ns/byte", "value",
    ]);
    for sum in sums.iter().take(MAX) {
        let known = |value: Option<f64>, text: &dyn Fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), text)
        };
        let injected = sum.injected_bytes.filter(|injected| *injected > 0.0);
        let per_byte = sum.blocked_seconds.zip(injected);
        table.add_row([
            Printable(&sum.name).to_string(),
            sum.times.to_string(),
            format!("{:.1}", sum.covered_seconds),
            known(sum.injected_bytes, &octets),
            known(sum.ejected_bytes, &octets),
            known(sum.blocked_seconds, &|blocked| format!("{blocked:.1} s")),
            known(
                per_byte.map(|(blocked, injected)| blocked * 1e9 / injected),
                &|ns| format!("{ns:.4}"),
            ),
            known(sum.value, &axis::number),
        ]);
    }
    let more = match sums.len().saturating_sub(MAX) {
        0 => String::new(),
        more => format!("and {more} more (--format json)\n"),
    };
    format!(
        "\n{}\n{more}\"seconds\" is the recorded time of the phase; \"blocked\" is summed over the ports\n\
         of its nodes. Traffic is taken as constant within a step: give more --steps for\n\
         short phases, or with --all and --group a shorter --bin.\n",
        table::to_text(table, &[1, 2, 3, 4, 5, 6, 7])
    )
}
