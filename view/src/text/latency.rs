//! Writes the table of round-trip times, and the modes with their causes.

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::grouping::{self, By, COST, MIN_SCORE};
use ibnet_analysis::latency::modes::Mode;
use ibnet_analysis::latency::{COMPOUND, LEAST, Latencies, LatencyRow, ModeReport, Source};
use ibnet_record::types::Printable;

use super::table;
use crate::draw::axis::nanos;

/// Largest number of samplers in the table.
const MAX_SAMPLERS: usize = 24;

/// Names of the columns after the first one.
const COLUMNS: [&str; 14] = [
    "count", "mean", "sd", "skew", "kurtosis", "min", "p1", "p25", "p50", "p75", "p90", "p99",
    "p99.9", "max",
];

/// Writes a table of all distributions, then the modes, the sources of the values, and the
/// timer cost.
pub fn report(latencies: &Latencies, bins: Bins) -> String {
    let mut table = table::new();
    table.set_header(
        ["round-trip time"]
            .into_iter()
            .chain(COLUMNS)
            .chain(["modes"]),
    );
    let mut add = |name: String, values| {
        let row = LatencyRow::of(None, &name, values, bins);
        table.add_row(cells(&row));
    };
    add("all".to_owned(), &latencies.all);
    for (by, prefix) in [(By::Kind, ""), (By::Hops, ""), (By::Sampler, "from ")] {
        let groups = latencies.groups(by);
        groups
            .iter()
            .take(MAX_SAMPLERS)
            .for_each(|group| add(format!("{prefix}{}", Printable(&group.name)), &group.values));
    }
    for (name, values) in [(LEAST, &latencies.least), (COMPOUND, &latencies.compound)] {
        if !values.is_empty() {
            add(name.to_owned(), values);
        }
    }
    let mut text = table::to_text(table, &(1..=COLUMNS.len()).collect::<Vec<_>>()) + "\n";
    if latencies.samplers.len() > MAX_SAMPLERS {
        text += &format!(
            "and {} more samplers\n",
            latencies.samplers.len() - MAX_SAMPLERS
        );
    }
    format!(
        "{text}\n{}\n{}{}",
        modes(latencies, bins),
        sources(latencies),
        clocks(latencies)
    )
}

fn cells(row: &LatencyRow) -> Vec<String> {
    let moments = [
        nanos(row.mean_ns),
        nanos(row.sd_ns),
        format!("{:.2}", row.skew),
        format!("{:.1}", row.kurtosis),
    ];
    let values = [
        row.min_ns,
        row.p1_ns,
        row.p25_ns,
        row.p50_ns,
        row.p75_ns,
        row.p90_ns,
        row.p99_ns,
        row.p999_ns,
        row.max_ns,
    ];
    let values = values.map(|ns| nanos(ns as f64));
    [row.name.clone(), row.count.to_string()]
        .into_iter()
        .chain(moments)
        .chain(values)
        .chain([list(&row.modes)])
        .collect()
}

/// Formats modes for a table cell.
pub(super) fn list(modes: &[f64]) -> String {
    modes
        .iter()
        .map(|ns| nanos(*ns))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats the modes and their causes: `two modes: 65 us (89 % hca), 150 us (89 % switch)`.
fn modes(latencies: &Latencies, bins: Bins) -> String {
    let ModeReport { modes, separations } = latencies.modes(bins);
    let best = separations.first().filter(|best| best.score >= MIN_SCORE);
    let named = modes.iter().map(|mode| {
        nanos(mode.at) + &members(latencies, *mode, best.map(|best| best.by), modes.len() > 1)
    });
    let named: Vec<String> = named.collect();
    let count = [
        "no mode",
        "one mode",
        "two modes",
        "three modes",
        "four modes",
    ];
    let count = count.get(modes.len()).map_or_else(
        || format!("{} modes", modes.len()),
        |count| (*count).to_owned(),
    );
    let mut text = format!("{count}: {}\n", named.join(", "));
    if modes.len() > 1 {
        let score = |separation: &grouping::Separation| {
            format!("{} {:.2}", separation.by, separation.score)
        };
        let scores = separations.iter().map(score).collect::<Vec<_>>().join(", ");
        let result = match best {
            Some(best) => format!("{} separates the modes best", best.by),
            None => "no grouping separates the modes".to_owned(),
        };
        let unit = match bins {
            Bins::Log { .. } => "per decade of the time",
            Bins::Fixed { .. } => "per time",
        };
        text += &format!(
            "{result}. Scores: {scores}.\n\
             Score: share of the uncertainty about the mode that the group removes, less {COST} for each\n\
             doubling of the number of groups; below {MIN_SCORE} it means no separation. Densities are {unit}.\n"
        );
    }
    text
}

/// Formats the share of a mode, and the groups that contribute most of its values.
fn members(latencies: &Latencies, mode: Mode, by: Option<By>, has_share: bool) -> String {
    /// Besides the largest group, a group is named if it has at least this share of the values.
    const SMALL: f64 = 0.2;
    let mut parts = Vec::new();
    if let Some(by) = by {
        let groups = grouping::largest(latencies.groups(by), mode.from, mode.to);
        let named = groups
            .iter()
            .enumerate()
            .filter(|(index, (_, share))| *index == 0 || *share >= SMALL);
        parts.extend(
            named.map(|(_, (name, share))| format!("{:.0} % {}", 100.0 * share, Printable(name))),
        );
    }
    if has_share {
        parts.push(format!("{:.0} % of all values", 100.0 * mode.share));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ({})", parts.join("; "))
    }
}

/// Describes the sources of the values.
pub(super) fn sources(latencies: &Latencies) -> String {
    let mean = "means over the MADs of a port in a slot";
    let values = match (latencies.source, latencies.device_source) {
        (Source::SingleMads, Source::SingleMads) => {
            "Values: round-trip times of single MADs. By distance they are rounded to 3 to 6 %.\n"
                .to_owned()
        }
        (Source::SingleMads, Source::PortMeans) => {
            format!("Values: round-trip times of single MADs; by distance {mean}.\n")
        }
        (Source::PortMeans, _) => format!("Without histogram records the values are {mean}.\n"),
    };
    let least = if latencies.least.is_empty() {
        "Least of each device: not known; the records have neither `rtt_min_ns` nor `service` histograms.\n"
    } else if latencies.has_exact_least {
        "Least of each device: its shortest single round trip.\n"
    } else {
        "Least of each device: its shortest single round trip, rounded to 3 to 6 %.\n"
    };
    let compound = "Compound query: all MADs of a port in a slot, one after the other.\n";
    format!(
        "{values}{least}{}",
        if latencies.compound.is_empty() {
            ""
        } else {
            compound
        }
    )
}

pub(super) fn clocks(latencies: &Latencies) -> String {
    timer_cost(latencies.clocks.values().copied(), "all times")
}

/// Describes the timer cost of several samplers.
pub(super) fn timer_cost(clocks: impl Iterator<Item = u64> + Clone, what: &str) -> String {
    match (clocks.clone().min(), clocks.max()) {
        (Some(least), Some(most)) if least == most => {
            format!("Timer cost: {least} ns, subtracted from {what}.\n")
        }
        (Some(least), Some(most)) => format!(
            "Timer cost: {least} to {most} ns, depending on the sampler, subtracted from {what}.\n"
        ),
        _ => "Timer cost: not known, not subtracted.\n".to_owned(),
    }
}
