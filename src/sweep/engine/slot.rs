//! Start and end of a slot or a discovery.

use std::cmp::Reverse;

use ibnet_record::Status;

use super::{Engine, Event, FinalWait, Phase};
use crate::sweep::inflight::Purpose;
use crate::time::Instant;

impl Engine {
    /// Prepares all devices for a slot or a discovery with this number of `passes` over the checks
    /// of each device.
    pub(super) fn restart(&mut self, now: Instant, passes: u8) {
        self.inflight.clear();
        self.stats.restart(now);
        for index in 0..self.devices.len() as u32 {
            let device = &mut self.devices[index as usize];
            device.restart(
                &self.config.groups,
                &self.config.cadence,
                self.last_reads.slot(),
            );
            device.progress.passes = passes;
            device.groups.retry_disabled(now);
            self.start_checks(index, now);
            if self.devices[index as usize].identity.is_wrong() {
                self.withhold(index, now);
            }
        }
        let devices = &self.devices;
        self.order.sort_unstable_by_key(|index| {
            let device = &devices[*index as usize];
            let (was_silent, short_slots) = (
                device.reachability.was_silent(),
                device.progress.short_slots,
            );
            (
                was_silent,
                Reverse(short_slots),
                Reverse(device.service.work),
                *index,
            )
        });
        self.ready.restart(&self.order);
        self.start_manager_round(now);
    }

    /// Counts a device as discovered once no check is left and no request is in flight.
    pub(super) fn settle_discovery(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        if matches!(self.phase, Phase::Discovery { .. })
            && device.is_discovered()
            && !std::mem::replace(&mut device.progress.discovered, true)
        {
            self.unsettled -= 1;
        }
    }

    /// Returns whether a slot still requests counters.
    pub(super) fn is_requesting(&self) -> bool {
        matches!(
            self.phase,
            Phase::Slot {
                requesting: true,
                ..
            }
        )
    }

    pub(super) fn stop_requesting(&mut self, now: Instant) {
        let Phase::Slot { requesting, .. } = &mut self.phase else {
            return;
        };
        if !std::mem::take(requesting) {
            return;
        }
        self.ready.clear();
        for index in 0..self.devices.len() as u32 {
            let silent = self.devices[index as usize]
                .flight
                .is_silent(self.config.silence);
            self.leave_ports(
                index,
                if silent {
                    Status::Unreachable
                } else {
                    Status::Skipped
                },
                now,
            );
        }
    }

    /// Settles a port if all of its requests were sent and each was answered or given up.
    pub(super) fn settle_if_complete(&mut self, port: u32, now: Instant) {
        if let Some(status) = self.ports[port as usize].slot.result() {
            self.settle(port, status, now);
        }
    }

    /// Settles a port: gives it this final status, unless it already has one.
    pub(super) fn settle(&mut self, port: u32, status: Status, now: Instant) {
        let progress = &mut self.ports[port as usize].slot;
        if progress.status.is_some() {
            return;
        }
        progress.status = Some(status);
        progress.at.get_or_insert(now);
        self.stats.ports[status as usize] += 1;
        self.unsettled -= 1;
        self.events.push_back(Event::Port(port as usize));
    }

    /// Ends the slot or discovery when nothing is left to wait for.
    pub(super) fn finish_if_settled(&mut self, now: Instant) {
        if self.unsettled > 0 || self.phase == Phase::Idle || self.still_waits(now) {
            return;
        }
        self.give_up_checks(now);
        let in_slot = matches!(self.phase, Phase::Slot { .. });
        if in_slot {
            self.adapt_window();
        }
        self.phase = Phase::Idle;
        self.inflight.clear();
        self.ready.clear();
        for (index, device) in self.devices.iter_mut().enumerate() {
            if let Some(reachable) = device.reachability.finish(self.config.silence, in_slot) {
                self.events.push_back(if reachable {
                    Event::Reachable(index)
                } else {
                    Event::Unreachable(index)
                });
            }
        }
        self.events.push_back(if in_slot {
            Event::SlotDone
        } else {
            Event::DiscoveryDone
        });
    }

    /// Adapts the window to the share of expired MADs at devices that answered.
    fn adapt_window(&mut self) {
        let losses = self
            .devices
            .iter()
            .filter_map(|device| device.reachability.losses());
        let (sent, expired) =
            losses.fold((0, 0), |sum, device| (sum.0 + device.0, sum.1 + device.1));
        if let Some(change) = self.window.adapt(sent, expired) {
            self.events.push_back(Event::Window(change));
        }
    }

    /// Returns whether a slot must wait although all of its ports have their final status: for
    /// checks that are sent or in flight, and for at most one grace period for replies of the
    /// subnet manager.
    fn still_waits(&mut self, now: Instant) -> bool {
        let has_peers = self.has_peers_to_query();
        let asks_manager = self.next_manager(now).is_some();
        let reads_more = self.waits_for_physical(now) | self.waits_for_forwarding(now);
        let Phase::Slot {
            requesting: true,
            final_wait,
            ..
        } = &mut self.phase
        else {
            return false;
        };
        *final_wait = match *final_wait {
            FinalWait::NotStarted => FinalWait::Until(now + self.config.grace),
            FinalWait::Until(until) if now < until => FinalWait::Until(until),
            FinalWait::Until(_) | FinalWait::Over => FinalWait::Over,
        };
        let checks = reads_more
            || asks_manager
            || has_peers
            || !self.ready.is_empty()
            || self.inflight.at_agents() > 0;
        checks || self.manager.is_busy() && *final_wait != FinalWait::Over
    }

    /// Counts expired checks as failed if a slot ends early; otherwise an unanswered check would
    /// be repeated in every slot.
    fn give_up_checks(&mut self, now: Instant) {
        while let Some(transaction) = self.inflight.next_in_grace() {
            if matches!(self.phase, Phase::Slot { .. })
                && !matches!(transaction.purpose, Purpose::Counters { .. })
            {
                self.unanswered(&transaction, now);
            }
        }
    }
}
