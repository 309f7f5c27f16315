//! Payloads of NATS messages: plain text, or text compressed with zstd.

use std::borrow::Cow;
use std::io::Read;

/// First bytes of a compressed payload (RFC 8878, section 3.1.1). No record begins with them.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Returns the text of a payload, or `None` if the payload is damaged or its text has more than
/// `most` bytes.
pub fn payload_text(payload: &[u8], most: u64) -> Option<Cow<'_, [u8]>> {
    if !payload.starts_with(&ZSTD) {
        return Some(Cow::Borrowed(payload));
    }
    let mut text = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(payload).ok()?;
    decoder.take(most + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= most).then_some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_read_with_and_without_compression() {
        let most = 16 << 20;
        let line = b"{\"type\":\"sweep\"}\n";
        let compressed = zstd::bulk::compress(line, 1).expect("compressed");
        assert_eq!(payload_text(line, most).as_deref(), Some(&line[..]));
        assert_eq!(payload_text(&compressed, most).as_deref(), Some(&line[..]));
        assert_eq!(
            payload_text(&compressed[..compressed.len() - 1], most),
            None
        );
        let huge = zstd::bulk::compress(&vec![0; 17 << 20], 1).expect("compressed");
        assert_eq!(payload_text(&huge, most), None);
    }
}
