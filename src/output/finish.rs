//! The threads of the outputs, and how they end.
//!
//! An output that cannot write, for example to a full pipe, must not delay the end of the program without limit. So a
//! stop waits for a given time and then reports, for every output, how many records it did not write.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Writer;
use super::options::Kind;
use super::queue::Stopper;

/// Default time that outputs have to write the remaining records after a signal.
pub const DRAIN: Duration = Duration::from_secs(4);

/// Time for outputs that wait for a peer, not for a write, to return their counts after the drain time.
const LAST_COUNT: Duration = Duration::from_millis(100);

/// Result of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Path, address or `standard output`.
    pub name: String,
    /// Kind of the output.
    pub kind: Kind,
    /// State of the output.
    pub end: End,
    /// Number of records that were not written and that no `lines_lost` event reports: still queued, or dropped after
    /// the last record that was written. For a socket, the sum over the readers that are connected.
    pub dropped: u64,
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
    /// Returns whether the stop failed for this output: records are missing that a reader expects.
    ///
    /// Readers of a socket may leave at any time, so their records only count. So do those of a closed pipe.
    pub fn is_failure(&self) -> bool {
        match self.end {
            End::Crashed => true,
            End::ReaderGone => false,
            End::Complete | End::TimedOut => self.kind != Kind::Socket && self.dropped > 0,
        }
    }
}

/// Outputs that run on threads of their own.
#[derive(Debug)]
pub struct Running {
    stoppers: Vec<Stopper>,
    board: Arc<Board>,
}

/// Results of the threads, in the order of the outputs.
#[derive(Debug)]
struct Board {
    results: Mutex<Vec<Option<Finished>>>,
    changed: Condvar,
}

impl Running {
    /// Starts a thread for each writer.
    ///
    /// `on_end` is called on the writer's thread when the writer returns. It returns early only if nobody reads standard
    /// output any more ([`End::ReaderGone`]).
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(writers: Vec<Writer>, on_end: impl Fn(&Finished) + Clone + Send + 'static) -> io::Result<Self> {
        let board = Arc::new(Board { results: Mutex::new(vec![None; writers.len()]), changed: Condvar::new() });
        let mut stoppers = Vec::with_capacity(writers.len());
        for (place, writer) in writers.into_iter().enumerate() {
            let stopper = writer.stopper();
            stoppers.push(stopper.clone());
            let (board, on_end) = (Arc::clone(&board), on_end.clone());
            thread::Builder::new().name(format!("output-{place}")).spawn(move || {
                let mut posted = Posted { board, place, stopper, finished: None };
                let finished = writer.run();
                on_end(&finished);
                posted.finished = Some(finished);
            })?;
        }
        Ok(Self { stoppers, board })
    }

    /// Returns whether every output has returned.
    pub fn has_ended(&self) -> bool {
        self.board.lock().iter().all(Option::is_some)
    }

    /// Ends all outputs: each writes the records that were handed over before this call. Returns as soon as all have
    /// returned, or when `drain` is over, with one result for each output in their order.
    ///
    /// Give the rest of the drain time after a signal. The call blocks the thread.
    pub fn finish(self, drain: Duration) -> Vec<Finished> {
        self.stoppers.iter().for_each(Stopper::end);
        let results = self.board.wait(self.board.lock(), drain);
        let mut results = if results.iter().any(Option::is_none) {
            self.stoppers.iter().for_each(Stopper::abandon);
            self.board.wait(results, LAST_COUNT)
        } else {
            results
        };
        let results = results.iter_mut().zip(&self.stoppers);
        results.map(|(result, stopper)| result.take().unwrap_or_else(|| stopper.finished(End::TimedOut))).collect()
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Finished>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all results are there, for at most this time.
    fn wait<'a>(&'a self, results: MutexGuard<'a, Vec<Option<Finished>>>, most: Duration) -> MutexGuard<'a, Vec<Option<Finished>>> {
        let is_waiting = |results: &mut Vec<Option<Finished>>| results.iter().any(Option::is_none);
        self.changed.wait_timeout_while(results, most, is_waiting).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Posts the result of a thread when it ends, by a return or by a panic.
struct Posted {
    board: Arc<Board>,
    place: usize,
    stopper: Stopper,
    finished: Option<Finished>,
}

impl Drop for Posted {
    fn drop(&mut self) {
        let finished = self.finished.take().unwrap_or_else(|| self.stopper.finished(End::Crashed));
        if let Some(result) = self.board.lock().get_mut(self.place) {
            *result = Some(finished);
        }
        self.board.changed.notify_all();
    }
}
