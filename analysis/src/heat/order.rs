//! The rows of a heat map: the ports of each row, and the order of the rows.
//!
//! Neighbours in the fabric become neighbours in the picture, by the topology in the records.
//! Leaf switches come first, sorted by name; each is followed by its ports, sorted by number, and
//! each switch port by the host port to which it is linked. The upper switches follow, tier by
//! tier.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use ibnet_record::types::{Guid, LinkRate, NodeKind, ParseError, PortNum, Printable};

use crate::hosts::host_of;
use crate::ports::PortName;
use crate::record::Port;

/// Kind of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowKind {
    /// One port.
    #[default]
    Port,
    /// Both ends of a link.
    Link,
    /// All ports of a switch.
    Switch,
    /// All HCA ports of a host.
    Host,
    /// One service level of all ports.
    Sl,
    /// One virtual lane of all ports.
    Vl,
    /// All HCA ports of the hosts of a group.
    Group,
    /// An hour of the day, with all ports. Only a calendar has such rows.
    Hour,
}

/// Order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RowOrder {
    /// Neighbours in the fabric are neighbours.
    #[default]
    Topology,
    /// By name. Numbers in names are compared by value.
    Name,
    /// By the mean of the first metric over the time range, largest first.
    Value,
}

/// A port, its peer and their link.
#[derive(Clone, PartialEq, Debug)]
pub struct PortAndPeer {
    /// GUID of the device.
    pub guid: Guid,
    /// Number of the port.
    pub port: PortNum,
    /// Node description as the device returned it.
    pub node: String,
    /// Kind of the device. `None` for a kind that this version does not know.
    pub kind: Option<NodeKind>,
    /// Device, port and name of the other end of the link.
    pub peer: Option<(Guid, PortNum, String)>,
    /// Last known width and speed of the link, such as `4xEDR`.
    pub link: Box<str>,
    /// Max known data rate of the link in Gb/s.
    pub gbps: Option<f64>,
}

/// The ports of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowGroup {
    /// Label of the row.
    pub name: RowLabel,
    /// Indices of the ports in the list of ports.
    pub members: Vec<usize>,
}

/// Label of a row, with all control characters escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowLabel {
    /// Label of the row alone.
    pub row: String,
    /// Label of the block to which the row belongs. A block is a group of neighbouring rows, such
    /// as a leaf switch or a tier of switches.
    pub block: String,
    /// Names of the hosts whose ports are in this row, or are linked to a port of this row.
    pub hosts: Vec<String>,
    /// The port, switch, host, service level or virtual lane of the row.
    pub id: RowId,
}

/// The port, switch, host, service level or virtual lane of a row, not escaped. Only the fields
/// that apply to the kind of row have a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RowId {
    /// GUID of the device of a port, of the first end of a link, or of a switch.
    pub guid: Option<Guid>,
    /// Number of a port, or of the port at the first end of a link.
    pub port: Option<PortNum>,
    /// Node description of this device, or the name of a host.
    pub node: Option<String>,
    /// The other end of the link of a port or of a link.
    pub peer: Option<PortName>,
    /// Number of a service level or a virtual lane.
    pub index: Option<usize>,
}

impl RowLabel {
    /// Creates a row label without a block and without hosts.
    pub fn new(row: impl Into<String>) -> Self {
        Self {
            row: row.into(),
            block: String::new(),
            hosts: Vec::new(),
            id: RowId::default(),
        }
    }
}

impl RowId {
    /// Identifies the row of this port. `name` returns the name of a device that has records.
    fn of<'a>(port: &PortAndPeer, by: RowKind, name: impl Fn(Guid) -> Option<&'a str>) -> Self {
        let peer = || {
            port.peer.as_ref().map(|(guid, number, node)| {
                PortName::new(name(*guid).unwrap_or(node), (*guid, *number))
            })
        };
        match by {
            RowKind::Port | RowKind::Link => Self {
                guid: Some(port.guid),
                port: Some(port.port),
                node: Some(port.node.clone()),
                peer: peer(),
                index: None,
            },
            RowKind::Switch => Self {
                guid: Some(port.guid),
                node: Some(port.node.clone()),
                ..Self::default()
            },
            RowKind::Host => Self {
                node: Some(host_of(&port.node).to_owned()),
                ..Self::default()
            },
            RowKind::Sl | RowKind::Vl | RowKind::Group | RowKind::Hour => Self::default(),
        }
    }
}

impl PortAndPeer {
    /// Creates the entry from a record.
    pub fn of(port: &Port<'_>) -> Self {
        let peer = port.peer_guid.zip(port.peer_port);
        Self {
            guid: port.guid,
            port: port.port,
            node: port.node.clone().into_owned(),
            kind: port.kind,
            peer: peer.map(|(guid, number)| {
                (
                    guid,
                    number,
                    port.peer.as_deref().unwrap_or_default().to_owned(),
                )
            }),
            link: port.link.as_ref().into(),
            gbps: data_gbps(&port.link),
        }
    }

    /// Updates the link from a later record of the port, but keeps the fastest rate. Utilization
    /// refers to the fastest rate, so a link does not look fully used before it became degraded.
    pub fn update_link(&mut self, link: &str) {
        if *self.link != *link {
            self.link = link.into();
            self.keep_faster(data_gbps(link));
        }
    }

    /// Replaces the data rate if `gbps` is faster.
    pub fn keep_faster(&mut self, gbps: Option<f64>) {
        self.gbps = self.gbps.into_iter().chain(gbps).reduce(f64::max);
    }

    /// Returns the GUID of the device and the number of the port.
    pub fn key(&self) -> (Guid, PortNum) {
        (self.guid, self.port)
    }

    fn name(&self) -> String {
        format!("{}/{}", shown(&self.node), self.port)
    }
}

/// Returns the data rate in Gb/s of a link such as `4xEDR`, or `None` for another form.
fn data_gbps(link: &str) -> Option<f64> {
    let (width, speed) = link.split_at_checked(link.find('x')? + 1)?;
    LinkRate::new(width, speed).data_gbps()
}

/// Sort key of a port: tier, name index and GUID of its switch; number of the switch port;
/// whether this is the host's end of the link; GUID and number of the port. For a host port, its
/// switch is the one at the other end of the link.
type Rank = (u32, usize, Guid, PortNum, bool, Guid, PortNum);

/// Index of each name in the natural order. A fabric has many more ports than names, and
/// comparing indices is faster than comparing names.
struct Places<'a>(BTreeMap<&'a str, usize>);

impl<'a> Places<'a> {
    fn of(ports: &[&'a PortAndPeer]) -> Self {
        let peers = ports
            .iter()
            .filter_map(|port| Some(port.peer.as_ref()?.2.as_str()));
        let mut names: Vec<&str> = ports
            .iter()
            .map(|port| port.node.as_str())
            .chain(peers)
            .collect();
        names.sort_unstable();
        names.dedup();
        let mut keys: Vec<(String, &str)> = names
            .into_iter()
            .map(|name| (natural(name), name))
            .collect();
        keys.sort_unstable();
        let mut places = BTreeMap::new();
        let mut last: Option<(String, usize)> = None;
        for (key, name) in keys {
            // Names with equal keys, such as `leaf1` and `leaf01`, get the same index.
            let place = match &last {
                Some((before, place)) if *before == key => *place,
                Some((_, place)) => place + 1,
                None => 0,
            };
            places.insert(name, place);
            last = Some((key, place));
        }
        Self(places)
    }

    fn place(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(usize::MAX)
    }
}

/// Returns the rows in the order of the topology.
pub fn groups(ports: &[&PortAndPeer], by: RowKind) -> Vec<RowGroup> {
    let tiers = tiers(ports);
    let names: BTreeMap<Guid, &str> = ports
        .iter()
        .map(|port| (port.guid, port.node.as_str()))
        .collect();
    let places = Places::of(ports);
    let rank = |port: &PortAndPeer| -> Rank {
        let tier = |guid: &Guid| tiers.get(guid).copied().unwrap_or(u32::MAX);
        match &port.peer {
            Some((guid, number, name)) if !tiers.contains_key(&port.guid) => {
                let name = names.get(guid).copied().unwrap_or(name);
                (
                    tier(guid),
                    places.place(name),
                    *guid,
                    *number,
                    true,
                    port.guid,
                    port.port,
                )
            }
            _ => (
                tier(&port.guid),
                places.place(&port.node),
                port.guid,
                port.port,
                false,
                port.guid,
                port.port,
            ),
        }
    };
    // The rows by key. The rank of a row is the min rank of its ports.
    let mut rows: BTreeMap<(String, Guid, PortNum), Vec<(Rank, usize)>> = BTreeMap::new();
    for (index, port) in ports.iter().enumerate() {
        let is_switch = tiers.contains_key(&port.guid);
        let none = (String::new(), Guid(0), PortNum(0));
        let key = match by {
            RowKind::Port => (String::new(), port.guid, port.port),
            RowKind::Link => {
                let (guid, number) = port.peer.as_ref().map_or_else(
                    || port.key(),
                    |(guid, number, _)| port.key().min((*guid, *number)),
                );
                (String::new(), guid, number)
            }
            RowKind::Switch if is_switch => (String::new(), port.guid, PortNum(0)),
            RowKind::Host if !is_switch => (host_of(&port.node).to_owned(), Guid(0), PortNum(0)),
            // An HCA port belongs to no switch row, a switch port to no host row, and no port to
            // a service level or virtual lane. `super::groups` makes the rows of groups.
            RowKind::Switch
            | RowKind::Host
            | RowKind::Sl
            | RowKind::Vl
            | RowKind::Group
            | RowKind::Hour => none,
        };
        if key != (String::new(), Guid(0), PortNum(0)) {
            rows.entry(key).or_default().push((rank(port), index));
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    for row in &mut rows {
        row.sort_unstable();
    }
    rows.sort_unstable();
    let block = |rank: &Rank, port: &PortAndPeer| match (by, rank.0) {
        (RowKind::Switch, u32::MAX) => "no hosts below".to_owned(),
        (RowKind::Switch, tier) => format!("tier {tier}"),
        _ if rank.4 => port
            .peer
            .as_ref()
            .map_or_else(String::new, |(guid, _, name)| {
                shown(names.get(guid).copied().unwrap_or(name))
            }),
        _ => shown(&port.node),
    };
    // The host of an HCA port, or the host linked to a switch port.
    let host = |port: &PortAndPeer| match &port.peer {
        _ if !tiers.contains_key(&port.guid) => Some(host_of(&port.node).to_owned()),
        Some((guid, _, name)) if !tiers.contains_key(guid) => Some(host_of(name).to_owned()),
        _ => None,
    };
    let group = |ranked: Vec<(Rank, usize)>| {
        let members: Vec<usize> = ranked.iter().map(|(_, index)| *index).collect();
        let (rank, port) = ranked.first().map(|(rank, index)| (rank, ports[*index]))?;
        let row = match (by, &port.peer) {
            (RowKind::Port, _) | (RowKind::Link, None) => port.name(),
            (RowKind::Link, Some((_, number, name))) => {
                format!("{} - {}/{number}", port.name(), shown(name))
            }
            (RowKind::Switch, _) => shown(&port.node),
            (RowKind::Host | RowKind::Sl | RowKind::Vl | RowKind::Group | RowKind::Hour, _) => {
                shown(host_of(&port.node))
            }
        };
        let mut hosts: Vec<String> = members
            .iter()
            .filter_map(|member| host(ports[*member]))
            .collect();
        hosts.sort();
        hosts.dedup();
        let id = RowId::of(port, by, |guid| names.get(&guid).copied());
        Some(RowGroup {
            name: RowLabel {
                row,
                block: block(rank, port),
                hosts,
                id,
            },
            members,
        })
    };
    rows.into_iter().filter_map(group).collect()
}

/// Returns the distance of each switch to the nearest host: 1 for a leaf switch, `u32::MAX` if no
/// host can be reached.
pub fn tiers(ports: &[&PortAndPeer]) -> BTreeMap<Guid, u32> {
    let mut switches: BTreeSet<Guid> = ports
        .iter()
        .filter(|port| port.kind == Some(NodeKind::Switch))
        .map(|port| port.guid)
        .collect();
    // A device without records is taken for a switch if several of its ports are peers of other
    // ports.
    let mut seen_as_peer: BTreeMap<Guid, BTreeSet<PortNum>> = BTreeMap::new();
    for (guid, number, _) in ports.iter().filter_map(|port| port.peer.as_ref()) {
        seen_as_peer.entry(*guid).or_default().insert(*number);
    }
    let hcas: BTreeSet<Guid> = ports
        .iter()
        .filter(|port| port.kind == Some(NodeKind::Hca))
        .map(|port| port.guid)
        .collect();
    let is_switch_without_records =
        |(guid, numbers): &(&Guid, &BTreeSet<PortNum>)| numbers.len() > 1 && !hcas.contains(guid);
    switches.extend(
        seen_as_peer
            .iter()
            .filter(is_switch_without_records)
            .map(|(guid, _)| *guid),
    );

    let mut links: BTreeMap<Guid, BTreeSet<Guid>> = BTreeMap::new();
    for port in ports {
        if let Some((peer, ..)) = &port.peer {
            links.entry(port.guid).or_default().insert(*peer);
            links.entry(*peer).or_default().insert(port.guid);
        }
    }
    let mut tiers: BTreeMap<Guid, u32> = switches.iter().map(|guid| (*guid, u32::MAX)).collect();
    let has_host = |guid: &&Guid| {
        links
            .get(guid)
            .is_some_and(|peers| peers.iter().any(|peer| !switches.contains(peer)))
    };
    let mut next: VecDeque<(Guid, u32)> = switches
        .iter()
        .filter(has_host)
        .map(|guid| (*guid, 1))
        .collect();
    while let Some((guid, tier)) = next.pop_front() {
        match tiers.get_mut(&guid) {
            Some(known) if *known > tier => *known = tier,
            _ => continue,
        }
        next.extend(
            links
                .get(&guid)
                .into_iter()
                .flatten()
                .map(|peer| (*peer, tier + 1)),
        );
    }
    tiers
}

/// Returns a sort key that compares numbers by value: `leaf2` before `leaf10`.
pub(crate) fn natural(name: &str) -> String {
    /// Number of digits of the max 64-bit number.
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

/// Escapes a node description and shortens it to 24 characters.
fn shown(name: &str) -> String {
    const MAX: usize = 24;
    let name = Printable(name).to_string();
    if name.chars().count() <= MAX {
        name
    } else {
        name.chars().take(MAX - 1).chain(['…']).collect()
    }
}

impl RowKind {
    /// Returns whether the rates of a row's ports are added up. Those of the two ends of a link
    /// are not.
    pub const fn is_sum(self) -> bool {
        matches!(
            self,
            Self::Switch | Self::Host | Self::Sl | Self::Vl | Self::Group
        )
    }

    /// Returns whether a row is an element of an array of counters.
    pub const fn is_element(self) -> bool {
        matches!(self, Self::Sl | Self::Vl)
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Port => "port",
            Self::Link => "link",
            Self::Switch => "switch",
            Self::Host => "host",
            Self::Sl => "sl",
            Self::Vl => "vl",
            Self::Group => "group",
            Self::Hour => "hour",
        })
    }
}

impl FromStr for RowKind {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = [
            Self::Port,
            Self::Link,
            Self::Switch,
            Self::Host,
            Self::Sl,
            Self::Vl,
            Self::Group,
        ];
        all.into_iter()
            .find(|by| by.to_string() == text)
            .ok_or_else(|| ParseError::new(text, "port, link, switch, host, sl, vl or group"))
    }
}

impl fmt::Display for RowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Topology => "topology",
            Self::Name => "name",
            Self::Value => "value",
        })
    }
}

impl FromStr for RowOrder {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = [Self::Topology, Self::Name, Self::Value];
        all.into_iter()
            .find(|order| order.to_string() == text)
            .ok_or_else(|| ParseError::new(text, "topology, name or value"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(kind: NodeKind, guid: u64, node: &str, port: u8, peer: (u64, u8, &str)) -> PortAndPeer {
        let peer = Some((Guid(peer.0), PortNum(peer.1), peer.2.to_owned()));
        PortAndPeer {
            guid: Guid(guid),
            port: PortNum(port),
            node: node.to_owned(),
            kind: Some(kind),
            peer,
            link: "".into(),
            gbps: None,
        }
    }

    /// Two leaf switches with one host each, and a spine switch. The ports are in no particular
    /// order.
    fn fabric() -> Vec<PortAndPeer> {
        use NodeKind::{Hca, Switch};
        vec![
            port(Switch, 30, "spine", 1, (20, 2, "leaf10")),
            port(Switch, 30, "spine", 2, (10, 2, "leaf2")),
            port(Hca, 1, "b mlx5_0", 1, (20, 1, "leaf10")),
            port(Hca, 2, "a mlx5_0", 1, (10, 1, "leaf2")),
            port(Switch, 20, "leaf10", 2, (30, 1, "spine")),
            port(Switch, 20, "leaf10", 1, (1, 1, "b mlx5_0")),
            port(Switch, 10, "leaf2", 2, (30, 2, "spine")),
            port(Switch, 10, "leaf2", 1, (2, 1, "a mlx5_0")),
        ]
    }

    fn rows(by: RowKind) -> Vec<(String, Vec<usize>)> {
        let fabric = fabric();
        groups(&fabric.iter().collect::<Vec<_>>(), by)
            .into_iter()
            .map(|group| (group.name.row, group.members))
            .collect()
    }

    #[test]
    fn ports_follow_their_switch_and_hosts_their_switch_port() {
        let names: Vec<_> = rows(RowKind::Port)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "leaf2/1",
                "a mlx5_0/1",
                "leaf2/2",
                "leaf10/1",
                "b mlx5_0/1",
                "leaf10/2",
                "spine/1",
                "spine/2"
            ]
        );
    }

    #[test]
    fn ports_are_grouped_by_switch_host_and_link() {
        assert_eq!(
            rows(RowKind::Switch),
            [
                ("leaf2".to_owned(), vec![7, 6]),
                ("leaf10".to_owned(), vec![5, 4]),
                ("spine".to_owned(), vec![0, 1])
            ]
        );
        assert_eq!(
            rows(RowKind::Host),
            [("a".to_owned(), vec![3]), ("b".to_owned(), vec![2])]
        );
        let links = rows(RowKind::Link);
        assert_eq!(links[0], ("leaf2/1 - a mlx5_0/1".to_owned(), vec![7, 3]));
        assert_eq!(links.len(), 4);
    }

    #[test]
    fn rows_have_the_hosts_of_their_links() {
        let fabric = fabric();
        let hosts = |by| -> Vec<Vec<String>> {
            groups(&fabric.iter().collect::<Vec<_>>(), by)
                .into_iter()
                .map(|group| group.name.hosts)
                .collect()
        };
        assert_eq!(
            hosts(RowKind::Switch),
            [vec!["a".to_owned()], vec!["b".to_owned()], vec![]]
        );
        assert_eq!(hosts(RowKind::Host), [["a"], ["b"]]);
        assert_eq!(
            hosts(RowKind::Port)[..3],
            [vec!["a".to_owned()], vec!["a".to_owned()], vec![]]
        );
    }

    #[test]
    fn fastest_data_rate_of_a_link_is_kept() {
        let mut port = fabric().remove(0);
        for (link, gbps) in [
            ("", None),
            ("??x???", None),
            ("4xSDR", Some(8.0)),
            ("4xEDR", Some(100.0)),
            ("1xSDR", Some(100.0)),
        ] {
            port.update_link(link);
            assert_eq!(port.gbps, gbps, "{link}");
        }
    }

    #[test]
    fn switch_without_records_is_not_a_host() {
        let all = fabric();
        let leaves: Vec<&PortAndPeer> = all
            .iter()
            .filter(|port| port.node.starts_with("leaf"))
            .collect();
        assert_eq!(
            tiers(&leaves),
            [(Guid(10), 1), (Guid(20), 1), (Guid(30), 2)].into()
        );
    }

    #[test]
    fn labels_are_short_and_escaped() {
        let name = groups(
            &[&port(
                NodeKind::Switch,
                1,
                &format!("\u{1b}[2J{}", "x".repeat(99)),
                1,
                (2, 1, ""),
            )],
            RowKind::Port,
        )
        .remove(0)
        .name;
        assert!(
            name.row.starts_with("\\u{1b}[2Jxx") && name.row.chars().count() < 30,
            "{}",
            name.row
        );
    }
}
