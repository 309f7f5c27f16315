//! Keeps as much of the previous plan as possible, because a counter is easier to plot over weeks
//! if its port stays with one sampler.
//!
//! Every device stays with its sampler, except:
//!
//! - devices of hosts that are no longer samplers;
//! - the own devices of a new sampler, as far as its capacity allows. *Own devices* are the HCA
//!   ports of its host, and the switches to which the host is attached, with their HCA ports;
//! - devices of a sampler that now exceeds the cap, because links were added. They leave the
//!   sampler in this order: HCA ports whose switch has another sampler; the smallest switch whose
//!   removal is sufficient; the sampler's own devices.
//!
//! The rules assign the devices that left a sampler and the new ones, and the search moves only
//! these. If no plan is possible in this way, only the own devices of the samplers stay; if that
//! is not possible either, no device stays. In both cases, devices are afterwards moved back to
//! their previous samplers as far as possible.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::{Guid, PortNum};

use super::cables;
use super::changes::{ChangedPorts, Changes, Moved, Previous, PreviousPorts};
use super::plan::Share;
use super::proof;
use super::task::{Owners, Task};
use crate::topology::{DeviceId, Fabric};

/// Returns the previous sampler of each device, if its host is still a sampler.
pub(super) fn owners(task: &Task<'_>, ports: &PreviousPorts) -> Owners {
    let samplers: BTreeMap<&str, usize> = task
        .samplers
        .iter()
        .enumerate()
        .map(|(index, host)| (&*host.name, index))
        .collect();
    let of = |device: DeviceId| {
        let sampled = task.fabric.device(device);
        let host = sampled
            .linked()
            .find_map(|(port, _)| ports.get(&(sampled.guid, port.num)))
            .filter(|_| task.port_count(device) > 0);
        host.and_then(|(host, _)| samplers.get(host.as_str()).copied())
    };
    task.ids().map(of).collect()
}

/// Returns the devices that stay, each with its sampler.
pub(super) fn kept(task: &Task<'_>, ports: &PreviousPorts) -> Owners {
    let mut keeping = Keeping {
        task,
        owners: owners(task, ports),
        load: vec![0; task.samplers.len()],
    };
    keeping
        .task
        .ids()
        .zip(&keeping.owners)
        .for_each(|(device, owner)| {
            if let Some(sampler) = owner {
                keeping.load[*sampler] += task.port_count(device);
            }
        });
    let hosts: BTreeSet<&str> = ports.values().map(|(host, _)| &**host).collect();
    for (sampler, host) in task
        .samplers
        .iter()
        .enumerate()
        .filter(|(_, host)| !hosts.contains(&*host.name))
    {
        host.own
            .iter()
            .for_each(|hca| keeping.claim(sampler, &[*hca]));
    }
    for switch in task.switches() {
        keeping.claim_switch(switch, &hosts);
    }
    for sampler in 0..task.samplers.len() {
        keeping.relieve(sampler);
    }
    keeping.owners
}

/// Returns those devices of `kept` that are the own devices of their sampler: the HCA ports of
/// its host, and the switches to which the host is attached, with their HCA ports.
pub(super) fn own_only(task: &Task<'_>, kept: &Owners) -> Owners {
    let is_own = |device: DeviceId, sampler: usize| {
        let switch = task.switch_of(device).unwrap_or(device);
        task.own(device) == Some(sampler)
            || kept[switch.0 as usize] == Some(sampler)
                && task.attached(switch).any(|at| at == sampler)
    };
    task.ids()
        .zip(kept)
        .map(|(device, owner)| owner.filter(|sampler| is_own(device, *sampler)))
        .collect()
}

struct Keeping<'a> {
    task: &'a Task<'a>,
    owners: Owners,
    load: Vec<u32>,
}

impl Keeping<'_> {
    /// Assigns devices to a sampler if it has enough capacity for all of them.
    fn claim(&mut self, sampler: usize, devices: &[DeviceId]) {
        let ports: u32 = devices
            .iter()
            .map(|device| self.task.port_count(*device))
            .sum();
        if ports > 0 && self.load[sampler] + ports <= self.task.cap {
            devices
                .iter()
                .for_each(|device| self.assign(*device, Some(sampler)));
        }
    }

    /// Assigns a switch to a new sampler that is attached to it, unless a sampler of the previous
    /// plan is attached too.
    fn claim_switch(&mut self, switch: DeviceId, previous: &BTreeSet<&str>) {
        let task = self.task;
        let was_sampler = |sampler: usize| previous.contains(&*task.samplers[sampler].name);
        let with_owner = self.followers(switch);
        let of_new = task
            .attached(switch)
            .filter(|sampler| !was_sampler(*sampler))
            .min_by_key(|sampler| self.load[*sampler]);
        if let Some(sampler) = of_new.filter(|_| !task.attached(switch).any(was_sampler)) {
            let whole = [&[switch], &with_owner[..]].concat();
            self.claim(sampler, &whole);
        }
    }

    /// Takes devices away from a sampler that exceeds the cap.
    fn relieve(&mut self, sampler: usize) {
        let task = self.task;
        let mut held: Vec<_> = task
            .ids()
            .filter(|id| self.owners[id.0 as usize] == Some(sampler))
            .collect();
        let is_alone = matches!(held[..], [only] if task.is_switch(only));
        if self.load[sampler] <= task.cap || is_alone {
            return;
        }
        // A switch with more ports than the cap needs a sampler that has no other device.
        for switch in held
            .iter()
            .copied()
            .filter(|id| task.port_count(*id) > task.cap)
        {
            self.assign(switch, None);
        }
        let separated: BTreeSet<_> = task.separated(&self.owners).collect();
        for hca in held.iter().copied().filter(|id| separated.contains(id)) {
            if self.load[sampler] > task.cap {
                self.assign(hca, None);
            }
        }
        held.retain(|id| task.is_switch(*id) && self.owners[id.0 as usize] == Some(sampler));
        for own in [false, true] {
            let mut units: Vec<_> = held
                .iter()
                .filter(|switch| task.attached(**switch).any(|other| other == sampler) == own)
                .collect();
            while self.load[sampler] > task.cap && !units.is_empty() {
                let excess = self.load[sampler] - task.cap;
                let size = |switch: &DeviceId| {
                    task.port_count(*switch)
                        + self
                            .followers(*switch)
                            .iter()
                            .map(|id| task.port_count(*id))
                            .sum::<u32>()
                };
                units.sort_by_key(|switch| {
                    (
                        size(switch) < excess,
                        size(switch).abs_diff(excess),
                        **switch,
                    )
                });
                let switch = *units.remove(0);
                let followers = self.followers(switch);
                // The HCA ports of the sampler's own switch leave the sampler before the switch
                // itself.
                if own && followers.iter().map(|id| task.port_count(*id)).sum::<u32>() >= excess {
                    followers.into_iter().rev().for_each(|hca| {
                        if self.load[sampler] > task.cap {
                            self.assign(hca, None);
                        }
                    });
                } else {
                    followers
                        .into_iter()
                        .chain([switch])
                        .for_each(|id| self.assign(id, None));
                }
            }
        }
    }

    /// Returns the HCA ports of the switch that have the same sampler as the switch, without
    /// those of the sampler's own host.
    fn followers(&self, switch: DeviceId) -> Vec<DeviceId> {
        let owner = self.owners[switch.0 as usize];
        let follows = |hca: &DeviceId| {
            self.task.switch_of(*hca) == Some(switch)
                && owner.is_some()
                && self.owners[hca.0 as usize] == owner
                && self.task.own(*hca) != owner
        };
        self.task
            .graph
            .neighbours(switch)
            .iter()
            .copied()
            .filter(follows)
            .collect()
    }

    fn assign(&mut self, device: DeviceId, to: Option<usize>) {
        let ports = self.task.port_count(device);
        if let Some(from) = std::mem::replace(&mut self.owners[device.0 as usize], to) {
            self.load[from] -= ports;
        }
        if let Some(to) = to {
            self.load[to] += ports;
        }
    }
}

/// Returns the differences between the previous plan and the new one.
pub(super) fn changes(
    fabric: &Fabric,
    previous: &Previous,
    shares: &[Share],
    secondary: &[Share],
    moved_more: bool,
) -> Changes {
    let before: BTreeSet<&str> = previous
        .primary
        .values()
        .chain(previous.secondary.values())
        .map(|(host, _)| &**host)
        .collect();
    let now: BTreeSet<&str> = shares.iter().map(|share| &*share.host.name).collect();
    let names = |names: Vec<&&str>| names.into_iter().map(|name| (*name).to_owned()).collect();
    let sampled: BTreeSet<_> = proof::port_assignments(fabric, shares)
        .map(|assigned| (assigned.guid, assigned.port))
        .collect();
    let name = |guid, port| {
        fabric
            .find(guid, port)
            .map(|id| &*fabric.device(id).name)
            .unwrap_or_default()
    };
    let new = sampled
        .iter()
        .filter(|key| !previous.primary.contains_key(key))
        .map(|(guid, port)| (*guid, *port, name(*guid, *port)));
    let gone = previous
        .primary
        .iter()
        .filter(|(key, _)| !sampled.contains(key));
    let gone = gone.map(|((guid, port), (_, name))| (*guid, *port, &**name));
    let moved = moved_devices(fabric, &previous.primary, shares);
    let in_both = sampled
        .iter()
        .filter(|key| previous.primary.contains_key(key))
        .count() as u32;
    Changes {
        moved_more,
        new_samplers: names(now.difference(&before).collect()),
        gone_samplers: names(before.difference(&now).collect()),
        new_ports: by_device(new),
        gone_ports: by_device(gone),
        topology: cables::changes(
            fabric,
            &previous.cables,
            shares
                .iter()
                .flat_map(|share| &share.devices)
                .map(|planned| planned.id),
        ),
        kept: in_both - moved.iter().map(|moved| moved.ports).sum::<u32>(),
        moved,
        moved_secondary: moved_devices(fabric, &previous.secondary, secondary),
    }
}

fn moved_devices(fabric: &Fabric, before: &PreviousPorts, shares: &[Share]) -> Vec<Moved> {
    let mut all = Vec::new();
    for share in shares {
        for device in share
            .devices
            .iter()
            .map(|planned| fabric.device(planned.id))
        {
            let previous = device
                .linked()
                .filter_map(|(port, _)| before.get(&(device.guid, port.num)))
                .map(|(host, _)| host);
            let others: Vec<_> = previous.filter(|host| **host != share.host.name).collect();
            if let Some(from) = others.first() {
                let (name, from, to) = (
                    device.name.clone(),
                    (*from).clone(),
                    share.host.name.clone(),
                );
                all.push(Moved {
                    guid: device.guid,
                    name,
                    ports: others.len() as u32,
                    from,
                    to,
                });
            }
        }
    }
    // Devices with the most ports come first, so a switch precedes the HCA ports that moved with
    // it.
    all.sort_by(|a, b| (b.ports, &a.from, &a.to, a.guid).cmp(&(a.ports, &b.from, &b.to, b.guid)));
    all
}

/// Groups ports by device. The ports must be sorted by GUID and number.
fn by_device<'a>(ports: impl Iterator<Item = (Guid, PortNum, &'a str)>) -> Vec<ChangedPorts> {
    let mut devices: Vec<ChangedPorts> = Vec::new();
    for (guid, port, name) in ports {
        match devices.last_mut() {
            Some(last) if last.guid == guid => last.ports.push(port),
            _ => devices.push(ChangedPorts {
                guid,
                name: name.to_owned(),
                ports: vec![port],
            }),
        }
    }
    devices
}
