//! The net of the records with its loads, and the path between each pair of hosts.

use std::collections::BTreeMap;

use crate::job::{HostPort, host_ports};
use crate::ports::bins::TimeBin;
use crate::ports::{PortKey, PortSummary};
use crate::routes::Routes;
pub(super) use crate::routing::ChannelIndex as LinkIndex;
use crate::routing::{DeviceIndex, Net, Paths, Role};

pub(super) struct Network<'a> {
    pub(super) net: Net,
    pub(super) hosts: Vec<Host<'a>>,
    ports: &'a BTreeMap<PortKey, PortSummary>,
}

/// A port of a host.
pub(super) struct Host<'a> {
    pub(super) port: HostPort<'a>,
    /// `None` without a link.
    device: Option<DeviceIndex>,
}

impl<'a> Network<'a> {
    pub(super) fn new(ports: &'a BTreeMap<PortKey, PortSummary>, routes: Option<&Routes>) -> Self {
        let none = Routes::default();
        let net = Net::of_records(ports, routes.unwrap_or(&none));
        let host = |port: HostPort<'a>| {
            let channel = net.channel_from(port.key);
            Host {
                device: channel.map(|channel| net.channel(channel).from.0),
                port,
            }
        };
        Self {
            hosts: host_ports(ports).into_iter().map(host).collect(),
            net,
            ports,
        }
    }

    /// Returns the sending and the receiving port of a link.
    pub(super) fn ends(&self, link: LinkIndex) -> [PortKey; 2] {
        let channel = self.net.channel(link);
        [channel.from, channel.to].map(|end| self.net.key(end))
    }

    /// Returns whether each end of a link is a host.
    fn is_host(&self, link: LinkIndex) -> [bool; 2] {
        let channel = self.net.channel(link);
        [channel.from, channel.to]
            .map(|(device, _)| self.net.devices()[device as usize].role == Role::Host)
    }

    /// Returns whether the link is one between switches.
    pub(super) fn is_between_switches(&self, link: LinkIndex) -> bool {
        self.is_host(link) == [false; 2]
    }

    /// Returns the data rate of a link in a bin, in Gb/s, from the records of either end. `None`
    /// for the link of a host to its switch, which is the same as what the host sends.
    pub(super) fn load(&self, link: LinkIndex, bin: u64) -> Option<f64> {
        if self.is_host(link)[0] {
            return None;
        }
        let [own, far] = self.bins(link, bin);
        let own = own.and_then(|bin| bin.xmit.mean());
        own.or_else(|| far?.rcv.mean())
    }

    /// Returns the utilization of a link and the blocked share of its sender in a bin, 0 to 1.
    pub(super) fn usage(&self, link: LinkIndex, bin: u64) -> (f64, f64) {
        let [own, far] = self.bins(link, bin);
        let used = own
            .and_then(|bin| bin.xmit_utilization.mean())
            .or_else(|| far?.rcv_utilization.mean());
        (
            used.unwrap_or(0.0),
            own.and_then(|bin| bin.blocked.mean()).unwrap_or(0.0),
        )
    }

    fn bins(&self, link: LinkIndex, bin: u64) -> [Option<&TimeBin>; 2] {
        self.ends(link)
            .map(|port| self.ports.get(&port)?.bins.get(bin))
    }

    /// Appends the links from the switch of a host to another host, by the forwarding tables.
    /// Returns false, and appends nothing, if the tables do not lead to that host.
    pub(super) fn path(
        &self,
        from: usize,
        to: usize,
        paths: &Paths<'_>,
        path: &mut Vec<LinkIndex>,
    ) -> bool {
        let start = path.len();
        let [from, to] = [from, to].map(|host| self.hosts[host].device);
        let ends = from.and_then(|from| paths.leaf(from)).zip(to);
        let is_whole = ends.is_some_and(|(leaf, to)| paths.trace(leaf, to, path).is_ok());
        if !is_whole {
            path.truncate(start);
        }
        is_whole
    }
}
