//! The search for roots in one interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, Range};

use ibnet_record::types::{Guid, NodeKind};
use rustc_hash::FxHashMap;

use super::{Confidence, Limits, RootCause};
use crate::devices::Devices;
use crate::ports::bins::TimeBin;
use crate::ports::{PortKey, PortSummary};
use crate::record::Interval;

pub(super) type Root = (PortKey, RootCause);

// The rules for roots. `docs/congestion.md` says how they were found, and how often they are right.

/// A port that was blocked for more than this share of an interval can pass congestion on.
const PASSES: f64 = 0.02;
/// If a port at the next switch uses its link by more than this above that of a port, the
/// congestion of the port begins further on.
const MORE: f64 = 0.05;
/// A port that sent or was blocked for more than this share of an interval always had packets.
const NEVER_IDLE: f64 = 0.99;
/// A port was blocked by another one only if the other one sent or was blocked for at least this
/// part of that time.
const COVERS: f64 = 0.8;
/// A full port that was blocked for more than this share of an interval is a root less surely.
const HARDLY_BLOCKED: f64 = 0.05;
/// Congestion that is shorter than the interval is followed on to a port that used its link by at
/// most this less than the one before it.
const LESS: f64 = 0.08;
/// It has a root if the blocked shares of the ports that lead to it have at least this sum,
const SHORT_BLOCKED: f64 = 0.4;
/// or if the root used more than this share of its data rate.
const SHORT_USED: f64 = 0.5;
/// More links than a path in a fat tree has.
pub(super) const LONGEST_PATH: usize = 8;

/// The loads of all ports in one interval, and the roots in it.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    /// Number of the interval.
    pub(super) number: u64,
    limits: Limits<'a>,
    loads: Loads,
    /// The ports that can pass congestion on, by the device at the other end of their links. The
    /// waiting ports are some of them.
    held: BTreeMap<Guid, BTreeSet<PortKey>>,
    /// Roots with the ports that wait for them.
    pub(super) roots: BTreeMap<Root, Vec<Waiting>>,
    /// The possible roots of each waiting port.
    pub(super) explained: Explained,
}

/// The possible roots of each port. A root that itself waits is its own root.
pub(super) type Explained = BTreeMap<PortKey, Vec<Root>>;

/// A port that waits for a root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) port: PortKey,
    /// The next port on the path to the root.
    pub(super) next: PortKey,
    /// Number of links to the root.
    pub(super) depth: usize,
}

/// The loads of all ports in the order of their keys. The search looks for those of a port or a
/// device all the time, which a hash and a few ports make cheaper than a tree of all of them.
#[derive(Debug)]
struct Loads {
    all: Vec<(PortKey, PortLoad)>,
    devices: FxHashMap<Guid, Range<usize>>,
}

impl Loads {
    fn new(mut all: Vec<(PortKey, PortLoad)>) -> Self {
        // The first load of a port counts.
        all.sort_by_key(|(key, _)| *key);
        all.dedup_by_key(|(key, _)| *key);
        let mut devices: FxHashMap<Guid, Range<usize>> = FxHashMap::default();
        for (place, ((guid, _), _)) in all.iter().enumerate() {
            devices.entry(*guid).or_insert(place..place).end = place + 1;
        }
        Self { all, devices }
    }

    fn of_device(&self, guid: Guid) -> &[(PortKey, PortLoad)] {
        let places = self.devices.get(&guid).cloned().unwrap_or_default();
        &self.all[places]
    }

    fn get(&self, key: PortKey) -> Option<&PortLoad> {
        let of_device = self.of_device(key.0);
        let place = of_device.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(&of_device[place].1)
    }

    fn iter(&self) -> impl Iterator<Item = (PortKey, &PortLoad)> {
        self.all.iter().map(|(key, load)| (*key, load))
    }
}

impl Index<PortKey> for Loads {
    type Output = PortLoad;

    /// Returns the load of a port. It must have one.
    fn index(&self, key: PortKey) -> &PortLoad {
        self.get(key).expect("a port of the snapshot")
    }
}

/// A port with its key, and its peer if there are records of it.
pub(super) type WithPeer<'a> = (PortKey, &'a PortSummary, Option<&'a PortSummary>);

/// Load of a port in one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortLoad {
    peer: PortKey,
    leads_to_host: bool,
    /// Whether the port has records in this interval.
    is_recorded: bool,
    /// Share of the data rate that the port sent, 0 to 1.
    pub(super) used: f64,
    /// Share of the data rate that the port received, 0 to 1.
    received: Option<f64>,
    /// Share of the time in which the port was blocked, 0 to 1.
    pub(super) blocked: f64,
    pub(super) seconds: f64,
}

impl<'a> Snapshot<'a> {
    /// Finds the roots that an interval shows by itself: ports for which others wait, ports that
    /// wait for a host, and ports that wait for a device that does not answer. A port without
    /// records can also be a root, because it sent what its peer received.
    ///
    /// The interval is given by its number and its length in nanoseconds.
    pub(super) fn of(
        (number, interval_ns): (u64, u64),
        ports: &[WithPeer<'_>],
        devices: &Devices,
        limits: Limits<'a>,
    ) -> Self {
        let recorded = ports
            .iter()
            .filter_map(|(key, port, peer)| Some((*key, PortLoad::of(port, *peer, number)?)));
        let mut loads = Loads::new(recorded.collect());
        let without_records = loads
            .iter()
            .filter(|(_, load)| loads.get(load.peer).is_none());
        let without_records: Vec<_> = without_records
            .filter_map(|(key, load)| Some((load.peer, load.of_peer(key)?)))
            .collect();
        if !without_records.is_empty() {
            // Of two ports with the same peer, the last one counts.
            let mut all = loads.all;
            all.extend(without_records.into_iter().rev());
            loads = Loads::new(all);
        }
        let mut held: BTreeMap<Guid, BTreeSet<PortKey>> = BTreeMap::new();
        let passes = PASSES.min(limits.waits);
        for (key, load) in loads.iter().filter(|(_, load)| load.blocked > passes) {
            held.entry(load.peer.0).or_default().insert(key);
        }
        let mut found = Self {
            number,
            limits,
            loads,
            held,
            roots: BTreeMap::new(),
            explained: BTreeMap::new(),
        };
        let time = Interval::new(
            number.saturating_mul(interval_ns),
            number.saturating_add(1).saturating_mul(interval_ns),
        );
        // A device with rates in this interval did answer.
        let is_away = |guid: Guid| {
            let away = devices
                .away(guid)
                .zip(time)
                .and_then(|((from, to), time)| time.within(from, to));
            away.is_some() && found.of_device(guid).all(|(_, load)| !load.is_recorded)
        };
        let away: BTreeSet<Guid> = found
            .held
            .keys()
            .copied()
            .filter(|guid| is_away(*guid))
            .collect();
        let slow = found.loads.iter().filter(|(_, load)| {
            found.waits(load) && load.leads_to_host && !away.contains(&load.peer.0)
        });
        let slow = slow.map(|(key, _)| (key, RootCause::SlowHost));
        let full = found.held.keys().flat_map(|guid| found.full_ports(*guid));
        let roots: Vec<Root> = slow.chain(full.map(|key| (key, RootCause::Full))).collect();
        roots.into_iter().for_each(|root| found.grow(root));
        found.add_short();
        let silent: Vec<PortKey> = found
            .open()
            .filter(|key| away.contains(&found.loads[*key].peer.0))
            .collect();
        silent
            .into_iter()
            .for_each(|key| found.grow((key, RootCause::Unreachable)));
        found
    }

    /// Returns the ports of a device for which others wait, without those that wait for a host.
    fn full_ports(&self, guid: Guid) -> impl Iterator<Item = PortKey> {
        let of_device = self.of_device(guid);
        of_device.filter_map(|(key, load)| {
            let is_slow = self.waits(load) && load.leads_to_host;
            (!is_slow && self.full(key, load).is_some()).then_some(*key)
        })
    }

    /// Returns how surely others wait for a port because more packets come than it can send.
    fn full(&self, key: &PortKey, load: &PortLoad) -> Option<Confidence> {
        let mut held = self.held.get(&key.0).into_iter().flatten();
        if !self.is_full(load) || !held.any(|held| self.can_wait_for(*held, *key)) {
            return None;
        }
        let further = self.onward(*key).map(|(_, load)| load.used);
        let further = further.fold(0.0, f64::max);
        let is_last = further <= load.used + MORE;
        if is_last && load.blocked <= HARDLY_BLOCKED {
            return Some(Confidence::High);
        }
        (is_last || load.active() > NEVER_IDLE).then_some(Confidence::Medium)
    }

    /// Adds the roots of congestion that is shorter than the interval, where no port is full on
    /// average: follows each waiting port without a root over the busiest ports.
    fn add_short(&mut self) {
        let mut ends: BTreeMap<PortKey, f64> = BTreeMap::new();
        let mut passed = Vec::new();
        for key in self.open() {
            let path = self.busiest_path(key);
            // An end that waits itself is not the root.
            if let Some(end) = path.last().filter(|end| !self.waits(&self.loads[**end])) {
                *ends.entry(*end).or_default() += self.loads[key].blocked;
                passed.extend(path);
            }
        }
        for key in passed {
            let held = self.held.entry(self.loads[key].peer.0).or_default();
            held.insert(key);
        }
        ends.retain(|key, blocked| *blocked >= SHORT_BLOCKED || self.loads[*key].used > SHORT_USED);
        ends.into_keys()
            .for_each(|key| self.grow((key, RootCause::Full)));
    }

    /// Returns the busiest port of the switch at the other end of a waiting port's link, the
    /// busiest one after that, and so on, for as long as they use their links alike.
    fn busiest_path(&self, waiting: PortKey) -> Vec<PortKey> {
        let mut path: Vec<PortKey> = Vec::new();
        let waiting = (waiting, &self.loads[waiting]);
        let (mut last, mut at) = waiting;
        while path.len() < LONGEST_PATH {
            let onward = self.onward(last);
            let busiest = onward.max_by(|(_, a), (_, b)| a.active().total_cmp(&b.active()));
            let Some((key, next)) = busiest else { break };
            let goes_on = if path.is_empty() {
                next.covers(waiting.1)
            } else {
                // A port that was not blocked at all has no congestion after it.
                at.blocked > 0.0 && next.used >= at.used - LESS
            };
            if !goes_on {
                break;
            }
            path.push(*key);
            (last, at) = (*key, next);
        }
        path
    }

    /// Returns how surely a port is a root; `None` for a cause that the model of
    /// `docs/congestion.md` does not have.
    pub(super) fn confidence(&self, (key, cause): Root) -> Option<Confidence> {
        match cause {
            RootCause::Full => self.full(&key, &self.loads[key]).or(Some(Confidence::Low)),
            RootCause::SlowHost => Some(Confidence::High),
            RootCause::Unreachable | RootCause::Unclear => None,
        }
    }

    /// Adds the devices that do not answer in the interval before or after, and the roots of
    /// unknown cause.
    pub(super) fn complete(&mut self, neighbours: [Option<&Explained>; 2]) {
        let mut silent: BTreeSet<Root> = BTreeSet::new();
        for key in self.open() {
            let roots = neighbours.iter().flatten();
            let roots = roots.filter_map(|explained| explained.get(&key)).flatten();
            silent.extend(roots.filter(|(root, cause)| {
                *cause == RootCause::Unreachable
                    && self.loads.get(*root).is_some_and(|root| self.waits(root))
            }));
        }
        silent.into_iter().for_each(|root| self.grow(root));
        // A waiting port that still has no root becomes a root of unknown cause, unless another
        // port of its peer's device waits or is full.
        let is_busy = |peer: PortKey| {
            self.of_device(peer.0)
                .any(|(key, load)| *key != peer && (self.waits(load) || self.is_full(load)))
        };
        let ends: Vec<PortKey> = self
            .open()
            .filter(|key| !is_busy(self.loads[*key].peer))
            .collect();
        ends.into_iter()
            .for_each(|key| self.grow((key, RootCause::Unclear)));
    }

    /// Returns the waiting ports without a root.
    pub(super) fn open(&self) -> impl Iterator<Item = PortKey> {
        self.waiting()
            .filter(|key| !self.explained.contains_key(key))
    }

    /// Returns the waiting ports.
    pub(super) fn waiting(&self) -> impl Iterator<Item = PortKey> {
        let held = self.held.values().flatten().copied();
        held.filter(|key| self.waits(&self.loads[*key]))
    }

    /// Returns the loads of all ports.
    pub(super) fn loads(&self) -> impl Iterator<Item = (PortKey, PortLoad)> {
        self.loads.iter().map(|(key, load)| (key, *load))
    }

    /// Returns whether any port waits.
    pub(super) fn is_congested(&self) -> bool {
        self.waiting().next().is_some()
    }

    /// Returns the load of a port that is a root or waits.
    pub(super) fn load(&self, key: PortKey) -> PortLoad {
        self.loads[key]
    }

    /// Returns the number of ports with records through which the packets of a port can go on.
    pub(super) fn ports_beyond(&self, key: PortKey) -> usize {
        let onward = self.onward(key);
        onward.filter(|(_, load)| load.is_recorded).count()
    }

    /// Returns the time that the records cover in this interval, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.loads
            .iter()
            .map(|(_, load)| load.seconds)
            .fold(0.0, f64::max)
    }

    fn waits(&self, load: &PortLoad) -> bool {
        load.blocked > self.limits.waits
    }

    fn is_full(&self, load: &PortLoad) -> bool {
        load.used > self.limits.full
    }

    fn of_device(&self, guid: Guid) -> impl Iterator<Item = (&PortKey, &PortLoad)> {
        let of_device = self.loads.of_device(guid);
        of_device.iter().map(|(key, load)| (key, load))
    }

    /// Returns the ports through which the packets of a port can leave the switch at its end.
    fn onward(&self, port: PortKey) -> impl Iterator<Item = (&PortKey, &PortLoad)> {
        let of_device = self.of_device(self.loads[port].peer.0);
        of_device.filter(move |(key, _)| self.can_wait_for(port, **key))
    }

    /// Returns whether packets of a port can leave the device at its end through another one. A
    /// host forwards no packets, and none leaves a switch through the port at which it arrived.
    fn can_wait_for(&self, port: PortKey, next: PortKey) -> bool {
        let load = &self.loads[port];
        let routes = self.limits.routes;
        let is_on_path = || routes.is_none_or(|routes| routes.follows(port, next.1));
        !load.leads_to_host && load.peer != next && is_on_path()
    }

    /// Finds the ports that wait for a root. A port for which none waits is no root, unless it
    /// waits itself.
    fn grow(&mut self, root: Root) {
        let mut found: Vec<Waiting> = Vec::new();
        let mut queue = VecDeque::from([(root.0, 0)]);
        let mut reached = BTreeSet::from([root.0]);
        while let Some((next, depth)) = queue.pop_front() {
            for key in self.held.get(&next.0).into_iter().flatten() {
                let held = &self.loads[*key];
                if self.can_wait_for(*key, next)
                    && self.loads[next].covers(held)
                    && reached.insert(*key)
                {
                    found.push(Waiting {
                        port: *key,
                        next,
                        depth: depth + 1,
                    });
                    queue.push_back((*key, depth + 1));
                }
            }
        }
        // Those that hardly wait are kept where they are on the path of one that waits. A port
        // stands behind the one for which it waits.
        let mut kept: BTreeSet<PortKey> = BTreeSet::new();
        for waiting in found.iter().rev() {
            if kept.contains(&waiting.port) || self.waits(&self.loads[waiting.port]) {
                kept.extend([waiting.port, waiting.next]);
            }
        }
        if kept.is_empty() && !self.waits(&self.loads[root.0]) {
            return;
        }
        found.retain(|waiting| kept.contains(&waiting.port));
        let ports = found.iter().map(|waiting| waiting.port);
        for port in ports.chain([root.0]) {
            self.explained.entry(port).or_default().push(root);
        }
        self.roots.insert(root, found);
    }
}

impl PortLoad {
    /// Returns the share of the time in which the port sent or was blocked.
    fn active(&self) -> f64 {
        self.used + self.blocked
    }

    /// Returns whether the port had packets for as long as another one that waited for it.
    fn covers(&self, other: &Self) -> bool {
        self.active() >= COVERS * other.blocked
    }

    fn of(port: &PortSummary, other: Option<&PortSummary>, interval: u64) -> Option<Self> {
        let (peer, bin) = (port.peer?, port.bins.get(interval)?);
        let received = |bin: &TimeBin| bin.rcv_utilization.mean();
        let used = bin
            .xmit_utilization
            .mean()
            .or_else(|| received(other?.bins.get(interval)?))
            .unwrap_or(0.0);
        Some(Self {
            peer,
            leads_to_host: other.and_then(|other| other.kind) == Some(NodeKind::Hca),
            is_recorded: true,
            used,
            received: received(bin),
            blocked: bin.blocked.mean().unwrap_or(0.0),
            seconds: bin.xmit_utilization.seconds().max(bin.blocked.seconds()),
        })
    }

    /// Returns the load of the peer, which has no records. Its blocked time is unknown, but 0 is
    /// nearly right for a port that is full.
    fn of_peer(&self, own: PortKey) -> Option<Self> {
        let used = self.received?;
        Some(Self {
            peer: own,
            leads_to_host: false,
            is_recorded: false,
            used,
            received: None,
            blocked: 0.0,
            seconds: self.seconds,
        })
    }
}
