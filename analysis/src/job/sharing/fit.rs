//! Bounds and estimate of the shares of jobs in one bin.

use rustc_hash::FxHashMap;

use super::network::{LinkIndex, Network};
use crate::routes::Routes;

/// Largest number of pairs of hosts in a bin. More pairs need too much memory.
const MOST_PAIRS: usize = 4_000_000;

/// Rounds of the estimate. In tests its shares change by less than 0.1 % after 20 rounds.
const ROUNDS: usize = 30;

/// Data rate below which a host counts as idle, in Gb/s. Management traffic is below it.
pub(super) const IDLE_GBPS: f64 = 1e-3;

/// Index of an owner of traffic: a job, or several jobs that share a host. 0 is no job.
pub(super) type Owner = u32;

/// Owner of traffic between two hosts without a job.
pub(super) const NO_JOB: Owner = 0;

/// Hosts in one bin.
pub(super) struct HostLoads {
    /// Owner of each host.
    pub(super) owners: Vec<Owner>,
    /// Data rate that each host sends, in Gb/s.
    pub(super) sends: Vec<f64>,
    /// Data rate that each host receives, in Gb/s.
    pub(super) receives: Vec<f64>,
}

/// Share of an owner in the data rate of a link, in Gb/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Part {
    pub(super) least: f64,
    /// `None` without routes.
    pub(super) estimate: Option<f64>,
    pub(super) most: f64,
}

/// Shares of all owners in all links in a bin.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) by_link: FxHashMap<LinkIndex, Vec<(Owner, Part)>>,
    /// Data rates of the links between switches, summed over the links, in Gb/s.
    pub(super) measured: f64,
    /// Sum of the differences between these data rates and the estimate.
    pub(super) unexplained: f64,
    /// Whether there were too many pairs for an estimate.
    pub(super) is_too_large: bool,
}

/// A pair of hosts with possible traffic.
struct Pair {
    from: u32,
    to: u32,
    owner: Owner,
    /// Range of its links in the list of all paths.
    path: (u32, u32),
    gbps: f64,
}

/// Returns the owner of traffic between hosts of two owners. `None` if they have different jobs: the
/// method assumes that hosts of different jobs do not exchange data.
fn owner(from: Owner, to: Owner) -> Option<Owner> {
    match (from, to) {
        (NO_JOB, to) => Some(to),
        (from, NO_JOB) => Some(from),
        (from, to) => (from == to).then_some(from),
    }
}

/// Upper bounds of the owners of a link: the octets that their hosts sent, and that they received.
#[derive(Clone, Copy, Default)]
struct Limits {
    sent: f64,
    received: f64,
}

/// Computes the shares with forwarding tables. See `docs/jobs.md`, "Method".
pub(super) fn with_routes(network: &Network<'_>, hosts: &HostLoads, routes: &Routes, bin: u64) -> Parts {
    let senders: Vec<usize> = (0..hosts.sends.len()).filter(|host| hosts.sends[*host] > IDLE_GBPS).collect();
    let receivers: Vec<usize> = (0..hosts.receives.len()).filter(|host| hosts.receives[*host] > IDLE_GBPS).collect();
    let mut pairs: Vec<Pair> = Vec::new();
    let mut paths: Vec<LinkIndex> = Vec::new();
    let loads: Vec<Option<f64>> = (0..network.links.len() as LinkIndex).map(|link| network.load(link, bin)).collect();
    for from in &senders {
        for to in receivers.iter().filter(|to| *to != from) {
            let Some(owner) = owner(hosts.owners[*from], hosts.owners[*to]) else { continue };
            let start = paths.len();
            if !network.path(*from, *to, routes, &mut paths) {
                continue;
            }
            // A link without traffic excludes the pair.
            if paths[start..].iter().any(|link| loads[*link as usize].is_some_and(|load| load < IDLE_GBPS)) {
                paths.truncate(start);
                continue;
            }
            let gbps = hosts.sends[*from] * hosts.receives[*to];
            pairs.push(Pair { from: *from as u32, to: *to as u32, owner, path: (start as u32, paths.len() as u32), gbps });
            if pairs.len() > MOST_PAIRS {
                return Parts { is_too_large: true, ..without_routes(network, hosts, bin) };
            }
        }
    }
    let parts = bounds(&pairs, &paths, hosts, &loads);
    estimate(&mut pairs, &paths, hosts, &loads);
    add_estimate(parts, &pairs, &paths, &loads, network)
}

/// Returns the bounds of each owner on each link.
fn bounds(pairs: &[Pair], paths: &[LinkIndex], hosts: &HostLoads, loads: &[Option<f64>]) -> Parts {
    let mut limits: FxHashMap<(LinkIndex, Owner), Limits> = FxHashMap::default();
    // The last sender and receiver that were added. Pairs come in the order of their senders.
    let mut last: FxHashMap<(LinkIndex, Owner), u32> = FxHashMap::default();
    for pair in pairs {
        for link in &paths[pair.path.0 as usize..pair.path.1 as usize] {
            if last.insert((*link, pair.owner), pair.from) != Some(pair.from) {
                limits.entry((*link, pair.owner)).or_default().sent += hosts.sends[pair.from as usize];
            }
        }
    }
    last.clear();
    let mut by_receiver: Vec<&Pair> = pairs.iter().collect();
    by_receiver.sort_by_key(|pair| pair.to);
    for pair in by_receiver {
        for link in &paths[pair.path.0 as usize..pair.path.1 as usize] {
            if last.insert((*link, pair.owner), pair.to) != Some(pair.to) {
                limits.entry((*link, pair.owner)).or_default().received += hosts.receives[pair.to as usize];
            }
        }
    }
    let mut by_link: FxHashMap<LinkIndex, Vec<(Owner, f64)>> = FxHashMap::default();
    for ((link, owner), Limits { sent, received }) in limits {
        by_link.entry(link).or_default().push((owner, sent.min(received)));
    }
    let bounded = by_link.into_iter().filter_map(|(link, most)| Some((link, bounded(most, loads[link as usize]?)))).collect();
    Parts { by_link: bounded, ..Parts::default() }
}

/// Returns the bounds of the owners of a link from the most that each can have sent. What the others
/// cannot have sent is the lower bound.
fn bounded(mut most: Vec<(Owner, f64)>, load: f64) -> Vec<(Owner, Part)> {
    most.sort_unstable_by_key(|(owner, _)| *owner);
    most.iter_mut().for_each(|(_, most)| *most = most.min(load));
    let all: f64 = most.iter().map(|(_, most)| most).sum();
    most.into_iter().map(|(owner, most)| (owner, Part { least: (load - (all - most)).clamp(0.0, most), estimate: None, most })).collect()
}

/// Fits the traffic of the pairs to the counters by iterative proportional fitting. Each round scales
/// the pairs of each sender, receiver and link, so that their sum equals the counter.
///
/// The first values are the products of the data rates of both hosts (gravity model). The result is
/// the one next to the gravity model, by the Kullback-Leibler divergence, that agrees with the
/// counters. Source: Zhang, Roughan, Duffield and Greenberg, "Fast accurate computation of
/// large-scale IP traffic matrices from link loads", SIGMETRICS 2003.
fn estimate(pairs: &mut [Pair], paths: &[LinkIndex], hosts: &HostLoads, loads: &[Option<f64>]) {
    let mut sums = [vec![0.0; hosts.sends.len()], vec![0.0; hosts.receives.len()]];
    let mut links = vec![0.0; loads.len()];
    let ratio = |measured: f64, sum: f64| if sum > 0.0 { measured / sum } else { 1.0 };
    for _ in 0..ROUNDS {
        for side in 0..2 {
            let (sum, measured) = (&mut sums[side], [&hosts.sends, &hosts.receives][side]);
            let place = |pair: &Pair| [pair.from, pair.to][side] as usize;
            sum.fill(0.0);
            pairs.iter().for_each(|pair| sum[place(pair)] += pair.gbps);
            pairs.iter_mut().for_each(|pair| pair.gbps *= ratio(measured[place(pair)], sum[place(pair)]));
        }
        links.fill(0.0);
        for pair in pairs.iter() {
            paths[pair.path.0 as usize..pair.path.1 as usize].iter().for_each(|link| links[*link as usize] += pair.gbps);
        }
        for pair in pairs.iter_mut() {
            // The links of a path are not independent. So a pair is scaled by their geometric mean,
            // which does not overshoot.
            let path = &paths[pair.path.0 as usize..pair.path.1 as usize];
            let log: f64 = path.iter().filter_map(|link| Some(ratio(loads[*link as usize]?, links[*link as usize]).max(1e-9).ln())).sum();
            pair.gbps *= (log / path.len() as f64).exp();
        }
    }
}

/// Adds the estimate to the bounds. It is scaled to the load of each link, and limited by the bounds.
fn add_estimate(mut parts: Parts, pairs: &[Pair], paths: &[LinkIndex], loads: &[Option<f64>], network: &Network<'_>) -> Parts {
    let mut sums: FxHashMap<(LinkIndex, Owner), f64> = FxHashMap::default();
    for pair in pairs {
        for link in &paths[pair.path.0 as usize..pair.path.1 as usize] {
            *sums.entry((*link, pair.owner)).or_default() += pair.gbps;
        }
    }
    for (index, load) in loads.iter().enumerate() {
        let link = index as LinkIndex;
        let Some(load) = load.filter(|load| *load > IDLE_GBPS) else { continue };
        let mut modelled = 0.0;
        if let Some(owners) = parts.by_link.get_mut(&link) {
            modelled = owners.iter().map(|(owner, _)| sums.get(&(link, *owner)).copied().unwrap_or(0.0)).sum();
            for (owner, part) in owners.iter_mut().filter(|_| modelled > 0.0) {
                let sum = sums.get(&(link, *owner)).copied().unwrap_or(0.0);
                part.estimate = Some((sum * load / modelled).clamp(part.least, part.most));
            }
        }
        if network.is_between_switches(link) {
            parts.measured += load;
            parts.unexplained += (load - modelled).abs();
        }
    }
    parts
}

/// Computes bounds on the links of leaf switches without forwarding tables. A packet on a link from a
/// leaf switch to another switch comes from a host of the leaf switch. A packet on a link from
/// another switch goes to a host of the leaf switch.
pub(super) fn without_routes(network: &Network<'_>, hosts: &HostLoads, bin: u64) -> Parts {
    let mut by_leaf: FxHashMap<ibnet::types::Guid, Vec<usize>> = FxHashMap::default();
    for (index, host) in network.hosts.iter().enumerate() {
        host.leaf.into_iter().for_each(|leaf| by_leaf.entry(leaf).or_default().push(index));
    }
    let mut parts = Parts::default();
    for link in 0..network.links.len() as LinkIndex {
        let Some(load) = network.load(link, bin).filter(|load| *load > IDLE_GBPS) else { continue };
        if !network.is_between_switches(link) {
            continue;
        }
        let (from, to) = (network.links[link as usize].0, network.peer(link).0);
        let up = by_leaf.get(&from).map(|leaf| most_of(leaf, &hosts.owners, &hosts.sends));
        let down = by_leaf.get(&to).map(|leaf| most_of(leaf, &hosts.owners, &hosts.receives));
        let most = match (up, down) {
            (Some(up), None) => up,
            (None, Some(down)) => down,
            // A link between two leaf switches: both limits hold.
            (Some(up), Some(down)) => {
                let down: FxHashMap<Owner, f64> = down.into_iter().collect();
                up.into_iter().filter_map(|(owner, most)| Some((owner, most.min(*down.get(&owner)?)))).collect()
            }
            (None, None) => continue,
        };
        parts.by_link.insert(link, bounded(most, load));
    }
    parts
}

/// Returns the most that each owner can have in the traffic of some hosts. Hosts without a job
/// exchange data with every job.
fn most_of(leaf: &[usize], owners: &[Owner], gbps: &[f64]) -> Vec<(Owner, f64)> {
    let mut own: FxHashMap<Owner, f64> = FxHashMap::default();
    for host in leaf.iter().filter(|host| gbps[**host] > IDLE_GBPS) {
        *own.entry(owners[*host]).or_default() += gbps[*host];
    }
    let shared = own.get(&NO_JOB).copied().unwrap_or(0.0);
    let mut most: Vec<(Owner, f64)> =
        own.into_iter().map(|(owner, own)| (owner, if owner == NO_JOB { own } else { own + shared })).collect();
    if shared > 0.0 {
        // A job without a host at this leaf switch can use the shared hosts.
        let here: Vec<Owner> = most.iter().map(|(owner, _)| *owner).collect();
        let others: std::collections::BTreeSet<Owner> = owners.iter().copied().filter(|owner| !here.contains(owner)).collect();
        most.extend(others.into_iter().map(|owner| (owner, shared)));
    }
    most
}
