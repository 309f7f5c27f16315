//! Report on the phases of an application.

use ibnet_analysis::job::marks::Phase;
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
    let mut phases: Vec<&Phase> = phases.iter().collect();
    phases.sort_by_key(|phase| phase.start_ns);
    let mut names: Vec<&str> = Vec::new();
    for phase in &phases {
        if !names.contains(&&*phase.name) {
            names.push(&phase.name);
        }
    }
    let mut table = table::new();
    table.set_header([
        "phase", "times", "seconds", "injected", "ejected", "blocked", "ns/byte", "value",
    ]);
    for name in names.iter().take(MAX) {
        let own = || phases.iter().filter(|phase| phase.name == *name);
        let sum = |value: fn(&Phase) -> f64| own().map(|phase| value(phase)).sum::<f64>();
        let (injected, blocked) = (
            sum(|phase| phase.injected_bytes),
            sum(|phase| phase.blocked_seconds),
        );
        let is_known = |known: fn(&Phase) -> f64| own().any(|phase| known(phase) > 0.0);
        let known = |is_known: bool, text: String| match is_known {
            true => text,
            false => "-".to_owned(),
        };
        let has_bytes = is_known(|phase| phase.covered_seconds);
        let has_blocked = is_known(|phase| phase.blocked_covered_seconds);
        let value = own().filter_map(|phase| phase.value).reduce(|a, b| a + b);
        table.add_row([
            Printable(name).to_string(),
            own().count().to_string(),
            format!("{:.1}", sum(|phase| phase.covered_seconds)),
            known(has_bytes, octets(injected)),
            known(has_bytes, octets(sum(|phase| phase.ejected_bytes))),
            known(has_blocked, format!("{blocked:.1} s")),
            known(
                has_blocked && injected > 0.0,
                format!("{:.4}", blocked * 1e9 / injected),
            ),
            value.map_or_else(|| "-".to_owned(), axis::number),
        ]);
    }
    let more = match names.len().saturating_sub(MAX) {
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
