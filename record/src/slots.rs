//! Slots: the time between two of them, and those for which a value stands in columns of time.

use super::interval::Interval;
use super::reader::Port;

const DAY: u64 = 86_400_000_000_000;

/// Returns the slots for which a value stands in columns of whole slots: those whose end lies in
/// `time`, which it describes. `None` without such a slot. Then the values before and after it
/// stand for the slot.
///
/// The readings of a slot are at other times at each port and at each of its samplers. So the
/// record of slot *s* that describes *n* slots stands for the slots *s* - *n* to *s* - 1 at all
/// ports, and each slot has one value, also if a second sampler describes a part of it.
///
/// Without `interval_ns`, the time between two slots, returns the time. The time of the first
/// record of a port, one nanosecond, has no slots.
pub fn whole_slots(time: Interval, interval_ns: Option<u64>) -> Option<Interval> {
    WholeSlots::new(interval_ns).of(time)
}

/// Returns the time for which a value counts in bins of this length: the slots of
/// [`whole_slots`] if the bins consist of whole slots, else the time itself.
pub fn time_in_bins(time: Interval, slot_ns: Option<u64>, bin_ns: u64) -> Option<Interval> {
    whole_slots(
        time,
        slot_ns.filter(|slot_ns| bin_ns.is_multiple_of(*slot_ns)),
    )
}

/// Finds the slots of many values: see [`whole_slots`]. Most values are in the slot of the value
/// before or in the next one, so nearly none needs a division.
#[derive(Clone, Copy, Debug)]
pub struct WholeSlots {
    interval_ns: Option<u64>,
    /// Start of the last slot.
    start: u64,
}

impl WholeSlots {
    /// Creates a finder for slots of this length.
    pub const fn new(interval_ns: Option<u64>) -> Self {
        Self {
            interval_ns,
            start: 0,
        }
    }

    /// Returns the slots of a time, as [`whole_slots`] does.
    #[inline]
    pub fn of(&mut self, time: Interval) -> Option<Interval> {
        match self.interval_ns {
            Some(interval_ns) if time.length_ns() > 1 => {
                let from = self.begun(time.from(), interval_ns);
                Interval::new(from, self.begun(time.to(), interval_ns))
            }
            _ => Some(time),
        }
    }

    /// Returns the start of the slot that has this time.
    #[inline]
    fn begun(&mut self, ns: u64, interval_ns: u64) -> u64 {
        let past = ns.wrapping_sub(self.start);
        if past >= interval_ns {
            self.start = if past - interval_ns < interval_ns {
                self.start + interval_ns
            } else {
                ns / interval_ns * interval_ns
            };
        }
        self.start
    }
}

/// Returns the time between two slots, in nanoseconds, or 0 if it is unknown.
pub fn slot_interval(port: &Port<'_>) -> u64 {
    interval_of_slot(port.ts, port.slot, port.dt_ns, port.xmit_blocked_dt_ns)
}

/// Returns the time between two slots, in nanoseconds, or 0 if it is unknown.
pub fn interval_of_slot(
    ts: u64,
    slot: u64,
    dt_ns: Option<u64>,
    xmit_blocked_dt_ns: Option<u64>,
) -> u64 {
    counted_interval(ts, slot, dt_ns, xmit_blocked_dt_ns)
        .unwrap_or_else(|| dt_ns.unwrap_or(0).min(DAY))
}

/// Returns the time between two slots, in nanoseconds. `None` if the slots do not count from 1970.
pub fn counted_interval(
    ts: u64,
    slot: u64,
    dt_ns: Option<u64>,
    xmit_blocked_dt_ns: Option<u64>,
) -> Option<u64> {
    // At the end of a time range, `ts` is earlier by up to the time that the record describes.
    let described = xmit_blocked_dt_ns.max(dt_ns).unwrap_or(0).min(DAY);
    interval_by_slot(ts, slot, described)
}

/// Returns the time between two slots in nanoseconds, by the time and the slot of a record. `ts`
/// can be wrong by `inexact_ns`. `None` if the slots do not count from 1970.
///
/// The number of a slot is its start divided by this time. So `ts` divided by the slot number is
/// slightly more than this time. The time between slots is a round number, so rounding removes the
/// difference.
pub fn interval_by_slot(ts: u64, slot: u64, inexact_ns: u64) -> Option<u64> {
    let about = ts.checked_div(slot).unwrap_or(0);
    let unit = [(5_000_000_000, 1_000), (100_000_000_000, 1_000_000)]
        .iter()
        .find(|(below, _)| about < *below)
        .map_or(1_000_000_000, |(_, unit)| *unit);
    let interval = about.saturating_add(unit / 2) / unit * unit;
    let start = slot.saturating_mul(interval);
    // A sampler that stopped within the slot makes `ts` later by any time. The quotient is exact
    // enough as long as this is a small share of `ts`.
    let is_near = ts.abs_diff(start)
        < interval
            .saturating_mul(2)
            .saturating_add(inexact_ns)
            .saturating_add(ts / 100_000);
    ((1_000_000..=DAY).contains(&interval) && slot > 2000 && is_near).then_some(interval)
}
