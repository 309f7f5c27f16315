//! Finds which hosts can send over each link, and to which hosts, by the forwarding tables.

use ibnet_record::types::Guid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::bounds::{HostLoads, Most, always, by_owner};
use super::network::{LinkIndex, Network};
use crate::routing::Paths;

/// Max number of links on all paths from leaf switches to hosts, which limits the memory.
const MAX_STEPS: usize = 20_000_000;

/// The hosts on both sides of each link, which do not depend on the jobs.
pub(super) struct Reach {
    by_link: Vec<Ends>,
}

/// Possible senders and receivers of the packets of a link, as indices of [`Network::hosts`].
#[derive(Default)]
struct Ends {
    senders: Vec<usize>,
    receivers: Vec<usize>,
}

impl Reach {
    /// Follows the paths from all leaf switches to all hosts. Returns `None` if they have more
    /// than [`MAX_STEPS`] links.
    pub(super) fn new(network: &Network<'_>, paths: &Paths<'_>) -> Option<Self> {
        let mut by_leaf: FxHashMap<Guid, Vec<usize>> = FxHashMap::default();
        for (index, host) in network.hosts.iter().enumerate() {
            let leaf = host.port.leaf;
            leaf.into_iter()
                .for_each(|leaf| by_leaf.entry(leaf).or_default().push(index));
        }
        let (mut leaves, mut receivers): (Vec<FxHashSet<Guid>>, Vec<FxHashSet<usize>>) =
            Default::default();
        leaves.resize_with(network.net.channels().len(), FxHashSet::default);
        receivers.resize_with(network.net.channels().len(), FxHashSet::default);
        let (mut path, mut steps): (Vec<LinkIndex>, usize) = (Vec::new(), 0);
        for (leaf, hosts) in &by_leaf {
            let Some(from) = hosts.first() else { continue };
            for to in 0..network.hosts.len() {
                path.clear();
                network.path(*from, to, paths, &mut path);
                steps += path.len();
                for link in &path {
                    leaves[*link as usize].insert(*leaf);
                    receivers[*link as usize].insert(to);
                }
            }
            if steps > MAX_STEPS {
                return None;
            }
        }
        let ends = |(leaves, receivers): (FxHashSet<Guid>, FxHashSet<usize>)| Ends {
            senders: leaves
                .iter()
                .filter_map(|leaf| by_leaf.get(leaf))
                .flatten()
                .copied()
                .collect(),
            receivers: receivers.into_iter().collect(),
        };
        Some(Self {
            by_link: leaves.into_iter().zip(receivers).map(ends).collect(),
        })
    }

    /// Returns the upper bounds of the owners on a link in a bin, without an assumption about
    /// jobs.
    pub(super) fn most(&self, link: LinkIndex, hosts: &HostLoads) -> Most {
        let Some(ends) = self.by_link.get(link as usize) else {
            return Most::default();
        };
        always(
            &by_owner(&ends.senders, &hosts.owners, &hosts.sends),
            &by_owner(&ends.receivers, &hosts.owners, &hosts.receives),
        )
    }
}
