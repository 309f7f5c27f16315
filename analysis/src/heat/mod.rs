//! Heat maps: the values of metrics by port and time.
//!
//! A heat map has a row for each port and a column for each time interval. A *cell* is the mean
//! of the metric of one port over one column. It has a value, a lower bound of the value, or one
//! of these states: errors increased at an unknown time, the port did not answer, its link is
//! down, the value is unknown, or there is no record.
//!
//! Columns are short at first, and are joined with their neighbours if the recording is long;
//! each possible column length is therefore a multiple of the shorter ones. Memory depends on the
//! size of the picture, not on the number of records.

use std::collections::BTreeSet;
use std::sync::Arc;

use ibnet_record::slots::{counted_interval, slot_interval, whole_slots};
use ibnet_record::{counters, is_dt_slots_field, suggest};
use rustc_hash::FxHashMap;

use crate::error::AnalysisError;
use crate::groups::Groups;
use crate::hosts::Hosts;
use crate::input::Fold;
use crate::input::run::Run;
use crate::metric::{Element, Metric};
use crate::ports::PortKey;
use crate::rates::{Added, Rate, Readings, Slots};
use crate::record::{Interval, Port, Record, Type};
use crate::silence::silent_time;

pub mod grid;
mod groups;
pub mod marks;
pub mod order;
pub mod range;
pub mod rows;
mod runs;
pub(crate) mod track;

use grid::{Cell, Grid, Panel};
use order::{PortAndPeer, RowGroup, RowId, RowKind, RowLabel};
use track::{State, Track};

/// Possible lengths of a column in milliseconds, each a multiple of the one before.
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

/// Milliseconds in a minute.
const MINUTE_MS: u64 = 60_000;

/// Max number of columns, which is about the width of a screen in pixels.
const MAX_COLUMNS: u64 = 2000;

/// Max number of cells of a metric. A cell needs 24 bytes.
const MAX_CELLS: u64 = 4 << 20;

/// Number of service levels and of virtual lanes (IBA vol. 1, 3.5.7 and 3.5.8).
const ELEMENTS: usize = 16;

/// The heat map of all records so far.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// The metrics of the panels.
    shown: Arc<[Metric]>,
    /// The metrics that are read: both parts of a ratio in place of the ratio.
    metrics: Arc<[Metric]>,
    hosts: Option<Arc<Hosts>>,
    groups: Arc<Groups>,
    by_key: FxHashMap<PortKey, usize>,
    rows: Vec<Row>,
    /// Index of the column length in `STEPS_MS`.
    step: usize,
    /// Numbers of the first and the last column, counted since 1970.
    span: Option<(u64, u64)>,
    /// Start and end of the recorded time in nanoseconds since 1970.
    recorded: Option<(u64, u64)>,
    /// For each metric, the max number of its values in a record, or 0 if no record has a counter
    /// of the metric.
    seen: Vec<usize>,
    /// Number of elements (such as service levels) into which each metric was split, or 1 if
    /// metrics are not split.
    elements: usize,
    /// Names of some counters in the records, to suggest a similar name for an unknown counter.
    names: BTreeSet<String>,
}

/// The cells of a port.
#[derive(Clone, Debug)]
struct Row {
    port: PortAndPeer,
    /// Cells of each metric.
    tracks: Vec<Track>,
    /// Time of the last record.
    last_ts: Option<u64>,
    slots: Slots,
    /// Last readings of the counters of each metric. Empty for a derived value.
    readings: Vec<Readings>,
    /// For each metric, whether any record has one of its counters.
    has_counter: Vec<bool>,
    /// Whether the port ever answered.
    answered: bool,
}

impl Row {
    /// Returns the cells of a metric, and whether the port can have it. A port that never
    /// answered can have any metric.
    fn of(&self, metric: usize, is_counter: bool, first: u64, columns: usize) -> (Vec<Cell>, bool) {
        (
            self.tracks[metric].row(first, columns),
            !is_counter || !self.answered || self.has_counter[metric],
        )
    }
}

/// Returns the blocked time per byte in nanoseconds, of blocked shares and data rates in Gb/s. It
/// is known only where both are exact, and 0 where nothing waited, even if nothing was sent either.
fn per_byte(blocked: &[Cell], sent: &[Cell]) -> Vec<Cell> {
    let of = |(blocked, sent): (&Cell, &Cell)| match (*blocked, *sent) {
        (Cell::Value(0.0), Cell::Value(_)) => Cell::Value(0.0),
        (Cell::Value(blocked), Cell::Value(gbps)) if gbps > 0.0 => {
            Cell::Value(8.0 * blocked / gbps)
        }
        (blocked, sent) if blocked.value().is_none() && sent.value().is_none() => {
            blocked.first(sent)
        }
        _ => Cell::Unknown,
    };
    blocked.iter().zip(sent).map(of).collect()
}

/// Returns the time between two slots in nanoseconds, if columns consist of whole slots.
fn slot_of_columns(
    ts: u64,
    slot: u64,
    dt_ns: Option<u64>,
    xmit_blocked_dt_ns: Option<u64>,
) -> Option<u64> {
    let slot_ns = counted_interval(ts, slot, dt_ns, xmit_blocked_dt_ns)?;
    let mut steps = STEPS_MS.iter().map(|step_ms| step_ms * 1_000_000);
    let shortest_ns = steps.find(|step_ns| *step_ns >= slot_ns)?;
    shortest_ns.is_multiple_of(slot_ns).then_some(slot_ns)
}

impl HeatMap {
    /// Creates an empty heat map. With `hosts`, it has only the ports of these hosts and the
    /// peers of these ports. Without metrics, it uses no records.
    pub fn new(metrics: Vec<Metric>, hosts: Option<Hosts>) -> Self {
        let read = |metric: &Metric| match metric.ratio() {
            Some(parts) => parts.to_vec(),
            None => vec![metric.clone()],
        };
        let read: Vec<Metric> = metrics.iter().flat_map(read).collect();
        Self {
            seen: vec![0; read.len()],
            elements: 1,
            shown: metrics.into(),
            metrics: read.into(),
            hosts: hosts.map(Arc::new),
            groups: Arc::default(),
            by_key: FxHashMap::default(),
            rows: Vec::new(),
            step: 0,
            span: None,
            recorded: None,
            names: BTreeSet::new(),
        }
    }

    /// Sets the groups for [`RowKind::Group`].
    #[must_use]
    pub fn with_groups(self, groups: Groups) -> Self {
        Self {
            groups: Arc::new(groups),
            ..self
        }
    }

    /// Creates an empty heat map whose rows are the elements of arrays of counters, such as
    /// service levels.
    ///
    /// # Errors
    /// Returns an error if the counter of a metric does not have these elements.
    pub fn by_element(
        metrics: &[Metric],
        hosts: Option<Hosts>,
        by: RowKind,
    ) -> Result<Self, AnalysisError> {
        let mut all = Vec::new();
        for metric in metrics {
            let fits = metric.elements()
                == if by == RowKind::Sl {
                    Element::Sl
                } else {
                    Element::Vl
                };
            let elements: Option<Vec<Metric>> =
                (0..ELEMENTS).map(|index| metric.element(index)).collect();
            let Some(elements) = elements.filter(|_| fits) else {
                let why = format!(
                    "it does not have one value for each {}",
                    by.to_string().to_uppercase()
                );
                let help = match by {
                    RowKind::Sl => {
                        "give a counter such as port_xmit_data_sl_bytes, or another --by"
                    }
                    _ => "give a counter such as port_vl_xmit_wait_ticks, or another --by",
                };
                return Err(AnalysisError::Metric {
                    name: metric.name().to_owned(),
                    why,
                    help: help.to_owned(),
                });
            };
            all.extend(elements);
        }
        Ok(Self {
            elements: ELEMENTS,
            ..Self::new(all, hosts)
        })
    }

    /// Returns the cells of all rows.
    ///
    /// # Errors
    /// Returns an error if no record was selected, or if no record has a counter of a metric.
    pub fn finish(self, by: RowKind) -> Result<Grid, AnalysisError> {
        let Some((first, last)) = self.columns() else {
            return Err(self.no_records());
        };
        for (metrics, seen) in self
            .metrics
            .chunks(self.elements)
            .zip(self.seen.chunks(self.elements))
        {
            let is_missing = |metric: &&Metric| {
                !metric.counters().is_empty() && seen.iter().all(|seen| *seen == 0)
            };
            if let Some(metric) = metrics.first().filter(is_missing) {
                return Err(self.not_seen(metric));
            }
        }
        let columns = (last - first + 1) as usize;
        let (rows, panels) = if by.is_element() {
            self.element_panels(by, first, columns)
        } else {
            self.panels(by, first, columns)?
        };
        let step_ns = self.step_ns();
        Ok(Grid {
            start_ns: first * step_ns,
            step_ns,
            columns,
            by,
            rows,
            panels,
        })
    }

    /// Returns the rows of all hosts in the order of the topology.
    pub fn host_rows(&self) -> Vec<RowLabel> {
        let ports: Vec<&PortAndPeer> = self.rows.iter().map(|row| &row.port).collect();
        order::groups(&ports, RowKind::Host)
            .into_iter()
            .map(|group| group.name)
            .collect()
    }

    fn panels(
        &self,
        by: RowKind,
        first: u64,
        columns: usize,
    ) -> Result<(Vec<RowLabel>, Vec<Panel>), AnalysisError> {
        let ports: Vec<&PortAndPeer> = self.rows.iter().map(|row| &row.port).collect();
        let groups = if by == RowKind::Group {
            groups::rows(&ports, &self.groups)
        } else {
            order::groups(&ports, by)
        };
        if groups.is_empty() {
            let help = format!("no recorded port belongs to a {by}; try another --by");
            return Err(AnalysisError::Nothing {
                what: format!("no {by} was sampled"),
                help,
            });
        }
        let mut number = 0;
        let mut panels = Vec::new();
        for metric in self.shown.iter() {
            let is_counter = !metric.counters().is_empty();
            let of = |number: usize| {
                move |index: usize| self.rows[index].of(number, is_counter, first, columns)
            };
            let joined = |row: &dyn Fn(usize) -> (Vec<Cell>, bool)| {
                let gbps = |index: usize| self.rows[index].port.gbps;
                Panel::new(metric.clone(), by, &groups, gbps, row)
            };
            let panel = match metric.ratio() {
                None => joined(&of(number)),
                // The ratio of the sums of all ports, or the largest ratio of a port.
                Some(_) if by.is_sum() => {
                    let (blocked, sent) = (joined(&of(number)), joined(&of(number + 1)));
                    let cells = blocked.cells.iter().zip(&sent.cells);
                    Panel {
                        cells: cells
                            .map(|(blocked, sent)| per_byte(blocked, sent))
                            .collect(),
                        ..blocked
                    }
                }
                Some(_) => joined(&|index| {
                    let (blocked, has_it) = of(number)(index);
                    (per_byte(&blocked, &of(number + 1)(index).0), has_it)
                }),
            };
            panels.push(Panel {
                summed: self.seen[number].max(1),
                ..panel
            });
            number += metric.ratio().map_or(1, |parts| parts.len());
        }
        Ok((groups.into_iter().map(|group| group.name).collect(), panels))
    }

    /// Returns one row for each element of the arrays, summed over all ports.
    fn element_panels(
        &self,
        by: RowKind,
        first: u64,
        columns: usize,
    ) -> (Vec<RowLabel>, Vec<Panel>) {
        let rows = self
            .seen
            .chunks(self.elements)
            .filter_map(|seen| Some(seen.iter().rposition(|seen| *seen > 0)? + 1))
            .max()
            .unwrap_or(0);
        let all = [RowGroup {
            name: RowLabel::new(""),
            members: (0..self.rows.len()).collect(),
        }];
        let panel = |(number, metrics): (usize, &[Metric])| {
            let element = |index: usize| {
                let track = number * self.elements + index;
                let row = |port: usize| self.rows[port].of(track, true, first, columns);
                Panel::new(metrics[index].clone(), by, &all, |_| None, row)
            };
            let elements: Vec<Panel> = (0..rows).map(element).collect();
            let metric = metrics[0].whole();
            let ports = elements
                .iter()
                .flat_map(|panel| panel.ports.clone())
                .collect();
            Panel {
                metric,
                summed: 1,
                full: None,
                ports,
                cells: elements.into_iter().flat_map(|panel| panel.cells).collect(),
            }
        };
        let name = |index: usize| RowLabel {
            id: RowId {
                index: Some(index),
                ..RowId::default()
            },
            ..RowLabel::new(format!("{} {index}", by.to_string().to_uppercase()))
        };
        (
            (0..rows).map(name).collect(),
            self.metrics
                .chunks(self.elements)
                .enumerate()
                .map(panel)
                .collect(),
        )
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
                format!(
                    "give {}, or a counter by its name in the records",
                    names.join(", ")
                )
            }
        };
        AnalysisError::Metric {
            name,
            why: "no record has it".to_owned(),
            help,
        }
    }

    fn no_records(&self) -> AnalysisError {
        let what = if self.hosts.is_some() {
            "no record of these hosts in the time range"
        } else {
            "no record of a port in the time range"
        };
        AnalysisError::Nothing {
            what: what.to_owned(),
            help: "check --nodes, --from and --to, or omit them".to_owned(),
        }
    }

    fn step_ns(&self) -> u64 {
        STEPS_MS[self.step] * 1_000_000
    }

    fn is_selected(&self, port: &Port<'_>) -> bool {
        self.hosts
            .as_ref()
            .is_none_or(|hosts| hosts.contains_end(&port.node, port.peer.as_deref()))
    }

    fn row(&mut self, port: &Port<'_>) -> usize {
        *self
            .by_key
            .entry((port.guid, port.port))
            .or_insert_with(|| {
                let count = self.metrics.len();
                self.rows.push(Row {
                    port: PortAndPeer::of(port),
                    tracks: vec![Track::default(); count],
                    last_ts: None,
                    slots: Slots::default(),
                    readings: vec![Readings::default(); count],
                    has_counter: vec![false; count],
                    answered: false,
                });
                self.rows.len() - 1
            })
    }

    /// Extends the span to a range of columns.
    fn extend(&mut self, (first, last): (u64, u64)) {
        self.span = Some(
            self.span
                .map_or((first, last), |span| (span.0.min(first), span.1.max(last))),
        );
        let most =
            (MAX_CELLS / (self.rows.len().max(1) * self.elements) as u64).clamp(100, MAX_COLUMNS);
        while self.span.is_some_and(|(first, last)| last - first >= most)
            && self.step + 1 < STEPS_MS.len()
        {
            self.coarsen(self.step + 1);
        }
    }

    /// Returns the first and the last column. Slots rarely begin exactly where a column begins,
    /// so a column at either end is left out if less than an eighth of it was recorded.
    fn columns(&self) -> Option<(u64, u64)> {
        let ((first, last), (from, to)) = (self.span?, self.recorded?);
        let (step_ns, least_ns) = (self.step_ns(), self.step_ns() / 8);
        let first_ns = first
            .saturating_add(1)
            .saturating_mul(step_ns)
            .saturating_sub(from);
        let last_ns = to.saturating_sub(last.saturating_mul(step_ns));
        let (first, last) = if first < last && last_ns < least_ns {
            (first, last - 1)
        } else {
            (first, last)
        };
        Some(if first < last && first_ns < least_ns {
            (first + 1, last)
        } else {
            (first, last)
        })
    }

    /// Adds the state of a record to the columns of its slots. `slot_ns` comes from
    /// [`slot_of_columns`].
    fn put_slots(
        &mut self,
        row: usize,
        metric: usize,
        slot_ns: Option<u64>,
        time: Interval,
        state: State,
    ) {
        if let Some(time) = whole_slots(time, slot_ns) {
            self.put(row, metric, time, state);
        }
    }

    /// Adds a value to all columns that overlap its time.
    fn put(&mut self, row: usize, metric: usize, time: Interval, state: State) {
        let step_ns = self.step_ns();
        let (from, to) = self.recorded.unwrap_or_else(|| (time.from(), time.to()));
        self.recorded = Some((from.min(time.from()), to.max(time.to())));
        self.extend((time.from() / step_ns, (time.to() - 1) / step_ns));
        let step_ns = self.step_ns();
        for (column, part) in time.split(step_ns) {
            self.rows[row].tracks[metric].at(column).put(
                state,
                part,
                time.length_ns().min(step_ns),
            );
        }
    }

    fn coarsen(&mut self, step: usize) {
        let ratio = STEPS_MS[step] / STEPS_MS[self.step];
        self.step = step;
        self.span = self.span.map(|(first, last)| (first / ratio, last / ratio));
        if ratio > 1 {
            self.rows
                .iter_mut()
                .flat_map(|row| &mut row.tracks)
                .for_each(|track| track.coarsen(ratio));
        }
    }

    /// Makes the columns at least as long as a slot.
    fn fit(&mut self, interval_ns: u64) {
        if self.step_ns() < interval_ns {
            let fits = |step: &usize| STEPS_MS[*step] * 1_000_000 >= interval_ns;
            self.coarsen(
                (self.step..STEPS_MS.len())
                    .find(fits)
                    .unwrap_or(STEPS_MS.len() - 1),
            );
        }
    }

    /// Adds the rates of the counters since their last readings.
    fn put_rates(&mut self, row: usize, port: &Port<'_>, slot_ns: Option<u64>, silent: Interval) {
        let metrics = Arc::clone(&self.metrics);
        if port.has_gap.is_none() {
            self.rows[row].slots.add(port);
        }
        for (index, metric) in metrics
            .iter()
            .enumerate()
            .filter(|(_, metric)| !metric.counters().is_empty())
        {
            let width = metric.width(port);
            self.seen[index] = self.seen[index].max(width);
            let Row {
                slots,
                readings,
                has_counter,
                ..
            } = &mut self.rows[row];
            has_counter[index] |= width > 0;
            let Added {
                rates,
                partial,
                increased,
            } = readings[index].add(port, metric, slots);
            if rates.is_empty() && !port.is_edge {
                // If the counter is read later, its rate replaces this state.
                self.put_slots(row, index, slot_ns, silent, State::without_value(port));
            }
            for Rate {
                time,
                per_second,
                is_addition,
            } in rates
            {
                self.put_slots(
                    row,
                    index,
                    slot_ns,
                    time,
                    if is_addition {
                        State::Addition(per_second)
                    } else {
                        State::Value(per_second)
                    },
                );
            }
            partial
                .into_iter()
                .for_each(|time| self.put_slots(row, index, slot_ns, time, State::Partial));
            if metric.shows_increases() {
                increased
                    .into_iter()
                    .for_each(|time| self.put_slots(row, index, slot_ns, time, State::Increase));
            }
        }
    }
}

impl Fold for HeatMap {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port && !self.metrics.is_empty()
    }

    fn uses_counters(&self) -> bool {
        self.metrics
            .iter()
            .any(|metric| !metric.counters().is_empty())
    }

    fn fields(&self) -> Option<Vec<String>> {
        const ALWAYS: [&str; 9] = [
            "node",
            "kind",
            "peer_guid",
            "peer_port",
            "peer",
            "link",
            "status",
            "mads",
            "saturated",
        ];
        Some(
            ALWAYS
                .map(str::to_owned)
                .into_iter()
                .chain(self.metrics.iter().flat_map(Metric::fields))
                .collect(),
        )
    }

    fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_deref()
    }

    fn takes_minutes(&self, length_ns: u64) -> bool {
        // Columns will be at least as long as they would be for this time with the max number of
        // columns.
        let is_fit = |step_ms: &&u64| length_ns / (**step_ms * 1_000_000) < MAX_COLUMNS;
        STEPS_MS
            .iter()
            .find(is_fit)
            .is_none_or(|step_ms| *step_ms >= MINUTE_MS)
    }

    fn takes_runs(&self) -> bool {
        self.metrics.iter().all(|metric| metric.field().is_some())
    }

    fn add_run(&mut self, run: &Run<'_>) {
        self.put_run(run);
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        if self.metrics.is_empty() || !self.is_selected(port) {
            return;
        }
        let interval_ns = slot_interval(port);
        if !port.is_edge {
            self.fit(interval_ns);
        }
        let row = self.row(port);
        let Some(silent) = silent_time(self.rows[row].last_ts, port.ts, interval_ns) else {
            return;
        };
        let slot_ns = slot_of_columns(port.ts, port.slot, port.dt_ns, port.xmit_blocked_dt_ns);
        if !port.is_edge {
            self.rows[row].port.update_link(&port.link);
            self.rows[row].last_ts = Some(port.ts);
            self.rows[row].answered |= port.answered();
            // With two samplers, a port has two round-trip times in a slot.
            let slot_before = Interval::ending_at(port.ts, Some(interval_ns)).unwrap_or(silent);
            for index in 0..self.metrics.len() {
                let metric = &self.metrics[index];
                if metric.counters().is_empty() {
                    let value = metric.value(port).zip(metric.time(port, slot_before));
                    let (state, time) = match value {
                        Some((value, time)) => (State::Value(value), time),
                        None => (State::without_value(port), port.time.unwrap_or(silent)),
                    };
                    self.put_slots(row, index, slot_ns, time, state);
                }
            }
        }
        if self.uses_counters() {
            if self.names.is_empty() {
                let names = port
                    .counters
                    .iter()
                    .map(|(name, _)| *name)
                    .filter(|name| !is_dt_slots_field(name));
                self.names.extend(names.map(str::to_owned));
            }
            self.put_rates(row, port, slot_ns, silent);
        }
    }

    fn merge(&mut self, mut other: Self) {
        let step = self.step.max(other.step);
        self.coarsen(step);
        other.coarsen(step);
        self.seen
            .iter_mut()
            .zip(&other.seen)
            .for_each(|(seen, other)| *seen = *other.max(seen));
        self.names.append(&mut other.names);
        for row in other.rows {
            self.by_key.insert(row.port.key(), self.rows.len());
            self.rows.push(row);
        }
        if let Some(span) = other.span {
            self.extend(span);
        }
        self.recorded = match (self.recorded, other.recorded) {
            (Some(own), Some(other)) => Some((own.0.min(other.0), own.1.max(other.1))),
            (own, other) => own.or(other),
        };
    }
}

#[cfg(test)]
mod tests;
