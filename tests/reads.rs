//! Nothing but Get ever leaves: the fabric is never written to.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::assignments::Sampler;
use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::METHOD_GET;
use ibnet::mad::pma::Group;
use ibnet::mad::query::Query;
use ibnet::mad::sa::Gid;
use ibnet::mad::transport::sim::{Options, SimFabric, SimTransport};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::mad::{MAD_LEN, Mad, pma, sa, smp};
use ibnet::sink::Destination;
use ibnet::sweep::driver::{Address, Control, DeviceClient, Driver, DriverSettings, SystemClock};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::query::{self, PortQuery};
use ibnet::time::Instant;
use ibnet::topology::ports_report;
use ibnet::topology::synthetic::FatTree;
use ibnet::types::{Guid, Lid, PortNum, Tid};
use proptest::prelude::*;

const CLASSES: [u8; 3] = [pma::CLASS_PERF_MGT, smp::CLASS_SUBN_LID_ROUTED, sa::CLASS_SUBN_ADM];

/// Everything that a request can be made of.
fn any_query() -> impl Strategy<Value = Query> {
    let port = prop::option::of(any::<u8>().prop_map(PortNum));
    let gid = || (any::<u64>(), any::<u64>()).prop_map(|(prefix, guid)| Gid { prefix, guid: Guid(guid) });
    prop_oneof![
        (any::<u16>(), port).prop_map(|(attribute, port)| Query::Pma(pma::Query { attribute, port })),
        (any::<u16>(), any::<u8>()).prop_map(|(attribute, port)| Query::Smp(smp::Query { attribute, port: PortNum(port) })),
        (gid(), gid()).prop_map(|(source, destination)| Query::Sa(sa::Query { source, destination })),
    ]
}

proptest! {
    #[test]
    fn every_request_that_can_be_made_is_a_get(query in any_query(), tid in any::<u32>(), dirt in any::<u8>()) {
        let mut mad: Mad = [dirt; MAD_LEN];
        query.emit(Tid(tid), &mut mad);
        prop_assert!(CLASSES.contains(&mad[1]));
        prop_assert_eq!(mad[3], METHOD_GET);
    }
}

/// Class, method and attribute of all that was sent.
type Seen = Arc<Mutex<BTreeSet<(u8, u8, u16)>>>;

/// Writes down what goes through it.
struct Spy(SimTransport, Seen);

impl Transport for Spy {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.1.lock().unwrap().insert((mad[1], mad[3], u16::from_be_bytes([mad[16], mad[17]])));
        self.0.send(target, mad, now)
    }

    fn recv(&mut self, mad: &mut Mad, wait: Duration, now: Instant) -> Result<Option<Completion>, TransportError> {
        self.0.recv(mad, wait, now)
    }

    fn locator(&self) -> ibnet::mad::transport::Locator {
        self.0.locator()
    }
}

/// A sweep of all groups, with devices that are dead, elsewhere and lossy, and path records; and one port asked once.
#[test]
fn whatever_happens_in_a_sweep_only_gets_are_sent() {
    let tree = FatTree { leaves: 2, hosts: 3, spines: 2, trunk: 1, radix: 8 };
    let net = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "net.p").unwrap();
    let (mut sampler, _) = Sampler::everything(&net.fabric, "node00001");
    // Two hosts at one another's LIDs: the right ones are sought through the subnet manager.
    let hosts: Vec<usize> = (0..sampler.devices.len()).filter(|place| sampler.devices[*place].name.starts_with("node")).collect();
    (sampler.devices[hosts[0]].lid, sampler.devices[hosts[1]].lid) = (sampler.devices[hosts[1]].lid, sampler.devices[hosts[0]].lid);
    let mut sim = SimFabric::new(net.fabric, Options { loss: 0.05, ..Options::default() });
    let dead = sim.fabric().iter().find(|(_, device)| device.host() == "node00005").unwrap().0;
    sim.set_dead(dead, true);
    let (fabric, seen) = (Arc::new(Mutex::new(sim)), Seen::default());
    let spy = || Spy(SimTransport::new(Arc::clone(&fabric)), Arc::clone(&seen));
    let engine = Config { groups: Group::ALL.into(), path_sl: true, identity_every: Duration::from_millis(100), ..Config::default() };
    let settings = DriverSettings {
        sampler: "node00001".to_owned(),
        ca: "sim".to_owned(),
        ca_port: PortNum(1),
        is_secondary: false,
        interval: Duration::from_millis(100),
        offset: Duration::ZERO,
        aligned: true,
        sweeps: Some(8),
        assignments_sha256: None,
        engine,
    };
    let (outlet, _lines) = Destination::memory();
    Driver::new(SweepPlan::new(&sampler), settings, spy(), SystemClock::start(), outlet, 1).run(&Control::default(), |_| {}).unwrap();
    let address = Address { lid: sampler.devices[0].lid, sl: 0, pkey_index: 0, timeout: Duration::from_millis(100) };
    let question = PortQuery { lid: Lid(1), port: PortNum(1), groups: Group::ALL.into(), record: true };
    query::run(question, &mut DeviceClient::new(spy(), SystemClock::start(), address, 1)).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(_, method, _)| *method == METHOD_GET), "{seen:x?}");
    let classes: BTreeSet<u8> = seen.iter().map(|(class, ..)| *class).collect();
    assert_eq!(classes, CLASSES.into(), "all of them were seen: {seen:x?}");
    assert!(seen.len() > 20, "{seen:x?}");
}

/// Every source file of the library and the programs.
fn sources() -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// The lines outside of comments with this word, by file.
fn with(word: &str) -> Vec<String> {
    let code = |line: &&str| line.contains(word) && !line.trim_start().starts_with("//");
    sources()
        .iter()
        .flat_map(|(path, text)| text.lines().filter(code).map(|line| format!("{path}: {}", line.trim())).collect::<Vec<_>>())
        .collect()
}

#[test]
fn one_place_sends_and_nothing_names_another_way_to() {
    let sends = with("sys::umad_send(");
    assert!(sends.len() == 1 && sends[0].contains("src/mad/transport/umad/mod.rs"), "{sends:?}");
    for word in ["METHOD_SET", "mad_rpc(", "performance_reset", "smp_set", "issm", "Command::new"] {
        // The simulated agent refuses what is no Get, and the constant stands with its like.
        let found: Vec<_> =
            with(word).into_iter().filter(|line| !line.contains("transport/sim/") && !line.contains("pub const METHOD_SET")).collect();
        assert!(found.is_empty(), "{found:#?}");
    }
    // What the library's bindings are allowed to have: one function that sends.
    let bindings = include_str!("../build.rs");
    let functions: Vec<&str> = bindings.split("allowlist_function(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(functions.len(), 3, "{functions:?}");
    assert!(
        functions.iter().all(|allowed| !["sm_", "vendor", "set_grh", "rpc", "via", ".*"].iter().any(|word| allowed.contains(word))),
        "{functions:?}"
    );
}
