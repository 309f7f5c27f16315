//! Decides which request is sent next, and what a reply means. It performs no I/O and reads no
//! clock.
//!
//! 1. An *end* is where a route ends: a port that was reached through one port of another end. Each
//!    end has at most one request in flight: NodeInfo, then NodeDescription and PortInfo if its
//!    node is new.
//! 2. A node is known by its node GUID. The first end of a switch reads all of its ports, and each
//!    port with a working cable leads to a new end. The port that received the request leads back,
//!    so it is not followed, and neither is a port whose other end has already been reached.
//! 3. A request without a reply is sent again with a longer timeout, at most [`TRIES`] times in
//!    all. Then the end is given up, and it is named in the report.
//! 4. The window is limited, and adapts to losses like that of a sweep ([`Window`]). It is so small
//!    that even after timeouts, which a kernel ends late, the kernel does not queue an SMP (see
//!    [`smp_limit`](crate::sweep::smp_limit)).
//! 5. If two devices have the same GUID, the first that answers is explored. Both lead to the same
//!    node, as with `ibnetdiscover`; [`report`](super::report) decides which links remain.

use std::collections::VecDeque;
use std::time::Duration;

use ibnet_record::types::{Guid, Lid, NodeKind, PortNum, Tid};
use rustc_hash::FxHashMap;

use crate::mad::Mad;
use crate::mad::directed::{self, MAX_HOPS, PERMISSIVE_LID, Route};
use crate::mad::exchange::Target;
use crate::mad::header::MadStatus;
use crate::mad::pma::{Bits, data};
use crate::mad::query::{BadReply, Query};
use crate::mad::smp::{self, NodeInfo, PortInfo};
use crate::sweep::window::Window;
use crate::time::Instant;

/// Max number of requests in flight.
const WINDOW: usize = 64;

/// Timeout of the first try of a request.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Max number of nodes; a subnet has at most 49,151 LIDs. Devices that invent others could fill the
/// memory.
const MAX_NODES: usize = 65_536;

/// Number of times that a request is sent before its end is given up.
pub const TRIES: u32 = 10;

/// Number of tries after which the timeout of a request, which doubles with each try, is the
/// longest.
const DOUBLINGS: u32 = 2;

/// The state of a discovery.
#[derive(Debug)]
pub struct Exploration {
    pub(super) ends: Vec<End>,
    pub(super) nodes: Vec<Node>,
    by_guid: FxHashMap<Guid, u32>,
    /// Ends whose next request can be sent.
    ready: VecDeque<u32>,
    /// Requests in flight. The lowest octet of a TID is the place here.
    flights: Vec<Option<Flight>>,
    in_flight: usize,
    /// No request in flight times out before this instant.
    next_timeout: Instant,
    window: Window,
    /// Requests that ended since the window was last adapted, and those of them that timed out.
    ended: (u64, u64),
    next_tid: u32,
    sent: u64,
    /// Requests that are answered or given up, and all that are known to be needed.
    steps: (u64, u64),
}

/// The end of a route.
#[derive(Debug)]
pub(super) struct End {
    /// The end through whose port this one was reached. `None` for the port of this host.
    pub(super) via: Option<(u32, PortNum)>,
    hops: usize,
    /// The node that answered, and its port that received the request.
    pub(super) found: Option<(u32, PortNum)>,
    pub(super) guid: Guid,
    /// The received port of an HCA or a router.
    pub(super) port: Option<PortState>,
    step: Step,
    tries: u32,
    /// Whether a request of this end was given up.
    pub(super) is_silent: bool,
}

/// A node: a switch, or all ports of an HCA or a router.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) guid: Guid,
    pub(super) port_guid: Guid,
    pub(super) kind: NodeKind,
    pub(super) name: String,
    /// The end that reads the properties of the node.
    pub(super) first: u32,
    /// By port number, from 0.
    pub(super) ports: Vec<Port>,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Port {
    /// State of the port of a switch.
    pub(super) state: Option<PortState>,
    /// The other end that was found last.
    peer: Option<(u32, PortNum)>,
    /// Whether an end was reached through the port.
    followed: bool,
}

/// The part of PortInfo that a net file contains.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PortState {
    pub(super) lid: Lid,
    pub(super) info: PortInfo,
}

/// The next request of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Node,
    Name,
    Port(u8),
    End,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    end: u32,
    tid: Tid,
    deadline: Instant,
}

/// Number of octets of a node description that `ibnetdiscover` prints.
const LONGEST_NAME: usize = 63;

/// Returns a node description as `ibnetdiscover` prints it: up to its first zero byte, and with a
/// blank for each byte that is no printable ASCII character.
fn printed(octets: &[u8]) -> String {
    let text = octets.iter().take_while(|octet| **octet != 0);
    let is_plain = |octet: &u8| *octet == b' ' || octet.is_ascii_graphic();
    text.map(|octet| {
        if is_plain(octet) {
            char::from(*octet)
        } else {
            ' '
        }
    })
    .collect()
}

impl Step {
    fn request(self, route: Route) -> directed::Query {
        let (attribute, port) = match self {
            Self::Node | Self::End => (smp::NODE_INFO, 0),
            Self::Name => (smp::NODE_DESCRIPTION, 0),
            Self::Port(port) => (smp::PORT_INFO, port),
        };
        let request = smp::Query {
            attribute,
            modifier: port.into(),
        };
        directed::Query { request, route }
    }
}

impl Exploration {
    /// Creates a discovery that begins at the port of this host. TIDs count up from the seed.
    pub fn new(seed: u64) -> Self {
        let mut new = Self {
            ends: Vec::new(),
            nodes: Vec::new(),
            by_guid: FxHashMap::default(),
            ready: VecDeque::new(),
            flights: vec![None; WINDOW],
            in_flight: 0,
            next_timeout: Instant::ZERO,
            window: Window::new(WINDOW),
            ended: (0, 0),
            next_tid: seed as u32,
            sent: 0,
            steps: (0, 0),
        };
        new.add_end(None, 0);
        new
    }

    /// Writes the next request into `mad` and returns its target. Returns `None` if no request may
    /// be sent now.
    pub fn poll(&mut self, now: Instant, mad: &mut Mad) -> Option<Target> {
        if self.in_flight > 0 && self.next_timeout <= now {
            self.expire(now);
        }
        if self.in_flight >= self.window.now() {
            return None;
        }
        let place = self.flights.iter().position(Option::is_none)?;
        let end = self.ready.pop_front()?;
        let End { step, tries, .. } = self.ends[end as usize];
        let tid = Tid(self.next_tid << 8 | place as u32);
        self.next_tid = self.next_tid.wrapping_add(1);
        let timeout = TIMEOUT * (1 << tries.min(DOUBLINGS));
        let deadline = now + timeout;
        self.next_timeout = match self.in_flight {
            0 => deadline,
            _ => self.next_timeout.min(deadline),
        };
        self.flights[place] = Some(Flight { end, tid, deadline });
        self.in_flight += 1;
        self.sent += 1;
        step.request(self.route(end)).emit(tid, mad);
        Some(Target::subnet_management(PERMISSIVE_LID, timeout))
    }

    /// Returns the earliest instant at which a request times out, or `None` if none is in flight.
    pub fn next_timeout(&self) -> Option<Instant> {
        (self.in_flight > 0).then_some(self.next_timeout)
    }

    /// Returns whether everything that can be reached was read or given up.
    pub fn is_done(&self) -> bool {
        self.in_flight == 0 && self.ready.is_empty()
    }

    /// Returns the number of requests that are answered or given up, and the number of those that
    /// are known to be needed.
    pub fn steps(&self) -> (u64, u64) {
        self.steps
    }

    /// Returns the number of MADs that were sent, with repetitions.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Handles a received MAD. Ignores one that answers no request in flight.
    pub fn reply(&mut self, tid: Tid, mad: &Mad, len: usize) {
        let Some(flight) = self.flight(tid) else {
            return;
        };
        let end = flight.end;
        let step = self.ends[end as usize].step;
        let next = match Query::Directed(step.request(Route::HERE)).check(mad, len) {
            Ok(()) => self.take(end, step, mad),
            // A busy agent gets the rest of the timeout before the next try.
            Err(BadReply::Status(status)) if status != MadStatus::BUSY => {
                self.ends[end as usize].is_silent |= step == Step::Node;
                self.after(end, step)
            }
            Err(_) => return,
        };
        self.land(flight, false);
        self.go_on(end, next);
    }

    /// Handles a request that the transport reports as timed out.
    pub fn timed_out(&mut self, tid: Tid) {
        let Some(flight) = self.flight(tid) else {
            return;
        };
        self.land(flight, true);
        let end = flight.end;
        let state = &mut self.ends[end as usize];
        state.tries += 1;
        if state.tries < TRIES {
            self.ready.push_back(end);
        } else {
            state.is_silent = true;
            self.go_on(end, Step::End);
        }
    }

    fn expire(&mut self, now: Instant) {
        for place in 0..self.flights.len() {
            if let Some(flight) = self.flights[place].filter(|flight| flight.deadline <= now) {
                self.timed_out(flight.tid);
            }
        }
        let deadlines = self.flights.iter().flatten().map(|flight| flight.deadline);
        self.next_timeout = deadlines.min().unwrap_or(now);
    }

    fn flight(&self, tid: Tid) -> Option<Flight> {
        let place = (tid.0 & 0xff) as usize;
        (*self.flights.get(place)?).filter(|flight| flight.tid == tid)
    }

    /// Ends a request, and adapts the window.
    fn land(&mut self, Flight { end, tid, .. }: Flight, is_lost: bool) {
        self.flights[(tid.0 & 0xff) as usize] = None;
        self.in_flight -= 1;
        // An end that has never answered has no device, or a silent one: it shows no loss.
        let counts = u64::from(self.ends[end as usize].found.is_some());
        self.ended.0 += counts;
        self.ended.1 += counts * u64::from(is_lost);
        if self.ended.0 >= WINDOW as u64 {
            let (ended, lost) = std::mem::take(&mut self.ended);
            if let Some(change) = self.window.adapt(ended, lost) {
                tracing::debug!(
                    from = change.from,
                    to = change.to,
                    "the window of the discovery changes"
                );
            }
        }
    }

    /// Prepares the next request of an end.
    fn go_on(&mut self, end: u32, next: Step) {
        self.steps.0 += 1;
        let state = &mut self.ends[end as usize];
        (state.step, state.tries) = (next, 0);
        if next != Step::End {
            self.ready.push_back(end);
        }
    }

    /// Returns the step that follows after one that was answered or refused.
    fn after(&self, end: u32, step: Step) -> Step {
        let state = &self.ends[end as usize];
        let Some((node, received_by)) = state.found else {
            return Step::End;
        };
        let node = &self.nodes[node as usize];
        match (step, node.kind) {
            (Step::Node, NodeKind::Switch) if node.first != end => Step::End,
            (Step::Node, _) if node.first == end => Step::Name,
            (Step::Name, NodeKind::Switch) => Step::Port(0),
            (Step::Node | Step::Name, _) => Step::Port(received_by.0),
            (Step::Port(port), NodeKind::Switch) if usize::from(port) + 1 < node.ports.len() => {
                Step::Port(port + 1)
            }
            _ => Step::End,
        }
    }

    /// Takes the answer to a request. Returns the next step.
    fn take(&mut self, end: u32, step: Step, mad: &Mad) -> Step {
        let data = data(mad);
        match step {
            Step::Node => self.take_node(end, &NodeInfo::parse(data)),
            Step::Name => {
                if let Some((node, _)) = self.ends[end as usize].found {
                    self.nodes[node as usize].name = printed(&data[..LONGEST_NAME]);
                }
            }
            Step::Port(port) => {
                let state = PortState {
                    lid: smp::base_lid(data),
                    info: PortInfo::parse(data),
                };
                let is_up = smp::PHYSICAL_STATE.raw(data, 0) == smp::LINK_UP;
                self.take_port(end, PortNum(port), state, is_up);
            }
            Step::End => {}
        }
        self.after(end, step)
    }

    fn take_node(&mut self, end: u32, info: &NodeInfo) {
        let is_known = self.by_guid.contains_key(&info.node_guid);
        let is_possible = info.local_port.0 <= info.ports && info.ports < u8::MAX;
        let has_room = is_known || self.nodes.len() < MAX_NODES;
        let Some(kind) = info.kind.filter(|_| is_possible && has_room) else {
            return self.ends[end as usize].is_silent = true;
        };
        let new = self.nodes.len() as u32;
        let node = *self.by_guid.entry(info.node_guid).or_insert(new);
        if node == new {
            self.steps.1 += match kind {
                NodeKind::Switch => u64::from(info.ports) + 2,
                NodeKind::Hca | NodeKind::Router => 1,
            };
            self.nodes.push(Node {
                guid: info.node_guid,
                port_guid: info.port_guid,
                kind,
                name: String::new(),
                first: end,
                ports: vec![Port::default(); usize::from(info.ports) + 1],
            });
        }
        let known = &self.nodes[node as usize];
        // Two devices with the same GUID and different numbers of ports.
        if usize::from(info.local_port.0) >= known.ports.len() {
            return self.ends[end as usize].is_silent = true;
        }
        self.steps.1 += u64::from(known.kind != NodeKind::Switch);
        let state = &mut self.ends[end as usize];
        (state.found, state.guid) = (Some((node, info.local_port)), info.port_guid);
        let Some((from, port)) = state.via else {
            return;
        };
        let Some((from, _)) = self.ends[from as usize].found else {
            return;
        };
        let peers = [(from, port), (node, info.local_port)];
        for (own, other) in [(peers[0], peers[1]), (peers[1], peers[0])] {
            let place = &mut self.nodes[own.0 as usize].ports[usize::from(own.1.0)];
            // If two ports lead to one, the port itself shows which of them is its peer.
            if place
                .peer
                .replace(other)
                .is_some_and(|before| before != other)
            {
                self.follow(own.0, own.1);
            }
        }
    }

    fn take_port(&mut self, end: u32, port: PortNum, state: PortState, is_up: bool) {
        let Some((index, _)) = self.ends[end as usize].found else {
            return;
        };
        let node = &mut self.nodes[index as usize];
        if node.kind == NodeKind::Switch {
            let place = &mut node.ports[usize::from(port.0)];
            place.state = Some(state);
            if is_up && place.peer.is_none() {
                self.follow(index, port);
            }
            return;
        }
        self.ends[end as usize].port = Some(state);
        // An HCA forwards only the requests of its own host.
        if is_up && self.ends[end as usize].via.is_none() {
            self.add_end(Some((end, port)), 1);
        }
    }

    /// Adds the end behind a port of a switch.
    fn follow(&mut self, node: u32, port: PortNum) {
        let node = &mut self.nodes[node as usize];
        let first = node.first;
        let received_by = self.ends[first as usize].found.map(|(_, port)| port);
        let place = &mut node.ports[usize::from(port.0)];
        let is_outward = node.kind == NodeKind::Switch && port.0 > 0 && received_by != Some(port);
        let hops = self.ends[first as usize].hops + 1;
        if is_outward && !place.followed && hops <= MAX_HOPS {
            place.followed = true;
            self.add_end(Some((first, port)), hops);
        }
    }

    fn add_end(&mut self, via: Option<(u32, PortNum)>, hops: usize) {
        self.ready.push_back(self.ends.len() as u32);
        self.steps.1 += 1;
        self.ends.push(End {
            via,
            hops,
            found: None,
            guid: Guid(0),
            port: None,
            step: Step::Node,
            tries: 0,
            is_silent: false,
        });
    }

    /// Returns the ports on the way to an end.
    pub(super) fn route(&self, end: u32) -> Route {
        Route::back(end, |at| self.ends[at as usize].via).unwrap_or(Route::HERE)
    }
}
