//! Tests of `ibnet-sweep check` on a simulated fabric.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::Path;

use ibnet::topology::synthetic::FatTree;
use tempfile::TempDir;

use crate::HANGS;

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

/// Returns a directory with a small fabric in `net.p` and a plan for two samplers in `plan.toml`.
fn planned() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), TREE.blueprint().ports_report()).unwrap();
    let args = [
        "--net",
        "net.p",
        "--samplers",
        "node00001,node00004",
        "-o",
        "plan.toml",
    ];
    let made = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir.path())
        .args(args)
        .output()
        .unwrap();
    assert!(made.status.success());
    dir
}

/// Runs a check; returns the exit code and standard output, whose lines must be aligned.
fn check(dir: &Path, args: &[&str]) -> (i32, String) {
    let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    let output = command
        .current_dir(dir)
        .arg("check")
        .args(args)
        .timeout(HANGS)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // A result, two blanks, the step, two blanks; or a remedy; or the sums.
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.contains(" failed, "))
    {
        let word = line.get(..4).unwrap_or_default();
        assert!(
            ["ok  ", "warn", "fail", "skip", "    "].contains(&word)
                && line.get(4..6) == Some("  "),
            "{line:?}"
        );
        assert!(line.get(19..21) == Some("  "), "{line:?} is not aligned");
    }
    (output.status.code().unwrap(), text)
}

const ALL: [&str; 6] = [
    "--simulate",
    "net.p",
    "--assignments",
    "plan.toml",
    "--sampler",
    "node00001",
];

/// Returns the lines that start with a text.
fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines()
        .filter(|line| line.starts_with(start))
        .collect()
}

#[test]
fn clearing_is_stated_with_the_load_up_to_which_totals_are_exact() {
    let dir = planned();
    let of = |interval: &str| {
        let text = format!(
            "groups = [\"extended\", \"xmtsl\"]\nclear = [\"xmtsl\"]\ninterval = \"{interval}\"\n"
        );
        fs::write(dir.path().join("ibnet.toml"), text).unwrap();
        let (code, text) = check(dir.path(), &[&ALL[..], &["-c", "ibnet.toml"]].concat());
        assert_eq!(code, 0, "{text}");
        text
    };
    let short = of("1s");
    assert_eq!(
        lines(&short, "ok    clear          on: PortXmitDataSL").len(),
        1,
        "{short}"
    );
    let long = of("5s");
    assert!(
        long.contains("\nwarn  clear ") && long.contains(" exact up to 25 % of their rate\n"),
        "{long}"
    );
}

#[test]
fn queries_for_the_physical_layer_are_stated_with_their_budget() {
    let dir = planned();
    let of = |keys: &str| {
        let text = format!("[physical]\nenabled = true\n{keys}\n");
        fs::write(dir.path().join("ibnet.toml"), text).unwrap();
        let (code, text) = check(dir.path(), &[&ALL[..], &["-c", "ibnet.toml"]].concat());
        assert_eq!(code, 0, "{text}");
        text
    };
    // 10 ports: 8 MADs in two minutes each, and 3 in 5; 2 switches: 17 MADs in a minute each, with
    // 4 sensors and 8 fans; 3 HCAs: 2 MADs in 5 minutes each.
    let usual = of("budget = 0.5");
    let found = lines(
        &usual,
        "ok    physical       on: 1.4 Gets of class 0x0A a second",
    );
    assert_eq!(found.len(), 1, "{usual}");
    let often = of("every = \"1s\"");
    assert!(
        often.contains("\nwarn  physical ") && often.contains("times as long as configured"),
        "{often}"
    );
}

#[test]
fn ports_with_planes_are_stated_if_registers_are_read() {
    let dir = planned();
    let of = |text: &str| {
        fs::write(dir.path().join("ibnet.toml"), text).unwrap();
        let (code, text) = check(dir.path(), &[&ALL[..], &["-c", "ibnet.toml"]].concat());
        assert_eq!(code, 0, "{text}");
        text
    };
    let four = of("[physical]\nenabled = true\n[simulated]\nplanes = 4\n");
    let line =
        "ok    planes         10 ports of 5 devices have 4 planes each, which count as one port;";
    assert_eq!(lines(&four, line).len(), 1, "{four}");
    for none in ["[physical]\nenabled = true\n", "[simulated]\nplanes = 4\n"] {
        assert_eq!(lines(&of(none), "ok    planes"), Vec::<&str>::new());
    }
}

#[test]
fn every_step_is_ok_if_nothing_is_wrong() {
    let dir = planned();
    let (code, text) = check(dir.path(), &ALL);
    assert_eq!((code, lines(&text, "ok    ").len()), (0, 10), "{text}");
    assert!(
        text.ends_with("\n0 failed, 0 warned, 10 ok\n")
            && text.contains(" devices for node00001, SHA-256 "),
        "{text}"
    );
    let plan = fs::read_to_string(dir.path().join("plan.toml")).unwrap();
    let devices_of = |block: &str| block.matches("[[sampler.device]]").count();
    let devices = devices_of(plan.split("[[sampler]]").nth(1).unwrap());
    let (code, text) = check(dir.path(), &[&ALL[..], &["-v"]].concat());
    assert_eq!(
        (code, lines(&text, "ok    device  ").len()),
        (0, devices),
        "{text}"
    );
    assert!(
        text.contains(&format!("{devices} of {devices} answer NodeInfo")),
        "{text}"
    );
    let (code, text) = check(
        dir.path(),
        &[
            "--simulate",
            "net.p",
            "--assignments",
            "plan.toml",
            "--sampler",
            "all",
        ],
    );
    assert!(
        code == 0 && text.contains(" devices for 2 samplers in 2 blocks"),
        "{text}"
    );
}

/// The plan has a link that is cut. One of the two uplinks is on the first routes.
#[test]
fn check_query_and_verify_succeed_if_the_first_route_is_cut() {
    let dir = planned();
    let keys = "assignments = \"plan.toml\"\nsampler = \"node00001\"\nsmp = \"directed\"\n";
    let text = format!("{keys}[simulated]\nsmps_by_lid = false\n");
    fs::write(dir.path().join("ibnet.toml"), text).unwrap();
    let net = fs::read_to_string(dir.path().join("net.p")).unwrap();
    let lid = |text: &str| text.split_whitespace().nth(1).unwrap().to_owned();
    for spine in ["spine01", "spine02"] {
        let (mut cut, mut far) = (String::new(), String::new());
        for line in net.lines() {
            let of = |name: &str| line.contains(&format!("'{name}"));
            let is_cut = of("leaf01") && of(spine);
            if of("leaf02") && of(spine) {
                far = lid(line.split(" - ").find(|end| end.contains("SW")).unwrap());
            }
            let (own, name) = (line.split(" 4x ").next().unwrap(), line.split('\'').nth(1));
            match name.filter(|_| is_cut) {
                Some(name) => cut.push_str(&format!("{own} 4x SDR{:36}'{name}'\n", "")),
                None => cut.push_str(&format!("{line}\n")),
            }
        }
        assert!(!far.is_empty() && cut.lines().count() == net.lines().count());
        fs::write(dir.path().join("cut.p"), cut).unwrap();
        let common = ["-c", "ibnet.toml", "--simulate", "cut.p"];
        for command in [
            vec!["check"],
            vec!["query", &far, "1", "--portinfo"],
            vec!["verify"],
        ] {
            let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
            let program = program.current_dir(dir.path()).args(&command).args(common);
            let output = program.timeout(HANGS).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(
                output.status.success(),
                "{command:?} without {spine}: {text}"
            );
            let is_whole = match command[0] {
                "check" => !text.contains("warn  ") && text.contains("0 devices are asked by LID"),
                "verify" => text.contains("\nequal: ") && !text.contains("without an answer"),
                _ => text.contains("4xNDR") || text.contains("Link:"),
            };
            assert!(is_whole, "{command:?} without {spine}: {text}");
        }
    }
}

#[test]
fn vendor_report_has_registers_of_each_model_and_names_what_is_silent() {
    let dir = planned();
    fs::write(
        dir.path().join("ibnet.toml"),
        "[simulated]\ndead = [\"node00005\"]\n",
    )
    .unwrap();
    let args = [
        "verify",
        "--vendor",
        "-c",
        "ibnet.toml",
        "--simulate",
        "net.p",
    ];
    // The command ends after a minute, so that a slow machine can need another run.
    let text = loop {
        let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
        let program = program.current_dir(dir.path()).args(args);
        let program = program.args(["--report", "vendor.json"]).timeout(HANGS);
        let output = program.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        if !text.contains(" in time") {
            break text;
        }
    };
    assert!(
        text.contains("no reply to NodeInfo from 1 devices, to GeneralInfo from 0\n"),
        "{text}"
    );
    let report = fs::read_to_string(dir.path().join("vendor.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let devices = report["devices"].as_array().unwrap();
    assert!(devices.len() >= 2, "a switch and an HCA: {text}");
    assert!(
        text.contains(&format!("\n{} devices, ", devices.len())),
        "{text}"
    );
    for device in devices {
        let replies = device["replies"].as_array().unwrap();
        assert!(
            replies.iter().any(|reply| reply["octets"] != ""),
            "{device}"
        );
    }
    // No name of the site is in the report.
    assert!(!report.to_string().contains("node0") && !report.to_string().contains("leaf"));
}

#[test]
fn dead_host_and_replaced_device_are_reported_with_remedies() {
    let dir = planned();
    let whole = ["--simulate", "net.p", "-c", "ibnet.toml"];
    fs::write(
        dir.path().join("ibnet.toml"),
        "[simulated]\ndead = [\"node00005\"]\n",
    )
    .unwrap();
    let (code, text) = check(dir.path(), &whole);
    let failed = lines(&text, "fail  ");
    assert!(
        code == 1
            && failed.len() == 1
            && failed[0].starts_with("fail  device         node00005 mlx5_0 (LID "),
        "{text}"
    );
    assert!(
        failed[0].ends_with(": does not answer")
            && text.contains("\n      remedy:        check that it is up"),
        "{text}"
    );
    assert!(text.contains("9 of 10 answer"), "{text}");
    // The plan has another GUID at the LID of a switch.
    let plan = fs::read_to_string(dir.path().join("plan.toml")).unwrap();
    let guid = plan
        .lines()
        .find_map(|line| line.trim().strip_prefix("guid = \"")?.strip_suffix('"'))
        .unwrap();
    fs::write(
        dir.path().join("plan.toml"),
        plan.replace(guid, "0x00000000deadbeef"),
    )
    .unwrap();
    let (code, text) = check(dir.path(), &ALL);
    assert!(
        code == 1
            && text.contains(&format!(
                ", 0x00000000deadbeef): another device answers at this LID: {guid} `"
            )),
        "{text}"
    );
    assert!(text.contains("the assignments are older than the fabric: run `ibnet-gen discover` and `ibnet-gen` again"), "{text}");
}

#[test]
fn devices_with_the_same_fault_are_counted_and_share_a_remedy() {
    let dir = planned();
    let tree = FatTree {
        leaves: 2,
        hosts: 6,
        spines: 1,
        trunk: 1,
        radix: 16,
    };
    fs::write(dir.path().join("net.p"), tree.blueprint().ports_report()).unwrap();
    let dead: Vec<String> = (1..=12).map(|host| format!("\"node{host:05}\"")).collect();
    fs::write(
        dir.path().join("ibnet.toml"),
        format!("[simulated]\ndead = [{}]\n", dead.join(", ")),
    )
    .unwrap();
    let (code, text) = check(dir.path(), &["--simulate", "net.p", "-c", "ibnet.toml"]);
    assert_eq!(
        (
            code,
            lines(&text, "fail  device  ").len(),
            lines(&text, "      remedy:").len()
        ),
        (1, 10, 1),
        "{text}"
    );
    assert!(
        text.contains("fail  devices        2 more with this fault\n"),
        "{text}"
    );
}

#[test]
fn later_steps_run_after_a_failure_where_they_can() {
    let dir = planned();
    for (args, found, remedy) in [
        (
            &["--simulate", "net.p", "--window", "0"][..],
            "configuration  cannot use window: expected",
            "--window",
        ),
        (
            &[],
            "configuration  cannot sweep: neither an assignments file",
            "--assignments FILE",
        ),
        (
            &["--simulate", "net.p", "--assignments", "nosuch.toml"],
            "assignments    ",
            "ibnet-gen",
        ),
        (
            &[
                "--simulate",
                "net.p",
                "--assignments",
                "plan.toml",
                "--sampler",
                "node9",
            ],
            "assignments    ",
            "--sampler",
        ),
    ] {
        let (code, text) = check(dir.path(), args);
        let below = text
            .lines()
            .skip_while(|line| !line.starts_with(&format!("fail  {found}")))
            .nth(1)
            .unwrap_or_else(|| panic!("{text}"));
        // A wrong value of a flag is a wrong argument.
        assert!(
            code == if args.contains(&"--window") { 2 } else { 1 }
                && below.starts_with("      remedy:")
                && below.contains(remedy),
            "{text}"
        );
    }
    let (code, text) = check(dir.path(), &["--simulate", "net.p", "--sl", "path"]);
    assert!(
        code == 0
            && text.contains("warn  service level  path records are not queried here")
            && text.contains(", 1 warned,"),
        "{text}"
    );
    let (_, text) = check(
        dir.path(),
        &["--simulate", "net.p", "--assignments", "nosuch.toml"],
    );
    assert!(
        text.contains("ok    HCA            simulated") && text.contains("nosuch.toml"),
        "{text}"
    );
    let (_, text) = check(
        dir.path(),
        &[
            "--simulate",
            "net.p",
            "--assignments",
            "plan.toml",
            "--sampler",
            "node9",
        ],
    );
    assert!(text.contains("node9"), "{text}");
}

#[cfg(feature = "umad")]
#[test]
fn host_without_an_hca_is_reported_and_its_devices_are_skipped() {
    if fs::read_dir("/sys/class/infiniband").is_ok_and(|mut adapters| adapters.next().is_some()) {
        eprintln!("SKIPPED: this host has an HCA");
        return;
    }
    let dir = planned();
    let (code, text) = check(dir.path(), &["--net", "net.p"]);
    let failed = lines(&text, "fail  HCA            ");
    assert!(
        code == 1 && failed.len() == 1 && failed[0].contains("InfiniBand"),
        "{text}"
    );
    assert!(
        text.lines()
            .skip_while(|line| *line != failed[0])
            .nth(1)
            .is_some_and(|line| line.starts_with("      remedy:")),
        "{text}"
    );
    assert!(
        text.contains("skip  devices        10 are not queried"),
        "{text}"
    );
}
