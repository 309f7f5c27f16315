//! The sweep: queries every assigned port once a slot, and makes one record for each port, answered
//! or not.
//!
//! A **slot** is one numbered interval of the wall clock, which starts at the same instant on all
//! samplers. A **sample** is the outcome of one slot for one port. The **timeout** of a MAD frees
//! its place in the **window**. Until the end of the **grace period** its reply still counts, and
//! the port is `late`.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the devices and ports of one sampler |
//! | [`engine`] | the state machine of queries and replies, without I/O and without a clock |
//! | [`group_list`] | the counter groups of a sweep, each once |
//! | [`inflight`] | MADs in flight, by TID, with their timeouts |
//! | [`sample`] | the outcome of a slot for one port |
//! | [`schedule`] | start times of slots, and gaps between them |
//! | [`smp_limit`] | the number of SMPs in flight |
//! | [`stats`] | the sum of a slot |
//! | [`blocked`] | ticks of PortXmitWait as a share of time |
//! | [`window`] | the number of MADs in flight, and MADs a second |
//! | [`counter`] | readings as rates: resets, saturation, gaps |
//! | [`record`](crate::record) | the JSON records |
//! | [`driver`] | joins engine, transport, clock and output; the only module that reads clocks |
//! | [`virtual_sweep`] | the driver's loop on a simulated fabric, in virtual time |
//! | [`query`] | queries of one port, printed in the format of `perfquery` |

pub mod blocked;
pub mod counter;
pub mod driver;
pub mod engine;
pub mod group_list;
pub mod inflight;
pub mod plan;
pub mod query;
pub mod sample;
pub mod schedule;
pub mod smp_limit;
pub mod stats;
pub mod virtual_sweep;
pub mod window;
