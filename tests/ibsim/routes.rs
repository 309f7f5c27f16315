//! Forwarding tables in the records compared with `dump_fts`, for several routing engines of
//! opensm, with a cut cable and without. Each engine has its own fabric. All run at the same time,
//! because a sweep begins at most one round of tables in five seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use ibnet::topology::synthetic::{Blueprint, FatTree, NodeId};
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, NodeKind};

use crate::fabric::{Ibsim, Running, available, wait_until};
use crate::{SWEEP, discover};

/// Routing engines for which opensm needs nothing else.
const ENGINES: [&str; 4] = ["minhop", "updn", "dfsssp", "ftree"];

const MANAGER: &str = "node00001";
const SENDER: &str = "node00002";
const FILE: &str = "lines.jsonl";

fn host(plan: &mut Blueprint, number: &mut usize, leaf: NodeId, port: usize) {
    *number += 1;
    let adapter = plan.adapter(&format!("node{number:05}"), 1);
    plan.cable((adapter, 1), (leaf, port));
}

fn tree(leaves: usize, hosts: usize, spines: usize, trunk: usize) -> Blueprint {
    let radix = 36;
    FatTree {
        leaves,
        hosts,
        spines,
        trunk,
        radix,
    }
    .blueprint()
}

/// Three tiers: two pods of two leaf switches and two spines, and four core switches.
fn three_tiers() -> Blueprint {
    let mut plan = Blueprint::new("EDR");
    let mut hosts = 0;
    let cores: Vec<_> = (1..=4)
        .map(|n| plan.switch(&format!("core{n}"), 8))
        .collect();
    for pod in 0..2 {
        let spines = [1, 2].map(|n| plan.switch(&format!("spine{pod}-{n}"), 8));
        for (place, spine) in spines.iter().enumerate() {
            for up in 0..2 {
                plan.cable((*spine, 5 + up), (cores[2 * place + up], 1 + pod));
            }
        }
        for n in 1..=2 {
            let leaf = plan.switch(&format!("leaf{pod}-{n}"), 8);
            for (place, spine) in spines.iter().enumerate() {
                plan.cable((leaf, 5 + place), (*spine, n));
            }
            (1..=4).for_each(|port| host(&mut plan, &mut hosts, leaf, port));
        }
    }
    plan
}

/// A ring of six switches with two hosts each, and a cable across.
fn ring() -> Blueprint {
    let mut plan = Blueprint::new("EDR");
    let mut hosts = 0;
    let switches: Vec<_> = (1..=6)
        .map(|n| plan.switch(&format!("ring{n}"), 8))
        .collect();
    for (place, switch) in switches.iter().enumerate() {
        plan.cable((*switch, 3), (switches[(place + 1) % 6], 4));
        (1..=2).for_each(|port| host(&mut plan, &mut hosts, *switch, port));
    }
    plan.cable((switches[0], 5), (switches[3], 5));
    plan
}

/// Returns the text of `dump_fts -n` without the path to each switch, by GUID.
fn dumped(ibsim: &Ibsim) -> BTreeMap<Guid, String> {
    let output = ibsim.run(SENDER, "dump_fts", ["-n"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let mut tables = BTreeMap::new();
    for table in text.split("Unicast lids ").skip(1) {
        let (head, lines) = table.split_once('\n').expect("a heading");
        let guid = head
            .split_once(" guid ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let range = head.split(' ').next().expect("a range");
        let (lines, _) = lines.split_once(" valid lids dumped").expect("a last line");
        tables.insert(guid.expect("a GUID"), format!("{range}\n{lines}"));
    }
    tables
}

/// Writes the newest tables of the records as `dump_fts -n` does.
fn recorded(ibsim: &Ibsim) -> BTreeMap<Guid, String> {
    let text = fs::read_to_string(ibsim.path(FILE)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let is_of_table = |line: &&str| line.starts_with("{\"type\":\"routes\"");
    let parse = |line| strict::parse(line).unwrap_or_else(|error| panic!("{error} in {line}"));
    let lines = whole.lines().filter(is_of_table).map(parse);

    let mut ports: BTreeMap<Guid, BTreeMap<u16, u8>> = BTreeMap::new();
    let mut tops = BTreeMap::new();
    for line in lines {
        let Line::Routes(record) = line else { continue };
        let (Some(first), Some(of)) = (record.first_lid, &record.ports) else {
            continue;
        };
        tops.insert(record.guid, record.top.expect("of a block"));
        let table = ports.entry(record.guid).or_default();
        table.extend((first..).zip(of.iter().copied()));
    }
    let text = |guid: &Guid, table: &BTreeMap<u16, u8>| {
        let top = tops[guid];
        let valid: Vec<_> = table
            .range(..=top)
            .filter(|(_, port)| **port < 255)
            .collect();
        let mut text = format!("[0x0-{top:#x}]\n  Lid  Out   Destination\n       Port     Info \n");
        for (lid, port) in &valid {
            writeln!(text, "{lid:#06x} {port:03} ").expect("a string");
        }
        write!(text, "{}", valid.len()).expect("a string");
        text
    };
    ports
        .iter()
        .map(|(guid, table)| (*guid, text(guid, table)))
        .collect()
}

/// Runs opensm once with a routing engine, and checks that the tables are of this engine: opensm
/// takes minhop if an engine cannot route the fabric.
fn route(ibsim: &Ibsim, engine: &str) {
    let log = ibsim.path("opensm.log");
    let args = ["-o", "-e", "-R", engine, "-f"].map(OsStr::new);
    let opensm = ibsim.run(MANAGER, "opensm", args.iter().chain([&log.as_os_str()]));
    assert!(opensm.status.success(), "opensm -R {engine}");
    let log = fs::read_to_string(log).expect("written by opensm");
    let made = format!(": {engine} tables configured on all switches");
    assert!(log.contains(&made), "no tables of {engine}: {log}");
}

/// Compares the tables of a fabric for a routing engine. `cut` is one end of the cable that is cut,
/// and `other` its other end.
fn compare(plan: &Blueprint, engine: &str, cut: (&str, u8), other: (&str, u8), preload: PathBuf) {
    let mut ibsim = Ibsim::start(plan, MANAGER, preload);
    let net = discover(&ibsim, SENDER);
    let kinds = net.fabric.devices().iter().map(|device| device.kind);
    let hosts = kinds.filter(|kind| *kind == NodeKind::Hca).count();
    let text = fs::read_to_string(ibsim.path("net.p")).expect("written by the discovery");
    let swept: Vec<&str> = text.lines().filter(|line| line.starts_with("SW")).collect();
    fs::write(ibsim.path("swept.p"), swept.join("\n") + "\n").expect("written");
    let config = "net = \"swept.p\"\ninterval = \"1s\"\ntimeout = \"1s\"\ngrace = \"3s\"\nidentity = \"1s\"\n\
                  [routes]\nenabled = true\n";
    fs::write(ibsim.path("ibnet.toml"), config).expect("written");
    let mut seen = BTreeSet::new();
    let mut command = ibsim.command(SENDER, SWEEP);
    command.args(["-c", "ibnet.toml", "-o", FILE]);
    let running = Running::start(command.stderr(Stdio::null()));
    // The tables are compared after both: with the cut cable, and with it again.
    for command in ["Unlink", "Link"] {
        let (name, port) = cut;
        // Without one of its cables, a fat tree is none for opensm.
        let (second, engine) = match (command, engine) {
            ("Link", _) => (format!(" \"S-{}\"[{}]", other.0, other.1), engine),
            (_, "ftree") => (String::new(), "minhop"),
            _ => (String::new(), engine),
        };
        ibsim.type_line(&format!("{command} \"S-{name}\"[{port}]{second}"));
        ibsim.settle();
        route(&ibsim, engine);
        let expected = dumped(&ibsim);
        assert!(expected.len() > 1, "{engine}");
        wait_until(&format!("the tables of {engine} after {command}"), || {
            recorded(&ibsim) == expected
        });
        seen.extend(expected);
    }
    running.stop();
    assert!(
        seen.len() > net.fabric.devices().len() - hosts,
        "the tables have changed"
    );
}

#[test]
fn tables_of_each_routing_engine_are_those_of_dump_fts() {
    let Some(preload) = available() else { return };
    let all = &ENGINES[..];
    let fabrics = [
        (
            "small",
            tree(2, 4, 2, 1),
            all,
            ("leaf01", 5),
            ("spine01", 1),
        ),
        (
            "fat",
            tree(8, 18, 4, 2),
            all,
            ("leaf03", 20),
            ("spine01", 6),
        ),
        (
            "thin",
            tree(5, 12, 2, 1),
            all,
            ("leaf05", 14),
            ("spine02", 5),
        ),
        ("tiers", three_tiers(), all, ("leaf0-1", 5), ("spine0-1", 1)),
        // A ring has no root for updn, and is no tree for ftree.
        (
            "ring",
            ring(),
            &["minhop", "dfsssp"],
            ("ring1", 3),
            ("ring2", 4),
        ),
    ];
    thread::scope(|scope| {
        for (name, plan, engines, cut, other) in &fabrics {
            for engine in *engines {
                // A failed test shows the name of its thread.
                let thread = thread::Builder::new().name(format!("{name}, {engine}"));
                let preload = preload.clone();
                let run = move || compare(plan, engine, *cut, *other, preload);
                thread.spawn_scoped(scope, run).expect("a thread");
            }
        }
    });
}
