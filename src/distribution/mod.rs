//! Distribution of plans to the samplers by a NATS server with JetStream.
//!
//! A plan is one value of a key-value bucket. [`publish`] stores a plan there, and a [`Receiver`] in
//! each sampler watches the key. The value is the text of an assignments file, compressed with zstd if
//! it is long. Its line `at` has the time of the first slot ([`Assignments::at`]), so that all samplers
//! change to the plan in the same slot. A [copy] on a disk is the plan of a sampler that starts while
//! the server is unreachable.
//!
//! | module | contents |
//! |---|---|
//! | `store` | the address of a plan |
//! | `copy` | the copy of a plan on a disk |
//! | `publish`, `receiver` | writing and watching the value, with the feature `nats` |
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

/// Largest number of older plans that a new bucket keeps, with the newest one.
pub const HISTORY: i64 = 16;
