//! A slot of one lane as it is shown, and how it gets here: the lane fills one of two copies while the other is read, and swaps a pointer.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::{Metrics, names};
use crate::mad::pma::Field;
use crate::sweep::counter::Columns;
use crate::sweep::driver::{DriverSettings, PortReport, SlotReport};
use crate::sweep::record::{PortIdentity, Shares};
use crate::sweep::sample::Status;
use crate::sweep::stats::{MAD_OCTETS_ON_LINK, Rejected};
use crate::types::PortNum;

/// Where a lane puts its last slot.
pub(super) type Shared = Arc<Mutex<Option<Arc<Snapshot>>>>;

/// How long a peak is remembered, at least: no scrape is so rare that it misses one.
const WINDOW: Duration = Duration::from_secs(60);

/// Up to so long after the next slot should have been told, the last one is fresh.
const PATIENCE: Duration = Duration::from_secs(1);

/// A slot, and the sums of all slots of its lane.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// When it was published.
    pub(super) published: Duration,
    pub(super) sampler: String,
    pub(super) ca: String,
    pub(super) ca_port: PortNum,
    /// Two lanes of one HCA port differ in it.
    pub(super) role: &'static str,
    pub(super) interval: Duration,
    /// When it was settled, in nanoseconds since 1970.
    pub(super) ts: u64,
    /// Whether there is a way to the fabric.
    pub(super) way: bool,
    /// Ports by status, in the order of [`Status::ALL`].
    pub(super) statuses: [u32; Status::ALL.len()],
    pub(super) totals: Totals,
    pub(super) ports: Vec<Port>,
    pub(super) layout: Arc<Layout>,
    /// Of each port, as [`Layout`] has them: whether a family is there, and its values.
    present: Vec<bool>,
    values: Vec<u64>,
}

/// A port in this slot.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) identity: PortIdentity,
    /// Whether it answered.
    pub(super) is_up: bool,
    /// Whether its link is active; `None` until PortInfo told.
    pub(super) active: Option<bool>,
    pub(super) shares: Shares,
    /// The largest of the last one to two windows.
    pub(super) peaks: Shares,
    /// Counters that are full.
    pub(super) saturated: u32,
}

/// Sums since the lane started.
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
    pub(super) duration: Distribution,
    pub(super) rtt_switch: Distribution,
    pub(super) rtt_hca: Distribution,
}

/// Durations, counted by upper bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distribution {
    pub(super) sum_seconds: f64,
    pub(super) count: u64,
    /// By [`BOUNDS`], and what is longer.
    pub(super) buckets: [u64; BOUNDS.len() + 1],
}

/// Upper bounds in seconds, from the round trip of a quiet switch to a slot of ten seconds.
pub(super) const BOUNDS: [f64; 15] = [1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 1e-1, 2.5e-1, 1.0, 10.0];

impl Distribution {
    fn record(&mut self, seconds: f64, count: u64) {
        self.sum_seconds += seconds * count as f64;
        self.count += count;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket] += count;
    }

    /// Adds a distribution of nanoseconds, as exactly as that is.
    fn add(&mut self, nanos: &Histogram<u64>) {
        for step in nanos.iter_recorded() {
            self.record(step.value_iterated_to() as f64 / 1e9, step.count_since_last_iteration());
        }
    }
}

/// Which families of counters there are, each once, in the order of the records, and where their values are.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Layout {
    pub(super) families: Vec<Family>,
    /// The family of each column.
    columns: Vec<(&'static str, u8, usize)>,
    /// Values of a port.
    width: usize,
}

/// A counter, or an array of them, by one name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Family {
    /// Without prefix and `_total`.
    pub(super) name: String,
    /// IBA's name, and what it counts.
    pub(super) help: String,
    /// What tells the values of an array apart; `None` for one value.
    pub(super) index: Option<&'static str>,
    /// The name in records.
    pub(super) json: &'static str,
    first: usize,
    len: usize,
}

impl Layout {
    fn new(columns: &Columns) -> Self {
        let mut layout = Self::default();
        for (_, column) in columns.iter() {
            let field = column.field;
            let known = layout.families.iter().position(|family| family.json == field.json);
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

    fn is_of(&self, columns: &Columns) -> bool {
        let theirs = columns.iter().map(|(_, column)| (column.field.json, column.field.width));
        columns.len() == self.columns.len() && self.columns.iter().map(|(json, width, _)| (*json, *width)).eq(theirs)
    }
}

impl Snapshot {
    fn new(report: SlotReport<'_>) -> Self {
        let DriverSettings { sampler, ca, ca_port, interval, .. } = report.settings;
        Self {
            published: Duration::ZERO,
            sampler: sampler.clone(),
            ca: ca.clone(),
            ca_port: *ca_port,
            role: report.settings.role(),
            interval: *interval,
            ts: 0,
            way: false,
            statuses: [0; Status::ALL.len()],
            totals: Totals::default(),
            ports: Vec::new(),
            layout: Arc::default(),
            present: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Whether the next slot is not overdue.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.published) <= self.interval * 2 + PATIENCE
    }

    /// The values of a family that a port has in this slot.
    pub(super) fn values(&self, port: usize, family: usize) -> Option<&[u64]> {
        let Layout { families, width, .. } = &*self.layout;
        let Family { first, len, .. } = families[family];
        let start = port * width + first;
        self.present[port * families.len() + family].then(|| &self.values[start..start + len])
    }

    /// Takes the next slot in its place. Allocates nothing while ports and counters stay the same.
    fn take(&mut self, report: SlotReport<'_>, totals: Totals, published: Duration) {
        if !self.layout.is_of(report.columns) {
            self.layout = Arc::new(Layout::new(report.columns));
        }
        (self.published, self.totals, self.ts, self.way) = (published, totals, report.ts, report.is_connected);
        self.statuses = report.stats.ports;
        let (ports, families, width) = (report.ports(), self.layout.families.len(), self.layout.width);
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
        let Self { layout, present, values, ports, .. } = self;
        let mut columns = layout.columns.iter();
        let mut saturated = 0;
        for (field, raws) in port.reading.counters(all) {
            // Both are in the order of the columns.
            let Some((.., place)) = columns.find(|(json, width, _)| (*json, *width) == (field.json, field.width)) else { break };
            // How an agent is set is no counter.
            if !field.is_counter() {
                continue;
            }
            saturated += u32::from(raws.iter().any(|raw| field.is_saturated(*raw)));
            let Family { first, len, .. } = layout.families[*place];
            present[index * layout.families.len() + place] = true;
            let start = index * layout.width + first;
            for (value, raw) in values[start..start + len].iter_mut().zip(raws) {
                *value = field.value(*raw);
            }
        }
        ports[index].saturated = saturated;
    }
}

/// A lane's end: what it publishes is shown until it is dropped.
#[derive(Debug)]
pub struct Lane {
    metrics: Arc<Metrics>,
    shared: Shared,
    /// The copy that is not shown.
    spare: Option<Arc<Snapshot>>,
    totals: Totals,
    peaks: Peaks,
}

/// The largest shares of each port, in the window that runs and in the one before.
#[derive(Debug, Default)]
struct Peaks {
    began: Duration,
    ports: Vec<[Shares; 2]>,
}

impl Lane {
    pub(super) fn new(metrics: Arc<Metrics>) -> (Self, Shared) {
        let shared = Shared::default();
        (Self { metrics, shared: Arc::clone(&shared), spare: None, totals: Totals::default(), peaks: Peaks::default() }, shared)
    }

    /// Shows a slot. Never waits: if whoever reads is taking the last one in this very moment, this one is not shown, and the next is.
    pub fn publish(&mut self, report: SlotReport<'_>) {
        self.totals.add(report);
        let mut next = self.spare.take().unwrap_or_else(|| Arc::new(Snapshot::new(report)));
        // It is read still only if a scrape lasts longer than a slot; that scrape keeps it.
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

impl Drop for Lane {
    fn drop(&mut self) {
        self.metrics.forget(&self.shared);
    }
}

impl Peaks {
    fn take(&mut self, snapshot: &mut Snapshot) {
        self.ports.resize(snapshot.ports.len(), Default::default());
        let is_new = snapshot.published.saturating_sub(self.began) >= WINDOW;
        if is_new {
            self.began = snapshot.published;
        }
        for ([running, before], port) in self.ports.iter_mut().zip(&mut snapshot.ports) {
            if is_new {
                *before = std::mem::take(running);
            }
            *running = largest(*running, port.shares);
            port.peaks = largest(*running, *before);
        }
    }
}

fn largest(one: Shares, other: Shares) -> Shares {
    let of = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
    Shares { xmit: of(one.xmit, other.xmit), rcv: of(one.rcv, other.rcv), blocked: of(one.blocked, other.blocked) }
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
        self.resets += report.ports().filter(|port| !port.reading.resets.is_empty()).count() as u64;
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
        };
        port.take(report);
        port
    }

    fn take(&mut self, report: &PortReport<'_>) {
        if self.identity != *report.identity {
            self.identity.clone_from(report.identity);
        }
        let PortReport { identity, sample, reading, active } = report;
        self.is_up = matches!(sample.status, Status::Ok | Status::Late);
        self.active = *active;
        self.shares = Shares::of(identity, sample, reading);
    }
}
