//! The final state of an output, and the number of records that it did not write.

use super::options::Kind;

/// Result of an output when it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Name of the output: path, address or `standard output`.
    pub name: String,
    /// Kind of the output.
    pub kind: Kind,
    /// State of the output.
    pub end: End,
    /// Number of records that were neither written nor reported by a `lines_lost` event: they
    /// were still in the queue, or were dropped after the last written record. For a socket it is
    /// the sum over the connected readers.
    pub dropped: u64,
    /// Error of the last attempt to write, if it failed.
    pub error: Option<String>,
}

/// State of an output at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The output returned.
    Complete,
    /// The reader of standard output closed the pipe (EPIPE).
    ReaderGone,
    /// The output was still writing when the drain time ended.
    TimedOut,
    /// The thread of the output panicked.
    Crashed,
}

impl Finished {
    /// Returns whether records are missing that this output should have written.
    ///
    /// Readers of a socket or a pipe may disconnect at any time, so the records that they miss
    /// are counted, but are not a failure.
    pub fn is_failure(&self) -> bool {
        match self.end {
            End::Crashed => true,
            End::ReaderGone => false,
            End::Complete | End::TimedOut => self.kind != Kind::Socket && self.dropped > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_sockets_and_closed_pipes_are_no_failure() {
        let finished = |kind, end| Finished {
            name: String::new(),
            kind,
            end,
            dropped: 1,
            error: None,
        };
        assert!(
            finished(Kind::File, End::Complete).is_failure()
                && finished(Kind::Nats, End::TimedOut).is_failure()
        );
        assert!(
            !finished(Kind::Socket, End::TimedOut).is_failure()
                && !finished(Kind::Stdout, End::ReaderGone).is_failure()
        );
    }
}
