//! The files of `packaging/clickhouse`, run by chdb. chdb does not have the engine NATS, so the
//! engine Null takes its place: it hands inserted rows to the materialized views in the same way.

use std::fs;

use serde_json::json;

use super::recipes::{KINDS, Recorded, sql};
use crate::tools;

pub(super) const TABLES: &str = include_str!("../../../packaging/clickhouse/tables.sql");
const ROLLUP: &str = include_str!("../../../packaging/clickhouse/rollup.sql");
const NATS: &str = include_str!("../../../packaging/clickhouse/nats.sql");
const CLUSTER: &str = include_str!("../../../packaging/clickhouse/cluster.sql");

/// Returns the statements of a file without comments.
pub(super) fn statements(file: &str) -> Vec<String> {
    let lines = file
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(text, _)| text));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.split(';')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn files_state_what_is_not_run() {
    assert!(
        NATS.contains("NOT RUN") && NATS.contains("ENGINE = NATS") && CLUSTER.contains("NOT RUN")
    );
    assert!(
        [TABLES, ROLLUP]
            .iter()
            .all(|file| !file.contains("NOT RUN") && file.contains("`make test-all`"))
    );
}

/// chdb parses the statements that it cannot run. It rejects the names of engines that it does not
/// have, so the settings of the engine NATS are parsed with the engine Null.
#[test]
fn files_that_are_not_run_are_parsed() {
    let Some(python) = tools::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let nats = NATS.replace("ENGINE = NATS SETTINGS", "ENGINE = Null SETTINGS");
    let all: Vec<String> = [CLUSTER, &nats]
        .into_iter()
        .flat_map(statements)
        .map(|statement| format!("EXPLAIN AST {statement}"))
        .collect();
    assert_eq!(all.len(), 2 + 1 + KINDS.len());
    let rows = sql(
        &python,
        "clickhouse",
        dir.path(),
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for (statement, rows) in all.iter().zip(&rows) {
        assert!(
            rows[0][0]
                .as_str()
                .is_some_and(|row| row.starts_with("CreateQuery")),
            "{statement}: {rows:?}"
        );
    }
}

/// The local table of the cluster, without its replicas, keeps one of two equal records.
#[test]
fn table_of_the_cluster_removes_copies() {
    // The table removes records that are older than 30 days, so the time is in the year 2096.
    const TIME: u64 = 4_000_000_000_000_000_000;
    let Some(python) = tools::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let local = statements(CLUSTER)
        .remove(0)
        .replace(" ON CLUSTER ibnet", "");
    let (before, after) = local.split_once("ReplicatedReplacingMergeTree(").unwrap();
    let local = format!(
        "{before}ReplacingMergeTree{}",
        after.split_once(')').unwrap().1
    );
    let row = |ts: u64, sampler: &str| {
        format!(
            "INSERT INTO ibnet_port_local (ts, guid, port, sampler) SETTINGS async_insert = 0 VALUES ({ts}, '0x1', 1, '{sampler}')"
        )
    };
    let mut all = vec![statements(TABLES).remove(0), local];
    all.extend([
        row(TIME, "a"),
        row(TIME, "a"),
        row(TIME, "b"),
        row(TIME + 1, "a"),
    ]);
    all.extend([
        "OPTIMIZE TABLE ibnet_port_local FINAL".to_owned(),
        "SELECT count() FROM ibnet_port_local".to_owned(),
    ]);
    let rows = sql(
        &python,
        "clickhouse",
        dir.path(),
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(rows.last(), Some(&vec![vec![json!(3)]]));
}

#[test]
fn messages_of_mixed_records_fill_the_tables_and_the_minutes() {
    let Some(python) = tools::python() else {
        return;
    };
    let recorded = Recorded::new();
    let dir = recorded.dir.path();
    fs::write(dir.join("whole.jsonl"), &recorded.text).unwrap();
    let (before, after) = NATS.split_once("ENGINE = NATS SETTINGS").unwrap();
    let with_null = format!("{before}ENGINE = Null;{}", after.split_once(';').unwrap().1);
    let mut all: Vec<_> = [TABLES, ROLLUP, &with_null]
        .iter()
        .flat_map(|file| statements(file))
        .collect();
    // The table `ibnet_nats`, and a view for each type of record.
    assert_eq!(statements(&with_null).len(), 1 + KINDS.len());
    all.push(format!(
        "INSERT INTO ibnet_nats FROM INFILE '{}' FORMAT JSONEachRow",
        dir.join("whole.jsonl").display()
    ));
    let queries = all.len();
    all.extend(KINDS.map(|kind| format!("SELECT count() FROM ibnet_{kind}")));
    all.push("SELECT sum(slots), max(port_rcv_data_bytes) FROM ibnet_port_minutes".to_owned());
    all.push("SELECT node, port, sum(xmit_blocked_mean) / count() FROM ibnet_port_minutes WHERE xmit_blocked_mean IS NOT NULL GROUP BY guid, node, port ORDER BY guid, port".to_owned());
    let rows = sql(
        &python,
        "clickhouse",
        dir,
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let lines = |kind: &str| {
        recorded
            .text
            .lines()
            .filter(|line| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
            .count()
    };
    assert_eq!(
        rows[queries..queries + 4],
        KINDS.map(|kind| vec![vec![json!(lines(kind))]])
    );
    assert_eq!(rows[queries + 4], [[json!(lines("port")), json!(u64::MAX)]]);
    // The recording is in one minute.
    let (found, expected) = (&rows[queries + 5], recorded.blocked());
    assert!(
        found.len() == expected.len() && found.len() > 10,
        "{} and {}",
        found.len(),
        expected.len()
    );
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found[..2], expected[..2]);
        let difference = (found[2].as_f64().unwrap() - expected[2].as_f64().unwrap()).abs();
        assert!(difference < 1e-9, "{found:?} is not {expected:?}");
    }
}
