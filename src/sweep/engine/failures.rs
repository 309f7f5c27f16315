//! Requests without a reply: expired, given up, never sent, or lost with the way to the fabric.

use super::{Engine, Phase};
use crate::mad::exchange::NO_AGENT;
use crate::mad::pma::Group;
use crate::mad::query::Query;
use crate::sweep::inflight::{Purpose, Transaction};
use crate::sweep::sample::Status;
use crate::time::Instant;

impl Engine {
    /// A deadline has passed at `at`: the place is free, the reply still counts.
    pub(super) fn expired(&mut self, transaction: &Transaction, at: Instant) {
        if transaction.purpose == Purpose::Path {
            return;
        }
        self.stats.ended = self.stats.ended.max(at);
        let silence = self.config.silence;
        let device = &mut self.devices[transaction.device as usize];
        device.in_grace += 1;
        // What a device need not answer says nothing of one that answers other things.
        let must_answer = matches!(transaction.purpose, Purpose::Counters { .. } | Purpose::Capabilities);
        device.silent = device.silent.saturating_add(u8::from(must_answer || !device.answered));
        device.expiries += u32::from(must_answer);
        device.unanswered = device.unanswered.saturating_add(1);
        (device.expired, device.outstanding) = (true, false);
        device.suspended = device.silent >= silence || device.in_grace - device.lost >= u16::from(silence);
        if !device.suspended {
            // The others do not wait for one that is slow to answer.
            self.ready.push_back(transaction.device);
        }
        self.skip_groups(transaction, at);
    }

    /// The grace has ended too.
    pub(super) fn given_up(&mut self, transaction: &Transaction, now: Instant) {
        let index = transaction.device;
        if transaction.purpose == Purpose::Path {
            // One that is not there answers nobody's questions.
            self.forget_paths(now);
            return self.take_path(index, None, now);
        }
        let device = &mut self.devices[index as usize];
        device.in_grace -= 1;
        device.lost = device.lost.min(device.in_grace);
        self.in_vain(transaction, now);
        let device = &self.devices[index as usize];
        let condemned = device.suspended && device.silent >= self.config.silence && device.in_grace == 0;
        let resumed = device.suspended && device.silent < self.config.silence;
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let state = &mut self.ports[port as usize].slot;
            (state.lost, state.open) = (true, state.open.saturating_sub(1));
            self.settle_if_complete(port, now);
        }
        if condemned {
            if matches!(self.phase, Phase::Slot { .. }) {
                self.leave_ports(index, Status::Unreachable, now);
            }
            self.devices[index as usize].passes = 0;
        } else if resumed {
            self.devices[index as usize].suspended = false;
            self.ready.push_back(index);
        }
        self.settle_discovery(index);
    }

    /// What follows from a request that was not answered.
    pub(super) fn in_vain(&mut self, transaction: &Transaction, now: Instant) {
        let (index, answers) = (transaction.device, self.devices[transaction.device as usize].answered);
        if transaction.life != self.devices[index as usize].life {
            return;
        }
        let groups = &mut self.devices[index as usize].groups;
        match transaction.purpose {
            Purpose::Counters { group, .. } => {
                let aside = self.config.groups[usize::from(group)] != Group::Base && groups.give_up(group, answers, now);
                if aside {
                    self.tell_unsupported(index, group);
                }
                if answers {
                    self.doubt_pm_key(index);
                }
            }
            Purpose::Probe { group } if groups.give_up_probe(group, answers, now) => {
                self.tell_unsupported(index, group);
            }
            Purpose::Identity => self.identity_in_vain(index, now),
            // One that drops some drops all: the counters do not wait for each of them.
            Purpose::Switch | Purpose::Link { .. } | Purpose::Fec { .. } => self.devices[index as usize].who.ask_links = false,
            _ => {}
        }
    }

    /// It never left this host.
    pub(super) fn not_sent(&mut self, transaction: &Transaction, errno: i32, now: Instant) {
        self.stats.mads_sent -= 1;
        match transaction.query {
            Query::Smp(_) if errno == NO_AGENT => self.do_without_smp(),
            // Who has no way to the subnet manager does without it.
            Query::Sa(_) if errno == NO_AGENT => {}
            _ => self.stats.send_errors += 1,
        }
        if transaction.purpose == Purpose::Path {
            return self.take_path(transaction.device, None, now);
        }
        self.devices[transaction.device as usize].outstanding = false;
        self.skip_groups(transaction, now);
        if let Purpose::Counters { port, .. } = transaction.purpose {
            let state = &mut self.ports[port as usize].slot;
            (state.send_failed, state.mads, state.open) = (Some(errno), state.mads - 1, state.open.saturating_sub(1));
            self.settle_if_complete(port, now);
        }
        self.ready.push_back(transaction.device);
        self.settle_discovery(transaction.device);
    }

    /// The way to the fabric is lost, with this errno: nothing that is under way will be answered, which says nothing of those who were asked.
    pub fn lose_way(&mut self, errno: i32, now: Instant) {
        while let Some(transaction) = self.inflight.take_next() {
            let index = transaction.device;
            if transaction.purpose == Purpose::Path {
                self.take_path(index, None, now);
                continue;
            }
            let device = &mut self.devices[index as usize];
            device.in_grace -= u16::from(transaction.expired);
            device.lost = device.lost.min(device.in_grace);
            device.outstanding &= transaction.expired;
            if !transaction.expired {
                self.skip_groups(&transaction, now);
            }
            if let Purpose::Counters { port, .. } = transaction.purpose {
                let state = &mut self.ports[port as usize].slot;
                (state.send_failed, state.open) = (Some(errno), state.open.saturating_sub(1));
                self.settle_if_complete(port, now);
            }
            let device = &mut self.devices[index as usize];
            if std::mem::take(&mut device.suspended) || !transaction.expired {
                self.ready.push_back(index);
            }
            self.settle_discovery(index);
        }
        for device in &mut self.devices {
            (device.expired, device.silent) = (false, 0);
        }
        self.finish_if_settled(now);
    }

    /// The way to the fabric is there again, with the P_Key at this index: every device is asked who it is.
    pub fn find_way(&mut self, pkey_index: u16) {
        self.config.pkey_index = pkey_index;
        self.doubt_all();
    }

    /// The other groups of a port are not asked for, if any is left.
    fn skip_groups(&mut self, transaction: &Transaction, now: Instant) {
        if let Purpose::Counters { port, .. } = transaction.purpose
            && self.devices[transaction.device as usize].current() == Some(port)
        {
            self.end_of_port(transaction.device, now);
        }
    }
}
