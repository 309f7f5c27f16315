//! An archive on the disk: packing, interruptions, damaged files, other contents.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ibnet_store::archive::Archive;
use ibnet_store::error::StoreError;
use ibnet_store::hour::Hour;
use ibnet_store::pack::{PackOptions, Packed, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::part::Part;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const START: u64 = 1_795_000_000_000_000_000;
const HOUR: u64 = 3_600_000_000_000;
const VERIFY: PackOptions = PackOptions { verify: true };

/// Returns a port record of a sampler.
fn port(sampler: &str, guid: u64, port: u8, ts: u64, octets: u64) -> String {
    let guid = format!("0x{guid:016x}");
    let record = json!({
        "type": "port", "ts": ts, "slot": ts / 1_000_000_000, "sampler": sampler, "guid": guid, "port": port, "lid": 4, "node": "n1 mlx5_0",
        "kind": "hca", "hops": null, "peer_guid": null, "peer_port": null, "peer": null, "link": "4xEDR", "link_source": "live",
        "status": "ok", "rtt_ns": 9000, "rtt_min_ns": null, "mads": 3, "identity": "ok", "port_xmit_data_bytes": octets,
        "dt_ns": 1_000_000_007, "xmit_gbps": octets as f64 / 1e6, "rcv_gbps": null, "xmit_utilization": null, "rcv_utilization": null,
        "xmit_blocked": 0.25,
    });
    format!("{record}\n")
}

/// Some records of two samplers in three hours.
fn lines() -> String {
    let of_port = |ts: u64| {
        [
            port("a", 7, 1, ts, ts % 999),
            port("b", 7, 1, ts + 5, ts % 999),
            port("a", 3, 2, ts, 1),
        ]
        .concat()
    };
    let ports: String = (0..40)
        .map(|slot| of_port(START + slot * HOUR / 16))
        .collect();
    let others = [
        json!({"type": "start", "ts": START, "slot": 1, "sampler": "a", "groups": ["extended"], "interval_ns": 1_000_000_000, "new": [1]}),
        json!({"type": "sweep", "ts": START + 1, "slot": 1, "sampler": "a", "duration_ns": 5, "ok": 2}),
        json!({"type": "event", "ts": START + 2, "slot": 1, "sampler": "a", "event": "link_down", "guid": null, "detail": "\u{9b} \"x\""}),
        json!({"type": "event", "ts": START + 2, "slot": 1, "sampler": "a", "event": "link_up", "guid": null, "detail": ""}),
        json!({"type": "histogram", "ts": START + HOUR, "slot": 1, "sampler": "a", "kind": "rtt", "v2": "HISTFAAA"}),
        json!({"type": "phy", "ts": START + 3, "slot": 1, "sampler": "a", "guid": "0x0000000000000007", "port": 1, "lid": 4, "node": "n1 mlx5_0",
            "dt_ns": null, "phy_received_bits": u64::MAX, "phy_raw_errors_lane": [1, 2, 3, 4, 0, 0, 0, 0], "raw_ber_magnitude": 12}),
        json!({"type": "module", "ts": START + 4, "slot": 1, "sampler": "a", "guid": "0x0000000000000007", "port": 1, "lid": 4, "node": "n1 mlx5_0",
            "dt_ns": 300_000_000_000_u64, "vendor_sn": "X1", "temperature_c": 48.125}),
        json!({"type": "sensors", "ts": START + 5, "slot": 1, "sampler": "a", "guid": "0x0000000000000003", "port": null, "lid": 2, "node": "leaf01",
            "dt_ns": null, "temperature_c": -0.5, "fan_under_limit": 1}),
        json!({"type": "weather", "ts": START + HOUR, "rain": {"mm": 1.5}}),
    ];
    ports
        + &others
            .iter()
            .map(|record| format!("{record}\n"))
            .collect::<String>()
}

fn pack(root: &Path, text: &str, most_rows: usize) -> Result<Packed, StoreError> {
    let mut packer = Packer::new(root, VERIFY)?.with_most_rows(most_rows);
    // Many small batches, as of several files.
    for lines in text.split_inclusive('\n').collect::<Vec<_>>().chunks(7) {
        let batch = Batch::parse(lines.concat().as_bytes());
        assert_eq!(batch.invalid, []);
        packer.add(batch)?;
    }
    packer.finish(&|_, _| {})
}

/// Returns all records of an archive, sorted.
fn records(root: &Path) -> Vec<String> {
    let archive = Archive::open(root).unwrap();
    let files = TableName::ALL
        .into_iter()
        .flat_map(|table| archive.files(table).unwrap());
    let of_file = |(hour, path): (_, PathBuf)| {
        let file = ArchiveFile::open(&path).unwrap();
        file.verify().unwrap();
        let table = file.read_all().unwrap();
        assert!((0..table.len()).all(|row| Hour::of(table.ts(row)) == hour));
        (0..table.len())
            .map(|row| String::from_utf8(table.line(row)).unwrap())
            .collect::<Vec<_>>()
    };
    sorted(files.flat_map(of_file).collect())
}

/// Returns the records by their values: the order of the fields does not matter.
fn sorted(lines: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = lines
        .iter()
        .map(|line| by_value(serde_json::from_str(line).unwrap()).to_string())
        .collect();
    all.sort();
    all
}

/// Returns a value with sorted fields, and with numbers that are whole as integers.
fn by_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields
                .into_iter()
                .map(|(name, value)| (name, by_value(value)))
                .collect();
            Value::Object(Map::from_iter(sorted))
        }
        Value::Array(values) => values.into_iter().map(by_value).collect(),
        Value::Number(number) => match number
            .as_f64()
            .filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < 1e15)
        {
            Some(whole) => json!(whole as i64),
            None => Value::Number(number),
        },
        other => other,
    }
}

fn expected(text: &str) -> Vec<String> {
    let mut lines = sorted(text.lines().map(str::to_owned).collect());
    lines.dedup();
    lines
}

/// Returns the paths and the contents of all data files.
fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let archive = Archive::open(root).unwrap();
    let files = TableName::every().flat_map(|table| archive.files(table).unwrap());
    files
        .map(|(_, path)| {
            (
                path.strip_prefix(root).unwrap().to_owned(),
                fs::read(&path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn all_records_are_stored_with_any_limit_of_memory() {
    let text = lines();
    for most_rows in [1, 10, 1000] {
        let dir = tempfile::tempdir().unwrap();
        let packed = pack(dir.path(), &text, most_rows).unwrap();
        assert_eq!(records(dir.path()), expected(&text), "{most_rows} rows");
        assert_eq!(
            (
                packed.copies,
                packed.added[&TableName::Ports],
                packed.added[&TableName::Others]
            ),
            (0, 120, 1)
        );
        assert_eq!(
            packed.files.len() + packed.derived.len(),
            contents(dir.path()).len()
        );
        assert_eq!(
            fs::read_dir(dir.path().join(".staging")).unwrap().count(),
            0
        );
    }
}

#[test]
fn same_records_are_stored_once() {
    let (dir, text) = (tempfile::tempdir().unwrap(), lines());
    let count = text.lines().count() as u64;
    let packed = pack(dir.path(), &(text.clone() + &text), 50).unwrap();
    assert_eq!(packed.copies, count);
    let before = contents(dir.path());
    let again = pack(dir.path(), &text, 1000).unwrap();
    assert_eq!(
        (again.copies, again.files, again.added),
        (count, Vec::new(), BTreeMap::new())
    );
    assert_eq!(contents(dir.path()), before, "no file changed");
}

/// Returns records that differ from a record in one field that does not belong to the key.
fn with_other_values(line: &str) -> Vec<String> {
    let others = [
        json!({"port_xmit_data_bytes": 1}),
        json!({"port_xmit_pkts": null}),
        json!({"role": "secondary"}),
        json!({"slot": 1}),
        json!({"node": "n2"}),
        json!({"xmit_gbps": null}),
        json!({"unknown": [1]}),
    ];
    let changed = |fields: Value| {
        let mut record: Map<String, Value> = serde_json::from_str(line).unwrap();
        record.extend(fields.as_object().unwrap().clone());
        format!("{}\n", Value::Object(record))
    };
    others.into_iter().map(changed).collect()
}

#[test]
fn records_with_one_key_and_other_values_are_kept() {
    let (first, text) = (port("a", 7, 1, START, 5), lines());
    let others = with_other_values(&first);
    let all = text.clone() + &first + &others.concat();
    for most_rows in [1, 10, 1000] {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &(text.clone() + &first), most_rows).unwrap();
        let packed = pack(dir.path(), &others.concat(), most_rows).unwrap();
        // The archive has two records with this key before: `lines` has one too.
        let (added, conflicts) = (others.len() as u64, others.len() as u64 + 1);
        assert_eq!(
            (
                packed.added[&TableName::Ports],
                packed.copies,
                packed.conflicts
            ),
            (added, 0, conflicts),
            "{most_rows} rows"
        );
        assert_eq!(records(dir.path()), expected(&all), "{most_rows} rows");
        let before = contents(dir.path());
        let again = pack(dir.path(), &others.concat(), most_rows).unwrap();
        assert_eq!(
            (again.added.len(), again.copies, again.conflicts),
            (0, added, conflicts)
        );
        assert_eq!(contents(dir.path()), before, "no file changed");
    }
}

#[test]
fn copies_in_a_file_with_another_name_are_not_counted_as_new() {
    let text = lines();
    for most_rows in [10, 1000] {
        let dir = tempfile::tempdir().unwrap();
        pack(dir.path(), &text, most_rows).unwrap();
        let (_, path) = Archive::open(dir.path())
            .unwrap()
            .files(TableName::Ports)
            .unwrap()
            .swap_remove(0);
        fs::copy(&path, path.with_file_name("backup.parquet")).unwrap();
        let late = port("a", 7, 1, START + 1, 5);
        let packed = pack(dir.path(), &(port("a", 3, 2, START, 1) + &late), most_rows).unwrap();
        assert_eq!(
            (packed.added[&TableName::Ports], packed.copies),
            (1, 1),
            "{most_rows} rows"
        );
        assert_eq!(records(dir.path()), expected(&(text.clone() + &late)));
    }
}

#[test]
fn late_lines_are_merged_into_their_hour() {
    let text = lines();
    let (early, late): (Vec<&str>, Vec<&str>) = text
        .split_inclusive('\n')
        .enumerate()
        .partition_map(|(number, line)| (number % 3 > 0, line));
    let (parts, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    pack(parts.path(), &early.concat(), 1000).unwrap();
    pack(parts.path(), &late.concat(), 20).unwrap();
    pack(whole.path(), &text, 1000).unwrap();
    assert_eq!(records(parts.path()), expected(&text));
    assert_eq!(
        contents(parts.path()).keys().collect::<Vec<_>>(),
        contents(whole.path()).keys().collect::<Vec<_>>()
    );
}

/// Divides items by a mark.
trait PartitionMap<T> {
    fn partition_map(self, divide: impl Fn((usize, T)) -> (bool, T)) -> (Vec<T>, Vec<T>);
}

impl<T, I: Iterator<Item = (usize, T)>> PartitionMap<T> for I {
    fn partition_map(self, divide: impl Fn((usize, T)) -> (bool, T)) -> (Vec<T>, Vec<T>) {
        let (first, second): (Vec<_>, Vec<_>) =
            self.map(divide).partition(|(is_first, _)| *is_first);
        (
            first.into_iter().map(|(_, item)| item).collect(),
            second.into_iter().map(|(_, item)| item).collect(),
        )
    }
}

#[test]
fn interrupted_packing_is_completed_by_the_next_one() {
    let (dir, text) = (tempfile::tempdir().unwrap(), lines());
    let whole = tempfile::tempdir().unwrap();
    pack(whole.path(), &text, 1000).unwrap();
    let complete = contents(whole.path());
    // A process that is killed leaves some of the files, and staged ones.
    for kept in 0..complete.len() {
        for (path, content) in complete.iter().take(kept) {
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            fs::write(dir.path().join(path), content).unwrap();
        }
        fs::create_dir_all(dir.path().join(".staging")).unwrap();
        fs::write(dir.path().join(".staging/torn"), "PAR1 torn").unwrap();
        pack(dir.path(), &text, 1000).unwrap();
        assert_eq!(contents(dir.path()), complete);
        assert!(!dir.path().join(".staging/torn").exists());
        TableName::every()
            .for_each(|table| drop(fs::remove_dir_all(dir.path().join(table.as_str()))));
    }
}

/// Packs records with small parts.
fn pack_parts(root: &Path, text: &str, most_rows: usize) -> Packed {
    let mut packer = Packer::new(root, VERIFY)
        .unwrap()
        .with_most_rows(most_rows)
        .with_part_rows(PART_ROWS);
    for lines in text.split_inclusive('\n').collect::<Vec<_>>().chunks(50) {
        packer.add(Batch::parse(lines.concat().as_bytes())).unwrap();
    }
    packer.finish(&|_, _| {}).unwrap()
}

/// Number of rows of a large part in the tests with parts.
const PART_ROWS: u64 = 1000;

/// Ports in the tests with parts.
const PORTS: u64 = 4;

/// First second of an hour.
const FIRST: u64 = START / HOUR * HOUR;

/// Returns the records of some seconds of an hour.
fn seconds(range: std::ops::Range<u64>) -> String {
    range
        .flat_map(|second| {
            (0..PORTS)
                .map(move |guid| port("a", guid, 1, FIRST + second * 1_000_000_000 + guid, second))
        })
        .collect()
}

#[test]
fn rows_that_are_written_again_do_not_grow_with_the_hour() {
    // Number of rows that are written for each row, with a run every minute.
    let per_row = |minutes: u64, most_rows: usize| {
        let dir = tempfile::tempdir().unwrap();
        let run = |minute: u64| {
            pack_parts(
                dir.path(),
                &seconds(60 * minute..60 * minute + 60),
                most_rows,
            )
            .written
        };
        let written: u64 = (0..minutes).map(run).sum();
        assert_eq!(records(dir.path()), expected(&seconds(0..60 * minutes)));
        written as f64 / (minutes * 60 * PORTS) as f64
    };
    // A part is complete after five runs. Without parts, 60 runs write each row 30 times.
    assert_eq!(
        [
            per_row(5, 100_000),
            per_row(20, 100_000),
            per_row(60, 100_000)
        ],
        [3.0, 3.0, 3.0]
    );
    assert_eq!(per_row(10, 300), 3.0, "more rows than memory");
}

#[test]
fn parts_of_an_hour_have_their_own_times_and_are_sorted() {
    let dir = tempfile::tempdir().unwrap();
    (0..3600)
        .step_by(600)
        .for_each(|from| drop(pack_parts(dir.path(), &seconds(from..from + 600), 100_000)));
    let archive = Archive::open(dir.path()).unwrap();
    let mut before = 0;
    let mut names = Vec::new();
    for (hour, path) in archive.files(TableName::Ports).unwrap() {
        let table = ArchiveFile::open(&path).unwrap().read_all().unwrap();
        let part = Part::of(TableName::Ports, hour, &path).unwrap();
        let times: Vec<u64> = (0..table.len()).map(|row| table.ts(row)).collect();
        let (first, last) = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
        assert!(
            before < first && part.start() <= first,
            "the times of two parts do not overlap"
        );
        before = last;
        let order = table.order();
        assert!(
            order.len() == table.len() && order.is_sorted(),
            "by GUID, port, sampler and time, without copies"
        );
        for name in TableName::DERIVED {
            let of = ArchiveFile::open(&archive.path_of(name, part))
                .unwrap()
                .of();
            assert_eq!(
                of,
                Some(ArchiveFile::open(&path).unwrap().sum()),
                "each part has its derived tables"
            );
        }
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    assert_eq!(
        names,
        [
            "ports.parquet",
            "ports_10.parquet",
            "ports_20.parquet",
            "ports_30.parquet",
            "ports_40.parquet",
            "ports_50.parquet"
        ]
    );
}

#[test]
fn late_lines_and_copies_come_into_the_part_of_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let late = |second: u64| second % 100 == 7;
    let of = |late_ones: bool| {
        (0..3600)
            .filter(|second| late(*second) == late_ones)
            .map(|second| seconds(second..second + 1))
            .collect::<String>()
    };
    let first = of(false);
    let lines: Vec<&str> = first.split_inclusive('\n').collect();
    lines
        .chunks(2000)
        .for_each(|lines| drop(pack_parts(dir.path(), &lines.concat(), 100_000)));
    let parts = contents(dir.path()).len();
    assert!(parts > 6, "{parts}");
    for most_rows in [100_000, 200] {
        let packed = pack_parts(dir.path(), &(of(true) + &seconds(0..500)), most_rows);
        assert_eq!(records(dir.path()), expected(&seconds(0..3600)));
        assert_eq!(contents(dir.path()).len(), parts, "no file more");
        let new = if most_rows == 100_000 { 36 * PORTS } else { 0 };
        // The late lines among the first 500 seconds are there twice.
        assert_eq!(
            (packed.added.values().sum::<u64>(), packed.copies),
            (new, (36 + 500) * PORTS - new)
        );
    }
}

#[test]
fn packing_of_parts_that_is_interrupted_is_completed_by_the_next_one() {
    let (whole, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let runs = [
        seconds(0..600),
        seconds(600..1500),
        seconds(590..600) + &seconds(1500..2000),
    ];
    for (number, run) in runs.iter().enumerate() {
        let before = if number == 0 {
            BTreeMap::new()
        } else {
            contents(whole.path())
        };
        pack_parts(whole.path(), run, 100_000);
        let after = contents(whole.path());
        let changed: Vec<_> = after
            .iter()
            .filter(|(path, content)| before.get(*path) != Some(content))
            .collect();
        // A process that is killed leaves some of the new files, the other old files, and staged
        // ones.
        for kept in 0..=changed.len() {
            for (path, content) in before.iter().chain(changed.iter().take(kept).copied()) {
                fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
                fs::write(dir.path().join(path), content).unwrap();
            }
            fs::create_dir_all(dir.path().join(".staging")).unwrap();
            fs::write(dir.path().join(".staging/torn"), "PAR1 torn").unwrap();
            pack_parts(dir.path(), run, 100_000);
            assert!(
                contents(dir.path()) == after,
                "run {number}, {kept} new files"
            );
            TableName::every()
                .for_each(|table| drop(fs::remove_dir_all(dir.path().join(table.as_str()))));
        }
    }
    assert!(contents(whole.path()).len() > 6);
}

#[test]
fn files_with_other_names_become_rows_of_the_parts() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..1800)
        .step_by(600)
        .for_each(|from| drop(pack_parts(dir.path(), &seconds(from..from + 600), 100_000)));
    pack_parts(other.path(), &seconds(300..2000), 100_000);
    let hour = Hour::of(FIRST);
    let copied = dir.path().join(format!("ports/{hour}/copied.parquet"));
    for most_rows in [100_000, 200] {
        fs::copy(
            Archive::open(other.path())
                .unwrap()
                .path(TableName::Ports, hour),
            &copied,
        )
        .unwrap();
        pack_parts(dir.path(), &seconds(1..2), most_rows);
        assert!(!copied.exists());
        assert_eq!(records(dir.path()), expected(&seconds(0..2000)));
    }
}

#[test]
fn damaged_file_is_an_error_and_is_not_replaced() {
    let (dir, text) = (tempfile::tempdir().unwrap(), lines());
    pack(dir.path(), &text, 1000).unwrap();
    let (_, path) = Archive::open(dir.path())
        .unwrap()
        .files(TableName::Ports)
        .unwrap()
        .swap_remove(1);
    let whole = fs::read(&path).unwrap();
    let late = port("c", 9, 1, START + HOUR, 5);
    for damaged in [&whole[..whole.len() / 2], b"", b"PAR1"] {
        fs::write(&path, damaged).unwrap();
        let error = pack(dir.path(), &late, 1000).unwrap_err();
        assert!(
            matches!(&error, StoreError::Damaged { path: named, .. } if *named == path),
            "{error:?}"
        );
        assert_eq!(fs::read(&path).unwrap(), damaged);
    }
    // Some octets are never read, such as those of a column without a value.
    let mut errors = 0;
    for place in (0..whole.len()).step_by(whole.len() / 50) {
        let mut damaged = whole.clone();
        damaged[place] ^= 4;
        fs::write(&path, &damaged).unwrap();
        match pack(dir.path(), &late, 1000) {
            Err(_) => assert_eq!(fs::read(&path).unwrap(), damaged),
            Ok(_) => assert_eq!(
                records(dir.path()),
                expected(&(text.clone() + &late)),
                "octet {place}"
            ),
        }
        errors += usize::from(fs::read(&path).unwrap() == damaged);
    }
    assert!(errors > 10, "{errors}");
    fs::write(&path, &whole).unwrap();
    pack(dir.path(), &late, 1000).unwrap();
    assert_eq!(records(dir.path()), expected(&(text + &late)));
}

#[test]
fn damaged_list_of_removed_hours_is_an_error_with_its_line_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::create(folder.path()).unwrap();
    let list = folder.path().join(".removed");
    for line in [
        &b"ports date=2026-11-\xff2/hour=15"[..],
        b"ports",
        b"",
        b"ports date=2026-11-22/hour=99",
    ] {
        fs::write(
            &list,
            [b"events date=2026-11-22/hour=15\n", line, b"\n"].concat(),
        )
        .unwrap();
        let error = archive.removed().unwrap_err();
        assert!(
            error.to_string().starts_with(&format!(
                "cannot read {}:2: expected a table and an hour",
                list.display()
            )),
            "{error}"
        );
        let help = miette::Diagnostic::help(&error).unwrap().to_string();
        assert!(
            help.contains("remove the file; without it, records of removed hours are packed again"),
            "{help}"
        );
    }
}

#[test]
fn second_packer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Packer::new(dir.path(), VERIFY).unwrap();
    assert!(matches!(
        Packer::new(dir.path(), VERIFY),
        Err(StoreError::Busy { .. })
    ));
    drop(first);
    Packer::new(dir.path(), VERIFY).unwrap();
}

#[test]
fn wrong_clock_of_a_sampler_changes_no_other_hour() {
    let (dir, text) = (tempfile::tempdir().unwrap(), lines());
    pack(dir.path(), &text, 1000).unwrap();
    let before = contents(dir.path());
    let wrong = port("a", 7, 1, 17, 5) + &port("a", 7, 1, i64::MAX as u64, 5);
    pack(dir.path(), &wrong, 1000).unwrap();
    let after = contents(dir.path());
    assert!(before.iter().all(|(path, content)| after[path] == *content));
    let folders = [
        "ports/date=1970-01-01/hour=00/ports.parquet",
        "ports/date=2262-04-11/hour=23/ports.parquet",
    ];
    assert!(
        folders
            .iter()
            .all(|folder| after.contains_key(Path::new(folder)))
    );
    let batch = Batch::parse(port("a", 7, 1, i64::MAX as u64 + 1, 5).as_bytes());
    assert_eq!(batch.invalid[0].1, "its time is after the year 2262");
}

#[test]
fn lines_that_are_no_records_are_reported_and_leave_no_row() {
    let valid = port("a", 7, 1, START, 5);
    let torn = &valid[..valid.len() / 2];
    let text = format!(
        "{valid}\n[1]\n{}{{\"type\":\"port\",\"ts\":3,\"port\":1}}\n{valid}{torn}",
        valid.replace("0x0000000000000007", "7")
    );
    let batch = Batch::parse(text.as_bytes());
    assert_eq!(
        batch
            .invalid
            .iter()
            .map(|(line, _)| *line)
            .collect::<Vec<_>>(),
        [2, 3, 4, 6]
    );
    assert_eq!(
        (
            batch.lines,
            batch
                .tables
                .values()
                .map(|table| table.len())
                .sum::<usize>()
        ),
        (6, 2)
    );
    for table in batch.tables.values() {
        assert!((0..2).all(
            |row| sorted(vec![String::from_utf8(table.line(row)).unwrap()]) == expected(&valid)
        ));
    }
}

/// Any JSON value, and often one that a column has.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => Just(Value::Null),
        3 => prop_oneof![Just(0), Just(u64::MAX), Just(255), Just(65536), any::<u64>()].prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        2 => (-9_000_000_000_i64..9_000_000_000).prop_map(|number| json!(number as f64 / 1e6)),
        1 => any::<f64>().prop_filter("JSON", |value| value.is_finite()).prop_map(Value::from),
        2 => prop_oneof![Just("ok".to_owned()), any::<String>()].prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let object = proptest::collection::btree_map(any::<String>(), inner.clone(), 0..3);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|map| Value::Object(map.into_iter().collect()))
        ]
    })
}

/// A record of any type with any fields: those of its table, and unknown ones.
fn record() -> impl Strategy<Value = String> {
    let table = proptest::sample::select(&TableName::ALL[..]);
    table.prop_flat_map(|table| {
        let names: Vec<String> = table
            .schema()
            .columns
            .iter()
            .map(|column| column.name.to_owned())
            .collect();
        let name = prop_oneof![4 => proptest::sample::select(names), 1 => any::<String>()];
        let kind = table.kind().map_or("weather", |kind| kind.as_str());
        (
            proptest::collection::btree_map(name, value(), 0..24),
            START..START + 2 * HOUR,
        )
            .prop_map(move |(fields, ts)| {
                let mut record = Map::from_iter(fields);
                record.extend([
                    ("type".to_owned(), json!(kind)),
                    ("ts".to_owned(), json!(ts)),
                ]);
                if table == TableName::Ports {
                    record.extend([
                        ("guid".to_owned(), json!(format!("0x{:016x}", ts % 5))),
                        ("port".to_owned(), json!(ts % 3)),
                    ]);
                    record.insert("sampler".to_owned(), json!("a"));
                }
                Value::Object(record).to_string()
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_is_returned(lines in proptest::collection::vec(record(), 1..20), most_rows in 1_usize..40) {
        let dir = tempfile::tempdir().unwrap();
        let text = lines.join("\n") + "\n";
        pack(dir.path(), &text, most_rows).unwrap();
        prop_assert_eq!(records(dir.path()), expected(&text));
    }
}
