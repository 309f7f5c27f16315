//! The programs on the real software stack: libibumad, opensm, ibnetdiscover and perfquery, with
//! ibsim instead of the kernel.
//!
//! ibsim reports a lost MAD at once. So the tests in this folder check no times. Tests of times use
//! the simulated fabric. On a busy machine ibsim answers late, so the sweeps have long timeouts,
//! and go on until the records show what a test looks for.
#![cfg(feature = "umad")]

mod check;
mod cleared;
mod discover;
mod fabric;
mod identity;
mod query;
mod reload;
mod routes;
mod subnet_manager;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ibnet::assignments::Assignments;
use ibnet::topology::ports_report::{self, NetFile};
use ibnet::topology::synthetic::FatTree;
use ibnet_record::strict::{self, Line, Port};
use ibnet_record::types::{Guid, PortNum};

use fabric::{Ibsim, Running, available, lines, signal, wait_for, wait_until};

const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");
const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");

/// 416 linked ports: 144 hosts on 8 leaves under 4 spines.
const TREE: FatTree = FatTree {
    leaves: 8,
    hosts: 18,
    spines: 4,
    trunk: 2,
    radix: 36,
};
const SAMPLERS: [&str; 4] = ["node00001", "node00037", "node00073", "node00109"];

/// Runs `ibnetdiscover -p` and writes its output to `net.p`.
fn discover(ibsim: &Ibsim, node: &str) -> NetFile {
    let discovered = ibsim.run(node, "ibnetdiscover", ["-p"]);
    assert!(discovered.status.success());
    fs::write(ibsim.path("net.p"), &discovered.stdout).expect("written");
    ports_report::parse(&discovered.stdout, "net.p").expect("ibnetdiscover prints a valid report")
}

/// Arguments of a sweep with long timeouts: a late reply counts, however busy the machine is.
const PATIENT: [&str; 6] = ["--interval", "500ms", "--timeout", "500ms", "--grace", "3s"];

fn read(ibsim: &Ibsim, file: &str) -> Vec<Line> {
    let text = fs::read_to_string(ibsim.path(file)).expect("the sweep wrote the file");
    text.lines()
        .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")))
        .collect()
}

/// Returns the records of a file that is being written.
fn read_now(ibsim: &Ibsim, file: &str) -> Vec<Line> {
    let text = fs::read_to_string(ibsim.path(file)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")))
        .collect()
}

/// Starts a sweep into a file, and stops it as soon as its records satisfy `is_done`. Returns them.
fn sweep_until(
    ibsim: &Ibsim,
    command: &mut Command,
    file: &str,
    what: &str,
    is_done: impl Fn(&[Line]) -> bool,
) -> Vec<Line> {
    let running = Running::start(command.args(["-o", file]));
    wait_until(what, || is_done(&read_now(ibsim, file)));
    running.stop();
    read(ibsim, file)
}

/// Returns whether the device has answered all queries of the record.
fn is_answered(port: &&Port) -> bool {
    ["ok", "late"].contains(&port.status.as_str())
}

fn ports(lines: &[Line]) -> impl Iterator<Item = &Port> {
    lines.iter().filter_map(|line| {
        if let Line::Port(port) = line {
            Some(&**port)
        } else {
            None
        }
    })
}

/// Returns the values that `perfquery` prints, by field name.
fn perfquery(ibsim: &Ibsim, lid: u16, port: u8, option: &str) -> BTreeMap<String, u64> {
    let (lid, port) = (lid.to_string(), port.to_string());
    let args: Vec<&str> = [option, &lid, &port]
        .into_iter()
        .filter(|arg| !arg.is_empty())
        .collect();
    let output = ibsim.run("node00144", "perfquery", &args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), value.trim_start_matches('.').parse().ok()?))
    };
    text.lines().filter_map(field).collect()
}

/// Error counters: perfquery's name, the name in records, and the value that the test sets.
const ERRORS: [(&str, &str, u64); 12] = [
    ("SymbolErrorCounter", "symbol_error_counter", 17),
    (
        "LinkErrorRecoveryCounter",
        "link_error_recovery_counter",
        255,
    ),
    ("LinkDownedCounter", "link_downed_counter", 3),
    ("PortRcvErrors", "port_rcv_errors", 65535),
    (
        "PortRcvRemotePhysicalErrors",
        "port_rcv_remote_physical_errors",
        4660,
    ),
    (
        "PortRcvSwitchRelayErrors",
        "port_rcv_switch_relay_errors",
        1,
    ),
    ("PortXmitDiscards", "port_xmit_discards", 99),
    ("PortXmitConstraintErrors", "port_xmit_constraint_errors", 8),
    ("PortRcvConstraintErrors", "port_rcv_constraint_errors", 7),
    (
        "LocalLinkIntegrityErrors",
        "local_link_integrity_errors",
        15,
    ),
    (
        "ExcessiveBufferOverrunErrors",
        "excessive_buffer_overrun_errors",
        6,
    ),
    ("VL15Dropped", "vl15_dropped", 513),
];

#[test]
fn four_samplers_read_every_port_of_a_fat_tree() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), "node00144", preload);
    let net = discover(&ibsim, "node00001");
    assert_eq!((net.linked_lines, net.remarks.len()), (416, 0));
    let made = ibsim.run(
        "node00001",
        GEN,
        [
            "--net",
            "net.p",
            "--samplers",
            &SAMPLERS.join(","),
            "-o",
            "plan.toml",
        ],
    );
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    for (name, _, value) in ERRORS {
        ibsim.type_line(&format!(
            "PerformanceSet \"S-leaf03\"[5] PortCounters.{name}={value}"
        ));
        ibsim.type_line(&format!(
            "PerformanceSet \"H-node00042\"[1] PortCounters.{name}={}",
            value / 2
        ));
    }
    ibsim.settle();

    let start = |sampler: &str| {
        let args = [
            "--assignments",
            "plan.toml",
            "--sampler",
            sampler,
            "-o",
            &format!("{sampler}.jsonl"),
        ];
        Running::start(ibsim.command(sampler, SWEEP).args(args).args(PATIENT))
    };
    let running = SAMPLERS.map(start);
    let plan = Assignments::read(&ibsim.path("plan.toml"))
        .expect("ibnet-gen wrote a valid file")
        .assignments;
    let planned = |sampler: &str| -> BTreeSet<(Guid, PortNum)> {
        let blocks = plan.of_host(sampler).expect("the sampler is in the plan");
        let devices = blocks.iter().flat_map(|block| &block.devices);
        devices
            .flat_map(|device| device.ports.iter().map(|port| (device.guid, port.num)))
            .collect()
    };
    for sampler in SAMPLERS {
        let mut missing = planned(sampler);
        wait_until("an answer of each port", || {
            ports(&read_now(&ibsim, &format!("{sampler}.jsonl")))
                .filter(is_answered)
                .for_each(|port| {
                    missing.remove(&(port.guid, port.port));
                });
            missing.is_empty()
        });
    }
    running.into_iter().for_each(Running::stop);
    let mut swept: BTreeSet<(Guid, PortNum)> = BTreeSet::new();
    for sampler in SAMPLERS {
        let lines = read(&ibsim, &format!("{sampler}.jsonl"));
        let planned = planned(sampler);
        let mut recorded: BTreeMap<u64, Vec<(Guid, PortNum)>> = BTreeMap::new();
        for port in ports(&lines) {
            recorded
                .entry(port.slot)
                .or_default()
                .push((port.guid, port.port));
        }
        for (slot, mut recorded) in recorded {
            recorded.sort_unstable();
            assert_eq!(
                recorded,
                planned.iter().copied().collect::<Vec<_>>(),
                "slot {slot} of {sampler}"
            );
        }
        assert!(swept.is_disjoint(&planned));
        swept.extend(planned);
    }
    let linked: BTreeSet<_> = net
        .fabric
        .devices()
        .iter()
        .flat_map(|device| device.linked().map(|(port, _)| (device.guid, port.num)))
        .collect();
    assert_eq!(swept, linked, "every linked port has one sampler");

    let all: Vec<Line> = SAMPLERS
        .iter()
        .flat_map(|sampler| read(&ibsim, &format!("{sampler}.jsonl")))
        .collect();
    for (name, num, half) in [("leaf03", 5, false), ("node00042", 1, true)] {
        let of_port = |port: &&Port| {
            port.node.starts_with(name) && port.port == PortNum(num) && is_answered(port)
        };
        let record = ports(&all)
            .filter(of_port)
            .last()
            .unwrap_or_else(|| panic!("{name} has no complete record"));
        let printed = perfquery(&ibsim, record.lid.0, num, "");
        for (field, ours, value) in ERRORS {
            let value = if half { value / 2 } else { value };
            assert_eq!(
                (record.counter(ours), printed[field]),
                (Some(value), value),
                "{field} of {name}"
            );
        }
    }
}

#[test]
fn details_and_wide_counters_agree_with_perfquery() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 1,
        hosts: 3,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let mut ibsim = Ibsim::start(&tree.blueprint(), "node00003", preload);
    discover(&ibsim, "node00001");
    let details = [
        (
            "PortRcvErrorDetails",
            "PortLocalPhysicalErrors",
            "port_local_physical_errors",
            "-E",
            11,
        ),
        (
            "PortRcvErrorDetails",
            "PortLoopingErrors",
            "port_looping_errors",
            "-E",
            65535,
        ),
        (
            "PortXmitDiscardDetails",
            "PortInactiveDiscards",
            "port_inactive_discards",
            "-D",
            0x1234,
        ),
        (
            "PortXmitDiscardDetails",
            "PortSwLifetimeLimitDiscards",
            "port_sw_lifetime_limit_discards",
            "-D",
            1,
        ),
    ];
    for (attribute, field, _, _, value) in details {
        ibsim.type_line(&format!(
            "PerformanceSet \"H-node00002\"[1] {attribute}.{field}={value}"
        ));
    }
    // The value is in words, a record has octets. No other MAD uses the port of this host, so the
    // value stays.
    ibsim.type_line(
        "PerformanceSet \"H-node00002\"[1] PortCountersExtended.PortXmitData=1099511627776",
    );
    ibsim.settle();
    let mut command = ibsim.command("node00001", SWEEP);
    command
        .args(["--net", "net.p", "--groups", "extended,base,xmtdisc,rcverr"])
        .args(PATIENT);
    let of_host = |port: &&Port| port.node.starts_with("node00002") && is_answered(port);
    let all = sweep_until(
        &ibsim,
        &mut command,
        "lines.jsonl",
        "an answer of the host",
        |lines| ports(lines).any(|port| of_host(&port)),
    );
    let record = ports(&all).filter(of_host).last().expect("a record");
    for (_, field, ours, option, value) in details {
        let output = ibsim.run(
            "node00003",
            "perfquery",
            [option, &record.lid.to_string(), "1"],
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let printed = text
            .lines()
            .find(|line| line.starts_with(&format!("{field}:")))
            .unwrap_or_else(|| panic!("{text}"));
        assert!(printed.ends_with(&format!(".{value}")), "{printed}");
        assert_eq!(record.counter(ours), Some(value), "{field}");
    }
    let sent = record
        .counter("port_xmit_data_bytes")
        .expect("the record has the counter");
    let one_mad_each = 288;
    assert!(
        (4 << 40..(4 << 40) + 1000 * one_mad_each).contains(&sent),
        "words are not octets: {sent}"
    );
}

#[test]
fn dead_host_is_reported_and_other_hosts_are_swept() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 2,
        hosts: 4,
        spines: 1,
        trunk: 1,
        radix: 8,
    };
    let mut ibsim = Ibsim::start(&tree.blueprint(), "node00008", preload);
    let net = discover(&ibsim, "node00001");
    ibsim.type_line("Unlink \"H-node00006\"");
    ibsim.settle();
    let of_gone = |port: &&Port| port.node.starts_with("node00006");
    let others = net
        .fabric
        .devices()
        .iter()
        .filter(|device| device.host() != "node00006");
    let others: usize = others.map(|device| device.linked().count()).sum();
    let is_reported =
        |line: &Line| matches!(line, Line::Event(event) if event.event == "unreachable");
    let mut command = ibsim.command("node00001", SWEEP);
    command.args(["--net", "net.p"]).args(PATIENT);
    let all = sweep_until(
        &ibsim,
        &mut command,
        "lines.jsonl",
        "the event `unreachable` and answers of all others",
        |lines| {
            let answered: BTreeSet<_> = ports(lines)
                .filter(|port| is_answered(port) && !of_gone(port))
                .map(|port| (port.guid, port.port))
                .collect();
            lines.iter().any(is_reported) && answered.len() == others
        },
    );
    // On a busy machine, a slot can end before the port is queried.
    let gone: BTreeSet<_> = ports(&all)
        .filter(of_gone)
        .map(|port| port.status.as_str())
        .collect();
    assert!(
        gone.contains("timeout") && gone.is_subset(&BTreeSet::from(["timeout", "skipped"])),
        "{gone:?}"
    );
    assert!(
        ports(&all)
            .filter(|port| port.node.starts_with("node00006"))
            .all(|port| port.counters.is_empty()),
        "a port that does not answer has no counters"
    );
    // This machine has another name.
    assert!(
        ports(&all).all(|port| (port.hops == Some(0)) == port.node.starts_with("node00001")),
        "the sampler finds itself in the net file by the GUID of its HCA port"
    );
}

#[test]
fn stop_is_clean_and_disconnects_from_the_simulator() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 1,
        hosts: 2,
        spines: 1,
        trunk: 1,
        radix: 4,
    };
    let ibsim = Ibsim::start(&tree.blueprint(), "node00002", preload);
    discover(&ibsim, "node00001");
    // ibsim has ten slots for clients. A client that does not disconnect keeps its slot.
    for signal in ["TERM", "INT"].iter().cycle().take(12) {
        let mut command = ibsim.command("node00001", SWEEP);
        let mut running = Running::start(
            command
                .args(["--net", "net.p", "--interval", "20ms"])
                .stdout(Stdio::piped()),
        );
        let output = lines(running.0.stdout.take().expect("piped"));
        wait_for(&output, "\"sweep\"", "ibnet-sweep");
        running.signal(signal);
        let ended = running.0.wait().expect("the program ends");
        assert!(ended.success(), "{ended} after SIG{signal}");
        let last: Vec<String> = output.into_iter().collect();
        let kinds: Vec<Line> = last
            .iter()
            .map(|text| strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")))
            .collect();
        assert!(
            matches!(kinds.last(), Some(Line::Histogram(_))),
            "the last record is not a histogram"
        );
    }
}

/// Returns whether the thread that sends MADs waits inside a write.
fn is_sender_blocked(program: &Running) -> bool {
    let thread_is_blocked = |task: &Path| {
        let read = |file: &str| fs::read_to_string(task.join(file)).unwrap_or_default();
        // The number of the system call, or "running".
        let call = read("syscall")
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok());
        read("comm").starts_with("mads-") && call == Some(libc::SYS_write)
    };
    let tasks = fs::read_dir(format!("/proc/{}/task", program.0.id())).expect("the program runs");
    tasks.flatten().any(|task| thread_is_blocked(&task.path()))
}

/// The simulator is stopped, so the program's thread that sends MADs blocks inside a write.
///
/// On a busy machine the simulator can block the thread before: it does not read while its client
/// reads no replies, and the thread that would read them waits for the simulator.
#[test]
fn stop_ends_a_blocked_sender() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), "node00144", preload);
    discover(&ibsim, "node00001");
    let mut command = ibsim.command("node00001", SWEEP);
    command.args([
        "--net",
        "net.p",
        "--interval",
        "50ms",
        "--window",
        "128",
        "--grace",
        "5ms",
        "-o",
        "lines.jsonl",
    ]);
    let mut running = Running::start(command.stderr(Stdio::piped()));
    let log = lines(running.0.stderr.take().expect("piped"));
    let records = || fs::read_to_string(ibsim.path("lines.jsonl")).unwrap_or_default();
    // The output file shows that the sweep runs.
    wait_until("a sweep or a blocked sender", || {
        assert!(
            running
                .0
                .try_wait()
                .expect("the child can be waited for")
                .is_none(),
            "the program ended too early"
        );
        !records().is_empty() || is_sender_blocked(&running)
    });
    signal("STOP", ibsim.id());
    // MADs time out until the queue is full. Then the sender blocks for good, or has lost the
    // transport.
    wait_until("a blocked sender", || {
        is_sender_blocked(&running) || records().contains("\"umad_lost\"")
    });
    running.signal("TERM");
    let ended = running.0.wait().expect("the program ends");
    let log: Vec<String> = log.into_iter().collect();
    signal("CONT", ibsim.id());
    assert!(matches!(ended.code(), Some(0 | 4)), "{ended}: {log:?}");
    assert!(log.iter().any(|line| line.contains("stopping")), "{log:?}");
}

/// The simulator ends. Then every call on its device fails with ENOTCONN. The device can be opened
/// again, but stays unconnected.
#[test]
fn lost_device_does_not_end_the_sweep() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 1,
        hosts: 2,
        spines: 1,
        trunk: 1,
        radix: 4,
    };
    let ibsim = Ibsim::start(&tree.blueprint(), "node00002", preload);
    discover(&ibsim, "node00001");
    let mut command = ibsim.command("node00001", SWEEP);
    let mut running = Running::start(
        command
            .args(["--net", "net.p", "--interval", "50ms"])
            .stdout(Stdio::piped()),
    );
    let output = lines(running.0.stdout.take().expect("piped"));
    wait_for(&output, "\"sweep\"", "ibnet-sweep");
    signal("KILL", ibsim.id());
    for what in ["\"umad_lost\"", "\"send_error\"", "\"sweep\"", "\"sweep\""] {
        wait_for(&output, what, "ibnet-sweep");
    }
    running.stop();
    let mut rest = output
        .into_iter()
        .map(|text| strict::parse(&text).unwrap_or_else(|error| panic!("{error} in {text}")));
    assert!(
        rest.all(|line| !matches!(line, Line::Port(port) if port.status != "send_error")),
        "a MAD was sent after the loss"
    );
}

#[test]
fn unusable_hca_is_refused_with_a_remedy() {
    let Some(preload) = available() else { return };
    let tree = FatTree {
        leaves: 1,
        hosts: 2,
        spines: 1,
        trunk: 1,
        radix: 4,
    };
    let ibsim = Ibsim::start(&tree.blueprint(), "node00002", preload);
    discover(&ibsim, "node00001");
    for (args, output) in [
        (
            vec!["--ca", "mlx5_7"],
            "cannot use HCA port mlx5_7: this host does not have it",
        ),
        (vec!["--pkey", "0x8001"], "cannot use P_Key 0x8001 on "),
    ] {
        let done = ibsim.run(
            "node00001",
            SWEEP,
            ["--net", "net.p", "--sweeps", "1"].into_iter().chain(args),
        );
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{text}");
        assert!(text.contains(output) && text.contains("help:"), "{text}");
    }
}
