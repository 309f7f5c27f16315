//! The recipes of `docs/recipes.md` for an archive, run on an archive of records of `ibnet-sweep`.
//! The results are compared with those of the lines.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::recorded;
use crate::tools::{self, SWEEP};

const CONFIG: &str =
    "groups = [\"extended\", \"base\", \"xmtsl\"]\n[simulated]\ndead = [\"node00002\"]\n";

const DOCUMENT: &str = include_str!("../../../docs/recipes.md");

/// Returns the number of records with fields that no column has. If it is not 0, the schema of the
/// archive lacks a new field of the records.
const WITHOUT_COLUMN: &str = "SELECT count(*) FROM read_parquet('archive/*/**/*.parquet', union_by_name = true) WHERE extra IS NOT NULL";

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/archive.py");

/// Returns language, title and text of each recipe.
fn recipes() -> Vec<(&'static str, &'static str, &'static str)> {
    let (_, archive) = DOCUMENT
        .split_once("\n## Recipes for an archive\n")
        .unwrap();
    let sections = archive.split("\n### ").skip(1);
    let of_section = |section: &'static str| {
        let heading = section.lines().next().unwrap();
        let engine = heading.trim_start_matches("Archive in ");
        section.split("```").skip(1).step_by(2).map(move |block| {
            let (language, text) = block.split_once('\n').unwrap();
            let title = text
                .lines()
                .next()
                .unwrap()
                .trim_start_matches(['-', '#', ' ']);
            (
                if language == "python" {
                    "python"
                } else {
                    engine
                },
                title,
                text,
            )
        })
    };
    sections.flat_map(of_section).collect()
}

/// Returns the expected rows of a recipe from the lines.
fn expected(lines: &str, title: &str) -> Vec<Vec<Value>> {
    let records = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut by_port: BTreeMap<(String, u64), Vec<Value>> = BTreeMap::new();
    for record in records.filter(|record| record["type"] == "port") {
        by_port
            .entry((
                record["guid"].as_str().unwrap().to_owned(),
                record["port"].as_u64().unwrap(),
            ))
            .or_default()
            .push(record);
    }
    let values = |records: &[Value], name: &str| {
        records
            .iter()
            .filter_map(|record| record[name].as_u64())
            .collect::<Vec<_>>()
    };
    let row = |((guid, port), records): ((String, u64), Vec<Value>)| match title {
        "Bytes that each port sent" => {
            let values = values(&records, "port_xmit_data_bytes");
            let bytes = values
                .iter()
                .max()
                .zip(values.iter().min())
                .map(|(most, least)| most - least);
            Some(vec![json!(guid), json!(port), json!(bytes)])
        }
        "Mean share of the time in which a port was blocked" => {
            let shares: Vec<f64> = records
                .iter()
                .filter_map(|record| record["xmit_blocked"].as_f64())
                .collect();
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            (!shares.is_empty())
                .then(|| vec![json!(guid), json!(port), json!((mean * 1e6).round() / 1e6)])
        }
        "Largest data rate that each port sent, from the one-minute means" => {
            let most = records
                .iter()
                .filter_map(|record| record["xmit_gbps"].as_f64())
                .reduce(f64::max);
            most.map(|most| vec![json!(guid), json!(port), json!(most)])
        }
        "Link, MTU and peer of each port, from the changes of devices" => {
            let last = records
                .iter()
                .max_by_key(|record| record["ts"].as_u64())
                .unwrap();
            Some(vec![
                json!(guid),
                json!(port),
                last["link"].clone(),
                last["mtu"].clone(),
                last["peer"].clone(),
            ])
        }
        _ => panic!("the test has no expected rows for the recipe: {title}"),
    };
    by_port.into_iter().filter_map(row).collect()
}

/// Returns the records as an earlier version wrote them one hour before.
fn an_hour_earlier(lines: &str) -> String {
    let earlier = |line: &str| {
        let mut record: Value = serde_json::from_str(line).unwrap();
        record["ts"] = (record["ts"].as_u64().unwrap() - 3_600_000_000_000).into();
        record
            .as_object_mut()
            .unwrap()
            .retain(|field, _| field != "mtu" && field != "vls");
        format!("{record}\n")
    };
    lines.lines().map(earlier).collect()
}

/// Returns whether rows are equal. A recipe rounds means to six digits. The mean of a few rates can
/// lie in the middle of two results, so the order of an addition decides between them. ClickHouse
/// writes the rate 0.0 as 0.
fn is_same(rows: &[Vec<Value>], expected: &[Vec<Value>]) -> bool {
    let is_equal = |found: &Value, expected: &Value| match (found, expected) {
        (Value::Number(a), Value::Number(b)) if b.is_f64() => a
            .as_f64()
            .zip(b.as_f64())
            .is_some_and(|(a, b)| (a - b).abs() < 1.5e-6),
        _ => found == expected,
    };
    let is_row = |(found, expected): (&Vec<Value>, &Vec<Value>)| {
        found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(found, expected)| is_equal(found, expected))
    };
    rows.len() == expected.len() && rows.iter().zip(expected).all(is_row)
}

fn view(program: &Path, dir: &Path, args: &[&str]) -> String {
    let output = Command::new(program)
        .current_dir(dir)
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn readers_of_an_archive_return_the_rows_of_the_lines() {
    let Some(python) = tools::python() else {
        return;
    };
    let Some(program) = tools::built(Path::new(SWEEP).with_file_name("ibnet-view")) else {
        return;
    };
    let dir = tools::small();
    let new = recorded::record(dir.path(), CONFIG, 5, recorded::START_NS);
    let lines = an_hour_earlier(&new) + &new;
    fs::write(dir.path().join("lines.jsonl"), &lines).unwrap();
    view(
        &program,
        dir.path(),
        &["pack", "lines.jsonl", "-o", "archive", "--verify"],
    );

    let recipes = recipes();
    assert_eq!(recipes.len(), 9);
    let mut named = recipes
        .iter()
        .map(|(engine, title, text)| (engine.to_lowercase(), *title, *text))
        .collect::<Vec<_>>();
    named.push((
        "duckdb".to_owned(),
        "records with fields that no column has",
        WITHOUT_COLUMN,
    ));
    fs::write(
        dir.path().join("recipes.json"),
        serde_json::to_string(&named).unwrap(),
    )
    .unwrap();
    let output = Command::new(python)
        .arg(SCRIPT)
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), named.len(), "{answers}");
    assert_eq!(
        answers.lines().last(),
        Some("[\"duckdb\", \"records with fields that no column has\", [[0]]]")
    );
    for answer in answers.lines().take(recipes.len()) {
        let (engine, title, rows): (String, String, Option<Vec<Vec<Value>>>) =
            serde_json::from_str(answer).unwrap();
        let Some(rows) = rows else {
            // An older `make tools` did not fetch the packages of these recipes.
            assert!(
                engine == "python" && std::env::var_os("IBNET_REQUIRE_IBSIM").is_none(),
                "{title}: run `make tools`"
            );
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {title}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            continue;
        };
        let expected = expected(&lines, &title);
        assert!(expected.len() > 10);
        assert!(
            is_same(&rows, &expected),
            "{engine}: {title}: {rows:?}, expected {expected:?}"
        );
    }
}

#[test]
fn commands_show_the_same_for_an_archive_as_for_the_lines() {
    let Some(program) = tools::built(Path::new(SWEEP).with_file_name("ibnet-view")) else {
        return;
    };
    let dir = tools::small();
    let text = recorded::record(dir.path(), CONFIG, 8, recorded::START_NS);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // One half is in the archive, the other half in a file, and some lines are in both.
    fs::write(
        dir.path().join("old.jsonl"),
        lines[..lines.len() * 2 / 3].concat(),
    )
    .unwrap();
    fs::write(
        dir.path().join("new.jsonl"),
        lines[lines.len() / 2..].concat(),
    )
    .unwrap();
    view(
        &program,
        dir.path(),
        &["pack", "lines.jsonl", "-o", "whole"],
    );
    view(
        &program,
        dir.path(),
        &["pack", "old.jsonl", "-o", "part", "--remove-inputs"],
    );
    assert!(!dir.path().join("old.jsonl").exists());
    for command in [
        &["errors"][..],
        &["errors", "--format", "json"],
        &["links", "--top", "3"],
        &["links", "--stat", "p95", "--top", "3"],
        &["links", "--tree", "--top", "1"],
        &["latency"],
        &["sweeps"],
        &["job", "--nodes", "node[00001-00003]", "--format", "json"],
        &[
            "heatmap",
            "--metric",
            "port_xmit_data_bytes,xmit_gbps",
            "-o",
            "heat.svg",
        ],
        &[
            "heatmap",
            "--metric",
            "xmit_gbps,xmit_blocked",
            "-o",
            "rates.svg",
        ],
        &[
            "heatmap",
            "--metric",
            "rcv_gbps,rtt_mean_ns",
            "--nodes",
            "node00003",
            "-o",
            "host.svg",
        ],
        &["map", "-o", "map.svg"],
    ] {
        let show = |inputs: &[&str]| {
            let text = view(&program, dir.path(), &[command, inputs].concat());
            let picture = command
                .iter()
                .find(|name| name.ends_with(".svg"))
                .map(|name| fs::read_to_string(dir.path().join(name)).unwrap());
            (text, picture)
        };
        let of_lines = show(&["lines.jsonl"]);
        assert_eq!(show(&["whole"]), of_lines, "{command:?}");
        assert_eq!(show(&["part", "new.jsonl"]), of_lines, "{command:?}");
    }
    let replay = |inputs: &[&str]| {
        let text = view(
            &program,
            dir.path(),
            &[
                &["replay", "--speed", "0", "--keep-times", "-o", "-"],
                inputs,
            ]
            .concat(),
        );
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(replay(&["whole"]), replay(&["lines.jsonl"]));
}
