//! Lines of small lists with a checksum, so that damage is detected.
//!
//! A line begins with the CRC-32 of its text as eight hexadecimal digits. For example, a damaged
//! list of the packed files must not name a file that was never packed.

/// Returns the line for a text, with its line feed.
pub fn line(text: &str) -> String {
    format!("{:08x} {text}\n", crc32fast::hash(text.as_bytes()))
}

/// Returns the text of a line without its line feed, or `None` if the line is damaged.
pub fn text(line: &[u8]) -> Option<&[u8]> {
    let (crc, text) = line.split_at_checked(8)?;
    let text = text.strip_prefix(b" ")?;
    let crc = u32::from_str_radix(str::from_utf8(crc).ok()?, 16).ok()?;
    (crc == crc32fast::hash(text)).then_some(text)
}
