//! Limits how many queries run at the same time on the threads for blocking work.
//!
//! A running query holds a *place*. A short query waits only for other short queries. Long queries
//! share a single place, so that they do not delay the live pages of other clients.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::query::error::ApiError;
use crate::state::Hub;

/// Max number of queries that run at the same time. Further queries wait.
const QUERIES: usize = 2;

/// Max number of long queries among them.
const LONG_QUERIES: usize = 1;

/// A query over at most this time is short, because the web page sends such queries all the time.
const SHORT_NS: u64 = 6 * 60_000_000_000;

/// A query of at most this many records in memory is short. A thread reads them in about a second.
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
            (
                state.store.first_ts().unwrap_or(0),
                state.samplers.interval_ns().max(1),
            )
        };
        let length = to.saturating_sub(from);
        let has_few = (length / interval_ns).saturating_mul(ports as u64) <= SHORT_RECORDS;
        let uses_archive = from < first
            && hub
                .archive
                .as_ref()
                .is_some_and(crate::archive::Archive::exists);
        if length <= SHORT_NS || (has_few && !uses_archive) {
            Self::Short
        } else {
            Self::Long
        }
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
}

/// A query's place, which becomes free on drop.
#[derive(Debug)]
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _long: Option<OwnedSemaphorePermit>,
}

impl Default for Places {
    fn default() -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            all: places(QUERIES),
            long: places(LONG_QUERIES),
        }
    }
}

impl Places {
    /// Waits for a place.
    ///
    /// # Errors
    /// Returns an error if the hub stops.
    pub(crate) async fn take(&self, weight: Weight) -> Result<Place, ApiError> {
        let long = match weight {
            Weight::Short => None,
            Weight::Long => Some(acquire(&self.long).await?),
        };
        Ok(Place {
            _all: acquire(&self.all).await?,
            _long: long,
        })
    }
}

async fn acquire(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(semaphore)
        .acquire_owned()
        .await
        .map_err(|_| ApiError::failed("the hub stops"))
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

    #[test]
    fn short_query_does_not_wait_for_long_ones() {
        let places = Places::default();
        let running = now(pin!(places.take(Weight::Long)))
            .expect("it does not wait")
            .expect("a place");
        let mut waiting: Vec<_> = (0..3)
            .map(|_| Box::pin(places.take(Weight::Long)))
            .collect();
        assert!(
            waiting
                .iter_mut()
                .all(|taking| now(taking.as_mut()).is_none())
        );
        assert!(matches!(now(pin!(places.take(Weight::Short))), Some(Ok(_))));
        drop(running);
        assert!(matches!(now(waiting[0].as_mut()), Some(Ok(_))));
    }

    #[test]
    fn weight_depends_on_the_time_range_and_the_ports() {
        const HOUR_NS: u64 = 3600 * 1_000_000_000;
        let hub = hub(&[lines().join("\n") + "\n"]);
        let last = hub.read().newest_ns();
        let weight = |length, ports| Weight::of(&hub, (last - length, last), ports);
        assert_eq!(
            (weight(SHORT_NS, 40_000), weight(HOUR_NS, 40_000)),
            (Weight::Short, Weight::Long)
        );
        assert_eq!(
            (weight(24 * HOUR_NS, 2), weight(24 * HOUR_NS, 1000)),
            (Weight::Short, Weight::Long)
        );
    }
}
