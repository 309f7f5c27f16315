//! The planner and its files. The planner assigns every port to exactly one nearby *sampler*,
//! which is the process that queries the port. The *cap* limits the number of ports of each
//! sampler. The result is the *plan*.
//!
//! | module | contents |
//! |---|---|
//! | [`planning`] | makes a plan, and proves that it is correct |
//! | [`report`] | describes a plan as text, JSON and picture, and suggests sampler hosts |
//! | [`formats`] | reads and writes the lid files of the LDMS sampler |
//! | [`conversion`] | turns a plan into the [assignments file](crate::assignments) and back |
//!
//! A port is *linked* if it has a cable with a device at the other end. The planner assigns all
//! linked ports, except those of devices that are left out for a [`Reason`].

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
