//! Suggests as few sampler hosts as possible.
//!
//! The hosts are spread over the leaf switches, which are picked one after another: always the
//! leaf switch that is the most hops away from its nearest sampler. On a tie, the one whose
//! neighbourhood has the most ports per sampler is picked. A leaf switch gets a second host only
//! after every leaf switch has one.
//!
//! To verify the suggestion, this module makes the plan with the suggested hosts, and returns the
//! plan as part of the result.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::count::count;
use ibnet_record::types::NodeKind;
use miette::Diagnostic;
use rayon::prelude::*;

use crate::partition::hosts::{self, HostsError};
use crate::partition::{Plan, PlanError, Reason, Request, plan, something_to_sample};
use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph};

/// Suggested sampler hosts and their plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggested {
    /// Hosts as a host list for `--samplers`.
    pub list: String,
    /// Lower bound of the number of samplers.
    pub at_least: usize,
    /// Plan with these hosts.
    pub plan: Plan,
    /// Name of the leaf switch of each host, in the order of the shares. The names are untrusted.
    pub switches: Vec<String>,
    /// Number of skipped names: several hosts share such a name, or a host list cannot contain it.
    pub unnamable: usize,
}

/// Reason why no hosts can be suggested.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum SuggestError {
    /// No plan is possible with any set of samplers.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    /// The suggested host list cannot be parsed, which is an error of this program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Hosts(#[from] HostsError),
    /// There are fewer hosts than necessary samplers.
    #[error("cannot suggest {wanted} samplers: only {} to choose from{}", count(*hosts, "host"), other_names(*unnamable))]
    #[diagnostic(help("{}", remedies(*enough, *unnamable)))]
    TooFewHosts {
        /// Number of necessary samplers.
        wanted: usize,
        /// Number of hosts.
        hosts: usize,
        /// Number of names that were skipped.
        unnamable: usize,
        /// Cap with which these hosts are sufficient. `None` if a larger cap does not help.
        enough: Option<u32>,
    },
}

/// Options of a suggestion.
#[derive(Clone, Debug)]
pub struct SuggestOptions {
    /// The cap: max number of ports of a sampler.
    pub cap: u32,
    /// Number of hosts to suggest, or `None` for as few as possible.
    pub count: Option<usize>,
    /// Hosts to choose from, or `None` for all.
    pub among: Option<BTreeSet<String>>,
}

/// Suggests hosts.
///
/// # Errors
/// Returns an error if there is nothing to sample, or the hosts are too few for the cap.
pub fn suggest(fabric: &Fabric, options: &SuggestOptions) -> Result<Suggested, SuggestError> {
    let SuggestOptions {
        cap,
        count,
        ref among,
    } = *options;
    something_to_sample(fabric)?;
    let at_least = fewest(fabric, cap);
    let candidates = Candidates::of(fabric, among.as_ref());
    let mut wanted = count.unwrap_or(at_least);
    loop {
        let picked = candidates.pick(wanted);
        if picked.len() < wanted {
            return Err(candidates.too_few(fabric, cap, wanted, count));
        }
        let parts: Vec<_> = picked.iter().map(|pick| pick.part.clone()).collect();
        let list = hosts::fold(&parts);
        let samplers = hosts::locate(&hosts::parse_list(&list)?, &[], fabric)?;
        match plan(&Request {
            fabric,
            samplers,
            cap,
        }) {
            Ok(plan) => {
                let leaf_of: BTreeMap<&str, DeviceId> =
                    picked.iter().map(|pick| (&*pick.host, pick.leaf)).collect();
                let switches = plan
                    .shares
                    .iter()
                    .map(|share| fabric.device(leaf_of[&*share.host.name]).name.clone())
                    .collect();
                return Ok(Suggested {
                    list,
                    at_least,
                    plan,
                    switches,
                    unnamable: candidates.unnamable,
                });
            }
            Err(PlanError::TooFewSamplers { missing, .. }) if count.is_none() => {
                wanted += missing.max(1);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns a lower bound of the number of samplers. Each device with more ports than the cap
/// needs its own sampler; all other ports need at least their number divided by the cap.
fn fewest(fabric: &Fabric, cap: u32) -> usize {
    let sampled = fabric
        .devices()
        .iter()
        .filter(|device| Reason::of(fabric, device).is_none());
    let (large, others): (Vec<u32>, Vec<u32>) = sampled
        .map(|device| device.linked_ports() as u32)
        .partition(|ports| *ports > cap);
    large.len() + others.iter().sum::<u32>().div_ceil(cap) as usize
}

/// A suggested host.
#[derive(Clone, Debug)]
struct Pick {
    host: String,
    /// Entry for the host list: with HCA and port if the host has several.
    part: String,
    leaf: DeviceId,
}

/// A host on a leaf switch.
#[derive(Clone, Debug)]
struct Candidate {
    host: String,
    part: String,
    /// Indices of the leaves to which the sending ports of the host are connected.
    leaves: Vec<usize>,
}

/// Hosts to choose from, by leaf.
struct Candidates {
    /// Leaf switches. A host without a switch is its own leaf.
    leaves: Vec<DeviceId>,
    /// Number of ports of each leaf, including its HCA ports.
    weights: Vec<u64>,
    /// `[leaf]`: hosts of the leaf, the best ones first.
    hosts: Vec<Vec<Candidate>>,
    /// `[leaf][leaf]`: number of links between the two leaves, at most [`Self::farthest`].
    hops: Vec<Vec<u16>>,
    farthest: u16,
    /// Number of different hosts.
    count: usize,
    unnamable: usize,
}

impl Candidates {
    fn of(fabric: &Fabric, among: Option<&BTreeSet<String>>) -> Self {
        let graph = Graph::new(fabric);
        let sampled = |id: &DeviceId| Reason::of(fabric, fabric.device(*id)).is_none();
        let is_switch = |id: &DeviceId| fabric.device(*id).kind == NodeKind::Switch;
        let leaf_of = |id: DeviceId| {
            graph
                .neighbours(id)
                .iter()
                .copied()
                .filter(is_switch)
                .find(sampled)
                .unwrap_or(id)
        };
        let ports = |id: DeviceId| fabric.device(id).linked_ports() as u64;

        let mut by_host: BTreeMap<&str, Vec<DeviceId>> = BTreeMap::new();
        let mut weights: BTreeMap<DeviceId, u64> = BTreeMap::new();
        let hcas = fabric.iter().filter(|(id, device)| {
            device.kind == NodeKind::Hca && device.linked_ports() > 0 && sampled(id)
        });
        for (id, device) in hcas {
            by_host.entry(device.host()).or_default().push(id);
            let leaf = leaf_of(id);
            *weights
                .entry(leaf)
                .or_insert_with(|| if leaf == id { 0 } else { ports(leaf) }) += ports(id);
        }
        let leaves: Vec<_> = weights.keys().copied().collect();
        let index_of = |leaf: DeviceId| leaves.binary_search(&leaf).unwrap_or_default();
        let mut hosts: Vec<Vec<Candidate>> = vec![Vec::new(); leaves.len()];
        let (mut count, mut unnamable) = (0, 0);
        for (host, devices) in by_host
            .iter()
            .filter(|(host, _)| among.is_none_or(|among| among.contains(**host)))
        {
            if !is_namable(host, devices, fabric) {
                unnamable += 1;
                continue;
            }
            count += 1;
            let all: BTreeSet<_> = devices.iter().map(|id| index_of(leaf_of(*id))).collect();
            for leaf in all.iter().copied() {
                let here = devices.iter().find(|id| index_of(leaf_of(**id)) == leaf);
                let sends = here
                    .and_then(|id| sender(fabric.device(*id)))
                    .filter(|_| devices.len() > 1);
                let (part, leaves) = match sends {
                    Some(sends) => (format!("{host}:{sends}"), vec![leaf]),
                    None => ((*host).to_owned(), all.iter().copied().collect()),
                };
                hosts[leaf].push(Candidate {
                    host: (*host).to_owned(),
                    part,
                    leaves,
                });
            }
        }
        // Hosts with one port come first, because they cannot choose from which port they send.
        // After that, hosts are sorted by the length of their name and the name, which is the order
        // of their numbers.
        let rails = |host: &str| by_host.get(host).map_or(0, Vec::len);
        for on_leaf in &mut hosts {
            on_leaf.sort_by_key(|candidate| {
                (
                    rails(&candidate.host),
                    candidate.host.len(),
                    candidate.host.clone(),
                )
            });
        }
        let (hops, farthest) = distances(&graph, &leaves);
        let weights = weights.into_values().collect();
        Self {
            leaves,
            weights,
            hosts,
            hops,
            farthest,
            count,
            unnamable,
        }
    }

    /// Picks up to `wanted` hosts.
    fn pick(&self, wanted: usize) -> Vec<Pick> {
        let within = self.weights_within();
        let steps = usize::from(self.farthest) + 2;
        // A table `[leaf][hops]`: number of samplers at this distance from the leaf.
        let mut samplers = vec![vec![0_u64; steps]; self.leaves.len()];
        let mut left: Vec<_> = self.hosts.iter().map(|hosts| hosts.iter()).collect();
        let mut taken: BTreeSet<&str> = BTreeSet::new();
        let mut picked = Vec::with_capacity(wanted.min(self.count));
        let mut next: Vec<Option<&Candidate>> = left.iter_mut().map(Iterator::next).collect();
        while picked.len() < wanted {
            for (leaf, next) in next.iter_mut().enumerate() {
                while next.is_some_and(|candidate| taken.contains(&*candidate.host)) {
                    *next = left[leaf].next();
                }
            }
            let key = |leaf: &usize| {
                let nearest = samplers[*leaf]
                    .iter()
                    .position(|count| *count > 0)
                    .unwrap_or(steps - 1);
                let sharing = samplers[*leaf][nearest] + 1;
                let closer = if nearest == 0 {
                    0
                } else {
                    within[*leaf][nearest - 1]
                };
                // Ports per sampler in millionths, because integers can be compared exactly.
                (
                    nearest,
                    within[*leaf][nearest] * 1_000_000 / sharing,
                    closer,
                    self.weights[*leaf],
                    Reverse(*leaf),
                )
            };
            let Some(leaf) = (0..self.leaves.len())
                .filter(|leaf| next[*leaf].is_some())
                .max_by_key(key)
            else {
                break;
            };
            let Some(candidate) = next[leaf].take() else {
                break;
            };
            next[leaf] = left[leaf].next();
            taken.insert(&candidate.host);
            for (from, counts) in samplers.iter_mut().enumerate() {
                let hops = candidate
                    .leaves
                    .iter()
                    .map(|to| self.hops[from][*to])
                    .min()
                    .unwrap_or(self.farthest);
                counts[usize::from(hops)] += 1;
            }
            picked.push(Pick {
                host: candidate.host.clone(),
                part: candidate.part.clone(),
                leaf: self.leaves[leaf],
            });
        }
        picked
    }

    /// Returns a table `[leaf][hops]`: number of ports of all leaves within this distance of the
    /// leaf.
    fn weights_within(&self) -> Vec<Vec<u64>> {
        let of_leaf = |hops: &Vec<u16>| {
            let mut within = vec![0; usize::from(self.farthest) + 2];
            hops.iter()
                .zip(&self.weights)
                .for_each(|(hops, weight)| within[usize::from(*hops)] += weight);
            let mut sum = 0;
            within.iter().map(|weight| (sum += weight, sum).1).collect()
        };
        self.hops.par_iter().map(of_leaf).collect()
    }

    fn too_few(
        &self,
        fabric: &Fabric,
        cap: u32,
        wanted: usize,
        count: Option<usize>,
    ) -> SuggestError {
        let enough = count
            .is_none()
            .then(|| self.cap_for_all(fabric, cap))
            .flatten();
        SuggestError::TooFewHosts {
            wanted,
            hosts: self.count,
            unnamable: self.unnamable,
            enough,
        }
    }

    /// Returns the cap with which all hosts together are sufficient.
    fn cap_for_all(&self, fabric: &Fabric, cap: u32) -> Option<u32> {
        let parts: Vec<_> = self
            .pick(self.count)
            .into_iter()
            .map(|pick| pick.part)
            .collect();
        let samplers =
            hosts::locate(&hosts::parse_list(&hosts::fold(&parts)).ok()?, &[], fabric).ok()?;
        match plan(&Request {
            fabric,
            samplers,
            cap,
        }) {
            Err(PlanError::TooFewSamplers { enough, .. }) => Some(enough),
            _ => None,
        }
    }
}

/// Returns the number of links between all pairs of leaves, and the max of these numbers. An
/// unreachable leaf counts as one link more than the farthest reachable one.
fn distances(graph: &Graph, leaves: &[DeviceId]) -> (Vec<Vec<u16>>, u16) {
    let from = |leaf: &DeviceId| -> Vec<u16> {
        let hops = graph.hops_from([*leaf]);
        leaves.iter().map(|other| hops[other.0 as usize]).collect()
    };
    let mut hops: Vec<_> = leaves.par_iter().map(from).collect();
    let known = hops
        .iter()
        .flatten()
        .copied()
        .filter(|hops| *hops != UNREACHABLE);
    let farthest = known.max().unwrap_or(0) + 1;
    hops.iter_mut()
        .flatten()
        .for_each(|hops| *hops = (*hops).min(farthest));
    (hops, farthest)
}

/// Returns whether a name selects exactly one host in a host list. Hosts without a configured
/// node description do not have such a name, because they share that of their HCA model.
fn is_namable(host: &str, devices: &[DeviceId], fabric: &Fabric) -> bool {
    let alone = hosts::parse_list(host)
        .is_ok_and(|list| matches!(&list[..], [only] if only.host == host && only.ca.is_none()));
    let key = |id: &DeviceId| {
        let device = fabric.device(*id);
        (&*device.name, device.ports.first().map(|port| port.num))
    };
    let keys: BTreeSet<_> = devices.iter().map(key).collect();
    alone && keys.len() == devices.len()
}

/// Returns HCA and port, such as `mlx5_1:1`, if the second and last word of the node description
/// is a device name.
fn sender(device: &Device) -> Option<String> {
    let mut words = device.name.split_whitespace().skip(1);
    let ca = words.next().filter(|_| words.next().is_none())?;
    let is_device = ca.starts_with(|c: char| c.is_ascii_lowercase())
        && ca.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let port = device.ports.first().filter(|_| is_device)?;
    Some(format!("{ca}:{}", port.num))
}

fn other_names(unnamable: usize) -> String {
    match unnamable {
        0 => String::new(),
        1 => {
            "; 1 name was skipped, because several hosts share it or a host list cannot contain it"
                .to_owned()
        }
        _ => format!(
            "; {unnamable} names were skipped, because several hosts share them or a host list cannot contain them"
        ),
    }
}

fn remedies(enough: Option<u32>, unnamable: usize) -> String {
    let first = enough.map_or_else(
        || "ask for fewer hosts".to_owned(),
        |cap| format!("raise the cap: `--cap {cap}` is enough"),
    );
    let names = ";\nor give each host its own name in its node description (`rdma-ndd` does this)";
    first + if unnamable > 0 { names } else { "" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::ports_report;
    use crate::topology::synthetic::{self, Blueprint, FatTree};

    fn suggest(fabric: &Fabric, cap: u32, count: Option<usize>) -> Result<Suggested, SuggestError> {
        super::suggest(
            fabric,
            &SuggestOptions {
                cap,
                count,
                among: None,
            },
        )
    }

    fn read(blueprint: &Blueprint) -> Fabric {
        ports_report::parse(blueprint.ports_report().as_bytes(), "net.p")
            .unwrap()
            .fabric
    }

    /// Plans with a list, as an administrator who pastes it.
    fn pasted(fabric: &Fabric, list: &str, cap: u32) -> Result<Plan, PlanError> {
        let samplers = hosts::locate(&hosts::parse_list(list).unwrap(), &[], fabric).unwrap();
        plan(&Request {
            fabric,
            samplers,
            cap,
        })
    }

    #[test]
    fn seven_hosts_on_seven_leaves_are_enough_for_the_paper_fabric() {
        let fabric = read(&synthetic::stria());
        let suggested = suggest(&fabric, 150, None).unwrap();
        assert_eq!((suggested.plan.shares.len(), suggested.at_least), (7, 7));
        assert_eq!(
            suggested.list,
            "node[00001,00025,00049,00073,00097,00121,00145]"
        );
        assert_eq!(
            suggested.switches.iter().collect::<BTreeSet<_>>().len(),
            7,
            "{:?}",
            suggested.switches
        );
        assert_eq!(
            pasted(&fabric, &suggested.list, 150).unwrap(),
            suggested.plan
        );
    }

    #[test]
    fn each_leaf_gets_one_host_before_a_second() {
        let fabric = read(&synthetic::stria());
        // There are 12 compute leaves. The servers of the island have a port on both switches of a
        // pair.
        for count in 7..=40 {
            let suggested = suggest(&fabric, 150, Some(count)).unwrap();
            assert_eq!(suggested.plan.shares.len(), count);
            let leaves: BTreeSet<_> = suggested.switches.iter().collect();
            assert_eq!(leaves.len(), count.min(16), "{count}: {}", suggested.list);
        }
        let error = suggest(&fabric, 150, Some(6)).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot place 968 ports: they do not fit on 6 samplers with at most 150 ports each; missing samplers: at least 1"
        );
        let error = suggest(&fabric, 150, Some(400)).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot suggest 400 samplers: only 302 hosts to choose from"
        );
    }

    #[test]
    fn only_permitted_hosts_are_suggested() {
        let fabric = read(&synthetic::stria());
        let among = [
            "admin1",
            "admin2",
            "oss1",
            "oss2",
            "node00002",
            "node00026",
            "node00050",
        ]
        .map(str::to_owned);
        let options = SuggestOptions {
            cap: 150,
            count: None,
            among: Some(among.into()),
        };
        assert_eq!(
            super::suggest(&fabric, &options).unwrap().list,
            "node[00002,00026,00050],oss[1-2]:mlx5_0:1,admin[1-2]:mlx5_0:2"
        );
        let error = super::suggest(
            &fabric,
            &SuggestOptions {
                cap: 100,
                ..options.clone()
            },
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot suggest 10 samplers: only 7 hosts to choose from"
        );
        let SuggestError::TooFewHosts {
            enough: Some(cap), ..
        } = error
        else {
            panic!("{error}")
        };
        assert!(
            super::suggest(&fabric, &SuggestOptions { cap, ..options }).is_ok(),
            "the named cap is enough"
        );
    }

    #[test]
    fn pods_get_samplers_by_their_size() {
        let fabric = read(&synthetic::large());
        let suggested = suggest(&fabric, 900, None).unwrap();
        let mut of_pod: BTreeMap<&str, usize> = BTreeMap::new();
        for switch in &suggested.switches {
            *of_pod.entry(switch.split('-').next().unwrap()).or_default() += 1;
        }
        let counts: Vec<_> = of_pod.values().copied().collect();
        assert_eq!(counts.iter().sum::<usize>(), suggested.plan.shares.len());
        // There are six complete pods and one of half the size.
        assert!(
            counts[..6].iter().all(|count| (7..=8).contains(count)) && (3..=4).contains(&counts[6]),
            "{counts:?}"
        );
    }

    #[test]
    fn host_with_several_hcas_is_named_with_its_sending_port() {
        let mut net = Blueprint::new("NDR");
        let leaves: Vec<_> = (0..4)
            .map(|n| net.switch(&format!("leaf{n}"), 16))
            .collect();
        for host in 1..=8 {
            for (rail, leaf) in leaves.iter().enumerate() {
                let hca = net.adapter(&format!("gpu{host} mlx5_{rail}"), 1);
                net.cable((hca, 1), (*leaf, host));
            }
        }
        let suggested = suggest(&read(&net), 16, None).unwrap();
        assert_eq!(
            suggested.list,
            "gpu1:mlx5_0:1,gpu2:mlx5_1:1,gpu3:mlx5_2:1,gpu4:mlx5_3:1"
        );
        assert_eq!(suggested.switches, ["leaf0", "leaf1", "leaf2", "leaf3"]);
    }

    #[test]
    fn shared_names_are_skipped() {
        let mut net = Blueprint::new("NDR");
        let leaf = net.switch("leaf", 16);
        for (port, name) in [
            "MT4129 ConnectX7   Mellanox Technologies",
            "MT4129 ConnectX7   Mellanox Technologies",
            "[0-99] x",
            "n1 mlx5_0",
        ]
        .iter()
        .enumerate()
        {
            let hca = net.adapter(name, 1);
            net.cable((hca, 1), (leaf, port + 1));
        }
        let fabric = read(&net);
        let suggested = suggest(&fabric, 150, None).unwrap();
        assert_eq!((suggested.list.as_str(), suggested.unnamable), ("n1", 2));
        let error = suggest(&fabric, 5, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot suggest 2 samplers: only 1 host to choose from; 2 names were skipped, because several hosts share them or a host list cannot contain them"
        );
        assert!(
            error
                .help()
                .unwrap()
                .to_string()
                .starts_with("raise the cap: `--cap 8` is enough")
        );
    }

    #[test]
    fn directly_connected_hosts_can_be_samplers() {
        let mut net = Blueprint::new("NDR");
        let (one, two) = (net.adapter("one mlx5_0", 1), net.adapter("two mlx5_0", 1));
        net.cable((one, 1), (two, 1));
        let suggested = suggest(&read(&net), 1, None).unwrap();
        assert_eq!(suggested.list, "one,two");
    }

    proptest! {
        #[test]
        fn suggestion_can_be_planned_and_is_minimal(
            (leaves, hosts, spines, trunk) in (1..8_usize, 1..7_usize, 1..4_usize, 1..3_usize),
            cap in 4..80_u32,
        ) {
            let fabric = read(&FatTree { leaves, hosts, spines, trunk, radix: 36 }.blueprint());
            match suggest(&fabric, cap, None) {
                Ok(suggested) => {
                    let count = suggested.plan.shares.len();
                    prop_assert_eq!(pasted(&fabric, &suggested.list, cap).unwrap(), suggested.plan);
                    let on: BTreeSet<_> = suggested.switches.iter().collect();
                    prop_assert_eq!(on.len(), count.min(leaves));
                    if count > 1 {
                        prop_assert!(suggest(&fabric, cap, Some(count - 1)).is_err());
                    }
                }
                Err(SuggestError::TooFewHosts { enough: Some(enough), .. }) => prop_assert!(suggest(&fabric, enough, None).is_ok()),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }
}
