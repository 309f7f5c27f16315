//! Writes SVG for any browser, without scripts, fonts or external files.
//!
//! The writer escapes all texts and attributes. XML 1.0 forbids some characters even as
//! references, so [`xml_text`] replaces these first.

use ibnet_record::types::Printable;
use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

/// Style of the outermost element.
pub const FONT: &str = "font-family:'DejaVu Sans',Verdana,Arial,sans-serif";

/// Formats a length in pixels.
pub fn px(length: f64) -> String {
    format!("{length:.0}")
}

/// Escapes a name and shortens it to `most` characters. It removes the middle of the name,
/// because names usually differ at the beginning or the end.
pub fn shortened(name: &str, most: usize) -> String {
    let shown: Vec<_> = Printable(name.trim()).to_string().chars().collect();
    if shown.len() <= most {
        return shown.into_iter().collect();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    shown[..head]
        .iter()
        .chain(&['\u{2026}'])
        .chain(&shown[shown.len() - tail..])
        .collect()
}

/// Replaces the characters of a name that must not be in a picture: those that [`Printable`]
/// escapes, and those that XML 1.0 forbids (section 2.2). Line feeds are kept.
pub fn xml_text(text: &str) -> String {
    let lines: Vec<_> = text
        .split('\n')
        .map(|line| Printable(line).to_string())
        .collect();
    let is_forbidden = |c: char| matches!(c, '\u{fffe}' | '\u{ffff}') || (c < ' ' && c != '\n');
    lines
        .join("\n")
        .chars()
        .map(|c| {
            if is_forbidden(c) {
                c.escape_unicode().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// An SVG writer that escapes all names and texts.
pub struct Canvas(Writer<Vec<u8>>);

impl Canvas {
    /// Creates an empty picture.
    #[expect(
        clippy::new_without_default,
        reason = "an empty picture is not a useful default"
    )]
    pub fn new() -> Self {
        Self(Writer::new_with_indent(Vec::new(), b' ', 1))
    }

    /// Begins an element with content.
    pub fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Start(element(name, attributes)));
    }

    /// Ends an element.
    pub fn close(&mut self, name: &str) {
        self.write(Event::End(BytesEnd::new(name)));
    }

    /// Writes an element without content.
    pub fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Empty(element(name, attributes)));
    }

    /// Writes an element with a text. [`xml_text`] is applied to the text.
    pub fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.open(name, attributes);
        self.write(Event::Text(BytesText::new(&xml_text(text))));
        self.close(name);
    }

    fn write(&mut self, event: Event<'_>) {
        // Writing to memory does not fail.
        let _ = self.0.write_event(event);
    }

    /// Returns the SVG.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.0.into_inner()).into_owned() + "\n"
    }
}

fn element<'a>(name: &'a str, attributes: &[(&'a str, &'a str)]) -> BytesStart<'a> {
    BytesStart::new(name).with_attributes(attributes.iter().copied())
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;

    use super::*;

    /// Returns whether XML 1.0 permits the character (section 2.2, production `Char`).
    fn is_xml(c: char) -> bool {
        matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    }

    #[test]
    fn any_character_gives_well_formed_svg() {
        for part in ('\0'..=char::MAX).collect::<Vec<_>>().chunks(0x1000) {
            let text: String = part.iter().collect();
            assert!(
                xml_text(&text).chars().all(is_xml),
                "from U+{:04X}",
                part[0] as u32
            );
            let mut canvas = Canvas::new();
            canvas.text("text", &[("x", "1")], &text);
            let svg = canvas.finish();
            assert!(
                svg.chars().all(is_xml) && svg.matches('<').count() == 2,
                "from U+{:04X}",
                part[0] as u32
            );
            let mut reader = Reader::from_str(&svg);
            while reader.read_event().expect("well-formed") != Event::Eof {}
        }
    }

    #[test]
    fn readable_names_stay_as_they_are() {
        for name in [
            "leaf01",
            "Z\u{fc}rich-\u{30ce}\u{30fc}\u{30c9}",
            "a\nb",
            "\u{1f409} <&>\"'",
        ] {
            assert_eq!(xml_text(name), name);
        }
    }
}
