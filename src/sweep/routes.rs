//! Routes from the sending port to devices, for subnet management by directed routes.
//!
//! - [`Cables`] are the links of the plan. Only switches forward requests.
//! - A route is a shortest one. Hosts begin their search at different links of a switch, so that
//!   the routes of many samplers are spread over equal switches.
//! - Other routes to a device ([`Routes::to`]) each avoid one link of the first route, so one of
//!   them leads around a link that has failed or was moved, if the cables have a way around it.
//! - Routes follow a cable that was found elsewhere ([`Routes::connect`]).

use std::ops::Range;
use std::sync::Arc;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use rustc_hash::FxHashMap;

use crate::mad::directed::Route;

/// A port of a device: its GUID, which is that of port 0 for a switch, and its number.
pub type End = (Guid, PortNum);

/// The cables of a plan.
#[derive(Clone, Debug, Default)]
pub struct Cables {
    nodes: Vec<Node>,
    by_guid: FxHashMap<Guid, u32>,
    /// The ports of all nodes that have a cable. Those of a node are adjacent.
    links: Vec<Link>,
}

/// A port of a node, and the node and the port at the other end of its cable. A port without a
/// cable leads to its own node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Link {
    node: u32,
    port: PortNum,
    to: u32,
    far: PortNum,
}

/// A switch, or a port of an HCA.
#[derive(Clone, Debug, Default)]
struct Node {
    guid: Guid,
    lid: Lid,
    is_switch: bool,
    links: Range<u32>,
}

impl Cables {
    /// Creates the cables of these devices: GUID, LID and kind of each. `cables` has the ends of
    /// each cable, in any order and direction.
    pub fn new(
        devices: impl IntoIterator<Item = (Guid, Lid, NodeKind)>,
        cables: impl IntoIterator<Item = (End, End)>,
    ) -> Self {
        let mut new = Self::default();
        for (guid, lid, kind) in devices {
            let node = new.node(guid);
            let node = &mut new.nodes[node as usize];
            (node.lid, node.is_switch) = (lid, kind == NodeKind::Switch);
        }
        for (one, other) in cables {
            let (a, b) = (new.node(one.0), new.node(other.0));
            let link = |(node, port), (to, far)| Link {
                node,
                port,
                to,
                far,
            };
            let (one, other) = ((a, one.1), (b, other.1));
            new.links.extend([link(one, other), link(other, one)]);
        }
        let links = &mut new.links;
        links.sort_unstable();
        links.dedup();
        let mut start = 0;
        for (index, node) in (0..).zip(&mut new.nodes) {
            let end = start + new.links[start..].partition_point(|link| link.node == index);
            node.links = start as u32..end as u32;
            start = end;
        }
        new
    }

    fn node(&mut self, guid: Guid) -> u32 {
        let new = self.nodes.len() as u32;
        let node = *self.by_guid.entry(guid).or_insert(new);
        if node == new {
            self.nodes.push(Node {
                guid,
                ..Node::default()
            });
        }
        node
    }

    fn find(&self, guid: Guid) -> Option<u32> {
        self.by_guid.get(&guid).copied()
    }

    /// Returns the place of a port that has a cable in the plan.
    fn link(&self, (guid, port): End) -> Option<usize> {
        let links = &self.nodes[self.find(guid)? as usize].links;
        let mut places = links.start as usize..links.end as usize;
        places.find(|place| self.links[*place].port == port)
    }

    /// Removes the cable of a port.
    fn disconnect(&mut self, place: usize) {
        let Link { node, to, far, .. } = self.links[place];
        let other = self.link((self.nodes[to as usize].guid, far));
        self.links[place].to = node;
        if let Some(other) = other.filter(|other| self.links[*other].to == node) {
            self.links[other].to = to;
        }
    }

    /// Returns the GUID of the device at a LID.
    fn guid_at(&self, lid: Lid) -> Option<Guid> {
        let found = self.nodes.iter().find(|node| node.lid == lid);
        found.map(|node| node.guid)
    }
}

/// A node on the way to another one, and its port that leads on.
type Hop = (u32, PortNum);

/// The routes from one port. After its creation it allocates no memory.
#[derive(Debug)]
pub struct Routes {
    cables: Arc<Cables>,
    /// The sending port.
    from: Option<End>,
    /// The last hop before each node: on the first routes, and on those of the last search.
    first: Vec<Option<Hop>>,
    other: Vec<Option<Hop>>,
    queue: Vec<u32>,
}

impl Routes {
    /// Creates routes along these cables, without a sending port.
    pub fn new(cables: Arc<Cables>) -> Self {
        let nodes = cables.nodes.len();
        Self {
            cables,
            from: None,
            first: vec![None; nodes],
            other: vec![None; nodes],
            queue: Vec::with_capacity(nodes),
        }
    }

    /// Sets the sending port: the GUID of the port of an HCA, and the number by which requests
    /// leave it. Returns whether it has changed.
    pub fn begin_at(&mut self, from: End) -> bool {
        let has_changed = self.from.replace(from) != Some(from);
        if has_changed {
            let Self {
                cables,
                first,
                queue,
                ..
            } = self;
            search(cables, from, None, first, queue);
        }
        has_changed
    }

    /// Follows a cable that was found between two ports, of which the first has a cable in the
    /// plan. Other cables of these ports are gone. Returns whether a route can change.
    pub fn connect(&mut self, one: End, other: End) -> bool {
        let (Some(a), b) = (self.cables.link(one), self.cables.link(other)) else {
            return false;
        };
        let (to, far) = (self.cables.find(other.0), other.1);
        let Link {
            node,
            to: was,
            far: was_far,
            ..
        } = self.cables.links[a];
        if to == Some(was) && far == was_far || b.is_none() && was == node {
            return false;
        }
        // The plan is shared with other samplers.
        let cables = Arc::make_mut(&mut self.cables);
        for place in [Some(a), b].into_iter().flatten() {
            cables.disconnect(place);
        }
        if let (Some(b), Some(to)) = (b, to) {
            let port = cables.links[a].port;
            (cables.links[a].to, cables.links[a].far) = (to, far);
            (cables.links[b].to, cables.links[b].far) = (node, port);
        }
        if let Some(from) = self.from {
            search(&self.cables, from, None, &mut self.first, &mut self.queue);
        }
        true
    }

    /// Returns the GUID of the device that has a LID in the plan.
    pub fn guid_at(&self, lid: Lid) -> Option<Guid> {
        self.cables.guid_at(lid)
    }

    /// Returns a route to a device, and its number. Route 0 is the first one. Each other route
    /// avoids one link of the first one: route 1 the last link, route 2 the last but one, and so
    /// on. The result is the route with the smallest number from `number` on that exists, or else
    /// route 0. Returns `None` if no cables lead to the device.
    pub fn to(&mut self, guid: Guid, number: u8) -> Option<(u8, Route)> {
        let Self {
            cables,
            from,
            first,
            other,
            queue,
        } = self;
        let from = (*from)?;
        let (own, to) = (cables.find(from.0)?, cables.find(guid)?);
        let along = |hops: &[Option<Hop>]| {
            let is_reached = to == own || hops[to as usize].is_some();
            Route::back(to, |at| hops[at as usize]).filter(|_| is_reached)
        };
        let route = along(first)?;
        let (mut at, others) = (to, 1..route.ports().len() as u8);
        for place in others.filter(|_| number > 0) {
            let hop = first[at as usize]?;
            at = hop.0;
            if place < number {
                continue;
            }
            search(cables, from, Some(hop), other, queue);
            if let Some(route) = along(other) {
                return Some((place, route));
            }
        }
        Some((0, route))
    }
}

/// Finds a shortest route from a port to each node, without the link of `avoided`. `via` gets the
/// last hop before each node.
fn search(
    cables: &Cables,
    from: End,
    avoided: Option<Hop>,
    via: &mut [Option<Hop>],
    queue: &mut Vec<u32>,
) {
    via.fill(None);
    queue.clear();
    let Some(own) = cables.find(from.0) else {
        return;
    };
    queue.push(own);
    let turn = (from.0.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
    let mut next = 0;
    while let Some(at) = queue.get(next).copied() {
        next += 1;
        let Node {
            is_switch, links, ..
        } = &cables.nodes[at as usize];
        if at != own && !is_switch {
            continue;
        }
        let links = &cables.links[links.start as usize..links.end as usize];
        let of = |is_switch| {
            let nodes = &cables.nodes;
            links
                .iter()
                .filter(move |link| nodes[link.to as usize].is_switch == is_switch)
        };
        let before = turn % of(true).count().max(1);
        let to_switches = of(true).skip(before).chain(of(true).take(before));
        for Link { port, to, .. } in to_switches.chain(of(false)) {
            let place = &mut via[*to as usize];
            if [own, at].contains(to) || place.is_some() || avoided == Some((at, *port)) {
                continue;
            }
            *place = Some((at, if at == own { from.1 } else { *port }));
            queue.push(*to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(guid: u64, port: u8) -> End {
        (Guid(guid), PortNum(port))
    }

    /// Two leaves (1, 2), two spines (3, 4), and the hosts 10 at leaf 1 and 20 at leaf 2.
    fn routes() -> Routes {
        let switches = (1..=4).map(|guid| (Guid(guid), Lid(guid as u16), NodeKind::Switch));
        let hosts = [10, 20].map(|guid| (Guid(guid), Lid(guid as u16), NodeKind::Hca));
        let cables = [
            (end(10, 1), end(1, 1)),
            (end(20, 1), end(2, 1)),
            (end(1, 3), end(3, 1)),
            (end(4, 1), end(1, 4)),
            (end(3, 2), end(2, 3)),
            (end(2, 4), end(4, 2)),
        ];
        Routes::new(Arc::new(Cables::new(switches.chain(hosts), cables)))
    }

    fn ports(found: Option<(u8, Route)>) -> (u8, Vec<u8>) {
        let (number, route) = found.expect("a route");
        (number, route.ports().iter().map(|port| port.0).collect())
    }

    #[test]
    fn routes_are_shortest_and_leave_by_the_port_that_sends() {
        let mut routes = routes();
        assert_eq!(routes.to(Guid(1), 0), None, "nothing sends yet");
        assert!(routes.begin_at(end(10, 2)) && !routes.begin_at(end(10, 2)));
        assert_eq!(ports(routes.to(Guid(10), 0)), (0, vec![]));
        assert_eq!(ports(routes.to(Guid(1), 0)), (0, vec![2]));
        let (_, first) = ports(routes.to(Guid(20), 0));
        assert!([vec![2, 3, 2, 1], vec![2, 4, 2, 1]].contains(&first));
        assert_eq!(routes.to(Guid(99), 0), None);
        assert_eq!(routes.guid_at(Lid(20)), Some(Guid(20)));
        assert_eq!(routes.guid_at(Lid(99)), None);
        routes.begin_at(end(99, 1));
        assert_eq!(routes.to(Guid(1), 0), None, "the plan lacks the port");
    }

    #[test]
    fn other_routes_avoid_a_link_of_the_first_one() {
        let mut routes = routes();
        routes.begin_at(end(10, 1));
        let (_, first) = ports(routes.to(Guid(2), 0));
        let other = if first[1] == 3 { 4 } else { 3 };
        for (number, found) in [(1, 1), (2, 2)] {
            assert_eq!(
                ports(routes.to(Guid(2), number)),
                (found, vec![1, other, 2]),
                "route {number}"
            );
        }
        assert_eq!(ports(routes.to(Guid(2), 3)), (0, first));
        // No way leads around the only link of a host.
        let (number, _) = ports(routes.to(Guid(20), 1));
        assert_eq!(number, 2);
    }

    #[test]
    fn routes_follow_exchanged_cables_and_cables_that_are_back() {
        let mut routes = routes();
        routes.begin_at(end(10, 1));
        // Two cables between switches are exchanged: 1 to 4 and 2 to 3 are doubled.
        assert!(routes.connect(end(1, 3), end(4, 2)) && !routes.connect(end(4, 2), end(1, 3)));
        assert_eq!(routes.to(Guid(2), 0), None, "1 and 4 are an island");
        assert_eq!(ports(routes.to(Guid(4), 0)).1.len(), 2);
        assert!(routes.connect(end(2, 4), end(3, 1)));
        assert_eq!(routes.to(Guid(20), 0), None);
        assert!(routes.connect(end(1, 3), end(3, 1)));
        assert_eq!(ports(routes.to(Guid(20), 0)), (0, vec![1, 3, 2, 1]));
        assert!(routes.connect(end(4, 2), end(2, 4)));
        assert_eq!(ports(routes.to(Guid(20), 1)).0, 2, "all cables are back");
        // A device that is not in the plan is at the end of a cable.
        assert!(routes.connect(end(1, 3), end(99, 1)) && !routes.connect(end(1, 3), end(98, 1)));
        assert_eq!(ports(routes.to(Guid(20), 0)), (0, vec![1, 4, 2, 1]));
        assert!(!routes.connect(end(99, 1), end(1, 3)));
    }

    #[test]
    fn hosts_spread_their_routes_over_equal_switches() {
        let hosts: Vec<u64> = (100..164).collect();
        let switches = (1..=10).map(|guid| (Guid(guid), Lid(guid as u16), NodeKind::Switch));
        let of_hosts = (1..).zip(&hosts);
        let at_leaf = of_hosts.map(|(port, host)| (end(*host, 1), end(1, port)));
        let trunks = (3..=10).flat_map(|spine| {
            let port = spine as u8 + 100;
            [(end(1, port), end(spine, 1)), (end(2, port), end(spine, 2))]
        });
        let cables = Arc::new(Cables::new(switches, at_leaf.chain(trunks)));
        let mut routes = Routes::new(cables);
        let mut used = std::collections::BTreeMap::new();
        for host in &hosts {
            routes.begin_at(end(*host, 1));
            *used.entry(ports(routes.to(Guid(2), 0)).1[1]).or_insert(0) += 1;
        }
        assert!(
            used.len() >= 6 && used.values().all(|hosts| *hosts < 24),
            "{used:?}"
        );
    }
}
