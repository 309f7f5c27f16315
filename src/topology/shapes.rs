//! Generated fabrics of common shapes: fat trees of three tiers, Dragonfly and Dragonfly+, tori and
//! meshes, hosts with many rails.
//!
//! All links are 4x EDR. Switches are called `leaf...`, `spine...`, `core...` or `router...`. Hosts
//! are called `node00001 mlx5_0` and so on.

use super::synthetic::{Blueprint, NodeId};

/// A fat tree of three tiers without oversubscription. A pod has `radix / 2` leaves and as many
/// spines, and there is one core for each of the `(radix / 2)^2` upper spine ports of a pod.
#[derive(Clone, Copy, Debug)]
pub struct ThreeTiers {
    /// Ports of a switch; even.
    pub radix: usize,
    /// Number of pods, at most `radix`.
    pub pods: usize,
}

/// Groups of switches, with a cable between every two groups.
#[derive(Clone, Copy, Debug)]
pub struct Dragonfly {
    /// Number of groups.
    pub groups: usize,
    /// Switches with hosts in each group.
    pub leaves: usize,
    /// Switches without hosts in each group. If there are any, the fabric is a Dragonfly+, in
    /// which each of them is cabled to every leaf of its group; otherwise the leaves of a group
    /// are cabled to one another (Dragonfly).
    pub spines: usize,
    /// Hosts on each leaf.
    pub hosts: usize,
}

/// Switches in a grid with any number of dimensions. Each switch is cabled to its neighbours.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Switches in each dimension.
    pub sizes: Vec<usize>,
    /// Whether the ends of each dimension are joined, which makes the grid a torus and not a mesh.
    pub wrapped: bool,
    /// Hosts on each switch.
    pub hosts: usize,
}

/// Units of hosts with several HCAs. Each unit has one leaf switch for each rail, and each host of
/// the unit is cabled to all of them.
#[derive(Clone, Copy, Debug)]
pub struct Rails {
    /// Number of units.
    pub units: usize,
    /// Hosts of each unit.
    pub hosts: usize,
    /// HCAs of each host.
    pub rails: usize,
    /// Number of spines. Each spine is cabled to every leaf.
    pub spines: usize,
}

impl ThreeTiers {
    /// Returns the tree as a blueprint.
    ///
    /// # Panics
    /// Panics if there are more pods than ports of a switch.
    pub fn blueprint(&self) -> Blueprint {
        let Self { radix, pods } = *self;
        let half = radix / 2;
        let mut net = Net::new();
        let cores: Vec<_> = (0..half * half)
            .map(|n| net.plan.switch(&format!("core{:03}", n + 1), radix))
            .collect();
        for pod in 1..=pods {
            let spines: Vec<_> = (1..=half)
                .map(|n| net.plan.switch(&format!("spine{pod}-{n:02}"), radix))
                .collect();
            for n in 1..=half {
                let leaf = net.plan.switch(&format!("leaf{pod}-{n:02}"), radix);
                net.hosts(leaf, half, 1);
                for (place, spine) in spines.iter().enumerate() {
                    net.plan.cable((leaf, half + 1 + place), (*spine, n));
                }
            }
            for (place, spine) in spines.iter().enumerate() {
                for up in 0..half {
                    net.plan
                        .cable((*spine, half + 1 + up), (cores[place * half + up], pod));
                }
            }
        }
        net.plan
    }
}

impl Dragonfly {
    /// Returns the fabric as a blueprint.
    pub fn blueprint(&self) -> Blueprint {
        const RADIX: usize = 64;
        let Self {
            groups,
            leaves,
            spines,
            hosts,
        } = *self;
        let mut net = Net::new();
        let mut outer: Vec<Vec<NodeId>> = Vec::new();
        for group in 1..=groups {
            let own: Vec<_> = (1..=leaves)
                .map(|n| net.plan.switch(&format!("leaf{group}-{n:02}"), RADIX))
                .collect();
            let above: Vec<_> = (1..=spines)
                .map(|n| net.plan.switch(&format!("spine{group}-{n:02}"), RADIX))
                .collect();
            own.iter().for_each(|leaf| net.hosts(*leaf, hosts, 1));
            for (n, leaf) in own.iter().enumerate() {
                let others = if spines == 0 { &own[n + 1..] } else { &above };
                others.iter().for_each(|other| net.join(*leaf, *other));
            }
            outer.push(if spines == 0 { own } else { above });
        }
        let mut joined = 0;
        for (n, one) in outer.iter().enumerate() {
            for other in &outer[n + 1..] {
                net.join(one[joined % one.len()], other[joined % other.len()]);
                joined += 1;
            }
        }
        net.plan
    }
}

impl Grid {
    /// Returns the fabric as a blueprint.
    pub fn blueprint(&self) -> Blueprint {
        let Self {
            sizes,
            wrapped,
            hosts,
        } = self;
        let mut net = Net::new();
        let all: usize = sizes.iter().product();
        let routers: Vec<_> = (1..=all)
            .map(|n| {
                net.plan
                    .switch(&format!("router{n:04}"), hosts + 4 * sizes.len())
            })
            .collect();
        routers
            .iter()
            .for_each(|router| net.hosts(*router, *hosts, 1));
        for (n, router) in routers.iter().enumerate() {
            let mut stride = 1;
            for size in sizes {
                let place = n / stride % size;
                let next = if place + 1 < *size {
                    Some(n + stride)
                } else {
                    wrapped.then_some(n - place * stride)
                };
                if let Some(next) = next.filter(|next| *next != n) {
                    net.join(*router, routers[next]);
                }
                stride *= size;
            }
        }
        net.plan
    }
}

impl Rails {
    /// Returns the fabric as a blueprint. The HCAs of a host are called `mlx5_0`, `mlx5_1`...
    pub fn blueprint(&self) -> Blueprint {
        let Self {
            units,
            hosts,
            rails,
            spines,
        } = *self;
        let mut net = Net::new();
        let above: Vec<_> = (1..=spines)
            .map(|n| net.plan.switch(&format!("spine{n:02}"), units * rails))
            .collect();
        for unit in 1..=units {
            let leaves: Vec<_> = (1..=rails)
                .map(|n| net.plan.switch(&format!("leaf{unit}-{n}"), hosts + spines))
                .collect();
            for host in 0..hosts {
                for (rail, leaf) in leaves.iter().enumerate() {
                    let name = format!("node{:05} mlx5_{rail}", (unit - 1) * hosts + host + 1);
                    let adapter = net.plan.adapter(&name, 1);
                    net.plan.cable((adapter, 1), (*leaf, host + 1));
                }
            }
            for (rail, leaf) in leaves.iter().enumerate() {
                for (place, spine) in above.iter().enumerate() {
                    net.plan.cable(
                        (*leaf, hosts + 1 + place),
                        (*spine, (unit - 1) * rails + rail + 1),
                    );
                }
            }
        }
        net.plan
    }
}

/// A growing blueprint, with the number of hosts and the next free ports of switches.
struct Net {
    plan: Blueprint,
    named: usize,
}

impl Net {
    fn new() -> Self {
        Self {
            plan: Blueprint::new("EDR"),
            named: 0,
        }
    }

    fn hosts(&mut self, switch: NodeId, count: usize, first_port: usize) {
        for n in 0..count {
            self.named += 1;
            let adapter = self
                .plan
                .adapter(&format!("node{:05} mlx5_0", self.named), 1);
            self.plan.cable((adapter, 1), (switch, first_port + n));
        }
    }

    fn join(&mut self, one: NodeId, other: NodeId) {
        let first = self.plan.free_port(one);
        let last = self.plan.free_port(other);
        self.plan.cable((one, first), (other, last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Fabric, Graph, ports_report};

    fn read(plan: &Blueprint) -> Fabric {
        let file = ports_report::parse(plan.ports_report().as_bytes(), "shape").unwrap();
        assert_eq!(file.remarks, []);
        file.fabric
    }

    /// Returns the number of linked ports and the highest tier.
    fn size(plan: &Blueprint) -> (usize, u16) {
        let fabric = read(plan);
        (
            fabric.linked_ports(),
            Graph::new(&fabric)
                .tiers(&fabric)
                .into_iter()
                .max()
                .unwrap(),
        )
    }

    #[test]
    fn shapes_have_the_requested_size_and_tiers() {
        // There are 4 x 4 hosts. Each of the three tiers has the same number of cables.
        assert_eq!(
            size(&ThreeTiers { radix: 4, pods: 4 }.blueprint()),
            (2 * 16 * 3, 3)
        );
        // 3 groups with 2 x 2 cables each, 3 cables between them, 12 hosts.
        assert_eq!(
            size(
                &Dragonfly {
                    groups: 3,
                    leaves: 2,
                    spines: 2,
                    hosts: 2
                }
                .blueprint()
            ),
            (2 * (12 + 3 + 12), 2)
        );
        assert_eq!(
            size(
                &Dragonfly {
                    groups: 3,
                    leaves: 4,
                    spines: 0,
                    hosts: 1
                }
                .blueprint()
            ),
            (2 * (18 + 3 + 12), 1)
        );
        assert_eq!(
            size(
                &Grid {
                    sizes: vec![3, 4],
                    wrapped: true,
                    hosts: 2
                }
                .blueprint()
            ),
            (2 * (24 + 24), 1)
        );
        assert_eq!(
            size(
                &Grid {
                    sizes: vec![3, 4],
                    wrapped: false,
                    hosts: 2
                }
                .blueprint()
            ),
            (2 * (17 + 24), 1)
        );
        assert_eq!(
            size(
                &Rails {
                    units: 2,
                    hosts: 3,
                    rails: 4,
                    spines: 2
                }
                .blueprint()
            ),
            (2 * (24 + 16), 2)
        );
    }
}
