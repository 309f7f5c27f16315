//! The alerts as the API shows them.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;

use super::machine::Machine;
use super::marks::Marks;

/// The alerts of the hub.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    pub(crate) machine: Machine,
    pub(crate) marks: Marks,
    /// Time of the last successful look, in nanoseconds since 1970. 0 before the first one.
    pub(crate) looked_ns: u64,
    /// Why the last look failed.
    pub(crate) error: Option<String>,
    /// The conditions of the receivers.
    pub(crate) receivers: Vec<ReceiverState>,
    /// Whether receivers got something that the file with the state does not have.
    pub(crate) is_changed: bool,
}

/// The condition of a receiver.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct ReceiverState {
    /// Kind, and the host or the program, without secrets.
    pub(crate) receiver: String,
    /// Number of messages that were accepted.
    pub(crate) sent: u64,
    /// Number of failed attempts.
    pub(crate) failed: u64,
    /// Number of changes that the receiver did not get.
    pub(crate) dropped: u64,
    /// Why the last attempt failed. `None` if it did not.
    pub(crate) error: Option<String>,
    /// The changes that the receiver does not have yet, the oldest one first.
    #[serde(skip)]
    pub(crate) waiting: VecDeque<Arc<[u8]>>,
}
