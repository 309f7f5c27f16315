//! Only MADs with the method Get are sent: the fabric is never changed. The only exceptions are the
//! subscription to traps and the clearing of two attributes, which are off by default.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibnet::mad::exchange::{Completion, Target};
use ibnet::mad::header::{METHOD_GET, METHOD_SET};
use ibnet::mad::pma::{Clear, Clearable};
use ibnet::mad::query::Query;
use ibnet::mad::sa::Gid;
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::mad::transport::{Transport, TransportError};
use ibnet::mad::vendor::register;
use ibnet::mad::{MAD_LEN, Mad, directed, pma, sa, smp, vendor};
use ibnet::output::Destination;
use ibnet::sweep::clearing::Clearing;
use ibnet::sweep::driver::{Address, Control, DeviceClient, Driver, DriverSettings};
use ibnet::sweep::engine::{Config, PhysicalConfig};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::query::{self, PortQuery};
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::ports_report;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::attributes::Group;
use ibnet_record::registers::Page;
use ibnet_record::types::{Guid, Lid, PortNum, Tid};
use proptest::prelude::*;

/// The classes that a sweep uses.
const CLASSES: [u8; 5] = [
    pma::CLASS_PERF_MGT,
    smp::CLASS_SUBN_LID_ROUTED,
    directed::CLASS_SUBN_DIRECTED_ROUTE,
    sa::CLASS_SUBN_ADM,
    vendor::CLASS_VENDOR,
];

/// Generates any query except those that clear counters.
fn any_query() -> impl Strategy<Value = Query> {
    let port = prop::option::of(any::<u8>().prop_map(PortNum));
    let gid = || {
        (any::<u64>(), any::<u64>()).prop_map(|(prefix, guid)| Gid {
            prefix,
            guid: Guid(guid),
        })
    };
    prop_oneof![
        (any::<u16>(), port)
            .prop_map(|(attribute, port)| Query::Pma(pma::Query { attribute, port })),
        (any::<u16>(), any::<u8>()).prop_map(|(attribute, port)| Query::Smp(smp::Query {
            attribute,
            modifier: port.into()
        })),
        (any::<u16>(), any::<u8>()).prop_map(|(lid, port)| Query::Directed(directed::Query {
            request: smp::Query {
                attribute: smp::NODE_INFO,
                modifier: 0
            },
            route: directed::Route::behind_lid(Lid(lid))
                .then(PortNum(port))
                .expect("one hop")
        })),
        (gid(), gid()).prop_map(|(source, destination)| Query::Sa(sa::Query {
            source,
            destination
        })),
        Just(Query::Vendor(vendor::Query::GeneralInfo)),
        (
            prop::sample::select(&Page::ALL[..]),
            any::<u8>(),
            any::<u16>(),
            any::<u8>()
        )
            .prop_map(|(page, port, item, block)| {
                let index = register::Index {
                    item,
                    ..register::Index::of_port(PortNum(port))
                };
                Query::Vendor(vendor::Query::Register(register::Query {
                    page,
                    index,
                    block,
                }))
            }),
    ]
}

proptest! {
    #[test]
    fn every_request_is_a_get(query in any_query(), tid in any::<u32>(), dirt in any::<u8>()) {
        let mut mad: Mad = [dirt; MAD_LEN];
        query.emit(Tid(tid), &mut mad);
        prop_assert!(CLASSES.contains(&mad[1]));
        prop_assert_eq!(mad[3], METHOD_GET);
    }

    #[test]
    fn only_data_by_service_level_can_be_cleared(pick in 0usize..2, port in any::<u8>(), select in any::<u16>(), dirt in any::<u8>()) {
        let mut mad: Mad = [dirt; MAD_LEN];
        let (of, port) = (Clearable::ALL[pick], PortNum(port));
        Query::Clear(Clear { of, port, select }).emit(Tid(1), &mut mad);
        prop_assert_eq!((mad[1], mad[3]), (pma::CLASS_PERF_MGT, METHOD_SET));
        prop_assert_eq!(mad[16..18].to_vec(), [0, [0x36, 0x37][pick]]);
        prop_assert!(mad[68..].iter().all(|octet| *octet == 0), "the new values");
    }
}

/// Class, method and attribute of all MADs that were sent.
type Sent = Arc<Mutex<BTreeSet<(u8, u8, u16)>>>;

/// A transport that records the MADs that it sends.
struct RecordingTransport(VirtualTransport, Sent);

impl Transport for RecordingTransport {
    fn send(&mut self, target: &Target, mad: &Mad, now: Instant) -> Result<(), TransportError> {
        self.1
            .lock()
            .unwrap()
            .insert((mad[1], mad[3], u16::from_be_bytes([mad[16], mad[17]])));
        self.0.send(target, mad, now)
    }

    fn recv(
        &mut self,
        mad: &mut Mad,
        wait: Duration,
        now: Instant,
    ) -> Result<Option<Completion>, TransportError> {
        self.0.recv(mad, wait, now)
    }

    fn locator(&self) -> ibnet::mad::transport::Locator {
        self.0.locator()
    }
}

#[test]
fn sweep_and_query_send_only_gets() {
    crate::on_both_fabrics(|| {
        let sent = sweep_and_query(None);
        assert!(
            sent.iter().all(|(_, method, _)| *method == METHOD_GET),
            "{sent:x?}"
        );
        let classes: BTreeSet<u8> = sent.iter().map(|(class, ..)| *class).collect();
        assert_eq!(classes, CLASSES.into(), "all classes were used: {sent:x?}");
        assert!(sent.len() > 20, "{sent:x?}");
    });
}

#[test]
fn sets_have_only_the_attributes_whose_counters_are_cleared() {
    for of in [&Clearable::ALL[..], &Clearable::ALL[1..]] {
        let sent = sweep_and_query(Some(Clearing {
            of: of.to_vec(),
            interval: Duration::from_secs(2),
        }));
        let expected = of.iter().map(|of| (4, METHOD_SET, of.attribute().id));
        let sets = sent.iter().filter(|(_, method, _)| *method != METHOD_GET);
        assert!(sets.copied().eq(expected), "{sent:x?}");
    }
}

/// Sweeps all groups in virtual time, with a silent device, two exchanged LIDs, lost MADs and path
/// records; then queries one port. Returns what was sent.
fn sweep_and_query(clearing: Option<Clearing>) -> BTreeSet<(u8, u8, u16)> {
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    let net = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "net.p").unwrap();
    let (mut sampler, _) = ibnet::partition::whole_fabric(&net.fabric, "node00001");
    // Two hosts have exchanged LIDs, so the sampler queries the subnet manager for path records.
    let hosts: Vec<usize> = (0..sampler.devices.len())
        .filter(|place| sampler.devices[*place].name.starts_with("node"))
        .collect();
    (sampler.devices[hosts[0]].lid, sampler.devices[hosts[1]].lid) =
        (sampler.devices[hosts[1]].lid, sampler.devices[hosts[0]].lid);
    let mut sim = SimFabric::new(
        net.fabric,
        Options {
            loss: 0.05,
            ..crate::options()
        },
    );
    let dead = sim
        .fabric()
        .iter()
        .find(|(_, device)| device.host() == "node00005")
        .unwrap()
        .0;
    sim.set_dead(dead, true);
    let (fabric, sent, clock) = (
        Arc::new(Mutex::new(sim)),
        Sent::default(),
        VirtualClock::default(),
    );
    clock.set_wall_offset(1_795_000_000_123_456_789);
    let transport = || {
        RecordingTransport(
            VirtualTransport::new(Arc::clone(&fabric), clock.clone(), 1),
            Arc::clone(&sent),
        )
    };
    let engine = Config {
        groups: Group::ALL.into(),
        path_sl: true,
        identity_every: Duration::from_millis(100),
        verify_peers: true,
        state_tables: true,
        clearing,
        physical: Some(PhysicalConfig::default()),
        ..crate::config()
    };
    let settings = DriverSettings {
        sweeps: Some(8),
        ..DriverSettings::simulated("node00001", Duration::from_millis(100), engine)
    };
    let (outlet, _lines) = Destination::memory();
    Driver::new(
        SweepPlan::new(&sampler),
        settings,
        transport(),
        clock.clone(),
        outlet,
        1,
    )
    .run(&Control::default(), |_| {})
    .unwrap();
    let address = Address {
        lid: sampler.devices[0].lid,
        sl: 0,
        pkey_index: 0,
        pkey_table: Vec::new(),
        timeout: Duration::from_millis(100),
    };
    let question = PortQuery {
        lid: Lid(1),
        port: PortNum(1),
        groups: Group::ALL.into(),
        record: true,
    };
    query::run(
        question,
        &mut DeviceClient::new(transport(), clock.clone(), address, 1),
    )
    .unwrap();
    sent.lock().unwrap().clone()
}

/// Returns path and text of every source file of all packages.
fn sources() -> Vec<(String, String)> {
    let roots = ["src", "analysis/src", "view/src"]
        .map(|root| Path::new(env!("CARGO_MANIFEST_DIR")).join(root));
    let (mut folders, mut found) = (roots.to_vec(), Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((
                    path.display().to_string(),
                    fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    found
}

/// Returns the lines of code with this word, each with its path.
fn with(word: &str) -> Vec<String> {
    let code = |line: &&str| line.contains(word) && !line.trim_start().starts_with("//");
    sources()
        .iter()
        .flat_map(|(path, text)| {
            text.lines()
                .filter(code)
                .map(|line| format!("{path}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn only_one_call_sends_mads_and_no_code_can_change_the_fabric() {
    let sends = with("sys::umad_send(");
    assert!(
        sends.len() == 1 && sends[0].contains("src/mad/transport/umad/mod.rs"),
        "{sends:?}"
    );
    for word in [
        "METHOD_SET",
        "mad_rpc(",
        "performance_reset",
        "smp_set",
        "issm",
    ] {
        // The simulated agent rejects other methods than Get. The constant of Set is defined beside
        // Get.
        // Only the subscription to traps and the clearing of counters are Sets. Both are off by
        // default.
        let is_known = |line: &String| {
            line.contains("transport/sim/")
                || line.contains("pub const METHOD_SET")
                || word == "METHOD_SET"
                    && ["src/mad/inform.rs", "src/mad/pma/clear.rs"]
                        .iter()
                        .any(|file| line.contains(file))
        };
        let found: Vec<_> = with(word)
            .into_iter()
            .filter(|line| !is_known(line))
            .collect();
        assert!(found.is_empty(), "{found:#?}");
    }
    // `verify` runs two programs, which change nothing without the options -r, -R and -a.
    // `job/source/ask.rs` asks the resource manager, which cannot change the fabric.
    // `cli/pages.rs` has the type of the same name of clap.
    let known = ["verify/programs.rs", "job/source/ask.rs", "cli/pages.rs"];
    let commands: Vec<_> = with("Command::new")
        .into_iter()
        .filter(|line| !known.iter().any(|file| line.contains(file)))
        .collect();
    assert!(commands.is_empty(), "{commands:#?}");
    for option in ["\"-r\"", "\"-R\"", "\"-a\"", "reset"] {
        assert!(
            !include_str!("../../src/bin/ibnet-sweep/verify/programs.rs").contains(option),
            "{option}"
        );
    }
    // The bindings have one function that sends any MAD, and three functions that send only Get.
    let bindings = include_str!("../../build.rs");
    let functions: Vec<&str> = bindings
        .split("allowlist_function(\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(functions.len(), 5, "{functions:?}");
    let (queries, functions): (Vec<&str>, Vec<&str>) = functions
        .into_iter()
        .partition(|allowed| allowed.contains("via"));
    assert_eq!(queries, ["pma_query_via|smp_query_via|ib_path_query_via"]);
    assert!(
        functions
            .iter()
            .all(|allowed| !["sm_", "vendor", "set_grh", "via", ".*"]
                .iter()
                .any(|word| allowed.contains(word))),
        "{functions:?}"
    );
    let rpc: Vec<&str> = functions
        .into_iter()
        .filter(|allowed| allowed.contains("rpc"))
        .collect();
    assert_eq!(
        rpc,
        ["mad_rpc_open_port|mad_rpc_close_port|mad_rpc_set_retries"]
    );
}
