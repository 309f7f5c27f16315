//! The search for roots in one interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use ibnet_record::types::{Guid, NodeKind};

use super::{Confidence, Limits, RootCause};
use crate::devices::Devices;
use crate::ports::bins::TimeBin;
use crate::ports::{PortKey, PortSummary};
use crate::record::Interval;

/// A port by its place in [`Places`].
pub(super) type Place = usize;

pub(super) type Root = (Place, RootCause);

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

/// The ports of a search and their peers, in the order of their keys. The search looks for a port
/// or the ports of a device all the time, which numbers make much cheaper than keys.
#[derive(Debug)]
pub(super) struct Places<'p> {
    keys: Vec<PortKey>,
    /// The ports with records that have a peer.
    ports: Vec<Option<WithPeer<'p>>>,
    /// The device of each port, by its place in `devices`.
    device_of: Vec<usize>,
    /// The devices in the order of their GUIDs, with the places of their ports.
    devices: Vec<(Guid, Range<Place>)>,
}

/// A port, the place of its peer, and its peer if there are records of it.
#[derive(Clone, Copy, Debug)]
struct WithPeer<'p> {
    port: &'p PortSummary,
    peer: Place,
    other: Option<&'p PortSummary>,
}

impl<'p> Places<'p> {
    pub(super) fn new(ports: &'p BTreeMap<PortKey, PortSummary>) -> Self {
        let peers = ports.values().filter_map(|port| port.peer);
        let mut keys: Vec<PortKey> = ports.keys().copied().chain(peers).collect();
        keys.sort_unstable();
        keys.dedup();
        let with_peer = |key: &PortKey| {
            let port = ports.get(key)?;
            let peer = port.peer?;
            Some(WithPeer {
                port,
                peer: keys.binary_search(&peer).ok()?,
                other: ports.get(&peer),
            })
        };
        let (mut devices, mut device_of) = (Vec::<(Guid, Range<Place>)>::new(), Vec::new());
        for (place, (guid, _)) in keys.iter().enumerate() {
            match devices.last_mut().filter(|(last, _)| last == guid) {
                Some((_, places)) => places.end = place + 1,
                None => devices.push((*guid, place..place + 1)),
            }
            device_of.push(devices.len() - 1);
        }
        Self {
            ports: keys.iter().map(with_peer).collect(),
            keys,
            device_of,
            devices,
        }
    }
}

/// The loads of all ports in one interval, and the roots in it.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    /// Number of the interval.
    pub(super) number: u64,
    limits: Limits<'a>,
    places: &'a Places<'a>,
    /// The loads by place.
    loads: Vec<Option<PortLoad>>,
    /// The ports that can pass congestion on, in their order, by the device at the other end of
    /// their links. The waiting ports are some of them.
    held: Vec<Vec<Place>>,
    /// Roots with the ports that wait for them.
    pub(super) roots: BTreeMap<Root, Vec<Waiting>>,
    /// The possible roots of each waiting port.
    pub(super) explained: Explained,
    /// Those of them in this interval alone that do not answer.
    pub(super) silent: Explained,
    /// For each port, the last growth that reached it, and the last one that kept it.
    marks: Vec<[u32; 2]>,
    growths: u32,
}

/// The possible roots of each port. A root that itself waits is its own root.
pub(super) type Explained = BTreeMap<Place, Vec<Root>>;

/// A port that waits for a root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) port: Place,
    /// The next port on the path to the root.
    pub(super) next: Place,
    /// Number of links to the root.
    pub(super) depth: usize,
}

/// Load of a port in one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortLoad {
    peer: Place,
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
        places: &'a Places<'a>,
        devices: &Devices,
        limits: Limits<'a>,
    ) -> Self {
        let recorded = places.ports.iter();
        let mut loads: Vec<Option<PortLoad>> = recorded
            .map(|port| PortLoad::of(port.as_ref()?, number))
            .collect();
        let is_open = |load: &PortLoad| loads[load.peer].is_none();
        let of_peer = |(place, load): (Place, &PortLoad)| Some((load.peer, load.of_peer(place)?));
        let without_records = with_loads(&loads).filter(|(_, load)| is_open(load));
        let without_records: Vec<_> = without_records.filter_map(of_peer).collect();
        // Of two ports with the same peer, the last one counts.
        for (place, load) in without_records {
            loads[place] = Some(load);
        }
        let mut held = vec![Vec::new(); places.devices.len()];
        let passes = PASSES.min(limits.waits);
        for (place, load) in with_loads(&loads).filter(|(_, load)| load.blocked > passes) {
            held[places.device_of[load.peer]].push(place);
        }
        let mut found = Self {
            number,
            limits,
            places,
            marks: vec![[0; 2]; loads.len()],
            growths: 0,
            loads,
            held,
            roots: BTreeMap::new(),
            explained: BTreeMap::new(),
            silent: BTreeMap::new(),
        };
        let time = Interval::new(
            number.saturating_mul(interval_ns),
            number.saturating_add(1).saturating_mul(interval_ns),
        );
        // A device with rates in this interval did answer.
        let is_away = |device: &usize| {
            let away = devices
                .away(places.devices[*device].0)
                .zip(time)
                .and_then(|((from, to), time)| time.within(from, to));
            away.is_some() && found.of_device(*device).all(|(_, load)| !load.is_recorded)
        };
        let of_held = || (0..found.held.len()).filter(|device| !found.held[*device].is_empty());
        let away: BTreeSet<usize> = of_held().filter(is_away).collect();
        let is_away = |load: &PortLoad| away.contains(&places.device_of[load.peer]);
        let slow = with_loads(&found.loads)
            .filter(|(_, load)| found.waits(load) && load.leads_to_host && !is_away(load));
        let slow = slow.map(|(place, _)| (place, RootCause::SlowHost));
        let full = of_held().flat_map(|device| found.full_ports(device));
        let full = full.map(|place| (place, RootCause::Full));
        let roots: Vec<Root> = slow.chain(full).collect();
        roots.into_iter().for_each(|root| found.grow(root));
        found.add_short();
        let open = found.open();
        let silent: Vec<Place> = open.filter(|place| is_away(found.load(*place))).collect();
        silent
            .into_iter()
            .for_each(|place| found.grow((place, RootCause::Unreachable)));
        if !away.is_empty() {
            found.silent = found.explained.clone();
            found.silent.retain(|_, roots| {
                roots.retain(|(_, cause)| *cause == RootCause::Unreachable);
                !roots.is_empty()
            });
        }
        found
    }

    /// Returns the ports of a device for which others wait, without those that wait for a host.
    fn full_ports(&self, device: usize) -> impl Iterator<Item = Place> {
        let of_device = self.of_device(device);
        of_device.filter_map(|(place, load)| {
            let is_slow = self.waits(load) && load.leads_to_host;
            (!is_slow && self.full(place, load).is_some()).then_some(place)
        })
    }

    /// Returns how surely others wait for a port because more packets come than it can send.
    fn full(&self, place: Place, load: &PortLoad) -> Option<Confidence> {
        let mut held = self.held[self.places.device_of[place]].iter();
        if !self.is_full(load) || !held.any(|held| self.can_wait_for(*held, place)) {
            return None;
        }
        let further = self.onward(place).map(|(_, load)| load.used);
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
        let mut ends: BTreeMap<Place, f64> = BTreeMap::new();
        let mut passed = Vec::new();
        for place in self.open() {
            let path = self.busiest_path(place);
            // An end that waits itself is not the root.
            if let Some(end) = path.last().filter(|end| !self.waits(self.load(**end))) {
                *ends.entry(*end).or_default() += self.load(place).blocked;
                passed.extend(path);
            }
        }
        for place in passed {
            let device = self.places.device_of[self.load(place).peer];
            let held = &mut self.held[device];
            if let Err(at) = held.binary_search(&place) {
                held.insert(at, place);
            }
        }
        ends.retain(|end, blocked| *blocked >= SHORT_BLOCKED || self.load(*end).used > SHORT_USED);
        ends.into_keys()
            .for_each(|end| self.grow((end, RootCause::Full)));
    }

    /// Returns the busiest port of the switch at the other end of a waiting port's link, the
    /// busiest one after that, and so on, for as long as they use their links alike.
    fn busiest_path(&self, waiting: Place) -> Vec<Place> {
        let mut path: Vec<Place> = Vec::new();
        let waiting = (waiting, self.load(waiting));
        let (mut last, mut at) = waiting;
        while path.len() < LONGEST_PATH {
            let onward = self.onward(last);
            let busiest = onward.max_by(|(_, a), (_, b)| a.active().total_cmp(&b.active()));
            let Some((place, next)) = busiest else { break };
            let goes_on = if path.is_empty() {
                next.covers(waiting.1)
            } else {
                // A port that was not blocked at all has no congestion after it.
                at.blocked > 0.0 && next.used >= at.used - LESS
            };
            if !goes_on {
                break;
            }
            path.push(place);
            (last, at) = (place, next);
        }
        path
    }

    /// Returns how surely a port is a root; `None` for a cause that the model of
    /// `docs/congestion.md` does not have.
    pub(super) fn confidence(&self, (place, cause): Root) -> Option<Confidence> {
        match cause {
            RootCause::Full => self.full(place, self.load(place)).or(Some(Confidence::Low)),
            RootCause::SlowHost => Some(Confidence::High),
            RootCause::Unreachable | RootCause::Unclear => None,
        }
    }

    /// Adds the devices that do not answer in the interval before or after, and the roots of
    /// unknown cause.
    pub(super) fn complete(&mut self, neighbours: [Option<&Explained>; 2]) {
        let mut silent: BTreeSet<Root> = BTreeSet::new();
        if neighbours.iter().flatten().any(|of| !of.is_empty()) {
            for place in self.open() {
                let roots = neighbours.iter().flatten();
                let roots = roots.filter_map(|silent| silent.get(&place)).flatten();
                silent.extend(roots.filter(|(root, _)| {
                    let load = self.loads[*root].as_ref();
                    load.is_some_and(|root| self.waits(root))
                }));
            }
        }
        silent.into_iter().for_each(|root| self.grow(root));
        // A waiting port that still has no root becomes a root of unknown cause, unless another
        // port of its peer's device waits or is full.
        let is_busy = |peer: Place| {
            self.of_device(self.places.device_of[peer])
                .any(|(place, load)| place != peer && (self.waits(load) || self.is_full(load)))
        };
        let ends: Vec<Place> = self
            .open()
            .filter(|place| !is_busy(self.load(*place).peer))
            .collect();
        ends.into_iter()
            .for_each(|place| self.grow((place, RootCause::Unclear)));
    }

    /// Returns the waiting ports without a root.
    pub(super) fn open(&self) -> impl Iterator<Item = Place> {
        self.waiting()
            .filter(|place| !self.explained.contains_key(place))
    }

    /// Returns the waiting ports.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Place> {
        let held = self.held.iter().flatten().copied();
        held.filter(|place| self.waits(self.load(*place)))
    }

    /// Returns the loads of all ports.
    pub(super) fn loads(&self) -> impl Iterator<Item = (PortKey, PortLoad)> {
        with_loads(&self.loads).map(|(place, load)| (self.key(place), *load))
    }

    /// Returns whether any port waits.
    pub(super) fn is_congested(&self) -> bool {
        self.waiting().next().is_some()
    }

    /// Returns the key of a port.
    pub(super) fn key(&self, place: Place) -> PortKey {
        self.places.keys[place]
    }

    /// Returns the load of a port that has one.
    pub(super) fn load(&self, place: Place) -> &PortLoad {
        self.loads[place].as_ref().expect("a port of the snapshot")
    }

    /// Returns the number of ports with records through which the packets of a port can go on.
    pub(super) fn ports_beyond(&self, place: Place) -> usize {
        let onward = self.onward(place);
        onward.filter(|(_, load)| load.is_recorded).count()
    }

    /// Returns the time that the records cover in this interval, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        with_loads(&self.loads)
            .map(|(_, load)| load.seconds)
            .fold(0.0, f64::max)
    }

    fn waits(&self, load: &PortLoad) -> bool {
        load.blocked > self.limits.waits
    }

    fn is_full(&self, load: &PortLoad) -> bool {
        load.used > self.limits.full
    }

    fn of_device(&self, device: usize) -> impl Iterator<Item = (Place, &PortLoad)> {
        let places = self.places.devices[device].1.clone();
        places.filter_map(|place| Some((place, self.loads[place].as_ref()?)))
    }

    /// Returns the ports through which the packets of a port can leave the switch at its end.
    fn onward(&self, port: Place) -> impl Iterator<Item = (Place, &PortLoad)> {
        let of_device = self.of_device(self.places.device_of[self.load(port).peer]);
        of_device.filter(move |(place, _)| self.can_wait_for(port, *place))
    }

    /// Returns whether packets of a port can leave the device at its end through another one. A
    /// host forwards no packets, and none leaves a switch through the port at which it arrived.
    fn can_wait_for(&self, port: Place, next: Place) -> bool {
        let load = self.load(port);
        let routes = self.limits.routes;
        let follows = || routes.is_none_or(|of| of.follows(self.key(port), self.key(next).1));
        !load.leads_to_host && load.peer != next && follows()
    }

    /// Finds the ports that wait for a root. A port for which none waits is no root, unless it
    /// waits itself.
    fn grow(&mut self, root: Root) {
        let mut found: Vec<Waiting> = Vec::new();
        let mut queue = VecDeque::from([(root.0, 0)]);
        self.growths += 1;
        let growth = self.growths;
        self.marks[root.0][0] = growth;
        while let Some((next, depth)) = queue.pop_front() {
            for place in &self.held[self.places.device_of[next]] {
                if self.marks[*place][0] != growth
                    && self.can_wait_for(*place, next)
                    && self.load(next).covers(self.load(*place))
                {
                    self.marks[*place][0] = growth;
                    found.push(Waiting {
                        port: *place,
                        next,
                        depth: depth + 1,
                    });
                    queue.push_back((*place, depth + 1));
                }
            }
        }
        // Those that hardly wait are kept where they are on the path of one that waits. A port
        // stands behind the one for which it waits.
        let mut is_empty = true;
        for waiting in found.iter().rev() {
            if self.marks[waiting.port][1] == growth || self.waits(self.load(waiting.port)) {
                self.marks[waiting.port][1] = growth;
                self.marks[waiting.next][1] = growth;
                is_empty = false;
            }
        }
        if is_empty && !self.waits(self.load(root.0)) {
            return;
        }
        found.retain(|waiting| self.marks[waiting.port][1] == growth);
        let ports = found.iter().map(|waiting| waiting.port);
        for port in ports.chain([root.0]) {
            self.explained.entry(port).or_default().push(root);
        }
        self.roots.insert(root, found);
    }
}

/// Returns the loads that ports have, with their places.
fn with_loads(loads: &[Option<PortLoad>]) -> impl Iterator<Item = (Place, &PortLoad)> {
    let loads = loads.iter().enumerate();
    loads.filter_map(|(place, load)| Some((place, load.as_ref()?)))
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

    fn of(with_peer: &WithPeer<'_>, interval: u64) -> Option<Self> {
        let WithPeer { port, peer, other } = *with_peer;
        let bin = port.bins.get(interval)?;
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
    fn of_peer(&self, own: Place) -> Option<Self> {
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
