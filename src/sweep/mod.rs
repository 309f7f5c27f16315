//! Sweeps: the queries for the counters of all assigned ports in one time slot. Every port gets
//! one record for each slot that ran, even if the port did not answer.
//!
//! - A **slot** is one numbered interval of the wall clock. It starts at the same time on all
//!   samplers.
//! - A **sample** is the result of one slot for one port.
//! - The **window** is the max number of MADs in flight at once.
//! - The **timeout** is the time after which an unanswered MAD leaves the window. It counts from
//!   the moment at which the MAD is sent.
//! - The **grace period** counts from the same moment and is longer. A reply after the timeout is
//!   accepted until the grace period ends, but its port is then `late`.
//!
//! | module | content |
//! |---|---|
//! | [`plan`] | the devices and ports of one sampler |
//! | [`routes`] | directed routes along the cables of the plan |
//! | [`engine`] | the state machine of queries and replies, without I/O and without a clock |
//! | [`group_list`] | the counter groups of a sweep, each once |
//! | [`cadence`] | the slots in which each group of a port is queried |
//! | [`inflight`] | MADs in flight with their timeouts, found by transaction identifier (TID) |
//! | [`sample`] | the result of a slot for one port |
//! | [`schedule`] | start times of slots, and gaps between them |
//! | [`smp_limit`] | the number of SMPs in flight |
//! | [`stats`] | the totals of a slot |
//! | [`blocked`] | ticks of PortXmitWait as a share of time |
//! | [`window`] | the limits of MADs in flight and of MADs per second |
//! | [`clearing`] | when counters are cleared, and what clearing can lose |
//! | [`counter`] | rates from two readings of a counter; resets, saturation, gaps |
//! | [`port_record`] | the record of a port: the result of a slot as JSON |
//! | [`physical_record`] | the values of registers in the records of the physical layer |
//! | [`driver`] | connects engine, transport, clock and output; the only module that reads clocks |
//! | [`virtual_sweep`] | the loop of the driver on a simulated fabric, in simulated time |
//! | [`query`] | queries of one port, printed in the format of `perfquery` |

pub mod blocked;
pub mod cadence;
pub mod clearing;
pub mod counter;
pub mod driver;
pub mod engine;
pub mod group_list;
pub mod inflight;
pub mod physical_record;
pub mod plan;
pub mod port_record;
pub mod query;
pub mod routes;
pub mod sample;
pub mod schedule;
pub mod smp_limit;
pub mod stats;
pub mod subscription;
mod totals;
pub mod virtual_sweep;
pub mod window;
