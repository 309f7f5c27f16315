//! Limits how often a full buffer is logged.
//!
//! A full buffer often refuses one slot and accepts the next one. Both changes have a message in
//! the log, and each of the two messages appears at most once a minute, by the time of the records.

/// Min time between two equal messages, in nanoseconds.
const QUIET: u64 = 60_000_000_000;

/// What the log has reported about a buffer.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    /// Number of refused records since the last message about accepted records.
    dropped: u64,
    /// Time of the last message about refused records, in nanoseconds since 1970.
    full_at: Option<u64>,
    /// Time of the last message about accepted records.
    accepting_at: Option<u64>,
}

impl Fullness {
    /// Logs that the buffer refused records of the time `ts`.
    pub(super) fn refused(&mut self, output: &str, records: u64, ts: u64) {
        self.dropped += records;
        if is_due(&mut self.full_at, ts) {
            tracing::warn!(
                ?output,
                dropped = self.dropped,
                "the buffer is full; records are dropped until the output accepts more"
            );
        }
    }

    /// Logs that the buffer accepted records of the time `ts`, if it refused records before them.
    pub(super) fn accepted(&mut self, output: &str, ts: u64) {
        if self.dropped > 0 && is_due(&mut self.accepting_at, ts) {
            let dropped = std::mem::take(&mut self.dropped);
            tracing::info!(
                ?output,
                dropped,
                "the buffer accepts records again; those in between were dropped"
            );
        }
    }
}

/// Returns whether a message is due at `ts`, and then sets `last` to `ts`. The difference is
/// absolute, because the clock may be set back.
fn is_due(last: &mut Option<u64>, ts: u64) -> bool {
    let is_due = last.is_none_or(|last| ts.abs_diff(last) >= QUIET);
    if is_due {
        *last = Some(ts);
    }
    is_due
}
