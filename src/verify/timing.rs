//! Sends a burst of equal requests and measures the time until each completion.
//!
//! A burst measures the service time of a device with one or with several requests in flight. A
//! burst to a LID that does not exist measures when the kernel reports timeouts: with one request,
//! how late it is; with several, whether it holds requests back (flow control).

use std::time::Duration;

use ibnet_record::types::Tid;

use crate::mad::MAD_LEN;
use crate::mad::exchange::{Outcome, Target};
use crate::mad::query::Query;
use crate::mad::transport::{Transport, TransportError};
use crate::sweep::driver::Clock;
use crate::time::Instant;

/// A burst of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// The request.
    pub query: Query,
    /// Destination, with the timeout.
    pub target: Target,
    /// Number of requests.
    pub count: u32,
    /// Max number of requests in flight.
    pub in_flight: u32,
    /// TID of the first request. Each further TID is larger by one.
    pub first_tid: u32,
}

/// Times from the sending of each request to its completion, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// Times to the replies.
    pub replies: Vec<Duration>,
    /// Times to the timeouts that the transport reported.
    pub timeouts: Vec<Duration>,
    /// Number of requests that were not sent or had no completion.
    pub lost: u32,
}

/// Time beyond [`Target::give_up`] for which a completion is awaited, because kernels with flow
/// control start the timeout of a request late.
const PATIENCE: Duration = Duration::from_secs(1);

impl Times {
    /// Returns the median of the times to the replies.
    pub fn median(&self) -> Option<Duration> {
        self.replies.get(self.replies.len() / 2).copied()
    }
}

impl Burst {
    /// Sends the requests and waits for all completions.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    pub fn run<T: Transport, C: Clock>(
        &self,
        transport: &mut T,
        clock: &C,
    ) -> Result<Times, TransportError> {
        let mut times = Times::default();
        let mut waiting: Vec<Option<Instant>> = Vec::new();
        let mut mad = [0; MAD_LEN];
        let mut in_flight = 0;
        loop {
            while in_flight < self.in_flight && waiting.len() < self.count as usize {
                self.query.emit(
                    Tid(self.first_tid.wrapping_add(waiting.len() as u32)),
                    &mut mad,
                );
                let now = clock.now();
                let sent = transport.send(&self.target, &mad, now);
                match sent {
                    Ok(()) => in_flight += 1,
                    Err(error) if error.is_lost() => return Err(error),
                    Err(_) => times.lost += 1,
                }
                waiting.push(sent.is_ok().then_some(now));
            }
            let Some(oldest) = waiting.iter().flatten().min().copied() else {
                break;
            };
            let now = clock.now();
            let until = oldest + self.target.give_up + PATIENCE;
            let Some(completion) = transport.recv(
                &mut mad,
                until.saturating_since(now).min(C::PACING.longest_wait),
                now,
            )?
            else {
                if now >= until {
                    times.lost += in_flight;
                    break;
                }
                continue;
            };
            let place = completion.tid.0.wrapping_sub(self.first_tid) as usize;
            let Some(sent) = waiting.get_mut(place).and_then(Option::take) else {
                continue;
            };
            in_flight -= 1;
            let time = clock.now() - sent;
            match completion.outcome {
                Outcome::Reply { .. } => times.replies.push(time),
                Outcome::TimedOut => times.timeouts.push(time),
                Outcome::SendFailed(_) | Outcome::NoAgent => times.lost += 1,
            }
        }
        times.replies.sort_unstable();
        times.timeouts.sort_unstable();
        Ok(times)
    }
}
