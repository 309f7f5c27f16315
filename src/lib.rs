//! ibnet measures congestion in an InfiniBand fabric while it happens. It reads the performance
//! counters of all ports from a few hosts, and needs no program on the other nodes.
//!
//! Data flows in one direction, and modules import each other in that direction only. There is one
//! exception: `record` reads the samples and counters of `sweep`, and the driver of `sweep` writes
//! records. `tests/architecture.rs` checks the imports, and that no cycle of files exists.
//!
//! ```text
//! net file -> topology -> partition -> assignments -> sweep -> record -> output
//!                                                       ^
//!                                                mad::transport
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`types`] | GUIDs, LIDs, port numbers, link rates |
//! | [`time`] | monotonic time; no clock |
//! | [`topology`] | the fabric, read from `ibnetdiscover`; tiers and hops; synthetic fabrics |
//! | [`hostlist`] | host lists in the notation of Slurm and ClusterShell |
//! | [`drawing`] | switches and links as SVG |
//! | [`partition`] | the planner: which sampler queries which ports, with its reports and formats |
//! | [`assignments`] | the plan file, between the programs `ibnet-gen` and `ibnet-sweep` |
//! | [`mad`] | MADs and their attributes; transports: libibumad and a simulated fabric |
//! | [`sweep`] | the engine, which queries the ports, and the driver, which runs it |
//! | [`record`] | the JSON records: writer and readers |
//! | [`output`] | where records go: files, sockets, NATS |
//! | [`metrics`] | the last slot as Prometheus metrics over HTTP |
//! | [`config`] | the configuration file `ibnet.toml` |
//! | [`cli`] | what the programs share: error messages, input, output |
//!
//! Analysis and drawing of records are in other packages of the workspace: `ibnet-analysis` and
//! `ibnet-view`.

pub mod assignments;
pub mod cli;
pub mod config;
pub mod drawing;
pub mod hostlist;
pub mod mad;
pub mod metrics;
pub mod output;
pub mod partition;
pub mod record;
pub mod sweep;
pub mod time;
pub mod topology;
pub mod types;
