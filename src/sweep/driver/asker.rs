//! One request after another to one device, in real time: sends, waits, and sends again what was not answered.
//!
//! A reply counts as it does in a sweep: only if the transaction, the sender, class, method, attribute and port fit. A redirection is followed once and
//! remembered.

use std::time::Duration;

use super::LONGEST_WAIT;
use super::clock::Clock;
use crate::mad::exchange::{Outcome, Target};
use crate::mad::header::MadStatus;
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::query::{BadReply, Query};
use crate::mad::transport::{Transport, TransportError};
use crate::mad::{MAD_LEN, Mad, pma};
use crate::sweep::query::{Client, NoAnswer, Response};
use crate::time::Instant;
use crate::types::{Lid, Tid};

/// Who is asked, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Where the device is.
    pub lid: Lid,
    /// Service level of what is no subnet management.
    pub sl: u8,
    /// P_Key index of it.
    pub pkey_index: u16,
    /// For how long an answer is waited for.
    pub timeout: Duration,
}

/// How often a request is sent at most.
pub const TRIES: u32 = 3;

/// Asks one device over a transport.
pub struct DeviceAsker<T> {
    transport: T,
    address: Address,
    redirect: Option<Redirect>,
    next_tid: u32,
    clock: Clock,
}

/// What became of one MAD.
enum Sent {
    Answered(Instant, Duration),
    /// Another agent answers.
    Redirected(Redirect, Duration),
    Refused(MadStatus, Duration),
    /// It may be sent again.
    InVain(NoAnswer),
}

impl<T: Transport> DeviceAsker<T> {
    /// Has sent nothing yet. TIDs count up from the seed.
    pub fn new(transport: T, address: Address, seed: u64) -> Self {
        Self { transport, address, redirect: None, next_tid: seed as u32, clock: Clock::start() }
    }

    /// Asks the device at another LID from now on.
    pub fn turn_to(&mut self, lid: Lid) {
        (self.address.lid, self.redirect) = (lid, None);
    }

    /// An instant of its answers in nanoseconds since 1970.
    pub fn wall(&self, at: Instant) -> u64 {
        self.clock.wall(at)
    }

    /// Where a request goes: as in a sweep.
    fn target(&self, query: &Query) -> Target {
        let Address { lid, sl, pkey_index, timeout } = self.address;
        let general = Target::general(lid, sl, pkey_index, timeout);
        match (query, self.redirect) {
            (Query::Smp(_), _) => Target::subnet_management(lid, timeout),
            (Query::Pma(_), Some(redirect)) => {
                // A queue pair that is not told is the well-known one.
                let qp = if redirect.qp == 0 { general.qp } else { redirect.qp };
                Target { lid: redirect.lid, qp, qkey: redirect.qkey, sl: redirect.sl, ..general }
            }
            _ => general,
        }
    }

    /// Sends one MAD and waits for what comes of it.
    fn send(&mut self, query: &Query, mad: &mut Mad) -> Result<Sent, TransportError> {
        let (target, tid) = (self.target(query), Tid(self.next_tid));
        self.next_tid = self.next_tid.wrapping_add(1);
        query.emit(tid, mad);
        let sent = self.clock.now();
        tracing::trace!(%tid, lid = %target.lid, "send");
        if let Err(error) = self.transport.send(&target, mad, sent) {
            tracing::debug!(%error, lid = %target.lid, "not sent");
            return Ok(Sent::InVain(NoAnswer::NotSent(error.errno())));
        }
        let deadline = sent + self.address.timeout;
        let mut why = NoAnswer::Silent;
        loop {
            let now = self.clock.now();
            let Some(completion) = self.transport.recv(mad, (deadline - now).min(LONGEST_WAIT), now)? else {
                // What is ready is read before anything is given up.
                if now >= deadline {
                    return Ok(Sent::InVain(why));
                }
                continue;
            };
            // What is about another MAD is a stranger's, or comes too late.
            if completion.tid != tid {
                continue;
            }
            tracing::trace!(%tid, outcome = ?completion.outcome, "completion");
            let (slid, len) = match completion.outcome {
                Outcome::Reply { slid, len } => (slid, len),
                Outcome::TimedOut => return Ok(Sent::InVain(why)),
                Outcome::SendFailed(errno) => return Ok(Sent::InVain(NoAnswer::NotSent(errno))),
                Outcome::NoAgent => return Ok(Sent::InVain(NoAnswer::NotSent(TransportError::no_agent().errno()))),
            };
            if slid != target.lid {
                continue;
            }
            let now = self.clock.now();
            match query.check(mad, len) {
                Ok(()) => return Ok(Sent::Answered(now, now - sent)),
                // The time that is left is what it is given before it is asked again.
                Err(BadReply::Status(status @ MadStatus::BUSY)) => why = NoAnswer::Refused(status),
                Err(BadReply::Status(status)) => {
                    let to = self.redirection(query, status, mad);
                    return Ok(to.map_or(Sent::Refused(status, now - sent), |to| Sent::Redirected(to, now - sent)));
                }
                Err(bad) => why = NoAnswer::BadReply(bad),
            }
        }
    }

    /// Who is to be asked in the agent's place, the first time that it says so.
    fn redirection(&self, query: &Query, status: MadStatus, mad: &Mad) -> Option<Redirect> {
        let is_new = status.is_redirect() && matches!(query, Query::Pma(_)) && self.redirect.is_none();
        Redirect::parse(pma::data(mad)).filter(|_| is_new)
    }
}

impl<T: Transport> Client for DeviceAsker<T> {
    type Error = TransportError;

    fn request(&mut self, query: &Query) -> Result<Response, TransportError> {
        let mut mad: Mad = [0; MAD_LEN];
        let mut heard = Response { mads: 0, rtt: Duration::ZERO, answer: Err(NoAnswer::Silent) };
        let mut tries = 0;
        while tries < TRIES {
            tries += 1;
            heard.mads += 1;
            match self.send(query, &mut mad)? {
                Sent::Answered(at, rtt) => {
                    (heard.rtt, heard.answer) = (heard.rtt + rtt, Ok((at, *pma::data(&mad))));
                    return Ok(heard);
                }
                Sent::Redirected(to, rtt) => {
                    tracing::info!(lid = %self.address.lid, to = %to.lid, "another agent answers for its performance management");
                    (self.redirect, tries, heard.rtt) = (Some(to), 0, heard.rtt + rtt);
                }
                Sent::Refused(status, rtt) => {
                    (heard.rtt, heard.answer) = (heard.rtt + rtt, Err(NoAnswer::Refused(status)));
                    return Ok(heard);
                }
                Sent::InVain(why) => {
                    heard.mads -= u32::from(matches!(why, NoAnswer::NotSent(_)));
                    heard.answer = Err(why);
                }
            }
        }
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::mad::exchange::{Completion, Local, QP1_QKEY};
    use crate::mad::header::{Header, METHOD_GET_RESP};
    use crate::mad::pma::data_mut;
    use crate::types::PortNum;

    const LID: Lid = Lid(7);
    const QUERY: Query = Query::Pma(pma::Query { attribute: 0x12, port: Some(PortNum(1)) });

    /// What comes after a MAD was sent.
    type Coming = fn(&Target, &Mad) -> Vec<(Completion, Mad)>;

    /// Answers each MAD by the next entry of a script; afterwards nothing comes any more.
    struct Script {
        script: VecDeque<Coming>,
        coming: VecDeque<(Completion, Mad)>,
        sent: Vec<Target>,
    }

    impl Transport for Script {
        fn send(&mut self, target: &Target, mad: &Mad, _now: Instant) -> Result<(), TransportError> {
            if target.sl == 15 {
                return Err(TransportError::new("umad_send", 22));
            }
            self.sent.push(*target);
            self.coming.extend(self.script.pop_front().map(|coming| coming(target, mad)).unwrap_or_default());
            Ok(())
        }

        fn recv(&mut self, mad: &mut Mad, wait: Duration, _now: Instant) -> Result<Option<Completion>, TransportError> {
            let Some((completion, reply)) = self.coming.pop_front() else {
                std::thread::park_timeout(wait);
                return Ok(None);
            };
            *mad = reply;
            Ok(Some(completion))
        }

        fn local(&mut self) -> Option<Local> {
            None
        }
    }

    fn asker(script: &[Coming]) -> DeviceAsker<Script> {
        let transport = Script { script: script.iter().copied().collect(), coming: VecDeque::new(), sent: Vec::new() };
        let address = Address { lid: LID, sl: 0, pkey_index: 0, timeout: Duration::from_millis(5) };
        DeviceAsker::new(transport, address, u64::MAX)
    }

    /// The reply of whoever was asked, and when it is changed so, of somebody else.
    fn reply(target: &Target, request: &Mad, change: impl FnOnce(&mut Completion, &mut Mad)) -> (Completion, Mad) {
        let mut mad = *request;
        mad[3] = METHOD_GET_RESP;
        let mut completion = Completion { tid: Header::parse(request).tid, outcome: Outcome::Reply { slid: target.lid, len: MAD_LEN } };
        change(&mut completion, &mut mad);
        (completion, mad)
    }

    const GOOD: Coming = |target, mad| vec![reply(target, mad, |_, mad| mad[100] = 9)];
    const NOTHING: Coming = |_, _| Vec::new();
    const TIMED_OUT: Coming = |target, mad| vec![reply(target, mad, |completion, _| completion.outcome = Outcome::TimedOut)];

    fn heard(script: &[Coming]) -> (Response, Vec<Target>) {
        let mut asker = asker(script);
        let heard = asker.request(&QUERY).expect("the way is there");
        (heard, asker.transport.sent)
    }

    #[test]
    fn what_was_not_answered_is_asked_three_times() {
        let (heard, sent) = heard(&[NOTHING, TIMED_OUT, GOOD]);
        let (_, data) = heard.answer.expect("the third is answered");
        assert_eq!((data[100 - 64], heard.mads, sent.len()), (9, 3, 3));
        let (heard, sent) = self::heard(&[NOTHING, TIMED_OUT, NOTHING, GOOD]);
        assert_eq!((heard.answer.err(), heard.mads, sent.len()), (Some(NoAnswer::Silent), 3, 3));
    }

    #[test]
    fn only_the_device_s_own_reply_to_this_mad_counts() {
        let (heard, _) = heard(&[|target, mad| {
            vec![
                reply(target, mad, |completion, _| completion.tid = Tid(completion.tid.0.wrapping_sub(1))),
                reply(target, mad, |completion, _| completion.outcome = Outcome::Reply { slid: Lid(8), len: MAD_LEN }),
                reply(target, mad, |_, mad| mad[100] = 9),
            ]
        }]);
        assert_eq!((heard.answer.map(|(_, data)| data[100 - 64]), heard.mads), (Ok(9), 1));
    }

    #[test]
    fn what_does_not_fit_is_told_if_nothing_better_comes() {
        const OTHER_PORT: Coming = |target, mad| vec![reply(target, mad, |_, mad| mad[65] = 2)];
        let (heard, _) = heard(&[OTHER_PORT, OTHER_PORT, OTHER_PORT]);
        assert_eq!((heard.answer.err(), heard.mads), (Some(NoAnswer::BadReply(BadReply::PortSelect(2))), 3));
        let (heard, _) = self::heard(&[OTHER_PORT, GOOD]);
        assert!(heard.answer.is_ok());
    }

    #[test]
    fn a_refusal_is_final_but_that_of_a_busy_agent() {
        let (heard, sent) = heard(&[|target, mad| vec![reply(target, mad, |_, mad| mad[5] = 0x0c)], GOOD]);
        assert_eq!((heard.answer.err(), sent.len()), (Some(NoAnswer::Refused(MadStatus::UNSUPPORTED_ATTRIBUTE)), 1));
        let (heard, sent) = self::heard(&[|target, mad| vec![reply(target, mad, |_, mad| mad[5] = 1)], GOOD]);
        assert_eq!((heard.answer.is_ok(), sent.len()), (true, 2));
    }

    #[test]
    fn a_redirection_is_followed_once_and_remembered() {
        const AWAY: Coming = |target, mad| {
            vec![reply(target, mad, |_, mad| {
                mad[5] = 2;
                Redirect { lid: Lid(9), qp: 0, qkey: QP1_QKEY, sl: 3, pkey: 0xffff }.emit(data_mut(mad));
            })]
        };
        let mut asker = asker(&[AWAY, GOOD, GOOD, AWAY]);
        for mads in [2, 1] {
            let heard = asker.request(&QUERY).expect("the way is there");
            assert_eq!((heard.answer.is_ok(), heard.mads), (true, mads));
        }
        let heard = asker.request(&QUERY).expect("the way is there");
        assert_eq!(heard.answer.err(), Some(NoAnswer::Refused(MadStatus::REDIRECT)), "never in a circle");
        let lids: Vec<_> = asker.transport.sent.iter().map(|target| (target.lid.0, target.qp, target.sl)).collect();
        assert_eq!(lids, [(7, 1, 0), (9, 1, 3), (9, 1, 3), (9, 1, 3)]);
        // Who the device is, it is asked itself.
        let identity = Query::Smp(crate::mad::smp::Query { attribute: 0x11, port: PortNum(0) });
        assert_eq!((asker.target(&identity).lid, asker.target(&identity).qp), (LID, 0));
    }

    #[test]
    fn what_cannot_be_sent_is_told_with_its_errno() {
        let mut asker = asker(&[]);
        asker.address.sl = 15;
        let heard = asker.request(&QUERY).expect("the way is there");
        assert_eq!((heard.answer.err(), heard.mads), (Some(NoAnswer::NotSent(22)), 0));
    }
}
