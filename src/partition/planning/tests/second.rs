//! Second samplers.

use super::shapes::names;
use super::*;
use crate::topology::shapes::{Grid, Rails};

const REDUNDANT: Options<'static> = Options { optimize: true, redundant: true, weights: None, previous: None };

/// The leaf that a host hangs on.
fn leaf(fabric: &Fabric, share: &Share) -> Guid {
    fabric.device(share.host.at[0]).linked().next().unwrap().1.guid
}

#[test]
fn a_second_sampler_is_on_another_leaf_and_whole_switches_stay_whole() {
    let fabric = read(&synthetic::stria());
    // Two samplers on each of four leaves.
    let plan = planned_with(&fabric, "node[00001-00002,00025-00026,00049-00050,00073-00074]", 150, &REDUNDANT).unwrap();
    assert_eq!((plan.shares.len(), plan.secondary.len(), plan.sharing_a_leaf), (8, 8, 0));
    let mut seconds = BTreeMap::new();
    for share in &plan.secondary {
        assert!(share.ports <= 150);
        share.devices.iter().for_each(|held| assert!(seconds.insert(held.id, leaf(&fabric, share)).is_none()));
    }
    for share in &plan.shares {
        share.devices.iter().for_each(|held| assert_ne!(seconds[&held.id], leaf(&fabric, share)));
    }
    // The greatest load is that of the first role: one sampler stands in for one other.
    let loads = |shares: &[Share]| {
        let mut loads: Vec<_> = shares.iter().map(|share| share.load).collect();
        loads.sort_unstable();
        loads
    };
    assert_eq!(loads(&plan.shares), loads(&plan.secondary));
}

#[test]
fn samplers_on_one_leaf_only_cannot_stand_in_for_one_another() {
    let fabric = read(&synthetic::stria());
    let error = planned_with(&fabric, "node[00001-00008]", 150, &REDUNDANT).unwrap_err();
    assert!(matches!(error, PlanError::NoStandIn { permitted: 0, samplers: 8, .. }), "{error}");
    // All 968 ports, 150 to each.
    assert!(error.to_string().ends_with(": at least 7 are missing"), "{error}");
    let help = error.help().unwrap().to_string();
    assert!(
        help.starts_with("add 7 samplers, best on leaf switches without one: node00025 (on leaf02), node00049 (on leaf03), "),
        "{help}"
    );
    let error = planned_with(&fabric, "node00001", 1000, &REDUNDANT).unwrap_err();
    assert!(
        error.to_string().ends_with("`node00001` find no second sampler: all samplers hang on the same leaf switch: at least 1 is missing"),
        "{error}"
    );
}

#[test]
fn where_most_samplers_hang_on_one_leaf_the_others_stand_in_for_them_as_far_as_the_cap_allows() {
    let fabric = read(&synthetic::stria());
    let with_cap = |cap| planned_with(&fabric, "node[00001-00005,00025-00027]", cap, &REDUNDANT);
    // No sampler can have one for itself: five on one leaf, three on others.
    assert_eq!(with_cap(400).map(|plan| plan.prove(&fabric)).unwrap(), Ok(()));
    let error = with_cap(150).unwrap_err();
    assert!(matches!(error, PlanError::NoStandIn { permitted: 3 | 5, .. }), "{error}");
    assert!(error.help().unwrap().to_string().ends_with(";\nor raise the cap (--cap)"));
}

#[test]
fn hosts_that_share_all_leaves_stand_in_for_one_another_and_that_is_said() {
    let fabric = read(&Rails { units: 1, hosts: 8, rails: 4, spines: 2 }.blueprint());
    let plan = planned_with(&fabric, "node[00001-00003]", 200, &REDUNDANT).unwrap();
    assert_eq!(plan.sharing_a_leaf, fabric.linked_ports() as u32);
    // Told to send from one rail each, they are apart.
    let plan = planned_with(&fabric, "node00001:mlx5_0,node00002:mlx5_1", 200, &REDUNDANT).unwrap();
    assert_eq!(plan.sharing_a_leaf, 0);
}

#[test]
fn stand_ins_are_near() {
    // A row of six switches: pairs of neighbours stand in for each other, or a ring does.
    let fabric = read(&Grid { sizes: vec![6], wrapped: false, hosts: 1 }.blueprint());
    let plan = planned_with(&fabric, &names(&fabric, &[0, 1, 2, 3, 4, 5]), 150, &REDUNDANT).unwrap();
    let hops: Vec<_> = plan.secondary.iter().flat_map(|share| &share.devices).map(|held| held.hops.unwrap()).collect();
    assert!(hops.iter().all(|hops| *hops <= 3), "{hops:?}");
}
