//! Checks each reply against its request and uses its data.

use std::time::Duration;

use ibnet_record::attributes::Group;
use ibnet_record::types::{Lid, Tid};

use super::groups::Learned;
use super::{Engine, Event, Key};
use crate::mad::Mad;
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, Capabilities, Data, Sampling};
use crate::mad::query::{BadReply, Query};
use crate::mad::sa::PathRecord;
use crate::sweep::inflight::{PastTid, Purpose, Transaction};
use crate::sweep::sample::Answer;
use crate::time::Instant;

impl Engine {
    /// Checks a reply against its request and evaluates it.
    pub(super) fn handle_reply(
        &mut self,
        tid: Tid,
        slid: Lid,
        mad: &Mad,
        len: usize,
        now: Instant,
    ) {
        let Some(transaction) = self.inflight.find(tid).copied() else {
            match self.inflight.past(tid) {
                PastTid::Answered => self.stats.rejected.duplicate += 1,
                PastTid::GivenUp => self.stats.mads_late += 1,
                PastTid::Unknown => self.stats.rejected.foreign += 1,
            }
            return;
        };
        // A request by a directed route is not sent to the LID of the device at its end.
        let is_by_route = matches!(transaction.query, Query::Directed(_));
        if slid != transaction.lid && !is_by_route {
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
        self.inflight.answer(tid);
        if let Purpose::Peer { port } = transaction.purpose {
            self.stats.mads_late += u64::from(transaction.expired);
            self.take_peer(&transaction, port, answer.map(|()| pma::data(mad)), now);
        } else if transaction.purpose == Purpose::Physical {
            self.take_physical_reply(&transaction, answer, mad, now);
        } else if let Purpose::Forwarding { switch } = transaction.purpose {
            self.take_forwarding_reply(&transaction, switch, answer.map(|()| pma::data(mad)), now);
        } else if transaction.purpose == Purpose::SubnetManager {
            self.stats.ended = self.stats.ended.max(now);
            self.take_sm_info(transaction.device, answer.map(|()| pma::data(mad)));
        } else if transaction.purpose == Purpose::Path {
            self.manager.answer(transaction.expired);
            if answer == Err(MadStatus::BUSY) {
                return self.path_query_failed(transaction.device, now);
            }
            self.take_path(
                transaction.device,
                answer.ok().map(|()| PathRecord::parse(mad)),
                now,
            );
        } else {
            self.answered(&transaction, answer, mad, now);
        }
    }

    /// Evaluates a valid reply of a device: the attribute, or the status with which the agent
    /// refused the request.
    fn answered(
        &mut self,
        transaction: &Transaction,
        answer: Result<(), MadStatus>,
        mad: &Mad,
        now: Instant,
    ) {
        let index = transaction.device;
        let rtt = now - transaction.sent;
        let by_agent = transaction.query.is_to_agent();
        if by_agent {
            self.stats
                .rtt
                .record(self.devices[index as usize].kind, rtt);
        }
        self.stats.mads_late += u64::from(transaction.expired || rtt > self.config.timeout);
        self.stats.ended = self.stats.ended.max(now);
        let device = &mut self.devices[index as usize];
        let may_go_on = device.flight.answer(transaction.expired);
        let is_by_route = matches!(transaction.query, Query::Directed(_));
        if transaction.generation != device.generation
            || is_by_route && !device.way.has_sent(&transaction.query)
        {
            // The request went to an earlier LID or route, or its replies are no longer used.
            if may_go_on {
                self.ready.push_front(index);
            }
            return self.settle_discovery(index);
        }
        device.reachability.answer(by_agent);
        if by_agent {
            device.service.add(rtt);
        }
        let redirected = by_agent
            && answer.is_err_and(MadStatus::is_redirect)
            && self.follow_redirect(transaction, mad);
        let data = answer.map(|()| pma::data(mad));
        match transaction.purpose {
            // The request is now sent to another agent.
            Purpose::Counters { port, .. } | Purpose::Clear { port, .. } if redirected => {
                self.ports[port as usize].slot.add_round_trip(rtt);
                if !self.is_requesting() {
                    self.drop_repeat(index, now);
                }
            }
            _ if redirected => {}
            Purpose::Counters { port, group } => {
                self.take_counters(transaction, (port, group), data, rtt, now);
            }
            Purpose::Clear { port, of, read } => {
                self.take_clear(transaction, (port, of, read), data, rtt, now);
            }
            Purpose::Capabilities => self.take_capabilities(index, data),
            Purpose::Sampling => self.take_sampling(index, data),
            Purpose::Probe { group } => self.take_probe(index, group, data),
            Purpose::Identity => self.take_identity(index, data, now),
            Purpose::Lid => self.take_lid(index, data, now),
            Purpose::SwitchMask => self.take_switch_mask(index, data),
            Purpose::Link { port } => self.take_link((port, transaction.sent), data, now),
            Purpose::StateTable { block } => self.take_state_table(index, block, data, now),
            Purpose::Fec { port } => self.take_fec(port, data),
            Purpose::Peer { .. }
            | Purpose::Path
            | Purpose::SubnetManager
            | Purpose::Physical
            | Purpose::Forwarding { .. } => {}
        }
        let device = &self.devices[index as usize];
        if may_go_on || device.progress.repeat.is_some() && !device.flight.is_suspended() {
            // The next request goes to the same device, so that the device with the longest
            // service time is never delayed.
            self.ready.push_front(index);
        }
        self.settle_discovery(index);
    }

    /// Follows a redirection and stores it, unless it is the second one. Returns whether the
    /// request is sent again.
    fn follow_redirect(&mut self, transaction: &Transaction, mad: &Mad) -> bool {
        let device = &mut self.devices[transaction.device as usize];
        if device.path.redirect.is_some() {
            return false;
        }
        let Some(redirect) = pma::class_port_info::Redirect::parse(pma::data(mad)) else {
            return false;
        };
        device.path.redirect = Some(redirect);
        device.progress.repeat = Some((transaction.query, transaction.purpose));
        let unserved_pkey = if self.config.index_of_pkey(redirect.pkey).is_some() {
            None
        } else {
            Some(redirect.pkey)
        };
        self.events.push_back(Event::Redirected {
            device: transaction.device as usize,
            to: redirect.lid,
            unserved_pkey,
        });
        true
    }

    fn take_capabilities(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(data) => groups.learn(Capabilities::parse(data), &self.config.groups),
            Err(status) if status.is_unsupported() => groups.capabilities = Learned::Refused,
            // For another status, such as "busy", the request is sent again.
            Err(_) => {}
        }
    }

    fn take_sampling(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(data) => groups.learn_sampling(Sampling::parse(data), &self.config.groups),
            Err(status) if status.is_unsupported() => groups.tick = Learned::Refused,
            Err(_) => {}
        }
    }

    fn take_probe(&mut self, index: u32, group: u8, answer: Result<&Data, MadStatus>) {
        let groups = &mut self.devices[index as usize].groups;
        match answer {
            Ok(_) => groups.take_answer(group),
            Err(status) if status.is_unsupported() => self.refuse(index, group),
            Err(_) => {}
        }
    }

    fn refuse(&mut self, index: u32, group: u8) {
        if self.devices[index as usize].groups.refuse(group) {
            self.report_unsupported(index, group);
        }
    }

    pub(super) fn report_unsupported(&mut self, index: u32, group: u8) {
        let (device, group) = (index as usize, self.config.groups[usize::from(group)]);
        self.events
            .push_back(Event::GroupUnsupported { device, group });
    }

    /// Reports that an agent probably requires a PM_Key: its capabilities include such a key, and
    /// it has answered no counters.
    pub(super) fn suspect_pm_key(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        let can_require = device
            .groups
            .capabilities
            .known()
            .is_some_and(|known| known.mask2 & Capabilities::PM_KEY != 0);
        if can_require && device.groups.has_no_answers() && device.keys.first(Key::Pm) {
            self.events.push_back(Event::KeyDemanded {
                device: index as usize,
                key: Key::Pm,
            });
        }
    }

    fn take_counters(
        &mut self,
        transaction: &Transaction,
        (port, group): (u32, u8),
        answer: Result<&Data, MadStatus>,
        rtt: Duration,
        now: Instant,
    ) {
        let progress = &mut self.ports[port as usize].slot;
        progress.add_round_trip(rtt);
        progress.at = Some(now);
        progress.close_one();
        // The time of receipt decides, because a reply may wait in the transport while the timeout
        // passes.
        progress.late |= transaction.expired || rtt > self.config.timeout;
        match answer {
            Ok(data) => {
                self.devices[transaction.device as usize]
                    .groups
                    .take_answer(group);
                self.last_reads.record(port, group, transaction.generation);
                let place = port as usize * self.config.groups.len() + usize::from(group);
                self.answers[place] = Answer {
                    at: Some(now),
                    data: *data,
                };
                self.clear_after(transaction, (port, group), data);
            }
            // PortCounters are mandatory (IBA vol. 1, 16.1.3.5), so an agent that refuses them is
            // not ready yet.
            Err(status)
                if status.is_unsupported()
                    && self.config.groups[usize::from(group)] != Group::Base =>
            {
                self.refuse(transaction.device, group);
            }
            Err(status) => {
                progress.mad_status = Some(status);
                self.suspect_pm_key(transaction.device);
            }
        }
        self.settle_if_complete(port, now);
    }
}
