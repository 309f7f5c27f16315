//! What the rules leave open is improved by local search: the greatest load, then the hops. Nothing gets worse by it.
//!
//! What moves is a switch with the adapters that are with it, or an adapter that found no room with its switch. It moves to another sampler, or
//! changes places with another unit. The order of precedence stands: the cap, whole switches, own adapters, own switches (which move among the samplers
//! that hang on them only), adapters with their switch. In three steps:
//!
//! 1. Adapters go back to their switch, or switches to where there is room for them and all of their adapters.
//! 2. The samplers with the greatest load give away or change. A step down counts only when all of them have made it, and is undone otherwise.
//! 3. Whatever shortens the ways without exceeding the greatest load that was reached.
//!
//! All choices are made in the order of numbers, so the same input gives the same result.

use super::Figures;
use super::task::{Owners, Task};
use crate::topology::DeviceId;
use crate::topology::graph::UNREACHABLE;

/// Steps down for each sampler, at most: times in ns are many levels.
const STEPS: usize = 10;

/// How often all is looked through for shorter ways, at most.
const ROUNDS: usize = 8;

/// Brings back to the samplers that they had before what can go there, even if it must change places with something that moves anyway.
pub(super) fn restore(task: &Task<'_>, owners: &mut Owners, kept: &Owners, before: &Owners) {
    let mut search = Search::new(task, std::mem::take(owners), kept);
    search.find_units();
    search.return_to(before);
    *owners = search.owners;
}

/// Improves a plan, but for what is kept where it is.
pub(super) fn improve(task: &Task<'_>, owners: &mut Owners, kept: &Owners) {
    let mut search = Search::new(task, std::mem::take(owners), kept);
    search.gather();
    search.find_units();
    search.level();
    search.shorten();
    *owners = search.owners;
}

/// How good a plan is.
pub(super) fn figures(task: &Task<'_>, owners: &Owners) -> Figures {
    let mut loads = vec![0; task.samplers.len()];
    let mut hops = 0;
    for (device, sampler) in task.ids().zip(owners).filter_map(|(device, owner)| owner.map(|owner| (device, owner))) {
        loads[sampler] += task.cost(device);
        hops += u64::from(task.port_count(device)) * u64::from(task.hops(sampler, device));
    }
    Figures { greatest: loads.into_iter().max().unwrap_or(0), hops }
}

struct Search<'a> {
    task: &'a Task<'a>,
    kept: &'a Owners,
    owners: Owners,
    /// Ports, by sampler.
    load: Vec<u32>,
    /// What they cost, by sampler.
    cost: Vec<u64>,
    units: Vec<Unit>,
    /// Units by sampler, ascending.
    of: Vec<Vec<usize>>,
}

/// What moves as one.
struct Unit {
    id: DeviceId,
    /// Of a switch: adapters that are with it, but for those of their own sampler.
    followers: Vec<DeviceId>,
    owner: usize,
    /// Of all of it.
    ports: u32,
    cost: u64,
    /// Ports of the followers if each of them hangs on this switch only, so that ways need not be sought one by one.
    hanging: Option<u32>,
    may: May,
}

/// Where a unit may go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    Anywhere,
    /// Only to samplers that hang on the switch.
    Attached,
}

/// A step.
#[derive(Clone, Copy)]
enum Change {
    Move { unit: usize, to: usize },
    Swap { unit: usize, other: usize },
}

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>, owners: Owners, kept: &'a Owners) -> Self {
        let (mut load, mut cost) = (vec![0; task.samplers.len()], vec![0; task.samplers.len()]);
        for (device, sampler) in task.ids().zip(&owners).filter_map(|(device, owner)| owner.map(|owner| (device, owner))) {
            load[sampler] += task.port_count(device);
            cost[sampler] += task.cost(device);
        }
        Self { task, kept, owners, load, cost, units: Vec::new(), of: vec![Vec::new(); task.samplers.len()] }
    }

    /// The first step.
    fn gather(&mut self) {
        let task = self.task;
        let strays: Vec<_> = task.strays(&self.owners).filter(|adapter| self.is_free(*adapter)).collect();
        let misplaced = task.adapters().filter(|adapter| task.own(*adapter).is_some() && self.is_free(*adapter)).collect::<Vec<_>>();
        for adapter in misplaced {
            self.send_home(adapter, task.own(adapter));
        }
        for adapter in &strays {
            let home = task.switch_of(*adapter).and_then(|switch| self.owners[switch.0 as usize]);
            self.send_home(*adapter, home);
        }
        let still: Vec<_> = task.strays(&self.owners).filter(|adapter| self.is_free(*adapter)).collect();
        let mut switches: Vec<_> = still.iter().filter_map(|adapter| task.switch_of(*adapter)).collect();
        switches.sort_unstable();
        switches.dedup();
        for switch in switches {
            self.bring_together(switch);
        }
    }

    /// A home is where nothing is asked but room.
    fn send_home(&mut self, adapter: DeviceId, home: Option<usize>) {
        if let Some(home) = home.filter(|home| self.owners[adapter.0 as usize] != Some(*home))
            && self.load[home] + self.task.port_count(adapter) <= self.task.cap
        {
            self.hand_over(adapter, home);
        }
    }

    /// Gives a switch and all of its adapters to a sampler that has room for all.
    fn bring_together(&mut self, switch: DeviceId) {
        let task = self.task;
        let Some((owner, may)) = self.owner_of_free(switch) else { return };
        let follows = |adapter: &DeviceId| {
            let owner = self.owners[adapter.0 as usize];
            task.switch_of(*adapter) == Some(switch) && self.is_free(*adapter) && owner.is_some() && task.own(*adapter) != owner
        };
        let adapters = task.graph.neighbours(switch).iter().copied().filter(follows).filter(|adapter| task.port_count(*adapter) > 0);
        let all: Vec<_> = adapters.chain([switch]).collect();
        let ports: u32 = all.iter().map(|device| task.port_count(*device)).sum();
        let has_room = |sampler: &usize| {
            let there = all.iter().filter(|device| self.owners[device.0 as usize] == Some(*sampler));
            let there: u32 = there.map(|device| task.port_count(*device)).sum();
            self.load[*sampler] - there + ports <= task.cap
        };
        let with_room = (0..self.load.len()).filter(|sampler| self.may_go(switch, may, *sampler)).filter(has_room);
        if let Some(sampler) = with_room.min_by_key(|sampler| (*sampler != owner, self.cost[*sampler], task.hops(*sampler, switch))) {
            all.into_iter().for_each(|device| self.hand_over(device, sampler));
        }
    }

    fn is_free(&self, device: DeviceId) -> bool {
        self.kept[device.0 as usize].is_none()
    }

    /// The sampler of a switch that may move at all.
    fn owner_of_free(&self, switch: DeviceId) -> Option<(usize, May)> {
        let owner = self.owners[switch.0 as usize].filter(|_| self.is_free(switch) && self.task.port_count(switch) <= self.task.cap)?;
        let is_own = self.task.attached(switch).any(|sampler| sampler == owner);
        Some((owner, if is_own { May::Attached } else { May::Anywhere }))
    }

    fn find_units(&mut self) {
        let task = self.task;
        let mut followers = vec![Vec::new(); task.devices()];
        let mut alone = Vec::new();
        for adapter in task.adapters().filter(|adapter| task.own(*adapter).is_none_or(|own| self.owners[adapter.0 as usize] != Some(own))) {
            let owner = self.owners[adapter.0 as usize];
            match task.switch_of(adapter) {
                Some(switch) if self.owners[switch.0 as usize] == owner => followers[switch.0 as usize].push(adapter),
                _ if self.is_free(adapter) => alone.push(adapter),
                _ => {}
            }
        }
        for switch in task.switches() {
            let followers = std::mem::take(&mut followers[switch.0 as usize]);
            // An adapter that is kept keeps its switch.
            let all_free = followers.iter().all(|adapter| self.is_free(*adapter));
            if let Some((owner, may)) = self.owner_of_free(switch).filter(|_| all_free) {
                self.add_unit(switch, followers, owner, may);
            }
        }
        for adapter in alone {
            if let Some(owner) = self.owners[adapter.0 as usize] {
                self.add_unit(adapter, Vec::new(), owner, May::Anywhere);
            }
        }
    }

    fn add_unit(&mut self, id: DeviceId, followers: Vec<DeviceId>, owner: usize, may: May) {
        let task = self.task;
        let ports = followers.iter().map(|adapter| task.port_count(*adapter)).sum::<u32>();
        let cost = followers.iter().map(|adapter| task.cost(*adapter)).sum::<u64>();
        let hangs = |adapter: &DeviceId| task.own(*adapter).is_none() && task.graph.neighbours(*adapter).len() == 1;
        let hanging = followers.iter().all(hangs).then_some(ports);
        let (ports, cost) = (ports + task.port_count(id), cost + task.cost(id));
        self.of[owner].push(self.units.len());
        self.units.push(Unit { id, followers, owner, ports, cost, hanging, may });
    }

    fn return_to(&mut self, before: &Owners) {
        let was = |search: &Self, unit: usize| before[search.units[unit].id.0 as usize];
        let mut done = false;
        while !std::mem::replace(&mut done, true) {
            for unit in 0..self.units.len() {
                let Some(to) = was(self, unit).filter(|to| *to != self.units[unit].owner && self.places(unit).any(|place| place == *to))
                else {
                    continue;
                };
                let from = self.units[unit].owner;
                let settled = |other: usize| was(self, other) == Some(to);
                let returns = |other: usize| was(self, other) == Some(from);
                let change = match self.load[to] + self.units[unit].ports <= self.task.cap {
                    true => Some(Change::Move { unit, to }),
                    false => {
                        let others = self.of[to].iter().copied().filter(|other| !settled(*other) && self.may_change(unit, *other));
                        others.min_by_key(|other| (!returns(*other), *other)).map(|other| Change::Swap { unit, other })
                    }
                };
                if let Some(change) = change {
                    self.apply(change);
                    done = false;
                }
            }
        }
    }

    /// The second step.
    fn level(&mut self) {
        let mut steps = STEPS * self.load.len();
        let bound = self.task.lower_bound(self.task.strays(&self.owners).next().is_none());
        while let Some(level) = self.greatest().filter(|level| *level > bound) {
            let mut undo = Vec::new();
            let done = loop {
                let highest = (0..self.cost.len()).find(|sampler| self.cost[*sampler] >= level && self.takes_part(*sampler));
                let Some(sampler) = highest else { break true };
                let Some(change) = self.relief(sampler, level).filter(|_| steps > 0) else { break false };
                steps -= 1;
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

    /// The greatest load of a sampler.
    fn greatest(&self) -> Option<u64> {
        (0..self.cost.len()).filter(|sampler| self.takes_part(*sampler)).map(|sampler| self.cost[sampler]).max()
    }

    /// Not if it has a switch that is larger than the cap, and nothing else.
    fn takes_part(&self, sampler: usize) -> bool {
        self.load[sampler] <= self.task.cap
    }

    /// What brings a sampler below a level and nobody to it: the most even first, then the shorter ways.
    fn relief(&self, from: usize, level: u64) -> Option<Change> {
        let mut best = Best::default();
        for &unit in self.of[from].iter().filter(|unit| self.units[**unit].cost > 0) {
            let Unit { ports, cost, .. } = self.units[unit];
            for to in self.places(unit) {
                let (here, there) = (self.cost[from] - cost, self.cost[to] + cost);
                if there < level && self.load[to] + ports <= self.task.cap {
                    best.offer(here.max(there), || self.longer(unit, to), Change::Move { unit, to });
                }
                for &other in self.of[to].iter().filter(|other| self.units[**other].cost < cost) {
                    let (here, there) = self.costs_after(unit, other);
                    if here.max(there) < level && self.may_change(unit, other) {
                        best.offer(here.max(there), || self.longer(unit, to) + self.longer(other, from), Change::Swap { unit, other });
                    }
                }
            }
        }
        best.change
    }

    /// The third step.
    fn shorten(&mut self) {
        let Some(level) = self.greatest() else { return };
        for _ in 0..ROUNDS {
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

    /// The change of a unit that shortens the ways most.
    fn nearer(&self, unit: usize, level: u64) -> Option<Change> {
        let Unit { owner: from, ports, cost, .. } = self.units[unit];
        let mut best = (0, None);
        for to in self.places(unit) {
            // Of two that change places one at least gets nearer.
            let longer = self.longer(unit, to);
            if longer >= 0 {
                continue;
            }
            if longer < best.0 && self.load[to] + ports <= self.task.cap && self.cost[to] + cost <= level {
                best = (longer, Some(Change::Move { unit, to }));
            }
            for &other in &self.of[to] {
                let (here, there) = self.costs_after(unit, other);
                if here.max(there) <= level && self.may_change(unit, other) {
                    let longer = longer + self.longer(other, from);
                    if longer < best.0 {
                        best = (longer, Some(Change::Swap { unit, other }));
                    }
                }
            }
        }
        best.1
    }

    /// Samplers that a unit may go to.
    fn places(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        let Unit { id, owner, may, .. } = self.units[unit];
        (0..self.load.len()).filter(move |to| *to != owner && self.may_go(id, may, *to))
    }

    fn may_go(&self, device: DeviceId, may: May, to: usize) -> bool {
        let is_allowed = may == May::Anywhere || self.task.attached(device).any(|sampler| sampler == to);
        is_allowed && self.takes_part(to) && self.task.hops(to, device) != UNREACHABLE
    }

    /// Whether two units of two samplers may change places and find room there; the first may, that is known.
    fn may_change(&self, unit: usize, other: usize) -> bool {
        let (one, two) = (&self.units[unit], &self.units[other]);
        let fits = |sampler: usize, goes: u32, comes: u32| self.load[sampler] - goes + comes <= self.task.cap;
        fits(one.owner, one.ports, two.ports) && fits(two.owner, two.ports, one.ports) && self.may_go(two.id, two.may, one.owner)
    }

    /// What their samplers would cost then.
    fn costs_after(&self, unit: usize, other: usize) -> (u64, u64) {
        let (one, two) = (&self.units[unit], &self.units[other]);
        (self.cost[one.owner] - one.cost + two.cost, self.cost[two.owner] - two.cost + one.cost)
    }

    /// By how much the ways get longer, by ports, when a unit goes there; negative if shorter.
    fn longer(&self, unit: usize, to: usize) -> i64 {
        self.ways(unit, to) - self.ways(unit, self.units[unit].owner)
    }

    fn ways(&self, unit: usize, sampler: usize) -> i64 {
        let Unit { id, ref followers, hanging, .. } = self.units[unit];
        let hops = self.task.hops(sampler, id);
        let own = i64::from(self.task.port_count(id)) * i64::from(hops);
        own + match hanging {
            Some(ports) => i64::from(ports) * i64::from(hops.saturating_add(1)),
            None => followers.iter().map(|id| i64::from(self.task.port_count(*id)) * i64::from(self.task.hops(sampler, *id))).sum(),
        }
    }

    /// Makes a change, and says what undoes it.
    fn apply(&mut self, change: Change) -> Change {
        match change {
            Change::Move { unit, to } => {
                let back = self.units[unit].owner;
                self.go(unit, to);
                Change::Move { unit, to: back }
            }
            Change::Swap { unit, other } => {
                let (from, to) = (self.units[unit].owner, self.units[other].owner);
                self.go(unit, to);
                self.go(other, from);
                change
            }
        }
    }

    fn go(&mut self, unit: usize, to: usize) {
        let from = std::mem::replace(&mut self.units[unit].owner, to);
        let followers = std::mem::take(&mut self.units[unit].followers);
        followers.iter().chain([&self.units[unit].id]).copied().collect::<Vec<_>>().into_iter().for_each(|id| self.hand_over(id, to));
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

/// The best change so far: of the most even ones that with the shortest ways, of those the first.
#[derive(Default)]
struct Best {
    key: Option<(u64, i64)>,
    change: Option<Change>,
}

impl Best {
    /// Ways are looked at only where they decide.
    fn offer(&mut self, cost: u64, longer: impl FnOnce() -> i64, change: Change) {
        if self.key.is_none_or(|(least, _)| cost <= least) {
            let key = (cost, longer());
            if self.key.is_none_or(|least| key < least) {
                (self.key, self.change) = (Some(key), Some(change));
            }
        }
    }
}
