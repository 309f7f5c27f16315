//! Names are written by strangers: what they put into a node description comes through as it is, and nothing obeys it on the way.
//!
//! From the bytes of a net file to the last table: each step reads again what the one before wrote, and all that people are shown is checked for what
//! a terminal would obey.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::{Assignments, Header, Sampler};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::partition::facts::Facts;
use ibnet::partition::report::Detail;
use ibnet::partition::{self, Report, Request, hosts};
use ibnet::sweep::counter::{Columns, Reading};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::record::line::{self, Line};
use ibnet::sweep::record::{self, EventRecord, PortRecord};
use ibnet::sweep::virtual_sweep::VirtualSweep;
use ibnet::topology::ports_report::{self, NetFile};
use ibnet::types::{Guid, Lid, PortNum, Printable};
use ibnet::view::once;
use ibnet::view::summary::Summary;
use proptest::prelude::*;

/// Octets of a name that are kept at most; a device gives 64.
const LONGEST: usize = 256;

/// What strangers might write, and what the format of a net file is made of.
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

/// The octets of a name: without line feeds, which would end the line of the net file.
fn name() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => prop::sample::select(PIECES.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    let mixed = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let one_octet = prop::sample::select(b"\"'\\ \x1b\xff\r".to_vec()).prop_map(|octet| vec![octet; 64]);
    let long = prop::collection::vec(any::<u8>(), 200..500);
    prop_oneof![8 => mixed, 2 => one_octet, 1 => long].prop_map(|mut octets| {
        octets.iter_mut().filter(|octet| **octet == b'\n').for_each(|octet| *octet = b'\r');
        octets
    })
}

/// A word for the speed of a link: no blanks in it, and short even if every octet of it becomes three.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let nasty = name().prop_map(|mut octets| {
        octets.retain(|octet| *octet != b' ');
        octets.truncate(5);
        if octets.is_empty() { b"EDR".to_vec() } else { octets }
    });
    prop_oneof![Just(b"EDR".to_vec()), nasty]
}

/// The names of a switch, two hosts and a router on it, and the word for their speed.
#[derive(Clone, Debug)]
struct Names {
    switch: Vec<u8>,
    hosts: [Vec<u8>; 2],
    router: Vec<u8>,
    speed: Vec<u8>,
}

fn names() -> impl Strategy<Value = Names> {
    (name(), [name(), name()], name(), word()).prop_map(|(switch, hosts, router, speed)| Names { switch, hosts, router, speed })
}

const SWITCH: Guid = Guid(0x10);
const HOSTS: [Guid; 2] = [Guid(0x20), Guid(0x21)];
const ROUTER: Guid = Guid(0x30);

impl Names {
    /// Each device with its type, LID, GUID and the port of the switch that it is on.
    fn devices(&self) -> [(&str, u16, Guid, &[u8]); 3] {
        [("CA", 2, HOSTS[0], &self.hosts[0]), ("CA", 3, HOSTS[1], &self.hosts[1]), ("RT", 4, ROUTER, &self.router)]
    }

    /// The net file. Of each device a port without a link is in it, whose line tells its name beyond doubt.
    fn net_file(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut line = |parts: &[&[u8]]| bytes.extend(parts.concat().into_iter().chain([b'\n']));
        line(&[format!("SW     1  9 {SWITCH} 4x ").as_bytes(), &self.speed, b"   '", &self.switch, b"'"]);
        for (port, (kind, lid, guid, name)) in (1..).zip(self.devices()) {
            let (switch, own) = (format!("SW     1 {port:2} {SWITCH}"), format!("{kind} {lid:5}  1 {guid}"));
            let names = |first: &[u8], second: &[u8]| [b" ( '", first, b"' - '", second, b"' )"].concat();
            line(&[switch.as_bytes(), b" 4x ", &self.speed, b" - ", own.as_bytes(), &names(&self.switch, name)]);
            line(&[own.as_bytes(), b" 4x ", &self.speed, b" - ", switch.as_bytes(), &names(name, &self.switch)]);
            line(&[format!("{kind}     0  2 {guid} 4x SDR   '").as_bytes(), name, b"'"]);
        }
        bytes
    }

    /// What must come through for a GUID.
    fn of(&self, guid: Guid) -> String {
        let mut all = self.devices().into_iter().map(|(_, _, guid, name)| (guid, name)).chain([(SWITCH, &*self.switch)]);
        String::from_utf8_lossy(all.find(|(of, _)| *of == guid).unwrap().1).into_owned()
    }
}

/// Whether it is the name, or as much of it as is kept.
fn is_kept(kept: &str, name: &str) -> bool {
    match name.len() <= LONGEST {
        true => kept == name,
        false => kept.len() <= LONGEST && kept.strip_suffix('…').is_some_and(|cut| name.starts_with(cut)),
    }
}

/// Nothing leaves but what shows, and line feeds.
#[track_caller]
fn assert_shows(text: &str) {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let found = text.chars().find(|c| *c != '\n' && hidden(*c));
    assert!(found.is_none(), "{found:?} in {text:?}");
}

/// The assignments of a plan with a sampler on the first host, after they were written and read again.
fn assigned(net: &NetFile, nasty: &str) -> Assignments {
    let wanted = hosts::parse_list("here").unwrap();
    let samplers = hosts::locate(&wanted, &[("here".to_owned(), HOSTS[0])], &net.fabric).unwrap();
    let plan = partition::plan(&Request { fabric: &net.fabric, samplers, cap: 100 }).unwrap();
    for detail in [Detail::Brief, Detail::Full] {
        assert_shows(&Report { name: nasty, facts: &Facts::of(net, &plan), detail }.to_string());
    }
    let mut assignments = Assignments::of(&plan, &net.fabric);
    // One more sampler, whose own name is a stranger's: it stands in for the first.
    let (mut everything, _) = Sampler::everything(&net.fabric, nasty);
    everything.role = Some("secondary".to_owned());
    assignments.samplers.push(everything);
    let header = Header { sources: vec![(nasty.to_owned(), String::new())], command: nasty.to_owned() };
    let read = Assignments::parse(&assignments.to_toml(&header), nasty).unwrap();
    assert_eq!(read, assignments);
    let unknown = read.of_host(&format!("{nasty}?")).unwrap_err();
    assert_shows(&unknown.to_string());
    assert_shows(&miette::Diagnostic::help(&unknown).unwrap().to_string());
    read
}

/// The lines of two slots, each of which must be one.
fn swept(net: NetFile, sampler: &Sampler) -> Vec<String> {
    let SweepPlan { devices, ports } = SweepPlan::new(sampler);
    let config = Config::default();
    let columns = Columns::new(&config.groups);
    let mut readings = vec![Reading::new(&columns); ports.len()];
    let fabric = Arc::new(Mutex::new(SimFabric::new(net.fabric, Options::default())));
    let mut rehearsal = VirtualSweep::new(fabric, &devices, config, 7);
    rehearsal.discover();
    let mut lines = Vec::new();
    let mut write = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n') && text.bytes().filter(|octet| *octet < b' ').count() == 1, "{text:?}");
        lines.push(text);
    };
    for slot in 1..=2 {
        rehearsal.slot(Duration::from_secs(1));
        for (port, (identity, reading)) in ports.iter().zip(&mut readings).enumerate() {
            let sample = rehearsal.engine.sample(port);
            reading.take(&columns, slot, &sample);
            let mut bytes = Vec::new();
            let columns = &columns;
            record::write(&PortRecord { ts: 1, slot, sampler: &sampler.host, identity, sample: &sample, reading, columns }, &mut bytes);
            write(bytes);
        }
    }
    let (sampler, detail) = (&*sampler.host, &*ports[0].node);
    let mut bytes = Vec::new();
    let (port, lid) = (Some(PortNum(1)), Some(Lid(1)));
    record::write(
        &EventRecord {
            r#type: "event",
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
    fn any_name_comes_through_and_nothing_obeys_it(names in names()) {
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
            prop_assert_eq!(sampler.port_count, 5, "all but the router's");
            let lines = swept(net.clone(), sampler);
            let mut ports = Vec::new();
            for text in &lines {
                match line::parse(text).unwrap() {
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
            let table = once::show(&ports, &[]);
            assert_shows(&table);
            prop_assert_eq!(table.lines().count(), 1 + ports.len());
            let mut summary = Summary::default();
            summary.read(lines.concat().as_bytes()).unwrap();
            prop_assert_eq!(summary.unreadable, 0);
            assert_shows(&summary.to_string());
        }
    }

    /// With an octet changed, a line feed it may be, the lines are others.
    #[test]
    fn what_is_another_line_now_is_told_and_nothing_obeys_it(names in names(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = names.net_file();
        let at = at.index(bytes.len());
        bytes[at] = with;
        let net = match ports_report::parse(&bytes, "net.p") {
            Ok(net) => net,
            Err(error) => {
                assert_shows(&Printable(&error.to_string()).to_string());
                return Ok(());
            }
        };
        let wanted = hosts::parse_list("here").unwrap();
        let Ok(samplers) = hosts::locate(&wanted, &[("here".to_owned(), HOSTS[0])], &net.fabric) else { return Ok(()) };
        match partition::plan(&Request { fabric: &net.fabric, samplers, cap: 5 }) {
            Ok(plan) => assert_shows(&Report { name: "net.p", facts: &Facts::of(&net, &plan), detail: Detail::Full }.to_string()),
            Err(error) => assert_shows(&error.to_string()),
        }
    }
}

const SWEEP: &str = env!("CARGO_BIN_EXE_ibnet-sweep");
const GEN: &str = env!("CARGO_BIN_EXE_ibnet-gen");

/// Runs a program; all that it tells people shows. Returns its exit code, standard output and standard error.
fn run(program: &str, dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::new(program);
    let output = command.current_dir(dir).args(args).env("RUST_LOG", "trace").timeout(Duration::from_secs(60)).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_shows(&stderr);
    (output.status.code().unwrap(), stdout, stderr)
}

#[test]
fn the_programs_tell_of_nasty_names_and_no_terminal_obeys() {
    let nasty = |host: &str| [host.as_bytes(), &PIECES[..12].concat()].concat();
    let names = Names {
        switch: nasty("leaf"),
        hosts: [nasty("node1"), nasty("node2")],
        router: nasty("router"),
        speed: b"\x1b[31m\xff\r".to_vec(),
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // A line of standard error that got into the file, and one that tells otherwise of a link.
    let noise = [b"\x1b[2Jibwarn: \xff\n".to_vec(), b"SW     1  1 0x0000000000000010 4x EDR   '\x1b[2J'\n".to_vec()].concat();
    fs::write(dir.join("net\u{1b}[2J.p"), [names.net_file(), noise].concat()).unwrap();
    let net = "net\u{1b}[2J.p";

    let (code, _, told) = run(GEN, dir, &["--net", net, "--samplers", "node1", "-o", "a.toml"]);
    assert_eq!(code, 1, "the name of the host is another");
    assert!(told.contains("did you mean `node1\\u{1b}[2J"), "{told}");
    let guid = format!("here={}", HOSTS[0]);
    let known = ["--net", net, "--samplers", "here", "--sampler-guid", &guid];
    let (code, _, told) = run(GEN, dir, &[&known[..], &["-o", "a.toml", "--report", "report"]].concat());
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("unreadable: 1 line") && told.contains("repeated: 1 line") && told.contains("`router\\u{1b}[2J"), "{told}");
    assert_shows(&fs::read_to_string(dir.join("report")).unwrap());
    let (code, _, told) = run(GEN, dir, &[&known[..], &["--cap", "1"]].concat());
    assert_eq!(code, 1, "{told}");

    let dead = format!("[simulated]\ndead = [{}]\n", serde_json::to_string(&names.of(HOSTS[1])).unwrap().replace('\u{7f}', "\\u007f"));
    fs::write(dir.join("ibnet.toml"), dead).unwrap();
    let assigned = ["-c", "ibnet.toml", "--assignments", "a.toml", "--simulate", net, "--interval", "100ms"];
    let (code, lines, told) = run(SWEEP, dir, &[&assigned[..], &["--sampler", "here", "--sweeps", "2"]].concat());
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("unreachable node=node2\\u{1b}[2J"), "{told}");
    let mut ports = 0;
    for text in lines.lines() {
        if let Line::Port(port) = line::parse(text).unwrap() {
            ports += 1;
            assert!(is_kept(&port.node, &names.of(port.guid)), "{text}");
        }
    }
    assert_eq!(ports, 10);
    let (code, table, told) = run(SWEEP, dir, &[&assigned[..], &["--sampler", "here", "--once"]].concat());
    assert_eq!(code, 0, "{told}");
    assert_shows(&table);
    assert!(table.contains("node1\\u{1b}[2J") && table.lines().count() == 1 + 5 + 2, "{table}");
    let (code, checked, told) = run(SWEEP, dir, &[&["check"], &assigned[..], &["--sampler", "here", "--verbose"]].concat());
    assert_eq!(code, 1, "{told}");
    assert_shows(&checked);
    assert!(
        checked.contains("\nfail  device         node2\\u{1b}[2J") && checked.contains("\nok    device         node1\\u{1b}[2J"),
        "{checked}"
    );
    let (code, _, told) = run(SWEEP, dir, &[&assigned[..], &["--sampler", "he\u{1b}[2Jre"]].concat());
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("the sampler `he\\u{1b}[2Jre` is not in the assignments"), "{told}");
}
