//! Faults of replies: late, duplicated or forged replies, and replies that are lost in a full
//! receive queue.
//!
//! [`Faulty`] wraps a [`Client`] of the simulated fabric; the same faults, seed and traffic give
//! the same result. [`SimFabric`](super::SimFabric) simulates the faults of requests and of
//! devices.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::Lid;

use super::client::{Client, Pending};
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Local, Outcome, Target};
use crate::time::Instant;

/// Faults of replies, as shares from 0 to 1. By default there are none.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// Share of replies that are delayed by [`delay`](Self::delay).
    pub delayed: f64,
    /// Delay of a late reply.
    pub delay: Duration,
    /// Share of replies that arrive twice.
    pub duplicated: f64,
    /// A second sender that answers in addition to the device.
    pub forged: Option<Forgery>,
    /// The receive queue of the host that sends the requests. `None` means unlimited.
    pub receive_queue: Option<ReceiveQueue>,
}

/// Replies with the right TID and wrong data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Forgery {
    /// Share of requests to which a forged reply arrives.
    pub share: f64,
    /// The property by which the forged reply can be detected.
    pub defect: Defect,
    /// Whether the true reply is lost. Otherwise it arrives right after the forged one.
    pub instead: bool,
}

/// The property of a forged reply that differs from the true one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// Another LID sends the forged reply.
    Sender,
    /// The forged reply has another attribute than the request.
    Attribute,
    /// The forged reply ends after the header.
    Length,
}

/// A receive queue that accepts a limited number of replies in a period and drops the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveQueue {
    /// Max number of replies in a period.
    pub capacity: usize,
    /// Length of the period.
    pub within: Duration,
}

/// Length of the common MAD header in octets.
const HEADER_LEN: usize = 24;

/// The byte that fills forged replies.
const FORGED_OCTET: u8 = 0xa5;

/// A sender whose replies have faults.
#[derive(Debug)]
pub struct Faulty {
    /// Faults that are applied to the replies of later requests.
    pub faults: Faults,
    client: Client,
    rng: fastrand::Rng,
    /// Instants at which the receive queue accepted the last replies. Used only while the queue is
    /// limited.
    accepted: VecDeque<Instant>,
}

impl Faulty {
    /// Creates a sender without faults. All random numbers follow from the seed.
    pub fn new(client: Client, seed: u64) -> Self {
        Self {
            faults: Faults::default(),
            client,
            rng: fastrand::Rng::with_seed(seed),
            accepted: VecDeque::new(),
        }
    }

    /// Sends a MAD like [`Client::send`] and applies the faults to its reply.
    pub fn send(&mut self, target: &Target, mad: &Mad, now: Instant) {
        let (at, pending) = self.client.submit(target, mad, now);
        let Outcome::Reply { slid, .. } = pending.completion.outcome else {
            return self.client.schedule(at, pending);
        };
        if self.client.spares(mad) {
            return self.client.schedule(at, pending);
        }
        let delayed = self.happens(self.faults.delayed);
        let at = if delayed { at + self.faults.delay } else { at };
        if let Some(forgery) = self
            .faults
            .forged
            .filter(|forgery| self.rng.f64() < forgery.share)
        {
            let forged = forgery.defect.forge(&pending, slid);
            if forgery.instead {
                // The kernel accepts the forged reply and drops the true one.
                return self.client.schedule(at, forged);
            }
            self.client.schedule(at, forged);
        }
        let copy = self.happens(self.faults.duplicated).then(|| Pending {
            give_up: None,
            ..pending.clone()
        });
        match pending.give_up {
            Some(give_up) if give_up < at => self.client.schedule(give_up, pending.lost()),
            _ => {
                self.client.schedule(at, pending);
                if let Some(copy) = copy {
                    self.client.schedule(at, copy);
                }
            }
        }
    }

    /// Returns the address of the sender like [`Client::local`].
    pub fn local(&self) -> Local {
        self.client.local()
    }

    /// Returns the instant of the next completion like [`Client::next_due`]. The receive queue may
    /// drop that reply.
    pub fn next_due(&self) -> Option<Instant> {
        self.client.next_due()
    }

    /// Takes the next completion like [`Client::take_due`].
    pub fn take_due(&mut self, now: Instant) -> Option<(Completion, Mad)> {
        loop {
            let (at, pending) = self.client.take(now)?;
            let is_reply = matches!(pending.completion.outcome, Outcome::Reply { .. });
            if !is_reply || self.client.spares(&pending.mad) || self.accepts(at) {
                return Some((pending.completion, pending.mad));
            }
            self.lose(pending);
        }
    }

    /// Drops all replies that have not arrived yet, as when a host is suspended.
    pub fn lose_all(&mut self) {
        for (at, pending) in std::mem::take(&mut self.client.pending)
            .into_iter()
            .map(|((at, _), pending)| (at, pending))
        {
            match pending.completion.outcome {
                Outcome::Reply { .. } => self.lose(pending),
                _ => self.client.schedule(at, pending),
            }
        }
    }

    fn lose(&mut self, pending: Pending) {
        if let Some(give_up) = pending.give_up {
            self.client.schedule(give_up, pending.lost());
        }
    }

    fn accepts(&mut self, at: Instant) -> bool {
        let Some(ReceiveQueue { capacity, within }) = self.faults.receive_queue else {
            self.accepted.clear();
            return true;
        };
        while self
            .accepted
            .front()
            .is_some_and(|first| at - *first >= within)
        {
            self.accepted.pop_front();
        }
        let accepts = self.accepted.len() < capacity;
        if accepts {
            self.accepted.push_back(at);
        }
        accepts
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.f64() < share
    }
}

impl Pending {
    fn lost(self) -> Self {
        Self {
            completion: Completion {
                outcome: Outcome::TimedOut,
                ..self.completion
            },
            ..self
        }
    }
}

impl Defect {
    /// Returns a forged reply, as a forger could send it that saw the request.
    fn forge(self, reply: &Pending, slid: Lid) -> Pending {
        let mut mad = reply.mad;
        // The port number stays, because a wrong port would be a second defect.
        mad[68..].fill(FORGED_OCTET);
        let (mut from, mut len) = (slid, mad.len());
        match self {
            Self::Sender => from = Lid(slid.0 ^ 1),
            Self::Attribute => mad[16] ^= 0x70,
            Self::Length => len = HEADER_LEN,
        }
        Pending {
            completion: Completion {
                outcome: Outcome::Reply { slid: from, len },
                ..reply.completion
            },
            mad,
            give_up: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ibnet_record::types::{PortNum, Tid};

    use super::super::traffic::Traffic;
    use super::super::{Options, SimFabric};
    use super::*;
    use crate::mad::MAD_LEN;
    use crate::mad::pma;
    use crate::topology::{ports_report, synthetic};

    const GIVE_UP: Duration = Duration::from_millis(50);
    const MS: Duration = Duration::from_millis(1);

    /// Returns the outcomes of ten requests to ten hosts at once, each with its instant in ms.
    fn outcomes(faults: Faults) -> Vec<(u64, Outcome)> {
        let tree = synthetic::FatTree {
            leaves: 2,
            hosts: 5,
            spines: 1,
            trunk: 1,
            radix: 8,
        };
        let fabric = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree")
            .expect("a valid ports report")
            .fabric;
        let hosts: Vec<Lid> = fabric
            .devices()
            .iter()
            .filter(|device| device.ports.len() == 1)
            .map(|device| device.lid)
            .collect();
        let sim = SimFabric::with_traffic(fabric, Options::default(), Traffic::none());
        let mut faulty = Faulty::new(Client::new(Arc::new(Mutex::new(sim))), 1);
        faulty.faults = faults;
        let mut mad = [0; MAD_LEN];
        for (tid, lid) in (1..).zip(&hosts) {
            pma::Query {
                attribute: 0x12,
                port: Some(PortNum(1)),
            }
            .emit(Tid(tid), &mut mad);
            faulty.send(&Target::general(*lid, 0, 0, GIVE_UP), &mad, Instant::ZERO);
        }
        let mut outcomes = Vec::new();
        while let Some(at) = faulty.next_due() {
            outcomes.extend(
                faulty
                    .take_due(at)
                    .map(|(completion, _)| (at.as_nanos() / 1_000_000, completion.outcome)),
            );
        }
        outcomes
    }

    fn replies(outcomes: &[(u64, Outcome)]) -> usize {
        outcomes
            .iter()
            .filter(|(_, outcome)| matches!(outcome, Outcome::Reply { .. }))
            .count()
    }

    #[test]
    fn all_replies_arrive_by_default() {
        assert_eq!(replies(&outcomes(Faults::default())), 10);
    }

    #[test]
    fn reply_is_late_and_is_dropped_after_the_timeout() {
        let late = outcomes(Faults {
            delayed: 1.0,
            delay: 7 * MS,
            ..Faults::default()
        });
        assert_eq!(
            (replies(&late), late.iter().all(|(ms, _)| *ms == 7)),
            (10, true)
        );
        let too_late = outcomes(Faults {
            delayed: 1.0,
            delay: 60 * MS,
            ..Faults::default()
        });
        assert_eq!(too_late, [(50, Outcome::TimedOut); 10]);
    }

    #[test]
    fn full_receive_queue_drops_replies() {
        let receive_queue = Some(ReceiveQueue {
            capacity: 4,
            within: MS,
        });
        let crowded = outcomes(Faults {
            receive_queue,
            ..Faults::default()
        });
        assert_eq!((replies(&crowded), crowded.len()), (4, 10));
        let twice = outcomes(Faults {
            receive_queue,
            duplicated: 1.0,
            ..Faults::default()
        });
        assert_eq!((replies(&twice), twice.len()), (4, 2 + 2 + 8));
    }

    #[test]
    fn forged_reply_precedes_or_replaces_the_true_one() {
        let forged = |defect, instead| {
            outcomes(Faults {
                forged: Some(Forgery {
                    share: 1.0,
                    defect,
                    instead,
                }),
                ..Faults::default()
            })
        };
        assert_eq!(replies(&forged(Defect::Sender, false)), 20);
        let short = forged(Defect::Length, true);
        assert!(
            short.iter().all(|(_, outcome)| matches!(
                outcome,
                Outcome::Reply {
                    len: HEADER_LEN,
                    ..
                }
            )),
            "{short:?}"
        );
    }
}
