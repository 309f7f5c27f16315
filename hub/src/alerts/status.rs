//! The alerts as the API shows them.

use super::machine::Machine;

/// The alerts of the hub.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    pub(crate) machine: Machine,
    /// Time of the last successful look, in nanoseconds since 1970. 0 before the first one.
    pub(crate) looked_ns: u64,
    /// Why the last look failed.
    pub(crate) error: Option<String>,
}
