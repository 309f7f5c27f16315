//! The engine decides which request is sent next and evaluates the replies.
//!
//! It performs no I/O, reads no clock and has no randomness of its own: the time and a seed are
//! arguments. A caller uses it as follows:
//!
//! 1. Call a `handle_*` or `start_*` method.
//! 2. Call [`poll_transmit`](Engine::poll_transmit) until it returns `None`, and send the MADs.
//! 3. Call [`poll_event`](Engine::poll_event) until it returns `None`.
//! 4. Wait for the completion of a MAD, at most until [`poll_timeout`](Engine::poll_timeout).
//!
//! The time must not decrease from call to call. The engine *settles* a port when it gives the
//! port its final status for the slot.
//!
//! The engine follows these rules, which have the same numbers in `docs/inside/sampling.md`:
//!
//! - **2** A device has at most one MAD in flight, and all devices together have at most `window`.
//!   All MADs of a port are sent one after another.
//! - **3** The engine starts with the device that has the longest estimated service time and stays
//!   with it until all of its ports are done. Devices that were not finished in earlier slots come
//!   first, the one that has waited longest before the others; each continues at the port at which
//!   its last slot stopped.
//! - **4** A MAD *expires* at its timeout and leaves the window. A reply still counts until the
//!   end of the grace period, but its port is then `late`. After the first expired MAD of a port,
//!   the engine skips the port's remaining groups. After three consecutive MADs without a reply,
//!   it sends the device no further request, and when the grace periods of these MADs have ended,
//!   the other ports of the device become `unreachable`. Any reply makes the device reachable
//!   again. To protect a slow device from too many requests, it never has more than three
//!   unanswered MADs, including expired ones; if the device answers a MAD in time, earlier expired
//!   MADs are lost and no longer included. A device that did not answer in a whole slot is queried
//!   last in the next one.
//! - **5** At the time `ask_until`, the ports that were not completely queried become `skipped`.
//!   At the time `close_at` the slot ends. Every port gets exactly one [`Event::Port`].
//! - **6** A reply counts only if TID, sender, class, method, attribute and PortSelect match the
//!   request. The engine counts duplicate, foreign and malformed replies separately; they do not
//!   settle a port.
//!
//! Some rules come from the InfiniBand specification:
//!
//! | rule | IBA vol. 1 |
//! |---|---|
//! | a reply is matched by class and the lower 32 bits of the TID | C13-19.1.1 |
//! | fields of the header; status codes | 13.4.2; 13.4.7 |
//! | ClassPortInfo of a redirection: LID, queue pair, Q_Key, SL, P_Key | 13.5.4, 13.4.8.1 |
//! | ClassPortInfo and PortCounters are mandatory | 16.1.3.1, 16.1.3.5 |
//! | NodeInfo has the port GUID of the device at a LID | 14.2.5.3 |
//! | PathRecord has the LID of a port GUID and the service level to it | 15.2.5.16 |
//! | SMInfo has GUID, priority and state of a subnet manager | 14.2.5.13 |
//!
//! | file | contents |
//! |---|---|
//! | `config` | settings and plan |
//! | `event` | events |
//! | `slot` | start and end of a slot or a discovery |
//! | `transmit` | the next request to a device |
//! | `replies` | evaluation of replies |
//! | `failures` | requests without a reply |
//! | `identity` | verification of the device that answers at a LID |
//! | `smp_ways` | SMPs by LID or by directed routes |
//! | `path_queries` | path records of the subnet manager |
//! | `subnet_managers` | SMInfo of the subnet managers |
//! | `state_tables` | states of all ports of a switch, with one SMP |
//! | `groups` | counter groups that a device has |
//! | `clear` | clearing of counters after their reading |
//! | `due` | the groups of a port that are requested in a slot |
//! | `peers` | verification of the device at the other end of each cable |
//! | `physical` | registers of the physical layer, below the counters |
//! | `forwarding` | forwarding tables of switches, below the counters |
//! | `last_reads` | the last reply of each group |
//! | `state` | state of each device and port |

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::Status;
use ibnet_record::types::{NodeKind, Tid};

pub use self::config::{Config, DevicePlan, SmpWay};
pub use self::event::{Event, Key};
use self::forwarding::Forwarding;
pub use self::forwarding::{ForwardingReading, ROUTES_EARLY, ROUTES_RATE, Table};
use self::groups::Groups;
use self::last_reads::LastReads;
use self::path_queries::{MANAGER_TIMEOUTS, MAX_UNANSWERED, Manager};
use self::peers::Peers;
use self::physical::Physical;
pub use self::physical::{Item, Items, Lacking, PhysicalConfig, PhysicalReading};
use self::ready::Ready;
pub use self::smp_ways::SmpWays;
use self::state::{Device, PortProgress, PortState, SendError};
pub use self::subnet_managers::{MANAGERS_EVERY, ManagerPort, SubnetManager};
use self::subnet_managers::{MAX_MANAGERS, SubnetManagers};
use super::blocked::{TickOf, WaitTick};
use super::inflight::{Inflight, Purpose, Timeouts, Transaction};
use super::routes::Routes;
use super::sample::{Answer, Sample};
use super::smp_limit::SmpLimit;
use super::stats::{Durations, SlotStats};
use super::window::{Pace, Window};
use crate::mad::Mad;
use crate::mad::exchange::{Completion, Outcome, Target};
use crate::mad::pma::DATA_LEN;
use crate::mad::query::Query;
use crate::mad::smp;
use crate::time::Instant;

mod clear;
mod config;
mod due;
mod event;
mod failures;
mod forwarding;
mod groups;
mod identity;
mod last_reads;
mod path_queries;
mod peers;
mod physical;
mod ready;
mod replies;
mod slot;
mod smp_ways;
mod state;
mod state_tables;
mod subnet_managers;
#[cfg(test)]
mod tests;
mod transmit;

/// Sweeps the counters of ports, slot by slot. The [module](self) describes how a caller uses it.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    devices: Vec<Device>,
    ports: Vec<PortState>,
    /// Replies of the slot, one for each port and group. The replies of a port are adjacent.
    answers: Vec<Answer>,
    last_reads: LastReads,
    /// Number of the next slot.
    next_slot: u64,
    /// Devices in the order in which a slot queries them.
    order: Vec<u32>,
    /// Devices that may be queried now.
    ready: Ready,
    inflight: Inflight,
    smp_limit: SmpLimit,
    /// Time at which an SMP may be sent, if all ready devices wait to send one.
    smps_wait: Option<Instant>,
    events: VecDeque<Event>,
    phase: Phase,
    stats: SlotStats,
    /// In a slot, the number of ports without a final status; in a discovery, the number of
    /// devices that are not finished.
    unsettled: usize,
    manager: Manager,
    peers: Peers,
    physical: Physical,
    forwarding: Forwarding,
    subnet_managers: SubnetManagers,
    /// Directed routes to the devices, if the cables are known.
    routes: Option<Routes>,
    window: Window,
    pace: Pace,
    /// Whether the transport has no agent for subnet management.
    no_smp_agent: bool,
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
        /// Whether counters are still requested.
        requesting: bool,
        final_wait: FinalWait,
    },
}

/// Waiting for the subnet manager after all ports of a slot are settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FinalWait {
    NotStarted,
    Until(Instant),
    Over,
}

/// Number of passes over the checks of each device in a discovery. The first three query
/// PortSamplesControl, which has OptionMask. If the device does not answer, three more passes
/// probe the optional groups: they test whether the device answers for each of them.
const DISCOVERY_PASSES: u8 = 6;

impl Engine {
    /// Creates an engine for these devices. The first TID is the lower 32 bits of the seed, and
    /// each further TID is larger by one.
    pub fn new(plan: &[DevicePlan], config: Config, seed: u64) -> Self {
        let mut devices = Vec::with_capacity(plan.len());
        let mut ports = Vec::new();
        let groups = Groups::new(&config.groups, &config.force_groups);
        for (index, device) in plan.iter().enumerate() {
            let first = ports.len() as u32;
            ports.extend(
                device
                    .ports
                    .iter()
                    .map(|num| PortState::new(index as u32, *num)),
            );
            devices.push(Device::new(
                (device, config.smp),
                first..ports.len() as u32,
                groups.of_kind(device.kind),
            ));
        }
        let answers = vec![
            Answer {
                at: None,
                data: [0; DATA_LEN]
            };
            ports.len() * config.groups.len()
        ];
        // In its grace period, each port has at most one transaction. In addition, each device has
        // at most one pending transaction and one check, and each subnet manager has one
        // transaction.
        let capacity = ports.len() + 2 * devices.len() + config.window + MAX_MANAGERS;
        let of_device = |port: &PortState| {
            let device = &devices[port.device as usize];
            let first = ports.get(device.ports.start as usize);
            let is_first = first.is_some_and(|first| first.num == port.num);
            (device.kind, is_first)
        };
        let physical = Physical::new(config.physical, ports.iter().map(of_device));
        let is_read = |device: &Device| config.forwarding && device.kind == NodeKind::Switch;
        let switches = (0..).zip(&devices).filter(|(_, device)| is_read(device));
        let forwarding =
            Forwarding::new(switches.map(|(index, device)| (index, device.ports.len())));
        let agents = Timeouts {
            timeout: config.timeout,
            grace: config.grace,
        };
        Self {
            inflight: Inflight::new(
                seed as u32,
                (capacity, agents),
                (MAX_UNANSWERED, MANAGER_TIMEOUTS),
                (physical::QUEUED + forwarding.queued(), physical.timeouts()),
            ),
            smp_limit: SmpLimit::default(),
            smps_wait: None,
            last_reads: LastReads::new(ports.len(), config.groups.len()),
            next_slot: 0,
            order: (0..devices.len() as u32).collect(),
            ready: Ready::with_capacity(devices.len()),
            events: VecDeque::with_capacity(
                2 * ports.len() + 4 * devices.len() + 2 * MAX_MANAGERS + 3,
            ),
            phase: Phase::Idle,
            stats: SlotStats::default(),
            unsettled: 0,
            manager: Manager::new(devices.len()),
            peers: Peers::default(),
            physical,
            forwarding,
            subnet_managers: SubnetManagers::default(),
            routes: None,
            window: Window::new(config.window),
            pace: Pace::new(config.max_mads_per_second),
            no_smp_agent: false,
            config,
            devices,
            ports,
            answers,
        }
    }

    /// Returns the number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns the sample of a port in this slot. The sample is complete after the [`Event::Port`]
    /// of the port, and valid until the next slot starts.
    ///
    /// # Panics
    /// Panics if there is no such port.
    pub fn sample(&self, port: usize) -> Sample<'_> {
        let groups = self.config.groups.len();
        let PortState {
            device,
            slot,
            rs_fec,
            ..
        } = &self.ports[port];
        let Device {
            groups: has,
            identity,
            ..
        } = &self.devices[*device as usize];
        let status = slot.status.unwrap_or(Status::Skipped);
        let answers = &self.answers[port * groups..(port + 1) * groups];
        Sample {
            rtt: slot.rtt,
            rtt_min: slot.rtt_min,
            mads: slot.mads,
            at: slot.at.unwrap_or(self.stats.ended),
            mad_status: slot.mad_status,
            errno: slot.send_error.map(SendError::errno),
            verified: identity.is_verified() && status != Status::WrongDevice,
            capabilities: has.capabilities.known(),
            rs_fec: *rs_fec,
            tick: has.tick.known().and_then(|tick| {
                Some(WaitTick {
                    tick,
                    of: TickOf::of(identity.info()?)?,
                })
            }),
            unsupported: has.unsupported(),
            forced: has.forced(),
            cleared: slot.cleared,
            cadence: &self.config.cadence,
            circumstances: self.circumstances(port as u32),
            // Replies of another device are not returned.
            ..Sample::new(
                status,
                &self.config.groups,
                if status == Status::WrongDevice {
                    &[]
                } else {
                    answers
                },
            )
        }
    }

    /// Sets the data rate of a port's link in Gb/s. `None` means unknown.
    pub fn set_capacity(&mut self, port: usize, gbps: Option<f64>) {
        self.ports[port].capacity_gbps = gbps;
    }

    /// Returns the round trips of a device's performance management agent since the last
    /// [`reset_round_trips`](Self::reset_round_trips), in nanoseconds.
    ///
    /// # Panics
    /// Panics if there is no such device.
    pub fn round_trips(&self, device: usize) -> &Durations {
        &self.devices[device].service.round_trips
    }

    /// Returns the shortest of these round trips in nanoseconds, exactly. `None` without one.
    ///
    /// # Panics
    /// Panics if there is no such device.
    pub fn shortest_round_trip(&self, device: usize) -> Option<u64> {
        self.devices[device].service.shortest
    }

    /// Returns the newest NodeInfo of a device. `None` if the device never answered it.
    ///
    /// # Panics
    /// Panics if there is no such device.
    pub fn node_info(&self, device: usize) -> Option<&smp::NodeInfo> {
        self.devices[device].identity.info()
    }

    /// Clears the round trips of all devices.
    pub fn reset_round_trips(&mut self) {
        self.devices
            .iter_mut()
            .for_each(|device| device.service.reset());
    }

    /// Returns the totals of the slot.
    pub fn stats(&self) -> &SlotStats {
        &self.stats
    }

    /// Starts a discovery, which queries the identity and the capabilities of every device. It
    /// ends with [`Event::DiscoveryDone`], not later than `close_at`.
    pub fn start_discovery(&mut self, now: Instant, close_at: Instant) {
        self.phase = Phase::Discovery { close_at };
        self.restart(now, DISCOVERY_PASSES);
        self.unsettled = self.devices.len();
        self.finish_if_settled(now);
    }

    /// Sets the number of the next slot. Without this call, slots are numbered consecutively. The
    /// [cadence](Config::cadence) of groups depends on these numbers.
    pub fn number_next_slot(&mut self, number: u64) {
        self.next_slot = number;
    }

    /// Starts a slot, which ends with [`Event::SlotDone`], not later than `close_at`. A slot that
    /// still runs is closed first.
    pub fn start_slot(&mut self, now: Instant, ask_until: Instant, close_at: Instant) {
        self.close(now);
        let others = self.stats.mads_sent.saturating_sub(self.physical_sent());
        self.start_physical(others, now);
        self.start_forwarding(now);
        self.last_reads.set_slot(self.next_slot);
        self.next_slot += 1;
        self.phase = Phase::Slot {
            ask_until,
            close_at,
            requesting: true,
            final_wait: FinalWait::NotStarted,
        };
        for port in &mut self.ports {
            port.slot = PortProgress::default();
        }
        for answer in &mut self.answers {
            answer.at = None;
        }
        self.unsettled = self.ports.len();
        self.restart(now, 1);
        self.start_state_tables(now);
        self.start_peers(now);
        self.finish_if_settled(now);
    }

    /// Sends no more requests. Replies to requests in flight count until the grace period ends or
    /// the time `longest` has passed; then the slot or discovery is closed.
    pub fn stop(&mut self, now: Instant, longest: Duration) {
        self.stop_requesting(now);
        self.ready.clear();
        self.devices
            .iter_mut()
            .for_each(|device| device.progress.passes = 0);
        self.drop_path_queries(now);
        if let Phase::Slot { close_at, .. } | Phase::Discovery { close_at } = &mut self.phase {
            *close_at = (*close_at).min(now + self.config.grace.min(longest));
        }
        self.finish_if_settled(now);
    }

    /// Closes the slot or discovery. Ports that were not queried become `skipped`. Unanswered
    /// requests count as lost only if their timeout has passed.
    pub fn close(&mut self, now: Instant) {
        self.stop_requesting(now);
        if matches!(self.phase, Phase::Slot { .. }) {
            for transaction in self.inflight.waiting() {
                match transaction.purpose {
                    Purpose::Counters { port, .. } => {
                        let progress = &mut self.ports[port as usize].slot;
                        progress.cut_short = true;
                        progress.close_one();
                    }
                    Purpose::Clear { port, .. } => self.ports[port as usize].slot.close_one(),
                    _ => {}
                }
            }
            for port in 0..self.ports.len() as u32 {
                let progress = &mut self.ports[port as usize].slot;
                if progress.status.is_none() {
                    (progress.all_sent, progress.lost, progress.open) =
                        (true, progress.lost || progress.open > 0, 0);
                    self.settle_if_complete(port, now);
                }
            }
        }
        self.unsettled = 0;
        self.finish_if_settled(now);
    }

    /// Handles a completion of the transport. `mad` has the bytes of a reply.
    pub fn handle_completion(&mut self, completion: &Completion, mad: &Mad, now: Instant) {
        self.smp_limit.ended(completion.tid);
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
                self.not_sent(completion.tid, SendError::Errno(errno), now);
            }
            Outcome::NoAgent => self.not_sent(completion.tid, SendError::NoAgent, now),
        }
        self.finish_if_settled(now);
    }

    /// Handles everything that is due by `now`: timeouts, grace periods, `ask_until`, and the end
    /// of the slot.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, transaction)) = self.inflight.next_expired(now) {
            self.expired(&transaction, transaction.sent + self.config.timeout);
        }
        while let Some((_, transaction)) = self.inflight.next_given_up(now) {
            self.given_up(&transaction, now);
        }
        match self.phase {
            Phase::Slot { close_at, .. } | Phase::Discovery { close_at } if now >= close_at => {
                self.close(now);
            }
            Phase::Slot {
                ask_until,
                requesting: true,
                ..
            } if now >= ask_until => self.stop_requesting(now),
            _ => {}
        }
        self.finish_if_settled(now);
    }

    /// Writes the next MAD into `mad` and returns its target and TID. Returns `None` if the window
    /// is full or no request is due.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        let next = self.next_transmit(now, mad);
        next.or_else(|| self.next_forwarding_query(now, mad))
            .or_else(|| self.next_physical_query(now, mad))
    }

    /// Returns the next MAD, unless it is one for forwarding tables or the physical layer, which
    /// come last.
    fn next_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        // After a stall of the process, the driver reads waiting replies before it calls
        // `handle_timeout`. `ask_until` may then have passed already, so it is checked here too.
        if let Phase::Slot {
            ask_until,
            requesting: true,
            ..
        } = self.phase
            && now >= ask_until
        {
            self.stop_requesting(now);
            self.finish_if_settled(now);
        }
        if let Some(path) = self.next_path_query(now, mad) {
            return Some(path);
        }
        if let Some(peer) = self.next_peer_query(now, mad) {
            return Some(peer);
        }
        if let Some(manager) = self.next_manager_query(now, mad) {
            return Some(manager);
        }
        self.smps_wait = None;
        let mut held_back = 0;
        while self.inflight.pending() < self.window.now() && self.pace.next() <= now {
            if held_back > 0 && held_back >= self.ready.len() {
                self.smps_wait = self.smp_limit.free_at(now);
                return None;
            }
            let index = self.ready.pop()?;
            // A device is in the queue twice if its states come first, or if a path record with its
            // new LID has arrived in the meantime.
            if !self.devices[index as usize].flight.is_free() {
                continue;
            }
            if self.next_is_smp(index) && self.smp_limit.free_at(now).is_some() {
                self.ready.push_back(index);
                held_back += 1;
                continue;
            }
            let Some((query, purpose)) = self.next_query(index, now) else {
                self.settle_discovery(index);
                self.finish_if_settled(now);
                continue;
            };
            let device = &mut self.devices[index as usize];
            device.flight.send();
            device.reachability.send();
            return Some(self.send(index, query, purpose, now, mad));
        }
        None
    }

    /// Writes a request that belongs to a device into `mad`, and returns its target and TID.
    fn send(
        &mut self,
        index: u32,
        query: Query,
        purpose: Purpose,
        now: Instant,
        mad: &mut Mad,
    ) -> (Target, Tid) {
        let query = match query {
            Query::Smp(request) => self.devices[index as usize].way.query(request),
            other => other,
        };
        let mut target = self.target(index, &query);
        if !purpose.is_to_agent() {
            target.give_up = self.physical.timeouts().grace;
        }
        let transaction = Transaction {
            device: index,
            lid: target.lid,
            generation: self.devices[index as usize].generation,
            query,
            purpose,
            sent: now,
            expired: false,
        };
        let tid = self.inflight.insert(transaction);
        if matches!(query, Query::Smp(_) | Query::Directed(_)) {
            self.smp_limit.sent(tid, now + target.give_up);
        }
        self.pace.sent(now);
        self.stats.mads_sent += 1;
        query.emit(tid, mad);
        (target, tid)
    }

    /// Returns the next event.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next, or
    /// `None` if the engine is idle.
    #[must_use]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Idle => return None,
            Phase::Slot {
                ask_until,
                requesting: true,
                final_wait,
                ..
            } => match final_wait {
                FinalWait::Until(until) => until.min(ask_until),
                FinalWait::NotStarted | FinalWait::Over => ask_until,
            },
            Phase::Slot { close_at, .. } | Phase::Discovery { close_at } => close_at,
        };
        // With ready devices and a free window, a request can only wait for the limit of MADs per
        // second or of SMPs in flight.
        let waits = !self.ready.is_empty() && self.inflight.pending() < self.window.now();
        let paced = waits.then(|| self.smps_wait.unwrap_or_else(|| self.pace.next()));
        let retry = self.manager.next_retry();
        Some(
            self.inflight
                .next_timeout()
                .into_iter()
                .chain(paced)
                .chain(retry)
                .chain(self.physical_wait())
                .chain(self.forwarding_wait())
                .fold(phase, Instant::min),
        )
    }
}
