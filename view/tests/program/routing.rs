//! `ibnet-view path` and `routing`, recomputed pair by pair by a script that shares no code with
//! them (plain Python).

use std::fs;
use std::path::Path;
use std::process::Command;

use ibnet::mad::transport::sim::traffic::Traffic;
use ibnet::topology::shapes::{Dragonfly, Grid};
use ibnet::topology::synthetic::{self, Blueprint, FatTree};
use ibnet::topology::{Device, Fabric, ports_report};
use ibnet_record::types::NodeKind;
use serde_json::Value;

use crate::congestion::lines;
use crate::run;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/routing.py");
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/routes");

/// Compares the results for a net file and a file with routes with those of the script. Returns
/// what the script has counted.
fn recomputed(folder: &Path, net: &str, routes: &str, paths: &[&str]) -> String {
    let args = [
        "routing",
        "--routes",
        routes,
        "--net",
        net,
        "--format",
        "json",
        "-o",
        "routing.json",
    ];
    let result = run(folder, &args);
    assert_eq!(result.code, 0, "{}", result.stderr);
    let output = Command::new("python3")
        .current_dir(folder)
        .args([SCRIPT, net, routes, "routing.json"])
        .args(paths)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(output.stdout),
        text(output.stderr)
    );
    text(output.stdout)
}

fn fabric(blueprint: &Blueprint) -> (String, Fabric) {
    let net = blueprint.ports_report();
    let fabric = ports_report::parse(net.as_bytes(), "net.p").unwrap().fabric;
    (net, fabric)
}

/// Damages some entries of tables: other ports, and missing entries.
fn damaged(routes: &str) -> String {
    let mut text = String::new();
    for (number, line) in routes.lines().enumerate() {
        let is_entry = line.starts_with("0x");
        let port: u8 = line
            .get(7..10)
            .and_then(|port| port.parse().ok())
            .unwrap_or(0);
        match number % 53 {
            7 if is_entry => {
                text += &format!("{}{:03}{}\n", &line[..7], port % 12 + 1, &line[10..]);
            }
            20 if is_entry => {}
            31 if is_entry => text += &format!("{}200{}\n", &line[..7], &line[10..]),
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

#[test]
fn results_are_recomputed_for_recorded_tables() {
    let folder = tempfile::tempdir().unwrap();
    let net = format!("{RECORDED}/net.p");
    for routes in ["dump_fts.txt", "opensm.fdbs", "opensm-lfts.dump"] {
        let counted = recomputed(folder.path(), &net, &format!("{RECORDED}/{routes}"), &[]);
        assert!(
            counted.starts_with("16 hosts, 0 lost pairs, 0 faults, 0 loops"),
            "{counted}"
        );
    }
}

#[test]
fn results_are_recomputed_for_generated_fabrics_with_damaged_tables() {
    let torus = Grid {
        sizes: vec![4, 5],
        wrapped: true,
        hosts: 2,
    };
    let dragonfly = Dragonfly {
        groups: 4,
        leaves: 3,
        spines: 3,
        hosts: 3,
    };
    let tree = FatTree {
        leaves: 6,
        hosts: 6,
        spines: 3,
        trunk: 2,
        radix: 12,
    };
    let folder = tempfile::tempdir().unwrap();
    let mut all = String::new();
    for blueprint in [torus.blueprint(), dragonfly.blueprint(), tree.blueprint()] {
        let (net, fabric) = fabric(&blueprint);
        let routes = Traffic::forwarding_tables(&fabric);
        fs::write(folder.path().join("net.p"), &net).unwrap();
        for routes in [damaged(&routes), routes] {
            fs::write(folder.path().join("routes.txt"), routes).unwrap();
            all += &recomputed(folder.path(), "net.p", "routes.txt", &[]);
        }
        // Fewer cables: switches with unequal links, and ports without a link in the tables.
        let first = net
            .lines()
            .position(|line| line.starts_with("SW") && line.contains(" - SW"));
        let without: Vec<_> = net
            .lines()
            .enumerate()
            .filter(|(line, _)| Some(*line) != first)
            .collect();
        let cut = net.lines().nth(first.unwrap()).unwrap();
        let end = |line: &str, at: usize| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[at + 2].to_owned(), words[at + 1].to_owned())
        };
        let (own, peer) = (end(cut, 1), end(cut, 8));
        let is_other = |line: &&str| {
            !line.starts_with("SW")
                || !line.contains(" - SW")
                || end(line, 1) != peer
                || end(line, 8) != own
        };
        let net: Vec<&str> = without
            .iter()
            .map(|(_, line)| *line)
            .filter(is_other)
            .collect();
        fs::write(folder.path().join("net.p"), net.join("\n") + "\n").unwrap();
        all += &recomputed(folder.path(), "net.p", "routes.txt", &[]);
    }
    let sum = |what: &str| -> u64 {
        let numbers = all
            .split([',', '\n'])
            .filter_map(|part| part.trim().strip_suffix(what));
        numbers
            .map(|number| number.trim().parse::<u64>().unwrap())
            .sum()
    };
    assert!(
        sum("lost pairs") > 100 && sum("faults") > 20 && sum("loops") > 2,
        "{all}"
    );
}

#[test]
fn path_has_the_links_of_the_tables_and_their_load() {
    let tree = FatTree {
        leaves: 3,
        hosts: 4,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    let (net, fabric) = fabric(&tree.blueprint());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("net.p", net);
    write("routes.txt", Traffic::forwarding_tables(&fabric));
    write("lines.jsonl", lines(&fabric, &Traffic::jobs(&fabric, 3)));
    let guid = |host: &str| {
        let device = fabric.devices().iter().find(|device| device.host() == host);
        device.unwrap().guid.to_string()
    };
    let mut files = Vec::new();
    for (from, to) in [
        ("node00001", "node00012"),
        ("node00002 mlx5_0", "node00001"),
        ("node00009", &*guid("node00001")),
    ] {
        let file = format!("path{}.json", files.len());
        let args = [
            "path",
            from,
            to,
            "lines.jsonl",
            "--routes",
            "routes.txt",
            "--format",
            "json",
            "-o",
            &file,
        ];
        let result = run(&folder, &args);
        assert_eq!(result.code, 0, "{from} {to}: {}", result.stderr);
        files.push(file);
    }
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let counted = recomputed(folder.path(), "net.p", "routes.txt", &names);
    assert!(counted.ends_with("3 paths\n"), "{counted}");
    let json = |args: &[&str]| -> Vec<Value> {
        let result = run(&folder, args);
        assert_eq!(result.code, 0, "{}", result.stderr);
        let value: Value = serde_json::from_str(&result.stdout).unwrap();
        value["rows"].as_array().unwrap().clone()
    };
    let path = json(&[
        "path",
        "node00001",
        "node00012",
        "lines.jsonl",
        "--routes",
        "routes.txt",
        "--format",
        "json",
    ]);
    let links = json(&["map", "lines.jsonl", "--format", "json"]);
    assert_eq!(path.len(), 4);
    for (hop, row) in (1..).zip(&path) {
        assert_eq!(row["hop"], hop);
        let same = links
            .iter()
            .find(|link| link["from"] == row["from"] || link["to"] == row["from"]);
        let (used, back) = if same.unwrap()["from"] == row["from"] {
            ("xmit_utilization", "blocked")
        } else {
            ("back_utilization", "back_blocked")
        };
        assert_eq!(
            (&row["xmit_utilization"], &row["blocked"]),
            (&same.unwrap()[used], &same.unwrap()[back])
        );
    }
    let text = run(
        &folder,
        &[
            "path",
            "node00001",
            "node00012",
            "lines.jsonl",
            "--routes",
            "routes.txt",
        ],
    )
    .stdout;
    assert!(
        text.contains("node00001 mlx5_0 port 1 to node00012 mlx5_0 port 1 (LID"),
        "{text}"
    );
}

#[test]
fn path_that_the_tables_do_not_have_is_an_error() {
    let (_, fabric) = fabric(&synthetic::stria());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    let routes = Traffic::forwarding_tables(&fabric);
    let lid = fabric
        .devices()
        .iter()
        .find(|device| device.host() == "node00288")
        .unwrap()
        .lid;
    let without: Vec<&str> = routes
        .lines()
        .filter(|line| !line.starts_with(&format!("{:#06x} ", lid.0)))
        .collect();
    write("routes.txt", without.join("\n"));
    write("lines.jsonl", lines(&fabric, &Traffic::none()));
    let path = |from: &str, to: &str| {
        run(
            &folder,
            &["path", from, to, "lines.jsonl", "--routes", "routes.txt"],
        )
    };
    let result = path("node00001", "node00288");
    assert_eq!(result.code, 1);
    assert!(
        result
            .stderr
            .contains(&format!("leaf01 has no port for LID {lid}")),
        "{}",
        result.stderr
    );
    let result = path("node00001", "node99999");
    assert!(
        result.code == 1 && result.stderr.contains("no record has a device node99999"),
        "{}",
        result.stderr
    );
}

#[test]
fn check_exits_with_3_if_pairs_are_lost() {
    let folder = tempfile::tempdir().unwrap();
    let routes = fs::read_to_string(format!("{RECORDED}/dump_fts.txt")).unwrap();
    let without: Vec<&str> = routes
        .lines()
        .filter(|line| !line.starts_with("0x0005 "))
        .collect();
    fs::write(folder.path().join("routes.txt"), without.join("\n")).unwrap();
    let net = format!("{RECORDED}/net.p");
    let check = |routes: &str| {
        run(
            &folder,
            &["routing", "--routes", routes, "--net", &net, "--check"],
        )
    };
    assert_eq!(check(&format!("{RECORDED}/dump_fts.txt")).code, 0);
    let found = check("routes.txt");
    assert_eq!(found.code, 3, "{}", found.stderr);
    assert!(
        found.stdout.contains("packets of 15 do not arrive")
            && found.stdout.contains("no port for the LID"),
        "{}",
        found.stdout
    );
    let missing = check("missing.txt");
    assert!(
        missing.code == 1
            && missing
                .stderr
                .contains("cannot read routes from missing.txt"),
        "{}",
        missing.stderr
    );
}

#[test]
fn switches_without_virtual_lanes_are_counted() {
    let ring = Grid {
        sizes: vec![6],
        wrapped: true,
        hosts: 1,
    };
    let (net, fabric) = fabric(&ring.blueprint());
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("net.p", &net);
    write("routes.txt", &Traffic::forwarding_tables(&fabric));
    let is_switch = |device: &&Device| device.kind == NodeKind::Switch;
    let (mut lanes, mut levels) = (Vec::new(), String::new());
    for switch in fabric.devices().iter().filter(is_switch) {
        let mut text = format!("Switch {}, base LID {}\n", switch.guid, switch.lid);
        for (from, to) in (0..=36).flat_map(|from| (0..=36).map(move |to| (from, to))) {
            text += &format!("{from} {to} :{}\n", " 0".repeat(16));
        }
        lanes.push(text);
    }
    let (hosts, all) = (
        fabric.devices().iter().filter(|device| !is_switch(device)),
        fabric.devices(),
    );
    for host in hosts {
        levels += &format!("Channel Adapter {}, base LID {}\n", host.guid, host.lid);
        let lids = all
            .iter()
            .map(|device| format!("{:#06x} : 0\n", device.lid.0));
        levels.extend(lids);
    }
    write("levels.txt", &levels);
    let report = |lanes: &[String]| {
        write("lanes.txt", &lanes.concat());
        let args = "routing --routes routes.txt --net net.p --check --sl2vl lanes.txt --path-sl levels.txt";
        let result = run(&folder, &args.split(' ').collect::<Vec<_>>());
        (result.code, result.stdout)
    };
    let (code, text) = report(&lanes);
    assert!(
        code == 3 && text.contains("\ncredit loops: 2\n\nloop:\n"),
        "{text}"
    );
    let (code, text) = report(&lanes[1..]);
    let expected = "\ncredit loops: 2 possible\nmissing: SL-to-VL rows of 1 switch, whose";
    assert!(
        code == 0 && text.contains(expected) && text.contains("\npossible:\n"),
        "{text}"
    );
}
