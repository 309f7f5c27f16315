//! Assigns every port to exactly one nearby sampler. The cap limits the ports of each sampler.
//!
//! [`planning`] makes a plan and proves it before anything is written. [`report`] describes a plan
//! to people and programs, and suggests sampler hosts. [`formats`] reads and writes the lid files
//! of LDMS. [`conversion`] turns a plan into the [assignments file](crate::assignments) and back.
//!
//! All linked ports are sampled, except those of the devices that [`Reason`] names.

pub mod conversion;
pub mod formats;
#[cfg(test)]
mod golden;
pub mod planning;
pub mod report;

pub use conversion::{assignments_of, assignments_of_subnets, previous_of, whole_fabric};
pub use planning::changes::{Changes, Previous};
pub use planning::error::{PlanError, Suggestion};
pub use planning::hosts::{Host, HostsError};
pub use planning::plan::{Figures, LeftOut, LoadUnit, Measured, Plan, PlanOptions, PlannedDevice, Reason, Request, Share, left_out};
pub use planning::weights::{BadLine, Weights, WeightsError};
pub use planning::{hosts, plan, plan_with, rails, something_to_sample};
