//! The assignments file: read, written, spoiled.

use proptest::prelude::*;

use super::*;
use crate::topology::{ports_report, synthetic};

fn header() -> Header {
    Header { sources: vec![("net\n.p".to_owned(), sha256_hex(b""))], command: "ibnet-gen --net 'net\n.p'".to_owned() }
}

fn stria() -> Assignments {
    let fabric = ports_report::parse(synthetic::stria().ports_report().as_bytes(), "stria").unwrap().fabric;
    let (sampler, left_out) = Sampler::everything(&fabric, "admin1");
    assert_eq!(left_out, []);
    Assignments { version: VERSION, cap: 1000, samplers: vec![sampler] }
}

/// What stands in the way when a text is spoiled in one place.
fn spoiled(from: &str, to: &str) -> AssignmentsError {
    let text = stria().to_toml(&header());
    let changed = text.replacen(from, to, 1);
    assert_ne!(text, changed, "{from:?} is not in the file");
    match Assignments::parse(&changed, "a.toml") {
        Err(error) => error,
        Ok(_) => panic!("{to:?} was accepted"),
    }
}

#[test]
fn a_whole_fabric_comes_back_as_it_was_written() {
    let assignments = stria();
    assert_eq!(Assignments::parse(&assignments.to_toml(&header()), "a.toml").unwrap(), assignments);
    let sampler = assignments.of_host("admin1").unwrap()[0];
    assert_eq!((sampler.port_count, sampler.devices.len()), (968, 338));
    let hops: Vec<_> = sampler.devices.iter().filter(|device| device.name == "admin1 mlx5_0").map(|device| device.hops).collect();
    assert_eq!(hops, [Some(0), Some(0)]);
}

#[test]
fn a_share_is_divided_evenly_and_no_device_is_split() {
    let whole = &stria().samplers[0];
    for parts in 1..=7 {
        let shares = whole.divided(parts);
        let ports: Vec<_> = shares.iter().map(|share| share.port_count).collect();
        // The largest device has 36 ports, the smallest one: nobody is behind by more than that.
        assert!(ports.iter().sum::<u32>() == 968 && ports.iter().max().unwrap() - ports.iter().min().unwrap() <= 1, "{ports:?}");
        let mut devices: Vec<_> = shares.iter().flat_map(|share| &share.devices).map(|device| (device.guid, device.ports.len())).collect();
        devices.sort_unstable();
        let mut all: Vec<_> = whole.devices.iter().map(|device| (device.guid, device.ports.len())).collect();
        all.sort_unstable();
        assert_eq!(devices, all);
        assert!(shares.iter().all(|share| share.host == whole.host
            && share.devices.iter().map(|device| device.ports.len()).sum::<usize>() == share.port_count as usize));
    }
}

#[test]
fn a_host_with_several_hca_ports_has_a_block_of_each() {
    let mut two = stria();
    let halves = two.samplers[0].divided(2);
    two.samplers = halves;
    let place = |assignments: &Assignments| Assignments::parse(&assignments.to_toml(&header()), "a.toml");
    assert!(place(&two).unwrap_err().to_string().contains("is there twice"));
    two.samplers[1].ca = Some("mlx5_1".to_owned());
    let read = place(&two).unwrap();
    assert_eq!(read.of_host("admin1").unwrap().len(), 2);
}

#[test]
fn subnets_may_use_the_same_lids_and_a_host_may_be_in_several() {
    let sampler = |subnet: &str, guid| Sampler {
        host: "node1".to_owned(),
        subnet: Some(subnet.to_owned()),
        ca: None,
        ca_port: None,
        role: None,
        offset: None,
        port_count: 0,
        devices: vec![Device { guid: Guid(guid), lid: Lid(1), kind: NodeKind::Switch, name: String::new(), hops: None, ports: Vec::new() }],
    };
    let header = Header { sources: Vec::new(), command: String::new() };
    let of = |samplers| Assignments { version: VERSION, cap: 1, samplers }.to_toml(&header);
    let read = Assignments::parse(&of(vec![sampler("rail0", 1), sampler("rail1", 2)]), "x").unwrap();
    assert_eq!(read.of_host("node1@rail1").unwrap()[0].devices[0].guid, Guid(2));
    assert_eq!(read.of_host("node1").unwrap().len(), 2);
    assert!(matches!(read.of_host("node1@rail2"), Err(AssignmentsError::UnknownSampler { .. })));
    assert!(Assignments::parse(&of(vec![sampler("rail0", 1), sampler("rail0", 2)]), "x").is_err());
}

#[test]
fn the_file_looks_as_the_page_on_interfaces_says() {
    let peer = Peer { guid: Guid(0x10_0001), lid: Lid(17), port: PortNum(1), name: "node00001 mlx5_0".to_owned() };
    let port = Port { num: PortNum(1), width: "4x".to_owned(), speed: "EDR".to_owned(), peer: Some(peer) };
    let (guid, lid, name) = (Guid(0x20_0006), Lid(4), "rack0-leaf0".to_owned());
    let device = Device { guid, lid, kind: NodeKind::Switch, name, hops: Some(1), ports: vec![port] };
    let (ca, ca_port) = (Some("mlx5_0".to_owned()), Some(PortNum(1)));
    let (role, offset) = (Some("secondary".to_owned()), Some(0.5));
    let sampler = Sampler { host: "node00001".to_owned(), subnet: None, ca, ca_port, role, offset, port_count: 1, devices: vec![device] };
    let assignments = Assignments { version: 1, cap: 150, samplers: vec![sampler] };
    let header = Header { sources: vec![("net.p".to_owned(), "ab12".to_owned())], command: "ibnet-gen --net net.p".to_owned() };
    let expected = "\
# Who samples which ports. Written by ibnet-gen; edit its arguments rather than this file.
# source:  net.p (SHA-256 ab12)
# command: ibnet-gen --net net.p

version = 1
cap = 150

[[sampler]]
host = \"node00001\"
ca = \"mlx5_0\"
ca_port = 1
role = \"secondary\"
offset = 0.5
port_count = 1
  [[sampler.device]]
  guid = \"0x0000000000200006\"
  lid = 4
  kind = \"switch\"
  name = \"rack0-leaf0\"
  hops = 1
    [[sampler.device.port]]
    num = 1
    width = \"4x\"
    speed = \"EDR\"
    peer = { guid = \"0x0000000000100001\", lid = 17, port = 1, name = \"node00001 mlx5_0\" }
";
    assert_eq!(assignments.to_toml(&header), expected);
    assert_eq!(Assignments::parse(expected, "a.toml").unwrap(), assignments);
}

#[test]
fn what_contradicts_itself_is_refused_with_its_line() {
    assert_eq!(spoiled("port_count = 968", "port_count = 967").to_string(), "a.toml:8: `admin1` has 968 ports, port_count says 967");
    let told = |from: &str, to: &str| spoiled(from, to).to_string();
    assert_eq!(told("lid = 19\n", "lid = 0\n"), "a.toml:11: LID 0 of 0x0000000000100131 is none that can be addressed (1 to 49151)");
    assert!(told("lid = 36\n", "lid = 37\n").contains("is already that of"));
    // The first switch: its second port becomes another first.
    let second = |num| format!("num = {num}\n    width = \"4x\"\n    speed = \"EDR\"\n    peer = {{ guid = \"0x0000000000100141\"");
    assert!(told(&second(2), &second(1)).contains("is assigned to `admin1` already"));
    assert!(told("host = \"admin1\"\n", "host = \"admin1\"\nrole = \"third\"\n").contains("neither `primary` nor `secondary`"));
    assert!(told("host = \"admin1\"\n", "host = \"admin1\"\noffset = 1.0\n").contains("from 0 to below 1"));
}

#[test]
fn what_is_no_assignments_file_is_refused_with_its_line() {
    let told = |from: &str, to: &str| spoiled(from, to).to_string();
    assert_eq!(told("version = 1", "version = 2"), "a.toml:5: version 2 was found, version 1 was expected");
    assert_eq!(told("version = 1", "version = 2\nnew = 3"), "a.toml:5: version 2 was found, version 1 was expected");
    assert!(told("cap = 1000", "cap = 1000\ncup = 3").starts_with("a.toml:7: unknown field `cup`"));
    assert!(told("kind = \"hca\"", "kind = \"hcb\"").starts_with("a.toml:14: unknown variant `hcb`"));
    for text in ["", "SW     4  1 0x0000000000200006 4x EDR", "version = 1\ncap = 'x'", "[[sampler]]", "version = 1\ncap = 1\n[[sampler"] {
        assert!(matches!(Assignments::parse(text, "x"), Err(AssignmentsError::NotAssignments { .. })), "{text:?}");
    }
}

#[test]
fn a_file_that_was_cut_anywhere_does_not_pass() {
    let text = stria().to_toml(&header());
    let body = text.find("port_count").unwrap();
    for end in (body..text.len() - 1).step_by(997) {
        assert!(Assignments::parse(&text[..end], "x").is_err(), "cut at {end}");
    }
}

#[test]
fn a_port_may_be_held_once_in_each_role() {
    let mut twice = stria();
    let mut second = Sampler { host: "admin2".to_owned(), ..twice.samplers[0].clone() };
    twice.samplers.push(second.clone());
    assert!(Assignments::parse(&twice.to_toml(&header()), "x").unwrap_err().to_string().contains("is assigned to `admin1` already"));
    second.role = Some("secondary".to_owned());
    twice.samplers[1] = second;
    assert_eq!(Assignments::parse(&twice.to_toml(&header()), "x").unwrap(), twice);
}

#[test]
fn an_unknown_sampler_is_told_whom_there_is() {
    let error = stria().of_host("admni1").unwrap_err();
    assert_eq!(error.to_string(), "the sampler `admni1` is not in the assignments; there are: admin1");
    assert!(error.help().unwrap().to_string().starts_with("did you mean `admin1`?"));
}

#[test]
fn a_file_is_read_with_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    let text = stria().to_toml(&header());
    std::fs::write(&path, &text).unwrap();
    assert_eq!(Assignments::read(&path).unwrap().sha256, sha256_hex(text.as_bytes()));
    assert_eq!(sha256_hex(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    std::fs::write(&path, b"version = 1\n\xff").unwrap();
    assert!(Assignments::read(&path).unwrap_err().to_string().ends_with("a.toml:2: this is no text in UTF-8"));
    assert!(matches!(Assignments::read(dir.path()), Err(AssignmentsError::Io { .. })));
}

fn nasty() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        any::<String>(),
        "[\u{0}-\u{1f}\u{7f}'\"\\\\ =#\\[\\]{}\u{85}\u{202e}]{0,12}",
        Just("\"".repeat(64)),
        Just("'''\"\"\"\r\n\\".to_owned()),
        Just("\u{1b}[2J\r".to_owned()),
    ];
    proptest::collection::vec(pieces, 0..3).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_names_come_back(names in proptest::collection::vec(nasty(), 6), command in nasty(), offset in 0.0..1.0_f64) {
        let [host, ca, name, width, speed, peer] = names.try_into().unwrap();
        let peer = Peer { guid: Guid(u64::MAX), lid: Lid(0), port: PortNum(254), name: peer };
        let ports = vec![
            Port { num: PortNum(1), width: width.clone(), speed: speed.clone(), peer: Some(peer) },
            Port { num: PortNum(2), width, speed, peer: None },
        ];
        let device = Device { guid: Guid(1), lid: Lid(1), kind: NodeKind::Hca, name: name.clone(), hops: None, ports };
        let sampler =
            Sampler { host, subnet: None, ca: Some(ca), ca_port: None, role: None, offset: Some(offset), port_count: 2, devices: vec![device] };
        let assignments = Assignments { version: 1, cap: 2, samplers: vec![sampler] };
        let text = assignments.to_toml(&Header { sources: vec![(name, String::new())], command });
        prop_assert_eq!(Assignments::parse(&text, "x").unwrap(), assignments);
    }

    #[test]
    fn any_text_is_read_or_refused(text in nasty()) {
        let _ = Assignments::parse(&text, "x");
        let _ = Assignments::parse(&format!("version = 1\ncap = 1\n{text}"), "x");
    }
}
