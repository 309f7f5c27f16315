//! What a fold needs of the input: types of records, a time range, fields and hosts.

use std::ops::RangeInclusive;

use super::Fold;
use crate::hosts::Hosts;
use crate::record::Type;

/// The types of records, time range, fields and hosts that a fold uses.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// Start of the time range, inclusive.
    pub(super) from: u64,
    /// End of the time range, exclusive.
    pub(super) to: u64,
    /// Whether the time range has a start or an end.
    pub(super) is_range: bool,
    /// Nanoseconds before and after the time range in which port records are read.
    reach_ns: u64,
    pub(super) uses_counters: bool,
    pub(super) uses_every_query: bool,
    /// Names of the port record fields that the fold uses; `None` for all.
    pub(super) fields: Option<Vec<String>>,
    /// Hosts whose ports, and the peers of these ports, the fold uses; `None` for all ports.
    pub(super) hosts: Option<Hosts>,
    pub(super) takes_runs: bool,
    uses: [bool; Type::ALL.len()],
}

impl Selection {
    pub(super) fn new<F: Fold>(
        fold: &F,
        from: Option<u64>,
        to: Option<u64>,
        reach_ns: u64,
    ) -> Self {
        Self {
            fields: fold.fields(),
            ..Self::of_records(fold, from, to, reach_ns)
        }
    }

    /// Creates the selection for records that are already read, with all of their fields. It is
    /// made for each port.
    pub(super) fn of_records<F: Fold>(
        fold: &F,
        from: Option<u64>,
        to: Option<u64>,
        reach_ns: u64,
    ) -> Self {
        Self {
            from: from.unwrap_or(0),
            to: to.unwrap_or(u64::MAX),
            is_range: from.is_some() || to.is_some(),
            reach_ns,
            uses_counters: fold.uses_counters(),
            uses_every_query: fold.uses_every_query(),
            fields: None,
            hosts: fold.hosts().cloned(),
            takes_runs: fold.takes_runs(),
            uses: Type::ALL.map(|kind| fold.uses(kind)),
        }
    }

    /// Returns whether the fold uses records of this type.
    pub(super) const fn uses(&self, kind: Type) -> bool {
        self.uses[kind as usize]
    }

    /// Returns whether a point in time is within the time range. A range without an end also
    /// contains the last nanosecond of a `u64`.
    pub(super) fn contains(&self, ts: u64) -> bool {
        self.from <= ts && (ts < self.to || self.to == u64::MAX)
    }

    /// Returns whether the counters of a record can be the last ones before the end of the range.
    pub(super) fn is_near_end(&self, ts: u64) -> bool {
        self.to < u64::MAX && ts >= self.to.saturating_sub(self.reach_ns)
    }

    /// Returns whether the fold needs a record. Port records near the range are needed too: a
    /// later one can describe a part of the range, and the counters on both sides of an edge
    /// determine the increase.
    pub(super) fn needs(&self, kind: Type, ts: u64) -> bool {
        self.uses[kind as usize]
            && match kind {
                Type::Start => true,
                Type::Port => self.port_times(None).contains(&ts),
                Type::Sweep
                | Type::Histogram
                | Type::Event
                | Type::Phy
                | Type::Module
                | Type::Sensors
                | Type::Planes
                | Type::Routes => self.contains(ts),
            }
    }

    /// Returns the times of the port records that the fold needs. `longest_ns` is the max time
    /// that one of the records describes, if known.
    pub(super) fn port_times(&self, longest_ns: Option<u64>) -> RangeInclusive<u64> {
        let (before, after) = match longest_ns {
            _ if self.uses_counters => (self.reach_ns, self.reach_ns),
            // The last record within the range can wait for two more records of its port.
            Some(longest_ns) => (0, self.reach_ns.min(longest_ns.saturating_mul(4))),
            None => (0, self.reach_ns),
        };
        self.from.saturating_sub(before)..=self.to.saturating_add(after)
    }

    /// Returns whether the time from `start` to `end`, exclusive, is in the time range, or so
    /// close to it that its port records can be needed.
    pub(super) fn is_near(&self, start: u64, end: u64) -> bool {
        let near = self.port_times(None);
        start <= *near.end() && end > *near.start()
    }

    /// Returns whether the fold can need one of the records between two times, inclusive.
    pub(super) fn needs_any(&self, kind: Type, first: u64, last: u64) -> bool {
        self.needs(kind, first.max(self.from).min(last))
            || self.needs(kind, first)
            || self.needs(kind, last)
    }
}
