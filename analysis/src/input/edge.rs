//! Values of counters at the edges of the selected time range.
//!
//! An edge usually lies between two readings of a counter, so the value at the edge is
//! interpolated ([`Interval::grown`]). A [`Fold`](super::Fold) gets this value in a record that
//! has only counters, which makes the increase over the time range the increase from edge to
//! edge. As a consequence, the increases over the parts of a range add up to the increase over
//! the whole range. If the counter was reset between the two readings, the value at the edge is
//! that of the earlier reading.

use super::run::{DATA_COUNTERS, Run};
use super::selection::Selection;
use crate::rates::{LastReading, Slots, saturated_from};
use crate::record::{Interval, Port, Record, Value};

/// Last readings of the counters of a port before each edge.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Last readings before the start of the time range.
    from: Vec<Reading>,
    /// Last readings before the end of the time range.
    to: Vec<Reading>,
    slots: Slots,
}

#[derive(Debug)]
struct Reading {
    name: Box<str>,
    last: LastReading,
    is_saturated: bool,
    value: Value,
}

impl Reading {
    /// Returns whether the counter was reset before its next value. A saturated counter that
    /// decreases was cleared, which is no reset.
    fn is_before_reset(&self, after: &Value) -> bool {
        match (&self.value, after) {
            _ if self.is_saturated => false,
            (Value::One(before), Value::One(after)) => after < before,
            (Value::Many(before), Value::Many(after)) => before
                .iter()
                .zip(after)
                .any(|(before, after)| after < before),
            _ => false,
        }
    }
}

impl Edges {
    /// Returns whether every counter has had its first reading in the time range.
    pub(super) const fn is_past_start(&self) -> bool {
        self.from.is_empty()
    }

    /// Adds many records within the time range that are not close to its end.
    pub(super) fn add_run(&mut self, run: &Run<'_>) {
        let last = run.rows().rev().take(2);
        last.rev().for_each(|row| {
            self.slots
                .add_slot(run.ts(row), run.slot(row), run.port().status());
        });
    }

    /// Cuts a record to the time range. Calls `put` with the interpolated counters at the edges,
    /// and with the record itself if its reading or a part of its time is within the range.
    pub(super) fn cut(
        &mut self,
        record: &mut Record<'_>,
        selection: &Selection,
        put: &mut dyn FnMut(&mut Record<'_>),
    ) {
        let Record::Port(port) = &mut *record else {
            return;
        };
        let Selection { from, to, .. } = *selection;
        let ts = port.ts;
        let had_time = port.time.or(port.blocked_time).is_some();
        self.slots.add(port);
        if !port.counters.is_empty() {
            if ts >= from {
                at_edge(&mut self.from, from, port, &self.slots, put);
            }
            if !selection.contains(ts) && ts >= to {
                at_edge(&mut self.to, to, port, &self.slots, put);
            }
            if ts < from {
                remember(&mut self.from, port);
            }
            if ts < to && selection.is_near_end(ts) {
                remember(&mut self.to, port);
            }
        }
        port.time = port.time.and_then(|time| time.within(from, to));
        port.blocked_time = port.blocked_time.and_then(|time| time.within(from, to));
        let has_time = port.time.or(port.blocked_time).is_some();
        if !selection.contains(ts) {
            if !has_time {
                return;
            }
            // The counters were read after the end of the time range.
            port.counters.clear();
            port.ts = ts.min(to);
        } else if had_time && !has_time && ts > from {
            // What is left of a shortened interval lies before the time range: only the counters
            // of the record are within the range, its rates are not.
            port.is_edge = true;
        }
        put(record);
    }
}

fn remember(readings: &mut Vec<Reading>, record: &Port<'_>) {
    // The counters of a port mostly have the same order in each record. Nothing is allocated for a
    // known counter, because this runs for each record near an edge.
    let mut next = 0;
    if readings.is_empty() {
        readings.reserve(record.counters.len());
    }
    for (name, value) in &record.counters {
        let is_of = |reading: &Reading| *reading.name == **name;
        let known = match readings.get(next).is_some_and(is_of) {
            true => Some(next),
            false => readings.iter().position(is_of),
        };
        let is_saturated = record.is_saturated(name);
        match known.map(|index| &mut readings[index]) {
            Some(reading) => {
                reading.last = LastReading::new(record, Some(&reading.last));
                (reading.is_saturated, reading.value) = (is_saturated, value.clone());
            }
            None => readings.push(Reading {
                name: (*name).into(),
                last: LastReading::new(record, None),
                is_saturated,
                value: value.clone(),
            }),
        }
        next = known.unwrap_or(readings.len() - 1) + 1;
    }
}

/// Computes the values at an edge for the counters of this record that were also read before the
/// edge. Calls `put` with those without a gap or a reset between the two readings, and then with
/// the others. Removes them from `readings`, so that each reading is used once.
fn at_edge(
    readings: &mut Vec<Reading>,
    edge: u64,
    record: &Port<'_>,
    slots: &Slots,
    put: &mut dyn FnMut(&mut Record<'_>),
) {
    if readings.is_empty() {
        return;
    }
    let is_reset = DATA_COUNTERS.into_iter().any(|name| {
        let before = readings.iter().find(|reading| *reading.name == *name);
        before
            .zip(record.value(name))
            .is_some_and(|(before, value)| before.is_before_reset(value))
    });
    for has_gap in [false, true] {
        let (mut counters, mut saturated) = (Vec::new(), Vec::new());
        for (name, value) in &record.counters {
            let is_unknown = |reading: &Reading| {
                let has_gap = record.has_gap;
                has_gap.unwrap_or_else(|| slots.has_gap(&reading.last, name, record.slot))
                    || reading.is_before_reset(value)
            };
            let is_found =
                |reading: &Reading| *reading.name == **name && is_unknown(reading) == has_gap;
            let Some(index) = readings.iter().position(is_found) else {
                continue;
            };
            let reading = readings.swap_remove(index);
            let Some(interval) = Interval::new(reading.last.ts, record.ts) else {
                continue;
            };
            let mut at_edge = between(&reading.value, value, interval, edge);
            for (found, is_saturated) in [
                (&reading.value, reading.is_saturated),
                (value, record.is_saturated(name)),
            ] {
                if is_saturated {
                    fill(&mut at_edge, found, name);
                }
            }
            counters.push((*name, at_edge));
            // An interpolated value is unknown if one of the two readings is. Around a reset, the
            // bytes of both directions are unknown, but an increase of errors counts where it was
            // read.
            if reading.is_saturated
                || record.is_saturated(name)
                || is_reset && DATA_COUNTERS.contains(name)
            {
                saturated.push((*name).into());
            }
        }
        if !counters.is_empty() {
            let mut at_edge = record.clone();
            (at_edge.counters, at_edge.saturated) = (counters, saturated);
            (at_edge.ts, at_edge.time, at_edge.blocked_time) = (edge, None, None);
            (at_edge.is_edge, at_edge.has_gap) = (true, Some(has_gap));
            put(&mut Record::Port(at_edge));
        }
    }
}

/// Sets those elements of an array to the max that are full (saturated) in a reading.
fn fill(at_edge: &mut Value, reading: &Value, name: &str) {
    if let (Value::Many(elements), Value::Many(read)) = (at_edge, reading) {
        let full = saturated_from(name, read);
        for (element, _) in elements
            .iter_mut()
            .zip(read)
            .filter(|(_, read)| **read >= full)
        {
            *element = u64::MAX;
        }
    }
}

fn between(before: &Value, after: &Value, interval: Interval, edge: u64) -> Value {
    let one = |before: u64, after: u64| before + interval.grown(after.saturating_sub(before), edge);
    match (before, after) {
        (Value::One(before), Value::One(after)) => Value::One(one(*before, *after)),
        (Value::Many(before), Value::Many(after)) if before.len() == after.len() => Value::Many(
            before
                .iter()
                .zip(after)
                .map(|(before, after)| one(*before, *after))
                .collect(),
        ),
        _ => before.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::rates::Readings;
    use crate::record::Type;

    const SECOND: u64 = 1_000_000_000;

    #[derive(Clone)]
    struct EveryRecord;

    impl super::super::Fold for EveryRecord {
        fn add(&mut self, _record: &Record<'_>) {}

        fn merge(&mut self, _other: Self) {}
    }

    /// The full element stays the largest one, also if another one has a larger value at the edge.
    #[test]
    fn full_element_of_an_array_is_full_at_an_edge() {
        let selection = Selection::new(&EveryRecord, None, Some(15 * SECOND), 50 * SECOND);
        let mut edges = Edges::default();
        let mut rates = Vec::new();
        let metric: crate::metric::Metric = "port_vl_op_packets[1]".parse().unwrap();
        let (mut readings, slots) = (Readings::default(), Slots::default());
        // The first element is full all the time, and the second one from 20 s on.
        for (slot, second) in [(10, 10), (20, 65535)] {
            let line = fixtures::port(
                slot,
                (1, 1),
                "leaf",
                (0x101, 1, "n1"),
                &[
                    ("port_vl_op_packets", serde_json::json!([65535, second])),
                    ("saturated", ["port_vl_op_packets"].into()),
                ],
            );
            let mut record = Record::parse(line.as_bytes(), Type::Port).unwrap();
            edges.cut(&mut record, &selection, &mut |record| {
                let Record::Port(port) = record else {
                    panic!("a port")
                };
                rates.extend(readings.add(port, &metric, &slots).rates);
            });
        }
        assert_eq!(
            rates,
            [],
            "the rate until the element was full is not known"
        );
    }

    /// What a fold gets of a record: its time, its value of SymbolErrorCounter, and whether the
    /// record is at an edge.
    type Given = (u64, Option<u64>, bool);

    /// A record: its slot, its time in milliseconds, the interval that it describes, and a value.
    type Taken = (u64, u64, Option<(u64, u64)>, u64);

    /// Cuts records at 10 s and at 20 s.
    fn cut(records: &[Taken]) -> Vec<Given> {
        let selection = Selection::new(
            &EveryRecord,
            Some(10 * SECOND),
            Some(20 * SECOND),
            5 * SECOND,
        );
        let (mut edges, mut given) = (Edges::default(), Vec::new());
        for (slot, ts, time, value) in records {
            let line = fixtures::port(
                *slot,
                (1, 1),
                "leaf",
                (0x101, 1, "n1"),
                &[("symbol_error_counter", (*value).into())],
            );
            let mut record = Record::parse(line.as_bytes(), Type::Port).unwrap();
            let Record::Port(port) = &mut record else {
                panic!("a port")
            };
            port.ts = ts * 1_000_000;
            port.time = time.and_then(|(from, to)| Interval::new(from * 1_000_000, to * 1_000_000));
            port.blocked_time = None;
            edges.cut(&mut record, &selection, &mut |record| {
                let Record::Port(port) = record else {
                    panic!("a port")
                };
                let value = match port.value("symbol_error_counter") {
                    Some(Value::One(value)) => Some(*value),
                    _ => None,
                };
                given.push((port.ts / 1_000_000, value, port.is_edge));
            });
        }
        given
    }

    #[test]
    fn values_at_the_edges_are_interpolated() {
        let records = [
            (9, 9_500, Some((8_500, 9_500)), 100),
            (10, 10_500, Some((9_500, 10_500)), 110),
            (20, 20_250, Some((19_250, 20_250)), 150),
        ];
        let given = cut(&records);
        assert_eq!(
            given[..2],
            [(10_000, Some(105), true), (10_500, Some(110), false)]
        );
        assert_eq!(
            given[2..],
            [(20_000, None, false)],
            "the last reading is too long before the end to have a value there"
        );
    }

    #[test]
    fn reading_in_the_range_is_used_though_its_shortened_interval_ended_before() {
        // The record of a secondary at 10.25 s describes only the time until 9.8 s.
        let records = [
            (9, 9_500, Some((8_500, 9_500)), 100),
            (10, 10_250, Some((9_500, 9_800)), 115),
            (11, 11_250, Some((10_250, 11_250)), 120),
        ];
        assert_eq!(
            cut(&records),
            [
                (10_000, Some(110), true),
                (10_250, Some(115), true),
                (11_250, Some(120), false)
            ]
        );
    }

    #[test]
    fn full_counter_gives_no_rate_at_an_edge() {
        // The counter becomes full in the second before slot 10.
        let line = |slot: u64, value: u64, saturated: &[&str]| {
            fixtures::port(
                slot,
                (1, 1),
                "leaf",
                (0x101, 1, "n1"),
                &[
                    ("port_xmit_data_bytes", value.into()),
                    ("saturated", saturated.into()),
                ],
            )
        };
        let lines = [
            line(8, 100, &[]),
            line(9, 200, &[]),
            line(10, 17_179_869_180, &["port_xmit_data_bytes"]),
        ];
        let rates = |from: u64, to: u64| {
            let selection = Selection::new(&EveryRecord, Some(from), Some(to), 5 * SECOND);
            let (mut edges, mut readings, mut slots, mut found) = (
                Edges::default(),
                Readings::default(),
                Slots::default(),
                Vec::new(),
            );
            for line in &lines {
                edges.cut(
                    &mut Record::parse(line.as_bytes(), Type::Port).unwrap(),
                    &selection,
                    &mut |record| {
                        let Record::Port(port) = record else {
                            panic!("a port")
                        };
                        if !port.is_edge {
                            slots.add(port);
                        }
                        found.extend(
                            readings
                                .add(port, &"port_xmit_data_bytes".parse().unwrap(), &slots)
                                .rates,
                        );
                    },
                );
            }
            found
                .iter()
                .map(|rate| {
                    (
                        rate.time.from() / SECOND,
                        rate.time.to() / SECOND,
                        rate.per_second,
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            rates(8 * SECOND, 9 * SECOND + SECOND / 2),
            [(8, 9, 100.0)],
            "the end of the range"
        );
        assert_eq!(
            rates(9 * SECOND + SECOND / 2, 11 * SECOND),
            [],
            "the start of the range"
        );
    }

    #[test]
    fn reading_at_the_start_of_the_range_is_no_edge() {
        assert_eq!(
            cut(&[(10, 10_000, Some((9_000, 10_000)), 7)]),
            [(10_000, Some(7), false)]
        );
    }

    #[test]
    fn reset_between_two_readings_has_the_earlier_value_at_the_edge() {
        let records = [
            (9, 9_500, Some((8_500, 9_500)), 100),
            (10, 10_500, Some((9_500, 10_500)), 3),
        ];
        assert_eq!(
            cut(&records),
            [(10_000, Some(100), true), (10_500, Some(3), false)]
        );
    }
}
