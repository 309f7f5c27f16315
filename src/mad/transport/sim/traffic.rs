//! Traffic of the simulated fabric.
//!
//! 1. A flow goes from one adapter to another on one shortest way, the same at all times: each switch picks among its equal links by
//!    the destination alone, as a linear forwarding table does.
//! 2. A flow bursts: it is on for a part of each period. What it has sent by an instant is a closed form of that instant, so a counter
//!    can be read at any time without the fabric being stepped.
//! 3. What a port has transmitted is the sum over the flows that leave by it; what a port has received is **by definition** what the
//!    other end of its link has transmitted. Links conserve.
//! 4. Where flows ask for more than a link carries, each is slowed to its share, and the ports on its way up to that link count
//!    PortXmitWait for the time in which they could not send.
//! 5. Same fabric, same seed: same counters.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Instant;
use crate::topology::graph::UNREACHABLE;
use crate::topology::{DeviceId, Fabric, Graph};
use crate::types::{NodeKind, PortNum};

/// Octets that a data packet counts for: LRH 8, BTH 12, 4096 of payload, ICRC 4.
pub const PACKET_OCTETS: u64 = 4120;

/// What a full link counts of its data rate: delimiters, VCRC and link packets are not counted.
const COUNTED: f64 = 0.995;

/// What a port without a known rate is taken to carry, in Gb/s.
pub(super) const DEFAULT_GBPS: f64 = 100.0;

/// All flows of a fabric, by the ports that they leave by.
#[derive(Debug, Default)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// For each (device, port) that something leaves by: which flows, and what share of their time they wait there, in millionths.
    egress: BTreeMap<(DeviceId, PortNum), Vec<(u32, u64)>>,
    /// When the traffic ends; it goes on for ever if `None`.
    end: Option<Instant>,
}

/// What has left by a port since time began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Packets, each of [`PACKET_OCTETS`].
    pub packets: u64,
    /// Time in which there was something to send and nothing was sent.
    pub waited: Duration,
}

/// A stream of packets between two adapters.
#[derive(Clone, Copy, Debug)]
struct Flow {
    octets_per_second: u64,
    period_ns: u64,
    on_ns: u64,
    phase_ns: u64,
}

impl Flow {
    /// Nanoseconds in which it was on, from the zero of time to `now`.
    fn on_time(&self, now: Instant) -> u64 {
        let since_start = |at: u64| at / self.period_ns * self.on_ns + (at % self.period_ns).min(self.on_ns);
        since_start(now.as_nanos() + self.phase_ns) - since_start(self.phase_ns)
    }

    fn packets(&self, now: Instant) -> u64 {
        let octets = u128::from(self.octets_per_second) * u128::from(self.on_time(now)) / 1_000_000_000;
        (octets / u128::from(PACKET_OCTETS)) as u64
    }
}

impl Traffic {
    /// No traffic at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// Jobs of 8 to 48 hosts, each a ring of its own rate and rhythm; and every fourth host writes to one of a few.
    pub fn jobs(fabric: &Fabric, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let adapter = |id: &DeviceId| {
            let device = fabric.device(*id);
            device.kind == NodeKind::Hca && device.linked_ports() > 0 && !fabric.is_aggregation_node(device)
        };
        let mut hosts: Vec<DeviceId> = fabric.iter().map(|(id, _)| id).filter(adapter).collect();
        rng.shuffle(&mut hosts);
        let mut wanted = Vec::new();
        let mut left = &hosts[..];
        while left.len() > 1 {
            let (job, rest) = left.split_at(rng.usize(8..=48).min(left.len()));
            let flow = Flow::random(&mut rng, 1.0..11.0);
            wanted.extend(job.iter().zip(job.iter().cycle().skip(1)).filter(|(from, to)| from != to).map(|(from, to)| (*from, *to, flow)));
            left = rest;
        }
        let servers = &hosts[..hosts.len().min(1 + hosts.len() / 32)];
        for host in hosts.iter().skip(servers.len()).step_by(4) {
            wanted.push((*host, servers[rng.usize(..servers.len())], Flow::random(&mut rng, 0.2..2.0)));
        }
        Self::routed(fabric, &wanted)
    }

    /// Ends all traffic at an instant, so that both ends of a link can be read in peace afterwards.
    #[must_use]
    pub fn until(mut self, end: Instant) -> Self {
        self.end = Some(end);
        self
    }

    /// What has left by this port by `now`.
    pub fn sent(&self, device: DeviceId, port: PortNum, now: Instant) -> Sent {
        let now = self.end.map_or(now, |end| end.min(now));
        let mut sent = Sent::default();
        for (flow, wait_millionths) in self.egress.get(&(device, port)).into_iter().flatten() {
            let flow = &self.flows[*flow as usize];
            sent.packets += flow.packets(now);
            sent.waited += Duration::from_nanos(flow.on_time(now) / 1_000_000 * wait_millionths);
        }
        sent
    }

    /// Lays each flow on its way and slows it to what its way carries.
    fn routed(fabric: &Fabric, wanted: &[(DeviceId, DeviceId, Flow)]) -> Self {
        let graph = Graph::new(fabric);
        let mut routes = Routes { fabric, graph: &graph, hops: BTreeMap::new() };
        let routed = wanted.iter().filter_map(|(from, to, flow)| Some((*flow, routes.way(*from, *to)?)));
        let (flows, ways): (Vec<Flow>, Vec<Vec<(DeviceId, PortNum)>>) = routed.unzip();
        let mut offered: BTreeMap<(DeviceId, PortNum), f64> = BTreeMap::new();
        for (flow, way) in flows.iter().zip(&ways) {
            for hop in way {
                *offered.entry(*hop).or_default() += flow.octets_per_second as f64;
            }
        }
        let capacity = |(device, port): (DeviceId, PortNum)| {
            let gbps = fabric.device(device).port(port).and_then(|port| port.rate.data_gbps()).unwrap_or(DEFAULT_GBPS);
            gbps * 1e9 / 8.0 * COUNTED
        };
        let share = |hop: &(DeviceId, PortNum)| (capacity(*hop) / offered[hop]).min(1.0);
        let mut traffic = Self { flows, egress: BTreeMap::new(), end: None };
        for (number, way) in ways.iter().enumerate() {
            let slowest = way.iter().enumerate().min_by(|a, b| share(a.1).total_cmp(&share(b.1)));
            let Some((bottleneck, factor)) = slowest.map(|(place, hop)| (place, share(hop))) else { continue };
            let flow = &mut traffic.flows[number];
            for (place, hop) in way.iter().enumerate() {
                // Up to the bottleneck the flow's part of the port stands still for as long as it is slowed.
                let part = flow.octets_per_second as f64 / offered[hop];
                let wait = if place <= bottleneck { (1.0 - factor) * part } else { 0.0 };
                traffic.egress.entry(*hop).or_default().push((number as u32, (wait * 1e6) as u64));
            }
            flow.octets_per_second = (flow.octets_per_second as f64 * factor) as u64;
        }
        traffic
    }
}

impl Flow {
    /// A flow of so many GB/s while it is on: a rhythm between 5 and 40 seconds, on for a third of it at least.
    fn random(rng: &mut fastrand::Rng, gigabytes: std::ops::Range<f64>) -> Self {
        let rate = gigabytes.start + rng.f64() * (gigabytes.end - gigabytes.start);
        let period_ns = rng.u64(5_000_000_000..40_000_000_000);
        let on_ns = period_ns / 3 + rng.u64(..period_ns * 2 / 3);
        Self { octets_per_second: (rate * 1e9) as u64, period_ns, on_ns, phase_ns: rng.u64(..period_ns) }
    }
}

/// Shortest ways, remembered by the device that they lead to.
struct Routes<'a> {
    fabric: &'a Fabric,
    graph: &'a Graph,
    hops: BTreeMap<DeviceId, Vec<u16>>,
}

impl Routes<'_> {
    /// The ports by which a packet leaves each device on its way; `None` if none leads there.
    fn way(&mut self, from: DeviceId, to: DeviceId) -> Option<Vec<(DeviceId, PortNum)>> {
        let (fabric, graph) = (self.fabric, self.graph);
        // Hosts on one switch share its distances: they are asked for from the switch.
        let last = *graph.neighbours(to).first()?;
        let hops = self.hops.entry(last).or_insert_with(|| graph.hops_from([last]));
        let mut way = Vec::new();
        let mut at = from;
        while at != to {
            let device = fabric.device(at);
            let nearer = |id: DeviceId| {
                if at == last { id == to } else { hops[id.0 as usize] != UNREACHABLE && hops[id.0 as usize] < hops[at.0 as usize] }
            };
            let equal: Vec<(PortNum, DeviceId)> = device
                .linked()
                .filter_map(|(port, peer)| Some((port.num, fabric.find(peer.guid, peer.port)?)))
                .filter(|(_, id)| nearer(*id))
                .collect();
            // Spread by destination and by switch, as a forwarding table would be.
            let spread = (u64::from(to.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(at.0).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)) >> 32;
            let (port, next) = *equal.get(spread as usize % equal.len().max(1))?;
            way.push((at, port));
            at = next;
        }
        Some(way)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ports_report, synthetic};

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria").expect("our own format").fabric
    }

    #[test]
    fn traffic_only_grows_and_stops_when_it_is_told_to() {
        let fabric = stria();
        let traffic = Traffic::jobs(&fabric, 1).until(Instant::ZERO + Duration::from_secs(8));
        let total = |secs| -> u64 {
            let at = Instant::ZERO + Duration::from_secs(secs);
            fabric
                .iter()
                .flat_map(|(id, device)| device.ports.iter().map(move |port| (id, port.num)))
                .map(|(id, port)| traffic.sent(id, port, at).packets)
                .sum()
        };
        assert_eq!(total(0), 0);
        assert!(total(4) > 0 && total(4) < total(8));
        assert_eq!(total(8), total(9));
    }

    #[test]
    fn no_link_carries_more_than_it_can() {
        let fabric = stria();
        let traffic = Traffic::jobs(&fabric, 7);
        let mut waiting = 0;
        for (id, device) in fabric.iter() {
            for (port, _) in device.linked() {
                // The mean over a long time; bursts of several flows may coincide.
                let secs = 400;
                let sent = traffic.sent(id, port.num, Instant::ZERO + Duration::from_secs(secs));
                let gbps = (sent.packets * PACKET_OCTETS * 8) as f64 / 1e9 / secs as f64;
                assert!(gbps <= 100.0, "{} port {}: {gbps} Gb/s on EDR", device.name, port.num);
                waiting += usize::from(sent.waited > Duration::ZERO);
            }
        }
        assert!(waiting > 0, "an oversubscribed fabric with incast waits nowhere");
    }

    #[test]
    fn what_enters_a_switch_leaves_it() {
        let fabric = stria();
        let traffic = Traffic::jobs(&fabric, 3);
        let at = Instant::ZERO + Duration::from_secs(60);
        for (id, device) in fabric.iter().filter(|(_, device)| device.kind == NodeKind::Switch) {
            let out: u64 = device.linked().map(|(port, _)| traffic.sent(id, port.num, at).packets).sum();
            let other_end = |peer: &crate::topology::Peer| (fabric.find(peer.guid, peer.port).expect("two-sided"), peer.port);
            let in_: u64 = device.linked().map(|(_, peer)| other_end(peer)).map(|(id, port)| traffic.sent(id, port, at).packets).sum();
            assert_eq!(in_, out, "{}", device.name);
        }
    }
}
