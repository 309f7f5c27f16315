//! SVG: read by any browser, no script, no font of its own, nothing fetched.
//!
//! All texts go through the writer's escaping, and through [`Printable`] before it: XML has no room for control characters.

use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use crate::types::Printable;

/// The style of the outermost element.
pub const FONT: &str = "font-family:'DejaVu Sans',Verdana,Arial,sans-serif";

/// A length as SVG has it.
pub fn px(length: f64) -> String {
    format!("{length:.0}")
}

/// A name of at most so many characters; what is left out is in the middle, since names differ at their ends.
pub fn shortened(name: &str, most: usize) -> String {
    let shown: Vec<_> = Printable(name.trim()).to_string().chars().collect();
    if shown.len() <= most {
        return shown.into_iter().collect();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    shown[..head].iter().chain(&['\u{2026}']).chain(&shown[shown.len() - tail..]).collect()
}

/// Writes elements; whatever it is given is escaped.
pub struct Canvas(Writer<Vec<u8>>);

impl Canvas {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "a picture of nothing is none")]
    pub fn new() -> Self {
        Self(Writer::new_with_indent(Vec::new(), b' ', 1))
    }

    /// Begins an element that has others in it.
    pub fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Start(element(name, attributes)));
    }

    /// Ends it.
    pub fn close(&mut self, name: &str) {
        self.write(Event::End(BytesEnd::new(name)));
    }

    /// An element with nothing in it.
    pub fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Empty(element(name, attributes)));
    }

    /// An element with a text in it: what cannot be printed is shown as an escape, lines stay lines.
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

    /// All that was written.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.0.into_inner()).into_owned() + "\n"
    }
}

fn element<'a>(name: &'a str, attributes: &[(&'a str, &'a str)]) -> BytesStart<'a> {
    BytesStart::new(name).with_attributes(attributes.iter().copied())
}
