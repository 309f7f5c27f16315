//! Stores in which slot each group of each port was last answered.

use crate::sweep::cadence::Turns;

/// The last replies of all groups of all ports.
#[derive(Clone, Debug)]
pub(super) struct LastReads {
    /// Number of the current slot.
    slot: u64,
    groups: usize,
    /// For each port and group: slot of the last reply, and generation of the device. The
    /// *generation* counts how often everything learned from the device was discarded.
    reads: Vec<Option<(u64, u32)>>,
}

impl LastReads {
    pub(super) fn new(ports: usize, groups: usize) -> Self {
        Self {
            slot: 0,
            groups,
            reads: vec![None; ports * groups],
        }
    }

    pub(super) fn slot(&self) -> u64 {
        self.slot
    }

    pub(super) fn set_slot(&mut self, slot: u64) {
        self.slot = slot;
    }

    /// Records a reply in the current slot.
    pub(super) fn record(&mut self, port: u32, group: u8, generation: u32) {
        self.reads[port as usize * self.groups + usize::from(group)] =
            Some((self.slot, generation));
    }

    /// Returns whether a group is due in the current slot: it has its turn, or its last reply is
    /// older than its cadence. Replies of an earlier generation of the device do not count.
    pub(super) fn is_due(&self, port: u32, group: u8, turns: Turns, generation: u32) -> bool {
        if turns.is_in(self.slot, port) {
            return true;
        }
        let Some((read, of)) = self.reads[port as usize * self.groups + usize::from(group)] else {
            return true;
        };
        // Slot numbers decrease if the wall clock is set back.
        of != generation
            || self
                .slot
                .checked_sub(read)
                .is_none_or(|age| age >= u64::from(turns.every))
    }
}
