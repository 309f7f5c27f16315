//! The report as JSON, for programs.

use ibnet_record::text;
use serde::Serialize;

use super::facts::Facts;

/// Version of the JSON schema.
pub const SCHEMA: u32 = 1;

/// The JSON report: the origin of the facts, and the facts.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    command: &'a str,
    sources: Vec<Source<'a>>,
    #[serde(flatten)]
    facts: OneOrMore<'a>,
}

/// The facts of one subnet, or of several.
#[derive(Serialize)]
#[serde(untagged)]
enum OneOrMore<'a> {
    One(&'a Facts),
    More { subnets: Vec<&'a Facts> },
}

#[derive(Serialize)]
struct Source<'a> {
    name: &'a str,
    sha256: &'a str,
}

/// Formats the JSON report of one or several subnets. `sources` has the name and SHA-256 of each
/// net file, and `command` is the command line.
pub fn to_json<'a>(
    subnets: impl IntoIterator<Item = &'a Facts>,
    sources: &[(String, String)],
    command: &str,
) -> String {
    let sources = sources
        .iter()
        .map(|(name, sha256)| Source { name, sha256 })
        .collect();
    let subnets: Vec<_> = subnets.into_iter().collect();
    let facts = if let [only] = subnets[..] {
        OneOrMore::One(only)
    } else {
        OneOrMore::More { subnets }
    };
    let document = Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command,
        sources,
        facts,
    };
    // Serializing numbers, strings and lists does not fail.
    text::to_string_pretty(&document).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use ibnet_record::types::misleads;
    use serde_json::Value;

    use super::super::facts::tests::of;
    use super::*;
    use crate::topology::synthetic;

    #[test]
    fn json_has_documented_names_and_escaped_texts() {
        let hostile = "x\" \u{1b}[2J\u{9b}\u{202e}\u{e0001} <y>";
        let text = synthetic::stria()
            .ports_report()
            .replace("'leaf12'", &format!("'{hostile}'"));
        let (facts, _) = of(&text, "node00001", 968);
        let json = to_json(
            [&facts],
            &[("net.p".to_owned(), "ab".to_owned())],
            "ibnet-gen --net net.p",
        );
        assert!(!json.contains(|c| c != '\n' && misleads(c)));
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            value["samplers"][0]["switches"][11]["name"], hostile,
            "parsing restores the name"
        );
        assert_eq!(
            (&value["schema"], &value["assigned"]["ports"]),
            (&Value::from(1), &Value::from(968))
        );
        // Programs rely on these names. docs/results.md must describe each of them.
        let document = include_str!("../../../docs/results.md")
            .split("\n## ")
            .find(|section| section.starts_with("Report of ibnet-gen"))
            .unwrap();
        let mut names = Vec::new();
        keys(&value, &mut names);
        names.extend(
            [
                "line",
                "kind",
                "loses_a_port",
                "text",
                "reason",
                "guid",
                "lid",
                "name",
                "ports",
                "host",
            ]
            .map(str::to_owned),
        );
        let unknown: Vec<_> = names
            .iter()
            .filter(|name| !document.contains(&format!("`{name}`")))
            .collect();
        assert!(
            unknown.is_empty(),
            "docs/results.md does not describe {unknown:?}"
        );
    }

    #[test]
    fn each_subnet_has_its_facts() {
        let (facts, _) = of(&synthetic::stria().ports_report(), "node00001", 968);
        let rails = ["rail0", "rail1"].map(|name| Facts {
            subnet: Some(name.to_owned()),
            ..facts.clone()
        });
        let value: Value = serde_json::from_str(&to_json(&rails, &[], "")).unwrap();
        assert_eq!(
            (
                &value["subnets"][1]["subnet"],
                &value["subnets"][1]["assigned"]["ports"]
            ),
            (&"rail1".into(), &968.into())
        );
        assert!(value.get("assigned").is_none() && value["schema"] == 1);
    }

    fn keys(value: &Value, to: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                to.push(name.clone());
                keys(value, to);
            }),
            Value::Array(values) => values.iter().for_each(|value| keys(value, to)),
            _ => {}
        }
    }
}
