//! The queue of devices that may be queried now.

use std::collections::VecDeque;

/// Devices that may be queried now. A device can be in the queue more than once.
#[derive(Debug)]
pub(super) struct Ready {
    /// Switches whose port states come before the counters of all devices.
    first: VecDeque<u32>,
    rest: VecDeque<u32>,
}

impl Ready {
    pub(super) fn with_capacity(devices: usize) -> Self {
        Self {
            first: VecDeque::with_capacity(devices),
            rest: VecDeque::with_capacity(2 * devices),
        }
    }

    /// Adds a device behind those that were added by this method, before all others.
    pub(super) fn push_first(&mut self, device: u32) {
        self.first.push_back(device);
    }

    pub(super) fn push_front(&mut self, device: u32) {
        self.rest.push_front(device);
    }

    pub(super) fn push_back(&mut self, device: u32) {
        self.rest.push_back(device);
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.first.pop_front().or_else(|| self.rest.pop_front())
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn clear(&mut self) {
        self.first.clear();
        self.rest.clear();
    }

    /// Fills the queue with these devices, in this order.
    pub(super) fn restart(&mut self, devices: &[u32]) {
        self.clear();
        self.rest.extend(devices);
    }
}
