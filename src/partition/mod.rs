//! Assigns each port to exactly one sampler that is close to it and has room for it.
//!
//! [`planning`] makes a plan and proves it, [`report`] describes it to people and programs, and
//! [`formats`] reads and writes the files of other samplers.

pub mod formats;
pub mod planning;
pub mod report;

pub use planning::*;
