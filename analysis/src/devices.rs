//! Finds devices that do not answer: dead switches and hosts, and the devices that can be reached
//! only through them.
//!
//! A device is a switch, or one port of an HCA. A record of one of its ports with a reply (`ok`,
//! `late`, `mad_error`, `bad_reply`, `down`) or the event `reachable` is evidence that it
//! answers. A record with the status `unreachable` or `timeout`, or the event `unreachable`, is
//! evidence that it does not. A device counts as unreachable at the end of the time range if
//!
//! - its latest evidence includes the status or the event `unreachable`, or
//! - no evidence of an answer exists in the whole time range.
//!
//! Single timeouts after the last reply count as lost packets, not as a dead device. The statuses
//! `skipped` and `send_error` are no evidence, because the sampler did not send all queries.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ibnet_record::types::{Guid, NodeKind, PortNum};
use ibnet_record::{EventName, Says, Status};

use crate::input::Fold;
use crate::input::run::Run;
use crate::ports::{PortKey, PortName};
use crate::record::{Event, Port, Record, Type};

/// Evidence about all devices of the input.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Devices {
    by_guid: BTreeMap<Guid, Evidence>,
}

/// Fault of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceFault {
    /// The device does not answer at the end of the time range.
    Unreachable,
    /// Another device answers at the LID of the device at the end of the time range.
    WrongDevice,
    /// The device did not answer for some time, and answers at the end.
    WasUnreachable,
}

impl DeviceFault {
    /// Returns the name in the JSON output.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::WrongDevice => "wrong_device",
            Self::WasUnreachable => "was_unreachable",
        }
    }
}

/// A device with a fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultyDevice {
    /// The device. The port number of a switch is 0, because port 0 has the GUID of the switch and
    /// answers the queries.
    pub port: PortName,
    /// Kind of the device. `None` if the input has only events of it.
    pub kind: Option<NodeKind>,
    /// The fault.
    pub fault: DeviceFault,
    /// Time of the first evidence of the fault, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Whether the device answered in the time range before the fault. If it did not, the fault
    /// may have begun before `since_ns`.
    pub answered_before: bool,
    /// Number of ports in the records.
    pub ports: usize,
    /// Unreachable devices whose only connection is through this device, by name.
    pub behind: Vec<PortName>,
}

/// What the records and events show about a device. The records of one port must be added in time
/// order; different ports and events can come in any order.
#[derive(Clone, PartialEq, Debug, Default)]
struct Evidence {
    node: Box<str>,
    kind: Option<NodeKind>,
    ports: BTreeMap<PortNum, PortEvidence>,
    /// Times of the first and the last event `unreachable`.
    lost: Option<(u64, u64)>,
    /// Time of the last event `reachable`.
    found: Option<u64>,
}

/// What the records show about a port. All times are in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PortEvidence {
    /// The port at the other end of the link.
    peer: Option<PortKey>,
    /// Time until which the last reply proves that the device answers: three quarters of `dt_ns`
    /// after the reply.
    ///
    /// A port can have two samplers, which query it half an interval apart. If only one of them
    /// loses the device, the last reply to the other one is up to half an interval old, and it
    /// still proves that the device answers.
    answered: Option<u64>,
    /// Time until which the last reply with a link that is not down proves that the link is up.
    up: Option<u64>,
    /// Time of the first record without a reply after `answered`.
    silent: Option<u64>,
    /// Time of the first record with the status `down` after `up`.
    down: Option<u64>,
    /// Times of the first and the last record with the status `unreachable`.
    unreachable: Option<(u64, u64)>,
    /// Times of the first and the last record with the status `wrong_device`.
    wrong: Option<(u64, u64)>,
}

impl Fold for Devices {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Event)
    }

    fn uses_counters(&self) -> bool {
        false
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            ["node", "kind", "peer_guid", "peer_port", "status", "dt_ns"]
                .map(str::to_owned)
                .to_vec(),
        )
    }

    fn takes_runs(&self) -> bool {
        true
    }

    fn add_run(&mut self, run: &Run<'_>) {
        let evidence = self.by_guid.entry(run.port().guid).or_default();
        if run.port().says() != Says::Answers {
            run.rows().for_each(|row| evidence.add(&run.record(row)));
            return;
        }
        // Of many replies, only the one whose proof lasts longest matters.
        let until = run
            .rows()
            .max_by_key(|row| answered_until(run.ts(*row), run.lengths_ns(*row).0));
        until
            .into_iter()
            .for_each(|row| evidence.add(&run.record(row)));
        evidence.add(&run.last());
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) if !port.is_edge => {
                self.by_guid.entry(port.guid).or_default().add(port);
            }
            Record::Event(event) => self.add_event(event),
            _ => {}
        }
    }

    fn merge(&mut self, later: Self) {
        for (guid, evidence) in later.by_guid {
            self.by_guid.entry(guid).or_default().merge(evidence);
        }
    }
}

impl Devices {
    fn add_event(&mut self, event: &Event<'_>) {
        let Some(guid) = event.guid else { return };
        match EventName::named(&event.event) {
            Some(EventName::Unreachable) => {
                let evidence = self.by_guid.entry(guid).or_default();
                evidence.lost = joined(evidence.lost, Some((event.ts, event.ts)));
            }
            Some(EventName::Reachable) => {
                let evidence = self.by_guid.entry(guid).or_default();
                evidence.found = evidence.found.max(Some(event.ts));
            }
            _ => {}
        }
    }

    /// Returns whether the device does not answer at the end of the time range.
    pub fn is_unreachable(&self, guid: Guid) -> bool {
        self.by_guid
            .get(&guid)
            .is_some_and(|evidence| evidence.is_unreachable())
    }

    /// Returns the time in which the device did not answer, in nanoseconds since 1970, from the
    /// first to the last evidence. It has no end if the device is still unreachable at the end of
    /// the time range. Returns `None` if the device always answered.
    pub fn away(&self, guid: Guid) -> Option<(u64, u64)> {
        let evidence = self.by_guid.get(&guid)?;
        if evidence.is_unreachable() {
            return evidence.fault(guid).map(|fault| (fault.since_ns, u64::MAX));
        }
        evidence
            .ports
            .values()
            .map(|port| port.unreachable)
            .fold(evidence.lost, joined)
    }

    /// Returns the time since which PortInfo reports the link of a port as down, in nanoseconds
    /// since 1970. Returns `None` if the last record reports another state.
    pub fn down_since(&self, (guid, number): PortKey) -> Option<u64> {
        self.by_guid.get(&guid)?.ports.get(&number)?.down
    }

    /// Returns all devices with faults: unreachable devices first, and switches before hosts.
    ///
    /// An unreachable device whose only connections lead to other unreachable devices has no
    /// entry of its own, because they may be all that cuts it off. It is listed in
    /// [`FaultyDevice::behind`] of the nearest one.
    pub fn faults(&self) -> Vec<FaultyDevice> {
        let unreachable: BTreeSet<Guid> = self
            .by_guid
            .iter()
            .filter(|(_, evidence)| evidence.is_unreachable())
            .map(|(guid, _)| *guid)
            .collect();
        let mut behind = self.behind(&unreachable);
        let is_listed = |guid: &Guid| !unreachable.contains(guid) || behind.contains_key(guid);
        let mut faults: Vec<FaultyDevice> = self
            .by_guid
            .iter()
            .filter(|(guid, _)| is_listed(guid))
            .filter_map(|(guid, evidence)| evidence.fault(*guid))
            .collect();
        for fault in &mut faults {
            fault.behind = behind
                .remove(&fault.port.guid)
                .unwrap_or_default()
                .into_iter()
                .map(|guid| self.name(guid))
                .collect();
            fault
                .behind
                .sort_by(|a, b| a.node.cmp(&b.node).then(a.guid.cmp(&b.guid)));
        }
        faults.sort_by_key(|device| {
            let is_host = device.kind != Some(NodeKind::Switch);
            (
                device.fault,
                is_host,
                Reverse(device.behind.len()),
                device.since_ns,
                device.port.guid,
            )
        });
        faults
    }

    /// Maps each unreachable device that has a reachable neighbour to the other unreachable
    /// devices for which it is the nearest one.
    ///
    /// If nothing answers in a whole part of the fabric, no device there has a reachable
    /// neighbour, and the first switch of this part takes its place.
    fn behind(&self, unreachable: &BTreeSet<Guid>) -> BTreeMap<Guid, Vec<Guid>> {
        let neighbours = self.neighbours();
        let of = |guid: Guid| neighbours.get(&guid).into_iter().flatten().copied();
        let is_first = |guid: Guid| {
            of(guid).next().is_none() || of(guid).any(|peer| !unreachable.contains(&peer))
        };
        let is_host = |guid: Guid| {
            self.by_guid
                .get(&guid)
                .is_none_or(|evidence| evidence.kind != Some(NodeKind::Switch))
        };
        let mut candidates: Vec<Guid> = unreachable.iter().copied().collect();
        candidates.sort_by_key(|guid| (!is_first(*guid), is_host(*guid)));
        let mut behind: BTreeMap<Guid, Vec<Guid>> = BTreeMap::new();
        let mut nearest: BTreeMap<Guid, Guid> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for guid in candidates {
            if !is_first(guid) {
                // Every device behind those chosen so far is assigned first, so a new entry is
                // made only for a part of the fabric without a reachable neighbour.
                assign(&mut queue, &mut nearest, &mut behind, &of, unreachable);
            }
            if let Entry::Vacant(entry) = nearest.entry(guid) {
                entry.insert(guid);
                behind.insert(guid, Vec::new());
                queue.push_back(guid);
            }
        }
        assign(&mut queue, &mut nearest, &mut behind, &of, unreachable);
        behind
    }

    fn neighbours(&self) -> BTreeMap<Guid, BTreeSet<Guid>> {
        let mut neighbours: BTreeMap<Guid, BTreeSet<Guid>> = BTreeMap::new();
        for (guid, evidence) in &self.by_guid {
            for (peer, _) in evidence.ports.values().filter_map(|port| port.peer) {
                neighbours.entry(*guid).or_default().insert(peer);
                neighbours.entry(peer).or_default().insert(*guid);
            }
        }
        neighbours
    }

    fn name(&self, guid: Guid) -> PortName {
        self.by_guid.get(&guid).map_or_else(
            || PortName::new("", (guid, PortNum(0))),
            |evidence| evidence.name(guid),
        )
    }
}

impl Evidence {
    fn add(&mut self, port: &Port<'_>) {
        if *self.node != *port.node {
            self.node = (&*port.node).into();
        }
        self.kind = port.kind.or(self.kind);
        let evidence = PortEvidence::of(port);
        self.ports.entry(port.port).or_default().merge(evidence);
    }

    fn merge(&mut self, later: Self) {
        if !later.node.is_empty() {
            self.node = later.node;
        }
        self.kind = later.kind.or(self.kind);
        for (number, evidence) in later.ports {
            self.ports.entry(number).or_default().merge(evidence);
        }
        self.lost = joined(self.lost, later.lost);
        self.found = self.found.max(later.found);
    }

    fn name(&self, guid: Guid) -> PortName {
        let number = match self.kind {
            Some(NodeKind::Switch) | None => PortNum(0),
            _ => self.ports.keys().next().copied().unwrap_or(PortNum(0)),
        };
        PortName::new(&self.node, (guid, number))
    }

    /// Returns the time of the last evidence that the device answers.
    fn answered(&self) -> Option<u64> {
        self.ports
            .values()
            .filter_map(|port| port.answered)
            .max()
            .max(self.found)
    }

    /// Returns the time of the last evidence that the device is unreachable.
    fn unreachable(&self) -> Option<u64> {
        self.ports
            .values()
            .filter_map(|port| port.unreachable)
            .map(|(_, last)| last)
            .max()
            .max(self.lost.map(|(_, last)| last))
    }

    fn is_unreachable(&self) -> bool {
        match (self.answered(), self.unreachable()) {
            (Some(answered), unreachable) => unreachable > Some(answered),
            (None, Some(_)) => true,
            (None, None) => {
                self.ports.values().any(|port| port.silent.is_some()) && self.wrong().is_none()
            }
        }
    }

    /// Returns the times of the first and the last record with the status `wrong_device`.
    fn wrong(&self) -> Option<(u64, u64)> {
        self.ports
            .values()
            .map(|port| port.wrong)
            .fold(None, joined)
    }

    fn fault(&self, guid: Guid) -> Option<FaultyDevice> {
        let answered = self.answered();
        let wrong = self.wrong().filter(|(_, last)| Some(*last) > answered);
        let first_lost = || {
            let of_ports = self.ports.values().filter_map(|port| port.unreachable);
            of_ports.chain(self.lost).map(|(first, _)| first).min()
        };
        let (fault, since_ns) = if self.is_unreachable() {
            // The event can be earlier than the first record without a reply, so the earliest
            // time counts.
            let of_ports = self.ports.values().filter_map(|port| port.silent);
            let of_events = self
                .lost
                .into_iter()
                .flat_map(|(first, last)| [first, last]);
            (
                DeviceFault::Unreachable,
                of_ports
                    .chain(of_events)
                    .filter(|since| Some(*since) > answered)
                    .min()?,
            )
        } else if let Some((first, _)) = wrong {
            (DeviceFault::WrongDevice, first)
        } else {
            (DeviceFault::WasUnreachable, first_lost()?)
        };
        let answered_before = match fault {
            DeviceFault::WasUnreachable => true,
            _ => answered.is_some(),
        };
        Some(FaultyDevice {
            port: self.name(guid),
            kind: self.kind,
            fault,
            since_ns,
            answered_before,
            ports: self.ports.len(),
            behind: Vec::new(),
        })
    }
}

/// Returns the time until which a reply proves that the device answers: see
/// [`PortEvidence::answered`].
fn answered_until(ts: u64, dt_ns: Option<u64>) -> u64 {
    ts.saturating_add(dt_ns.unwrap_or(0) / 4 * 3)
}

impl PortEvidence {
    fn of(port: &Port<'_>) -> Self {
        let (now, range) = (Some(port.ts), Some((port.ts, port.ts)));
        let until = Some(answered_until(port.ts, port.dt_ns));
        let mut evidence = Self {
            peer: port.peer_guid.zip(port.peer_port),
            ..Self::default()
        };
        match port.says() {
            Says::Answers => (evidence.answered, evidence.up) = (until, until),
            Says::Down => (evidence.answered, evidence.down) = (until, now),
            Says::Silent => match port.status() {
                Some(Status::WrongDevice) => evidence.wrong = range,
                Some(Status::Unreachable) => (evidence.silent, evidence.unreachable) = (now, range),
                _ => evidence.silent = now,
            },
            Says::Nothing => {}
        }
        evidence
    }

    fn merge(&mut self, later: Self) {
        let first_after = |times: [Option<u64>; 2], end: Option<u64>| {
            times
                .into_iter()
                .flatten()
                .filter(|time| Some(*time) > end)
                .min()
        };
        self.peer = later.peer.or(self.peer);
        self.answered = self.answered.max(later.answered);
        self.up = self.up.max(later.up);
        self.silent = first_after([self.silent, later.silent], self.answered);
        self.down = first_after([self.down, later.down], self.up);
        self.unreachable = joined(self.unreachable, later.unreachable);
        self.wrong = joined(self.wrong, later.wrong);
    }
}

/// Empties the queue, and assigns each unreachable neighbour of a queued device to the entry of
/// that device.
fn assign<I: Iterator<Item = Guid>>(
    queue: &mut VecDeque<Guid>,
    nearest: &mut BTreeMap<Guid, Guid>,
    behind: &mut BTreeMap<Guid, Vec<Guid>>,
    neighbours: &impl Fn(Guid) -> I,
    unreachable: &BTreeSet<Guid>,
) {
    while let Some(guid) = queue.pop_front() {
        let first = nearest[&guid];
        for peer in neighbours(guid).filter(|peer| unreachable.contains(peer)) {
            if let Entry::Vacant(entry) = nearest.entry(peer) {
                entry.insert(first);
                behind.entry(first).or_default().push(peer);
                queue.push_back(peer);
            }
        }
    }
}

fn joined(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{event, fold, port};

    const LEAF: u64 = 1;
    const DEAD_LEAF: u64 = 2;
    const CORE: u64 = 3;

    /// Returns five slots: a core switch and two leaf switches with two hosts each. From slot 3 on
    /// the second leaf switch and its hosts do not answer, nor does one host of the first one. One
    /// MAD to the core switch is lost in the last slot.
    fn lines() -> Vec<String> {
        let mut lines = Vec::new();
        for slot in 1..=5_u64 {
            let status = |is_dead: bool| match (is_dead, slot) {
                (true, 3) => "timeout",
                (true, 4..) => "unreachable",
                _ => "ok",
            };
            for leaf in [LEAF, DEAD_LEAF] {
                let name = format!("leaf{leaf}");
                let of_leaf = [("status", status(leaf == DEAD_LEAF).into())];
                let last = [("status", if slot == 5 { "timeout" } else { "ok" }.into())];
                lines.push(port(
                    slot,
                    (CORE, leaf as u8),
                    "core",
                    (leaf, 9, &name),
                    &last,
                ));
                lines.push(port(
                    slot,
                    (leaf, 9),
                    &name,
                    (CORE, leaf as u8, "core"),
                    &of_leaf,
                ));
                for host in 1..=2_u8 {
                    let (guid, node) = (
                        0x100 * leaf + u64::from(host),
                        format!("n{leaf}{host} mlx5_0"),
                    );
                    let of_host = [("status", status(leaf == DEAD_LEAF || host == 2).into())];
                    lines.push(port(slot, (leaf, host), &name, (guid, 1, &node), &of_leaf));
                    lines.push(port(slot, (guid, 1), &node, (leaf, host, &name), &of_host));
                }
            }
        }
        lines
    }

    fn faults(lines: &[String]) -> Vec<FaultyDevice> {
        fold(Devices::default(), lines).faults()
    }

    #[test]
    fn dead_switch_comes_first_with_the_hosts_behind_it() {
        let found = faults(&lines());
        let shown: Vec<_> = found
            .iter()
            .map(|device| {
                (
                    &*device.port.node,
                    device.port.port.0,
                    device.fault,
                    device.ports,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("leaf2", 0, DeviceFault::Unreachable, 3),
                ("n12 mlx5_0", 1, DeviceFault::Unreachable, 1)
            ]
        );
        assert_eq!(
            found[0]
                .behind
                .iter()
                .map(|port| &*port.node)
                .collect::<Vec<_>>(),
            ["n21 mlx5_0", "n22 mlx5_0"]
        );
        assert!(
            found
                .iter()
                .all(|device| device.since_ns == 3_000_000_000 && device.answered_before),
            "{found:?}"
        );
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let lines = lines();
        let whole = fold(Devices::default(), &lines);
        for cut in [1, 13, 26, 40] {
            let mut first = fold(Devices::default(), &lines[..cut]);
            first.merge(fold(Devices::default(), &lines[cut..]));
            assert_eq!(first, whole, "cut at {cut}");
        }
    }

    #[test]
    fn events_show_when_a_device_was_lost_and_found() {
        let alive = |slot, status: &str| {
            port(
                slot,
                (0x101, 1),
                "n1",
                (LEAF, 1, "leaf"),
                &[("status", status.into())],
            )
        };
        let lost = [
            event(1, (0x101, 1), "unreachable", ""),
            alive(2, "timeout"),
            alive(3, "skipped"),
        ];
        let found = faults(&lost);
        assert_eq!(
            (found[0].fault, found[0].since_ns, found[0].answered_before),
            (DeviceFault::Unreachable, 999_999_900, false)
        );
        let again = [
            &lost[..],
            &[event(4, (0x101, 1), "reachable", ""), alive(5, "timeout")],
        ]
        .concat();
        let found = faults(&again);
        assert_eq!(
            (found.len(), found[0].fault, found[0].since_ns),
            (1, DeviceFault::WasUnreachable, 999_999_900)
        );
    }

    #[test]
    fn lost_packets_and_other_statuses_do_not_make_a_device_unreachable() {
        for status in [
            "timeout",
            "skipped",
            "send_error",
            "late",
            "mad_error",
            "bad_reply",
            "down",
        ] {
            let lines = [1, 2].map(|slot| {
                port(
                    slot,
                    (0x101, 1),
                    "n1",
                    (LEAF, 1, "leaf"),
                    &[("status", if slot == 1 { "ok" } else { status }.into())],
                )
            });
            assert_eq!(faults(&lines), [], "{status}");
        }
        let never = [port(
            1,
            (0x101, 1),
            "n1",
            (LEAF, 1, "leaf"),
            &[("status", "timeout".into())],
        )];
        assert_eq!(faults(&never).len(), 1, "no reply at all");
        let wrong = [port(
            1,
            (0x101, 1),
            "n1",
            (LEAF, 1, "leaf"),
            &[("status", "wrong_device".into())],
        )];
        assert_eq!(faults(&wrong)[0].fault, DeviceFault::WrongDevice);
    }

    #[test]
    fn second_sampler_that_gets_replies_proves_that_the_device_answers() {
        let half = |slot: u64| ("ts", (slot * 1_000_000_000 + 500_000_000).into());
        let mut lines = Vec::new();
        for slot in 1..=5 {
            lines.push(port(
                slot,
                (0x101, 1),
                "n1",
                (LEAF, 1, "leaf"),
                &[("status", "unreachable".into())],
            ));
            if slot < 5 {
                lines.push(port(
                    slot,
                    (0x101, 1),
                    "n1",
                    (LEAF, 1, "leaf"),
                    &[("sampler", "s2".into()), half(slot)],
                ));
            }
        }
        assert!(!fold(Devices::default(), &lines).is_unreachable(Guid(0x101)));
    }

    #[test]
    fn fabric_without_any_answer_is_listed_as_one_switch() {
        let mut all = Vec::new();
        for (guid, name, peer) in [
            (CORE, "core", (LEAF, 9, "leaf")),
            (LEAF, "leaf", (CORE, 1, "core")),
            (0x101, "n1", (LEAF, 1, "leaf")),
        ] {
            let number = if guid == LEAF { 9 } else { 1 };
            all.push(port(
                1,
                (guid, number),
                name,
                peer,
                &[("status", "unreachable".into())],
            ));
        }
        all.push(port(
            1,
            (LEAF, 1),
            "leaf",
            (0x101, 1, "n1"),
            &[("status", "unreachable".into())],
        ));
        let found = faults(&all);
        assert_eq!(
            found
                .iter()
                .map(|device| (&*device.port.node, device.behind.len()))
                .collect::<Vec<_>>(),
            [("leaf", 2)]
        );
    }

    #[test]
    fn link_that_is_down_has_the_time_of_its_first_record() {
        let status = |slot, status: &str| {
            port(
                slot,
                (LEAF, 1),
                "leaf",
                (0x101, 1, "n1"),
                &[("status", status.into())],
            )
        };
        let lines = [
            status(1, "down"),
            status(2, "ok"),
            status(3, "down"),
            status(4, "down"),
        ];
        let key = (Guid(LEAF), PortNum(1));
        assert_eq!(
            fold(Devices::default(), &lines).down_since(key),
            Some(3_000_000_000)
        );
        assert_eq!(fold(Devices::default(), &lines[..2]).down_since(key), None);
    }
}
