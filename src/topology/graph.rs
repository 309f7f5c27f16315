//! Hops and tiers.

use std::collections::VecDeque;

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
