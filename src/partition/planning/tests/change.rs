//! Plans that stay as they were.

use std::collections::BTreeSet;

use super::shapes::{any_fabric, names, some_hosts};
use super::*;

/// A plan as one of the past.
fn past(plan: &Plan, fabric: &Fabric) -> Previous {
    let ports = |shares: &[Share]| {
        let name = |guid, port| fabric.device(fabric.find(guid, port).unwrap()).name.clone();
        let given = proof::given(fabric, shares);
        given.map(|given| ((given.guid, given.port), (shares[given.sampler].host.name.clone(), name(given.guid, given.port)))).collect()
    };
    Previous { primary: ports(&plan.shares), secondary: ports(&plan.secondary) }
}

/// Both plans, the second knowing the first.
fn twice(before: (&Fabric, &str), after: (&Fabric, &str), cap: u32, redundant: bool) -> Option<(Plan, Plan)> {
    let options = Options { redundant, ..Options::default() };
    let first = planned_with(before.0, before.1, cap, &options).ok()?;
    let previous = past(&first, before.0);
    let second = planned_with(after.0, after.1, cap, &Options { previous: Some(&previous), ..options }).ok()?;
    Some((first, second))
}

fn changes(plan: &Plan) -> &Changes {
    plan.changes.as_ref().unwrap()
}

/// Ports that are with another host in the second plan, counted from the plans alone.
fn moved(one: (&Plan, &Fabric), two: (&Plan, &Fabric)) -> u32 {
    let (before, after) = (past(one.0, one.1).primary, past(two.0, two.1).primary);
    after.iter().filter(|(key, (host, _))| before.get(key).is_some_and(|(was, _)| was != host)).count() as u32
}

const SEVEN: &str = "node[00001,00025,00049,00073,00097,00121,00145]";

#[test]
fn a_new_sampler_takes_what_is_its_own_and_nothing_else_moves() {
    let fabric = read(&synthetic::stria());
    let (first, second) = twice((&fabric, SEVEN), (&fabric, &format!("{SEVEN},node00169")), 150, false).unwrap();
    let told = changes(&second);
    assert_eq!((told.anew, &told.new_samplers[..], told.gone_samplers.len()), (false, &["node00169".to_owned()][..], 0));
    // leaf08 and its 24 adapters.
    assert_eq!((moved((&first, &fabric), (&second, &fabric)), told.moved.len(), told.kept), (60, 25, 908));
    assert_eq!((&*told.moved[0].name, told.moved[0].ports, &*told.moved[0].to), ("leaf08", 36, "node00169"));
    assert!(told.new_ports.is_empty() && told.gone_ports.is_empty());
}

#[test]
fn what_a_gone_sampler_had_goes_to_others_and_little_else_moves() {
    let fabric = read(&synthetic::stria());
    let (first, second) = twice((&fabric, &format!("{SEVEN},node00169")), (&fabric, SEVEN), 200, false).unwrap();
    let gone = first.shares.iter().find(|share| share.host.name == "node00169").unwrap().ports;
    assert_eq!((changes(&second).gone_samplers.clone(), changes(&second).anew), (vec!["node00169".to_owned()], false));
    assert_eq!(moved((&first, &fabric), (&second, &fabric)), gone);
    // Room is scarce: more has to move, and most stays nevertheless.
    let (first, second) = twice((&fabric, &format!("{SEVEN},node00169")), (&fabric, SEVEN), 150, false).unwrap();
    assert!(changes(&second).kept > 968 / 2, "{}", changes(&second).kept);
    assert_eq!(changes(&second).kept, 968 - moved((&first, &fabric), (&second, &fabric)));
}

#[test]
fn new_and_gone_ports_are_told() {
    let tree = |hosts| read(&FatTree { leaves: 3, hosts, spines: 2, trunk: 1, radix: 8 }.blueprint());
    let net = tree(4).devices().to_vec();
    let report = FatTree { leaves: 3, hosts: 4, spines: 2, trunk: 1, radix: 8 }.blueprint().ports_report();
    assert_eq!(net.len(), 17);
    // A host whose cable was pulled: both ends have no line of it.
    let without: String = report.lines().filter(|line| !line.contains("node00004")).map(|line| format!("{line}\n")).collect();
    let (whole, less) = (tree(4), ports_report::parse(without.as_bytes(), "less").unwrap().fabric);
    let (_, second) = twice((&whole, "node[00001,00005]"), (&less, "node[00001,00005]"), 150, false).unwrap();
    let names = |ports: &[previous::Ported]| ports.iter().map(|ported| (ported.name.clone(), ported.ports.clone())).collect::<Vec<_>>();
    let expected = [("node00004 mlx5_0".to_owned(), vec![PortNum(1)]), ("leaf01".to_owned(), vec![PortNum(4)])];
    assert_eq!((names(&changes(&second).gone_ports), changes(&second).moved.len()), (expected.to_vec(), 0));
    let (_, second) = twice((&less, "node[00001,00005]"), (&whole, "node[00001,00005]"), 150, false).unwrap();
    assert_eq!((names(&changes(&second).new_ports), changes(&second).moved.len()), (expected.to_vec(), 0));
    // What is new is with what it hangs on.
    assert_eq!(sampler_of(&second, &whole, "node00004 mlx5_0"), sampler_of(&second, &whole, "leaf01"));
}

#[test]
fn a_lower_cap_moves_only_what_is_too_much() {
    let fabric = read(&synthetic::stria());
    let nine = format!("{SEVEN},admin1,oss1");
    let first = planned_with(&fabric, &nine, 150, &Options { optimize: false, ..Options::default() }).unwrap();
    let previous = past(&first, &fabric);
    let cap = 125;
    let second = planned_with(&fabric, &nine, cap, &Options { previous: Some(&previous), ..Options::default() }).unwrap();
    let excess: u32 = first.shares.iter().map(|share| share.ports.saturating_sub(cap)).sum();
    assert!(second.shares.iter().all(|share| share.ports <= cap));
    let moved = moved((&first, &fabric), (&second, &fabric));
    assert!(excess <= moved && moved <= 4 * excess, "{moved} ports moved for {excess}");
}

proptest! {
    #[test]
    fn nothing_moves_where_nothing_changed(fabric in any_fabric(), picks in some_hosts(), cap in 4..150_u32, redundant in any::<bool>()) {
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
    fn whatever_changed_the_plan_is_proved_and_the_report_counts_right(
        (before, after) in (any_fabric(), any_fabric()), same in any::<bool>(),
        picks in (some_hosts(), some_hosts()), cap in 4..150_u32, redundant in any::<bool>(),
    ) {
        let after = if same { before.clone() } else { after };
        let (one, two) = (names(&before, &picks.0), names(&after, &picks.1));
        if let Some((first, second)) = twice((&before, &one), (&after, &two), cap, redundant) {
            prop_assert_eq!(second.prove(&after), Ok(()));
            let told = changes(&second);
            let moved_ports: u32 = told.moved.iter().map(|moved| moved.ports).sum();
            prop_assert_eq!(moved_ports, moved((&first, &before), (&second, &after)));
            let new: usize = told.new_ports.iter().map(|ported| ported.ports.len()).sum();
            prop_assert_eq!(told.kept as usize + moved_ports as usize + new, after.linked_ports());
            // Who was a sampler and is one still keeps its adapters.
            let hosts: BTreeSet<_> = first.shares.iter().map(|share| &share.host.name).collect();
            prop_assert!(told.new_samplers.iter().all(|name| !hosts.contains(name)));
        }
    }
}
