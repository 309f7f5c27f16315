//! What each port did in the time of the input: how much of its link was used, how long it waited, which errors it counted, what became of its link.
//!
//! Memory is bounded by the ports, not by the records. Where two samplers ask the same port, each's records are kept apart, so that no counter runs back
//! and forth between them; [`Ports::seen`] then tells what the one with more of them saw.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::input::Fold;
use super::record::{Event, Port, Record, Type};
use ibnet::types::{Guid, LinkRate, NodeKind, PortNum};

pub mod bins;
pub mod marks;
pub mod moved;

use self::bins::{Bin, Bins};
use self::marks::Marks;
use self::moved::Moved;

/// What a port is known by.
pub type Key = (Guid, PortNum);

/// Counters of errors and of packets that were dropped, most telling first. Those of a group of details follow the one that they split up.
pub const ERRORS: [&str; 23] = [
    "link_downed_counter",
    "link_error_recovery_counter",
    "symbol_error_counter",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_local_physical_errors",
    "port_malformed_packet_errors",
    "port_buffer_overrun_errors",
    "port_dlid_mapping_errors",
    "port_vl_mapping_errors",
    "port_looping_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_inactive_discards",
    "port_neighbor_mtu_discards",
    "port_sw_lifetime_limit_discards",
    "port_sw_hoq_lifetime_limit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "vl15_dropped",
    "qp1_dropped",
];

/// Those of [`ERRORS`] that are told by another one already: they are not summed.
pub const DETAILS: [std::ops::Range<usize>; 2] = [6..12, 15..19];

/// All ports of the input.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    by_key: FxHashMap<Key, Vec<Seen>>,
    most_bins: usize,
}

/// What one sampler saw of a port.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Who saw it.
    pub sampler: Box<str>,
    /// The device's name, written by strangers; empty if there were events only.
    pub node: Box<str>,
    /// What the device is.
    pub kind: Option<NodeKind>,
    /// The other end.
    pub peer: Option<Key>,
    /// The other end's name.
    pub peer_name: Box<str>,
    /// Width and speed as they were last.
    pub link: Box<str>,
    /// The fastest that they were, or should be by the net file; in Gb/s.
    pub fastest_gbps: f64,
    /// Its name.
    pub fastest: Box<str>,
    /// The first and the last instant at which it was told of.
    pub span: (u64, u64),
    /// Records, and those of them in which the port answered.
    pub records: (u64, u64),
    /// The means over all of the time.
    pub all: Bin,
    /// What it did, time by time.
    pub bins: Bins,
    /// In the order of [`ERRORS`]; `None` where it has no such counter.
    pub errors: [Option<Moved>; ERRORS.len()],
    /// How much went through, from time to time.
    pub marks: Marks,
    /// What happened.
    pub changes: Changes,
}

/// A mean over time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    sum: f64,
    time_ns: u64,
    peak: f64,
}

/// What happened to a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// How often it went down.
    pub downs: u64,
    /// How often it came up again.
    pub ups: u64,
    /// How often its width or speed changed.
    pub links: u64,
    /// How often somebody cleared its counters.
    pub resets: u64,
    /// When its state was told last, and whether it was up.
    pub last: Option<(u64, bool)>,
}

impl Fold for Ports {
    fn wants(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Event)
    }

    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.seen_by(port.key(), &port.sampler, port.ts).take(port),
            Record::Event(event) => {
                if let Event { guid: Some(guid), port: Some(port), .. } = event {
                    self.seen_by((*guid, *port), &event.sampler, event.ts).take_event(event);
                }
            }
            _ => {}
        }
    }

    fn merge(&mut self, later: Self) {
        if self.by_key.is_empty() {
            *self = later;
            return;
        }
        for (key, all) in later.by_key {
            let ours = self.by_key.entry(key).or_default();
            for seen in all {
                match ours.iter_mut().find(|own| own.sampler == seen.sampler) {
                    Some(own) => own.merge(seen),
                    None => ours.push(seen),
                }
            }
        }
    }
}

impl Ports {
    /// None yet; the course of each will have at most so many bins.
    pub fn with_bins(most: usize) -> Self {
        Self { most_bins: most, ..Self::default() }
    }

    /// Each port, in the order of GUIDs, as the sampler saw it that has most of its records.
    pub fn seen(self) -> BTreeMap<Key, Seen> {
        let best = |all: Vec<Seen>| {
            all.into_iter()
                .max_by(|a, b| (a.records.1, a.records.0).cmp(&(b.records.1, b.records.0)).then_with(|| b.sampler.cmp(&a.sampler)))
        };
        // Of what only events tell neither name nor link are known.
        self.by_key.into_iter().filter_map(|(key, all)| Some((key, best(all)?))).filter(|(_, seen)| seen.records.0 > 0).collect()
    }

    fn seen_by(&mut self, key: Key, sampler: &str, ts: u64) -> &mut Seen {
        let (all, most_bins) = (self.by_key.entry(key).or_default(), self.most_bins);
        let place = all.iter().position(|seen| &*seen.sampler == sampler).unwrap_or_else(|| {
            all.push(Seen::new(sampler, ts, most_bins));
            all.len() - 1
        });
        &mut all[place]
    }
}

/// The ports with bins of the same length.
pub(super) fn in_step(ports: &BTreeMap<Key, Seen>) -> Cow<'_, BTreeMap<Key, Seen>> {
    let width = ports.values().map(|seen| seen.bins.shift()).max().unwrap_or(0);
    if ports.values().all(|seen| seen.bins.shift() == width) {
        return Cow::Borrowed(ports);
    }
    let mut ports = ports.clone();
    ports.values_mut().for_each(|seen| seen.bins.widen_to(width));
    Cow::Owned(ports)
}

impl Seen {
    fn new(sampler: &str, ts: u64, most_bins: usize) -> Self {
        Self {
            sampler: sampler.into(),
            node: "".into(),
            kind: None,
            peer: None,
            peer_name: "".into(),
            link: "".into(),
            fastest_gbps: 0.0,
            fastest: "".into(),
            span: (ts, ts),
            records: (0, 0),
            all: Bin::default(),
            bins: Bins::new(most_bins),
            errors: [None; ERRORS.len()],
            marks: Marks::default(),
            changes: Changes::default(),
        }
    }

    /// For how long it was told of, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.span.1 - self.span.0) as f64 / 1e9
    }

    /// What the link carries as it was last; `None` where that is not known.
    pub fn gbps(&self) -> Option<f64> {
        rate(&self.link).and_then(|rate| rate.data_gbps())
    }

    /// All errors together, each once.
    pub fn error_sum(&self) -> u64 {
        let is_told = |place: &usize| !DETAILS.iter().any(|range| range.contains(place));
        let all = self.errors.iter().enumerate().filter(|(place, _)| is_told(place)).filter_map(|(_, moved)| moved.as_ref());
        all.fold(0, |sum, moved| sum.saturating_add(moved.by))
    }

    fn take(&mut self, port: &Port<'_>) {
        if self.records.0 == 0 || *self.node != *port.node {
            self.node = (&*port.node).into();
        }
        self.kind = port.kind.or(self.kind);
        if let (Some(guid), Some(number)) = (port.peer_guid, port.peer_port) {
            self.peer = Some((guid, number));
        }
        if let Some(peer) = port.peer.as_ref().filter(|peer| ***peer != *self.peer_name) {
            self.peer_name = (&**peer).into();
        }
        if *self.link != *port.link {
            self.link = (&*port.link).into();
            self.was(&port.link);
        }
        self.span = (self.span.0.min(port.ts), self.span.1.max(port.ts));
        self.records.0 += 1;
        self.records.1 += u64::from(port.answered());
        self.all.take(port, port.dt_ns.unwrap_or(0));
        self.bins.take(port);
        for (moved, name) in self.errors.iter_mut().zip(ERRORS) {
            if let Some(value) = port.counter(name) {
                let is_full = port.is_saturated(name);
                match moved {
                    Some(moved) => moved.take(value, is_full),
                    None => *moved = Some(Moved::new(value, is_full)),
                }
            }
        }
        self.marks.take(port);
    }

    fn take_event(&mut self, event: &Event<'_>) {
        self.span = (self.span.0.min(event.ts), self.span.1.max(event.ts));
        match &*event.event {
            "link_down" => self.changes.state(event.ts, false),
            "link_up" => self.changes.state(event.ts, true),
            "link_change" => {
                self.changes.links += 1;
                // What it was before may be told here only: by the net file it should be that.
                event.detail.split([' ', ',']).for_each(|word| self.was(word));
            }
            "reset" => self.changes.resets += 1,
            _ => {}
        }
    }

    /// Remembers the fastest link.
    fn was(&mut self, link: &str) {
        if let Some(gbps) = rate(link).and_then(|rate| rate.data_gbps()).filter(|gbps| *gbps > self.fastest_gbps) {
            (self.fastest_gbps, self.fastest) = (gbps, link.into());
        }
    }

    fn merge(&mut self, later: Self) {
        if later.records.0 > 0 {
            (self.node, self.link) = (later.node, later.link);
            self.kind = later.kind.or(self.kind);
        }
        if later.peer.is_some() {
            (self.peer, self.peer_name) = (later.peer, later.peer_name);
        }
        self.was(&later.fastest);
        self.span = (self.span.0.min(later.span.0), self.span.1.max(later.span.1));
        self.records = (self.records.0 + later.records.0, self.records.1 + later.records.1);
        self.all.merge(later.all);
        self.bins.merge(later.bins);
        for (own, later) in self.errors.iter_mut().zip(later.errors) {
            match (own.as_mut(), later) {
                (Some(own), Some(later)) => own.merge(later),
                (None, later) => *own = later,
                (Some(_), None) => {}
            }
        }
        self.marks.merge(later.marks);
        self.changes.merge(&later.changes);
    }
}

/// A link by its name in the records, such as `4xEDR`.
fn rate(link: &str) -> Option<LinkRate> {
    let (width, speed) = link.split_at_checked(link.find('x')? + 1)?;
    Some(LinkRate::new(width, speed))
}

impl Mean {
    fn take(&mut self, value: Option<f64>, time_ns: u64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.sum += value * time_ns as f64;
            self.time_ns = self.time_ns.saturating_add(time_ns);
            self.peak = self.peak.max(value);
        }
    }

    fn merge(&mut self, later: Self) {
        self.sum += later.sum;
        self.time_ns = self.time_ns.saturating_add(later.time_ns);
        self.peak = self.peak.max(later.peak);
    }

    /// The most in any interval; `None` where nothing was told.
    pub fn peak(&self) -> Option<f64> {
        (self.time_ns > 0).then_some(self.peak)
    }

    /// Octets, of a mean in Gb/s.
    pub fn octets(&self) -> f64 {
        // A Gb/s for a nanosecond is a bit.
        self.sum / 8.0
    }

    /// Over how long it is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.time_ns as f64 / 1e9
    }

    /// The mean; `None` where nothing was told.
    pub fn mean(&self) -> Option<f64> {
        (self.time_ns > 0).then(|| self.sum / self.time_ns as f64)
    }
}

impl Changes {
    fn state(&mut self, ts: u64, is_up: bool) {
        if is_up {
            self.ups += 1;
        } else {
            self.downs += 1;
        }
        self.last = self.last.max(Some((ts, is_up)));
    }

    fn merge(&mut self, later: &Self) {
        self.downs += later.downs;
        self.ups += later.ups;
        self.links += later.links;
        self.resets += later.resets;
        self.last = self.last.max(later.last);
    }

    /// Whether the link was down at last.
    pub fn is_down(&self) -> bool {
        self.last.is_some_and(|(_, is_up)| !is_up)
    }
}

#[cfg(test)]
pub(super) mod tests;
