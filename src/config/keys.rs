//! Finds keys in the text of a configuration: their lines, and the origin of each value.

use ibnet_record::types::Printable;
use toml::de::DeTable;

use super::Raw;

/// Formats the configuration as a valid configuration file, with a comment after each value that
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
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
            {
                table = Some(name).filter(|name| !name.starts_with('['));
            }
            shown.push_str(&format!("{line}\n"));
            continue;
        };
        let Some(table) = table else {
            shown.push_str(&format!("{line}\n"));
            continue;
        };
        let full_key = if table.is_empty() {
            key.to_owned()
        } else {
            format!("{table}.{key}")
        };
        let in_file = |(text, name)| Some(format!("{name}:{}", line_of(text, table, None, key)?));
        let origin = match flags.contains(&full_key.as_str()) {
            true => format!("--{key}"),
            false => text
                .and_then(in_file)
                .unwrap_or_else(|| "default".to_owned()),
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
            Some(
                table
                    .get_ref()
                    .as_table()
                    .and_then(found)
                    .unwrap_or_else(start),
            )
        }
    }
}

/// Returns the line number, from 1, of the line that contains this byte.
pub(super) fn line_at(text: &str, octet: usize) -> usize {
    text.bytes()
        .take(octet)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_configuration_parses_and_has_origins() {
        let text = "window = 8\n\n[simulated]\nseed = 7\n";
        let mut raw: Raw = toml::from_str(text).expect("it parses");
        raw.interval = "2s".to_owned();
        raw.simulated.scenario = "incast".to_owned();
        let shown = show(
            &raw,
            Some((text, "a.toml")),
            &["interval", "simulated.scenario"],
        );
        assert_eq!(toml::from_str::<Raw>(&shown).expect("it parses"), raw);
        let line = |key: &str| {
            shown
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap_or_else(|| panic!("no {key} in {shown}"))
        };
        assert_eq!(line("window"), format!("{:<40} # a.toml:1", "window = 8"));
        assert!(
            line("interval").ends_with("# --interval") && line("grace").ends_with("# default"),
            "{shown}"
        );
        assert!(
            line("seed").ends_with("# a.toml:4") && line("loss").ends_with("# default"),
            "{shown}"
        );
        assert!(line("scenario ").ends_with("# --scenario"), "{shown}");
    }

    #[test]
    fn line_of_a_key_in_one_of_several_tables() {
        let text = "[[output]]\ntype = \"stdout\"\n\n[[output]]\ntype = \"file\"\nkeep = 2\n";
        assert_eq!(line_of(text, "output", Some(1), "keep"), Some(6));
        assert_eq!(
            line_of(text, "output", Some(1), "path"),
            Some(4),
            "a missing key: the line of its table"
        );
        assert_eq!(line_of(text, "output", Some(2), "path"), None);
    }
}
