//! JSON strings that are safe on a terminal. Characters that are not visible are written as `\\u`
//! and four hexadecimal digits.
//!
//! JSON requires this only for the first 32 characters of Unicode. Other characters also affect a
//! terminal: they start a command (U+009B), break the line (U+0085, U+2028) or change the direction
//! of the rest of the line (U+202E). A node name can contain any character. Every JSON reader
//! decodes the four digits to the original character.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::types::misleads;

/// Formatter for [`serde_json::Serializer`] that escapes the characters for which [`misleads`] is
/// true. `F` sets the layout.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<F>(pub F);

/// Returns a serializer that writes JSON without blanks.
pub fn compact<W: Write>(to: W) -> Serializer<W, Escaped<CompactFormatter>> {
    Serializer::with_formatter(to, Escaped(CompactFormatter))
}

/// Returns a value as JSON with one field per line, indented by two blanks.
///
/// # Errors
/// Returns an error if the value cannot be represented in JSON, such as a map whose keys are not
/// strings.
pub fn to_string_pretty(value: &impl Serialize) -> serde_json::Result<String> {
    let mut octets = Vec::new();
    value.serialize(&mut Serializer::with_formatter(
        &mut octets,
        Escaped(PrettyFormatter::new()),
    ))?;
    String::from_utf8(octets).map_err(serde::ser::Error::custom)
}

/// Passes calls on to the inner formatter.
macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[inline]
            fn $name<W: Write + ?Sized>(&mut self, writer: &mut W, $($argument: $type),*) -> io::Result<()> {
                self.0.$name(writer, $($argument),*)
            }
        )*
    };
}

impl<F: Formatter> Formatter for Escaped<F> {
    delegate! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // serde_json escapes the characters before the blank. Of all other octets, only 0x7f and
        // those of characters outside ASCII need a check. For these octets, the highest bit of the
        // octet or of the octet plus 1 is set.
        let high = fragment
            .bytes()
            .fold(0, |bits, octet| bits | octet | octet.wrapping_add(1));
        if high & 0x80 == 0 {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| misleads(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(text: &str) -> String {
        let mut octets = Vec::new();
        text.serialize(&mut compact(&mut octets))
            .expect("every string can be written");
        String::from_utf8(octets).expect("JSON is UTF-8")
    }

    #[test]
    fn characters_that_do_not_show_are_escaped() {
        assert_eq!(written("node1 mlx5_0"), "\"node1 mlx5_0\"");
        assert_eq!(
            written("a\u{9b}2J\u{7f}\u{2028}\u{e0041}\u{e9}\"\\\u{1b}"),
            r#""a\u009b2J\u007f\u2028\udb40\udc41é\"\\\u001b""#
        );
    }

    #[test]
    fn pretty_json_differs_from_serde_json_in_escapes_only() {
        let value = serde_json::json!({"a": [1, {"b": []}], "c": "\u{9b}", "d": {}});
        let expected = serde_json::to_string_pretty(&value)
            .expect("JSON")
            .replace('\u{9b}', "\\u009b");
        assert_eq!(to_string_pretty(&value).expect("JSON"), expected);
    }

    proptest! {
        #[test]
        fn every_string_is_read_back_unchanged(text in any::<String>()) {
            let json = written(&text);
            prop_assert!(!json.chars().any(misleads));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }
}
