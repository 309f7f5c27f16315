//! Inputs without an end: each program refuses them with a message. The table in `SECURITY.md`
//! names these tests.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use assert_cmd::Command;
use ibnet::http_limits::Limits;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::limits;
use tempfile::TempDir;

use crate::HANGS;

const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");
const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

fn fabric() -> TempDir {
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), tree.blueprint().ports_report()).unwrap();
    dir
}

/// Runs a program that must refuse its input. Returns its message.
#[track_caller]
fn refused(program: &str, dir: &TempDir, args: &[&str]) -> String {
    let output = Command::new(program)
        .current_dir(dir.path())
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert!(
        stderr.contains("error: ") && stderr.contains("\nhelp: "),
        "{stderr}"
    );
    stderr
}

#[test]
fn endless_files_of_the_planner_are_refused() {
    let dir = fabric();
    let known = ["--net", "net.p", "--samplers", "node00001"];
    for (args, limit) in [
        (
            &["--net", "/dev/zero", "--samplers", "node00001"][..],
            limits::NET_FILE,
        ),
        (
            &["--net", "net.p", "--samplers-file", "/dev/zero"],
            limits::HOST_FILE,
        ),
        (
            &[&known[..], &["--node-name-map", "/dev/zero"]].concat(),
            limits::HOST_FILE,
        ),
        (
            &[&known[..], &["--previous", "/dev/zero"]].concat(),
            limits::PLAN,
        ),
        (&["suggest", "--net", "/dev/zero"], limits::NET_FILE),
        (
            &["anonymise", "--net", "/dev/zero", "-o", "out"],
            limits::NET_FILE,
        ),
        (
            &["cabling", "--net", "net.p", "--planned", "/dev/zero"],
            limits::NET_FILE,
        ),
    ] {
        let message = refused(GEN, &dir, args);
        assert!(
            message.contains(&format!("it has more than {} MiB", limit >> 20)),
            "{message}"
        );
    }
}

#[test]
fn endless_files_of_the_sampler_are_refused() {
    let dir = fabric();
    for (args, limit) in [
        (&["-c", "/dev/zero"][..], limits::CONFIG),
        (
            &["--simulate", "net.p", "--assignments", "/dev/zero"],
            limits::PLAN,
        ),
        (&["--simulate", "/dev/zero"], limits::NET_FILE),
    ] {
        let message = refused(SWEEP, &dir, args);
        assert!(
            message.contains(&format!("it has more than {} MiB", limit >> 20)),
            "{message}"
        );
    }
}

#[test]
fn net_file_with_more_lines_than_any_fabric_is_refused() {
    let dir = fabric();
    let lines = "x\n".repeat(limits::NET_FILE_LINES + 1);
    fs::write(dir.path().join("long.p"), lines).unwrap();
    let message = refused(GEN, &dir, &["--net", "long.p", "--samplers", "node00001"]);
    assert!(
        message.contains("it has more than 1000000 lines (found 1000001)"),
        "{message}"
    );
}

#[test]
fn line_of_measured_records_takes_limited_memory() {
    let dir = fabric();
    // A sparse file. Only the first megabyte of its only line is kept.
    let mut file = File::create(dir.path().join("weights")).unwrap();
    file.write_all(b"{\"type\":\"histogram\"").unwrap();
    file.set_len(64 << 20).unwrap();
    let message = refused(
        GEN,
        &dir,
        &[
            "--net",
            "net.p",
            "--samplers",
            "node00001",
            "--weights",
            "weights",
        ],
    );
    assert!(
        message.contains("weights") && !message.contains("memory"),
        "{message}"
    );
}

#[test]
fn hosts_of_all_lines_together_are_limited() {
    let dir = fabric();
    let lines: String = (0..300)
        .map(|number| format!("h{number}x[1-99999]\n"))
        .collect();
    fs::write(dir.path().join("hosts"), lines).unwrap();
    let message = refused(GEN, &dir, &["--net", "net.p", "--samplers-file", "hosts"]);
    assert!(
        message.contains("hosts:2") && message.contains("more than 100000 hosts"),
        "{message}"
    );
}

/// Returns the text of all files below a folder.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(OsStr::to_str) {
            _ if path.is_dir() => text += &sources(&path),
            Some("rs") => text += &fs::read_to_string(&path).unwrap(),
            _ => {}
        }
    }
    text
}

#[test]
fn table_of_limits_names_existing_tests_and_the_constants() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = include_str!("../../SECURITY.md");
    let rows: Vec<Vec<&str>> = document
        .lines()
        .skip_while(|line| !line.starts_with("| input | limit |"))
        .skip(2)
        .take_while(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(
        rows.len() > 15 && rows.iter().all(|row| row.len() == 4),
        "{rows:?}"
    );
    let code: String = ["src", "record", "tests", "analysis", "view", "hub/src"]
        .map(|folder| sources(&root.join(folder)))
        .concat();
    for row in &rows {
        for name in row[3]
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| !name.starts_with("make ") && *name != "view-zeros")
        {
            let is_test = code.contains(&format!("fn {name}("))
                || root.join(format!("tests/scenarios/{name}.toml")).exists();
            assert!(is_test || root.join(name).exists(), "{name} does not exist");
        }
    }
    let limit = |input: &str| {
        rows.iter()
            .find(|row| row[0].starts_with(input))
            .expect(input)[1]
    };
    for (input, octets) in [
        ("samplers file", limits::HOST_FILE),
        ("net file", limits::NET_FILE),
        ("plan", limits::PLAN),
        ("configuration", limits::CONFIG),
        ("certificate", limits::SECRET),
        ("output of Slurm", limits::SLURM),
        ("records: line", limits::LINE as u64),
        ("forwarding tables", limits::ROUTES),
    ] {
        assert!(
            limit(input).starts_with(&format!("{} MiB", octets >> 20)),
            "{input}: {octets}"
        );
    }
    let connections = Limits::default();
    assert!(limit("HTTP connections without").starts_with(&format!(
        "{} connections, {} s",
        connections.newcomers,
        connections.newcomer_timeout.as_secs()
    )));
    assert!(
        limit("HTTP connections with a")
            .starts_with(&format!("{} connections, 10 s", connections.members))
    );
}
