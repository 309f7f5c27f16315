//! Computes the traffic into and out of the hosts of a group, such as storage targets, and
//! estimates which hosts or jobs send to them.
//!
//! Port counters have no destinations. So for each sender outside the group there are two bounds
//! and an estimate, computed in each bin and then added:
//!
//! - **Least**: what the group received minus what all other senders sent. If all others together
//!   sent less than the group received, this sender sent the difference.
//! - **Most**: what the sender sent, or what the group received, whichever is less.
//! - **Estimate**: the received octets, divided among the senders. The weight of a sender is its
//!   sent octets times its *correlation*: the correlation coefficient (Pearson) over all bins of
//!   the data rate that it sent and the data rate that the group received. A negative correlation
//!   counts as 0. The estimate is limited to the two bounds.
//!
//! The bounds assume that the hosts of the group do not send to each other.

use serde::Serialize;

use super::Group;
use crate::job::all::PortRate;
use crate::job::all::flows::{Flows, PortFlow};
use crate::job::imbalance::Imbalance;
use crate::rows::Row;

/// Traffic of a group. The field names are those of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GroupTraffic {
    /// Name of the group.
    pub group: String,
    /// Octets that all targets received.
    pub in_bytes: f64,
    /// Octets that all targets sent.
    pub out_bytes: f64,
    /// Differences between the octets that the targets received.
    pub in_imbalance: Imbalance,
    /// Differences between the octets that the targets sent.
    pub out_imbalance: Imbalance,
    /// Hosts of the group with records. The host that received most comes first.
    pub targets: Vec<Target>,
    /// Names of hosts without records.
    pub missing: Vec<String>,
    /// Senders outside the group. The sender with the largest estimate comes first.
    pub senders: Vec<Sender>,
    /// Start of the first bin in nanoseconds since 1970.
    pub start_ns: u64,
    /// Length of a bin in nanoseconds.
    pub bin_ns: u64,
    /// Data rates from the switch ports into the targets, in Gb/s. The largest comes first.
    pub into: Vec<PortRate>,
    /// Data rates from the targets into the switch ports, in Gb/s. The largest comes first.
    pub out: Vec<PortRate>,
    /// Largest received data rate of a target divided by the mean of the targets, for each bin. Null
    /// without traffic.
    pub in_max_to_mean: Vec<Option<f64>>,
}

/// A host of a group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Target {
    /// Name of the host.
    pub host: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Octets that the host received.
    pub in_bytes: f64,
    /// Octets that the host sent.
    pub out_bytes: f64,
    /// Largest data rate that the host received in a bin, in Gb/s. Null without records.
    pub in_peak_gbps: Option<f64>,
    /// Largest data rate that the host sent in a bin, in Gb/s. Null without records.
    pub out_peak_gbps: Option<f64>,
}

/// A job or a host outside the group that can have sent to the group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sender {
    /// ID of a job. Null for a host without a job.
    pub job: Option<String>,
    /// Name of the host. Null for a job.
    pub host: Option<String>,
    /// Octets that it sent to any destination.
    pub sent_bytes: f64,
    /// Lower bound of the octets that it sent to the group.
    pub least_bytes: f64,
    /// Estimate of the octets that it sent to the group.
    pub estimate_bytes: f64,
    /// Upper bound of the octets that it sent to the group.
    pub most_bytes: f64,
    /// Correlation of what it sent with what the group received, -1 to 1. Null with fewer than three
    /// bins, and if one of the two is constant.
    pub correlation: Option<f64>,
    /// Estimated data rate to the group in each bin, in Gb/s. Null without records.
    pub estimate_gbps: Vec<Option<f64>>,
}

impl Row for GroupTraffic {
    const COLUMNS: &'static [&'static str] = &[
        "group",
        "in_bytes",
        "out_bytes",
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
        "targets_in_peak_gbps",
        "targets_out_peak_gbps",
    ];
}

/// Data rates of a host or a job in each bin.
type Rates = Vec<Option<f64>>;

/// ID of a job, or name of a host without a job; and what it sent.
type Sent<'a> = ((Option<&'a str>, Option<&'a str>), Rates);

impl GroupTraffic {
    /// Evaluates the traffic of a group.
    pub fn of(group: &Group, flows: &Flows) -> Self {
        let (own, others): (Vec<&PortFlow>, Vec<&PortFlow>) = flows.ports.iter().partition(|port| group.hosts.contains_node(&port.host));
        let octets = |rates: &Rates| flows.octets(rates).flatten().sum::<f64>();
        let mut by_host: Vec<(&str, Vec<&PortFlow>)> = Vec::new();
        for port in &own {
            match by_host.iter_mut().find(|(host, _)| *host == port.host) {
                Some((_, ports)) => ports.push(port),
                None => by_host.push((&port.host, vec![port])),
            }
        }
        let received: Vec<Rates> = by_host.iter().map(|(_, ports)| sum(flows.bins, ports.iter().map(|port| &port.into))).collect();
        let target = |((host, ports), received): (&(&str, Vec<&PortFlow>), &Rates)| {
            let sent = sum(flows.bins, ports.iter().map(|port| &port.out));
            Target {
                host: (*host).to_owned(),
                ports: ports.len(),
                in_bytes: octets(received),
                out_bytes: octets(&sent),
                in_peak_gbps: received.iter().flatten().copied().reduce(f64::max),
                out_peak_gbps: sent.iter().flatten().copied().reduce(f64::max),
            }
        };
        let mut targets: Vec<Target> = by_host.iter().zip(&received).map(target).collect();
        targets.sort_by(|a, b| b.in_bytes.total_cmp(&a.in_bytes).then_with(|| a.host.cmp(&b.host)));
        let inflow = sum(flows.bins, received.iter());
        let found = |name: &&str| !by_host.iter().any(|(host, _)| host.eq_ignore_ascii_case(name));
        Self {
            group: group.name.clone(),
            in_bytes: targets.iter().map(|target| target.in_bytes).sum(),
            out_bytes: targets.iter().map(|target| target.out_bytes).sum(),
            in_imbalance: Imbalance::of(targets.iter().map(|target| target.in_bytes)),
            out_imbalance: Imbalance::of(targets.iter().map(|target| target.out_bytes)),
            missing: group.hosts.iter().filter(found).map(str::to_owned).collect(),
            senders: senders(&others, &inflow, flows),
            start_ns: flows.start_ns,
            bin_ns: flows.bin_ns,
            into: by_port(&own, |port| &port.into),
            out: by_port(&own, |port| &port.out),
            in_max_to_mean: (0..flows.bins).map(|bin| Imbalance::of(received.iter().filter_map(|rates| rates[bin])).max_to_mean).collect(),
            targets,
        }
    }
}

/// Adds rates bin by bin.
fn sum<'a>(bins: usize, all: impl Iterator<Item = &'a Rates>) -> Rates {
    let mut sum: Rates = vec![None; bins];
    for rates in all {
        for (sum, more) in sum.iter_mut().zip(rates) {
            *sum = match (*sum, *more) {
                (Some(a), Some(b)) => Some(a + b),
                (a, b) => a.or(b),
            };
        }
    }
    sum
}

/// Returns the rates by switch port. The port with most data comes first.
fn by_port(ports: &[&PortFlow], rates: fn(&PortFlow) -> &Rates) -> Vec<PortRate> {
    let mut all: Vec<_> = ports.iter().map(|port| PortRate { port: port.name.clone(), gbps: rates(port).clone() }).collect();
    let total = |rate: &PortRate| rate.gbps.iter().flatten().sum::<f64>();
    all.sort_by(|a, b| total(b).total_cmp(&total(a)).then_with(|| a.port.cmp(&b.port)));
    all
}

/// Returns the senders outside the group: each job, and each host for its time without a job.
fn senders(others: &[&PortFlow], inflow: &Rates, flows: &Flows) -> Vec<Sender> {
    let mut sent: Vec<Sent<'_>> = Vec::new();
    let mut index = std::collections::BTreeMap::new();
    for port in others {
        for (job, rates) in &port.out_by_job {
            let key = (job.as_deref(), if job.is_some() { None } else { Some(&*port.host) });
            let place = *index.entry(key).or_insert_with(|| {
                sent.push((key, vec![None; flows.bins]));
                sent.len() - 1
            });
            sent[place].1 = sum(flows.bins, [&sent[place].1, rates].into_iter());
        }
    }
    let all = sum(flows.bins, sent.iter().map(|(_, rates)| rates));
    let correlations: Vec<Option<f64>> = sent.iter().map(|(_, rates)| correlation(rates, inflow)).collect();
    let weight = |index: usize| correlations[index].unwrap_or(0.0).max(0.0);
    let weights: Vec<f64> = (0..flows.bins)
        .map(|bin| sent.iter().enumerate().map(|(index, (_, rates))| rates[bin].unwrap_or(0.0) * weight(index)).sum())
        .collect();
    let sender = |(index, ((job, host), rates)): (usize, &Sent<'_>)| {
        let bound = |bin: usize| {
            let (inflow, own) = (inflow[bin]?, rates[bin]?);
            let least = (inflow - (all[bin].unwrap_or(own) - own)).max(0.0).min(own);
            let most = own.min(inflow);
            let share = if weights[bin] > 0.0 { own * weight(index) / weights[bin] } else { 0.0 };
            Some((least, (inflow * share).clamp(least, most.max(least)), most.max(least)))
        };
        let bounds: Vec<_> = (0..flows.bins).map(bound).collect();
        let part = |of: fn((f64, f64, f64)) -> f64| bounds.iter().map(|bound| bound.map(of)).collect::<Rates>();
        let octets = |rates: &Rates| flows.octets(rates).flatten().sum::<f64>();
        let estimate_gbps = part(|(_, estimate, _)| estimate);
        Sender {
            job: job.map(str::to_owned),
            host: host.map(str::to_owned),
            sent_bytes: octets(rates),
            least_bytes: octets(&part(|(least, ..)| least)),
            estimate_bytes: octets(&estimate_gbps),
            most_bytes: octets(&part(|(.., most)| most)),
            correlation: correlations[index],
            estimate_gbps,
        }
    };
    let mut senders: Vec<Sender> = sent.iter().enumerate().map(sender).collect();
    senders.sort_by(|a, b| b.estimate_bytes.total_cmp(&a.estimate_bytes).then_with(|| (&a.job, &a.host).cmp(&(&b.job, &b.host))));
    senders
}

/// Returns the correlation coefficient (Pearson) of two courses over the bins in which both have
/// values.
fn correlation(a: &[Option<f64>], b: &[Option<f64>]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = a.iter().zip(b).filter_map(|(a, b)| (*a).zip(*b)).collect();
    let count = pairs.len() as f64;
    let (mean_a, mean_b) = (pairs.iter().map(|pair| pair.0).sum::<f64>() / count, pairs.iter().map(|pair| pair.1).sum::<f64>() / count);
    let product = |f: fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| f(a - mean_a, b - mean_b)).sum::<f64>();
    let (both, of_a, of_b) = (product(|a, b| a * b), product(|a, _| a * a), product(|_, b| b * b));
    (pairs.len() >= 3 && of_a > 0.0 && of_b > 0.0).then(|| both / (of_a * of_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn port(host: &str, into: [f64; 4], out: [f64; 4]) -> PortFlow {
        let some = |rates: [f64; 4]| rates.map(Some).to_vec();
        PortFlow {
            host: host.to_owned(),
            name: format!("leaf to {host}"),
            into: some(into),
            out: some(out),
            out_by_job: vec![(None, some(out))],
        }
    }

    fn flows() -> Flows {
        let ports = vec![
            port("oss1", [0.0, 24.0, 24.0, 0.0], [0.0; 4]),
            port("oss2", [0.0, 8.0, 8.0, 0.0], [8.0; 4]),
            port("client", [0.0; 4], [0.0, 40.0, 40.0, 0.0]),
            port("other", [0.0; 4], [8.0, 8.0, 8.0, 8.1]),
        ];
        Flows { start_ns: 0, bin_ns: SECOND, bins: 4, seconds: vec![1.0; 4], ports }
    }

    #[test]
    fn storage_has_flow_imbalance_and_senders_with_bounds() {
        let traffic = GroupTraffic::of(&"storage=oss*,gone".parse().unwrap(), &flows());
        let gigabits = |bytes: f64| (bytes * 8.0 / 1e9).round();
        assert_eq!((gigabits(traffic.in_bytes), gigabits(traffic.out_bytes)), (64.0, 32.0));
        assert_eq!(traffic.in_imbalance.max_to_mean, Some(1.5));
        assert_eq!(traffic.in_max_to_mean, [None, Some(1.5), Some(1.5), None]);
        assert_eq!(traffic.missing, ["gone"]);
        let targets: Vec<_> =
            traffic.targets.iter().map(|target| (&*target.host, gigabits(target.in_bytes), target.in_peak_gbps)).collect();
        assert_eq!(targets, [("oss1", 48.0, Some(24.0)), ("oss2", 16.0, Some(8.0))]);
        assert_eq!(traffic.into[0].port, "leaf to oss1");
        let senders: Vec<_> = traffic
            .senders
            .iter()
            .map(|sender| (sender.host.as_deref().unwrap(), [sender.sent_bytes, sender.least_bytes, sender.most_bytes].map(gigabits)))
            .collect();
        // Of 32 Gb/s the other host sent at most 8, so the client sent at least 24.
        assert_eq!(senders, [("client", [80.0, 48.0, 64.0]), ("other", [32.0, 0.0, 16.0])]);
        assert!((traffic.senders[0].correlation.unwrap() - 1.0).abs() < 1e-9 && traffic.senders[1].correlation.unwrap() < 0.0);
        assert_eq!(traffic.senders.iter().map(|sender| gigabits(sender.estimate_bytes)).collect::<Vec<_>>(), [64.0, 0.0]);
    }

    #[test]
    fn estimate_is_within_its_bounds_for_any_traffic() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut rates = || std::array::from_fn(|_| if rng.bool() { rng.f64() * 50.0 } else { 0.0 });
            let ports = ["oss1", "a", "b", "c"].map(|host| port(host, rates(), rates())).to_vec();
            let traffic = GroupTraffic::of(&"s=oss1".parse().unwrap(), &Flows { ports, ..flows() });
            for sender in &traffic.senders {
                let bounds = (sender.least_bytes - 1.0)..=(sender.most_bytes + 1.0);
                assert!(bounds.contains(&sender.estimate_bytes) && sender.most_bytes <= sender.sent_bytes + 1.0, "{sender:?}");
            }
        }
    }

    #[test]
    fn correlation_needs_three_bins_and_two_courses() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Rates>();
        assert_eq!(correlation(&some(&[1.0, 2.0]), &some(&[1.0, 2.0])), None);
        assert_eq!(correlation(&some(&[1.0; 4]), &some(&[1.0, 2.0, 3.0, 4.0])), None);
        assert_eq!(correlation(&some(&[3.0, 2.0, 1.0]), &some(&[1.0, 2.0, 3.0])), Some(-1.0));
        assert_eq!(correlation(&[], &[]), None);
    }
}
