//! Hosts, switches, cables and routes.

use std::ops::Range;

use ibnet_record::types::{Guid, NodeKind};

/// Index of a host in [`Fabric::hosts`].
pub type Host = u16;

/// A device.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name, as in the records.
    pub name: String,
    /// Switch or HCA.
    pub kind: NodeKind,
    /// GUID, as in the records.
    pub guid: Guid,
    /// Index of its first port in [`Fabric::ports`].
    pub first: usize,
    /// Number of ports.
    pub len: usize,
    /// Port to the host, by host, or `None` where the way leads up. Empty for a host.
    down: Vec<Option<u8>>,
    /// Ports that lead up.
    up: Vec<u8>,
    /// With static routes, a packet to host `d` takes the port `up[d / divisor % up.len()]`.
    divisor: usize,
}

/// A port with its cable.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Index of the device in [`Fabric::nodes`].
    pub node: usize,
    /// Index of the port at the other end.
    pub peer: usize,
}

/// Where a packet can leave a switch.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// By one port only: the one with this number, counted from 0.
    Down(u8),
    /// By any of these ports; static routes take the one at this position.
    Up(&'a [u8], usize),
}

/// Size of a fat tree with three tiers.
///
/// In each pod, each leaf switch has one cable to each spine switch. Each core switch has one cable
/// to each pod.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Number of pods.
    pub pods: usize,
    /// Leaf switches of a pod.
    pub leaves: usize,
    /// Hosts of a leaf switch.
    pub hosts: usize,
    /// Spine switches of a pod.
    pub spines: usize,
    /// Core switches of a spine switch.
    pub cores: usize,
}

/// All devices and cables.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Devices.
    pub nodes: Vec<Node>,
    /// Ports, those of one device one after another.
    pub ports: Vec<Port>,
    /// The hosts: indices of [`Fabric::nodes`].
    pub hosts: Vec<usize>,
}

impl Fabric {
    /// Makes hosts that are connected to one switch.
    pub fn crossbar(hosts: usize) -> Self {
        let mut fabric = Self::default();
        let switch = fabric.add_switch("switch".to_owned(), hosts);
        fabric.add_hosts(switch, hosts);
        fabric
    }

    /// Makes a fat tree with three tiers.
    pub fn fat_tree(size: FatTree) -> Self {
        let FatTree {
            pods,
            leaves,
            hosts,
            spines,
            cores,
        } = size;
        let mut fabric = Self::default();
        let top: Vec<_> = (0..spines * cores)
            .map(|core| fabric.add_switch(format!("core{core:02}"), pods))
            .collect();
        for pod in 0..pods {
            let middle: Vec<_> = (0..spines)
                .map(|spine| fabric.add_switch(format!("spine{pod}{spine:02}"), leaves + cores))
                .collect();
            for leaf in 0..leaves {
                let switch = fabric.add_switch(format!("leaf{pod}{leaf:02}"), hosts + spines);
                let below = fabric.add_hosts(switch, hosts);
                for (index, spine) in middle.iter().enumerate() {
                    fabric.connect((switch, hosts + index), (*spine, leaf));
                    fabric.lead_down(*spine, leaf, below.clone());
                }
                fabric.lead_up(switch, hosts..hosts + spines, 1);
            }
            let below = pod * leaves * hosts..(pod + 1) * leaves * hosts;
            for (index, spine) in middle.iter().enumerate() {
                for core in 0..cores {
                    let above = top[index * cores + core];
                    fabric.connect((*spine, leaves + core), (above, pod));
                    fabric.lead_down(above, pod, below.clone());
                }
                fabric.lead_up(*spine, leaves..leaves + cores, spines);
            }
        }
        fabric
    }

    /// Returns where a packet to the host can leave the switch.
    pub fn way(&self, switch: usize, to: Host) -> Way<'_> {
        let node = &self.nodes[switch];
        let to = usize::from(to);
        match node.down.get(to) {
            Some(Some(port)) => Way::Down(*port),
            _ => Way::Up(&node.up, to / node.divisor % node.up.len()),
        }
    }

    /// Returns the index of the only port of the host.
    pub fn port_of(&self, host: Host) -> usize {
        self.nodes[self.hosts[usize::from(host)]].first
    }

    /// Returns the number of the port at its device, counted from 0.
    pub fn index_at_node(&self, port: usize) -> usize {
        port - self.nodes[self.ports[port].node].first
    }

    fn add(&mut self, name: String, kind: NodeKind, len: usize) -> usize {
        let node = self.nodes.len();
        let first = self.ports.len();
        let guid = Guid(
            if kind == NodeKind::Switch {
                0x1_0000
            } else {
                0x2_0000
            } + node as u64,
        );
        let (down, up) = (Vec::new(), Vec::new());
        self.nodes.push(Node {
            name,
            kind,
            guid,
            first,
            len,
            down,
            up,
            divisor: 1,
        });
        // A port without a cable is its own peer.
        self.ports
            .extend((first..first + len).map(|peer| Port { node, peer }));
        node
    }

    fn add_switch(&mut self, name: String, ports: usize) -> usize {
        self.add(name, NodeKind::Switch, ports)
    }

    /// Connects new hosts to the first ports of the switch, and returns their numbers.
    fn add_hosts(&mut self, switch: usize, hosts: usize) -> Range<usize> {
        let first = self.hosts.len();
        for port in 0..hosts {
            let host = self.add(format!("node{:04}", self.hosts.len() + 1), NodeKind::Hca, 1);
            self.connect((host, 0), (switch, port));
            self.hosts.push(host);
            self.lead_down(switch, port, first + port..first + port + 1);
        }
        first..first + hosts
    }

    fn connect(&mut self, (a, a_port): (usize, usize), (b, b_port): (usize, usize)) {
        let (a, b) = (self.nodes[a].first + a_port, self.nodes[b].first + b_port);
        self.ports[a].peer = b;
        self.ports[b].peer = a;
    }

    /// Says that the port of the switch leads to these hosts.
    fn lead_down(&mut self, switch: usize, port: usize, hosts: Range<usize>) {
        let down = &mut self.nodes[switch].down;
        down.resize(down.len().max(hosts.end), None);
        down[hosts].fill(u8::try_from(port).ok());
    }

    /// Says that these ports of the switch lead to all other hosts.
    fn lead_up(&mut self, switch: usize, ports: Range<usize>, divisor: usize) {
        let node = &mut self.nodes[switch];
        node.up = ports.filter_map(|port| u8::try_from(port).ok()).collect();
        node.divisor = divisor;
    }
}
