//! Verifies the peer of each switch port: which device is at the other end of the cable.
//!
//! In each round, the engine sends one request per port to the device behind the port
//! ([`directed`](crate::mad::directed)). It compares the GUID and the port number in the reply
//! with the plan, so a moved cable is reported before there is a new plan.
//!
//! - Counters are never delayed, because these requests are sent only after all ports of the slot
//!   are settled. A slot sends at most [`PER_SLOT`] of them, with at most [`IN_FLIGHT`] in flight.
//! - The device that does not answer is not the switch that forwards the request, so these
//!   requests do not count for the reachability of the switch.
//! - A peer that does not answer for three consecutive rounds, for example because it requires an
//!   M_Key, is queried only in every tenth round.
//! - Without an agent for this class, no peer is verified.

use std::collections::VecDeque;

use ibnet_record::types::{NodeKind, Tid};

use super::{Engine, Event, Phase};
use crate::mad::Mad;
use crate::mad::directed::{self, Route};
use crate::mad::exchange::Target;
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::sweep::inflight::{Purpose, Transaction};
use crate::sweep::routes::End as Peer;
use crate::time::Instant;

/// Max number of requests in a slot.
const PER_SLOT: u32 = 16;

/// Max number of requests in flight.
const IN_FLIGHT: u32 = 4;

/// Number of consecutive rounds without a reply after which a peer is queried less often.
const MAX_FAILED: u32 = 3;

/// A peer that does not answer is queried once in this number of rounds.
const RARELY: u32 = 10;

/// The verification of the peers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// State of each port. Empty if peers are not verified.
    ports: Vec<PeerState>,
    /// Ports that are still to be queried in this round.
    due: VecDeque<u32>,
    next_round: Option<Instant>,
    sent_in_slot: u32,
    in_flight: u32,
}

/// State of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PeerState {
    /// Planned peer. `None` if the port is not verified.
    planned: Option<Peer>,
    /// Last peer that answered, if it was not the planned one.
    other: Option<Peer>,
    /// Number of consecutive rounds without a reply.
    failed: u32,
    /// Whether another peer has answered, and is requested again after NodeInfo of the switch.
    is_doubted: bool,
}

impl Peers {
    /// Starts the next round in the next slot: its peers show to where a cable was moved.
    pub(super) fn start_soon(&mut self) {
        self.next_round = None;
    }
}

#[cfg(test)]
impl Peers {
    /// Returns the number of consecutive rounds without a reply for a port.
    pub(super) fn failures_of(&self, port: usize) -> u32 {
        self.ports[port].failed
    }
}

impl Engine {
    /// Sets the planned peer of each port. Without this call, the engine does not verify peers.
    /// Ports of HCAs are not verified, because an HCA does not forward requests; the switch port
    /// at the other end of the cable is.
    pub fn verify_peers(&mut self, planned: impl IntoIterator<Item = Option<Peer>>) {
        let is_switch =
            |port: usize| self.devices[self.ports[port].device as usize].kind == NodeKind::Switch;
        let states = planned.into_iter().take(self.ports.len()).enumerate();
        let state = |(port, planned): (usize, Option<Peer>)| PeerState {
            planned: planned.filter(|_| is_switch(port)),
            ..PeerState::default()
        };
        self.peers.ports = states.map(state).collect();
        self.peers.due = VecDeque::with_capacity(self.peers.ports.len());
    }

    /// Starts a round at the start of a slot, if one is due.
    pub(super) fn start_peers(&mut self, now: Instant) {
        (self.peers.sent_in_slot, self.peers.in_flight) = (0, 0);
        let is_due =
            self.peers.due.is_empty() && self.peers.next_round.is_none_or(|next| next <= now);
        if !is_due || self.peers.ports.is_empty() || self.no_smp_agent {
            return;
        }
        self.peers.next_round = Some(now + self.config.identity_every);
        let Self {
            peers: Peers { ports, due, .. },
            ports: states,
            ..
        } = self;
        for ((index, port), state) in (0_u32..).zip(ports).zip(states) {
            let is_down = state.link.is_some_and(|link| link.state == PortInfo::DOWN);
            if port.planned.is_none() || is_down {
                continue;
            }
            if port.failed < MAX_FAILED || port.failed % RARELY == 0 {
                due.push_back(index);
            } else {
                port.failed = port.failed.saturating_add(1);
            }
        }
    }

    /// Returns whether the slot has more requests to send for peers.
    pub(super) fn has_peers_to_query(&self) -> bool {
        !self.peers.due.is_empty() && self.peers.sent_in_slot < PER_SLOT
    }

    /// Writes the next request for a peer into `mad` and returns its target and TID. Returns
    /// `None` if no request may be sent now.
    pub(super) fn next_peer_query(&mut self, now: Instant, mad: &mut Mad) -> Option<(Target, Tid)> {
        let is_time = self.unsettled == 0
            && matches!(
                self.phase,
                Phase::Slot {
                    requesting: true,
                    ..
                }
            );
        if !is_time
            || self.peers.in_flight >= IN_FLIGHT
            || self.inflight.pending() >= self.window.now()
        {
            return None;
        }
        while self.has_peers_to_query() {
            if self.smp_limit.free_at(now).is_some() || self.pace.next() > now {
                // The remaining peers are queried in the next slot.
                self.peers.sent_in_slot = PER_SLOT;
                self.finish_if_settled(now);
                return None;
            }
            let port = self.peers.due.pop_front()?;
            let (index, num) = (
                self.ports[port as usize].device,
                self.ports[port as usize].num,
            );
            let device = &self.devices[index as usize];
            // The reply is meaningful only if the planned switch forwards the request.
            if !device.identity.is_verified() || device.reachability.was_silent() {
                continue;
            }
            let to_switch = match device.way.route() {
                Some(route) => route,
                None => Route::behind_lid(self.manager.local.lid),
            };
            let Some(route) = to_switch.then(num) else {
                continue;
            };
            let request = smp::Query {
                attribute: smp::NODE_INFO,
                modifier: 0,
            };
            let query = Query::Directed(directed::Query { request, route });
            self.peers.sent_in_slot += 1;
            self.peers.in_flight += 1;
            return Some(self.send(index, query, Purpose::Peer { port }, now, mad));
        }
        self.finish_if_settled(now);
        None
    }

    pub(super) fn take_peer(
        &mut self,
        transaction: &Transaction,
        port: u32,
        answer: Result<&Data, MadStatus>,
        now: Instant,
    ) {
        self.peers.in_flight = self.peers.in_flight.saturating_sub(1);
        let Some(state) = self.peers.ports.get_mut(port as usize) else {
            return;
        };
        let Ok(data) = answer else { return };
        if transaction.generation != self.devices[transaction.device as usize].generation {
            return;
        }
        let info = NodeInfo::parse(data);
        let found = (info.port_guid, info.local_port);
        let other = Some(found).filter(|found| Some(*found) != state.planned);
        state.failed = 0;
        if state.other == other {
            return;
        }
        state.is_doubted = true;
        if !self.is_believed(transaction.device, transaction.sent, now) {
            return self.doubt(transaction.device, now);
        }
        let state = &mut self.peers.ports[port as usize];
        (state.other, state.is_doubted) = (other, false);
        self.events.push_back(Event::Peer {
            port: port as usize,
            found,
        });
        self.follow_cable(port, found);
    }

    /// Requests the peers of a verified switch again that were seen before it was verified.
    pub(super) fn ask_doubted_peers(&mut self, index: u32) {
        for port in self.devices[index as usize].ports.clone() {
            if let Some(state) = self.peers.ports.get_mut(port as usize)
                && std::mem::take(&mut state.is_doubted)
            {
                self.peers.due.push_front(port);
            }
        }
    }

    /// Handles a request to a peer without a reply.
    pub(super) fn peer_failed(&mut self, port: u32) {
        self.peers.in_flight = self.peers.in_flight.saturating_sub(1);
        if let Some(state) = self.peers.ports.get_mut(port as usize) {
            state.failed = state.failed.saturating_add(1);
        }
    }

    /// Verifies no peers from now on, because the transport has no agent for these requests.
    pub(super) fn do_without_peers(&mut self) {
        self.peers = Peers::default();
    }
}
