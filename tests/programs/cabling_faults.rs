//! A large fabric, and random faults of its cabling with what must be found. This file does not use
//! the code that finds them.

use std::collections::{BTreeMap, BTreeSet};

use ibnet::topology::synthetic::{Blueprint, NodeId};

/// A node and a port.
type End = (usize, usize);

/// The number of a cable, its new ends, and the kind of the finding.
type Change = (usize, Option<[End; 2]>, &'static str);

/// A cable with its names: node and port of both ends, in ascending order.
pub(crate) type Named = [(String, usize); 2];

#[derive(Clone)]
struct Node {
    name: String,
    is_switch: bool,
    ports: usize,
    rail: usize,
    tier: usize,
}

/// A fabric of hosts with two rails.
#[derive(Clone)]
pub(crate) struct Fabric {
    nodes: Vec<Node>,
    cables: Vec<[End; 2]>,
    /// Ports of switches without a cable.
    free: Vec<End>,
}

/// The cables with faults, and what must be found.
pub(crate) struct Faulty {
    cables: Vec<Option<[End; 2]>>,
    slow: BTreeSet<End>,
    used: BTreeSet<End>,
    /// The kind of each planned cable that is wrong, and of each unplanned one.
    pub(crate) expected: BTreeMap<Named, &'static str>,
    /// The smallest number of steps.
    pub(crate) steps: usize,
}

/// Number of different faults.
pub(crate) const FAULTS: usize = 11;

impl Fabric {
    /// Returns a fabric with `pods` pods. A pod has `leaves` leaf switches of each rail with
    /// `hosts` hosts each, and four switches of each rail above them. Each switch has free ports.
    pub(crate) fn new(pods: usize, leaves: usize, hosts: usize) -> Self {
        const ABOVE: usize = 4;
        let mut new = Self {
            nodes: Vec::new(),
            cables: Vec::new(),
            free: Vec::new(),
        };
        for rail in 0..2 {
            let cores: Vec<_> = (0..ABOVE)
                .map(|n| new.switch(format!("core{rail}-{n}"), pods * ABOVE + 3, rail, 3))
                .collect();
            for pod in 0..pods {
                let spines: Vec<_> = (0..ABOVE)
                    .map(|n| {
                        new.switch(
                            format!("spine{rail}-{pod}-{n}"),
                            leaves + ABOVE + 3,
                            rail,
                            2,
                        )
                    })
                    .collect();
                for n in 0..leaves {
                    let leaf =
                        new.switch(format!("leaf{rail}-{pod}-{n}"), hosts + ABOVE + 6, rail, 1);
                    for host in 0..hosts {
                        let number = (pod * leaves + n) * hosts + host;
                        let hca =
                            new.node(format!("node{number:05} mlx5_{rail}"), false, 1, rail, 0);
                        new.cables.push([(hca, 1), (leaf, host + 1)]);
                    }
                    for (at, spine) in spines.iter().enumerate() {
                        new.cables.push([(leaf, hosts + 1 + at), (*spine, n + 1)]);
                    }
                }
                for (at, spine) in spines.iter().enumerate() {
                    for (up, core) in cores.iter().enumerate() {
                        new.cables
                            .push([(*spine, leaves + 1 + up), (*core, pod * ABOVE + at + 1)]);
                    }
                }
            }
        }
        let used: BTreeSet<End> = new.cables.iter().flatten().copied().collect();
        let switches = new
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.is_switch);
        let ports = switches.flat_map(|(id, node)| (1..=node.ports).map(move |port| (id, port)));
        new.free = ports.filter(|end| !used.contains(end)).collect();
        new
    }

    fn switch(&mut self, name: String, ports: usize, rail: usize, tier: usize) -> usize {
        self.node(name, true, ports, rail, tier)
    }

    fn node(
        &mut self,
        name: String,
        is_switch: bool,
        ports: usize,
        rail: usize,
        tier: usize,
    ) -> usize {
        self.nodes.push(Node {
            name,
            is_switch,
            ports,
            rail,
            tier,
        });
        self.nodes.len() - 1
    }

    /// Returns the number of HCAs.
    pub(crate) fn hcas(&self) -> usize {
        self.nodes.iter().filter(|node| !node.is_switch).count()
    }

    /// Returns the fabric as planned, like `ibnetdiscover -p`.
    pub(crate) fn net_file(&self) -> String {
        self.print(self.cables.iter().copied())
    }

    fn print(&self, cables: impl Iterator<Item = [End; 2]>) -> String {
        let mut print = Blueprint::new("NDR");
        let ids: Vec<NodeId> = self
            .nodes
            .iter()
            .map(|node| match node.is_switch {
                true => print.switch(&node.name, node.ports),
                false => print.adapter(&node.name, node.ports),
            })
            .collect();
        for [one, two] in cables {
            print.cable((ids[one.0], one.1), (ids[two.0], two.1));
        }
        print.ports_report()
    }

    /// Returns the fabric as planned: an NDT file of UFM.
    pub(crate) fn ndt(&self) -> String {
        let mut text = "#StartDevice,StartPort,EndDevice,EndPort,LinkType\n".to_owned();
        for cable in &self.cables {
            let [one, two] = cable.map(|(id, port)| {
                let node = &self.nodes[id];
                match node.is_switch {
                    true => format!("{},Port {port}", node.name),
                    false => format!(
                        "{},{}",
                        node.name.split(' ').next().unwrap_or_default(),
                        node.name
                    ),
                }
            });
            text.push_str(&format!("{one},{two}, Data\n"));
        }
        text
    }

    /// Returns the fabric as planned: a `.topo` file of ibdm.
    pub(crate) fn topo(&self) -> String {
        let mut text = String::new();
        for [one, two] in &self.cables {
            let name = |end: &End| self.nodes[end.0].name.replace(' ', "/");
            text.push_str(&format!(
                "TYPE {}\n\tP{} -4x-100G-> TYPE {} P{}\n",
                name(one),
                one.1,
                name(two),
                two.1
            ));
        }
        text
    }

    /// Returns the fabric without faults.
    pub(crate) fn right(&self) -> Faulty {
        Faulty {
            cables: self.cables.iter().copied().map(Some).collect(),
            slow: BTreeSet::new(),
            used: BTreeSet::new(),
            expected: BTreeMap::new(),
            steps: 0,
        }
    }
}

impl Faulty {
    /// Prints the fabric with its faults, like `ibnetdiscover -p`.
    pub(crate) fn net_file(&self, fabric: &Fabric) -> String {
        let text = fabric.print(self.cables.iter().flatten().copied());
        if self.slow.is_empty() {
            return text;
        }
        let slow: BTreeSet<(&str, usize)> = self
            .slow
            .iter()
            .map(|(id, port)| (&*fabric.nodes[*id].name, *port))
            .collect();
        let line = |line: &str| {
            let port = line
                .split_ascii_whitespace()
                .nth(2)
                .and_then(|port| port.parse().ok());
            let own = line
                .split("( '")
                .nth(1)
                .and_then(|names| names.split("' - '").next());
            match (own, port) {
                (Some(own), Some(port)) if slow.contains(&(own, port)) => {
                    line.replace("4x NDR", "2x NDR") + "\n"
                }
                _ => format!("{line}\n"),
            }
        };
        text.lines().map(line).collect()
    }

    /// Adds a random fault of a kind below [`FAULTS`] to cables without one. Returns `false` if no
    /// such cables were found.
    pub(crate) fn add(&mut self, fabric: &Fabric, kind: usize, random: &mut fastrand::Rng) -> bool {
        let node = |end: End| &fabric.nodes[end.0];
        // A cable of a host, or any cable; both of its ends are right until now.
        let mut pick = |hosts_only: bool, fits: &dyn Fn([End; 2]) -> bool| {
            let fits = |cable: [End; 2]| {
                cable.iter().all(|end| !self.used.contains(end))
                    && (!hosts_only || !node(cable[0]).is_switch)
                    && fits(cable)
            };
            (0..2000)
                .map(|_| random.usize(..fabric.cables.len()))
                .find(|at| fits(fabric.cables[*at]))
        };
        let first = match kind {
            3 | 5 | 7 | 10 => pick(true, &|_| true),
            _ => pick(false, &|_| true),
        };
        let Some(first) = first else { return false };
        let [a, b] = fabric.cables[first];
        let same_kind = |cable: [End; 2]| {
            let differ = cable[0] != a && cable[1] != b;
            differ
                && node(cable[0]).rail == node(a).rail
                && node(cable[0]).tier == node(a).tier
                && node(cable[1]).tier == node(b).tier
        };
        let mut others: Vec<usize> = Vec::new();
        if matches!(kind, 4 | 6 | 7 | 10) {
            for _ in 0..=usize::from(kind == 6) {
                let taken = others.clone();
                let Some(other) = pick(false, &|cable| {
                    same_kind(cable) && !taken.iter().any(|at| fabric.cables[*at] == cable)
                }) else {
                    return false;
                };
                others.push(other);
            }
        }
        let mut free = |fits: &dyn Fn(End) -> bool| {
            let fits = |end: End| !self.used.contains(&end) && fits(end);
            let near = fabric.free.iter().filter(|end| fits(**end)).count();
            let at = (near > 0).then(|| random.usize(..near))?;
            fabric.free.iter().copied().filter(|end| fits(*end)).nth(at)
        };
        // What becomes of the cables, and the number of steps.
        let (changes, steps): (Vec<Change>, usize) = match kind {
            0 => (vec![(first, None, "missing")], 1),
            1 => {
                let Some(to) = free(&|end| end.0 == b.0) else {
                    return false;
                };
                (vec![(first, Some([a, to]), "wrong port")], 1)
            }
            2 => {
                let fits = |end: End| {
                    end.0 != b.0
                        && end.0 != a.0
                        && (node(end).rail, node(end).tier) == (node(b).rail, node(b).tier)
                };
                let Some(to) = free(&fits) else { return false };
                (vec![(first, Some([a, to]), "wrong device")], 1)
            }
            3 => {
                let Some(to) = free(&|end| node(end).rail != node(b).rail && node(end).tier == 1)
                else {
                    return false;
                };
                (vec![(first, Some([a, to]), "wrong rail")], 1)
            }
            4 => {
                let [c, d] = fabric.cables[others[0]];
                (
                    vec![
                        (first, Some([a, d]), "swapped"),
                        (others[0], Some([c, b]), "swapped"),
                    ],
                    2,
                )
            }
            5 => {
                // The two HCAs of a host.
                let host = |end: End| node(end).name.split(' ').next();
                let other = fabric
                    .cables
                    .iter()
                    .position(|cable| cable[0] != a && host(cable[0]) == host(a));
                let Some(other) = other.filter(|at| {
                    fabric.cables[*at]
                        .iter()
                        .all(|end| !self.used.contains(end))
                }) else {
                    return false;
                };
                let [c, d] = fabric.cables[other];
                others.push(other);
                (
                    vec![
                        (first, Some([a, d]), "wrong rail"),
                        (other, Some([c, b]), "wrong rail"),
                    ],
                    2,
                )
            }
            6 => {
                let ([c, d], [e, f]) = (fabric.cables[others[0]], fabric.cables[others[1]]);
                let changes = vec![
                    (first, Some([a, d]), "swapped"),
                    (others[0], Some([c, f]), "swapped"),
                    (others[1], Some([e, b]), "swapped"),
                ];
                (changes, 3)
            }
            7 => {
                // Two exchanged cables of hosts, of which one is missing.
                let [_, d] = fabric.cables[others[0]];
                let kind = if b.0 == d.0 {
                    "wrong port"
                } else {
                    "wrong device"
                };
                (
                    vec![(first, Some([a, d]), kind), (others[0], None, "missing")],
                    2,
                )
            }
            8 => {
                let Some(one) = free(&|_| true) else {
                    return false;
                };
                let Some(two) = free(&|end| end.0 != one.0) else {
                    return false;
                };
                self.cables.push(Some([one, two]));
                self.used.extend([one, two]);
                self.expected.insert(named(fabric, [one, two]), "unplanned");
                self.steps += 1;
                return true;
            }
            9 => {
                self.slow.extend([a, b]);
                (vec![(first, Some([a, b]), "wrong speed")], 0)
            }
            _ => {
                // The cable of a host is in the port of another host, whose cable is beside it.
                let [c, d] = fabric.cables[others[0]];
                let Some(to) = free(&|end| end.0 == d.0) else {
                    return false;
                };
                let kind = if b.0 == d.0 {
                    "wrong port"
                } else {
                    "wrong device"
                };
                (
                    vec![
                        (first, Some([a, d]), kind),
                        (others[0], Some([c, to]), "wrong port"),
                    ],
                    2,
                )
            }
        };
        for (at, cable, kind) in changes {
            self.used.extend(fabric.cables[at]);
            self.used.extend(cable.into_iter().flatten());
            self.cables[at] = cable;
            self.expected.insert(named(fabric, fabric.cables[at]), kind);
        }
        self.steps += steps;
        true
    }
}

fn named(fabric: &Fabric, cable: [End; 2]) -> Named {
    let mut named = cable.map(|(id, port)| (fabric.nodes[id].name.clone(), port));
    named.sort();
    named
}
