//! The live view of a fabric: receives the records of all samplers, keeps the recent past in
//! memory, and serves a web page and an HTTP API.
//!
//! ```text
//! inputs -> lines -> records -> state (store, newest slot, events, samplers) -> queries -> HTTP
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `input` | sockets, files, standard input, NATS |
//! | `ingest` | parses lines and adds the records to the state |
//! | `fields` | counts unknown fields, which a newer sampler may write |
//! | `state` | records, newest slot, samplers, events, inputs |
//! | `store` | the recent records in compact form |
//! | `archive` | older records, from an archive |
//! | `users`, `audit` | who sends a request and may do what; who did what |
//! | `alerts` | conditions that need a person, the state of their alerts, and who is told |
//! | `live` | the newest slot, the topology, the timeline |
//! | `jobs` | the jobs of the cluster, with the traffic of their nodes |
//! | `samplers`, `events`, `kinds` | the condition of the samplers, the events, and their kinds |
//! | `clocks` | which samplers have a wrong clock |
//! | `kept`, `posted` | what users change by the API, kept in files; the marks that users post |
//! | `reread` | a file that is read again when it changes |
//! | `texts` | limits the length of the strings in records |
//! | `verdicts` | the state of the verdicts on links, kept in a file |
//! | `state_file` | files with a state that a restart continues |
//! | `threads` | starts the threads, and reports their panics |
//! | `query` | answers from the records |
//! | `http` | the server |
//! | `simulate` | a simulated fabric with its samplers |
//! | [`config`], [`program`] | the configuration, the start and the end |

mod alerts;
mod archive;
mod audit;
mod clocks;
mod events;
mod fields;
mod forwarding;
mod http;
mod ingest;
mod input;
mod jobs;
mod kept;
mod kinds;
mod live;
mod posted;
mod query;
mod reread;
mod samplers;
mod shared;
mod simulate;
mod state;
mod state_file;
mod store;
mod texts;
mod thin;
mod threads;
mod users;
mod verdicts;

pub mod config;
pub mod error;
pub mod program;

#[doc(hidden)]
pub use simulate::{Recording, record};
