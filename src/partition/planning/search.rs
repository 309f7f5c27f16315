//! Local search after the rule-based plan. It first lowers the load of the busiest sampler, then
//! the number of hops between samplers and devices, and never increases either of them.
//!
//! A *unit* is what moves together: a switch plus those of its HCA ports that have the same
//! sampler, or a single HCA port whose sampler differs from that of its switch. The search either
//! moves one unit to another sampler or swaps the samplers of two units, and compares plans by the
//! same criteria as the [rules](super::rules). A switch with attached samplers moves only among
//! these samplers. There are three steps:
//!
//! 1. HCA ports move to the sampler of their switch, or the switch moves to a sampler that has enough
//!    capacity for it and all of its HCA ports.
//! 2. The busiest samplers give units away or swap them. The changes of one attempt are kept only if
//!    the load of every sampler is then below the previous maximum; otherwise they are undone.
//! 3. Moves and swaps reduce the hops, and the max load stays at or below that of step 2.
//!
//! All choices follow the order of indices, so equal input gives an equal plan.

use super::plan::Figures;
use super::task::{Owners, Task};
use crate::topology::DeviceId;
use crate::topology::graph::UNREACHABLE;

/// Max number of changes per sampler in step 2. Loads that are measured in nanoseconds differ by
/// small amounts, so each change may lower the max load only slightly; this limit bounds the run
/// time.
const MAX_CHANGES: usize = 10;

/// Max number of passes over all units in step 3.
const MAX_PASSES: usize = 8;

/// Moves devices back to the samplers that they had before, as far as possible. If the capacity is
/// used up, it swaps a device with another unit that has moved.
pub(super) fn restore(task: &Task<'_>, owners: &mut Owners, kept: &Owners, before: &Owners) {
    let mut search = Search::new(task, std::mem::take(owners), kept);
    search.find_units();
    search.return_to(before);
    *owners = search.owners;
}

/// Improves a plan. Devices in `kept` do not move.
pub(super) fn improve(task: &Task<'_>, owners: &mut Owners, kept: &Owners) {
    let mut search = Search::new(task, std::mem::take(owners), kept);
    search.reunite();
    search.find_units();
    search.reduce_load();
    search.reduce_hops();
    *owners = search.owners;
}

/// Returns the quality of a plan.
pub(super) fn figures(task: &Task<'_>, owners: &Owners) -> Figures {
    let mut loads = vec![0; task.samplers.len()];
    let mut hops = 0;
    for (device, sampler) in task
        .ids()
        .zip(owners)
        .filter_map(|(device, owner)| owner.map(|owner| (device, owner)))
    {
        loads[sampler] += task.cost(device);
        hops += u64::from(task.port_count(device)) * u64::from(task.hops(sampler, device));
    }
    Figures {
        greatest: loads.into_iter().max().unwrap_or(0),
        hops,
    }
}

struct Search<'a> {
    task: &'a Task<'a>,
    /// Devices that must not move, with their samplers.
    kept: &'a Owners,
    owners: Owners,
    /// Ports, by sampler.
    load: Vec<u32>,
    /// Cost of these ports, by sampler.
    cost: Vec<u64>,
    units: Vec<Unit>,
    /// Indices of the units, by sampler, in ascending order.
    of: Vec<Vec<usize>>,
}

/// Devices that move as one.
struct Unit {
    id: DeviceId,
    /// HCA ports of the switch that have the same sampler as the switch. The HCA ports of the
    /// sampler's own host are left out.
    followers: Vec<DeviceId>,
    owner: usize,
    /// Ports of the device and its followers.
    ports: u32,
    /// Cost of these ports.
    cost: u64,
    /// Number of ports of the followers, if this switch is their only neighbour. Then each follower
    /// has one hop more than the switch.
    single_homed: Option<u32>,
    scope: Scope,
}

/// Samplers that a unit may move to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Anywhere,
    /// Samplers that are attached to the switch.
    Attached,
}

/// A change of the plan.
#[derive(Clone, Copy)]
enum Change {
    Move { unit: usize, to: usize },
    Swap { unit: usize, other: usize },
}

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>, owners: Owners, kept: &'a Owners) -> Self {
        let (mut load, mut cost) = (vec![0; task.samplers.len()], vec![0; task.samplers.len()]);
        for (device, sampler) in task
            .ids()
            .zip(&owners)
            .filter_map(|(device, owner)| owner.map(|owner| (device, owner)))
        {
            load[sampler] += task.port_count(device);
            cost[sampler] += task.cost(device);
        }
        Self {
            task,
            kept,
            owners,
            load,
            cost,
            units: Vec::new(),
            of: vec![Vec::new(); task.samplers.len()],
        }
    }

    /// Performs step 1: reunites switches and their HCA ports.
    fn reunite(&mut self) {
        let task = self.task;
        let separated: Vec<_> = task
            .separated(&self.owners)
            .filter(|hca| self.is_free(*hca))
            .collect();
        let misplaced = task
            .hcas()
            .filter(|hca| task.own(*hca).is_some() && self.is_free(*hca))
            .collect::<Vec<_>>();
        for hca in misplaced {
            self.move_if_possible(hca, task.own(hca));
        }
        for hca in &separated {
            let with_switch = task
                .switch_of(*hca)
                .and_then(|switch| self.owners[switch.0 as usize]);
            self.move_if_possible(*hca, with_switch);
        }
        let still: Vec<_> = task
            .separated(&self.owners)
            .filter(|hca| self.is_free(*hca))
            .collect();
        let mut switches: Vec<_> = still
            .iter()
            .filter_map(|hca| task.switch_of(*hca))
            .collect();
        switches.sort_unstable();
        switches.dedup();
        for switch in switches {
            self.move_with_hcas(switch);
        }
    }

    fn move_if_possible(&mut self, hca: DeviceId, to: Option<usize>) {
        if let Some(to) = to.filter(|to| self.owners[hca.0 as usize] != Some(*to))
            && self.load[to] + self.task.port_count(hca) <= self.task.cap
        {
            self.hand_over(hca, to);
        }
    }

    /// Moves a switch and all of its HCA ports to a sampler with enough capacity.
    fn move_with_hcas(&mut self, switch: DeviceId) {
        let task = self.task;
        let Some((owner, scope)) = self.owner_of_free(switch) else {
            return;
        };
        let follows = |hca: &DeviceId| {
            let owner = self.owners[hca.0 as usize];
            task.switch_of(*hca) == Some(switch)
                && self.is_free(*hca)
                && owner.is_some()
                && task.own(*hca) != owner
        };
        let hcas = task
            .graph
            .neighbours(switch)
            .iter()
            .copied()
            .filter(follows)
            .filter(|hca| task.port_count(*hca) > 0);
        let all: Vec<_> = hcas.chain([switch]).collect();
        let ports: u32 = all.iter().map(|device| task.port_count(*device)).sum();
        let has_room = |sampler: &usize| {
            let there = all
                .iter()
                .filter(|device| self.owners[device.0 as usize] == Some(*sampler));
            let there: u32 = there.map(|device| task.port_count(*device)).sum();
            self.load[*sampler] - there + ports <= task.cap
        };
        let with_room = (0..self.load.len())
            .filter(|sampler| self.is_allowed(switch, scope, *sampler))
            .filter(has_room);
        if let Some(sampler) = with_room.min_by_key(|sampler| {
            (
                *sampler != owner,
                self.cost[*sampler],
                task.hops(*sampler, switch),
            )
        }) {
            all.into_iter()
                .for_each(|device| self.hand_over(device, sampler));
        }
    }

    fn is_free(&self, device: DeviceId) -> bool {
        self.kept[device.0 as usize].is_none()
    }

    /// Returns the sampler and the scope of a switch that may move.
    fn owner_of_free(&self, switch: DeviceId) -> Option<(usize, Scope)> {
        let owner = self.owners[switch.0 as usize]
            .filter(|_| self.is_free(switch) && self.task.port_count(switch) <= self.task.cap)?;
        let is_own = self.task.attached(switch).any(|sampler| sampler == owner);
        Some((
            owner,
            if is_own {
                Scope::Attached
            } else {
                Scope::Anywhere
            },
        ))
    }

    fn find_units(&mut self) {
        let task = self.task;
        let mut followers = vec![Vec::new(); task.devices()];
        let mut alone = Vec::new();
        for hca in task.hcas().filter(|hca| {
            task.own(*hca)
                .is_none_or(|own| self.owners[hca.0 as usize] != Some(own))
        }) {
            let owner = self.owners[hca.0 as usize];
            match task.switch_of(hca) {
                Some(switch) if self.owners[switch.0 as usize] == owner => {
                    followers[switch.0 as usize].push(hca);
                }
                _ if self.is_free(hca) => alone.push(hca),
                _ => {}
            }
        }
        for switch in task.switches() {
            let followers = std::mem::take(&mut followers[switch.0 as usize]);
            // A switch with a kept HCA port does not move.
            let all_free = followers.iter().all(|hca| self.is_free(*hca));
            if let Some((owner, scope)) = self.owner_of_free(switch).filter(|_| all_free) {
                self.add_unit(switch, followers, owner, scope);
            }
        }
        for hca in alone {
            if let Some(owner) = self.owners[hca.0 as usize] {
                self.add_unit(hca, Vec::new(), owner, Scope::Anywhere);
            }
        }
    }

    fn add_unit(&mut self, id: DeviceId, followers: Vec<DeviceId>, owner: usize, scope: Scope) {
        let task = self.task;
        let ports = followers
            .iter()
            .map(|hca| task.port_count(*hca))
            .sum::<u32>();
        let cost = followers.iter().map(|hca| task.cost(*hca)).sum::<u64>();
        let has_one_neighbour =
            |hca: &DeviceId| task.own(*hca).is_none() && task.graph.neighbours(*hca).len() == 1;
        let single_homed = followers.iter().all(has_one_neighbour).then_some(ports);
        let (ports, cost) = (ports + task.port_count(id), cost + task.cost(id));
        self.of[owner].push(self.units.len());
        self.units.push(Unit {
            id,
            followers,
            owner,
            ports,
            cost,
            single_homed,
            scope,
        });
    }

    fn return_to(&mut self, before: &Owners) {
        let was = |search: &Self, unit: usize| before[search.units[unit].id.0 as usize];
        let mut done = false;
        while !std::mem::replace(&mut done, true) {
            for unit in 0..self.units.len() {
                let is_possible = |to: &usize| {
                    *to != self.units[unit].owner && self.targets(unit).any(|target| target == *to)
                };
                let Some(to) = was(self, unit).filter(is_possible) else {
                    continue;
                };
                let from = self.units[unit].owner;
                let has_returned = |other: usize| was(self, other) == Some(to);
                let would_return = |other: usize| was(self, other) == Some(from);
                let change = match self.load[to] + self.units[unit].ports <= self.task.cap {
                    true => Some(Change::Move { unit, to }),
                    false => {
                        let others = self.of[to]
                            .iter()
                            .copied()
                            .filter(|other| !has_returned(*other) && self.can_swap(unit, *other));
                        others
                            .min_by_key(|other| (!would_return(*other), *other))
                            .map(|other| Change::Swap { unit, other })
                    }
                };
                if let Some(change) = change {
                    self.apply(change);
                    done = false;
                }
            }
        }
    }

    /// Performs step 2: reduces the largest load.
    fn reduce_load(&mut self) {
        let mut remaining = MAX_CHANGES * self.load.len();
        let bound = self
            .task
            .lower_bound(self.task.separated(&self.owners).next().is_none());
        while let Some(level) = self.greatest().filter(|level| *level > bound) {
            let mut undo = Vec::new();
            let done = loop {
                let highest = (0..self.cost.len())
                    .find(|sampler| self.cost[*sampler] >= level && self.takes_part(*sampler));
                let Some(sampler) = highest else { break true };
                let Some(change) = self.relief(sampler, level).filter(|_| remaining > 0) else {
                    break false;
                };
                remaining -= 1;
                undo.push(self.apply(change));
            };
            if !done {
                for change in undo.into_iter().rev() {
                    self.apply(change);
                }
                return;
            }
        }
    }

    /// Returns the largest load of a sampler that takes part.
    fn greatest(&self) -> Option<u64> {
        (0..self.cost.len())
            .filter(|sampler| self.takes_part(*sampler))
            .map(|sampler| self.cost[sampler])
            .max()
    }

    /// Returns whether a sampler takes part in the search. One that is above the cap has a single
    /// switch with more ports than the cap and no other device, so nothing can move.
    fn takes_part(&self, sampler: usize) -> bool {
        self.load[sampler] <= self.task.cap
    }

    /// Returns the best change after which both samplers, `from` and the other one, have a load
    /// below `level`: the change with the smallest larger cost of the two, and on a tie with the
    /// fewest hops.
    fn relief(&self, from: usize, level: u64) -> Option<Change> {
        let mut best = Best::default();
        for &unit in self.of[from]
            .iter()
            .filter(|unit| self.units[**unit].cost > 0)
        {
            let Unit { ports, cost, .. } = self.units[unit];
            for to in self.targets(unit) {
                let (here, there) = (self.cost[from] - cost, self.cost[to] + cost);
                if there < level && self.load[to] + ports <= self.task.cap {
                    best.offer(
                        here.max(there),
                        || self.more_hops(unit, to),
                        Change::Move { unit, to },
                    );
                }
                for &other in self.of[to]
                    .iter()
                    .filter(|other| self.units[**other].cost < cost)
                {
                    let (here, there) = self.costs_after_swap(unit, other);
                    if here.max(there) < level && self.can_swap(unit, other) {
                        let more_hops = || self.more_hops(unit, to) + self.more_hops(other, from);
                        best.offer(here.max(there), more_hops, Change::Swap { unit, other });
                    }
                }
            }
        }
        best.change
    }

    /// Performs step 3: reduces the hops.
    fn reduce_hops(&mut self) {
        let Some(level) = self.greatest() else { return };
        for _ in 0..MAX_PASSES {
            let mut done = true;
            for unit in 0..self.units.len() {
                if let Some(change) = self.nearer(unit, level) {
                    self.apply(change);
                    done = false;
                }
            }
            if done {
                return;
            }
        }
    }

    /// Returns the change that moves a unit and saves most hops.
    fn nearer(&self, unit: usize, level: u64) -> Option<Change> {
        let Unit {
            id,
            owner: from,
            ports,
            cost,
            single_homed,
            ..
        } = self.units[unit];
        let mut best = (0, None);
        let (here, now) = (self.task.hops(from, id), self.hops(unit, from));
        // If this switch is the only neighbour of all followers, the unit saves hops only where the
        // switch itself does.
        let is_nearer = |to: usize| single_homed.is_none() || self.task.hops(to, id) < here;
        for to in (0..self.load.len())
            .filter(|to| is_nearer(*to))
            .filter(|to| self.is_target(unit, *to))
        {
            // A swap that saves hops brings at least one of its units nearer, so it is found when
            // that unit is examined.
            let more_hops = self.hops(unit, to) - now;
            if more_hops >= 0 {
                continue;
            }
            if more_hops < best.0
                && self.load[to] + ports <= self.task.cap
                && self.cost[to] + cost <= level
            {
                best = (more_hops, Some(Change::Move { unit, to }));
            }
            for &other in &self.of[to] {
                let (here, there) = self.costs_after_swap(unit, other);
                if here.max(there) <= level && self.can_swap(unit, other) {
                    let more_hops = more_hops + self.more_hops(other, from);
                    if more_hops < best.0 {
                        best = (more_hops, Some(Change::Swap { unit, other }));
                    }
                }
            }
        }
        best.1
    }

    /// Returns the samplers that a unit may move to.
    fn targets(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.load.len()).filter(move |to| self.is_target(unit, *to))
    }

    fn is_target(&self, unit: usize, to: usize) -> bool {
        let Unit {
            id, owner, scope, ..
        } = self.units[unit];
        to != owner && self.is_allowed(id, scope, to)
    }

    fn is_allowed(&self, device: DeviceId, scope: Scope, to: usize) -> bool {
        let in_scope =
            scope == Scope::Anywhere || self.task.attached(device).any(|sampler| sampler == to);
        in_scope && self.takes_part(to) && self.task.hops(to, device) != UNREACHABLE
    }

    /// Returns whether two units can swap their samplers without exceeding the cap. The caller has
    /// checked that the first one may move to the sampler of the other.
    fn can_swap(&self, unit: usize, other: usize) -> bool {
        let (one, two) = (&self.units[unit], &self.units[other]);
        let fits = |sampler: usize, leaving: u32, arriving: u32| {
            self.load[sampler] - leaving + arriving <= self.task.cap
        };
        fits(one.owner, one.ports, two.ports)
            && fits(two.owner, two.ports, one.ports)
            && self.is_allowed(two.id, two.scope, one.owner)
    }

    /// Returns the costs of both samplers after a swap.
    fn costs_after_swap(&self, unit: usize, other: usize) -> (u64, u64) {
        let (one, two) = (&self.units[unit], &self.units[other]);
        (
            self.cost[one.owner] - one.cost + two.cost,
            self.cost[two.owner] - two.cost + one.cost,
        )
    }

    /// Returns how many hops more all ports of a unit have together at another sampler. The number
    /// is negative if that sampler is nearer.
    fn more_hops(&self, unit: usize, to: usize) -> i64 {
        self.hops(unit, to) - self.hops(unit, self.units[unit].owner)
    }

    /// Returns the sum of the hops of all ports of a unit at a sampler.
    fn hops(&self, unit: usize, sampler: usize) -> i64 {
        let Unit {
            id,
            ref followers,
            single_homed,
            ..
        } = self.units[unit];
        let hops = self.task.hops(sampler, id);
        let own = i64::from(self.task.port_count(id)) * i64::from(hops);
        own + match single_homed {
            Some(ports) => i64::from(ports) * i64::from(hops.saturating_add(1)),
            None => followers
                .iter()
                .map(|id| {
                    i64::from(self.task.port_count(*id)) * i64::from(self.task.hops(sampler, *id))
                })
                .sum(),
        }
    }

    /// Applies a change and returns the change that undoes it.
    fn apply(&mut self, change: Change) -> Change {
        match change {
            Change::Move { unit, to } => {
                let back = self.units[unit].owner;
                self.move_unit(unit, to);
                Change::Move { unit, to: back }
            }
            Change::Swap { unit, other } => {
                let (from, to) = (self.units[unit].owner, self.units[other].owner);
                self.move_unit(unit, to);
                self.move_unit(other, from);
                change
            }
        }
    }

    fn move_unit(&mut self, unit: usize, to: usize) {
        let from = std::mem::replace(&mut self.units[unit].owner, to);
        let followers = std::mem::take(&mut self.units[unit].followers);
        followers
            .iter()
            .chain([&self.units[unit].id])
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.hand_over(id, to));
        self.units[unit].followers = followers;
        self.of[from].retain(|other| *other != unit);
        let at = self.of[to].partition_point(|other| *other < unit);
        self.of[to].insert(at, unit);
    }

    fn hand_over(&mut self, device: DeviceId, to: usize) {
        let (ports, cost) = (self.task.port_count(device), self.task.cost(device));
        if let Some(from) = self.owners[device.0 as usize].replace(to) {
            self.load[from] -= ports;
            self.cost[from] -= cost;
        }
        self.load[to] += ports;
        self.cost[to] += cost;
    }
}

/// The best change so far: the one with the smallest cost, then the one with the fewest hops, then
/// the first one.
#[derive(Default)]
struct Best {
    key: Option<(u64, i64)>,
    change: Option<Change>,
}

impl Best {
    /// Compares a change with the best one. Hops are computed only if the cost is not larger than
    /// the smallest so far.
    fn offer(&mut self, cost: u64, more_hops: impl FnOnce() -> i64, change: Change) {
        if self.key.is_none_or(|(least, _)| cost <= least) {
            let key = (cost, more_hops());
            if self.key.is_none_or(|least| key < least) {
                (self.key, self.change) = (Some(key), Some(change));
            }
        }
    }
}
