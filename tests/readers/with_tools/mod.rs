//! What `make tools` fetches: Prometheus, DuckDB, ClickHouse and others.

mod archive;
mod clickhouse;
mod hosts;
mod prometheus;
mod recipes;
mod schema;
mod slurm;
