//! Explains errors of the TOML parser in terms of the configuration: the key, the value, the valid
//! values and an example.

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::examples::{example, is_text};
use super::keys::line_at;
use crate::suggest;

/// Largest number of characters of a value in a message.
const MAX_FOUND: usize = 60;

/// An error of the parser.
#[derive(Debug)]
pub(super) enum Explained {
    /// A key does not exist. `nearest` is the key that was probably meant.
    UnknownKey { line: usize, found: String, nearest: Option<String> },
    /// A line or a value is wrong. `key` has the name of its table, and is empty if it is unknown.
    Wrong { line: usize, key: String, message: String },
}

/// Explains an error of the parser for this text.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> Explained {
    let at = error.span().map_or(0, |span| span.start);
    let line = line_at(text, at);
    if let Some((found, known)) = unknown(error.message()) {
        let nearest = suggest::nearest(&found, &known).map(str::to_owned);
        return Explained::UnknownKey { line, found, nearest };
    }
    match DeTable::parse(text) {
        Ok(table) => {
            let leaf = leaf_at(table.get_ref(), "", at);
            let key = leaf.as_ref().map(|leaf| leaf.key.clone()).unwrap_or_default();
            let found = leaf.map(|leaf| shown(&text[leaf.from..leaf.to])).unwrap_or_default();
            Explained::Wrong { line, message: wrong_type(&key, &found, error.message()), key }
        }
        Err(_) => {
            let (key, message) = wrong_syntax(text, line, error.message());
            Explained::Wrong { line, key, message }
        }
    }
}

/// Returns the unknown name in an error message of serde, and the known names.
///
/// Returns `None` if the message is not about an unknown name.
fn unknown(message: &str) -> Option<(String, Vec<&str>)> {
    // serde writes: unknown field `windwo`, expected one of `assignments`, `net`
    let rest = message.strip_prefix("unknown field ")?;
    let mut words = rest.split('`').skip(1).step_by(2);
    Some((words.next()?.to_owned(), words.collect()))
}

/// A key whose value is not a table, and the octets of the value.
struct Leaf {
    key: String,
    from: usize,
    to: usize,
}

/// Returns the key whose value contains this octet of the text. `within` is the name of the table
/// with a dot, or empty.
fn leaf_at(table: &DeTable<'_>, within: &str, at: usize) -> Option<Leaf> {
    table.iter().find_map(|(name, value)| {
        let (span, key) = (value.span(), format!("{within}{}", name.get_ref()));
        let inner = match value.get_ref() {
            DeValue::Table(table) => leaf_at(table, &format!("{key}."), at),
            DeValue::Array(items) => {
                let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                tables.into_iter().find_map(|table| leaf_at(table, &format!("{key}."), at))
            }
            _ => None,
        };
        let is_here = (span.start..=span.end).contains(&at) || (name.span().start..=name.span().end).contains(&at);
        inner.or_else(|| is_here.then_some(Leaf { key, from: span.start, to: span.end }))
    })
}

/// Describes a value of the wrong type.
fn wrong_type(key: &str, found: &str, message: &str) -> String {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    let key = if key.is_empty() { "this value" } else { key };
    match rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((_, expected)) => format!("cannot use {key}: expected {} (found {found})", expected_in_words(expected)),
        None => format!("cannot use {key}: {message} (found {found})"),
    }
}

/// Describes a line that is not valid TOML. Returns the key of the line and the description.
fn wrong_syntax(text: &str, line: usize, message: &str) -> (String, String) {
    let of_error = text.lines().nth(line - 1).unwrap_or_default().trim();
    let Some((name, value)) = of_error.split_once('=').map(|(name, value)| (name.trim(), without_comment(value))) else {
        return (String::new(), format!("cannot read this line: {message} (found {})", shown(of_error)));
    };
    let table = text.lines().take(line).filter_map(|line| line.trim().strip_prefix('[')).last();
    let table = table.map(|table| table.trim_matches(|c: char| "[] ".contains(c)));
    let key = table.map_or_else(|| name.to_owned(), |table| format!("{table}.{name}"));
    let is_value = format!("x = {value}").parse::<toml::Table>().is_ok();
    let is_bare = !is_value && !value.is_empty() && !value.starts_with(['"', '\'', '[', '{']);
    let description = match example(&key) {
        _ if !is_bare => format!("cannot read this line: {message} (found {})", shown(of_error)),
        Some(line) if !is_text(&key) => format!("cannot use {key}: expected a value such as that of `{line}` (found {})", shown(value)),
        _ => format!("cannot use {key}: text needs quotes (found {}); write {name} = {}", shown(value), Value::from(shown(value))),
    };
    (key, description)
}

/// Returns a value without the comment after it.
fn without_comment(value: &str) -> &str {
    value.split_once(" #").map_or(value, |(value, _)| value).trim()
}

/// Returns a value as it is shown in a message: short, on one line, and without a password.
fn shown(value: &str) -> String {
    // Before the `@` of an address can be a password.
    if value.contains('@') {
        return "a value with an @, which is not shown".to_owned();
    }
    let line: String = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_FOUND) {
        Some((end, _)) => format!("{}\u{2026}", &line[..end]),
        None => line,
    }
}

/// Describes a type that serde expects, in words.
fn expected_in_words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u8" => "a whole number, 0 or more",
        "u32" => "a whole number from 0 to 4294967295",
        "f64" => "a number",
        "a string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list such as [\"a\", \"b\"]",
        "a map" => "a table",
        struct_of if struct_of.starts_with("struct ") => "a table",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Raw;
    use super::*;

    fn explained(text: &str) -> Explained {
        explain(text, &toml::from_str::<Raw>(text).expect_err("refused"))
    }

    #[track_caller]
    fn message(text: &str) -> String {
        match explained(text) {
            Explained::Wrong { message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn key_that_was_meant_is_suggested() {
        for (text, meant) in [
            ("windwo = 8", Some("window")),
            ("assignment = \"a\"", Some("assignments")),
            ("intervall = \"1s\"", Some("interval")),
            ("mads_per_second = 9", Some("max_mads_per_second")),
            ("[simulated]\nlos = 0.5", Some("loss")),
            ("period = \"1s\"", Some("interval")),
            ("service_level = 1", Some("sl")),
            ("plan = \"a\"", Some("assignments")),
            ("[[output]]\ntype = \"nats\"\nurl = \"a\"", Some("server")),
            ("[[output]]\ntype = \"nats\"\npassword = \"CANARY\"", Some("password_file")),
            ("zzz = 1", None),
        ] {
            let Explained::UnknownKey { nearest, .. } = explained(text) else { panic!("{text}") };
            assert_eq!(nearest.as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn value_of_the_wrong_type_has_its_key_and_the_valid_values() {
        for (text, expected) in [
            ("window = \"many\"", "cannot use window: expected a whole number, 0 or more (found \"many\")"),
            ("window = -1", "cannot use window: expected a whole number, 0 or more (found -1)"),
            ("wait_every = 99999999999", "cannot use wait_every: expected a whole number from 0 to 4294967295 (found 99999999999)"),
            ("interval = 1", "cannot use interval: expected text in quotes (found 1)"),
            ("adaptive = \"yes\"", "cannot use adaptive: expected true or false (found \"yes\")"),
            ("groups = \"base\"", "cannot use groups: expected a list such as [\"a\", \"b\"] (found \"base\")"),
            ("cpus = [\n  1,\n  \"x\",\n]", "cannot use cpus: expected a whole number, 0 or more (found [ 1, \"x\", ])"),
            ("[metrics]\nsecondary = 1", "cannot use metrics.secondary: expected true or false (found 1)"),
            ("[[output]]\ntype = \"file\"\nkeep = \"7d\"", "cannot use output.keep: expected a whole number, 0 or more (found \"7d\")"),
            ("simulated = { loss = \"x\" }", "cannot use simulated.loss: expected a number (found \"x\")"),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
    }

    #[test]
    fn text_without_quotes_is_named() {
        for (text, expected) in [
            ("simulate = fabric.p", "cannot use simulate: text needs quotes (found fabric.p); write simulate = \"fabric.p\""),
            ("interval = 5s # often", "cannot use interval: text needs quotes (found 5s); write interval = \"5s\""),
            (
                "[metrics]\nlisten = 127.0.0.1:1",
                "cannot use metrics.listen: text needs quotes (found 127.0.0.1:1); write listen = \"127.0.0.1:1\"",
            ),
            ("adaptive = True", "cannot use adaptive: expected a value such as that of `adaptive = true` (found True)"),
            ("[[output]]\nkeep = 7d", "cannot use output.keep: expected a value such as that of `keep = 24` (found 7d)"),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
        assert!(message("[simulated").starts_with("cannot read this line: "));
        assert!(message("window = 1\nwindow = 2").starts_with("cannot read this line: "));
    }

    #[test]
    fn password_is_in_no_message() {
        for text in [
            "[[output]]\nserver = nats://user:CANARY@host",
            "[[output]]\nserver = \"nats://user:CANARY@host",
            "[[output]]\nserver = [\"nats://user:CANARY@host\"]",
            "[[output]]\ntype = \"nats\"\nservers = \"nats://user:CANARY@host\"",
            "[[output]]\nserver = 1 \"user:CANARY@host\"",
            "server nats://user:CANARY@host",
        ] {
            let explained = format!("{:?}", explained(text));
            assert!(!explained.contains("CANARY"), "{explained}");
        }
    }
}
