//! Finds keys in the text of a configuration: similar names, lines, and the origin of each value.

use toml::de::DeTable;

use super::Raw;
use crate::types::Printable;

/// Smallest similarity (Jaro-Winkler, 0 to 1) at which a name is suggested.
const SIMILAR: f64 = 0.7;

/// Returns the unknown name in an error message of serde, and the most similar known name.
///
/// Returns `None` if the message is not about an unknown name.
pub(super) fn unknown(message: &str) -> Option<(String, Option<String>)> {
    // serde writes: unknown field `windwo`, expected one of `assignments`, `net`
    let rest = message.strip_prefix("unknown field ")?;
    let mut words = rest.split('`').skip(1).step_by(2);
    let found = words.next()?;
    let similarity = |word: &str| strsim::jaro_winkler(found, word);
    let nearest = words.filter(|word| similarity(word) >= SIMILAR).max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    Some((found.to_owned(), nearest.map(str::to_owned)))
}

/// Rewrites an error message of the TOML parser in terms of the configuration. `line` is the line
/// with the error.
pub(super) fn explain(message: &str, line: &str) -> String {
    let (key, value) = line.split_once('=').map_or(("", ""), |(key, value)| (key.trim(), value.trim()));
    let of_key = if key.is_empty() { "this value".to_owned() } else { key.to_owned() };
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("cannot use {of_key}: expected {} (found {})", expected_in_words(expected), found_in_words(found));
    }
    let is_bare = value.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '.' | '~')) && !["true", "false"].contains(&value);
    if is_bare && !key.is_empty() {
        return format!("cannot use {of_key}: text needs quotes (found {value}); write {key} = \"{value}\"");
    }
    format!("cannot read this line: {message}")
}

/// Describes a type that serde expects, in words.
fn expected_in_words(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more",
        "f64" => "a number",
        "a string" => "text in quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list such as [\"a\", \"b\"]",
        "a map" => "a table",
        struct_of if struct_of.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Describes a value as serde found it. Leaves out the type if the value itself shows it.
fn found_in_words(found: &str) -> &str {
    let value = found.strip_prefix("string ").or_else(|| found.split_once('`').map(|(_, value)| value.trim_end_matches('`')));
    match found {
        "sequence" => "a list",
        "map" => "a table",
        _ => value.unwrap_or(found),
    }
}

/// Returns the configuration as the text of a valid configuration file. A comment after each value
/// states its origin.
///
/// The origin is `default`, the file and line, or a flag. `text` is the content of the file, with
/// its name. `flags` are the keys that were given as flags, with their tables
/// (`simulated.scenario`). Keys of `[[output]]` tables have no origin.
pub fn show(raw: &Raw, text: Option<(&str, &str)>, flags: &[&str]) -> String {
    let mut shown = String::new();
    let mut table = Some("");
    let written = toml::to_string(raw).unwrap_or_default();
    for line in written.lines() {
        let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('[')) else {
            if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
                table = Some(name).filter(|name| !name.starts_with('['));
            }
            shown.push_str(&format!("{line}\n"));
            continue;
        };
        let Some(table) = table else {
            shown.push_str(&format!("{line}\n"));
            continue;
        };
        let full_key = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        let in_file = |(text, name)| Some(format!("{name}:{}", line_of(text, table, None, key)?));
        let origin = match flags.contains(&full_key.as_str()) {
            true => format!("--{key}"),
            false => text.and_then(in_file).unwrap_or_else(|| "default".to_owned()),
        };
        shown.push_str(&format!("{line:<40} # {}\n", Printable(&origin)));
    }
    shown
}

/// Returns the line of a key in a file, counted from 1.
///
/// `table` is the name of the key's table, or empty. `index` selects one of several tables with
/// this name (`[[output]]`).
pub(super) fn line_of(text: &str, table: &str, index: Option<usize>, key: &str) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let found = |keys: &DeTable<'_>| Some(line_at(text, keys.get_key_value(key)?.0.span().start));
    if table.is_empty() {
        return found(file.get_ref());
    }
    let named = file.get_ref().get(table)?.get_ref();
    match index {
        None => found(named.as_table()?),
        Some(index) => {
            let table = named.as_array()?.get(index)?;
            let start = || line_at(text, table.span().start);
            Some(table.get_ref().as_table().and_then(found).unwrap_or_else(start))
        }
    }
}

/// Returns the number of the line that contains this octet, counted from 1.
pub(super) fn line_at(text: &str, octet: usize) -> usize {
    text.bytes().take(octet).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_key_is_suggested() {
        let nearest = |text: &str| unknown(toml::from_str::<Raw>(text).expect_err("no such key").message());
        let suggested = |found: &str, nearest: Option<&str>| Some((found.to_owned(), nearest.map(str::to_owned)));
        for (text, found, meant) in [
            ("windwo = 8", "windwo", Some("window")),
            ("assignment = \"a\"", "assignment", Some("assignments")),
            ("intervall = \"1s\"", "intervall", Some("interval")),
            ("mads_per_second = 9", "mads_per_second", Some("max_mads_per_second")),
            ("[simulated]\nlos = 0.5", "los", Some("loss")),
            ("zzz = 1", "zzz", None),
        ] {
            assert_eq!(nearest(text), suggested(found, meant), "{text}");
        }
        assert_eq!(nearest("window = \"x\""), None);
    }

    #[test]
    fn shown_configuration_parses_and_has_origins() {
        let text = "window = 8\n\n[simulated]\nseed = 7\n";
        let mut raw: Raw = toml::from_str(text).expect("it parses");
        raw.interval = "2s".to_owned();
        raw.simulated.scenario = "incast".to_owned();
        let shown = show(&raw, Some((text, "a.toml")), &["interval", "simulated.scenario"]);
        assert_eq!(toml::from_str::<Raw>(&shown).expect("it parses"), raw);
        let line = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key} in {shown}"));
        assert_eq!(line("window"), format!("{:<40} # a.toml:1", "window = 8"));
        assert!(line("interval").ends_with("# --interval") && line("grace").ends_with("# default"), "{shown}");
        assert!(line("seed").ends_with("# a.toml:4") && line("loss").ends_with("# default"), "{shown}");
        assert!(line("scenario ").ends_with("# --scenario"), "{shown}");
    }

    #[test]
    fn line_of_a_key_in_one_of_several_tables() {
        let text = "[[output]]\ntype = \"stdout\"\n\n[[output]]\ntype = \"file\"\nkeep = 2\n";
        assert_eq!(line_of(text, "output", Some(1), "keep"), Some(6));
        assert_eq!(line_of(text, "output", Some(1), "path"), Some(4), "a missing key: the line of its table");
        assert_eq!(line_of(text, "output", Some(2), "path"), None);
    }

    #[test]
    fn messages_of_the_parser_are_explained() {
        let explained = |text: &str| {
            let error = toml::from_str::<Raw>(text).expect_err("refused");
            explain(error.message(), text)
        };
        assert_eq!(explained("window = \"many\""), "cannot use window: expected a whole number, 0 or more (found \"many\")");
        assert_eq!(explained("window = -1"), "cannot use window: expected a whole number, 0 or more (found -1)");
        assert_eq!(explained("interval = 1"), "cannot use interval: expected text in quotes (found 1)");
        assert_eq!(explained("adaptive = \"yes\""), "cannot use adaptive: expected true or false (found \"yes\")");
        assert_eq!(explained("groups = \"base\""), "cannot use groups: expected a list such as [\"a\", \"b\"] (found \"base\")");
        assert_eq!(
            explained("simulate = fabric.p"),
            "cannot use simulate: text needs quotes (found fabric.p); write simulate = \"fabric.p\""
        );
        assert!(explained("[simulated").starts_with("cannot read this line: "));
    }
}
