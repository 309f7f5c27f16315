//! The rows of a heat map: which ports are one row, and which row stands beside which.
//!
//! Neighbours in the fabric are neighbours in the picture: leaf switches by name, each with its ports in their order and each host's
//! port below the leaf's port that faces it; then the switches above, tier by tier. All of it is told by the records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use ibnet::types::{Guid, NodeKind, ParseError, PortNum, Printable};
use crate::hosts::host_of;
use crate::record::Port;

/// What a row is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// A port.
    #[default]
    Port,
    /// A link: both of its ends.
    Link,
    /// All ports of a switch.
    Switch,
    /// All adapters of a host.
    Host,
}

/// Who a port is, and who faces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its device.
    pub guid: Guid,
    /// Its number.
    pub port: PortNum,
    /// Its node, as strangers wrote it.
    pub node: String,
    /// What its node is, if this version knows it.
    pub kind: Option<NodeKind>,
    /// The other end: device, port, name.
    pub peer: Option<(Guid, PortNum, String)>,
}

/// A row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// What it is called.
    pub name: Name,
    /// Places of its ports in the list.
    pub members: Vec<usize>,
}

/// What a row is called; no character of it misleads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The row.
    pub row: String,
    /// What many neighbours have in common: their leaf switch, or their tier.
    pub block: String,
}

impl Place {
    /// Of a record.
    pub fn of(port: &Port<'_>) -> Self {
        let peer = port.peer_guid.zip(port.peer_port);
        Self {
            guid: port.guid,
            port: port.port,
            node: port.node.clone().into_owned(),
            kind: port.kind,
            peer: peer.map(|(guid, number)| (guid, number, port.peer.as_deref().unwrap_or_default().to_owned())),
        }
    }

    /// What it is known by.
    pub fn key(&self) -> (Guid, PortNum) {
        (self.guid, self.port)
    }

    fn name(&self) -> String {
        format!("{}/{}", shown(&self.node), self.port)
    }
}

/// Where a port stands: tier, name and GUID of its switch (of a host's port, of the switch that faces it), the port there, and then the switch's
/// own port before the one that faces it.
type Rank = (u32, String, Guid, PortNum, bool, Guid, PortNum);

/// The rows, in the order of the topology.
pub fn groups(places: &[&Place], by: By) -> Vec<Group> {
    let tiers = tiers(places);
    let names: BTreeMap<Guid, &str> = places.iter().map(|place| (place.guid, place.node.as_str())).collect();
    let rank = |place: &Place| -> Rank {
        let tier = |guid: &Guid| tiers.get(guid).copied().unwrap_or(u32::MAX);
        match &place.peer {
            Some((guid, port, name)) if !tiers.contains_key(&place.guid) => {
                let name = names.get(guid).copied().unwrap_or(name);
                (tier(guid), natural(name), *guid, *port, true, place.guid, place.port)
            }
            _ => (tier(&place.guid), natural(&place.node), place.guid, place.port, false, place.guid, place.port),
        }
    };
    // A row by its key; its ports by their ranks, the first of which is the row's.
    let mut rows: BTreeMap<(String, Guid, PortNum), BTreeSet<(Rank, usize)>> = BTreeMap::new();
    for (number, place) in places.iter().enumerate() {
        let is_switch = tiers.contains_key(&place.guid);
        let none = (String::new(), Guid(0), PortNum(0));
        let key = match by {
            By::Port => (String::new(), place.guid, place.port),
            By::Link => {
                let (guid, port) = place.peer.as_ref().map_or_else(|| place.key(), |(guid, port, _)| place.key().min((*guid, *port)));
                (String::new(), guid, port)
            }
            By::Switch if is_switch => (String::new(), place.guid, PortNum(0)),
            By::Host if !is_switch => (host_of(&place.node).to_owned(), Guid(0), PortNum(0)),
            By::Switch | By::Host => none,
        };
        if key != (String::new(), Guid(0), PortNum(0)) {
            rows.entry(key).or_default().insert((rank(place), number));
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort();
    let block = |rank: &Rank, place: &Place| match (by, rank.0) {
        (By::Switch, u32::MAX) => "no hosts below".to_owned(),
        (By::Switch, tier) => format!("tier {tier}"),
        _ if rank.4 => place.peer.as_ref().map_or_else(String::new, |(guid, _, name)| shown(names.get(guid).copied().unwrap_or(name))),
        _ => shown(&place.node),
    };
    let group = |ports: BTreeSet<(Rank, usize)>| {
        let members: Vec<usize> = ports.iter().map(|(_, number)| *number).collect();
        let (rank, place) = ports.first().map(|(rank, number)| (rank, places[*number]))?;
        let row = match (by, &place.peer) {
            (By::Port, _) | (By::Link, None) => place.name(),
            (By::Link, Some((_, port, name))) => format!("{} - {}/{port}", place.name(), shown(name)),
            (By::Switch, _) => shown(&place.node),
            (By::Host, _) => shown(host_of(&place.node)),
        };
        Some(Group { name: Name { row, block: block(rank, place) }, members })
    };
    rows.into_iter().filter_map(group).collect()
}

/// How far each switch is from its nearest host: a leaf switch 1. Switches without any way to a host have no number below the greatest.
fn tiers(places: &[&Place]) -> BTreeMap<Guid, u32> {
    let mut switches: BTreeSet<Guid> = places.iter().filter(|place| place.kind == Some(NodeKind::Switch)).map(|place| place.guid).collect();
    // A device that nobody sampled is a switch if several of its ports are seen from the other side.
    let mut faced: BTreeMap<Guid, BTreeSet<PortNum>> = BTreeMap::new();
    for (guid, port, _) in places.iter().filter_map(|place| place.peer.as_ref()) {
        faced.entry(*guid).or_default().insert(*port);
    }
    let adapters: BTreeSet<Guid> = places.iter().filter(|place| place.kind == Some(NodeKind::Hca)).map(|place| place.guid).collect();
    let is_unsampled_switch = |(guid, ports): &(&Guid, &BTreeSet<PortNum>)| ports.len() > 1 && !adapters.contains(guid);
    switches.extend(faced.iter().filter(is_unsampled_switch).map(|(guid, _)| *guid));

    let mut links: BTreeMap<Guid, BTreeSet<Guid>> = BTreeMap::new();
    for place in places {
        if let Some((peer, ..)) = &place.peer {
            links.entry(place.guid).or_default().insert(*peer);
            links.entry(*peer).or_default().insert(place.guid);
        }
    }
    let mut tiers: BTreeMap<Guid, u32> = switches.iter().map(|guid| (*guid, u32::MAX)).collect();
    let has_host = |guid: &&Guid| links.get(guid).is_some_and(|peers| peers.iter().any(|peer| !switches.contains(peer)));
    let mut next: VecDeque<(Guid, u32)> = switches.iter().filter(has_host).map(|guid| (*guid, 1)).collect();
    while let Some((guid, tier)) = next.pop_front() {
        match tiers.get_mut(&guid) {
            Some(known) if *known > tier => *known = tier,
            _ => continue,
        }
        next.extend(links.get(&guid).into_iter().flatten().map(|peer| (*peer, tier + 1)));
    }
    tiers
}

/// A name whose numbers compare by their values: `leaf2` before `leaf10`.
fn natural(name: &str) -> String {
    /// More digits than a 64-bit number has.
    const DIGITS: usize = 20;
    let mut key = String::with_capacity(name.len() + DIGITS);
    let mut rest = name;
    while let Some(first) = rest.find(|c: char| c.is_ascii_digit()) {
        let length = rest[first..].bytes().take_while(u8::is_ascii_digit).count();
        let digits = rest[first..first + length].trim_start_matches('0');
        key.push_str(&rest[..first]);
        key.push_str(&"0".repeat(DIGITS.saturating_sub(digits.len())));
        key.push_str(digits);
        rest = &rest[first + length..];
    }
    key.push_str(rest);
    key
}

/// A name of strangers, of which no more is shown than fits beside a row.
fn shown(name: &str) -> String {
    const MOST: usize = 24;
    let name = Printable(name).to_string();
    if name.chars().count() <= MOST { name } else { name.chars().take(MOST - 1).chain(['…']).collect() }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Port => "port",
            Self::Link => "link",
            Self::Switch => "switch",
            Self::Host => "host",
        })
    }
}

impl FromStr for By {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = [Self::Port, Self::Link, Self::Switch, Self::Host];
        all.into_iter().find(|by| by.to_string() == text).ok_or_else(|| ParseError::new(text, "port, link, switch or host"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: NodeKind, guid: u64, node: &str, port: u8, peer: (u64, u8, &str)) -> Place {
        let peer = Some((Guid(peer.0), PortNum(peer.1), peer.2.to_owned()));
        Place { guid: Guid(guid), port: PortNum(port), node: node.to_owned(), kind: Some(kind), peer }
    }

    /// Two leaves below a spine, a host at each, all ports in no order at all.
    fn fabric() -> Vec<Place> {
        use NodeKind::{Hca, Switch};
        vec![
            place(Switch, 30, "spine", 1, (20, 2, "leaf10")),
            place(Switch, 30, "spine", 2, (10, 2, "leaf2")),
            place(Hca, 1, "b mlx5_0", 1, (20, 1, "leaf10")),
            place(Hca, 2, "a mlx5_0", 1, (10, 1, "leaf2")),
            place(Switch, 20, "leaf10", 2, (30, 1, "spine")),
            place(Switch, 20, "leaf10", 1, (1, 1, "b mlx5_0")),
            place(Switch, 10, "leaf2", 2, (30, 2, "spine")),
            place(Switch, 10, "leaf2", 1, (2, 1, "a mlx5_0")),
        ]
    }

    fn rows(by: By) -> Vec<(String, Vec<usize>)> {
        let fabric = fabric();
        groups(&fabric.iter().collect::<Vec<_>>(), by).into_iter().map(|group| (group.name.row, group.members)).collect()
    }

    #[test]
    fn ports_stand_by_their_leaf_and_hosts_below_the_port_that_faces_them() {
        let names: Vec<_> = rows(By::Port).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["leaf2/1", "a mlx5_0/1", "leaf2/2", "leaf10/1", "b mlx5_0/1", "leaf10/2", "spine/1", "spine/2"]);
    }

    #[test]
    fn ports_are_one_row_by_switch_host_and_link() {
        assert_eq!(
            rows(By::Switch),
            [("leaf2".to_owned(), vec![7, 6]), ("leaf10".to_owned(), vec![5, 4]), ("spine".to_owned(), vec![0, 1])]
        );
        assert_eq!(rows(By::Host), [("a".to_owned(), vec![3]), ("b".to_owned(), vec![2])]);
        let links = rows(By::Link);
        assert_eq!(links[0], ("leaf2/1 - a mlx5_0/1".to_owned(), vec![7, 3]));
        assert_eq!(links.len(), 4);
    }

    #[test]
    fn a_switch_that_nobody_sampled_is_no_host() {
        let all = fabric();
        let leaves: Vec<&Place> = all.iter().filter(|place| place.node.starts_with("leaf")).collect();
        assert_eq!(tiers(&leaves), [(Guid(10), 1), (Guid(20), 1), (Guid(30), 2)].into());
    }

    #[test]
    fn hostile_names_are_shown_short_and_harmless() {
        let name = groups(&[&place(NodeKind::Switch, 1, &format!("\u{1b}[2J{}", "x".repeat(99)), 1, (2, 1, ""))], By::Port).remove(0).name;
        assert!(name.row.starts_with("\\u{1b}[2Jxx") && name.row.chars().count() < 30, "{}", name.row);
    }
}
