//! Compares recordings by group of values, and ranks the devices by their shift. The *shift* of a
//! group is its difference from the same group of the first recording.

use std::cmp::Ordering;

use ibnet_record::types::Guid;

use super::bins::Bins;
use super::distribution::Distribution;
use super::evaluated::Latencies;
use super::grouping::{By, Named};
use super::rows::{LatencyBin, LatencyRow};

/// A recording with a name.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Name in tables, pictures and the JSON output.
    pub name: String,
    /// The distributions.
    pub latencies: Latencies,
}

/// Difference of a group between a recording and the first one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shift {
    /// Median of this recording minus the median of the first one, in nanoseconds.
    pub median_ns: f64,
    /// Kolmogorov-Smirnov distance, 0 to 1.
    pub distance: f64,
}

/// A group in all recordings.
#[derive(Clone, Debug)]
pub struct ComparedGroup<'a> {
    /// The grouping. `None` for all values.
    pub by: Option<By>,
    /// Name of the group.
    pub name: &'a str,
    /// GUID of the device. `None` for other groups.
    pub guid: Option<Guid>,
    /// The values in each recording, in the order of the recordings. `None` if a recording lacks
    /// the group.
    pub values: Vec<Option<&'a Distribution>>,
}

impl ComparedGroup<'_> {
    /// Returns the shift of a recording, or `None` if this recording or the first one lacks the
    /// group.
    pub fn shift(&self, recording: usize) -> Option<Shift> {
        let (first, other) = (
            self.values.first().copied().flatten()?,
            self.values.get(recording).copied().flatten()?,
        );
        let median_ns = other.percentile(50.0) as f64 - first.percentile(50.0) as f64;
        Some(Shift {
            median_ns,
            distance: first.distance(other),
        })
    }

    /// Returns the shift with the max absolute value.
    pub fn largest_shift(&self) -> Option<Shift> {
        (1..self.values.len())
            .filter_map(|recording| self.shift(recording))
            .max_by(|a, b| size(*a).total_cmp(&size(*b)))
    }
}

fn size(shift: Shift) -> f64 {
    shift.median_ns.abs()
}

/// Returns all groups of a grouping, in the order of the first recording. Without `by`, the only
/// group has all values.
pub fn groups(recordings: &[Recording], by: Option<By>) -> Vec<ComparedGroup<'_>> {
    let Some(by) = by else {
        let values = recordings
            .iter()
            .map(|recording| Some(&recording.latencies.all))
            .collect();
        return vec![ComparedGroup {
            by,
            name: "all",
            guid: None,
            values,
        }];
    };
    let is_same = |a: &Named, b: &Named| {
        if a.guid.is_some() {
            a.guid == b.guid
        } else {
            a.name == b.name
        }
    };
    let mut all: Vec<&Named> = Vec::new();
    // Devices are in the order of their GUIDs, which makes large comparisons fast.
    let lists: Vec<&[Named]> = recordings
        .iter()
        .map(|recording| recording.latencies.groups(by))
        .collect();
    for list in &lists {
        all.extend(*list);
    }
    let order = |a: &&Named, b: &&Named| {
        a.guid.cmp(&b.guid).then_with(|| {
            if a.guid.is_some() {
                Ordering::Equal
            } else {
                a.name.cmp(&b.name)
            }
        })
    };
    all.sort_by(order);
    all.dedup_by(|a, b| is_same(a, b));
    let find =
        |list: &'_ [Named], group: &Named| list.iter().position(|other| is_same(other, group));
    all.into_iter()
        .map(|group| {
            let in_list = |list: &&'_ [Named]| {
                let quick = group.guid.and_then(|guid| {
                    list.binary_search_by_key(&Some(guid), |other| other.guid)
                        .ok()
                });
                quick.or_else(|| find(list, group))
            };
            let values = lists
                .iter()
                .map(|list| in_list(list).map(|at| &list[at].values))
                .collect();
            ComparedGroup {
                by: Some(by),
                name: &group.name,
                guid: group.guid,
                values,
            }
        })
        .collect()
}

/// Returns the devices that are in several recordings, the one with the largest shift first.
pub fn ranked_devices(recordings: &[Recording]) -> Vec<ComparedGroup<'_>> {
    let mut devices = groups(recordings, Some(By::Device));
    devices.retain(|device| device.largest_shift().is_some());
    devices.sort_by_cached_key(|device| {
        std::cmp::Reverse(device.largest_shift().map_or(0, |shift| size(shift) as u64))
    });
    devices
}

/// Returns the rows of the JSON output: the groups of each recording, then devices by their
/// shift.
pub fn rows(recordings: &[Recording], bins: Bins) -> Vec<LatencyRow> {
    let groupings = By::ALL.into_iter().filter(|by| *by != By::Device);
    let all = [None]
        .into_iter()
        .chain(groupings.map(Some))
        .flat_map(|by| groups(recordings, by))
        .chain(ranked_devices(recordings));
    let mut rows = Vec::new();
    for group in all {
        for (index, (recording, values)) in recordings.iter().zip(&group.values).enumerate() {
            let Some(values) = values else { continue };
            let shift = if index > 0 { group.shift(index) } else { None };
            rows.push(LatencyRow {
                recording: Some(recording.name.clone()),
                guid: group.guid,
                shift_ns: shift.map(|shift| shift.median_ns),
                distance: shift.map(|shift| shift.distance),
                ..LatencyRow::of(group.by, group.name, values, bins)
            });
        }
    }
    rows
}

/// Returns the bins with values of all distributions. All recordings have the same bins.
pub fn bin_rows(recordings: &[Recording], bins: Bins) -> Vec<LatencyBin> {
    let Some(first) = recordings.first() else {
        return Vec::new();
    };
    let bins = bins.with_width(&first.latencies.all);
    let mut rows = Vec::new();
    for Recording { name, latencies } in recordings {
        let recording = (recordings.len() > 1).then(|| name.clone());
        for (by, name, guid, values) in latencies.distributions() {
            rows.extend(bins.counts(values).into_iter().map(|bin| LatencyBin {
                recording: recording.clone(),
                by,
                name: name.to_owned(),
                guid,
                bin,
            }));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::fold::Latency;
    use super::*;
    use crate::fixtures;

    /// Returns a recording with two devices. `first` has the times of `n1`, and `second` those of
    /// `n2`.
    fn recording(name: &str, first: &[u64], second: &[u64]) -> Recording {
        let line = |guid: u64, ns: &u64| {
            format!(
                r#"{{"type":"port","ts":1,"slot":1,"sampler":"s","guid":"0x{guid:016x}","port":1,"lid":1,"node":"n{guid}","kind":"hca","hops":1,"status":"ok","rtt_ns":{ns},"mads":1}}"#
            )
        };
        let lines: Vec<String> = first
            .iter()
            .map(|ns| line(1, ns))
            .chain(second.iter().map(|ns| line(2, ns)))
            .collect();
        Recording {
            name: name.to_owned(),
            latencies: fixtures::fold(Latency::default(), &lines).finish().unwrap(),
        }
    }

    #[test]
    fn devices_are_ranked_by_the_shift_of_their_medians() {
        let recordings = [
            recording("mon", &[500, 500, 500], &[700, 700, 700]),
            recording("tue", &[500, 500, 510], &[400, 400, 700]),
            recording("wed", &[520, 520, 520], &[]),
        ];
        let ranked = ranked_devices(&recordings);
        let names: Vec<_> = ranked.iter().map(|device| device.name).collect();
        assert_eq!(names, ["n2", "n1"]);
        let shift = ranked[0].shift(1).unwrap();
        assert_eq!(shift.median_ns, -300.0);
        assert!((shift.distance - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(
            (
                ranked[0].shift(2),
                ranked[1].largest_shift().map(|shift| shift.median_ns)
            ),
            (None, Some(20.0))
        );
        let rows = rows(&recordings, Bins::LOG);
        let of_n2: Vec<_> = rows
            .iter()
            .filter(|row| row.name == "n2")
            .map(|row| (row.recording.as_deref(), row.shift_ns))
            .collect();
        assert_eq!(of_n2, [(Some("mon"), None), (Some("tue"), Some(-300.0))]);
        assert_eq!(rows.iter().filter(|row| row.by.is_none()).count(), 3);
    }
}
