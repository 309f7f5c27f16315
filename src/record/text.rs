//! JSON whose texts no terminal obeys: what does not show is written as `\\u` and four digits, which every reader turns back into the same text.
//!
//! JSON demands that of the first 32 characters only. Others act on terminals too (U+009B begins a command), or on whoever splits lines at them (U+0085,
//! U+2028), or on how a line reads (U+202E). Names are written by strangers.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use crate::types::misleads;

/// As compact as serde_json's own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown;

impl Formatter for Shown {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // serde_json has escaped what comes before the blank.
        // Of what is left only 0x7f, and what is not ASCII, has its highest bit set in itself or in its successor.
        let high = fragment.bytes().fold(0, |bits, octet| bits | octet | octet.wrapping_add(1));
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
    use serde::Serialize;

    use super::*;

    fn written(text: &str) -> String {
        let mut octets = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut octets, Shown);
        text.serialize(&mut serializer).expect("a text can be written");
        String::from_utf8(octets).expect("JSON is text")
    }

    #[test]
    fn what_does_not_show_is_escaped() {
        assert_eq!(written("node1 mlx5_0"), "\"node1 mlx5_0\"");
        assert_eq!(written("a\u{9b}2J\u{7f}\u{2028}\u{e0041}\u{e9}\"\\\u{1b}"), r#""a\u009b2J\u007f\u2028\udb40\udc41é\"\\\u001b""#);
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in any::<String>()) {
            let json = written(&text);
            prop_assert!(!json.chars().any(misleads));
            prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }
}
