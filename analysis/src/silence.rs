//! The time for which a record without a value stands in a picture or a sum.

use ibnet_record::Says;
use ibnet_record::slots::slot_interval;

use crate::record::{Interval, Port};

/// Returns the time to which a record without a value refers: usually the time since the last
/// record of the port, at `last_ts`; after a gap only the last slot; and for the first record of
/// a port one nanosecond.
pub(crate) fn silent_time(last_ts: Option<u64>, port: &Port<'_>) -> Option<Interval> {
    let interval_ns = slot_interval(port);
    let is_gap =
        |last: u64| port.ts.saturating_sub(last) > interval_ns.saturating_add(interval_ns / 2);
    let since = last_ts.map(|last| {
        if is_gap(last) {
            port.ts.saturating_sub(interval_ns)
        } else {
            last
        }
    });
    let after = Interval::new(port.ts, port.ts.saturating_add(1))
        .or_else(|| Interval::new(port.ts - 1, port.ts));
    since
        .and_then(|since| Interval::new(since, port.ts))
        .or(after)
}

/// Returns the time in which the link of a port was down, and nothing moved, according to its
/// record. `down_ts` is the time of the previous record if the link was down then too. Otherwise
/// the result is `None`, because the link may have carried traffic until it went down.
pub(crate) fn down_time(down_ts: Option<u64>, port: &Port<'_>) -> Option<Interval> {
    let is_down = port.says() == Says::Down && !port.is_edge;
    silent_time(Some(down_ts.filter(|_| is_down)?), port)
}
