//! What may befall replies on their way back: they come late, twice, forged, or too many at once.
//!
//! A layer around [`Client`]: same faults, same seed, same traffic, same outcome. What befalls requests and devices is
//! [`SimFabric`](super::SimFabric)'s to do.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Client, Coming};
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Local, Outcome, Target};
use crate::time::Instant;
use crate::types::Lid;

/// What befalls replies; nothing by default. Shares are from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// This share comes later, by [`delay`](Self::delay).
    pub delayed: f64,
    /// By how much.
    pub delay: Duration,
    /// This share comes twice.
    pub duplicated: f64,
    /// Somebody answers beside the device.
    pub forged: Option<Forgery>,
    /// How many replies find room at the sender.
    pub room: Option<Room>,
}

/// Replies with the right TID and made-up data.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Forgery {
    /// The share of replies that have one beside them.
    pub share: f64,
    /// What of it is not as it should be.
    pub wrong: Wrong,
    /// Whether the true reply does not come any more; else it comes right after.
    pub instead: bool,
}

/// What is wrong with a forged reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// It comes from another LID.
    Sender,
    /// It is of an attribute that was not asked for.
    Attribute,
    /// It ends with its header.
    Length,
}

/// A queue pair that takes in no more than so many replies within a time; what comes beyond is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// How many.
    pub most: usize,
    /// Within which time.
    pub within: Duration,
}

/// Octets of the header that all MADs have.
const HEADER_LEN: usize = 24;

/// What forged replies are full of.
const MADE_UP: u8 = 0xa5;

/// A sender whose replies are befallen by faults.
#[derive(Debug)]
pub struct Faulty {
    /// What befalls them from now on.
    pub faults: Faults,
    client: Client,
    rng: fastrand::Rng,
    /// When the last replies were taken in, while there is little room.
    taken: VecDeque<Instant>,
}

impl Faulty {
    /// A sender that nothing befalls yet. Everything random follows from the seed.
    pub fn new(client: Client, seed: u64) -> Self {
        Self { faults: Faults::default(), client, rng: fastrand::Rng::with_seed(seed), taken: VecDeque::new() }
    }

    /// As [`Client::send`].
    pub fn send(&mut self, target: &Target, mad: &Mad, now: Instant) {
        let (at, coming) = self.client.ask(target, mad, now);
        let Outcome::Reply { slid, .. } = coming.completion.outcome else { return self.client.put(at, coming) };
        let delayed = self.happens(self.faults.delayed);
        let at = if delayed { at + self.faults.delay } else { at };
        if let Some(forgery) = self.faults.forged.filter(|forgery| self.rng.f64() < forgery.share) {
            let forged = forgery.wrong.forge(&coming, slid);
            if forgery.instead {
                // The kernel takes it for the answer, and tells of nothing more.
                return self.client.put(at, forged);
            }
            self.client.put(at, forged);
        }
        let copy = self.happens(self.faults.duplicated).then(|| Coming { give_up: None, ..coming.clone() });
        match coming.give_up {
            Some(give_up) if give_up < at => self.client.put(give_up, coming.lost()),
            _ => {
                self.client.put(at, coming);
                if let Some(copy) = copy {
                    self.client.put(at, copy);
                }
            }
        }
    }

    /// As [`Client::local`].
    pub fn local(&self) -> Local {
        self.client.local()
    }

    /// As [`Client::next_due`]. It may come to nothing.
    pub fn next_due(&self) -> Option<Instant> {
        self.client.next_due()
    }

    /// As [`Client::take_due`].
    pub fn take_due(&mut self, now: Instant) -> Option<(Completion, Mad)> {
        loop {
            let (at, coming) = self.client.take(now)?;
            let is_reply = matches!(coming.completion.outcome, Outcome::Reply { .. });
            if !is_reply || self.finds_room(at) {
                return Some((coming.completion, coming.mad));
            }
            self.lose(coming);
        }
    }

    /// Loses all replies that are on their way, as a host does that is suspended.
    pub fn lose_all(&mut self) {
        for (at, coming) in std::mem::take(&mut self.client.coming).into_iter().map(|((at, _), coming)| (at, coming)) {
            match coming.completion.outcome {
                Outcome::Reply { .. } => self.lose(coming),
                _ => self.client.put(at, coming),
            }
        }
    }

    fn lose(&mut self, coming: Coming) {
        if let Some(give_up) = coming.give_up {
            self.client.put(give_up, coming.lost());
        }
    }

    fn finds_room(&mut self, at: Instant) -> bool {
        let Some(Room { most, within }) = self.faults.room else {
            self.taken.clear();
            return true;
        };
        while self.taken.front().is_some_and(|first| at - *first >= within) {
            self.taken.pop_front();
        }
        let finds = self.taken.len() < most;
        if finds {
            self.taken.push_back(at);
        }
        finds
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.f64() < share
    }
}

impl Coming {
    fn lost(self) -> Self {
        Self { completion: Completion { outcome: Outcome::TimedOut, ..self.completion }, ..self }
    }
}

impl Wrong {
    /// A reply as somebody would send it who saw the request.
    fn forge(self, reply: &Coming, slid: Lid) -> Coming {
        let mut mad = reply.mad;
        // All but which port it is of: that would give it away.
        mad[68..].fill(MADE_UP);
        let (mut from, mut len) = (slid, mad.len());
        match self {
            Self::Sender => from = Lid(slid.0 ^ 1),
            Self::Attribute => mad[16] ^= 0x70,
            Self::Length => len = HEADER_LEN,
        }
        Coming { completion: Completion { outcome: Outcome::Reply { slid: from, len }, ..reply.completion }, mad, give_up: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::traffic::Traffic;
    use super::super::{Options, SimFabric};
    use super::*;
    use crate::mad::MAD_LEN;
    use crate::mad::pma;
    use crate::topology::{ports_report, synthetic};
    use crate::types::{PortNum, Tid};

    const GIVE_UP: Duration = Duration::from_millis(50);
    const MS: Duration = Duration::from_millis(1);

    /// What comes of ten requests to ten hosts at once: the instant of each in ms, and what it is.
    fn outcomes(faults: Faults) -> Vec<(u64, Outcome)> {
        let tree = synthetic::FatTree { leaves: 2, hosts: 5, spines: 1, trunk: 1, radix: 8 };
        let fabric = ports_report::parse(tree.blueprint().ports_report().as_bytes(), "tree").expect("our own format").fabric;
        let hosts: Vec<Lid> = fabric.devices().iter().filter(|device| device.ports.len() == 1).map(|device| device.lid).collect();
        let sim = SimFabric::with_traffic(fabric, Options::default(), Traffic::none());
        let mut faulty = Faulty::new(Client::new(Arc::new(Mutex::new(sim))), 1);
        faulty.faults = faults;
        let mut mad = [0; MAD_LEN];
        for (tid, lid) in (1..).zip(&hosts) {
            pma::Query { attribute: 0x12, port: Some(PortNum(1)) }.emit(Tid(tid), &mut mad);
            faulty.send(&Target::general(*lid, 0, 0, GIVE_UP), &mad, Instant::ZERO);
        }
        let mut outcomes = Vec::new();
        while let Some(at) = faulty.next_due() {
            outcomes.extend(faulty.take_due(at).map(|(completion, _)| (at.as_nanos() / 1_000_000, completion.outcome)));
        }
        outcomes
    }

    fn replies(outcomes: &[(u64, Outcome)]) -> usize {
        outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Reply { .. })).count()
    }

    #[test]
    fn nothing_befalls_them_by_default() {
        assert_eq!(replies(&outcomes(Faults::default())), 10);
    }

    #[test]
    fn late_ones_come_late_and_none_after_the_sender_was_told_that_it_timed_out() {
        let late = outcomes(Faults { delayed: 1.0, delay: 7 * MS, ..Faults::default() });
        assert_eq!((replies(&late), late.iter().all(|(ms, _)| *ms == 7)), (10, true));
        let too_late = outcomes(Faults { delayed: 1.0, delay: 60 * MS, ..Faults::default() });
        assert_eq!(too_late, [(50, Outcome::TimedOut); 10]);
    }

    #[test]
    fn what_finds_no_room_is_lost_and_its_copy_is_missed_by_nobody() {
        let room = Some(Room { most: 4, within: MS });
        let crowded = outcomes(Faults { room, ..Faults::default() });
        assert_eq!((replies(&crowded), crowded.len()), (4, 10));
        let twice = outcomes(Faults { room, duplicated: 1.0, ..Faults::default() });
        assert_eq!((replies(&twice), twice.len()), (4, 2 + 2 + 8));
    }

    #[test]
    fn a_forged_reply_comes_before_the_true_one_or_instead_of_it() {
        let forged = |wrong, instead| outcomes(Faults { forged: Some(Forgery { share: 1.0, wrong, instead }), ..Faults::default() });
        assert_eq!(replies(&forged(Wrong::Sender, false)), 20);
        let short = forged(Wrong::Length, true);
        assert!(short.iter().all(|(_, outcome)| matches!(outcome, Outcome::Reply { len: HEADER_LEN, .. })), "{short:?}");
    }
}
