//! The loop that runs an engine: it sends the engine's MADs, handles its events, receives replies
//! and detects timeouts.
//!
//! The loop is a provided method of the trait [`EngineLoop`], so it exists only once. The
//! [driver](super::Driver) uses it for a sweep with records, and
//! [`VirtualSweep`](crate::sweep::virtual_sweep::VirtualSweep) for a sweep without records in
//! simulated time.

use std::time::Duration;

use super::clock::Clock;
use crate::mad::exchange::Completion;
use crate::mad::transport::{Transport, TransportError};
use crate::mad::{MAD_LEN, Mad};
use crate::sweep::engine::{Engine, Event};
use crate::sweep::schedule::{ask_until, close_at};
use crate::time::Instant;

/// Max wait for replies after a request to stop. The grace period may end earlier.
const LONGEST_STOP: Duration = Duration::from_millis(300);

/// An engine with its transport and clock, and functions that take events and errors.
pub(crate) trait EngineLoop {
    type Transport: Transport;
    type Clock: Clock;

    /// Returns the parts that the loop works with.
    fn parts(&mut self) -> Parts<'_, Self::Transport, Self::Clock>;

    /// Handles an event of the engine.
    fn on_event(&mut self, event: Event);

    /// Handles the error of a MAD that could not be sent, after the engine has handled it.
    fn on_send_error(&mut self, error: TransportError);

    /// Handles the loss of the transport. The method must report the loss to the engine, because
    /// the loop runs until the engine is idle.
    fn on_transport_lost(&mut self, error: TransportError);

    /// Is called after each MAD that was sent.
    fn on_sent(&mut self) {}

    /// Returns whether the loop must end early.
    fn request(&self) -> LoopRequest {
        LoopRequest::Continue
    }

    /// Runs one slot that has started at `start`.
    fn run_slot(&mut self, start: Instant, interval: Duration) {
        self.parts().engine.start_slot(
            start,
            ask_until(start, interval),
            close_at(start, interval),
        );
        self.run();
    }

    /// Discovers all devices within this time.
    fn run_discovery(&mut self, longest: Duration) {
        let Parts { engine, clock, .. } = self.parts();
        let now = clock.now();
        engine.start_discovery(now, now + longest);
        self.run();
    }

    /// Runs until the engine is idle, which is at the end of the slot or of the discovery. The
    /// [pacing](super::Pacing) of the clock decides when the loop switches between sending and
    /// receiving.
    fn run(&mut self) {
        let pacing = Self::Clock::PACING;
        let mut mad: Mad = [0; MAD_LEN];
        let (mut replies, mut is_stopping) = (0, false);
        loop {
            let (sent, mut now) = self.send(&mut mad, pacing.sends);
            while let Some(event) = self.parts().engine.poll_event() {
                self.on_event(event);
            }
            let Some(timeout) = self.parts().engine.poll_timeout() else {
                return;
            };
            match self.request() {
                LoopRequest::Close => {
                    self.parts().engine.close(now);
                    continue;
                }
                LoopRequest::Stop if !std::mem::replace(&mut is_stopping, true) => {
                    self.parts().engine.stop(now, LONGEST_STOP);
                    continue;
                }
                LoopRequest::Stop | LoopRequest::Continue => {}
            }

            let has_time = sent < pacing.sends && replies < pacing.replies_before_timeouts;
            let mut wait = if has_time {
                (timeout - now).min(pacing.longest_wait)
            } else {
                Duration::ZERO
            };
            for _ in 0..pacing.replies {
                let Parts {
                    engine,
                    transport,
                    clock,
                } = self.parts();
                let completion = match transport.recv(&mut mad, wait, now) {
                    Ok(completion) => completion,
                    Err(error) => {
                        self.on_transport_lost(error);
                        break;
                    }
                };
                now = clock.now();
                if let Some(completion) = &completion {
                    tracing::trace!(tid = %completion.tid, outcome = ?completion.outcome, "completion");
                    engine.handle_completion(completion, &mad, now);
                }
                // Replies that have arrived are read before timeouts are handled.
                if completion.is_none() || replies == pacing.replies_before_timeouts {
                    engine.handle_timeout(now);
                    replies = 0;
                    break;
                }
                (replies, wait) = (replies + 1, Duration::ZERO);
            }
        }
    }

    /// Sends at most `limit` MADs, each with its own time of sending. Returns how many were sent,
    /// and the current time.
    fn send(&mut self, mad: &mut Mad, limit: u32) -> (u32, Instant) {
        let mut sent = 0;
        let mut now = self.parts().clock.now();
        while sent < limit {
            let Parts {
                engine,
                transport,
                clock,
            } = self.parts();
            let Some((target, tid)) = engine.poll_transmit(now, mad) else {
                break;
            };
            tracing::trace!(%tid, lid = %target.lid, "send");
            let result = transport.send(&target, mad, now);
            sent += 1;
            if let Err(error) = result {
                tracing::debug!(%error, lid = %target.lid, "not sent");
                engine.handle_completion(
                    &Completion {
                        tid,
                        outcome: error.outcome(),
                    },
                    mad,
                    now,
                );
                now = clock.now();
                self.on_send_error(error);
            } else {
                now = clock.now();
            }
            self.on_sent();
        }
        (sent, now)
    }
}

/// The parts that the loop works with.
pub(crate) struct Parts<'a, T, C> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) transport: &'a mut T,
    pub(crate) clock: &'a C,
}

/// A request to end the loop early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopRequest {
    /// Continue.
    Continue,
    /// Send no more MADs, and wait for replies until the grace period ends.
    Stop,
    /// End at once, because the transport is lost and is not opened again.
    Close,
}
