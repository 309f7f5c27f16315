//! Damaged files: what a reader gets is what was written, or an error.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ibnet_store::archive::Archive;
use ibnet_store::error::StoreError;
use ibnet_store::pack::{PackOptions, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use ibnet_store::table::Table;
use rayon::prelude::*;
use serde_json::json;

const START: u64 = 1_795_000_000_000_000_000;

/// Returns an archive with one small file of each table.
fn archive() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut packer = Packer::new(dir.path(), PackOptions::default()).unwrap();
    let port = |row: u64| {
        json!({
            "type": "port", "ts": START + row * 1_000_000_007, "slot": row, "sampler": "a", "guid": format!("0x{:016x}", row % 3),
            "port": 1, "lid": 4, "node": format!("n{} mlx5_0", row % 3), "kind": "hca", "hops": row % 2, "peer_guid": null,
            "peer_port": null, "peer": null, "link": "4xEDR", "link_source": "live", "status": "ok", "rtt_ns": 9000 + row, "rtt_min_ns": null,
            "mads": 3, "identity": "ok", "port_xmit_data_bytes": row * 528_581_004, "port_vl_op_packets": [row, 1],
            "saturated": ["symbol_error_counter"], "dt_ns": 1_000_000_007, "xmit_gbps": row as f64 / 1e3, "rcv_gbps": null,
            "xmit_utilization": null, "rcv_utilization": null, "xmit_blocked": 0.25, "unknown": row,
        })
    };
    let others = [
        json!({"type": "start", "ts": START, "slot": 1, "sampler": "a", "groups": ["extended"], "interval_ns": 1_000_000_000}),
        json!({"type": "event", "ts": START + 2, "slot": 1, "sampler": "a", "event": "link_down", "guid": null, "detail": "x"}),
        json!({"type": "event", "ts": START + 3, "slot": 1, "sampler": "a", "event": "link_up", "guid": null, "detail": "y"}),
        json!({"type": "weather", "ts": START, "rain": {"mm": 1.5}}),
    ];
    let text: String = (0..60)
        .map(port)
        .chain(others)
        .map(|record| format!("{record}\n"))
        .collect();
    packer.add(Batch::parse(text.as_bytes())).unwrap();
    packer.finish(&|_, _| {}).unwrap();
    dir
}

/// Returns all that readers get of a file: its rows, some of its rows alone, the list of its texts,
/// and the values of its footer.
fn readings(path: &Path) -> Result<Vec<String>, StoreError> {
    let file = ArchiveFile::open(path)?;
    let lines = |table: Table| {
        (0..table.len())
            .map(|row| String::from_utf8_lossy(&table.line(row)).into_owned())
            .collect::<Vec<_>>()
    };
    let columns = vec![true; file.name().schema().columns.len()];
    let mut all = lines(file.read_all()?);
    for group in 0..file.groups() {
        all.extend(lines(file.read_rows(
            group,
            &columns,
            std::slice::from_ref(&(0..1)),
        )?));
        all.push(format!(
            "{:?} {:?} {:?}",
            file.dictionary(group, "node")?,
            file.times(group),
            file.guids(group)
        ));
    }
    all.push(format!(
        "{} {:?} {:?} {:?}",
        file.name().as_str(),
        file.sum(),
        file.of(),
        file.unknown_columns().collect::<Vec<_>>()
    ));
    Ok(all)
}

/// Damages a copy of a file in many ways, and returns the number of readings with an error.
/// `damages` are offsets, with the octets that replace those of the file.
fn errors(path: &Path, damages: &[(usize, Vec<u8>)]) -> usize {
    let (whole, expected) = (fs::read(path).unwrap(), readings(path).unwrap());
    let of_some = |damages: &[(usize, Vec<u8>)]| {
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join("copy");
        fs::write(&copy, &whole).unwrap();
        let file = fs::File::options().write(true).open(&copy).unwrap();
        let is_found = |(offset, octets): &&(usize, Vec<u8>)| {
            file.write_all_at(octets, *offset as u64).unwrap();
            let found = readings(&copy);
            file.write_all_at(&whole[*offset..offset + octets.len()], *offset as u64)
                .unwrap();
            if let Ok(found) = &found {
                assert_eq!(
                    *found,
                    expected,
                    "{} octets at {offset} of {} in {}",
                    octets.len(),
                    whole.len(),
                    path.display()
                );
            }
            found.is_err()
        };
        damages.iter().filter(is_found).count()
    };
    damages.par_chunks(512).map(of_some).sum()
}

/// Returns one damage for each octet: one bit is changed, which is another bit for the next octet.
fn bits(octets: &[u8]) -> Vec<(usize, Vec<u8>)> {
    octets
        .iter()
        .enumerate()
        .map(|(offset, octet)| (offset, vec![octet ^ 1 << (offset % 8)]))
        .collect()
}

/// Returns damages of 16 octets that become 0.
fn zeros(octets: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let is_zero = |offset: &usize| octets[*offset..offset + 16].iter().all(|octet| *octet == 0);
    (0..octets.len() - 16)
        .step_by(16)
        .filter(|offset| !is_zero(offset))
        .map(|offset| (offset, vec![0; 16]))
        .collect()
}

fn files(root: &Path) -> Vec<(TableName, PathBuf)> {
    let archive = Archive::open(root).unwrap();
    TableName::every()
        .flat_map(|table| {
            archive
                .files(table)
                .unwrap()
                .into_iter()
                .map(move |(_, path)| (table, path))
        })
        .collect()
}

#[test]
fn each_damaged_octet_is_found_or_changes_nothing() {
    let dir = archive();
    let files = files(dir.path());
    assert_eq!(files.len(), 6);
    for (table, path) in files {
        let octets = fs::read(&path).unwrap();
        for damages in [bits(&octets), zeros(&octets)] {
            // The start of the file, and columns whose values are also in the footer, are not read.
            let found = errors(&path, &damages);
            assert!(
                found * 2 > damages.len(),
                "{found} of {} in {}",
                damages.len(),
                table.as_str()
            );
        }
    }
}

#[test]
fn file_in_the_folder_of_another_hour_or_table_is_refused() {
    let dir = archive();
    let files = files(dir.path());
    let of = |wanted: &str| {
        &files
            .iter()
            .find(|(table, _)| table.as_str() == wanted)
            .unwrap()
            .1
    };
    let (ports, events) = (of("ports"), of("events"));
    let hour = ports.parent().unwrap();
    let other = hour.with_file_name(if hour.ends_with("hour=05") {
        "hour=06"
    } else {
        "hour=05"
    });
    fs::create_dir(&other).unwrap();
    for to in [&other.join(ports.file_name().unwrap()), events] {
        assert!(ArchiveFile::open(ports).is_ok());
        fs::copy(ports, to).unwrap();
        assert!(
            matches!(ArchiveFile::open(to), Err(StoreError::Foreign { .. })),
            "{}",
            to.display()
        );
    }
}

#[test]
fn damaged_octet_of_a_file_without_checksums_is_no_panic() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/earlier/archive");
    for (table, path) in files(&archive) {
        assert!(!ArchiveFile::open(&path).unwrap().has_checksums());
        let whole = fs::read(&path).unwrap();
        // The footer has all offsets and types. A footer of ports has those of many columns.
        let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap())
            as usize;
        let footer = whole.len() - 8 - length..whole.len();
        let step = if whole.len() > 10_000 { 37 } else { 1 };
        let offsets: Vec<usize> = (0..footer.start)
            .step_by(37)
            .chain(footer.step_by(step))
            .collect();
        let damaged = |offsets: &[usize]| {
            let dir = tempfile::tempdir().unwrap();
            let copy = dir.path().join("copy");
            fs::write(&copy, &whole).unwrap();
            let file = fs::File::options().write(true).open(&copy).unwrap();
            let mut errors = 0;
            for offset in offsets {
                for octets in [[whole[*offset] ^ 1 << (offset % 8)], [0xff]] {
                    file.write_all_at(&octets, *offset as u64).unwrap();
                    errors += usize::from(readings(&copy).is_err());
                }
                file.write_all_at(&whole[*offset..=*offset], *offset as u64)
                    .unwrap();
            }
            errors
        };
        let errors: usize = offsets.par_chunks(64).map(damaged).sum();
        assert!(errors > 0, "{}", table.as_str());
    }
}
