//! The recipes of `docs/recipes.md` for JSON lines, run on records of a simulated fabric. The
//! results are compared with sums over the records.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use ibnet_record::strict::{self, Line, Port, Value as Counter};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::clickhouse::{TABLES, statements};
use crate::{recorded, tools};

const DOCUMENT: &str = include_str!("../../../docs/recipes.md");

const MACROS: &str = include_str!("../../../packaging/duckdb/ibnet.sql");

const VECTOR: &str = include_str!("../../../packaging/vector/ibnet.toml");

const SQL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/readers/sql.py");

/// All counter groups that have columns in the tables, and a dead host.
const CONFIG: &str =
    "groups = [\"extended\", \"base\", \"xmtdisc\", \"rcverr\", \"xmtsl\", \"rcvsl\"]
[simulated]
dead = [\"node00002\"]
";

/// Types of records with a table.
pub(super) const KINDS: [&str; 4] = ["port", "sweep", "event", "histogram"];

pub(super) type Rows = Vec<Vec<Value>>;

/// A code block: its language, the title in its first line, and its text.
struct Recipe {
    language: &'static str,
    name: &'static str,
    text: &'static str,
}

/// Returns the recipes of a section.
fn recipes(section: &str) -> Vec<Recipe> {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let fenced = section.split("```").skip(1).step_by(2);
    let recipe = |block: &'static str| {
        let (language, text) = block.split_once('\n').unwrap();
        let name = text
            .lines()
            .next()
            .unwrap()
            .trim_start_matches(['-', '#', ' ']);
        Recipe {
            language,
            name,
            text,
        }
    };
    fenced.map(recipe).collect()
}

/// Adds incomplete records: one in the middle, as after a crash and a new start, and one at the end
/// without a line feed, as in a file that is being written.
fn torn(text: &str) -> String {
    let middle = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let line = text
        .lines()
        .find(|line| line.starts_with("{\"type\":\"port\"") && line.contains("xmit_blocked"))
        .unwrap();
    let event = text
        .lines()
        .find(|line| line.starts_with("{\"type\":\"event\""))
        .unwrap();
    let half = |line: &str| line[..line.len() / 2].to_owned();
    format!(
        "{}{}\n{}{}",
        &text[..middle],
        half(line),
        &text[middle..],
        half(event)
    )
}

/// A recording: a directory with `lines.jsonl`, and its records. The file also has torn lines.
pub(super) struct Recorded {
    pub(super) dir: TempDir,
    pub(super) text: String,
    lines: Vec<Line>,
}

impl Recorded {
    /// Records some slots of a fabric with one dead host, and sets one counter to its largest
    /// value.
    pub(super) fn new() -> Self {
        let dir = tools::small();
        let text = recorded::record(dir.path(), CONFIG, 5, recorded::START_NS);
        let (before, rest) = text.rsplit_once("\"port_rcv_data_bytes\":").unwrap();
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let text = format!("{before}\"port_rcv_data_bytes\":{}{after}", u64::MAX);
        fs::write(dir.path().join("lines.jsonl"), torn(&text)).unwrap();
        let lines = text
            .lines()
            .map(|text| strict::parse(text).unwrap())
            .collect();
        Self { dir, text, lines }
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.lines.iter().filter_map(|line| {
            if let Line::Port(port) = line {
                Some(&**port)
            } else {
                None
            }
        })
    }

    /// Returns the records of each port in order, by GUID and port number.
    fn by_port(&self) -> BTreeMap<(String, u8), Vec<&Port>> {
        let mut by_port = BTreeMap::<_, Vec<_>>::new();
        self.ports().for_each(|port| {
            by_port
                .entry((port.guid.to_string(), port.port.0))
                .or_default()
                .push(port);
        });
        by_port
    }

    fn bytes_sent(&self) -> Rows {
        let of = |ports: &[&Port]| {
            let values: Vec<_> = ports
                .iter()
                .filter_map(|port| port.counter("port_xmit_data_bytes"))
                .collect();
            Some(values.iter().max()? - values.iter().min()?)
        };
        self.by_port()
            .iter()
            .map(|((guid, port), ports)| vec![json!(guid), json!(port), json!(of(ports))])
            .collect()
    }

    /// Returns node, port number and mean `xmit_blocked` of each port that has values.
    pub(super) fn blocked(&self) -> Rows {
        let of = |ports: &[&Port]| {
            let shares: Vec<_> = ports.iter().filter_map(|port| port.xmit_blocked).collect();
            (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
        };
        let rows = self.by_port().into_values().filter_map(|ports| {
            Some(vec![
                json!(ports[0].node),
                json!(ports[0].port),
                json!(of(&ports)?),
            ])
        });
        rows.collect()
    }

    fn unanswered(&self) -> Rows {
        let mut counts = BTreeMap::<_, u64>::new();
        let silent = self
            .ports()
            .filter(|port| !["ok", "late"].contains(&port.status.as_str()));
        silent.for_each(|port| *counts.entry((&port.node, &port.status)).or_default() += 1);
        counts
            .into_iter()
            .map(|((node, status), slots)| vec![json!(node), json!(status), json!(slots)])
            .collect()
    }

    fn bytes_by_sl(&self) -> Rows {
        let mut sums = [0u64; 16];
        for ports in self.by_port().into_values() {
            let last = ports
                .iter()
                .rev()
                .find_map(|port| port.counters.get("port_xmit_data_sl_bytes"));
            if let Some(Counter::Many(values)) = last {
                sums.iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        assert!(sums.iter().any(|sum| *sum > 0));
        sums.iter()
            .enumerate()
            .map(|(sl, sum)| vec![json!(sl), json!(sum)])
            .collect()
    }

    fn samplers(&self) -> Rows {
        let sweeps: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| {
                if let Line::Sweep(sweep) = line {
                    Some(sweep)
                } else {
                    None
                }
            })
            .collect();
        let sum = |value: fn(&strict::Sweep) -> u64| {
            json!(sweeps.iter().map(|sweep| value(sweep)).sum::<u64>())
        };
        vec![vec![
            json!(sweeps[0].sampler),
            json!(sweeps.len()),
            sum(|sweep| sweep.ports.into()),
            sum(|sweep| u64::from(sweep.ok) + u64::from(sweep.late)),
            sum(|sweep| sweep.mads_sent),
            sum(|sweep| sweep.slots_missed),
            sum(|sweep| sweep.lines_lost),
            json!(sweeps.iter().map(|sweep| sweep.duration_ns).max()),
        ]]
    }

    fn events(&self) -> Rows {
        let mut counts = BTreeMap::<_, u64>::new();
        for line in &self.lines {
            if let Line::Event(event) = line {
                *counts.entry(&event.event).or_default() += 1;
            }
        }
        assert!(!counts.is_empty());
        counts
            .into_iter()
            .map(|(event, events)| vec![json!(event), json!(events)])
            .collect()
    }

    fn readings(&self) -> Rows {
        let times = || self.ports().map(|port| port.ts);
        vec![vec![
            json!(times().min()),
            json!(times().max()),
            json!(u64::MAX),
        ]]
    }

    /// Checks the rows of a recipe against the records.
    #[track_caller]
    fn check(&self, name: &str, mut rows: Rows) {
        let sort = |rows: &mut Rows| {
            rows.sort_by_key(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>());
        };
        match name {
            "Bytes that each port sent" => {
                let mut expected = self.bytes_sent();
                assert!(
                    expected
                        .iter()
                        .filter(|row| row[2].as_u64().is_some_and(|bytes| bytes > 0))
                        .count()
                        > 10
                );
                sort(&mut rows);
                sort(&mut expected);
                assert_eq!(rows, expected);
            }
            "The ports that waited longest" => {
                let expected = self.blocked();
                let mut means: Vec<_> = expected
                    .iter()
                    .map(|row| row[2].as_f64().unwrap())
                    .collect();
                means.sort_by(|a, b| b.total_cmp(a));
                assert_eq!(rows.len(), 10);
                for (row, mean) in rows.iter().zip(means) {
                    let close = |other: f64| (row[2].as_f64().unwrap() - other).abs() < 2e-6;
                    assert!(close(mean), "{row:?} is not {mean}");
                    assert!(
                        expected.iter().any(
                            |other| other[..2] == row[..2] && close(other[2].as_f64().unwrap())
                        ),
                        "{row:?}"
                    );
                }
            }
            "Ports that did not answer" => {
                assert!(
                    rows.iter()
                        .any(|row| row[0].as_str().unwrap().starts_with("node00002 "))
                );
                assert_eq!(rows, self.unanswered());
            }
            "Bytes by service level" => assert_eq!(rows, self.bytes_by_sl()),
            "Totals of each sampler" => assert_eq!(rows, self.samplers()),
            "Number of events" => assert_eq!(rows, self.events()),
            "First and last reading" => assert_eq!(rows, self.readings()),
            _ => panic!("the test has no expected rows for the recipe: {name}"),
        }
    }

    /// Runs recipes in order and checks their rows. Returns the number of queries.
    #[track_caller]
    fn run(&self, python: &Path, store: &str, recipes: &[Recipe]) -> usize {
        let statements = |recipe: &Recipe| {
            recipe
                .text
                .split_inclusive(";\n")
                .map(|text| text.trim_end().trim_end_matches(';'))
                .collect::<Vec<_>>()
        };
        let all: Vec<_> = recipes.iter().flat_map(statements).collect();
        let mut rows = sql(python, store, self.dir.path(), &all).into_iter();
        let mut queries = 0;
        for recipe in recipes {
            let answers: Vec<_> = rows.by_ref().take(statements(recipe).len()).collect();
            if is_query(recipe) {
                self.check(recipe.name, answers.into_iter().next().unwrap());
                queries += 1;
            }
        }
        queries
    }

    /// Checks that every field of every record has a column. `start` records have no table.
    #[track_caller]
    fn check_columns(&self, of_kinds: &[Rows]) {
        for (kind, columns) in KINDS.iter().zip(of_kinds) {
            let lines = self
                .text
                .lines()
                .filter(|text| text.starts_with(&format!("{{\"type\":\"{kind}\"")));
            for line in lines {
                let fields: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
                for field in fields.keys().filter(|field| *field != "type") {
                    assert!(
                        columns.iter().any(|column| column[0] == json!(field)),
                        "{kind}: {field} has no column"
                    );
                }
            }
        }
    }
}

/// Runs statements. Returns the rows of each.
#[track_caller]
pub(super) fn sql(python: &Path, store: &str, dir: &Path, statements: &[&str]) -> Vec<Rows> {
    let mut child = Command::new(python)
        .arg(SQL)
        .args([store, "."])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = statements
        .iter()
        .map(|statement| format!("{}\n", json!(statement)))
        .collect();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{statements:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let rows: Vec<Rows> = output
        .stdout
        .split(|octet| *octet == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(rows.len(), statements.len());
    rows
}

fn shell(dir: &Path, text: &str, environment: &[(&str, String)]) -> String {
    let output = Command::new("sh")
        .args(["-euc", text])
        .current_dir(dir)
        .envs(environment.iter().map(|(key, value)| (key, value)))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{text}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns whether a recipe is a query, not the definition of a table or view.
fn is_query(recipe: &Recipe) -> bool {
    recipe.text.contains("\nSELECT") && !recipe.text.contains("CREATE")
}

/// Runs the statements of a file, which defines tables or macros.
#[track_caller]
fn define(python: &Path, store: &str, dir: &Path, file: &str) {
    let statements = statements(file);
    let statements: Vec<_> = statements.iter().map(String::as_str).collect();
    sql(python, store, dir, &statements);
}

/// Returns the queries of DuckDB that also run in ClickHouse, with the names of its tables.
fn of_both(of_clickhouse: &[Recipe]) -> Vec<Recipe> {
    let is_own = |name: &str| of_clickhouse.iter().any(|recipe| recipe.name == name);
    let renamed = |text: &str| {
        KINDS.iter().fold(text.to_owned(), |text, kind| {
            text.replace(&format!("FROM {kind}"), &format!("FROM ibnet_{kind}"))
        })
    };
    recipes("DuckDB")
        .into_iter()
        .filter(|recipe| is_query(recipe) && !is_own(recipe.name))
        .map(|recipe| Recipe {
            text: renamed(recipe.text).leak(),
            ..recipe
        })
        .collect()
}

#[test]
fn duckdb_recipes_return_the_sums_of_the_records() {
    let Some(python) = tools::python() else {
        return;
    };
    let recorded = Recorded::new();
    define(&python, "duckdb", recorded.dir.path(), MACROS);
    let recipes = recipes("DuckDB");
    assert!(recipes.iter().all(|recipe| recipe.language == "sql"));
    let queries = recorded.run(&python, "duckdb", &recipes);
    assert_eq!(queries, 7);
    let describe = KINDS.map(|kind| format!("DESCRIBE {kind}"));
    recorded.check_columns(&sql(
        &python,
        "duckdb",
        recorded.dir.path(),
        &describe.each_ref().map(String::as_str),
    ));
}

#[test]
fn clickhouse_recipes_return_the_sums_of_the_records() {
    let Some(python) = tools::python() else {
        return;
    };
    let recorded = Recorded::new();
    let dir = recorded.dir.path();
    // A substitute for the client of a server.
    let client = dir.join("bin/clickhouse-client");
    fs::create_dir(dir.join("bin")).unwrap();
    fs::write(
        &client,
        format!("#!/bin/sh\nexec '{}' '{SQL}' \"$@\"\n", python.display()),
    )
    .unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}",
        dir.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let environment = [
        ("PATH", path),
        ("CLICKHOUSE_FOLDER", dir.display().to_string()),
    ];
    let recipes = recipes("ClickHouse");
    define(&python, "clickhouse", dir, TABLES);
    let load = recipes
        .iter()
        .find(|recipe| recipe.name == "Load files")
        .unwrap();
    shell(dir, load.text, &environment);
    let mut queries: Vec<_> = recipes.into_iter().filter(is_query).collect();
    queries.extend(of_both(&queries));
    assert_eq!(recorded.run(&python, "clickhouse", &queries), 7);
    let counts = KINDS.map(|kind| format!("SELECT count() FROM ibnet_{kind}"));
    let describe =
        KINDS.map(|kind| format!("SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'ibnet_{kind}'"));
    let statements: Vec<_> = counts.iter().chain(&describe).map(String::as_str).collect();
    let rows = sql(&python, "clickhouse", dir, &statements);
    let lines = |kind: &str| {
        recorded
            .text
            .lines()
            .filter(|line| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
            .count()
    };
    assert_eq!(rows[..4], KINDS.map(|kind| vec![vec![json!(lines(kind))]]));
    recorded.check_columns(&rows[4..]);
}

#[test]
fn jq_recipes_return_the_sums_of_the_records() {
    if tools::jq().is_none() {
        return;
    }
    let recorded = Recorded::new();
    for recipe in recipes("jq") {
        let text = shell(recorded.dir.path(), recipe.text, &[]);
        let words = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        let rows: Vec<_> = text.lines().map(words).collect();
        match recipe.name {
            "Number of events" => {
                let expected: Vec<_> = recorded
                    .events()
                    .iter()
                    .map(|row| vec![row[0].as_str().unwrap().to_owned(), row[1].to_string()])
                    .collect();
                assert_eq!(rows, expected);
            }
            "Ports that did not answer" => {
                let expected = recorded.unanswered();
                let blanks = |line: &str| line.trim_start().replace('\t', " ");
                let expected: Vec<_> = expected
                    .iter()
                    .map(|row| {
                        format!(
                            "{} {} {}",
                            row[2],
                            row[0].as_str().unwrap(),
                            row[1].as_str().unwrap()
                        )
                    })
                    .collect();
                assert_eq!(text.lines().map(blanks).collect::<Vec<_>>(), expected);
            }
            "Ports that waited for more than a hundredth of the time" => {
                let waited = recorded
                    .ports()
                    .filter(|port| port.xmit_blocked.is_some_and(|share| share > 0.01));
                let expected: Vec<_> = waited
                    .map(|port| {
                        (
                            port.slot,
                            port.node.clone(),
                            port.port.0,
                            port.xmit_blocked.unwrap(),
                        )
                    })
                    .collect();
                let parse = |row: &Vec<String>| {
                    (
                        row[0].parse().unwrap(),
                        row[1].clone(),
                        row[2].parse().unwrap(),
                        row[3].parse().unwrap(),
                    )
                };
                assert_eq!(
                    rows.iter()
                        .map(parse)
                        .collect::<Vec<(u64, String, u8, f64)>>(),
                    expected
                );
            }
            other => panic!("the test has no expected rows for the recipe: {other}"),
        }
    }
}

#[test]
fn vector_configuration_is_valid_toml() {
    let config: toml::Table = toml::from_str(VECTOR).unwrap();
    let kind = |table: &str, name: &str| config[table][name]["type"].as_str().unwrap().to_owned();
    assert_eq!(
        (
            kind("sources", "ibnet"),
            kind("transforms", "port"),
            kind("sinks", "clickhouse_port")
        ),
        ("file".into(), "filter".into(), "http".into())
    );
}
