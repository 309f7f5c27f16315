//! Runs `ibnet-gen suggest` and the options for reports, pictures and LDMS files.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use assert_cmd::Command;
use ibnet::assignments::Assignments;
use ibnet::topology::synthetic::{self, FatTree};
use serde_json::Value;
use tempfile::TempDir;

fn with_net(bytes: &[u8]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("net.p"), bytes).unwrap();
    dir
}

fn stria() -> TempDir {
    with_net(synthetic::stria().ports_report().as_bytes())
}

/// Returns exit code, standard output and standard error.
fn run(dir: &TempDir, args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ibnet-gen"))
        .current_dir(dir.path())
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[track_caller]
fn done(dir: &TempDir, args: &[&str]) -> (String, String) {
    let (code, stdout, stderr) = run(dir, args);
    assert_eq!(code, 0, "{stderr}");
    (stdout, stderr)
}

#[test]
fn suggested_sampler_list_is_accepted_as_an_argument() {
    let trees = [
        (1, 3, 1, 1),
        (2, 20, 2, 4),
        (18, 18, 9, 2),
        (30, 10, 4, 1),
        (36, 18, 18, 1),
    ];
    let mut nets: Vec<_> = trees
        .map(|(leaves, hosts, spines, trunk)| {
            FatTree {
                leaves,
                hosts,
                spines,
                trunk,
                radix: 36,
            }
            .blueprint()
            .ports_report()
            .into_bytes()
        })
        .to_vec();
    nets.push(synthetic::stria().ports_report().into_bytes());
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fabrics");
    nets.extend(
        [
            "loginoff-fdr10-qdr.reconstructed.p",
            "treydock-test.p",
            "treydock-test2.p",
        ]
        .map(|name| fs::read(captures.join(name)).unwrap()),
    );
    for net in nets {
        let dir = with_net(&net);
        for cap in ["40", "64", "150", "1000"] {
            let (stdout, stderr) = done(&dir, &["suggest", "--net", "net.p", "--cap", cap]);
            let list = stdout.strip_suffix('\n').unwrap();
            assert!(
                !list.is_empty() && !list.contains(char::is_whitespace),
                "{list:?}"
            );
            assert!(
                stderr.contains(&format!(" --samplers {list}"))
                    || stderr.contains(&format!(" --samplers '{list}'")),
                "{stderr}"
            );
            done(
                &dir,
                &[
                    "--net",
                    "net.p",
                    "--samplers",
                    list,
                    "--cap",
                    cap,
                    "-o",
                    "out.toml",
                ],
            );
            let plan = Assignments::read(&dir.path().join("out.toml"))
                .unwrap()
                .assignments;
            let most: u32 = cap.parse().unwrap();
            assert!(
                plan.samplers
                    .iter()
                    .all(|sampler| sampler.port_count <= most || sampler.devices.len() == 1)
            );
            assert!(
                stderr.contains(&format!(
                    "samplers  {} with a cap of {cap} ports",
                    plan.samplers.len()
                )),
                "{stderr}"
            );
        }
    }
}

#[test]
fn suggestion_has_the_requested_number_of_hosts_or_an_error() {
    let dir = stria();
    let (stdout, _) = done(&dir, &["suggest", "--net", "net.p", "--count", "12"]);
    assert_eq!(
        stdout,
        "node[00001,00025,00049,00073,00097,00121,00145,00169,00193,00217,00241,00265]\n"
    );
    let (stdout, _) = done(
        &dir,
        &[
            "suggest",
            "--net",
            "net.p",
            "--count",
            "8",
            "--among",
            "admin[1-2],oss[1-6],node[00001-00048]",
        ],
    );
    assert_eq!(
        stdout,
        "node[00001-00002,00025-00026],oss[1-2]:mlx5_0:1,oss[3-4]:mlx5_0:2\n"
    );
    let (code, _, stderr) = run(&dir, &["suggest", "--net", "net.p", "--among", "admin01"]);
    assert!(
        code == 1 && stderr.contains("did you mean `admin1`?"),
        "{stderr}"
    );
    let (code, stdout, stderr) = run(&dir, &["suggest", "--net", "net.p", "--count", "3"]);
    assert_eq!((code, &*stdout), (1, ""));
    assert!(
        stderr.starts_with("error: cannot place 968 ports: they do not fit on 3 samplers")
            && stderr.contains("\nhelp: "),
        "{stderr}"
    );
    let (code, _, stderr) = run(&dir, &["suggest", "--net", "net.p", "--cap", "1"]);
    assert!(
        code == 1 && stderr.contains("raise the cap: `--cap "),
        "{stderr}"
    );
    for args in [
        &["suggest"][..],
        &["suggest", "--net", "net.p", "--count", "0"],
        &["--net", "net.p", "suggest", "--net", "net.p"],
    ] {
        assert_eq!(run(&dir, args).0, 2, "{args:?}");
    }
}

#[test]
fn extension_selects_the_format_of_the_report() {
    let dir = stria();
    let plan = |report: &str| {
        done(
            &dir,
            &[
                "--net",
                "net.p",
                "--samplers",
                "node[00001-00008]",
                "--report",
                report,
                "-o",
                "out.toml",
            ],
        )
        .1
    };
    let stderr = plan("report.txt");
    let text = fs::read_to_string(dir.path().join("report.txt")).unwrap();
    assert_eq!(text + "written   out.toml\n", stderr);
    plan("report.JSON");
    let json: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("report.JSON")).unwrap()).unwrap();
    assert_eq!(json["sources"][0]["name"], "net.p");
    assert_eq!(
        json["command"],
        "ibnet-gen --net net.p --samplers 'node[00001-00008]' --report report.JSON -o out.toml"
    );
    let bound = json["balance"]["lower_bound_ports"].as_u64().unwrap();
    let above = json["balance"]["above_lower_bound_ports"].as_u64().unwrap();
    assert_eq!(bound, 121, "968 ports, 8 samplers");
    assert!(
        stderr.contains(&format!(
            "largest load: {} ports (lower bound {bound})\n",
            bound + above
        )),
        "{stderr}"
    );
}

#[test]
fn picture_is_written_and_inputs_are_never_overwritten() {
    let dir = stria();
    let plan = |graph: &str| {
        run(
            &dir,
            &[
                "--net",
                "net.p",
                "--samplers",
                "node[00001-00008]",
                "--graph",
                graph,
                "-o",
                "out.toml",
            ],
        )
    };
    for name in ["plan.svg", "PLAN.SVG"] {
        let (code, _, stderr) = plan(name);
        assert_eq!(code, 0, "{stderr}");
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(
            text.starts_with("<svg ") && text.ends_with("</svg>\n"),
            "{name}"
        );
    }
    assert_eq!(plan("plan.png").0, 2, "PNG is not supported");
    assert_eq!(plan("nosuch/plan.svg").0, 1);
    fs::copy(dir.path().join("net.p"), dir.path().join("net.svg")).unwrap();
    let before = fs::read(dir.path().join("net.svg")).unwrap();
    for args in [
        &[
            "--net",
            "net.svg",
            "--samplers",
            "node00001",
            "--graph",
            "net.svg",
        ][..],
        &[
            "--net",
            "net.svg",
            "--samplers",
            "node00001",
            "--cap",
            "968",
            "--graph",
            "a.svg",
            "--report",
            "a.svg",
        ],
        &[
            "--net",
            "net.p",
            "--samplers-file",
            "net.svg",
            "--graph",
            "./net.svg",
        ],
        &[
            "--net",
            "net.p",
            "--samplers",
            "node00001",
            "--cap",
            "968",
            "--graph",
            "a.svg",
            "-o",
            "a.svg",
        ],
    ] {
        let (code, stdout, stderr) = run(&dir, args);
        assert!(
            code == 1 && stdout.is_empty() && stderr.contains("give each its own file"),
            "{args:?}: {stderr}"
        );
    }
    assert_eq!(fs::read(dir.path().join("net.svg")).unwrap(), before);
    assert!(!dir.path().join("a.svg").exists());
}

#[test]
fn ldms_lid_files_are_written_and_read_back() {
    let dir = stria();
    let samplers = [
        "--net",
        "net.p",
        "--samplers",
        "node[00001,00025,00049,00073,00097,00121],admin1,oss1",
    ];
    done(&dir, &[&samplers[..], &["-o", "plan.toml"]].concat());
    let (_, stderr) = done(
        &dir,
        &[&samplers[..], &["--format", "ldms", "-o", "lids"]].concat(),
    );
    assert!(
        stderr.ends_with("written   lids.admin1.conf and 7 more\n"),
        "{stderr}"
    );
    let names: Vec<_> = [
        "admin1",
        "node00001",
        "node00025",
        "node00049",
        "node00073",
        "node00097",
        "node00121",
        "oss1",
    ]
    .iter()
    .map(|host| format!("lids.{host}.conf"))
    .collect();
    let text = fs::read_to_string(dir.path().join("lids.node00001.conf")).unwrap();
    assert!(
        text.contains("\n# switch leaf01\n1 0x0000000000200010 36 *\n"),
        "{}",
        &text[..300]
    );
    let plan = Assignments::read(&dir.path().join("plan.toml"))
        .unwrap()
        .assignments;
    let from_ldms = |sources: &[&str]| {
        let (_, stderr) = done(
            &dir,
            &[
                &["--net", "net.p", "-o", "back.toml", "--from-ldms"],
                sources,
            ]
            .concat(),
        );
        assert!(
            stderr.contains("\nLDMS      338 lines: 968 ports kept\n"),
            "{stderr}"
        );
        assert_eq!(
            Assignments::read(&dir.path().join("back.toml"))
                .unwrap()
                .assignments,
            plan
        );
    };
    from_ldms(&names.iter().map(String::as_str).collect::<Vec<_>>());
    // All files concatenated, and files without headers whose hosts are arguments.
    let (all, _) = done(&dir, &[&samplers[..], &["--format", "ldms"]].concat());
    fs::write(dir.path().join("all"), &all).unwrap();
    from_ldms(&["all"]);
    let bare = |name: &str| {
        fs::read_to_string(dir.path().join(name))
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let files: Vec<_> = names
        .iter()
        .map(|name| {
            (
                name.strip_suffix(".conf").unwrap().replace("lids.", ""),
                bare(name),
            )
        })
        .collect();
    for (host, text) in &files {
        fs::write(dir.path().join(format!("{host}-bare")), text).unwrap();
    }
    let sources: Vec<_> = files
        .iter()
        .map(|(host, _)| format!("{host}={host}-bare"))
        .collect();
    from_ldms(&sources.iter().map(String::as_str).collect::<Vec<_>>());

    // A later plan without admin1 names the file of the earlier plan, and no other file.
    fs::write(dir.path().join("lids.mine.conf"), "# mine\n").unwrap();
    let fewer = [
        "--net",
        "net.p",
        "--samplers",
        "node[00001,00025,00049,00073,00097,00121],oss1",
        "--format",
        "ldms",
        "-o",
        "lids",
    ];
    let (_, stderr) = done(&dir, &fewer);
    let last: Vec<_> = stderr.lines().rev().take(2).collect();
    assert_eq!(
        last[0],
        "outdated  lids.admin1.conf: not in this plan, remove it or its ports are queried twice"
    );
    assert_eq!(last[1], "written   lids.node00001.conf and 6 more");

    let refused = |args: &[&str], message: &str| {
        let (code, stdout, stderr) = run(&dir, &[&["--net", "net.p"], args].concat());
        assert!(
            code == 1
                && stdout.is_empty()
                && stderr.contains(message)
                && stderr.contains("\nhelp: "),
            "{args:?}: {stderr}"
        );
    };
    refused(
        &["--from-ldms", "all", "--cap", "120"],
        "`admin1` samples 128 ports in the lid files, more than the cap of 120",
    );
    refused(
        &["--from-ldms", "node00001-bare"],
        "no HCA of the fabric is named `node00001-bare`",
    );
    refused(
        &["--from-ldms", "nodd00001=node00001-bare"],
        "did you mean `node00001`?",
    );
    refused(
        &["--from-ldms", "net.p"],
        "cannot use net.p: it is given for --net and for --from-ldms",
    );
    refused(
        &[
            "--from-ldms",
            "all",
            "--format",
            "ldms",
            "--report",
            "x.oss1.conf",
            "-o",
            "x",
        ],
        "is given for --report and for --output",
    );
    fs::write(dir.path().join("x.oss1.conf"), "4, 0x200006, 3, 1-3\n").unwrap();
    refused(
        &["--from-ldms", "x.oss1.conf"],
        "x.oss1.conf:1: there is no GUID after the LID",
    );
    assert_eq!(
        run(
            &dir,
            &["--net", "net.p", "--from-ldms", "all", "--samplers", "oss1"]
        )
        .0,
        2
    );
    assert_eq!(
        run(&dir, &["--net", "net.p", "--from-ldms", "a b=all"]).0,
        2
    );
}

/// Sweeps all ports of `net.p` in a simulated fabric. Returns `mads_per_slot` of the `start` record
/// and the mean number of octets of a port record; 0 octets without a period.
///
/// The groups of a slot depend on its number. The groups of the slots repeat after `period` slots.
/// So the sweep goes on until there are answers of each slot of a period; a busy machine misses
/// slots.
fn swept(
    dir: &TempDir,
    wide_counters: &str,
    interval: &str,
    groups: &str,
    period: u64,
) -> (u64, f64) {
    let config = format!(
        "simulate = \"net.p\"\nnet = \"net.p\"\n[simulated]\nwide_counters = \"{wide_counters}\"\n"
    );
    fs::write(dir.path().join("sweep.toml"), config).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"));
    // Long timeouts: every device answers before the first slot.
    let args = [
        "-c",
        "sweep.toml",
        "--sampler",
        "here",
        "--interval",
        interval,
        "--groups",
        groups,
        "--timeout",
        "80ms",
        "--grace",
        "10s",
    ];
    let mut child = command
        .current_dir(dir.path())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let start: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    // Octets and number of the records, by the place of the slot in its period.
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for line in lines.take_while(|_| period > 0) {
        if line.starts_with("{\"type\":\"sweep\"") && sums.len() as u64 == period {
            break;
        }
        // The first record of a port has no rates, and its first slot queries all groups.
        if line.starts_with("{\"type\":\"port\"") && !line.contains("\"dt_ns\":null") {
            let slot = line
                .split_once("\"slot\":")
                .unwrap()
                .1
                .split(',')
                .next()
                .unwrap();
            let (octets, records) = sums
                .entry(slot.parse::<u64>().unwrap() % period)
                .or_default();
            *octets += (line.len() + 1) as f64;
            *records += 1.0;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let octets = sums
        .values()
        .map(|(octets, records)| octets / records)
        .sum::<f64>()
        / period.max(1) as f64;
    (start["mads_per_slot"].as_u64().unwrap(), octets)
}

#[test]
fn suggested_cost_is_that_of_a_sweep() {
    let net = FatTree {
        leaves: 4,
        hosts: 10,
        spines: 2,
        trunk: 1,
        radix: 16,
    }
    .blueprint()
    .ports_report();
    let dir = with_net(net.as_bytes());
    for (rate, interval, groups, period) in [
        ("1", "1s", "extended,base/1s,xmtdisc/1s,rcverr/1s", 1),
        ("5", "200ms", "extended,base/2,xmtdisc/1s", 10),
    ] {
        // The interval of the second sweep is that of the rate, so that a second has five slots.
        let (stdout, stderr) = done(
            &dir,
            &[
                "suggest",
                "--net",
                "net.p",
                "--count",
                "1",
                "--rate",
                rate,
                "--groups",
                groups,
                "--report",
                "cost.json",
            ],
        );
        assert!(
            !stdout.is_empty()
                && stderr.contains(&format!("at {rate} Hz with the counter groups {groups}")),
            "{stderr}"
        );
        let report: Value =
            serde_json::from_str(&fs::read_to_string(dir.path().join("cost.json")).unwrap())
                .unwrap();
        let cost = &report["cost"]["total"];
        let hertz: f64 = rate.parse().unwrap();
        let per_slot = |bound: &str| (cost[bound].as_f64().unwrap() / hertz).round() as u64;
        let (least, _) = swept(&dir, "all", interval, groups, 0);
        let (most, octets) = swept(&dir, "none", interval, groups, period);
        assert_eq!(
            (
                per_slot("least_mads_per_second"),
                per_slot("most_mads_per_second")
            ),
            (least, most),
            "{cost}"
        );
        let records = cost["ports"].as_f64().unwrap() * hertz * 86_400.0;
        let expected = cost["raw_bytes_per_day"].as_f64().unwrap() / records;
        assert!(
            (expected / octets - 1.0).abs() < 0.06,
            "{expected} octets expected, {octets} written"
        );
    }
}

#[test]
fn cap_follows_a_high_rate_and_the_report_states_what_does_not_fit() {
    let dir = stria();
    let (_, stderr) = done(&dir, &["suggest", "--net", "net.p"]);
    assert!(
        stderr.contains("samplers  7 with a cap of 150 ports") && stderr.contains("--cap 6000\n"),
        "{stderr}"
    );
    let (_, stderr) = done(&dir, &["suggest", "--net", "net.p", "--rate", "10"]);
    assert!(
        stderr.contains("rate      up to 10 Hz") && !stderr.contains("does not fit"),
        "{stderr}"
    );
    let (_, stderr) = done(&dir, &["suggest", "--net", "net.p", "--rate", "25"]);
    assert!(
        stderr.contains("with a cap of 120 ports")
            && stderr.contains("does not fit into the interval at 25 Hz"),
        "{stderr}"
    );
    for (args, message) in [
        (["--rate", "0"], "sweeps per second"),
        (["--groups", "bogus"], "a group of counters"),
        (["--report", "net.p"], "--report"),
    ] {
        let (code, _, stderr) = run(&dir, &[&["suggest", "--net", "net.p"][..], &args].concat());
        assert!(code != 0 && stderr.contains(message), "{stderr}");
    }
}

#[test]
fn suggestion_states_the_cost_of_a_failure_and_when_fewer_hosts_are_better() {
    let dir = stria();
    let line = |label: &str, args: &[&str]| {
        let (_, stderr) = done(&dir, &[&["suggest", "--net", "net.p"], args].concat());
        stderr
            .lines()
            .find_map(|line| line.strip_prefix(label).map(str::to_owned))
    };
    let failure = line("failure   ", &[]).unwrap();
    assert!(
        failure.starts_with("if one host fails, up to 144 of 968 ports (15 %) have no records"),
        "{failure}"
    );
    let choice = line("choice    ", &[]).unwrap();
    assert!(
        choice.starts_with("prefer 2 hosts that run no jobs")
            && choice.contains("--cap 6000 --redundancy 2"),
        "{choice}"
    );
    // The printed options make a plan in which each port has two samplers.
    done(
        &dir,
        &[
            "--net",
            "net.p",
            "--samplers",
            "admin[1-2]",
            "--cap",
            "6000",
            "--redundancy",
            "2",
            "-o",
            "out.toml",
        ],
    );
    let plan = Assignments::read(&dir.path().join("out.toml"))
        .unwrap()
        .assignments;
    assert_eq!(
        plan.samplers
            .iter()
            .map(|sampler| sampler.port_count)
            .sum::<u32>(),
        2 * 968
    );
    // At 10 Hz, one host has the time for 790 ports in both roles together.
    assert!(
        line("choice    ", &["--rate", "10"])
            .unwrap()
            .starts_with("prefer 3 hosts")
    );
    // At 25 Hz, pairs need more hosts than the suggestion has.
    for chosen in [
        &["--rate", "25"][..],
        &["--cap", "600"],
        &["--count", "12"],
        &["--among", "node[00001-00048]"],
    ] {
        assert_eq!(line("choice    ", chosen), None, "{chosen:?}");
        assert!(line("failure   ", chosen).is_some());
    }
}
