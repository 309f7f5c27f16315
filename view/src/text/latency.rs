//! Table of latencies, and comparison of two recordings.

use ibnet::types::Printable;
use ibnet_analysis::latency::distribution::Distribution;
use ibnet_analysis::latency::{Latencies, LatencyRow, Named};

use super::table;
use crate::draw::axis::nanos;

/// Percentiles of the tables.
const PERCENTILES: [f64; 8] = [1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0];

/// Largest number of samplers in the table.
const MOST_SAMPLERS: usize = 24;

/// Writes a table of all distributions, then the modes and the time to read the clock.
pub fn report(latencies: &Latencies) -> String {
    let mut table = table::new();
    let percentiles = PERCENTILES.map(|percent| if percent == 100.0 { "max".to_owned() } else { format!("p{percent}") });
    let heads = ["round-trip time", "count", "mean", "mode", "sd", "skew", "kurtosis"].map(str::to_owned);
    table.set_header(heads.into_iter().chain(percentiles));
    let columns = 7 + PERCENTILES.len();
    table.add_row(row("all", &latencies.all));
    let rows = |title: &str, named: &[Named], table: &mut comfy_table::Table| {
        for Named { name, values } in named.iter().take(MOST_SAMPLERS) {
            table.add_row(row(&format!("{title}{}", Printable(name)), values));
        }
    };
    rows("", &latencies.kinds, &mut table);
    rows("", &latencies.distances, &mut table);
    rows("from ", &latencies.samplers, &mut table);
    if !latencies.least.is_empty() {
        table.add_row(row("smallest of each port", &latencies.least));
    }
    let mut text = table::to_text(table, &(1..columns).collect::<Vec<_>>()) + "\n";
    if latencies.samplers.len() > MOST_SAMPLERS {
        text += &format!("and {} more samplers\n", latencies.samplers.len() - MOST_SAMPLERS);
    }
    let note = if latencies.is_of_ports {
        "Without histogram records each value is the mean over the MADs of a port in a slot."
    } else {
        "Values of single MADs. By distance and smallest of each port: means over the MADs of a port in a slot."
    };
    format!("{text}\n{note}\n{}{}", modes(latencies), clocks(latencies))
}

fn row(name: &str, values: &Distribution) -> Vec<String> {
    let row = LatencyRow::of(name.to_owned(), values);
    let moments = [nanos(row.mean_ns), nanos(row.mode_ns), nanos(row.sd_ns), format!("{:.2}", row.skew), format!("{:.1}", row.kurtosis)];
    let percentiles =
        [row.p1_ns, row.p25_ns, row.p50_ns, row.p75_ns, row.p90_ns, row.p99_ns, row.p999_ns, row.max_ns].map(|ns| nanos(ns as f64));
    [row.name, row.count.to_string()].into_iter().chain(moments).chain(percentiles).collect()
}

/// Formats the modes: `two modes: 38 us at 1 hop, 61 us at 3 hops`.
fn modes(latencies: &Latencies) -> String {
    let modes = latencies.all.modes();
    let named: Vec<String> = modes.iter().map(|ns| format!("{}{}", nanos(*ns), nearest(*ns, latencies))).collect();
    let count = ["no mode", "one mode", "two modes", "three modes", "four modes"];
    let count = count.get(modes.len()).map_or_else(|| format!("{} modes", modes.len()), |count| (*count).to_owned());
    format!("{count}: {}\n", named.join(", "))
}

/// Returns the name of a mode: the distance with most values near it, or the device kind.
fn nearest(ns: f64, latencies: &Latencies) -> String {
    let most = |named: &[Named]| {
        let near = named.iter().map(|named| (named.values.share_near(ns) * named.values.count() as f64, &named.name));
        near.filter(|(count, _)| *count > 0.0).reduce(|most, next| if next.0 > most.0 { next } else { most }).map(|(_, name)| name.clone())
    };
    let distance = if latencies.distances.len() > 1 { most(&latencies.distances) } else { None };
    let name = distance.or_else(|| if latencies.kinds.len() > 1 { most(&latencies.kinds) } else { None });
    name.map_or_else(String::new, |name| format!(" at {}", Printable(&name)))
}

fn clocks(latencies: &Latencies) -> String {
    let (least, most) = (latencies.clocks.values().min(), latencies.clocks.values().max());
    match (least, most) {
        (Some(least), Some(most)) if least == most => format!("Every time includes {least} ns to read the clock.\n"),
        (Some(least), Some(most)) => format!("Every time includes {least} to {most} ns to read the clock, depending on the sampler.\n"),
        _ => String::new(),
    }
}

/// Writes the difference of each percentile, and the distance of the two distributions.
pub fn compare(before: &Latencies, after: &Latencies) -> String {
    let mut table = table::new();
    table.set_header(["round-trip time", "before", "after", "shift", ""]);
    let percentiles = PERCENTILES.map(|percent| {
        let name = if percent == 100.0 { "max".to_owned() } else { format!("p{percent}") };
        (name, before.all.percentile(percent) as f64, after.all.percentile(percent) as f64)
    });
    let mean = [("mean".to_owned(), before.all.moments().mean, after.all.moments().mean)];
    let count = [before, after].map(|latencies| latencies.all.count());
    table.add_row(["count".to_owned(), count[0].to_string(), count[1].to_string(), String::new(), String::new()]);
    for (name, old, new) in mean.into_iter().chain(percentiles) {
        let sign = if new >= old { "+" } else { "-" };
        let share = if old > 0.0 { format!("{:+.1} %", (new / old - 1.0) * 100.0) } else { String::new() };
        table.add_row([name, nanos(old), nanos(new), format!("{sign}{}", nanos((new - old).abs())), share]);
    }
    let distance = before.all.distance(&after.all);
    let mixed = if before.is_of_ports == after.is_of_ports {
        ""
    } else {
        "One recording has no histogram records: times of single MADs are compared with means over ports.\n"
    };
    format!("{}\n\nKolmogorov-Smirnov distance {distance:.3} (0: equal, 1: no overlap)\n{mixed}", table::to_text(table, &[1, 2, 3, 4]))
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::latency::Distance;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution
    }

    /// A distribution at 1 hop and one at 3 hops.
    fn latencies(near: u64) -> Latencies {
        let (near, far) = (of((0..100).map(|step| near + step * 20)), of((0..80).map(|step| 60_000 + step * 20)));
        let mut all = near.clone();
        all.merge(&far);
        let named = |distance: Distance, values: &Distribution| Named { name: distance.name(), values: values.clone() };
        Latencies {
            all,
            is_of_ports: true,
            kinds: Vec::new(),
            distances: vec![named(Distance::Hops(1), &near), named(Distance::Hops(3), &far)],
            samplers: vec![Named { name: "s\u{1b}[2J".to_owned(), values: far }],
            least: near,
            clocks: [("s".to_owned(), 27)].into(),
        }
    }

    #[test]
    fn modes_are_named_by_their_distances() {
        let text = report(&latencies(38_000));
        assert!(text.contains("\ntwo modes: 37.6 us at 1 hop, 59.6 us at 3 hops\n"), "{text}");
        assert!(text.contains("Every time includes 27 ns to read the clock"), "{text}");
        assert!(text.contains(r"from s\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn comparison_has_the_shift_of_each_percentile() {
        let text = compare(&latencies(38_000), &latencies(28_000));
        let p25 = text.lines().find(|line| line.starts_with("p25")).unwrap();
        assert_eq!(p25.split_whitespace().collect::<Vec<_>>(), ["p25", "38.9", "us", "28.9", "us", "-10", "us", "-25.7", "%"], "{text}");
        assert!(text.contains("distance 0.556"), "100 of 180 values moved: {text}");
    }
}
