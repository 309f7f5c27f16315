//! Pictures and tables of what was recorded. Reads [`sweep::record`](crate::sweep::record) only, never a fabric.
//!
//! [`input`] reads gigabytes of lines and hands each [`record::Record`] to a [`input::Fold`]; [`when`] reads and shows times; [`draw`] makes files of
//! pictures. On these stand the commands of `ibnet-view`.
//! [`input`] reads gigabytes of lines and hands each [`record::Record`] to a [`input::Fold`]; [`when`] reads and shows times. [`ports`] is what tables
//! of ports and links, maps and jobs are made of.

pub mod draw;
pub mod error;
pub mod heat;
pub mod hosts;
pub mod input;
pub mod latency;
pub mod metric;
pub mod errors;
pub mod job;
pub mod links;
pub mod map;
pub mod once;
pub mod ports;
pub mod record;
pub mod replay;
pub mod summary;
mod table;
pub mod trees;
pub mod when;
