//! Forwarding tables of the switches: the routes that the simulated traffic takes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use ibnet_record::types::{Lid, NodeKind, PortNum};

use super::SimFabric;
use crate::mad::forwarding::{BLOCK_LIDS, NO_ROUTE, SwitchInfo, sl_to_vl_modifier};
use crate::mad::pma::Data;
use crate::topology::graph::UNREACHABLE;
use crate::topology::{DeviceId, Fabric, Graph};

/// Number of entries that a table can have, as on current switches.
const LINEAR_CAP: u16 = 0xc000;

/// Number of VLs to which the SLs are mapped.
const DATA_VLS: u64 = 4;

/// The tables of all switches.
#[derive(Debug)]
pub(super) struct Tables {
    /// For each device, the port to each device, made when the first of them is needed.
    ports: Vec<OnceLock<Vec<u8>>>,
    /// Entries that differ.
    changed: BTreeMap<(DeviceId, Lid), u8>,
}

impl Tables {
    pub(super) fn new(fabric: &Fabric) -> Self {
        Self {
            ports: fabric.devices().iter().map(|_| OnceLock::new()).collect(),
            changed: BTreeMap::new(),
        }
    }
}

impl SimFabric {
    /// Changes one entry of the forwarding table of a switch. The traffic keeps its path.
    pub fn set_route(&mut self, switch: DeviceId, lid: Lid, port: u8) {
        self.tables.changed.insert((switch, lid), port);
    }

    /// Returns the port through which a switch forwards to a LID, or [`NO_ROUTE`].
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn route(&self, switch: DeviceId, lid: Lid) -> u8 {
        if let Some(changed) = self.tables.changed.get(&(switch, lid)) {
            return *changed;
        }
        let Some(to) = self.by_lid.get(&lid) else {
            return NO_ROUTE;
        };
        let table = || ports(&self.fabric, &Graph::new(&self.fabric), switch);
        self.tables.ports[switch.0 as usize].get_or_init(table)[to.0 as usize]
    }

    pub(super) fn switch_info(&self) -> SwitchInfo {
        SwitchInfo {
            linear_cap: LINEAR_CAP,
            linear_top: self.by_lid.keys().next_back().map_or(0, |lid| lid.0),
        }
    }

    /// Writes a block of the linear forwarding table of a switch.
    pub(super) fn emit_block(&self, switch: DeviceId, block: u32, data: &mut Data) {
        let first = block.saturating_mul(BLOCK_LIDS.into());
        for (octet, lid) in data[..BLOCK_LIDS.into()].iter_mut().zip(first..) {
            *octet = u16::try_from(lid).map_or(NO_ROUTE, |lid| self.route(switch, Lid(lid)));
        }
    }

    /// Writes the mapping of SLs to VLs, which is the same for all ports. Returns false if the
    /// switch has no such pair of ports.
    pub(super) fn emit_sl_to_vl(&self, switch: DeviceId, modifier: u32, data: &mut Data) -> bool {
        let device = self.fabric.device(switch);
        let [.., from, to] = modifier.to_be_bytes().map(PortNum);
        let has = |port: PortNum| port.0 == 0 || device.port(port).is_some();
        let mapping = (0..16).fold(0, |all, sl| (all << 4) | (sl % DATA_VLS));
        data[..8].copy_from_slice(&mapping.to_be_bytes());
        has(from) && has(to) && modifier == sl_to_vl_modifier(from, to)
    }
}

/// Returns the port through which a switch forwards to each device.
///
/// All shortest paths are used. The choice depends on the destination and the switch. The paths end
/// at the first neighbour of an HCA, which is its switch.
pub(super) fn ports(fabric: &Fabric, graph: &Graph, at: DeviceId) -> Vec<u8> {
    let own = graph.hops_from([at]);
    let mut hops: BTreeMap<DeviceId, Vec<u16>> = BTreeMap::new();
    let linked = fabric.device(at).linked();
    let links: Vec<(PortNum, DeviceId)> = linked
        .filter_map(|(port, peer)| Some((port.num, fabric.find(peer.guid, peer.port)?)))
        .collect();
    for (_, peer) in &links {
        if fabric.device(*peer).kind == NodeKind::Switch {
            hops.entry(*peer)
                .or_insert_with(|| graph.hops_from([*peer]));
        }
    }
    let to_device = |(to, device): (DeviceId, &crate::topology::Device)| {
        if to == at {
            return 0;
        }
        let last = match device.kind {
            NodeKind::Switch => Some(to),
            NodeKind::Hca | NodeKind::Router => graph.neighbours(to).first().copied(),
        };
        let Some(last) = last.map(|last| last.0 as usize) else {
            return NO_ROUTE;
        };
        let is_nearer = |peer: DeviceId| {
            if at.0 as usize == last {
                peer == to
            } else {
                let distance = hops.get(&peer).map_or(UNREACHABLE, |hops| hops[last]);
                distance != UNREACHABLE && distance < own[last]
            }
        };
        let equal: Vec<u8> = links
            .iter()
            .filter(|(_, peer)| is_nearer(*peer))
            .map(|(port, _)| port.0)
            .collect();
        let spread = spread(at, to) as usize;
        let port = equal.get(spread % equal.len().max(1));
        port.copied().unwrap_or(NO_ROUTE)
    };
    fabric.iter().map(to_device).collect()
}

/// Returns the choice among ways of the same length. It depends on the destination and the switch,
/// as in a forwarding table.
pub(super) fn spread(at: DeviceId, to: DeviceId) -> u64 {
    (u64::from(to.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(at.0).wrapping_mul(0xc2b2_ae3d_27d4_eb4f))
        >> 32
}
