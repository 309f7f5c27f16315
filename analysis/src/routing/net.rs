//! The devices and links of a fabric, as indices.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use rustc_hash::FxHashMap;

use crate::ports::{PortKey, PortName, PortSummary, silent_hosts};
use crate::routes::Routes;

/// Index of a device in [`Net::devices`].
pub type DeviceIndex = u32;

/// Index of a channel in [`Net::channels`].
pub type ChannelIndex = u32;

/// A port without a link.
const NONE: ChannelIndex = ChannelIndex::MAX;

/// What a device does with packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A switch forwards them.
    Switch,
    /// An HCA port of a host sends and receives them.
    Host,
    /// Any other device, such as a router or an aggregation node, is no end of a path.
    Other,
}

/// The port of a device, as a net file or a record describes it.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Port GUID.
    pub guid: Guid,
    /// Port number.
    pub port: PortNum,
    /// LID of the device, 0 if unknown.
    pub lid: Lid,
    /// Role of the device.
    pub role: Role,
    /// Node description; empty if unknown.
    pub name: &'a str,
}

/// A port and the other end of its link.
#[derive(Clone, Copy, Debug)]
pub struct NetPort<'a> {
    /// The port.
    pub own: End<'a>,
    /// The other end; `None` if there is no link.
    pub peer: Option<End<'a>>,
    /// Data rate in Gb/s, if known.
    pub gbps: Option<f64>,
}

/// A device of a [`Net`]: a switch, or one port of an HCA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetDevice {
    /// Port GUID.
    pub guid: Guid,
    /// LID, 0 if unknown.
    pub lid: Lid,
    /// Role.
    pub role: Role,
    /// Node description; empty if unknown.
    pub name: Box<str>,
}

/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Channel {
    /// The sending port.
    pub from: (DeviceIndex, PortNum),
    /// The receiving port.
    pub to: (DeviceIndex, PortNum),
    /// Data rate in Gb/s, if known.
    pub gbps: Option<f64>,
}

/// The devices and links of a fabric.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Net {
    /// Devices in the order of their GUIDs.
    devices: Vec<NetDevice>,
    /// Both directions of all links, in the order of their sending ports.
    channels: Vec<Channel>,
    /// Index of port 0 of each device in `ports`; one more at the end.
    first: Vec<u32>,
    /// The channel of each sending port, or [`NONE`].
    ports: Vec<ChannelIndex>,
}

impl Net {
    /// Creates the net of these ports. One end of a link is enough.
    pub fn new<'a>(ports: impl IntoIterator<Item = NetPort<'a>>) -> Self {
        // All ports of a switch have one GUID. HCA ports may share one in a faulty file.
        let device = |end: &End<'_>| match end.role {
            Role::Switch => (end.guid, PortNum(0)),
            _ => (end.guid, end.port),
        };
        let mut devices: BTreeMap<PortKey, NetDevice> = BTreeMap::new();
        let mut links = BTreeMap::new();
        for NetPort { own, peer, gbps } in ports {
            for end in [Some(own), peer].into_iter().flatten() {
                let known = devices.entry(device(&end)).or_insert_with(|| NetDevice {
                    guid: end.guid,
                    lid: end.lid,
                    role: end.role,
                    name: end.name.into(),
                });
                if known.name.is_empty() {
                    known.name = end.name.into();
                }
                if known.lid == Lid(0) {
                    known.lid = end.lid;
                }
            }
            if let Some(peer) = peer {
                let (own, peer) = ((device(&own), own.port), (device(&peer), peer.port));
                links.insert(own, (peer, gbps));
                links.entry(peer).or_insert((own, gbps));
            }
        }
        let index: FxHashMap<PortKey, DeviceIndex> = devices.keys().copied().zip(0..).collect();
        let channel = |(from, (to, gbps)): ((PortKey, PortNum), ((PortKey, PortNum), _))| Channel {
            from: (index[&from.0], from.1),
            to: (index[&to.0], to.1),
            gbps,
        };
        let channels: Vec<Channel> = links.into_iter().map(channel).collect();
        let mut sizes = vec![0_u32; devices.len()];
        for Channel { from, .. } in &channels {
            let size = &mut sizes[from.0 as usize];
            *size = (*size).max(u32::from(from.1.0) + 1);
        }
        let mut first = vec![0];
        for size in sizes {
            first.push(first.last().copied().unwrap_or(0) + size);
        }
        let mut ports = vec![NONE; first.last().copied().unwrap_or(0) as usize];
        for (index, Channel { from, .. }) in (0..).zip(&channels) {
            ports[(first[from.0 as usize] + u32::from(from.1.0)) as usize] = index;
        }
        Self {
            devices: devices.into_values().collect(),
            channels,
            first,
            ports,
        }
    }

    /// Creates the net of the ports in records. A device without records is a switch if it has a
    /// forwarding table, or if it does not look like an HCA port.
    pub fn of_records(ports: &BTreeMap<PortKey, PortSummary>, routes: &Routes) -> Self {
        let silent = silent_hosts(ports);
        let role = |guid: Guid| {
            let mut own = ports.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)));
            match own.next().map(|(_, port)| port.kind) {
                Some(Some(NodeKind::Switch)) => Role::Switch,
                Some(Some(NodeKind::Router)) => Role::Other,
                _ if routes.table(guid).is_some() => Role::Switch,
                None if !silent.contains(&guid) => Role::Switch,
                _ => Role::Host,
            }
        };
        Self::new(ports.iter().map(|(key, port)| NetPort {
            own: End {
                guid: key.0,
                port: key.1,
                lid: port.lid,
                role: role(key.0),
                name: &port.node,
            },
            peer: port.peer.map(|peer| End {
                guid: peer.0,
                port: peer.1,
                lid: ports.get(&peer).map_or(Lid(0), |peer| peer.lid),
                role: role(peer.0),
                name: &port.peer_name,
            }),
            gbps: port.gbps(),
        }))
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[NetDevice] {
        &self.devices
    }

    /// Returns both directions of all links.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// Returns a channel.
    pub fn channel(&self, index: ChannelIndex) -> &Channel {
        &self.channels[index as usize]
    }

    /// Returns the channel of a sending port, or `None` if the port has no link.
    pub fn channel_of(&self, device: DeviceIndex, port: PortNum) -> Option<ChannelIndex> {
        let [first, end] = [0, 1].map(|next| self.first[device as usize + next]);
        let place = first + u32::from(port.0);
        let found = (place < end).then(|| self.ports[place as usize]);
        found.filter(|channel| *channel != NONE)
    }

    /// Returns the channel of a sending port in records.
    pub fn channel_from(&self, (guid, port): PortKey) -> Option<ChannelIndex> {
        let first = self.devices.partition_point(|device| device.guid < guid);
        let after = (first as DeviceIndex..).zip(&self.devices[first..]);
        let mut own = after.take_while(|(_, device)| device.guid == guid);
        own.find_map(|(device, _)| self.channel_of(device, port))
    }

    /// Returns the channels that leave a device.
    pub fn channels_from(&self, device: DeviceIndex) -> impl Iterator<Item = ChannelIndex> {
        let [first, end] = [0, 1].map(|next| self.first[device as usize + next] as usize);
        let ports = self.ports[first..end].iter().copied();
        ports.filter(|channel| *channel != NONE)
    }

    /// Returns the devices with a role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = DeviceIndex> {
        let devices = (0..).zip(&self.devices);
        devices
            .filter(move |(_, device)| device.role == role)
            .map(|(index, _)| index)
    }

    /// Returns the name of a port.
    pub fn name(&self, (device, port): (DeviceIndex, PortNum)) -> PortName {
        let device = &self.devices[device as usize];
        PortName::new(&device.name, (device.guid, port))
    }

    /// Returns the key of a port in records.
    pub fn key(&self, (device, port): (DeviceIndex, PortNum)) -> PortKey {
        (self.devices[device as usize].guid, port)
    }

    /// Returns the devices with this GUID, node description or host name, which is the first word
    /// of the node description.
    pub fn find(&self, text: &str) -> Vec<DeviceIndex> {
        let guid: Option<Guid> = text.parse().ok();
        let is_it = |device: &NetDevice| {
            let name = device.name.trim();
            let host = name.split_whitespace().next();
            Some(device.guid) == guid || name == text.trim() || host == Some(text)
        };
        let devices = (0..).zip(&self.devices);
        devices
            .filter(|(_, device)| device.role != Role::Other && is_it(device))
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns the tier of each device: 1 for a switch with hosts, 2 for its neighbours without
    /// hosts, and so on; 0 for a host, and for a switch that no link connects with one.
    pub fn tiers(&self) -> Vec<u16> {
        let mut tiers = vec![0; self.devices.len()];
        let mut last: Vec<DeviceIndex> = self.with_role(Role::Host).collect();
        for tier in 1.. {
            let mut found = Vec::new();
            for device in last {
                for channel in self.channels_from(device) {
                    let (to, _) = self.channel(channel).to;
                    let is_switch = self.devices[to as usize].role == Role::Switch;
                    if is_switch && tiers[to as usize] == 0 {
                        tiers[to as usize] = tier;
                        found.push(to);
                    }
                }
            }
            if found.is_empty() {
                break;
            }
            last = found;
        }
        tiers
    }
}
