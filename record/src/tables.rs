//! The parts of documents that are made from the code: the fields of `port` records and of the
//! records of the physical layer, and all counters in `docs/records.md`, the registers in
//! `docs/inside/registers.md`, the columns of ports in SQL, and the schemas of ports in
//! `hub/openapi.json`.
//!
//! `cargo run --no-default-features --example records` updates the documents.

use super::physical::{self, PhysicalKind};
use super::port::PortField;
use super::value::Kind;
use super::{openapi, sql};
use crate::{attributes, registers};

/// The documents with such parts.
pub const DOCUMENTS: [&str; 6] = [
    "docs/records.md",
    "docs/inside/registers.md",
    "packaging/clickhouse/tables.sql",
    "packaging/clickhouse/nats.sql",
    "hub/openapi.json",
    "packaging/duckdb/ibnet.sql",
];

/// Returns the document with updated parts, or `None` if it does not have the marks around one.
pub fn update(document: &str) -> Option<String> {
    let tables = [
        ("port", port()),
        ("counters", attributes::tables::markdown()),
        ("registers", registers::tables::markdown()),
        ("reasons", registers::link_down::markdown()),
    ];
    let of_layer = PhysicalKind::ALL.map(|kind| (kind.as_str(), physical(kind)));
    let tables = tables.into_iter().chain(of_layer).map(|(name, table)| {
        let mark = |at: &str| format!("<!-- {name}: {at} -->\n");
        (mark("from the code"), mark("end"), table)
    });
    let lists = sql::lists().into_iter().map(|(name, list)| {
        let mark = |at: &str| format!("  -- ports, {name}: {at}\n");
        (mark("from the code"), mark("end"), list)
    });
    let schemas = openapi::schemas().into_iter().map(|(name, schema)| {
        let begin = format!("      \"{name}\": {{\n");
        (begin, "\n      },\n".to_owned(), schema)
    });
    let mut updated = None;
    for (begin, end, part) in tables.chain(lists).chain(schemas) {
        let before = updated.as_deref().unwrap_or(document);
        if let Some((before, rest)) = before.split_once(&begin) {
            let (_, after) = rest.split_once(&end)?;
            updated = Some([before, &begin, &part, &end, after].concat());
        }
    }
    updated
}

/// Returns the table of the fields that only `port` records have.
fn port() -> String {
    let own = PortField::ALL
        .iter()
        .filter(|field| !matches!(field, PortField::ts | PortField::slot | PortField::sampler));
    let rows: String = own.map(|field| row(*field)).collect();
    format!("| name | type | unit | meaning |\n|---|---|---|---|\n{rows}")
}

/// Returns the table of a record of the physical layer.
fn physical(of: PhysicalKind) -> String {
    let port = if of.is_of_port() {
        "port number"
    } else {
        "always null: the record is about the whole switch"
    };
    let since = if of == PhysicalKind::Planes {
        "time since the previous record of this plane; null in the first one"
    } else {
        "time since the previous record of this type and port; null in the first one"
    };
    let head = [
        (
            "guid",
            "string",
            "",
            "port GUID of the device, as in `port`",
        ),
        ("port", "integer", "", port),
        ("lid", "integer", "", "LID to which the queries were sent"),
        ("node", "string", "", "name of the device"),
        ("dt_ns", "integer", "ns ", since),
    ];
    let head = head
        .map(|(name, kind, unit, meaning)| format!("| `{name}` | {kind} | {unit}| {meaning} |\n"));
    let values = physical::columns(of).into_iter().map(|column| {
        let unit = column.unit();
        let unit = unit.map_or_else(String::new, |unit| format!("{unit} "));
        let (name, page) = (column.name, column.page);
        format!(
            "| `{name}` | {} | {unit}| [`{page}`](inside/registers.md#{page}) |\n",
            json_type(column.kind)
        )
    });
    let rows: String = head.into_iter().chain(values).collect();
    format!("| name | type | unit | meaning, or page of the register |\n|---|---|---|---|\n{rows}")
}

/// Returns the type of a value in JSON.
const fn json_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Unsigned(_) | Kind::Signed => "integer",
        Kind::Float => "float",
        Kind::Text => "string",
        Kind::Integers => "array of integers",
        Kind::Texts => "array of strings",
    }
}

fn row(field: PortField) -> String {
    let name = field.name();
    let Some(kind) = field.kind().map(json_type) else {
        return "| *counters* | integer or array | | one field for each [counter](#counters) |\n"
            .to_owned();
    };
    format!(
        "| `{name}` | {kind} | {}| {} |\n",
        field
            .unit()
            .map_or_else(String::new, |unit| format!("{unit} ")),
        phrase(field.meaning())
    )
}

/// Returns sentences as the text of a cell: without the last full stop, and without the capital of
/// the first word unless it is an abbreviation.
fn phrase(sentences: &str) -> String {
    let text = sentences.trim_end_matches('.');
    let start = usize::from(text.starts_with('['));
    let mut letters = text[start..].chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            format!(
                "{}{}{}",
                &text[..start],
                first.to_lowercase(),
                letters.as_str()
            )
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_around_the_tables_is_kept() {
        let marks = |name: &str| {
            format!(
                "before {name}\n<!-- {name}: from the code -->\nold\n<!-- {name}: end -->\nafter {name}\n"
            )
        };
        let document = marks("port") + &marks("counters");
        let updated = update(&document).expect("the document has the marks");
        assert!(
            updated.starts_with("before port\n<!-- port: from the code -->\n| name |")
                && updated.ends_with("end -->\nafter counters\n")
        );
        assert!(updated.contains("\n### `extended`\n") && !updated.contains("old"));
        assert_eq!(update(&updated), Some(updated));
        assert_eq!(update(&document.replace("counters: end", "")), None);
        assert_eq!(update("no marks"), None);
    }

    #[test]
    fn sentences_become_the_text_of_a_cell() {
        let phrases = [
            "Port GUID.",
            "MTU. Absent.",
            "`ok`: x.",
            "[Result](#status).",
        ]
        .map(phrase);
        assert_eq!(
            phrases,
            ["port GUID", "MTU. Absent", "`ok`: x", "[result](#status)"]
        );
        assert_eq!(
            row(PortField::mtu).split(" | ").take(3).collect::<Vec<_>>(),
            ["| `mtu`", "integer", "bytes"]
        );
    }
}
