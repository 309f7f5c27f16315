//! Tests of plans that keep a previous plan.

use std::collections::BTreeSet;

use super::changes::{ChangedPorts, Changes, Previous};
use super::shapes::{any_fabric, names, some_hosts};
use super::*;

/// Returns a plan as the previous plan.
fn past(plan: &Plan, fabric: &Fabric) -> Previous {
    let ports = |shares: &[Share]| {
        let name = |guid, port| fabric.device(fabric.find(guid, port).unwrap()).name.clone();
        let assigned = proof::port_assignments(fabric, shares);
        assigned
            .map(|port| {
                (
                    (port.guid, port.port),
                    (
                        shares[port.sampler].host.name.clone(),
                        name(port.guid, port.port),
                    ),
                )
            })
            .collect()
    };
    Previous {
        primary: ports(&plan.shares),
        secondary: ports(&plan.secondary),
        ..Previous::default()
    }
}

/// Returns two plans; the first is the previous plan of the second.
fn twice(
    before: (&Fabric, &str),
    after: (&Fabric, &str),
    cap: u32,
    redundant: bool,
) -> Option<(Plan, Plan)> {
    let options = PlanOptions {
        redundant,
        ..PlanOptions::default()
    };
    let first = planned_with(before.0, before.1, cap, &options).ok()?;
    let previous = past(&first, before.0);
    let second = planned_with(
        after.0,
        after.1,
        cap,
        &PlanOptions {
            previous: Some(&previous),
            ..options
        },
    )
    .ok()?;
    Some((first, second))
}

fn changes(plan: &Plan) -> &Changes {
    plan.changes.as_ref().unwrap()
}

/// Counts the ports with another host in the second plan, from the plans alone.
fn moved(one: (&Plan, &Fabric), two: (&Plan, &Fabric)) -> u32 {
    let (before, after) = (past(one.0, one.1).primary, past(two.0, two.1).primary);
    after
        .iter()
        .filter(|(key, (host, _))| before.get(key).is_some_and(|(was, _)| was != host))
        .count() as u32
}

const SEVEN: &str = "node[00001,00025,00049,00073,00097,00121,00145]";

#[test]
fn only_its_own_devices_move_to_a_new_sampler() {
    let fabric = read(&synthetic::stria());
    let (first, second) = twice(
        (&fabric, SEVEN),
        (&fabric, &format!("{SEVEN},node00169")),
        150,
        false,
    )
    .unwrap();
    let changes = changes(&second);
    assert_eq!(
        (
            changes.moved_more,
            &changes.new_samplers[..],
            changes.gone_samplers.len()
        ),
        (false, &["node00169".to_owned()][..], 0)
    );
    // leaf08 and its 24 HCA ports move.
    assert_eq!(
        (
            moved((&first, &fabric), (&second, &fabric)),
            changes.moved.len(),
            changes.kept
        ),
        (60, 25, 908)
    );
    assert_eq!(
        (
            &*changes.moved[0].name,
            changes.moved[0].ports,
            &*changes.moved[0].to
        ),
        ("leaf08", 36, "node00169")
    );
    assert!(changes.new_ports.is_empty() && changes.gone_ports.is_empty());
}

#[test]
fn devices_of_a_gone_sampler_move_and_few_others() {
    let fabric = read(&synthetic::stria());
    let (first, second) = twice(
        (&fabric, &format!("{SEVEN},node00169")),
        (&fabric, SEVEN),
        200,
        false,
    )
    .unwrap();
    let gone = first
        .shares
        .iter()
        .find(|share| share.host.name == "node00169")
        .unwrap()
        .ports;
    assert_eq!(
        (
            changes(&second).gone_samplers.clone(),
            changes(&second).moved_more
        ),
        (vec!["node00169".to_owned()], false)
    );
    assert_eq!(moved((&first, &fabric), (&second, &fabric)), gone);
    // With a tight cap more devices have to move, but most stay.
    let (first, second) = twice(
        (&fabric, &format!("{SEVEN},node00169")),
        (&fabric, SEVEN),
        150,
        false,
    )
    .unwrap();
    assert!(changes(&second).kept > 968 / 2, "{}", changes(&second).kept);
    assert_eq!(
        changes(&second).kept,
        968 - moved((&first, &fabric), (&second, &fabric))
    );
}

#[test]
fn new_and_gone_ports_are_listed() {
    let tree = |hosts| {
        read(
            &FatTree {
                leaves: 3,
                hosts,
                spines: 2,
                trunk: 1,
                radix: 8,
            }
            .blueprint(),
        )
    };
    let net = tree(4).devices().to_vec();
    let report = FatTree {
        leaves: 3,
        hosts: 4,
        spines: 2,
        trunk: 1,
        radix: 8,
    }
    .blueprint()
    .ports_report();
    assert_eq!(net.len(), 17);
    // The cable of a host is unplugged: neither end has a line.
    let without: String = report
        .lines()
        .filter(|line| !line.contains("node00004"))
        .map(|line| format!("{line}\n"))
        .collect();
    let (whole, less) = (
        tree(4),
        ports_report::parse(without.as_bytes(), "less")
            .unwrap()
            .fabric,
    );
    let (_, second) = twice(
        (&whole, "node[00001,00005]"),
        (&less, "node[00001,00005]"),
        150,
        false,
    )
    .unwrap();
    let names = |ports: &[ChangedPorts]| {
        ports
            .iter()
            .map(|changed| (changed.name.clone(), changed.ports.clone()))
            .collect::<Vec<_>>()
    };
    let expected = [
        ("node00004 mlx5_0".to_owned(), vec![PortNum(1)]),
        ("leaf01".to_owned(), vec![PortNum(4)]),
    ];
    assert_eq!(
        (
            names(&changes(&second).gone_ports),
            changes(&second).moved.len()
        ),
        (expected.to_vec(), 0)
    );
    let (_, second) = twice(
        (&less, "node[00001,00005]"),
        (&whole, "node[00001,00005]"),
        150,
        false,
    )
    .unwrap();
    assert_eq!(
        (
            names(&changes(&second).new_ports),
            changes(&second).moved.len()
        ),
        (expected.to_vec(), 0)
    );
    // The new HCA port has the sampler of its switch.
    assert_eq!(
        sampler_of(&second, &whole, "node00004 mlx5_0"),
        sampler_of(&second, &whole, "leaf01")
    );
}

#[test]
fn lower_cap_moves_only_the_excess() {
    let fabric = read(&synthetic::stria());
    let nine = format!("{SEVEN},admin1,oss1");
    let first = planned_with(
        &fabric,
        &nine,
        150,
        &PlanOptions {
            optimize: false,
            ..PlanOptions::default()
        },
    )
    .unwrap();
    let previous = past(&first, &fabric);
    let cap = 125;
    let second = planned_with(
        &fabric,
        &nine,
        cap,
        &PlanOptions {
            previous: Some(&previous),
            ..PlanOptions::default()
        },
    )
    .unwrap();
    let excess: u32 = first
        .shares
        .iter()
        .map(|share| share.ports.saturating_sub(cap))
        .sum();
    assert!(second.shares.iter().all(|share| share.ports <= cap));
    let moved = moved((&first, &fabric), (&second, &fabric));
    assert!(
        excess <= moved && moved <= 4 * excess,
        "{moved} ports moved for {excess}"
    );
}

proptest! {
    #[test]
    fn equal_input_moves_no_device(fabric in any_fabric(), picks in some_hosts(), cap in 4..150_u32, redundant in any::<bool>()) {
        let names = names(&fabric, &picks);
        if let Some((first, second)) = twice((&fabric, &names), (&fabric, &names), cap, redundant) {
            prop_assert_eq!(&second.shares, &first.shares);
            prop_assert_eq!(&second.secondary, &first.secondary);
            let Changes { moved, moved_secondary, new_ports, gone_ports, kept, .. } = changes(&second);
            prop_assert!(moved.is_empty() && moved_secondary.is_empty() && new_ports.is_empty() && gone_ports.is_empty());
            prop_assert_eq!(*kept as usize, fabric.linked_ports());
        }
    }

    #[test]
    fn changed_plan_is_proved_and_changes_are_counted(
        (before, after) in (any_fabric(), any_fabric()), same in any::<bool>(),
        picks in (some_hosts(), some_hosts()), cap in 4..150_u32, redundant in any::<bool>(),
    ) {
        let after = if same { before.clone() } else { after };
        let (one, two) = (names(&before, &picks.0), names(&after, &picks.1));
        if let Some((first, second)) = twice((&before, &one), (&after, &two), cap, redundant) {
            prop_assert_eq!(second.prove(&after), Ok(()));
            let changes = changes(&second);
            let moved_ports: u32 = changes.moved.iter().map(|moved| moved.ports).sum();
            prop_assert_eq!(moved_ports, moved((&first, &before), (&second, &after)));
            let new: usize = changes.new_ports.iter().map(|changed| changed.ports.len()).sum();
            prop_assert_eq!(changes.kept as usize + moved_ports as usize + new, after.linked_ports());
            // A host that was a sampler before is not a new sampler.
            let hosts: BTreeSet<_> = first.shares.iter().map(|share| &share.host.name).collect();
            prop_assert!(changes.new_samplers.iter().all(|name| !hosts.contains(name)));
        }
    }
}
