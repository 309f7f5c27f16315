//! Folds of an archive: columns at once give the same as record by record. One-minute means give
//! nearly the same heat map.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::path::Path;

use ibnet_analysis::devices::Devices;
use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::grid::{Cell, Grid};
use ibnet_analysis::heat::order::RowKind;
use ibnet_analysis::hosts::Hosts;
use ibnet_analysis::input::{self, Fold, Inputs, ReadSummary};
use ibnet_analysis::ports::Ports;
use ibnet_analysis::prevalence::{By, Prevalence, PrevalenceRow};
use ibnet_analysis::record::{Record, Type};
use ibnet_analysis::shares::Distributions;
use ibnet_analysis::stat::Stat;
use ibnet_analysis::when::Zone;
use ibnet_record::types::{Guid, PortNum};
use ibnet_store::archive::Archive;
use ibnet_store::pack::{PackOptions, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::schema::TableName;
use serde_json::json;

/// A slot of ten seconds.
const SLOT_NS: u64 = 10_000_000_000;
const FIRST: u64 = 179_526_240;

/// A fold that gets one record after the other, with all ports and no means.
#[derive(Clone)]
struct ByRecord<F>(F);

impl<F: Fold> Fold for ByRecord<F> {
    fn uses(&self, kind: Type) -> bool {
        self.0.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.0.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        self.0.fields()
    }

    fn add(&mut self, record: &Record<'_>) {
        self.0.add(record);
    }

    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

/// Returns records with faults: missing answers, gaps, copies of a slot, values that cannot be
/// measured, a change of the sampler and of the peer, and a secondary sampler.
fn lines(seed: u64, slots: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counting = fastrand::Rng::with_seed(seed + 1000);
    let mut text = String::new();
    for (guid, port) in [(7_u64, 1_u64), (7, 2), (8, 1)] {
        for sampler in ["a", "b"] {
            let mut last = None;
            let (mut errors, mut octets) = ([counting.u64(..9); 3], [1 << 40; 2]);
            for number in 0..slots {
                errors[0] += u64::from(counting.u8(..40) == 0) * counting.u64(..5);
                errors[1] += counting.u64(..3);
                errors[2] = if counting.u16(..300) == 0 {
                    0
                } else {
                    errors[2] + counting.u64(..2)
                };
                octets = if counting.u16(..500) == 0 {
                    [0; 2]
                } else {
                    octets.map(|sum: u64| sum + counting.u64(..1 << 30))
                };
                let is_saturated = counting.u8(..100) < 3;
                let is_queried = match (guid, sampler) {
                    (7, "b") => port == 2,
                    (8, _) => (sampler == "b") == (number > slots / 2),
                    _ => true,
                };
                if !is_queried || random.u8(..100) == 0 {
                    continue;
                }
                let slot = if random.u8(..100) == 0 {
                    FIRST + number.saturating_sub(1)
                } else {
                    FIRST + number
                };
                let ts = (FIRST + number) * SLOT_NS + random.u64(..1_000_000);
                let is_answer = random.u8(..50) > 0;
                let dt_ns = last.filter(|_| is_answer).map(|last| ts - last);
                let gbps = |random: &mut fastrand::Rng| {
                    if random.u16(..500) == 0 {
                        20_000.0
                    } else {
                        f64::from(random.u32(..100_000_000)) / 1e6
                    }
                };
                let rate = dt_ns.map(|_| gbps(&mut random));
                let mut record = json!({
                    "type": "port", "ts": ts, "slot": slot, "sampler": sampler, "guid": format!("0x{guid:016x}"), "port": port, "lid": if number < slots / 3 { 4 } else { 9 },
                    "node": format!("n{guid} mlx5_0"), "kind": "hca", "hops": null, "peer_guid": "0x0000000000000001",
                    "peer_port": if number % 7 == 0 { None } else { Some(3 + number / 200) },
                    "peer": if number % 100 < 3 { "spine" } else { "leaf" }, "link": "4xEDR", "link_source": "live",
                    "status": if is_answer { "ok" } else { "timeout" }, "rtt_ns": 9000, "rtt_min_ns": null, "mads": 3, "identity": "ok",
                    "dt_ns": dt_ns, "xmit_gbps": rate, "rcv_gbps": rate, "xmit_utilization": null, "rcv_utilization": null,
                    "xmit_blocked": dt_ns.filter(|_| number % 3 == 0).map(|_| f64::from(random.u32(..1_000_000)) / 1e6),
                });
                // Records of an earlier version have neither an MTU nor VLs.
                if number > slots / 3 {
                    record["mtu"] = json!(if number % 100 < 50 { 4096 } else { 2048 });
                    record["vls"] = json!(8);
                }
                if number % 3 == 0 {
                    record["xmit_blocked_dt_ns"] = json!(dt_ns.map(|dt_ns| 3 * dt_ns));
                }
                if is_answer {
                    record["link_downed_counter"] = json!(if is_saturated {
                        255
                    } else {
                        errors[0].min(255)
                    });
                    record["port_xmit_discards"] = json!(errors[1]);
                    record["port_rcv_errors"] = json!(errors[2]);
                    record["symbol_error_counter"] = json!(7);
                    record["port_xmit_data_bytes"] = json!(octets[0]);
                    record["port_rcv_data_bytes"] = json!(octets[1]);
                }
                if is_answer && number % 10 == 4 {
                    record["vl15_dropped"] = json!(errors[1] / 7);
                }
                if is_answer && is_saturated {
                    record["saturated"] = json!(["link_downed_counter"]);
                }
                if (guid, port, sampler) == (7, 2, "b") {
                    record["role"] = json!("secondary");
                }
                if is_answer {
                    last = Some(ts);
                }
                text += &format!("{record}\n");
            }
        }
    }
    text
}

fn pack(root: &Path, text: &str) {
    let mut packer = Packer::new(root, PackOptions::default()).unwrap();
    packer.add(Batch::parse(text.as_bytes())).unwrap();
    packer.finish(&|_, _| {}).unwrap();
}

/// Packs records in the order of time in many runs, so that hours have several parts.
fn pack_parts(root: &Path, text: &str) {
    let mut lines: Vec<(u64, &str)> = text.lines().map(|line| (ts_of(line), line)).collect();
    lines.sort_unstable();
    for some in lines.chunks(400) {
        let mut packer = Packer::new(root, PackOptions::default())
            .unwrap()
            .with_part_rows(500);
        let text: String = some.iter().map(|(_, line)| format!("{line}\n")).collect();
        packer.add(Batch::parse(text.as_bytes())).unwrap();
        packer.finish(&|_, _| {}).unwrap();
    }
    let files = Archive::open(root)
        .unwrap()
        .files(TableName::Ports)
        .unwrap();
    assert!(
        files
            .chunk_by(|a, b| a.0 == b.0)
            .any(|of_hour| of_hour.len() > 1),
        "{files:?}"
    );
}

fn ts_of(line: &str) -> u64 {
    serde_json::from_str::<serde_json::Value>(line).unwrap()["ts"]
        .as_u64()
        .unwrap()
}

/// Records of ports and their events, in the order in which they are folded.
#[derive(Clone, Default)]
struct Order(Vec<(Guid, PortNum, u64, Type)>);

impl Fold for Order {
    fn uses(&self, kind: Type) -> bool {
        matches!(kind, Type::Port | Type::Event)
    }

    fn add(&mut self, record: &Record<'_>) {
        match record {
            Record::Port(port) => self.0.push((port.guid, port.port, port.ts, Type::Port)),
            Record::Event(event) => self.0.extend(
                event
                    .guid
                    .zip(event.port)
                    .map(|(guid, port)| (guid, port, event.ts, Type::Event)),
            ),
            _ => {}
        }
    }

    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

fn map(hosts: Option<&str>) -> HeatMap {
    let metrics = ["xmit_gbps", "xmit_blocked"].map(|name| name.parse().unwrap());
    HeatMap::new(
        metrics.to_vec(),
        hosts.map(|hosts| Hosts::parse(hosts).unwrap()),
    )
}

fn at_once(inputs: &Inputs, hosts: Option<&str>) -> (Grid, ReadSummary) {
    let (heat, summary) = input::read(inputs, &map(hosts)).unwrap();
    (heat.finish(RowKind::Port).unwrap(), summary)
}

fn by_record(inputs: &Inputs, hosts: Option<&str>) -> (Grid, ReadSummary) {
    let (heat, summary) = input::read(inputs, &ByRecord(map(hosts))).unwrap();
    (heat.0.finish(RowKind::Port).unwrap(), summary)
}

#[test]
fn columns_at_once_give_the_cells_of_single_records() {
    for seed in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &lines(seed, 800));
        let all = Inputs {
            files: vec![dir.path().to_owned()],
            from: None,
            to: None,
        };
        let (grid, summary) = at_once(&all, None);
        assert_eq!((grid.rows.len(), summary.minute_hours.0), (3, 0));
        assert!((grid, summary) == by_record(&all, None), "seed {seed}");
        // A part of the time, and a part of the ports.
        let time = |slot: u64| Some((FIRST + slot) * SLOT_NS + 3_000_000_000);
        let part = Inputs {
            from: time(100),
            to: time(500),
            ..all.clone()
        };
        assert!(
            at_once(&part, None) == by_record(&part, None),
            "seed {seed}"
        );
        for hosts in ["n8", "spine", "n7,n8"] {
            assert!(
                at_once(&part, Some(hosts)).0 == by_record(&part, Some(hosts)).0,
                "seed {seed}, {hosts}"
            );
        }
    }
}

#[test]
fn summaries_of_ports_from_columns_are_those_of_single_records() {
    for seed in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &lines(seed, 800));
        let all = Inputs {
            files: vec![dir.path().to_owned()],
            from: None,
            to: None,
        };
        let time = |slot: u64| Some((FIRST + slot) * SLOT_NS + 3_000_000_000);
        let part = Inputs {
            from: time(100),
            to: time(500),
            ..all.clone()
        };
        // Intervals of 1 s, of 32 s, one interval, and none.
        for most in [8_000, 300, 1, 0] {
            for inputs in [&all, &part] {
                for ports in [
                    Ports::for_jobs(most),
                    Ports::with_bins(most),
                    Ports::for_errors(),
                ] {
                    let shares = Distributions::for_stat(if most == 1 {
                        Stat::Percentile(950)
                    } else {
                        Stat::Mean
                    });
                    let empty = (ports, (Devices::default(), shares));
                    assert!(empty.takes_runs());
                    let ((ports, rest), summary) = input::read(inputs, &empty).unwrap();
                    let (ByRecord((expected, expected_rest)), expected_summary) =
                        input::read(inputs, &ByRecord(empty)).unwrap();
                    let (ports, expected) = (ports.finish(), expected.finish());
                    assert_eq!(ports.len(), 3);
                    for (key, port) in &ports {
                        assert_eq!(
                            Some(port),
                            expected.get(key),
                            "seed {seed}, at most {most} intervals"
                        );
                    }
                    assert_eq!(
                        (rest, summary),
                        (expected_rest, expected_summary),
                        "seed {seed}"
                    );
                }
            }
        }
    }
}

#[test]
fn parts_of_an_hour_give_the_cells_of_one_file() {
    for seed in 0..2 {
        let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let text = lines(seed, 800);
        pack(whole.path(), &text);
        pack_parts(parts.path(), &text);
        let of = |dir: &Path| Inputs {
            files: vec![dir.to_owned()],
            from: None,
            to: None,
        };
        let (expected, summary) = at_once(&of(whole.path()), None);
        let (grid, parts_summary) = at_once(&of(parts.path()), None);
        assert!(
            grid == expected && summary.minute_hours == parts_summary.minute_hours,
            "seed {seed}"
        );
        let time = |slot: u64| Some((FIRST + slot) * SLOT_NS + 3_000_000_000);
        let range = |dir: &Path| Inputs {
            from: time(100),
            to: time(500),
            ..of(dir)
        };
        assert!(
            at_once(&range(parts.path()), Some("n8")).0
                == at_once(&range(whole.path()), Some("n8")).0,
            "seed {seed}"
        );
        // With another archive of the same time, the parts are read together.
        let both = Inputs {
            files: vec![parts.path().to_owned(), whole.path().to_owned()],
            from: None,
            to: None,
        };
        assert!(at_once(&both, None).0 == expected, "seed {seed}");
    }
}

#[test]
fn records_and_events_of_parts_are_folded_in_the_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let event = |slot: u64| {
        let record = json!({"type": "event", "ts": (FIRST + slot) * SLOT_NS + 5_000_000_000, "slot": FIRST + slot, "sampler": "a",
            "event": "link_change", "guid": "0x0000000000000007", "port": 1, "lid": 4, "detail": ""});
        format!("{record}\n")
    };
    let text = lines(1, 800) + &(0..800).step_by(50).map(event).collect::<String>();
    pack_parts(dir.path(), &text);
    let (order, _) = input::read(
        &Inputs {
            files: vec![dir.path().to_owned()],
            from: None,
            to: None,
        },
        &Order::default(),
    )
    .unwrap();
    let events = order
        .0
        .iter()
        .filter(|(.., kind)| *kind == Type::Event)
        .count();
    assert_eq!(events, 16);
    for port in [(7, 1), (7, 2), (8, 1)] {
        let times: Vec<u64> = order
            .0
            .iter()
            .filter(|(guid, num, ..)| (guid.0, num.0) == port)
            .map(|(_, _, ts, _)| *ts)
            .collect();
        assert!(times.len() > 700 && times.is_sorted(), "{port:?}");
    }
}

#[test]
fn means_of_minutes_give_nearly_the_cells_of_the_records() {
    let dir = tempfile::tempdir().unwrap();
    // 40 hours: the columns have 120 s. Values that cannot be measured are left out.
    let text: String = lines(1, 40 * 360)
        .lines()
        .filter(|line| !line.contains("20000.0"))
        .map(|line| format!("{line}\n"))
        .collect();
    pack(dir.path(), &text);
    let all = Inputs {
        files: vec![dir.path().to_owned()],
        from: None,
        to: None,
    };
    let (means, summary) = at_once(&all, None);
    assert!(
        summary.minute_hours.0 >= 40 && summary.minute_hours.0 == summary.minute_hours.1,
        "{:?}",
        summary.minute_hours
    );
    let (records, summary) = by_record(&all, None);
    assert_eq!(summary.minute_hours.0, 0);
    assert_eq!(
        (means.step_ns, means.columns, means.rows.len()),
        (records.step_ns, records.columns, records.rows.len())
    );
    assert_eq!(records.step_ns, 120_000_000_000);
    let (mut sums, mut cells, mut far) = ([0.0; 2], 0, 0);
    for (a, b) in means.panels[0]
        .cells
        .iter()
        .flatten()
        .zip(records.panels[0].cells.iter().flatten())
    {
        if let (Cell::Value(a), Cell::Value(b)) = (a, b) {
            sums = [sums[0] + a, sums[1] + b];
            cells += 1;
            // A record at the edge of a column counts for the minute of its end.
            far += u32::from((a - b).abs() > 20.0);
        }
    }
    assert!(
        cells > 3000 && far * 50 < cells && (sums[0] / sums[1] - 1.0).abs() < 1e-3,
        "{cells} cells, {far} far, {sums:?}"
    );
}

/// A record of a minute does not state the slots since the minute before.
#[test]
fn means_of_minutes_give_the_rates_of_counters() {
    let dir = tempfile::tempdir().unwrap();
    let line = |slot: u64| {
        let (octets, is_read) = (slot * 1000, slot.is_multiple_of(3));
        let errors = if is_read {
            format!(r#","symbol_error_counter":{},"base_dt_slots":3"#, slot)
        } else {
            String::new()
        };
        let (ts, slot) = ((FIRST + slot) * SLOT_NS, FIRST + slot);
        format!(
            r#"{{"type":"port","ts":{ts},"slot":{slot},"sampler":"a","guid":"0x0000000000000007","port":1,"lid":1,"node":"n1","kind":"hca","status":"ok","mads":1,"dt_ns":{SLOT_NS},"port_xmit_data_bytes":{octets}{errors}}}"#
        ) + "\n"
    };
    let text: String = (0..40 * 360).map(line).collect();
    pack(dir.path(), &text);
    let all = Inputs {
        files: vec![dir.path().to_owned()],
        from: None,
        to: None,
    };
    for (metric, rate) in [
        ("port_xmit_data_bytes", 100.0),
        ("symbol_error_counter", 0.1),
        ("errors", 0.1),
    ] {
        let heat = HeatMap::new(vec![metric.parse().unwrap()], None);
        let (heat, summary) = input::read(&all, &heat).unwrap();
        assert!(summary.minute_hours.0 >= 40, "{:?}", summary.minute_hours);
        let cells = &heat.finish(RowKind::Port).unwrap().panels[0].cells[0];
        let is_near =
            |cell: &&Cell| matches!(cell, Cell::Value(value) if (value / rate - 1.0).abs() < 0.2);
        let near = cells.iter().filter(is_near).count();
        assert!(
            near + 2 >= cells.len() && cells.len() > 1000,
            "{metric}: {near} of {}",
            cells.len()
        );
    }
}

#[test]
fn summaries_of_ports_from_an_archive_are_those_of_the_lines() {
    for seed in 4..6 {
        let dir = tempfile::tempdir().unwrap();
        let (archive, file) = (dir.path().join("archive"), dir.path().join("lines"));
        // Not all folds read all rates, so not all of them see values that cannot be measured.
        let mut text: String = lines(seed, 800)
            .lines()
            .filter(|line| !line.contains("20000.0"))
            .map(|line| format!("{line}\n"))
            .collect();
        if seed == 5 {
            // Readers accept a line without a field.
            text = text.replace("\"link\":\"4xEDR\",", "");
        }
        pack(&archive, &text);
        std::fs::write(&file, text).unwrap();
        let time = |slot: u64| Some((FIRST + slot) * SLOT_NS + 3_000_000_000);
        for (from, to) in [
            (None, None),
            (time(100), time(500)),
            (time(399), None),
            (None, time(401)),
        ] {
            for ports in [
                Ports::for_jobs(64),
                Ports::with_bins(64),
                Ports::for_errors(),
            ] {
                let empty = (
                    ports,
                    (
                        Devices::default(),
                        Distributions::for_stat(Stat::Percentile(500)),
                    ),
                );
                let read = |path: &Path| {
                    let ((ports, rest), summary) = input::read(
                        &Inputs {
                            files: vec![path.to_owned()],
                            from,
                            to,
                        },
                        &empty,
                    )
                    .unwrap();
                    (
                        ports.finish(),
                        rest,
                        (summary.span, summary.copies, summary.covered),
                    )
                };
                assert!(
                    read(&archive) == read(&file),
                    "seed {seed}, from {from:?} to {to:?}"
                );
            }
        }
    }
}

/// A secondary fills the last slots of an hour, and stops. The next blocked share of the primary,
/// in the next hour, describes these slots too.
#[test]
fn columns_at_once_do_not_describe_the_time_of_another_sampler() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, file) = (dir.path().join("archive"), dir.path().join("lines"));
    let line = |sampler: &str, late_ns: u64, number: u64| {
        let (ts, slot) = ((FIRST + number) * SLOT_NS + late_ns, FIRST + number);
        let mut record = json!({
            "type": "port", "ts": ts, "slot": slot, "sampler": sampler, "guid": "0x0000000000000007", "port": 1, "lid": 1,
            "node": "n1", "kind": "hca", "link": "4xEDR", "status": "ok", "rtt_ns": 9000, "mads": 1, "dt_ns": SLOT_NS, "xmit_gbps": 1.0,
        });
        if number % 5 == if late_ns > 0 { 3 } else { 2 } {
            record["xmit_blocked"] = json!(0.5);
            record["xmit_blocked_dt_ns"] = json!(5 * SLOT_NS);
        }
        if late_ns > 0 {
            record["role"] = json!("secondary");
        }
        format!("{record}\n")
    };
    let primary = (0..800).map(|number| line("a", 0, number));
    let secondary = (0..360).map(|number| line("b", SLOT_NS / 2, number));
    let text: String = primary.chain(secondary).collect();
    pack(&archive, &text);
    std::fs::write(&file, text).unwrap();
    let seconds = [archive, file].map(|path| {
        let inputs = Inputs {
            files: vec![path],
            from: None,
            to: None,
        };
        let (ports, _) = input::read(&inputs, &Ports::with_bins(64)).unwrap();
        let port = ports.finish().into_values().next().unwrap();
        port.all.blocked.seconds()
    });
    // From 3 slots before the first share of the primary to the last one, in slot 797.
    assert_eq!(seconds, [8000.0, 8000.0]);
}

#[test]
fn heat_map_of_an_archive_is_that_of_the_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (archive, file) = (dir.path().join("archive"), dir.path().join("lines"));
    let text: String = lines(3, 800)
        .lines()
        .filter(|line| !line.contains("20000.0"))
        .map(|line| format!("{line}\n"))
        .collect();
    pack(&archive, &text);
    std::fs::write(&file, text).unwrap();
    // The merging of two samplers uses the times of the blocked share, which not all metrics have.
    for metric in [
        "xmit_gbps",
        "xmit_blocked",
        "rtt_ns",
        "rtt_mean_ns",
        "errors",
    ] {
        let empty = HeatMap::new(vec![metric.parse().unwrap()], None);
        let read = |path: &Path| {
            let (heat, summary) = input::read(
                &Inputs {
                    files: vec![path.to_owned()],
                    from: None,
                    to: None,
                },
                &empty,
            )
            .unwrap();
            (
                heat.finish(RowKind::Port).unwrap(),
                (summary.span, summary.copies, summary.covered),
            )
        };
        let ((grid, counts), (expected, expected_counts)) = (read(&archive), read(&file));
        assert_eq!(counts, expected_counts, "{metric}");
        assert!(grid == expected && expected_counts.2 > 0, "{metric}");
    }
}

#[test]
fn hours_outside_of_the_time_range_are_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    pack(dir.path(), &lines(1, 800));
    let time = |slot: u64| Some((FIRST + slot) * SLOT_NS);
    let read = |from: u64, to: u64| {
        let inputs = Inputs {
            files: vec![dir.path().to_owned()],
            from: time(from),
            to: time(to),
        };
        let ((ports, _), summary) =
            input::read(&inputs, &(Ports::for_errors(), Devices::default())).unwrap();
        (ports.finish(), summary)
    };
    let before = read(100, 300);
    // The slots 360 to 719 are the second hour.
    let archive = Archive::open(dir.path()).unwrap();
    let files = archive.files(TableName::Ports).unwrap();
    assert_eq!(files.len(), 3);
    for (hour, path) in &files[1..] {
        assert_eq!(
            archive
                .files_between(TableName::Ports, *hour..=*hour)
                .unwrap(),
            [(*hour, path.clone())]
        );
        std::fs::write(path, "no Parquet").unwrap();
    }
    assert!(read(100, 300) == before && before.0.len() == 3);
    assert_eq!(
        (&before.1.incomplete[..], before.1.first_invalid.is_none()),
        (&[][..], true),
        "no warning about other hours"
    );
    // The time range has no hour at all.
    let (ports, summary) = read(10_000, 20_000);
    assert_eq!((ports.len(), summary.span, summary.lines), (0, None, 0));
}

/// Returns the rows of all links, from columns with means and record by record, and how many hours
/// were read as means.
fn waits(dir: &Path) -> ([Vec<PrevalenceRow>; 2], u64) {
    let inputs = Inputs {
        files: vec![dir.to_owned()],
        from: None,
        to: None,
    };
    let empty = Prevalence::new(0.1, Zone::utc(), None);
    let (waits, summary) = input::read(&inputs, &empty).unwrap();
    let (ByRecord(expected), of_records) = input::read(&inputs, &ByRecord(empty)).unwrap();
    let rows = [(waits, &summary), (expected, &of_records)]
        .map(|(waits, summary)| waits.rows(By::Link, summary.span.unwrap()));
    (rows, summary.minute_hours.0)
}

#[test]
fn waits_from_columns_are_those_of_single_records() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &lines(seed, 800));
        let ([rows, expected], minute_hours) = waits(dir.path());
        assert_eq!((rows.len(), minute_hours), (3, 0));
        assert_eq!(rows, expected, "seed {seed}");
    }
}

#[test]
fn waits_from_means_of_minutes_are_those_of_the_records_within_the_stated_error() {
    const SLOTS: u64 = 50 * 360;
    let mut text = String::new();
    for number in 1..=SLOTS {
        // The record describes the slot before. The port 1 waits in every third minute, and the
        // port 2 in one slot of each minute.
        let (minute, slot_of_minute) = ((number - 1) / 6, (number - 1) % 6);
        let shares = [
            if minute % 3 == 0 { 0.4 } else { 0.0 },
            if slot_of_minute == 2 { 1.0 } else { 0.0 },
        ];
        for (port, blocked) in (1..).zip(shares) {
            let record = json!({
                "type": "port", "ts": (FIRST + number) * SLOT_NS, "slot": FIRST + number, "sampler": "a", "guid": "0x0000000000000007", "port": port,
                "lid": 4, "node": "n7 mlx5_0", "kind": "hca", "hops": null, "link": "4xEDR", "link_source": "live", "status": "ok", "rtt_ns": 9000,
                "mads": 3, "identity": "ok", "dt_ns": SLOT_NS, "xmit_gbps": minute % 7, "rcv_gbps": 0.0, "xmit_blocked": blocked,
            });
            text += &format!("{record}\n");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    pack(dir.path(), &text);
    let ([mut means, mut records], minute_hours) = waits(dir.path());
    assert!(minute_hours >= 50, "{minute_hours}");
    for rows in [&mut means, &mut records] {
        rows.sort_by_key(|row| row.port);
    }
    let is_near = |one: Option<f64>, other: Option<f64>| {
        let (one, other) = (one.unwrap(), other.unwrap());
        (one - other).abs() <= 1e-5 * other.abs()
    };
    // The means are rounded to six decimals.
    for (mean, record) in means.iter().zip(&records) {
        assert!(
            is_near(mean.covered, record.covered)
                && is_near(mean.blocked_seconds, record.blocked_seconds)
                && is_near(mean.sent_bytes, record.sent_bytes)
                && is_near(mean.blocked_seconds_per_gb, record.blocked_seconds_per_gb),
            "{mean:?} {record:?}"
        );
    }
    // Waits of whole minutes are exact.
    assert!(is_near(means[0].above, Some(1.0 / 3.0)), "{means:?}");
    assert!(is_near(records[0].above, Some(1.0 / 3.0)), "{records:?}");
    assert!(is_near(means[0].above_max, Some(1.0 / 3.0)), "{means:?}");
    // Shorter waits are within the bounds of a minute with the mean 1/6 and the max 1. The last
    // slot of an hour is a row of its own, which is not above the limit.
    let (least, minutes) = ((1.0 / 6.0 - 0.1) / 0.9, 1.0 - 50.0 / SLOTS as f64);
    assert!(is_near(records[1].above, Some(1.0 / 6.0)), "{records:?}");
    // Some minutes have five slots, and a larger mean.
    let bound = means[1].above.unwrap();
    assert!(
        (least * minutes..1.02 * least).contains(&bound),
        "{means:?}"
    );
    assert!(is_near(means[1].above_max, Some(minutes)), "{means:?}");
    for (rows, minutes) in [(&means, 1.0), (&records, 0.0)] {
        for row in rows {
            assert!(row.minutes == Some(minutes), "{row:?}");
            assert!(row.above <= row.above_max, "{row:?}");
        }
    }
    assert!(records.iter().all(|row| row.above == row.above_max));
    // The rows of a secondary wait as lines, in which the minutes keep their bounds.
    let dir = tempfile::tempdir().unwrap();
    pack(
        dir.path(),
        &text.replace("\"sampler\":", "\"role\":\"secondary\",\"sampler\":"),
    );
    let ([mut secondary, _], _) = waits(dir.path());
    secondary.sort_by_key(|row| row.port);
    assert_eq!(secondary, means);
}
