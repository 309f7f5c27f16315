//! Runs `ibnet-gen` with the options of a plan: second samplers, measured weights, the previous
//! plan.
#![expect(
    clippy::unwrap_used,
    reason = "a test's failure is the message; clippy does not see that this whole file is one"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use ibnet::assignments::{Assignments, Sampler};
use ibnet::topology::synthetic;
use ibnet_record::strict::{self, Line};
use tempfile::TempDir;

const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

/// Returns a directory with the fabric of the paper in `net.p`.
fn stria() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), synthetic::stria().ports_report()).unwrap();
    dir
}

/// Runs `ibnet-gen` on `net.p` and returns its exit code and standard error.
fn generate(dir: &TempDir, samplers: &str, more: &[&str]) -> (i32, String) {
    let args = ["--net", "net.p", "--samplers", samplers, "-o", "out.toml"];
    let output = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir.path())
        .args(args)
        .args(more)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn assigned(dir: &TempDir, name: &str) -> Assignments {
    Assignments::read(&dir.path().join(name))
        .unwrap()
        .assignments
}

/// Sweeps the simulated fabric from one host of `out.toml` and returns the records.
fn sweep(dir: &Path, host: &str) -> Vec<Line> {
    let plan = [
        "--assignments",
        "out.toml",
        "--sampler",
        host,
        "--simulate",
        "net.p",
        "--sweeps",
        "2",
        "-o",
        "lines.jsonl",
    ];
    // Long timeouts: on a busy machine, a reply would be dropped.
    let args = [&plan[..], &["--timeout", "1s", "--grace", "10s"]].concat();
    Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"))
        .current_dir(dir)
        .args(args)
        .assert()
        .success();
    fs::read_to_string(dir.join("lines.jsonl"))
        .unwrap()
        .lines()
        .map(|text| strict::parse(text).unwrap())
        .collect()
}

#[test]
fn second_sampler_queries_half_an_interval_later() {
    const SECOND: u64 = 1_000_000_000;
    let dir = stria();
    let (code, stderr) = generate(&dir, EIGHT, &["--redundancy", "2"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("\nsecond    each port has a second sampler on another leaf switch, half an interval later\n"), "{stderr}");
    let text = fs::read_to_string(dir.path().join("out.toml")).unwrap();
    assert_eq!(
        text.matches("\nrole = \"secondary\"\noffset = 0.5\n")
            .count(),
        8
    );
    let all = assigned(&dir, "out.toml");
    let (first, second): (Vec<&Sampler>, Vec<_>) = all
        .samplers
        .iter()
        .partition(|sampler| sampler.role.is_none());
    let owners = |samplers: &[&Sampler]| {
        let of = |sampler: &Sampler| {
            let host = sampler.host.clone();
            let ports = |device: &ibnet::assignments::AssignedDevice| {
                device
                    .ports
                    .iter()
                    .map(|port| (device.guid, port.num))
                    .collect::<Vec<_>>()
            };
            sampler
                .devices
                .iter()
                .flat_map(ports)
                .map(move |port| (port, host.clone()))
                .collect::<Vec<_>>()
        };
        samplers
            .iter()
            .flat_map(|sampler| of(sampler))
            .collect::<BTreeMap<_, _>>()
    };
    let (first, second) = (owners(&first), owners(&second));
    assert_eq!((first.len(), second.len()), (968, 968));
    assert!(first.iter().all(|(port, host)| second[port] != *host));
    // One host sweeps all ports of both roles; those of the second role not before half of the
    // interval.
    let ports_of =
        |owners: &BTreeMap<_, String>| owners.values().filter(|host| *host == "node00001").count();
    let mut swept = [0, 0];
    for line in sweep(dir.path(), "node00001") {
        if let Line::Port(port) = line {
            let is_second = first
                .get(&(port.guid, port.port))
                .is_none_or(|host| host != "node00001");
            swept[usize::from(is_second)] += 1;
            assert!(
                !is_second || port.ts >= port.slot * SECOND + SECOND / 2,
                "{} in slot {}",
                port.ts,
                port.slot
            );
        }
    }
    assert_eq!(swept, [2 * ports_of(&first), 2 * ports_of(&second)]);
}

#[test]
fn samplers_on_one_leaf_are_rejected_with_redundancy() {
    let dir = stria();
    let (code, stderr) = generate(&dir, "node[00001-00008]", &["--redundancy", "2"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains(": all samplers are on the same leaf switch; missing samplers: at least 7\nhelp: add 7 samplers, best on "),
        "{stderr}"
    );
    assert!(!dir.path().join("out.toml").exists());
    assert_eq!(generate(&dir, EIGHT, &["--redundancy", "3"]).0, 2);
    let (code, stderr) = generate(&dir, EIGHT, &["--redundancy", "2", "--format", "ldms"]);
    assert!(
        code == 2 && stderr.contains("LDMS has one role only") && stderr.contains("\nhelp: "),
        "{stderr}"
    );
    assert!(!dir.path().join("out.toml.node00001.conf").exists());
}

#[test]
fn recorded_service_times_weight_the_next_plan() {
    let dir = stria();
    assert_eq!(generate(&dir, EIGHT, &[]).0, 0);
    let is_measured =
        |line: &&Line| matches!(line, Line::Histogram(histogram) if histogram.kind == "service");
    let measured = sweep(dir.path(), "node00001")
        .iter()
        .filter(is_measured)
        .count();
    // All of the sampler, unless the machine is so busy that a device did not answer within a slot.
    assert!((1..=27).contains(&measured), "{measured} devices");
    let mut lines = fs::read(dir.path().join("lines.jsonl")).unwrap();
    lines.extend(b"torn\n{\"type\":\"hist");
    fs::write(dir.path().join("lines.jsonl"), lines).unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "lines.jsonl"]);
    assert_eq!(code, 0, "{stderr}");
    let devices = assigned(&dir, "out.toml")
        .samplers
        .iter()
        .map(|sampler| sampler.devices.len())
        .sum::<usize>();
    assert_eq!(devices, 338);
    let sentence = format!(
        "\nweights   {measured} of 338 devices were measured; the others count as the median of their kind\n"
    );
    assert!(stderr.contains(&sentence), "{stderr}");
    assert!(
        stderr.contains("          unreadable: 2 lines\n            lines.jsonl line "),
        "{stderr}"
    );
    assert!(
        stderr.contains("\nload      largest: ")
            && stderr.contains(" ms (lower bound ")
            && stderr.contains("            node00001: "),
        "{stderr}"
    );
    // A file without service times, and service times of another fabric.
    fs::write(
        dir.path().join("none.jsonl"),
        "{\"type\":\"port\",\"ts\":1}\n",
    )
    .unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "none.jsonl"]);
    assert!(
        code == 1
            && stderr.contains("none.jsonl: no measured service time (lines read: 1)\nhelp: "),
        "{stderr}"
    );
    let elsewhere = "{\"type\":\"histogram\",\"ts\":1,\"sampler\":\"a\",\"kind\":\"service\",\"guid\":\"0x0000000000000001\",\"mean_ns\":5,\"count\":1,\"v2\":\"\"}\n";
    fs::write(dir.path().join("none.jsonl"), elsewhere).unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--weights", "none.jsonl"]);
    assert!(
        code == 1
            && stderr
                .contains("no measured device is in the net file (measured devices: 1)\nhelp: "),
        "{stderr}"
    );
}

#[test]
fn previous_plan_is_kept_and_may_be_replaced() {
    let dir = stria();
    let without_comment = |name: &str| {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    // A plan by the rules only differs from an improved one.
    assert_eq!(generate(&dir, EIGHT, &["--no-optimize"]).0, 0);
    let before = without_comment("out.toml");
    let (code, stderr) = generate(&dir, EIGHT, &["--previous", "out.toml"]);
    assert!(
        code == 0 && stderr.contains("\nchanged   968 ports kept: 0 moved, 0 new, 0 gone\n"),
        "{stderr}"
    );
    assert_eq!(without_comment("out.toml"), before);
    let (code, stderr) = generate(
        &dir,
        &format!("{EIGHT},node00169"),
        &["--previous", "out.toml"],
    );
    assert!(
        code == 0 && stderr.contains("\nchanged   908 ports kept: 60 moved, 0 new, 0 gone\n"),
        "{stderr}"
    );
    assert!(
        stderr.contains("new samplers: 1\n            node00169\n")
            && stderr.contains("`leaf08`, 36 ports: "),
        "{stderr}"
    );
    fs::write(dir.path().join("none"), "SW     4  1 0x0000000000200006\n").unwrap();
    let (code, stderr) = generate(&dir, EIGHT, &["--previous", "none"]);
    assert!(
        code == 1
            && stderr.starts_with("error: cannot read none:1: ")
            && stderr.contains("\nhelp: "),
        "{stderr}"
    );
}

#[test]
fn rules_without_search_are_available() {
    let dir = stria();
    let ports = |name| {
        assigned(&dir, name)
            .samplers
            .iter()
            .map(|sampler| sampler.port_count)
            .collect::<Vec<_>>()
    };
    let (_, stderr) = generate(&dir, EIGHT, &["--no-optimize"]);
    assert_eq!(
        ports("out.toml"),
        [136, 108, 108, 120, 120, 120, 120, 136],
        "{stderr}"
    );
    let (_, stderr) = generate(&dir, EIGHT, &[]);
    assert_eq!(
        ports("out.toml"),
        [128, 116, 116, 120, 120, 120, 120, 128],
        "{stderr}"
    );
    assert!(
        stderr.contains("\nsearch    largest load reduced from 136 ports to 128 ports\n"),
        "{stderr}"
    );
}
