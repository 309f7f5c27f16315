//! What `ibnet-gen` can be wished for, run as an administrator would: second samplers, measured weights, the plan before.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use ibnet::assignments::{Assignments, Sampler};
use ibnet::record::strict::{self, Line};
use ibnet::topology::synthetic;
use tempfile::TempDir;

const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

/// A directory with the fabric of the paper in `net.p`.
fn stria() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), synthetic::stria().ports_report()).unwrap();
    dir
}

/// Runs `ibnet-gen` on `net.p`: its exit code and what it said.
fn generate(dir: &TempDir, samplers: &str, more: &[&str]) -> (i32, String) {
    let args = ["--net", "net.p", "--samplers", samplers, "-o", "out.toml"];
    let output = Command::new(env!("CARGO_BIN_EXE_ibnet-gen")).current_dir(dir.path()).args(args).args(more).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn assigned(dir: &TempDir, name: &str) -> Assignments {
    Assignments::read(&dir.path().join(name)).unwrap().assignments
}

/// The fabric simulated, swept by one host of `out.toml`: its lines.
fn sweep(dir: &Path, host: &str) -> Vec<Line> {
    let args = ["--assignments", "out.toml", "--sampler", host, "--simulate", "net.p", "--sweeps", "2", "-o", "lines.jsonl"];
    Command::new(env!("CARGO_BIN_EXE_ibnet-sweep")).current_dir(dir).args(args).assert().success();
    fs::read_to_string(dir.join("lines.jsonl")).unwrap().lines().map(|text| strict::parse(text).unwrap()).collect()
}

#[test]
fn a_second_sampler_asks_half_an_interval_later() {
    const SECOND: u64 = 1_000_000_000;
    let dir = stria();
    let (code, stderr) = generate(&dir, EIGHT, &["--redundancy", "2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("\nsecond    each port has a second sampler on another leaf switch, half an interval later: "), "{stderr}");
    let text = fs::read_to_string(dir.path().join("out.toml")).unwrap();
    assert_eq!(text.matches("\nrole = \"secondary\"\noffset = 0.5\n").count(), 8);
    let all = assigned(&dir, "out.toml");
    let (first, second): (Vec<&Sampler>, Vec<_>) = all.samplers.iter().partition(|sampler| sampler.role.is_none());
    let owners = |samplers: &[&Sampler]| {
        let of = |sampler: &Sampler| {
            let host = sampler.host.clone();
            let ports = |device: &ibnet::assignments::Device| device.ports.iter().map(|port| (device.guid, port.num)).collect::<Vec<_>>();
            sampler.devices.iter().flat_map(ports).map(move |port| (port, host.clone())).collect::<Vec<_>>()
        };
        samplers.iter().flat_map(|sampler| of(sampler)).collect::<BTreeMap<_, _>>()
    };
    let (first, second) = (owners(&first), owners(&second));
    assert_eq!((first.len(), second.len()), (968, 968));
    assert!(first.iter().all(|(port, host)| second[port] != *host));
    // Swept with both roles: all ports of both, the second never before half of the interval has passed.
    let ports_of = |owners: &BTreeMap<_, String>| owners.values().filter(|host| *host == "node00001").count();
    let mut swept = [0, 0];
    for line in sweep(dir.path(), "node00001") {
        if let Line::Port(port) = line {
            let is_second = first.get(&(port.guid, port.port)).is_none_or(|host| host != "node00001");
            swept[usize::from(is_second)] += 1;
            assert!(!is_second || port.ts >= port.slot * SECOND + SECOND / 2, "{} in slot {}", port.ts, port.slot);
        }
    }
    assert_eq!(swept, [2 * ports_of(&first), 2 * ports_of(&second)]);
}

#[test]
fn samplers_on_one_leaf_are_refused_a_second_role_and_nothing_is_written() {
    let dir = stria();
    let (code, stderr) = generate(&dir, "node[00001-00008]", &["--redundancy", "2"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains(
            "find no second sampler: all samplers hang on the same leaf switch: at least 7 are missing\nhelp: add 7 samplers, best on "
        ),
        "{stderr}"
    );
    assert!(!dir.path().join("out.toml").exists());
    assert_eq!(generate(&dir, EIGHT, &["--redundancy", "3"]).0, 2);
    let (code, stderr) = generate(&dir, EIGHT, &["--redundancy", "2", "--format", "ldms"]);
    assert!(code == 1 && stderr.contains("LDMS have one role only") && stderr.contains("\nhelp: "), "{stderr}");
    assert!(!dir.path().join("out.toml.node00001.conf").exists());
}

#[test]
fn what_a_sweep_recorded_weighs_the_next_plan() {
    let dir = stria();
    assert_eq!(generate(&dir, EIGHT, &[]).0, 0);
    sweep(dir.path(), "node00001");
    let mut lines = fs::read(dir.path().join("lines.jsonl")).unwrap();
    lines.extend(b"torn\n{\"type\":\"hist");
    fs::write(dir.path().join("lines.jsonl"), lines).unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "lines.jsonl"]);
    assert_eq!(code, 0, "{stderr}");
    let devices = assigned(&dir, "out.toml").samplers.iter().map(|sampler| sampler.devices.len()).sum::<usize>();
    assert_eq!(devices, 338);
    assert!(
        stderr.contains("\nweights   27 of 338 devices were measured; the others are taken for the median of their kind\n"),
        "{stderr}"
    );
    assert!(stderr.contains("          unreadable: 2 lines\n            lines.jsonl line "), "{stderr}");
    assert!(stderr.contains(" ms at most; however switches are divided, ") && stderr.contains("            node00001: "), "{stderr}");
    // Nothing was measured there, or not here.
    fs::write(dir.path().join("none.jsonl"), "{\"type\":\"port\"}\n").unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "none.jsonl"]);
    assert!(code == 1 && stderr.contains("none.jsonl: no measured service time in it; lines: 1\nhelp: "), "{stderr}");
    let elsewhere = "{\"type\":\"histogram\",\"kind\":\"service\",\"guid\":\"0x0000000000000001\",\"mean_ns\":5,\"count\":1}\n";
    fs::write(dir.path().join("none.jsonl"), elsewhere).unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "none.jsonl"]);
    assert!(code == 1 && stderr.contains("nothing that was measured is in the net file; devices: 1\nhelp: "), "{stderr}");
}

#[test]
fn the_plan_before_is_kept_as_far_as_it_can_be_and_may_be_replaced() {
    let dir = stria();
    let without_comment = |name: &str| {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect::<String>()
    };
    // Not what would be planned today.
    assert_eq!(generate(&dir, EIGHT, &["--no-optimize"]).0, 0);
    let before = without_comment("out.toml");
    let (code, stderr) = generate(&dir, EIGHT, &["--previous", "out.toml"]);
    assert!(code == 0 && stderr.contains("\nchanged   968 ports stayed: 0 moved, 0 new, 0 gone\n"), "{stderr}");
    assert_eq!(without_comment("out.toml"), before);
    let (code, stderr) = generate(&dir, &format!("{EIGHT},node00169"), &["--previous", "out.toml"]);
    assert!(code == 0 && stderr.contains("\nchanged   908 ports stayed: 60 moved, 0 new, 0 gone\n"), "{stderr}");
    assert!(stderr.contains("new samplers: 1\n            node00169\n") && stderr.contains("`leaf08`, 36 ports: "), "{stderr}");
    fs::write(dir.path().join("none"), "SW     4  1 0x0000000000200006\n").unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--previous", "none"]);
    assert!(code == 1 && stderr.starts_with("error: none:1: ") && stderr.contains("\nhelp: "), "{stderr}");
}

#[test]
fn the_plain_rules_are_shown_when_asked_for() {
    let dir = stria();
    let ports = |name| assigned(&dir, name).samplers.iter().map(|sampler| sampler.port_count).collect::<Vec<_>>();
    let (_, stderr) = generate(&dir, EIGHT, &["--no-optimize"]);
    assert_eq!(ports("out.toml"), [136, 108, 108, 120, 120, 120, 120, 136], "{stderr}");
    let (_, stderr) = generate(&dir, EIGHT, &[]);
    assert_eq!(ports("out.toml"), [128, 116, 116, 120, 120, 120, 120, 128], "{stderr}");
    assert!(stderr.contains("\nsearch    brought the most down to 128 ports from 136 ports by the rules alone\n"), "{stderr}");
}
