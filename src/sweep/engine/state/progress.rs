//! Progress of a device through the requests of a slot.

use crate::mad::query::Query;
use crate::sweep::inflight::Purpose;

/// Position in the requests to one device, which are first its checks and then the counters of its
/// ports.
#[derive(Clone, Debug)]
pub(in crate::sweep::engine) struct Progress {
    /// Step of the current pass over the checks (see `transmit`).
    pub(in crate::sweep::engine) step: u32,
    /// Number of passes over the checks that are left, including the current one.
    pub(in crate::sweep::engine) passes: u8,
    /// Request that is sent next, out of turn: again to the agent that a redirection names, or to
    /// clear counters.
    pub(in crate::sweep::engine) repeat: Option<(Query, Purpose)>,
    /// Whether the device was counted as discovered.
    pub(in crate::sweep::engine) discovered: bool,
    /// Number of ports.
    ports: u32,
    /// Index, among the ports of the device, of the port with which this slot starts.
    first: u32,
    /// Number of ports whose requests were all sent in this slot.
    done: u32,
    /// Index of the next group to request for the current port.
    pub(in crate::sweep::engine) group: u8,
    /// Index, among the ports of the device, of the port with which the next slot starts. Set if
    /// this slot was too short.
    next_first: Option<u32>,
    /// Number of consecutive slots that were too short for this device.
    pub(in crate::sweep::engine) short_slots: u32,
}

impl Progress {
    pub(super) fn new(ports: u32) -> Self {
        Self {
            step: 0,
            passes: 0,
            repeat: None,
            discovered: false,
            ports,
            first: 0,
            done: 0,
            group: 0,
            next_first: None,
            short_slots: 0,
        }
    }

    /// Starts a slot, at the port where the last slot stopped if that slot was too short.
    pub(super) fn restart(&mut self) {
        let short_slots = if self.next_first.is_some() {
            self.short_slots + 1
        } else {
            0
        };
        *self = Self {
            first: self.next_first.unwrap_or(0),
            short_slots,
            ..Self::new(self.ports)
        };
    }

    /// Returns the index, among the ports of the device, of the port that is queried now or next,
    /// or `None` after the last port.
    pub(super) fn current(&self) -> Option<u32> {
        (self.done < self.ports).then(|| (self.first + self.done) % self.ports)
    }

    /// Selects the next port.
    pub(in crate::sweep::engine) fn next_port(&mut self) {
        (self.done, self.group) = (self.done + 1, 0);
    }

    pub(in crate::sweep::engine) fn skip_ports(&mut self) {
        self.done = self.ports;
    }

    /// Makes the next slot start at the current port.
    pub(in crate::sweep::engine) fn keep_place(&mut self) {
        self.next_first = self.current();
    }

    /// Returns whether all checks were sent.
    pub(super) fn has_no_checks(&self) -> bool {
        self.passes == 0 && self.repeat.is_none()
    }
}
