//! The newest slot of the whole fabric, for clients that watch it.
//!
//! | module | contents |
//! |---|---|
//! | [`topology`] | devices and ports in the order of the frames |
//! | [`board`] | the newest values of each port |
//! | [`rounds`] | decides when the frame of a slot is complete |
//! | [`frame`] | the binary form of a slot |
//! | [`timeline`] | a few numbers for each slot of the past |

pub(crate) mod board;
pub(crate) mod frame;
pub(crate) mod rounds;
pub(crate) mod timeline;
pub(crate) mod topology;

/// Metrics of the frames. All of them are shares from 0 to 1.
pub(crate) const METRICS: [&str; 3] = ["xmit_utilization", "rcv_utilization", "xmit_blocked"];

/// Number of metrics of the frames.
pub(crate) const COUNT: usize = METRICS.len();
