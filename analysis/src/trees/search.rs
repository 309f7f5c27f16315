//! The search for roots in one interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ibnet_record::types::{Guid, NodeKind, PortNum};

use super::{Limits, RootCause};
use crate::devices::Devices;
use crate::ports::bins::TimeBin;
use crate::ports::{PortKey, PortSummary};
use crate::record::Interval;

pub(super) type Root = (PortKey, RootCause);

/// The loads of all ports in one interval, and the roots in it.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Number of the interval.
    pub(super) number: u64,
    limits: Limits,
    loads: BTreeMap<PortKey, PortLoad>,
    /// The waiting ports by the device at the other end of their links.
    waiting: BTreeMap<Guid, Vec<PortKey>>,
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

impl Snapshot {
    /// Finds the roots that an interval shows by itself: full ports, ports that wait for a host,
    /// and ports that wait for a device that does not answer. A port without records can also be
    /// a root, because it sent what its peer received.
    ///
    /// The interval is given by its number and its length in nanoseconds.
    pub(super) fn of(
        (number, interval_ns): (u64, u64),
        ports: &BTreeMap<PortKey, PortSummary>,
        devices: &Devices,
        limits: Limits,
    ) -> Self {
        let mut loads: BTreeMap<PortKey, PortLoad> = ports
            .iter()
            .filter_map(|(key, port)| Some((*key, PortLoad::of(port, ports, number)?)))
            .collect();
        let without_records = loads
            .iter()
            .filter(|(_, load)| !loads.contains_key(&load.peer));
        let without_records: Vec<_> = without_records
            .filter_map(|(key, load)| Some((load.peer, load.of_peer(*key)?)))
            .collect();
        loads.extend(without_records);
        let mut waiting: BTreeMap<Guid, Vec<PortKey>> = BTreeMap::new();
        for (key, load) in loads.iter().filter(|(_, load)| load.blocked > limits.waits) {
            waiting.entry(load.peer.0).or_default().push(*key);
        }
        let mut found = Self {
            number,
            limits,
            loads,
            waiting,
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
            .waiting
            .keys()
            .copied()
            .filter(|guid| is_away(*guid))
            .collect();
        let roots: Vec<Root> = found
            .loads
            .iter()
            .filter_map(|(key, load)| Some((*key, found.cause(key, load, &away)?)))
            .collect();
        roots.into_iter().for_each(|root| found.grow(root));
        let silent: Vec<PortKey> = found
            .open()
            .filter(|key| away.contains(&found.loads[key].peer.0))
            .collect();
        silent
            .into_iter()
            .for_each(|key| found.grow((key, RootCause::Unreachable)));
        found
    }

    /// Returns why a port is a root, if it is: it is full and others wait for it, or it waits for
    /// a host that answers. `away` has the devices that do not answer.
    fn cause(&self, key: &PortKey, load: &PortLoad, away: &BTreeSet<Guid>) -> Option<RootCause> {
        // A full port is a root only if another port waits for it.
        let has_victim = || {
            self.waiting
                .get(&key.0)
                .is_some_and(|waiting| waiting.iter().any(|one| self.loads[one].peer != *key))
        };
        match load {
            load if self.waits(load) => {
                (load.leads_to_host && !away.contains(&load.peer.0)).then_some(RootCause::SlowHost)
            }
            load if self.is_full(load) && has_victim() => Some(RootCause::Full),
            _ => None,
        }
    }

    /// Adds the roots that are known only from the intervals before and after, and the roots of
    /// unknown cause.
    ///
    /// If congestion begins or ends within the interval, its root is not full on average. A root
    /// that a waiting port has in the interval before or after is then accepted here too,
    /// provided that it was used for at least as long as the port waited.
    pub(super) fn complete(&mut self, neighbours: [Option<&Explained>; 2]) {
        // A device that does not answer is the cause only if no other root explains the waiting
        // port.
        let silent: Vec<Root> = self
            .roots
            .keys()
            .copied()
            .filter(|(_, cause)| *cause == RootCause::Unreachable)
            .collect();
        self.roots.retain(|root, _| !silent.contains(root));
        self.explained
            .values_mut()
            .for_each(|roots| roots.retain(|root| !silent.contains(root)));
        self.explained.retain(|_, roots| !roots.is_empty());
        self.grow_from(neighbours, |cause| cause != RootCause::Unreachable);
        let silent: Vec<Root> = silent
            .into_iter()
            .filter(|(key, _)| !self.explained.contains_key(key))
            .collect();
        silent.into_iter().for_each(|root| self.grow(root));
        self.grow_from(neighbours, |cause| cause == RootCause::Unreachable);
        // A waiting port that still has no root becomes a root of unknown cause, unless another
        // port of its peer's device waits or is full.
        let is_busy = |peer: PortKey| {
            self.of_device(peer.0)
                .any(|(key, load)| *key != peer && (self.waits(load) || self.is_full(load)))
        };
        let ends: Vec<PortKey> = self
            .open()
            .filter(|key| !is_busy(self.loads[key].peer))
            .collect();
        ends.into_iter()
            .for_each(|key| self.grow((key, RootCause::Unclear)));
    }

    /// Adds those roots of certain causes that ports without a root have in the intervals before
    /// and after.
    fn grow_from(
        &mut self,
        neighbours: [Option<&Explained>; 2],
        is_wanted: impl Fn(RootCause) -> bool,
    ) {
        let mut possible: BTreeSet<Root> = BTreeSet::new();
        for key in self.open() {
            let roots = neighbours
                .iter()
                .flatten()
                .filter_map(|explained| explained.get(&key))
                .flatten();
            possible.extend(
                roots.filter(|root| {
                    is_wanted(root.1) && self.is_possible(**root, &self.loads[&key])
                }),
            );
        }
        // The roots of this interval already have all ports that they explain.
        possible.retain(|root| !self.roots.contains_key(root));
        possible.into_iter().for_each(|root| self.grow(root));
    }

    /// Returns whether the root of another interval can explain a port that waits in this one.
    fn is_possible(&self, (root, cause): Root, victim: &PortLoad) -> bool {
        self.loads.get(&root).is_some_and(|root| match cause {
            RootCause::Full => !self.waits(root) && root.used > self.limits.full * victim.blocked,
            _ => self.waits(root),
        })
    }

    /// Returns the waiting ports without a root.
    pub(super) fn open(&self) -> impl Iterator<Item = PortKey> {
        self.waiting
            .values()
            .flatten()
            .copied()
            .filter(|key| !self.explained.contains_key(key))
    }

    /// Returns the waiting ports.
    pub(super) fn waiting(&self) -> impl Iterator<Item = PortKey> {
        self.waiting.values().flatten().copied()
    }

    /// Returns the loads of all ports.
    pub(super) fn loads(&self) -> impl Iterator<Item = (PortKey, PortLoad)> {
        self.loads.iter().map(|(key, load)| (*key, *load))
    }

    /// Returns whether any port waits.
    pub(super) fn is_congested(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the load of a port that is a root or waits.
    pub(super) fn load(&self, key: PortKey) -> PortLoad {
        self.loads[&key]
    }

    /// Returns the time that the records cover in this interval, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.loads
            .values()
            .map(|load| load.seconds)
            .fold(0.0, f64::max)
    }

    fn waits(&self, load: &PortLoad) -> bool {
        load.blocked > self.limits.waits
    }

    fn is_full(&self, load: &PortLoad) -> bool {
        load.used > self.limits.full && !self.waits(load)
    }

    fn of_device(&self, guid: Guid) -> impl Iterator<Item = (&PortKey, &PortLoad)> {
        self.loads
            .range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)))
    }

    /// Finds the ports that wait for a root.
    fn grow(&mut self, root: Root) {
        let mut found = Vec::new();
        let mut queue = VecDeque::from([(root.0, 0)]);
        let mut reached = BTreeSet::from([root.0]);
        while let Some((next, depth)) = queue.pop_front() {
            self.explained.entry(next).or_default().push(root);
            for key in self.waiting.get(&next.0).into_iter().flatten() {
                // No packet leaves a switch through the port at which it arrived.
                if self.loads[key].peer != next && reached.insert(*key) {
                    found.push(Waiting {
                        port: *key,
                        next,
                        depth: depth + 1,
                    });
                    queue.push_back((*key, depth + 1));
                }
            }
        }
        self.roots.insert(root, found);
    }
}

impl PortLoad {
    fn of(
        port: &PortSummary,
        ports: &BTreeMap<PortKey, PortSummary>,
        interval: u64,
    ) -> Option<Self> {
        let (peer, bin) = (port.peer?, port.bins.get(interval)?);
        let other = ports.get(&peer);
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
