//! Bounds the memory that a NATS server can make this process use.
//!
//! The NATS client (async-nats 0.51) collects the bytes of a message until it is complete,
//! without an upper limit. A faulty or hostile server could announce a message of any size, and
//! the process would keep all of its bytes.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use async_nats::Statistics;

/// Max number of bytes that the server may send between two messages. A correct server sends only
/// acknowledgements, about 100 bytes each.
pub(super) const MAX_FRAME: u64 = 16 << 20;

/// Max time between two checks while no bytes arrive. While bytes arrive, every turn of the
/// runtime checks. The server can therefore exceed [`MAX_FRAME`] by what it sends in this time
/// and one turn.
const CHECK: Duration = Duration::from_millis(20);

/// Waits until the server has sent more than [`MAX_FRAME`] bytes without a complete message.
pub(crate) async fn oversized_frame(statistics: &Statistics) {
    let received = || {
        (
            statistics.in_messages.load(Ordering::Relaxed),
            statistics.in_bytes.load(Ordering::Relaxed),
        )
    };
    let mut check = tokio::time::interval(CHECK);
    // Message and byte counts after the last message, and at the last check.
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
