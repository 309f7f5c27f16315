//! Metrics for Prometheus: the last slot of every lane, in OpenMetrics text, over HTTP. Off unless [`Settings`] say where to listen.
//!
//! 1. **A scrape delays no MAD.** After a slot its lane copies what is shown into a snapshot of its own and swaps a pointer; a lane
//!    never waits for a scrape, and a scrape never for a lane. Text is made of a slot once, however often it is asked for.
//! 2. **No old value looks fresh.** A port that did not answer in the last slot has no counters, only `ibnet_port_up 0`. A lane whose last slot is too
//!    long ago has none at all, and `ibnet_up 0`.
//! 3. **Counters are the devices' own**: cumulative, in octets, cleared by others now and then. Their names are those of the exporters whose dashboards
//!    are at hand; `docs/metrics.md` has them.
//! 4. **Who listens decides**: on a loopback address whoever is on this host may read; any other address demands TLS and a password.
//!
//! Reads no clock: it is told the time by whoever publishes, and by a function that whoever serves gives.

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

pub use self::secrets::{SecretsError, What};
pub use self::server::{Server, ServerError};
pub use self::settings::{Raw, Settings, SettingsError};
pub use self::snapshot::Lane;

/// Who is at the other end of a link, as far as a plan says: what it is, if that is known, and where it answers.
pub type Peers = BTreeMap<Guid, (Option<NodeKind>, Lid)>;

/// How long ago something happened on a clock of whoever serves.
pub type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// All lanes of a process.
pub struct Metrics {
    lanes: Mutex<Vec<snapshot::Shared>>,
    peers: Mutex<Arc<Peers>>,
    clock: Clock,
    made: Mutex<Made>,
}

/// The text that was made last, and of what.
#[derive(Default)]
struct Made {
    of: Vec<(Duration, bool)>,
    text: Bytes,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("lanes", &lock(&self.lanes).len()).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Without lanes. The clock only goes forward; what is published carries its time.
    pub fn new(peers: Peers, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { lanes: Mutex::default(), peers: Mutex::new(Arc::new(peers)), clock: Box::new(clock), made: Mutex::default() })
    }

    /// A further lane. It is shown from its first slot on, until it is dropped.
    pub fn lane(self: &Arc<Self>) -> Lane {
        let (lane, shared) = Lane::new(Arc::clone(self));
        lock(&self.lanes).push(shared);
        lane
    }

    /// Takes another plan's ends of links.
    pub fn set_peers(&self, peers: Peers) {
        *lock(&self.peers) = Arc::new(peers);
    }

    /// The time.
    fn now(&self) -> Duration {
        (self.clock)()
    }

    fn forget(&self, lane: &snapshot::Shared) {
        lock(&self.lanes).retain(|other| !Arc::ptr_eq(other, lane));
    }

    /// What is shown now: of each lane its last slot, and whether that is fresh.
    fn shown(&self) -> Vec<Shown> {
        let lanes = lock(&self.lanes).clone();
        let now = self.now();
        let last = lanes.iter().filter_map(|lane| lock(lane).clone());
        last.map(|snapshot| Shown { is_fresh: snapshot.is_fresh(now), snapshot }).collect()
    }

    /// Whether every lane had a slot not long ago, and has a way to the fabric. One that has not had its first slot yet, as after a reload, does not count;
    /// but without any nothing is swept.
    pub fn is_healthy(&self) -> bool {
        let shown = self.shown();
        !shown.is_empty() && shown.iter().all(Shown::is_up)
    }

    /// OpenMetrics text: UTF-8, ended by `# EOF`.
    pub fn text(&self) -> Bytes {
        let shown = self.shown();
        let of: Vec<_> = shown.iter().map(|Shown { snapshot, is_fresh }| (snapshot.published, *is_fresh)).collect();
        let mut made = lock(&self.made);
        if made.text.is_empty() || made.of != of {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(encode::Fabric { shown, peers: Arc::clone(&lock(&self.peers)) }));
            let mut text = String::with_capacity(made.text.len());
            // A String takes all that it is given.
            let _ = text::encode(&mut text, &registry);
            *made = Made { of, text: text.into() };
        }
        made.text.clone()
    }
}

/// A lane's last slot.
#[derive(Debug)]
struct Shown {
    snapshot: Arc<Snapshot>,
    is_fresh: bool,
}

impl Shown {
    fn is_up(&self) -> bool {
        self.is_fresh && self.snapshot.way
    }
}

/// Whoever held it left it whole: all that happens under these locks is that values are moved or copied.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
