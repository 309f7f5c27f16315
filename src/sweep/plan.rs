//! The plan of one sampler: the devices that the engine queries, and the names and peers of their
//! ports for the records.

use std::slice;
use std::sync::Arc;

use ibnet_record::LinkSource;
use ibnet_record::types::{LinkRate, NodeKind};

use super::engine::DevicePlan;
use super::routes::Cables;
use crate::assignments::Sampler;
use crate::sweep::port_record::PortIdentity;

/// The ports that one sampler sweeps. One sequence of indices covers the ports of all devices, as
/// in the engine.
#[derive(Clone, Debug, Default)]
pub struct SweepPlan {
    /// Devices and their ports, for the engine.
    pub devices: Vec<DevicePlan>,
    /// Identity of each port, for the records.
    pub ports: Vec<PortIdentity>,
    /// Cables along which directed routes lead.
    pub cables: Arc<Cables>,
}

/// Returns the cables of the ports in these blocks.
pub fn cables(blocks: &[Sampler]) -> Cables {
    let devices = || blocks.iter().flat_map(|block| &block.devices);
    let peers = devices().flat_map(|device| {
        let ports = device.ports.iter();
        ports.filter_map(move |port| Some((device, port, port.peer.as_ref()?)))
    });
    let ends = peers
        .clone()
        .map(|(_, _, peer)| (peer.guid, peer.lid, NodeKind::Hca));
    let queried = devices().map(|device| (device.guid, device.lid, device.kind));
    Cables::new(
        ends.chain(queried),
        peers.map(|(device, port, peer)| ((device.guid, port.num), (peer.guid, peer.port))),
    )
}

impl SweepPlan {
    /// Creates the plan of a sampler from its assignments. Directed routes lead along the cables of
    /// its own ports.
    pub fn new(sampler: &Sampler) -> Self {
        Self::with_cables(sampler, Arc::new(cables(slice::from_ref(sampler))))
    }

    /// Creates the plan of a sampler from its assignments, with the cables for directed routes.
    pub fn with_cables(sampler: &Sampler, cables: Arc<Cables>) -> Self {
        let mut plan = Self {
            cables,
            ..Self::default()
        };
        for device in &sampler.devices {
            let ports = device.ports.iter().map(|port| port.num).collect();
            plan.devices.push(DevicePlan {
                guid: device.guid,
                lid: device.lid,
                kind: device.kind,
                ports,
            });
            plan.ports.extend(device.ports.iter().map(|port| {
                PortIdentity {
                    guid: device.guid,
                    port: port.num,
                    lid: device.lid,
                    node: device.name.clone(),
                    kind: device.kind,
                    hops: device.hops,
                    peer: port
                        .peer
                        .as_ref()
                        .map(|peer| (peer.guid, peer.port, peer.name.clone())),
                    link: LinkRate::new(&port.width, &port.speed),
                    link_source: LinkSource::File,
                    mtu: None,
                    vls: None,
                    limits: None,
                }
            }));
        }
        plan
    }
}
