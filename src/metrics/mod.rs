//! Metrics for Prometheus: the results of the last slot of every HCA port worker, as OpenMetrics
//! text over HTTP. (An HCA port worker is the thread that sends and receives MADs through one HCA
//! port.) The endpoint is off unless [`Settings`] contain a listen address.
//!
//! 1. **A scrape delays no MAD.** After a slot, its worker copies the values into its own
//!    snapshot and swaps a pointer, so workers and scrapes never wait for each other. The text of
//!    a slot is formatted only once, and shared by all scrapes of this slot.
//! 2. **Old values are never served.** A counter that is not queried in every slot keeps its
//!    value until the slot in which it is queried again. A port that did not answer in the last
//!    slot has no counters, and its `ibnet_port_up` is 0. If the next slot of a worker is
//!    overdue, none of its ports has counters, and its `ibnet_up` is 0.
//! 3. **A port counts once.** The ports of a secondary sampler are served only if the
//!    configuration requests it, and then have the label `role`.
//! 4. **Counters have the values of the devices.** They are cumulative, and data is in bytes. They
//!    can decrease, because other tools sometimes clear the counters of a device. Their names are
//!    those of existing exporters, so existing dashboards work; `docs/metrics.md` lists them.
//! 5. **Access depends on the address.** Every user of this host can read metrics at a loopback
//!    address. Any other address requires TLS and a password, or the key `plain_http` with the
//!    networks that may read without TLS.
//!
//! This module reads no clock; the caller of [`Metrics::new`] provides one.

mod encode;
mod families;
mod names;
mod page;
mod secrets;
mod server;
mod settings;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use ibnet_record::types::{Guid, Lid, NodeKind};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use self::snapshot::Snapshot;

pub use self::families::Families;
pub use self::page::{Format, Variant};
pub use self::secrets::{
    Role, SecretFile, SecretKey, Secrets, SecretsError, Tokens, User, Users, credentials,
};
pub use self::server::{Server, ServerError};
pub use self::settings::{Access, Raw, Settings, SettingsError};
pub use self::snapshot::WorkerMetrics;

/// The peers of links by GUID, each with the kind of its node, if the plan contains it, and its
/// LID.
pub type Peers = BTreeMap<Guid, (Option<NodeKind>, Lid)>;

/// Returns the time since an arbitrary start. It must not decrease.
pub type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Which metrics are served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// Whether the ports of workers with the secondary role are served.
    pub secondary: bool,
    /// Metric families that are served.
    pub families: Families,
}

/// The metrics of all HCA port workers of a process.
pub struct Metrics {
    workers: Mutex<Vec<snapshot::Shared>>,
    peers: Mutex<Arc<Peers>>,
    clock: Clock,
    content: Arc<Content>,
    rendered: Mutex<RenderedText>,
}

/// The text of the last slots, in the variants that were requested. `slots` identifies these
/// slots: for each, the time of its publication, and whether it was fresh.
#[derive(Default)]
struct RenderedText {
    slots: Vec<(Duration, bool)>,
    open_metrics: Bytes,
    variants: [Option<Bytes>; Variant::COUNT],
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("workers", &lock(&self.workers).len())
            .finish_non_exhaustive()
    }
}

impl Metrics {
    /// Creates metrics without workers. `clock` returns the times of publication, which must not
    /// decrease.
    pub fn new(
        peers: Peers,
        content: Content,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            workers: Mutex::default(),
            peers: Mutex::new(Arc::new(peers)),
            clock: Box::new(clock),
            content: Arc::new(content),
            rendered: Mutex::default(),
        })
    }

    /// Adds a worker, whose slots are served until the returned handle is dropped.
    pub fn worker(self: &Arc<Self>) -> WorkerMetrics {
        let (worker, shared) = WorkerMetrics::new(Arc::clone(self));
        lock(&self.workers).push(shared);
        worker
    }

    /// Replaces the peers, after a new plan was loaded.
    pub fn set_peers(&self, peers: Peers) {
        *lock(&self.peers) = Arc::new(peers);
    }

    fn now(&self) -> Duration {
        (self.clock)()
    }

    fn remove(&self, worker: &snapshot::Shared) {
        lock(&self.workers).retain(|other| !Arc::ptr_eq(other, worker));
    }

    /// Returns the last slot of each worker, and whether it is fresh.
    fn last_slots(&self) -> Vec<LastSlot> {
        let workers = lock(&self.workers).clone();
        let now = self.now();
        let last = workers.iter().filter_map(|worker| lock(worker).clone());
        last.map(|snapshot| LastSlot {
            is_fresh: snapshot.is_fresh(now),
            snapshot,
        })
        .collect()
    }

    /// Returns whether every worker has finished a slot recently and its transport is open.
    ///
    /// A worker before its first slot, for example after a reload, does not count. Returns
    /// `false` if no worker has finished a slot.
    pub fn is_healthy(&self) -> bool {
        let slots = self.last_slots();
        !slots.is_empty() && slots.iter().all(LastSlot::is_up)
    }

    /// Returns the OpenMetrics text: UTF-8, terminated by `# EOF`.
    pub fn text(&self) -> Bytes {
        self.page(Variant {
            format: Format::OpenMetrics,
            gzip: false,
        })
    }

    /// Returns the metrics in this variant. Each variant of a slot is formatted only once.
    pub fn page(&self, variant: Variant) -> Bytes {
        let last_slots = self.last_slots();
        let slots: Vec<_> = last_slots
            .iter()
            .map(|LastSlot { snapshot, is_fresh }| (snapshot.published, *is_fresh))
            .collect();
        let mut rendered = lock(&self.rendered);
        if rendered.open_metrics.is_empty() || rendered.slots != slots {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(encode::Fabric {
                last_slots,
                peers: Arc::clone(&lock(&self.peers)),
                content: Arc::clone(&self.content),
            }));
            let mut text = String::with_capacity(rendered.open_metrics.len());
            let _ = text::encode(&mut text, &registry);
            *rendered = RenderedText {
                slots,
                open_metrics: text.into(),
                variants: Default::default(),
            };
        }
        let RenderedText {
            open_metrics,
            variants,
            ..
        } = &mut *rendered;
        variants[variant.index()]
            .get_or_insert_with(|| variant.of_open_metrics(open_metrics.clone()))
            .clone()
    }

    /// Describes the size of the metrics for a message.
    pub(crate) fn size(&self) -> String {
        let text = self.text();
        let series = text
            .split(|octet| *octet == b'\n')
            .filter(|line| line.first().is_some_and(|first| *first != b'#'))
            .count();
        let of_ports = |line: &&[u8]| memchr::memmem::find(line, b"guid=\"").is_some();
        let of_ports = text.split(|octet| *octet == b'\n').filter(of_ports).count();
        let served = |slot: &&LastSlot| self.content.secondary || !slot.snapshot.is_secondary();
        let ports: usize = self
            .last_slots()
            .iter()
            .filter(served)
            .map(|slot| slot.snapshot.ports.len())
            .sum();
        let of_port = of_ports as f64 / ports.max(1) as f64;
        format!(
            "{series} series, {ports} ports, {of_port:.1} series a port, {} octets",
            text.len()
        )
    }
}

/// The last slot of a worker.
#[derive(Debug)]
struct LastSlot {
    snapshot: Arc<Snapshot>,
    is_fresh: bool,
}

impl LastSlot {
    fn is_up(&self) -> bool {
        self.is_fresh && self.snapshot.is_connected
    }
}

/// Locks a mutex, even if it is poisoned: values are only moved or copied under these locks, so a
/// panic cannot leave a partly changed value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
