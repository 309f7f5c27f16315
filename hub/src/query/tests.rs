//! Compares the answers of the hub with those of `ibnet_analysis` for the same records in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::errors::{Errors, Thresholds};
use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::input::{self, Inputs};
use ibnet_analysis::job::all::{AllJobs, JobList, JobTotal};
use ibnet_analysis::job::sharing::{Shares, equal_bins};
use ibnet_analysis::links::{self, LinkOrder};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::stat::Stat;
use ibnet_analysis::trees::{Limits as TreeLimits, Trees};
use ibnet_record::types::{Guid, PortNum};
use serde_json::{Value as Json, json};

mod cabling;
mod minutes;
mod path;
mod seam;

pub(crate) use self::seam::pack;
use super::evaluated::Evaluations;
use super::heat::{self, Join, Request};
use super::jobs;
use super::series::{self, As, SeriesMetric};
use crate::archive::Archive;
use crate::ingest::{self, Clock};
use crate::input::{Message, What};
use crate::jobs::settle;
use crate::live::frame::{FULL, INCREASE, NO_ANSWER, NO_DATA};
use crate::state::Hub;
use crate::store::Limits;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000;
const SLOTS: u64 = 200;

/// Switches and hosts: two leaf switches with two hosts each, and a spine switch.
const LINKS: [((u64, u8), (u64, u8)); 6] = [
    ((1, 1), (0x101, 1)),
    ((1, 2), (0x102, 1)),
    ((2, 1), (0x103, 1)),
    ((2, 2), (0x104, 1)),
    ((1, 3), (9, 1)),
    ((2, 3), (9, 2)),
];

fn node(guid: u64) -> String {
    if guid >= 0x100 {
        format!("node{guid:03x} mlx5_0")
    } else {
        format!("switch{guid}")
    }
}

/// Returns the record of a port in a slot. `number` distinguishes the ports.
fn record(
    number: u64,
    (guid, port): (u64, u8),
    peer: (u64, u8),
    slot: u64,
    is_secondary: bool,
) -> Option<String> {
    let late = if is_secondary {
        SECOND / 2
    } else {
        7_000_003 * number
    };
    let ts = slot * SECOND + late;
    let passed = slot - START + u64::from(is_secondary);
    // Port 3 is not reached for a while, and port 5 has a gap.
    let is_silent = number == 3 && (50..70).contains(&passed) && !is_secondary;
    if number == 5 && (90..95).contains(&passed) {
        return None;
    }
    let mut line = json!({
        "type": "port", "ts": ts, "slot": slot, "sampler": if is_secondary { "s2" } else { "s1" }, "guid": Guid(guid).to_string(), "port": port,
        "lid": guid, "node": node(guid), "kind": if guid >= 0x100 { "hca" } else { "switch" }, "hops": 1,
        "peer_guid": Guid(peer.0).to_string(), "peer_port": peer.1, "peer": node(peer.0), "link": "4xEDR", "link_source": "live",
        "status": if is_silent { "timeout" } else { "ok" }, "rtt_ns": 40_000 + 100 * number, "rtt_min_ns": 30_000, "mads": 2, "identity": "ok",
        "dt_ns": null, "xmit_gbps": null, "rcv_gbps": null, "xmit_utilization": null, "rcv_utilization": null, "xmit_blocked": null,
    });
    if is_secondary {
        line["role"] = json!("secondary");
    }
    if is_silent {
        return Some(line.to_string());
    }
    // A congestion for some time: the port to host 0x104 is full, and the ports before it wait,
    // from host 0x101 over the spine switch.
    let is_congested = (100..150).contains(&passed);
    let full = if is_congested && number == 6 {
        0.97
    } else {
        0.1 + number as f64 / 40.0
    };
    let blocked = if is_congested && [1, 8, 11].contains(&number) {
        0.5
    } else {
        0.001 * number as f64
    };
    line["port_xmit_data_bytes"] = json!(passed * 1_000_000_000 * (number + 1));
    line["port_rcv_data_bytes"] = json!(passed * 900_000_000 * (number + 2));
    // A reset after 120 slots.
    let counted = if passed >= 120 { passed - 120 } else { passed };
    line["symbol_error_counter"] = json!(if number == 4 { counted / 10 } else { 0 });
    line["port_rcv_errors"] = json!(if number == 2 { passed / 7 } else { 3 });
    if passed > 0 {
        line["dt_ns"] = json!(SECOND);
        for (name, value) in [
            ("xmit_gbps", 100.0 * full),
            ("rcv_gbps", 50.0),
            ("xmit_utilization", full),
            ("rcv_utilization", 0.5),
            ("xmit_blocked", blocked),
        ] {
            line[name] = json!((value * 1e6_f64).round() / 1e6);
        }
    }
    Some(line.to_string())
}

/// Returns the lines of all samplers. The secondary reads three ports.
pub(crate) fn lines() -> Vec<String> {
    let ends: Vec<_> = LINKS
        .iter()
        .flat_map(|(a, b)| [(*a, *b), (*b, *a)])
        .collect();
    let mut lines = Vec::new();
    for sampler in ["s1", "s2"] {
        lines.push(
            json!({"type": "start", "ts": START * SECOND, "slot": START, "sampler": sampler, "schema": 1, "version": "x", "pid": 1,
            "ca": "sim", "ca_port": 1, "role": if sampler == "s1" { "primary" } else { "secondary" }, "interval_ns": SECOND, "ports": 12})
            .to_string(),
        );
    }
    for slot in START..START + SLOTS {
        for (number, (key, peer)) in (0..).zip(&ends) {
            lines.extend(record(number, *key, *peer, slot, false));
            if (2..5).contains(&number) {
                lines.extend(record(number, *key, *peer, slot, true));
            }
        }
        let passed = slot - START;
        let mut event = |name: &str, guid: u64, port: Option<u8>, detail: &str| {
            lines.push(json!({"type": "event", "ts": slot * SECOND + 1, "slot": slot, "sampler": "s1", "ca": "sim", "ca_port": 1, "role": "primary", "event": name, "guid": Guid(guid).to_string(), "port": port, "lid": guid, "detail": detail}).to_string());
        };
        match passed {
            60 => event("unreachable", 0x103, None, "x"),
            80 => event("reachable", 0x103, None, "x"),
            130 => event("link_down", 1, Some(2), ""),
            140 => event("link_change", 2, Some(1), "4xEDR to 1xEDR"),
            150 => event("sm", 0x101, None, "master, priority 14"),
            _ => {}
        }
        lines.push(json!({"type": "sweep", "ts": slot * SECOND + SECOND / 4, "slot": slot, "sampler": "s1", "ca": "sim", "ca_port": 1, "role": "primary", "duration_ns": 1000, "ports": 12, "ok": 12}).to_string());
    }
    lines
}

pub(crate) fn hub(batches: &[String]) -> Hub {
    let limits = Limits {
        recent_ns: 3600 * SECOND,
        recent_max: usize::MAX,
        minutes_ns: 86_400 * SECOND,
        minutes_max: usize::MAX,
    };
    let hub = Hub::new("test".to_owned(), false, limits, &[Arc::from("a")]);
    let clock = Clock::start();
    for batch in batches {
        ingest::handle(
            &hub,
            Message {
                input: 0,
                live_ns: None,
                what: What::Lines(batch.clone().into_bytes()),
            },
            clock,
        );
    }
    hub
}

/// Path of a file: the forwarding tables of the switches in [`LINKS`], or the marks of
/// applications.
pub(crate) fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join("src/query/tests").join(name)
}

/// Adds three jobs with their traffic. Two of them use the same leaf switch, and one has ended.
pub(crate) fn add_jobs(hub: &Hub) {
    // The recording has been read.
    add_jobs_at(hub, Duration::from_secs(60));
}

/// Adds the jobs some time after the last lines.
fn add_jobs_at(hub: &Hub, later: Duration) {
    let job = |id: &str, nodes: &str, from: u64, to: Option<u64>| {
        crate::jobs::tests::job(id, nodes, START + from, to.map(|to| START + to))
    };
    let runs = vec![
        job("7", "node101,node104,gone", 40, None),
        job("8", "node102", 90, None),
        job("6", "node103", 20, Some(60)),
    ];
    hub.write()
        .jobs
        .update(crate::jobs::tests::listing(runs, (START + SLOTS) * SECOND));
    hub.write().now += later;
    settle::run(hub);
}

/// Late and repeated lines: the order differs from that of the files.
fn shuffled(lines: &[String]) -> Vec<String> {
    let mut rng = 7_u64;
    let mut order: Vec<usize> = (0..lines.len()).collect();
    for place in 0..order.len() {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let other = (place + (rng >> 33) as usize % 40).min(order.len() - 1);
        order.swap(place, other);
    }
    let again = order.iter().skip(3).step_by(11).copied();
    let mut all: Vec<usize> = order.clone();
    all.extend(again);
    all.iter()
        .map(|place| lines[*place].clone() + "\n")
        .collect()
}

#[test]
fn rows_equal_those_of_the_analysis_of_files() {
    let lines = lines();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.jsonl");
    fs::write(&path, lines.join("\n")).expect("written");
    let hub = hub(&shuffled(&lines));
    for (from, to) in [(0, SLOTS), (95, 155), (40, 75), (118, 126), (199, 200)] {
        let range = (
            (START + from) * SECOND + SECOND / 3,
            (START + to) * SECOND + SECOND / 3,
        );
        let inputs = Inputs {
            files: vec![path.clone()],
            from: Some(range.0),
            to: Some(range.1),
        };
        let ((ports, devices), _) =
            input::read(&inputs, &(Ports::with_bins(64), Devices::default())).expect("read");
        let ports = ports.finish();
        let found = Evaluations::default().find(&hub, range).expect("evaluated");
        let json = |rows: &dyn erased::Rows| rows.json();
        for order in [
            LinkOrder::Utilization,
            LinkOrder::Blocked,
            LinkOrder::Errors,
        ] {
            let expected: Vec<_> = links::sorted(&links::find(&ports), order)
                .iter()
                .map(|link| link.row(Stat::Mean))
                .collect();
            assert_eq!(
                json(&found.links(order, 0)),
                json(&expected),
                "links from {from} to {to}"
            );
            assert!(
                expected.len() == 6 || from == 199,
                "links from {from} to {to}"
            );
        }
        let trees = Trees::find(&ports, &devices, TreeLimits::default()).rows();
        let congestion = found.congestion(&hub);
        assert_eq!(
            json(&congestion.trees.rows()),
            json(&trees),
            "trees from {from} to {to}"
        );
        let regions = Trees::find_regions(&ports, &devices, TreeLimits::default());
        assert_eq!(
            json(&congestion.regions.regions(&[], None)),
            json(&regions.regions(&[], None)),
            "regions from {from} to {to}"
        );
        let errors = Errors::find(&ports, &devices, &Thresholds::default(), None).rows();
        assert_eq!(
            json(&found.errors(&Thresholds::default()).rows()),
            json(&errors),
            "errors from {from} to {to}"
        );
        if from == 95 {
            assert!(
                !trees.is_empty() && !errors.is_empty(),
                "the records contain congestion and errors"
            );
        }
    }
}

/// Rows of any type as JSON.
mod erased {
    pub(super) trait Rows {
        fn json(&self) -> serde_json::Value;
    }

    impl<R: serde::Serialize> Rows for Vec<R> {
        fn json(&self) -> serde_json::Value {
            serde_json::to_value(self).expect("JSON")
        }
    }
}

/// Returns time and value of a field in the records of a port, without those of the secondary.
fn raw(lines: &[String], (guid, port): (u64, u8), field: &str) -> Vec<(u64, Json)> {
    let all = lines
        .iter()
        .map(|line| serde_json::from_str::<Json>(line).expect("JSON"));
    let of_port = all.filter(|line| {
        line["type"] == "port"
            && line["guid"] == Guid(guid).to_string()
            && line["port"] == port
            && line["role"].is_null()
    });
    of_port
        .map(|line| (line["ts"].as_u64().expect("a time"), line[field].clone()))
        .collect()
}

fn find(hub: &Hub, key: (u64, u8), metric: &str, form: As, step: Option<u64>) -> Json {
    find_in(
        hub,
        key,
        metric,
        form,
        step,
        (START * SECOND, (START + SLOTS) * SECOND),
    )
}

fn find_in(
    hub: &Hub,
    key: (u64, u8),
    metric: &str,
    form: As,
    step: Option<u64>,
    range: (u64, u64),
) -> Json {
    let found = series::find(
        hub,
        (Guid(key.0), PortNum(key.1)),
        &[SeriesMetric::parse(metric, form).expect("a metric")],
        range,
        step,
    );
    serde_json::to_value(&found.expect("found")[0]).expect("JSON")
}

#[test]
fn series_equal_the_records() {
    let lines = lines();
    let hub = hub(&shuffled(&lines));
    for key in [(0x104, 1), (2, 2), (1, 1)] {
        for field in [
            "xmit_gbps",
            "rcv_gbps",
            "xmit_utilization",
            "xmit_blocked",
            "port_xmit_data_bytes",
            "port_rcv_errors",
        ] {
            let (t, v): (Vec<u64>, Vec<Json>) = raw(&lines, key, field).into_iter().unzip();
            let found = find(&hub, key, field, As::Total, None);
            assert_eq!(
                (&found["t"], &found["v"]),
                (&json!(t), &json!(v)),
                "{field}"
            );
        }
    }
    let rates = find(&hub, (0x104, 1), "port_xmit_data_bytes", As::Rate, None);
    assert_eq!(
        (
            &rates["v"][0],
            rates["v"][1].as_f64(),
            rates["v"][199].as_f64()
        ),
        (&Json::Null, Some(8e9), Some(8e9))
    );
}

#[test]
fn no_value_of_a_series_depends_on_the_range() {
    const STEPS: usize = 19;
    let lines = lines();
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("archive");
    pack(&root, &lines);
    let last = format!(r#""slot":{},"#, START + SLOTS - 1);
    let of_last_slot: Vec<_> = lines
        .iter()
        .filter(|line| line.contains(&last))
        .cloned()
        .collect();
    let archived = hub(&[of_last_slot.join("\n") + "\n"]).with_archive(Some(Archive::new(root)));
    let (start, step) = (START * SECOND + SECOND / 3, 10 * SECOND);
    for hub in [hub(&[lines.join("\n") + "\n"]), archived] {
        for (a, b) in LINKS {
            for key in [a, b] {
                for (metric, form) in [
                    ("xmit_utilization", As::Total),
                    ("xmit_blocked", As::Total),
                    ("port_xmit_data_bytes", As::Total),
                    ("port_xmit_data_bytes", As::Rate),
                    ("symbol_error_counter", As::Rate),
                ] {
                    let steps = |range: std::ops::Range<usize>| {
                        let [from, to] =
                            [range.start, range.end].map(|number| start + number as u64 * step);
                        find_in(&hub, key, metric, form, Some(step), (from, to))["v"]
                            .as_array()
                            .expect("values")
                            .clone()
                    };
                    let whole = steps(0..STEPS);
                    for range in [0..1, 0..7, 3..4, 5..10, 6..STEPS, 9..12, 13..14] {
                        assert_eq!(
                            steps(range.clone()),
                            whole[range.clone()],
                            "{metric} ({form:?}) of {key:?}, steps {range:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn secondary_fills_the_gap_in_a_series() {
    let lines = lines();
    let hub = hub(&shuffled(&lines));
    // The fourth port: the primary does not answer from slot 50 to 69.
    let found = find(
        &hub,
        (0x102, 1),
        "xmit_utilization",
        As::Total,
        Some(SECOND),
    );
    let values = found["v"].as_array().expect("values");
    let missing = |values: &[Json]| values.iter().filter(|value| value.is_null()).count();
    // No record describes the last slot yet.
    let (last, before) = values.split_last().expect("values");
    assert_eq!((missing(before), last), (0, &Json::Null), "{found}");
}

#[test]
fn steps_have_means_and_maxima() {
    let hub = hub(&shuffled(&lines()));
    let found = find(
        &hub,
        (2, 2),
        "xmit_utilization",
        As::Total,
        Some(50 * SECOND),
    );
    let values = |name: &str| {
        found[name]
            .as_array()
            .expect("values")
            .iter()
            .map(|value| value.as_f64().map(|value| (value * 1000.0).round()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (found["t"][0].as_u64(), values("max")),
        (
            Some((START + 50) * SECOND),
            [250.0, 970.0, 970.0, 250.0].map(Some).to_vec()
        )
    );
    let total = find(
        &hub,
        (2, 2),
        "port_xmit_data_bytes",
        As::Total,
        Some(100 * SECOND),
    );
    assert_eq!(total["v"].as_array().map(Vec::len), Some(2));
    assert!(total["max"].is_null());
}

fn matrix(
    hub: &Hub,
    metric: heat::HeatMetric,
    join: Join,
    (from, to): (u64, u64),
    step: Option<u64>,
) -> Vec<u8> {
    let request = Request {
        metric,
        join,
        from,
        to,
        step,
    };
    heat::find(hub, request).expect("a matrix")
}

#[test]
fn matrix_has_the_values_of_the_frames() {
    let hub = hub(&[lines().join("\n") + "\n"]);
    // Time passes, so the topology is sent.
    hub.tick(Clock::start().now());
    let frame = hub.frame().expect("a frame");
    assert_eq!(frame.topology.ports.len(), 12);
    let metric = heat::METRICS[0];
    let (from, to) = ((START + SLOTS - 10) * SECOND, (START + SLOTS) * SECOND);
    let octets = matrix(&hub, metric, Join::Max, (from, to), Some(SECOND));
    let number = |at: usize| u16::from_le_bytes([octets[at], octets[at + 1]]);
    assert_eq!(
        (&octets[..4], octets.len()),
        (&b"IBH1"[..], 32 + 2 * 12 * 10)
    );
    for port in 0..12 {
        // The last slot begins at the end of the ninth column.
        assert_eq!(
            number(32 + 2 * (8 * 12 + port)),
            frame.values[0][port],
            "port {port}"
        );
    }
    let index = frame
        .topology
        .find((Guid(0x102), PortNum(1)))
        .expect("a port");
    let (from, to) = ((START + 40) * SECOND, (START + 80) * SECOND);
    let octets = matrix(&hub, metric, Join::Mean, (from, to), None);
    let columns = u32::from_le_bytes([octets[28], octets[29], octets[30], octets[31]]);
    let at = |column: usize| {
        u16::from_le_bytes([
            octets[32 + 2 * (column * 12 + index)],
            octets[33 + 2 * (column * 12 + index)],
        ])
    };
    assert_eq!(columns, 40);
    assert!(
        (0..40).all(|column| at(column) <= FULL),
        "the secondary fills the gap"
    );
    let gap = frame
        .topology
        .find((Guid(0x103), PortNum(1)))
        .expect("a port");
    let (from, to) = ((START + 90) * SECOND, (START + 95) * SECOND);
    let octets = matrix(&hub, metric, Join::Max, (from, to), None);
    let value = u16::from_le_bytes([
        octets[32 + 2 * (2 * 12 + gap)],
        octets[33 + 2 * (2 * 12 + gap)],
    ]);
    assert!([NO_DATA, NO_ANSWER].contains(&value), "{value}");
}

#[test]
fn sums_of_jobs_wait_for_the_records_of_all_samplers() {
    let of = |sampler: &str| -> String {
        let own = format!(r#""sampler":"{sampler}""#);
        let lines = lines();
        let lines = lines.iter().filter(|line| line.contains(&own));
        // Two samplers with ports of their own.
        lines
            .map(|line| line.replace(r#","role":"secondary""#, "") + "\n")
            .collect()
    };
    let whole = hub(&[of("s1"), of("s2")]);
    add_jobs(&whole);
    let sums = |hub: &Hub| {
        let state = hub.read();
        let jobs = state.jobs.within(0, u64::MAX);
        let sum = |total: &JobTotal| (total.injected_bytes, total.covered_seconds);
        jobs.map(|known| known.total.as_ref().map(sum))
            .collect::<Vec<_>>()
    };
    let expected = sums(&whole);
    assert!(expected.iter().all(Option::is_some), "{expected:?}");
    // The second file is read after the source of the jobs.
    let later = hub(&[of("s1")]);
    add_jobs_at(&later, Duration::ZERO);
    assert_eq!(sums(&later), vec![None; expected.len()]);
    let message = Message {
        input: 0,
        live_ns: None,
        what: What::Lines(of("s2").into_bytes()),
    };
    ingest::handle(&later, message, Clock::start());
    add_jobs(&later);
    assert_eq!(sums(&later), expected);
}

#[test]
fn answers_over_a_fixed_range_have_the_records_that_came_later() {
    let lines = lines();
    let (late, first): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|line| line.contains(r#""guid":"0x0000000000000101""#));
    let text = |lines: &[String]| lines.join("\n") + "\n";
    let range = (START * SECOND, (START + SLOTS + 10) * SECOND);
    let evaluations = Evaluations::default();
    let links = |hub: &Hub| {
        let found = evaluations.find(hub, range).expect("evaluated");
        serde_json::to_value(found.links(LinkOrder::Utilization, 0)).expect("JSON")
    };
    let hub = hub(&[text(&first)]);
    let clock = Clock::start();
    let before = links(&hub);
    let what = What::Lines(text(&late).into_bytes());
    let message = Message {
        input: 0,
        live_ns: None,
        what,
    };
    ingest::handle(&hub, message, clock);
    let mut now = clock.now();
    now.monotonic += Duration::from_secs(60);
    hub.tick(now);
    let after = links(&hub);
    assert_ne!(before, after);
    let fresh = Evaluations::default().find(&hub, range).expect("evaluated");
    let fresh = fresh.links(LinkOrder::Utilization, 0);
    assert_eq!(after, serde_json::to_value(fresh).expect("JSON"));
    assert!(
        Arc::ptr_eq(
            &evaluations.find(&hub, range).expect("evaluated"),
            &evaluations.find(&hub, range).expect("evaluated")
        ),
        "without new records, there is one pass"
    );
}

/// The page and a picture of the same records show the same.
#[test]
fn matrix_has_the_values_of_the_heat_map_of_the_files() {
    const COLUMNS: u64 = 150;
    let lines = lines();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.jsonl");
    fs::write(&path, lines.join("\n")).expect("written");
    let hub = hub(&shuffled(&lines));
    hub.tick(Clock::start().now());
    let topology = hub.frame().expect("a frame").topology.clone();
    let (from, to) = ((START + 5) * SECOND, (START + 5 + COLUMNS) * SECOND);
    for metric in heat::METRICS {
        let octets = matrix(&hub, metric, Join::Mean, (from, to), Some(SECOND));
        let inputs = Inputs {
            files: vec![path.clone()],
            from: None,
            to: None,
        };
        let empty = HeatMap::new(vec![metric.name.parse().expect("a metric")], None);
        let (map, _) = input::read(&inputs, &empty).expect("read");
        let grid = map.finish(RowKind::Port).expect("a heat map");
        assert_eq!(grid.step_ns, SECOND);
        let mut values = 0;
        for row in grid.heat_rows() {
            let key = row.guid.zip(row.port).expect("a port");
            let index = topology.find(key).expect("a port");
            let within = row.cells.iter().filter(|cell| cell.start_ns >= from);
            for (column, cell) in within.take(COLUMNS as usize).enumerate() {
                let place = 32 + 2 * (column * topology.ports.len() + index);
                let shown = u16::from_le_bytes([octets[place], octets[place + 1]]);
                values += usize::from(cell.value.is_some());
                let number = |value: f64| (value / metric.scale * f64::from(FULL)).round();
                let shown = Some(f64::from(shown)).filter(|_| shown <= FULL);
                let what = format!("{} at {column} of {key:?}", metric.name);
                assert_eq!(shown, cell.value.map(number), "{what}: {cell:?}");
            }
        }
        assert!(values > 1000, "{}: {values}", metric.name);
    }
}

/// A column can begin with any slot, so that one column has the values of a selected time.
#[test]
fn column_has_the_values_of_the_time_that_was_asked_for() {
    let hub = hub(&[lines().join("\n") + "\n"]);
    hub.tick(Clock::start().now());
    let metric = heat::METRICS[0];
    let ports = hub.frame().expect("a frame").topology.ports.len();
    let codes = |octets: &[u8]| -> Vec<u16> {
        let values = octets[32..].chunks_exact(2);
        values
            .map(|value| u16::from_le_bytes([value[0], value[1]]))
            .collect()
    };
    for from in [93, 97, 100] {
        let range = ((START + from) * SECOND, (START + from + 20) * SECOND);
        let one = matrix(&hub, metric, Join::Max, range, Some(20 * SECOND));
        assert_eq!(one[8..16], range.0.to_le_bytes());
        let slots = codes(&matrix(&hub, metric, Join::Max, range, Some(SECOND)));
        let most = |port: usize| {
            let of_port = slots.iter().skip(port).step_by(ports);
            of_port.filter(|code| **code <= FULL).max().copied()
        };
        let found: Vec<_> = codes(&one)
            .into_iter()
            .map(|code| (code <= FULL).then_some(code))
            .collect();
        assert_eq!(found, (0..ports).map(most).collect::<Vec<_>>(), "{from}");
    }
}

/// Returns the lines of a port with two error counters. One of them is full from the sixth slot on,
/// and the other one increases by 64 in the ninth slot.
fn lines_of_a_full_counter() -> String {
    let line = |passed: u64| {
        let slot = START + passed;
        let mut line = json!({
            "type": "port", "ts": slot * SECOND + 1000, "slot": slot, "sampler": "s1", "guid": Guid(1).to_string(), "port": 1, "lid": 1,
            "node": node(1), "kind": "switch", "link": "4xEDR", "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok",
            "symbol_error_counter": if passed >= 8 { 64 } else { 0 }, "port_rcv_errors": if passed >= 5 { 65_535 } else { 3 },
        });
        if passed >= 5 {
            line["saturated"] = json!(["port_rcv_errors"]);
        }
        line.to_string() + "\n"
    };
    let sweep = |slot: u64| {
        json!({"type": "sweep", "ts": (slot * SECOND) + SECOND / 2, "slot": slot, "sampler": "s1", "ports": 1, "ok": 1}).to_string() + "\n"
    };
    let start = json!({"type": "start", "ts": START * SECOND, "slot": START, "sampler": "s1", "schema": 1, "version": "x", "pid": 1,
        "ca": "sim", "ca_port": 1, "role": "primary", "interval_ns": SECOND, "ports": 1});
    format!(
        "{start}\n{}",
        (0..10)
            .map(|passed| line(passed) + &sweep(START + passed))
            .collect::<String>()
    )
}

#[test]
fn sum_that_lacks_a_counter_is_a_lower_bound_and_an_increase_is_not_0() {
    let hub = hub(&[lines_of_a_full_counter()]);
    hub.tick(Clock::start().now());
    let metric = *heat::METRICS
        .iter()
        .find(|metric| metric.name == "errors")
        .expect("a metric");
    let range = (START * SECOND, (START + 10) * SECOND);
    let matrix = |step: u64, join: Join| {
        let octets = heat::find(
            &hub,
            Request {
                metric,
                join,
                from: range.0,
                to: range.1,
                step: Some(step * SECOND),
            },
        )
        .expect("a matrix");
        let count = 10_usize.div_ceil(step as usize);
        let (values, bounds) = octets[32..].split_at(2 * count);
        let values: Vec<u16> = values
            .chunks(2)
            .map(|value| u16::from_le_bytes([value[0], value[1]]))
            .collect();
        let bounds: Vec<u32> = bounds
            .chunks(4)
            .map(|place| u32::from_le_bytes([place[0], place[1], place[2], place[3]]))
            .collect();
        (values, bounds)
    };
    // A column has the values of the slot that begins at its end.
    // At least 0 says nothing, so these columns have no value.
    let whole = (
        vec![
            0, 0, 0, 0, INCREASE, NO_DATA, NO_DATA, 640, NO_DATA, NO_DATA,
        ],
        vec![7],
    );
    assert_eq!(matrix(1, Join::Max), whole);
    assert_eq!(matrix(5, Join::Max), (vec![INCREASE, 640], vec![1]));
    assert_eq!(matrix(10, Join::Mean), (vec![71], vec![0]));
    let rates = |step: Option<u64>| find_in(&hub, (1, 1), "errors", As::Rate, step, range);
    let raw = rates(None);
    let values = raw["v"]
        .as_array()
        .expect("values")
        .iter()
        .map(Json::as_f64)
        .collect::<Vec<_>>();
    let some = |value: f64| Some(value);
    assert_eq!(
        values,
        [
            None,
            some(0.0),
            some(0.0),
            some(0.0),
            some(0.0),
            None,
            None,
            None,
            some(64.0),
            None
        ],
        "{raw}"
    );
    let (bound, increase) = (json!("at_least"), json!("increase"));
    let mut expected = vec![Json::Null; 10];
    (expected[5], expected[8]) = (increase.clone(), bound.clone());
    assert_eq!(raw["state"], json!(expected));
    let steps = rates(Some(5 * SECOND));
    assert_eq!(
        (&steps["state"], steps["v"][0].is_null()),
        (&json!([increase, bound]), true),
        "{steps}"
    );
    assert_eq!(steps["max"], json!([null, 64.0]), "{steps}");
    let known = find_in(&hub, (1, 1), "symbol_error_counter", As::Rate, None, range);
    assert!(known["state"].is_null(), "{known}");
    let full = find_in(&hub, (1, 1), "port_rcv_errors", As::Total, None, range);
    assert_eq!(
        (&full["state"][4], &full["state"][5]),
        (&Json::Null, &json!("at_least")),
        "{full}"
    );
}

#[test]
fn rate_of_a_counter_is_added_to_the_part_of_a_value_that_it_describes() {
    let line = |slot: u64, ts: u64, counters: &[(&str, u64)]| {
        let mut line = json!({
            "type": "port", "ts": START * SECOND + ts, "slot": START + slot, "sampler": "s1", "guid": Guid(1).to_string(), "port": 1, "lid": 1,
            "node": node(1), "kind": "switch", "link": "4xEDR", "status": "ok", "rtt_ns": 1000, "mads": 1, "identity": "ok",
        });
        counters
            .iter()
            .for_each(|(name, value)| line[name] = json!(value));
        line.to_string() + "\n"
    };
    let (symbols, received) = ("symbol_error_counter", "port_rcv_errors");
    let lines = [
        line(1, SECOND, &[(symbols, 0)]),
        line(2, 3 * SECOND / 2, &[(received, 0)]),
        line(3, 2 * SECOND, &[(symbols, 10)]),
        line(4, 3 * SECOND, &[(symbols, 20), (received, 3)]),
    ];
    let hub = hub(&[lines.concat()]);
    let found = find_in(
        &hub,
        (1, 1),
        "errors",
        As::Rate,
        None,
        (START * SECOND, (START + 5) * SECOND),
    );
    // The second counter has 2 errors a second from half of the first value on.
    assert_eq!(found["v"], json!([null, null, 11.0, 12.0]), "{found}");
}

#[test]
fn topology_has_the_ports_that_came_after_the_last_frame() {
    let all = lines();
    let (first, rest): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|line| !line.contains("\"port\":3,") && !line.contains("\"peer_port\":3,"));
    let hub = hub(&[first.join("\n") + "\n"]);
    let ports = |hub: &Hub| hub.frame().map_or(0, |frame| frame.topology.ports.len());
    let mut now = Clock::start().now();
    now.monotonic = Duration::from_secs(10);
    hub.tick(now);
    assert_eq!(ports(&hub), 8);
    let without_sums: String = rest.iter().map(|line| format!("{line}\n")).collect();
    ingest::handle(
        &hub,
        Message {
            input: 0,
            live_ns: None,
            what: What::Lines(without_sums.into_bytes()),
        },
        Clock::start(),
    );
    now.monotonic = Duration::from_secs(20);
    hub.tick(now);
    assert_eq!((ports(&hub), hub.read().topology.ports.len()), (12, 12));
}

#[test]
fn malformed_lines_are_counted_and_skipped() {
    let hub = hub(&[format!(
        "nonsense\n{}\n{{\"type\":\"port\"}}\n{{\"type\":\"weather\",\"ts\":1}}\n\n",
        lines()[2]
    )]);
    let state = hub.read();
    assert_eq!(
        (
            state.inputs[0].lines,
            state.inputs[0].malformed,
            state.store.counts().added
        ),
        (4, 2, 1)
    );
    assert!(state.inputs[0].first_malformed.is_some());
}

#[test]
fn fields_of_a_newer_sampler_are_counted_in_one_of_256_lines() {
    let newer = |line: &String| {
        line.replace("\"hops\":1", "\"hops\":1,\"colour\":\"blue\",\"weight\":7") + "\n"
    };
    let all: Vec<String> = lines()
        .iter()
        .filter(|line| line.contains("\"hops\":1"))
        .map(newer)
        .collect();
    // The first line, and one more in another batch.
    let hub = hub(&[all[..10].concat(), all[10..300].concat()]);
    let state = hub.read();
    let status = &state.inputs[0];
    assert_eq!(
        (
            status.lines,
            status.malformed,
            status.unknown,
            status.unknown_fields
        ),
        (300, 0, 0, 4)
    );
    assert_eq!(state.store.counts().added, 300);
}

#[test]
fn sampler_that_disappears_is_reported_and_its_ports_have_no_data() {
    let hub = hub(&[lines().join("\n") + "\n"]);
    let clock = Clock::start();
    let mut now = clock.now();
    now.monotonic = Duration::from_secs(3600);
    hub.tick(now);
    let state = hub.read();
    assert_eq!(state.samplers.counts(), (2, 0));
    let filter = crate::events::Filter {
        from: 0,
        to: u64::MAX,
        names: vec!["sampler_silent".to_owned()],
        guid: None,
        port: None,
        limit: 9,
    };
    let about = |row: crate::events::EventRow| (row.sampler, row.node.expect("a sampler"));
    let mut found: Vec<_> = state.events(&filter).into_iter().map(about).collect();
    found.sort();
    let expected = ["s1", "s2"].map(|sampler| ("hub".to_owned(), sampler.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn traffic_of_jobs_equals_that_of_the_analysis_of_files() {
    let lines = lines();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.jsonl");
    fs::write(&path, lines.join("\n")).expect("written");
    let hub = hub(&shuffled(&lines));
    hub.tick(Clock::start().now());
    add_jobs(&hub);
    let settled = hub
        .read()
        .jobs
        .source
        .settled_ns
        .expect("traffic was added");
    assert_eq!(
        settled,
        (START + SLOTS) / 10 * 10 * SECOND - 10 * SECOND,
        "the last records can be late"
    );
    let jobs: Vec<_> = hub
        .read()
        .jobs
        .newest_first()
        .into_iter()
        .map(|known| known.run.clone())
        .collect();
    let inputs = Inputs {
        files: vec![path],
        from: None,
        to: Some(settled),
    };
    let (fold, _) = input::read(
        &inputs,
        &AllJobs::new(JobList::new(&jobs), Some(settle::BIN_NS)),
    )
    .expect("read");
    let expected = fold.finish(None).expect("traffic").jobs;
    let filter = jobs::Filter {
        from: 0,
        to: u64::MAX,
        id: None,
        text: String::new(),
        is_running: None,
        limit: 9,
    };
    let rows = serde_json::to_value(jobs::list(&hub, &filter)).expect("JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(3));
    for row in rows.as_array().into_iter().flatten() {
        let job = expected
            .iter()
            .find(|job| job.job.as_deref() == row["job"].as_str())
            .expect("the job has records");
        for (name, value) in [
            ("injected_bytes", job.injected_bytes),
            ("ejected_bytes", job.ejected_bytes),
            ("blocked_seconds", job.blocked_seconds),
        ] {
            let found = row[name].as_f64().expect("a sum");
            assert!(
                (found - value).abs() <= 1e-9 * value && found > 0.0,
                "{name} of {}: {found} and {value}",
                row["job"]
            );
        }
    }
    let one =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "7", None).expect("found"))
            .expect("JSON");
    let bins = &expected
        .iter()
        .find(|job| job.job.as_deref() == Some("7"))
        .expect("the job")
        .injected_gbps;
    let found: Vec<Option<f64>> =
        serde_json::from_value(one["injected_gbps"].clone()).expect("rates");
    assert_eq!(
        (one["bins_from_ns"].as_u64(), found.len()),
        (Some(START * SECOND), 19)
    );
    // The files have a bin with the half second before the first slot.
    assert!(
        found
            .iter()
            .zip(&bins[bins.len() - 19..])
            .all(|(a, b)| (a.unwrap_or(0.0) - b.unwrap_or(0.0)).abs() < 1e-9),
        "{found:?} {bins:?}"
    );
    assert_eq!(
        one["injected_covered"],
        json!(
            found
                .iter()
                .map(|rate| rate.map(|_| 1.0))
                .collect::<Vec<_>>()
        )
    );
    assert_eq!(one["missing"], json!(["gone"]));
    assert_eq!(
        one["uplinks"].as_array().map(Vec::len),
        Some(2),
        "one link of each leaf switch"
    );
    let neighbours: Vec<_> = one["neighbours"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| (row["job"].clone(), row["leaves"].clone()))
        .collect();
    // Job 6 ended before the last minute, and ran at the other leaf switch in the time of job 7.
    let expected = ["8", "6"].map(|job| (json!(job), json!(1)));
    assert_eq!(neighbours, expected);
    assert_eq!(one["neighbours"][1]["up_gbps"], json!(0.0));
    // The congestion: the port to node104 is full, and node101 waits.
    let during = Some(((START + 105) * SECOND, (START + 145) * SECOND));
    let one =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "7", during).expect("found"))
            .expect("JSON");
    assert_eq!(one["links_from_ns"].as_u64(), during.map(|range| range.0));
    let tree = &one["trees"][0];
    assert_eq!(
        (&tree["why"], &tree["root"]["node"], &tree["job_ports"]),
        (&json!("full"), &json!("switch2"), &json!(1)),
        "{tree}"
    );
    let past =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "6", None).expect("found"))
            .expect("JSON");
    assert_eq!(
        past["links_to_ns"].as_u64(),
        Some((START + 60) * SECOND),
        "the last minute of the job"
    );
    let found = |text: &str, is_running| {
        jobs::list(
            &hub,
            &jobs::Filter {
                text: text.to_owned(),
                is_running,
                ..filter.clone()
            },
        )
        .len()
    };
    assert_eq!(
        (
            found("", Some(true)),
            found("node103", None),
            found("NODE101", None),
            found("user01", Some(false)),
            found("x", None)
        ),
        (2, 1, 1, 1, 0)
    );
}

#[test]
fn matrix_of_a_job_equals_that_of_the_analysis_of_files() {
    let lines = lines();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lines.jsonl");
    fs::write(&path, lines.join("\n")).expect("written");
    let hub = hub(&shuffled(&lines));
    hub.tick(Clock::start().now());
    add_jobs(&hub);
    let ask = |hub: &Hub, id: &str, range| {
        let found = jobs::matrix(hub, &Evaluations::default(), id, range).expect("found");
        serde_json::to_value(found).expect("JSON")
    };
    let range = ((START + 105) * SECOND, (START + 145) * SECOND);
    let without = ask(&hub, "7", Some(range));
    assert_eq!(without["matrix"], Json::Null);
    let reason = without["reason"].as_str().expect("a reason");
    assert!(reason.contains("[routes]"), "{reason}");

    let hub = hub.with_routes(Some(file("routes.fdbs")));
    let found = ask(&hub, "7", Some(range));
    assert_eq!(
        (&found["reason"], &found["ends"]),
        (&Json::Null, &json!("hosts"))
    );
    let cells = found["matrix"]["cells"].as_array().expect("cells");
    let inputs = Inputs {
        files: vec![path],
        from: Some(range.0),
        to: Some(range.1),
    };
    let (ports, _) = input::read(&inputs, &Ports::with_bins(64).and_jobs()).expect("read");
    let (ports, state) = (ports.finish(), hub.read());
    let runs: Vec<_> = ["7", "8"]
        .map(|id| state.jobs.find(id).expect("a job").run.clone())
        .into();
    drop(state);
    let ports = equal_bins(&ports);
    let routes = hub.routes.as_ref().expect("routes").get().expect("read");
    let shares = Shares::of(&ports, &JobList::new(&runs), Some(&routes));
    let expected = shares.matrix(&runs[0].hosts).expect("an estimate");
    let sum = |from: &str, to: &str| {
        let is = |node: bool, name: &str, wanted: &str| match node {
            true => name == wanted,
            false => wanted == "other hosts",
        };
        let own = expected.cells.iter().filter(|cell| {
            is(cell.from_is_node, &cell.from, from) && is(cell.to_is_node, &cell.to, to)
        });
        own.map(|cell| [cell.least_bytes, cell.estimate_bytes, cell.most_bytes])
            .reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]])
    };
    for cell in cells {
        let text = |name: &str| cell[name].as_str().expect("a name");
        let values = ["least_bytes", "estimate_bytes", "most_bytes"]
            .map(|name| cell[name].as_f64().expect("bytes"));
        let expected = sum(text("from"), text("to")).expect("an expected cell");
        for (found, expected) in values.iter().zip(expected) {
            let difference = (found - expected).abs();
            assert!(difference <= 1e-6 * expected, "{cell}: {expected}");
        }
    }
    let pairs: std::collections::BTreeSet<_> = cells
        .iter()
        .map(|cell| (cell["from"].as_str(), cell["to"].as_str()))
        .collect();
    let [first, second, others] = ["node101", "node104", "other hosts"].map(Some);
    let all = [
        (first, second),
        (first, others),
        (second, first),
        (second, others),
        (others, first),
        (others, second),
    ];
    assert_eq!(pairs, all.into());
    // The job ended: its hosts carry the traffic of others.
    let past = ask(&hub, "6", Some(range));
    assert!(past["reason"].is_string(), "{past}");
}

#[test]
fn job_has_the_marks_of_its_nodes_and_the_sums_of_its_time() {
    let hub = hub(&[lines().join("\n") + "\n"]).with_marks(Some(file("marks.csv")));
    hub.tick(Clock::start().now());
    add_jobs(&hub);
    let during = Some(((START + 105) * SECOND, (START + 145) * SECOND));
    let one = |hub: &Hub| {
        let found = jobs::one(hub, &Evaluations::default(), "7", during).expect("found");
        serde_json::to_value(found).expect("JSON")
    };
    let found = one(&hub);
    let names = |rows: &Json| {
        let rows = rows.as_array().into_iter().flatten();
        rows.map(|row| row["name"].clone()).collect::<Vec<_>>()
    };
    // `check` has another node, and `read` is before the selected time.
    assert_eq!(names(&found["marks"]), ["read", "write", "write"]);
    assert_eq!(found["marks"][2]["nodes"], json!("node[101-104]"));
    assert_eq!(names(&found["phases"]), ["write"]);
    let sum = &found["phases"][0];
    assert_eq!((&sum["times"], &sum["value"]), (&json!(2), &json!(6e9)));
    // The second phase is known until the end of the selected time: 10 s and 15 s.
    let seconds = sum["covered_seconds"].as_f64().expect("seconds");
    assert!((seconds - 25.0).abs() < 1.0, "{sum}");
    assert!(sum["injected_bytes"].as_f64() > Some(0.0), "{sum}");
    let none = one(&hub.with_marks(Some(file("no.csv"))));
    let error = none["marks_error"].as_str().expect("a reason");
    assert!(error.contains("no.csv"), "{error}");
}

#[test]
fn node_with_two_ports_counts_once() {
    let mut lines = lines();
    for slot in START..START + SLOTS {
        for (number, key, peer) in [(12, (1, 4), (0x102, 2)), (13, (0x102, 2), (1, 4))] {
            lines.extend(record(number, key, peer, slot, false));
        }
    }
    let hub = hub(&[lines.join("\n") + "\n"]);
    // Time passes, so the topology has the new ports.
    let mut now = Clock::start().now();
    now.monotonic = Duration::from_secs(10);
    hub.tick(now);
    add_jobs(&hub);
    let during = Some(((START + 105) * SECOND, (START + 145) * SECOND));
    let one =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "7", during).expect("found"))
            .expect("JSON");
    let neighbour = &one["neighbours"][0];
    let counts = ["job", "ports", "nodes", "node_count"].map(|name| neighbour[name].clone());
    assert_eq!(counts, [json!("8"), json!(2), json!(1), json!(1)]);
    let run = hub.read().jobs.find("8").expect("a job").run.clone();
    let span = ["start_ns", "end_ns"].map(|name| neighbour[name].clone());
    assert_eq!(span, [json!(run.from), json!(run.to)]);
    let nodes: Vec<_> = one["node_errors"]
        .as_object()
        .expect("errors")
        .keys()
        .collect();
    assert!(nodes.contains(&&"node101".to_owned()), "{nodes:?}");
    // The two ports are blocked for 0.3 % and 1.3 % of the time.
    let other =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "8", during).expect("found"))
            .expect("JSON");
    let blocked = other["blocked"].as_f64().expect("a share");
    assert!((blocked - 0.008).abs() < 1e-6, "{other}");
}

#[test]
fn traffic_of_a_job_begins_with_the_first_record() {
    let later: Vec<_> = lines()
        .into_iter()
        .filter(|line| !(0..44).any(|slot| line.contains(&format!(r#""slot":{},"#, START + slot))))
        .collect();
    let hub = hub(&[later.join("\n") + "\n"]);
    hub.tick(Clock::start().now());
    add_jobs(&hub);
    let one =
        serde_json::to_value(jobs::one(&hub, &Evaluations::default(), "7", None).expect("found"))
            .expect("JSON");
    let from =
        one["traffic_from_ns"].as_u64().expect("a time") as f64 / SECOND as f64 - START as f64;
    assert!((43.0..45.0).contains(&from), "{from}: {one}");
}

#[test]
fn constant_rate_of_a_job_is_the_same_in_each_bin() {
    // Jobs begin and end within a bin, and the first record can be within a bin: before it, an
    // eighth of the time of a value can be unknown.
    for (first, least) in [(0, 79.999), (44, 70.0)] {
        let later: Vec<_> = lines()
            .into_iter()
            .filter(|line| {
                !(0..first).any(|slot| line.contains(&format!(r#""slot":{},"#, START + slot)))
            })
            .collect();
        let hub = hub(&[later.join("\n") + "\n"]);
        hub.tick(Clock::start().now());
        let job = |id: &str, from: u64, to: u64| {
            crate::jobs::tests::job(id, "node101,node104", START + from, Some(START + to))
        };
        let runs = vec![
            job("1", 20, 53),
            job("2", 57, 83),
            job("3", 85, 89),
            job("4", 92, 151),
        ];
        hub.write()
            .jobs
            .update(crate::jobs::tests::listing(runs, (START + SLOTS) * SECOND));
        hub.write().now += Duration::from_secs(60);
        settle::run(&hub);
        for id in ["1", "2", "3", "4"] {
            let one = serde_json::to_value(
                jobs::one(&hub, &Evaluations::default(), id, None).expect("found"),
            )
            .expect("JSON");
            let rates: Vec<Option<f64>> =
                serde_json::from_value(one["injected_gbps"].clone()).expect("rates");
            let rates: Vec<f64> = rates.into_iter().flatten().collect();
            assert!(
                !rates.is_empty() && rates.iter().all(|rate| (least..80.001).contains(rate)),
                "{first}, {id}: {rates:?}"
            );
        }
    }
}
