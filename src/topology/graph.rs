//! Distances in a fabric, and the tiers of its switches.

use std::collections::VecDeque;

use ibnet_record::types::NodeKind;
use rayon::prelude::*;

use super::{DeviceId, Fabric};

/// The links of a fabric as an undirected graph of devices, without names and ports.
#[derive(Clone, Debug)]
pub struct Graph {
    neighbours: Vec<Vec<DeviceId>>,
    forwards: Vec<bool>,
}

/// Distance of a device to which no path leads.
pub const UNREACHABLE: u16 = u16::MAX;

impl Graph {
    /// Creates the graph of a fabric. It has a link if the line of at least one of its ends
    /// describes it and both devices are in the file.
    pub fn new(fabric: &Fabric) -> Self {
        let mut neighbours = vec![Vec::new(); fabric.devices().len()];
        for (id, device) in fabric.iter() {
            for (_, peer) in device.linked() {
                if let Some(other) = fabric.find(peer.guid, peer.port) {
                    neighbours[id.0 as usize].push(other);
                    neighbours[other.0 as usize].push(id);
                }
            }
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
        }
        let forwards = fabric
            .devices()
            .iter()
            .map(|device| device.kind == NodeKind::Switch)
            .collect();
        Self {
            neighbours,
            forwards,
        }
    }

    /// Returns the devices at the other ends of the links of a device, ascending.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn neighbours(&self, id: DeviceId) -> &[DeviceId] {
        &self.neighbours[id.0 as usize]
    }

    /// Returns for each device the number of links on the shortest path from the nearest of the
    /// `sources`, or [`UNREACHABLE`] if there is no path.
    ///
    /// Only switches forward packets, so no path leads through an HCA or a router, even if a
    /// faulty file has such links.
    pub fn hops_from(&self, sources: impl IntoIterator<Item = DeviceId>) -> Vec<u16> {
        let mut hops = vec![UNREACHABLE; self.neighbours.len()];
        let mut queue: VecDeque<DeviceId> = VecDeque::new();
        for source in sources {
            if std::mem::replace(&mut hops[source.0 as usize], 0) != 0 {
                queue.push_back(source);
            }
        }
        while let Some(id) = queue.pop_front() {
            let hops_here = hops[id.0 as usize];
            if hops_here > 0 && !self.forwards[id.0 as usize] {
                continue;
            }
            let next = hops_here.saturating_add(1).min(UNREACHABLE - 1);
            for neighbour in self.neighbours(id) {
                let seen = &mut hops[neighbour.0 as usize];
                if *seen == UNREACHABLE {
                    *seen = next;
                    queue.push_back(*neighbour);
                }
            }
        }
        hops
    }

    /// Returns the tier of each device. A leaf switch, which is a switch with an HCA that is no
    /// aggregation node, has tier 1. Any other switch is one tier above its lowest neighbour. The
    /// tier is 0 for a switch without a path to a leaf switch, and for a device that is not a
    /// switch.
    pub fn tiers(&self, fabric: &Fabric) -> Vec<u16> {
        let is_leaf = |id: DeviceId| {
            let adapter = |device: &super::Device| {
                device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device)
            };
            self.neighbours(id)
                .iter()
                .any(|neighbour| adapter(fabric.device(*neighbour)))
        };
        let switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let leaves = fabric
            .iter()
            .map(|(id, _)| id)
            .filter(switch)
            .filter(|id| is_leaf(*id));
        let hops = self.hops_from(leaves);
        let tier = |(id, device): (DeviceId, &super::Device)| match hops[id.0 as usize] {
            UNREACHABLE => 0,
            hops if device.kind == NodeKind::Switch => hops + 1,
            _ => 0,
        };
        fabric.iter().map(tier).collect()
    }
}

/// Distances from many groups of devices to every device.
///
/// The table has only switches: they alone forward packets, so a device on a switch is one link
/// farther than the switch. For 750 groups in a fabric of 1700 switches and 17,000 HCAs, it takes
/// 2.6 MB instead of 28 MB.
#[derive(Clone, Debug)]
pub struct Distances<'a> {
    graph: &'a Graph,
    /// Distances in links. One table for each block of [`BLOCK`] groups:
    /// `[column of the switch][group of the block]`.
    blocks: Vec<Vec<u16>>,
    /// Position of each device in the table.
    places: Vec<Place>,
    /// Devices of each group, ascending.
    groups: Vec<Vec<DeviceId>>,
}

/// Position of a device in the table.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A switch, and its column.
    Switch(u32),
    /// A device in no group whose only neighbour is the switch with this column.
    OnSwitch(u32),
    /// Any other device.
    Other,
}

/// Number of groups that are searched at once: the number of bits of a word.
const BLOCK: usize = u64::BITS as usize;

impl Graph {
    /// Computes the distances from groups of one or more devices, in parallel.
    pub fn distances<P: Iterator<Item = DeviceId>>(
        &self,
        groups: impl Iterator<Item = P>,
    ) -> Distances<'_> {
        let mut columns = 0..;
        let place = |forwards: &bool| {
            if *forwards {
                columns.next().map_or(Place::Other, Place::Switch)
            } else {
                Place::Other
            }
        };
        let mut places: Vec<_> = self.forwards.iter().map(place).collect();
        let between = |switch| self.switches_beside(&places, switch).collect();
        let trunks: Vec<Vec<u32>> = (0..)
            .map(DeviceId)
            .zip(&self.forwards)
            .filter(|(_, forwards)| **forwards)
            .map(|(id, _)| between(id))
            .collect();
        let groups: Vec<Vec<_>> = groups.map(Iterator::collect).map(sorted).collect();
        let first = |device: &DeviceId| match places[device.0 as usize] {
            Place::Switch(column) => vec![(column, 0)],
            _ => self
                .switches_beside(&places, *device)
                .map(|column| (column, 1))
                .collect(),
        };
        let starts: Vec<Vec<_>> = groups
            .iter()
            .map(|group| group.iter().flat_map(first).collect())
            .collect();
        let blocks = starts
            .par_chunks(BLOCK)
            .map(|starts| spread(&trunks, starts))
            .collect();
        let mut members: Vec<_> = groups.iter().flatten().copied().collect();
        members.sort_unstable();
        for (index, neighbours) in self.neighbours.iter().enumerate() {
            if let ([only], Place::Other) = (&neighbours[..], places[index])
                && let Place::Switch(column) = places[only.0 as usize]
                && members.binary_search(&DeviceId(index as u32)).is_err()
            {
                places[index] = Place::OnSwitch(column);
            }
        }
        Distances {
            graph: self,
            blocks,
            places,
            groups,
        }
    }

    /// Returns the columns of the switches to which a device is linked.
    fn switches_beside<'a>(
        &'a self,
        places: &'a [Place],
        device: DeviceId,
    ) -> impl Iterator<Item = u32> + 'a {
        self.neighbours(device).iter().filter_map(|id| {
            if let Place::Switch(column) = places[id.0 as usize] {
                Some(column)
            } else {
                None
            }
        })
    }
}

impl Distances<'_> {
    /// Returns the number of links on the shortest path from a group to a device, or
    /// [`UNREACHABLE`] without a path. The result equals that of [`Graph::hops_from`].
    #[inline]
    pub fn hops(&self, group: usize, device: DeviceId) -> u16 {
        match self.places[device.0 as usize] {
            Place::Switch(column) => self.to_switch(group, column),
            Place::OnSwitch(column) => self.to_switch(group, column).saturating_add(1),
            Place::Other => self.to_other(group, device),
        }
    }

    fn to_switch(&self, group: usize, column: u32) -> u16 {
        self.blocks[group / BLOCK][column as usize * BLOCK + group % BLOCK]
    }

    fn to_other(&self, group: usize, device: DeviceId) -> u16 {
        let is_member = |id: &DeviceId| self.groups[group].binary_search(id).is_ok();
        if is_member(&device) {
            return 0;
        }
        let from = |id: &DeviceId| match self.places[id.0 as usize] {
            Place::Switch(column) => self.to_switch(group, column).saturating_add(1),
            _ if is_member(id) => 1,
            _ => UNREACHABLE,
        };
        self.graph
            .neighbours(device)
            .iter()
            .map(from)
            .min()
            .unwrap_or(UNREACHABLE)
    }
}

/// Searches breadth first from up to [`BLOCK`] groups at once, with one bit of a word per switch
/// for each group. `starts` has the first switches of each group: their columns and their
/// distances, 0 or 1. Returns the distances as `[column][group]`.
fn spread(trunks: &[Vec<u32>], starts: &[Vec<(u32, u16)>]) -> Vec<u16> {
    let mut hops = vec![UNREACHABLE; trunks.len() * BLOCK];
    let mut seen = vec![0_u64; trunks.len()];
    // The switches that were reached in the last step, with a bit for each group that reached
    // them.
    let mut reached: Vec<(u32, u64)> = Vec::new();
    let mut arriving = vec![0_u64; trunks.len()];
    let mut touched: Vec<u32> = Vec::new();
    for distance in 0..UNREACHABLE {
        let mut arrive = |column: u32, bits: u64| {
            let word = &mut arriving[column as usize];
            if *word == 0 {
                touched.push(column);
            }
            *word |= bits;
        };
        for (column, bits) in reached.drain(..) {
            trunks[column as usize]
                .iter()
                .for_each(|neighbour| arrive(*neighbour, bits));
        }
        for (group, start) in starts.iter().enumerate().filter(|_| distance <= 1) {
            start
                .iter()
                .filter(|(_, first)| *first == distance)
                .for_each(|(column, _)| arrive(*column, 1 << group));
        }
        for column in touched.drain(..) {
            let index = column as usize;
            let mut bits = std::mem::take(&mut arriving[index]) & !seen[index];
            seen[index] |= bits;
            if bits != 0 {
                reached.push((column, bits));
            }
            while bits != 0 {
                hops[index * BLOCK + bits.trailing_zeros() as usize] = distance;
                bits &= bits - 1;
            }
        }
        if reached.is_empty() && distance > 0 {
            break;
        }
    }
    hops
}

fn sorted(mut group: Vec<DeviceId>) -> Vec<DeviceId> {
    group.sort_unstable();
    group.dedup();
    group
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::Blueprint;

    /// Returns a fabric with arbitrary cables. A cable can also connect two HCAs.
    fn tangle(cables: &[(usize, usize)]) -> Fabric {
        let mut net = Blueprint::new("EDR");
        let mut nodes: Vec<_> = (0..5).map(|n| net.switch(&format!("s{n}"), 40)).collect();
        nodes.extend((0..5).map(|n| net.adapter(&format!("a{n} x"), 40)));
        let mut used = [0; 10];
        for (a, b) in cables.iter().filter(|(a, b)| a != b) {
            used[*a] += 1;
            used[*b] += 1;
            net.cable((nodes[*a], used[*a]), (nodes[*b], used[*b]));
        }
        ports_report::parse(net.ports_report().as_bytes(), "tangle")
            .unwrap()
            .fabric
    }

    proptest! {
        #[test]
        fn distances_of_groups_equal_the_hops_from_each_group(
            cables in proptest::collection::vec((0..10_usize, 0..10_usize), 1..20),
            groups in proptest::collection::vec(proptest::collection::vec(0..20_u32, 1..4), 1..4),
        ) {
            prop_assume!(cables.iter().any(|(a, b)| a != b));
            let fabric = tangle(&cables);
            let graph = Graph::new(&fabric);
            let count = fabric.devices().len() as u32;
            let groups: Vec<Vec<_>> = groups.iter().map(|group| group.iter().map(|n| DeviceId(n % count)).collect()).collect();
            let distances = graph.distances(groups.iter().map(|group| group.iter().copied()));
            for (number, group) in groups.iter().enumerate() {
                let alone = graph.hops_from(group.iter().copied());
                let together: Vec<_> = (0..count).map(|id| distances.hops(number, DeviceId(id))).collect();
                prop_assert_eq!(together, alone);
            }
        }
    }
}
