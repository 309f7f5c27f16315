//! ibnet measures congestion in an InfiniBand fabric while it happens. Only a few hosts run ibnet.
//! They read the performance counters of all ports of the fabric. The other hosts need no
//! additional software.
//!
//! `docs/concepts.md` explains how ibnet works, and `docs/glossary.md` defines its terms. A *MAD*
//! is a message of 256 octets that queries a device. A *plan* assigns every port to a *sampler*: a
//! process that queries these ports once per interval. A *record* is the JSON line with the result
//! of one query of a port. A *transport* sends and receives MADs.
//!
//! Data flows in one direction. A module imports only modules that come before it in this flow.
//! There is one exception: `record` reads the samples and counters of `sweep`, and the driver of
//! `sweep` writes records. `tests/architecture.rs` checks the imports. It also checks that the
//! imports of the files form no cycle.
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
//! | [`time`] | monotonic time as a number; reads no clock |
//! | [`limits`] | limits of the sizes of inputs |
//! | [`topology`] | the fabric, read from `ibnetdiscover`; tiers and hops; synthetic fabrics |
//! | [`suggest`] | the name that a user probably meant |
//! | [`hostlist`] | host lists in the notation of Slurm and ClusterShell |
//! | [`drawing`] | switches and links as SVG |
//! | [`partition`] | the planner: which sampler queries which ports, with its reports and formats |
//! | [`assignments`] | the plan file. `ibnet-gen` writes it, and `ibnet-sweep` reads it |
//! | [`mad`] | MADs and their attributes; transports: libibumad and a simulated fabric |
//! | [`sweep`] | the engine, which decides which port is queried next, and the driver, which runs the engine |
//! | `verify` | compares the results of ibnet with those of libibmad on the devices of a site |
//! | [`record`] | the JSON records: writer and readers |
//! | [`output`] | the destinations of records: files, sockets, NATS |
//! | [`distribution`] | plans in the key-value store of a NATS server |
//! | [`http_limits`] | limits of the connections of an HTTP server |
//! | [`metrics`] | the results of the last interval as Prometheus metrics over HTTP |
//! | [`cost`] | the cost of a sampler: queries, time of a sweep, size of the records |
//! | [`config`] | the configuration file `ibnet.toml` |
//! | [`cli`] | functions that the programs share: error messages, input, output |
//!
//! Two other packages of the workspace use the records: `ibnet-analysis` evaluates them, and
//! `ibnet-view` draws the results.

pub mod assignments;
pub mod cli;
pub mod config;
pub mod cost;
pub mod distribution;
pub mod drawing;
pub mod hostlist;
pub mod http_limits;
pub mod limits;
pub mod mad;
pub mod metrics;
pub mod output;
pub mod partition;
pub mod record;
pub mod status;
pub mod suggest;
pub mod sweep;
pub mod time;
pub mod topology;
pub mod types;
#[cfg(feature = "umad")]
pub mod verify;
mod words;
