//! Recomputes every number of `ibnet-view` from the raw records by a script that shares no code with
//! it (Python with DuckDB), and compares.
//!
//! The recording has an incast, a leaf switch that does not answer, two samplers for each port, a
//! gap of the primaries, a change of the plan, a restart of all counters, and copies of lines.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ibnet::topology::synthetic::FatTree;
use serde_json::Value;
use tempfile::TempDir;

use super::tools::{self, SWEEP, TIMEOUT};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/recompute.py");

/// 16 hosts on 4 leaf switches, 2 spines.
const TREE: FatTree = FatTree { leaves: 4, hosts: 4, spines: 2, trunk: 2, radix: 10 };

const CONFIG: &str = r#"
simulate = "net.p"
sampler = "all"
interval = "250ms"
[simulated]
scenario = "incast"
scenario_start = "1s"
scenario_length = "1500ms"
dead = ["leaf03"]
loss = 0.001
"#;

const HOSTS: &str = "node00001,node00002,node00005,node00016";

/// Slots of a run.
const SLOTS: usize = 13;

fn run(program: &str, dir: &Path, args: &[&str]) {
    assert_cmd::Command::new(program).current_dir(dir).args(args).timeout(TIMEOUT).assert().success();
}

/// Records two runs with different samplers.
fn recorded() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    fs::write(dir.path().join("ibnet.toml"), CONFIG).unwrap();
    for (run_name, samplers) in [("one", "node00001,node00005"), ("two", "node00002,node00013")] {
        let plan = format!("{run_name}.toml");
        run(env!("CARGO_BIN_EXE_ibnet-gen"), dir.path(), &["--net", "net.p", "--samplers", samplers, "--redundancy", "2", "-o", &plan]);
        let (sweeps, folder) = (SLOTS.to_string(), format!("{run_name}/"));
        run(SWEEP, dir.path(), &["-c", "ibnet.toml", "--assignments", &plan, "--sweeps", &sweeps, "-o", &folder]);
    }
    dir
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap().lines().map(|line| line.to_owned() + "\n").collect()
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Returns the slots of a file in order.
fn slots(lines: &[String]) -> Vec<u64> {
    let mut slots: Vec<u64> = lines.iter().map(|line| value(line)["slot"].as_u64().unwrap()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Damages the recording as operators do: the records of a primary end in the middle and continue
/// under the name of another sampler, those of another have a gap, and some lines stand twice.
fn disturbed(dir: &Path) {
    let first = dir.join("one/node00001.jsonl");
    let whole = lines(&first);
    let middle = slots(&whole)[SLOTS / 2];
    let (before, after): (Vec<_>, Vec<_>) = whole.into_iter().partition(|line| value(line)["slot"].as_u64().unwrap() < middle);
    fs::write(&first, before.concat()).unwrap();
    let renamed = after.concat().replace("\"sampler\":\"node00001\"", "\"sampler\":\"node00009\"");
    fs::write(dir.join("one/node00009.jsonl"), renamed).unwrap();
    let second = dir.join("one/node00005.jsonl");
    let whole = lines(&second);
    let gap = slots(&whole)[4..7].to_vec();
    let is_lost = |line: &String| {
        let value = value(line);
        value["type"] == "port" && value["role"] != "secondary" && gap.contains(&value["slot"].as_u64().unwrap())
    };
    let kept: Vec<String> = whole.iter().filter(|line| !is_lost(line)).cloned().collect();
    fs::write(&second, kept.concat()).unwrap();
    let copies: String = kept.iter().rev().step_by(3).cloned().collect();
    fs::write(dir.join("one/copies.jsonl"), copies).unwrap();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        ["one", "two"].iter().flat_map(|run| fs::read_dir(dir.join(run)).unwrap()).map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the path of `ibnet-view`, which is in another package; `None` with a notice if it was not
/// built.
fn view() -> Option<PathBuf> {
    let path = Path::new(SWEEP).with_file_name("ibnet-view");
    tools::built(path)
}

fn recompute(python: &Path, view: &Path, window: [&str; 2], files: &[PathBuf]) -> Output {
    Command::new(python).arg(SCRIPT).arg(view).arg(HOSTS).args(window).args(files).env("TZ", "UTC").output().unwrap()
}

#[test]
fn every_number_of_the_viewer_is_recomputed_from_the_records() {
    let (Some(python), Some(view)) = (tools::python(), view()) else { return };
    let dir = recorded();
    disturbed(dir.path());
    let files = files(dir.path());
    let times: Vec<u64> = files.iter().flat_map(|file| lines(file)).map(|line| value(&line)["ts"].as_u64().unwrap()).collect();
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    // The second window begins and ends within slots.
    let part = [(first + 1_310_000_000).to_string(), (last - 1_470_000_001).to_string()];
    for window in [["-", "-"], [&*part[0], &*part[1]], [&*part[0], "-"]] {
        let done = recompute(&python, &view, window, &files);
        let report = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && report.contains("differences: 0;"), "{window:?}: {report}");
    }
    // The script detects a wrong number.
    let wrong = dir.path().join("wrong-view");
    let pipe = format!("#!/bin/sh\n'{}' \"$@\" | sed 's/\"blocked_seconds\":/&1/'\n", view.display());
    fs::write(&wrong, pipe).unwrap();
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o755)).unwrap();
    let failed = recompute(&python, &wrong, ["-", "-"], &files);
    let report = String::from_utf8_lossy(&failed.stdout);
    assert!(failed.status.code() == Some(1) && report.contains("job: ") && report.contains("blocked_seconds: shown"), "{report}");
}
