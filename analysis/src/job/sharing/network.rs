//! The switches, links and hosts in the records, and the path between each pair of hosts.

use std::collections::BTreeMap;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use rustc_hash::FxHashMap;

use crate::job::{HostPort, host_ports, is_leaf_port};
use crate::ports::{PortKey, PortSummary};
use crate::routes::Routes;

/// Max number of switches on a path. A longer path is a loop.
const MAX_HOPS: usize = 64;

/// One direction of a link, as an index of [`Network::links`].
pub(super) type LinkIndex = u32;

pub(super) struct Network<'a> {
    /// Sending ports of switches, including ports without records whose peers have records.
    pub(super) links: Vec<PortKey>,
    index: FxHashMap<PortKey, LinkIndex>,
    /// Receiver of each link.
    peers: Vec<PortKey>,
    pub(super) hosts: Vec<Host<'a>>,
    ports: &'a BTreeMap<PortKey, PortSummary>,
}

/// A port of a host.
pub(super) struct Host<'a> {
    pub(super) port: HostPort<'a>,
    pub(super) lid: Lid,
    /// Switch of the host.
    pub(super) leaf: Option<Guid>,
}

impl<'a> Network<'a> {
    pub(super) fn new(ports: &'a BTreeMap<PortKey, PortSummary>, routes: Option<&Routes>) -> Self {
        let mut network = Self {
            links: Vec::new(),
            index: FxHashMap::default(),
            peers: Vec::new(),
            hosts: Vec::new(),
            ports,
        };
        for (key, port) in ports {
            let Some(peer) = port.peer else { continue };
            let is_switch = port.kind == Some(NodeKind::Switch);
            if is_switch {
                network.add(*key, peer);
            }
            // A port without records, as seen from its peer. The peer of a leaf port is a host.
            let far_is_switch = !is_switch || !is_leaf_port(ports, port);
            if !ports.contains_key(&peer) && far_is_switch {
                network.add(peer, *key);
            }
        }
        for port in host_ports(ports) {
            let summary = ports.get(&port.key);
            let lid = routes
                .and_then(|routes| routes.lid(port.key.0))
                .or_else(|| summary.map(|summary| summary.lid))
                .unwrap_or(Lid(0));
            network.hosts.push(Host {
                lid,
                leaf: port.leaf,
                port,
            });
        }
        network
    }

    fn add(&mut self, from: PortKey, to: PortKey) {
        let next = self.links.len() as LinkIndex;
        if self.index.insert(from, next).is_none() {
            self.links.push(from);
            self.peers.push(to);
        }
    }

    /// Returns the receiving port of a link.
    pub(super) fn peer(&self, link: LinkIndex) -> PortKey {
        self.peers[link as usize]
    }

    /// Returns the index of the link of a sending port.
    pub(super) fn index_of(&self, port: PortKey) -> Option<LinkIndex> {
        self.index.get(&port).copied()
    }

    /// Returns whether the link ends at another switch.
    pub(super) fn is_between_switches(&self, link: LinkIndex) -> bool {
        let (from, to) = (self.links[link as usize], self.peers[link as usize]);
        let is_host = |key: PortKey| {
            self.ports
                .get(&key)
                .is_some_and(|port| port.kind == Some(NodeKind::Hca))
        };
        let is_silent_host = || {
            !self.ports.contains_key(&to)
                && self
                    .ports
                    .get(&from)
                    .is_some_and(|port| is_leaf_port(self.ports, port))
        };
        !is_host(to) && !is_host(from) && !is_silent_host()
    }

    /// Returns the data rate of a link in a bin, in Gb/s, from the records of either end.
    pub(super) fn load(&self, link: LinkIndex, bin: u64) -> Option<f64> {
        let own = self
            .ports
            .get(&self.links[link as usize])
            .and_then(|port| port.bins.get(bin)?.xmit.mean());
        own.or_else(|| {
            self.ports
                .get(&self.peers[link as usize])?
                .bins
                .get(bin)?
                .rcv
                .mean()
        })
    }

    /// Returns the utilization of a link and the blocked share of its sender in a bin, 0 to 1.
    pub(super) fn usage(&self, link: LinkIndex, bin: u64) -> (f64, f64) {
        let own = self
            .ports
            .get(&self.links[link as usize])
            .and_then(|port| port.bins.get(bin));
        let far = self
            .ports
            .get(&self.peers[link as usize])
            .and_then(|port| port.bins.get(bin));
        let used = own
            .and_then(|bin| bin.xmit_utilization.mean())
            .or_else(|| far?.rcv_utilization.mean());
        (
            used.unwrap_or(0.0),
            own.and_then(|bin| bin.blocked.mean()).unwrap_or(0.0),
        )
    }

    /// Appends the links from the switch of a host to another host, by the forwarding tables.
    /// Returns false, and appends nothing, if the tables do not lead to that host.
    pub(super) fn path(
        &self,
        from: usize,
        to: usize,
        routes: &Routes,
        path: &mut Vec<LinkIndex>,
    ) -> bool {
        let (from, to, start) = (&self.hosts[from], &self.hosts[to], path.len());
        let Some(mut at) = from.leaf else {
            return false;
        };
        for _ in 0..MAX_HOPS {
            let next = routes
                .port(at, to.lid)
                .filter(|port| *port != PortNum(0))
                .and_then(|port| self.index.get(&(at, port)));
            let Some(link) = next else { break };
            path.push(*link);
            let peer = self.peers[*link as usize];
            if peer == to.port.key {
                return true;
            }
            at = peer.0;
        }
        path.truncate(start);
        false
    }
}
