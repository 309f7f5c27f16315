//! Hostile names: a node description reaches every output unchanged, and no terminal or parser
//! interprets it.
//!
//! The tests follow names from a net file to the last table. Each step parses the output of the
//! step before. Output for people must not contain characters that a terminal interprets.
#![expect(
    clippy::unwrap_used,
    reason = "a test's failure is the message; clippy does not see that this whole file is one"
)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::{Assignments, Header, Sampler};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::partition::report::facts::Facts;
use ibnet::partition::report::text::{Detail, Report};
use ibnet::partition::{self, Request, hosts};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::port_record::PortRecord;
use ibnet::sweep::virtual_sweep::VirtualSweep;
use ibnet::topology::ports_report::{self, NetFile};
use ibnet_record::EventRecord;
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, Lid, PortNum, Printable};
use proptest::prelude::*;

/// Longest name that is kept, in octets. A device has at most 64.
const LONGEST: usize = 256;

/// Hostile texts, and the syntax of net files.
const PIECES: [&[u8]; 16] = [
    b"\x1b[2J",
    b"\x1b]0;owned\x07",
    b"\0\x01\x08\t\x0b\x0c\r\x7f",
    "\u{9b}31m\u{85}\u{2028}\u{2029}".as_bytes(),
    "\u{202e}\u{2066}\u{61c}\u{200b}\u{feff}\u{e0041}".as_bytes(),
    b"\xff\xfe\xc3\xe2\x80",
    b"' - '",
    b"( '",
    b"' )",
    b"'''\"\"\"",
    b"\\u001b\\n\\",
    b"{\"type\":\"port\"}",
    b"# ] = [[sampler]]",
    b" - SW     1  1 0x0000000000000001",
    "Zürich ノード 🐉".as_bytes(),
    b"leaf 1",
];

/// Generates the octets of a name, without line feeds, which would end the line of the net file.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(PIECES.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    let mixed = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let one_octet =
        prop::sample::select(b"\"'\\ \x1b\xff\r".to_vec()).prop_map(|octet| vec![octet; 64]);
    let long = prop::collection::vec(any::<u8>(), 200..500);
    prop_oneof![8 => mixed, 2 => one_octet, 1 => long].prop_map(|mut octets| {
        octets
            .iter_mut()
            .filter(|octet| **octet == b'\n')
            .for_each(|octet| *octet = b'\r');
        octets
    })
}

/// Generates a word for the speed of a link. It has no blanks, and is short enough even if every
/// octet is replaced by three.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let nasty = name().prop_map(|mut octets| {
        octets.retain(|octet| *octet != b' ');
        octets.truncate(5);
        if octets.is_empty() {
            b"EDR".to_vec()
        } else {
            octets
        }
    });
    prop_oneof![Just(b"EDR".to_vec()), nasty]
}

/// The names of a switch and of two hosts and a router on it, and the speed of their links.
#[derive(Clone, Debug)]
struct Names {
    switch: Vec<u8>,
    hosts: [Vec<u8>; 2],
    router: Vec<u8>,
    speed: Vec<u8>,
}

fn names() -> impl Strategy<Value = Names> {
    (name(), [name(), name()], name(), word()).prop_map(|(switch, hosts, router, speed)| Names {
        switch,
        hosts,
        router,
        speed,
    })
}

const SWITCH: Guid = Guid(0x10);
const HOSTS: [Guid; 2] = [Guid(0x20), Guid(0x21)];
const ROUTER: Guid = Guid(0x30);

impl Names {
    /// Returns each device with its type, LID, GUID and name, in the order of the switch's ports.
    fn devices(&self) -> [(&str, u16, Guid, &[u8]); 3] {
        [
            ("CA", 2, HOSTS[0], &self.hosts[0]),
            ("CA", 3, HOSTS[1], &self.hosts[1]),
            ("RT", 4, ROUTER, &self.router),
        ]
    }

    /// Returns the net file. Each device has a port without a link, whose line gives the name
    /// unambiguously.
    fn net_file(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut line = |parts: &[&[u8]]| bytes.extend(parts.concat().into_iter().chain([b'\n']));
        line(&[
            format!("SW     1  9 {SWITCH} 4x ").as_bytes(),
            &self.speed,
            b"   '",
            &self.switch,
            b"'",
        ]);
        for (port, (kind, lid, guid, name)) in (1..).zip(self.devices()) {
            let (switch, own) = (
                format!("SW     1 {port:2} {SWITCH}"),
                format!("{kind} {lid:5}  1 {guid}"),
            );
            let names =
                |first: &[u8], second: &[u8]| [b" ( '", first, b"' - '", second, b"' )"].concat();
            line(&[
                switch.as_bytes(),
                b" 4x ",
                &self.speed,
                b" - ",
                own.as_bytes(),
                &names(&self.switch, name),
            ]);
            line(&[
                own.as_bytes(),
                b" 4x ",
                &self.speed,
                b" - ",
                switch.as_bytes(),
                &names(name, &self.switch),
            ]);
            line(&[
                format!("{kind}     0  2 {guid} 4x SDR   '").as_bytes(),
                name,
                b"'",
            ]);
        }
        bytes
    }

    /// Returns the name of the device with this GUID.
    fn of(&self, guid: Guid) -> String {
        let mut all = self
            .devices()
            .into_iter()
            .map(|(_, _, guid, name)| (guid, name))
            .chain([(SWITCH, &*self.switch)]);
        String::from_utf8_lossy(all.find(|(of, _)| *of == guid).unwrap().1).into_owned()
    }
}

/// Returns whether `kept` is the name, or its beginning if the name is too long.
fn is_kept(kept: &str, name: &str) -> bool {
    match name.len() <= LONGEST {
        true => kept == name,
        false => {
            kept.len() <= LONGEST
                && kept
                    .strip_suffix('…')
                    .is_some_and(|cut| name.starts_with(cut))
        }
    }
}

/// Fails on a character that is not visible, other than a line feed.
#[track_caller]
fn assert_visible(text: &str) {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let found = text.chars().find(|c| *c != '\n' && hidden(*c));
    assert!(found.is_none(), "{found:?} in {text:?}");
}

/// Returns the assignments of a plan with a sampler on the first host, written and parsed again.
fn assigned(net: &NetFile, nasty: &str) -> Assignments {
    let samplers_list = hosts::parse_list("here").unwrap();
    let samplers = hosts::locate(
        &samplers_list,
        &[("here".to_owned(), HOSTS[0])],
        &net.fabric,
    )
    .unwrap();
    let plan = partition::plan(&Request {
        fabric: &net.fabric,
        samplers,
        cap: 100,
    })
    .unwrap();
    for detail in [Detail::Brief, Detail::Full] {
        assert_visible(
            &Report {
                name: nasty,
                facts: &Facts::of(net, &plan),
                detail,
            }
            .to_string(),
        );
    }
    let mut assignments = partition::assignments_of(&plan, &net.fabric);
    // A second sampler with a hostile name is the secondary of the first.
    let (mut everything, _) = partition::whole_fabric(&net.fabric, nasty);
    everything.role = Some("secondary".to_owned());
    assignments.samplers.push(everything);
    let header = Header {
        sources: vec![(nasty.to_owned(), String::new())],
        command: nasty.to_owned(),
    };
    let read = Assignments::parse(&assignments.to_toml(&header), nasty).unwrap();
    assert_eq!(read, assignments);
    let unknown = read.of_host(&format!("{nasty}?")).unwrap_err();
    assert_visible(&unknown.to_string());
    assert_visible(&miette::Diagnostic::help(&unknown).unwrap().to_string());
    read
}

/// Sweeps two slots and returns their lines. Each must be one line.
fn swept(net: NetFile, sampler: &Sampler) -> Vec<String> {
    let SweepPlan { devices, ports, .. } = SweepPlan::new(sampler);
    let config = Config::default();
    let columns = Columns::new(&config.groups);
    let mut readings = vec![Reading::new(&columns); ports.len()];
    let fabric = Arc::new(Mutex::new(SimFabric::new(net.fabric, Options::default())));
    let mut rehearsal = VirtualSweep::new(fabric, &devices, config, 7);
    rehearsal.discover();
    let mut lines = Vec::new();
    let mut write = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(
            text.ends_with('\n') && text.bytes().filter(|octet| *octet < b' ').count() == 1,
            "{text:?}"
        );
        lines.push(text);
    };
    for slot in 1..=2 {
        rehearsal.slot(Duration::from_secs(1));
        for (port, (identity, reading)) in ports.iter().zip(&mut readings).enumerate() {
            let sample = rehearsal.engine.sample(port);
            reading.take(&columns, slot, &sample);
            let mut bytes = Vec::new();
            let columns = &columns;
            ibnet_record::write(
                &PortRecord {
                    ts: 1,
                    slot,
                    sampler: &sampler.host,
                    is_secondary: false,
                    identity,
                    sample: &sample,
                    reading,
                    columns,
                },
                &mut bytes,
            );
            write(bytes);
        }
    }
    let (sampler, detail) = (&*sampler.host, &*ports[0].node);
    let mut bytes = Vec::new();
    let (port, lid) = (Some(PortNum(1)), Some(Lid(1)));
    ibnet_record::write(
        &EventRecord {
            ts: 1,
            slot: 1,
            sampler,
            ca: sampler,
            ca_port: PortNum(1),
            role: "primary",
            event: "link_change",
            guid: None,
            port,
            lid,
            detail,
        },
        &mut bytes,
    );
    write(bytes);
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_name_reaches_the_output_and_is_not_interpreted(names in names()) {
        let net = ports_report::parse(&names.net_file(), "net.p").unwrap();
        prop_assert_eq!(&net.remarks, &[]);
        prop_assert_eq!(net.fabric.linked_ports(), 6);
        for device in net.fabric.devices() {
            prop_assert!(is_kept(&device.name, &names.of(device.guid)), "{:?}", device.name);
            for (_, peer) in device.linked() {
                prop_assert!(is_kept(&peer.name, &names.of(peer.guid)), "{:?}", peer.name);
            }
        }
        let nasty = names.of(SWITCH);
        let assignments = assigned(&net, &nasty);
        let speed = String::from_utf8_lossy(&names.speed).into_owned();
        for sampler in &assignments.samplers {
            prop_assert_eq!(sampler.port_count, 5, "all ports but the router's");
            let lines = swept(net.clone(), sampler);
            let mut ports = Vec::new();
            for text in &lines {
                match strict::parse(text).unwrap() {
                    Line::Port(port) => ports.push(*port),
                    Line::Event(event) => {
                        prop_assert_eq!(&event.sampler, &sampler.host);
                        prop_assert!(is_kept(&event.detail, &names.of(sampler.devices[0].guid)));
                    }
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!(ports.len(), 10);
            for port in &ports {
                prop_assert!(is_kept(&port.node, &names.of(port.guid)), "{:?}", port.node);
                prop_assert!(is_kept(port.peer.as_deref().unwrap(), &names.of(port.peer_guid.unwrap())), "{:?}", port.peer);
                prop_assert_eq!((&port.link, &port.sampler), (&format!("4x{speed}"), &sampler.host));
            }
        }
    }

    /// One octet of the net file is changed, possibly to a line feed.
    #[test]
    fn changed_octet_is_reported_and_not_interpreted(names in names(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = names.net_file();
        let at = at.index(bytes.len());
        bytes[at] = with;
        let net = match ports_report::parse(&bytes, "net.p") {
            Ok(net) => net,
            Err(error) => {
                assert_visible(&Printable(&error.to_string()).to_string());
                return Ok(());
            }
        };
        let samplers_list = hosts::parse_list("here").unwrap();
        let Ok(samplers) = hosts::locate(&samplers_list, &[("here".to_owned(), HOSTS[0])], &net.fabric) else { return Ok(()) };
        match partition::plan(&Request { fabric: &net.fabric, samplers, cap: 5 }) {
            Ok(plan) => assert_visible(&Report { name: "net.p", facts: &Facts::of(&net, &plan), detail: Detail::Full }.to_string()),
            Err(error) => assert_visible(&error.to_string()),
        }
    }
}

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");

/// Runs a program and checks that its messages are visible. Returns its exit code, standard output
/// and standard error.
fn run(program: &str, dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(program);
    let output = command
        .current_dir(dir)
        .args(args)
        .env("RUST_LOG", "trace")
        .timeout(crate::HANGS)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_visible(&stderr);
    (output.status.code().unwrap(), stdout, stderr)
}

#[test]
fn programs_print_hostile_names_visibly() {
    let nasty = |host: &str| [host.as_bytes(), &PIECES[..12].concat()].concat();
    let names = Names {
        switch: nasty("leaf"),
        hosts: [nasty("node1"), nasty("node2")],
        router: nasty("router"),
        speed: b"\x1b[31m\xff\r".to_vec(),
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // A line of standard error, and a line that contradicts another one.
    let noise = [
        b"\x1b[2Jibwarn: \xff\n".to_vec(),
        b"SW     1  1 0x0000000000000010 4x EDR   '\x1b[2J'\n".to_vec(),
    ]
    .concat();
    fs::write(
        dir.join("net\u{1b}[2J.p"),
        [names.net_file(), noise].concat(),
    )
    .unwrap();
    let net = "net\u{1b}[2J.p";

    let (code, _, stderr) = run(
        GEN,
        dir,
        &["--net", net, "--samplers", "node1", "-o", "a.toml"],
    );
    assert_eq!(code, 1, "no host has exactly this name");
    assert!(stderr.contains("did you mean `node1\\u{1b}[2J"), "{stderr}");
    let guid = format!("here={}", HOSTS[0]);
    let known = ["--net", net, "--samplers", "here", "--sampler-guid", &guid];
    let (code, _, stderr) = run(
        GEN,
        dir,
        &[&known[..], &["-o", "a.toml", "--report", "report"]].concat(),
    );
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("unreadable: 1 line")
            && stderr.contains("repeated: 1 line")
            && stderr.contains("`router\\u{1b}[2J"),
        "{stderr}"
    );
    assert_visible(&fs::read_to_string(dir.join("report")).unwrap());
    let (code, _, stderr) = run(GEN, dir, &[&known[..], &["--cap", "1"]].concat());
    assert_eq!(code, 1, "{stderr}");

    let dead = format!(
        "[simulated]\ndead = [{}]\n",
        serde_json::to_string(&names.of(HOSTS[1]))
            .unwrap()
            .replace('\u{7f}', "\\u007f")
    );
    fs::write(dir.join("ibnet.toml"), dead).unwrap();
    let assigned = [
        "-c",
        "ibnet.toml",
        "--assignments",
        "a.toml",
        "--simulate",
        net,
        "--interval",
        "100ms",
    ];
    let (code, lines, stderr) = run(
        SWEEP,
        dir,
        &[&assigned[..], &["--sampler", "here", "--sweeps", "2"]].concat(),
    );
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stderr.contains("the device does not answer any more node=node2\\u{1b}[2J"),
        "{stderr}"
    );
    let mut ports = 0;
    for text in lines.lines() {
        if let Line::Port(port) = strict::parse(text).unwrap() {
            ports += 1;
            assert!(is_kept(&port.node, &names.of(port.guid)), "{text}");
        }
    }
    assert_eq!(ports, 10);
    let (code, table, stderr) = run(
        SWEEP,
        dir,
        &[&assigned[..], &["--sampler", "here", "--once"]].concat(),
    );
    assert_eq!(code, 0, "{stderr}");
    assert_visible(&table);
    assert!(
        table.contains("node1\\u{1b}[2J") && table.lines().count() == 1 + 5 + 2,
        "{table}"
    );
    let (code, checked, stderr) = run(
        SWEEP,
        dir,
        &[
            &["check"],
            &assigned[..],
            &["--sampler", "here", "--verbose"],
        ]
        .concat(),
    );
    assert_eq!(code, 1, "{stderr}");
    assert_visible(&checked);
    assert!(
        checked.contains("\nfail  device         node2\\u{1b}[2J")
            && checked.contains("\nok    device         node1\\u{1b}[2J"),
        "{checked}"
    );
    let (code, _, stderr) = run(
        SWEEP,
        dir,
        &[&assigned[..], &["--sampler", "he\u{1b}[2Jre"]].concat(),
    );
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("the sampler `he\\u{1b}[2Jre`: it is not in the assignments"),
        "{stderr}"
    );
}
