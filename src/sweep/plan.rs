//! From an assignment to what the engine asks and what the records say of it.

use super::engine::DevicePlan;
use crate::assignments::Sampler;
use crate::record::{LinkSource, PortIdentity};
use crate::types::LinkRate;

/// What one sampler sweeps. Ports are counted through all devices, as the engine counts them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// For the engine.
    pub devices: Vec<DevicePlan>,
    /// For the records, by port.
    pub ports: Vec<PortIdentity>,
}

impl Plan {
    /// The plan of an assignment.
    pub fn new(sampler: &Sampler) -> Self {
        let mut plan = Self::default();
        for device in &sampler.devices {
            let ports = device.ports.iter().map(|port| port.num).collect();
            plan.devices.push(DevicePlan { guid: device.guid, lid: device.lid, kind: device.kind, ports });
            plan.ports.extend(device.ports.iter().map(|port| PortIdentity {
                guid: device.guid,
                port: port.num,
                lid: device.lid,
                node: device.name.clone(),
                kind: device.kind,
                hops: device.hops,
                peer: port.peer.as_ref().map(|peer| (peer.guid, peer.port, peer.name.clone())),
                link: LinkRate::new(&port.width, &port.speed),
                link_source: LinkSource::File,
            }));
        }
        plan
    }
}
