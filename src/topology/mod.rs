//! What is plugged where: the fabric as a net file tells it.
//!
//! [`ports_report`] reads what `ibnetdiscover -p` printed and makes a [`Fabric`]; [`names`] settles the names of a link's two
//! ends; [`graph`] knows hops and tiers; [`synthetic`] invents fabrics for rehearsals and tests.
//!
//! The unit is the [`Device`]: whatever answers at one LID. A switch with all of its ports is one device; each port of an HCA
//! is a device of its own. The key of a port is (port GUID, port number), never its name and never its LID.

use crate::types::{Guid, Lid, LinkRate, NodeKind, PortNum};

pub mod graph;
pub mod names;
pub mod ports_report;
pub mod synthetic;

pub use graph::Graph;
pub use ports_report::{NetFileError, Remark, RemarkKind};

/// The index of a device in [`Fabric::devices`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u32);

/// A fabric: its devices in the order of (GUID, port), whatever the order of the file was.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Sorted by (GUID, number of the first port).
    devices: Vec<Device>,
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
    /// Ascending by number. Ports without a link are listed too.
    pub ports: Vec<Port>,
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
        Self { devices }
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

    /// Whether a device is the aggregation node of a switch's SHARP engine rather than a host's adapter.
    ///
    /// It is an HCA on a switch of which at least two of three things are true, since each alone may be chance or the work of whoever wrote the
    /// name: it carries the firmware's name; its GUID lies where the firmware puts it (8 above the switch's on EDR and HDR, 16 on NDR); it sits on
    /// the switch's highest port.
    pub fn is_aggregation_node(&self, device: &Device) -> bool {
        let Some((_, peer)) = device.linked().next() else { return false };
        if device.kind != NodeKind::Hca || peer.kind != NodeKind::Switch {
            return false;
        }
        let named = device.name.contains("Aggregation Node");
        let beside = matches!(device.guid.0.wrapping_sub(peer.guid.0), 8 | 16);
        let switch = self.find(peer.guid, peer.port).map(|id| self.device(id));
        let highest = switch.and_then(|switch| switch.ports.last()).is_some_and(|last| last.num == peer.port);
        u8::from(named) + u8::from(beside) + u8::from(highest) >= 2
    }

    /// Ports with a link.
    pub fn linked_ports(&self) -> usize {
        self.devices.iter().map(Device::linked_ports).sum()
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
