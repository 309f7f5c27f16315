//! Computes the traffic into and out of the hosts of a group, such as storage targets, and
//! estimates which hosts or jobs send to them.
//!
//! Port counters do not show destinations. For each sender outside the group there are therefore
//! two bounds and an estimate, computed in each bin and then added up:
//!
//! - **Least** (lower bound): what the group received minus what all other senders sent. If the
//!   others together sent less than the group received, the difference must come from this
//!   sender.
//! - **Most** (upper bound): the smaller one of what the sender sent and what the group received.
//! - **Estimate**: the received bytes, divided among the senders and limited to the two bounds.
//!   The weight of a sender is its sent bytes times its *correlation*, the correlation
//!   coefficient (Pearson) over all bins between the data rate that it sent and the data rate
//!   that the group received. A negative correlation counts as 0.
//!
//! The bounds assume that the hosts of the group do not send to each other. A bin counts only
//! where they are known: if a sender lacks a value, the lower bound of the others is 0; if the
//! sender and the group both lack one, the upper bound is unknown.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Group;
use crate::cell::{Cell, sum};
use crate::correlation::pearson;
use crate::job::Known;
use crate::job::all::PortRate;
use crate::job::all::flows::{Flows, PortFlow};
use crate::job::imbalance::Imbalance;
use crate::job::marks::{self, Mark, Phase};
use crate::rows::Row;

/// Traffic of a group. The field names are those of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupTraffic {
    /// Name of the group.
    pub group: String,
    /// Bytes that all targets received.
    pub in_bytes: f64,
    /// Bytes that all targets sent.
    pub out_bytes: f64,
    /// Time in which these bytes are known, in seconds: the mean of the ports.
    pub covered_seconds: f64,
    /// Recorded time in seconds.
    pub recorded_seconds: f64,
    /// How unevenly the received bytes are distributed over the targets.
    pub in_imbalance: Imbalance,
    /// How unevenly the sent bytes are distributed over the targets.
    pub out_imbalance: Imbalance,
    /// Hosts of the group with records, the one that received most first.
    pub targets: Vec<Target>,
    /// Names of hosts without records.
    pub missing: Vec<String>,
    /// Senders outside the group, the one with the largest estimate first.
    pub senders: Vec<Sender>,
    /// Start of the first bin in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Data rates from the switch ports into the targets in Gb/s, largest first.
    pub into: Vec<PortRate>,
    /// Data rates from the targets into the switch ports in Gb/s, largest first.
    pub out: Vec<PortRate>,
    /// Max data rate received by a target divided by the mean of all targets, for each bin. Null
    /// without traffic, or if a target lacks its value.
    pub in_max_to_mean: Vec<Option<f64>>,
    /// Phases of an application, with the traffic of the targets: of those in the phase, or of all
    /// of them if none is. Absent without marks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

/// A host of a group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Target {
    /// Name of the host.
    pub host: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Bytes that the host received.
    pub in_bytes: f64,
    /// Bytes that the host sent.
    pub out_bytes: f64,
    /// Time in which these bytes are known, in seconds: the mean of the ports.
    pub covered_seconds: f64,
    /// Max data rate that the host received in a bin, in Gb/s. Null without records.
    pub in_peak_gbps: Option<f64>,
    /// Max data rate that the host sent in a bin, in Gb/s. Null without records.
    pub out_peak_gbps: Option<f64>,
}

/// A job or a host outside the group that may have sent to the group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sender {
    /// ID of a job. Null for a host without a job.
    pub job: Option<String>,
    /// Name of the host. Null for a job.
    pub host: Option<String>,
    /// Bytes that it sent to any destination.
    pub sent_bytes: f64,
    /// Lower bound of the bytes that it sent to the group.
    pub least_bytes: f64,
    /// Estimate of the bytes that it sent to the group.
    pub estimate_bytes: f64,
    /// Upper bound of the bytes that it sent to the group.
    pub most_bytes: f64,
    /// Time in which the bounds are known, in seconds.
    pub covered_seconds: f64,
    /// Correlation between what it sent and what the group received, -1 to 1. Null with fewer
    /// than three bins, or if one of the two is constant.
    pub correlation: Option<f64>,
    /// Estimated data rate to the group in each bin, in Gb/s. Null without records.
    pub estimate_gbps: Vec<Option<f64>>,
}

impl Row for GroupTraffic {
    const COLUMNS: &'static [&'static str] = &[
        "group",
        "in_bytes",
        "out_bytes",
        "covered_seconds",
        "recorded_seconds",
        "in_imbalance_max_to_mean",
        "in_imbalance_variation",
        "in_imbalance_gini",
        "out_imbalance_max_to_mean",
        "out_imbalance_variation",
        "out_imbalance_gini",
        "targets_host",
        "targets_ports",
        "targets_in_bytes",
        "targets_out_bytes",
        "targets_covered_seconds",
        "targets_in_peak_gbps",
        "targets_out_peak_gbps",
    ];
}

/// Data rates of a host or a job in each bin.
type Rates = Vec<Cell>;

/// Job ID, or name of a host without a job; and what it sent.
type Sent<'a> = ((Option<&'a str>, Option<&'a str>), Rates);

impl GroupTraffic {
    /// Returns the time in which the bytes are known, if it is not the whole time.
    pub fn known(&self) -> Option<Known> {
        Known::of(self.covered_seconds, None, self.recorded_seconds)
    }

    /// Evaluates the traffic of a group.
    pub fn of(group: &Group, flows: &Flows) -> Self {
        let (own, others): (Vec<&PortFlow>, Vec<&PortFlow>) = flows
            .ports
            .iter()
            .partition(|port| group.hosts.contains_node(&port.host));
        let bins = flows.seconds.len();
        let octets = |rates: &Rates| flows.octets(rates.iter().map(Cell::value));
        let mut by_host: Vec<(&str, Vec<&PortFlow>)> = Vec::new();
        for port in &own {
            match by_host.iter_mut().find(|(host, _)| *host == port.host) {
                Some((_, ports)) => ports.push(port),
                None => by_host.push((&port.host, vec![port])),
            }
        }
        let received: Vec<Rates> = by_host
            .iter()
            .map(|(_, ports)| sum(bins, ports.iter().map(|port| &port.into)))
            .collect();
        let target = |((host, ports), received): (&(&str, Vec<&PortFlow>), &Rates)| {
            let sent = sum(bins, ports.iter().map(|port| &port.out));
            Target {
                host: (*host).to_owned(),
                ports: ports.len(),
                in_bytes: octets(received),
                out_bytes: octets(&sent),
                covered_seconds: flows.covered_seconds(ports.iter().map(|port| &port.into)),
                in_peak_gbps: received.iter().filter_map(Cell::value).reduce(f64::max),
                out_peak_gbps: sent.iter().filter_map(Cell::value).reduce(f64::max),
            }
        };
        let mut targets: Vec<Target> = by_host.iter().zip(&received).map(target).collect();
        targets.sort_by(|a, b| {
            b.in_bytes
                .total_cmp(&a.in_bytes)
                .then_with(|| a.host.cmp(&b.host))
        });
        // If one host had no value, the others would seem to be busier or more equal than they
        // are.
        let max_to_mean = |bin: usize| {
            Imbalance::of(
                received
                    .iter()
                    .map(|rates| whole(rates[bin]))
                    .collect::<Option<Vec<f64>>>()?,
            )
            .max_to_mean
        };
        let inflow = sum(bins, own.iter().map(|port| &port.into));
        let found = |name: &&str| {
            !by_host
                .iter()
                .any(|(host, _)| host.eq_ignore_ascii_case(name))
        };
        Self {
            group: group.name.clone(),
            in_bytes: targets.iter().map(|target| target.in_bytes).sum(),
            out_bytes: targets.iter().map(|target| target.out_bytes).sum(),
            covered_seconds: flows.covered_seconds(own.iter().map(|port| &port.into)),
            recorded_seconds: flows.seconds.iter().sum(),
            in_imbalance: Imbalance::of(targets.iter().map(|target| target.in_bytes)),
            out_imbalance: Imbalance::of(targets.iter().map(|target| target.out_bytes)),
            missing: group
                .hosts
                .iter()
                .filter(found)
                .map(str::to_owned)
                .collect(),
            senders: senders(&others, &inflow, flows),
            start_ns: flows.start_ns,
            bin_ns: flows.bin_ns,
            into: by_port(&own, |port| &port.into),
            out: by_port(&own, |port| &port.out),
            in_max_to_mean: (0..bins).map(max_to_mean).collect(),
            phases: phases(&own, &flows.marks),
            targets,
        }
    }
}

/// Returns the phases. The hosts of a phase usually send to the group, and are not in it.
fn phases(own: &[&PortFlow], marks: &[Mark]) -> Vec<Phase> {
    let mut marks = marks.to_vec();
    for mark in &mut marks {
        if !own.iter().any(|port| mark.contains(&port.host)) {
            mark.hosts = None;
        }
    }
    let parts: Vec<_> = own.iter().map(|port| (&*port.host, &port.parts)).collect();
    marks::of_parts(&parts, &marks)
}

/// Returns the rates by switch port, the port with most data first.
fn by_port(ports: &[&PortFlow], rates: fn(&PortFlow) -> &Rates) -> Vec<PortRate> {
    let mut all: Vec<_> = ports
        .iter()
        .map(|port| PortRate::new(port.name.clone(), rates(port)))
        .collect();
    PortRate::sort(&mut all);
    all
}

/// Returns the senders outside the group: each job, and each host for the time in which it had no
/// job.
fn senders(others: &[&PortFlow], inflow: &Rates, flows: &Flows) -> Vec<Sender> {
    let bins = flows.seconds.len();
    let mut by_sender: BTreeMap<(Option<&str>, Option<&str>), Vec<&Rates>> = BTreeMap::new();
    for port in others {
        for (job, rates) in &port.out_by_job {
            let host = if job.is_some() {
                None
            } else {
                Some(&*port.host)
            };
            by_sender
                .entry((job.as_deref(), host))
                .or_default()
                .push(rates);
        }
    }
    let mut sent: Vec<Sent<'_>> = by_sender
        .into_iter()
        .map(|(key, rates)| (key, sum(bins, rates)))
        .collect();
    let all = sum(bins, others.iter().map(|port| &port.out));
    sent.retain(|(_, rates)| rates.iter().any(|cell| cell.value().is_some()));
    let correlations: Vec<Option<f64>> = sent
        .iter()
        .map(|(_, rates)| correlation(rates, inflow))
        .collect();
    let weight = |index: usize| correlations[index].unwrap_or(0.0).max(0.0);
    let weights: Vec<f64> = (0..bins)
        .map(|bin| {
            sent.iter()
                .enumerate()
                .map(|(index, (_, rates))| rates[bin].value().unwrap_or(0.0) * weight(index))
                .sum()
        })
        .collect();
    let sender = |(index, ((job, host), rates)): (usize, &Sent<'_>)| {
        let bound = |bin: usize| {
            let own = if rates[bin] == Cell::Down {
                Cell::Value(0.0)
            } else {
                rates[bin]
            };
            let (inflow, own_gbps) = (inflow[bin], own.value()?);
            let into = inflow.value()?;
            // What the others sent is known only if all of them have a value.
            let others = whole(all[bin]).map(|all| all - own_gbps);
            let least = others.map_or(0.0, |others| (into - others).max(0.0).min(own_gbps));
            let most = [inflow, own]
                .into_iter()
                .filter_map(whole)
                .reduce(f64::min)?
                .max(least);
            let share = if weights[bin] > 0.0 {
                own_gbps * weight(index) / weights[bin]
            } else {
                0.0
            };
            Some((least, (into * share).clamp(least, most), most))
        };
        let bounds: Vec<_> = (0..bins).map(bound).collect();
        let part = |of: fn((f64, f64, f64)) -> f64| {
            bounds.iter().map(|bound| bound.map(of)).collect::<Vec<_>>()
        };
        let known: Vec<Cell> = part(|_| 0.0).into_iter().map(Cell::from).collect();
        let estimate_gbps = part(|(_, estimate, _)| estimate);
        Sender {
            job: job.map(str::to_owned),
            host: host.map(str::to_owned),
            sent_bytes: flows.octets(rates.iter().map(Cell::value)),
            least_bytes: flows.octets(part(|(least, ..)| least)),
            estimate_bytes: flows.octets(estimate_gbps.iter().copied()),
            most_bytes: flows.octets(part(|(.., most)| most)),
            covered_seconds: flows.covered_seconds(std::iter::once(&known)),
            correlation: correlations[index],
            estimate_gbps,
        }
    };
    let mut senders: Vec<Sender> = sent.iter().enumerate().map(sender).collect();
    senders.sort_by(|a, b| {
        b.estimate_bytes
            .total_cmp(&a.estimate_bytes)
            .then_with(|| (&a.job, &a.host).cmp(&(&b.job, &b.host)))
    });
    senders
}

/// Returns the value of a cell, unless it is only a lower bound.
fn whole(cell: Cell) -> Option<f64> {
    cell.value().filter(|_| cell.covered() >= 1.0)
}

/// Returns the correlation coefficient of two series, over the bins in which both have values.
fn correlation(a: &[Cell], b: &[Cell]) -> Option<f64> {
    let pairs = a.iter().zip(b);
    let both = pairs.filter_map(|(a, b)| whole(*a).zip(whole(*b)));
    pearson(&both.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn port(host: &str, into: [f64; 4], out: [f64; 4]) -> PortFlow {
        let some = |rates: [f64; 4]| rates.map(Cell::Value).to_vec();
        PortFlow {
            host: host.to_owned(),
            name: format!("leaf to {host}"),
            into: some(into),
            out: some(out),
            out_by_job: vec![(None, some(out))],
            parts: Vec::new(),
        }
    }

    fn flows() -> Flows {
        let ports = vec![
            port("oss1", [0.0, 24.0, 24.0, 0.0], [0.0; 4]),
            port("oss2", [0.0, 8.0, 8.0, 0.0], [8.0; 4]),
            port("client", [0.0; 4], [0.0, 40.0, 40.0, 0.0]),
            port("other", [0.0; 4], [8.0, 8.0, 8.0, 8.1]),
        ];
        Flows {
            start_ns: 0,
            bin_ns: SECOND,
            seconds: vec![1.0; 4],
            ports,
            marks: Vec::new(),
        }
    }

    #[test]
    fn storage_has_flow_imbalance_and_senders_with_bounds() {
        let traffic = GroupTraffic::of(&"storage=oss*,gone".parse().unwrap(), &flows());
        let gigabits = |bytes: f64| (bytes * 8.0 / 1e9).round();
        assert_eq!(
            (gigabits(traffic.in_bytes), gigabits(traffic.out_bytes)),
            (64.0, 32.0)
        );
        assert_eq!(traffic.in_imbalance.max_to_mean, Some(1.5));
        assert_eq!(traffic.in_max_to_mean, [None, Some(1.5), Some(1.5), None]);
        assert_eq!(traffic.missing, ["gone"]);
        let targets: Vec<_> = traffic
            .targets
            .iter()
            .map(|target| {
                (
                    &*target.host,
                    gigabits(target.in_bytes),
                    target.in_peak_gbps,
                )
            })
            .collect();
        assert_eq!(
            targets,
            [("oss1", 48.0, Some(24.0)), ("oss2", 16.0, Some(8.0))]
        );
        assert_eq!(traffic.into[0].port, "leaf to oss1");
        let senders: Vec<_> = traffic
            .senders
            .iter()
            .map(|sender| {
                (
                    sender.host.as_deref().unwrap(),
                    [sender.sent_bytes, sender.least_bytes, sender.most_bytes].map(gigabits),
                )
            })
            .collect();
        // Of 32 Gb/s the other host sent at most 8, so the client sent at least 24.
        assert_eq!(
            senders,
            [("client", [80.0, 48.0, 64.0]), ("other", [32.0, 0.0, 16.0])]
        );
        assert!(
            (traffic.senders[0].correlation.unwrap() - 1.0).abs() < 1e-9
                && traffic.senders[1].correlation.unwrap() < 0.0
        );
        assert_eq!(
            traffic
                .senders
                .iter()
                .map(|sender| gigabits(sender.estimate_bytes))
                .collect::<Vec<_>>(),
            [64.0, 0.0]
        );
    }

    #[test]
    fn missing_values_make_no_bound_tighter_and_no_traffic_smaller() {
        let mut flows = flows();
        let lose = |flows: &mut Flows, host: &str, bin: usize| {
            let port = flows
                .ports
                .iter_mut()
                .find(|port| port.host == host)
                .unwrap();
            for rates in [&mut port.into, &mut port.out, &mut port.out_by_job[0].1] {
                rates[bin] = Cell::Unknown;
            }
        };
        // In the second bin the group received 32 Gb/s at most, of which `other` sent an unknown
        // part.
        lose(&mut flows, "other", 1);
        // In the third bin oss2 received an unknown part.
        lose(&mut flows, "oss2", 2);
        let traffic = GroupTraffic::of(&"storage=oss*".parse().unwrap(), &flows);
        assert_eq!(
            (traffic.covered_seconds, traffic.recorded_seconds),
            (3.5, 4.0)
        );
        assert_eq!(
            traffic
                .targets
                .iter()
                .map(|target| (&*target.host, target.covered_seconds))
                .collect::<Vec<_>>(),
            [("oss1", 4.0), ("oss2", 3.0)]
        );
        let client = traffic
            .senders
            .iter()
            .find(|sender| sender.host.as_deref() == Some("client"))
            .unwrap();
        let gigabits = |bytes: f64| (bytes * 8.0 / 1e9).round();
        // Of the 24 Gb/s into oss1, `other` sent 8 at most; into oss2 the client may have sent the
        // rest of its 40 Gb/s.
        assert_eq!(
            [client.least_bytes, client.most_bytes].map(gigabits),
            [16.0, 32.0 + 40.0]
        );
        let other = traffic
            .senders
            .iter()
            .find(|sender| sender.host.as_deref() == Some("other"))
            .unwrap();
        assert_eq!((client.covered_seconds, other.covered_seconds), (4.0, 3.0));
        lose(&mut flows, "client", 2);
        let traffic = GroupTraffic::of(&"storage=oss*".parse().unwrap(), &flows);
        assert_eq!(
            traffic.senders[0].covered_seconds, 3.0,
            "no upper bound in the third bin"
        );
    }

    #[test]
    fn estimate_is_within_its_bounds_for_any_traffic() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut rates =
                || std::array::from_fn(|_| if rng.bool() { rng.f64() * 50.0 } else { 0.0 });
            let ports = ["oss1", "a", "b", "c"]
                .map(|host| port(host, rates(), rates()))
                .to_vec();
            let traffic = GroupTraffic::of(&"s=oss1".parse().unwrap(), &Flows { ports, ..flows() });
            for sender in &traffic.senders {
                let bounds = (sender.least_bytes - 1.0)..=(sender.most_bytes + 1.0);
                assert!(
                    bounds.contains(&sender.estimate_bytes)
                        && sender.most_bytes <= sender.sent_bytes + 1.0,
                    "{sender:?}"
                );
            }
        }
    }

    #[test]
    fn correlation_needs_three_bins_and_two_courses() {
        let some = |values: &[f64]| values.iter().copied().map(Cell::Value).collect::<Rates>();
        assert_eq!(correlation(&some(&[1.0, 2.0]), &some(&[1.0, 2.0])), None);
        assert_eq!(
            correlation(&some(&[1.0; 4]), &some(&[1.0, 2.0, 3.0, 4.0])),
            None
        );
        assert_eq!(
            correlation(&some(&[0.3, 0.1 + 0.2, 0.3]), &some(&[1.0, 2.0, 3.0])),
            None,
            "equal but for rounding"
        );
        assert_eq!(
            correlation(&some(&[3.0, 2.0, 1.0]), &some(&[1.0, 2.0, 3.0])),
            Some(-1.0)
        );
        assert_eq!(correlation(&[], &[]), None);
    }
}
