//! Simulated traffic that is caused by the hosts: a flood of IPoIB packets, and a storm of NFS
//! requests over IPoIB.
//!
//! The port counters of InfiniBand show the bytes of both, but only counters of the hosts
//! distinguish IPoIB and NFS from other traffic. These scenarios therefore test whether a cause is
//! found with the counters of the fabric and of the hosts together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::traffic::{Demand, Flow, Traffic, sends};
use crate::time::Instant;
use crate::topology::{DeviceId, Fabric};

/// Max number of hosts of each of the two leaf switches of a flood.
const FLOOD_HOSTS: usize = 16;

/// Bytes that a host sends per second in a flood: 24 Gb/s, a usual rate of IPoIB.
const FLOOD_RATE: f64 = 3e9;

/// Max number of clients of a storm, and of clients at one leaf switch.
const STORM_CLIENTS: usize = 32;
const STORM_HOSTS: usize = 16;

/// Bytes that a client writes per second in a storm, if the servers are fast enough.
const STORM_RATE: f64 = 2.5e9;

/// Bytes of an NFS write request: the usual `wsize` of Linux.
const WRITE_OCTETS: u64 = 1 << 20;

/// First letters of the names of storage servers, in the order of the servers.
const SERVERS: [&str; 3] = ["nfs", "oss", "mds"];

/// Kind of a storm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StormKind {
    /// The hosts of two leaf switches send to each other by IPoIB.
    IpoibFlood,
    /// Clients write to storage servers by NFS over IPoIB.
    NfsStorm,
}

/// IPoIB traffic between hosts for some time.
#[derive(Clone, PartialEq, Debug)]
pub struct Storm {
    /// Kind of the traffic.
    pub kind: StormKind,
    /// Senders, each with its destination.
    pub pairs: Vec<(DeviceId, DeviceId)>,
    /// Start of the traffic.
    pub start: Instant,
    /// Length of the traffic.
    pub length: Duration,
    octets_per_second: f64,
}

/// Storms one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StormOrder {
    /// Only one kind.
    Only(StormKind),
    /// First a flood, then a storm, with a pause of half their length.
    FloodThenStorm,
}

impl StormOrder {
    /// Returns the storms, or `None` if the fabric is too small.
    pub fn storms(self, fabric: &Fabric, start: Instant, length: Duration) -> Option<Vec<Storm>> {
        match self {
            Self::Only(StormKind::IpoibFlood) => {
                Some(vec![Storm::ipoib_flood(fabric, start, length)?])
            }
            Self::Only(StormKind::NfsStorm) => Some(vec![Storm::nfs_storm(fabric, start, length)?]),
            Self::FloodThenStorm => {
                let after = start + length + length / 2;
                Some(vec![
                    Storm::ipoib_flood(fabric, start, length)?,
                    Storm::nfs_storm(fabric, after, length)?,
                ])
            }
        }
    }
}

/// Bytes and requests of one host since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostCounters {
    /// Bytes that its IPoIB interface sent.
    pub ipoib_sent: u64,
    /// Bytes that its IPoIB interface received.
    pub ipoib_received: u64,
    /// Write requests that its NFS client sent.
    pub nfs_writes: u64,
}

impl Storm {
    /// Returns a flood: up to 16 hosts of the first leaf switch, and as many of the second, send
    /// to each other. Returns `None` if the fabric has fewer than two leaf switches.
    pub fn ipoib_flood(fabric: &Fabric, start: Instant, length: Duration) -> Option<Self> {
        let leaves = by_switch(fabric);
        let (one, two) = (leaves.first()?, leaves.get(1)?);
        let pairs = one
            .iter()
            .zip(two)
            .take(FLOOD_HOSTS)
            .flat_map(|(a, b)| [(*a, *b), (*b, *a)])
            .collect();
        Some(Self {
            kind: StormKind::IpoibFlood,
            pairs,
            start,
            length,
            octets_per_second: FLOOD_RATE,
        })
    }

    /// Returns a storm: up to 32 clients, at most 16 of each leaf switch, write to the storage
    /// servers, and half of them write to the first server. Servers are the hosts whose names
    /// begin with `nfs`, `oss` or `mds`, or else the last host alone. Returns `None` if the fabric
    /// has fewer than two hosts.
    pub fn nfs_storm(fabric: &Fabric, start: Instant, length: Duration) -> Option<Self> {
        let leaves = by_switch(fabric);
        let is_server = |id: &DeviceId| {
            SERVERS
                .iter()
                .any(|server| fabric.device(*id).host().starts_with(server))
        };
        let all = || leaves.iter().flatten().copied();
        let mut servers: Vec<DeviceId> = all().filter(is_server).collect();
        servers.sort_by_key(|id| {
            SERVERS
                .iter()
                .position(|server| fabric.device(*id).host().starts_with(server))
        });
        if servers.is_empty() {
            servers.extend(all().last());
        }
        // The first two leaf switches come last, because a flood uses them.
        let (flooded, others) = leaves.split_at(leaves.len().min(2));
        let of_switch = others
            .iter()
            .chain(flooded)
            .flat_map(|hosts| hosts.iter().take(STORM_HOSTS).copied());
        let clients = of_switch
            .filter(|id| !servers.contains(id))
            .take(STORM_CLIENTS);
        let server = |client: usize| {
            servers
                .get(if client.is_multiple_of(2) {
                    0
                } else {
                    client / 2 % servers.len()
                })
                .copied()
        };
        let pairs: Vec<_> = clients
            .enumerate()
            .filter_map(|(number, client)| Some((client, server(number)?)))
            .collect();
        (!pairs.is_empty()).then_some(Self {
            kind: StormKind::NfsStorm,
            pairs,
            start,
            length,
            octets_per_second: STORM_RATE,
        })
    }

    fn demands(&self) -> impl Iterator<Item = Demand> {
        let flow = Flow::once(self.octets_per_second, self.start, self.length);
        self.pairs.iter().map(move |(from, to)| Demand {
            from: *from,
            to: *to,
            flow,
        })
    }
}

/// The hosts of storms, and their part of the traffic.
#[derive(Debug)]
pub struct StormHosts {
    flows: Vec<StormFlow>,
}

#[derive(Debug)]
struct StormFlow {
    kind: StormKind,
    from: DeviceId,
    to: DeviceId,
    /// Index of the flow in the traffic.
    index: usize,
}

impl StormHosts {
    /// Returns the traffic of storms, together with jobs whose rate is so low that they fill no
    /// link.
    pub fn with_traffic(fabric: &Fabric, seed: u64, storms: &[Storm]) -> (Self, Traffic) {
        let mut demands = Demand::background(fabric, seed);
        let first = demands.len();
        demands.extend(storms.iter().flat_map(Storm::demands));
        let (traffic, indices) = Traffic::routed_with_indices(fabric, &demands);
        let kinds = storms
            .iter()
            .flat_map(|storm| storm.pairs.iter().map(|_| storm.kind));
        let of_storms = kinds.zip(demands.iter().zip(indices).skip(first));
        let flow = |(kind, (demand, index)): (_, (&Demand, Option<usize>))| {
            Some(StormFlow {
                kind,
                from: demand.from,
                to: demand.to,
                index: index?,
            })
        };
        (
            Self {
                flows: of_storms.filter_map(flow).collect(),
            },
            traffic,
        )
    }

    /// Returns the counters of a host for the traffic of the storms by `now`. `traffic` must have
    /// been made together with these hosts.
    pub fn counters(&self, host: DeviceId, traffic: &Traffic, now: Instant) -> HostCounters {
        let mut counters = HostCounters::default();
        for flow in &self.flows {
            if flow.from == host {
                let octets = traffic.octets(flow.index, now);
                counters.ipoib_sent += octets;
                counters.nfs_writes += if flow.kind == StormKind::NfsStorm {
                    octets / WRITE_OCTETS
                } else {
                    0
                };
            }
            if flow.to == host {
                counters.ipoib_received += traffic.octets(flow.index, now);
            }
        }
        counters
    }
}

/// Returns the hosts with traffic, by the switch to which they are linked.
fn by_switch(fabric: &Fabric) -> Vec<Vec<DeviceId>> {
    let mut switches: BTreeMap<_, Vec<DeviceId>> = BTreeMap::new();
    for id in fabric
        .iter()
        .map(|(id, _)| id)
        .filter(|id| sends(fabric, *id))
    {
        let switch = fabric.device(id).linked().next().map(|(_, peer)| peer.guid);
        switches.entry(switch).or_default().push(id);
    }
    switches.into_values().collect()
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::PortNum;

    use super::super::traffic::PACKET_OCTETS;
    use super::*;
    use crate::topology::{ports_report, synthetic};

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn counters_of_hosts_agree_with_the_counters_of_their_ports() {
        let fabric = ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
            .expect("a valid ports report")
            .fabric;
        let flood = Storm::ipoib_flood(&fabric, at(5), Duration::from_secs(10))
            .expect("many leaf switches");
        let storm = Storm::nfs_storm(&fabric, at(20), Duration::from_secs(10)).expect("many hosts");
        let (sender, _) = flood.pairs[0];
        let (client, server) = storm.pairs[0];
        let (hosts, traffic) = StormHosts::with_traffic(&fabric, 1, &[flood, storm.clone()]);
        let only = |from, to, host| {
            let (before, after) = (
                hosts.counters(host, &traffic, at(from)),
                hosts.counters(host, &traffic, at(to)),
            );
            let sent = traffic.sent(host, PortNum(1), at(to)).packets
                - traffic.sent(host, PortNum(1), at(from)).packets;
            (
                after.ipoib_sent - before.ipoib_sent,
                after.nfs_writes - before.nfs_writes,
                sent * PACKET_OCTETS,
            )
        };
        let (ipoib, nfs, port) = only(5, 15, sender);
        assert!(
            nfs == 0
                && ipoib > 20_000_000_000
                && port >= ipoib
                && ipoib.is_multiple_of(PACKET_OCTETS),
            "{ipoib} {nfs} {port}"
        );
        assert_eq!(only(15, 20, sender).0, 0, "nothing between the two");
        let (ipoib, nfs, port) = only(20, 30, client);
        assert!(
            nfs.abs_diff(ipoib / WRITE_OCTETS) <= 1 && nfs > 1000 && port >= ipoib,
            "{ipoib} {nfs} {port}"
        );
        // Half of the clients fill the link of the first server: 99.5 Gb/s for ten seconds.
        let received = hosts.counters(server, &traffic, at(30)).ipoib_received;
        assert!(
            (100_000_000_000..124_400_000_000).contains(&received),
            "{received}"
        );
        assert!(
            storm.pairs.iter().filter(|(_, to)| *to == server).count() >= storm.pairs.len() / 2
        );
        assert!(fabric.device(server).host().starts_with("oss"), "a server");
    }
}
