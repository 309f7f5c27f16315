//! How a slot or a discovery begins, and how it ends.

use std::cmp::Reverse;

use super::state::InSlot;
use super::{Engine, Event, Linger, Phase};
use crate::sweep::inflight::Purpose;
use crate::sweep::sample::Status;
use crate::time::Instant;

impl Engine {
    /// Counts a device as discovered once there is nothing more to ask it, and nothing under way.
    pub(super) fn settle_discovery(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        let over =
            device.passes == 0 && device.again.is_none() && device.in_grace == 0 && !device.outstanding && !device.who.waits_for_path;
        if matches!(self.phase, Phase::Discovery { .. }) && over && !std::mem::replace(&mut device.discovered, true) {
            self.unsettled -= 1;
        }
    }

    /// Whether a slot still asks.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Slot { asking: true, .. })
    }

    /// Asks nothing more in this slot.
    pub(super) fn stop_asking(&mut self, now: Instant) {
        let Phase::Slot { asking, .. } = &mut self.phase else { return };
        if !std::mem::take(asking) {
            return;
        }
        self.ready.clear();
        for device in 0..self.devices.len() as u32 {
            let silent = self.devices[device as usize].silent >= self.config.silence;
            self.leave_ports(device, if silent { Status::Unreachable } else { Status::Skipped }, now);
        }
    }

    pub(super) fn settle_if_complete(&mut self, port: u32, now: Instant) {
        let state = &self.ports[port as usize].slot;
        if !state.asked || state.open > 0 {
            return;
        }
        let status = match state {
            InSlot { send_failed: Some(_), .. } => Status::SendError,
            InSlot { lost: true, bad_reply: true, .. } => Status::BadReply,
            InSlot { lost: true, .. } => Status::Timeout,
            InSlot { cut_short: true, .. } => Status::Skipped,
            InSlot { mad_status: Some(_), .. } => Status::MadError,
            InSlot { late: true, .. } => Status::Late,
            _ => Status::Ok,
        };
        self.settle(port, status, now);
    }

    pub(super) fn settle(&mut self, port: u32, status: Status, now: Instant) {
        let state = &mut self.ports[port as usize].slot;
        if state.status.is_some() {
            return;
        }
        state.status = Some(status);
        state.at.get_or_insert(now);
        self.stats.ports[status as usize] += 1;
        self.unsettled -= 1;
        self.events.push_back(Event::Port(port as usize));
    }

    /// Ends a phase in which nothing is left to wait for.
    pub(super) fn finish_if_settled(&mut self, now: Instant) {
        if self.unsettled > 0 || self.phase == Phase::Idle || self.lingers(now) {
            return;
        }
        self.give_up_chores(now);
        let done = if matches!(self.phase, Phase::Slot { .. }) { Event::SlotDone } else { Event::DiscoveryDone };
        if done == Event::SlotDone {
            self.adapt_window();
        }
        self.phase = Phase::Idle;
        self.inflight.clear();
        self.ready.clear();
        let silence = u32::from(self.config.silence);
        for (index, device) in self.devices.iter_mut().enumerate() {
            // One that was not asked at all stays what it was.
            device.was_silent = !device.agent_answered && (device.expired || device.was_silent);
            // One lost MAD, of a device that has one port, is no reason to think that it is gone.
            let gone = device.was_silent && (device.gone || device.unanswered >= silence);
            if gone != device.gone {
                self.events.push_back(if gone { Event::Unreachable(index) } else { Event::Reachable(index) });
                // It was away and may be another, or run other firmware.
                device.to_forget = !gone && done == Event::SlotDone;
            }
            device.gone = gone;
        }
        self.events.push_back(done);
    }

    /// A slot is over: the window follows what became of the MADs to devices that answer.
    pub(super) fn adapt_window(&mut self) {
        let answering = self.devices.iter().filter(|device| device.agent_answered);
        let (sent, expired) =
            answering.fold((0, 0), |(sent, expired), device| (sent + u64::from(device.mads), expired + u64::from(device.expiries)));
        if let Some(change) = self.window.adapt(sent, expired) {
            self.events.push_back(Event::Window(change));
        }
    }

    /// Whether a slot whose ports are settled still has something to do: chores that are not answered yet, and for as long as a grace devices that
    /// the subnet manager is asked for.
    pub(super) fn lingers(&mut self, now: Instant) -> bool {
        let Phase::Slot { asking: true, linger, .. } = &mut self.phase else { return false };
        *linger = match *linger {
            Linger::Not => Linger::Until(now + self.config.grace),
            Linger::Until(until) if now < until => Linger::Until(until),
            Linger::Until(_) | Linger::Over => Linger::Over,
        };
        !self.ready.is_empty() || self.inflight.at_agents() > 0 || self.manager.is_busy() && *linger != Linger::Over
    }

    /// Chores whose deadline has passed as a slot is cut short: were they forgotten, they would be asked in vain in every slot.
    pub(super) fn give_up_chores(&mut self, now: Instant) {
        while let Some(transaction) = self.inflight.next_in_grace() {
            if matches!(self.phase, Phase::Slot { .. }) && !matches!(transaction.purpose, Purpose::Counters { .. }) {
                self.in_vain(&transaction, now);
            }
        }
    }

    pub(super) fn restart(&mut self, now: Instant, passes: u8) {
        self.inflight.clear();
        self.stats.restart(now);
        for index in 0..self.devices.len() as u32 {
            let device = &mut self.devices[index as usize];
            device.restart();
            device.passes = passes;
            device.groups.try_again(now);
            self.begin_checks(index, now);
            if self.devices[index as usize].who.is_wrong() {
                self.withhold(index, now);
            }
        }
        let devices = &self.devices;
        self.order.sort_unstable_by_key(|index| {
            let device = &devices[*index as usize];
            (device.was_silent, Reverse(device.skipped_for), Reverse(device.work), *index)
        });
        self.ready.clear();
        self.ready.extend(&self.order);
    }
}
