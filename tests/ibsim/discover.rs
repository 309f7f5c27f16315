//! Parsing of the real `ibnetdiscover` in all of its formats, and comparison of name maps with
//! rdma-core's own parser.

use std::fs;

use ibnet::topology::name_map::NameMap;
use ibnet::topology::net_file::{self, NetFile};
use ibnet::topology::synthetic::FatTree;
use ibnet::topology::{Device, Peer};
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

use crate::fabric::{Ibsim, available};

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
