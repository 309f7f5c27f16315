//! The planning task: a fabric and its samplers, with the figures that the rules and the search
//! use.

use std::cmp::Reverse;

use ibnet_record::types::NodeKind;

use super::hosts::Host;
use super::plan::Reason;
use super::weights::Weights;
use crate::topology::graph::Distances;
use crate::topology::{Device, DeviceId, Fabric, Graph};

/// For each device, the index of its sampler, or `None` if it has no sampler.
pub(crate) type Owners = Vec<Option<usize>>;

pub(crate) struct Task<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) graph: &'a Graph,
    pub(crate) samplers: &'a [Host],
    pub(crate) cap: u32,
    /// Whether the switches form no tiers: more linked pairs of switches are two leaf switches than
    /// a leaf switch and one of a higher tier. Parallel cables count once.
    pub(crate) flat: bool,
    distances: Distances<'a>,
    tiers: Vec<u16>,
    /// Number of linked ports to sample, by device; 0 for a device that is left out.
    ports: Vec<u32>,
    /// Cost of the ports to sample, by device: their number, or their measured time in nanoseconds.
    costs: Vec<u64>,
    /// Samplers attached to a switch, by device, in ascending order.
    attached: Vec<Vec<usize>>,
    /// Switch of an HCA port, by device.
    switches: Vec<Option<DeviceId>>,
    /// Sampler on whose host an HCA port is, by device.
    own: Vec<Option<usize>>,
}

impl<'a> Task<'a> {
    pub(crate) fn new(
        fabric: &'a Fabric,
        graph: &'a Graph,
        samplers: &'a [Host],
        cap: u32,
        weights: Option<&Weights>,
    ) -> Self {
        let ports = |device: &Device| {
            if Reason::of(fabric, device).is_none() {
                device.linked_ports() as u32
            } else {
                0
            }
        };
        let ports: Vec<_> = fabric.devices().iter().map(ports).collect();
        let (mut attached, mut own) = (vec![Vec::new(); ports.len()], vec![None; ports.len()]);
        for (sampler, host) in samplers.iter().enumerate() {
            for switch in host.sending.iter().flat_map(|port| graph.neighbours(*port)) {
                attached[switch.0 as usize].push(sampler);
            }
            for hca in &host.own {
                own[hca.0 as usize].get_or_insert(sampler);
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
            distances: graph.distances(samplers.iter().map(|host| host.sending.iter().copied())),
            tiers,
            costs: weights.map_or_else(
                || ports.iter().map(|ports| u64::from(*ports)).collect(),
                |weights| weights.costs(fabric, &ports),
            ),
            ports,
            attached,
            switches: fabric.iter().map(switch_of).collect(),
            own,
        }
    }

    /// Returns the number of links between a sampler and a device, or
    /// [`UNREACHABLE`](crate::topology::graph::UNREACHABLE) if there is no path.
    pub(crate) fn hops(&self, sampler: usize, device: DeviceId) -> u16 {
        self.distances.hops(sampler, device)
    }

    pub(crate) fn devices(&self) -> usize {
        self.ports.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = DeviceId> + use<> {
        (0..self.ports.len() as u32).map(DeviceId)
    }

    /// Returns the switches to sample.
    pub(crate) fn switches(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.of_kind(NodeKind::Switch)
    }

    /// Returns the HCA ports to sample.
    pub(crate) fn hcas(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.of_kind(NodeKind::Hca)
    }

    fn of_kind(&self, kind: NodeKind) -> impl Iterator<Item = DeviceId> + '_ {
        self.ids()
            .filter(move |id| self.port_count(*id) > 0 && self.fabric.device(*id).kind == kind)
    }

    pub(crate) fn is_switch(&self, device: DeviceId) -> bool {
        self.port_count(device) > 0 && self.fabric.device(device).kind == NodeKind::Switch
    }

    /// Returns the number of ports of a device that are sampled.
    pub(crate) fn port_count(&self, device: DeviceId) -> u32 {
        self.ports[device.0 as usize]
    }

    pub(crate) fn cost(&self, device: DeviceId) -> u64 {
        self.costs[device.0 as usize]
    }

    /// Returns the tier of a switch: 1 for a leaf switch, more for the switches above, and 0 if
    /// no leaf switch can be reached.
    pub(crate) fn tier(&self, switch: DeviceId) -> u16 {
        self.tiers[switch.0 as usize]
    }

    pub(crate) fn attached(&self, switch: DeviceId) -> impl Iterator<Item = usize> + Clone + '_ {
        self.attached[switch.0 as usize].iter().copied()
    }

    pub(crate) fn switch_of(&self, hca: DeviceId) -> Option<DeviceId> {
        self.switches[hca.0 as usize]
    }

    /// Returns the sampler on whose host an HCA port is.
    pub(crate) fn own(&self, hca: DeviceId) -> Option<usize> {
        self.own[hca.0 as usize]
    }

    /// Returns the HCA ports whose sampler is not that of their switch. HCA ports of a sampler
    /// host do not count if this sampler queries them.
    pub(crate) fn separated<'o>(
        &'o self,
        owners: &'o Owners,
    ) -> impl Iterator<Item = DeviceId> + 'o {
        let owner = |device: DeviceId| owners[device.0 as usize];
        let is_separated = move |hca: &DeviceId| {
            let is_own = self.own(*hca).is_some_and(|own| owner(*hca) == Some(own));
            !is_own
                && self
                    .switch_of(*hca)
                    .and_then(owner)
                    .is_some_and(|with| owner(*hca) != Some(with))
        };
        self.hcas().filter(is_separated)
    }

    /// Returns the leaf switches to sample.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.switches().filter(|switch| self.tier(*switch) == 1)
    }

    /// Returns the number of ports of a switch, plus the number of HCA ports that are connected
    /// to it.
    pub(crate) fn weight(&self, switch: DeviceId) -> u32 {
        let hcas = self
            .graph
            .neighbours(switch)
            .iter()
            .filter(|id| self.fabric.device(**id).kind == NodeKind::Hca);
        self.port_count(switch) + hcas.map(|hca| self.port_count(*hca)).sum::<u32>()
    }

    pub(crate) fn all_ports(&self) -> u32 {
        self.ports.iter().sum()
    }

    /// Returns a number of samplers that is always sufficient for placing devices by size.
    pub(crate) fn samplers_needed(&self, cap: u32) -> usize {
        let mut sizes: Vec<_> = self
            .switches()
            .map(|switch| self.port_count(switch))
            .collect();
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

    /// Returns a cap with which this number of samplers is sufficient, in nearly all cases the
    /// smallest one.
    pub(crate) fn cap_needed(&self, samplers: usize) -> u32 {
        let (mut too_low, mut enough) = (self.cap, self.all_ports());
        while too_low + 1 < enough {
            let middle = too_low + (enough - too_low) / 2;
            if self.samplers_needed(middle) <= samplers {
                enough = middle;
            } else {
                too_low = middle;
            }
        }
        enough
    }

    /// Returns a lower bound of the max load in any plan that splits no switch.
    ///
    /// The bound is the larger of two loads. One is the mean load. The other follows from whole
    /// switches: if there are `k * samplers + 1` switches, one sampler has at least `k + 1` of
    /// them. With `with_hcas`, the load of a switch includes the HCA ports on it.
    pub(crate) fn lower_bound(&self, with_hcas: bool) -> u64 {
        let samplers = self.samplers.len().max(1);
        let mean = self.costs.iter().sum::<u64>().div_ceil(samplers as u64);
        let mut sizes = self.costs.clone();
        for hca in self.hcas() {
            let size = std::mem::take(&mut sizes[hca.0 as usize]);
            if let Some(switch) = self
                .switch_of(hca)
                .filter(|_| with_hcas && self.own(hca).is_none())
            {
                sizes[switch.0 as usize] += size;
            }
        }
        let mut sizes: Vec<_> = self
            .switches()
            .map(|switch| sizes[switch.0 as usize])
            .collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        let crowded = |k: usize| {
            sizes
                .get(k * samplers)
                .map(|_| sizes[k * (samplers - 1)..=k * samplers].iter().sum())
        };
        (0..).map_while(crowded).max().unwrap_or(0).max(mean)
    }
}

/// Returns whether a fabric has no tiers.
fn is_flat(graph: &Graph, tiers: &[u16]) -> bool {
    let leaves = (0..tiers.len()).filter(|index| tiers[*index] == 1);
    let (mut beside, mut up) = (0, 0);
    for neighbour in leaves.flat_map(|leaf| graph.neighbours(DeviceId(leaf as u32))) {
        match tiers[neighbour.0 as usize] {
            0 => {}
            // Such a pair is found from both of its leaf switches. Other pairs are found once, and
            // therefore count double.
            1 => beside += 1,
            _ => up += 2,
        }
    }
    beside > up
}
