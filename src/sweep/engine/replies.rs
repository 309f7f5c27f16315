//! What a reply means.

use std::time::Duration;

use super::groups::Known;
use super::{Engine, Event, Key};
use crate::mad::Mad;
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, Capabilities, Data, Group, Sampling};
use crate::mad::query::{BadReply, Query};
use crate::sweep::inflight::{Past, Purpose, Transaction};
use crate::sweep::sample::Answer;
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
        if slid != transaction.lid {
            self.stats.rejected.foreign += 1;
            return;
        }
        let answer = match transaction.query.check(mad, len) {
            Ok(()) => Ok(()),
            Err(BadReply::Status(status)) => Err(status),
            Err(bad) => {
                self.stats.rejected.count(bad);
                if let Purpose::Counters { port, .. } = transaction.purpose {
                    self.ports[port as usize].slot.bad_reply = true;
                }
                return;
            }
        };
        self.stats.mads_refused += u64::from(answer.is_err());
        if transaction.purpose == Purpose::Path {
            self.inflight.answer(tid);
            self.take_path(transaction.device, Self::path_of(answer, mad), now);
            return;
        }
        self.answered(tid, &transaction, answer, mad, now);
    }

    /// A reply that counts: the attribute, or the status with which the agent refused it.
    fn answered(&mut self, tid: Tid, transaction: &Transaction, answer: Result<(), MadStatus>, mad: &Mad, now: Instant) {
        self.inflight.answer(tid);
        let index = transaction.device;
        let rtt = now - transaction.sent;
        let by_agent = matches!(transaction.query, Query::Pma(_));
        if by_agent {
            self.stats.rtt.record(self.devices[index as usize].kind, rtt);
        }
        self.stats.mads_late += u64::from(transaction.expired || rtt > self.config.deadline);
        self.stats.ended = self.stats.ended.max(now);
        let device = &mut self.devices[index as usize];
        let is_its_own = transaction.life == device.life;
        (device.silent, device.answered) = (0, device.answered || is_its_own);
        if is_its_own && by_agent {
            (device.agent_answered, device.unanswered) = (true, 0);
            device.measure(rtt);
        }
        device.in_grace -= u16::from(transaction.expired);
        // It asked one after another: what was sent before this one is not queued there any more, but lost.
        device.lost = if transaction.expired { device.lost.min(device.in_grace) } else { device.in_grace };
        device.outstanding &= transaction.expired;
        let was_suspended = std::mem::take(&mut device.suspended);
        if !is_its_own {
            // It was asked of another, who is not who answers now.
            if was_suspended || !transaction.expired {
                self.ready.push_front(index);
            }
            return self.settle_discovery(index);
        }
        let redirected = answer.is_err_and(MadStatus::is_redirect) && by_agent && self.follow(transaction, mad);
        let data = answer.map(|()| pma::data(mad));
        match transaction.purpose {
            // It is asked again, of another.
            Purpose::Counters { port, .. } if redirected => {
                self.ports[port as usize].slot.rtt += rtt;
                if !self.is_asking() {
                    self.drop_again(index, now);
                }
            }
            _ if redirected => {}
            Purpose::Counters { port, group } => self.take_counters(transaction, port, group, data, rtt, now),
            Purpose::Capabilities => self.take_capabilities(index, data),
            Purpose::Sampling => self.take_sampling(index, data),
            Purpose::Probe { group } => self.take_probe(index, group, data),
            Purpose::Identity => self.take_identity(index, data, now),
            Purpose::Switch => self.take_switch(index, data),
            Purpose::Link { port } => self.take_link(port, data),
            Purpose::Fec { port } => self.take_fec(port, data),
            Purpose::Path => {}
        }
        let device = &self.devices[index as usize];
        if was_suspended || !transaction.expired || device.again.is_some() && !device.suspended {
            // It goes on at once, so that the longest stays ahead.
            self.ready.push_front(index);
        }
        self.settle_discovery(index);
    }

    fn take_capabilities(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(data) => groups.learn(Capabilities::parse(data), &self.config.groups),
            Err(status) if status.is_unsupported() => groups.capabilities = Known::Refused,
            // Busy, say: it is asked again.
            Err(_) => {}
        }
    }

    fn take_sampling(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(data) => groups.learn_sampling(Sampling::parse(data), &self.config.groups),
            Err(status) if status.is_unsupported() => groups.tick = Known::Refused,
            Err(_) => {}
        }
    }

    fn take_probe(&mut self, index: u32, group: u8, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(_) => groups.answered(group),
            Err(status) if status.is_unsupported() => self.refuse(index, group),
            Err(_) => {}
        }
    }

    fn refuse(&mut self, index: u32, place: u8) {
        if self.devices[index as usize].groups.refuse(place) {
            self.tell_unsupported(index, place);
        }
    }

    pub(super) fn tell_unsupported(&mut self, index: u32, place: u8) {
        let (device, group) = (index as usize, self.config.groups[usize::from(place)]);
        self.events.push_back(Event::GroupUnsupported { device, group });
    }

    /// An agent that can demand a PM_Key, and gives no counters without one.
    pub(super) fn doubt_pm_key(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        let can = device.groups.capabilities.known().is_some_and(|known| known.mask2 & Capabilities::PM_KEY != 0);
        if can && device.groups.answers == 0 && !std::mem::replace(&mut device.pm_key_told, true) {
            self.events.push_back(Event::KeyDemanded { device: index as usize, key: Key::Pm });
        }
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
        let state = &mut self.ports[port as usize].slot;
        (state.rtt, state.at, state.open) = (state.rtt + rtt, Some(now), state.open.saturating_sub(1));
        // By when it was received: it may lie there ready while the deadline passes.
        state.late |= transaction.expired || rtt > self.config.deadline;
        match answer {
            Ok(data) => {
                self.devices[transaction.device as usize].groups.answered(group);
                let place = port as usize * self.config.groups.len() + usize::from(group);
                self.answers[place] = Answer { at: Some(now), data: *data };
            }
            // PortCounters are mandatory: an agent that says otherwise is not ready yet.
            Err(status) if status.is_unsupported() && self.config.groups[usize::from(group)] != Group::Base => {
                self.refuse(transaction.device, group);
            }
            Err(status) => {
                state.mad_status = Some(status);
                self.doubt_pm_key(transaction.device);
            }
        }
        self.settle_if_complete(port, now);
    }
}
