//! Writes SVG for any browser, without scripts, fonts or external files.
//!
//! XML cannot contain control characters, so [`Printable`] replaces them first. The writer escapes
//! all texts.

use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use crate::types::Printable;

/// Style of the outermost element.
pub const FONT: &str = "font-family:'DejaVu Sans',Verdana,Arial,sans-serif";

/// Formats a length in pixels.
pub fn px(length: f64) -> String {
    format!("{length:.0}")
}

/// Escapes a name and shortens it to `most` characters. The middle is left out, because names
/// differ at their ends.
pub fn shortened(name: &str, most: usize) -> String {
    let shown: Vec<_> = Printable(name.trim()).to_string().chars().collect();
    if shown.len() <= most {
        return shown.into_iter().collect();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    shown[..head].iter().chain(&['\u{2026}']).chain(&shown[shown.len() - tail..]).collect()
}

/// An SVG writer that escapes all names and texts.
pub struct Canvas(Writer<Vec<u8>>);

impl Canvas {
    /// Creates an empty picture.
    #[expect(clippy::new_without_default, reason = "an empty picture is not a useful default")]
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

    /// Writes an element with text. Characters that cannot be printed are escaped; line feeds are
    /// kept.
    pub fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        let lines: Vec<_> = text.split('\n').map(|line| Printable(line).to_string()).collect();
        self.open(name, attributes);
        self.write(Event::Text(BytesText::new(&lines.join("\n"))));
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
