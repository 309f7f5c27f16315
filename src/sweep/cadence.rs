//! Cadences: the slots in which each counter group of a port is queried.
//!
//! 1. A group with the cadence `n` is queried once in `n` slots.
//! 2. **The congestion signal has a cadence of its own.** This signal, PortXmitWait, is in
//!    PortCountersExtended only if CapabilityMask2 of the device has bit 1. Other devices have it
//!    in PortCounters, which is therefore queried at least once in `wait_every` slots there.
//! 3. **A port whose link is down** is queried once in `down_every` slots, with all of its groups
//!    in the same slot.
//! 4. **Equal slots.** All slots have about the same number of MADs, because the *phase* of a
//!    group decides in which slots it is queried. The phase is the index of the port in the plan
//!    plus the index of the group. The ports of a device have consecutive indices, so for each
//!    device and group the numbers of MADs in two slots differ by at most one.
//! 5. **Late groups are repeated.** If the last reply of a group is older than its cadence, the
//!    group is queried in every slot until it is answered. This happens in the first slot, after
//!    missed slots, and after a lost reply. The phase of the group does not change.

use std::ops::Range;

use ibnet_record::attributes::Group;

/// The cadence of each group, in slots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cadence {
    /// Cadences, by the index of the group. A missing entry means 1.
    every: Vec<u32>,
    /// Cadence of PortCounters on devices that have PortXmitWait only there.
    wait_every: u32,
    /// Cadence of ports whose link is down.
    down_every: u32,
}

/// Properties of a device and of a port on which the cadence of a group depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Circumstances {
    /// Whether the device has PortXmitWait in PortCounters only, or its capabilities are unknown.
    pub wait_in_base: bool,
    /// Whether PortInfo reports the link of the port as down.
    pub is_down: bool,
}

impl Default for Cadence {
    fn default() -> Self {
        Self::EVERY_SLOT
    }
}

impl Cadence {
    /// Queries every group of every port in every slot.
    pub const EVERY_SLOT: Self = Self {
        every: Vec::new(),
        wait_every: 1,
        down_every: 1,
    };

    /// Creates the cadences for a list of groups. `every` has the cadence of each group, by its
    /// index; 0 counts as 1.
    pub fn new(every: Vec<u32>, wait_every: u32, down_every: u32) -> Self {
        let every = every.into_iter().map(|every| every.max(1)).collect();
        Self {
            every,
            wait_every: wait_every.max(1),
            down_every: down_every.max(1),
        }
    }

    /// Returns the cadences of those groups for which `is_kept` returns true for their index.
    #[must_use]
    pub fn only(&self, is_kept: impl Fn(usize) -> bool) -> Self {
        let kept = (0..).zip(&self.every).filter(|(place, _)| is_kept(*place));
        Self {
            every: kept.map(|(_, every)| *every).collect(),
            ..self.clone()
        }
    }

    /// Returns the slots in which a group is queried. `place` is its index in the list.
    pub fn of(&self, place: usize, group: Group, of: Circumstances) -> Turns {
        let mut every = self.every.get(place).copied().unwrap_or(1);
        if of.wait_in_base && group == Group::Base {
            every = every.min(self.wait_every);
        }
        if of.is_down {
            // The offset is 0, so that all groups of the port are queried in the same slot.
            return Turns {
                every: every.max(self.down_every),
                offset: 0,
            };
        }
        Turns {
            every,
            offset: place as u32,
        }
    }

    /// Returns the number of queries of a port in an average slot. `groups` iterates over the
    /// groups that are queried, with their indices in the list.
    pub fn mads_per_slot(
        &self,
        groups: impl Iterator<Item = (usize, Group)>,
        of: Circumstances,
    ) -> f64 {
        groups
            .map(|(place, group)| 1.0 / f64::from(self.of(place, group, of).every))
            .sum()
    }

    /// Returns whether ports whose link is down are queried less often than others.
    pub const fn spares_down_ports(&self) -> bool {
        self.down_every > 1
    }
}

/// The slots in which a group of a port has its *turn*, which means that it is queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turns {
    /// Number of slots from one turn to the next, at least 1.
    pub every: u32,
    /// Number of slots by which the turns are earlier than with an offset of 0.
    offset: u32,
}

impl Turns {
    /// Returns whether a port has its turn in this slot.
    pub fn is_in(self, slot: u64, port: u32) -> bool {
        self.every == 1 || self.slots_until_turn(slot, port) == 0
    }

    /// Returns how many of these ports have their turn in this slot.
    pub fn count_in(self, slot: u64, ports: Range<u32>) -> u32 {
        let ports_before = self.slots_until_turn(slot, ports.start);
        (ports.end - ports.start)
            .saturating_sub(ports_before)
            .div_ceil(self.every)
    }

    /// Returns the number of slots until the next turn of a port. The port with the next index has
    /// its turn one slot earlier, so the result is also a distance: from this index to that of the
    /// next port with its turn in this slot.
    fn slots_until_turn(self, slot: u64, port: u32) -> u32 {
        let every = u64::from(self.every);
        let past = (slot % every + u64::from(port) + u64::from(self.offset)) % every;
        if past == 0 { 0 } else { (every - past) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: Circumstances = Circumstances {
        wait_in_base: false,
        is_down: true,
    };
    const WAIT_IN_BASE: Circumstances = Circumstances {
        wait_in_base: true,
        is_down: false,
    };

    #[test]
    fn wait_cadence_shortens_that_of_port_counters_only() {
        let cadence = Cadence::new(vec![1, 10, 10], 2, 1);
        let every = |place, group, of| cadence.of(place, group, of).every;
        assert_eq!(every(1, Group::Base, Circumstances::default()), 10);
        assert_eq!(every(1, Group::Base, WAIT_IN_BASE), 2);
        assert_eq!(every(2, Group::XmtDisc, WAIT_IN_BASE), 10);
        assert_eq!(
            Cadence::new(vec![1, 10], 60, 1)
                .of(1, Group::Base, WAIT_IN_BASE)
                .every,
            10,
            "never longer than the cadence"
        );
    }

    #[test]
    fn all_groups_of_a_dead_link_have_their_turn_in_one_slot() {
        let cadence = Cadence::new(vec![1, 10], 1, 100);
        let turns = [(0, Group::Extended), (1, Group::Base)]
            .map(|(place, group)| cadence.of(place, group, DOWN));
        assert_eq!(turns[0], turns[1]);
        assert_eq!(
            (0..1000).filter(|slot| turns[0].is_in(*slot, 7)).count(),
            10
        );
        assert!(cadence.spares_down_ports() && !Cadence::EVERY_SLOT.spares_down_ports());
    }

    #[test]
    fn cadences_of_zero_count_as_every_slot() {
        assert_eq!(
            Cadence::new(vec![0], 0, 0)
                .of(0, Group::Base, WAIT_IN_BASE)
                .every,
            1
        );
    }

    #[test]
    fn count_of_ports_is_that_of_their_turns() {
        for (every, place, slot) in [
            (1, 0, 5),
            (3, 2, 7),
            (10, 1, u64::MAX - 3),
            (7, 0, 0),
            (100, 3, 1234),
        ] {
            let turns = Cadence::new(vec![every; 4], 1, 1).of(
                place,
                Group::Extended,
                Circumstances::default(),
            );
            for ports in [0..0, 0..1, 5..41, 17..18, 3..300] {
                let count = ports
                    .clone()
                    .filter(|port| turns.is_in(slot, *port))
                    .count();
                assert_eq!(
                    turns.count_in(slot, ports.clone()) as usize,
                    count,
                    "every {every}, ports {ports:?}"
                );
            }
        }
    }
}
