//! The means of minutes: those of the memory, of the archive, and of the records.
//!
//! Each recording is random: readings at any time of their slot, gaps that the next record
//! describes or does not describe, and a second sampler. The means are computed again from the list
//! of the slots of each record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ibnet_store::archive::Archive as Folder;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;

use super::*;

const MINUTE: u64 = 60 * SECOND;
/// Start of an hour. The recordings contain it.
const HOUR: u64 = 1_700_002_800 * SECOND;
const KEY: (u64, u8) = (1, 2);
const METRICS: [(&str, f64); 2] = [("xmit_gbps", 1000.0), ("xmit_blocked", 1.0)];

/// The values of the slots in each minute, for a metric and for each of the two samplers.
type Slots = BTreeMap<(usize, bool, u64), Vec<f64>>;

/// A recording of one port.
struct Recording {
    lines: Vec<String>,
    slots: Slots,
    /// Metrics and minutes in which a sampler has a value of a longer time than usual.
    long: BTreeSet<(usize, u64)>,
    /// The first and the last minute with all of their slots.
    minutes: (u64, u64),
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

impl Recording {
    /// Returns a recording in which each `every`th reading has the blocked share.
    fn new(seed: u64, samplers: usize, slot_ns: u64, every: u64, minutes: u64) -> Self {
        let mut random = Random(seed);
        let first = HOUR / MINUTE - minutes / 2;
        let mut recording = Self {
            lines: Vec::new(),
            slots: Slots::new(),
            long: BTreeSet::new(),
            minutes: (first, first + minutes - 1),
        };
        for is_secondary in [false, true].into_iter().take(samplers) {
            let (role, sampler) = if is_secondary {
                ("secondary", "s2")
            } else {
                ("primary", "s1")
            };
            recording.lines.push(
                json!({"type": "start", "ts": first * MINUTE, "slot": first * MINUTE / slot_ns, "sampler": sampler, "schema": 1,
                    "version": "x", "pid": 1, "ca": "sim", "ca_port": 1, "role": role, "interval_ns": slot_ns, "ports": 1})
                .to_string(),
            );
            recording.sample(&mut random, slot_ns, every, is_secondary);
        }
        // The records arrive in the order of time.
        let ts = |line: &String| {
            let line: Json = serde_json::from_str(line).expect("JSON");
            line["ts"].as_u64()
        };
        recording.lines.sort_by_cached_key(ts);
        recording
    }

    fn sample(&mut self, random: &mut Random, slot_ns: u64, every: u64, is_secondary: bool) {
        let slots = self.minutes.0 * MINUTE / slot_ns..=(self.minutes.1 + 1) * MINUTE / slot_ns;
        // The last readings of both metrics: slot and time.
        let mut last: [Option<(u64, u64)>; 2] = [None; 2];
        let mut silent_until = 0;
        for slot in slots {
            let is_away =
                !is_secondary && (3..6).contains(&(slot * slot_ns / MINUTE - self.minutes.0));
            if is_away {
                // The sampler starts again.
                last = [None; 2];
            }
            if is_away || slot < silent_until {
                continue;
            }
            let offset = if is_secondary { slot_ns / 2 } else { 0 };
            let ts = slot * slot_ns + offset + random.below(slot_ns * 3 / 10);
            let mut line: Json = serde_json::from_str(
                &record(2, KEY, (0x102, 1), START + 1, is_secondary).expect("a record"),
            )
            .expect("JSON");
            for (name, value) in [("ts", ts), ("slot", slot), ("port_xmit_data_bytes", slot)] {
                line[name] = json!(value);
            }
            for name in [
                "dt_ns",
                "xmit_gbps",
                "rcv_gbps",
                "xmit_utilization",
                "xmit_blocked",
            ] {
                line[name] = Json::Null;
            }
            let lengths = ["dt_ns", "xmit_blocked_dt_ns"];
            for (metric, ((name, _), length)) in METRICS.iter().zip(lengths).enumerate() {
                if metric == 1 && slot % every != 0 {
                    continue;
                }
                let Some((before, before_ts)) = last[metric].replace((slot, ts)) else {
                    continue;
                };
                let value = random.below(1_000_000) as f64 / 1e6;
                line[length] = json!(ts - before_ts);
                line[*name] = json!(value);
                for described in before..slot {
                    let key = (metric, is_secondary, described * slot_ns / MINUTE);
                    self.slots.entry(key).or_default().push(value);
                    if slot - before > [1, every][metric] {
                        self.long.insert((metric, key.2));
                    }
                }
            }
            self.lines.push(line.to_string());
            // The next record describes the time without records, or it is the first one again.
            if random.below(100 * SECOND / slot_ns) == 0 {
                // A minute is complete one minute after its end.
                let longest = 58 * SECOND - 2 * every * slot_ns;
                silent_until = slot + 2 + random.below(longest / slot_ns);
                if random.below(3) == 0 {
                    last = [None; 2];
                }
            }
        }
    }

    /// Returns the mean and the largest value of a sampler in a minute.
    fn of(&self, metric: usize, is_secondary: bool, minute: u64) -> Option<(f64, f64)> {
        let values = self.slots.get(&(metric, is_secondary, minute))?;
        let largest = values.iter().copied().fold(0.0, f64::max);
        Some((values.iter().sum::<f64>() / values.len() as f64, largest))
    }

    /// Returns those of the primary, or those of the secondary without a value of the primary.
    fn expected(&self, metric: usize, minute: u64) -> Option<(f64, f64)> {
        self.of(metric, false, minute)
            .or_else(|| self.of(metric, true, minute))
    }

    /// Returns whether records can have values of both samplers in a minute: those of the
    /// secondary replace those that the primary lacks, and a long time is cut.
    fn is_mixed(&self, metric: usize, minute: u64, slot_ns: u64) -> bool {
        let count = |is_secondary| {
            let key = (metric, is_secondary, minute);
            self.slots.get(&key).map_or(0, |values| values.len() as u64)
        };
        let is_partial = (1..MINUTE / slot_ns).contains(&count(false));
        count(true) > 0 && (is_partial || self.long.contains(&(metric, minute)))
    }
}

fn is_near(a: Option<(f64, f64)>, b: Option<(f64, f64)>, most: f64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a.0 - b.0).abs() <= most && (a.1 - b.1).abs() <= most,
        (a, b) => a == b,
    }
}

/// Returns mean and largest value of each minute in the rows of the archive's table, by metric and
/// sampler. Each row describes the slots before its time.
fn of_rows(root: &Path, slot_ns: u64) -> BTreeMap<(usize, bool, u64), (f64, f64)> {
    let mut sums: BTreeMap<(usize, bool, u64), (f64, f64, f64)> = BTreeMap::new();
    let folder = Folder::open(root).expect("an archive");
    for (_, path) in folder.files(TableName::PortsMinute).expect("files") {
        let table = ArchiveFile::open(&path)
            .and_then(|file| file.read_all())
            .expect("a table");
        for row in 0..table.len() {
            let line: Json = serde_json::from_slice(&table.line(row)).expect("JSON");
            let ts = line["ts"].as_u64().expect("a time");
            for (metric, (name, _)) in METRICS.iter().enumerate() {
                let length = if metric == 1 {
                    "xmit_blocked_dt_ns"
                } else {
                    "dt_ns"
                };
                let (Some(mean), Some(length)) = (line[*name].as_f64(), line[length].as_u64())
                else {
                    continue;
                };
                let largest = line[format!("{name}_max")].as_f64().expect("a value");
                for slot in (ts - length) / slot_ns..ts / slot_ns {
                    let key = (metric, line["role"] == "secondary", slot * slot_ns / MINUTE);
                    let sum = sums.entry(key).or_default();
                    *sum = (sum.0 + mean, sum.1 + 1.0, largest.max(sum.2));
                }
            }
        }
    }
    sums.into_iter()
        .map(|(key, (sum, count, largest))| (key, (sum / count, largest)))
        .collect()
}

/// Returns mean and largest value of each minute of a series.
fn of_series(hub: &Hub, metric: &str, (first, last): (u64, u64)) -> Vec<Option<(f64, f64)>> {
    let range = (first * MINUTE, (last + 1) * MINUTE);
    let found = find_in(hub, KEY, metric, As::Total, Some(MINUTE), range);
    let list = |name: &str| found[name].as_array().expect("a list").clone();
    list("v")
        .iter()
        .zip(list("max"))
        .map(|(mean, largest)| mean.as_f64().zip(largest.as_f64()))
        .collect()
}

/// Returns mean and largest value of each minute of a matrix.
fn of_matrix(hub: &Hub, metric: &str, scale: f64, minutes: (u64, u64)) -> Vec<Option<(f64, f64)>> {
    let metric = heat::METRICS
        .into_iter()
        .find(|known| known.name == metric)
        .expect("a metric");
    let (index, rows) = {
        let topology = &hub.read().topology;
        let index = topology.find((Guid(KEY.0), PortNum(KEY.1)));
        (index.expect("a port"), topology.ports.len())
    };
    let [means, largest] = [Join::Mean, Join::Max].map(|join| {
        let request = Request {
            metric,
            join,
            from: minutes.0 * MINUTE,
            to: (minutes.1 + 1) * MINUTE,
            step: Some(MINUTE),
        };
        let octets = heat::find(hub, request).expect("a matrix");
        let value = move |column: u64| {
            let place = 32 + 2 * (column as usize * rows + index);
            let number = u16::from_le_bytes([octets[place], octets[place + 1]]);
            (number <= FULL).then(|| f64::from(number) / f64::from(FULL) * scale)
        };
        (0..=minutes.1 - minutes.0).map(value).collect::<Vec<_>>()
    });
    means
        .into_iter()
        .zip(largest)
        .map(|(mean, largest)| mean.zip(largest))
        .collect()
}

/// Each seed is another set of recordings. `IBNET_SEEDS=1-100` tries a range of them.
#[test]
fn minute_has_one_mean_in_memory_in_the_archive_and_in_records() {
    let seeds = std::env::var("IBNET_SEEDS").unwrap_or_else(|_| "7-7".to_owned());
    let (first, last) = seeds.split_once('-').expect("a range");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    for seed in number(first)..=number(last) {
        for samplers in [1, 2] {
            compare_minutes(seed, samplers);
        }
    }
}

fn compare_minutes(seed: u64, samplers: usize) {
    let (mut compared, mut all) = (0, 0);
    for (slot_ns, every, minutes) in [
        (SECOND / 10, 1, 8),
        (SECOND, 1, 20),
        (SECOND, 5, 20),
        (10 * SECOND, 1, 50),
        (10 * SECOND, 2, 50),
    ] {
        let recording = Recording::new(seed, samplers, slot_ns, every, minutes);
        let within = recording.minutes;
        let hub = hub(&[recording.lines.join("\n") + "\n"]);
        hub.tick(Clock::start().now());

        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("archive");
        let later = HOUR + 7200 * SECOND;
        let mut new: Json =
            serde_json::from_str(&record(2, KEY, (0x102, 1), START + 1, false).expect("a record"))
                .expect("JSON");
        (new["ts"], new["slot"]) = (json!(later), json!(later / slot_ns));
        pack(&root, &[&recording.lines[..], &[new.to_string()]].concat());
        let keep = [ibnet_store::retain::Keep::of_age("ports=1h").expect("a rule")];
        ibnet_store::retain::retain(&root, &keep, later + 86_400 * SECOND, false).expect("removed");
        let rows = of_rows(&root, slot_ns);
        let start = recording.lines[0].clone();
        let after = super::hub(&[[start, new.to_string()].join("\n") + "\n"])
            .with_archive(Some(Archive::new(root)));
        after.tick(Clock::start().now());

        let key = (Guid(KEY.0), PortNum(KEY.1));
        let kept = hub
            .read()
            .store
            .minutes(key, within.0 * MINUTE, (within.1 + 1) * MINUTE);
        for (metric, (name, scale)) in METRICS.into_iter().enumerate() {
            let place = crate::store::minutes::METRICS
                .iter()
                .position(|known| *known == name)
                .expect("a metric");
            let series = of_series(&hub, name, within);
            let archived = of_series(&after, name, within);
            let matrix = of_matrix(&hub, name, scale, within);
            for (column, minute) in (within.0..=within.1).enumerate() {
                let at = format!(
                    "{name} in minute {column}, slots of {slot_ns} ns, {samplers} samplers, seed {seed}"
                );
                let expected = recording.expected(metric, minute);
                let memory = kept
                    .iter()
                    .find(|kept| kept.number == minute)
                    .and_then(|kept| kept.values[place]);
                assert!(
                    is_near(memory, expected, 1.1e-6),
                    "memory, {at}: {memory:?} {expected:?}"
                );
                for is_secondary in [false, true] {
                    let found = rows.get(&(metric, is_secondary, minute)).copied();
                    let expected = recording.of(metric, is_secondary, minute);
                    assert!(
                        is_near(found, expected, 1.1e-6),
                        "row, {at}: {found:?} {expected:?}"
                    );
                }
                // Readings with a cadence lie between those of the other sampler.
                let has_cadence = samplers > 1 && metric == 1 && every > 1;
                if has_cadence || recording.is_mixed(metric, minute, slot_ns) {
                    continue;
                }
                let [found, archived] = [series[column], archived[column]];
                assert!(
                    is_near(found, expected, 1e-9),
                    "series, {at}: {found:?} {expected:?}"
                );
                // A row of the archive has no largest value for a series.
                let means = [archived, expected].map(|found| found.map(|(mean, _)| (mean, mean)));
                let archived = archived.map(|(mean, _)| (mean, mean));
                assert!(
                    is_near(archived, means[1], 1.1e-6),
                    "archive, {at}: {means:?}"
                );
                let found = matrix[column];
                let step = 1.1 * scale / f64::from(FULL);
                assert!(
                    is_near(found, expected, step),
                    "matrix, {at}: {found:?} {expected:?}"
                );
                compared += 1;
            }
        }
        all += METRICS.len() as u64 * minutes;
    }
    assert!(
        compared == all || (samplers > 1 && compared > 0),
        "{compared} of {all} minutes"
    );
}
