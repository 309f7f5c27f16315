//! The tables and pictures of congestion as they are called, on a simulated incast of which everything is known.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assert_cmd::Command;
use ibnet::mad::transport::sim::traffic::{Incast, PACKET_OCTETS, Traffic};
use ibnet::time::Instant;
use ibnet::topology::{DeviceId, Fabric, ports_report, synthetic};
use ibnet::types::{NodeKind, PortNum};
use serde_json::{Value, json};

/// When everything is: an incast of four seconds in ten.
const SECONDS: u64 = 10;
const START: u64 = 1_795_262_400;

fn fabric() -> Fabric {
    let tree = synthetic::FatTree { leaves: 4, hosts: 16, spines: 4, trunk: 1, radix: 24 };
    // A stranger's name, of a host that has nothing to do with it.
    let text = tree.blueprint().ports_report().replace("node00030 mlx5_0", "node00030 </svg>\" <i>");
    ports_report::parse(text.as_bytes(), "tree").unwrap().fabric
}

/// What each port counts, second by second, as a sampler would tell it that asks all of them at once.
fn lines(fabric: &Fabric, traffic: &Traffic) -> String {
    const CAPACITY: f64 = 12.5e9;
    let sent = |id: DeviceId, port: PortNum, second: u64| traffic.sent(id, port, Instant::ZERO + Duration::from_secs(second));
    let octets = |id, port, second| sent(id, port, second).packets * PACKET_OCTETS;
    let mut text = String::new();
    for second in 1..=SECONDS {
        for (id, device) in fabric.iter() {
            for (port, peer) in device.linked() {
                let there = fabric.find(peer.guid, peer.port).unwrap();
                let out = (octets(id, port.num, second) - octets(id, port.num, second - 1)) as f64;
                let back = (octets(there, peer.port, second) - octets(there, peer.port, second - 1)) as f64;
                let blocked = (sent(id, port.num, second).waited - sent(id, port.num, second - 1).waited).as_secs_f64();
                let line = json!({
                    "type": "port", "ts": (START + second) * 1_000_000_000, "slot": START + second, "sampler": "s", "guid": device.guid, "port": port.num,
                    "lid": device.lid, "node": device.name, "kind": device.kind, "hops": null, "peer_guid": peer.guid, "peer_port": peer.port,
                    "peer": fabric.device(there).name, "link": "4xEDR", "link_source": "live", "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok",
                    "port_xmit_data_bytes": octets(id, port.num, second), "port_rcv_data_bytes": octets(there, peer.port, second),
                    "port_rcv_errors": if id == DeviceId(0) { second } else { 0 }, "dt_ns": 1_000_000_000,
                    "xmit_gbps": out * 8.0 / 1e9, "rcv_gbps": back * 8.0 / 1e9, "xmit_utilization": out / CAPACITY, "rcv_utilization": back / CAPACITY,
                    "xmit_blocked": blocked,
                });
                text += &format!("{line}\n");
            }
        }
    }
    text
}

struct Stage {
    folder: tempfile::TempDir,
    fabric: Fabric,
    incast: Incast,
}

impl Stage {
    fn new() -> Self {
        let fabric = fabric();
        let at = |second| Instant::ZERO + Duration::from_secs(second);
        let incast = Incast::onto_last_server(&fabric, 32, at(3), Duration::from_secs(4)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lines.jsonl"), lines(&fabric, &Traffic::incast(&fabric, 1, &incast))).unwrap();
        Self { folder, fabric, incast }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a command prints.
    fn view(&self, args: &[&str]) -> String {
        let mut args: Vec<&str> = args.to_vec();
        args.insert(1, "lines.jsonl");
        let output =
            Command::cargo_bin("ibnet-view").unwrap().env("TZ", "UTC").current_dir(self.folder.path()).args(&args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The switch port that leads to the server.
    fn root(&self) -> String {
        let (_, peer) = self.fabric.device(self.incast.to).linked().next().unwrap();
        format!("{} port {}", self.fabric.device(self.fabric.find(peer.guid, peer.port).unwrap()).name, peer.port)
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_tree_of_an_incast_is_found_with_its_root_and_its_victims() {
    let stage = Stage::new();
    let text = stage.view(&["links", "--tree"]);
    let server = &stage.fabric.device(stage.incast.to).name;
    assert!(text.starts_with("2026-11-21 12:00:01 to 2026-11-21 12:00:10 (UTC)\n1 congestion tree in 4 s of congestion\n"), "{text}");
    assert!(
        text.contains(&format!(
            "Tree 1: root {} -> {server} port 1\n  4xEDR, 99.5 % used, 0.0 % blocked, for 4 s: it is full",
            stage.root()
        )),
        "{text}"
    );
    assert!(text.contains("Victims: 32 host ports and "), "{text}");
}

#[test]
fn the_root_is_the_fullest_link_and_those_who_send_wait_most() {
    let stage = Stage::new();
    let from_to = ["--from", "2026-11-21T12:00:04Z", "--to", "2026-11-21T12:00:08Z"];
    let first = |text: String| text.lines().nth(4).unwrap().to_owned();
    let fullest = first(stage.view(&[&["links", "--top", "1"][..], &from_to].concat()));
    assert!(fullest.starts_with(&stage.root()) && fullest.contains("99.5 %"), "{fullest}");
    let text = stage.view(&[&["links", "--top", "1", "--by", "blocked"][..], &from_to].concat());
    assert!(text.ends_with("on 80 of 80 links.\n"), "{text}");
    let waiting = first(text);
    let senders: Vec<_> = stage.incast.from.iter().map(|id| &stage.fabric.device(*id).name).collect();
    assert!(senders.iter().any(|name| waiting.starts_with(&***name)), "{waiting}");
}

#[test]
fn the_map_shows_the_root_and_no_name_is_markup() {
    let stage = Stage::new();
    assert_eq!(stage.view(&["map", "-o", "map.svg", "--hosts"]), "");
    let svg = read(&stage.path("map.svg"));
    let port = stage.root().rsplit(' ').next().unwrap().to_owned();
    assert_eq!((svg.matches(">root: ").count(), svg.matches(&format!(">root: {port}<")).count()), (1, 1));
    assert!(svg.contains("node00030 &lt;/svg&gt;") && !svg.contains("<i>"));
    assert!(svg.contains("(UTC)"), "the time zone is told");
}

#[test]
fn a_job_s_octets_are_those_that_its_nodes_counted() {
    let stage = Stage::new();
    let hosts: Vec<_> = stage.incast.from.iter().map(|id| stage.fabric.device(*id).host().to_owned()).collect();
    let jobs = format!("JobID|State|Start|End|NodeList\n7|COMPLETED|2026-11-21T12:00:00|2026-11-21T12:01:00|{}\n", hosts.join(","));
    fs::write(stage.path("jobs"), jobs).unwrap();
    let text = stage.view(&["job", "--slurm", "7", "--slurm-file", "jobs", "-o", "job.json"]);
    assert!(text.contains("32 nodes with 32 ports on 4 leaf switches"), "{text}");
    let job: Value = serde_json::from_str(&read(&stage.path("job.json"))).unwrap();
    let sum = |name: &str| job["nodes"].as_array().unwrap().iter().map(|node| node[name].as_f64().unwrap()).sum::<f64>();
    let traffic = Traffic::incast(&stage.fabric, 1, &stage.incast);
    let end = Instant::ZERO + Duration::from_secs(SECONDS);
    let sent: u64 = stage.incast.from.iter().map(|id| traffic.sent(*id, PortNum(1), end).packets * PACKET_OCTETS).sum();
    assert!((sum("injected_bytes") / sent as f64 - 1.0).abs() < 1e-9, "{} {sent}", sum("injected_bytes"));
    let most = job["stays"]["most_bytes"].as_f64().unwrap();
    assert!(job["stays"]["least_bytes"].as_f64().unwrap() <= most && most <= sum("injected_bytes"));
    stage.view(&["job", "--nodes", &hosts[0], "-o", "job.svg"]);
    assert!(read(&stage.path("job.svg")).contains("2026-11-21, UTC"));
}

#[test]
fn errors_are_those_that_moved() {
    let stage = Stage::new();
    let text = stage.view(&["errors"]);
    let device = stage.fabric.device(DeviceId(0));
    assert_eq!(device.kind, NodeKind::Hca);
    assert!(text.contains("160 ports: 1 with errors, 0 with a link that is or was not right"), "{text}");
    assert!(text.lines().any(|line| line.contains(&device.name) && line.contains("port_rcv_errors   9    1.0/s   10")), "{text}");
    assert!(stage.view(&["errors", "--threshold", "PortRcvErrors=9"]).contains("1 more port with"));
}

#[test]
fn what_is_asked_wrongly_is_told() {
    let stage = Stage::new();
    for (args, code, told) in [
        (&["errors", "lines.jsonl", "--threshold", "x=1"][..], 1, "`x` is no counter of errors"),
        (&["job", "lines.jsonl", "--nodes", "n[1-"], 1, "n[1-"),
        (&["job", "lines.jsonl", "--slurm", "7"], 2, "--slurm-file"),
        (&["job", "lines.jsonl"], 2, "--nodes"),
        (&["links", "lines.jsonl", "--tree", "--waits", "2"], 2, "from 0 to 1"),
        (&["map", "nothing.jsonl", "-o", "map.svg"], 1, "nothing.jsonl"),
    ] {
        let output = Command::cargo_bin("ibnet-view").unwrap().current_dir(stage.folder.path()).args(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    }
}
