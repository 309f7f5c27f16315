//! DuckDB on the same data.
