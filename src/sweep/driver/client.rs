//! A blocking client for one device. It sends a request, waits for the reply, and sends the
//! request again if there is none. If a device does not answer SMPs on one way, the client tries the
//! others: other routes around a link that has failed and, if any way is allowed, the LID.
//!
//! The client accepts a reply under the same conditions as a sweep: transaction, sender, class,
//! method, attribute and port must match the request. It follows one redirection and remembers the
//! new address.

use std::time::Duration;

use ibnet_record::types::{Guid, Lid, Tid};
use rustix::io::Errno;

use super::clock::{Clock, SystemClock, WallTime};
use crate::mad::directed::{self, Route};
use crate::mad::exchange::{Outcome, Target, index_of_pkey};
use crate::mad::header::MadStatus;
use crate::mad::pma::class_port_info::Redirect;
use crate::mad::query::{BadReply, Query};
use crate::mad::transport::{Transport, TransportError};
use crate::mad::{Mad, pma};
use crate::sweep::engine::SmpWay;
use crate::sweep::query::{Client, NoAnswer, Response};
use crate::sweep::routes::Routes;
use crate::time::Instant;

/// Address of a device, and how requests are sent to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// LID of the device.
    pub lid: Lid,
    /// Service level of general management packets.
    pub sl: u8,
    /// P_Key index of general management packets, unless a redirection names another P_Key.
    pub pkey_index: u16,
    /// P_Key table of the sending port, by index, as in [`index_of_pkey`].
    pub pkey_table: Vec<u16>,
    /// Max wait for the reply to one MAD.
    pub timeout: Duration,
}

/// Max number of times that a request is sent.
pub const TRIES: u32 = 3;

/// Sends requests to one device over a transport, one after another.
pub struct DeviceClient<T, C = SystemClock> {
    transport: T,
    address: Address,
    /// Routes of SMPs, and the way that is configured.
    routes: Option<(SmpWay, Routes)>,
    /// Whether SMPs go by a route and not by LID.
    is_by_route: bool,
    /// GUID of the device in the plan, and the route to it with its number in [`Routes::to`].
    guid: Option<Guid>,
    route: Option<(u8, Route)>,
    redirect: Option<Redirect>,
    next_tid: u32,
    clock: C,
    wall: WallTime,
}

/// The outcome of one MAD.
enum MadOutcome {
    Answered(Instant, Duration),
    /// Another agent answers in place of this one.
    Redirected(Redirect, Duration),
    Refused(MadStatus, Duration),
    /// The request may be sent again.
    NoAnswer(NoAnswer),
}

impl<T: Transport, C: Clock> DeviceClient<T, C> {
    /// Creates a client. TIDs count up from the seed.
    pub fn new(transport: T, clock: C, address: Address, seed: u64) -> Self {
        Self {
            transport,
            address,
            routes: None,
            is_by_route: false,
            guid: None,
            route: None,
            redirect: None,
            next_tid: seed as u32,
            wall: clock.read_wall(),
            clock,
        }
    }

    /// Sends SMPs in this way, along these routes. Without this call, they go by LID.
    #[must_use]
    pub fn with_routes(mut self, way: SmpWay, mut routes: Routes) -> Self {
        let local = self.transport.locator()();
        if let Some(local) = local {
            routes.begin_at((local.gid.guid, local.port));
        }
        let has_smi = local.is_some_and(|local| local.has_smi);
        self.is_by_route = way == SmpWay::Directed || way == SmpWay::Auto && has_smi;
        self.routes = Some((way, routes));
        self.turn_to(self.address.lid);
        self
    }

    /// Directs the next requests to the device at another LID.
    pub fn turn_to(&mut self, lid: Lid) {
        (self.address.lid, self.redirect) = (lid, None);
        let routes = self.routes.as_mut().map(|(_, routes)| routes);
        self.guid = routes.and_then(|routes| routes.guid_at(lid));
        self.select(0);
    }

    /// Selects the route with this number, or else route 0.
    fn select(&mut self, number: u8) {
        let routes = self.routes.as_mut().zip(self.guid);
        self.route = routes.and_then(|((_, routes), guid)| routes.to(guid, number));
    }

    /// Returns the way of SMPs: whether it is a route, and which.
    fn way(&self) -> (bool, u8) {
        let number = self.route.map_or(0, |(number, _)| number);
        (self.is_by_route, number * u8::from(self.is_by_route))
    }

    /// Returns the route of SMPs to the device. `None` means that they go by LID, or that no route
    /// is known.
    pub fn route(&self) -> Option<Route> {
        let route = self.route.filter(|_| self.is_by_route);
        route.map(|(_, route)| route)
    }

    /// Returns the request as it is sent: an SMP may take a route.
    pub fn routed(&self, query: &Query) -> Query {
        match (*query, self.route()) {
            (Query::Smp(request), Some(route)) => {
                Query::Directed(directed::Query { request, route })
            }
            (query, _) => query,
        }
    }

    /// Selects the next way of SMPs, round and round: each route and, with [`SmpWay::Auto`], the LID.
    fn turn(&mut self) {
        let (is_by_route, number) = self.way();
        self.select(if is_by_route { number + 1 } else { 0 });
        let is_first = self.route.is_some_and(|(number, _)| number == 0);
        let is_auto = matches!(self.routes, Some((SmpWay::Auto, _)));
        self.is_by_route ^= is_first && is_auto;
    }

    /// Sends the next requests with another service level.
    pub fn set_sl(&mut self, sl: u8) {
        self.address.sl = sl;
    }

    /// Returns the transport, for MADs that do not go through this client.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Converts the instant of an answer to nanoseconds since 1970.
    pub fn wall(&self, at: Instant) -> u64 {
        self.wall.of(at)
    }

    /// Returns the destination of a request by the same rules as a sweep. After a redirection, the
    /// destination is the other agent.
    pub fn target(&self, query: &Query) -> Target {
        let Address {
            lid,
            sl,
            pkey_index,
            timeout,
            ref pkey_table,
        } = self.address;
        let general = Target::general(lid, sl, pkey_index, timeout);
        match (query, self.redirect) {
            (Query::Smp(_), _) => Target::subnet_management(lid, timeout),
            (Query::Directed(directed::Query { route, .. }), _) => {
                Target::subnet_management(route.target(lid), timeout)
            }
            (Query::Pma(_) | Query::Clear(_), Some(redirect)) => {
                // Queue pair 0 in a redirection means queue pair 1.
                let qp = if redirect.qp == 0 {
                    general.qp
                } else {
                    redirect.qp
                };
                let pkey_index =
                    index_of_pkey(redirect.pkey, pkey_index, pkey_table).unwrap_or(pkey_index);
                Target {
                    lid: redirect.lid,
                    qp,
                    qkey: redirect.qkey,
                    sl: redirect.sl,
                    pkey_index,
                    ..general
                }
            }
            _ => general,
        }
    }

    /// Sends one MAD and waits for its outcome.
    fn send(&mut self, query: &Query, mad: &mut Mad) -> Result<MadOutcome, TransportError> {
        let (target, tid) = (self.target(query), Tid(self.next_tid));
        self.next_tid = self.next_tid.wrapping_add(1);
        query.emit(tid, mad);
        let sent = self.clock.now();
        tracing::trace!(%tid, lid = %target.lid, "send");
        if let Err(error) = self.transport.send(&target, mad, sent) {
            tracing::debug!(%error, lid = %target.lid, "not sent");
            return Ok(MadOutcome::NoAnswer(NoAnswer::NotSent(error.errno())));
        }
        let deadline = sent + self.address.timeout;
        let mut reason = NoAnswer::Silent;
        loop {
            let now = self.clock.now();
            let Some(completion) =
                self.transport
                    .recv(mad, (deadline - now).min(C::PACING.longest_wait), now)?
            else {
                // Replies that have arrived are read before the timeout is checked.
                if now >= deadline {
                    return Ok(MadOutcome::NoAnswer(reason));
                }
                continue;
            };
            // A completion of another MAD is foreign or late.
            if completion.tid != tid {
                continue;
            }
            tracing::trace!(%tid, outcome = ?completion.outcome, "completion");
            let (slid, len) = match completion.outcome {
                Outcome::Reply { slid, len } => (slid, len),
                Outcome::TimedOut => return Ok(MadOutcome::NoAnswer(reason)),
                Outcome::SendFailed(errno) => {
                    return Ok(MadOutcome::NoAnswer(NoAnswer::NotSent(errno)));
                }
                Outcome::NoAgent => {
                    return Ok(MadOutcome::NoAnswer(NoAnswer::NotSent(
                        Errno::OPNOTSUPP.raw_os_error(),
                    )));
                }
            };
            // A request by a route is not sent to the LID of the device.
            if slid != target.lid && !matches!(query, Query::Directed(_)) {
                continue;
            }
            let now = self.clock.now();
            match query.check(mad, len) {
                Ok(()) => return Ok(MadOutcome::Answered(now, now - sent)),
                // A busy agent gets the rest of the timeout before the next try.
                Err(BadReply::Status(status @ MadStatus::BUSY)) => {
                    reason = NoAnswer::Refused(status);
                }
                Err(BadReply::Status(status)) => {
                    let to = self.redirection(query, status, mad);
                    return Ok(to.map_or(MadOutcome::Refused(status, now - sent), |to| {
                        MadOutcome::Redirected(to, now - sent)
                    }));
                }
                Err(bad) => reason = NoAnswer::BadReply(bad),
            }
        }
    }

    /// Returns the agent to which a reply redirects, or `None` after the first redirection.
    fn redirection(&self, query: &Query, status: MadStatus, mad: &Mad) -> Option<Redirect> {
        let is_new = status.is_redirect() && query.is_to_agent() && self.redirect.is_none();
        Redirect::parse(pma::data(mad)).filter(|_| is_new)
    }
}

impl<T: Transport, C: Clock> Client for DeviceClient<T, C> {
    type Error = TransportError;

    fn request_mad(&mut self, query: &Query, mad: &mut Mad) -> Result<Response, TransportError> {
        let mut response = Response {
            mads: 0,
            rtt: Duration::ZERO,
            rtt_min: None,
            answer: Err(NoAnswer::Silent),
        };
        let (mut tries, first) = (0, self.way());
        loop {
            if tries == TRIES {
                // Each other way of an SMP is tried once; if all fail, the first one stays.
                if matches!(query, Query::Smp(_)) {
                    self.turn();
                }
                if self.way() == first {
                    break;
                }
                tries = TRIES - 1;
            }
            tries += 1;
            response.mads += 1;
            match self.send(&self.routed(query), mad)? {
                MadOutcome::Answered(at, rtt) => {
                    response.add_round_trip(rtt);
                    response.answer = Ok((at, *pma::data(mad)));
                    return Ok(response);
                }
                MadOutcome::Redirected(to, rtt) => {
                    tracing::info!(lid = %self.address.lid, to = %to.lid, "the device redirects queries for counters to another agent");
                    response.add_round_trip(rtt);
                    (self.redirect, tries) = (Some(to), 0);
                }
                MadOutcome::Refused(status, rtt) => {
                    response.add_round_trip(rtt);
                    response.answer = Err(NoAnswer::Refused(status));
                    return Ok(response);
                }
                MadOutcome::NoAnswer(reason) => {
                    response.mads -= u32::from(matches!(reason, NoAnswer::NotSent(_)));
                    response.answer = Err(reason);
                }
            }
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use ibnet_record::types::PortNum;

    use super::*;
    use crate::mad::MAD_LEN;
    use crate::mad::exchange::{Completion, QP1_QKEY};
    use crate::mad::header::{Header, METHOD_GET_RESP};
    use crate::mad::pma::data_mut;
    use crate::mad::transport::Locator;
    use crate::sweep::virtual_sweep::VirtualClock;

    const LID: Lid = Lid(7);
    const QUERY: Query = Query::Pma(pma::Query {
        attribute: 0x12,
        port: Some(PortNum(1)),
    });

    /// Function that returns the completions that follow a MAD.
    type Completions = fn(&Target, &Mad) -> Vec<(Completion, Mad)>;

    /// Answers each MAD by the next entry of a script. MADs after the end of the script get no
    /// answer.
    struct Script {
        script: VecDeque<Completions>,
        ready: VecDeque<(Completion, Mad)>,
        sent: Vec<Target>,
        clock: VirtualClock,
    }

    impl Transport for Script {
        fn send(
            &mut self,
            target: &Target,
            mad: &Mad,
            _now: Instant,
        ) -> Result<(), TransportError> {
            if target.sl == 15 {
                return Err(TransportError::new(
                    "umad_send",
                    Errno::INVAL.raw_os_error(),
                ));
            }
            self.sent.push(*target);
            self.ready.extend(
                self.script
                    .pop_front()
                    .map(|completions| completions(target, mad))
                    .unwrap_or_default(),
            );
            Ok(())
        }

        fn recv(
            &mut self,
            mad: &mut Mad,
            wait: Duration,
            _now: Instant,
        ) -> Result<Option<Completion>, TransportError> {
            let Some((completion, reply)) = self.ready.pop_front() else {
                self.clock.sleep(wait);
                return Ok(None);
            };
            *mad = reply;
            Ok(Some(completion))
        }

        fn locator(&self) -> Locator {
            Box::new(|| None)
        }
    }

    fn client(script: &[Completions]) -> DeviceClient<Script, VirtualClock> {
        let clock = VirtualClock::default();
        let script = script.iter().copied().collect();
        let transport = Script {
            script,
            ready: VecDeque::new(),
            sent: Vec::new(),
            clock: clock.clone(),
        };
        let address = Address {
            lid: LID,
            sl: 0,
            pkey_index: 0,
            pkey_table: Vec::new(),
            timeout: Duration::from_millis(5),
        };
        DeviceClient::new(transport, clock, address, u64::MAX)
    }

    /// Returns the reply of the device, with changes.
    fn reply(
        target: &Target,
        request: &Mad,
        change: impl FnOnce(&mut Completion, &mut Mad),
    ) -> (Completion, Mad) {
        let mut mad = *request;
        mad[3] = METHOD_GET_RESP;
        let mut completion = Completion {
            tid: Header::parse(request).tid,
            outcome: Outcome::Reply {
                slid: target.lid,
                len: MAD_LEN,
            },
        };
        change(&mut completion, &mut mad);
        (completion, mad)
    }

    const GOOD: Completions = |target, mad| vec![reply(target, mad, |_, mad| mad[100] = 9)];
    const NOTHING: Completions = |_, _| Vec::new();
    const TIMED_OUT: Completions = |target, mad| {
        vec![reply(target, mad, |completion, _| {
            completion.outcome = Outcome::TimedOut;
        })]
    };

    /// Sends one request, and returns its response and the targets of all MADs.
    fn request(script: &[Completions]) -> (Response, Vec<Target>) {
        let mut client = client(script);
        let response = client.request(&QUERY).expect("the transport is open");
        (response, client.transport.sent)
    }

    #[test]
    fn request_without_answer_is_sent_three_times() {
        let (response, sent) = request(&[NOTHING, TIMED_OUT, GOOD]);
        let (_, data) = response.answer.expect("the third is answered");
        assert_eq!((data[100 - 64], response.mads, sent.len()), (9, 3, 3));
        let (response, sent) = request(&[NOTHING, TIMED_OUT, NOTHING, GOOD]);
        assert_eq!(
            (response.answer.err(), response.mads, sent.len()),
            (Some(NoAnswer::Silent), 3, 3)
        );
    }

    #[test]
    fn request_expires_after_its_timeout() {
        let mut client = client(&[]);
        client.request(&QUERY).expect("the transport is open");
        assert_eq!(
            client.clock.now(),
            Instant::ZERO + TRIES * client.address.timeout
        );
    }

    #[test]
    fn reply_to_another_mad_or_from_another_device_is_dropped() {
        let (response, _) = request(&[|target, mad| {
            vec![
                reply(target, mad, |completion, _| {
                    completion.tid = Tid(completion.tid.0.wrapping_sub(1));
                }),
                reply(target, mad, |completion, _| {
                    completion.outcome = Outcome::Reply {
                        slid: Lid(8),
                        len: MAD_LEN,
                    }
                }),
                reply(target, mad, |_, mad| mad[100] = 9),
            ]
        }]);
        assert_eq!(
            (
                response.answer.map(|(_, data)| data[100 - 64]),
                response.mads
            ),
            (Ok(9), 1)
        );
    }

    #[test]
    fn bad_reply_is_reported_if_no_good_one_follows() {
        const OTHER_PORT: Completions =
            |target, mad| vec![reply(target, mad, |_, mad| mad[65] = 2)];
        let (response, _) = request(&[OTHER_PORT, OTHER_PORT, OTHER_PORT]);
        assert_eq!(
            (response.answer.err(), response.mads),
            (Some(NoAnswer::BadReply(BadReply::PortSelect(2))), 3)
        );
        let (response, _) = request(&[OTHER_PORT, GOOD]);
        assert!(response.answer.is_ok());
    }

    #[test]
    fn refusal_is_final_unless_the_agent_is_busy() {
        let (response, sent) = request(&[
            |target, mad| vec![reply(target, mad, |_, mad| mad[5] = 0x0c)],
            GOOD,
        ]);
        assert_eq!(
            (response.answer.err(), sent.len()),
            (Some(NoAnswer::Refused(MadStatus::UNSUPPORTED_ATTRIBUTE)), 1)
        );
        let (response, sent) = request(&[
            |target, mad| vec![reply(target, mad, |_, mad| mad[5] = 1)],
            GOOD,
        ]);
        assert_eq!((response.answer.is_ok(), sent.len()), (true, 2));
    }

    #[test]
    fn redirection_is_followed_once_and_remembered() {
        const AWAY: Completions = |target, mad| {
            vec![reply(target, mad, |_, mad| {
                mad[5] = 2;
                Redirect {
                    lid: Lid(9),
                    qp: 0,
                    qkey: QP1_QKEY,
                    sl: 3,
                    pkey: 0xffff,
                }
                .emit(data_mut(mad));
            })]
        };
        let mut client = client(&[AWAY, GOOD, GOOD, AWAY]);
        for mads in [2, 1] {
            let response = client.request(&QUERY).expect("the transport is open");
            assert_eq!((response.answer.is_ok(), response.mads), (true, mads));
        }
        let response = client.request(&QUERY).expect("the transport is open");
        assert_eq!(
            response.answer.err(),
            Some(NoAnswer::Refused(MadStatus::REDIRECT)),
            "a second redirection is not followed"
        );
        let lids: Vec<_> = client
            .transport
            .sent
            .iter()
            .map(|target| (target.lid.0, target.qp, target.sl))
            .collect();
        assert_eq!(lids, [(7, 1, 0), (9, 1, 3), (9, 1, 3), (9, 1, 3)]);
        // Queries for the identity still go to the device itself.
        let identity = Query::Smp(crate::mad::smp::Query {
            attribute: 0x11,
            modifier: 0,
        });
        assert_eq!(
            (client.target(&identity).lid, client.target(&identity).qp),
            (LID, 0)
        );
    }

    #[test]
    fn redirection_selects_the_pkey_of_the_port_that_matches() {
        const AWAY: Completions = |target, mad| {
            vec![reply(target, mad, |_, mad| {
                mad[5] = 2;
                Redirect {
                    lid: Lid(9),
                    qp: 0,
                    qkey: QP1_QKEY,
                    sl: 3,
                    pkey: 0x0001,
                }
                .emit(data_mut(mad));
            })]
        };
        for (pkey_table, index) in [
            (vec![0xffff, 0x7fff, 0x8001], 2),
            (vec![0xffff, 0x7fff, 0x0001], 0),
            (Vec::new(), 0),
        ] {
            let mut client = client(&[AWAY, GOOD]);
            client.address.pkey_table = pkey_table;
            let response = client.request(&QUERY).expect("the transport is open");
            assert!(response.answer.is_ok());
            let sent: Vec<_> = client
                .transport
                .sent
                .iter()
                .map(|target| (target.lid.0, target.pkey_index))
                .collect();
            assert_eq!(sent, [(7, 0), (9, index)]);
        }
    }

    #[test]
    fn request_that_cannot_be_sent_reports_its_errno() {
        let mut client = client(&[]);
        client.address.sl = 15;
        let response = client.request(&QUERY).expect("the transport is open");
        assert_eq!(
            (response.answer.err(), response.mads),
            (Some(NoAnswer::NotSent(Errno::INVAL.raw_os_error())), 0)
        );
    }
}
