//! Subjects of NATS messages: `ibnet.<fabric>.<sampler>.<type>`, or
//! `ibnet.<fabric>.<sampler>.batch` for several records.

use ibnet_record::reader::Type;

/// Last word of a subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    /// The message is one record.
    Record(Type),
    /// The message has records of any type.
    Batch,
}

/// Returns the subject of a message.
///
/// The names in a subject consist of letters, digits, `-` and `_`. Any other character becomes
/// `_`, because a dot, a blank or a wildcard would change the structure of the subject. An empty
/// name becomes `_` too.
pub(super) fn subject(fabric: &str, sampler: &str, word: Word) -> String {
    let word = match word {
        Word::Record(kind) => kind.as_str(),
        Word::Batch => "batch",
    };
    format!("ibnet.{}.{}.{word}", part(fabric), part(sampler))
}

fn part(text: &str) -> String {
    let part: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if part.is_empty() {
        "_".to_owned()
    } else {
        part
    }
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
            assert_eq!(subject(fabric, sampler, Word::Record(Type::Port)), expected);
        }
        assert_eq!(
            subject("stria", "node1", Word::Batch),
            "ibnet.stria.node1.batch"
        );
    }
}
