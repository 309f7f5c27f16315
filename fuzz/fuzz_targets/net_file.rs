#![no_main]
//! Fuzzes net files of either format: any bytes are parsed or refused. A parsed file is converted
//! to an assignments file, to messages and to an anonymous net file.

use ibnet_record::types::Printable;
use ibnet::assignments::{Assignments, Header, VERSION};
use ibnet::topology::anonymise::anonymise;
use ibnet::topology::{NetFile, net_file, ports_report};
use ibnet_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;

/// Longest name that is kept, in octets.
const LONGEST: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let lines = |is_one: fn(&str) -> bool| text.lines().filter(|line| is_one(line)).count();
    if let Ok(net) = ports_report::parse(bytes, "net.p") {
        assert_eq!(ports(&net) + lost(&net), lines(|line| !line.trim().is_empty()), "each line is a port or a remark");
    }
    let net = match net_file::parse(bytes, "net.p") {
        Ok(net) => net,
        Err(error) => {
            anonymise(bytes, "net.p").expect_err("a file that is refused cannot be rewritten");
            return assert_printable(&Printable(&error.to_string()).to_string());
        }
    };
    assert!(ports(&net) + lost(&net) >= lines(|line| line.starts_with('[')), "each line of a port is a port or a remark");
    for device in net.fabric.devices() {
        assert!(device.name.len() <= LONGEST && device.linked().all(|(_, peer)| peer.name.len() <= LONGEST));
        net.fabric.is_aggregation_node(device);
    }
    for remark in &net.remarks {
        assert_printable(&Printable(&remark.to_string()).to_string());
    }
    let (sampler, _) = ibnet::partition::whole_fabric(&net.fabric, "here");
    let assignments = Assignments { version: VERSION, cap: 1, at: None, samplers: vec![sampler] };
    let toml = assignments.to_toml(&Header { sources: Vec::new(), command: String::new() });
    assert_eq!(Assignments::parse(&toml, "out.toml").expect("a written file is valid"), assignments);

    let nameless = anonymise(bytes, "net.p").expect("a parsed file can be rewritten");
    let again = net_file::parse(nameless.as_bytes(), "net.p").expect("a rewritten file is valid");
    assert_eq!((ports(&again), lost(&again), shape(&again)), (ports(&net), lost(&net), shape(&net)));
    assert!(nameless.is_ascii() && !nameless.contains('\r'), "only substitutes are left");
});

fn ports(net: &NetFile) -> usize {
    net.fabric.devices().iter().map(|device| device.ports.len()).sum()
}

fn lost(net: &NetFile) -> usize {
    net.remarks.iter().filter(|remark| remark.kind.loses_a_port()).count()
}

/// Returns the properties that depend neither on names nor on GUIDs.
fn shape(net: &NetFile) -> Vec<String> {
    let port = |port: &ibnet::topology::Port| (port.num, port.line, port.peer.as_ref().map(|peer| (peer.lid, peer.port, peer.kind)));
    let devices = net.fabric.devices().iter();
    devices.map(|device| format!("{:?} {} {:?}", device.lid, device.kind, device.ports.iter().map(port).collect::<Vec<_>>())).collect()
}
