//! The heat map rows for groups of hosts.

use std::collections::BTreeSet;

use ibnet_record::types::{NodeKind, Printable};

use super::order::{PortAndPeer, RowGroup, RowId, RowLabel};
use crate::groups::Groups;
use crate::hosts::host_of;

/// Returns a row for each group with a recorded HCA port.
pub(super) fn rows(ports: &[&PortAndPeer], groups: &Groups) -> Vec<RowGroup> {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups.iter().count()];
    for (index, port) in ports
        .iter()
        .enumerate()
        .filter(|(_, port)| port.kind == Some(NodeKind::Hca))
    {
        if let Some(group) = groups.of(&port.node) {
            members[group].push(index);
        }
    }
    let names = groups
        .iter()
        .map(|group| Printable(&group.name).to_string());
    let row = |(name, members): (String, Vec<usize>)| {
        let hosts: BTreeSet<String> = members
            .iter()
            .map(|index| host_of(&ports[*index].node).to_owned())
            .collect();
        let id = RowId {
            node: Some(name.clone()),
            ..RowId::default()
        };
        RowGroup {
            name: RowLabel {
                hosts: hosts.into_iter().collect(),
                id,
                ..RowLabel::new(name)
            },
            members,
        }
    };
    names
        .zip(members)
        .filter(|(_, members)| !members.is_empty())
        .map(row)
        .collect()
}
