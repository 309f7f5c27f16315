//! Devices and ports of the fabric, in the order of the frames.
//!
//! The topology comes from the records, each of which has its port, the peer and the link. A net
//! file adds ports that no sampler queries. The order is that of the heat maps of `ibnet-view`:
//! each leaf switch is followed by its ports, the port of a host follows the switch port to which
//! it is linked, and the upper switches come last, tier by tier.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibnet::topology::Fabric;
use ibnet_analysis::heat::order::{PortAndPeer, RowKind, groups, tiers};
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::Port;
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Max size of all strings in bytes: 256 for each of the max number of ports. There must be a limit
/// because an input can invent them.
pub(crate) const MAX_OCTETS: usize = 64 << 20;

/// A device: a switch, or one port of an HCA.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Device {
    /// Port GUID.
    pub(crate) guid: Guid,
    /// Node description as the device returned it. It is untrusted.
    pub(crate) node: String,
    /// Kind of the node. `None` if it is not known.
    pub(crate) kind: Option<NodeKind>,
    /// Distance of a switch from the nearest host: 1 for a leaf switch. 0 for a host. `None` if
    /// there is no path to a host.
    pub(crate) tier: Option<u32>,
    /// LID. `None` if no record has it.
    pub(crate) lid: Option<Lid>,
}

/// A port with the other end of its link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct TopologyPort {
    /// Port GUID of the device.
    pub(crate) guid: Guid,
    /// Number of the port.
    pub(crate) port: PortNum,
    /// Node description of the device.
    pub(crate) node: String,
    /// Kind of the device.
    pub(crate) kind: Option<NodeKind>,
    /// Index of the device.
    pub(crate) device: u32,
    /// Index of the port at the other end of the link.
    pub(crate) peer: Option<u32>,
    /// Port GUID of the peer.
    pub(crate) peer_guid: Option<Guid>,
    /// Port number of the peer.
    pub(crate) peer_port: Option<PortNum>,
    /// Node description of the peer.
    pub(crate) peer_node: Option<String>,
    /// Last known width and speed, such as `4xEDR`.
    pub(crate) link: String,
    /// Data rate of `link` in Gb/s. `None` if it is not known.
    pub(crate) gbps: Option<f64>,
    /// Sampler that queries the port in the primary role. `None` if no sampler does.
    #[serde(serialize_with = "crate::shared::optional")]
    pub(crate) sampler: Option<Arc<str>>,
    /// Name of the block of neighbouring rows to which the port belongs.
    pub(crate) group: String,
}

/// All devices and ports. The index of a port is its position in every frame of the generation.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Topology {
    /// Number that grows with each change.
    pub(crate) generation: u32,
    pub(crate) devices: Vec<Device>,
    pub(crate) ports: Vec<TopologyPort>,
    #[serde(skip)]
    index: BTreeMap<PortKey, u32>,
}

impl Topology {
    pub(crate) fn find(&self, key: PortKey) -> Option<usize> {
        self.index.get(&key).map(|index| *index as usize)
    }

    /// Returns the node description of a device.
    pub(crate) fn node(&self, guid: Guid) -> Option<&str> {
        let (_, index) = self
            .index
            .range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)))
            .next()?;
        self.ports
            .get(*index as usize)
            .map(|port| port.node.as_str())
    }
}

/// Everything recorded about a port.
#[derive(Clone, Debug)]
struct Known {
    port: PortAndPeer,
    lid: Option<Lid>,
    sampler: Option<Arc<str>>,
    is_primary: bool,
}

impl Known {
    /// Returns whether a record has the same device, peer and link.
    fn is_of(&self, port: &Port<'_>) -> bool {
        let Self {
            port: known, lid, ..
        } = self;
        let peer = known.peer.as_ref();
        *known.node == *port.node
            && *known.link == *port.link
            && known.kind == port.kind
            && peer.map(|peer| (peer.0, peer.1)) == port.peer_guid.zip(port.peer_port)
            && peer.is_none_or(|peer| *peer.2 == *port.peer.as_deref().unwrap_or_default())
            && *lid == Some(port.lid)
    }

    /// Returns the size of the strings in bytes.
    fn octets(&self) -> usize {
        octets(
            &self.port.node,
            &self.port.link,
            self.port.peer.as_ref().map(|(_, _, node)| &**node),
        )
    }
}

/// Returns the size of a port's strings in bytes.
fn octets(node: &str, link: &str, peer: Option<&str>) -> usize {
    node.len() + link.len() + peer.map_or(0, str::len)
}

/// Collects the ports from records and net files.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    ids: FxHashMap<PortKey, u32>,
    ports: Vec<Known>,
    /// Size of all ports' strings in bytes.
    pub(crate) octets: usize,
    is_changed: bool,
    generation: u32,
}

impl Collector {
    pub(crate) fn add_fabric(&mut self, fabric: &Fabric) {
        for device in fabric.devices() {
            for (port, peer) in device.linked() {
                let link = port.rate.to_string();
                let port = PortAndPeer {
                    guid: device.guid,
                    port: port.num,
                    node: device.name.clone(),
                    kind: Some(device.kind),
                    peer: Some((peer.guid, peer.port, peer.name.clone())),
                    gbps: gbps(&link),
                    link: link.into(),
                };
                let known = Known {
                    port,
                    lid: Some(device.lid),
                    sampler: None,
                    is_primary: false,
                };
                self.insert(known);
            }
        }
    }

    fn insert(&mut self, known: Known) {
        let next = self.ports.len() as u32;
        if *self.ids.entry(known.port.key()).or_insert(next) == next {
            self.octets += known.octets();
            self.ports.push(known);
            self.is_changed = true;
        }
    }

    /// Returns whether the strings of a record fit into the limit.
    pub(crate) fn fits(&self, port: &Port<'_>) -> bool {
        self.octets + octets(&port.node, &port.link, port.peer.as_deref()) <= MAX_OCTETS
            || self
                .ids
                .get(&port.key())
                .is_some_and(|id| self.ports[*id as usize].is_of(port))
    }

    pub(crate) fn add(&mut self, port: &Port<'_>, sampler: &Arc<str>) {
        let is_primary = !port.is_secondary();
        let Some(known) = self
            .ids
            .get(&port.key())
            .map(|id| &mut self.ports[*id as usize])
        else {
            let known = Known {
                port: PortAndPeer::of(port),
                lid: Some(port.lid),
                sampler: Some(Arc::clone(sampler)),
                is_primary,
            };
            return self.insert(known);
        };
        if !known.is_of(port) {
            self.octets -= known.octets();
            (known.port, known.lid) = (PortAndPeer::of(port), Some(port.lid));
            self.octets += known.octets();
            self.is_changed = true;
        }
        // The name of the primary stays even if the secondary also reads the port.
        if (is_primary || !known.is_primary) && known.sampler.as_deref() != Some(&**sampler) {
            known.sampler = Some(Arc::clone(sampler));
            self.is_changed = true;
        }
        known.is_primary |= is_primary;
    }

    /// Removes the ports that are not in the list, except those of a net file.
    pub(crate) fn retain(&mut self, keys: &[PortKey]) {
        let keys: std::collections::BTreeSet<_> = keys.iter().collect();
        let before = self.ports.len();
        self.ports
            .retain(|known| known.sampler.is_none() || keys.contains(&known.port.key()));
        if self.ports.len() < before {
            self.is_changed = true;
            self.ids = self
                .ports
                .iter()
                .zip(0..)
                .map(|(known, id)| (known.port.key(), id))
                .collect();
            self.octets = self.ports.iter().map(Known::octets).sum();
        }
    }

    /// Returns the topology of the next generation, if something has changed.
    pub(crate) fn take_change(&mut self) -> Option<Topology> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.generation += 1;
        Some(self.topology())
    }

    fn topology(&self) -> Topology {
        let mut all: Vec<Known> = self.ports.clone();
        // The order must not depend on the order of the records.
        all.sort_by_key(|known| known.port.key());
        let mut far: BTreeMap<PortKey, Known> = BTreeMap::new();
        for Known { port, .. } in &all {
            let Some((guid, number, node)) = &port.peer else {
                continue;
            };
            if !self.ids.contains_key(&(*guid, *number)) {
                let kind = all
                    .binary_search_by_key(&(*guid, PortNum(0)), |known| known.port.key())
                    .unwrap_or_else(|place| place);
                let kind = all
                    .get(kind)
                    .filter(|known| known.port.guid == *guid)
                    .and_then(|known| known.port.kind);
                let back = Some((port.guid, port.port, port.node.clone()));
                let port = PortAndPeer {
                    guid: *guid,
                    port: *number,
                    node: node.clone(),
                    kind,
                    peer: back,
                    link: port.link.clone(),
                    gbps: port.gbps,
                };
                far.insert(
                    (*guid, *number),
                    Known {
                        port,
                        lid: None,
                        sampler: None,
                        is_primary: false,
                    },
                );
            }
        }
        all.extend(far.into_values());
        let entries: Vec<&PortAndPeer> = all.iter().map(|known| &known.port).collect();
        let tiers = tiers(&entries);
        let (mut order, mut group_of) = (
            Vec::with_capacity(all.len()),
            vec![String::new(); all.len()],
        );
        for group in groups(&entries, RowKind::Port) {
            for member in group.members {
                order.push(member);
                group_of[member].clone_from(&group.name.block);
            }
        }
        let index: BTreeMap<PortKey, u32> = order
            .iter()
            .zip(0..)
            .map(|(member, index)| (all[*member].port.key(), index))
            .collect();
        let mut devices: Vec<Device> = Vec::new();
        let mut device_index: BTreeMap<Guid, u32> = BTreeMap::new();
        let ports = order.into_iter().map(|member| {
            let Known {
                port, lid, sampler, ..
            } = &all[member];
            let device = *device_index.entry(port.guid).or_insert_with(|| {
                let tier = match tiers.get(&port.guid) {
                    None => Some(0),
                    Some(tier) => Some(*tier).filter(|tier| *tier < u32::MAX),
                };
                devices.push(Device {
                    guid: port.guid,
                    node: port.node.clone(),
                    kind: port.kind,
                    tier,
                    lid: None,
                });
                devices.len() as u32 - 1
            });
            let of = &mut devices[device as usize];
            (of.lid, of.kind) = (of.lid.or(*lid), of.kind.or(port.kind));
            TopologyPort {
                guid: port.guid,
                port: port.port,
                node: port.node.clone(),
                kind: port.kind,
                device,
                peer: port
                    .peer
                    .as_ref()
                    .and_then(|(guid, number, _)| index.get(&(*guid, *number)).copied()),
                peer_guid: port.peer.as_ref().map(|peer| peer.0),
                peer_port: port.peer.as_ref().map(|peer| peer.1),
                peer_node: port.peer.as_ref().map(|peer| peer.2.clone()),
                link: port.link.to_string(),
                gbps: gbps(&port.link),
                sampler: sampler.clone(),
                group: std::mem::take(&mut group_of[member]),
            }
        });
        let ports = ports.collect();
        Topology {
            generation: self.generation,
            devices,
            ports,
            index,
        }
    }
}

/// Returns the data rate of a link such as `4xEDR` in Gb/s.
fn gbps(link: &str) -> Option<f64> {
    let (width, speed) = link.split_at_checked(link.find('x')? + 1)?;
    LinkRate::new(width, speed).data_gbps()
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::record::{Record, Type};

    use super::*;

    /// Adds the record of a port. GUIDs below 0x100 are switches.
    fn add(
        collector: &mut Collector,
        sampler: &str,
        (guid, number): (u64, u8),
        node: &str,
        peer: (u64, u8, &str),
    ) {
        let kind = if guid < 0x100 { "switch" } else { "hca" };
        let line = format!(
            r#"{{"type":"port","ts":1,"sampler":"{sampler}","guid":"{}","port":{number},"lid":{guid},"node":"{node}","kind":"{kind}","peer_guid":"{}","peer_port":{},"peer":"{}","link":"4xEDR","status":"ok"}}"#,
            Guid(guid),
            Guid(peer.0),
            peer.1,
            peer.2
        );
        let Ok(Record::Port(port)) = Record::parse(line.as_bytes(), Type::Port) else {
            panic!("a port record: {line}")
        };
        collector.add(&port, &sampler.into());
    }

    fn fabric(collector: &mut Collector) {
        add(collector, "s", (9, 1), "core", (1, 9, "leaf"));
        add(collector, "s", (1, 9), "leaf", (9, 1, "core"));
        add(collector, "s", (1, 1), "leaf", (0x101, 1, "n1 mlx5_0"));
        add(collector, "s", (1, 2), "leaf", (0x102, 1, "n2 mlx5_0"));
        add(collector, "s", (0x101, 1), "n1 mlx5_0", (1, 1, "leaf"));
    }

    #[test]
    fn neighbours_in_the_fabric_are_neighbours_in_the_order() {
        let mut collector = Collector::default();
        fabric(&mut collector);
        let topology = collector.take_change().expect("a change");
        let order: Vec<_> = topology
            .ports
            .iter()
            .map(|port| (port.node.as_str(), port.port.0, port.peer))
            .collect();
        assert_eq!(
            order,
            [
                ("leaf", 1, Some(1)),
                ("n1 mlx5_0", 1, Some(0)),
                ("leaf", 2, Some(3)),
                ("n2 mlx5_0", 1, Some(2)),
                ("leaf", 9, Some(5)),
                ("core", 1, Some(4)),
            ]
        );
        assert_eq!(
            topology.ports[3].sampler, None,
            "no sampler queries this port"
        );
        let tiers: Vec<_> = topology
            .devices
            .iter()
            .map(|device| (device.node.as_str(), device.tier))
            .collect();
        assert_eq!(
            tiers,
            [
                ("leaf", Some(1)),
                ("n1 mlx5_0", Some(0)),
                ("n2 mlx5_0", Some(0)),
                ("core", Some(2))
            ]
        );
        assert_eq!(
            (topology.find((Guid(9), PortNum(1))), topology.ports[0].gbps),
            (Some(5), Some(100.0))
        );
    }

    #[test]
    fn generation_grows_with_each_change_only() {
        let mut collector = Collector::default();
        fabric(&mut collector);
        assert_eq!(
            collector.take_change().map(|topology| topology.generation),
            Some(1)
        );
        fabric(&mut collector);
        assert_eq!(collector.take_change(), None);
        add(&mut collector, "s", (1, 2), "leaf", (0x103, 1, "n3 mlx5_0"));
        assert_eq!(
            collector.take_change().map(|topology| topology.generation),
            Some(2)
        );
        collector.retain(&[(Guid(1), PortNum(1)), (Guid(1), PortNum(2))]);
        assert_eq!(
            collector.take_change().map(|topology| topology.ports.len()),
            Some(4)
        );
    }
}
