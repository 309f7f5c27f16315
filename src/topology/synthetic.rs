//! Generated fabrics for demonstrations, virtual sweeps and tests.
//!
//! A [`Blueprint`] is a list of nodes and cables. It can be printed like the output of
//! `ibnetdiscover`, with or without `-p`, or as a net file for ibsim. No other module
//! distinguishes generated fabrics from real ones.

use std::fmt::Write;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

use super::{Peer, ports_report};

/// A list of nodes and cables.
#[derive(Clone, Debug, Default)]
pub struct Blueprint {
    nodes: Vec<Node>,
    speed: &'static str,
}

/// Index of a node in its blueprint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeId(usize);

#[derive(Clone, Debug)]
struct Node {
    kind: NodeKind,
    name: String,
    guid: u64,
    /// The other end of each port's cable. Index 0 is port 1.
    ports: Vec<Option<(NodeId, PortNum)>>,
    /// LIDs by port. A switch has only one LID.
    lids: Vec<Lid>,
}

/// A fat tree of two tiers: every leaf is cabled to every spine.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Number of leaf switches.
    pub leaves: usize,
    /// Hosts on each leaf.
    pub hosts: usize,
    /// Number of spine switches.
    pub spines: usize,
    /// Cables between each leaf and each spine.
    pub trunk: usize,
    /// Ports of a switch.
    pub radix: usize,
}

/// The fabric of the measurements in the LDMS paper, which does not describe all of its details.
/// 12 leaf switches have 288 hosts, and half as many cables to 6 core switches as to hosts
/// (oversubscription 2:1). An I/O part has 4 switches with 14 servers, each on two ports. All
/// links are 4x EDR.
///
/// The totals: 22 switches, 302 HCAs, 338 LIDs, 968 linked ports and 140 unlinked ones.
pub fn stria() -> Blueprint {
    let tree = FatTree {
        leaves: 12,
        hosts: 24,
        spines: 6,
        trunk: 2,
        radix: 36,
    };
    let (mut plan, cores) = tree.with_spines("core");
    let island: Vec<_> = (1..=4)
        .map(|n| plan.switch(&format!("io{n:02}"), 36))
        .collect();
    for (place, switch) in island.iter().enumerate() {
        for (n, core) in cores.iter().enumerate() {
            plan.cable(
                (*core, tree.leaves * tree.trunk + place + 1),
                (*switch, 31 + n),
            );
        }
    }
    let servers = [
        ("admin", 2),
        ("login", 2),
        ("gw", 2),
        ("mds", 2),
        ("oss", 6),
    ];
    let names = servers
        .iter()
        .flat_map(|(role, count)| (1..=*count).map(move |n| format!("{role}{n} mlx5_0")));
    for (n, name) in names.enumerate() {
        // Each server is connected to both switches of one of two pairs, so it stays connected if
        // one switch fails.
        let (pair, place) = (n % 2 * 2, n / 2 + 1);
        let server = plan.adapter(&name, 2);
        plan.cable((server, 1), (island[pair], place));
        plan.cable((server, 2), (island[pair + 1], place));
    }
    plan
}

/// A large fabric of three tiers with 64-port switches: six pods of 32 leaf switches and 32 spine
/// switches, half a pod with 16 leaf switches, and 128 core switches. Each leaf switch has 32
/// hosts. The fabric is not oversubscribed. All links are 4x EDR.
///
/// The totals: 560 switches, 6656 HCAs, 39,936 linked ports.
pub fn large() -> Blueprint {
    const PODS: [usize; 7] = [32, 32, 32, 32, 32, 32, 16];
    const SPINES: usize = 32;
    // Number of core switches for each spine index, and number of cables from a spine to each of
    // these core switches.
    const CORES: usize = 4;
    let mut plan = Blueprint::new("EDR");
    let cores: Vec<_> = (1..=SPINES * CORES)
        .map(|n| plan.switch(&format!("core{n:03}"), 64))
        .collect();
    let mut cabled = vec![0; cores.len()];
    let mut hosts = 0;
    for (pod, leaves) in (1..).zip(PODS) {
        let spines: Vec<_> = (1..=SPINES)
            .map(|n| plan.switch(&format!("spine{pod}-{n:02}"), 64))
            .collect();
        for n in 1..=leaves {
            let leaf = plan.switch(&format!("leaf{pod}-{n:02}"), 64);
            for (place, spine) in spines.iter().enumerate() {
                plan.cable((leaf, 33 + place), (*spine, n));
            }
            for port in 1..=32 {
                hosts += 1;
                let adapter = plan.adapter(&format!("node{hosts:05} mlx5_0"), 1);
                plan.cable((adapter, 1), (leaf, port));
            }
        }
        // A spine has as many cables to core switches as to leaf switches.
        for (place, spine) in spines.iter().enumerate() {
            for up in 0..leaves {
                let core = place * CORES + up % CORES;
                cabled[core] += 1;
                plan.cable((*spine, leaves + 1 + up), (cores[core], cabled[core]));
            }
        }
    }
    plan
}

impl FatTree {
    /// Returns the tree as a blueprint. The leaves are called `leaf01`..., the spines `spine01`...,
    /// and the hosts `node00001 mlx5_0`... The links are EDR.
    ///
    /// # Panics
    /// Panics if a switch needs more ports than its radix.
    pub fn blueprint(&self) -> Blueprint {
        self.with_spines("spine").0
    }

    fn with_spines(&self, spine_name: &str) -> (Blueprint, Vec<NodeId>) {
        assert!(
            self.hosts + self.spines * self.trunk <= self.radix,
            "a leaf has too few ports"
        );
        assert!(
            self.leaves * self.trunk <= self.radix,
            "a spine has too few ports"
        );
        let mut plan = Blueprint {
            speed: "EDR",
            ..Blueprint::default()
        };
        let leaves: Vec<_> = (1..=self.leaves)
            .map(|n| plan.switch(&format!("leaf{n:02}"), self.radix))
            .collect();
        let spines: Vec<_> = (1..=self.spines)
            .map(|n| plan.switch(&format!("{spine_name}{n:02}"), self.radix))
            .collect();
        for (l, leaf) in leaves.iter().enumerate() {
            for (s, spine) in spines.iter().enumerate() {
                for cable in 0..self.trunk {
                    plan.cable(
                        (*leaf, self.hosts + s * self.trunk + cable + 1),
                        (*spine, l * self.trunk + cable + 1),
                    );
                }
            }
            for host in 0..self.hosts {
                let adapter =
                    plan.adapter(&format!("node{:05} mlx5_0", l * self.hosts + host + 1), 1);
                plan.cable((adapter, 1), (*leaf, host + 1));
            }
        }
        (plan, spines)
    }
}

impl Blueprint {
    /// Creates an empty blueprint. All links that are added have the width 4x and this speed.
    pub fn new(speed: &'static str) -> Self {
        Self {
            nodes: Vec::new(),
            speed,
        }
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: &str, ports: usize) -> NodeId {
        self.add(NodeKind::Switch, name, ports)
    }

    /// Adds an HCA.
    pub fn adapter(&mut self, name: &str, ports: usize) -> NodeId {
        self.add(NodeKind::Hca, name, ports)
    }

    fn add(&mut self, kind: NodeKind, name: &str, ports: usize) -> NodeId {
        let base = if kind == NodeKind::Switch {
            0x0020_0000
        } else {
            0x0010_0000
        };
        let guid = base + 0x10 * (1 + self.nodes.len() as u64);
        let next = self
            .nodes
            .last()
            .and_then(|node| node.lids.last())
            .map_or(1, |last| usize::from(last.0) + 1);
        self.nodes.push(Node {
            kind,
            name: name.to_owned(),
            guid,
            ports: vec![None; ports],
            lids: Vec::new(),
        });
        let lids = if kind == NodeKind::Switch { 1 } else { ports };
        let id = self.nodes.len() - 1;
        self.nodes[id].lids = (next..next + lids).map(|lid| Lid(lid as u16)).collect();
        NodeId(id)
    }

    /// Joins two ports.
    ///
    /// # Panics
    /// Panics if a port does not exist or is already joined.
    pub fn cable(&mut self, a: (NodeId, usize), b: (NodeId, usize)) {
        for ((node, port), other) in [(a, b), (b, a)] {
            let place = &mut self.nodes[node.0].ports[port - 1];
            assert!(
                place.is_none(),
                "port {port} of {} already has a cable",
                self.nodes[node.0].name
            );
            *place = Some((other.0, PortNum(other.1 as u8)));
        }
    }

    /// Returns the first port without a cable of a node.
    ///
    /// # Panics
    /// Panics if all ports have a cable.
    pub fn free_port(&self, node: NodeId) -> usize {
        1 + self.nodes[node.0]
            .ports
            .iter()
            .position(Option::is_none)
            .expect("a port without a cable")
    }

    /// Returns the number of ports with a cable.
    pub fn linked_ports(&self) -> usize {
        self.nodes
            .iter()
            .flat_map(|node| &node.ports)
            .flatten()
            .count()
    }

    /// Prints the fabric like `ibnetdiscover -p`. Nodes are in reverse order, and their ports in
    /// descending order. Ports of HCAs are printed only if they are linked.
    pub fn ports_report(&self) -> String {
        let mut text = String::new();
        for node in self.nodes.iter().rev() {
            for (index, peer) in node.ports.iter().enumerate().rev() {
                let num = PortNum(index as u8 + 1);
                let end = peer.map(|(other, port)| self.nodes[other.0].end(port));
                let rate = match &end {
                    Some(_) => format!("4x {}", self.speed),
                    None if node.kind == NodeKind::Switch => "4x SDR".to_owned(),
                    None => continue,
                };
                ports_report::write_line(&mut text, &node.end(num), &rate, end.as_ref());
            }
        }
        text
    }

    /// Prints the fabric like `ibnetdiscover` without `-p`: linked ports only.
    pub fn topology(&self) -> String {
        let mut text = "# Topology file: invented\n#\n".to_owned();
        let id = |node: &Node| {
            format!(
                "\"{}-{:016x}\"",
                if node.kind == NodeKind::Switch {
                    'S'
                } else {
                    'H'
                },
                node.guid
            )
        };
        let in_parentheses = |node: &Node, port| {
            if node.kind == NodeKind::Switch {
                String::new()
            } else {
                format!("({:x}) ", node.port_guid(port))
            }
        };
        for node in self.nodes.iter().rev() {
            let (guid, ports, name) = (node.guid, node.ports.len(), &node.name);
            // Writing to a String cannot fail.
            let _ = match node.kind {
                NodeKind::Switch => {
                    let lid = node.lids[0];
                    let tail = format!("enhanced port 0 lid {lid} lmc 0");
                    writeln!(
                        text,
                        "\nswitchguid={guid:#x}({guid:x})\nSwitch\t{ports} {}\t\t# \"{name}\" {tail}",
                        id(node)
                    )
                }
                _ => writeln!(
                    text,
                    "\ncaguid={guid:#x}\nCa\t{ports} {}\t\t# \"{name}\"",
                    id(node)
                ),
            };
            for (num, peer) in (1..).map(PortNum).zip(&node.ports) {
                let Some((other, port)) = peer else { continue };
                let other = &self.nodes[other.0];
                let own = if node.kind == NodeKind::Switch {
                    String::new()
                } else {
                    format!("lid {} lmc 0 ", node.lid(num))
                };
                let (ends, far) = (
                    (in_parentheses(node, num), in_parentheses(other, *port)),
                    other.lid(*port),
                );
                let _ = writeln!(
                    text,
                    "[{num}]{}\t{}[{port}]{}\t\t# {own}\"{}\" lid {far} 4x{}",
                    ends.0,
                    id(other),
                    ends.1,
                    other.name,
                    self.speed
                );
            }
        }
        text
    }

    /// Prints a net file for ibsim. The name of a node is the first word of its name here, after
    /// `S-` or `H-`.
    pub fn ibsim_net(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let kind = if node.kind == NodeKind::Switch {
                "Switch"
            } else {
                "Hca"
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{kind}\t{} \"{}\"\t\t# \"{}\"",
                node.ports.len(),
                node.ibsim_name(),
                node.name
            );
            for (num, peer) in (1..).zip(&node.ports) {
                if let Some((other, port)) = peer {
                    let _ = writeln!(
                        text,
                        "[{num}]\t\"{}\"[{port}]",
                        self.nodes[other.0].ibsim_name()
                    );
                }
            }
            text.push('\n');
        }
        text
    }
}

impl Node {
    /// Returns a port as the ports report describes it.
    fn end(&self, port: PortNum) -> Peer {
        Peer {
            guid: Guid(self.port_guid(port)),
            lid: self.lid(port),
            port,
            kind: self.kind,
            name: self.name.clone(),
        }
    }

    fn lid(&self, port: PortNum) -> Lid {
        if self.kind == NodeKind::Switch {
            self.lids[0]
        } else {
            self.lids[usize::from(port.0) - 1]
        }
    }

    fn port_guid(&self, port: PortNum) -> u64 {
        if self.kind == NodeKind::Switch {
            self.guid
        } else {
            self.guid + u64::from(port.0)
        }
    }

    fn ibsim_name(&self) -> String {
        let letter = if self.kind == NodeKind::Switch {
            'S'
        } else {
            'H'
        };
        format!(
            "{letter}-{}",
            self.name.split(' ').next().unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::graph::UNREACHABLE;
    use crate::topology::{Device, Fabric, Graph, net_file};

    #[test]
    fn stria_has_its_documented_size() {
        let file = ports_report::parse(stria().ports_report().as_bytes(), "stria")
            .expect("a valid ports report");
        assert_eq!(file.remarks, []);
        assert_eq!((file.fabric.linked_ports(), file.port_lines), (968, 1108));
        let switches = file
            .fabric
            .devices()
            .iter()
            .filter(|device| device.kind == NodeKind::Switch)
            .count();
        assert_eq!((switches, file.fabric.devices().len()), (22, 338));
    }

    #[test]
    fn both_formats_have_the_same_links() {
        let read =
            |text: String| net_file::parse(text.as_bytes(), "stria").expect("a valid ports report");
        let (plain, report) = (read(stria().topology()), read(stria().ports_report()));
        assert_eq!(plain.remarks, []);
        let links = |fabric: &Fabric| {
            let of = |device: &Device| {
                let linked = device
                    .linked()
                    .map(|(port, peer)| (port.num, port.rate.clone(), peer.clone()));
                (
                    device.guid,
                    device.lid,
                    device.kind,
                    device.name.clone(),
                    linked.collect::<Vec<_>>(),
                )
            };
            fabric.devices().iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(links(&plain.fabric), links(&report.fabric));
        assert!(plain.fabric.devices().iter().all(|device| {
            device
                .node
                .guid
                .is_some_and(|node| device.guid.0 - node.0 <= 2)
        }));
    }

    #[test]
    fn large_fabric_has_its_documented_size() {
        let plan = large();
        let switches = plan
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Switch)
            .count();
        assert_eq!(
            (plan.linked_ports(), switches, plan.nodes.len() - switches),
            (39_936, 560, 6656)
        );
    }

    #[test]
    fn hops_and_tiers_of_a_fat_tree() {
        let tree = FatTree {
            leaves: 3,
            hosts: 2,
            spines: 2,
            trunk: 1,
            radix: 8,
        };
        let fabric = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
            .expect("a valid ports report")
            .fabric;
        let graph = Graph::new(&fabric);
        let named = |name: &str| {
            fabric
                .iter()
                .find(|(_, device)| device.host() == name)
                .expect("in the tree")
                .0
        };
        let hops = graph.hops_from([named("node00001")]);
        let to = |name: &str| hops[named(name).0 as usize];
        assert_eq!(
            (
                to("node00001"),
                to("leaf01"),
                to("node00002"),
                to("spine02"),
                to("leaf03"),
                to("node00006")
            ),
            (0, 1, 2, 2, 3, 4)
        );
        let tiers = graph.tiers(&fabric);
        let tier = |name: &str| tiers[named(name).0 as usize];
        assert_eq!(
            (tier("leaf02"), tier("spine01"), tier("node00001")),
            (1, 2, 0)
        );
        assert!(hops.iter().all(|hops| *hops != UNREACHABLE));
    }
}
