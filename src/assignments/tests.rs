//! Tests of reading, writing and checking the assignments file.

use proptest::prelude::*;

use super::*;

fn header() -> Header {
    Header {
        sources: vec![("net\n.p".to_owned(), sha256_hex(b""))],
        command: "ibnet-gen --net 'net\n.p'".to_owned(),
    }
}

/// One sampler with 316 HCA ports and 22 switches: 968 ports in the sizes of a real fabric.
fn all_ports() -> Assignments {
    let port = |num: u8, peer: u64| AssignedPort {
        num: PortNum(num),
        width: "4x".to_owned(),
        speed: "EDR".to_owned(),
        peer: Some(AssignedPeer {
            guid: Guid(peer),
            lid: Lid(1),
            port: PortNum(1),
            name: "peer".to_owned(),
        }),
    };
    let hca = |n: u16| {
        (
            Guid(0x10_0001 + u64::from(n)),
            Lid(17 + n),
            NodeKind::Hca,
            1,
        )
    };
    let switch = |n: u16| {
        let ports = if n < 16 {
            36
        } else if n < 20 {
            14
        } else {
            10
        };
        (
            Guid(0x20_0001 + u64::from(n)),
            Lid(1000 + n),
            NodeKind::Switch,
            ports,
        )
    };
    let device = |(guid, lid, kind, ports): (Guid, Lid, NodeKind, u8)| AssignedDevice {
        guid,
        lid,
        kind,
        name: format!("node {lid}"),
        hops: Some(1),
        ports: (1..=ports)
            .map(|num| port(num, 0x30_0000 + u64::from(num)))
            .collect(),
    };
    let devices = (0..316)
        .map(hca)
        .chain((0..22).map(switch))
        .map(device)
        .collect();
    let host = "admin1".to_owned();
    let sampler = Sampler {
        host,
        subnet: None,
        ca: None,
        ca_port: None,
        role: None,
        offset: None,
        port_count: 968,
        devices,
    };
    Assignments {
        version: VERSION,
        cap: 1000,
        at: None,
        samplers: vec![sampler],
    }
}

/// Replaces one place of the text and returns the error.
fn error_after(from: &str, to: &str) -> AssignmentsError {
    let text = all_ports().to_toml(&header());
    let changed = text.replacen(from, to, 1);
    assert_ne!(text, changed, "{from:?} is not in the file");
    match Assignments::parse(&changed, "a.toml") {
        Err(error) => error,
        Ok(_) => panic!("{to:?} was accepted"),
    }
}

#[test]
fn written_file_parses_to_the_same_assignments() {
    let assignments = all_ports();
    assert_eq!(
        Assignments::parse(&assignments.to_toml(&header()), "a.toml").unwrap(),
        assignments
    );
    let sampler = assignments.of_host("admin1").unwrap()[0];
    assert_eq!((sampler.port_count, sampler.devices.len()), (968, 338));
}

#[test]
fn divided_block_is_even_and_splits_no_device() {
    let whole = &all_ports().samplers[0];
    for parts in 1..=7 {
        let shares = whole.divided(parts);
        let ports: Vec<_> = shares.iter().map(|share| share.port_count).collect();
        assert!(
            ports.iter().sum::<u32>() == 968
                && ports.iter().max().unwrap() - ports.iter().min().unwrap() <= 1,
            "{ports:?}"
        );
        let mut devices: Vec<_> = shares
            .iter()
            .flat_map(|share| &share.devices)
            .map(|device| (device.guid, device.ports.len()))
            .collect();
        devices.sort_unstable();
        let mut all: Vec<_> = whole
            .devices
            .iter()
            .map(|device| (device.guid, device.ports.len()))
            .collect();
        all.sort_unstable();
        assert_eq!(devices, all);
        assert!(shares.iter().all(|share| {
            share.host == whole.host
                && share
                    .devices
                    .iter()
                    .map(|device| device.ports.len())
                    .sum::<usize>()
                    == share.port_count as usize
        }));
    }
}

#[test]
fn host_has_one_block_for_each_hca_port() {
    let mut two = all_ports();
    let halves = two.samplers[0].divided(2);
    two.samplers = halves;
    let place =
        |assignments: &Assignments| Assignments::parse(&assignments.to_toml(&header()), "a.toml");
    assert!(
        place(&two)
            .unwrap_err()
            .to_string()
            .contains("is listed twice")
    );
    two.samplers[1].ca = Some("mlx5_1".to_owned());
    let read = place(&two).unwrap();
    assert_eq!(read.of_host("admin1").unwrap().len(), 2);
}

#[test]
fn subnets_may_share_lids_and_hosts() {
    let sampler = |subnet: &str, guid| Sampler {
        host: "node1".to_owned(),
        subnet: Some(subnet.to_owned()),
        ca: None,
        ca_port: None,
        role: None,
        offset: None,
        port_count: 0,
        devices: vec![AssignedDevice {
            guid: Guid(guid),
            lid: Lid(1),
            kind: NodeKind::Switch,
            name: String::new(),
            hops: None,
            ports: Vec::new(),
        }],
    };
    let header = Header {
        sources: Vec::new(),
        command: String::new(),
    };
    let of = |samplers| {
        Assignments {
            version: VERSION,
            cap: 1,
            at: None,
            samplers,
        }
        .to_toml(&header)
    };
    let read =
        Assignments::parse(&of(vec![sampler("rail0", 1), sampler("rail1", 2)]), "x").unwrap();
    assert_eq!(
        read.of_host("node1@rail1").unwrap()[0].devices[0].guid,
        Guid(2)
    );
    assert_eq!(read.of_host("node1").unwrap().len(), 2);
    assert!(matches!(
        read.of_host("node1@rail2"),
        Err(AssignmentsError::UnknownSampler { .. })
    ));
    assert!(Assignments::parse(&of(vec![sampler("rail0", 1), sampler("rail0", 2)]), "x").is_err());
}

#[test]
fn file_text_matches_the_documented_format() {
    let peer = AssignedPeer {
        guid: Guid(0x10_0001),
        lid: Lid(17),
        port: PortNum(1),
        name: "node00001 mlx5_0".to_owned(),
    };
    let port = AssignedPort {
        num: PortNum(1),
        width: "4x".to_owned(),
        speed: "EDR".to_owned(),
        peer: Some(peer),
    };
    let (guid, lid, name) = (Guid(0x20_0006), Lid(4), "rack0-leaf0".to_owned());
    let device = AssignedDevice {
        guid,
        lid,
        kind: NodeKind::Switch,
        name,
        hops: Some(1),
        ports: vec![port],
    };
    let (ca, ca_port) = (Some("mlx5_0".to_owned()), Some(PortNum(1)));
    let (role, offset) = (Some("secondary".to_owned()), Some(0.5));
    let sampler = Sampler {
        host: "node00001".to_owned(),
        subnet: None,
        ca,
        ca_port,
        role,
        offset,
        port_count: 1,
        devices: vec![device],
    };
    let assignments = Assignments {
        version: 1,
        cap: 150,
        at: None,
        samplers: vec![sampler],
    };
    let header = Header {
        sources: vec![("net.p".to_owned(), "ab12".to_owned())],
        command: "ibnet-gen --net net.p".to_owned(),
    };
    let expected = "\
# Which sampler queries which ports. Written by ibnet-gen: change its arguments, not this file.
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
fn contradictions_are_rejected_with_their_line() {
    assert_eq!(
        error_after("port_count = 968", "port_count = 967").to_string(),
        "cannot read a.toml:8: `admin1` has 968 ports, but its port_count is 967"
    );
    let message = |from: &str, to: &str| error_after(from, to).to_string();
    assert_eq!(
        message("lid = 17\n", "lid = 0\n"),
        "cannot read a.toml:11: LID 0 of 0x0000000000100001 is not a unicast LID (1 to 49151)"
    );
    assert!(message("lid = 36\n", "lid = 37\n").contains("is also the LID of"));
    // Port 2 of the first switch gets the number 1.
    let second = |num| {
        format!(
            "num = {num}\n    width = \"4x\"\n    speed = \"EDR\"\n    peer = {{ guid = \"0x0000000000300002\""
        )
    };
    assert!(message(&second(2), &second(1)).contains("is already assigned to `admin1`"));
    assert!(
        message(
            "host = \"admin1\"\n",
            "host = \"admin1\"\nrole = \"third\"\n"
        )
        .contains("neither `primary` nor `secondary`")
    );
    assert!(
        message("host = \"admin1\"\n", "host = \"admin1\"\noffset = 1.0\n")
            .contains("from 0 to below 1")
    );
}

#[test]
fn other_texts_are_rejected_with_their_line() {
    const OTHER_VERSION: &str =
        "cannot read a.toml:5: another version of the assignments file (found 2, expected 1)";
    let message = |from: &str, to: &str| error_after(from, to).to_string();
    assert_eq!(message("version = 1", "version = 2"), OTHER_VERSION);
    assert_eq!(
        message("version = 1", "version = 2\nnew = 3"),
        OTHER_VERSION
    );
    assert!(
        message("cap = 1000", "cap = 1000\ncup = 3")
            .starts_with("cannot read a.toml:7: unknown field `cup`")
    );
    assert!(
        message("kind = \"hca\"", "kind = \"hcb\"")
            .starts_with("cannot read a.toml:14: unknown variant `hcb`")
    );
    for text in [
        "",
        "SW     4  1 0x0000000000200006 4x EDR",
        "version = 1\ncap = 'x'",
        "[[sampler]]",
        "version = 1\ncap = 1\n[[sampler",
    ] {
        assert!(
            matches!(
                Assignments::parse(text, "x"),
                Err(AssignmentsError::NotAssignments { .. })
            ),
            "{text:?}"
        );
    }
}

#[test]
fn truncated_file_is_rejected() {
    let text = all_ports().to_toml(&header());
    let body = text.find("port_count").unwrap();
    for end in (body..text.len() - 1).step_by(4999) {
        assert!(
            Assignments::parse(&text[..end], "x").is_err(),
            "cut at {end}"
        );
    }
}

#[test]
fn port_may_be_assigned_once_in_each_role() {
    let mut twice = all_ports();
    let mut second = Sampler {
        host: "admin2".to_owned(),
        ..twice.samplers[0].clone()
    };
    twice.samplers.push(second.clone());
    assert!(
        Assignments::parse(&twice.to_toml(&header()), "x")
            .unwrap_err()
            .to_string()
            .contains("is already assigned to `admin1`")
    );
    second.role = Some("secondary".to_owned());
    twice.samplers[1] = second;
    assert_eq!(
        Assignments::parse(&twice.to_toml(&header()), "x").unwrap(),
        twice
    );
}

#[test]
fn unknown_sampler_error_lists_the_samplers() {
    let error = all_ports().of_host("admni1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot find the sampler `admni1`: it is not in the assignments (found admin1)"
    );
    assert!(
        error
            .help()
            .unwrap()
            .to_string()
            .starts_with("did you mean `admin1`?")
    );
}

#[test]
fn file_is_read_with_its_digest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.toml");
    let text = all_ports().to_toml(&header());
    std::fs::write(&path, &text).unwrap();
    assert_eq!(
        Assignments::read(&path).unwrap().sha256,
        sha256_hex(text.as_bytes())
    );
    assert_eq!(
        sha256_hex(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
    std::fs::write(&path, b"version = 1\n\xff").unwrap();
    assert!(
        Assignments::read(&path)
            .unwrap_err()
            .to_string()
            .ends_with("a.toml:2: the text is not UTF-8")
    );
    assert!(matches!(
        Assignments::read(dir.path()),
        Err(AssignmentsError::Io { .. })
    ));
}

fn hostile_text() -> impl Strategy<Value = String> {
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
    fn any_names_survive_writing_and_parsing(names in proptest::collection::vec(hostile_text(), 6), command in hostile_text(), offset in 0.0..1.0_f64) {
        let [host, ca, name, width, speed, peer] = names.try_into().unwrap();
        let peer = AssignedPeer { guid: Guid(u64::MAX), lid: Lid(0), port: PortNum(254), name: peer };
        let ports = vec![
            AssignedPort { num: PortNum(1), width: width.clone(), speed: speed.clone(), peer: Some(peer) },
            AssignedPort { num: PortNum(2), width, speed, peer: None },
        ];
        let device = AssignedDevice { guid: Guid(1), lid: Lid(1), kind: NodeKind::Hca, name: name.clone(), hops: None, ports };
        let sampler =
            Sampler { host, subnet: None, ca: Some(ca), ca_port: None, role: None, offset: Some(offset), port_count: 2, devices: vec![device] };
        let assignments = Assignments { version: 1, cap: 2, at: None, samplers: vec![sampler] };
        let text = assignments.to_toml(&Header { sources: vec![(name, String::new())], command });
        prop_assert_eq!(Assignments::parse(&text, "x").unwrap(), assignments);
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in hostile_text()) {
        let _ = Assignments::parse(&text, "x");
        let _ = Assignments::parse(&format!("version = 1\ncap = 1\n{text}"), "x");
    }
}

#[test]
fn time_of_the_first_slot_is_added_and_replaced() {
    let header = Header {
        sources: Vec::new(),
        command: "ibnet-gen".to_owned(),
    };
    let text = all_ports().to_toml(&header);
    let second = 1_000_000_000;
    let timed = with_time(&text, 1_763_823_610 * second);
    assert!(
        timed.contains("\ncap = 1000\nat = \"2025-11-22T15:00:10Z\"\n"),
        "{timed}"
    );
    assert_eq!(timed.lines().count(), text.lines().count() + 1);
    let again = with_time(&timed, 1_763_823_611 * second + second / 2);
    let expected = Assignments {
        at: Some(1_763_823_611 * second + second / 2),
        ..all_ports()
    };
    assert_eq!(Assignments::parse(&again, "x").unwrap(), expected);
    assert_eq!(expected.to_toml(&header), again);
    let wrong = Assignments::parse(&timed.replace("T15:00:10Z", " 16:00 CET"), "x")
        .unwrap_err()
        .to_string();
    assert_eq!(
        wrong,
        "cannot read x:6: `at` is not a time in UTC such as 2026-11-22T15:00:10Z (found 2025-11-22 16:00 CET)"
    );
}
