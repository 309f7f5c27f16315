//! The fabric as a tree of switches for schedulers: Slurm and Kubernetes.
//!
//! A leaf switch is one that hosts are cabled to. The levels above it are groups: all switches up
//! to a tier that are connected without higher tiers, such as a pod of a fat tree. So the spines of
//! a pod are one switch of the tree, with the name of the first of them. Fabrics without a
//! connection have roots of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use ibnet_record::count::count;
use ibnet_record::hostlist;
use ibnet_record::rail;
use ibnet_record::types::NodeKind;

use crate::topology::graph::UNREACHABLE;
use crate::topology::{Device, DeviceId, Fabric, Graph, NetFile, system};

/// Which HCAs place a host.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these hosts. `None` for all.
    pub hosts: Option<BTreeSet<String>>,
    /// Names of HCAs that do not count, such as `mlx5_4` for storage.
    pub storage: BTreeSet<String>,
}

/// The switches of all fabrics as trees.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// Leaf switches, and after them the groups, those of lower tiers first.
    pub switches: Vec<Switch>,
    /// What was left out, with the reason.
    pub notes: Vec<String>,
}

/// A leaf switch, or the switches of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Unique name without characters that have a meaning for Slurm.
    pub name: String,
    /// Hosts of a leaf switch.
    pub hosts: BTreeSet<String>,
    /// Names of the highest switches of a group. Empty for a leaf switch.
    pub members: Vec<String>,
    /// Index of the group to which it belongs.
    pub parent: Option<usize>,
}

impl Tree {
    /// Returns the tree of all subnets.
    ///
    /// A host is on the leaf switch of its first HCA port, in the order of their names, that is
    /// not for storage and whose line agrees with that of the switch.
    pub fn new(nets: &[NetFile], selection: &Selection) -> Self {
        let mut tree = Self::default();
        let places = places(nets, selection, &mut tree.notes);
        let mut names = BTreeSet::new();
        for (subnet, NetFile { fabric, .. }) in nets.iter().enumerate() {
            let of_leaf = places.iter().filter(|((of, _), _)| *of == subnet);
            let leaves: BTreeMap<_, _> = of_leaf.map(|((_, leaf), hosts)| (*leaf, hosts)).collect();
            tree.add(fabric, &leaves, &mut names);
        }
        // Leaf switches come first, so that no line of a file names a switch of a later line.
        tree.order();
        tree
    }

    fn add(
        &mut self,
        fabric: &Fabric,
        leaves: &BTreeMap<DeviceId, &BTreeSet<String>>,
        names: &mut BTreeSet<String>,
    ) {
        let graph = Graph::new(fabric);
        let hops = graph.hops_from(leaves.keys().copied());
        let is_switch = |id: DeviceId| fabric.device(id).kind == NodeKind::Switch;
        let mut tiers: BTreeMap<u16, Vec<DeviceId>> = BTreeMap::new();
        for (id, _) in fabric.iter() {
            let tier = hops[id.0 as usize];
            if tier != UNREACHABLE && is_switch(id) {
                tiers.entry(tier).or_default().push(id);
            }
        }
        // The root of each set of connected switches, and the switch of the tree at its top.
        let mut sets: Vec<u32> = (0..fabric.devices().len() as u32).collect();
        let mut tops: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (leaf, hosts) in leaves {
            tops.insert(leaf.0, BTreeSet::from([self.switches.len()]));
            self.switches.push(Switch {
                name: unique(fabric.device(*leaf), "", names),
                hosts: (*hosts).clone(),
                members: Vec::new(),
                parent: None,
            });
        }
        for (tier, switches) in &tiers {
            for id in switches {
                let lower = graph
                    .neighbours(*id)
                    .iter()
                    .filter(|next| is_switch(**next) && hops[next.0 as usize] <= *tier);
                for next in lower {
                    let (one, two) = (root(&mut sets, id.0), root(&mut sets, next.0));
                    if one != two {
                        sets[two as usize] = one;
                        let moved = tops.remove(&two).unwrap_or_default();
                        tops.entry(one).or_default().extend(moved);
                    }
                }
            }
            let mut members: BTreeMap<u32, Vec<&Device>> = BTreeMap::new();
            for id in switches {
                members
                    .entry(root(&mut sets, id.0))
                    .or_default()
                    .push(fabric.device(*id));
            }
            for (set, mut members) in members {
                let Some(children) = tops.get_mut(&set).filter(|children| children.len() > 1)
                else {
                    continue;
                };
                members.sort_by(|one, two| (&one.name, one.guid).cmp(&(&two.name, two.guid)));
                // A group of leaf switches that are cabled to one another has no higher switch.
                let prefix = if *tier == 0 { "group-" } else { "" };
                let group = self.switches.len();
                for child in std::mem::replace(children, BTreeSet::from([group])) {
                    self.switches[child].parent = Some(group);
                }
                self.switches.push(Switch {
                    name: unique(members[0], prefix, names),
                    hosts: BTreeSet::new(),
                    members: members.iter().map(|device| plain(device)).collect(),
                    parent: None,
                });
            }
        }
    }

    /// Sorts leaf switches by name before all groups.
    fn order(&mut self) {
        let mut order: Vec<usize> = (0..self.switches.len()).collect();
        order.sort_by_key(|at| {
            let switch = &self.switches[*at];
            match switch.members.is_empty() {
                true => (0, &*switch.name),
                false => (1 + *at, ""),
            }
        });
        let mut places = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            places[*old] = new;
        }
        let mut switches: Vec<_> = std::mem::take(&mut self.switches)
            .into_iter()
            .map(Some)
            .collect();
        let taken = order.iter().filter_map(|old| switches[*old].take());
        self.switches = taken
            .map(|switch| Switch {
                parent: switch.parent.map(|parent| places[parent]),
                ..switch
            })
            .collect();
    }

    fn leaves(&self) -> impl Iterator<Item = &Switch> {
        self.switches
            .iter()
            .filter(|switch| switch.members.is_empty())
    }

    /// Returns `topology.conf` for `TopologyPlugin=topology/tree` of Slurm.
    pub fn slurm_tree(&self) -> String {
        let mut text = String::new();
        let mut children: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for switch in &self.switches {
            if let Some(parent) = switch.parent {
                children.entry(parent).or_default().push(&switch.name);
            }
        }
        for (
            at,
            Switch {
                name,
                hosts,
                members,
                ..
            },
        ) in self.switches.iter().enumerate()
        {
            // Writing to a String cannot fail.
            let _ = match members.len() {
                0 => writeln!(
                    text,
                    "SwitchName={name} Nodes={}",
                    list(hosts.iter().map(String::as_str))
                ),
                count => {
                    if count > 1 {
                        let _ = writeln!(
                            text,
                            "# {name}: {}",
                            list(members.iter().map(String::as_str))
                        );
                    }
                    let children = children.remove(&at).unwrap_or_default();
                    writeln!(text, "SwitchName={name} Switches={}", list(children))
                }
            };
        }
        text
    }

    /// Returns `topology.conf` for `TopologyPlugin=topology/block` of Slurm 23.11 and newer: a
    /// block for each leaf switch. The base block is the smallest block, and the larger sizes are
    /// its multiples by powers of two, as the generator topograph writes them.
    pub fn slurm_block(&self) -> String {
        let mut text =
            "# By the grammar of Slurm's topology.conf(5); not loaded into slurmctld.\n".to_owned();
        for Switch { name, hosts, .. } in self.leaves() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "BlockName={name} Nodes={}",
                list(hosts.iter().map(String::as_str))
            );
        }
        let base = self
            .leaves()
            .map(|leaf| leaf.hosts.len())
            .min()
            .unwrap_or(0);
        let blocks = self.leaves().count();
        let powers = (0..usize::BITS)
            .map(|power| 1_usize << power)
            .take_while(|power| *power <= blocks);
        let sizes: Vec<_> = powers.map(|power| (base * power).to_string()).collect();
        let _ = writeln!(text, "BlockSizes={}", sizes.join(","));
        text
    }

    /// Returns commands that set the labels of topograph, one for each leaf switch.
    pub fn kubernetes(&self) -> String {
        const LEVELS: [&str; 3] = ["leaf", "spine", "core"];
        let mut text = String::new();
        for leaf in self.leaves() {
            text.push_str("kubectl label --overwrite node");
            for host in &leaf.hosts {
                text.push(' ');
                text.push_str(host);
            }
            let above =
                std::iter::successors(Some(leaf), |switch| Some(&self.switches[switch.parent?]));
            for (level, switch) in LEVELS.iter().zip(above) {
                // Writing to a String cannot fail.
                let _ = write!(
                    text,
                    " network.topology.nvidia.com/{level}={}",
                    label(&switch.name)
                );
            }
            text.push('\n');
        }
        text
    }
}

/// Returns the hosts of each leaf switch, which is given by its subnet and device.
fn places(
    nets: &[NetFile],
    selection: &Selection,
    notes: &mut Vec<String>,
) -> BTreeMap<(usize, DeviceId), BTreeSet<String>> {
    let mut hosts: BTreeMap<&str, Vec<(usize, &Device)>> = BTreeMap::new();
    for (subnet, NetFile { fabric, .. }) in nets.iter().enumerate() {
        let hcas = fabric
            .devices()
            .iter()
            .filter(|device| device.kind == NodeKind::Hca);
        for device in hcas.filter(|device| !fabric.is_aggregation_node(device)) {
            let host = device.host();
            if selection
                .hosts
                .as_ref()
                .is_none_or(|hosts| hosts.contains(host))
            {
                hosts.entry(host).or_default().push((subnet, device));
            }
        }
    }
    let mut places: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let (mut invalid, mut storage, mut apart) = (Vec::new(), Vec::new(), Vec::new());
    for (host, devices) in &hosts {
        if host.is_empty()
            || !host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            invalid.push(*host);
            continue;
        }
        let ports = devices
            .iter()
            .flat_map(|(subnet, device)| device.ports.first().map(|port| (*subnet, *device, port)));
        let ports: Vec<_> = ports.collect();
        let names: Vec<_> = ports
            .iter()
            .map(|(_, device, port)| (device.guid, port.num, &*device.name))
            .collect();
        let of_storage = |rail: &str| {
            selection
                .storage
                .contains(rail.split('/').next().unwrap_or(rail))
        };
        let mut rails: Vec<_> = rail::of_host(&names)
            .into_iter()
            .zip(&ports)
            .filter(|(rail, _)| !of_storage(rail))
            .collect();
        rails.sort_by(|one, two| one.0.cmp(&two.0));
        if rails.is_empty() {
            storage.push(*host);
            continue;
        }
        let leaf = rails.iter().find_map(|(_, (subnet, device, port))| {
            let (fabric, peer) = (&nets[*subnet].fabric, port.peer.as_ref()?);
            let id = fabric.find(peer.guid, peer.port)?;
            let back = fabric.device(id).port(peer.port)?.peer.as_ref()?;
            let agrees = (back.guid, back.port) == (device.guid, port.num);
            (agrees && fabric.device(id).kind == NodeKind::Switch).then_some((*subnet, id))
        });
        match leaf {
            Some(leaf) => _ = places.entry(leaf).or_default().insert((*host).to_owned()),
            None => apart.push(*host),
        }
    }
    let absent = selection
        .hosts
        .iter()
        .flatten()
        .map(String::as_str)
        .filter(|host| !hosts.contains_key(host))
        .collect();
    for (found, what) in [
        (invalid, "with a name that schedulers refuse"),
        (storage, "with HCAs of storage only"),
        (
            apart,
            "without a leaf switch on which both ends of the cable agree",
        ),
        (absent, "of the list, not in the fabric"),
    ] {
        if !found.is_empty() {
            notes.push(format!(
                "{} {what}: {}",
                count(found.len(), "host"),
                list(found)
            ));
        }
    }
    places
}

/// Returns the root of a set, and shortens the way to it.
fn root(sets: &mut [u32], of: u32) -> u32 {
    let mut at = of as usize;
    while sets[at] as usize != at {
        sets[at] = sets[sets[at] as usize];
        at = sets[at] as usize;
    }
    at as u32
}

/// Returns the name of a switch without characters that have a meaning for Slurm or Kubernetes.
fn plain(device: &Device) -> String {
    let name = match system(&device.name) {
        Some((system, 0, 1)) => system.to_owned(),
        Some((system, board, asic)) => format!("{system}-L{board:02}-U{asic}"),
        None => device.name.clone(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        device.guid.to_string()
    } else {
        name.to_owned()
    }
}

/// Returns a name that no other switch has.
fn unique(device: &Device, prefix: &str, names: &mut BTreeSet<String>) -> String {
    let mut name = format!("{prefix}{}", plain(device));
    if names.contains(&name) {
        name = format!("{name}-{}", device.guid);
    }
    names.insert(name.clone());
    name
}

/// Returns a list in the notation of Slurm, in which a name may not go on after its last range.
fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    let folded = hostlist::fold(names.iter().copied());
    if hostlist::split(&folded).any(|(_, part)| part.contains('[') && !part.ends_with(']')) {
        return names.join(",");
    }
    folded
}

/// Returns a value of a label. As in topograph, a value of more than 63 characters is replaced by
/// its FNV-1a hash.
fn label(name: &str) -> String {
    if name.len() <= 63 {
        return name.to_owned();
    }
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("x{hash:x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::net_file::{parse, parse_all};
    use crate::topology::shapes::{Rails, ThreeTiers};
    use crate::topology::synthetic::{Blueprint, stria};

    fn tree(text: &str, selection: &Selection) -> Tree {
        Tree::new(&[parse(text.as_bytes(), "net.p").unwrap()], selection)
    }

    #[test]
    fn two_tiers_are_leaves_and_one_root() {
        let text = tree(&stria().ports_report(), &Selection::default()).slurm_tree();
        let lines: Vec<_> = text.lines().collect();
        // The first ports of all servers are on two of the four I/O switches.
        assert_eq!(lines.len(), 12 + 2 + 2, "{text}");
        assert_eq!(lines[2], "SwitchName=leaf01 Nodes=node[00001-00024]");
        assert_eq!(
            lines[14..],
            [
                "# core01: core[01-06]",
                "SwitchName=core01 Switches=io[01,03],leaf[01-12]"
            ]
        );
    }

    #[test]
    fn pods_are_groups_below_the_root() {
        let net = ThreeTiers { radix: 4, pods: 3 }.blueprint();
        let tree = tree(&net.ports_report(), &Selection::default());
        assert_eq!(
            tree.slurm_tree(),
            "\
SwitchName=leaf1-01 Nodes=node[00001-00002]
SwitchName=leaf1-02 Nodes=node[00003-00004]
SwitchName=leaf2-01 Nodes=node[00005-00006]
SwitchName=leaf2-02 Nodes=node[00007-00008]
SwitchName=leaf3-01 Nodes=node[00009-00010]
SwitchName=leaf3-02 Nodes=node[00011-00012]
# spine1-01: spine1-[01-02]
SwitchName=spine1-01 Switches=leaf1-[01-02]
# spine2-01: spine2-[01-02]
SwitchName=spine2-01 Switches=leaf2-[01-02]
# spine3-01: spine3-[01-02]
SwitchName=spine3-01 Switches=leaf3-[01-02]
# core001: core[001-004]
SwitchName=core001 Switches=spine1-01,spine2-01,spine3-01
"
        );
        let labels = tree.kubernetes();
        assert_eq!(
            labels.lines().next().unwrap(),
            "kubectl label --overwrite node node00001 node00002 network.topology.nvidia.com/leaf=leaf1-01 \
             network.topology.nvidia.com/spine=spine1-01 network.topology.nvidia.com/core=core001"
        );
    }

    #[test]
    fn blocks_have_sizes_by_powers_of_two() {
        let mut net = Blueprint::new("NDR");
        let leaves: Vec<_> = (1..=3).map(|n| net.switch(&format!("b{n}"), 8)).collect();
        let spine = net.switch("s", 8);
        for (n, leaf) in leaves.iter().enumerate() {
            net.cable((*leaf, 8), (spine, n + 1));
            for host in 0..2 + n % 2 {
                let hca = net.adapter(&format!("n{}{host} mlx5_0", n + 1), 1);
                net.cable((hca, 1), (*leaf, host + 1));
            }
        }
        assert_eq!(
            tree(&net.ports_report(), &Selection::default()).slurm_block(),
            "# By the grammar of Slurm's topology.conf(5); not loaded into slurmctld.\n\
             BlockName=b1 Nodes=n[10-11]\nBlockName=b2 Nodes=n[20-22]\nBlockName=b3 Nodes=n[30-31]\nBlockSizes=2,4\n"
        );
    }

    #[test]
    fn separate_fabrics_have_separate_roots() {
        let net = Rails {
            units: 2,
            hosts: 4,
            rails: 1,
            spines: 2,
        }
        .blueprint()
        .ports_report();
        let other = net
            .replace("0x00", "0x01")
            .replace("'node0", "'gpu0")
            .replace("'leaf", "'edge")
            .replace("'spine", "'top");
        let other = other.replace("- 'leaf", "- 'edge");
        let files = [
            ("a.p".to_owned(), net.into_bytes()),
            ("b.p".to_owned(), other.into_bytes()),
        ];
        let tree = Tree::new(&parse_all(&files).unwrap(), &Selection::default());
        let roots = tree
            .switches
            .iter()
            .filter(|switch| switch.parent.is_none());
        assert_eq!(
            roots.map(|root| &*root.name).collect::<Vec<_>>(),
            ["spine01", "top01"]
        );
    }

    #[test]
    fn host_is_placed_by_the_hca_that_is_not_for_storage() {
        let net = Rails {
            units: 1,
            hosts: 4,
            rails: 2,
            spines: 1,
        }
        .blueprint();
        let selection = Selection {
            storage: BTreeSet::from(["mlx5_0".to_owned()]),
            hosts: Some(
                ["node00001", "node00002", "node9"]
                    .map(str::to_owned)
                    .into(),
            ),
        };
        let tree = tree(&net.ports_report(), &selection);
        assert_eq!(
            tree.slurm_tree(),
            "SwitchName=leaf1-2 Nodes=node[00001-00002]\n"
        );
        assert_eq!(tree.notes, ["1 host of the list, not in the fabric: node9"]);
    }

    #[test]
    fn host_is_left_out_if_the_ends_disagree() {
        let text = stria().ports_report();
        // The switch has another host in the port of node00001.
        let other =
            text.lines().map(
                |line| match line.contains("( 'leaf01' - 'node00001 mlx5_0' )") {
                    true => String::new(),
                    false => format!("{line}\n"),
                },
            );
        let tree = tree(&other.collect::<String>(), &Selection::default());
        assert!(
            tree.slurm_tree()
                .contains("SwitchName=leaf01 Nodes=node[00002-00024]\n")
        );
        assert_eq!(
            tree.notes,
            ["1 host without a leaf switch on which both ends of the cable agree: node00001"]
        );
    }

    #[test]
    fn lists_and_labels_are_those_that_schedulers_accept() {
        assert_eq!(list(["a1", "a2"]), "a[1-2]");
        assert_eq!(
            list(["r1-ib", "r2-ib"]),
            "r1-ib,r2-ib",
            "Slurm refuses r[1-2]-ib"
        );
        assert_eq!(label("leaf01"), "leaf01");
        // FNV-1a of 64 bits of 64 letters, computed with another program.
        assert_eq!(label(&"a".repeat(64)), "xdb007849f35ebbe5");
    }
}
