//! The loop that connects a discovery with a transport and a clock.

use super::explore::Exploration;
use crate::mad::MAD_LEN;
use crate::mad::exchange::Outcome;
use crate::mad::transport::{Transport, TransportError};
use crate::sweep::driver::Clock;

/// The result of a discovery.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The lines of the net file, as `ibnetdiscover -p` prints them.
    pub net_file: String,
    /// A sentence for each thing that is missing or doubtful.
    pub notes: Vec<String>,
    /// Number of MADs that were sent.
    pub mads: u64,
}

/// Discovers the fabric of a transport. `progress` gets the number of completed requests and of
/// those that are known to be needed.
///
/// # Errors
/// Returns an error if the transport is lost, or has no agent for directed routes.
pub fn discover<T: Transport, C: Clock>(
    transport: &mut T,
    clock: &C,
    seed: u64,
    mut progress: impl FnMut((u64, u64)),
) -> Result<Discovered, TransportError> {
    let mut exploration = Exploration::new(seed);
    let mut mad = [0; MAD_LEN];
    let mut now = clock.now();
    loop {
        while let Some(target) = exploration.poll(now, &mut mad) {
            match transport.send(&target, &mad, now) {
                Err(error @ TransportError::NoAgent { .. }) => return Err(error),
                Err(error) if error.is_lost() => return Err(error),
                // A request that was not sent times out like one that was lost.
                Err(error) => tracing::debug!(%error, "not sent"),
                Ok(()) => {}
            }
        }
        if exploration.is_done() {
            break;
        }
        let wait = exploration
            .next_timeout()
            .map_or(C::PACING.longest_wait, |due| {
                (due - now).min(C::PACING.longest_wait)
            });
        if let Some(completion) = transport.recv(&mut mad, wait, now)? {
            match completion.outcome {
                Outcome::Reply { len, .. } => exploration.reply(completion.tid, &mad, len),
                _ => exploration.timed_out(completion.tid),
            }
            progress(exploration.steps());
        }
        now = clock.now();
    }
    let (net_file, notes) = exploration.report();
    Ok(Discovered {
        net_file,
        notes,
        mads: exploration.sent(),
    })
}
