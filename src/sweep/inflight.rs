//! Transactions: requests that were sent, have no reply yet, and whose grace period has not ended.
//!
//! The key of a transaction is its transaction identifier (TID). All MADs to agents share one
//! timeout and one grace period; MADs to the subnet manager share two longer times, and so do those
//! for the physical layer and for forwarding tables. Within each of these three kinds, timeouts
//! therefore pass in the order of sending, so two queues per kind replace a timer heap.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::{Lid, Tid};
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::mad::pma::Clearable;
use crate::mad::query::Query;
use crate::time::Instant;

/// A request that was sent, has no reply yet, and whose grace period has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Index of the device to which the request belongs.
    pub device: u32,
    /// LID to which the request was sent. Only a reply from this LID counts.
    pub lid: Lid,
    /// Generation of the device when the request was sent: how often everything learned from the
    /// device had been discarded. If it has changed since, the reply may come from another device
    /// and its content is ignored. It is 0 for path queries.
    pub generation: u32,
    /// The request.
    pub query: Query,
    /// Purpose of the reply.
    pub purpose: Purpose,
    /// Time of sending.
    pub sent: Instant,
    /// Whether the timeout has passed. The request has then freed its place in the window, but a
    /// reply still counts.
    pub expired: bool,
}

/// Purpose of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The counters of one group of one port.
    Counters {
        /// Index of the port.
        port: u32,
        /// Index of the group among the swept groups.
        group: u8,
    },
    /// Clearing of counters after their reading.
    Clear {
        /// Index of the port.
        port: u32,
        /// The counters.
        of: Clearable,
        /// Time at which the Get of the reading was sent.
        read: Instant,
    },
    /// Capabilities of the device's agent: ClassPortInfo.
    Capabilities,
    /// OptionMask and Tick of the device's agent: PortSamplesControl.
    Sampling,
    /// Probe, which tests whether the device answers for a group.
    Probe {
        /// Index of the group among the swept groups.
        group: u8,
    },
    /// Identity of the device: NodeInfo.
    Identity,
    /// LID of a device that was identified by a directed route: PortInfo.
    Lid,
    /// CapabilityMask of a switch, which holds for all of its ports: PortInfo of port 0.
    SwitchMask,
    /// State, width and speed of a port's link: PortInfo.
    Link {
        /// Index of the port.
        port: u32,
    },
    /// States of 128 ports of a switch: SwitchPortStateTable.
    StateTable {
        /// Number of the block.
        block: u8,
    },
    /// Error correction of a port's link: PortInfoExtended.
    Fec {
        /// Index of the port.
        port: u32,
    },
    /// Identity of the device behind a port: NodeInfo by a directed route.
    Peer {
        /// Index of the port.
        port: u32,
    },
    /// State of a subnet manager: SMInfo. `Transaction::device` is the index of its LID.
    SubnetManager,
    /// LID of the device and service level to it: PathRecord of the subnet manager.
    Path,
    /// The physical layer of a device: one of its registers.
    Physical,
    /// A forwarding table of a switch.
    Forwarding {
        /// Index among the switches.
        switch: u32,
    },
}

impl Purpose {
    /// Returns whether the request goes to a device, holds a place in the window, and ends with the
    /// slot. The other requests have longer timeouts of their own.
    pub fn is_to_agent(self) -> bool {
        !matches!(self, Self::Path | Self::Physical | Self::Forwarding { .. })
    }
}

/// Waiting times for a reply, counted from sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Time after which the request frees its place in the window.
    pub timeout: Duration,
    /// Grace period: time during which a reply still counts.
    pub grace: Duration,
}

/// All transactions of a sampler.
#[derive(Debug)]
pub struct Inflight {
    /// Transactions by TID. The TIDs are consecutive numbers of this sampler, so no other host can
    /// choose them and a fast hash function is safe.
    by_tid: FxHashMap<Tid, Transaction>,
    agents: TimeoutQueues,
    manager: TimeoutQueues,
    physical: TimeoutQueues,
    next_tid: u32,
    /// Transactions that hold a place in the window.
    pending: usize,
    /// Transactions that an agent may still answer.
    at_agents: usize,
    /// One bit for each of the last TIDs, set if the transaction was answered.
    answered: Box<[u64; REMEMBERED as usize / 64]>,
}

/// The transactions that share one pair of timeouts, in the order of sending.
#[derive(Debug)]
struct TimeoutQueues {
    timeouts: Timeouts,
    /// Requests whose timeout has not passed.
    unexpired: VecDeque<(Instant, Tid)>,
    /// Requests in their grace period.
    expired: VecDeque<(Instant, Tid)>,
}

impl TimeoutQueues {
    fn new(timeouts: Timeouts, capacity: usize) -> Self {
        let grace = timeouts.grace.max(timeouts.timeout);
        let queue = || VecDeque::with_capacity(capacity);
        Self {
            timeouts: Timeouts { grace, ..timeouts },
            unexpired: queue(),
            expired: queue(),
        }
    }

    fn clear(&mut self) {
        self.unexpired.clear();
        self.expired.clear();
    }
}

/// Number of most recent TIDs for which the set records whether they were answered.
const REMEMBERED: u32 = 1 << 16;

/// How the transaction of a past TID ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PastTid {
    /// The transaction was answered. Another reply is a duplicate.
    Answered,
    /// The transaction was given up at the end of its grace period, so a reply is late.
    GivenUp,
    /// This sampler never used the TID, or has sent more than 65,536 requests since then.
    Unknown,
}

impl Inflight {
    /// Creates an empty set. TIDs count up from `first_tid`, which should be random, so that
    /// another host cannot guess a TID and forge a reply.
    ///
    /// The numbers are the max numbers of transactions at agents, at the subnet manager, and for
    /// the physical layer. Up to these numbers, adding a transaction allocates no memory.
    pub fn new(
        first_tid: u32,
        agents: (usize, Timeouts),
        manager: (usize, Timeouts),
        physical: (usize, Timeouts),
    ) -> Self {
        let capacity = agents.0 + manager.0 + physical.0;
        let queues = |(capacity, timeouts)| TimeoutQueues::new(timeouts, capacity);
        Self {
            by_tid: FxHashMap::with_capacity_and_hasher(capacity, FxBuildHasher),
            agents: queues(agents),
            manager: queues(manager),
            physical: queues(physical),
            next_tid: first_tid,
            pending: 0,
            at_agents: 0,
            answered: Box::new([0; REMEMBERED as usize / 64]),
        }
    }

    /// Returns the number of transactions that hold a place in the window. Requests to the subnet
    /// manager hold none.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Adds a transaction and returns its TID, which is unique among the transactions in flight.
    pub fn insert(&mut self, transaction: Transaction) -> Tid {
        let mut tid = Tid(self.next_tid);
        while self.by_tid.contains_key(&tid) {
            tid = Tid(tid.0.wrapping_add(1));
        }
        self.next_tid = tid.0.wrapping_add(1);
        let (word, bit) = Self::answered_bit(tid);
        self.answered[word] &= !bit;
        let to_agent = usize::from(transaction.purpose.is_to_agent());
        let queues = self.queues(transaction.purpose);
        queues
            .unexpired
            .push_back((transaction.sent + queues.timeouts.timeout, tid));
        self.by_tid.insert(tid, transaction);
        self.pending += to_agent;
        self.at_agents += to_agent;
        tid
    }

    /// Returns the transaction of a TID.
    pub fn find(&self, tid: Tid) -> Option<&Transaction> {
        self.by_tid.get(&tid)
    }

    /// Returns how the transaction of a TID that is not in flight has ended.
    pub fn past(&self, tid: Tid) -> PastTid {
        let (word, bit) = Self::answered_bit(tid);
        match self.next_tid.wrapping_sub(tid.0) {
            1..=REMEMBERED if self.answered[word] & bit != 0 => PastTid::Answered,
            1..=REMEMBERED => PastTid::GivenUp,
            _ => PastTid::Unknown,
        }
    }

    /// Removes a transaction that was answered.
    pub fn answer(&mut self, tid: Tid) -> Option<Transaction> {
        let (word, bit) = Self::answered_bit(tid);
        self.answered[word] |= bit;
        self.remove(tid)
    }

    /// Removes a transaction that was given up.
    pub fn remove(&mut self, tid: Tid) -> Option<Transaction> {
        let transaction = self.by_tid.remove(&tid)?;
        let to_agent = transaction.purpose.is_to_agent();
        self.pending -= usize::from(to_agent && !transaction.expired);
        self.at_agents -= usize::from(to_agent);
        Some(transaction)
    }

    fn answered_bit(tid: Tid) -> (usize, u64) {
        ((tid.0 % REMEMBERED / 64) as usize, 1 << (tid.0 % 64))
    }

    fn queues(&mut self, purpose: Purpose) -> &mut TimeoutQueues {
        match purpose {
            Purpose::Path => &mut self.manager,
            Purpose::Physical | Purpose::Forwarding { .. } => &mut self.physical,
            _ => &mut self.agents,
        }
    }

    /// Marks a transaction as expired before its timeout, because the transport has stopped
    /// waiting for it.
    pub fn expire(&mut self, tid: Tid) -> Option<Transaction> {
        let transaction = self
            .by_tid
            .get_mut(&tid)
            .filter(|transaction| !transaction.expired)?;
        transaction.expired = true;
        let transaction = *transaction;
        let queues = self.queues(transaction.purpose);
        queues
            .expired
            .push_back((transaction.sent + queues.timeouts.grace, tid));
        self.pending -= usize::from(transaction.purpose.is_to_agent());
        Some(transaction)
    }

    /// Marks the next transaction whose timeout has passed by `now` as expired and returns it.
    pub fn next_expired(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        let Self {
            agents,
            manager,
            physical,
            by_tid,
            ..
        } = self;
        let tid = [agents, manager, physical]
            .into_iter()
            .find_map(|queues| Self::next_due(&mut queues.unexpired, by_tid, now, false))?;
        Some((tid, self.expire(tid)?))
    }

    /// Removes the next transaction whose grace period has ended by `now` and returns it.
    pub fn next_given_up(&mut self, now: Instant) -> Option<(Tid, Transaction)> {
        let Self {
            agents,
            manager,
            physical,
            by_tid,
            ..
        } = self;
        let tid = [agents, manager, physical]
            .into_iter()
            .find_map(|queues| Self::next_due(&mut queues.expired, by_tid, now, true))?;
        Some((tid, self.remove(tid)?))
    }

    /// Returns when the next timeout or grace period ends.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        let Self {
            agents,
            manager,
            physical,
            by_tid,
            ..
        } = self;
        let fronts = [agents, manager, physical].into_iter().flat_map(
            |TimeoutQueues {
                 unexpired, expired, ..
             }| {
                [
                    Self::front(unexpired, by_tid, false),
                    Self::front(expired, by_tid, true),
                ]
            },
        );
        fronts.flatten().map(|(at, _)| at).min()
    }

    /// Iterates over the transactions at agents whose timeout has not passed, in the order of
    /// sending.
    pub fn waiting(&self) -> impl Iterator<Item = &Transaction> {
        self.agents
            .unexpired
            .iter()
            .filter_map(|(_, tid)| self.by_tid.get(tid))
            .filter(|transaction| !transaction.expired)
    }

    /// Returns the number of transactions that an agent may still answer.
    pub fn at_agents(&self) -> usize {
        self.at_agents
    }

    /// Removes and returns the next transaction at an agent that is in its grace period, even if
    /// the grace period has not ended.
    pub fn next_in_grace(&mut self) -> Option<Transaction> {
        let (_, tid) = Self::front(&mut self.agents.expired, &self.by_tid, true)?;
        self.remove(tid)
    }

    /// Removes and returns one transaction, at an agent or at the subnet manager, whether it is
    /// expired or not.
    pub fn take_next(&mut self) -> Option<Transaction> {
        let Self {
            agents,
            manager,
            physical,
            by_tid,
            ..
        } = self;
        let (_, tid) = [agents, manager, physical].into_iter().find_map(
            |TimeoutQueues {
                 unexpired, expired, ..
             }| {
                Self::front(unexpired, by_tid, false).or_else(|| Self::front(expired, by_tid, true))
            },
        )?;
        self.remove(tid)
    }

    /// Removes all transactions at agents, so later replies to them count as late. Requests to the
    /// subnet manager and for the physical layer stay.
    pub fn clear(&mut self) {
        self.by_tid
            .retain(|_, transaction| !transaction.purpose.is_to_agent());
        self.agents.clear();
        (self.pending, self.at_agents) = (0, 0);
    }

    fn next_due(
        queue: &mut VecDeque<(Instant, Tid)>,
        by_tid: &FxHashMap<Tid, Transaction>,
        now: Instant,
        expired: bool,
    ) -> Option<Tid> {
        let (at, tid) = Self::front(queue, by_tid, expired)?;
        if at > now {
            return None;
        }
        queue.pop_front();
        Some(tid)
    }

    /// Returns the first entry of a queue whose transaction still waits there. Drops the entries
    /// before it, which belong to answered transactions.
    fn front(
        queue: &mut VecDeque<(Instant, Tid)>,
        by_tid: &FxHashMap<Tid, Transaction>,
        expired: bool,
    ) -> Option<(Instant, Tid)> {
        while let Some((at, tid)) = queue.front().copied() {
            if by_tid
                .get(&tid)
                .is_some_and(|transaction| transaction.expired == expired)
            {
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
        let query = Query::Pma(pma::Query {
            attribute: 0x12,
            port: None,
        });
        Transaction {
            device: 0,
            lid: Lid(1),
            generation: 0,
            query,
            purpose: Purpose::Capabilities,
            sent,
            expired: false,
        }
    }

    fn inflight(first_tid: u32) -> Inflight {
        let timeouts = |timeout, grace| Timeouts { timeout, grace };
        Inflight::new(
            first_tid,
            (8, timeouts(5 * MS, 50 * MS)),
            (1, timeouts(1000 * MS, 1000 * MS)),
            (1, timeouts(500 * MS, 500 * MS)),
        )
    }

    #[test]
    fn requests_to_the_subnet_manager_have_longer_timeouts_and_outlive_a_slot() {
        let mut inflight = inflight(1);
        let path = inflight.insert(Transaction {
            purpose: Purpose::Path,
            ..transaction(Instant::ZERO)
        });
        let agent = inflight.insert(transaction(Instant::ZERO));
        assert_eq!(
            (inflight.pending(), inflight.next_timeout()),
            (1, Some(Instant::ZERO + 5 * MS))
        );
        inflight.clear();
        assert_eq!(
            (
                inflight.find(agent),
                inflight.find(path).is_some(),
                inflight.pending()
            ),
            (None, true, 0)
        );
        assert_eq!(
            inflight
                .next_expired(Instant::ZERO + 1000 * MS)
                .map(|(tid, _)| tid),
            Some(path)
        );
        assert_eq!(
            inflight
                .next_given_up(Instant::ZERO + 1000 * MS)
                .map(|(tid, _)| tid),
            Some(path)
        );
    }

    #[test]
    fn timeout_frees_the_place_and_the_end_of_the_grace_period_removes_the_transaction() {
        let mut inflight = inflight(1);
        let tid = inflight.insert(transaction(Instant::ZERO));
        assert_eq!(
            (inflight.pending(), inflight.next_timeout()),
            (1, Some(Instant::ZERO + 5 * MS))
        );
        assert_eq!(inflight.next_expired(Instant::ZERO + 4 * MS), None);
        assert_eq!(
            inflight
                .next_expired(Instant::ZERO + 5 * MS)
                .map(|(tid, _)| tid),
            Some(tid)
        );
        assert_eq!(
            (inflight.pending(), inflight.next_timeout()),
            (0, Some(Instant::ZERO + 50 * MS))
        );
        assert!(
            inflight
                .find(tid)
                .is_some_and(|transaction| transaction.expired)
        );
        assert_eq!(
            inflight
                .next_given_up(Instant::ZERO + 50 * MS)
                .map(|(tid, _)| tid),
            Some(tid)
        );
        assert_eq!(inflight.find(tid), None);
        assert_eq!(inflight.next_timeout(), None);
    }

    #[test]
    fn removed_transaction_does_not_expire() {
        let mut inflight = inflight(1);
        let (first, second) = (
            inflight.insert(transaction(Instant::ZERO)),
            inflight.insert(transaction(Instant::ZERO + MS)),
        );
        assert!(inflight.remove(first).is_some());
        assert_eq!(
            inflight
                .next_expired(Instant::ZERO + 10 * MS)
                .map(|(tid, _)| tid),
            Some(second)
        );
        assert_eq!(inflight.next_expired(Instant::ZERO + 10 * MS), None);
    }

    #[test]
    fn tid_in_flight_is_not_used_again() {
        let mut inflight = inflight(u32::MAX);
        let (last, wrapped) = (
            inflight.insert(transaction(Instant::ZERO)),
            inflight.insert(transaction(Instant::ZERO)),
        );
        assert_eq!((last, wrapped), (Tid(u32::MAX), Tid(0)));
        inflight.next_tid = u32::MAX;
        assert_eq!(inflight.insert(transaction(Instant::ZERO)), Tid(1));
    }

    #[test]
    fn past_tids_are_known_as_answered_or_given_up() {
        let mut inflight = inflight(1000);
        let (answered, given_up) = (
            inflight.insert(transaction(Instant::ZERO)),
            inflight.insert(transaction(Instant::ZERO)),
        );
        inflight.answer(answered);
        inflight.remove(given_up);
        assert_eq!(
            (inflight.past(answered), inflight.past(given_up)),
            (PastTid::Answered, PastTid::GivenUp)
        );
        assert_eq!(
            (inflight.past(Tid(1002)), inflight.past(Tid(0xdead_beef))),
            (PastTid::Unknown, PastTid::Unknown)
        );
    }
}
