//! Payloads of NATS messages that contain records.

use std::borrow::Cow;

use ibnet::output::payload_text;

/// Max decompressed payload in bytes. Samplers send at most 512 KiB, or one record.
const LARGEST: u64 = 16 << 20;

/// Returns the text of a payload, or `None` if it is damaged.
pub(super) fn text(payload: &[u8]) -> Option<Cow<'_, [u8]>> {
    payload_text(payload, LARGEST)
}
