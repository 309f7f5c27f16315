//! Subjects of the records at a NATS server: `ibnet.<fabric>.<sampler>.<type>`.

use crate::record::reader::Type;

/// Returns the subject of a record.
///
/// The names in a subject consist of letters, digits, `-` and `_`. Any other character becomes `_`,
/// because a dot, a blank or a wildcard changes the structure of a subject. An empty name also
/// becomes `_`.
pub(super) fn subject(fabric: &str, sampler: &str, kind: Type) -> String {
    format!("ibnet.{}.{}.{}", part(fabric), part(sampler), kind.as_str())
}

fn part(text: &str) -> String {
    let part: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if part.is_empty() { "_".to_owned() } else { part }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_has_four_parts_for_any_names() {
        for (fabric, sampler, expected) in [
            ("stria", "node00001", "ibnet.stria.node00001.port"),
            ("two words", "a.b", "ibnet.two_words.a_b.port"),
            ("*", ">", "ibnet._._.port"),
            ("", "\u{e4}\u{1b}", "ibnet._.__.port"),
        ] {
            assert_eq!(subject(fabric, sampler, Type::Port), expected);
        }
    }
}
