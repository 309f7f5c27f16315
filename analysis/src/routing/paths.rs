//! The next link of a packet by the forwarding tables, and the path of a pair of hosts.

use ibnet_record::rail;
use ibnet_record::types::{Lid, PortNum, Printable};

use super::net::{ChannelIndex, DeviceIndex, Net, Role};
use crate::routes::{Routes, port_of};

/// Max number of links of a path. A longer one is a loop.
const MAX_LINKS: usize = 64;

/// A net with its forwarding tables.
#[derive(Clone, Debug)]
pub struct Paths<'a> {
    /// The net.
    pub net: &'a Net,
    /// The table of each device.
    tables: Vec<Option<&'a [u8]>>,
    /// The LID of each device: that of the file with the tables, or else that of the net.
    lids: Vec<Lid>,
}

/// Why a packet does not come to its destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stop {
    /// The file has no table of the switch.
    NoTable,
    /// The table of the switch has no port for the LID.
    NoRoute,
    /// The port in the table has no link.
    DeadPort(PortNum),
    /// The port in the table leads to another host, or to the switch itself (port 0).
    Elsewhere(PortNum),
    /// The switches send the packet around in a loop. The port is one of the loop.
    Loop(PortNum),
}

/// A switch that does not forward a packet to its destination.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stopped {
    /// The switch, or the sender if it has no link.
    pub at: DeviceIndex,
    /// The reason.
    pub why: Stop,
}

impl Stopped {
    /// Returns the reason as a part of a sentence. `to` is the destination.
    pub fn reason(&self, paths: &Paths<'_>, to: DeviceIndex) -> String {
        let switch = Printable(paths.net.devices()[self.at as usize].name.trim());
        let lid = paths.lid(to);
        match self.why {
            Stop::NoTable => format!("there is no table of {switch}"),
            Stop::NoRoute => format!("{switch} has no port for LID {lid}"),
            Stop::DeadPort(port) => format!("port {port} of {switch} has no link in the records"),
            Stop::Elsewhere(port) => format!("port {port} of {switch} leads elsewhere"),
            Stop::Loop(port) => format!("the packets come back to port {port} of {switch}"),
        }
    }
}

/// Returns the pairs of a sender and a receiver among the devices of two hosts. Of hosts with
/// several HCA ports, those of the same rail are a pair, and a port without such a partner sends to
/// the first port.
pub fn pairs(
    net: &Net,
    senders: &[DeviceIndex],
    receivers: &[DeviceIndex],
) -> Vec<(DeviceIndex, DeviceIndex)> {
    let with_rails = |found: &[DeviceIndex]| {
        let port = |device: &DeviceIndex| {
            let node = &net.devices()[*device as usize];
            (node.guid, PortNum(1), &*node.name)
        };
        let rails = rail::of_host(&found.iter().map(port).collect::<Vec<_>>());
        found.iter().copied().zip(rails).collect::<Vec<_>>()
    };
    let (senders, receivers) = (with_rails(senders), with_rails(receivers));
    let pair = |(sender, rail): &(DeviceIndex, String)| {
        let same = receivers.iter().find(|(_, other)| other == rail);
        same.or_else(|| receivers.first())
            .map(|(receiver, _)| (*sender, *receiver))
    };
    senders.iter().filter_map(pair).collect()
}

impl<'a> Paths<'a> {
    /// Combines a net with forwarding tables.
    pub fn new(net: &'a Net, routes: &'a Routes) -> Self {
        let devices = net.devices();
        let tables = devices.iter().map(|device| {
            let table = routes.table(device.guid);
            table.filter(|_| device.role == Role::Switch)
        });
        let lids = devices
            .iter()
            .map(|device| routes.lid(device.guid).unwrap_or(device.lid));
        Self {
            net,
            tables: tables.collect(),
            lids: lids.collect(),
        }
    }

    /// Returns the LID of a device, 0 if unknown.
    pub fn lid(&self, device: DeviceIndex) -> Lid {
        self.lids[device as usize]
    }

    /// Returns the table of a switch.
    pub fn table(&self, device: DeviceIndex) -> Option<&'a [u8]> {
        self.tables[device as usize]
    }

    /// Returns the switches without a table.
    pub fn without_table(&self) -> Vec<DeviceIndex> {
        let switches = self.net.with_role(Role::Switch);
        switches
            .filter(|switch| self.table(*switch).is_none())
            .collect()
    }

    /// Returns the hosts that can be the ends of paths: those with a LID and a link to a switch.
    pub fn hosts(&self) -> Vec<DeviceIndex> {
        let is_end = |host: &DeviceIndex| self.lid(*host).0 > 0 && self.leaf(*host).is_some();
        self.net.with_role(Role::Host).filter(is_end).collect()
    }

    /// Returns the switch of a host.
    pub fn leaf(&self, host: DeviceIndex) -> Option<DeviceIndex> {
        let channel = self.net.channels_from(host).next()?;
        let (leaf, _) = self.net.channel(channel).to;
        (self.net.devices()[leaf as usize].role == Role::Switch).then_some(leaf)
    }

    /// Returns the channel by which a switch forwards to a device.
    ///
    /// # Errors
    /// Returns why the switch does not forward to the device.
    pub fn next(&self, at: DeviceIndex, to: DeviceIndex) -> Result<ChannelIndex, Stop> {
        let table = self.table(at).ok_or(Stop::NoTable)?;
        let port = port_of(table, self.lid(to)).ok_or(Stop::NoRoute)?;
        if port == PortNum(0) {
            return Err(Stop::Elsewhere(port));
        }
        let channel = self.net.channel_of(at, port).ok_or(Stop::DeadPort(port))?;
        let (next, _) = self.net.channel(channel).to;
        if next == to || self.net.devices()[next as usize].role == Role::Switch {
            Ok(channel)
        } else {
            Err(Stop::Elsewhere(port))
        }
    }

    /// Appends the channels from one device to another to `path`.
    ///
    /// # Errors
    /// Returns where the path ends before. The channels up to there are in `path`.
    pub fn trace(
        &self,
        from: DeviceIndex,
        to: DeviceIndex,
        path: &mut Vec<ChannelIndex>,
    ) -> Result<(), Stopped> {
        let mut at = from;
        for _ in 0..MAX_LINKS {
            if at == to {
                return Ok(());
            }
            let is_switch = self.net.devices()[at as usize].role == Role::Switch;
            let next = if is_switch {
                self.next(at, to)
            } else {
                let channel = self.net.channels_from(at).next();
                channel.ok_or(Stop::DeadPort(PortNum(1)))
            };
            let channel = next.map_err(|why| Stopped { at, why })?;
            path.push(channel);
            (at, _) = self.net.channel(channel).to;
        }
        let port = path
            .last()
            .map_or(PortNum(0), |last| self.net.channel(*last).from.1);
        Err(Stopped {
            at: path
                .last()
                .map_or(from, |last| self.net.channel(*last).from.0),
            why: Stop::Loop(port),
        })
    }
}
