//! Rails of a job: the traffic by rail and leaf switch, and rails that became slower.
//!
//! A rail is the name of an HCA within its host: see [`rail`].

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::rail;
use ibnet_record::types::Guid;
use serde::Serialize;

use self::judge::{Series, held_up};
use super::{HostPort, host_ports, mean};
use crate::heat::order::natural;
use crate::hosts::Hosts;
use crate::ports::bins::TimeBins;
use crate::ports::carried::Flow;
use crate::ports::{PortKey, PortName, PortSummary, with_equal_bins};
use crate::rows::Row;

pub mod judge;

/// Max number of steps that are judged, the newest ones. There are more only if the ports were
/// recorded at different times.
const STEPS: usize = 1000;

/// Max number of HCA ports of a host. Several hosts share a name that more ports have.
const MOST_PORTS: usize = 16;

/// Traffic of a job on a rail. The field names are those of the JSON output.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RailRow {
    /// Name of the rail: that of the HCA within its host.
    pub rail: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Bytes that the hosts sent.
    pub injected_bytes: f64,
    /// Bytes that the hosts received.
    pub ejected_bytes: f64,
    /// Time in which these bytes are known, in seconds: the mean of the ports.
    pub covered_seconds: f64,
    /// The leaf switches that the rail reaches, the one with most ports first.
    pub leaves: Vec<RailLeaf>,
    /// Times in which the rail was slower than the others, or in which one of its hosts accepted
    /// packets too slowly.
    pub slower: Vec<Slower>,
}

/// A rail at a leaf switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RailLeaf {
    /// GUID of the switch. Null if unknown.
    pub guid: Option<Guid>,
    /// Node description of the switch as the device returned it. Empty if unknown.
    pub name: String,
    /// Number of HCA ports.
    pub ports: usize,
    /// Bytes that the hosts sent.
    pub injected_bytes: f64,
    /// Bytes that the hosts received.
    pub ejected_bytes: f64,
    /// Share of the time in which the hosts had data to send and no credit: the mean of the ports.
    pub blocked: Option<f64>,
    /// Share of the time in which the switch had data for the hosts and no credit: the mean of the
    /// ports.
    pub switch_blocked: Option<f64>,
}

/// A time in which a rail was slower.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Slower {
    /// The host that accepts packets too slowly. Null if no port waits for its host.
    pub host: Option<String>,
    /// The switch port that waits for the host.
    pub port: Option<PortName>,
    /// Start in nanoseconds since 1970.
    pub from_ns: u64,
    /// End in nanoseconds since 1970.
    pub to_ns: u64,
    /// Share by which the rail sent less, compared with the other rails and the time before. Null
    /// if it did not.
    pub slower: Option<f64>,
    /// Share of the time with data for the host in which the switch port waited for it, beyond what
    /// is usual. Null if no port waits for its host.
    pub held_up: Option<f64>,
}

impl Row for RailRow {
    const COLUMNS: &'static [&'static str] = &[
        "rail",
        "ports",
        "injected_bytes",
        "ejected_bytes",
        "covered_seconds",
        "leaves_guid",
        "leaves_name",
        "leaves_ports",
        "leaves_injected_bytes",
        "leaves_ejected_bytes",
        "leaves_blocked",
        "leaves_switch_blocked",
    ];
}

/// Returns the rails of these hosts, or of all hosts, in the order of their names.
pub fn find(ports: &BTreeMap<PortKey, PortSummary>, hosts: Option<&Hosts>) -> Vec<RailRow> {
    let ports = with_equal_bins(ports);
    let mut by_host: BTreeMap<&str, Vec<HostPort<'_>>> = BTreeMap::new();
    for port in host_ports(&ports) {
        if hosts.is_none_or(|hosts| hosts.contains_node(port.host)) {
            by_host.entry(port.host).or_default().push(port);
        }
    }
    let mut by_rail: BTreeMap<(String, String), Vec<HostPort<'_>>> = BTreeMap::new();
    for of_host in by_host
        .into_values()
        .filter(|ports| ports.len() <= MOST_PORTS)
    {
        let names: Vec<_> = of_host
            .iter()
            .map(|port| (port.key.0, port.key.1, port.node()))
            .collect();
        for (rail, port) in rail::of_host(&names).into_iter().zip(of_host) {
            by_rail
                .entry((natural(&rail), rail))
                .or_default()
                .push(port);
        }
    }
    let (names, rails): (Vec<_>, Vec<_>) = by_rail.into_iter().unzip();
    let slower = slower(&rails);
    let row = |(((_, rail), ports), slower): (((String, String), Vec<HostPort<'_>>), _)| {
        let mut total = Flow::default();
        ports.iter().for_each(|port| total.add(port.total));
        RailRow {
            rail,
            ports: ports.len(),
            injected_bytes: total.sent(),
            ejected_bytes: total.received(),
            covered_seconds: total.covered_seconds() / ports.len() as f64,
            leaves: leaves(&ports),
            slower,
        }
    };
    names.into_iter().zip(rails).zip(slower).map(row).collect()
}

impl<'a> HostPort<'a> {
    /// Returns the node description of the HCA.
    fn node(&self) -> &'a str {
        match (self.hca, self.switch) {
            (Some(hca), _) => &hca.node,
            (None, Some(switch)) => &switch.peer_name,
            (None, None) => self.host,
        }
    }
}

fn leaves(ports: &[HostPort<'_>]) -> Vec<RailLeaf> {
    let mut by_leaf: BTreeMap<Option<Guid>, Vec<&HostPort<'_>>> = BTreeMap::new();
    ports
        .iter()
        .for_each(|port| by_leaf.entry(port.leaf).or_default().push(port));
    let leaf = |(guid, ports): (Option<Guid>, Vec<&HostPort<'_>>)| {
        let blocked = |of: fn(&HostPort<'_>) -> Option<f64>| {
            mean(&ports.iter().filter_map(|port| of(port)).collect::<Vec<_>>())
        };
        let bytes = |of: fn(&Flow) -> f64| ports.iter().map(|port| of(&port.total)).sum();
        let name = ports.iter().find_map(|port| port.leaf_port.as_ref());
        RailLeaf {
            guid,
            name: name.map_or_else(String::new, |port| port.node.to_string()),
            ports: ports.len(),
            injected_bytes: bytes(Flow::sent),
            ejected_bytes: bytes(Flow::received),
            blocked: blocked(|port| port.hca?.all.blocked.mean()),
            switch_blocked: blocked(|port| port.switch?.all.blocked.mean()),
        }
    };
    let mut leaves: Vec<_> = by_leaf.into_iter().map(leaf).collect();
    leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.ports));
    leaves
}

/// Returns the times in which each rail was slower.
fn slower(rails: &[Vec<HostPort<'_>>]) -> Vec<Vec<Slower>> {
    let bins = || {
        let ports = rails.iter().flatten();
        ports
            .flat_map(|port| [port.hca, port.switch])
            .flatten()
            .map(|port| &port.bins)
    };
    let numbers: BTreeSet<u64> = bins()
        .flat_map(|bins| bins.iter().map(|(number, _)| number))
        .collect();
    let first = numbers.len().saturating_sub(STEPS);
    let numbers: Vec<u64> = numbers.into_iter().skip(first).collect();
    let width_ns = bins().map(TimeBins::width_ns).max().unwrap_or(1);
    let series = |rail: usize, port: &HostPort<'_>| {
        let at = |end: Option<&PortSummary>, number| end?.bins.get(number).copied();
        let sent = |number: u64| {
            at(port.hca, number)
                .and_then(|bin| bin.xmit_utilization.mean())
                .or_else(|| at(port.switch, number)?.rcv_utilization.mean())
        };
        let held_up = |number: u64| {
            let bin = at(port.switch, number)?;
            held_up(bin.xmit_utilization.mean(), bin.blocked.mean())
        };
        Series {
            rail,
            sent: numbers.iter().copied().map(sent).collect(),
            held_up: numbers.iter().copied().map(held_up).collect(),
        }
    };
    let ports: Vec<_> = (0..)
        .zip(rails)
        .flat_map(|(rail, ports)| ports.iter().map(move |port| (rail, port)))
        .collect();
    let all: Vec<_> = ports
        .iter()
        .map(|(rail, port)| series(*rail, port))
        .collect();
    let mut found = vec![Vec::new(); rails.len()];
    for slow in judge::find(&all, rails.len(), numbers.len()) {
        let port = slow.port.map(|port| ports[port].1);
        found[slow.rail].push(Slower {
            host: port.map(|port| port.host.to_owned()),
            port: port.and_then(|port| port.leaf_port.clone()),
            from_ns: numbers[slow.steps.start] * width_ns,
            to_ns: (numbers[slow.steps.end - 1] + 1) * width_ns,
            slower: slow.slower,
            held_up: slow.held_up,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::fixtures::{fold, port};
    use crate::ports::Ports;

    /// Returns the records of `hosts` hosts with two HCAs on a leaf switch each, in 60 s. From the
    /// second 40 on, host 3 accepts packets of the second rail too slowly.
    fn lines(hosts: u8) -> Vec<String> {
        let mut lines = Vec::new();
        for slot in 1..=60 {
            for (rail, host) in (0..2_u8).flat_map(|rail| (0..hosts).map(move |host| (rail, host)))
            {
                let is_slow = rail == 1 && slot > 40;
                let used = if is_slow { 0.45 } else { 0.5 };
                let blocked = if is_slow && host == 3 { 0.05 } else { 0.0 };
                let values = |blocked: f64| -> [(&str, Value); 5] {
                    [
                        ("xmit_gbps", (100.0 * used).into()),
                        ("rcv_gbps", (100.0 * used).into()),
                        ("xmit_utilization", used.into()),
                        ("rcv_utilization", used.into()),
                        ("xmit_blocked", blocked.into()),
                    ]
                };
                let (leaf, hca) = (
                    u64::from(rail) + 1,
                    0x100 * (u64::from(host) + 1) + u64::from(rail),
                );
                let (leaf_name, name) = (format!("leaf{rail}"), format!("n{host} mlx5_{rail}"));
                let at_leaf = (leaf, host + 1, &*leaf_name);
                lines.push(port(slot, (hca, 1), &name, at_leaf, &values(0.0)));
                let at_host = (hca, 1, &*name);
                lines.push(port(
                    slot,
                    (leaf, host + 1),
                    &leaf_name,
                    at_host,
                    &values(blocked),
                ));
            }
        }
        lines
    }

    #[test]
    fn rails_have_their_leaf_switches_and_the_host_that_slows_them() {
        let ports = fold(Ports::for_jobs(240), &lines(4)).finish();
        let rails = find(&ports, None);
        let names: Vec<_> = rails
            .iter()
            .map(|rail| {
                (
                    &*rail.rail,
                    rail.ports,
                    &*rail.leaves[0].name,
                    rail.leaves.len(),
                )
            })
            .collect();
        assert_eq!(
            names,
            [("mlx5_0", 4, "leaf0", 1), ("mlx5_1", 4, "leaf1", 1)]
        );
        let gigabits = |bytes: f64| (bytes * 8.0 / 1e9).round();
        // 4 hosts send 50 Gb/s, or 45 Gb/s, for a second each.
        assert_eq!(
            rails
                .iter()
                .map(|rail| gigabits(rail.injected_bytes))
                .collect::<Vec<_>>(),
            [12_000.0, 11_600.0]
        );
        assert!(rails[0].slower.is_empty());
        let [slow] = &rails[1].slower[..] else {
            panic!("{:?}", rails[1].slower)
        };
        assert_eq!(slow.host.as_deref(), Some("n3"));
        assert_eq!(
            slow.port.as_ref().map(ToString::to_string).as_deref(),
            Some("leaf1 port 4")
        );
        // A record describes the second before it.
        assert_eq!((slow.from_ns, slow.to_ns), (40_000_000_000, 60_000_000_000));
        let round = |share: Option<f64>| share.map(|share| (1000.0 * share).round() / 1000.0);
        assert_eq!(
            (round(slow.slower), round(slow.held_up)),
            (Some(0.1), Some(0.1))
        );
    }

    #[test]
    fn selected_hosts_are_one_job() {
        let ports = fold(Ports::for_jobs(240), &lines(4)).finish();
        let rails = find(&ports, Some(&Hosts::parse("n[0-2]").unwrap()));
        assert_eq!(rails[1].ports, 3);
        // The rail is slower, but no port of these hosts waits.
        let hosts: Vec<_> = rails[1].slower.iter().map(|slow| &slow.host).collect();
        assert_eq!(hosts, [&None]);
    }
}
