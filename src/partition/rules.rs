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
//! - If a switch is left without room, all starts anew by room alone, and neighbourhood is given up.
//! - A switch that is larger than the cap has a sampler to itself.

use std::cmp::Reverse;

use super::{Host, Reason, distances};
use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph};
use crate::types::NodeKind;

/// The sampler of each device, by index; `None` where nobody samples it.
pub type Owners = Vec<Option<usize>>;

/// All that the rules look at.
pub(super) struct Task<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) graph: Graph,
    pub(super) samplers: &'a [Host],
    pub(super) cap: u32,
    /// [sampler][device]
    hops: Vec<Vec<u16>>,
    tiers: Vec<u16>,
    /// Linked ports that somebody must sample, by device; 0 if the device is left out.
    ports: Vec<u32>,
    /// Samplers that hang on a switch, by device.
    attached: Vec<Vec<usize>>,
}

/// Gives devices by the rules; `None` if a switch found no room.
pub(super) fn by_the_rules(task: &Task<'_>) -> Option<Owners> {
    let in_order = placed(task, |placing| placing.higher_tiers().and_then(|()| placing.switches_left()));
    let best = match in_order {
        Some(placing) if placing.parted() == 0 => Some(placing),
        in_order => {
            let leaves_first = placed(task, |placing| placing.lowest_tiers().and_then(|()| placing.higher_tiers()));
            // Of equals the first, which kept the order.
            in_order.into_iter().chain(leaves_first).min_by_key(Placing::parted)
        }
    };
    best.map(|placing| placing.owners)
}

/// All rules, with the order of the third and the fourth left open.
fn placed<'a>(task: &'a Task<'a>, switches: impl FnOnce(&mut Placing<'a>) -> Option<()>) -> Option<Placing<'a>> {
    let mut placing = Placing::new(task);
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
    expected: Vec<u32>,
    /// Adapters that nobody has yet and that would follow, by device.
    followers: Vec<u32>,
}

impl<'a> Placing<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        let (samplers, devices) = (task.samplers.len(), task.ports.len());
        let zeros = vec![0; samplers];
        Self { task, owners: vec![None; devices], load: zeros.clone(), expected: zeros, followers: vec![0; devices] }
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
                self.followers[switch.0 as usize] += self.task.port_count(adapter);
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
        let tier = |switch: &DeviceId| self.task.tiers[switch.0 as usize];
        let mut higher: Vec<_> = self.open_switches().into_iter().filter(|switch| tier(switch) >= 2).collect();
        higher.sort_by_key(tier);
        self.give_to_least_loaded(higher)
    }

    /// Rule 4 for those that rule 3 leaves.
    fn lowest_tiers(&mut self) -> Option<()> {
        let tier = |switch: &DeviceId| self.task.tiers[switch.0 as usize];
        let lowest = self.open_switches().into_iter().filter(|switch| tier(switch) < 2).collect();
        self.give_to_least_loaded(lowest)
    }

    /// Rule 4.
    fn switches_left(&mut self) -> Option<()> {
        let left = self.open_switches();
        self.give_to_least_loaded(left)
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
        let (ports, followers) = (self.task.port_count(switch), self.followers[switch.0 as usize]);
        let key = |sampler: &usize| {
            let hops = self.task.hops(*sampler, switch);
            (hops == UNREACHABLE, self.expected[*sampler], hops, *sampler)
        };
        let for_both =
            samplers.clone().filter(|sampler| self.expected[*sampler].max(self.load[*sampler]) + ports + followers <= self.task.cap);
        let for_itself = samplers.filter(|sampler| self.has_room(*sampler, ports));
        for_both.min_by_key(key).or_else(|| for_itself.min_by_key(key))
    }

    /// Adapters that are with another sampler than their switch, but for those that are a sampler's own.
    fn parted(&self) -> usize {
        let owner = |device: DeviceId| self.owners[device.0 as usize];
        let is_own = |adapter: DeviceId| owner(adapter).is_some_and(|sampler| self.task.samplers[sampler].own.contains(&adapter));
        let adapters = self.task.fabric.iter().filter(|(_, device)| device.kind == NodeKind::Hca).map(|(id, _)| id);
        let parted = |adapter: &DeviceId| self.task.switch_of(*adapter).and_then(owner).is_some_and(|with| owner(*adapter) != Some(with));
        adapters.filter(|adapter| self.task.port_count(*adapter) > 0).filter(parted).filter(|adapter| !is_own(*adapter)).count()
    }

    fn has_room(&self, sampler: usize, ports: u32) -> bool {
        self.load[sampler] + ports <= self.task.cap
    }

    fn give(&mut self, device: DeviceId, sampler: usize) {
        let ports = self.task.port_count(device);
        self.owners[device.0 as usize] = Some(sampler);
        self.load[sampler] += ports;
        self.expected[sampler] += ports + self.followers[device.0 as usize];
    }

    fn is_open(&self, device: DeviceId) -> bool {
        self.owners[device.0 as usize].is_none() && self.task.port_count(device) > 0
    }

    /// Switches that nobody has yet: the largest with its followers first.
    fn open_switches(&self) -> Vec<DeviceId> {
        let mut open: Vec<_> = self.task.switches().filter(|switch| self.is_open(*switch)).collect();
        open.sort_by_key(|switch| (Reverse(self.task.port_count(*switch) + self.followers[switch.0 as usize]), *switch));
        open
    }

    fn open_adapters(&self) -> Vec<DeviceId> {
        let adapter = |(id, device): (DeviceId, &Device)| (device.kind == NodeKind::Hca && self.is_open(id)).then_some(id);
        self.task.fabric.iter().filter_map(adapter).collect()
    }
}

impl<'a> Task<'a> {
    pub(super) fn new(fabric: &'a Fabric, samplers: &'a [Host], cap: u32) -> Self {
        let graph = Graph::new(fabric);
        let ports = |device: &Device| if Reason::of(fabric, device).is_none() { device.linked_ports() as u32 } else { 0 };
        let mut attached = vec![Vec::new(); fabric.devices().len()];
        for (sampler, host) in samplers.iter().enumerate() {
            for switch in host.at.iter().flat_map(|port| graph.neighbours(*port)) {
                attached[switch.0 as usize].push(sampler);
            }
        }
        attached.iter_mut().for_each(Vec::dedup);
        Self {
            fabric,
            samplers,
            cap,
            hops: distances(&graph, samplers),
            tiers: graph.tiers(fabric),
            ports: fabric.devices().iter().map(ports).collect(),
            attached,
            graph,
        }
    }

    /// Linked ports that somebody must sample.
    pub(super) fn ports(&self) -> u32 {
        self.ports.iter().sum()
    }

    /// Links from a sampler to a device, [`UNREACHABLE`] where no way leads there.
    pub(super) fn hops(&self, sampler: usize, device: DeviceId) -> u16 {
        self.hops[sampler][device.0 as usize]
    }

    /// Samplers that hang on a switch, ascending.
    pub(super) fn attached(&self, switch: DeviceId) -> impl Iterator<Item = usize> + Clone + '_ {
        self.attached[switch.0 as usize].iter().copied()
    }

    /// Switches with hosts that somebody must sample.
    pub(super) fn leaves(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.switches().filter(|switch| self.tiers[switch.0 as usize] == 1)
    }

    /// The ports of a switch and of the adapters on it.
    pub(super) fn weight(&self, switch: DeviceId) -> u32 {
        let adapters = self.graph.neighbours(switch).iter().filter(|id| self.fabric.device(**id).kind == NodeKind::Hca);
        self.port_count(switch) + adapters.map(|adapter| self.port_count(*adapter)).sum::<u32>()
    }

    /// The fewest samplers with which [`room_first`] comes to an end.
    pub(super) fn samplers_needed(&self, cap: u32) -> usize {
        let mut sizes: Vec<_> = self.switches().map(|switch| self.port_count(switch)).collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        let oversized = sizes.partition_point(|size| *size > cap);
        let mut loads: Vec<u32> = Vec::new();
        for size in &sizes[oversized..] {
            match loads.iter_mut().find(|load| **load + size <= cap) {
                Some(load) => *load += size,
                None => loads.push(*size),
            }
        }
        let rest = self.ports() - sizes[..oversized].iter().sum::<u32>();
        oversized + loads.len().max(rest.div_ceil(cap) as usize)
    }

    /// A cap with which that many samplers are enough, the least but for the odd case.
    pub(super) fn cap_needed(&self, samplers: usize) -> u32 {
        let (mut too_low, mut enough) = (self.cap, self.ports());
        while too_low + 1 < enough {
            let middle = too_low + (enough - too_low) / 2;
            if self.samplers_needed(middle) <= samplers { enough = middle } else { too_low = middle }
        }
        enough
    }

    fn port_count(&self, device: DeviceId) -> u32 {
        self.ports[device.0 as usize]
    }

    /// Switches that somebody must sample.
    fn switches(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let switch = |(id, device): (DeviceId, &Device)| (device.kind == NodeKind::Switch && self.port_count(id) > 0).then_some(id);
        self.fabric.iter().filter_map(switch)
    }

    /// The switch that an adapter hangs on.
    fn switch_of(&self, adapter: DeviceId) -> Option<DeviceId> {
        self.graph.neighbours(adapter).iter().copied().find(|id| self.fabric.device(*id).kind == NodeKind::Switch)
    }
}
