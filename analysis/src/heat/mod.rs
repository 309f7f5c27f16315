//! Heat maps: the values of metrics by port and time.
//!
//! A heat map has a row for each port and a column for each piece of time. A *cell* is the mean of
//! the metric of one port over one column. Columns are short at first. If the recording is long,
//! several columns are joined to a longer one, so each length is a multiple of the shorter lengths.
//! The memory depends on the size of the picture, not on the number of records. A cell has a value
//! or one of these states: the port did not answer, the value is not known, or there is no record.

use std::collections::BTreeSet;
use std::sync::Arc;

use ibnet::record::counters;
use rustc_hash::FxHashMap;

use crate::error::AnalysisError;
use crate::hosts::Hosts;
use crate::input::Fold;
use crate::metric::{Element, Metric, Reading};
use crate::ports::PortKey;
use crate::record::{Port, Record, Type};
use crate::suggest;

pub mod grid;
pub mod marks;
pub mod order;
pub mod range;

use grid::{Grid, Panel};
use order::{PortAndPeer, RowGroup, RowKind, RowLabel};

/// Possible lengths of a column in milliseconds; each divides the next.
const STEPS_MS: [u64; 22] = [
    1,
    2,
    10,
    20,
    100,
    200,
    1000,
    2000,
    10_000,
    20_000,
    60_000,
    120_000,
    600_000,
    1_200_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    604_800_000,
    6_048_000_000,
    60_480_000_000,
];

/// Largest number of columns: about the width of a screen in pixels.
const MOST_COLUMNS: u64 = 2000;

/// Largest number of cells of a metric; a cell has 16 octets.
const MOST_CELLS: u64 = 4 << 20;

/// Number of service levels and of virtual lanes (IBA vol. 1, 3.5.7 and 3.5.8).
const ELEMENTS: usize = 16;

/// The heat map of all records so far.
#[derive(Clone, Debug)]
pub struct HeatMap {
    metrics: Arc<[Metric]>,
    hosts: Option<Arc<Hosts>>,
    by_key: FxHashMap<PortKey, usize>,
    rows: Vec<Row>,
    /// Index of the column length in `STEPS_MS`.
    step: usize,
    /// Numbers of the first and the last column, counted since 1970.
    span: Option<(u64, u64)>,
    /// Largest number of values of a metric in a record, for each metric; 0 if no record has a
    /// counter of the metric.
    seen: Vec<usize>,
    /// Number of elements into which each metric was split; 1 without elements.
    elements: usize,
    /// Names of the counters in the first record of each chunk, to suggest a similar name.
    names: BTreeSet<String>,
}

/// The cells of a port.
#[derive(Clone, Debug)]
struct Row {
    port: PortAndPeer,
    /// Cells of each metric.
    tracks: Vec<Track>,
    /// State of each sampler that queries the port.
    samplers: Vec<SamplerState>,
}

/// Consecutive cells.
#[derive(Clone, Debug, Default)]
struct Track {
    start: u64,
    cells: Vec<Sum>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sum {
    sum: f64,
    values: u32,
    /// Number of records without an answer.
    no_answer: u16,
    /// Number of records whose value is not known.
    unknown: u16,
}

/// First and last counters that a sampler read from a port. With redundancy a port has two
/// samplers.
#[derive(Clone, Debug)]
struct SamplerState {
    sampler: Box<str>,
    first: CounterReading,
    last: CounterReading,
}

/// The counters of one record.
#[derive(Clone, Debug)]
struct CounterReading {
    time_ns: u64,
    answered: bool,
    /// Counters of the metrics that are rates, in the order of the metrics.
    readings: Vec<Reading>,
}

impl HeatMap {
    /// Creates an empty heat map. With `hosts` it has only the ports of these hosts and the peers
    /// of these ports.
    pub fn new(metrics: Vec<Metric>, hosts: Option<Hosts>) -> Self {
        Self {
            seen: vec![0; metrics.len()],
            elements: 1,
            metrics: metrics.into(),
            hosts: hosts.map(Arc::new),
            by_key: FxHashMap::default(),
            rows: Vec::new(),
            step: 0,
            span: None,
            names: BTreeSet::new(),
        }
    }

    /// Creates an empty heat map whose rows are the elements of arrays of counters, such as service
    /// levels.
    ///
    /// # Errors
    /// Returns an error if the counter of a metric does not have these elements.
    pub fn by_element(metrics: &[Metric], hosts: Option<Hosts>, by: RowKind) -> Result<Self, AnalysisError> {
        let mut all = Vec::new();
        for metric in metrics {
            let fits = metric.elements() == if by == RowKind::Sl { Element::Sl } else { Element::Vl };
            let elements: Option<Vec<Metric>> = (0..ELEMENTS).map(|index| metric.element(index)).collect();
            let Some(elements) = elements.filter(|_| fits) else {
                let why = format!("it does not have one value for each {}", by.to_string().to_uppercase());
                let help = match by {
                    RowKind::Sl => "give a counter such as port_xmit_data_sl_bytes, or another --by",
                    _ => "give a counter such as port_vl_xmit_wait_ticks, or another --by",
                };
                return Err(AnalysisError::Metric { name: metric.name().to_owned(), why, help: help.to_owned() });
            };
            all.extend(elements);
        }
        Ok(Self { elements: ELEMENTS, ..Self::new(all, hosts) })
    }

    /// Returns the cells of all rows.
    ///
    /// # Errors
    /// Returns an error if no record was selected, or if no record has a counter of a metric.
    pub fn finish(mut self, by: RowKind) -> Result<Grid, AnalysisError> {
        for row in 0..self.rows.len() {
            for sampler in std::mem::take(&mut self.rows[row].samplers) {
                self.put_rates(row, &sampler.first, None);
            }
        }
        let Some((first, last)) = self.span else { return Err(self.no_records()) };
        for (metrics, seen) in self.metrics.chunks(self.elements).zip(self.seen.chunks(self.elements)) {
            let is_missing = |metric: &&Metric| !metric.counters().is_empty() && seen.iter().all(|seen| *seen == 0);
            if let Some(metric) = metrics.first().filter(is_missing) {
                return Err(self.not_seen(metric));
            }
        }
        let columns = (last - first + 1) as usize;
        let (rows, panels) = if by.is_element() { self.element_panels(by, first, columns) } else { self.panels(by, first, columns)? };
        let step_ns = self.step_ns();
        Ok(Grid { start_ns: first * step_ns, step_ns, columns, by, rows, panels })
    }

    fn panels(&self, by: RowKind, first: u64, columns: usize) -> Result<(Vec<RowLabel>, Vec<Panel>), AnalysisError> {
        let ports: Vec<&PortAndPeer> = self.rows.iter().map(|row| &row.port).collect();
        let groups = order::groups(&ports, by);
        if groups.is_empty() {
            let help = format!("no recorded port belongs to a {by}; try another --by");
            return Err(AnalysisError::Nothing { what: format!("no {by} was sampled"), help });
        }
        let panel = |number: usize| {
            let row = |index: usize| self.rows[index].tracks[number].row(first, columns);
            let panel = Panel::new(self.metrics[number].clone(), by, &groups, |index| self.rows[index].port.gbps, row);
            Panel { summed: self.seen[number].max(1), ..panel }
        };
        let panels = (0..self.metrics.len()).map(panel).collect();
        Ok((groups.into_iter().map(|group| group.name).collect(), panels))
    }

    /// Returns one row for each element of the arrays: the sum over all ports.
    fn element_panels(&self, by: RowKind, first: u64, columns: usize) -> (Vec<RowLabel>, Vec<Panel>) {
        let rows = self.seen.chunks(self.elements).filter_map(|seen| Some(seen.iter().rposition(|seen| *seen > 0)? + 1)).max().unwrap_or(0);
        let all = [RowGroup { name: RowLabel::new(""), members: (0..self.rows.len()).collect() }];
        let panel = |(number, metrics): (usize, &[Metric])| {
            let element = |index: usize| {
                let track = number * self.elements + index;
                let row = |port: usize| self.rows[port].tracks[track].row(first, columns);
                Panel::new(metrics[index].clone(), by, &all, |_| None, row)
            };
            let elements: Vec<Panel> = (0..rows).map(element).collect();
            let metric = metrics[0].whole();
            Panel { metric, summed: 1, full: None, cells: elements.into_iter().flat_map(|panel| panel.cells).collect() }
        };
        let names = (0..rows).map(|index| RowLabel::new(format!("{} {index}", by.to_string().to_uppercase())));
        (names.collect(), self.metrics.chunks(self.elements).enumerate().map(panel).collect())
    }

    /// Returns the error for a metric that no record has.
    fn not_seen(&self, metric: &Metric) -> AnalysisError {
        let (name, whole) = (metric.name().to_owned(), metric.whole());
        let recorded = |name: &str| self.names.contains(name);
        if whole != *metric && recorded(whole.name()) {
            let why = "no record has this element".to_owned();
            let help = format!("give `{whole}` without an index, or a smaller index");
            return AnalysisError::Metric { name, why, help };
        }
        if let Some((_, group)) = counters().find(|(counter, _)| *counter == whole.name()) {
            return AnalysisError::NotRecorded { name, group };
        }
        let mut known: Vec<&str> = Metric::names().collect();
        known.extend(self.names.iter().map(String::as_str));
        known.extend(counters().map(|(counter, _)| counter));
        let help = match suggest::nearest(whole.name(), &known) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => {
                let names: Vec<_> = Metric::names().collect();
                format!("give {}, or a counter by its name in the records", names.join(", "))
            }
        };
        AnalysisError::Metric { name, why: "no record has it".to_owned(), help }
    }

    fn no_records(&self) -> AnalysisError {
        let what =
            if self.hosts.is_some() { "no record of these hosts in the time range" } else { "no record of a port in the time range" };
        AnalysisError::Nothing { what: what.to_owned(), help: "check --nodes, --from and --to, or omit them".to_owned() }
    }

    fn step_ns(&self) -> u64 {
        STEPS_MS[self.step] * 1_000_000
    }

    fn row(&mut self, port: &Port<'_>) -> usize {
        *self.by_key.entry((port.guid, port.port)).or_insert_with(|| {
            self.rows.push(Row { port: PortAndPeer::of(port), tracks: vec![Track::default(); self.metrics.len()], samplers: Vec::new() });
            self.rows.len() - 1
        })
    }

    /// Extends the span to a point in time and returns its column.
    fn column(&mut self, time_ns: u64) -> u64 {
        loop {
            let column = time_ns / self.step_ns();
            let (first, last) = self.span.map_or((column, column), |(first, last)| (first.min(column), last.max(column)));
            let most = (MOST_CELLS / (self.rows.len().max(1) * self.elements) as u64).clamp(100, MOST_COLUMNS);
            if last - first < most || self.step + 1 == STEPS_MS.len() {
                self.span = Some((first, last));
                return column;
            }
            self.coarsen(self.step + 1);
        }
    }

    fn coarsen(&mut self, step: usize) {
        let ratio = STEPS_MS[step] / STEPS_MS[self.step];
        self.step = step;
        self.span = self.span.map(|(first, last)| (first / ratio, last / ratio));
        if ratio > 1 {
            self.rows.iter_mut().flat_map(|row| &mut row.tracks).for_each(|track| track.coarsen(ratio));
        }
    }

    /// Makes the columns at least as long as a slot.
    fn fit(&mut self, interval_ns: u64) {
        if self.step_ns() < interval_ns {
            let fits = |step: &usize| STEPS_MS[*step] * 1_000_000 >= interval_ns;
            self.coarsen((self.step..STEPS_MS.len()).find(fits).unwrap_or(STEPS_MS.len() - 1));
        }
    }

    /// Adds the rates between two readings at the time of the later one.
    fn put_rates(&mut self, row: usize, reading: &CounterReading, before: Option<&CounterReading>) {
        let column = self.column(reading.time_ns);
        let metrics = Arc::clone(&self.metrics);
        let rates = metrics.iter().enumerate().filter(|(_, metric)| !metric.counters().is_empty());
        for ((metric, _), (number, counters)) in rates.zip(reading.readings.iter().enumerate()) {
            let rate = before.and_then(|before| counters.rate_since(before.readings.get(number)?));
            self.rows[row].tracks[metric].at(column).put(rate, reading.answered);
        }
    }
}

impl Fold for HeatMap {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        self.metrics.iter().any(|metric| !metric.counters().is_empty())
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        let is_selected =
            |hosts: &Arc<Hosts>| hosts.contains_node(&port.node) || port.peer.as_deref().is_some_and(|peer| hosts.contains_node(peer));
        if !self.hosts.as_ref().is_none_or(is_selected) {
            return;
        }
        let (time_ns, interval_ns) = slot_start(port);
        self.fit(interval_ns);
        let row = self.row(port);
        self.rows[row].port.update_link(&port.link);
        let column = self.column(time_ns);
        let metrics = Arc::clone(&self.metrics);
        let mut readings = Vec::new();
        for (index, metric) in metrics.iter().enumerate() {
            if metric.counters().is_empty() {
                self.rows[row].tracks[index].at(column).put(metric.value(port), port.answered());
            } else {
                self.seen[index] = self.seen[index].max(metric.width(port));
                readings.push(Reading::new(port, metric));
            }
        }
        if readings.is_empty() {
            return;
        }
        if self.names.is_empty() {
            self.names.extend(port.counters.iter().map(|(name, _)| (*name).to_owned()));
        }
        let reading = CounterReading { time_ns, answered: port.answered(), readings };
        let sampler = self.rows[row].samplers.iter().position(|known| *known.sampler == *port.sampler);
        match sampler {
            Some(sampler) => {
                let before = std::mem::replace(&mut self.rows[row].samplers[sampler].last, reading.clone());
                self.put_rates(row, &reading, Some(&before));
            }
            None => {
                let state = SamplerState { sampler: (*port.sampler).into(), first: reading.clone(), last: reading };
                self.rows[row].samplers.push(state);
            }
        }
    }

    fn merge(&mut self, mut later: Self) {
        let step = self.step.max(later.step);
        self.coarsen(step);
        later.coarsen(step);
        self.seen.iter_mut().zip(&later.seen).for_each(|(seen, later)| *seen = later.max(seen).to_owned());
        self.names.append(&mut later.names);
        let span = later.span;
        let mut joints = Vec::new();
        for Row { port, tracks, samplers } in later.rows {
            let fresh = self.rows.len();
            let row = *self.by_key.entry(port.key()).or_insert(fresh);
            if row == fresh {
                self.rows.push(Row { port, tracks, samplers });
                continue;
            }
            self.rows[row].port.keep_faster(port.gbps);
            for (track, later) in self.rows[row].tracks.iter_mut().zip(tracks) {
                track.merge(later);
            }
            for sampler in samplers {
                let known = self.rows[row].samplers.iter().position(|known| known.sampler == sampler.sampler);
                match known {
                    Some(known) => {
                        let before = std::mem::replace(&mut self.rows[row].samplers[known].last, sampler.last);
                        joints.push((row, sampler.first, before));
                    }
                    None => self.rows[row].samplers.push(sampler),
                }
            }
        }
        if let Some((first, last)) = span {
            for column in [first, last] {
                self.column(column * STEPS_MS[step] * 1_000_000);
            }
        }
        // The rates come last, because a new column may make all columns coarser.
        joints.into_iter().for_each(|(row, first, before)| self.put_rates(row, &first, Some(&before)));
    }
}

impl Track {
    fn at(&mut self, column: u64) -> &mut Sum {
        if self.cells.is_empty() {
            self.start = column;
        }
        if column < self.start {
            let missing = (self.start - column) as usize;
            self.cells.splice(..0, std::iter::repeat_n(Sum::default(), missing));
            self.start = column;
        }
        let index = (column - self.start) as usize;
        if index >= self.cells.len() {
            self.cells.resize(index + 1, Sum::default());
        }
        &mut self.cells[index]
    }

    fn merge(&mut self, later: Self) {
        for (column, cell) in (later.start..).zip(later.cells) {
            if cell != Sum::default() {
                self.at(column).add(cell);
            }
        }
    }

    fn coarsen(&mut self, ratio: u64) {
        let fine = std::mem::take(self);
        for (column, cell) in (fine.start..).zip(fine.cells) {
            self.at(column / ratio).add(cell);
        }
    }

    /// Returns all columns of the heat map, including empty ones.
    fn row(&self, first: u64, columns: usize) -> Vec<grid::Cell> {
        let cell = |column: u64| {
            let index = usize::try_from(column.checked_sub(self.start)?).ok()?;
            self.cells.get(index).map(|sum| sum.cell())
        };
        (first..).take(columns).map(|column| cell(column).unwrap_or(grid::Cell::NoRecord)).collect()
    }
}

impl Sum {
    fn put(&mut self, value: Option<f64>, answered: bool) {
        match value {
            Some(value) => {
                self.sum += value;
                self.values = self.values.saturating_add(1);
            }
            None if answered => self.unknown = self.unknown.saturating_add(1),
            None => self.no_answer = self.no_answer.saturating_add(1),
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.values = self.values.saturating_add(other.values);
        self.no_answer = self.no_answer.saturating_add(other.no_answer);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    fn cell(&self) -> grid::Cell {
        match self {
            Self { values: 1.., .. } => grid::Cell::Value(self.sum / f64::from(self.values)),
            Self { no_answer: 1.., .. } => grid::Cell::NoAnswer,
            Self { unknown: 1.., .. } => grid::Cell::Unknown,
            _ => grid::Cell::NoRecord,
        }
    }
}

/// Returns the start of the slot of a record, and the interval, both in nanoseconds; the interval
/// is 0 if it is unknown. The number of a slot is its start divided by the interval, so `ts`
/// divided by the number is slightly more than the interval. Intervals are round numbers, so the
/// excess is rounded away.
fn slot_start(port: &Port<'_>) -> (u64, u64) {
    const DAY: u64 = 86_400_000_000_000;
    let about = port.ts.checked_div(port.slot).unwrap_or(0);
    let unit = [(5_000_000_000, 1_000), (100_000_000_000, 1_000_000)]
        .iter()
        .find(|(below, _)| about < *below)
        .map_or(1_000_000_000, |(_, unit)| *unit);
    let interval = (about + unit / 2) / unit * unit;
    let start = port.slot.saturating_mul(interval);
    let is_sound = (1_000_000..=DAY).contains(&interval) && port.slot > 2000 && port.ts.abs_diff(start) < 2 * interval;
    if is_sound { (start, interval) } else { (port.ts, port.dt_ns.unwrap_or(0).min(DAY)) }
}

#[cfg(test)]
mod tests;
