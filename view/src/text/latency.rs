//! Writes the table of round-trip times, and the modes with their causes.

use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::grouping::{self, By, COST, MIN_SCORE};
use ibnet_analysis::latency::modes::Mode;
use ibnet_analysis::latency::{Latencies, LatencyRow, ModeReport, Resolution, Source};
use ibnet_record::types::Printable;

use super::table;
use crate::draw::axis::nanos;

/// Largest number of samplers in the table.
const MAX_SAMPLERS: usize = 24;

/// Writes a table of times and one of shapes with all distributions, then the modes, the sources of
/// the values, and the timer cost. A line fits 80 columns; JSON and CSV have more groupings and
/// more statistics of each.
pub fn report(latencies: &Latencies, bins: Bins) -> String {
    let [mut times, mut shapes] = [(); 2].map(|()| table::new());
    times.set_header(["time", "count", "mean", "sd", "min", "p50", "p99", "max"]);
    shapes.set_header(["shape", "skew", "kurtosis", "sigma", "error", "modes"]);
    let mut add = |name: String, values: &Distribution| {
        let row = LatencyRow::of(None, &name, values, bins);
        times.add_row(
            [name.clone(), row.count.to_string()].into_iter().chain(
                [
                    row.mean_ns,
                    row.sd_ns,
                    row.min_ns as f64,
                    row.p50_ns as f64,
                    row.p99_ns as f64,
                    row.max_ns as f64,
                ]
                .map(nanos),
            ),
        );
        let known = |value: Option<f64>, digits| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        shapes.add_row([
            name,
            format!("{:.2}", row.skew),
            format!("{:.1}", row.kurtosis),
            known(row.fit_sigma, 2),
            known(row.fit_distance, 3),
            list(&row.modes),
        ]);
    };
    add("all".to_owned(), &latencies.all);
    for by in latencies.tabulated() {
        let groups = latencies.groups(by);
        let prefix = if by == By::Sampler { "from " } else { "" };
        for group in groups.iter().take(MAX_SAMPLERS) {
            add(format!("{prefix}{}", Printable(&group.name)), &group.values);
        }
    }
    for (name, values) in [
        ("least of a device", &latencies.least),
        ("least in a minute", &latencies.minima),
        ("compound query", &latencies.compound),
        ("timer cost", &latencies.timer),
    ] {
        if !values.is_empty() {
            add(name.to_owned(), values);
        }
    }
    let mut text = String::new();
    let more = latencies
        .groups(By::Sampler)
        .len()
        .saturating_sub(MAX_SAMPLERS);
    for (table, right) in [(times, 7), (shapes, 4)] {
        text += &(table::to_text(table, &(1..=right).collect::<Vec<_>>()) + "\n");
        if more > 0 {
            text += &format!("and {more} more samplers\n");
        }
        text += "\n";
    }
    format!(
        "{text}{SHAPES}\n{}\n{}{}",
        modes(latencies, bins),
        sources(latencies),
        clocks(latencies)
    )
}

const SHAPES: &str = "\
Sigma: that of a log-normal distribution of the times minus their min, with the
same quartiles. Error: its Kolmogorov-Smirnov distance from the values, 0 to 1.
";

/// Formats up to two modes for a table cell.
fn list(modes: &[f64]) -> String {
    let mut named: Vec<_> = modes.iter().take(2).map(|ns| nanos(*ns)).collect();
    if modes.len() > 2 {
        named.push(format!("+{}", modes.len() - 2));
    }
    named.join(", ")
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
    let between = if named.len() > 2 { ",\n  " } else { ", " };
    let mut text = format!("{count}: {}\n", named.join(between));
    if modes.len() > 1 {
        let score = |separation: &grouping::Separation| {
            format!("{} {:.2}", separation.by, separation.score)
        };
        let scores: Vec<_> = separations.iter().take(3).map(score).collect();
        let scores = scores.join(", ");
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
             Score: share of the uncertainty about the mode that the group removes, less\n\
             {COST} for each doubling of the number of groups; below {MIN_SCORE}: no separation.\n\
             Densities are {unit}.\n"
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
            "Values: round-trip times of single MADs.\n".to_owned()
        }
        (Source::SingleMads, Source::PortMeans) => {
            format!(
                "Values: round-trip times of single MADs. By device, model, distance and switch:\n{mean}.\n"
            )
        }
        (Source::PortMeans, _) => format!("Values: {mean} (no `histogram` records).\n"),
    };
    let least = if latencies.least.is_empty() {
        "Least of a device: not known (no `rtt_min_ns`, no `service` histograms).\n"
    } else if latencies.has_exact_least {
        "Least of a device: its shortest single round trip.\n"
    } else {
        "Least of a device: its shortest single round trip, rounded to a bucket.\n"
    };
    let compound = "Compound query: all MADs of a port in a slot, one after the other.\n";
    format!(
        "{values}{}{least}{}",
        buckets(latencies.resolutions),
        if latencies.compound.is_empty() {
            ""
        } else {
            compound
        }
    )
}

/// Describes the lowest resolution of the histograms by kind and of those by device.
fn buckets(resolutions: [Option<Resolution>; 2]) -> String {
    let one = |Resolution {
                   per_octave,
                   unit_ns,
               }: Resolution| {
        let width = 100.0 / per_octave as f64;
        let unit = nanos(unit_ns as f64);
        format!("{:.1} to {width:.1} %, at least {unit}", width / 2.0)
    };
    match resolutions {
        [Some(kinds), Some(devices)] if kinds != devices => {
            format!("Buckets: {}; by device {}.\n", one(kinds), one(devices))
        }
        [Some(known), _] | [None, Some(known)] => format!("Buckets: {}.\n", one(known)),
        [None, None] => String::new(),
    }
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
