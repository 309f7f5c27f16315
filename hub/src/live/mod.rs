//! The newest slot of the whole fabric, for clients that watch it.
//!
//! | module | contents |
//! |---|---|
//! | [`topology`] | devices and ports in the order of the frames |
//! | [`board`] | the newest values of each port |
//! | [`rounds`] | decides when the frame of a slot is complete |
//! | [`frame`] | the binary form of a slot |
//! | [`timeline`] | a few numbers for each slot of the past |

use std::time::Duration;

pub(crate) mod board;
pub(crate) mod frame;
pub(crate) mod rounds;
pub(crate) mod timeline;
pub(crate) mod topology;

/// Metrics of the frames. All of them are shares from 0 to 1.
pub(crate) const METRICS: [&str; 3] = ["xmit_utilization", "rcv_utilization", "xmit_blocked"];

/// The counters that [`METRICS`] are computed from.
const COUNTERS: [&str; COUNT] = [
    "port_xmit_data_bytes",
    "port_rcv_data_bytes",
    "port_xmit_wait_ticks",
];

/// Number of metrics of the frames.
pub(crate) const COUNT: usize = METRICS.len();

/// Max time by which a sampler can end a slot after another one. Right clocks are up to 2 s from
/// their median, so two of them differ by up to 4 s.
const LONGEST_LAG: Duration = Duration::from_millis(4500);

/// Max number of slots in this time. Frames of slots shorter than 70 ms therefore wait less.
const MAX_SLOTS: u64 = 64;

/// Returns the number of slots that can be open at the same time.
pub(crate) fn most_slots(interval: Duration) -> u64 {
    let slots = LONGEST_LAG
        .as_nanos()
        .checked_div(interval.as_nanos())
        .unwrap_or_default();
    u64::try_from(slots)
        .unwrap_or(MAX_SLOTS)
        .saturating_add(2)
        .min(MAX_SLOTS)
}
