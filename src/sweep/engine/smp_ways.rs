//! The way of SMPs to each device: by LID, or by a directed route from the sending port.
//!
//! In a planarized fabric (XDR), SMPs by LID are not valid. A device there is reached by a route
//! along the cables of the plan ([`Routes`]).
//!
//! - A LID shows which device it belongs to only by an SMP to this LID. By a route, the device
//!   itself reports its LID: NodeInfo shows that the route leads to the planned device, and then
//!   PortInfo has its LID. With both, the device is verified. If the LID is another one, the device
//!   has moved there.
//! - After three NodeInfo requests without a reply, or a reply of another device on a route, the
//!   next way is tried: another route if the agent of the device answers, and with
//!   [`SmpWay::Auto`] also the LID as long as the device has answered no SMP. Only if all ways
//!   failed, the identity cannot be verified, and then each round of identity checks tries one of
//!   them.
//! - The way that was answered is kept until it fails.
//! - Without a known route, a device that is to be reached by a route gets no SMPs.

use ibnet_record::types::Lid;

use super::Engine;
use super::config::SmpWay;
use super::transmit::smp_query;
use crate::mad::directed::{self, Route};
use crate::mad::exchange::Local;
use crate::mad::header::MadStatus;
use crate::mad::pma::Data;
use crate::mad::query::Query;
use crate::mad::smp::{self, NodeInfo};
use crate::sweep::inflight::Purpose;
use crate::sweep::routes::Routes;
use crate::time::Instant;

/// The way of SMPs to one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Way {
    is_by_route: bool,
    /// The route, if one is known, and its number in [`Routes::to`].
    route: Option<(u8, Route)>,
    /// Whether the device has ever answered an SMP.
    is_proven: bool,
    /// The way of the last answer, or the first way: whether it was by a route, and which.
    home: (bool, u8),
    /// Whether all ways have failed since the last answer.
    is_given_up: bool,
    /// NodeInfo that was answered on the route, until PortInfo has the LID.
    info: Option<NodeInfo>,
}

impl Way {
    pub(super) fn new(is_by_route: bool, route: Option<(u8, Route)>) -> Self {
        Self {
            is_by_route,
            route,
            home: (is_by_route, 0),
            ..Self::default()
        }
    }

    fn place(&self) -> (bool, u8) {
        (self.is_by_route, self.route.map_or(0, |(number, _)| number))
    }

    /// Notes that the device has answered.
    fn prove(&mut self) {
        (self.is_proven, self.home, self.is_given_up) = (true, self.place(), false);
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
            ways.by_lid += usize::from(way.is_proven && !way.is_by_route);
            ways.by_route += usize::from(way.is_proven && way.is_by_route);
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
    /// ways have failed.
    fn select_next_way(&mut self, index: u32) -> bool {
        let device = &mut self.devices[index as usize];
        let (way, mode) = (&mut device.way, self.config.smp);
        let (Some(routes), Some((number, _))) = (&mut self.routes, way.route) else {
            return false;
        };
        if !way.is_by_route && (mode == SmpWay::Lid || way.is_proven) {
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
        let is_first = way.place().1 == 0;
        way.is_by_route = !(way.is_by_route && is_first && mode == SmpWay::Auto && !way.is_proven);
        way.info = None;
        way.place() != way.home
    }

    /// Handles the failure of the current way to a device: selects the next one and verifies the
    /// device on it. Returns false if all ways have failed; the next one is then tried in the next
    /// round.
    pub(super) fn try_next_way(&mut self, index: u32) -> bool {
        let has_next = self.select_next_way(index);
        let device = &mut self.devices[index as usize];
        device.way.is_given_up |= !has_next;
        if !device.way.is_given_up {
            device.identity.query();
        }
        !device.way.is_given_up
    }

    /// Notes that a device has answered NodeInfo as the planned one. Returns whether it is verified
    /// by that. If it was asked by a route, its LID is requested next.
    pub(super) fn is_verified_by(&mut self, index: u32, info: NodeInfo) -> bool {
        let device = &mut self.devices[index as usize];
        device.way.prove();
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
            return self.identity_failed(index, now);
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
