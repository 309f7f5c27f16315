//! Traffic of the simulated fabric.
//!
//! 1. A *flow* is the traffic from one HCA to another. It always takes the same shortest path. If
//!    a switch has several equal links, the destination decides which of them the flow uses, as in
//!    a linear forwarding table.
//! 2. A flow sends in bursts, during only a part of each period. A formula gives the number of
//!    bytes that it has sent until a given time, so the simulator can compute a counter for any
//!    time without simulating the time before.
//! 3. The transmitted bytes of a port are the sum over the flows that leave by this port. The
//!    received bytes of a port are **by definition** the bytes that the other end of its link has
//!    transmitted.
//! 4. If the flows of a link demand more than the link carries, they share the link fairly
//!    (max-min fairness). Such a link is full, and its port does not wait. The ports that send to
//!    the full link do wait, because in InfiniBand they run out of credits: their data queues up,
//!    from the full link back to the HCAs. A waiting port counts PortXmitWait for the time in
//!    which it had data to send and sent nothing.
//! 5. Flows to every fourth device use service level 1 and virtual lane 1, all others use 0.
//! 6. The same fabric and the same seed give the same counters.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use ibnet_record::types::{NodeKind, PortNum};

use super::forwarding::{self, spread};
use crate::mad::forwarding::NO_ROUTE;
use crate::time::Instant;
use crate::topology::graph::UNREACHABLE;
use crate::topology::{DeviceId, Fabric, Graph};

/// Bytes that a data packet adds to the counters: LRH 8, BTH 12, payload 4096, ICRC 4.
pub const PACKET_OCTETS: u64 = 4120;

/// Share of its data rate that a full link shows in its counters, which do not include delimiters,
/// VCRC and link packets.
const COUNTED: f64 = 0.995;

/// Data rate of a port without a known rate, in Gb/s.
pub(super) const DEFAULT_GBPS: f64 = 100.0;

/// All flows of a fabric, by the ports through which they leave a device.
#[derive(Debug, Default)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// Sender and receiver of each flow.
    ends: Vec<(DeviceId, DeviceId)>,
    /// For each (device, port), the flows that leave by this port: the index of the flow, and the
    /// share of its active time in which it waits at this port, in millionths.
    egress: BTreeMap<(DeviceId, PortNum), Vec<(u32, u64)>>,
    /// The instant at which all traffic ends. `None` for never.
    end: Option<Instant>,
}

/// The traffic that has left by a port since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Packets of [`PACKET_OCTETS`] bytes.
    pub packets: u64,
    /// Time in which the port had data to send and sent nothing.
    pub waited: Duration,
    /// Both for each service level.
    pub by_sl: [(u64, Duration); LEVELS],
}

/// Number of service levels with traffic.
pub const LEVELS: usize = 2;

/// A stream of packets between two HCAs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    octets_per_second: u64,
    period_ns: u64,
    on_ns: u64,
    phase_ns: u64,
}

impl Flow {
    /// Returns the nanoseconds in which the flow was active, from the start to `now`.
    fn on_time(&self, now: Instant) -> u64 {
        let since_start =
            |at: u64| at / self.period_ns * self.on_ns + (at % self.period_ns).min(self.on_ns);
        since_start(now.as_nanos() + self.phase_ns) - since_start(self.phase_ns)
    }

    fn packets(&self, now: Instant) -> u64 {
        let octets =
            u128::from(self.octets_per_second) * u128::from(self.on_time(now)) / 1_000_000_000;
        (octets / u128::from(PACKET_OCTETS)) as u64
    }
}

impl Traffic {
    /// Returns traffic without any flow.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the traffic of jobs. A job has 8 to 48 hosts in a ring, with a rate and a period of
    /// its own. In addition, every fourth host writes to one of a few servers.
    pub fn jobs(fabric: &Fabric, seed: u64) -> Self {
        Self::routed(fabric, &Demand::jobs(fabric, seed).0)
    }

    /// Returns the HCAs of each job of [`Traffic::jobs`].
    pub fn hosts_of_jobs(fabric: &Fabric, seed: u64) -> Vec<Vec<DeviceId>> {
        Demand::jobs(fabric, seed).1
    }

    /// Returns the traffic of these flows.
    pub fn of(fabric: &Fabric, flows: &[KnownFlow]) -> Self {
        let flow = |flow: &KnownFlow| {
            Flow::repeated(flow.octets_per_second, flow.start, flow.length, flow.every)
        };
        let wanted: Vec<Demand> = flows
            .iter()
            .map(|known| Demand {
                from: known.from,
                to: known.to,
                flow: flow(known),
            })
            .collect();
        Self::routed(fabric, &wanted)
    }

    /// Returns the traffic of an incast (many hosts send to one) together with that of
    /// [`Traffic::jobs`]. The rate of the jobs is so low that they fill no link. No other flow
    /// goes to the destination of the incast.
    pub fn incast(fabric: &Fabric, seed: u64, incast: &Incast) -> Self {
        let mut wanted = Demand::background(fabric, seed);
        wanted.retain(|demand| demand.to != incast.to);
        wanted.extend(Demand::incast(fabric, incast));
        Self::routed(fabric, &wanted)
    }

    /// Ends all traffic at an instant. Counters that are read later are equal at both ends of a
    /// link.
    #[must_use]
    pub fn until(mut self, end: Instant) -> Self {
        self.end = Some(end);
        self
    }

    /// Returns the traffic that has left by this port by `now`.
    pub fn sent(&self, device: DeviceId, port: PortNum, now: Instant) -> Sent {
        let now = self.end.map_or(now, |end| end.min(now));
        let mut sent = Sent::default();
        for (flow, wait_millionths) in self.egress.get(&(device, port)).into_iter().flatten() {
            let (_, receiver) = self.ends[*flow as usize];
            let flow = &self.flows[*flow as usize];
            let packets = flow.packets(now);
            let waited = Duration::from_nanos(flow.on_time(now) / 1_000_000 * wait_millionths);
            let (of_sl, sl_waited) = &mut sent.by_sl[usize::from(receiver.0 % 4 == 0)];
            (sent.packets, *of_sl) = (sent.packets + packets, *of_sl + packets);
            (sent.waited, *sl_waited) = (sent.waited + waited, *sl_waited + waited);
        }
        sent
    }

    /// Returns the bytes that a flow has sent by `now`.
    pub(super) fn octets(&self, flow: usize, now: Instant) -> u64 {
        let now = self.end.map_or(now, |end| end.min(now));
        self.flows
            .get(flow)
            .map_or(0, |flow| flow.packets(now) * PACKET_OCTETS)
    }

    /// Returns what has left by this port by `now`, for each flow: the sender, the receiver and
    /// the number of bytes.
    pub fn sent_by_flow(
        &self,
        device: DeviceId,
        port: PortNum,
        now: Instant,
    ) -> Vec<(DeviceId, DeviceId, u64)> {
        let now = self.end.map_or(now, |end| end.min(now));
        let flows = self.egress.get(&(device, port)).into_iter().flatten();
        let sent = |(flow, _): &(u32, u64)| {
            let (from, to) = self.ends[*flow as usize];
            (
                from,
                to,
                self.flows[*flow as usize].packets(now) * PACKET_OCTETS,
            )
        };
        flows.map(sent).collect()
    }

    /// Returns the forwarding tables of all switches for the LIDs of HCAs, as `dump_fts` prints
    /// them.
    pub fn forwarding_tables(fabric: &Fabric) -> String {
        let graph = Graph::new(fabric);
        let mut text = String::new();
        for (id, switch) in fabric
            .iter()
            .filter(|(_, device)| device.kind == NodeKind::Switch)
        {
            text.push_str(&format!(
                "Unicast lids [0x0-0xbfff] of switch Lid {} guid {} (simulated):\n",
                switch.lid.0, switch.guid
            ));
            for (port, device) in forwarding::ports(fabric, &graph, id)
                .into_iter()
                .zip(fabric.devices())
            {
                if device.kind == NodeKind::Hca && port != NO_ROUTE {
                    let (lid, guid) = (device.lid.0, device.guid);
                    text.push_str(&format!(
                        "{lid:#06x} {port:03} : (Channel Adapter portguid {guid}: '')\n"
                    ));
                }
            }
        }
        text
    }

    /// Routes each flow and limits it to the rate that its path carries. Leaves out flows without
    /// a path.
    fn routed(fabric: &Fabric, wanted: &[Demand]) -> Self {
        Self::routed_with_indices(fabric, wanted).0
    }

    /// Routes each flow like [`Self::routed`], and returns the index of the flow of each demand.
    pub(super) fn routed_with_indices(
        fabric: &Fabric,
        wanted: &[Demand],
    ) -> (Self, Vec<Option<usize>>) {
        let graph = Graph::new(fabric);
        let mut routes = Routes {
            fabric,
            graph: &graph,
            hops: BTreeMap::new(),
        };
        let (mut flows, mut ends): (Vec<Flow>, Vec<(DeviceId, DeviceId)>) = Default::default();
        let (mut paths, mut indices): (Vec<Vec<Hop>>, Vec<Option<usize>>) = Default::default();
        for demand in wanted {
            let path = routes.path(demand.from, demand.to);
            indices.push(path.is_some().then_some(flows.len()));
            if let Some(path) = path {
                flows.push(demand.flow);
                ends.push((demand.from, demand.to));
                paths.push(path);
            }
        }
        let mut links: BTreeMap<Hop, Link> = BTreeMap::new();
        for (number, (flow, path)) in flows.iter().zip(&paths).enumerate() {
            for hop in path {
                let link = links.entry(*hop).or_insert_with(|| Link {
                    capacity: capacity(fabric, *hop),
                    ..Link::default()
                });
                link.flows.push(number);
                link.offered += flow.octets_per_second as f64;
            }
        }
        let rates = fair(&flows, &paths, &links);
        for link in links.values_mut() {
            link.carried = link.flows.iter().map(|flow| rates[*flow]).sum();
            link.level = link
                .flows
                .iter()
                .map(|flow| rates[*flow])
                .fold(0.0, f64::max);
        }
        let mut traffic = Self {
            flows,
            ends,
            egress: BTreeMap::new(),
            end: None,
        };
        for (number, (path, rate)) in paths.iter().zip(&rates).enumerate() {
            let flow = &mut traffic.flows[number];
            let slowed = 1.0 - (rate / flow.octets_per_second as f64).min(1.0);
            let root = path
                .iter()
                .position(|hop| links[hop].limits(*rate))
                .filter(|_| slowed > ROUNDING)
                .unwrap_or(0);
            for (place, hop) in path.iter().enumerate() {
                let part = flow.octets_per_second as f64 / links[hop].offered;
                let wait = if place < root { slowed * part } else { 0.0 };
                traffic
                    .egress
                    .entry(*hop)
                    .or_default()
                    .push((number as u32, (wait * 1e6) as u64));
            }
            flow.octets_per_second = *rate as u64;
        }
        traffic.wait_while_not_sending(&links);
        (traffic, indices)
    }

    /// Limits the waiting time of each port to the time in which it does not send.
    fn wait_while_not_sending(&mut self, links: &BTreeMap<Hop, Link>) {
        for (hop, flows) in &mut self.egress {
            let idle = (1.0 - links[hop].carried / links[hop].capacity).max(0.0) * 1e6;
            let waits: u64 = flows.iter().map(|(_, wait)| wait).sum();
            if waits as f64 > idle {
                flows
                    .iter_mut()
                    .for_each(|(_, wait)| *wait = (*wait as f64 * idle / waits as f64) as u64);
            }
        }
    }
}

/// A step of a path: the device, and the port by which a packet leaves it.
type Hop = (DeviceId, PortNum);

/// A flow that the caller defines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KnownFlow {
    /// HCA that sends.
    pub from: DeviceId,
    /// HCA that receives.
    pub to: DeviceId,
    /// Data rate while the flow is active, unless a link of its path carries less.
    pub octets_per_second: f64,
    /// Start of the flow.
    pub start: Instant,
    /// Time for which the flow is active in each period.
    pub length: Duration,
    /// Length of a period.
    pub every: Duration,
}

/// An incast: several senders with one destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incast {
    /// HCAs that send.
    pub from: Vec<DeviceId>,
    /// HCA to which all of them send.
    pub to: DeviceId,
    /// Start of the incast.
    pub start: Instant,
    /// Length of the incast.
    pub length: Duration,
    /// Time from one start to the next. `None` if the incast happens once.
    pub every: Option<Duration>,
}

impl Incast {
    /// Returns an incast of `hosts` senders to the last HCA of the last switch. The senders are
    /// taken switch by switch in the order of the GUIDs, at most eight from each switch.
    ///
    /// If possible, the destination is on a switch without senders. Returns `None` if the fabric
    /// has too few HCAs.
    pub fn onto_last_server(
        fabric: &Fabric,
        hosts: usize,
        start: Instant,
        length: Duration,
    ) -> Option<Self> {
        const OF_EACH: usize = 8;
        let switch = |id: DeviceId| fabric.device(id).linked().next().map(|(_, peer)| peer.guid);
        let adapters: Vec<_> = fabric
            .iter()
            .map(|(id, _)| id)
            .filter(|id| sends(fabric, *id))
            .collect();
        let mut by_switch: BTreeMap<_, Vec<DeviceId>> = BTreeMap::new();
        adapters
            .iter()
            .for_each(|id| by_switch.entry(switch(*id)).or_default().push(*id));
        let to = by_switch.values().last()?.last().copied()?;
        let mut from: Vec<_> = by_switch
            .values()
            .flat_map(|hosts| hosts.iter().take(OF_EACH))
            .filter(|id| **id != to)
            .copied()
            .collect();
        from.truncate(hosts);
        (from.len() == hosts).then_some(Self {
            from,
            to,
            start,
            length,
            every: None,
        })
    }
}

/// A flow before it is limited to the rates of its links.
pub(super) struct Demand {
    pub(super) from: DeviceId,
    pub(super) to: DeviceId,
    pub(super) flow: Flow,
}

impl Demand {
    /// Returns the flows of [`Self::jobs`] with a tenth of their rates, so that they fill no link.
    pub(super) fn background(fabric: &Fabric, seed: u64) -> Vec<Self> {
        /// The share of their usual rate at which the jobs send.
        const SHARE: f64 = 0.1;
        let (mut wanted, _) = Self::jobs(fabric, seed);
        wanted.iter_mut().for_each(|demand| {
            demand.flow.octets_per_second = (demand.flow.octets_per_second as f64 * SHARE) as u64;
        });
        wanted
    }

    /// Returns the flows of all jobs, and the HCAs of each job.
    fn jobs(fabric: &Fabric, seed: u64) -> (Vec<Self>, Vec<Vec<DeviceId>>) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut hosts: Vec<DeviceId> = fabric
            .iter()
            .map(|(id, _)| id)
            .filter(|id| sends(fabric, *id))
            .collect();
        rng.shuffle(&mut hosts);
        let (mut wanted, mut jobs) = (Vec::new(), Vec::new());
        let mut left = &hosts[..];
        while left.len() > 1 {
            let (job, rest) = left.split_at(rng.usize(8..=48).min(left.len()));
            let flow = Flow::random(&mut rng, 1.0..11.0);
            let pairs = job
                .iter()
                .zip(job.iter().cycle().skip(1))
                .filter(|(from, to)| from != to);
            wanted.extend(pairs.map(|(from, to)| Self {
                from: *from,
                to: *to,
                flow,
            }));
            jobs.push(job.to_vec());
            left = rest;
        }
        let servers = &hosts[..hosts.len().min(1 + hosts.len() / 32)];
        for host in hosts.iter().skip(servers.len()).step_by(4) {
            wanted.push(Self {
                from: *host,
                to: servers[rng.usize(..servers.len())],
                flow: Flow::random(&mut rng, 0.2..2.0),
            });
        }
        (wanted, jobs)
    }

    fn incast(
        fabric: &Fabric,
        Incast {
            from,
            to,
            start,
            length,
            every,
        }: &Incast,
    ) -> Vec<Self> {
        let as_fast_as_it_can = |from: &DeviceId| {
            let port = fabric
                .device(*from)
                .linked()
                .next()
                .map_or(PortNum(1), |(port, _)| port.num);
            let octets_per_second = capacity(fabric, (*from, port));
            match every {
                Some(every) => Flow::repeated(octets_per_second, *start, *length, *every),
                None => Flow::once(octets_per_second, *start, *length),
            }
        };
        from.iter()
            .filter(|from| *from != to)
            .map(|from| Self {
                from: *from,
                to: *to,
                flow: as_fast_as_it_can(from),
            })
            .collect()
    }
}

/// Returns whether a device is an HCA with traffic.
pub(super) fn sends(fabric: &Fabric, id: DeviceId) -> bool {
    let device = fabric.device(id);
    device.kind == NodeKind::Hca && device.linked_ports() > 0 && !fabric.is_aggregation_node(device)
}

/// Returns the rate of a full link in counted bytes per second.
fn capacity(fabric: &Fabric, (device, port): Hop) -> f64 {
    let gbps = fabric
        .device(device)
        .port(port)
        .and_then(|port| port.rate.data_gbps())
        .unwrap_or(DEFAULT_GBPS);
    gbps * 1e9 / 8.0 * COUNTED
}

/// One direction of a link. Rates are in bytes per second.
#[derive(Default)]
struct Link {
    flows: Vec<usize>,
    capacity: f64,
    offered: f64,
    carried: f64,
    /// Rate of the fastest flow of the link.
    level: f64,
}

/// Relative tolerance of comparisons of rates.
const ROUNDING: f64 = 1e-6;

impl Link {
    /// Returns whether this link limits a flow of this rate: it is full, and none of its flows is
    /// faster.
    fn limits(&self, rate: f64) -> bool {
        self.carried >= self.capacity * (1.0 - ROUNDING) && rate >= self.level * (1.0 - ROUNDING)
    }
}

/// Returns the max-min fair rate of each flow.
///
/// The link with the smallest share for each of its flows fixes the rates of these flows. The same
/// step then repeats with the remaining capacity. A flow that demands less than all its links
/// offer gets its demand.
fn fair(flows: &[Flow], paths: &[Vec<Hop>], links: &BTreeMap<Hop, Link>) -> Vec<f64> {
    let numbers: BTreeMap<&Hop, usize> = links.keys().zip(0..).collect();
    let by_number: Vec<_> = links.values().collect();
    let mut left: Vec<(f64, usize)> = by_number
        .iter()
        .map(|link| (link.capacity, link.flows.len()))
        .collect();
    let level = |(capacity, flows): (f64, usize)| (capacity.max(0.0) / flows as f64) as u64;
    let mut rates: Vec<Option<f64>> = vec![None; flows.len()];
    // An entry below `links.len()` is the index of a link. A larger entry, minus `links.len()`, is
    // the index of a flow that gets its demand.
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = left
        .iter()
        .enumerate()
        .map(|(number, link)| Reverse((level(*link), number)))
        .collect();
    next.extend(
        flows
            .iter()
            .enumerate()
            .map(|(number, flow)| Reverse((flow.octets_per_second, links.len() + number))),
    );
    while let Some(Reverse((at, number))) = next.pop() {
        let (settled, rate) = match number.checked_sub(links.len()) {
            Some(flow) => (vec![flow], flows[flow].octets_per_second as f64),
            // This entry is outdated, because other flows left more capacity to this link. A later
            // entry has the current share.
            None if left[number].1 == 0 || level(left[number]) != at => continue,
            None => (
                by_number[number].flows.clone(),
                left[number].0.max(0.0) / left[number].1 as f64,
            ),
        };
        for flow in settled {
            if rates[flow].is_some() {
                continue;
            }
            rates[flow] = Some(rate);
            for hop in &paths[flow] {
                let link = numbers[hop];
                left[link] = (left[link].0 - rate, left[link].1 - 1);
                if left[link].1 > 0 {
                    next.push(Reverse((level(left[link]), link)));
                }
            }
        }
    }
    rates.into_iter().map(Option::unwrap_or_default).collect()
}

impl Flow {
    /// Returns a flow of `gigabytes` GB/s while it is active, with a period of 5 to 40 s. It is
    /// active for at least a third of each period.
    fn random(rng: &mut fastrand::Rng, gigabytes: std::ops::Range<f64>) -> Self {
        let rate = gigabytes.start + rng.f64() * (gigabytes.end - gigabytes.start);
        let period_ns = rng.u64(5_000_000_000..40_000_000_000);
        let on_ns = period_ns / 3 + rng.u64(..period_ns * 2 / 3);
        Self {
            octets_per_second: (rate * 1e9) as u64,
            period_ns,
            on_ns,
            phase_ns: rng.u64(..period_ns),
        }
    }

    /// Returns a flow that is active from `start` on, and again after each period.
    fn repeated(octets_per_second: f64, start: Instant, length: Duration, every: Duration) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        let period_ns = nanos(every).max(1);
        let phase_ns = period_ns - start.as_nanos() % period_ns;
        Self {
            octets_per_second: octets_per_second as u64,
            period_ns,
            on_ns: nanos(length).min(period_ns),
            phase_ns,
        }
    }

    /// Returns a flow that is active once.
    pub(super) fn once(octets_per_second: f64, start: Instant, length: Duration) -> Self {
        // The period is half of the range of `u64`, so the flow never repeats, and the sum of two
        // instants does not overflow.
        const PERIOD: u64 = u64::MAX / 2;
        let on_ns = u64::try_from(length.as_nanos())
            .unwrap_or(PERIOD)
            .min(PERIOD);
        Self {
            octets_per_second: octets_per_second as u64,
            period_ns: PERIOD,
            on_ns,
            phase_ns: PERIOD - start.as_nanos().min(PERIOD),
        }
    }
}

/// Shortest paths. The distances are cached by the first neighbour of the destination, which for
/// an HCA is its switch.
struct Routes<'a> {
    fabric: &'a Fabric,
    graph: &'a Graph,
    hops: BTreeMap<DeviceId, Vec<u16>>,
}

impl Routes<'_> {
    /// Returns the ports by which a packet leaves each device, or `None` if there is no path.
    fn path(&mut self, from: DeviceId, to: DeviceId) -> Option<Vec<(DeviceId, PortNum)>> {
        let (fabric, graph) = (self.fabric, self.graph);
        // The distances are computed to the switch of the destination, so all hosts of this switch
        // use the same cached table.
        let last = *graph.neighbours(to).first()?;
        let hops = self
            .hops
            .entry(last)
            .or_insert_with(|| graph.hops_from([last]));
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            let device = fabric.device(at);
            let nearer = |id: DeviceId| {
                if at == last {
                    id == to
                } else {
                    hops[id.0 as usize] != UNREACHABLE && hops[id.0 as usize] < hops[at.0 as usize]
                }
            };
            let equal: Vec<(PortNum, DeviceId)> = device
                .linked()
                .filter_map(|(port, peer)| Some((port.num, fabric.find(peer.guid, peer.port)?)))
                .filter(|(_, id)| nearer(*id))
                .collect();
            let (port, next) = *equal.get(spread(at, to) as usize % equal.len().max(1))?;
            path.push((at, port));
            at = next;
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{ports_report, synthetic};

    fn stria() -> Fabric {
        ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria")
            .expect("a valid ports report")
            .fabric
    }

    #[test]
    fn traffic_grows_until_its_end() {
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
    fn each_host_belongs_to_one_job() {
        let fabric = stria();
        let jobs = Traffic::hosts_of_jobs(&fabric, 1);
        let mut hosts: Vec<DeviceId> = jobs.concat();
        hosts.sort_unstable();
        let all: Vec<DeviceId> = fabric
            .iter()
            .map(|(id, _)| id)
            .filter(|id| sends(&fabric, *id))
            .collect();
        let is_once = hosts.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(
            is_once && hosts.iter().all(|host| all.contains(host)),
            "no adapter twice"
        );
        // A job has two hosts at least. With this seed one adapter is left.
        assert_eq!((hosts.len(), all.len()), (315, 316));
        assert!(jobs.iter().all(|job| (2..=48).contains(&job.len())));
    }

    #[test]
    fn no_link_carries_more_than_its_rate() {
        let fabric = stria();
        let traffic = Traffic::jobs(&fabric, 7);
        let mut waiting = 0;
        for (id, device) in fabric.iter() {
            for (port, _) in device.linked() {
                // The test reads the mean over a long time, because bursts of flows may coincide.
                let secs = 400;
                let sent = traffic.sent(id, port.num, Instant::ZERO + Duration::from_secs(secs));
                let gbps = (sent.packets * PACKET_OCTETS * 8) as f64 / 1e9 / secs as f64;
                assert!(
                    gbps <= 100.0,
                    "{} port {}: {gbps} Gb/s on EDR",
                    device.name,
                    port.num
                );
                waiting += usize::from(sent.waited > Duration::ZERO);
            }
        }
        assert!(
            waiting > 0,
            "an oversubscribed fabric with an incast has no waiting port"
        );
    }

    #[test]
    fn incast_fills_its_root_and_delays_all_ports_before_it() {
        let fabric = stria();
        let (start, length) = (
            Instant::ZERO + Duration::from_secs(10),
            Duration::from_secs(20),
        );
        let incast =
            Incast::onto_last_server(&fabric, 32, start, length).expect("there are 302 adapters");
        let traffic = Traffic::routed(&fabric, &Demand::incast(&fabric, &incast));
        let moved =
            |id, port, secs| traffic.sent(id, port, Instant::ZERO + Duration::from_secs(secs));
        let (_, peer) = fabric.device(incast.to).linked().next().expect("linked");
        let root = (
            fabric.find(peer.guid, peer.port).expect("two-sided"),
            peer.port,
        );
        assert_eq!(
            (moved(root.0, root.1, 10), moved(root.0, root.1, 30)),
            (Sent::default(), moved(root.0, root.1, 90)),
            "only then"
        );
        let full = moved(root.0, root.1, 20);
        let gbps = (full.packets * PACKET_OCTETS * 8) as f64 / 1e10;
        assert!(
            (99.4..=99.5).contains(&gbps) && full.waited.is_zero(),
            "full, and it does not wait: {gbps} {full:?}"
        );
        for from in &incast.from {
            let sent = moved(*from, PortNum(1), 20);
            let share = (sent.packets * PACKET_OCTETS) as f64 / 1.24375e11;
            assert!((share - 1.0 / 32.0).abs() < 1e-3, "a 32nd each: {share}");
            assert!(
                (9.68..=9.69).contains(&sent.waited.as_secs_f64()),
                "the rest of ten seconds: {sent:?}"
            );
        }
        let leaf = fabric
            .device(incast.from[0])
            .linked()
            .next()
            .and_then(|(_, peer)| fabric.find(peer.guid, peer.port))
            .expect("a leaf");
        let waiting: Vec<_> = fabric
            .device(leaf)
            .linked()
            .map(|(port, _)| moved(leaf, port.num, 20))
            .filter(|sent| sent.packets > 0)
            .collect();
        assert_eq!(waiting.len(), 1, "one path to one server");
        let share = (waiting[0].packets * PACKET_OCTETS) as f64 / 1.24375e11;
        assert!((share - 0.25).abs() < 1e-3, "eight of 32: {share}");
        assert!(
            (7.4..=7.5).contains(&waiting[0].waited.as_secs_f64()),
            "it waits while it does not send: {waiting:?}"
        );
    }

    #[test]
    fn flow_limited_elsewhere_leaves_its_share_to_others() {
        let flow = |rate| Flow {
            octets_per_second: rate,
            period_ns: 2,
            on_ns: 1,
            phase_ns: 0,
        };
        let hop = |port| (DeviceId(0), PortNum(port));
        // Link 1 has the capacity 90 and carries all three flows. Link 2 has the capacity 10 and
        // carries only the first flow.
        let paths = [vec![hop(1), hop(2)], vec![hop(1)], vec![hop(1)]];
        let link = |capacity, flows| Link {
            capacity,
            flows,
            ..Link::default()
        };
        let links = BTreeMap::from([
            (hop(1), link(90.0, vec![0, 1, 2])),
            (hop(2), link(10.0, vec![0])),
        ]);
        assert_eq!(
            fair(&[flow(100), flow(100), flow(100)], &paths, &links),
            [10.0, 40.0, 40.0]
        );
        assert_eq!(
            fair(&[flow(5), flow(20), flow(100)], &paths, &links),
            [5.0, 20.0, 65.0]
        );
    }

    #[test]
    fn traffic_that_enters_a_switch_leaves_it() {
        let fabric = stria();
        let traffic = Traffic::jobs(&fabric, 3);
        let at = Instant::ZERO + Duration::from_secs(60);
        for (id, device) in fabric
            .iter()
            .filter(|(_, device)| device.kind == NodeKind::Switch)
        {
            let out: u64 = device
                .linked()
                .map(|(port, _)| traffic.sent(id, port.num, at).packets)
                .sum();
            let other_end = |peer: &crate::topology::Peer| {
                (
                    fabric.find(peer.guid, peer.port).expect("two-sided"),
                    peer.port,
                )
            };
            let in_: u64 = device
                .linked()
                .map(|(_, peer)| other_end(peer))
                .map(|(id, port)| traffic.sent(id, port, at).packets)
                .sum();
            assert_eq!(in_, out, "{}", device.name);
        }
    }
}
