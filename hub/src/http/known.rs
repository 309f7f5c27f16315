//! The names of all hosts that the hub knows, and the names under which hosts are hidden.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use ibnet_analysis::hosts::host_of;
use ibnet_record::types::{NodeKind, Printable};
use rustc_hash::FxHashSet;

use crate::live::topology::Device;
use crate::state::Hub;

/// Secret from which the names of other hosts follow.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The known names in lower case.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Generation of the topology, and number of samplers.
    of: (u32, usize),
    pub(super) hosts: FxHashSet<String>,
    /// Names of hosts that are not a single word, as they are in texts.
    pub(super) odd: BTreeSet<String>,
    /// Names of switches and routers.
    pub(super) fabric: FxHashSet<String>,
}

/// The last known names.
pub(crate) type LastKnown = Mutex<Arc<Known>>;

impl Known {
    pub(super) fn of(hub: &Hub, last: &LastKnown) -> Arc<Self> {
        let state = hub.read();
        let (topology, samplers) = (Arc::clone(&state.topology), state.samplers.counts().0);
        let of = (topology.generation, samplers);
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.of == of {
            return Arc::clone(&last);
        }
        let samplers = state.samplers.rows();
        drop(state);
        let is_fabric =
            |device: &&Device| matches!(device.kind, Some(NodeKind::Switch | NodeKind::Router));
        let fabric = topology.devices.iter().filter(is_fabric);
        let mut known = Self {
            of,
            fabric: fabric.map(|device| device.node.to_lowercase()).collect(),
            ..Self::default()
        };
        let devices = topology.devices.iter().map(|device| &*device.node);
        let peers = topology
            .ports
            .iter()
            .filter_map(|port| port.peer_node.as_deref());
        let nodes = devices.chain(peers);
        nodes
            .chain(samplers.iter().map(|row| &*row.sampler))
            .for_each(|node| known.add(node));
        *last = Arc::new(known);
        Arc::clone(&last)
    }

    /// Adds the host of a node description, unless it is that of a switch.
    fn add(&mut self, node: &str) {
        let host = host_of(node);
        if !host.is_empty() && !self.fabric.contains(&node.to_lowercase()) {
            if words(host).next() != Some(host) {
                self.odd
                    .extend([host.to_owned(), Printable(host).to_string()]);
            }
            self.hosts.insert(host.to_lowercase());
        }
    }
}

/// Returns the name that hides a host of another user.
pub(super) fn other_host(host: &str) -> String {
    let hash = SECRET.hash_one(host.to_lowercase());
    format!("other-host-{:08x}", hash >> 32)
}

/// Returns the words of a text that can be names.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "._-".contains(c)))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(|word| !word.is_empty())
}
