//! The plan of one sampler: the devices that the engine queries, and the names and peers of their
//! ports for the records.

use ibnet_record::LinkSource;
use ibnet_record::types::LinkRate;

use super::engine::DevicePlan;
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
}

impl SweepPlan {
    /// Creates the plan of a sampler from its assignments.
    pub fn new(sampler: &Sampler) -> Self {
        let mut plan = Self::default();
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
                }
            }));
        }
        plan
    }
}
