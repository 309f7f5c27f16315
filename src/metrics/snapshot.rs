//! A snapshot of the last slot of one HCA port worker.
//!
//! The snapshot has two copies: the worker fills one while scrapes read the other one, and then
//! swaps a pointer.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use ibnet_record::attributes::Field;
use ibnet_record::types::PortNum;
use ibnet_record::{Role, Status};

use super::{Metrics, names};
use crate::sweep::counter::Columns;
use crate::sweep::driver::{DriverSettings, PortReport, SlotReport};
use crate::sweep::engine::SubnetManager;
use crate::sweep::physical_record::Newest;
use crate::sweep::port_record::{PortIdentity, Shares};
use crate::sweep::stats::{Durations, MAD_OCTETS_ON_LINK, Rejected};

/// The last slot of a worker, shared with scrapes.
pub(super) type Shared = Arc<Mutex<Option<Arc<Snapshot>>>>;

/// Min time for which a peak is kept, so that Prometheus sees every peak if it scrapes at least
/// once a minute.
const WINDOW: Duration = Duration::from_secs(60);

/// The next slot is overdue if the last one was published longer ago than two intervals plus this
/// time.
const OVERDUE_MARGIN: Duration = Duration::from_secs(1);

/// One slot, and the totals of all slots of its worker.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// Time of publication on the clock of [`Metrics`].
    pub(super) published: Duration,
    pub(super) sampler: String,
    pub(super) ca: String,
    pub(super) ca_port: PortNum,
    /// `primary` or `secondary`, which distinguishes two workers on one HCA port.
    pub(super) role: &'static str,
    pub(super) interval: Duration,
    /// End of the slot in nanoseconds since 1970.
    pub(super) ts: u64,
    /// Whether the transport is open.
    pub(super) is_connected: bool,
    /// Number of ports by status, in the order of [`Status::ALL`].
    pub(super) statuses: [u32; Status::ALL.len()],
    pub(super) totals: Totals,
    /// Subnet managers that have answered.
    pub(super) managers: Vec<SubnetManager>,
    pub(super) ports: Vec<Port>,
    pub(super) layout: Arc<Layout>,
    /// For each port and family of [`Layout`], whether its value is valid in this slot.
    present: Vec<bool>,
    /// Values of all families of each port, in the order of [`Layout`].
    values: Vec<u64>,
}

/// A port in this slot.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) identity: PortIdentity,
    /// Whether the port answered in this slot. A port whose link is down is queried less often,
    /// so for such a port this is whether it answered the last query.
    pub(super) is_up: bool,
    /// Whether the link is active. `None` before the first PortInfo reply.
    pub(super) active: Option<bool>,
    pub(super) shares: Shares,
    /// Max shares since the start of the previous [`WINDOW`].
    pub(super) peaks: Shares,
    /// Number of saturated counters.
    pub(super) saturated: u32,
    /// Newest values of the physical layer.
    pub(super) physical: Newest,
}

/// Totals since the worker started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) slots: u64,
    pub(super) missed: u64,
    pub(super) lines_lost: u64,
    pub(super) mads_sent: u64,
    pub(super) mads_late: u64,
    pub(super) mads_refused: u64,
    pub(super) send_errors: u64,
    pub(super) rejected: Rejected,
    pub(super) load_bytes: u64,
    pub(super) resets: u64,
    pub(super) master_changes: u64,
    pub(super) duration: Distribution,
    pub(super) rtt_switch: Distribution,
    pub(super) rtt_hca: Distribution,
}

/// Histogram of durations in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distribution {
    pub(super) sum_seconds: f64,
    pub(super) count: u64,
    /// Counts by [`BOUNDS`]. The last bucket has no upper bound.
    pub(super) buckets: [u64; BOUNDS.len() + 1],
}

/// Upper bounds of the buckets in seconds, from the round trip of an idle switch to a slot of 10 s.
pub(super) const BOUNDS: [f64; 15] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 1e-1, 2.5e-1, 1.0,
    10.0,
];

impl Distribution {
    fn record(&mut self, seconds: f64, count: u64) {
        self.sum_seconds += seconds * count as f64;
        self.count += count;
        let bucket = BOUNDS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BOUNDS.len());
        self.buckets[bucket] += count;
    }

    /// Adds the values of a histogram of nanoseconds. All values in one bucket of that histogram
    /// are added as the upper bound of the bucket.
    fn add(&mut self, nanos: &Durations) {
        for step in nanos.iter_recorded() {
            self.record(
                step.value_iterated_to() as f64 / 1e9,
                step.count_since_last_iteration(),
            );
        }
    }
}

/// The counter families, each once and in the order of the records, with the positions of their
/// values.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Layout {
    pub(super) families: Vec<Family>,
    /// JSON name, width in bits and family index of each column.
    columns: Vec<(&'static str, u8, usize)>,
    /// Number of values of a port.
    width: usize,
}

/// A counter, or an array of counters with one name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Family {
    /// Metric name without prefix and `_total`.
    pub(super) name: String,
    /// IBA name and unit.
    pub(super) help: String,
    /// Name of the label that contains the index of an array element. `None` for a single value.
    pub(super) index: Option<&'static str>,
    /// Name in the records.
    pub(super) json: &'static str,
    first: usize,
    len: usize,
}

impl Layout {
    fn new(columns: &Columns) -> Self {
        let mut layout = Self::default();
        for (_, column) in columns.iter() {
            let field = column.field;
            let known = layout
                .families
                .iter()
                .position(|family| family.json == field.json);
            let place = known.unwrap_or_else(|| layout.add(field));
            layout.columns.push((field.json, field.width, place));
        }
        layout
    }

    fn add(&mut self, field: &Field) -> usize {
        let len = usize::from(field.len);
        let unit = field.unit.map(|unit| unit.to_string()).unwrap_or_default();
        self.families.push(Family {
            name: names::of(field).into_owned(),
            help: format!("{}, in {unit}", field.name),
            index: (len > 1).then(|| names::index(field)),
            json: field.json,
            first: self.width,
            len,
        });
        self.width += len;
        self.families.len() - 1
    }

    /// Returns whether this layout was built for these columns.
    fn matches(&self, columns: &Columns) -> bool {
        let theirs = columns
            .iter()
            .map(|(_, column)| (column.field.json, column.field.width));
        columns.len() == self.columns.len()
            && self
                .columns
                .iter()
                .map(|(json, width, _)| (*json, *width))
                .eq(theirs)
    }
}

impl Snapshot {
    fn new(report: SlotReport<'_>) -> Self {
        let DriverSettings {
            sampler,
            ca,
            ca_port,
            interval,
            ..
        } = report.settings;
        Self {
            published: Duration::ZERO,
            sampler: sampler.clone(),
            ca: ca.clone(),
            ca_port: *ca_port,
            role: report.settings.role(),
            interval: *interval,
            ts: 0,
            is_connected: false,
            statuses: [0; Status::ALL.len()],
            totals: Totals::default(),
            managers: Vec::new(),
            ports: Vec::new(),
            layout: Arc::default(),
            present: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Returns whether the worker is the secondary sampler of its ports.
    pub(super) fn is_secondary(&self) -> bool {
        self.role == Role::Secondary.as_str()
    }

    /// Returns whether the next slot is not overdue yet.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.published) <= self.interval * 2 + OVERDUE_MARGIN
    }

    /// Returns the values of a family, or `None` if they are not valid in this slot.
    pub(super) fn values(&self, port: usize, family: usize) -> Option<&[u64]> {
        let Layout {
            families, width, ..
        } = &*self.layout;
        let Family { first, len, .. } = families[family];
        let start = port * width + first;
        self.present[port * families.len() + family].then(|| &self.values[start..start + len])
    }

    /// Replaces the content by a new slot. Allocates no memory while the ports and counters stay
    /// the same.
    fn take(&mut self, report: SlotReport<'_>, totals: Totals, published: Duration) {
        if !self.layout.matches(report.columns) {
            self.layout = Arc::new(Layout::new(report.columns));
        }
        (self.published, self.totals, self.ts, self.is_connected) =
            (published, totals, report.ts, report.is_connected);
        self.statuses = report.stats.ports;
        self.managers.clear();
        self.managers.extend(report.subnet_managers());
        let (ports, families, width) = (
            report.ports(),
            self.layout.families.len(),
            self.layout.width,
        );
        self.present.clear();
        self.present.resize(ports.len() * families, false);
        self.values.resize(ports.len() * width, 0);
        self.ports.truncate(ports.len());
        for (index, port) in ports.enumerate() {
            match self.ports.get_mut(index) {
                Some(kept) => kept.take(&port),
                None => self.ports.push(Port::new(&port)),
            }
            self.take_counters(index, &port, report.columns);
        }
    }

    fn take_counters(&mut self, index: usize, port: &PortReport<'_>, all: &Columns) {
        let Self {
            layout,
            present,
            values,
            ports,
            ..
        } = self;
        let mut columns = layout.columns.iter();
        // While the port answers, the value of a counter stays valid until its group is due again.
        let (answered, held) = (port.reading.counters(all), port.reading.held_counters(all));
        let is_up = ports[index].is_up;
        for (field, raws) in answered.filter(|_| !is_up).chain(held.filter(|_| is_up)) {
            // The counters and the columns of the layout have the same order, so this search only
            // advances.
            let Some((.., place)) =
                columns.find(|(json, width, _)| (*json, *width) == (field.json, field.width))
            else {
                break;
            };
            // Settings of the agent are not counters.
            if !field.is_counter() {
                continue;
            }
            let Family { first, len, .. } = layout.families[*place];
            present[index * layout.families.len() + place] = true;
            let start = index * layout.width + first;
            for (value, raw) in values[start..start + len].iter_mut().zip(raws) {
                *value = field.value(*raw);
            }
        }
        ports[index].saturated = port.reading.saturated(all, is_up).count() as u32;
    }
}

/// Publishes the slots of a worker. Dropping this handle removes the slots from the metrics.
#[derive(Debug)]
pub struct WorkerMetrics {
    metrics: Arc<Metrics>,
    shared: Shared,
    /// The copy that scrapes do not read.
    spare: Option<Arc<Snapshot>>,
    totals: Totals,
    peaks: Peaks,
}

/// Max shares of each port, in the current window and in the previous one.
#[derive(Debug, Default)]
struct Peaks {
    began: Duration,
    ports: Vec<[Shares; 2]>,
}

impl WorkerMetrics {
    pub(super) fn new(metrics: Arc<Metrics>) -> (Self, Shared) {
        let shared = Shared::default();
        (
            Self {
                metrics,
                shared: Arc::clone(&shared),
                spare: None,
                totals: Totals::default(),
                peaks: Peaks::default(),
            },
            shared,
        )
    }

    /// Publishes a slot without waiting.
    ///
    /// If a scrape holds the lock at this moment, this slot is skipped, and the next slot is
    /// published.
    pub fn publish(&mut self, report: SlotReport<'_>) {
        self.totals.add(report);
        let mut next = self
            .spare
            .take()
            .unwrap_or_else(|| Arc::new(Snapshot::new(report)));
        // A scrape that lasts longer than a slot may still read the spare copy, which is then
        // cloned.
        let snapshot = Arc::make_mut(&mut next);
        snapshot.take(report, self.totals, self.metrics.now());
        self.peaks.take(snapshot);
        let mut place = match self.shared.try_lock() {
            Ok(place) => place,
            Err(TryLockError::Poisoned(place)) => PoisonError::into_inner(place),
            Err(TryLockError::WouldBlock) => {
                self.spare = Some(next);
                return;
            }
        };
        self.spare = place.replace(next);
    }
}

impl Drop for WorkerMetrics {
    fn drop(&mut self) {
        self.metrics.remove(&self.shared);
    }
}

impl Peaks {
    fn take(&mut self, snapshot: &mut Snapshot) {
        self.ports.resize(snapshot.ports.len(), Default::default());
        let window_ended = snapshot.published.saturating_sub(self.began) >= WINDOW;
        if window_ended {
            self.began = snapshot.published;
        }
        for ([present, previous], port) in self.ports.iter_mut().zip(&mut snapshot.ports) {
            if window_ended {
                *previous = std::mem::take(present);
            }
            *present = largest(*present, port.shares);
            port.peaks = largest(*present, *previous);
        }
    }
}

fn largest(one: Shares, other: Shares) -> Shares {
    let of = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
    Shares {
        xmit: of(one.xmit, other.xmit),
        rcv: of(one.rcv, other.rcv),
        blocked: of(one.blocked, other.blocked),
    }
}

impl Totals {
    fn add(&mut self, report: SlotReport<'_>) {
        let stats = report.stats;
        self.slots += 1;
        self.missed += report.missed;
        self.lines_lost += report.lines_lost;
        self.mads_sent += stats.mads_sent;
        self.mads_late += stats.mads_late;
        self.mads_refused += stats.mads_refused;
        self.send_errors += stats.send_errors;
        self.load_bytes += stats.mads_sent * MAD_OCTETS_ON_LINK;
        self.rejected.add(stats.rejected);
        self.resets += report
            .ports()
            .filter(|port| !port.reading.resets.is_empty())
            .count() as u64;
        self.master_changes = report.master_changes();
        self.duration.record(stats.duration().as_secs_f64(), 1);
        self.rtt_switch.add(&stats.rtt.switch);
        self.rtt_hca.add(&stats.rtt.hca);
    }
}

impl Port {
    fn new(report: &PortReport<'_>) -> Self {
        let mut port = Self {
            identity: report.identity.clone(),
            is_up: false,
            active: None,
            shares: Shares::default(),
            peaks: Shares::default(),
            saturated: 0,
            physical: Newest::default(),
        };
        port.take(report);
        port
    }

    fn take(&mut self, report: &PortReport<'_>) {
        if self.identity != *report.identity {
            self.identity.clone_from(report.identity);
        }
        let PortReport {
            identity,
            sample,
            reading,
            physical,
            active,
        } = report;
        self.is_up = match sample.status {
            Status::Ok | Status::Late => true,
            // Such a port is queried less often than once per slot, so its last answer counts.
            Status::Down => reading.holds_any(),
            _ => false,
        };
        self.active = *active;
        self.physical.clone_from(physical);
        self.shares = Shares::of(identity, sample, reading.held_rates());
    }
}
