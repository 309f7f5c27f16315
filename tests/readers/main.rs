//! Programs that read records and metrics: Prometheus, DuckDB, ClickHouse and jq, with the queries
//! of the documentation and of the dashboard.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod archive;
mod clickhouse;
mod hosts;
mod prometheus;
mod recipes;
mod recorded;
mod schema;
mod slurm;
mod tools;
