//! Runs the commands of `ibnet-view` that explain congestion, on a simulated incast with known
//! traffic.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use ibnet::mad::transport::sim::traffic::{Incast, PACKET_OCTETS, Traffic};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet_record::types::{NodeKind, PortNum};
use serde_json::{Value, json};

/// Length of the recording in seconds; the incast lasts four of them.
const SECONDS: u64 = 10;
const START: u64 = 1_795_262_400;

fn fabric() -> Fabric {
    let tree = synthetic::FatTree {
        leaves: 4,
        hosts: 16,
        spines: 4,
        trunk: 1,
        radix: 24,
    };
    // A hostile name of a host that is not part of the incast.
    let text = tree
        .blueprint()
        .ports_report()
        .replace("node00030 mlx5_0", "node00030 </svg>\" <i>");
    ports_report::parse(text.as_bytes(), "tree").unwrap().fabric
}

/// Returns the records of each port and second, as a sampler that queries all ports at the same
/// time writes them.
pub(crate) fn lines(fabric: &Fabric, traffic: &Traffic) -> String {
    const CAPACITY: f64 = 12.5e9;
    let sent = |id: DeviceId, port: PortNum, second: u64| {
        traffic.sent(id, port, Instant::ZERO + Duration::from_secs(second))
    };
    let octets = |id, port, second| sent(id, port, second).packets * PACKET_OCTETS;
    let mut text = String::new();
    for second in 1..=SECONDS {
        for (id, device) in fabric.iter() {
            for (port, peer) in device.linked() {
                let there = fabric.find(peer.guid, peer.port).unwrap();
                let out = (octets(id, port.num, second) - octets(id, port.num, second - 1)) as f64;
                let back = (octets(there, peer.port, second) - octets(there, peer.port, second - 1))
                    as f64;
                let blocked = (sent(id, port.num, second).waited
                    - sent(id, port.num, second - 1).waited)
                    .as_secs_f64();
                // As samplers write them; an archive has no more decimals.
                let rounded = |value: f64| (value * 1e6).round() / 1e6;
                let line = json!({
                    "type": "port", "ts": (START + second) * 1_000_000_000, "slot": START + second, "sampler": "s", "guid": device.guid, "port": port.num,
                    "lid": device.lid, "node": device.name, "kind": device.kind, "hops": null, "peer_guid": peer.guid, "peer_port": peer.port,
                    "peer": fabric.device(there).name, "link": "4xEDR", "link_source": "live", "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok",
                    "port_xmit_data_bytes": octets(id, port.num, second), "port_rcv_data_bytes": octets(there, peer.port, second),
                    "port_rcv_errors": if id == DeviceId(0) { second } else { 0 }, "dt_ns": 1_000_000_000,
                    "xmit_gbps": rounded(out * 8.0 / 1e9), "rcv_gbps": rounded(back * 8.0 / 1e9), "xmit_utilization": rounded(out / CAPACITY),
                    "rcv_utilization": rounded(back / CAPACITY), "xmit_blocked": rounded(blocked),
                });
                text += &format!("{line}\n");
            }
        }
    }
    text
}

struct Setup {
    folder: tempfile::TempDir,
    fabric: Fabric,
    incast: Incast,
}

impl Setup {
    fn new() -> Self {
        Self::with_start(Duration::from_secs(3))
    }

    fn with_start(start: Duration) -> Self {
        let fabric = fabric();
        let incast =
            Incast::onto_last_server(&fabric, 32, Instant::ZERO + start, Duration::from_secs(4))
                .unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("lines.jsonl"),
            lines(&fabric, &Traffic::incast(&fabric, 1, &incast)),
        )
        .unwrap();
        Self {
            folder,
            fabric,
            incast,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command and returns its output.
    fn view(&self, args: &[&str]) -> String {
        self.view_of("lines.jsonl", args)
    }

    fn view_of(&self, input: &str, args: &[&str]) -> String {
        let mut args: Vec<&str> = args.to_vec();
        args.insert(1, input);
        let output = Command::cargo_bin("ibnet-view")
            .unwrap()
            .env("TZ", "UTC")
            .current_dir(self.folder.path())
            .args(&args)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the name of the switch port that leads to the server.
    fn root(&self) -> String {
        let (_, peer) = self.fabric.device(self.incast.to).linked().next().unwrap();
        format!(
            "{} port {}",
            self.fabric
                .device(self.fabric.find(peer.guid, peer.port).unwrap())
                .name,
            peer.port
        )
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn tree_of_an_incast_has_its_root_and_its_victims() {
    let setup = Setup::new();
    let text = setup.view(&["links", "--tree"]);
    let server = &setup.fabric.device(setup.incast.to).name;
    assert!(text.starts_with("2026-11-21 12:00:00 to 2026-11-21 12:00:10 (UTC)\n1 congestion tree in 4 s of congestion\n"), "{text}");
    assert!(
        text.contains(&format!(
            "Tree 1: root {} -> {server} port 1\n  4xEDR, 99.5 % used, 0.0 % blocked, for 4 s; cause: more traffic than the link carries",
            setup.root()
        )),
        "{text}"
    );
    assert!(text.contains("Victims: 32 host ports and "), "{text}");
}

#[test]
fn region_of_an_incast_names_the_jobs_that_cause_and_suffer() {
    let setup = Setup::new();
    let hosts: Vec<_> = setup
        .incast
        .from
        .iter()
        .map(|id| setup.fabric.device(*id).host().to_owned())
        .collect();
    let times = "2026-11-21T12:00:00|2026-11-21T12:01:00";
    let jobs = format!(
        "JobID|State|Start|End|NodeList\n7|COMPLETED|{times}|{}\n8|COMPLETED|{times}|{}\n",
        hosts[2..].join(","),
        hosts[..2].join(",")
    );
    fs::write(setup.path("jobs"), jobs).unwrap();
    let text = setup.view(&["congestion", "--slurm-file", "jobs"]);
    let server = &setup.fabric.device(setup.incast.to).name;
    let name = setup.root().replace(" port ", "/");
    let root = format!(
        "\nRegion {name}@1795262403: root {} -> {server} port 1\n  12:00:03 to 12:00:07, 4.0 s; 32 host ports and ",
        setup.root()
    );
    assert!(
        text.contains("\n1 region of congestion\n") && text.contains(&root),
        "{text}"
    );
    let cause =
        "\n  cause: more traffic than the link carries (confidence: high)\n  caused by: 7 (";
    assert!(text.contains(cause), "{text}");
    // Two of 32 hosts send less than a tenth.
    assert!(text.contains("\n  suffered by: 8 ("), "{text}");
    // An archive has the same regions.
    setup.view(&["pack", "-o", "archive"]);
    let args = ["congestion", "--slurm-file", "jobs", "--format", "json"];
    let of_archive = setup.view_of("archive", &args);
    assert!(of_archive.contains("\"region\""), "{of_archive}");
    assert_eq!(of_archive, setup.view(&args));
}

#[test]
fn roots_are_compared_with_a_file_of_the_truth() {
    let setup = Setup::new();
    let second = |from: &str, until: &str| {
        format!(r#"{{"from":{from},"to":{until},"roots":[],"waiting":[],"jobs":[]}}"#)
    };
    let text = second("1795262405000000000", "1795262406000000000");
    fs::write(setup.folder.path().join("truth"), text).unwrap();
    let text = setup.view(&["congestion", "--truth", "truth"]);
    let trees = text
        .lines()
        .find(|line| line.starts_with("congestion trees"));
    // In truth, this second of the incast is quiet, so its root is false.
    let cells: Vec<_> = trees.unwrap().split_whitespace().skip(2).collect();
    assert_eq!(
        cells,
        ["0", "0", "1", "1", "0.000", "-", "-", "-", "-", "-"],
        "{text}"
    );
}

#[test]
fn incast_that_begins_within_a_second_is_one_tree() {
    for start in [3100, 3500, 3900] {
        let setup = Setup::with_start(Duration::from_millis(start));
        let trees: Value =
            serde_json::from_str(&setup.view(&["links", "--tree", "--format", "json"])).unwrap();
        let rows = trees["rows"].as_array().unwrap();
        let root = &rows[0]["root"];
        assert_eq!(
            (
                rows.len(),
                format!("{} port {}", root["node"].as_str().unwrap(), root["port"])
            ),
            (1, setup.root()),
            "{start}: {trees}"
        );
        assert_eq!(
            (&rows[0]["why"], &rows[0]["host_ports"]),
            (&"full".into(), &32.into()),
            "{start}"
        );
    }
}

#[test]
fn root_has_the_largest_utilization_and_senders_the_longest_wait() {
    let setup = Setup::new();
    let from_to = [
        "--from",
        "2026-11-21T12:00:04Z",
        "--to",
        "2026-11-21T12:00:08Z",
    ];
    let first = |text: String| text.lines().nth(4).unwrap().to_owned();
    let busiest = first(setup.view(&[&["links", "--top", "1"][..], &from_to].concat()));
    assert!(
        busiest.starts_with(&setup.root()) && busiest.contains("99.5 %"),
        "{busiest}"
    );
    let text = setup.view(&[&["links", "--top", "1", "--by", "blocked"][..], &from_to].concat());
    assert!(text.ends_with("on 80 of 80 links.\n"), "{text}");
    let waiting = first(text);
    let senders: Vec<_> = setup
        .incast
        .from
        .iter()
        .map(|id| &setup.fabric.device(*id).name)
        .collect();
    assert!(
        senders.iter().any(|name| waiting.starts_with(&***name)),
        "{waiting}"
    );
}

#[test]
fn map_shows_the_root_and_escapes_names() {
    let setup = Setup::new();
    assert_eq!(setup.view(&["map", "-o", "map.svg", "--hosts"]), "");
    let svg = read(&setup.path("map.svg"));
    let port = setup.root().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(
        (
            svg.matches(">root: ").count(),
            svg.matches(&format!(">root: {port}<")).count()
        ),
        (1, 1)
    );
    assert!(svg.contains("node00030 &lt;/svg&gt;") && !svg.contains("<i>"));
    assert!(svg.contains("(UTC)"), "the time zone is shown");
}

#[test]
fn traffic_of_a_job_is_that_of_its_nodes() {
    let setup = Setup::new();
    let hosts: Vec<_> = setup
        .incast
        .from
        .iter()
        .map(|id| setup.fabric.device(*id).host().to_owned())
        .collect();
    let jobs = format!(
        "JobID|State|Start|End|NodeList\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|{}\n",
        hosts.join(",")
    );
    fs::write(setup.path("jobs"), jobs).unwrap();
    let text = setup.view(&[
        "job",
        "--slurm",
        "7",
        "--slurm-file",
        "jobs",
        "-o",
        "job.json",
    ]);
    assert!(
        text.contains("32 nodes with 32 ports on 4 leaf switches"),
        "{text}"
    );
    let job: Value = serde_json::from_str(&read(&setup.path("job.json"))).unwrap();
    let sum = |name: &str| {
        job["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node[name].as_f64().unwrap())
            .sum::<f64>()
    };
    let traffic = Traffic::incast(&setup.fabric, 1, &setup.incast);
    let end = Instant::ZERO + Duration::from_secs(SECONDS);
    let sent: u64 = setup
        .incast
        .from
        .iter()
        .map(|id| traffic.sent(*id, PortNum(1), end).packets * PACKET_OCTETS)
        .sum();
    assert!(
        (sum("injected_bytes") / sent as f64 - 1.0).abs() < 1e-9,
        "{} {sent}",
        sum("injected_bytes")
    );
    let most = job["stays"]["most_bytes"].as_f64().unwrap();
    assert!(job["stays"]["least_bytes"].as_f64().unwrap() <= most && most <= sum("injected_bytes"));
    setup.view(&["job", "--nodes", &hosts[0], "-o", "job.svg"]);
    assert!(read(&setup.path("job.svg")).contains(" (UTC), 1 s per step"));
}

#[test]
fn errors_are_the_increases_of_counters() {
    let setup = Setup::new();
    let text = setup.view(&["errors"]);
    let device = setup.fabric.device(DeviceId(0));
    assert_eq!(device.kind, NodeKind::Hca);
    assert!(
        text.contains("160 ports; ports with errors: 1; links with faults: 0"),
        "{text}"
    );
    let row = text
        .lines()
        .find(|line| line.contains(&device.name))
        .unwrap();
    assert!(
        row.split_whitespace().collect::<Vec<_>>().ends_with(&[
            "port_rcv_errors",
            "9",
            "1.0/s",
            "10"
        ]),
        "{text}"
    );
    assert!(
        setup
            .view(&["errors", "--threshold", "PortRcvErrors=9"])
            .contains("ports with errors within the thresholds: 1")
    );
}

#[test]
fn wrong_arguments_are_reported() {
    let setup = Setup::new();
    fs::write(setup.path("jobs"), "JobID|State|Start|End|NodeList\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|n[1-\n").unwrap();
    for (args, code, reason) in [
        (
            &["errors", "lines.jsonl", "--threshold", "x=1"][..],
            2,
            "cannot set a threshold for `x`",
        ),
        (&["job", "lines.jsonl", "--nodes", "n[1-"], 2, "n[1-"),
        (&["job", "lines.jsonl", "--slurm", "7"], 1, "--slurm-file"),
        (&["job", "lines.jsonl", "--all"], 1, "cannot run `sacct"),
        (
            &["job", "lines.jsonl", "--nodes", "n1", "--routes", "jobs"],
            1,
            "cannot read routes from jobs",
        ),
        (
            &[
                "job",
                "lines.jsonl",
                "--slurm",
                "7",
                "--slurm-file",
                "jobs",
                "--routes",
                "jobs",
            ],
            1,
            "cannot read routes from jobs",
        ),
        (&["job", "lines.jsonl"], 2, "--nodes"),
        (
            &["job", "lines.jsonl", "--slurm", "7", "--slurm-file", "jobs"],
            1,
            "cannot read the job at jobs:2: the list of nodes is malformed",
        ),
        (
            &[
                "links",
                "lines.jsonl",
                "--slurm",
                "7",
                "--slurm-file",
                "jobs",
            ],
            1,
            "jobs:2",
        ),
        (
            &["job", "lines.jsonl", "--all", "--slurm-file", "jobs"],
            1,
            "jobs:2",
        ),
        (
            &["links", "lines.jsonl", "--tree", "--waits", "2"],
            2,
            "from 0 to 1",
        ),
        (
            &["congestion", "lines.jsonl", "--truth", "lines.jsonl"],
            1,
            "lines.jsonl:1",
        ),
        (
            &["map", "nothing.jsonl", "-o", "map.svg"],
            1,
            "nothing.jsonl",
        ),
    ] {
        // The commands of Slurm must not answer, also where they are installed.
        let mut command = Command::cargo_bin("ibnet-view").unwrap();
        let output = command
            .current_dir(setup.folder.path())
            .env("PATH", "/nonexistent")
            .args(args)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(reason), "{args:?}: {stderr}");
    }
}
