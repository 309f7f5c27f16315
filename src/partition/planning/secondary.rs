//! A second sampler for each port, on a host of another leaf switch: so the loss of one sampler, or of the leaf that it hangs on, blinds nobody.
//!
//! Mostly a sampler stands in for one other, with all of its ports: then the cap holds and no switch is split, because both are true of the first role. Who
//! stands in for whom is chosen so that as few as possible change that were so before, then so that ways are short. Where no such pairing exists (if more
//! than half of the samplers hang on one leaf) devices are given one by one, to the permitted sampler that has least.
//!
//! Two hosts are apart if no switch has both. Hosts with many rails may share all of their leaves with all others: then it is enough that no single switch
//! cuts off both.

use std::collections::{BTreeSet, VecDeque};

use rayon::prelude::*;

use super::task::{Owners, Task};
use crate::topology::DeviceId;

/// How often pairs are looked through for a better exchange, at most.
const ROUNDS: usize = 16;

/// A port's first sampler whose ports find no second one.
pub(super) struct Alone {
    pub(super) sampler: usize,
    /// How many samplers could stand in for it, if they had room.
    pub(super) permitted: usize,
    /// How many more there would have to be, at least.
    pub(super) missing: usize,
}

/// The second sampler of each device, given the first and the second that it had before.
pub(super) fn second(task: &Task<'_>, owners: &Owners, before: &Owners) -> Result<Owners, Alone> {
    let permitted = Permitted::new(task);
    let samplers = task.samplers.len();
    let lonely = (0..samplers).find(|sampler| owners.contains(&Some(*sampler)) && permitted.count(*sampler) == 0);
    if let Some(sampler) = lonely {
        return Err(permitted.alone(task, owners, sampler));
    }
    match Pairing::new(task, &permitted, owners, before).found() {
        Some(of) => Ok(owners.iter().map(|owner| owner.map(|first| of[first])).collect()),
        None => one_by_one(task, &permitted, owners, before),
    }
}

/// Whether two samplers hang on a switch that both have.
pub(super) fn share_a_leaf(task: &Task<'_>, one: usize, two: usize) -> bool {
    let leaves = [one, two].map(|sampler| leaves(task, sampler));
    leaves[0].intersection(&leaves[1]).next().is_some()
}

fn leaves(task: &Task<'_>, sampler: usize) -> BTreeSet<DeviceId> {
    task.samplers[sampler].at.iter().filter_map(|port| task.switch_of(*port)).collect()
}

/// Who may stand in for whom.
struct Permitted {
    /// [first][second]
    table: Vec<Vec<bool>>,
}

impl Permitted {
    fn new(task: &Task<'_>) -> Self {
        let all: Vec<_> = (0..task.samplers.len()).map(|sampler| leaves(task, sampler)).collect();
        let row = |one: usize| -> Vec<bool> {
            let apart = |two: usize| one != two && all[one].is_disjoint(&all[two]);
            let not_cut_off = |two: usize| one != two && !(all[one].len() == 1 && all[one] == all[two]);
            let row: Vec<_> = (0..all.len()).map(apart).collect();
            if row.contains(&true) { row } else { (0..all.len()).map(not_cut_off).collect() }
        };
        Self { table: (0..all.len()).map(row).collect() }
    }

    fn may(&self, first: usize, second: usize) -> bool {
        self.table[first][second]
    }

    fn count(&self, first: usize) -> usize {
        self.table[first].iter().filter(|may| **may).count()
    }

    /// Whoever hangs on the same leaf has the same few to stand in for all of them.
    fn alone(&self, task: &Task<'_>, owners: &Owners, sampler: usize) -> Alone {
        let permitted = self.count(sampler);
        let beside = task.ids().zip(owners).filter(|(_, owner)| owner.is_some_and(|owner| !self.table[sampler][owner]));
        let ports: u64 = beside.map(|(device, _)| u64::from(task.port_count(device))).sum();
        let cap = u64::from(task.cap);
        let missing = ports.saturating_sub(permitted as u64 * cap).div_ceil(cap).max(1);
        Alone { sampler, permitted, missing: missing as usize }
    }
}

/// Ports that would change their second sampler, then the ways, by ports.
type Price = (u64, u64);

/// Each sampler has one that stands in for it, and stands in for one.
struct Pairing<'a> {
    permitted: &'a Permitted,
    /// [first][second]
    prices: Vec<Vec<Price>>,
    /// Of each: who stands in for it, and whom it stands in for.
    of: Vec<Option<usize>>,
    by: Vec<Option<usize>>,
}

impl<'a> Pairing<'a> {
    fn new(task: &Task<'_>, permitted: &'a Permitted, owners: &Owners, before: &Owners) -> Self {
        let samplers = task.samplers.len();
        let mut held = vec![Vec::new(); samplers];
        for (device, sampler) in task.ids().zip(owners).filter_map(|(device, owner)| owner.map(|owner| (device, owner))) {
            held[sampler].push(device);
        }
        let price = |devices: &[DeviceId], second: usize| {
            devices.iter().fold((0, 0), |(changed, ways), device| {
                let ports = u64::from(task.port_count(*device));
                let changes = before[device.0 as usize].is_some_and(|before| before != second);
                (changed + if changes { ports } else { 0 }, ways + ports * u64::from(task.hops(second, *device)))
            })
        };
        let row = |devices: &Vec<DeviceId>| (0..samplers).map(|second| price(devices, second)).collect();
        Self { permitted, prices: held.par_iter().map(row).collect(), of: vec![None; samplers], by: vec![None; samplers] }
    }

    /// Who stands in for each; `None` if there is no such pairing.
    fn found(mut self) -> Option<Vec<usize>> {
        for first in 0..self.of.len() {
            let free = (0..self.of.len()).filter(|second| self.by[*second].is_none() && self.permitted.may(first, *second));
            match free.min_by_key(|second| self.prices[first][*second]) {
                Some(second) => self.pair(first, second),
                None => self.make_room(first)?,
            }
        }
        self.improve();
        self.of.into_iter().collect()
    }

    fn pair(&mut self, first: usize, second: usize) {
        self.of[first] = Some(second);
        self.by[second] = Some(first);
    }

    /// Lets others change until one is free for this one: breadth first, so the fewest change.
    fn make_room(&mut self, first: usize) -> Option<()> {
        let mut came_from = vec![None; self.of.len()];
        let mut queue = VecDeque::from([first]);
        while let Some(one) = queue.pop_front() {
            for second in (0..self.of.len()).filter(|second| self.permitted.may(one, *second)) {
                if came_from[second].is_some() {
                    continue;
                }
                came_from[second] = Some(one);
                match self.by[second] {
                    Some(next) => queue.push_back(next),
                    None => {
                        let mut free = second;
                        loop {
                            let one = came_from[free]?;
                            let given_up = self.of[one];
                            self.pair(one, free);
                            match given_up.filter(|_| one != first) {
                                Some(next) => free = next,
                                None => return Some(()),
                            }
                        }
                    }
                }
            }
        }
        None
    }

    /// Lets two exchange their stand-ins where that is cheaper.
    fn improve(&mut self) {
        for _ in 0..ROUNDS {
            let mut done = true;
            for one in 0..self.of.len() {
                for two in one + 1..self.of.len() {
                    let (Some(first), Some(second)) = (self.of[one], self.of[two]) else { continue };
                    let sum = |a: Price, b: Price| (a.0 + b.0, a.1 + b.1);
                    let now = sum(self.prices[one][first], self.prices[two][second]);
                    let then = sum(self.prices[one][second], self.prices[two][first]);
                    if then < now && self.permitted.may(one, second) && self.permitted.may(two, first) {
                        self.pair(one, second);
                        self.pair(two, first);
                        done = false;
                    }
                }
            }
            if done {
                return;
            }
        }
    }
}

/// Device by device: switches to the permitted sampler that has room and least, adapters with their switch or else to the nearest.
fn one_by_one(task: &Task<'_>, permitted: &Permitted, owners: &Owners, before: &Owners) -> Result<Owners, Alone> {
    let mut seconds: Owners = vec![None; task.devices()];
    let mut load = vec![0_u32; task.samplers.len()];
    let mut switches: Vec<_> = task.switches().collect();
    switches.sort_by_key(|switch| (std::cmp::Reverse(task.weight(*switch)), *switch));
    for device in switches.into_iter().chain(task.adapters()) {
        let Some(first) = owners[device.0 as usize] else { continue };
        let ports = task.port_count(device);
        let room = |second: &usize| load[*second] + ports <= task.cap || ports > task.cap && load[*second] == 0;
        let with = task.switch_of(device).and_then(|switch| seconds[switch.0 as usize]);
        let key = |second: &usize| {
            let (load, hops) = (load[*second], u32::from(task.hops(*second, device)));
            let order = if task.is_switch(device) { (load, hops) } else { (hops, load) };
            (with.is_some_and(|with| with != *second), before[device.0 as usize].is_some_and(|before| before != *second), order, *second)
        };
        let second = (0..load.len()).filter(|second| permitted.may(first, *second)).filter(room).min_by_key(key);
        let second = second.ok_or_else(|| permitted.alone(task, owners, first))?;
        load[second] += ports;
        seconds[device.0 as usize] = Some(second);
    }
    Ok(seconds)
}
