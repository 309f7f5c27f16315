//! Bounds of the shares of jobs in one bin. They need no estimate.

use std::collections::BTreeSet;

use ibnet::types::Guid;
use rustc_hash::FxHashMap;

use super::network::{LinkIndex, Network};

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
}

/// Upper bounds of the owners of a link: the octets that their hosts sent, and that they received.
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) sent: f64,
    pub(super) received: f64,
}

/// Returns the bounds of each owner on each link from the limits of each owner. `loads` has the data
/// rate of each link.
pub(super) fn of_limits(limits: FxHashMap<(LinkIndex, Owner), Limits>, loads: &[Option<f64>]) -> Parts {
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

/// Computes bounds on the links of leaf switches without forwarding tables. A packet on a link from a
/// leaf switch to another switch comes from a host of the leaf switch. A packet on a link from
/// another switch goes to a host of the leaf switch.
pub(super) fn without_routes(network: &Network<'_>, hosts: &HostLoads, bin: u64) -> Parts {
    let mut by_leaf: FxHashMap<Guid, Vec<usize>> = FxHashMap::default();
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
        let others: BTreeSet<Owner> = owners.iter().copied().filter(|owner| !here.contains(owner)).collect();
        most.extend(others.into_iter().map(|owner| (owner, shared)));
    }
    most
}
