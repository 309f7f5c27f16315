//! Reads, merges and evaluates the records of `ibnet-sweep`. `ibnet-view` draws the results.
//!
//! [`input`] reads files of records and passes each [`record::Record`] to an [`input::Fold`].
//! [`when`] parses and formats points in time, [`hosts`] parses host lists. The other modules
//! evaluate the records: [`heat`] and [`latency`] directly, [`errors`], [`links`], [`trees`],
//! [`map`] and [`job`] through [`ports`]. [`replay`] returns recorded lines with the time at which
//! to write each line.
//!
//! The row types, such as [`links::LinkRow`], implement [`rows::Row`]: their field names are an
//! interface.

pub mod devices;
pub mod error;
pub mod errors;
#[cfg(test)]
mod fixtures;
pub mod heat;
pub mod hosts;
pub mod input;
pub mod job;
pub mod latency;
pub mod links;
pub mod map;
pub mod metric;
mod pair;
mod path;
pub mod ports;
pub mod replay;
pub mod rows;
pub mod shares;
pub mod stat;
pub mod trees;
pub mod when;

pub use ibnet::record::reader as record;

// The fixtures use this crate by its name, because other crates include them too.
#[cfg(test)]
extern crate self as ibnet_analysis;
