//! Compares the cables of a fabric with the cabling as planned, and lists the steps that correct
//! it.
//!
//! | module | contents |
//! |---|---|
//! | [`plan`] | reads the planned cables: NDT and other CSV files, `.topo` of ibdm, net files |
//! | `devices` | finds the device and the port that a plan names |
//! | `groups` | pairs planned and found cables |
//! | [`modules`] | part number, length and serial number of the cables, from records |
//! | [`mod@compare`] | the kind of each finding, and the steps |
//! | [`report`] | the result as text and CSV |

pub mod compare;
mod devices;
pub(crate) mod groups;
pub mod modules;
pub mod plan;
pub mod report;

pub use compare::{Comparison, compare};
pub use modules::Modules;
pub use plan::{Plan, PlanError};
