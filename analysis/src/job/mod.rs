//! A job's traffic: what its nodes put into the fabric and took out of it, how much of that stayed on their leaf switches, which links it loaded, how long
//! its nodes had to wait.
//!
//! Port counters do not tell destinations. So what stays on a leaf is an estimate with bounds ([`Stays`]), and what a job has of a link between switches is
//! its part of what all hosts of that leaf sent ([`Uplink`]). Both suppose that nothing passes through a leaf on its way to another, as in a fat tree.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::ports::bins::Bins;
use super::ports::{Key, Mean, Seen, in_step};
use ibnet::types::{Guid, NodeKind, PortNum};

pub mod slurm;
pub mod svg;
mod text;

/// What is known of a job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Job {
    /// Hosts of which at least one port is told of, by name.
    pub nodes: Vec<Node>,
    /// Hosts of which the lines tell nothing.
    pub missing: Vec<String>,
    /// How long a step is, in nanoseconds.
    pub step_ns: u64,
    /// The course of all nodes together.
    pub steps: Vec<Step>,
    /// What stayed on the leaf switches.
    pub stays: Stays,
    /// The job's leaf switches.
    pub leaves: Vec<Leaf>,
    /// Links between these and other switches, those first to which the job gave most.
    pub uplinks: Vec<Uplink>,
}

/// A host of the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Node {
    /// Its name.
    pub host: String,
    /// Its HCA ports.
    pub ports: usize,
    /// Octets that it sent.
    pub injected_bytes: f64,
    /// Octets that it received.
    pub ejected_bytes: f64,
    /// The mean share of time for which its ports had something to send and sent nothing; null if it was not asked.
    pub blocked: Option<f64>,
    /// The most of that in a slot.
    pub blocked_peak: Option<f64>,
    /// For how many seconds that was, all its ports together.
    pub blocked_seconds: f64,
}

/// A part of the time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Step {
    /// Its beginning, in nanoseconds since 1970.
    pub ts: u64,
    /// All nodes together, in Gb/s.
    pub injected_gbps: f64,
    /// Likewise.
    pub ejected_gbps: f64,
    /// The mean over the nodes' ports of the share of time for which they could not send; null if none was asked.
    pub blocked: Option<f64>,
    /// That of the port with most.
    pub blocked_most: Option<f64>,
}

/// How much of what the job injected left its leaf switch by a host port again, in octets.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Stays {
    /// All that the job injected.
    pub injected_bytes: f64,
    /// At least: what does not fit into the links to other switches.
    pub least_bytes: f64,
    /// If all hosts of a leaf send the same part to other leaves.
    pub estimate_bytes: f64,
    /// At most: what of all hosts stayed.
    pub most_bytes: f64,
}

/// A leaf switch of the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leaf {
    /// Its port GUID.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: String,
    /// HCA ports of the job on it.
    pub job_ports: usize,
    /// All HCA ports on it of which the lines tell.
    pub host_ports: usize,
    /// What the job's ports injected here.
    pub injected_bytes: f64,
    /// What they ejected here.
    pub ejected_bytes: f64,
    /// What all of its hosts injected.
    pub all_injected_bytes: f64,
    /// What all of its hosts ejected.
    pub all_ejected_bytes: f64,
    /// What left it to other switches.
    pub up_bytes: f64,
}

/// A link from a leaf switch of the job to another switch.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Uplink {
    /// The leaf's port.
    pub port: String,
    /// The other end.
    pub to: String,
    /// Sent to the other switch, in Gb/s.
    pub up_gbps: f64,
    /// Received from it.
    pub down_gbps: f64,
    /// The greater direction, as a share of what the link carries.
    pub used: Option<f64>,
    /// The share of time for which it could not send.
    pub blocked: Option<f64>,
    /// The part of `up_gbps` that is the job's, by its part of what the leaf's hosts injected: an estimate.
    pub job_up_gbps: f64,
    /// Likewise of `down_gbps`, by its part of what they ejected.
    pub job_down_gbps: f64,
}

/// Both directions of an HCA port, from whichever end told them.
struct HostPort<'a> {
    host: &'a str,
    leaf: Option<Guid>,
    injected: Mean,
    ejected: Mean,
    /// By the adapter itself.
    own: Option<&'a Seen>,
    /// By the switch.
    there: Option<&'a Seen>,
}

impl Job {
    /// What the ports tell of a job on these hosts. `names` are first words of node descriptions.
    pub fn of(ports: &BTreeMap<Key, Seen>, names: &[String]) -> Self {
        let ports = in_step(ports);
        let wanted: BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        let all = host_ports(&ports);
        let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|port| wanted.contains(&port.host.to_lowercase()));
        let nodes = nodes(&own);
        let found: BTreeSet<String> = nodes.iter().map(|node| node.host.to_lowercase()).collect();
        let leaves = leaves(&ports, &own, &others);
        Self {
            missing: names.iter().filter(|name| !found.contains(&name.to_lowercase())).cloned().collect(),
            step_ns: own.iter().filter_map(|port| port.bins()).map(Bins::width_ns).max().unwrap_or(1_000_000_000),
            steps: steps(&own),
            stays: leaves.iter().fold(Stays::default(), Stays::plus),
            uplinks: uplinks(&ports, &leaves),
            nodes,
            leaves,
        }
    }
}

impl Job {
    /// All of it as JSON; the fields are those of [`Job`].
    pub fn to_json(&self) -> String {
        // Numbers and texts only: there is nothing that JSON has no words for.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// The first word of a node description: the host, by custom.
fn host(name: &str) -> &str {
    name.split_whitespace().next().unwrap_or("")
}

/// All HCA ports, those too of which only the switch tells.
fn host_ports(ports: &BTreeMap<Key, Seen>) -> Vec<HostPort<'_>> {
    let mut found = Vec::new();
    for (key, seen) in ports {
        let there = seen.peer.and_then(|peer| ports.get(&peer));
        if seen.kind == Some(NodeKind::Hca) {
            let there = there.filter(|there| there.peer == Some(*key));
            let leaf = seen.peer.map(|(guid, _)| guid);
            let pick = |own: Mean, other: Option<Mean>| if own.mean().is_some() { own } else { other.unwrap_or(own) };
            let injected = pick(seen.all.xmit, there.map(|there| there.all.rcv));
            let ejected = pick(seen.all.rcv, there.map(|there| there.all.xmit));
            found.push(HostPort { host: host(&seen.node), leaf, injected, ejected, own: Some(seen), there });
        } else if there.is_none() && is_leaf_port(ports, seen) {
            let (injected, ejected) = (seen.all.rcv, seen.all.xmit);
            found.push(HostPort { host: host(&seen.peer_name), leaf: Some(key.0), injected, ejected, own: None, there: Some(seen) });
        }
    }
    found
}

/// Whether a switch port's peer, which nobody asked, is an HCA. Where the lines do not tell, as of one sampler alone, it is what its port says: a port of
/// an HCA has a GUID of its own and is the first or the second.
fn is_leaf_port(ports: &BTreeMap<Key, Seen>, seen: &Seen) -> bool {
    const HCA_PORTS: u8 = 2;
    let Some((guid, port)) = seen.peer else { return false };
    let is_known = ports.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX))).next().is_some();
    let has_another = || ports.values().any(|other| other.peer.is_some_and(|(of, other)| of == guid && other != port));
    !is_known && port.0 <= HCA_PORTS && !has_another()
}

impl<'a> HostPort<'a> {
    fn bins(&self) -> Option<&'a Bins> {
        self.own.or(self.there).map(|seen| &seen.bins)
    }

    /// In a step: injected, ejected, blocked.
    fn at(&self, number: u64) -> (Option<f64>, Option<f64>, Option<f64>) {
        let (own, there) = (self.own.and_then(|seen| seen.bins.get(number)), self.there.and_then(|seen| seen.bins.get(number)));
        let injected = own.and_then(|bin| bin.xmit.mean()).or_else(|| there?.rcv.mean());
        let ejected = own.and_then(|bin| bin.rcv.mean()).or_else(|| there?.xmit.mean());
        (injected, ejected, own.and_then(|bin| bin.blocked.mean()))
    }
}

fn nodes(own: &[HostPort<'_>]) -> Vec<Node> {
    let mut by_host: BTreeMap<&str, Vec<&HostPort<'_>>> = BTreeMap::new();
    own.iter().for_each(|port| by_host.entry(port.host).or_default().push(port));
    let node = |(host, ports): (&str, Vec<&HostPort<'_>>)| {
        let blocked: Vec<Mean> =
            ports.iter().filter_map(|port| Some(port.own?.all.blocked)).filter(|blocked| blocked.mean().is_some()).collect();
        let means: Vec<f64> = blocked.iter().filter_map(Mean::mean).collect();
        Node {
            host: host.to_owned(),
            ports: ports.len(),
            injected_bytes: ports.iter().map(|port| port.injected.octets()).sum(),
            ejected_bytes: ports.iter().map(|port| port.ejected.octets()).sum(),
            blocked: mean(&means),
            blocked_peak: blocked.iter().filter_map(Mean::peak).reduce(f64::max),
            blocked_seconds: blocked.iter().filter_map(|blocked| Some(blocked.mean()? * blocked.seconds())).sum(),
        }
    };
    by_host.into_iter().map(node).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn steps(own: &[HostPort<'_>]) -> Vec<Step> {
    let numbers: BTreeSet<u64> =
        own.iter().flat_map(|port| [port.own, port.there]).flatten().flat_map(|seen| seen.bins.iter().map(|bin| bin.0)).collect();
    let width = own.iter().filter_map(|port| port.bins()).map(Bins::width_ns).max().unwrap_or(1);
    let step = |number: u64| {
        let all: Vec<_> = own.iter().map(|port| port.at(number)).collect();
        let blocked: Vec<f64> = all.iter().filter_map(|(_, _, blocked)| *blocked).collect();
        Step {
            ts: number * width,
            injected_gbps: all.iter().filter_map(|(injected, _, _)| *injected).sum(),
            ejected_gbps: all.iter().filter_map(|(_, ejected, _)| *ejected).sum(),
            blocked: mean(&blocked),
            blocked_most: blocked.into_iter().reduce(f64::max),
        }
    };
    // A step in which nothing was told, the first slot's, is none.
    let is_told = |number: &u64| own.iter().any(|port| port.at(*number) != (None, None, None));
    numbers.into_iter().filter(is_told).map(step).collect()
}

/// Ports of a switch that lead to other switches.
fn up_ports(ports: &BTreeMap<Key, Seen>, guid: Guid) -> impl Iterator<Item = (&Key, &Seen)> {
    let of_switch = ports.range((guid, PortNum(0))..=(guid, PortNum(u8::MAX)));
    let is_up = |seen: &Seen| match seen.peer.and_then(|peer| ports.get(&peer)) {
        Some(there) => there.kind == Some(NodeKind::Switch),
        None => seen.peer.is_some() && !is_leaf_port(ports, seen),
    };
    of_switch.filter(move |(_, seen)| seen.kind == Some(NodeKind::Switch) && is_up(seen))
}

fn leaves(ports: &BTreeMap<Key, Seen>, own: &[HostPort<'_>], others: &[HostPort<'_>]) -> Vec<Leaf> {
    let guids: BTreeSet<Guid> = own.iter().filter_map(|port| port.leaf).collect();
    let leaf = |guid: Guid| {
        let here = |all: &'_ [HostPort<'_>]| {
            let here: Vec<_> = all.iter().filter(|port| port.leaf == Some(guid)).collect();
            let sum = |value: fn(&HostPort<'_>) -> f64| here.iter().map(|port| value(port)).sum::<f64>();
            (here.len(), sum(|port| port.injected.octets()), sum(|port| port.ejected.octets()))
        };
        let ((job_ports, injected, ejected), (other_ports, other_injected, other_ejected)) = (here(own), here(others));
        let name = own.iter().filter(|port| port.leaf == Some(guid)).find_map(|port| match (port.there, port.own) {
            (Some(there), _) => Some(there.node.to_string()),
            (None, own) => own.map(|own| own.peer_name.to_string()),
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
            up_bytes: up_ports(ports, guid).map(|(_, seen)| seen.all.xmit.octets()).sum(),
        }
    };
    guids.into_iter().map(leaf).collect()
}

impl Stays {
    /// With another leaf.
    fn plus(self, leaf: &Leaf) -> Self {
        let all_stays = (leaf.all_injected_bytes - leaf.up_bytes).max(0.0);
        let share = if leaf.all_injected_bytes > 0.0 { all_stays / leaf.all_injected_bytes } else { 0.0 };
        Self {
            injected_bytes: self.injected_bytes + leaf.injected_bytes,
            least_bytes: self.least_bytes + (leaf.injected_bytes - leaf.up_bytes).max(0.0),
            estimate_bytes: self.estimate_bytes + leaf.injected_bytes * share,
            most_bytes: self.most_bytes + leaf.injected_bytes.min(all_stays),
        }
    }
}

fn uplinks(ports: &BTreeMap<Key, Seen>, leaves: &[Leaf]) -> Vec<Uplink> {
    let part = |own: f64, all: f64| if all > 0.0 { own / all } else { 0.0 };
    let of_leaf = |leaf: &Leaf| {
        let (out, back) = (part(leaf.injected_bytes, leaf.all_injected_bytes), part(leaf.ejected_bytes, leaf.all_ejected_bytes));
        let uplink = |(key, seen): (&Key, &Seen)| {
            let (up, down) = (seen.all.xmit.mean().unwrap_or(0.0), seen.all.rcv.mean().unwrap_or(0.0));
            Uplink {
                port: super::links::named(&seen.node, *key),
                to: seen.peer.map_or_else(String::new, |peer| super::links::named(&seen.peer_name, peer)),
                up_gbps: up,
                down_gbps: down,
                used: [seen.all.xmit_used.mean(), seen.all.rcv_used.mean()].into_iter().flatten().reduce(f64::max),
                blocked: seen.all.blocked.mean(),
                job_up_gbps: up * out,
                job_down_gbps: down * back,
            }
        };
        up_ports(ports, leaf.guid).map(uplink).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = leaves.iter().flat_map(of_leaf).collect();
    all.sort_by(|a, b| (b.job_up_gbps + b.job_down_gbps).total_cmp(&(a.job_up_gbps + a.job_down_gbps)));
    all
}

#[cfg(test)]
mod tests {
    use super::super::ports::Ports;
    use super::super::ports::tests::{fold, port};
    use super::*;

    /// Two seconds of a leaf with three hosts, of which n1 and N2 are the job's; n3's adapter is not asked. In the second one the job sends double.
    pub(super) fn job() -> Job {
        job_of(true)
    }

    fn job_of(has_core: bool) -> Job {
        const LEAF: u64 = 1;
        let mut lines = Vec::new();
        let moves = |out: f64, back: f64, blocked: f64| {
            [
                ("xmit_gbps", out.into()),
                ("rcv_gbps", back.into()),
                ("xmit_blocked", blocked.into()),
                ("xmit_utilization", (out / 100.0).into()),
            ]
        };
        for (slot, times) in [(1, 1.0), (2, 2.0)] {
            lines.push(port(slot, (0x101, 1), "n1 mlx5_0", (LEAF, 1, "leaf"), &moves(8.0 * times, 4.0, 0.25 * times)));
            lines.push(port(slot, (0x102, 1), "N2 mlx5_0", (LEAF, 2, "leaf"), &moves(4.0 * times, 12.0, 0.0)));
            lines.push(port(slot, (LEAF, 3), "leaf", (0x103, 1, "n3 mlx5_0"), &moves(2.0, 6.0, 0.0)));
            lines.push(port(slot, (LEAF, 9), "leaf", (2, 1, "core"), &moves(12.0, 6.0, 0.5)));
            lines.push(if has_core {
                port(slot, (2, 1), "core", (LEAF, 9, "leaf"), &moves(6.0, 12.0, 0.0))
            } else {
                // Two links lead there.
                port(slot, (LEAF, 10), "leaf", (2, 2, "core"), &moves(0.0, 0.0, 0.0))
            });
        }
        Job::of(&fold(Ports::with_bins(8), &lines).seen(), &["n1".to_owned(), "n2".to_owned(), "gone".to_owned()])
    }

    #[test]
    fn a_switch_of_which_the_lines_do_not_tell_is_no_host() {
        let (whole, part) = (job_of(true), job_of(false));
        assert_eq!((part.stays, part.leaves[0].host_ports), (whole.stays, 3));
    }

    #[test]
    fn injection_and_ejection_are_summed_by_node_and_by_time() {
        let job = job();
        let gigabits = |bytes: f64| bytes * 8.0 / 1e9;
        let nodes: Vec<_> =
            job.nodes.iter().map(|node| (&*node.host, gigabits(node.injected_bytes), gigabits(node.ejected_bytes))).collect();
        assert_eq!(nodes, [("N2", 12.0, 24.0), ("n1", 24.0, 8.0)]);
        assert_eq!((job.nodes[1].blocked, job.nodes[1].blocked_peak, job.nodes[1].blocked_seconds), (Some(0.375), Some(0.5), 0.75));
        assert_eq!(job.missing, ["gone"]);
        let steps: Vec<_> = job.steps.iter().map(|step| (step.injected_gbps, step.ejected_gbps, step.blocked, step.blocked_most)).collect();
        assert_eq!(steps, [(12.0, 16.0, Some(0.125), Some(0.25)), (24.0, 16.0, Some(0.25), Some(0.5))]);
        assert_eq!(job.step_ns, 1_000_000_000);
    }

    #[test]
    fn what_stays_on_the_leaf_is_bounded_by_what_left_it() {
        let job = job();
        let leaf = &job.leaves[0];
        let gigabits = |bytes: f64| bytes * 8.0 / 1e9;
        // n1 24, n2 12, n3 12 (the leaf received it); 24 went up.
        assert_eq!((&*leaf.name, leaf.job_ports, leaf.host_ports), ("leaf", 2, 3));
        assert_eq!([leaf.injected_bytes, leaf.all_injected_bytes, leaf.up_bytes].map(gigabits), [36.0, 48.0, 24.0]);
        let Stays { injected_bytes, least_bytes, estimate_bytes, most_bytes } = job.stays;
        assert_eq!([injected_bytes, least_bytes, estimate_bytes, most_bytes].map(gigabits), [36.0, 12.0, 18.0, 24.0]);
    }

    #[test]
    fn links_to_other_switches_carry_the_job_s_part() {
        let job = job();
        assert_eq!(job.uplinks.len(), 1);
        let up = &job.uplinks[0];
        assert_eq!((&*up.port, &*up.to, up.up_gbps, up.blocked), ("leaf port 9", "core port 1", 12.0, Some(0.5)));
        // 36 of 48 of what was injected; 32 of 36 of what was ejected.
        assert_eq!((up.job_up_gbps, up.job_down_gbps), (9.0, 6.0 * 32.0 / 36.0));
    }

    #[test]
    fn the_text_tells_what_it_is_and_what_it_is_not() {
        let text = job().told();
        for part in
            ["2 nodes with 2 ports", "not in the lines: gone", "between 33.3 % and 66.7 %, about 50.0 %", "leaf port 9", "destinations"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
