//! The subscription to traps: a state machine without I/O and without a clock.
//!
//! 1. For each trap, the subscription sends a Set of InformInfo to the subnet manager. If no
//!    answer arrives within [`TIMEOUT`], it sends the Set again, a few times in all.
//! 2. It renews itself every [`RENEW_EVERY`]. It also does so at once when the LID of the own port
//!    or the subnet manager has changed, because a new subnet manager has no list of subscribers.
//! 3. If the subnet manager refuses or does not answer, the reason is reported once and the
//!    subscription is tried again at the next renewal.
//! 4. A report counts only if it comes from the subnet manager. Each such report is answered. The
//!    subnet manager repeats a report whose answer was lost; a repetition is answered too, but
//!    does not count as another trap.
//! 5. [`withdraw`](Subscription::withdraw) ends the subscription.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::{Lid, Tid};

use crate::mad::Mad;
use crate::mad::exchange::{Local, Target};
use crate::mad::header::{Header, MadStatus};
use crate::mad::inform::{InformInfo, LINK_STATE, PORT_CHANGE, Trap};
use crate::time::Instant;

/// The traps to which ibnet subscribes.
pub const TRAPS: [u16; 2] = [LINK_STATE, PORT_CHANGE];

/// Time between two renewals.
pub const RENEW_EVERY: Duration = Duration::from_secs(60);

/// Max wait for the answer to a request.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// Number of times that a request is sent.
const TRIES: u8 = 3;

/// Max number of waiting replies to reports. The subnet manager repeats a report without reply.
const MAX_REPLIES: usize = 64;

/// Time within which a report with the same transaction ID counts as a repetition. A subnet
/// manager repeats a report within a few seconds.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);

/// A subscription to [`TRAPS`] at one subnet manager.
#[derive(Debug)]
pub struct Subscription {
    local: Local,
    pkey_index: u16,
    requests: [Request; TRAPS.len()],
    next_tid: u32,
    /// Replies to reports.
    replies: VecDeque<Mad>,
    /// The last reports, at most [`MAX_REPLIES`].
    reports: VecDeque<Report>,
    /// Condition that was last reported.
    reported: Option<Condition>,
    is_withdrawn: bool,
}

/// A report that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Report {
    /// The whole transaction ID.
    tid: [u8; 8],
    trap: Trap,
    at: Instant,
}

/// State of the subscription to one trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    state: RequestState,
    /// Outcome of the last request. During a renewal, it is the outcome of the previous request.
    outcome: Outcome,
    /// Whether the subnet manager may still have a subscription.
    may_exist: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestState {
    /// A request is sent at this time.
    Due { at: Instant, tries: u8 },
    /// A request waits for its answer.
    Sent { tid: Tid, until: Instant, tries: u8 },
    /// Nothing is sent any more.
    Ended,
}

/// Outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// The current subnet manager has not received a request.
    Unknown,
    Answered(MadStatus),
    Silent,
}

/// Condition of the subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The subnet manager at this LID forwards the traps.
    Active(Lid),
    /// The subnet manager at this LID refused with this status.
    Refused(Lid, MadStatus),
    /// The subnet manager at this LID did not answer.
    Silent(Lid),
}

impl Subscription {
    /// Creates a subscription that has sent nothing. TIDs count up from the seed.
    pub fn new(pkey_index: u16, seed: u64) -> Self {
        let request = Request {
            state: RequestState::Due {
                at: Instant::ZERO,
                tries: 0,
            },
            outcome: Outcome::Unknown,
            may_exist: false,
        };
        Self {
            local: Local::default(),
            pkey_index,
            requests: [request; TRAPS.len()],
            next_tid: seed as u32,
            replies: VecDeque::new(),
            reports: VecDeque::new(),
            reported: None,
            is_withdrawn: false,
        }
    }

    /// Sets the location of the port. Subscribes again if the subnet manager or the LID of the
    /// port has changed.
    pub fn set_local(&mut self, local: Local, now: Instant) {
        let has_moved = (local.lid, local.sm_lid) != (self.local.lid, self.local.sm_lid);
        self.local = local;
        if has_moved && !self.is_withdrawn {
            self.reported = None;
            self.reports.clear();
            for request in &mut self.requests {
                *request = Request {
                    state: RequestState::Due { at: now, tries: 0 },
                    outcome: Outcome::Unknown,
                    may_exist: false,
                };
            }
        }
    }

    /// Returns the next MAD to send.
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<Target> {
        let Local {
            sm_lid,
            sm_sl,
            is_down,
            ..
        } = self.local;
        if !sm_lid.is_unicast() || is_down {
            return None;
        }
        if let Some(reply) = self.replies.pop_front() {
            *mad = reply;
            return Some(Target::general(
                sm_lid,
                sm_sl,
                self.pkey_index,
                Duration::ZERO,
            ));
        }
        let is_due =
            |request: &Request| matches!(request.state, RequestState::Due { at, .. } if at <= now);
        let (index, request) = self
            .requests
            .iter_mut()
            .enumerate()
            .find(|(_, request)| is_due(request))?;
        let RequestState::Due { tries, .. } = request.state else {
            return None;
        };
        let tid = Tid(self.next_tid);
        self.next_tid = self.next_tid.wrapping_add(1);
        request.state = RequestState::Sent {
            tid,
            until: now + TIMEOUT,
            tries: tries + 1,
        };
        request.may_exist |= !self.is_withdrawn;
        InformInfo {
            trap: TRAPS[index],
            subscribe: !self.is_withdrawn,
        }
        .emit(tid, mad);
        Some(Target::general(sm_lid, sm_sl, self.pkey_index, TIMEOUT))
    }

    /// Handles a MAD received from a LID. Returns the trap of a report, unless the report is a
    /// repetition.
    pub fn handle(&mut self, slid: Lid, mad: &Mad, len: usize, now: Instant) -> Option<Trap> {
        if slid != self.local.sm_lid {
            return None;
        }
        if let Some(trap) = Trap::parse(mad, len) {
            let mut reply = *mad;
            Trap::acknowledge(&mut reply);
            if self.replies.len() < MAX_REPLIES {
                self.replies.push_back(reply);
            }
            return (!self.is_repeated(Report {
                tid: tid_octets(mad),
                trap,
                at: now,
            }))
            .then_some(trap);
        }
        let status = InformInfo::answer(mad, len)?;
        let answered = Header::parse(mad).tid;
        let request = self.requests.iter_mut().find(
            |request| matches!(request.state, RequestState::Sent { tid, .. } if tid == answered),
        )?;
        request.outcome = Outcome::Answered(status);
        if self.is_withdrawn {
            request.state = RequestState::Ended;
        } else {
            request.may_exist = status.is_ok();
            request.state = RequestState::Due {
                at: now + RENEW_EVERY,
                tries: 0,
            };
        }
        None
    }

    /// Returns whether the same report was received before, and remembers it.
    fn is_repeated(&mut self, report: Report) -> bool {
        let is_same = |old: &Report| {
            (old.tid, old.trap) == (report.tid, report.trap) && report.at < old.at + REPEATED_WITHIN
        };
        if self.reports.iter().any(is_same) {
            return true;
        }
        if self.reports.len() == MAX_REPLIES {
            self.reports.pop_front();
        }
        self.reports.push_back(report);
        false
    }

    /// Handles timeouts. Returns the condition if it has changed since the last report.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<Condition> {
        for request in &mut self.requests {
            let RequestState::Sent { until, tries, .. } = request.state else {
                continue;
            };
            if now < until {
                continue;
            }
            request.state = match (tries < TRIES, self.is_withdrawn) {
                (true, _) => RequestState::Due { at: now, tries },
                (false, true) => RequestState::Ended,
                (false, false) => RequestState::Due {
                    at: now + RENEW_EVERY,
                    tries: 0,
                },
            };
            if tries >= TRIES {
                request.outcome = Outcome::Silent;
            }
        }
        let condition = self.condition()?;
        (self.reported.replace(condition) != Some(condition)).then_some(condition)
    }

    /// Returns the condition if every request has an outcome.
    fn condition(&self) -> Option<Condition> {
        let sm_lid = self.local.sm_lid;
        if self.is_withdrawn
            || self
                .requests
                .iter()
                .any(|request| request.outcome == Outcome::Unknown)
        {
            return None;
        }
        let refusal = |request: &Request| match request.outcome {
            Outcome::Answered(status) => Some(status).filter(|status| !status.is_ok()),
            Outcome::Unknown | Outcome::Silent => None,
        };
        let is_silent = self
            .requests
            .iter()
            .any(|request| request.outcome == Outcome::Silent);
        Some(match self.requests.iter().find_map(refusal) {
            Some(status) => Condition::Refused(sm_lid, status),
            None if is_silent => Condition::Silent(sm_lid),
            None => Condition::Active(sm_lid),
        })
    }

    /// Ends the subscription: the next MADs cancel it at the subnet manager.
    pub fn withdraw(&mut self, now: Instant) {
        self.is_withdrawn = true;
        for request in &mut self.requests {
            request.state = if request.may_exist {
                RequestState::Due { at: now, tries: 0 }
            } else {
                RequestState::Ended
            };
        }
    }

    /// Returns whether a withdrawn subscription has ended.
    pub fn has_ended(&self) -> bool {
        self.is_withdrawn
            && self
                .requests
                .iter()
                .all(|request| request.state == RequestState::Ended)
    }
}

/// Returns the whole transaction ID. The subnet manager chose it, so both halves count.
fn tid_octets(mad: &Mad) -> [u8; 8] {
    std::array::from_fn(|index| mad[8 + index])
}

#[cfg(test)]
mod tests;
