//! Finds the key that an error of the TOML parser is about, by the position of the error in the
//! text.

use ibnet_record::suggest;
use toml::de::{DeTable, DeValue};

use super::examples::Keys;
use super::keys::line_at;

/// Max number of characters of a value in a message.
const MAX_FOUND: usize = 60;

/// Shown instead of a value that may contain a password.
const SECRET: &str = "a value that can have a password, which is not shown";

/// An error of the parser.
#[derive(Debug)]
pub(super) enum Explained {
    /// A key does not exist. `nearest` is the key that the user probably meant.
    UnknownKey {
        line: usize,
        found: String,
        nearest: Option<String>,
    },
    /// A line or a value is wrong. `key` contains the name of its table, and is empty if it is
    /// unknown.
    Wrong {
        line: usize,
        key: String,
        message: String,
    },
}

/// Explains an error of the parser for this text, in which `keys` are valid.
pub(super) fn explain(text: &str, error: &toml::de::Error, keys: &Keys) -> Explained {
    let at = error.span().map_or(0, |span| span.start);
    let line = line_at(text, at);
    let Ok(table) = DeTable::parse(text) else {
        // The line itself is not shown, because it may contain a password whose key is not
        // recognized.
        let message = format!("cannot read this line: {}", error.message());
        return Explained::Wrong {
            line,
            key: key_of_line(text, line).unwrap_or_default(),
            message,
        };
    };
    match leaf_at(table.get_ref(), "", at) {
        None => Explained::Wrong {
            line,
            key: String::new(),
            message: error.message().to_owned(),
        },
        Some(leaf) if keys.has(&leaf.key) => {
            let found = if leaf.key.contains("password") {
                SECRET.to_owned()
            } else {
                shown(&text[leaf.from..leaf.to])
            };
            let message = format!(
                "cannot use {}: the value is not valid (found {found})",
                leaf.key
            );
            Explained::Wrong {
                line,
                key: leaf.key,
                message,
            }
        }
        Some(leaf) => {
            let (table, found) = leaf.key.rsplit_once('.').unwrap_or(("", &leaf.key));
            let nearest = suggest::nearest(found, &keys.names(table)).map(str::to_owned);
            Explained::UnknownKey {
                line,
                found: found.to_owned(),
                nearest,
            }
        }
    }
}

/// A key whose value is not a table, with the byte range of the value.
struct Leaf {
    key: String,
    from: usize,
    to: usize,
}

/// Returns the key whose value contains this byte of the text. `within` is the name of the table
/// followed by a dot, or empty.
fn leaf_at(table: &DeTable<'_>, within: &str, at: usize) -> Option<Leaf> {
    table.iter().find_map(|(name, value)| {
        let (span, key) = (value.span(), format!("{within}{}", name.get_ref()));
        let inner = match value.get_ref() {
            DeValue::Table(table) => leaf_at(table, &format!("{key}."), at),
            DeValue::Array(items) => {
                let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                tables
                    .into_iter()
                    .find_map(|table| leaf_at(table, &format!("{key}."), at))
            }
            _ => None,
        };
        let is_here = (span.start..=span.end).contains(&at)
            || (name.span().start..=name.span().end).contains(&at);
        inner.or_else(|| {
            is_here.then_some(Leaf {
                key,
                from: span.start,
                to: span.end,
            })
        })
    })
}

/// Returns the key of a line of a text that is not valid TOML.
fn key_of_line(text: &str, line: usize) -> Option<String> {
    let name = text.lines().nth(line - 1)?.split_once('=')?.0.trim();
    let table = text
        .lines()
        .take(line)
        .filter_map(|line| line.trim().strip_prefix('['))
        .last();
    let table = table.map(|table| table.trim_matches(|c: char| "[] ".contains(c)));
    Some(table.map_or_else(|| name.to_owned(), |table| format!("{table}.{name}")))
}

/// Formats a value for a message: short, on one line, and without a password.
fn shown(value: &str) -> String {
    // The part of an address before the `@` can be a password.
    if value.contains('@') {
        return SECRET.to_owned();
    }
    let line: String = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_FOUND) {
        Some((end, _)) => format!("{}\u{2026}", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Raw;
    use super::super::examples::KEYS;
    use super::*;

    fn explained(text: &str) -> Explained {
        explain(
            text,
            &toml::from_str::<Raw>(text).expect_err("refused"),
            &KEYS,
        )
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
            (
                "[[output]]\ntype = \"nats\"\npassword = \"CANARY\"",
                Some("password_file"),
            ),
            ("zzz = 1", None),
        ] {
            let Explained::UnknownKey { nearest, .. } = explained(text) else {
                panic!("{text}")
            };
            assert_eq!(nearest.as_deref(), meant, "{text}");
        }
    }

    #[test]
    fn value_that_is_not_valid_has_its_key() {
        for (text, expected) in [
            (
                "window = \"many\"",
                "window: the value is not valid (found \"many\")",
            ),
            ("window = -1", "window: the value is not valid (found -1)"),
            (
                "wait_every = 99999999999",
                "wait_every: the value is not valid (found 99999999999)",
            ),
            (
                "cpus = [\n  1,\n  \"x\",\n]",
                "cpus: the value is not valid (found [ 1, \"x\", ])",
            ),
            (
                "[metrics]\nsecondary = 1",
                "metrics.secondary: the value is not valid (found 1)",
            ),
            ("metrics = 1", "metrics: the value is not valid (found 1)"),
            (
                "[[output]]\ntype = \"file\"\nkeep = \"7d\"",
                "output.keep: the value is not valid (found \"7d\")",
            ),
            (
                "simulated = { loss = \"x\" }",
                "simulated.loss: the value is not valid (found \"x\")",
            ),
        ] {
            assert_eq!(message(text), format!("cannot use {expected}"), "{text}");
        }
    }

    #[test]
    fn line_that_is_not_toml_has_its_key() {
        for (text, expected) in [
            ("simulate = fabric.p", "simulate"),
            ("interval = 5s # often", "interval"),
            ("[metrics]\nlisten = 127.0.0.1:1", "metrics.listen"),
            ("[[output]]\nkeep = 7d", "output.keep"),
            ("window = 1\nwindow = 2", "window"),
            ("[simulated", ""),
        ] {
            let Explained::Wrong { key, message, .. } = explained(text) else {
                panic!("{text}")
            };
            assert!(message.starts_with("cannot read this line: "), "{message}");
            assert_eq!(key, expected, "{text}");
        }
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
            "password = CANARY",
            "password: CANARY",
            "password = \"CANARY",
            "[plan_server]\ntoken = CANARY",
            "[plan_server]\npassword_file = CANARY",
            "[plan_server]\npassword_file = [\"CANARY\"]",
        ] {
            let explained = format!("{:?}", explained(text));
            assert!(!explained.contains("CANARY"), "{explained}");
        }
    }
}
