//! The keys of a configuration: which one was meant where one does not exist, and where each value comes from.

use super::Raw;
use crate::types::Printable;

/// So unlike may a word be to the one that was meant: below this share it is another.
const LIKE: f64 = 0.7;

/// A key or a word that does not exist, with the one that it is most like; `None` if the message is about something else.
pub(super) fn unknown(message: &str) -> Option<(String, Option<String>)> {
    // serde's words: unknown field `windwo`, expected one of `assignments`, `net`
    let rest = message.strip_prefix("unknown field ").or_else(|| message.strip_prefix("unknown variant "))?;
    let mut words = rest.split('`').skip(1).step_by(2);
    let found = words.next()?;
    let likeness = |word: &str| strsim::jaro_winkler(found, word);
    let nearest = words.filter(|word| likeness(word) >= LIKE).max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Some((found.to_owned(), nearest.map(str::to_owned)))
}

/// The configuration as a file that can be used, where each line says whence its value is: `default`, the file's name and line, or a flag.
///
/// `text` is the file as it was read, and `name` what it is called; `flags` are the keys that were given as flags.
pub fn show(raw: &Raw, text: Option<(&str, &str)>, flags: &[&str]) -> String {
    let mut shown = String::new();
    // Of several tables of one name it is not told where the keys of each stand.
    let mut inside = Some("");
    let written = toml::to_string(raw).unwrap_or_default();
    for line in written.lines() {
        let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('[')) else {
            if let Some(name) = line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
                inside = Some(name).filter(|name| !name.starts_with('['));
            }
            shown.push_str(&format!("{line}\n"));
            continue;
        };
        let stands = |(text, name)| Some(format!("{name}:{}", line_of(text, inside?, key)?));
        let origin = if inside == Some("") && flags.contains(&key) {
            format!("--{key}")
        } else if inside.is_none() {
            String::new()
        } else {
            text.and_then(stands).unwrap_or_else(|| "default".to_owned())
        };
        match origin.is_empty() {
            true => shown.push_str(&format!("{line}\n")),
            false => shown.push_str(&format!("{line:<40} # {}\n", Printable(&origin))),
        }
    }
    shown
}

/// The line on which a key of a table stands in a file; `inside` is empty for what is in no table.
pub(super) fn line_of(text: &str, inside: &str, key: &str) -> Option<usize> {
    use toml::de::DeTable;
    let file = DeTable::parse(text).ok()?;
    let table = match inside {
        "" => file.get_ref(),
        name => file.get_ref().get(name)?.get_ref().as_table()?,
    };
    let at = table.get_key_value(key)?.0.span().start;
    Some(line_at(text, at))
}

/// The line on which an octet stands.
pub(super) fn line_at(text: &str, octet: usize) -> usize {
    text.bytes().take(octet).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        let nearest = |text: &str| unknown(toml::from_str::<Raw>(text).expect_err("no such key").message());
        let told = |found: &str, nearest: Option<&str>| Some((found.to_owned(), nearest.map(str::to_owned)));
        for (text, found, meant) in [
            ("windwo = 8", "windwo", Some("window")),
            ("assignment = \"a\"", "assignment", Some("assignments")),
            ("intervall = \"1s\"", "intervall", Some("interval")),
            ("mads_per_second = 9", "mads_per_second", Some("max_mads_per_second")),
            ("[simulated]\nlos = 0.5", "los", Some("loss")),
            ("zzz = 1", "zzz", None),
        ] {
            assert_eq!(nearest(text), told(found, meant), "{text}");
        }
        assert_eq!(nearest("window = \"x\""), None);
    }

    #[test]
    fn what_is_shown_can_be_read_and_says_whence_it_is() {
        let text = "window = 8\n\n[simulated]\nseed = 7\n";
        let mut raw: Raw = toml::from_str(text).expect("it parses");
        raw.interval = "2s".to_owned();
        let shown = show(&raw, Some((text, "a.toml")), &["interval"]);
        assert_eq!(toml::from_str::<Raw>(&shown).expect("it parses"), raw);
        let line = |key: &str| shown.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key} in {shown}"));
        assert_eq!(line("window"), format!("{:<40} # a.toml:1", "window = 8"));
        assert!(line("interval").ends_with("# --interval") && line("grace").ends_with("# default"), "{shown}");
        assert!(line("seed").ends_with("# a.toml:4") && line("loss").ends_with("# default"), "{shown}");
    }
}
