//! What the fuzz targets share.

/// Fails if a terminal could obey something in a text: all that leaves are characters that show, and line feeds.
pub fn assert_printable(text: &str) {
    if let Some(c) = text.chars().find(|c| *c != '\n' && obeyed(*c)) {
        panic!("{c:?} in {text:?}");
    }
}

/// Control characters, and the marks that change the direction in which a line reads.
fn obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
