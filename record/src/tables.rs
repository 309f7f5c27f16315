//! The parts of documents that are made from the code: the fields of `port` records and all
//! counters in `docs/records.md`, the registers in `docs/inside/registers.md`, the columns of ports
//! in SQL, and the schemas of ports in `hub/openapi.json`.
//!
//! `cargo run --no-default-features --example records` updates the documents.

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
    ];
    let tables = tables.into_iter().map(|(name, table)| {
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

fn row(field: PortField) -> String {
    let name = field.name();
    let kind = match field.kind() {
        None => return "| *counters* | integer or array | | one field for each [counter](#counters) |\n".to_owned(),
        Some(Kind::Unsigned(_) | Kind::Signed) => "integer",
        Some(Kind::Float) => "float",
        Some(Kind::Text) => "string",
        Some(Kind::Integers) => "array of integers",
        Some(Kind::Texts) => "array of strings",
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
