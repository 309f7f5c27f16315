//! `ibnet-sweep` with several HCA ports in one process, on a simulated fabric.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ibnet::assignments::{Assignments, Header};
use ibnet::topology::net_file;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, PortNum};
use tempfile::TempDir;

use crate::HANGS;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

/// Time between two reads of the threads of a process.
const WAIT: Duration = Duration::from_millis(10);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// Records by HCA port.
type ByPort = BTreeMap<(String, PortNum), Records>;

/// Records of one HCA port.
#[derive(Debug, Default)]
struct Records {
    /// Ports of each `start` record.
    starts: Vec<usize>,
    /// Slot and ports of each `sweep` record.
    sweeps: Vec<(u64, u32)>,
}

/// Returns a directory with a small fabric in `net.p`.
fn directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    dir
}

/// Sweeps, and returns the records by HCA port, and the ports of each slot.
#[track_caller]
fn sweep(dir: &TempDir, args: &[&str]) -> (ByPort, BTreeMap<u64, Vec<(Guid, PortNum)>>) {
    let output = assert_cmd::Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (mut by_port, mut slots): (ByPort, BTreeMap<_, Vec<_>>) = Default::default();
    for text in String::from_utf8(output.stdout).unwrap().lines() {
        match strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}")) {
            Line::Start(start) => by_port
                .entry((start.ca, start.ca_port))
                .or_default()
                .starts
                .push(start.ports),
            Line::Sweep(sweep) => by_port
                .entry((sweep.ca, sweep.ca_port))
                .or_default()
                .sweeps
                .push((sweep.slot, sweep.ports)),
            Line::Port(port) => slots
                .entry(port.slot)
                .or_default()
                .push((port.guid, port.port)),
            Line::Histogram(_) | Line::Event(_) | Line::Physical(_) | Line::Routes(_) => {}
        }
    }
    (by_port, slots)
}

fn name(ca: &str, port: u8) -> (String, PortNum) {
    (ca.to_owned(), PortNum(port))
}

#[test]
fn devices_are_divided_among_hca_ports_and_every_port_has_one_record_a_slot() {
    let dir = directory();
    let args = [
        "--simulate",
        "net.p",
        "--ca",
        "mlx5_0,mlx5_1:2",
        "--ca",
        "mlx5_2",
        "--interval",
        "100ms",
        "--sweeps",
        "3",
    ];
    let (by_port, slots) = sweep(&dir, &args);
    assert_eq!(
        by_port.keys().cloned().collect::<Vec<_>>(),
        [name("mlx5_0", 1), name("mlx5_1", 2), name("mlx5_2", 1)]
    );
    for (ca, Records { starts, sweeps }) in &by_port {
        // 5 + 5 + 2 + 2 ports of switches and 6 of HCAs: 20, divided by three.
        assert!(
            starts.len() == 1 && (6..=8).contains(&starts[0]),
            "{ca:?}: {starts:?}"
        );
        assert_eq!(
            sweeps
                .iter()
                .map(|(_, ports)| *ports as usize)
                .collect::<Vec<_>>(),
            [starts[0]; 3]
        );
    }
    assert_eq!(
        by_port
            .values()
            .map(|records| records.starts[0])
            .sum::<usize>(),
        20
    );
    // On a busy machine a worker may start a slot later than the others. No port has two records.
    assert_eq!(slots.values().map(Vec::len).sum::<usize>(), 3 * 20);
    for ports in slots.values() {
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
    }
}

#[test]
fn every_block_of_a_host_is_swept_by_its_own_hca() {
    let dir = directory();
    let fabric = net_file::read(&dir.path().join("net.p")).unwrap().fabric;
    let (all, _) = ibnet::partition::whole_fabric(&fabric, "node00001");
    let mut blocks = all.divided(2);
    (blocks[0].ca, blocks[1].ca, blocks[1].ca_port) = (
        Some("rail0".to_owned()),
        Some("rail1".to_owned()),
        Some(PortNum(2)),
    );
    let ports: Vec<usize> = blocks
        .iter()
        .map(|block| block.port_count as usize)
        .collect();
    let plan = Assignments {
        version: 1,
        cap: 150,
        at: None,
        samplers: blocks,
    };
    let header = Header {
        sources: Vec::new(),
        command: String::new(),
    };
    fs::write(dir.path().join("plan.toml"), plan.to_toml(&header)).unwrap();
    let args = [
        "--simulate",
        "net.p",
        "--assignments",
        "plan.toml",
        "--sampler",
        "node00001",
        "--interval",
        "100ms",
        "--sweeps",
        "2",
    ];
    let (by_port, _) = sweep(&dir, &args);
    let found: Vec<_> = by_port
        .iter()
        .map(|(ca, records)| (ca.clone(), records.starts.clone(), records.sweeps.len()))
        .collect();
    assert_eq!(
        found,
        [
            (name("rail0", 1), vec![ports[0]], 2),
            (name("rail1", 2), vec![ports[1]], 2)
        ]
    );
}

#[test]
fn once_prints_one_table_for_all_hca_ports() {
    let dir = directory();
    let args = [
        "--simulate",
        "net.p",
        "--ca",
        "a,b",
        "--once",
        "--interval",
        "1h",
        "--timeout",
        "10s",
        "--grace",
        "10s",
    ];
    let output = assert_cmd::Command::new(SWEEP)
        .current_dir(dir.path())
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n20 of 20 ports ok, "), "{text}");
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("  4xEDR  ok  "))
            .count(),
        20,
        "{text}"
    );
}

#[test]
fn workers_are_pinned_to_the_configured_cpus() {
    let dir = directory();
    // The first CPU that this process may use.
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = own
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap()
        .trim();
    let cpu = allowed.split([',', '-']).next().unwrap();
    fs::write(
        dir.path().join("ibnet.toml"),
        format!("simulate = \"net.p\"\nca = [\"a\", \"b\"]\ncpus = [{cpu}]\noutput = \"lines\"\n"),
    )
    .unwrap();
    let mut child = Command::new(SWEEP)
        .current_dir(dir.path())
        .args(["-c", "ibnet.toml"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let pinned = || {
        let read = |task: fs::DirEntry| {
            Some((
                fs::read_to_string(task.path().join("comm")).ok()?,
                fs::read_to_string(task.path().join("status")).ok()?,
            ))
        };
        let tasks = fs::read_dir(&tasks)
            .into_iter()
            .flatten()
            .filter_map(|task| read(task.ok()?));
        let is_pinned = |status: &str| {
            status.lines().any(|line| {
                line.strip_prefix("Cpus_allowed_list:")
                    .is_some_and(|list| list.trim() == cpu)
            })
        };
        tasks
            .filter(|(name, status)| name.starts_with("mads-") && is_pinned(status))
            .count()
    };
    let start = Instant::now();
    while pinned() != 2 && start.elapsed() < HANGS {
        std::thread::sleep(WAIT);
    }
    let found = pinned();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, 2);
}

#[test]
fn cpu_that_cannot_be_used_is_an_error() {
    let dir = directory();
    // The second number is larger than the kernel's CPU sets.
    for cpu in [1000, 100_000] {
        fs::write(
            dir.path().join("ibnet.toml"),
            format!("simulate = \"net.p\"\ncpus = [{cpu}]\n"),
        )
        .unwrap();
        let output = assert_cmd::Command::new(SWEEP)
            .current_dir(dir.path())
            .args(["-c", "ibnet.toml"])
            .timeout(HANGS)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let error = format!("error: cannot use cpus: a thread cannot run on CPU {cpu}");
        assert!(
            output.status.code() == Some(1) && text.contains(&error),
            "{text}"
        );
    }
}
