//! The schemas in `hub/openapi.json` of the fields that the hub answers as the record has them,
//! made from the table of fields.

use std::borrow::Cow;

use super::port::{PortField, PortFields};
use super::value::{FieldValue, Kind};
use crate::types::NodeKind;

/// Fields that the answer has under another name or from another record, or lacks.
const ELSEWHERE: [PortField; 17] = [
    PortField::role,
    PortField::peer_guid,
    PortField::peer_port,
    PortField::peer,
    PortField::mtu,
    PortField::vls,
    PortField::mtu_cap,
    PortField::vl_cap,
    PortField::vl_high_limit,
    PortField::vl_stall_count,
    PortField::hoq_life,
    PortField::mkey_violations,
    PortField::pkey_violations,
    PortField::qkey_violations,
    PortField::errno,
    PortField::saturated,
    PortField::xmit_blocked_dt_ns,
];

/// Returns the fields that an answer about a port has as the record has them, null if absent:
/// those in its object `rates`, or those beside it.
pub fn fields(are_rates: bool) -> impl Iterator<Item = PortField> {
    PortField::fixed()
        .filter(|field| !ELSEWHERE.contains(field))
        .filter(move |field| are_rates == (field.kind() == Some(Kind::Float)))
}

/// Returns the contents of the schemas, by their names.
pub(super) fn schemas() -> [(&'static str, String); 2] {
    [("PortRecord", schema(false)), ("PortRates", schema(true))]
}

fn schema(are_rates: bool) -> String {
    let properties: Vec<_> = fields(are_rates).map(property).collect();
    let names: Vec<_> = fields(are_rates)
        .map(|field| quoted(field.name()))
        .collect();
    // Only the schema of a whole object forbids other fields.
    let others = if are_rates {
        "\n        \"additionalProperties\": false,"
    } else {
        ""
    };
    format!(
        r#"        "type": "object",{others}
        "description": "Made from the table of the fields of ports by `make generate`",
        "properties": {{
{}
        }},
        "required": [{}]"#,
        properties.join(",\n"),
        names.join(", ")
    )
}

fn property(field: PortField) -> String {
    let empty = PortFields::<Cow<'_, str>, ()>::without_values(());
    let kinds = NodeKind::ALL.map(|kind| quoted(kind.as_str()) + ", ");
    let kinds = format!(r#", "enum": [{}null]"#, kinds.concat());
    let (kind, values) = match (field, field.kind()) {
        (PortField::guid, _) => (r#""string""#, r#", "pattern": "^0x[0-9a-f]{16}$""#),
        (PortField::kind, _) => (r#""string""#, kinds.as_str()),
        (_, Some(Kind::Unsigned(_) | Kind::Signed)) => (r#""integer""#, ""),
        (_, Some(Kind::Float)) => (r#""number""#, ""),
        (_, Some(Kind::Text) | None) => (r#""string""#, ""),
        (_, Some(Kind::Integers)) => (r#""array""#, r#", "items": {"type": "integer"}"#),
        (_, Some(Kind::Texts)) => (r#""array""#, r#", "items": {"type": "string"}"#),
    };
    let kind = if empty.get(field) == FieldValue::Null {
        format!(r#"[{kind}, "null"]"#)
    } else {
        kind.to_owned()
    };
    let unit = field
        .unit()
        .map_or_else(String::new, |unit| format!(". Unit: {unit}"));
    let meaning = quoted(&(description(field.meaning()) + &unit));
    format!(
        r#"          {}: {{"type": {kind}, "description": {meaning}{values}}}"#,
        quoted(field.name())
    )
}

/// Returns sentences for `docs/records.md` as those of the answer: a link is its text, and an
/// absent value is null.
fn description(sentences: &str) -> String {
    let mut parts = sentences.trim_end_matches('.').split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| {
        text + part.split_once(')').map_or(part, |(_, after)| after)
    });
    text.replace('[', "").replace("Absent", "Null")
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_their_text_and_absent_values_are_null() {
        assert_eq!(
            description("Width and [speed](#rates) (IBA) of [a](#b) link. Absent if down."),
            "Width and speed (IBA) of a link. Null if down"
        );
    }
}
