//! Recomputes every number of `ibnet-view` from the raw records by a script that shares no code
//! with it (plain Python), and compares.
//!
//! All recordings are made in virtual time. The first one has an incast, a leaf switch that does
//! not answer, two samplers for each port, a gap of the primaries, a change of the plan, a restart
//! of all counters, and copies of lines. The second one has counter groups with a cadence and
//! faults of links. It is used at 10 Hz, 1 Hz and 0.2 Hz: its times are stretched. All have lost
//! and late replies, samplers that stop within a slot and for three slots, and a slot that is cut
//! by the end of its file.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod found;
#[path = "../recording/mod.rs"]
mod recording;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use ibnet::mad::transport::sim::faults::Faults;
use ibnet::topology::synthetic::FatTree;
use ibnet::topology::{Fabric, ports_report};
use recording::{Disturbance, Recording};
use serde_json::{Value, json};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recompute/script");

/// Time after which a hanging program fails the test. It is not a limit of speed.
const HANGS: Duration = Duration::from_secs(600);

/// 16 hosts on 4 leaf switches, 2 spines.
const TREE: FatTree = FatTree {
    leaves: 4,
    hosts: 4,
    spines: 2,
    trunk: 2,
    radix: 10,
};

const DISTURBED: &str = r#"
interval = "250ms"
groups = ["extended", "base", "xmtdisc", "rcverr", "xmtsl"]
clear = ["xmtsl"]
[simulated]
scenario = "incast"
scenario_start = "1s"
scenario_length = "1500ms"
dead = ["leaf03"]
loss = 0.001
"#;

const CADENCE: &str = r#"
interval = "100ms"
groups = ["extended", "base/10", "xmtdisc/10", "rcverr/3", "xmtsl/2", "vlxmitcounters"]
[simulated]
scenario = "incast"
scenario_start = "1s"
scenario_length = "1s"
dead = ["node00007"]
loss = 0.002
seed = 7
"#;

const HOSTS: &str = "node00001,node00002,node00005,node00016";

/// Slots of a run of the first recording.
const SLOTS: usize = 13;

/// Metrics of the heat maps.
const METRICS: &str =
    "xmit_gbps,rcv_utilization,xmit_blocked,rtt_ns,rtt_mean_ns,port_rcv_data_bytes";

/// Time at which the fabric starts, in nanoseconds since 1970: 2026-11-18T10:13:20Z.
const FABRIC_NS: u64 = 1_795_000_400_000_000_000;

/// What happens to a sampler after it has run this number of slots.
type Disturbances<'a> = [(&'a str, u64, Disturbance)];

/// A stop of a sampler: the time from the start of its next slot, in microseconds, and the length
/// in intervals. A stop within a slot leaves ports without a query (`skipped`) or replies that come
/// too late.
fn stop(into_slot_us: u64, intervals: f64) -> Disturbance {
    Disturbance {
        stop: Some((Duration::from_micros(into_slot_us), intervals)),
        ..Disturbance::default()
    }
}

/// Records a fabric, and writes a file for each sampler into a folder.
fn record(
    folder: &Path,
    config: &str,
    plans: &[String],
    slots: u64,
    start: Duration,
    faults: Faults,
    disturbed: &Disturbances<'_>,
) {
    let disturbed = |host: &str, done: u64| {
        let of_slot = disturbed
            .iter()
            .find(|(one, after, _)| *one == host && *after == done);
        of_slot.map_or_else(Disturbance::default, |(_, _, disturbance)| *disturbance)
    };
    let recording = Recording {
        config,
        plans,
        slots,
        fabric_ns: FABRIC_NS,
        start,
        faults,
        disturbed: &disturbed,
    };
    fs::create_dir_all(folder).unwrap();
    for (host, text) in recording.lines(&fabric()) {
        fs::write(folder.join(format!("{host}.jsonl")), text).unwrap();
    }
}

/// Faults of replies: some arrive after the timeout, before or after the end of the grace period,
/// or twice.
fn faults(delay_ms: u64) -> Faults {
    Faults {
        delayed: 0.02,
        delay: Duration::from_millis(delay_ms),
        duplicated: 0.02,
        ..Faults::default()
    }
}

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "net.p")
        .unwrap()
        .fabric
}

/// Returns the plan of these samplers, each port with two of them.
fn plan(dir: &Path, samplers: &str) -> String {
    fs::write(dir.join("net.p"), TREE.blueprint().ports_report()).unwrap();
    let mut made = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-gen"));
    made.current_dir(dir).args([
        "--net",
        "net.p",
        "-o",
        "plan.toml",
        "--redundancy",
        "2",
        "--samplers",
        samplers,
    ]);
    made.timeout(HANGS).assert().success();
    fs::read_to_string(dir.join("plan.toml")).unwrap()
}

/// Returns the complete lines of a file.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(str::to_owned)
        .collect()
}

/// Ends a file within a line of its last slot, as after a power failure.
fn cut(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let last = slots(&lines(path)).pop().unwrap();
    let of_slot = text.find(&format!("\"slot\":{last},")).unwrap();
    let middle = of_slot + (text.len() - of_slot) / 2;
    fs::write(path, &text[..middle + text[middle..].find(':').unwrap()]).unwrap();
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Returns the slots of a file in order.
fn slots(lines: &[String]) -> Vec<u64> {
    let mut slots: Vec<u64> = lines
        .iter()
        .map(|line| value(line)["slot"].as_u64().unwrap())
        .collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Gives the first port of each device errors: one in 50 ms, and a reset after 60.
fn with_errors(line: String, from: u64) -> String {
    let record = value(&line);
    if record["type"] != "port" || record["port"] != 1 {
        return line;
    }
    let errors = (record["ts"].as_u64().unwrap() - from) / 50_000_000 % 61;
    line.replace(
        "\"symbol_error_counter\":0,",
        &format!("\"symbol_error_counter\":{errors},"),
    )
}

/// Makes a counter of octets of some HCA ports full in some slots. It has no rate then, nor in the
/// next slot.
fn with_full_counters(line: String) -> String {
    let mut record = value(&line);
    let counter = match record["node"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .next()
    {
        Some("node00002") => ("port_xmit_data_bytes", "xmit"),
        Some("node00016") => ("port_rcv_data_bytes", "rcv"),
        _ => return line,
    };
    let phase = record["slot"].as_u64().unwrap() % 6;
    if record["type"] != "port" || phase > 2 || record[counter.0].is_null() {
        return line;
    }
    if phase < 2 {
        record[counter.0] = (4 * u64::from(u32::MAX)).into();
        record["saturated"] = json!([counter.0]);
    }
    for rate in ["gbps", "utilization"] {
        record[format!("{}_{rate}", counter.1)] = Value::Null;
    }
    format!("{record}\n")
}

/// Damages the recording as operators do: the records of a primary end in the middle and continue
/// under the name of another sampler, those of another have a gap, and some lines stand twice.
fn disturbed(dir: &Path) {
    let all = files(dir, &["one", "two"]);
    let from = all
        .iter()
        .filter_map(|file| Some(value(lines(file).first()?)["ts"].as_u64().unwrap()))
        .min()
        .unwrap();
    for file in all {
        fs::write(
            &file,
            lines(&file)
                .into_iter()
                .map(|line| with_full_counters(with_errors(line, from)))
                .collect::<String>(),
        )
        .unwrap();
    }
    let first = dir.join("one/node00001.jsonl");
    let whole = lines(&first);
    let middle = slots(&whole)[SLOTS / 2];
    let (before, after): (Vec<_>, Vec<_>) = whole
        .into_iter()
        .partition(|line| value(line)["slot"].as_u64().unwrap() < middle);
    fs::write(&first, before.concat()).unwrap();
    let renamed = after
        .concat()
        .replace("\"sampler\":\"node00001\"", "\"sampler\":\"node00009\"");
    fs::write(dir.join("one/node00009.jsonl"), renamed).unwrap();
    let second = dir.join("one/node00005.jsonl");
    let whole = lines(&second);
    let gap = slots(&whole)[4..7].to_vec();
    let is_lost = |line: &String| {
        let value = value(line);
        value["type"] == "port"
            && value["role"] != "secondary"
            && gap.contains(&value["slot"].as_u64().unwrap())
    };
    let kept: Vec<String> = whole
        .iter()
        .filter(|line| !is_lost(line))
        .cloned()
        .collect();
    fs::write(&second, kept.concat()).unwrap();
    let copies: String = kept.iter().rev().step_by(3).cloned().collect();
    fs::write(dir.join("one/copies.jsonl"), copies).unwrap();
}

/// Gives the ports of a leaf switch to its hosts faults: port 1 gets slower, the link of port 2 is
/// down at the end, port 3 flaps, and port 4 was down once. Port 5, to a spine switch, has a
/// smaller MTU than its peer.
fn with_link_faults(lines: Vec<String>) -> Vec<String> {
    let all = slots(&lines);
    let (early, middle, late) = (
        all[all.len() / 4],
        all[all.len() / 2],
        all[all.len() / 4 * 3],
    );
    let mut faulty = Vec::new();
    for line in lines {
        let mut record = value(&line);
        let slot = record["slot"].as_u64().unwrap();
        if record["type"] == "port" && record["node"].as_str().unwrap().starts_with("leaf01") {
            let event = |event: &str, detail: &str| {
                let mut of_port = json!({"type": "event", "event": event, "detail": detail, "ca": "sim", "ca_port": 1});
                for field in ["ts", "slot", "sampler", "guid", "port", "lid"] {
                    of_port[field] = record[field].clone();
                }
                format!("{of_port}\n")
            };
            let events = match (record["port"].as_u64().unwrap(), slot) {
                (1, slot) if slot == middle => vec![event("link_change", "4xEDR to 1xEDR")],
                (2, slot) if slot == late => vec![event("link_down", "down")],
                (3, slot) if slot == early || slot == late => {
                    vec![event("link_down", "down"), event("link_up", "active")]
                }
                (4, slot) if slot == middle => {
                    vec![event("link_down", "down"), event("link_up", "active")]
                }
                _ => Vec::new(),
            };
            faulty.extend(events);
            if record["port"] == 1 && slot >= middle {
                record["link"] = "1xEDR".into();
            }
            if record["port"] == 5 && slot >= middle {
                record["mtu"] = 2048.into();
            }
            if record["port"] == 2 && slot >= late {
                record["status"] = "down".into();
                let fields = record.as_object_mut().unwrap();
                let is_kept = |name: &str| {
                    !name.starts_with("port_")
                        && !name.ends_with("_counter")
                        && !name.contains("xmit")
                        && !name.contains("rcv")
                };
                fields.retain(|name, _| name != "dt_ns" && is_kept(name));
            }
        }
        faulty.push(format!("{record}\n"));
    }
    faulty
}

/// Makes the time between two slots longer by this factor. Slots keep their places in the new time.
fn stretched(lines: &[String], factor: u64) -> String {
    const INTERVAL: u64 = 100_000_000;
    let skipped = slots(lines)[0] - 1_500_000_000_000_000_000 / (INTERVAL * factor);
    let stretch = |line: &String| {
        let mut record = value(line);
        record["ts"] = ((record["ts"].as_u64().unwrap() - skipped * INTERVAL) * factor).into();
        record["slot"] = (record["slot"].as_u64().unwrap() - skipped).into();
        for field in ["dt_ns", "xmit_blocked_dt_ns", "interval_ns"] {
            if let Some(length) = record[field].as_u64() {
                record[field] = (length * factor).into();
            }
        }
        format!("{record}\n")
    };
    lines.iter().map(stretch).collect()
}

fn files(dir: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = folders
        .iter()
        .flat_map(|run| fs::read_dir(dir.join(run)).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
}

/// Writes a file of Slurm with two jobs that share a host, and returns its path. Jobs start and end
/// within slots.
fn slurm(dir: &Path, from: u64, to: u64) -> PathBuf {
    let time = |share: u64| {
        humantime::format_rfc3339_nanos(
            UNIX_EPOCH + Duration::from_nanos(from + (to - from) / 100 * share),
        )
    };
    let text = format!(
        "JobID|State|Start|End|NodeList\n71|COMPLETED|{}|{}|node00001,node00002,gone1\n72|COMPLETED|{}|{}|node00002,node00016\n",
        time(10),
        time(70),
        time(40),
        time(95),
    );
    let path = dir.join("jobs.txt");
    fs::write(&path, text).unwrap();
    path
}

/// Writes metrics of hosts and returns the path of the file: counters of IPoIB and NFS of some
/// hosts, with a reset, a gap, an interface that appears late, and a host that the records do not
/// have.
fn host_lines(dir: &Path, from: u64, to: u64) -> PathBuf {
    let mut text = String::new();
    let mut line = |ms: u64, host: &str, metric: &str, labels: &str, value: u64| {
        let time = format!("{}.{:03}", ms / 1000, ms % 1000);
        text += &format!(
            "{{\"time\":{time},\"host\":\"{host}\",\"metric\":\"{metric}\",{labels},\"value\":{value}}}\n"
        );
    };
    for (number, ms) in (0..).zip((from / 1_000_000 - 2000..to / 1_000_000 + 1000).step_by(330)) {
        for (index, host) in (0..).zip(["node00001", "node00002.example", "node00016", "stranger"])
        {
            let is_gap = index == 1 && (5..9).contains(&number);
            if is_gap {
                continue;
            }
            let value = (number % 7 + 1) * 1_000_003 * (number + index);
            line(
                ms + index,
                host,
                "node_network_receive_bytes_total",
                "\"device\":\"ib0\"",
                value,
            );
            line(
                ms + index,
                host,
                "node_network_receive_bytes_total",
                "\"device\":\"eth0\"",
                value,
            );
            if number > 6 {
                line(
                    ms + index,
                    host,
                    "node_network_transmit_bytes_total",
                    "\"device\":\"ib1\"",
                    value * number,
                );
            }
            for method in ["Read", "Write"] {
                line(
                    ms + index,
                    host,
                    "node_nfs_requests_total",
                    &format!("\"method\":\"{method}\""),
                    50 * number * number,
                );
            }
        }
    }
    let path = dir.join("hosts.jsonl");
    fs::write(&path, text).unwrap();
    path
}

/// Returns the first and the last time of some files.
fn times(files: &[PathBuf]) -> (u64, u64) {
    let times: Vec<u64> = files
        .iter()
        .flat_map(|file| lines(file))
        .map(|line| value(&line)["ts"].as_u64().unwrap())
        .collect();
    (*times.iter().min().unwrap(), *times.iter().max().unwrap())
}

/// Returns the path of `ibnet-view`, which is in another package.
fn view() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_ibnet-sweep")).with_file_name("ibnet-view");
    assert!(
        path.is_file(),
        "ibnet-view is missing; `cargo build --workspace` builds it"
    );
    path
}

fn recompute(view: &Path, options: &[String], files: &[PathBuf]) -> Output {
    Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(SCRIPT)
        .arg(view)
        .args(options)
        .args(files)
        .env("TZ", "UTC")
        .output()
        .unwrap()
}

/// Asserts that the script finds no difference.
#[track_caller]
fn assert_equal(view: &Path, options: &[String], files: &[PathBuf], name: &str) {
    let done = recompute(view, options, files);
    let report =
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && report.contains("differences: 0;"),
        "{name}: {options:?}: {report}"
    );
}

fn option(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

/// Asserts that the script finds a difference in each view if these fields begin with another
/// digit.
fn assert_script_detects_wrong_numbers(view: &Path, dir: &Path, files: &[PathBuf]) {
    const FIELDS: [&str; 8] = [
        "blocked_seconds",
        "xmit_utilization",
        "since_ns",
        "p50_ns",
        "mean",
        "value",
        "injected_bytes",
        "depth",
    ];
    let wrong = dir.join("wrong-view");
    let edits: Vec<String> = FIELDS
        .iter()
        .map(|field| format!("s/\"{field}\":\\([0-9]\\)/\"{field}\":1\\1/"))
        .collect();
    fs::write(
        &wrong,
        format!(
            "#!/bin/sh\n'{}' \"$@\" | sed '{}'\n",
            view.display(),
            edits.join(";")
        ),
    )
    .unwrap();
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o755)).unwrap();
    let options = [
        option("hosts", HOSTS),
        option("jobs", dir.join("jobs.txt").display()),
        option("heat", "xmit_gbps/switch"),
    ];
    let failed = recompute(&wrong, &options, files);
    let report = String::from_utf8_lossy(&failed.stdout);
    let views = "in: ['errors', 'heatmap --by switch', 'job', 'job --all', 'latency', 'links', 'map', 'sweeps', 'trees'];";
    assert!(
        failed.status.code() == Some(1) && report.contains(views),
        "{report}"
    );
}

/// Returns the statuses and events of some files with their counts.
fn contents(files: &[PathBuf]) -> String {
    let mut counts = BTreeMap::<String, u64>::new();
    for record in files
        .iter()
        .flat_map(|file| lines(file))
        .map(|line| value(&line))
    {
        for field in ["status", "event"] {
            if let Some(name) = record[field].as_str() {
                *counts.entry(format!("{field} {name}")).or_default() += 1;
            }
        }
    }
    counts
        .iter()
        .map(|(name, count)| format!("{name} = {count}; "))
        .collect()
}

/// Asserts that a recording has what a loaded machine makes by accident.
#[track_caller]
fn assert_disturbed(files: &[PathBuf], expected: &[&str]) {
    let found = contents(files);
    let lacking: Vec<_> = expected
        .iter()
        .filter(|name| !found.contains(&format!("{name} = ")))
        .collect();
    assert!(lacking.is_empty(), "{lacking:?} are not in {found}");
}

#[test]
fn every_number_of_the_viewer_is_recomputed_from_the_records() {
    let (folder, view) = (tempfile::tempdir().unwrap(), view());
    let dir = folder.path();
    let stops = [
        ("node00002", 3, stop(300, 1.4)),
        ("node00005", 8, stop(500, 0.6)),
        ("node00013", 5, stop(0, 3.0)),
    ];
    for (name, samplers, start) in [
        ("one", "node00001,node00005", 0),
        ("two", "node00002,node00013", 3700),
    ] {
        let (plan, start) = (plan(dir, samplers), Duration::from_millis(start));
        record(
            &dir.join(name),
            DISTURBED,
            &[plan],
            SLOTS as u64,
            start,
            faults(9),
            &stops,
        );
    }
    disturbed(dir);
    cut(&dir.join("two/node00002.jsonl"));
    let files = files(dir, &["one", "two"]);
    let statuses = [
        "status ok",
        "status late",
        "status timeout",
        "status skipped",
        "status unreachable",
    ];
    assert_disturbed(&files, &[&statuses[..], &["event slot_missed"]].concat());
    let (first, last) = times(&files);
    // The second window begins and ends within slots.
    let (from, to) = (first + 1_310_000_000, last - 1_470_000_001);
    let mut options = vec![
        option("hosts", HOSTS),
        option("jobs", slurm(dir, first, last).display()),
    ];
    options.extend(["-,-", &format!("{from},{to}")].map(|window| option("window", window)));
    options.extend(
        ["port", "link", "switch", "host"]
            .map(|by| option("heat", format!("{METRICS},errors/{by}"))),
    );
    options.push(option("group", "storage=node00013,node00016,gone2"));
    options.push(option("host-lines", host_lines(dir, first, last).display()));
    assert_equal(&view, &options, &files, "disturbed");
    assert_script_detects_wrong_numbers(&view, dir, &files);
}

/// Draws disturbances. The same seed gives the same recording.
fn random_recording(dir: &Path, seed: u64) -> Vec<PathBuf> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let hosts = ["node00001", "node00013"];
    // Few long stops, or many short ones.
    let (share, longest) = if rng.bool() { (0.15, 40) } else { (0.6, 15) };
    let mut stops = Vec::new();
    for (host, after) in hosts
        .into_iter()
        .flat_map(|host| (0..SLOTS as u64).map(move |after| (host, after)))
    {
        if rng.f64() < share {
            let into_slot_us = if rng.bool() { rng.u64(..3000) } else { 0 };
            stops.push((
                host,
                after,
                stop(into_slot_us, f64::from(rng.u32(1..longest)) / 10.0),
            ));
        }
    }
    let faults = Faults {
        delayed: rng.f64() / 10.0,
        duplicated: rng.f64() / 10.0,
        ..faults(rng.u64(1..60))
    };
    let config = [DISTURBED, CADENCE][rng.usize(..2)].replace("loss = 0.00", "loss = 0.01");
    let mut plans = vec![plan(dir, &hosts.join(","))];
    if rng.bool() {
        plans.push(plan(dir, "node00001,node00005"));
    }
    record(
        &dir.join("random"),
        &config,
        &plans,
        SLOTS as u64,
        Duration::ZERO,
        faults,
        &stops,
    );
    let files = files(dir, &["random"]);
    if rng.bool() {
        cut(&files[rng.usize(..files.len())]);
    }
    if rng.bool() {
        // Records that were lost after they were written.
        for file in &files {
            let mut kept = lines(file);
            kept.retain(|_| rng.f64() < 0.97);
            fs::write(file, kept.concat()).unwrap();
        }
    }
    files
}

/// Each seed is another recording. `IBNET_SEEDS=1-100` tries a range of them.
#[test]
fn numbers_are_recomputed_from_recordings_with_random_disturbances() {
    let view = view();
    let seeds = std::env::var("IBNET_SEEDS").unwrap_or_else(|_| "8-10".to_owned());
    let (from, to) = seeds.split_once('-').unwrap();
    for seed in from.parse().unwrap()..=to.parse().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let files = random_recording(dir, seed);
        let (first, last) = times(&files);
        let mut options = vec![
            option("hosts", HOSTS),
            option("jobs", slurm(dir, first, last).display()),
            option("window", "-,-"),
        ];
        options.push(option(
            "window",
            format!(
                "{},{}",
                first + (last - first) / 3,
                last - (last - first) / 4
            ),
        ));
        options.extend(
            ["port", "switch", "host"].map(|by| option("heat", format!("{METRICS},errors/{by}"))),
        );
        assert_equal(&view, &options, &files, &format!("seed {seed}"));
    }
}

#[test]
fn numbers_of_counters_with_a_cadence_are_recomputed_at_several_rates() {
    let (folder, view) = (tempfile::tempdir().unwrap(), view());
    let dir = folder.path();
    let stops = [
        ("here", 4, stop(400, 1.2)),
        ("here", 12, stop(0, 3.0)),
        ("here", 20, stop(900, 0.5)),
    ];
    record(
        &dir.join("cadence"),
        CADENCE,
        &[],
        31,
        Duration::ZERO,
        faults(7),
        &stops,
    );
    let recorded = files(dir, &["cadence"]);
    assert_disturbed(
        &recorded,
        &[
            "status late",
            "status timeout",
            "status skipped",
            "event slot_missed",
        ],
    );
    let all = with_link_faults(recorded.iter().flat_map(|file| lines(file)).collect());
    for factor in [1, 10, 50] {
        let file = dir.join(format!("{factor}.jsonl"));
        fs::write(&file, stretched(&all, factor)).unwrap();
        cut(&file);
        let (first, last) = times(std::slice::from_ref(&file));
        let mut options = vec![
            option("hosts", HOSTS),
            option("jobs", slurm(dir, first, last).display()),
            option("window", "-,-"),
        ];
        let heats = match factor {
            1 => [
                "port_vl_xmit_wait_ticks/vl".to_owned(),
                "xmit_gbps,port_xmit_wait_ticks/host".to_owned(),
            ],
            _ => [
                format!("{METRICS},port_xmit_data_sl_bytes[3],errors/port"),
                "port_xmit_data_sl_bytes/sl".to_owned(),
            ],
        };
        options.extend(heats.map(|heat| option("heat", heat)));
        if factor == 10 {
            options.push(option("compare", dir.join("1.jsonl").display()));
            options.push(option(
                "window",
                format!(
                    "{},{}",
                    first + (last - first) / 5 * 2 + 1,
                    last - (last - first) / 7
                ),
            ));
        }
        assert_equal(
            &view,
            &options,
            std::slice::from_ref(&file),
            &format!("factor {factor}"),
        );
    }
}
