//! Hops and tiers.

use std::collections::VecDeque;

use rayon::prelude::*;

use super::{DeviceId, Fabric};
use crate::types::NodeKind;

/// Who is linked to whom, by device: an undirected graph without names and ports.
#[derive(Clone, Debug)]
pub struct Graph {
    neighbours: Vec<Vec<DeviceId>>,
    forwards: Vec<bool>,
}

/// No path leads there.
pub const UNREACHABLE: u16 = u16::MAX;

impl Graph {
    /// The graph of a fabric. A link counts if either end tells of it and both devices are in the file.
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
        let forwards = fabric.devices().iter().map(|device| device.kind == NodeKind::Switch).collect();
        Self { neighbours, forwards }
    }

    /// The devices at the other ends of a device's links, ascending.
    ///
    /// # Panics
    /// If the identifier is another fabric's.
    pub fn neighbours(&self, id: DeviceId) -> &[DeviceId] {
        &self.neighbours[id.0 as usize]
    }

    /// Links on the shortest way from any of `sources` to each device, [`UNREACHABLE`] where there is none. Shape: one number a device.
    ///
    /// Only switches forward: no way leads through an adapter or a router, whatever a file with contradicting lines may say.
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

    /// The tier of each switch: 1 for a leaf (a switch with an adapter that is no aggregation node), else one more than the
    /// lowest neighbouring switch. 0 for all that is no switch, or where no leaf can be reached. Shape: one number a device.
    pub fn tiers(&self, fabric: &Fabric) -> Vec<u16> {
        let is_leaf = |id: DeviceId| {
            let adapter = |device: &super::Device| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device);
            self.neighbours(id).iter().any(|neighbour| adapter(fabric.device(*neighbour)))
        };
        let switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let leaves = fabric.iter().map(|(id, _)| id).filter(switch).filter(|id| is_leaf(*id));
        let hops = self.hops_from(leaves);
        let tier = |(id, device): (DeviceId, &super::Device)| match hops[id.0 as usize] {
            UNREACHABLE => 0,
            hops if device.kind == NodeKind::Switch => hops + 1,
            _ => 0,
        };
        fabric.iter().map(tier).collect()
    }
}

/// Links from each of some places to every device, for many places at once.
///
/// Kept for switches only, since those are the only ones that forward: what hangs on a switch is one link farther. 750 places in a fabric of 1700
/// switches and 17,000 adapters take 2.6 MB instead of 28.
#[derive(Clone, Debug)]
pub struct Distances<'a> {
    graph: &'a Graph,
    /// Row and column of the table: [place][switch]
    hops: Vec<Vec<u16>>,
    /// The column of a switch, by device.
    columns: Vec<u32>,
    /// The devices of each place, ascending.
    places: Vec<Vec<DeviceId>>,
}

/// Of a device that is no switch.
const NO_COLUMN: u32 = u32::MAX;

impl Graph {
    /// The distances from places, each of one device or several; places are looked at in parallel.
    pub fn distances<P: Iterator<Item = DeviceId>>(&self, places: impl Iterator<Item = P>) -> Distances<'_> {
        let mut next = 0..;
        let columns: Vec<_> =
            self.forwards.iter().map(|forwards| if *forwards { next.next().unwrap_or(NO_COLUMN) } else { NO_COLUMN }).collect();
        let column = |id: &DeviceId| columns[id.0 as usize];
        let switches = self.forwards.iter().enumerate().filter(|(_, forwards)| **forwards).map(|(index, _)| index);
        let between = |switch: usize| self.neighbours[switch].iter().map(column).filter(|column| *column != NO_COLUMN).collect();
        let trunks: Vec<Vec<u32>> = switches.map(between).collect();
        let places: Vec<Vec<_>> = places.map(Iterator::collect).map(sorted).collect();
        let first = |device: &DeviceId| match column(device) {
            NO_COLUMN => {
                self.neighbours(*device).iter().map(column).filter(|column| *column != NO_COLUMN).map(|column| (column, 1)).collect()
            }
            column => vec![(column, 0)],
        };
        let hops = places.par_iter().map(|place| spread(&trunks, place.iter().flat_map(first).collect())).collect();
        Distances { graph: self, hops, columns, places }
    }
}

impl Distances<'_> {
    /// Links on the shortest way from a place to a device, [`UNREACHABLE`] where there is none: what [`Graph::hops_from`] says.
    pub fn hops(&self, place: usize, device: DeviceId) -> u16 {
        let row = &self.hops[place];
        let is_place = |id: &DeviceId| self.places[place].binary_search(id).is_ok();
        match self.columns[device.0 as usize] {
            NO_COLUMN if is_place(&device) => 0,
            NO_COLUMN => {
                let from = |id: &DeviceId| match self.columns[id.0 as usize] {
                    NO_COLUMN if is_place(id) => 1,
                    NO_COLUMN => UNREACHABLE,
                    column => row[column as usize].saturating_add(1),
                };
                self.graph.neighbours(device).iter().map(from).min().unwrap_or(UNREACHABLE)
            }
            column => row[column as usize],
        }
    }
}

/// Breadth first from some columns, each with the hops to it: all 0 or all 1, or those at 0 first.
fn spread(trunks: &[Vec<u32>], mut start: Vec<(u32, u16)>) -> Vec<u16> {
    start.sort_unstable_by_key(|(column, hops)| (*hops, *column));
    let mut hops = vec![UNREACHABLE; trunks.len()];
    let mut queue = VecDeque::with_capacity(trunks.len());
    for (column, first) in start {
        if hops[column as usize] == UNREACHABLE {
            hops[column as usize] = first;
            queue.push_back(column);
        }
    }
    while let Some(column) = queue.pop_front() {
        let next = hops[column as usize].saturating_add(1).min(UNREACHABLE - 1);
        for neighbour in &trunks[column as usize] {
            let seen = &mut hops[*neighbour as usize];
            if *seen == UNREACHABLE {
                *seen = next;
                queue.push_back(*neighbour);
            }
        }
    }
    hops
}

fn sorted(mut place: Vec<DeviceId>) -> Vec<DeviceId> {
    place.sort_unstable();
    place.dedup();
    place
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::Blueprint;

    /// Any cables at all, adapters between switches and adapters in a row among them.
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
        ports_report::parse(net.ports_report().as_bytes(), "tangle").unwrap().fabric
    }

    proptest! {
        #[test]
        fn many_places_at_once_are_as_far_as_each_alone(
            cables in proptest::collection::vec((0..10_usize, 0..10_usize), 1..20),
            places in proptest::collection::vec(proptest::collection::vec(0..20_u32, 1..4), 1..4),
        ) {
            prop_assume!(cables.iter().any(|(a, b)| a != b));
            let fabric = tangle(&cables);
            let graph = Graph::new(&fabric);
            let count = fabric.devices().len() as u32;
            let places: Vec<Vec<_>> = places.iter().map(|place| place.iter().map(|n| DeviceId(n % count)).collect()).collect();
            let distances = graph.distances(places.iter().map(|place| place.iter().copied()));
            for (number, place) in places.iter().enumerate() {
                let alone = graph.hops_from(place.iter().copied());
                let together: Vec<_> = (0..count).map(|id| distances.hops(number, DeviceId(id))).collect();
                prop_assert_eq!(together, alone);
            }
        }
    }
}
