//! Limits of the connections of an HTTP server. They keep the server available while other clients
//! hold connections open and send nothing, send slowly, or read slowly.
//!
//! A connection has one of a limited number of *places*. There are two kinds of places:
//!
//! 1. A new connection gets a place for **newcomers**. The TLS handshake, the header of the request
//!    and the reply to a request without a valid password must end within
//!    [`Limits::newcomer_timeout`].
//! 2. After its request is authenticated, the connection moves to a place for **members**
//!    ([`Visitor::admit`]). So connections without a password never use the places of members.
//!
//! If all places of a kind are occupied, a connection
//! loses its place and is closed: the oldest one of the client that has most places. So a client
//! with many connections closes its own connections, and another client still gets a place. While all
//! places for newcomers are occupied, the server accepts at most one connection per millisecond. So
//! a request that arrives without delay is answered before its connection can lose its place.
//!
//! ```
//! # async fn example(listener: tokio::net::TcpListener) -> std::io::Result<()> {
//! use ibnet::http_limits::{Gate, Limits};
//!
//! let gate = Gate::new(Limits::default());
//! loop {
//!     let (stream, peer) = listener.accept().await?;
//!     let connection = gate.connect(peer.ip());
//!     let visitor = connection.visitor();
//!     tokio::spawn(connection.run(async move {
//!         // Read the request from `stream` here. Call this after the password was checked:
//!         visitor.admit();
//!         drop(stream);
//!     }));
//!     gate.pause().await;
//! }
//! # }
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Pause after each accepted connection while all places for newcomers are occupied.
const CROWDED_PAUSE: Duration = Duration::from_millis(1);

/// Numbers of places and time limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest number of connections without an authenticated request.
    pub newcomers: usize,
    /// Largest number of connections with an authenticated request.
    pub members: usize,
    /// Time limit of a connection without an authenticated request, from its acceptance.
    pub newcomer_timeout: Duration,
    /// Time limit of a connection with an authenticated request, from its acceptance. `None` means
    /// no limit, for a server that sends endless streams.
    pub member_timeout: Option<Duration>,
}

impl Default for Limits {
    /// Returns limits for a server whose replies are short. Prometheus waits for ten seconds by
    /// default.
    fn default() -> Self {
        Self { newcomers: 128, members: 16, newcomer_timeout: Duration::from_secs(2), member_timeout: Some(Duration::from_secs(10)) }
    }
}

/// The places of a server.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    places: Mutex<Places>,
}

/// The occupied places of both kinds. The number of a connection increases with each connection.
#[derive(Debug, Default)]
struct Places {
    next: u64,
    newcomers: BTreeMap<u64, Occupant>,
    members: BTreeMap<u64, Occupant>,
}

#[derive(Clone, Debug)]
struct Occupant {
    client: IpAddr,
    changed: Arc<Notify>,
}

/// Kind of the place of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    Newcomer,
    Member,
    /// Another connection got the place.
    Closed,
}

/// An accepted connection. Its place becomes free when it is dropped.
#[derive(Debug)]
pub struct Connection {
    visitor: Visitor,
    accepted: Instant,
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
        Arc::new(Self { limits, places: Mutex::default() })
    }

    /// Gives a place for newcomers to a connection that was accepted now. If no place is free,
    /// another connection loses its place.
    pub fn connect(self: &Arc<Self>, client: IpAddr) -> Connection {
        let changed = Arc::<Notify>::default();
        let mut places = self.lock();
        let number = places.next;
        places.next += 1;
        enter(&mut places.newcomers, self.limits.newcomers, number, Occupant { client: network(client), changed: Arc::clone(&changed) });
        drop(places);
        Connection { visitor: Visitor { gate: Arc::clone(self), number, changed }, accepted: Instant::now() }
    }

    /// Waits until the next connection may be accepted. Call this after each accepted connection.
    ///
    /// In this time, the connections that lost their places are closed.
    pub async fn pause(&self) {
        if self.lock().newcomers.len() >= self.limits.newcomers {
            tokio::time::sleep(CROWDED_PAUSE).await;
        } else {
            tokio::task::yield_now().await;
        }
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

    /// Runs the work of the connection. Drops the work and returns `None` if the time limit expires
    /// or if the connection loses its place.
    pub async fn run<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(work);
        loop {
            let limits = self.visitor.gate.limits;
            let standing = self.visitor.standing();
            let limit = match standing {
                Standing::Newcomer => Some(limits.newcomer_timeout),
                Standing::Member => limits.member_timeout,
                Standing::Closed => return None,
            };
            let expired = async {
                match limit {
                    Some(limit) => tokio::time::sleep_until(self.accepted + limit).await,
                    None => std::future::pending().await,
                }
            };
            // The work comes first: it may end, or admit the connection, at the end of the time.
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
        places.newcomers.remove(&self.visitor.number);
        places.members.remove(&self.visitor.number);
    }
}

impl Visitor {
    /// Moves the connection to a place for members. Call this after a request was authenticated. If
    /// no place is free, another member loses its place.
    pub fn admit(&self) {
        let mut places = self.gate.lock();
        // The connection may have lost its place, or may be a member already.
        if let Some(occupant) = places.newcomers.remove(&self.number) {
            enter(&mut places.members, self.gate.limits.members, self.number, occupant);
            self.changed.notify_one();
        }
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

/// Adds an occupant. If no place is free, removes the oldest connection of the client that has most
/// places.
fn enter(places: &mut BTreeMap<u64, Occupant>, limit: usize, number: u64, occupant: Occupant) {
    places.insert(number, occupant);
    while places.len() > limit.max(1) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        places.values().for_each(|occupant| *counts.entry(occupant.client).or_default() += 1);
        let most = counts.values().copied().max();
        let oldest = places.iter().find(|(_, occupant)| counts.get(&occupant.client).copied() == most).map(|(number, _)| *number);
        let Some(removed) = oldest.and_then(|number| places.remove(&number)) else { return };
        removed.changed.notify_one();
    }
}

/// Returns the address by which connections of one client are counted. A client usually has 64 bits
/// of an IPv6 address at its disposal.
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
        Gate::new(Limits { newcomers, members, newcomer_timeout: LONG, member_timeout: Some(LONG) })
    }

    fn client(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn standings(connections: &[Connection]) -> Vec<Standing> {
        connections.iter().map(|connection| connection.visitor.standing()).collect()
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
    }

    #[test]
    fn client_with_most_connections_loses_its_oldest_one() {
        use Standing::{Closed, Newcomer};
        let gate = gate(4, 4);
        let mut connections: Vec<_> = [1, 2, 2, 2].map(|last| gate.connect(client(last))).into();
        connections.push(gate.connect(client(3)));
        assert_eq!(standings(&connections), [Newcomer, Closed, Newcomer, Newcomer, Newcomer]);
        connections.extend([2, 2, 2, 2].map(|last| gate.connect(client(last))));
        let all = standings(&connections);
        assert_eq!([all[0], all[4]], [Newcomer; 2], "the clients with one connection keep it");
        assert_eq!(all.iter().filter(|standing| **standing == Newcomer).count(), 4);
    }

    #[test]
    fn newcomers_do_not_close_members() {
        let gate = gate(2, 1);
        let member = gate.connect(client(1));
        member.visitor().admit();
        let newcomers: Vec<_> = (0..100).map(|_| gate.connect(client(1))).collect();
        assert_eq!(member.visitor.standing(), Standing::Member);
        assert_eq!(standings(&newcomers).iter().filter(|standing| **standing == Standing::Newcomer).count(), 2);
        newcomers[0].visitor().admit();
        assert_eq!(newcomers[0].visitor.standing(), Standing::Closed, "a closed connection is not admitted");
        newcomers[99].visitor().admit();
        assert_eq!((member.visitor.standing(), newcomers[99].visitor.standing()), (Standing::Closed, Standing::Member));
    }

    #[test]
    fn dropped_connection_frees_its_place() {
        let gate = gate(1, 1);
        for _ in 0..3 {
            let connection = gate.connect(client(1));
            connection.visitor().admit();
        }
        let places = gate.lock();
        assert_eq!((places.newcomers.len(), places.members.len()), (0, 0));
    }

    #[test]
    fn work_ends_when_the_place_is_lost_or_the_time_is_over() {
        let gate = gate(1, 1);
        let first = gate.connect(client(1));
        let visitor = first.visitor();
        let second = gate.connect(client(1));
        assert_eq!(run(first.run(std::future::pending::<()>())), None, "the place is lost");
        visitor.admit();
        assert_eq!(run(second.run(async { 7 })), Some(7));
        let short = Gate::new(Limits { newcomer_timeout: Duration::ZERO, ..Limits::default() });
        assert_eq!(run(short.connect(client(1)).run(std::future::pending::<()>())), None, "the time is over");
    }

    #[test]
    fn member_has_the_time_limit_of_members() {
        // The time of newcomers is over when the work admits the connection.
        let gate = Gate::new(Limits { newcomer_timeout: Duration::ZERO, member_timeout: None, ..Limits::default() });
        let connection = gate.connect(client(1));
        let visitor = connection.visitor();
        let work = async move {
            visitor.admit();
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(run(connection.run(work)), Some(()));
    }

    #[test]
    fn crowded_server_waits_before_it_accepts_again() {
        let gate = gate(1, 1);
        let _connection = gate.connect(client(1));
        let start = Instant::now();
        run(gate.pause());
        assert!(start.elapsed() >= CROWDED_PAUSE);
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
