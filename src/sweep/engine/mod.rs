//! Who is asked next, and what a reply means.
//!
//! The engine performs no I/O, reads no clock and has no randomness of its own: it is told the time and a seed. After every
//! `handle_*` and `start_*` call [`poll_transmit`](Engine::poll_transmit) until `None`, then [`poll_event`](Engine::poll_event) until
//! `None`, then wait for a completion until [`poll_timeout`](Engine::poll_timeout). Times must not go back from call to call.
//!
//! The rules (the numbers are those of `docs/engine.md`):
//!
//! - **2** At most one MAD outstanding to a device, at most `window` in all; all MADs of a port are consecutive.
//! - **3** The device with the most to be asked comes first, and goes on until it is done; before it come those that slots were too
//!   short for, the longest neglected first, at the port where the last one stopped.
//! - **4** A deadline frees the MAD's place. Until the grace ends a reply still counts and makes its port `late`. After the first expiry
//!   of a port its other groups are skipped. After three MADs in a row without any reply the device is left alone; when their grace has
//!   ended too, its other ports are `unreachable`. Any reply lets it go on. Never are more than three of its MADs unanswered, expired ones
//!   counted: a device that is slow is not buried. A device that was silent for a slot comes last in the next.
//! - **5** What was not asked by `ask_until` is `skipped`; at `close_at` the slot is over. Every port gets exactly one [`Event::Port`].
//! - **6** A reply counts only if TID, sender, class, method, attribute and PortSelect fit. Duplicate, foreign and malformed ones are
//!   counted apart and settle nothing.
//!
//! What a device can do (ClassPortInfo) is asked before the first slot; where that was not answered, once more in each slot.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use self::state::{Device, Known, Port};
use super::inflight::{Inflight, Purpose, Transaction};
use super::sample::{Answer, Sample, Status};
use super::stats::SlotStats;
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::pma::{CLASS_PORT_INFO, DATA_LEN, Group, Query};
use crate::time::Instant;
use crate::types::{Lid, NodeKind, PortNum, Tid};

mod outcome;
mod state;
#[cfg(test)]
mod tests;

/// How an engine sweeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// MADs outstanding in all.
    pub window: usize,
    /// When a MAD's place is free again.
    pub deadline: Duration,
    /// Until when its reply still counts; counted from sending, like the deadline.
    pub grace: Duration,
    /// MADs in a row without a reply, after which a device is left alone.
    pub silence: u8,
    /// What is asked of each port, in this order; at most 32.
    pub groups: Vec<Group>,
    /// Service level of every MAD.
    pub sl: u8,
    /// P_Key index of every MAD.
    pub pkey_index: u16,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: 32,
            deadline: Duration::from_millis(5),
            grace: Duration::from_millis(50),
            silence: 3,
            groups: Group::DEFAULT.to_vec(),
            sl: 0,
            pkey_index: 0,
        }
    }
}

/// A device to be swept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DevicePlan {
    /// Where it answers.
    pub lid: Lid,
    /// What it is.
    pub kind: NodeKind,
    /// Which of its ports.
    pub ports: Vec<PortNum>,
}

/// Something that happened. Ports and devices are told by their place in the plan, ports counted through all devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A port is settled for this slot: see [`Engine::sample`].
    Port(usize),
    /// An agent said that it does not have a group's attribute, or never answered for it while it answered for others; it is not asked for it for
    /// now.
    GroupUnsupported {
        /// The device.
        device: usize,
        /// The group.
        group: Group,
    },
    /// A device that answered before did not answer anything in this slot.
    Unreachable(usize),
    /// A device that did not answer anything in the last slot does again.
    Reachable(usize),
    /// All devices were asked for their capabilities.
    DiscoveryDone,
    /// Every port is settled: see [`Engine::stats`].
    SlotDone,
}

/// Asks ports for their counters, slot by slot. See the [module](self) for how it is driven.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    devices: Vec<Device>,
    ports: Vec<Port>,
    /// Ports x groups.
    answers: Vec<Answer>,
    /// Devices in the order in which a slot asks them.
    order: Vec<u32>,
    /// Devices that may be asked now.
    ready: VecDeque<u32>,
    inflight: Inflight,
    events: VecDeque<Event>,
    phase: Phase,
    stats: SlotStats,
    /// Ports (in a slot) or devices (in discovery) that are not settled.
    unsettled: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Discovery { close_at: Instant },
    Slot { ask_until: Instant, close_at: Instant, asking: bool },
}

/// How often a device is asked for its capabilities before the first slot.
const DISCOVERY_TRIES: u8 = 3;

impl Engine {
    /// An engine for these devices. TIDs count up from the seed's low 32 bits.
    pub fn new(plan: &[DevicePlan], config: Config, seed: u64) -> Self {
        let mut devices = Vec::with_capacity(plan.len());
        let mut ports = Vec::new();
        for (index, device) in plan.iter().enumerate() {
            let first = ports.len() as u32;
            ports.extend(device.ports.iter().map(|num| Port::new(index as u32, *num)));
            devices.push(Device::new(device.lid, device.kind, first..ports.len() as u32));
        }
        let answers = vec![Answer { at: None, data: [0; DATA_LEN] }; ports.len() * config.groups.len()];
        // Each port has at most one transaction in its grace, each device one that is pending or asks for capabilities.
        let capacity = ports.len() + 2 * devices.len() + config.window;
        Self {
            inflight: Inflight::new(seed as u32, capacity, config.deadline, config.grace),
            order: (0..devices.len() as u32).collect(),
            ready: VecDeque::with_capacity(devices.len()),
            events: VecDeque::with_capacity(ports.len() + 2 * devices.len() + 2),
            phase: Phase::Idle,
            stats: SlotStats::default(),
            unsettled: 0,
            config,
            devices,
            ports,
            answers,
        }
    }

    /// How many ports it sweeps.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// What this slot brought of a port. Complete once its [`Event::Port`] was told, until the next slot starts.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn sample(&self, port: usize) -> Sample<'_> {
        let groups = self.config.groups.len();
        let Port { device, status, rtt, mads, at, mad_status, send_failed: errno, .. } = self.ports[port];
        let Device { capabilities, unsupported, .. } = &self.devices[device as usize];
        let (capabilities, unsupported) = (capabilities.known(), *unsupported);
        let answers = &self.answers[port * groups..(port + 1) * groups];
        let status = status.unwrap_or(Status::Skipped);
        let at = at.unwrap_or(self.stats.ended);
        Sample { status, rtt, mads, at, mad_status, errno, capabilities, unsupported, groups: &self.config.groups, answers }
    }

    /// The sum of the slot.
    pub fn stats(&self) -> &SlotStats {
        &self.stats
    }

    /// Asks every device what it can do; ends with [`Event::DiscoveryDone`], at `close_at` at the latest.
    pub fn start_discovery(&mut self, now: Instant, close_at: Instant) {
        self.restart(now, DISCOVERY_TRIES);
        self.unsettled = self.devices.len();
        self.phase = Phase::Discovery { close_at };
        self.finish_if_settled();
    }

    /// Starts a slot; ends with [`Event::SlotDone`], at `close_at` at the latest. A slot that still runs is closed first.
    pub fn start_slot(&mut self, now: Instant, ask_until: Instant, close_at: Instant) {
        self.close(now);
        self.restart(now, 1);
        for port in &mut self.ports {
            *port = Port::new(port.device, port.num);
        }
        for answer in &mut self.answers {
            answer.at = None;
        }
        self.unsettled = self.ports.len();
        self.phase = Phase::Slot { ask_until, close_at, asking: true };
        self.finish_if_settled();
    }

    /// Asks nothing more. What is under way may still be answered until its grace ends, for `most` at most, and then what is running is closed.
    pub fn stop(&mut self, now: Instant, most: Duration) {
        self.stop_asking(now);
        self.ready.clear();
        self.devices.iter_mut().for_each(|device| device.tries = 0);
        if let Phase::Slot { close_at, .. } | Phase::Discovery { close_at } = &mut self.phase {
            *close_at = (*close_at).min(now + self.config.grace.min(most));
        }
        self.finish_if_settled();
    }

    /// Closes what is running: what was not asked is `skipped`, what was not answered is lost.
    pub fn close(&mut self, now: Instant) {
        self.stop_asking(now);
        if matches!(self.phase, Phase::Slot { .. }) {
            // What did not have its time yet is not lost.
            for transaction in self.inflight.waiting() {
                if let Purpose::Counters { port, .. } = transaction.purpose {
                    let state = &mut self.ports[port as usize];
                    (state.cut_short, state.open) = (true, state.open - 1);
                }
            }
            for port in 0..self.ports.len() as u32 {
                let state = &mut self.ports[port as usize];
                if state.status.is_none() {
                    (state.asked, state.lost, state.open) = (true, state.lost || state.open > 0, 0);
                    self.settle_if_complete(port, now);
                }
            }
        }
        self.unsettled = 0;
        self.finish_if_settled();
    }

    /// Takes what a transport tells. The octets of a reply are in `mad`.
    pub fn handle_completion(&mut self, completion: &Completion, mad: &Mad, now: Instant) {
        match completion.outcome {
            Outcome::Reply { slid, len } => self.handle_reply(completion.tid, slid, mad, len, now),
            Outcome::TimedOut => {
                if let Some(transaction) = self.inflight.expire(completion.tid) {
                    self.expired(&transaction, now);
                }
                if let Some(transaction) = self.inflight.remove(completion.tid) {
                    self.given_up(&transaction, now);
                }
            }
            Outcome::SendFailed(errno) => {
                if let Some(transaction) = self.inflight.remove(completion.tid) {
                    self.not_sent(&transaction, errno, now);
                }
            }
        }
        self.finish_if_settled();
    }

    /// Lets time pass: deadlines, graces, the end of asking, the end of the slot.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, transaction)) = self.inflight.next_expired(now) {
            self.expired(&transaction, transaction.sent + self.config.deadline);
        }
        while let Some((_, transaction)) = self.inflight.next_given_up(now) {
            self.given_up(&transaction, now);
        }
        match self.phase {
            Phase::Slot { close_at, .. } | Phase::Discovery { close_at } if now >= close_at => self.close(now),
            Phase::Slot { ask_until, asking: true, .. } if now >= ask_until => self.stop_asking(now),
            _ => {}
        }
        self.finish_if_settled();
    }

    /// The next MAD to be sent, and where. `None` if the window is full or there is nothing to be asked now.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        while self.inflight.pending() < self.config.window {
            let device = self.ready.pop_front()?;
            let Some((query, purpose)) = self.next_query(device, now) else {
                self.finish_if_settled();
                continue;
            };
            self.devices[device as usize].outstanding = true;
            self.stats.mads_sent += 1;
            let tid = self.inflight.insert(Transaction { device, query, purpose, sent: now, expired: false });
            query.emit(tid, mad);
            let lid = self.devices[device as usize].lid;
            return Some((Target { lid, sl: self.config.sl, pkey_index: self.config.pkey_index }, tid));
        }
        None
    }

    /// What has happened since it was last asked.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Idle => return None,
            Phase::Slot { ask_until, asking: true, .. } => ask_until,
            Phase::Slot { close_at, .. } | Phase::Discovery { close_at } => close_at,
        };
        Some(self.inflight.next_timeout().map_or(phase, |transaction| transaction.min(phase)))
    }

    /// What a device is asked next; `None` if all of it was asked. Moves on past what it does not have.
    fn next_query(&mut self, index: u32, now: Instant) -> Option<(Query, Purpose)> {
        let device = &mut self.devices[index as usize];
        if device.tries > 0 && device.capabilities == Known::Not {
            device.tries -= 1;
            return Some((Query { attribute: CLASS_PORT_INFO.id, port: None }, Purpose::Capabilities));
        }
        if matches!(self.phase, Phase::Discovery { .. }) {
            return None;
        }
        while let Some(port) = self.devices[index as usize].current() {
            let device = &mut self.devices[index as usize];
            let groups = (0..).zip(self.config.groups.iter().copied()).skip(usize::from(device.group));
            let mut wanted = groups.filter(|(place, group)| device.has(*group, *place));
            let (next, last) = (wanted.next(), wanted.next().is_none());
            if let Some((place, _)) = next {
                device.group = place + 1;
                let state = &mut self.ports[port as usize];
                (state.mads, state.open) = (state.mads + 1, state.open + 1);
            }
            if last {
                self.end_of_port(index, now);
            }
            if let Some((place, group)) = next {
                let query = Query { attribute: group.attribute().id, port: Some(self.ports[port as usize].num) };
                return Some((query, Purpose::Counters { port, group: place }));
            }
        }
        None
    }

    /// All that will be asked of the device's current port was asked: goes on to its next one.
    fn end_of_port(&mut self, index: u32, now: Instant) {
        let device = &mut self.devices[index as usize];
        let Some(port) = device.current() else { return };
        (device.done, device.group) = (device.done + 1, 0);
        self.ports[port as usize].asked = true;
        self.settle_if_complete(port, now);
    }

    /// Counts a device as discovered once it has answered, or has been asked often enough and all of that was given up.
    fn settle_discovery(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        let over = device.capabilities != Known::Not || device.tries == 0 && device.in_grace == 0 && !device.outstanding;
        if matches!(self.phase, Phase::Discovery { .. }) && over && !std::mem::replace(&mut device.discovered, true) {
            self.unsettled -= 1;
        }
    }

    /// Asks nothing more in this slot.
    fn stop_asking(&mut self, now: Instant) {
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

    /// Settles the ports of a device that will not be asked; one that was asked in part waits for what is under way. Ports that are skipped come
    /// first in the next slot.
    fn leave_ports(&mut self, device: u32, status: Status, now: Instant) {
        if status == Status::Skipped {
            self.devices[device as usize].keep_place();
        }
        while let Some(port) = self.devices[device as usize].current() {
            self.devices[device as usize].done += 1;
            let state = &mut self.ports[port as usize];
            if state.mads == 0 {
                self.settle(port, status, now);
            } else {
                // Asked in part: what is under way still counts.
                (state.asked, state.cut_short) = (true, true);
                self.settle_if_complete(port, now);
            }
        }
    }

    fn settle_if_complete(&mut self, port: u32, now: Instant) {
        let state = &self.ports[port as usize];
        if !state.asked || state.open > 0 {
            return;
        }
        let status = match state {
            Port { send_failed: Some(_), .. } => Status::SendError,
            Port { lost: true, bad_reply: true, .. } => Status::BadReply,
            Port { lost: true, .. } => Status::Timeout,
            Port { cut_short: true, .. } => Status::Skipped,
            Port { mad_status: Some(_), .. } | Port { mads: 0, .. } => Status::MadError,
            Port { late: true, .. } => Status::Late,
            _ => Status::Ok,
        };
        self.settle(port, status, now);
    }

    fn settle(&mut self, port: u32, status: Status, now: Instant) {
        let state = &mut self.ports[port as usize];
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
    fn finish_if_settled(&mut self) {
        if self.unsettled > 0 || self.phase == Phase::Idle {
            return;
        }
        let done = if matches!(self.phase, Phase::Slot { .. }) { Event::SlotDone } else { Event::DiscoveryDone };
        self.phase = Phase::Idle;
        self.inflight.clear();
        self.ready.clear();
        for (index, device) in self.devices.iter_mut().enumerate() {
            // One that was not asked at all stays what it was.
            let silent = !device.answered && (device.expired || device.was_silent);
            if silent != device.was_silent {
                self.events.push_back(if silent { Event::Unreachable(index) } else { Event::Reachable(index) });
                // It was away and may be another, or run other firmware.
                device.to_forget = !silent && done == Event::SlotDone;
            }
            device.was_silent = silent;
        }
        self.events.push_back(done);
    }

    fn restart(&mut self, now: Instant, tries: u8) {
        self.inflight.clear();
        self.stats.restart(now);
        for device in &mut self.devices {
            device.restart(tries);
            device.try_again(now);
        }
        let devices = &self.devices;
        self.order.sort_unstable_by_key(|index| {
            let device = &devices[*index as usize];
            (device.was_silent, Reverse(device.skipped_for), Reverse(device.ports.len()), *index)
        });
        self.ready.clear();
        self.ready.extend(&self.order);
    }
}
