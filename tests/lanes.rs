//! The real `ibnet-sweep` with several HCA ports in one process, on a simulated fabric.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use ibnet::assignments::{Assignments, Header, Sampler};
use ibnet::record::strict::{self, Line};
use ibnet::topology::net_file;
use ibnet::topology::synthetic::FatTree;
use ibnet::types::{Guid, PortNum};
use tempfile::TempDir;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

/// A guard against a program that hangs, not a measure of how fast it is.
const HANGS: Duration = Duration::from_secs(60);

/// Between two looks at what a program does.
const WAIT: Duration = Duration::from_millis(10);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

/// An HCA port's name, and what it did.
type ByPort = BTreeMap<(String, PortNum), Did>;

/// What one HCA port told.
#[derive(Debug, Default)]
struct Did {
    starts: Vec<usize>,
    sweeps: Vec<(u64, u32)>,
}

/// A directory with a small fabric in `net.p`.
fn small() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    dir
}

/// Sweeps, and gives what each HCA port did and the ports of each slot.
#[track_caller]
fn swept(dir: &TempDir, args: &[&str]) -> (ByPort, BTreeMap<u64, Vec<(Guid, PortNum)>>) {
    let output = assert_cmd::Command::new(SWEEP).current_dir(dir.path()).args(args).timeout(HANGS).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut did, mut slots): (ByPort, BTreeMap<_, Vec<_>>) = Default::default();
    for text in String::from_utf8(output.stdout).unwrap().lines() {
        match strict::parse(text).unwrap_or_else(|error| panic!("{error}: {text}")) {
            Line::Start(start) => did.entry((start.ca, start.ca_port)).or_default().starts.push(start.ports),
            Line::Sweep(sweep) => did.entry((sweep.ca, sweep.ca_port)).or_default().sweeps.push((sweep.slot, sweep.ports)),
            Line::Port(port) => slots.entry(port.slot).or_default().push((port.guid, port.port)),
            Line::Histogram(_) | Line::Event(_) => {}
        }
    }
    (did, slots)
}

fn name(ca: &str, port: u8) -> (String, PortNum) {
    (ca.to_owned(), PortNum(port))
}

#[test]
fn hca_ports_share_the_devices_and_every_port_has_one_record_a_slot() {
    let dir = small();
    let args = ["--simulate", "net.p", "--ca", "mlx5_0,mlx5_1:2", "--ca", "mlx5_2", "--interval", "100ms", "--sweeps", "3"];
    let (did, slots) = swept(&dir, &args);
    assert_eq!(did.keys().cloned().collect::<Vec<_>>(), [name("mlx5_0", 1), name("mlx5_1", 2), name("mlx5_2", 1)]);
    for (ca, Did { starts, sweeps }) in &did {
        // 5 + 5 + 2 + 2 ports of switches and 6 of adapters: 20, divided by three.
        assert!(starts.len() == 1 && (6..=8).contains(&starts[0]), "{ca:?}: {starts:?}");
        assert_eq!(sweeps.iter().map(|(_, ports)| *ports as usize).collect::<Vec<_>>(), [starts[0]; 3]);
    }
    assert_eq!(did.values().map(|did| did.starts[0]).sum::<usize>(), 20);
    // On a busy machine one may start a slot later than the others; no port is ever there twice.
    assert_eq!(slots.values().map(Vec::len).sum::<usize>(), 3 * 20);
    for ports in slots.values() {
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
    }
}

#[test]
fn every_block_of_a_host_is_swept_each_by_its_own_hca() {
    let dir = small();
    let fabric = net_file::read(&dir.path().join("net.p")).unwrap().fabric;
    let (all, _) = Sampler::everything(&fabric, "node00001");
    let mut blocks = all.divided(2);
    (blocks[0].ca, blocks[1].ca, blocks[1].ca_port) = (Some("rail0".to_owned()), Some("rail1".to_owned()), Some(PortNum(2)));
    let ports: Vec<usize> = blocks.iter().map(|block| block.port_count as usize).collect();
    let plan = Assignments { version: 1, cap: 150, samplers: blocks };
    let header = Header { sources: Vec::new(), command: String::new() };
    fs::write(dir.path().join("plan.toml"), plan.to_toml(&header)).unwrap();
    let args = ["--simulate", "net.p", "--assignments", "plan.toml", "--sampler", "node00001", "--interval", "100ms", "--sweeps", "2"];
    let (did, _) = swept(&dir, &args);
    let told: Vec<_> = did.iter().map(|(ca, did)| (ca.clone(), did.starts.clone(), did.sweeps.len())).collect();
    assert_eq!(told, [(name("rail0", 1), vec![ports[0]], 2), (name("rail1", 2), vec![ports[1]], 2)]);
}

#[test]
fn one_slot_of_several_hca_ports_is_one_table() {
    let dir = small();
    let args = ["--simulate", "net.p", "--ca", "a,b", "--once", "--interval", "10s", "--timeout", "2s", "--grace", "3s"];
    let output = assert_cmd::Command::new(SWEEP).current_dir(dir.path()).args(args).timeout(HANGS).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\n20 of 20 ports ok, "), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("  4xEDR  ok  ")).count(), 20, "{text}");
}

#[test]
fn threads_are_kept_on_the_cpus_that_are_named() {
    let dir = small();
    // Whatever this process may use: its first CPU.
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let cpu = allowed.split([',', '-']).next().unwrap();
    fs::write(dir.path().join("ibnet.toml"), format!("simulate = \"net.p\"\nca = [\"a\", \"b\"]\ncpus = [{cpu}]\noutput = \"lines\"\n"))
        .unwrap();
    let mut child = Command::new(SWEEP).current_dir(dir.path()).args(["-c", "ibnet.toml"]).stderr(Stdio::null()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let pinned = || {
        let read = |task: fs::DirEntry| {
            Some((fs::read_to_string(task.path().join("comm")).ok()?, fs::read_to_string(task.path().join("status")).ok()?))
        };
        let tasks = fs::read_dir(&tasks).into_iter().flatten().filter_map(|task| read(task.ok()?));
        let is_kept =
            |status: &str| status.lines().any(|line| line.strip_prefix("Cpus_allowed_list:").is_some_and(|list| list.trim() == cpu));
        tasks.filter(|(name, status)| name.starts_with("mads-") && is_kept(status)).count()
    };
    for _ in 0..HANGS.as_millis() / WAIT.as_millis() {
        if pinned() == 2 {
            break;
        }
        std::thread::sleep(WAIT);
    }
    let found = pinned();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, 2);
}

#[test]
fn a_cpu_that_is_none_of_ours_is_told() {
    let dir = small();
    // The second is more than the kernel can name.
    for cpu in [1000, 100_000] {
        fs::write(dir.path().join("ibnet.toml"), format!("simulate = \"net.p\"\ncpus = [{cpu}]\n")).unwrap();
        let output = assert_cmd::Command::new(SWEEP).current_dir(dir.path()).args(["-c", "ibnet.toml"]).timeout(HANGS).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let told = format!("error: cannot use cpus: a thread cannot run on CPU {cpu}");
        assert!(output.status.code() == Some(1) && text.contains(&told), "{text}");
    }
}
