//! The real driver in virtual time: the same seed gives the same records, octet by octet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ibnet::mad::transport::sim::faults::{Defect, Faults, Forgery, ReceiveQueue};
use ibnet::mad::transport::sim::{Options, SimFabric};
use ibnet::output::Destination;
use ibnet::sweep::cadence::Cadence;
use ibnet::sweep::driver::{Control, Driver, DriverSettings};
use ibnet::sweep::engine::Config;
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{Pause, VirtualClock, VirtualTransport};
use ibnet::time::Instant;
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet_record::strict::{self, Line};
use sha2::{Digest, Sha256};

/// 320 linked ports.
const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 8,
    hosts: 16,
    spines: 4,
    trunk: 1,
    radix: 20,
};
const PORTS: usize = 320;

const SLOTS: u64 = 12;
const INTERVAL: Duration = Duration::from_secs(1);

/// Wall clock at time zero, in nanoseconds since 1970.
const WALL: i64 = 1_795_000_000_123_456_789;

/// SHA-256 of all `port`, `sweep` and `event` records of [`sweep`] with seed 1.
///
/// The hash changes when the engine, the simulated fabric or the format of the records changes.
/// Check that the change is intended before you replace it.
const SHA256: &str = "75e6d656765e5da61c974b9ee406436b15d56e0ad0c7b91e940a506c55d9a9fb";

/// SHA-256 of the same records without the fields of [`ADDED`]: that of the version before it.
const SHA256_BEFORE: &str = "0790ffc0bfc663d9477d362391abaf85d7acb86ea9aa4fcee381c7945251d52f";

/// Fields that were added to the records of schema 1.
const ADDED: [&str; 18] = [
    "role",
    "mtu",
    "vls",
    "rtt_min_ns",
    "xmit_blocked_dt_ns",
    "down",
    "extended_dt_slots",
    "base_dt_slots",
    "xmtdisc_dt_slots",
    "rcverr_dt_slots",
    "mtu_cap",
    "vl_cap",
    "vl_high_limit",
    "vl_stall_count",
    "hoq_life",
    "mkey_violations",
    "pkey_violations",
    "qkey_violations",
];

/// SHA-256 of the records without the fields of [`ADDED`], if path queries are exempt from random
/// faults. A change of the path queries alone does not change this hash.
const SHA256_SPARED: &str = "27e9c49c223c341ddec8531a84b01f2e6c3b43be0324ac1625241ea3ba0f1ee3";

/// Removes the fields of [`ADDED`] from `port` and `sweep` records; `role` from `port` records
/// only.
fn without_added(records: &str) -> String {
    let mut text = String::new();
    for line in records.lines() {
        let mut line = line.to_owned();
        let is_port = line.starts_with(r#"{"type":"port""#);
        for name in ADDED.iter().filter(|name| is_port || **name != "role") {
            let Some(start) = line.find(&format!(",\"{name}\":")) else {
                continue;
            };
            let end = line[start + 1..].find([',', '}']).expect("a field ends") + start + 1;
            line.replace_range(start..end, "");
        }
        text += &line;
        text.push('\n');
    }
    text
}

fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// Sweeps a fabric with faults of all kinds, and returns the records without `start`, which has the
/// process ID, and `histogram`, whose compression belongs to a library. `spare_sa` exempts path
/// queries from random faults.
fn sweep(seed: u64, spare_sa: bool) -> String {
    sweep_with(Config::default(), seed, spare_sa)
}

fn sweep_with(engine: Config, seed: u64, spare_sa: bool) -> String {
    let (fabric, clock) = (fabric(), VirtualClock::default());
    clock.set_wall_offset(WALL);
    let plan = SweepPlan::new(&ibnet::partition::whole_fabric(&fabric, "here").0);
    assert_eq!(plan.ports.len(), PORTS);
    let leaf = fabric
        .iter()
        .find(|(_, device)| device.host() == "leaf03")
        .expect("a leaf")
        .0;
    let sim = Arc::new(Mutex::new(SimFabric::new(
        fabric,
        Options {
            seed,
            loss: 0.02,
            spare_sa,
            ..Options::default()
        },
    )));
    let mut transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), seed);
    *transport.faults_mut() = Faults {
        delayed: 0.05,
        delay: Duration::from_millis(8),
        duplicated: 0.05,
        forged: Some(Forgery {
            share: 0.02,
            defect: Defect::Length,
            instead: true,
        }),
        receive_queue: Some(ReceiveQueue {
            capacity: 28,
            within: Duration::from_micros(50),
        }),
    };
    let settings = DriverSettings {
        sweeps: Some(SLOTS),
        ..DriverSettings::simulated("here", INTERVAL, engine)
    };
    let (outlet, lines) = Destination::memory();
    let driver = Driver::new(plan, settings, transport, clock.clone(), outlet, seed);
    let mut text = String::new();
    let on_slot = |done: u64, slot: u64| {
        let mut sim = sim.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            3 => sim.set_dead(leaf, true),
            5 => sim.set_dead(leaf, false),
            // Pauses in the next slot, before its end, and misses the slot after that.
            7 => {
                let next = Instant::from_nanos((slot + 1) * 1_000_000_000 - WALL as u64);
                clock.pause(Pause {
                    from: next + Duration::from_millis(4),
                    time: INTERVAL * 3 / 2,
                    lossy: false,
                });
            }
            9 => clock.set_wall_offset(WALL + 60 * 1_000_000_000),
            _ => {}
        }
    };
    driver
        .run(&Control::default(), |report| {
            text += &lines.text();
            on_slot(report.done, report.slot);
        })
        .expect("nothing is lost");
    text += &lines.text();
    let is_kept = |line: &&str| {
        !line.starts_with(r#"{"type":"start""#) && !line.starts_with(r#"{"type":"histogram""#)
    };
    text.lines()
        .filter(is_kept)
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn same_seed_gives_the_same_records() {
    let records = sweep(1, false);
    assert!(records == sweep(1, false), "two runs differ");
    assert_ne!(records, sweep(2, false), "the seed has no effect");

    let (mut ports, mut events, mut statuses, mut missed) = (0, Vec::new(), Vec::new(), 0);
    for text in records.lines() {
        match strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}")) {
            Line::Port(port) => {
                ports += 1;
                statuses.push(port.status);
            }
            Line::Sweep(sweep) => missed += sweep.slots_missed,
            Line::Event(event) => events.push(event.event),
            Line::Start(_) | Line::Histogram(_) | Line::Physical(_) | Line::Routes(_) => {}
        }
    }
    assert_eq!(ports, PORTS * SLOTS as usize);
    for status in [
        "ok",
        "late",
        "timeout",
        "bad_reply",
        "unreachable",
        "skipped",
    ] {
        assert!(
            statuses.iter().any(|found| found == status),
            "no port is {status}"
        );
    }
    for event in ["unreachable", "reachable", "slot_missed", "clock_step"] {
        assert!(
            events.iter().any(|found| found == event),
            "no event {event}"
        );
    }
    assert!(missed > 0, "no slot was missed");
    assert_eq!(
        sha256(&without_added(&records)),
        SHA256_BEFORE,
        "not only the added fields differ"
    );
    assert_eq!(
        sha256(&records),
        SHA256,
        "the records are not those of the last version"
    );
}

#[test]
fn records_without_lost_path_queries_do_not_depend_on_their_retries() {
    assert_eq!(
        sha256(&without_added(&sweep(1, true))),
        SHA256_SPARED,
        "the records differ although no path query was lost"
    );
}

#[test]
fn record_states_the_slots_since_the_last_reading_of_each_group() {
    /// Groups with a counter that no other group of these devices has.
    const OF: [(&str, &str); 3] = [
        ("extended_dt_slots", "port_xmit_data_bytes"),
        ("xmtdisc_dt_slots", "port_inactive_discards"),
        ("rcverr_dt_slots", "port_local_physical_errors"),
    ];
    let engine = Config {
        cadence: Cadence::new(vec![1, 1, 2, 3], 1, 1),
        ..Config::default()
    };
    let records = sweep_with(engine, 3, false);
    let mut last = BTreeMap::new();
    let mut stated = BTreeMap::<u64, u64>::new();
    for text in records.lines() {
        let Line::Port(port) =
            strict::parse(text).unwrap_or_else(|error| panic!("{error} in {text}"))
        else {
            continue;
        };
        for (field, counter) in OF {
            let slots = port.counter(field);
            if !port.counters.contains_key(counter) {
                assert_eq!(slots, None, "{text}");
                continue;
            }
            let before = last.insert((port.guid, port.port, counter), port.slot);
            assert_eq!(
                slots.unwrap_or(1),
                before.map_or(0, |before| port.slot - before),
                "{field} in {text}"
            );
            *stated.entry(slots.unwrap_or(1)).or_default() += 1;
        }
    }
    assert!(
        [0, 1, 2, 3, 4]
            .iter()
            .all(|slots| stated.contains_key(slots)),
        "{stated:?}"
    );
}
