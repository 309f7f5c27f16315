#![no_main]
//! Arbitrary bytes as a net file: read or refused, and what is read goes on into an assignments file and the texts for people.

use ibnet::assignments::{Assignments, Header, Sampler, VERSION};
use ibnet::topology::net_file;
use ibnet::types::Printable;
use ibnet_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;

/// Octets of the longest name that is kept.
const LONGEST: usize = 256;

fuzz_target!(|bytes: &[u8]| {
    let net = match net_file::parse(bytes, "net.p") {
        Ok(net) => net,
        Err(error) => return assert_printable(&Printable(&error.to_string()).to_string()),
    };
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
    let lost = net.remarks.iter().filter(|remark| remark.kind.loses_a_port()).count();
    let ports: usize = net.fabric.devices().iter().map(|device| device.ports.len()).sum();
    assert_eq!(ports + lost, lines, "each line is a port or a remark");
    for device in net.fabric.devices() {
        assert!(device.name.len() <= LONGEST && device.linked().all(|(_, peer)| peer.name.len() <= LONGEST));
    }
    for remark in &net.remarks {
        assert_printable(&Printable(&remark.to_string()).to_string());
    }
    let (sampler, _) = Sampler::everything(&net.fabric, "here");
    let assignments = Assignments { version: VERSION, cap: 1, samplers: vec![sampler] };
    let toml = assignments.to_toml(&Header { sources: Vec::new(), command: String::new() });
    assert_eq!(Assignments::parse(&toml, "out.toml").expect("as it was written"), assignments);
});
