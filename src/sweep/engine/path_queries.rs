//! Queries the subnet manager for path records. A path record contains the LID of a device and the
//! service level of the path to it.
//!
//! 1. The engine waits for the reply to one query at a time. If there is none within
//!    [`MANAGER_TIMEOUTS`]`.timeout`, it sends the next query; a late reply still counts until the
//!    grace period ends.
//! 2. A lost query delays only its own device. The engine sends it up to three times, with pauses,
//!    then sweeps the device without a path record and starts a new query in a later slot. It does
//!    the same if the subnet manager answers with the status "busy".
//! 3. After three consecutive queries without a reply, the subnet manager counts as *silent*. The
//!    engine then drops all waiting queries and starts them again in a later slot. As long as the
//!    subnet manager is silent, it gets only one query at a time.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::{Lid, Tid};

use super::identity::WRONG_DEVICE_INTERVAL;
use super::state::Identity;
use super::{DISCOVERY_PASSES, Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::exchange::{Local, Target};
use crate::mad::query::Query;
use crate::mad::sa::{self, Gid, PathRecord};
use crate::sweep::inflight::{Purpose, Timeouts, Transaction};
use crate::time::Instant;

/// Timeouts of a query to the subnet manager. They are longer than those for an agent, because the
/// subnet manager serves the whole fabric.
pub(super) const MANAGER_TIMEOUTS: Timeouts = Timeouts {
    timeout: Duration::from_millis(250),
    grace: Duration::from_secs(1),
};

/// Max number of queries without a reply, and also the number of consecutive lost queries after
/// which the subnet manager counts as silent.
pub(super) const MAX_UNANSWERED: usize = 3;

/// Pauses before the second and the third try for a device.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Time after which a query that was dropped, or lost three times, may start again.
const RETRY_LATER: Duration = WRONG_DEVICE_INTERVAL;

/// The queries to the subnet manager.
#[derive(Debug)]
pub(super) struct Manager {
    /// Location of the sending port on its subnet, with the address of the subnet manager.
    pub(super) local: Local,
    /// Devices whose query has not been sent.
    queue: VecDeque<u32>,
    /// Devices whose query was lost, each with the time at which it is sent again; sorted by this
    /// time.
    retries: VecDeque<(Instant, u32)>,
    /// Number of unanswered queries whose grace period has not ended.
    unanswered: usize,
    /// Whether a query has been sent whose timeout has not passed.
    waiting: bool,
    /// Number of lost queries since the last reply.
    lost_in_row: usize,
}

impl Manager {
    pub(super) fn new(devices: usize) -> Self {
        Self {
            local: Local::default(),
            queue: VecDeque::with_capacity(devices),
            retries: VecDeque::with_capacity(devices),
            unanswered: 0,
            waiting: false,
            lost_in_row: 0,
        }
    }

    /// Returns whether a query is in flight or will be sent.
    pub(super) fn is_busy(&self) -> bool {
        self.unanswered > 0 || !self.queue.is_empty() || !self.retries.is_empty()
    }

    fn is_silent(&self) -> bool {
        self.lost_in_row >= MAX_UNANSWERED
    }

    /// Returns whether a query may be sent. Until any query is answered, each lost query reduces
    /// the number of queries that may be in flight, down to one.
    fn may_send(&self) -> bool {
        let limit = MAX_UNANSWERED.saturating_sub(self.lost_in_row).max(1);
        !self.waiting && self.unanswered < limit
    }

    /// Returns the time at which the next lost query is sent again. Returns `None` if there is
    /// none, or if it must first wait for another query.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries
            .front()
            .filter(|_| self.may_send())
            .map(|(at, _)| *at)
    }

    /// Removes and returns the device of the next query.
    fn pop(&mut self, now: Instant) -> Option<u32> {
        if !self.may_send() {
            return None;
        }
        if self.retries.front().is_some_and(|(at, _)| *at <= now) {
            return self.retries.pop_front().map(|(_, device)| device);
        }
        self.queue.pop_front()
    }

    /// Records that a query reached its timeout.
    pub(super) fn expire(&mut self) {
        self.waiting = false;
    }

    /// Records that a query was answered.
    pub(super) fn answer(&mut self, expired: bool) {
        self.fail(expired);
        self.lost_in_row = 0;
    }

    /// Sets the number of lost queries to 0, because the subnet manager or the transport has
    /// changed.
    pub(super) fn reset_losses(&mut self) {
        self.lost_in_row = 0;
    }

    /// Records that a query was not sent, or was lost with the transport.
    pub(super) fn fail(&mut self, expired: bool) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.waiting &= expired;
    }

    fn retry(&mut self, at: Instant, device: u32) {
        let place = self.retries.partition_point(|(other, _)| *other <= at);
        self.retries.insert(place, (at, device));
    }
}

impl Engine {
    /// Starts a path query for a device, unless one is pending or no subnet manager is known.
    pub(super) fn query_path(&mut self, index: u32) {
        if self.manager.local.sm_lid.is_unicast() && self.devices[index as usize].path.start_query()
        {
            self.manager.queue.push_back(index);
        }
    }

    /// Drops all path queries. They may start again after [`RETRY_LATER`].
    pub(super) fn drop_path_queries(&mut self, now: Instant) {
        self.manager.queue.clear();
        self.manager.retries.clear();
        for index in 0..self.devices.len() as u32 {
            if self.devices[index as usize].path.is_queried() {
                self.end_path_query(index, now);
            }
        }
    }

    /// Ends the query of a device without a path record.
    fn end_path_query(&mut self, index: u32, now: Instant) {
        let path = &mut self.devices[index as usize].path;
        path.end_query();
        path.wait_until(now + RETRY_LATER);
        self.settle_discovery(index);
    }

    /// Writes the next query to the subnet manager into `mad` and returns its target and TID.
    pub(super) fn next_path_query(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        let Local {
            sm_lid, sm_sl, gid, ..
        } = self.manager.local;
        if matches!(self.phase, Phase::Idle) {
            return None;
        }
        let device = self.manager.pop(now)?;
        (self.manager.waiting, self.manager.unanswered) = (true, self.manager.unanswered + 1);
        let destination = Gid {
            prefix: gid.prefix,
            guid: self.devices[device as usize].identity.expected,
        };
        let query = Query::Sa(sa::Query {
            source: gid,
            destination,
        });
        self.stats.mads_sent += 1;
        let transaction = Transaction {
            device,
            lid: sm_lid,
            generation: 0,
            query,
            purpose: Purpose::Path,
            sent: now,
            expired: false,
        };
        let tid = self.inflight.insert(transaction);
        query.emit(tid, mad);
        Some((
            Target::general(
                sm_lid,
                sm_sl,
                self.config.pkey_index,
                MANAGER_TIMEOUTS.grace,
            ),
            tid,
        ))
    }

    /// Handles the end of the grace period of a path query that was sent to this LID: the query or
    /// its reply was lost.
    pub(super) fn path_query_lost(&mut self, index: u32, lid: Lid, now: Instant) {
        // The query has reached its timeout before, so another query may be in flight.
        self.manager.fail(true);
        // A lost query counts only if it was sent to the current subnet manager.
        self.manager.lost_in_row += usize::from(lid == self.manager.local.sm_lid);
        if self.manager.is_silent() {
            return self.drop_path_queries(now);
        }
        self.path_query_failed(index, now);
    }

    /// Handles a query that was lost, or that the busy subnet manager did not answer. Sends it
    /// again after a pause, or ends it after the third try.
    pub(super) fn path_query_failed(&mut self, index: u32, now: Instant) {
        let Some(failed) = self.devices[index as usize].path.fail_query() else {
            return;
        };
        match BACKOFF.get(usize::from(failed) - 1) {
            Some(pause) => self.manager.retry(now + *pause, index),
            None => self.end_path_query(index, now),
        }
    }

    /// Evaluates the reply of the subnet manager. `record` is `None` if the reply has no path
    /// record or the query was not sent.
    pub(super) fn take_path(&mut self, index: u32, record: Option<PathRecord>, now: Instant) {
        let path_sl = self.config.path_sl;
        let device = &mut self.devices[index as usize];
        device.path.end_query();
        if let Some(PathRecord { dlid, sl }) = record.filter(|record| record.dlid.is_unicast()) {
            if path_sl {
                device.path.set_sl(sl);
            }
            if dlid != device.path.lid {
                // No data from the new LID is used before the device is verified there.
                device.discard_learned();
                self.verify_others(index, |other| other.path.lid == dlid);
                let device = &mut self.devices[index as usize];
                (device.path.lid, device.progress.step) = (dlid, 0);
                device.identity.identity = Identity::Moved;
                device.identity.query();
                self.withhold(index, now);
                if !self.has_smps(index) {
                    self.do_without_smps_to(index);
                }
                self.resume(index);
            } else if let Identity::Wrong {
                unanswered: true, ..
            } = device.identity.identity
            {
                // The other device has left the LID, and the device that is there now does not
                // answer NodeInfo. The engine assumes that it is the planned device.
                device.identity.identity = Identity::Unverified(None);
                self.events.push_back(Event::RightDevice(index as usize));
            }
        }
        self.settle_discovery(index);
    }

    /// Resumes the queries of a device whose checks were already complete.
    fn resume(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        device.progress.passes = match self.phase {
            Phase::Idle => return,
            Phase::Discovery { .. } => DISCOVERY_PASSES,
            Phase::Slot { requesting, .. } => u8::from(requesting),
        };
        if device.flight.resume() {
            self.ready.push_back(index);
        }
    }
}
