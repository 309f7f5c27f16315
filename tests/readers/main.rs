//! Programs that read records and metrics: Prometheus, DuckDB, ClickHouse and jq, with the queries
//! of the documentation and of the dashboard.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod recorded;
#[path = "../recording/mod.rs"]
mod recording;
mod tools;
mod with_tools;
