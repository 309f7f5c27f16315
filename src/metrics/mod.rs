//! Metrics for Prometheus: the last slot of every HCA port worker, as OpenMetrics text over HTTP.
//! Off unless [`Settings`] have an address.
//!
//! 1. **A scrape delays no MAD.** After a slot its worker copies the values into a snapshot of its
//!    own and swaps a pointer. A worker never waits for a scrape, and a scrape never waits for a
//!    worker. The text of a slot is made once, however many scrapes read it.
//! 2. **No old value looks fresh.** A port that did not answer in the last slot has no counters,
//!    only `ibnet_port_up 0`. A worker whose last slot is overdue has no counters at all, and
//!    `ibnet_up 0`.
//! 3. **Counters are those of the devices**: cumulative, in octets, and other tools may clear them.
//!    Their names are those of existing exporters, so that their dashboards work; `docs/metrics.md`
//!    lists them.
//! 4. **The address decides who may read**: on a loopback address every user of this host. Any
//!    other address requires TLS and a password.
//!
//! This module reads no clock. The caller passes a function that returns the time.

mod encode;
mod names;
mod secrets;
mod server;
mod settings;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use self::snapshot::Snapshot;
use crate::types::{Guid, Lid, NodeKind};

pub use self::secrets::{SecretFile, SecretsError};
pub use self::server::{Server, ServerError};
pub use self::settings::{Raw, Settings, SettingsError};
pub use self::snapshot::Publisher;

/// The devices at the other ends of links, from a plan: the kind of the node if it is known, and
/// the LID.
pub type Peers = BTreeMap<Guid, (Option<NodeKind>, Lid)>;

/// Returns the time since an arbitrary start; never decreases.
pub type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// The metrics of all HCA port workers of a process.
pub struct Metrics {
    workers: Mutex<Vec<snapshot::Shared>>,
    peers: Mutex<Arc<Peers>>,
    clock: Clock,
    encoded: Mutex<Encoded>,
}

/// The last text, and the snapshots from which it was made.
#[derive(Default)]
struct Encoded {
    /// Publication time and freshness of each snapshot.
    source: Vec<(Duration, bool)>,
    text: Bytes,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("workers", &lock(&self.workers).len()).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Creates metrics without workers. `clock` must never go backwards; it gives the publication
    /// times.
    pub fn new(peers: Peers, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { workers: Mutex::default(), peers: Mutex::new(Arc::new(peers)), clock: Box::new(clock), encoded: Mutex::default() })
    }

    /// Adds a worker. Its metrics appear with its first slot and disappear when the publisher is
    /// dropped.
    pub fn publisher(self: &Arc<Self>) -> Publisher {
        let (publisher, shared) = Publisher::new(Arc::clone(self));
        lock(&self.workers).push(shared);
        publisher
    }

    /// Replaces the other ends of links by those of another plan.
    pub fn set_peers(&self, peers: Peers) {
        *lock(&self.peers) = Arc::new(peers);
    }

    /// Returns the time of the clock.
    fn now(&self) -> Duration {
        (self.clock)()
    }

    fn remove(&self, worker: &snapshot::Shared) {
        lock(&self.workers).retain(|other| !Arc::ptr_eq(other, worker));
    }

    /// Returns the last slot of each worker, and whether it is fresh.
    fn shown(&self) -> Vec<Shown> {
        let workers = lock(&self.workers).clone();
        let now = self.now();
        let last = workers.iter().filter_map(|worker| lock(worker).clone());
        last.map(|snapshot| Shown { is_fresh: snapshot.is_fresh(now), snapshot }).collect()
    }

    /// Returns whether every worker has a fresh slot and a transport to the fabric. A worker before
    /// its first slot, as after a reload, does not count. Without any slot the result is false.
    pub fn is_healthy(&self) -> bool {
        let shown = self.shown();
        !shown.is_empty() && shown.iter().all(Shown::is_up)
    }

    /// Returns the metrics as OpenMetrics text: UTF-8, ending with `# EOF`.
    pub fn text(&self) -> Bytes {
        let shown = self.shown();
        let source: Vec<_> = shown.iter().map(|Shown { snapshot, is_fresh }| (snapshot.published, *is_fresh)).collect();
        let mut encoded = lock(&self.encoded);
        if encoded.text.is_empty() || encoded.source != source {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(encode::Fabric { shown, peers: Arc::clone(&lock(&self.peers)) }));
            let mut text = String::with_capacity(encoded.text.len());
            // Writing to a String cannot fail.
            let _ = text::encode(&mut text, &registry);
            *encoded = Encoded { source, text: text.into() };
        }
        encoded.text.clone()
    }
}

/// The last slot of a worker.
#[derive(Debug)]
struct Shown {
    snapshot: Arc<Snapshot>,
    is_fresh: bool,
}

impl Shown {
    fn is_up(&self) -> bool {
        self.is_fresh && self.snapshot.is_connected
    }
}

/// Locks a mutex. A panic while it was locked leaves no partial state, because values are only
/// moved or copied under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
