//! Returns the values of all ports over time, as a matrix of 16-bit numbers.
//!
//! All numbers are little endian: [`MAGIC`] (4 bytes), generation of the topology (4), start of the
//! first column in nanoseconds since 1970 (8), length of a column in nanoseconds (8), number of
//! rows (4), number of columns (4), then one column after the other. A column has one number for
//! each port of the topology, coded as in a frame.
//!
//! A column has the values that describe its time. Counters are read at the start of a slot, so the
//! values of a slot belong to the column before it: a column of one interval equals the frame of
//! the slot that begins at its end. The jitter of the replies is removed.

use std::sync::Arc;

use ibnet_analysis::input::Fold;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::metric::Metric;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::rates::{Added, Rate, Readings, Slots};
use ibnet_analysis::record::{Interval, Record, Type};
use ibnet_record::Says;
use ibnet_record::minute::{MINUTE_NS, Mean};
use ibnet_record::slots::{counted_interval, time_in_bins};
use rustc_hash::FxHashMap;

use crate::archive::reader;
use crate::live;
use crate::live::frame::{FULL, INCREASE, LINK_DOWN, NO_ANSWER, NO_COUNTER, NO_DATA, NOT_ASSIGNED};
use crate::query::error::ApiError;
use crate::query::memory::Memory;
use crate::state::Hub;
use crate::store::chunk::Wanted;
use crate::store::minutes;

/// First bytes of a matrix: `IBH1`.
const MAGIC: u32 = 0x3148_4249;

/// Max number of columns.
pub(crate) const MAX_COLUMNS: u64 = 2000;

/// Default number of columns.
pub(crate) const USUAL_COLUMNS: u64 = 600;

/// Max number of values in a matrix.
const MAX_VALUES: u64 = 50_000_000;

/// Number of ports whose records are read at a time, which bounds the memory.
const PORTS_AT_ONCE: usize = 1024;

/// A metric of the heat map.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(crate) struct HeatMetric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Value that the number 64000 stands for. Larger values look the same.
    pub(crate) scale: f64,
    /// Whether frames have this metric too.
    pub(crate) live: bool,
}

const fn metric(name: &'static str, unit: &'static str, scale: f64, live: bool) -> HeatMetric {
    HeatMetric {
        name,
        unit,
        scale,
        live,
    }
}

/// The metrics of the heat map.
pub(crate) const METRICS: [HeatMetric; 7] = [
    metric("xmit_utilization", "share", 1.0, true),
    metric("rcv_utilization", "share", 1.0, true),
    metric("xmit_blocked", "share", 1.0, true),
    metric("xmit_gbps", "Gb/s", 1000.0, false),
    metric("rcv_gbps", "Gb/s", 1000.0, false),
    metric("errors", "1/s", 6400.0, false),
    metric("rtt_ns", "ns", 10e6, false),
];

/// How the values in a column are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    Max,
    Mean,
    /// 95th percentile of the slots.
    P95,
}

/// A request for a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) metric: HeatMetric,
    pub(crate) join: Join,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Length of a column in nanoseconds. `None` for a length that gives at most
    /// [`USUAL_COLUMNS`].
    pub(crate) step: Option<u64>,
}

/// The values of one port in one column.
#[derive(Clone, Debug, Default)]
struct Cell {
    mean: Mean,
    /// Values of the slots, for percentiles.
    all: Vec<f64>,
    is_down: bool,
    is_silent: bool,
    /// The port answered, but without a value.
    has_answer: bool,
    /// Some counters of the metric have no rate, so its sum is a lower bound.
    is_partial: bool,
    /// An error counter increased at an unknown time.
    has_increase: bool,
}

/// The columns of one port.
#[derive(Clone)]
struct Row {
    metric: Metric,
    keeps_all: bool,
    from: u64,
    step: u64,
    interval_ns: u64,
    cells: Vec<Cell>,
    slots: Slots,
    readings: Readings,
    /// End of the values from the archive.
    end_ns: u64,
}

pub(crate) fn find(hub: &Hub, request: Request) -> Result<Vec<u8>, ApiError> {
    let (topology, interval_ns) = {
        let state = hub.read();
        (
            Arc::clone(&state.topology),
            state.samplers.interval_ns().max(1),
        )
    };
    let usual = (request.to - request.from)
        .div_ceil(USUAL_COLUMNS)
        .div_ceil(interval_ns)
        .max(1)
        * interval_ns;
    let step = request.step.map_or(usual, |step| {
        step.div_ceil(interval_ns)
            .max(1)
            .saturating_mul(interval_ns)
    });
    // Any slot can begin a column: the max of a selected time is one column.
    let from = request.from / interval_ns * interval_ns;
    let columns = (request.to.saturating_sub(from)).div_ceil(step).max(1);
    if columns > MAX_COLUMNS || columns * topology.ports.len() as u64 > MAX_VALUES {
        return Err(ApiError::wrong(format!(
            "the matrix has too many columns (found {columns}); give a longer step or a shorter range"
        )));
    }
    let metric: Metric = request
        .metric
        .name
        .parse()
        .map_err(|error: ibnet_record::types::ParseError| ApiError::failed(error.to_string()))?;
    let wanted = Wanted::named(metric.counters());
    let empty = Row {
        metric,
        keeps_all: request.join == Join::P95,
        from,
        step,
        interval_ns,
        cells: vec![Cell::default(); columns as usize],
        slots: Slots::default(),
        readings: Readings::default(),
        end_ns: 0,
    };
    let live = live::METRICS
        .iter()
        .position(|name| *name == request.metric.name);
    let old = minutes::METRICS
        .iter()
        .position(|name| *name == request.metric.name);
    let rows = topology.ports.len();
    let mut values = vec![NO_DATA; rows * columns as usize];
    let mut bounds: Vec<u32> = Vec::new();
    let keys = topology
        .ports
        .iter()
        .map(|port| (port.guid, port.port))
        .collect();
    let memory = Memory {
        hub,
        keys,
        wanted: wanted.clone(),
        events: Vec::new(),
        range: (from, request.to),
    };
    let mut archived = archived(&empty, rows as u64 * columns, &memory)?;
    for (batch, ports) in topology.ports.chunks(PORTS_AT_ONCE).enumerate() {
        let taken: Vec<_> = {
            let state = hub.read();
            let take = |key| {
                let chunks = state.store.chunks(
                    key,
                    from.saturating_sub(REACH_NS),
                    request.to.saturating_add(REACH_NS),
                );
                let first = state.store.first_ts_of(key).unwrap_or(u64::MAX);
                let minutes = if old.is_some() && from < first {
                    state.store.minutes(key, from, first.min(request.to))
                } else {
                    Vec::new()
                };
                let lacks_counter = live.is_some_and(|metric| state.lacks_counter(key, metric));
                (chunks, minutes, first, lacks_counter)
            };
            ports
                .iter()
                .map(|port| take((port.guid, port.port)))
                .collect()
        };
        for (place, (port, (chunks, minutes, first, lacks_counter))) in
            ports.iter().zip(taken).enumerate()
        {
            let found = archived.as_mut().map(|rows| {
                rows.remove(&(port.guid, port.port))
                    .unwrap_or_else(|| empty.clone())
            });
            let is_whole = found.is_some();
            let mut row = found.unwrap_or_else(|| empty.clone());
            let archived_to = row.end_ns;
            let none = if chunks.is_none() {
                NOT_ASSIGNED
            } else {
                NO_DATA
            };
            for minute in &minutes {
                let time =
                    Interval::new(minute.number * MINUTE_NS, (minute.number + 1) * MINUTE_NS)
                        .filter(|time| time.to() <= first);
                let time = time.filter(|time| time.from() >= archived_to);
                if let (Some(time), Some((mean, max))) =
                    (time, old.and_then(|old| minute.values[old]))
                {
                    row.add_value(time, mean, max);
                }
            }
            if let Some(chunks) = chunks.as_ref().filter(|_| !is_whole) {
                fold_port(chunks.records(&wanted), None, None, &mut row);
            }
            let index = batch * PORTS_AT_ONCE + place;
            for (column, cell) in row.cells.iter_mut().enumerate() {
                let none = if lacks_counter && cell.has_answer {
                    NO_COUNTER
                } else {
                    none
                };
                let (number, is_bound) = cell.number(request.join, request.metric.scale, none);
                values[column * rows + index] = number;
                bounds.extend(is_bound.then_some((column * rows + index) as u32));
            }
        }
    }
    bounds.sort_unstable();
    let mut octets = Vec::with_capacity(32 + 2 * values.len() + 4 * bounds.len());
    octets.extend(MAGIC.to_le_bytes());
    octets.extend(topology.generation.to_le_bytes());
    octets.extend(from.to_le_bytes());
    octets.extend(step.to_le_bytes());
    octets.extend((rows as u32).to_le_bytes());
    octets.extend((columns as u32).to_le_bytes());
    octets.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    octets.extend(bounds.iter().flat_map(|place| place.to_le_bytes()));
    Ok(octets)
}

/// Max number of values in a matrix with records of an archive. Each needs about 80 bytes.
const MAX_ARCHIVED: u64 = 4_000_000;

/// Rows of all ports, from the archive and from memory.
#[derive(Clone)]
struct Rows {
    empty: Row,
    fields: Vec<String>,
    rows: FxHashMap<PortKey, Row>,
    /// Time of the first record of each port in memory.
    first: Arc<FxHashMap<PortKey, u64>>,
}

/// Returns the rows of all ports. `None` if there is no archive, if the records in memory cover the
/// whole range, or if the matrix is too large.
fn archived(
    empty: &Row,
    values: u64,
    memory: &Memory<'_>,
) -> Result<Option<FxHashMap<PortKey, Row>>, ApiError> {
    let Memory {
        hub, keys, range, ..
    } = memory;
    let (oldest, first) = {
        let store = &hub.read().store;
        let first = keys
            .iter()
            .filter_map(|key| Some((*key, store.first_ts_of(*key)?)));
        (
            store.first_ts().unwrap_or(u64::MAX),
            Arc::new(first.collect()),
        )
    };
    // The records at the edges of the range are used unchanged.
    let range = (
        range.0.saturating_sub(REACH_NS),
        range.1.saturating_add(REACH_NS),
    );
    let archive = hub
        .archive
        .as_ref()
        .filter(|archive| range.0 < oldest && values <= MAX_ARCHIVED && archive.exists());
    let Some(archive) = archive else {
        return Ok(None);
    };
    let rows = Rows {
        empty: empty.clone(),
        fields: reader::fields([&empty.metric]),
        rows: FxHashMap::default(),
        first,
    };
    Ok(Some(archive.read(rows, range, memory)?.rows))
}

impl Fold for Rows {
    fn uses(&self, kind: Type) -> bool {
        self.empty.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.empty.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some(self.fields.clone())
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        let row = self
            .rows
            .entry(port.key())
            .or_insert_with(|| self.empty.clone());
        row.add(record);
        if self
            .first
            .get(&port.key())
            .is_none_or(|first| port.ts < *first)
        {
            row.end_ns = row.end_ns.max(port.ts);
        }
    }

    fn merge(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }
}

impl Row {
    /// Adds a value to the columns that its time overlaps.
    fn add_value(&mut self, time: Interval, mean: f64, max: f64) {
        let end = self
            .from
            .saturating_add(self.step.saturating_mul(self.cells.len() as u64));
        let Some(time) = time.within(self.from, end) else {
            return;
        };
        let Some(time) = Interval::new(time.from() - self.from, time.to() - self.from) else {
            return;
        };
        for (column, part) in time.split(self.step) {
            let Some(cell) = self.cells.get_mut(column as usize) else {
                continue;
            };
            cell.mean.add(part, mean, max);
            if self.keeps_all {
                cell.all.push(max);
            }
        }
    }

    /// Adds the rate of another counter to columns that already have a value.
    fn add_more(&mut self, time: Interval, rate: f64) {
        let Some(time) = Interval::new(
            time.from().saturating_sub(self.from),
            time.to().saturating_sub(self.from),
        ) else {
            return;
        };
        for (column, part) in time.split(self.step) {
            let Some(cell) = self.cells.get_mut(column as usize) else {
                break;
            };
            cell.mean.raise(part, rate);
        }
    }

    /// Changes the cells of the columns that a time range overlaps.
    fn mark(&mut self, time: Interval, of: fn(&mut Cell)) {
        let end = self
            .from
            .saturating_add(self.step.saturating_mul(self.cells.len() as u64));
        let Some(time) = time.within(self.from, end) else {
            return;
        };
        let columns =
            (time.from() - self.from) / self.step..(time.to() - self.from).div_ceil(self.step);
        self.cells[columns.start as usize..columns.end as usize]
            .iter_mut()
            .for_each(of);
    }
}

impl Fold for Row {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        !self.metric.counters().is_empty()
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        self.slots.add(port);
        let slot_ns = counted_interval(port.ts, port.slot, port.dt_ns, port.xmit_blocked_dt_ns);
        let step = self.step;
        let slots = |time| time_in_bins(time, slot_ns, step);
        let Added {
            rates,
            partial,
            increased,
        } = if self.uses_counters() {
            self.readings.add(port, &self.metric, &self.slots)
        } else {
            let slot_before = Interval::ending_at(port.ts, Some(self.interval_ns));
            let time = slot_before.and_then(|time| self.metric.time(port, time));
            let rate = time
                .zip(self.metric.value(port))
                .map(|(time, per_second)| Rate {
                    time,
                    per_second,
                    is_addition: false,
                });
            Added {
                rates: rate.into_iter().collect(),
                ..Added::default()
            }
        };
        for Rate {
            time,
            per_second,
            is_addition,
        } in &rates
        {
            let Some(time) = slots(*time) else { continue };
            if *is_addition {
                self.add_more(time, *per_second);
            } else {
                self.add_value(time, *per_second, *per_second);
            }
        }
        for time in partial.into_iter().filter_map(slots) {
            self.mark(time, |cell| cell.is_partial = true);
        }
        if self.metric.shows_increases() {
            for time in increased.into_iter().filter_map(slots) {
                self.mark(time, |cell| cell.has_increase = true);
            }
        }
        let slot_before = Interval::ending_at(port.ts, Some(self.interval_ns)).and_then(slots);
        if let Some(time) = slot_before.filter(|_| rates.is_empty()) {
            match port.says() {
                Says::Down => self.mark(time, |cell| cell.is_down = true),
                Says::Silent => self.mark(time, |cell| cell.is_silent = true),
                Says::Answers | Says::Nothing => self.mark(time, |cell| cell.has_answer = true),
            }
        }
    }

    fn merge(&mut self, _: Self) {}
}

impl Cell {
    /// Returns the number for a cell, and whether it is a lower bound.
    fn number(&mut self, join: Join, scale: f64, none: u16) -> (u16, bool) {
        let value = match join {
            Join::Mean => self.mean.mean(),
            Join::Max => self.mean.max(),
            Join::P95 => percentile(&mut self.all),
        };
        let is_bound = self.is_partial || self.has_increase;
        match value {
            // "At least 0" carries no information, and an increase at an unknown time is not drawn
            // as 0.
            Some(value) if value > 0.0 || !is_bound => (
                ((value / scale).clamp(0.0, 1.0) * f64::from(FULL)).round() as u16,
                is_bound,
            ),
            None if self.is_down => (LINK_DOWN, false),
            None if self.is_silent => (NO_ANSWER, false),
            _ if self.has_increase => (INCREASE, false),
            Some(_) => (NO_DATA, false),
            None => (none, false),
        }
    }
}

/// Returns the smallest value that at least 95 % of the values do not exceed.
fn percentile(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let rank = (values.len() * 95).div_ceil(100);
    values.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_a_value_of_the_list() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values), Some(95.0));
        assert_eq!(
            (percentile(&mut [7.0]), percentile(&mut [])),
            (Some(7.0), None)
        );
    }

    #[test]
    fn cell_without_a_value_has_a_state() {
        let number = |mut cell: Cell| cell.number(Join::Max, 1.0, NO_DATA).0;
        let of = |value: f64| {
            let mut mean = Mean::default();
            mean.add(Interval::new(0, 1).expect("a time"), value, value);
            mean
        };
        assert_eq!(
            number(Cell {
                mean: of(0.5),
                is_silent: true,
                ..Cell::default()
            }),
            32_000
        );
        assert_eq!(
            number(Cell {
                is_silent: true,
                ..Cell::default()
            }),
            NO_ANSWER
        );
        assert_eq!(
            number(Cell {
                is_down: true,
                is_silent: true,
                ..Cell::default()
            }),
            LINK_DOWN
        );
        assert_eq!(
            number(Cell {
                has_increase: true,
                is_silent: true,
                ..Cell::default()
            }),
            NO_ANSWER
        );
        assert_eq!(
            number(Cell {
                has_increase: true,
                ..Cell::default()
            }),
            INCREASE
        );
        assert_eq!(
            number(Cell {
                mean: of(0.0),
                is_partial: true,
                ..Cell::default()
            }),
            NO_DATA
        );
        assert_eq!(number(Cell::default()), NO_DATA);
    }
}
