//! Checks that the HCAs with the same name of all hosts are cabled to the same leaf switches, as on
//! a machine with rails.
//!
//! A *rail* is the name of an HCA within its host: see [`rail`]. Only hosts with the same rails are
//! compared. A leaf switch belongs to the rail of most of their ports. A port on a leaf switch of
//! another rail is wrong if at most an eighth as many ports of its own rail are there, and if the
//! port of its host that belongs there is somewhere else. Where all HCAs of a host share a leaf
//! switch, or where each leaf switch has as many ports of every rail, no port is wrong.

use std::collections::BTreeMap;

use ibnet_record::rail;
use ibnet_record::types::{Guid, NodeKind};

use super::{Device, Fabric, Peer, Port, Remark, RemarkKind};

/// Min number of ports of a rail on a leaf switch that belongs to it.
const LEAST_PORTS: usize = 4;

/// Max part of the ports of a rail on a leaf switch that another rail can have by mistake.
const MISTAKES: usize = 8;

/// A leaf switch: the index of its subnet, and its GUID.
type Leaf = (usize, Guid);

/// An HCA port of a host.
struct HostPort<'a> {
    rail: String,
    leaf: Leaf,
    leaf_name: &'a str,
    name: &'a str,
    port: &'a Port,
}

/// Returns a remark for each port that is cabled to a leaf switch of another rail, with the index
/// of its subnet. A rail can be a subnet of its own, so all subnets are checked together.
pub(super) fn check(subnets: &[&Fabric]) -> Vec<(usize, Remark)> {
    let mut by_rails: BTreeMap<Vec<String>, Vec<Vec<HostPort<'_>>>> = BTreeMap::new();
    for host in hosts(subnets) {
        let mut rails: Vec<_> = host.iter().map(|port| port.rail.clone()).collect();
        rails.sort_unstable();
        by_rails.entry(rails).or_default().push(host);
    }
    by_rails.values().flat_map(|hosts| wrong(hosts)).collect()
}

/// Returns the ports of each host with several HCA ports.
fn hosts<'a>(subnets: &[&'a Fabric]) -> Vec<Vec<HostPort<'a>>> {
    let mut by_host: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (index, fabric) in subnets.iter().enumerate() {
        for device in fabric.devices() {
            let is_host = device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device);
            let linked = device
                .linked()
                .filter(|(_, peer)| peer.kind == NodeKind::Switch);
            for (port, peer) in linked.filter(|_| is_host) {
                let ports = by_host.entry(device.host()).or_default();
                ports.push((index, device, port, peer));
            }
        }
    }
    let of_host = |ports: Vec<(usize, &'a Device, &'a Port, &'a Peer)>| {
        let names: Vec<_> = ports
            .iter()
            .map(|(_, device, port, _)| (device.guid, port.num, &*device.name))
            .collect();
        rail::of_host(&names)
            .into_iter()
            .zip(ports)
            .map(|(rail, (net, device, port, peer))| HostPort {
                rail,
                leaf: (net, peer.guid),
                leaf_name: &peer.name,
                name: &device.name,
                port,
            })
            .collect()
    };
    let several = by_host
        .into_iter()
        .filter(|(host, ports)| !host.is_empty() && ports.len() > 1);
    several.map(|(_, ports)| of_host(ports)).collect()
}

/// Returns a remark for each wrong port of hosts with the same rails, with the index of its subnet.
fn wrong(hosts: &[Vec<HostPort<'_>>]) -> Vec<(usize, Remark)> {
    let mut leaves: BTreeMap<Leaf, BTreeMap<&str, usize>> = BTreeMap::new();
    for port in hosts.iter().flatten() {
        *leaves
            .entry(port.leaf)
            .or_default()
            .entry(&port.rail)
            .or_default() += 1;
    }
    let owner = |leaf: &Leaf| {
        let (rail, ports) = leaves.get(leaf)?.iter().max_by_key(|(_, ports)| **ports)?;
        (*ports >= LEAST_PORTS).then_some((*rail, *ports))
    };
    let has_leaf = |rail: &str| {
        leaves
            .keys()
            .filter_map(owner)
            .any(|(of_leaf, _)| of_leaf == rail)
    };
    let mut found = Vec::new();
    for host in hosts {
        for port in host {
            let Some((rail, ports)) = owner(&port.leaf).filter(|(rail, _)| **rail != *port.rail)
            else {
                continue;
            };
            let is_rare = leaves[&port.leaf][&*port.rail] * MISTAKES <= ports;
            let is_elsewhere = host
                .iter()
                .any(|other| *other.rail == *rail && other.leaf != port.leaf);
            if is_rare && is_elsewhere && has_leaf(&port.rail) {
                let text = format!(
                    "`{}` is cabled to `{}`, which has {rail} of {ports} hosts",
                    port.name, port.leaf_name
                );
                let remark = Remark::new(port.port.position(), RemarkKind::OtherRail, text);
                found.push((port.leaf.0, remark));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::topology::RemarkKind;
    use crate::topology::net_file::{parse, parse_all};
    use crate::topology::synthetic::Blueprint;

    /// Returns a fabric of `hosts` hosts with an HCA on each leaf switch given by `leaf`.
    fn fabric(hosts: usize, rails: usize, leaf: impl Fn(usize, usize) -> usize) -> String {
        let mut net = Blueprint::new("NDR");
        let leaves: Vec<_> = (0..rails)
            .map(|n| net.switch(&format!("leaf{n}"), 64))
            .collect();
        for host in 0..hosts {
            for rail in 0..rails {
                let adapter = net.adapter(&format!("gpu{host} mlx5_{rail}"), 1);
                let port = net.free_port(leaves[leaf(host, rail)]);
                net.cable((adapter, 1), (leaves[leaf(host, rail)], port));
            }
        }
        net.ports_report()
    }

    fn wrong(text: &str) -> Vec<String> {
        let net = parse(text.as_bytes(), "net.p").unwrap();
        assert!(
            net.remarks
                .iter()
                .all(|remark| remark.kind == RemarkKind::OtherRail)
        );
        let mut texts: Vec<_> = net
            .remarks
            .iter()
            .map(|remark| remark.text.clone())
            .collect();
        texts.sort_unstable();
        texts
    }

    #[test]
    fn swapped_cables_of_a_host_are_reported() {
        assert!(wrong(&fabric(16, 4, |_, rail| rail)).is_empty());
        let swapped = |host, rail| match (host, rail) {
            (5, 1) => 2,
            (5, 2) => 1,
            _ => rail,
        };
        assert_eq!(
            wrong(&fabric(16, 4, swapped)),
            [
                "`gpu5 mlx5_1` is cabled to `leaf2`, which has mlx5_2 of 15 hosts",
                "`gpu5 mlx5_2` is cabled to `leaf1`, which has mlx5_1 of 15 hosts"
            ]
        );
    }

    #[test]
    fn fabrics_without_rails_have_no_wrong_port() {
        // All HCAs of a host on one leaf switch, and HCAs dealt out in turn.
        assert!(wrong(&fabric(16, 4, |host, _| host / 4)).is_empty());
        assert!(wrong(&fabric(16, 4, |host, rail| (host + rail) % 4)).is_empty());
        // Too few hosts to say what is usual.
        assert!(wrong(&fabric(3, 2, |host, rail| (host / 2 + rail) % 2)).is_empty());
    }

    #[test]
    fn cable_in_the_subnet_of_another_rail_is_reported() {
        let rail = |number: usize| {
            let mut net = Blueprint::new("NDR");
            let leaf = net.switch(&format!("leaf{number}"), 64);
            for host in 0..12 {
                let own = if host == 3 { 1 - number } else { number };
                let adapter = net.adapter(&format!("gpu{host} mlx5_{own}"), 1);
                net.cable((adapter, 1), (leaf, host + 1));
            }
            // GUIDs of the second subnet are others.
            let text = net.ports_report();
            let other = format!("0x0{number}");
            (
                format!("rail{number}.p"),
                text.replace("0x00", &other).into_bytes(),
            )
        };
        let nets = parse_all(&[rail(0), rail(1)]).unwrap();
        let texts: Vec<_> = nets
            .iter()
            .map(|net| {
                net.remarks
                    .iter()
                    .map(|remark| &*remark.text)
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            texts,
            [
                ["`gpu3 mlx5_1` is cabled to `leaf0`, which has mlx5_0 of 11 hosts"],
                ["`gpu3 mlx5_0` is cabled to `leaf1`, which has mlx5_1 of 11 hosts"]
            ]
        );
    }
}
