//! Computes the traffic of each job in a time range, the traffic without a job, and the traffic
//! into selected nodes.
//!
//! A record counts for the jobs that ran on its host. Its rates hold for its whole interval, and
//! a job gets the traffic of that part of the interval in which it ran. If several jobs ran on a
//! host at the same time, each gets an equal part, because port counters cannot distinguish jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ibnet_record::interval::Interval;
use ibnet_record::types::NodeKind;
use rustc_hash::FxHashMap;

pub mod flows;
pub mod list;
pub mod totals;

pub use self::list::JobList;
use self::list::{Owner, Window};
use self::totals::Builder;
pub use self::totals::{JobTotal, JobsTraffic, NodeTotal, PortRate};
use crate::cell::{Cell, Joined};
use crate::error::AnalysisError;
use crate::hosts::{Hosts, host_of};
use crate::input::Fold;
use crate::input::run::Measured;
use crate::job::marks::{self, Mark, Parts};
use crate::ports::carried::{
    Amount, Carried, Flow, HCA_PORTS, Kind, Piece, Stated, may_lead_to_host,
};
use crate::ports::{DATA_COUNTERS, PortKey, PortName};
use crate::record::{Port, Record, Type};

/// Possible lengths of a bin in seconds if no length is given, each a multiple of the one before.
const BINS_S: [u64; 12] = [1, 2, 10, 20, 60, 120, 600, 1200, 3600, 7200, 21_600, 86_400];

/// Max number of bins if their length is not given.
const USUAL_BINS: u64 = 360;

/// Max number of bins if their length is given.
const MAX_BINS: u64 = 5000;

const SECOND: u64 = 1_000_000_000;

/// A bin of a port counts as known if at most this share of its time is unknown, because the
/// intervals of different ports do not begin at the same time.
const MAX_LACKING: f64 = 0.125;

/// The traffic of all ports by job and bin, from the records.
#[derive(Clone, Debug)]
pub struct AllJobs {
    list: Arc<JobList>,
    ports: FxHashMap<PortKey, PortTraffic>,
    bin_ns: u64,
    /// Whether the length of a bin was given.
    is_fixed: bool,
    /// Start of the first and end of the last interval.
    span: Option<(u64, u64)>,
    is_too_long: bool,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
struct PortTraffic {
    node: Box<str>,
    kind: Option<NodeKind>,
    peer: Option<PortKey>,
    peer_name: Box<str>,
    carried: Carried,
    /// Traffic by bin and job.
    bins: Bins,
}

/// Traffic by bin and job.
type Bins = BTreeMap<(u64, Owner), Flow>;

impl AllJobs {
    /// Creates an empty state. If `bin_ns` is `None`, bins become longer with the recording.
    pub fn new(list: JobList, bin_ns: Option<u64>) -> Self {
        let list = Arc::new(list);
        let (bin_ns, is_fixed) = (bin_ns.unwrap_or(SECOND).max(1), bin_ns.is_some());
        Self {
            list,
            ports: FxHashMap::default(),
            bin_ns,
            is_fixed,
            span: None,
            is_too_long: false,
            marks: Vec::new(),
        }
    }

    /// Adds up the traffic of these phases too.
    #[must_use]
    pub fn with_marks(self, marks: Vec<Mark>) -> Self {
        Self { marks, ..self }
    }

    /// Extends the span, and makes the bins longer if there are too many.
    fn extend(&mut self, from: u64, to: u64) {
        let (from, to) = self
            .span
            .map_or((from, to), |(first, last)| (first.min(from), last.max(to)));
        self.span = Some((from, to));
        let bins = |bin_ns: u64| (to - 1) / bin_ns - from / bin_ns + 1;
        if self.is_fixed {
            self.is_too_long = bins(self.bin_ns) > MAX_BINS;
        } else if bins(self.bin_ns) > USUAL_BINS {
            let fits = BINS_S
                .into_iter()
                .map(|seconds| seconds * SECOND)
                .find(|bin_ns| bins(*bin_ns) <= USUAL_BINS);
            self.widen_to(fits.unwrap_or(BINS_S[BINS_S.len() - 1] * SECOND));
        }
    }

    fn widen_to(&mut self, bin_ns: u64) {
        let ratio = bin_ns / self.bin_ns;
        if ratio > 1 {
            self.bin_ns = bin_ns;
            for port in self.ports.values_mut() {
                for ((bin, owner), flow) in std::mem::take(&mut port.bins) {
                    port.bins.entry((bin / ratio, owner)).or_default().add(flow);
                }
            }
        }
    }

    fn add_port(&mut self, port: &Port<'_>) {
        let entry = self.ports.entry(port.key()).or_insert_with(|| PortTraffic {
            node: "".into(),
            kind: None,
            peer: None,
            peer_name: "".into(),
            carried: Carried::default(),
            bins: Bins::new(),
        });
        entry.identify(port);
        let is_leaf = may_lead_to_host(entry.kind, entry.peer);
        let (stated, measured) = (Stated::of(port, is_leaf), Measured::of(port));
        let pieces = entry.carried.add(&stated, &measured);
        if !port.is_edge {
            entry.carried.add_down(&stated, &measured);
        }
        for (_, time, _) in pieces.into_iter().flatten() {
            self.extend(time.from(), time.to());
        }
        let Some(entry) = self.ports.get_mut(&port.key()) else {
            return;
        };
        if self.is_too_long {
            return;
        }
        let peer = port.peer.as_deref().unwrap_or_default();
        let host = host_of(if port.kind == Some(NodeKind::Hca) {
            &port.node
        } else {
            peer
        });
        pieces
            .into_iter()
            .flatten()
            .for_each(|piece| spread(&mut entry.bins, &self.list, host, self.bin_ns, piece));
    }
}

/// Spreads a part of a host's traffic over the bins of the jobs that ran on the host.
fn spread(bins: &mut Bins, list: &JobList, host: &str, bin_ns: u64, (kind, time, sum): Piece) {
    for (owner, part, share) in list.split(host, time) {
        for (bin, part) in part.split(bin_ns) {
            let ns = part.length_ns();
            bins.entry((bin, owner)).or_default().put(
                kind,
                share * sum * ns as f64 / time.length_ns() as f64,
                ns,
            );
        }
    }
}

impl PortTraffic {
    fn identify(&mut self, port: &Port<'_>) {
        if *self.node != *port.node {
            self.node = (&*port.node).into();
        }
        self.kind = port.kind.or(self.kind);
        self.peer = port.peer_guid.zip(port.peer_port).or(self.peer);
        if let Some(peer) = port
            .peer
            .as_deref()
            .filter(|peer| **peer != *self.peer_name)
        {
            self.peer_name = peer.into();
        }
    }
}

impl Fold for AllJobs {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        true
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(
            [
                "node",
                "kind",
                "peer_guid",
                "peer_port",
                "peer",
                "link",
                "status",
                "saturated",
                "xmit_gbps",
                "rcv_gbps",
                "xmit_blocked",
                "xmit_blocked_dt_ns",
            ]
            .into_iter()
            .chain(DATA_COUNTERS)
            .map(str::to_owned)
            .collect(),
        )
    }

    fn add(&mut self, record: &Record<'_>) {
        if let Record::Port(port) = record {
            self.add_port(port);
        }
    }

    fn merge(&mut self, mut later: Self) {
        let bin_ns = self.bin_ns.max(later.bin_ns);
        self.widen_to(bin_ns);
        later.widen_to(bin_ns);
        for (key, port) in later.ports {
            match self.ports.entry(key) {
                std::collections::hash_map::Entry::Vacant(entry) => drop(entry.insert(port)),
                std::collections::hash_map::Entry::Occupied(mut entry) => {
                    let own = entry.get_mut();
                    (own.node, own.peer_name) = (port.node, port.peer_name);
                    (own.kind, own.peer) = (port.kind.or(own.kind), port.peer.or(own.peer));
                    own.carried.merge(port.carried);
                    for (bin, flow) in port.bins {
                        own.bins.entry(bin).or_default().add(flow);
                    }
                }
            }
        }
        if let Some((from, to)) = later.span {
            self.extend(from, to);
        }
    }
}

/// A host port with its traffic, from the records of either end of the link.
struct HostPort<'a> {
    host: &'a str,
    /// The switch port at the other end, and its name.
    leaf: Option<(PortKey, &'a str)>,
    bins: Bins,
}

impl AllJobs {
    /// Returns the start and the end of the recorded time.
    fn recorded(&self) -> Result<(u64, u64), AnalysisError> {
        let Some(span) = self.span else {
            let help = "give the files of all samplers, and check --from and --to".to_owned();
            return Err(AnalysisError::Nothing {
                what: "no rate of a port in the time range".to_owned(),
                help,
            });
        };
        if self.is_too_long {
            let help = "give a longer --bin, or omit it".to_owned();
            return Err(AnalysisError::Nothing {
                what: format!("--bin gives more than {MAX_BINS} bins"),
                help,
            });
        }
        Ok(span)
    }

    fn axis(&self) -> Result<Axis, AnalysisError> {
        let (from, to) = self.recorded()?;
        let (first, bin_ns) = (from / self.bin_ns, self.bin_ns);
        let mut axis = Axis {
            first,
            bin_ns,
            span: (from, to),
            seconds: Vec::new(),
        };
        let length = |bin| {
            axis.time(bin)
                .map_or(1.0, |time| time.length_ns() as f64 / 1e9)
        };
        axis.seconds = (first..=(to - 1) / bin_ns).map(length).collect();
        Ok(axis)
    }

    /// Returns the traffic. `into` selects the nodes whose received data is returned for each
    /// port.
    ///
    /// # Errors
    /// Returns an error if there are no records, or if the given bin length results in too many
    /// bins.
    pub fn finish(self, into: Option<&Hosts>) -> Result<JobsTraffic, AnalysisError> {
        let axis = self.axis()?;
        let bins = axis.seconds.len();
        // The order of a sum must not depend on the order of the records.
        let all_ports = self.ports.into_iter().collect();
        let mut all = vec![Joined::default(); bins];
        // The last builder is for the traffic without a job.
        let mut builders: Vec<Builder> = (0..=self.list.jobs.len())
            .map(|_| Builder::new(bins))
            .collect();
        let place = |owner: Owner| owner.map_or(self.list.jobs.len(), |job| job as usize);
        let mut flows: Vec<PortRate> = Vec::new();
        let ports = host_ports(&all_ports, &self.list, &axis);
        for port in &ports {
            let rates = port.rates(&self.list, &axis);
            all.iter_mut()
                .zip(&rates.out)
                .for_each(|(all, cell)| all.add(*cell, |a, b| a + b));
            rates
                .out_by_job
                .iter()
                .for_each(|(owner, cells)| builders[place(*owner)].add_rates(cells));
            let mut by_job: BTreeMap<Owner, Flow> = BTreeMap::new();
            port.bins
                .iter()
                .for_each(|((_, owner), flow)| by_job.entry(*owner).or_default().add(*flow));
            by_job
                .into_iter()
                .for_each(|(owner, flow)| builders[place(owner)].add(port.host, flow));
            if into.is_some_and(|hosts| hosts.contains_node(port.host)) {
                flows.push(PortRate::new(port.name(), &rates.into));
            }
        }
        let phases = |of: Option<(Owner, &Builder)>| {
            let is_own =
                |host: &str| of.is_none_or(|(_, builder)| builder.nodes.contains_key(host));
            let is_part = |owner: Owner| of.is_none_or(|(own, _)| own == owner);
            let own = ports.iter().filter(|port| is_own(port.host));
            let marked = own.filter(|_| !self.marks.is_empty());
            let parts = marked.map(|port| (port.host, port.parts(&axis, is_part)));
            marks::of_parts(&parts.collect::<Vec<_>>(), &self.marks)
        };
        let total = |owner: Owner, window: Option<&Window>, builder: Builder| {
            let mut phases = phases(Some((owner, &builder)));
            phases.retain(|phase| phase.covered_seconds > 0.0);
            JobTotal {
                phases,
                ..builder.finish(window)
            }
        };
        let rest = builders.pop().map(|builder| total(None, None, builder));
        let totals = (0_u32..).zip(&self.list.jobs).zip(builders);
        let mut jobs: Vec<JobTotal> = totals
            .filter(|(_, builder)| !builder.nodes.is_empty())
            .map(|((index, window), builder)| total(Some(index), Some(window), builder))
            .collect();
        jobs.sort_by(|a, b| b.injected_bytes.total_cmp(&a.injected_bytes));
        jobs.extend(rest);
        PortRate::sort(&mut flows);
        let phases = phases(None);
        let Axis {
            first,
            bin_ns,
            span,
            ..
        } = axis;
        let total = all.into_iter().map(Joined::cell).collect();
        Ok(JobsTraffic {
            phases,
            start_ns: first * bin_ns,
            bin_ns,
            bins,
            recorded_ns: span,
            jobs,
            total,
            into: flows,
        })
    }
}

/// The bins of the results.
struct Axis {
    /// Number of the first bin, counted since 1970.
    first: u64,
    bin_ns: u64,
    /// Recorded time in nanoseconds since 1970.
    span: (u64, u64),
    /// Recorded time of each bin, in seconds.
    seconds: Vec<f64>,
}

/// Data rates of a host port in Gb/s, in each bin.
struct PortRates {
    into: Vec<Cell>,
    out: Vec<Cell>,
    /// The rates of each job that ran on the host, and those of the time without a job. In a bin
    /// in which a job did not run, its state is `Down`.
    out_by_job: BTreeMap<Owner, Vec<Cell>>,
}

impl Axis {
    /// Returns the recorded time of a bin. It can be a part of the first and the last bin.
    fn time(&self, bin: u64) -> Option<Interval> {
        Interval::new(bin * self.bin_ns, (bin + 1).saturating_mul(self.bin_ns))?
            .within(self.span.0, self.span.1)
    }

    /// Returns the data rate in a bin. `whole_s` is the time of the bin to which the bytes
    /// belong, in seconds.
    fn rate(&self, bin: usize, octets: Amount, whole_s: f64) -> Cell {
        let known_s = octets.time_ns as f64 / 1e9;
        if octets.time_ns == 0 {
            return if whole_s > 0.0 {
                Cell::Unknown
            } else {
                Cell::Down
            };
        }
        let value = octets.sum * 8.0 / 1e9 / self.seconds[bin];
        if known_s >= whole_s * (1.0 - MAX_LACKING) {
            Cell::Value(value)
        } else {
            Cell::AtLeast {
                value,
                covered: known_s / whole_s,
            }
        }
    }
}

impl HostPort<'_> {
    /// Returns the names of the switch port and of the host.
    fn name(&self) -> String {
        let name = self.leaf.map_or_else(String::new, |(key, name)| {
            format!("{} to ", PortName::new(name, key))
        });
        format!("{name}{}", self.host)
    }

    /// Returns the traffic of some jobs in each bin.
    fn parts(&self, axis: &Axis, is_part: impl Fn(Owner) -> bool) -> Parts {
        let mut by_bin: BTreeMap<u64, Flow> = BTreeMap::new();
        for ((bin, _), flow) in self.bins.iter().filter(|((_, owner), _)| is_part(*owner)) {
            by_bin.entry(*bin).or_default().add(*flow);
        }
        let part = |(bin, flow)| Some((axis.time(bin)?, flow));
        by_bin.into_iter().filter_map(part).collect()
    }

    fn rates(&self, list: &JobList, axis: &Axis) -> PortRates {
        // For each bin, the flow of a job and the seconds for which it ran.
        let empty = || vec![(Flow::default(), 0.0); axis.seconds.len()];
        let mut by_job: BTreeMap<Owner, Vec<(Flow, f64)>> = BTreeMap::new();
        let recorded = Interval::new(axis.span.0, axis.span.1);
        for (owner, time, _) in recorded
            .into_iter()
            .flat_map(|time| list.split(self.host, time))
        {
            let bins = by_job.entry(owner).or_insert_with(empty);
            time.split(axis.bin_ns).for_each(|(bin, part)| {
                bins[(bin - axis.first) as usize].1 += part.length_ns() as f64 / 1e9;
            });
        }
        for ((bin, owner), flow) in &self.bins {
            by_job.entry(*owner).or_insert_with(empty)[(bin - axis.first) as usize]
                .0
                .add(*flow);
        }
        let mut whole = empty();
        for bins in by_job.values() {
            for ((flow, seconds), (more, more_seconds)) in whole.iter_mut().zip(bins) {
                flow.add(*more);
                *seconds += more_seconds;
            }
        }
        let rates = |bins: &[(Flow, f64)], of: Kind| {
            bins.iter()
                .enumerate()
                .map(|(bin, (flow, seconds))| axis.rate(bin, flow.of(of), *seconds))
                .collect()
        };
        PortRates {
            into: rates(&whole, Kind::Received),
            out: rates(&whole, Kind::Sent),
            out_by_job: by_job
                .iter()
                .map(|(owner, bins)| (*owner, rates(bins, Kind::Sent)))
                .collect(),
        }
    }
}

/// Returns the ports of all hosts. Where an HCA port lacks bytes, the switch port at the other
/// end of the link fills in.
fn host_ports<'a>(
    all: &'a BTreeMap<PortKey, PortTraffic>,
    list: &JobList,
    axis: &Axis,
) -> Vec<HostPort<'a>> {
    let mut ports = Vec::new();
    let switches: BTreeSet<_> = all
        .iter()
        .filter(|(_, port)| port.kind == Some(NodeKind::Switch))
        .map(|((guid, _), _)| *guid)
        // A device with more ports than an HCA is a switch, even if it has no record.
        .chain(all.values().filter_map(|port| {
            let (guid, number) = port.peer?;
            (number.0 > HCA_PORTS).then_some(guid)
        }))
        .collect();
    for (key, port) in all {
        let peer = port.peer.and_then(|peer| all.get(&peer));
        let (host, leaf, mut bins, filled) = if port.kind == Some(NodeKind::Hca) {
            let far = peer
                .filter(|switch| switch.peer == Some(*key))
                .map(|switch| &switch.carried);
            let leaf = port.peer.map(|peer| (peer, &*port.peer_name));
            (
                host_of(&port.node),
                leaf,
                port.bins.clone(),
                port.carried.filled(far, axis.span),
            )
        } else if peer.is_none()
            && port
                .peer
                .is_some_and(|(guid, number)| !switches.contains(&guid) && number.0 <= HCA_PORTS)
        {
            let bins = port
                .bins
                .iter()
                .map(|(bin, flow)| (*bin, flow.reversed()))
                .collect();
            (
                host_of(&port.peer_name),
                Some((*key, &*port.node)),
                bins,
                port.carried.down_of_host(axis.span).collect(),
            )
        } else {
            continue;
        };
        filled
            .into_iter()
            .for_each(|piece| spread(&mut bins, list, host, axis.bin_ns, piece));
        ports.push(HostPort { host, leaf, bins });
    }
    ports
}

#[cfg(test)]
mod tests;
