//! Runs each output on its own thread, and ends the threads when the program stops.
//!
//! An output that cannot write, for example to a full pipe, must not keep the program from
//! ending. A stop therefore waits for the outputs only for a given time, the *drain time*, and
//! then reports for each output how many records were not written.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::Writer;
use super::options::Kind;
use super::queue::Stopper;
use super::result::{End, Finished};

/// Default drain time: how long outputs may write the remaining records after a signal.
pub const DRAIN: Duration = Duration::from_secs(4);

/// Time after the drain time in which outputs that wait for a peer move their records to the
/// spool and return their counts. Some milliseconds are enough, except on a busy host where the
/// outputs wait for a CPU; without the extra time, records that are in the spool could be
/// reported as dropped.
const LAST_COUNT: Duration = Duration::from_secs(1);

/// The running outputs, each on its own thread.
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
    /// `on_end` is called on the writer's thread when the writer returns. Before a stop, a writer
    /// returns only if the reader of standard output closed the pipe ([`End::ReaderGone`]).
    ///
    /// Each thread drops its clone of `on_end` after it has stored its result, even after a panic.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub fn start(
        writers: Vec<Writer>,
        on_end: impl Fn(&Finished) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let board = Arc::new(Board {
            results: Mutex::new(vec![None; writers.len()]),
            changed: Condvar::new(),
        });
        let mut stoppers = Vec::with_capacity(writers.len());
        for (place, writer) in writers.into_iter().enumerate() {
            let stopper = writer.stopper();
            stoppers.push(stopper.clone());
            let (board, on_end) = (Arc::clone(&board), on_end.clone());
            thread::Builder::new()
                .name(format!("output-{place}"))
                .spawn(move || {
                    let mut posted = Posted {
                        board,
                        place,
                        stopper,
                        finished: None,
                    };
                    let finished = writer.run();
                    on_end(&finished);
                    posted.finished = Some(finished);
                    drop(posted);
                    drop(on_end);
                })?;
        }
        Ok(Self { stoppers, board })
    }

    /// Returns whether all outputs of the selected kinds have returned.
    pub fn has_ended(&self, is_meant: impl Fn(Kind) -> bool) -> bool {
        let results = self.board.lock();
        results
            .iter()
            .zip(&self.stoppers)
            .all(|(result, stopper)| result.is_some() || !is_meant(stopper.kind()))
    }

    /// Ends the outputs of the selected kinds even if records wait. This does not end an output
    /// that blocks in a write.
    pub fn abandon(&self, is_meant: impl Fn(Kind) -> bool) {
        for stopper in self
            .stoppers
            .iter()
            .filter(|stopper| is_meant(stopper.kind()))
        {
            stopper.end();
            stopper.abandon();
        }
    }

    /// Ends all outputs, after each of them has written the records in its queue. Returns when
    /// all outputs have returned, or when the time `drain` is over. The result has one entry per
    /// output, in the same order.
    ///
    /// `drain` is what is left of the drain time after a signal. The call blocks the thread.
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
        results
            .map(|(result, stopper)| {
                result
                    .take()
                    .unwrap_or_else(|| stopper.finished(End::TimedOut))
            })
            .collect()
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Finished>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for at most this time until all results are available.
    fn wait<'a>(
        &'a self,
        results: MutexGuard<'a, Vec<Option<Finished>>>,
        most: Duration,
    ) -> MutexGuard<'a, Vec<Option<Finished>>> {
        let is_waiting = |results: &mut Vec<Option<Finished>>| results.iter().any(Option::is_none);
        self.changed
            .wait_timeout_while(results, most, is_waiting)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// Stores the result of a thread when the thread returns or panics.
struct Posted {
    board: Arc<Board>,
    place: usize,
    stopper: Stopper,
    finished: Option<Finished>,
}

impl Drop for Posted {
    fn drop(&mut self) {
        let finished = self.finished.take().unwrap_or_else(|| {
            let finished = self.stopper.finished(End::Crashed);
            // The error is logged at once, because the result is used only when the program
            // stops, which may be days later.
            tracing::error!(
                output = %finished.name,
                help = "restart ibnet-sweep, and report this bug in ibnet with the messages above",
                "the thread of an output ended unexpectedly; its records are dropped"
            );
            finished
        });
        if let Some(result) = self.board.lock().get_mut(self.place) {
            *result = Some(finished);
        }
        self.board.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::super::batch::{Batch, short};
    use super::super::{Destination, FileOptions, Outlet, Output, open};
    use super::*;

    /// Time after which a hanging test fails.
    const LONG: Duration = Duration::from_secs(600);

    fn start(
        paths: &[&Path],
        on_end: impl Fn(&Finished) + Clone + Send + 'static,
    ) -> (Outlet, Running) {
        let file = |path: &&Path| {
            Output::from(Destination::File(FileOptions {
                path: path.to_path_buf(),
                ..FileOptions::default()
            }))
        };
        let (outlet, writers) =
            open(&paths.iter().map(file).collect::<Vec<_>>()).expect("the files can be opened");
        outlet.start(short::start("a"));
        (
            outlet,
            Running::start(writers, on_end).expect("threads can be started"),
        )
    }

    fn batch(octets: usize) -> Batch {
        let bytes = [vec![b'x'; octets], b"\n".to_vec()].concat();
        Batch {
            bytes,
            lines: 1,
            gap: Some(short::gap()),
            ..Batch::default()
        }
    }

    #[test]
    fn stop_writes_all_records_although_an_outlet_is_alive() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (outlet, running) = start(&[&folder.path().join("lines")], |_| {});
        outlet.offer(batch(10));
        let [finished] = &running.finish(LONG)[..] else {
            panic!("one output")
        };
        assert_eq!(
            (finished.end, finished.dropped, finished.is_failure()),
            (End::Complete, 0, false)
        );
        let text =
            std::fs::read_to_string(folder.path().join("lines")).expect("the file can be read");
        assert!(text.ends_with("xxxxxxxxxx\n"), "{text}");
        drop(outlet);
    }

    #[test]
    fn stop_reports_a_stalled_output_and_completes_the_others() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (fifo, file) = (folder.path().join("fifo"), folder.path().join("lines"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO is created");
        let (outlet, running) = start(&[&fifo, &file], |_| {});
        // More octets than the pipe can hold without a reader. It also has the start record.
        (0..3).for_each(|_| outlet.offer(batch(1 << 20)));
        drop(outlet);
        // Without an outlet, the file ends by itself.
        while running.board.lock()[1].is_none() || running.stoppers[0].unwritten() < 4 {
            thread::yield_now();
        }
        let finished = running.finish(Duration::from_millis(1));
        let summary: Vec<_> = finished
            .iter()
            .map(|output| (output.end, output.dropped, output.is_failure()))
            .collect();
        assert_eq!(
            summary,
            [(End::TimedOut, 4, true), (End::Complete, 0, false)]
        );
        assert_eq!(Path::new(&finished[0].name), fifo);
        assert_eq!(
            finished[0].error.as_deref(),
            Some("its writes did not end within the drain time")
        );
    }

    #[test]
    fn stop_counts_the_records_that_are_in_a_fifo_without_a_reader() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fifo = folder.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO is created");
        let (outlet, running) = start(&[&fifo], |_| {});
        // The FIFO has a start record and ten others when the next one does not fit.
        (0..10).for_each(|_| outlet.offer(batch(10)));
        outlet.offer(batch(1 << 20));
        while running.stoppers[0].unwritten() < 12 {
            thread::yield_now();
        }
        let [finished] = &running.finish(Duration::from_millis(1))[..] else {
            panic!("one output")
        };
        assert_eq!((finished.end, finished.dropped), (End::TimedOut, 12));
    }

    #[test]
    fn panic_on_the_thread_of_an_output_is_logged_at_once_with_the_name_and_a_remedy() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let writer = file.reopen().expect("it can be opened");
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(Mutex::new(writer))
            .finish();
        let (queue, inbox) = super::super::queue::queue(&"lines.jsonl", Kind::File, 1 << 20);
        let board = Arc::new(Board {
            results: Mutex::new(vec![None]),
            changed: Condvar::new(),
        });
        tracing::subscriber::with_default(subscriber, || {
            drop(Posted {
                board: Arc::clone(&board),
                place: 0,
                stopper: inbox.stopper(),
                finished: None,
            });
        });
        drop(queue);
        let text = std::fs::read_to_string(file.path()).expect("the log can be read");
        assert!(
            text.contains("ERROR")
                && text.contains("output=lines.jsonl")
                && text.contains("restart ibnet-sweep"),
            "{text}"
        );
        assert_eq!(
            board.lock()[0].as_ref().map(|finished| finished.end),
            Some(End::Crashed)
        );
    }

    #[test]
    fn panic_on_the_thread_of_an_output_is_a_failure() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (outlet, running) = start(&[&folder.path().join("lines")], |_| {
            panic!("a test of a panic")
        });
        drop(outlet);
        let [finished] = &running.finish(LONG)[..] else {
            panic!("one output")
        };
        assert_eq!((finished.end, finished.is_failure()), (End::Crashed, true));
    }
}
