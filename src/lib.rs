//! ibnet shows congestion in an InfiniBand fabric as it happens, without a daemon on any monitored node.
//!
//! Data flows one way, and so do imports; the sink imports nothing, so that whoever has lines may hand them to it. `tests/house.rs` keeps the rules:
//!
//! ```text
//! net file -> topology -> partition -> assignments -> sweep (engine + mad::transport) -> records -> output
//! ```
//!
//! | room | what is in it |
//! |---|---|
//! | [`types`], [`time`] | GUIDs, LIDs, ports, link rates; monotonic time without a clock |
//! | [`topology`] | the fabric; the readers of `ibnetdiscover`, with and without `-p`, and of name maps; hops and tiers; invented fabrics |
//! | [`drawing`] | switches in rows and the links between them, as SVG |
//! | [`partition`] | who samples which ports: the six rules, the cap, the proof; report, picture, suggestions; LDMS's lid files |
//! | [`assignments`] | the file between the two programs |
//! | [`mad`] | the wire: performance management attributes as tables of fields; transports: libibumad and a simulated fabric |
//! | [`sweep`] | the engine and its driver |
//! | [`record`] | the records: JSON lines, written and read |
//! | [`output`] | where records go |
//! | [`metrics`] | the last slot for Prometheus, over HTTP |
//! | [`config`] | `ibnet.toml`: as it is written, and as it was checked |
//! | [`cli`] | what the programs share: errors for people, input, output |

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
