//! Merges the records of all samplers of a port, so that each time has only one value.
//!
//! The records of a port arrive here in the order of their times. These rules apply:
//!
//! - Two records are copies if they have the same `sampler`, and the same `ts` or the same `slot`.
//!   Only the first of them counts.
//! - If an earlier record of another sampler describes a part of the interval of a record, the
//!   interval is shortened by this part. A record whose interval is covered completely is dropped.
//!   The intervals of one sampler are not changed. They overlap only by the jitter of the replies.
//! - A record of a secondary waits for the next record of the primary, and gets only the time
//!   before the interval of that record. If no primary answers, the secondary fills the gap.
//! - If the query of a record began before the reply to another sampler arrived, the order of the
//!   two readings is not known. The counters of the later record are then left out, because a
//!   counter could seem to decrease.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::limits;
use super::rows::PortRows;
use crate::record::{Interval, Port, Record, Type};

/// Numbers of port records that were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Dropped {
    /// Copies of another record.
    pub(super) copies: u64,
    /// Records whose time another sampler describes.
    pub(super) covered: u64,
}

/// Source of a record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Line(&'a [u8]),
    Row(&'a PortRows, usize),
}

impl<'a> Source<'a> {
    /// Returns the record as a line.
    pub(super) fn line(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Line(line) => Cow::Borrowed(line),
            Self::Row(rows, row) => Cow::Owned(rows.line(*row)),
        }
    }
}

/// The records of a port so far.
#[derive(Debug, Default)]
pub(super) struct PortMerge {
    /// Two times: until the first one, earlier records describe the data rates. Until the second
    /// one, they describe the blocked share.
    covered: [u64; 2],
    last: Option<Last>,
    /// Time of the last record of a primary, and the time between its last two records.
    primary: Option<(u64, u64)>,
    /// Records of a secondary that wait, as lines.
    held: VecDeque<Held>,
}

/// The last record that was used.
#[derive(Debug)]
struct Last {
    ts: u64,
    slot: u64,
    sampler: Box<str>,
}

#[derive(Debug)]
struct Held {
    line: Box<[u8]>,
    ts: u64,
    length_ns: u64,
}

/// Assumed time between two records of a primary until there are two of them.
const USUAL_STEP_NS: u64 = 1_000_000_000;

/// Parses a line again that was already parsed once.
fn port(line: &[u8], with_counters: bool) -> Option<Port<'_>> {
    let record = if with_counters { Record::parse(line, Type::Port) } else { Record::parse_without_counters(line) };
    match record {
        Ok(Record::Port(port)) => Some(port),
        _ => None,
    }
}

impl PortMerge {
    /// Adds a record. Calls `put` for each record that is now final: it waits for no other record.
    pub(super) fn add(
        &mut self,
        record: &mut Record<'_>,
        source: &Source<'_>,
        with_counters: bool,
        dropped: &mut Dropped,
        put: &mut dyn FnMut(&mut Record<'_>),
    ) {
        let Record::Port(port) = &*record else { return };
        if port.is_secondary() {
            let now = port.ts;
            self.held.push_back(Held { line: source.line().into(), ts: now, length_ns: port.time.map_or(0, Interval::length_ns) });
            // The primary has not answered for two intervals, or has no records at all.
            let is_due = |held: &Held| held.ts.saturating_add(2 * held.length_ns) < now;
            while self.held.front().is_some_and(is_due) || self.held.len() > limits::HELD {
                self.release_first([u64::MAX; 2], with_counters, dropped, put);
            }
            return;
        }
        let ends = [port.time, port.blocked_time].map(|time| time.map_or(port.ts, Interval::from));
        while !self.held.is_empty() {
            self.release_first(ends, with_counters, dropped, put);
        }
        let ts = port.ts;
        let step = self.primary.map_or(USUAL_STEP_NS, |(last, _)| ts - last.min(ts));
        self.primary = Some((ts, step));
        self.use_record(record, [u64::MAX; 2], dropped, put);
    }

    /// Uses the waiting records at the end of the input.
    pub(super) fn finish(&mut self, with_counters: bool, dropped: &mut Dropped, put: &mut dyn FnMut(&mut Record<'_>)) {
        while !self.held.is_empty() {
            self.release_first([u64::MAX; 2], with_counters, dropped, put);
        }
    }

    /// Uses the first waiting record, for the time before `ends`.
    fn release_first(&mut self, ends: [u64; 2], with_counters: bool, dropped: &mut Dropped, put: &mut dyn FnMut(&mut Record<'_>)) {
        let Some(held) = self.held.pop_front() else { return };
        let Some(port) = port(&held.line, with_counters) else { return };
        // While the primary answers, a record of a secondary without rates is not needed.
        let is_idle = port.time.is_none() && port.blocked_time.is_none();
        if is_idle && self.primary.is_some_and(|(ts, step)| ts.saturating_add(2 * step) >= port.ts) {
            dropped.covered += 1;
        } else {
            self.use_record(&mut Record::Port(port), ends, dropped, put);
        }
    }

    fn use_record(&mut self, record: &mut Record<'_>, ends: [u64; 2], dropped: &mut Dropped, put: &mut dyn FnMut(&mut Record<'_>)) {
        let Record::Port(port) = &mut *record else { return };
        let mut is_other = false;
        if let Some(last) = &self.last {
            is_other = *last.sampler != *port.sampler;
            if !is_other && last.slot == port.slot && port.slot > 0 {
                dropped.copies += 1;
                return;
            }
            if is_other && port.ts.saturating_sub(port.rtt_ns) < last.ts {
                port.counters.clear();
            }
        }
        let whole = [port.time, port.blocked_time];
        let mut times = whole;
        for ((time, covered), end) in times.iter_mut().zip(self.covered).zip(ends) {
            *time = time.and_then(|time| time.within(if is_other { covered } else { 0 }, end));
        }
        [port.time, port.blocked_time] = times;
        if whole != [None; 2] && times == [None; 2] {
            dropped.covered += 1;
            return;
        }
        for (covered, time) in self.covered.iter_mut().zip(times) {
            *covered = (*covered).max(time.map_or(0, Interval::to));
        }
        match &mut self.last {
            Some(last) if !is_other => (last.ts, last.slot) = (port.ts, port.slot),
            last => *last = Some(Last { ts: port.ts, slot: port.slot, sampler: (*port.sampler).into() }),
        }
        put(record);
    }
}
