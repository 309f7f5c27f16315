//! The map: switches in rows by tier, links coloured and widened by how much of them is used; hosts folded into their switch, or hung below it.
//!
//! The topology is that of the lines: each port tells its peer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::links::{Link, percent};
use super::ports::Key;
use super::trees::{Trees, Why};
use ibnet::drawing::layout::Net;
use ibnet::types::{Guid, NodeKind};

pub mod svg;

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    /// In the order of their GUIDs.
    pub switches: Vec<Switch>,
    /// Links between switches by the places of both ends, the first lower than the second.
    pub trunks: BTreeMap<(usize, usize), Vec<Link>>,
    /// Ports at which congestion begins, those first that hold up most.
    pub roots: Vec<Key>,
    /// From when to when, and the time zone.
    pub when: String,
}

/// A switch and what hangs on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Switch {
    /// Its port GUID.
    pub guid: Guid,
    /// Its name; written by strangers.
    pub name: Box<str>,
    /// 1 for one with hosts, then one more with each link away from these; 0 where none can be reached.
    pub tier: u16,
    /// Links to adapters, seen from the switch: the first end is the switch's port.
    pub hosts: Vec<Link>,
}

impl Map {
    /// The map of all links.
    pub fn of(links: &[Link], when: &str) -> Self {
        let mut names: BTreeMap<Guid, &str> = BTreeMap::new();
        let mut hosts: BTreeSet<Guid> = BTreeSet::new();
        for end in links.iter().flat_map(|link| &link.ends) {
            names
                .entry(end.key.0)
                .and_modify(|name| {
                    if name.is_empty() {
                        *name = &end.name;
                    }
                })
                .or_insert(&end.name);
            if end.kind == Some(NodeKind::Hca) {
                hosts.insert(end.key.0);
            }
        }
        // Whoever was not asked is an adapter if it is known by one link only, and at a switch.
        let mut degree: BTreeMap<Guid, usize> = BTreeMap::new();
        links.iter().flat_map(|link| &link.ends).for_each(|end| *degree.entry(end.key.0).or_default() += 1);
        for end in links.iter().flat_map(|link| &link.ends).filter(|end| end.kind.is_none()) {
            if degree[&end.key.0] == 1 {
                hosts.insert(end.key.0);
            }
        }
        let guids: Vec<Guid> = names.keys().copied().filter(|guid| !hosts.contains(guid)).collect();
        let new = |guid: &Guid| Switch { guid: *guid, name: names[guid].into(), tier: 0, hosts: Vec::new() };
        let mut map = Self { switches: guids.iter().map(new).collect(), trunks: BTreeMap::new(), roots: Vec::new(), when: when.to_owned() };
        for link in links {
            let place = |end: usize| guids.binary_search(&link.ends[end].key.0).ok();
            match (place(0), place(1)) {
                (Some(one), Some(other)) if one != other => {
                    map.trunks.entry((one.min(other), one.max(other))).or_default().push(link.clone());
                }
                (Some(switch), None) => map.switches[switch].hosts.push(link.clone()),
                (None, Some(switch)) => map.switches[switch].hosts.push(link.clone().back()),
                // A cable from a switch to itself, or between two adapters.
                _ => {}
            }
        }
        map.find_tiers();
        map
    }

    /// Marks where the first few congestion trees begin that hold up anybody else.
    #[must_use]
    pub fn with_roots(mut self, trees: &Trees) -> Self {
        const MOST: usize = 3;
        let roots = trees.trees.iter().filter(|tree| tree.why != Why::Unclear && !tree.branches.is_empty()).map(|tree| tree.root);
        self.roots = roots.take(MOST).collect();
        self
    }

    fn find_tiers(&mut self) {
        let mut neighbours = vec![Vec::new(); self.switches.len()];
        for (one, other) in self.trunks.keys() {
            neighbours[*one].push(*other);
            neighbours[*other].push(*one);
        }
        let leaves = (0..self.switches.len()).filter(|switch| !self.switches[*switch].hosts.is_empty());
        let mut queue: VecDeque<usize> = leaves.collect();
        queue.iter().for_each(|leaf| self.switches[*leaf].tier = 1);
        while let Some(switch) = queue.pop_front() {
            for next in &neighbours[switch] {
                if self.switches[*next].tier == 0 {
                    self.switches[*next].tier = self.switches[switch].tier + 1;
                    queue.push_back(*next);
                }
            }
        }
    }

    /// What is placed.
    fn net(&self) -> Net<'_> {
        let switches = self.switches.iter().map(|switch| (&*switch.name, switch.tier)).collect();
        Net { switches, links: self.trunks.keys().copied().collect() }
    }
}

/// How much of links is used: of each the greater direction; of several the one with most.
pub(super) fn most_used<'a>(links: impl IntoIterator<Item = &'a Link>) -> Option<f64> {
    links.into_iter().flat_map(|link| &link.ways).filter_map(|way| way.used).reduce(f64::max)
}

/// A link for people: both directions with what is known of them.
fn told(link: &Link) -> String {
    let way = |from: usize| {
        let way = &link.ways[from];
        let gbps = way.gbps.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}"));
        let (used, peak, blocked) = (percent(way.used), percent(way.peak), percent(way.blocked));
        format!("{} \u{2192} {}: {gbps} Gb/s, {used} used, peak {peak}, blocked {blocked}", link.ends[from], link.ends[1 - from])
    };
    let errors = if link.errors > 0 { format!("\nerrors: {}", link.errors) } else { String::new() };
    format!("{}\n{}\n{}{errors}", link.rate, way(0), way(1))
}

#[cfg(test)]
mod tests {
    use super::super::links;
    use super::super::ports::Ports;
    use super::super::ports::tests::{fold, port};
    use super::*;

    /// Two leaves with two hosts each below a core, two cables from each leaf; the second leaf's name is nasty.
    pub(super) fn map() -> Map {
        let mut lines = Vec::new();
        let used =
            |out: f64, back: f64| [("xmit_utilization", out.into()), ("rcv_utilization", back.into()), ("xmit_blocked", 0.25.into())];
        for (leaf, name) in [(1, "leaf1"), (2, "</text><script>\u{1b}")] {
            for host in 1..=2_u8 {
                lines.push(port(
                    1,
                    (leaf, host),
                    name,
                    (0x100 * leaf + u64::from(host), 1, "n \"<\" mlx5_0"),
                    &used(0.5, 0.125 * f64::from(host)),
                ));
            }
            for cable in 3..=4_u8 {
                lines.push(port(1, (leaf, cable), name, (9, cable + 4 * leaf as u8, "core"), &used(0.1, f64::from(cable) / 5.0)));
            }
        }
        Map::of(&links::of(&fold(Ports::with_bins(1), &lines).seen()), "from then to now (UTC)")
    }

    #[test]
    fn switches_have_tiers_and_hosts_are_folded_into_them() {
        let map = map();
        let told: Vec<_> = map.switches.iter().map(|switch| (switch.guid.0, switch.tier, switch.hosts.len())).collect();
        assert_eq!(told, [(1, 1, 2), (2, 1, 2), (9, 2, 0)]);
        let trunks: Vec<_> = map.trunks.iter().map(|(ends, cables)| (*ends, cables.len())).collect();
        assert_eq!(trunks, [((0, 2), 2), ((1, 2), 2)]);
    }

    #[test]
    fn the_greater_direction_of_the_fullest_cable_counts() {
        let map = map();
        assert_eq!(most_used(&map.trunks[&(0, 2)]), Some(0.8), "4/5 on the second cable, to the leaf");
        assert_eq!(most_used(&map.switches[0].hosts), Some(0.5));
        assert_eq!(most_used([]), None);
        let text = told(&map.switches[0].hosts[1]);
        assert!(text.contains("leaf1 port 2 \u{2192} n \"<\" mlx5_0 port 1: 0.0 Gb/s, 50.0 % used, peak 50.0 %, blocked 25.0 %"), "{text}");
    }
}
