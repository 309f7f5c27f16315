//! The values of a port over time.
//!
//! A value has the time of the end of its interval. A record without the value gives a null, so a
//! gap stays a gap. With a step, the values of a step are joined: the mean of a rate or a share,
//! weighted by time, and the last value of a counter. For the time before the oldest record, the
//! means of the minutes are used.

use ibnet_analysis::input::Fold;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::metric::Metric;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::rates::{Rate, Readings, Slots};
use ibnet_analysis::record::{Interval, Port, Record, Type, Value};
use serde::Serialize;

use crate::archive::reader::{self, OfPort};
use crate::query::error::{ApiError, wrong};
use crate::query::memory::Memory;
use crate::state::Hub;
use crate::store::chunk::Wanted;
use crate::store::minutes::{self, MINUTE_NS};

/// Largest number of values in an answer.
pub(crate) const MOST_VALUES: usize = 1_000_000;

/// Form in which a counter is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum As {
    /// The value of the counter.
    #[default]
    Total,
    /// The increase per second between two readings.
    Rate,
}

/// A metric with its form.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SeriesMetric {
    metric: Metric,
    form: As,
}

impl SeriesMetric {
    /// Parses the name of a metric: a rate or share of the records, a counter, or an element of an
    /// array of counters.
    pub(crate) fn parse(name: &str, form: As) -> Result<Self, ApiError> {
        let metric: Metric = name.parse().map_err(|error: ibnet::types::ParseError| wrong("metric", name, error.expected))?;
        Ok(Self { metric, form })
    }

    /// Returns the counters that the metric needs.
    pub(crate) fn counters(&self) -> &[String] {
        self.metric.counters()
    }

    pub(crate) fn name(&self) -> &str {
        self.metric.name()
    }
}

/// The values of one port and one metric.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Series {
    /// Ends of the intervals in nanoseconds since 1970.
    pub(crate) t: Vec<u64>,
    /// Values. `None` if there is no value.
    pub(crate) v: Vec<Option<Number>>,
    /// Largest value of each step. Absent without a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<Vec<Option<Number>>>,
}

/// A counter or a rate. A counter keeps all of its digits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Number {
    Counter(u64),
    Real(f64),
}

impl Number {
    fn value(self) -> f64 {
        match self {
            Self::Counter(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

/// A value with the time that it describes. For a counter, it is the time before the reading.
type Sample = (Interval, Option<Number>);

/// Returns the values from `from` to `to` for each metric.
pub(crate) fn find(
    hub: &Hub,
    key: PortKey,
    metrics: &[SeriesMetric],
    range: (u64, u64),
    step: Option<u64>,
) -> Result<Vec<Series>, ApiError> {
    let (from, to) = range;
    let (chunks, minutes, first) = {
        let state = hub.read();
        let chunks = state.store.chunks(key, from.saturating_sub(REACH_NS), to.saturating_add(REACH_NS));
        let first = chunks.as_ref().and_then(|_| state.store.first_ts_of(key)).unwrap_or(u64::MAX);
        let minutes = if from < first { state.store.minutes(key, from, to.min(first)) } else { Vec::new() };
        (chunks, minutes, first)
    };
    let Some(chunks) = chunks else {
        return Err(ApiError::missing(format!("there is no port {}/{} in the records; /api/v1/topology lists all ports", key.0, key.1)));
    };
    let empty = Samples {
        metrics: metrics.iter().map(|metric| (metric.clone(), Readings::default())).collect(),
        slots: Slots::default(),
        samples: vec![Vec::new(); metrics.len()],
        range,
    };
    let wanted = Wanted::Named(metrics.iter().flat_map(SeriesMetric::counters).cloned().collect());
    let samples = match archived(hub, key, &empty, &wanted, first)? {
        Some(samples) => samples,
        None => {
            let mut fold = empty;
            fold_port(chunks.records(&wanted), None, None, &mut fold);
            fold.samples
        }
    };
    let joined = |(metric, samples): (&SeriesMetric, Vec<Sample>)| {
        let index = minutes::METRICS.iter().position(|name| *name == metric.name());
        // The archive can end before the records in memory begin.
        let archived_to = samples.iter().map(|(time, _)| time.to()).take_while(|end| *end < first).last().unwrap_or(0);
        let old = minutes.iter().filter_map(|minute| {
            let interval = Interval::new(minute.number * MINUTE_NS, (minute.number + 1) * MINUTE_NS)?;
            let value = minute.values[index?];
            (interval.to() <= first && interval.from() >= archived_to).then_some((interval, value))
        });
        let old: Vec<_> = old.collect();
        series(&old, &samples, metric, step, range)
    };
    metrics.iter().zip(samples).map(joined).collect()
}

/// Returns the values of the archive and then those in memory, for each metric. `None` without an
/// archive, and if the memory has the whole range.
fn archived(hub: &Hub, key: PortKey, empty: &Samples, wanted: &Wanted, first: u64) -> Result<Option<Vec<Vec<Sample>>>, ApiError> {
    // The records at the edges of the range are used as they are.
    let range = (empty.range.0.saturating_sub(REACH_NS), empty.range.1.saturating_add(REACH_NS));
    let Some(archive) = hub.archive.as_ref().filter(|archive| range.0 < first && archive.exists()) else { return Ok(None) };
    let node = {
        let state = hub.read();
        let index = state.topology.find(key);
        index.and_then(|index| state.topology.ports.get(index)).map(|port| port.node.clone()).unwrap_or_default()
    };
    let fields = reader::fields(empty.metrics.iter().map(|(metric, _)| &metric.metric));
    let Some(fold) = OfPort::new(key, &node, fields, empty.clone()) else { return Ok(None) };
    let memory = Memory { hub, keys: vec![key], wanted: wanted.clone(), events: Vec::new(), range };
    Ok(Some(archive.read(fold, range, &memory)?.fold.samples))
}

/// Makes the answer from the means of minutes and the values of records.
fn series(
    old: &[(Interval, Option<(f64, f64)>)],
    samples: &[Sample],
    metric: &SeriesMetric,
    step: Option<u64>,
    (from, to): (u64, u64),
) -> Result<Series, ApiError> {
    let is_counter = !metric.counters().is_empty() && metric.form == As::Total;
    let Some(step) = step else {
        // A value has the time of its end.
        if old.len() + samples.len() > MOST_VALUES {
            return Err(ApiError::wrong(format!("the answer has more than {MOST_VALUES} values; give a step or a shorter range")));
        }
        let real = |value: &Option<(f64, f64)>| value.map(|(mean, _)| Number::Real(mean));
        let all = old.iter().map(|(time, value)| (time.to(), real(value))).chain(samples.iter().map(|(time, value)| (time.to(), *value)));
        let mut all: Vec<(u64, Option<Number>)> = all.filter(|(end, _)| (from..=to).contains(end)).collect();
        // The minutes lie between the records of the archive and those in memory.
        all.sort_by_key(|(time, _)| *time);
        let (t, v) = all.into_iter().unzip();
        return Ok(Series { t, v, max: None });
    };
    let count = (to - from).div_ceil(step.max(1)) as usize;
    if count > MOST_VALUES {
        return Err(ApiError::wrong(format!("the answer has more than {MOST_VALUES} steps; give a longer step or a shorter range")));
    }
    let mut bins = vec![StepBin::default(); count];
    let olds = old.iter().filter_map(|(time, value)| value.map(|(mean, max)| (*time, mean, max, None)));
    let news = samples.iter().filter_map(|(time, value)| value.map(|value| (*time, value.value(), value.value(), Some(value))));
    for (time, mean, max, number) in olds.chain(news) {
        // Bins begin at `from`.
        let Some(time) = time.within(from, to) else { continue };
        let Some(time) = Interval::new(time.from() - from, time.to() - from) else { continue };
        for (bin, part) in time.split(step) {
            if let Some(bin) = bins.get_mut(bin as usize) {
                bin.sum += mean * part.length_ns() as f64;
                bin.time_ns += part.length_ns();
                bin.max = Some(bin.max.map_or(max, |known| known.max(max)));
            }
        }
        if let Some(bin) = bins.get_mut(((time.to() - 1) / step) as usize) {
            bin.last = number;
        }
    }
    let mean = |bin: &StepBin| if is_counter { bin.last } else { (bin.time_ns > 0).then(|| Number::Real(bin.sum / bin.time_ns as f64)) };
    Ok(Series {
        t: (1..=count as u64).map(|number| (from + number * step).min(to)).collect(),
        v: bins.iter().map(mean).collect(),
        max: (!is_counter).then(|| bins.iter().map(|bin| bin.max.map(Number::Real)).collect()),
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct StepBin {
    sum: f64,
    time_ns: u64,
    max: Option<f64>,
    last: Option<Number>,
}

/// Collects the values of a port.
#[derive(Clone)]
struct Samples {
    /// Metrics, each with the last readings of its counters.
    metrics: Vec<(SeriesMetric, Readings)>,
    slots: Slots,
    samples: Vec<Vec<Sample>>,
    range: (u64, u64),
}

impl Fold for Samples {
    fn uses(&self, kind: Type) -> bool {
        kind == Type::Port
    }

    fn uses_counters(&self) -> bool {
        self.metrics.iter().any(|(metric, _)| !metric.counters().is_empty())
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        self.slots.add(port);
        for ((metric, readings), samples) in self.metrics.iter_mut().zip(&mut self.samples) {
            let found = metric.samples(readings, &self.slots, port);
            for (time, value, is_addition) in found {
                let Some(time) = time.or_else(|| Interval::new(port.ts.saturating_sub(1), port.ts)) else { continue };
                // The last step needs the record after the range, whose time begins in the range.
                if time.to() < self.range.0 || time.from() > self.range.1 {
                    continue;
                }
                match samples.last_mut() {
                    // Counters of a sum can be read in different slots.
                    Some((_, Some(Number::Real(sum)))) if is_addition => *sum += value.map_or(0.0, Number::value),
                    _ => samples.push((time, value)),
                }
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.samples.iter_mut().zip(other.samples).for_each(|(samples, other)| samples.extend(other));
    }
}

impl SeriesMetric {
    /// Returns the values of a record, each with the time that it describes, and with whether it is
    /// added to the value before it.
    fn samples(&self, readings: &mut Readings, slots: &Slots, port: &Port<'_>) -> Vec<(Option<Interval>, Option<Number>, bool)> {
        if self.counters().is_empty() {
            let round_trip = Interval::ending_at(port.ts, Some(port.rtt_ns.max(1)));
            let time = round_trip.and_then(|round_trip| self.metric.time(port, round_trip));
            return vec![(time, self.metric.value(port).map(Number::Real), false)];
        }
        if self.form == As::Total {
            return vec![(None, self.total(port).map(Number::Counter), false)];
        }
        let rates = readings.add(port, &self.metric, slots).rates;
        if rates.is_empty() {
            return vec![(None, None, false)];
        }
        let sample = |Rate { time, per_second, is_addition }| (Some(time), Some(Number::Real(per_second)), is_addition);
        rates.into_iter().map(sample).collect()
    }

    /// Returns the sum of the counters.
    fn total(&self, port: &Port<'_>) -> Option<u64> {
        let element = self.metric.name().strip_suffix(']').and_then(|name| name.rsplit_once('[')).and_then(|(_, index)| index.parse().ok());
        let values = self.counters().iter().filter_map(|name| match (port.value(name)?, element) {
            (Value::One(value), None) => Some(*value),
            (Value::Many(values), None) => Some(values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value))),
            (Value::Many(values), Some(index)) => values.get::<usize>(index).copied(),
            _ => None,
        });
        values.reduce(u64::saturating_add)
    }
}

/// Returns the form of a counter from the parameter `as`.
pub(crate) fn form(text: Option<&str>) -> Result<As, ApiError> {
    match text {
        None | Some("total") => Ok(As::Total),
        Some("rate") => Ok(As::Rate),
        Some(other) => Err(wrong("as", other, "total or rate")),
    }
}
