//! Tests of second samplers.

use super::shapes::names;
use super::*;
use crate::topology::shapes::{Grid, Rails};

const REDUNDANT: PlanOptions<'static> = PlanOptions {
    optimize: true,
    redundant: true,
    weights: None,
    previous: None,
};

/// Returns the GUID of the leaf of a host.
fn leaf(fabric: &Fabric, share: &Share) -> Guid {
    fabric
        .device(share.host.sending[0])
        .linked()
        .next()
        .unwrap()
        .1
        .guid
}

#[test]
fn second_sampler_is_on_another_leaf_and_no_switch_is_split() {
    let fabric = read(&synthetic::stria());
    // Two samplers on each of four leaves.
    let plan = planned_with(
        &fabric,
        "node[00001-00002,00025-00026,00049-00050,00073-00074]",
        150,
        &REDUNDANT,
    )
    .unwrap();
    assert_eq!(
        (plan.shares.len(), plan.secondary.len(), plan.sharing_a_leaf),
        (8, 8, 0)
    );
    let mut seconds = BTreeMap::new();
    for share in &plan.secondary {
        assert!(share.ports <= 150);
        share.devices.iter().for_each(|planned| {
            assert!(seconds.insert(planned.id, leaf(&fabric, share)).is_none());
        });
    }
    for share in &plan.shares {
        share
            .devices
            .iter()
            .for_each(|planned| assert_ne!(seconds[&planned.id], leaf(&fabric, share)));
    }
    // The loads are those of the primary role: each sampler is the second sampler of one other.
    let loads = |shares: &[Share]| {
        let mut loads: Vec<_> = shares.iter().map(|share| share.load).collect();
        loads.sort_unstable();
        loads
    };
    assert_eq!(loads(&plan.shares), loads(&plan.secondary));
}

#[test]
fn samplers_on_one_leaf_cannot_be_second_samplers() {
    let fabric = read(&synthetic::stria());
    let error = planned_with(&fabric, "node[00001-00008]", 150, &REDUNDANT).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::NoSecondary {
                permitted: 0,
                samplers: 8,
                ..
            }
        ),
        "{error}"
    );
    // 968 ports need 7 more samplers with 150 ports each.
    assert!(
        error
            .to_string()
            .ends_with("; missing samplers: at least 7"),
        "{error}"
    );
    let help = error.help().unwrap().to_string();
    assert!(
        help.starts_with("add 7 samplers, best on leaf switches without one: node00025 (on leaf02), node00049 (on leaf03), "),
        "{help}"
    );
    let error = planned_with(&fabric, "node00001", 1000, &REDUNDANT).unwrap_err();
    assert!(
        error.to_string().ends_with(
            "of `node00001`: all samplers are on the same leaf switch; missing samplers: at least 1"
        ),
        "{error}"
    );
}

#[test]
fn without_pairs_devices_are_assigned_as_far_as_the_cap_allows() {
    let fabric = read(&synthetic::stria());
    let with_cap = |cap| planned_with(&fabric, "node[00001-00005,00025-00027]", cap, &REDUNDANT);
    // No pairing exists: five samplers are on one leaf, three on another.
    assert_eq!(
        with_cap(400).map(|plan| plan.prove(&fabric)).unwrap(),
        Ok(())
    );
    let error = with_cap(150).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::NoSecondary {
                permitted: 3 | 5,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error
            .help()
            .unwrap()
            .to_string()
            .ends_with(";\nor raise the cap (--cap)")
    );
}

#[test]
fn hosts_that_share_all_leaves_are_second_samplers_and_counted() {
    let fabric = read(
        &Rails {
            units: 1,
            hosts: 8,
            rails: 4,
            spines: 2,
        }
        .blueprint(),
    );
    let plan = planned_with(&fabric, "node[00001-00003]", 200, &REDUNDANT).unwrap();
    assert_eq!(plan.sharing_a_leaf, fabric.linked_ports() as u32);
    // With one sending rail each they are apart.
    let plan = planned_with(
        &fabric,
        "node00001:mlx5_0,node00002:mlx5_1",
        200,
        &REDUNDANT,
    )
    .unwrap();
    assert_eq!(plan.sharing_a_leaf, 0);
}

#[test]
fn second_samplers_are_near() {
    // A row of six switches: a second sampler at most three hops away exists for each.
    let fabric = read(
        &Grid {
            sizes: vec![6],
            wrapped: false,
            hosts: 1,
        }
        .blueprint(),
    );
    let plan = planned_with(
        &fabric,
        &names(&fabric, &[0, 1, 2, 3, 4, 5]),
        150,
        &REDUNDANT,
    )
    .unwrap();
    let hops: Vec<_> = plan
        .secondary
        .iter()
        .flat_map(|share| &share.devices)
        .map(|planned| planned.hops.unwrap())
        .collect();
    assert!(hops.iter().all(|hops| *hops <= 3), "{hops:?}");
}
