//! Compares the results for programs with the tables for people and with docs/results.md, on a
//! fabric with a dead leaf switch and a dead host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ibnet_analysis::errors::ErrorRow;
use ibnet_analysis::health::HealthRow;
use ibnet_analysis::health::inventory::InventoryRow;
use ibnet_analysis::health::pdr::PdrRow;
use ibnet_analysis::heat::rows::HeatRow;
use ibnet_analysis::job::all::JobTotal;
use ibnet_analysis::job::rails::RailRow;
use ibnet_analysis::job::row::JobRow;
use ibnet_analysis::job::sharing::MatrixCell;
use ibnet_analysis::latency::LatencyRow;
use ibnet_analysis::links::LinkRow;
use ibnet_analysis::prevalence::PrevalenceRow;
use ibnet_analysis::prevalence::roots::RootRow;
use ibnet_analysis::rows::Row;
use ibnet_analysis::sweeps::SweepRow;
use ibnet_analysis::sweeps::histogram::BinRow;
use ibnet_analysis::trees::TreeRow;
use serde_json::{Value, json};

use super::on_lines as run;

/// Length of the recording in seconds. The leaf switch and a host are dead from this second on.
const SECONDS: u64 = 6;
const DIES: u64 = 3;
const START: u64 = 1_795_262_400;

/// Two leaf switches with two hosts each, and a core switch. Host n11 sends more every second; the
/// port of leaf1 to it has errors.
fn lines() -> String {
    let (leaf, core) = (
        |number: u64| (number, format!("leaf{number}")),
        (9, "core".to_owned()),
    );
    let mut links = Vec::new();
    for number in 1..=2 {
        for host in 1..=2 {
            links.push((
                (leaf(number), host),
                (
                    (0x100 * number + host, format!("n{number}{host} mlx5_0")),
                    1,
                ),
            ));
        }
        links.push(((leaf(number), 9), (core.clone(), number)));
    }
    let mut text = String::new();
    for second in 1..=SECONDS {
        for (one, other) in &links {
            for (((guid, node), port), ((peer_guid, peer), peer_port)) in
                [(one, other), (other, one)]
            {
                let is_dead = second >= DIES
                    && (*guid == 2 || *guid == 0x201 || *guid == 0x202 || *guid == 0x102);
                let status = if is_dead { "unreachable" } else { "ok" };
                let used = if *guid == 0x101 {
                    second as f64 / 10.0
                } else {
                    0.0
                };
                let mut line = json!({
                    "type": "port", "ts": (START + second) * 1_000_000_000, "slot": START + second, "sampler": "s", "guid": format!("{guid:#018x}"),
                    "port": port, "lid": 1, "node": node, "kind": if *guid < 0x100 { "switch" } else { "hca" }, "hops": 1,
                    "peer_guid": format!("{peer_guid:#018x}"), "peer_port": peer_port, "peer": peer, "link": "4xEDR", "link_source": "live",
                    "status": status, "rtt_ns": 1000, "mads": 1, "identity": "ok",
                });
                if !is_dead {
                    let rest = json!({
                        "dt_ns": 1_000_000_000, "xmit_gbps": used * 100.0, "rcv_gbps": 0.0, "xmit_utilization": used, "rcv_utilization": 0.0,
                        "xmit_blocked": used / 2.0, "symbol_error_counter": if (*guid, *port) == (1, 1) { second * 3 } else { 7 },
                    });
                    line.as_object_mut()
                        .unwrap()
                        .extend(rest.as_object().unwrap().clone());
                }
                text += &format!("{line}\n");
            }
        }
    }
    text
}

fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lines.jsonl"), lines()).unwrap();
    folder
}

fn json(folder: &Path, args: &[&str]) -> Value {
    let (code, stdout, stderr) = run(folder, &[args, &["--format", "json"]].concat());
    assert_eq!(code, 0, "{args:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn dead_switch_is_named_first_and_fails_the_check() {
    let folder = recorded();
    let (code, text, _) = run(folder.path(), &["errors", "--check"]);
    assert_eq!(code, 3, "{text}");
    assert_eq!(
        text.lines().next(),
        Some("1 switch and 1 host port do not answer: leaf2 (2 devices behind it), n12 mlx5_0")
    );
    assert!(
        text.contains("2026-11-21 12:00:03") && !text.contains("without a reply"),
        "{text}"
    );
    let errors = json(folder.path(), &["errors"]);
    let rows: Vec<_> = errors["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["what"].as_str().unwrap(), row["node"].as_str().unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            ("unreachable", "leaf2"),
            ("unreachable", "n12 mlx5_0"),
            ("symbol_error_counter", "leaf1")
        ]
    );
    let (dead, counter) = (&errors["rows"][0], &errors["rows"][2]);
    assert_eq!(
        (&dead["since_ns"], &dead["port"], &dead["devices_behind"]),
        (
            &((START + DIES) * 1_000_000_000).into(),
            &0.into(),
            &2.into()
        )
    );
    assert_eq!(
        (&counter["increase"], &counter["rate"], &counter["value"]),
        (&15.into(), &3.0.into(), &18.into())
    );
    assert_eq!(
        (
            errors["from_ns"].as_u64().unwrap() / 1_000_000_000 - START,
            errors["to_ns"].as_u64().unwrap() / 1_000_000_000 - START
        )
            .1,
        SECONDS
    );
    let healthy = [
        "errors",
        "--check",
        "--to",
        "2026-11-21T12:00:02.5Z",
        "--threshold",
        "all=100",
    ];
    assert_eq!(run(folder.path(), &healthy).0, 0);
}

#[test]
fn slurm_file_without_an_end_is_refused() {
    let folder = recorded();
    let (code, _, message) = run(
        folder.path(),
        &[
            "job",
            "--slurm",
            "1",
            "--slurm-file",
            "/dev/zero",
            "-o",
            "job.svg",
        ],
    );
    assert!(
        code == 1 && message.contains("it has more than 256 MiB"),
        "{code} {message}"
    );
}

#[test]
fn table_and_json_have_the_same_links() {
    let folder = recorded();
    for (stat, used) in [("mean", "35.0 %"), ("peak", "60.0 %"), ("p50", "30.0 %")] {
        let (_, text, _) = run(folder.path(), &["links", "--stat", stat]);
        let rows = json(folder.path(), &["links", "--stat", stat])["rows"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(
            (rows.len(), &rows[0]["stat"], &rows[0]["from"]["node"]),
            (6, &stat.into(), &"n11 mlx5_0".into())
        );
        let table: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("from"))
            .skip(1)
            .take(rows.len())
            .collect();
        for (line, row) in table.iter().zip(&rows) {
            let port = |end: &str| {
                format!(
                    "{} port {}",
                    row[end]["node"].as_str().unwrap(),
                    row[end]["port"]
                )
            };
            assert!(
                line.starts_with(&port("from")) && line.contains(&port("to")),
                "{line}: {row}"
            );
            let percent = |field: &str| {
                row[field]
                    .as_f64()
                    .map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
            };
            let cells: Vec<&str> = line
                .split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect();
            assert_eq!(
                (cells[4], cells[6]),
                (&*percent("xmit_utilization"), &*percent("blocked")),
                "{line}: {row}"
            );
        }
        assert!(table[0].contains(used), "{stat}: {}", table[0]);
    }
}

#[test]
fn prevalence_is_the_simple_sum_over_the_records() {
    let folder = recorded();
    let mut sums: BTreeMap<(String, u64), [f64; 4]> = BTreeMap::new();
    for line in lines().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let key = (
            record["node"].as_str().unwrap().to_owned(),
            record["port"].as_u64().unwrap(),
        );
        let [known, above, blocked, bytes] = sums.entry(key).or_default();
        if let Some(share) = record["xmit_blocked"].as_f64() {
            *known += 1.0;
            *above += f64::from(u8::from(share > 0.1));
            *blocked += share;
            *bytes += record["xmit_gbps"].as_f64().unwrap() * 1e9 / 8.0;
        }
    }
    let document = json(folder.path(), &["prevalence"]);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!((rows.len(), sums.len()), (12, 12));
    assert_eq!(rows[0]["name"], "n11 mlx5_0");
    for row in rows {
        let key = (
            row["name"].as_str().unwrap().to_owned(),
            row["port"].as_u64().unwrap(),
        );
        let [known, above, blocked, bytes] = sums[&key];
        for (field, expected) in [
            ("above", above / known),
            ("covered", known / SECONDS as f64),
            ("blocked_seconds", blocked),
            ("sent_bytes", bytes),
        ] {
            let value = row[field].as_f64().unwrap();
            assert!((value - expected).abs() < 1e-6, "{field} of {row}");
        }
    }
    let (_, text, _) = run(folder.path(), &["prevalence", "--top", "1"]);
    let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(
        last.join(" "),
        "n11 mlx5_0 port 1 leaf1 port 1 1 66.7 % 100.0 % 17.5 % 1 26.2 0.040"
    );
    assert!(text.contains("1 of 12 link directions"), "{text}");
}

#[test]
fn each_day_is_a_file_of_its_own() {
    let folder = recorded();
    let (code, _, stderr) = run(
        folder.path(),
        &["heatmap", "--format", "csv", "--each", "day", "-o", "x.csv"],
    );
    assert_eq!(code, 0, "{stderr}");
    let names = fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("x-2026-11-2") && name.ends_with(".csv"))
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let whole = run(folder.path(), &["heatmap", "--format", "csv"]).1;
    assert_eq!(
        fs::read_to_string(folder.path().join(&names[0])).unwrap(),
        whole
    );
}

#[test]
fn prevalence_draws_a_calendar_and_lists_roots() {
    let folder = recorded();
    let run = |args: &[&str]| run(folder.path(), &[&["prevalence"], args].concat());
    let (code, _, stderr) = run(&["-o", "calendar.svg"]);
    assert_eq!(code, 0, "{stderr}");
    let svg = fs::read_to_string(folder.path().join("calendar.svg")).unwrap();
    assert!(svg.contains("time blocked for more than 10 %") && svg.contains(">12:00<"));
    let rows = json(folder.path(), &["prevalence", "--by", "root"]);
    let trees = json(folder.path(), &["links", "--tree"]);
    let of = |document: &Value, field: &str| -> Vec<(Value, Value)> {
        let rows = document["rows"].as_array().unwrap().iter();
        let rows = rows.filter(|row| field != "victims" || row[field] != json!([]));
        rows.map(|row| (row["root"].clone(), row["held_up_seconds"].clone()))
            .collect()
    };
    assert_eq!(of(&rows, "jobs"), of(&trees, "victims"));
    let (code, _, stderr) = run(&["--by", "root", "-o", "roots.png"]);
    assert!(code != 0 && stderr.contains("roots.png"), "{stderr}");
}

#[test]
fn prevalence_by_hour_and_weekday_is_local() {
    let folder = recorded();
    for (zone, hour, day) in [("UTC", 12, "Saturday"), ("NZDT-13", 1, "Sunday")] {
        let of = |by: &str| {
            let mut command = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-view"));
            let args = ["prevalence", "lines.jsonl", "--by", by, "--format", "json"];
            let output = command
                .current_dir(folder.path())
                .env("TZ", zone)
                .args(args)
                .output()
                .unwrap();
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            let is_known = |row: &&Value| row["above"].is_number();
            let rows = document["rows"].as_array().unwrap();
            let known: Vec<Value> = rows.iter().filter(is_known).cloned().collect();
            assert_eq!(known.len(), 1, "{document}");
            (
                rows.len(),
                known[0]["name"].clone(),
                known[0]["ports"].clone(),
            )
        };
        assert_eq!(of("hour"), (24, format!("{hour:02}").into(), 12.into()));
        assert_eq!(of("weekday"), (7, day.into(), 12.into()));
    }
}

#[test]
fn csv_has_the_values_of_json() {
    let folder = recorded();
    for command in ["links", "errors", "map", "prevalence"] {
        let (_, text, _) = run(folder.path(), &[command, "--format", "csv"]);
        let document = json(folder.path(), &[command]);
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let lines: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(lines.len(), rows.len(), "{command}");
        for (line, row) in lines.iter().zip(rows) {
            for (column, cell) in header.iter().zip(line) {
                let value = match column {
                    "from_ns" | "to_ns" => &document[column],
                    _ => row.get(column).unwrap_or_else(|| {
                        let (outer, inner) = column.split_once('_').unwrap();
                        &row[outer][inner]
                    }),
                };
                let shown = value.as_str().map_or_else(
                    || {
                        if value.is_null() {
                            String::new()
                        } else {
                            value.to_string()
                        }
                    },
                    str::to_owned,
                );
                assert_eq!(cell, shown, "{command}: {column} of {row}");
            }
        }
    }
}

#[test]
fn csv_of_a_heat_map_has_a_line_for_each_cell() {
    let folder = recorded();
    for (by, rows) in [("port", 12), ("link", 6), ("switch", 3), ("host", 4)] {
        let args = [
            "heatmap",
            "-m",
            "xmit_utilization,symbol_error_counter",
            "--by",
            by,
        ];
        let document = json(folder.path(), &args);
        let (_, text, _) = run(folder.path(), &[&args[..], &["--format", "csv"]].concat());
        assert_eq!(
            document["rows"].as_array().map(Vec::len),
            Some(2 * rows),
            "{by}"
        );
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let mut lines = reader.records().map(Result::unwrap);
        for row in document["rows"].as_array().unwrap() {
            assert_eq!(
                (&row["by"], row["cells"].as_array().map(Vec::len)),
                (&by.into(), Some(SECONDS as usize))
            );
            for cell in row["cells"].as_array().unwrap() {
                for (column, shown) in header.iter().zip(&lines.next().unwrap()) {
                    let value = match (column.strip_prefix("cells_"), column.strip_prefix("peer_"))
                    {
                        (Some(field), _) => &cell[field],
                        (_, Some(field)) => &row["peer"][field],
                        _ => row.get(column).unwrap_or_else(|| &document[column]),
                    };
                    let expected = value.as_str().map_or_else(
                        || {
                            if value.is_null() {
                                String::new()
                            } else {
                                value.to_string()
                            }
                        },
                        str::to_owned,
                    );
                    assert_eq!(shown, expected, "{by}: {column} of {row}");
                }
            }
        }
        assert_eq!(lines.count(), 0);
    }
}

#[test]
fn heat_map_of_json_has_the_values_and_states_of_the_records() {
    let folder = recorded();
    let document = json(
        folder.path(),
        &["heatmap", "-m", "xmit_utilization", "--by", "host"],
    );
    let cells = |node: &str| {
        let row = document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["node"] == node)
            .unwrap();
        let state = |cell: &Value| {
            cell["value"].as_f64().map_or_else(
                || cell["state"].as_str().unwrap().to_owned(),
                |value| value.to_string(),
            )
        };
        row["cells"]
            .as_array()
            .unwrap()
            .iter()
            .map(state)
            .collect::<Vec<_>>()
    };
    assert_eq!(cells("n11"), ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6"]);
    assert_eq!(
        cells("n12"),
        ["0", "0", "no_answer", "no_answer", "no_answer", "no_answer"]
    );
    assert_eq!(
        document["rows"][0]["cells"][0]["start_ns"],
        START * 1_000_000_000
    );
    let top = json(
        folder.path(),
        &["heatmap", "-m", "xmit_utilization", "--top", "1"],
    );
    assert_eq!(
        (
            top["rows"].as_array().map(Vec::len),
            &top["rows"][0]["node"]
        ),
        (Some(1), &"n11 mlx5_0".into())
    );
    let (code, _, _) = run(
        folder.path(),
        &["heatmap", "--format", "json", "-o", "heat.json"],
    );
    let written: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("heat.json")).unwrap())
            .unwrap();
    assert!(code == 0 && written["rows"].as_array().map(Vec::len) == Some(12));
}

#[test]
fn hosts_and_jobs_select_links() {
    let folder = recorded();
    let nodes = |document: &Value| {
        let rows = document["rows"].as_array().unwrap().iter();
        rows.map(|row| row["from"]["node"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        nodes(&json(folder.path(), &["links", "--nodes", "n11"])),
        BTreeSet::from(["n11 mlx5_0".to_owned()])
    );
    fs::write(
        folder.path().join("jobs"),
        "JobID|State|Start|End|NodeList\n7|COMPLETED|2026-11-21T12:00:02|2026-11-21T12:00:04|n11\n",
    )
    .unwrap();
    let job = json(
        folder.path(),
        &["links", "--slurm", "7", "--slurm-file", "jobs"],
    );
    // Seconds 3 and 4: the records describe the time before them.
    assert!(
        (job["rows"][0]["xmit_utilization"].as_f64().unwrap() - 0.35).abs() < 1e-9,
        "{job}"
    );
    let (code, _, stderr) = run(folder.path(), &["links", "--nodes", "n99"]);
    assert!(
        code == 1 && stderr.contains("no record of a port of n99"),
        "{stderr}"
    );
    let (code, _, stderr) = run(folder.path(), &["map", "--nodes", "n11", "-o", "map.svg"]);
    assert!(
        code == 0 && stderr.contains("written   map.svg"),
        "{stderr}"
    );
    let svg = fs::read_to_string(folder.path().join("map.svg")).unwrap();
    assert!(
        svg.contains(">no answer<")
            && svg.contains("do not answer: leaf2")
            && svg.contains("opacity=\"0.25\""),
        "{svg}"
    );
}

/// The page of the hub writes these commands: hub/page/test/unit/archive.test.mjs.
const COMMANDS_OF_THE_PAGE: &str = include_str!("../../../hub/page/test/unit/archive-commands.txt");

#[test]
fn commands_of_the_page_of_the_hub_run_on_an_archive() {
    let folder = recorded();
    let path = folder.path();
    let (code, _, stderr) = run(path, &["pack", "-o", "archive"]);
    assert_eq!(code, 0, "{stderr}");
    let jobs = format!(
        "job,user,nodes,start,end,state\n7,u,n1[1-2],{START},{},completed\n",
        START + SECONDS
    );
    fs::write(path.join("jobs.csv"), jobs).unwrap();
    let mut ran = 0;
    for line in COMMANDS_OF_THE_PAGE.lines() {
        let line = line
            .replace("FOLDER", "archive")
            .replace("JOBS", "jobs.csv")
            .replace("HOSTS", "n2*");
        let args: Vec<&str> = line.split(' ').skip(1).collect();
        let done = super::run(path, &args);
        // The recording has neither register pages nor sweeps: the command says so.
        let lacks = match args[0] {
            "health" => "no `phy` record",
            "sweeps" => "no `sweep` record",
            _ => "",
        };
        if !lacks.is_empty() {
            assert!(done.stderr.contains(lacks), "{line}: {}", done.stderr);
            continue;
        }
        assert_eq!(done.code, 0, "{line}: {}", done.stderr);
        let result = args.iter().position(|arg| *arg == "-o").map_or_else(
            || done.stdout.into_bytes(),
            |at| fs::read(path.join(args[at + 1])).unwrap(),
        );
        assert!(!result.is_empty(), "{line}");
        ran += 1;
    }
    assert!(ran > 15);
}

#[test]
fn hosts_select_faults() {
    let folder = recorded();
    let found = |nodes: &str| {
        let rows = json(folder.path(), &["errors", "--nodes", nodes])["rows"].clone();
        let name = |row: &Value| {
            format!(
                "{} {}",
                row["node"].as_str().unwrap(),
                row["what"].as_str().unwrap()
            )
        };
        rows.as_array()
            .unwrap()
            .iter()
            .map(name)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("n11"), ["leaf1 symbol_error_counter"]);
    assert_eq!(
        found("n21"),
        ["leaf2 unreachable"],
        "the host is behind the switch"
    );
    assert_eq!(
        found("core"),
        ["leaf2 unreachable"],
        "the switch is next to the dead one"
    );
    let (code, text, _) = run(folder.path(), &["errors", "--nodes", "core", "--check"]);
    assert!(
        code == 3 && text.contains("4 ports; ports with errors: 0"),
        "{text}"
    );
    let (code, _, stderr) = run(folder.path(), &["errors", "--nodes", "n99"]);
    assert!(
        code == 1 && stderr.contains("no record of a port of n99"),
        "{stderr}"
    );
}

#[test]
fn wrong_arguments_have_their_exit_code_and_a_remedy() {
    let folder = recorded();
    for (args, code, reason) in [
        (&["links", "--top", "0"][..], 2, "from 1"),
        (&["links", "--stat", "p100"], 2, "such as p95"),
        (&["links", "--format", "xml"], 2, "--format"),
        (
            &["links", "--format", "csv", "-o", "x.svg"],
            2,
            "name of a picture",
        ),
        (
            &["links", "--format", "csv", "-o", "lines.jsonl"],
            1,
            "also an input",
        ),
        (&["map", "-o", "map.png"], 2, ".svg"),
        (&["map"], 2, "--output"),
        (&["heatmap"], 2, "--output"),
        (&["heatmap", "--format", "text"], 2, "--output"),
        (
            &["heatmap", "--format", "json", "-o", "x.png"],
            2,
            "name of a picture",
        ),
        (
            &["heatmap", "--format", "json", "--terminal"],
            2,
            "--terminal",
        ),
        (&["latency", "-o", "x.gif"], 2, ".svg or .png"),
        (
            &["errors", "--threshold", "RcvErr=1"],
            2,
            "did you mean `port_rcv_errors`",
        ),
        (
            &["errors", "--threshold", "symbol_error_counter=x"],
            2,
            "NAME=N",
        ),
        (&["errors", "--from", "noon"], 2, "as a time"),
        (
            &["errors", "--from", "2027-01-01"],
            1,
            "the records are from 2026-11-21 12:00:0",
        ),
    ] {
        let (found, _, stderr) = run(folder.path(), args);
        assert!(
            found == code && stderr.contains(reason),
            "{args:?}: {found} {stderr}"
        );
    }
    assert!(!folder.path().join("map.png").exists() && !folder.path().join("x.svg").exists());
}

#[test]
fn range_in_a_gap_names_the_gap() {
    let folder = recorded();
    let text = lines();
    let is_kept = |line: &&str| {
        !line.contains(&format!("\"slot\":{}", START + 3))
            && !line.contains(&format!("\"slot\":{}", START + 4))
    };
    let gap: String = text
        .lines()
        .filter(is_kept)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(folder.path().join("lines.jsonl"), gap).unwrap();
    // Seconds of the records: 1, 2, 5 and 6. Each describes the second before it.
    let [from, to] = [3, 4].map(|second| (START + second).to_string());
    for args in [
        &["links"][..],
        &["errors", "--check"],
        &["heatmap", "--format", "json"],
        &["latency"],
    ] {
        let (code, stdout, stderr) = run(
            folder.path(),
            &[args, &["--from", &from, "--to", &to]].concat(),
        );
        assert_eq!((code, stdout), (1, String::new()), "{args:?}");
        for part in [
            "no record in the time range",
            "the records are from 2026-11-21 12:00:0",
            "none from 2026-11-21 12:00:02 to 2026-11-21 12:00:0",
        ] {
            assert!(stderr.contains(part), "{part}: {stderr}");
        }
    }
}

/// The names in the first cells of the tables of a section, and of the lists of inner fields.
fn documented() -> BTreeSet<String> {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/results.md")).unwrap();
    let section = page
        .split("## Results of ibnet-view")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap()
        .to_owned();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(|row| {
        row.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn every_field_is_documented() {
    let names = documented();
    fn is_documented(column: &str, names: &BTreeSet<String>) -> bool {
        let inner = |name: &String| column.strip_prefix(name.as_str())?.strip_prefix('_');
        names.contains(column)
            || names
                .iter()
                .filter_map(inner)
                .any(|inner| is_documented(inner, names))
    }
    let all = [
        HeatRow::COLUMNS,
        LinkRow::COLUMNS,
        RailRow::COLUMNS,
        PrevalenceRow::COLUMNS,
        RootRow::COLUMNS,
        ErrorRow::COLUMNS,
        HealthRow::COLUMNS,
        PdrRow::COLUMNS,
        InventoryRow::COLUMNS,
        TreeRow::COLUMNS,
        JobRow::COLUMNS,
        JobTotal::COLUMNS,
        MatrixCell::COLUMNS,
        LatencyRow::COLUMNS,
        SweepRow::COLUMNS,
        BinRow::COLUMNS,
    ];
    let missing: Vec<_> = all
        .concat()
        .into_iter()
        .filter(|column| !is_documented(column, &names))
        .collect();
    assert_eq!(missing, [""; 0], "in docs/results.md");
}
