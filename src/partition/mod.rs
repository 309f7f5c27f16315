//! The planner and its files. The planner assigns every port to exactly one nearby *sampler*: the
//! process that queries the port. A limit, the *cap*, is the largest number of ports of a sampler.
//! The result is the *plan*.
//!
//! | module | contents |
//! |---|---|
//! | [`planning`] | makes a plan, and proves that it is correct |
//! | [`report`] | describes a plan to people and programs, and suggests sampler hosts |
//! | [`formats`] | reads and writes the lid files of the LDMS sampler |
//! | [`conversion`] | turns a plan into the [assignments file](crate::assignments) and back |
//!
//! A port with a cable and a device at the other end is *linked*. The planner assigns all linked
//! ports, except the ports of the devices that [`Reason`] names.

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
pub use planning::plan::{
    Figures, LeftOut, LoadUnit, Measured, Plan, PlanOptions, PlannedDevice, Reason, Request, Share,
    left_out,
};
pub use planning::weights::{BadLine, Weights, WeightsError};
pub use planning::{hosts, plan, plan_with, rails, something_to_sample};
