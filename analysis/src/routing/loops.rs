//! Credit loops: cycles of ports that wait for each other's buffers (Dally and Seitz,
//! "Deadlock-free message routing in multiprocessor interconnection networks", 1987).
//!
//! A packet that waits for a buffer at the end of its next link holds one at the end of its last
//! link. So each pair of links that follow each other on the path of a packet is a dependency of
//! two virtual lanes (VLs). If dependencies form a cycle, full buffers can wait for each other for
//! ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ibnet_record::types::{Lid, PortNum};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::census::Leaves;
use super::net::{ChannelIndex, DeviceIndex, Net, Role};
use super::paths::Paths;
use super::service_levels::{LEVELS, PathSls, SlToVl};
use super::walk::Walk;
use crate::ports::{PortKey, PortSummary};
use crate::routes::Routes;

/// Destinations that a thread takes at once.
const CHUNK: usize = 256;

/// A virtual lane whose packets the device drops (IBA vol. 1, 7.6.6).
const DROPPED: u8 = 15;

/// How sure the result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// The service levels of pairs and their virtual lanes are known. Loops exist; if there are
    /// none, pairs without a service level can make some.
    Known,
    /// Even if all packets use one virtual lane, there is no loop. So there is none with any
    /// service levels and virtual lanes.
    Never,
    /// The service levels of the pairs or virtual lanes are unknown. A loop exists only if all
    /// pairs of its path use its service level, or if all packets use one virtual lane, or if the
    /// switches without lanes use VL 0.
    Possible,
}

/// The credit loops of a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loops {
    /// How sure the result is.
    pub certainty: Certainty,
    /// One loop of each group of ports that wait for each other.
    pub loops: Vec<CreditLoop>,
    /// Number of pairs of hosts that were left out, because their service level is unknown.
    pub left_out: u64,
    /// Number of switches without virtual lanes for some of their linked ports, if others have
    /// lanes. Their packets count as packets on VL 0.
    pub without_lanes: usize,
}

/// A credit loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreditLoop {
    /// The service level that all pairs must use for this loop; `None` if the service levels are
    /// known, or if the virtual lanes are not.
    pub sl: Option<u8>,
    /// The links, each of which waits for the next one, and the last one for the first, with their
    /// virtual lanes.
    pub links: Vec<(ChannelIndex, u8)>,
}

/// Finds the credit loops. Without `sls` or `lanes`, they are possible ones.
pub fn credit_loops(paths: &Paths<'_>, sls: Option<&PathSls>, lanes: Option<&SlToVl>) -> Loops {
    let leaves = Leaves::of(paths);
    let find = |sls: Sls<'_>, lanes: Option<&Lanes>| {
        let (dependencies, left_out) = Dependencies::of(paths, &leaves, sls, lanes);
        let sl = match sls {
            Sls::All(sl) => lanes.is_some().then_some(sl),
            Sls::Pairs(_) => None,
        };
        let cycles = dependencies.cycles(paths.net).into_iter();
        let loops: Vec<_> = cycles.map(|links| CreditLoop { sl, links }).collect();
        (loops, left_out)
    };
    let (on_one_lane, _) = find(Sls::All(0), None);
    if on_one_lane.is_empty() {
        return Loops {
            certainty: Certainty::Never,
            loops: Vec::new(),
            left_out: 0,
            without_lanes: 0,
        };
    }
    let lanes = lanes.map(|lanes| Lanes::new(paths.net, lanes));
    let without_lanes = lanes.as_ref().map_or(0, |lanes| lanes.incomplete);
    let (certainty, (loops, left_out)) = match (sls, &lanes) {
        (Some(sls), Some(lanes)) => {
            let certainty = match without_lanes {
                0 => Certainty::Known,
                _ => Certainty::Possible,
            };
            (certainty, find(Sls::Pairs(sls), Some(lanes)))
        }
        (None, Some(lanes)) => {
            let loops = lanes.different_levels().into_iter();
            let loops = loops.flat_map(|sl| find(Sls::All(sl), Some(lanes)).0);
            (Certainty::Possible, (loops.collect(), 0))
        }
        (_, None) => (Certainty::Possible, (on_one_lane, 0)),
    };
    Loops {
        certainty,
        loops,
        left_out,
        without_lanes,
    }
}

/// The service levels of pairs.
#[derive(Clone, Copy)]
enum Sls<'a> {
    /// All pairs use this one.
    All(u8),
    Pairs(&'a PathSls),
}

/// The virtual lanes of all switches, by their index in the net.
struct Lanes {
    /// Index of the first entry of each device, and its number of ports.
    of: Vec<(usize, usize)>,
    /// The lanes of the 16 service levels, four bits each, by the port by which a packet comes and
    /// the port by which it leaves.
    packed: Vec<u64>,
    /// Number of switches of which lanes between linked ports are unknown.
    incomplete: usize,
}

impl Lanes {
    fn new(net: &Net, tables: &SlToVl) -> Self {
        let mut lanes = Self {
            of: Vec::new(),
            packed: Vec::new(),
            incomplete: 0,
        };
        for (device, index) in net.devices().iter().zip(0..) {
            let is_switch = device.role == Role::Switch;
            let ports = net.channels_from(index).filter(|_| is_switch);
            let last = ports.map(|channel| net.channel(channel).from.1).max();
            let count = last.map_or(0, |last| usize::from(last.0) + 1);
            lanes.of.push((lanes.packed.len(), count));
            let numbers = || (0..=u8::MAX).map(PortNum).take(count);
            let is_linked = |port: PortNum| net.channel_of(index, port).is_some();
            let mut is_complete = true;
            for (from, to) in numbers().flat_map(|from| numbers().map(move |to| (from, to))) {
                let row = tables.lanes(device.guid, from, to).copied();
                let is_used = from != to && is_linked(from) && is_linked(to);
                is_complete &= row.is_some() || !is_used;
                let row = row.unwrap_or([0; LEVELS]);
                let packed = row
                    .iter()
                    .rev()
                    .fold(0, |all, lane| all << 4 | u64::from(*lane));
                lanes.packed.push(packed);
            }
            lanes.incomplete += usize::from(!is_complete);
        }
        lanes
    }

    /// Returns the virtual lane of a packet that comes to a switch by a port and leaves it by
    /// another one, or `None` if the switch drops it.
    fn lane(&self, switch: DeviceIndex, from: PortNum, to: PortNum, sl: u8) -> Option<u8> {
        let (first, count) = self.of[switch as usize];
        let place = first + usize::from(from.0) * count + usize::from(to.0);
        let lane = (self.packed[place] >> (4 * sl)) as u8 & 0xf;
        (lane != DROPPED).then_some(lane)
    }

    /// Returns the service levels whose lanes differ somewhere: the first one of equal ones.
    fn different_levels(&self) -> Vec<u8> {
        let differ = |a: u8, b: u8| {
            let mut rows = self.packed.iter();
            rows.any(|row| (row >> (4 * a)) & 0xf != (row >> (4 * b)) & 0xf)
        };
        let mut levels: Vec<u8> = Vec::new();
        for level in 0..LEVELS as u8 {
            if levels.iter().all(|known| differ(*known, level)) {
                levels.push(level);
            }
        }
        levels
    }
}

/// Which ports of switches follow each other on the paths of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Onward {
    /// For a sending port of a switch, the ports of the next switch as a set of bits. A port on no
    /// path is missing.
    ports: FxHashMap<PortKey, [u64; 4]>,
}

impl Onward {
    /// Follows the paths of all pairs of hosts with records.
    pub fn of_records(ports: &BTreeMap<PortKey, PortSummary>, routes: &Routes) -> Self {
        let net = Net::of_records(ports, routes);
        let paths = Paths::new(&net, routes);
        let (found, _) = Dependencies::of(&paths, &Leaves::of(&paths), Sls::All(0), None);
        let follow = net.channels().iter().zip(&found.ports[0]);
        let follow = follow.filter(|(_, ports)| **ports != [0; 4]);
        Self {
            ports: follow
                .map(|(channel, ports)| (net.key(channel.from), *ports))
                .collect(),
        }
    }

    /// Returns whether packets that a port sends can leave the next switch by this port. Packets of
    /// a host, and of a port on no path, can leave by any port.
    pub fn follows(&self, port: PortKey, next: PortNum) -> bool {
        let ports = self.ports.get(&port);
        ports.is_none_or(|ports| is_set(ports, next.0))
    }
}

fn is_set(ports: &[u64; 4], port: u8) -> bool {
    ports[usize::from(port) / 64] >> (port % 64) & 1 == 1
}

/// A channel and a virtual lane.
type Node = (ChannelIndex, u8);

/// Which channels and lanes wait for which.
struct Dependencies {
    /// For each pair of lanes (the first one x 16 + the second one), the ports by which packets of
    /// each channel leave the switch at its end, as a set of bits. Empty for a pair of lanes
    /// without a dependency.
    ports: Vec<Vec<[u64; 4]>>,
}

impl Dependencies {
    fn none() -> Self {
        Self {
            ports: vec![Vec::new(); LEVELS * LEVELS],
        }
    }

    /// Collects the dependencies of the paths of all pairs. Returns also the number of pairs
    /// without a service level, which are left out.
    fn of(paths: &Paths<'_>, leaves: &Leaves, sls: Sls<'_>, lanes: Option<&Lanes>) -> (Self, u64) {
        let mut senders: FxHashMap<DeviceIndex, Vec<Sender<'_>>> = FxHashMap::default();
        for host in &leaves.hosts {
            let Some(channel) = paths.net.channels_from(*host).next() else {
                continue;
            };
            let (leaf, port) = paths.net.channel(channel).to;
            let sls = match sls {
                Sls::All(_) => None,
                Sls::Pairs(sls) => sls.of(paths.net.devices()[*host as usize].guid),
            };
            let sender = Sender {
                host: *host,
                port,
                sls,
            };
            senders.entry(leaf).or_default().push(sender);
        }
        let empty = || (Self::none(), 0);
        let add = |(mut found, mut left_out): (Self, u64), destinations: &[DeviceIndex]| {
            let mut walk = Walk::new(paths, &leaves.leaves);
            let devices = paths.net.devices().len();
            let mut next: Vec<ChannelIndex> = vec![0; devices];
            // The lanes of the packets that leave each switch, for each service level.
            let mut used = vec![[0_u16; LEVELS]; devices];
            for to in destinations {
                walk.to(*to);
                for (switch, channel) in walk.far_first() {
                    next[switch as usize] = channel;
                }
                for (switch, channel) in walk.far_first() {
                    let out = paths.net.channel(channel);
                    let mut own = std::mem::take(&mut used[switch as usize]);
                    let none = Vec::new();
                    let senders = senders.get(&switch).unwrap_or(&none);
                    for sender in senders.iter().filter(|sender| sender.host != *to) {
                        let sl = match sls {
                            Sls::All(sl) => Some(sl),
                            Sls::Pairs(_) => sender.sl(paths.lid(*to)),
                        };
                        left_out += u64::from(sl.is_none());
                        let lane = sl.and_then(|sl| {
                            let lane =
                                |lanes: &Lanes| lanes.lane(switch, sender.port, out.from.1, sl);
                            Some((sl, lanes.map_or(Some(0), lane)?))
                        });
                        if let Some((sl, lane)) = lane {
                            own[usize::from(sl)] |= 1 << lane;
                        }
                        if lanes.is_none() && matches!(sls, Sls::All(_)) {
                            break;
                        }
                    }
                    let (at, port) = out.to;
                    if at == *to {
                        continue;
                    }
                    let onward = paths.net.channel(next[at as usize]).from.1;
                    for (sl, held) in (0..).zip(own).filter(|(_, held)| *held != 0) {
                        let lane = |lanes: &Lanes| lanes.lane(at, port, onward, sl);
                        let Some(lane) = lanes.map_or(Some(0), lane) else {
                            continue;
                        };
                        used[at as usize][usize::from(sl)] |= 1 << lane;
                        for held in (0..LEVELS as u8).filter(|lane| held >> lane & 1 == 1) {
                            found.add((channel, held), (onward, lane), paths.net);
                        }
                    }
                }
            }
            (found, left_out)
        };
        let chunks = leaves.hosts.par_chunks(CHUNK).fold(empty, add);
        chunks.reduce(empty, |(one, left_out), (other, more)| {
            (one.merge(other), left_out + more)
        })
    }

    fn add(&mut self, (channel, lane): Node, (port, next): (PortNum, u8), net: &Net) {
        let ports = &mut self.ports[usize::from(lane) * LEVELS + usize::from(next)];
        if ports.is_empty() {
            ports.resize(net.channels().len(), [0; 4]);
        }
        ports[channel as usize][usize::from(port.0) / 64] |= 1 << (port.0 % 64);
    }

    fn merge(mut self, other: Self) -> Self {
        for (own, other) in self.ports.iter_mut().zip(other.ports) {
            if own.is_empty() {
                *own = other;
            } else {
                let words = own.iter_mut().flatten().zip(other.iter().flatten());
                words.for_each(|(own, other)| *own |= other);
            }
        }
        self
    }

    /// Returns what a node waits for.
    fn after(&self, net: &Net, (channel, lane): Node) -> Vec<Node> {
        let (at, _) = net.channel(channel).to;
        let mut after = Vec::new();
        for next in 0..LEVELS as u8 {
            let ports = &self.ports[usize::from(lane) * LEVELS + usize::from(next)];
            let Some(ports) = ports
                .get(channel as usize)
                .filter(|ports| **ports != [0; 4])
            else {
                continue;
            };
            let ports = (0..=u8::MAX).filter(|port| is_set(ports, *port));
            let channels = ports.filter_map(|port| net.channel_of(at, PortNum(port)));
            after.extend(channels.map(|channel| (channel, next)));
        }
        after
    }

    /// Returns a shortest cycle through the first node of each strongly connected component with
    /// several nodes.
    fn cycles(&self, net: &Net) -> Vec<Vec<Node>> {
        let mut cycles: Vec<Vec<Node>> = self
            .components(net)
            .iter()
            .filter_map(|component| self.cycle(net, component))
            .collect();
        cycles.sort_unstable();
        cycles
    }

    /// Returns the strongly connected components with several nodes (Tarjan, "Depth-first search
    /// and linear graph algorithms", 1972), with a stack instead of recursion.
    fn components(&self, net: &Net) -> Vec<BTreeSet<Node>> {
        const UNSEEN: u32 = u32::MAX;
        let place = |(channel, lane): Node| channel as usize * LEVELS + usize::from(lane);
        let nodes = net.channels().len() * LEVELS;
        let (mut order, mut low) = (vec![UNSEEN; nodes], vec![0_u32; nodes]);
        let mut is_open = vec![false; nodes];
        let (mut count, mut open, mut components) = (0, Vec::new(), Vec::new());
        let all = (0..net.channels().len() as ChannelIndex)
            .flat_map(|channel| (0..LEVELS as u8).map(move |lane| (channel, lane)));
        for start in all {
            if order[place(start)] != UNSEEN {
                continue;
            }
            let mut calls: Vec<(Node, Vec<Node>)> = Vec::new();
            let mut entered = Some(start);
            loop {
                if let Some(node) = entered.take() {
                    (order[place(node)], low[place(node)]) = (count, count);
                    count += 1;
                    is_open[place(node)] = true;
                    open.push(node);
                    calls.push((node, self.after(net, node)));
                }
                let Some((node, after)) = calls.last_mut() else {
                    break;
                };
                let at = place(*node);
                if let Some(next) = after.pop() {
                    if order[place(next)] == UNSEEN {
                        entered = Some(next);
                    } else if is_open[place(next)] {
                        low[at] = low[at].min(order[place(next)]);
                    }
                    continue;
                }
                if low[at] == order[at] {
                    let start = open.iter().rposition(|other| other == node);
                    let component: BTreeSet<Node> = open.drain(start.unwrap_or(0)..).collect();
                    for node in &component {
                        is_open[place(*node)] = false;
                    }
                    if component.len() > 1 {
                        components.push(component);
                    }
                }
                calls.pop();
                if let Some((caller, _)) = calls.last() {
                    low[place(*caller)] = low[place(*caller)].min(low[at]);
                }
            }
        }
        components
    }

    /// Returns a shortest cycle through the first node of a component.
    fn cycle(&self, net: &Net, component: &BTreeSet<Node>) -> Option<Vec<Node>> {
        let start = *component.first()?;
        let mut before: FxHashMap<Node, Node> = FxHashMap::default();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in self.after(net, node) {
                if next == start {
                    let mut cycle = vec![node];
                    while let Some(node) = cycle.last().and_then(|last| before.get(last)) {
                        cycle.push(*node);
                    }
                    cycle.reverse();
                    return Some(cycle);
                }
                if component.contains(&next) && !before.contains_key(&next) {
                    before.insert(next, node);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// A host that sends.
struct Sender<'a> {
    host: DeviceIndex,
    /// The port of its switch.
    port: PortNum,
    /// Its service level for each LID.
    sls: Option<&'a [u8]>,
}

impl Sender<'_> {
    fn sl(&self, to: Lid) -> Option<u8> {
        PathSls::in_table(self.sls?, to)
    }
}
