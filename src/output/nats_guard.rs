//! Bounds the memory that a NATS server can make this process use.
//!
//! The NATS client collects the octets of a message until the message is complete. It has no upper
//! limit for the size of a message (async-nats 0.51). So a faulty or hostile server could announce
//! a message of any size, and the process would keep all its octets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Statistics;

/// Largest number of octets that the server may send between two messages. The server sends only
/// acknowledgements, which have about 100 octets.
pub(super) const MAX_FRAME: u64 = 16 << 20;

/// Time between two checks. The server can exceed [`MAX_FRAME`] by the octets that arrive within
/// this time.
const CHECK: Duration = Duration::from_millis(50);

/// Waits until the server has sent more than [`MAX_FRAME`] octets without a complete message.
pub(super) async fn oversized_frame(statistics: &Statistics) {
    let received = || (statistics.in_messages.load(Ordering::Relaxed), statistics.in_bytes.load(Ordering::Relaxed));
    let (mut messages, mut octets) = received();
    loop {
        tokio::time::sleep(CHECK).await;
        let now = received();
        if now.0 != messages {
            (messages, octets) = now;
        } else if now.1.saturating_sub(octets) > MAX_FRAME {
            return;
        }
    }
}
