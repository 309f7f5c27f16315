//! ibnet measures congestion in an InfiniBand fabric while it happens. A few hosts run it and read
//! the performance counters of all ports of the fabric; the other hosts need no additional
//! software.
//!
//! `docs/concepts.md` explains how ibnet works and defines its terms. A *MAD* is a management
//! datagram of 256 bytes that queries a device. A *plan* assigns every port to a *sampler*: a
//! process that queries these ports once per interval. A *record* is the JSON line with the result
//! of one port in one interval. A *transport* sends and receives MADs.
//!
//! Data flows in one direction, and a module imports only modules that come before it in this
//! flow. `tests/architecture.rs` checks this, and also that the imports of the files form no cycle.
//!
//! ```text
//! net file -> topology -> partition -> assignments -> sweep -> output
//!                                                       ^
//!                                                mad::transport
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`time`] | monotonic time as a number; reads no clock |
//! | [`topology`] | the fabric, read from `ibnetdiscover`; tiers and hops; synthetic fabrics |
//! | [`cabling`] | compares the cables of the fabric with the cabling as planned |
//! | [`discovery`] | discovers the fabric by directed routes, and writes a net file |
//! | [`drawing`] | switches and links as SVG |
//! | [`partition`] | the planner: which sampler queries which ports, with its reports and formats |
//! | [`scheduler`] | the fabric as a tree of switches for Slurm and Kubernetes |
//! | [`assignments`] | the plan file. `ibnet-gen` writes it, and `ibnet-sweep` reads it |
//! | [`mad`] | MADs and their attributes; transports: libibumad and a simulated fabric |
//! | [`sweep`] | the engine, which decides on the next query, and the driver, which runs it |
//! | `verify` | compares the results of ibnet with those of libibmad on the devices of a site |
//! | [`output`] | the destinations of records: files, sockets, NATS |
//! | [`distribution`] | plans in the key-value store of a NATS server |
//! | `http_client` | a client of HTTP servers, of the viewer and the hub |
//! | [`http_limits`] | limits of the connections of an HTTP server |
//! | [`metrics`] | the results of the last interval as Prometheus metrics over HTTP |
//! | [`cost`] | the cost of a sampler: queries, time of a sweep, size of the records |
//! | [`config`] | the configuration file `ibnet.toml` |
//! | [`cli`] | functions that the programs share: error messages, input, output |
//!
//! The package [`ibnet_record`] has the records, the counters and the types that all packages of
//! the workspace use. `ibnet-analysis` evaluates the records, and `ibnet-view` draws the results.
//! They do not need the sweeper for this.

pub mod assignments;
pub mod cabling;
pub mod cli;
pub mod config;
pub mod cost;
pub mod discovery;
pub mod distribution;
pub mod drawing;
#[cfg(feature = "client")]
pub mod http_client;
pub mod http_limits;
pub mod mad;
pub mod metrics;
pub mod output;
pub mod partition;
pub mod scheduler;
pub mod sweep;
pub mod time;
pub mod topology;
#[cfg(feature = "umad")]
pub mod verify;
