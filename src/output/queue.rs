//! The queues between the driver and the outputs. Each output has one, which is bounded in bytes;
//! adding records to it never blocks.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ibnet_record::Start;
use tokio::sync::Notify;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel,
};

use super::batch::Batch;
use super::fullness::Fullness;
use super::notices::Notices;
use super::options::Kind;
use super::result::{End, Finished};

/// Upper estimate of the memory in bytes that a batch takes in addition to its lines.
const OVERHEAD: u64 = 1024;

/// Sends records to the queues of all outputs. Each clone is a *source*, such as one HCA port: it
/// has its own `start` record, which describes the sampler and comes first in every file or
/// connection.
#[derive(Debug)]
pub struct Outlet {
    queues: Arc<[Queue]>,
    next_source: Arc<AtomicU32>,
    source: SourceId,
    /// Number of records that did not fit into a queue, summed over the queues.
    refused: Arc<AtomicU64>,
    /// Events about the outputs themselves. They are appended to the next batch.
    notices: Arc<Notices>,
}

/// Id of a source of records.
pub(super) type SourceId = u32;

/// An entry of a queue.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// New `start` record of a source.
    Start(SourceId, Arc<Start<String>>),
    /// Records, and the number of records that were dropped immediately before them.
    Lines(
        #[cfg_attr(
            not(feature = "nats"),
            expect(dead_code, reason = "only NATS needs the source")
        )]
        SourceId,
        Arc<Batch>,
        u64,
    ),
    /// A source ended.
    Gone(SourceId),
    /// The output ends, and ignores all later messages.
    End,
}

#[derive(Debug)]
pub(super) struct Queue {
    sender: UnboundedSender<Message>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Inbox {
    receiver: UnboundedReceiver<Message>,
    stopper: Stopper,
    has_ended: bool,
}

/// Lets another thread end the output and read its counts.
#[derive(Clone, Debug)]
pub(super) struct Stopper {
    sender: WeakUnboundedSender<Message>,
    shared: Arc<Shared>,
}

/// State shared by both halves of a queue.
#[derive(Debug)]
struct Shared {
    /// Name of the output, for the log and the results.
    name: String,
    kind: Kind,
    /// Max number of bytes in the queue.
    bound: u64,
    /// Current number of bytes in the queue.
    octets: AtomicU64,
    /// Number of records that did not fit since the last accepted records.
    refused: AtomicU64,
    /// What the log has reported about records that did not fit.
    fullness: Mutex<Fullness>,
    /// Number of records that are in the queue or being written. It includes the refused records
    /// that are counted in a [`Message::Lines`] of the queue.
    queued: AtomicU64,
    /// Number of records that the output dropped and that no record has reported yet.
    unreported: AtomicU64,
    /// Last error since the last success of the output.
    error: Mutex<Option<String>>,
    /// Wakes an output that waits for its peer (a server or a reader) when the drain time is over.
    abandoned: Notify,
}

/// Creates a queue for at most `bound` bytes.
pub(super) fn queue(name: &impl fmt::Display, kind: Kind, bound: u64) -> (Queue, Inbox) {
    let (sender, receiver) = unbounded_channel();
    let shared = Arc::new(Shared {
        name: name.to_string(),
        kind,
        bound,
        octets: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        fullness: Mutex::default(),
        queued: AtomicU64::new(0),
        unreported: AtomicU64::new(0),
        error: Mutex::default(),
        abandoned: Notify::new(),
    });
    let stopper = Stopper {
        sender: sender.downgrade(),
        shared: Arc::clone(&shared),
    };
    (
        Queue { sender, shared },
        Inbox {
            receiver,
            stopper,
            has_ended: false,
        },
    )
}

impl Outlet {
    pub(super) fn new(queues: Vec<Queue>, notices: Arc<Notices>) -> Self {
        Self {
            queues: queues.into(),
            next_source: Arc::new(AtomicU32::new(1)),
            source: 0,
            refused: Arc::default(),
            notices,
        }
    }

    /// Sets the `start` record of this source. It is never dropped, and every later file or
    /// connection begins with it. Each output sets its own `file_seq`.
    pub fn start(&self, start: Start<String>) {
        let start = Arc::new(start);
        self.queues
            .iter()
            .for_each(|queue| queue.put(Message::Start(self.source, Arc::clone(&start))));
    }

    /// Adds records to all queues without blocking. An output whose queue is full drops the
    /// records, and reports their number before the next records that it accepts.
    pub fn offer(&self, mut batch: Batch) {
        self.notices.append_to(&mut batch);
        if batch.lines == 0 {
            return;
        }
        let batch = Arc::new(batch);
        let refused = self
            .queues
            .iter()
            .map(|queue| queue.offer(self.source, &batch))
            .sum::<u64>();
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Returns the number of records that did not fit since the last call, summed over all outputs.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl Clone for Outlet {
    fn clone(&self) -> Self {
        let source = self.next_source.fetch_add(1, Ordering::Relaxed);
        Self {
            queues: Arc::clone(&self.queues),
            next_source: Arc::clone(&self.next_source),
            source,
            refused: Arc::clone(&self.refused),
            notices: Arc::clone(&self.notices),
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.queues
            .iter()
            .for_each(|queue| queue.put(Message::Gone(self.source)));
    }
}

impl Queue {
    /// Adds a message without checking the limit, because such messages are small and rare.
    pub(super) fn put(&self, message: Message) {
        // An error means that the output has ended and does not need the message.
        let _ = self.sender.send(message);
    }

    /// Adds records if they fit, and returns the number of refused records.
    pub(super) fn offer(&self, source: SourceId, batch: &Arc<Batch>) -> u64 {
        let shared = &*self.shared;
        if self.sender.is_closed() {
            // The output has ended, so the records count as not written, but not as refused.
            shared.refused.fetch_add(batch.lines, Ordering::Relaxed);
            return 0;
        }
        let octets = octets(batch);
        // An empty queue accepts a batch of any size.
        let before = shared.octets.fetch_add(octets, Ordering::Relaxed);
        if before > 0 && before + octets > shared.bound {
            shared.octets.fetch_sub(octets, Ordering::Relaxed);
            shared.refused.fetch_add(batch.lines, Ordering::Relaxed);
            locked(&shared.fullness).refused(&shared.name, batch.lines, batch.ts);
            return batch.lines;
        }
        let refused = shared.refused.swap(0, Ordering::Relaxed);
        shared
            .queued
            .fetch_add(batch.lines + refused, Ordering::Relaxed);
        locked(&shared.fullness).accepted(&shared.name, batch.ts);
        self.put(Message::Lines(source, Arc::clone(batch), refused));
        0
    }
}

impl Stopper {
    pub(super) fn kind(&self) -> Kind {
        self.shared.kind
    }

    /// Ends the output after it has written the records that are now in its queue.
    pub(super) fn end(&self) {
        if let Some(sender) = self.sender.upgrade() {
            let _ = sender.send(Message::End);
        }
    }

    /// Ends the output even if records wait in its queue. This does not end an output that blocks
    /// in a write.
    pub(super) fn abandon(&self) {
        self.shared.abandoned.notify_one();
    }

    /// Waits until the drain time of a stop is over.
    pub(super) async fn abandoned(&self) {
        self.shared.abandoned.notified().await;
    }

    /// Returns the number of records that the output has not written, and whose loss it has not
    /// reported in a record either.
    pub(super) fn unwritten(&self) -> u64 {
        let Shared {
            refused,
            queued,
            unreported,
            ..
        } = &*self.shared;
        [refused, queued, unreported]
            .into_iter()
            .map(|count| count.load(Ordering::Relaxed))
            .fold(0, u64::saturating_add)
    }

    /// Returns the result of the output: the final state `end`, and the number of unwritten
    /// records.
    pub(super) fn finished(&self, end: End) -> Finished {
        let blocked = || {
            (end == End::TimedOut)
                .then(|| "its writes did not end within the drain time".to_owned())
        };
        let error = locked(&self.shared.error).clone().or_else(blocked);
        Finished {
            name: self.shared.name.clone(),
            kind: self.shared.kind,
            end,
            dropped: self.unwritten(),
            error,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// Returns the next message, or `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Message> {
        if self.has_ended {
            return None;
        }
        let message = self.receiver.recv().await;
        self.took(message)
    }

    /// Blocks the thread until there is a message. Returns `None` after the last one.
    pub(super) fn wait(&mut self) -> Option<Message> {
        if self.has_ended {
            return None;
        }
        let message = self.receiver.blocking_recv();
        self.took(message)
    }

    /// Returns the next message, or `None` if the queue is empty.
    pub(super) fn ready(&mut self) -> Option<Message> {
        if self.has_ended {
            return None;
        }
        let message = self.receiver.try_recv().ok();
        self.took(message)
    }

    /// Updates the counts after a message was written or dropped. `unreported` is the number of
    /// dropped records that are not reported yet.
    pub(super) fn settle(&self, message: &Message, unreported: u64) {
        self.set_unreported(unreported);
        if let Message::Lines(_, batch, refused) = message {
            self.stopper
                .shared
                .queued
                .fetch_sub(batch.lines + refused, Ordering::Relaxed);
        }
    }

    /// Sets the number of dropped records that are not reported yet.
    pub(super) fn set_unreported(&self, records: u64) {
        self.stopper
            .shared
            .unreported
            .store(records, Ordering::Relaxed);
    }

    /// Stores the error of a failed attempt. Returns whether it must be logged, because it
    /// differs from the last error since the last success.
    #[must_use]
    pub(super) fn failed(&self, error: &str) -> bool {
        let mut last = locked(&self.stopper.shared.error);
        let is_new = last.as_deref() != Some(error);
        *last = Some(error.to_owned());
        is_new
    }

    /// Removes the error after a success. Returns whether there was one.
    #[must_use]
    pub(super) fn succeeded(&self) -> bool {
        locked(&self.stopper.shared.error).take().is_some()
    }

    /// Returns a handle that does not keep the queue open.
    pub(super) fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    fn took(&mut self, message: Option<Message>) -> Option<Message> {
        match message? {
            Message::End => {
                self.has_ended = true;
                None
            }
            message => {
                if let Message::Lines(_, batch, _) = &message {
                    self.stopper
                        .shared
                        .octets
                        .fetch_sub(octets(batch), Ordering::Relaxed);
                }
                Some(message)
            }
        }
    }
}

/// Returns the memory in bytes that a batch takes.
pub(super) fn octets(batch: &Batch) -> u64 {
    (batch.bytes.len() + size_of_val(batch.records.as_slice())) as u64 + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: u64, octets: u64) -> Batch {
        Batch {
            bytes: vec![b'x'; (octets - OVERHEAD) as usize],
            lines,
            ..Batch::default()
        }
    }

    fn outlet(bounds: &[u64]) -> (Outlet, Vec<Inbox>) {
        let (queues, inboxes) = bounds
            .iter()
            .map(|bound| queue(&"here", Kind::File, *bound))
            .unzip();
        (Outlet::new(queues, Arc::default()), inboxes)
    }

    /// Takes all messages. Returns the records of each batch and how many were dropped before it.
    fn taken(inbox: &mut Inbox) -> Vec<(u64, u64)> {
        let mut counts = Vec::new();
        while let Some(message) = inbox.ready() {
            inbox.settle(&message, 0);
            if let Message::Lines(_, batch, dropped) = message {
                counts.push((batch.lines, dropped));
            }
        }
        counts
    }

    #[test]
    fn refused_records_are_reported_with_the_next_that_fit() {
        let (outlet, mut inboxes) = outlet(&[10_000]);
        (0..4).for_each(|_| outlet.offer(batch(2, 4000)));
        assert_eq!((outlet.take_refused(), outlet.take_refused()), (4, 0));
        assert_eq!(
            (taken(&mut inboxes[0]), inboxes[0].stopper.unwritten()),
            (vec![(2, 0), (2, 0)], 4)
        );
        outlet.offer(batch(3, 4000));
        assert_eq!(
            (taken(&mut inboxes[0]), inboxes[0].stopper.unwritten()),
            (vec![(3, 4)], 0)
        );
    }

    #[test]
    fn queue_that_is_full_in_every_other_slot_is_logged_once_a_minute() {
        let (outlet, mut inboxes) = outlet(&[5_000]);
        let log = tempfile::NamedTempFile::new().expect("a temporary file");
        let writer = Mutex::new(log.reopen().expect("it can be opened"));
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(writer)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for second in 0..600 {
                let ts = second * 1_000_000_000;
                (0..2).for_each(|_| {
                    outlet.offer(Batch {
                        ts,
                        ..batch(1, 4000)
                    });
                });
                taken(&mut inboxes[0]);
            }
            outlet.offer(Batch {
                ts: 660_000_000_000,
                ..batch(1, 4000)
            });
        });
        let text = std::fs::read_to_string(log.path()).expect("the log can be read");
        let of = |text_of: &str| {
            text.lines()
                .filter(|line| line.contains(text_of))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let (full, again) = (of("buffer is full"), of("accepts records again"));
        assert_eq!(
            (full.len(), again.len(), text.lines().count()),
            (10, 11, 21),
            "{text}"
        );
        let dropped = again.iter().map(|line| {
            line.split_once("dropped=")
                .expect("a number")
                .1
                .trim()
                .parse::<u64>()
                .expect("a number")
        });
        assert_eq!(dropped.sum::<u64>(), 600, "{text}");
    }

    #[test]
    fn full_queue_does_not_affect_the_others() {
        let (outlet, mut inboxes) = outlet(&[5_000, 1 << 20]);
        (0..3).for_each(|_| outlet.offer(batch(1, 4000)));
        assert_eq!(
            inboxes
                .iter_mut()
                .map(|inbox| taken(inbox).len())
                .collect::<Vec<_>>(),
            [1, 3]
        );
    }

    #[test]
    fn empty_queue_accepts_a_batch_larger_than_its_bound() {
        let (outlet, mut inboxes) = outlet(&[2_000]);
        (0..2).for_each(|_| outlet.offer(batch(1, 9000)));
        assert_eq!(
            (taken(&mut inboxes[0]), inboxes[0].stopper.unwritten()),
            (vec![(1, 0)], 1)
        );
    }

    #[test]
    fn full_queue_accepts_the_start_record_of_every_source() {
        let (outlet, mut inboxes) = outlet(&[2_000]);
        (0..2).for_each(|_| outlet.offer(batch(1, 9000)));
        outlet.clone().start(Start::default());
        outlet.start(Start::default());
        let starts =
            std::iter::from_fn(|| inboxes[0].ready()).filter_map(|message| match message {
                Message::Start(source, _) => Some((source, true)),
                Message::Gone(source) => Some((source, false)),
                Message::Lines(..) | Message::End => None,
            });
        assert_eq!(
            starts.collect::<Vec<_>>(),
            [(1, true), (1, false), (0, true)]
        );
    }

    #[test]
    fn records_for_an_output_that_has_ended_are_counted() {
        let (outlet, inboxes) = outlet(&[2_000]);
        let stopper = inboxes[0].stopper();
        drop(inboxes);
        outlet.offer(batch(3, 1500));
        assert_eq!((stopper.unwritten(), outlet.take_refused()), (3, 0));
    }

    #[test]
    fn records_count_as_unwritten_until_they_are_settled() {
        let (outlet, mut inboxes) = outlet(&[1 << 20]);
        (0..2).for_each(|_| outlet.offer(batch(2, 4000)));
        let stopper = inboxes[0].stopper();
        let message = inboxes[0].ready().expect("a batch");
        assert_eq!(stopper.unwritten(), 4);
        inboxes[0].settle(&message, 1);
        assert_eq!(stopper.unwritten(), 3);
    }

    #[test]
    fn output_ends_after_the_records_that_were_handed_over_before_the_stop() {
        let (outlet, mut inboxes) = outlet(&[1 << 20]);
        outlet.offer(batch(2, 4000));
        let stopper = inboxes[0].stopper();
        stopper.end();
        outlet.offer(batch(5, 4000));
        assert_eq!(
            (
                taken(&mut inboxes[0]),
                inboxes[0].wait().is_none(),
                stopper.unwritten()
            ),
            (vec![(2, 0)], true, 5)
        );
    }

    #[test]
    fn error_is_logged_again_when_it_changes_and_is_in_the_result() {
        let (_queue, inbox) = queue(&"here", Kind::Nats, 1 << 20);
        let error = |inbox: &Inbox| inbox.stopper().finished(End::Complete).error;
        assert_eq!((inbox.succeeded(), error(&inbox)), (false, None));
        let logged = [
            "not connected",
            "not connected",
            "no stream",
            "no stream",
            "not connected",
        ]
        .map(|error| inbox.failed(error));
        assert_eq!(logged, [true, false, true, false, true]);
        assert_eq!(error(&inbox).as_deref(), Some("not connected"));
        assert_eq!(
            (inbox.succeeded(), inbox.succeeded(), error(&inbox)),
            (true, false, None)
        );
    }
}
