//! Transactions on their way: found by TID, expired in the order in which they were sent.
//!
//! All MADs to agents have the same deadline and the same grace, and so have those to the subnet manager, which may think longer. So a few queues in
//! the order of sending take the place of a timer heap.

use std::collections::VecDeque;
use std::time::Duration;

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::mad::query::Query;
use crate::time::Instant;
use crate::types::{Lid, Tid};

/// A request that was sent and neither answered nor given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Index of the device that it is about.
    pub device: u32,
    /// Who is asked, and has to answer.
    pub lid: Lid,
    /// Whom it was thought to be asked of: what comes of another is not believed; see the engine's `Device::life`.
    pub life: u32,
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
    /// A group of counters of a port.
    Counters {
        /// Index of the port.
        port: u32,
        /// Index into the groups that are swept.
        group: u8,
    },
    /// What a device's agent can do: ClassPortInfo.
    Capabilities,
    /// Which optional attributes it has, and how long its ticks are: PortSamplesControl.
    Sampling,
    /// Whether it answers for a group at all.
    Probe {
        /// Index into the groups that are swept.
        group: u8,
    },
    /// Who it is: NodeInfo.
    Identity,
    /// What a switch can do, for all of its ports: PortInfo of port 0.
    Switch,
    /// How a port's link is: PortInfo.
    Link {
        /// Index of the port.
        port: u32,
    },
    /// What its error correction is: PortInfoExtended.
    Fec {
        /// Index of the port.
        port: u32,
    },
    /// Where it is: PathRecord, of the subnet manager.
    Path,
}

/// How long is waited for an answer; counted from sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Until its place is free again.
    pub deadline: Duration,
    /// Until its answer counts no more.
    pub grace: Duration,
}

/// All transactions of a sampler.
#[derive(Debug)]
pub struct Inflight {
    /// TIDs that are in here are our own, one after another: no stranger chooses where they fall, so a quick hash will do.
    by_tid: FxHashMap<Tid, Transaction>,
    agents: Lane,
    manager: Lane,
    next_tid: u32,
    pending: usize,
    at_agents: usize,
    /// A bit for each of the last TIDs: whether it was answered.
    answered: Box<[u64; REMEMBERED as usize / 64]>,
}

/// Those of one patience.
#[derive(Debug)]
struct Lane {
    patience: Patience,
    deadlines: VecDeque<(Instant, Tid)>,
    graces: VecDeque<(Instant, Tid)>,
}

impl Purpose {
    /// Whether it is the subnet manager who is asked.
    pub fn is_manager_s(self) -> bool {
        self == Self::Path
    }
}

impl Lane {
    fn new(patience: Patience, capacity: usize) -> Self {
        let grace = patience.grace.max(patience.deadline);
        let queue = || VecDeque::with_capacity(capacity);
        Self { patience: Patience { grace, ..patience }, deadlines: queue(), graces: queue() }
    }

    fn clear(&mut self) {
        self.deadlines.clear();
        self.graces.clear();
    }
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
    pub fn new(first_tid: u32, capacity: usize, agents: Patience, manager: Patience) -> Self {
        Self {
            by_tid: FxHashMap::with_capacity_and_hasher(capacity, FxBuildHasher),
            agents: Lane::new(agents, capacity),
            manager: Lane::new(manager, 1),
            next_tid: first_tid,
            pending: 0,
            at_agents: 0,
            answered: Box::new([0; REMEMBERED as usize / 64]),
        }
    }

    /// Those that hold a place in the window; the subnet manager's do not.
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
        let lane = if transaction.purpose.is_manager_s() { &mut self.manager } else { &mut self.agents };
        lane.deadlines.push_back((transaction.sent + lane.patience.deadline, tid));
        self.by_tid.insert(tid, transaction);
        self.pending += usize::from(!transaction.purpose.is_manager_s());
        self.at_agents += usize::from(!transaction.purpose.is_manager_s());
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
        self.pending -= usize::from(!transaction.expired && !transaction.purpose.is_manager_s());
        self.at_agents -= usize::from(!transaction.purpose.is_manager_s());
        Some(transaction)
    }

    fn bit(tid: Tid) -> (usize, u64) {
        ((tid.0 % REMEMBERED / 64) as usize, 1 << (tid.0 % 64))
    }

    /// Marks one as expired before its time, because the transport gave it up.
    pub fn expire(&mut self, tid: Tid) -> Option<Transaction> {
        let transaction = self.by_tid.get_mut(&tid).filter(|transaction| !transaction.expired)?;
        transaction.expired = true;
        let lane = if transaction.purpose.is_manager_s() { &mut self.manager } else { &mut self.agents };
        lane.graces.push_back((transaction.sent + lane.patience.grace, tid));
        self.pending -= usize::from(!transaction.purpose.is_manager_s());
        Some(*transaction)
    }

    /// The next one whose deadline has passed by `now`; it is marked so.
    pub fn next_expired(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        let tid = [&mut self.agents, &mut self.manager]
            .into_iter()
            .find_map(|lane| Self::next_due(&mut lane.deadlines, &self.by_tid, now, false))?;
        Some((tid, self.expire(tid)?))
    }

    /// The next one whose grace has ended by `now`; it is removed.
    pub fn next_given_up(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        let tid =
            [&mut self.agents, &mut self.manager].into_iter().find_map(|lane| Self::next_due(&mut lane.graces, &self.by_tid, now, true))?;
        Some((tid, self.remove(tid)?))
    }

    /// When the next deadline or grace ends.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        let lanes = [&mut self.agents, &mut self.manager].into_iter();
        let fronts = lanes
            .flat_map(|lane| [Self::front(&mut lane.deadlines, &self.by_tid, false), Self::front(&mut lane.graces, &self.by_tid, true)]);
        fronts.flatten().map(|(at, _)| at).min()
    }

    /// Those at agents whose deadline has not passed, in the order in which they were sent.
    pub fn waiting(&self) -> impl Iterator<Item = &Transaction> {
        self.agents.deadlines.iter().filter_map(|(_, tid)| self.by_tid.get(tid)).filter(|transaction| !transaction.expired)
    }

    /// Those that an agent may still answer.
    pub fn at_agents(&self) -> usize {
        self.at_agents
    }

    /// Takes out the next of those at agents that are in their grace, whenever that ends.
    pub fn next_in_grace(&mut self) -> Option<Transaction> {
        let (_, tid) = Self::front(&mut self.agents.graces, &self.by_tid, true)?;
        self.remove(tid)
    }

    /// Takes out one after another, whatever they wait for.
    pub fn take_next(&mut self) -> Option<Transaction> {
        let by_tid = &self.by_tid;
        let (_, tid) = [&mut self.agents, &mut self.manager].into_iter().find_map(|lane| {
            let waiting = Self::front(&mut lane.deadlines, by_tid, false);
            waiting.or_else(|| Self::front(&mut lane.graces, by_tid, true))
        })?;
        self.remove(tid)
    }

    /// Removes all at agents; their replies will be strangers' or late ones. What the subnet manager was asked stays.
    pub fn clear(&mut self) {
        self.by_tid.retain(|_, transaction| transaction.purpose.is_manager_s());
        self.agents.clear();
        (self.pending, self.at_agents) = (0, 0);
    }

    fn next_due(queue: &mut VecDeque<(Instant, Tid)>, by_tid: &FxHashMap<Tid, Transaction>, now: Instant, expired: bool) -> Option<Tid> {
        let (at, tid) = Self::front(queue, by_tid, expired)?;
        if at > now {
            return None;
        }
        queue.pop_front();
        Some(tid)
    }

    /// The first of a queue that is still waiting there; those before it, which were answered in the meantime, are dropped.
    fn front(queue: &mut VecDeque<(Instant, Tid)>, by_tid: &FxHashMap<Tid, Transaction>, expired: bool) -> Option<(Instant, Tid)> {
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
    use crate::mad::pma;

    const MS: Duration = Duration::from_millis(1);

    fn transaction(sent: Instant) -> Transaction {
        let query = Query::Pma(pma::Query { attribute: 0x12, port: None });
        Transaction { device: 0, lid: Lid(1), life: 0, query, purpose: Purpose::Capabilities, sent, expired: false }
    }

    fn inflight(first_tid: u32) -> Inflight {
        let patience = |deadline, grace| Patience { deadline, grace };
        Inflight::new(first_tid, 8, patience(5 * MS, 50 * MS), patience(1000 * MS, 1000 * MS))
    }

    #[test]
    fn the_subnet_manager_may_think_longer_and_beyond_a_slot() {
        let mut inflight = inflight(1);
        let path = inflight.insert(Transaction { purpose: Purpose::Path, ..transaction(Instant::ZERO) });
        let agent = inflight.insert(transaction(Instant::ZERO));
        assert_eq!((inflight.pending(), inflight.next_timeout()), (1, Some(Instant::ZERO + 5 * MS)));
        inflight.clear();
        assert_eq!((inflight.find(agent), inflight.find(path).is_some(), inflight.pending()), (None, true, 0));
        assert_eq!(inflight.next_expired(Instant::ZERO + 1000 * MS).map(|(tid, _)| tid), Some(path));
        assert_eq!(inflight.next_given_up(Instant::ZERO + 1000 * MS).map(|(tid, _)| tid), Some(path));
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
