//! The rules that assign devices to samplers, the processes that query the ports of the devices.
//! The *cap* is the max number of ports of a sampler. *Tiers* count upwards: a leaf switch, to
//! which hosts are connected, has tier 1; a switch one link above the leaf switches has tier 2.
//! The rules follow the LDMS paper, in this order:
//!
//! 1. A switch has one sampler. It is never split.
//! 2. A sampler gets the HCA ports of its own host, and the switches to which its host is
//!    attached, as far as the cap allows. If the hosts of several samplers are attached to one
//!    switch, the least loaded of these samplers gets it.
//! 3. Each switch of tier 2 or above goes to the least loaded sampler with enough capacity.
//! 4. Each remaining switch goes to the least loaded sampler with enough capacity. Usually these
//!    are the leaf switches to which no sampler host is attached.
//! 5. An HCA port goes to the sampler of its switch or, if the capacity of this sampler is used
//!    up, to the nearest sampler with enough capacity.
//! 6. Aggregation nodes (SHARP) do not count in the computation of tiers. An aggregation node is
//!    a part of a switch that looks like an HCA.
//!
//! The *capacity* of a sampler is the cap minus its assigned ports. The *load* of a sampler
//! already includes the HCA ports of its switches, which rule 5 assigns later, so the final loads
//! are similar. Larger switches are assigned before smaller ones. If two samplers have equal
//! loads, the nearer one gets the device and, at equal distance, the earlier one in the list. A
//! sampler without a path to the device gets it only if no other sampler can.
//!
//! If rules contradict each other, the goal that comes first in this list wins: every port has
//! exactly one sampler, the cap, whole switches, own HCA ports, own switches, HCA ports with
//! their switch, balance, hops. This order has these consequences:
//!
//! - If no sampler has capacity for a switch with its HCA ports, the switch is assigned without
//!   them.
//! - With the order "rule 3, then rule 4", an HCA port can end up with another sampler than its
//!   switch, or a switch without a sampler. In this case the planner also tries "rule 4, then
//!   rule 3", and uses the result that separates fewer HCA ports from their switches.
//! - In a fabric without tiers (torus, mesh, plain dragonfly), the switches of rule 4 go to the
//!   nearest sampler with enough capacity; those with the closest sampler are assigned first.
//! - If no sampler has capacity for a switch, all devices are assigned again, the largest first,
//!   regardless of distances.
//! - A switch with more ports than the cap gets a sampler that has no other device.

use std::cmp::Reverse;

use super::task::{Owners, Task};
use crate::topology::DeviceId;
use crate::topology::graph::UNREACHABLE;

/// Assigns all devices by the rules. Devices in `kept` stay at their samplers. Returns `None` if no
/// sampler has capacity for a switch.
pub(super) fn by_the_rules(task: &Task<'_>, kept: &Owners) -> Option<Owners> {
    let in_order = placed(task, kept, |placing| {
        placing
            .higher_tiers()
            .and_then(|()| placing.remaining_switches())
    });
    let best = match in_order {
        Some(placing) if placing.separated() == 0 => Some(placing),
        in_order => {
            let leaves_first = placed(task, kept, |placing| {
                placing.lowest_tiers().and_then(|()| placing.higher_tiers())
            });
            // On a tie, `min_by_key` returns the first result: rule 3 before rule 4.
            in_order
                .into_iter()
                .chain(leaves_first)
                .min_by_key(Placing::separated)
        }
    };
    best.map(|placing| placing.owners)
}

/// Applies all rules. `switches` applies rules 3 and 4, in the order that the caller selects.
fn placed<'a>(
    task: &'a Task<'a>,
    kept: &Owners,
    switches: impl FnOnce(&mut Placing<'a>) -> Option<()>,
) -> Option<Placing<'a>> {
    let mut placing = Placing::new(task);
    placing.keep(kept);
    placing.oversized()?;
    placing.own_hcas();
    placing.count_followers();
    placing.own_switches();
    switches(&mut placing)?;
    placing.hcas();
    Some(placing)
}

/// Assigns each switch, the largest first, to the first sampler with enough capacity, and then
/// the HCA ports by the rules.
///
/// The caller ensures that there are as many samplers as [`Task::samplers_needed`] returns.
pub(super) fn by_size(task: &Task<'_>) -> Owners {
    let mut placing = Placing::new(task);
    placing
        .oversized()
        .expect("samplers_needed counts one sampler for each oversized switch");
    for switch in placing.open_switches() {
        let first = (0..task.samplers.len())
            .find(|sampler| placing.has_capacity(*sampler, task.port_count(switch)));
        placing.assign(
            switch,
            first.expect("samplers_needed places the switches in the same order"),
        );
    }
    placing.own_hcas();
    placing.hcas();
    placing.owners
}

/// State of the assignment.
struct Placing<'a> {
    task: &'a Task<'a>,
    owners: Owners,
    /// Number of assigned ports, by sampler.
    load: Vec<u32>,
    /// Number of promised ports, by sampler: the assigned ports, and the HCA ports that rule 5
    /// will assign to the sampler of their switch.
    promised: Vec<u32>,
    /// Cost of the promised ports, by sampler.
    expected: Vec<u64>,
    /// Number and cost of each switch's followers; (0, 0) for other devices.
    followers: Vec<(u32, u64)>,
}

impl<'a> Placing<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        let (samplers, devices) = (task.samplers.len(), task.devices());
        let zeros = vec![0; samplers];
        let (load, promised, expected) = (zeros.clone(), zeros, vec![0; samplers]);
        Self {
            task,
            owners: vec![None; devices],
            load,
            promised,
            expected,
            followers: vec![(0, 0); devices],
        }
    }

    /// Assigns the kept devices to their samplers.
    fn keep(&mut self, kept: &Owners) {
        for (device, owner) in self.task.ids().zip(kept) {
            if let Some(sampler) = owner {
                self.assign(device, *sampler);
            }
        }
    }

    /// Assigns each switch with more ports than the cap to a sampler that gets no other device,
    /// if possible one whose host is attached to the switch.
    fn oversized(&mut self) -> Option<()> {
        for switch in self
            .open_switches()
            .into_iter()
            .filter(|switch| self.task.port_count(*switch) > self.task.cap)
        {
            let own = self
                .task
                .attached(switch)
                .filter(|sampler| self.load[*sampler] == 0)
                .min();
            let free = (0..self.load.len()).filter(|sampler| self.load[*sampler] == 0);
            let nearest = own.or_else(|| {
                free.min_by_key(|sampler| (self.task.hops(*sampler, switch), *sampler))
            })?;
            self.assign(switch, nearest);
        }
        Some(())
    }

    /// Applies rule 2 to HCA ports: a sampler gets the HCA ports of its own host.
    fn own_hcas(&mut self) {
        for (sampler, host) in self.task.samplers.iter().enumerate() {
            for hca in &host.own {
                if self.is_open(*hca) && self.has_capacity(sampler, self.task.port_count(*hca)) {
                    self.assign(*hca, sampler);
                }
            }
        }
    }

    /// Counts the followers of each switch: the HCA ports that rule 5 assigns to the sampler of the
    /// switch.
    fn count_followers(&mut self) {
        for hca in self.open_hcas() {
            if let Some(switch) = self.task.switch_of(hca) {
                let (ports, cost) = (self.task.port_count(hca), self.task.cost(hca));
                let followers = &mut self.followers[switch.0 as usize];
                *followers = (followers.0 + ports, followers.1 + cost);
                // A kept switch already has its sampler, so the HCA ports are promised to it.
                if let Some(owner) = self.owners[switch.0 as usize] {
                    self.promised[owner] += ports;
                    self.expected[owner] += cost;
                }
            }
        }
    }

    /// Applies rule 2 to switches: a sampler gets the switches to which its host is attached.
    fn own_switches(&mut self) {
        for switch in self.open_switches() {
            if let Some(sampler) = self.least_loaded(switch, self.task.attached(switch)) {
                self.assign(switch, sampler);
            }
        }
    }

    /// Applies rule 3.
    fn higher_tiers(&mut self) -> Option<()> {
        if self.task.flat {
            return Some(());
        }
        let tier = |switch: &DeviceId| self.task.tier(*switch);
        let mut higher: Vec<_> = self
            .open_switches()
            .into_iter()
            .filter(|switch| tier(switch) >= 2)
            .collect();
        higher.sort_by_key(tier);
        self.assign_to_least_loaded(higher)
    }

    /// Applies rule 4 to the switches that rule 3 does not cover.
    fn lowest_tiers(&mut self) -> Option<()> {
        let mut lowest = self.switches_by_nearness();
        lowest.retain(|switch| self.task.flat || self.task.tier(*switch) < 2);
        self.assign_to_least_loaded(lowest)
    }

    /// Applies rule 4.
    fn remaining_switches(&mut self) -> Option<()> {
        let remaining = self.switches_by_nearness();
        self.assign_to_least_loaded(remaining)
    }

    /// Returns the unassigned switches. In a fabric without tiers, switches with a near sampler
    /// come first, so that the switches of a sampler form a connected part of the fabric.
    fn switches_by_nearness(&self) -> Vec<DeviceId> {
        let mut open = self.open_switches();
        if self.task.flat {
            open.sort_by_cached_key(|switch| {
                (0..self.load.len())
                    .map(|sampler| self.task.hops(sampler, *switch))
                    .min()
            });
        }
        open
    }

    fn assign_to_least_loaded(&mut self, switches: Vec<DeviceId>) -> Option<()> {
        for switch in switches {
            let sampler = self.least_loaded(switch, 0..self.load.len())?;
            self.assign(switch, sampler);
        }
        Some(())
    }

    /// Applies rule 5. HCA ports that fit on the sampler of their switch are assigned first, so
    /// that the other HCA ports take no capacity from them.
    fn hcas(&mut self) {
        for hca in self.open_hcas() {
            let owner = self
                .task
                .switch_of(hca)
                .and_then(|switch| self.owners[switch.0 as usize]);
            if let Some(sampler) =
                owner.filter(|sampler| self.has_capacity(*sampler, self.task.port_count(hca)))
            {
                self.assign(hca, sampler);
            }
        }
        for hca in self.open_hcas() {
            let ports = self.task.port_count(hca);
            let with_room =
                (0..self.load.len()).filter(|sampler| self.has_capacity(*sampler, ports));
            let nearest = with_room.min_by_key(|sampler| {
                (self.task.hops(*sampler, hca), self.load[*sampler], *sampler)
            });
            self.assign(
                hca,
                nearest.expect("all ports fit in total, and an HCA port is one port"),
            );
        }
    }

    /// Returns the sampler for a switch: the least loaded one with capacity for the switch and
    /// its followers or, if there is none, the least loaded one with capacity for the switch
    /// alone. In a fabric without tiers, it is the nearest one, and the load decides on a tie.
    fn least_loaded(
        &self,
        switch: DeviceId,
        samplers: impl Iterator<Item = usize> + Clone,
    ) -> Option<usize> {
        let (ports, (followers, _)) = (
            self.task.port_count(switch),
            self.followers[switch.0 as usize],
        );
        let key = |sampler: &usize| {
            let (hops, expected) = (self.task.hops(*sampler, switch), self.expected[*sampler]);
            let nearness = if self.task.flat {
                (u64::from(hops), expected)
            } else {
                (expected, u64::from(hops))
            };
            (hops == UNREACHABLE, nearness, *sampler)
        };
        let for_both = samplers.clone().filter(|sampler| {
            self.promised[*sampler].max(self.load[*sampler]) + ports + followers <= self.task.cap
        });
        let for_itself = samplers.filter(|sampler| self.has_capacity(*sampler, ports));
        for_both
            .min_by_key(key)
            .or_else(|| for_itself.min_by_key(key))
    }

    fn separated(&self) -> usize {
        self.task.separated(&self.owners).count()
    }

    fn has_capacity(&self, sampler: usize, ports: u32) -> bool {
        self.load[sampler] + ports <= self.task.cap
    }

    fn assign(&mut self, device: DeviceId, sampler: usize) {
        let (ports, (followers, following)) = (
            self.task.port_count(device),
            self.followers[device.0 as usize],
        );
        self.owners[device.0 as usize] = Some(sampler);
        self.load[sampler] += ports;
        self.promised[sampler] += ports + followers;
        self.expected[sampler] += self.task.cost(device) + following;
    }

    fn is_open(&self, device: DeviceId) -> bool {
        self.owners[device.0 as usize].is_none() && self.task.port_count(device) > 0
    }

    /// Returns the unassigned switches, the one with the most ports, including its followers,
    /// first.
    fn open_switches(&self) -> Vec<DeviceId> {
        let mut open: Vec<_> = self
            .task
            .switches()
            .filter(|switch| self.is_open(*switch))
            .collect();
        open.sort_by_key(|switch| {
            (
                Reverse(self.task.cost(*switch) + self.followers[switch.0 as usize].1),
                *switch,
            )
        });
        open
    }

    fn open_hcas(&self) -> Vec<DeviceId> {
        self.task.hcas().filter(|hca| self.is_open(*hca)).collect()
    }
}
