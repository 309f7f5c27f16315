//! Tests of the command `ibnet-sweep query` on a simulated fabric.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;

use ibnet::topology::synthetic::FatTree;
use ibnet::topology::{Device, Fabric, ports_report};
use ibnet_record::physical::{ReadValues, Value};
use ibnet_record::strict::{self, Line, Port};
use ibnet_record::types::NodeKind;
use tempfile::TempDir;

use crate::HANGS;

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// Returns a directory with a small fabric in `net.p`, and the fabric.
fn small_fabric() -> (TempDir, Fabric) {
    let dir = tempfile::tempdir().unwrap();
    let report = TREE.blueprint().ports_report();
    fs::write(dir.path().join("net.p"), &report).unwrap();
    (
        dir,
        ports_report::parse(report.as_bytes(), "net.p")
            .unwrap()
            .fabric,
    )
}

/// Returns the first linked device of a type.
fn first(fabric: &Fabric, kind: NodeKind) -> &Device {
    fabric
        .devices()
        .iter()
        .find(|device| device.kind == kind && device.linked_ports() > 0)
        .unwrap()
}

/// A finished run of the program.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs the program in a directory.
fn run(dir: &TempDir, args: &[&str]) -> Run {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    let output = command
        .current_dir(dir)
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Queries a port of the simulated fabric.
fn query(dir: &TempDir, lid: &str, port: &str, args: &[&str]) -> Run {
    run(
        dir,
        &[&["query", lid, port, "--simulate", "net.p"], args].concat(),
    )
}

/// Returns the only record of a successful run.
#[track_caller]
fn record(run: &Run) -> Port {
    assert_eq!(
        (run.code, run.stdout.lines().count()),
        (0, 1),
        "{}{}",
        run.stdout,
        run.stderr
    );
    match strict::parse(run.stdout.trim_end()).unwrap() {
        Line::Port(port) => *port,
        other => panic!("{other:?}"),
    }
}

/// Checks that a run failed with exit code 1, one message with a remedy, and no output.
#[track_caller]
fn failed(run: &Run, message: &str, help: &str) {
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert_eq!(
        run.stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .count(),
        1,
        "{}",
        run.stderr
    );
    let (error, remedy) = run
        .stderr
        .split_once("\nhelp: ")
        .unwrap_or_else(|| panic!("no help in {}", run.stderr));
    assert!(
        error.contains(message) && remedy.contains(help),
        "{}",
        run.stderr
    );
}

#[test]
fn counters_are_printed_group_by_group() {
    let (dir, fabric) = small_fabric();
    let switch = first(&fabric, NodeKind::Switch);
    let (port, _) = switch.linked().next().unwrap();
    let (lid, num) = (switch.lid.to_string(), port.num.to_string());
    let run = query(&dir, &lid, &num, &[]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let port_name = format!("Lid {lid} port {num}");
    let headings: Vec<_> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        headings,
        [
            format!("# Port extended counters: {port_name} (CapMask: 0x9300 CapMask2: 0x0000002)"),
            format!("# Port counters: {port_name} (CapMask: 0x9300)"),
            format!("# PortXmitDiscardDetails counters: {port_name}"),
            format!("# PortRcvErrorDetails counters: {port_name}"),
        ]
    );
    assert!(
        run.stdout
            .contains(&format!("\nPortSelect:......................{num}\n")),
        "{}",
        run.stdout
    );
    // A hexadecimal LID, as perfquery accepts it, and groups in the order of the flag.
    let run = query(
        &dir,
        &format!("{:#x}", switch.lid.0),
        &num,
        &["--groups", "xmtsl,smplctl"],
    );
    let headings: Vec<_> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with('#'))
        .collect();
    assert_eq!(
        headings,
        [
            format!("# PortXmitDataSL counters: {port_name}"),
            format!("# PortSamplesControl: {port_name}")
        ]
    );
}

#[test]
fn record_identifies_the_device() {
    let (dir, fabric) = small_fabric();
    for kind in [NodeKind::Switch, NodeKind::Hca] {
        let device = first(&fabric, kind);
        let (port, _) = device.linked().next().unwrap();
        let (lid, num) = (device.lid.to_string(), port.num.to_string());
        let record = record(&query(&dir, &lid, &num, &["--json", "--groups", "all"]));
        assert_eq!(
            (record.guid, record.lid, record.port, record.kind),
            (device.guid, device.lid, port.num, Some(kind))
        );
        assert_eq!(
            (record.node.as_str(), record.link),
            (&*device.name, port.rate.to_string())
        );
        assert_eq!(
            (
                record.link_source.as_str(),
                record.identity.as_str(),
                record.status.as_str(),
                record.peer
            ),
            ("live", "ok", "ok", None)
        );
        assert_eq!(record.slot, record.ts / 1_000_000_000);
        assert_eq!(
            record.counters.contains_key("sw_port_vl_congestion"),
            kind == NodeKind::Switch
        );
    }
}

#[test]
fn missing_groups_are_noted_and_the_others_printed() {
    let (dir, fabric) = small_fabric();
    let host = first(&fabric, NodeKind::Hca);
    let (lid, num) = (
        host.lid.to_string(),
        host.linked().next().unwrap().0.num.to_string(),
    );
    let run = query(&dir, &lid, &num, &["--groups", "xmtsl,base,swportvlcong"]);
    assert_eq!(
        (
            run.code,
            run.stdout
                .lines()
                .filter(|line| line.starts_with('#'))
                .count()
        ),
        (0, 1),
        "{}",
        run.stdout
    );
    let notes: Vec<_> = run.stderr.lines().collect();
    assert_eq!(
        notes,
        [
            "note: xmtsl: not supported by the device: its OptionMask does not have the group",
            "note: swportvlcong: not supported by the device: it is no switch, or its OptionMask does not have the group",
        ]
    );
    failed(
        &query(&dir, &lid, &num, &["--groups", "xmtsl"]),
        "none of the groups was answered",
        "notes above",
    );
    failed(
        &query(&dir, &lid, "9", &[]),
        "invalid value in attribute or modifier",
        "check that the device has this port",
    );
}

#[test]
fn service_level_from_the_path_record_is_not_supported_and_noted() {
    let (dir, fabric) = small_fabric();
    let lid = first(&fabric, NodeKind::Switch).lid.to_string();
    fs::write(dir.path().join("ibnet.toml"), "sl = \"path\"\n").unwrap();
    for args in [&["--sl", "path"][..], &["-c", "ibnet.toml"]] {
        let run = query(&dir, &lid, "1", args);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (
                0,
                "note: sl: the path record is not queried for a single port; service level 0 is used\n"
            )
        );
    }
    assert_eq!(query(&dir, &lid, "1", &["--sl", "0"]).stderr, "");
}

#[test]
fn silent_device_fails_with_a_remedy() {
    let (dir, fabric) = small_fabric();
    let quick = ["--timeout", "2ms"];
    for json in [&[][..], &["--json"]] {
        failed(
            &query(&dir, "49000", "1", &[&quick, json].concat()),
            "error: cannot query LID 49000: it does not answer",
            "check that the LID belongs to",
        );
    }
    let dead = first(&fabric, NodeKind::Hca);
    fs::write(
        dir.path().join("ibnet.toml"),
        format!(
            "simulate = \"net.p\"\n\n[simulated]\ndead = [{:?}]\n",
            dead.name
        ),
    )
    .unwrap();
    let run = run(
        &dir,
        &[
            "query",
            &dead.lid.to_string(),
            "1",
            "-c",
            "ibnet.toml",
            "--timeout",
            "2ms",
        ],
    );
    failed(&run, "does not answer", "ibnet-gen discover");
    assert!(!run.stderr.contains("note:"), "one message: {}", run.stderr);
}

#[test]
fn lost_requests_are_sent_again() {
    let (dir, fabric) = small_fabric();
    let lid = first(&fabric, NodeKind::Switch).lid.to_string();
    let complete_despite_loss = (1..=8).any(|seed| {
        fs::write(
            dir.path().join("ibnet.toml"),
            format!("simulate = \"net.p\"\n[simulated]\nloss = 0.2\nseed = {seed}\n"),
        )
        .unwrap();
        let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        command
            .current_dir(&dir)
            .env("RUST_LOG", "ibnet=trace")
            .timeout(HANGS);
        let output = command
            .args(["query", &lid, "1", "-c", "ibnet.toml", "--timeout", "20ms"])
            .output()
            .unwrap();
        let (text, log) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        let sent = log.lines().filter(|line| line.contains(" send ")).count();
        // Six requests without a loss: two attributes with masks, and four groups.
        output.status.success()
            && text.lines().filter(|line| line.starts_with('#')).count() == 4
            && sent > 6
    });
    assert!(complete_despite_loss);
}

/// Returns the values of a record of the physical layer.
fn physical(dir: &TempDir, lid: &str, port: &str, kind: &str) -> ReadValues {
    let run = query(dir, lid, port, &["--physical", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut records = run.stdout.lines().map(|line| strict::parse(line).unwrap());
    let found = records.find_map(|record| match record {
        Line::Physical(record) if record.head.kind == kind => Some(record.values),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {kind} in {}", run.stdout))
}

#[test]
fn both_ends_of_a_cable_have_the_same_serial_number() {
    let (dir, fabric) = small_fabric();
    for device in fabric.devices() {
        let (port, peer) = device.linked().next().unwrap();
        let ends = [(device.lid, port.num), (peer.lid, peer.port)];
        let [here, there] = ends.map(|(lid, port)| {
            physical(&dir, &lid.to_string(), &port.to_string(), "module")["vendor_sn"].clone()
        });
        assert_eq!(here, there);
    }
}

#[test]
fn physical_layer_is_printed_as_text_and_as_records() {
    let (dir, fabric) = small_fabric();
    let device = first(&fabric, NodeKind::Switch);
    let (lid, port) = (
        device.lid.to_string(),
        device.linked().next().unwrap().0.num.to_string(),
    );
    let run = query(&dir, &lid, &port, &["--physical"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // EDR links have no retransmission.
    assert!(
        run.stderr.starts_with("note: plr: refused"),
        "{}",
        run.stderr
    );
    for part in [
        &*format!("# Physical layer: Lid {lid} port {port}\n"),
        "raw_ber_since_clear:",
        "phy_raw_errors_lane:",
        &*format!("# Module: Lid {lid} port {port}\n"),
        "vendor_name:...........................Simulated\n",
    ] {
        assert!(run.stdout.contains(part), "{part} is not in {}", run.stdout);
    }
    let values = physical(&dir, &lid, &port, "phy");
    // 30 hours at the signalling rate of 4xEDR, and the time of this program.
    let Value::Integer(bits) = values["phy_received_bits"] else {
        panic!("{values:?}")
    };
    let hours = bits as f64 / (4.0 * 25.781_25e9) / 3600.0;
    assert!((30.0..40.0).contains(&hours), "{hours}");
    failed(
        &query(&dir, &lid, "99", &["--physical"]),
        "cannot read the physical layer of port 99",
        "only devices of NVIDIA give it",
    );
}

#[test]
fn port_info_is_printed_for_both_kinds_of_devices() {
    let (dir, fabric) = small_fabric();
    for kind in [NodeKind::Switch, NodeKind::Hca] {
        let device = first(&fabric, kind);
        let (port, _) = device.linked().next().unwrap();
        let run = query(
            &dir,
            &device.lid.to_string(),
            &port.num.to_string(),
            &["--portinfo"],
        );
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(
            run.stdout.starts_with(&format!(
                "# Port info: Lid {} port {}\n",
                device.lid, port.num
            )),
            "{}",
            run.stdout
        );
        let link = format!("Link:............................{}\n", port.rate);
        for line in [
            &*link,
            "LinkState:.......................Active\n",
            "PkeyViolations:..................0\n",
            "LinkSpeedExtActive:",
        ] {
            assert!(run.stdout.contains(line), "{line} is not in {}", run.stdout);
        }
        assert!(!run.stdout.contains("PortXmitData"));
    }
    let lid = first(&fabric, NodeKind::Hca).lid.to_string();
    failed(
        &query(&dir, &lid, "9", &["--portinfo"]),
        "cannot read PortInfo of port 9",
        "check that the device has this LID",
    );
    let quick = ["--portinfo", "--timeout", "5ms"];
    failed(
        &query(&dir, "49000", "1", &quick),
        "no reply",
        "check that the device has this LID",
    );
}

#[test]
fn link_with_the_speed_of_the_vendor_is_named() {
    let (dir, fabric) = small_fabric();
    let device = first(&fabric, NodeKind::Switch);
    let (port, _) = device.linked().next().unwrap();
    for speed in ["QDR", "FDR10"] {
        let net = TREE.blueprint().ports_report();
        let net = net.replace(&format!(" {} ", port.rate.speed), &format!(" {speed} "));
        fs::write(dir.path().join("net.p"), net).unwrap();
        let (lid, num) = (device.lid.to_string(), port.num.to_string());
        let run = query(&dir, &lid, &num, &["--portinfo"]);
        let link = format!("Link:............................4x{speed}\n");
        assert!(run.stdout.contains(&link), "{}", run.stdout);
        // This is what PortInfo has.
        let active = "LinkSpeedActive:.................10.0 Gbps";
        assert!(run.stdout.contains(active), "{}", run.stdout);
    }
}

#[test]
fn invalid_arguments_fail_with_exit_code_2() {
    let (dir, _) = small_fabric();
    for (lid, port) in [
        ("0", "1"),
        ("70000", "1"),
        ("49152", "1"),
        ("0xffff", "1"),
        ("leaf01", "1"),
        ("1", "300"),
        ("1", "255"),
        ("1", "-1"),
    ] {
        let run = query(&dir, lid, port, &[]);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{lid} {port}: {}",
            run.stderr
        );
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
    for args in [
        &["query", "1"][..],
        &[
            "query",
            "1",
            "1",
            "--simulate",
            "net.p",
            "--groups",
            "vlopdat",
        ],
        &["query", "1", "1", "--simulate", "net.p", "--sl", "16"],
        &["query", "1", "1", "--simulate", "net.p", "--pkey", "key"],
        &["query", "1", "1", "--simulate", "net.p", "--timeout", "0s"],
        &["--simulate", "net.p", "query", "1", "1"],
        &["query", "1", "1", "--interval", "1s"],
        &[
            "query",
            "1",
            "1",
            "--simulate",
            "net.p",
            "--portinfo",
            "--json",
        ],
    ] {
        let run = run(&dir, args);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{args:?}: {}",
            run.stderr
        );
    }
    let help = run(&dir, &["query", "--help"]);
    assert!(
        help.code == 0 && help.stdout.contains("Examples:") && help.stdout.contains("Exit codes:"),
        "{}",
        help.stdout
    );
}
