//! Regions of congestion by region growing, for comparison with congestion trees.
//!
//! The algorithm is that of Monet (Jha et al., "Measuring Congestion in High-Performance Datacenter
//! Interconnects", NSDI 2020), which grows regions in a 3D torus by coordinates. Here the distance
//! of two links is the number of devices on the shortest way between them, so any graph will do.
//! A region grows from link to link, while the blocked shares of two neighbours differ little.
//! Then neighbouring regions with similar means are merged, and a region with few links becomes
//! part of a neighbour, or is dropped.
//!
//! Monet does not name the port where a region begins. To compare it with methods that do, this is
//! the port of the region that leads to a host and is blocked most; else the port that sends most
//! of those outside the region for which a link of the region can wait.

use std::collections::{BTreeMap, BTreeSet};

use ibnet_record::types::Guid;

use crate::ports::PortKey;

/// A direction of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// The sending port.
    pub(super) port: PortKey,
    /// The port at the other end.
    pub(super) peer: PortKey,
    /// Whether the other end is a port of a host.
    pub(super) leads_to_host: bool,
    /// Share of the data rate that the port sent, 0 to 1.
    pub(super) used: f64,
    /// Share of the time in which the port was blocked, 0 to 1.
    pub(super) blocked: f64,
}

/// When links and regions belong together. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    /// A link can be in a region if its blocked share is larger.
    pub(super) enters: f64,
    /// A neighbour joins a region if its blocked share differs less from that of a link in it.
    pub(super) joins: f64,
    /// Neighbouring regions are merged if their means differ less.
    pub(super) merges: f64,
    /// Whether links at neighbouring devices are neighbours (distance 2), or only links at the
    /// same device.
    pub(super) is_wide: bool,
    /// Least number of links of a region.
    pub(super) size: usize,
}

/// The published thresholds.
pub(super) const PUBLISHED: Thresholds = Thresholds {
    enters: 0.05,
    joins: 0.04,
    merges: 0.04,
    is_wide: true,
    size: 20,
};

/// A region: its blocked links, and the port where it begins.
pub(super) struct Region {
    pub(super) root: PortKey,
    pub(super) ports: Vec<PortKey>,
}

/// Returns the regions of one interval. `links` has all links, in the order of their ports.
pub(super) fn regions(links: &[Link], thresholds: Thresholds) -> Vec<Region> {
    let graph = Graph::new(links, thresholds);
    let mut regions = graph.grow(thresholds.joins);
    regions = graph.merge(&regions, |regions, one, other| {
        (graph.mean(&regions[one]) - graph.mean(&regions[other])).abs() < thresholds.merges
    });
    regions = graph.merge(&regions, |regions, one, other| {
        regions[one].len().min(regions[other].len()) < thresholds.size
    });
    regions.retain(|region| region.len() >= thresholds.size);
    regions.iter().map(|region| graph.region(region)).collect()
}

/// The links that can be in a region, and which of them are neighbours.
struct Graph<'a> {
    all: &'a [Link],
    links: Vec<Link>,
    /// Indices of the links by the devices at or next to their ends.
    near: BTreeMap<Guid, Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(all: &'a [Link], thresholds: Thresholds) -> Self {
        let mut next: BTreeMap<Guid, BTreeSet<Guid>> = BTreeMap::new();
        for link in all {
            let at = next.entry(link.port.0).or_default();
            at.insert(link.port.0);
            if thresholds.is_wide {
                at.insert(link.peer.0);
            }
        }
        let can_enter = |link: &&Link| link.blocked > thresholds.enters;
        let links: Vec<Link> = all.iter().filter(can_enter).copied().collect();
        let mut near: BTreeMap<Guid, BTreeSet<usize>> = BTreeMap::new();
        for (index, link) in links.iter().enumerate() {
            for end in [link.port.0, link.peer.0] {
                let around = next.get(&end).into_iter().flatten().copied();
                for device in around.chain([end]) {
                    near.entry(device).or_default().insert(index);
                }
            }
        }
        let near = near
            .into_iter()
            .map(|(device, links)| (device, links.into_iter().collect()))
            .collect();
        Self { all, links, near }
    }

    fn neighbours(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let Link { port, peer, .. } = self.links[index];
        [port.0, peer.0]
            .into_iter()
            .flat_map(|device| self.near[&device].iter().copied())
    }

    /// Grows a region from each link that is in none yet.
    fn grow(&self, joins: f64) -> Vec<Vec<usize>> {
        let mut is_free = vec![true; self.links.len()];
        let mut regions = Vec::new();
        for first in 0..self.links.len() {
            if !std::mem::take(&mut is_free[first]) {
                continue;
            }
            let mut region = vec![first];
            let mut done = 0;
            while let Some(link) = region.get(done).copied() {
                done += 1;
                for other in self.neighbours(link) {
                    let difference = self.links[link].blocked - self.links[other].blocked;
                    if is_free[other] && difference.abs() < joins {
                        is_free[other] = false;
                        region.push(other);
                    }
                }
            }
            regions.push(region);
        }
        regions
    }

    /// Merges each region with the neighbours for which `fits` is true, in the order of the
    /// regions. A region that was merged is not compared again.
    fn merge(
        &self,
        regions: &[Vec<usize>],
        fits: impl Fn(&[Vec<usize>], usize, usize) -> bool,
    ) -> Vec<Vec<usize>> {
        let mut of_link = vec![0; self.links.len()];
        for (number, region) in regions.iter().enumerate() {
            region.iter().for_each(|link| of_link[*link] = number);
        }
        let mut new: Vec<Option<usize>> = vec![None; regions.len()];
        let mut merged: Vec<Vec<usize>> = Vec::new();
        for (number, region) in regions.iter().enumerate() {
            let own = *new[number].get_or_insert_with(|| {
                merged.push(region.clone());
                merged.len() - 1
            });
            let around: BTreeSet<usize> = region
                .iter()
                .flat_map(|link| self.neighbours(*link))
                .map(|link| of_link[link])
                .collect();
            for other in around {
                if new[other].is_none() && fits(regions, number, other) {
                    new[other] = Some(own);
                    merged[own].extend(&regions[other]);
                }
            }
        }
        merged
    }

    fn mean(&self, region: &[usize]) -> f64 {
        let sum: f64 = region.iter().map(|link| self.links[*link].blocked).sum();
        sum / region.len() as f64
    }

    fn region(&self, region: &[usize]) -> Region {
        let links = || region.iter().map(|index| &self.links[*index]);
        let ports: Vec<PortKey> = links().map(|link| link.port).collect();
        let to_host = links()
            .filter(|link| link.leads_to_host)
            .max_by(|a, b| a.blocked.total_cmp(&b.blocked));
        let inside: BTreeSet<PortKey> = ports.iter().copied().collect();
        let ends: BTreeSet<Guid> = links().map(|link| link.peer.0).collect();
        let beyond = || {
            let is_beyond =
                |link: &&Link| ends.contains(&link.port.0) && !inside.contains(&link.port);
            let beyond = self.all.iter().filter(is_beyond);
            beyond.max_by(|a, b| a.used.total_cmp(&b.used))
        };
        let root = to_host.or_else(beyond).map_or(ports[0], |link| link.port);
        Region { root, ports }
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::PortNum;

    use super::*;

    fn link(from: (u64, u8), to: (u64, u8), used: f64, blocked: f64) -> Link {
        let key = |(guid, port)| (Guid(guid), PortNum(port));
        Link {
            port: key(from),
            peer: key(to),
            leads_to_host: false,
            used,
            blocked,
        }
    }

    /// Hosts 1 to 3 send through switch 10 to switch 11, and host 4 through switch 12.
    fn links(blocked: [f64; 5]) -> Vec<Link> {
        let [first, second, third, up, far] = blocked;
        vec![
            link((1, 1), (10, 1), 0.2, first),
            link((2, 1), (10, 2), 0.2, second),
            link((3, 1), (10, 3), 0.2, third),
            link((4, 1), (12, 1), 0.2, far),
            link((10, 9), (11, 1), 0.6, up),
            link((11, 2), (5, 1), 1.0, 0.0),
            link((12, 2), (6, 1), 0.8, 0.0),
        ]
    }

    fn found(links: &[Link], thresholds: Thresholds) -> Vec<(u64, usize)> {
        regions(links, thresholds)
            .iter()
            .map(|region| (region.root.0.0, region.ports.len()))
            .collect()
    }

    #[test]
    fn region_grows_over_links_with_similar_shares() {
        let small = Thresholds {
            size: 1,
            ..PUBLISHED
        };
        // The third host is too different, and so is not in the region.
        let all = links([0.50, 0.53, 0.80, 0.56, 0.04]);
        assert_eq!(found(&all, small), [(11, 3), (10, 1)]);
        let merging = Thresholds {
            merges: 0.3,
            ..small
        };
        assert_eq!(found(&all, merging), [(11, 4)]);
    }

    #[test]
    fn small_regions_join_a_neighbour_or_are_dropped() {
        let all = links([0.50, 0.53, 0.80, 0.56, 0.9]);
        let least = |size| Thresholds { size, ..PUBLISHED };
        // Host 4 has no neighbour.
        assert_eq!(found(&all, least(2)), [(11, 4)]);
        assert_eq!(found(&all, least(5)), []);
        assert_eq!(found(&all, PUBLISHED), []);
    }

    #[test]
    fn wide_neighbourhood_reaches_the_next_device() {
        // Without the uplink, host 4 is as near to host 1 as switch 12 is to switch 10.
        let mut all = links([0.5, 0.0, 0.0, 0.0, 0.5]);
        all.push(link((10, 8), (12, 8), 0.1, 0.0));
        all.push(link((12, 8), (10, 8), 0.1, 0.0));
        let wide = Thresholds {
            size: 2,
            ..PUBLISHED
        };
        assert_eq!(found(&all, wide).len(), 1);
        let narrow = Thresholds {
            is_wide: false,
            ..wide
        };
        assert_eq!(found(&all, narrow), []);
    }
}
