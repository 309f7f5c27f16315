//! Tables and pictures of the records of `ibnet-sweep`. The numbers come from [`ibnet_analysis`].
//!
//! [`text`] writes tables, [`picture`] draws pictures, [`terminal`] draws heat maps on a terminal.
//! [`draw`] writes picture files. [`document`] writes rows as JSON and CSV.

pub mod document;
pub mod draw;
#[cfg(test)]
#[path = "../../analysis/src/fixtures.rs"]
mod fixtures;
pub mod picture;
pub mod terminal;
pub mod text;
