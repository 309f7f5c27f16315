//! The results for one job: its links, the other jobs on them, and the roots that held it up.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::Guid;
use serde::Serialize;

use super::bounds::{Owner, Part};
use super::network::LinkIndex;
use super::{ByOwner, COUNTS, Method, Octets, Shares};
use crate::hosts::Hosts;
use crate::ports::PortName;
use crate::trees::{RootCause, Trees};

/// Max number of links and of roots in the result.
const MAX: usize = 32;

/// A root is active in a bin if it was used or blocked for more than this share, 0 to 1. In the
/// first and the last bin of a congestion, the root is full only for a part of the time.
const ACTIVE: f64 = 0.5;

/// Who shared the links of a job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sharing {
    /// How the shares were computed.
    pub method: Method,
    /// Length of the bins in nanoseconds. The bounds and the estimate hold for each of them.
    pub interval_ns: u64,
    /// Part of the data on links between switches that the estimate does not explain, 0 to 1.
    /// Null without routes.
    pub unexplained: Option<f64>,
    /// Time of the bins in which the counters show that hosts of different jobs exchange data, in
    /// seconds. There the estimate is wrong, and the bounds `_if_apart` equal the others.
    pub contradicted_seconds: f64,
    /// Whether the routes could not be used because there are too many pairs of hosts.
    pub has_too_many_pairs: bool,
    /// Jobs that shared links with the job, the one with most bytes on these links first.
    pub neighbours: Vec<Neighbour>,
    /// Ports for which the hosts of the job waited, longest wait first.
    pub roots: Vec<RootShare>,
    /// Links that the job shared with others, most crowded first.
    pub links: Vec<LinkShare>,
}

/// Another job on the links of the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Neighbour {
    /// Job ID. Null for the traffic without a job.
    pub job: Option<String>,
    /// Number of links on which both jobs had more than 1 % of the data at the same time.
    pub links: usize,
    /// Max time for which both jobs used a link, in seconds.
    pub seconds: f64,
    /// Number of roots that held up the job and carried data of the other job.
    pub roots: usize,
    /// Bytes of the other job on these links in this time.
    #[serde(flatten)]
    pub share: JobShare,
}

/// Bytes of a job on one or several links.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct JobShare {
    /// Lower bound of the bytes, even if hosts of different jobs exchange data.
    pub least_bytes: f64,
    /// Estimate of the bytes. Null without routes.
    pub estimate_bytes: Option<f64>,
    /// Upper bound of the bytes, even if hosts of different jobs exchange data.
    pub most_bytes: f64,
    /// Lower bound of the bytes if hosts of different jobs exchange no data.
    pub least_if_apart_bytes: f64,
    /// Upper bound of the bytes if hosts of different jobs exchange no data.
    pub most_if_apart_bytes: f64,
}

/// A job on a link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobOnLink {
    /// Job ID. Null for the traffic without a job.
    pub job: Option<String>,
    /// Time in which the job had more than 1 % of the data of the link, in seconds.
    pub seconds: f64,
    /// Bytes of the job.
    #[serde(flatten)]
    pub share: JobShare,
}

/// A link that the job shared with others, in the time in which it used the link.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LinkShare {
    /// The sending port.
    pub from: PortName,
    /// The receiving port.
    pub to: PortName,
    /// Width and speed, such as `4xEDR`.
    pub link: String,
    /// Time in which the job used the link, in seconds.
    pub seconds: f64,
    /// Bytes of all jobs in this time.
    pub bytes: f64,
    /// Mean utilization in this time, 0 to 1.
    pub xmit_utilization: f64,
    /// Mean share of this time in which the sending port was blocked, 0 to 1.
    pub blocked: f64,
    /// The jobs on the link, and the traffic without a job. The job itself is the first one.
    pub jobs: Vec<JobOnLink>,
}

/// A root that held up the job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RootShare {
    /// The port where the congestion begins.
    pub root: PortName,
    /// The port at the other end of its link.
    pub to: Option<PortName>,
    /// Cause of the congestion.
    pub why: RootCause,
    /// Time during which the congestion existed, in seconds.
    pub seconds: f64,
    /// Time for which the ports of the job's hosts waited for this root, or for several roots
    /// including this one, summed over the ports, in seconds.
    pub job_blocked_seconds: f64,
    /// Bytes of all jobs through the root while it was full or blocked.
    pub bytes: f64,
    /// The jobs that sent through the root, largest first. Empty if the method has no shares of
    /// this link.
    pub jobs: Vec<JobOnLink>,
}

/// Bytes of each owner on a link.
type OctetsOfOwners = Vec<(Owner, Octets)>;

impl From<Octets> for JobShare {
    fn from(octets: Octets) -> Self {
        let (least_if_apart_bytes, most_if_apart_bytes) = octets.apart;
        let Octets {
            least: least_bytes,
            estimate: estimate_bytes,
            most: most_bytes,
            ..
        } = octets;
        Self {
            least_bytes,
            estimate_bytes,
            most_bytes,
            least_if_apart_bytes,
            most_if_apart_bytes,
        }
    }
}

impl JobShare {
    /// Returns the estimate, or the upper bound if there is none.
    pub fn likely(&self) -> f64 {
        self.estimate_bytes.unwrap_or(self.most_if_apart_bytes)
    }
}

impl Shares<'_> {
    /// Returns the result for a job, given by its index in the list of [`Shares::of`]. `trees`
    /// has the congestion of the same records.
    pub fn for_job(&self, job: usize, hosts: &Hosts, trees: &Trees) -> Sharing {
        let job = u32::try_from(job).unwrap_or(u32::MAX);
        let own = self.owners_of(job);
        let mut neighbours: BTreeMap<Owner, Neighbour> = BTreeMap::new();
        let mut sums: ByOwner = ByOwner::default();
        let mut links: Vec<(f64, LinkShare)> = Vec::new();
        let leaves = self.leaves_of(hosts);
        for link in self.links().filter(|link| self.is_near(*link, &leaves)) {
            if let Some((weight, shared, others)) = self.link_share(link, &own) {
                for (owner, octets) in others {
                    let neighbour = neighbours.entry(owner).or_insert_with(|| Neighbour {
                        job: self.owners[owner as usize].clone(),
                        links: 0,
                        seconds: 0.0,
                        roots: 0,
                        share: JobShare::default(),
                    });
                    neighbour.links += 1;
                    neighbour.seconds = neighbour.seconds.max(octets.seconds);
                    let sum = sums.entry(owner).or_default();
                    sum.least += octets.least;
                    sum.most += octets.most;
                    sum.apart = (sum.apart.0 + octets.apart.0, sum.apart.1 + octets.apart.1);
                    sum.estimate = octets
                        .estimate
                        .map(|more| sum.estimate.unwrap_or(0.0) + more)
                        .or(sum.estimate);
                }
                links.push((weight, shared));
            }
        }
        let roots = self.roots(hosts, trees);
        for (owner, neighbour) in &mut neighbours {
            neighbour.share = sums.get(owner).copied().unwrap_or_default().into();
            let is_on = |root: &RootShare| {
                root.jobs
                    .iter()
                    .any(|one| one.job == neighbour.job && one.seconds > 0.0)
            };
            neighbour.roots = roots.iter().filter(|root| is_on(root)).count();
        }
        let mut neighbours: Vec<Neighbour> = neighbours.into_values().collect();
        neighbours.sort_by(|a, b| b.share.likely().total_cmp(&a.share.likely()));
        links.sort_by(|a, b| b.0.total_cmp(&a.0));
        Sharing {
            method: self.method(),
            interval_ns: self.bin_ns,
            unexplained: self.unexplained(),
            contradicted_seconds: self.contradicted_seconds(),
            has_too_many_pairs: self.has_too_many_pairs,
            neighbours,
            roots,
            links: links.into_iter().take(MAX).map(|(_, link)| link).collect(),
        }
    }

    /// Returns whether a link can be one of a job with hosts at these leaf switches. Without
    /// routes, links farther away are left out, because their bounds exclude no job.
    fn is_near(&self, link: LinkIndex, leaves: &BTreeSet<Guid>) -> bool {
        let [from, to] = self.network.ends(link).map(|(guid, _)| guid);
        self.method() == Method::Routes || leaves.contains(&from) || leaves.contains(&to)
    }

    /// Returns the leaf switches of hosts.
    fn leaves_of(&self, hosts: &Hosts) -> BTreeSet<Guid> {
        let own = self
            .network
            .hosts
            .iter()
            .filter(|host| hosts.contains_node(host.port.host));
        own.filter_map(|host| host.port.leaf).collect()
    }

    /// Returns a link that the job shared with others: its weight for sorting, its shares, and
    /// the other owners.
    fn link_share(
        &self,
        link: LinkIndex,
        own: &BTreeSet<Owner>,
    ) -> Option<(f64, LinkShare, OctetsOfOwners)> {
        let likely = |owners: &[(Owner, Part)], is_in: &dyn Fn(Owner) -> bool| {
            owners
                .iter()
                .filter(|(owner, _)| is_in(*owner))
                .map(|(_, part)| part.likely())
                .sum::<f64>()
        };
        let uses = |bin: u64, owners: &[(Owner, Part)]| {
            let load = self.network.load(link, bin).unwrap_or(0.0);
            likely(owners, &|owner| own.contains(&owner)) > COUNTS * load
        };
        let (sums, bytes, seconds) = self.on(link, uses);
        if sums.is_empty() || bytes <= 0.0 {
            return None;
        }
        let others: Vec<(Owner, Octets)> = sums
            .iter()
            .filter(|(owner, octets)| !own.contains(owner) && octets.seconds > 0.0)
            .map(|(owner, octets)| (*owner, *octets))
            .collect();
        if others.is_empty() {
            return None;
        }
        // The time in which others used the link too, weighted by the load of the link.
        let (mut weight, mut used, mut blocked) = (0.0, 0.0, 0.0);
        let bin_seconds = self.bin_ns as f64 / 1e9;
        for (bin, parts) in &self.bins {
            let Some(owners) = parts.by_link.get(&link).filter(|owners| uses(*bin, owners)) else {
                continue;
            };
            let load = self.network.load(link, *bin).unwrap_or(0.0);
            let (utilization, blocked_share) = self.network.usage(link, *bin);
            used += utilization * bin_seconds;
            blocked += blocked_share * bin_seconds;
            let shared = likely(owners, &|owner| !own.contains(&owner));
            weight += if load > 0.0 {
                self.usage(link, *bin) * bin_seconds * (shared / load).min(1.0)
            } else {
                0.0
            };
        }
        let rate = self
            .network
            .ends(link)
            .iter()
            .find_map(|key| self.ports.get(key))
            .map_or_else(String::new, |port| port.link.to_string());
        let jobs = self.on_link(sums, Some(own));
        let (xmit_utilization, blocked) = (used / seconds, blocked / seconds);
        let channel = self.network.net.channel(link);
        let [from, to] = [channel.from, channel.to].map(|end| self.network.net.name(end));
        let share = LinkShare {
            from,
            to,
            link: rate,
            seconds,
            bytes,
            xmit_utilization,
            blocked,
            jobs,
        };
        Some((weight, share, others))
    }

    /// Returns the jobs on a link: those of `first`, and then the others by size.
    fn on_link(
        &self,
        sums: BTreeMap<Owner, Octets>,
        first: Option<&BTreeSet<Owner>>,
    ) -> Vec<JobOnLink> {
        let is_first = |owner: &Owner| first.is_some_and(|first| first.contains(owner));
        let used = sums
            .into_iter()
            .filter(|(owner, octets)| is_first(owner) || octets.seconds > 0.0);
        let mut jobs: Vec<(bool, JobOnLink)> = used
            .map(|(owner, octets)| {
                let job = JobOnLink {
                    job: self.owners[owner as usize].clone(),
                    seconds: octets.seconds,
                    share: octets.into(),
                };
                (is_first(&owner), job)
            })
            .collect();
        jobs.sort_by(|a, b| {
            b.0.cmp(&a.0)
                .then(b.1.share.likely().total_cmp(&a.1.share.likely()))
        });
        jobs.into_iter().map(|(_, job)| job).collect()
    }

    /// Returns the roots for which hosts waited, with the jobs that sent through them meanwhile.
    fn roots(&self, hosts: &Hosts, trees: &Trees) -> Vec<RootShare> {
        let mut roots: Vec<RootShare> = Vec::new();
        for tree in &trees.trees {
            let is_own = |key| trees.is_host(key) && hosts.contains_node(&trees.name(key).node);
            let waited: f64 = tree
                .branches
                .iter()
                .filter(|(key, _)| is_own(**key))
                .map(|(_, branch)| branch.blocked_seconds)
                .sum();
            if waited <= 0.0 {
                continue;
            }
            // While the root is full, or waits for its host, the ports behind it wait.
            let is_active = |link: LinkIndex, bin: u64| self.usage(link, bin) > ACTIVE;
            let (sums, bytes, _) = match self.network.net.channel_from(tree.root) {
                Some(link) => self.on(link, |bin, _| is_active(link, bin)),
                None => (BTreeMap::new(), 0.0, 0.0),
            };
            roots.push(RootShare {
                root: trees.name(tree.root),
                to: trees.peer(tree.root),
                why: tree.cause,
                seconds: tree.seconds,
                job_blocked_seconds: waited,
                bytes,
                jobs: self.on_link(sums, None),
            });
        }
        roots.sort_by(|a, b| b.job_blocked_seconds.total_cmp(&a.job_blocked_seconds));
        roots.truncate(MAX);
        roots
    }
}
