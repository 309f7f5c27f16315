//! Transactions on their way: found by TID, expired in the order in which they were sent.
//!
//! All MADs have the same deadline and the same grace, so two queues in the order of sending take the place of a timer heap.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::mad::pma::Query;
use crate::time::Instant;
use crate::types::Tid;

/// A request that was sent and neither answered nor given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Index of the device.
    pub device: u32,
    /// What it asks for.
    pub query: Query,
    /// What the answer is for.
    pub purpose: Purpose,
    /// When it was sent.
    pub sent: Instant,
    /// Whether its deadline has passed: it holds no place in the window any more, but an answer still counts.
    pub expired: bool,
}

/// What an answer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The capabilities of a device.
    Capabilities,
    /// A group of counters of a port.
    Counters {
        /// Index of the port.
        port: u32,
        /// Index into the groups that are swept.
        group: u8,
    },
}

/// All transactions of a sampler.
#[derive(Debug)]
pub struct Inflight {
    by_tid: HashMap<Tid, Transaction>,
    deadlines: VecDeque<(Instant, Tid)>,
    graces: VecDeque<(Instant, Tid)>,
    next_tid: u32,
    pending: usize,
    deadline: Duration,
    grace: Duration,
    /// A bit for each of the last TIDs: whether it was answered.
    answered: Box<[u64; REMEMBERED as usize / 64]>,
}

/// How far back it is remembered what became of a TID.
const REMEMBERED: u32 = 1 << 16;

/// What a TID is to us that is not on its way any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Past {
    /// It was answered: another reply is a duplicate.
    Answered,
    /// It was given up: its reply is late.
    GivenUp,
    /// It was never ours, or long ago.
    Stranger,
}

impl Inflight {
    /// None yet. TIDs count up from `first_tid`, which should be random: whoever wants to forge a reply has to guess.
    ///
    /// `capacity` is how many there can be at most; up to it nothing is allocated again.
    pub fn new(first_tid: u32, capacity: usize, deadline: Duration, grace: Duration) -> Self {
        Self {
            by_tid: HashMap::with_capacity(capacity),
            deadlines: VecDeque::with_capacity(capacity),
            graces: VecDeque::with_capacity(capacity),
            next_tid: first_tid,
            pending: 0,
            deadline,
            grace: grace.max(deadline),
            answered: Box::new([0; REMEMBERED as usize / 64]),
        }
    }

    /// Those that hold a place in the window.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Takes a new one and tells its TID, which no other that is still here has.
    pub fn insert(&mut self, transaction: Transaction) -> Tid {
        let mut tid = Tid(self.next_tid);
        while self.by_tid.contains_key(&tid) {
            tid = Tid(tid.0.wrapping_add(1));
        }
        self.next_tid = tid.0.wrapping_add(1);
        let (word, bit) = Self::bit(tid);
        self.answered[word] &= !bit;
        self.deadlines.push_back((transaction.sent + self.deadline, tid));
        self.by_tid.insert(tid, transaction);
        self.pending += 1;
        tid
    }

    /// The transaction of that TID.
    pub fn find(&self, tid: Tid) -> Option<&Transaction> {
        self.by_tid.get(&tid)
    }

    /// What a TID was that is not here: sent from here not long ago, or a stranger's.
    pub fn past(&self, tid: Tid) -> Past {
        let (word, bit) = Self::bit(tid);
        match self.next_tid.wrapping_sub(tid.0) {
            1..=REMEMBERED if self.answered[word] & bit != 0 => Past::Answered,
            1..=REMEMBERED => Past::GivenUp,
            _ => Past::Stranger,
        }
    }

    /// Removes one that was answered.
    pub fn answer(&mut self, tid: Tid) -> Option<Transaction> {
        let (word, bit) = Self::bit(tid);
        self.answered[word] |= bit;
        self.remove(tid)
    }

    /// Removes one that is given up.
    pub fn remove(&mut self, tid: Tid) -> Option<Transaction> {
        let transaction = self.by_tid.remove(&tid)?;
        self.pending -= usize::from(!transaction.expired);
        Some(transaction)
    }

    fn bit(tid: Tid) -> (usize, u64) {
        ((tid.0 % REMEMBERED / 64) as usize, 1 << (tid.0 % 64))
    }

    /// Marks one as expired before its time, because the transport gave it up.
    pub fn expire(&mut self, tid: Tid) -> Option<Transaction> {
        let transaction = self.by_tid.get_mut(&tid).filter(|transaction| !transaction.expired)?;
        transaction.expired = true;
        self.pending -= 1;
        self.graces.push_back((transaction.sent + self.grace, tid));
        Some(*transaction)
    }

    /// The next one whose deadline has passed by `now`; it is marked so.
    pub fn next_expired(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        Self::next_due(&mut self.deadlines, &self.by_tid, now, false).and_then(|tid| Some((tid, self.expire(tid)?)))
    }

    /// The next one whose grace has ended by `now`; it is removed.
    pub fn next_given_up(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        Self::next_due(&mut self.graces, &self.by_tid, now, true).and_then(|tid| Some((tid, self.remove(tid)?)))
    }

    /// When the next deadline or grace ends.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        let deadline = Self::front(&mut self.deadlines, &self.by_tid, false);
        let grace = Self::front(&mut self.graces, &self.by_tid, true);
        deadline.into_iter().chain(grace).map(|(at, _)| at).min()
    }

    /// Those whose deadline has not passed, in the order in which they were sent.
    pub fn waiting(&self) -> impl Iterator<Item = &Transaction> {
        self.deadlines.iter().filter_map(|(_, tid)| self.by_tid.get(tid)).filter(|transaction| !transaction.expired)
    }

    /// Removes all; their replies will be strangers' or late ones.
    pub fn clear(&mut self) {
        self.by_tid.clear();
        self.deadlines.clear();
        self.graces.clear();
        self.pending = 0;
    }

    fn next_due(queue: &mut VecDeque<(Instant, Tid)>, by_tid: &HashMap<Tid, Transaction>, now: Instant, expired: bool) -> Option<Tid> {
        let (at, tid) = Self::front(queue, by_tid, expired)?;
        if at > now {
            return None;
        }
        queue.pop_front();
        Some(tid)
    }

    /// The first of a queue that is still waiting there; those before it, which were answered in the meantime, are dropped.
    fn front(queue: &mut VecDeque<(Instant, Tid)>, by_tid: &HashMap<Tid, Transaction>, expired: bool) -> Option<(Instant, Tid)> {
        while let Some((at, tid)) = queue.front().copied() {
            if by_tid.get(&tid).is_some_and(|transaction| transaction.expired == expired) {
                return Some((at, tid));
            }
            queue.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn transaction(sent: Instant) -> Transaction {
        Transaction { device: 0, query: Query { attribute: 0x12, port: None }, purpose: Purpose::Capabilities, sent, expired: false }
    }

    fn inflight(first_tid: u32) -> Inflight {
        Inflight::new(first_tid, 8, 5 * MS, 50 * MS)
    }

    #[test]
    fn a_deadline_frees_the_place_and_the_grace_ends_it() {
        let mut inflight = inflight(1);
        let tid = inflight.insert(transaction(Instant::ZERO));
        assert_eq!((inflight.pending(), inflight.next_timeout()), (1, Some(Instant::ZERO + 5 * MS)));
        assert_eq!(inflight.next_expired(Instant::ZERO + 4 * MS), None);
        assert_eq!(inflight.next_expired(Instant::ZERO + 5 * MS).map(|(tid, _)| tid), Some(tid));
        assert_eq!((inflight.pending(), inflight.next_timeout()), (0, Some(Instant::ZERO + 50 * MS)));
        assert!(inflight.find(tid).is_some_and(|transaction| transaction.expired));
        assert_eq!(inflight.next_given_up(Instant::ZERO + 50 * MS).map(|(tid, _)| tid), Some(tid));
        assert_eq!(inflight.find(tid), None);
        assert_eq!(inflight.next_timeout(), None);
    }

    #[test]
    fn what_was_answered_does_not_expire() {
        let mut inflight = inflight(1);
        let (first, second) = (inflight.insert(transaction(Instant::ZERO)), inflight.insert(transaction(Instant::ZERO + MS)));
        assert!(inflight.remove(first).is_some());
        assert_eq!(inflight.next_expired(Instant::ZERO + 10 * MS).map(|(tid, _)| tid), Some(second));
        assert_eq!(inflight.next_expired(Instant::ZERO + 10 * MS), None);
    }

    #[test]
    fn a_tid_is_not_used_again_while_it_is_pending() {
        let mut inflight = inflight(u32::MAX);
        let (last, wrapped) = (inflight.insert(transaction(Instant::ZERO)), inflight.insert(transaction(Instant::ZERO)));
        assert_eq!((last, wrapped), (Tid(u32::MAX), Tid(0)));
        inflight.next_tid = u32::MAX;
        assert_eq!(inflight.insert(transaction(Instant::ZERO)), Tid(1));
    }

    #[test]
    fn it_is_remembered_what_became_of_a_tid() {
        let mut inflight = inflight(1000);
        let (answered, given_up) = (inflight.insert(transaction(Instant::ZERO)), inflight.insert(transaction(Instant::ZERO)));
        inflight.answer(answered);
        inflight.remove(given_up);
        assert_eq!((inflight.past(answered), inflight.past(given_up)), (Past::Answered, Past::GivenUp));
        assert_eq!((inflight.past(Tid(1002)), inflight.past(Tid(0xdead_beef))), (Past::Stranger, Past::Stranger));
    }
}
