//! The values of a port over time.
//!
//! A value has the time of the end of its interval. A record without the value gives a null, so a
//! gap stays a gap. With a step, the values of a step are joined: the mean of a rate or a share,
//! weighted by time, and the last value of a counter. Steps of whole slots have the values of their
//! slots, as the columns of a heat map have. For the time before the oldest record, the means of
//! the minutes are used.

use ibnet_analysis::input::Fold;
use ibnet_analysis::input::memory::{REACH_NS, fold_port};
use ibnet_analysis::metric::Metric;
use ibnet_analysis::ports::PortKey;
use ibnet_analysis::rates::{Added, Rate, Readings, Slots};
use ibnet_analysis::record::{Interval, Port, Record, Type, Value};
use ibnet_record::minute::{MINUTE_NS, Mean};
use ibnet_record::slots::{counted_interval, time_in_bins};
use serde::Serialize;

use crate::archive::reader::{self, OfPort};
use crate::query::error::{ApiError, wrong};
use crate::query::memory::Memory;
use crate::state::Hub;
use crate::store::chunk::Wanted;
use crate::store::minutes;

/// Largest number of values in an answer.
pub(crate) const MAX_VALUES: usize = 1_000_000;

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
        let metric: Metric = name
            .parse()
            .map_err(|error: ibnet_record::types::ParseError| {
                wrong("metric", name, error.expected)
            })?;
        if metric.ratio().is_some() {
            return Err(wrong(
                "metric",
                name,
                "xmit_blocked and xmit_gbps, whose ratio it is",
            ));
        }
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
    /// What is known of each value that is not exact. Absent if all values are exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Vec<Option<State>>>,
}

/// What is known of a value that is not exact. The names are those of the heat map of `ibnet-view`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// The value is a lower bound: counters of the metric have no rate, or a counter is full.
    AtLeast,
    /// Errors increased at an unknown time, and there is no value above 0.
    Increase,
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
#[derive(Clone, Copy, Debug)]
struct Sample {
    time: Interval,
    value: Option<Number>,
    state: Option<State>,
    /// Time between two slots, if the record shows it.
    slot_ns: Option<u64>,
}

impl Sample {
    /// Adds a rate that describes `time`, which can be a part of the time of the value.
    fn add(&mut self, time: Interval, per_second: f64) {
        if let Some((value, part)) = self
            .value
            .as_mut()
            .zip(time.within(self.time.from(), self.time.to()))
        {
            let share = part.length_ns() as f64 / self.time.length_ns() as f64;
            *value = Number::Real(value.value() + share * per_second);
        }
    }
}

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
        let chunks = state.store.chunks(
            key,
            from.saturating_sub(REACH_NS),
            to.saturating_add(REACH_NS),
        );
        let first = chunks
            .as_ref()
            .and_then(|_| state.store.first_ts_of(key))
            .unwrap_or(u64::MAX);
        let minutes = if from < first {
            state.store.minutes(key, from, to.min(first))
        } else {
            Vec::new()
        };
        (chunks, minutes, first)
    };
    let Some(chunks) = chunks else {
        return Err(ApiError::missing(format!(
            "there is no port {}/{} in the records; /api/v1/topology lists all ports",
            key.0, key.1
        )));
    };
    let empty = Samples {
        metrics: metrics
            .iter()
            .map(|metric| (metric.clone(), Readings::default()))
            .collect(),
        slots: Slots::default(),
        samples: vec![Vec::new(); metrics.len()],
        range,
    };
    let wanted = Wanted::named(metrics.iter().flat_map(SeriesMetric::counters));
    let samples = match archived(hub, key, &empty, &wanted, first)? {
        Some(samples) => samples,
        None => {
            let mut fold = empty;
            fold_port(chunks.records(&wanted), None, None, &mut fold);
            fold.samples
        }
    };
    let joined = |(metric, samples): (&SeriesMetric, Vec<Sample>)| {
        let index = minutes::METRICS
            .iter()
            .position(|name| *name == metric.name());
        // The archive can end before the records in memory begin.
        let archived_to = samples
            .iter()
            .map(|sample| sample.time.to())
            .take_while(|end| *end < first)
            .last()
            .unwrap_or(0);
        let old = minutes.iter().filter_map(|minute| {
            let interval =
                Interval::new(minute.number * MINUTE_NS, (minute.number + 1) * MINUTE_NS)?;
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
fn archived(
    hub: &Hub,
    key: PortKey,
    empty: &Samples,
    wanted: &Wanted,
    first: u64,
) -> Result<Option<Vec<Vec<Sample>>>, ApiError> {
    // The records at the edges of the range are used as they are.
    let range = (
        empty.range.0.saturating_sub(REACH_NS),
        empty.range.1.saturating_add(REACH_NS),
    );
    let Some(archive) = hub
        .archive
        .as_ref()
        .filter(|archive| range.0 < first && archive.exists())
    else {
        return Ok(None);
    };
    let node = {
        let state = hub.read();
        let index = state.topology.find(key);
        index
            .and_then(|index| state.topology.ports.get(index))
            .map(|port| port.node.clone())
            .unwrap_or_default()
    };
    let fields = reader::fields(empty.metrics.iter().map(|(metric, _)| &metric.metric));
    let Some(fold) = OfPort::new(key, &node, fields, empty.clone()) else {
        return Ok(None);
    };
    let memory = Memory {
        hub,
        keys: vec![key],
        wanted: wanted.clone(),
        events: Vec::new(),
        range,
    };
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
        if old.len() + samples.len() > MAX_VALUES {
            return Err(ApiError::wrong(format!(
                "the answer has more than {MAX_VALUES} values; give a step or a shorter range"
            )));
        }
        let real = |value: &Option<(f64, f64)>| value.map(|(mean, _)| Number::Real(mean));
        let old = old
            .iter()
            .map(|(time, value)| (time.to(), (real(value), None)));
        let all = old.chain(
            samples
                .iter()
                .map(|sample| (sample.time.to(), stated(sample.value, sample.state))),
        );
        let mut all: Vec<(u64, _)> = all.filter(|(end, _)| (from..=to).contains(end)).collect();
        // The minutes lie between the records of the archive and those in memory.
        all.sort_by_key(|(time, _)| *time);
        let (t, all): (_, Vec<_>) = all.into_iter().unzip();
        let (v, state) = all.into_iter().unzip();
        return Ok(Series {
            t,
            v,
            max: None,
            state: some(state),
        });
    };
    let count = (to - from).div_ceil(step.max(1)) as usize;
    if count > MAX_VALUES {
        return Err(ApiError::wrong(format!(
            "the answer has more than {MAX_VALUES} steps; give a longer step or a shorter range"
        )));
    }
    let mut bins = vec![StepBin::default(); count];
    let olds = old.iter().filter_map(|(time, value)| {
        value.map(|(mean, max)| (*time, Some((mean, max)), None, None))
    });
    let news = samples.iter().filter_map(|sample| {
        // Bins begin at `from`.
        let slot_ns = sample
            .slot_ns
            .filter(|slot_ns| from.is_multiple_of(*slot_ns));
        Some((
            time_in_bins(sample.time, slot_ns, step)?,
            sample.value.map(|value| (value.value(), value.value())),
            sample.value,
            sample.state,
        ))
    });
    for (time, value, number, state) in olds.chain(news) {
        let Some(time) = time.within(from, to) else {
            continue;
        };
        let Some(time) = Interval::new(time.from() - from, time.to() - from) else {
            continue;
        };
        for (bin, part) in time.split(step) {
            let Some(bin) = bins.get_mut(bin as usize) else {
                continue;
            };
            bin.state = bin.state.max(state.filter(|_| !is_counter));
            if let Some((mean, max)) = value {
                bin.mean.add(part, mean, max);
            }
        }
        if let Some(bin) = bins
            .get_mut(((time.to() - 1) / step) as usize)
            .filter(|_| value.is_some())
        {
            bin.last = number;
            if is_counter {
                bin.state = state;
            }
        }
    }
    let mean = |bin: &StepBin| {
        if is_counter {
            bin.last
        } else {
            bin.mean.mean().map(Number::Real)
        }
    };
    let (v, state) = bins.iter().map(|bin| stated(mean(bin), bin.state)).unzip();
    Ok(Series {
        t: (1..=count as u64)
            .map(|number| (from + number * step).min(to))
            .collect(),
        v,
        max: (!is_counter).then(|| {
            bins.iter()
                .map(|bin| stated(bin.mean.max().map(Number::Real), bin.state).0)
                .collect()
        }),
        state: some(state),
    })
}

/// Returns a value and its state. An increase at an unknown time is not returned as 0, and beside
/// other errors it makes their number a lower bound. At least 0 says nothing, so it is no value.
fn stated(value: Option<Number>, state: Option<State>) -> (Option<Number>, Option<State>) {
    match (value, state) {
        (Some(value), Some(_)) if value.value() > 0.0 => (Some(value), Some(State::AtLeast)),
        (_, Some(State::Increase)) => (None, Some(State::Increase)),
        (_, Some(State::AtLeast)) => (None, None),
        (value, None) => (value, None),
    }
}

/// Returns the states if there are any.
fn some(states: Vec<Option<State>>) -> Option<Vec<Option<State>>> {
    Some(states).filter(|states| states.iter().any(Option::is_some))
}

#[derive(Clone, Copy, Debug, Default)]
struct StepBin {
    mean: Mean,
    last: Option<Number>,
    state: Option<State>,
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
        self.metrics
            .iter()
            .any(|(metric, _)| !metric.counters().is_empty())
    }

    fn add(&mut self, record: &Record<'_>) {
        let Record::Port(port) = record else { return };
        self.slots.add(port);
        let (from, to) = self.range;
        // The last step needs the record after the range, whose time begins in the range.
        let is_near = |time: &Interval| time.to() >= from && time.from() <= to;
        let before = || Interval::new(port.ts.saturating_sub(1), port.ts);
        let slot_ns = counted_interval(port.ts, port.slot, port.dt_ns, port.xmit_blocked_dt_ns);
        for ((metric, readings), samples) in self.metrics.iter_mut().zip(&mut self.samples) {
            if metric.counters().is_empty() || metric.form == As::Total {
                let (time, value, state) = metric.sample(port, slot_ns);
                if time.is_none() && metric.counters().is_empty() && value.is_some() {
                    // Another sampler describes the time.
                    continue;
                }
                samples.extend(time.or_else(before).filter(is_near).map(|time| Sample {
                    time,
                    value,
                    state,
                    slot_ns,
                }));
                continue;
            }
            let Added {
                rates,
                partial,
                mut increased,
            } = readings.add(port, &metric.metric, &self.slots);
            increased.retain(|_| metric.metric.shows_increases());
            if rates.is_empty() {
                let time = increased.first().copied().or_else(before).filter(is_near);
                samples.extend(time.map(|time| Sample {
                    time,
                    value: None,
                    state: None,
                    slot_ns,
                }));
            }
            for Rate {
                time,
                per_second,
                is_addition,
            } in rates
            {
                if is_addition {
                    // Counters of a sum can be read in different slots.
                    overlapping(samples, time).for_each(|sample| sample.add(time, per_second));
                } else if is_near(&time) {
                    samples.push(Sample {
                        time,
                        value: Some(Number::Real(per_second)),
                        state: None,
                        slot_ns,
                    });
                }
            }
            let states = [(partial, State::AtLeast), (increased, State::Increase)];
            for (time, state) in states
                .into_iter()
                .flat_map(|(times, state)| times.into_iter().map(move |time| (time, state)))
            {
                overlapping(samples, time)
                    .for_each(|sample| sample.state = sample.state.max(Some(state)));
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.samples
            .iter_mut()
            .zip(other.samples)
            .for_each(|(samples, other)| samples.extend(other));
    }
}

/// Returns the last samples that overlap a time.
fn overlapping(samples: &mut [Sample], time: Interval) -> impl Iterator<Item = &mut Sample> {
    let after = samples
        .iter_mut()
        .rev()
        .take_while(move |sample| sample.time.to() > time.from());
    after.filter(move |sample| sample.time.from() < time.to())
}

impl SeriesMetric {
    /// Returns the value of a record that needs no other record, with the time that it describes.
    fn sample(
        &self,
        port: &Port<'_>,
        slot_ns: Option<u64>,
    ) -> (Option<Interval>, Option<Number>, Option<State>) {
        if self.counters().is_empty() {
            // A round-trip time stands for a slot.
            let slot_before =
                Interval::ending_at(port.ts, Some(slot_ns.unwrap_or(port.rtt_ns).max(1)));
            let time = slot_before.and_then(|time| self.metric.time(port, time));
            return (time, self.metric.value(port).map(Number::Real), None);
        }
        let is_full = self.counters().iter().any(|name| port.is_saturated(name));
        (
            None,
            self.total(port).map(Number::Counter),
            is_full.then_some(State::AtLeast),
        )
    }

    /// Returns the sum of the counters.
    fn total(&self, port: &Port<'_>) -> Option<u64> {
        let element = self
            .metric
            .name()
            .strip_suffix(']')
            .and_then(|name| name.rsplit_once('['))
            .and_then(|(_, index)| index.parse().ok());
        let values = self
            .counters()
            .iter()
            .filter_map(|name| match (port.value(name)?, element) {
                (Value::One(value), None) => Some(*value),
                (Value::Many(values), None) => Some(
                    values
                        .iter()
                        .fold(0_u64, |sum, value| sum.saturating_add(*value)),
                ),
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
