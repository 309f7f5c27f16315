//! Properties of every plan, on fabrics of all shapes.

use super::*;
use crate::topology::shapes::{Dragonfly, Grid, Rails, ThreeTiers};

pub(super) fn any_fabric() -> impl Strategy<Value = Fabric> {
    let trees = (1..8_usize, 1..7_usize, 1..4_usize, 1..3_usize).prop_map(
        |(leaves, hosts, spines, trunk)| {
            FatTree {
                leaves,
                hosts,
                spines,
                trunk,
                radix: 36,
            }
            .blueprint()
        },
    );
    let tall = (1..5_usize, 1..5_usize).prop_map(|(half, pods)| {
        ThreeTiers {
            radix: 2 * half,
            pods: pods.min(2 * half),
        }
        .blueprint()
    });
    let dragonflies = (1..5_usize, 1..4_usize, 0..3_usize, 1..4_usize).prop_map(
        |(groups, leaves, spines, hosts)| {
            Dragonfly {
                groups,
                leaves,
                spines,
                hosts,
            }
            .blueprint()
        },
    );
    let grids = (
        proptest::collection::vec(1..5_usize, 1..4),
        any::<bool>(),
        1..4_usize,
    )
        .prop_map(|(sizes, wrapped, hosts)| {
            Grid {
                sizes,
                wrapped,
                hosts,
            }
            .blueprint()
        });
    let rails = (1..4_usize, 1..6_usize, 1..9_usize, 0..4_usize).prop_map(
        |(units, hosts, rails, spines)| {
            Rails {
                units,
                hosts,
                rails,
                spines,
            }
            .blueprint()
        },
    );
    prop_oneof![trees, tall, dragonflies, grids, rails].prop_map(|net| read(&net))
}

/// Returns the names of some hosts, by indices modulo their number.
pub(super) fn names(fabric: &Fabric, picks: &[usize]) -> String {
    let mut all: Vec<_> = fabric
        .devices()
        .iter()
        .filter(|device| device.kind == NodeKind::Hca)
        .map(Device::host)
        .collect();
    all.dedup();
    all.sort_unstable();
    all.dedup();
    let mut some: Vec<_> = picks.iter().map(|pick| all[pick % all.len()]).collect();
    some.sort_unstable();
    some.dedup();
    some.join(",")
}

pub(super) fn some_hosts() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..1000_usize, 1..12)
}

fn owners(fabric: &Fabric, shares: &[Share]) -> Owners {
    let mut owners = vec![None; fabric.devices().len()];
    for (sampler, share) in shares.iter().enumerate() {
        share
            .devices
            .iter()
            .for_each(|planned| owners[planned.id.0 as usize] = Some(sampler));
    }
    owners
}

/// Returns the quality of a plan in the order of precedence; smaller is better.
fn faults(fabric: &Fabric, plan: &Plan) -> (usize, usize, usize, Figures) {
    let graph = Graph::new(fabric);
    let hosts: Vec<_> = plan.shares.iter().map(|share| share.host.clone()).collect();
    let task = Task::new(fabric, &graph, &hosts, plan.cap, None);
    let owners = owners(fabric, &plan.shares);
    let owner = |id: DeviceId| owners[id.0 as usize];
    let hcas_elsewhere = task
        .hcas()
        .filter(|id| task.own(*id).is_some_and(|own| owner(*id) != Some(own)))
        .count();
    let switches_elsewhere = task.switches().filter(|id| {
        let mut own = task.attached(*id).peekable();
        own.peek().is_some() && !own.any(|sampler| owner(*id) == Some(sampler))
    });
    (
        hcas_elsewhere,
        switches_elsewhere.count(),
        task.separated(&owners).count(),
        plan.figures,
    )
}

proptest! {
    #[test]
    fn plan_of_any_fabric_is_proved_or_rejected(
        fabric in any_fabric(), picks in some_hosts(), cap in 1..120_u32, optimize in any::<bool>(), redundant in any::<bool>(),
    ) {
        let options = PlanOptions { optimize, redundant, ..PlanOptions::default() };
        match planned_with(&fabric, &names(&fabric, &picks), cap, &options) {
            Ok(plan) => {
                prop_assert_eq!(plan.prove(&fabric), Ok(()));
                prop_assert_eq!(plan.port_assignments(&fabric).count(), fabric.linked_ports());
                prop_assert_eq!(proof::port_assignments(&fabric, &plan.secondary).count(), if redundant { fabric.linked_ports() } else { 0 });
                prop_assert!(plan.figures.greatest >= plan.lower_bound);
                prop_assert_eq!(plan.figures.greatest, plan.shares.iter().map(|share| share.load).max().unwrap());
            }
            Err(PlanError::TooFewSamplers { missing, enough, .. }) => prop_assert!(missing > 0 && enough > cap),
            Err(PlanError::NoSecondary { ports, .. }) => prop_assert!(redundant && ports > 0),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn search_makes_no_figure_worse(fabric in any_fabric(), picks in some_hosts(), cap in 4..150_u32) {
        let planned = |optimize| planned_with(&fabric, &names(&fabric, &picks), cap, &PlanOptions { optimize, ..PlanOptions::default() });
        if let (Ok(plain), Ok(improved)) = (planned(false), planned(true)) {
            prop_assert!(faults(&fabric, &improved) <= faults(&fabric, &plain), "{:?} > {:?}", faults(&fabric, &improved), faults(&fabric, &plain));
            prop_assert_eq!(improved.by_rules, Some(plain.figures));
            prop_assert_eq!(plain.by_rules, None);
        }
    }

    #[test]
    fn number_of_threads_does_not_matter(fabric in any_fabric(), picks in some_hosts(), redundant in any::<bool>()) {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| planned_with(&fabric, &names(&fabric, &picks), 300, &PlanOptions { redundant, ..PlanOptions::default() }).ok())
        };
        prop_assert_eq!(on(1), on(4));
    }
}

#[test]
fn without_tiers_switches_go_to_the_nearest_sampler() {
    let grid = |wrapped| {
        read(
            &Grid {
                sizes: vec![6, 5],
                wrapped,
                hosts: 2,
            }
            .blueprint(),
        )
    };
    let dragonfly = read(
        &Dragonfly {
            groups: 6,
            leaves: 4,
            spines: 0,
            hosts: 2,
        }
        .blueprint(),
    );
    for fabric in [grid(true), grid(false), dragonfly] {
        let plan = planned_with(
            &fabric,
            "node[00001,00017,00030,00044]",
            1000,
            &PlanOptions {
                optimize: false,
                ..PlanOptions::default()
            },
        )
        .unwrap();
        let graph = Graph::new(&fabric);
        let from: Vec<_> = plan
            .shares
            .iter()
            .map(|share| graph.hops_from(share.host.sending.iter().copied()))
            .collect();
        for planned in plan
            .shares
            .iter()
            .flat_map(|share| &share.devices)
            .filter(|planned| fabric.device(planned.id).kind == NodeKind::Switch)
        {
            assert_eq!(
                planned.hops,
                from.iter().map(|hops| hops[planned.id.0 as usize]).min(),
                "{}",
                fabric.device(planned.id).name
            );
        }
    }
}

#[test]
fn spines_of_a_dragonfly_plus_are_a_tier() {
    let fabric = read(
        &Dragonfly {
            groups: 4,
            leaves: 2,
            spines: 2,
            hosts: 4,
        }
        .blueprint(),
    );
    let plan = planned_with(
        &fabric,
        "node[00001,00009,00017,00025]",
        150,
        &PlanOptions {
            optimize: false,
            ..PlanOptions::default()
        },
    )
    .unwrap();
    let spines = |share: &Share| {
        share
            .devices
            .iter()
            .filter(|planned| fabric.device(planned.id).name.starts_with("spine"))
            .count()
    };
    assert_eq!(
        plan.shares.iter().map(spines).collect::<Vec<_>>(),
        [2, 2, 2, 2]
    );
}

#[test]
fn host_with_eight_rails_gets_as_many_leaves_as_the_cap_allows() {
    let fabric = read(
        &Rails {
            units: 1,
            hosts: 16,
            rails: 8,
            spines: 8,
        }
        .blueprint(),
    );
    // 8 leaves of 24 ports, 128 HCA ports, 8 spines of 8 ports: 384 ports.
    let plan = planned(&fabric, "node[00001-00004]", 100).unwrap();
    for share in &plan.shares {
        let of_kind = |kind| {
            share
                .devices
                .iter()
                .filter(|planned| fabric.device(planned.id).kind == kind)
                .count()
        };
        assert_eq!(
            (share.ports, of_kind(NodeKind::Switch)),
            (96, 4),
            "two leaves with their HCA ports and two spines"
        );
        assert!(
            share
                .host
                .own
                .iter()
                .all(|own| share.devices.iter().any(|planned| planned.id == *own))
        );
    }
    // A host alone in its unit has eight HCA ports of its own. Three leaves of 24 ports fit into
    // the rest.
    let two = read(
        &Rails {
            units: 2,
            hosts: 16,
            rails: 8,
            spines: 8,
        }
        .blueprint(),
    );
    let plan = planned(&two, "node[00001,00017-00024]", 100).unwrap();
    let own = plan.shares[0]
        .devices
        .iter()
        .filter(|planned| two.device(planned.id).name.starts_with("leaf1-"))
        .count();
    assert_eq!((&*plan.shares[0].host.name, own), ("node00001", 3));
}

#[test]
fn all_devices_of_a_host_are_its_own() {
    let mut net = Blueprint::new("HDR");
    let leaves: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| net.switch(name, 12))
        .collect();
    let top = net.switch("top", 8);
    // Socket Direct: two devices of one card on the same leaf. `dual` has two ports on two leaves.
    for (name, port, leaf) in [
        ("split mlx5_0", 1, 0),
        ("split mlx5_1", 2, 0),
        ("other mlx5_0", 3, 2),
    ] {
        let half = net.adapter(name, 1);
        net.cable((half, 1), (leaves[leaf], port));
    }
    let dual = net.adapter("dual mlx5_0", 2);
    net.cable((dual, 1), (leaves[1], 1));
    net.cable((dual, 2), (leaves[2], 1));
    leaves
        .iter()
        .enumerate()
        .for_each(|(n, leaf)| net.cable((*leaf, 12), (top, n + 1)));
    let fabric = read(&net);
    let plan = planned(&fabric, "split,dual", 150).unwrap();
    for (name, host) in [
        ("a", "split"),
        ("split mlx5_0", "split"),
        ("split mlx5_1", "split"),
        ("b", "dual"),
        ("c", "dual"),
        ("dual mlx5_0", "dual"),
    ] {
        assert_eq!(sampler_of(&plan, &fabric, name), host, "{name}");
    }
    let own = |host: &str| {
        plan.shares
            .iter()
            .find(|share| share.host.name == host)
            .unwrap()
            .host
            .own
            .len()
    };
    assert_eq!((own("split"), own("dual")), (2, 2));
    // Both hosts are on different leaves, so each is the second sampler of the other.
    let plan = planned_with(
        &fabric,
        "split,dual",
        150,
        &PlanOptions {
            redundant: true,
            ..PlanOptions::default()
        },
    )
    .unwrap();
    assert_eq!(plan.sharing_a_leaf, 0);
}

#[test]
fn largest_load_of_fat_trees_is_within_one_switch_of_the_lower_bound() {
    let mut checked = 0;
    let mut check = |net: &Blueprint, hosts_of_leaf: usize, leaves: usize, radix: u64| {
        let fabric = read(net);
        let ports = fabric.linked_ports();
        for samplers in 1..=leaves.min(16) {
            let picks: Vec<_> = (0..samplers)
                .map(|n| n * leaves / samplers * hosts_of_leaf)
                .collect();
            let plan = planned(&fabric, &names(&fabric, &picks), ports as u32).unwrap();
            assert!(
                plan.figures.greatest < plan.lower_bound + radix,
                "{ports} ports, {samplers} samplers: largest load {}, lower bound {}",
                plan.figures.greatest,
                plan.lower_bound
            );
            checked += 1;
        }
    };
    for (leaves, hosts, spines, trunk) in [
        (4, 4, 4, 1),
        (8, 8, 8, 1),
        (12, 24, 6, 2),
        (16, 18, 18, 1),
        (6, 12, 3, 4),
        (18, 18, 9, 2),
    ] {
        let radix = (hosts + spines * trunk).max(leaves * trunk);
        check(
            &FatTree {
                leaves,
                hosts,
                spines,
                trunk,
                radix,
            }
            .blueprint(),
            hosts,
            leaves,
            radix as u64,
        );
    }
    for (radix, pods) in [(4, 4), (8, 8), (12, 5), (16, 9)] {
        check(
            &ThreeTiers { radix, pods }.blueprint(),
            radix / 2,
            pods * radix / 2,
            radix as u64,
        );
    }
    assert!(checked > 90, "{checked}");
}
