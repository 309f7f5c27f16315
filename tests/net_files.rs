//! Net files as they occur in practice: mixed with standard error, cut, contradictory, with hostile
//! names.
//!
//! Some lines in this file are written by hand. The source of rdma-core can print such lines, but
//! no captured file contains them. Every lost linked port must have a remark.
#![expect(
    clippy::unwrap_used,
    reason = "a test's failure is the message; clippy does not see that this whole file is one"
)]

use std::fs;
use std::path::Path;

use ibnet::partition::{self, Reason};
use ibnet::topology::net_file::{self, NetFile};
use ibnet::topology::{Device, NetFileError, RemarkKind};
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};

/// A switch, and a host on its port 1.
const PAIR: &str = "\
SW     4  1 0x0000000000200006 4x EDR - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )
CA    17  1 0x0000000000100001 4x EDR - SW     4  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )
";

fn read(text: &str) -> NetFile {
    net_file::parse(text.as_bytes(), "net.p").unwrap()
}

fn remarks(net: &NetFile) -> Vec<(u32, RemarkKind)> {
    net.remarks
        .iter()
        .map(|remark| (remark.line, remark.kind))
        .collect()
}

fn device(net: &NetFile, guid: u64) -> &Device {
    net.fabric
        .devices()
        .iter()
        .find(|device| device.guid == Guid(guid))
        .unwrap()
}

/// Returns both lines of a link between two switches, with this width and speed.
fn link(rate: &str, lid: u16, port: u8) -> String {
    let (a, b) = (
        format!("SW {lid:5} {port:2} 0x000000000030{lid:04x}"),
        format!("SW {:5}  7 0x000000000040{lid:04x}", lid - 1),
    );
    format!("{a} {rate} - {b} ( 'a' - 'b' )\n{b} {rate} - {a} ( 'b' - 'a' )\n")
}

#[test]
fn every_width_and_speed_of_a_link_is_parsed() {
    for rate in [
        "1x SDR",
        "2x NDR",
        "4x XDR",
        "4x NDR",
        "8x HDR",
        "12x FDR10",
        "4x ???",
        "?? ???",
        "4x GDR",
    ] {
        let net = read(&link(rate, 8, 1));
        assert_eq!(
            (net.fabric.linked_ports(), remarks(&net)),
            (2, vec![]),
            "{rate}"
        );
        assert_eq!(
            net.fabric.devices()[0].ports[0].rate.to_string(),
            rate.replace(' ', "")
        );
    }
    // A port without a link may have any of them.
    for rate in ["4x SDR", "4x ???", "4x QDR", "?? ???", "12x XDR"] {
        let net = read(&format!(
            "{PAIR}SW     4  2 0x0000000000200006 {rate}                                    'leaf0'\n"
        ));
        assert_eq!(
            (net.port_lines, net.fabric.linked_ports(), remarks(&net)),
            (3, 2, vec![]),
            "{rate}"
        );
    }
}

#[test]
fn numbers_at_their_limits_are_parsed() {
    let net = read(&link("4x NDR", 49151, 254));
    assert_eq!((net.fabric.linked_ports(), remarks(&net)), (2, vec![]));
    assert!(
        net.fabric
            .devices()
            .iter()
            .any(|device| device.lid == Lid(49151) && device.port(PortNum(254)).is_some())
    );
    for wrong in [
        "49152  1 0x0000000000100009",
        "   18  0 0x0000000000100009",
        "   18 255 0x0000000000100009",
        "   18  1 0x00000000001009",
    ] {
        let net = read(&format!(
            "{PAIR}CA {wrong} 4x EDR - SW     4  9 0x0000000000200006 ( 'node9' - 'leaf0' )\n"
        ));
        assert_eq!(
            (net.fabric.linked_ports(), remarks(&net)),
            (2, vec![(3, RemarkKind::Unreadable)]),
            "{wrong}"
        );
    }
}

#[test]
fn router_is_parsed_and_left_out() {
    let net = read(&format!(
        "{PAIR}SW     4  3 0x0000000000200006 4x HDR - RT    30  1 0x0000000000500001 ( 'leaf0' - 'router' )\n\
         RT    30  1 0x0000000000500001 4x HDR - SW     4  3 0x0000000000200006 ( 'router' - 'leaf0' )\n"
    ));
    assert_eq!(
        (
            net.fabric.linked_ports(),
            remarks(&net),
            device(&net, 0x50_0001).kind
        ),
        (4, vec![], NodeKind::Router)
    );
    let left_out = partition::left_out(&net.fabric);
    assert_eq!(
        left_out
            .iter()
            .map(|out| (out.reason, out.line, out.ports))
            .collect::<Vec<_>>(),
        [(Reason::Router, 4, 1)]
    );
}

#[test]
fn device_without_a_lid_is_parsed_and_left_out() {
    let net = read(
        "SW     0  1 0x0000000000200006 ?? ??? - CA    17  1 0x0000000000100001 ( 'leaf0' - 'node1 mlx5_0' )\n\
         CA    17  1 0x0000000000100001 4x EDR - SW     0  1 0x0000000000200006 ( 'node1 mlx5_0' - 'leaf0' )\n",
    );
    assert_eq!((net.fabric.linked_ports(), remarks(&net)), (2, vec![]));
    let left_out = partition::left_out(&net.fabric);
    assert_eq!(
        left_out
            .iter()
            .map(|out| (out.reason, out.line, out.ports))
            .collect::<Vec<_>>(),
        [(Reason::NoLid, 1, 1)]
    );
}

#[test]
fn name_is_the_text_between_the_quotes() {
    let longest = "x".repeat(64);
    for name in [
        "",
        &longest,
        " ends ' with blanks ",
        "a ) b ( ",
        "a - b",
        "a # b",
        "<script>alert(1)</script>",
        "node[0-99999999]",
        "\"double\"",
        "=cmd|'/c calc'!A1",
        "a\tb",
        "Zürich ノード 🐉",
        "\u{1b}[2J\u{1b}]0;owned\u{7}",
        "MT4129 ConnectX7   Mellanox Technologies",
    ] {
        let net = read(&PAIR.replace("leaf0", name));
        let switch = device(&net, 0x20_0006);
        assert_eq!(
            (
                switch.name.as_str(),
                net.fabric.linked_ports(),
                remarks(&net)
            ),
            (name, 2, vec![])
        );
        assert_eq!(
            device(&net, 0x10_0001).linked().next().unwrap().1.name,
            name
        );
        // The same name in the plain format.
        let net = read(&plain(name));
        assert_eq!(
            (
                device(&net, 0x20_0006).name.as_str(),
                net.fabric.linked_ports(),
                remarks(&net)
            ),
            (name, 2, vec![])
        );
    }
}

/// Returns the pair of devices in the plain format.
fn plain(leaf: &str) -> String {
    format!(
        "switchguid=0x200000(200006)\nSwitch\t36 \"S-0000000000200000\"\t\t# \"{leaf}\" enhanced port 0 lid 4 lmc 0\n\
         [1]\t\"H-0000000000100000\"[1](100001) \t\t# \"node1 mlx5_0\" lid 17 4xEDR\n\n\
         caguid=0x100000\nCa\t1 \"H-0000000000100000\"\t\t# \"node1 mlx5_0\"\n\
         [1](100001) \t\"S-0000000000200000\"[1]\t\t# lid 17 lmc 0 \"{leaf}\" lid 4 4xEDR\n"
    )
}

#[test]
fn ambiguous_names_are_separated_by_other_lines_or_reported() {
    let odd = "a' - 'b";
    let ambiguous = read(&PAIR.replace("leaf0", odd));
    assert_eq!(
        remarks(&ambiguous),
        [
            (1, RemarkKind::AmbiguousName),
            (2, RemarkKind::AmbiguousName)
        ]
    );
    assert_eq!(
        device(&ambiguous, 0x20_0006).name,
        "a' - 'b' - 'node1 mlx5_0"
    );
    let separated = read(&format!(
        "{}SW     4  2 0x0000000000200006 4x SDR                                    '{odd}'\n",
        PAIR.replace("leaf0", odd)
    ));
    assert_eq!(
        (
            remarks(&separated),
            device(&separated, 0x20_0006).name.as_str()
        ),
        (vec![], odd)
    );
    assert_eq!(device(&separated, 0x10_0001).name, "node1 mlx5_0");
}

#[test]
fn two_nodes_with_one_name_stay_two() {
    let net = read(&[PAIR, &link("4x EDR", 8, 1).replace("'b'", "'node1 mlx5_0'")].concat());
    assert_eq!(
        (
            net.fabric.devices().len(),
            net.fabric.linked_ports(),
            remarks(&net)
        ),
        (4, 4, vec![])
    );
}

#[test]
fn contradicting_lines_are_reported_and_the_first_counts() {
    let other = "SW     4  1 0x0000000000200006 4x EDR - CA    18  1 0x0000000000100002 ( 'leaf0' - 'node2 mlx5_0' )\n";
    let net = read(&[PAIR, other].concat());
    assert_eq!(
        (net.fabric.linked_ports(), remarks(&net)),
        (2, vec![(3, RemarkKind::Repeated)])
    );
    assert!(
        net.remarks[0]
            .text
            .contains("has another peer in line 1, which counts"),
        "{}",
        net.remarks[0]
    );
    // One line only, a switch cabled to itself, two devices with one LID.
    let one_sided = PAIR.lines().next().unwrap();
    assert_eq!(remarks(&read(one_sided)), [(1, RemarkKind::OneSided)]);
    assert_eq!(
        read(one_sided).fabric.linked_ports(),
        1,
        "the port stays linked"
    );
    let loops = "SW     4  7 0x0000000000200006 4x EDR - SW     4  8 0x0000000000200006 ( 'leaf0' - 'leaf0' )\n\
                 SW     4  8 0x0000000000200006 4x EDR - SW     4  7 0x0000000000200006 ( 'leaf0' - 'leaf0' )\n";
    assert_eq!(
        remarks(&read(&[PAIR, loops].concat())),
        [(3, RemarkKind::Loop), (4, RemarkKind::Loop)]
    );
    let second = "CA    17  1 0x0000000000100009 4x EDR - SW     4  9 0x0000000000200006 ( 'node9 mlx5_0' - 'leaf0' )\n";
    let net = read(&[PAIR, second].concat());
    assert_eq!(
        (net.fabric.linked_ports(), remarks(&net)),
        (2, vec![(3, RemarkKind::DuplicateLid)])
    );
}

#[test]
fn noise_line_ends_and_a_cut_do_not_lose_other_lines() {
    let noise = "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1,3)\n\
                 src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out\n";
    for good in [PAIR, &plain("leaf0")] {
        let expected = read(good);
        // Line ends with carriage returns, no line end at the end, noise before each line.
        for text in [
            good.replace('\n', "\r\n"),
            good.trim_end().to_owned(),
            good.trim_end().replace('\n', "\r\n"),
        ] {
            let net = read(&text);
            assert_eq!(
                (net.fabric.devices(), remarks(&net)),
                (expected.fabric.devices(), vec![])
            );
        }
        let noisy: String = good
            .lines()
            .map(|line| format!("{noise}{line}\n"))
            .collect();
        let net = read(&noisy);
        assert_eq!(net.fabric.linked_ports(), 2, "{noisy}");
        assert_eq!(net.remarks.len(), 2 * good.lines().count());
        assert!(
            net.remarks
                .iter()
                .all(|remark| remark.kind == RemarkKind::Unreadable)
        );
    }
    // The file ends within a line.
    let net = read(&PAIR[..PAIR.len() - 60]);
    assert_eq!(
        (net.fabric.linked_ports(), remarks(&net)),
        (
            1,
            vec![(1, RemarkKind::OneSided), (2, RemarkKind::Unreadable)]
        )
    );
    for nothing in ["", "\n\n", "\r\n \r\n"] {
        assert!(matches!(
            net_file::parse(nothing.as_bytes(), "x"),
            Err(NetFileError::Empty { .. })
        ));
    }
    assert!(matches!(
        net_file::parse(noise.as_bytes(), "x"),
        Err(NetFileError::NothingReadable {
            line: 1,
            lines: 2,
            ..
        })
    ));
}

/// Captures of other projects: each line of a linked port gives a linked port. Both formats give
/// the same number.
#[test]
fn no_linked_port_of_a_capture_is_lost() {
    let mut files: Vec<_> =
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fabrics"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
    files.sort();
    let mut linked = Vec::new();
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let is_linked: fn(&str) -> bool = match path.extension().unwrap().to_str().unwrap() {
            "p" => |line| line.contains(" - ") && line.contains("( '"),
            "topo" => |line| line.starts_with('['),
            _ => continue,
        };
        let there = String::from_utf8_lossy(&bytes)
            .lines()
            .filter(|line| is_linked(line))
            .count();
        let read = net_file::parse(&bytes, "x").map_or(0, |net| net.fabric.linked_ports());
        assert_eq!(read, there, "{}", path.display());
        linked.push(read);
    }
    assert_eq!(linked, [14, 4, 20, 2, 384, 384, 0, 7, 3, 0]);
}
