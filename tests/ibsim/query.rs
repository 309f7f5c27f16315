//! `ibnet-sweep query` beside the real perfquery, line by line, for every group that ibsim answers.

use std::collections::BTreeMap;

use ibnet::cli;
use ibnet::mad::pma::{Field, Group};
use ibnet::record::strict::{self, Line, Value};
use ibnet::topology::synthetic::FatTree;
use ibnet::types::NodeKind;

use crate::fabric::{Ibsim, available};
use crate::{SWEEP, discover};

/// The groups that ibsim answers, with perfquery's option for each.
const GROUPS: [(Group, &str); 10] = [
    (Group::Base, ""),
    (Group::Extended, "-x"),
    (Group::RcvErr, "-E"),
    (Group::XmtDisc, "-D"),
    (Group::OpRcvCounters, "--oprcvcounters"),
    (Group::FlowCtlCounters, "--flowctlcounters"),
    (Group::VlOpPackets, "--vloppackets"),
    (Group::VlOpData, "--vlopdata"),
    (Group::VlXmitFlowCtlErrors, "--vlxmitflowctlerrors"),
    (Group::VlXmitCounters, "--vlxmitcounters"),
];

/// Who asks. Its MADs pass no port that is looked at.
const HERE: &str = "node00001";

/// A port that is looked at.
struct Looked {
    /// ibsim's name for its node.
    node: String,
    lid: String,
    port: String,
    groups: Vec<(Group, &'static str)>,
}

/// ibsim copies 64 octets of an attribute: what stands behind them it takes, and reads as zero.
fn is_cut(name: &str) -> bool {
    ["PortMulticastRcvPkts", "PortVLOpData15"].contains(&name)
}

/// Each value of a group that ibsim's console can set: the field, the index, and libibmad's name.
fn settable(group: Group) -> impl Iterator<Item = (&'static Field, u8, String)> {
    let fields = group.attribute().counters();
    let all = fields.flat_map(|field| (0..field.len).map(move |index| (field, index)));
    let named = all.map(|(field, index)| {
        let name = if field.len > 1 { format!("{}{index}", field.name) } else { field.name.to_owned() };
        (field, index, name)
    });
    // It knows neither this counter nor the 64-bit error counters.
    named.filter(move |(field, _, name)| name != "QP1Dropped" && (group != Group::Extended || field.first_bit < 576))
}

/// ibsim's name, where it is not libibmad's.
fn console_name(name: &str) -> String {
    match name {
        "PortMalformedPktErrors" => "PortMalformedPacketErrors".to_owned(),
        "PortMulticastXmitPkts" => "PortMultiCastXmitPkts".to_owned(),
        "PortMulticastRcvPkts" => "PortMultiCastRcvPkts".to_owned(),
        _ => name.replace("PortVLXmitWait", "PortVLXmitWaitCounters"),
    }
}

type Values = BTreeMap<(Group, String), u64>;

/// Sets every counter of the port, and gives what each was set to.
fn set(ibsim: &mut Ibsim, looked: &Looked, mut choose: impl FnMut(&Field) -> u64) -> Values {
    let mut values = Values::new();
    for (group, _) in &looked.groups {
        for (field, _, name) in settable(*group) {
            let value = choose(field);
            let Looked { node, port, .. } = looked;
            ibsim.type_line(&format!("PerformanceSet \"{node}\"[{port}] {}.{}={value}", group.attribute().name, console_name(&name)));
            values.insert((*group, name), value);
        }
    }
    let done = ibsim.settle().iter().filter(|line| line.contains("has been set to")).count();
    assert_eq!(done, values.len(), "ibsim's console did not take all of it");
    values
}

fn stdout(ibsim: &Ibsim, program: &str, args: &[&str]) -> String {
    let output = ibsim.run(HERE, program, args);
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn value<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find(|line| line.split(':').next() == Some(name)).unwrap_or_else(|| panic!("{name} is not in {text}"));
    line[name.len() + 1..].trim_start_matches('.')
}

/// Compares both programs, and both with what was set.
fn compare(ibsim: &Ibsim, looked: &Looked, set: &Values) {
    let Looked { lid, port, groups, .. } = looked;
    let mut all = String::new();
    for (group, option) in groups {
        let args: Vec<&str> = [*option, lid, port].into_iter().filter(|arg| !arg.is_empty()).collect();
        let theirs = stdout(ibsim, "perfquery", &args);
        let ours = stdout(ibsim, SWEEP, &["query", lid, port, "--groups", group.as_str()]);
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{ours}\n{theirs}");
        for (our, their) in ours.lines().zip(theirs.lines()) {
            // libibmad reads QP1Dropped where VL15Dropped is (`IB_PC_QP1_DROP_F` lacks the macro that puts bits in order). ibsim's is always 0.
            if our.starts_with("QP1Dropped:") {
                assert_eq!((value(our, "QP1Dropped"), value(their, "QP1Dropped")), ("0", value(&theirs, "VL15Dropped")));
                continue;
            }
            assert_eq!(our, their);
        }
        for (_, _, name) in settable(*group) {
            let wanted = if is_cut(&name) { 0 } else { set[&(*group, name.clone())] };
            assert_eq!(value(&theirs, &name), wanted.to_string(), "{name} was set otherwise");
        }
        all += &ours;
    }
    // In one go it is the same.
    let names: Vec<&str> = groups.iter().map(|(group, _)| group.as_str()).collect();
    assert_eq!(stdout(ibsim, SWEEP, &["query", lid, port, "--groups", &names.join(",")]), all);
    compare_record(ibsim, looked, &names, set);
}

/// The record has the same values, in its own units, each counter once and the widest.
fn compare_record(ibsim: &Ibsim, looked: &Looked, names: &[&str], set: &Values) {
    let text = stdout(ibsim, SWEEP, &["query", &looked.lid, &looked.port, "--json", "--groups", &names.join(",")]);
    let Line::Port(record) = strict::parse(text.trim_end()).expect("a record") else { panic!("{text}") };
    assert_eq!((record.status.as_str(), record.identity.as_str()), ("ok", "ok"));
    for (group, _) in &looked.groups {
        for (field, index, name) in settable(*group) {
            let is_wider_elsewhere = *group == Group::Base && settable(Group::Extended).any(|(wide, ..)| wide.json == field.json);
            if is_wider_elsewhere {
                continue;
            }
            let raw = if is_cut(&name) { 0 } else { set[&(*group, name.clone())] };
            let told = match &record.counters[field.json] {
                Value::One(value) => *value,
                Value::Many(values) => values[usize::from(index)],
            };
            assert_eq!(told, field.value(raw), "{name}");
            assert!(!field.is_saturated(raw) || record.saturated.iter().any(|full| full == field.json), "{name} is full");
        }
    }
}

#[test]
fn query_prints_what_perfquery_prints() {
    let Some(preload) = available() else { return };
    let seed = std::env::var("IBNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(cli::random_seed);
    eprintln!("IBNET_SEED={seed} plays this again");
    let mut rng = fastrand::Rng::with_seed(seed);
    let tree = FatTree { leaves: 2, hosts: 2, spines: 1, trunk: 1, radix: 8 };
    let mut ibsim = Ibsim::start(&tree.blueprint(), HERE, preload);
    let fabric = discover(&ibsim, HERE).fabric;
    let named = |name: &str| fabric.devices().iter().find(|device| device.host() == name).expect("it is there");
    let looked = |name: &str, towards: &str, groups: &[(Group, &'static str)]| {
        let device = named(name);
        let to_it = |peer: &ibnet::topology::Peer| fabric.find(peer.guid, peer.port).is_some_and(|id| fabric.device(id).host() == towards);
        let (port, _) = device.linked().find(|(_, peer)| to_it(peer)).expect("a link");
        let letter = if device.kind == NodeKind::Switch { 'S' } else { 'H' };
        Looked { node: format!("{letter}-{name}"), lid: device.lid.to_string(), port: port.num.to_string(), groups: groups.to_vec() }
    };
    let spine =
        fabric.devices().iter().find(|device| device.kind == NodeKind::Switch && !device.name.starts_with("leaf")).expect("it has one");
    // MADs to a switch end at it: the ports that lead on see none. An adapter's port sees them, so its traffic is not looked at.
    let still =
        [looked("leaf01", "node00002", &GROUPS), looked(spine.host(), "leaf02", &GROUPS), looked("node00003", "leaf02", &GROUPS[2..])];
    for looked in &still {
        let random = set(&mut ibsim, looked, |field| rng.u64(..=field.all_ones()));
        compare(&ibsim, looked, &random);
        let full = set(&mut ibsim, looked, Field::all_ones);
        compare(&ibsim, looked, &full);
        let none = set(&mut ibsim, looked, |_| 0);
        compare(&ibsim, looked, &none);
    }
}

#[test]
fn who_does_not_answer_on_ibsim_is_told() {
    let Some(preload) = available() else { return };
    let tree = FatTree { leaves: 1, hosts: 2, spines: 1, trunk: 1, radix: 4 };
    let mut ibsim = Ibsim::start(&tree.blueprint(), HERE, preload);
    let fabric = discover(&ibsim, HERE).fabric;
    let gone = fabric.devices().iter().find(|device| device.host() == "node00002").expect("it is there");
    let query = |ibsim: &Ibsim, groups: &str| ibsim.run(HERE, SWEEP, ["query", &gone.lid.to_string(), "1", "--groups", groups]);
    // ibsim drops this one, and answers that one.
    let half = query(&ibsim, "xmtsl,rcverr");
    let notes = String::from_utf8_lossy(&half.stderr).into_owned();
    assert_eq!((half.status.code(), notes.as_str()), (Some(0), "note: xmtsl: it was not answered\n"));
    ibsim.type_line("Unlink \"H-node00002\"");
    ibsim.settle();
    let none = query(&ibsim, "base");
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert_eq!((none.status.code(), none.stdout.is_empty()), (Some(1), true), "{said}");
    assert!(said.starts_with(&format!("error: LID {} does not answer\nhelp: ", gone.lid)), "{said}");
}
