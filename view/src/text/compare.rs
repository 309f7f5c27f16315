//! Comparison of the latencies of several recordings.

use ibnet_analysis::latency::LatencyRow;
use ibnet_analysis::latency::bins::Bins;
use ibnet_analysis::latency::compare::{self, ComparedGroup, Recording, Shift};
use ibnet_analysis::latency::grouping::By;
use ibnet_record::types::Printable;

use super::{latency, table};
use crate::draw::axis::nanos;

/// Writes two tables of all groups in each recording, then the `top` devices with the largest
/// shifts. A line fits 80 columns; JSON and CSV have more groupings and more statistics of each.
pub fn report(recordings: &[Recording], bins: Bins, top: usize) -> String {
    let [mut shifts, mut times] = [(); 2].map(|()| table::new());
    shifts.set_header([
        "shift",
        "recording",
        "count",
        "p50",
        "shift",
        "",
        "distance",
    ]);
    times.set_header(["time", "recording", "mean", "sd", "p1", "p90", "p99", "max"]);
    let by = recordings.first().map(|first| first.latencies.tabulated());
    for by in [None].into_iter().chain(by.into_iter().flatten().map(Some)) {
        for group in compare::groups(recordings, by) {
            add_group([&mut shifts, &mut times], recordings, &group, bins);
        }
    }
    let mut text = String::new();
    for (table, right) in [(shifts, 6), (times, 7)] {
        text += &(table::to_text(table, &(2..=right).collect::<Vec<_>>()) + "\n\n");
    }
    let first = recordings.first().map_or("", |first| first.name.as_str());
    text += &format!(
        "Shift: median less the median of {}. Distance: Kolmogorov-Smirnov distance\n\
         from {} (0: equal, 1: no overlap).\n",
        Printable(first),
        Printable(first)
    );
    text += &devices(recordings, top);
    for Recording { name, latencies } in recordings {
        text += &format!(
            "\n{}:\n{}{}",
            Printable(name),
            latency::sources(latencies),
            latency::clocks(latencies)
        );
    }
    let source = |recording: &Recording| {
        (
            recording.latencies.source,
            recording.latencies.device_source,
        )
    };
    if recordings
        .windows(2)
        .any(|pair| source(&pair[0]) != source(&pair[1]))
    {
        text +=
            "\nSome recordings have no histogram records: single MADs are compared with means.\n";
    }
    text
}

fn add_group(
    [shifts, times]: [&mut comfy_table::Table; 2],
    recordings: &[Recording],
    group: &ComparedGroup<'_>,
    bins: Bins,
) {
    let prefix = if group.by == Some(By::Sampler) {
        "from "
    } else {
        ""
    };
    for (index, (recording, values)) in recordings.iter().zip(&group.values).enumerate() {
        let Some(values) = values else { continue };
        let row = LatencyRow::of(group.by, group.name, values, bins);
        let shift = if index > 0 { group.shift(index) } else { None };
        let names = [
            format!("{prefix}{}", Printable(group.name)),
            Printable(&recording.name).to_string(),
        ];
        let median = [row.count.to_string(), nanos(row.p50_ns as f64)];
        let shifted = shifted(shift, row.p50_ns);
        shifts.add_row(names.clone().into_iter().chain(median).chain(shifted));
        let others = [row.p1_ns, row.p90_ns, row.p99_ns, row.max_ns].map(|ns| ns as f64);
        let others = [row.mean_ns, row.sd_ns]
            .into_iter()
            .chain(others)
            .map(nanos);
        times.add_row(names.into_iter().chain(others));
    }
}

/// Formats a shift, the shift as a share of the first median, and the distance.
fn shifted(shift: Option<Shift>, median_ns: u64) -> [String; 3] {
    let Some(Shift {
        median_ns: shift,
        distance,
    }) = shift
    else {
        return Default::default();
    };
    let sign = if shift < 0.0 { "-" } else { "+" };
    let before = median_ns as f64 - shift;
    let share = if before > 0.0 {
        format!("{:+.1} %", 100.0 * shift / before)
    } else {
        String::new()
    };
    [
        format!("{sign}{}", nanos(shift.abs())),
        share,
        format!("{distance:.3}"),
    ]
}

fn devices(recordings: &[Recording], top: usize) -> String {
    let ranked = compare::ranked_devices(recordings);
    if ranked.is_empty() || top == 0 {
        return String::new();
    }
    let mut table = table::new();
    table.set_header([
        "device",
        "recording",
        "count",
        "p50",
        "shift",
        "",
        "distance",
    ]);
    for device in ranked.iter().take(top) {
        for (index, (recording, values)) in recordings.iter().zip(&device.values).enumerate() {
            let Some(values) = values else { continue };
            let shift = if index > 0 { device.shift(index) } else { None };
            let median = values.percentile(50.0);
            let name = [
                Printable(device.name).to_string(),
                Printable(&recording.name).to_string(),
            ];
            let cells = name
                .into_iter()
                .chain([values.count().to_string(), nanos(median as f64)])
                .chain(shifted(shift, median));
            table.add_row(cells.collect::<Vec<_>>());
        }
    }
    let heading = format!(
        "\n{} of {} devices, by the shift of the median\n\n",
        top.min(ranked.len()),
        ranked.len()
    );
    heading + &table::to_text(table, &[2, 3, 4, 5, 6]) + "\n"
}
