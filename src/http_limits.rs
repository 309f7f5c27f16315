//! Limits the connections of an HTTP server, to keep the server available while other clients
//! hold connections open and send nothing, send slowly, or read slowly.
//!
//! Each connection occupies one of a limited number of *places*, of which there are two kinds:
//!
//! 1. A new connection gets a place for **newcomers**. The TLS handshake, the header of the
//!    request and the reply to a request without a valid password must end within
//!    [`Limits::newcomer_timeout`].
//! 2. After its request is authenticated, the connection moves to a place for **members**
//!    ([`Visitor::admit`]), so connections without a password never occupy the places of members.
//!
//! If all places of a kind are occupied, the next connection takes over a place, and the connection
//! that had it is closed: the oldest one of the client that occupies the most places. A client with
//! many connections thus closes its own ones, and another client still gets a place.
//!
//! A newcomer keeps its place for at least [`ASSURED`], whatever other clients do; until then, the
//! next connection waits. A request that arrives in this time is answered, even if the server
//! reads it later because its host is busy. A newcomer that has lost its place is closed only
//! after it has read what arrived before, and a valid password in that data still gives it a place
//! for members.
//!
//! ```
//! # async fn example(listener: tokio::net::TcpListener) -> std::io::Result<()> {
//! use ibnet::http_limits::{Gate, Limits};
//!
//! let gate = Gate::new(Limits::default());
//! loop {
//!     let (stream, peer) = listener.accept().await?;
//!     let connection = gate.connect(peer.ip()).await;
//!     let visitor = connection.visitor();
//!     tokio::spawn(connection.run(async move {
//!         // Read the request from `stream` here. Call this after the password was checked:
//!         visitor.admit();
//!         drop(stream);
//!     }));
//! }
//! # }
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Time for which a newcomer keeps its place, whatever other clients do. It is sufficient for a
/// TLS handshake and a request within a site. With 128 places, the server accepts at least 640
/// connections per second. It therefore accepts the 4,096 connections that the kernel queues for
/// a server by default in less than ten seconds, the default timeout of Prometheus.
pub const ASSURED: Duration = Duration::from_millis(200);

/// Numbers of places and time limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Max number of connections without an authenticated request.
    pub newcomers: usize,
    /// Max number of connections with an authenticated request.
    pub members: usize,
    /// Time limit of a connection without an authenticated request, counted from the time at
    /// which it got its place.
    pub newcomer_timeout: Duration,
    /// Time limit of a connection with an authenticated request, counted from the same time.
    /// `None` means no limit, for a server that sends endless streams.
    pub member_timeout: Option<Duration>,
}

impl Default for Limits {
    /// Returns limits for a server with short replies. The default timeout of Prometheus is ten
    /// seconds.
    fn default() -> Self {
        Self {
            newcomers: 128,
            members: 16,
            newcomer_timeout: Duration::from_secs(2),
            member_timeout: Some(Duration::from_secs(10)),
        }
    }
}

/// The places of a server.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    places: Mutex<Places>,
    /// Wakes the connection that waits for a place when a newcomer has freed one.
    freed: Notify,
}

/// The occupied places of both kinds, by connection id. Ids increase from connection to connection.
#[derive(Debug, Default)]
struct Places {
    next: u64,
    newcomers: BTreeMap<u64, Occupant>,
    members: BTreeMap<u64, Occupant>,
    /// Newcomers that have lost their places and are not closed yet.
    leaving: BTreeMap<u64, Occupant>,
}

#[derive(Clone, Debug)]
struct Occupant {
    client: IpAddr,
    entered: Instant,
    changed: Arc<Notify>,
}

/// Kind of place that a connection occupies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Newcomer,
    Member,
    /// Another connection has taken over the place.
    Closed,
}

/// An accepted connection. Its place becomes free when it is dropped.
#[derive(Debug)]
pub struct Connection {
    visitor: Visitor,
    entered: Instant,
}

/// A handle to a connection, for the code that checks the password of its requests.
#[derive(Clone, Debug)]
pub struct Visitor {
    gate: Arc<Gate>,
    number: u64,
    changed: Arc<Notify>,
}

impl Gate {
    /// Creates the places of a server.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            places: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Gives a newcomer place to a connection that was just accepted. If no place is free, another
    /// connection loses its place, as soon as it has had it for [`ASSURED`].
    pub async fn connect(self: &Arc<Self>, client: IpAddr) -> Connection {
        let client = network(client);
        loop {
            // After this time the runtime polls all connections for data, so the connection that
            // loses its place can read everything that arrived before.
            let looked = Instant::now();
            tokio::task::yield_now().await;
            match self.enter(client, looked, Instant::now()) {
                Ok(connection) => return connection,
                Err(until) => tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = self.freed.notified() => {}
                },
            }
        }
    }

    /// Gives a newcomer place to a connection, or returns the time until which it must wait. All
    /// data that arrived before `looked` is available to the connections.
    fn enter(
        self: &Arc<Self>,
        client: IpAddr,
        looked: Instant,
        now: Instant,
    ) -> Result<Connection, Instant> {
        let mut guard = self.lock();
        let places = &mut *guard;
        if places.newcomers.len() >= self.limits.newcomers.max(1)
            && let Some((number, entered)) = next_to_leave(&places.newcomers, client)
        {
            if entered + ASSURED > looked {
                return Err(entered + ASSURED);
            }
            if let Some(occupant) = places.newcomers.remove(&number) {
                occupant.changed.notify_one();
                places.leaving.insert(number, occupant);
            }
        }
        let (number, changed) = (places.next, Arc::<Notify>::default());
        places.next += 1;
        places.newcomers.insert(
            number,
            Occupant {
                client,
                entered: now,
                changed: Arc::clone(&changed),
            },
        );
        drop(guard);
        Ok(Connection {
            visitor: Visitor {
                gate: Arc::clone(self),
                number,
                changed,
            },
            entered: now,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // The maps stay valid if a panic occurs while they are locked.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Returns a handle for the code that checks passwords.
    pub fn visitor(&self) -> Visitor {
        self.visitor.clone()
    }

    /// Runs the work of the connection. If the time limit expires or the connection loses its
    /// place, drops the work and returns `None`, but not before the work has read what has arrived.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        loop {
            let limits = self.visitor.gate.limits;
            let standing = self.visitor.standing();
            let limit = match standing {
                Standing::Newcomer => Some(limits.newcomer_timeout),
                Standing::Member => limits.member_timeout,
                Standing::Closed => Some(Duration::ZERO),
            };
            let expired = async {
                match limit {
                    Some(limit) => tokio::time::sleep_until(self.entered + limit).await,
                    None => std::future::pending().await,
                }
            };
            // The work is polled first, because it may end or admit the connection at the moment
            // at which the limit expires.
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                () = expired => if self.visitor.standing() == standing { return None },
                () = self.visitor.changed.notified() => {}
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut places = self.visitor.gate.lock();
        let number = &self.visitor.number;
        if places.newcomers.remove(number).is_some() {
            self.visitor.gate.freed.notify_one();
        }
        places.members.remove(number);
        places.leaving.remove(number);
    }
}

impl Visitor {
    /// Moves the connection to a member place. Call this after a request was authenticated. If no
    /// place is free, another member loses its place.
    pub fn admit(&self) {
        let mut guard = self.gate.lock();
        let Places {
            newcomers,
            members,
            leaving,
            ..
        } = &mut *guard;
        // A connection that is in neither map is closed, or is already a member.
        let Some(occupant) = newcomers
            .remove(&self.number)
            .inspect(|_| self.gate.freed.notify_one())
            .or_else(|| leaving.remove(&self.number))
        else {
            return;
        };
        while members.len() >= self.gate.limits.members.max(1)
            && let Some((number, _)) = next_to_leave(members, occupant.client)
        {
            members
                .remove(&number)
                .inspect(|member| member.changed.notify_one());
        }
        members.insert(self.number, occupant);
        self.changed.notify_one();
    }

    fn standing(&self) -> Standing {
        let places = self.gate.lock();
        if places.newcomers.contains_key(&self.number) {
            Standing::Newcomer
        } else if places.members.contains_key(&self.number) {
            Standing::Member
        } else {
            Standing::Closed
        }
    }
}

/// Returns the connection that loses its place to one of `client`, and the time since which it has
/// had it: the oldest connection of the client that, with the new one, has the most places.
fn next_to_leave(places: &BTreeMap<u64, Occupant>, client: IpAddr) -> Option<(u64, Instant)> {
    let mut counts = BTreeMap::from([(client, 1_usize)]);
    places
        .values()
        .for_each(|occupant| *counts.entry(occupant.client).or_default() += 1);
    let most = places
        .values()
        .map(|occupant| counts.get(&occupant.client))
        .max();
    let oldest = places
        .iter()
        .find(|(_, occupant)| Some(counts.get(&occupant.client)) == most);
    oldest.map(|(number, occupant)| (*number, occupant.entered))
}

/// Returns the address by which the connections of one client are counted. For IPv6 it is the
/// first 64 bits, because a client can usually choose the other ones.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn gate(newcomers: usize, members: usize) -> Arc<Gate> {
        Gate::new(Limits {
            newcomers,
            members,
            newcomer_timeout: LONG,
            member_timeout: Some(LONG),
        })
    }

    fn client(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn standings(connections: &[Connection]) -> Vec<Standing> {
        connections
            .iter()
            .map(|connection| connection.visitor.standing())
            .collect()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime")
            .block_on(work)
    }

    /// Connections of clients at a time: each that had its place long enough may lose it.
    fn connect(gate: &Arc<Gate>, last: u8, now: Instant) -> Result<Connection, Instant> {
        gate.enter(client(last), now, now)
    }

    fn at_once(gate: &Arc<Gate>, last: u8) -> Connection {
        let now = Instant::now();
        gate.enter(client(last), now + LONG, now).expect("a place")
    }

    #[test]
    fn client_with_most_connections_loses_its_oldest_one() {
        use Standing::{Closed, Newcomer};
        let gate = gate(4, 4);
        let mut connections: Vec<_> = [1, 2, 2, 2].map(|last| at_once(&gate, last)).into();
        connections.push(at_once(&gate, 3));
        assert_eq!(
            standings(&connections),
            [Newcomer, Closed, Newcomer, Newcomer, Newcomer]
        );
        connections.extend([2, 2, 2, 2].map(|last| at_once(&gate, last)));
        let all = standings(&connections);
        assert_eq!(
            [all[0], all[4]],
            [Newcomer; 2],
            "the clients with one connection keep it"
        );
        assert_eq!(
            all.iter().filter(|standing| **standing == Newcomer).count(),
            4
        );
    }

    #[test]
    fn newcomer_keeps_its_place_for_the_assured_time_whatever_others_do() {
        let gate = gate(4, 1);
        let start = Instant::now();
        let mut held: Vec<_> = (0..3)
            .map(|_| connect(&gate, 1, start).expect("a free place"))
            .collect();
        let entered = start + ASSURED;
        let scrape = connect(&gate, 1, entered).expect("a free place");
        // The others close all of their connections, so this one is the oldest, and open new ones.
        held.clear();
        held.extend((0..3).map(|_| connect(&gate, 1, entered).expect("a free place")));
        for percent in 0..100 {
            let waits = connect(&gate, 1, entered + ASSURED * percent / 100).expect_err("no place");
            assert_eq!(
                (waits, scrape.visitor.standing()),
                (entered + ASSURED, Standing::Newcomer)
            );
        }
        let _next = connect(&gate, 1, entered + ASSURED).expect("a place");
        assert_eq!(scrape.visitor.standing(), Standing::Closed);
    }

    #[test]
    fn password_that_is_read_before_the_end_gives_a_place_to_a_connection_without_one() {
        let gate = gate(1, 1);
        let scrape = at_once(&gate, 1);
        let visitor = scrape.visitor();
        let _next = at_once(&gate, 1);
        assert_eq!(visitor.standing(), Standing::Closed);
        // The host was busy: the work begins after the place is lost, and waits once more.
        let work = async move {
            visitor.admit();
            tokio::task::yield_now().await;
        };
        assert_eq!(run(scrape.run(work)), Some(()));
        assert!(gate.lock().leaving.is_empty() && gate.lock().members.is_empty());
    }

    #[test]
    fn newcomers_do_not_close_members() {
        let gate = gate(2, 1);
        let member = at_once(&gate, 1);
        member.visitor().admit();
        let newcomers: Vec<_> = (0..100).map(|_| at_once(&gate, 1)).collect();
        assert_eq!(member.visitor.standing(), Standing::Member);
        assert_eq!(
            standings(&newcomers)
                .iter()
                .filter(|standing| **standing == Standing::Newcomer)
                .count(),
            2
        );
        newcomers[99].visitor().admit();
        assert_eq!(
            (member.visitor.standing(), newcomers[99].visitor.standing()),
            (Standing::Closed, Standing::Member)
        );
        member.visitor().admit();
        assert_eq!(
            member.visitor.standing(),
            Standing::Closed,
            "a member that lost its place is not admitted again"
        );
    }

    #[test]
    fn dropped_connection_frees_its_place() {
        let gate = gate(1, 1);
        for _ in 0..3 {
            let connection = run(gate.connect(client(1)));
            connection.visitor().admit();
        }
        let connection = at_once(&gate, 1);
        let visitor = connection.visitor();
        drop(connection);
        visitor.admit();
        let places = gate.lock();
        assert_eq!(
            (
                places.newcomers.len(),
                places.members.len(),
                places.leaving.len()
            ),
            (0, 0, 0)
        );
    }

    #[test]
    fn connection_waits_for_a_place_until_one_is_free() {
        let gate = gate(1, 1);
        let first = run(gate.connect(client(1)));
        let connect = async { tokio::join!(gate.connect(client(1)), async move { drop(first) }) };
        assert_eq!(run(connect).0.visitor.standing(), Standing::Newcomer);
    }

    #[test]
    fn work_ends_when_the_place_is_lost_or_the_time_is_over() {
        let gate = gate(1, 1);
        let first = run(gate.connect(client(1)));
        let second = run(gate.connect(client(1)));
        assert!(
            second.entered >= first.entered + ASSURED,
            "the first one had its time"
        );
        assert_eq!(
            run(first.run(std::future::pending::<()>())),
            None,
            "the place is lost"
        );
        assert_eq!(run(second.run(async { 7 })), Some(7));
        let short = Gate::new(Limits {
            newcomer_timeout: Duration::ZERO,
            ..Limits::default()
        });
        assert_eq!(
            run(run(short.connect(client(1))).run(std::future::pending::<()>())),
            None,
            "the time is over"
        );
    }

    #[test]
    fn member_has_the_time_limit_of_members() {
        // The time of newcomers is over when the work admits the connection.
        let gate = Gate::new(Limits {
            newcomer_timeout: Duration::ZERO,
            member_timeout: None,
            ..Limits::default()
        });
        let connection = run(gate.connect(client(1)));
        let visitor = connection.visitor();
        let work = async move {
            visitor.admit();
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(run(connection.run(work)), Some(()));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let address = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
        assert_eq!(address("::1"), address("::1"));
    }
}
