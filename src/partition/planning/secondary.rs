//! Finds a second sampler for each port on a host at another leaf switch, so that every port
//! still has a sampler if one sampler or its leaf switch fails.
//!
//! In most plans each sampler is the second sampler for all ports of exactly one other sampler.
//! Such pairs need no further checks, because the ports of the first sampler are within the cap,
//! and no switch is split. The pairs are chosen to keep the previous second sampler of as many
//! ports as possible, and then to have few hops. If more than half of the samplers are on one
//! leaf switch, such pairs do not exist; devices are then assigned one by one to the permitted
//! sampler with the smallest load.
//!
//! The two samplers of a port must be on hosts that are *apart*, which means that no switch is
//! connected to both. On a machine with many rails, a host may share a leaf switch with every other
//! host. It is then sufficient that the failure of one switch does not disconnect both samplers.

use std::collections::{BTreeSet, VecDeque};

use rayon::prelude::*;

use super::task::{Owners, Task};
use crate::topology::DeviceId;

/// Max number of passes over all pairs that try to improve them by exchanges.
const MAX_PASSES: usize = 16;

/// A primary sampler for whose ports there is no second sampler.
pub(super) struct Unpaired {
    /// Index of the primary sampler.
    pub(super) sampler: usize,
    /// Number of samplers on other leaf switches, whether they have capacity or not.
    pub(super) permitted: usize,
    /// Lower bound of the number of missing samplers on other leaf switches.
    pub(super) missing: usize,
}

/// Returns the second sampler of each device, from the first samplers and the previous second ones.
pub(super) fn second(
    task: &Task<'_>,
    owners: &Owners,
    before: &Owners,
) -> Result<Owners, Unpaired> {
    let permitted = Permitted::new(task);
    let samplers = task.samplers.len();
    let without_any = (0..samplers)
        .find(|sampler| owners.contains(&Some(*sampler)) && permitted.count(*sampler) == 0);
    if let Some(sampler) = without_any {
        return Err(permitted.unpaired(task, owners, sampler));
    }
    match Pairing::new(task, &permitted, owners, before).found() {
        Some(second_of) => Ok(owners
            .iter()
            .map(|owner| owner.map(|first| second_of[first]))
            .collect()),
        None => one_by_one(task, &permitted, owners, before),
    }
}

/// Returns whether two samplers are attached to the same leaf switch.
pub(super) fn share_a_leaf(task: &Task<'_>, one: usize, two: usize) -> bool {
    let leaves = [one, two].map(|sampler| leaves(task, sampler));
    leaves[0].intersection(&leaves[1]).next().is_some()
}

fn leaves(task: &Task<'_>, sampler: usize) -> BTreeSet<DeviceId> {
    task.samplers[sampler]
        .sending
        .iter()
        .filter_map(|port| task.switch_of(*port))
        .collect()
}

/// Which pairs of first and second sampler are permitted.
struct Permitted {
    /// `[first][second]`
    table: Vec<Vec<bool>>,
}

impl Permitted {
    fn new(task: &Task<'_>) -> Self {
        let all: Vec<_> = (0..task.samplers.len())
            .map(|sampler| leaves(task, sampler))
            .collect();
        let row = |one: usize| -> Vec<bool> {
            let apart = |two: usize| one != two && all[one].is_disjoint(&all[two]);
            let not_cut_off =
                |two: usize| one != two && !(all[one].len() == 1 && all[one] == all[two]);
            let row: Vec<_> = (0..all.len()).map(apart).collect();
            if row.contains(&true) {
                row
            } else {
                (0..all.len()).map(not_cut_off).collect()
            }
        };
        Self {
            table: (0..all.len()).map(row).collect(),
        }
    }

    fn allows(&self, first: usize, second: usize) -> bool {
        self.table[first][second]
    }

    fn count(&self, first: usize) -> usize {
        self.table[first].iter().filter(|allowed| **allowed).count()
    }

    /// Returns the error for a sampler. All samplers on its leaf switch compete for the same
    /// permitted second samplers, so their ports are counted together.
    fn unpaired(&self, task: &Task<'_>, owners: &Owners, sampler: usize) -> Unpaired {
        let permitted = self.count(sampler);
        let beside = task
            .ids()
            .zip(owners)
            .filter(|(_, owner)| owner.is_some_and(|owner| !self.table[sampler][owner]));
        let ports: u64 = beside
            .map(|(device, _)| u64::from(task.port_count(device)))
            .sum();
        let cap = u64::from(task.cap);
        let missing = ports
            .saturating_sub(permitted as u64 * cap)
            .div_ceil(cap)
            .max(1);
        Unpaired {
            sampler,
            permitted,
            missing: missing as usize,
        }
    }
}

/// Price of a pair: the number of ports that would change their second sampler, and then the sum
/// of the hops of all ports.
type Price = (u64, u64);

/// A pairing of all samplers: each one has one second sampler, and is the second sampler of one
/// other sampler.
struct Pairing<'a> {
    permitted: &'a Permitted,
    /// `[first][second]`
    prices: Vec<Vec<Price>>,
    /// Second sampler, by first sampler.
    second_of: Vec<Option<usize>>,
    /// First sampler, by second sampler.
    first_of: Vec<Option<usize>>,
}

impl<'a> Pairing<'a> {
    fn new(task: &Task<'_>, permitted: &'a Permitted, owners: &Owners, before: &Owners) -> Self {
        let samplers = task.samplers.len();
        let mut held = vec![Vec::new(); samplers];
        for (device, sampler) in task
            .ids()
            .zip(owners)
            .filter_map(|(device, owner)| owner.map(|owner| (device, owner)))
        {
            held[sampler].push(device);
        }
        let price = |devices: &[DeviceId], second: usize| {
            devices.iter().fold((0, 0), |(changed, hops), device| {
                let ports = u64::from(task.port_count(*device));
                let changes = before[device.0 as usize].is_some_and(|before| before != second);
                (
                    changed + if changes { ports } else { 0 },
                    hops + ports * u64::from(task.hops(second, *device)),
                )
            })
        };
        let row =
            |devices: &Vec<DeviceId>| (0..samplers).map(|second| price(devices, second)).collect();
        let prices = held.par_iter().map(row).collect();
        Self {
            permitted,
            prices,
            second_of: vec![None; samplers],
            first_of: vec![None; samplers],
        }
    }

    /// Returns the second sampler of each sampler, or `None` if no pairing exists.
    fn found(mut self) -> Option<Vec<usize>> {
        for first in 0..self.second_of.len() {
            let free = (0..self.second_of.len()).filter(|second| {
                self.first_of[*second].is_none() && self.permitted.allows(first, *second)
            });
            match free.min_by_key(|second| self.prices[first][*second]) {
                Some(second) => self.pair(first, second),
                None => self.augment(first)?,
            }
        }
        self.improve();
        self.second_of.into_iter().collect()
    }

    fn pair(&mut self, first: usize, second: usize) {
        self.second_of[first] = Some(second);
        self.first_of[second] = Some(first);
    }

    /// Changes other pairs along an augmenting path, until a second sampler is free for `first`.
    /// The search is breadth first, so the fewest pairs change.
    fn augment(&mut self, first: usize) -> Option<()> {
        let mut came_from = vec![None; self.second_of.len()];
        let mut queue = VecDeque::from([first]);
        while let Some(one) = queue.pop_front() {
            for second in
                (0..self.second_of.len()).filter(|second| self.permitted.allows(one, *second))
            {
                if came_from[second].is_some() {
                    continue;
                }
                came_from[second] = Some(one);
                match self.first_of[second] {
                    Some(next) => queue.push_back(next),
                    None => {
                        let mut free = second;
                        loop {
                            let one = came_from[free]?;
                            let given_up = self.second_of[one];
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

    /// Exchanges the second samplers of two pairs whenever this lowers the price.
    fn improve(&mut self) {
        for _ in 0..MAX_PASSES {
            let mut done = true;
            for one in 0..self.second_of.len() {
                for two in one + 1..self.second_of.len() {
                    let (Some(first), Some(second)) = (self.second_of[one], self.second_of[two])
                    else {
                        continue;
                    };
                    let sum = |a: Price, b: Price| (a.0 + b.0, a.1 + b.1);
                    let now = sum(self.prices[one][first], self.prices[two][second]);
                    let then = sum(self.prices[one][second], self.prices[two][first]);
                    if then < now
                        && self.permitted.allows(one, second)
                        && self.permitted.allows(two, first)
                    {
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

/// Assigns second samplers device by device. A switch goes to the permitted sampler with enough
/// capacity and the smallest load; an HCA port goes to the second sampler of its switch or,
/// failing that, to the nearest permitted sampler.
fn one_by_one(
    task: &Task<'_>,
    permitted: &Permitted,
    owners: &Owners,
    before: &Owners,
) -> Result<Owners, Unpaired> {
    let mut seconds: Owners = vec![None; task.devices()];
    let mut load = vec![0_u32; task.samplers.len()];
    let mut switches: Vec<_> = task.switches().collect();
    switches.sort_by_key(|switch| (std::cmp::Reverse(task.weight(*switch)), *switch));
    for device in switches.into_iter().chain(task.hcas()) {
        let Some(first) = owners[device.0 as usize] else {
            continue;
        };
        let ports = task.port_count(device);
        let has_room = |second: &usize| {
            load[*second] + ports <= task.cap || ports > task.cap && load[*second] == 0
        };
        let with_switch = task
            .switch_of(device)
            .and_then(|switch| seconds[switch.0 as usize]);
        let key = |second: &usize| {
            let (load, hops) = (load[*second], u32::from(task.hops(*second, device)));
            let order = if task.is_switch(device) {
                (load, hops)
            } else {
                (hops, load)
            };
            let leaves_switch = with_switch.is_some_and(|with| with != *second);
            (
                leaves_switch,
                before[device.0 as usize].is_some_and(|before| before != *second),
                order,
                *second,
            )
        };
        let second = (0..load.len())
            .filter(|second| permitted.allows(first, *second))
            .filter(has_room)
            .min_by_key(key);
        let second = second.ok_or_else(|| permitted.unpaired(task, owners, first))?;
        load[second] += ports;
        seconds[device.0 as usize] = Some(second);
    }
    Ok(seconds)
}
