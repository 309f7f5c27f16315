//! Clears counters after their reading, if the configuration requests it: see
//! [`clearing`](crate::sweep::clearing).
//!
//! The request follows the reply of the reading at once. It goes only to a device whose GUID is
//! verified, and only while the slot still sends requests. A request without a reply is not
//! repeated, and the status of the port does not depend on it.

use std::time::Duration;

use super::{Engine, Event};
use crate::mad::header::MadStatus;
use crate::mad::pma::{self, Clearable, Data};
use crate::mad::query::Query;
use crate::sweep::clearing::{self, Cleared};
use crate::sweep::inflight::{Purpose, Transaction};
use crate::time::Instant;

/// Number of consecutive requests without success after which a device gets no more of them, until
/// everything learned from it is discarded. If 10 % of the MADs are lost, this happens by chance
/// with a probability of one in a hundred million.
const MAX_FAILED: u8 = 8;

impl Engine {
    /// Makes the next request to a device clear those counters of a reading that have reached the
    /// threshold.
    pub(super) fn clear_after(
        &mut self,
        transaction: &Transaction,
        (port, group): (u32, u8),
        data: &Data,
    ) {
        let place = usize::from(group);
        let name = self.config.groups[place];
        let (Some(clearing), Some(of)) = (&self.config.clearing, Clearable::of(name)) else {
            return;
        };
        let device = &self.devices[transaction.device as usize];
        let is_permitted = clearing.of.contains(&of)
            && device.identity.is_verified()
            && device.clears_failed < MAX_FAILED
            && !transaction.expired
            && self.is_requesting();
        if !is_permitted {
            return;
        }
        let turns = self
            .config
            .cadence
            .of(place, name, self.circumstances(port));
        let every = clearing.interval * turns.every;
        let state = &mut self.ports[port as usize];
        let select = clearing::select(of, data, state.capacity_gbps, every);
        if select == 0 {
            return;
        }
        state.slot.open += 1;
        let (port_select, read) = (state.num, transaction.sent);
        self.devices[transaction.device as usize].progress.repeat = Some((
            Query::Clear(pma::Clear {
                of,
                port: port_select,
                select,
            }),
            Purpose::Clear { port, of, read },
        ));
    }

    /// Counts a request that is sent out of turn: one that a redirection repeats, or one that
    /// clears counters.
    pub(super) fn count_repeat(&mut self, query: &Query, purpose: Purpose) {
        let (Purpose::Counters { port, .. } | Purpose::Clear { port, .. }) = purpose else {
            return;
        };
        let progress = &mut self.ports[port as usize].slot;
        progress.mads += 1;
        if let Query::Clear(pma::Clear { of, select, .. }) = *query {
            progress.cleared[of as usize] = Some(Cleared { select, took: None });
        }
    }

    pub(super) fn take_clear(
        &mut self,
        transaction: &Transaction,
        (port, of, read): (u32, Clearable, Instant),
        answer: Result<&Data, MadStatus>,
        rtt: Duration,
        now: Instant,
    ) {
        let progress = &mut self.ports[port as usize].slot;
        progress.add_round_trip(rtt);
        let cleared = &mut progress.cleared[of as usize];
        match answer {
            Ok(_) => {
                if let Some(cleared) = cleared {
                    cleared.took = Some(now - read);
                }
                self.devices[transaction.device as usize].clears_failed = 0;
            }
            Err(status) => {
                // An agent that refuses a request has not cleared the counters.
                *cleared = None;
                let failures = if status.is_unsupported() {
                    MAX_FAILED
                } else {
                    1
                };
                self.clear_failed(transaction.device, failures);
            }
        }
        self.close_clear(transaction, port, now);
    }

    /// Handles a request to clear counters that was not sent.
    pub(super) fn clear_not_sent(&mut self, transaction: &Transaction, now: Instant) {
        if let Purpose::Clear { port, of, .. } = transaction.purpose {
            let progress = &mut self.ports[port as usize].slot;
            progress.mads -= 1;
            progress.cleared[of as usize] = None;
            self.close_clear(transaction, port, now);
        }
    }

    /// Makes a port wait no longer for a request to clear counters. The port stops waiting when the
    /// request expires, because it has all of its readings.
    pub(super) fn close_clear(&mut self, transaction: &Transaction, port: u32, now: Instant) {
        if !transaction.expired {
            self.ports[port as usize].slot.close_one();
            self.settle_if_complete(port, now);
        }
    }

    pub(super) fn clear_failed(&mut self, device: u32, failures: u8) {
        let failed = &mut self.devices[device as usize].clears_failed;
        let before = std::mem::replace(failed, failed.saturating_add(failures).min(MAX_FAILED));
        if before < MAX_FAILED && *failed == MAX_FAILED {
            self.events.push_back(Event::ClearRefused(device as usize));
        }
    }
}
