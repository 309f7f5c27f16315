//! Keeps the physical layer of ports and switches: the newest values of each register page, and
//! short series of bit errors and of the module.
//!
//! 1. **The newest values of each page are kept.** A record can lack pages, because the device did
//!    not answer or because they are read seldom. Their last values stay, with their own time.
//! 2. **Bit errors are kept as differences.** They add up, so two neighbouring points of a series
//!    become one that is as exact. No difference is taken over a counter that was cleared.
//! 3. **The state of the verdict is small.** Each end of a link has that of
//!    [`ibnet_analysis::health`], which has a few readings only.
//! 4. **Planes of a port are kept one by one**, each with its last two readings.
//! 5. **Old points are long.** A point covers up to a share of its age, so a series of any length
//!    has about a hundred points.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use ibnet_analysis::health::inventory::Module as Names;
use ibnet_analysis::health::planes::PlaneReading;
use ibnet_analysis::health::reading::{Counter, Reading as Counted, Window};
use ibnet_analysis::health::verdict::End;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::Physical as Record;
use ibnet_record::physical::{
    self, Column, MAX_PAGES, MAX_PLANES, PhysicalKind, ReadValues, Value,
};
use ibnet_record::registers::Page;
use ibnet_record::types::{Guid, PortNum};

use crate::samplers::Source;

/// Device and port. A switch as a whole has no port.
pub(crate) type Key = (Guid, Option<PortNum>);

/// Largest share of its age that a joined point covers: one of this number.
const SHARE_OF_AGE: u32 = 12;

/// Max number of points of a series.
const MAX_POINTS: usize = 256;

/// Number of points by which the memory of a series grows.
const GROWTH: usize = 8;

/// Max time by which a record may be newer than the newest slot of its sampler, in nanoseconds. A
/// time that is further in the future would make all later records old.
const MAX_AHEAD_NS: u64 = 60_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Size in bytes of an entry of the map besides the subject.
const ENTRY: usize = size_of::<(Key, usize)>() + 8;

/// Max size in bytes of the readings and the events of an end of a link.
const END: usize = 8 * size_of::<Counted>() + 512;

/// The values that a record of each type can have.
static COLUMNS: LazyLock<[Vec<Column>; PhysicalKind::ALL.len()]> =
    LazyLock::new(|| PhysicalKind::ALL.map(physical::columns));

/// Returns the values that a record can have, in the order of the packed values.
pub(crate) fn columns(of: PhysicalKind) -> &'static [Column] {
    &COLUMNS[of as usize]
}

/// Everything that is kept.
#[derive(Debug)]
pub(crate) struct Physical {
    subjects: BTreeMap<Key, Box<Subject>>,
    /// Size of all subjects in bytes, and its max.
    octets: usize,
    max: usize,
}

/// What is kept of a port or a switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    readings: Vec<Reading>,
    /// The last reading of each plane, and the one before it.
    pub(crate) planes: Vec<(PlaneReading, Option<PlaneReading>)>,
    /// State of the verdict on this end of the link.
    pub(crate) end: End,
    /// The other end of the link, as known before the hub was restarted.
    pub(crate) peer: Option<PortKey>,
    /// The last reading of bit errors.
    counted: Option<Counted>,
    /// Bit errors.
    pub(crate) errors: Series<Errors>,
    /// The module.
    pub(crate) module: Series<Module>,
}

/// The newest values of one type of records.
#[derive(Clone, Debug)]
struct Reading {
    of: PhysicalKind,
    /// Number of the plane in `planes`, or 0.
    plane: u64,
    sampler: Arc<str>,
    /// Time of each page of [`PhysicalKind::pages`] in nanoseconds since 1970, or 0.
    read_ns: [u64; MAX_PAGES],
    /// The values of [`columns`] as a JSON array, with null for an absent one.
    packed: Box<[u8]>,
}

/// The newest values of a page.
#[derive(Clone, Debug)]
pub(crate) struct PageValues {
    pub(crate) page: Page,
    /// Number of the plane, or 0.
    pub(crate) plane: u64,
    pub(crate) sampler: Arc<str>,
    /// Time of the reading in nanoseconds since 1970.
    pub(crate) ts: u64,
    pub(crate) values: Vec<(&'static Column, Value)>,
}

/// Points of a series, oldest first.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Series<T>(pub(crate) Vec<Point<T>>);

/// A time range, in seconds since 1970, and what was counted or measured in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Point<T> {
    pub(crate) from_s: u32,
    pub(crate) to_s: u32,
    pub(crate) of: T,
}

/// Joins the values of neighbouring points.
pub(crate) trait Join {
    /// Returns the value of two points, the later one being `later`.
    fn join(self, later: Self) -> Self;
}

/// Bits that a port received, and how many of them were wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Errors {
    /// Received bits.
    pub(crate) bits: u64,
    /// Wrong bits before error correction (FEC).
    pub(crate) raw: u64,
    /// Wrong bits after FEC.
    pub(crate) effective: u64,
    /// Wrong bits after retransmission (PLR) too.
    pub(crate) symbol: u64,
}

/// Measured values of a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Module {
    /// Largest temperature in degrees Celsius.
    pub(crate) temperature_c: Option<f32>,
    /// Smallest received light power of the lanes that receive light, in microwatts.
    pub(crate) rx_power_uw: Option<f32>,
}

impl Join for Errors {
    fn join(self, later: Self) -> Self {
        Self {
            bits: self.bits.saturating_add(later.bits),
            raw: self.raw.saturating_add(later.raw),
            effective: self.effective.saturating_add(later.effective),
            symbol: self.symbol.saturating_add(later.symbol),
        }
    }
}

impl Errors {
    /// Returns what was counted in a window. `None` if the device counts no bits.
    fn of(window: &Window<'_>) -> Option<Self> {
        let increase = |counter| window.increase(counter);
        Some(Self {
            bits: increase(Counter::Bits)?,
            raw: increase(Counter::Corrected)?,
            effective: increase(Counter::Effective).unwrap_or(0),
            symbol: increase(Counter::Symbols).unwrap_or(0),
        })
    }
}

impl Join for Module {
    fn join(self, later: Self) -> Self {
        let of = |one: Option<f32>, other: Option<f32>, choose: fn(f32, f32) -> f32| {
            one.zip(other)
                .map(|(one, other)| choose(one, other))
                .or(one)
                .or(other)
        };
        Self {
            temperature_c: of(self.temperature_c, later.temperature_c, f32::max),
            rx_power_uw: of(self.rx_power_uw, later.rx_power_uw, f32::min),
        }
    }
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Join + Copy> Series<T> {
    /// Adds the newest point. If there is no memory left, the oldest one makes room.
    fn add(&mut self, point: Point<T>, is_full: bool) {
        let points = &mut self.0;
        points.dedup_by(|later, earlier| {
            let length = later.to_s.saturating_sub(earlier.from_s);
            let is_joined = later.from_s == earlier.to_s
                && length <= point.to_s.saturating_sub(later.to_s) / SHARE_OF_AGE;
            if is_joined {
                *earlier = Point {
                    from_s: earlier.from_s,
                    to_s: later.to_s,
                    of: earlier.of.join(later.of),
                };
            }
            is_joined
        });
        let is_full = is_full && points.len() == points.capacity();
        if !points.is_empty() && (is_full || points.len() >= MAX_POINTS) {
            points.remove(0);
        }
        if points.len() == points.capacity() {
            points.reserve_exact(GROWTH);
        }
        points.push(point);
    }

    fn drop_before(&mut self, before_s: u32) {
        let old = self.0.partition_point(|point| point.to_s < before_s);
        self.0.drain(..old);
    }

    fn octets(&self) -> usize {
        self.0.capacity() * size_of::<Point<T>>()
    }
}

impl Physical {
    /// Creates an empty store with a max size in bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            subjects: BTreeMap::new(),
            octets: 0,
            max,
        }
    }

    /// Adds a record. Returns false if there is no memory left for one more port.
    ///
    /// A record that has nothing newer, such as a copy, changes nothing, and neither does one with
    /// a wrong time. `gbps` is the data rate of the link.
    pub(crate) fn add(&mut self, record: &Record<'_>, source: &Source, gbps: Option<f64>) -> bool {
        let Some(kind) = PhysicalKind::named(&record.head.kind) else {
            return true;
        };
        let latest = source.newest_ns.saturating_add(MAX_AHEAD_NS);
        if source.is_apart || record.head.ts > latest {
            return true;
        }
        let key = (record.head.guid, record.head.port);
        let is_full = self.octets >= self.max;
        if is_full && !self.subjects.contains_key(&key) {
            return false;
        }
        let mut is_new = false;
        let subject = self.subjects.entry(key).or_insert_with(|| {
            is_new = true;
            Box::default()
        });
        let before = if is_new { 0 } else { subject.octets() };
        // The clock of the sampler was set back.
        if subject.newest_ns() > latest {
            **subject = Subject::default();
        }
        subject.add((kind, gbps), record, source, is_full);
        self.octets = self.octets + subject.octets() - before;
        true
    }

    /// Returns what is kept of a port or a switch.
    pub(crate) fn get(&self, key: Key) -> Option<&Subject> {
        self.subjects.get(&key).map(|subject| &**subject)
    }

    /// Returns all ports in order.
    pub(crate) fn ports(&self) -> impl Iterator<Item = (PortKey, &Subject)> {
        self.ports_after(None)
    }

    /// Returns the ports behind one, in order.
    pub(crate) fn ports_after(
        &self,
        key: Option<PortKey>,
    ) -> impl Iterator<Item = (PortKey, &Subject)> {
        let first = key.map_or(Bound::Unbounded, |(guid, port)| {
            Bound::Excluded((guid, Some(port)))
        });
        let subjects = self.subjects.range((first, Bound::Unbounded));
        subjects.filter_map(|((guid, port), subject)| Some(((*guid, (*port)?), &**subject)))
    }

    /// Continues with the state of a verdict from before a restart, and the other end of the link.
    /// A port that has records already, or for which there is no memory, keeps what it has.
    pub(crate) fn restore(&mut self, (guid, port): PortKey, end: End, peer: Option<PortKey>) {
        let key = (guid, Some(port));
        if self.octets < self.max && !self.subjects.contains_key(&key) {
            let subject = Box::new(Subject {
                end,
                peer,
                ..Subject::default()
            });
            self.octets += subject.octets();
            self.subjects.insert(key, subject);
        }
    }

    /// Drops everything before a time, in nanoseconds since 1970.
    pub(crate) fn drop_before(&mut self, before_ns: u64) {
        let before_s = seconds(before_ns);
        self.subjects.retain(|_, subject| {
            subject.errors.drop_before(before_s);
            subject.module.drop_before(before_s);
            subject.newest_ns() >= before_ns
        });
        self.octets = self.subjects.values().map(|subject| subject.octets()).sum();
    }

    /// Returns the size in bytes.
    pub(crate) const fn octets(&self) -> usize {
        self.octets
    }
}

impl Subject {
    fn add(
        &mut self,
        (kind, gbps): (PhysicalKind, Option<f64>),
        record: &Record<'_>,
        source: &Source,
        is_full: bool,
    ) {
        let ts = record.head.ts;
        let of_plane = match kind {
            PhysicalKind::Planes => PlaneReading::of(ts, &record.values),
            _ => None,
        };
        let plane = of_plane.map_or(0, |reading| reading.plane);
        if plane > MAX_PLANES.into() {
            return;
        }
        let is_same = |known: &Reading| (known.of, known.plane) == (kind, plane);
        let reading = match self.readings.iter().position(is_same) {
            Some(place) => &mut self.readings[place],
            None => {
                self.readings.push(Reading {
                    of: kind,
                    plane,
                    sampler: Arc::clone(&source.name),
                    read_ns: [0; MAX_PAGES],
                    packed: Box::default(),
                });
                let last = self.readings.len() - 1;
                &mut self.readings[last]
            }
        };
        let before_ns = reading.read_ns;
        let is_newest = reading.read_ns.iter().all(|read_ns| ts > *read_ns);
        reading.add(record, source);
        let is_newer = |page: Page| {
            let place = kind.pages().iter().position(|known| *known == page);
            place.is_some_and(|place| reading.read_ns[place] != before_ns[place])
        };
        if let Some(now) = of_plane.filter(|_| is_newest) {
            match self.planes.iter_mut().find(|(last, _)| last.plane == plane) {
                Some((last, before)) => *before = Some(std::mem::replace(last, now)),
                None => self.planes.push((now, None)),
            }
            self.end.add_plane(now, gbps.map(|gbps| gbps * 1e9 / 8.0));
        }
        if kind == PhysicalKind::Phy
            && let Some(counted) = Counted::of(ts, &record.values)
        {
            if is_newer(Page::Ber) {
                let before = self.counted.replace(counted.clone());
                let window = before.as_ref().and_then(|before| counted.since(before));
                if let Some(of) = window.as_ref().and_then(Errors::of) {
                    let from_s = seconds(before.map_or(ts, |before| before.ts));
                    let to_s = seconds(ts);
                    self.errors.add(Point { from_s, to_s, of }, is_full);
                }
            }
            if is_newest {
                self.end.add(counted);
            }
        }
        let has_module = is_newer(Page::Module);
        if kind == PhysicalKind::Module {
            // A record can lack a page, which keeps its last values.
            let names = Names::of(&self.named(kind));
            self.end.set_module(ts, &names);
        }
        if has_module {
            let to_s = seconds(ts);
            let from_s = self.module.0.last().map_or(to_s, |last| last.to_s);
            let names = Names::of(&record.values);
            if let Some(celsius) = names.celsius {
                self.end.add_celsius(ts, celsius);
            }
            let of = Module::of(&record.values);
            self.module.add(Point { from_s, to_s, of }, is_full);
        }
    }

    /// Returns the time of the newest reading in nanoseconds since 1970.
    fn newest_ns(&self) -> u64 {
        let all = self.readings.iter().flat_map(|reading| reading.read_ns);
        all.max().unwrap_or(0).max(self.end.last_ns())
    }

    fn octets(&self) -> usize {
        let packed = self.readings.iter().map(|reading| reading.packed.len());
        ENTRY
            + size_of::<Self>()
            + END
            + self.readings.capacity() * size_of::<Reading>()
            + self.planes.capacity() * size_of::<(PlaneReading, Option<PlaneReading>)>()
            + packed.sum::<usize>()
            + self.errors.octets()
            + self.module.octets()
    }

    /// Returns the newest values of a type of records by name.
    pub(crate) fn named(&self, of: PhysicalKind) -> ReadValues {
        let reading = self.readings.iter().find(|reading| reading.of == of);
        let values = reading.map(Reading::values).unwrap_or_default();
        columns(of)
            .iter()
            .zip(values)
            .filter_map(|(column, value)| Some((column.name.to_owned(), value?)))
            .collect()
    }

    /// Returns the newest values of all pages that were read.
    pub(crate) fn pages(&self) -> impl Iterator<Item = PageValues> {
        self.readings.iter().flat_map(|reading| {
            let values = reading.values();
            let pages = reading.of.pages().iter().zip(reading.read_ns);
            pages
                .filter(|(_, ts)| *ts > 0)
                .map(move |(page, ts)| PageValues {
                    page: *page,
                    plane: reading.plane,
                    sampler: Arc::clone(&reading.sampler),
                    ts,
                    values: columns(reading.of)
                        .iter()
                        .zip(&values)
                        .filter(|(column, _)| column.page == *page)
                        .filter_map(|(column, value)| Some((column, value.clone()?)))
                        .collect(),
                })
        })
    }
}

impl Reading {
    /// Takes the values of all pages that the record has and that are newer.
    fn add(&mut self, record: &Record<'_>, source: &Source) {
        let (columns, values) = (columns(self.of), &record.values);
        let mut is_taken = [false; MAX_PAGES];
        for (place, page) in self.of.pages().iter().enumerate() {
            // Several pages have the time since the counters were cleared.
            let is_own = |column: &&Column| column.page == *page && column.name != SINCE_CLEAR;
            is_taken[place] = record.head.ts > self.read_ns[place]
                && columns
                    .iter()
                    .filter(is_own)
                    .any(|column| values.contains_key(column.name));
            if is_taken[place] {
                self.read_ns[place] = record.head.ts;
            }
        }
        if !is_taken.contains(&true) {
            return;
        }
        self.sampler = Arc::clone(&source.name);
        let old = self.values();
        let mut old = old.iter();
        let packed: Vec<Option<&Value>> = columns
            .iter()
            .map(|column| {
                let old = old.next().and_then(Option::as_ref);
                let place = self.of.pages().iter().position(|page| *page == column.page);
                if place.is_some_and(|place| is_taken[place]) {
                    values.get(column.name)
                } else {
                    old
                }
            })
            .collect();
        self.packed = serde_json::to_vec(&packed).unwrap_or_default().into();
    }

    fn values(&self) -> Vec<Option<Value>> {
        serde_json::from_slice(&self.packed).unwrap_or_default()
    }
}

/// Time since the counters were cleared.
const SINCE_CLEAR: &str = "time_since_last_clear_ms";

impl Module {
    fn of(values: &ReadValues) -> Self {
        let temperature_c = values.get("temperature_c").and_then(Value::float);
        let lanes = values.get("rx_power_uw").and_then(Value::integers);
        let lit = lanes.into_iter().flatten().filter(|power| **power > 0);
        Self {
            temperature_c: temperature_c.map(|celsius| celsius as f32),
            rx_power_uw: lit.min().map(|power| *power as f32),
        }
    }
}

/// Converts nanoseconds since 1970 to seconds. The largest time is in the year 2106.
fn seconds(ns: u64) -> u32 {
    u32::try_from(ns / SECOND_NS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
