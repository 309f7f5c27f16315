//! What we write, before those who read it: a real Prometheus, DuckDB and ClickHouse, with what the documents and the dashboard say.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

mod prometheus;
mod recipes;
mod tools;
