//! What is plugged where: the fabric as a net file tells it.
//!
//! [`net_file`] is the door: it tells the two formats of `ibnetdiscover` apart, [`ports_report`] (`-p`) and [`topology_report`] (the plain one), and
//! makes a [`Fabric`] of each subnet. [`names`] settles the names of a link's two ends, [`name_map`] gives those that an administrator gave; [`sharp`]
//! knows aggregation nodes, [`graph`] hops and tiers; [`anonymise`] takes names and GUIDs out of a net file, [`synthetic`] and [`shapes`] invent
//! fabrics.
//!
//! The unit is the [`Device`]: whatever answers at one LID. A switch with all of its ports is one device; each port of an HCA
//! is a device of its own. The key of a port is (port GUID, port number), never its name and never its LID.

use crate::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

pub mod anonymise;
pub mod graph;
mod lines;
pub mod name_map;
pub mod names;
pub mod net_file;
#[path = "ports_lines.rs"]
pub mod ports_report;
pub mod shapes;
pub mod sharp;
pub mod synthetic;
pub mod topology_report;

pub use graph::Graph;
pub use net_file::{NetFile, NetFileError, Remark, RemarkKind};

/// The index of a device in [`Fabric::devices`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// A fabric: its devices in the order of (GUID, port), whatever the order of the file was.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Sorted by (GUID, number of the first port).
    devices: Vec<Device>,
    /// Whether aggregation nodes are sampled as adapters are.
    with_aggregation_nodes: bool,
}

/// Something that answers at one LID: a switch with its ports, or one port of an HCA or a router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// The port GUID as `ibnetdiscover` prints it; all ports of a switch share that of port 0.
    pub guid: Guid,
    /// The base LID; 0 where none was known.
    pub lid: Lid,
    /// Switch, HCA or router.
    pub kind: NodeKind,
    /// The node description or the name map's entry. Written by strangers: show it through [`Printable`](crate::types::Printable).
    pub name: String,
    /// What is known of the node that it is part of.
    pub node: Node,
    /// Ascending by number. Ports without a link are listed as far as the file lists them: the plain format does not.
    pub ports: Vec<Port>,
}

/// What only the plain format tells of a node: a whole switch, or all ports of an HCA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Its node GUID, by which name maps go.
    pub guid: Option<Guid>,
    /// The system image GUID: equal for all nodes of one box or card.
    pub system_image: Option<Guid>,
    /// Who made it.
    pub vendor_id: Option<u32>,
    /// Which of the vendor's devices it is.
    pub device_id: Option<u32>,
    /// How many ports it has, linked or not.
    pub ports: Option<u8>,
}

/// Where something stands: which of the net files, from 0 in the order in which they were given, and its line, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place {
    /// The index of the file in [`NetFile::names`].
    pub file: u16,
    /// The line.
    pub line: u32,
}

/// A port, as one line of the net file tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// 1 to 254.
    pub num: PortNum,
    /// Width and speed as printed; of no meaning while there is no link.
    pub rate: LinkRate,
    /// The other end, if there is a link.
    pub peer: Option<Peer>,
    /// The line of the net file.
    pub line: u32,
    /// Which of the net files, by its index in [`NetFile::names`].
    pub file: u16,
}

/// The other end of a link, as the line of this end tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its port GUID.
    pub guid: Guid,
    /// Its LID.
    pub lid: Lid,
    /// Its port number.
    pub port: PortNum,
    /// What it is.
    pub kind: NodeKind,
    /// Its name.
    pub name: String,
}

impl Fabric {
    /// Puts devices in order. The caller has seen to it that no two share (GUID, first port).
    pub(crate) fn new(mut devices: Vec<Device>) -> Self {
        for device in &mut devices {
            device.ports.sort_by_key(|port| port.num);
        }
        devices.sort_by_key(|device| (device.guid, device.ports.first().map(|port| port.num)));
        Self { devices, with_aggregation_nodes: false }
    }

    /// Gives devices other names, by identifier, and the same to them as peers; `stranger` names peers that have no line of their own.
    fn rename(&mut self, names: &[Option<&str>], stranger: impl Fn(Guid) -> Option<String>) {
        let of_peer = |peer: &Peer| match self.find(peer.guid, peer.port) {
            Some(id) => names[id.0 as usize].map(str::to_owned),
            None => stranger(peer.guid),
        };
        let of_peers = |device: &Device| device.ports.iter().map(|port| of_peer(port.peer.as_ref()?)).collect::<Vec<_>>();
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

    /// All devices, sorted by (GUID, first port).
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// All devices with their identifiers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (DeviceId, &Device)> {
        self.devices.iter().enumerate().map(|(index, device)| (DeviceId(index as u32), device))
    }

    /// The device of that identifier.
    ///
    /// # Panics
    /// If the identifier is another fabric's.
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.0 as usize]
    }

    /// The device that has this port, if the file has a line of it.
    pub fn find(&self, guid: Guid, port: PortNum) -> Option<DeviceId> {
        let first = self.devices.partition_point(|device| device.guid < guid);
        self.devices[first..]
            .iter()
            .take_while(|device| device.guid == guid)
            .position(|device| device.kind == NodeKind::Switch || device.port(port).is_some())
            .map(|offset| DeviceId((first + offset) as u32))
    }

    /// Ports with a link.
    pub fn linked_ports(&self) -> usize {
        self.devices.iter().map(Device::linked_ports).sum()
    }
}

impl Port {
    /// Where the file tells of it.
    pub fn place(&self) -> Place {
        Place { file: self.file, line: self.line }
    }
}

impl Node {
    /// Adds what is not known yet.
    pub(crate) fn complete(&mut self, other: Self) {
        self.guid = self.guid.or(other.guid);
        self.system_image = self.system_image.or(other.system_image);
        self.vendor_id = self.vendor_id.or(other.vendor_id);
        self.device_id = self.device_id.or(other.device_id);
        self.ports = self.ports.or(other.ports);
    }
}

impl Device {
    /// The port of that number, if the file has a line of it.
    pub fn port(&self, num: PortNum) -> Option<&Port> {
        self.ports.binary_search_by_key(&num, |port| port.num).ok().map(|index| &self.ports[index])
    }

    /// Ports with a link.
    pub fn linked_ports(&self) -> usize {
        self.linked().count()
    }

    /// The ports that have a link.
    pub fn linked(&self) -> impl Iterator<Item = (&Port, &Peer)> {
        self.ports.iter().filter_map(|port| port.peer.as_ref().map(|peer| (port, peer)))
    }

    /// The first word of the name: by custom the host's name on an HCA.
    pub fn host(&self) -> &str {
        self.name.split_whitespace().next().unwrap_or("")
    }
}
