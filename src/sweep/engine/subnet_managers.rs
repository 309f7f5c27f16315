//! Queries SMInfo of the subnet managers that the engine can find.
//!
//! A round queries SMInfo (IBA vol. 1, 14.2.5.13) at these LIDs:
//!
//! - the LID of the subnet manager of the sending port;
//! - MasterSMLID in the PortInfo of every planned HCA port;
//! - planned devices whose PortInfo has the bit IsSM.
//!
//! The first two are the LIDs of the master; after a failover they can differ for some time.
//!
//! A query is sent only when a slot has nothing else to send, so it delays no counters. A subnet
//! manager that does not answer three consecutive queries counts as silent. The next round then
//! starts at once, because another subnet manager may have become the master.

use std::time::Duration;

use ibnet_record::types::{Guid, Lid, NodeKind, Tid};

use super::{Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::directed;
use crate::mad::exchange::Target;
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::sm_info::{IS_SM, SM_INFO, SmInfo, SmState};
use crate::mad::smp;
use crate::sweep::inflight::{Purpose, Transaction};
use crate::time::Instant;

/// Max number of LIDs that are queried. A subnet has few subnet managers.
pub(super) const MAX_MANAGERS: usize = 16;

/// Number of consecutive unanswered queries after which a subnet manager counts as silent.
const MAX_FAILED: u8 = 3;

/// A subnet manager that has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubnetManager {
    /// LID of its port.
    pub lid: Lid,
    /// Its last SMInfo.
    pub info: SmInfo,
    /// Whether it answered its last queries.
    pub is_answering: bool,
}

/// The port of a subnet manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManagerPort {
    /// Port GUID.
    pub guid: Guid,
    /// LID.
    pub lid: Lid,
}

/// All LIDs at which SMInfo is queried.
#[derive(Debug)]
pub(super) struct SubnetManagers {
    entries: Vec<Entry>,
    /// Start of the next round.
    due: Instant,
    /// The last known master.
    master: Option<ManagerPort>,
    /// Number of changes of the master.
    changes: u64,
}

/// A LID at which SMInfo is queried.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lid: Lid,
    /// The last SMInfo. `None` if no subnet manager ever answered at this LID.
    info: Option<SmInfo>,
    is_answering: bool,
    /// Number of unanswered queries since the last answer.
    failed: u8,
    progress: QueryProgress,
    /// Whether the current round has this LID.
    is_wanted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueryProgress {
    /// This round has nothing to send.
    Done,
    /// A query must be sent.
    Due,
    /// A query may still be answered.
    Sent,
}

impl Default for SubnetManagers {
    fn default() -> Self {
        Self {
            entries: Vec::with_capacity(MAX_MANAGERS),
            due: Instant::ZERO,
            master: None,
            changes: 0,
        }
    }
}

impl Entry {
    fn manager(&self) -> Option<SubnetManager> {
        Some(SubnetManager {
            lid: self.lid,
            info: self.info?,
            is_answering: self.is_answering,
        })
    }
}

impl SubnetManagers {
    /// Makes the next round due, because the master may have changed.
    pub(super) fn expire(&mut self) {
        self.due = Instant::ZERO;
    }

    fn want(&mut self, lid: Lid) {
        if !lid.is_unicast() {
            return;
        }
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.lid == lid) {
            entry.is_wanted = true;
        } else if self.entries.len() < MAX_MANAGERS {
            let progress = QueryProgress::Due;
            self.entries.push(Entry {
                lid,
                info: None,
                is_answering: false,
                failed: 0,
                progress,
                is_wanted: true,
            });
        }
    }

    /// Returns the change of the master if another subnet manager now answers as master. `local`
    /// is the LID of the sending port's master.
    ///
    /// The master at `local` takes precedence. If none answers there, the last known master stays
    /// the master as long as it answers as such.
    fn settle_master(&mut self, local: Lid) -> Option<(ManagerPort, ManagerPort)> {
        let is_master = |entry: &&Entry| {
            entry.is_answering && entry.info.is_some_and(|info| info.state == SmState::Master)
        };
        let masters = || self.entries.iter().filter(is_master);
        let known = |entry: &&Entry| {
            entry.info.map(|info| info.guid) == self.master.map(|master| master.guid)
        };
        let found = masters()
            .find(|entry| entry.lid == local)
            .or_else(|| masters().find(known))
            .or_else(|| masters().next())?;
        let now = ManagerPort {
            guid: found.info?.guid,
            lid: found.lid,
        };
        let before = self.master.replace(now)?;
        if before.guid == now.guid {
            return None;
        }
        self.changes += 1;
        Some((before, now))
    }
}

impl Engine {
    /// Iterates over the subnet managers that have answered.
    pub fn subnet_managers(&self) -> impl Iterator<Item = SubnetManager> {
        self.subnet_managers
            .entries
            .iter()
            .filter_map(Entry::manager)
    }

    /// Returns how often the master changed.
    pub fn master_changes(&self) -> u64 {
        self.subnet_managers.changes
    }

    /// Starts a round at the start of a slot, if one is due.
    pub(super) fn start_manager_round(&mut self, now: Instant) {
        let Some(every) = self.config.managers_every else {
            return;
        };
        let Self {
            subnet_managers: managers,
            devices,
            ports,
            ..
        } = self;
        for entry in managers
            .entries
            .iter_mut()
            .filter(|entry| entry.progress == QueryProgress::Sent)
        {
            // The slot in which the query was sent ended before the answer arrived.
            entry.progress = QueryProgress::Due;
        }
        if now < managers.due || !matches!(self.phase, Phase::Slot { .. }) {
            return;
        }
        managers.due = now + every;
        managers
            .entries
            .iter_mut()
            .for_each(|entry| entry.is_wanted = false);
        managers.want(self.manager.local.sm_lid);
        for device in devices.iter().filter(|device| !device.identity.is_wrong()) {
            if device.kind == NodeKind::Switch {
                if device
                    .links
                    .switch_mask
                    .is_some_and(|mask| mask & IS_SM != 0)
                {
                    managers.want(device.path.lid);
                }
                continue;
            }
            for link in device
                .ports
                .clone()
                .filter_map(|port| ports[port as usize].link)
            {
                managers.want(link.master_sm_lid);
                if link.capability_mask & IS_SM != 0 {
                    managers.want(device.path.lid);
                }
            }
        }
        let gone = managers
            .entries
            .iter()
            .filter(|entry| !entry.is_wanted)
            .filter_map(Entry::manager);
        self.events.extend(gone.map(Event::SubnetManagerGone));
        managers.entries.retain(|entry| entry.is_wanted);
        managers
            .entries
            .iter_mut()
            .for_each(|entry| entry.progress = QueryProgress::Due);
    }

    /// Returns the index of the entry to query next, if it may be queried now.
    pub(super) fn next_manager(&mut self, now: Instant) -> Option<usize> {
        let is_idle = matches!(
            self.phase,
            Phase::Slot {
                requesting: true,
                ..
            }
        ) && self.ready.is_empty()
            && !self.no_smp_agent;
        let devices = &self.devices;
        // A planned device has at most one MAD in flight.
        let is_free = |lid: Lid| {
            devices
                .iter()
                .all(|device| device.path.lid != lid || device.flight.is_free())
        };
        let is_next =
            |entry: &Entry| is_idle && entry.progress == QueryProgress::Due && is_free(entry.lid);
        let next = self.subnet_managers.entries.iter().position(is_next)?;
        (self.inflight.pending() < self.window.now() && self.smp_limit.free_at(now).is_none())
            .then_some(next)
    }

    /// Writes the next query for SMInfo into `mad` and returns its target and TID.
    pub(super) fn next_manager_query(
        &mut self,
        now: Instant,
        mad: &mut Mad,
    ) -> Option<(Target, Tid)> {
        let (index, query) = loop {
            let index = self.next_manager(now)?;
            let request = smp::Query {
                attribute: SM_INFO,
                modifier: 0,
            };
            if let Some(query) = self.query_at(self.subnet_managers.entries[index].lid, request) {
                break (index, query);
            }
            self.manager_not_asked(index as u32);
            self.finish_if_settled(now);
        };
        let entry = &mut self.subnet_managers.entries[index];
        entry.progress = QueryProgress::Sent;
        let device = index as u32;
        let lid = match query {
            Query::Directed(directed::Query { route, .. }) => route.target(entry.lid),
            _ => entry.lid,
        };
        self.pace.sent(now);
        self.stats.mads_sent += 1;
        let transaction = Transaction {
            device,
            lid,
            generation: 0,
            query,
            purpose: Purpose::SubnetManager,
            sent: now,
            expired: false,
        };
        let tid = self.inflight.insert(transaction);
        self.smp_limit.sent(tid, now + self.config.grace);
        query.emit(tid, mad);
        Some((Target::subnet_management(lid, self.config.grace), tid))
    }

    /// Evaluates the answer to an SMInfo query. A port without a subnet manager refuses the query.
    pub(super) fn take_sm_info(&mut self, index: u32, answer: Result<&Data, MadStatus>) {
        let Ok(data) = answer else {
            return self.manager_failed(index);
        };
        let Some(entry) = self.subnet_managers.entries.get_mut(index as usize) else {
            return;
        };
        let info = SmInfo::parse(data);
        let essence = |info: SmInfo| (info.guid, info.priority, info.state);
        let is_change = entry.info.is_some();
        let is_new = !entry.is_answering || entry.info.map(essence) != Some(essence(info));
        (entry.info, entry.is_answering, entry.failed, entry.progress) =
            (Some(info), true, 0, QueryProgress::Done);
        if is_new {
            if is_change {
                self.forwarding.expect_change();
            }
            self.events
                .extend(entry.manager().map(Event::SubnetManager));
        }
        self.settle_master();
    }

    /// Counts an unanswered SMInfo query. Sends it again, or marks the subnet manager as silent.
    pub(super) fn manager_failed(&mut self, index: u32) {
        let Some(entry) = self.subnet_managers.entries.get_mut(index as usize) else {
            return;
        };
        entry.failed = entry.failed.saturating_add(1);
        entry.progress = if entry.failed < MAX_FAILED {
            QueryProgress::Due
        } else {
            QueryProgress::Done
        };
        if entry.failed >= MAX_FAILED && std::mem::take(&mut entry.is_answering) {
            self.events
                .extend(entry.manager().map(Event::SubnetManager));
            self.subnet_managers.expire();
            self.settle_master();
        }
    }

    /// Handles an SMInfo query that was not sent or was lost with the transport. The next round
    /// sends it.
    pub(super) fn manager_not_asked(&mut self, index: u32) {
        if let Some(entry) = self.subnet_managers.entries.get_mut(index as usize) {
            entry.progress = QueryProgress::Done;
        }
    }

    fn settle_master(&mut self) {
        if let Some((from, to)) = self
            .subnet_managers
            .settle_master(self.manager.local.sm_lid)
        {
            self.forwarding.expect_change();
            self.events.push_back(Event::MasterChange { from, to });
        }
    }
}

/// Time between two rounds, unless a change makes one due earlier.
pub const MANAGERS_EVERY: Duration = Duration::from_secs(10);
