//! Converts plans to the assignments file and back.

use ibnet_record::types::NodeKind;

use super::planning::changes::Previous;
use super::planning::plan::{LeftOut, Plan, Reason, Share, left_out};
use crate::assignments::{
    AssignedDevice, AssignedPeer, AssignedPort, Assignments, Sampler, VERSION,
};
use crate::partition::planning::cables::End;
use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph, Peer, Port};

/// Time at which the queries of a secondary sampler start, as a share of the interval.
const SECONDARY_OFFSET: f64 = 0.5;

/// Converts a plan to assignments.
pub fn assignments_of(plan: &Plan, fabric: &Fabric) -> Assignments {
    let block = |share: &Share, (role, offset): (Option<&str>, Option<f64>)| Sampler {
        host: share.host.name.clone(),
        subnet: None,
        ca: share.host.ca.clone(),
        ca_port: share.host.ca_port,
        role: role.map(str::to_owned),
        offset,
        port_count: share.ports,
        devices: share
            .devices
            .iter()
            .map(|planned| assigned(fabric.device(planned.id), planned.hops))
            .collect(),
    };
    let primary = plan.shares.iter().map(|share| block(share, (None, None)));
    let secondary = plan
        .secondary
        .iter()
        .map(|share| block(share, (Some("secondary"), Some(SECONDARY_OFFSET))));
    Assignments {
        version: VERSION,
        cap: plan.cap,
        at: None,
        samplers: primary.chain(secondary).collect(),
    }
}

/// Combines the assignments of several subnets, each with its name. The cap is the max of their
/// caps.
pub fn assignments_of_subnets(
    subnets: impl IntoIterator<Item = (String, Assignments)>,
) -> Assignments {
    let mut all = Assignments {
        version: VERSION,
        cap: 0,
        at: None,
        samplers: Vec::new(),
    };
    for (name, Assignments { cap, samplers, .. }) in subnets {
        all.cap = all.cap.max(cap);
        all.samplers
            .extend(samplers.into_iter().map(|sampler| Sampler {
                subnet: Some(name.clone()),
                ..sampler
            }));
    }
    all
}

/// Converts assignments to a previous plan. With `subnet`, only the blocks of this subnet and the
/// blocks without a subnet count.
pub fn previous_of(assignments: &Assignments, subnet: Option<&str>) -> Previous {
    let mut previous = Previous::default();
    let is_of_subnet = |sampler: &&Sampler| {
        subnet.is_none() || sampler.subnet.is_none() || sampler.subnet.as_deref() == subnet
    };
    for sampler in assignments.samplers.iter().filter(is_of_subnet) {
        let of_role = if sampler.is_secondary() {
            &mut previous.secondary
        } else {
            &mut previous.primary
        };
        for device in &sampler.devices {
            let owner = || (sampler.host.clone(), device.name.clone());
            of_role.extend(
                device
                    .ports
                    .iter()
                    .map(|port| ((device.guid, port.num), owner())),
            );
            for (port, peer) in device
                .ports
                .iter()
                .filter_map(|port| Some((port, port.peer.as_ref()?)))
            {
                let end = End {
                    guid: device.guid,
                    port: port.num,
                    name: device.name.clone(),
                };
                previous.cables.add(
                    end,
                    End {
                        guid: peer.guid,
                        port: peer.port,
                        name: peer.name.clone(),
                    },
                );
            }
        }
    }
    previous
}

/// Returns a sampler block with all ports of a fabric that can be sampled, and the devices that
/// are left out. With this block, one host can sweep the fabric without a plan.
///
/// The hops are known if an HCA of the fabric has the name of the host.
pub fn whole_fabric(fabric: &Fabric, host: &str) -> (Sampler, Vec<LeftOut>) {
    let here =
        |(_, device): &(DeviceId, &Device)| device.kind == NodeKind::Hca && device.host() == host;
    let hops = Graph::new(fabric).hops_from(fabric.iter().filter(here).map(|(id, _)| id));
    let sampled = fabric
        .iter()
        .filter(|(_, device)| device.linked_ports() > 0 && Reason::of(fabric, device).is_none());
    let known = |id: DeviceId| Some(hops[id.0 as usize]).filter(|hops| *hops != UNREACHABLE);
    let devices: Vec<_> = sampled
        .map(|(id, device)| assigned(device, known(id)))
        .collect();
    let port_count = devices.iter().map(|device| device.ports.len() as u32).sum();
    let sampler = Sampler {
        host: host.to_owned(),
        subnet: None,
        ca: None,
        ca_port: None,
        role: None,
        offset: None,
        port_count,
        devices,
    };
    (sampler, left_out(fabric))
}

fn assigned(device: &Device, hops: Option<u16>) -> AssignedDevice {
    let port = |(port, peer): (&Port, &Peer)| AssignedPort {
        num: port.num,
        width: port.rate.width.to_string(),
        speed: port.rate.speed.to_string(),
        peer: Some(AssignedPeer {
            guid: peer.guid,
            lid: peer.lid,
            port: peer.port,
            name: peer.name.clone(),
        }),
    };
    let ports = device.linked().map(port).collect();
    AssignedDevice {
        guid: device.guid,
        lid: device.lid,
        kind: device.kind,
        name: device.name.clone(),
        hops,
        ports,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignments::Header;
    use crate::topology::{ports_report, synthetic};

    #[test]
    fn whole_fabric_has_all_ports_and_survives_the_file() {
        let fabric = ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
            .unwrap()
            .fabric;
        let (sampler, left_out) = whole_fabric(&fabric, "admin1");
        assert_eq!(left_out, []);
        assert_eq!((sampler.port_count, sampler.devices.len()), (968, 338));
        let hops: Vec<_> = sampler
            .devices
            .iter()
            .filter(|device| device.name == "admin1 mlx5_0")
            .map(|device| device.hops)
            .collect();
        assert_eq!(hops, [Some(0), Some(0)]);
        let assignments = Assignments {
            version: VERSION,
            cap: 1000,
            at: None,
            samplers: vec![sampler],
        };
        let header = Header {
            sources: Vec::new(),
            command: String::new(),
        };
        assert_eq!(
            Assignments::parse(&assignments.to_toml(&header), "a.toml").unwrap(),
            assignments
        );
    }
}
