//! Derived tables, and the removal of old hours.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::Path;

use ibnet_store::archive::Archive;
use ibnet_store::error::StoreError;
use ibnet_store::hour::{HOUR_NS, Hour};
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::read::ArchiveFile;
use ibnet_store::retain::{Keep, Removed, retain};
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use serde_json::{Value, json};

/// Start of an hour.
const START: u64 = 498_613 * HOUR_NS;
const SECOND: u64 = 1_000_000_000;

/// Returns the record of a port. `rest` adds fields or replaces their values.
fn port(ts: u64, rest: Value) -> String {
    let mut record = json!({
        "type": "port", "ts": ts, "slot": ts / SECOND, "sampler": "a", "guid": "0x0000000000000007", "port": 1, "lid": 4, "node": "n1 mlx5_0",
        "kind": "hca", "hops": null, "peer_guid": "0x0000000000000001", "peer_port": 3, "peer": "leaf", "link": "4xEDR", "link_source": "live",
        "status": "ok", "rtt_ns": 9000, "rtt_min_ns": null, "mads": 3, "identity": "ok", "port_xmit_data_bytes": ts / SECOND,
        "dt_ns": SECOND, "xmit_gbps": 1.0, "rcv_gbps": null, "xmit_utilization": null, "rcv_utilization": null, "xmit_blocked": 0.25,
    });
    rest.as_object()
        .unwrap()
        .iter()
        .for_each(|(name, value)| record[name] = value.clone());
    format!("{record}\n")
}

fn pack(root: &Path, text: &str, most_rows: usize) -> Packed {
    let mut packer = Packer::new(root, PackOptions { verify: true })
        .unwrap()
        .with_most_rows(most_rows);
    for lines in text.split_inclusive('\n').collect::<Vec<_>>().chunks(7) {
        let batch = Batch::parse(lines.concat().as_bytes());
        assert_eq!(batch.invalid, []);
        packer.add(batch).unwrap();
    }
    packer.finish(&|_, _| {}).unwrap()
}

fn files(root: &Path, table: TableName) -> Vec<ArchiveFile> {
    let files = Archive::open(root).unwrap().files(table).unwrap();
    files
        .into_iter()
        .map(|(_, path)| ArchiveFile::open(&path).unwrap())
        .collect()
}

/// Returns the rows of a table as objects.
fn rows(root: &Path, table: TableName) -> Vec<Value> {
    let of_table = |table: Table| {
        (0..table.len()).map(move |row| serde_json::from_slice(&table.line(row)).unwrap())
    };
    files(root, table)
        .into_iter()
        .flat_map(|file| of_table(file.read_all().unwrap()))
        .collect()
}

#[test]
fn minute_has_mean_largest_value_and_percentile_of_its_records() {
    let mut text: String = (0..100)
        .map(|second| {
            port(
                START + (second + 1) * SECOND,
                json!({"xmit_gbps": second, "rtt_ns": 1000 * second}),
            )
        })
        .collect();
    // The last record of the first minute has no answer, and one record describes two seconds.
    text += &port(
        START + 60 * SECOND + 1,
        json!({"status": "timeout", "dt_ns": null, "xmit_gbps": null, "xmit_blocked": null}),
    );
    text += &port(
        START + 30 * SECOND,
        json!({"sampler": "b", "role": "secondary", "dt_ns": 2 * SECOND, "xmit_gbps": 4.0}),
    );
    text += &port(
        START + 31 * SECOND,
        json!({"sampler": "b", "role": "secondary", "xmit_gbps": 1.0, "xmit_blocked_dt_ns": 3 * SECOND, "xmit_blocked": 1.0}),
    );
    for most_rows in [1000, 20] {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &text, most_rows);
        let rows = rows(dir.path(), TableName::PortsMinute);
        let fields = |row: &Value, names: &[&str]| {
            names
                .iter()
                .map(|name| row[name].clone())
                .collect::<Vec<_>>()
        };
        let names = [
            "sampler",
            "ts",
            "records",
            "answered",
            "dt_ns",
            "xmit_gbps",
            "xmit_gbps_max",
            "xmit_gbps_p95",
            "port_xmit_data_bytes",
        ];
        let last = |second: u64| (START + second * SECOND, START / SECOND + second);
        assert_eq!(rows.len(), 3);
        let (ts, octets) = last(60);
        assert_eq!(
            fields(&rows[0], &names),
            [
                json!("a"),
                json!(ts),
                json!(61),
                json!(60),
                json!(60 * SECOND),
                json!(29.5),
                json!(59.0),
                json!(56.0),
                json!(octets)
            ]
        );
        let (ts, octets) = last(100);
        assert_eq!(
            fields(&rows[1], &names),
            [
                json!("a"),
                json!(ts),
                json!(40),
                json!(40),
                json!(40 * SECOND),
                json!(79.5),
                json!(99.0),
                json!(97.0),
                json!(octets)
            ]
        );
        let (ts, octets) = last(31);
        assert_eq!(
            fields(&rows[2], &names),
            [
                json!("b"),
                json!(ts),
                json!(2),
                json!(2),
                json!(3 * SECOND),
                json!(3.0),
                json!(4.0),
                json!(4.0),
                json!(octets)
            ]
        );
        let names = [
            "status",
            "xmit_blocked",
            "xmit_blocked_max",
            "xmit_blocked_dt_ns",
            "rcv_gbps",
            "rtt_ns",
            "rtt_ns_max",
            "rtt_ns_p95",
        ];
        assert_eq!(
            fields(&rows[0], &names),
            [
                json!("ok"),
                json!(0.25),
                json!(0.25),
                json!(60 * SECOND),
                json!(null),
                json!(29_500),
                json!(59_000),
                json!(56_000)
            ]
        );
        // 0.25 over two seconds and 1.0 over three.
        assert_eq!(
            fields(&rows[2], &names[1..4]),
            [json!(0.7), json!(1.0), json!(5 * SECOND)]
        );
    }
}

#[test]
fn device_has_a_row_for_its_first_record_and_for_each_change() {
    let dir = tempfile::tempdir().unwrap();
    let peers = ["leaf", "leaf", "spine", "spine", "leaf"];
    let text: String = peers
        .iter()
        .zip(0..)
        .map(|(peer, second)| {
            port(
                START + second * SECOND,
                json!({"peer": peer, "rtt_ns": second}),
            )
        })
        .collect();
    pack(
        dir.path(),
        &(text + &port(START + HOUR_NS, json!({"lid": 5}))),
        1000,
    );
    let rows: Vec<_> = rows(dir.path(), TableName::Devices)
        .iter()
        .map(|row| {
            (
                row["ts"].as_u64().unwrap() - START,
                row["peer"].clone(),
                row["lid"].clone(),
            )
        })
        .collect();
    let row = |ts: u64, peer: &str, lid: u64| (ts, json!(peer), json!(lid));
    assert_eq!(
        rows,
        [
            row(0, "leaf", 4),
            row(2 * SECOND, "spine", 4),
            row(4 * SECOND, "leaf", 4),
            row(HOUR_NS, "leaf", 5)
        ]
    );
}

#[test]
fn change_of_the_mtu_or_of_the_vls_makes_a_row_of_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let of = |second: u64, rest: Value| port(START + second * SECOND, rest);
    // The sampler read PortInfo after its first slot.
    let text = [
        of(0, json!({})),
        of(1, json!({"mtu": 4096, "vls": 4})),
        of(2, json!({"mtu": 4096, "vls": 4})),
        of(3, json!({"mtu": 2048, "vls": 4})),
        of(4, json!({"mtu": 2048, "vls": 8})),
    ];
    pack(dir.path(), &text.concat(), 1000);
    let rows: Vec<_> = rows(dir.path(), TableName::Devices)
        .iter()
        .map(|row| {
            (
                row["ts"].as_u64().unwrap() - START,
                row.get("mtu").cloned(),
                row.get("vls").cloned(),
            )
        })
        .collect();
    let row =
        |second: u64, mtu: u64, vls: u64| (second * SECOND, Some(json!(mtu)), Some(json!(vls)));
    assert_eq!(
        rows,
        [
            (0, None, None),
            row(1, 4096, 4),
            row(3, 2048, 4),
            row(4, 2048, 8)
        ]
    );
}

#[test]
fn derived_tables_belong_to_the_records_of_their_hour() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..200)
        .map(|second| port(START + second * SECOND, json!({})))
        .collect();
    let is_current = || {
        let sum = files(dir.path(), TableName::Ports)[0].sum();
        TableName::DERIVED.into_iter().all(|table| {
            files(dir.path(), table)
                .iter()
                .all(|file| file.of() == Some(sum))
        })
    };
    pack(dir.path(), &text, 1000);
    assert!(is_current());
    let late = port(START + 300 * SECOND, json!({}));
    assert_eq!(pack(dir.path(), &late, 1000).derived.len(), 2);
    assert!(is_current());
    // The first record is of the minute before the hour.
    assert_eq!(rows(dir.path(), TableName::PortsMinute).len(), 6);
    // A writer that was interrupted before it wrote the derived tables.
    let path = Archive::open(dir.path())
        .unwrap()
        .path(TableName::PortsMinute, Hour::of(START));
    let whole = fs::read(&path).unwrap();
    for damage in [None, Some(&whole[..whole.len() / 2])] {
        fs::remove_file(&path).unwrap();
        damage
            .into_iter()
            .for_each(|octets| fs::write(&path, octets).unwrap());
        let packed = pack(dir.path(), &late, 1000);
        assert_eq!(
            (packed.files.len(), packed.derived.len(), packed.copies),
            (0, 1, 1)
        );
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

/// Packs five hours with a record in each minute.
fn five_hours(root: &Path) -> String {
    let text: String = (0..300)
        .map(|minute| port(START + minute * 60 * SECOND, json!({})))
        .collect();
    pack(root, &text, 1000);
    text
}

fn hours(root: &Path, table: TableName) -> Vec<u32> {
    Archive::open(root)
        .unwrap()
        .files(table)
        .unwrap()
        .into_iter()
        .map(|(hour, _)| hour.0 - Hour::of(START).0)
        .collect()
}

#[test]
fn old_hours_are_removed_and_their_means_stay() {
    let dir = tempfile::tempdir().unwrap();
    let text = five_hours(dir.path());
    fs::remove_file(
        Archive::open(dir.path())
            .unwrap()
            .path(TableName::PortsMinute, Hour::of(START)),
    )
    .unwrap();
    let keep = [Keep {
        table: TableName::Ports,
        age_ns: Some(2 * HOUR_NS),
        octets: None,
    }];
    // The third hour ended two hours ago.
    let removed = retain(dir.path(), &keep, START + 5 * HOUR_NS, false).unwrap();
    let octets = removed[0].octets;
    let first = Hour::of(START);
    assert_eq!(
        removed,
        [Removed {
            table: TableName::Ports,
            files: 3,
            octets,
            number: 3,
            hours: (first, Hour(first.0 + 2)),
            left: 0
        }]
    );
    assert_eq!(hours(dir.path(), TableName::Ports), [3, 4]);
    assert_eq!(
        hours(dir.path(), TableName::PortsMinute),
        [0, 1, 2, 3, 4],
        "missing means were computed"
    );
    assert!(!dir.path().join(format!("ports/{first}")).exists());
    assert_eq!(
        retain(dir.path(), &keep, START + 5 * HOUR_NS, false).unwrap(),
        []
    );
    // The same lines do not come back, and do not replace the means.
    let means = rows(dir.path(), TableName::PortsMinute);
    let packed = pack(
        dir.path(),
        text.lines()
            .next()
            .map(|line| format!("{line}\n"))
            .unwrap()
            .as_str(),
        1000,
    );
    assert_eq!(
        (packed.expired, packed.files.len(), packed.added.len()),
        (1, 0, 0)
    );
    assert_eq!(pack(dir.path(), &text, 20).expired, 180);
    assert_eq!(rows(dir.path(), TableName::PortsMinute), means);
    // Without the list of removed hours, some of the lines come back. They do not replace the means
    // either.
    fs::remove_file(dir.path().join(".removed")).unwrap();
    assert_eq!(
        pack(
            dir.path(),
            &(text.lines().next().unwrap().to_owned() + "\n"),
            1000
        )
        .expired,
        0
    );
    assert_eq!(hours(dir.path(), TableName::Ports), [0, 3, 4]);
    assert!(rows(dir.path(), TableName::PortsMinute) == means);
    assert_eq!(
        retain(dir.path(), &keep, START + 5 * HOUR_NS, false)
            .unwrap()
            .len(),
        1
    );
    assert!(rows(dir.path(), TableName::PortsMinute) == means);
}

#[test]
fn oldest_hours_are_removed_until_a_table_has_its_size() {
    let dir = tempfile::tempdir().unwrap();
    five_hours(dir.path());
    let all = Archive::open(dir.path())
        .unwrap()
        .files(TableName::PortsMinute)
        .unwrap();
    let sizes: Vec<u64> = all
        .iter()
        .map(|(_, path)| fs::metadata(path).unwrap().len())
        .collect();
    let keep = |octets: u64| {
        [Keep {
            table: TableName::PortsMinute,
            age_ns: None,
            octets: Some(octets),
        }]
    };
    assert_eq!(
        retain(dir.path(), &keep(sizes.iter().sum()), 0, false).unwrap(),
        []
    );
    let removed = retain(dir.path(), &keep(sizes[3] + sizes[4]), 0, false).unwrap();
    assert_eq!(
        (removed[0].files, removed[0].octets),
        (3, sizes[..3].iter().sum())
    );
    assert_eq!(hours(dir.path(), TableName::PortsMinute), [3, 4]);
    assert_eq!(
        hours(dir.path(), TableName::Ports),
        [0, 1, 2, 3, 4],
        "other tables stay"
    );
    retain(dir.path(), &keep(0), 0, false).unwrap();
    assert_eq!(
        hours(dir.path(), TableName::PortsMinute),
        [4],
        "the newest hour stays"
    );
}

/// Packs a number of hours with an event in each of them.
fn hours_with_events(root: &Path, count: u64) {
    let event = |hour: u64| json!({"type": "event", "ts": START + hour * HOUR_NS, "slot": hour, "sampler": "a", "event": "link_down"});
    pack(
        root,
        &(0..count)
            .map(|hour| format!("{}\n", event(hour)))
            .collect::<String>(),
        1000,
    );
}

/// Ten years.
const YEARS: u64 = 10 * 365 * 24 * HOUR_NS;

#[test]
fn clock_that_is_ahead_makes_no_hour_older() {
    let dir = tempfile::tempdir().unwrap();
    hours_with_events(dir.path(), 50);
    let keep = |age: &str| [Keep::of_age(age).unwrap()];
    let clock = START + YEARS;
    assert_eq!(
        retain(dir.path(), &keep("events=30d"), clock, true).unwrap(),
        []
    );
    assert_eq!(
        retain(dir.path(), &keep("events=50h"), clock, true).unwrap(),
        []
    );
    assert_eq!(
        retain(dir.path(), &keep("events=40h"), clock, true).unwrap()[0].number,
        10
    );
    // The records of another table show the time too.
    pack(dir.path(), &port(START + 100 * HOUR_NS, json!({})), 1000);
    assert_eq!(
        retain(dir.path(), &keep("events=70h"), clock, true).unwrap()[0].number,
        21
    );
}

#[test]
fn record_of_the_future_protects_no_other_hour_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    five_hours(dir.path());
    pack(dir.path(), &port(START + YEARS, json!({})), 1000);
    let now = START + 4 * HOUR_NS + HOUR_NS / 2;
    let keep = [Keep {
        table: TableName::Ports,
        age_ns: Some(HOUR_NS),
        octets: Some(0),
    }];
    assert_eq!(retain(dir.path(), &keep, now, true).unwrap()[0].number, 4);
    assert_eq!(
        hours(dir.path(), TableName::Ports),
        [4, (YEARS / HOUR_NS) as u32]
    );
    let packed = pack(dir.path(), &port(now + 1, json!({})), 1000);
    assert_eq!(
        (packed.expired, packed.added[&TableName::Ports]),
        (0, 1),
        "records of the current hour are added"
    );
}

#[test]
fn run_removes_at_most_a_tenth_of_the_hours_or_two_days() {
    let numbers = |count: u64, is_forced: bool| {
        let dir = tempfile::tempdir().unwrap();
        hours_with_events(dir.path(), count);
        let keep = [
            Keep::of_age("events=1h").unwrap(),
            Keep::of_total("events=0").unwrap(),
        ];
        let removed = retain(dir.path(), &keep, START + count * HOUR_NS, is_forced).unwrap();
        let next = retain(dir.path(), &keep, START + count * HOUR_NS, is_forced).unwrap();
        let of = |removed: &[Removed]| {
            removed
                .iter()
                .map(|removed| (removed.number, removed.left))
                .collect::<Vec<_>>()
        };
        assert_eq!(removed[0].hours.0, Hour::of(START), "the oldest hours");
        (of(&removed), of(&next))
    };
    assert_eq!(numbers(49, false), (vec![(48, 0)], vec![]));
    assert_eq!(numbers(101, false), (vec![(48, 52)], vec![(48, 4)]));
    assert_eq!(numbers(101, true), (vec![(100, 0)], vec![]));
    assert_eq!(numbers(500, false), (vec![(50, 449)], vec![(48, 401)]));
}

#[test]
fn damaged_means_are_computed_again_before_the_records_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    five_hours(dir.path());
    let path = Archive::open(dir.path())
        .unwrap()
        .path(TableName::PortsMinute, Hour::of(START));
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    // The first column is `ts`.
    damaged[20] ^= 1;
    fs::write(&path, damaged).unwrap();
    retain(
        dir.path(),
        &[Keep::of_total("ports=0").unwrap()],
        START + 5 * HOUR_NS,
        true,
    )
    .unwrap();
    assert!(fs::read(&path).unwrap() == whole);
}

#[test]
fn folder_behind_a_symbolic_link_is_not_changed() {
    for depth in [
        "events",
        "events/date=2026-11-18",
        "events/date=2026-11-18/hour=13",
        ".staging",
    ] {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        hours_with_events(dir.path(), 30);
        let (folder, moved) = (dir.path().join(depth), other.path().join("moved"));
        fs::rename(&folder, &moved).unwrap();
        fs::write(moved.join("other"), "text").unwrap();
        std::os::unix::fs::symlink(&moved, &folder).unwrap();
        assert_eq!(
            hours(dir.path(), TableName::Events).len(),
            30,
            "a reader follows the link"
        );
        let late = json!({"type": "event", "ts": START + 1, "slot": 1, "sampler": "a", "event": "link_up"});
        let packed = Packer::new(dir.path(), PackOptions::default()).and_then(|mut packer| {
            packer.add(Batch::parse(late.to_string().as_bytes()))?;
            packer.finish(&|_, _| {})
        });
        let removed = retain(
            dir.path(),
            &[Keep::of_total("events=0").unwrap()],
            START + 30 * HOUR_NS,
            true,
        );
        for error in [packed.unwrap_err(), removed.unwrap_err()] {
            assert!(
                matches!(&error, StoreError::Link { path } if *path == folder),
                "{error:?}"
            );
        }
        assert!(moved.join("other").exists());
        if depth != ".staging" {
            assert!(
                files(dir.path(), TableName::Events)
                    .iter()
                    .any(|file| file.times(0).unwrap().0 == START)
            );
        }
    }
}

#[test]
fn folder_among_files_in_progress_is_named() {
    let dir = tempfile::tempdir().unwrap();
    hours_with_events(dir.path(), 1);
    let folder = dir.path().join(".staging/folder");
    fs::create_dir(&folder).unwrap();
    let error = Packer::new(dir.path(), PackOptions::default()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Foreign { path, .. } if *path == folder),
        "{error:?}"
    );
    fs::remove_dir(&folder).unwrap();
    Packer::new(dir.path(), PackOptions::default()).unwrap();
}

#[test]
fn rows_of_a_range_are_those_of_the_whole_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..70_000_u64)
        .map(|row| port(START + row * 50_000_000, json!({"slot": row, "peer": format!("p{}", row / 9000), "saturated": ["a"], "rcv_gbps": (row % 3 > 0).then_some(row as f64)})))
        .collect();
    pack(dir.path(), &text, 100_000);
    let file = &files(dir.path(), TableName::Ports)[0];
    let columns = vec![true; TableName::Ports.schema().columns.len()];
    let whole = file.read(0, &columns).unwrap();
    let ranges = [3..5, 16_000..17_000, 40_000..40_001, 69_990..70_000];
    let some = file.read_rows(0, &columns, &ranges).unwrap();
    let lines: Vec<Vec<u8>> = ranges
        .iter()
        .flat_map(|range| range.clone().map(|row| whole.line(row)))
        .collect();
    assert_eq!(
        (0..some.len())
            .map(|row| some.line(row))
            .collect::<Vec<_>>(),
        lines
    );
    assert_eq!(file.read_rows(0, &columns, &[]).unwrap().len(), 0);
    let names = file.dictionary(0, "peer").unwrap().unwrap();
    assert_eq!((names.len(), names[7].as_str()), (8, "p7"));
    assert_eq!(file.dictionary(0, "node").unwrap().unwrap(), ["n1 mlx5_0"]);
}

/// A group with a cadence is not read in the last slot of each minute.
#[test]
fn minute_has_the_last_reading_of_each_counter() {
    let text: String = (1..121)
        .map(|second| {
            let is_read = second % 10 == 3;
            let errors = if is_read { json!(second) } else { Value::Null };
            port(
                START + second * SECOND,
                json!({"symbol_error_counter": errors}),
            )
            .replace(r#","symbol_error_counter":null"#, "")
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    pack(dir.path(), &text, 1000);
    let rows = rows(dir.path(), TableName::PortsMinute);
    let counters = |row: &Value| {
        ["symbol_error_counter", "port_xmit_data_bytes"].map(|name| row[name].as_u64())
    };
    assert_eq!(
        rows.iter().map(counters).collect::<Vec<_>>(),
        [
            [Some(53), Some(START / SECOND + 60)],
            [Some(113), Some(START / SECOND + 120)]
        ]
    );
}

/// The archive has the record of two minutes as it is, and each other row has slots of one minute.
#[test]
fn record_that_describes_two_minutes_has_a_row() {
    let of = |second: u64, slots: u64, gbps: u64| {
        let rest = json!({"dt_ns": slots * SECOND, "xmit_gbps": gbps});
        port(START + second * SECOND + SECOND / 4, rest)
    };
    let usual = (1..58).chain(63..=120).map(|second| of(second, 1, 2));
    let text: String = usual.chain([of(62, 5, 7)]).collect();
    let dir = tempfile::tempdir().unwrap();
    pack(dir.path(), &text, 1000);
    let row = |row: &Value| {
        let number = |name: &str| row[name].as_u64().unwrap();
        (
            (number("ts") - START) / SECOND,
            number("dt_ns") / SECOND,
            row["xmit_gbps"].as_f64().unwrap(),
            number("records"),
        )
    };
    let rows: Vec<_> = rows(dir.path(), TableName::PortsMinute)
        .iter()
        .map(row)
        .collect();
    assert_eq!(
        rows,
        [(57, 57, 2.0, 57), (62, 5, 7.0, 1), (120, 58, 2.0, 58)]
    );
}
