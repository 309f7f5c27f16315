//! Records and archives of an earlier version. `tests/data/earlier/README.md` describes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::run;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/earlier")
}

/// Returns lines by their values, sorted.
fn records(lines: &str) -> Vec<String> {
    let mut records: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap().to_string())
        .collect();
    records.sort();
    records
}

/// Returns all records of files or of an archive, and the messages.
fn replayed(folder: &Path, input: &str) -> (Vec<String>, String) {
    let run = run(folder, &["replay", input, "--speed", "0", "--keep-times"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    (records(&run.stdout), run.stderr)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Returns a value without the last digits of its numbers: sums of floating-point numbers depend on
/// the order of records with the same time.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            Value::String(format!("{:.9e}", number.as_f64().unwrap()))
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, rounded(value)))
            .collect(),
        other => other,
    }
}

/// Start of the note about files without checksums.
const UNCHECKED: &str = "unchecked ";

#[test]
fn every_command_has_the_same_result_for_records_and_archive() {
    for args in [
        &["heatmap", "-m", "xmit_gbps", "--format", "json"][..],
        &[
            "heatmap",
            "-m",
            "port_vl_xmit_wait_ticks",
            "--by",
            "vl",
            "--format",
            "json",
        ],
        &["links", "--format", "json"],
        &["errors", "--format", "json"],
        &["latency", "--format", "json"],
        &["sweeps", "--format", "json"],
        &["map", "--format", "json"],
        &["job", "--nodes", "node[1-4]", "--format", "json"],
    ] {
        let of = |input: &str| run(data(), &[&args[..1], &[input], &args[1..]].concat());
        let (lines, archive) = (of("records/*"), of("archive"));
        assert_eq!(
            (lines.code, archive.code),
            (0, 0),
            "{args:?}: {}{}",
            lines.stderr,
            archive.stderr
        );
        let [of_lines, of_archive] =
            [&lines, &archive].map(|run| rounded(serde_json::from_str(&run.stdout).unwrap()));
        assert!(of_lines == of_archive, "{args:?}");
        assert!(
            of_lines["rows"]
                .as_array()
                .is_some_and(|rows| !rows.is_empty())
                || args[0] == "errors",
            "{args:?}"
        );
        assert_eq!(
            archive.stderr.matches(UNCHECKED).count(),
            1,
            "{}",
            archive.stderr
        );
        assert!(
            !lines.stderr.contains(UNCHECKED) && !lines.stderr.contains("skipped"),
            "{}",
            lines.stderr
        );
    }
}

#[test]
fn archive_has_the_records_and_gets_checksums_when_it_is_packed_again() {
    let (lines, notes) = replayed(&data(), "records/*");
    assert!(notes.is_empty() && !lines.is_empty(), "{notes}");
    let (archived, notes) = replayed(&data(), "archive");
    assert!(archived == lines);
    assert_eq!(notes.matches(UNCHECKED).count(), 1, "{notes}");
    let dir = tempfile::tempdir().unwrap();
    copy(&data(), dir.path());
    // The archive has all of the records.
    let packed = run(dir.path(), &["pack", "records/*", "-o", "archive"]);
    let count = lines.len();
    assert!(
        packed
            .stdout
            .contains(&format!("copies    {count} records"))
            && !packed.stdout.contains("added"),
        "{}",
        packed.stdout
    );
    assert_eq!(
        run(dir.path(), &["pack", "records/*", "-o", "archive"])
            .stdout
            .matches("unchanged 3 files")
            .count(),
        1
    );
    // The hour that retention removed does not return.
    assert_eq!(
        fs::read_to_string(dir.path().join("archive/.removed"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    let hours = |table: &str| {
        fs::read_dir(dir.path().join("archive").join(table))
            .unwrap()
            .flat_map(|date| fs::read_dir(date.unwrap().path()).unwrap())
            .count()
    };
    assert_eq!(
        (hours("ports"), hours("ports_1m"), hours("devices")),
        (2, 2, 1)
    );
    // A new archive has checksums.
    let all = run(
        dir.path(),
        &[
            "replay",
            "archive",
            "--speed",
            "0",
            "--keep-times",
            "-o",
            "all.jsonl",
        ],
    );
    let packed = run(dir.path(), &["pack", "all.jsonl", "-o", "new", "--verify"]);
    assert_eq!(
        (all.code, packed.code),
        (0, 0),
        "{}{}",
        all.stderr,
        packed.stderr
    );
    let (again, notes) = replayed(dir.path(), "new");
    assert!(again == lines && notes.is_empty(), "{notes}");
}
