//! Merges the records of all samplers of a port, so that each point in time has only one value.
//!
//! The records of a port arrive here in time order, and these rules apply:
//!
//! - Two records are copies if they have the same `sampler`, and the same `ts` or the same
//!   `slot`. Only the first of them counts.
//! - If an earlier record of another sampler describes a part of the interval of a record, the
//!   interval is shortened by this part; if it describes all of it, the record is dropped.
//!   Consecutive records of the same sampler do not shorten each other. Their intervals can
//!   overlap, or leave a short time between them, only by the jitter of the replies, and together
//!   they are as long as the time between the readings.
//! - A record of a secondary waits for the next record of the primary, and gets only the time
//!   before the interval of that record. The secondary thus fills the gap if no primary answers.
//!   The short time between two intervals of the primary is no gap. A record of a secondary
//!   without rates describes no time, and its counters count only if the primary has no answer.
//! - If the query of a record began before the reply to another sampler arrived, the order of the
//!   two readings is unknown. A counter could then seem to decrease, so the counters of the later
//!   record are left out.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::limits;
use super::rows::PortRows;
use crate::record::{Interval, Port, Record, Type};

/// Numbers of port records that were left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Dropped {
    /// Copies of other records.
    pub(super) copies: u64,
    /// Records whose whole time another sampler describes.
    pub(super) covered: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Line(&'a [u8]),
    Row(&'a PortRows, usize),
}

impl<'a> Source<'a> {
    /// Returns whether the record is a mean of the records of a minute.
    pub(super) fn is_minute(&self) -> bool {
        matches!(self, Self::Row(rows, _) if rows.are_minutes())
    }

    pub(super) fn line(&self) -> Cow<'a, [u8]> {
        match self {
            Self::Line(line) => Cow::Borrowed(line),
            Self::Row(rows, row) => Cow::Owned(rows.line(*row)),
        }
    }

    pub(super) fn keep(&self, with_counters: bool) -> KeptLine {
        KeptLine {
            line: self.line().into(),
            // A row has only the columns that are needed. Some of a minute are no fixed fields.
            with_counters: with_counters || matches!(self, Self::Row(..)),
            is_minute: self.is_minute(),
        }
    }
}

/// A record that waits, in a form from which it can be read again.
pub(super) trait Kept {
    /// Reads the record. Returns `None` if it cannot be parsed.
    fn port(&self) -> Option<Port<'_>>;
}

/// The line of a record. For files, only the lines of waiting records are kept.
#[derive(Debug)]
pub(super) struct KeptLine {
    line: Box<[u8]>,
    with_counters: bool,
    is_minute: bool,
}

impl Kept for KeptLine {
    fn port(&self) -> Option<Port<'_>> {
        let record = if self.with_counters {
            Record::parse(&self.line, Type::Port)
        } else {
            Record::parse_without_counters(&self.line)
        };
        let Ok(Record::Port(mut port)) = record else {
            return None;
        };
        port.has_gap = self.is_minute.then_some(false);
        Some(port)
    }
}

/// A record whose strings stay in memory for long enough.
impl Kept for Port<'_> {
    fn port(&self) -> Option<Port<'_>> {
        Some(self.clone())
    }
}

/// What is merged of a port so far.
#[derive(Debug)]
pub(super) struct PortMerge<K> {
    /// Time until which earlier records describe the data rates, and time until which they
    /// describe the blocked share.
    covered: [u64; 2],
    /// Both times as they were before the first of the consecutive records of the last sampler.
    /// These records describe only later times.
    others: [u64; 2],
    last: Option<Last>,
    /// Time of the last record of a primary, and the time between its last two records.
    primary: Option<(u64, u64)>,
    /// Time of the last record of a primary in which the device answered.
    answer_ts: Option<u64>,
    /// Records of a secondary that wait.
    held: VecDeque<Held<K>>,
}

impl<K> Default for PortMerge<K> {
    fn default() -> Self {
        Self {
            covered: [0; 2],
            others: [0; 2],
            last: None,
            primary: None,
            answer_ts: None,
            held: VecDeque::new(),
        }
    }
}

/// The last record that was used.
#[derive(Clone, Debug)]
struct Last {
    ts: u64,
    /// Time of the last record with counters.
    read_ts: u64,
    slot: u64,
    sampler: Box<str>,
}

#[derive(Debug)]
struct Held<K> {
    record: K,
    ts: u64,
    length_ns: u64,
}

impl PortMerge<KeptLine> {
    /// Returns the same state with its waiting records parsed.
    pub(super) fn borrowed(&self) -> PortMerge<Port<'_>> {
        let held = self.held.iter().filter_map(|held| {
            let Held {
                record,
                ts,
                length_ns,
            } = held;
            Some(Held {
                record: record.port()?,
                ts: *ts,
                length_ns: *length_ns,
            })
        });
        PortMerge {
            covered: self.covered,
            others: self.others,
            last: self.last.clone(),
            primary: self.primary,
            answer_ts: self.answer_ts,
            held: held.collect(),
        }
    }

    pub(super) fn last_ts(&self) -> Option<u64> {
        let used = self.last.as_ref().map(|last| last.ts);
        used.max(self.primary.map(|(ts, _)| ts))
            .max(self.held.back().map(|held| held.ts))
    }
}

/// Assumed time between two records of a primary, until there are two of them.
const USUAL_STEP_NS: u64 = 1_000_000_000;

impl<K: Kept> PortMerge<K> {
    /// Adds a record. Calls `put` for each record that is now final, because it waits for no
    /// other one. `keep` converts a record to a form that can be read again later.
    pub(super) fn add<'a>(
        &mut self,
        record: &mut Record<'a>,
        keep: impl FnOnce(&Port<'a>) -> K,
        dropped: &mut Dropped,
        put: &mut dyn FnMut(&mut Record<'_>),
    ) {
        let Record::Port(port) = &*record else { return };
        if port.is_secondary() {
            let now = port.ts;
            self.held.push_back(Held {
                record: keep(port),
                ts: now,
                length_ns: port.time.map_or(0, Interval::length_ns),
            });
            // The primary has been silent for two intervals, or has no records at all.
            let is_due = |held: &Held<K>| held.ts.saturating_add(2 * held.length_ns) < now;
            while self.held.front().is_some_and(is_due) || self.held.len() > limits::HELD {
                self.release_first([u64::MAX; 2], dropped, put);
            }
            return;
        }
        let is_next = self
            .last
            .as_ref()
            .is_some_and(|last| *last.sampler == *port.sampler);
        let (covered, others) = (self.covered, self.others);
        let end = |of: usize, time: Interval| {
            let follows = is_next
                && covered[of] > others[of]
                && time.from().saturating_sub(covered[of]) < time.length_ns() / 2;
            if follows { 0 } else { time.from() }
        };
        let [data, blocked] = [port.time, port.blocked_time];
        let ends = [
            data.map_or(port.ts, |time| end(0, time)),
            blocked.map_or(port.ts, |time| end(1, time)),
        ];
        while !self.held.is_empty() {
            self.release_first(ends, dropped, put);
        }
        let ts = port.ts;
        let step = self
            .primary
            .map_or(USUAL_STEP_NS, |(last, _)| ts - last.min(ts));
        self.primary = Some((ts, step));
        if port.answered() {
            self.answer_ts = Some(ts);
        }
        self.use_record(record, [u64::MAX; 2], dropped, put);
    }

    /// Returns whether the last record came from this sampler and no record waits. Further
    /// records of this sampler, if it is a primary, are then used unchanged, except those for which
    /// [`is_after_others`](Self::is_after_others) is false.
    pub(super) fn is_only(&self, sampler: &str) -> bool {
        self.held.is_empty()
            && self
                .last
                .as_ref()
                .is_some_and(|last| *last.sampler == *sampler)
    }

    /// Returns whether no other sampler describes the time from `start` on.
    pub(super) fn is_after_others(&self, start: u64) -> bool {
        self.others.iter().all(|others| *others <= start)
    }

    /// Continues after records of the last sampler, a primary, that were used unchanged. `ends`
    /// are the ends of their times, `before` and `ts` the times of the last two of them.
    pub(super) fn continue_after(
        &mut self,
        ends: [u64; 2],
        before: u64,
        (ts, slot): (u64, u64),
        answered: bool,
    ) {
        self.cover(ends);
        self.primary = Some((ts, ts - before.min(ts)));
        if answered {
            self.answer_ts = Some(ts);
        }
        if let Some(last) = &mut self.last {
            (last.ts, last.read_ts, last.slot) = (ts, ts, slot);
        }
    }

    /// Uses the waiting records at the end of the input.
    pub(super) fn finish(&mut self, dropped: &mut Dropped, put: &mut dyn FnMut(&mut Record<'_>)) {
        while !self.held.is_empty() {
            self.release_first([u64::MAX; 2], dropped, put);
        }
    }

    /// Uses the first waiting record, for the time before `ends`.
    fn release_first(
        &mut self,
        ends: [u64; 2],
        dropped: &mut Dropped,
        put: &mut dyn FnMut(&mut Record<'_>),
    ) {
        let Some(held) = self.held.pop_front() else {
            return;
        };
        let Some(port) = held.record.port() else {
            return;
        };
        // A secondary's record without rates is not needed while the primary answers; and if it
        // has no answer either, it is not needed while the primary has records.
        let is_idle = port.time.is_none() && port.blocked_time.is_none();
        let is_recent = self.primary.is_some_and(|(ts, step)| {
            let of = if port.answered() {
                self.answer_ts
            } else {
                Some(ts)
            };
            of.is_some_and(|of| of.saturating_add(2 * step) >= port.ts)
        });
        if is_idle && is_recent {
            dropped.covered += 1;
        } else {
            self.use_record(&mut Record::Port(port), ends, dropped, put);
        }
    }

    /// Notes the ends of the times of a used record. An end of 0 means that the record has no
    /// time.
    fn cover(&mut self, ends: [u64; 2]) {
        for (covered, end) in self.covered.iter_mut().zip(ends) {
            *covered = (*covered).max(end);
        }
    }

    fn use_record(
        &mut self,
        record: &mut Record<'_>,
        ends: [u64; 2],
        dropped: &mut Dropped,
        put: &mut dyn FnMut(&mut Record<'_>),
    ) {
        let Record::Port(port) = &mut *record else {
            return;
        };
        let mut is_other = false;
        if let Some(last) = &self.last {
            is_other = *last.sampler != *port.sampler;
            if !is_other && last.slot == port.slot && port.slot > 0 {
                dropped.copies += 1;
                return;
            }
            if is_other && port.ts.saturating_sub(port.rtt_ns) < last.read_ts {
                port.counters.clear();
            }
        }
        let others = if is_other { self.covered } else { self.others };
        let whole = [port.time, port.blocked_time];
        let mut times = whole;
        for ((time, others), end) in times.iter_mut().zip(others).zip(ends) {
            *time = time.and_then(|time| time.within(others, end));
        }
        [port.time, port.blocked_time] = times;
        if whole != [None; 2] && times == [None; 2] {
            dropped.covered += 1;
            return;
        }
        self.others = others;
        self.cover(times.map(|time| time.map_or(0, Interval::to)));
        let read_ts = if port.counters.is_empty() {
            self.last.as_ref().map_or(0, |last| last.read_ts)
        } else {
            port.ts
        };
        match &mut self.last {
            Some(last) if !is_other => {
                (last.ts, last.read_ts, last.slot) = (port.ts, read_ts, port.slot);
            }
            last => {
                *last = Some(Last {
                    ts: port.ts,
                    read_ts,
                    slot: port.slot,
                    sampler: (*port.sampler).into(),
                });
            }
        }
        put(record);
    }
}
