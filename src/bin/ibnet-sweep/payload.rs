//! Payloads of a NATS server: records as they are, or compressed with zstd.

use std::borrow::Cow;
use std::io::Read;

/// First octets of a compressed payload (RFC 8878, section 3.1.1). A record begins with `{`.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Largest decompressed payload in octets. The samplers send at most 512 KiB or one record.
const LARGEST: u64 = 16 << 20;

/// Returns the text of a payload, or `None` if it is damaged.
pub(super) fn text(payload: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !payload.starts_with(&ZSTD) {
        return Some(Cow::Borrowed(payload));
    }
    let mut text = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(payload).ok()?;
    decoder.take(LARGEST + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= LARGEST).then_some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_read_with_and_without_compression() {
        let line = b"{\"type\":\"sweep\"}\n";
        let compressed = zstd::bulk::compress(line, 1).expect("compressed");
        assert_eq!(text(line).as_deref(), Some(&line[..]));
        assert_eq!(text(&compressed).as_deref(), Some(&line[..]));
        assert_eq!(text(&compressed[..compressed.len() - 1]), None);
        let huge = zstd::bulk::compress(&vec![0; 17 << 20], 1).expect("compressed");
        assert_eq!(text(&huge), None);
    }
}
