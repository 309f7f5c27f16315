//! Counters at the edges of the selected time.
//!
//! An edge of the selected time lies between two readings of a counter. The value at the edge is
//! interpolated, as [`Interval::grown`] states. A [`Fold`](super::Fold) gets this value in a record
//! that has only counters. So the increase over the selected time is the increase from edge to
//! edge. The increases over the parts of a time range add up to the increase over the whole range.
//! If the counter was reset between the two readings, the value at the edge is that of the earlier
//! reading.

use super::selection::Selection;
use crate::rates::{LastReading, Slots};
use crate::record::{Interval, Port, Record, Value};

/// Last readings of the counters of a port before an edge.
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

impl Edges {
    /// Cuts a record to the time range. Calls `put` with the interpolated counters at the edges.
    /// Also calls `put` with the record, if a part of its time or its reading is within the range.
    pub(super) fn cut(&mut self, record: &mut Record<'_>, selection: &Selection, put: &mut dyn FnMut(&mut Record<'_>)) {
        let Record::Port(port) = &mut *record else { return };
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
                remember(&mut self.from, port, &self.slots);
            }
            if ts < to && selection.is_near_end(ts) {
                remember(&mut self.to, port, &self.slots);
            }
        }
        port.time = port.time.and_then(|time| time.within(from, to));
        port.blocked_time = port.blocked_time.and_then(|time| time.within(from, to));
        let has_time = port.time.or(port.blocked_time).is_some();
        if !selection.contains(ts) {
            if !has_time {
                return;
            }
            // The counters were read after the time range.
            port.counters.clear();
            port.ts = ts.min(to);
        } else if had_time && !has_time && ts > from {
            // The earlier part of a shortened interval: only the counters were read in the range.
            (port.is_edge, port.has_gap) = (true, false);
        }
        put(record);
    }
}

fn remember(readings: &mut Vec<Reading>, record: &Port<'_>, slots: &Slots) {
    for (name, value) in &record.counters {
        let known = readings.iter().position(|reading| *reading.name == **name);
        let reading = Reading {
            name: (*name).into(),
            last: LastReading::new(record, slots, known.map(|index| &readings[index].last)),
            is_saturated: record.is_saturated(name),
            value: value.clone(),
        };
        match known {
            Some(index) => readings[index] = reading,
            None => readings.push(reading),
        }
    }
}

/// Computes the values at an edge for the counters of this record that were also read before the
/// edge, and calls `put` with them: first the counters without a gap between the two readings, then
/// the others. It removes these counters from `readings`, so each counter is used once.
fn at_edge(readings: &mut Vec<Reading>, edge: u64, record: &Port<'_>, slots: &Slots, put: &mut dyn FnMut(&mut Record<'_>)) {
    if readings.is_empty() {
        return;
    }
    for has_gap in [false, true] {
        let (mut counters, mut saturated) = (Vec::new(), Vec::new());
        for (name, value) in &record.counters {
            let is_found = |reading: &Reading| *reading.name == **name && slots.has_gap(&reading.last, record.slot) == has_gap;
            let Some(index) = readings.iter().position(is_found) else { continue };
            let reading = readings.swap_remove(index);
            let Some(interval) = Interval::new(reading.last.ts, record.ts) else { continue };
            counters.push((*name, between(&reading.value, value, interval, edge)));
            if reading.is_saturated {
                saturated.push((*name).into());
            }
        }
        if !counters.is_empty() {
            let mut at_edge = record.clone();
            (at_edge.counters, at_edge.saturated) = (counters, saturated);
            (at_edge.ts, at_edge.time, at_edge.blocked_time) = (edge, None, None);
            (at_edge.is_edge, at_edge.has_gap) = (true, has_gap);
            put(&mut Record::Port(at_edge));
        }
    }
}

fn between(before: &Value, after: &Value, interval: Interval, edge: u64) -> Value {
    let one = |before: u64, after: u64| before + interval.grown(after.saturating_sub(before), edge);
    match (before, after) {
        (Value::One(before), Value::One(after)) => Value::One(one(*before, *after)),
        (Value::Many(before), Value::Many(after)) if before.len() == after.len() => {
            Value::Many(before.iter().zip(after).map(|(before, after)| one(*before, *after)).collect())
        }
        _ => before.clone(),
    }
}
