//! Limit of the SMPs that the kernel holds.
//!
//! In newer kernels (7.3, not 6.1) an agent has at most 128 SMPs in flight. Later ones wait in the
//! kernel, in front of all SMPs that follow, and their timeouts start late. A subnet whose devices
//! drop SMPs, for instance because they require an M_Key, would fill this queue. So fewer SMPs are
//! sent at once, and queries for counters do not wait for them.
//!
//! Queries to the subnet manager have a limit of 16 in the kernel. The engine stops after three
//! queries in a row without a reply, and needs no further limit. Queries to performance management
//! agents have none.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Instant;
use crate::types::Tid;

/// Largest number of SMPs that the kernel holds for this process.
pub const MAX_SMPS: usize = 96;

/// Longest time by which the kernel ends a timeout late: one tick of its timer at 100 Hz, and the
/// rounding to the next tick.
const KERNEL_LATENESS: Duration = Duration::from_millis(20);

/// The SMPs that the kernel may still hold, in the order of sending. They outlive a slot.
#[derive(Debug)]
pub struct SmpLimit {
    /// Time at which the kernel has ended the timeout of the SMP at the latest.
    held: VecDeque<(Instant, Tid)>,
    /// Time from the sending of an SMP to the end of its timeout in the kernel.
    longest: Duration,
}

impl SmpLimit {
    /// No SMP is held yet. `give_up` is the timeout that the kernel is given for an SMP.
    pub fn new(give_up: Duration) -> Self {
        Self { held: VecDeque::with_capacity(MAX_SMPS), longest: give_up + KERNEL_LATENESS }
    }

    /// Records that an SMP is sent.
    pub fn sent(&mut self, tid: Tid, now: Instant) {
        self.held.push_back((now + self.longest, tid));
    }

    /// Records that a MAD has ended in the kernel: by a reply, a timeout or a failure. Other MADs
    /// than SMPs are ignored.
    pub fn ended(&mut self, tid: Tid) {
        if let Some(place) = self.held.iter().position(|(_, held)| *held == tid) {
            self.held.remove(place);
        }
    }

    /// Records that the kernel holds nothing any more, because the device was closed.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Returns when the next SMP may be sent; `None` if it may be sent now.
    pub fn free_at(&mut self, now: Instant) -> Option<Instant> {
        while self.held.front().is_some_and(|(until, _)| *until <= now) {
            self.held.pop_front();
        }
        if self.held.len() < MAX_SMPS { None } else { self.held.front().map(|(until, _)| *until) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn place_is_free_after_a_reply_or_the_end_of_the_kernels_timeout() {
        let mut limit = SmpLimit::new(50 * MS);
        let start = Instant::ZERO;
        for tid in 0..MAX_SMPS as u32 {
            assert_eq!(limit.free_at(start), None);
            limit.sent(Tid(tid), start);
        }
        assert_eq!(limit.free_at(start + 69 * MS), Some(start + 70 * MS));
        limit.ended(Tid(1000));
        assert_eq!(limit.free_at(start), Some(start + 70 * MS), "no SMP of this process");
        limit.ended(Tid(5));
        assert_eq!(limit.free_at(start), None);
        limit.sent(Tid(200), start + 10 * MS);
        assert_eq!(limit.free_at(start + 70 * MS), None);
        limit.clear();
        assert_eq!(limit.free_at(start), None);
    }
}
