//! Lists the links with the verdicts of [`ibnet_analysis::health`], worst first.
//!
//! A link has two ends, each of which counts the wrong bits that it receives. The list has the end
//! with the worse verdict.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ibnet_analysis::health;
use ibnet_analysis::health::inventory::Module;
use ibnet_analysis::health::reading::Counter;
use ibnet_analysis::health::verdict::{Applied, End, Ratio, Verdict, WINDOW_NS};
use ibnet_analysis::ports::{PortKey, PortName};
use ibnet_record::physical::PhysicalKind;
use serde::Serialize;

use crate::live::frame::{Frame, NO_ANSWER};
use crate::live::topology::TopologyPort;
use crate::state::{Hub, State};
use crate::store::physical::Subject;

const MINUTE_NS: u64 = 60_000_000_000;

/// All links with readings.
#[derive(Debug, Serialize)]
pub(crate) struct HealthLinks {
    /// Number of links with readings.
    known: usize,
    /// Number of links of each verdict.
    counts: BTreeMap<&'static str, usize>,
    /// Number of good links of which an end does not answer.
    silent: usize,
    pub(crate) rows: Vec<HealthLink>,
}

/// A link, by one end.
#[derive(Debug, Serialize)]
pub(crate) struct HealthLink {
    /// The port, which receives the bits.
    #[serde(flatten)]
    pub(crate) port: PortName,
    /// Place in the list, worst first.
    rank: usize,
    peer: Option<PortName>,
    link: String,
    pub(crate) verdict: Verdict,
    /// The rules that apply, as text.
    pub(crate) why: Vec<String>,
    /// What the limits of bit errors follow from.
    limits_by: String,
    /// Why the link went down last. Null if it was not read, or if it never did.
    link_down: Option<String>,
    /// Time since which this end has its verdict, in nanoseconds since 1970.
    since_ns: u64,
    /// Minutes of readings, at most `window_minutes`.
    seen_minutes: u64,
    /// Minutes before which no verdict is worse than `watch`.
    window_minutes: u64,
    pub(crate) serial: Box<str>,
    part: Box<str>,
    vendor: Box<str>,
    celsius: Option<f64>,
    raw: Option<Ratio>,
    effective: Option<Ratio>,
    symbol: Option<Ratio>,
    /// The ends that do not answer now, so that their condition is not known.
    silent: Vec<Silent>,
}

/// An end of a link that does not answer now.
#[derive(Debug, Serialize)]
struct Silent {
    #[serde(flatten)]
    port: PortName,
    /// Time of its last reading in nanoseconds since 1970. `None` if it was never read.
    read_ns: Option<u64>,
}

/// An end of a link with what orders the list.
#[derive(Clone, Copy, Debug)]
struct Ranked<'a> {
    key: PortKey,
    subject: &'a Subject,
    port: Option<&'a TopologyPort>,
    peer: Option<PortKey>,
    other: Option<&'a Subject>,
    verdict: Verdict,
    /// Whether this end and the other one do not answer.
    is_silent: [bool; 2],
    /// Ratios of bit errors after PLR, after FEC, and before.
    ratios: [f64; 3],
}

impl<'a> Ranked<'a> {
    /// Returns `None` if the bit errors of the port were not read.
    fn of(
        state: &'a State,
        frame: Option<&Frame>,
        key: PortKey,
        subject: &'a Subject,
    ) -> Option<Self> {
        let end = &subject.end;
        if end.since_ns() == 0 {
            return None;
        }
        let ports = &state.topology.ports;
        let port = state.topology.find(key).and_then(|index| ports.get(index));
        // After a restart, no record has named the peer yet.
        let peer = port.map_or(subject.peer, |port| port.peer_guid.zip(port.peer_port));
        let other = peer.and_then(|(guid, port)| state.store.physical.get((guid, Some(port))));
        // A port that does not answer has this code in each metric.
        let is_silent = |key: PortKey| {
            let code = frame.and_then(|frame| frame.values[0].get(frame.topology.find(key)?));
            code == Some(&NO_ANSWER)
        };
        Some(Self {
            key,
            subject,
            port,
            peer,
            other,
            is_silent: [is_silent(key), peer.is_some_and(is_silent)],
            verdict: end.combined(other.map(|other| &other.end)),
            ratios: [Counter::Symbols, Counter::Effective, Counter::Corrected]
                .map(|counter| ratio(end, counter)),
        })
    }

    /// Returns whether nothing is wrong with what was read, but not all can be read now.
    fn is_unknown(&self) -> bool {
        self.verdict == Verdict::Good && self.is_silent.contains(&true)
    }

    /// Orders ends of links, the worst one first.
    fn order(&self, other: &Self) -> Ordering {
        let ratios = || other.ratios.partial_cmp(&self.ratios);
        other
            .verdict
            .cmp(&self.verdict)
            .then_with(|| other.is_unknown().cmp(&self.is_unknown()))
            .then_with(|| ratios().unwrap_or(Ordering::Equal))
            .then_with(|| self.key.cmp(&other.key))
    }

    fn row(&self, rank: usize) -> HealthLink {
        let (end, port) = (&self.subject.end, self.port);
        let module = Module::of(&self.subject.named(PhysicalKind::Module));
        let name = port.map_or("", |port| &port.node);
        let peer = |key| {
            PortName::new(
                port.and_then(|port| port.peer_node.as_deref())
                    .unwrap_or(""),
                key,
            )
        };
        let port_name = PortName::new(name, self.key);
        let peer_name = self.peer.map(peer);
        let ends = [
            (Some(&port_name), Some(self.subject)),
            (peer_name.as_ref(), self.other),
        ];
        let silent = ends.into_iter().zip(self.is_silent);
        let silent = silent.filter(|(_, is_silent)| *is_silent);
        let silent = silent.filter_map(|((port, subject), _)| {
            let read_ns = subject.map(|subject| subject.end.last_ns());
            Some(Silent {
                port: port?.clone(),
                read_ns: read_ns.filter(|read_ns| *read_ns > 0),
            })
        });
        HealthLink {
            silent: silent.collect(),
            port: port_name,
            rank,
            peer: peer_name,
            link: port.map_or_else(String::new, |port| port.link.clone()),
            verdict: self.verdict,
            why: end.why(),
            limits_by: end.limits().to_string(),
            link_down: health::link_down(&self.subject.named(PhysicalKind::Phy))
                .map(|down| down.to_string()),
            since_ns: end.since_ns(),
            seen_minutes: end.seen_ns() / MINUTE_NS,
            window_minutes: WINDOW_NS / MINUTE_NS,
            serial: module.serial,
            part: module.part,
            vendor: module.vendor,
            celsius: end.celsius(),
            raw: end.raw(),
            effective: end.effective(),
            symbol: end.symbol(),
        }
    }
}

/// Returns the ratio of errors in the window, or 0 without bits. It has no interval, which would
/// cost too much for all ports.
fn ratio(end: &End, counter: Counter) -> f64 {
    let increase = |counter| end.window()?.increase(counter);
    let bits = increase(Counter::Bits).unwrap_or(0).max(1) as f64;
    increase(counter).unwrap_or(0) as f64 / bits
}

/// Returns the other end of the link of a port, if it is known.
pub(crate) fn peer(state: &State, key: PortKey, subject: &Subject) -> Option<PortKey> {
    Ranked::of(state, None, key, subject)?.peer
}

/// Returns all links, the worst one first.
fn ranked<'a>(state: &'a State, frame: Option<&Frame>) -> Vec<Ranked<'a>> {
    let ends = state.store.physical.ports();
    let ends: BTreeMap<PortKey, Ranked<'_>> = ends
        .filter_map(|(key, subject)| Some((key, Ranked::of(state, frame, key, subject)?)))
        .collect();
    let is_worse = |end: &&Ranked<'_>| {
        let other = end.peer.and_then(|peer| ends.get(&peer));
        other.is_none_or(|other| end.order(other).is_le())
    };
    let mut links: Vec<Ranked<'_>> = ends.values().filter(is_worse).copied().collect();
    links.sort_unstable_by(Ranked::order);
    links
}

/// Returns the first `top` links, or all if it is 0.
pub(crate) fn find(hub: &Hub, top: usize) -> HealthLinks {
    let frame = hub.frame();
    let state = hub.read();
    let links = ranked(&state, frame.as_deref());
    let mut counts = [
        Verdict::Replace,
        Verdict::Clean,
        Verdict::Watch,
        Verdict::Good,
    ]
    .map(|verdict| (verdict.as_str(), 0))
    .into_iter()
    .collect::<BTreeMap<_, _>>();
    for link in &links {
        *counts.entry(link.verdict.as_str()).or_default() += 1;
    }
    let top = if top == 0 { links.len() } else { top };
    HealthLinks {
        known: links.len(),
        counts,
        silent: links.iter().filter(|link| link.is_unknown()).count(),
        rows: links
            .iter()
            .take(top)
            .enumerate()
            .map(|(rank, link)| link.row(rank))
            .collect(),
    }
}

/// Returns the links that a person has to repair.
pub(crate) fn faulty(hub: &Hub) -> Vec<HealthLink> {
    let frame = hub.frame();
    let state = hub.read();
    let links = ranked(&state, frame.as_deref()).into_iter();
    let faulty = links.take_while(|link| link.verdict >= Verdict::Clean);
    faulty
        .enumerate()
        .map(|(rank, link)| link.row(rank))
        .collect()
}

/// Returns the ports with a fault of a plane, and the faults as text.
pub(crate) fn faulty_planes(hub: &Hub) -> Vec<(PortName, String)> {
    let state = hub.read();
    let faulty = |(key, subject): (PortKey, &Subject)| {
        let faults: Vec<String> = subject.end.of_planes().map(Applied::to_string).collect();
        let node = state.topology.node(key.0).unwrap_or_default();
        (!faults.is_empty()).then(|| (PortName::new(node, key), faults.join(", ")))
    };
    state.store.physical.ports().filter_map(faulty).collect()
}

/// Returns the verdict on one end of a link.
pub(crate) fn of_port(state: &State, frame: Option<&Frame>, key: PortKey) -> Option<HealthLink> {
    let subject = state.store.physical.get((key.0, Some(key.1)))?;
    Ranked::of(state, frame, key, subject).map(|end| end.row(0))
}
