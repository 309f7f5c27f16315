//! The rules by which devices are given to samplers. They are those of the LDMS paper, in its order:
//!
//! 1. A switch belongs to one sampler; it is never split.
//! 2. A sampler's own adapters and the switches that it hangs on are its own, as far as the cap allows. If several samplers hang
//!    on one switch, the least loaded takes it.
//! 3. Switches of the higher tiers, from the second up, go round among the least loaded samplers that have room.
//! 4. Switches that are left go to the least loaded sampler that has room.
//! 5. Adapters follow their switch. Those that do not fit go to the nearest sampler with room.
//! 6. Aggregation nodes (SHARP) do not count for the hierarchy.
//!
//! Ties go to the nearer sampler, then to the earlier one in the list. Where the rules leave the order open, larger switches come
//! first. A sampler's load counts the adapters that will follow its switches, so that the result comes out even. A sampler to
//! which no way leads is taken only if no other is left.
//!
//! Where the rules collide, the order is: every port exactly once, the cap, a switch is never split, own adapters, own switches,
//! adapters follow their switch, balance, hops. Hence:
//!
//! - A switch whose followers do not fit anywhere is still placed, by the room that itself needs.
//! - If rules 3 and 4 in this order part adapters from their switches, rule 4 is tried before rule 3, and what parts fewer stands.
//! - Where there are no tiers, as in a torus, a mesh or a plain dragonfly, the switches of rule 4 go to the nearest sampler that has room, those first
//!   that have one near.
//! - If a switch is left without room, all starts anew by room alone, and neighbourhood is given up.
//! - A switch that is larger than the cap has a sampler to itself.

use std::cmp::Reverse;

use super::task::{Owners, Task};
use crate::topology::DeviceId;
use crate::topology::graph::UNREACHABLE;

/// Gives devices by the rules, but for those that are kept where they are; `None` if a switch found no room.
pub(super) fn by_the_rules(task: &Task<'_>, kept: &Owners) -> Option<Owners> {
    let in_order = placed(task, kept, |placing| placing.higher_tiers().and_then(|()| placing.switches_left()));
    let best = match in_order {
        Some(placing) if placing.parted() == 0 => Some(placing),
        in_order => {
            let leaves_first = placed(task, kept, |placing| placing.lowest_tiers().and_then(|()| placing.higher_tiers()));
            // Of equals the first, which kept the order.
            in_order.into_iter().chain(leaves_first).min_by_key(Placing::parted)
        }
    };
    best.map(|placing| placing.owners)
}

/// All rules, with the order of the third and the fourth left open.
fn placed<'a>(task: &'a Task<'a>, kept: &Owners, switches: impl FnOnce(&mut Placing<'a>) -> Option<()>) -> Option<Placing<'a>> {
    let mut placing = Placing::new(task);
    placing.keep(kept);
    placing.oversized()?;
    placing.own_adapters();
    placing.count_followers();
    placing.own_switches();
    switches(&mut placing)?;
    placing.adapters();
    Some(placing)
}

/// Gives switches by room alone, largest first to the first sampler that has it, then adapters by the rules.
///
/// The caller has seen to it that there are [`Task::samplers_needed`].
pub(super) fn room_first(task: &Task<'_>) -> Owners {
    let mut placing = Placing::new(task);
    placing.oversized().expect("a sampler each for the oversized was counted");
    for switch in placing.open_switches() {
        let first = (0..task.samplers.len()).find(|sampler| placing.has_room(*sampler, task.port_count(switch)));
        placing.give(switch, first.expect("as many samplers as this order needs were counted"));
    }
    placing.own_adapters();
    placing.adapters();
    placing.owners
}

/// The state while devices are being given.
struct Placing<'a> {
    task: &'a Task<'a>,
    owners: Owners,
    /// Ports given so far, by sampler.
    load: Vec<u32>,
    /// The same and the adapters that will follow the switches, by sampler.
    promised: Vec<u32>,
    /// What that costs.
    expected: Vec<u64>,
    /// Ports of adapters that nobody has yet and that would follow, and what they cost, by device.
    followers: Vec<(u32, u64)>,
}

impl<'a> Placing<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        let (samplers, devices) = (task.samplers.len(), task.devices());
        let zeros = vec![0; samplers];
        let (load, promised, expected) = (zeros.clone(), zeros, vec![0; samplers]);
        Self { task, owners: vec![None; devices], load, promised, expected, followers: vec![(0, 0); devices] }
    }

    /// What stays where it is.
    fn keep(&mut self, kept: &Owners) {
        for (device, owner) in self.task.ids().zip(kept) {
            if let Some(sampler) = owner {
                self.give(device, *sampler);
            }
        }
    }

    /// Switches larger than the cap come first: each takes a whole sampler, one that hangs on it if there is one.
    fn oversized(&mut self) -> Option<()> {
        for switch in self.open_switches().into_iter().filter(|switch| self.task.port_count(*switch) > self.task.cap) {
            let own = self.task.attached(switch).filter(|sampler| self.load[*sampler] == 0).min();
            let free = (0..self.load.len()).filter(|sampler| self.load[*sampler] == 0);
            let nearest = own.or_else(|| free.min_by_key(|sampler| (self.task.hops(*sampler, switch), *sampler)))?;
            self.give(switch, nearest);
        }
        Some(())
    }

    /// Rule 2, its first half.
    fn own_adapters(&mut self) {
        for (sampler, host) in self.task.samplers.iter().enumerate() {
            for adapter in &host.own {
                if self.is_open(*adapter) && self.has_room(sampler, self.task.port_count(*adapter)) {
                    self.give(*adapter, sampler);
                }
            }
        }
    }

    /// How many adapters would follow each switch.
    fn count_followers(&mut self) {
        for adapter in self.open_adapters() {
            if let Some(switch) = self.task.switch_of(adapter) {
                let (ports, cost) = (self.task.port_count(adapter), self.task.cost(adapter));
                let followers = &mut self.followers[switch.0 as usize];
                *followers = (followers.0 + ports, followers.1 + cost);
                // Of a switch that is kept.
                if let Some(owner) = self.owners[switch.0 as usize] {
                    self.promised[owner] += ports;
                    self.expected[owner] += cost;
                }
            }
        }
    }

    /// Rule 2, its second half.
    fn own_switches(&mut self) {
        for switch in self.open_switches() {
            if let Some(sampler) = self.least_loaded(switch, self.task.attached(switch)) {
                self.give(switch, sampler);
            }
        }
    }

    /// Rule 3.
    fn higher_tiers(&mut self) -> Option<()> {
        if self.task.flat {
            return Some(());
        }
        let tier = |switch: &DeviceId| self.task.tier(*switch);
        let mut higher: Vec<_> = self.open_switches().into_iter().filter(|switch| tier(switch) >= 2).collect();
        higher.sort_by_key(tier);
        self.give_to_least_loaded(higher)
    }

    /// Rule 4 for those that rule 3 leaves.
    fn lowest_tiers(&mut self) -> Option<()> {
        let mut lowest = self.switches_by_nearness();
        lowest.retain(|switch| self.task.flat || self.task.tier(*switch) < 2);
        self.give_to_least_loaded(lowest)
    }

    /// Rule 4.
    fn switches_left(&mut self) -> Option<()> {
        let left = self.switches_by_nearness();
        self.give_to_least_loaded(left)
    }

    /// Switches that nobody has yet. Where there are no tiers, those come first that have a sampler near: so what a sampler gets hangs together.
    fn switches_by_nearness(&self) -> Vec<DeviceId> {
        let mut left = self.open_switches();
        if self.task.flat {
            left.sort_by_cached_key(|switch| (0..self.load.len()).map(|sampler| self.task.hops(sampler, *switch)).min());
        }
        left
    }

    fn give_to_least_loaded(&mut self, switches: Vec<DeviceId>) -> Option<()> {
        for switch in switches {
            let sampler = self.least_loaded(switch, 0..self.load.len())?;
            self.give(switch, sampler);
        }
        Some(())
    }

    /// Rule 5. First those that find room with their switch, so that no stranger takes it from them.
    fn adapters(&mut self) {
        for adapter in self.open_adapters() {
            let owner = self.task.switch_of(adapter).and_then(|switch| self.owners[switch.0 as usize]);
            if let Some(sampler) = owner.filter(|sampler| self.has_room(*sampler, self.task.port_count(adapter))) {
                self.give(adapter, sampler);
            }
        }
        for adapter in self.open_adapters() {
            let ports = self.task.port_count(adapter);
            let with_room = (0..self.load.len()).filter(|sampler| self.has_room(*sampler, ports));
            let nearest = with_room.min_by_key(|sampler| (self.task.hops(*sampler, adapter), self.load[*sampler], *sampler));
            self.give(adapter, nearest.expect("the ports fit in all, and an adapter's port takes any room"));
        }
    }

    /// The sampler that a switch should go to: with room for it and its followers, else with room for itself.
    fn least_loaded(&self, switch: DeviceId, samplers: impl Iterator<Item = usize> + Clone) -> Option<usize> {
        let (ports, (followers, _)) = (self.task.port_count(switch), self.followers[switch.0 as usize]);
        let key = |sampler: &usize| {
            let (hops, expected) = (self.task.hops(*sampler, switch), self.expected[*sampler]);
            let nearness = if self.task.flat { (u64::from(hops), expected) } else { (expected, u64::from(hops)) };
            (hops == UNREACHABLE, nearness, *sampler)
        };
        let for_both =
            samplers.clone().filter(|sampler| self.promised[*sampler].max(self.load[*sampler]) + ports + followers <= self.task.cap);
        let for_itself = samplers.filter(|sampler| self.has_room(*sampler, ports));
        for_both.min_by_key(key).or_else(|| for_itself.min_by_key(key))
    }

    /// Adapters that are with another sampler than their switch, but for those that are a sampler's own.
    fn parted(&self) -> usize {
        self.task.strays(&self.owners).count()
    }

    fn has_room(&self, sampler: usize, ports: u32) -> bool {
        self.load[sampler] + ports <= self.task.cap
    }

    fn give(&mut self, device: DeviceId, sampler: usize) {
        let (ports, (followers, following)) = (self.task.port_count(device), self.followers[device.0 as usize]);
        self.owners[device.0 as usize] = Some(sampler);
        self.load[sampler] += ports;
        self.promised[sampler] += ports + followers;
        self.expected[sampler] += self.task.cost(device) + following;
    }

    fn is_open(&self, device: DeviceId) -> bool {
        self.owners[device.0 as usize].is_none() && self.task.port_count(device) > 0
    }

    /// Switches that nobody has yet: the largest with its followers first.
    fn open_switches(&self) -> Vec<DeviceId> {
        let mut open: Vec<_> = self.task.switches().filter(|switch| self.is_open(*switch)).collect();
        open.sort_by_key(|switch| (Reverse(self.task.cost(*switch) + self.followers[switch.0 as usize].1), *switch));
        open
    }

    fn open_adapters(&self) -> Vec<DeviceId> {
        self.task.adapters().filter(|adapter| self.is_open(*adapter)).collect()
    }
}
