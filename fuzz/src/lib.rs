//! Functions that several fuzz targets use.

/// Fails if a text has a character that a terminal interprets, other than a line feed.
pub fn assert_printable(text: &str) {
    if let Some(c) = text.chars().find(|c| *c != '\n' && is_interpreted(*c)) {
        panic!("{c:?} in {text:?}");
    }
}

/// Returns whether a terminal interprets the character: a control character, or a mark that changes
/// the direction of the line.
fn is_interpreted(c: char) -> bool {
    c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
