//! Bounds the memory that a NATS server can make this process use.
//!
//! The NATS client collects the octets of a message until the message is complete. It has no upper
//! limit for the size of a message (async-nats 0.51). So a faulty or hostile server could announce
//! a message of any size, and the process would keep all its octets.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use async_nats::Statistics;

/// Largest number of octets that the server may send between two messages. The server sends only
/// acknowledgements, which have about 100 octets.
pub(super) const MAX_FRAME: u64 = 16 << 20;

/// Longest time between two checks while no octets arrive. While octets arrive, each turn of the
/// runtime checks. So the server can exceed [`MAX_FRAME`] by the octets of this time and of a turn.
const CHECK: Duration = Duration::from_millis(20);

/// Waits until the server has sent more than [`MAX_FRAME`] octets without a complete message.
pub(crate) async fn oversized_frame(statistics: &Statistics) {
    let received = || {
        (
            statistics.in_messages.load(Ordering::Relaxed),
            statistics.in_bytes.load(Ordering::Relaxed),
        )
    };
    let mut check = tokio::time::interval(CHECK);
    // Counts after the last message, and at the last check.
    let mut message = received();
    let mut last = message;
    poll_fn(|context| {
        let now = received();
        if now.0 != message.0 {
            message = now;
        }
        if now.1.saturating_sub(message.1) > MAX_FRAME {
            return Poll::Ready(());
        }
        if now != last {
            last = now;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        while check.poll_tick(context).is_ready() {}
        Poll::Pending
    })
    .await;
}
