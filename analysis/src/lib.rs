//! Reads, merges and evaluates the records of `ibnet-sweep`. A record is one JSON line, usually
//! about one port in one second. `ibnet-view` draws the results.
//!
//! | module | contents |
//! |---|---|
//! | [`input`] | reads files of records, and passes each [`record::Record`] to an [`input::Fold`] |
//! | [`when`] | parses and formats points in time |
//! | [`hosts`] | parses host lists |
//! | [`host_metrics`] | metrics of hosts from Prometheus, LDMS and files |
//! | [`import`] | records from the stores of LDMS |
//! | [`groups`] | groups of hosts, such as storage targets, and their traffic |
//! | [`cell`] | a value that can be missing, and the rule for sums of such values |
//! | [`health`] | the condition of links, by the physical layer; switches and modules |
//! | [`heat`] | the values of heat maps |
//! | [`rates`] | the rates of counters: which time they describe, and when they are unknown |
//! | [`latency`] | distributions of round-trip times |
//! | [`ports`] | a summary of each port, which the next five modules use |
//! | [`errors`] | devices that do not answer, faults of links, and increases of error counters |
//! | [`links`] | utilization, blocked time and errors of links |
//! | [`trees`] | congestion trees: which port makes which other ports wait |
//! | [`map`] | the topology in the records |
//! | [`job`] | jobs: where they come from, their traffic, and the jobs that shared their links |
//! | [`correlation`] | correlation coefficients and their significance |
//! | [`routes`] | forwarding tables |
//! | [`routing`] | the paths of pairs of hosts, and what is wrong with the tables |
//! | [`devices`] | devices that do not answer, and the devices behind them |
//! | [`stat`], [`shares`] | mean, peak or percentile over the slots |
//! | [`prevalence`] | how often, where and at what cost ports wait |
//! | [`replay`] | recorded lines, each with the time at which the caller writes it again |
//!
//! The row types, such as [`links::LinkRow`], implement [`rows::Row`]. Their field names are an
//! interface for other programs, so they do not change.

pub mod cell;
pub mod correlation;
pub mod devices;
pub mod error;
pub mod errors;
#[cfg(test)]
mod fixtures;
pub mod groups;
pub mod health;
pub mod heat;
pub mod host_metrics;
pub mod hosts;
pub mod import;
pub mod input;
pub mod job;
pub mod latency;
pub mod links;
pub mod map;
pub mod metric;
mod pair;
mod path;
pub mod ports;
pub mod prevalence;
pub mod rates;
pub mod replay;
pub mod routes;
pub mod routing;
pub mod rows;
pub mod shares;
mod silence;
pub mod stat;
pub mod sweeps;
pub mod trees;
pub mod when;

pub use ibnet_record::reader as record;

// The fixtures use this crate by its name, because other crates include them too.
#[cfg(test)]
extern crate self as ibnet_analysis;
