//! A plan and records of an earlier version. `tests/data/earlier/README.md` describes them.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use ibnet::assignments::Assignments;
use serde_json::Value;

use crate::HANGS;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/earlier")
}

/// Runs a program in a new folder; `@` in an argument stands for the folder of the data.
fn run(program: &str, folder: &Path, args: &[&str]) -> Output {
    let args = args
        .iter()
        .map(|arg| arg.replace('@', data().to_str().unwrap()));
    let output = Command::new(program)
        .current_dir(folder)
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");
const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const PLAN: [&str; 6] = [
    "--simulate",
    "@/fabric.p",
    "--assignments",
    "@/plan.toml",
    "--sampler",
    "all",
];

#[test]
fn earlier_plan_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let checked =
        String::from_utf8(run(SWEEP, dir.path(), &[&["check"][..], &PLAN].concat()).stdout)
            .unwrap();
    assert!(
        checked.contains("\n0 failed, 0 warned")
            && checked.contains(" devices for 2 samplers in 4 blocks"),
        "{checked}"
    );
    run(
        SWEEP,
        dir.path(),
        &[&PLAN[..], &["--sweeps", "1", "-o", "lines.jsonl"]].concat(),
    );
    let lines = fs::read_to_string(dir.path().join("lines.jsonl")).unwrap();
    let ports: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "port")
        .collect();
    let secondary = ports
        .iter()
        .filter(|port| port["role"] == "secondary")
        .count();
    assert_eq!((ports.len() - secondary, secondary), (12, 12));
}

#[test]
fn earlier_plan_is_the_previous_plan_and_earlier_records_are_weights() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--net",
        "@/fabric.p",
        "--samplers",
        "node1,node3",
        "--redundancy",
        "2",
        "--previous",
        "@/plan.toml",
        "-o",
        "plan.toml",
    ];
    let report = String::from_utf8(run(GEN, dir.path(), &args).stderr).unwrap();
    let read = |path: PathBuf| Assignments::read(&path).unwrap().assignments;
    assert_eq!(
        read(dir.path().join("plan.toml")),
        read(data().join("plan.toml")),
        "{report}"
    );
    // The sampler wrote its service times at the end.
    let compressed = fs::read(data().join("records/node1.jsonl.zst")).unwrap();
    fs::write(
        dir.path().join("node1.jsonl"),
        zstd::stream::decode_all(&compressed[..]).unwrap(),
    )
    .unwrap();
    let weights = ["--weights", "node1.jsonl"];
    run(
        GEN,
        dir.path(),
        &[&args[..6], &weights, &["-o", "weighted.toml"]].concat(),
    );
    assert_eq!(
        read(dir.path().join("weighted.toml"))
            .samplers
            .iter()
            .map(|sampler| sampler.port_count)
            .sum::<u32>(),
        24
    );
}
