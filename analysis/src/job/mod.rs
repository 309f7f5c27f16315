//! Computes the traffic of a job. The result contains:
//!
//! - the data that the nodes of the job injected (sent into the fabric) and ejected (received
//!   from the fabric),
//! - the part of this data that stayed on the leaf switches of the nodes,
//! - the load of the links from these leaf switches to other switches,
//! - the time for which the nodes were *blocked*, that is, had data to send but no credit.
//!
//! A port counter does not show where the data goes. The traffic that stays on a leaf switch is
//! therefore an estimate with bounds ([`LocalTraffic`]), and so is a job's share in the traffic
//! of a link between switches ([`Uplink`]), which is taken to be its share in the traffic of all
//! hosts of the leaf switch. Both estimates assume that no traffic passes through a leaf switch
//! to another leaf switch, as in a fat tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ibnet_record::types::{Guid, NodeKind, PortNum};
use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::cell::{Cell, Joined};
use crate::hosts::{Hosts, host_of};
use crate::ports::bins::TimeBins;
use crate::ports::carried::{Flow, Kind, both};
use crate::ports::{Mean, PortKey, PortName, PortSummary, silent_hosts, with_equal_bins};

pub mod all;
pub mod compare;
pub mod imbalance;
pub mod marks;
pub mod rails;
pub mod row;
pub mod run;
pub mod sharing;
pub mod source;
pub mod table;

use self::all::PortRate;
use self::imbalance::Imbalance;

/// Traffic of a job. The field names are those of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Job {
    /// Hosts with at least one recorded port, by name.
    pub nodes: Vec<Node>,
    /// Names of hosts without records.
    pub missing: Vec<String>,
    /// Max time between the first and the last reading of a port, in seconds. It can be any port,
    /// because all samplers of the job's own ports may stop.
    pub recorded_seconds: f64,
    /// How unevenly the nodes sent.
    pub imbalance: Imbalance,
    /// Blocked time per byte sent, in nanoseconds. Null without traffic.
    pub blocked_ns_per_byte: Option<f64>,
    /// Length of a step in nanoseconds.
    pub step_ns: u64,
    /// Traffic of all nodes over time.
    pub steps: Vec<Step>,
    /// Data rates from the switch ports into the nodes for each step, largest first.
    pub into: Vec<PortRate>,
    /// Traffic that stayed on the leaf switches.
    pub stays: LocalTraffic,
    /// Leaf switches of the job.
    pub leaves: Vec<Leaf>,
    /// Links from the leaf switches to other switches, the one with most traffic of the job
    /// first.
    pub uplinks: Vec<Uplink>,
}

/// A host of the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Node {
    /// Name of the host.
    pub host: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Bytes that the host sent.
    pub injected_bytes: f64,
    /// Bytes that the host received.
    pub ejected_bytes: f64,
    /// Time in which the bytes are known, in seconds: the mean of the ports, for the direction
    /// with less time.
    pub covered_seconds: f64,
    /// Time in which the sent bytes are known, in seconds.
    #[serde(skip)]
    pub(crate) sent_seconds: f64,
    /// Mean share of the time in which a port had data to send but no credit, 0 to 1. Null
    /// without records.
    pub blocked: Option<f64>,
    /// Max share of a slot in which a port was blocked, 0 to 1.
    pub blocked_peak: Option<f64>,
    /// Time for which the ports were blocked, summed over the ports, in seconds.
    pub blocked_seconds: f64,
    /// Time in which the blocked time is known, in seconds: the mean of the ports.
    pub blocked_covered_seconds: f64,
}

/// Traffic of all nodes in one step of time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Start in nanoseconds since 1970.
    pub ts: u64,
    /// Data rate that all nodes sent, in Gb/s. It is a lower bound if `injected_covered` is below
    /// 1, and null if it is unknown for all ports.
    pub injected_gbps: Option<f64>,
    /// Share of the ports for which the sent data is known, 0 to 1.
    pub injected_covered: f64,
    /// Data rate that all nodes received, in Gb/s, in the same form as `injected_gbps`.
    pub ejected_gbps: Option<f64>,
    /// Share of the ports for which the received data is known, 0 to 1.
    pub ejected_covered: f64,
    /// Share of the time in which a port was blocked, 0 to 1: the mean of the ports for which it
    /// is known. Null without records.
    pub blocked: Option<f64>,
    /// Share of the ports for which the blocked time is known, 0 to 1.
    pub blocked_covered: f64,
    /// Share of the time in which the most blocked port was blocked, 0 to 1.
    pub blocked_most: Option<f64>,
}

/// Traffic of a job that did not leave its leaf switches, in bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LocalTraffic {
    /// Bytes that the job injected.
    pub injected_bytes: f64,
    /// Lower bound: on each leaf switch, the bytes that the job injected minus the bytes that all
    /// hosts sent to other switches.
    pub least_bytes: f64,
    /// Estimate, which assumes that all hosts of a leaf switch send the same part of their
    /// traffic to other switches.
    pub estimate_bytes: f64,
    /// Upper bound: on each leaf switch, the smaller one of the bytes that the job injected, and
    /// the bytes of all hosts that were not sent to other switches.
    pub most_bytes: f64,
}

/// A leaf switch of the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leaf {
    /// Port GUID of the switch.
    pub guid: Guid,
    /// Node description as the device returned it.
    pub name: String,
    /// Number of HCA ports of the job at this switch.
    pub job_ports: usize,
    /// Number of all recorded HCA ports at this switch.
    pub host_ports: usize,
    /// Bytes that the job's ports injected here.
    pub injected_bytes: f64,
    /// Bytes that the job's ports ejected here.
    pub ejected_bytes: f64,
    /// Bytes that all hosts of the switch injected.
    pub all_injected_bytes: f64,
    /// Bytes that all hosts of the switch ejected.
    pub all_ejected_bytes: f64,
    /// Bytes that left to other switches.
    pub up_bytes: f64,
}

/// A link from a leaf switch of the job to another switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Uplink {
    /// Port of the leaf switch.
    pub port: String,
    /// Port at the other end.
    pub to: String,
    /// Mean data rate to the other switch, in Gb/s.
    pub up_gbps: f64,
    /// Mean data rate from the other switch, in Gb/s.
    pub down_gbps: f64,
    /// Mean share of the link's data rate that was used, 0 to 1, in the direction with more data.
    pub used: Option<f64>,
    /// Share of the time in which the port had data to send but no credit, 0 to 1.
    pub blocked: Option<f64>,
    /// Estimated part of the job in `up_gbps`: its share of the bytes that the hosts of the leaf
    /// switch injected.
    pub job_up_gbps: f64,
    /// Estimated part of the job in `down_gbps`: its share of the bytes that the hosts of the
    /// leaf switch ejected.
    pub job_down_gbps: f64,
}

/// The parts of the recorded time for which bytes and blocked time are known, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Known {
    octets: f64,
    blocked: Option<f64>,
    whole: f64,
}

impl Known {
    /// Takes the seconds for which bytes and blocked time are known, and the recorded time.
    /// Returns `None` if both are known for the whole time.
    pub fn of(octets: f64, blocked: impl Into<Option<f64>>, whole: f64) -> Option<Self> {
        let blocked = blocked.into();
        (octets.min(blocked.unwrap_or(whole)) < 0.999 * whole).then_some(Self {
            octets,
            blocked,
            whole,
        })
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            octets,
            blocked,
            whole,
        } = self;
        write!(f, "bytes are known for {octets:.1} s")?;
        if let Some(blocked) = blocked.filter(|blocked| *blocked > 0.0) {
            write!(f, " and blocked time for {blocked:.1} s")?;
        }
        write!(f, " of {whole:.1} s")?;
        if *blocked == Some(0.0) {
            f.write_str(", blocked time is not known")
        } else {
            Ok(())
        }
    }
}

/// Returns whether a host is in a list, without regard to case.
fn is_one_of(hosts: &Hosts, host: &str) -> bool {
    hosts.contains_node(host) || hosts.iter().any(|name| name.eq_ignore_ascii_case(host))
}

/// Injected Gb/s, ejected Gb/s and blocked share of a port in a step.
type Rates = (Option<f64>, Option<f64>, Option<f64>);

/// Traffic of an HCA port in both directions, from the records of either end.
struct HostPort<'a> {
    key: PortKey,
    host: &'a str,
    leaf: Option<Guid>,
    /// The port of the leaf switch.
    leaf_port: Option<PortName>,
    /// Bytes that the host sent and received, and its blocked time.
    total: Flow,
    /// Records of the HCA.
    hca: Option<&'a PortSummary>,
    /// Records of the switch port at the other end.
    switch: Option<&'a PortSummary>,
}

impl Job {
    /// Evaluates the ports for a job on these hosts. Each host name is compared with the first
    /// words of node descriptions, without regard to case.
    pub fn of(ports: &BTreeMap<PortKey, PortSummary>, hosts: &Hosts) -> Self {
        let ports = with_equal_bins(ports);
        let selected: BTreeSet<String> = hosts.iter().map(str::to_lowercase).collect();
        let is_own =
            |host: &str| selected.contains(&host.to_lowercase()) || hosts.contains_node(host);
        let (own, others): (Vec<_>, Vec<_>) = host_ports(&ports)
            .into_iter()
            .partition(|port| is_own(port.host));
        let nodes = nodes(&own);
        let found: BTreeSet<String> = nodes.iter().map(|node| node.host.to_lowercase()).collect();
        let silent = silent_hosts(&ports);
        let leaves = leaves(&ports, &silent, &own, &others);
        let steps = steps(&own);
        let sum = |value: fn(&Node) -> f64| nodes.iter().map(value).sum::<f64>();
        Self {
            missing: hosts
                .iter()
                .filter(|name| !found.contains(&name.to_lowercase()))
                .map(str::to_owned)
                .collect(),
            recorded_seconds: ports
                .values()
                .map(|port| port.seconds())
                .fold(0.0, f64::max),
            imbalance: Imbalance::of(nodes.iter().map(|node| node.injected_bytes)),
            blocked_ns_per_byte: blocked_ns_per_byte(
                (
                    sum(|node| node.blocked_seconds),
                    sum(|node| node.blocked_covered_seconds),
                ),
                (
                    sum(|node| node.injected_bytes),
                    sum(|node| node.sent_seconds),
                ),
            ),
            step_ns: own
                .iter()
                .filter_map(|port| port.bins())
                .map(TimeBins::width_ns)
                .max()
                .unwrap_or(1_000_000_000),
            into: into(&own, &steps),
            steps,
            stays: leaves
                .iter()
                .fold(LocalTraffic::default(), LocalTraffic::plus),
            uplinks: uplinks(&ports, &silent, &leaves),
            nodes,
            leaves,
        }
    }
}

impl Job {
    /// Returns the job as JSON.
    pub fn to_json(&self) -> String {
        // Cannot fail, because numbers and strings always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Returns all HCA ports, including those without records of their own that are the peer of a
/// recorded switch port.
fn host_ports(ports: &BTreeMap<PortKey, PortSummary>) -> Vec<HostPort<'_>> {
    let mut found = Vec::new();
    let silent = silent_hosts(ports);
    let recorded = ports
        .values()
        .filter_map(|port| port.carried.span())
        .reduce(both)
        .unwrap_or_default();
    for (key, port) in ports {
        let peer = port.peer.and_then(|peer| ports.get(&peer));
        if port.kind == Some(NodeKind::Hca) {
            let switch = peer.filter(|peer| peer.peer == Some(*key));
            let leaf = port.peer.map(|(guid, _)| guid);
            let total = port
                .carried
                .total_with(switch.map(|switch| &switch.carried), recorded);
            found.push(HostPort {
                key: *key,
                host: host_of(&port.node),
                leaf,
                leaf_port: port.peer_port(),
                total,
                hca: Some(port),
                switch,
            });
        } else if let Some(hca) = port.peer.filter(|(guid, _)| silent.contains(guid)) {
            found.push(HostPort {
                key: hca,
                host: host_of(&port.peer_name),
                leaf: Some(key.0),
                leaf_port: Some(PortName::new(&port.node, *key)),
                total: port.carried.total_of_host(recorded),
                hca: None,
                switch: Some(port),
            });
        }
    }
    found
}

impl<'a> HostPort<'a> {
    fn bins(&self) -> Option<&'a TimeBins> {
        self.hca.or(self.switch).map(|port| &port.bins)
    }

    /// Returns the names of the switch port and of the host.
    fn link(&self) -> String {
        self.leaf_port.as_ref().map_or_else(
            || self.host.to_owned(),
            |leaf| format!("{leaf} to {}", self.host),
        )
    }

    /// Returns the injected Gb/s, the ejected Gb/s and the blocked share of a step.
    fn at(&self, number: u64) -> Rates {
        let (hca, switch) = (
            self.hca.and_then(|port| port.bins.get(number)),
            self.switch.and_then(|port| port.bins.get(number)),
        );
        let injected = hca
            .and_then(|bin| bin.xmit.mean())
            .or_else(|| switch?.rcv.mean());
        let ejected = hca
            .and_then(|bin| bin.rcv.mean())
            .or_else(|| switch?.xmit.mean());
        (injected, ejected, hca.and_then(|bin| bin.blocked.mean()))
    }

    /// Returns the values of [`at`](Self::at), or 0 if the link was down and carried nothing.
    fn known_at(&self, number: u64) -> Rates {
        let is_down = [self.hca, self.switch]
            .into_iter()
            .flatten()
            .filter_map(|port| port.bins.get(number))
            .any(|bin| bin.has_down);
        let or_none = |value: Option<f64>| value.or_else(|| is_down.then_some(0.0));
        let (injected, ejected, blocked) = self.at(number);
        (or_none(injected), or_none(ejected), or_none(blocked))
    }
}

fn nodes(own: &[HostPort<'_>]) -> Vec<Node> {
    let mut by_host: BTreeMap<&str, Vec<&HostPort<'_>>> = BTreeMap::new();
    own.iter()
        .for_each(|port| by_host.entry(port.host).or_default().push(port));
    let node = |(host, ports): (&str, Vec<&HostPort<'_>>)| {
        let blocked: Vec<Mean> = ports
            .iter()
            .filter_map(|port| Some(port.hca?.all.blocked))
            .filter(|blocked| blocked.mean().is_some())
            .collect();
        let mut total = Flow::default();
        ports.iter().for_each(|port| total.add(port.total));
        let (of_ports, means) = (
            ports.len() as f64,
            blocked.iter().filter_map(Mean::mean).collect::<Vec<f64>>(),
        );
        Node {
            host: host.to_owned(),
            ports: ports.len(),
            injected_bytes: total.sent(),
            ejected_bytes: total.received(),
            covered_seconds: total.covered_seconds() / of_ports,
            sent_seconds: total.seconds(Kind::Sent) / of_ports,
            blocked: mean(&means),
            blocked_peak: blocked.iter().filter_map(Mean::peak).reduce(f64::max),
            blocked_seconds: total.of(Kind::Blocked).sum,
            blocked_covered_seconds: total.seconds(Kind::Blocked) / of_ports,
        }
    };
    by_host.into_iter().map(node).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn steps(own: &[HostPort<'_>]) -> Vec<Step> {
    let numbers: BTreeSet<u64> = own
        .iter()
        .flat_map(|port| [port.hca, port.switch])
        .flatten()
        .flat_map(|port| port.bins.iter().map(|bin| bin.0))
        .collect();
    let width = own
        .iter()
        .filter_map(|port| port.bins())
        .map(TimeBins::width_ns)
        .max()
        .unwrap_or(1);
    let step = |number: u64| {
        let all: Vec<_> = own.iter().map(|port| port.known_at(number)).collect();
        let blocked: Vec<f64> = all.iter().filter_map(|(_, _, blocked)| *blocked).collect();
        let added = |of: fn(&Rates) -> Option<f64>| {
            let mut joined = Joined::default();
            all.iter()
                .for_each(|rates| joined.add(of(rates).into(), |a, b| a + b));
            joined
        };
        let (injected, ejected) = (added(|rates| rates.0), added(|rates| rates.1));
        Step {
            ts: number * width,
            injected_gbps: injected.cell().value(),
            injected_covered: injected.covered(),
            ejected_gbps: ejected.cell().value(),
            ejected_covered: ejected.covered(),
            blocked_covered: blocked.len() as f64 / all.len().max(1) as f64,
            blocked: mean(&blocked),
            blocked_most: blocked.into_iter().reduce(f64::max),
        }
    };
    // A step without any value is left out; the first slot, for example, has no rates.
    let has_values = |number: &u64| {
        own.iter()
            .any(|port| port.at(*number) != (None, None, None))
    };
    numbers.into_iter().filter(has_values).map(step).collect()
}

/// Returns the blocked time per byte sent, in nanoseconds: the ratio of waiting time to data, as
/// in Aguilar's thesis (2015). Each of the two is known for a part of the time, which is taken as
/// representative of the rest. Returns `None` without traffic, or if the blocked time is unknown.
fn blocked_ns_per_byte(
    (blocked_seconds, blocked_covered): (f64, f64),
    (injected_bytes, covered): (f64, f64),
) -> Option<f64> {
    let is_known = injected_bytes > 0.0 && blocked_covered > 0.0 && covered > 0.0;
    is_known.then(|| blocked_seconds / blocked_covered * covered * 1e9 / injected_bytes)
}

/// Returns the data rates into the nodes by switch port.
fn into(own: &[HostPort<'_>], steps: &[Step]) -> Vec<PortRate> {
    let width = own
        .iter()
        .filter_map(|port| port.bins())
        .map(TimeBins::width_ns)
        .max()
        .unwrap_or(1);
    let rate = |port: &HostPort<'_>| {
        let cells: Vec<Cell> = steps
            .iter()
            .map(|step| port.known_at(step.ts / width).1.into())
            .collect();
        PortRate::new(port.link(), &cells)
    };
    let mut rates: Vec<_> = own.iter().map(rate).collect();
    PortRate::sort(&mut rates);
    rates
}

/// Returns the ports of a switch that lead to other switches.
fn up_ports<'a>(
    ports: &'a BTreeMap<PortKey, PortSummary>,
    silent: &FxHashSet<Guid>,
    guid: Guid,
) -> impl Iterator<Item = (&'a PortKey, &'a PortSummary)> {
    let of_switch = ports.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)));
    let is_up = |port: &PortSummary| {
        port.peer.is_some_and(|peer| match ports.get(&peer) {
            Some(port) => port.kind == Some(NodeKind::Switch),
            None => !silent.contains(&peer.0),
        })
    };
    of_switch.filter(move |(_, port)| port.kind == Some(NodeKind::Switch) && is_up(port))
}

fn leaves(
    ports: &BTreeMap<PortKey, PortSummary>,
    silent: &FxHashSet<Guid>,
    own: &[HostPort<'_>],
    others: &[HostPort<'_>],
) -> Vec<Leaf> {
    let guids: BTreeSet<Guid> = own.iter().filter_map(|port| port.leaf).collect();
    let leaf = |guid: Guid| {
        let here = |all: &'_ [HostPort<'_>]| {
            let here: Vec<_> = all.iter().filter(|port| port.leaf == Some(guid)).collect();
            let sum =
                |value: fn(&HostPort<'_>) -> f64| here.iter().map(|port| value(port)).sum::<f64>();
            (
                here.len(),
                sum(|port| port.total.sent()),
                sum(|port| port.total.received()),
            )
        };
        let ((job_ports, injected, ejected), (other_ports, other_injected, other_ejected)) =
            (here(own), here(others));
        let name = own
            .iter()
            .filter(|port| port.leaf == Some(guid))
            .find_map(|port| match (port.switch, port.hca) {
                (Some(switch), _) => Some(switch.node.to_string()),
                (None, hca) => hca.map(|hca| hca.peer_name.to_string()),
            });
        Leaf {
            guid,
            name: name.unwrap_or_default(),
            job_ports,
            host_ports: job_ports + other_ports,
            injected_bytes: injected,
            ejected_bytes: ejected,
            all_injected_bytes: injected + other_injected,
            all_ejected_bytes: ejected + other_ejected,
            up_bytes: up_ports(ports, silent, guid)
                .map(|(_, port)| port.carried.total().sent())
                .sum(),
        }
    };
    guids.into_iter().map(leaf).collect()
}

impl LocalTraffic {
    /// Adds the traffic of a leaf switch.
    fn plus(self, leaf: &Leaf) -> Self {
        let all_local = (leaf.all_injected_bytes - leaf.up_bytes).max(0.0);
        let share = if leaf.all_injected_bytes > 0.0 {
            all_local / leaf.all_injected_bytes
        } else {
            0.0
        };
        Self {
            injected_bytes: self.injected_bytes + leaf.injected_bytes,
            least_bytes: self.least_bytes + (leaf.injected_bytes - leaf.up_bytes).max(0.0),
            estimate_bytes: self.estimate_bytes + leaf.injected_bytes * share,
            most_bytes: self.most_bytes + leaf.injected_bytes.min(all_local),
        }
    }
}

fn uplinks(
    ports: &BTreeMap<PortKey, PortSummary>,
    silent: &FxHashSet<Guid>,
    leaves: &[Leaf],
) -> Vec<Uplink> {
    let part = |own: f64, all: f64| if all > 0.0 { own / all } else { 0.0 };
    let of_leaf = |leaf: &Leaf| {
        let (out, back) = (
            part(leaf.injected_bytes, leaf.all_injected_bytes),
            part(leaf.ejected_bytes, leaf.all_ejected_bytes),
        );
        let uplink = |(key, port): (&PortKey, &PortSummary)| {
            let (up, down) = (
                port.all.xmit.mean().unwrap_or(0.0),
                port.all.rcv.mean().unwrap_or(0.0),
            );
            Uplink {
                port: PortName::new(&port.node, *key).to_string(),
                to: port
                    .peer_port()
                    .map_or_else(String::new, |peer| peer.to_string()),
                up_gbps: up,
                down_gbps: down,
                used: [
                    port.all.xmit_utilization.mean(),
                    port.all.rcv_utilization.mean(),
                ]
                .into_iter()
                .flatten()
                .reduce(f64::max),
                blocked: port.all.blocked.mean(),
                job_up_gbps: up * out,
                job_down_gbps: down * back,
            }
        };
        up_ports(ports, silent, leaf.guid)
            .map(uplink)
            .collect::<Vec<_>>()
    };
    let mut all: Vec<_> = leaves.iter().flat_map(of_leaf).collect();
    all.sort_by(|a, b| {
        (b.job_up_gbps + b.job_down_gbps).total_cmp(&(a.job_up_gbps + a.job_down_gbps))
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{fold, job_lines};
    use crate::ports::Ports;

    fn job() -> Job {
        job_of(true)
    }

    fn job_of(has_core: bool) -> Job {
        Job::of(
            &fold(Ports::with_bins(8), &job_lines(has_core)).finish(),
            &Hosts::parse("n1,n2,gone").unwrap(),
        )
    }

    #[test]
    fn switch_without_records_is_not_a_host() {
        let (whole, part) = (job_of(true), job_of(false));
        assert_eq!((part.stays, part.leaves[0].host_ports), (whole.stays, 3));
    }

    #[test]
    fn traffic_is_summed_by_node_and_by_step() {
        let job = job();
        let gigabits = |bytes: f64| bytes * 8.0 / 1e9;
        let nodes: Vec<_> = job
            .nodes
            .iter()
            .map(|node| {
                (
                    &*node.host,
                    gigabits(node.injected_bytes),
                    gigabits(node.ejected_bytes),
                )
            })
            .collect();
        assert_eq!(nodes, [("N2", 12.0, 24.0), ("n1", 24.0, 8.0)]);
        assert_eq!(
            (
                job.nodes[1].blocked,
                job.nodes[1].blocked_peak,
                job.nodes[1].blocked_seconds
            ),
            (Some(0.375), Some(0.5), 0.75)
        );
        assert_eq!(job.missing, ["gone"]);
        let steps: Vec<_> = job
            .steps
            .iter()
            .map(|step| {
                (
                    step.injected_gbps,
                    step.ejected_gbps,
                    step.blocked,
                    step.blocked_most,
                )
            })
            .collect();
        assert_eq!(
            steps,
            [
                (Some(12.0), Some(16.0), Some(0.125), Some(0.25)),
                (Some(24.0), Some(16.0), Some(0.25), Some(0.5))
            ]
        );
        assert_eq!(job.step_ns, 1_000_000_000);
    }

    #[test]
    fn step_without_a_value_of_a_port_is_a_lower_bound() {
        let is_lost = |line: &&String| !(line.contains("N2") && line.contains("\"slot\":2"));
        let lines: Vec<String> = job_lines(true).iter().filter(is_lost).cloned().collect();
        let job = Job::of(
            &fold(Ports::with_bins(8), &lines).finish(),
            &Hosts::parse("n1,n2").unwrap(),
        );
        let step = |step: &Step| {
            (
                step.injected_gbps,
                step.injected_covered,
                step.ejected_covered,
                step.blocked_covered,
            )
        };
        assert_eq!(
            job.steps.iter().map(step).collect::<Vec<_>>(),
            [(Some(12.0), 1.0, 1.0, 1.0), (Some(16.0), 0.5, 0.5, 0.5)]
        );
        assert_eq!(
            job.into
                .iter()
                .map(|rate| (rate.gbps[1], rate.covered[1]))
                .collect::<Vec<_>>(),
            [(None, Some(0.0)), (Some(4.0), Some(1.0))]
        );
    }

    #[test]
    fn time_after_the_samplers_of_a_job_stopped_is_not_known() {
        let is_kept =
            |line: &&String| !(line.contains("\"kind\":\"hca\"") && line.contains("\"slot\":2"));
        // The switches are read for two more slots.
        let later = |line: &String| {
            line.replace("\"slot\":2", "\"slot\":4")
                .replace("2000000000", "4000000000")
        };
        let lines: Vec<String> = job_lines(true).iter().filter(is_kept).map(later).collect();
        let job = Job::of(
            &fold(Ports::with_bins(8), &lines).finish(),
            &Hosts::parse("n1,n2").unwrap(),
        );
        let known = Known::of(
            job.covered_seconds(),
            job.blocked_covered_seconds(),
            job.recorded_seconds,
        )
        .expect("a part is not known");
        assert_eq!((known.octets, known.whole), (1.0, 3.0));
    }

    #[test]
    fn step_in_which_the_link_of_a_port_went_down_is_partly_known() {
        let off = |line: &String| {
            let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
            // The interval of slots is known from their numbers, which are large.
            let slot = record["slot"].as_u64().unwrap() + 10_000;
            (record["slot"], record["ts"]) = (slot.into(), (slot * 1_000_000_000).into());
            if record["node"] == "N2 mlx5_0" && slot == 10_002 {
                record["status"] = "down".into();
                for field in [
                    "dt_ns",
                    "xmit_gbps",
                    "rcv_gbps",
                    "xmit_utilization",
                    "rcv_utilization",
                    "xmit_blocked",
                ] {
                    record[field] = serde_json::Value::Null;
                }
            }
            record.to_string()
        };
        let lines: Vec<String> = job_lines(true).iter().map(off).collect();
        let job = Job::of(
            &fold(Ports::with_bins(8), &lines).finish(),
            &Hosts::parse("n1,n2").unwrap(),
        );
        let step = |step: &Step| {
            (
                step.injected_gbps,
                step.injected_covered,
                step.ejected_covered,
                step.blocked_covered,
            )
        };
        assert_eq!(
            job.steps.iter().map(step).collect::<Vec<_>>(),
            [(Some(12.0), 1.0, 1.0, 1.0), (Some(16.0), 0.5, 0.5, 0.5)]
        );
        assert_eq!(
            (job.into[0].gbps[1], job.into[0].covered[1]),
            (None, Some(0.0))
        );
    }

    #[test]
    fn local_traffic_is_bounded_by_the_traffic_to_other_switches() {
        let job = job();
        let leaf = &job.leaves[0];
        let gigabits = |bytes: f64| bytes * 8.0 / 1e9;
        // The hosts inject 24 (n1), 12 (n2) and 12 (n3, counted by the leaf switch). The leaf
        // switch sends 24 to the core switch.
        assert_eq!(
            (&*leaf.name, leaf.job_ports, leaf.host_ports),
            ("leaf", 2, 3)
        );
        assert_eq!(
            [leaf.injected_bytes, leaf.all_injected_bytes, leaf.up_bytes].map(gigabits),
            [36.0, 48.0, 24.0]
        );
        let LocalTraffic {
            injected_bytes,
            least_bytes,
            estimate_bytes,
            most_bytes,
        } = job.stays;
        assert_eq!(
            [injected_bytes, least_bytes, estimate_bytes, most_bytes].map(gigabits),
            [36.0, 12.0, 18.0, 24.0]
        );
    }

    #[test]
    fn links_to_other_switches_have_the_part_of_the_job() {
        let job = job();
        assert_eq!(job.uplinks.len(), 1);
        let up = &job.uplinks[0];
        assert_eq!(
            (&*up.port, &*up.to, up.up_gbps, up.blocked),
            ("leaf port 9", "core port 1", 12.0, Some(0.5))
        );
        // 36 of 48 injected, 32 of 36 ejected.
        assert_eq!((up.job_up_gbps, up.job_down_gbps), (9.0, 6.0 * 32.0 / 36.0));
    }
}
