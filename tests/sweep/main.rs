//! The real `ibnet-sweep` on a simulated fabric, run as an administrator would.
//!
//! What a busy machine changes (which replies are late, which slots are missed) is never relied on: what is checked holds for every run.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use ibnet::assignments::{Assignments, sha256_hex};
use ibnet::config::{Raw, Sl};
use ibnet::mad::pma::Group;
use ibnet::record::strict::{self, Line, Port, Start, Sweep};
use ibnet::topology::net_file;
use ibnet::topology::synthetic::FatTree;
use ibnet::types::{Guid, NodeKind, PortNum};
use tempfile::TempDir;

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");

/// A guard against a program that hangs, not a measure of how fast it is.
const HANGS: Duration = Duration::from_secs(60);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };

type Key = (Guid, PortNum);

/// A directory with a small fabric in `net.p`.
fn small() -> TempDir {
    with_net(TREE.blueprint().ports_report().as_bytes())
}

fn with_net(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), bytes).unwrap();
    dir
}

/// Every linked port of the net file, with its other end.
fn links(dir: &TempDir) -> BTreeMap<Key, Key> {
    let fabric = net_file::read(&dir.path().join("net.p")).unwrap().fabric;
    let ends = |device: &ibnet::topology::Device| {
        device.linked().map(|(port, peer)| ((device.guid, port.num), (peer.guid, peer.port))).collect::<Vec<_>>()
    };
    fabric.devices().iter().flat_map(ends).collect()
}

/// What a run left behind.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(dir: &TempDir, args: &[&str]) -> Run {
    run_program(SWEEP, dir.path(), args)
}

fn run_program(program: &str, dir: &Path, args: &[&str]) -> Run {
    let output = assert_cmd::Command::new(program).current_dir(dir).args(args).timeout(HANGS).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The records of a run that went well.
#[track_caller]
fn swept(dir: &TempDir, args: &[&str]) -> Stream {
    let run = run(dir, args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    Stream::read(&run.stdout)
}

/// Exit code 1, one message with a remedy, no record.
#[track_caller]
fn refused(run: &Run, message: &str, help: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{}", run.stderr);
    let (before, said) = run.stderr.split_once("\nhelp: ").unwrap_or_else(|| panic!("no help in {}", run.stderr));
    assert!(before.contains(message), "{message:?} is not in {}", run.stderr);
    assert!(said.contains(help), "{help:?} is not the help of {}", run.stderr);
    assert!(!run.stderr.contains("panicked"));
}

/// The records of one start, checked for what holds of every stream.
struct Stream {
    start: Start,
    slots: Vec<Slot>,
    events: Vec<strict::Event>,
    histograms: Vec<strict::Histogram>,
}

/// The records of a slot.
struct Slot {
    sweep: Sweep,
    ports: BTreeMap<Key, Port>,
}

impl Slot {
    /// Ports of that status.
    fn count(&self, statuses: &[&str]) -> usize {
        self.ports.values().filter(|port| statuses.contains(&port.status.as_str())).count()
    }
}

impl Stream {
    /// Reads all records of one start and checks:
    ///
    /// 1. every line is a whole record, flat, with its type first, and under 4 KiB;
    /// 2. the first is `start`, and no other is;
    /// 3. a slot is its ports, each once, closed by its `sweep`, whose sums are theirs;
    /// 4. slots follow one another but for those that are told to be missed; no port is read before its slot begins;
    /// 5. the counters have the names of the table, and a port that did not answer has none.
    #[track_caller]
    fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line is torn");
        let mut lines = text.lines().map(record);
        let Some(Line::Start(start)) = lines.next() else { panic!("the first line is no start: {text:.200}") };
        let mut stream = Self { start, slots: Vec::new(), events: Vec::new(), histograms: Vec::new() };
        let mut ports = BTreeMap::new();
        for line in lines {
            match line {
                Line::Start(again) => panic!("another start: {again:?}"),
                Line::Event(event) => stream.events.push(event),
                Line::Histogram(histogram) => stream.histograms.push(histogram),
                Line::Port(port) => {
                    let before = ports.insert((port.guid, port.port), *port);
                    assert_eq!(before, None, "a port twice in a slot");
                }
                Line::Sweep(sweep) => stream.slots.push(Slot { sweep, ports: std::mem::take(&mut ports) }),
            }
        }
        assert!(ports.is_empty(), "a slot was not closed");
        stream.slots.iter().for_each(|slot| slot.check(&stream.start));
        for pair in stream.slots.windows(2) {
            let [before, after] = pair else { unreachable!("a window of two") };
            assert_eq!(after.sweep.slot, before.sweep.slot + 1 + after.sweep.slots_missed, "slots follow one another");
        }
        stream
    }

    /// Whether every slot has exactly these ports.
    #[track_caller]
    fn covers(&self, ports: &BTreeSet<Key>) {
        assert_eq!(self.start.ports, ports.len());
        for slot in &self.slots {
            assert_eq!(slot.ports.keys().copied().collect::<BTreeSet<_>>(), *ports, "slot {}", slot.sweep.slot);
        }
    }
}

impl Slot {
    #[track_caller]
    fn check(&self, start: &Start) {
        let Self { sweep, ports } = self;
        let sums = [sweep.ok, sweep.late, sweep.timeout, sweep.unreachable, sweep.skipped, sweep.errors];
        let told = ["ok", "late", "timeout", "unreachable", "skipped"].map(|status| self.count(&[status]) as u32);
        assert_eq!(sums[..5], told, "{sweep:?}");
        assert_eq!((sums.iter().sum(), ports.len()), (sweep.ports, start.ports), "{sweep:?}");
        assert!(sweep.mads_sent >= ports.values().map(|port| u64::from(port.mads)).sum());
        let begin = sweep.slot * start.interval_ns;
        let names = known(None);
        for port in ports.values() {
            assert_eq!((port.slot, &port.sampler, &sweep.sampler), (sweep.slot, &start.sampler, &start.sampler));
            assert!((begin..=sweep.ts).contains(&port.ts), "{port:?} is not in {sweep:?}");
            assert!(port.status != "ok" || port.mads > 0 && port.rtt_ns > 0 && !port.counters.is_empty(), "{port:?}");
            assert!(port.status != "unreachable" || port.mads == 0 && port.counters.is_empty(), "{port:?}");
            let strangers: Vec<_> = port.counters.keys().filter(|name| !names.contains(name.as_str())).collect();
            assert!(strangers.is_empty(), "{strangers:?} are in no row of the table");
        }
        // Where nothing was lost, the last reply says when the slot began: at a multiple of the interval, to the nanosecond.
        if self.count(&["ok", "late"]) == ports.len() {
            let last = ports.values().map(|port| port.ts).max().unwrap();
            assert_eq!(last - sweep.duration_ns, begin);
        }
    }
}

/// A line as a record, after its form was checked.
#[track_caller]
fn record(line: &str) -> Line {
    assert!(line.len() < 4096 && line.starts_with("{\"type\":\""), "{line}");
    let value: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    assert!(value.values().all(|value| !value.is_object()), "not flat: {line}");
    strict::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The names of counters in the table; those of one attribute only, if it is named.
fn known(attribute: Option<&str>) -> BTreeSet<&'static str> {
    let rows = include_str!("data/pma-fields.tsv").lines().skip(1).map(|row| row.split('\t').collect::<Vec<_>>());
    rows.filter(|row| attribute.is_none_or(|attribute| row[1] == attribute)).map(|row| row[6]).collect()
}

/// A program that runs until it is told to stop. It is killed when this is dropped.
struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(dir: &TempDir, args: &[&str], most_lines: usize) -> Self {
        let mut child =
            Command::new(SWEEP).current_dir(dir.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines_of(child.stdout.take().unwrap(), most_lines);
        let stderr = lines_of(child.stderr.take().unwrap(), usize::MAX);
        Self { child, stdout, stderr }
    }

    /// The next line of standard output.
    fn line(&self) -> String {
        self.stdout.recv_timeout(HANGS).expect("a line")
    }

    /// Sends a signal to this process and no other: it has not been waited for, so its number is its own.
    fn signal(&self, name: &str) {
        let kill = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &self.child.id().to_string()]).status().unwrap();
        assert!(kill.success());
    }

    /// Waits for its end: exit code, what was not read of standard output, standard error.
    fn end(mut self) -> Run {
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        // Both are closed: it has ended, or is just about to.
        let code = self.child.wait().unwrap().code().unwrap_or_else(|| panic!("it was killed by a signal; {stderr}"));
        Run { code, stdout, stderr }
    }
}

/// All lines until the other side is closed.
#[track_caller]
fn rest(lines: &Receiver<String>) -> String {
    let mut all = String::new();
    loop {
        match lines.recv_timeout(HANGS) {
            Ok(line) => all.push_str(&line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return all,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs after {all}"),
        }
    }
}

/// Reads lines, with their line feeds, on a thread of its own; after so many of them the pipe is closed.
fn lines_of(pipe: impl Read + Send + 'static, most: usize) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        for _ in 0..most {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

const THREE: [&str; 8] = ["--net", "net.p", "--simulate", "net.p", "--interval", "100ms", "--sweeps", "3"];

#[test]
fn every_linked_port_has_one_record_a_slot() {
    let dir = small();
    let ports: BTreeSet<Key> = links(&dir).into_keys().collect();
    assert_eq!(ports.len(), 20);
    let stream = swept(&dir, &THREE);
    assert_eq!(stream.slots.len(), 3);
    stream.covers(&ports);
    let start = &stream.start;
    assert_eq!((start.schema, start.ca.as_str(), start.interval_ns, start.file_seq), (1, "sim", 100_000_000, 0));
    assert_eq!((start.groups.join(","), &start.assignments_sha256), ("extended,base,xmtdisc,rcverr".to_owned(), &None));
    assert!(start.pid > 0 && start.slot == start.ts / start.interval_ns);
    assert!(stream.slots[0].sweep.slot > start.slot);
    let of_all = stream.histograms.iter().filter(|histogram| histogram.guid.is_none());
    let kinds: Vec<_> = of_all.map(|histogram| (histogram.kind.as_str(), histogram.device_kind.as_deref())).collect();
    assert_eq!(kinds, [("rtt", Some("switch")), ("rtt", Some("hca")), ("sweep", None)]);
    assert_eq!(stream.histograms[2].count, 3);
    // Every device that was asked has one of its own.
    let devices: BTreeSet<_> = stream.slots[0].ports.values().map(|port| port.guid).collect();
    assert_eq!(stream.histograms.iter().filter_map(|histogram| histogram.guid).collect::<BTreeSet<_>>(), devices);
}

#[test]
fn records_say_what_the_net_file_and_the_port_say_of_it() {
    let dir = small();
    let peers = links(&dir);
    let stream = swept(&dir, &THREE);
    for port in stream.slots.iter().flat_map(|slot| slot.ports.values()) {
        let peer = (port.peer_guid.unwrap(), port.peer_port.unwrap());
        assert_eq!(peers[&(port.guid, port.port)], peer, "{port:?}");
        assert_eq!((port.link.as_str(), port.link_source.as_str(), port.identity.as_str()), ("4xEDR", "live", "ok"));
        let is_host = port.node.ends_with(" mlx5_0");
        assert_eq!(port.kind, Some(if is_host { NodeKind::Hca } else { NodeKind::Switch }));
    }
}

#[test]
fn what_one_end_sends_the_other_receives() {
    // A few large jobs, so that something moves from the start.
    let tree = FatTree { leaves: 4, hosts: 12, spines: 4, trunk: 1, radix: 16 };
    let dir = with_net(tree.blueprint().ports_report().as_bytes());
    let peers = links(&dir);
    let stream = swept(&dir, &["--simulate", "net.p", "--interval", "200ms", "--sweeps", "4"]);
    let read = |slot: &Slot, key: Key, name: &str| slot.ports[&key].counter(name);
    let (mut compared, mut moved) = (0, 0);
    for (here, there) in &peers {
        for names in [["port_xmit_data_bytes", "port_rcv_data_bytes"], ["port_xmit_pkts", "port_rcv_pkts"]] {
            // In the order of time: what left here by a slot has come in there by the next, and the other way round.
            for pair in stream.slots.windows(2) {
                let [sent, received] = [&pair[0], &pair[1]].map(|slot| (read(slot, *here, names[0]), read(slot, *there, names[1])));
                let ((Some(sent), Some(came)), (Some(sent_then), Some(came_then))) = (sent, received) else { continue };
                assert!(sent <= sent_then && came <= came_then, "counters went back: {here:?} {names:?}");
                assert!(
                    sent <= came_then && came <= sent_then,
                    "{here:?} sent {sent}, then {sent_then}; {there:?} had {came}, {came_then}"
                );
                compared += 1;
                moved += came_then - came;
            }
        }
    }
    assert!(compared > 0 && moved > 0, "{compared} pairs, {moved} moved");
}

#[test]
fn rates_are_the_differences_of_counters() {
    let tree = FatTree { leaves: 4, hosts: 12, spines: 4, trunk: 1, radix: 16 };
    let dir = with_net(tree.blueprint().ports_report().as_bytes());
    let stream = swept(&dir, &["--simulate", "net.p", "--interval", "200ms", "--sweeps", "3"]);
    let mut busy = 0;
    for pair in stream.slots.windows(2) {
        for (key, port) in &pair[1].ports {
            let before = &pair[0].ports[key];
            let bytes = |port: &Port| port.counter("port_xmit_data_bytes");
            let (Some(dt), Some(gbps), Some(from), Some(to)) = (port.dt_ns, port.xmit_gbps, bytes(before), bytes(port)) else { continue };
            let expected = (to - from) as f64 * 8.0 / dt as f64;
            assert!((gbps - expected).abs() <= 1e-6, "{gbps} instead of {expected}");
            // 4x EDR carries 100 Gb/s of data.
            let share = port.xmit_utilization.unwrap();
            assert!((share - gbps / 100.0).abs() <= 2e-6 && (0.0..=1.01).contains(&share), "{port:?}");
            busy += u32::from(gbps > 0.0);
        }
    }
    assert!(busy > 0, "nothing moved");
    assert!(stream.slots[0].ports.values().all(|port| port.dt_ns.is_none() && port.xmit_gbps.is_none()), "the first slot has no rates");
}

#[test]
fn a_plan_is_swept_and_nothing_else() {
    let dir = small();
    let made = run_program(GEN, dir.path(), &["--net", "net.p", "--samplers", "node00001,node00004", "--cap", "12", "-o", "plan.toml"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let plan = Assignments::read(&dir.path().join("plan.toml")).unwrap();
    let mut all = BTreeSet::new();
    for sampler in &plan.assignments.samplers {
        let ports: BTreeSet<Key> =
            sampler.devices.iter().flat_map(|device| device.ports.iter().map(|port| (device.guid, port.num))).collect();
        let args =
            ["--assignments", "plan.toml", "--sampler", &sampler.host, "--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"];
        let stream = swept(&dir, &args);
        stream.covers(&ports);
        assert_eq!(stream.start.sampler, sampler.host);
        assert_eq!(stream.start.assignments_sha256.as_deref(), Some(&*sha256_hex(&fs::read(dir.path().join("plan.toml")).unwrap())));
        assert!(ports.iter().all(|port| all.insert(*port)), "a port is swept twice");
    }
    assert_eq!((plan.assignments.samplers.len(), all), (2, links(&dir).into_keys().collect()));
}

#[test]
fn what_does_not_answer_is_told_apart_from_what_was_not_asked() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "simulate = \"net.p\"\ngrace = \"20ms\"\n[simulated]\ndead = [\"leaf01\", \"node00005\"]\n")
        .unwrap();
    let stream = swept(&dir, &["-c", "ibnet.toml", "--interval", "1s", "--sweeps", "2"]);
    assert_eq!(stream.slots.len(), 2);
    for slot in &stream.slots {
        let of = |host: &str, status: &str| {
            slot.ports.values().filter(|port| port.node.split(' ').next() == Some(host) && port.status == status).count()
        };
        // Three MADs without a reply are enough: one for who it is and one for each of two ports.
        assert_eq!([of("leaf01", "timeout"), of("leaf01", "unreachable"), of("node00005", "timeout")], [2, 3, 1], "{:?}", slot.sweep);
        assert_eq!((slot.sweep.timeout, slot.sweep.unreachable), (3, 3));
    }
    let told: BTreeSet<_> = stream.events.iter().filter(|event| event.event == "unreachable").map(|event| event.guid.unwrap()).collect();
    let dead = |port: &&Port| ["leaf01", "node00005 mlx5_0"].contains(&port.node.as_str());
    assert_eq!(told, stream.slots[0].ports.values().filter(dead).map(|port| port.guid).collect());
}

#[test]
fn lost_mads_are_timeouts_and_all_lost_is_silence() {
    let dir = small();
    let config = |loss: &str| fs::write(dir.path().join("ibnet.toml"), format!("grace = \"20ms\"\n[simulated]\nloss = {loss}\n")).unwrap();
    let args = ["-c", "ibnet.toml", "--simulate", "net.p", "--interval", "1s", "--sweeps", "2"];
    config("0.5");
    let some = swept(&dir, &args);
    assert!(some.slots.iter().all(|slot| slot.sweep.timeout > 0), "half of all MADs are lost");
    assert!(some.slots.iter().any(|slot| slot.ports.values().any(|port| !port.counters.is_empty())));
    config("1.0");
    let none = swept(&dir, &args);
    for slot in &none.slots {
        // 6 hosts of one port, 2 leaves of 5 and 2 spines of 2.
        assert_eq!((slot.sweep.timeout, slot.sweep.unreachable), (6 + 4 + 4, 6), "{:?}", slot.sweep);
        assert_eq!((slot.sweep.rtt_p50_ns, slot.sweep.rtt_max_ns, slot.sweep.mads_late), (None, None, 0));
        assert!(slot.ports.values().all(|port| port.counters.is_empty()));
    }
    assert!(none.histograms.iter().all(|histogram| histogram.kind == "sweep"), "there were no round trips");
}

#[test]
fn groups_choose_the_counters() {
    let dir = small();
    for (groups, listed, attributes) in [
        ("base", "base", &["PortCounters"][..]),
        ("extended", "extended", &["PortCountersExtended"]),
        ("xmtdisc,extended", "xmtdisc,extended", &["PortXmitDiscardDetails", "PortCountersExtended"]),
        // What these switches have; PortCounters are all in PortCountersExtended, and no group tells of operations by opcode.
        (
            "all",
            &*Group::ALL.map(Group::as_str).join(","),
            &[
                "PortCountersExtended",
                "PortXmitDiscardDetails",
                "PortRcvErrorDetails",
                "PortXmitDataSL",
                "PortRcvDataSL",
                "PortExtendedSpeedsCounters",
                "PortFlowCtlCounters",
                "PortVLXmitFlowCtlUpdateErrors",
                "PortVLXmitWaitCounters",
                "SwPortVLCongestion",
                "PortRcvConCtrl",
                "PortSLRcvFECN",
                "PortSLRcvBECN",
                "PortXmitConCtrl",
                "PortVLXmitTimeCong",
                "PortSamplesControl",
            ],
        ),
    ] {
        let stream = swept(&dir, &["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1", "--groups", groups]);
        assert_eq!(stream.start.groups.join(","), listed);
        let allowed: BTreeSet<_> = attributes.iter().flat_map(|attribute| known(Some(attribute))).collect();
        let switches = stream.slots[0].ports.values().filter(|port| port.kind == Some(NodeKind::Switch));
        let found: BTreeSet<_> = switches.flat_map(|port| port.counters.keys().map(String::as_str)).collect();
        assert!(found.is_subset(&allowed), "{groups}: {:?}", found.difference(&allowed));
        for attribute in attributes {
            assert!(!found.is_disjoint(&known(Some(attribute))), "{groups}: nothing of {attribute}");
        }
    }
}

#[test]
fn a_file_is_appended_to_and_its_torn_line_closed() {
    let dir = small();
    let path = dir.path().join("lines");
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1", "-o", "lines"];
    let first = run(&dir, &args);
    assert_eq!((first.code, first.stdout.as_str()), (0, ""), "{}", first.stderr);
    let whole = fs::read_to_string(&path).unwrap();
    Stream::read(&whole);
    // A power failure: half of the last line is gone.
    let torn = &whole[..whole.len() - 20];
    fs::write(&path, torn).unwrap();
    assert_eq!(run(&dir, &args).code, 0);
    let both = fs::read_to_string(&path).unwrap();
    let second = both.strip_prefix(torn).unwrap().strip_prefix('\n').expect("the torn line is closed");
    let (one, two) = (Stream::read(&whole), Stream::read(second));
    assert_ne!(one.start, two.start, "no two starts are alike");
    assert!(two.slots[0].sweep.slot > one.slots[0].sweep.slot);
}

#[test]
fn an_output_that_is_empty_says_nothing() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "output = \"\"\n").unwrap();
    let stream = swept(&dir, &["-c", "ibnet.toml", "--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"]);
    assert_eq!(stream.slots.len(), 1);
}

#[test]
fn lines_that_no_disk_took_are_told() {
    let dir = small();
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "1"];
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let told = |args: &[&str], stdout: Stdio| {
        let output = Command::new(SWEEP).current_dir(dir.path()).args(args).stdout(stdout).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, stdout, name) in
        [(&args[..], full(), "standard output"), (&[&args[..], &["-o", "/dev/full"]].concat(), Stdio::null(), "/dev/full")]
    {
        let (code, log) = told(args, stdout);
        assert_eq!(code, Some(1), "no line tells of those that were lost: {log}");
        assert!(log.contains("cannot write, dropping records") && log.contains("No space left") && log.contains(name), "{log}");
        // A line a port, and sweep and histograms.
        let lines: u32 = log.split_once("error: the last ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).expect("told");
        assert!(lines > 20 && log.contains("help: is there room on the disk?"), "{log}");
    }
    let (code, log) = told(&["--simulate", "net.p", "--interval", "100ms", "--once"], full());
    assert_eq!(code, Some(1));
    assert!(log.starts_with("error: standard output cannot be written\ncause: No space left") && log.contains("\nhelp: "), "{log}");
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    let dir = small();
    let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "20ms"], 1);
    assert!(matches!(record(running.line().trim_end()), Line::Start(_)));
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let complaints: Vec<_> = ["error", "panicked", "lost", "stands still"].into_iter().filter(|word| run.stderr.contains(word)).collect();
    assert!(complaints.is_empty(), "{}", run.stderr);
}

#[test]
fn a_signal_closes_the_slot_and_ends_with_code_0() {
    let dir = small();
    for signal in ["INT", "TERM"] {
        let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "100ms"], usize::MAX);
        let mut text = String::new();
        while !text.contains("{\"type\":\"sweep\"") {
            text.push_str(&running.line());
        }
        running.signal(signal);
        let run = running.end();
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.contains(&format!("SIG{signal}")) && !run.stderr.contains("stands still"), "{}", run.stderr);
        text.push_str(&run.stdout);
        let stream = Stream::read(&text);
        let last: Vec<_> = text.lines().rev().map(record).find(|line| !matches!(line, Line::Histogram(_))).into_iter().collect();
        assert!(matches!(last[..], [Line::Sweep(_)]), "{last:?}");
        assert_eq!(stream.histograms.iter().filter(|histogram| histogram.guid.is_none()).count(), 3);
        stream.covers(&links(&dir).into_keys().collect());
    }
}

#[test]
fn a_signal_before_the_first_slot_leaves_a_start_alone() {
    let dir = small();
    let running = Running::start(&dir, &["--simulate", "net.p", "--interval", "1h"], usize::MAX);
    let start = running.line();
    running.signal("TERM");
    let run = running.end();
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert_eq!(Stream::read(&start).slots.len(), 0);
}

#[test]
fn a_reader_that_stands_still_holds_nothing_up() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "simulate = \"net.p\"\n[[output]]\ntype = \"stdout\"\nbuffer_mib = 1\n").unwrap();
    let mut command = Command::new(SWEEP);
    command.current_dir(dir.path()).args(["-c", "ibnet.toml", "--interval", "10ms"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut unread = child.stdout.take().unwrap();
    let stderr = lines_of(child.stderr.take().unwrap(), usize::MAX);
    let running = Running { child, stdout: channel().1, stderr };
    // The pipe is full, and the queue before it too.
    while !running.stderr.recv_timeout(HANGS).expect("a line of the log").contains("dropping records") {}
    running.signal("TERM");
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("the output stands still"), "{}", run.stderr);
    let mut text = String::new();
    unread.read_to_string(&mut text).unwrap();
    let whole = text.rfind('\n').expect("a line") + 1;
    assert!(text[..whole].lines().map(record).any(|line| matches!(line, Line::Sweep(_))), "all but the last line is whole");
}

#[test]
fn a_signal_within_a_slot_settles_all_of_its_ports() {
    let dir = small();
    // Nothing answers, so that a slot lasts as long as its grace.
    fs::write(dir.path().join("ibnet.toml"), "simulate = \"net.p\"\ngrace = \"900ms\"\n[simulated]\nloss = 1.0\n").unwrap();
    let args = ["-c", "ibnet.toml", "--interval", "1s", "-o", "lines"];
    let mut command = Command::new(SWEEP);
    command.current_dir(dir.path()).args(args).env("RUST_LOG", "ibnet=trace").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (lines_of(child.stdout.take().unwrap(), usize::MAX), lines_of(child.stderr.take().unwrap(), usize::MAX));
    let running = Running { child, stdout, stderr };
    // The first slot is over, and something was sent: the second has begun.
    let mut has_ended = false;
    loop {
        let line = running.stderr.recv_timeout(HANGS).expect("a line of the log");
        has_ended |= line.trim_start().starts_with("DEBUG slot ");
        if has_ended && line.trim_start().starts_with("TRACE send ") {
            break;
        }
    }
    running.signal("TERM");
    let run = running.end();
    assert_eq!(run.code, 0, "{}", run.stderr);
    let stream = Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap());
    stream.covers(&links(&dir).into_keys().collect());
    assert!(stream.slots.len() >= 2, "the slot that was cut short is closed");
}

#[test]
fn a_port_a_row_is_what_people_get() {
    let dir = small();
    // Time enough for a busy machine: what is late has another word in its row.
    let run = run(&dir, &["--simulate", "net.p", "--once", "--interval", "10s", "--timeout", "2s", "--grace", "3s"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|row| row.split_whitespace().collect()).collect();
    let head = ["node", "port", "peer", "port", "link", "status"];
    assert_eq!((rows.len(), &rows[0][..6]), (1 + 20 + 2, &head[..]), "{}", run.stdout);
    assert!(run.stdout.contains("\n20 of 20 ports ok, "), "{}", run.stdout);
    // The longer the slot took, the more digits its counters have.
    assert!(run.stdout.lines().all(|row| row.chars().count() <= 110), "{}", run.stdout);
    for (name, port) in [("leaf01", "5"), ("spine02", "2")] {
        assert_eq!(rows.iter().filter(|row| row.starts_with(&[name, port])).count(), 1, "{}", run.stdout);
    }
    assert_eq!(rows.iter().filter(|row| row.contains(&"4xEDR")).count(), 20);
}

#[test]
fn the_configuration_that_results_is_printed_and_can_be_used() {
    let dir = small();
    fs::write(dir.path().join("ibnet.toml"), "interval = \"2s\"\nwindow = 8\nsimulate = \"else.p\"\n[simulated]\nseed = 7\n").unwrap();
    let args =
        ["-c", "ibnet.toml", "--simulate", "net.p", "--interval", "100ms", "--groups", "base,rcverr", "--sl", "3", "--pkey", "0x8001"];
    let printed = run(&dir, &[&args[..], &["--print-config"]].concat());
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let mut expected = Raw {
        simulate: "net.p".to_owned(),
        interval: "100ms".to_owned(),
        groups: vec!["base".to_owned(), "rcverr".to_owned()],
        window: 8,
        sl: Sl::Word("3".to_owned()),
        pkey: "0x8001".to_owned(),
        ..Raw::default()
    };
    expected.simulated.seed = 7;
    let origin =
        |key: &str| printed.stdout.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap().split(" # ").last().unwrap();
    let origins = ["interval", "window", "grace", "simulate", "seed"].map(origin);
    assert_eq!(origins, ["--interval", "ibnet.toml:2", "default", "--simulate", "ibnet.toml:5"]);
    assert_eq!(toml::from_str::<Raw>(&printed.stdout).unwrap(), expected);
    fs::write(dir.path().join("printed.toml"), &printed.stdout).unwrap();
    let stream = swept(&dir, &["-c", "printed.toml", "--sweeps", "1"]);
    assert_eq!((stream.start.groups.join(","), stream.start.interval_ns), ("base,rcverr".to_owned(), 100_000_000));
    assert_eq!(toml::from_str::<Raw>(&run(&dir, &["--print-config"]).stdout).unwrap(), Raw::default());
}

#[test]
fn plans_that_are_missing_or_contradict_are_refused() {
    let dir = small();
    refused(&run(&dir, &[]), "nothing says which ports to sweep", "--assignments FILE");
    let both = run(&dir, &["--net", "net.p", "--assignments", "plan.toml", "--simulate", "net.p"]);
    refused(&both, "both an assignments file and a net file", "give either --assignments or --net");
    let missing = run(&dir, &["--assignments", "plan.toml", "--simulate", "net.p"]);
    refused(&missing, "plan.toml: cannot be read\ncause: ", "ibnet-gen -o FILE");
    refused(&run(&dir, &["--assignments", "net.p", "--simulate", "net.p"]), "net.p:1: ", "ibnet-gen");
    let made = run_program(GEN, dir.path(), &["--net", "net.p", "--samplers", "node00001,node00004", "-o", "plan.toml"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let unknown = run(&dir, &["--assignments", "plan.toml", "--simulate", "net.p", "--sampler", "node0004"]);
    refused(&unknown, "`node0004` is not in the assignments; there are: node00001, node00004", "did you mean `node00004`?");
}

#[test]
fn net_files_that_are_none_are_refused() {
    let plain = include_bytes!("data/fabrics/topograph-gb200-no-links.topo");
    let unlinked = b"SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'\n";
    for (bytes, message, help) in [
        (&b""[..], "net.p: the file is empty", "ibnetdiscover -p"),
        (&[0, 159, 146, 150, 10, 255, 0, 27], "net.p:1: ", "ibnetdiscover -p"),
        (plain, "net.p: no linked port in it", "whose link is up"),
        (unlinked, "net.p: no linked port in it", "whose link is up"),
    ] {
        let dir = with_net(bytes);
        refused(&run(&dir, &["--simulate", "net.p"]), message, help);
        refused(&run(&dir, &["--net", "net.p"]), message, help);
    }
    let dir = small();
    let missing = run(&dir, &["--simulate", "nosuch.p"]);
    refused(&missing, "nosuch.p: cannot be read\ncause: ", "ibnetdiscover -p");
    assert!(!missing.stderr.contains("standard input"), "it is not read here: {}", missing.stderr);
    refused(&run(&dir, &["--net", "nosuch.p"]), "nosuch.p: cannot be read\ncause: ", "ibnetdiscover -p");
    refused(&run(&dir, &["--net", "net.p", "--simulate", "nosuch.p"]), "nosuch.p: cannot be read", "ibnetdiscover -p");
    let nowhere = run(&dir, &["--simulate", "net.p", "-o", "nosuch/lines"]);
    refused(&nowhere, "cannot write to nosuch/lines: it cannot be opened\ncause: ", "-o FILE");
}

#[test]
fn the_plain_topology_is_swept_as_the_ports_report_is() {
    let swept = |file: &[u8]| {
        let dir = with_net(file);
        let run = run(&dir, &["--simulate", "net.p", "--net", "net.p", "--sweeps", "1", "--interval", "300ms"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let ports = run.stdout.lines().map(|text| strict::parse(text).unwrap()).filter_map(|line| match line {
            Line::Port(port) => Some((port.guid, port.port, port.lid, port.node, port.peer_guid, port.peer_port, port.peer, port.link)),
            _ => None,
        });
        let mut ports: Vec<_> = ports.collect();
        ports.sort();
        ports
    };
    let plain = swept(include_bytes!("data/fabrics/loginoff-fdr10-qdr.topo"));
    assert_eq!(plain, swept(include_bytes!("data/fabrics/loginoff-fdr10-qdr.reconstructed.p")));
    assert!(plain.len() > 300);
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_place() {
    let dir = small();
    let flags = run(&dir, &["--help"]).stdout;
    for (text, message, help) in [
        ("window = 8\nwindwo = 9\n", "ibnet.toml:2: there is no key windwo", "did you mean window? ibnet.toml.example"),
        ("[simulated]\nloss = 0\ndaed = []\n", "ibnet.toml:3: there is no key daed", "did you mean dead? ibnet.toml.example"),
        ("window = 8\n\n[simulated\n", "ibnet.toml:3: ", "ibnet.toml.example"),
        ("\nwindow = \"many\"\n", "ibnet.toml:2: invalid type", "ibnet.toml.example"),
        ("window = 129\n", "ibnet.toml:1: window: \"129\" is not a number from 1 to 128", "--window"),
        ("interval = \"1 parsec\"\n", "interval: \"1 parsec\" is not a duration", "--interval"),
        ("interval = \"1ms\"\n", "interval: \"1ms\" is not a duration from 10ms to 1h", "--interval"),
        ("groups = [\"base\", \"bass\"]\n", "groups: \"bass\" is not ", "--groups"),
        ("groups = []\n", "groups: \"\" is not ", "--groups"),
        ("force_groups = [\"bass\"]\n", "force_groups: \"bass\" is not ", "ibnet.toml"),
        ("identity = \"0s\"\n", "identity: \"0s\" is not a duration from 1s to 1day", "ibnet.toml"),
        ("grace = \"1ms\"\n", "grace: \"1ms\" is not a duration from 5ms to 10s", "--grace"),
        ("sl = 16\n", "sl: \"16\" is not ", "--sl"),
        ("pkey = \"zebra\"\n", "pkey: \"zebra\" is not ", "--pkey"),
        ("[simulated]\nloss = 1.5\n", "ibnet.toml:2: simulated.loss: \"1.5\" is not ", "ibnet.toml"),
        ("[simulated]\ndead = [\"nosuch\"]\n", "simulated.dead: there is no device \"nosuch\" in net.p", "as it stands in the net file"),
    ] {
        fs::write(dir.path().join("ibnet.toml"), text).unwrap();
        let told = run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p"]);
        refused(&told, message, help);
        if !text.contains("nosuch") {
            refused(&run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p", "--print-config"]), message, help);
        }
        for flag in told.stderr.split([' ', ';', '\n']).filter(|word| word.starts_with("--")) {
            assert!(flags.contains(&format!("{flag} <")), "no such flag: {}", told.stderr);
        }
    }
    fs::write(dir.path().join("ibnet.toml"), b"# \xff\n").unwrap();
    refused(&run(&dir, &["-c", "ibnet.toml", "--simulate", "net.p"]), "ibnet.toml", "ibnet.toml.example");
    refused(&run(&dir, &["-c", "nosuch.toml"]), "nosuch.toml: cannot be read\ncause: ", "-c FILE");
    let given = run(&dir, &["--simulate", "net.p", "--timeout", "2s"]);
    assert_eq!(given.code, 2, "a wrong argument");
    assert!(given.stderr.starts_with("error: timeout: \"2s\" is not a duration from 100us to 1s\nhelp: "), "{}", given.stderr);
}

#[test]
fn records_are_not_appended_to_what_is_read() {
    let dir = small();
    let net = fs::read(dir.path().join("net.p")).unwrap();
    refused(&run(&dir, &["--simulate", "net.p", "--sweeps", "1", "-o", "./net.p"]), "./net.p: is the net file too", "-o FILE");
    assert_eq!(fs::read(dir.path().join("net.p")).unwrap(), net);
}

#[test]
fn a_log_that_nobody_takes_disturbs_nothing() {
    let dir = small();
    let full = Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let args = ["--simulate", "net.p", "--interval", "100ms", "--sweeps", "2", "-o", "lines"];
    let status = Command::new(SWEEP).current_dir(dir.path()).args(args).env("RUST_LOG", "trace").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(Stream::read(&fs::read_to_string(dir.path().join("lines")).unwrap()).slots.len(), 2);
}

#[test]
fn wrong_arguments_are_told_with_code_2() {
    let dir = small();
    for args in [
        &["--nosuch"][..],
        &["net.p"],
        &["--simulate"],
        &["--simulate", "net.p", "--window", "many"],
        &["--simulate", "net.p", "--sweeps", "-1"],
        &["--simulate", "net.p", "--sweeps", "0"],
        &["--simulate", "net.p", "--once", "--sweeps", "2"],
        &["--simulate", "net.p", "--once", "-o", "lines"],
    ] {
        let run = run(&dir, args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
    let help = run(&dir, &["--help"]);
    assert!(help.code == 0 && help.stdout.contains("Examples:") && help.stdout.contains("Exit codes:"));
    let version = run(&dir, &["--version"]);
    assert_eq!((version.code, version.stdout), (0, format!("ibnet-sweep {}\n", env!("CARGO_PKG_VERSION"))));
}

#[cfg(not(feature = "umad"))]
#[test]
fn a_build_without_infiniband_says_so() {
    let dir = small();
    refused(&run(&dir, &["--net", "net.p"]), "built without InfiniBand", "--simulate FILE");
}

#[cfg(feature = "umad")]
#[test]
fn a_host_without_an_adapter_is_told_so() {
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut adapters| adapters.next().is_some()) {
        eprintln!("SKIPPED: this host has an HCA");
        return;
    }
    let dir = small();
    refused(&run(&dir, &["--net", "net.p"]), "this host has no InfiniBand adapter (HCA)", "--simulate");
}
