//! Handles requests without a reply: the timeout has passed, the grace period has ended, the
//! request could not be sent, or the transport was lost.

use ibnet_record::Status;
use ibnet_record::attributes::Group;
use ibnet_record::types::Tid;

use super::state::{AfterGrace, SendError};
use super::{Engine, Phase};
use crate::mad::query::Query;
use crate::sweep::inflight::{Purpose, Transaction};
use crate::time::Instant;

impl Engine {
    /// Handles a request whose timeout passed at `at`. The request frees its place in the window,
    /// but a reply still counts.
    pub(super) fn expired(&mut self, transaction: &Transaction, at: Instant) {
        if transaction.purpose == Purpose::Path {
            return self.manager.expire();
        }
        if matches!(transaction.purpose, Purpose::Peer { .. }) {
            return;
        }
        if matches!(
            transaction.purpose,
            Purpose::SubnetManager | Purpose::Physical | Purpose::Forwarding { .. }
        ) {
            return;
        }
        self.stats.ended = self.stats.ended.max(at);
        let device = &mut self.devices[transaction.device as usize];
        // A device may ignore optional requests, for example SMPs without its M_Key. They count
        // while the device has answered nothing, but the device is given up only after a request
        // that it must answer.
        let must_answer = matches!(
            transaction.purpose,
            Purpose::Counters { .. } | Purpose::Capabilities
        );
        let counts = must_answer
            || !device.reachability.has_answered()
                && !device.flight.one_before(self.config.silence);
        device.reachability.expire(must_answer);
        if device.flight.expire(counts, self.config.silence) {
            // The device goes to the end of the queue, so that a slow device does not delay the
            // others.
            self.ready.push_back(transaction.device);
        }
        if let Purpose::StateTable { block } = transaction.purpose {
            device.state_table.expire(block);
        }
        if let Purpose::Clear { port, .. } = transaction.purpose {
            self.ports[port as usize].slot.close_one();
            self.settle_if_complete(port, at);
        }
        self.skip_groups(transaction, at);
    }

    fn skip_groups(&mut self, transaction: &Transaction, now: Instant) {
        if let Purpose::Counters { port, .. } = transaction.purpose
            && self.devices[transaction.device as usize].current_port() == Some(port)
        {
            self.end_port(transaction.device, now);
        }
    }

    /// Handles the end of the grace period of a request.
    pub(super) fn given_up(&mut self, transaction: &Transaction, now: Instant) {
        let index = transaction.device;
        if transaction.purpose == Purpose::Path {
            return self.path_query_lost(index, transaction.lid, now);
        }
        if let Purpose::Peer { port } = transaction.purpose {
            return self.peer_failed(port);
        }
        if transaction.purpose == Purpose::SubnetManager {
            return self.manager_failed(index);
        }
        if transaction.purpose == Purpose::Physical {
            return self.physical_failed(transaction, now);
        }
        if let Purpose::Forwarding { switch } = transaction.purpose {
            self.suspect_route(transaction);
            return self.forwarding_failed(switch, now);
        }
        let after = self.devices[index as usize]
            .flight
            .end_grace(self.config.silence);
        self.unanswered(transaction, now);
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let progress = &mut self.ports[port as usize].slot;
            progress.lost = true;
            progress.close_one();
            self.settle_if_complete(port, now);
        }
        match after {
            AfterGrace::Unchanged => {}
            AfterGrace::Resumed => self.ready.push_back(index),
            AfterGrace::GivenUp => {
                if matches!(self.phase, Phase::Slot { .. }) {
                    self.leave_ports(index, Status::Unreachable, now);
                }
                self.devices[index as usize].progress.passes = 0;
            }
        }
        self.settle_discovery(index);
    }

    /// Evaluates a request without a reply according to its purpose.
    pub(super) fn unanswered(&mut self, transaction: &Transaction, now: Instant) {
        if let Purpose::Peer { port } = transaction.purpose {
            return self.peer_failed(port);
        }
        let index = transaction.device;
        if transaction.purpose == Purpose::SubnetManager {
            return self.manager_failed(index);
        }
        let device = &mut self.devices[index as usize];
        if transaction.generation != device.generation {
            return;
        }
        // Replies of subnet management do not show that the agent works.
        let answers = device.reachability.has_agent_answered();
        match transaction.purpose {
            Purpose::Counters { group, .. } => {
                let is_optional = self.config.groups[usize::from(group)] != Group::Base;
                if is_optional && device.groups.fail(group, answers, now) {
                    self.report_unsupported(index, group);
                }
                if self.devices[index as usize].reachability.has_answered() {
                    self.suspect_pm_key(index);
                }
            }
            Purpose::Probe { group } if device.groups.fail_probe(group, answers, now) => {
                self.report_unsupported(index, group);
            }
            Purpose::Clear { .. } => self.clear_failed(index, 1),
            // A request that was sent before the last change of the way says nothing about this
            // one.
            Purpose::Identity | Purpose::Lid if device.way.has_sent(&transaction.query) => {
                // The end of a slot shows nothing about a route.
                let is_lost = now >= transaction.sent + self.config.grace;
                self.identity_failed(index, is_lost, now);
            }
            Purpose::StateTable { .. } => {
                let next = self.next_verification(index, now);
                self.devices[index as usize].state_table.fail(next);
                self.suspect_route(transaction);
            }
            // A request on an earlier route shows nothing about this one.
            Purpose::SwitchMask | Purpose::Link { .. } | Purpose::Fec { .. }
                if !device.way.has_sent(&transaction.query) =>
            {
                device.read_links();
            }
            // A device that ignores one of these requests ignores all of them. The others are
            // skipped, so that they do not delay the counters.
            Purpose::SwitchMask | Purpose::Link { .. } | Purpose::Fec { .. } => {
                device.links.reading = false;
                if let Purpose::Link { port } = transaction.purpose {
                    let is_over = self.ports[port as usize].table_state.fail();
                    let doubted = &mut device.way.doubted_link;
                    *doubted = doubted.filter(|doubted| !is_over || *doubted != port);
                }
                self.suspect_route(transaction);
            }
            _ => {}
        }
    }

    pub(super) fn not_sent(&mut self, tid: Tid, error: SendError, now: Instant) {
        let Some(transaction) = self.inflight.remove(tid) else {
            return;
        };
        self.stats.mads_sent = self.stats.mads_sent.saturating_sub(1);
        match (transaction.query, error) {
            (Query::Directed(_), SendError::NoAgent)
                if matches!(transaction.purpose, Purpose::Peer { .. }) =>
            {
                self.do_without_peers();
            }
            (Query::Smp(_) | Query::Directed(_), SendError::NoAgent) => self.do_without_smp(),
            // A transport without an agent for subnet administration is valid; the engine then
            // queries no paths.
            (Query::Sa(_), SendError::NoAgent) => {}
            (Query::Vendor(_), SendError::NoAgent) => self.do_without_physical(),
            _ => self.stats.send_errors += 1,
        }
        if transaction.purpose == Purpose::Path {
            self.manager.fail(transaction.expired);
            return self.take_path(transaction.device, None, now);
        }
        if let Purpose::Peer { port } = transaction.purpose {
            return self.peer_failed(port);
        }
        let index = transaction.device;
        if transaction.purpose == Purpose::SubnetManager {
            return self.manager_not_asked(index);
        }
        if transaction.purpose == Purpose::Physical {
            return self.physical_not_sent(index);
        }
        if let Purpose::Forwarding { switch } = transaction.purpose {
            return self.forwarding_not_sent(switch);
        }
        let may_go_on = self.devices[index as usize]
            .flight
            .fail(transaction.expired);
        self.skip_groups(&transaction, now);
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let progress = &mut self.ports[port as usize].slot;
            (progress.send_error, progress.mads) = (Some(error), progress.mads - 1);
            progress.close_one();
            self.settle_if_complete(port, now);
        }
        self.clear_not_sent(&transaction, now);
        if may_go_on {
            self.ready.push_back(index);
        }
        self.settle_discovery(index);
    }

    /// Handles the loss of the transport with this errno. No request in flight will be answered,
    /// and none of them counts as a failure of its device.
    pub fn transport_lost(&mut self, errno: i32, now: Instant) {
        self.smp_limit.clear();
        while let Some(transaction) = self.inflight.take_next() {
            let index = transaction.device;
            if transaction.purpose == Purpose::Path {
                self.manager.fail(transaction.expired);
                self.take_path(index, None, now);
                continue;
            }
            if let Purpose::Peer { port } = transaction.purpose {
                self.peer_failed(port);
                continue;
            }
            if transaction.purpose == Purpose::SubnetManager {
                self.manager_not_asked(index);
                continue;
            }
            if transaction.purpose == Purpose::Physical {
                self.physical_not_sent(index);
                continue;
            }
            if let Purpose::Forwarding { switch } = transaction.purpose {
                self.forwarding_not_sent(switch);
                continue;
            }
            let may_go_on = self.devices[index as usize]
                .flight
                .fail(transaction.expired);
            if !transaction.expired {
                self.skip_groups(&transaction, now);
            }
            if let Purpose::Counters { port, .. } = transaction.purpose {
                let progress = &mut self.ports[port as usize].slot;
                progress.send_error = Some(SendError::Errno(errno));
                progress.close_one();
                self.settle_if_complete(port, now);
            }
            if let Purpose::Clear { port, .. } = transaction.purpose {
                self.close_clear(&transaction, port, now);
            }
            if may_go_on {
                self.ready.push_back(index);
            }
            self.settle_discovery(index);
        }
        for device in &mut self.devices {
            device.flight.ignore_losses();
            device.reachability.ignore_losses();
        }
        self.finish_if_settled(now);
    }

    /// Handles a transport that was opened again, with this P_Key index and P_Key table. Every
    /// device is verified again, because all LIDs may have changed.
    pub fn transport_restored(&mut self, pkey_index: u16, pkey_table: Vec<u16>) {
        (self.config.pkey_index, self.config.pkey_table) = (pkey_index, pkey_table);
        self.manager.reset_losses();
        self.subnet_managers.expire();
        self.verify_all();
    }
}
