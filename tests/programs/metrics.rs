//! Compares the metrics with the records of the same slot, and tests the access to the endpoint.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::read::GzDecoder;
use ibnet::assignments::Sampler;
use ibnet::http_limits::Limits;
use ibnet::mad::transport::sim::{Firmware, Options, SimFabric};
use ibnet::metrics::{Content, Families, Metrics, Peers, Server, Settings};
use ibnet::output::Destination;
use ibnet::sweep::driver::{self, Control, Driver};
use ibnet::sweep::engine::{Config, PhysicalConfig};
use ibnet::sweep::plan::SweepPlan;
use ibnet::sweep::virtual_sweep::{VirtualClock, VirtualTransport};
use ibnet::topology::{Fabric, ports_report, synthetic};
use ibnet_record::attributes::Group;
use ibnet_record::is_dt_slots_field;
use ibnet_record::physical;
use ibnet_record::registers::ber;
use ibnet_record::strict::{self, Line, Port, Sweep, Value};
use ibnet_record::types::{NodeKind, PortNum, Printable, misleads};
use proptest::prelude::*;

use crate::HANGS;

const INTERVAL: Duration = Duration::from_millis(250);

/// 20 linked ports: 6 hosts on 2 leaves (5 linked ports each), 2 spines.
pub(crate) const TREE: synthetic::FatTree = synthetic::FatTree {
    leaves: 2,
    hosts: 3,
    spines: 2,
    trunk: 1,
    radix: 8,
};

fn fabric() -> Fabric {
    ports_report::parse(TREE.blueprint().ports_report().as_bytes(), "tree")
        .expect("valid ports report")
        .fabric
}

/// A sample: its name, its labels without escapes, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Parses OpenMetrics text strictly by its grammar.
#[track_caller]
fn read(text: &str) -> Vec<Sample> {
    let lines = text
        .strip_suffix("# EOF\n")
        .expect("the text ends with # EOF");
    assert!(
        lines.ends_with('\n') && !lines.lines().any(|line| line.starts_with("# EOF")),
        "exactly one # EOF"
    );
    assert!(
        !text.chars().any(|c| c != '\n' && misleads(c)),
        "no invisible characters"
    );
    let (mut samples, mut families, mut family) = (Vec::new(), BTreeSet::new(), String::new());
    for line in lines.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (what, rest) = comment.split_once(' ').unwrap();
            assert!(["HELP", "TYPE"].contains(&what), "{line}");
            if what == "HELP" {
                family = rest.split_once(' ').unwrap().0.to_owned();
                assert!(
                    families.insert(family.clone()),
                    "family {family} occurs twice"
                );
            }
            continue;
        }
        let (name, rest) = line.split_once('{').expect(line);
        assert!(
            name.starts_with(&family),
            "{name} belongs to family {family}"
        );
        let (labels, rest) = labels(rest);
        let value = rest.strip_prefix(' ').expect(line).parse().expect(line);
        samples.push((name.to_owned(), labels, value));
    }
    let keys: BTreeSet<_> = samples
        .iter()
        .map(|(name, labels, _)| (name, labels))
        .collect();
    assert_eq!(keys.len(), samples.len(), "every series occurs once");
    samples
}

/// Parses labels up to the closing brace. Returns them and the rest of the line.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (key, after) = rest.split_once("=\"").unwrap();
        assert!(
            key.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{key:?}"
        );
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (end, '"') => break end,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    escaped @ ('"' | '\\') => escaped,
                    other => panic!("unknown escape \\{other}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(
            labels.insert(key.to_owned(), value).is_none(),
            "label {key} occurs twice"
        );
        rest = &after[end + 1..];
        if let Some(after) = rest.strip_prefix('}') {
            return (labels, after);
        }
        rest = rest.strip_prefix(',').unwrap();
    }
}

/// Sweeps a simulated fabric in virtual time and reads the metrics after each slot.
struct Harness {
    metrics: Arc<Metrics>,
    /// Time of the metrics' clock in nanoseconds.
    clock: Arc<AtomicU64>,
}

impl Harness {
    fn new(peers: Peers) -> Self {
        Self::serving(Content::default(), peers)
    }

    fn with_secondary(secondary: bool, peers: Peers) -> Self {
        Self::serving(
            Content {
                secondary,
                ..Content::default()
            },
            peers,
        )
    }

    fn serving(content: Content, peers: Peers) -> Self {
        let clock = Arc::<AtomicU64>::default();
        let shown = Arc::clone(&clock);
        Self {
            metrics: Metrics::new(peers, content, move || {
                Duration::from_nanos(shown.load(Ordering::Relaxed))
            }),
            clock,
        }
    }

    fn advance(&self, time: Duration) {
        self.clock
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Sweeps a plan as primary. Passes the records of each slot and the fabric to `look`.
    fn sweep(
        &self,
        plan: SweepPlan,
        groups: &[Group],
        slots: u64,
        look: impl FnMut(u64, Vec<Line>, &mut SimFabric),
    ) {
        self.sweep_as(("here", false), plan, groups, slots, look);
    }

    /// Sweeps a plan as primary or secondary. Passes the records of each slot and the fabric to
    /// `look`.
    fn sweep_as(
        &self,
        (sampler, is_secondary): (&str, bool),
        plan: SweepPlan,
        groups: &[Group],
        slots: u64,
        mut look: impl FnMut(u64, Vec<Line>, &mut SimFabric),
    ) {
        let mut sim = SimFabric::new(fabric(), Options::default());
        for (id, _) in fabric().iter() {
            sim.set_firmware(id, Firmware::Reliable);
        }
        let sim = Arc::new(Mutex::new(sim));
        let (outlet, lines) = Destination::memory();
        let settings = driver::DriverSettings {
            sampler: sampler.to_owned(),
            ca: "sim".to_owned(),
            ca_port: PortNum(1),
            is_secondary,
            interval: INTERVAL,
            offset: Duration::ZERO,
            aligned: slots > 1,
            sweeps: Some(slots),
            assignments_sha256: None,
            engine: Config {
                groups: groups.into(),
                physical: Some(PhysicalConfig {
                    budget_ppm: 500_000,
                    every: [Duration::from_secs(3); 4],
                    ..PhysicalConfig::default()
                }),
                ..Config::default()
            },
        };
        let clock = VirtualClock::default();
        let transport = VirtualTransport::new(Arc::clone(&sim), clock.clone(), 1);
        let driver = Driver::new(plan, settings, transport, clock, outlet, 1);
        let mut worker = self.metrics.worker();
        driver
            .run(&Control::default(), |report| {
                self.advance(INTERVAL);
                worker.publish(report);
                let lines = lines
                    .text()
                    .lines()
                    .map(|text| strict::parse(text).expect("a record"))
                    .collect();
                look(
                    report.done,
                    lines,
                    &mut sim.lock().expect("the lock is not poisoned"),
                );
            })
            .expect("the driver ends without an error");
    }
}

fn plan() -> SweepPlan {
    SweepPlan::new(&ibnet::partition::whole_fabric(&fabric(), "here").0)
}

fn ports(lines: &[Line]) -> impl Iterator<Item = &Port> {
    lines.iter().filter_map(|line| {
        if let Line::Port(port) = line {
            Some(&**port)
        } else {
            None
        }
    })
}

fn sweep_of(lines: &[Line]) -> &Sweep {
    lines
        .iter()
        .find_map(|line| {
            if let Line::Sweep(sweep) = line {
                Some(sweep)
            } else {
                None
            }
        })
        .expect("every slot has a sweep record")
}

/// Returns the values of the samples of a name by GUID and port.
fn by_port(samples: &[Sample], name: &str) -> BTreeMap<(String, String), f64> {
    let of_name = samples.iter().filter(|(of, ..)| of == name);
    of_name
        .map(|(_, labels, value)| {
            (
                (
                    labels["guid"].clone(),
                    labels.get("port").cloned().unwrap_or_default(),
                ),
                *value,
            )
        })
        .collect()
}

fn one(samples: &[Sample], name: &str) -> f64 {
    let found: Vec<_> = samples.iter().filter(|(of, ..)| of == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0].2
}

#[test]
fn metrics_equal_the_records_of_the_slot() {
    let harness = Harness::new(Peers::new());
    let settings: BTreeSet<_> = Group::SmplCtl.fields().map(|field| field.json).collect();
    let (mut sent, mut compared, mut arrays) = (0, 0, 0);
    harness.sweep(plan(), &Group::ALL, 4, |done, lines, _| {
        let samples = read(std::str::from_utf8(&harness.metrics.text()).expect("UTF-8"));
        sent += sweep_of(&lines).mads_sent;
        assert_eq!(
            (
                one(&samples, "ibnet_slots_total"),
                one(&samples, "ibnet_mads_sent_total")
            ),
            (done as f64, sent as f64)
        );
        assert_eq!(
            (
                one(&samples, "ibnet_up"),
                one(&samples, "ibnet_assigned_ports")
            ),
            (1.0, 20.0)
        );
        let mut counters = 0;
        for port in ports(&lines) {
            let key = (port.guid.to_string(), port.port.to_string());
            let prefix = format!("infiniband_{}_port", port.kind.unwrap().as_str());
            let single = |name: &str| {
                by_port(&samples, &format!("{prefix}_{name}"))
                    .get(&key)
                    .copied()
            };
            for (json, name) in [
                ("port_xmit_data_bytes", "transmit_data_bytes_total"),
                ("port_rcv_data_bytes", "receive_data_bytes_total"),
                ("port_xmit_pkts", "transmit_packets_total"),
                ("port_xmit_wait_ticks", "transmit_wait_total"),
                ("symbol_error_counter", "symbol_error_total"),
                ("port_dlid_mapping_errors", "dlid_mapping_errors_total"),
                ("port_dlid_mapping_errors", "dli_mapping_errors_total"),
                ("sw_port_vl_congestion", "sw_port_vl_congestion_total"),
            ] {
                if port
                    .counters
                    .get(json)
                    .is_none_or(|value| matches!(value, Value::One(_)))
                {
                    assert_eq!(
                        single(name),
                        port.counter(json).map(|value| value as f64),
                        "{json}"
                    );
                    compared += usize::from(port.counter(json).is_some_and(|value| value > 0));
                }
            }
            // Settings of the agent are not counters; One counter has two names.
            let shown = |name: &str| {
                if settings.contains(name) || is_dt_slots_field(name) {
                    0
                } else {
                    1 + usize::from(name == "port_dlid_mapping_errors")
                }
            };
            let values = |value: &Value| {
                if let Value::Many(values) = value {
                    values.len()
                } else {
                    1
                }
            };
            counters += port
                .counters
                .iter()
                .map(|(name, value)| shown(name) * values(value))
                .sum::<usize>();
            let by_sl = samples.iter().filter(|(name, labels, _)| {
                *name == format!("{prefix}_xmit_data_sl_bytes_total")
                    && (labels["guid"].clone(), labels["port"].clone()) == key
            });
            let by_sl: BTreeMap<usize, f64> = by_sl
                .map(|(_, labels, value)| (labels["sl"].parse().unwrap(), *value))
                .collect();
            if let Some(Value::Many(expected)) = port.counters.get("port_xmit_data_sl_bytes") {
                assert_eq!(
                    by_sl,
                    expected
                        .iter()
                        .map(|value| *value as f64)
                        .enumerate()
                        .collect()
                );
                arrays += 1;
            }
            let share = |name: &str| {
                by_port(&samples, name)
                    .get(&key)
                    .map(|share| (share * 1e6).round() / 1e6)
            };
            assert_eq!(
                share("ibnet_port_transmit_utilization_ratio"),
                port.xmit_utilization
            );
            assert_eq!(
                share("ibnet_port_transmit_blocked_ratio"),
                port.xmit_blocked
            );
        }
        let shown = samples
            .iter()
            .filter(|(name, ..)| name.starts_with("infiniband_") && name.ends_with("_total"))
            .count();
        assert_eq!(shown, counters);
    });
    assert!(
        compared > 100 && arrays > 0,
        "{compared} counters were not zero, {arrays} arrays were there"
    );
}

/// Returns the series of an exposition, without values.
fn series(metrics: &Metrics) -> Vec<String> {
    let text = metrics.text();
    let lines = std::str::from_utf8(&text)
        .expect("UTF-8")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let series: Vec<String> = lines
        .filter_map(|line| line.rsplit_once(' ').map(|(series, _)| series.to_owned()))
        .collect();
    let once: BTreeSet<_> = series.iter().collect();
    assert_eq!(once.len(), series.len(), "a series occurs twice");
    series
}

#[test]
fn ports_of_a_secondary_are_served_on_request_only_and_with_its_role() {
    let (all, _) = ibnet::partition::whole_fabric(&fabric(), "here");
    for with_secondary in [false, true] {
        let harness = Harness::with_secondary(with_secondary, Peers::new());
        let mut looks = 0;
        // Both samplers of all ports in one process: the worst case for series that are not unique.
        harness.sweep(SweepPlan::new(&all), &Group::DEFAULT, 1, |_, _, _| {
            let alone: BTreeSet<_> = series(&harness.metrics).into_iter().collect();
            harness.sweep_as(
                ("here", true),
                SweepPlan::new(&all),
                &Group::DEFAULT,
                1,
                |_, _, _| {
                    let both = series(&harness.metrics);
                    let (of_ports, own): (Vec<_>, Vec<_>) = both
                        .iter()
                        .filter(|series| !alone.contains(*series))
                        .partition(|series| !series.contains("ca_port="));
                    assert_eq!(of_ports.is_empty(), !with_secondary);
                    assert!(
                        of_ports
                            .iter()
                            .chain(&own)
                            .all(|series| series.contains("role=\"secondary\""))
                    );
                    assert!(own.iter().any(|series| series.starts_with("ibnet_up{")));
                    if with_secondary {
                        let primary = alone
                            .iter()
                            .filter(|series| series.contains("guid="))
                            .count();
                        assert_eq!(
                            of_ports.len(),
                            primary,
                            "the same series as those of the primary"
                        );
                    }
                    looks += 1;
                },
            );
        });
        assert_eq!(looks, 1);
    }
}

#[test]
fn several_samplers_of_one_process_have_series_of_their_own() {
    let harness = Harness::new(Peers::new());
    let (all, _) = ibnet::partition::whole_fabric(&fabric(), "here");
    let [first, second] = <[Sampler; 2]>::try_from(all.divided(2)).unwrap();
    let mut seen = Vec::new();
    harness.sweep(SweepPlan::new(&first), &Group::DEFAULT, 1, |_, _, _| {
        seen.extend(
            series(&harness.metrics)
                .into_iter()
                .filter(|series| series.starts_with("ibnet_up{")),
        );
        harness.sweep_as(
            ("there", false),
            SweepPlan::new(&second),
            &Group::DEFAULT,
            1,
            |_, _, _| {
                seen.extend(
                    series(&harness.metrics)
                        .into_iter()
                        .filter(|series| series.starts_with("ibnet_up{")),
                );
            },
        );
    });
    let expected = [
        r#"ibnet_up{ca="sim",ca_port="1",role="primary"}"#,
        r#"ibnet_up{ca="sim",ca_port="1",role="primary",sampler="here"}"#,
        r#"ibnet_up{ca="sim",ca_port="1",role="primary",sampler="there"}"#,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn host_in_both_roles_has_every_series_once() {
    let harness = Harness::with_secondary(true, Peers::new());
    let (all, _) = ibnet::partition::whole_fabric(&fabric(), "here");
    let [first, second] = <[Sampler; 2]>::try_from(all.divided(2)).unwrap();
    let mut seen = 0;
    harness.sweep(SweepPlan::new(&first), &Group::DEFAULT, 1, |_, _, _| {
        harness.sweep_as(
            ("here", true),
            SweepPlan::new(&second),
            &Group::DEFAULT,
            1,
            |_, _, _| {
                seen += series(&harness.metrics)
                    .iter()
                    .filter(|series| series.starts_with("ibnet_up{"))
                    .count();
            },
        );
    });
    assert_eq!(seen, 2);
}

#[test]
fn silent_port_and_overdue_worker_have_no_counters() {
    let harness = Harness::new(Peers::new());
    let fabric = fabric();
    let (dead, device) = fabric
        .iter()
        .find(|(_, device)| device.host() == "node00002")
        .unwrap();
    let key = (device.guid.to_string(), "1".to_owned());
    let text = || read(std::str::from_utf8(&harness.metrics.text()).expect("UTF-8"));
    let data =
        |samples: &[Sample]| by_port(samples, "infiniband_hca_port_transmit_data_bytes_total");
    harness.sweep(plan(), &Group::DEFAULT, 4, |done, _, sim| {
        let samples = text();
        let (alive, up) = (u32::from(done < 3), |name| by_port(&samples, name));
        assert_eq!(data(&samples).len(), 5 + alive as usize);
        assert_eq!(data(&samples).contains_key(&key), alive == 1);
        assert_eq!(up("ibnet_port_up")[&key], f64::from(alive));
        assert_eq!(
            up("infiniband_hca_up")[&(key.0.clone(), String::new())],
            f64::from(alive)
        );
        assert_eq!(
            up("infiniband_hca_uplink_info").len(),
            6,
            "info metrics do not depend on answers"
        );
        let ok = samples
            .iter()
            .find(|(name, labels, _)| name == "ibnet_ports" && labels["status"] == "ok")
            .unwrap()
            .2;
        assert_eq!(ok, f64::from(19 + alive));
        assert!(harness.metrics.is_healthy());
        if done == 2 {
            sim.set_dead(dead, true);
        }
        if done == 4 {
            // A slot is overdue after two intervals and one second.
            harness.advance(2 * INTERVAL + Duration::from_secs(1));
            assert_eq!((data(&text()).len(), one(&text(), "ibnet_up")), (5, 1.0));
            harness.advance(Duration::from_nanos(1));
            let samples = text();
            assert_eq!((data(&samples).len(), one(&samples, "ibnet_up")), (0, 0.0));
            assert!(
                by_port(&samples, "ibnet_port_up")
                    .values()
                    .all(|up| *up == 0.0)
            );
            assert!(
                by_port(&samples, "infiniband_switch_up")
                    .values()
                    .all(|up| *up == 0.0)
            );
            assert_eq!(
                (
                    by_port(&samples, "infiniband_hca_info").len(),
                    one(&samples, "ibnet_slots_total")
                ),
                (6, 4.0)
            );
            assert!(!harness.metrics.is_healthy());
        }
    });
    assert!(
        !text()
            .iter()
            .any(|(name, ..)| name.starts_with("infiniband_")),
        "the series of an ended worker are removed"
    );
}

#[test]
fn peak_is_kept_for_one_to_two_minutes() {
    const NAMES: [&str; 3] = [
        "ibnet_port_transmit_utilization_ratio",
        "ibnet_port_transmit_utilization_peak_ratio",
        "ibnet_port_transmit_blocked_peak_ratio",
    ];
    let harness = Harness::new(Peers::new());
    // Utilization and both peaks after each slot; 25 s pass between slots.
    let mut slots: Vec<[BTreeMap<(String, String), f64>; 3]> = Vec::new();
    harness.sweep(plan(), &[Group::Extended, Group::Base], 10, |_, _, _| {
        let samples = read(std::str::from_utf8(&harness.metrics.text()).expect("UTF-8"));
        slots.push(NAMES.map(|name| by_port(&samples, name)));
        harness.advance(Duration::from_secs(25) - INTERVAL);
    });
    // A window ends with the first slot that starts a minute after the window: every third slot.
    let mut compared = 0;
    for (now, [_, peaks, _]) in slots.iter().enumerate() {
        let began = (now / 3).saturating_sub(1) * 3;
        for (port, peak) in peaks {
            let largest = slots[began..=now]
                .iter()
                .filter_map(|[shares, ..]| shares.get(port))
                .copied()
                .fold(0.0, f64::max);
            assert_eq!(*peak, largest, "slot {now}, {port:?}");
            compared += 1;
        }
    }
    assert!(
        compared > 100 && slots.iter().any(|[.., blocked]| !blocked.is_empty()),
        "{compared}"
    );
}

#[test]
fn scrapes_and_slots_run_concurrently() {
    let harness = Harness::new(Peers::new());
    let (ended, scrapes) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(<[AtomicU64; 3]>::default()),
    );
    let scrapers: Vec<_> = (0..3)
        .map(|scraper| {
            let (metrics, ended, scrapes) = (
                Arc::clone(&harness.metrics),
                Arc::clone(&ended),
                Arc::clone(&scrapes),
            );
            std::thread::spawn(move || {
                let mut last = -1.0;
                loop {
                    let text = metrics.text();
                    // The series of an ended worker are removed.
                    if ended.load(Ordering::SeqCst) {
                        return last;
                    }
                    let samples = read(std::str::from_utf8(&text).expect("UTF-8"));
                    let slots = samples
                        .iter()
                        .find(|(name, ..)| name == "ibnet_slots_total")
                        .map_or(0.0, |(.., value)| *value);
                    assert!(slots >= last, "the number of slots does not decrease");
                    last = slots;
                    scrapes[scraper].fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    harness.sweep(plan(), &Group::DEFAULT, 8, |done, _, _| {
        // Each slot is seen: the second scrape that ends from now on begins after the slot.
        let before: Vec<u64> = scrapes
            .iter()
            .map(|count| count.load(Ordering::SeqCst))
            .collect();
        let is_seen = || {
            scrapes
                .iter()
                .zip(&before)
                .all(|(count, before)| count.load(Ordering::SeqCst) >= before + 2)
        };
        while !is_seen() && !scrapers.iter().any(std::thread::JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        ended.store(done == 8, Ordering::SeqCst);
    });
    for scraper in scrapers {
        assert_eq!(
            scraper.join().unwrap(),
            8.0,
            "the scraper has seen the last slot"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn names_are_escaped_in_labels(names in proptest::collection::vec("\\PC*|[\\x00-\\x7f]*|(\\\\|\"|\n|\\}|# EOF|,a=\"){0,8}", 20)) {
        let mut plan = plan();
        for (port, name) in plan.ports.iter_mut().zip(&names) {
            port.node.clone_from(name);
            if let Some((_, _, peer)) = &mut port.peer {
                peer.clone_from(name);
            }
        }
        let expected: Vec<_> = plan.ports.iter().map(|port| {
            ((port.guid.to_string(), port.port.to_string()), (port.kind, Printable(&port.node).to_string()))
        }).collect();
        let harness = Harness::new(Peers::new());
        harness.sweep(plan, &[Group::Extended], 1, |_, _, _| {
            let samples = read(std::str::from_utf8(&harness.metrics.text()).expect("UTF-8"));
            for ((guid, port), (kind, name)) in &expected {
                let of = |labels: &BTreeMap<String, String>| labels.get("guid") == Some(guid) && labels.get("port") == Some(port);
                let uplink = format!("infiniband_{}_uplink_info", kind.as_str());
                let (_, labels, _) = samples.iter().find(|(name, labels, _)| *name == uplink && of(labels)).expect("the port is linked");
                assert_eq!((&labels[kind.as_str()], &labels["uplink"]), (name, name));
            }
            assert_eq!(samples.iter().filter(|(name, ..)| name.ends_with("_port_transmit_data_bytes_total")).count(), 20);
        });
    }
}

#[test]
fn uplink_info_describes_the_peer_as_in_the_plan() {
    let fabric = fabric();
    let peers = fabric
        .devices()
        .iter()
        .map(|device| (device.guid, (Some(device.kind), device.lid)))
        .collect();
    let harness = Harness::new(peers);
    harness.sweep(plan(), &[Group::Extended], 1, |_, _, _| {
        let samples = read(std::str::from_utf8(&harness.metrics.text()).expect("UTF-8"));
        let mut seen = 0;
        for device in fabric.devices() {
            let kind = device.kind.as_str();
            for (port, peer) in device.linked() {
                let of = |labels: &BTreeMap<String, String>| {
                    labels["guid"] == device.guid.to_string()
                        && labels["port"] == port.num.to_string()
                };
                let uplink = format!("infiniband_{kind}_uplink_info");
                let (_, labels, value) = samples
                    .iter()
                    .find(|(name, labels, _)| *name == uplink && of(labels))
                    .unwrap();
                let other = fabric
                    .devices()
                    .iter()
                    .find(|other| other.guid == peer.guid)
                    .unwrap();
                let expected = [
                    ("guid", device.guid.to_string()),
                    ("port", port.num.to_string()),
                    (kind, device.name.clone()),
                    ("uplink", other.name.clone()),
                    ("uplink_guid", other.guid.to_string()),
                    ("uplink_lid", other.lid.to_string()),
                    ("uplink_port", peer.port.to_string()),
                    (
                        "uplink_type",
                        if other.kind == NodeKind::Switch {
                            "SW"
                        } else {
                            "CA"
                        }
                        .to_owned(),
                    ),
                ];
                assert_eq!(
                    (labels, *value),
                    (
                        &expected
                            .map(|(key, value)| (key.to_owned(), value))
                            .into_iter()
                            .collect(),
                        1.0
                    )
                );
                seen += 1;
            }
        }
        assert_eq!(seen, 20);
    });
}

/// Sends a request and returns the whole answer.
pub(crate) fn ask(address: SocketAddr, request: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    // The server may close the connection before the request is complete.
    let _ = stream.write_all(request.as_ref());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    ask(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"),
    )
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// Serves metrics without workers. Returns the address, and the folder of the secret files.
pub(crate) fn serve(
    tls: Option<(&str, &str)>,
    password: Option<&str>,
) -> (SocketAddr, tempfile::TempDir) {
    serve_networks(tls, password, &[])
}

/// The same for clients of some networks without TLS.
pub(crate) fn serve_networks(
    tls: Option<(&str, &str)>,
    password: Option<&str>,
    networks: &[&str],
) -> (SocketAddr, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let settings = Settings {
        prefix: "metrics.",
        listen: ([127, 0, 0, 1], 0).into(),
        tls: tls.map(|(cert, key)| (write("cert", cert), write("key", key))),
        password_file: password.map(|password| write("password", password)),
        plain_http: networks
            .iter()
            .map(|network| network.parse().unwrap())
            .collect(),
        content: Content::default(),
    };
    // A slow machine exceeds no time limit.
    let limits = Limits {
        newcomer_timeout: Duration::from_secs(3600),
        member_timeout: None,
        ..Limits::default()
    };
    let server = Server::bind(&settings).unwrap().with_limits(limits);
    let address = server.address();
    server.start(Harness::new(Peers::new()).metrics).unwrap();
    (address, folder)
}

#[test]
fn unknown_paths_methods_and_hosts_are_rejected() {
    let (address, _folder) = serve(None, None);
    let metrics = get(
        address,
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
    );
    assert!(
        status(&metrics) == "200"
            && metrics.contains("application/openmetrics-text; version=1.0.0"),
        "{metrics}"
    );
    assert!(
        metrics.contains("ibnet_build_info{version=") && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    assert!(!metrics.to_lowercase().contains("access-control"));
    assert_eq!(
        status(&get(address, "/healthz", "")),
        "503",
        "no slot has ended"
    );
    assert_eq!(status(&get(address, "/../../etc/passwd", "")), "404");
    assert_eq!(
        status(&ask(
            address,
            format!("POST /metrics HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")
        )),
        "405"
    );
    for host in [
        &b"rebound.example"[..],
        b"localhost\xff",
        b"\xff",
        b"localhost\r\nHost: rebound.example",
    ] {
        let request = [b"GET /metrics HTTP/1.1\r\nHost: ", host, b"\r\n\r\n"].concat();
        assert_eq!(
            status(&ask(address, &request)),
            "421",
            "{}",
            String::from_utf8_lossy(host)
        );
    }
    assert_eq!(
        status(&ask(
            address,
            format!(
                "GET /metrics HTTP/1.1\r\nHost: {address}\r\nX: {}\r\n\r\n",
                "x".repeat(1 << 20)
            )
        )),
        "431"
    );
    assert_eq!(status(&ask(address, "\0\u{1}\u{2}\r\n\r\n")), "400");
    assert_eq!(
        status(&get(address, "/metrics", "")),
        "200",
        "the server still answers"
    );
}

#[test]
fn client_chooses_format_and_compression() {
    let (address, _folder) = serve(None, None);
    let plain = get(address, "/metrics", "");
    assert!(
        plain.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{plain}"
    );
    assert!(
        plain.contains("vary: accept, accept-encoding\r\n") && !plain.contains("content-encoding"),
        "{plain}"
    );
    let (_, plain) = plain.split_once("\r\n\r\n").unwrap();
    assert!(
        !plain.contains("# EOF") && plain.contains("# TYPE ibnet_slots_total counter\n"),
        "{plain}"
    );
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\nAccept-Encoding: deflate, gzip\r\n\r\n"
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer
        .windows(4)
        .position(|octets| octets == b"\r\n\r\n")
        .unwrap()
        + 4;
    let (head, body) = answer.split_at(end);
    let head = std::str::from_utf8(head).unwrap();
    assert!(
        head.contains("content-encoding: gzip\r\n")
            && head.contains(&format!("content-length: {}\r\n", body.len())),
        "{head}"
    );
    let mut unpacked = String::new();
    GzDecoder::new(body).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain);
}

#[test]
fn families_that_are_not_selected_are_not_served() {
    let select = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect();
        let content = Content {
            families: Families::new(&patterns).expect("valid patterns"),
            ..Content::default()
        };
        let harness = Harness::serving(content, Peers::new());
        let mut names = BTreeSet::new();
        harness.sweep(plan(), &Group::ALL, 16, |_, _, _| {
            let text = harness.metrics.text();
            let text = std::str::from_utf8(&text).expect("UTF-8");
            let served = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
            names = served
                .map(|line| {
                    let (name, kind) = line.split_once(' ').unwrap();
                    if kind == "counter" {
                        format!("{name}_total")
                    } else {
                        name.to_owned()
                    }
                })
                .collect();
            // A family that is not served leaves no sample behind.
            read(text);
        });
        names
    };
    let default = select(&[]);
    let all = select(&["*"]);
    assert!(
        default.len() > 100 && default.is_subset(&all),
        "{}",
        default.len()
    );
    let physical = all.difference(&default);
    assert!(physical.clone().count() > 8, "{physical:?}");
    assert!(
        physical
            .clone()
            .all(|name| name.ends_with("_bit_error_ratio")
                || name.ends_with("_celsius")
                || name.ends_with("_power_watts")
                || name.ends_with("_uptime_seconds")
                || name.starts_with("infiniband_switch_fan_")),
        "{physical:?}"
    );
    // Each family can be selected by its name.
    for name in &all {
        assert!(
            Families::new(std::slice::from_ref(name)).is_ok(),
            "{name} is not in the list of families"
        );
    }
    let (traffic, rest) = (
        select(&["infiniband_*_bytes_total", "ibnet_up"]),
        select(&["!infiniband_*_bytes_total", "!ibnet_up"]),
    );
    assert!(
        traffic.contains("infiniband_switch_port_transmit_data_bytes_total")
            && traffic.contains("ibnet_up"),
        "{traffic:?}"
    );
    assert!(
        traffic
            .iter()
            .all(|name| name == "ibnet_up" || name.ends_with("_bytes_total")),
        "{traffic:?}"
    );
    assert!(traffic.is_disjoint(&rest) && traffic.union(&rest).eq(&default));
    assert_eq!(
        select(&["ibnet_build_info"]),
        BTreeSet::from(["ibnet_build_info".to_owned()])
    );
}

#[test]
fn physical_layer_has_the_values_of_its_newest_records() {
    let families = Families::new(&["*".to_owned()]).expect("valid patterns");
    let content = Content {
        families,
        ..Content::default()
    };
    let harness = Harness::serving(content, Peers::new());
    let integer = |record: &strict::Physical, name: &str| match record.values[name] {
        physical::Value::Integer(value) => value,
        ref other => panic!("{name}: {other:?}"),
    };
    let (mut ratios, mut modules, mut compared) = (BTreeMap::new(), BTreeMap::new(), 0);
    harness.sweep(plan(), &[Group::Extended], 60, |_, lines, _| {
        for line in lines {
            let Line::Physical(record) = line else {
                continue;
            };
            let key = (
                record.head.guid.to_string(),
                record
                    .head
                    .port
                    .map(|port| port.to_string())
                    .unwrap_or_default(),
            );
            match &*record.head.kind {
                "phy" if record.values.contains_key("raw_ber_coef") => {
                    let parts = ["coef", "magnitude"];
                    let [coefficient, magnitude] =
                        parts.map(|part| integer(&record, &format!("raw_ber_{part}")));
                    ratios.insert(key, ber(coefficient, magnitude));
                }
                "module" => {
                    let physical::Value::Integers(power) = &record.values["rx_power_uw"] else {
                        panic!("{record:?}");
                    };
                    modules.insert(key, power[..4].to_vec());
                }
                _ => {}
            }
        }
        let text = harness.metrics.text();
        let samples = read(std::str::from_utf8(&text).expect("UTF-8"));
        let mut found = BTreeMap::new();
        for kind in ["switch", "hca"] {
            let name = format!("infiniband_{kind}_port_raw_bit_error_ratio");
            found.extend(by_port(&samples, &name));
            let name = format!("infiniband_{kind}_port_module_receive_power_watts");
            for (_, labels, watts) in samples.iter().filter(|sample| sample.0 == name) {
                let key = (labels["guid"].clone(), labels["port"].clone());
                let lane: usize = labels["lane"].parse().expect("a lane");
                assert_eq!(*watts, modules[&key][lane] as f64 / 1e6);
                compared += 1;
            }
        }
        assert_eq!(found, ratios);
    });
    assert!(
        ratios.len() == 20 && modules.len() > 15 && compared > 1000,
        "{compared}"
    );
}
