//! The paths of all pairs of hosts: how many use each link, which pairs are lost, and which entries
//! of the tables have ports without a link.

use std::collections::BTreeMap;

use ibnet_record::types::{Lid, PortNum};
use rayon::prelude::*;

use super::net::{ChannelIndex, DeviceIndex, Role};
use super::paths::{Paths, Stop, Stopped};
use super::walk::Walk;
use crate::routes::port_of;

/// Destinations that a thread takes at once.
const CHUNK: usize = 64;

/// The paths of all pairs of hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// Number of hosts with a LID and a link to a switch: HCA ports.
    pub hosts: usize,
    /// Number of other HCA ports.
    pub left_out: usize,
    /// Number of pairs of a sender and a receiver.
    pub pairs: u64,
    /// Number of pairs whose path uses each channel.
    pub paths: Vec<u64>,
    /// Where packets of hosts stop before their destination.
    pub lost: BTreeMap<Stopped, Lost>,
    /// Ports without a link in the tables of switches, with the number of LIDs of devices that the
    /// table sends there.
    pub dead: BTreeMap<(DeviceIndex, PortNum), u64>,
    /// Switches without a table.
    pub without_table: Vec<DeviceIndex>,
}

/// What is lost at a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Number of destinations.
    pub destinations: u64,
    /// Number of pairs of a sender and a receiver.
    pub pairs: u64,
}

/// A host's switch, and the numbers of hosts on each switch.
pub(super) struct Leaves {
    pub(super) hosts: Vec<DeviceIndex>,
    pub(super) leaves: Vec<DeviceIndex>,
    /// Number of hosts on each device.
    pub(super) sizes: Vec<u64>,
}

impl Leaves {
    pub(super) fn of(paths: &Paths<'_>) -> Self {
        let hosts = paths.hosts();
        let mut sizes = vec![0; paths.net.devices().len()];
        for leaf in hosts.iter().filter_map(|host| paths.leaf(*host)) {
            sizes[leaf as usize] += 1;
        }
        let switches = paths.net.with_role(Role::Switch);
        Self {
            hosts,
            leaves: switches
                .filter(|switch| sizes[*switch as usize] > 0)
                .collect(),
            sizes,
        }
    }
}

/// What a thread has counted.
struct Counted {
    paths: Vec<u64>,
    lost: BTreeMap<Stopped, Lost>,
}

impl Counted {
    fn merge(mut self, other: Self) -> Self {
        for (sum, more) in self.paths.iter_mut().zip(other.paths) {
            *sum += more;
        }
        for (stopped, more) in other.lost {
            let sum = self.lost.entry(stopped).or_default();
            sum.destinations += more.destinations;
            sum.pairs += more.pairs;
        }
        self
    }
}

impl Census {
    /// Follows the paths of all pairs.
    pub fn of(paths: &Paths<'_>) -> Self {
        let leaves = Leaves::of(paths);
        let empty = || Counted {
            paths: vec![0; paths.net.channels().len()],
            lost: BTreeMap::new(),
        };
        let counted = leaves
            .hosts
            .par_chunks(CHUNK)
            .fold(empty, |counted, to| count(paths, &leaves, to, counted))
            .reduce(empty, Counted::merge);
        let hosts = leaves.hosts.len();
        let mut dead = BTreeMap::new();
        let lids: Vec<Lid> = (0..)
            .zip(paths.net.devices())
            .map(|(device, _)| paths.lid(device))
            .filter(|lid| lid.0 > 0)
            .collect();
        for switch in paths.net.with_role(Role::Switch) {
            let Some(table) = paths.table(switch) else {
                continue;
            };
            let ports = lids.iter().filter_map(|lid| port_of(table, *lid));
            for port in ports.filter(|port| port.0 > 0) {
                if paths.net.channel_of(switch, port).is_none() {
                    *dead.entry((switch, port)).or_default() += 1;
                }
            }
        }
        Self {
            hosts,
            left_out: paths.net.with_role(Role::Host).count() - hosts,
            pairs: (hosts * hosts.saturating_sub(1)) as u64,
            paths: counted.paths,
            lost: counted.lost,
            dead,
            without_table: paths.without_table(),
        }
    }

    /// Returns the number of pairs whose packets do not arrive.
    pub fn lost_pairs(&self) -> u64 {
        self.lost.values().map(|lost| lost.pairs).sum()
    }
}

/// Counts the paths to some destinations.
fn count(
    paths: &Paths<'_>,
    leaves: &Leaves,
    destinations: &[DeviceIndex],
    mut counted: Counted,
) -> Counted {
    let mut walk = Walk::new(paths, &leaves.leaves);
    let mut flows = vec![0; leaves.sizes.len()];
    for to in destinations {
        walk.to(*to);
        // A host sends nothing to itself over the fabric.
        let own = paths.leaf(*to);
        let senders =
            |leaf: DeviceIndex| leaves.sizes[leaf as usize] - u64::from(own == Some(leaf));
        for (switch, channel) in walk.far_first() {
            let flow = std::mem::take(&mut flows[switch as usize]) + senders(switch);
            counted.paths[channel as usize] += flow;
            let (next, _) = paths.net.channel(channel).to;
            if next != *to {
                flows[next as usize] += flow;
            }
        }
        let mut stops: Vec<Stopped> = Vec::new();
        for (leaf, stopped) in &walk.lost {
            let lost = counted.lost.entry(*stopped).or_default();
            lost.pairs += senders(*leaf);
            stops.push(*stopped);
        }
        stops.sort_unstable();
        stops.dedup();
        for stopped in stops {
            counted.lost.entry(stopped).or_default().destinations += 1;
        }
    }
    counted
}

/// The uplinks of a switch: its links to switches of the same or a higher tier.
pub(super) struct Uplinks {
    pub(super) switch: DeviceIndex,
    pub(super) ports: usize,
    /// The channel with most paths, and their number.
    pub(super) most: (ChannelIndex, u64),
    /// Paths of all uplinks.
    pub(super) paths: u64,
    /// Numbers of links to the other switch with fewest, and to that with most.
    pub(super) groups: [(DeviceIndex, usize); 2],
}

impl Uplinks {
    /// Returns the uplinks of all switches, the one with the largest ratio of the largest to the
    /// mean number of paths first.
    pub(super) fn of(paths: &Paths<'_>, census: &Census) -> Vec<Self> {
        let net = paths.net;
        let tiers = net.tiers();
        let of_switch = |switch: DeviceIndex| {
            let tier = tiers[switch as usize];
            let mut groups: BTreeMap<DeviceIndex, usize> = BTreeMap::new();
            let mut ups = Vec::new();
            for channel in net.channels_from(switch) {
                let (to, _) = net.channel(channel).to;
                if net.devices()[to as usize].role == Role::Switch && tiers[to as usize] >= tier {
                    *groups.entry(to).or_default() += 1;
                    ups.push((channel, census.paths[channel as usize]));
                }
            }
            // The first of equal ones.
            let most = ups.iter().rev().max_by_key(|(_, paths)| *paths)?;
            let fewest = groups.iter().min_by_key(|(_, links)| **links)?;
            let largest = groups.iter().rev().max_by_key(|(_, links)| **links)?;
            Some(Self {
                switch,
                ports: ups.len(),
                most: *most,
                paths: ups.iter().map(|(_, paths)| paths).sum(),
                groups: [fewest, largest].map(|(device, links)| (*device, *links)),
            })
        };
        let mut all: Vec<Self> = net
            .with_role(Role::Switch)
            .filter(|switch| tiers[*switch as usize] > 0)
            .filter_map(of_switch)
            .collect();
        all.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
        all
    }

    /// Returns the mean number of paths of an uplink.
    pub(super) fn mean(&self) -> f64 {
        self.paths as f64 / self.ports as f64
    }

    /// Returns the largest number of paths of an uplink, divided by the mean; 0 without paths.
    pub(super) fn ratio(&self) -> f64 {
        if self.paths == 0 {
            0.0
        } else {
            self.most.1 as f64 / self.mean()
        }
    }
}

impl Stop {
    /// Returns the port of the reason, or port 0 for a switch as a whole.
    pub(super) fn port(self) -> PortNum {
        match self {
            Self::NoTable | Self::NoRoute => PortNum(0),
            Self::DeadPort(port) | Self::Elsewhere(port) | Self::Loop(port) => port,
        }
    }
}
