//! Bounds of the shares of jobs in one bin, which need no estimate.
//!
//! There are two kinds. The bounds *always* need no assumption about jobs. The bounds *apart* are
//! narrower, because they assume that hosts of different jobs exchange no data.

use std::collections::BTreeMap;

use ibnet_record::types::Guid;
use rustc_hash::FxHashMap;

use super::network::{LinkIndex, Network};

/// Data rate in Gb/s below which a host counts as idle. Management traffic stays below it.
pub(super) const IDLE_GBPS: f64 = 1e-3;

/// Id of an owner of traffic: a job, or several jobs that share a host. 0 is no job.
pub(super) type Owner = u32;

/// Owner of traffic between two hosts without a job.
pub(super) const NO_JOB: Owner = 0;

/// The hosts in one bin.
pub(super) struct HostLoads {
    pub(super) owners: Vec<Owner>,
    /// Data rate that each host sends, in Gb/s.
    pub(super) sends: Vec<f64>,
    /// Data rate that each host receives, in Gb/s.
    pub(super) receives: Vec<f64>,
}

/// Lower and upper bound of a data rate, in Gb/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Bounds {
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Share of an owner in the data rate of a link, in Gb/s.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Part {
    /// Bounds that hold even if hosts of different jobs exchange data.
    pub(super) always: Bounds,
    /// Bounds if hosts of different jobs exchange no data. Equal to `always` if the counters
    /// contradict this assumption.
    pub(super) apart: Bounds,
    /// `None` without routes.
    pub(super) estimate: Option<f64>,
}

/// Shares of all owners in all links in a bin.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) by_link: FxHashMap<LinkIndex, Vec<(Owner, Part)>>,
    /// Data rates of the links between switches, summed over the links, in Gb/s.
    pub(super) measured: f64,
    /// Sum of the absolute differences between these data rates and the estimate.
    pub(super) unexplained: f64,
    /// Whether the counters contradict the assumption that different jobs exchange no data.
    pub(super) is_contradicted: bool,
}

/// Upper bounds of the owners of a link, in Gb/s.
pub(super) type Most = BTreeMap<Owner, f64>;

/// Part of a data rate that the assumption may leave unexplained, because the counters of two
/// ports are not read at the same instant. More is a contradiction.
pub(super) const CONTRADICTION: f64 = 0.05;

/// Upper bounds of an owner on a link: the data rate that its hosts sent, and that they received.
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    pub(super) sent: f64,
    pub(super) received: f64,
}

/// Returns the bounds of the owners of a link from their upper bounds: `always`, and `apart` if
/// hosts of different jobs exchange no data. The lower bound is what the others cannot have sent.
pub(super) fn of_most(always: &Most, apart: &Most, load: f64) -> Vec<(Owner, Part)> {
    let owners: Vec<Owner> = always.keys().copied().collect();
    let most = |most: &Most, owner: Owner| most.get(&owner).copied().unwrap_or(0.0).min(load);
    let apart_most = |owner: Owner| most(apart, owner).min(most(always, owner));
    let (all, all_apart) = (
        sum(&owners, |owner| most(always, owner)),
        sum(&owners, apart_most),
    );
    let is_contradicted = all_apart < load * (1.0 - CONTRADICTION);
    let bounds = |most: f64, all: f64, least: f64| Bounds {
        least: (load - (all - most)).clamp(least.min(most), most),
        most,
    };
    let part = |owner: Owner| {
        let always = bounds(most(always, owner), all, 0.0);
        let apart = if is_contradicted {
            always
        } else {
            bounds(apart_most(owner), all_apart, always.least)
        };
        (
            owner,
            Part {
                always,
                apart,
                estimate: None,
            },
        )
    };
    owners.iter().copied().map(part).collect()
}

fn sum(owners: &[Owner], value: impl Fn(Owner) -> f64) -> f64 {
    owners.iter().copied().map(value).sum()
}

/// Returns for each owner what its hosts sent or received, in Gb/s. `places` are the indices of the
/// hosts that count.
pub(super) fn by_owner(places: &[usize], owners: &[Owner], gbps: &[f64]) -> Most {
    let mut own = Most::default();
    for host in places.iter().filter(|host| gbps[**host] > IDLE_GBPS) {
        *own.entry(owners[*host]).or_default() += gbps[*host];
    }
    own
}

/// Returns upper bounds of the owners in the traffic from some hosts to some hosts, without an
/// assumption about jobs. Traffic belongs to the job of the sender, or to that of the receiver if
/// the sender has no job.
pub(super) fn always(sent: &Most, received: &Most) -> Most {
    let of = |most: &Most, owner: Owner| most.get(&owner).copied().unwrap_or(0.0);
    let (shared, all) = (of(sent, NO_JOB), received.values().sum::<f64>());
    let owners = sent
        .keys()
        .chain(received.keys().filter(|_| shared > 0.0))
        .copied();
    let most = |owner: Owner| {
        let own = if owner == NO_JOB {
            0.0
        } else {
            of(sent, owner).min(all)
        };
        (owner, own + shared.min(of(received, owner)))
    };
    owners.map(most).collect()
}

/// Computes the bounds on the links of leaf switches without forwarding tables. They follow from
/// two facts: a packet from a leaf switch to another switch comes from a host of the leaf switch,
/// and a packet from another switch to a leaf switch goes to one of its hosts.
pub(super) fn without_routes(network: &Network<'_>, hosts: &HostLoads, bin: u64) -> Parts {
    let mut by_leaf: FxHashMap<Guid, Vec<usize>> = FxHashMap::default();
    for (index, host) in network.hosts.iter().enumerate() {
        let leaf = host.port.leaf;
        leaf.into_iter()
            .for_each(|leaf| by_leaf.entry(leaf).or_default().push(index));
    }
    let everywhere: Vec<usize> = (0..network.hosts.len()).collect();
    let all_sent = by_owner(&everywhere, &hosts.owners, &hosts.sends);
    let all_received = by_owner(&everywhere, &hosts.owners, &hosts.receives);
    let mut parts = Parts::default();
    for link in 0..network.net.channels().len() as LinkIndex {
        let Some(load) = network.load(link, bin).filter(|load| *load > IDLE_GBPS) else {
            continue;
        };
        if !network.is_between_switches(link) {
            continue;
        }
        let [from, to] = network.ends(link).map(|(guid, _)| guid);
        let (up, down) = (by_leaf.get(&from), by_leaf.get(&to));
        // Packets that leave a leaf switch were sent by its hosts, and packets that arrive there
        // go to its hosts.
        let senders = up.map(|leaf| by_owner(leaf, &hosts.owners, &hosts.sends));
        let receivers = down.map(|leaf| by_owner(leaf, &hosts.owners, &hosts.receives));
        let (sent, received) = (
            senders.as_ref().unwrap_or(&all_sent),
            receivers.as_ref().unwrap_or(&all_received),
        );
        let apart = match (senders.as_ref(), receivers.as_ref()) {
            (Some(up), None) => most_of(up, &hosts.owners),
            (None, Some(down)) => most_of(down, &hosts.owners),
            // On a link between two leaf switches, both limits hold.
            (Some(up), Some(down)) => {
                let down = most_of(down, &hosts.owners);
                most_of(up, &hosts.owners)
                    .into_iter()
                    .filter_map(|(owner, most)| Some((owner, most.min(*down.get(&owner)?))))
                    .collect()
            }
            (None, None) => continue,
        };
        parts
            .by_link
            .insert(link, of_most(&always(sent, received), &apart, load));
    }
    parts
}

/// Returns the upper bounds of the owners in the traffic of some hosts, if hosts of different
/// jobs exchange no data. Hosts without a job exchange data with every job.
fn most_of(own: &Most, owners: &[Owner]) -> Most {
    let shared = own.get(&NO_JOB).copied().unwrap_or(0.0);
    let mut most: Most = own
        .iter()
        .map(|(owner, own)| (*owner, if *owner == NO_JOB { *own } else { own + shared }))
        .collect();
    if shared > 0.0 {
        // A job without a host at this leaf switch can exchange data with its hosts that have no
        // job.
        owners.iter().for_each(|owner| {
            most.entry(*owner).or_insert(shared);
        });
    }
    most
}
