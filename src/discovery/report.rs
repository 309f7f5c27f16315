//! What a discovery found, as the lines of a net file, and what did not answer.
//!
//! The lines are those of `ibnetdiscover -p`, sorted by node GUID and port. If several ports lead
//! to one port, because two devices have the same GUID or a cable was moved meanwhile, the link
//! that the longest route found remains, as with `ibnetdiscover`: the other ports have no link.

use std::collections::BTreeSet;

use ibnet_record::types::{Guid, NodeKind, PortNum, Printable};

use super::explore::{Exploration, Node, PortState};
use crate::topology::{Peer, ports_report};

/// A port of a node: the index of the node, and the port number.
type Place = (u32, PortNum);

/// What is known about a port besides its link.
#[derive(Clone, Copy, Default)]
struct Known {
    guid: Guid,
    state: PortState,
    peer: Option<Place>,
}

impl Exploration {
    /// Returns the lines of the net file, and a sentence for each thing that is missing or
    /// doubtful.
    pub fn report(&self) -> (String, Vec<String>) {
        let mut ports: Vec<Vec<Option<Known>>> = self.nodes.iter().map(of_switch).collect();
        let mut doubtful = BTreeSet::new();
        let mut notes = Vec::new();
        // The order is that of the routes and not that of the replies, so that two discoveries of
        // the same fabric give the same result.
        let mut routes: Vec<_> = (0..).zip(&self.ends).collect();
        routes.sort_by_cached_key(|(end, _)| {
            let ports = self.route(*end).ports().to_vec();
            (ports.len(), ports)
        });
        for (index, end) in routes {
            notes.extend(end.is_silent.then(|| self.silent(index)));
            let Some(own) = end.found else { continue };
            let known = at(&mut ports, own).get_or_insert_default();
            if self.nodes[own.0 as usize].kind != NodeKind::Switch {
                (known.guid, known.state) = (end.guid, end.port.unwrap_or_default());
            } else {
                known.guid = end.guid;
            }
            let via = end
                .via
                .and_then(|(from, port)| Some((self.ends[from as usize].found?.0, port)));
            let Some(other) = via else { continue };
            for (port, peer) in [(own, other), (other, own)] {
                let before = at(&mut ports, port)
                    .get_or_insert_default()
                    .peer
                    .replace(peer);
                if let Some(before) = before.filter(|before| *before != peer) {
                    doubtful.insert(port.0);
                    at(&mut ports, before).get_or_insert_default().peer = None;
                    at(&mut ports, port).get_or_insert_default().peer = Some(peer);
                }
            }
        }
        for node in doubtful {
            let Node { name, guid, .. } = &self.nodes[node as usize];
            let name = Printable(name);
            notes.push(format!("`{name}` ({guid}): several cables lead to one of its ports; two devices have this GUID, or a cable was moved meanwhile"));
        }
        (self.lines(&ports), notes)
    }

    fn lines(&self, ports: &[Vec<Option<Known>>]) -> String {
        let mut text = String::new();
        let mut nodes: Vec<_> = (0..).zip(&self.nodes).collect();
        nodes.sort_by_key(|(_, node)| node.guid);
        for (index, node) in nodes {
            let numbers = (0..=u8::MAX).map(PortNum);
            for (port, known) in numbers.zip(&ports[index as usize]).skip(1) {
                let Some(known) = known else { continue };
                let info = known.state.info;
                let mask = match node.kind {
                    NodeKind::Switch => of_port_0(node).info.capability_mask,
                    NodeKind::Hca | NodeKind::Router => info.capability_mask,
                };
                let rate = info.rate(mask);
                let end = |(index, port): Place| {
                    let node = &self.nodes[index as usize];
                    let known = ports[index as usize][usize::from(port.0)].unwrap_or_default();
                    Peer {
                        guid: known.guid,
                        lid: match node.kind {
                            NodeKind::Switch => of_port_0(node).lid,
                            NodeKind::Hca | NodeKind::Router => known.state.lid,
                        },
                        port,
                        kind: node.kind,
                        name: node.name.clone(),
                    }
                };
                let peer = known.peer.map(end);
                let rate = format!("{} {}", rate.width, rate.speed);
                ports_report::write_line(&mut text, &end((index, port)), &rate, peer.as_ref());
            }
        }
        text
    }

    /// Describes an end that did not answer.
    fn silent(&self, index: u32) -> String {
        let end = &self.ends[index as usize];
        let named = |node: u32| {
            let Node { name, guid, .. } = &self.nodes[node as usize];
            format!("`{}` ({guid})", Printable(name))
        };
        match (end.found, end.via) {
            (Some((node, _)), _) => format!("{} stopped answering", named(node)),
            (None, Some((from, port))) => {
                let from = self.ends[from as usize].found;
                let from = from.map_or_else(String::new, |(node, _)| named(node));
                format!("the device behind port {port} of {from} does not answer")
            }
            (None, None) => "the HCA port of this host does not answer".to_owned(),
        }
    }
}

/// Returns what a switch reported about its own ports.
fn of_switch(node: &Node) -> Vec<Option<Known>> {
    let known = |state: PortState| Known {
        guid: node.port_guid,
        state,
        peer: None,
    };
    node.ports
        .iter()
        .map(|port| port.state.map(known))
        .collect()
}

fn of_port_0(node: &Node) -> PortState {
    node.ports[0].state.unwrap_or_default()
}

fn at(ports: &mut [Vec<Option<Known>>], (node, port): Place) -> &mut Option<Known> {
    &mut ports[node as usize][usize::from(port.0)]
}
