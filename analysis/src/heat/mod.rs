//! Heat maps: what a metric was, by place and time.
//!
//! Cells are means over a step of time. Steps begin fine and get coarser as the recording turns out to be long, each a multiple of the one
//! before, so memory is bounded by the picture, however many lines there are. A cell tells apart that there is no record, that the
//! port did not answer, that the value is not known, and a value.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::error::ViewError;
use super::hosts::Hosts;
use super::input::Fold;
use super::metric::{Metric, Reading};
use super::record::{Port, Record, Type};
use ibnet::types::{Guid, PortNum};

pub mod grid;
pub mod order;
pub mod picture;
pub mod terminal;

use grid::Grid;
use order::{By, Place};

/// How long a column can be, in milliseconds: each divides the next.
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

/// Columns: no screen has more.
const MOST_COLUMNS: u64 = 2000;

/// Cells of a metric, 16 octets each.
const MOST_CELLS: u64 = 4 << 20;

/// All records so far.
#[derive(Clone, Debug)]
pub struct Heat {
    metrics: Arc<[Metric]>,
    hosts: Option<Arc<Hosts>>,
    by_key: FxHashMap<(Guid, PortNum), usize>,
    rows: Vec<Row>,
    /// Which of `STEPS_MS`.
    step: usize,
    /// The first and the last column, counted since 1970.
    span: Option<(u64, u64)>,
    /// Whether a counter of that metric was seen at all.
    seen: Vec<bool>,
    /// Names of counters, of the first record of each chunk: for whoever misspelt one.
    names: BTreeSet<String>,
}

/// A port.
#[derive(Clone, Debug)]
struct Row {
    place: Place,
    /// By metric.
    tracks: Vec<Track>,
    readers: Vec<Reader>,
}

/// Cells one after another.
#[derive(Clone, Debug, Default)]
struct Track {
    start: u64,
    cells: Vec<Sum>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sum {
    sum: f64,
    values: u32,
    /// Records without an answer.
    dead: u16,
    /// Records whose value is not known.
    unknown: u16,
}

/// What one sampler last read of a port; with redundancy there are two.
#[derive(Clone, Debug)]
struct Reader {
    sampler: Box<str>,
    first: Mark,
    last: Mark,
}

/// A record that the next one is compared with.
#[derive(Clone, Debug)]
struct Mark {
    time_ns: u64,
    answered: bool,
    /// Of the metrics that are rates, in their order.
    readings: Vec<Reading>,
}

impl Heat {
    /// Nothing yet. With `hosts` only their ports count, and those that face them.
    pub fn new(metrics: Vec<Metric>, hosts: Option<Hosts>) -> Self {
        Self {
            seen: vec![false; metrics.len()],
            metrics: metrics.into(),
            hosts: hosts.map(Arc::new),
            by_key: FxHashMap::default(),
            rows: Vec::new(),
            step: 0,
            span: None,
            names: BTreeSet::new(),
        }
    }

    /// The picture's numbers.
    ///
    /// # Errors
    /// When no record is left, or none has a counter that was asked for.
    pub fn finish(mut self, by: By) -> Result<Grid, ViewError> {
        for row in 0..self.rows.len() {
            for reader in std::mem::take(&mut self.rows[row].readers) {
                self.put_rates(row, &reader.first, None);
            }
        }
        let Some((first, last)) = self.span else { return Err(self.nothing()) };
        let missing = self.metrics.iter().zip(&self.seen).find(|(metric, seen)| !metric.counters().is_empty() && !**seen);
        if let Some((metric, _)) = missing {
            let similar = |name: &&String| strsim::jaro_winkler(name, metric.name());
            let nearest = self.names.iter().max_by(|a, b| similar(a).total_cmp(&similar(b))).cloned();
            return Err(ViewError::Counter { name: metric.name().to_owned(), nearest });
        }
        let places: Vec<&Place> = self.rows.iter().map(|row| &row.place).collect();
        let groups = order::groups(&places, by);
        if groups.is_empty() {
            let help = format!("no port in these lines belongs to a {by}; try another --by");
            return Err(ViewError::Nothing { what: format!("no {by} was sampled"), help });
        }
        let columns = (last - first + 1) as usize;
        let panel = |number: usize| {
            let row = |place: usize| self.rows[place].tracks[number].row(first, columns);
            grid::Panel::new(self.metrics[number].clone(), by, &groups, row)
        };
        let panels = (0..self.metrics.len()).map(panel).collect();
        let step_ns = self.step_ns();
        Ok(Grid { start_ns: first * step_ns, step_ns, columns, by, rows: groups.into_iter().map(|group| group.name).collect(), panels })
    }

    fn nothing(&self) -> ViewError {
        let what = if self.hosts.is_some() {
            "no record of a port of these hosts within these times"
        } else {
            "no record of a port within these times"
        };
        ViewError::Nothing { what: what.to_owned(), help: "look at --nodes, --from and --to, or leave them out".to_owned() }
    }

    fn step_ns(&self) -> u64 {
        STEPS_MS[self.step] * 1_000_000
    }

    fn row(&mut self, port: &Port<'_>) -> usize {
        *self.by_key.entry(port.key()).or_insert_with(|| {
            self.rows.push(Row { place: Place::of(port), tracks: vec![Track::default(); self.metrics.len()], readers: Vec::new() });
            self.rows.len() - 1
        })
    }

    /// Makes room for a column, and says which it is.
    fn column(&mut self, time_ns: u64) -> u64 {
        loop {
            let column = time_ns / self.step_ns();
            let (first, last) = self.span.map_or((column, column), |(first, last)| (first.min(column), last.max(column)));
            let most = (MOST_CELLS / self.rows.len().max(1) as u64).clamp(100, MOST_COLUMNS);
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

    /// Steps are never shorter than the slots.
    fn fit(&mut self, interval_ns: u64) {
        if self.step_ns() < interval_ns {
            let fits = |step: &usize| STEPS_MS[*step] * 1_000_000 >= interval_ns;
            self.coarsen((self.step..STEPS_MS.len()).find(fits).unwrap_or(STEPS_MS.len() - 1));
        }
    }

    /// The rates between two readings, in the time of the later one.
    fn put_rates(&mut self, row: usize, mark: &Mark, before: Option<&Mark>) {
        let column = self.column(mark.time_ns);
        let metrics = Arc::clone(&self.metrics);
        let rates = metrics.iter().enumerate().filter(|(_, metric)| !metric.counters().is_empty());
        for ((place, _), (number, reading)) in rates.zip(mark.readings.iter().enumerate()) {
            let rate = before.and_then(|before| reading.rate_since(before.readings.get(number)?));
            self.rows[row].tracks[place].at(column).put(rate, mark.answered);
        }
    }
}

impl Fold for Heat {
    fn wants(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn wants_counters(&self) -> bool {
        self.metrics.iter().any(|metric| !metric.counters().is_empty())
    }

    fn take(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        let is_meant = |hosts: &Arc<Hosts>| hosts.has(&port.node) || port.peer.as_deref().is_some_and(|peer| hosts.has(peer));
        if !self.hosts.as_ref().is_none_or(is_meant) {
            return;
        }
        let (time_ns, interval_ns) = slot_start(port);
        self.fit(interval_ns);
        let row = self.row(port);
        let column = self.column(time_ns);
        let metrics = Arc::clone(&self.metrics);
        let mut readings = Vec::new();
        for (place, metric) in metrics.iter().enumerate() {
            if metric.counters().is_empty() {
                self.rows[row].tracks[place].at(column).put(metric.value(port), port.answered());
            } else {
                self.seen[place] = self.seen[place] || metric.counters().iter().any(|name| port.counter(name).is_some());
                readings.push(Reading::new(port, metric.counters()));
            }
        }
        if readings.is_empty() {
            return;
        }
        if self.names.is_empty() {
            self.names.extend(port.counters.iter().map(|(name, _)| (*name).to_owned()));
        }
        let mark = Mark { time_ns, answered: port.answered(), readings };
        let reader = self.rows[row].readers.iter().position(|reader| *reader.sampler == *port.sampler);
        match reader {
            Some(reader) => {
                let before = std::mem::replace(&mut self.rows[row].readers[reader].last, mark.clone());
                self.put_rates(row, &mark, Some(&before));
            }
            None => self.rows[row].readers.push(Reader { sampler: (*port.sampler).into(), first: mark.clone(), last: mark }),
        }
    }

    fn merge(&mut self, mut later: Self) {
        let step = self.step.max(later.step);
        self.coarsen(step);
        later.coarsen(step);
        self.seen.iter_mut().zip(&later.seen).for_each(|(seen, later)| *seen |= later);
        self.names.append(&mut later.names);
        let span = later.span;
        let mut joints = Vec::new();
        for Row { place, tracks, readers } in later.rows {
            let fresh = self.rows.len();
            let row = *self.by_key.entry(place.key()).or_insert(fresh);
            if row == fresh {
                self.rows.push(Row { place, tracks, readers });
                continue;
            }
            for (track, later) in self.rows[row].tracks.iter_mut().zip(tracks) {
                track.merge(later);
            }
            for reader in readers {
                let known = self.rows[row].readers.iter().position(|known| known.sampler == reader.sampler);
                match known {
                    Some(known) => {
                        let before = std::mem::replace(&mut self.rows[row].readers[known].last, reader.last);
                        joints.push((row, reader.first, before));
                    }
                    None => self.rows[row].readers.push(reader),
                }
            }
        }
        if let Some((first, last)) = span {
            for column in [first, last] {
                self.column(column * STEPS_MS[step] * 1_000_000);
            }
        }
        // Only now: a new column may make all of them coarser.
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
        let place = (column - self.start) as usize;
        if place >= self.cells.len() {
            self.cells.resize(place + 1, Sum::default());
        }
        &mut self.cells[place]
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

    /// All columns of the picture, empty ones too.
    fn row(&self, first: u64, columns: usize) -> Vec<grid::Cell> {
        let cell = |column: u64| {
            let place = usize::try_from(column.checked_sub(self.start)?).ok()?;
            self.cells.get(place).map(|sum| sum.cell())
        };
        (first..).take(columns).map(|column| cell(column).unwrap_or(grid::Cell::Absent)).collect()
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
            None => self.dead = self.dead.saturating_add(1),
        }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.values = self.values.saturating_add(other.values);
        self.dead = self.dead.saturating_add(other.dead);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    fn cell(&self) -> grid::Cell {
        match self {
            Self { values: 1.., .. } => grid::Cell::Value(self.sum / f64::from(self.values)),
            Self { dead: 1.., .. } => grid::Cell::Dead,
            Self { unknown: 1.., .. } => grid::Cell::Unknown,
            _ => grid::Cell::Absent,
        }
    }
}

/// When the slot of a record began, and how long slots are, 0 where that cannot be told. A slot's number is its start by the interval, so
/// the quotient of both tells the interval, but for what `ts` is after the start by the number: intervals are round, so that is rounded away.
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
