//! Runs `ibnet-view` with metrics of hosts and with groups of hosts.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::on_lines as run;

const START: u64 = 1_795_262_400;
const SECONDS: u64 = 5;

/// A leaf switch with the hosts c1 and c2, which send, and the storage servers oss1 and oss2. From
/// the third second on, c1 sends to oss1.
fn lines() -> String {
    let mut text = String::new();
    for second in 1..=SECONDS {
        let busy = if second >= 3 { 40.0 } else { 0.0 };
        for (number, (host, sent, received)) in (1..).zip([
            ("c1", busy, 0.0),
            ("c2", 8.0, 0.0),
            ("oss1", 0.0, busy),
            ("oss2", 0.0, 8.0),
        ]) {
            let line = json!({
                "type": "port", "ts": (START + second) * 1_000_000_000, "slot": START + second, "sampler": "s",
                "guid": format!("{:#018x}", 0x100 + number), "port": 1, "lid": number, "node": format!("{host} mlx5_0"), "kind": "hca",
                "peer_guid": "0x0000000000000001", "peer_port": number, "peer": "leaf1", "link": "4xEDR", "link_source": "live",
                "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok", "dt_ns": 1_000_000_000, "xmit_gbps": sent,
                "rcv_gbps": received, "xmit_utilization": sent / 100.0, "rcv_utilization": received / 100.0, "xmit_blocked": 0.0,
            });
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

/// Counters of c1, with a reset in the fourth second; and of a host that is not in the records.
fn host_lines() -> String {
    let values = [(0, 0), (1, 100), (2, 300), (3, 50), (4, 60)];
    let line = |host: &str, (second, value): (u64, u64)| {
        json!({"time": START + second, "host": host, "metric": "node_network_receive_bytes_total", "device": "ib0", "value": value})
            .to_string()
            + "\n"
    };
    values
        .iter()
        .flat_map(|value| [line("c1.example", *value), line("other", *value)])
        .collect()
}

fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), lines()).unwrap();
    fs::write(folder.path().join("hosts.jsonl"), host_lines()).unwrap();
    folder
}

fn rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    let (code, stdout, stderr) = run(folder, &[args, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{args:?}: {stderr}");
    serde_json::from_str::<Value>(&stdout).unwrap()["rows"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn heat_map_has_host_metrics_below_the_fabric_and_missing_data_is_not_zero() {
    let folder = recorded();
    let found = rows(
        folder.path(),
        &["heatmap", "--by", "host", "--host-metrics", "hosts.jsonl"],
    );
    let cells = |node: &str| -> Vec<(String, Value)> {
        let row = found
            .iter()
            .find(|row| row["metric"] == "ipoib" && row["node"] == node)
            .unwrap();
        row["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| {
                (
                    cell["state"].as_str().unwrap().to_owned(),
                    cell["value"].clone(),
                )
            })
            .collect()
    };
    let states = |node| {
        cells(node)
            .into_iter()
            .map(|(state, _)| state)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        states("c1"),
        ["value", "value", "unknown", "value", "no_record"]
    );
    assert_eq!(
        cells("c1")
            .into_iter()
            .filter_map(|(_, value)| value.as_f64())
            .collect::<Vec<_>>(),
        [100.0, 200.0, 10.0]
    );
    assert_eq!(states("oss1"), ["no_record"; 5]);
    let (code, _, notes) = run(
        folder.path(),
        &["heatmap", "--host-metrics", "hosts.jsonl", "-o", "h.svg"],
    );
    assert_eq!(code, 0, "{notes}");
    for note in [
        "not in the records: 1 (other)",
        "selected hosts without host metrics: 3 (c2, oss1, oss2)",
        "ipoib: mean 103 B/s, max 200 B/s at c1",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    let picture = fs::read_to_string(folder.path().join("h.svg")).unwrap();
    assert!(
        picture.contains(">4 ports, host metrics of 1 host, 1 s per column<"),
        "{picture}"
    );
}

#[test]
fn host_is_known_as_the_peer_of_a_switch_port() {
    let folder = recorded();
    let port = lines()
        .lines()
        .find(|line| line.contains("c1 mlx5_0"))
        .unwrap()
        .replace("\"kind\":\"hca\"", "\"kind\":\"switch\"");
    let port = port
        .replace("c1 mlx5_0", "leaf1")
        .replace("\"peer\":\"leaf1\"", "\"peer\":\"c1 mlx5_0\"");
    fs::write(folder.path().join("lines.jsonl"), port + "\n").unwrap();
    let found = rows(folder.path(), &["heatmap", "--host-metrics", "hosts.jsonl"]);
    assert_eq!(
        found
            .iter()
            .map(|row| row["node"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["leaf1", "c1"]
    );
}

#[test]
fn job_has_host_metrics_of_its_nodes() {
    let folder = recorded();
    let (code, _, notes) = run(
        folder.path(),
        &[
            "job",
            "--nodes",
            "c[1-2]",
            "--host-metrics",
            "hosts.jsonl",
            "-o",
            "job.svg",
        ],
    );
    assert_eq!(code, 0, "{notes}");
    let picture = fs::read_to_string(folder.path().join("job.svg")).unwrap();
    assert!(
        picture.contains(">IPoIB, in and out, by host (1 of 2 hosts have data)<"),
        "{picture}"
    );
}

#[test]
fn row_of_a_job_has_the_host_metrics_of_its_nodes() {
    let folder = recorded();
    let row = rows(
        folder.path(),
        &["job", "--nodes", "c[1-2]", "--host-metrics", "hosts.jsonl"],
    )
    .remove(0);
    let metrics = row["host_metrics"].as_array().unwrap();
    let places: Vec<_> = metrics
        .iter()
        .map(|row| {
            (
                row["metric"].as_str().unwrap(),
                row["node"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(places, [("ipoib", "c1"), ("ipoib", "c2")]);
    assert_eq!(
        (
            &metrics[0]["unit"],
            &metrics[0]["by"],
            &metrics[0]["bin_ns"]
        ),
        (&"octets/s".into(), &"host".into(), &row["step_ns"])
    );
    let states = |index: usize| -> Vec<&str> {
        metrics[index]["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell["state"].as_str().unwrap())
            .collect()
    };
    // The counter was reset in the fourth second, and its last reading is one second before the
    // end.
    assert_eq!(
        states(0),
        ["value", "value", "unknown", "value", "no_record"]
    );
    assert_eq!(states(1), ["no_record"; 5]);
    assert_eq!(metrics[0]["cells"][1]["value"], 200.0);
    assert_eq!(metrics[0]["cells"][0]["start_ns"], row["steps"][0]["ts"]);
    // Without a source, the field is null. CSV has no place for it.
    assert!(rows(folder.path(), &["job", "--nodes", "c[1-2]"])[0]["host_metrics"].is_null());
    for args in [
        ["--nodes", "c[1-2]", "--format", "csv"],
        ["--group", "s=oss*", "--format", "json"],
    ] {
        let (code, _, stderr) = run(
            folder.path(),
            &[&["job"], &args[..], &["--host-metrics", "hosts.jsonl"]].concat(),
        );
        assert!(
            code == 2 && stderr.contains("cannot use --host-metrics without a picture"),
            "{stderr}"
        );
    }
}

#[test]
fn group_has_flow_imbalance_and_senders() {
    let folder = recorded();
    let row = &rows(folder.path(), &["job", "--group", "storage=oss*"])[0];
    let gigabits = |value: &Value| (value.as_f64().unwrap() * 8.0 / 1e9).round();
    assert_eq!(
        (
            &row["group"],
            gigabits(&row["in_bytes"]),
            gigabits(&row["out_bytes"])
        ),
        (&"storage".into(), 160.0, 0.0)
    );
    assert_eq!(
        (
            &row["targets"][0]["host"],
            gigabits(&row["targets"][0]["in_bytes"])
        ),
        (&"oss1".into(), 120.0)
    );
    assert_eq!(row["in_imbalance"]["max_to_mean"], 1.5);
    let sender = &row["senders"][0];
    // In each of three seconds, the servers received 48 and the other host sent 8.
    assert_eq!(
        (
            &sender["host"],
            gigabits(&sender["least_bytes"]),
            gigabits(&sender["estimate_bytes"])
        ),
        (&"c1".into(), 120.0, 120.0)
    );
    let (code, text, _) = run(
        folder.path(),
        &["job", "--group", "storage=oss*", "-o", "storage.svg"],
    );
    assert!(
        code == 0
            && text.contains("storage: 2 hosts with records")
            && text.contains("busiest host 1.50 times the mean"),
        "{text}"
    );
    let picture = fs::read_to_string(folder.path().join("storage.svg")).unwrap();
    assert!(
        picture.contains(">Traffic into storage, by switch port<")
            && picture.contains(">leaf1 port 3 to oss1<"),
        "{picture}"
    );
    let (_, table, _) = run(
        folder.path(),
        &["job", "--group", "storage=oss*", "--format", "csv"],
    );
    assert_eq!(table.lines().count(), 3, "{table}");
}

#[test]
fn group_is_a_row_of_a_heat_map_and_selects_hosts() {
    let folder = recorded();
    let names = |args: &[&str]| -> Vec<String> {
        rows(folder.path(), args)
            .iter()
            .map(|row| row["node"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&[
            "heatmap", "--by", "group", "--group", "a=oss*", "--group", "rest=*"
        ]),
        ["a", "rest"]
    );
    assert_eq!(
        names(&["heatmap", "--by", "host", "--group", "a=oss*"]),
        ["oss1", "oss2"]
    );
    let sums = rows(
        folder.path(),
        &[
            "heatmap", "-m", "rcv_gbps", "--by", "group", "--group", "a=oss*",
        ],
    );
    assert_eq!(sums[0]["cells"][4]["value"], 48.0);
    let (code, _, message) = run(
        folder.path(),
        &["map", "--group", "a=oss*", "-o", "map.svg"],
    );
    assert_eq!(code, 0, "{message}");
}

#[test]
fn wrong_arguments_have_a_remedy() {
    let folder = recorded();
    for (args, code, expected) in [
        (
            &["heatmap", "-o", "x.svg", "--by", "group"][..],
            2,
            "no group was given",
        ),
        (&["job", "--group", "oss*"], 2, "NAME=HOSTLIST"),
        (
            &["job", "--nodes", "c1", "--host-metrics", "hosts.jsonl"],
            2,
            "without a picture",
        ),
        (
            &[
                "job",
                "--group",
                "a=c1",
                "--host-metrics",
                "hosts.jsonl",
                "--format",
                "json",
            ],
            2,
            "without a picture",
        ),
        (
            &["job", "--nodes", "c1", "--bin", "1s"],
            2,
            "--bin is for --all and --group",
        ),
        (
            &["job", "--group", "a=x", "--group", "a=y"],
            2,
            "a group `a` was given before",
        ),
        (
            &["job", "--group", "a=gone*"],
            1,
            "no record of a port of a",
        ),
        (
            &["heatmap", "-o", "x.svg", "--host-metrics", "gone.jsonl"],
            1,
            "cannot read gone.jsonl",
        ),
        (
            &[
                "heatmap",
                "-o",
                "x.svg",
                "--host-metrics",
                "hosts.jsonl",
                "--host-metric",
                "a b",
            ],
            2,
            "as a host metric",
        ),
        (
            &["heatmap", "-o", "x.svg", "--host-metrics", "http://u:p@h"],
            2,
            "--host-metrics-password-file",
        ),
        (
            &["heatmap", "-o", "x.svg", "--host-metric", "nfs"],
            2,
            "--host-metrics",
        ),
    ] {
        let (found, _, message) = run(folder.path(), args);
        let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            found == code && words.contains(expected) && !words.contains("u:p"),
            "{args:?}: {found} {message}"
        );
    }
    assert!(!folder.path().join("x.svg").exists());
}
