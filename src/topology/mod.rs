//! The fabric as net files describe it: devices, ports and links. A *net file* is the output of
//! `ibnetdiscover`.
//!
//! | module | contents |
//! |---|---|
//! | [`net_file`] | reads net files of both formats: one [`Fabric`] for each subnet |
//! | [`ports_report`] | reads the output of `ibnetdiscover -p` |
//! | [`topology_report`] | reads the output of `ibnetdiscover` without `-p` |
//! | [`names`] | separates the names of the two ends of a link |
//! | [`name_map`] | names that an administrator assigned |
//! | `rails` | checks that the HCAs of hosts are cabled to the leaf switches of their rails |
//! | [`sharp`] | finds the aggregation nodes (SHARP) of switches |
//! | [`graph`] | computes hops and tiers |
//! | [`anonymise`] | removes names and GUIDs from a net file |
//! | [`synthetic`], [`shapes`] | generated fabrics |
//!
//! A [`Device`] answers at one LID: a switch with all of its ports is one device, and each port of
//! an HCA is a device of its own. The key of a port is its port GUID and its port number; names
//! and LIDs are never keys.

use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

pub mod anonymise;
pub mod graph;
mod lines;
pub mod name_map;
pub mod names;
pub mod net_file;
mod ports_lines;
pub mod ports_report;
mod rails;
pub mod remark;
pub mod shapes;
pub mod sharp;
pub mod synthetic;
pub mod topology_report;

pub use graph::Graph;
pub use net_file::{NetFile, NetFileError};
pub use remark::{LinePosition, Remark, RemarkKind};

/// Index of a device in [`Fabric::devices`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// The devices of a subnet, sorted by (GUID, port), so the order of the lines in the file does not
/// matter.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Sorted by (GUID, number of the first port).
    devices: Vec<Device>,
    /// Whether aggregation nodes are sampled like other HCAs.
    with_aggregation_nodes: bool,
}

/// A device, which answers at one LID: a switch with its ports, or one port of an HCA or router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Port GUID as `ibnetdiscover` prints it. All ports of a switch share the GUID of port 0.
    pub guid: Guid,
    /// Base LID (the lowest LID of the device), or 0 if it is unknown.
    pub lid: Lid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name: the node description, or the name in the name map. The text is untrusted, so print it
    /// through [`Printable`](ibnet_record::types::Printable).
    pub name: String,
    /// Properties of the node to which the device belongs.
    pub node: Node,
    /// Ports, ascending by number. `ibnetdiscover -p` also lists ports without a link; the plain
    /// format does not.
    pub ports: Vec<Port>,
}

/// Properties of a node, which is a whole switch or all ports of an HCA. Only the plain format
/// contains them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Node GUID, the key of name maps.
    pub guid: Option<Guid>,
    /// System image GUID: equal for all nodes of one chassis or card.
    pub system_image: Option<Guid>,
    /// Vendor ID.
    pub vendor_id: Option<u32>,
    /// Device ID, assigned by the vendor.
    pub device_id: Option<u32>,
    /// Number of ports, linked or not.
    pub ports: Option<u8>,
}

/// A port, as one line of the net file describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// Port number, 1 to 254.
    pub num: PortNum,
    /// Width and speed as printed. They are meaningless without a link.
    pub rate: LinkRate,
    /// The other end of the link. `None` without a link.
    pub peer: Option<Peer>,
    /// Line of the net file, from 1.
    pub line: u32,
    /// Index of the net file in [`NetFile::names`].
    pub file: u16,
}

/// The other end of a link, as the line of this end describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Port GUID.
    pub guid: Guid,
    /// LID.
    pub lid: Lid,
    /// Port number.
    pub port: PortNum,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name.
    pub name: String,
}

impl Fabric {
    /// Creates a fabric and sorts its devices. The pair (GUID, first port) of each device must be
    /// unique.
    pub(crate) fn new(mut devices: Vec<Device>) -> Self {
        for device in &mut devices {
            device.ports.sort_by_key(|port| port.num);
        }
        devices.sort_by_key(|device| (device.guid, device.ports.first().map(|port| port.num)));
        Self {
            devices,
            with_aggregation_nodes: false,
        }
    }

    /// Renames devices, also as peers of other devices. `names` is indexed by [`DeviceId`], and
    /// `other` returns the names of peers that have no line of their own.
    fn rename(&mut self, names: &[Option<&str>], other: impl Fn(Guid) -> Option<String>) {
        let of_peer = |peer: &Peer| match self.find(peer.guid, peer.port) {
            Some(id) => names[id.0 as usize].map(str::to_owned),
            None => other(peer.guid),
        };
        let of_peers = |device: &Device| {
            device
                .ports
                .iter()
                .map(|port| of_peer(port.peer.as_ref()?))
                .collect::<Vec<_>>()
        };
        let peers: Vec<_> = self.devices.iter().map(of_peers).collect();
        for ((device, name), peers) in self.devices.iter_mut().zip(names).zip(peers) {
            if let Some(name) = name {
                (*name).clone_into(&mut device.name);
            }
            for (port, name) in device.ports.iter_mut().zip(peers) {
                if let Some((peer, name)) = port.peer.as_mut().zip(name) {
                    peer.name = name;
                }
            }
        }
    }

    /// Returns all devices, sorted by (GUID, first port).
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Returns all devices with their identifiers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (DeviceId, &Device)> {
        self.devices
            .iter()
            .enumerate()
            .map(|(index, device)| (DeviceId(index as u32), device))
    }

    /// Returns a device.
    ///
    /// # Panics
    /// Panics if the identifier belongs to another fabric.
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.0 as usize]
    }

    /// Returns the device of a port, or `None` if the file has no line for the port.
    pub fn find(&self, guid: Guid, port: PortNum) -> Option<DeviceId> {
        let first = self.devices.partition_point(|device| device.guid < guid);
        self.devices[first..]
            .iter()
            .take_while(|device| device.guid == guid)
            .position(|device| device.kind == NodeKind::Switch || device.port(port).is_some())
            .map(|offset| DeviceId((first + offset) as u32))
    }

    /// Returns the number of linked ports of all devices.
    pub fn linked_ports(&self) -> usize {
        self.devices.iter().map(Device::linked_ports).sum()
    }
}

impl Port {
    /// Returns the file and line that describe the port.
    pub fn position(&self) -> LinePosition {
        LinePosition {
            file: self.file,
            line: self.line,
        }
    }
}

impl Node {
    /// Takes the properties that this node lacks from another description of the node.
    pub(crate) fn complete(&mut self, other: Self) {
        self.guid = self.guid.or(other.guid);
        self.system_image = self.system_image.or(other.system_image);
        self.vendor_id = self.vendor_id.or(other.vendor_id);
        self.device_id = self.device_id.or(other.device_id);
        self.ports = self.ports.or(other.ports);
    }
}

impl Device {
    /// Returns a port, or `None` if the file has no line for it.
    pub fn port(&self, num: PortNum) -> Option<&Port> {
        self.ports
            .binary_search_by_key(&num, |port| port.num)
            .ok()
            .map(|index| &self.ports[index])
    }

    /// Returns the number of linked ports.
    pub fn linked_ports(&self) -> usize {
        self.linked().count()
    }

    /// Returns the linked ports with their peers.
    pub fn linked(&self) -> impl Iterator<Item = (&Port, &Peer)> {
        self.ports
            .iter()
            .filter_map(|port| port.peer.as_ref().map(|peer| (port, peer)))
    }

    /// Returns the first word of the name. By convention this is the host name of an HCA.
    pub fn host(&self) -> &str {
        self.name.split_whitespace().next().unwrap_or("")
    }
}

/// Returns the system name of a managed switch, and its board and ASIC: `director`, 16 and 2 in
/// `MF0;director:CS8500/L16/U2`. A switch with one ASIC has board 0.
pub fn system(name: &str) -> Option<(&str, u32, u32)> {
    let (system, place) = name.strip_prefix("MF0;")?.split_once(':')?;
    let number = |letter: char| {
        let part = place
            .split('/')
            .skip(1)
            .find_map(|part| part.strip_prefix(letter))?;
        part.parse().ok()
    };
    Some((system, number('L').unwrap_or(0), number('U').unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_names_are_read() {
        assert_eq!(system("MF0;leaf01:MQM8700/U1"), Some(("leaf01", 0, 1)));
        assert_eq!(system("MF0;core:CS8500/L16/U2"), Some(("core", 16, 2)));
        assert_eq!(system("leaf01"), None);
    }
}
