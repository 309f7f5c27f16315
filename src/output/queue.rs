//! The queues: one a sink, bounded in octets. Putting lines in waits for nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::batch::{Batch, Start};

/// Between two looks at whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// What was swept waits so long for whoever takes it, if nobody is in a hurry.
const LONGEST_END: Duration = Duration::from_secs(10);

/// What a batch takes beside its lines, generously.
const OVERHEAD: u64 = 1024;

/// Where the sweep puts lines in: they go into the queue of every sink. Each clone is another way in, with a `start` of its own.
#[derive(Debug)]
pub struct Outlet {
    queues: Arc<[Queue]>,
    ways: Arc<AtomicU32>,
    way: Way,
    /// Lines that did not fit, of all queues.
    refused: Arc<AtomicU64>,
}

/// Tells the ways apart.
pub(super) type Way = u32;

/// What is in a queue.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Who writes from now on.
    Start(Way, Arc<Start>),
    /// Lines, and how many were lost just before them.
    Lines(Way, Arc<Batch>, u64),
    /// Nobody comes this way any more.
    Gone(Way),
}

/// The end of a queue where lines are put in.
#[derive(Debug)]
pub(super) struct Queue {
    sender: UnboundedSender<Message>,
    shared: Arc<Shared>,
}

/// The end of a queue where they are taken out.
#[derive(Debug)]
pub(super) struct Inbox {
    receiver: UnboundedReceiver<Message>,
    shared: Arc<Shared>,
}

/// Tells when a queue ends.
#[derive(Debug)]
pub(super) struct Ending(Arc<Shared>);

/// A way to tell a sink that nobody waits for it any more.
#[derive(Clone, Debug)]
pub struct Hurry(Arc<Shared>);

/// What both ends of a queue know.
#[derive(Debug)]
struct Shared {
    /// Whose it is, for the log.
    name: String,
    /// Octets that may be in it.
    bound: u64,
    /// Octets that are.
    waiting: AtomicU64,
    /// Lines that did not fit, and that nobody was told of.
    lost: AtomicU64,
    /// Whether the last ones did not fit.
    full: AtomicBool,
    /// Whether nothing is put in any more.
    over: AtomicBool,
    /// Whether nobody waits for what is in it.
    hurry: AtomicBool,
}

/// A queue for so many octets.
pub(super) fn queue(name: &impl fmt::Display, bound: u64) -> (Queue, Inbox) {
    let (sender, receiver) = unbounded_channel();
    let shared = Shared {
        name: name.to_string(),
        bound,
        waiting: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        full: AtomicBool::new(false),
        over: AtomicBool::new(false),
        hurry: AtomicBool::new(false),
    };
    let shared = Arc::new(shared);
    (Queue { sender, shared: Arc::clone(&shared) }, Inbox { receiver, shared })
}

impl Outlet {
    pub(super) fn new(queues: Vec<Queue>) -> Self {
        Self { queues: queues.into(), ways: Arc::new(AtomicU32::new(1)), way: 0, refused: Arc::default() }
    }

    /// Says who writes from now on. This is never lost, and stands at the head of every file or stream that begins after it.
    pub fn start(&self, start: Start) {
        let start = Arc::new(start);
        self.queues.iter().for_each(|queue| queue.put(Message::Start(self.way, Arc::clone(&start))));
    }

    /// Hands lines over without waiting. Where they do not fit they are lost, and the next that do tell of it.
    pub fn offer(&self, batch: Batch) {
        if batch.lines == 0 {
            return;
        }
        let batch = Arc::new(batch);
        let refused = self.queues.iter().map(|queue| queue.offer(self.way, &batch)).sum::<u64>();
        self.refused.fetch_add(refused, Ordering::Relaxed);
    }

    /// Lines that did not fit since this was asked last, of all outputs together.
    pub fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

impl Clone for Outlet {
    fn clone(&self) -> Self {
        let way = self.ways.fetch_add(1, Ordering::Relaxed);
        Self { queues: Arc::clone(&self.queues), ways: Arc::clone(&self.ways), way, refused: Arc::clone(&self.refused) }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.queues.iter().for_each(|queue| queue.put(Message::Gone(self.way)));
    }
}

impl Queue {
    /// Puts in what is small and rare.
    pub(super) fn put(&self, message: Message) {
        // A sink that has ended needs to know nothing.
        let _ = self.sender.send(message);
    }

    /// Puts lines in if there is room; gives how many were refused.
    pub(super) fn offer(&self, way: Way, batch: &Arc<Batch>) -> u64 {
        let Shared { name, bound, waiting, lost, full, .. } = &*self.shared;
        if self.sender.is_closed() {
            // A sink that has ended takes nothing any more, and nobody misses it.
            lost.fetch_add(batch.lines, Ordering::Relaxed);
            return 0;
        }
        let octets = octets(batch);
        // What is larger than the bound is not refused for that alone.
        let before = waiting.fetch_add(octets, Ordering::Relaxed);
        if before > 0 && before + octets > *bound {
            waiting.fetch_sub(octets, Ordering::Relaxed);
            lost.fetch_add(batch.lines, Ordering::Relaxed);
            if !full.swap(true, Ordering::Relaxed) {
                tracing::warn!(to = %name, "takes nothing; lines are lost, and counted");
            }
            return batch.lines;
        }
        let told = lost.swap(0, Ordering::Relaxed);
        if full.swap(false, Ordering::Relaxed) {
            tracing::warn!(to = %name, lines = told, "lines were lost; there is room again");
        }
        if self.sender.send(Message::Lines(way, Arc::clone(batch), told)).is_err() {
            lost.fetch_add(batch.lines + told, Ordering::Relaxed);
        }
        0
    }

    /// Whether nobody takes anything out any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Adds to the lines that were lost before the next.
    pub(super) fn lose(&self, lines: u64) {
        self.shared.lost.fetch_add(lines, Ordering::Relaxed);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Ending {
    /// Waits until nothing is put in any more, and then as long as somebody waits for what is left; in a hurry `last_lines`.
    pub(super) async fn patience(self, last_lines: Duration) {
        while !self.0.over.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
        }
        let mut waited = Duration::ZERO;
        while waited < LONGEST_END && !self.0.hurry.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK).await;
            waited += LOOK;
        }
        if waited < LONGEST_END {
            tokio::time::sleep(last_lines).await;
        }
    }
}

impl Hurry {
    /// Whoever takes lines from here on has a moment for them.
    pub fn hurry(&self) {
        self.0.hurry.store(true, Ordering::Relaxed);
    }
}

impl Inbox {
    /// A way to hurry whoever empties it.
    pub(super) fn hurry(&self) -> Hurry {
        Hurry(Arc::clone(&self.shared))
    }

    /// Tells when nothing is put in any more, whoever has the inbox then.
    pub(super) fn ending(&self) -> Ending {
        Ending(Arc::clone(&self.shared))
    }

    /// The next message; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Message> {
        let message = self.receiver.recv().await;
        self.took(message)
    }

    /// Likewise, for a thread of its own.
    pub(super) fn wait(&mut self) -> Option<Message> {
        let message = self.receiver.blocking_recv();
        self.took(message)
    }

    /// Likewise, of what is there now.
    pub(super) fn ready(&mut self) -> Option<Message> {
        let message = self.receiver.try_recv().ok();
        self.took(message)
    }

    /// Lines that did not fit after the last that did.
    pub(super) fn untold(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    fn took(&self, message: Option<Message>) -> Option<Message> {
        if let Some(Message::Lines(_, batch, _)) = &message {
            self.shared.waiting.fetch_sub(octets(batch), Ordering::Relaxed);
        }
        message
    }
}

fn octets(batch: &Batch) -> u64 {
    batch.bytes.len() as u64 + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: u64, octets: u64) -> Batch {
        Batch { bytes: vec![b'x'; (octets - OVERHEAD) as usize], lines, ..Batch::default() }
    }

    fn outlet(bounds: &[u64]) -> (Outlet, Vec<Inbox>) {
        let (queues, inboxes) = bounds.iter().map(|bound| queue(&"here", *bound)).unzip();
        (Outlet::new(queues), inboxes)
    }

    /// Lines, and how many were lost before them.
    fn told(inbox: &mut Inbox) -> Vec<(u64, u64)> {
        let tell = |message| match message {
            Message::Lines(_, batch, lost) => Some((batch.lines, lost)),
            Message::Start(..) | Message::Gone(_) => None,
        };
        std::iter::from_fn(|| inbox.ready()).filter_map(tell).collect()
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_next_that_does() {
        let (outlet, mut inboxes) = outlet(&[10_000]);
        (0..4).for_each(|_| outlet.offer(batch(2, 4000)));
        assert_eq!((told(&mut inboxes[0]), inboxes[0].untold()), (vec![(2, 0), (2, 0)], 4));
        outlet.offer(batch(3, 4000));
        assert_eq!((told(&mut inboxes[0]), inboxes[0].untold()), (vec![(3, 4)], 0));
    }

    #[test]
    fn a_queue_that_is_full_costs_the_others_nothing() {
        let (outlet, mut inboxes) = outlet(&[5_000, 1 << 20]);
        (0..3).for_each(|_| outlet.offer(batch(1, 4000)));
        assert_eq!(inboxes.iter_mut().map(|inbox| told(inbox).len()).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_is_larger_than_the_bound_has_its_turn() {
        let (outlet, mut inboxes) = outlet(&[2_000]);
        (0..2).for_each(|_| outlet.offer(batch(1, 9000)));
        assert_eq!((told(&mut inboxes[0]), inboxes[0].untold()), (vec![(1, 0)], 1));
    }

    #[test]
    fn a_start_finds_room_in_a_full_queue_and_each_way_has_its_own() {
        let (outlet, mut inboxes) = outlet(&[2_000]);
        (0..2).for_each(|_| outlet.offer(batch(1, 9000)));
        outlet.clone().start(Start::default());
        outlet.start(Start::default());
        let starts = std::iter::from_fn(|| inboxes[0].ready()).filter_map(|message| match message {
            Message::Start(way, _) => Some((way, true)),
            Message::Gone(way) => Some((way, false)),
            Message::Lines(..) => None,
        });
        assert_eq!(starts.collect::<Vec<_>>(), [(1, true), (1, false), (0, true)]);
    }

    #[test]
    fn lines_for_a_sink_that_has_ended_are_lost_quietly() {
        let (outlet, inboxes) = outlet(&[2_000]);
        let shared = Arc::clone(&inboxes[0].shared);
        drop(inboxes);
        outlet.offer(batch(3, 1500));
        assert_eq!(shared.lost.load(Ordering::Relaxed), 3);
    }
}
