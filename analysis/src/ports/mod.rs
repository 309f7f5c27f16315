//! Summarizes each port over the time range: utilization, blocked time, errors and link events.
//!
//! Memory depends on the number of ports, not on the number of records. Because
//! [`input`](crate::input) merges the records of all samplers of a port into one sequence, a
//! counter has an increase even from a reading of one sampler to the next reading by another one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortNum, Printable};
use ibnet_record::{ERROR_COUNTERS, EventName, is_error_part};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::input::Fold;
pub use crate::input::run::DATA_COUNTERS;
use crate::input::run::{Measured, Run};
use crate::record::{Event, Port, Record, Type, Value};

pub mod bins;
pub mod carried;
pub mod change;
pub mod checkpoints;
mod growth;

use self::bins::{TimeBin, TimeBins};
use self::carried::{Carried, HCA_PORTS, Stated, may_lead_to_host};
use self::change::CounterChange;
use self::checkpoints::Checkpoints;

/// GUID of the device, and number of the port.
pub type PortKey = (Guid, PortNum);

/// A port in the rows of the JSON output. Its text form is `leaf01 port 3`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PortName {
    /// GUID of the device: the port GUID of a switch or of an HCA port.
    pub guid: Guid,
    /// Number of the port.
    pub port: PortNum,
    /// Node description as the device returned it, not escaped. Empty if unknown.
    pub node: Box<str>,
}

impl PortName {
    /// Creates the name of a port.
    pub fn new(node: &str, (guid, port): PortKey) -> Self {
        Self {
            guid,
            port,
            node: node.into(),
        }
    }
}

impl fmt::Display for PortName {
    /// Writes the escaped node description, or the GUID if there is none, and the port number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guid, port, node } = self;
        let node = node.trim();
        if node.is_empty() {
            write!(f, "{guid} port {port}")
        } else {
            write!(f, "{} port {port}", Printable(node))
        }
    }
}

/// All ports of the input.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    by_key: FxHashMap<PortKey, PortSummary>,
    /// The bins of a new port.
    bins: TimeBins,
    parts: Parts,
    fills_in: bool,
}

/// Which parts of [`PortSummary`] are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Parts {
    #[default]
    All,
    /// Without [`PortSummary::errors`] and [`PortSummary::checkpoints`].
    Rates,
    /// Without [`PortSummary::all`], [`PortSummary::bins`] and [`PortSummary::checkpoints`].
    Errors,
}

/// Summary of the records about a port.
#[derive(Clone, PartialEq, Debug)]
pub struct PortSummary {
    /// Node description as the device returned it. Empty if there are only events.
    pub node: Box<str>,
    /// Kind of the device.
    pub kind: Option<NodeKind>,
    /// LID of the device, 0 if unknown.
    pub lid: Lid,
    /// The port at the other end of the link.
    pub peer: Option<PortKey>,
    /// Node description of the peer.
    pub peer_name: Box<str>,
    /// Last known width and speed of the link, such as `4xEDR`.
    pub link: Box<str>,
    /// MTU of the link in bytes, if the last record has it.
    pub mtu: Option<u16>,
    /// Max data rate that the link ever had according to the records and the net file, in Gb/s.
    pub fastest_gbps: f64,
    /// Width and speed that belong to `fastest_gbps`.
    pub fastest: Box<str>,
    /// Times of the first and the last reading or event, in nanoseconds since 1970. Increases of
    /// counters refer to this time.
    pub span: (u64, u64),
    /// Number of records, and number of records in which the port answered.
    pub records: (u64, u64),
    /// Means over the whole time.
    pub all: TimeBin,
    /// Means of each bin.
    pub bins: TimeBins,
    /// Changes of the counters in [`ERROR_COUNTERS`]. `None` for a counter that the device lacks.
    pub errors: [Option<CounterChange>; ERROR_COUNTERS.len()],
    /// Bytes sent and received, and the blocked time.
    pub carried: Carried,
    /// Whether the port can fill in for an HCA port: see [`carried`].
    fills_in: bool,
    /// Bytes that had been sent and received at certain slots.
    pub checkpoints: Checkpoints,
    /// Link events.
    pub events: LinkEvents,
}

/// A mean weighted by time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mean {
    sum: f64,
    time_ns: u64,
    peak: f64,
}

/// Numbers of events of a link.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinkEvents {
    /// Number of `link_down` events.
    pub downs: u64,
    /// Number of `link_up` events.
    pub ups: u64,
    /// Number of changes of width, speed, MTU or VLs.
    pub changes: u64,
    /// Number of counter resets.
    pub resets: u64,
    /// Time of the last `link_down` or `link_up` event, and whether it was `link_up`.
    pub last: Option<(u64, bool)>,
    /// Time of the last change of width, speed, MTU or VLs.
    pub last_change: Option<u64>,
}

impl Fold for Ports {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Event)
    }

    fn takes_runs(&self) -> bool {
        true
    }

    fn add_run(&mut self, run: &Run<'_>) {
        let (port, parts) = (run.last(), self.parts);
        let summary = self.summary(port.key(), run.ts(run.rows().start));
        summary.add(&port, run.measured(), parts);
        if parts != Parts::Rates {
            summary.add_errors_of(run);
        }
    }

    fn fields(&self) -> Option<Vec<String>> {
        const ALWAYS: [&str; 11] = [
            "node",
            "kind",
            "lid",
            "peer_guid",
            "peer_port",
            "peer",
            "link",
            "mtu",
            "status",
            "saturated",
            "xmit_blocked",
        ];
        let mut fields = ALWAYS.to_vec();
        if self.parts != Parts::Errors {
            fields.extend([
                "xmit_gbps",
                "rcv_gbps",
                "xmit_utilization",
                "rcv_utilization",
            ]);
            fields.extend(DATA_COUNTERS);
        }
        if self.parts != Parts::Rates {
            fields.extend(ERROR_COUNTERS);
        }
        Some(fields.into_iter().map(str::to_owned).collect())
    }

    fn add(&mut self, record: &Record<'_>) {
        let parts = self.parts;
        match record {
            Record::Port(port) => {
                let summary = self.summary(port.key(), port.ts);
                summary.add(port, std::iter::once_with(|| Measured::of(port)), parts);
                if parts != Parts::Rates {
                    summary.add_errors(port);
                }
            }
            Record::Event(event) => {
                if let Event {
                    guid: Some(guid),
                    port: Some(port),
                    ..
                } = event
                {
                    self.summary((*guid, *port), event.ts).add_event(event);
                }
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: Self) {
        self.by_key.extend(other.by_key);
    }
}

impl Ports {
    /// Creates an empty state. `most` is the max number of bins of a port; with 0,
    /// [`PortSummary::bins`] stays empty.
    pub fn with_bins(most: usize) -> Self {
        Self {
            bins: TimeBins::new(most),
            ..Self::default()
        }
    }

    /// Makes bins of this length, in nanoseconds, instead of 1 s.
    #[must_use]
    pub fn with_bins_of(self, length_ns: u64) -> Self {
        Self {
            bins: self.bins.of(length_ns),
            ..self
        }
    }

    /// Creates an empty state for [`Job`](crate::job::Job), without error counters:
    /// [`PortSummary::errors`] and [`PortSummary::checkpoints`] stay empty, which makes reading
    /// an archive much faster.
    pub fn for_jobs(most: usize) -> Self {
        Self {
            bins: TimeBins::new(most),
            parts: Parts::Rates,
            fills_in: true,
            ..Self::default()
        }
    }

    /// Also keeps what [`Job`](crate::job::Job) needs: switch ports then fill in for HCA ports.
    #[must_use]
    pub fn and_jobs(self) -> Self {
        Self {
            fills_in: true,
            ..self
        }
    }

    /// Creates an empty state for error counters and events. [`PortSummary::all`],
    /// [`PortSummary::bins`], [`PortSummary::carried`] and [`PortSummary::checkpoints`] stay
    /// empty, which makes reading an archive much faster.
    pub fn for_errors() -> Self {
        Self {
            parts: Parts::Errors,
            ..Self::default()
        }
    }

    /// Returns the ports in the order of their GUIDs.
    pub fn finish(mut self) -> BTreeMap<PortKey, PortSummary> {
        // A port with neither a record nor a reading at an edge is left out, because events
        // contain no names and no links.
        let mut keys: Vec<PortKey> = Vec::with_capacity(self.by_key.len());
        self.by_key.retain(|key, port| {
            let is_known = port.records.0 > 0 || !port.node.is_empty();
            keys.extend(is_known.then_some(*key));
            is_known
        });
        // Sorting the keys moves less memory than sorting the ports.
        keys.sort_unstable();
        keys.into_iter()
            .filter_map(|key| self.by_key.remove_entry(&key))
            .collect()
    }

    fn summary(&mut self, key: PortKey, ts: u64) -> &mut PortSummary {
        let summary = self
            .by_key
            .entry(key)
            .or_insert_with(|| PortSummary::new(ts, self.bins.clone(), self.fills_in));
        summary.span = (summary.span.0.min(ts), summary.span.1.max(ts));
        summary
    }
}

/// Returns the ports with bins of equal length, joining the shorter ones.
pub(crate) fn with_equal_bins(
    ports: &BTreeMap<PortKey, PortSummary>,
) -> Cow<'_, BTreeMap<PortKey, PortSummary>> {
    let shift = ports
        .values()
        .map(|port| port.bins.shift())
        .max()
        .unwrap_or(0);
    if ports.values().all(|port| port.bins.shift() == shift) {
        return Cow::Borrowed(ports);
    }
    let mut ports = ports.clone();
    ports
        .values_mut()
        .for_each(|port| port.bins.widen_to(shift));
    Cow::Owned(ports)
}

/// Returns the devices without records that are taken for HCA ports, which occur if the input has
/// the file of only one sampler: the peers of switch ports of which one port is known, with the
/// number 1 or 2.
pub(crate) fn silent_hosts(ports: &BTreeMap<PortKey, PortSummary>) -> FxHashSet<Guid> {
    let mut found: FxHashMap<Guid, Option<PortNum>> = FxHashMap::default();
    for port in ports.values() {
        let Some((guid, number)) = port.peer else {
            continue;
        };
        let may_be = number.0 <= HCA_PORTS && port.kind != Some(NodeKind::Hca);
        let number = may_be.then_some(number);
        let known = found.entry(guid).or_insert(number);
        *known = known.filter(|_| *known == number);
    }
    for (guid, _) in ports.keys() {
        found.remove(guid);
    }
    let is_host = |(guid, number): (Guid, Option<_>)| number.map(|_| guid);
    found.into_iter().filter_map(is_host).collect()
}

impl PortSummary {
    fn new(ts: u64, bins: TimeBins, fills_in: bool) -> Self {
        Self {
            node: "".into(),
            kind: None,
            lid: Lid(0),
            peer: None,
            peer_name: "".into(),
            link: "".into(),
            mtu: None,
            fastest_gbps: 0.0,
            fastest: "".into(),
            span: (ts, ts),
            records: (0, 0),
            all: TimeBin::default(),
            bins,
            errors: [None; ERROR_COUNTERS.len()],
            carried: Carried::default(),
            fills_in,
            checkpoints: Checkpoints::default(),
            events: LinkEvents::default(),
        }
    }

    /// Returns the time between the first and the last reading or event, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.span.1 - self.span.0) as f64 / 1e9
    }

    /// Returns the data rate of the link in Gb/s, or `None` if its width or speed is unknown.
    pub fn gbps(&self) -> Option<f64> {
        rate(&self.link).and_then(|rate| rate.data_gbps())
    }

    /// Returns whether the data rate is below the max in the records or in the net file.
    pub fn is_degraded(&self) -> bool {
        self.gbps().is_some_and(|gbps| gbps < self.fastest_gbps)
    }

    /// Returns the name of the peer, if the peer is known.
    pub fn peer_port(&self) -> Option<PortName> {
        self.peer.map(|peer| PortName::new(&self.peer_name, peer))
    }

    /// Returns the sum of the increases of all error counters, except those that count a part of
    /// another counter.
    pub fn error_sum(&self) -> u64 {
        let all = self
            .errors
            .iter()
            .enumerate()
            .filter(|(index, _)| !is_error_part(*index))
            .filter_map(|(_, change)| change.as_ref());
        all.fold(0, |sum, change| sum.saturating_add(change.increase))
    }

    /// Adds a record, or the last one of several with the same texts. `all` is what they measured.
    /// The errors are added by themselves.
    fn add(&mut self, port: &Port<'_>, all: impl ExactSizeIterator<Item = Measured>, parts: Parts) {
        if !port.is_edge || self.records.0 == 0 {
            self.add_names(port);
        }
        let peer = port.peer_guid.zip(port.peer_port).or(self.peer);
        let is_leaf = self.fills_in && may_lead_to_host(port.kind.or(self.kind), peer);
        let stated = Stated::of(port, is_leaf);
        self.span.1 = self.span.1.max(port.ts);
        let count = if port.is_edge { 0 } else { all.len() as u64 };
        self.records.0 += count;
        self.records.1 += if port.answered() { count } else { 0 };
        if parts == Parts::Errors {
            return;
        }
        for measured in all {
            self.carried.add(&stated, &measured);
            if port.is_edge {
                continue;
            }
            self.all.add(&measured);
            self.bins.add(&measured);
            if let Some(time) = self.carried.add_down(&stated, &measured) {
                self.bins.add_down(time);
            }
            if parts == Parts::All {
                self.checkpoints.add(&stated, &measured);
            }
        }
    }

    /// Takes the names and the link from a record.
    fn add_names(&mut self, port: &Port<'_>) {
        if self.records.0 == 0 || *self.node != *port.node {
            self.node = (&*port.node).into();
        }
        self.kind = port.kind.or(self.kind);
        self.lid = port.lid;
        self.mtu = port.mtu;
        if let (Some(guid), Some(number)) = (port.peer_guid, port.peer_port) {
            self.peer = Some((guid, number));
        }
        if let Some(peer) = port.peer.as_ref().filter(|peer| ***peer != *self.peer_name) {
            self.peer_name = (&**peer).into();
        }
        if *self.link != *port.link {
            self.link = (&*port.link).into();
            self.keep_fastest(&port.link);
        }
    }

    fn add_errors(&mut self, port: &Port<'_>) {
        // The counters of a record are mostly in the order of the list, so the search continues
        // after the last match.
        let (mut next, count) = (0, port.counters.len());
        for (change, name) in self.errors.iter_mut().zip(ERROR_COUNTERS) {
            let found = (next..count)
                .chain(0..next)
                .find(|place| port.counters[*place].0 == name);
            let Some(place) = found else { continue };
            next = place + 1;
            if let Value::One(value) = port.counters[place].1 {
                CounterChange::add_to(change, value, port.is_saturated(name));
            }
        }
    }

    fn add_errors_of(&mut self, run: &Run<'_>) {
        for (change, name) in self.errors.iter_mut().zip(ERROR_COUNTERS) {
            if let Some(values) = run.counter(name) {
                CounterChange::add_run(change, values, run.rows(), run.port().is_saturated(name));
            }
        }
    }

    fn add_event(&mut self, event: &Event<'_>) {
        match EventName::named(&event.event) {
            Some(EventName::LinkDown) => self.events.add_state(event.ts, false),
            Some(EventName::LinkUp) => self.events.add_state(event.ts, true),
            Some(EventName::LinkChange) => {
                self.events.changes += 1;
                self.events.last_change = self.events.last_change.max(Some(event.ts));
                // Only this text may contain the rate before the change, for example if it came
                // from the net file.
                event
                    .detail
                    .split([' ', ','])
                    .for_each(|word| self.keep_fastest(word));
            }
            Some(EventName::Reset) => self.events.resets += 1,
            _ => {}
        }
    }

    fn keep_fastest(&mut self, link: &str) {
        if let Some(gbps) = rate(link)
            .and_then(|rate| rate.data_gbps())
            .filter(|gbps| *gbps > self.fastest_gbps)
        {
            (self.fastest_gbps, self.fastest) = (gbps, link.into());
        }
    }
}

/// Parses width and speed in the form of the records, such as `4xEDR`.
fn rate(link: &str) -> Option<LinkRate> {
    let (width, speed) = link.split_at_checked(link.find('x')? + 1)?;
    Some(LinkRate::new(width, speed))
}

impl Mean {
    /// Adds a value. A NaN means that there is none.
    fn add(&mut self, value: f64, time_ns: u64) {
        if value.is_finite() {
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

    /// Returns the max value of a slot, or `None` without values.
    pub fn peak(&self) -> Option<f64> {
        (self.time_ns > 0).then_some(self.peak)
    }

    /// Returns the number of bytes: the mean in Gb/s times its duration.
    #[cfg(test)]
    pub(crate) fn octets(&self) -> f64 {
        // 1 Gb/s for 1 ns is 1 bit.
        self.sum / 8.0
    }

    /// Returns the time that the mean covers, in seconds.
    pub fn seconds(&self) -> f64 {
        self.time_ns as f64 / 1e9
    }

    /// Returns the mean, or `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.time_ns > 0).then(|| self.sum / self.time_ns as f64)
    }
}

impl LinkEvents {
    fn add_state(&mut self, ts: u64, is_up: bool) {
        if is_up {
            self.ups += 1;
        } else {
            self.downs += 1;
        }
        self.last = self.last.max(Some((ts, is_up)));
    }

    /// Returns whether the last event was `link_down`.
    pub fn is_down(&self) -> bool {
        self.last.is_some_and(|(_, is_up)| !is_up)
    }
}

#[cfg(test)]
mod tests;
