//! Tests that start the programs, and compare their files and pages. They are one test program,
//! because each test program links the whole library.
#![expect(
    clippy::disallowed_methods,
    reason = "a test that hangs ends after ten minutes, and some know the present slot"
)]

use std::time::Duration;

mod bounds;
mod cabling;
mod cabling_faults;
mod characters;
mod check;
mod earlier;
mod explain;
mod fleet;
mod ibnet_gen;
mod metrics;
mod metrics_access;
mod metrics_attacks;
mod names;
mod overhead;
mod packaging;
mod plan;
mod query;
mod records;
mod reload;
mod secrets;
mod workers;

/// Time after which a hanging program or a hanging test fails. It is not a limit of speed.
const HANGS: Duration = Duration::from_secs(600);
