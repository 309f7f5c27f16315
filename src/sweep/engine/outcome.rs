//! What becomes of a MAD: answered, expired, given up, or never sent.

use std::time::Duration;

use super::state::Known;
use super::{Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::header::MadStatus;
use crate::mad::pma::{BadReply, Capabilities, Data, Group};
use crate::sweep::inflight::{Past, Purpose, Transaction};
use crate::sweep::sample::{Answer, Status};
use crate::time::Instant;
use crate::types::{Lid, Tid};

impl Engine {
    pub(super) fn handle_reply(&mut self, tid: Tid, slid: Lid, mad: &Mad, len: usize, now: Instant) {
        let Some(transaction) = self.inflight.find(tid).copied() else {
            match self.inflight.past(tid) {
                Past::Answered => self.stats.rejected.duplicate += 1,
                Past::GivenUp => self.stats.mads_late += 1,
                Past::Stranger => self.stats.rejected.foreign += 1,
            }
            return;
        };
        if slid != self.devices[transaction.device as usize].lid {
            self.stats.rejected.foreign += 1;
            return;
        }
        match transaction.query.answer(mad, len) {
            Ok(data) => self.answered(tid, &transaction, Ok(data), now),
            Err(BadReply::Status(status)) => self.answered(tid, &transaction, Err(status), now),
            Err(_) => {
                self.stats.rejected.malformed += 1;
                if let Purpose::Counters { port, .. } = transaction.purpose {
                    self.ports[port as usize].bad_reply = true;
                }
            }
        }
    }

    /// A reply that counts: the attribute, or the status with which the agent refused it.
    fn answered(&mut self, tid: Tid, transaction: &Transaction, answer: Result<&Data, MadStatus>, now: Instant) {
        self.inflight.answer(tid);
        let rtt = now - transaction.sent;
        self.stats.rtt.record(self.devices[transaction.device as usize].kind, rtt);
        self.stats.mads_late += u64::from(transaction.expired || rtt > self.config.deadline);
        self.stats.ended = self.stats.ended.max(now);
        let device = &mut self.devices[transaction.device as usize];
        (device.silent, device.answered) = (0, true);
        device.in_grace -= u16::from(transaction.expired);
        device.outstanding &= transaction.expired;
        let was_suspended = std::mem::take(&mut device.suspended);
        match transaction.purpose {
            Purpose::Capabilities => match answer {
                Ok(data) => device.learn(Capabilities::parse(data), &self.config.groups),
                Err(status) if status.is_unsupported() => device.capabilities = Known::Refused,
                // Busy, say: it is asked again.
                Err(_) => {}
            },
            Purpose::Counters { port, group } => self.take_counters(transaction, port, group, answer, rtt, now),
        }
        if was_suspended || !transaction.expired {
            // It goes on at once, so that the longest stays ahead.
            self.ready.push_front(transaction.device);
        }
        self.settle_discovery(transaction.device);
    }

    fn take_counters(
        &mut self,
        transaction: &Transaction,
        port: u32,
        group: u8,
        answer: Result<&Data, MadStatus>,
        rtt: Duration,
        now: Instant,
    ) {
        let state = &mut self.ports[port as usize];
        (state.rtt, state.at, state.open) = (state.rtt + rtt, Some(now), state.open - 1);
        // By when it was received: it may lie there ready while the deadline passes.
        state.late |= transaction.expired || rtt > self.config.deadline;
        match answer {
            Ok(data) => {
                self.devices[transaction.device as usize].answers |= 1 << group;
                let place = port as usize * self.config.groups.len() + usize::from(group);
                self.answers[place] = Answer { at: Some(now), data: *data };
            }
            // PortCounters are mandatory: an agent that says otherwise is not ready yet.
            Err(status) if status.is_unsupported() && self.config.groups[usize::from(group)] != Group::Base => {
                self.devices[transaction.device as usize].unsupported |= 1 << group;
                let (device, group) = (transaction.device as usize, self.config.groups[usize::from(group)]);
                self.events.push_back(Event::GroupUnsupported { device, group });
            }
            Err(status) => state.mad_status = Some(status),
        }
        self.settle_if_complete(port, now);
    }

    /// A deadline has passed at `at`: the place is free, the reply still counts.
    pub(super) fn expired(&mut self, transaction: &Transaction, at: Instant) {
        self.stats.ended = self.stats.ended.max(at);
        let silence = self.config.silence;
        let device = &mut self.devices[transaction.device as usize];
        device.in_grace += 1;
        (device.silent, device.expired, device.outstanding) = (device.silent.saturating_add(1), true, false);
        device.suspended = matches!(self.phase, Phase::Slot { .. }) && (device.silent >= silence || device.in_grace >= u16::from(silence));
        if !device.suspended {
            // The others do not wait for one that is slow to answer.
            self.ready.push_back(transaction.device);
        }
        self.skip_groups(transaction, at);
    }

    /// The other groups of a port are not asked for, if any is left.
    fn skip_groups(&mut self, transaction: &Transaction, now: Instant) {
        if let Purpose::Counters { port, .. } = transaction.purpose
            && self.devices[transaction.device as usize].current() == Some(port)
        {
            self.end_of_port(transaction.device, now);
        }
    }

    /// The grace has ended too.
    pub(super) fn given_up(&mut self, transaction: &Transaction, now: Instant) {
        let device = &mut self.devices[transaction.device as usize];
        device.in_grace -= 1;
        if let Purpose::Counters { group, .. } = transaction.purpose
            && self.config.groups[usize::from(group)] != Group::Base
            && device.give_up_group(group, now)
        {
            let (device, group) = (transaction.device as usize, self.config.groups[usize::from(group)]);
            self.events.push_back(Event::GroupUnsupported { device, group });
        }
        let device = &self.devices[transaction.device as usize];
        let condemned = device.suspended && device.silent >= self.config.silence && device.in_grace == 0;
        let resumed = device.suspended && device.silent < self.config.silence;
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let state = &mut self.ports[port as usize];
            (state.lost, state.open) = (true, state.open - 1);
            self.settle_if_complete(port, now);
        }
        if condemned {
            self.leave_ports(transaction.device, Status::Unreachable, now);
        } else if resumed {
            self.devices[transaction.device as usize].suspended = false;
            self.ready.push_back(transaction.device);
        }
        self.settle_discovery(transaction.device);
    }

    /// It never left this host.
    pub(super) fn not_sent(&mut self, transaction: &Transaction, errno: i32, now: Instant) {
        self.stats.mads_sent -= 1;
        self.stats.send_errors += 1;
        self.devices[transaction.device as usize].outstanding = false;
        self.skip_groups(transaction, now);
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let state = &mut self.ports[port as usize];
            (state.send_failed, state.mads, state.open) = (Some(errno), state.mads - 1, state.open - 1);
            self.settle_if_complete(port, now);
        }
        self.ready.push_back(transaction.device);
        self.settle_discovery(transaction.device);
    }
}
