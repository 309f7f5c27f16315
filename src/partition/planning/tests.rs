//! Plans of synthetic fabrics, and properties of every plan.

use ibnet_record::types::{Guid, NodeKind, PortNum};
use miette::Diagnostic;
use proptest::prelude::*;

use super::error::*;
use super::plan::*;
use super::weights::Weights;
use super::*;
use crate::topology::synthetic::{self, Blueprint, FatTree};
use crate::topology::{Device, DeviceId, ports_report};

mod change;
mod measured;
mod second;
mod shapes;

fn read(blueprint: &Blueprint) -> Fabric {
    ports_report::parse(blueprint.ports_report().as_bytes(), "net.p")
        .unwrap()
        .fabric
}

fn planned(fabric: &Fabric, samplers: &str, cap: u32) -> Result<Plan, PlanError> {
    let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], fabric).unwrap();
    plan(&Request {
        fabric,
        samplers,
        cap,
    })
}

fn planned_with(
    fabric: &Fabric,
    samplers: &str,
    cap: u32,
    options: &PlanOptions<'_>,
) -> Result<Plan, PlanError> {
    let samplers = hosts::locate(&hosts::parse_list(samplers).unwrap(), &[], fabric).unwrap();
    plan_with(
        &Request {
            fabric,
            samplers,
            cap,
        },
        options,
    )
}

/// Returns the host that samples the device with a name.
fn sampler_of<'a>(plan: &'a Plan, fabric: &Fabric, name: &str) -> &'a str {
    let has = |share: &&Share| {
        share
            .devices
            .iter()
            .any(|planned| fabric.device(planned.id).name == name)
    };
    &plan
        .shares
        .iter()
        .find(has)
        .unwrap_or_else(|| panic!("{name} is sampled"))
        .host
        .name
}

const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

#[test]
fn paper_fabric_is_planned_on_eight_samplers() {
    let fabric = read(&synthetic::stria());
    let ports = |plan: &Plan| {
        plan.shares
            .iter()
            .map(|share| share.ports)
            .collect::<Vec<_>>()
    };
    let plain = planned_with(
        &fabric,
        EIGHT,
        150,
        &PlanOptions {
            optimize: false,
            ..PlanOptions::default()
        },
    )
    .unwrap();
    assert_eq!(ports(&plain), [136, 108, 108, 120, 120, 120, 120, 136]);
    let plan = planned(&fabric, EIGHT, 150).unwrap();
    assert_eq!(
        (
            ports(&plan).iter().sum::<u32>(),
            plan.packed,
            plan.left_out.len()
        ),
        (968, false, 0)
    );
    // The mean is 121. Whole switches with their HCA ports allow no smaller largest load than 128.
    assert_eq!(ports(&plan), [128, 116, 116, 120, 120, 120, 120, 128]);
    assert_eq!(
        (plan.lower_bound, plan.figures.greatest, plan.by_rules),
        (121, 128, Some(plain.figures))
    );
    for (host, leaf) in [("node00001", "leaf01"), ("node00121", "leaf06")] {
        assert_eq!(sampler_of(&plan, &fabric, leaf), host);
        assert_eq!(sampler_of(&plan, &fabric, &format!("{host} mlx5_0")), host);
    }
    assert_eq!(
        sampler_of(&plan, &fabric, "node00002 mlx5_0"),
        "node00001",
        "an HCA port follows its switch"
    );
}

#[test]
fn least_loaded_of_the_attached_samplers_gets_the_switch() {
    let mut net = Blueprint::new("EDR");
    let (a, b) = (net.switch("a", 8), net.switch("b", 8));
    let one = net.adapter("one mlx5_0", 2);
    let two = net.adapter("two mlx5_0", 1);
    net.cable((one, 1), (a, 1));
    net.cable((one, 2), (b, 1));
    net.cable((two, 1), (b, 2));
    net.cable((a, 8), (b, 8));
    let fabric = read(&net);
    let plan = planned(&fabric, "one,two", 150).unwrap();
    assert_eq!(
        (
            sampler_of(&plan, &fabric, "b"),
            sampler_of(&plan, &fabric, "a")
        ),
        ("two", "one")
    );
    let hops: Vec<_> = plan.shares[1]
        .devices
        .iter()
        .map(|planned| planned.hops)
        .collect();
    assert_eq!(hops, [Some(0), Some(1)]);
}

#[test]
fn higher_tiers_are_assigned_in_turn() {
    let fabric = read(
        &FatTree {
            leaves: 4,
            hosts: 4,
            spines: 4,
            trunk: 1,
            radix: 8,
        }
        .blueprint(),
    );
    let plan = planned(&fabric, "node[00001,00005,00009,00013]", 150).unwrap();
    let spines: Vec<_> = (1..=4)
        .map(|n| sampler_of(&plan, &fabric, &format!("spine{n:02}")))
        .collect();
    assert_eq!(spines, ["node00001", "node00005", "node00009", "node00013"]);
}

#[test]
fn host_with_many_rails_gets_as_many_leaves_as_the_cap_allows() {
    let mut net = Blueprint::new("NDR");
    let leaves: Vec<_> = (0..4)
        .map(|n| net.switch(&format!("leaf{n}"), 16))
        .collect();
    for host in 0..8 {
        let gpu = net.adapter(&format!("gpu{host} mlx5_0"), 4);
        for (rail, leaf) in leaves.iter().enumerate() {
            net.cable((gpu, rail + 1), (*leaf, host + 1));
        }
    }
    let fabric = read(&net);
    // 4 leaves of 8 ports, 8 hosts of 4 ports: 64 ports. The own 4 HCA ports and two leaves of 8
    // fit into 20.
    let plan = planned(&fabric, "gpu[0-3]", 20).unwrap();
    let switches = |share: &Share| {
        share
            .devices
            .iter()
            .filter(|planned| fabric.device(planned.id).kind == NodeKind::Switch)
            .count()
    };
    assert!(
        plan.shares
            .iter()
            .all(|share| switches(share) <= 2 && share.ports <= 20)
    );
    assert_eq!(plan.shares.iter().map(switches).sum::<usize>(), 4);
    let own = |share: &Share| {
        share
            .host
            .own
            .iter()
            .all(|own| share.devices.iter().any(|planned| planned.id == *own))
    };
    assert!(
        plan.shares.iter().all(own),
        "own HCA ports come before own switches"
    );
}

#[test]
fn devices_are_left_out_with_their_reason() {
    let text = "\
SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )
SW     4  2 0x0000000000200006 4x EDR - CA    18  1 0x000000000020000e ( 'leaf0' - 'Mellanox Technologies Aggregation Node' )
SW     4  3 0x0000000000200006 4x EDR - RT    19  1 0x0000000000300001 ( 'leaf0' - 'router' )
SW     4  4 0x0000000000200006 4x EDR - SW     0  1 0x0000000000400001 ( 'leaf0' - 'dumb' )
CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )
CA    18  1 0x000000000020000e 4x EDR - SW     4  2 0x0000000000200006 ( 'Mellanox Technologies Aggregation Node' - 'leaf0' )
RT    19  1 0x0000000000300001 4x EDR - SW     4  3 0x0000000000200006 ( 'router' - 'leaf0' )
SW     0  1 0x0000000000400001 ?? ??? - SW     4  4 0x0000000000200006 ( 'dumb' - 'leaf0' )
SW     0  2 0x0000000000400001 ?? ??? - CA    20  1 0x0000000000100002 ( 'dumb' - 'node2 mlx5_0' )
CA    20  1 0x0000000000100002 4x EDR - SW     0  2 0x0000000000400001 ( 'node2 mlx5_0' - 'dumb' )
";
    let fabric = ports_report::parse(text.as_bytes(), "net.p")
        .unwrap()
        .fabric;
    let plan = planned(&fabric, "node1", 150).unwrap();
    let left_out: Vec<_> = plan
        .left_out
        .iter()
        .map(|out| (out.line, out.ports, out.reason))
        .collect();
    assert_eq!(
        left_out,
        [
            (6, 1, Reason::AggregationNode),
            (7, 1, Reason::Router),
            (8, 2, Reason::NoLid)
        ]
    );
    // The ports of the leaf that lead to them are sampled, and also the HCA behind the switch
    // without a LID.
    assert_eq!(plan.shares[0].ports, 6);
}

#[test]
fn fabric_without_links_is_rejected() {
    let down =
        b"SW     4  2 0x0000000000200006 4x SDR                                    'leaf0'\n";
    let fabric = ports_report::parse(down, "net.p").unwrap().fabric;
    let error = plan(&Request {
        fabric: &fabric,
        samplers: Vec::new(),
        cap: 150,
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot make a plan: the net file has no linked port"
    );
}

#[test]
fn too_few_samplers_error_has_number_and_places() {
    let fabric = read(&synthetic::stria());
    let error = planned(&fabric, "node[00001,00025]", 150).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot place 968 ports: they do not fit on 2 samplers with at most 150 ports each; missing samplers: at least 5"
    );
    let help = error.help().unwrap().to_string();
    assert!(help.contains("add 5 samplers, best on leaf switches without one: node00049 (on leaf03), node00073 (on leaf04)"), "{help}");
    assert!(
        help.contains("`--cap 484` is enough for 2 samplers"),
        "{help}"
    );
    assert!(planned(&fabric, "node[00001,00025]", 484).is_ok());
    assert!(
        planned(
            &fabric,
            "node[00001,00025,00049,00073,00097,00121,00145]",
            150
        )
        .is_ok()
    );
}

#[test]
fn switch_larger_than_the_cap_has_a_sampler_to_itself() {
    let fabric = read(
        &FatTree {
            leaves: 1,
            hosts: 20,
            spines: 1,
            trunk: 1,
            radix: 36,
        }
        .blueprint(),
    );
    let plan = planned(&fabric, "node[00001-00004]", 15).unwrap();
    let over: Vec<_> = plan
        .shares
        .iter()
        .filter(|share| share.ports > 15)
        .collect();
    assert_eq!(
        (over.len(), over[0].devices.len(), over[0].ports),
        (1, 1, 21)
    );
}

#[test]
fn size_comes_before_distance_if_the_cap_is_tight() {
    let fabric = read(
        &FatTree {
            leaves: 8,
            hosts: 4,
            spines: 2,
            trunk: 1,
            radix: 8,
        }
        .blueprint(),
    );
    for cap in 8..=104 {
        let most = 96_u32.div_ceil(cap);
        let names: Vec<_> = (1..=most).map(|n| format!("node{n:05}")).collect();
        match planned(&fabric, &names.join(","), cap) {
            Ok(plan) => assert_eq!(
                plan.shares.iter().map(|share| share.ports).sum::<u32>(),
                fabric.linked_ports() as u32
            ),
            Err(error) => assert!(
                matches!(error, PlanError::TooFewSamplers { missing: 1.., .. }),
                "{error}"
            ),
        }
    }
}

#[test]
fn leaves_come_before_spines_if_that_keeps_hca_ports_with_their_switch() {
    let fabric = read(
        &FatTree {
            leaves: 4,
            hosts: 4,
            spines: 4,
            trunk: 2,
            radix: 12,
        }
        .blueprint(),
    );
    let plan = planned(&fabric, "node[00001,00002,00005]", 34).unwrap();
    for n in (1..=16).filter(|n| ![1, 2, 5].contains(n)) {
        let leaf = format!("leaf{:02}", (n - 1) / 4 + 1);
        assert_eq!(
            sampler_of(&plan, &fabric, &format!("node{n:05} mlx5_0")),
            sampler_of(&plan, &fabric, &leaf)
        );
    }
}

#[test]
fn hca_ports_without_room_go_to_the_nearest_sampler() {
    let mut net = Blueprint::new("EDR");
    let row: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| net.switch(name, 12))
        .collect();
    net.cable((row[0], 12), (row[1], 11));
    net.cable((row[1], 12), (row[2], 11));
    for (switch, hosts) in [(0, 6), (1, 1), (2, 1)] {
        for n in 1..=hosts {
            let host = net.adapter(&format!("{}{n} mlx5_0", ["a", "b", "c"][switch]), 1);
            net.cable((host, 1), (row[switch], n));
        }
    }
    let fabric = read(&net);
    let plan = planned(&fabric, "a1,b1,c1", 10).unwrap();
    // The sampler at c has a smaller load, but is one hop farther.
    assert_eq!(
        plan.shares
            .iter()
            .map(|share| share.ports)
            .collect::<Vec<_>>(),
        [10, 7, 3]
    );
}

#[test]
fn tie_goes_to_the_nearer_sampler() {
    let mut net = Blueprint::new("EDR");
    let (a, b, far) = (net.switch("a", 8), net.switch("b", 8), net.switch("far", 8));
    net.cable((a, 8), (b, 8));
    net.cable((b, 7), (far, 7));
    net.cable((b, 6), (far, 6));
    for (name, switch, port) in [("a1", a, 1), ("a2", a, 2), ("b1", b, 1)] {
        let host = net.adapter(&format!("{name} mlx5_0"), 1);
        net.cable((host, 1), (switch, port));
    }
    let fabric = read(&net);
    // Both have five ports before `far` is assigned; `a1` is the earlier name.
    assert_eq!(
        sampler_of(&planned(&fabric, "a1,b1", 150).unwrap(), &fabric, "far"),
        "b1"
    );
}

#[test]
fn host_with_many_rails_is_suggested_once() {
    let mut net = Blueprint::new("EDR");
    let (top, one, two) = (
        net.switch("top", 8),
        net.switch("one", 8),
        net.switch("two", 8),
    );
    let admin = net.adapter("admin mlx5_0", 1);
    net.cable((admin, 1), (top, 1));
    net.cable((top, 7), (one, 7));
    net.cable((top, 8), (two, 7));
    for n in 1..=3 {
        let host = net.adapter(&format!("n{n} mlx5_0"), 2);
        net.cable((host, 1), (one, n));
        net.cable((host, 2), (two, n));
    }
    let error = planned(&read(&net), "admin", 5).unwrap_err();
    let PlanError::TooFewSamplers { suggested, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        suggested
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["n1 (on one)", "n2 (on two)"]
    );
}

fn trees() -> impl Strategy<Value = FatTree> {
    (1..8_usize, 1..7_usize, 1..4_usize, 1..3_usize).prop_map(|(leaves, hosts, spines, trunk)| {
        FatTree {
            leaves,
            hosts,
            spines,
            trunk,
            radix: 36,
        }
    })
}

proptest! {
    #[test]
    fn plan_covers_every_port_once(
        (tree, picks) in trees().prop_flat_map(|tree| (Just(tree), proptest::collection::btree_set(1..=tree.leaves * tree.hosts, 1..12))),
        cap in 1..80_u32,
    ) {
        let fabric = read(&tree.blueprint());
        let names: Vec<_> = picks.iter().map(|n| format!("node{n:05}")).collect();
        match planned(&fabric, &names.join(","), cap) {
            Ok(plan) => {
                // The proof does not use the planner and has its own tests.
                prop_assert_eq!(proof::prove(&fabric, cap, plan.port_assignments(&fabric)), Ok(()));
                prop_assert_eq!(plan.port_assignments(&fabric).count(), fabric.linked_ports());
                let alone = |share: &Share| share.ports <= cap || share.devices.len() == 1;
                prop_assert!(plan.shares.iter().all(alone));
                let counted = |share: &Share| share.devices.iter().map(|planned| fabric.device(planned.id).linked_ports() as u32).sum::<u32>();
                prop_assert!(plan.shares.iter().all(|share| counted(share) == share.ports));
            }
            Err(PlanError::TooFewSamplers { missing, enough, .. }) => {
                prop_assert!(planned(&fabric, &names.join(","), enough).is_ok(), "cap {} is not enough", enough);
                let more: Vec<_> = (1..=tree.leaves * tree.hosts).filter(|n| !picks.contains(n)).take(missing).collect();
                if more.len() == missing {
                    let names: Vec<_> = picks.iter().chain(&more).map(|n| format!("node{n:05}")).collect();
                    prop_assert!(planned(&fabric, &names.join(","), cap).is_ok(), "{} more are not enough", missing);
                }
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn order_of_lines_and_names_does_not_matter(
        tree in trees(),
        shuffled in Just((0..400).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        let text = tree.blueprint().ports_report();
        let lines: Vec<_> = text.lines().collect();
        let other: Vec<_> = shuffled.iter().chain(&(400..lines.len()).collect::<Vec<_>>()).filter_map(|n| lines.get(*n).copied()).collect();
        let hosts = tree.leaves * tree.hosts;
        let names: Vec<_> = (1..=hosts.min(5)).map(|n| format!("node{n:05}")).collect();
        let reversed: Vec<_> = names.iter().rev().cloned().collect();
        let (one, two) = (read(&tree.blueprint()), ports_report::parse(other.join("\n").as_bytes(), "net.p").unwrap().fabric);
        let (one, two) = (planned(&one, &names.join(","), 500).unwrap(), planned(&two, &reversed.join(","), 500).unwrap());
        prop_assert_eq!(one, two);
    }
}
