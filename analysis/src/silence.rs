//! The time for which a record without a value stands in a picture or a sum.

use crate::record::Interval;

/// Returns the time to which a record without a value refers: usually the time since the last
/// record of the port, at `last_ts`; after a gap only the last slot; and for the first record of
/// a port one nanosecond.
pub(crate) fn silent_time(last_ts: Option<u64>, ts: u64, interval_ns: u64) -> Option<Interval> {
    let is_gap = |last: u64| ts.saturating_sub(last) > interval_ns.saturating_add(interval_ns / 2);
    let since = last_ts.map(|last| {
        if is_gap(last) {
            ts.saturating_sub(interval_ns)
        } else {
            last
        }
    });
    let after = Interval::new(ts, ts.saturating_add(1)).or_else(|| Interval::new(ts - 1, ts));
    since.and_then(|since| Interval::new(since, ts)).or(after)
}
