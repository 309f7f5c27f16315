//! Who is asked next, and what a reply means.
//!
//! The engine performs no I/O, reads no clock and has no randomness of its own: it is told the time and a seed. After every
//! `handle_*` and `start_*` call [`poll_transmit`](Engine::poll_transmit) until `None`, then [`poll_event`](Engine::poll_event) until
//! `None`, then wait for a completion until [`poll_timeout`](Engine::poll_timeout). Times must not go back from call to call.
//!
//! The rules (the numbers are those of `docs/engine.md`):
//!
//! - **2** At most one MAD outstanding to a device, at most `window` in all; all MADs of a port are consecutive.
//! - **3** The device that will take longest for all that it is asked, as lately measured, comes first, and goes on until it is done; before it come those that slots were too
//!   short for, the longest neglected first, at the port where the last one stopped.
//! - **4** A deadline frees the MAD's place. Until the grace ends a reply still counts and makes its port `late`. After the first expiry
//!   of a port its other groups are skipped. After three MADs in a row without any reply the device is left alone; when their grace has
//!   ended too, its other ports are `unreachable`. Any reply lets it go on. Never are more than three of its MADs unanswered, expired ones
//!   counted, but for those that are lost: a later one was answered in time. A device that is slow is not buried. A device that was silent for a slot comes last in the next.
//! - **5** What was not asked by `ask_until` is `skipped`; at `close_at` the slot is over. Every port gets exactly one [`Event::Port`].
//! - **6** A reply counts only if TID, sender, class, method, attribute and PortSelect fit. Duplicate, foreign and malformed ones are
//!   counted apart and settle nothing.
//!
//! Who a device is and what it can do is asked before the first slot, and again when there is a reason; see the files below.
//!
//! | file | what is in it |
//! |---|---|
//! | `event` | what it tells |
//! | `config` | how it sweeps, and what |
//! | `slot` | how a slot or a discovery begins and ends |
//! | `transmit` | what a device is asked next |
//! | `replies` | what a reply means |
//! | `failures` | requests without a reply |
//! | `path_queries` | the subnet manager's path records |
//! | `identity` | who answers at a LID, and where a device is that does not |
//! | `groups` | which counters a device has |
//! | `state` | what is known of each device and port |

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;

pub use self::config::{Config, DevicePlan};
pub use self::event::{Event, Key};
use self::groups::Groups;
use self::identity::{Identity, MANAGER};
use self::path_queries::Manager;
use self::state::{Device, InSlot, Port};
use super::blocked::{TickOf, WaitTick};
use super::inflight::{Inflight, Patience, Purpose, Transaction};
use super::sample::{Answer, Sample, Status};
use super::stats::SlotStats;
use super::window::{Pace, Window};
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::pma::DATA_LEN;
use crate::time::Instant;
use crate::types::Tid;

mod config;
mod event;
mod failures;
mod groups;
mod identity;
mod path_queries;
mod replies;
mod slot;
mod state;
#[cfg(test)]
mod tests;
mod transmit;

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
    manager: Manager,
    window: Window,
    pace: Pace,
    /// Whether the transport has no agent for subnet management.
    smp_off: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Discovery {
        close_at: Instant,
    },
    Slot {
        ask_until: Instant,
        close_at: Instant,
        asking: bool,
        /// Once all ports are settled: until when the subnet manager is waited for.
        linger: Linger,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Linger {
    Not,
    Until(Instant),
    Over,
}

/// How often a device is asked what it did not answer, before the first slot: three times for OptionMask, then as often for what that would tell.
const DISCOVERY_PASSES: u8 = 6;

impl Engine {
    /// An engine for these devices. TIDs count up from the seed's low 32 bits.
    pub fn new(plan: &[DevicePlan], config: Config, seed: u64) -> Self {
        let mut devices = Vec::with_capacity(plan.len());
        let mut ports = Vec::new();
        let forced =
            (0..).zip(&config.groups).fold(0, |bits, (place, group)| bits | u32::from(config.force_groups.contains(group)) << place);
        let optional = Groups::optional(&config.groups);
        for (index, device) in plan.iter().enumerate() {
            let first = ports.len() as u32;
            ports.extend(device.ports.iter().map(|num| Port::new(index as u32, *num)));
            let groups = Groups::new(device.kind, config.groups.len() as u8, optional, forced);
            devices.push(Device::new(device, first..ports.len() as u32, config.sl, groups));
        }
        let answers = vec![Answer { at: None, data: [0; DATA_LEN] }; ports.len() * config.groups.len()];
        // Each port has at most one transaction in its grace, each device one that is pending or a chore; the subnet manager has one.
        let capacity = ports.len() + 2 * devices.len() + config.window + 1;
        let agents = Patience { deadline: config.deadline, grace: config.grace };
        Self {
            inflight: Inflight::new(seed as u32, capacity, agents, MANAGER),
            order: (0..devices.len() as u32).collect(),
            ready: VecDeque::with_capacity(2 * devices.len()),
            events: VecDeque::with_capacity(2 * ports.len() + 4 * devices.len() + 2),
            phase: Phase::Idle,
            stats: SlotStats::default(),
            unsettled: 0,
            manager: Manager::default(),
            window: Window::new(config.window, config.adaptive),
            pace: Pace::new(config.most_per_second),
            smp_off: false,
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
        let Port { device, slot, rs_fec, .. } = &self.ports[port];
        let Device { groups: has, who, .. } = &self.devices[*device as usize];
        let status = slot.status.unwrap_or(Status::Skipped);
        let answers = &self.answers[port * groups..(port + 1) * groups];
        Sample {
            rtt: slot.rtt,
            mads: slot.mads,
            at: slot.at.unwrap_or(self.stats.ended),
            mad_status: slot.mad_status,
            errno: slot.send_failed,
            verified: who.identity == Identity::Right && status != Status::WrongDevice,
            capabilities: has.capabilities.known(),
            rs_fec: *rs_fec,
            tick: has.tick.known().and_then(|tick| Some(WaitTick { tick, of: TickOf::of(who.info.as_ref()?)? })),
            unsupported: has.unsupported(),
            forced: has.forced(),
            // What another device answered is nobody's.
            ..Sample::new(status, &self.config.groups, if status == Status::WrongDevice { &[] } else { answers })
        }
    }

    /// The round trips of a device's agent for performance management since [`forget_round_trips`](Self::forget_round_trips), in nanoseconds.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn round_trips(&self, device: usize) -> &Histogram<u64> {
        &self.devices[device].round_trips
    }

    /// Begins the round trips of all devices anew.
    pub fn forget_round_trips(&mut self) {
        self.devices.iter_mut().for_each(|device| device.round_trips.reset());
    }

    /// The sum of the slot.
    pub fn stats(&self) -> &SlotStats {
        &self.stats
    }

    /// Asks every device who it is and what it can do; ends with [`Event::DiscoveryDone`], at `close_at` at the latest.
    pub fn start_discovery(&mut self, now: Instant, close_at: Instant) {
        self.phase = Phase::Discovery { close_at };
        self.restart(now, DISCOVERY_PASSES);
        self.unsettled = self.devices.len();
        self.finish_if_settled(now);
    }

    /// Starts a slot; ends with [`Event::SlotDone`], at `close_at` at the latest. A slot that still runs is closed first.
    pub fn start_slot(&mut self, now: Instant, ask_until: Instant, close_at: Instant) {
        self.close(now);
        self.phase = Phase::Slot { ask_until, close_at, asking: true, linger: Linger::Not };
        for port in &mut self.ports {
            port.slot = InSlot::default();
        }
        for answer in &mut self.answers {
            answer.at = None;
        }
        self.unsettled = self.ports.len();
        self.restart(now, 1);
        self.finish_if_settled(now);
    }

    /// Asks nothing more. What is under way may still be answered until its grace ends, for `most` at most, and then what is running is closed.
    pub fn stop(&mut self, now: Instant, most: Duration) {
        self.stop_asking(now);
        self.ready.clear();
        self.devices.iter_mut().for_each(|device| device.passes = 0);
        self.forget_paths(now);
        if let Phase::Slot { close_at, .. } | Phase::Discovery { close_at } = &mut self.phase {
            *close_at = (*close_at).min(now + self.config.grace.min(most));
        }
        self.finish_if_settled(now);
    }

    /// Closes what is running: what was not asked is `skipped`, what was not answered is lost.
    pub fn close(&mut self, now: Instant) {
        self.stop_asking(now);
        if matches!(self.phase, Phase::Slot { .. }) {
            // What did not have its time yet is not lost.
            for transaction in self.inflight.waiting() {
                if let Purpose::Counters { port, .. } = transaction.purpose {
                    let state = &mut self.ports[port as usize].slot;
                    (state.cut_short, state.open) = (true, state.open.saturating_sub(1));
                }
            }
            for port in 0..self.ports.len() as u32 {
                let state = &mut self.ports[port as usize].slot;
                if state.status.is_none() {
                    (state.asked, state.lost, state.open) = (true, state.lost || state.open > 0, 0);
                    self.settle_if_complete(port, now);
                }
            }
        }
        self.unsettled = 0;
        self.finish_if_settled(now);
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
        self.finish_if_settled(now);
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
        self.finish_if_settled(now);
    }

    /// The next MAD to be sent, and where. `None` if the window is full or there is nothing to be asked now.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        // Whoever stood still reads replies before it lets time pass.
        if let Phase::Slot { ask_until, asking: true, .. } = self.phase
            && now >= ask_until
        {
            self.stop_asking(now);
            self.finish_if_settled(now);
        }
        if let Some(path) = self.next_path(now, mad) {
            return Some(path);
        }
        while self.inflight.pending() < self.window.now() && self.pace.next() <= now {
            let device = self.ready.pop_front()?;
            // It may be there twice, if the subnet manager said where it is meanwhile.
            let Device { outstanding, suspended, .. } = self.devices[device as usize];
            if outstanding || suspended {
                continue;
            }
            let Some((query, purpose)) = self.next_query(device, now) else {
                self.settle_discovery(device);
                self.finish_if_settled(now);
                continue;
            };
            self.pace.sent(now);
            let asked = &mut self.devices[device as usize];
            (asked.outstanding, asked.mads) = (true, asked.mads + 1);
            self.stats.mads_sent += 1;
            let target = self.target(device, &query);
            let life = self.devices[device as usize].life;
            let tid = self.inflight.insert(Transaction { device, lid: target.lid, life, query, purpose, sent: now, expired: false });
            query.emit(tid, mad);
            return Some((target, tid));
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
            Phase::Slot { ask_until, asking: true, linger, .. } => match linger {
                Linger::Until(until) => until.min(ask_until),
                Linger::Not | Linger::Over => ask_until,
            },
            Phase::Slot { close_at, .. } | Phase::Discovery { close_at } => close_at,
        };
        // Something may wait for the pace only.
        let waits = !self.ready.is_empty() && self.inflight.pending() < self.window.now();
        let paced = waits.then(|| self.pace.next());
        Some(self.inflight.next_timeout().into_iter().chain(paced).fold(phase, Instant::min))
    }
}
