//! A record with a different value in each field goes through the archive and comes out again: as a
//! line, and as a record. The fields come from the list of the record, so a new one is tested too.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use ibnet_analysis::input::{self, Fold, Inputs};
use ibnet_analysis::record::{Record, Type, Value};
use ibnet_record::schema::Kind;
use ibnet_record::types::{Guid, NodeKind};
use ibnet_record::{FieldValue, PortField, Role, counter_lengths};
use ibnet_store::archive::Archive;
use ibnet_store::pack::{PackOptions, Packer};
use ibnet_store::parse::Batch;
use ibnet_store::read::ArchiveFile;
use ibnet_store::schema::TableName;
use serde_json::{Map, Value as Json, json};

/// Time of the record.
const TS: u64 = 1_795_262_400_000_000_000;

/// Returns the record as JSON. Each field has a value of its own.
fn record() -> Map<String, Json> {
    let fixed = PortField::fixed().map(|field| {
        let number = 100 + field as u64;
        let value = match (field, field.kind().unwrap()) {
            (PortField::ts, _) => json!(TS),
            (PortField::role, _) => json!(Role::Secondary.as_str()),
            (PortField::guid | PortField::peer_guid, _) => json!(Guid(number).to_string()),
            (PortField::kind, _) => json!(NodeKind::Router.as_str()),
            (_, Kind::Unsigned(64)) => json!(number * 1_000_003),
            (_, Kind::Unsigned(_)) => json!(number),
            (_, Kind::Signed) => json!(-5),
            (_, Kind::Float) => json!(number as f64 / 1e6),
            (_, Kind::Texts) => json!([format!("a{number}"), format!("b{number}")]),
            (_, Kind::Text | Kind::Integers) => json!(format!("text {number}\t\"")),
        };
        (field.name().to_owned(), value)
    });
    let counters = counter_lengths()
        .zip(1000_u64..)
        .map(|((name, values), first)| {
            let value = if values == 1 {
                json!(first)
            } else {
                json!(
                    (0..values as u64)
                        .map(|place| first + place)
                        .collect::<Vec<_>>()
                )
            };
            (name.to_owned(), value)
        });
    [("type".to_owned(), json!("port"))]
        .into_iter()
        .chain(fixed)
        .chain(counters)
        .collect()
}

/// The fields of all records, and their counters.
#[derive(Clone, PartialEq, Debug, Default)]
struct Census {
    fields: Vec<Vec<FieldValue<'static>>>,
    counters: Vec<Vec<(String, Value)>>,
}

impl Fold for Census {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        true
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        let values = PortField::fixed()
            .map(|field| port.get(field).into_owned())
            .collect();
        let mut counters: Vec<_> = port
            .counters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        counters.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        self.fields.push(values);
        self.counters.push(counters);
    }

    fn merge(&mut self, other: Self) {
        self.fields.extend(other.fields);
        self.counters.extend(other.counters);
    }
}

#[test]
fn every_field_comes_out_of_the_archive_as_it_went_in() {
    let record = record();
    let line = serde_json::to_string(&record).unwrap() + "\n";
    let dir = tempfile::tempdir().unwrap();
    let (lines, root) = (dir.path().join("lines.jsonl"), dir.path().join("archive"));
    std::fs::write(&lines, &line).unwrap();
    let mut packer = Packer::new(&root, PackOptions::default()).unwrap();
    packer.add(Batch::parse(line.as_bytes())).unwrap();
    packer.finish(&|_, _| {}).unwrap();

    // As a line.
    let files = Archive::open(&root)
        .unwrap()
        .files(TableName::Ports)
        .unwrap();
    let file = ArchiveFile::open(&files[0].1).unwrap();
    let schema = TableName::Ports.schema();
    let table = file.read(0, &vec![true; schema.columns.len()]).unwrap();
    let packed: Map<String, Json> = serde_json::from_slice(&table.line(0)).unwrap();
    assert_eq!(packed, record);

    // As a record, of the line and of the archive.
    let read = |path| {
        input::read(&Inputs::new(&[path]).unwrap(), &Census::default())
            .unwrap()
            .0
    };
    let (of_line, of_archive) = (read(lines), read(root));
    let ([values], [counters]) = (&of_line.fields[..], &of_line.counters[..]) else {
        panic!("one record")
    };
    for (field, value) in PortField::fixed().zip(values) {
        assert_ne!(value, &FieldValue::Null, "{}", field.name());
    }
    assert_eq!(
        counters.len() + PortField::fixed().count() + 1,
        record.len()
    );
    assert_eq!(of_archive, of_line);
}
