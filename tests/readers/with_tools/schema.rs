//! The schemas of `ibnet-sweep schema` and the Python examples of `docs/recipes.md`, run on
//! records with counters of 64 bits and with torn lines.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::recorded;
use crate::tools::{self, SWEEP};

const DOCUMENT: &str = include_str!("../../../docs/recipes.md");

/// Types of records.
const TYPES: [&str; 5] = ["port", "sweep", "event", "histogram", "start"];

/// Counters in the port records, some of which not every record has.
const COUNTERS: [&str; 4] = [
    "port_xmit_data_bytes",
    "port_rcv_data_bytes",
    "symbol_error_counter",
    "port_xmit_wait_ticks",
];

/// Returns the Python example with this title.
fn example(title: &str) -> &'static str {
    let start = format!("```python\n# {title}\n");
    DOCUMENT
        .split_once(&start)
        .unwrap_or_else(|| panic!("no example {title}"))
        .1
        .split("```")
        .next()
        .unwrap()
}

/// Returns the schema of a type of record.
fn schema(format: &str, record: &str) -> String {
    let output = Command::new(SWEEP)
        .args(["schema", "--format", format, "--type", record])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Records slots of a small fabric with one dead host. One counter has the largest value of 64
/// bits. A torn line is in the middle, and another one at the end. Returns the whole records too.
fn recorded() -> (TempDir, Vec<Value>) {
    let dir = tools::small();
    let config =
        "groups = [\"extended\", \"base/3\", \"xmtsl\"]\n[simulated]\ndead = [\"node00002\"]\n";
    let text = recorded::record(dir.path(), config, 5, recorded::START_NS);
    let (before, rest) = text.rsplit_once("\"port_rcv_data_bytes\":").unwrap();
    let text = format!(
        "{before}\"port_rcv_data_bytes\":{}{}",
        u64::MAX,
        rest.trim_start_matches(|c: char| c.is_ascii_digit())
    );
    let middle = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let torn = "{\"type\":\"port\",\"ts\":17";
    fs::write(
        dir.path().join("lines.jsonl"),
        format!("{}{torn}\n{}{torn}", &text[..middle], &text[middle..]),
    )
    .unwrap();
    (
        dir,
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// Returns the rows that the readers must have: time, GUID, port and counters, in order of time.
fn expected(records: &[Value]) -> Vec<Value> {
    let ports = records.iter().filter(|record| record["type"] == "port");
    let row = |record: &Value| {
        let counters = COUNTERS
            .iter()
            .map(|name| record.get(*name).cloned().unwrap_or_default());
        Value::Array(
            [
                record["ts"].clone(),
                record["guid"].clone(),
                record["port"].clone(),
            ]
            .into_iter()
            .chain(counters)
            .collect(),
        )
    };
    let mut rows: Vec<_> = ports.map(row).collect();
    rows.sort_by_key(ToString::to_string);
    rows
}

/// Returns a Python that has these modules; `None` with a notice if there is none.
fn python_with(modules: &str) -> Option<PathBuf> {
    let has = |python: &Path| {
        Command::new(python)
            .args(["-c", &format!("import {modules}")])
            .output()
            .is_ok_and(|run| run.status.success())
    };
    let found = [tools::python(), Some(PathBuf::from("python3"))]
        .into_iter()
        .flatten()
        .find(|python| has(python));
    if found.is_none() {
        // The test runner would capture the output of `eprintln!`.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no Python with {modules}; install these packages"
        );
    }
    found
}

/// Runs Python source in the directory of the records. Returns the rows that it prints as JSON.
#[track_caller]
fn rows(python: &Path, dir: &TempDir, source: &str) -> Vec<Value> {
    let output = Command::new(python)
        .current_dir(dir.path())
        .args(["-c", source])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    rows.sort_by_key(ToString::to_string);
    rows
}

/// Returns the names of the columns as a Python list.
fn columns() -> String {
    json!(
        ["ts", "guid", "port"]
            .into_iter()
            .chain(COUNTERS)
            .collect::<Vec<_>>()
    )
    .to_string()
}

#[test]
fn duckdb_reads_exact_integers() {
    let Some(python) = python_with("duckdb") else {
        return;
    };
    let (dir, records) = recorded();
    fs::write(
        dir.path().join("ibnet_schema.duckdb"),
        schema("duckdb", "port"),
    )
    .unwrap();
    let print = format!(
        "import json\nprint(json.dumps(ports.select(*{}).fetchall()))",
        columns()
    );
    assert_eq!(
        rows(&python, &dir, &format!("{}\n{print}", example("duckdb"))),
        expected(&records)
    );
    // The schemas of the other types fit too: each field of their records is in them.
    for record in TYPES {
        fs::write(
            dir.path().join("ibnet_schema.duckdb"),
            schema("duckdb", record),
        )
        .unwrap();
        let source = example("duckdb").replace("'port'", &format!("'{record}'"));
        let found = rows(
            &python,
            &dir,
            &format!(
                "{source}\nimport json\nprint(json.dumps([ports.columns, ports.fetchall()], default=str))"
            ),
        );
        let of_type: Vec<_> = records
            .iter()
            .filter(|found| found["type"] == record)
            .collect();
        let lists: Vec<&Vec<Value>> = found.iter().filter_map(Value::as_array).collect();
        let names = lists
            .iter()
            .find(|list| list.iter().any(|name| name == "ts"))
            .unwrap();
        let rows = lists
            .iter()
            .find(|list| !list.iter().any(|name| name == "ts"))
            .unwrap();
        assert_eq!(rows.len(), of_type.len(), "{record}");
        let unknown = of_type
            .iter()
            .flat_map(|found| found.as_object().unwrap().keys())
            .find(|name| !names.contains(&json!(name)));
        assert_eq!(unknown, None, "{record}");
    }
}

#[test]
fn polars_and_pandas_read_exact_integers() {
    let (dir, records) = recorded();
    fs::write(dir.path().join("ibnet_schema.py"), schema("polars", "port")).unwrap();
    let columns = columns();
    if let Some(python) = python_with("polars") {
        let source = format!(
            "{}\nimport json\nprint(json.dumps(ports.select({columns}).rows()))",
            example("polars")
        );
        assert_eq!(rows(&python, &dir, &source), expected(&records));
    }
    if let Some(python) = python_with("polars, pandas, pyarrow") {
        let print = format!(
            "import json\nimport pandas as pd\nrows = ports[{columns}].itertuples(index=False, name=None)\n"
        ) + "print(json.dumps([[None if pd.isna(value) else value for value in row] for row in rows], default=int))";
        assert_eq!(
            rows(
                &python,
                &dir,
                &format!("{}\n{}\n{print}", example("polars"), example("pandas"))
            ),
            expected(&records)
        );
    }
}

#[test]
fn clickhouse_reads_exact_integers() {
    let Some(python) = python_with("chdb") else {
        return;
    };
    let (dir, records) = recorded();
    let whole: String = records.iter().map(|record| format!("{record}\n")).collect();
    fs::write(dir.path().join("whole.jsonl"), whole).unwrap();
    fs::write(
        dir.path().join("structure"),
        schema("clickhouse", "port").trim(),
    )
    .unwrap();
    let source = format!(
        "import chdb, json\nstructure = open('structure').read()\n\
         settings = 'SETTINGS output_format_json_quote_64bit_integers = 0, input_format_skip_unknown_fields = 1'\n\
         query = f\"SELECT {} FROM file('whole.jsonl', JSONEachRow, '{{structure}}') WHERE type = 'port' {{settings}}\"\n\
         lines = str(chdb.query(query, 'JSONCompactEachRow')).splitlines()\n\
         print('[' + ','.join(line for line in lines if line) + ']')",
        ["ts", "guid", "port"]
            .into_iter()
            .chain(COUNTERS)
            .collect::<Vec<_>>()
            .join(", ")
    );
    assert_eq!(rows(&python, &dir, &source), expected(&records));
}

#[test]
fn json_schema_has_every_field_of_the_records() {
    let (_dir, records) = recorded();
    for record in TYPES {
        let schema: Value = serde_json::from_str(&schema("json-schema", record)).unwrap();
        assert_eq!(schema["properties"]["type"], json!({ "const": record }));
        for found in records.iter().filter(|found| found["type"] == record) {
            for (name, value) in found
                .as_object()
                .unwrap()
                .iter()
                .filter(|(name, _)| *name != "type")
            {
                let kind = match value {
                    Value::Null => "null",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Number(number) if number.is_u64() => "integer",
                    _ => "number",
                };
                let allowed = &schema["properties"][name]["type"];
                let fits =
                    |allowed: &Value| allowed == kind || kind == "integer" && allowed == "number";
                assert!(
                    fits(allowed) || allowed.as_array().is_some_and(|all| all.iter().any(fits)),
                    "{record}.{name}: {value}: {allowed}"
                );
            }
        }
    }
}
