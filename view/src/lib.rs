//! Pictures and tables of what was recorded. Reads [`sweep::record`](crate::sweep::record) only, never a fabric.
//!
//! [`input`] reads gigabytes of lines and hands each [`record::Record`] to a [`input::Fold`]; [`when`] reads and shows times; [`draw`] makes files of
//! pictures. On these stand the commands of `ibnet-view`: [`heat`] and [`latency`] by themselves, and what is made of [`ports`]: [`errors`], [`links`],
//! [`trees`], [`map`], [`job`].

pub mod draw;
pub mod error;
pub mod errors;
pub mod heat;
pub mod hosts;
pub mod input;
pub mod job;
pub mod latency;
pub mod links;
pub mod map;
pub mod metric;
pub mod ports;
pub use ibnet::record_reader as record;
pub mod replay;
mod table;
pub mod trees;
pub mod when;
