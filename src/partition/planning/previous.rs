//! A plan that stays as it was, but for what must change: whoever draws lines over weeks wants a port to be with the same sampler.
//!
//! Everything stays with its sampler, but:
//!
//! - what was with a host that is no sampler any more;
//! - the adapters of a new sampler, and of the switches that it hangs on as many as it has room for, with their adapters: those are its own;
//! - what a sampler has above the cap, since links were added: first adapters that are not with their switch, then the smallest switch that is enough, last
//!   what is its own.
//!
//! What is free then, and what is new, goes by the rules, and is all that the search may move. Where that leads to no plan, only what is a sampler's own
//! stays at first, or nothing; then devices go back to where they were as far as they can.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::task::{Owners, Task};
use super::{Share, proof};
use crate::topology::{DeviceId, Fabric};
use crate::types::{Guid, PortNum};

/// Who sampled what.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Previous {
    /// The host and the device's name, by port: of the first role.
    pub primary: Ports,
    /// Of the second one; empty if there was none.
    pub secondary: Ports,
}

/// The sampler's host and the device's name, by port.
pub type Ports = BTreeMap<(Guid, PortNum), (String, String)>;

/// What is no more as it was.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Changes {
    /// Whether what could stay left no room for the rest, so that more had to move.
    pub anew: bool,
    /// Samplers that were not there before.
    pub new_samplers: Vec<String>,
    /// Samplers that are not there any more.
    pub gone_samplers: Vec<String>,
    /// Ports that were in no plan before, by device.
    pub new_ports: Vec<Ported>,
    /// Ports that are in no plan any more, by device.
    pub gone_ports: Vec<Ported>,
    /// Devices that went to another sampler.
    pub moved: Vec<Moved>,
    /// Devices whose second sampler is another one.
    pub moved_secondary: Vec<Moved>,
    /// Ports that are where they were, in the first role.
    #[serde(rename = "kept_ports")]
    pub kept: u32,
}

/// A device and some of its ports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Ported {
    /// The device.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: String,
    /// The ports.
    pub ports: Vec<PortNum>,
}

/// A device that went to another sampler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Moved {
    /// The device.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: String,
    /// Its ports that were sampled before.
    pub ports: u32,
    /// Whose it was.
    pub from: String,
    /// Whose it is now.
    pub to: String,
}

/// The sampler that each device had, as far as it is a sampler still.
pub(super) fn owners(task: &Task<'_>, ports: &Ports) -> Owners {
    let samplers: BTreeMap<&str, usize> = task.samplers.iter().enumerate().map(|(index, host)| (&*host.name, index)).collect();
    let of = |device: DeviceId| {
        let sampled = task.fabric.device(device);
        let host = sampled.linked().find_map(|(port, _)| ports.get(&(sampled.guid, port.num))).filter(|_| task.port_count(device) > 0);
        host.and_then(|(host, _)| samplers.get(host.as_str()).copied())
    };
    task.ids().map(of).collect()
}

/// What of it may stay.
pub(super) fn kept(task: &Task<'_>, ports: &Ports) -> Owners {
    let mut keeping = Keeping { task, owners: owners(task, ports), load: vec![0; task.samplers.len()] };
    keeping.task.ids().zip(&keeping.owners).for_each(|(device, owner)| {
        if let Some(sampler) = owner {
            keeping.load[*sampler] += task.port_count(device);
        }
    });
    let hosts: BTreeSet<&str> = ports.values().map(|(host, _)| &**host).collect();
    for (sampler, host) in task.samplers.iter().enumerate().filter(|(_, host)| !hosts.contains(&*host.name)) {
        host.own.iter().for_each(|adapter| keeping.claim(sampler, &[*adapter]));
    }
    for switch in task.switches() {
        keeping.claim_switch(switch, &hosts);
    }
    for sampler in 0..task.samplers.len() {
        keeping.relieve(sampler);
    }
    keeping.owners
}

/// Of what may stay the samplers' own adapters, and the switches that they hang on with their adapters.
pub(super) fn own_only(task: &Task<'_>, kept: &Owners) -> Owners {
    let is_own = |device: DeviceId, sampler: usize| {
        let switch = task.switch_of(device).unwrap_or(device);
        task.own(device) == Some(sampler) || kept[switch.0 as usize] == Some(sampler) && task.attached(switch).any(|at| at == sampler)
    };
    task.ids().zip(kept).map(|(device, owner)| owner.filter(|sampler| is_own(device, *sampler))).collect()
}

struct Keeping<'a> {
    task: &'a Task<'a>,
    owners: Owners,
    load: Vec<u32>,
}

impl Keeping<'_> {
    /// A new sampler takes what is its own, if it has room.
    fn claim(&mut self, sampler: usize, devices: &[DeviceId]) {
        let ports: u32 = devices.iter().map(|device| self.task.port_count(*device)).sum();
        if ports > 0 && self.load[sampler] + ports <= self.task.cap {
            devices.iter().for_each(|device| self.give(*device, Some(sampler)));
        }
    }

    /// A switch with no old sampler on it goes to a new one.
    fn claim_switch(&mut self, switch: DeviceId, old: &BTreeSet<&str>) {
        let task = self.task;
        let is_old = |sampler: usize| old.contains(&*task.samplers[sampler].name);
        let with_owner = self.followers(switch);
        let of_new = task.attached(switch).filter(|sampler| !is_old(*sampler)).min_by_key(|sampler| self.load[*sampler]);
        if let Some(sampler) = of_new.filter(|_| !task.attached(switch).any(is_old)) {
            let whole = [&[switch], &with_owner[..]].concat();
            self.claim(sampler, &whole);
        }
    }

    /// Gives up what is too much.
    fn relieve(&mut self, sampler: usize) {
        let task = self.task;
        let mut held: Vec<_> = task.ids().filter(|id| self.owners[id.0 as usize] == Some(sampler)).collect();
        let is_alone = matches!(held[..], [only] if task.is_switch(only));
        if self.load[sampler] <= task.cap || is_alone {
            return;
        }
        // A switch that outgrew the cap needs a sampler to itself.
        for switch in held.iter().copied().filter(|id| task.port_count(*id) > task.cap) {
            self.give(switch, None);
        }
        let strays: BTreeSet<_> = task.strays(&self.owners).collect();
        for adapter in held.iter().copied().filter(|id| strays.contains(id)) {
            if self.load[sampler] > task.cap {
                self.give(adapter, None);
            }
        }
        held.retain(|id| task.is_switch(*id) && self.owners[id.0 as usize] == Some(sampler));
        for own in [false, true] {
            let mut units: Vec<_> = held.iter().filter(|switch| task.attached(**switch).any(|other| other == sampler) == own).collect();
            while self.load[sampler] > task.cap && !units.is_empty() {
                let excess = self.load[sampler] - task.cap;
                let size = |switch: &DeviceId| {
                    task.port_count(*switch) + self.followers(*switch).iter().map(|id| task.port_count(*id)).sum::<u32>()
                };
                units.sort_by_key(|switch| (size(switch) < excess, size(switch).abs_diff(excess), **switch));
                let switch = *units.remove(0);
                let followers = self.followers(switch);
                // Of its own switch, adapters go first.
                if own && followers.iter().map(|id| task.port_count(*id)).sum::<u32>() >= excess {
                    followers.into_iter().rev().for_each(|adapter| {
                        if self.load[sampler] > task.cap {
                            self.give(adapter, None);
                        }
                    });
                } else {
                    followers.into_iter().chain([switch]).for_each(|id| self.give(id, None));
                }
            }
        }
    }

    /// Adapters that are with their switch, but for those of its sampler.
    fn followers(&self, switch: DeviceId) -> Vec<DeviceId> {
        let owner = self.owners[switch.0 as usize];
        let follows = |adapter: &DeviceId| {
            self.task.switch_of(*adapter) == Some(switch)
                && owner.is_some()
                && self.owners[adapter.0 as usize] == owner
                && self.task.own(*adapter) != owner
        };
        self.task.graph.neighbours(switch).iter().copied().filter(follows).collect()
    }

    fn give(&mut self, device: DeviceId, to: Option<usize>) {
        let ports = self.task.port_count(device);
        if let Some(from) = std::mem::replace(&mut self.owners[device.0 as usize], to) {
            self.load[from] -= ports;
        }
        if let Some(to) = to {
            self.load[to] += ports;
        }
    }
}

impl Changes {
    pub(super) fn new(fabric: &Fabric, previous: &Previous, shares: &[Share], secondary: &[Share], anew: bool) -> Self {
        let before: BTreeSet<&str> = previous.primary.values().chain(previous.secondary.values()).map(|(host, _)| &**host).collect();
        let now: BTreeSet<&str> = shares.iter().map(|share| &*share.host.name).collect();
        let names = |names: Vec<&&str>| names.into_iter().map(|name| (*name).to_owned()).collect();
        let sampled: BTreeSet<_> = proof::given(fabric, shares).map(|given| (given.guid, given.port)).collect();
        let name = |guid, port| fabric.find(guid, port).map(|id| &*fabric.device(id).name).unwrap_or_default();
        let new = sampled.iter().filter(|key| !previous.primary.contains_key(key)).map(|(guid, port)| (*guid, *port, name(*guid, *port)));
        let gone =
            previous.primary.iter().filter(|(key, _)| !sampled.contains(key)).map(|((guid, port), (_, name))| (*guid, *port, &**name));
        let moved = moved(fabric, &previous.primary, shares);
        let were = sampled.iter().filter(|key| previous.primary.contains_key(key)).count() as u32;
        Self {
            anew,
            new_samplers: names(now.difference(&before).collect()),
            gone_samplers: names(before.difference(&now).collect()),
            new_ports: by_device(new),
            gone_ports: by_device(gone),
            kept: were - moved.iter().map(|moved| moved.ports).sum::<u32>(),
            moved,
            moved_secondary: self::moved(fabric, &previous.secondary, secondary),
        }
    }
}

fn moved(fabric: &Fabric, before: &Ports, shares: &[Share]) -> Vec<Moved> {
    let mut all = Vec::new();
    for share in shares {
        for device in share.devices.iter().map(|held| fabric.device(held.id)) {
            let were = device.linked().filter_map(|(port, _)| before.get(&(device.guid, port.num))).map(|(host, _)| host);
            let elsewhere: Vec<_> = were.filter(|host| **host != share.host.name).collect();
            if let Some(from) = elsewhere.first() {
                let (name, from, to) = (device.name.clone(), (*from).clone(), share.host.name.clone());
                all.push(Moved { guid: device.guid, name, ports: elsewhere.len() as u32, from, to });
            }
        }
    }
    // The largest first: a switch before the adapters that came with it.
    all.sort_by(|a, b| (b.ports, &a.from, &a.to, a.guid).cmp(&(a.ports, &b.from, &b.to, b.guid)));
    all
}

/// Ports that come in the order of (GUID, port).
fn by_device<'a>(ports: impl Iterator<Item = (Guid, PortNum, &'a str)>) -> Vec<Ported> {
    let mut devices: Vec<Ported> = Vec::new();
    for (guid, port, name) in ports {
        match devices.last_mut() {
            Some(last) if last.guid == guid => last.ports.push(port),
            _ => devices.push(Ported { guid, name: name.to_owned(), ports: vec![port] }),
        }
    }
    devices
}
