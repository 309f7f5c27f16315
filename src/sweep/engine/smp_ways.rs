//! The way of SMPs to each device: by LID, or by a directed route from the sending port.
//!
//! In a planarized fabric (XDR), SMPs by LID are not valid. A device there is reached by a route
//! along the cables of the plan ([`Routes`]).
//!
//! - A LID shows which device it belongs to only by an SMP to this LID. By a route, the device
//!   itself reports its LID: NodeInfo shows that the route leads to the planned device, and then
//!   PortInfo has its LID. With both, the device is verified. If the LID is another one, the device
//!   has moved there.
//! - After three NodeInfo requests without a reply, or on a route after one or a reply of another
//!   device, the next way is tried: another route if the agent of the device answers, and with
//!   [`SmpWay::Auto`] also the LID as long as the device has answered no SMP. Only if all ways
//!   failed, the identity cannot be verified, and then each round of identity checks tries some of
//!   them; if a route was answered before, the first one follows in 10 s, and a round of peers at
//!   once.
//! - The way that was answered is kept until it fails. If another request is lost on a route,
//!   NodeInfo shows whether the route has failed.
//! - A cable that was cut or moved makes a route lead to another device. So a new state or a new
//!   peer is used only if NodeInfo was answered on the route after the first sight of it.
//! - Routes follow the cables that the verification of peers has found.
//! - Without a known route, a device that is to be reached by a route gets no SMPs.

use std::time::Duration;

use ibnet_record::types::{Lid, PortNum};

use super::config::SmpWay;
use super::transmit::smp_query;
use super::{Engine, Event};
use crate::mad::directed::{self, Route};
use crate::mad::exchange::Local;
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::smp::{self, NodeInfo};
use crate::sweep::inflight::{Purpose, Transaction};
use crate::sweep::routes::{End, Routes};
use crate::time::Instant;

/// Time for which NodeInfo shows that a route leads to the planned device.
const DOUBTLESS: Duration = Duration::from_secs(1);

/// The way of SMPs to one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    is_by_route: bool,
    /// The route, if one is known, and its number in [`Routes::to`].
    route: Option<(u8, Route)>,
    /// Time of the last NodeInfo of the device. `None` if it has never answered an SMP.
    proven: Option<Instant>,
    /// Number of ways that have failed since then.
    failed: u8,
    /// Number of rounds of identity checks in which all ways have failed, 2 at most.
    lost_rounds: u8,
    /// Whether NodeInfo is requested again in this slot, after the counters.
    pub(super) asks: bool,
    /// Time of the first sight of something that must be proven, time of the first NodeInfo after
    /// it, and the port to read again.
    doubt: Option<Instant>,
    cleared: Option<Instant>,
    pub(super) doubted_link: Option<u32>,
    /// NodeInfo that was answered on the route, until PortInfo has the LID.
    info: Option<NodeInfo>,
}

impl Way {
    pub(super) fn new(is_by_route: bool, route: Option<(u8, Route)>) -> Self {
        Self {
            is_by_route,
            route,
            ..Self::default()
        }
    }

    /// Notes that the device has answered.
    fn prove(&mut self, now: Instant) {
        (self.proven, self.failed, self.lost_rounds) = (Some(now), 0, 0);
        if self.doubt > self.cleared {
            self.cleared = Some(now);
        }
    }

    /// Returns whether NodeInfo was answered after the last doubt, not long ago.
    fn is_clear(&self, now: Instant) -> bool {
        self.doubt <= self.cleared && self.cleared.is_some_and(|at| now < at + DOUBTLESS)
    }

    /// Returns whether all routes have failed for the first time since the last answer.
    pub(super) fn is_lost_anew(&self) -> bool {
        self.lost_rounds == 1 && self.is_by_route && self.is_proven()
    }

    /// Returns whether a way has ever been answered.
    pub(super) fn is_proven(&self) -> bool {
        self.proven.is_some()
    }

    /// Returns the route, or `None` if SMPs go by LID or no route is known.
    pub(super) fn route(&self) -> Option<Route> {
        self.route
            .filter(|_| self.is_by_route)
            .map(|(_, route)| route)
    }

    /// Returns whether SMPs can be sent.
    pub(super) fn is_known(&self) -> bool {
        !self.is_by_route || self.route.is_some()
    }

    /// Returns whether a request was sent on this way.
    pub(super) fn has_sent(&self, query: &Query) -> bool {
        let route = match query {
            Query::Directed(directed::Query { route, .. }) => Some(*route),
            _ => None,
        };
        self.route() == route
    }

    /// Returns the request on this way.
    pub(super) fn query(&self, request: smp::Query) -> Query {
        match self.route() {
            Some(route) => Query::Directed(directed::Query { request, route }),
            None => Query::Smp(request),
        }
    }
}

/// Number of devices by the way of their SMPs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SmpWays {
    /// Devices that have answered, last by LID.
    pub by_lid: usize,
    /// Devices that have answered, last by a directed route.
    pub by_route: usize,
    /// Devices to which no route is known, and which therefore get no SMPs.
    pub unknown: usize,
}

impl Engine {
    /// Sets the routes to the devices. Without this call, no route is known.
    pub fn set_routes(&mut self, routes: Routes) {
        self.routes = Some(routes);
    }

    /// Returns the number of devices by the way of their SMPs.
    pub fn smp_ways(&self) -> SmpWays {
        let mut ways = SmpWays::default();
        for way in self.devices.iter().map(|device| &device.way) {
            ways.unknown += usize::from(!way.is_known());
            ways.by_lid += usize::from(way.is_proven() && !way.is_by_route);
            ways.by_route += usize::from(way.is_proven() && way.is_by_route);
        }
        ways
    }

    /// Finds the first way to each device from the sending port, if the port has changed.
    pub(super) fn start_ways(&mut self, local: Local) {
        let Some(routes) = &mut self.routes else {
            return;
        };
        if !routes.begin_at((local.gid.guid, local.port)) {
            return;
        }
        for device in &mut self.devices {
            let route = routes.to(device.identity.expected, 0);
            let is_by_route = match self.config.smp {
                SmpWay::Lid => false,
                SmpWay::Directed => true,
                SmpWay::Auto => local.has_smi && route.is_some(),
            };
            device.way = Way::new(is_by_route, route);
        }
    }

    /// Returns whether a device can get SMPs.
    pub(super) fn has_smps(&self, index: u32) -> bool {
        !self.no_smp_agent && self.devices[index as usize].way.is_known()
    }

    /// Returns the request to the device at a LID, which need not be in the plan of this sampler.
    /// Returns `None` if it must take a route and none is known.
    pub(super) fn query_at(&mut self, lid: Lid, request: smp::Query) -> Option<Query> {
        let mut devices = self
            .devices
            .iter()
            .map(|device| (&device.way, device.path.lid));
        if let Some((way, _)) = devices.clone().find(|(_, of)| *of == lid) {
            return way.is_known().then(|| way.query(request));
        }
        let is_by_route =
            self.config.smp == SmpWay::Directed || devices.any(|(way, _)| way.is_by_route);
        if !is_by_route {
            return Some(Query::Smp(request));
        }
        let routes = self.routes.as_mut()?;
        let (_, route) = routes.to(routes.guid_at(lid)?, 0)?;
        Some(Query::Directed(directed::Query { request, route }))
    }

    /// Selects the next way to a device after the failure of the current one. Returns false if all
    /// ways have failed, each route at least once and the only route three times.
    fn select_next_way(&mut self, index: u32) -> bool {
        let device = &mut self.devices[index as usize];
        let (way, mode) = (&mut device.way, self.config.smp);
        let (Some(routes), Some((number, _))) = (&mut self.routes, way.route) else {
            return false;
        };
        if !way.is_by_route && (mode == SmpWay::Lid || way.is_proven()) {
            return false;
        }
        // A device that answers nothing shows nothing about the route.
        let is_silent = device.reachability.was_silent() && !device.reachability.has_answered();
        let next = if way.is_by_route && !is_silent {
            number + 1
        } else {
            0
        };
        way.route = routes.to(device.identity.expected, next);
        let is_first = way.route.is_none_or(|(number, _)| number == 0);
        let tries_lid = mode == SmpWay::Auto && !way.is_proven();
        way.is_by_route = !(way.is_by_route && is_first && tries_lid);
        (way.info, way.doubt, way.cleared) = (None, None, None);
        way.failed = way.failed.saturating_add(1);
        let hops = way.route.map_or(0, |(_, route)| route.ports().len());
        usize::from(way.failed) < 3.max(hops + usize::from(tries_lid))
    }

    /// Handles the failure of the current way to a device: selects the next one and verifies the
    /// device on it. Returns false if all ways have failed. Later rounds then end after three
    /// requests (`is_third`).
    pub(super) fn try_next_way(&mut self, index: u32, is_third: bool) -> bool {
        let has_next = self.select_next_way(index);
        let device = &mut self.devices[index as usize];
        let way = &mut device.way;
        if !has_next || is_third && way.lost_rounds > 0 {
            way.failed = 0;
            // The failures of a silent device are not those of its routes.
            if device.reachability.has_answered() {
                if way.is_lost_anew() {
                    self.events.push_back(Event::NoRoute(index as usize));
                }
                way.lost_rounds = 2.min(way.lost_rounds + 1);
            }
            return false;
        }
        device.state_table.read_again();
        device.links.expire();
        self.verify_way(index);
        true
    }

    /// Requests NodeInfo in this slot, to verify the way to a device.
    pub(super) fn verify_way(&mut self, index: u32) {
        let device = &mut self.devices[index as usize];
        device.identity.query();
        // A silent device is asked in the next slot.
        if device.reachability.has_answered() && device.way.lost_rounds == 0 {
            device.way.asks = true;
            self.ready.push_back(index);
        }
    }

    /// Verifies the route on which a request was lost.
    pub(super) fn suspect_route(&mut self, transaction: &Transaction) {
        let device = &self.devices[transaction.device as usize];
        if device.way.route().is_some()
            && device.way.has_sent(&transaction.query)
            && !device.identity.is_querying()
        {
            self.verify_way(transaction.device);
        }
    }

    /// Returns whether a new state or peer, from the reply to a request that was sent at `sent`, is
    /// that of the planned device. If a route has led to it, NodeInfo must show this first.
    pub(super) fn is_believed(&self, index: u32, sent: Instant, now: Instant) -> bool {
        let way = &self.devices[index as usize].way;
        way.route().is_none() || way.is_clear(now) && way.cleared <= Some(sent)
    }

    /// Reads a new state or peer again, after NodeInfo if this is still to be requested.
    pub(super) fn doubt(&mut self, index: u32, now: Instant) {
        let device = &mut self.devices[index as usize];
        if device.way.is_clear(now) {
            self.ask_doubted(index);
        } else {
            if device.way.doubt <= device.way.cleared {
                device.way.doubt = Some(now);
            }
            device.identity.query();
            let identity = (smp_query(smp::NODE_INFO, PortNum(0)), Purpose::Identity);
            device.progress.repeat.get_or_insert(identity);
        }
        self.ready.push_back(index);
    }

    /// Follows a cable that was found at a port. Devices that could not be verified are verified on
    /// the routes that lead over it now.
    pub(super) fn follow_cable(&mut self, port: u32, found: End) {
        let of = &self.ports[port as usize];
        let (device, num) = (of.device, of.num);
        let guid = self.devices[device as usize].identity.expected;
        let Some(routes) = &mut self.routes else {
            return;
        };
        if !routes.connect((guid, num), found) {
            return;
        }
        for index in 0..self.devices.len() as u32 {
            let (device, routes) = (&mut self.devices[index as usize], &mut self.routes);
            let is_lost = !device.identity.is_verified() || device.identity.is_querying();
            if device.way.is_by_route && is_lost {
                let route = routes
                    .as_mut()
                    .and_then(|routes| routes.to(device.identity.expected, 0));
                (device.way.route, device.way.info) = (route, None);
                (device.way.failed, device.way.lost_rounds) = (0, 0);
                if route.is_some() {
                    self.verify_way(index);
                }
            }
        }
    }

    /// Notes that a device has answered NodeInfo as the planned one. Returns whether it is verified
    /// by that. If it was asked by a route, its LID is requested next.
    pub(super) fn is_verified_by(&mut self, index: u32, info: NodeInfo, now: Instant) -> bool {
        let device = &mut self.devices[index as usize];
        device.way.prove(now);
        if device.way.route().is_none() {
            return true;
        }
        device.way.info = Some(info);
        // If another request is to be repeated, NodeInfo is requested again in the next pass.
        let next = (smp_query(smp::PORT_INFO, info.base_port()), Purpose::Lid);
        device.progress.repeat.get_or_insert(next);
        false
    }

    /// Takes the LID of a device from its PortInfo. The device is verified by that.
    pub(super) fn take_lid(&mut self, index: u32, answer: Result<&Data, MadStatus>, now: Instant) {
        let lid = answer.map(smp::base_lid);
        let Ok(lid) = lid.and_then(|lid| lid.is_unicast().then_some(lid).ok_or(MadStatus::OK))
        else {
            return self.identity_failed(index, true, now);
        };
        let device = &mut self.devices[index as usize];
        let Some(info) = device.way.info.take() else {
            return;
        };
        if device.path.lid != lid {
            device.discard_learned();
            (device.path.lid, device.progress.step) = (lid, 0);
            self.withhold(index, now);
            for other in 0..self.devices.len() as u32 {
                let Self { devices, .. } = self;
                let of = &devices[other as usize];
                if other != index && of.path.lid == lid && !of.identity.is_wrong() {
                    self.found_other(other, info.port_guid, now);
                    // The other device too can report its LID.
                    self.devices[other as usize].identity.verify();
                }
            }
        }
        self.verified(index, info, now);
    }
}
