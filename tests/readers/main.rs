//! Records and metrics in the programs that read them: Prometheus, DuckDB, ClickHouse and jq, with
//! the queries of the documentation and of the dashboard.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

mod prometheus;
mod recipes;
mod tools;
