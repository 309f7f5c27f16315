//! Parsing of the real `ibnetdiscover` in all of its formats, comparison of `ibnet-gen discover` with
//! it, and comparison of name maps with rdma-core's own parser.

use std::fs;

use ibnet::topology::name_map::NameMap;
use ibnet::topology::net_file::{self, NetFile};
use ibnet::topology::shapes::{Dragonfly, Grid, ThreeTiers};
use ibnet::topology::synthetic::{Blueprint, FatTree, stria};
use ibnet::topology::{Device, Peer};
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

use crate::fabric::{Ibsim, available};
use crate::{GEN, SWEEP};

const TREE: FatTree = FatTree {
    leaves: 2,
    hosts: 4,
    spines: 1,
    trunk: 2,
    radix: 8,
};

fn discover(ibsim: &Ibsim, args: &[&str]) -> NetFile {
    let discovered = ibsim.run("node00001", "ibnetdiscover", args);
    assert!(discovered.status.success());
    net_file::parse(&discovered.stdout, "net").expect("ibnetdiscover prints a valid net file")
}

type Described = (Guid, Lid, NodeKind, String, Vec<(PortNum, String, Peer)>);

/// Returns all properties that both formats have.
fn describe(net: &NetFile) -> Vec<Described> {
    let of = |device: &Device| {
        let linked = device
            .linked()
            .map(|(port, peer)| (port.num, port.rate.to_string(), peer.clone()));
        (
            device.guid,
            device.lid,
            device.kind,
            device.name.clone(),
            linked.collect(),
        )
    };
    net.fabric.devices().iter().map(of).collect()
}

#[test]
fn all_formats_of_ibnetdiscover_give_the_same_fabric() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), "node00008", preload);
    let report = discover(&ibsim, &["-p"]);
    assert_eq!(
        (report.fabric.linked_ports(), report.remarks.len()),
        (24, 0)
    );
    for args in [&[][..], &["-f"], &["-g"]] {
        let plain = discover(&ibsim, args);
        assert_eq!(plain.remarks, [], "{args:?}");
        assert_eq!(describe(&plain), describe(&report), "{args:?}");
        let node = plain.fabric.devices()[0].node;
        assert!(
            node.guid.is_some() && node.device_id.is_some() && node.ports.is_some(),
            "{node:?}"
        );
    }
}

#[test]
fn names_of_a_map_agree_with_ibnetdiscover() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), "node00008", preload);
    let plain = discover(&ibsim, &[]);
    let mut nodes: Vec<_> = plain
        .fabric
        .devices()
        .iter()
        .map(|device| device.node.guid.expect("a node GUID").0)
        .collect();
    nodes.dedup();
    let guid = |n: usize| nodes[n % nodes.len()];
    let map = format!(
        "# a map\n\n{:#018x} \"quoted\" # comment\n   {:#x}\tnot quoted  \n{} decimal\n0{:o} \"octal\"\n{:#x} \"a # in quotes\"\n{:#x} # text\n\
         {:#x}#text\n{:#x} \"\"\n{:#x} \"first\"\n{:#x} \"second\"\n{:#X} 'apostrophes'\n",
        guid(0),
        guid(1),
        guid(2),
        guid(3),
        guid(4),
        guid(5),
        guid(6),
        guid(7),
        guid(8),
        guid(8),
        guid(9)
    )
    .replace("0X", "0x");
    fs::write(ibsim.path("names"), &map).expect("written");
    let theirs = discover(&ibsim, &["-p", "--node-name-map", "names"]);
    let mut ours = [plain];
    NameMap::parse(map.as_bytes(), "names")
        .expect("a valid map")
        .apply(&mut ours);
    assert_eq!(describe(&ours[0]), describe(&theirs));
    for name in [
        "quoted",
        "not quoted  ",
        "decimal",
        "octal",
        "a ",
        " text",
        "text",
        "first",
        "'apostrophes'",
    ] {
        assert!(
            ours[0]
                .fabric
                .devices()
                .iter()
                .any(|device| device.name == name),
            "{name:?} of {map}"
        );
    }
}

/// Returns the sorted lines of `ibnetdiscover -p`.
fn their_lines(ibsim: &Ibsim) -> Vec<String> {
    sorted(&ibsim.run("node00001", "ibnetdiscover", ["-p"]).stdout)
}

/// Returns the sorted lines of `ibnet-gen discover`, and what it reports.
fn our_lines(ibsim: &Ibsim) -> (Vec<String>, String) {
    let done = ibsim.run("node00001", GEN, ["discover"]);
    let report = String::from_utf8(done.stderr).expect("text");
    assert!(done.status.success(), "{report}");
    (sorted(&done.stdout), report)
}

fn sorted(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8(text.to_vec()).expect("text");
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Shapes with the node on which opensm runs.
fn shapes() -> Vec<(Blueprint, &'static str)> {
    let torus = Grid {
        sizes: vec![3, 3, 3],
        wrapped: true,
        hosts: 2,
    };
    let chain = Grid {
        sizes: vec![40],
        wrapped: false,
        hosts: 1,
    };
    let dragonfly = Dragonfly {
        groups: 4,
        leaves: 3,
        spines: 3,
        hosts: 4,
    };
    vec![
        (TREE.blueprint(), "node00008"),
        (stria(), "node00288"),
        (ThreeTiers { radix: 8, pods: 6 }.blueprint(), "node00096"),
        (torus.blueprint(), "node00054"),
        (chain.blueprint(), "node00040"),
        (dragonfly.blueprint(), "node00048"),
    ]
}

#[test]
fn discovery_of_each_shape_equals_ibnetdiscover() {
    let Some(preload) = available() else { return };
    for (shape, (blueprint, sm)) in shapes().into_iter().enumerate() {
        let ibsim = Ibsim::start(&blueprint, sm, preload.clone());
        let theirs = their_lines(&ibsim);
        assert!(theirs.len() >= blueprint.linked_ports(), "shape {shape}");
        let (ours, report) = our_lines(&ibsim);
        assert!(ours == theirs, "shape {shape}: {report}");
        assert!(!report.contains("partial"), "shape {shape}: {report}");
    }
}

#[test]
fn discovery_with_losses_equals_that_without() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&stria(), "node00288", preload);
    let theirs = their_lines(&ibsim);
    let mut last = 0;
    for percent in [0, 1, 10] {
        for host in 1..=288 {
            ibsim.type_line(&format!("Error \"H-node{host:05}\" {percent}"));
        }
        ibsim.settle();
        let (ours, report) = our_lines(&ibsim);
        assert!(ours == theirs, "{percent} %: {report}");
        let mads = report.split(" MADs").next();
        let mads = mads.and_then(|text| text.rsplit(' ').next()?.parse().ok());
        let mads: u32 = mads.expect("a number of MADs");
        assert!(mads > last, "nothing was lost: {report}");
        last = mads;
    }
}

#[test]
fn device_without_any_answer_is_named_and_has_no_link() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::start(&TREE.blueprint(), "node00008", preload);
    ibsim.type_line("Error \"H-node00006\" 100");
    ibsim.settle();
    let theirs = their_lines(&ibsim);
    let (ours, report) = our_lines(&ibsim);
    assert_eq!(ours, theirs, "{report}");
    assert!(
        report.contains("the device behind port 2 of `leaf02` (0x")
            && report.contains(") does not answer"),
        "{report}"
    );
}

/// A ring of switches, of which two get one GUID, and a cable between two ports of a switch.
const REPEATED: &str = "\
Switch\t8 \"S-a\"\t\t# \"a\"
[1]\t\"H-node00001\"[1]
[2]\t\"H-node00002\"[1]
[3]\t\"S-b\"[3]
[4]\t\"S-c\"[3]
[5]\t\"S-a\"[6]
[6]\t\"S-a\"[5]

Switch\t8 \"S-b\"\t\t# \"b\"
[3]\t\"S-a\"[3]
[1]\t\"H-node00003\"[1]
[5]\t\"S-d\"[1]

Switch\t8 \"S-c\"\t\t# \"c\"
[3]\t\"S-a\"[4]
[1]\t\"H-node00004\"[1]
[6]\t\"S-d\"[2]

Switch\t8 \"S-d\"\t\t# \"d\"
[1]\t\"S-b\"[5]
[2]\t\"S-c\"[6]
[3]\t\"H-node00005\"[1]

Hca\t1 \"H-node00001\"\t\t# \"node00001 mlx5_0\"
[1]\t\"S-a\"[1]

Hca\t2 \"H-node00002\"\t\t# \"node00002 mlx5_0\"
[1]\t\"S-a\"[2]

Hca\t2 \"H-node00003\"\t\t# \"node00003 mlx5_0\"
[1]\t\"S-b\"[1]

Hca\t1 \"H-node00004\"\t\t# \"node00004 mlx5_0\"
[1]\t\"S-c\"[1]

Hca\t1 \"H-node00005\"\t\t# \"node00005 mlx5_0\"
[1]\t\"S-d\"[3]
";

#[test]
fn repeated_guids_and_a_loop_are_treated_as_by_ibnetdiscover() {
    let Some(preload) = available() else { return };
    let mut ibsim = Ibsim::of_net(REPEATED, "node00005", preload);
    // After opensm, which needs up to a minute for a fabric with repeated GUIDs.
    for node in ["S-b", "S-c"] {
        ibsim.type_line(&format!("Guid \"{node}\" 0x5000"));
    }
    for node in ["H-node00002", "H-node00003"] {
        ibsim.type_line(&format!("Guid \"{node}\" 0x7000"));
        ibsim.type_line(&format!("Guid \"{node}\"[1] 0x7001"));
    }
    ibsim.settle();
    let theirs = their_lines(&ibsim);
    let (ours, report) = our_lines(&ibsim);
    assert_eq!(ours, theirs, "{report}");
    let is_loop = |line: &String| line.ends_with("( 'a' - 'a' )");
    assert_eq!(ours.iter().filter(|line| is_loop(line)).count(), 2);
    for guid in ["0x0000000000005000", "0x0000000000007000"] {
        let note = report.lines().find(|line| line.contains(guid));
        let note = note.unwrap_or_else(|| panic!("{report}"));
        assert!(note.contains("two devices have this GUID"), "{note}");
    }
}

#[test]
fn programs_discover_the_fabric_themselves() {
    let Some(preload) = available() else { return };
    let ibsim = Ibsim::start(&TREE.blueprint(), "node00008", preload);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let args = [
        "--net",
        "umad",
        "--samplers",
        "node00001",
        "-o",
        "plan.toml",
    ];
    let planned = ibsim.run("node00001", GEN, args);
    let report = text(planned.stderr);
    assert!(
        planned.status.success() && report.contains("assigned  24 ports"),
        "{report}"
    );
    // On a host without a configuration, one flag is sufficient.
    for args in [&["--once"][..], &["--once", "--net", "umad"]] {
        let args = args.iter().chain(&["--timeout", "500ms", "--grace", "3s"]);
        let once = ibsim.run("node00001", SWEEP, args);
        let (table, log) = (text(once.stdout), text(once.stderr));
        assert!(once.status.success(), "{log}");
        assert!(table.contains("24 of 24 ports ok"), "{table}{log}");
    }
}
