//! Searches ports by text, and returns their newest values.

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use serde::Serialize;

use crate::live::frame::{FULL, Frame, LINK_DOWN, NO_ANSWER, NOT_ASSIGNED};
use crate::live::topology::Topology;

/// A port with its newest values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct PortRow {
    /// Index in the topology.
    pub(crate) index: usize,
    pub(crate) guid: Guid,
    pub(crate) port: PortNum,
    pub(crate) node: String,
    pub(crate) kind: Option<NodeKind>,
    pub(crate) lid: Option<Lid>,
    pub(crate) peer_guid: Option<Guid>,
    pub(crate) peer_port: Option<PortNum>,
    pub(crate) peer_node: Option<String>,
    pub(crate) link: String,
    pub(crate) gbps: Option<f64>,
    pub(crate) sampler: Option<String>,
    /// `ok`, `no_answer`, `down`, `no_data` or `not_assigned`.
    pub(crate) status: &'static str,
    pub(crate) xmit_utilization: Option<f64>,
    pub(crate) rcv_utilization: Option<f64>,
    pub(crate) xmit_blocked: Option<f64>,
}

/// Conditions that a port must meet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Search {
    /// Part of the name of the node or of its peer, or a whole GUID or LID.
    pub(crate) text: String,
    /// First word of the name of the node, or the whole name.
    pub(crate) node: Option<String>,
    pub(crate) guid: Option<Guid>,
    pub(crate) limit: usize,
}

/// Returns the ports that match.
pub(crate) fn find(topology: &Topology, frame: Option<&Frame>, search: &Search) -> Vec<PortRow> {
    let text = search.text.trim().to_lowercase();
    // The values fit the ports only if both have the same generation.
    let frame = frame.filter(|frame| frame.topology.generation == topology.generation);
    let mut rows = Vec::new();
    for (index, port) in topology.ports.iter().enumerate() {
        let lid = topology
            .devices
            .get(port.device as usize)
            .and_then(|device| device.lid);
        let has_text = || {
            port.node.to_lowercase().contains(&text)
                || port
                    .peer_node
                    .as_ref()
                    .is_some_and(|node| node.to_lowercase().contains(&text))
                || port.guid.to_string() == text
                || lid.is_some_and(|lid| lid.0.to_string() == text)
        };
        let is_node = |node: &String| {
            port.node == *node || port.node.split_whitespace().next() == Some(node.as_str())
        };
        let is_wanted = search.guid.is_none_or(|guid| port.guid == guid)
            && search.node.as_ref().is_none_or(is_node);
        if !is_wanted || !(text.is_empty() || has_text()) {
            continue;
        }
        if rows.len() == search.limit {
            break;
        }
        let code = |metric: usize| {
            frame
                .and_then(|frame| frame.values[metric].get(index))
                .copied()
        };
        let share = |metric| {
            code(metric)
                .filter(|code| *code <= FULL)
                .map(|code| f64::from(code) / f64::from(FULL))
        };
        rows.push(PortRow {
            index,
            guid: port.guid,
            port: port.port,
            node: port.node.clone(),
            kind: port.kind,
            lid,
            peer_guid: port.peer_guid,
            peer_port: port.peer_port,
            peer_node: port.peer_node.clone(),
            link: port.link.clone(),
            gbps: port.gbps,
            sampler: port.sampler.as_deref().map(str::to_owned),
            status: match (code(0), port.sampler.is_some()) {
                (_, false) | (Some(NOT_ASSIGNED), _) => "not_assigned",
                (Some(LINK_DOWN), _) => "down",
                (Some(NO_ANSWER), _) => "no_answer",
                (Some(0..=FULL), _) => "ok",
                _ => "no_data",
            },
            xmit_utilization: share(0),
            rcv_utilization: share(1),
            xmit_blocked: share(2),
        });
    }
    rows
}
