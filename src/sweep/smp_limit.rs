//! Limits the number of SMPs (subnet management packets) that the kernel holds.
//!
//! In newer kernels (7.3, not 6.1) an agent has at most 128 SMPs in flight. Further SMPs wait in a
//! queue of the kernel, where their timeouts start late. This queue fills up if many devices drop
//! SMPs, for example because they require an M_Key. The engine therefore keeps fewer SMPs in
//! flight, and queries for counters do not wait for SMPs.
//!
//! The kernel also limits queries to the subnet manager, to 16. The engine stops after three of
//! them in a row without a reply, so it needs no limit of its own. For queries to performance
//! management agents, the kernel has no limit.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::Tid;

use crate::time::Instant;

/// Max number of SMPs that the kernel holds for this process.
pub const MAX_SMPS: usize = 96;

/// Max delay with which the kernel ends a timeout: one tick of its timer at 100 Hz, plus the
/// rounding to the next tick.
const KERNEL_LATENESS: Duration = Duration::from_millis(20);

/// The SMPs that the kernel may still hold, in the order in which their timeouts end. They stay here
/// beyond the end of a slot.
#[derive(Debug)]
pub struct SmpLimit {
    /// For each SMP: latest time at which its timeout ends in the kernel, and its TID.
    held: VecDeque<(Instant, Tid)>,
}

impl Default for SmpLimit {
    fn default() -> Self {
        let held = VecDeque::with_capacity(MAX_SMPS);
        Self { held }
    }
}

impl SmpLimit {
    /// Records that an SMP is sent, for whose reply the kernel waits until `give_up`.
    pub fn sent(&mut self, tid: Tid, give_up: Instant) {
        let until = give_up + KERNEL_LATENESS;
        // Only a few SMPs have a longer timeout than the next one, so the place is near the end.
        let before = self.held.iter().rposition(|(other, _)| *other <= until);
        self.held
            .insert(before.map_or(0, |place| place + 1), (until, tid));
    }

    /// Records that a MAD has ended in the kernel by a reply, a timeout or a failure. Ignores MADs
    /// that are not SMPs.
    pub fn ended(&mut self, tid: Tid) {
        if let Some(place) = self.held.iter().position(|(_, held)| *held == tid) {
            self.held.remove(place);
        }
    }

    /// Empties the list, because the device was closed and the kernel holds no SMP any more.
    pub fn clear(&mut self) {
        self.held.clear();
    }

    /// Returns the time at which the next SMP may be sent, or `None` if it may be sent now.
    pub fn free_at(&mut self, now: Instant) -> Option<Instant> {
        while self.held.front().is_some_and(|(until, _)| *until <= now) {
            self.held.pop_front();
        }
        if self.held.len() < MAX_SMPS {
            None
        } else {
            self.held.front().map(|(until, _)| *until)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn place_is_free_after_a_reply_or_the_end_of_the_kernels_timeout() {
        let mut limit = SmpLimit::default();
        let start = Instant::ZERO;
        for tid in 0..MAX_SMPS as u32 {
            assert_eq!(limit.free_at(start), None);
            limit.sent(Tid(tid), start + 50 * MS);
        }
        assert_eq!(limit.free_at(start + 69 * MS), Some(start + 70 * MS));
        limit.ended(Tid(1000));
        assert_eq!(
            limit.free_at(start),
            Some(start + 70 * MS),
            "no SMP of this process"
        );
        limit.ended(Tid(5));
        assert_eq!(limit.free_at(start), None);
        limit.sent(Tid(200), start + 60 * MS);
        assert_eq!(limit.free_at(start + 70 * MS), None);
        limit.clear();
        assert_eq!(limit.free_at(start), None);
    }

    #[test]
    fn smp_with_a_longer_timeout_does_not_hold_the_place_of_others() {
        let mut limit = SmpLimit::default();
        let start = Instant::ZERO;
        limit.sent(Tid(0), start + 500 * MS);
        for tid in 1..MAX_SMPS as u32 {
            limit.sent(Tid(tid), start + 50 * MS);
        }
        assert_eq!(limit.free_at(start), Some(start + 70 * MS));
        assert_eq!(limit.free_at(start + 70 * MS), None);
    }
}
