//! Distributes plans to the samplers through a NATS server with JetStream.
//!
//! A plan is a value in a key-value bucket. [`publish`] stores it there, and a [`Receiver`] in
//! each sampler watches its key. The value is the text of an assignments file, compressed with
//! zstd if it is long. Its line `at` contains the time of the first slot ([`Assignments::at`]),
//! so all samplers change to the plan in the same slot. Each sampler keeps a [copy] on its disk,
//! and uses it if the server is unreachable when the sampler starts.
//!
//! | module | contents |
//! |---|---|
//! | `store` | the address of a plan |
//! | `copy` | the copy of a plan on a disk |
//! | `publish`, `receiver` | write and watch the value, with the feature `nats` |
//!
//! [`Assignments::at`]: crate::assignments::Assignments::at

pub mod copy;
mod error;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod receiver;
mod store;

pub use error::DistributionError;
#[cfg(feature = "nats")]
pub use publish::publish;
#[cfg(feature = "nats")]
pub use receiver::{Published, Receiver};
pub use store::{DEFAULT_BUCKET, DEFAULT_KEY, PlanStore};

/// Max number of plans, including the newest one, that a newly created bucket keeps.
pub const HISTORY: i64 = 16;
