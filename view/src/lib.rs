//! Makes tables and pictures of the records of `ibnet-sweep`. The package [`ibnet_analysis`]
//! computes all numbers.
//!
//! | module | contents |
//! |---|---|
//! | [`text`] | tables and reports as text |
//! | [`document`] | rows as JSON and CSV |
//! | [`picture`] | pictures: heat maps, latency, jobs, maps |
//! | [`terminal`] | heat maps on a terminal |
//! | [`draw`] | picture files: axes, colours, PNG and SVG |

pub mod document;
pub mod draw;
#[cfg(test)]
#[path = "../../analysis/src/fixtures.rs"]
mod fixtures;
pub mod picture;
pub mod terminal;
pub mod text;
