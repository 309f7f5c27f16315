//! The places of queries on the threads for blocking work.
//!
//! A short query waits only for other short queries. Long queries use one place at a time, so that a
//! client with many of them does not delay the pages of other clients. Long queries of several clients
//! take turns, whatever their numbers. A client with too many long queries gets an error.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::query::error::ApiError;
use crate::state::Hub;

/// Number of queries that are computed at the same time. Further queries wait.
const QUERIES: usize = 2;

/// Number of long queries among them.
const LONG_QUERIES: usize = 1;

/// Largest number of long queries of a client, those that wait included. All clients behind one
/// proxy or tunnel have one address.
pub(crate) const LONG_OF_CLIENT: usize = 16;

/// A query with a time range up to this length is short: the page asks for such ranges all the time.
const SHORT_NS: u64 = 6 * 60_000_000_000;

/// A query of the records in memory is short up to this number of records. A thread reads them in
/// about a second.
const SHORT_RECORDS: u64 = 1_000_000;

/// How much a query reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weight {
    Short,
    Long,
}

impl Weight {
    /// Returns the weight of a query of some ports over a time range.
    pub(crate) fn of(hub: &Hub, (from, to): (u64, u64), ports: usize) -> Self {
        let (first, interval_ns) = {
            let state = hub.read();
            (state.store.first_ts().unwrap_or(0), state.samplers.interval_ns().max(1))
        };
        let length = to.saturating_sub(from);
        let has_few = (length / interval_ns).saturating_mul(ports as u64) <= SHORT_RECORDS;
        let uses_archive = from < first && hub.archive.as_ref().is_some_and(crate::archive::Archive::exists);
        if length <= SHORT_NS || (has_few && !uses_archive) { Self::Short } else { Self::Long }
    }

    /// Returns the weight of a query of all ports over a time range.
    pub(crate) fn of_all_ports(hub: &Hub, range: (u64, u64)) -> Self {
        let ports = hub.read().topology.ports.len();
        Self::of(hub, range, ports)
    }
}

/// The places of all queries.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    long: Arc<Semaphore>,
    clients: Arc<Mutex<Clients>>,
}

/// The clients with long queries. A client without an address is a test.
type Clients = HashMap<Option<IpAddr>, OfClient>;

/// The long queries of a client.
#[derive(Debug)]
struct OfClient {
    count: usize,
    /// The query that waits for the place of long queries, or has it. The others wait for their turn.
    turn: Arc<Semaphore>,
}

/// The place of a query. It becomes free when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _long: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit, Counted)>,
}

/// One of the counted long queries of a client.
#[derive(Debug)]
struct Counted {
    clients: Arc<Mutex<Clients>>,
    client: Option<IpAddr>,
}

impl Default for Places {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self { all: places(QUERIES), long: places(LONG_QUERIES), clients: Arc::default() }
    }
}

impl Places {
    /// Waits for a place.
    ///
    /// # Errors
    /// Returns an error if the client has [`LONG_OF_CLIENT`] long queries already.
    pub(crate) async fn take(&self, client: Option<IpAddr>, weight: Weight) -> Result<Place, ApiError> {
        let long = match weight {
            Weight::Short => None,
            Weight::Long => {
                let (counted, turn) = self.count(client)?;
                let turn = acquire(turn).await?;
                Some((turn, acquire(Arc::clone(&self.long)).await?, counted))
            }
        };
        Ok(Place { _all: acquire(Arc::clone(&self.all)).await?, _long: long })
    }

    fn count(&self, client: Option<IpAddr>) -> Result<(Counted, Arc<Semaphore>), ApiError> {
        let mut clients = lock(&self.clients);
        let own = clients.entry(client).or_insert_with(|| OfClient { count: 0, turn: Arc::new(Semaphore::new(1)) });
        if own.count >= LONG_OF_CLIENT {
            let reason = format!(
                "this client has {LONG_OF_CLIENT} queries of long time ranges that are not answered yet; wait for them, or ask for shorter ranges"
            );
            return Err(ApiError { status: StatusCode::SERVICE_UNAVAILABLE, reason });
        }
        own.count += 1;
        Ok((Counted { clients: Arc::clone(&self.clients), client }, Arc::clone(&own.turn)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut clients = lock(&self.clients);
        let Some(own) = clients.get_mut(&self.client) else { return };
        own.count -= 1;
        if own.count == 0 {
            clients.remove(&self.client);
        }
    }
}

async fn acquire(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    semaphore.acquire_owned().await.map_err(|_| ApiError::failed("the hub stops"))
}

/// Locks the clients. They stay valid if a thread panics.
fn lock(clients: &Mutex<Clients>) -> MutexGuard<'_, Clients> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::query::tests::{hub, lines};

    type Taken = Result<Place, ApiError>;

    /// Returns the place if the query does not wait.
    fn now(taking: Pin<&mut impl Future<Output = Taken>>) -> Option<Taken> {
        match taking.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    const fn client(number: u8) -> Option<IpAddr> {
        Some(IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, number)))
    }

    #[test]
    fn short_query_does_not_wait_for_long_ones() {
        let places = Places::default();
        let running = now(pin!(places.take(client(1), Weight::Long))).expect("it does not wait").expect("a place");
        let mut waiting: Vec<_> = (0..3).map(|number| Box::pin(places.take(client(number), Weight::Long))).collect();
        assert!(waiting.iter_mut().all(|taking| now(taking.as_mut()).is_none()));
        for number in [1, 2] {
            let short = now(pin!(places.take(client(number), Weight::Short))).expect("it does not wait");
            assert!(short.is_ok());
        }
        drop(running);
        assert!(matches!(now(waiting[0].as_mut()), Some(Ok(_))));
    }

    #[test]
    fn clients_with_long_queries_take_turns() {
        let places = Places::default();
        let running = now(pin!(places.take(client(1), Weight::Long))).expect("it does not wait").expect("a place");
        // The first client has more queries, and they came first.
        let mut first: Vec<_> = (0..3).map(|_| Box::pin(places.take(client(1), Weight::Long))).collect();
        assert!(first.iter_mut().all(|taking| now(taking.as_mut()).is_none()));
        let mut second = Box::pin(places.take(client(2), Weight::Long));
        assert!(now(second.as_mut()).is_none());
        drop(running);
        assert!(now(first[0].as_mut()).is_none(), "the second client is next");
        let taken = now(second.as_mut()).expect("it does not wait").expect("a place");
        drop(taken);
        assert!(matches!(now(first[0].as_mut()), Some(Ok(_))));
    }

    #[test]
    fn client_with_too_many_long_queries_gets_an_error() {
        let places = Places::default();
        let mut all: Vec<_> = (0..LONG_OF_CLIENT).map(|_| Box::pin(places.take(client(1), Weight::Long))).collect();
        let taken: Vec<_> = all.iter_mut().map(|taking| now(taking.as_mut())).collect();
        assert_eq!(taken.iter().filter(|taken| taken.is_some()).count(), 1);
        let refused = now(pin!(places.take(client(1), Weight::Long))).expect("it does not wait").expect_err("too many");
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(now(pin!(places.take(client(2), Weight::Long))).is_none(), "another client waits");
        assert!(matches!(now(pin!(places.take(client(1), Weight::Short))), Some(Ok(_))));
        // A client that disconnects drops its queries.
        drop((all, taken));
        assert!(lock(&places.clients).is_empty());
        assert!(matches!(now(pin!(places.take(client(1), Weight::Long))), Some(Ok(_))));
    }

    #[test]
    fn weight_depends_on_the_time_range_and_the_ports() {
        const HOUR_NS: u64 = 3600 * 1_000_000_000;
        let hub = hub(&[lines().join("\n") + "\n"]);
        let last = hub.read().store.last_ts();
        let weight = |length, ports| Weight::of(&hub, (last - length, last), ports);
        assert_eq!((weight(SHORT_NS, 40_000), weight(HOUR_NS, 40_000)), (Weight::Short, Weight::Long));
        assert_eq!((weight(24 * HOUR_NS, 2), weight(24 * HOUR_NS, 1000)), (Weight::Short, Weight::Long));
    }
}
