//! Lines to tables, to Parquet and back.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::column::writer::ColumnCloseResult;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::error::StoreError;
use crate::parse::Batch;
use crate::read::ArchiveFile;
use crate::table::Table;
use crate::write::{FileWriter, keys};

const PORT: &str = r#"{"type":"port","ts":1795000000000000007,"slot":3,"sampler":"a","role":"secondary","guid":"0x00000000000000ab","port":2,"lid":9,"node":"n\u001b","kind":"switch","hops":null,"peer_guid":"0x0000000000000001","peer_port":4,"peer":"p","link":"4xEDR","link_source":"live","status":"ok","rtt_ns":5,"rtt_min_ns":4,"mads":1,"identity":"ok","port_xmit_pkts":18446744073709551615,"port_vl_op_packets":[1,2],"saturated":["port_rcv_errors"],"dt_ns":1,"xmit_gbps":1.5,"rcv_gbps":0.0,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":0.5,"xmit_blocked_dt_ns":2}"#;

/// Writes a table to a file and reads it again.
fn through_parquet(table: &Table) -> Table {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = FileWriter::new(file.as_file(), table.name()).unwrap();
    writer.write(table, &table.order()).unwrap();
    let (_, sum) = writer.finish().unwrap();
    let read = ArchiveFile::open(file.path()).unwrap();
    assert_eq!(read.verify().unwrap(), sum);
    assert_eq!(read.unknown_columns().count(), 0);
    read.read_all().unwrap()
}

/// Copies a file without some columns, as an earlier version wrote it.
fn copy_without(columns: &[&str], from: &Path, to: File) {
    let source = File::open(from).unwrap();
    let reader = SerializedFileReader::new(source.try_clone().unwrap()).unwrap();
    let of_file = reader.metadata().file_metadata();
    let is_kept = |name: &str| !columns.contains(&name);
    let fields = of_file
        .schema()
        .get_fields()
        .iter()
        .filter(|field| is_kept(field.name()))
        .cloned()
        .collect();
    let schema = Type::group_type_builder(of_file.schema().name())
        .with_fields(fields)
        .build()
        .unwrap();
    // An earlier version wrote no checksums.
    let values = of_file
        .key_value_metadata()
        .into_iter()
        .flatten()
        .filter(|pair| pair.key != keys::CHECKSUMS)
        .cloned();
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(values.collect()))
        .build();
    let mut writer = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties)).unwrap();
    for group in reader.metadata().row_groups() {
        let mut copy = writer.next_row_group().unwrap();
        for column in group
            .columns()
            .iter()
            .filter(|column| is_kept(&column.column_path().parts()[0]))
        {
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size().cast_unsigned(),
                rows_written: group.num_rows().cast_unsigned(),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(&source, close).unwrap();
        }
        copy.close().unwrap();
    }
    writer.close().unwrap();
}

fn tables(text: &str) -> Vec<Table> {
    let batch = Batch::parse(text.as_bytes());
    assert_eq!(batch.invalid, []);
    let mut tables: Vec<_> = batch.tables.into_iter().collect();
    tables.sort_by_key(|(key, _)| *key);
    tables.into_iter().map(|(_, table)| table).collect()
}

/// Returns the lines of all tables after they were written and read, sorted.
fn returned(text: &str) -> Vec<String> {
    let tables = tables(text).iter().map(through_parquet).collect::<Vec<_>>();
    let lines = tables
        .iter()
        .flat_map(|table| (0..table.len()).map(|row| String::from_utf8(table.line(row)).unwrap()));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn line_is_returned_octet_by_octet() {
    assert_eq!(returned(PORT), [PORT]);
}

#[test]
fn every_derived_value_has_its_column() {
    for (text, millionths) in [
        ("0.0", 0),
        ("1e-6", 1),
        ("8e-6", 8),
        ("1.5", 1_500_000),
        ("99.999999", 99_999_999),
        ("4800.000001", 4_800_000_001),
    ] {
        let line = PORT.replace(r#""xmit_gbps":1.5"#, &format!(r#""xmit_gbps":{text}"#));
        assert_eq!(returned(&line), [line.as_str()]);
        let table = tables(&line).remove(0);
        assert_eq!(
            table
                .floats("xmit_gbps")
                .map(|values| (values[0] * 1e6).round() as i64),
            Some(millionths),
            "{text}"
        );
        assert!(
            table
                .texts("extra")
                .is_some_and(|extra| extra.get(0).is_none()),
            "{text}"
        );
    }
}

#[test]
fn any_notation_of_a_derived_value_has_its_column() {
    let line = PORT.replace(r#""xmit_gbps":1.5"#, r#""xmit_gbps":5.30e-05"#);
    assert_eq!(tables(&line)[0].floats("xmit_gbps"), Some(&[5.3e-5][..]));
}

#[test]
fn value_with_more_decimals_is_kept_as_text() {
    for text in ["0.1234567", "1e-7", "1e300", "-0.0"] {
        let line = PORT.replace(r#""xmit_gbps":1.5"#, &format!(r#""xmit_gbps":{text}"#));
        let table = tables(&line).remove(0);
        assert!(
            table
                .texts("extra")
                .is_some_and(|extra| extra.get(0).is_some_and(|extra| extra.contains(text))),
            "{text}"
        );
    }
}

/// Replaces all occurrences of a name in a file by another one of the same length.
fn rename(path: &Path, from: &str, to: &str) {
    let mut octets = std::fs::read(path).unwrap();
    let places: Vec<usize> = memchr::memmem::find_iter(&octets, from).collect();
    assert!(!places.is_empty());
    places
        .into_iter()
        .for_each(|place| octets[place..place + to.len()].copy_from_slice(to.as_bytes()));
    std::fs::write(path, octets).unwrap();
}

#[test]
fn unknown_column_is_named_and_a_missing_required_one_is_refused() {
    let table = tables(PORT).swap_remove(0);
    let (file, copy) = (
        tempfile::NamedTempFile::new().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    let mut writer = FileWriter::new(file.as_file(), table.name()).unwrap();
    writer.write(&table, &table.order()).unwrap();
    writer.finish().unwrap();
    copy_without(&[], file.path(), copy.reopen().unwrap());
    assert!(!ArchiveFile::open(copy.path()).unwrap().has_checksums());
    rename(copy.path(), "peer_guid", "peer_guix");
    let read = ArchiveFile::open(copy.path()).unwrap();
    assert_eq!(read.unknown_columns().collect::<Vec<_>>(), ["peer_guix"]);
    let line = String::from_utf8(read.read_all().unwrap().line(0)).unwrap();
    assert_eq!(line, PORT.replace("\"0x0000000000000001\"", "null"));
    rename(copy.path(), "guid", "guix");
    let error = ArchiveFile::open(copy.path()).unwrap_err();
    assert!(
        matches!(&error, StoreError::Foreign { why, .. } if why == "no column `guid`"),
        "{error:?}"
    );
    // The checksums show that a file was changed.
    rename(file.path(), "peer_guid", "peer_guix");
    assert!(matches!(
        ArchiveFile::open(file.path()).unwrap_err(),
        StoreError::Damaged { .. }
    ));
}

#[test]
fn file_without_a_later_column_is_read_with_newer_files() {
    let new = PORT
        .replace(r#""live","#, r#""live","mtu":4096,"vls":8,"#)
        .replace(r#""ts":1795"#, r#""ts":1796"#);
    let write = |text: &str| {
        let (file, table) = (
            tempfile::NamedTempFile::new().unwrap(),
            tables(text).remove(0),
        );
        let mut writer = FileWriter::new(file.as_file(), table.name()).unwrap();
        writer.write(&table, &table.order()).unwrap();
        writer.finish().unwrap();
        file
    };
    let earlier = tempfile::NamedTempFile::new().unwrap();
    copy_without(
        &["mtu", "vls"],
        write(PORT).path(),
        earlier.reopen().unwrap(),
    );
    let columns = |file: &Path| {
        SerializedFileReader::new(File::open(file).unwrap())
            .unwrap()
            .metadata()
            .file_metadata()
            .schema_descr()
            .num_columns()
    };
    assert_eq!(columns(earlier.path()) + 2, columns(write(&new).path()));
    let earlier = ArchiveFile::open(earlier.path()).unwrap();
    earlier.verify().unwrap();
    let mut both = earlier.read_all().unwrap();
    both.append(
        &ArchiveFile::open(write(&new).path())
            .unwrap()
            .read_all()
            .unwrap(),
        &[0],
    );
    assert_eq!(
        [0, 1].map(|row| String::from_utf8(both.line(row)).unwrap()),
        [PORT, &*new]
    );
    assert_eq!(
        [0, 1].map(|row| both.integers("mtu").and_then(|mtu| mtu.get(row))),
        [None, Some(4096)]
    );
}

/// The hour of a line is that of its first `ts`, and its row would have the last one.
#[test]
fn line_with_two_times_is_invalid() {
    let good = r#"{"type":"sweep","ts":1700000000000000000,"slot":1,"sampler":"a"}"#;
    let twice = good.replace('}', r#","ts":1}"#);
    let batch = Batch::parse(format!("{good}\n{twice}\n{good}").as_bytes());
    let [(line, reason)] = &batch.invalid[..] else {
        panic!("one line is invalid: {:?}", batch.invalid)
    };
    assert!(*line == 1 && reason.contains("`ts` twice"), "{reason}");
    assert_eq!(batch.tables.len(), 1);
    assert!(batch.tables.values().all(|table| table.len() == 2));
}
