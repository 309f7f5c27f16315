//! What the rules, the search and the choice of stand-ins look at: a fabric and its samplers, counted once.

use std::cmp::Reverse;

use super::weights::Weights;
use super::{Host, Reason};
use crate::topology::graph::Distances;
use crate::topology::{Device, DeviceId, Fabric, Graph};
use crate::types::NodeKind;

/// The sampler of each device, by index; `None` where nobody samples it.
pub(crate) type Owners = Vec<Option<usize>>;

pub(crate) struct Task<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) graph: &'a Graph,
    pub(crate) samplers: &'a [Host],
    pub(crate) cap: u32,
    /// Whether the switches form no tiers: more links join two leaves than lead up from one.
    pub(crate) flat: bool,
    distances: Distances<'a>,
    tiers: Vec<u16>,
    /// Linked ports that somebody must sample, by device; 0 if the device is left out.
    ports: Vec<u32>,
    /// What these ports cost: as many as they are, or the nanoseconds that they take.
    costs: Vec<u64>,
    /// Samplers that hang on a switch, by device; ascending.
    attached: Vec<Vec<usize>>,
    /// The switch of an adapter, by device.
    switches: Vec<Option<DeviceId>>,
    /// The sampler that an adapter is an adapter of, by device.
    own: Vec<Option<usize>>,
}

impl<'a> Task<'a> {
    pub(crate) fn new(fabric: &'a Fabric, graph: &'a Graph, samplers: &'a [Host], cap: u32, weights: Option<&Weights>) -> Self {
        let ports = |device: &Device| if Reason::of(fabric, device).is_none() { device.linked_ports() as u32 } else { 0 };
        let ports: Vec<_> = fabric.devices().iter().map(ports).collect();
        let (mut attached, mut own) = (vec![Vec::new(); ports.len()], vec![None; ports.len()]);
        for (sampler, host) in samplers.iter().enumerate() {
            for switch in host.at.iter().flat_map(|port| graph.neighbours(*port)) {
                attached[switch.0 as usize].push(sampler);
            }
            for adapter in &host.own {
                own[adapter.0 as usize].get_or_insert(sampler);
            }
        }
        attached.iter_mut().for_each(Vec::dedup);
        let tiers = graph.tiers(fabric);
        let is_switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let switch_of = |(id, device): (DeviceId, &Device)| match device.kind {
            NodeKind::Switch => None,
            _ => graph.neighbours(id).iter().copied().find(is_switch),
        };
        Self {
            fabric,
            graph,
            samplers,
            cap,
            flat: is_flat(graph, &tiers),
            distances: graph.distances(samplers.iter().map(|host| host.at.iter().copied())),
            tiers,
            costs: weights.map_or_else(|| ports.iter().map(|ports| u64::from(*ports)).collect(), |weights| weights.costs(fabric, &ports)),
            ports,
            attached,
            switches: fabric.iter().map(switch_of).collect(),
            own,
        }
    }

    /// Links from a sampler to a device, [`UNREACHABLE`](crate::topology::graph::UNREACHABLE) where no way leads there.
    pub(crate) fn hops(&self, sampler: usize, device: DeviceId) -> u16 {
        self.distances.hops(sampler, device)
    }

    /// How many devices the fabric has.
    pub(crate) fn devices(&self) -> usize {
        self.ports.len()
    }

    /// All devices.
    pub(crate) fn ids(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.ports.len() as u32).map(DeviceId)
    }

    /// Switches that somebody must sample.
    pub(crate) fn switches(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.of_kind(NodeKind::Switch)
    }

    /// Ports of adapters that somebody must sample.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.of_kind(NodeKind::Hca)
    }

    fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = DeviceId> + '_ {
        self.ids().filter(move |id| self.port_count(*id) > 0 && self.fabric.device(*id).kind == kind)
    }

    /// Whether a device is a switch that somebody must sample.
    pub(crate) fn is_switch(&self, device: DeviceId) -> bool {
        self.port_count(device) > 0 && self.fabric.device(device).kind == NodeKind::Switch
    }

    /// Ports to sample of a device.
    pub(crate) fn port_count(&self, device: DeviceId) -> u32 {
        self.ports[device.0 as usize]
    }

    /// What they cost.
    pub(crate) fn cost(&self, device: DeviceId) -> u64 {
        self.costs[device.0 as usize]
    }

    /// 1 for a leaf switch, more above; 0 where no leaf can be reached.
    pub(crate) fn tier(&self, switch: DeviceId) -> u16 {
        self.tiers[switch.0 as usize]
    }

    /// Samplers that hang on a switch, ascending.
    pub(crate) fn attached(&self, switch: DeviceId) -> impl Iterator<Item = usize> + Clone + '_ {
        self.attached[switch.0 as usize].iter().copied()
    }

    /// The switch that an adapter hangs on.
    pub(crate) fn switch_of(&self, adapter: DeviceId) -> Option<DeviceId> {
        self.switches[adapter.0 as usize]
    }

    /// The sampler that an adapter is an adapter of.
    pub(crate) fn own(&self, adapter: DeviceId) -> Option<usize> {
        self.own[adapter.0 as usize]
    }

    /// Adapters that are with another sampler than their switch, but for those that are a sampler's own and with it.
    pub(crate) fn strays<'o>(&'o self, owners: &'o Owners) -> impl Iterator<Item = DeviceId> + 'o {
        let owner = |device: DeviceId| owners[device.0 as usize];
        let strayed = move |adapter: &DeviceId| {
            let at_home = self.own(*adapter).is_some_and(|own| owner(*adapter) == Some(own));
            !at_home && self.switch_of(*adapter).and_then(owner).is_some_and(|with| owner(*adapter) != Some(with))
        };
        self.adapters().filter(strayed)
    }

    /// Switches with hosts that somebody must sample.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.switches().filter(|switch| self.tier(*switch) == 1)
    }

    /// The ports of a switch and of the adapters on it.
    pub(crate) fn weight(&self, switch: DeviceId) -> u32 {
        let adapters = self.graph.neighbours(switch).iter().filter(|id| self.fabric.device(**id).kind == NodeKind::Hca);
        self.port_count(switch) + adapters.map(|adapter| self.port_count(*adapter)).sum::<u32>()
    }

    /// Linked ports that somebody must sample.
    pub(crate) fn all_ports(&self) -> u32 {
        self.ports.iter().sum()
    }

    /// The fewest samplers with which the rules, or at the worst room alone, come to an end.
    pub(crate) fn samplers_needed(&self, cap: u32) -> usize {
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
        let rest = self.all_ports() - sizes[..oversized].iter().sum::<u32>();
        oversized + loads.len().max(rest.div_ceil(cap) as usize)
    }

    /// A cap with which that many samplers are enough, the least but for the odd case.
    pub(crate) fn cap_needed(&self, samplers: usize) -> u32 {
        let (mut too_low, mut enough) = (self.cap, self.all_ports());
        while too_low + 1 < enough {
            let middle = too_low + (enough - too_low) / 2;
            if self.samplers_needed(middle) <= samplers { enough = middle } else { too_low = middle }
        }
        enough
    }

    /// What the sampler with most to do has at the least, however switches are divided: the mean, and what whole switches enforce. Of `k * samplers + 1`
    /// switches some sampler has `k + 1`. If no adapter is to be parted from its switch, a switch counts with those that follow it.
    pub(crate) fn lower_bound(&self, with_adapters: bool) -> u64 {
        let samplers = self.samplers.len().max(1);
        let mean = self.costs.iter().sum::<u64>().div_ceil(samplers as u64);
        let mut sizes = self.costs.clone();
        for adapter in self.adapters() {
            let size = std::mem::take(&mut sizes[adapter.0 as usize]);
            if let Some(switch) = self.switch_of(adapter).filter(|_| with_adapters && self.own(adapter).is_none()) {
                sizes[switch.0 as usize] += size;
            }
        }
        let mut sizes: Vec<_> = self.switches().map(|switch| sizes[switch.0 as usize]).collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        let crowded = |k: usize| sizes.get(k * samplers).map(|_| sizes[k * (samplers - 1)..=k * samplers].iter().sum());
        (0..).map_while(crowded).max().unwrap_or(0).max(mean)
    }
}

/// Whether a fabric has no tiers.
fn is_flat(graph: &Graph, tiers: &[u16]) -> bool {
    let leaves = (0..tiers.len()).filter(|index| tiers[*index] == 1);
    let (mut beside, mut up) = (0, 0);
    for neighbour in leaves.flat_map(|leaf| graph.neighbours(DeviceId(leaf as u32))) {
        match tiers[neighbour.0 as usize] {
            0 => {}
            // Seen from both ends.
            1 => beside += 1,
            _ => up += 2,
        }
    }
    beside > up
}
